/* The tokenizers of tests/data/tokenizers against golden.jsonl: text, ids without and with special
 * tokens, decoded text, as the reference libraries give them; the stream decoder against the whole
 * decoding; sizes, flags and long input. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ropewalk/ropewalk.h>
#include "loaders/tree.h"
#include "scratch.h"

static const char *const names[] = { "bloom-style", "unigram-metaspace", "spm-bpe-small",
                                     "spm-unigram-small" };
enum { N_NAMES = sizeof names / sizeof *names, MAX_IDS = 4096 };

static struct rwk_tokenizer *open_tokenizer(const char *name)
{
    char path[512];
    struct rwk_error error = { .size = sizeof error };
    struct rwk_tokenizer *t = NULL;
    snprintf(path, sizeof path, RWK_TEST_DATA "/tokenizers/%s", name);
    ck_assert_msg(rwk_tokenizer_open(&t, path, NULL, &error) == RWK_STATUS_OK, "%s", error.message);
    return t;
}

static size_t ids_of(const struct rwk_node *list, uint32_t *ids)
{
    size_t n = 0;
    for (const struct rwk_node *e = list->children; e; e = e->next)
        ids[n++] = (uint32_t)e->integer;
    return n;
}

static void check_ids(const struct rwk_tokenizer *t, const struct rwk_node *text,
                      const struct rwk_node *want, uint32_t flags)
{
    static uint32_t ids[MAX_IDS], expected[MAX_IDS];
    size_t n = 0, n_expected = ids_of(want, expected);
    ck_assert_int_eq(rwk_tokenizer_encode(t, text->string, text->string_size, flags, ids, MAX_IDS,
                                          NULL, &n, NULL),
                     RWK_STATUS_OK);
    ck_assert_msg(n == n_expected && memcmp(ids, expected, n * sizeof *ids) == 0,
                  "\"%.60s\": %zu ids, not these %zu", text->string, n, n_expected);
}

/* What the stream gives out in pieces is the decoding of the whole. */
static void check_stream(struct rwk_tokenizer *t, const uint32_t *ids, size_t n, const char *whole,
                         size_t size)
{
    struct rwk_stream *stream = NULL;
    const char *text;
    size_t got = 0, part;
    int stopped;
    ck_assert_int_eq(rwk_stream_create(&stream, t, 0, NULL), RWK_STATUS_OK);
    for (size_t i = 0; i <= n; i++) {
        if (i < n)
            ck_assert_int_eq(rwk_stream_push(stream, ids[i], &text, &part, &stopped, NULL),
                             RWK_STATUS_OK);
        else
            ck_assert_int_eq(rwk_stream_flush(stream, &text, &part, NULL), RWK_STATUS_OK);
        ck_assert_msg(part <= size - got && memcmp(text, whole + got, part) == 0,
                      "\"%.60s\": the stream says otherwise", whole);
        got += part;
    }
    ck_assert_uint_eq(got, size);
    rwk_stream_close(&stream);
}

static void check_line(struct rwk_tokenizer *t, const char *line, size_t size,
                       struct rwk_arena *arena)
{
    struct rwk_node *root = NULL;
    static uint32_t ids[MAX_IDS];
    static char text[1 << 16];
    if (rwk_tree_parse(&root, arena, line, size, "golden.jsonl", NULL))
        return; /* strings with NUL are not for trees */
    const struct rwk_node *input = rwk_tree_member(root, "text"),
                          *decoded = rwk_tree_member(root, "decoded");
    check_ids(t, input, rwk_tree_member(root, "ids"), 0);
    check_ids(t, input, rwk_tree_member(root, "ids_with_special"), RWK_ENCODE_ADD_SPECIAL);
    size_t n = ids_of(rwk_tree_member(root, "ids"), ids), n_text = 0;
    ck_assert_int_eq(rwk_tokenizer_decode(t, ids, n, 0, text, sizeof text, &n_text, NULL),
                     RWK_STATUS_OK);
    ck_assert_msg(n_text == decoded->string_size && memcmp(text, decoded->string, n_text) == 0,
                  "\"%.60s\" decodes otherwise", input->string);
    check_stream(t, ids, n, text, n_text);
}

