/* Options as a table: name, letter, kind, place, bounds, help. Parsing, checking and the usage text are made from it. */
#include "tool.h"

#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum kind { FLAG, U64, I64, DOUBLE, TEXT, TEXTS, CHOICE };

struct row {
    const char *name;
    char letter;
    enum kind kind;
    size_t field, count_field; /* TEXTS: the list and its length */
    double min, max;
    const char *choices;       /* CHOICE: names in the order of their values from `first` on */
    const char *argument, *help;
};

#define AT(f) offsetof(struct options, f)

static const struct row rows[] = {
    { "threads", 't', U64, AT(threads), 0, 1, 1024, NULL, "N", "threads (default: what the machine and its quota allow)" },
    { "context", 'c', U64, AT(context), 0, 1, 1e9, NULL, "N", "positions to have room for" },
    { "chunk", 0, U64, AT(chunk), 0, 1, 65536, NULL, "N", "tokens per pass over the weights (default 512)" },
    { "rope-scaling", 0, TEXTS, AT(rope_scaling), AT(n_rope_scaling), 0, 0, NULL, "SPEC",
      "yarn:4, ntk:4, linear:2, dynamic:4, llama3:8, none, or JSON as in config.json" },
    { "rope-theta", 0, DOUBLE, AT(rope_theta), 0, 1e-30, 1e30, NULL, "X", "base of the rotary frequencies" },
    { "original-context", 0, U64, AT(original_context), 0, 1, 1e12, NULL, "N", "length the model was trained at" },
    { "kv-type", 0, CHOICE, AT(kv_type), 0, 0, 0, "f16 f32 bf16 q8", "TYPE", "how keys and values are kept (default f16)" },
    { "weights", 0, CHOICE, AT(weights), 0, 0, 0, "as-stored q8 q4", "TYPE", "how weights are held" },
    { "activations", 0, CHOICE, AT(activations), 0, 0, 0, "auto f32 int8", "TYPE", "arithmetic on quantised weights" },
    { "cpu", 0, CHOICE, AT(cpu), 0, 0, 0, "auto scalar avx2 avx512 neon", "LEVEL", "instruction set" },
    { "load", 0, CHOICE, AT(load_mode), 0, 0, 0, "map read lock", "MODE", "how weight files are brought in" },
    { "quiet", 'q', FLAG, AT(quiet), 0, 0, 0, NULL, NULL, "no notices" },
    { "max-new-tokens", 'n', U64, AT(max_new_tokens), 0, 0, 1e9, NULL, "N", "tokens to generate (0: only read the prompt)" },
    { "greedy", 0, FLAG, AT(greedy), 0, 0, 0, NULL, NULL, "always the likeliest token" },
    { "temperature", 0, DOUBLE, AT(temperature), 0, 0, 1e30, NULL, "X", "0: greedy" },
    { "top-k", 0, I64, AT(top_k), 0, -1, 2147483647, NULL, "N", "0: off" },
    { "top-p", 0, DOUBLE, AT(top_p), 0, 0, 1, NULL, "X", "1: off" },
    { "min-p", 0, DOUBLE, AT(min_p), 0, 0, 1, NULL, "X", "0: off" },
    { "repetition-penalty", 0, DOUBLE, AT(repetition_penalty), 0, 1e-30, 1e30, NULL, "X", "1: off" },
    { "seed", 0, U64, AT(seed), 0, 0, 18446744073709549568.0, NULL, "N", "of the random numbers (default 0)" },
    { "stop", 0, TEXTS, AT(stop), AT(n_stop), 0, 0, NULL, "TEXT", "end where this text would begin (repeatable)" },
    { "ids", 0, TEXT, AT(ids), 0, 0, 0, NULL, "\"1 2 3\"", "token ids in place of text" },
    { "ids-file", 0, TEXT, AT(ids_file), 0, 0, 0, NULL, "FILE", "the same from a file" },
    { "print-ids", 0, FLAG, AT(print_ids), 0, 0, 0, NULL, NULL, "print ids instead of text" },
    { "ignore-eos", 0, FLAG, AT(ignore_eos), 0, 0, 0, NULL, NULL, "go on after an end-of-sequence token" },
    { "json", 0, FLAG, AT(json), 0, 0, 0, NULL, NULL, "print one JSON object" },
    { "output", 'o', TEXT, AT(output), 0, 0, 0, NULL, "FILE", "file to write" },
    { "jsonl", 0, FLAG, AT(jsonl), 0, 0, 0, NULL, NULL, "one JSON value a line, in and out" },
    { "no-special", 0, FLAG, AT(no_special), 0, 0, 0, NULL, NULL, "do not add (or print) special tokens" },
    { "pieces", 0, FLAG, AT(pieces), 0, 0, 0, NULL, NULL, "a line for each token: id, bytes, piece" },
    { "tensors", 0, FLAG, AT(tensors), 0, 0, 0, NULL, NULL, "list all tensors" },
    { "length", 'l', TEXT, AT(lengths), 0, 0, 0, NULL, "N,N", "window lengths (default: the model's context)" },
    { "stride", 0, U64, AT(stride), 0, 1, 1e9, NULL, "N", "distance of windows (default: their length)" },
    { "max-tokens", 0, U64, AT(max_tokens), 0, 2, 1e12, NULL, "N", "use the first N tokens of the text" },
    { "buckets", 0, FLAG, AT(buckets), 0, 0, 0, NULL, NULL, "perplexity by position, too" },
    { "plot", 0, TEXT, AT(plot), 0, 0, 0, NULL, "FILE", "draw perplexity over length (.svg or .png, needs gnuplot)" },
    { "csv", 0, TEXT, AT(csv), 0, 0, 0, NULL, "FILE", "write the table as CSV" },
    { "prompt-tokens", 'p', U64, AT(prompt_tokens), 0, 1, 1e9, NULL, "N", "tokens to prefill (default 512)" },
    { "repeat", 'r', U64, AT(repeat), 0, 1, 1000, NULL, "N", "measurements, of which the median counts (default 3)" },
};
enum { N_ROWS = sizeof rows / sizeof *rows };

