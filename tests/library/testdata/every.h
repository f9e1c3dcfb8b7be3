/* Calls every export of a library that must not serve. It is found with dlsym, since there may be several. */
#ifndef EVERY_H
#define EVERY_H

#include "check.h"

#include <arenagen.h>
#include <dlfcn.h>

/* An export of a library, typed as the header declares it. */
#define FIND(library, name) ((__typeof__(name) *)find_symbol(library, #name))

static inline void *find_symbol(void *library, const char *name)
{
  void *symbol = dlsym(library, name);

  if (symbol == NULL)
    FAIL("%s", dlerror());
  return symbol;
}

static inline void *load(const char *path)
{
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

  if (library == NULL)
    FAIL("%s", dlerror());
  return library;
}

/* The export that is being called, for whoever finds this process hanging. */
static const char **current = &(const char *){"nothing"};

static inline arenagen_error error_of(void *library)
{
  arenagen_error error = {.struct_size = sizeof error};

  CHECK_EQUAL(ARENAGEN_STATUS_OK, FIND(library, arenagen_last_error)(&error));
  return error;
}

/* Calls an export and checks that it is refused with a reason in which a part stands. */
#define EXPECT(name, ...)                                                       \
  do {                                                                          \
    arenagen_error error;                                                       \
                                                                                \
    *current = #name;                                                           \
    clear_error();                                                              \
    CHECK_EQUAL(expected, FIND(library, name)(__VA_ARGS__));                    \
    error = error_of(library);                                                  \
    CHECK_EQUAL(expected, error.status);                                        \
    CHECK_TEXT(#name, error.operation);                                         \
    CHECK_CONTAINS(part, error.text);                                           \
  } while (0)

static inline int32_t allocate_nothing(void *user, uint64_t address, uint64_t size, uint64_t *handle)
{
  (void)user, (void)address, (void)size, (void)handle;
  FAIL("a callback was called");
}

static inline int32_t release_nothing(void *user, uint64_t address, uint64_t size, uint64_t handle)
{
  (void)user, (void)address, (void)size, (void)handle;
  FAIL("a callback was called");
}

/* Checks that every export of a library answers, and refuses what it can refuse. The arena and the address may be any. */
static inline void expect_refusals(void *library, arenagen_status expected, const char *part, arenagen_arena arena, void *address)
{
  arenagen_arena_options options = ARENAGEN_ARENA_OPTIONS_INIT;
  arenagen_callback_options callbacks = ARENAGEN_CALLBACK_OPTIONS_INIT;
  arenagen_stats stats = {.struct_size = sizeof stats};
  arenagen_device_info info = {.struct_size = sizeof info};
  arenagen_diagnostics diagnostics = {.struct_size = sizeof diagnostics};
  __typeof__(arenagen_clear_error) *clear_error = FIND(library, arenagen_clear_error);
  arenagen_allocation buffer[1];
  arenagen_fabric_handle fabric = {{0}};
  arenagen_event event;
  arenagen_tag_stats tag = {.struct_size = sizeof tag};
  arenagen_device_totals totals = {.struct_size = sizeof totals};
  arenagen_arena made = 1;
  uint64_t bytes = 1;
  int32_t closed = 1;
  size_t count = 1;
  void *found = &made;

  callbacks.base = 1 << 30;
  callbacks.allocate = allocate_nothing;
  callbacks.release = release_nothing;

  /* These need no Go. */
  *current = "the exports that always answer";
  CHECK_TEXT(ARENAGEN_RELEASE, FIND(library, arenagen_version)());
  CHECK_EQUAL(ARENAGEN_ABI_MAJOR << 16 | ARENAGEN_ABI_MINOR, FIND(library, arenagen_abi_version)());
  CHECK_TEXT("stub", FIND(library, arenagen_backend_name)());
  CHECK_TEXT("forked", FIND(library, arenagen_status_name)(ARENAGEN_STATUS_FORKED));
  CHECK(strlen(FIND(library, arenagen_status_text)(ARENAGEN_STATUS_FORKED)) > 0);

  EXPECT(arenagen_arena_create, &options, &made);
  CHECK_EQUAL(0, made);
  EXPECT(arenagen_arena_create_callbacks, &callbacks, &made);
  EXPECT(arenagen_arena_close, arena);
  EXPECT(arenagen_arena_close_and_drain, arena, buffer, 1, &count);
  CHECK_EQUAL(0, count);
  EXPECT(arenagen_arena_close_and_drain, arena, NULL, 0, &count);
  EXPECT(arenagen_arena_stop, arena, 0);
  EXPECT(arenagen_arena_reset, arena);
  EXPECT(arenagen_arena_release, arena);
  EXPECT(arenagen_arena_malloc, arena, 1, 0, NULL, &found);
  CHECK(found == NULL);
  EXPECT(arenagen_arena_free, arena, address);
  EXPECT(arenagen_arena_allocation, arena, address, buffer);
  CHECK_EQUAL(0, buffer->size);
  EXPECT(arenagen_arena_trim, arena, 0, &bytes);
  EXPECT(arenagen_arena_on_out_of_memory, arena, NULL, NULL);
  EXPECT(arenagen_arena_add_peer, arena, 1);
  EXPECT(arenagen_arena_regions, arena, ARENAGEN_REGION_KIND_DMABUF, NULL, 0, &count);
  EXPECT(arenagen_arena_export_fd, arena, address, &closed);
  EXPECT(arenagen_arena_export_fabric, arena, address, &fabric);
  EXPECT(arenagen_arena_export_dmabuf, arena, address, 4096, 0, &closed);
  EXPECT(arenagen_arena_import_fd, arena, -1, 1, &found);
  EXPECT(arenagen_arena_import_fabric, arena, &fabric, 1, &found);
  EXPECT(arenagen_arena_events, arena, ARENAGEN_EVENT_STREAM_CHANGES, 0, &event, 1, &count, &bytes);
  EXPECT(arenagen_arena_set_tag, arena, 1);
  EXPECT(arenagen_arena_tag_stats, arena, 1, &tag);
  EXPECT(arenagen_arena_reset_peaks, arena);
  EXPECT(arenagen_arena_snapshot, arena, NULL, 0, &count);
  EXPECT(arenagen_arena_trace, arena, NULL, 0, &count);
  EXPECT(arenagen_device_stats, 0, &totals);
  EXPECT(arenagen_arena_of, address, &made);
  EXPECT(arenagen_arena_registered_range, arena, &found, &bytes);
  EXPECT(arenagen_arena_used, arena, &bytes);
  CHECK_EQUAL(0, bytes);
  EXPECT(arenagen_arena_mapped, arena, &bytes);
  EXPECT(arenagen_arena_live, arena, &bytes);
  EXPECT(arenagen_arena_is_closed, arena, &closed);
  CHECK_EQUAL(0, closed);
  EXPECT(arenagen_arena_stats, arena, &stats);
  EXPECT(arenagen_arena_device, arena, &info);
  EXPECT(arenagen_set_active, 0, arena);
  EXPECT(arenagen_set_active_any, arena);
  EXPECT(arenagen_diagnose, &diagnostics);
  EXPECT(arenagen_doctor, NULL, 0, &count, &closed);

  *current = "mx_malloc";
  clear_error();
  CHECK(FIND(library, mx_malloc)(1, 0, NULL) == NULL);
  CHECK_EQUAL(expected, error_of(library).status);
  CHECK_TEXT("mx_malloc", error_of(library).operation);
  CHECK_CONTAINS(part, error_of(library).text);
  *current = "mx_free";
  clear_error();
  FIND(library, mx_free)(address, 1, 0, NULL);
  CHECK_EQUAL(ARENAGEN_STATUS_OK, error_of(library).status);
  *current = "nothing";
}

#endif
