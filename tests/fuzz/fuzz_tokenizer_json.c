/* Any bytes as tokenizer.json. */
#include "tokenizer_use.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_prepare();
    fuzz_write("tokenizer.json", data, size);
    fuzz_open(fuzz_path("tokenizer.json"));
    return 0;
}
