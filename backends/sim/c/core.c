/* The operations: reservations, handles, mappings, access, contexts, streams. One lock guards all of it. */
#define _GNU_SOURCE
#include "core.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "arenasim.h"

#define MAX_DEVICES 64
#define MAX_DEPTH 64
#define MAX_CONTEXTS 4096

struct settings {
  uint64_t devices, capacity, granule, min_granule, version, refuses_rdma, latency, instant, mapping_limit;
  uint64_t fd_per_handle, grant_fails_on_tail, map_does_nothing, reserve_gives_null, unmap_keeps_memory,
      retain_takes_no_reference, peer_refused, other_devices;
  uint64_t cost_reserve, cost_create, cost_map, cost_grant, cost_unmap, cost_release, cost_grant_mib, cost_release_mib;
  uint8_t lacks[SIM_ATTRIBUTES], refuses[SIM_HANDLE_TYPES];
};

static const struct settings usual = {
    .devices = 2, .capacity = UINT64_C(16) << 30, .granule = 2 << 20, .min_granule = 2 << 20,
};

/* Physical memory. It lives as long as its handle or a mapping refers to it. */
struct memory {
  uint64_t handle; /* 0 once it was released as often as it was given out */
  uint64_t size, references, mapped;
  int64_t device, handle_type;
  int fd;
  struct memory *next;
};

struct reservation {
  uint64_t va, size;
  uint64_t kept; /* bytes that were released and come back with it */
  int64_t device; /* that has them */
  struct reservation *next;
};

struct mapping {
  uint64_t va, size;
  struct memory *memory;
  struct reservation *in;
  uint64_t granted; /* which devices have access: bit n is device n */
  struct mapping *next;
};

struct work {
  uint64_t va, size;
  struct work *next;
};

struct stream {
  uint64_t id;
  int capturing;
  struct work *pending;
  struct stream *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct settings settings, initial;
static int broken; /* the environment says something that is not known */
static atomic_int initialised, forked;
static struct memory *memories;
static struct reservation *reservations;
static struct mapping *mappings;
static struct stream *streams;
static uint64_t last_context;
static unsigned char contexts[MAX_CONTEXTS]; /* those that were made and not ended */
static uint64_t last_handle, last_stream, used[MAX_DEVICES], retained[MAX_DEVICES], granted, violations;

/* What belongs to a thread. */
static _Thread_local struct {
  uint64_t contexts[MAX_DEPTH];
  int depth;
  int64_t device;
  int64_t mode;
  int64_t failure;
} thread;

/* Contexts look like pointers, so that they are not taken for small numbers. */
#define CONTEXT(device) (UINT64_C(0xc0de0000) + 16 * (uint64_t)((device) + 1))

/* Other things that calls have pointers to: drivers, devices, and contexts that are made and ended. */
#define OBJECT(kind, index) (UINT64_C(0x0b1ec7000000) + ((uint64_t)(kind) << 20) + 16 * (uint64_t)((index) + 1))
#define CONTEXT_OBJECT 2

static uint64_t objects_of(enum sim_object kind) { return kind == SIM_DRIVER ? 1 : settings.devices + settings.other_devices; }

/* Devices of another sort come first, so that ordinals are not places in the list. Their numbers are above all ordinals. */
int64_t sim_index(enum sim_object kind, uint64_t pointer) {
  uint64_t others = kind == SIM_DEVICE ? settings.other_devices : 0;
  for (uint64_t i = 0; i < objects_of(kind); i++) {
    if (pointer == OBJECT(kind, i)) return (int64_t)(i < others ? settings.devices + i : i - others);
  }
  return -1;
}

void sim_list(enum sim_object kind, void *count, void *items) {
  uint32_t there = (uint32_t)objects_of(kind), room;
  memcpy(&room, count, sizeof room);
  if (items && room) {
    if (there > room) there = room;
    for (uint32_t i = 0; i < there; i++) sim_store(items, 8 * i, 8, OBJECT(kind, i));
  }
  memcpy(count, &there, sizeof there);
}

static int context_index(uint64_t context) {
  for (int i = 0; i < MAX_CONTEXTS; i++) {
    if (context == OBJECT(CONTEXT_OBJECT, i)) return contexts[i] ? i : -1;
  }
  return -1;
}

static enum sim_class make_context(struct sim_args *a) {
  for (int tries = 0; tries < MAX_CONTEXTS; tries++) {
    uint64_t i = last_context++ % MAX_CONTEXTS; /* an ended one is not soon given again */
    if (contexts[i]) continue;
    contexts[i] = 1;
    a->context = OBJECT(CONTEXT_OBJECT, i);
    return SIM_CLASS_NONE;
  }
  return SIM_CLASS_OUT_OF_MEMORY;
}

static int64_t device_of(uint64_t context) {
  for (int64_t i = 0; i < (int64_t)settings.devices; i++) {
    if (CONTEXT(i) == context) return i;
  }
  return -1;
}

/* The device that a call works on: the one that it names, else the thread's. -1: there is none. */
static int64_t current(void) {
  if (!sim_driver.needs_context) return thread.device;
  return thread.depth ? device_of(thread.contexts[thread.depth - 1]) : -1;
}

static int multiple(uint64_t value, uint64_t of) { return value % of == 0; }

static int is_device(int64_t device) { return device >= 0 && device < (int64_t)settings.devices; }

/* Reservations. */

static struct reservation *reservation_at(uint64_t va, uint64_t size) {
  for (struct reservation *r = reservations; r; r = r->next) {
    if (va >= r->va && size <= r->size && va - r->va <= r->size - size) return r;
  }
  return NULL;
}

static void *reserve_host(uint64_t size, uint64_t align, uint64_t hint) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  if (hint && multiple(hint, align)) {
    void *there = mmap((void *)(uintptr_t)hint, size, PROT_NONE, flags | MAP_FIXED_NOREPLACE, -1, 0);
    if (there != MAP_FAILED) return there;
  }
  char *wide = mmap(NULL, size + align, PROT_NONE, flags, -1, 0);
  if (wide == MAP_FAILED) return NULL;
  uint64_t lead = (align - (uintptr_t)wide % align) % align;
  if (lead) munmap(wide, lead);
  munmap(wide + lead + size, align - lead);
  return wide + lead;
}

