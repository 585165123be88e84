/* argv -> command -> exit status: 0 done, 1 failed (one line on standard error), 2 wrong usage.
 *
 * `ropewalk COMMAND ...`; a program of the name `generate` is `ropewalk generate`. setlocale() is
 * never called, so numbers read and print the same under every locale. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "commands.h"
#include "output.h"
#include "tool.h"

double process_started;

static const struct command commands[] = {
    { "generate", COMMAND_GENERATE, "MODEL [PROMPT]", 1, 2, "Continue a text",
      "PROMPT is read from standard input where it is not given. Prints the continuation only,\n"
      "token by token. Samples where the model's settings or an option below ask for it; else\n"
      "always takes the likeliest token.\n",
      run_generate },
    { "logits", COMMAND_LOGITS, "--ids LIST --output FILE MODEL", 1, 1,
      "Write the logits of every token of a list as a safetensors file",
      "The file holds one tensor, logits, F32 [tokens, vocabulary].\n", run_logits },
    { "tokenize", COMMAND_TOKENIZE, "MODEL [TEXT]", 1, 2, "Turn text into token ids",
      "MODEL needs only tokenizer files. TEXT is read from standard input where it is not given.\n",
      run_tokenize },
    { "detokenize", COMMAND_DETOKENIZE, "MODEL [IDS]", 1, 2, "Turn token ids into text",
      "IDS (\"1 2 3\" or [1, 2, 3]) are read from standard input where they are not given.\n",
      run_detokenize },
    { "perplexity", COMMAND_PERPLEXITY, "MODEL [MODEL ...] FILE", 2, SIZE_MAX,
      "Measure how well models predict a text, at several lengths and position scalings",
      "The text is cut into windows of --length tokens side by side; every token of a window but\n"
      "its first is scored, an incomplete last window is left out. --rope-scaling may be given\n"
      "several times.\n",
      run_perplexity },
    { "inspect", COMMAND_INSPECT, "MODEL|CONFIG.json|FILE.safetensors", 1, 1,
      "Show what a model, a configuration or a weight file holds", "", run_inspect },
    { "rope", COMMAND_ROPE, "MODEL|CONFIG.json", 1, 1, "Show the effective position plan", "",
      run_rope },
    { "bench", COMMAND_BENCH, "MODEL", 1, 1, "Measure prefill and decode speed", "", run_bench },
    { "quantize", COMMAND_QUANTIZE, "--type q8|q4 MODEL DIRECTORY", 2, 2,
      "Write a model with quantised weights", "", run_quantize },
    { "checksum", COMMAND_CHECKSUM, "MODEL", 1, 1, "Write checksums of a model's files and tensors",
      "'ropewalk inspect MODEL --verify MANIFEST' compares a model with them.\n", run_checksum },
};

static void print_overview(FILE *file)
{
    fputs("usage: ropewalk COMMAND [options] ...\n\ncommands:\n", file);
    for (size_t i = 0; i < COUNT_OF(commands); i++)
        fprintf(file, "  %-12s %s\n", commands[i].name, commands[i].help);
    fputs("\n'ropewalk COMMAND --help' shows a command's options, "
          "'ropewalk --version' the version.\n",
          file);
}

static const struct command *command_find(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(commands); i++)
        if (!strcmp(commands[i].name, name))
            return &commands[i];
    return NULL;
}

static int run_command(const struct command *command, int argc, char **argv)
{
    struct options options;
    int status = EXIT_DONE;
    options_parse(&options, command, argc, argv);
    if (options.help)
        options_usage(command);
    else
        status = command->run(&options);
    out_flush();
    options_finish(&options);
    return status;
}

int main(int argc, char **argv)
{
    const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
    const char *program = slash ? slash + 1 : argc > 0 ? argv[0] : "";
    process_started = now();
    signal(SIGPIPE, SIG_IGN); /* a reader that went away is a failed write, reported as such, */
    signal(SIGXFSZ, SIG_IGN); /* and so is a limit on the size of files */
    if (!strcmp(program, "generate"))
        return run_command(command_find("generate"), argc, argv);
    if (argc < 2) {
        print_overview(stderr);
        return EXIT_USAGE;
    }
    const char *word = argv[1];
    if (!strcmp(word, "--version")) {
        uint32_t v = rwk_version();
        out_print("ropewalk %u.%u.%u\n", v >> 16, v >> 8 & 0xff, v & 0xff);
        out_flush();
        return EXIT_DONE;
    }
    if (!strcmp(word, "--help") || !strcmp(word, "-h") || !strcmp(word, "help")) {
        print_overview(stdout);
        out_flush();
        return EXIT_DONE;
    }
    const struct command *command = command_find(word);
    if (!command)
        usage_error(NULL, "%s: no such command", word);
    return run_command(command, argc - 1, argv + 1);
}
