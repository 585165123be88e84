/* The JSON reader: what it takes and refuses, what the events hold, numbers against the C library's
 * strtod. */
#include <check.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "loaders/json.h"

/* Reads to the end; the text stands in a block of its exact size, so that a sanitizer sees every
 * byte too many. */
static enum rwk_status read_all(const char *text, size_t size, struct rwk_error *error)
{
    struct rwk_json json;
    enum rwk_json_event event;
    char *copy = malloc(size ? size : 1);
    memcpy(copy, text, size);
    rwk_json_init(&json, copy, size, false, "file.json", error);
    do {
        event = rwk_json_next(&json);
    } while (event != RWK_JSON_END && event != RWK_JSON_ERROR);
    if (rwk_json_next(&json) != event)
        ck_abort_msg("the last event does not stay");
    enum rwk_status status = json.status;
    free(copy);
    return status;
}

#define ASSERT_TAKES(text, size)                                                                   \
    ck_assert_msg(read_all(text, size, NULL) == RWK_STATUS_OK, "%.60s was refused", text)
#define ASSERT_REFUSES(text, size)                                                                 \
    ck_assert_msg(read_all(text, size, NULL) == RWK_STATUS_FORMAT, "%.60s was taken", text)

START_TEST(takes_what_the_grammar_allows)
{
    static const char *const texts[] = {
        "0",
        "-0",
        "-0.0e-0",
        "1E+2",
        "1e02",
        "123456789012345678901234567890",
        "0.1e1",
        "\"\"",
        "true",
        "false",
        "null",
        "[]",
        "{}",
        " \t\r\n[ ] \n",
        "[[],[],{}]",
        "{\"\":{\"\":[]}}",
        "[1,2 , 3]",
        "{\"a\" :1 ,\"b\": 2}",
        "{\"a\":1,\"a\":2}",
        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0000\\uFFFF\"",
        "\"\\ud83d\\ude00\"",
        "\"\\uD800\\uDC00 \\udbff\\udfff\"",
        "\"\x7f\"",
        "\"\xc2\x80 \xdf\xbf\"",
        "\"\xe0\xa0\x80 \xed\x9f\xbf \xee\x80\x80 \xef\xbf\xbf\"",
        "\"\xf0\x90\x80\x80 \xf4\x8f\xbf\xbf\"",
        "\"\xef\xbb\xbf\"",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        ASSERT_TAKES(texts[i], strlen(texts[i]));
}
END_TEST

START_TEST(refuses_what_it_does_not)
{
    static const char *const texts[] = {
        "",
        " ",
        "nul",
        "nulll",
        "True",
        "NaN",
        "Infinity",
        "-Infinity",
        "+1",
        "-",
        "01",
        "-01",
        "00",
        "1.",
        ".5",
        "1.e1",
        "1e",
        "1e+",
        "0x10",
        "1 2",
        "1,",
        "[",
        "]",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[1 2]",
        "[1}",
        "[1:2]",
        "{",
        "}",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1",
        "{\"a\":1,",
        "{\"a\":1,}",
        "{,}",
        "{1:2}",
        "{a:1}",
        "{'a':1}",
        "{\"a\" 1}",
        "{\"a\",1}",
        "{\"a\":1]",
        "{\"a\":1 \"b\":2}",
        "{\"a\":}",
        "{}{}",
        "[]]",
        "{}x",
        "// c\n1",
        "/**/1",
        "'a'",
        "\"",
        "\"a",
        "\"\\\"",
        "\"\\",
        "\"\\u",
        "\"\\u12",
        "\"\\x41\"",
        "\"\\u12g4\"",
        "\"\\u123\"",
        "\"\\U0041\"",
        "\"\\a\"",
        "\"\\0\"",
        "\"\\ud800\"",
        "\"\\udc00\"",
        "\"\\ud800\\u0041\"",
        "\"\\ud800\\ud800\"",
        "\"\\ud800 \\udc00\"",
        "\"\\ud83d\\ude0\"",
        "\"\\ud83dx\"",
        "\"\n\"",
        "\"\t\"",
        "\"\x1f\"",
        "\"\x80\"",
        "\"\xbf\"",
        "\"\xc0\x80\"",
        "\"\xc1\xbf\"",
        "\"\xc2\"",
        "\"\xe0\x80\x80\"",
        "\"\xe0\x9f\xbf\"",
        "\"\xed\xa0\x80\"",
        "\"\xed\xbf\xbf\"",
        "\"\xe1\x80\"",
        "\"\xf0\x80\x80\x80\"",
        "\"\xf0\x8f\xbf\xbf\"",
        "\"\xf4\x90\x80\x80\"",
        "\"\xf5\x80\x80\x80\"",
        "\"\xff\"",
        "\"\xf0\x90\x80\"",
        "\xef\xbb\xbf{}",
        "\xa0{}",
        "\f1",
        "\v1",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        ASSERT_REFUSES(texts[i], strlen(texts[i]));
    ASSERT_REFUSES("\"a\0b\"", 5);
    ASSERT_REFUSES("1\0", 2);
    ASSERT_REFUSES("{}\0", 3);
    ASSERT_REFUSES("tru\0", 4);
}
END_TEST

/* The straightforward reading of RFC 3629: decode by the lead byte, then ask whether the value
 * belongs there. */
static bool is_utf8(const unsigned char *p, size_t n)
{
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    for (size_t i = 0; i < n;) {
        size_t length = p[i] < 0x80       ? 1
                        : p[i] >> 5 == 6  ? 2
                        : p[i] >> 4 == 14 ? 3
                        : p[i] >> 3 == 30 ? 4
                                          : 0;
        uint32_t value = length == 1 ? p[i] : length ? p[i] & (0x7fu >> length) : 0;
        if (!length || i + length > n)
            return false;
        for (size_t k = 1; k < length; k++) {
            if (p[i + k] >> 6 != 2)
                return false;
            value = value << 6 | (p[i + k] & 0x3f);
        }
        if (value < least[length] || value > 0x10ffff || (value >= 0xd800 && value < 0xe000))
            return false;
        i += length;
    }
    return true;
}

START_TEST(agrees_with_a_plain_reading_of_utf8)
{
    /* Every pair and triple of bytes from 0x80 on, and every start of four bytes with the edges of
     * the others. */
    static const unsigned char edges[] = { 0x61, 0x7f, 0x80, 0x9f, 0xa0, 0xbf, 0xc0 };
    enum { N = sizeof edges };
    unsigned char text[8] = { '"' };
    for (unsigned lead = 0x80; lead < 0x100; lead++)
        for (unsigned i = 0; i < 256 * N * N; i++) {
            unsigned second = i / (N * N), n = 3 + (i % 3 != 0) + (i % 5 != 0);
            text[1] = (unsigned char)lead;
            text[2] =
                (unsigned char)(second >= 0x20 && second != '"' && second != '\\' ? second : 'x');
            text[3] = edges[i / N % N];
            text[4] = edges[i % N];
            text[n] = '"';
            if ((read_all((char *)text, n + 1, NULL) == RWK_STATUS_OK) != is_utf8(text + 1, n - 1))
                ck_abort_msg("%02x %02x %02x %02x", text[1], text[2], text[3], text[4]);
        }
}
END_TEST

START_TEST(finds_the_special_byte_wherever_it_stands)
{
    static const char *const specials[] = { "\"",   "\\n",      "\x1f",
                                            "\x80", "\xc3\xa9", "\\ud83d\\ude00" };
    static const bool good[] = { true, true, false, false, true, true };
    for (int s = 0; s < 6; s++)
        for (size_t before = 0; before < 40; before++)
            for (size_t after = 0; after < 20; after++) {
                char text[128];
                int n = snprintf(text, sizeof text, "\"%.*s%s%.*s%s", (int)before,
                                 "abcdefghijklmnopqrstuvwxyz~\x7f{}[]:, 0123456789", specials[s],
                                 (int)after, "zyxwvutsrqponmlkjihgfedcba", s ? "\"" : "");
                if (s == 0) /* the quote ends the string, so something follows it */
                    ck_assert_int_eq(read_all(text, (size_t)n, NULL) == RWK_STATUS_OK, after == 0);
                else
                    ck_assert_int_eq(read_all(text, (size_t)n, NULL) == RWK_STATUS_OK, good[s]);
            }
}
END_TEST

START_TEST(refuses_every_truncation)
{
    static const char text[] =
        "{\"a\\u00e9\\ud83d\\ude00\":[1.5e3,-2,\"\xc3\xa9\",{}],\"b\":{\"c\":null,\"d\":true}}";
    for (size_t n = 0; n < sizeof text - 1; n++)
        ASSERT_REFUSES(text, n);
    ASSERT_TAKES(text, sizeof text - 1);
}
END_TEST

static enum rwk_status read_nested(size_t depth, bool object)
{
    size_t piece = object ? 5 : 1, n = 0;
    char *text = malloc(depth * (piece + 1) + 1);
    for (size_t i = 0; i < depth; i++, n += piece)
        memcpy(text + n, object ? "{\"a\":" : "[", piece);
    if (object)
        text[n++] = '1';
    for (size_t i = 0; i < depth; i++)
        text[n++] = object ? '}' : ']';
    enum rwk_status status = read_all(text, n, NULL);
    free(text);
    return status;
}

START_TEST(nests_to_its_limit_and_no_deeper)
{
    for (int object = 0; object < 2; object++) {
        ck_assert_int_eq(read_nested(RWK_JSON_DEPTH, object), RWK_STATUS_OK);
        ck_assert_int_eq(read_nested(RWK_JSON_DEPTH + 1, object), RWK_STATUS_FORMAT);
        ck_assert_int_eq(read_nested(1000000, object), RWK_STATUS_FORMAT);
    }
}
END_TEST

START_TEST(remembers_objects_and_arrays_on_every_level)
{
    /* Objects and arrays in a pattern that differs between levels: closing needs each level's own
     * kind. */
    char text[8 * RWK_JSON_DEPTH];
    size_t n = 0;
    for (int i = 0; i < RWK_JSON_DEPTH; i++)
        n += (size_t)sprintf(text + n, i % 3 % 2 ? "{\"a\":" : "[");
    n += (size_t)sprintf(text + n, "1");
    for (int i = RWK_JSON_DEPTH - 1; i >= 0; i--)
        text[n++] = i % 3 % 2 ? '}' : ']';
    ASSERT_TAKES(text, n);
    for (size_t i = n - RWK_JSON_DEPTH; i < n; i++) {
        text[i] = text[i] == '}' ? ']' : '}';
        ASSERT_REFUSES(text, n);
        text[i] = text[i] == '}' ? ']' : '}';
    }
}
END_TEST

START_TEST(returns_events_in_order)
{
    static const char text[] = "{\"k\":[1,\"s\",null,true,false,{}],\"l\":2}";
    static const enum rwk_json_event events[] = {
        RWK_JSON_OBJECT, RWK_JSON_KEY,        RWK_JSON_ARRAY,     RWK_JSON_NUMBER,
        RWK_JSON_STRING, RWK_JSON_NULL,       RWK_JSON_TRUE,      RWK_JSON_FALSE,
        RWK_JSON_OBJECT, RWK_JSON_OBJECT_END, RWK_JSON_ARRAY_END, RWK_JSON_KEY,
        RWK_JSON_NUMBER, RWK_JSON_OBJECT_END, RWK_JSON_END,       RWK_JSON_END,
    };
    static const size_t at[] = { 0, 1, 5, 6, 8, 12, 17, 22, 28, 29, 30, 32, 36, 37 };
    struct rwk_json json;
    rwk_json_init(&json, text, sizeof text - 1, false, NULL, NULL);
    for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
        ck_assert_int_eq(rwk_json_next(&json), events[i]);
        if (i < sizeof at / sizeof *at)
            ck_assert_uint_eq(json.event_at, at[i]);
    }
}
END_TEST

START_TEST(skips_the_rest_of_a_value)
{
    static const char text[] = "{\"a\":[[1],{\"x\":[]}],\"b\":3,\"c\":{},\"d\":[4,[5,6],7]}";
    struct rwk_json json;
    rwk_json_init(&json, text, sizeof text - 1, false, NULL, NULL);
    ck_assert_int_eq(rwk_json_next(&json), RWK_JSON_OBJECT);
    for (const char *key = "abc"; *key; key++) {
        ck_assert_int_eq(rwk_json_next(&json), RWK_JSON_KEY);
        ck_assert(rwk_json_equals(&json, (char[]) { *key, '\0' }));
        ck_assert(rwk_json_skip(&json)); /* after a key: its whole value */
    }
    ck_assert_int_eq(rwk_json_next(&json), RWK_JSON_KEY);
    ck_assert_int_eq(rwk_json_next(&json), RWK_JSON_ARRAY);
    ck_assert_int_eq(rwk_json_next(&json), RWK_JSON_NUMBER);
    ck_assert(rwk_json_skip(&json)); /* after a scalar: nothing */
    ck_assert_int_eq(rwk_json_next(&json), RWK_JSON_ARRAY);
    ck_assert(rwk_json_skip(&json)); /* after an opening: to its end */
    ck_assert_int_eq(rwk_json_next(&json), RWK_JSON_NUMBER);
    ck_assert_int_eq(rwk_json_next(&json), RWK_JSON_ARRAY_END);
    ck_assert_int_eq(rwk_json_next(&json), RWK_JSON_OBJECT_END);
    ck_assert_int_eq(rwk_json_next(&json), RWK_JSON_END);

    rwk_json_init(&json, "{\"a\":[1,", 8, false, NULL, NULL);
    rwk_json_next(&json);
    rwk_json_next(&json);
    ck_assert(!rwk_json_skip(&json));
    ck_assert_int_eq(json.status, RWK_STATUS_FORMAT);
}
END_TEST

START_TEST(decodes_strings)
{
    static const struct {
        const char *text, *meaning;
        size_t size;
    } rows[] = {
        { "\"plain\"", "plain", 5 },
        { "\"\"", "", 0 },
        { "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t", 8 },
        { "\"a\\u0000b\"", "a\0b", 3 },
        { "\"\\u007f\\u0080\\u07ff\\u0800\\uffff\"", "\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf",
          11 },
        { "\"\\ud83d\\uDE00\"", "\xf0\x9f\x98\x80", 4 },
        { "\"\\ud800\\udc00\\udbff\\udfff\"", "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", 8 },
        { "\"\xc3\xa9\\u00e9\"", "\xc3\xa9\xc3\xa9", 4 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct rwk_json json;
        char buffer[64], *copy = strdup(rows[i].text);
        rwk_json_init(&json, copy, strlen(copy), false, NULL, NULL);
        ck_assert_int_eq(rwk_json_next(&json), RWK_JSON_STRING);
        ck_assert_uint_eq(rwk_json_decode(&json, NULL), rows[i].size);
        ck_assert_uint_eq(rwk_json_decode(&json, buffer), rows[i].size);
        ck_assert_mem_eq(buffer, rows[i].meaning, rows[i].size);
        if (!memchr(rows[i].meaning, 0, rows[i].size)) {
            buffer[rows[i].size] = '\0';
            ck_assert(rwk_json_equals(&json, buffer));
            buffer[rows[i].size] = 'x';
            buffer[rows[i].size + 1] = '\0';
            ck_assert(!rwk_json_equals(&json, buffer));
            if (rows[i].size) {
                buffer[rows[i].size - 1] = '\0';
                ck_assert(!rwk_json_equals(&json, buffer));
            }
        }
        ck_assert_uint_eq(rwk_json_decode(&json, copy + 1), rows[i].size); /* in place */
        ck_assert_mem_eq(copy + 1, rows[i].meaning, rows[i].size);
        free(copy);
    }
}
END_TEST

START_TEST(errors_name_file_and_byte)
{
    struct rwk_error error = { .size = sizeof error };
    ck_assert_int_eq(read_all("{\"a\":1,\n }", 10, &error), RWK_STATUS_FORMAT);
    ck_assert_str_eq(error.file, "file.json");
    ck_assert_uint_eq(error.byte_offset, 9);
    ck_assert_int_eq(strncmp(error.message, "file.json: ", 11), 0);
    ck_assert_ptr_nonnull(strstr(error.message, "(at byte 9)"));

    struct rwk_json json;
    rwk_json_init(&json, "[1,x]", 5, false, "file.json", &error);
    json.base = 100;
    rwk_json_next(&json);
    rwk_json_next(&json);
    ck_assert_int_eq(rwk_json_fail(&json, "odd: %d", 1), RWK_STATUS_FORMAT);
    ck_assert_uint_eq(error.byte_offset, 101);
    ck_assert_int_eq(rwk_json_next(&json), RWK_JSON_ERROR);
    ck_assert_int_eq(rwk_json_fail(&json, "another"), RWK_STATUS_FORMAT);
    ck_assert_ptr_nonnull(strstr(error.message, "odd: 1")); /* the first error stands */
}
END_TEST

START_TEST(skips_a_byte_order_mark_when_asked)
{
    struct rwk_json json;
    rwk_json_init(&json, "\xef\xbb\xbf{}\r\n", 7, true, NULL, NULL);
    ck_assert_int_eq(rwk_json_next(&json), RWK_JSON_OBJECT);
    ck_assert_uint_eq(json.event_at, 3);
    rwk_json_init(&json, "\xef\xbb", 2, true, NULL, NULL);
    ck_assert_int_eq(rwk_json_next(&json), RWK_JSON_ERROR);
}
END_TEST

/* ---- numbers ---- */

static void read_number(struct rwk_json *json, const char *text)
{
    rwk_json_init(json, text, strlen(text), false, NULL, NULL);
    ck_assert_int_eq(rwk_json_next(json), RWK_JSON_NUMBER);
}

START_TEST(integers_keep_their_range)
{
    static const struct {
        const char *text;
        bool is_signed, is_unsigned;
        uint64_t value;
    } rows[] = {
        { "0", true, true, 0 },
        { "-0", true, false, 0 },
        { "9223372036854775807", true, true, INT64_MAX },
        { "9223372036854775808", false, true, 1ull << 63 },
        { "-9223372036854775808", true, false, 1ull << 63 },
        { "-9223372036854775809", false, false, 0 },
        { "18446744073709551615", false, true, UINT64_MAX },
        { "18446744073709551616", false, false, 0 },
        { "99999999999999999999999", false, false, 0 },
        { "1.0", false, false, 0 },
        { "1e3", false, false, 0 },
        { "-1", true, false, UINT64_MAX },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct rwk_json json;
        int64_t s = 77;
        uint64_t u = 77;
        read_number(&json, rows[i].text);
        ck_assert_int_eq(rwk_json_int64(&json, &s), rows[i].is_signed);
        ck_assert_int_eq(rwk_json_uint64(&json, &u), rows[i].is_unsigned);
        ck_assert_uint_eq((uint64_t)s, rows[i].is_signed ? rows[i].value : 77);
        ck_assert_uint_eq(u, rows[i].is_unsigned ? rows[i].value : 77);
    }
}
END_TEST

/* The same bits as strtod in the "C" locale, and false exactly where that overflows. */
static void assert_double(const char *text)
{
    double expected = strtod(text, NULL), got = 77;
    bool good = rwk_parse_double(text, strlen(text), &got);
    if (good != (bool)isfinite(expected) || (good && memcmp(&got, &expected, sizeof got) != 0))
        ck_abort_msg("%.80s: %a is not %a", text, got, expected);
}

START_TEST(doubles_are_correctly_rounded_where_it_is_hard)
{
    static const char *const texts[] = {
        "0",
        "-0",
        "0.0e999",
        "0e-999999999999999999999",
        "-0.0",
        "1",
        "64.0",
        "1e3",
        "1e-05",
        "0.00001",
        "1E-5",
        "1e22",
        "1e23",
        "9007199254740991",
        "9007199254740992",
        "9007199254740993",
        "9007199254740995",
        "9007199254740993.00000000000000000000000000000000001",
        "900719925474099300000000000000000000e-20",
        "0.1",
        "0.2",
        "0.3",
        "123456789012345678",
        "1.7976931348623157e308",
        "1.7976931348623158e308",
        "1.7976931348623159e308",
        "1.79769313486231580793e308",
        "1e308",
        "1e309",
        "1e400",
        "-1e400",
        "1e999999999999999999999999",
        "1e-999999999999999999999999",
        "2.2250738585072014e-308",
        "2.2250738585072011e-308",
        "2.2250738585072012e-308",
        "2.225073858507201e-308",
        "4.9e-324",
        "5e-324",
        "2.4703282292062327e-324",
        "2.4703282292062328e-324",
        "2.5e-324",
        "1e-320",
        "1e-323",
        "1e-324",
        "1e-330",
        "1e-400",
        "6.631236846766476e-316",
        "3.237883913302901e-319",
        "6953.35580781731e-321",
        "2.4703282292062327208299552600500000000000000000000000000000000000000000e-324",
        "7.2057594037927933e16",
        "7.205759403792793199999e16",
        "1.00000000000000011102230246251565404236316680908203125",
        "1.00000000000000011102230246251565404236316680908203124",
        "1.00000000000000011102230246251565404236316680908203126",
        "8.10109172351e-10",
        "1.1897314953572317650e+4932",
        "9214843084008499",
        "30078505129381147446200",
        "1777820000000000000001",
        "0.500000000000000166547",
        "3.518437208883201171875e13",
        "62.5364939768271845828",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_double(texts[i]);
}
END_TEST

START_TEST(ties_are_decided_by_the_last_of_many_digits)
{
    /* Half way between two subnormals lies a number of up to 767 digits: itself, and a little to
     * both sides. */
    for (uint64_t bits = 1; bits < 1ull << 53; bits = bits * 3 + 1) {
        char text[1200], more[1300];
        double d;
        memcpy(&d, &bits, sizeof d);
        snprintf(text, sizeof text, "%.1100Lg", (long double)d + 0x1p-1075L);
        assert_double(text);
        char *e = strchr(text, 'e');
        ck_assert_ptr_nonnull(e);
        snprintf(more, sizeof more, "%.*s%0*d%s", (int)(e - text), text, 90, 1, e);
        assert_double(more);
        e[-1]--;
        assert_double(text);
    }
}
END_TEST

START_TEST(long_spellings_are_read_whole)
{
    enum { N = 30000 };
    char *text = malloc(N + 16);
    memset(text, '0', N);
    memcpy(text, "0.", 2);
    sprintf(text + N, "125e%d", N); /* 0.000...125 with N - 2 zeros: 12.5 */
    assert_double(text);
    memset(text, '9', N);
    text[N] = '\0';
    assert_double(text); /* overflow */
    text[1] = '.';
    assert_double(text);
    sprintf(text + N, "e-320");
    assert_double(text);
    memset(text, '0', N);
    memcpy(text, "9007199254740993.", 17);
    text[N] = '\0';
    assert_double(text);
    text[N - 1] = '1'; /* what decides the tie stands at the end */
    assert_double(text);
    free(text);
}
END_TEST

static uint64_t random_state = 42; /* xorshift; the seed is part of the test */
static uint64_t random64(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    return random_state ^= random_state << 17;
}

START_TEST(doubles_agree_with_strtod)
{
    for (int i = 0; i < 100000; i++) {
        char text[128];
        uint64_t bits = random64();
        double d;
        if (i % 4 == 0)
            bits &= 0x800fffffffffffffull | random64() % 80 << 52; /* the smallest exponents */
        memcpy(&d, &bits, sizeof d);
        if (i % 4 < 2 && isfinite(d))
            snprintf(text, sizeof text, "%.*g", (int)(random64() % 22 + 1), d);
        else if (i % 4 == 2)
            snprintf(text, sizeof text, "%.*f", (int)(random64() % 25),
                     (double)(int64_t)bits / (double)(1ull << random64() % 63));
        else
            snprintf(text, sizeof text, "%u.%llue%d", (unsigned)(random64() % 1000),
                     (unsigned long long)bits, (int)(random64() % 700) - 350);
        assert_double(text);
    }
}
END_TEST

START_TEST(a_decimal_comma_changes_nothing)
{
    static const char *const names[] = { "de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "nb_NO.UTF-8",
                                         "de_DE" };
    bool found = false;
    for (size_t i = 0; i < sizeof names / sizeof *names && !found; i++)
        found = setlocale(LC_ALL, names[i]) != NULL;
    static const struct {
        const char *text;
        double value;
    } rows[] = { { "0.5", 0.5 },
                 { "1234.5678901234567890123", 1234.5678901234567890123 },
                 { "1e-05", 1e-05 } };
    for (size_t i = 0; i < 3; i++) {
        struct rwk_json json;
        double d = 0;
        read_number(&json, rows[i].text);
        ck_assert(rwk_json_double(&json, &d));
        ck_assert(d == rows[i].value);
    }
    if (!found)
        printf("no locale with a decimal comma is installed: read in the C locale only\n");
    setlocale(LC_ALL, "C");
}
END_TEST

/* ---- one literal ---- */

START_TEST(decodes_one_literal_at_the_start)
{
    char buffer[16] = "untouched";
    size_t size = 77, consumed = 77;
    ck_assert_int_eq(
        rwk_json_string_decode("\"a\\u00e9\\n\" rest", 16, buffer, 16, &size, &consumed, NULL),
        RWK_STATUS_OK);
    ck_assert_uint_eq(size, 4);
    ck_assert_uint_eq(consumed, 11);
    ck_assert_mem_eq(buffer, "a\xc3\xa9\n", 4);

    memcpy(buffer, "untouched", 10);
    ck_assert_int_eq(
        rwk_json_string_decode("\"a\\u00e9\\n\"", 11, buffer, 3, &size, &consumed, NULL),
        RWK_STATUS_OK);
    ck_assert_uint_eq(size, 4); /* the number needed, though it does not fit */
    ck_assert_str_eq(buffer, "untouched");
    ck_assert_int_eq(
        rwk_json_string_decode("\"a\\u00e9\\n\"", 11, buffer, 4, &size, &consumed, NULL),
        RWK_STATUS_OK);
    ck_assert_mem_eq(buffer, "a\xc3\xa9\nu", 5);
    ck_assert_int_eq(rwk_json_string_decode("\"\"", 2, NULL, 0, &size, &consumed, NULL),
                     RWK_STATUS_OK);
    ck_assert_uint_eq(size, 0);
    ck_assert_uint_eq(consumed, 2);
}
END_TEST

START_TEST(refuses_what_is_no_literal)
{
    static const char *const texts[] = { "",       "a", " \"a\"",  "\"a",     "\"\\", "\"\\ud800\"",
                                         "\"\n\"", "1", "[\"a\"]", "\"\xff\"" };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct rwk_error error = { .size = sizeof error };
        char buffer[16];
        size_t size = 77, consumed = 77;
        ck_assert_int_eq(rwk_json_string_decode(texts[i], strlen(texts[i]), buffer, 16, &size,
                                                &consumed, &error),
                         RWK_STATUS_FORMAT);
        ck_assert_uint_eq(size, 77);
        ck_assert_uint_eq(consumed, 77);
        ck_assert(error.message[0] != '\0');
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("json");
    TCase *cases = tcase_create("json");
    suite_add_tcase(suite, cases);
    tcase_set_timeout(cases, 120);
    tcase_add_test(cases, takes_what_the_grammar_allows);
    tcase_add_test(cases, refuses_what_it_does_not);
    tcase_add_test(cases, agrees_with_a_plain_reading_of_utf8);
    tcase_add_test(cases, finds_the_special_byte_wherever_it_stands);
    tcase_add_test(cases, refuses_every_truncation);
    tcase_add_test(cases, nests_to_its_limit_and_no_deeper);
    tcase_add_test(cases, remembers_objects_and_arrays_on_every_level);
    tcase_add_test(cases, returns_events_in_order);
    tcase_add_test(cases, skips_the_rest_of_a_value);
    tcase_add_test(cases, decodes_strings);
    tcase_add_test(cases, errors_name_file_and_byte);
    tcase_add_test(cases, skips_a_byte_order_mark_when_asked);
    tcase_add_test(cases, integers_keep_their_range);
    tcase_add_test(cases, doubles_are_correctly_rounded_where_it_is_hard);
    tcase_add_test(cases, ties_are_decided_by_the_last_of_many_digits);
    tcase_add_test(cases, long_spellings_are_read_whole);
    tcase_add_test(cases, doubles_agree_with_strtod);
    tcase_add_test(cases, a_decimal_comma_changes_nothing);
    tcase_add_test(cases, decodes_one_literal_at_the_start);
    tcase_add_test(cases, refuses_what_is_no_literal);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