static enum sim_class reserve(struct sim_args *a) {
  uint64_t align = a->align ? a->align : settings.granule;
  if (!a->size || !multiple(a->size, settings.min_granule) || (align & (align - 1))) return SIM_CLASS_INVALID_ARGUMENT;
  if (align < settings.min_granule) align = settings.min_granule;
  if (settings.reserve_gives_null) {
    a->va = 0;
    return SIM_CLASS_NONE;
  }
  struct reservation *r = calloc(1, sizeof *r);
  void *there = r ? reserve_host(a->size, align, a->hint) : NULL;
  if (!there) {
    free(r);
    return SIM_CLASS_OUT_OF_MEMORY;
  }
  *r = (struct reservation){(uintptr_t)there, a->size, 0, -1, reservations};
  reservations = r;
  a->va = r->va;
  return SIM_CLASS_NONE;
}

static enum sim_class unreserve(struct sim_args *a) {
  for (struct mapping *m = mappings; m; m = m->next) {
    if (m->va >= a->va && m->va - a->va < a->size) return SIM_CLASS_INVALID_ARGUMENT;
  }
  for (struct reservation **at = &reservations; *at; at = &(*at)->next) {
    struct reservation *r = *at;
    if (r->va != a->va || r->size != a->size) continue;
    munmap((void *)(uintptr_t)r->va, r->size);
    if (r->device >= 0) used[r->device] -= r->kept;
    *at = r->next;
    free(r);
    return SIM_CLASS_NONE;
  }
  return SIM_CLASS_INVALID_ARGUMENT;
}

/* Handles. */

static struct memory *memory_of(uint64_t handle) {
  for (struct memory *m = memories; handle && m; m = m->next) {
    if (m->handle == handle) return m;
  }
  return NULL;
}

static struct memory *new_memory(uint64_t size, int64_t device, int64_t handle_type, int fd) {
  struct memory *m = calloc(1, sizeof *m);
  if (!m) return NULL;
  *m = (struct memory){++last_handle, size, 1, 0, device, handle_type, fd, memories};
  memories = m;
  used[device] += size;
  return m;
}

/* drop frees memory that nothing refers to any more. */
static void drop(struct memory *gone) {
  if (gone->references || gone->mapped) return;
  for (struct memory **at = &memories; *at; at = &(*at)->next) {
    if (*at != gone) continue;
    *at = gone->next;
    break;
  }
  close(gone->fd);
  used[gone->device] -= gone->size;
  free(gone);
}

/* poison sees to it that new memory does not look as if it were zeroed: the start of its first granules. */
static int poison(int fd, uint64_t size) {
  char bytes[64];
  memset(bytes, 0xa5, sizeof bytes);
  for (uint64_t i = 0; i < 64 && i * settings.min_granule < size; i++) {
    if (pwrite(fd, bytes, sizeof bytes, (off_t)(i * settings.min_granule)) != (ssize_t)sizeof bytes) return 0;
  }
  return 1;
}

static enum sim_class create(struct sim_args *a) {
  int64_t device = a->device >= 0 ? a->device : current();
  if (!is_device(device) || !a->size || !multiple(a->size, settings.min_granule)) return SIM_CLASS_INVALID_ARGUMENT;
  if (a->handle_type < 0) a->handle_type = SIM_HANDLE_TYPE_NONE;
  if (settings.refuses[a->handle_type] || (a->rdma && settings.refuses_rdma)) return SIM_CLASS_NOT_PERMITTED;
  if (a->size > settings.capacity - used[device]) return SIM_CLASS_OUT_OF_MEMORY;
  int fd = memfd_create("arenasim", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, (off_t)a->size) || !poison(fd, a->size)) {
    if (fd >= 0) close(fd);
    return SIM_CLASS_OUT_OF_MEMORY;
  }
  if (!settings.fd_per_handle) { /* out of the way of the process's own numbers */
    int high = fcntl(fd, F_DUPFD_CLOEXEC, 512);
    if (high >= 0) {
      close(fd);
      fd = high;
    }
  }
  struct memory *m = new_memory(a->size, device, a->handle_type, fd);
  if (!m) {
    close(fd);
    return SIM_CLASS_OUT_OF_MEMORY;
  }
  a->handle = m->handle;
  return SIM_CLASS_NONE;
}

