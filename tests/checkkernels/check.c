/* See check.h. */
#include "check.h"
#include "runtime/kernels/kvpage.h"

#include <stdarg.h>
#include <sys/mman.h>
#include <unistd.h>
#include "runtime/base/half.h"

enum { CANARY = 0xa5, MARGIN = 256 };

bool guard_pages = true;

uint64_t random_bits(struct context *c)
{
    uint64_t z = c->seed += 0x9e3779b97f4a7c15u; /* SplitMix64 */
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

uint32_t random_below(struct context *c, uint32_t n)
{
    return (uint32_t)(random_bits(c) % n);
}

float random_float(struct context *c, float scale)
{
    double sum = 0;
    for (int i = 0; i < 4; i++)
        sum += (double)(random_bits(c) >> 11) * 0x1p-53 - 0.5;
    return (float)(sum * 1.7) * scale;
}

void random_floats(struct context *c, float *x, size_t n, float scale)
{
    for (size_t i = 0; i < n; i++)
        x[i] = random_float(c, scale);
}

struct buffer buffer_open(size_t size, size_t align, size_t offset)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room = size + MARGIN + align + offset;
    struct buffer b = { .size = size, .map_size = (room + page - 1) / page * page + page };
    b.map = mmap(NULL, b.map_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (b.map == MAP_FAILED) {
        fprintf(stderr, "checkkernels: no memory\n");
        exit(1);
    }
    unsigned char *end = b.map + b.map_size - page;
    if (guard_pages)
        mprotect(end, page, PROT_NONE);
    memset(b.map, CANARY, b.map_size - page);
    uintptr_t at = ((uintptr_t)end - size - offset) / align * align + offset;
    b.p = b.map + (at - (uintptr_t)b.map);
    return b;
}

bool buffer_intact(const struct buffer *b)
{
    const unsigned char *end = b->map + b->map_size - (size_t)sysconf(_SC_PAGESIZE);
    for (const unsigned char *p = b->map; p < b->p; p++)
        if (*p != CANARY)
            return false;
    for (const unsigned char *p = b->p + b->size; p < end; p++)
        if (*p != CANARY)
            return false;
    return true;
}

void buffer_close(struct buffer *b)
{
    munmap(b->map, b->map_size);
}

bool claim(struct context *c, bool holds, const char *format, ...)
{
    c->claims++;
    if (holds)
        return true;
    if (c->failures++ < 20) {
        va_list args;
        va_start(args, format);
        printf("  FAILED %s: ", c->k->name);
        vprintf(format, args);
        putchar('\n');
        va_end(args);
    }
    return false;
}

double ulps(float y, double x)
{
    if (isnan(x) || isinf(x))
        return isnan(x) == isnan(y) && (isnan(x) || (double)y == x) ? 0 : INFINITY;
    double magnitude = fabs(x) < 0x1p-126 ? 0x1p-126 : fabs(x);
    return fabs((double)y - x) / ldexp(1, ilogb(magnitude) - 23);
}

const char *element_name(enum rwk_element e)
{
    static const char *const names[RWK_N_ELEMENTS] = {
        [RWK_ELEMENT_F32] = "f32",        [RWK_ELEMENT_F16] = "f16",
        [RWK_ELEMENT_BF16] = "bf16",      [RWK_ELEMENT_Q8] = "q8",
        [RWK_ELEMENT_Q4] = "q4",          [RWK_ELEMENT_Q8_WIDE] = "q8-wide",
        [RWK_ELEMENT_Q4_WIDE] = "q4-wide"
    };
    return names[e];
}

double element_value(enum rwk_element e, const void *src, size_t i)
{
    const unsigned char *p = (const unsigned char *)src + i * rwk_element_bytes(e);
    float f;
    uint16_t h;
    memcpy(e == RWK_ELEMENT_F32 ? (void *)&f : (void *)&h, p, rwk_element_bytes(e));
    return e == RWK_ELEMENT_F32
               ? (double)f
               : (double)(e == RWK_ELEMENT_F16 ? rwk_f16_to_float(h) : rwk_bf16_to_float(h));
}

double kv_value_q8(const void *page, bool value, uint32_t head_dim, uint32_t j, uint32_t d)
{
    size_t stride = rwk_kv_value_stride(head_dim), blocks = rwk_kv_blocks(head_dim),
           block = d / RWK_KV_BLOCK;
    const int8_t *q = page;
    float scale;
    memcpy(&scale,
           q + RWK_KEY_BLOCK * (value ? stride : head_dim) +
               sizeof scale * (value ? j * blocks + block : block * RWK_KEY_BLOCK + j),
           sizeof scale);
    return (double)scale * q[value ? j * stride + d : (size_t)d * RWK_KEY_BLOCK + j];
}

void random_elements(struct context *c, enum rwk_element e, void *dst, double *ret, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float f = random_float(c, 1);
        uint16_t h = e == RWK_ELEMENT_F16 ? rwk_float_to_f16(f) : rwk_float_to_bf16(f);
        memcpy((unsigned char *)dst + i * rwk_element_bytes(e),
               e == RWK_ELEMENT_F32 ? (void *)&f : (void *)&h, rwk_element_bytes(e));
        if (ret)
            ret[i] = element_value(e, dst, i);
    }
}
