/* What a transport registers, how it is told of changes, and memory that goes to others. */
#include "arenas.h"

#include <fcntl.h>
#include <unistd.h>

static arenagen_arena_options placed(arenagen_placement placement, uint64_t slab_size, uint32_t events)
{
  arenagen_arena_options options = ARENAGEN_ARENA_OPTIONS_INIT;

  options.total = TiB;
  options.placement = placement;
  options.slab_size = slab_size;
  options.events = events;
  return options;
}

static arenagen_region regions[64];

static size_t list(arenagen_arena arena, arenagen_region_kind kind)
{
  size_t count, again;

  OK(arenagen_arena_regions(arena, kind, NULL, 0, &count));
  OK(arenagen_arena_regions(arena, kind, regions, sizeof regions / sizeof *regions, &again));
  CHECK_EQUAL(count, again);
  return count;
}

SCENARIO(runs_handles_whole_and_holes)
{
  arenagen_arena arena = create_with(placed(ARENAGEN_PLACEMENT_PER_ALLOCATION, 0, 0));
  char *first = allocate(arena, GRANULE), *second = allocate(arena, 2 * GRANULE), *third = allocate(arena, GRANULE);
  size_t count;

  CHECK_EQUAL(1, list(arena, ARENAGEN_REGION_KIND_DMABUF));
  CHECK_EQUAL((uintptr_t)first, regions[0].address);
  CHECK_EQUAL(4 * GRANULE, regions[0].length);
  CHECK_EQUAL(0, regions[0].handle);
  for (arenagen_region_kind kind = ARENAGEN_REGION_KIND_POSIX_FD; kind <= ARENAGEN_REGION_KIND_CUDA_IPC; kind++) {
    CHECK_EQUAL(3, list(arena, kind));
    CHECK_EQUAL((uintptr_t)second, regions[1].address);
    CHECK_EQUAL(2 * GRANULE, regions[1].length);
    CHECK_EQUAL(0, regions[1].offset);
    CHECK_EQUAL(allocation_at(arena, second).handle, regions[1].handle);
  }
  CHECK_EQUAL(1, list(arena, ARENAGEN_REGION_KIND_WHOLE));
  CHECK_EQUAL(4 * GRANULE, regions[0].length);
  CHECK_EQUAL(0, list(arena, ARENAGEN_REGION_KIND_HOLES));

  OK(arenagen_arena_free(arena, second));
  CHECK_EQUAL(2, list(arena, ARENAGEN_REGION_KIND_DMABUF));
  CHECK_EQUAL((uintptr_t)third, regions[1].address);
  CHECK_EQUAL(1, list(arena, ARENAGEN_REGION_KIND_HOLES));
  CHECK_EQUAL((uintptr_t)second, regions[0].address);
  CHECK_EQUAL(2 * GRANULE, regions[0].length);
  CHECK_EQUAL(1, list(arena, ARENAGEN_REGION_KIND_WHOLE));
  CHECK_EQUAL(4 * GRANULE, regions[0].length);

  REFUSED(ARENAGEN_STATUS_BUFFER_TOO_SMALL, "2 regions, room for 1", arenagen_arena_regions,
          arena, ARENAGEN_REGION_KIND_DMABUF, regions, 1, &count);
  CHECK_EQUAL(2, count);
  REFUSED(ARENAGEN_STATUS_INVALID_ARGUMENT, "kind must be 0 to 5, got 6", arenagen_arena_regions, arena, 6, regions, 1, &count);
  REFUSED(ARENAGEN_STATUS_INVALID_ARGUMENT, "kind must be 0 to 5, got -1", arenagen_arena_regions, arena, -1, regions, 1, &count);
  OK(arenagen_arena_release(arena));
}

SCENARIO(a_slab_and_a_single_handle_are_one_region)
{
  arenagen_arena arena = create_with(placed(ARENAGEN_PLACEMENT_SLAB, 4 * GRANULE, 0));
  arenagen_arena_options options = placed(ARENAGEN_PLACEMENT_SINGLE, 0, 0);

  for (int i = 0; i < 50; i++)
    allocate(arena, 100000);
  CHECK_EQUAL(1, list(arena, ARENAGEN_REGION_KIND_POSIX_FD));
  CHECK_EQUAL(4 * GRANULE, regions[0].length);
  OK(arenagen_arena_release(arena));
  options.total = 64 * MiB;
  arena = create_with(options);
  for (arenagen_region_kind kind = ARENAGEN_REGION_KIND_DMABUF; kind <= ARENAGEN_REGION_KIND_WHOLE; kind++) {
    CHECK_EQUAL(1, list(arena, kind));
    CHECK_EQUAL(64 * MiB, regions[0].length);
  }
  OK(arenagen_arena_release(arena));
}

static arenagen_event events[64];

