/* The last error, and what statuses are called. */
#include "arenas.h"

#include <semaphore.h>

static const arenagen_error none = {.struct_size = sizeof none};

static void check_no_error(void)
{
  arenagen_error error = last_error();

  CHECK_EQUAL(0, memcmp(&none, &error, sizeof none));
}

static void fail_here(void)
{
  REFUSED(ARENAGEN_STATUS_INVALID_HANDLE, "0x5 names no arena", arenagen_arena_close, 5);
}

SCENARIO(there_is_none_before_the_first_failure)
{
  check_no_error();
  create(NULL);
  check_no_error();
}

SCENARIO(it_tells_the_status_the_call_and_a_sentence)
{
  arenagen_error error;

  fail_here();
  error = last_error();
  CHECK_EQUAL(ARENAGEN_STATUS_INVALID_HANDLE, error.status);
  CHECK_TEXT("arenagen_arena_close", error.operation);
  CHECK_TEXT("", error.driver_name);
  CHECK_EQUAL(0, error.driver_code);
  CHECK_EQUAL(sizeof error, error.struct_size);
}

SCENARIO(it_tells_what_the_driver_answered)
{
  arenagen_arena_options options = ARENAGEN_ARENA_OPTIONS_INIT;
  arenagen_arena arena;
  arenagen_error error;

  options.device = 3;
  REFUSED(ARENAGEN_STATUS_NO_DEVICE, "Open answered HOSTVMM_ERROR_INVALID_DEVICE, 101", arenagen_arena_create, &options, &arena);
  error = last_error();
  CHECK_EQUAL(101, error.driver_code);
  CHECK_TEXT("HOSTVMM_ERROR_INVALID_DEVICE", error.driver_name);
}

SCENARIO(it_tells_the_address_and_the_size)
{
  arenagen_arena arena = create_active("capacity=4MiB");

  CHECK(mx_malloc(GRANULE, 0, NULL) != NULL);
  NO_MEMORY(ARENAGEN_STATUS_OUT_OF_MEMORY, "of 4194304 bytes", 2 * GRANULE, 0);
  CHECK_EQUAL(2 * GRANULE, last_error().size);
  CHECK_TEXT("HOSTVMM_ERROR_OUT_OF_MEMORY", last_error().driver_name);
  CHECK_EQUAL(1, stats_of(arena).failed);
  CHECK(mx_malloc(GRANULE, 0, NULL) != NULL);
}

SCENARIO(success_leaves_it)
{
  arenagen_arena arena;
  arenagen_error error, now;

  fail_here();
  error = last_error();
  arena = create_active(NULL);
  mx_free(mx_malloc(1, 0, NULL), 1, 0, NULL);
  OK(arenagen_arena_close(arena));
  OK(arenagen_arena_release(arena));
  diagnose();
  now = last_error();
  CHECK_EQUAL(0, memcmp(&error, &now, sizeof now));
}

SCENARIO(it_can_be_cleared)
{
  arenagen_clear_error();
  fail_here();
  arenagen_clear_error();
  check_no_error();
  arenagen_clear_error();
}

SCENARIO(the_next_failure_takes_its_place_whole)
{
  arenagen_arena_options options = ARENAGEN_ARENA_OPTIONS_INIT;
  arenagen_arena arena;

  options.device = 3;
  REFUSED(ARENAGEN_STATUS_NO_DEVICE, "", arenagen_arena_create, &options, &arena);
  REFUSED(ARENAGEN_STATUS_INVALID_ARGUMENT, "options must not be NULL", arenagen_arena_create, NULL, &arena);
  CHECK_EQUAL(0, last_error().driver_code);
  CHECK_TEXT("", last_error().driver_name);
}

