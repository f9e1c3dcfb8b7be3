/* mx_malloc and mx_free, as PyTorch calls them. */
#include "arenas.h"

#include <sys/mman.h>

enum { THREADS = 4, TENSORS = 25, DEVICES = 64, SIZE = 100000 };

static unsigned char *tensors[THREADS][TENSORS];

static unsigned char pattern(int thread, int tensor)
{
  return (unsigned char)(1 + thread * TENSORS + tensor);
}

static void fill_tensors(int number)
{
  for (int i = 0; i < TENSORS; i++) {
    tensors[number][i] = mx_malloc(SIZE, 0, NULL);
    CHECK(tensors[number][i] != NULL);
    memset(tensors[number][i], pattern(number, i), SIZE);
  }
}

/* Frees what another thread filled. */
static void check_and_free_tensors(int number)
{
  int other = THREADS - 1 - number;

  for (int i = 0; i < TENSORS; i++) {
    for (int at = 0; at < SIZE; at++)
      CHECK_EQUAL(pattern(other, i), tensors[other][i][at]);
    mx_free(tensors[other][i], SIZE, 0, NULL);
  }
}

SCENARIO(memory_is_written_and_read_and_freed_across_threads_after_the_scope)
{
  arenagen_arena arena = create_active(NULL);

  on_threads(THREADS, fill_tensors);
  CHECK_EQUAL(THREADS * TENSORS, live_in(arena));
  OK(arenagen_set_active_any(0));
  on_threads(THREADS, check_and_free_tensors);

  CHECK_EQUAL(0, live_in(arena));
  CHECK_EQUAL(THREADS * TENSORS, stats_of(arena).released);
  CHECK_EQUAL(0, diagnose().unrouted_frees);
}

SCENARIO(without_an_active_arena_there_is_no_memory_and_a_reason)
{
  NO_MEMORY(ARENAGEN_STATUS_NO_ACTIVE_ARENA, "no active arena", SIZE, 0);
  NO_MEMORY(ARENAGEN_STATUS_NO_ACTIVE_ARENA, "no active arena", SIZE, 63);
  CHECK_EQUAL(2, diagnose().no_active_arena);
}

SCENARIO(addresses_ascend_and_never_come_twice)
{
  arenagen_arena arena = create_active(NULL);
  uintptr_t expected = stats_of(arena).base;

  for (int i = 0; i < 100; i++) {
    int size = 1 + i * (GRANULE / 8);
    void *address = mx_malloc(size, 0, NULL);

    CHECK_EQUAL(expected, (uintptr_t)address);
    expected += (uintptr_t)(size + GRANULE - 1) / GRANULE * GRANULE;
    mx_free(address, 0, 0, NULL);
  }
}

SCENARIO(each_device_has_an_arena_of_its_own)
{
  arenagen_arena arenas[DEVICES];

  for (int device = 0; device < DEVICES; device++) {
    arenagen_arena_options options = ARENAGEN_ARENA_OPTIONS_INIT;

    options.device = device;
    options.total = GRANULE;
    options.backend_options = "mode=record,devices=64";
    arenas[device] = create_with(options);
    OK(arenagen_set_active(device, arenas[device]));
  }
  for (int device = DEVICES - 1; device >= 0; device--) {
    void *address = mx_malloc(SIZE, device, NULL);

    CHECK_EQUAL(arenas[device], owner_of(address));
    CHECK_EQUAL(device, stats_of(arenas[device]).device);
  }
}

SCENARIO(a_device_without_an_arena_is_served_by_the_one_for_any)
{
  arenagen_arena own = create(NULL), any = create(NULL);

  OK(arenagen_set_active(5, own));
  OK(arenagen_set_active_any(any));
  CHECK_EQUAL(own, owner_of(mx_malloc(SIZE, 5, NULL)));
  CHECK_EQUAL(any, owner_of(mx_malloc(SIZE, 4, NULL)));
  CHECK_EQUAL(any, owner_of(mx_malloc(SIZE, 63, NULL)));
  /* Ordinals that no place is kept for. */
  CHECK_EQUAL(any, owner_of(mx_malloc(SIZE, 64, NULL)));
  CHECK_EQUAL(any, owner_of(mx_malloc(SIZE, -1, NULL)));
  CHECK_EQUAL(any, owner_of(mx_malloc(SIZE, INT32_MAX, NULL)));
  CHECK_EQUAL(any, owner_of(mx_malloc(SIZE, INT32_MIN, NULL)));
}

