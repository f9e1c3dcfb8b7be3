/* Memory that an arena holds beside its allocations: a cache of handles, slabs that are mapped ahead, and what happens when
   the device has no memory left. Tags and peaks. */
#include "arenas.h"

#include <sched.h>

enum { SLAB = 8 * GRANULE };

static arenagen_arena_options options_of(const char *backend_options)
{
  arenagen_arena_options options = ARENAGEN_ARENA_OPTIONS_INIT;

  options.backend_options = backend_options;
  options.total = TiB;
  return options;
}

static arenagen_stats balanced(arenagen_arena arena)
{
  arenagen_stats stats = stats_of(arena);

  CHECK_EQUAL(stats.cache_kept, stats.cache_reused + stats.cache_trimmed + stats.cache_handles);
  CHECK_EQUAL(stats.slabs_made, stats.slabs_gone + stats.slabs);
  return stats;
}

SCENARIO(a_handle_is_used_again)
{
  arenagen_arena_options options = options_of(NULL);
  arenagen_arena arena;
  arenagen_allocation first, second;
  uint64_t released;
  void *address;

  options.cache = 8 * GRANULE;
  arena = create_with(options);
  address = allocate(arena, GRANULE);
  first = allocation_at(arena, address);
  OK(arenagen_arena_free(arena, address));
  CHECK_EQUAL(GRANULE, balanced(arena).cache_bytes);
  CHECK_EQUAL(1, balanced(arena).cache_handles);
  address = allocate(arena, GRANULE);
  second = allocation_at(arena, address);
  CHECK_EQUAL(first.handle, second.handle);
  CHECK(first.address != second.address);
  memset(address, 1, GRANULE);
  CHECK_EQUAL(0, balanced(arena).cache_bytes);
  CHECK_EQUAL(1, balanced(arena).cache_reused);

  for (int i = 0; i < 20; i++) {
    address = allocate(arena, (i % 3 + 1) * GRANULE);
    OK(arenagen_arena_free(arena, address));
    CHECK(balanced(arena).cache_bytes <= options.cache);
  }
  OK(arenagen_arena_trim(arena, GRANULE, &released));
  CHECK(balanced(arena).cache_bytes <= GRANULE);
  CHECK(released > 0);
  OK(arenagen_arena_trim(arena, 0, &released));
  CHECK_EQUAL(0, balanced(arena).cache_handles);
  OK(arenagen_arena_trim(arena, 0, &released));
  CHECK_EQUAL(0, released);
  OK(arenagen_arena_close(arena));
  REFUSED(ARENAGEN_STATUS_CLOSED, "closed", arenagen_arena_trim, arena, 0, &released);
  OK(arenagen_arena_release(arena));
}

SCENARIO(slabs_are_mapped_ahead)
{
  arenagen_arena_options options = options_of(NULL);
  arenagen_arena arena;
  arenagen_stats stats;
  uint64_t released;

  options.placement = ARENAGEN_PLACEMENT_SLAB;
  options.slab_size = SLAB;
  options.prefetch = 2 * SLAB;
  arena = create_with(options);
  for (int i = 0; i < 50; i++) {
    memset(allocate(arena, GRANULE), i, GRANULE);
    /* The library maps in the background. Whoever waits for it too long is ended from outside. */
    while (stats_of(arena).slab_ahead < options.prefetch)
      sched_yield();
    stats = stats_of(arena);
    CHECK_EQUAL(options.prefetch, stats.slab_ahead);
    CHECK_EQUAL(stats.slabs * SLAB, stats.slab_mapped);
  }
  stats = balanced(arena);
  CHECK_EQUAL(9, stats.slabs);
  CHECK_EQUAL(9, stats.handles);
  OK(arenagen_arena_trim(arena, SLAB, &released));
  CHECK_EQUAL(SLAB, released);
  CHECK_EQUAL(SLAB, balanced(arena).slab_ahead);
  OK(arenagen_arena_close(arena));
  CHECK_EQUAL(0, balanced(arena).handles);
  OK(arenagen_arena_release(arena));
}

