/* Options as words: a table of every option that the library's structs have, with bounds and help,
 * and the parser of their values. The command's own options are made from it, and bindings can be.
 *
 * Numbers are read strictly: digits only for counts, so "12x", "", "1e3", " 5", "-1", "+3" and what
 * does not fit are refused and never become something else; reals are decimal with an optional
 * exponent, never "nan", "inf" or hexadecimal, and do not depend on the host's locale. */
#include <float.h>
#include <stdio.h>
#include <string.h>
#include "loaders/json.h"

struct row {
    struct rwk_option option;
    size_t field, width; /* of the object's options struct */
};

#define FIELD(type, name) offsetof(struct type, name), sizeof(((struct type *)0)->name)
#define ABOVE_ZERO DBL_MIN /* the least double that counts as more than nothing */

static const struct rwk_choice load_modes[] = {
    { "map", RWK_LOAD_MAP },
    { "read", RWK_LOAD_READ },
    { "lock", RWK_LOAD_MAP_LOCK },
    { 0 },
};
static const struct rwk_choice prefetches[] = {
    { "auto", RWK_PREFETCH_AUTO },
    { "none", RWK_PREFETCH_NONE },
    { "now", RWK_PREFETCH_NOW },
    { 0 },
};
static const struct rwk_choice weights[] = {
    { "as-stored", RWK_WEIGHTS_AS_STORED },
    { "q8", RWK_WEIGHTS_Q8 },
    { "q4", RWK_WEIGHTS_Q4 },
    { 0 },
};
static const struct rwk_choice cpus[] = {
    { "auto", RWK_CPU_AUTO },     { "scalar", RWK_CPU_SCALAR }, { "avx2", RWK_CPU_AVX2 },
    { "avx512", RWK_CPU_AVX512 }, { "neon", RWK_CPU_NEON },     { 0 },
};
static const struct rwk_choice kv_types[] = {
    { "f16", RWK_KV_F16 },
    { "f32", RWK_KV_F32 },
    { "bf16", RWK_KV_BF16 },
    { "q8", RWK_KV_Q8 },
    { 0 },
};
static const struct rwk_choice activations[] = {
    { "auto", RWK_ACTIVATIONS_AUTO },
    { "f32", RWK_ACTIVATIONS_F32 },
    { "int8", RWK_ACTIVATIONS_INT8 },
    { 0 },
};

#define MODEL(name) FIELD(rwk_model_options, name)
#define SESSION(name) FIELD(rwk_session_options, name)
#define SAMPLER(name) FIELD(rwk_sampler_options, name)
#define CHOICE(key, object, help, choices)                                                         \
    {                                                                                              \
        key, RWK_OPTION_OF_##object, RWK_OPTION_CHOICE, NULL, help, 0, 0, 0, 0, choices            \
    }
#define COUNT(key, object, argument, help, min, max)                                               \
    {                                                                                              \
        key, RWK_OPTION_OF_##object, RWK_OPTION_COUNT, argument, help, min, max, 0, 0, NULL        \
    }
#define REAL(key, object, argument, help, min, max)                                                \
    {                                                                                              \
        key, RWK_OPTION_OF_##object, RWK_OPTION_REAL, argument, help, 0, 0, min, max, NULL         \
    }
#define TEXT(key, object, argument, help)                                                          \
    {                                                                                              \
        key, RWK_OPTION_OF_##object, RWK_OPTION_TEXT, argument, help, 0, 0, 0, 0, NULL             \
    }

