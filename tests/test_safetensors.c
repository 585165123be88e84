/* The safetensors reader against files named by the reference library's verdict (ok_..., bad_...),
 * and what such files cannot hold: large ones, long names, refused memory. */
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <time.h>
#include "loaders/safetensors.h"
#include "scratch.h"

static struct rwk_memory memory;
static struct rwk_arena arena;
static struct rwk_error error;

static void setup(void)
{
    rwk_memory_init(&memory, NULL, 0);
    arena = (struct rwk_arena) { .memory = &memory };
    error = (struct rwk_error) { .size = sizeof error };
}

static void teardown(void)
{
    rwk_arena_finish(&arena);
    ck_assert_uint_eq(atomic_load(&memory.used), 0);
}

static struct rwk_tensor *tensors;
static size_t n_tensors;

/* Parses header and data as a file, in a block of its exact size. */
static enum rwk_status parse(const char *header, size_t header_size, size_t data_size)
{
    static char *bytes;
    static struct rwk_file file;
    uint64_t n = header_size;
    free(bytes);
    bytes = calloc(1, 8 + header_size + data_size);
    memcpy(bytes, &n, 8);
    memcpy(bytes + 8, header, header_size);
    file = (struct rwk_file) { .path = "a.safetensors",
                               .data = bytes,
                               .size = 8 + header_size + data_size,
                               .memory = &memory };
    tensors = NULL;
    n_tensors = 77;
    return rwk_safetensors_parse(&tensors, &n_tensors, &file, &arena, &error);
}

static void assert_refused(const char *header, size_t data_size, const char *subject,
                           const char *part)
{
    ck_assert_msg(parse(header, strlen(header), data_size) == RWK_STATUS_FORMAT, "%s", header);
    ck_assert_ptr_null(tensors);
    ck_assert_uint_eq(n_tensors, 77);
    ck_assert_str_eq(error.subject, subject);
    ck_assert_msg(strstr(error.message, part) != NULL, "\"%s\" does not say \"%s\"", error.message,
                  part);
    assert_message(&error, "a.safetensors: ");
}

START_TEST(agrees_with_the_reference_on_every_file)
{
    DIR *directory = opendir(RWK_TEST_DATA "/malformed");
    int n = 0;
    ck_assert_ptr_nonnull(directory);
    for (struct dirent *entry; (entry = readdir(directory));) {
        char path[512];
        struct rwk_tensor_file *file = NULL;
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/malformed/%s", RWK_TEST_DATA, entry->d_name);
        enum rwk_status status = rwk_tensor_file_open(&file, path, NULL, &error);
        if (strncmp(entry->d_name, "ok_", 3) == 0) {
            ck_assert_msg(status == RWK_STATUS_OK, "%s", error.message);
        } else {
            ck_assert_msg(status == RWK_STATUS_FORMAT && !file, "%s was taken", path);
            assert_message(&error, path);
        }
        rwk_tensor_file_close(&file);
        n++;
    }
    closedir(directory);
    ck_assert_int_gt(n, 50);
}
END_TEST

START_TEST(tensors_come_in_the_order_of_their_data)
{
    static const char header[] =
        "{\"c\":{\"dtype\":\"F16\",\"shape\":[2,1],\"data_offsets\":[9,13]},\"e\":{\"dtype\":"
        "\"F32\",\"shape\":[0],\"data_offsets\":[9,9]},"
        "\"__metadata__\":{\"format\":\"pt\"},\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_"
        "offsets\":[1,9]},"
        "\"b\":{\"dtype\":\"BOOL\",\"shape\":[],\"data_offsets\":[0,1]}}  \n";
    ck_assert_msg(parse(header, sizeof header - 1, 13) == RWK_STATUS_OK, "%s", error.message);
    ck_assert_uint_eq(n_tensors, 4);
    ck_assert_str_eq(tensors[0].name, "b");
    ck_assert_uint_eq(tensors[0].n_dims, 0);
    ck_assert_str_eq(tensors[1].name, "a");
    ck_assert_str_eq(tensors[2].name, "e");
    ck_assert_uint_eq(tensors[2].n_bytes, 0);
    ck_assert_str_eq(tensors[3].name, "c");
    ck_assert_int_eq((int)tensors[3].dtype, RWK_DTYPE_F16);
    ck_assert_uint_eq(tensors[3].n_dims, 2);
    ck_assert_uint_eq(tensors[3].shape[0], 2);
    ck_assert_uint_eq(tensors[3].shape[1], 1);
    ck_assert_uint_eq(tensors[3].n_bytes, 4);
    ck_assert_ptr_eq(tensors[3].data,
                     (const char *)tensors[3].file->data + 8 + sizeof header - 1 + 9);
}
END_TEST

