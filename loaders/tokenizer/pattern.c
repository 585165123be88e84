/* Patterns: written for Oniguruma, run by PCRE2 (UTF, Unicode properties, JIT).
 *
 * What the two read differently is translated:
 *   a set inside a set is a union ("[^(\s|[.,!?])]"), && an intersection; \s is White_Space; \w
 * also marks and joining punctuation, and \b lies between it and the rest; \h is a hexadecimal
 * digit; ^ and $ are ends of lines; (?m) lets the dot match line ends; [:punct:] holds symbols;
 * characters newer than PCRE2's Unicode belong to their categories. Literal text is searched with
 * memmem. Match limits make a pattern that runs away an error, not a hang. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdio.h>
#include "loaders/tokenizer/internal.h"

struct rwk_pattern {
    struct rwk_memory *memory;
    pcre2_general_context *general;
    pcre2_code *code;
    bool jit;
    char *literal;
    size_t literal_size;
};

static void *pcre_alloc(PCRE2_SIZE size, void *memory)
{
    return rwk_alloc(memory, size);
}
static void pcre_free(void *pointer, void *memory)
{
    rwk_free(memory, pointer);
}

/* ---- translation ---- */

struct translation {
    const char *s; /* [n] */
    size_t n, i;
    struct rwk_buffer out;
    bool old; /* PCRE2's Unicode is older than 16 */
    const char *file;
    struct rwk_error *error;
};

#define SPACES                                                                                     \
    "\\x09-\\x0d\\x20\\x85\\xa0\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}"   \
    "\\x{3000}"

static void put(struct translation *t, const char *text)
{
    rwk_buffer_append(&t->out, text, strlen(text));
}

/* The part of a set that a category, or a class of categories ("L"), is. */
static void put_category(struct translation *t, const char *name, size_t size)
{
    char text[64];
    snprintf(text, sizeof text, "\\p{%.*s}", (int)size, name);
    put(t, text);
    for (size_t i = 0; t->old && i < rwk_n_new_categories; i++) {
        const struct rwk_category_range *r = &rwk_new_categories[i];
        if (memcmp(r->category, name, size) != 0)
            continue;
        snprintf(text, sizeof text, "\\x{%x}-\\x{%x}", (unsigned)r->first, (unsigned)r->last);
        put(t, text);
    }
}

static void put_categories(struct translation *t, const char *const *names)
{
    for (; *names; names++)
        put_category(t, *names, strlen(*names));
}

/* \w; outside of a set it has some numbers of Latin-1 more, a quirk of Oniguruma. */
static void put_word(struct translation *t, bool in_set)
{
    put_categories(t, (const char *const[]) { "L", "M", "Nd", "Nl", "Pc", NULL });
    put(t, in_set ? "" : "\\xb2\\xb3\\xb9\\xbc-\\xbe");
    put(t, "\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}");
}

static enum rwk_status refuse(const struct translation *t, const char *what)
{
    return rwk_fail(t->error, RWK_STATUS_UNSUPPORTED, t->file,
                    "%s is not supported in a pattern (at byte %zu of it)", what, t->i);
}

/* The set that an escape stands for: [wdshp], negated for the capitals. Outside a set it becomes
 * one. */
static enum rwk_status put_class(struct translation *t, bool in_set)
{
    char c = t->s[t->i + 1], kind = (char)(c | 0x20);
    bool negated = c != kind;
    size_t begin = 0, end = 0;
    if (kind == 'p') { /* \p{Name}, \p{^Name} */
        const char *close =
            t->i + 2 < t->n && t->s[t->i + 2] == '{' ? memchr(t->s + t->i, '}', t->n - t->i) : NULL;
        if (!close)
            return refuse(t, "\\p without a name");
        begin = t->i + 3;
        end = (size_t)(close - t->s);
        if (begin < end && t->s[begin] == '^') {
            negated = !negated;
            begin++;
        }
        bool category = end - begin == 1 || end - begin == 2;
        if (!category || (in_set && negated)) {
            put(t, negated ? "\\P{" : "\\p{");
            rwk_buffer_append(&t->out, t->s + begin, end - begin);
            put(t, "}");
            t->i = end;
            return RWK_STATUS_OK;
        }
    }
    if (in_set && negated && kind != 's' && kind != 'd')
        return refuse(t, "\\W or \\H inside a set");
    if (in_set && negated) {
        put(t, kind == 'd'
                   ? "\\P{Nd}"
                   : "\\x{0}-\\x08\\x0e-\\x1f!-\\x84\\x86-\\x9f\\xa1-\\x{167f}\\x{1681}-\\x{1fff}"
                     "\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}"
                     "\\x{3001}-\\x{10ffff}");
        t->i++;
        return RWK_STATUS_OK;
    }
    if (!in_set)
        put(t, negated ? "[^" : "[");
    if (kind == 's')
        put(t, SPACES);
    else if (kind == 'd')
        put_category(t, "Nd", 2);
    else if (kind == 'h')
        put(t, "0-9A-Fa-f");
    else if (kind == 'w')
        put_word(t, in_set);
    else
        put_category(t, t->s + begin, end - begin);
    if (!in_set)
        put(t, "]");
    t->i = kind == 'p' ? end : t->i + 1;
    return RWK_STATUS_OK;
}

