/* Sizes beyond the usual: a shard of more than 4 GiB, a hundred thousand tensors, names of ten
 * thousand bytes. */
#include "malformed.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>

#define CHECKPOINTS RWK_TEST_DATA "/checkpoints/"

enum { LONG_NAME = 10000, MANY = 100000 };

static struct good_directory good;
static float expected[MAX_LOGITS];

static void setup(void)
{
    scratch_open();
    good_read(&good, CHECKPOINTS "gpt_neo");
    good_write(&good);
    ck_assert_int_eq(try_model(&good, RWK_LOAD_MAP), RWK_STATUS_OK);
    memcpy(expected, try_logits, sizeof expected);
}

static void teardown(void)
{
    good_free(&good);
    scratch_close();
}

static void assert_same_model(uint32_t load_mode)
{
    ck_assert_msg(!try_model(&good, load_mode), "%s", try_error.message);
    ck_assert_mem_eq(try_logits, expected, sizeof expected);
}

/* ---- writing weights ---- */

struct text {
    char *data;
    size_t size, capacity;
};

static void add(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct text *t, const char *format, ...)
{
    va_list args;
    if (t->capacity - t->size < LONG_NAME + 1000)
        t->data = realloc(t->data, t->capacity = 2 * t->capacity + 2 * LONG_NAME);
    va_start(args, format);
    t->size += (size_t)vsnprintf(t->data + t->size, t->capacity - t->size, format, args);
    va_end(args);
}

/* Adds an entry of `size` bytes; U8, unless info is given. */
static void add_entry(struct text *t, const char *name, const struct rwk_tensor_info *info,
                      uint64_t offset, uint64_t size)
{
    add(t, "%c\"%s\":{\"dtype\":\"%s\",\"shape\":[", t->size ? ',' : '{', name,
        info ? rwk_dtype_name(info->dtype) : "U8");
    if (!info)
        add(t, "%llu", (unsigned long long)size);
    for (uint32_t d = 0; info && d < info->n_dims; d++)
        add(t, "%s%llu", d ? "," : "", (unsigned long long)info->shape[d]);
    add(t, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)offset,
        (unsigned long long)(offset + size));
}

/* Writes the model's tensors again as `name`, behind n others with these names and of this size
 * each. */
static void write_behind(const char *name, size_t n, const char *(*name_of)(size_t i),
                         uint64_t size)
{
    struct rwk_tensor_file *file = NULL;
    struct rwk_tensor_info info = { 0 };
    struct text header = { 0 };
    uint64_t at = 0;
    ck_assert_int_eq(
        rwk_tensor_file_open(&file, CHECKPOINTS "gpt_neo/model.safetensors", NULL, NULL),
        RWK_STATUS_OK);
    for (size_t i = 0; i < n; i++, at += size)
        add_entry(&header, name_of(i), NULL, at, size);
    for (size_t i = 0; i < rwk_tensor_file_n_tensors(file); i++, at += info.n_bytes) {
        rwk_tensor_file_get(file, i, &info);
        add_entry(&header, info.name, &info, at, info.n_bytes);
    }
    add(&header, "}");
    uint64_t length = header.size, total = 8 + length + at;
    int fd = open(scratch_path(name), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    ck_assert_int_ge(fd, 0);
    ck_assert_msg(!ftruncate(fd, (off_t)total), "no sparse file of %llu bytes here: %s",
                  (unsigned long long)total, strerror(errno));
    ck_assert(pwrite(fd, &length, 8, 0) == 8 &&
              pwrite(fd, header.data, header.size, 8) == (ssize_t)header.size);
    at = 8 + length + n * size;
    for (size_t i = 0; i < rwk_tensor_file_n_tensors(file); i++, at += info.n_bytes) {
        rwk_tensor_file_get(file, i, &info);
        ck_assert_int_eq(pwrite(fd, info.data, info.n_bytes, (off_t)at), (ssize_t)info.n_bytes);
    }
    close(fd);
    rwk_tensor_file_close(&file);
    good.size += header.size; /* what memory may be spent on */
    free(header.data);
}

/* An index that gives every tensor of the model, and one more unless NULL, to a shard. */
static void write_index(const char *shard, const char *one_more)
{
    struct rwk_tensor_file *file = NULL;
    struct rwk_tensor_info info = { 0 };
    struct text index = { 0 };
    ck_assert_int_eq(
        rwk_tensor_file_open(&file, CHECKPOINTS "gpt_neo/model.safetensors", NULL, NULL),
        RWK_STATUS_OK);
    add(&index, "{\"weight_map\": {");
    if (one_more)
        add(&index, "\"%s\": \"%s\", ", one_more, shard);
    for (size_t i = 0; i < rwk_tensor_file_n_tensors(file); i++) {
        rwk_tensor_file_get(file, i, &info);
        add(&index, "%s\"%s\": \"%s\"", i ? ", " : "", info.name, shard);
    }
    add(&index, "}}");
    rwk_tensor_file_close(&file);
    remove(scratch_path("model.safetensors"));
    scratch_write("model.safetensors.index.json", index.data, index.size);
    free(index.data);
}

/* ---- beyond four gigabytes ---- */

static const uint64_t five_gigabytes = UINT64_C(5) << 30;

static const char *huge_name(size_t i)
{
    (void)i;
    return "not.needed";
}

START_TEST(tensors_beyond_four_gigabytes_are_read)
{
    struct stat st;
    write_behind("model.safetensors", 1, huge_name, five_gigabytes);
    ck_assert_int_eq(stat(scratch_path("model.safetensors"), &st), 0);
    ck_assert_uint_gt((uint64_t)st.st_size, five_gigabytes);
    ck_assert_uint_lt((uint64_t)st.st_blocks * 512, 16 << 20); /* sparse: the rest is nowhere */
    assert_same_model(RWK_LOAD_MAP);
    /* Reading it would take more memory than the host's allocator grants. */
    ck_assert_int_eq(try_model(&good, RWK_LOAD_READ), RWK_STATUS_NOMEM);
}
END_TEST

START_TEST(a_shard_of_more_than_four_gigabytes_opens)
{
    write_behind("model-00001-of-00001.safetensors", 1, huge_name, five_gigabytes);
    write_index("model-00001-of-00001.safetensors", NULL);
    assert_same_model(RWK_LOAD_MAP);
}
END_TEST

START_TEST(a_cut_shard_of_more_than_four_gigabytes_is_refused)
{
    struct stat st;
    write_behind("model.safetensors", 1, huge_name, five_gigabytes);
    ck_assert_int_eq(stat(scratch_path("model.safetensors"), &st), 0);
    const uint64_t cuts[] = { 1, 4096, UINT64_C(1) << 32, UINT64_C(5) << 30 };
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        ck_assert_int_eq(truncate(scratch_path("model.safetensors"), st.st_size - (off_t)cuts[i]),
                         0);
        ck_assert_int_eq(try_model(&good, RWK_LOAD_MAP), RWK_STATUS_FORMAT);
    }
}
END_TEST

