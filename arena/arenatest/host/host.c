/* Carries out the verbs of package arenatest on a built library: a line with a verb and numbers comes in, a line
 * with a status, numbers and the error's text goes out.
 *
 *   host LIBRARY BACKEND [SIMULATOR]
 *
 * BACKEND is arena_options.backend, "" for none. SIMULATOR is the driver that the library loads. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "arenagen.h"

#define MAX 16

struct answer {
  arenagen_status status;
  const char *fault; /* a status of the host's own, in place of the other */
  char text[512];
  int count;
  uint64_t values[MAX];
};

struct verb {
  const char *name;
  void (*run)(const uint64_t *args, struct answer *);
};

static void *library;
static void *simulator;
static const char *backend;

/* The library's functions, found at the start. */
#define FUNCTIONS(F)                                                                                    \
  F(arenagen_last_error) F(arenagen_clear_error) F(arenagen_status_name) F(arenagen_arena_create)        \
  F(arenagen_arena_malloc) F(arenagen_arena_free) F(arenagen_arena_close) F(arenagen_arena_close_and_drain) \
  F(arenagen_arena_release) F(arenagen_arena_used) F(arenagen_arena_mapped) F(arenagen_arena_live)        \
  F(arenagen_arena_is_closed) F(arenagen_arena_registered_range) F(arenagen_arena_stats)                 \
  F(arenagen_arena_trim) F(arenagen_arena_reset) F(arenagen_arena_regions) F(arenagen_arena_add_peer)       \
  F(arenagen_arena_of) F(arenagen_arena_device) F(arenagen_set_active) F(arenagen_set_active_any) F(mx_malloc) F(mx_free)

#define DECLARE(name) static __typeof__(&name) my_##name;
FUNCTIONS(DECLARE)

static void die(const char *what, const char *why) {
  fprintf(stderr, "host: %s: %s\n", what, why);
  exit(2);
}

static void *find(void *from, const char *name) {
  void *symbol = from ? dlsym(from, name) : NULL;
  if (!symbol) die(name, "there is no such function");
  return symbol;
}

static void give(struct answer *a, uint64_t value) { a->values[a->count++] = value; }

/* said takes over what a failed call left as the thread's last error. */
static void said(struct answer *a, arenagen_status status) {
  a->status = status;
  if (status == ARENAGEN_STATUS_OK) return;
  arenagen_error e = {.struct_size = sizeof e};
  if (my_arenagen_last_error(&e) == ARENAGEN_STATUS_OK) memcpy(a->text, e.text, sizeof a->text);
}

/* told is said for functions without a status. */
static void told(struct answer *a, int failed) {
  arenagen_error e = {.struct_size = sizeof e};
  if (!failed || my_arenagen_last_error(&e) != ARENAGEN_STATUS_OK) return;
  a->status = e.status;
  memcpy(a->text, e.text, sizeof a->text);
}

static void create(const uint64_t *args, struct answer *a) {
  arenagen_arena_options o = ARENAGEN_ARENA_OPTIONS_INIT;
  o.total = (int64_t)args[0];
  o.device = (int32_t)args[1];
  o.granule = args[2];
  o.granularity = args[3] ? ARENAGEN_GRANULARITY_MINIMUM : ARENAGEN_GRANULARITY_RECOMMENDED;
  o.drain = (arenagen_drain)args[4];
  o.backend = *backend ? backend : NULL;
  o.slab_size = args[5];
  if (args[5]) o.placement = ARENAGEN_PLACEMENT_SLAB;
  else if (args[6]) o.placement = ARENAGEN_PLACEMENT_SINGLE;
  o.cache = args[7];
  o.reuse = (int32_t)args[8];
  o.peers = args[9];
  arenagen_arena arena = 0;
  said(a, my_arenagen_arena_create(&o, &arena));
  if (a->status != ARENAGEN_STATUS_OK) return;
  arenagen_stats s = {.struct_size = sizeof s};
  said(a, my_arenagen_arena_stats(arena, &s));
  give(a, arena);
  give(a, s.base);
  give(a, s.granule);
  give(a, s.total);
}

static void malloc_(const uint64_t *args, struct answer *a) {
  void *address = NULL;
  said(a, my_arenagen_arena_malloc(args[0], (int64_t)args[1], args[2], (void *)(uintptr_t)args[3], &address));
  give(a, (uintptr_t)address);
}

static void free_(const uint64_t *args, struct answer *a) {
  said(a, my_arenagen_arena_free(args[0], (void *)(uintptr_t)args[1]));
}

static void close_(const uint64_t *args, struct answer *a) { said(a, my_arenagen_arena_close(args[0])); }

static void release(const uint64_t *args, struct answer *a) { said(a, my_arenagen_arena_release(args[0])); }

static void drain(const uint64_t *args, struct answer *a) {
  size_t count = 0;
  arenagen_allocation *buffer = calloc(args[1] + 1, sizeof *buffer);
  if (!buffer) die("drain", "no memory");
  said(a, my_arenagen_arena_close_and_drain(args[0], buffer, args[1], &count));
  give(a, count);
  free(buffer);
}