bool parse_u64(const char *text, uint64_t *ret)
{
    uint64_t value = 0;
    if (!*text)
        return false;
    for (; *text; text++) {
        unsigned digit = (unsigned char)*text - (unsigned)'0';
        if (digit > 9 || __builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, digit, &value))
            return false;
    }
    *ret = value;
    return true;
}

/* Plain decimal or exponent notation; the program never leaves the "C" locale. */
bool parse_double(const char *text, double *ret)
{
    char *end;
    if (!*text || strspn(text, "0123456789.eE+-") != strlen(text))
        return false;
    *ret = strtod(text, &end);
    return *end == '\0' && isfinite(*ret);
}

static bool takes(const struct command *command, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = command->options; (p = strstr(p, name)); p += n)
        if ((p == command->options || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\0'))
            return true;
    return false;
}

bool options_given(const struct options *options, const char *name)
{
    for (int i = 0; i < N_ROWS; i++)
        if (strcmp(rows[i].name, name) == 0)
            return options->given >> i & 1;
    return false;
}

static bool set_number(const struct row *row, const char *value, void *field)
{
    double d = 0;
    uint64_t u = 0;
    if (row->kind == DOUBLE) {
        if (!parse_double(value, &d) || !(d >= row->min && d <= row->max))
            return false;
        *(double *)field = d;
        return true;
    }
    bool negative = row->kind == I64 && value[0] == '-';
    if (!parse_u64(value + negative, &u))
        return false;
    d = negative ? -(double)u : (double)u;
    if (!(d >= row->min && d <= row->max))
        return false;
    if (row->kind == I64)
        *(int64_t *)field = negative ? -(int64_t)u : (int64_t)u;
    else
        *(uint64_t *)field = u;
    return true;
}

static bool set_choice(const struct row *row, const char *value, uint32_t *field)
{
    uint32_t index = 0;
    size_t n = strlen(value);
    for (const char *p = row->choices; *p; index++) {
        size_t k = strcspn(p, " ");
        if (k == n && strncmp(p, value, n) == 0) {
            *field = index;
            return true;
        }
        p += k + (p[k] == ' ');
    }
    return false;
}

static int set(struct options *o, const struct row *row, const char *value)
{
    char *field = (char *)o + row->field;
    bool good = true;
    switch (row->kind) {
    case FLAG: *(bool *)field = true; break;
    case U64: case I64: case DOUBLE: good = set_number(row, value, field); break;
    case TEXT: *(const char **)field = value; break;
    case TEXTS: {
        int *n = (int *)((char *)o + row->count_field);
        if (*n == MAX_REPEATED)
            return fprintf(stderr, "ropewalk: --%s: given more than %d times\n", row->name, MAX_REPEATED), EXIT_USAGE;
        ((const char **)field)[(*n)++] = value;
        break;
    }
    case CHOICE: good = set_choice(row, value, (uint32_t *)field); break;
    }
    if (!good && row->kind == CHOICE)
        fprintf(stderr, "ropewalk: --%s: \"%s\" is none of: %s\n", row->name, value, row->choices);
    else if (!good)
        fprintf(stderr, "ropewalk: --%s: \"%s\" is not a number in range\n", row->name, value);
    o->given |= 1ull << (row - rows);
    return good ? EXIT_DONE : EXIT_USAGE;
}

void options_usage(const struct command *command, FILE *to)
{
    fprintf(to, "usage: ropewalk %s %s\n%s\n\noptions\n", command->name, command->synopsis, command->help);
    for (int i = 0; i < N_ROWS; i++) {
        char left[64];
        if (!takes(command, rows[i].name))
            continue;
        snprintf(left, sizeof left, "%c%c%s--%s%s%s", rows[i].letter ? '-' : ' ', rows[i].letter ? rows[i].letter : ' ',
                 rows[i].letter ? ", " : "  ", rows[i].name, rows[i].argument ? " " : "",
                 rows[i].argument ? rows[i].argument : "");
        fprintf(to, "  %-30s %s\n", left, rows[i].help);
    }
}

int options_parse(struct options *ret, const struct command *command, int argc, char **argv)
{
    struct options o = { .temperature = 1, .top_p = 1, .repetition_penalty = 1, .top_k = 50, .prompt_tokens = 512,
                         .repeat = 3 };
    struct option longs[N_ROWS + 2] = { { "help", no_argument, NULL, 'h' } };
    char letters[2 * N_ROWS + 3] = ":h";
    int n = 1, code, which;
    for (int i = 0; i < N_ROWS; i++) {
        if (!takes(command, rows[i].name))
            continue;
        longs[n++] = (struct option){ rows[i].name, rows[i].kind == FLAG ? no_argument : required_argument, NULL, 256 + i };
        if (rows[i].letter)
            snprintf(letters + strlen(letters), 3, "%c%s", rows[i].letter, rows[i].kind == FLAG ? "" : ":");
    }
    opterr = 0;
    optind = 1;
    while ((code = getopt_long(argc, argv, letters, longs, &which)) != -1) {
        int row = code >= 256 ? code - 256 : -1;
        for (int i = 0; i < N_ROWS && row < 0; i++)
            if (rows[i].letter && rows[i].letter == code && takes(command, rows[i].name))
                row = i;
        if (code == 'h') {
            options_usage(command, stdout);
            exit(EXIT_DONE);
        }
        if (row < 0) {
            fprintf(stderr, "ropewalk: %s: %s (see ropewalk %s --help)\n", argv[optind - 1],
                    code == ':' ? "needs a value" : "no such option of this command", command->name);
            return EXIT_USAGE;
        }
        int status = set(&o, &rows[row], optarg);
        if (status)
            return status;
    }
    for (int i = optind; i < argc && o.n_arguments < 64; i++)
        o.arguments[o.n_arguments++] = argv[i];
    if (argc - optind < command->min_arguments || argc - optind > command->max_arguments) {
        fprintf(stderr, "ropewalk: usage: ropewalk %s %s\n", command->name, command->synopsis);
        return EXIT_USAGE;
    }
    *ret = o;
    return EXIT_DONE;
}
