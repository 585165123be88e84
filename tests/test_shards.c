/* The weights of a directory: one file, or the files of an index, which is the authority. */
#include <sys/stat.h>
#include "loaders/shards.h"
#include "scratch.h"

static struct rwk_memory memory;
static struct rwk_error error;
static struct rwk_weights_set set;

static void setup(void)
{
    scratch_open();
    rwk_memory_init(&memory, NULL, 0);
    error = (struct rwk_error) { .size = sizeof error };
    set = (struct rwk_weights_set) { 0 };
}

static void teardown(void)
{
    rwk_weights_close(&set);
    rwk_weights_close(&set);
    scratch_close();
    ck_assert_uint_eq(atomic_load(&memory.used), 0);
}

/* A file of U8 tensors, one for each letter of `names`, with one element each, whose value is
 * `value`. */
static void write_shard(const char *file, const char *names, char value)
{
    char bytes[4096];
    size_t n = 8;
    for (size_t i = 0; names[i]; i++)
        n += (size_t)sprintf(bytes + n,
                             "%c\"%c\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%zu,%zu]}",
                             i ? ',' : '{', names[i], i, i + 1);
    bytes[n++] = '}';
    memcpy(bytes, &(uint64_t) { n - 8 }, 8);
    memset(bytes + n, value, strlen(names));
    scratch_write(file, bytes, n + strlen(names));
}

static void write_index(const char *text)
{
    scratch_write("model.safetensors.index.json", text, strlen(text));
}

static enum rwk_status open_path(struct rwk_weights_set *ret_set, const char *path,
                                 enum rwk_load_mode mode, struct rwk_memory *from)
{
    struct rwk_files files = rwk_files_of(path, from);
    return rwk_weights_open(ret_set, &files, mode, &error);
}

static enum rwk_status open_set(void)
{
    return open_path(&set, scratch, RWK_LOAD_MAP, &memory);
}

static void assert_open(void)
{
    ck_assert_msg(open_set() == RWK_STATUS_OK, "%s", error.message);
}

static void assert_fails(enum rwk_status status, const char *file, const char *part)
{
    ck_assert_int_eq(open_set(), status);
    ck_assert_ptr_null(set.memory);
    ck_assert_msg(strstr(error.message, part) != NULL, "\"%s\" does not say \"%s\"", error.message,
                  part);
    assert_message(&error, scratch_path(file));
}

/* The value of a tensor, or 0 when there is none. */
static char value_of(const char *name)
{
    const struct rwk_tensor *tensor = rwk_weights_find(&set, name, strlen(name));
    return tensor ? *(const char *)tensor->data : 0;
}

START_TEST(opens_a_single_file)
{
    write_shard("model.safetensors", "ab", 1);
    assert_open();
    ck_assert_uint_eq(set.n_tensors, 2);
    ck_assert_int_eq(value_of("a"), 1);
    ck_assert_int_eq(value_of("c"), 0);
    ck_assert_int_eq(value_of(""), 0);
}
END_TEST

START_TEST(a_file_without_tensors_opens)
{
    scratch_write("model.safetensors", "\2\0\0\0\0\0\0\0{}", 10);
    assert_open();
    ck_assert_uint_eq(set.n_tensors, 0);
    ck_assert_int_eq(value_of("a"), 0);
}
END_TEST

START_TEST(opens_the_shards_of_an_index)
{
    write_shard("x1.safetensors", "ab", 1);
    write_shard("x2.safetensors", "cd", 2);
    write_index("\xef\xbb\xbf{\"metadata\":{\"total_size\":4.0,\"deep\":[[{}]]},\r\n\"weight_map\":"
                "{\"d\":\"x2.safetensors\","
                "\"a\":\"x1.safetensors\",\"b\":\"x1.safetensors\",\"c\":\"x2.safetensors\"}}");
    assert_open();
    ck_assert_uint_eq(set.n_files, 2);
    ck_assert_uint_eq(set.n_tensors, 4);
    ck_assert_int_eq(value_of("a"), 1);
    ck_assert_int_eq(value_of("d"), 2);
    ck_assert_str_eq(rwk_weights_find(&set, "c", 1)->file->path, scratch_path("x2.safetensors"));
}
END_TEST

START_TEST(the_single_file_wins_over_an_index)
{
    write_shard("model.safetensors", "a", 1);
    write_shard("x.safetensors", "a", 2);
    write_index("{\"weight_map\":{\"a\":\"x.safetensors\"}}");
    assert_open();
    ck_assert_int_eq(value_of("a"), 1);
}
END_TEST