static enum sim_class release(struct sim_args *a) {
  struct memory *m = memory_of(a->handle);
  if (!m) return SIM_CLASS_INVALID_ARGUMENT;
  if (m->mapped && !sim_driver.release_while_mapped) return SIM_CLASS_INVALID_ARGUMENT;
  a->size = m->size; /* what the call costs depends on it */
  if (!--m->references) m->handle = 0;
  drop(m);
  return SIM_CLASS_NONE;
}

/* Mappings. */

static struct mapping *mapping_at(uint64_t va) {
  for (struct mapping *m = mappings; m; m = m->next) {
    if (va >= m->va && va - m->va < m->size) return m;
  }
  return NULL;
}

/* covered tells whether whole mappings that follow each other cover a range exactly. */
static int covered(uint64_t va, uint64_t size) {
  uint64_t end = va + size;
  if (!size || end < va) return 0;
  while (va < end) {
    struct mapping *m = mapping_at(va);
    if (!m || m->va != va || m->size > end - va) return 0;
    va += m->size;
  }
  return 1;
}

/* let gives devices access to a mapping. */
static enum sim_class let(struct mapping *m, uint64_t devices) {
  if (mprotect((void *)(uintptr_t)m->va, m->size, PROT_READ | PROT_WRITE)) return SIM_CLASS_OUT_OF_MEMORY;
  if (!m->granted) granted++;
  m->granted |= devices;
  return SIM_CLASS_NONE;
}

static enum sim_class map(struct sim_args *a) {
  struct memory *memory = memory_of(a->handle);
  struct reservation *in = reservation_at(a->va, a->size);
  if (!memory || !in || !a->size || a->size > memory->size || !multiple(a->va, settings.min_granule) ||
      !multiple(a->size, settings.min_granule)) {
    return SIM_CLASS_INVALID_ARGUMENT;
  }
  if ((sim_driver.map_once && memory->mapped) || (sim_driver.map_whole && a->size != memory->size)) {
    return SIM_CLASS_INVALID_ARGUMENT;
  }
  for (struct mapping *m = mappings; m; m = m->next) {
    if (a->va < m->va + m->size && m->va < a->va + a->size) return SIM_CLASS_INVALID_ARGUMENT;
  }
  if (settings.map_does_nothing) return SIM_CLASS_NONE;
  struct mapping *m = calloc(1, sizeof *m);
  void *there = (void *)(uintptr_t)a->va;
  if (!m || mmap(there, a->size, PROT_NONE, MAP_SHARED | MAP_FIXED, memory->fd, 0) == MAP_FAILED) {
    free(m);
    return SIM_CLASS_OUT_OF_MEMORY;
  }
  *m = (struct mapping){a->va, a->size, memory, in, 0, mappings};
  mappings = m;
  memory->mapped++;
  if (sim_driver.map_grants) return let(m, UINT64_C(1) << memory->device);
  return SIM_CLASS_NONE;
}

static int work_on(uint64_t va, uint64_t size) {
  for (struct stream *s = streams; s; s = s->next) {
    for (struct work *w = s->pending; w; w = w->next) {
      if (w->va < va + size && va < w->va + w->size) return 1;
    }
  }
  return 0;
}

