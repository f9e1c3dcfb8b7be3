/*
 * What every program here has: scenarios, checks, threads, and counts of what the process holds.
 * Without an argument a program lists its scenarios, with a name it runs that one.
 */
#ifndef CHECK_H
#define CHECK_H

#include <dirent.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct scenario {
  const char *name;
  void (*run)(void);
  struct scenario *next;
} scenario;

static scenario *scenarios;

/* Begins the definition of a scenario. It passes when it returns. */
#define SCENARIO(name_)                                                     \
  static void name_(void);                                                  \
  __attribute__((constructor)) static void list_##name_(void)               \
  {                                                                         \
    static scenario self = {.name = #name_, .run = name_};                  \
    self.next = scenarios;                                                  \
    scenarios = &self;                                                      \
  }                                                                         \
  static void name_(void)

/* Ends the process with a reason. */
__attribute__((format(printf, 3, 4), noreturn))
static inline void fail_at(const char *file, int line, const char *format, ...)
{
  va_list args;

  fprintf(stderr, "%s:%d: ", file, line);
  va_start(args, format);
  vfprintf(stderr, format, args);
  va_end(args);
  fputc('\n', stderr);
  _exit(1);
}

#define FAIL(...) fail_at(__FILE__, __LINE__, __VA_ARGS__)

#define CHECK(condition) ((condition) ? (void)0 : FAIL("expected %s", #condition))

#define CHECK_EQUAL(want, got) check_equal(__FILE__, __LINE__, #got, (intmax_t)(want), (intmax_t)(got))

static inline void check_equal(const char *file, int line, const char *what, intmax_t want, intmax_t got)
{
  if (want != got)
    fail_at(file, line, "%s is %jd (%#jx), expected %jd (%#jx)", what, got, (uintmax_t)got, want, (uintmax_t)want);
}

/* Checks that a counter of the process did not grow by more than a slack. */
#define CHECK_FLAT(before, now, slack) check_flat(__FILE__, __LINE__, #now, (intmax_t)(before), (intmax_t)(now), (intmax_t)(slack))

static inline void check_flat(const char *file, int line, const char *what, intmax_t before, intmax_t now, intmax_t slack)
{
  if (now > before + slack)
    fail_at(file, line, "%s grew from %jd to %jd, by more than %jd", what, before, now, slack);
}

#define CHECK_TEXT(want, got) check_text(__FILE__, __LINE__, #got, want, got)

static inline void check_text(const char *file, int line, const char *what, const char *want, const char *got)
{
  if (strcmp(want, got) != 0)
    fail_at(file, line, "%s is \"%s\", expected \"%s\"", what, got, want);
}

#define CHECK_CONTAINS(part, text) check_contains(__FILE__, __LINE__, part, text)

static inline void check_contains(const char *file, int line, const char *part, const char *text)
{
  if (strstr(text, part) == NULL)
    fail_at(file, line, "\"%s\" does not contain \"%s\"", text, part);
}

/* Threads. */

enum { MAX_THREADS = 64, SMALL_STACK = 64 << 10 };

typedef struct {
  pthread_t thread;
  void (*job)(int number);
  int number;
} worker;

typedef struct {
  worker workers[MAX_THREADS];
  int count;
} team;

static inline void *work(void *argument)
{
  worker *w = argument;

  w->job(w->number);
  return NULL;
}

/* Starts count threads, each of which calls job with a number from 0. A stack of 0 bytes is the usual one. */
static inline void start_team(team *t, int count, size_t stack, void (*job)(int number))
{
  pthread_attr_t attributes;

  CHECK(count <= MAX_THREADS);
  CHECK_EQUAL(0, pthread_attr_init(&attributes));
  if (stack != 0)
    CHECK_EQUAL(0, pthread_attr_setstacksize(&attributes, stack));
  t->count = count;
  for (int i = 0; i < count; i++) {
    t->workers[i] = (worker){.job = job, .number = i};
    CHECK_EQUAL(0, pthread_create(&t->workers[i].thread, &attributes, work, &t->workers[i]));
  }
  pthread_attr_destroy(&attributes);
}

static inline void join_team(team *t)
{
  for (int i = 0; i < t->count; i++)
    CHECK_EQUAL(0, pthread_join(t->workers[i].thread, NULL));
}

static inline void on_threads(int count, void (*job)(int number))
{
  team t;

  start_team(&t, count, 0, job);
  join_team(&t);
}

/* What the process holds. */

static inline int count_entries(const char *folder)
{
  DIR *entries = opendir(folder);
  int count = 0;

  CHECK(entries != NULL);
  while (readdir(entries) != NULL)
    count++;
  closedir(entries);
  return count;
}

/* Descriptors, but for the poller that a Go runtime opens for itself when it first needs one. */
static inline int open_files(void)
{
  DIR *entries = opendir("/proc/self/fd");
  int count = 0;

  CHECK(entries != NULL);
  for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
    char target[64] = "";

    if (readlinkat(dirfd(entries), entry->d_name, target, sizeof target - 1) > 0)
      count += strncmp(target, "anon_inode:[event", strlen("anon_inode:[event")) != 0;
  }
  closedir(entries);
  return count;
}

static inline int count_mappings(void)
{
  FILE *maps = fopen("/proc/self/maps", "r");
  int lines = 0;

  CHECK(maps != NULL);
  for (int c; (c = getc(maps)) != EOF;)
    lines += c == '\n';
  fclose(maps);
  return lines;
}

/* Bytes of the process that are in memory. */
static inline int64_t resident(void)
{
  FILE *statm = fopen("/proc/self/statm", "r");
  int64_t pages;

  CHECK(statm != NULL);
  CHECK_EQUAL(1, fscanf(statm, "%*d %" SCNd64, &pages));
  fclose(statm);
  return pages * sysconf(_SC_PAGESIZE);
}

/* A path that the test gives. */
static inline const char *path_of(const char *variable)
{
  const char *path = getenv(variable);

  if (path == NULL)
    FAIL("the environment has no %s", variable);
  return path;
}

int main(int argc, char **argv)
{
  for (scenario *s = scenarios; s != NULL; s = s->next) {
    if (argc == 1)
      puts(s->name);
    else if (strcmp(s->name, argv[1]) == 0) {
      s->run();
      return 0;
    }
  }
  if (argc > 1)
    FAIL("there is no scenario %s", argv[1]);
  return 0;
}

#endif
