/*
 * Times malloc + free pairs through two C pairs in one process, the reference's and a library of
 * ours: in turns, with 1 thread and with 2. Prints JSON.
 *
 *   pair <reference library> <arenagen library> <options of its backend> [<driver> <create> <map> <grant> <unmap> <release>]
 *
 * With a driver, the reference calls these functions of it, the same that ours calls; else functions that answer at once.
 *
 * Every round has a fresh arena and fresh threads, each on a core of its own, which do some pairs before the
 * clock starts. A round's time is the mean over its threads of a thread's own time for one pair.
 */
#include "common.h"
#include "instant.h"
#include "loaded.h"
#include "reference.h"

#include <arenagen.h>

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { ROUNDS = 201, PAIRS = 4000, WARM_UP = 400, HANDOVERS = 1000, MAX_THREADS = 2, DEVICE = 0 };

static const int64_t size = INT64_C(2) << 20;  /* of an allocation: one granule */
static const int64_t total = INT64_C(1) << 40; /* of an arena: more than a round uses */

/* What is measured: a C pair, and how a fresh arena gets behind it and goes away again. */
typedef struct {
  const char *name;
  void *(*malloc)(ssize_t size, int device, void *stream);
  void (*free)(void *address, ssize_t size, int device, void *stream);
  void (*open)(void);
  void (*close)(void);
} subject;

static void (*new_reference)(const ReferenceDriver *driver, uint64_t base, uint64_t total, uint64_t granule);

static const ReferenceDriver *reference_driver = &instant_driver;

static void open_reference(void)
{
  /* Nothing is behind the reference's addresses, so any base will do. */
  new_reference(reference_driver, UINT64_C(1) << 45, (uint64_t)total, (uint64_t)size);
}

/* The next open_reference deletes the arena. */
static void close_reference(void)
{
}

static subject load_reference(const char *path)
{
  void *library = open_library(path);
  subject s = {.name = "reference", .open = open_reference, .close = close_reference};

  find(library, "reference_open", &new_reference);
  find(library, "reference_malloc", &s.malloc);
  find(library, "reference_free", &s.free);
  return s;
}

static struct {
  arenagen_status (*arena_create)(const arenagen_arena_options *options, arenagen_arena *arena);
  arenagen_status (*arena_release)(arenagen_arena arena);
  arenagen_status (*set_active)(int32_t device, arenagen_arena arena);
  arenagen_arena arena;
} arenagen;

static const char *backend_options;

static void open_arenagen(void)
{
  arenagen_arena_options options = ARENAGEN_ARENA_OPTIONS_INIT;

  options.device = DEVICE;
  options.total = total;
  options.granule = (uint64_t)size;
  options.backend_options = backend_options;
  options.drain = ARENAGEN_DRAIN_NONE;
  if (arenagen.arena_create(&options, &arenagen.arena) != ARENAGEN_STATUS_OK)
    fail("arenagen_arena_create", "it failed");
  if (arenagen.set_active(DEVICE, arenagen.arena) != ARENAGEN_STATUS_OK)
    fail("arenagen_set_active", "it failed");
}

static void close_arenagen(void)
{
  if (arenagen.arena_release(arenagen.arena) != ARENAGEN_STATUS_OK)
    fail("arenagen_arena_release", "it failed");
}

static subject load_arenagen(const char *path)
{
  void *library = open_library(path);
  subject s = {.name = "arenagen", .open = open_arenagen, .close = close_arenagen};

  find(library, "arenagen_arena_create", &arenagen.arena_create);
  find(library, "arenagen_arena_release", &arenagen.arena_release);
  find(library, "arenagen_set_active", &arenagen.set_active);
  find(library, "mx_malloc", &s.malloc);
  find(library, "mx_free", &s.free);
  return s;
}

/* What the threads of a round share, each on a cache line of its own. */
static struct {
  _Alignas(64) atomic_int absent; /* threads that are not ready to start */
  _Alignas(64) atomic_int turn;   /* the core whose turn it is */
} shared;

/* What one thread does in a round, and how it went. */
typedef struct {
  const subject *subject;
  int core;
  uint64_t ns;     /* what the measured part took */
  uint64_t waited; /* of these: how long it could have run, but did not get its core */
} worker;

/* Keeps the calling thread on one core. Threads that start together may else share one for a while, and
   then they do not meet. */
static void stay_on(int core)
{
  cpu_set_t allowed, one;

  CPU_ZERO(&one);
  pthread_getaffinity_np(pthread_self(), sizeof allowed, &allowed);
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
    if (CPU_ISSET(cpu, &allowed) && core-- == 0)
      CPU_SET(cpu, &one);
  if (pthread_setaffinity_np(pthread_self(), sizeof one, &one) != 0)
    fail("pthread_setaffinity_np", "each thread needs a core of its own");
}

/* Gives the nanoseconds until now that the calling thread could have run, but did not get its core. */
static uint64_t waited(void)
{
  static const char path[] = "/proc/thread-self/schedstat";
  FILE *file = fopen(path, "r");
  uint64_t ran, waited;

  if (file == NULL || fscanf(file, "%" SCNu64 " %" SCNu64, &ran, &waited) != 2)
    fail("cannot read", path);
  fclose(file);
  return waited;
}