START_TEST(the_index_says_which_copy_counts)
{
    /* b lies in both files, c in the first only but unmapped; a stray file is not looked at. */
    write_shard("old.safetensors", "abc", 1);
    write_shard("new.safetensors", "b", 2);
    scratch_write("stray.safetensors", "nonsense", 8);
    write_index("{\"weight_map\":{\"a\":\"old.safetensors\",\"b\":\"new.safetensors\"}}");
    assert_open();
    ck_assert_uint_eq(set.n_tensors, 2);
    ck_assert_int_eq(value_of("a"), 1);
    ck_assert_int_eq(value_of("b"), 2);
    ck_assert_int_eq(value_of("c"), 0);
}
END_TEST

START_TEST(a_missing_file_is_named)
{
    write_shard("x1.safetensors", "a", 1);
    write_index("{\"weight_map\":{\"a\":\"x1.safetensors\",\"b\":\"x2.safetensors\"}}");
    assert_fails(RWK_STATUS_IO, "x2.safetensors", "No such file");
}
END_TEST

START_TEST(a_missing_tensor_is_named_with_its_file)
{
    write_shard("x1.safetensors", "ab", 1);
    write_shard("x2.safetensors", "c", 2);
    write_index("{\"weight_map\":{\"a\":\"x1.safetensors\",\"b\":\"x2.safetensors\",\"c\":\"x2."
                "safetensors\"}}");
    assert_fails(RWK_STATUS_MISMATCH, "x2.safetensors", "b: ");
    ck_assert_str_eq(error.subject, "b");
}
END_TEST

START_TEST(a_damaged_shard_is_named)
{
    write_shard("x1.safetensors", "a", 1);
    write_shard("x2.safetensors", "b", 2);
    write_index("{\"weight_map\":{\"a\":\"x1.safetensors\",\"b\":\"x2.safetensors\"}}");
    ck_assert_int_eq(truncate(scratch_path("x2.safetensors"), 60), 0);
    assert_fails(RWK_STATUS_FORMAT, "x2.safetensors", "truncated");
}
END_TEST

START_TEST(a_bad_index_is_refused)
{
    static const char index[] = "model.safetensors.index.json";
    static const struct {
        const char *text, *part;
    } rows[] = {
        { "", "ends early" },
        { "{", "ends early" },
        { "[]", "object" },
        { "{}", "weight_map" },
        { "{\"weight_map\":{}}", "weight_map" },
        { "{\"weight_map\":[]}", "object" },
        { "{\"weight_map\":{\"a\":1}}", "file" },
        { "{\"weight_map\":{\"a\":\"x.safetensors\",\"a\":\"x.safetensors\"}}", "\"a\" twice" },
        { "{\"weight_map\":{\"a\":\"x.safetensors\",\"\\u0061\":\"y.safetensors\"}}",
          "\"a\" twice" },
        { "{\"weight_map\":{\"a\":\"x.safetensors\"},\"weight_map\":{\"a\":\"x.safetensors\"}}",
          "twice" },
        { "{\"weight_map\":{\"a\":\"x.safetensors\"}} x", "follows" },
        { "{\"weight_map\":{\"a\":\"x\\u0000.safetensors\"}}", "NUL" },
        { "{\"weight_map\":{\"a\":\"x.safetensors\"}", "ends early" },
    };
    write_shard("x.safetensors", "a", 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        write_index(rows[i].text);
        assert_fails(RWK_STATUS_FORMAT, index, rows[i].part);
    }
}
END_TEST

START_TEST(names_that_leave_the_directory_are_refused)
{
    static const char *const names[] = { "", "/etc/passwd", "../x.safetensors",
                                         "a/../../x.safetensors", ".." };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char text[128];
        snprintf(text, sizeof text, "{\"weight_map\":{\"a\":\"%s\"}}", names[i]);
        write_index(text);
        assert_fails(RWK_STATUS_FORMAT, "model.safetensors.index.json", "inside the directory");
    }
}
END_TEST

START_TEST(says_what_was_looked_for)
{
    ck_assert_int_eq(open_set(), RWK_STATUS_IO);
    ck_assert_ptr_nonnull(
        strstr(error.message, "model.safetensors nor model.safetensors.index.json"));
    scratch_write("pytorch_model.bin", "PK", 2);
    ck_assert_int_eq(open_set(), RWK_STATUS_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.message, "pytorch_model.bin"));
    ck_assert_ptr_nonnull(strstr(error.message, "only safetensors"));
    ck_assert_int_eq(open_path(&set, "/nowhere", RWK_LOAD_MAP, &memory),
                     RWK_STATUS_IO);
    ck_assert_ptr_nonnull(strstr(error.message, "does not exist"));
    ck_assert_int_eq(open_path(&set, "/dev/null", RWK_LOAD_MAP, &memory),
                     RWK_STATUS_IO);
    ck_assert_ptr_nonnull(strstr(error.message, "not a directory"));
}
END_TEST

