/* A driver without a device. */
#include <stdint.h>
#include <string.h>

int32_t driver_narrow(void) { return -3; }
uint64_t driver_sum(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f) {
  return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f;
}
int32_t driver_five(uint64_t *out, uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
  *out = a + b + c + d;
  return 0;
}
int32_t driver_widths(uint8_t *a, uint16_t *b, uint32_t *c, uint64_t *d) {
  *a += 1;
  *b += 1;
  *c += 1;
  *d += 1;
  return 0;
}
struct property {
  int32_t type;
  int32_t location[2];
  uint8_t flag;
};
int32_t driver_struct(const struct property *p, int64_t *out) {
  *out = p->type * 1000 + p->location[0] * 100 + p->location[1] * 10 + p->flag;
  return 0;
}
int32_t driver_reverse(char *memory, uint64_t length) {
  for (uint64_t i = 0; i < length / 2; i++) {
    char c = memory[i];
    memory[i] = memory[length - 1 - i];
    memory[length - 1 - i] = c;
  }
  return (int32_t)length;
}
const char *driver_name(int32_t code) { return code == 2 ? "DRIVER_OUT_OF_MEMORY" : 0; }
int32_t driver_old(void) { return 1; }
int32_t driver_old_v2(void) { return 2; }
struct link {
  int32_t tag;
  struct link *next;
  uint64_t value;
};
/* The tags of a chain as digits, and the sum of its values. */
int32_t driver_chain(const struct link *first, uint64_t *sum) {
  int32_t tags = 0;
  *sum = 0;
  for (const struct link *l = first; l; l = l->next) {
    tags = 10 * tags + l->tag;
    *sum += l->value;
  }
  return tags;
}
/* Three items, of which one is gone when they are asked for, or a failure. */
int32_t driver_items(int32_t fails, uint32_t *count, uint64_t *items) {
  if (!items) {
    *count = 3;
    return fails == 1;
  }
  if (*count != 3) return -1;
  *count = 2;
  for (uint64_t i = 0; i < 2; i++) items[i] = (i + 1) << 40;
  return fails == 2;
}
int32_t driver_no_items(uint32_t *count, uint32_t *items) {
  *count = items ? 9 : 0;
  return 0;
}