static enum rwk_status put_escape(struct translation *t, bool in_set)
{
    char c = t->s[t->i + 1];
    if (strchr("wWdDsShHpP", c))
        return put_class(t, in_set);
    if (!in_set && (c == 'b' || c == 'B')) {
        put(t, "(?:(?<=[");
        put_word(t, false);
        put(t, c == 'b' ? "])(?![" : "])(?=[");
        put_word(t, false);
        put(t, "])|(?<![");
        put_word(t, false);
        put(t, c == 'b' ? "])(?=[" : "])(?![");
        put_word(t, false);
        put(t, "]))");
    } else {
        rwk_buffer_append(&t->out, t->s + t->i, 2);
    }
    t->i++;
    return RWK_STATUS_OK;
}

/* [:name:] inside a set. */
static enum rwk_status put_posix(struct translation *t)
{
    static const struct {
        const char *name;
        const char *categories[6];
    } rows[] = { { "[:punct:]", { "P", "S" } },
                 { "[:digit:]", { "Nd" } },
                 { "[:upper:]", { "Lu" } },
                 { "[:cntrl:]", { "Cc" } } };
    size_t end = t->i + 2;
    while (end + 1 < t->n && !(t->s[end] == ':' && t->s[end + 1] == ']'))
        end++;
    if (end + 1 >= t->n)
        return refuse(t, "an unfinished [:name:]");
    size_t size = end + 2 - t->i;
    bool found = false;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && !found; i++)
        if ((found = strlen(rows[i].name) == size && memcmp(rows[i].name, t->s + t->i, size) == 0))
            put_categories(t, rows[i].categories);
    if (size == 9 && memcmp(t->s + t->i, "[:space:]", 9) == 0)
        put(t, SPACES);
    else if (!found)
        rwk_buffer_append(&t->out, t->s + t->i, size);
    t->i = end + 1;
    return RWK_STATUS_OK;
}

/* The index of the ] that closes the set at s[i], and of its top-level && (or SIZE_MAX); SIZE_MAX
 * if there is none. */
static size_t set_end(const struct translation *t, size_t i, size_t *ret_and)
{
    int depth = 0;
    *ret_and = SIZE_MAX;
    for (size_t k = i; k < t->n; k++) {
        char c = t->s[k];
        if (c == '\\') {
            k++;
        } else if (c == '[') {
            depth++;
            if (k + 1 < t->n && t->s[k + 1] == '^')
                k++;
            if (k + 1 < t->n && t->s[k + 1] == ']')
                k++;
        } else if (c == ']' && --depth == 0) {
            return k;
        } else if (c == '&' && depth == 1 && k + 1 < t->n && t->s[k + 1] == '&' &&
                   *ret_and == SIZE_MAX) {
            *ret_and = k;
        }
    }
    return SIZE_MAX;
}

/* What stands in a set from t->i to end; sets inside are unions. */
static enum rwk_status put_members(struct translation *t, size_t end)
{
    int depth = 0;
    enum rwk_status status = RWK_STATUS_OK;
    for (bool first = true; t->i < end && !status; t->i++, first = false) {
        char c = t->s[t->i];
        if (c == '\\' && t->i + 1 < end) {
            status = put_escape(t, true);
        } else if (c == '[' && t->i + 1 < end && t->s[t->i + 1] == ':') {
            status = put_posix(t);
        } else if (c == '[' && t->i + 1 < end && t->s[t->i + 1] == '^') {
            return refuse(t, "a negated set inside a set");
        } else if (c == '[') {
            depth++;
        } else if (c == ']' && depth > 0) {
            depth--;
        } else if (c == '&' && t->i + 1 < end && t->s[t->i + 1] == '&') {
            return refuse(t, "an intersection inside another set");
        } else if (c == ']') {
            put(t, "\\]"); /* a literal at the start */
        } else if (c == '^' && first) {
            put(t, "\\^");
        } else {
            rwk_buffer_append(&t->out, &c, 1);
        }
    }
    return status;
}

