/* Rope keys of config.json in both generations, their precedence, and the caller's choice at load
 * time. Expected values are what the reference implementation (transformers 5) resolves. */
#include <check.h>
#include <math.h>
#include <string.h>
#include "models/rope_keys.h"

#define N(array) (sizeof(array) / sizeof *(array))

static struct rwk_memory memory;
static struct rwk_arena arena;
static struct rwk_error error;

static const struct rwk_rope_keys llama = { .default_theta = 10000 };
static const struct rwk_rope_keys neox = { .default_theta = 10000,
                                           .theta_keys = "rotary_emb_base",
                                           .default_partial = 0.25,
                                           .partial_keys = "rotary_pct",
                                           .partial_for_default = true };
static const struct rwk_rope_keys gptj = { .default_theta = 10000,
                                           .fixed_theta = true,
                                           .rotary_dim_key = "rotary_dim",
                                           .default_rotary_dim = 64,
                                           .interleaved = true };
static const struct rwk_rope_keys phi3 = { .default_theta = 10000,
                                           .partial_for_default = true,
                                           .su_is_longrope = true,
                                           .default_original = 4096 };
static const struct rwk_rope_keys gemma3 = { .default_theta = 1e6,
                                             .by_layer_type = true,
                                             .local_theta_key = "rope_local_base_freq",
                                             .default_local_theta = 1e4 };

static void setup(void)
{
    rwk_memory_init(&memory, NULL, 0);
    arena = (struct rwk_arena) { .memory = &memory };
    error = (struct rwk_error) { .size = sizeof error };
}

static void teardown(void)
{
    rwk_arena_finish(&arena);
}

static struct rwk_position_request empty(void)
{
    return (struct rwk_position_request) { .scheme = "rope",
                                           .n_heads = 4,
                                           .head_dim = 64,
                                           .hidden_size = 256,
                                           .max_position_embeddings = 4096 };
}

static enum rwk_status try_read(struct rwk_position_request *request,
                                const struct rwk_rope_keys *keys, const char *json)
{
    struct rwk_node *config;
    ck_assert_msg(rwk_tree_parse(&config, &arena, json, strlen(json), "test", &error) ==
                      RWK_STATUS_OK,
                  "%s", error.message);
    return rwk_rope_keys_read(request, config, "config.json", keys, &arena, &error);
}

static struct rwk_position_request read_keys(const struct rwk_rope_keys *keys, const char *json)
{
    struct rwk_position_request request = empty();
    ck_assert_msg(try_read(&request, keys, json) == RWK_STATUS_OK, "%s: %s", json, error.message);
    return request;
}

static struct rwk_rope_request first(const struct rwk_rope_keys *keys, const char *json)
{
    return read_keys(keys, json).rope[0];
}

static void check_refused(const struct rwk_rope_keys *keys, const char *json,
                          enum rwk_status status, const char *key)
{
    struct rwk_position_request request = empty(), before = request;
    enum rwk_status got = try_read(&request, keys, json);
    ck_assert_msg(got == status, "%s: status %d", json, got);
    ck_assert_msg(strcmp(error.subject, key) == 0, "%s: names %s, not %s", json, error.subject,
                  key);
    ck_assert_str_eq(error.file, "config.json");
    ck_assert_int_eq(memcmp(&request, &before, sizeof request), 0);
}

/* ---- config ---- */

START_TEST(nothing_given_is_the_family_default)
{
    static const char *const configs[] = { "{}", "{\"rope_scaling\": null}",
                                           "{\"rope_parameters\": null, \"rope_theta\": null}",
                                           "{\"rope_scaling\": {}, \"rope_parameters\": {}}",
                                           "{\"rope_scaling\": false}" };
    for (size_t i = 0; i < N(configs); i++) {
        struct rwk_position_request r = read_keys(&llama, configs[i]);
        ck_assert_uint_eq(r.n_rope, 1);
        ck_assert_str_eq(r.rope[0].name, "all");
        ck_assert_str_eq(r.file, "config.json");
        ck_assert_int_eq(r.rope[0].type, RWK_ROPE_DEFAULT);
        ck_assert(r.rope[0].theta == 10000 && r.rope[0].rotary_dim == 64 && !r.rope[0].interleaved);
        ck_assert_uint_eq(r.rope[0].original_context, 0);
        ck_assert_uint_eq(r.trained_context, 0);
    }
}
END_TEST

START_TEST(both_generations_say_the_same)
{
    static const char *const configs[] = {
        "{\"rope_theta\": 500000, \"rope_scaling\": {\"type\": \"linear\", \"factor\": 4}}",
        "{\"rope_theta\": 5e5, \"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 4.0}}",
        "{\"rope_parameters\": {\"rope_theta\": 500000.0, \"rope_type\": \"linear\", \"factor\": "
        "4e0}}",
        "{\"rope_theta\": 500000.0, \"rope_parameters\": {\"type\": \"linear\", \"factor\": 4}, "
        "\"rope_scaling\": null}",
    };
    for (size_t i = 0; i < N(configs); i++) {
        struct rwk_rope_request q = first(&llama, configs[i]);
        ck_assert_int_eq(q.type, RWK_ROPE_LINEAR);
        ck_assert(q.theta == 500000 && q.factor == 4);
    }
}
END_TEST