START_TEST(pipes_and_broken_links_are_reported)
{
    ck_assert_int_eq(symlink("../../blobs/missing", scratch_path("model.safetensors")), 0);
    assert_fails(RWK_STATUS_IO, "model.safetensors", "No such file");
    remove(scratch_path("model.safetensors"));
    ck_assert_int_eq(mkfifo(scratch_path("model.safetensors"), 0600), 0);
    assert_fails(RWK_STATUS_IO, "model.safetensors", "not a regular file");
    remove(scratch_path("model.safetensors"));
    ck_assert_int_eq(mkdir(scratch_path("model.safetensors"), 0700), 0);
    assert_fails(RWK_STATUS_IO, "model.safetensors", "is a directory");
}
END_TEST

START_TEST(takes_large_maps)
{
    enum { N = 100000 };
    static char index[N * 64], shard[N * 80];
    char name[16];
    char *i_end = stpcpy(index, "{\"weight_map\":"), *s_end = shard + 8;
    for (int i = 0; i < N; i++) {
        char comma = i ? ',' : '{';
        i_end += sprintf(i_end, "%c\"t%d\":\"%c.safetensors\"", comma, i, i % 2 ? 'x' : 'y');
        s_end += sprintf(s_end, "%c\"t%d\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}",
                         comma, i);
    }
    strcpy(i_end, "}}");
    *s_end++ = '}';
    size_t m = (size_t)(s_end - shard);
    memcpy(shard, &(uint64_t) { m - 8 }, 8);
    write_index(index);
    scratch_write("x.safetensors", shard, m);
    scratch_write("y.safetensors", shard, m);
    assert_open();
    ck_assert_uint_eq(set.n_tensors, N);
    for (int i = 0; i < N; i++) {
        int size = snprintf(name, sizeof name, "t%d", i);
        const struct rwk_tensor *tensor = rwk_weights_find(&set, name, (size_t)size);
        if (!tensor || tensor->file != &set.files[i % 2])
            ck_abort_msg("%s is not found where the index says", name);
    }
}
END_TEST

START_TEST(survives_every_refused_allocation)
{
    write_shard("x1.safetensors", "ab", 1);
    write_shard("x2.safetensors", "c", 2);
    write_index("{\"weight_map\":{\"a\":\"x1.safetensors\",\"b\":\"x1.safetensors\",\"c\":\"x2."
                "safetensors\"}}");
    for (int mode = RWK_LOAD_MAP; mode <= RWK_LOAD_READ; mode++) {
        enum rwk_status status = RWK_STATUS_NOMEM;
        for (long refuse = 0; status; refuse++) {
            struct refusing host = { .refuse = refuse };
            struct rwk_allocator allocator = refusing_allocator(&host);
            struct rwk_memory own;
            struct rwk_weights_set own_set = { 0 };
            rwk_memory_init(&own, &allocator, 0);
            status = open_path(&own_set, scratch, (enum rwk_load_mode)mode, &own);
            ck_assert(status == RWK_STATUS_OK || status == RWK_STATUS_NOMEM);
            rwk_weights_close(&own_set);
            ck_assert_int_eq(host.n_held, 0);
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shards");
    TCase *cases = tcase_create("shards");
    suite_add_tcase(suite, cases);
    tcase_add_checked_fixture(cases, setup, teardown);
    tcase_set_timeout(cases, 60);
    tcase_add_test(cases, opens_a_single_file);
    tcase_add_test(cases, a_file_without_tensors_opens);
    tcase_add_test(cases, opens_the_shards_of_an_index);
    tcase_add_test(cases, the_single_file_wins_over_an_index);
    tcase_add_test(cases, the_index_says_which_copy_counts);
    tcase_add_test(cases, a_missing_file_is_named);
    tcase_add_test(cases, a_missing_tensor_is_named_with_its_file);
    tcase_add_test(cases, a_damaged_shard_is_named);
    tcase_add_test(cases, a_bad_index_is_refused);
    tcase_add_test(cases, names_that_leave_the_directory_are_refused);
    tcase_add_test(cases, says_what_was_looked_for);
    tcase_add_test(cases, pipes_and_broken_links_are_reported);
    tcase_add_test(cases, takes_large_maps);
    tcase_add_test(cases, survives_every_refused_allocation);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
