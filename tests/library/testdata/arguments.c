/* Arguments that cannot be: each is refused with a reason, nothing changes, and nothing is left behind. */
#include "arenas.h"

static arenagen_arena arena;
static void *address;
static uint64_t number;
static size_t count;
static int32_t flag;

/* A place for one value of any type, and a pointer into it that is aligned to nothing. */
static _Alignas(16) char place[1024];
#define MISALIGNED ((void *)(place + 1))

/* What must be the same after a refusal. */
typedef struct {
  arenagen_diagnostics diagnostics;
  arenagen_stats stats;
  int files, mappings;
} state;

static state before;

static state state_now(void)
{
  return (state){.diagnostics = diagnose(), .stats = stats_of(arena), .files = open_files(), .mappings = count_mappings()};
}

static void set_up(void)
{
  arena = create(NULL);
  address = allocate(arena, 1);
  /* A first refusal of each kind makes what is made once. */
  arenagen_last_error(NULL);
  arenagen_arena_malloc(arena, 0, 0, NULL, &address);
  before = state_now();
}

/* Checks that nothing changed but the count of refused allocations. */
static void check_unchanged(uint64_t refused)
{
  state now = state_now();

  before.stats.refused += refused;
  CHECK_EQUAL(0, memcmp(&before.diagnostics, &now.diagnostics, sizeof now.diagnostics));
  CHECK_EQUAL(0, memcmp(&before.stats, &now.stats, sizeof now.stats));
  CHECK_EQUAL(before.files, now.files);
  /* Go's own heap may have grown, and on a busy machine Go starts more threads. */
  CHECK_FLAT(before.mappings, now.mappings, 16);
  OK(arenagen_arena_free(arena, allocate(arena, 1)));
}

#define INVALID(part, ...) REFUSED(ARENAGEN_STATUS_INVALID_ARGUMENT, part, __VA_ARGS__)

static int32_t allocate_callback(void *user, uint64_t va, uint64_t size, uint64_t *handle)
{
  (void)user, (void)va, (void)size, (void)handle;
  return 0;
}

static int32_t release_callback(void *user, uint64_t va, uint64_t size, uint64_t handle)
{
  (void)user, (void)va, (void)size, (void)handle;
  return 0;
}

static arenagen_callback_options callback_options(void)
{
  arenagen_callback_options options = ARENAGEN_CALLBACK_OPTIONS_INIT;

  options.base = UINT64_C(1) << 40;
  options.allocate = allocate_callback;
  options.release = release_callback;
  return options;
}