SCENARIO(options_that_cannot_be_are_refused)
{
  arenagen_arena_options options = options_of(NULL);
  arenagen_arena arena;

  options.prefetch = 1;
  REFUSED(ARENAGEN_STATUS_INVALID_ARGUMENT, "only slabs can be mapped ahead", arenagen_arena_create, &options, &arena);
  options = options_of(NULL);
  options.reuse = 2;
  REFUSED(ARENAGEN_STATUS_INVALID_ARGUMENT, "reuse must be 0 or 1, got 2", arenagen_arena_create, &options, &arena);
  options = options_of(NULL);
  options.events = (1 << 24) + 1;
  REFUSED(ARENAGEN_STATUS_INVALID_ARGUMENT, "events must be 0 to 16777216", arenagen_arena_create, &options, &arena);
}

SCENARIO(addresses_are_used_again)
{
  arenagen_arena_options options = options_of(NULL);
  arenagen_arena arena;
  void *first, *second;

  options.total = 4 * GRANULE;
  options.reuse = 1;
  arena = create_with(options);
  first = allocate(arena, GRANULE);
  second = allocate(arena, GRANULE);
  OK(arenagen_arena_free(arena, first));
  CHECK(allocate(arena, GRANULE) == first);
  OK(arenagen_arena_free(arena, first));
  OK(arenagen_arena_free(arena, second));
  for (int i = 0; i < 100; i++) {
    CHECK(allocate(arena, 2 * GRANULE) == first);
    memset(first, i, 2 * GRANULE);
    OK(arenagen_arena_free(arena, first));
  }
  CHECK_EQUAL(2 * GRANULE, stats_of(arena).used);
  OK(arenagen_arena_release(arena));
}

/* What a callback was told, and what it does. */
static struct {
  arenagen_arena arena;
  void *frees;
  int asked, tries;
  uint64_t requested, mapped, cached, capacity;
} shortage;

static int32_t on_shortage(void *user, uint64_t requested, uint64_t mapped, uint64_t cached, uint64_t capacity, uint64_t attempt)
{
  CHECK(user == &shortage);
  shortage.asked++;
  CHECK_EQUAL(shortage.asked, attempt);
  shortage.requested = requested;
  shortage.mapped = mapped;
  shortage.cached = cached;
  shortage.capacity = capacity;
  if (shortage.frees != NULL) {
    OK(arenagen_arena_free(shortage.arena, shortage.frees));
    shortage.frees = NULL;
    return 1;
  }
  return shortage.tries-- > 0;
}

SCENARIO(who_is_asked_frees_something)
{
  arenagen_arena_options options = options_of("capacity=8MiB");
  arenagen_arena arena = create_with(options);
  void *address;

  shortage.arena = arena;
  shortage.frees = allocate(arena, 6 * MiB);
  OK(arenagen_arena_on_out_of_memory(arena, on_shortage, &shortage));
  OK(arenagen_set_active(0, arena));
  address = mx_malloc(4 * MiB, 0, NULL);
  if (address == NULL)
    FAIL("%s", last_error().text);
  CHECK_EQUAL(1, shortage.asked);
  CHECK_EQUAL(4 * MiB, shortage.requested);
  CHECK_EQUAL(6 * MiB, shortage.mapped);
  CHECK_EQUAL(0, shortage.cached);
  CHECK_EQUAL(8 * MiB, shortage.capacity);

  /* It asks for two more tries and frees nothing. */
  shortage.asked = 0;
  shortage.tries = 2;
  NO_MEMORY(ARENAGEN_STATUS_OUT_OF_MEMORY, "no memory for 6291456 bytes after 3 attempts", 6 * MiB, 0);
  CHECK_EQUAL(3, shortage.asked);
  CHECK_CONTAINS("4194304 bytes mapped and 0 cached", last_error().text);
  CHECK_CONTAINS("4194304 of 8388608 free", last_error().text);
  CHECK_EQUAL(1, stats_of(arena).live);

  /* Without it nobody is asked. */
  OK(arenagen_arena_on_out_of_memory(arena, NULL, NULL));
  shortage.asked = 0;
  NO_MEMORY(ARENAGEN_STATUS_OUT_OF_MEMORY, "after 1 attempts", 6 * MiB, 0);
  CHECK_EQUAL(0, shortage.asked);
  OK(arenagen_arena_free(arena, address));
  allocate(arena, 8 * MiB);
  OK(arenagen_arena_release(arena));
}