/* ---- many, and long ---- */

static const char *short_name(size_t i)
{
    static char name[32];
    snprintf(name, sizeof name, "extra.%zu", i);
    return name;
}

START_TEST(a_hundred_thousand_tensors_open)
{
    struct rwk_model *model = NULL;
    write_behind("model.safetensors", MANY, short_name, 1);
    assert_same_model(RWK_LOAD_MAP);
    ck_assert_int_eq(rwk_model_open(&model, scratch, NULL, NULL), RWK_STATUS_OK);
    ck_assert_uint_gt(rwk_model_n_tensors(model), MANY);
    rwk_model_close(&model);
}
END_TEST

/* All alike but for their last characters. */
static const char *long_name(size_t i)
{
    static char name[LONG_NAME + 1];
    memset(name, 'n', LONG_NAME);
    snprintf(name + LONG_NAME - 8, 9, "%08zu", i);
    return name;
}

static const char *same_long_name(size_t i)
{
    (void)i;
    return long_name(0);
}

START_TEST(names_of_ten_thousand_bytes_are_told_apart)
{
    write_behind("model.safetensors", 50, long_name, 3);
    assert_same_model(RWK_LOAD_MAP);
    write_behind("model.safetensors", 2, same_long_name, 3);
    ck_assert_int_eq(try_model(&good, RWK_LOAD_MAP), RWK_STATUS_FORMAT);
}
END_TEST

START_TEST(an_index_may_hold_names_of_ten_thousand_bytes)
{
    write_behind("shard.safetensors", 1, long_name, 3);
    write_index("shard.safetensors", long_name(0));
    assert_same_model(RWK_LOAD_MAP);
    write_index("shard.safetensors", long_name(1));
    ck_assert_int_eq(try_model(&good, RWK_LOAD_MAP), RWK_STATUS_MISMATCH);
    write_index(long_name(0), NULL); /* no file has such a name */
    ck_assert_int_eq(try_model(&good, RWK_LOAD_MAP), RWK_STATUS_IO);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("large");
    TCase *tcase = tcase_create("large");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, tensors_beyond_four_gigabytes_are_read);
    tcase_add_test(tcase, a_shard_of_more_than_four_gigabytes_opens);
    tcase_add_test(tcase, a_cut_shard_of_more_than_four_gigabytes_is_refused);
    tcase_add_test(tcase, a_hundred_thousand_tensors_open);
    tcase_add_test(tcase, names_of_ten_thousand_bytes_are_told_apart);
    tcase_add_test(tcase, an_index_may_hold_names_of_ten_thousand_bytes);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
