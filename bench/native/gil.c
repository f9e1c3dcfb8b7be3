/*
 * What an extension does that gives PyTorch memory through Python callables: it takes the GIL for every malloc and every
 * free. The reference for the measurements of the C pair, and for the deadlock that comes of it.
 *
 * It is loaded with ctypes into a Python process. It needs none of Python's headers: the few functions of the
 * interpreter are declared here and found in the process.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

typedef struct _object PyObject;

extern int PyGILState_Ensure(void);
extern void PyGILState_Release(int state);
extern void *PyEval_SaveThread(void);
extern void PyEval_RestoreThread(void *thread);
extern PyObject *PyObject_CallFunction(PyObject *callable, const char *format, ...);
extern unsigned long long PyLong_AsUnsignedLongLong(PyObject *number);
extern PyObject *PyErr_Occurred(void);
extern void PyErr_WriteUnraisable(PyObject *where);
extern void Py_IncRef(PyObject *object);
extern void Py_DecRef(PyObject *object);

/* The records, guarded by a lock of their own. Addresses go up, so a record's place follows from its address. */
enum { PLACES = 1 << 20 };

typedef struct {
  uint64_t address, size, handle;
} record;

static struct {
  PyObject *allocate, *release;
  uint64_t base, total, granule;
  _Atomic uint64_t used;
  record *records;
  pthread_mutex_t lock;
} arena = {.lock = PTHREAD_MUTEX_INITIALIZER};

static record *place_of(uint64_t address)
{
  return &arena.records[(address - arena.base) / arena.granule % PLACES];
}

/* Makes the one arena. Called with the GIL, not while the pair is in use. */
void gil_open(PyObject *allocate, PyObject *release, uint64_t base, uint64_t total, uint64_t granule)
{
  Py_IncRef(allocate);
  Py_IncRef(release);
  if (arena.allocate != NULL) {
    Py_DecRef(arena.allocate);
    Py_DecRef(arena.release);
  }
  arena.allocate = allocate;
  arena.release = release;
  arena.base = base;
  arena.total = total;
  arena.granule = granule;
  atomic_store(&arena.used, 0);
  if (arena.records == NULL)
    arena.records = malloc(PLACES * sizeof *arena.records);
  memset(arena.records, 0, PLACES * sizeof *arena.records);
}

/* Puts a record into its place and gives what was there. The GIL is let go, or two threads could wait for each other's lock. */
static record exchange(record *place, record new)
{
  void *thread = PyEval_SaveThread();
  record old;

  pthread_mutex_lock(&arena.lock);
  old = *place;
  *place = new;
  pthread_mutex_unlock(&arena.lock);
  PyEval_RestoreThread(thread);
  return old;
}

static void *allocate(uint64_t size)
{
  uint64_t rounded = (size + arena.granule - 1) / arena.granule * arena.granule;
  uint64_t offset = atomic_fetch_add(&arena.used, rounded);
  uint64_t address = arena.base + offset % arena.total;
  PyObject *handle = PyObject_CallFunction(arena.allocate, "KK", (unsigned long long)address, (unsigned long long)rounded);
  unsigned long long number;

  if (handle == NULL)
    return NULL;
  number = PyLong_AsUnsignedLongLong(handle);
  Py_DecRef(handle);
  if (PyErr_Occurred() != NULL)
    return NULL;
  exchange(place_of(address), (record){address, rounded, number});
  return (void *)(uintptr_t)address;
}

void *mx_malloc(ssize_t size, int device, void *stream)
{
  int state = PyGILState_Ensure();
  void *address = size > 0 ? allocate((uint64_t)size) : NULL;

  (void)device, (void)stream;
  if (PyErr_Occurred() != NULL)
    PyErr_WriteUnraisable(arena.allocate);
  PyGILState_Release(state);
  return address;
}

void mx_free(void *address, ssize_t size, int device, void *stream)
{
  int state = PyGILState_Ensure();
  record found = exchange(place_of((uintptr_t)address), (record){0});

  (void)size, (void)device, (void)stream;
  if (found.address == (uintptr_t)address) {
    PyObject *answer = PyObject_CallFunction(arena.release, "KKK", (unsigned long long)found.address,
                                             (unsigned long long)found.size, (unsigned long long)found.handle);

    if (answer != NULL)
      Py_DecRef(answer);
    else
      PyErr_WriteUnraisable(arena.release);
  }
  PyGILState_Release(state);
}
