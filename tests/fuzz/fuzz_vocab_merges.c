/* Any bytes as vocab.json and merges.txt: the first NUL byte parts the two. */
#include "tokenizer_use.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
    size_t first = nul ? (size_t)(nul - data) : size;
    fuzz_prepare();
    fuzz_write("vocab.json", data, first);
    fuzz_write("merges.txt", nul ? (const void *)(nul + 1) : "", nul ? size - first - 1 : 0);
    fuzz_open(fuzz_directory);
    return 0;
}
