/* Placements: allocations that share handles. */
#include "arenas.h"

enum { SLAB = 16 * GRANULE };

static arenagen_arena create_placed(arenagen_placement placement, uint64_t slab_size, int64_t total)
{
  arenagen_arena_options options = ARENAGEN_ARENA_OPTIONS_INIT;

  options.placement = placement;
  options.slab_size = slab_size;
  options.total = total;
  return create_with(options);
}

SCENARIO(allocations_share_slabs)
{
  arenagen_arena arena = create_placed(ARENAGEN_PLACEMENT_SLAB, SLAB, INT64_C(1) << 40);
  arenagen_stats stats;
  char *blocks[100];

  OK(arenagen_set_active(0, arena));
  for (int i = 0; i < 100; i++) {
    blocks[i] = mx_malloc(1000 * (i + 1), 0, NULL);
    CHECK(blocks[i] != NULL);
    CHECK_EQUAL(0, (uintptr_t)blocks[i] % 512);
    memset(blocks[i], i, (size_t)(1000 * (i + 1)));
  }
  stats = stats_of(arena);
  CHECK_EQUAL(ARENAGEN_PLACEMENT_SLAB, stats.placement);
  CHECK_EQUAL(SLAB, stats.slab_size);
  CHECK_EQUAL(100, stats.live);
  CHECK_EQUAL(1, stats.handles);
  CHECK_EQUAL(1, stats.slabs);
  CHECK_EQUAL(SLAB, stats.slab_mapped);
  CHECK_EQUAL(SLAB, stats.used);
  CHECK_EQUAL(stats.slab_mapped, stats.mapped + stats.slab_free);
  for (int i = 0; i < 100; i++)
    for (int at = 0; at < 1000 * (i + 1); at++)
      CHECK_EQUAL(i, blocks[i][at]);
  for (int i = 0; i < 100; i++)
    mx_free(blocks[i], 1, 0, NULL);
  stats = stats_of(arena);
  CHECK_EQUAL(0, stats.live);
  CHECK_EQUAL(0, stats.handles);
  CHECK_EQUAL(0, stats.slab_mapped);
  OK(arenagen_arena_release(arena));
}

SCENARIO(a_single_handle_is_made_up_front)
{
  arenagen_arena arena = create_placed(ARENAGEN_PLACEMENT_SINGLE, 0, SLAB);
  void *base, *address;
  uint64_t length;

  OK(arenagen_arena_registered_range(arena, &base, &length));
  CHECK_EQUAL(SLAB, length);
  CHECK_EQUAL(1, stats_of(arena).handles);
  memset(base, 1, SLAB);
  address = allocate(arena, SLAB);
  CHECK(address == base);
  REFUSED(ARENAGEN_STATUS_EXHAUSTED, "0 are free", arenagen_arena_malloc, arena, 1, 0, NULL, &address);
  REFUSED(ARENAGEN_STATUS_EXHAUSTED, "bytes in slabs", arenagen_arena_malloc, arena, SLAB + 1, 0, NULL, &address);
  OK(arenagen_arena_free(arena, base));
  CHECK_EQUAL(1, stats_of(arena).handles);
  OK(arenagen_arena_release(arena));
}

SCENARIO(a_drain_hands_slabs_over)
{
  arenagen_arena arena = create_placed(ARENAGEN_PLACEMENT_SLAB, SLAB, INT64_C(1) << 40);
  arenagen_allocation drained[4];
  size_t count;

  allocate(arena, 1);
  allocate(arena, 1);
  allocate(arena, SLAB + 1);
  OK(arenagen_arena_close_and_drain(arena, NULL, 0, &count));
  CHECK_EQUAL(2, count);
  OK(arenagen_arena_close_and_drain(arena, drained, 4, &count));
  CHECK_EQUAL(2, count);
  CHECK_EQUAL(SLAB, drained[0].size);
  CHECK_EQUAL(SLAB + GRANULE, drained[1].size);
}

