/* A program that is linked with two libraries of ours. */
#include "../every.h"

static int serves(void *library)
{
  arenagen_arena_options options = ARENAGEN_ARENA_OPTIONS_INIT;
  arenagen_arena arena;

  return FIND(library, arenagen_arena_create)(&options, &arena) == ARENAGEN_STATUS_OK;
}

SCENARIO(exactly_one_of_two_libraries_serves)
{
  void *one = load("libarenagen_stub.so.1"), *two = load("libarenagen_twin.so.1");

  CHECK(one != two);
  CHECK_EQUAL(1, serves(one) + serves(two));
  if (serves(one))
    expect_refusals(two, ARENAGEN_STATUS_SECOND_LIBRARY, "libarenagen_stub.so.1", 1, &one);
  else
    expect_refusals(one, ARENAGEN_STATUS_SECOND_LIBRARY, "libarenagen_twin.so.1", 1, &one);
}
