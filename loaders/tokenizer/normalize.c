/* Normalizing steps: text -> text. */
#include "loaders/tokenizer/internal.h"

#include <string.h>
#include <utf8proc.h>

static bool is_mark(uint32_t c) { return utf8proc_category((utf8proc_int32_t)c) == UTF8PROC_CATEGORY_MN; }

static bool is_ascii(const struct rwk_text *t)
{
    for (size_t i = 0; i < t->bytes.size; i++)
        if ((unsigned char)t->bytes.data[i] >= 0x80)
            return false;
    return true;
}

/* NFC and its kin over the whole text; where anything changes, offsets are those of the whole. */
static enum rwk_status unicode(const struct rwk_step *step, const struct rwk_text *from, struct rwk_text *to,
                               struct rwk_error *error)
{
    if (is_ascii(from)) {
        rwk_text_copy(to, from, 0, from->bytes.size);
        return RWK_STATUS_OK;
    }
    utf8proc_option_t options = (utf8proc_option_t)step->option;
    const utf8proc_uint8_t *in = (const utf8proc_uint8_t *)from->bytes.data;
    utf8proc_ssize_t n = utf8proc_decompose(in, (utf8proc_ssize_t)from->bytes.size, NULL, 0, options);
    struct rwk_buffer codes = { .memory = to->bytes.memory };
    if (n < 0)
        return rwk_fail(error, RWK_STATUS_FORMAT, NULL, "the text cannot be normalized");
    if (!rwk_buffer_reserve(&codes, ((size_t)n + 1) * sizeof(utf8proc_int32_t)))
        return rwk_fail_nomem(error, (size_t)n * sizeof(utf8proc_int32_t));
    utf8proc_int32_t *c = (utf8proc_int32_t *)codes.data;
    n = utf8proc_decompose(in, (utf8proc_ssize_t)from->bytes.size, c, n, options);
    n = n < 0 ? n : utf8proc_normalize_utf32(c, n, options);
    struct rwk_buffer out = { .memory = to->bytes.memory };
    for (utf8proc_ssize_t i = 0; i < n; i++) {
        char text[4];
        rwk_buffer_append(&out, text, rwk_utf8_put(text, (uint32_t)c[i]));
    }
    if (out.size == from->bytes.size && memcmp(out.data, from->bytes.data, out.size) == 0)
        rwk_text_copy(to, from, 0, from->bytes.size);
    else
        rwk_text_put(to, out.data, out.size, from, 0, from->bytes.size);
    to->bytes.failed |= out.failed;
    rwk_buffer_finish(&out);
    rwk_buffer_finish(&codes);
    return RWK_STATUS_OK;
}

static enum rwk_status replace(const struct rwk_step *step, const struct rwk_text *from, struct rwk_text *to,
                               struct rwk_error *error)
{
    struct rwk_buffer matches = { .memory = to->bytes.memory };
    enum rwk_status status = rwk_pattern_matches(step->pattern, from->bytes.data, from->bytes.size, &matches, error);
    const struct rwk_slice *m = (const struct rwk_slice *)matches.data;
    size_t at = 0;
    for (size_t i = 0; !status && i < matches.size / sizeof *m; i++) {
        rwk_text_copy(to, from, at, m[i].begin);
        rwk_text_put(to, step->content, step->content_size, from, m[i].begin, m[i].end);
        at = m[i].end;
    }
    if (!status)
        rwk_text_copy(to, from, at, from->bytes.size);
    rwk_buffer_finish(&matches);
    return status;
}

/* Walks the characters; `map` gives what each becomes (size SIZE_MAX: itself). */
typedef size_t (*char_map_fn)(uint32_t code, char out[16]);

static void map_chars(const struct rwk_text *from, struct rwk_text *to, char_map_fn map)
{
    const char *text = from->bytes.data, *end = text + from->bytes.size;
    for (const char *p = text; p < end;) {
        uint32_t code;
        char out[16];
        size_t n = rwk_utf8_next(p, end, &code), at = (size_t)(p - text), size = map(code, out);
        if (size == SIZE_MAX)
            rwk_text_copy(to, from, at, at + n);
        else
            rwk_text_put(to, out, size, from, at, at + n);
        p += n;
    }
}