/* Returns on all threads of the round at once. They spin: waking up takes longer than many pairs. */
static void start_together(void)
{
  atomic_fetch_sub(&shared.absent, 1);
  while (atomic_load(&shared.absent) > 0)
    ;
}

static void do_pairs(const subject *s, int pairs)
{
  for (int i = 0; i < pairs; i++) {
    void *address = s->malloc(size, DEVICE, NULL);

    if (address == NULL)
      fail(s->name, "malloc gave NULL");
    s->free(address, size, DEVICE, NULL);
  }
}

static void *time_pairs(void *argument)
{
  worker *w = argument;
  uint64_t waited_before, started;

  stay_on(w->core);
  do_pairs(w->subject, WARM_UP);
  waited_before = waited();
  start_together();
  started = now();
  do_pairs(w->subject, PAIRS);
  w->ns = now() - started;
  w->waited = waited() - waited_before;
  return NULL;
}

/* Gives a cache line to the other of two cores and gets it back, again and again. */
static void *time_handovers(void *argument)
{
  worker *w = argument;
  uint64_t started;

  stay_on(w->core);
  start_together();
  started = now();
  for (int i = 0; i < HANDOVERS; i++) {
    while (atomic_load_explicit(&shared.turn, memory_order_acquire) != w->core)
      ;
    atomic_store_explicit(&shared.turn, !w->core, memory_order_release);
  }
  w->ns = now() - started;
  return NULL;
}

/* Runs a function on so many threads. Gives the mean of the times that they took. */
static double run(void *(*function)(void *), worker *workers, int threads)
{
  pthread_t ids[MAX_THREADS];
  double ns = 0;

  shared.absent = threads;
  for (int i = 0; i < threads; i++) {
    workers[i].core = i;
    if (pthread_create(&ids[i], NULL, function, &workers[i]) != 0)
      fail("pthread_create", "it failed");
  }
  for (int i = 0; i < threads; i++) {
    pthread_join(ids[i], NULL);
    ns += (double)workers[i].ns / threads;
  }
  return ns;
}

/* Stores the nanoseconds that a pair takes on each of so many threads. Gives false when the machine was busy
   with something else: threads that wait for their cores do not meet. */
static bool time_round(const subject *s, int threads, double *ns)
{
  worker workers[MAX_THREADS];
  bool undisturbed = true;

  for (int i = 0; i < threads; i++)
    workers[i].subject = s;
  s->open();
  *ns = run(time_pairs, workers, threads) / PAIRS;
  s->close();
  for (int i = 0; i < threads; i++)
    undisturbed = undisturbed && workers[i].waited < workers[i].ns / 20;
  return undisturbed;
}

/* Gives the nanoseconds that a cache line takes from core to core. */
static double time_handover(void)
{
  worker workers[MAX_THREADS];

  return run(time_handovers, workers, MAX_THREADS) / (2 * HANDOVERS);
}

static int ascending(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;

  return (x > y) - (x < y);
}

/* Prints the least and the median of the rounds, and gives the median. */
static double print_rounds(const char *name, double *rounds)
{
  double median;

  qsort(rounds, ROUNDS, sizeof *rounds, ascending);
  median = rounds[ROUNDS / 2];
  printf("\"%s\": {\"min_ns\": %.1f, \"median_ns\": %.1f}, ", name, rounds[0], median);
  return median;
}

static void compare(const subject *a, const subject *b, int threads)
{
  static double ns_a[ROUNDS], ns_b[ROUNDS], handover[ROUNDS];
  double median_a, median_b;
  int kept = 0, taken = 0;

  for (; kept < ROUNDS; taken++) {
    bool undisturbed;

    if (taken == 20 * ROUNDS)
      fail("the machine is too busy", "too often a thread had to wait for its core");
    handover[kept] = time_handover();
    undisturbed = time_round(a, threads, &ns_a[kept]);
    undisturbed = time_round(b, threads, &ns_b[kept]) && undisturbed;
    if (undisturbed)
      kept++;
  }
  printf("{\"threads\": %d, \"rounds_taken\": %d, ", threads, taken);
  median_a = print_rounds(a->name, ns_a);
  median_b = print_rounds(b->name, ns_b);
  print_rounds("handover", handover);
  printf("\"ratio\": %.3f}", median_b / median_a);
}

int main(int argc, char **argv)
{
  subject theirs, ours;

  if (argc != 4 && argc != 10)
    fail("usage", "pair <reference library> <arenagen library> <options of its backend> [<driver> <its five functions>]");
  if (argc == 10)
    reference_driver = load_driver(argv[4], argv + 5);
  backend_options = argv[3];
  theirs = load_reference(argv[1]);
  ours = load_arenagen(argv[2]);
  printf("{\"rounds\": %d, \"pairs\": %d, \"cases\": [", ROUNDS, PAIRS);
  for (int threads = 1; threads <= MAX_THREADS; threads++) {
    printf(threads == 1 ? "" : ", ");
    compare(&theirs, &ours, threads);
  }
  printf("]}\n");
  return 0;
}