static enum sim_class unmap(struct sim_args *a) {
  if (!covered(a->va, a->size)) return SIM_CLASS_INVALID_ARGUMENT;
  if (work_on(a->va, a->size)) violations++;
  for (struct mapping **at = &mappings; *at;) {
    struct mapping *m = *at;
    if (m->va < a->va || m->va - a->va >= a->size) {
      at = &m->next;
      continue;
    }
    mmap((void *)(uintptr_t)m->va, m->size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    *at = m->next;
    if (m->granted) granted--;
    if (settings.unmap_keeps_memory) {
      m->in->device = m->memory->device;
      m->in->kept += m->size;
      used[m->in->device] += m->size;
    }
    m->memory->mapped--;
    drop(m->memory);
    free(m);
  }
  return SIM_CLASS_NONE;
}

/* ungranted counts the mappings in a range that no device has access to. */
static uint64_t ungranted(uint64_t va, uint64_t size) {
  uint64_t count = 0;
  for (struct mapping *m = mappings; m; m = m->next) {
    if (m->va >= va && m->va - va < size && !m->granted) count++;
  }
  return count;
}

static enum sim_class grant(struct sim_args *a) {
  /* Where no device is told, all that are in the context get access. */
  uint64_t devices = a->device < 0 ? (UINT64_C(1) << settings.devices) - 1 : UINT64_C(1) << a->device;
  if ((a->device >= 0 && !is_device(a->device)) || !covered(a->va, a->size)) return SIM_CLASS_INVALID_ARGUMENT;
  struct reservation *in = reservation_at(a->va, a->size);
  if (settings.grant_fails_on_tail && in && a->va != in->va) return SIM_CLASS_INVALID_ARGUMENT;
  if (settings.peer_refused && (uint64_t)a->device == settings.peer_refused - 1) return SIM_CLASS_NOT_SUPPORTED;
  uint64_t more = ungranted(a->va, a->size); /* a further device takes no further mapping */
  if (settings.mapping_limit && more && granted + more > settings.mapping_limit) return SIM_CLASS_OUT_OF_MEMORY;
  for (struct mapping *m = mappings; m; m = m->next) {
    if (m->va < a->va || m->va - a->va >= a->size) continue;
    enum sim_class class = let(m, devices);
    if (class != SIM_CLASS_NONE) return class;
  }
  return SIM_CLASS_NONE;
}

static enum sim_class retain(struct sim_args *a) {
  struct mapping *m = mapping_at(a->va);
  if (!m || !m->memory->handle) return SIM_CLASS_INVALID_ARGUMENT;
  if (!settings.retain_takes_no_reference) m->memory->references++;
  a->handle = m->memory->handle;
  return SIM_CLASS_NONE;
}

/* Sharing. */

static enum sim_class export_fd(struct sim_args *a) {
  struct memory *m = memory_of(a->handle);
  if (!m || m->handle_type != SIM_HANDLE_TYPE_POSIX_FD) return SIM_CLASS_INVALID_ARGUMENT;
  a->fd = fcntl(m->fd, F_DUPFD_CLOEXEC, 0);
  return a->fd < 0 ? SIM_CLASS_OUT_OF_MEMORY : SIM_CLASS_NONE;
}

static enum sim_class import(struct sim_args *a, int fd, int64_t handle_type) {
  int own = fcntl(fd, F_DUPFD_CLOEXEC, 512);
  off_t size = own < 0 ? -1 : lseek(own, 0, SEEK_END);
  int64_t device = current() >= 0 ? current() : 0;
  struct memory *m = size > 0 ? new_memory((uint64_t)size, device, handle_type, own) : NULL;
  if (!m) {
    if (own >= 0) close(own);
    return SIM_CLASS_INVALID_ARGUMENT;
  }
  a->handle = m->handle;
  return SIM_CLASS_NONE;
}

/* A fabric handle names a file of a process on this machine. */
static enum sim_class export_fabric(struct sim_args *a) {
  struct memory *m = memory_of(a->handle);
  if (!m || m->handle_type != SIM_HANDLE_TYPE_FABRIC) return SIM_CLASS_INVALID_ARGUMENT;
  memset(a->fabric, 0, sizeof a->fabric);
  snprintf((char *)a->fabric, sizeof a->fabric, "/proc/%d/fd/%d", (int)getpid(), m->fd);
  return SIM_CLASS_NONE;
}

static enum sim_class import_fabric(struct sim_args *a) {
  char name[sizeof a->fabric + 1] = {0};
  memcpy(name, a->fabric, sizeof a->fabric);
  int fd = strncmp(name, "/proc/", 6) ? -1 : open(name, O_RDWR | O_CLOEXEC);
  if (fd < 0) return SIM_CLASS_INVALID_ARGUMENT;
  enum sim_class class = import(a, fd, SIM_HANDLE_TYPE_FABRIC);
  close(fd);
  return class;
}

static enum sim_class export_dmabuf(struct sim_args *a) {
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
  struct mapping *m = mapping_at(a->va);
  if (!m || !a->size || !multiple(a->va, page) || !multiple(a->size, page)) return SIM_CLASS_INVALID_ARGUMENT;
  for (uint64_t va = a->va; va - a->va < a->size;) {
    struct mapping *part = mapping_at(va);
    if (!part || part->memory->device != m->memory->device) return SIM_CLASS_INVALID_ARGUMENT;
    va = part->va + part->size;
  }
  a->fd = fcntl(m->memory->fd, F_DUPFD_CLOEXEC, 0);
  return a->fd < 0 ? SIM_CLASS_OUT_OF_MEMORY : SIM_CLASS_NONE;
}

/* Copies. */

static enum sim_class copy(struct sim_args *a, int to_host) {
  for (uint64_t va = a->va; va - a->va < a->memory_length;) {
    struct mapping *m = mapping_at(va);
    if (!m || !m->granted) return SIM_CLASS_INVALID_ARGUMENT;
    va = m->va + m->size;
  }
  void *there = (void *)(uintptr_t)a->va;
  if (to_host) {
    memcpy(a->memory, there, a->memory_length);
  } else {
    memcpy(there, a->memory, a->memory_length);
  }
  return SIM_CLASS_NONE;
}

/* Streams. */

static struct stream *stream_of(uint64_t id) {
  for (struct stream *s = streams; s; s = s->next) {
    if (s->id == id) return s;
  }
  return NULL;
}

static void finish(struct stream *s) {
  for (struct work *w = s->pending, *next; w; w = next) {
    next = w->next;
    free(w);
  }
  s->pending = NULL;
}

static enum sim_class sync_stream(struct sim_args *a) {
  struct stream *s = stream_of(a->stream);
  if (a->stream && !s) return SIM_CLASS_INVALID_ARGUMENT;
  if (s && s->capturing) return SIM_CLASS_CAPTURING;
  if (s) finish(s);
  return SIM_CLASS_NONE;
}

static enum sim_class sync_device(void) {
  for (struct stream *s = streams; s; s = s->next) {
    if (s->capturing && thread.mode != SIM_CAPTURE_MODE_RELAXED) return SIM_CLASS_CAPTURING;
  }
  for (struct stream *s = streams; s; s = s->next) finish(s);
  return SIM_CLASS_NONE;
}

static enum sim_class stream_capturing(struct sim_args *a) {
  struct stream *s = stream_of(a->stream);
  if (a->stream && !s) return SIM_CLASS_INVALID_ARGUMENT;
  a->capturing = s && s->capturing;
  return SIM_CLASS_NONE;
}

/* Devices and contexts. */

static enum sim_class attribute(struct sim_args *a) {
  if (!is_device(a->device)) return SIM_CLASS_NO_DEVICE;
  if (a->which < 0) return SIM_CLASS_INVALID_ARGUMENT;
  a->value = !settings.lacks[a->which];
  return SIM_CLASS_NONE;
}

static enum sim_class helper(enum sim_op op, struct sim_args *a) {
  switch (op) {
  case SIM_OP_DRIVER_VERSION:
    return SIM_CLASS_NONE;
  case SIM_OP_INITIALIZE:
    if (!settings.devices) return SIM_CLASS_NO_DEVICE;
    if (broken) return SIM_CLASS_UNAVAILABLE;
    atomic_store(&initialised, 1);
    return SIM_CLASS_NONE;
  case SIM_OP_DRIVERS:
    return SIM_CLASS_NONE;
  case SIM_OP_DEVICE_USABLE:
    a->usable = is_device(a->device);
    return SIM_CLASS_NONE;
  case SIM_OP_CONTEXT_CREATE:
    return make_context(a);
  case SIM_OP_CONTEXT_DESTROY:
    if (context_index(a->context) < 0) return SIM_CLASS_INVALID_ARGUMENT;
    contexts[context_index(a->context)] = 0;
    return SIM_CLASS_NONE;
  case SIM_OP_DEVICE_AT:
    a->device = a->ordinal;
    return is_device(a->ordinal) ? SIM_CLASS_NONE : SIM_CLASS_NO_DEVICE;
  case SIM_OP_DEVICE_ATTRIBUTE:
    return attribute(a);
  case SIM_OP_CONTEXT_RETAIN:
    if (!is_device(a->device)) return SIM_CLASS_NO_DEVICE;
    retained[a->device]++;
    a->context = CONTEXT(a->device);
    return SIM_CLASS_NONE;
  case SIM_OP_CONTEXT_RELEASE:
    if (!is_device(a->device) || !retained[a->device]) return SIM_CLASS_NO_CONTEXT;
    retained[a->device]--;
    return SIM_CLASS_NONE;
  case SIM_OP_CONTEXT_PUSH:
    if (device_of(a->context) < 0 || !retained[device_of(a->context)] || thread.depth == MAX_DEPTH) return SIM_CLASS_NO_CONTEXT;
    thread.contexts[thread.depth++] = a->context;
    return SIM_CLASS_NONE;
  case SIM_OP_CONTEXT_POP:
    if (!thread.depth) return SIM_CLASS_NO_CONTEXT;
    a->context = thread.contexts[--thread.depth];
    return SIM_CLASS_NONE;
  case SIM_OP_CURRENT_DEVICE:
    a->device = thread.device;
    return SIM_CLASS_NONE;
  case SIM_OP_SET_DEVICE:
    if (!is_device(a->device)) return SIM_CLASS_NO_DEVICE;
    thread.device = a->device;
    return SIM_CLASS_NONE;
  default:
    return SIM_CLASS_NOT_SUPPORTED;
  }
}

static enum sim_class operation(enum sim_op op, struct sim_args *a) {
  switch (op) {
  case SIM_OP_DEVICE_COUNT:
    a->count = (int64_t)settings.devices;
    return SIM_CLASS_NONE;
  case SIM_OP_DEVICE_NAME:
    return is_device(a->device) ? SIM_CLASS_NONE : SIM_CLASS_NO_DEVICE;
  case SIM_OP_ATTRIBUTE:
    return attribute(a);
  case SIM_OP_GRANULARITY:
    if (!is_device(a->device)) return SIM_CLASS_INVALID_ARGUMENT;
    /* It depends on the kind, or, where none is told, on the size. */
    a->granule = a->kind == SIM_GRANULARITY_MINIMUM || (a->kind < 0 && a->size < settings.granule) ? settings.min_granule : settings.granule;
    return SIM_CLASS_NONE;
  case SIM_OP_RESERVE:
    return reserve(a);
  case SIM_OP_UNRESERVE:
    return unreserve(a);
  case SIM_OP_CREATE:
    return create(a);
  case SIM_OP_RELEASE:
    return release(a);
  case SIM_OP_RETAIN:
    return retain(a);
  case SIM_OP_MAP:
    return map(a);
  case SIM_OP_UNMAP:
    return unmap(a);
  case SIM_OP_GRANT:
    return grant(a);
  case SIM_OP_MEMORY_INFO:
    a->total = settings.capacity;
    a->free = settings.capacity - used[current()];
    return SIM_CLASS_NONE;
  case SIM_OP_EXPORT_FD:
    return export_fd(a);
  case SIM_OP_IMPORT_FD:
    return import(a, (int)a->fd, SIM_HANDLE_TYPE_POSIX_FD);
  case SIM_OP_EXPORT_FABRIC:
    return export_fabric(a);
  case SIM_OP_IMPORT_FABRIC:
    return import_fabric(a);
  case SIM_OP_EXPORT_DMABUF:
    return export_dmabuf(a);
  case SIM_OP_COPY_TO_HOST:
    return copy(a, 1);
  case SIM_OP_COPY_FROM_HOST:
    return copy(a, 0);
  case SIM_OP_SYNC_DEVICE:
    return sync_device();
  case SIM_OP_SYNC_STREAM:
    return sync_stream(a);
  case SIM_OP_EXCHANGE_CAPTURE_MODE:
    if (a->mode < 0) return SIM_CLASS_INVALID_ARGUMENT;
    a->previous = thread.mode;
    thread.mode = a->mode;
    return SIM_CLASS_NONE;
  case SIM_OP_STREAM_CAPTURING:
    return stream_capturing(a);
  default:
    return helper(op, a);
  }
}

/* needs_current tells whether an operation works on what the thread has current. */
static int needs_current(enum sim_op op) {
  switch (op) {
  case SIM_OP_MEMORY_INFO:
  case SIM_OP_COPY_TO_HOST:
  case SIM_OP_COPY_FROM_HOST:
  case SIM_OP_SYNC_DEVICE:
  case SIM_OP_SYNC_STREAM:
  case SIM_OP_STREAM_CAPTURING:
    return 1;
  default:
    return 0;
  }
}

/* What calls cost. */

static uint64_t for_each_mib(uint64_t nanoseconds, uint64_t size) {
  const uint64_t mib = 1 << 20;
  return size / mib * nanoseconds + size % mib * nanoseconds / mib;
}

/* cost_of is what a call that was done costs, in nanoseconds. The caller has the lock, or the settings stay as they are. */
static uint64_t cost_of(enum sim_op op, const struct sim_args *a) {
  switch (op) {
  case SIM_OP_RESERVE:
    return settings.cost_reserve;
  case SIM_OP_CREATE:
    return settings.cost_create;
  case SIM_OP_MAP:
    return settings.cost_map;
  case SIM_OP_GRANT:
    return settings.cost_grant + for_each_mib(settings.cost_grant_mib, a->size);
  case SIM_OP_UNMAP:
    return settings.cost_unmap;
  case SIM_OP_RELEASE:
    return settings.cost_release + for_each_mib(settings.cost_release_mib, a->size);
  default:
    return 0;
  }
}

#define SECOND INT64_C(1000000000)

static int64_t monotonic(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * SECOND + t.tv_nsec;
}

/* spend takes a time, and hardly more: the kernel wakes a thread up to this much too late, and that long it spins. The
 * caller has no lock, so that threads spend theirs side by side. */
static void spend(uint64_t nanoseconds) {
  const int64_t late = 100000;
  if (!nanoseconds) return;
  int64_t end = monotonic() + (int64_t)nanoseconds, until = end - late;
  struct timespec wake = {(time_t)(until / SECOND), (long)(until % SECOND)};
  while (monotonic() < until && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &wake, NULL) == EINTR) { /* a signal */
  }
  while (monotonic() < end) {
  }
}

