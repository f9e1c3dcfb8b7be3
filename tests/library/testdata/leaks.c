/* What is given back is gone: descriptors, mappings and memory stay as they were. */
#include "arenas.h"

enum { ROUNDS = 4000 };

static arenagen_allocation buffer[8];

/* Does something many times, and checks that the second half leaves nothing that the first did not. */
static void check_leaves_nothing(void (*action)(void))
{
  int files, mappings, threads;
  int64_t memory;

  for (int i = 0; i < ROUNDS / 2; i++)
    action();
  files = open_files();
  mappings = count_mappings();
  threads = count_entries("/proc/self/task");
  memory = resident();
  for (int i = 0; i < ROUNDS / 2; i++)
    action();
  CHECK_EQUAL(files, open_files());
  /* Go's own heap and threads may still have grown a little. */
  CHECK_FLAT(mappings, count_mappings(), 8);
  CHECK_FLAT(threads, count_entries("/proc/self/task"), 2);
  /* Less than an arena's records a round; Go collects its garbage by the 4 MiB, and late when it is crowded. */
  CHECK_FLAT(memory, resident(), 8 * MiB);
  CHECK_EQUAL(0, diagnose().arenas);
}

static void create_close_release(void)
{
  arenagen_arena arena = create(NULL);

  OK(arenagen_arena_close(arena));
  OK(arenagen_arena_release(arena));
}

SCENARIO(arenas)
{
  check_leaves_nothing(create_close_release);
}

static void release_with_live_memory(void)
{
  arenagen_arena arena = create_active(NULL);

  for (int i = 0; i < 8; i++)
    memset(mx_malloc(1, 0, NULL), 1, 4096);
  OK(arenagen_arena_release(arena));
}

SCENARIO(arenas_with_live_memory)
{
  check_leaves_nothing(release_with_live_memory);
}

static void close_and_free_late(void)
{
  arenagen_arena arena = create(NULL);
  void *address = allocate(arena, 1);

  OK(arenagen_arena_close(arena));
  mx_free(address, 1, 0, NULL);
  OK(arenagen_arena_release(arena));
}

SCENARIO(arenas_with_late_frees)
{
  check_leaves_nothing(close_and_free_late);
}

static void drain_and_release(void)
{
  arenagen_arena arena = create("mode=record");
  size_t count;

  for (int i = 0; i < 8; i++)
    allocate(arena, 1);
  CHECK_EQUAL(ARENAGEN_STATUS_BUFFER_TOO_SMALL, arenagen_arena_close_and_drain(arena, buffer, 1, &count));
  OK(arenagen_arena_close_and_drain(arena, buffer, 8, &count));
  OK(arenagen_arena_release(arena));
}

SCENARIO(drained_arenas)
{
  check_leaves_nothing(drain_and_release);
}

static int32_t allocate_or_fail(void *user, uint64_t address, uint64_t size, uint64_t *handle)
{
  (void)user, (void)size;
  *handle = address;
  return address / GRANULE % 2 == 0;
}

static int32_t fail_to_release(void *user, uint64_t address, uint64_t size, uint64_t handle)
{
  (void)user, (void)address, (void)size, (void)handle;
  return 1;
}

static void use_failing_callbacks(void)
{
  arenagen_callback_options options = ARENAGEN_CALLBACK_OPTIONS_INIT;
  arenagen_arena arena;
  void *address;

  options.base = 1 << 30;
  options.allocate = allocate_or_fail;
  options.release = fail_to_release;
  OK(arenagen_arena_create_callbacks(&options, &arena));
  for (int i = 0; i < 8; i++)
    arenagen_arena_malloc(arena, 1, 0, NULL, &address);
  CHECK_EQUAL(4, live_in(arena));
  arenagen_arena_close(arena);
  OK(arenagen_arena_release(arena));
}

SCENARIO(arenas_over_callbacks_that_fail)
{
  check_leaves_nothing(use_failing_callbacks);
}

static void fail_to_create(void)
{
  arenagen_arena_options options = ARENAGEN_ARENA_OPTIONS_INIT;
  arenagen_arena arena;

  options.total = TOO_MUCH;
  CHECK_STATUS(ARENAGEN_STATUS_OUT_OF_MEMORY, arenagen_arena_create(&options, &arena));
  options.backend_options = "mode=nothing";
  CHECK_STATUS(ARENAGEN_STATUS_INVALID_ARGUMENT, arenagen_arena_create(&options, &arena));
  options.device = 9;
  options.backend_options = NULL;
  CHECK_STATUS(ARENAGEN_STATUS_NO_DEVICE, arenagen_arena_create(&options, &arena));
}

SCENARIO(arenas_that_could_not_be_made)
{
  check_leaves_nothing(fail_to_create);
}

static arenagen_arena lasting;

static void allocate_and_free_often(void)
{
  for (int i = 0; i < 25; i++) {
    mx_free(mx_malloc(1, 0, NULL), 1, 0, NULL);
    CHECK(mx_malloc(0, 0, NULL) == NULL);
  }
  if (stats_of(lasting).created == ROUNDS * 25)
    OK(arenagen_arena_release(lasting));
}

SCENARIO(allocations)
{
  lasting = create_active(NULL);
  check_leaves_nothing(allocate_and_free_often);
}
