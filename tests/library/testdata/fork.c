/* Forked children: every export answers at once, and they end as they want to. */
#include "arenas.h"
#include "every.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { CHILDREN = 100, PATIENCE_MS = 60000 };

static arenagen_arena arena;
static void *address;

/* Waits for a child and returns its wait status. A child that hangs is ended, and the scenario fails. */
static int await(pid_t child)
{
  struct pollfd end = {.fd = pidfd_open(child, 0), .events = POLLIN};
  int status;

  CHECK(end.fd >= 0);
  if (poll(&end, 1, PATIENCE_MS) != 1) {
    kill(child, SIGKILL);
    FAIL("the child hangs in %s", *current);
  }
  close(end.fd);
  CHECK_EQUAL(child, waitpid(child, &status, 0));
  return status;
}

/* Makes what a child is doing visible to its parent. */
static void share_current(void)
{
  current = mmap(NULL, sizeof *current, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(current != MAP_FAILED);
  *current = "nothing";
}

static void call_every_export(void)
{
  expect_refusals(RTLD_DEFAULT, ARENAGEN_STATUS_FORKED, "was forked", arena, address);
}

/* Has a child do something and then exit as programs do. */
static void in_child(void (*action)(void))
{
  pid_t child = fork();

  CHECK(child >= 0);
  if (child == 0) {
    action();
    *current = "exit";
    exit(0);
  }
  CHECK_EQUAL(0, await(child));
}

static void in_children(int number)
{
  (void)number;
  for (int i = 0; i < CHILDREN; i++)
    in_child(call_every_export);
}

static void set_up(void)
{
  share_current();
  arena = create_active(NULL);
  address = mx_malloc(1, 0, NULL);
}

SCENARIO(a_child_of_a_process_that_never_called_the_library)
{
  share_current();
  in_children(0);
}

SCENARIO(a_child_of_a_process_that_uses_the_library)
{
  set_up();
  in_children(0);
  /* The parent goes on. */
  mx_free(address, 1, 0, NULL);
  CHECK_EQUAL(0, live_in(arena));
}

SCENARIO(a_child_that_another_thread_forked)
{
  set_up();
  on_threads(1, in_children);
}

static void do_nothing(int number)
{
  (void)number;
}

SCENARIO(a_child_that_a_thread_forked_which_never_called)
{
  team idle;

  start_team(&idle, 4, 0, do_nothing);
  join_team(&idle);
  share_current();
  on_threads(1, in_children);
}

static atomic_int stop;

static void allocate_until_stopped(int number)
{
  (void)number;
  while (!atomic_load(&stop)) {
    void *mine = mx_malloc(1, 0, NULL);

    CHECK(mine != NULL);
    memset(mine, 1, 100);
    mx_free(mine, 1, 0, NULL);
    arenagen_arena_malloc(0, 1, 0, NULL, &mine);
  }
}

SCENARIO(a_child_that_is_forked_while_others_are_inside)
{
  team others;

  set_up();
  start_team(&others, 4, 0, allocate_until_stopped);
  in_children(0);
  on_threads(1, in_children);
  atomic_store(&stop, 1);
  join_team(&others);
  CHECK_EQUAL(1, live_in(arena));
}

static void fork_again(void)
{
  call_every_export();
  in_child(call_every_export);
}

SCENARIO(a_grandchild)
{
  set_up();
  in_child(fork_again);
}

static void use_threads(void)
{
  /* What the child does without the library works. */
  on_threads(4, do_nothing);
  call_every_export();
}

SCENARIO(a_child_may_start_threads)
{
  set_up();
  in_child(use_threads);
}

static void *child_thread(void *unused)
{
  call_every_export();
  return unused;
}

static void call_from_a_thread(void)
{
  pthread_t thread;

  CHECK_EQUAL(0, pthread_create(&thread, NULL, child_thread, NULL));
  CHECK_EQUAL(0, pthread_join(thread, NULL));
}

SCENARIO(a_thread_of_a_child)
{
  set_up();
  in_child(call_from_a_thread);
}

static void see_error_of_parent(void)
{
  CHECK_CONTAINS("0x9 ", last_error().text);
  mx_free(address, 1, 0, NULL);
  CHECK_CONTAINS("0x9 ", last_error().text);
  CHECK(mx_malloc(1, 0, NULL) == NULL);
  CHECK_CONTAINS("must use exec", last_error().text);
}

SCENARIO(the_last_error_goes_on_in_a_child)
{
  set_up();
  REFUSED(ARENAGEN_STATUS_INVALID_HANDLE, "0x9 ", arenagen_arena_close, 9);
  in_child(see_error_of_parent);
  CHECK_CONTAINS("0x9 ", last_error().text);
}

SCENARIO(a_child_for_which_no_handler_runs)
{
  set_up();
  for (int i = 0; i < CHILDREN; i++) {
    /* Not fork but the call below it. */
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);

    CHECK(child >= 0);
    if (child == 0) {
      call_every_export();
      _exit(0);
    }
    CHECK_EQUAL(0, await(child));
  }
}

SCENARIO(a_child_that_crashes_ends)
{
  static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGABRT, SIGPIPE, SIGTERM, SIGILL};

  set_up();
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
    pid_t child = fork();
    int status;

    if (child == 0) {
      *current = "a crash";
      close(STDERR_FILENO);
      raise(signals[i]);
      _exit(0);
    }
    status = await(child);
    CHECK(WIFSIGNALED(status));
    CHECK_EQUAL(signals[i], WTERMSIG(status));
  }
}

static void allocate_and_free(void)
{
  void *own;

  arena = create_active(NULL);
  own = mx_malloc(1, 0, NULL);
  CHECK(own != NULL);
  mx_free(own, 1, 0, NULL);
}

SCENARIO(a_program_that_a_child_executes_has_a_library_of_its_own)
{
  set_up();
  for (int i = 0; i < 5; i++) {
    pid_t child = fork();

    if (child == 0) {
      execl("/proc/self/exe", "program", "the_program_that_is_executed", (char *)NULL);
      _exit(1);
    }
    CHECK_EQUAL(0, await(child));
  }
}

SCENARIO(the_program_that_is_executed)
{
  allocate_and_free();
}