START_TEST(sorts_any_order)
{
    /* 500 tensors of 1 to 5 bytes, their entries in the order of a multiplicative walk. */
    enum { N = 499, STEP = 131 };
    char header[N * 80];
    size_t n = 0;
    for (size_t i = 0; i < N; i++) {
        size_t k = i * STEP % N, begin = 0;
        for (size_t j = 0; j < k; j++)
            begin += j % 5 + 1;
        n += (size_t)sprintf(
            header + n, "%c\"%zu\":{\"dtype\":\"U8\",\"shape\":[%zu],\"data_offsets\":[%zu,%zu]}",
            i ? ',' : '{', k, k % 5 + 1, begin, begin + k % 5 + 1);
    }
    header[n++] = '}';
    size_t size = 0;
    for (size_t j = 0; j < N; j++)
        size += j % 5 + 1;
    ck_assert_msg(parse(header, n, size) == RWK_STATUS_OK, "%s", error.message);
    for (size_t i = 0; i < N; i++) {
        char name[16];
        snprintf(name, sizeof name, "%zu", i);
        ck_assert_str_eq(tensors[i].name, name);
    }
}
END_TEST

START_TEST(knows_the_dtypes_of_the_format)
{
    static const struct {
        const char *name;
        unsigned bits;
        enum rwk_dtype dtype;
    } rows[] = {
        { "BOOL", 8, RWK_DTYPE_BOOL },
        { "U8", 8, RWK_DTYPE_U8 },
        { "I8", 8, RWK_DTYPE_I8 },
        { "F8_E5M2", 8, RWK_DTYPE_F8_E5M2 },
        { "F8_E4M3", 8, RWK_DTYPE_F8_E4M3 },
        { "I16", 16, RWK_DTYPE_I16 },
        { "U16", 16, RWK_DTYPE_U16 },
        { "F16", 16, RWK_DTYPE_F16 },
        { "BF16", 16, RWK_DTYPE_BF16 },
        { "I32", 32, RWK_DTYPE_I32 },
        { "U32", 32, RWK_DTYPE_U32 },
        { "F32", 32, RWK_DTYPE_F32 },
        { "F64", 64, RWK_DTYPE_F64 },
        { "I64", 64, RWK_DTYPE_I64 },
        { "U64", 64, RWK_DTYPE_U64 },
        { "F4", 4, RWK_DTYPE_OTHER },
        { "F6_E2M3", 6, RWK_DTYPE_OTHER },
        { "F6_E3M2", 6, RWK_DTYPE_OTHER },
        { "F8_E8M0", 8, RWK_DTYPE_OTHER },
        { "F8_E4M3FNUZ", 8, RWK_DTYPE_OTHER },
        { "F8_E5M2FNUZ", 8, RWK_DTYPE_OTHER },
        { "C64", 64, RWK_DTYPE_OTHER },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (unsigned bytes = 0; bytes < 80;
             bytes++) { /* of 8 elements only the right size is taken */
            char header[128];
            int n = snprintf(header, sizeof header,
                             "{\"a\":{\"dtype\":\"%s\",\"shape\":[8],\"data_offsets\":[0,%u]}}",
                             rows[i].name, bytes);
            ck_assert_int_eq(parse(header, (size_t)n, bytes) == RWK_STATUS_OK,
                             bytes == rows[i].bits);
            if (bytes != rows[i].bits)
                continue;
            ck_assert_int_eq((int)tensors[0].dtype, (int)rows[i].dtype);
            if (rows[i].dtype != RWK_DTYPE_OTHER) {
                ck_assert_str_eq(rwk_dtype_name(rows[i].dtype), rows[i].name);
                ck_assert_uint_eq(rwk_dtype_bits(rows[i].dtype), rows[i].bits);
            }
        }
    assert_refused("{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]}}", 1, "a",
                   "shape"); /* 12 bits */
    assert_refused("{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]}}", 2, "a",
                   "shape");
    ck_assert_str_eq(rwk_dtype_name(RWK_DTYPE_OTHER), "other");
    ck_assert_str_eq(rwk_dtype_name((enum rwk_dtype)99), "?");
    ck_assert_uint_eq(rwk_dtype_bits((enum rwk_dtype)99), 0);
}
END_TEST

START_TEST(says_which_tensor_and_where)
{
    assert_refused("{\"w\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,16]}}", 16, "w",
                   "12 bytes");
    ck_assert_uint_eq(error.byte_offset, 9);
    assert_refused("{\"w\":{\"dtype\":\"F33\",\"shape\":[3],\"data_offsets\":[0,16]}}", 16, "w",
                   "\"F33\"");
    ck_assert_uint_eq(error.byte_offset, 8 + 14);
    assert_refused("{\"w\":{\"dtype\":\"F32\",\"data_offsets\":[0,16]}}", 16, "w",
                   "shape is missing");
    assert_refused("{\"w\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}", 15, "w",
                   "truncated");
    assert_refused("{\"w\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}", 17, "",
                   "follow");
    ck_assert_uint_eq(error.byte_offset, 8 + 55 + 16);
    assert_refused("{\"w\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"v\":{"
                   "\"dtype\":\"U8\",\"shape\":[2],"
                   "\"data_offsets\":[1,3]}}",
                   3, "v", "\"w\"");
    assert_refused("{\"w\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}", 3, "w",
                   "gap of 1");
    assert_refused("{\"w\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},\"w\":{"
                   "\"dtype\":\"U8\",\"shape\":[0],"
                   "\"data_offsets\":[0,0]}}",
                   0, "w", "twice");
    assert_refused("{\"w\\u0000\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0, "",
                   "NUL");
    assert_refused("{\"w\n\":1}", 0, "", "control");
    ck_assert_uint_eq(error.byte_offset, 8 + 3);
    assert_refused("{\"__metadata__\":{\"a\":1}}", 0, "", "strings");
    assert_refused("{\"__metadata__\":{},\"__metadata__\":{}}", 0, "", "twice");
    assert_refused("{\"w\":[\"U8\",[0],[0,0]]}", 0, "w", "object");
}
END_TEST

START_TEST(overflows_are_seen)
{
    static const char *const shapes[] = {
        "18446744073709551615,2",
        "4294967296,4294967296",
        "4611686018427387904",
        "4294967296,4294967296,0",
        "18446744073709551616",
        "2305843009213693952",
        "-1",
        "1.0",
        "1e0",
        "\"1\"",
        "null",
        "[1]",
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        char header[256];
        snprintf(header, sizeof header,
                 "{\"w\":{\"dtype\":\"F64\",\"shape\":[%s],\"data_offsets\":[0,0]}}", shapes[i]);
        assert_refused(header, 0, "w", "shape");
    }
    static const char *const offsets[] = { "0",    "0,4,8", "0,18446744073709551616",
                                           "-0,4", "0,4.0", "" };
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        char header[256];
        snprintf(header, sizeof header,
                 "{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[%s]}}", offsets[i]);
        assert_refused(header, 4, "w", "data_offsets");
    }
    assert_refused("{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[18446744073709551612,"
                   "18446744073709551615]}}",
                   4, "w", "ends at");
    const char zero_first[] =
        "{\"w\":{\"dtype\":\"F64\",\"shape\":[0,4294967296,4294967296],\"data_offsets\":[0,0]}}";
    ck_assert_int_eq(parse(zero_first, strlen(zero_first), 0), RWK_STATUS_OK);
}
END_TEST

