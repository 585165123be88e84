/* What the commands share. Tools know the public header only. */
#ifndef ROPEWALK_TOOL_H
#define ROPEWALK_TOOL_H

#include <stdbool.h>
#include <stdio.h>
#include <ropewalk/ropewalk.h>

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, MAX_REPEATED = 16 };

/* Values of all options; a command reads those that it takes. */
struct options {
    const char *arguments[64];
    int n_arguments;

    uint64_t threads, context, chunk, original_context, max_new_tokens, seed, prompt_tokens, max_tokens, stride, repeat;
    double temperature, top_p, min_p, repetition_penalty, rope_theta;
    int64_t top_k;
    uint32_t kv_type, weights, activations, cpu, load_mode;
    const char *rope_scaling[MAX_REPEATED], *stop[MAX_REPEATED], *lengths, *ids, *ids_file, *output, *plot, *csv;
    int n_rope_scaling, n_stop;
    bool greedy, print_ids, json, ignore_eos, quiet, jsonl, no_special, pieces, tensors, buckets, verify;
    uint64_t given; /* a bit for each row of the table of options */
};

struct command {
    const char *name, *synopsis, *help;
    const char *options; /* names of the options it takes, separated by blanks */
    int min_arguments, max_arguments;
    int (*run)(const struct options *options);
};

/* options.c */
int options_parse(struct options *ret, const struct command *command, int argc, char **argv);
bool options_given(const struct options *options, const char *name);
void options_usage(const struct command *command, FILE *to);
/* Strict: the whole text, nothing before or after. */
bool parse_u64(const char *text, uint64_t *ret);
bool parse_double(const char *text, double *ret);

/* common.c */
int fail_error(const struct rwk_error *error);
int fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
void notice(const struct options *options, const char *format, ...) __attribute__((format(printf, 2, 3)));
void model_options(const struct options *options, const char *rope_scaling, struct rwk_model_options *ret);
void session_options(const struct options *options, struct rwk_pool *pool, struct rwk_session_options *ret);
int open_pool(const struct options *options, struct rwk_pool **ret);
/* Context that is asked for against what the model has; says so when it goes beyond the plan. */
int check_context(const struct options *options, const struct rwk_model *model, uint64_t context);
double seconds(void);
/* Flushes stdout; a write that failed is an error. */
int finish_output(int status);

/* ids.c: "1 2 3", "[1, 2, 3]"; the caller frees. */
int parse_ids(const char *text, size_t size, uint32_t **ret, size_t *ret_n);
int read_whole(const char *path, char **ret, size_t *ret_size); /* "-": stdin */
int encode_text(struct rwk_tokenizer *tokenizer, const char *text, size_t size, uint32_t flags, uint32_t **ret, size_t *ret_n);

/* output.c */
void print_json_string(FILE *to, const char *text, size_t size);
void print_double(FILE *to, double value);  /* shortest that reads back the same; never a decimal comma */
void print_float(FILE *to, float value);
int write_tensor(const char *path, const char *name, uint64_t rows, uint64_t cols, const float *data);

int run_generate(const struct options *options);
int run_logits(const struct options *options);
int run_tokenize(const struct options *options);
int run_detokenize(const struct options *options);
int run_inspect(const struct options *options);
int run_rope(const struct options *options);
int run_perplexity(const struct options *options);
int run_bench(const struct options *options);

#endif
