/* Directories whose files are not what they should be: each opens as what it still is, or is
 * refused with the reason, in memory bounded by its files, and without waiting for anything. */
#include "malformed.h"

#define CHECKPOINTS RWK_TEST_DATA "/checkpoints/"
#define TOKENIZERS RWK_TEST_DATA "/tokenizers/"

static const char *const models[] = { CHECKPOINTS "gpt_neo", CHECKPOINTS "llama-yarn",
                                      CHECKPOINTS "llama-bf16-sharded" };
static const char *const tokenizers[] = { TOKENIZERS "bloom-style", TOKENIZERS "spm-bpe-small",
                                          TOKENIZERS "unigram-metaspace" };
enum {
    N_MODELS = sizeof models / sizeof *models,
    N_TOKENIZERS = sizeof tokenizers / sizeof *tokenizers
};

static struct good_directory good;

static void setup(void)
{
    scratch_open();
}

static void teardown(void)
{
    good_free(&good);
    good = (struct good_directory) { 0 };
    scratch_close();
}

static void take(const char *path)
{
    good_read(&good, path);
    good_write(&good);
}

static bool is_json(const struct good_file *f)
{
    size_t n = strlen(f->name);
    return n > 5 && !strcmp(f->name + n - 5, ".json");
}

/* The bytes of a file that describe the rest: a whole JSON, the header of a safetensors file. */
static size_t described(const struct good_file *f)
{
    uint64_t header;
    size_t n = strlen(f->name);
    if (n < 12 || strcmp(f->name + n - 12, ".safetensors"))
        return f->size;
    memcpy(&header, f->data, 8);
    return 8 + (size_t)header;
}

/* Offsets worth a try: about `n` in what describes and a few in the rest. */
static size_t next_offset(const struct good_file *f, size_t offset, size_t n)
{
    size_t head = described(f), step = offset < head ? head / n : (f->size - head) / 16;
    return offset + (step ? step : 1);
}

static enum rwk_status try_any(bool tokenizer)
{
    return tokenizer ? try_tokenizer() : try_model(&good, RWK_LOAD_MAP);
}

/* ---- cut, flipped ---- */

static void cut_files(bool tokenizer, size_t n_offsets)
{
    for (int i = 0; i < good.n; i++) {
        const struct good_file *f = &good.files[i];
        size_t end = f->size;
        while (end && strchr(" \r\n\t", f->data[end - 1]))
            end--;
        for (size_t at = 0; at < end; at = next_offset(f, at, n_offsets)) {
            scratch_write(f->name, f->data, at);
            enum rwk_status status = try_any(tokenizer);
            bool must_fail = !tokenizer || is_json(f);
            ck_assert_msg(status || !must_fail, "%s opens after %zu of %zu bytes", f->name, at,
                          f->size);
        }
        scratch_write(f->name, f->data, f->size);
    }
    ck_assert_int_eq(try_any(tokenizer), RWK_STATUS_OK);
}

START_TEST(a_model_with_a_file_cut_anywhere_is_refused)
{
    take(models[_i]);
    cut_files(false, 400);
}
END_TEST

START_TEST(a_tokenizer_with_a_file_cut_anywhere_is_refused)
{
    take(tokenizers[_i]);
    cut_files(true, 150);
}
END_TEST

static void put_byte(FILE *file, size_t at, int byte)
{
    ck_assert(!fseek(file, (long)at, SEEK_SET) && fputc(byte, file) != EOF && !fflush(file));
}

static void spoil_files(bool tokenizer, size_t n_offsets)
{
    static const char bytes[] = "\"0{}[]:,-9e.\\n \xff\x80";
    uint32_t random = 1;
    for (int i = 0; i < good.n; i++) {
        const struct good_file *f = &good.files[i];
        FILE *file = fopen(scratch_path(f->name), "r+b");
        ck_assert_ptr_nonnull(file);
        for (size_t at = 0; at < f->size; at = next_offset(f, at, n_offsets)) {
            random = random * 1664525 + 1013904223;
            put_byte(file, at, f->data[at] ^ 1 << (random >> 24) % 8);
            try_any(tokenizer);
            put_byte(file, at, (unsigned char)bytes[(random >> 16) % (sizeof bytes)]);
            try_any(tokenizer);
            put_byte(file, at, f->data[at]);
        }
        fclose(file);
    }
    ck_assert_int_eq(try_any(tokenizer), RWK_STATUS_OK);
}

