/*
 * Times C pairs from C threads, for a Python process that loads this with ctypes. Everything is called with the GIL released.
 */
#define MOST_THREADS 16

#include "common.h"
#include "instant.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

typedef void *malloc_function(ssize_t size, int device, void *stream);
typedef void free_function(void *address, ssize_t size, int device, void *stream);

enum { SIZE = 2 << 20 };

/* What an empty call costs. */
void nothing(void)
{
}

/* Opens the reference with a driver that answers at once. */
void open_reference(void (*open)(const ReferenceDriver *, uint64_t, uint64_t, uint64_t), uint64_t base, uint64_t total)
{
  open(&instant_driver, base, total, SIZE);
}

/* Pairs on the calling thread: nanoseconds for each. */
double time_pairs(malloc_function *allocate, free_function *release, int pairs)
{
  uint64_t started = now();

  for (int i = 0; i < pairs; i++) {
    void *address = allocate(SIZE, 0, NULL);

    if (address == NULL)
      return -1;
    release(address, SIZE, 0, NULL);
  }
  return (double)(now() - started) / pairs;
}

/* What the threads of a round share. */
static struct {
  malloc_function *allocate;
  free_function *release;
  int pairs;
  atomic_int absent;
} shared;

typedef struct {
  double ns;      /* for each pair */
  uint64_t *each; /* where the time of each malloc goes, or NULL */
  double waited;  /* the share of the time in which the thread could have run, but had no core */
} worker;

/* Nanoseconds until now that the calling thread could have run, but did not get a core. */
static uint64_t waited(void)
{
  FILE *file = fopen("/proc/thread-self/schedstat", "r");
  uint64_t ran = 0, waited = 0;

  if (file != NULL && fscanf(file, "%" SCNu64 " %" SCNu64, &ran, &waited) != 2)
    waited = 0;
  if (file != NULL)
    fclose(file);
  return waited;
}

static void *work(void *argument)
{
  worker *w = argument;
  uint64_t began, before;

  w->ns = time_pairs(shared.allocate, shared.release, shared.pairs / 10 + 1);
  atomic_fetch_sub(&shared.absent, 1);
  while (atomic_load(&shared.absent) > 0)
    ;
  before = waited();
  began = now();
  if (w->each == NULL) {
    w->ns = time_pairs(shared.allocate, shared.release, shared.pairs);
  } else {
    for (int i = 0; i < shared.pairs; i++) {
      uint64_t started = now();
      void *address = shared.allocate(SIZE, 0, NULL);

      w->each[i] = now() - started;
      shared.release(address, SIZE, 0, NULL);
    }
  }
  w->waited = (double)(waited() - before) / (double)(now() - began);
  return NULL;
}

static int run(worker *workers, int threads)
{
  pthread_t ids[MOST_THREADS];

  atomic_store(&shared.absent, threads);
  for (int i = 0; i < threads; i++)
    if (pthread_create(&ids[i], NULL, work, &workers[i]) != 0)
      return -1;
  for (int i = 0; i < threads; i++)
    pthread_join(ids[i], NULL);
  return 0;
}

/* Pairs on so many C threads at once: the mean over the threads of the nanoseconds for each, and the largest share
   that one waited for a core. */
double time_threads(malloc_function *allocate, free_function *release, int threads, int pairs, double *most_waited)
{
  worker workers[MOST_THREADS] = {{0}};
  double ns = 0;

  shared.allocate = allocate;
  shared.release = release;
  shared.pairs = pairs;
  *most_waited = 0;
  if (threads > MOST_THREADS || run(workers, threads) != 0)
    return -1;
  for (int i = 0; i < threads; i++) {
    ns += workers[i].ns / threads;
    if (workers[i].waited > *most_waited)
      *most_waited = workers[i].waited;
  }
  return ns;
}

/* The time of each malloc on so many C threads, all behind each other: threads * pairs numbers. */
int time_each(malloc_function *allocate, free_function *release, int threads, int pairs, uint64_t *each)
{
  worker workers[MOST_THREADS] = {{0}};

  shared.allocate = allocate;
  shared.release = release;
  shared.pairs = pairs;
  for (int i = 0; i < threads && i < MOST_THREADS; i++)
    workers[i].each = each + (size_t)i * (size_t)pairs;
  return threads > MOST_THREADS ? -1 : run(workers, threads);
}
