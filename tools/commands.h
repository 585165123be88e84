/* The commands: each takes the parsed command line and returns the exit status. */
#ifndef COMMANDS_H
#define COMMANDS_H

#include "options.h"

extern double process_started; /* now() at the start of main() */

int run_generate(const struct options *options);
int run_logits(const struct options *options);
int run_tokenize(const struct options *options);
int run_detokenize(const struct options *options);
int run_perplexity(const struct options *options);
int run_inspect(const struct options *options);
int run_rope(const struct options *options);
int run_bench(const struct options *options);
int run_quantize(const struct options *options);
int run_checksum(const struct options *options);

#endif