START_TEST(rope_scaling_goes_before_rope_parameters)
{
    struct rwk_rope_request q = first(
        &llama,
        "{\"rope_parameters\": {\"rope_type\": \"linear\", \"factor\": 2, \"rope_theta\": 7e5},"
        " \"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 3}, \"rope_theta\": 8e5}");
    ck_assert_int_eq(q.type, RWK_ROPE_DYNAMIC);
    ck_assert(q.factor == 3 && q.theta == 8e5);
}
END_TEST

START_TEST(inner_theta_goes_before_the_outer_one)
{
    ck_assert(
        first(&llama, "{\"rope_theta\": 1e6, \"rope_parameters\": {\"rope_theta\": 5e5}}").theta ==
        5e5);
    ck_assert(
        first(&llama, "{\"rope_theta\": 1e6, \"rope_parameters\": {\"rope_type\": \"default\"}}")
            .theta == 1e6);
}
END_TEST

START_TEST(rope_type_goes_before_type)
{
    struct rwk_rope_request q = first(
        &llama,
        "{\"rope_scaling\": {\"type\": \"dynamic\", \"rope_type\": \"linear\", \"factor\": 2}}");
    ck_assert_int_eq(q.type, RWK_ROPE_LINEAR);
}
END_TEST

START_TEST(original_length_by_precedence)
{
    static const char yarn[] = "\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4";
    static const struct {
        const char *before, *after;
        uint64_t expected;
    } cases[] = {
        { "", "", 4096 },
        { "", ", \"original_max_position_embeddings\": 512", 512 },
        { "\"original_max_position_embeddings\": 1024, ",
          ", \"original_max_position_embeddings\": 512", 1024 },
        { "\"original_max_position_embeddings\": null, ",
          ", \"original_max_position_embeddings\": 512.0", 512 },
    };
    for (size_t i = 0; i < N(cases); i++) {
        char json[256] = "{";
        strcat(strcat(strcat(strcat(json, cases[i].before), yarn), cases[i].after), "}}");
        ck_assert_uint_eq(first(&llama, json).original_context, cases[i].expected);
    }
    ck_assert_uint_eq(
        first(
            &llama,
            "{\"original_max_position_embeddings\": 512, \"rope_scaling\": {\"type\": \"linear\", "
            "\"factor\": 4}}")
            .original_context,
        0);
}
END_TEST

START_TEST(all_of_a_types_numbers_arrive)
{
    struct rwk_rope_request q = first(
        &llama,
        "{\"rope_parameters\": {\"rope_type\": \"yarn\", \"factor\": 4, \"attention_factor\": 0.8,"
        " \"beta_fast\": 16, \"beta_slow\": 2, \"mscale\": 0.707, \"mscale_all_dim\": 0.5,"
        " \"truncate\": false}}");
    ck_assert(q.attention_factor == 0.8 && q.beta_fast == 16 && q.beta_slow == 2 &&
              q.mscale == 0.707 && q.mscale_all_dim == 0.5 && !q.truncate);
    q = first(
        &llama,
        "{\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 32.0, \"low_freq_factor\": 1.0,"
        " \"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 8192}}");
    ck_assert(q.type == RWK_ROPE_LLAMA3 && q.factor == 32 && q.low_freq_factor == 1 &&
              q.high_freq_factor == 4 && q.original_context == 8192);
    q = first(&llama, "{\"rope_scaling\": {\"type\": \"longrope\", \"short_factor\": [1, 1.5], "
                      "\"long_factor\": [2, 3.5, 4]}}");
    ck_assert(q.n_short == 2 && q.n_long == 3 && q.short_factor[1] == 1.5 &&
              q.long_factor[2] == 4 && q.factor == 0);
    ck_assert(first(&llama, "{\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4}}").truncate);
}
END_TEST

START_TEST(yarn_may_leave_its_factor_null)
{
    ck_assert(first(&llama, "{\"rope_scaling\": {\"type\": \"yarn\", \"factor\": null}}").factor ==
              0);
}
END_TEST

START_TEST(keys_that_a_type_does_not_read_are_passed_over)
{
    first(&llama, "{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2, \"finetuned\": true, "
                  "\"beta_fast\": \"x\"}}");
    first(&llama, "{\"rope_scaling\": {\"type\": \"default\", \"mrope_section\": [1, 2]}}");
}
END_TEST