/* Reads events on from where the last call ended. */
static size_t read_events(arenagen_arena arena, arenagen_event_stream stream, uint64_t *after, uint64_t *missed)
{
  size_t count;

  OK(arenagen_arena_events(arena, stream, *after, events, sizeof events / sizeof *events, &count, missed));
  for (size_t i = 0; i < count; i++)
    CHECK_EQUAL(*after + *missed + i + 1, events[i].sequence);
  *after += *missed + count;
  return count;
}

SCENARIO(changes_can_be_followed)
{
  arenagen_arena arena = create_with(placed(ARENAGEN_PLACEMENT_PER_ALLOCATION, 0, 0));
  uint64_t after = 0, missed;
  void *address;

  allocate(arena, GRANULE);
  CHECK_EQUAL(0, read_events(arena, ARENAGEN_EVENT_STREAM_CHANGES, &after, &missed));
  CHECK_EQUAL(1, list(arena, ARENAGEN_REGION_KIND_POSIX_FD));
  address = allocate(arena, GRANULE);
  OK(arenagen_arena_free(arena, address));
  CHECK_EQUAL(3, read_events(arena, ARENAGEN_EVENT_STREAM_CHANGES, &after, &missed));
  CHECK_EQUAL(0, missed);
  CHECK_EQUAL(ARENAGEN_EVENT_KIND_MAPPED, events[0].kind);
  CHECK_EQUAL(ARENAGEN_EVENT_KIND_UNMAPPING, events[1].kind);
  CHECK_EQUAL(ARENAGEN_EVENT_KIND_UNMAPPED, events[2].kind);
  for (int i = 0; i < 3; i++) {
    CHECK_EQUAL((uintptr_t)address, events[i].address);
    CHECK_EQUAL(GRANULE, events[i].size);
  }
  CHECK_EQUAL(0, read_events(arena, ARENAGEN_EVENT_STREAM_CHANGES, &after, &missed));

  /* Who comes too late is told how much it missed. */
  for (int i = 0; i < 3000; i++)
    OK(arenagen_arena_free(arena, allocate(arena, GRANULE)));
  CHECK_EQUAL(64, read_events(arena, ARENAGEN_EVENT_STREAM_CHANGES, &after, &missed));
  CHECK_EQUAL(9000 - 4096, missed);
  CHECK_EQUAL(64, read_events(arena, ARENAGEN_EVENT_STREAM_CHANGES, &after, &missed));
  CHECK_EQUAL(0, missed);
  OK(arenagen_arena_release(arena));
}

SCENARIO(all_events)
{
  arenagen_arena arena = create_with(placed(ARENAGEN_PLACEMENT_SLAB, 4 * GRANULE, 1000));
  uint64_t after = 0, missed;
  static char text[1 << 20];
  size_t length, count;
  void *address = allocate(arena, 1000);

  OK(arenagen_arena_free(arena, address));
  CHECK_EQUAL(5, read_events(arena, ARENAGEN_EVENT_STREAM_ALL, &after, &missed));
  CHECK_EQUAL(ARENAGEN_EVENT_KIND_MAPPED, events[0].kind);
  CHECK_EQUAL(4 * GRANULE, events[0].size);
  CHECK_EQUAL(ARENAGEN_EVENT_KIND_MALLOC, events[1].kind);
  CHECK_EQUAL(1024, events[1].size);
  CHECK_EQUAL(ARENAGEN_EVENT_KIND_FREE, events[2].kind);
  CHECK_EQUAL(ARENAGEN_EVENT_KIND_UNMAPPING, events[3].kind);
  CHECK_EQUAL(ARENAGEN_EVENT_KIND_UNMAPPED, events[4].kind);
  for (int i = 1; i < 5; i++)
    CHECK(events[i].time >= events[i - 1].time);

  after = UINT64_MAX - 1;
  OK(arenagen_arena_events(arena, ARENAGEN_EVENT_STREAM_ALL, after, events, 1, &count, &missed));
  CHECK_EQUAL(0, count);
  OK(arenagen_arena_events(arena, ARENAGEN_EVENT_STREAM_ALL, 0, NULL, 0, &count, &missed));
  CHECK_EQUAL(0, count);
  REFUSED(ARENAGEN_STATUS_INVALID_ARGUMENT, "stream must be 0 or 1, got 2", arenagen_arena_events, arena, 2, 0, events, 1, &count, &missed);

  REFUSED(ARENAGEN_STATUS_BUFFER_TOO_SMALL, "bytes of text", arenagen_arena_trace, arena, NULL, 0, &length);
  CHECK(length < sizeof text);
  OK(arenagen_arena_trace(arena, text, sizeof text - 1, &length));
  CHECK_CONTAINS("\"format\":\"arenagen-trace\"", text);
  CHECK_CONTAINS("\"kind\":\"unmapping\"", text);
  memset(text, 0, sizeof text);
  OK(arenagen_arena_snapshot(arena, text, sizeof text - 1, &length));
  CHECK_EQUAL(length, strlen(text));
  CHECK_CONTAINS("\"created\":1", text);
  CHECK_CONTAINS("\"placement\":\"slabs of 8388608 bytes\"", text);
  OK(arenagen_arena_release(arena));
}