SCENARIO(null_is_refused_by_name)
{
  arenagen_arena_options options = ARENAGEN_ARENA_OPTIONS_INIT;
  arenagen_callback_options callbacks = callback_options();
  arenagen_fabric_handle fabric = {{0}};
  arenagen_arena made = 0;

  set_up();
  INVALID("error must not be NULL", arenagen_last_error, NULL);
  INVALID("options must not be NULL", arenagen_arena_create, NULL, &made);
  INVALID("arena must not be NULL", arenagen_arena_create, &options, NULL);
  INVALID("options must not be NULL", arenagen_arena_create_callbacks, NULL, &made);
  INVALID("arena must not be NULL", arenagen_arena_create_callbacks, &callbacks, NULL);
  INVALID("count must not be NULL", arenagen_arena_close_and_drain, arena, NULL, 0, NULL);
  INVALID("buffer must not be NULL", arenagen_arena_close_and_drain, arena, NULL, 1, &count);
  INVALID("buffer must not be NULL", arenagen_arena_close_and_drain, arena, NULL, SIZE_MAX, &count);
  INVALID("address must not be NULL", arenagen_arena_malloc, arena, 1, 0, NULL, NULL);
  INVALID("allocation must not be NULL", arenagen_arena_allocation, arena, address, NULL);
  INVALID("arena must not be NULL", arenagen_arena_of, address, NULL);
  INVALID("base must not be NULL", arenagen_arena_registered_range, arena, NULL, &number);
  INVALID("length must not be NULL", arenagen_arena_registered_range, arena, &address, NULL);
  INVALID("bytes must not be NULL", arenagen_arena_used, arena, NULL);
  INVALID("bytes must not be NULL", arenagen_arena_mapped, arena, NULL);
  INVALID("count must not be NULL", arenagen_arena_live, arena, NULL);
  INVALID("closed must not be NULL", arenagen_arena_is_closed, arena, NULL);
  INVALID("stats must not be NULL", arenagen_arena_stats, arena, NULL);
  INVALID("info must not be NULL", arenagen_arena_device, arena, NULL);
  INVALID("diagnostics must not be NULL", arenagen_diagnose, NULL);
  INVALID("length must not be NULL", arenagen_doctor, NULL, 0, NULL, &flag);
  INVALID("usable must not be NULL", arenagen_doctor, NULL, 0, &count, NULL);
  INVALID("buffer must not be NULL", arenagen_doctor, NULL, 1, &count, &flag);
  INVALID("released must not be NULL", arenagen_arena_trim, arena, 0, NULL);
  INVALID("count must not be NULL", arenagen_arena_regions, arena, ARENAGEN_REGION_KIND_DMABUF, NULL, 0, NULL);
  INVALID("fd must not be NULL", arenagen_arena_export_fd, arena, address, NULL);
  INVALID("fabric must not be NULL", arenagen_arena_export_fabric, arena, address, NULL);
  INVALID("fd must not be NULL", arenagen_arena_export_dmabuf, arena, address, 4096, 0, NULL);
  INVALID("address must not be NULL", arenagen_arena_import_fd, arena, -1, 1, NULL);
  INVALID("fabric must not be NULL", arenagen_arena_import_fabric, arena, NULL, 1, &address);
  INVALID("address must not be NULL", arenagen_arena_import_fabric, arena, &fabric, 1, NULL);
  INVALID("count must not be NULL", arenagen_arena_events, arena, ARENAGEN_EVENT_STREAM_ALL, 0, NULL, 0, NULL, &number);
  INVALID("missed must not be NULL", arenagen_arena_events, arena, ARENAGEN_EVENT_STREAM_ALL, 0, NULL, 0, &count, NULL);
  INVALID("stats must not be NULL", arenagen_arena_tag_stats, arena, 1, NULL);
  INVALID("length must not be NULL", arenagen_arena_snapshot, arena, NULL, 0, NULL);
  INVALID("length must not be NULL", arenagen_arena_trace, arena, NULL, 0, NULL);
  INVALID("stats must not be NULL", arenagen_device_stats, 0, NULL);
  INVALID("buffer must not be NULL", arenagen_arena_regions, arena, ARENAGEN_REGION_KIND_DMABUF, NULL, 1, &count);
  INVALID("buffer must not be NULL", arenagen_arena_events, arena, ARENAGEN_EVENT_STREAM_ALL, 0, NULL, 1, &count, &number);
  INVALID("buffer must not be NULL", arenagen_arena_snapshot, arena, NULL, 1, &count);
  INVALID("buffer must not be NULL", arenagen_arena_trace, arena, NULL, SIZE_MAX, &count);
  OK(arenagen_arena_on_out_of_memory(arena, NULL, NULL));
  check_unchanged(0);
}