/* [a&&b] is (?=[b])[a]; each side may be a set by itself, also a negated one. */
static enum rwk_status put_side(struct translation *t, size_t begin, size_t end, bool ahead)
{
    size_t unused,
        close = begin < end && t->s[begin] == '[' ? set_end(t, begin, &unused) : SIZE_MAX;
    bool whole = close != SIZE_MAX && close + 1 == end;
    bool negated = whole && begin + 1 < end && t->s[begin + 1] == '^';
    put(t, ahead ? (negated ? "(?![" : "(?=[") : negated ? "[^" : "[");
    t->i = begin + (whole ? 1 + (size_t)negated : 0);
    enum rwk_status status = put_members(t, whole ? close : end);
    put(t, ahead ? "])" : "]");
    return status;
}

static enum rwk_status put_set(struct translation *t)
{
    size_t and, end = set_end(t, t->i, &and);
    bool negated = t->i + 1 < t->n && t->s[t->i + 1] == '^';
    enum rwk_status status;
    if (end == SIZE_MAX)
        return refuse(t, "an unfinished set");
    if (and == SIZE_MAX) {
        put(t, negated ? "[^" : "[");
        t->i += 1 + (size_t)negated;
        status = put_members(t, end);
        put(t, "]");
    } else if (negated) {
        return refuse(t, "a negated intersection");
    } else {
        size_t begin = t->i + 1;
        put(t, "(?:");
        status = put_side(t, and+2, end, true);
        if (!status)
            status = put_side(t, begin, and, false);
        put(t, ")");
    }
    t->i = end;
    return status;
}

static enum rwk_status translate(struct translation *t)
{
    enum rwk_status status = RWK_STATUS_OK;
    for (; t->i < t->n && !status; t->i++) {
        char c = t->s[t->i];
        if (c == '\\' && t->i + 1 < t->n) {
            status = put_escape(t, false);
        } else if (c == '[') {
            status = put_set(t);
        } else if (c == '(' && t->i + 2 < t->n && t->s[t->i + 1] == '?' &&
                   strchr("imx-", t->s[t->i + 2])) {
            /* Options: m is PCRE2's s. */
            for (; t->i < t->n && t->s[t->i] != ':' && t->s[t->i] != ')'; t->i++)
                rwk_buffer_append(&t->out, t->s[t->i] == 'm' ? "s" : t->s + t->i, 1);
            t->i--;
        } else {
            rwk_buffer_append(&t->out, &c, 1);
        }
    }
    return status ? status : t->out.failed ? rwk_fail_nomem(t->error, t->n) : RWK_STATUS_OK;
}

/* ---- compiling ---- */

static enum rwk_status compile(struct rwk_pattern *p, const char *source, size_t size,
                               const char *file, struct rwk_error *error)
{
    struct translation t = {
        .s = source, .n = size, .out = { .memory = p->memory }, .file = file, .error = error
    };
    char version[64] = "";
    int code = 0;
    PCRE2_SIZE at = 0;
    pcre2_config(PCRE2_CONFIG_UNICODE_VERSION, version);
    t.old = version[0] == '1' && version[1] < '6'; /* it has known Unicode 10 and later for long */
    enum rwk_status status = translate(&t);
    pcre2_compile_context *context = status ? NULL : pcre2_compile_context_create(p->general);
    if (!status && !context)
        status = rwk_fail_nomem(error, size);
    if (!status) {
        pcre2_set_max_pattern_length(context, 1 << 16);
        p->code = pcre2_compile((PCRE2_SPTR)(t.out.data ? t.out.data : ""), t.out.size,
                                PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK | PCRE2_MULTILINE, &code,
                                &at, context);
        if (!p->code && code == PCRE2_ERROR_HEAP_FAILED)
            status = rwk_fail_nomem(error, size);
        else if (!p->code)
            status = rwk_fail(error, RWK_STATUS_UNSUPPORTED, file,
                              "the pattern \"%.*s\" is not understood (error %d at %zu)",
                              (int)(size < 200 ? size : 200), source, code, (size_t)at);
        else
            p->jit = pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE) == 0;
    }
    pcre2_compile_context_free(context);
    rwk_buffer_finish(&t.out);
    return status;
}

