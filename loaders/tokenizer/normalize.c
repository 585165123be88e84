/* Normalizing steps: text -> text.
 *
 * What input a new character stands for follows the reference's bookkeeping. A step hands over
 * (character, change) in order: change 0 replaces the next old character, change -n replaces one
 * and drops the n after it, change +1 is inserted behind the one before. So a character composed of
 * two stands for the first of them, and inserted text for its neighbour. */
#include "loaders/tokenizer/internal.h"

#include <utf8proc.h>

struct transform {
    const struct rwk_text *from;
    struct rwk_text *to;
    size_t at; /* how far the old text is used up */
};

static size_t character_size(const struct rwk_text *t, size_t at)
{
    uint32_t code;
    return at < t->size ? rwk_utf8_next(t->data + at, &code) : 0;
}

static void put_char(struct transform *t, const char *bytes, size_t size, int change)
{
    size_t old = character_size(t->from, t->at);
    struct rwk_span span = { 0, 0 };
    if (t->to->with_spans) {
        if (change <= 0)
            span = rwk_text_span(t->from, t->at, t->at + old);
        else if (t->at > 0)
            span = rwk_text_span(t->from, rwk_utf8_back(t->from->data, t->at), t->at);
        else
            span.begin = span.end = rwk_text_span(t->from, 0, 0).begin;
    }
    rwk_text_put(t->to, bytes, size, span);
    for (int i = change; i <= 0; i++)
        t->at += character_size(t->from, t->at);
}

static void put_code(struct transform *t, uint32_t code, int change)
{
    char bytes[4];
    put_char(t, bytes, rwk_utf8_put(bytes, code), change);
}

/* ---- NFC, NFD, NFKC, NFKD ---- */

struct part {
    uint32_t code;
    int change;
    int class; /* canonical combining class */
};

static int class_of(uint32_t code)
{
    return utf8proc_get_property((utf8proc_int32_t)code)->combining_class;
}

/* Marks in the order of their classes, stable; starters stay where they are. */
static void order_marks(struct part *p, size_t n)
{
    for (size_t i = 1; i < n; i++)
        for (size_t k = i; k > 0 && p[k].class && p[k - 1].class > p[k].class; k--) {
            struct part swap = p[k];
            p[k] = p[k - 1];
            p[k - 1] = swap;
        }
}

/* The character that two make together, or 0. */
static uint32_t compose(uint32_t a, uint32_t b)
{
    utf8proc_int32_t pair[3] = { (utf8proc_int32_t)a, (utf8proc_int32_t)b, 0 };
    return utf8proc_normalize_utf32(pair, 2, UTF8PROC_STABLE | UTF8PROC_COMPOSE) == 1
               ? (uint32_t)pair[0]
               : 0;
}

/* Composes in place; the number that is left. */
static size_t compose_parts(struct part *p, size_t n)
{
    size_t out = 0, starter = SIZE_MAX;
    int last = -1; /* the class of the mark before, kept apart from the starter; -1: none */
    for (size_t i = 0; i < n; i++) {
        uint32_t both =
            starter != SIZE_MAX && last < p[i].class ? compose(p[starter].code, p[i].code) : 0;
        if (both) {
            p[starter].code = both;
            p[starter].change += p[i].change - 1;
            continue;
        }
        if (p[i].class == 0)
            starter = out;
        last = p[i].class == 0 ? -1 : p[i].class;
        p[out++] = p[i];
    }
    return out;
}

/* Marks on one character beyond these are normalized apart from it, which keeps time linear. */
enum { MAX_PARTS = 1024 };

static void normalize_run(struct transform *t, struct part *parts, size_t n, int options)
{
    order_marks(parts, n);
    if (options & UTF8PROC_COMPOSE)
        n = compose_parts(parts, n);
    for (size_t i = 0; i < n; i++)
        put_code(t, parts[i].code, parts[i].change);
}

/* Decomposes text[begin, end), which neither side of it interacts with, and composes it again. */
static void normalize_part(struct transform *t, size_t begin, size_t end, int options)
{
    struct part parts[MAX_PARTS];
    size_t n = 0;
    for (size_t at = begin; at < end;) {
        utf8proc_int32_t codes[32];
        uint32_t code;
        int bound = 0;
        at += rwk_utf8_next(t->from->data + at, &code);
        utf8proc_ssize_t k =
            utf8proc_decompose_char((utf8proc_int32_t)code, codes, 32,
                                    (utf8proc_option_t)(options | UTF8PROC_DECOMPOSE), &bound);
        if (k <= 0 || k > 32) {
            codes[0] = (utf8proc_int32_t)code;
            k = 1;
        }
        if (n + (size_t)k > MAX_PARTS) {
            normalize_run(t, parts, n, options);
            n = 0;
        }
        for (utf8proc_ssize_t i = 0; i < k; i++)
            parts[n++] = (struct part) { (uint32_t)codes[i], i > 0, class_of((uint32_t)codes[i]) };
    }
    normalize_run(t, parts, n, options);
}