SCENARIO(a_misaligned_pointer_is_refused_by_name)
{
  arenagen_arena_options options = ARENAGEN_ARENA_OPTIONS_INIT;
  arenagen_callback_options callbacks = callback_options();
  arenagen_fabric_handle fabric = {{0}};
  arenagen_arena made = 0;

  set_up();
  INVALID("error must be aligned to 8 bytes", arenagen_last_error, MISALIGNED);
  INVALID("options must be aligned to 8 bytes", arenagen_arena_create, MISALIGNED, &made);
  INVALID("arena must be aligned to 8 bytes", arenagen_arena_create, &options, MISALIGNED);
  INVALID("options must be aligned to 8 bytes", arenagen_arena_create_callbacks, MISALIGNED, &made);
  INVALID("arena must be aligned to 8 bytes", arenagen_arena_create_callbacks, &callbacks, MISALIGNED);
  INVALID("count must be aligned to 8 bytes", arenagen_arena_close_and_drain, arena, NULL, 0, MISALIGNED);
  INVALID("buffer must be aligned to 8 bytes", arenagen_arena_close_and_drain, arena, MISALIGNED, 1, &count);
  INVALID("buffer must be aligned to 8 bytes", arenagen_arena_close_and_drain, arena, MISALIGNED, 0, &count);
  INVALID("address must be aligned to 8 bytes", arenagen_arena_malloc, arena, 1, 0, NULL, MISALIGNED);
  INVALID("allocation must be aligned to 8 bytes", arenagen_arena_allocation, arena, address, MISALIGNED);
  INVALID("arena must be aligned to 8 bytes", arenagen_arena_of, address, MISALIGNED);
  INVALID("base must be aligned to 8 bytes", arenagen_arena_registered_range, arena, MISALIGNED, &number);
  INVALID("length must be aligned to 8 bytes", arenagen_arena_registered_range, arena, &address, MISALIGNED);
  INVALID("bytes must be aligned to 8 bytes", arenagen_arena_used, arena, MISALIGNED);
  INVALID("bytes must be aligned to 8 bytes", arenagen_arena_mapped, arena, MISALIGNED);
  INVALID("count must be aligned to 8 bytes", arenagen_arena_live, arena, MISALIGNED);
  INVALID("closed must be aligned to 4 bytes", arenagen_arena_is_closed, arena, MISALIGNED);
  INVALID("stats must be aligned to 8 bytes", arenagen_arena_stats, arena, MISALIGNED);
  INVALID("info must be aligned to 4 bytes", arenagen_arena_device, arena, MISALIGNED);
  INVALID("diagnostics must be aligned to 8 bytes", arenagen_diagnose, MISALIGNED);
  INVALID("length must be aligned to 8 bytes", arenagen_doctor, NULL, 0, MISALIGNED, &flag);
  INVALID("usable must be aligned to 4 bytes", arenagen_doctor, NULL, 0, &count, MISALIGNED);
  INVALID("released must be aligned to 8 bytes", arenagen_arena_trim, arena, 0, MISALIGNED);
  INVALID("count must be aligned to 8 bytes", arenagen_arena_regions, arena, ARENAGEN_REGION_KIND_DMABUF, NULL, 0, MISALIGNED);
  INVALID("fd must be aligned to 4 bytes", arenagen_arena_export_fd, arena, address, MISALIGNED);
  INVALID("fd must be aligned to 4 bytes", arenagen_arena_export_dmabuf, arena, address, 4096, 0, MISALIGNED);
  INVALID("address must be aligned to 8 bytes", arenagen_arena_import_fd, arena, -1, 1, MISALIGNED);
  INVALID("address must be aligned to 8 bytes", arenagen_arena_import_fabric, arena, &fabric, 1, MISALIGNED);
  INVALID("count must be aligned to 8 bytes", arenagen_arena_events, arena, ARENAGEN_EVENT_STREAM_ALL, 0, NULL, 0, MISALIGNED, &number);
  INVALID("missed must be aligned to 8 bytes", arenagen_arena_events, arena, ARENAGEN_EVENT_STREAM_ALL, 0, NULL, 0, &count, MISALIGNED);
  INVALID("stats must be aligned to 8 bytes", arenagen_arena_tag_stats, arena, 1, MISALIGNED);
  INVALID("length must be aligned to 8 bytes", arenagen_arena_snapshot, arena, NULL, 0, MISALIGNED);
  INVALID("length must be aligned to 8 bytes", arenagen_arena_trace, arena, NULL, 0, MISALIGNED);
  INVALID("stats must be aligned to 8 bytes", arenagen_device_stats, 0, MISALIGNED);
  check_unchanged(0);
}