SCENARIO(memory_goes_to_another_arena)
{
  arenagen_arena from = create(NULL), to = create(NULL);
  char *here, *there;
  int32_t fd;
  void *address;

  here = allocate(from, GRANULE);
  memset(here, 1, GRANULE);
  list(from, ARENAGEN_REGION_KIND_POSIX_FD);
  CHECK(regions[0].exports & ARENAGEN_EXPORT_KIND_AS_POSIX_FD || regions[0].exports == 0);
  if (regions[0].exports == 0) {
    /* Here exporting is not free, so handles are made without. */
    REFUSED(ARENAGEN_STATUS_DRIVER, "export_fd", arenagen_arena_export_fd, from, here, &fd);
    return;
  }
  OK(arenagen_arena_export_fd(from, here, &fd));
  OK(arenagen_arena_import_fd(to, fd, GRANULE, &address));
  CHECK_EQUAL(0, close(fd));
  there = address;
  CHECK_EQUAL(1, there[5]);
  there[5] = 2;
  CHECK_EQUAL(2, here[5]);
  OK(arenagen_arena_free(from, here));
  CHECK_EQUAL(2, there[5]);
  OK(arenagen_arena_free(to, there));
}

SCENARIO(what_cannot_be_shared_is_refused)
{
  arenagen_arena arena = create(NULL);
  char *address = allocate(arena, 2 * GRANULE);
  arenagen_fabric_handle fabric = {{0}};
  void *imported;
  int32_t fd;
  int pipes[2], file = open("/dev/zero", O_RDWR);

  REFUSED(ARENAGEN_STATUS_NOT_MAPPED, "no region begins at", arenagen_arena_export_fd, arena, address + GRANULE, &fd);
  REFUSED(ARENAGEN_STATUS_NOT_MAPPED, "no region begins at", arenagen_arena_export_fd, arena, NULL, &fd);
  REFUSED(ARENAGEN_STATUS_NOT_MAPPED, "no region begins at", arenagen_arena_export_fd, arena, &fd, &fd);
  REFUSED(ARENAGEN_STATUS_NOT_SUPPORTED, "export_fabric", arenagen_arena_export_fabric, arena, address, &fabric);
  REFUSED(ARENAGEN_STATUS_NOT_SUPPORTED, "import_fabric", arenagen_arena_import_fabric, arena, &fabric, GRANULE, &imported);
  REFUSED(ARENAGEN_STATUS_NOT_SUPPORTED, "export_dmabuf", arenagen_arena_export_dmabuf, arena, address, GRANULE, 0, &fd);
  REFUSED(ARENAGEN_STATUS_INVALID_ARGUMENT, "a dmabuf must begin at and have a multiple", arenagen_arena_export_dmabuf, arena, address + 1, GRANULE, 0, &fd);
  REFUSED(ARENAGEN_STATUS_INVALID_ARGUMENT, "a dmabuf must begin at and have a multiple", arenagen_arena_export_dmabuf, arena, address, 0, 0, &fd);
  REFUSED(ARENAGEN_STATUS_NOT_MAPPED, "a dmabuf of", arenagen_arena_export_dmabuf, arena, address, 3 * GRANULE, 0, &fd);
  REFUSED(ARENAGEN_STATUS_NOT_MAPPED, "a dmabuf of", arenagen_arena_export_dmabuf, arena, address, -(uint64_t)GRANULE, 0, &fd);
  REFUSED(ARENAGEN_STATUS_INVALID_ARGUMENT, "pcie must be 0 or 1, got 2", arenagen_arena_export_dmabuf, arena, address, GRANULE, 2, &fd);

  CHECK_EQUAL(0, pipe(pipes));
  {
    const int bad[] = {-1, 9999, pipes[0], file};

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
      REFUSED(ARENAGEN_STATUS_DRIVER, "import_fd", arenagen_arena_import_fd, arena, bad[i], GRANULE, &imported);
      CHECK(imported == NULL);
    }
  }
  REFUSED(ARENAGEN_STATUS_INVALID_ARGUMENT, "size must be positive", arenagen_arena_import_fd, arena, file, 0, &imported);
  CHECK_EQUAL(1, stats_of(arena).live);
  OK(arenagen_arena_free(arena, address));
  REFUSED(ARENAGEN_STATUS_NOT_MAPPED, "no region begins at", arenagen_arena_export_fd, arena, address, &fd);
  OK(arenagen_arena_release(arena));
}