SCENARIO(setting_an_arena_active_replaces_the_one_before)
{
  arenagen_arena first = create(NULL), second = create(NULL);

  OK(arenagen_set_active(0, first));
  OK(arenagen_set_active(0, second));
  CHECK_EQUAL(second, owner_of(mx_malloc(SIZE, 0, NULL)));
  OK(arenagen_set_active_any(second));
  OK(arenagen_set_active_any(first));
  CHECK_EQUAL(first, owner_of(mx_malloc(SIZE, 1, NULL)));
}

SCENARIO(clearing_a_place_clears_that_place_only)
{
  arenagen_arena first = create(NULL), second = create(NULL), any = create(NULL);

  OK(arenagen_set_active(1, first));
  OK(arenagen_set_active(2, second));
  OK(arenagen_set_active_any(any));
  OK(arenagen_set_active(1, 0));
  CHECK_EQUAL(any, owner_of(mx_malloc(SIZE, 1, NULL)));
  CHECK_EQUAL(second, owner_of(mx_malloc(SIZE, 2, NULL)));
  OK(arenagen_set_active_any(0));
  CHECK_EQUAL(second, owner_of(mx_malloc(SIZE, 2, NULL)));
  NO_MEMORY(ARENAGEN_STATUS_NO_ACTIVE_ARENA, "", SIZE, 1);
}

SCENARIO(a_place_that_does_not_exist_cannot_be_set)
{
  static const int32_t devices[] = {-1, 64, INT32_MAX, INT32_MIN};
  arenagen_arena arena = create(NULL);

  for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
    REFUSED(ARENAGEN_STATUS_INVALID_ARGUMENT, "device must be 0 to 63", arenagen_set_active, devices[i], arena);
    REFUSED(ARENAGEN_STATUS_INVALID_ARGUMENT, "device must be 0 to 63", arenagen_set_active, devices[i], 0);
  }
}

SCENARIO(an_active_arena_that_is_closed_stops_serving)
{
  arenagen_arena own = create(NULL), any = create(NULL);

  OK(arenagen_set_active(0, own));
  OK(arenagen_arena_close(own));
  NO_MEMORY(ARENAGEN_STATUS_CLOSED, "arena is closed", SIZE, 0);
  OK(arenagen_set_active_any(any));
  CHECK_EQUAL(any, owner_of(mx_malloc(SIZE, 0, NULL)));
  OK(arenagen_arena_close(any));
  NO_MEMORY(ARENAGEN_STATUS_CLOSED, "arena is closed", SIZE, 0);
}

SCENARIO(an_active_arena_that_is_released_is_active_no_more)
{
  arenagen_arena own = create(NULL), any = create(NULL);

  OK(arenagen_set_active(0, own));
  OK(arenagen_set_active_any(any));
  OK(arenagen_arena_release(own));
  CHECK_EQUAL(any, owner_of(mx_malloc(SIZE, 0, NULL)));
  OK(arenagen_arena_release(any));
  NO_MEMORY(ARENAGEN_STATUS_NO_ACTIVE_ARENA, "", SIZE, 0);
}

SCENARIO(a_free_goes_by_address_whichever_arena_is_active)
{
  arenagen_arena first = create_active(NULL);
  void *one = mx_malloc(SIZE, 0, NULL), *two = mx_malloc(SIZE, 0, NULL);
  arenagen_arena second = create_active(NULL);

  mx_free(one, SIZE, 0, NULL);
  CHECK_EQUAL(1, live_in(first));
  OK(arenagen_set_active_any(0));
  mx_free(two, SIZE, 0, NULL);
  CHECK_EQUAL(0, live_in(first));
  CHECK_EQUAL(0, stats_of(second).unknown_frees);
}

SCENARIO(an_arena_frees_only_what_is_its_own)
{
  arenagen_arena arena = create(NULL), other = create(NULL);
  void *address = allocate(arena, 1);

  OK(arenagen_arena_free(other, address));
  CHECK_EQUAL(1, stats_of(other).unknown_frees);
  CHECK_EQUAL(1, live_in(arena));
  OK(arenagen_arena_free(arena, address));
  CHECK_EQUAL(0, live_in(arena));
}

