/*
 * Times the loading of a library in a process that was just started, and the first call that
 * goes through to Go. Prints JSON.
 *
 *   load <library>
 */
#include "common.h"

#include <arenagen.h>

#include <inttypes.h>

int main(int argc, char **argv)
{
  arenagen_status (*set_active_any)(arenagen_arena arena);
  uint64_t started, loaded, called;
  void *library;

  if (argc != 2)
    fail("usage", "load <library>");
  started = now();
  library = open_library(argv[1]);
  loaded = now();
  find(library, "arenagen_set_active_any", &set_active_any);
  if (set_active_any(0) != ARENAGEN_STATUS_OK)
    fail("arenagen_set_active_any", "it failed");
  called = now();
  printf("{\"load_ns\": %" PRIu64 ", \"first_call_ns\": %" PRIu64 "}\n", loaded - started, called - loaded);
  return 0;
}
