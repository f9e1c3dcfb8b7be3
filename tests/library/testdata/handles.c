/* Handles that name no arena. */
#include "arenas.h"

typedef arenagen_status takes_handle(arenagen_arena arena);

/* Every export that takes a handle, under its name, with arguments that are good otherwise. */
#define TAKES_HANDLE(name, ...)                        \
  static arenagen_status with_##name(arenagen_arena arena) \
  {                                                    \
    return arenagen_##name(__VA_ARGS__);               \
  }

static void *address;
static uint64_t number;
static size_t count;
static int32_t flag;
static arenagen_allocation buffer[4];
static arenagen_stats stats = {.struct_size = sizeof stats};
static arenagen_allocation found;
static arenagen_device_info info = {.struct_size = sizeof info};
static arenagen_region regions[4];
static arenagen_fabric_handle fabric;
static arenagen_event events[4];
static arenagen_tag_stats tag = {.struct_size = sizeof tag};

TAKES_HANDLE(arena_close, arena)
TAKES_HANDLE(arena_close_and_drain, arena, buffer, 4, &count)
TAKES_HANDLE(arena_stop, arena, 0)
TAKES_HANDLE(arena_reset, arena)
TAKES_HANDLE(arena_release, arena)
TAKES_HANDLE(arena_malloc, arena, 1, 0, NULL, &address)
TAKES_HANDLE(arena_free, arena, address)
TAKES_HANDLE(arena_allocation, arena, address, &found)
TAKES_HANDLE(arena_trim, arena, UINT64_MAX, &number)
TAKES_HANDLE(arena_on_out_of_memory, arena, NULL, NULL)
TAKES_HANDLE(arena_add_peer, arena, 0)
TAKES_HANDLE(arena_regions, arena, ARENAGEN_REGION_KIND_DMABUF, regions, 4, &count)
TAKES_HANDLE(arena_export_fd, arena, address, &flag)
TAKES_HANDLE(arena_export_fabric, arena, address, &fabric)
TAKES_HANDLE(arena_export_dmabuf, arena, address, 4096, 0, &flag)
TAKES_HANDLE(arena_import_fd, arena, -1, 1, &address)
TAKES_HANDLE(arena_import_fabric, arena, &fabric, 1, &address)
TAKES_HANDLE(arena_events, arena, ARENAGEN_EVENT_STREAM_ALL, 0, events, 4, &count, &number)
TAKES_HANDLE(arena_set_tag, arena, 0)
TAKES_HANDLE(arena_tag_stats, arena, 1, &tag)
TAKES_HANDLE(arena_reset_peaks, arena)
TAKES_HANDLE(arena_snapshot, arena, NULL, 0, &count)
TAKES_HANDLE(arena_trace, arena, NULL, 0, &count)
TAKES_HANDLE(arena_registered_range, arena, &address, &number)
TAKES_HANDLE(arena_used, arena, &number)
TAKES_HANDLE(arena_mapped, arena, &number)
TAKES_HANDLE(arena_live, arena, &number)
TAKES_HANDLE(arena_is_closed, arena, &flag)
TAKES_HANDLE(arena_stats, arena, &stats)
TAKES_HANDLE(arena_device, arena, &info)
TAKES_HANDLE(set_active, 0, arena)
TAKES_HANDLE(set_active_any, arena)

static arenagen_status size_query(arenagen_arena arena)
{
  return arenagen_arena_close_and_drain(arena, NULL, 0, &count);
}

static arenagen_status free_null(arenagen_arena arena)
{
  return arenagen_arena_free(arena, NULL);
}

static const struct {
  const char *name;
  takes_handle *call;
  int takes_zero;
} exports[] = {
  {"arenagen_arena_close", with_arena_close, 0},
  {"arenagen_arena_close_and_drain", with_arena_close_and_drain, 0},
  {"arenagen_arena_close_and_drain", size_query, 0},
  {"arenagen_arena_stop", with_arena_stop, 0},
  {"arenagen_arena_reset", with_arena_reset, 0},
  {"arenagen_arena_release", with_arena_release, 0},
  {"arenagen_arena_malloc", with_arena_malloc, 0},
  {"arenagen_arena_free", with_arena_free, 0},
  {"arenagen_arena_free", free_null, 0},
  {"arenagen_arena_allocation", with_arena_allocation, 0},
  {"arenagen_arena_trim", with_arena_trim, 0},
  {"arenagen_arena_on_out_of_memory", with_arena_on_out_of_memory, 0},
  {"arenagen_arena_add_peer", with_arena_add_peer, 0},
  {"arenagen_arena_regions", with_arena_regions, 0},
  {"arenagen_arena_export_fd", with_arena_export_fd, 0},
  {"arenagen_arena_export_fabric", with_arena_export_fabric, 0},
  {"arenagen_arena_export_dmabuf", with_arena_export_dmabuf, 0},
  {"arenagen_arena_import_fd", with_arena_import_fd, 0},
  {"arenagen_arena_import_fabric", with_arena_import_fabric, 0},
  {"arenagen_arena_events", with_arena_events, 0},
  {"arenagen_arena_set_tag", with_arena_set_tag, 0},
  {"arenagen_arena_tag_stats", with_arena_tag_stats, 0},
  {"arenagen_arena_reset_peaks", with_arena_reset_peaks, 0},
  {"arenagen_arena_snapshot", with_arena_snapshot, 0},
  {"arenagen_arena_trace", with_arena_trace, 0},
  {"arenagen_arena_registered_range", with_arena_registered_range, 0},
  {"arenagen_arena_used", with_arena_used, 0},
  {"arenagen_arena_mapped", with_arena_mapped, 0},
  {"arenagen_arena_live", with_arena_live, 0},
  {"arenagen_arena_is_closed", with_arena_is_closed, 0},
  {"arenagen_arena_stats", with_arena_stats, 0},
  {"arenagen_arena_device", with_arena_device, 0},
  {"arenagen_set_active", with_set_active, 1},
  {"arenagen_set_active_any", with_set_active_any, 1},
};

