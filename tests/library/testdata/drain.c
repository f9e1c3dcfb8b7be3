/* close_and_drain. */
#include "arenas.h"

enum { LIVE = 200 };

static arenagen_allocation buffer[2 * LIVE];
static arenagen_arena arena;
static void *addresses[LIVE];
static size_t count;

/* An arena with allocations of different sizes, some of which were freed. */
static void set_up(void)
{
  arena = create(NULL);
  for (int i = 0; i < LIVE; i++) {
    addresses[i] = allocate(arena, 1 + i % 3 * GRANULE);
    OK(arenagen_arena_free(arena, allocate(arena, 1)));
  }
  memset(buffer, 0xee, sizeof buffer);
}

/* Checks that the buffer has every allocation once, in the order of the addresses, and nothing behind them. */
static void check_drained(void)
{
  CHECK_EQUAL(LIVE, count);
  for (int i = 0; i < LIVE; i++) {
    CHECK_EQUAL((uintptr_t)addresses[i], buffer[i].address);
    CHECK_EQUAL((1 + i % 3) * GRANULE, buffer[i].size);
    CHECK(buffer[i].handle != 0);
  }
  CHECK_EQUAL(UINT64_C(0xeeeeeeeeeeeeeeee), buffer[LIVE].address);
  CHECK_EQUAL(LIVE, stats_of(arena).handed_over);
  CHECK_EQUAL(0, live_in(arena));
}

SCENARIO(asking_for_the_count_changes_nothing)
{
  set_up();
  for (int i = 0; i < 3; i++) {
    OK(arenagen_arena_close_and_drain(arena, NULL, 0, &count));
    CHECK_EQUAL(LIVE, count);
  }
  CHECK_EQUAL(0, is_closed(arena));
  allocate(arena, 1);
}

SCENARIO(a_buffer_too_small_loses_nothing)
{
  static const size_t capacities[] = {0, 1, LIVE - 1};

  set_up();
  for (size_t i = 0; i < sizeof capacities / sizeof *capacities; i++) {
    REFUSED(ARENAGEN_STATUS_BUFFER_TOO_SMALL, "200 live allocations, room for ", arenagen_arena_close_and_drain, arena, buffer, capacities[i], &count);
    CHECK_EQUAL(LIVE, count);
    CHECK_EQUAL(UINT64_C(0xeeeeeeeeeeeeeeee), buffer[0].address);
    CHECK_EQUAL(1, is_closed(arena));
    CHECK_EQUAL(LIVE, live_in(arena));
    OK(arenagen_arena_close_and_drain(arena, NULL, 0, &count));
    CHECK_EQUAL(LIVE, count);
  }
  OK(arenagen_arena_close_and_drain(arena, buffer, LIVE, &count));
  check_drained();
}

SCENARIO(a_buffer_of_the_right_size_is_filled_in_order)
{
  set_up();
  OK(arenagen_arena_close_and_drain(arena, buffer, LIVE, &count));
  check_drained();
}

SCENARIO(a_larger_buffer_is_filled_as_far_as_needed)
{
  set_up();
  OK(arenagen_arena_close_and_drain(arena, buffer, 2 * LIVE, &count));
  check_drained();
}

SCENARIO(a_capacity_without_end_is_taken_at_its_word)
{
  set_up();
  OK(arenagen_arena_close_and_drain(arena, buffer, SIZE_MAX, &count));
  check_drained();
}

SCENARIO(a_second_drain_is_refused)
{
  set_up();
  OK(arenagen_arena_close_and_drain(arena, buffer, LIVE, &count));
  REFUSED(ARENAGEN_STATUS_CLOSED, "arena is closed", arenagen_arena_close_and_drain, arena, buffer, LIVE, &count);
  OK(arenagen_arena_close(arena));
}

SCENARIO(addresses_cannot_be_given_back_while_the_caller_has_memory_mapped_there)
{
  set_up();
  OK(arenagen_arena_close_and_drain(arena, buffer, LIVE, &count));
  REFUSED(ARENAGEN_STATUS_DRIVER, "bytes of addresses", arenagen_arena_release, arena);
  CHECK_TEXT("HOSTVMM_ERROR_INVALID_VALUE", last_error().driver_name);
  REFUSED(ARENAGEN_STATUS_INVALID_HANDLE, "", arenagen_arena_release, arena);
  /* It still is the caller's. */
  memset((void *)buffer[0].address, 1, buffer[0].size);
}

