/* argv -> struct options, driven by one table.
 *
 * Numbers are read strictly: digits only for counts, so "12x", "", "1e3", " 5", "-1", "+3" and
 * what does not fit are refused and never become something else; reals are decimal with an
 * optional exponent, never "nan", "inf" or hexadecimal. A word that a command has no use for is
 * wrong usage, not ignored. */
#include "options.h"

#include <errno.h>
#include <float.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "output.h"
#include "tool.h"

enum option_kind {
    KIND_FLAG,   /* bool */
    KIND_COUNT,  /* uint64_t in [min, max] */
    KIND_COUNTS, /* struct counts: "256,512", each in [min, max] */
    KIND_REAL,   /* double in [real_min, real_max] */
    KIND_TEXT,   /* const char *, not empty unless `empty` */
    KIND_TEXTS,  /* struct texts: may be given several times */
    KIND_CHOICE, /* uint32_t */
};

struct choice {
    const char *name;
    uint32_t value;
};

struct option_row {
    const char *name;
    char letter; /* 0: none */
    enum option_kind kind;
    unsigned commands;
    size_t field;         /* of struct options */
    const char *argument; /* as the usage text shows it */
    const char *help;
    uint64_t min, max;
    double real_min, real_max;
    const struct choice *choices; /* ends with a NULL name */
};

#define ABOVE_ZERO DBL_MIN /* the least double that counts as more than nothing */
#define FIELD(name) offsetof(struct options, name)
#define LOADING                                                                                \
    (COMMAND_GENERATE | COMMAND_LOGITS | COMMAND_PERPLEXITY | COMMAND_INSPECT | COMMAND_BENCH)
#define EVALUATING (COMMAND_GENERATE | COMMAND_LOGITS | COMMAND_PERPLEXITY | COMMAND_BENCH)
#define TOKENIZING (COMMAND_TOKENIZE | COMMAND_DETOKENIZE)
#define ALL (LOADING | TOKENIZING | COMMAND_ROPE | COMMAND_QUANTIZE)
#define MAX_TOKENS INT32_MAX

static const struct choice kv_types[] = {
    { "f16", RWK_KV_F16 },
    { "f32", RWK_KV_F32 },
    { "bf16", RWK_KV_BF16 },
    { "q8", RWK_KV_Q8 },
    { 0 },
};
static const struct choice weights[] = {
    { "as-stored", RWK_WEIGHTS_AS_STORED },
    { "q8", RWK_WEIGHTS_Q8 },
    { "q4", RWK_WEIGHTS_Q4 },
    { 0 },
};
static const struct choice quantized[] = { { "q8", RWK_WEIGHTS_Q8 }, { "q4", RWK_WEIGHTS_Q4 }, { 0 } };
static const struct choice activations[] = {
    { "auto", RWK_ACTIVATIONS_AUTO },
    { "f32", RWK_ACTIVATIONS_F32 },
    { "int8", RWK_ACTIVATIONS_INT8 },
    { 0 },
};
static const struct choice cpus[] = {
    { "auto", RWK_CPU_AUTO },     { "scalar", RWK_CPU_SCALAR }, { "avx2", RWK_CPU_AVX2 },
    { "avx512", RWK_CPU_AVX512 }, { "neon", RWK_CPU_NEON },     { 0 },
};
static const struct choice load_modes[] = {
    { "map", RWK_LOAD_MAP }, { "read", RWK_LOAD_READ }, { "lock", RWK_LOAD_MAP_LOCK }, { 0 },
};

