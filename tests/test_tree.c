/* Trees of small JSON documents. */
#include "loaders/tree.h"
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

static const struct rwk_node *parse(const char *text)
{
    struct rwk_node *root = NULL;
    ck_assert_msg(rwk_tree_parse(&root, &arena, text, strlen(text), "a.json", &error) ==
                      RWK_STATUS_OK,
                  "%s", error.message);
    return root;
}

static void assert_refused(const char *text, uint64_t offset)
{
    struct rwk_node *root = NULL;
    ck_assert_msg(rwk_tree_parse(&root, &arena, text, strlen(text), "a.json", &error) ==
                      RWK_STATUS_FORMAT,
                  "%s", text);
    ck_assert_ptr_null(root);
    ck_assert_uint_eq(error.byte_offset, offset);
    assert_message(&error, "a.json: ");
}

START_TEST(keeps_every_kind_of_value)
{
    const struct rwk_node *root = parse(
        "{\"n\":null,\"t\":true,\"f\":false,\"s\":\"a\\u00e9\",\"x\":1.50,\"l\":[1,[],{\"k\":2}]}");
    ck_assert_int_eq(root->type, RWK_JSON_OBJECT);
    ck_assert_uint_eq(root->n_children, 6);
    ck_assert_int_eq(rwk_tree_member(root, "n")->type, RWK_JSON_NULL);
    ck_assert_int_eq(rwk_tree_member(root, "t")->type, RWK_JSON_TRUE);
    ck_assert_int_eq(rwk_tree_member(root, "f")->type, RWK_JSON_FALSE);
    ck_assert_str_eq(rwk_tree_member(root, "s")->string, "a\xc3\xa9");
    ck_assert_uint_eq(rwk_tree_member(root, "s")->string_size, 3);
    ck_assert_str_eq(rwk_tree_member(root, "x")->string, "1.50");
    ck_assert(rwk_tree_member(root, "x")->number == 1.5);
    const struct rwk_node *list = rwk_tree_member(root, "l");
    ck_assert_uint_eq(list->n_children, 3);
    ck_assert_int_eq(list->children->integer, 1);
    ck_assert_int_eq(list->children->next->type, RWK_JSON_ARRAY);
    ck_assert_int_eq(rwk_tree_member(list->children->next->next, "k")->integer, 2);
    ck_assert_ptr_null(list->children->next->next->next);
    ck_assert_ptr_null(list->children->key);
    ck_assert_uint_eq(list->offset, 56);
}
END_TEST

START_TEST(takes_any_value_as_root)
{
    ck_assert_int_eq(parse("4")->integer, 4);
    ck_assert_str_eq(parse("\"\"")->string, "");
    ck_assert_int_eq(parse("\xef\xbb\xbf[]\r\n")->type, RWK_JSON_ARRAY);
}
END_TEST

START_TEST(whole_numbers_are_integers_however_spelled)
{
    static const struct {
        const char *text;
        bool is_integer;
        int64_t value;
    } rows[] = {
        { "64", true, 64 },
        { "64.0", true, 64 },
        { "6.4e1", true, 64 },
        { "1e3", true, 1000 },
        { "1E+6", true, 1000000 },
        { "-0", true, 0 },
        { "-0.0", true, 0 },
        { "64.5", false, 0 },
        { "1e-05", false, 0 },
        { "1e18", true, 1000000000000000000 },
        { "1e19", false, 0 },
        { "1e308", false, 0 },
        { "9223372036854775807", true, INT64_MAX },
        { "9223372036854775808", false, 0 },
        { "-9223372036854775808", true, INT64_MIN },
        { "-9223372036854775808.0", true, INT64_MIN },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct rwk_node *node = parse(rows[i].text);
        ck_assert_msg(node->is_integer == rows[i].is_integer, "%s", rows[i].text);
        if (node->is_integer)
            ck_assert_int_eq(node->integer, rows[i].value);
    }
}
END_TEST

START_TEST(refuses_numbers_beyond_double)
{
    assert_refused("[1,1e400]", 3);
}
END_TEST

START_TEST(refuses_nul_characters)
{
    assert_refused("{\"a\":\"b\\u0000\"}", 5);
    assert_refused("{\"a\\u0000\":1}", 1);
}
END_TEST

