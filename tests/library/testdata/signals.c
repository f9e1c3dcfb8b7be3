/* Signals that hit threads inside the library, and signals that are the host's to wait for. */
#include "arenas.h"

#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/signalfd.h>
#include <sys/time.h>

enum { TARGETS = 4, SIGNALS = 20000 };

static arenagen_arena arena;
static atomic_int stop;
static atomic_long handled;
static stack_t own_stacks[TARGETS];

static void count_signal(int signal)
{
  (void)signal;
  atomic_fetch_add(&handled, 1);
}

/* A handler that needs a large part of a small stack. */
static void count_signal_widely(int signal)
{
  volatile char wide[32 << 10];

  for (size_t i = 0; i < sizeof wide; i += 512)
    wide[i] = (char)signal;
  count_signal(signal);
}

static void handle_with(int signal, void (*handler)(int), int flags)
{
  struct sigaction action = {.sa_handler = handler, .sa_flags = flags};

  CHECK_EQUAL(0, sigaction(signal, &action, NULL));
}

/* Does what enters the library deeply, and checks it. */
static void be_a_target(int number)
{
  if (own_stacks[number].ss_sp != NULL)
    CHECK_EQUAL(0, sigaltstack(&own_stacks[number], NULL));
  for (int i = 0; !atomic_load(&stop); i++) {
    char *address = mx_malloc(100, 0, NULL);

    if (address == NULL)
      FAIL("%s", last_error().text);
    memset(address, number, 100);
    CHECK_EQUAL(number, address[99]);
    mx_free(address, 100, 0, NULL);
    if (i % 16 == 0) {
      OK(arenagen_arena_release(create(NULL)));
      REFUSED(ARENAGEN_STATUS_INVALID_HANDLE, "", arenagen_arena_close, 1);
    }
  }
}

/* Sends signals to threads that use the library. */
static void storm(void (*handler)(int), int flags)
{
  team targets;

  arena = create_active(NULL);
  handle_with(SIGUSR1, handler, flags);
  start_team(&targets, TARGETS, 0, be_a_target);
  for (int i = 0; i < SIGNALS; i++)
    CHECK_EQUAL(0, pthread_kill(targets.workers[i % TARGETS].thread, SIGUSR1));
  atomic_store(&stop, 1);
  join_team(&targets);
  CHECK(atomic_load(&handled) > 0);
  CHECK_EQUAL(0, live_in(arena));
  CHECK_EQUAL(0, stats_of(arena).failed);
}

SCENARIO(a_storm_on_the_stack_that_is_interrupted)
{
  storm(count_signal, 0);
}

SCENARIO(a_storm_whose_handler_needs_much_stack)
{
  storm(count_signal_widely, 0);
}

SCENARIO(a_storm_that_restarts_calls)
{
  storm(count_signal, SA_RESTART);
}

SCENARIO(a_storm_on_alternate_stacks)
{
  for (int i = 0; i < TARGETS; i++)
    own_stacks[i] = (stack_t){.ss_sp = malloc(64 << 10), .ss_size = 64 << 10};
  storm(count_signal_widely, SA_ONSTACK);
}

SCENARIO(a_storm_on_the_stacks_that_go_brings)
{
  storm(count_signal, SA_ONSTACK);
}

SCENARIO(a_timer_of_the_process)
{
  struct itimerval often = {.it_interval = {.tv_usec = 500}, .it_value = {.tv_usec = 500}};
  team targets;

  arena = create_active(NULL);
  handle_with(SIGALRM, count_signal, 0);
  handle_with(SIGPROF, count_signal, SA_ONSTACK);
  CHECK_EQUAL(0, setitimer(ITIMER_REAL, &often, NULL));
  CHECK_EQUAL(0, setitimer(ITIMER_PROF, &often, NULL));
  start_team(&targets, TARGETS, 0, be_a_target);
  while (atomic_load(&handled) < 500)
    sched_yield();
  atomic_store(&stop, 1);
  join_team(&targets);
  CHECK_EQUAL(0, live_in(arena));
}