int sim_instant;

int32_t sim_at_once(enum sim_op op, void *handle) {
  static atomic_uint_fast64_t last;
  static const struct sim_args of_any_size;

  spend(cost_of(op, &of_any_size));

  if (handle) sim_store(handle, 0, 8, atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1);
  return (int32_t)sim_driver.success;
}

enum sim_class sim_do(enum sim_op op, struct sim_args *args) {
  if (atomic_load_explicit(&forked, memory_order_relaxed)) return SIM_CLASS_UNAVAILABLE;
  pthread_mutex_lock(&lock);
  enum sim_class class;
  uint64_t cost = 0;
  if (!atomic_load(&initialised) && op != SIM_OP_INITIALIZE && op != SIM_OP_DRIVER_VERSION) {
    class = settings.devices ? SIM_CLASS_UNAVAILABLE : SIM_CLASS_NO_DEVICE;
  } else if (args->within && context_index(args->within) < 0) {
    class = SIM_CLASS_INVALID_ARGUMENT;
  } else if (needs_current(op) && current() < 0) {
    class = SIM_CLASS_NO_CONTEXT;
  } else {
    class = operation(op, args);
    if (class == SIM_CLASS_NONE) cost = cost_of(op, args);
  }
  pthread_mutex_unlock(&lock);
  spend(cost);
  return class;
}

