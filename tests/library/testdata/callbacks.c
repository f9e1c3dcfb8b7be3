/* Arenas over functions of the caller's. */
#include "arenas.h"

#include <limits.h>
#include <semaphore.h>

enum { BASE = 1 << 30 };

/* What the callbacks of an arena do, and what they saw. */
typedef struct {
  arenagen_arena arena;
  int32_t allocate_answers, release_answers;
  void (*inside)(void);
  uint64_t address, size, handle;
  int allocated, released;
} backing;

static int32_t on_allocate(void *user, uint64_t address, uint64_t size, uint64_t *handle)
{
  backing *b = user;

  b->allocated++;
  b->address = address;
  b->size = size;
  *handle = address ^ UINT64_MAX;
  if (b->inside != NULL)
    b->inside();
  return b->allocate_answers;
}

static int32_t on_release(void *user, uint64_t address, uint64_t size, uint64_t handle)
{
  backing *b = user;

  b->released++;
  b->address = address;
  b->size = size;
  b->handle = handle;
  if (b->inside != NULL)
    b->inside();
  return b->release_answers;
}

static arenagen_arena create_over(backing *b)
{
  arenagen_callback_options options = ARENAGEN_CALLBACK_OPTIONS_INIT;

  options.device = 7;
  options.base = BASE;
  options.allocate = on_allocate;
  options.release = on_release;
  options.user = b;
  OK(arenagen_arena_create_callbacks(&options, &b->arena));
  return b->arena;
}

static backing one, two;

SCENARIO(the_callbacks_back_what_is_allocated)
{
  arenagen_arena arena = create_over(&one);
  void *address = allocate(arena, GRANULE + 1);

  CHECK_EQUAL(BASE, (uintptr_t)address);
  CHECK_EQUAL(1, one.allocated);
  CHECK_EQUAL(BASE, one.address);
  CHECK_EQUAL(2 * GRANULE, one.size);
  CHECK_EQUAL(BASE + 2 * GRANULE, (uintptr_t)allocate(arena, 1));
  OK(arenagen_arena_free(arena, address));
  CHECK_EQUAL(1, one.released);
  CHECK_EQUAL(BASE, one.address);
  CHECK_EQUAL(2 * GRANULE, one.size);
  CHECK_EQUAL(BASE ^ UINT64_MAX, one.handle);
  CHECK_EQUAL(7, stats_of(arena).device);
  OK(arenagen_arena_close(arena));
  CHECK_EQUAL(2, one.released);
}

SCENARIO(the_pair_works_over_callbacks)
{
  void *address;

  OK(arenagen_set_active(3, create_over(&one)));
  address = mx_malloc(100, 3, NULL);
  CHECK_EQUAL(BASE, (uintptr_t)address);
  mx_free(address, 100, 3, NULL);
  CHECK_EQUAL(1, one.released);
}

SCENARIO(a_code_of_the_allocate_callback_comes_out)
{
  static const int32_t codes[] = {1, -1, 77, INT32_MAX, INT32_MIN};
  arenagen_arena arena = create_over(&one);
  void *address = &one;

  OK(arenagen_set_active_any(arena));
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
    one.allocate_answers = codes[i];
    REFUSED(ARENAGEN_STATUS_CALLBACK, "the allocate callback answered", arenagen_arena_malloc, arena, 1, 0, NULL, &address);
    CHECK(address == NULL);
    CHECK_EQUAL(codes[i], last_error().driver_code);
    CHECK_EQUAL(one.address, last_error().address);
    CHECK_EQUAL(GRANULE, last_error().size);
    NO_MEMORY(ARENAGEN_STATUS_CALLBACK, "the allocate callback answered", 1, 0);
    CHECK_EQUAL(codes[i], last_error().driver_code);
  }
  one.allocate_answers = 0;
  /* The addresses of failures are lost, all else is as before. */
  CHECK_EQUAL(BASE + 10 * GRANULE, (uintptr_t)allocate(arena, 1));
  CHECK_EQUAL(1, live_in(arena));
  CHECK_EQUAL(GRANULE, stats_of(arena).mapped);
  CHECK_EQUAL(10, stats_of(arena).failed);
  CHECK_EQUAL(0, one.released);
}