SCENARIO(a_struct_of_another_size_is_refused)
{
  static const uint32_t wrong[] = {0, 1, 4, -1, +1, 4096, INT32_MAX, UINT32_MAX};

  set_up();
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    /* Two of them are relative to what is right. */
    uint32_t near = i == 3 || i == 4, off = wrong[i];
    arenagen_error error = {.struct_size = off + near * sizeof error};
    arenagen_arena_options options = ARENAGEN_ARENA_OPTIONS_INIT;
    arenagen_callback_options callbacks = callback_options();
    arenagen_stats stats = {.struct_size = off + near * sizeof stats};
    arenagen_device_info info = {.struct_size = off + near * sizeof info};
    arenagen_diagnostics diagnostics = {.struct_size = off + near * sizeof diagnostics};
    arenagen_tag_stats tag = {.struct_size = off + near * sizeof tag};
    arenagen_device_totals totals = {.struct_size = off + near * sizeof totals};
    arenagen_arena made = 1;

    options.struct_size = off + near * sizeof options;
    callbacks.struct_size = off + near * sizeof callbacks;
    INVALID("error.struct_size must be 672, got ", arenagen_last_error, &error);
    INVALID("options.struct_size must be 120, got ", arenagen_arena_create, &options, &made);
    CHECK_EQUAL(0, made);
    made = 1;
    INVALID("options.struct_size must be 56, got ", arenagen_arena_create_callbacks, &callbacks, &made);
    CHECK_EQUAL(0, made);
    INVALID("stats.struct_size must be 280, got ", arenagen_arena_stats, arena, &stats);
    CHECK_EQUAL(0, stats.created);
    INVALID("info.struct_size must be 972, got ", arenagen_arena_device, arena, &info);
    INVALID("stats.struct_size must be 32, got ", arenagen_arena_tag_stats, arena, 1, &tag);
    INVALID("stats.struct_size must be 72, got ", arenagen_device_stats, 0, &totals);
    INVALID("diagnostics.struct_size must be 40, got ", arenagen_diagnose, &diagnostics);
    CHECK_EQUAL(0, diagnostics.arenas);
  }
  check_unchanged(0);
}

/* A program that was compiled against version 1.0 has structs without what came later. */
SCENARIO(structs_of_an_earlier_version_are_taken)
{
  struct {
    arenagen_stats stats;
    uint64_t behind;
  } old = {.stats = {.struct_size = offsetof(arenagen_stats, deferred), .deferred = 7}, .behind = 7};
  arenagen_arena_options options = ARENAGEN_ARENA_OPTIONS_INIT;
  arenagen_arena made = 0;

  CHECK_EQUAL(40, offsetof(arenagen_arena_options, backend));
  options.struct_size = offsetof(arenagen_arena_options, backend);
  options.backend = MISALIGNED; /* it is behind the end */
  options.drain = 99;
  OK(arenagen_arena_create(&options, &made));
  allocate(made, 1);
  CHECK_EQUAL(136, old.stats.struct_size);
  OK(arenagen_arena_stats(made, &old.stats));
  CHECK_EQUAL(136, old.stats.struct_size);
  CHECK_EQUAL(1, old.stats.created);
  CHECK_EQUAL(7, old.stats.deferred);
  CHECK_EQUAL(7, old.behind);
  OK(arenagen_arena_release(made));
}

SCENARIO(drains_out_of_range_are_refused)
{
  static const int32_t wrong[] = {-1, 4, INT32_MAX, INT32_MIN};

  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    arenagen_arena_options options = ARENAGEN_ARENA_OPTIONS_INIT;
    arenagen_arena made = 1;

    options.drain = wrong[i];
    INVALID("drain must be from 0 to 3", arenagen_arena_create, &options, &made);
    CHECK_EQUAL(0, made);
  }
}

SCENARIO(the_backend_is_one_that_the_library_carries)
{
  static const char *const right[] = {NULL, "", "auto", "stub"}, *const wrong[] = {"cuda", "Stub", "stub ", "x"};

  for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
    arenagen_arena_options options = ARENAGEN_ARENA_OPTIONS_INIT;
    arenagen_arena made = 0;

    options.backend = right[i];
    OK(arenagen_arena_create(&options, &made));
    CHECK_TEXT("stub", device_of(made).backend);
    OK(arenagen_arena_release(made));
    options.backend = wrong[i];
    INVALID("expected auto, stub", arenagen_arena_create, &options, &made);
  }
}

