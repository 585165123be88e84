/* Stored types to float and back: all 65536 patterns of 16-bit types, exactly; rounding to nearest
 * even; tails; keys and values into their pages. */
#include "check.h"
#include "runtime/base/half.h"
#include "runtime/kernels/kvpage.h"

static bool same_float(float a, float b)
{
    return (isnan(a) && isnan(b)) || rwk_float_bits(a) == rwk_float_bits(b);
}

static void check_widen(struct context *c, enum rwk_element e)
{
    enum { N = 65536 };
    struct buffer src = buffer_open(N * 2, 1, 1), dst = buffer_aligned(N * sizeof(float));
    for (uint32_t i = 0; i < N; i++) {
        uint16_t h = (uint16_t)i;
        memcpy(src.p + 2 * i, &h, 2);
    }
    c->k->widen[e]((float *)dst.p, src.p, N);
    bool right = true;
    for (uint32_t i = 0; i < N; i++)
        right = right && same_float(((float *)dst.p)[i], (float)element_value(e, src.p, i));
    claim(c, right, "widen %s is exact on every pattern", element_name(e));
    buffer_close(&src);
    buffer_close(&dst);
}

static bool is_nan16(enum rwk_element e, uint16_t h)
{
    return isnan(e == RWK_ELEMENT_F16 ? rwk_f16_to_float(h) : rwk_bf16_to_float(h));
}

/* Floats around every 16-bit number and between every two of them. */
static void check_narrow(struct context *c, enum rwk_element e)
{
    enum { N = 65536 * 4 };
    struct buffer src = buffer_aligned(N * sizeof(float)), dst = buffer_open(N * 2, 2, 0);
    float *x = (float *)src.p;
    for (uint32_t i = 0; i < N; i++) {
        float at = (float)element_value(e, &(uint16_t) { (uint16_t)(i / 4) }, 0);
        float next = (float)element_value(e, &(uint16_t) { (uint16_t)(i / 4 + 1) }, 0);
        float middle = (float)(((double)at + (double)next) / 2);
        x[i] = i % 4 == 0   ? at
               : i % 4 == 1 ? middle
               : i % 4 == 2 ? nextafterf(middle, at)
                            : nextafterf(middle, next);
    }
    c->k->narrow[e](dst.p, x, N);
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < N; i++) {
        uint16_t h, right = e == RWK_ELEMENT_F16 ? rwk_float_to_f16(x[i]) : rwk_float_to_bf16(x[i]);
        memcpy(&h, dst.p + 2 * i, 2);
        wrong += h != right && !(is_nan16(e, h) && is_nan16(e, right));
    }
    claim(c, wrong == 0, "narrow %s rounds to nearest even (%u of %u wrong)", element_name(e),
          wrong, N);
    buffer_close(&src);
    buffer_close(&dst);
}

static void check_lengths(struct context *c, enum rwk_element e)
{
    for (uint32_t n = 0; n < 70; n++) {
        size_t size = rwk_element_bytes(e);
        struct buffer src = buffer_open(n * size, 1, 0), dst = buffer_open(n * sizeof(float), 4, 0),
                      back = buffer_open(n * size, 2, 0);
        random_elements(c, e, src.p, NULL, n);
        c->k->widen[e]((float *)dst.p, src.p, n);
        c->k->narrow[e](back.p, (float *)dst.p, n);
        claim(c, buffer_intact(&dst) && buffer_intact(&back), "%s of %u stays inside",
              element_name(e), n);
        claim(c, memcmp(back.p, src.p, n * size) == 0, "%s of %u comes back", element_name(e), n);
        buffer_close(&src);
        buffer_close(&dst);
        buffer_close(&back);
    }
}