/* Calls: faults, counts. */

#define MAX_FAULTS 64
static struct fault {
  uint64_t operation, nth;
  char function[64]; /* or all of the operation's, where it is empty */
  int64_t code;
} faults[MAX_FAULTS];
static int fault_count;
static atomic_uint_fast64_t calls[SIM_OPS], asked[SIM_OPS], failures[SIM_OPS];

/* fault_of finds what a call is told to fail with, and tells whether there is anything. The caller has the lock. */
static int fault_of(enum sim_op op, const char *function, int64_t *code) {
  int found = 0;
  for (int i = 0; i < fault_count; i++) {
    struct fault *f = &faults[i];
    if (*f->function ? strcmp(f->function, function) != 0 : f->operation != (uint64_t)op) continue;
    int once = f->nth != 0;
    if (once && --f->nth) continue;
    found = 1;
    *code = f->code;
    if (once) faults[i--] = faults[--fault_count];
  }
  return found;
}

int sim_enter(enum sim_op op, const char *function, int64_t *code) {
  if (settings.latency) {
    struct timespec wait = {(time_t)(settings.latency / 1000000000), (long)(settings.latency % 1000000000)};
    nanosleep(&wait, NULL);
  }
  if (atomic_load_explicit(&forked, memory_order_relaxed)) return 0;
  pthread_mutex_lock(&lock);
  calls[op]++;
  int fails = fault_of(op, function, code);
  if (fails) failures[op]++;
  pthread_mutex_unlock(&lock);
  if (fails) thread.failure = *code;
  return fails;
}