SCENARIO(what_a_device_is)
{
  arenagen_arena made = create(NULL);
  arenagen_device_info info = device_of(made);

  CHECK_TEXT("stub", info.backend);
  CHECK_TEXT("", info.library);
  CHECK_TEXT("none", info.properties);
  CHECK_EQUAL(0, info.device);
  CHECK_EQUAL(1, info.host_memory);
  CHECK_EQUAL(0, device_of(create("mode=record")).host_memory);
}

SCENARIO(what_a_live_allocation_is)
{
  arenagen_arena made = create(NULL);
  arenagen_allocation found = allocation_at(made, allocate(made, 1 + GRANULE));
  char *address = (char *)(uintptr_t)found.address;

  CHECK_EQUAL(2 * GRANULE, found.size);
  CHECK(found.handle != 0);
  CHECK_EQUAL(0, allocation_at(made, address + 1).size);
  CHECK_EQUAL(0, allocation_at(made, address + GRANULE).size);
  CHECK_EQUAL(0, allocation_at(made, address - 1).address);
  CHECK_EQUAL(0, allocation_at(made, NULL).size);
  CHECK_EQUAL(0, allocation_at(made, (void *)UINTPTR_MAX).size);
  CHECK_EQUAL(found.size, allocation_at(made, address).size);
  OK(arenagen_arena_free(made, address));
  CHECK_EQUAL(0, allocation_at(made, address).size);
  address = allocate(made, 1);
  OK(arenagen_arena_stop(made, 0));
  CHECK_EQUAL(GRANULE, allocation_at(made, address).size);
  OK(arenagen_arena_close(made));
  CHECK_EQUAL(0, allocation_at(made, address).size);
}

SCENARIO(the_doctor_writes_a_report)
{
  static char text[1 << 16];
  size_t length, again;
  int32_t usable;

  REFUSED(ARENAGEN_STATUS_BUFFER_TOO_SMALL, " bytes of text, room for 0", arenagen_doctor, NULL, 0, &length, &usable);
  CHECK(length > 0 && length < sizeof text);
  memset(text, '#', sizeof text);
  REFUSED(ARENAGEN_STATUS_BUFFER_TOO_SMALL, "", arenagen_doctor, text, 1, &again, &usable);
  CHECK_EQUAL('#', text[0]);
  usable = 0;
  OK(arenagen_doctor(text, SIZE_MAX, &again, &usable));
  CHECK_EQUAL(length, again);
  OK(arenagen_doctor(text, sizeof text, &again, &usable));
  CHECK_EQUAL(1, usable);
  CHECK_EQUAL('#', text[again]);
  text[again] = 0;
  CHECK_CONTAINS("stub: Host memory", text);
  CHECK_CONTAINS("device 0", text);
}

SCENARIO(outputs_are_cleared_on_failure)
{
  arenagen_arena made = 1;

  INVALID("", arenagen_arena_create, NULL, &made);
  CHECK_EQUAL(0, made);
  made = 1;
  INVALID("", arenagen_arena_create_callbacks, NULL, &made);
  CHECK_EQUAL(0, made);
  address = MISALIGNED, number = 1, count = 1, flag = 1;
  REFUSED(ARENAGEN_STATUS_INVALID_HANDLE, "", arenagen_arena_malloc, 0, 1, 0, NULL, &address);
  CHECK(address == NULL);
  address = MISALIGNED;
  REFUSED(ARENAGEN_STATUS_INVALID_HANDLE, "", arenagen_arena_registered_range, 0, &address, &number);
  CHECK(address == NULL);
  CHECK_EQUAL(0, number);
  REFUSED(ARENAGEN_STATUS_INVALID_HANDLE, "", arenagen_arena_close_and_drain, 0, NULL, 0, &count);
  CHECK_EQUAL(0, count);
  REFUSED(ARENAGEN_STATUS_INVALID_HANDLE, "", arenagen_arena_is_closed, 0, &flag);
  CHECK_EQUAL(0, flag);
}