START_TEST(a_model_with_a_wrong_byte_anywhere_does_no_harm)
{
    take(models[_i]);
    spoil_files(false, 600);
}
END_TEST

START_TEST(a_tokenizer_with_a_wrong_byte_anywhere_does_no_harm)
{
    take(tokenizers[_i]);
    spoil_files(true, 150);
}
END_TEST

/* ---- JSON ---- */

/* The file with `text` put in after its first brace. */
static void insert(const struct good_file *f, const char *text, size_t size)
{
    const unsigned char *brace = memchr(f->data, '{', f->size);
    size_t before = brace ? (size_t)(brace - f->data) + 1 : 0;
    unsigned char *whole = malloc(f->size + size);
    memcpy(whole, f->data, before);
    memcpy(whole + before, text, size);
    memcpy(whole + before + size, f->data + before, f->size - before);
    scratch_write(f->name, whole, f->size + size);
    free(whole);
}

/* "deep": [[[...]]], with or without the closing half. */
static char *nest(size_t depth, const char *open, const char *close, bool closed, size_t *ret_size)
{
    static const char key[] = "\"deep\":";
    size_t n_open = strlen(open), n_close = strlen(close), size = sizeof key - 1;
    char *text = malloc(size + depth * (n_open + n_close) + 3);
    memcpy(text, key, size);
    for (size_t i = 0; i < depth; i++, size += n_open)
        memcpy(text + size, open, n_open);
    if (closed) {
        text[size++] = '1';
        for (size_t i = 0; i < depth; i++, size += n_close)
            memcpy(text + size, close, n_close);
        text[size++] = ',';
    }
    *ret_size = size;
    return text;
}

static void nest_files(bool tokenizer)
{
    static const struct {
        const char *open, *close;
    } brackets[] = { { "[", "]" }, { "{\"a\":", "}" } };
    for (int i = 0; i < good.n; i++) {
        struct good_file *f = &good.files[i];
        if (!is_json(f))
            continue;
        for (int kind = 0; kind < 4; kind++)
            for (size_t depth = 10; depth <= 1000000; depth *= kind % 2 ? 100000 : 10000) {
                size_t size;
                char *text =
                    nest(depth, brackets[kind / 2].open, brackets[kind / 2].close, kind % 2, &size);
                good.size += size;
                insert(f, text, size);
                enum rwk_status status = try_any(tokenizer);
                good.size -= size;
                ck_assert_msg(kind % 2 && depth == 10 ? !status || tokenizer
                                                      : status == RWK_STATUS_FORMAT,
                              "%s, %zu deep: %s", f->name, depth, try_error.message);
                free(text);
            }
        scratch_write(f->name, f->data, f->size);
    }
}

START_TEST(deep_nesting_is_refused)
{
    if (_i < N_MODELS)
        take(models[_i]);
    else
        take(tokenizers[_i - N_MODELS]);
    nest_files(_i >= N_MODELS);
}
END_TEST

START_TEST(a_deep_safetensors_header_is_refused)
{
    take(models[0]);
    size_t size, depth = 1000000;
    char *text = nest(depth, "[", "]", true, &size), *file = malloc(size + 16);
    uint64_t header = size + 1; /* the comma at the end becomes the brace */
    memcpy(file, &header, 8);
    file[8] = '{';
    memcpy(file + 9, text, size);
    file[8 + size] = '}';
    scratch_write("model.safetensors", file, 8 + header);
    good.size += size;
    ck_assert_int_eq(try_model(&good, RWK_LOAD_MAP), RWK_STATUS_FORMAT);
    free(text);
    free(file);
}
END_TEST

/* As an editor on Windows saves it. */
static void save_with_mark(const struct good_file *f)
{
    unsigned char *text = malloc(2 * f->size + 3);
    size_t n = 3;
    memcpy(text, "\xef\xbb\xbf", 3);
    for (size_t i = 0; i < f->size; i++) {
        if (f->data[i] == '\n')
            text[n++] = '\r';
        text[n++] = f->data[i];
    }
    scratch_write(f->name, text, n);
    free(text);
}

