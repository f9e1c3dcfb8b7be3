/* What a GPU driver does with addresses and memory, on host memory. It knows no vendor: entry points that are
 * generated from a backend's YAML translate a vendor's functions into these operations, whose names, classes and
 * numbers are the driver contract's. */
#ifndef ARENASIM_CORE_H
#define ARENASIM_CORE_H

#include <stddef.h>
#include <stdint.h>

#include "zz_generated_contract.h"

/* All that an operation or helper is told and answers. Each uses a few of these; the names are the contract's. */
struct sim_args {
  uint64_t size, align, hint, va, handle, stream;
  uint64_t granule, free, total;
  int64_t device, ordinal, attribute, count, value, fd, version, result, driver, usable;
  int64_t kind, handle_type, which, mode, previous; /* positions in the contract's enums, -1 where nothing was told */
  uint64_t rdma, pcie, capturing, context;
  uint64_t within; /* a context that the call names, 0 where calls name none */
  void *memory;
  uint64_t memory_length;
  unsigned char fabric[64];
};

/* What the entry points of one vendor's driver are. */
struct sim_driver {
  int64_t success;
  const int64_t *codes; /* by class: the first code of that class, or success where there is none */
  int64_t version;      /* what it says it is, as the vendor encodes it */
  int64_t major, minor, patch; /* the factors of that number, 0 for a part that it does not have */
  int needs_context;    /* a thread has no current device until a context is made its current one */
  /* The contract's capabilities. The core holds whoever calls to the first four. */
  int release_while_mapped, map_grants, map_once, map_whole, grant_per_mapping, export_is_free;
};
extern const struct sim_driver sim_driver;

/* sim_enter begins a call: it is logged, and may be told to fail, which is when the answer is not 0. */
int sim_enter(enum sim_op op, const char *function, int64_t *code);
/* sim_leave ends a call with what it came to, and is its code. */
int64_t sim_leave(enum sim_op op, const char *function, enum sim_class class);
/* sim_before tells whether the driver says that it is older than a version. */
int sim_before(int64_t major, int64_t minor, int64_t patch);

/* sim_instant says that what allocates answers at once; sim_at_once is that answer, with a handle if there is a place for one. */
extern int sim_instant;
int32_t sim_at_once(enum sim_op op, void *handle);

int64_t sim_version(void);
/* sim_last_error is the thread's last failure, which is forgotten. */
int64_t sim_last_error(void);

/* sim_do does an operation or helper. SIM_CLASS_NONE is success. */
enum sim_class sim_do(enum sim_op op, struct sim_args *args);

/* What calls have pointers to. sim_index is the number of what a pointer is to, or -1; sim_list tells how many there are, and
 * stores pointers to as many as there is room for, if there is any. */
enum sim_object { SIM_DRIVER, SIM_DEVICE };
int64_t sim_index(enum sim_object kind, uint64_t pointer);
void sim_list(enum sim_object kind, void *count, void *items);

/* sim_linked is the struct with a tag in the chain that begins in another one, or NULL. The tag and the pointer to the next
 * struct are at the same place in each. Others in the chain mean nothing. */
void *sim_linked(const void *first, size_t tag_offset, size_t next_offset, int64_t tag);

/* sim_load and sim_store read and write numbers of 1, 2, 4 or 8 bytes in a struct. */
int64_t sim_load(const void *from, size_t offset, size_t width);
void sim_store(void *to, size_t offset, size_t width, uint64_t value);
void sim_store_text(char *to, size_t room, const char *text);

#endif
