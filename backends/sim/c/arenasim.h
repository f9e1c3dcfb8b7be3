/* How a test controls a driver simulator. The functions are exported by every simulator beside the vendor's. All
 * may be called from any thread. Operations, classes and enums are numbered as in the driver contract,
 * from 0 in the order of spec/vmm.yaml.
 *
 * The environment variable ARENASIM has "name=value,..." pairs for arenasim_set that hold from the start. One that
 * is unknown is told on standard error, and the driver then cannot be initialised. */
#ifndef ARENASIM_H
#define ARENASIM_H

#include <stdint.h>

/* Forgets everything: objects, faults, counts, streams, settings but those of the environment, and what the calling
 * thread has current. Nothing may use the driver meanwhile. */
uint64_t arenasim_reset(void);

/* Sets one of these, and is 1, or 0 for a name that there is not:
 *   devices            how many there are, 2
 *   other_devices      how many there are besides that opening does not take, in front of them, 0; where devices are chosen
 *   capacity           bytes of memory of each device, 16 GiB
 *   granule            the recommended granularity in bytes, 2 MiB
 *   min_granule        the minimum, 2 MiB
 *   version            what the driver says, as major * 1000000 + minor * 1000 + patch
 *   lacks              an attribute that is 0, by its number; all others are 1
 *   refuses            a handle type that cannot be created although its attribute is 1, by its number
 *   refuses_rdma       1: memory for rdma cannot be created although its attribute is 1
 *   latency            nanoseconds that each call takes, 0
 *   cost_reserve, cost_create, cost_map, cost_grant, cost_unmap, cost_release
 *                      nanoseconds more that such a call takes when it succeeds, 0. They are spent after it was done
 *                      and without a lock: calls of several threads overlap
 *   cost_grant_mib, cost_release_mib  nanoseconds more for each MiB that is granted, or that the handle has, 0
 *   instant            1: create, map, grant, unmap and release do nothing. They take their cost, but no latency and
 *                      nothing for each MiB
 *   mapping_limit      how many mappings can be granted, to one device or several, 0 for any number
 *   peer_refused       the ordinal, and 1 more, of a device to which nothing can be granted (not_supported), 0 for none
 *   fd_per_handle      1: each handle takes one of the process's first file descriptors; else one above 511
 *   grant_fails_on_tail  1: a grant fails that begins behind another mapping of its reservation
 *   map_does_nothing   1: a map answers success and maps nothing
 *   reserve_gives_null 1: a reserve answers success and gives 0
 *   unmap_keeps_memory 1: memory comes back when the reservation goes
 *   retain_takes_no_reference 1: a handle that is retained is released once less */
uint64_t arenasim_set(const char *name, uint64_t value);

/* Makes creating memory with a handle type fail although its attribute is 1, as refuses does. */
uint64_t arenasim_refuse(uint64_t handle_type);

/* Makes the nth call from now on of an operation fail with the driver's code for a class; nth 0 is every call. */
uint64_t arenasim_fail(uint64_t operation, uint64_t nth, uint64_t class_);
/* The same for a function by its name in the vendor's header, with any code. */
uint64_t arenasim_fail_function(const char *function, uint64_t nth, uint64_t code);
/* Forgets the faults that were not met. */
uint64_t arenasim_fail_not(void);

/* How many objects there are: 0 reservations, 1 handles, 2 mappings, 3 contexts that are retained, or made. */
uint64_t arenasim_objects(uint64_t kind);
/* Whether a device has access to the mapping at an address, 0 where nothing is mapped. The CPU has access to what any
 * device has. */
uint64_t arenasim_granted(uint64_t address, uint64_t device);
/* How often memory was unmapped while work that uses it was pending. */
uint64_t arenasim_violations(void);
/* How often an operation was called since this was last asked. */
uint64_t arenasim_calls(uint64_t operation);
/* How often an operation failed because it was told to. */
uint64_t arenasim_failed(uint64_t operation);

/* Makes a stream, puts work on it that uses a range, lets it be captured (on) or not, or ends it. */
uint64_t arenasim_stream(void);
uint64_t arenasim_busy(uint64_t stream, uint64_t address, uint64_t size);
uint64_t arenasim_capturing(uint64_t stream, uint64_t on);
uint64_t arenasim_gone(uint64_t stream);

/* The calling thread's own state: its current context, or 0, and its capture mode. */
uint64_t arenasim_context(void);
uint64_t arenasim_capture_mode(void);

#endif