int64_t sim_leave(enum sim_op op, const char *function, enum sim_class class) {
  (void)op;
  (void)function;
  if (class == SIM_CLASS_NONE) return sim_driver.success;
  return thread.failure = sim_driver.codes[class];
}

int64_t sim_last_error(void) {
  int64_t failure = thread.failure;
  thread.failure = sim_driver.success;
  return failure;
}

int64_t sim_version(void) {
  if (!settings.version) return sim_driver.version;
  int64_t major = (int64_t)settings.version / 1000000, minor = (int64_t)settings.version / 1000 % 1000;
  int64_t patch = (int64_t)settings.version % 1000;
  return major * sim_driver.major + minor * sim_driver.minor + patch * sim_driver.patch;
}

int sim_before(int64_t major, int64_t minor, int64_t patch) {
  return sim_version() < major * sim_driver.major + minor * sim_driver.minor + patch * sim_driver.patch;
}

int64_t sim_load(const void *from, size_t offset, size_t width) {
  int64_t value = 0;
  memcpy(&value, (const char *)from + offset, width);
  if (width == 4) return (int32_t)value;
  return value;
}

void *sim_linked(const void *first, size_t tag_offset, size_t next_offset, int64_t tag) {
  char *next = (char *)(uintptr_t)sim_load(first, next_offset, 8);
  while (next && sim_load(next, tag_offset, 4) != tag) next = (char *)(uintptr_t)sim_load(next, next_offset, 8);
  return next;
}

void sim_store(void *to, size_t offset, size_t width, uint64_t value) { memcpy((char *)to + offset, &value, width); }

void sim_store_text(char *to, size_t room, const char *text) {
  if (room) snprintf(to, room, "%s", text);
}

/* Control. */

static void forget(void) {
  for (struct mapping *m = mappings, *next; m; m = next) {
    next = m->next;
    m->memory->mapped--;
    free(m);
  }
  for (struct reservation *r = reservations, *next; r; r = next) {
    next = r->next;
    munmap((void *)(uintptr_t)r->va, r->size);
    free(r);
  }
  for (struct memory *m = memories, *next; m; m = next) {
    next = m->next;
    close(m->fd);
    free(m);
  }
  for (struct stream *s = streams, *next; s; s = next) {
    next = s->next;
    finish(s);
    free(s);
  }
  mappings = NULL;
  reservations = NULL;
  memories = NULL;
  streams = NULL;
  memset(used, 0, sizeof used);
  memset(retained, 0, sizeof retained);
  memset(contexts, 0, sizeof contexts);
  granted = violations = 0;
  fault_count = 0;
  for (int i = 0; i < SIM_OPS; i++) calls[i] = asked[i] = failures[i] = 0;
}

uint64_t arenasim_reset(void) {
  pthread_mutex_lock(&lock);
  forget();
  settings = initial;
  sim_instant = settings.instant != 0;
  memset(&thread, 0, sizeof thread);
  pthread_mutex_unlock(&lock);
  return 1;
}

#define SETTINGS(F)                                                                                       \
  F(capacity) F(granule) F(min_granule) F(version) F(refuses_rdma) F(latency) F(instant) F(mapping_limit)  \
  F(fd_per_handle) F(grant_fails_on_tail) F(map_does_nothing) F(reserve_gives_null) F(unmap_keeps_memory)  \
  F(retain_takes_no_reference) F(peer_refused)                                                             \
  F(cost_reserve) F(cost_create) F(cost_map) F(cost_grant) F(cost_unmap) F(cost_release)                   \
  F(cost_grant_mib) F(cost_release_mib)