static const struct option_row rows[N_OPTIONS] = {
    [OPTION_TOKENS] = { "max-new-tokens", 'n', KIND_COUNT, COMMAND_GENERATE, FIELD(n_tokens), "N",
        "tokens to generate; 0: only evaluate the prompt (default: the model's, or 128)", 0,
        MAX_TOKENS },
    [OPTION_GREEDY] = { "greedy", 0, KIND_FLAG, COMMAND_GENERATE, FIELD(greedy), NULL,
        "always the likeliest token" },
    [OPTION_TEMPERATURE] = { "temperature", 0, KIND_REAL, COMMAND_GENERATE, FIELD(temperature), "X",
        "divide logits by X before sampling; 0: greedy", .real_max = DBL_MAX },
    [OPTION_TOP_K] = { "top-k", 0, KIND_COUNT, COMMAND_GENERATE, FIELD(top_k), "K",
        "sample from the K likeliest tokens; 0: all", 0, INT32_MAX },
    [OPTION_TOP_P] = { "top-p", 0, KIND_REAL, COMMAND_GENERATE, FIELD(top_p), "X",
        "sample from the fewest tokens that hold probability X", .real_max = 1 },
    [OPTION_MIN_P] = { "min-p", 0, KIND_REAL, COMMAND_GENERATE, FIELD(min_p), "X",
        "leave out tokens below X times the likeliest one's probability", .real_max = 1 },
    [OPTION_REPETITION_PENALTY] = { "repetition-penalty", 0, KIND_REAL, COMMAND_GENERATE,
        FIELD(repetition_penalty), "X", "make tokens that were there already less likely; 1: off",
        .real_min = ABOVE_ZERO, .real_max = DBL_MAX },
    [OPTION_SEED] = { "seed", 0, KIND_COUNT, COMMAND_GENERATE, FIELD(seed), "N",
        "of the random numbers (default: another one in each run)", 0, UINT64_MAX },
    [OPTION_STOP] = { "stop", 0, KIND_TEXTS, COMMAND_GENERATE, FIELD(stop), "TEXT",
        "end before TEXT; may be given several times" },
    [OPTION_IGNORE_EOS] = { "ignore-eos", 0, KIND_FLAG, COMMAND_GENERATE, FIELD(ignore_eos), NULL,
        "go on after the model's end token" },
    [OPTION_IDS] = { "ids", 0, KIND_TEXT, COMMAND_GENERATE | COMMAND_LOGITS, FIELD(ids),
        "\"1 2 3\"", "token ids in place of a text" },
    [OPTION_IDS_FILE] = { "ids-file", 0, KIND_TEXT, COMMAND_GENERATE | COMMAND_LOGITS,
        FIELD(ids_file), "FILE", "token ids from a file" },
    [OPTION_PRINT_IDS] = { "print-ids", 0, KIND_FLAG, COMMAND_GENERATE, FIELD(print_ids), NULL,
        "print token ids in place of text" },
    [OPTION_OUTPUT] = { "output", 'o', KIND_TEXT, COMMAND_LOGITS, FIELD(output), "FILE",
        "the safetensors file to write" },
    [OPTION_JSONL] = { "jsonl", 0, KIND_FLAG, TOKENIZING, FIELD(jsonl), NULL,
        "one JSON value a line in and out: strings for text, arrays for ids" },
    [OPTION_NO_SPECIAL] = { "no-special", 0, KIND_FLAG, TOKENIZING, FIELD(no_special), NULL,
        "add no special tokens; leave them out of decoded text" },
    [OPTION_PLAIN_SPECIAL] = { "plain-special", 0, KIND_FLAG, COMMAND_TOKENIZE,
        FIELD(plain_special), NULL, "special tokens spelled in the text are ordinary text" },
    [OPTION_PIECES] = { "pieces", 0, KIND_FLAG, COMMAND_TOKENIZE, FIELD(pieces), NULL,
        "a table of id, piece and bytes of the text" },
    [OPTION_TENSORS] = { "tensors", 0, KIND_FLAG, COMMAND_INSPECT, FIELD(tensors), NULL,
        "list every tensor" },
    [OPTION_LENGTH] = { "length", 0, KIND_COUNTS, COMMAND_PERPLEXITY, FIELD(length), "N,N,...",
        "window lengths in tokens (default: the context, or the text if it is shorter)", 2,
        MAX_TOKENS },
    [OPTION_STRIDE] = { "stride", 0, KIND_COUNT, COMMAND_PERPLEXITY, FIELD(stride), "N",
        "a window every N tokens, each scoring its last N (default: windows side by side)", 1,
        MAX_TOKENS },
    [OPTION_MAX_TOKENS] = { "max-tokens", 0, KIND_COUNT, COMMAND_PERPLEXITY, FIELD(max_tokens), "N",
        "use only the text's first N tokens", 1, MAX_TOKENS },
    [OPTION_BUCKETS] = { "buckets", 0, KIND_COUNT, COMMAND_PERPLEXITY, FIELD(buckets), "N",
        "also by position in the window, in N equal parts", 1, 1024 },
    [OPTION_CSV] = { "csv", 0, KIND_TEXT, COMMAND_PERPLEXITY, FIELD(csv), "FILE",
        "write the results as CSV" },
    [OPTION_PLOT] = { "plot", 0, KIND_TEXT, COMMAND_PERPLEXITY, FIELD(plot), "FILE",
        "draw the results as .svg or .png (needs gnuplot)" },
    [OPTION_PROMPT_TOKENS] = { "prompt-tokens", 'p', KIND_COUNT, COMMAND_BENCH,
        FIELD(prompt_tokens), "P", "tokens of the prompt (default 512)", 1, MAX_TOKENS },
    [OPTION_DECODE_TOKENS] = { "decode-tokens", 'n', KIND_COUNT, COMMAND_BENCH,
        FIELD(decode_tokens), "N", "tokens decoded one at a time (default 64)", 1, MAX_TOKENS - 1 },
    [OPTION_REPEAT] = { "repeat", 'r', KIND_COUNT, COMMAND_BENCH, FIELD(repeat), "N",
        "measure N times, report the median (default 3)", 1, 1000 },
    [OPTION_JSON] = { "json", 0, KIND_FLAG,
        COMMAND_GENERATE | COMMAND_PERPLEXITY | COMMAND_INSPECT | COMMAND_ROPE | COMMAND_BENCH,
        FIELD(json), NULL, "print one JSON object" },
    [OPTION_THREADS] = { "threads", 't', KIND_COUNT, LOADING | COMMAND_QUANTIZE, FIELD(threads), "N",
        "threads (default: the processors this process may use)", 1, 1024 },
    [OPTION_CONTEXT] = { "context", 'c', KIND_COUNT, LOADING & ~COMMAND_BENCH, FIELD(context), "N",
        "positions to make room for (default: see docs/command.md)", 1, MAX_TOKENS },
    [OPTION_CHUNK] = { "chunk", 0, KIND_COUNT, LOADING, FIELD(chunk), "N",
        "tokens per pass over the weights (default 512); results do not depend on it", 1, 1 << 20 },
    [OPTION_ROPE_SCALING] = { "rope-scaling", 0, KIND_TEXTS, LOADING | COMMAND_ROPE,
        FIELD(rope_scaling), "SPEC",
        "none, linear:2, dynamic:4, ntk:4, yarn:4, llama3:8, or JSON as in config.json" },
    [OPTION_ROPE_THETA] = { "rope-theta", 0, KIND_REAL, LOADING | COMMAND_ROPE, FIELD(rope_theta),
        "X", "base of the rotary frequencies", .real_min = ABOVE_ZERO, .real_max = DBL_MAX },
    [OPTION_ORIGINAL_CONTEXT] = { "original-context", 0, KIND_COUNT, LOADING | COMMAND_ROPE,
        FIELD(original_context), "N", "context before scaling", 1, MAX_TOKENS },
    [OPTION_KV_TYPE] = { "kv-type", 0, KIND_CHOICE, LOADING, FIELD(kv_type), NULL,
        "how keys and values are kept", .choices = kv_types },
    [OPTION_WEIGHTS] = { "weights", 0, KIND_CHOICE, LOADING, FIELD(weights), NULL,
        "how weights are held", .choices = weights },
    [OPTION_TYPE] = { "type", 0, KIND_CHOICE, COMMAND_QUANTIZE, FIELD(weights), NULL,
        "blocks of 32 weights with a scale, of 8 or 4 bits each", .choices = quantized },
    [OPTION_ACTIVATIONS] = { "activations", 0, KIND_CHOICE, EVALUATING, FIELD(activations), NULL,
        "what quantised weights are multiplied with", .choices = activations },
    [OPTION_CPU] = { "cpu", 0, KIND_CHOICE, LOADING, FIELD(cpu), NULL,
        "instruction set of the kernels", .choices = cpus },
    [OPTION_LOAD] = { "load", 0, KIND_CHOICE, LOADING, FIELD(load), NULL,
        "map weight files, read them, or map and lock them", .choices = load_modes },
    [OPTION_QUIET] = { "quiet", 'q', KIND_FLAG, ALL, FIELD(quiet), NULL,
        "no notices and no progress on standard error" },
    [OPTION_HELP] = { "help", 'h', KIND_FLAG, ALL, FIELD(help), NULL, "print this text" },
};

