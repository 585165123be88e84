/* Growing buffers, and text with what input it stands for. */
#include "loaders/tokenizer/internal.h"

bool rwk_buffer_reserve(struct rwk_buffer *b, size_t more)
{
    size_t needed;
    if (b->failed || !rwk_size_add(b->size, more, &needed))
        return !(b->failed = true);
    if (needed <= b->capacity)
        return true;
    size_t capacity = needed > SIZE_MAX / 2 ? needed : needed + needed / 2 + 64;
    char *data = rwk_alloc(b->memory, capacity);
    if (!data)
        return !(b->failed = true);
    if (b->size)
        memcpy(data, b->data, b->size);
    rwk_free(b->memory, b->data);
    b->data = data;
    b->capacity = capacity;
    return true;
}

void rwk_buffer_finish(struct rwk_buffer *b)
{
    if (b->memory)
        rwk_free(b->memory, b->data);
    b->data = NULL;
    b->size = b->capacity = 0;
}

void rwk_text_init(struct rwk_text *t, struct rwk_memory *memory, bool with_spans)
{
    *t = (struct rwk_text) { .data = "",
                             .with_spans = with_spans,
                             .own_bytes = { .memory = memory },
                             .own_spans = { .memory = memory } };
}

void rwk_text_finish(struct rwk_text *t)
{
    rwk_buffer_finish(&t->own_bytes);
    rwk_buffer_finish(&t->own_spans);
}

bool rwk_text_ready(struct rwk_text *t)
{
    t->data = t->own_bytes.data ? t->own_bytes.data : "";
    t->size = t->own_bytes.size;
    t->spans = t->with_spans ? (const struct rwk_span *)(const void *)t->own_spans.data : NULL;
    return !t->own_bytes.failed && !t->own_spans.failed;
}

struct rwk_text rwk_text_slice(const struct rwk_text *t, size_t begin, size_t end)
{
    return (struct rwk_text) { .data = t->data + begin,
                               .size = end - begin,
                               .spans = t->spans ? t->spans + begin : NULL,
                               .base = t->base + begin,
                               .with_spans = t->with_spans };
}

struct rwk_span rwk_text_span(const struct rwk_text *t, size_t begin, size_t end)
{
    if (!t->spans)
        return (struct rwk_span) { t->base + begin, t->base + end };
    if (begin < end)
        return (struct rwk_span) { t->spans[begin].begin, t->spans[end - 1].end };
    uint64_t at = begin < t->size ? t->spans[begin].begin : begin ? t->spans[begin - 1].end : 0;
    return (struct rwk_span) { at, at };
}

void rwk_text_put(struct rwk_text *to, const char *bytes, size_t size, struct rwk_span span)
{
    rwk_buffer_append(&to->own_bytes, bytes, size);
    for (size_t i = 0; to->with_spans && i < size; i++)
        rwk_buffer_append(&to->own_spans, &span, sizeof span);
}

void rwk_text_copy(struct rwk_text *to, const struct rwk_text *from, size_t begin, size_t end)
{
    rwk_buffer_append(&to->own_bytes, from->data + begin, end - begin);
    if (!to->with_spans)
        return;
    if (from->spans)
        rwk_buffer_append(&to->own_spans, from->spans + begin,
                          (end - begin) * sizeof(struct rwk_span));
    else if (rwk_buffer_reserve(&to->own_spans, (end - begin) * sizeof(struct rwk_span)))
        for (size_t i = begin; i < end; i++)
            rwk_buffer_append(&to->own_spans,
                              &(struct rwk_span) { from->base + i, from->base + i + 1 },
                              sizeof(struct rwk_span));
}
