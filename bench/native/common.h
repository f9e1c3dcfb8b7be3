#ifndef ARENAGEN_BENCH_COMMON_H
#define ARENAGEN_BENCH_COMMON_H

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Ends the program: what it measures could not be measured. */
static inline void fail(const char *what, const char *why)
{
  fprintf(stderr, "%s: %s\n", what, why);
  exit(1);
}

/* Nanoseconds of a clock that only goes forward. */
static inline uint64_t now(void)
{
  struct timespec t;

  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static inline void *open_library(const char *path)
{
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

  if (library == NULL)
    fail("dlopen", dlerror());
  return library;
}

/* Stores a function of a library in a function pointer, which C does not let dlsym's result become. */
static inline void find(void *library, const char *name, void *function)
{
  void *symbol = dlsym(library, name);

  if (symbol == NULL)
    fail("dlsym", dlerror());
  memcpy(function, &symbol, sizeof symbol);
}

#endif
