/* One small model, options for sessions on it, and tokens of its vocabulary, for tests that go
 * through many checkpoints one by one. */
#ifndef RWK_TESTS_ONE_MODEL_H
#define RWK_TESTS_ONE_MODEL_H

#include "checkpoint.h"

enum { CONTEXT = 256 };

static struct rwk_model *model;
static struct rwk_session_options options;
static uint32_t vocab, tokens[CONTEXT];

static inline void open_model(const char *name)
{
    struct rwk_model_info info = { .size = sizeof info };
    model = open_checkpoint(name, NULL);
    assert_ok(rwk_model_get_info(model, &info));
    vocab = info.vocab_size;
    rwk_session_options_init(&options);
    options.context = info.context_limit < CONTEXT ? info.context_limit : CONTEXT;
    options.chunk = 48;
    for (uint32_t i = 0; i < CONTEXT; i++)
        tokens[i] = (i * 31 + i * i * 7 + 5) % vocab;
}

#endif