SCENARIO(the_hints_of_a_free_are_not_trusted)
{
  arenagen_arena arena = create_active(NULL);
  static const ssize_t sizes[] = {0, -1, 1, PTRDIFF_MAX, PTRDIFF_MIN};
  static const int devices[] = {0, -1, 64, INT32_MAX, INT32_MIN};

  for (int i = 0; i < 5; i++)
    mx_free(mx_malloc(SIZE, 0, (void *)1), sizes[i], devices[i], (void *)UINTPTR_MAX);
  CHECK_EQUAL(0, live_in(arena));
  CHECK_EQUAL(4, diagnose().other_device_frees);
}

SCENARIO(a_second_free_is_counted_and_ignored)
{
  arenagen_arena arena = create_active(NULL);
  void *address = mx_malloc(SIZE, 0, NULL), *other = mx_malloc(SIZE, 0, NULL);

  mx_free(address, SIZE, 0, NULL);
  mx_free(address, SIZE, 0, NULL);
  OK(arenagen_arena_free(arena, address));
  CHECK_EQUAL(1, live_in(arena));
  CHECK_EQUAL(1, stats_of(arena).released);
  CHECK_EQUAL(1, diagnose().unrouted_frees + stats_of(arena).unknown_frees - 1);
  memset(other, 1, SIZE);
}

SCENARIO(an_interior_pointer_is_counted_and_ignored)
{
  arenagen_arena arena = create_active(NULL);
  char *address = mx_malloc(2 * GRANULE, 0, NULL);
  static const int offsets[] = {1, 8, 512, 4096, GRANULE, 2 * GRANULE - 1};

  for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
    mx_free(address + offsets[i], 2 * GRANULE, 0, NULL);
    OK(arenagen_arena_free(arena, address + offsets[i]));
  }
  CHECK_EQUAL(1, live_in(arena));
  memset(address, 1, 2 * GRANULE);
}

static void *contested;

static void free_contested(int number)
{
  (void)number;
  mx_free(contested, SIZE, 0, NULL);
}

SCENARIO(exactly_one_of_several_threads_frees_a_pointer)
{
  arenagen_arena arena = create_active(NULL);

  for (int round = 1; round <= 20; round++) {
    contested = mx_malloc(SIZE, 0, NULL);
    on_threads(16, free_contested);
    CHECK_EQUAL(round, stats_of(arena).released);
  }
}

SCENARIO(freeing_null_is_nothing)
{
  arenagen_arena arena = create_active(NULL);

  mx_free(NULL, SIZE, 0, NULL);
  OK(arenagen_arena_free(arena, NULL));
  CHECK_EQUAL(0, stats_of(arena).unknown_frees);
  CHECK_EQUAL(0, diagnose().unrouted_frees);
}

SCENARIO(wild_addresses_are_nobodys)
{
  arenagen_arena arena = create_active(NULL);
  char on_the_stack;
  static char in_the_data;
  void *on_the_heap = malloc(100), *unmapped = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  char *base = (char *)stats_of(arena).base;
  void *const addresses[] = {
    (void *)1, (void *)7, (void *)4096, (void *)UINTPTR_MAX, (void *)(UINTPTR_MAX - 7), (void *)INTPTR_MAX,
    (void *)INTPTR_MIN, (void *)0xffffffff81000000, (void *)0x00007fffffffffff, (void *)0x0000800000000000,
    &on_the_stack, &in_the_data, (void *)wild_addresses_are_nobodys, (void *)mx_malloc, on_the_heap, unmapped,
    base - 1, base - GRANULE, base + 4 * TiB,
  };
  size_t count = sizeof addresses / sizeof *addresses;

  CHECK_EQUAL(0, munmap(unmapped, 4096));
  for (size_t i = 0; i < count; i++) {
    mx_free(addresses[i], SIZE, 0, NULL);
    OK(arenagen_arena_free(arena, addresses[i]));
    CHECK_EQUAL(0, owner_of(addresses[i]));
  }
  CHECK_EQUAL(count, diagnose().unrouted_frees);
  CHECK_EQUAL(count, stats_of(arena).unknown_frees);
  free(on_the_heap);
  CHECK(mx_malloc(SIZE, 0, NULL) != NULL);
}

