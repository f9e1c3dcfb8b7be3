/* A second library of ours in one process: the first serves, the second refuses and says which is the first. */
#include "every.h"

static void check_serves(void *library)
{
  arenagen_arena_options options = ARENAGEN_ARENA_OPTIONS_INIT;
  arenagen_arena arena = 0;
  void *address;

  CHECK_EQUAL(ARENAGEN_STATUS_OK, FIND(library, arenagen_arena_create)(&options, &arena));
  CHECK_EQUAL(ARENAGEN_STATUS_OK, FIND(library, arenagen_set_active_any)(arena));
  address = FIND(library, mx_malloc)(100, 0, NULL);
  CHECK(address != NULL);
  memset(address, 1, 100);
  FIND(library, mx_free)(address, 100, 0, NULL);
  CHECK_EQUAL(ARENAGEN_STATUS_OK, FIND(library, arenagen_arena_release)(arena));
}

static void check_refuses(void *library, const char *first)
{
  expect_refusals(library, ARENAGEN_STATUS_SECOND_LIBRARY, first, 1, &library);
}

static void check_order(const char *first, const char *second)
{
  void *one = load(first), *two = load(second);

  CHECK(one != two);
  check_refuses(two, first);
  check_serves(one);
  check_refuses(two, first);
  check_serves(one);
}

SCENARIO(the_twin_refuses)
{
  check_order(path_of("LIBRARY"), path_of("TWIN"));
}

SCENARIO(the_library_refuses_when_its_twin_came_first)
{
  check_order(path_of("TWIN"), path_of("LIBRARY"));
}

SCENARIO(a_third_refuses_too)
{
  void *one = load(path_of("LIBRARY"));

  load(path_of("TWIN"));
  check_refuses(load(path_of("STRANGER")), path_of("LIBRARY"));
  check_serves(one);
}

SCENARIO(the_second_does_not_free_what_the_first_gave)
{
  void *one = load(path_of("LIBRARY")), *two = load(path_of("TWIN"));
  arenagen_arena_options options = ARENAGEN_ARENA_OPTIONS_INIT;
  arenagen_arena arena;
  uint64_t live;
  void *address;

  CHECK_EQUAL(ARENAGEN_STATUS_OK, FIND(one, arenagen_arena_create)(&options, &arena));
  CHECK_EQUAL(ARENAGEN_STATUS_OK, FIND(one, arenagen_arena_malloc)(arena, 1, 0, NULL, &address));
  FIND(two, mx_free)(address, 1, 0, NULL);
  CHECK_EQUAL(ARENAGEN_STATUS_OK, FIND(one, arenagen_arena_live)(arena, &live));
  CHECK_EQUAL(1, live);
}

SCENARIO(the_same_file_twice_is_one_library)
{
  void *library = load(path_of("LIBRARY"));

  CHECK(load(path_of("LIBRARY")) == library);
  CHECK(load("libarenagen_stub.so.1") == library);
  check_serves(library);
}

SCENARIO(the_same_file_under_another_name_is_one_library)
{
  char path[4096];
  void *library = load(path_of("LIBRARY"));

  snprintf(path, sizeof path, "%s.1", path_of("LIBRARY"));
  CHECK(load(path) == library);
  check_serves(library);
}

static void *serving;

static void use_serving(int number)
{
  (void)number;
  for (int i = 0; i < 200; i++)
    FIND(serving, mx_free)(FIND(serving, mx_malloc)(100, 0, NULL), 100, 0, NULL);
}

SCENARIO(the_first_works_on_while_others_are_loaded)
{
  arenagen_arena_options options = ARENAGEN_ARENA_OPTIONS_INIT;
  arenagen_arena arena;
  arenagen_stats stats = {.struct_size = sizeof stats};
  team users;

  serving = load(path_of("LIBRARY"));
  CHECK_EQUAL(ARENAGEN_STATUS_OK, FIND(serving, arenagen_arena_create)(&options, &arena));
  CHECK_EQUAL(ARENAGEN_STATUS_OK, FIND(serving, arenagen_set_active_any)(arena));
  start_team(&users, 8, 0, use_serving);
  load(path_of("TWIN"));
  load(path_of("STRANGER"));
  join_team(&users);
  CHECK_EQUAL(ARENAGEN_STATUS_OK, FIND(serving, arenagen_arena_stats)(arena, &stats));
  CHECK_EQUAL(8 * 200, stats.released);
}