void usage_error(const char *command, const char *format, ...)
{
    char message[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    warn("%s", message);
    fprintf(stderr, "Try 'ropewalk%s%s --help'.\n", command ? " " : "", command ? command : "");
    exit(EXIT_USAGE);
}

/* ---- values ---- */

/* Digits only, up to `end`. */
static bool parse_count(const char *text, const char *end, uint64_t *ret)
{
    uint64_t value = 0;
    if (text == end)
        return false;
    for (; text < end; text++) {
        if (*text < '0' || *text > '9' || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value))
            return false;
    }
    *ret = value;
    return true;
}

static const char *skip_digits(const char *text)
{
    while (*text >= '0' && *text <= '9')
        text++;
    return text;
}

/* [+-] digits [. digits] [e [+-] digits], as JSON but for a leading zero more or less. */
static bool parse_real(const char *text, double *ret)
{
    const char *p = text + (*text == '-' || *text == '+'), *digits = p;
    p = skip_digits(p);
    if (p == digits)
        return false;
    if (*p == '.') {
        digits = ++p;
        p = skip_digits(p);
        if (p == digits)
            return false;
    }
    if (*p == 'e' || *p == 'E') {
        p += 1 + (p[1] == '-' || p[1] == '+');
        digits = p;
        p = skip_digits(p);
        if (p == digits)
            return false;
    }
    if (*p)
        return false;
    *ret = strtod(text, NULL);
    return isfinite(*ret);
}