START_TEST(the_header_s_length_is_checked_before_anything_is_allocated)
{
    static const uint64_t lengths[] = {
        0,          3,          8,          100000000,  100000001,
        1ull << 31, 1ull << 32, 1ull << 63, UINT64_MAX, UINT64_MAX - 7
    };
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        char bytes[10] = "........{}";
        memcpy(bytes, &lengths[i], 8);
        struct rwk_file file = {
            .path = "a.safetensors", .data = bytes, .size = 10, .memory = &memory
        };
        ck_assert_int_eq(rwk_safetensors_parse(&tensors, &n_tensors, &file, &arena, &error),
                         RWK_STATUS_FORMAT);
        assert_message(&error, "a.safetensors: ");
        ck_assert_uint_eq(atomic_load(&memory.peak), 0);
    }
}
END_TEST

START_TEST(deep_nesting_is_an_error)
{
    enum { N = 50000 };
    static char header[2 * N + 100];
    size_t n = (size_t)sprintf(
        header, "{\"w\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0],\"x\":");
    memset(header + n, '[', N);
    memset(header + n + N, ']', N);
    strcpy(header + n + 2 * N, "}}");
    assert_refused(header, 0, "", "nested");
}
END_TEST

START_TEST(recognises_what_is_no_safetensors_file)
{
    static const struct {
        const char *bytes, *part;
    } rows[] = {
        { "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "Git LFS" },
        { "<!doctype html>\n<html>", "web page" },
        { "<!DOCTYPE html>\n<html>", "web page" },
        { "<html><head>", "web page" },
        { "../../blobs/0123456789abcdef", "symbolic link" },
        { "PK\003\004\x14\x10\x08\x08\x08", "zip" },
        { "GGUF\003\x10\x10\x10\x10", "GGUF" },
        { "Not Found or the like", "not a safetensors file" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct rwk_file file = { .path = "a.safetensors",
                                 .data = rows[i].bytes,
                                 .size = strlen(rows[i].bytes),
                                 .memory = &memory };
        ck_assert_int_eq(rwk_safetensors_parse(&tensors, &n_tensors, &file, &arena, &error),
                         RWK_STATUS_FORMAT);
        ck_assert_msg(strstr(error.message, rows[i].part) != NULL, "%s", error.message);
        assert_message(&error, "a.safetensors: ");
    }
}
END_TEST

START_TEST(refuses_every_truncation)
{
    static const char header[] = "{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}";
    char bytes[8 + sizeof header - 1 + 8] = { sizeof header - 1 };
    memcpy(bytes + 8, header, sizeof header - 1);
    for (size_t size = 0; size <= sizeof bytes; size++) {
        char *copy = malloc(size ? size : 1);
        memcpy(copy, bytes, size);
        struct rwk_file file = {
            .path = "a.safetensors", .data = copy, .size = size, .memory = &memory
        };
        enum rwk_status status = rwk_safetensors_parse(&tensors, &n_tensors, &file, &arena, &error);
        ck_assert_int_eq(status, size == sizeof bytes ? RWK_STATUS_OK : RWK_STATUS_FORMAT);
        free(copy);
    }
}
END_TEST

START_TEST(names_may_be_long)
{
    enum { LENGTH = 10000 };
    char header[LENGTH + 100], *name = malloc(LENGTH + 1);
    memset(name, 'n', LENGTH);
    name[LENGTH] = '\0';
    int n = snprintf(header, sizeof header,
                     "{\"%s\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", name);
    ck_assert_int_eq(parse(header, (size_t)n, 1), RWK_STATUS_OK);
    ck_assert_uint_eq(tensors[0].name_size, LENGTH);
    ck_assert_str_eq(tensors[0].name, name);
    ck_assert_int_eq(parse(header, (size_t)n, 2), RWK_STATUS_FORMAT);
    assert_message(&error, "a.safetensors: ");
    free(name);
}
END_TEST

static char *many_tensors(size_t count, size_t *ret_size)
{
    char *header = malloc(count * 120 + 2);
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        n += (size_t)sprintf(header + n,
                             "%c\"model.layers.%zu.weight\":{\"dtype\":\"F32\",\"shape\":[1],"
                             "\"data_offsets\":[%zu,%zu]}",
                             i ? ',' : '{', i, 4 * i, 4 * i + 4);
    header[n++] = '}';
    *ret_size = n;
    return header;
}

START_TEST(takes_a_hundred_thousand_tensors_at_once)
{
    enum { N = 100000 };
    size_t size;
    char *header = many_tensors(N, &size);
    struct timespec begin, end;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
    ck_assert_msg(parse(header, size, 4 * N) == RWK_STATUS_OK, "%s", error.message);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    ck_assert_uint_eq(n_tensors, N);
    ck_assert_str_eq(tensors[N - 1].name, "model.layers.99999.weight");
    /* Measured: below 0.1 s, 0.3 s under sanitizers. A quadratic method takes minutes. */
    ck_assert_int_lt(end.tv_sec - begin.tv_sec, 3);
    ck_assert_uint_lt(atomic_load(&memory.peak), 5 * size); /* bounded by the header */
    free(header);
}
END_TEST

START_TEST(offsets_beyond_4_gib_work)
{
    /* A sparse file: 1 byte, 5 GiB, 3 bytes. */
    const uint64_t big = 5ull << 30;
    char header[512];
    scratch_open();
    int n = snprintf(
        header, sizeof header,
        "{\"big\":{\"dtype\":\"BF16\",\"shape\":[2621440,1024],\"data_offsets\":[1,%" PRIu64 "]},"
        "\"first\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
        "\"last\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}}",
        big + 1, big + 1, big + 4);
    const char *path = scratch_path("sparse.safetensors");
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    ck_assert_int_ge(fd, 0);
    uint64_t length = (uint64_t)n, total = 8 + length + big + 4;
    bool sparse = ftruncate(fd, (off_t)total) == 0 && pwrite(fd, &length, 8, 0) == 8 &&
                  pwrite(fd, header, length, 8) == n &&
                  pwrite(fd, "xyz", 3, (off_t)(total - 3)) == 3;
    struct stat st;
    sparse = sparse && fstat(fd, &st) == 0 && st.st_blocks < 1 << 16;
    if (sparse) {
        struct rwk_tensor_file *file = NULL;
        struct rwk_tensor_info info;
        ck_assert_msg(rwk_tensor_file_open(&file, path, NULL, &error) == RWK_STATUS_OK, "%s",
                      error.message);
        ck_assert_uint_eq(rwk_tensor_file_n_tensors(file), 3);
        ck_assert_int_eq(rwk_tensor_file_get(file, 1, &info), RWK_STATUS_OK);
        ck_assert_uint_eq(info.n_bytes, big);
        ck_assert_int_eq(rwk_tensor_file_get(file, 2, &info), RWK_STATUS_OK);
        ck_assert_str_eq(info.name, "last");
        ck_assert_mem_eq(info.data, "xyz", 3);
        ck_assert_int_eq(rwk_tensor_file_get(file, 3, &info), RWK_STATUS_RANGE);
        rwk_tensor_file_close(&file);
        ck_assert_ptr_null(file);
        ck_assert_int_eq(ftruncate(fd, (off_t)total - 1), 0);
        ck_assert_int_eq(rwk_tensor_file_open(&file, path, NULL, &error), RWK_STATUS_FORMAT);
    } else {
        printf("the file system takes no sparse files: offsets beyond 4 GiB were not tried\n");
    }
    close(fd);
    scratch_close();
}
END_TEST

START_TEST(survives_every_refused_allocation)
{
    size_t size;
    char *header = many_tensors(300, &size), *bytes = calloc(1, 8 + size + 1200);
    memcpy(bytes, &(uint64_t) { size }, 8);
    memcpy(bytes + 8, header, size);
    scratch_open();
    const char *path = scratch_write("a.safetensors", bytes, 8 + size + 1200);
    enum rwk_status status = RWK_STATUS_NOMEM;
    long refuse = 0;
    for (; status; refuse++) {
        struct refusing host = { .refuse = refuse };
        struct rwk_allocator allocator = refusing_allocator(&host);
        struct rwk_tensor_file *file = NULL;
        status = rwk_tensor_file_open(&file, path, &allocator, &error);
        ck_assert(status == RWK_STATUS_OK || status == RWK_STATUS_NOMEM);
        ck_assert((status == RWK_STATUS_OK) == (file != NULL));
        rwk_tensor_file_close(&file);
        ck_assert_int_eq(host.n_held, 0);
    }
    ck_assert_int_gt(refuse, 10);
    scratch_close();
    free(header);
    free(bytes);
}
END_TEST

START_TEST(closing_nothing_is_fine)
{
    struct rwk_tensor_file *file = NULL;
    rwk_tensor_file_close(&file);
    rwk_tensor_file_close(NULL);
    ck_assert_int_eq(rwk_tensor_file_open(&file, "/nowhere/a.safetensors", NULL, &error),
                     RWK_STATUS_IO);
    ck_assert_int_eq(rwk_tensor_file_open(&file, "/nowhere/a.safetensors", NULL, NULL),
                     RWK_STATUS_IO);
    ck_assert_ptr_null(file);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("safetensors");
    TCase *cases = tcase_create("safetensors");
    suite_add_tcase(suite, cases);
    tcase_add_checked_fixture(cases, setup, teardown);
    tcase_set_timeout(cases, 120);
    tcase_add_test(cases, agrees_with_the_reference_on_every_file);
    tcase_add_test(cases, tensors_come_in_the_order_of_their_data);
    tcase_add_test(cases, sorts_any_order);
    tcase_add_test(cases, knows_the_dtypes_of_the_format);
    tcase_add_test(cases, says_which_tensor_and_where);
    tcase_add_test(cases, overflows_are_seen);
    tcase_add_test(cases, the_header_s_length_is_checked_before_anything_is_allocated);
    tcase_add_test(cases, deep_nesting_is_an_error);
    tcase_add_test(cases, recognises_what_is_no_safetensors_file);
    tcase_add_test(cases, refuses_every_truncation);
    tcase_add_test(cases, names_may_be_long);
    tcase_add_test(cases, takes_a_hundred_thousand_tensors_at_once);
    tcase_add_test(cases, offsets_beyond_4_gib_work);
    tcase_add_test(cases, survives_every_refused_allocation);
    tcase_add_test(cases, closing_nothing_is_fine);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