enum rwk_status rwk_pattern_compile(struct rwk_pattern **ret, const char *source, size_t size,
                                    bool literal, struct rwk_memory *memory, const char *file,
                                    struct rwk_error *error)
{
    struct rwk_pattern *p = rwk_calloc(memory, 1, sizeof *p);
    enum rwk_status status = RWK_STATUS_OK;
    if (!p)
        return rwk_fail_nomem(error, sizeof *p);
    p->memory = memory;
    if (literal) {
        p->literal = rwk_alloc(memory, size + 1);
        p->literal_size = size;
        if (!p->literal)
            status = rwk_fail_nomem(error, size);
        else
            memcpy(p->literal, source, size);
    } else if (!(p->general = pcre2_general_context_create(pcre_alloc, pcre_free, memory))) {
        status = rwk_fail_nomem(error, 0);
    } else {
        status = compile(p, source, size, file, error);
    }
    if (status)
        rwk_pattern_free(p);
    else
        *ret = p;
    return status;
}

void rwk_pattern_free(struct rwk_pattern *p)
{
    if (!p)
        return;
    pcre2_code_free(p->code);
    pcre2_general_context_free(p->general);
    rwk_free(p->memory, p->literal);
    rwk_free(p->memory, p);
}

/* ---- matching ---- */

static void find_literal(const struct rwk_pattern *p, const char *text, size_t size,
                         struct rwk_buffer *matches)
{
    const char *at = text, *end = text + size;
    while (size && p->literal_size) {
        at = p->literal_size == 1 ? memchr(at, p->literal[0], (size_t)(end - at))
                                  : memmem(at, (size_t)(end - at), p->literal, p->literal_size);
        if (!at)
            break;
        struct rwk_slice s = { (size_t)(at - text), (size_t)(at - text) + p->literal_size };
        rwk_buffer_append(matches, &s, sizeof s);
        at += p->literal_size;
    }
}

static bool make(struct rwk_matcher *m)
{
    if (m->data)
        return true;
    if (!m->general)
        m->general = pcre2_general_context_create(pcre_alloc, pcre_free, m->memory);
    if (m->general && !m->context)
        m->context = pcre2_match_context_create(m->general);
    if (m->context)
        m->data = pcre2_match_data_create(1, m->general);
    if (!m->data)
        return false;
    pcre2_set_match_limit(m->context, 50000000);
    pcre2_set_heap_limit(m->context, 65536);
    return true;
}

void rwk_matcher_finish(struct rwk_matcher *m)
{
    pcre2_match_data_free(m->data);
    pcre2_match_context_free(m->context);
    pcre2_general_context_free(m->general);
}

enum rwk_status rwk_pattern_matches(const struct rwk_pattern *p, struct rwk_matcher *m,
                                    const char *text, size_t size, struct rwk_buffer *matches,
                                    struct rwk_error *error)
{
    if (p->literal) {
        find_literal(p, text, size, matches);
        return matches->failed ? rwk_fail_nomem(error, size) : RWK_STATUS_OK;
    }
    if (!make(m))
        return rwk_fail_nomem(error, size);
    const PCRE2_SIZE *v = pcre2_get_ovector_pointer(m->data);
    size_t last_end = SIZE_MAX;
    for (size_t at = 0; at <= size;) {
        int n = p->jit ? pcre2_jit_match(p->code, (PCRE2_SPTR)text, size, at, PCRE2_NO_UTF_CHECK,
                                         m->data, m->context)
                       : pcre2_match(p->code, (PCRE2_SPTR)text, size, at, PCRE2_NO_UTF_CHECK,
                                     m->data, m->context);
        if (n == PCRE2_ERROR_JIT_STACKLIMIT)
            n = pcre2_match(p->code, (PCRE2_SPTR)text, size, at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                            m->data, m->context);
        if (n == PCRE2_ERROR_NOMATCH)
            break;
        if (n == PCRE2_ERROR_NOMEMORY)
            return rwk_fail_nomem(error, size);
        if (n < 0)
            return rwk_fail(error, RWK_STATUS_UNSUPPORTED, NULL,
                            "a pattern of the tokenizer gave up on the text (PCRE2 "
                            "error %d)",
                            n);
        struct rwk_slice s = { v[0], v[1] };
        bool empty = s.end <= s.begin;
        if (!empty || s.end != last_end) { /* none that is empty right behind another one */
            rwk_buffer_append(matches, &s, sizeof s);
            last_end = s.end;
        }
        uint32_t code;
        at = !empty ? s.end : s.end < size ? s.end + rwk_utf8_next(text + s.end, &code) : size + 1;
    }
    return matches->failed ? rwk_fail_nomem(error, size) : RWK_STATUS_OK;
}