SCENARIO(a_code_of_the_release_callback_comes_out_and_the_allocation_is_gone)
{
  arenagen_arena arena = create_over(&one);
  void *address = allocate(arena, 1), *other = allocate(arena, 1);

  one.release_answers = -5;
  REFUSED(ARENAGEN_STATUS_CALLBACK, "the release callback answered -5", arenagen_arena_free, arena, address);
  CHECK_EQUAL(-5, last_error().driver_code);
  CHECK_EQUAL(1, live_in(arena));
  arenagen_clear_error();
  mx_free(other, 1, 0, NULL);
  check_last_error(__FILE__, __LINE__, ARENAGEN_STATUS_CALLBACK, "mx_free", "the release callback answered -5");
  CHECK_EQUAL(0, live_in(arena));
  CHECK_EQUAL(2, stats_of(arena).failed_releases);
}

SCENARIO(close_goes_on_past_failures_and_counts_them)
{
  arenagen_arena arena = create_over(&one);

  for (int i = 0; i < 5; i++)
    allocate(arena, 1);
  one.release_answers = 9;
  REFUSED(ARENAGEN_STATUS_CALLBACK, "and 4 more failures", arenagen_arena_close, arena);
  CHECK_EQUAL(9, last_error().driver_code);
  CHECK_EQUAL(5, one.released);
  CHECK_EQUAL(1, is_closed(arena));
  OK(arenagen_arena_close(arena));
  CHECK_EQUAL(5, one.released);
  OK(arenagen_arena_release(arena));
}

/* Calls from inside a callback. */

static void ask_everything(void)
{
  backing *b = &one;
  uint64_t length;
  size_t count;
  void *base;

  b->inside = NULL;
  stats_of(b->arena);
  diagnose();
  live_in(b->arena);
  CHECK_EQUAL(0, is_closed(b->arena));
  OK(arenagen_arena_registered_range(b->arena, &base, &length));
  OK(arenagen_arena_close_and_drain(b->arena, NULL, 0, &count));
  CHECK_EQUAL(b->arena, owner_of((void *)BASE));
  OK(arenagen_set_active(1, b->arena));
  mx_free(mx_malloc(1, 1, NULL), 1, 1, NULL);
  OK(arenagen_arena_free(b->arena, allocate(b->arena, 1)));
}

SCENARIO(a_callback_may_ask_and_allocate_and_free)
{
  void *address;

  create_over(&one);
  one.inside = ask_everything;
  address = allocate(one.arena, 1);
  one.inside = ask_everything;
  OK(arenagen_arena_free(one.arena, address));
  CHECK_EQUAL(0, live_in(one.arena));
  CHECK_EQUAL(5, one.allocated);
}

static void end_own(void)
{
  static arenagen_allocation buffer[4];
  size_t count;

  REFUSED(ARENAGEN_STATUS_BUSY, "inside a callback", arenagen_arena_close, one.arena);
  REFUSED(ARENAGEN_STATUS_BUSY, "inside a callback", arenagen_arena_release, one.arena);
  REFUSED(ARENAGEN_STATUS_BUSY, "inside a callback", arenagen_arena_close_and_drain, one.arena, buffer, 4, &count);
  CHECK_EQUAL(0, is_closed(one.arena));
}

SCENARIO(a_callback_cannot_end_its_own_arena)
{
  void *address;

  create_over(&one);
  one.inside = end_own;
  address = allocate(one.arena, 1);
  OK(arenagen_arena_free(one.arena, address));
  one.inside = NULL;
  CHECK_EQUAL(0, live_in(one.arena));
  OK(arenagen_arena_close(one.arena));
  OK(arenagen_arena_release(one.arena));
}

static void end_own_while_closing(void)
{
  /* Close has begun: one more does nothing, and a release would wait for it. */
  OK(arenagen_arena_close(one.arena));
  REFUSED(ARENAGEN_STATUS_BUSY, "inside a callback", arenagen_arena_release, one.arena);
  CHECK_EQUAL(1, is_closed(one.arena));
}