/* clang-format off */
static const struct row rows[] = {
    { CHOICE("load_mode", MODEL, "map weight files, read them, or map and lock them", load_modes),
      MODEL(load_mode) },
    { CHOICE("prefetch", MODEL, "when mapped weights are brought into memory: in the background, "
             "as they are needed, before opening returns", prefetches), MODEL(prefetch) },
    { CHOICE("weights", MODEL, "how weights are held", weights), MODEL(weights) },
    { CHOICE("cpu", MODEL, "instruction set of the kernels", cpus), MODEL(cpu) },
    { COUNT("memory_budget", MODEL, "BYTES", "most that a model may allocate; 0: no bound",
            0, UINT64_MAX), MODEL(memory_budget) },
    { TEXT("rope_scaling", MODEL, "SPEC", "none, linear:2, dynamic:4, ntk:4, yarn:4, llama3:8, "
           "or JSON as in config.json"), MODEL(rope_scaling) },
    { REAL("rope_theta", MODEL, "X", "base of the rotary frequencies", ABOVE_ZERO, DBL_MAX),
      MODEL(rope_theta) },
    { COUNT("original_context", MODEL, "N", "context before scaling", 1, INT32_MAX),
      MODEL(original_context) },

    { CHOICE("kv_type", SESSION, "how keys and values are kept", kv_types), SESSION(kv_type) },
    { COUNT("context", SESSION, "N", "positions to make room for (default: as the model says)",
            1, INT32_MAX), SESSION(context) },
    { COUNT("chunk", SESSION, "N", "tokens per pass over the weights (default 512); results do "
            "not depend on it", 1, 1 << 20), SESSION(chunk) },
    { CHOICE("activations", SESSION, "what quantised weights are multiplied with", activations),
      SESSION(activations) },
    { COUNT("session_budget", SESSION, "BYTES", "most that a session may allocate; 0: no bound",
            0, UINT64_MAX), SESSION(memory_budget) },

    { REAL("temperature", SAMPLER, "X", "divide logits by X before sampling; 0: greedy",
           0, DBL_MAX), SAMPLER(temperature) },
    { COUNT("top_k", SAMPLER, "K", "sample from the K likeliest tokens; 0: all", 0, INT32_MAX),
      SAMPLER(top_k) },
    { REAL("top_p", SAMPLER, "X", "sample from the fewest tokens that hold probability X", 0, 1),
      SAMPLER(top_p) },
    { REAL("min_p", SAMPLER, "X", "leave out tokens below X times the likeliest one's probability",
           0, 1), SAMPLER(min_p) },
    { REAL("repetition_penalty", SAMPLER, "X", "make tokens that were there already less likely; "
           "1: off", ABOVE_ZERO, DBL_MAX), SAMPLER(repetition_penalty) },
    { COUNT("seed", SAMPLER, "N", "of the random numbers", 0, UINT64_MAX), SAMPLER(seed) },
};
/* clang-format on */
enum { N_ROWS = sizeof rows / sizeof *rows };

size_t rwk_n_options(void)
{
    return N_ROWS;
}

const struct rwk_option *rwk_option_at(size_t index)
{
    return index < N_ROWS ? &rows[index].option : NULL;
}

static const struct row *find(const char *key)
{
    for (size_t i = 0; i < N_ROWS; i++)
        if (strcmp(rows[i].option.key, key) == 0)
            return &rows[i];
    return NULL;
}

const struct rwk_option *rwk_option_find(const char *key)
{
    const struct row *row = find(key);
    return row ? &row->option : NULL;
}

/* ---- values ---- */

/* Values are shown in messages up to this many bytes. */
enum { SHOWN = 80 };

static int shown(size_t size)
{
    return size < SHOWN ? (int)size : SHOWN;
}

static enum rwk_status parse_count(const struct rwk_option *o, const char *text, size_t size,
                                   uint64_t *ret, struct rwk_error *error)
{
    uint64_t value = 0;
    bool good = size > 0;
    for (size_t i = 0; i < size && good; i++)
        good = text[i] >= '0' && text[i] <= '9' && !__builtin_mul_overflow(value, 10, &value) &&
               !__builtin_add_overflow(value, (uint64_t)(text[i] - '0'), &value);
    if (!good || value < o->min || value > o->max)
        return rwk_fail_on(error, RWK_STATUS_RANGE, NULL, o->key,
                           "'%.*s' is not a whole number from %llu to %llu", shown(size), text,
                           (unsigned long long)o->min, (unsigned long long)o->max);
    *ret = value;
    return RWK_STATUS_OK;
}

/* Skips digits; false when there are none. */
static bool skip_digits(const char **text, const char *end)
{
    const char *begin = *text;
    while (*text < end && **text >= '0' && **text <= '9')
        ++*text;
    return *text > begin;
}