/* A question is a function of an arena with one number as its answer. */
#define QUESTION(name, type)                                 \
  static void name(const uint64_t *args, struct answer *a) { \
    type value = 0;                                          \
    said(a, my_arenagen_arena_##name(args[0], &value));      \
    give(a, (uint64_t)value);                                \
  }
QUESTION(used, uint64_t)
QUESTION(mapped, uint64_t)
QUESTION(live, uint64_t)
QUESTION(is_closed, int32_t)

static void range(const uint64_t *args, struct answer *a) {
  void *base = NULL;
  uint64_t length = 0;
  said(a, my_arenagen_arena_registered_range(args[0], &base, &length));
  give(a, (uintptr_t)base);
  give(a, length);
}

static void stat_(const uint64_t *args, struct answer *a) {
  arenagen_stats s = {.struct_size = sizeof s};
  said(a, my_arenagen_arena_stats(args[0], &s));
  const uint64_t counters[] = {
      s.created, s.released, s.quarantined, s.handed_over, s.deferred, s.failed, s.refused, s.unknown_frees,
      s.late_frees, s.failed_releases, (uint64_t)s.nearly_full, s.handles, s.slabs, s.slab_free, s.cache_bytes,
      s.cache_reused, s.cache_trimmed, s.peak_mapped,
  };
  give(a, counters[args[1]]);
}

static void trim(const uint64_t *args, struct answer *a) {
  uint64_t released = 0;
  said(a, my_arenagen_arena_trim(args[0], args[1], &released));
  give(a, released);
}

static void reset(const uint64_t *args, struct answer *a) { said(a, my_arenagen_arena_reset(args[0])); }

static void peer(const uint64_t *args, struct answer *a) { said(a, my_arenagen_arena_add_peer(args[0], (int32_t)args[1])); }

static void regions(const uint64_t *args, struct answer *a) {
  arenagen_region buffer[64];
  size_t count = 0;
  uint64_t bytes = 0;
  said(a, my_arenagen_arena_regions(args[0], (arenagen_region_kind)args[1], buffer, sizeof buffer / sizeof *buffer, &count));
  for (size_t i = 0; i < count && a->status == ARENAGEN_STATUS_OK; i++) bytes += buffer[i].length;
  give(a, count);
  give(a, bytes);
}

/* The handle type is the first word of the properties. */
static void exported(const uint64_t *args, struct answer *a) {
  static const char *const types[] = {"none", "posix_fd", "fabric"};
  arenagen_device_info info = {.struct_size = sizeof info};
  said(a, my_arenagen_arena_device(args[0], &info));
  size_t length = strcspn(info.properties, " ;");
  for (uint64_t i = 0; i < 3; i++) {
    if (strlen(types[i]) == length && !strncmp(types[i], info.properties, length)) give(a, i);
  }
}

static void of(const uint64_t *args, struct answer *a) {
  arenagen_arena arena = 0;
  said(a, my_arenagen_arena_of((void *)(uintptr_t)args[0], &arena));
  give(a, arena);
}

static void active(const uint64_t *args, struct answer *a) {
  said(a, my_arenagen_set_active((int32_t)args[0], args[1]));
}

static void active_any(const uint64_t *args, struct answer *a) { said(a, my_arenagen_set_active_any(args[0])); }

static void pair_malloc(const uint64_t *args, struct answer *a) {
  void *address = my_mx_malloc((ssize_t)args[1], (int)args[0], (void *)(uintptr_t)args[2]);
  told(a, !address);
  give(a, (uintptr_t)address);
}

static void pair_free(const uint64_t *args, struct answer *a) {
  my_arenagen_clear_error();
  my_mx_free((void *)(uintptr_t)args[0], 0, (int)args[1], NULL);
  told(a, 1);
}

struct storm {
  uint64_t arena, pairs;
  arenagen_status status;
};

static void *blow(void *argument) {
  struct storm *s = argument;
  for (uint64_t i = 0; i < s->pairs && s->status == ARENAGEN_STATUS_OK; i++) {
    void *address = NULL;
    s->status = my_arenagen_arena_malloc(s->arena, 1, 0, NULL, &address);
    if (s->status == ARENAGEN_STATUS_OK) s->status = my_arenagen_arena_free(s->arena, address);
  }
  return NULL;
}

static void storm(const uint64_t *args, struct answer *a) {
  pthread_t threads[64];
  struct storm storms[64];
  if (args[1] > 64) die("storm", "too many threads");
  for (uint64_t i = 0; i < args[1]; i++) {
    storms[i] = (struct storm){args[0], args[2], ARENAGEN_STATUS_OK};
    if (pthread_create(&threads[i], NULL, blow, &storms[i])) die("storm", "no thread");
  }
  for (uint64_t i = 0; i < args[1]; i++) {
    pthread_join(threads[i], NULL);
    if (storms[i].status != ARENAGEN_STATUS_OK) a->status = storms[i].status;
  }
}

static void *one_pair(void *failed) {
  void *address = my_mx_malloc(1, 0, NULL);
  *(int *)failed = !address;
  my_mx_free(address, 1, 0, NULL);
  return NULL;
}

static void threads(const uint64_t *args, struct answer *a) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  long least = sysconf(_SC_THREAD_STACK_MIN); // more on some architectures
  size_t size = least > 0 && (uint64_t)least > args[1] ? (size_t)least : args[1];
  if (pthread_attr_setstacksize(&attributes, size)) die("threads", "no such stack");
  for (uint64_t i = 0; i < args[0]; i++) {
    pthread_t thread;
    int failed = 1;
    if (pthread_create(&thread, &attributes, one_pair, &failed)) die("threads", "no thread");
    pthread_join(thread, NULL);
    if (failed) a->fault = "failed";
  }
  pthread_attr_destroy(&attributes);
}