/* Checks that arena_create refuses options. */
#define NOT_CREATED(status, part, ...)                                  \
  do {                                                                  \
    arenagen_arena_options options = ARENAGEN_ARENA_OPTIONS_INIT;       \
    arenagen_arena made = 1;                                            \
                                                                        \
    __VA_ARGS__;                                                        \
    REFUSED(status, part, arenagen_arena_create, &options, &made);      \
    CHECK_EQUAL(0, made);                                               \
  } while (0)

SCENARIO(a_total_that_cannot_be_is_refused)
{
  set_up();
  NOT_CREATED(ARENAGEN_STATUS_INVALID_ARGUMENT, "total must be positive, got 0", options.total = 0);
  NOT_CREATED(ARENAGEN_STATUS_INVALID_ARGUMENT, "total must be positive, got -1", options.total = -1);
  NOT_CREATED(ARENAGEN_STATUS_INVALID_ARGUMENT, "total must be positive", options.total = INT64_MIN);
  NOT_CREATED(ARENAGEN_STATUS_OVERFLOW, "total of 9223372036854775807 bytes", options.total = INT64_MAX);
  NOT_CREATED(ARENAGEN_STATUS_OUT_OF_MEMORY, "9223372036852678656 bytes", options.total = INT64_MAX - GRANULE);
  NOT_CREATED(ARENAGEN_STATUS_OUT_OF_MEMORY, "reserve 562949953421312 bytes of addresses for an arena, fewer may work", options.total = TOO_MUCH);
  check_unchanged(0);
}

SCENARIO(a_granule_that_cannot_be_is_refused)
{
  static const uint64_t odd[] = {3, 6, 100, GRANULE + 1, GRANULE * 3, UINT64_MAX, INT64_MAX};
  static const uint64_t small[] = {1, 2, 4096, 32 * KiB};

  set_up();
  for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
    NOT_CREATED(ARENAGEN_STATUS_INVALID_ARGUMENT, "granule must be a power of two, got ", options.granule = odd[i]);
  for (size_t i = 0; i < sizeof small / sizeof *small; i++)
    NOT_CREATED(ARENAGEN_STATUS_INVALID_ARGUMENT, "granule must be at least the driver's minimum of 65536 bytes, got ", options.granule = small[i]);
  NOT_CREATED(ARENAGEN_STATUS_OVERFLOW, "total of 4398046511104 bytes", options.granule = UINT64_C(1) << 63);
  NOT_CREATED(ARENAGEN_STATUS_OUT_OF_MEMORY, "4611686018427387904 bytes", options.granule = UINT64_C(1) << 62);
  NOT_CREATED(ARENAGEN_STATUS_OUT_OF_MEMORY, "562949953421312 bytes", options.granule = TOO_MUCH);
  check_unchanged(0);
}

SCENARIO(a_granularity_that_does_not_exist_is_refused)
{
  static const arenagen_granularity wrong[] = {-1, 2, 255, INT32_MAX, INT32_MIN};

  set_up();
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    NOT_CREATED(ARENAGEN_STATUS_INVALID_ARGUMENT, "granularity must be 0 or 1, got ", options.granularity = wrong[i]);
    NOT_CREATED(ARENAGEN_STATUS_INVALID_ARGUMENT, "granularity must be 0 or 1, got ",
                options.granularity = wrong[i]; options.granule = GRANULE);
  }
  check_unchanged(0);
}

SCENARIO(a_device_that_does_not_exist_is_refused)
{
  static const int32_t missing[] = {-1, 1, 2, 63, 64, INT32_MAX, INT32_MIN};

  set_up();
  for (size_t i = 0; i < sizeof missing / sizeof *missing; i++) {
    NOT_CREATED(ARENAGEN_STATUS_NO_DEVICE, "HOSTVMM_ERROR_INVALID_DEVICE", options.device = missing[i]);
    CHECK_EQUAL(101, last_error().driver_code);
    CHECK_TEXT("HOSTVMM_ERROR_INVALID_DEVICE", last_error().driver_name);
  }
  NOT_CREATED(ARENAGEN_STATUS_NO_DEVICE, "", options.device = 2; options.backend_options = "devices=2");
  check_unchanged(0);
}