/* Characters of class 0 that may compose with the one before, by themselves or by what they
 * decompose into. */
static const struct {
    uint32_t first, last;
} joining[] = {
    { 0x9be, 0x9be },     { 0x9d7, 0x9d7 },     { 0xb3e, 0xb3e },     { 0xb56, 0xb57 },
    { 0xbbe, 0xbbe },     { 0xbd7, 0xbd7 },     { 0xcc2, 0xcc2 },     { 0xcd5, 0xcd6 },
    { 0xd3e, 0xd3e },     { 0xd57, 0xd57 },     { 0xdcf, 0xdcf },     { 0xddf, 0xddf },
    { 0xf73, 0xf73 },     { 0xf75, 0xf75 },     { 0xf81, 0xf81 },     { 0x102e, 0x102e },
    { 0x1161, 0x1175 },   { 0x11a8, 0x11c2 },   { 0x1b35, 0x1b35 },   { 0x3131, 0x318e },
    { 0xff9e, 0xffdc },   { 0x11127, 0x11127 }, { 0x1133e, 0x1133e }, { 0x11357, 0x11357 },
    { 0x114b0, 0x114b0 }, { 0x114ba, 0x114ba }, { 0x114bd, 0x114bd }, { 0x115af, 0x115af },
    { 0x11930, 0x11930 },
};

static bool starts(uint32_t code)
{
    if (code < 0x300)
        return true;
    for (size_t i = 0; i < sizeof joining / sizeof *joining; i++)
        if (code >= joining[i].first && code <= joining[i].last)
            return false;
    return class_of(code) == 0;
}

/* Characters below it stay as they are in the form. */
static uint32_t stable_below(int options)
{
    return options & UTF8PROC_COMPAT ? 0xa0 : options & UTF8PROC_COMPOSE ? 0x300 : 0xc0;
}

static void unicode(const struct rwk_step *step, const struct rwk_text *from, struct rwk_text *to)
{
    const uint32_t stable = stable_below(step->option);
    struct transform t = { from, to, 0 };
    size_t done = 0,
           last = 0; /* output so far; where the last character that can be composed with begins */
    bool waiting = false; /* [done, at) is not stable */
    for (size_t at = 0; at < from->size;) {
        uint32_t code;
        size_t n = rwk_utf8_next(from->data + at, &code);
        bool start = starts(code);
        if (start && waiting) {
            normalize_part(&t, done, at, step->option);
            done = at;
            waiting = false;
        }
        if (!waiting && !(start && code < stable)) {
            size_t end = start ? at : last;
            rwk_text_copy(to, from, done, end);
            done = t.at = end;
            waiting = true;
        }
        last = at;
        at += n;
    }
    if (waiting)
        normalize_part(&t, done, from->size, step->option);
    else
        rwk_text_copy(to, from, done, from->size);
}

/* ---- one character at a time ---- */

static uint32_t lower_of(uint32_t code)
{
    return code < 0x80 ? code + (code >= 'A' && code <= 'Z' ? 32 : 0)
                       : (uint32_t)utf8proc_tolower((utf8proc_int32_t)code);
}

/* What a character becomes: how many of out[3]; SIZE_MAX: itself. */
typedef size_t (*char_map_fn)(uint32_t code, uint32_t out[3]);

static size_t lower(uint32_t code, uint32_t out[3])
{
    out[0] = lower_of(code);
    if (code == 0x130) /* the one character whose lower case is two */
        return out[0] = 'i', out[1] = 0x307, 2;
    return out[0] == code ? SIZE_MAX : 1;
}

static utf8proc_category_t category(uint32_t c)
{
    return utf8proc_category((utf8proc_int32_t)c);
}

static size_t drop_marks(uint32_t c, uint32_t out[3])
{
    (void)out;
    utf8proc_category_t k = category(c);
    return k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_MC || k == UTF8PROC_CATEGORY_ME
               ? 0
               : SIZE_MAX;
}

static size_t drop_nonspacing(uint32_t c, uint32_t out[3])
{
    (void)out;
    return category(c) == UTF8PROC_CATEGORY_MN ? 0 : SIZE_MAX;
}

