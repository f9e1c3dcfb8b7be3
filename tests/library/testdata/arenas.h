/* Calls of the library that the program is linked with, checked. */
#ifndef ARENAS_H
#define ARENAS_H

#include "check.h"

#include <arenagen.h>

enum { KiB = 1 << 10, MiB = 1 << 20, GRANULE = 2 * MiB, SMALL_GRANULE = 64 * KiB };

#define TiB (INT64_C(1) << 40)

/* More than a process has addresses. */
#define TOO_MUCH (512 * TiB)

static inline arenagen_error last_error(void)
{
  arenagen_error error = {.struct_size = sizeof error};

  CHECK_EQUAL(ARENAGEN_STATUS_OK, arenagen_last_error(&error));
  return error;
}

/* Checks what a call answers. */
#define CHECK_STATUS(want, call) check_status(__FILE__, __LINE__, #call, want, call)

#define OK(call) CHECK_STATUS(ARENAGEN_STATUS_OK, call)

static inline void check_status(const char *file, int line, const char *call, arenagen_status want, arenagen_status got)
{
  if (want != got)
    fail_at(file, line, "%s answers %s, expected %s; the last error is: %s",
            call, arenagen_status_name(got), arenagen_status_name(want), last_error().text);
}

/* Checks that a call fails, and that the last error tells the same status, names the function, and has a text with
   a part that helps. */
#define REFUSED(status, part, function, ...)                                    \
  (arenagen_clear_error(), CHECK_STATUS(status, function(__VA_ARGS__)),         \
   check_last_error(__FILE__, __LINE__, status, #function, part))

static inline void check_last_error(const char *file, int line, arenagen_status status, const char *operation, const char *part)
{
  arenagen_error error = last_error();

  if (error.status != status || strcmp(error.operation, operation) != 0 || strstr(error.text, part) == NULL)
    fail_at(file, line, "the last error is \"%s\" by %s, \"%s\", expected \"%s\" by %s with \"%s\"",
            arenagen_status_name(error.status), error.operation, error.text, arenagen_status_name(status), operation, part);
}

/* Checks that mx_malloc answers NULL and why. */
#define NO_MEMORY(status, part, size, device)                           \
  (arenagen_clear_error(), CHECK(mx_malloc(size, device, NULL) == NULL), \
   check_last_error(__FILE__, __LINE__, status, "mx_malloc", part))

static inline arenagen_arena create_with(arenagen_arena_options options)
{
  arenagen_arena arena = 0;

  OK(arenagen_arena_create(&options, &arena));
  CHECK(arena != 0);
  return arena;
}

/* An arena with the usual options, but for those of the backend; NULL is none. */
static inline arenagen_arena create(const char *backend_options)
{
  arenagen_arena_options options = ARENAGEN_ARENA_OPTIONS_INIT;

  options.backend_options = backend_options;
  return create_with(options);
}

static inline arenagen_arena create_active(const char *backend_options)
{
  arenagen_arena arena = create(backend_options);

  OK(arenagen_set_active_any(arena));
  return arena;
}

static inline void *allocate(arenagen_arena arena, int64_t size)
{
  void *address = NULL;

  OK(arenagen_arena_malloc(arena, size, 0, NULL, &address));
  CHECK(address != NULL);
  return address;
}

static inline arenagen_stats stats_of(arenagen_arena arena)
{
  arenagen_stats stats = {.struct_size = sizeof stats};

  OK(arenagen_arena_stats(arena, &stats));
  CHECK_EQUAL(stats.created, stats.released + stats.live + stats.quarantined + stats.handed_over + stats.deferred);
  return stats;
}

/* All 0 where none begins. */
static inline arenagen_allocation allocation_at(arenagen_arena arena, void *address)
{
  arenagen_allocation allocation;

  OK(arenagen_arena_allocation(arena, address, &allocation));
  return allocation;
}

static inline arenagen_device_info device_of(arenagen_arena arena)
{
  arenagen_device_info info = {.struct_size = sizeof info};

  OK(arenagen_arena_device(arena, &info));
  return info;
}

static inline arenagen_diagnostics diagnose(void)
{
  arenagen_diagnostics diagnostics = {.struct_size = sizeof diagnostics};

  OK(arenagen_diagnose(&diagnostics));
  CHECK_EQUAL(0, diagnostics.recovered_faults);
  return diagnostics;
}

static inline arenagen_arena owner_of(void *address)
{
  arenagen_arena arena = 1;

  OK(arenagen_arena_of(address, &arena));
  return arena;
}

static inline int is_closed(arenagen_arena arena)
{
  int32_t closed = -1;

  OK(arenagen_arena_is_closed(arena, &closed));
  return closed;
}

static inline uint64_t live_in(arenagen_arena arena)
{
  uint64_t count = UINT64_MAX;

  OK(arenagen_arena_live(arena, &count));
  return count;
}

#endif