START_TEST(a_byte_order_mark_and_other_line_ends_change_nothing)
{
    static float expected[MAX_LOGITS];
    take(models[_i]);
    ck_assert_int_eq(try_model(&good, RWK_LOAD_MAP), RWK_STATUS_OK);
    memcpy(expected, try_logits, sizeof expected);
    for (int i = 0; i < good.n; i++)
        if (is_json(&good.files[i]))
            save_with_mark(&good.files[i]);
    ck_assert_msg(!try_model(&good, RWK_LOAD_MAP), "%s", try_error.message);
    ck_assert_mem_eq(expected, try_logits, sizeof expected);
    /* In a safetensors header the mark is an error. */
    const struct good_file *weights = good_find(&good, "model.safetensors");
    if (weights) {
        insert(weights, "\xef\xbb\xbf", 3);
        ck_assert_int_eq(try_model(&good, RWK_LOAD_MAP), RWK_STATUS_FORMAT);
    }
}
END_TEST

/* ---- values that no key expects ---- */

/* The places of the values in a config of one key a line: [begin, end) after the colon. */
static bool next_value(const struct good_file *f, size_t *at, size_t *ret_begin, size_t *ret_end)
{
    const char *text = (const char *)f->data, *colon = memchr(text + *at, ':', f->size - *at);
    if (!colon)
        return false;
    const char *end = colon + 1 + strcspn(colon + 1, ",\n");
    *ret_begin = (size_t)(colon + 1 - text);
    *ret_end = *at = (size_t)(end - text);
    return true;
}

static const char *const families[] = {
    CHECKPOINTS "llama-yarn",   CHECKPOINTS "gpt2",     CHECKPOINTS "gpt_neox",
    CHECKPOINTS "bloom",        CHECKPOINTS "opt",      CHECKPOINTS "gemma3_text",
    CHECKPOINTS "falcon-new",   CHECKPOINTS "mpt",      CHECKPOINTS "phi3-partial",
    CHECKPOINTS "xglm",         CHECKPOINTS "cohere",   CHECKPOINTS "llama-longrope-long",
    CHECKPOINTS "smollm3-nope", CHECKPOINTS "stablelm", CHECKPOINTS "mistral-window",
};
enum { N_FAMILIES = sizeof families / sizeof *families };

START_TEST(no_value_of_any_key_does_harm)
{
    static const char *const values[] = { "-1",
                                          "0",
                                          "1",
                                          "3",
                                          "1.5",
                                          "-0.0",
                                          "1e999",
                                          "1e-999",
                                          "-1e308",
                                          "2147483647",
                                          "2147483648",
                                          "4294967295",
                                          "4294967296",
                                          "9223372036854775807",
                                          "9223372036854775808",
                                          "18446744073709551616",
                                          "65536",
                                          "1000000",
                                          "null",
                                          "true",
                                          "\"x\"",
                                          "\"12\"",
                                          "[]",
                                          "[1, 2]",
                                          "{}",
                                          "NaN",
                                          "Infinity",
                                          "0x10",
                                          "01",
                                          "+1",
                                          "1.",
                                          ".5" };
    size_t at = 0, begin, end;
    take(families[_i]);
    const struct good_file *f = good_find(&good, "config.json");
    while (next_value(f, &at, &begin, &end))
        for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
            char text[8192];
            int n = snprintf(text, sizeof text, "%.*s %s%.*s", (int)begin, (const char *)f->data,
                             values[v], (int)(f->size - end), (const char *)f->data + end);
            ck_assert_int_lt(n, (int)sizeof text);
            scratch_write(f->name, text, (size_t)n);
            try_model(&good, RWK_LOAD_MAP);
        }
}
END_TEST

/* ---- tensors that are not there ---- */

/* What a model may do without: what it does not use, a head that the embedding stands in for (or
 * the other way round), and biases of the whole model. In a layer, what other layers have must be
 * there. */
static bool may_be_missing(const struct rwk_tensor_info *t, bool used)
{
    bool of_layer = strpbrk(t->name, "0123456789") != NULL, bias = strstr(t->name, "bias") != NULL;
    return !used || (!of_layer && (bias || t->n_dims == 2));
}

