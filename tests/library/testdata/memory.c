/* What is behind the addresses. */
#include "arenas.h"

#include <sys/resource.h>
#include <sys/wait.h>

/* Tells whether touching an address ends a process. */
static int faults(const void *address)
{
  pid_t child = fork();
  int status;

  CHECK(child >= 0);
  if (child == 0) {
    (void)*(const volatile char *)address;
    _exit(0);
  }
  CHECK_EQUAL(child, waitpid(child, &status, 0));
  if (WIFSIGNALED(status))
    CHECK_EQUAL(SIGSEGV, WTERMSIG(status));
  else
    CHECK_EQUAL(0, status);
  return WIFSIGNALED(status);
}

static arenagen_arena create_of(int64_t total, const char *backend_options)
{
  arenagen_arena_options options = ARENAGEN_ARENA_OPTIONS_INIT;

  options.total = total;
  options.backend_options = backend_options;
  return create_with(options);
}

SCENARIO(only_what_is_allocated_can_be_touched)
{
  arenagen_arena arena = create(NULL);
  char *base = (char *)stats_of(arena).base, *address, *other;

  CHECK(faults(base));
  CHECK(faults(base + 4 * TiB - 1));
  address = allocate(arena, 1);
  other = allocate(arena, GRANULE + 1);
  CHECK(!faults(address));
  CHECK(!faults(address + GRANULE - 1));
  CHECK(!faults(other));
  CHECK(!faults(other + 2 * GRANULE - 1));
  CHECK(faults(other + 2 * GRANULE));
  OK(arenagen_arena_free(arena, address));
  CHECK(faults(address));
  CHECK(faults(address + GRANULE - 1));
  CHECK(!faults(other));
  OK(arenagen_arena_close(arena));
  CHECK(faults(other));
}

SCENARIO(fresh_memory_is_zero_also_where_others_wrote)
{
  arenagen_arena arena = create(NULL);

  for (int i = 0; i < 20; i++) {
    char *address = allocate(arena, GRANULE);

    for (int at = 0; at < GRANULE; at += 64)
      CHECK_EQUAL(0, address[at]);
    memset(address, 0xff, GRANULE);
    OK(arenagen_arena_free(arena, address));
  }
}

SCENARIO(allocations_do_not_share_memory)
{
  enum { COUNT = 50 };
  arenagen_arena one = create(NULL), two = create(NULL);
  int64_t *addresses[COUNT];

  for (int i = 0; i < COUNT; i++) {
    addresses[i] = allocate(i % 2 ? one : two, GRANULE);
    for (size_t at = 0; at < GRANULE / sizeof(int64_t); at++)
      addresses[i][at] = i;
  }
  for (int i = 0; i < COUNT; i++)
    for (size_t at = 0; at < GRANULE / sizeof(int64_t); at++)
      CHECK_EQUAL(i, addresses[i][at]);
}

SCENARIO(memory_goes_back_to_the_system_when_it_is_freed)
{
  enum { SIZE = 64 * MiB, SLACK = 8 * MiB };
  arenagen_arena arena = create(NULL);
  int64_t before = resident();

  for (int i = 0; i < 5; i++) {
    void *address = allocate(arena, SIZE);

    CHECK_FLAT(before, resident(), SLACK);
    memset(address, 1, SIZE);
    CHECK(resident() > before + SIZE - SLACK);
    OK(arenagen_arena_free(arena, address));
    CHECK_FLAT(before, resident(), SLACK);
  }
}

SCENARIO(memory_goes_back_to_the_system_at_close)
{
  enum { SIZE = 64 * MiB, SLACK = 8 * MiB };
  arenagen_arena arena = create(NULL);
  int64_t before = resident();

  memset(allocate(arena, SIZE), 1, SIZE);
  CHECK(resident() > before + SIZE - SLACK);
  OK(arenagen_arena_close(arena));
  CHECK_FLAT(before, resident(), SLACK);
}

SCENARIO(a_reservation_costs_no_memory)
{
  int64_t before = resident();
  arenagen_arena arena;

  arena = create_of(16 * TiB, NULL);
  CHECK_EQUAL(16 * TiB, stats_of(arena).total);
  memset(allocate(arena, 1), 1, GRANULE);
  CHECK_FLAT(before, resident(), 8 * MiB);
}

SCENARIO(about_seven_large_reservations_fit)
{
  arenagen_arena_options options = ARENAGEN_ARENA_OPTIONS_INIT;
  arenagen_arena arenas[32], arena;
  int count = 0;

  options.total = 16 * TiB;
  while (arenagen_arena_create(&options, &arena) == ARENAGEN_STATUS_OK) {
    CHECK(count < 32);
    memset(allocate(arena, 1), 1, 1);
    arenas[count++] = arena;
  }
  CHECK(count >= 6);
  REFUSED(ARENAGEN_STATUS_OUT_OF_MEMORY, "reserve 17592186044416 bytes of addresses for an arena, fewer may work", arenagen_arena_create, &options, &arena);
  /* A smaller one still fits, and releasing one makes room for another. */
  create_of(1 * TiB, NULL);
  OK(arenagen_arena_release(arenas[0]));
  create_of(16 * TiB, NULL);
}

