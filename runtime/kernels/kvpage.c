/* See kvpage.h. */
#include "runtime/kernels/kvpage.h"

static size_t element_bytes(enum rwk_element element)
{
    return element == RWK_ELEMENT_Q8 ? 1 : rwk_element_bytes(element);
}

static size_t scale_bytes(enum rwk_element element, uint32_t head_dim)
{
    return element == RWK_ELEMENT_Q8 ? rwk_kv_blocks(head_dim) * RWK_KEY_BLOCK * sizeof(float) : 0;
}

size_t rwk_kv_key_bytes(enum rwk_element element, uint32_t head_dim)
{
    return (size_t)head_dim * RWK_KEY_BLOCK * element_bytes(element) +
           scale_bytes(element, head_dim);
}

size_t rwk_kv_value_bytes(enum rwk_element element, uint32_t head_dim)
{
    return RWK_KEY_BLOCK * rwk_kv_value_stride(head_dim) * element_bytes(element) +
           scale_bytes(element, head_dim);
}
