/* The table of options: every row can be set within its bounds and not beyond, into the struct it
 * is of; what is refused changes nothing. */
#include <float.h>
#include <inttypes.h>
#include <locale.h>
#include <stdbool.h>
#include "checkpoint.h"

/* The three structs behind one function. */
struct objects {
    struct rwk_model_options model;
    struct rwk_session_options session;
    struct rwk_sampler_options sampler;
};

static struct objects defaults(void)
{
    struct objects o;
    memset(&o, 0, sizeof o);
    rwk_model_options_init(&o.model);
    rwk_session_options_init(&o.session);
    rwk_sampler_options_init(&o.sampler);
    return o;
}

static enum rwk_status set(struct objects *o, uint32_t object, const char *key, const char *value)
{
    failure.message[0] = '\0';
    switch (object) {
    case RWK_OPTION_OF_MODEL:
        return rwk_model_options_set(&o->model, key, value, &failure);
    case RWK_OPTION_OF_SESSION:
        return rwk_session_options_set(&o->session, key, value, &failure);
    default:
        return rwk_sampler_options_set(&o->sampler, key, value, &failure);
    }
}

static void assert_taken(const struct rwk_option *row, const char *value)
{
    struct objects o = defaults();
    ck_assert_msg(set(&o, row->object, row->key, value) == RWK_STATUS_OK, "%s=%s: %s", row->key,
                  value, failure.message);
}

static void assert_refused(const struct rwk_option *row, const char *value)
{
    struct objects o = defaults(), before = o;
    ck_assert_msg(set(&o, row->object, row->key, value) == RWK_STATUS_RANGE, "%s=%s was taken",
                  row->key, value);
    ck_assert_mem_eq(&o, &before, sizeof o);
    ck_assert_str_eq(failure.subject, row->key);
    ck_assert_msg(strncmp(failure.message, row->key, strlen(row->key)) == 0, "%s", failure.message);
}

START_TEST(every_row_takes_what_lies_within_its_bounds_only)
{
    static const char *const no_counts[] = { "",
                                             "12x",
                                             "1e3",
                                             " 5",
                                             "5 ",
                                             "-1",
                                             "+3",
                                             "0x10",
                                             "1.0",
                                             "nan",
                                             "18446744073709551616",
                                             "99999999999999999999999" };
    static const char *const no_reals[] = { "",    ".",   "1.",    ".5",    "1e",
                                            "1e+", "nan", "inf",   "0x1p3", " 1",
                                            "1 ",  "1,5", "1e999", "--1",   "-0.5" };
    const struct rwk_option *row;
    char text[64];
    for (size_t i = 0; (row = rwk_option_at(i)); i++) {
        struct objects o = defaults();
        ck_assert_ptr_eq(rwk_option_find(row->key), row);
        ck_assert(row->help && row->help[0]);
        ck_assert((row->choices == NULL) == (row->type != RWK_OPTION_CHOICE));
        for (uint32_t object = RWK_OPTION_OF_MODEL; object <= RWK_OPTION_OF_SAMPLER; object++)
            if (object != row->object)
                ck_assert_int_eq(set(&o, object, row->key, "1"), RWK_STATUS_RANGE);
        if (row->type == RWK_OPTION_COUNT) {
            snprintf(text, sizeof text, "%" PRIu64, row->min);
            assert_taken(row, text);
            snprintf(text, sizeof text, "%" PRIu64, row->max);
            assert_taken(row, text);
            for (size_t k = 0; k < sizeof no_counts / sizeof *no_counts; k++)
                assert_refused(row, no_counts[k]);
            if (row->max < UINT64_MAX) {
                snprintf(text, sizeof text, "%" PRIu64, row->max + 1);
                assert_refused(row, text);
            }
            if (row->min > 0) {
                snprintf(text, sizeof text, "%" PRIu64, row->min - 1);
                assert_refused(row, text);
            }
        } else if (row->type == RWK_OPTION_REAL) {
            assert_taken(row, "0.25");
            assert_taken(row, "+1e-3");
            for (size_t k = 0; k < sizeof no_reals / sizeof *no_reals; k++)
                assert_refused(row, no_reals[k]);
            (row->real_max < DBL_MAX ? assert_refused : assert_taken)(row, "1.5");
            (row->real_min > 0 ? assert_refused : assert_taken)(row, "0");
        } else if (row->type == RWK_OPTION_CHOICE) {
            for (const struct rwk_choice *c = row->choices; c->name; c++)
                assert_taken(row, c->name);
            assert_refused(row, "");
            assert_refused(row, "other");
            assert_refused(row, "aut");
        } else {
            assert_taken(row, "x");
            assert_refused(row, "");
        }
    }
    ck_assert_ptr_null(rwk_option_at(rwk_n_options()));
    ck_assert_ptr_null(rwk_option_find("no_such_option"));
}
END_TEST

