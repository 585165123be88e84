/* Any bytes as a SentencePiece model. */
#include "tokenizer_use.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_prepare();
    fuzz_write("tokenizer.model", data, size);
    fuzz_open(fuzz_path("tokenizer.model"));
    return 0;
}