static uint64_t set(struct settings *s, const char *name, uint64_t value) {
#define SET(field) \
  if (!strcmp(name, #field)) return s->field = value, 1;
  SETTINGS(SET)
  if (!strcmp(name, "devices") && value <= MAX_DEVICES) return s->devices = value, 1;
  if (!strcmp(name, "other_devices") && value <= MAX_DEVICES) return s->other_devices = value, 1;
  if (!strcmp(name, "lacks") && value < SIM_ATTRIBUTES) return s->lacks[value] = 1;
  if (!strcmp(name, "refuses") && value < SIM_HANDLE_TYPES) return s->refuses[value] = 1;
  return 0;
}

uint64_t arenasim_set(const char *name, uint64_t value) {
  pthread_mutex_lock(&lock);
  uint64_t known = set(&settings, name, value);
  sim_instant = settings.instant != 0;
  pthread_mutex_unlock(&lock);
  return known;
}

uint64_t arenasim_refuse(uint64_t handle_type) { return arenasim_set("refuses", handle_type); }

static uint64_t arm(struct fault fault) {
  pthread_mutex_lock(&lock);
  int room = fault_count < MAX_FAULTS;
  if (room) faults[fault_count++] = fault;
  pthread_mutex_unlock(&lock);
  return (uint64_t)room;
}

uint64_t arenasim_fail(uint64_t operation, uint64_t nth, uint64_t class) {
  if (operation >= SIM_OPS || class >= SIM_CLASS_NONE) return 0;
  return arm((struct fault){.operation = operation, .nth = nth, .code = sim_driver.codes[class]});
}

uint64_t arenasim_fail_function(const char *function, uint64_t nth, uint64_t code) {
  struct fault f = {.nth = nth, .code = (int32_t)code};
  if (strlen(function) >= sizeof f.function) return 0;
  strcpy(f.function, function);
  return arm(f);
}

uint64_t arenasim_fail_not(void) {
  pthread_mutex_lock(&lock);
  fault_count = 0;
  pthread_mutex_unlock(&lock);
  return 1;
}

uint64_t arenasim_objects(uint64_t kind) {
  uint64_t count = 0;
  pthread_mutex_lock(&lock);
  if (kind == 0) {
    for (struct reservation *r = reservations; r; r = r->next) count++;
  } else if (kind == 1) {
    for (struct memory *m = memories; m; m = m->next) count += m->handle != 0;
  } else if (kind == 2) {
    for (struct mapping *m = mappings; m; m = m->next) count++;
  } else {
    for (int i = 0; i < MAX_DEVICES; i++) count += retained[i];
    for (int i = 0; i < MAX_CONTEXTS; i++) count += contexts[i];
  }
  pthread_mutex_unlock(&lock);
  return count;
}

uint64_t arenasim_granted(uint64_t address, uint64_t device) {
  if (device >= MAX_DEVICES) return 0;
  pthread_mutex_lock(&lock);
  struct mapping *m = mapping_at(address);
  uint64_t has = m ? m->granted >> device & 1 : 0;
  pthread_mutex_unlock(&lock);
  return has;
}

uint64_t arenasim_violations(void) {
  pthread_mutex_lock(&lock);
  uint64_t count = violations;
  pthread_mutex_unlock(&lock);
  return count;
}

uint64_t arenasim_calls(uint64_t operation) {
  if (operation >= SIM_OPS) return 0;
  uint64_t now = calls[operation];
  return now - atomic_exchange(&asked[operation], now);
}

uint64_t arenasim_failed(uint64_t operation) { return operation < SIM_OPS ? failures[operation] : 0; }

uint64_t arenasim_stream(void) {
  struct stream *s = calloc(1, sizeof *s);
  if (!s) return 0;
  pthread_mutex_lock(&lock);
  s->id = UINT64_C(0x57e40000) + 16 * ++last_stream;
  s->next = streams;
  streams = s;
  pthread_mutex_unlock(&lock);
  return s->id;
}

uint64_t arenasim_busy(uint64_t stream, uint64_t address, uint64_t size) {
  struct work *w = calloc(1, sizeof *w);
  pthread_mutex_lock(&lock);
  struct stream *s = stream_of(stream);
  if (s && w) {
    *w = (struct work){address, size, s->pending};
    s->pending = w;
  }
  pthread_mutex_unlock(&lock);
  if (!s) free(w);
  return s && w;
}

uint64_t arenasim_capturing(uint64_t stream, uint64_t on) {
  pthread_mutex_lock(&lock);
  struct stream *s = stream_of(stream);
  if (s) s->capturing = on != 0;
  pthread_mutex_unlock(&lock);
  return s != NULL;
}

uint64_t arenasim_gone(uint64_t stream) {
  pthread_mutex_lock(&lock);
  struct stream **at = &streams;
  while (*at && (*at)->id != stream) at = &(*at)->next;
  struct stream *s = *at;
  if (s) {
    *at = s->next;
    finish(s);
    free(s);
  }
  pthread_mutex_unlock(&lock);
  return s != NULL;
}

uint64_t arenasim_context(void) { return thread.depth ? thread.contexts[thread.depth - 1] : 0; }

uint64_t arenasim_capture_mode(void) { return (uint64_t)thread.mode; }

/* Loading. */

static void in_child(void) { atomic_store(&forked, 1); }

static void configure(char *text) {
  for (char *pair, *rest = text; (pair = strsep(&rest, ","));) {
    char *value = strchr(pair, '=');
    char *end = NULL;
    if (value) *value++ = 0;
    uint64_t number = value ? strtoull(value, &end, 0) : 0;
    if (!value || !*value || *end || !set(&initial, pair, number)) {
      fprintf(stderr, "ARENASIM: %s is no setting with a number\n", pair);
      broken = 1;
    }
  }
}

__attribute__((constructor)) static void start(void) {
  initial = usual;
  const char *text = getenv("ARENASIM");
  char *copy = text ? strdup(text) : NULL;
  if (copy) configure(copy);
  free(copy);
  settings = initial;
  sim_instant = settings.instant != 0;
  pthread_atfork(NULL, NULL, in_child);
}