static size_t lower(uint32_t code, char out[16])
{
    if (code == 0x130) { /* the one character whose lower case is two */
        memcpy(out, "i\xcc\x87", 3);
        return 3;
    }
    return rwk_utf8_put(out, (uint32_t)utf8proc_tolower((utf8proc_int32_t)code));
}

static size_t drop_marks(uint32_t code, char out[16])
{
    (void)out;
    return is_mark(code) ? 0 : SIZE_MAX;
}

static size_t nmt(uint32_t c, char out[16])
{
    if ((c >= 1 && c <= 8) || c == 0xb || (c >= 0xe && c <= 0x1f) || c == 0x7f || c == 0x8f || c == 0x9f)
        return 0;
    if (c == 9 || c == 10 || c == 12 || c == 13 || c == 0x1680 || (c >= 0x200b && c <= 0x200f) || c == 0x2028 ||
        c == 0x2029 || c == 0x2581 || c == 0xfeff || c == 0xfffd)
        return out[0] = ' ', 1;
    return SIZE_MAX;
}

static size_t bert_clean(uint32_t c, char out[16])
{
    if (c == 0 || c == 0xfffd)
        return 0;
    if (rwk_is_space(c))
        return out[0] = ' ', 1;
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);
    return category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_CO ||
           category == UTF8PROC_CATEGORY_CN ? 0 : SIZE_MAX;
}

