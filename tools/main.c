/* ropewalk COMMAND ...; the same program under the name `generate` is `ropewalk generate`. */
#include "tool.h"

#include <signal.h>
#include <string.h>

#define LOADING "threads context chunk rope-scaling rope-theta original-context kv-type weights activations cpu load quiet"

static const struct command commands[] = {
    { "generate", "MODEL [PROMPT]", "Continues PROMPT (or standard input) and prints the continuation as it comes.",
      LOADING " max-new-tokens greedy temperature top-k top-p min-p repetition-penalty seed stop ids ids-file print-ids "
      "ignore-eos json", 1, 2, run_generate },
    { "logits", "MODEL --ids \"...\" --output FILE", "Writes the logits of every token as a safetensors file.",
      LOADING " ids ids-file output", 1, 1, run_logits },
    { "tokenize", "MODEL [TEXT]", "Text (or standard input) to token ids.", "jsonl no-special pieces", 1, 2, run_tokenize },
    { "detokenize", "MODEL [IDS]", "Token ids (or standard input) to text.", "jsonl no-special", 1, 2, run_detokenize },
    { "inspect", "MODEL|CONFIG.json|FILE.safetensors", "What a model is made of and what memory it takes.",
      LOADING " tensors json", 1, 1, run_inspect },
    { "rope", "MODEL|CONFIG.json", "The effective position plan.", "rope-scaling rope-theta original-context json", 1, 1,
      run_rope },
    { "perplexity", "MODEL [MODEL...] FILE", "Perplexity of a text, in windows of one or more lengths.",
      LOADING " length stride max-tokens buckets plot csv json", 2, 60, run_perplexity },
    { "bench", "MODEL", "Speed of prefill and decoding.", LOADING " prompt-tokens max-new-tokens repeat json", 1, 1, run_bench },
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static void usage(FILE *to)
{
    fprintf(to, "usage: ropewalk COMMAND ...\n\n");
    for (int i = 0; i < N_COMMANDS; i++)
        fprintf(to, "  %-11s %s\n", commands[i].name, commands[i].help);
    fprintf(to, "\nropewalk COMMAND --help tells more; ropewalk --version tells which.\n");
}

int main(int argc, char **argv)
{
    struct options options;
    const char *base = strrchr(argv[0], '/');
    const char *name = strcmp(base ? base + 1 : argv[0], "generate") == 0 ? "generate" : NULL;
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is a failed write, reported like any other */
    if (!name) {
        if (argc < 2) {
            usage(stderr);
            return EXIT_USAGE;
        }
        name = argv[1];
        argc--;
        argv++;
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        usage(stdout);
        return finish_output(EXIT_DONE);
    }
    if (strcmp(name, "--version") == 0) {
        uint32_t v = rwk_version();
        printf("ropewalk %u.%u.%u\n", v >> 16, v >> 8 & 255, v & 255);
        return finish_output(EXIT_DONE);
    }
    for (int i = 0; i < N_COMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0) {
            int status = options_parse(&options, &commands[i], argc, argv);
            return status ? status : finish_output(commands[i].run(&options));
        }
    fprintf(stderr, "ropewalk: %s: no such command (see ropewalk --help)\n", name);
    return EXIT_USAGE;
}
