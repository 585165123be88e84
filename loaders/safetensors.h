/* The safetensors format, strictly.
 *
 *   offset  size  what
 *   0       8     N, little-endian: bytes of the header; 0 < N <= 100,000,000 and 8 + N <= file
 * size 8       N     JSON object: name -> {"dtype", "shape", "data_offsets": [begin, end]}, and
 * "__metadata__" -> {string: string}; starts with '{', may be padded with white space 8 + N   rest
 * data; offsets count from here
 *
 * Invariants after a successful open:
 *   1. the tensors' ranges, sorted, tile [0, file size - 8 - N) exactly: no hole, no overlap,
 * nothing left over;
 *   2. end - begin == product(shape) * size of dtype for every tensor, computed without overflow;
 *   3. names are unique and valid UTF-8 (they may hold NUL only if JSON escapes put it there:
 * refused). Data may lie at any alignment. */
#ifndef RWK_LOADERS_SAFETENSORS_H
#define RWK_LOADERS_SAFETENSORS_H

#include "loaders/file.h"

struct rwk_tensor {
    const char *name; /* NUL-terminated */
    uint32_t name_size;
    enum rwk_dtype dtype;
    uint32_t n_dims;
    const uint64_t *shape; /* [n_dims] */
    const void *data;      /* into the file */
    uint64_t n_bytes;
    const struct rwk_file *file;
};

/* Bits of one element: 32 for F32. 0 for OTHER, which stands for several, and for unknown values.
 */
uint32_t rwk_dtype_bits(enum rwk_dtype dtype);

/* Parses an opened file. *ret_tensors: in the arena, in the order of their data; NULL when
 * there are none. */
enum rwk_status rwk_safetensors_parse(struct rwk_tensor **ret_tensors, size_t *ret_count,
                                      const struct rwk_file *file, struct rwk_arena *arena,
                                      struct rwk_error *error);

#endif