SCENARIO(handlers_of_the_host_are_called)
{
  static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCHLD, SIGALRM, SIGWINCH};

  arena = create_active(NULL);
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
    handle_with(signals[i], count_signal, 0);
    CHECK_EQUAL(0, kill(getpid(), signals[i]));
    while (atomic_load(&handled) <= (long)i)
      sched_yield();
  }
  CHECK(mx_malloc(1, 0, NULL) != NULL);
}

/* Blocks a signal in this thread, which is the only one of the host's. */
static sigset_t block(int signal)
{
  sigset_t set;

  sigemptyset(&set);
  sigaddset(&set, signal);
  CHECK_EQUAL(0, pthread_sigmask(SIG_BLOCK, &set, NULL));
  return set;
}

SCENARIO(a_signal_that_the_host_blocks_waits_for_it)
{
  static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM, SIGIO};

  arena = create_active(NULL);
  mx_free(mx_malloc(1, 0, NULL), 1, 0, NULL);
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
    sigset_t set = block(signals[i]);
    int got;

    CHECK_EQUAL(0, kill(getpid(), signals[i]));
    mx_free(mx_malloc(1, 0, NULL), 1, 0, NULL);
    CHECK_EQUAL(0, sigwait(&set, &got));
    CHECK_EQUAL(signals[i], got);
  }
}

SCENARIO(a_signalfd_gets_its_signals)
{
  struct signalfd_siginfo info;
  sigset_t set;
  int fd;

  arena = create_active(NULL);
  set = block(SIGTERM);
  fd = signalfd(-1, &set, 0);
  CHECK(fd >= 0);
  for (int i = 0; i < 100; i++) {
    CHECK_EQUAL(0, kill(getpid(), SIGTERM));
    mx_free(mx_malloc(1, 0, NULL), 1, 0, NULL);
    CHECK_EQUAL(sizeof info, read(fd, &info, sizeof info));
    CHECK_EQUAL(SIGTERM, info.ssi_signo);
  }
}

static uintptr_t ran_on;

static void note_stack(int signal)
{
  (void)signal;
  ran_on = (uintptr_t)__builtin_frame_address(0);
}

/* A thread with an alternate stack of its own calls the library. */
static void keep_alternate_stack(int number)
{
  stack_t mine = {.ss_sp = malloc(64 << 10), .ss_size = 64 << 10}, now;

  (void)number;
  CHECK_EQUAL(0, sigaltstack(&mine, NULL));
  mx_free(mx_malloc(1, 0, NULL), 1, 0, NULL);
  CHECK_EQUAL(0, sigaltstack(NULL, &now));
  CHECK_EQUAL((uintptr_t)mine.ss_sp, (uintptr_t)now.ss_sp);
  CHECK_EQUAL(mine.ss_size, now.ss_size);
  CHECK_EQUAL(0, raise(SIGUSR1));
  CHECK(ran_on - (uintptr_t)mine.ss_sp < mine.ss_size);
}

SCENARIO(an_alternate_stack_of_the_host_stays)
{
  arena = create_active(NULL);
  handle_with(SIGUSR1, note_stack, SA_ONSTACK);
  on_threads(1, keep_alternate_stack);
}

static sigjmp_buf recovery;

static void recover(int signal)
{
  siglongjmp(recovery, signal);
}

SCENARIO(a_fault_of_the_host_goes_to_its_handler)
{
  static const int flags[] = {0, SA_ONSTACK, SA_NODEFER};

  arena = create_active(NULL);
  for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
    handle_with(SIGSEGV, recover, flags[i]);
    if (sigsetjmp(recovery, 1) == 0) {
      *(volatile char *)stats_of(arena).base = 1;
      FAIL("memory that was not allocated could be written");
    }
    mx_free(mx_malloc(1, 0, NULL), 1, 0, NULL);
  }
}
