/* Streaming: the text of a growing list of ids, in whole characters, cut before the first stop
 * text.
 *
 * A window of recent ids is decoded as a whole; what its text has more than the text of the
 * window's already shown part is new. It is shown once it can no longer change: not while it ends
 * in a replacement character or in a byte token. Ids that were shown stay in the window as context
 * (blanks, word marks) for a while. Stop texts: a tail that could begin one is held back. */
#include "loaders/tokenizer/internal.h"

struct stop {
    struct stop *next;
    size_t size;
    char text[];
};

struct rwk_stream {
    struct rwk_tokenizer *tokenizer;
    struct rwk_memory memory;
    uint32_t flags;
    struct rwk_buffer window; /* uint32_t; ids that decoding skips never enter it */
    size_t shown;             /* ids of the window whose text was given to `text` */
    size_t shown_bytes;       /* the size of the text that these decode to */
    struct rwk_buffer text;   /* decoded, not yet given out */
    size_t given;             /* bytes of `text` that the last call gave out */
    struct stop *stops;
    bool stopped;
};

/* Ids kept as context, at least and at most, and how many may wait. A run of byte tokens is text or
 * replacement characters as a whole, so it waits for its end: a thousand characters of four. */
enum { CONTEXT = 8, MOST_CONTEXT = 24, LONG_WINDOW = 4096 };

enum rwk_status rwk_stream_create(struct rwk_stream **ret_stream, struct rwk_tokenizer *tokenizer,
                                  uint32_t decode_flags, struct rwk_error *error)
{
    struct rwk_memory memory;
    rwk_memory_init(&memory, &tokenizer->memory.host, 0);
    struct rwk_stream *s = rwk_calloc(&memory, 1, sizeof *s);
    if (!s)
        return rwk_fail_nomem(error, sizeof *s);
    rwk_memory_init(&s->memory, &tokenizer->memory.host, 0);
    s->tokenizer = rwk_tokenizer_retain(tokenizer);
    s->flags = decode_flags;
    s->window.memory = s->text.memory = &s->memory;
    *ret_stream = s;
    return RWK_STATUS_OK;
}

void rwk_stream_close(struct rwk_stream **stream)
{
    struct rwk_stream *s = stream ? *stream : NULL;
    struct rwk_memory memory;
    if (!s)
        return;
    for (struct stop *stop = s->stops, *next; stop; stop = next) {
        next = stop->next;
        rwk_free(&s->memory, stop);
    }
    rwk_buffer_finish(&s->window);
    rwk_buffer_finish(&s->text);
    rwk_memory_init(&memory, &s->memory.host, 0);
    rwk_tokenizer_close(&s->tokenizer);
    rwk_free(&memory, s);
    *stream = NULL;
}

enum rwk_status rwk_stream_add_stop(struct rwk_stream *stream, const char *text, size_t size,
                                    struct rwk_error *error)
{
    if (size == 0)
        return rwk_fail_on(error, RWK_STATUS_RANGE, NULL, "stop",
                           "an empty stop text would stop everything");
    struct stop *stop = rwk_alloc(&stream->memory, sizeof *stop + size);
    if (!stop)
        return rwk_fail_nomem(error, size);
    stop->size = size;
    memcpy(stop->text, text, size);
    stop->next = stream->stops;
    stream->stops = stop;
    return RWK_STATUS_OK;
}

enum rwk_status rwk_stream_prime(struct rwk_stream *stream, const uint32_t *ids, size_t n_ids,
                                 struct rwk_error *error)
{
    size_t first = n_ids, size;
    stream->window.size = 0;
    for (size_t kept = 0; first > 0 && kept < CONTEXT; first--)
        kept += rwk_decode_text(stream->tokenizer, ids[first - 1], stream->flags, &size) != NULL;
    for (size_t i = first; i < n_ids; i++)
        if (rwk_decode_text(stream->tokenizer, ids[i], stream->flags, &size))
            rwk_buffer_append(&stream->window, &ids[i], sizeof *ids);
    stream->shown = stream->window.size / sizeof *ids;
    struct rwk_buffer text = { .memory = &stream->memory };
    enum rwk_status status =
        stream->window.failed
            ? rwk_fail_nomem(error, n_ids - first)
            : rwk_decode_append(stream->tokenizer,
                                (const uint32_t *)(const void *)stream->window.data, stream->shown,
                                stream->flags, &text, error);
    stream->shown_bytes = text.size;
    rwk_buffer_finish(&text);
    return status;
}

/* ---- stop texts ---- */

/* The first stop text's place in text, or SIZE_MAX. */
static size_t find_stop(const struct rwk_stream *s)
{
    size_t first = SIZE_MAX;
    for (const struct stop *stop = s->stops; stop; stop = stop->next) {
        const char *at =
            s->text.size ? memmem(s->text.data, s->text.size, stop->text, stop->size) : NULL;
        if (at && (size_t)(at - s->text.data) < first)
            first = (size_t)(at - s->text.data);
    }
    return first;
}