START_TEST(missing_keys_are_named)
{
    static const struct {
        const char *settings, *key;
    } cases[] = {
        { "\"type\": \"linear\"", "factor" },
        { "\"type\": \"dynamic\"", "factor" },
        { "\"type\": \"ntk\"", "factor" },
        { "\"type\": \"yarn\"", "factor" },
        { "\"type\": \"llama3\", \"low_freq_factor\": 1, \"high_freq_factor\": 4", "factor" },
        { "\"type\": \"llama3\", \"factor\": 8, \"high_freq_factor\": 4", "low_freq_factor" },
        { "\"type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 1", "high_freq_factor" },
        { "\"type\": \"longrope\", \"long_factor\": [1]", "short_factor" },
        { "\"type\": \"longrope\", \"short_factor\": [1]", "long_factor" },
    };
    for (size_t i = 0; i < N(cases); i++) {
        char json[256] = "{\"rope_scaling\": {";
        check_refused(&llama, strcat(strcat(json, cases[i].settings), "}}"), RWK_STATUS_FORMAT,
                      cases[i].key);
    }
}
END_TEST

START_TEST(wrong_json_types_are_named)
{
    static const struct {
        const char *json, *key;
    } cases[] = {
        { "{\"rope_theta\": \"10000\"}", "rope_theta" },
        { "{\"rope_theta\": true}", "rope_theta" },
        { "{\"rope_scaling\": \"linear\"}", "rope_scaling" },
        { "{\"rope_scaling\": [1]}", "rope_scaling" },
        { "{\"rope_parameters\": 4}", "rope_parameters" },
        { "{\"rope_scaling\": {\"type\": 3}}", "type" },
        { "{\"rope_scaling\": {\"type\": \"linear\", \"factor\": \"4.0\"}}", "factor" },
        { "{\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4, \"truncate\": 0}}", "truncate" },
        { "{\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4, \"mscale\": []}}", "mscale" },
        { "{\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4, "
          "\"original_max_position_embeddings\": 64.5}}",
          "original_max_position_embeddings" },
        { "{\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4, "
          "\"original_max_position_embeddings\": 0}}",
          "original_max_position_embeddings" },
        { "{\"rope_scaling\": {\"type\": \"longrope\", \"short_factor\": 1, \"long_factor\": [1]}}",
          "short_factor" },
        { "{\"rope_scaling\": {\"type\": \"longrope\", \"short_factor\": [1], \"long_factor\": "
          "[null]}}",
          "long_factor" },
    };
    for (size_t i = 0; i < N(cases); i++)
        check_refused(&llama, cases[i].json, RWK_STATUS_FORMAT, cases[i].key);
    check_refused(&neox, "{\"rotary_pct\": \"0.25\"}", RWK_STATUS_FORMAT, "rotary_pct");
}
END_TEST

START_TEST(factors_that_are_not_positive_are_refused)
{
    check_refused(&llama, "{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 0}}",
                  RWK_STATUS_RANGE, "factor");
    check_refused(&llama, "{\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 0}}",
                  RWK_STATUS_RANGE, "factor");
    check_refused(&llama, "{\"rope_scaling\": {\"type\": \"yarn\", \"factor\": -4}}",
                  RWK_STATUS_RANGE, "factor");
    check_refused(
        &llama, "{\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4, \"attention_factor\": 0}}",
        RWK_STATUS_RANGE, "attention_factor");
    ck_assert(first(&llama, "{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 0.5}}").factor ==
              0.5);
}
END_TEST

START_TEST(unknown_types_are_unsupported_by_name)
{
    static const char *const types[] = { "proportional", "axial", "mrope", "su", "Linear", "" };
    for (size_t i = 0; i < N(types); i++) {
        char json[128] = "{\"rope_scaling\": {\"factor\": 2, \"rope_type\": \"";
        check_refused(&llama, strcat(strcat(json, types[i]), "\"}}"), RWK_STATUS_UNSUPPORTED,
                      "rope_type");
        ck_assert_ptr_nonnull(strstr(error.message, types[i]));
    }
}
END_TEST

START_TEST(settings_by_layer_type_need_a_family_that_knows_them)
{
    check_refused(&llama, "{\"rope_parameters\": {\"full_attention\": {\"rope_theta\": 1e6}}}",
                  RWK_STATUS_UNSUPPORTED, "rope_parameters");
    check_refused(&gemma3, "{\"rope_parameters\": {\"rope_theta\": 1e6}}", RWK_STATUS_UNSUPPORTED,
                  "rope_parameters");
    check_refused(&gemma3, "{\"rope_scaling\": {\"full_attention\": {\"rope_theta\": 1e6}}}",
                  RWK_STATUS_UNSUPPORTED, "rope_scaling");
}
END_TEST

/* ---- families with keys of their own ---- */

START_TEST(neox_keys)
{
    struct rwk_rope_request q = first(&neox, "{}");
    ck_assert(q.theta == 10000 && q.rotary_dim == 16);
    q = first(&neox, "{\"rotary_pct\": 0.5, \"rotary_emb_base\": 20000, \"rope_theta\": 3}");
    ck_assert(q.theta == 20000 && q.rotary_dim == 32);
    q = first(&neox, "{\"rotary_pct\": 0.5, \"rope_parameters\": {\"partial_rotary_factor\": 1.0, "
                     "\"rope_theta\": 30000}}");
    ck_assert(q.theta == 30000 && q.rotary_dim == 64);
    check_refused(&neox, "{\"rotary_pct\": 1.5}", RWK_STATUS_RANGE, "rotary_pct");
    check_refused(&neox, "{\"rotary_pct\": 0}", RWK_STATUS_RANGE, "rotary_pct");
}
END_TEST

