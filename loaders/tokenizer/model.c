/* The models on one piece of text: WordPiece and WordLevel here, byte-pair encoding and Unigram by
 * themselves. */
#include "loaders/tokenizer/internal.h"

void rwk_token_put(struct rwk_work *work, uint32_t id, size_t begin, size_t end)
{
    struct rwk_token token = { id, (uint32_t)begin, (uint32_t)end };
    rwk_buffer_append(&work->tokens, &token, sizeof token);
}

enum rwk_status rwk_fail_unknown(const struct rwk_work *work)
{
    const struct rwk_tokenizer *t = work->t;
    if (!t->unk_name)
        return rwk_fail(work->error, RWK_STATUS_RANGE, NULL,
                        "the text holds what the vocabulary does not, and the model has "
                        "no unknown token");
    return rwk_fail(work->error, RWK_STATUS_RANGE, NULL,
                    "the text holds what the vocabulary does not, nor does it hold the "
                    "unknown token \"%.*s\"",
                    (int)(t->unk_name_size < 100 ? t->unk_name_size : 100), t->unk_name);
}

static enum rwk_status unknown(struct rwk_work *work, size_t size)
{
    if (work->t->unk == RWK_TOKEN_NONE)
        return rwk_fail_unknown(work);
    rwk_token_put(work, work->t->unk, 0, size);
    return RWK_STATUS_OK;
}

/* The longest piece at text[at..size) that the vocabulary has, with the prefix of word parts where
 * at > 0. */
static uint32_t longest(struct rwk_work *work, const char *text, size_t at, size_t size,
                        size_t *ret_end)
{
    const struct rwk_tokenizer *t = work->t;
    size_t prefix = at ? t->word_prefix_size : 0;
    work->scratch.size = 0;
    rwk_buffer_append(&work->scratch, t->word_prefix, prefix);
    rwk_buffer_append(&work->scratch, text + at, size - at);
    for (size_t end = size; end > at && !work->scratch.failed; end = rwk_utf8_back(text, end)) {
        uint32_t id = rwk_vocab_find(t, work->scratch.data, prefix + end - at);
        *ret_end = end;
        if (id != RWK_TOKEN_NONE)
            return id;
    }
    return RWK_TOKEN_NONE;
}

/* Greedy, longest first, all or nothing. */
static enum rwk_status wordpiece(struct rwk_work *work, const char *text, size_t size)
{
    size_t mark = work->tokens.size, characters = 0, end = 0;
    for (size_t i = 0; i < size; i++)
        characters += ((unsigned char)text[i] & 0xc0) != 0x80;
    if (characters > work->t->max_word)
        return unknown(work, size);
    for (size_t at = 0; at < size; at = end) {
        uint32_t id = longest(work, text, at, size, &end);
        if (work->scratch.failed)
            return rwk_fail_nomem(work->error, size);
        if (id == RWK_TOKEN_NONE) {
            work->tokens.size = mark;
            return unknown(work, size);
        }
        rwk_token_put(work, id, at, end);
    }
    return RWK_STATUS_OK;
}

static enum rwk_status wordlevel(struct rwk_work *work, const char *text, size_t size)
{
    uint32_t id = rwk_vocab_find(work->t, text, size);
    if (id == RWK_TOKEN_NONE)
        return unknown(work, size);
    rwk_token_put(work, id, 0, size);
    return RWK_STATUS_OK;
}

enum rwk_status rwk_model_run(struct rwk_work *work, const char *text, size_t size)
{
    static enum rwk_status (*const models[])(struct rwk_work *, const char *, size_t) = {
        [RWK_MODEL_BPE] = rwk_bpe_run,
        [RWK_MODEL_UNIGRAM] = rwk_unigram_run,
        [RWK_MODEL_WORDPIECE] = wordpiece,
        [RWK_MODEL_WORDLEVEL] = wordlevel,
    };
    enum rwk_status status = models[work->t->model](work, text, size);
    return status                ? status
           : work->tokens.failed ? rwk_fail_nomem(work->error, size)
                                 : RWK_STATUS_OK;
}
