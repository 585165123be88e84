/* Files: mapped and read alike, what is not a regular file refused without blocking, names that
 * stay inside. */
#include <errno.h>
#include <sys/stat.h>
#include "loaders/file.h"
#include "scratch.h"

static struct rwk_memory memory;
static struct rwk_error error;
static const enum rwk_load_mode modes[] = { RWK_LOAD_MAP, RWK_LOAD_READ, RWK_LOAD_MAP_LOCK };

static void setup(void)
{
    scratch_open();
    rwk_memory_init(&memory, NULL, 0);
    error = (struct rwk_error) { .size = sizeof error };
}

static void teardown(void)
{
    scratch_close();
    ck_assert_uint_eq(atomic_load(&memory.used), 0);
}

START_TEST(holds_the_same_bytes_in_every_mode)
{
    enum { N = 100001 };
    char *bytes = malloc(N);
    for (int i = 0; i < N; i++)
        bytes[i] = (char)(i * 7);
    const char *path = scratch_write("bytes", bytes, N);
    for (size_t i = 0; i < 3; i++) {
        struct rwk_file file = { 0 };
        ck_assert_msg(rwk_file_open(&file, path, modes[i], &memory, &error) == RWK_STATUS_OK, "%s",
                      error.message);
        ck_assert_uint_eq(file.size, N);
        ck_assert_mem_eq(file.data, bytes, N);
        ck_assert_str_eq(file.path, path);
        ck_assert_int_eq((int)file.load_mode, (int)modes[i]);
        for (int how = RWK_PREFETCH_AUTO; how <= RWK_PREFETCH_NOW; how++) {
            rwk_file_prefetch(&file, 0, N, (enum rwk_prefetch)how, NULL);
            rwk_file_prefetch(&file, 4097, SIZE_MAX, (enum rwk_prefetch)how, NULL);
            rwk_file_prefetch(&file, N, 1, (enum rwk_prefetch)how, NULL);
            rwk_file_prefetch(&file, SIZE_MAX, SIZE_MAX, (enum rwk_prefetch)how, NULL);
        }
        rwk_file_close(&file);
        ck_assert_ptr_null(file.data);
        rwk_file_close(&file);
    }
    free(bytes);
}
END_TEST

START_TEST(takes_empty_files)
{
    const char *path = scratch_write("empty", "", 0);
    for (size_t i = 0; i < 3; i++) {
        struct rwk_file file = { 0 };
        ck_assert_int_eq(rwk_file_open(&file, path, modes[i], &memory, &error), RWK_STATUS_OK);
        ck_assert_uint_eq(file.size, 0);
        ck_assert_ptr_nonnull(file.data);
        rwk_file_prefetch(&file, 0, 0, RWK_PREFETCH_NOW, NULL);
        rwk_file_close(&file);
    }
}
END_TEST

static void assert_no_file(const char *path, int os_error)
{
    struct rwk_file file = { .size = 77 };
    ck_assert_int_eq(rwk_file_open(&file, path, RWK_LOAD_MAP, &memory, &error), RWK_STATUS_IO);
    ck_assert_uint_eq(file.size, 77);
    ck_assert_int_eq(error.os_error, os_error);
    assert_message(&error, path);
}

START_TEST(refuses_what_is_not_a_regular_file)
{
    ck_assert_int_eq(mkfifo(scratch_path("pipe"), 0600), 0);
    assert_no_file(scratch_path("pipe"), 0); /* and does not wait for a writer */
    assert_no_file(scratch, 0);
    assert_no_file("/dev/null", 0);
    assert_no_file(scratch_path("missing"), ENOENT);
    assert_no_file("", ENOENT);
    ck_assert_int_eq(symlink("nowhere", scratch_path("broken")), 0);
    assert_no_file(scratch_path("broken"), ENOENT);
    ck_assert(rwk_path_exists(scratch_path("broken")));
    ck_assert(!rwk_path_exists(scratch_path("missing")));
    ck_assert(rwk_path_is_directory(scratch));
    ck_assert(!rwk_path_is_directory(scratch_path("pipe")));
}
END_TEST

START_TEST(follows_links_as_the_hub_cache_lays_them)
{
    ck_assert_int_eq(mkdir(scratch_path("blobs"), 0700), 0);
    ck_assert_int_eq(mkdir(scratch_path("snapshot"), 0700), 0);
    scratch_write("blobs/c0ffee", "text", 4);
    ck_assert_int_eq(symlink("../blobs/c0ffee", scratch_path("snapshot/config.json")), 0);
    struct rwk_arena arena = { .memory = &memory };
    struct rwk_file file = { 0 };
    char *path = NULL;
    ck_assert_int_eq(rwk_path_join(&path, &arena, scratch_path("snapshot"), "config.json", &error),
                     RWK_STATUS_OK);
    ck_assert_int_eq(rwk_file_open(&file, path, RWK_LOAD_READ, &memory, &error), RWK_STATUS_OK);
    ck_assert_mem_eq(file.data, "text", 4);
    rwk_file_close(&file);
    rwk_arena_finish(&arena);
    remove(scratch_path("blobs/c0ffee"));
    remove(scratch_path("snapshot/config.json"));
}
END_TEST

START_TEST(joins_only_names_inside_the_directory)
{
    static const char *const good[] = { "a", "a/b.json", "..a", "a..", "a/..b", "...", "./a" };
    static const char *const bad[] = { "",          "/etc/passwd", "..",   "../a",
                                       "a/../../b", "a/..",        "./..", "a//../b" };
    struct rwk_arena arena = { .memory = &memory };
    char *path;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        char expected[64];
        snprintf(expected, sizeof expected, "dir/%s", good[i]);
        ck_assert_int_eq(rwk_path_join(&path, &arena, "dir", good[i], &error), RWK_STATUS_OK);
        ck_assert_str_eq(path, expected);
        ck_assert_int_eq(rwk_path_join(&path, &arena, "dir/", good[i], &error), RWK_STATUS_OK);
        ck_assert_str_eq(path, expected);
    }
    path = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_int_eq(rwk_path_join(&path, &arena, "dir", bad[i], &error), RWK_STATUS_FORMAT);
        ck_assert_ptr_null(path);
        assert_message(&error, "dir: ");
    }
    rwk_arena_finish(&arena);
}
END_TEST

START_TEST(survives_every_refused_allocation)
{
    const char *path = scratch_write("bytes", "12345", 5);
    for (size_t i = 0; i < 2; i++) {
        enum rwk_status status = RWK_STATUS_NOMEM;
        for (long refuse = 0; status; refuse++) {
            struct refusing host = { .refuse = refuse };
            struct rwk_allocator allocator = refusing_allocator(&host);
            struct rwk_memory own;
            struct rwk_file file = { 0 };
            rwk_memory_init(&own, &allocator, 0);
            status = rwk_file_open(&file, path, modes[i], &own, &error);
            ck_assert(status == RWK_STATUS_OK || status == RWK_STATUS_NOMEM);
            rwk_file_close(&file);
            ck_assert_int_eq(host.n_held, 0);
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("file");
    TCase *cases = tcase_create("file");
    suite_add_tcase(suite, cases);
    tcase_add_checked_fixture(cases, setup, teardown);
    tcase_add_test(cases, holds_the_same_bytes_in_every_mode);
    tcase_add_test(cases, takes_empty_files);
    tcase_add_test(cases, refuses_what_is_not_a_regular_file);
    tcase_add_test(cases, follows_links_as_the_hub_cache_lays_them);
    tcase_add_test(cases, joins_only_names_inside_the_directory);
    tcase_add_test(cases, survives_every_refused_allocation);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
