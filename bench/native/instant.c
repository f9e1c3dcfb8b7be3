#include "instant.h"

#include <stdatomic.h>

/* Alone on its cache line: every create writes it, and nothing else should pay for that. */
static _Alignas(64) struct {
  _Atomic uint64_t last_handle;
  char rest[64 - sizeof(uint64_t)];
} device;

static int create(uint64_t *handle, uint64_t size)
{
  (void)size;
  *handle = atomic_fetch_add_explicit(&device.last_handle, 1, memory_order_relaxed) + 1;
  return 0;
}

static int map(uint64_t va, uint64_t size, uint64_t handle)
{
  (void)va;
  (void)size;
  (void)handle;
  return 0;
}

static int grant(uint64_t va, uint64_t size)
{
  (void)va;
  (void)size;
  return 0;
}

static int unmap(uint64_t va, uint64_t size)
{
  (void)va;
  (void)size;
  return 0;
}

static int release(uint64_t handle)
{
  (void)handle;
  return 0;
}

const ReferenceDriver instant_driver = {create, map, grant, unmap, release};
