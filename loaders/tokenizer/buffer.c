/* Growing buffers, text with offsets, UTF-8 one character at a time, tries. */
#include "loaders/tokenizer/internal.h"

#include <string.h>

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

void rwk_buffer_append(struct rwk_buffer *b, const void *data, size_t size)
{
    if (size == 0 || !rwk_buffer_reserve(b, size))
        return;
    memcpy(b->data + b->size, data, size);
    b->size += size;
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
    *t = (struct rwk_text){ .bytes = { .memory = memory }, .spans = { .memory = memory }, .with_spans = with_spans };
}

void rwk_text_finish(struct rwk_text *t)
{
    rwk_buffer_finish(&t->bytes);
    rwk_buffer_finish(&t->spans);
}

void rwk_text_clear(struct rwk_text *t) { t->bytes.size = t->spans.size = 0; }

bool rwk_text_failed(const struct rwk_text *t) { return t->bytes.failed || t->spans.failed; }

void rwk_text_put(struct rwk_text *to, const char *bytes, size_t size, const struct rwk_text *from, size_t begin, size_t end)
{
    rwk_buffer_append(&to->bytes, bytes, size);
    if (!to->with_spans || !rwk_buffer_reserve(&to->spans, size * sizeof(struct rwk_span)))
        return;
    const struct rwk_span *spans = (const struct rwk_span *)from->spans.data;
    size_t n = from->spans.size / sizeof *spans;
    struct rwk_span span = { 0, 0 };
    if (begin < end)
        span = (struct rwk_span){ spans[begin].begin, spans[end - 1].end };
    else if (n)
        span.begin = span.end = begin < n ? spans[begin].begin : spans[n - 1].end;
    for (size_t i = 0; i < size; i++)
        rwk_buffer_append(&to->spans, &span, sizeof span);
}

void rwk_text_copy(struct rwk_text *to, const struct rwk_text *from, size_t begin, size_t end)
{
    rwk_buffer_append(&to->bytes, from->bytes.data + begin, end - begin);
    if (to->with_spans)
        rwk_buffer_append(&to->spans, from->spans.data + begin * sizeof(struct rwk_span),
                          (end - begin) * sizeof(struct rwk_span));
}

/* ---- UTF-8 ---- */

size_t rwk_utf8_valid(const char *text, size_t left, bool *ret_incomplete)
{
    const unsigned char *p = (const unsigned char *)text;
    unsigned char c = left ? p[0] : 0xff;
    size_t n = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;
    *ret_incomplete = false;
    for (size_t i = 1; i < n; i++) {
        if (i >= left) {
            *ret_incomplete = true;
            return 0;
        }
        unsigned char low = i == 1 ? (c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80) : 0x80;
        unsigned char high = i == 1 ? (c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf) : 0xbf;
        if (p[i] < low || p[i] > high)
            return 0;
    }
    return n;
}

size_t rwk_utf8_next(const char *text, const char *end, uint32_t *ret_code)
{
    const unsigned char *p = (const unsigned char *)text;
    size_t left = (size_t)(end - text);
    if (p[0] < 0x80 || left < 2)
        return *ret_code = p[0], 1;
    if (p[0] < 0xe0 || left < 3)
        return *ret_code = (uint32_t)(p[0] & 0x1f) << 6 | (p[1] & 0x3f), 2;
    if (p[0] < 0xf0 || left < 4)
        return *ret_code = (uint32_t)(p[0] & 0x0f) << 12 | (uint32_t)(p[1] & 0x3f) << 6 | (p[2] & 0x3f), 3;
    *ret_code = (uint32_t)(p[0] & 7) << 18 | (uint32_t)(p[1] & 0x3f) << 12 | (uint32_t)(p[2] & 0x3f) << 6 | (p[3] & 0x3f);
    return 4;
}

size_t rwk_utf8_put(char *p, uint32_t c)
{
    if (c < 0x80)
        return p[0] = (char)c, 1;
    if (c < 0x800)
        return p[0] = (char)(0xc0 | c >> 6), p[1] = (char)(0x80 | (c & 0x3f)), 2;
    if (c < 0x10000)
        return p[0] = (char)(0xe0 | c >> 12), p[1] = (char)(0x80 | (c >> 6 & 0x3f)), p[2] = (char)(0x80 | (c & 0x3f)), 3;
    return p[0] = (char)(0xf0 | c >> 18), p[1] = (char)(0x80 | (c >> 12 & 0x3f)), p[2] = (char)(0x80 | (c >> 6 & 0x3f)),
           p[3] = (char)(0x80 | (c & 0x3f)), 4;
}

/* ---- tries ---- */

bool rwk_trie_insert(struct rwk_trie *trie, const char *text, size_t size, uint32_t value)
{
    uint32_t node = 0;
    if (trie->nodes.size == 0) /* index 0 means none */
        rwk_buffer_append(&trie->nodes, &(struct rwk_trie_node){ 0 }, sizeof(struct rwk_trie_node));
    for (size_t i = 0; i < size; i++) {
        unsigned char byte = (unsigned char)text[i];
        uint32_t child = rwk_trie_step(trie, node, byte);
        if (!child) {
            child = (uint32_t)(trie->nodes.size / sizeof(struct rwk_trie_node));
            struct rwk_trie_node *nodes = (struct rwk_trie_node *)trie->nodes.data;
            struct rwk_trie_node fresh = { .byte = byte, .next = node ? nodes[node].first_child : 0 };
            rwk_buffer_append(&trie->nodes, &fresh, sizeof fresh);
            if (trie->nodes.failed)
                return false;
            nodes = (struct rwk_trie_node *)trie->nodes.data;
            if (node)
                nodes[node].first_child = child;
            else
                trie->root[byte] = child;
        }
        node = child;
    }
    if (trie->nodes.failed)
        return false;
    if (node && !((struct rwk_trie_node *)trie->nodes.data)[node].value)
        ((struct rwk_trie_node *)trie->nodes.data)[node].value = value;
    return true;
}