static void set_count(const struct option_row *row, const char *command, const char *text,
                      const char *end, uint64_t *ret)
{
    uint64_t value;
    if (!parse_count(text, end, &value) || value < row->min || value > row->max)
        usage_error(command, "--%s: '%s' is not a whole number from %" PRIu64 " to %" PRIu64,
                    row->name, text, row->min, row->max);
    *ret = value;
}

static void set_counts(const struct option_row *row, const char *command, const char *text,
                       struct counts *list)
{
    const char *end;
    list->n = 0;
    do {
        end = strchrnul(text, ',');
        reserve(&list->items, &list->capacity, list->n + 1, sizeof *list->items);
        set_count(row, command, text, end, &list->items[list->n++]);
        text = end + 1;
    } while (*end);
}

static void set_real(const struct option_row *row, const char *command, const char *text,
                     double *ret)
{
    double value;
    if (parse_real(text, &value) && value >= row->real_min && value <= row->real_max) {
        *ret = value;
        return;
    }
    const char *least = row->real_min == ABOVE_ZERO ? "above 0" : "of at least 0";
    if (row->real_max == DBL_MAX)
        usage_error(command, "--%s: '%s' is not a number %s", row->name, text, least);
    usage_error(command, "--%s: '%s' is not a number from 0 to 1", row->name, text);
}

static void choice_names(const struct option_row *row, char *buffer, size_t size,
                         const char *between)
{
    size_t used = 0;
    buffer[0] = 0;
    for (const struct choice *c = row->choices; c->name && used < size; c++)
        used += (size_t)snprintf(buffer + used, size - used, "%s%s", used ? between : "", c->name);
}

static void set_choice(const struct option_row *row, const char *command, const char *text,
                       uint32_t *ret)
{
    char names[128];
    for (const struct choice *c = row->choices; c->name; c++) {
        if (!strcmp(c->name, text)) {
            *ret = c->value;
            return;
        }
    }
    choice_names(row, names, sizeof names, ", ");
    usage_error(command, "--%s: '%s' is none of %s", row->name, text, names);
}

static void set_value(struct options *options, enum option_id id, const char *command,
                      const char *text)
{
    const struct option_row *row = &rows[id];
    void *field = (char *)options + row->field;
    struct texts *list = field;
    options->given |= UINT64_C(1) << id;
    switch (row->kind) {
    case KIND_FLAG:
        *(bool *)field = true;
        break;
    case KIND_COUNT:
        set_count(row, command, text, text + strlen(text), field);
        break;
    case KIND_COUNTS:
        set_counts(row, command, text, field);
        break;
    case KIND_REAL:
        set_real(row, command, text, field);
        break;
    case KIND_TEXT:
        *(const char **)field = text;
        break;
    case KIND_TEXTS:
        if (!*text)
            usage_error(command, "--%s: is empty", row->name);
        reserve(&list->items, &list->capacity, list->n + 1, sizeof *list->items);
        list->items[list->n++] = text;
        break;
    case KIND_CHOICE:
        set_choice(row, command, text, field);
        break;
    }
}

const char *options_choice(const struct options *options, enum option_id id)
{
    const struct option_row *row = &rows[id];
    uint32_t value;
    memcpy(&value, (const char *)options + row->field, sizeof value);
    for (const struct choice *c = row->choices; c->name; c++)
        if (c->value == value)
            return c->name;
    return "?";
}

/* ---- the command line ---- */