SCENARIO(it_is_whole_and_terminated)
{
  arenagen_arena_options options = ARENAGEN_ARENA_OPTIONS_INIT;
  arenagen_arena arena;
  arenagen_error error;
  char unknown[2000];

  /* A name of two-byte characters, cut between two of them. */
  for (size_t i = 0; i + 1 < sizeof unknown; i += 2)
    memcpy(unknown + i, "\xc3\xa9", 2);
  memcpy(unknown + sizeof unknown - 3, "=1", 3);
  options.backend_options = unknown;
  REFUSED(ARENAGEN_STATUS_INVALID_ARGUMENT, "options", arenagen_arena_create, &options, &arena);
  error = last_error();
  CHECK_EQUAL(0, error.text[sizeof error.text - 1]);
  CHECK(strlen(error.text) > sizeof error.text - 4);
  for (size_t i = strlen(error.text); i < sizeof error.text; i++)
    CHECK_EQUAL(0, error.text[i]);
  /* The last character is whole. */
  CHECK_EQUAL((char)0xa9, error.text[strlen(error.text) - 1]);
}

/* Each thread sees its own. */

static sem_t failed[2];

static void fail_and_look(int number)
{
  check_no_error();
  REFUSED(ARENAGEN_STATUS_INVALID_HANDLE, "", arenagen_arena_close, 100 + number);
  sem_post(&failed[number]);
  sem_wait(&failed[1 - number]);
  CHECK_CONTAINS(number == 0 ? "0x64" : "0x65", last_error().text);
}

SCENARIO(each_thread_has_its_own)
{
  sem_init(&failed[0], 0, 0);
  sem_init(&failed[1], 0, 0);
  fail_here();
  on_threads(2, fail_and_look);
  CHECK_CONTAINS("0x5 ", last_error().text);
}

static void clear_and_look(int number)
{
  (void)number;
  arenagen_clear_error();
  check_no_error();
}

SCENARIO(clearing_one_threads_leaves_the_others)
{
  fail_here();
  on_threads(4, clear_and_look);
  CHECK_CONTAINS("0x5 ", last_error().text);
}

/* The end of a thread, at which the host's own destructors still call. */

static pthread_key_t key;

static void call_late(void *arena)
{
  fail_here();
  OK(arenagen_arena_free((arenagen_arena)(uintptr_t)arena, allocate((arenagen_arena)(uintptr_t)arena, 1)));
  CHECK_CONTAINS("0x5 ", last_error().text);
}

static arenagen_arena shared;

static void leave_late_calls(int number)
{
  (void)number;
  fail_here();
  CHECK_EQUAL(0, pthread_setspecific(key, (void *)(uintptr_t)shared));
}

SCENARIO(a_thread_that_ends_may_still_fail)
{
  shared = create(NULL);
  CHECK_EQUAL(0, pthread_key_create(&key, call_late));
  on_threads(8, leave_late_calls);
  CHECK_EQUAL(8, stats_of(shared).released);
}

/* Statuses. */

SCENARIO(every_status_has_a_name_and_a_sentence)
{
  for (arenagen_status status = ARENAGEN_STATUS_OK; status <= ARENAGEN_STATUS_INTERNAL; status++) {
    const char *name = arenagen_status_name(status), *text = arenagen_status_text(status);

    CHECK(name != NULL && strcmp(name, "unknown") != 0);
    CHECK_EQUAL(strlen(name), strspn(name, "abcdefghijklmnopqrstuvwxyz_"));
    CHECK(text != NULL && strlen(text) > 5 && text[strlen(text) - 1] == '.');
    for (arenagen_status other = 0; other < status; other++)
      CHECK(strcmp(name, arenagen_status_name(other)) != 0);
  }
  CHECK_TEXT("ok", arenagen_status_name(ARENAGEN_STATUS_OK));
  CHECK_TEXT("no_active_arena", arenagen_status_name(ARENAGEN_STATUS_NO_ACTIVE_ARENA));
}

SCENARIO(a_number_that_is_no_status_is_unknown)
{
  static const int32_t numbers[] = {-1, ARENAGEN_STATUS_NOT_MAPPED + 1, 999, INT32_MAX, INT32_MIN};

  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    CHECK_TEXT("unknown", arenagen_status_name(numbers[i]));
    CHECK_TEXT("A number that is no status.", arenagen_status_text(numbers[i]));
  }
}

SCENARIO(the_version_is_that_of_the_header)
{
  CHECK_TEXT(ARENAGEN_RELEASE, arenagen_version());
  CHECK_EQUAL(ARENAGEN_ABI_MAJOR * 65536 + ARENAGEN_ABI_MINOR, arenagen_abi_version());
  CHECK_TEXT("stub", arenagen_backend_name());
}