START_TEST(share_is_cut_to_whole_dimensions)
{
    struct rwk_position_request r = empty();
    r.head_dim = 80;
    ck_assert_int_eq(try_read(&r, &neox, "{\"rotary_pct\": 0.4}"), RWK_STATUS_OK);
    ck_assert_uint_eq(r.rope[0].rotary_dim, 32);
    r.head_dim = 100;
    ck_assert_int_eq(try_read(&r, &neox, "{\"rotary_pct\": 0.29}"), RWK_STATUS_OK);
    ck_assert_uint_eq(r.rope[0].rotary_dim, 28); /* 100 * 0.29 is 28.999... */
}
END_TEST

START_TEST(share_is_ignored_where_the_family_ignores_it)
{
    ck_assert_uint_eq(first(&llama, "{\"partial_rotary_factor\": 0.5}").rotary_dim, 64);
    check_refused(
        &llama,
        "{\"partial_rotary_factor\": 0.5, \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}}",
        RWK_STATUS_UNSUPPORTED, "partial_rotary_factor");
}
END_TEST

START_TEST(gptj_keys)
{
    struct rwk_rope_request q = first(&gptj, "{\"rope_theta\": 5e5, \"rotary_dim\": 32}");
    ck_assert(q.theta == 10000 && q.rotary_dim == 32 && q.interleaved);
    ck_assert_uint_eq(first(&gptj, "{}").rotary_dim, 64);
    check_refused(&gptj, "{\"rotary_dim\": -2}", RWK_STATUS_FORMAT, "rotary_dim");
}
END_TEST

START_TEST(phi3_keys)
{
    static const char lists[] = ", \"short_factor\": [1], \"long_factor\": [2]}}";
    static const char *const types[] = { "su", "yarn", "longrope" };
    for (size_t i = 0; i < N(types); i++) {
        char json[160] = "{\"rope_scaling\": {\"type\": \"";
        struct rwk_rope_request q =
            first(&phi3, strcat(strcat(strcat(json, types[i]), "\""), lists));
        ck_assert_int_eq(q.type, RWK_ROPE_LONGROPE);
        ck_assert_uint_eq(q.original_context, 4096);
    }
    ck_assert_uint_eq(
        first(&phi3,
              "{\"original_max_position_embeddings\": 8192, \"rope_scaling\": {\"type\": \"su\", "
              "\"short_factor\": [1], \"long_factor\": [2]}}")
            .original_context,
        8192);
    /* a missing key at the top level has its default there, which goes before the inner one */
    ck_assert_uint_eq(first(&phi3, "{\"rope_scaling\": {\"type\": \"longrope\", "
                                   "\"original_max_position_embeddings\": 512, "
                                   "\"short_factor\": [1], \"long_factor\": [2]}}")
                          .original_context,
                      4096);
    ck_assert_uint_eq(first(&phi3, "{\"partial_rotary_factor\": 0.75}").rotary_dim, 48);
}
END_TEST

START_TEST(gemma3_has_two_tables)
{
    static const struct {
        const char *json;
        enum rwk_rope_type type;
        double theta, factor, local_theta;
    } cases[] = {
        { "{}", RWK_ROPE_DEFAULT, 1e6, 0, 1e4 },
        { "{\"rope_theta\": 2e6, \"rope_local_base_freq\": 3e4}", RWK_ROPE_DEFAULT, 2e6, 0, 3e4 },
        { "{\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 8}}", RWK_ROPE_LINEAR, 1e6, 8,
          1e4 },
        { "{\"rope_parameters\": {\"full_attention\": {\"rope_type\": \"linear\", \"factor\": 8, "
          "\"rope_theta\": 4e6},"
          " \"sliding_attention\": {\"rope_theta\": 5e4}}, \"rope_theta\": 1, "
          "\"rope_local_base_freq\": 2}",
          RWK_ROPE_LINEAR, 4e6, 8, 5e4 },
        { "{\"rope_parameters\": {\"full_attention\": {\"rope_type\": \"linear\", \"factor\": 8, "
          "\"rope_theta\": 4e6}},"
          " \"rope_scaling\": {\"factor\": 2}}",
          RWK_ROPE_LINEAR, 4e6, 2, 1e4 },
        { "{\"rope_parameters\": {\"sliding_attention\": {\"rope_theta\": 5e4}, "
          "\"full_attention\": null}}",
          RWK_ROPE_DEFAULT, 1e6, 0, 5e4 },
    };
    for (size_t i = 0; i < N(cases); i++) {
        struct rwk_position_request r = read_keys(&gemma3, cases[i].json);
        ck_assert_uint_eq(r.n_rope, 2);
        ck_assert_str_eq(r.rope[0].name, "full_attention");
        ck_assert_str_eq(r.rope[1].name, "sliding_attention");
        ck_assert_int_eq(r.rope[0].type, cases[i].type);
        ck_assert_int_eq(r.rope[1].type, RWK_ROPE_DEFAULT);
        ck_assert(r.rope[0].theta == cases[i].theta && r.rope[0].factor == cases[i].factor);
        ck_assert(r.rope[1].theta == cases[i].local_theta);
    }
}
END_TEST