START_TEST(ids_and_texts_are_the_references)
{
    char path[512], *data = malloc(1 << 22);
    struct rwk_tokenizer *t = open_tokenizer(names[_i]);
    struct rwk_memory memory;
    snprintf(path, sizeof path, RWK_TEST_DATA "/tokenizers/%s/golden.jsonl", names[_i]);
    FILE *f = fopen(path, "rb");
    ck_assert_ptr_nonnull(f);
    size_t size = fread(data, 1, 1 << 22, f), lines = 0;
    fclose(f);
    rwk_memory_init(&memory, NULL, 0);
    for (char *p = data, *end; (end = memchr(p, '\n', (size_t)(data + size - p)));
         p = end + 1, lines++) {
        struct rwk_arena arena = { .memory = &memory };
        check_line(t, p, (size_t)(end - p), &arena);
        rwk_arena_finish(&arena);
    }
    ck_assert_uint_gt(lines, 20);
    ck_assert_uint_eq(atomic_load(&memory.used), 0);
    free(data);
    rwk_tokenizer_close(&t);
}
END_TEST

/* ---- one small tokenizer.json for each part of the format ---- */

static void check_case(struct rwk_tokenizer *t, const struct rwk_node *c, size_t line)
{
    static uint32_t ids[MAX_IDS], expected[MAX_IDS], offsets[2 * MAX_IDS];
    static struct rwk_span spans[MAX_IDS];
    static char text[1 << 16];
    const struct rwk_node *input = rwk_tree_member(c, "text"),
                          *decoded = rwk_tree_member(c, "decoded");
    const struct rwk_node *want = rwk_tree_member(c, "ids"),
                          *special = rwk_tree_member(c, "ids_with_special");
    const struct rwk_node *places = rwk_tree_member(c, "offsets");
    size_t n = 0, n_expected = ids_of(want, expected), n_text = 0;
    ck_assert_int_eq(rwk_tokenizer_encode(t, input->string, input->string_size, 0, ids, MAX_IDS,
                                          spans, &n, NULL),
                     RWK_STATUS_OK);
    ck_assert_msg(n == n_expected && memcmp(ids, expected, n * sizeof *ids) == 0,
                  "line %zu, \"%s\": other ids", line, input->string);
    check_ids(t, input, special ? special : want, RWK_ENCODE_ADD_SPECIAL);
    if (places)
        ck_assert_uint_eq(ids_of(places, offsets), 2 * n);
    for (size_t i = 0; places && i < n; i++) { /* the reference's are whole characters */
        while (spans[i].begin > 0 && ((unsigned char)input->string[spans[i].begin] & 0xc0) == 0x80)
            spans[i].begin--;
        while (((unsigned char)input->string[spans[i].end] & 0xc0) == 0x80)
            spans[i].end++;
        ck_assert_msg(spans[i].begin == offsets[2 * i] && spans[i].end == offsets[2 * i + 1],
                      "line %zu, \"%s\": token %zu "
                      "covers [%u, %u), not [%u, %u)",
                      line, input->string, i, (unsigned)spans[i].begin, (unsigned)spans[i].end,
                      offsets[2 * i], offsets[2 * i + 1]);
    }
    ck_assert_int_eq(rwk_tokenizer_decode(t, ids, n, 0, text, sizeof text, &n_text, NULL),
                     RWK_STATUS_OK);
    ck_assert_msg(n_text == decoded->string_size && memcmp(text, decoded->string, n_text) == 0,
                  "line %zu, \"%s\" decodes to "
                  "\"%.*s\"",
                  line, input->string, (int)n_text, text);
}