static size_t bert_chinese(uint32_t c, char out[16])
{
    bool han = (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x20000 && c <= 0x2a6df) ||
               (c >= 0x2a700 && c <= 0x2ceaf) || (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
    if (!han)
        return SIZE_MAX;
    out[0] = ' ';
    size_t n = rwk_utf8_put(out + 1, c);
    out[1 + n] = ' ';
    return n + 2;
}

static size_t byte_level(const struct rwk_text *from, struct rwk_text *to)
{
    for (size_t i = 0; i < from->bytes.size; i++) {
        char out[4];
        rwk_text_put(to, out, rwk_utf8_put(out, rwk_byte_to_code[(unsigned char)from->bytes.data[i]]), from, i, i + 1);
    }
    return from->bytes.size;
}

static void strip(const struct rwk_step *step, const struct rwk_text *from, struct rwk_text *to)
{
    const char *text = from->bytes.data;
    size_t begin = 0, end = from->bytes.size;
    uint32_t code;
    while (step->option & 1 && begin < end) {
        size_t n = rwk_utf8_next(text + begin, text + end, &code);
        if (!rwk_is_space(code))
            break;
        begin += n;
    }
    while (step->option & 2 && end > begin) {
        size_t at = end - 1;
        while (at > begin && ((unsigned char)text[at] & 0xc0) == 0x80)
            at--;
        rwk_utf8_next(text + at, text + end, &code);
        if (!rwk_is_space(code))
            break;
        end = at;
    }
    rwk_text_copy(to, from, begin, end);
}

/* SentencePiece's remove_extra_whitespaces. */
static void squeeze(const struct rwk_text *from, struct rwk_text *to)
{
    bool pending = false;
    size_t blank = 0;
    for (size_t i = 0; i < from->bytes.size; i++) {
        if (from->bytes.data[i] == ' ') {
            if (!pending)
                blank = i;
            pending = true;
            continue;
        }
        if (pending && to->bytes.size)
            rwk_text_copy(to, from, blank, blank + 1);
        pending = false;
        rwk_text_copy(to, from, i, i + 1);
    }
}

/* ---- SentencePiece's charsmap: a little-endian length, a double-array trie, then NUL-terminated replacements ---- */

static uint32_t unit_at(const char *trie, size_t index)
{
    const unsigned char *p = (const unsigned char *)trie + 4 * index;
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* The longest prefix of text[0..size) in the trie; its replacement's offset, or -1. */
static int64_t longest_prefix(const char *trie, size_t n_units, const char *text, size_t size, size_t *ret_size)
{
    int64_t found = -1;
    size_t node = 0;
    if (n_units == 0)
        return -1;
    uint32_t unit = unit_at(trie, 0);
    node ^= (unit >> 10) << ((unit & 1u << 9) >> 6);
    for (size_t i = 0; i < size; i++) {
        node ^= (unsigned char)text[i];
        if (text[i] == '\0' || node >= n_units)
            break;
        unit = unit_at(trie, node);
        if ((unit & (1u << 31 | 0xff)) != (unsigned char)text[i])
            break;
        node ^= (unit >> 10) << ((unit & 1u << 9) >> 6);
        if (unit >> 8 & 1) {
            if (node >= n_units)
                break;
            found = unit_at(trie, node) & 0x7fffffff;
            *ret_size = i + 1;
        }
    }
    return found;
}

static void charsmap(const struct rwk_step *step, const struct rwk_text *from, struct rwk_text *to)
{
    size_t trie_bytes = unit_at(step->content, 0), at = 0;
    const char *trie = step->content + 4, *replacements = trie + trie_bytes;
    size_t replacements_size = step->content_size - 4 - trie_bytes;
    while (at < from->bytes.size) {
        size_t n = 0;
        int64_t offset = longest_prefix(trie, trie_bytes / 4, from->bytes.data + at, from->bytes.size - at, &n);
        if (offset >= 0 && (uint64_t)offset < replacements_size) {
            size_t left = replacements_size - (size_t)offset;
            rwk_text_put(to, replacements + offset, strnlen(replacements + offset, left), from, at, at + n);
        } else {
            uint32_t code;
            n = rwk_utf8_next(from->bytes.data + at, from->bytes.data + from->bytes.size, &code);
            rwk_text_copy(to, from, at, at + n);
        }
        at += n;
    }
}

enum rwk_status rwk_normalize_step(const struct rwk_step *step, const struct rwk_text *from, struct rwk_text *to,
                                   struct rwk_error *error)
{
    enum rwk_status status = RWK_STATUS_OK;
    switch (step->kind) {
    case RWK_STEP_UNICODE: status = unicode(step, from, to, error); break;
    case RWK_STEP_REPLACE: status = replace(step, from, to, error); break;
    case RWK_STEP_LOWER: map_chars(from, to, lower); break;
    case RWK_STEP_STRIP_ACCENTS: map_chars(from, to, drop_marks); break;
    case RWK_STEP_NMT: map_chars(from, to, nmt); break;
    case RWK_STEP_BERT_CLEAN: map_chars(from, to, bert_clean); break;
    case RWK_STEP_BERT_CHINESE: map_chars(from, to, bert_chinese); break;
    case RWK_STEP_MAP_BYTES: byte_level(from, to); break;
    case RWK_STEP_STRIP: strip(step, from, to); break;
    case RWK_STEP_SQUEEZE: squeeze(from, to); break;
    case RWK_STEP_CHARSMAP: charsmap(step, from, to); break;
    case RWK_STEP_PREPEND:
        if (from->bytes.size)
            rwk_text_put(to, step->content, step->content_size, from, 0, 0);
        rwk_text_copy(to, from, 0, from->bytes.size);
        break;
    default: rwk_text_copy(to, from, 0, from->bytes.size); break;
    }
    return status ? status : rwk_text_failed(to) ? rwk_fail_nomem(error, from->bytes.size) : RWK_STATUS_OK;
}

enum rwk_status rwk_normalize(const struct rwk_tokenizer *t, struct rwk_text *text, struct rwk_error *error)
{
    for (size_t i = 0; i < t->normalizer.n; i++) {
        struct rwk_text next;
        rwk_text_init(&next, text->bytes.memory, text->with_spans);
        enum rwk_status status = rwk_normalize_step(&t->normalizer.items[i], text, &next, error);
        rwk_text_finish(text);
        *text = next;
        if (status)
            return status;
    }
    return RWK_STATUS_OK;
}
