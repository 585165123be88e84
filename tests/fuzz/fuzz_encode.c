/* Any bytes as text, and as ids, for the tokenizers of the tests and for one that has many steps.
 * The first byte chooses. */
#include "tokenizer_use.h"

static const char many_steps[] =
    "{\"version\":\"1.0\",\"added_tokens\":[{\"id\":9,\"content\":\"<s>\",\"special\":true,"
    "\"lstrip\":true,\"rstrip\":true},"
    "{\"id\":10,\"content\":\"ab\",\"single_word\":true,\"normalized\":true}],\"normalizer\":{"
    "\"type\":\"Sequence\",\"normalizers\":["
    "{\"type\":\"NFKC\"},{\"type\":\"Lowercase\"},{\"type\":\"Nmt\"},{\"type\":\"StripAccents\"},{"
    "\"type\":\"Replace\",\"pattern\":"
    "{\"Regex\":\"\\\\s+|$\"},\"content\":\" "
    "\"},{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":false}]},"
    "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"UnicodeScripts\"},{"
    "\"type\":\"Punctuation\",\"behavior\":"
    "\"MergedWithNext\"},{\"type\":\"Digits\",\"individual_digits\":false},{\"type\":\"Metaspace\","
    "\"replacement\":\"_\","
    "\"prepend_scheme\":\"first\"},{\"type\":\"ByteLevel\",\"add_prefix_space\":true}]},\"post_"
    "processor\":{\"type\":\"ByteLevel\"},"
    "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"ByteLevel\"},{\"type\":\"CTC\","
    "\"pad_token\":\"a\","
    "\"word_delimiter_token\":\"b\"}]},\"model\":{\"type\":\"BPE\",\"unk_token\":\"u\",\"fuse_"
    "unk\":true,\"vocab\":{\"a\":0,\"b\":1,"
    "\"c\":2,\"ab\":3,\"abc\":4,\"u\":5,\"_\":6,\"_a\":7,\"aa\":8},\"merges\":[[\"a\",\"b\"],["
    "\"ab\",\"c\"],[\"_\",\"a\"],[\"a\",\"a\"]]}}";

static const char *const names[] = { "bloom-style", "unigram-metaspace", "spm-bpe-small",
                                     "spm-unigram-small" };
enum { N_NAMES = sizeof names / sizeof *names };

static struct rwk_tokenizer *tokenizers[N_NAMES + 1];

static void close_all(void)
{
    for (int i = 0; i <= N_NAMES; i++)
        rwk_tokenizer_close(&tokenizers[i]);
}

static void open_all(void)
{
    if (tokenizers[0])
        return;
    fuzz_prepare();
    for (int i = 0; i < N_NAMES; i++) {
        char path[512];
        snprintf(path, sizeof path, RWK_TEST_DATA "/tokenizers/%s", names[i]);
        REQUIRE(rwk_tokenizer_open(&tokenizers[i], path, NULL, NULL) == RWK_STATUS_OK);
    }
    fuzz_write("tokenizer.json", many_steps, sizeof many_steps - 1);
    REQUIRE(rwk_tokenizer_open(&tokenizers[N_NAMES], fuzz_path("tokenizer.json"), NULL, NULL) ==
            RWK_STATUS_OK);
    REQUIRE(atexit(close_all) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    open_all();
    if (size == 0)
        return 0;
    struct rwk_tokenizer *t = tokenizers[data[0] % (N_NAMES + 1)];
    use_text(t, (const char *)data + 1, size - 1, data[0] / (N_NAMES + 1) % 4);
    uint32_t ids[64];
    size_t n = 0, n_text;
    for (size_t i = 1; i + 1 < size && n < 64; i += 2)
        ids[n++] = ((uint32_t)data[i] << 8 | data[i + 1]) % rwk_tokenizer_n_tokens(t);
    rwk_tokenizer_decode(t, ids, n, RWK_DECODE_SKIP_SPECIAL, NULL, 0, &n_text, NULL);
    use_stream(t, ids, n);
    return 0;
}
