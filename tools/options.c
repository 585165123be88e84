/* argv -> struct options, driven by one table. What the library has an option for too comes from
 * the library's table: bounds, choices and help are written there once, and its parser, which is
 * strict, reads the values of all. A word that a command has no use for is wrong usage, not
 * ignored. */
#include "options.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ropewalk/ropewalk.h>
#include "load.h"
#include "output.h"
#include "tool.h"

enum option_kind {
    KIND_FLAG,    /* bool */
    KIND_COUNT,   /* uint64_t in [min, max] */
    KIND_COUNTS,  /* struct counts: "256,512", each in [min, max] */
    KIND_TEXT,    /* const char * */
    KIND_TEXTS,   /* struct texts: may be given several times */
    KIND_CHOICE,  /* uint32_t */
    KIND_LIBRARY, /* as the library's option of that name: uint64_t, double or uint32_t */
};

struct option_row {
    const char *name;
    char letter; /* 0: none */
    enum option_kind kind;
    unsigned commands;
    size_t field;         /* of struct options */
    const char *argument; /* as the usage text shows it */
    const char *help;     /* NULL: the library's */
    uint64_t min, max;
    const struct rwk_choice *choices;
    const char *key; /* the library's name, where it is another than `name` with '_' for '-' */
};

#define FIELD(name) offsetof(struct options, name)
#define LOADING                                                                                \
    (COMMAND_GENERATE | COMMAND_LOGITS | COMMAND_PERPLEXITY | COMMAND_INSPECT | COMMAND_BENCH)
#define EVALUATING (COMMAND_GENERATE | COMMAND_LOGITS | COMMAND_PERPLEXITY | COMMAND_BENCH)
#define TOKENIZING (COMMAND_TOKENIZE | COMMAND_DETOKENIZE)
#define ALL (LOADING | TOKENIZING | COMMAND_ROPE | COMMAND_QUANTIZE)
#define MAX_TOKENS INT32_MAX

static const struct rwk_choice quantized[] = {
    { "q8", RWK_WEIGHTS_Q8 }, { "q4", RWK_WEIGHTS_Q4 }, { 0 },
};