/* getopt_long()'s own tables, of the rows that the command takes. An option's value in them is
 * LONG_BASE + its id. */
enum { LONG_BASE = 256 };
struct getopt_tables {
    struct option longs[N_OPTIONS + 1];
    char letters[2 + 2 * N_OPTIONS];
};

static void tables_make(struct getopt_tables *t, const struct command *command)
{
    struct option *o = t->longs;
    char *letter = t->letters;
    *letter++ = ':'; /* a missing argument is told from an unknown option */
    for (int id = 0; id < N_OPTIONS; id++) {
        if (!(rows[id].commands & command->bit))
            continue;
        bool takes = rows[id].kind != KIND_FLAG;
        *o++ = (struct option){ rows[id].name, takes ? required_argument : no_argument, NULL,
                                LONG_BASE + id };
        if (rows[id].letter) {
            *letter++ = rows[id].letter;
            if (takes)
                *letter++ = ':';
        }
    }
    *o = (struct option){ 0 };
    *letter = 0;
}

static enum option_id option_of_letter(const struct command *command, int letter)
{
    for (int id = 0; id < N_OPTIONS; id++)
        if (rows[id].letter == letter && (rows[id].commands & command->bit))
            return (enum option_id)id;
    return N_OPTIONS;
}

static _Noreturn void refuse(const struct command *command, int found, char **argv)
{
    const char *word = argv[optind - 1];
    if (found == ':')
        usage_error(command->name, "%s: needs an argument", word);
    if (optopt >= LONG_BASE)
        usage_error(command->name, "%s: takes no argument", word);
    if (optopt)
        usage_error(command->name, "-%c: not an option of '%s'", optopt, command->name);
    usage_error(command->name, "%s: not an option of '%s'", word, command->name);
}

static void check_arguments(const struct options *options, const struct command *command)
{
    if (options->n_arguments < command->min_arguments)
        usage_error(command->name, "%s: something is missing, wanted are: %s", command->name,
                    command->arguments);
    if (options->n_arguments > command->max_arguments)
        usage_error(command->name, "%s: one argument too many: '%s'", command->name,
                    options->arguments[command->max_arguments]);
    if (options->rope_scaling.n > 1 && command->bit != COMMAND_PERPLEXITY)
        usage_error(command->name, "--rope-scaling: more than one is for 'perplexity' only");
}

void options_parse(struct options *options, const struct command *command, int argc, char **argv)
{
    struct getopt_tables tables;
    int found;
    *options = (struct options){ .prompt_tokens = 512, .decode_tokens = 64, .repeat = 3 };
    tables_make(&tables, command);
    opterr = 0;
    optind = 1;
    while ((found = getopt_long(argc, argv, tables.letters, tables.longs, NULL)) != -1) {
        if (found == '?' || found == ':')
            refuse(command, found, argv);
        int id = found >= LONG_BASE ? found - LONG_BASE : (int)option_of_letter(command, found);
        set_value(options, (enum option_id)id, command->name, optarg);
    }
    options->arguments = (const char *const *)argv + optind;
    options->n_arguments = (size_t)(argc - optind);
    if (!options->help)
        check_arguments(options, command);
}

void options_finish(struct options *options)
{
    free(options->stop.items);
    free(options->rope_scaling.items);
    free(options->length.items);
}

/* ---- usage ---- */

enum { USAGE_COLUMN = 28 }; /* where the help of an option begins */

void options_usage(const struct command *command)
{
    out_print("usage: ropewalk %s [options] %s\n\n%s.\n%s\noptions:\n", command->name,
              command->arguments, command->help, command->notes);
    for (int id = 0; id < N_OPTIONS; id++) {
        const struct option_row *row = &rows[id];
        char names[128], left[192], letter[8] = "    ";
        if (!(row->commands & command->bit))
            continue;
        if (row->letter)
            snprintf(letter, sizeof letter, "-%c, ", row->letter);
        if (row->choices)
            choice_names(row, names, sizeof names, "|");
        const char *argument = row->choices ? names : row->argument;
        snprintf(left, sizeof left, "%s--%s%s%s", letter, row->name, argument ? " " : "",
                 argument ? argument : "");
        bool wide = strlen(left) > USAGE_COLUMN;
        out_print("  %-*s%s", USAGE_COLUMN, left, wide ? "\n" : " ");
        out_print("%*s%s\n", wide ? USAGE_COLUMN + 3 : 0, "", row->help);
    }
}
