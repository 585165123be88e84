/* The pull reader: a small state machine over the text.
 *
 *   expect (what may come next) x first character -> event, new expect; a bit per open level says
 *   whether it is an object or an array
 *
 * Strings are validated as they are passed (UTF-8, escapes, surrogates), eight bytes at a time
 * where they are plain, so that decoding cannot fail. */
#include "loaders/json.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "runtime/base/utf8.h"

enum {
    EXPECT_VALUE,         /* the root, or after a key */
    EXPECT_FIRST_ELEMENT, /* after '[': a value or ']' */
    EXPECT_NEXT_ELEMENT,  /* after a value in an array: ',' or ']' */
    EXPECT_FIRST_KEY,     /* after '{': a key or '}' */
    EXPECT_NEXT_KEY,      /* after a value in an object: ',' or '}' */
    EXPECT_END,
    EXPECT_NOTHING /* after an error */
};

void rwk_json_init(struct rwk_json *json, const char *text, size_t size, bool skip_byte_order_mark,
                   const char *file, struct rwk_error *error)
{
    *json = (struct rwk_json) { .text = text, .size = size, .file = file, .error = error };
    if (skip_byte_order_mark && size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        json->at = 3;
}

static enum rwk_json_event fail(struct rwk_json *json, size_t offset, const char *what)
{
    struct rwk_where where = { .file = json->file, .offset = json->base + offset };
    json->expect = EXPECT_NOTHING;
    json->status = rwk_fail_at(json->error, RWK_STATUS_FORMAT, &where, "invalid JSON: %s", what);
    return RWK_JSON_ERROR;
}

enum rwk_status rwk_json_fail(struct rwk_json *json, const char *format, ...)
{
    if (json->status)
        return json->status;
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    struct rwk_where where = { .file = json->file, .offset = json->base + json->event_at };
    json->expect = EXPECT_NOTHING;
    json->status = rwk_fail_at(json->error, RWK_STATUS_FORMAT, &where, "%s", text);
    return json->status;
}

/* ---- lexical parts ---- */

static void skip_space(struct rwk_json *json)
{
    while (json->at < json->size) {
        char c = json->text[json->at];
        if (c != ' ' && c != '\n' && c != '\r' && c != '\t')
            return;
        json->at++;
    }
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The four hex digits at p, or -1. */
static int32_t hex4(const char *p, size_t left)
{
    int32_t value = 0;
    if (left < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(p[i]);
        if (digit < 0)
            return -1;
        value = value << 4 | digit;
    }
    return value;
}

/* Passes the escape at json->at (a backslash); false when it is not one. */
static bool pass_escape(struct rwk_json *json)
{
    const char *p = json->text + json->at;
    size_t left = json->size - json->at;
    if (left < 2)
        return false;
    if (p[1] != 'u') {
        json->at += 2;
        return p[1] && strchr("\"\\/bfnrt", p[1]) != NULL;
    }
    int32_t unit = hex4(p + 2, left - 2);
    if (unit < 0 || (unit >= 0xdc00 && unit < 0xe000))
        return false;
    json->at += 6;
    if (unit < 0xd800 || unit >= 0xe000)
        return true;
    if (left < 12 || p[6] != '\\' || p[7] != 'u')
        return false;
    int32_t low = hex4(p + 8, left - 8);
    json->at += 6;
    return low >= 0xdc00 && low < 0xe000;
}

/* How many of the eight bytes at p come before the first quote, backslash, control character or
 * byte above 0x7f. The subtractions borrow only past a byte that is marked already, so the lowest
 * mark is exact. */
static size_t plain8(const unsigned char *p)
{
    uint64_t v, ones = 0x0101010101010101ull, tops = 0x8080808080808080ull;
    memcpy(&v, p, 8);
    uint64_t quote = v ^ ones * '"', slash = v ^ ones * '\\';
    uint64_t marks =
        (((quote - ones) & ~quote) | ((slash - ones) & ~slash) | (v - ones * 0x20) | v) & tops;
    return marks ? (size_t)__builtin_ctzll(marks) / 8 : 8;
}

/* The first byte from `at` on that is not plain ASCII text of a string. */
static size_t pass_plain(const struct rwk_json *json, size_t at)
{
    const unsigned char *text = (const unsigned char *)json->text;
    while (json->size - at >= 8) {
        size_t n = plain8(text + at);
        at += n;
        if (n < 8)
            return at;
    }
    while (at < json->size && text[at] >= 0x20 && text[at] < 0x80 && text[at] != '"' &&
           text[at] != '\\')
        at++;
    return at;
}

/* Passes a run of multi-byte characters; json->at then stands at a byte below 0x80, or at one that
 * is wrong. */
static void pass_multibyte(struct rwk_json *json)
{
    const unsigned char *text = (const unsigned char *)json->text;
    size_t n;
    while (json->at < json->size && text[json->at] >= 0x80 &&
           (n = rwk_utf8_length(json->text + json->at, json->size - json->at)) != 0)
        json->at += n;
}

/* Reads the string whose opening quote is at json->at. */
static bool pass_string(struct rwk_json *json)
{
    size_t start = ++json->at;
    json->escaped = false;
    while ((json->at = pass_plain(json, json->at)) < json->size) {
        size_t at = json->at;
        unsigned char c = (unsigned char)json->text[at];
        if (c == '"') {
            json->raw = json->text + start;
            json->raw_size = at - start;
            json->at++;
            return true;
        }
        if (c < 0x20)
            return fail(json, at, "control character in a string"), false;
        if (c == '\\') {
            json->escaped = true;
            if (!pass_escape(json))
                return fail(json, at, "bad escape in a string"), false;
        } else {
            pass_multibyte(json);
            if (json->at < json->size && (unsigned char)json->text[json->at] >= 0x80)
                return fail(json, json->at, "invalid UTF-8"), false;
        }
    }
    return fail(json, start - 1, "unterminated string"), false;
}

static size_t pass_digits(const struct rwk_json *json, size_t at)
{
    while (at < json->size && json->text[at] >= '0' && json->text[at] <= '9')
        at++;
    return at;
}

static bool pass_number(struct rwk_json *json)
{
    size_t start = json->at, at = start + (json->text[start] == '-'), digits = at;
    at = pass_digits(json, at);
    if (at == digits || (json->text[digits] == '0' && at > digits + 1))
        return fail(json, start, "bad number"), false;
    if (at < json->size && json->text[at] == '.') {
        digits = ++at;
        if ((at = pass_digits(json, at)) == digits)
            return fail(json, start, "bad number"), false;
    }
    if (at < json->size && (json->text[at] == 'e' || json->text[at] == 'E')) {
        at++;
        at += at < json->size && (json->text[at] == '+' || json->text[at] == '-');
        digits = at;
        if ((at = pass_digits(json, at)) == digits)
            return fail(json, start, "bad number"), false;
    }
    json->raw = json->text + start;
    json->raw_size = at - start;
    json->at = at;
    return true;
}

static bool pass_word(struct rwk_json *json, const char *word)
{
    size_t n = strlen(word);
    if (json->size - json->at < n || memcmp(json->text + json->at, word, n) != 0)
        return fail(json, json->at, "unexpected character"), false;
    json->at += n;
    return true;
}

/* ---- structure ---- */

static bool in_object(const struct rwk_json *json)
{
    return json->is_object[(json->depth - 1) / 64] >> ((json->depth - 1) % 64) & 1;
}

static void after_value(struct rwk_json *json)
{
    json->expect = json->depth == 0  ? EXPECT_END
                   : in_object(json) ? EXPECT_NEXT_KEY
                                     : EXPECT_NEXT_ELEMENT;
}

static enum rwk_json_event open_level(struct rwk_json *json, bool object)
{
    if (json->depth == RWK_JSON_DEPTH)
        return fail(json, json->at, "nested too deeply");
    uint64_t bit = 1ull << (json->depth % 64);
    json->is_object[json->depth / 64] =
        (json->is_object[json->depth / 64] & ~bit) | (object ? bit : 0);
    json->depth++;
    json->at++;
    json->expect = object ? EXPECT_FIRST_KEY : EXPECT_FIRST_ELEMENT;
    return object ? RWK_JSON_OBJECT : RWK_JSON_ARRAY;
}

static enum rwk_json_event close_level(struct rwk_json *json, enum rwk_json_event event)
{
    json->depth--;
    json->at++;
    after_value(json);
    return event;
}

static enum rwk_json_event read_key(struct rwk_json *json)
{
    if (json->text[json->at] != '"')
        return fail(json, json->at, "a key in quotes is wanted");
    json->event_at = json->at;
    if (!pass_string(json))
        return RWK_JSON_ERROR;
    skip_space(json);
    if (json->at >= json->size || json->text[json->at] != ':')
        return fail(json, json->at, "':' is wanted");
    json->at++;
    json->expect = EXPECT_VALUE;
    return RWK_JSON_KEY;
}

static enum rwk_json_event read_value(struct rwk_json *json)
{
    json->event_at = json->at;
    char c = json->text[json->at];
    enum rwk_json_event event = RWK_JSON_NUMBER;
    bool good;
    switch (c) {
    case '{':
        return open_level(json, true);
    case '[':
        return open_level(json, false);
    case '"':
        event = RWK_JSON_STRING;
        good = pass_string(json);
        break;
    case 't':
        event = RWK_JSON_TRUE;
        good = pass_word(json, "true");
        break;
    case 'f':
        event = RWK_JSON_FALSE;
        good = pass_word(json, "false");
        break;
    case 'n':
        event = RWK_JSON_NULL;
        good = pass_word(json, "null");
        break;
    default:
        if (c != '-' && (c < '0' || c > '9'))
            return fail(json, json->at, "unexpected character");
        good = pass_number(json);
    }
    if (!good)
        return RWK_JSON_ERROR;
    after_value(json);
    return event;
}

enum rwk_json_event rwk_json_next(struct rwk_json *json)
{
    if (json->expect == EXPECT_NOTHING)
        return RWK_JSON_ERROR;
    skip_space(json);
    bool end = json->at >= json->size;
    if (json->expect == EXPECT_END)
        return end ? RWK_JSON_END : fail(json, json->at, "something follows the value");
    if (end)
        return fail(json, json->at, "the text ends early");
    char c = json->text[json->at];
    json->event_at = json->at;
    switch (json->expect) {
    case EXPECT_FIRST_ELEMENT:
        return c == ']' ? close_level(json, RWK_JSON_ARRAY_END) : read_value(json);
    case EXPECT_FIRST_KEY:
        return c == '}' ? close_level(json, RWK_JSON_OBJECT_END) : read_key(json);
    case EXPECT_NEXT_ELEMENT:
        if (c == ']')
            return close_level(json, RWK_JSON_ARRAY_END);
        break;
    case EXPECT_NEXT_KEY:
        if (c == '}')
            return close_level(json, RWK_JSON_OBJECT_END);
        break;
    default:
        return read_value(json);
    }
    if (c != ',')
        return fail(json, json->at, "',' or the end of the list is wanted");
    json->at++;
    skip_space(json);
    if (json->at >= json->size)
        return fail(json, json->at, "the text ends early");
    return json->expect == EXPECT_NEXT_KEY ? read_key(json) : read_value(json);
}

bool rwk_json_skip(struct rwk_json *json)
{
    uint32_t depth = json->depth;
    if (json->expect == EXPECT_VALUE && rwk_json_next(json) == RWK_JSON_ERROR)
        return false;
    if (json->expect == EXPECT_FIRST_ELEMENT || json->expect == EXPECT_FIRST_KEY)
        depth = json->depth - 1;
    while (json->depth > depth)
        if (rwk_json_next(json) == RWK_JSON_ERROR)
            return false;
    return json->status == RWK_STATUS_OK;
}

/* ---- values ---- */

/* Decodes the character or escape at *at of the (valid) raw text into out[4]; returns its size. */
static size_t decode_one(const char *raw, size_t *at, char out[4])
{
    static const char plain[] = "\"\\/bfnrt", meaning[] = "\"\\/\b\f\n\r\t";
    if (raw[*at] != '\\')
        return out[0] = raw[(*at)++], 1;
    char c = raw[*at + 1];
    if (c != 'u') {
        *at += 2;
        return out[0] = meaning[strchr(plain, c) - plain], 1;
    }
    uint32_t unit = (uint32_t)hex4(raw + *at + 2, 4);
    *at += 6;
    if (unit >= 0xd800 && unit < 0xdc00) {
        unit = 0x10000 + ((unit - 0xd800) << 10) + ((uint32_t)hex4(raw + *at + 2, 4) - 0xdc00);
        *at += 6;
    }
    return rwk_utf8_put(out, unit);
}

size_t rwk_json_decode(const struct rwk_json *json, char *buffer)
{
    size_t n = 0;
    if (!json->escaped) {
        if (buffer)
            memmove(buffer, json->raw, json->raw_size);
        return json->raw_size;
    }
    for (size_t at = 0; at < json->raw_size;) {
        char one[4];
        size_t size = decode_one(json->raw, &at, one);
        if (buffer)
            memcpy(buffer + n, one, size);
        n += size;
    }
    return n;
}

bool rwk_json_equals(const struct rwk_json *json, const char *text)
{
    size_t n = 0, size = strlen(text);
    if (!json->escaped)
        return json->raw_size == size && memcmp(json->raw, text, size) == 0;
    for (size_t at = 0; at < json->raw_size;) {
        char one[4];
        size_t k = decode_one(json->raw, &at, one);
        if (size - n < k || memcmp(text + n, one, k) != 0)
            return false;
        n += k;
    }
    return n == size;
}

bool rwk_json_uint64(const struct rwk_json *json, uint64_t *ret)
{
    uint64_t value = 0;
    for (size_t i = 0; i < json->raw_size; i++) {
        unsigned digit = (unsigned char)json->raw[i] - (unsigned)'0';
        if (digit > 9 || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, digit, &value))
            return false;
    }
    *ret = value;
    return true;
}

bool rwk_json_int64(const struct rwk_json *json, int64_t *ret)
{
    struct rwk_json magnitude = *json;
    uint64_t value;
    bool negative = json->raw[0] == '-';
    magnitude.raw += negative;
    magnitude.raw_size -= negative;
    if (!rwk_json_uint64(&magnitude, &value) || value > (uint64_t)INT64_MAX + negative)
        return false;
    *ret = negative ? (int64_t)(0 - value) : (int64_t)value;
    return true;
}

bool rwk_json_double(const struct rwk_json *json, double *ret)
{
    return rwk_parse_double(json->raw, json->raw_size, ret);
}
