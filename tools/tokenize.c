/* tokenize and detokenize: one text, or a JSON value a line. */
#include "tool.h"

#include <stdlib.h>
#include <string.h>

static struct rwk_tokenizer *open_tokenizer(const char *path)
{
    struct rwk_error error = { .size = sizeof error };
    struct rwk_tokenizer *t = NULL;
    if (rwk_tokenizer_open(&t, path, NULL, &error))
        fail_error(&error);
    return t;
}

static void print_ids(const uint32_t *ids, size_t n, const char *separator)
{
    for (size_t i = 0; i < n; i++)
        printf("%s%u", i ? separator : "", ids[i]);
}

static int print_pieces(struct rwk_tokenizer *t, const char *text, size_t size, uint32_t flags)
{
    struct rwk_error error = { .size = sizeof error };
    size_t capacity = size + 16, n = 0;
    uint32_t *ids = malloc(capacity * sizeof *ids);
    struct rwk_span *spans = malloc(capacity * sizeof *spans);
    int status = EXIT_DONE;
    if (!ids || !spans)
        status = fail("out of memory");
    else if (rwk_tokenizer_encode(t, text, size, flags, ids, capacity, spans, &n, &error))
        status = fail_error(&error);
    for (size_t i = 0; i < n && !status; i++) {
        struct rwk_piece piece = { 0 };
        rwk_tokenizer_piece(t, ids[i], &piece);
        printf("%8u  %6llu..%-6llu ", ids[i], (unsigned long long)spans[i].begin, (unsigned long long)spans[i].end);
        print_json_string(stdout, piece.text, piece.size);
        puts(piece.special ? "  special" : "");
    }
    free(ids);
    free(spans);
    return status;
}

static int tokenize_text(struct rwk_tokenizer *t, const struct options *o, const char *text, size_t size)
{
    uint32_t *ids = NULL, flags = o->no_special ? 0 : RWK_ENCODE_ADD_SPECIAL;
    size_t n = 0;
    if (o->pieces)
        return print_pieces(t, text, size, flags);
    int status = encode_text(t, text, size, flags, &ids, &n);
    if (status)
        return status;
    if (o->jsonl)
        putchar('[');
    print_ids(ids, n, o->jsonl ? ", " : " ");
    puts(o->jsonl ? "]" : "");
    free(ids);
    return EXIT_DONE;
}

static int tokenize_line(struct rwk_tokenizer *t, const struct options *o, const char *line, size_t size)
{
    struct rwk_error error = { .size = sizeof error };
    char *text = malloc(size + 1);
    size_t n = 0, used = 0;
    int status;
    if (!text)
        return fail("out of memory");
    if (rwk_json_string_decode(line, size, text, size, &n, &used, &error))
        status = fail_error(&error);
    else
        status = tokenize_text(t, o, text, n);
    free(text);
    return status;
}

static int detokenize_ids(struct rwk_tokenizer *t, const struct options *o, const char *text, size_t size)
{
    struct rwk_error error = { .size = sizeof error };
    uint32_t *ids = NULL, flags = o->no_special ? RWK_DECODE_SKIP_SPECIAL : 0;
    size_t n_ids = 0, n = 0;
    char *out = NULL;
    int status = parse_ids(text, size, &ids, &n_ids);
    if (!status && rwk_tokenizer_decode(t, ids, n_ids, flags, NULL, 0, &n, &error))
        status = fail_error(&error);
    if (!status && !(out = malloc(n + 1)))
        status = fail("out of memory");
    if (!status && rwk_tokenizer_decode(t, ids, n_ids, flags, out, n, &n, &error))
        status = fail_error(&error);
    if (!status && o->jsonl) {
        print_json_string(stdout, out, n);
        putchar('\n');
    } else if (!status) {
        fwrite(out, 1, n, stdout);
        putchar('\n');
    }
    free(out);
    free(ids);
    return status;
}

typedef int (*text_fn)(struct rwk_tokenizer *t, const struct options *o, const char *text, size_t size);

static int each_line(struct rwk_tokenizer *t, const struct options *o, const char *data, size_t size, text_fn fn)
{
    int status = EXIT_DONE;
    for (size_t at = 0; at < size && !status;) {
        const char *end = memchr(data + at, '\n', size - at);
        size_t n = end ? (size_t)(end - data) - at : size - at;
        if (n)
            status = fn(t, o, data + at, n);
        at += n + 1;
    }
    return status;
}

static int run(const struct options *o, text_fn whole, text_fn line)
{
    struct rwk_tokenizer *t = open_tokenizer(o->arguments[0]);
    char *data = NULL;
    size_t size = 0;
    int status = t ? EXIT_DONE : EXIT_FAILED;
    if (!status && o->n_arguments > 1)
        status = (o->jsonl ? line : whole)(t, o, o->arguments[1], strlen(o->arguments[1]));
    else if (!status && !(status = read_whole("-", &data, &size)))
        status = o->jsonl ? each_line(t, o, data, size, line) : whole(t, o, data, size);
    free(data);
    rwk_tokenizer_close(&t);
    return status;
}

int run_tokenize(const struct options *o) { return run(o, tokenize_text, tokenize_line); }

int run_detokenize(const struct options *o) { return run(o, detokenize_ids, detokenize_ids); }
