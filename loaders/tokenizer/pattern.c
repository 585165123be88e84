/* Patterns: written for Oniguruma, run by PCRE2 (UTF, Unicode properties, JIT).
 *
 * Differences that are translated: a set inside a set is a union (BLOOM's " ?[^(\s|[.,!?])]+"); \s is White_Space without
 * U+180E. Literal text is searched with memmem. Match limits make a pattern that runs away an error, not a hang. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>
#include "loaders/tokenizer/internal.h"

struct rwk_pattern {
    struct rwk_memory *memory;
    pcre2_general_context *general;
    pcre2_code *code;
    bool jit;
    char *literal;
    size_t literal_size;
};

static void *pcre_alloc(PCRE2_SIZE size, void *memory) { return rwk_alloc(memory, size); }
static void pcre_free(void *pointer, void *memory) { rwk_free(memory, pointer); }

#define SPACES "\\x09-\\x0d\\x20\\x85\\xa0\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"

static void put(struct rwk_buffer *out, const char *text) { rwk_buffer_append(out, text, strlen(text)); }

static enum rwk_status translate(const char *s, size_t n, struct rwk_buffer *out, const char *file, struct rwk_error *error)
{
    int depth = 0;
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '\\' && i + 1 < n) {
            if (s[i + 1] == 's')
                put(out, depth ? SPACES : "[" SPACES "]");
            else if (s[i + 1] == 'S' && !depth)
                put(out, "[^" SPACES "]");
            else
                rwk_buffer_append(out, s + i, 2);
            i++;
        } else if (s[i] == '[' && depth == 0) {
            depth = 1;
            rwk_buffer_append(out, s + i, 1);
            if (i + 1 < n && s[i + 1] == '^')
                rwk_buffer_append(out, s + ++i, 1);
            if (i + 1 < n && s[i + 1] == ']') { /* a literal at the start */
                put(out, "\\]");
                i++;
            }
        } else if (s[i] == '[' && i + 1 < n && s[i + 1] == ':') {
            size_t end = i + 2;
            while (end + 1 < n && !(s[end] == ':' && s[end + 1] == ']'))
                end++;
            rwk_buffer_append(out, s + i, (end + 2 < n ? end + 2 : n) - i);
            i = end + 1;
        } else if (s[i] == '[') {
            depth++;
            if (i + 1 < n && s[i + 1] == '^')
                return rwk_fail(error, RWK_STATUS_UNSUPPORTED, file, "a negated set inside a set is not supported in a pattern");
        } else if (s[i] == ']' && depth > 0) {
            if (--depth == 0)
                rwk_buffer_append(out, "]", 1);
        } else if (depth && s[i] == '&' && i + 1 < n && s[i + 1] == '&') {
            return rwk_fail(error, RWK_STATUS_UNSUPPORTED, file, "an intersection of sets is not supported in a pattern");
        } else {
            rwk_buffer_append(out, s + i, 1);
        }
    }
    return out->failed ? rwk_fail_nomem(error, n) : RWK_STATUS_OK;
}

static enum rwk_status compile(struct rwk_pattern *p, const char *source, size_t size, const char *file,
                               struct rwk_error *error)
{
    struct rwk_buffer out = { .memory = p->memory };
    int code = 0;
    PCRE2_SIZE at = 0;
    enum rwk_status status = translate(source, size, &out, file, error);
    pcre2_compile_context *context = status ? NULL : pcre2_compile_context_create(p->general);
    if (!status && !context)
        status = rwk_fail_nomem(error, size);
    if (!status) {
        pcre2_set_max_pattern_length(context, 1 << 16);
        p->code = pcre2_compile((PCRE2_SPTR)(out.data ? out.data : ""), out.size,
                                PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK | PCRE2_DOLLAR_ENDONLY, &code, &at, context);
        if (!p->code && code == PCRE2_ERROR_HEAP_FAILED)
            status = rwk_fail_nomem(error, size);
        else if (!p->code)
            status = rwk_fail(error, RWK_STATUS_UNSUPPORTED, file, "the pattern \"%.*s\" is not understood (error %d at %zu)",
                              (int)(size < 200 ? size : 200), source, code, (size_t)at);
        else
            p->jit = pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE) == 0;
    }
    pcre2_compile_context_free(context);
    rwk_buffer_finish(&out);
    return status;
}

enum rwk_status rwk_pattern_compile(struct rwk_pattern **ret, const char *source, size_t size, bool literal,
                                    struct rwk_memory *memory, const char *file, struct rwk_error *error)
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

static void find_literal(const struct rwk_pattern *p, const char *text, size_t size, struct rwk_buffer *matches)
{
    const char *at = text, *end = text + size;
    while (size && p->literal_size && (at = memmem(at, (size_t)(end - at), p->literal, p->literal_size))) {
        struct rwk_slice s = { (size_t)(at - text), (size_t)(at - text) + p->literal_size };
        rwk_buffer_append(matches, &s, sizeof s);
        at += p->literal_size;
    }
}

enum rwk_status rwk_pattern_matches(const struct rwk_pattern *p, const char *text, size_t size, struct rwk_buffer *matches,
                                    struct rwk_error *error)
{
    if (p->literal) {
        find_literal(p, text, size, matches);
        return matches->failed ? rwk_fail_nomem(error, size) : RWK_STATUS_OK;
    }
    pcre2_match_data *data = pcre2_match_data_create(1, p->general);
    pcre2_match_context *context = pcre2_match_context_create(p->general);
    enum rwk_status status = data && context ? RWK_STATUS_OK : rwk_fail_nomem(error, size);
    if (context) {
        pcre2_set_match_limit(context, 50000000);
        pcre2_set_heap_limit(context, 65536);
    }
    for (size_t at = 0; !status && at < size;) {
        int n = p->jit ? pcre2_jit_match(p->code, (PCRE2_SPTR)text, size, at, PCRE2_NO_UTF_CHECK, data, context)
                       : pcre2_match(p->code, (PCRE2_SPTR)text, size, at, PCRE2_NO_UTF_CHECK, data, context);
        if (n == PCRE2_ERROR_NOMATCH)
            break;
        if (n == PCRE2_ERROR_JIT_STACKLIMIT)
            n = pcre2_match(p->code, (PCRE2_SPTR)text, size, at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data, context);
        if (n < 0) {
            status = rwk_fail(error, RWK_STATUS_UNSUPPORTED, NULL, "a pattern of the tokenizer gave up on the text (PCRE2 "
                              "error %d)", n);
            break;
        }
        const PCRE2_SIZE *v = pcre2_get_ovector_pointer(data);
        struct rwk_slice s = { v[0], v[1] };
        if (s.end > s.begin) {
            rwk_buffer_append(matches, &s, sizeof s);
            at = s.end;
        } else { /* an empty match: go on behind the next character */
            bool incomplete;
            size_t step = rwk_utf8_valid(text + s.end, size - s.end, &incomplete);
            at = s.end + (step ? step : 1);
        }
        if (matches->failed)
            status = rwk_fail_nomem(error, size);
    }
    pcre2_match_context_free(context);
    pcre2_match_data_free(data);
    return status;
}