SCENARIO(what_is_no_placement_is_refused)
{
  static const struct {
    arenagen_placement placement;
    uint64_t slab_size;
    const char *part;
  } wrong[] = {
    {-1, 0, "placement must be from 0 to 2, got -1"},
    {3, 0, "placement must be from 0 to 2, got 3"},
    {ARENAGEN_PLACEMENT_SLAB, 0, "a slab must have 1 to "},
    {ARENAGEN_PLACEMENT_SLAB, UINT64_MAX, "a slab must have 1 to "},
    {ARENAGEN_PLACEMENT_SLAB, (UINT64_C(4) << 40) + 1, "a slab must have 1 to "},
    {ARENAGEN_PLACEMENT_SINGLE, 1, "slab_size must be 0 unless placement is 1, got 1"},
    {ARENAGEN_PLACEMENT_PER_ALLOCATION, 1, "slab_size must be 0 unless placement is 1, got 1"},
  };

  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    arenagen_arena_options options = ARENAGEN_ARENA_OPTIONS_INIT;
    arenagen_arena made = 1;

    options.placement = wrong[i].placement;
    options.slab_size = wrong[i].slab_size;
    REFUSED(ARENAGEN_STATUS_INVALID_ARGUMENT, wrong[i].part, arenagen_arena_create, &options, &made);
    CHECK_EQUAL(0, made);
  }
}

SCENARIO(a_single_handle_that_does_not_fit_the_device_leaves_nothing)
{
  arenagen_arena_options options = ARENAGEN_ARENA_OPTIONS_INIT;
  arenagen_arena made = 1;

  options.placement = ARENAGEN_PLACEMENT_SINGLE;
  options.total = 64 * GRANULE;
  options.backend_options = "capacity=64MiB";
  REFUSED(ARENAGEN_STATUS_OUT_OF_MEMORY, "make the single handle of 134217728 bytes", arenagen_arena_create, &options, &made);
  CHECK_EQUAL(0, made);
  CHECK_EQUAL(0, diagnose().arenas);
}

SCENARIO(an_empty_arena_starts_over)
{
  static const arenagen_placement placements[] = {ARENAGEN_PLACEMENT_PER_ALLOCATION, ARENAGEN_PLACEMENT_SLAB, ARENAGEN_PLACEMENT_SINGLE};

  for (size_t i = 0; i < sizeof placements / sizeof *placements; i++) {
    arenagen_arena arena = create_placed(placements[i], placements[i] == ARENAGEN_PLACEMENT_SLAB ? SLAB : 0, 4 * SLAB);
    void *first = allocate(arena, 1), *second = allocate(arena, 3 * GRANULE);

    REFUSED(ARENAGEN_STATUS_NOT_EMPTY, "2 allocations are live", arenagen_arena_reset, arena);
    OK(arenagen_arena_free(arena, first));
    OK(arenagen_arena_free(arena, second));
    OK(arenagen_arena_reset(arena));
    OK(arenagen_arena_reset(arena));
    CHECK_EQUAL(placements[i] == ARENAGEN_PLACEMENT_SINGLE ? 4 * SLAB : 0, stats_of(arena).used);
    CHECK(allocate(arena, 1) == first);
    memset(first, 1, 1);
    OK(arenagen_arena_close(arena));
    REFUSED(ARENAGEN_STATUS_CLOSED, "closed", arenagen_arena_reset, arena);
    OK(arenagen_arena_release(arena));
  }
}

SCENARIO(a_base_can_be_wished_for)
{
  arenagen_arena_options options = ARENAGEN_ARENA_OPTIONS_INIT;
  arenagen_arena arena = create_with(options), again;
  uint64_t base = stats_of(arena).base;

  options.base_hint = base;
  again = create_with(options);
  CHECK(stats_of(again).base != base);
  OK(arenagen_arena_release(again));
  OK(arenagen_arena_release(arena));
  CHECK_EQUAL(base, stats_of(create_with(options)).base);
}
