#ifndef ARENAGEN_BENCH_REFERENCE_H
#define ARENAGEN_BENCH_REFERENCE_H

#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

// The driver calls that an allocation makes, each 0 on success.
typedef struct ReferenceDriver {
  int (*create)(uint64_t *handle, uint64_t size);
  int (*map)(uint64_t va, uint64_t size, uint64_t handle);
  int (*grant)(uint64_t va, uint64_t size);
  int (*unmap)(uint64_t va, uint64_t size);
  int (*release)(uint64_t handle);
} ReferenceDriver;

// Makes the one arena that the pair below serves. Not while the pair is in use.
void reference_open(const ReferenceDriver *driver, uint64_t base, uint64_t total, uint64_t granule);
void *reference_malloc(ssize_t size, int device, void *stream);
void reference_free(void *ptr, ssize_t size, int device, void *stream);

#ifdef __cplusplus
}
#endif
#endif