START_TEST(every_part_of_the_format_gives_the_references_ids_offsets_and_text)
{
    char *data = malloc(1 << 20);
    struct rwk_memory memory;
    struct rwk_node *models = NULL, *root;
    FILE *f = fopen(RWK_TEST_DATA "/tokenizers/variants.jsonl", "rb");
    ck_assert_ptr_nonnull(f);
    size_t size = fread(data, 1, 1 << 20, f), line = 0, n_cases = 0;
    fclose(f);
    scratch_open();
    rwk_memory_init(&memory, NULL, 0);
    struct rwk_arena arena = { .memory = &memory };
    for (char *p = data, *end; (end = memchr(p, '\n', (size_t)(data + size - p)));
         p = end + 1, line++) {
        ck_assert_int_eq(
            rwk_tree_parse(&root, &arena, p, (size_t)(end - p), "variants.jsonl", NULL),
            RWK_STATUS_OK);
        if (!models) {
            models = root;
            continue;
        }
        const struct rwk_node *model =
            rwk_tree_member(models, rwk_tree_member(root, "model")->string);
        static char file[1 << 16];
        int n = snprintf(file, sizeof file, "%s\"model\":%s}",
                         rwk_tree_member(root, "tokenizer")->string, model->string);
        struct rwk_tokenizer *t = NULL;
        struct rwk_error error = { .size = sizeof error };
        const char *path = scratch_write("tokenizer.json", file, (size_t)n);
        ck_assert_msg(rwk_tokenizer_open(&t, path, NULL, &error) == RWK_STATUS_OK, "line %zu: %s",
                      line, error.message);
        for (const struct rwk_node *c = rwk_tree_member(root, "cases")->children; c;
             c = c->next, n_cases++)
            check_case(t, c, line + 1);
        rwk_tokenizer_close(&t);
    }
    ck_assert_uint_gt(n_cases, 200);
    rwk_arena_finish(&arena);
    scratch_close();
    free(data);
}
END_TEST

START_TEST(capacity_zero_asks_for_the_size)
{
    static const char text[] = "The quick brown fox, and the lazy dog.";
    struct rwk_tokenizer *t = open_tokenizer(names[_i]);
    uint32_t ids[64], one[1];
    size_t n = 0, again = 0;
    ck_assert_int_eq(rwk_tokenizer_encode(t, text, sizeof text - 1, 0, NULL, 0, NULL, &n, NULL),
                     RWK_STATUS_OK);
    ck_assert_int_eq(rwk_tokenizer_encode(t, text, sizeof text - 1, 0, ids, 64, NULL, &again, NULL),
                     RWK_STATUS_OK);
    ck_assert_uint_eq(n, again);
    ck_assert_int_eq(rwk_tokenizer_encode(t, text, sizeof text - 1, 0, one, 1, NULL, &again, NULL),
                     RWK_STATUS_OK);
    ck_assert_uint_eq(one[0], ids[0]);
    ck_assert_uint_eq(n, again);
    rwk_tokenizer_close(&t);
}
END_TEST

START_TEST(broken_utf8_is_encoded_and_unknown_ids_are_refused)
{
    struct rwk_tokenizer *t = open_tokenizer(names[_i]);
    static const char broken[] = "a\xff\xe6\xad z\xc3";
    uint32_t ids[64], impossible = rwk_tokenizer_n_tokens(t);
    struct rwk_span spans[64];
    size_t n = 0;
    ck_assert_int_eq(
        rwk_tokenizer_encode(t, broken, sizeof broken - 1, 0, ids, 64, spans, &n, NULL),
        RWK_STATUS_OK);
    ck_assert_uint_gt(n, 0);
    for (size_t i = 0; i < n; i++)
        ck_assert(spans[i].begin <= spans[i].end && spans[i].end <= sizeof broken - 1);
    ck_assert_int_eq(rwk_tokenizer_decode(t, &impossible, 1, 0, NULL, 0, &n, NULL),
                     RWK_STATUS_RANGE);
    rwk_tokenizer_close(&t);
}
END_TEST

START_TEST(a_stop_text_ends_the_stream_before_itself)
{
    static const char text[] = "one two three four five";
    struct rwk_tokenizer *t = open_tokenizer(names[_i]);
    struct rwk_stream *stream = NULL;
    uint32_t ids[64];
    char got[64] = "";
    const char *part;
    size_t n = 0, size;
    int stopped = 0;
    ck_assert_int_eq(rwk_tokenizer_encode(t, text, sizeof text - 1, 0, ids, 64, NULL, &n, NULL),
                     RWK_STATUS_OK);
    ck_assert_int_eq(rwk_stream_create(&stream, t, 0, NULL), RWK_STATUS_OK);
    ck_assert_int_eq(rwk_stream_add_stop(stream, "ee fo", 5, NULL), RWK_STATUS_OK);
    ck_assert_int_eq(rwk_stream_add_stop(stream, "", 0, NULL), RWK_STATUS_RANGE);
    for (size_t i = 0; i < n && !stopped; i++) {
        ck_assert_int_eq(rwk_stream_push(stream, ids[i], &part, &size, &stopped, NULL),
                         RWK_STATUS_OK);
        strncat(got, part, size);
    }
    ck_assert_int_eq(stopped, 1);
    ck_assert_str_eq(got, "one two thr");
    rwk_stream_close(&stream);
    rwk_tokenizer_close(&t);
}
END_TEST

