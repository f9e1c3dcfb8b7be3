#include "loaded.h"

#include "common.h"

typedef struct {
  int32_t type, handle_types, location_type, location;
  void *metadata;
  uint8_t flags[8];
} properties;

typedef struct {
  int32_t location_type, location, flags;
} access;

static struct {
  int (*create)(uint64_t *handle, size_t size, const properties *properties, unsigned long long flags);
  int (*map)(uint64_t va, size_t size, size_t offset, uint64_t handle, unsigned long long flags);
  int (*grant)(uint64_t va, size_t size, const access *access, size_t count);
  int (*unmap)(uint64_t va, size_t size);
  int (*release)(uint64_t handle);
} driver;

static int create(uint64_t *handle, uint64_t size)
{
  properties p = {.type = 1, .handle_types = 1, .location_type = 1};

  return driver.create(handle, size, &p, 0);
}

static int map(uint64_t va, uint64_t size, uint64_t handle)
{
  return driver.map(va, size, 0, handle, 0);
}

static int grant(uint64_t va, uint64_t size)
{
  access a = {1, 0, 3};

  return driver.grant(va, size, &a, 1);
}

static int unmap(uint64_t va, uint64_t size)
{
  return driver.unmap(va, size);
}

static int release(uint64_t handle)
{
  return driver.release(handle);
}

static const ReferenceDriver loaded = {create, map, grant, unmap, release};

const ReferenceDriver *load_driver(const char *path, char *const functions[5])
{
  void *library = open_library(path);

  find(library, functions[0], &driver.create);
  find(library, functions[1], &driver.map);
  find(library, functions[2], &driver.grant);
  find(library, functions[3], &driver.unmap);
  find(library, functions[4], &driver.release);
  return &loaded;
}
