/*
 * Times the mallocs of a load: one for each size on standard input, in their order, in an arena of the cuda library. Prints JSON.
 *
 *   trace <library> <placement> <slab bytes> <prefetch bytes> <bytes per second, or 0> <nanoseconds for a handle>
 *
 * placement is per_allocation, slab or single, or reference, for which the library is the reference's, whose driver answers at once. The device was
 * used before. With bytes per second, the time that filling the bytes takes passes between
 * one malloc and the next. With prefetch, the load begins when the first slabs are mapped, as for a process that makes its arena
 * when it starts. A malloc that made a handle is one that took more than a part of what the driver takes for one.
 */
#include "common.h"
#include "instant.h"
#include "reference.h"

#include <arenagen.h>

#include <inttypes.h>
#include <sched.h>

static struct {
  arenagen_status (*arena_create)(const arenagen_arena_options *options, arenagen_arena *arena);
  arenagen_status (*arena_malloc)(arenagen_arena arena, int64_t size, uint64_t align, void *stream, void **address);
  arenagen_status (*arena_stats)(arenagen_arena arena, arenagen_stats *stats);
  arenagen_status (*arena_release)(arenagen_arena arena);
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

static arenagen_stats stats_of(arenagen_arena arena)
{
  arenagen_stats stats = {.struct_size = sizeof stats};

  check(library.arena_stats(arena, &stats));
  return stats;
}

static arenagen_placement placement_of(const char *name)
{
  static const char *const names[] = {"per_allocation", "slab", "single"};

  for (int i = 0; i < 3; i++)
    if (strcmp(name, names[i]) == 0)
      return (arenagen_placement)i;
  fail("placement", name);
  return 0;
}

static arenagen_arena arena;
static void *(*from_reference)(ssize_t size, int device, void *stream);

static void *allocate(int64_t size)
{
  void *address = NULL;

  if (from_reference != NULL)
    return from_reference(size, 0, NULL);
  check(library.arena_malloc(arena, size, 0, NULL, &address));
  return address;
}

static void open_reference(const char *path)
{
  void (*open)(const ReferenceDriver *driver, uint64_t base, uint64_t total, uint64_t granule);
  void *loaded = open_library(path);

  find(loaded, "reference_open", &open);
  find(loaded, "reference_malloc", &from_reference);
  open(&instant_driver, UINT64_C(1) << 45, UINT64_C(1) << 40, 2 << 20);
}

static void open_arena(const char *path, arenagen_arena_options options)
{
  arenagen_arena_options plain = ARENAGEN_ARENA_OPTIONS_INIT;
  void *loaded = open_library(path);

  find(loaded, "arenagen_arena_create", &library.arena_create);
  find(loaded, "arenagen_arena_malloc", &library.arena_malloc);
  find(loaded, "arenagen_arena_stats", &library.arena_stats);
  find(loaded, "arenagen_arena_release", &library.arena_release);
  find(loaded, "arenagen_last_error", &library.last_error);
  plain.backend = "cuda";
  check(library.arena_create(&plain, &arena));
  allocate(1);
  check(library.arena_release(arena));
  check(library.arena_create(&options, &arena));
  while (stats_of(arena).slab_ahead < options.prefetch)
    sched_yield();
}

static uint64_t number(const char *text)
{
  return strtoull(text, NULL, 10);
}

int main(int argc, char **argv)
{
  arenagen_arena_options options = ARENAGEN_ARENA_OPTIONS_INIT;
  uint64_t waited = 0, with_handle = 0, bytes = 0, slow = 0, handles = 0, unit, cost;
  size_t mallocs = 0, driver_mallocs = 0;
  int64_t size;

  if (argc != 7)
    fail(argv[0], "expected a library, a placement, slab bytes, prefetch bytes, bytes per second and nanoseconds");
  if (strcmp(argv[2], "reference") == 0) {
    open_reference(argv[1]);
  } else {
    options.backend = "cuda";
    options.placement = placement_of(argv[2]);
    options.total = options.placement == ARENAGEN_PLACEMENT_SINGLE ? INT64_C(64) << 30 : INT64_C(1) << 40;
    options.slab_size = number(argv[3]);
    options.prefetch = number(argv[4]);
    open_arena(argv[1], options);
  }
  unit = number(argv[5]);
  cost = number(argv[6]);

  while (scanf("%" SCNd64, &size) == 1) {
    uint64_t began = now(), took;

    if (allocate(size) == NULL)
      fail("malloc", "it answered NULL");
    took = now() - began;
    waited += took;
    mallocs++;
    bytes += (uint64_t)size;
    slow = took > slow ? took : slow;
    if (took > cost / 2) {
      driver_mallocs++;
      with_handle += took;
    }
    while (unit != 0 && now() - began < took + (uint64_t)size * UINT64_C(1000000000) / unit) {
    }
  }
  if (from_reference == NULL)
    handles = stats_of(arena).handles;
  printf("{\"mallocs\": %zu, \"bytes\": %" PRIu64 ", \"waited_ns\": %" PRIu64 ", \"longest_ns\": %" PRIu64
         ", \"handles\": %" PRIu64 ", \"driver_mallocs\": %zu, \"driver_ns\": %" PRIu64 "}\n",
         mallocs, bytes, waited, slow, handles, driver_mallocs, with_handle);
  if (from_reference == NULL)
    check(library.arena_release(arena));
  return 0;
}