/* A pattern that differs from address to address. */
static uint64_t pattern(uint64_t address) { return address * UINT64_C(0x9e3779b97f4a7c15); }

static void write_(const uint64_t *args, struct answer *a) {
  (void)a;
  uint64_t *words = (uint64_t *)(uintptr_t)args[0];
  for (uint64_t i = 0; i < args[1] / 8; i++) words[i] = pattern(args[0] + 8 * i);
}

static void find_(const uint64_t *args, struct answer *a) {
  const uint64_t *words = (const uint64_t *)(uintptr_t)args[0];
  for (uint64_t i = 0; i < args[1] / 8; i++) {
    if (words[i] != pattern(args[0] + 8 * i)) a->fault = "fault";
  }
}

/* The simulator's controls answer one number each. Their names are the verbs'. */
static void control(const char *name, const uint64_t *args, struct answer *a) {
  typedef uint64_t (*function)(uint64_t, uint64_t, uint64_t);
  char symbol[64];

  snprintf(symbol, sizeof symbol, "arenasim_%s", name);
  function f = (function)find(simulator, symbol);
  if (strcmp(name, "objects")) {
    give(a, f(args[0], args[1], args[2]));
    return;
  }
  for (uint64_t kind = 0; kind < 3; kind++) give(a, f(kind, 0, 0));
}

static const struct verb verbs[] = {
    {"create", create},       {"malloc", malloc_},         {"free", free_},          {"close", close_},
    {"drain", drain},         {"release", release},        {"used", used},           {"mapped", mapped},
    {"live", live},           {"closed", is_closed},       {"range", range},         {"stat", stat_},
    {"of", of},               {"active", active},          {"active_any", active_any}, {"mx_malloc", pair_malloc},
    {"mx_free", pair_free},   {"storm", storm},            {"write", write_},        {"find", find_},
    {"threads", threads},     {"exported", exported},       {"trim", trim},          {"reset", reset},
    {"regions", regions},     {"peer", peer},
};

static void run(const char *name, const uint64_t *args, struct answer *a) {
  for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
    if (!strcmp(verbs[i].name, name)) {
      verbs[i].run(args, a);
      return;
    }
  }
  control(name, args, a);
}

/* in_child has a forked child do it, and takes its answer over. */
static void in_child(const char *name, const uint64_t *args, struct answer *a) {
  int ends[2];
  if (pipe(ends)) die("fork", "no pipe");
  pid_t child = fork();
  if (child < 0) die("fork", "no child");
  if (!child) {
    run(name, args, a);
    _exit(write(ends[1], a, sizeof *a) == (ssize_t)sizeof *a ? 0 : 1);
  }
  close(ends[1]);
  int status = 0;
  if (read(ends[0], a, sizeof *a) != (ssize_t)sizeof *a) a->fault = "died";
  close(ends[0]);
  if (waitpid(child, &status, 0) != child || status) a->fault = "died";
}

static void print(const struct answer *a) {
  printf("%s", a->fault ? a->fault : my_arenagen_status_name(a->status));
  for (int i = 0; i < a->count; i++) printf(" %" PRIu64, a->values[i]);
  putchar('\t');
  for (const char *c = a->text; *c; c++) putchar(*c == '\n' ? ' ' : *c);
  putchar('\n');
  fflush(stdout);
}

int main(int argc, char **argv) {
  if (argc != 4) die("usage", "host LIBRARY BACKEND SIMULATOR");
  backend = argv[2];
  if (*argv[3] && !(simulator = dlopen(argv[3], RTLD_NOW | RTLD_LOCAL))) die("simulator", dlerror());
  if (!(library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL))) die("library", dlerror());
#define FIND(name) my_##name = (__typeof__(&name))find(library, #name);
  FUNCTIONS(FIND)

  char line[1024];
  int forked = 0;
  while (fgets(line, sizeof line, stdin)) {
    uint64_t args[MAX] = {0};
    int count = 0;
    char *rest = line, *name = strsep(&rest, " \n");
    for (char *text; (text = strsep(&rest, " \n")) && count < MAX;) {
      if (*text) args[count++] = strtoull(text, NULL, 10);
    }
    struct answer a = {.status = ARENAGEN_STATUS_OK};
    if (!strcmp(name, "fork")) {
      forked = 1;
    } else if (forked) {
      in_child(name, args, &a);
      forked = 0;
    } else {
      run(name, args, &a);
    }
    print(&a);
  }
  return 0;
}