START_TEST(values_reach_their_fields)
{
    struct objects o = defaults();
    static const char scaling[] = "yarn:4";
    const struct {
        uint32_t object;
        const char *key, *value;
    } rows[] = {
        { RWK_OPTION_OF_MODEL, "rope_scaling", scaling },
        { RWK_OPTION_OF_MODEL, "rope_theta", "1.5e4" },
        { RWK_OPTION_OF_MODEL, "original_context", "2048" },
        { RWK_OPTION_OF_MODEL, "load_mode", "read" },
        { RWK_OPTION_OF_MODEL, "prefetch", "now" },
        { RWK_OPTION_OF_MODEL, "weights", "q4" },
        { RWK_OPTION_OF_MODEL, "cpu", "scalar" },
        { RWK_OPTION_OF_MODEL, "memory_budget", "5000000000" },
        { RWK_OPTION_OF_SESSION, "kv_type", "bf16" },
        { RWK_OPTION_OF_SESSION, "context", "777" },
        { RWK_OPTION_OF_SESSION, "chunk", "33" },
        { RWK_OPTION_OF_SESSION, "activations", "f32" },
        { RWK_OPTION_OF_SESSION, "session_budget", "123456" },
        { RWK_OPTION_OF_SAMPLER, "temperature", "0.7" },
        { RWK_OPTION_OF_SAMPLER, "top_k", "40" },
        { RWK_OPTION_OF_SAMPLER, "top_p", "0.9" },
        { RWK_OPTION_OF_SAMPLER, "min_p", "0.05" },
        { RWK_OPTION_OF_SAMPLER, "repetition_penalty", "1.1" },
        { RWK_OPTION_OF_SAMPLER, "seed", "18446744073709551615" },
    };
    ck_assert_uint_eq(sizeof rows / sizeof *rows, rwk_n_options());
    setlocale(LC_ALL, "de_DE.UTF-8"); /* a decimal comma, where the machine has it; the result is
                                         the same anyway */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_ok(set(&o, rows[i].object, rows[i].key, rows[i].value));
    ck_assert_ptr_eq(o.model.rope_scaling, scaling);
    ck_assert(o.model.rope_theta == 15000);
    ck_assert_uint_eq(o.model.original_context, 2048);
    ck_assert_uint_eq(o.model.load_mode, RWK_LOAD_READ);
    ck_assert_uint_eq(o.model.prefetch, RWK_PREFETCH_NOW);
    ck_assert_uint_eq(o.model.weights, RWK_WEIGHTS_Q4);
    ck_assert_uint_eq(o.model.cpu, RWK_CPU_SCALAR);
    ck_assert_uint_eq(o.model.memory_budget, 5000000000);
    ck_assert_uint_eq(o.session.kv_type, RWK_KV_BF16);
    ck_assert_uint_eq(o.session.context, 777);
    ck_assert_uint_eq(o.session.chunk, 33);
    ck_assert_uint_eq(o.session.activations, RWK_ACTIVATIONS_F32);
    ck_assert_uint_eq(o.session.memory_budget, 123456);
    ck_assert(o.sampler.temperature == 0.7);
    ck_assert_int_eq(o.sampler.top_k, 40);
    ck_assert(o.sampler.top_p == 0.9);
    ck_assert(o.sampler.min_p == 0.05);
    ck_assert(o.sampler.repetition_penalty == 1.1);
    ck_assert_uint_eq(o.sampler.seed, UINT64_MAX);
}
END_TEST

START_TEST(a_struct_that_is_too_small_is_not_written_beyond)
{
    struct rwk_model_options o;
    rwk_model_options_init(&o);
    o.size = offsetof(struct rwk_model_options,
                      rope_scaling); /* as a caller of another version might say */
    assert_ok(rwk_model_options_set(&o, "weights", "q8", &failure));
    ck_assert_int_eq(rwk_model_options_set(&o, "rope_theta", "3", &failure), RWK_STATUS_RANGE);
    ck_assert(o.rope_theta == 0);
}
END_TEST

START_TEST(options_set_by_words_open_the_same_model)
{
    struct rwk_model_options by_words, by_fields;
    struct rwk_position_plan *a = NULL, *b = NULL;
    struct rwk_position_table x = { .size = sizeof x }, y = { .size = sizeof y };
    rwk_model_options_init(&by_words);
    rwk_model_options_init(&by_fields);
    assert_ok(rwk_model_options_set(&by_words, "rope_scaling", "linear:4", &failure));
    by_fields.rope_scaling = "linear:4";
    assert_ok(rwk_position_resolve(&a, checkpoint_path("llama-mha"), &by_words, &failure));
    assert_ok(rwk_position_resolve(&b, checkpoint_path("llama-mha"), &by_fields, &failure));
    assert_ok(rwk_position_get_table(a, 0, &x));
    assert_ok(rwk_position_get_table(b, 0, &y));
    ck_assert_str_eq(x.scaling, "linear");
    ck_assert_mem_eq(x.inv_freq, y.inv_freq, x.n_pairs * sizeof *x.inv_freq);
    rwk_position_plan_close(&a);
    rwk_position_plan_close(&b);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("options");
    TCase *tcase = tcase_create("options");
    tcase_add_test(tcase, every_row_takes_what_lies_within_its_bounds_only);
    tcase_add_test(tcase, values_reach_their_fields);
    tcase_add_test(tcase, a_struct_that_is_too_small_is_not_written_beyond);
    tcase_add_test(tcase, options_set_by_words_open_the_same_model);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