/* [+-] digits [. digits] [e [+-] digits] */
static bool is_real(const char *p, const char *end)
{
    if (!skip_digits(&p, end))
        return false;
    if (p < end && *p == '.' && (p++, !skip_digits(&p, end)))
        return false;
    if (p < end && (*p == 'e' || *p == 'E')) {
        p += 1 + (end - p > 1 && (p[1] == '-' || p[1] == '+'));
        if (!skip_digits(&p, end))
            return false;
    }
    return p == end;
}

static enum rwk_status parse_real(const struct rwk_option *o, const char *text, size_t size,
                                  double *ret, struct rwk_error *error)
{
    size_t sign = size && (*text == '-' || *text == '+');
    double value;
    if (is_real(text + sign, text + size) && rwk_parse_double(text + sign, size - sign, &value)) {
        value = *text == '-' ? -value : value;
        if (value >= o->real_min && value <= o->real_max) {
            *ret = value;
            return RWK_STATUS_OK;
        }
    }
    const char *range = o->real_max < DBL_MAX ? "from 0 to 1"
                        : o->real_min == 0    ? "of at least 0"
                                              : "above 0";
    return rwk_fail_on(error, RWK_STATUS_RANGE, NULL, o->key, "'%.*s' is not a number %s",
                       shown(size), text, range);
}

static enum rwk_status parse_choice(const struct rwk_option *o, const char *text, size_t size,
                                    uint32_t *ret, struct rwk_error *error)
{
    char names[160] = "";
    size_t used = 0;
    for (const struct rwk_choice *c = o->choices; c->name; c++) {
        if (strlen(c->name) == size && memcmp(c->name, text, size) == 0) {
            *ret = c->value;
            return RWK_STATUS_OK;
        }
        if (used < sizeof names)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "",
                                     c->name);
    }
    return rwk_fail_on(error, RWK_STATUS_RANGE, NULL, o->key, "'%.*s' is none of %s", shown(size),
                       text, names);
}

enum rwk_status rwk_option_parse(const struct rwk_option *option, const char *text, size_t size,
                                 void *ret_value, struct rwk_error *error)
{
    switch ((enum rwk_option_type)option->type) {
    case RWK_OPTION_COUNT:
        return parse_count(option, text, size, ret_value, error);
    case RWK_OPTION_REAL:
        return parse_real(option, text, size, ret_value, error);
    case RWK_OPTION_CHOICE:
        return parse_choice(option, text, size, ret_value, error);
    case RWK_OPTION_TEXT:
        break;
    }
    if (!size)
        return rwk_fail_on(error, RWK_STATUS_RANGE, NULL, option->key, "is empty");
    memcpy(ret_value, &text, sizeof text);
    return RWK_STATUS_OK;
}

/* ---- structs ---- */

/* Sets a field of options [size], of which `object` are. */
static enum rwk_status set(void *options, size_t size, enum rwk_option_object object,
                           const char *key, const char *value, struct rwk_error *error)
{
    const struct row *row = find(key);
    union {
        uint64_t count;
        double real;
        uint32_t choice;
        const char *text;
    } parsed = { 0 };
    if (!row || row->option.object != object || row->field + row->width > size)
        return rwk_fail_on(error, RWK_STATUS_RANGE, NULL, key, "is no option here");
    enum rwk_status status = rwk_option_parse(&row->option, value, strlen(value), &parsed, error);
    if (status)
        return status;
    uint32_t narrow = (uint32_t)parsed.count; /* a count whose bound fits the narrower field */
    bool is_narrow = row->option.type == RWK_OPTION_COUNT && row->width == sizeof narrow;
    memcpy((char *)options + row->field, is_narrow ? (const void *)&narrow : (const void *)&parsed,
           row->width);
    return RWK_STATUS_OK;
}

enum rwk_status rwk_model_options_set(struct rwk_model_options *options, const char *key,
                                      const char *value, struct rwk_error *error)
{
    return set(options, options->size, RWK_OPTION_OF_MODEL, key, value, error);
}

enum rwk_status rwk_session_options_set(struct rwk_session_options *options, const char *key,
                                        const char *value, struct rwk_error *error)
{
    return set(options, options->size, RWK_OPTION_OF_SESSION, key, value, error);
}

enum rwk_status rwk_sampler_options_set(struct rwk_sampler_options *options, const char *key,
                                        const char *value, struct rwk_error *error)
{
    return set(options, options->size, RWK_OPTION_OF_SAMPLER, key, value, error);
}
