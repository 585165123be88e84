/* What every tokenizer that opens must do, whatever is in its files: encode with and without
 * offsets alike, decode what it encoded to valid UTF-8, and stream what it decodes. */
#ifndef RWK_FUZZ_TOKENIZER_USE_H
#define RWK_FUZZ_TOKENIZER_USE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <ropewalk/ropewalk.h>
#include "runtime/base/utf8.h"

#define REQUIRE(condition) ((condition) ? (void)0 : abort())

static inline void require_utf8(const char *text, size_t size)
{
    REQUIRE(rwk_utf8_all(text, size));
}

/* What the stream gives out together is the whole decoding where the decoder only ever appends;
 * always whole characters. */
static inline void use_stream(struct rwk_tokenizer *t, const uint32_t *ids, size_t n)
{
    struct rwk_stream *stream = NULL;
    const char *text;
    size_t size;
    int stopped;
    REQUIRE(rwk_stream_create(&stream, t, 0, NULL) == RWK_STATUS_OK);
    for (size_t i = 0; i < n && i < 64; i++)
        if (rwk_stream_push(stream, ids[i], &text, &size, &stopped, NULL) == RWK_STATUS_OK)
            require_utf8(text, size);
    if (rwk_stream_flush(stream, &text, &size, NULL) == RWK_STATUS_OK)
        require_utf8(text, size);
    rwk_stream_close(&stream);
}

static inline void use_text(struct rwk_tokenizer *t, const char *text, size_t size, uint32_t flags)
{
    struct rwk_error error = { .size = sizeof error };
    size_t n = 0, again = 0, n_text = 0;
    enum rwk_status status = rwk_tokenizer_encode(t, text, size, flags, NULL, 0, NULL, &n, &error);
    REQUIRE(status == RWK_STATUS_OK || error.message[0]);
    if (status)
        return;
    uint32_t *ids = malloc((n + 1) * sizeof *ids), *plain = malloc((n + 1) * sizeof *plain);
    struct rwk_span *spans = malloc((n + 1) * sizeof *spans);
    REQUIRE(ids && plain && spans);
    REQUIRE(rwk_tokenizer_encode(t, text, size, flags, plain, n, NULL, &again, NULL) ==
                RWK_STATUS_OK &&
            again == n);
    REQUIRE(rwk_tokenizer_encode(t, text, size, flags, ids, n, spans, &again, NULL) ==
                RWK_STATUS_OK &&
            again == n);
    REQUIRE(n == 0 || memcmp(ids, plain, n * sizeof *ids) == 0);
    for (size_t i = 0; i < n; i++)
        REQUIRE(ids[i] < rwk_tokenizer_n_tokens(t) && spans[i].begin <= spans[i].end &&
                spans[i].end <= size);
    if (rwk_tokenizer_decode(t, ids, n, 0, NULL, 0, &n_text, NULL) == RWK_STATUS_OK) {
        char *decoded = malloc(n_text + 1);
        REQUIRE(decoded &&
                rwk_tokenizer_decode(t, ids, n, 0, decoded, n_text, &again, NULL) == RWK_STATUS_OK);
        REQUIRE(again == n_text);
        require_utf8(decoded, n_text);
        free(decoded);
    }
    use_stream(t, ids, n);
    free(ids);
    free(plain);
    free(spans);
}

static inline void use_tokenizer(struct rwk_tokenizer *t)
{
    static const char *const texts[] = {
        "Hello world, don't panic: 3.14 <s> \n\n x  y",
        "e\xcc\x81\xc3\xa9\xef\xac\x81 \xed\x95\x9c\xe2\x96\x81 \xf0\x9f\x99\x82 \xff\xe2\x96",
        "ab ab abc\t##ing </s><unk> 1234567",
        "",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        use_text(t, texts[i], strlen(texts[i]),
                 i % 2 ? RWK_ENCODE_PLAIN_SPECIAL : RWK_ENCODE_ADD_SPECIAL);
    uint32_t n = rwk_tokenizer_n_tokens(t) < 300 ? rwk_tokenizer_n_tokens(t) : 300, ids[300];
    for (uint32_t i = 0; i < n; i++) {
        struct rwk_piece piece;
        ids[i] = i;
        if (rwk_tokenizer_piece(t, i, &piece) == RWK_STATUS_OK)
            rwk_tokenizer_find(t, piece.text, piece.size);
    }
    use_stream(t, ids, n);
}

/* ---- files for the readers ---- */

static char fuzz_directory[64];

static inline const char *fuzz_path(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", fuzz_directory, name);
    return path;
}

static inline void fuzz_write(const char *name, const void *data, size_t size)
{
    FILE *file = fopen(fuzz_path(name), "wb");
    REQUIRE(file && fwrite(data, 1, size, file) == size && fclose(file) == 0);
}

static inline void fuzz_clean_up(void)
{
    static const char *const names[] = { "tokenizer.json", "vocab.json", "merges.txt",
                                         "tokenizer.model" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        remove(fuzz_path(names[i]));
    rmdir(fuzz_directory);
}

static inline void fuzz_prepare(void)
{
    static int prepared;
    if (prepared++)
        return;
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(fuzz_directory, sizeof fuzz_directory, "%s/ropewalk-fuzz-XXXXXX", base);
    REQUIRE(mkdtemp(fuzz_directory) && atexit(fuzz_clean_up) == 0);
}

static inline void fuzz_open(const char *path)
{
    struct rwk_tokenizer *t = NULL;
    struct rwk_tokenizer_options options;
    struct rwk_error error = { .size = sizeof error };
    rwk_tokenizer_options_init(&options);
    options.memory_budget = 256 << 20;
    enum rwk_status status = rwk_tokenizer_open(&t, path, &options, &error);
    REQUIRE((status == RWK_STATUS_OK) == (t != NULL));
    if (status == RWK_STATUS_OK)
        use_tokenizer(t);
    else
        REQUIRE(error.message[0] && status == (enum rwk_status)error.status);
    rwk_tokenizer_close(&t);
}

#endif