SCENARIO(backend_options_that_mean_nothing_are_refused)
{
  static const struct {
    const char *options, *part;
  } wrong[] = {
    {",", "expected name=value"},
    {"=", "expected name=value"},
    {"mode", "expected name=value, found \"mode\""},
    {"=host", "expected name=value"},
    {"mode=", "mode must be one of host, record"},
    {"mode=x", "mode must be one of host, record, found \"x\""},
    {"mode=HOST", "mode must be one of host, record, found \"HOST\""},
    {"mode=host,", "expected name=value"},
    {",mode=host", "expected name=value"},
    {"mode=host,mode=host", "mode is set twice"},
    {"mode=host=record", "found \"host=record\""},
    {"mod=host", "did you mean \"mode\"?"},
    {"nonsense=1", "there is no option \"nonsense\""},
    {"mode=host;devices=2", "mode must be"},
    {"devices=0", "devices must be a number from 1 to 64, found \"0\""},
    {"devices=65", "devices must be a number from 1 to 64, found \"65\""},
    {"devices=-1", "found \"-1\""},
    {"devices=1.5", "found \"1.5\""},
    {"devices=0x1", "found \"0x1\""},
    {"devices=18446744073709551617", "found \"18446744073709551617\""},
    {"capacity=18446744073709551616", "capacity must be"},
    {"capacity=16EiB", "found \"16EiB\""},
    {"capacity=1XiB", "found \"1XiB\""},
    {"capacity=KiB", "found \"KiB\""},
    {"granule=3", "granule"},
    {"granule=3MiB", ""},
    {"min_granule=4097", ""},
    {"min_granule=1KiB", "min_granule"},
    {"granule=64KiB,min_granule=2MiB", ""},
    {"log=1048577", "log must be"},
    {"\xff\xfe=\x01", "there is no option"},
    {"mode=\xc3\x28", "mode must be"},
  };

  set_up();
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    NOT_CREATED(ARENAGEN_STATUS_INVALID_ARGUMENT, wrong[i].part, options.backend_options = wrong[i].options);
  }
  check_unchanged(0);
}

SCENARIO(backend_options_without_end_are_refused)
{
  static char endless[1 << 20];
  static const size_t lengths[] = {512, 4096, 65535, 65536, sizeof endless - 1};

  set_up();
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    memset(endless, 'm', sizeof endless);
    endless[lengths[i]] = 0;
    NOT_CREATED(ARENAGEN_STATUS_INVALID_ARGUMENT, "option", options.backend_options = endless);
    CHECK(strlen(last_error().text) < sizeof last_error().text);
  }
  check_unchanged(0);
}

SCENARIO(good_backend_options_are_taken)
{
  static const char *const good[] = {NULL, "", " ", "mode=host", "mode=record", " mode = host , devices = 3 ",
                                     "capacity=1GiB,granule=4MiB,min_granule=4KiB,log=10"};

  for (size_t i = 0; i < sizeof good / sizeof *good; i++)
    OK(arenagen_arena_release(create(good[i])));
}

SCENARIO(a_size_that_cannot_be_is_refused)
{
  set_up();
  INVALID("size must be positive, got 0", arenagen_arena_malloc, arena, 0, 0, NULL, &address);
  INVALID("size must be positive, got -1", arenagen_arena_malloc, arena, -1, 0, NULL, &address);
  INVALID("size must be positive, got -9223372036854775808", arenagen_arena_malloc, arena, INT64_MIN, 0, NULL, &address);
  REFUSED(ARENAGEN_STATUS_OVERFLOW, "9223372036854775807", arenagen_arena_malloc, arena, INT64_MAX, 0, NULL, &address);
  REFUSED(ARENAGEN_STATUS_OVERFLOW, "overflows", arenagen_arena_malloc, arena, INT64_MAX - GRANULE + 2, 0, NULL, &address);
  REFUSED(ARENAGEN_STATUS_EXHAUSTED, "allocation of 9223372036852678656 bytes", arenagen_arena_malloc, arena, INT64_MAX - GRANULE + 1, 0, NULL, &address);
  CHECK_EQUAL(INT64_MAX - GRANULE + 1, last_error().size);
  REFUSED(ARENAGEN_STATUS_EXHAUSTED, "would exceed reserved range of 4398046511104 bytes", arenagen_arena_malloc, arena, 4 * TiB, 0, NULL, &address);
  check_unchanged(7);
}