START_TEST(truncate_is_looked_for_beside_the_layer_types)
{
    ck_assert(first(&gemma3, "{\"rope_parameters\": {\"full_attention\": {\"rope_type\": \"yarn\", "
                             "\"factor\": 2, \"truncate\": false}}}")
                  .truncate);
    ck_assert(!first(&gemma3, "{\"rope_parameters\": {\"full_attention\": {\"rope_type\": "
                              "\"yarn\", \"factor\": 2}, \"truncate\": false}}")
                   .truncate);
}
END_TEST

START_TEST(layer_types_do_not_use_the_top_level_original_length)
{
    ck_assert_uint_eq(
        first(
            &gemma3,
            "{\"original_max_position_embeddings\": 77, \"rope_parameters\": {\"full_attention\": "
            "{\"rope_type\": \"yarn\", \"factor\": 2}}}")
            .original_context,
        4096);
}
END_TEST

/* ---- the caller's choice ---- */

static enum rwk_status choose(struct rwk_position_request *request, const char *scaling,
                              double theta, uint64_t original)
{
    struct rwk_model_options o = {
        .size = sizeof o, .rope_scaling = scaling, .rope_theta = theta, .original_context = original
    };
    return rwk_rope_keys_override(request, &o, &arena, &error);
}

static struct rwk_position_request chosen(const char *config, const char *scaling, double theta,
                                          uint64_t original)
{
    struct rwk_position_request r = read_keys(&llama, config);
    ck_assert_msg(choose(&r, scaling, theta, original) == RWK_STATUS_OK, "%s: %s", scaling,
                  error.message);
    return r;
}

static void check_choice_refused(const char *config, const char *scaling, double theta,
                                 uint64_t original, const char *option)
{
    struct rwk_position_request r = read_keys(&llama, config), before = r;
    enum rwk_status status = choose(&r, scaling, theta, original);
    ck_assert_msg(status == RWK_STATUS_RANGE || status == RWK_STATUS_UNSUPPORTED ||
                      status == RWK_STATUS_FORMAT,
                  "%s is accepted", scaling ? scaling : option);
    ck_assert_msg(strncmp(error.message, option, strlen(option)) == 0, "%s: %s", scaling,
                  error.message);
    ck_assert_int_eq(memcmp(&r, &before, sizeof r), 0);
}

static const char llama3_config[] =
    "{\"rope_theta\": 5e5, \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, "
    "\"low_freq_factor\": 1, \"high_freq_factor\": 4, \"original_max_position_embeddings\": 512}}";

START_TEST(short_and_long_forms_agree)
{
    static const struct {
        const char *shorter, *longer;
    } cases[] = {
        { "yarn:4", "{\"rope_type\": \"yarn\", \"factor\": 4.0}" },
        { "linear:2.5", " {\"type\": \"linear\", \"factor\": 25e-1}" },
        { "ntk:4", "{\"rope_type\": \"ntk\", \"factor\": 4}" },
        { "dynamic:1e1", "{\"rope_type\": \"dynamic\", \"factor\": 10}" },
        { "llama3:8", "{\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 1, "
                      "\"high_freq_factor\": 4}" },
        { "none", "{\"rope_type\": \"default\"}" },
    };
    for (size_t i = 0; i < N(cases); i++) {
        struct rwk_position_request a = chosen(llama3_config, cases[i].shorter, 0, 0),
                                    b = chosen(llama3_config, cases[i].longer, 0, 0);
        const struct rwk_rope_request *p = &a.rope[0], *q = &b.rope[0];
        ck_assert_msg(p->type == q->type && p->factor == q->factor &&
                          p->original_context == q->original_context &&
                          p->low_freq_factor == q->low_freq_factor &&
                          p->high_freq_factor == q->high_freq_factor &&
                          p->truncate == q->truncate && p->rotary_dim == q->rotary_dim &&
                          a.trained_context == b.trained_context,
                      "%s differs from %s", cases[i].shorter, cases[i].longer);
        ck_assert(p->theta == 5e5 && q->theta == 5e5);
    }
}
END_TEST

START_TEST(choice_replaces_the_scaling_and_keeps_theta_and_rotation)
{
    struct rwk_position_request r = empty();
    ck_assert_int_eq(
        try_read(
            &r, &neox,
            "{\"rotary_emb_base\": 20000, \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 2, "
            "\"attention_factor\": 3, \"original_max_position_embeddings\": 1024}}"),
        RWK_STATUS_OK);
    ck_assert_int_eq(choose(&r, "linear:8", 0, 0), RWK_STATUS_OK);
    ck_assert_int_eq(r.rope[0].type, RWK_ROPE_LINEAR);
    ck_assert(r.rope[0].theta == 20000 && r.rope[0].factor == 8 && r.rope[0].attention_factor == 0);
    ck_assert_uint_eq(r.rope[0].rotary_dim, 16);
    ck_assert_uint_eq(r.trained_context, 1024);
}
END_TEST

