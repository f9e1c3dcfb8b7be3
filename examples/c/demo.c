/*
 * What an inference worker does, on host memory: make an arena active, load
 * "weights" through mx_malloc from several threads, use them, tell the one range to
 * register with a transport, free from other threads and after the scope, close.
 *
 *   cc demo.c $(pkg-config --cflags --libs arenagen_stub) -pthread
 */
#include <arenagen.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, TENSORS = 25, DEVICE = 0 };

typedef struct {
  int number;
  unsigned char *tensors[TENSORS];
  size_t sizes[TENSORS];
} worker;

/* Ends the program with the reason that the library gives. */
static void fail(const char *what)
{
  arenagen_error error = {.struct_size = sizeof error};

  arenagen_last_error(&error);
  fprintf(stderr, "%s: %s (%s)\n", what, error.text, arenagen_status_name(error.status));
  exit(1);
}

static unsigned char pattern(const worker *w, int tensor)
{
  return (unsigned char)(w->number * TENSORS + tensor + 1);
}

static void *load(void *argument)
{
  worker *w = argument;

  for (int i = 0; i < TENSORS; i++) {
    w->sizes[i] = 1000 * (size_t)(i + 1);
    w->tensors[i] = mx_malloc((ssize_t)w->sizes[i], DEVICE, NULL);
    if (w->tensors[i] == NULL)
      fail("mx_malloc");
    memset(w->tensors[i], pattern(w, i), w->sizes[i]);
  }
  return NULL;
}

static void *check_and_free(void *argument)
{
  worker *w = argument;

  for (int i = 0; i < TENSORS; i++) {
    for (size_t at = 0; at < w->sizes[i]; at++)
      if (w->tensors[i][at] != pattern(w, i)) {
        fprintf(stderr, "tensor %d of thread %d has lost its contents\n", i, w->number);
        exit(1);
      }
    mx_free(w->tensors[i], (ssize_t)w->sizes[i], DEVICE, NULL);
  }
  return NULL;
}

/* Runs a function for each worker on a thread of its own. */
static void on_threads(void *(*function)(void *), worker *workers)
{
  pthread_t threads[THREADS];

  for (int i = 0; i < THREADS; i++)
    if (pthread_create(&threads[i], NULL, function, &workers[i]) != 0) {
      fprintf(stderr, "cannot start a thread\n");
      exit(1);
    }
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
}

static void print_counters(const char *when, arenagen_arena arena)
{
  arenagen_stats stats = {.struct_size = sizeof stats};

  if (arenagen_arena_stats(arena, &stats) != ARENAGEN_STATUS_OK)
    fail("arenagen_arena_stats");
  printf("%-18s live %3" PRIu64 "   mapped %11" PRIu64 " bytes   used %11" PRIu64
         " bytes   created %" PRIu64 " = released %" PRIu64 " + live\n",
         when, stats.live, stats.mapped, stats.used, stats.created, stats.released);
}

int main(void)
{
  arenagen_arena_options options = ARENAGEN_ARENA_OPTIONS_INIT;
  arenagen_arena arena;
  void *base;
  uint64_t length;
  static worker workers[THREADS];

  for (int i = 0; i < THREADS; i++)
    workers[i].number = i;
  printf("arenagen %s, backend %s\n", arenagen_version(), arenagen_backend_name());

  if (arenagen_arena_create(&options, &arena) != ARENAGEN_STATUS_OK)
    fail("arenagen_arena_create");
  if (arenagen_set_active(DEVICE, arena) != ARENAGEN_STATUS_OK)
    fail("arenagen_set_active");
  on_threads(load, workers);
  print_counters("loaded:", arena);

  if (arenagen_arena_registered_range(arena, &base, &length) != ARENAGEN_STATUS_OK)
    fail("arenagen_arena_registered_range");
  printf("to register:       %" PRIu64 " bytes at %p, once\n", length, base);

  /* The scope ends. The frees below arrive late, and from other threads. */
  if (arenagen_set_active(DEVICE, 0) != ARENAGEN_STATUS_OK)
    fail("arenagen_set_active");
  if (mx_malloc(1, DEVICE, NULL) != NULL) {
    fprintf(stderr, "no arena is active, and still there was memory\n");
    return 1;
  }
  for (int i = 0; i < THREADS / 2; i++) {
    worker other = workers[i];
    workers[i] = workers[THREADS - 1 - i];
    workers[THREADS - 1 - i] = other;
  }
  on_threads(check_and_free, workers);
  print_counters("freed:", arena);

  if (arenagen_arena_close(arena) != ARENAGEN_STATUS_OK)
    fail("arenagen_arena_close");
  print_counters("closed:", arena);
  if (arenagen_arena_release(arena) != ARENAGEN_STATUS_OK)
    fail("arenagen_arena_release");
  return 0;
}
