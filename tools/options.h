/* The options of all commands, in one table (options.c): it feeds the parser, the checks of
 * bounds, and the usage text. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Which commands take an option: one bit each. */
enum command_bit {
    COMMAND_GENERATE = 1 << 0,
    COMMAND_LOGITS = 1 << 1,
    COMMAND_TOKENIZE = 1 << 2,
    COMMAND_DETOKENIZE = 1 << 3,
    COMMAND_PERPLEXITY = 1 << 4,
    COMMAND_INSPECT = 1 << 5,
    COMMAND_ROPE = 1 << 6,
    COMMAND_BENCH = 1 << 7,
    COMMAND_QUANTIZE = 1 << 8,
    COMMAND_CHECKSUM = 1 << 9,
};

enum option_id {
    OPTION_HELP,
    OPTION_TOKENS,
    OPTION_GREEDY,
    OPTION_TEMPERATURE,
    OPTION_TOP_K,
    OPTION_TOP_P,
    OPTION_MIN_P,
    OPTION_REPETITION_PENALTY,
    OPTION_SEED,
    OPTION_STOP,
    OPTION_IGNORE_EOS,
    OPTION_IDS,
    OPTION_IDS_FILE,
    OPTION_PRINT_IDS,
    OPTION_OUTPUT,
    OPTION_JSONL,
    OPTION_NO_SPECIAL,
    OPTION_PLAIN_SPECIAL,
    OPTION_PIECES,
    OPTION_TENSORS,
    OPTION_VERIFY,
    OPTION_LENGTH,
    OPTION_STRIDE,
    OPTION_MAX_TOKENS,
    OPTION_BUCKETS,
    OPTION_CSV,
    OPTION_PLOT,
    OPTION_PROMPT_TOKENS,
    OPTION_DECODE_TOKENS,
    OPTION_DEPTH,
    OPTION_REPEAT,
    OPTION_JSON,
    OPTION_THREADS,
    OPTION_CONTEXT,
    OPTION_CHUNK,
    OPTION_ROPE_SCALING,
    OPTION_ROPE_THETA,
    OPTION_ORIGINAL_CONTEXT,
    OPTION_KV_TYPE,
    OPTION_WEIGHTS,
    OPTION_TYPE,
    OPTION_ACTIVATIONS,
    OPTION_CPU,
    OPTION_LOAD,
    OPTION_QUIET,
    N_OPTIONS
};

struct texts {
    const char **items;
    size_t n, capacity;
};

struct counts {
    uint64_t *items;
    size_t n, capacity;
};

/* What the command line said. Values not given stay as options_parse() presets them, mostly 0. */
struct options {
    uint64_t given; /* bit per enum option_id */
    const char *const *arguments;
    size_t n_arguments;

    bool help, greedy, ignore_eos, print_ids, jsonl, no_special, plain_special, pieces, tensors,
        json, quiet;
    uint64_t n_tokens, top_k, seed, stride, max_tokens, buckets, prompt_tokens, decode_tokens,
        depth, repeat;
    uint64_t threads, context, chunk, original_context;
    double temperature, top_p, min_p, repetition_penalty, rope_theta;
    const char *ids, *ids_file, *output, *csv, *plot, *verify;
    struct texts stop, rope_scaling;
    struct counts length;
    uint32_t kv_type, weights, activations, cpu, load; /* the library's enums */
};

struct command {
    const char *name;
    enum command_bit bit;
    const char *arguments; /* as the usage line shows them */
    size_t min_arguments, max_arguments;
    const char *help;  /* one line */
    const char *notes; /* further lines of --help, or "" */
    int (*run)(const struct options *options);
};

static inline bool options_given(const struct options *options, enum option_id id)
{
    return options->given >> id & 1;
}

/* Parses the words after the command's name. Wrong usage ends the program with exit status 2. */
void options_parse(struct options *options, const struct command *command, int argc, char **argv);
void options_finish(struct options *options);
/* The command's usage text, on standard output. */
void options_usage(const struct command *command);
/* One line and a hint on standard error; exit status 2. `command` may be NULL. */
_Noreturn void usage_error(const char *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The name of an option's present choice, such as "as-stored". */
const char *options_choice(const struct options *options, enum option_id id);

#endif