SCENARIO(an_alignment_that_cannot_be_is_refused)
{
  static const uint64_t wrong[] = {3, 5, 24, GRANULE + 1, 2 * GRANULE, 3 * GRANULE, UINT64_C(1) << 63, UINT64_MAX};

  set_up();
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    INVALID("alignment must be a power of two up to the granule of 2097152 bytes", arenagen_arena_malloc, arena, 1, wrong[i], NULL, &address);
  check_unchanged(sizeof wrong / sizeof *wrong);
}

SCENARIO(good_alignments_are_kept)
{
  arena = create(NULL);
  for (uint64_t align = 1; align <= GRANULE; align *= 2) {
    OK(arenagen_arena_malloc(arena, 1, align, NULL, &address));
    CHECK_EQUAL(0, (uintptr_t)address % align);
  }
  CHECK_EQUAL(0, (uintptr_t)allocate(arena, 1) % GRANULE);
}

/* Checks that arena_create_callbacks refuses options. */
#define NO_CALLBACKS(status, part, ...)                                         \
  do {                                                                          \
    arenagen_callback_options options = callback_options();                     \
    arenagen_arena made = 1;                                                    \
                                                                                \
    __VA_ARGS__;                                                                \
    REFUSED(status, part, arenagen_arena_create_callbacks, &options, &made);    \
    CHECK_EQUAL(0, made);                                                       \
  } while (0)

SCENARIO(callback_options_that_cannot_be_are_refused)
{
  set_up();
  NO_CALLBACKS(ARENAGEN_STATUS_INVALID_ARGUMENT, "must not be NULL", options.allocate = NULL);
  NO_CALLBACKS(ARENAGEN_STATUS_INVALID_ARGUMENT, "must not be NULL", options.release = NULL);
  NO_CALLBACKS(ARENAGEN_STATUS_INVALID_ARGUMENT, "base must not be 0", options.base = 0);
  NO_CALLBACKS(ARENAGEN_STATUS_INVALID_ARGUMENT, "total must be positive, got 0", options.total = 0);
  NO_CALLBACKS(ARENAGEN_STATUS_INVALID_ARGUMENT, "total must be positive, got -5", options.total = -5);
  NO_CALLBACKS(ARENAGEN_STATUS_OVERFLOW, "total of 9223372036854775807 bytes", options.total = INT64_MAX);
  NO_CALLBACKS(ARENAGEN_STATUS_INVALID_ARGUMENT, "granule must be a power of two, got 0", options.granule = 0);
  NO_CALLBACKS(ARENAGEN_STATUS_INVALID_ARGUMENT, "granule must be a power of two, got 3", options.granule = 3);
  NO_CALLBACKS(ARENAGEN_STATUS_OVERFLOW, "", options.granule = UINT64_C(1) << 63);
  NO_CALLBACKS(ARENAGEN_STATUS_INVALID_ARGUMENT, "does not fit into 64 bits", options.base = UINT64_MAX - GRANULE);
  NO_CALLBACKS(ARENAGEN_STATUS_INVALID_ARGUMENT, "does not fit into 64 bits", options.base = UINT64_MAX - GRANULE + 1; options.total = GRANULE);
  check_unchanged(0);
}

SCENARIO(nothing_is_left_of_a_thousand_refusals)
{
  set_up();
  for (int i = 0; i < 1000; i++) {
    char unknown[32];

    snprintf(unknown, sizeof unknown, "option%d=1", i);
    NOT_CREATED(ARENAGEN_STATUS_INVALID_ARGUMENT, "there is no option", options.backend_options = unknown);
    NOT_CREATED(ARENAGEN_STATUS_OUT_OF_MEMORY, "", options.total = TOO_MUCH);
    NOT_CREATED(ARENAGEN_STATUS_INVALID_ARGUMENT, "", options.granule = 3);
  }
  check_unchanged(0);
}