SCENARIO(what_is_cached_goes_first)
{
  arenagen_arena_options options = options_of("capacity=8MiB");
  arenagen_arena arena;

  options.cache = 8 * MiB;
  arena = create_with(options);
  OK(arenagen_arena_on_out_of_memory(arena, on_shortage, &shortage));
  OK(arenagen_arena_free(arena, allocate(arena, 6 * MiB)));
  CHECK_EQUAL(6 * MiB, stats_of(arena).cache_bytes);
  allocate(arena, 4 * MiB);
  CHECK_EQUAL(0, shortage.asked);
  CHECK_EQUAL(0, balanced(arena).cache_bytes);
  CHECK_EQUAL(1, balanced(arena).cache_trimmed);
  OK(arenagen_arena_release(arena));
}

static int32_t close_inside(void *user, uint64_t requested, uint64_t mapped, uint64_t cached, uint64_t capacity, uint64_t attempt)
{
  void *address;

  (void)requested, (void)mapped, (void)cached, (void)capacity;
  CHECK_EQUAL(1, attempt);
  REFUSED(ARENAGEN_STATUS_BUSY, "callback", arenagen_arena_close, *(arenagen_arena *)user);
  /* It does not ask itself. */
  REFUSED(ARENAGEN_STATUS_OUT_OF_MEMORY, "no memory", arenagen_arena_malloc, *(arenagen_arena *)user, 16 * MiB, 0, NULL, &address);
  return 0;
}

SCENARIO(inside_the_callback)
{
  arenagen_arena_options options = options_of("capacity=8MiB");
  arenagen_arena arena = create_with(options);

  OK(arenagen_arena_on_out_of_memory(arena, close_inside, &arena));
  OK(arenagen_set_active(0, arena));
  NO_MEMORY(ARENAGEN_STATUS_OUT_OF_MEMORY, "no memory for 16777216 bytes", 16 * MiB, 0);
  OK(arenagen_arena_release(arena));
}

static arenagen_tag_stats tag_of(arenagen_arena arena, uint32_t tag)
{
  arenagen_tag_stats stats = {.struct_size = sizeof stats};

  OK(arenagen_arena_tag_stats(arena, tag, &stats));
  CHECK_EQUAL(tag, stats.tag);
  return stats;
}