START_TEST(trained_length_of_a_choice)
{
    static const struct {
        const char *config, *scaling;
        uint64_t option, original, trained;
    } cases[] = {
        { "{}", "yarn:4", 0, 4096, 4096 },
        { "{}", "yarn:4", 1000, 1000, 1000 },
        { "{}",
          "{\"rope_type\": \"yarn\", \"factor\": 4, \"original_max_position_embeddings\": 64}", 0,
          64, 64 },
        { "{}", "linear:4", 0, 0, 4096 },
        { "{}", "linear:4", 1000, 0, 1000 },
        { "{}", "{\"type\": \"ntk\", \"factor\": 4, \"original_max_position_embeddings\": 64}",
          0, 0, 64 },
        { "{}", "dynamic:4", 0, 0, 4096 },
        { "{}", "dynamic:4", 1000, 1000, 1000 },
        { llama3_config, "yarn:4", 0, 512, 512 },
        { llama3_config, "ntk:4", 0, 0, 512 },
        { llama3_config, "dynamic:4", 0, 0, 4096 },
        { llama3_config, "none", 0, 0, 512 },
        { llama3_config, NULL, 1000, 1000, 0 },
    };
    for (size_t i = 0; i < N(cases); i++) {
        struct rwk_position_request r =
            chosen(cases[i].config, cases[i].scaling, 0, cases[i].option);
        ck_assert_uint_eq(r.rope[0].original_context, cases[i].original);
        ck_assert_uint_eq(r.trained_context, cases[i].trained);
    }
}
END_TEST

START_TEST(theta_alone_can_be_chosen)
{
    struct rwk_position_request r = chosen(llama3_config, NULL, 1e6, 0);
    ck_assert(r.rope[0].theta == 1e6 && r.rope[0].type == RWK_ROPE_LLAMA3 && r.rope[0].factor == 8);
    ck_assert_uint_eq(r.trained_context, 0);
    r = chosen("{}", "{\"rope_type\": \"default\", \"rope_theta\": 63496.04207872797}", 0, 0);
    ck_assert(r.rope[0].theta == 63496.04207872797);
    r = chosen("{}", "yarn:2", 7e5, 0);
    ck_assert(r.rope[0].theta == 7e5 && r.rope[0].factor == 2);
}
END_TEST

START_TEST(without_options_nothing_changes)
{
    struct rwk_position_request r = read_keys(&llama, llama3_config), before = r;
    ck_assert_int_eq(choose(&r, NULL, 0, 0), RWK_STATUS_OK);
    ck_assert_int_eq(memcmp(&r, &before, sizeof r), 0);
    r.scheme = "learned";
    ck_assert_int_eq(choose(&r, NULL, 0, 0), RWK_STATUS_OK);
}
END_TEST

START_TEST(of_two_tables_the_first_is_changed)
{
    struct rwk_position_request r = read_keys(&gemma3, "{}");
    ck_assert_int_eq(choose(&r, "linear:8", 7e6, 0), RWK_STATUS_OK);
    ck_assert(r.rope[0].type == RWK_ROPE_LINEAR && r.rope[0].theta == 7e6);
    ck_assert(r.rope[1].type == RWK_ROPE_DEFAULT && r.rope[1].theta == 1e4);
    ck_assert_str_eq(r.rope[0].name, "full_attention");
}
END_TEST

START_TEST(a_choice_by_layer_type_reaches_both_tables)
{
    struct rwk_position_request r = read_keys(&gemma3, "{}");
    ck_assert_int_eq(choose(&r,
                            "{\"full_attention\": {\"rope_type\": \"ntk\", \"factor\": 4, "
                            "\"rope_theta\": 2e6}, \"sliding_attention\": {\"rope_type\": "
                            "\"linear\", \"factor\": 2, \"rope_theta\": 3e4}}",
                            0, 0),
                     RWK_STATUS_OK);
    ck_assert(r.rope[0].type == RWK_ROPE_NTK && r.rope[0].factor == 4 && r.rope[0].theta == 2e6);
    ck_assert(r.rope[1].type == RWK_ROPE_LINEAR && r.rope[1].factor == 2 && r.rope[1].theta == 3e4);
    ck_assert_uint_eq(r.trained_context, 4096);
    r = read_keys(&gemma3, "{\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 8}}");
    ck_assert_int_eq(choose(&r,
                            "{\"sliding_attention\": {\"rope_type\": \"yarn\", \"factor\": 2, "
                            "\"original_max_position_embeddings\": 512}}",
                            0, 0),
                     RWK_STATUS_OK);
    ck_assert(r.rope[0].type == RWK_ROPE_LINEAR && r.rope[0].factor == 8); /* not named */
    ck_assert(r.rope[1].type == RWK_ROPE_YARN && r.rope[1].original_context == 512);
    ck_assert_uint_eq(r.trained_context, 0);
}
END_TEST