SCENARIO(an_address_that_was_never_handed_out_belongs_to_its_arena_and_frees_nothing)
{
  arenagen_arena arena = create_active(NULL);
  char *base = (char *)stats_of(arena).base;

  CHECK_EQUAL(arena, owner_of(base));
  CHECK_EQUAL(arena, owner_of(base + 4 * TiB - 1));
  mx_free(base, SIZE, 0, NULL);
  mx_free(base + 4 * TiB - 1, SIZE, 0, NULL);
  OK(arenagen_arena_free(arena, base));
  CHECK_EQUAL(0, stats_of(arena).released);
  CHECK_EQUAL((uintptr_t)base, (uintptr_t)mx_malloc(SIZE, 0, NULL));
}

SCENARIO(sizes_that_cannot_be_are_refused)
{
  arenagen_arena arena = create_active(NULL);

  NO_MEMORY(ARENAGEN_STATUS_INVALID_ARGUMENT, "size must be positive", 0, 0);
  NO_MEMORY(ARENAGEN_STATUS_INVALID_ARGUMENT, "size must be positive, got -1", -1, 0);
  NO_MEMORY(ARENAGEN_STATUS_INVALID_ARGUMENT, "size must be positive", PTRDIFF_MIN, 0);
  NO_MEMORY(ARENAGEN_STATUS_OVERFLOW, "9223372036854775807", PTRDIFF_MAX, 0);
  NO_MEMORY(ARENAGEN_STATUS_OVERFLOW, "overflow", PTRDIFF_MAX - GRANULE + 2, 0);
  NO_MEMORY(ARENAGEN_STATUS_EXHAUSTED, "would exceed reserved range of 4398046511104 bytes", PTRDIFF_MAX - GRANULE + 1, 0);
  CHECK_EQUAL(0, stats_of(arena).used);
  CHECK_EQUAL(6, stats_of(arena).refused);
}

SCENARIO(the_reservation_is_used_up_to_its_last_granule)
{
  arenagen_arena_options options = ARENAGEN_ARENA_OPTIONS_INIT;
  arenagen_arena arena;

  options.total = 3 * GRANULE;
  arena = create_with(options);
  OK(arenagen_set_active_any(arena));
  CHECK(mx_malloc(2 * GRANULE, 0, NULL) != NULL);
  CHECK_EQUAL(0, stats_of(arena).nearly_full);
  NO_MEMORY(ARENAGEN_STATUS_EXHAUSTED, "allocation of 2097153 bytes (4194304 rounded) at offset 4194304 would exceed reserved range of 6291456 bytes",
            GRANULE + 1, 0);
  CHECK(mx_malloc(1, 0, NULL) != NULL);
  CHECK_EQUAL(1, stats_of(arena).nearly_full);
  NO_MEMORY(ARENAGEN_STATUS_EXHAUSTED, "would exceed reserved range of 6291456 bytes", 1, 0);
  CHECK_EQUAL(3 * GRANULE, stats_of(arena).used);
}

SCENARIO(the_range_to_register_is_what_was_handed_out)
{
  arenagen_arena arena = create_active(NULL);
  void *base, *first = mx_malloc(SIZE, 0, NULL);
  uint64_t length, used, mapped;

  mx_free(mx_malloc(3 * GRANULE, 0, NULL), 0, 0, NULL);
  OK(arenagen_arena_registered_range(arena, &base, &length));
  OK(arenagen_arena_used(arena, &used));
  OK(arenagen_arena_mapped(arena, &mapped));
  CHECK_EQUAL((uintptr_t)first, (uintptr_t)base);
  CHECK_EQUAL(4 * GRANULE, length);
  CHECK_EQUAL(4 * GRANULE, used);
  CHECK_EQUAL(GRANULE, mapped);
}

SCENARIO(frees_after_close_are_counted_and_ignored)
{
  arenagen_arena arena = create_active(NULL);
  void *address = mx_malloc(SIZE, 0, NULL);

  OK(arenagen_arena_close(arena));
  CHECK_EQUAL(1, is_closed(arena));
  mx_free(address, SIZE, 0, NULL);
  mx_free(address, SIZE, 0, NULL);
  OK(arenagen_arena_free(arena, address));
  CHECK_EQUAL(1, stats_of(arena).late_frees);
  OK(arenagen_arena_release(arena));
  mx_free(address, SIZE, 0, NULL);
  CHECK_EQUAL(0, owner_of(address));
}
