/* Loading: what the host had is as it was. */
#include <fcntl.h>
#include <unistd.h>

#include "every.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

static void *library;

static void check_serves(void)
{
  arenagen_arena_options options = ARENAGEN_ARENA_OPTIONS_INIT;
  arenagen_arena arena = 0;
  void *address;

  CHECK_EQUAL(ARENAGEN_STATUS_OK, FIND(library, arenagen_arena_create)(&options, &arena));
  CHECK_EQUAL(ARENAGEN_STATUS_OK, FIND(library, arenagen_arena_malloc)(arena, 1, 0, NULL, &address));
  memset(address, 1, 1);
  CHECK_EQUAL(ARENAGEN_STATUS_OK, FIND(library, arenagen_arena_free)(arena, address));
  CHECK_EQUAL(ARENAGEN_STATUS_OK, FIND(library, arenagen_arena_release)(arena));
}

static void load_it(void)
{
  library = load(path_of("LIBRARY"));
}

/* The limit on open files. */

static void check_limit(struct rlimit want)
{
  struct rlimit now;

  CHECK_EQUAL(0, getrlimit(RLIMIT_NOFILE, &now));
  CHECK_EQUAL(want.rlim_cur, now.rlim_cur);
  CHECK_EQUAL(want.rlim_max, now.rlim_max);
}

/* Loads the library under a limit on open files, and checks it right after that and after the first calls. A hard limit
   of 0 is the one that there is. */
static void load_under(rlim_t soft, rlim_t hard)
{
  struct rlimit limit;

  CHECK_EQUAL(0, getrlimit(RLIMIT_NOFILE, &limit));
  if (hard != 0)
    limit.rlim_max = hard;
  limit.rlim_cur = soft;
  CHECK_EQUAL(0, setrlimit(RLIMIT_NOFILE, &limit));
  load_it();
  check_limit(limit);
  check_serves();
  check_limit(limit);
}

SCENARIO(a_soft_limit_of_256_files_stays)
{
  load_under(256, 0);
}

SCENARIO(a_soft_limit_of_1024_files_stays)
{
  load_under(1024, 0);
}

SCENARIO(a_soft_limit_at_the_hard_limit_stays)
{
  load_under(512, 512);
}

SCENARIO(a_limit_that_the_host_sets_later_stays)
{
  struct rlimit limit;

  load_it();
  CHECK_EQUAL(0, getrlimit(RLIMIT_NOFILE, &limit));
  limit.rlim_cur = 300;
  CHECK_EQUAL(0, setrlimit(RLIMIT_NOFILE, &limit));
  check_serves();
  check_limit(limit);
}

/* Signals. */

static void handle(int signal)
{
  (void)signal;
}

/* The signals whose handlers a Go runtime takes over and forwards from. */
static int belongs_to_go(int signal)
{
  return signal == SIGBUS || signal == SIGFPE || signal == SIGSEGV || signal == SIGPIPE || signal == SIGURG;
}

SCENARIO(handlers_of_the_host_stay)
{
  struct sigaction mine = {.sa_handler = handle, .sa_flags = SA_ONSTACK | SA_NODEFER};

  for (int signal = 1; signal < SIGRTMIN; signal++)
    if (signal != SIGKILL && signal != SIGSTOP && signal < 32)
      CHECK_EQUAL(0, sigaction(signal, &mine, NULL));
  load_it();
  check_serves();
  for (int signal = 1; signal < 32; signal++) {
    struct sigaction now;

    if (signal == SIGKILL || signal == SIGSTOP || belongs_to_go(signal))
      continue;
    CHECK_EQUAL(0, sigaction(signal, NULL, &now));
    CHECK_EQUAL((uintptr_t)handle, (uintptr_t)now.sa_handler);
    CHECK(now.sa_flags & SA_NODEFER);
  }
}

SCENARIO(what_the_host_does_not_handle_stays_so)
{
  struct sigaction before[32], now;

  /* Some may be ignored: a shell does that to what it runs in the background. */
  for (int signal = 1; signal < 32; signal++)
    CHECK_EQUAL(0, sigaction(signal, NULL, &before[signal]));
  load_it();
  check_serves();
  for (int signal = 1; signal < 32; signal++) {
    if (belongs_to_go(signal))
      continue;
    CHECK_EQUAL(0, sigaction(signal, NULL, &now));
    CHECK_EQUAL((uintptr_t)before[signal].sa_handler, (uintptr_t)now.sa_handler);
  }
}

