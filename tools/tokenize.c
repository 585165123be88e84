/* text -> ids, and back: the commands `tokenize` and `detokenize`. Whole inputs at once, or JSON
 * lines one by one; a line's result is written before the next line is read, so the program can
 * serve another one through pipes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "commands.h"
#include "ids.h"
#include "load.h"
#include "output.h"
#include "tool.h"

/* A growing piece of text. */
struct text {
    char *bytes;
    size_t size, capacity;
};

/* The second argument, or standard input. *ret_owned is to be freed. */
static const char *input_of(const struct options *o, size_t *ret_size, char **ret_owned)
{
    *ret_owned = NULL;
    if (o->n_arguments > 1) {
        *ret_size = strlen(o->arguments[1]);
        return o->arguments[1];
    }
    *ret_owned = read_whole(NULL, ret_size);
    return *ret_owned;
}

typedef void (*line_fn)(void *context, const char *line, size_t size, const char *where);

/* Calls fn for every line of standard input that is not blank; `where` names it in messages. */
static void each_line(const struct options *o, line_fn fn, void *context)
{
    char *line = NULL, where[48];
    size_t capacity = 0, number = 0;
    ssize_t size;
    if (o->n_arguments > 1)
        usage_error(NULL, "--jsonl: reads standard input, so '%s' is one argument too many",
                    o->arguments[1]);
    while ((size = getline(&line, &capacity, stdin)) >= 0) {
        while (size && (line[size - 1] == '\n' || line[size - 1] == '\r'))
            size--;
        snprintf(where, sizeof where, "standard input, line %zu", ++number);
        if (size) {
            fn(context, line, (size_t)size, where);
            out_flush();
        }
    }
    if (ferror(stdin))
        die("standard input: cannot be read");
    free(line);
}

/* ---- tokenize ---- */

struct tokenize {
    struct rwk_tokenizer *tokenizer;
    uint32_t flags;
    struct ids ids;
    struct text text;
};

static void tokenize_line(void *context, const char *line, size_t size, const char *where)
{
    struct tokenize *t = context;
    struct rwk_error error = ERROR_INIT;
    struct json json = { 0 };
    size_t consumed = 0;
    reserve(&t->text.bytes, &t->text.capacity, size + 1, 1); /* decoding never grows a literal */
    enum rwk_status status = rwk_json_string_decode(line, size, t->text.bytes, t->text.capacity,
                                                    &t->text.size, &consumed, &error);
    if (status)
        die("%s: %s", where, error.message);
    if (consumed != size)
        die("%s: more than one JSON string", where);
    encode(&t->ids, NULL, t->tokenizer, t->text.bytes, t->text.size, t->flags);
    json_ids(&json, NULL, t->ids.items, t->ids.n);
}

static void print_ids(const struct ids *ids)
{
    for (size_t i = 0; i < ids->n; i++)
        out_print("%s%u", i ? " " : "", ids->items[i]);
    out_write("\n", 1);
}

/* id, bytes [begin, end) of the text, the piece as the vocabulary spells it (as a JSON string, so
 * that blanks show). */
static void print_pieces(const struct tokenize *t, const struct rwk_span *spans)
{
    out_print("%8s %8s %8s  %s\n", "id", "begin", "end", "piece");
    for (size_t i = 0; i < t->ids.n; i++) {
        struct rwk_piece piece = { 0 };
        struct json json = { .depth = 1 };
        check(rwk_tokenizer_piece(t->tokenizer, t->ids.items[i], &piece), NULL);
        out_print("%8u %8llu %8llu  ", t->ids.items[i], (unsigned long long)spans[i].begin,
                  (unsigned long long)spans[i].end);
        json_text(&json, NULL, piece.text, piece.size);
        out_print("%s\n", piece.special ? " special" : piece.added ? " added" : "");
    }
}

int run_tokenize(const struct options *o)
{
    struct tokenize t = { .flags = (o->no_special ? 0 : RWK_ENCODE_ADD_SPECIAL) |
                                   (o->plain_special ? RWK_ENCODE_PLAIN_SPECIAL : 0) };
    struct rwk_span *spans = NULL;
    char *owned = NULL;
    size_t size;
    if (o->jsonl && o->pieces)
        usage_error("tokenize", "--pieces: not together with --jsonl");
    t.tokenizer = tokenizer_open(o->arguments[0]);
    if (o->jsonl) {
        each_line(o, tokenize_line, &t);
    } else {
        const char *text = input_of(o, &size, &owned);
        encode(&t.ids, o->pieces ? &spans : NULL, t.tokenizer, text, size, t.flags);
        if (o->pieces)
            print_pieces(&t, spans);
        else
            print_ids(&t.ids);
    }
    free(owned);
    free(spans);
    free(t.text.bytes);
    ids_finish(&t.ids);
    rwk_tokenizer_close(&t.tokenizer);
    return EXIT_DONE;
}

/* ---- detokenize ---- */

struct detokenize {
    struct rwk_tokenizer *tokenizer;
    uint32_t flags;
    struct ids ids;
    struct text text;
};

static void decode(struct detokenize *d, const char *list, size_t size, const char *where)
{
    struct rwk_error error = ERROR_INIT;
    ids_parse(&d->ids, list, size, where);
    for (int pass = 0; pass < 2; pass++) {
        enum rwk_status status =
            rwk_tokenizer_decode(d->tokenizer, d->ids.items, d->ids.n, d->flags, d->text.bytes,
                                 d->text.capacity, &d->text.size, &error);
        if (status)
            die("%s: %s", where, error.message);
        if (d->text.size <= d->text.capacity)
            break;
        reserve(&d->text.bytes, &d->text.capacity, d->text.size, 1);
    }
}

static void detokenize_line(void *context, const char *line, size_t size, const char *where)
{
    struct detokenize *d = context;
    struct json json = { .depth = 1 };
    decode(d, line, size, where);
    json_text(&json, NULL, d->text.bytes, d->text.size);
    out_write("\n", 1);
}

int run_detokenize(const struct options *o)
{
    struct detokenize d = { .flags = o->no_special ? RWK_DECODE_SKIP_SPECIAL : 0 };
    char *owned = NULL;
    size_t size;
    d.tokenizer = tokenizer_open(o->arguments[0]);
    if (o->jsonl) {
        each_line(o, detokenize_line, &d);
    } else {
        const char *list = input_of(o, &size, &owned);
        decode(&d, list, size, owned ? "standard input" : "IDS");
        out_write(d.text.bytes, d.text.size);
        if (out_is_terminal())
            out_write("\n", 1);
    }
    free(owned);
    free(d.text.bytes);
    ids_finish(&d.ids);
    rwk_tokenizer_close(&d.tokenizer);
    return EXIT_DONE;
}
