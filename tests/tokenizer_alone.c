/* The tokenizer without the runtime: this program is linked with libropewalk-tokenizer only.
 * Encodes a text, decodes and streams the ids, and expects the text back. */
#include <ropewalk/ropewalk.h>
#include <stdio.h>
#include <string.h>

static const char text[] = "The rope is laid, strand by strand.";

static int stream_gives_text(struct rwk_tokenizer *tokenizer, const uint32_t *ids, size_t n)
{
    struct rwk_stream *stream = NULL;
    char got[256] = "";
    const char *part;
    size_t size;
    int stopped, good = rwk_stream_create(&stream, tokenizer, 0, NULL) == RWK_STATUS_OK;
    for (size_t i = 0; good && i < n; i++) {
        good = rwk_stream_push(stream, ids[i], &part, &size, &stopped, NULL) == RWK_STATUS_OK;
        strncat(got, part, good ? size : 0);
    }
    good = good && rwk_stream_flush(stream, &part, &size, NULL) == RWK_STATUS_OK;
    strncat(got, part, good ? size : 0);
    rwk_stream_close(&stream);
    return good && strcmp(got, text) == 0;
}

int main(int argc, char **argv)
{
    struct rwk_tokenizer *tokenizer = NULL;
    struct rwk_error error = { .size = sizeof error };
    uint32_t ids[256];
    char back[256];
    size_t n = 0, size = 0;
    enum rwk_status status = rwk_tokenizer_open(&tokenizer, argc > 1 ? argv[1] : ".", NULL, &error);
    if (!status)
        status = rwk_tokenizer_encode(tokenizer, text, strlen(text), 0, ids, 256, NULL, &n, &error);
    if (!status)
        status = rwk_tokenizer_decode(tokenizer, ids, n, 0, back, sizeof back, &size, &error);
    if (status) {
        fprintf(stderr, "%s: %s\n", rwk_status_name(status), error.message);
        return 1;
    }
    int good = n > 0 && size == strlen(text) && memcmp(back, text, size) == 0 &&
               stream_gives_text(tokenizer, ids, n);
    rwk_tokenizer_close(&tokenizer);
    return !good;
}