SCENARIO(a_callback_of_a_closing_arena_cannot_release_it)
{
  create_over(&one);
  allocate(one.arena, 1);
  one.inside = end_own_while_closing;
  OK(arenagen_arena_close(one.arena));
  CHECK_EQUAL(1, one.released);
}

static void end_the_other(void)
{
  OK(arenagen_arena_close(two.arena));
  OK(arenagen_arena_release(two.arena));
}

SCENARIO(a_callback_may_end_another_arena)
{
  create_over(&one);
  create_over(&two);
  allocate(two.arena, 1);
  one.inside = end_the_other;
  allocate(one.arena, 1);
  CHECK_EQUAL(1, two.released);
  CHECK_EQUAL(1, diagnose().arenas);
}

static void create_another(void)
{
  one.inside = NULL;
  create_over(&two);
}

SCENARIO(a_callback_may_create_an_arena)
{
  create_over(&one);
  one.inside = create_another;
  allocate(one.arena, 1);
  allocate(two.arena, 1);
  CHECK_EQUAL(2, diagnose().arenas);
}

static void recurse(void)
{
  if (one.allocated < 100)
    allocate(one.arena, 1);
}

SCENARIO(callbacks_may_nest_deeply)
{
  create_over(&one);
  one.inside = recurse;
  allocate(one.arena, 1);
  CHECK_EQUAL(100, live_in(one.arena));
}

/* Ranges that coincide. */

SCENARIO(of_ranges_that_coincide_the_active_one_is_asked_first)
{
  void *address;

  create_over(&one);
  create_over(&two);
  address = allocate(one.arena, 1);
  CHECK_EQUAL((uintptr_t)address, (uintptr_t)allocate(two.arena, 1));

  OK(arenagen_set_active_any(two.arena));
  CHECK_EQUAL(two.arena, owner_of(address));
  mx_free(address, 1, 0, NULL);
  CHECK_EQUAL(0, live_in(two.arena));
  CHECK_EQUAL(1, live_in(one.arena));
  /* The active one has it no more, so it is the other's. */
  CHECK_EQUAL(one.arena, owner_of(address));
  mx_free(address, 1, 0, NULL);
  CHECK_EQUAL(0, live_in(one.arena));
  mx_free(address, 1, 0, NULL);
  CHECK_EQUAL(1, one.released);
  CHECK_EQUAL(1, two.released);
}

SCENARIO(of_ranges_that_coincide_a_device_goes_to_its_active_one)
{
  void *address;

  create_over(&one);
  create_over(&two);
  OK(arenagen_set_active(1, one.arena));
  OK(arenagen_set_active(2, two.arena));
  address = mx_malloc(1, 1, NULL);
  CHECK_EQUAL((uintptr_t)address, (uintptr_t)mx_malloc(1, 2, NULL));
  mx_free(address, 1, 2, NULL);
  CHECK_EQUAL(0, live_in(two.arena));
  CHECK_EQUAL(1, live_in(one.arena));
}

/* Threads that wait in a callback. */

static sem_t inside, leave;

static void wait_inside(void)
{
  sem_post(&inside);
  sem_wait(&leave);
}

static void allocate_slowly(int number)
{
  (void)number;
  allocate(one.arena, 1);
}

static void close_one(int number)
{
  (void)number;
  OK(arenagen_arena_close(one.arena));
}

SCENARIO(a_callback_that_waits_stops_nobody_but_a_close)
{
  team slow, closing;
  void *address;

  sem_init(&inside, 0, 0);
  sem_init(&leave, 0, 0);
  create_over(&one);
  one.inside = wait_inside;
  start_team(&slow, 1, 0, allocate_slowly);
  sem_wait(&inside);
  one.inside = NULL;

  address = allocate(one.arena, 1);
  stats_of(one.arena);
  OK(arenagen_arena_free(one.arena, address));
  start_team(&closing, 1, 0, close_one);
  while (!is_closed(one.arena))
    sched_yield();
  CHECK_EQUAL(1, one.released);
  sem_post(&leave);
  join_team(&slow);
  join_team(&closing);
  CHECK_EQUAL(2, one.released);
  CHECK_EQUAL(0, live_in(one.arena));
}