static const struct option_row rows[N_OPTIONS] = {
    [OPTION_TOKENS] = { "max-new-tokens", 'n', KIND_COUNT, COMMAND_GENERATE, FIELD(n_tokens), "N",
        "tokens to generate; 0: only evaluate the prompt (default: the model's, or 128)", 0,
        MAX_TOKENS },
    [OPTION_GREEDY] = { "greedy", 0, KIND_FLAG, COMMAND_GENERATE, FIELD(greedy), NULL,
        "always the likeliest token" },
    [OPTION_TEMPERATURE] = { "temperature", 0, KIND_LIBRARY, COMMAND_GENERATE,
        FIELD(temperature) },
    [OPTION_TOP_K] = { "top-k", 0, KIND_LIBRARY, COMMAND_GENERATE,
        FIELD(top_k) },
    [OPTION_TOP_P] = { "top-p", 0, KIND_LIBRARY, COMMAND_GENERATE,
        FIELD(top_p) },
    [OPTION_MIN_P] = { "min-p", 0, KIND_LIBRARY, COMMAND_GENERATE,
        FIELD(min_p) },
    [OPTION_REPETITION_PENALTY] = { "repetition-penalty", 0, KIND_LIBRARY, COMMAND_GENERATE,
        FIELD(repetition_penalty) },
    [OPTION_SEED] = { "seed", 0, KIND_LIBRARY, COMMAND_GENERATE,
        FIELD(seed),
        .help = "of the random numbers (default: another one in each run)" },
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
    [OPTION_CONTEXT] = { "context", 'c', KIND_LIBRARY, LOADING & ~COMMAND_BENCH,
        FIELD(context),
        .help = "positions to make room for (default: see docs/command.md)" },
    [OPTION_CHUNK] = { "chunk", 0, KIND_LIBRARY, LOADING,
        FIELD(chunk) },
    [OPTION_ROPE_SCALING] = { "rope-scaling", 0, KIND_TEXTS, LOADING | COMMAND_ROPE,
        FIELD(rope_scaling), NULL, NULL },
    [OPTION_ROPE_THETA] = { "rope-theta", 0, KIND_LIBRARY, LOADING | COMMAND_ROPE,
        FIELD(rope_theta) },
    [OPTION_ORIGINAL_CONTEXT] = { "original-context", 0, KIND_LIBRARY, LOADING | COMMAND_ROPE,
        FIELD(original_context) },
    [OPTION_KV_TYPE] = { "kv-type", 0, KIND_LIBRARY, LOADING,
        FIELD(kv_type) },
    [OPTION_WEIGHTS] = { "weights", 0, KIND_LIBRARY, LOADING,
        FIELD(weights) },
    [OPTION_TYPE] = { "type", 0, KIND_CHOICE, COMMAND_QUANTIZE, FIELD(weights), NULL,
        "blocks of 32 weights with a scale, of 8 or 4 bits each", .choices = quantized },
    [OPTION_ACTIVATIONS] = { "activations", 0, KIND_LIBRARY, EVALUATING,
        FIELD(activations) },
    [OPTION_CPU] = { "cpu", 0, KIND_LIBRARY, LOADING,
        FIELD(cpu) },
    [OPTION_LOAD] = { "load", 0, KIND_LIBRARY, LOADING,
        FIELD(load), .key = "load_mode" },
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

/* What a row comes to: the library's option, or one made of the row. */
static struct rwk_option option_of(const struct option_row *row)
{
    char key[64];
    snprintf(key, sizeof key, "%s", row->key ? row->key : row->name);
    for (char *c = key; *c; c++)
        *c = *c == '-' ? '_' : *c;
    struct rwk_option option = { .type = row->kind == KIND_CHOICE ? RWK_OPTION_CHOICE
                                         : row->kind == KIND_TEXT || row->kind == KIND_TEXTS
                                             ? RWK_OPTION_TEXT
                                             : RWK_OPTION_COUNT,
                                 .argument = row->argument, .min = row->min, .max = row->max,
                                 .choices = row->choices };
    if (row->kind == KIND_LIBRARY || !row->help)
        option = *rwk_option_find(key);
    option.key = row->name;
    option.help = row->help ? row->help : option.help;
    return option;
}

static void parse(const struct option_row *row, const char *command, const char *text, size_t size,
                  void *ret_value)
{
    struct rwk_error error = ERROR_INIT;
    struct rwk_option option = option_of(row);
    if (rwk_option_parse(&option, text, size, ret_value, &error))
        usage_error(command, "--%s", error.message);
}

static void set_counts(const struct option_row *row, const char *command, const char *text,
                       struct counts *list)
{
    const char *end;
    list->n = 0;
    do {
        end = strchrnul(text, ',');
        reserve(&list->items, &list->capacity, list->n + 1, sizeof *list->items);
        parse(row, command, text, (size_t)(end - text), &list->items[list->n++]);
        text = end + 1;
    } while (*end);
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
    case KIND_COUNTS:
        set_counts(row, command, text, field);
        break;
    case KIND_TEXTS:
        reserve(&list->items, &list->capacity, list->n + 1, sizeof *list->items);
        parse(row, command, text, strlen(text), &list->items[list->n++]);
        break;
    case KIND_TEXT: /* may be empty: whoever uses it knows better what that means */
        *(const char **)field = text;
        break;
    case KIND_COUNT:
    case KIND_CHOICE:
    case KIND_LIBRARY:
        parse(row, command, text, strlen(text), field);
        break;
    }
}

const char *options_choice(const struct options *options, enum option_id id)
{
    const struct rwk_option option = option_of(&rows[id]);
    uint32_t value;
    memcpy(&value, (const char *)options + rows[id].field, sizeof value);
    for (const struct rwk_choice *c = option.choices; c->name; c++)
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

static void choice_names(const struct rwk_choice *choices, char *buffer, size_t size)
{
    size_t used = 0;
    buffer[0] = 0;
    for (const struct rwk_choice *c = choices; c->name && used < size; c++)
        used += (size_t)snprintf(buffer + used, size - used, "%s%s", used ? "|" : "", c->name);
}

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
        const struct rwk_option option = option_of(row);
        if (option.choices)
            choice_names(option.choices, names, sizeof names);
        const char *argument = option.choices ? names : option.argument;
        snprintf(left, sizeof left, "%s--%s%s%s", letter, row->name, argument ? " " : "",
                 argument ? argument : "");
        bool wide = strlen(left) > USAGE_COLUMN;
        out_print("  %-*s%s", USAGE_COLUMN, left, wide ? "\n" : " ");
        out_print("%*s%s\n", wide ? USAGE_COLUMN + 3 : 0, "", option.help);
    }
}
