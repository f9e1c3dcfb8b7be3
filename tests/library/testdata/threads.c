/* Many threads, small ones, and short-lived ones. */
#include "arenas.h"

#include <stdatomic.h>

enum { HAMMERS = 16, BLOWS = 3000, SLOTS = 64 };

/* A block that any thread may free: its address stands at both of its ends. */
typedef struct {
  void *self;
  size_t size;
} block;

static _Atomic(block *) slots[SLOTS];

static block *make_block(size_t size)
{
  block *b = mx_malloc((ssize_t)size, 0, NULL);

  CHECK(b != NULL);
  *b = (block){.self = b, .size = size};
  memcpy((char *)b + size - sizeof b, &b, sizeof b);
  return b;
}

static void free_block(block *b)
{
  if (b == NULL)
    return;
  CHECK(b->self == b);
  CHECK_EQUAL(0, memcmp((char *)b + b->size - sizeof b, &b, sizeof b));
  mx_free(b, (ssize_t)b->size, 0, NULL);
}

/* Puts a block into a slot and frees what was there, which another thread may have made. */
static void hammer(int number)
{
  unsigned random = 12345u + (unsigned)number;

  for (int i = 0; i < BLOWS; i++) {
    random = random * 1103515245u + 12345u;
    free_block(atomic_exchange(&slots[random >> 16 & (SLOTS - 1)], make_block(32 + random % (2 * SMALL_GRANULE))));
  }
}

SCENARIO(threads_hammer_the_pair)
{
  arenagen_arena_options options = ARENAGEN_ARENA_OPTIONS_INIT;
  arenagen_arena arena;

  options.granularity = ARENAGEN_GRANULARITY_MINIMUM;
  arena = create_with(options);
  OK(arenagen_set_active_any(arena));
  on_threads(HAMMERS, hammer);
  CHECK(live_in(arena) <= SLOTS);
  for (int i = 0; i < SLOTS; i++)
    free_block(atomic_exchange(&slots[i], NULL));

  CHECK_EQUAL(0, live_in(arena));
  CHECK_EQUAL(HAMMERS * BLOWS, stats_of(arena).created);
  CHECK_EQUAL(HAMMERS * BLOWS, stats_of(arena).released);
  CHECK_EQUAL(0, stats_of(arena).mapped);
  CHECK_EQUAL(0, diagnose().unrouted_frees);
}

static void live_and_die(int number)
{
  for (int i = 0; i < 50; i++) {
    arenagen_arena arena = create("mode=record");
    void *address;

    OK(arenagen_set_active(number, arena));
    /* Only one thread uses this device, so its own arena serves. */
    address = mx_malloc(1, number, NULL);
    CHECK_EQUAL(arena, owner_of(address));
    mx_free(address, 1, number, NULL);
    OK(arenagen_arena_release(arena));
  }
}

SCENARIO(threads_create_and_release_arenas)
{
  on_threads(HAMMERS, live_and_die);
  CHECK_EQUAL(0, diagnose().arenas);
}

static arenagen_arena contested;
static atomic_int stop;

static void use_contested(int number)
{
  (void)number;
  while (!atomic_load(&stop)) {
    /* Its arena may end at any moment, so the memory is not touched. */
    mx_free(mx_malloc(1, 0, NULL), 1, 0, NULL);
    arenagen_arena_is_closed(contested, &(int32_t){0});
    arenagen_arena_of(&stop, &(arenagen_arena){0});
  }
}

SCENARIO(arenas_come_and_go_under_threads_that_use_the_pair)
{
  team users;
  arenagen_arena last = 0;

  start_team(&users, 4, 0, use_contested);
  for (int i = 0; i < 300; i++) {
    contested = create_active(NULL);
    if (last != 0)
      OK(arenagen_arena_release(last));
    last = contested;
  }
  atomic_store(&stop, 1);
  join_team(&users);
  OK(arenagen_arena_release(last));
  CHECK_EQUAL(0, diagnose().arenas);
}

static void activate_contested(int number)
{
  (void)number;
  while (!atomic_load(&stop)) {
    arenagen_set_active(3, contested);
    arenagen_set_active_any(contested);
  }
}

SCENARIO(an_arena_that_is_released_is_active_no_more_whoever_sets_it)
{
  for (int i = 0; i < 300; i++) {
    team setters;

    contested = create("mode=record");
    atomic_store(&stop, 0);
    start_team(&setters, 2, 0, activate_contested);
    while (mx_malloc(1, 3, NULL) == NULL)
      sched_yield();
    OK(arenagen_arena_release(contested));
    atomic_store(&stop, 1);
    join_team(&setters);
    NO_MEMORY(ARENAGEN_STATUS_NO_ACTIVE_ARENA, "no active arena", 1, 3);
  }
}

static int32_t back(void *user, uint64_t address, uint64_t size, uint64_t *handle)
{
  (void)user, (void)size;
  *handle = address;
  return 0;
}

static int32_t unback(void *user, uint64_t address, uint64_t size, uint64_t handle)
{
  (void)user, (void)address, (void)size, (void)handle;
  return 0;
}