SCENARIO(a_stop_waits_so_long_and_no_longer)
{
  team slow;
  void *address;

  sem_init(&inside, 0, 0);
  sem_init(&leave, 0, 0);
  create_over(&one);
  OK(arenagen_set_active(7, one.arena));
  address = allocate(one.arena, 1);
  one.inside = wait_inside;
  start_team(&slow, 1, 0, allocate_slowly);
  sem_wait(&inside);

  REFUSED(ARENAGEN_STATUS_BUSY, "still under way", arenagen_arena_stop, one.arena, 0);
  REFUSED(ARENAGEN_STATUS_BUSY, "still under way", arenagen_arena_stop, one.arena, 20);
  CHECK_EQUAL(1, is_closed(one.arena));
  CHECK(mx_malloc(1, 7, NULL) == NULL);
  mx_free(address, 1, 7, NULL);
  CHECK_EQUAL(0, one.released);
  CHECK_EQUAL(1, stats_of(one.arena).late_frees);
  sem_post(&leave);
  OK(arenagen_arena_stop(one.arena, INT64_C(3600000)));
  join_team(&slow);
  CHECK_EQUAL(2, live_in(one.arena));
  OK(arenagen_arena_stop(one.arena, 0));
  one.inside = NULL;
  OK(arenagen_arena_release(one.arena));
  CHECK_EQUAL(2, one.released);
}

SCENARIO(a_stopped_arena_can_be_drained)
{
  arenagen_allocation drained[2];
  backing b = {0};
  size_t count;

  create_over(&b);
  allocate(b.arena, 1);
  OK(arenagen_arena_stop(b.arena, 0));
  OK(arenagen_arena_close_and_drain(b.arena, drained, 2, &count));
  CHECK_EQUAL(1, count);
  OK(arenagen_arena_stop(b.arena, 0));
  OK(arenagen_arena_release(b.arena));
  CHECK_EQUAL(0, b.released);
}

static backing *stopped;

static void stop_it(void)
{
  REFUSED(ARENAGEN_STATUS_BUSY, "still under way", arenagen_arena_stop, stopped->arena, INT64_MAX / 1000000);
  REFUSED(ARENAGEN_STATUS_BUSY, "from inside a callback", arenagen_arena_close, stopped->arena);
}

SCENARIO(a_callback_may_stop_its_own_arena_without_waiting)
{
  backing b = {.inside = stop_it};

  stopped = &b;
  create_over(&b);
  allocate(b.arena, 1);
  CHECK_EQUAL(1, is_closed(b.arena));
  b.inside = NULL;
  OK(arenagen_arena_close(b.arena));
  CHECK_EQUAL(1, b.released);
}

SCENARIO(a_stop_takes_milliseconds_of_some_range)
{
  backing b = {0};

  create_over(&b);
  REFUSED(ARENAGEN_STATUS_INVALID_ARGUMENT, "milliseconds must be 0 to", arenagen_arena_stop, b.arena, -1);
  REFUSED(ARENAGEN_STATUS_INVALID_ARGUMENT, "milliseconds must be 0 to", arenagen_arena_stop, b.arena, INT64_MAX);
  CHECK_EQUAL(0, is_closed(b.arena));
}

static int32_t store_nothing(void *user, uint64_t address, uint64_t size, uint64_t *handle)
{
  (void)user, (void)address, (void)size, (void)handle;
  return 0;
}

SCENARIO(a_callback_that_stores_no_handle_has_failed)
{
  arenagen_callback_options options = ARENAGEN_CALLBACK_OPTIONS_INIT;
  arenagen_arena arena;
  void *address;

  options.base = BASE;
  options.allocate = store_nothing;
  options.release = on_release;
  options.user = &one;
  OK(arenagen_arena_create_callbacks(&options, &arena));
  REFUSED(ARENAGEN_STATUS_CALLBACK, "answered -2147483648", arenagen_arena_malloc, arena, 1, 0, NULL, &address);
  CHECK_EQUAL(0, live_in(arena));
  OK(arenagen_arena_release(arena));
  CHECK_EQUAL(0, one.released);
}