SCENARIO(tags_and_peaks)
{
  arenagen_arena arena = create(NULL);
  arenagen_tag_stats stats = {.struct_size = sizeof stats};
  void *untagged = allocate(arena, GRANULE), *weights;

  OK(arenagen_arena_set_tag(arena, 3));
  weights = allocate(arena, 5 * GRANULE);
  OK(arenagen_arena_set_tag(arena, 0));
  CHECK_EQUAL(1, tag_of(arena, 3).live);
  CHECK_EQUAL(5 * GRANULE, tag_of(arena, 3).mapped);
  CHECK_EQUAL(0, tag_of(arena, 4).live);
  CHECK_EQUAL(6 * GRANULE, stats_of(arena).peak_mapped);
  OK(arenagen_arena_free(arena, weights));
  CHECK_EQUAL(0, tag_of(arena, 3).mapped);
  CHECK_EQUAL(5 * GRANULE, tag_of(arena, 3).peak_mapped);
  CHECK_EQUAL(6 * GRANULE, stats_of(arena).peak_mapped);
  OK(arenagen_arena_reset_peaks(arena));
  CHECK_EQUAL(0, tag_of(arena, 3).peak_mapped);
  CHECK_EQUAL(GRANULE, stats_of(arena).peak_mapped);
  OK(arenagen_arena_free(arena, untagged));
  for (uint32_t tag = 16; tag != 0; tag *= 2)
    REFUSED(ARENAGEN_STATUS_INVALID_ARGUMENT, "a tag must be 0 to 15", arenagen_arena_set_tag, arena, tag);
  REFUSED(ARENAGEN_STATUS_INVALID_ARGUMENT, "a tag must be 1 to 15", arenagen_arena_tag_stats, arena, 0, &stats);
  REFUSED(ARENAGEN_STATUS_INVALID_ARGUMENT, "a tag must be 1 to 15", arenagen_arena_tag_stats, arena, UINT32_MAX, &stats);
  OK(arenagen_arena_release(arena));
}

static arenagen_device_totals totals_of(int32_t device)
{
  arenagen_device_totals totals = {.struct_size = sizeof totals};

  OK(arenagen_device_stats(device, &totals));
  CHECK_EQUAL(device, totals.device);
  return totals;
}

SCENARIO(a_device_has_the_counters_of_its_arenas)
{
  arenagen_arena_options options = options_of("devices=2");
  arenagen_arena one, two, other;
  void *address;

  options.cache = 16 * GRANULE;
  one = create_with(options);
  two = create_with(options);
  options.device = 1;
  other = create_with(options);
  OK(arenagen_set_active(1, other));
  allocate(one, GRANULE);
  allocate(two, 2 * GRANULE);
  OK(arenagen_arena_free(two, allocate(two, 3 * GRANULE)));
  CHECK_EQUAL(2, totals_of(0).arenas);
  CHECK_EQUAL(2, totals_of(0).live);
  CHECK_EQUAL(3 * GRANULE, totals_of(0).mapped);
  CHECK_EQUAL(3 * GRANULE, totals_of(0).held);
  CHECK_EQUAL(1, totals_of(1).arenas);
  CHECK_EQUAL(0, totals_of(7).arenas);

  /* A free goes by the address, and another device's number is counted. */
  address = mx_malloc(1, 1, NULL);
  CHECK_EQUAL(other, owner_of(address));
  mx_free(address, 1, 0, NULL);
  CHECK_EQUAL(0, live_in(other));
  CHECK_EQUAL(1, diagnose().other_device_frees);
  CHECK_EQUAL(1, totals_of(1).other_device_frees);
  CHECK_EQUAL(0, totals_of(0).other_device_frees);
}

SCENARIO(peers)
{
  arenagen_arena_options options = options_of("devices=4");
  arenagen_arena arena;

  options.peers = 1 << 1 | 1 << 3;
  arena = create_with(options);
  memset(allocate(arena, GRANULE), 1, GRANULE);
  OK(arenagen_arena_add_peer(arena, 2));
  OK(arenagen_arena_add_peer(arena, 2));
  OK(arenagen_arena_add_peer(arena, 0));
  REFUSED(ARENAGEN_STATUS_INVALID_ARGUMENT, "from 0 to 63, got 64", arenagen_arena_add_peer, arena, 64);
  REFUSED(ARENAGEN_STATUS_INVALID_ARGUMENT, "from 0 to 63, got -1", arenagen_arena_add_peer, arena, -1);
  /* The driver has no such device. */
  REFUSED(ARENAGEN_STATUS_NO_DEVICE, "let device 9 reach", arenagen_arena_add_peer, arena, 9);
  memset(allocate(arena, GRANULE), 1, GRANULE);
  OK(arenagen_arena_release(arena));
}