START_TEST(a_missing_tensor_is_named)
{
    static const char *const names[] = {
        "llama-yarn",  "gpt2",       "gpt_neox",   "bloom", "opt",   "opt-350m-style",
        "gemma3_text", "falcon-new", "falcon-mqa", "mpt",   "phi",   "xglm",
        "cohere",      "stablelm",   "qwen3",      "olmo",  "olmo2", "starcoder2",
        "gptj",        "biogpt"
    };
    char path[256];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, CHECKPOINTS "%s", names[i]);
        take(path);
        struct rwk_model *whole = NULL;
        ck_assert_int_eq(rwk_model_open(&whole, path, NULL, NULL), RWK_STATUS_OK);
        FILE *file = fopen(scratch_path("model.safetensors"), "r+b");
        const struct good_file *f = good_find(&good, "model.safetensors");
        for (size_t k = 0; k < rwk_model_n_tensors(whole); k++) {
            struct rwk_tensor_info t = { 0 };
            char key[256];
            rwk_model_get_tensor(whole, k, &t);
            int n = snprintf(key, sizeof key, "\"%s\"", t.name);
            const unsigned char *at = memmem(f->data, f->size, key, (size_t)n);
            ck_assert_ptr_nonnull(at);
            put_byte(file, (size_t)(at - f->data) + 1, 'X');
            enum rwk_status status = try_model(&good, RWK_LOAD_MAP);
            ck_assert_msg(status == RWK_STATUS_MISMATCH || (!status && may_be_missing(&t, t.used)),
                          "%s without %s: %s", names[i], t.name, try_error.message);
            put_byte(file, (size_t)(at - f->data) + 1, t.name[0]);
        }
        fclose(file);
        rwk_model_close(&whole);
        good_free(&good);
        good.n = 0;
    }
}
END_TEST

/* ---- names, links, pipes ---- */

static enum rwk_status try_index(const char *file)
{
    char text[4096];
    int n = snprintf(text, sizeof text, "{\"weight_map\": {\"a\": \"%s\"}}", file);
    scratch_write("model.safetensors.index.json", text, (size_t)n);
    return try_model(&good, RWK_LOAD_MAP);
}

START_TEST(an_index_does_not_lead_out_of_the_directory)
{
    static const char *const names[] = {
        "../x",         "/etc/passwd",      "a/../../x",        "..", "./../x", "a/..", "",
        "x/../../../x", "\\u002e\\u002e/x", "\\u002fetc/passwd"
    };
    take(models[2]);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        ck_assert_msg(try_index(names[i]) == RWK_STATUS_FORMAT, "%s: %s", names[i],
                      try_error.message);
        ck_assert_ptr_nonnull(strstr(try_error.message, "model.safetensors.index.json"));
    }
    ck_assert_int_eq(try_index("missing.safetensors"), RWK_STATUS_IO);
    ck_assert_int_ne(try_index("x\\u0000y"), RWK_STATUS_OK);
    ck_assert_int_eq(try_index("."), RWK_STATUS_IO);
}
END_TEST

/* Every file a link to ../../blobs/NUMBER, as the cache of the hub lays a model out. */
START_TEST(the_links_of_the_hub_cache_are_followed)
{
    char target[256], saved[64];
    take(models[2]);
    scratch_clear();
    ck_assert(!mkdir(scratch_path("blobs"), 0755) && !mkdir(scratch_path("snapshots"), 0755) &&
              !mkdir(scratch_path("snapshots/0123abcd"), 0755));
    for (int i = 0; i < good.n; i++) {
        snprintf(target, sizeof target, "blobs/%040d", i);
        scratch_write(target, good.files[i].data, good.files[i].size);
        snprintf(target, sizeof target, "snapshots/0123abcd/%.100s", good.files[i].name);
        const char *link = scratch_path(target);
        snprintf(target, sizeof target, "../../blobs/%040d", i);
        ck_assert_int_eq(symlink(target, link), 0);
    }
    snprintf(saved, sizeof saved, "%s", scratch);
    snprintf(scratch, sizeof scratch, "%.40s/snapshots/0123abcd", saved);
    ck_assert_msg(!try_model(&good, RWK_LOAD_MAP), "%s", try_error.message);
    ck_assert_msg(!try_model(&good, RWK_LOAD_READ), "%s", try_error.message);
    scratch_clear();
    rmdir(scratch);
    snprintf(scratch, sizeof scratch, "%.40s/blobs", saved);
    scratch_clear();
    snprintf(scratch, sizeof scratch, "%s", saved);
    rmdir(scratch_path("snapshots"));
}
END_TEST