/* Both tables are scaled by the config; a choice without layer types would leave one of them. */
START_TEST(a_choice_that_would_reach_one_of_two_scaled_tables_is_refused)
{
    static const char config[] =
        "{\"rope_parameters\": {\"full_attention\": {\"rope_type\": \"linear\", \"factor\": 8}, "
        "\"sliding_attention\": {\"rope_type\": \"linear\", \"factor\": 2}}}";
    static const char *const flat[] = { "none", "yarn:4",
                                        "{\"rope_type\": \"ntk\", \"factor\": 2}" };
    for (size_t i = 0; i < N(flat); i++) {
        struct rwk_position_request r = read_keys(&gemma3, config), before = r;
        ck_assert_int_eq(choose(&r, flat[i], 0, 0), RWK_STATUS_RANGE);
        ck_assert_ptr_nonnull(strstr(error.message, "sliding_attention layers are scaled as well"));
        ck_assert_int_eq(memcmp(&r, &before, sizeof r), 0);
    }
    struct rwk_position_request r = read_keys(&gemma3, config);
    ck_assert_int_eq(choose(&r,
                            "{\"full_attention\": {\"rope_type\": \"default\"}, "
                            "\"sliding_attention\": {\"rope_type\": \"default\"}}",
                            0, 0),
                     RWK_STATUS_OK);
    ck_assert(r.rope[0].type == RWK_ROPE_DEFAULT && r.rope[1].type == RWK_ROPE_DEFAULT);
}
END_TEST

START_TEST(bad_choices_by_layer_type_are_refused)
{
    static const char *const bad[] = {
        "{\"full_attention\": {\"rope_type\": \"ntk\", \"factor\": 2}, \"factor\": 2}",
        "{\"full_attention\": {\"rope_type\": \"ntk\", \"factor\": 2}, \"chunked_attention\": {}}",
        "{\"full_attention\": {}}",
        "{\"full_attention\": null}",
        "{\"sliding_attention\": 4}",
        "{\"sliding_attention\": {\"rope_type\": \"ntk\", \"factor\": 0.5}}",
        "{\"full_attention\": {\"rope_type\": \"ntk\", \"factor\": 2, \"beta_fast\": 3}}",
    };
    for (size_t i = 0; i < N(bad); i++) {
        struct rwk_position_request r = read_keys(&gemma3, "{}"), before = r;
        ck_assert_msg(choose(&r, bad[i], 0, 0) != RWK_STATUS_OK, "%s is accepted", bad[i]);
        ck_assert_msg(strncmp(error.message, "rope-scaling", 12) == 0, "%s", error.message);
        ck_assert_int_eq(memcmp(&r, &before, sizeof r), 0);
    }
    /* a model with one table has no layer types */
    check_choice_refused("{}", "{\"full_attention\": {\"rope_type\": \"ntk\", \"factor\": 2}}", 0,
                         0, "rope-scaling");
}
END_TEST

START_TEST(choices_that_are_not_understood_are_refused)
{
    static const char *const bad[] = {
        "",
        "yarn",
        "yarn:",
        "yarn:4x",
        "yarn:x",
        "yarn:4:2",
        "yarn:-4",
        "yarn:0",
        "yarn:0.5",
        "yarn:nan",
        "yarn:1e999",
        "yarn:\"4\"",
        "YARN:4",
        "foo:4",
        ":4",
        "none:1",
        "default",
        "default:2",
        "longrope:4",
        "extrapolate-everything-by:4",
        "null",
        "[]",
        "{",
        "{}",
        "{\"factor\": 4}",
        "{\"rope_type\": \"yarn\"}",
        "{\"rope_type\": \"foo\", \"factor\": 4}",
        "{\"rope_type\": \"yarn\", \"factor\": 4} x",
        "{\"rope_type\": \"yarn\", \"factor\": \"4\"}",
        "{\"rope_type\": \"yarn\", \"factor\": 0.5}",
        "{\"rope_type\": \"yarn\", \"factor\": 0}",
        "{\"rope_type\": \"yarn\", \"factor\": 4, \"fator\": 4}",
        "{\"rope_type\": \"linear\", \"factor\": 4, \"beta_fast\": 32}",
        "{\"rope_type\": \"default\", \"factor\": 4}",
        "{\"rope_type\": \"default\", \"original_max_position_embeddings\": 64}",
        "{\"rope_type\": \"yarn\", \"factor\": 4, \"original_max_position_embeddings\": -1}",
        "{\"rope_type\": \"llama3\", \"factor\": 4}",
        "{\"rope_type\": 4}",
    };
    for (size_t i = 0; i < N(bad); i++)
        check_choice_refused("{}", bad[i], 0, 0, "rope-scaling");
}
END_TEST