SCENARIO(a_total_is_rounded_up_to_the_granule)
{
  arenagen_arena arena = create_of(GRANULE + 1, NULL);

  CHECK_EQUAL(2 * GRANULE, stats_of(arena).total);
  CHECK_EQUAL(GRANULE, stats_of(arena).granule);
  CHECK_EQUAL(0, stats_of(arena).base % GRANULE);
  CHECK_EQUAL(GRANULE, stats_of(create_of(1, NULL)).total);
}

SCENARIO(the_granule_is_what_the_caller_asks_for)
{
  arenagen_arena_options options = ARENAGEN_ARENA_OPTIONS_INIT;
  arenagen_arena arena;

  options.granularity = ARENAGEN_GRANULARITY_MINIMUM;
  CHECK_EQUAL(SMALL_GRANULE, stats_of(create_with(options)).granule);
  options.backend_options = "min_granule=4KiB";
  CHECK_EQUAL(4 * KiB, stats_of(create_with(options)).granule);
  options.granule = 512 * KiB;
  arena = create_with(options);
  CHECK_EQUAL(512 * KiB, stats_of(arena).granule);
  CHECK_EQUAL(512 * KiB, (char *)allocate(arena, 1) + 512 * KiB - (char *)stats_of(arena).base);
  options.granule = UINT64_C(1) << 30;
  CHECK_EQUAL(1 << 30, stats_of(create_with(options)).granule);
}

SCENARIO(ten_thousand_allocations_fit_into_the_usual_limit_on_open_files)
{
  enum { COUNT = 10000 };
  static char *addresses[COUNT];
  struct rlimit limit;
  arenagen_arena_options options = ARENAGEN_ARENA_OPTIONS_INIT;
  arenagen_arena arena;
  int files;

  CHECK_EQUAL(0, getrlimit(RLIMIT_NOFILE, &limit));
  limit.rlim_cur = 256;
  CHECK_EQUAL(0, setrlimit(RLIMIT_NOFILE, &limit));
  options.granularity = ARENAGEN_GRANULARITY_MINIMUM;
  arena = create_with(options);
  addresses[0] = allocate(arena, 1);
  files = open_files();
  for (int i = 1; i < COUNT; i++)
    addresses[i] = allocate(arena, 1);
  for (int i = 0; i < COUNT; i++)
    *addresses[i] = (char)i;
  for (int i = 0; i < COUNT; i++)
    CHECK_EQUAL((char)i, *addresses[i]);
  CHECK_EQUAL(files, open_files());
  OK(arenagen_arena_close(arena));
}

SCENARIO(a_device_has_only_so_much_memory)
{
  arenagen_arena arena = create_active("capacity=10MiB");
  void *address;

  for (int i = 0; i < 5; i++)
    allocate(arena, GRANULE);
  REFUSED(ARENAGEN_STATUS_OUT_OF_MEMORY, "HOSTVMM_ERROR_OUT_OF_MEMORY", arenagen_arena_malloc, arena, 1, 0, NULL, &address);
  NO_MEMORY(ARENAGEN_STATUS_OUT_OF_MEMORY, "HOSTVMM_ERROR_OUT_OF_MEMORY", 1, 0);
  mx_free((void *)stats_of(arena).base, 1, 0, NULL);
  CHECK(mx_malloc(1, 0, NULL) != NULL);
  CHECK_EQUAL(2, stats_of(arena).failed);
  CHECK_EQUAL(8 * GRANULE, stats_of(arena).used);
}

SCENARIO(in_mode_record_nothing_is_behind_the_addresses)
{
  arenagen_arena arena = create("mode=record");
  int64_t before = resident();
  char *address = NULL;

  for (int i = 0; i < 1000; i++)
    address = allocate(arena, INT64_C(1) << 30);
  CHECK_FLAT(before, resident(), 4 * MiB);
  CHECK_EQUAL(INT64_C(1000) << 30, stats_of(arena).mapped);
  CHECK(faults(address));
  for (int i = 0; i < 1000; i++)
    OK(arenagen_arena_free(arena, (char *)stats_of(arena).base + ((int64_t)i << 30)));
  CHECK_EQUAL(0, stats_of(arena).mapped);
  OK(arenagen_arena_close(arena));
}

SCENARIO(in_mode_record_reservations_are_nobody_elses)
{
  arenagen_arena one = create("mode=record"), two = create("mode=record"), three = create(NULL);
  uint64_t bases[] = {stats_of(one).base, stats_of(two).base, stats_of(three).base};

  for (int i = 0; i < 3; i++)
    for (int j = 0; j < i; j++)
      CHECK(bases[i] + 4 * TiB <= bases[j] || bases[j] + 4 * TiB <= bases[i]);
}