/* Checks that every export refuses a handle as one that names no arena. */
static void check_refused(arenagen_arena arena)
{
  for (size_t i = 0; i < sizeof exports / sizeof *exports; i++) {
    arenagen_status status;

    if (arena == 0 && exports[i].takes_zero)
      continue;
    arenagen_clear_error();
    status = exports[i].call(arena);
    if (status != ARENAGEN_STATUS_INVALID_HANDLE)
      FAIL("%s answers %s to %#" PRIx64, exports[i].name, arenagen_status_name(status), arena);
    check_last_error(__FILE__, __LINE__, ARENAGEN_STATUS_INVALID_HANDLE, exports[i].name, "names no arena, or one that was released");
  }
}

/* Checks that an arena is as it was and works. */
static void check_untouched(arenagen_arena arena, arenagen_stats before)
{
  arenagen_stats now = stats_of(arena);

  CHECK_EQUAL(0, memcmp(&before, &now, sizeof now));
  OK(arenagen_arena_free(arena, allocate(arena, 1)));
}

SCENARIO(zero_names_no_arena)
{
  arenagen_arena arena = create(NULL);
  arenagen_stats before = stats_of(arena);

  check_refused(0);
  check_untouched(arena, before);
  OK(arenagen_set_active(0, 0));
  OK(arenagen_set_active_any(0));
}

SCENARIO(a_handle_is_stale_after_release)
{
  arenagen_arena other = create(NULL), arena = create(NULL);
  arenagen_stats before = stats_of(other);

  OK(arenagen_arena_release(arena));
  check_refused(arena);
  check_untouched(other, before);
}

SCENARIO(a_stale_handle_is_never_mistaken_for_a_later_arena)
{
  arenagen_arena stale[100], arena = 0;

  for (int i = 0; i < 100; i++) {
    stale[i] = create("mode=record");
    OK(arenagen_arena_release(stale[i]));
  }
  arena = create("mode=record");
  for (int i = 0; i < 100; i++) {
    CHECK(stale[i] != arena);
    check_refused(stale[i]);
  }
  check_untouched(arena, stats_of(arena));
}

SCENARIO(a_closed_arena_keeps_its_handle)
{
  arenagen_arena arena = create(NULL);

  OK(arenagen_arena_close(arena));
  OK(arenagen_arena_close(arena));
  CHECK_EQUAL(1, stats_of(arena).closed);
  OK(arenagen_set_active(0, arena));
  REFUSED(ARENAGEN_STATUS_CLOSED, "arena is closed", arenagen_arena_malloc, arena, 1, 0, NULL, &address);
  OK(arenagen_arena_release(arena));
  check_refused(arena);
}

SCENARIO(neighbours_of_a_handle_name_no_arena)
{
  arenagen_arena arena = create(NULL);
  arenagen_stats before = stats_of(arena);

  for (int bit = 0; bit < 64; bit++)
    check_refused(arena ^ UINT64_C(1) << bit);
  check_refused(arena + 1);
  check_refused(arena - 1);
  check_refused(arena + (UINT64_C(1) << 32));
  check_refused(arena - (UINT64_C(1) << 32));
  check_refused(arena & UINT32_MAX);
  check_refused(arena >> 32 << 32);
  check_refused(~arena);
  check_refused(UINT64_MAX);
  check_untouched(arena, before);
}

SCENARIO(random_numbers_name_no_arena)
{
  arenagen_arena arena = create(NULL);
  arenagen_stats before = stats_of(arena);
  uint64_t random = 88172645463325252;

  for (int i = 0; i < 5000; i++) {
    /* xorshift64 */
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    check_refused(random);
  }
  check_untouched(arena, before);
  CHECK_EQUAL(1, diagnose().arenas);
}

static arenagen_arena contested;
static int released[8];

static void release_contested(int thread)
{
  arenagen_status status = arenagen_arena_release(contested);

  released[thread] = status == ARENAGEN_STATUS_OK;
  CHECK(status == ARENAGEN_STATUS_OK || status == ARENAGEN_STATUS_INVALID_HANDLE);
}

SCENARIO(one_of_several_threads_releases_a_handle)
{
  for (int round = 0; round < 50; round++) {
    int successes = 0;

    contested = create("mode=record");
    on_threads(8, release_contested);
    for (int i = 0; i < 8; i++)
      successes += released[i];
    CHECK_EQUAL(1, successes);
  }
  CHECK_EQUAL(0, diagnose().arenas);
}