static size_t nmt(uint32_t c, uint32_t out[3])
{
    if ((c >= 1 && c <= 8) || c == 0xb || (c >= 0xe && c <= 0x1f) || c == 0x7f || c == 0x8f ||
        c == 0x9f)
        return 0;
    out[0] = ' ';
    return c == 9 || c == 10 || c == 12 || c == 13 || c == 0x1680 || (c >= 0x200b && c <= 0x200f) ||
                   c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xfeff || c == 0xfffd
               ? 1
               : SIZE_MAX;
}

static size_t bert_clean(uint32_t c, uint32_t out[3])
{
    utf8proc_category_t k = category(c);
    out[0] = ' ';
    if (c == '\t' || c == '\n' || c == '\r')
        return 1;
    if (c == 0 || c == 0xfffd || k == UTF8PROC_CATEGORY_CC || k == UTF8PROC_CATEGORY_CF ||
        k == UTF8PROC_CATEGORY_CO)
        return 0;
    return rwk_is_space(c) ? 1 : SIZE_MAX;
}

static size_t bert_chinese(uint32_t c, uint32_t out[3])
{
    if (!((c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) ||
          (c >= 0x20000 && c <= 0x2a6df) || (c >= 0x2a700 && c <= 0x2b81f) ||
          (c >= 0x2b920 && c <= 0x2ceaf) || (c >= 0xf900 && c <= 0xfaff) ||
          (c >= 0x2f800 && c <= 0x2fa1f)))
        return SIZE_MAX;
    return out[0] = ' ', out[1] = c, out[2] = ' ', 3;
}

static void map_chars(const struct rwk_text *from, struct rwk_text *to, char_map_fn map)
{
    struct transform t = { from, to, 0 };
    for (size_t at = 0; at < from->size;) {
        uint32_t code, out[3];
        size_t n = rwk_utf8_next(from->data + at, &code), k = map(code, out);
        t.at = at;
        if (k == SIZE_MAX)
            rwk_text_copy(to, from, at, at + n);
        for (size_t i = 0; k != SIZE_MAX && i < k; i++)
            put_code(&t, out[i], i > 0);
        at += n;
    }
}

static void byte_level(const struct rwk_text *from, struct rwk_text *to)
{
    for (size_t i = 0; i < from->size; i++) {
        char out[4];
        rwk_text_put(to, out, rwk_utf8_put(out, rwk_byte_to_code[(unsigned char)from->data[i]]),
                     rwk_text_span(from, i, i + 1));
    }
}

/* ---- whole texts ---- */

/* Each match stands for its last character, as the reference has it. */
static enum rwk_status replace(const struct rwk_step *step, struct rwk_matcher *matcher,
                               const struct rwk_text *from, struct rwk_text *to,
                               struct rwk_error *error)
{
    struct rwk_buffer matches = { .memory = to->own_bytes.memory };
    enum rwk_status status =
        rwk_pattern_matches(step->pattern, matcher, from->data, from->size, &matches, error);
    const struct rwk_slice *m = (const struct rwk_slice *)(const void *)matches.data;
    size_t at = 0;
    for (size_t i = 0; !status && i < matches.size / sizeof *m; i++) {
        size_t last = m[i].end ? rwk_utf8_back(from->data, m[i].end) : 0;
        rwk_text_copy(to, from, at, m[i].begin);
        rwk_text_put(to, step->content, step->content_size, rwk_text_span(from, last, m[i].end));
        at = m[i].end;
    }
    if (!status)
        rwk_text_copy(to, from, at, from->size);
    rwk_buffer_finish(&matches);
    return status;
}