/* Calls every export. */
static void call_every_export(int number)
{
  arenagen_callback_options callbacks = ARENAGEN_CALLBACK_OPTIONS_INIT;
  arenagen_arena arena = create(NULL), over_callbacks;
  void *address, *base;
  uint64_t length;
  size_t count;
  int32_t usable;
  arenagen_fabric_handle fabric = {{0}};
  arenagen_tag_stats tag = {.struct_size = sizeof tag};
  arenagen_device_totals totals = {.struct_size = sizeof totals};

  CHECK(arenagen_version() != NULL && arenagen_backend_name() != NULL && arenagen_abi_version() != 0);
  CHECK(arenagen_status_name(number) != NULL && arenagen_status_text(number) != NULL);
  callbacks.base = 1 << 30;
  callbacks.allocate = back;
  callbacks.release = unback;
  OK(arenagen_arena_create_callbacks(&callbacks, &over_callbacks));
  OK(arenagen_arena_free(over_callbacks, allocate(over_callbacks, 1)));
  OK(arenagen_arena_release(over_callbacks));

  OK(arenagen_set_active(number, arena));
  OK(arenagen_set_active_any(arena));
  address = mx_malloc(GRANULE, number, NULL);
  memset(address, 1, GRANULE);
  CHECK_EQUAL(arena, owner_of(address));
  mx_free(address, 1, number, NULL);
  OK(arenagen_arena_free(arena, allocate(arena, 1)));
  OK(arenagen_arena_registered_range(arena, &base, &length));
  OK(arenagen_arena_used(arena, &length));
  OK(arenagen_arena_mapped(arena, &length));
  OK(arenagen_arena_trim(arena, 0, &length));
  OK(arenagen_arena_on_out_of_memory(arena, NULL, NULL));
  OK(arenagen_arena_add_peer(arena, number));
  OK(arenagen_arena_regions(arena, ARENAGEN_REGION_KIND_DMABUF, NULL, 0, &count));
  REFUSED(ARENAGEN_STATUS_NOT_MAPPED, "", arenagen_arena_export_fd, arena, NULL, &usable);
  REFUSED(ARENAGEN_STATUS_NOT_MAPPED, "", arenagen_arena_export_fabric, arena, NULL, &fabric);
  REFUSED(ARENAGEN_STATUS_NOT_MAPPED, "", arenagen_arena_export_dmabuf, arena, NULL, GRANULE, 0, &usable);
  REFUSED(ARENAGEN_STATUS_DRIVER, "", arenagen_arena_import_fd, arena, -1, 1, &address);
  REFUSED(ARENAGEN_STATUS_NOT_SUPPORTED, "", arenagen_arena_import_fabric, arena, &fabric, 1, &address);
  OK(arenagen_arena_events(arena, ARENAGEN_EVENT_STREAM_CHANGES, 0, NULL, 0, &count, &length));
  OK(arenagen_arena_set_tag(arena, 0));
  OK(arenagen_arena_tag_stats(arena, 1, &tag));
  OK(arenagen_arena_reset_peaks(arena));
  REFUSED(ARENAGEN_STATUS_BUFFER_TOO_SMALL, "", arenagen_arena_snapshot, arena, NULL, 0, &count);
  REFUSED(ARENAGEN_STATUS_BUFFER_TOO_SMALL, "", arenagen_arena_trace, arena, NULL, 0, &count);
  OK(arenagen_device_stats(number, &totals));
  arenagen_clear_error();
  live_in(arena);
  stats_of(arena);
  diagnose();
  CHECK_EQUAL(0, is_closed(arena));
  REFUSED(ARENAGEN_STATUS_INVALID_ARGUMENT, "size", arenagen_arena_malloc, arena, 0, 0, NULL, &address);
  REFUSED(ARENAGEN_STATUS_BUFFER_TOO_SMALL, "", arenagen_doctor, NULL, 0, &count, &usable);
  arenagen_clear_error();
  OK(arenagen_arena_reset(arena));
  OK(arenagen_arena_close_and_drain(arena, NULL, 0, &count));
  OK(arenagen_arena_stop(arena, 0));
  OK(arenagen_arena_close(arena));
  OK(arenagen_arena_release(arena));
}

SCENARIO(threads_with_small_stacks_call_every_export)
{
  for (int round = 0; round < 10; round++) {
    team small;

    start_team(&small, 16, SMALL_STACK, call_every_export);
    join_team(&small);
  }
}

static arenagen_arena shared;

static void allocate_and_free(int number)
{
  (void)number;
  OK(arenagen_arena_free(shared, allocate(shared, 1)));
  REFUSED(ARENAGEN_STATUS_INVALID_HANDLE, "", arenagen_arena_close, 0);
}

static void run_short_threads(int count)
{
  for (int i = 0; i < count; i += 10)
    on_threads(10, allocate_and_free);
}

SCENARIO(ten_thousand_short_lived_threads_leave_nothing)
{
  int64_t before;
  int mappings, threads;

  shared = create(NULL);
  run_short_threads(5000);
  before = resident();
  mappings = count_mappings();
  threads = count_entries("/proc/self/task");
  run_short_threads(5000);
  /* Less than 1,700 bytes a thread; Go collects its garbage by the 4 MiB, and late when it is crowded. */
  CHECK_FLAT(before, resident(), 8 * MiB);
  CHECK_FLAT(mappings, count_mappings(), 16);
  CHECK_FLAT(threads, count_entries("/proc/self/task"), 4);
  CHECK_EQUAL(10000, stats_of(shared).released);
}