/* Each allocation refused in turn, in opening, encoding, decoding and streaming: out of memory, and
 * nothing kept. */
START_TEST(refused_memory_is_reported_and_given_back)
{
    static const char text[] = "Hello <s> w\xc3\xb6rld, one two  three 1234";
    char path[512];
    enum rwk_status status = RWK_STATUS_NOMEM;
    snprintf(path, sizeof path, RWK_TEST_DATA "/tokenizers/%s", names[_i]);
    long refuse = 0;
    for (; status == RWK_STATUS_NOMEM && refuse < 100000;
         refuse += refuse < 200 ? 1 : 1 + refuse / 16) {
        struct refusing host = { .refuse = refuse };
        const struct rwk_allocator allocator = refusing_allocator(&host);
        struct rwk_tokenizer_options options;
        struct rwk_tokenizer *t = NULL;
        struct rwk_stream *stream = NULL;
        uint32_t ids[256];
        struct rwk_span spans[256];
        const char *part;
        size_t n = 0, size = 0;
        int stopped;
        rwk_tokenizer_options_init(&options);
        options.allocator = &allocator;
        status = rwk_tokenizer_open(&t, path, &options, NULL);
        if (!status)
            status = rwk_tokenizer_encode(t, text, sizeof text - 1, 0, ids, 256, spans, &n, NULL);
        if (!status)
            status = rwk_tokenizer_decode(t, ids, n, 0, NULL, 0, &size, NULL);
        if (!status)
            status = rwk_stream_create(&stream, t, 0, NULL);
        for (size_t i = 0; i < n && !status; i++)
            status = rwk_stream_push(stream, ids[i], &part, &size, &stopped, NULL);
        ck_assert_msg(status == RWK_STATUS_OK || status == RWK_STATUS_NOMEM,
                      "allocation %ld: status %d", refuse, status);
        rwk_stream_close(&stream);
        rwk_tokenizer_close(&t);
        ck_assert_int_eq(host.n_held, 0);
    }
    ck_assert_int_eq(status, RWK_STATUS_OK);
    ck_assert_int_gt(refuse, 20);
}
END_TEST

/* 256 kB of one letter: quadratic merging would take minutes, the case's time limit is seconds. */
START_TEST(long_pieces_take_about_linear_time)
{
    size_t size = 256 << 10, n = 0;
    struct rwk_tokenizer *t = open_tokenizer(names[_i]);
    char *text = malloc(size);
    memset(text, 'x', size);
    ck_assert_int_eq(rwk_tokenizer_encode(t, text, size, 0, NULL, 0, NULL, &n, NULL),
                     RWK_STATUS_OK);
    ck_assert_uint_gt(n, 0);
    free(text);
    rwk_tokenizer_close(&t);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tokenizer");
    TCase *tcase = tcase_create("golden");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, ids_and_texts_are_the_references, 0, N_NAMES);
    tcase_add_test(tcase, every_part_of_the_format_gives_the_references_ids_offsets_and_text);
    tcase_add_loop_test(tcase, capacity_zero_asks_for_the_size, 0, N_NAMES);
    tcase_add_loop_test(tcase, broken_utf8_is_encoded_and_unknown_ids_are_refused, 0, N_NAMES);
    tcase_add_loop_test(tcase, a_stop_text_ends_the_stream_before_itself, 0, N_NAMES);
    tcase_add_loop_test(tcase, refused_memory_is_reported_and_given_back, 0, N_NAMES);
    tcase_add_loop_test(tcase, long_pieces_take_about_linear_time, 0, N_NAMES);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