static void strip(const struct rwk_step *step, const struct rwk_text *from, struct rwk_text *to)
{
    size_t begin = 0, end = from->size;
    uint32_t code;
    while (step->option & 1 && begin < end) {
        size_t n = rwk_utf8_next(from->data + begin, &code);
        if (!rwk_is_space(code))
            break;
        begin += n;
    }
    while (step->option & 2 && end > begin) {
        size_t at = rwk_utf8_back(from->data, end);
        rwk_utf8_next(from->data + at, &code);
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
    for (size_t i = 0; i < from->size; i++) {
        if (from->data[i] == ' ') {
            blank = pending ? blank : i;
            pending = true;
            continue;
        }
        if (pending && to->own_bytes.size)
            rwk_text_copy(to, from, blank, blank + 1);
        pending = false;
        rwk_text_copy(to, from, i, i + 1);
    }
}

static void trim_end(const struct rwk_step *step, const struct rwk_text *from, struct rwk_text *to)
{
    size_t end = from->size, n = step->content_size;
    while (end >= n && memcmp(from->data + end - n, step->content, n) == 0)
        end -= n;
    rwk_text_copy(to, from, 0, end);
}

/* ---- SentencePiece's charsmap: a little-endian length, a double-array trie, then NUL-terminated
 * replacements ---- */

struct charsmap {
    const char *trie, *replacements;
    size_t n_units, size;
};

static uint32_t unit_at(const char *trie, size_t index)
{
    const unsigned char *p = (const unsigned char *)trie + 4 * index;
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static struct charsmap charsmap_of(const struct rwk_step *step)
{
    size_t bytes = unit_at(step->content, 0);
    return (struct charsmap) { step->content + 4, step->content + 4 + bytes, bytes / 4,
                               step->content_size - 4 - bytes };
}

/* The replacement of a prefix of text[0..size) that the trie holds, the longest or the shortest;
 * NULL if there is none. The map comes from a file: what would cut a character or put in a broken
 * one does not count. */
static const char *lookup(const struct charsmap *map, const char *text, size_t size, bool longest,
                          size_t *ret_used, size_t *ret_size)
{
    const char *found = NULL;
    size_t node = 0;
    if (map->n_units == 0)
        return NULL;
    uint32_t unit = unit_at(map->trie, 0);
    node ^= (unit >> 10) << ((unit & 1u << 9) >> 6);
    for (size_t i = 0; i < size && (longest || !found); i++) {
        node ^= (unsigned char)text[i];
        if (text[i] == '\0' || node >= map->n_units)
            break;
        unit = unit_at(map->trie, node);
        if ((unit & (1u << 31 | 0xff)) != (unsigned char)text[i])
            break;
        node ^= (unit >> 10) << ((unit & 1u << 9) >> 6);
        if (unit >> 8 & 1) {
            if (node >= map->n_units)
                break;
            size_t offset = unit_at(map->trie, node) & 0x7fffffff;
            size_t n =
                offset < map->size ? strnlen(map->replacements + offset, map->size - offset) : 0;
            bool whole = i + 1 == size || ((unsigned char)text[i + 1] & 0xc0) != 0x80;
            if (offset < map->size && whole && rwk_utf8_all(map->replacements + offset, n)) {
                found = map->replacements + offset;
                *ret_size = n;
                *ret_used = i + 1;
            }
        }
    }
    return found;
}

/* The longest prefix at each place; user-defined pieces (`kept`) stay as they are. */
static void charsmap(const struct rwk_step *step, const struct rwk_trie *kept,
                     const struct rwk_text *from, struct rwk_text *to)
{
    const struct charsmap map = charsmap_of(step);
    for (size_t at = 0, n = 0; at < from->size; at += n) {
        size_t size = 0;
        uint32_t node = 0;
        n = 0;
        for (size_t i = at;
             i < from->size && (node = rwk_trie_step(kept, node, (unsigned char)from->data[i]));
             i++)
            if (rwk_trie_value(kept, node) != RWK_TOKEN_NONE)
                n = i + 1 - at;
        const char *found =
            n ? NULL : lookup(&map, from->data + at, from->size - at, true, &n, &size);
        if (found) {
            rwk_text_put(to, found, size, rwk_text_span(from, at, at + n));
        } else {
            n = n ? n : character_size(from, at);
            rwk_text_copy(to, from, at, at + n);
        }
    }
}

/* Characters from the first on, as many new as old ones; the rest inserted or dropped at the end.
 */
static void put_replaced(struct transform *t, const char *text, size_t size, size_t n_old)
{
    size_t n_new = 0;
    for (size_t i = 0; i < size; i++)
        n_new += ((unsigned char)text[i] & 0xc0) != 0x80;
    if (n_new == 0) /* the one before drops these */
        for (size_t i = 0; i < n_old; i++)
            t->at += character_size(t->from, t->at);
    for (size_t at = 0, i = 0; at < size; i++) {
        uint32_t code;
        size_t n = rwk_utf8_next(text + at, &code);
        bool last = i + 1 == n_new;
        put_char(t, text + at, n,
                 i >= n_old              ? 1
                 : last && n_old > n_new ? (int)n_new - (int)n_old
                                         : 0);
        at += n;
    }
}

static bool replace_part(struct transform *t, const struct charsmap *map, size_t begin, size_t end)
{
    size_t used, size = 0, n_old = 0;
    const char *found = lookup(map, t->from->data + begin, end - begin, false, &used, &size);
    for (size_t i = begin; i < end; i++)
        n_old += ((unsigned char)t->from->data[i] & 0xc0) != 0x80;
    if (found)
        put_replaced(t, found, size, n_old);
    return found != NULL;
}

/* Graphemes of fewer than 6 bytes whose beginning is in the map are replaced whole, by its shortest
 * entry; other graphemes one character at a time. (The reference differs from SentencePiece here.)
 */
static void precompiled(const struct rwk_step *step, const struct rwk_text *from,
                        struct rwk_text *to)
{
    const struct charsmap map = charsmap_of(step);
    struct transform t = { from, to, 0 };
    for (size_t at = 0, end; at < from->size; at = end) {
        uint32_t code, next;
        utf8proc_int32_t state = 0;
        end = at + rwk_utf8_next(from->data + at, &code);
        while (end < from->size) {
            size_t n = rwk_utf8_next(from->data + end, &next);
            if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)code, (utf8proc_int32_t)next,
                                                 &state))
                break;
            code = next;
            end += n;
        }
        if (end - at < 6 && replace_part(&t, &map, at, end))
            continue;
        for (size_t i = at, n; i < end; i += n) {
            n = rwk_utf8_next(from->data + i, &code);
            if (!replace_part(&t, &map, i, i + n))
                put_char(&t, from->data + i, n, 0);
        }
    }
}