/* Bytes at the end of text that could begin a stop text. */
static size_t held_back(const struct rwk_stream *s)
{
    size_t held = 0;
    for (const struct stop *stop = s->stops; stop; stop = stop->next)
        for (size_t n = stop->size - 1 < s->text.size ? stop->size - 1 : s->text.size; n > held;
             n--)
            if (memcmp(s->text.data + s->text.size - n, stop->text, n) == 0)
                held = n;
    return held;
}

/* ---- decoding ---- */

static bool ends_open(const struct rwk_stream *s, const struct rwk_buffer *text)
{
    const uint32_t *ids = (const uint32_t *)(const void *)s->window.data;
    size_t n = s->window.size / sizeof *ids;
    if (n - s->shown > LONG_WINDOW)
        return false;
    if (n && s->tokenizer->decodes_bytes && s->tokenizer->entries[ids[n - 1]].byte)
        return true;
    return text->size >= 3 && memcmp(text->data + text->size - 3, "\xef\xbf\xbd", 3) == 0;
}

/* The window's ids are shown now. The older ones go, unless the rest would be no text at all: then
 * it would look like the beginning, where decoders drop blanks. */
static enum rwk_status move_on(struct rwk_stream *s, struct rwk_buffer *text,
                               struct rwk_error *error)
{
    uint32_t *ids = (uint32_t *)(void *)s->window.data;
    size_t n = s->window.size / sizeof *ids;
    s->shown = n;
    s->shown_bytes = text->size;
    if (n <= MOST_CONTEXT)
        return RWK_STATUS_OK;
    text->size = 0;
    enum rwk_status status =
        rwk_decode_append(s->tokenizer, ids + n - CONTEXT, CONTEXT, s->flags, text, error);
    if (status || (text->size == 0 && n <= LONG_WINDOW))
        return status;
    memmove(ids, ids + n - CONTEXT, CONTEXT * sizeof *ids);
    s->window.size = CONTEXT * sizeof *ids;
    s->shown = CONTEXT;
    s->shown_bytes = text->size;
    return RWK_STATUS_OK;
}

static enum rwk_status advance(struct rwk_stream *s, bool final, struct rwk_error *error)
{
    struct rwk_buffer text = { .memory = &s->memory };
    const uint32_t *ids = (const uint32_t *)(const void *)s->window.data;
    enum rwk_status status =
        rwk_decode_append(s->tokenizer, ids, s->window.size / sizeof *ids, s->flags, &text, error);
    if (!status && (final || !ends_open(s, &text)) && text.size >= s->shown_bytes) {
        size_t from = s->shown_bytes;
        while (from < text.size && ((unsigned char)text.data[from] & 0xc0) == 0x80)
            from++; /* some decoders change what was shown: whole characters even then */
        if (text.size > from)
            rwk_buffer_append(&s->text, text.data + from, text.size - from);
        status = s->text.failed ? rwk_fail_nomem(error, text.size) : move_on(s, &text, error);
    }
    rwk_buffer_finish(&text);
    return status;
}

/* Drops what the last call gave out. */
static void forget_given(struct rwk_stream *s)
{
    if (s->given)
        memmove(s->text.data, s->text.data + s->given, s->text.size - s->given);
    s->text.size -= s->given;
    s->given = 0;
}

static void give(struct rwk_stream *s, bool final, const char **ret_text, size_t *ret_size)
{
    size_t stop = find_stop(s);
    if (stop != SIZE_MAX) {
        s->stopped = true;
        s->text.size = s->given = stop;
    } else {
        s->given = s->text.size - (final ? 0 : held_back(s));
    }
    *ret_text = s->text.data ? s->text.data : "";
    *ret_size = s->given;
}

enum rwk_status rwk_stream_push(struct rwk_stream *stream, uint32_t id, const char **ret_text,
                                size_t *ret_size, int *ret_stopped, struct rwk_error *error)
{
    struct rwk_stream *s = stream;
    if (id >= s->tokenizer->n_entries || !s->tokenizer->entries[id].exists)
        return rwk_fail(error, RWK_STATUS_RANGE, NULL, "token id %u does not exist", id);
    forget_given(s);
    *ret_text = "";
    *ret_size = 0;
    size_t size;
    if (!s->stopped && rwk_decode_text(s->tokenizer, id, s->flags, &size)) {
        rwk_buffer_append(&s->window, &id, sizeof id);
        enum rwk_status status =
            s->window.failed ? rwk_fail_nomem(error, sizeof id) : advance(s, false, error);
        if (status)
            return status;
        give(s, false, ret_text, ret_size);
    }
    *ret_stopped = s->stopped;
    return RWK_STATUS_OK;
}

enum rwk_status rwk_stream_flush(struct rwk_stream *stream, const char **ret_text, size_t *ret_size,
                                 struct rwk_error *error)
{
    struct rwk_stream *s = stream;
    forget_given(s);
    *ret_text = "";
    *ret_size = 0;
    if (s->stopped)
        return RWK_STATUS_OK;
    enum rwk_status status = advance(s, true, error);
    if (!status)
        give(s, true, ret_text, ret_size);
    return status;
}
