/*
 * Measures what live allocations cost a C program's process, in record mode and with
 * nothing done to make the library's collector run. Prints JSON.
 *
 *   live <number of allocations>
 */
#include "common.h"

#include <arenagen.h>

#include <inttypes.h>
#include <malloc.h>

enum { DEVICE = 0 };

static const int64_t size = INT64_C(2) << 20; /* of an allocation: one granule */

/* What a process holds at one moment. */
typedef struct {
  int64_t heap;      /* bytes of C memory in use */
  int64_t resident;  /* bytes of its own memory that are present, of any kind */
  int64_t maps;      /* kernel mappings */
} footprint;

/* Opens a file about this process. */
static FILE *about_self(const char *path)
{
  FILE *file = fopen(path, "r");

  if (file == NULL)
    fail("cannot open", path);
  return file;
}

static int64_t resident(void)
{
  FILE *file = about_self("/proc/self/status");
  char line[256];
  int64_t kib = -1;

  while (kib < 0 && fgets(line, sizeof line, file) != NULL)
    sscanf(line, "RssAnon: %" SCNd64, &kib);
  fclose(file);
  if (kib < 0)
    fail("/proc/self/status", "it has no line RssAnon");
  return kib << 10;
}

static int64_t maps(void)
{
  FILE *file = about_self("/proc/self/maps");
  int64_t lines = 0;
  int c;

  while ((c = getc(file)) != EOF)
    lines += c == '\n';
  fclose(file);
  return lines;
}

static footprint measure(void)
{
  struct mallinfo2 info = mallinfo2();

  return (footprint){(int64_t)(info.uordblks + info.hblkhd), resident(), maps()};
}

int main(int argc, char **argv)
{
  arenagen_arena_options options = ARENAGEN_ARENA_OPTIONS_INIT;
  arenagen_arena arena;
  footprint before, after;
  int64_t n;

  if (argc != 2 || (n = atoll(argv[1])) <= 0)
    fail("usage", "live <number of allocations>");
  options.total = n * size;
  options.granule = (uint64_t)size;
  options.backend_options = "mode=record";
  if (arenagen_arena_create(&options, &arena) != ARENAGEN_STATUS_OK)
    fail("arenagen_arena_create", "it failed");
  if (arenagen_set_active(DEVICE, arena) != ARENAGEN_STATUS_OK)
    fail("arenagen_set_active", "it failed");

  measure(); /* so that what reading the files takes is there before */
  before = measure();
  for (int64_t i = 0; i < n; i++)
    if (mx_malloc(size, DEVICE, NULL) == NULL)
      fail("mx_malloc", "it gave NULL");
  after = measure();

  printf("{\"live\": %" PRId64 ", \"c_heap\": %" PRId64 ", \"resident\": %" PRId64 ", \"maps\": %" PRId64 "}\n",
         n, after.heap - before.heap, after.resident - before.resident, after.maps - before.maps);
  return 0;
}
