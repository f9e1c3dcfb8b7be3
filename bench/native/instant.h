#ifndef ARENAGEN_BENCH_INSTANT_H
#define ARENAGEN_BENCH_INSTANT_H

#include "reference.h"

/* A driver whose calls succeed at once. Handles are the next numbers of one counter, as in record mode. */
extern const ReferenceDriver instant_driver;

#endif