/* What stands where a file should. Each maker removes what is there first. */
static void make_loop(const char *path)
{
    const char *name = strrchr(path, '/') + 1;
    ck_assert_int_eq(symlink(name, path), 0);
}
static void make_broken_link(const char *path)
{
    ck_assert_int_eq(symlink("nowhere", path), 0);
}
static void make_pipe(const char *path)
{
    ck_assert_int_eq(mkfifo(path, 0644), 0);
}
static void make_directory(const char *path)
{
    ck_assert_int_eq(mkdir(path, 0755), 0);
}
static void make_device_link(const char *path)
{
    ck_assert_int_eq(symlink("/dev/zero", path), 0);
}
static void make_empty(const char *path)
{
    scratch_write(strrchr(path, '/') + 1, "", 0);
}

static void (*const makers[])(const char *path) = { make_loop,      make_broken_link, make_pipe,
                                                    make_directory, make_device_link, make_empty };
enum { N_MAKERS = sizeof makers / sizeof *makers };

static void replace_files(bool tokenizer)
{
    for (int i = 0; i < good.n; i++)
        for (int m = 0; m < N_MAKERS; m++) {
            const struct good_file *f = &good.files[i];
            const char *path = scratch_path(f->name);
            ck_assert_int_eq(remove(path), 0);
            makers[m](path);
            enum rwk_status status = try_any(tokenizer);
            ck_assert_msg(status == RWK_STATUS_IO || (makers[m] == make_empty && status),
                          "%s, %d: %s %s", f->name, m, rwk_status_name(status), try_error.message);
            ck_assert_msg(strstr(try_error.message, f->name) != NULL, "%s, %d: %s", f->name, m,
                          try_error.message);
            remove(path);
            scratch_write(f->name, f->data, f->size);
        }
    ck_assert_int_eq(try_any(tokenizer), RWK_STATUS_OK);
}

START_TEST(what_is_no_file_is_refused_at_once)
{
    if (_i < N_MODELS)
        take(models[_i]);
    else
        take(tokenizers[_i - N_MODELS]);
    replace_files(_i >= N_MODELS);
}
END_TEST

START_TEST(a_directory_that_is_none_is_refused)
{
    char whole[64];
    snprintf(whole, sizeof whole, "%s", scratch);
    for (int m = 0; m < N_MAKERS; m++) {
        const char *path = scratch_path("model");
        makers[m](path);
        snprintf(scratch, sizeof scratch, "%.50s/model", whole);
        ck_assert_int_eq(try_model(&good, RWK_LOAD_MAP), RWK_STATUS_IO);
        ck_assert_int_ne(try_tokenizer(), RWK_STATUS_OK);
        snprintf(scratch, sizeof scratch, "%s", whole);
        remove(path);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("malformed");
    TCase *tcase = tcase_create("malformed");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 300);
    tcase_add_loop_test(tcase, a_model_with_a_file_cut_anywhere_is_refused, 0, N_MODELS);
    tcase_add_loop_test(tcase, a_tokenizer_with_a_file_cut_anywhere_is_refused, 0, N_TOKENIZERS);
    tcase_add_loop_test(tcase, a_model_with_a_wrong_byte_anywhere_does_no_harm, 0, N_MODELS);
    tcase_add_loop_test(tcase, a_tokenizer_with_a_wrong_byte_anywhere_does_no_harm, 0,
                        N_TOKENIZERS);
    tcase_add_loop_test(tcase, deep_nesting_is_refused, 0, N_MODELS + N_TOKENIZERS);
    tcase_add_test(tcase, a_deep_safetensors_header_is_refused);
    tcase_add_loop_test(tcase, a_byte_order_mark_and_other_line_ends_change_nothing, 0, N_MODELS);
    tcase_add_loop_test(tcase, no_value_of_any_key_does_harm, 0, N_FAMILIES);
    tcase_add_test(tcase, a_missing_tensor_is_named);
    tcase_add_test(tcase, an_index_does_not_lead_out_of_the_directory);
    tcase_add_test(tcase, the_links_of_the_hub_cache_are_followed);
    tcase_add_loop_test(tcase, what_is_no_file_is_refused_at_once, 0, N_MODELS + N_TOKENIZERS);
    tcase_add_test(tcase, a_directory_that_is_none_is_refused);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