static void check_pages(struct context *c, enum rwk_element e, uint32_t head_dim)
{
    size_t stride = rwk_kv_value_stride(head_dim);
    struct buffer k = buffer_aligned(rwk_kv_key_bytes(e, head_dim)),
                  v = buffer_aligned(rwk_kv_value_bytes(e, head_dim));
    float *x = malloc(head_dim * sizeof *x);
    uint32_t slot = random_below(c, RWK_KEY_BLOCK);
    random_elements(c, RWK_ELEMENT_F32, x, NULL, head_dim);
    for (uint32_t d = 0; d < head_dim; d++) /* to what the type can hold */
        x[d] = (float)element_value(e, &(union {
                                        float f;
                                        uint16_t h;
                                    }) { .f = x[d] },
                                    0);
    for (uint32_t d = 0; d < head_dim; d++)
        x[d] = isfinite(x[d]) ? x[d] : 1;
    c->k->put_key[e](k.p, slot, x, head_dim);
    c->k->put_value[e](v.p, slot, x, head_dim);
    bool right = true;
    for (uint32_t d = 0; d < head_dim; d++)
        right = right && (float)element_value(e, k.p, d * RWK_KEY_BLOCK + slot) == x[d] &&
                (float)element_value(e, v.p, slot * stride + d) == x[d];
    for (size_t d = head_dim; d < stride; d++)
        right = right && element_value(e, v.p, slot * stride + d) == 0;
    for (size_t i = 0; i < k.size / rwk_element_bytes(e); i++)
        right = right && (i % RWK_KEY_BLOCK == slot || k.p[i * rwk_element_bytes(e)] == 0xa5);
    claim(c, right && buffer_intact(&k) && buffer_intact(&v),
          "put %s [%u] fills its slot and no other", element_name(e), head_dim);
    free(x);
    buffer_close(&k);
    buffer_close(&v);
}

/* Half a step of 127, and some roundoffs of the scale and the product with it. */
static void check_quantized_pages(struct context *c, uint32_t head_dim)
{
    struct buffer k = buffer_aligned(rwk_kv_key_bytes(RWK_ELEMENT_Q8, head_dim));
    struct buffer v = buffer_aligned(rwk_kv_value_bytes(RWK_ELEMENT_Q8, head_dim));
    float *x = malloc(head_dim * sizeof *x);
    bool right = true, tainted = true;
    for (uint32_t slot = 0; slot < RWK_KEY_BLOCK; slot++) {
        random_floats(c, x, head_dim, 1);
        c->k->put_key[RWK_ELEMENT_Q8](k.p, slot, x, head_dim);
        c->k->put_value[RWK_ELEMENT_Q8](v.p, slot, x, head_dim);
        for (uint32_t d = 0; d < head_dim; d++) {
            double top = 0;
            for (uint32_t i = d / RWK_KV_BLOCK * RWK_KV_BLOCK;
                 i < head_dim && i < (d / RWK_KV_BLOCK + 1) * RWK_KV_BLOCK; i++)
                top = fmax(top, fabs((double)x[i]));
            for (int value = 0; value < 2; value++)
                right = right && fabs(kv_value_q8(value ? v.p : k.p, value, head_dim, slot, d) -
                                      (double)x[d]) <= top * (0.5 / 127 + 4 * ROUNDOFF);
        }
    }
    x[head_dim - 1] = NAN;
    c->k->put_key[RWK_ELEMENT_Q8](k.p, 3, x, head_dim);
    c->k->put_value[RWK_ELEMENT_Q8](v.p, 3, x, head_dim);
    for (int value = 0; value < 2; value++)
        tainted =
            tainted && isnan(kv_value_q8(value ? v.p : k.p, value, head_dim, 3, head_dim - 1));
    claim(c, right && buffer_intact(&k) && buffer_intact(&v), "put q8 [%u] is near", head_dim);
    claim(c, tainted, "put q8 [%u] keeps what is not a number", head_dim);
    free(x);
    buffer_close(&k);
    buffer_close(&v);
}

void check_convert(struct context *c)
{
    static const uint32_t head_dims[] = { 1, 13, 20, 64, 80, 96, 128, 129 };
    for (size_t i = 0; i < COUNT(head_dims); i++)
        check_quantized_pages(c, head_dims[i]);
    for (enum rwk_element e = RWK_ELEMENT_F32; e <= RWK_ELEMENT_BF16; e++) {
        check_lengths(c, e);
        for (size_t i = 0; i < COUNT(head_dims); i++)
            check_pages(c, e, head_dims[i]);
        if (e == RWK_ELEMENT_F32)
            continue;
        check_widen(c, e);
        check_narrow(c, e);
    }
}
