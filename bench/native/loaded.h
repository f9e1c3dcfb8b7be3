#ifndef ARENAGEN_BENCH_LOADED_H
#define ARENAGEN_BENCH_LOADED_H

#include "reference.h"

/* The driver calls of a vendor's library, by the names of its functions: create, map, grant, unmap, release. They have the
 * parameters that all vendors of this shape share. */
const ReferenceDriver *load_driver(const char *library, char *const functions[5]);

#endif