SCENARIO(a_drain_after_close_is_refused)
{
  set_up();
  OK(arenagen_arena_close(arena));
  REFUSED(ARENAGEN_STATUS_CLOSED, "arena is closed", arenagen_arena_close_and_drain, arena, buffer, LIVE, &count);
  CHECK_EQUAL(0, stats_of(arena).handed_over);
}

SCENARIO(an_empty_arena_is_drained_into_nothing)
{
  arena = create(NULL);
  OK(arenagen_arena_close_and_drain(arena, buffer, 0, &count));
  CHECK_EQUAL(0, count);
  CHECK_EQUAL(1, is_closed(arena));
  REFUSED(ARENAGEN_STATUS_CLOSED, "arena is closed", arenagen_arena_close_and_drain, arena, buffer, 0, &count);
}

SCENARIO(a_close_releases_what_a_refused_drain_kept)
{
  set_up();
  REFUSED(ARENAGEN_STATUS_BUFFER_TOO_SMALL, "", arenagen_arena_close_and_drain, arena, buffer, 1, &count);
  OK(arenagen_arena_close(arena));
  CHECK_EQUAL(0, live_in(arena));
  REFUSED(ARENAGEN_STATUS_CLOSED, "", arenagen_arena_close_and_drain, arena, buffer, LIVE, &count);
}

SCENARIO(a_release_releases_what_a_refused_drain_kept)
{
  set_up();
  REFUSED(ARENAGEN_STATUS_BUFFER_TOO_SMALL, "", arenagen_arena_close_and_drain, arena, buffer, 1, &count);
  OK(arenagen_arena_release(arena));
  CHECK_EQUAL(0, diagnose().arenas);
}

SCENARIO(frees_after_a_drain_are_late)
{
  set_up();
  OK(arenagen_arena_close_and_drain(arena, buffer, LIVE, &count));
  for (int i = 0; i < LIVE; i++)
    mx_free(addresses[i], 1, 0, NULL);
  CHECK_EQUAL(LIVE, stats_of(arena).late_frees);
}

static int drained[8];

static void drain_racing(int number)
{
  static __thread arenagen_allocation own[LIVE];
  size_t n;
  arenagen_status status = arenagen_arena_close_and_drain(arena, own, LIVE, &n);

  CHECK(status == ARENAGEN_STATUS_OK || status == ARENAGEN_STATUS_CLOSED);
  drained[number] = status == ARENAGEN_STATUS_OK ? (int)n : 0;
}

SCENARIO(exactly_one_of_several_threads_gets_the_allocations)
{
  int total = 0;

  set_up();
  on_threads(8, drain_racing);
  for (int i = 0; i < 8; i++)
    total += drained[i];
  CHECK_EQUAL(LIVE, total);
}

/* Allocations of a thread until its arena closes. */
static size_t won[8];

static void allocate_until_closed(int number)
{
  arenagen_status status;
  void *address;

  while ((status = arenagen_arena_malloc(arena, 1, 0, NULL, &address)) == ARENAGEN_STATUS_OK)
    won[number]++;
  CHECK_STATUS(ARENAGEN_STATUS_CLOSED, status);
}

SCENARIO(a_drain_gets_every_allocation_that_won_the_race)
{
  for (int round = 0; round < 20; round++) {
    arenagen_allocation *all;
    team allocating;
    size_t expected = 0;

    arena = create("mode=record");
    memset(won, 0, sizeof won);
    start_team(&allocating, 4, 0, allocate_until_closed);
    while (live_in(arena) < 100)
      sched_yield();
    REFUSED(ARENAGEN_STATUS_BUFFER_TOO_SMALL, "", arenagen_arena_close_and_drain, arena, buffer, 1, &count);
    join_team(&allocating);
    for (int i = 0; i < 4; i++)
      expected += won[i];
    CHECK_EQUAL(expected, count);
    all = calloc(count, sizeof *all);
    OK(arenagen_arena_close_and_drain(arena, all, count, &count));
    CHECK_EQUAL(expected, count);
    CHECK_EQUAL((expected - 1) * GRANULE, all[expected - 1].address - all[0].address);
    free(all);
    OK(arenagen_arena_release(arena));
  }
}
