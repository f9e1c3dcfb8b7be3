/* A program that is linked with a library and loads its twin. */
#include "arenas.h"
#include "every.h"

SCENARIO(a_twin_that_is_loaded_later_refuses)
{
  arenagen_arena arena = create_active(NULL);
  void *address = mx_malloc(1, 0, NULL);

  expect_refusals(load(path_of("TWIN")), ARENAGEN_STATUS_SECOND_LIBRARY, "libarenagen_stub.so.1", arena, address);
  CHECK_EQUAL(1, live_in(arena));
  mx_free(address, 1, 0, NULL);
  CHECK_EQUAL(0, live_in(arena));
}

SCENARIO(what_is_loaded_later_under_its_own_path_is_the_same)
{
  arenagen_arena arena = create_active(NULL);
  void *library = load(path_of("LIBRARY"));

  CHECK_EQUAL((uintptr_t)mx_malloc, (uintptr_t)FIND(library, mx_malloc));
  CHECK(FIND(library, mx_malloc)(1, 0, NULL) != NULL);
  CHECK_EQUAL(1, live_in(arena));
}

static arenagen_arena left;
static void *left_address;

__attribute__((destructor)) static void use_late(void)
{
  if (left == 0)
    return;
  CHECK_EQUAL(left, owner_of(left_address));
  mx_free(left_address, 1, 0, NULL);
  CHECK_EQUAL(0, live_in(left));
  mx_free(mx_malloc(1, 0, NULL), 1, 0, NULL);
  OK(arenagen_arena_release(left));
}

static void use_at_exit(void)
{
  mx_free(mx_malloc(1, 0, NULL), 1, 0, NULL);
  CHECK_EQUAL(1, live_in(left));
}

SCENARIO(handlers_and_destructors_at_exit_may_call)
{
  atexit(use_at_exit);
  left = create_active(NULL);
  left_address = mx_malloc(1, 0, NULL);
}

static void allocate_for_ever(int number)
{
  (void)number;
  for (;;)
    mx_free(mx_malloc(1, 0, NULL), 1, 0, NULL);
}

SCENARIO(a_process_may_end_while_threads_are_inside)
{
  static team busy;
  arenagen_arena arena = create_active("mode=record");

  start_team(&busy, 4, 0, allocate_for_ever);
  while (stats_of(arena).released < 1000)
    sched_yield();
}

SCENARIO(a_process_may_end_with_everything_open)
{
  for (int i = 0; i < 10; i++) {
    create_active(NULL);
    memset(mx_malloc(1, 0, NULL), 1, 1);
  }
}