/* ---- the steps ---- */

static bool changes_nothing(const struct rwk_step *step, const struct rwk_text *text)
{
    switch (step->kind) {
    case RWK_STEP_UNICODE:
    case RWK_STEP_STRIP_ACCENTS:
    case RWK_STEP_STRIP_NONSPACING:
    case RWK_STEP_BERT_CHINESE:
        return rwk_ascii_length(text->data, text->size) == text->size;
    case RWK_STEP_PREPEND:
        return text->size == 0 && !step->option;
    default:
        return text->size == 0;
    }
}

static enum rwk_status run_step(const struct rwk_tokenizer *tokenizer, const struct rwk_step *step,
                                struct rwk_matcher *matcher, const struct rwk_text *from,
                                struct rwk_text *to, struct rwk_error *error)
{
    switch (step->kind) {
    case RWK_STEP_UNICODE:
        unicode(step, from, to);
        break;
    case RWK_STEP_REPLACE:
        return replace(step, matcher, from, to, error);
    case RWK_STEP_LOWER:
        map_chars(from, to, lower);
        break;
    case RWK_STEP_STRIP_ACCENTS:
        map_chars(from, to, drop_marks);
        break;
    case RWK_STEP_STRIP_NONSPACING:
        map_chars(from, to, drop_nonspacing);
        break;
    case RWK_STEP_NMT:
        map_chars(from, to, nmt);
        break;
    case RWK_STEP_BERT_CLEAN:
        map_chars(from, to, bert_clean);
        break;
    case RWK_STEP_BERT_CHINESE:
        map_chars(from, to, bert_chinese);
        break;
    case RWK_STEP_MAP_BYTES:
        byte_level(from, to);
        break;
    case RWK_STEP_STRIP:
        strip(step, from, to);
        break;
    case RWK_STEP_SQUEEZE:
        squeeze(from, to);
        break;
    case RWK_STEP_TRIM_END:
        trim_end(step, from, to);
        break;
    case RWK_STEP_CHARSMAP:
        charsmap(step, &tokenizer->normalized_trie, from, to);
        break;
    case RWK_STEP_PRECOMPILED:
        precompiled(step, from, to);
        break;
    case RWK_STEP_PREPEND:
        rwk_text_put(to, step->content, step->content_size,
                     rwk_text_span(from, 0, character_size(from, 0)));
        rwk_text_copy(to, from, 0, from->size);
        break;
    default:
        rwk_text_copy(to, from, 0, from->size);
        break;
    }
    return RWK_STATUS_OK;
}

enum rwk_status rwk_normalize(const struct rwk_tokenizer *t, struct rwk_matcher *matcher,
                              struct rwk_memory *memory, struct rwk_text *text,
                              struct rwk_error *error)
{
    for (size_t i = 0; i < t->normalizer.n; i++) {
        const struct rwk_step *step = &t->normalizer.items[i];
        struct rwk_text next;
        if (changes_nothing(step, text))
            continue;
        rwk_text_init(&next, memory, text->with_spans);
        rwk_buffer_reserve(&next.own_bytes, text->size);
        enum rwk_status status = run_step(t, step, matcher, text, &next, error);
        if (!status && !rwk_text_ready(&next))
            status = rwk_fail_nomem(error, text->size);
        rwk_text_finish(text);
        *text = next;
        if (status)
            return status;
    }
    return RWK_STATUS_OK;
}
