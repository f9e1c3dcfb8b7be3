/*
 * Times malloc + free pairs through the C interface in arenas of several kinds, in turns. Prints JSON: nanoseconds for a pair, the median of
 * the rounds.
 *
 *   placed <arenagen library> <backend options> <rounds> <pairs in a round>
 *
 *   per_allocation  an arena with the usual options
 *   slab            one with slabs, in which some allocation keeps the slab mapped
 *   few, many       one with slabs and 1,000 or 100,000 live allocations: one of them in no order is freed and made again
 *   few_holes, many_holes  the same, with as many holes between the allocations
 *   events          as per_allocation, and events are remembered
 */
#include "common.h"

#include <arenagen.h>

#include <inttypes.h>

enum { PAGE = 4096, FEW = 1000, MANY = 100000, KINDS = 7 };

static struct {
  arenagen_status (*arena_create)(const arenagen_arena_options *options, arenagen_arena *arena);
  arenagen_status (*arena_malloc)(arenagen_arena arena, int64_t size, uint64_t align, void *stream, void **address);
  arenagen_status (*arena_free)(arenagen_arena arena, void *address);
  arenagen_status (*arena_reset)(arenagen_arena arena);
  arenagen_status (*last_error)(arenagen_error *error);
} library;

static void check(arenagen_status status)
{
  arenagen_error error = {.struct_size = sizeof error};

  if (status == ARENAGEN_STATUS_OK)
    return;
  library.last_error(&error);
  fail(error.operation, error.text);
}

typedef struct {
  const char *name;
  arenagen_placement placement;
  uint32_t events;
  int64_t size;
  int live, holes;
  arenagen_arena arena;
  void **blocks;
  double *times;
} kind;

static kind kinds[KINDS] = {
  {.name = "per_allocation", .size = 2 << 20},
  {.name = "slab", .placement = ARENAGEN_PLACEMENT_SLAB, .size = 2 << 20, .live = 1},
  {.name = "few", .placement = ARENAGEN_PLACEMENT_SLAB, .size = PAGE, .live = FEW},
  {.name = "many", .placement = ARENAGEN_PLACEMENT_SLAB, .size = PAGE, .live = MANY},
  {.name = "few_holes", .placement = ARENAGEN_PLACEMENT_SLAB, .size = PAGE, .live = FEW, .holes = FEW},
  {.name = "many_holes", .placement = ARENAGEN_PLACEMENT_SLAB, .size = PAGE, .live = MANY, .holes = MANY},
  {.name = "events", .size = 2 << 20, .events = 1 << 16},
};

static void *allocate(const kind *k)
{
  void *address = NULL;

  check(library.arena_malloc(k->arena, k->size, 0, NULL, &address));
  return address;
}

static void open_kind(kind *k, const char *backend_options, size_t rounds)
{
  arenagen_arena_options options = ARENAGEN_ARENA_OPTIONS_INIT;

  options.backend_options = backend_options;
  options.total = INT64_C(1) << 42;
  options.placement = k->placement;
  options.slab_size = k->placement == ARENAGEN_PLACEMENT_SLAB ? UINT64_C(1) << 30 : 0;
  options.events = k->events;
  check(library.arena_create(&options, &k->arena));
  k->times = calloc(rounds, sizeof *k->times);
  k->blocks = calloc((size_t)k->live + (size_t)k->holes + 1, sizeof *k->blocks);
  for (int i = 0; i < k->live + k->holes; i++)
    k->blocks[i] = allocate(k);
  /* With holes, every other one is one. */
  for (int i = 0; i < k->holes; i++) {
    check(library.arena_free(k->arena, k->blocks[2 * i + 1]));
    k->blocks[i] = k->blocks[2 * i];
  }
}

static uint32_t next(uint32_t *state)
{
  *state = *state * 1664525 + 1013904223;
  return *state >> 8;
}

static double round_of(kind *k, int pairs)
{
  uint32_t state = 1;
  uint64_t began;

  if (k->live == 0)
    check(library.arena_reset(k->arena));
  began = now();
  for (int i = 0; i < pairs; i++) {
    if (k->live > 1) {
      uint32_t at = next(&state) % (uint32_t)k->live;

      check(library.arena_free(k->arena, k->blocks[at]));
      k->blocks[at] = allocate(k);
    } else {
      check(library.arena_free(k->arena, allocate(k)));
    }
  }
  return (double)(now() - began) / pairs;
}

static int by_value(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;

  return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
  size_t rounds;
  void *loaded;
  int pairs;

  if (argc != 5)
    fail(argv[0], "expected a library, backend options, rounds and pairs");
  rounds = strtoul(argv[3], NULL, 10);
  pairs = atoi(argv[4]);
  loaded = open_library(argv[1]);
  find(loaded, "arenagen_arena_create", &library.arena_create);
  find(loaded, "arenagen_arena_malloc", &library.arena_malloc);
  find(loaded, "arenagen_arena_free", &library.arena_free);
  find(loaded, "arenagen_arena_reset", &library.arena_reset);
  find(loaded, "arenagen_last_error", &library.last_error);
  for (int i = 0; i < KINDS; i++) {
    open_kind(&kinds[i], argv[2], rounds);
    round_of(&kinds[i], pairs / 10 + 1);
  }
  for (size_t round = 0; round < rounds; round++)
    for (int i = 0; i < KINDS; i++)
      kinds[i].times[round] = round_of(&kinds[i], pairs);
  printf("{\"rounds\": %zu, \"pairs\": %d", rounds, pairs);
  for (int i = 0; i < KINDS; i++) {
    qsort(kinds[i].times, rounds, sizeof *kinds[i].times, by_value);
    printf(", \"%s\": %.1f", kinds[i].name, kinds[i].times[rounds / 2]);
  }
  printf("}\n");
  return 0;
}
