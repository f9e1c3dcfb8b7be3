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