SCENARIO(a_signal_that_the_host_ignores_stays_ignored)
{
  int ends[2];

  CHECK(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
  load_it();
  check_serves();
  CHECK_EQUAL(0, pipe(ends));
  CHECK_EQUAL(0, close(ends[0]));
  CHECK_EQUAL(-1, write(ends[1], "x", 1));
  CHECK_EQUAL(EPIPE, errno);
}

static sigjmp_buf recovery;

static void recover(int signal)
{
  siglongjmp(recovery, signal);
}

SCENARIO(faults_of_the_host_go_to_its_handler_from_before)
{
  struct sigaction action = {.sa_handler = recover, .sa_flags = SA_ONSTACK};
  volatile char *unmapped = (volatile char *)8;

  CHECK_EQUAL(0, sigaction(SIGSEGV, &action, NULL));
  load_it();
  for (int i = 0; i < 10; i++) {
    check_serves();
    if (sigsetjmp(recovery, 1) == 0) {
      *unmapped = 1;
      FAIL("nothing could be written to");
    }
  }
}

static void check_mask(const sigset_t *want)
{
  sigset_t now;

  CHECK_EQUAL(0, pthread_sigmask(SIG_SETMASK, NULL, &now));
  for (int signal = 1; signal <= SIGRTMAX; signal++)
    if (sigismember(want, signal) != sigismember(&now, signal))
      FAIL("signal %d is %s now", signal, sigismember(&now, signal) ? "blocked" : "open");
}

static void load_under_mask(const sigset_t *mask)
{
  sigset_t set;

  CHECK_EQUAL(0, pthread_sigmask(SIG_SETMASK, mask, NULL));
  CHECK_EQUAL(0, pthread_sigmask(SIG_SETMASK, NULL, &set));
  load_it();
  check_mask(&set);
  check_serves();
  check_mask(&set);
}

SCENARIO(an_empty_signal_mask_stays)
{
  sigset_t mask;

  sigemptyset(&mask);
  load_under_mask(&mask);
}

SCENARIO(a_full_signal_mask_stays)
{
  sigset_t mask;

  sigfillset(&mask);
  load_under_mask(&mask);
}

static void call_under_full_mask(int number)
{
  sigset_t all, set;

  (void)number;
  sigfillset(&all);
  CHECK_EQUAL(0, pthread_sigmask(SIG_SETMASK, &all, NULL));
  CHECK_EQUAL(0, pthread_sigmask(SIG_SETMASK, NULL, &set));
  check_serves();
  check_mask(&set);
  FIND(library, mx_malloc)(1, 0, NULL);
  check_mask(&set);
}

SCENARIO(a_threads_signal_mask_stays)
{
  load_it();
  on_threads(8, call_under_full_mask);
}

/* Threads that load. */

static void load_and_use(int number)
{
  (void)number;
  load_it();
  check_serves();
}

SCENARIO(a_thread_with_a_small_stack_may_load)
{
  team loaders;

  start_team(&loaders, 1, SMALL_STACK, load_and_use);
  join_team(&loaders);
  check_serves();
}

SCENARIO(several_threads_may_load_at_once)
{
  on_threads(8, load_and_use);
  check_serves();
}

/* The library is never unloaded. */

SCENARIO(it_works_on_after_dlclose)
{
  load_it();
  check_serves();
  CHECK_EQUAL(0, dlclose(library));
  check_serves();
  CHECK(load(path_of("LIBRARY")) == library);
  check_serves();
}

SCENARIO(it_can_be_closed_and_loaded_for_ever)
{
  int files, mappings;

  load_it();
  check_serves();
  files = open_files();
  mappings = count_mappings();
  for (int i = 0; i < 1000; i++) {
    CHECK_EQUAL(0, dlclose(library));
    load_it();
  }
  check_serves();
  CHECK_EQUAL(files, open_files());
  CHECK_FLAT(mappings, count_mappings(), 4);
}

SCENARIO(its_symbols_do_not_leak_into_the_process)
{
  load_it();
  CHECK(dlsym(RTLD_DEFAULT, "mx_malloc") == NULL);
  CHECK(dlsym(library, "goMalloc") == NULL);
  CHECK(dlsym(library, "crosscall2") == NULL);
  CHECK(dlsym(library, "arenagen_note") == NULL);
}

/* A host without standard files must not find anything of the library's under their numbers. */
SCENARIO(standard_files_that_are_closed_stay_nobodys)
{
  int output = fcntl(STDERR_FILENO, F_DUPFD, 10);
  char names[3][64] = {{0}};

  for (int file = 0; file < 3; file++)
    close(file);
  load_it();
  check_serves();
  for (int file = 0; file < 3; file++) {
    char link[32];

    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    if (readlink(link, names[file], sizeof names[file] - 1) < 0)
      names[file][0] = '?';
  }
  dup2(output, STDERR_FILENO);
  for (int file = 0; file < 3; file++)
    CHECK(strcmp(names[file], "/dev/null") == 0);
}

/* A fork handler that the host registered before, so that it runs first in a child. */

static void call_in_child(void)
{
  expect_refusals(library, ARENAGEN_STATUS_FORKED, "was forked", 1, &library);
}

SCENARIO(a_fork_handler_from_before_is_refused)
{
  int status;
  pid_t child;

  CHECK_EQUAL(0, pthread_atfork(NULL, NULL, call_in_child));
  load_it();
  check_serves();
  child = fork();
  if (child == 0)
    _exit(0);
  CHECK_EQUAL(child, waitpid(child, &status, 0));
  CHECK_EQUAL(0, status);
}