START_TEST(finds_members_by_path)
{
    const struct rwk_node *root =
        parse("{\"a\":{\"b\":{\"c\":7},\"n\":null},\"a.b\":8,\"l\":[1],\"\":9}");
    ck_assert_int_eq(rwk_tree_find(root, "a.b.c")->integer, 7);
    ck_assert_int_eq(rwk_tree_find(root, "a.n")->type, RWK_JSON_NULL);
    ck_assert_int_eq(rwk_tree_member(root, "a.b")->integer, 8);
    ck_assert_int_eq(rwk_tree_member(root, "")->integer, 9);
    static const char *const missing[] = { "b", "a.c", "a.b.c.d", "a.n.x", "l.0", "a.bb", "A" };
    for (size_t i = 0; i < sizeof missing / sizeof *missing; i++)
        ck_assert_ptr_null(rwk_tree_find(root, missing[i]));
    ck_assert_ptr_null(rwk_tree_find(NULL, "a"));
    ck_assert_ptr_null(rwk_tree_member(NULL, "a"));
    ck_assert_ptr_null(rwk_tree_member(root->children->next->next, "l"));
}
END_TEST

START_TEST(refuses_duplicate_keys_at_any_depth)
{
    assert_refused("{\"a\":1,\"a\":2}", 11);
    assert_refused("{\"a\":1,\"b\":2,\"\\u0061\":3}", 22);
    assert_refused("[{\"x\":{\"k\":1,\"l\":{},\"k\":[]}}]", 24);
    ck_assert_ptr_nonnull(strstr(error.message, "k: "));
    parse("[{\"a\":1},{\"a\":{\"a\":2}}]"); /* in different objects they are fine */
}
END_TEST

START_TEST(large_objects_take_no_quadratic_time)
{
    enum { N = 300000 };
    char *text = malloc(N * 24);
    size_t n = 0;
    text[n++] = '{';
    for (int i = 0; i < N; i++)
        n += (size_t)sprintf(text + n, "\"k%d\":%d,", i, i);
    strcpy(text + n - 1, "}");
    ck_assert_uint_eq(parse(text)->n_children, N);
    strcpy(text + n - 1, ",\"k7\":0}");
    assert_refused(text, n + 5);
    free(text);
}
END_TEST

START_TEST(deep_nesting_is_an_error)
{
    enum { N = 1000000 };
    char *text = malloc(N + 8);
    strcpy(text, "{\"x\":");
    memset(text + 5, '[', N);
    text[N + 5] = '\0';
    assert_refused(text, 5 + RWK_JSON_DEPTH - 1);
    free(text);
}
END_TEST

START_TEST(survives_every_refused_allocation)
{
    char text[20000];
    size_t n = 0;
    text[n++] = '{';
    for (int i = 0; i < 500; i++)
        n += (size_t)sprintf(text + n, "\"key%d\":{\"a\":[1,\"s\"],\"b\":%d},", i, i);
    text[n - 1] = '}';
    enum rwk_status status = RWK_STATUS_NOMEM;
    long refuse = 0;
    for (; status; refuse++) {
        struct refusing host = { .refuse = refuse };
        struct rwk_allocator allocator = refusing_allocator(&host);
        struct rwk_memory own;
        struct rwk_node *root = NULL;
        rwk_memory_init(&own, &allocator, 0);
        struct rwk_arena own_arena = { .memory = &own };
        status = rwk_tree_parse(&root, &own_arena, text, n, "a.json", &error);
        ck_assert(status == RWK_STATUS_OK || status == RWK_STATUS_NOMEM);
        ck_assert((status == RWK_STATUS_OK) == (root != NULL));
        rwk_arena_finish(&own_arena);
        ck_assert_int_eq(host.n_held, 0);
    }
    ck_assert_int_gt(refuse, 100);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tree");
    TCase *cases = tcase_create("tree");
    suite_add_tcase(suite, cases);
    tcase_add_checked_fixture(cases, setup, teardown);
    tcase_set_timeout(cases, 60);
    tcase_add_test(cases, keeps_every_kind_of_value);
    tcase_add_test(cases, takes_any_value_as_root);
    tcase_add_test(cases, whole_numbers_are_integers_however_spelled);
    tcase_add_test(cases, refuses_numbers_beyond_double);
    tcase_add_test(cases, refuses_nul_characters);
    tcase_add_test(cases, finds_members_by_path);
    tcase_add_test(cases, refuses_duplicate_keys_at_any_depth);
    tcase_add_test(cases, large_objects_take_no_quadratic_time);
    tcase_add_test(cases, deep_nesting_is_an_error);
    tcase_add_test(cases, survives_every_refused_allocation);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