START_TEST(choices_without_effect_are_refused)
{
    check_choice_refused("{}", NULL, 0, 1000, "original-context");
    check_choice_refused("{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 4}}", NULL, 0, 1000,
                         "original-context");
    check_choice_refused("{}", "none", 0, 1000, "original-context");
    check_choice_refused(
        "{}", "{\"rope_type\": \"yarn\", \"factor\": 4, \"original_max_position_embeddings\": 64}",
        0, 1000, "original-context");
    check_choice_refused("{}", "{\"rope_type\": \"yarn\", \"factor\": 4, \"rope_theta\": 5e5}", 1e6,
                         0, "rope-theta");
    check_choice_refused("{}", NULL, -1, 0, "rope-theta");
    check_choice_refused("{}", NULL, NAN, 0, "rope-theta");
    check_choice_refused("{}", NULL, INFINITY, 0, "rope-theta");
}
END_TEST

START_TEST(choices_do_not_apply_to_other_positions)
{
    static const char *const schemes[] = { "learned", "sinusoidal", "alibi", "none" };
    for (size_t i = 0; i < N(schemes); i++) {
        struct rwk_position_request r = { .scheme = schemes[i] };
        ck_assert_int_eq(choose(&r, "yarn:4", 0, 0), RWK_STATUS_RANGE);
        ck_assert_str_eq(error.subject, "rope-scaling");
        ck_assert_ptr_nonnull(strstr(error.message, "does not apply to"));
        ck_assert_int_eq(choose(&r, NULL, 1e6, 0), RWK_STATUS_RANGE);
        ck_assert_str_eq(error.subject, "rope-theta");
        ck_assert_int_eq(choose(&r, NULL, 0, 64), RWK_STATUS_RANGE);
        ck_assert_str_eq(error.subject, "original-context");
    }
}
END_TEST

/* ---- memory ---- */

START_TEST(out_of_memory_is_reported_at_every_step)
{
    static const char config[] = "{\"rope_scaling\": {\"type\": \"longrope\", \"short_factor\": "
                                 "[1, 2], \"long_factor\": [3, 4]}}";
    struct rwk_node *root;
    ck_assert_int_eq(rwk_tree_parse(&root, &arena, config, sizeof config - 1, "test", &error),
                     RWK_STATUS_OK);
    bool was_refused = false;
    enum rwk_status status = RWK_STATUS_NOMEM;
    for (uint64_t budget = 1; status == RWK_STATUS_NOMEM; budget += 512) {
        struct rwk_memory tight;
        struct rwk_arena small = { .memory = &tight };
        struct rwk_position_request r = empty();
        struct rwk_model_options o = { .size = sizeof o,
                                       .rope_scaling = "{\"rope_type\": \"yarn\", \"factor\": 2}" };
        rwk_memory_init(&tight, NULL, budget);
        status = rwk_rope_keys_read(&r, root, "config.json", &llama, &small, &error);
        if (!status)
            status = rwk_rope_keys_override(&r, &o, &small, &error);
        was_refused = was_refused || status == RWK_STATUS_NOMEM;
        rwk_arena_finish(&small);
        ck_assert_uint_eq(tight.used, 0);
    }
    ck_assert(was_refused && status == RWK_STATUS_OK);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        nothing_given_is_the_family_default,
        both_generations_say_the_same,
        rope_scaling_goes_before_rope_parameters,
        inner_theta_goes_before_the_outer_one,
        rope_type_goes_before_type,
        original_length_by_precedence,
        all_of_a_types_numbers_arrive,
        yarn_may_leave_its_factor_null,
        keys_that_a_type_does_not_read_are_passed_over,
        missing_keys_are_named,
        wrong_json_types_are_named,
        factors_that_are_not_positive_are_refused,
        unknown_types_are_unsupported_by_name,
        settings_by_layer_type_need_a_family_that_knows_them,
        neox_keys,
        share_is_cut_to_whole_dimensions,
        share_is_ignored_where_the_family_ignores_it,
        gptj_keys,
        phi3_keys,
        gemma3_has_two_tables,
        truncate_is_looked_for_beside_the_layer_types,
        layer_types_do_not_use_the_top_level_original_length,
        short_and_long_forms_agree,
        choice_replaces_the_scaling_and_keeps_theta_and_rotation,
        trained_length_of_a_choice,
        theta_alone_can_be_chosen,
        without_options_nothing_changes,
        of_two_tables_the_first_is_changed,
        a_choice_by_layer_type_reaches_both_tables,
        a_choice_that_would_reach_one_of_two_scaled_tables_is_refused,
        bad_choices_by_layer_type_are_refused,
        choices_that_are_not_understood_are_refused,
        choices_without_effect_are_refused,
        choices_do_not_apply_to_other_positions,
        out_of_memory_is_reported_at_every_step,
    };
    Suite *suite = suite_create("rope keys");
    TCase *tcase = tcase_create("rope keys");
    tcase_add_checked_fixture(tcase, setup, teardown);
    for (size_t i = 0; i < N(tests); i++)
        tcase_add_test(tcase, tests[i]);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
