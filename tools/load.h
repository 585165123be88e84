/* From the command line to an open model and a session of the right size. */
#ifndef LOAD_H
#define LOAD_H

#include <stdint.h>
#include <ropewalk/ropewalk.h>
#include "options.h"

/* The error object of a call that is about to be made. */
#define ERROR_INIT { .size = sizeof(struct rwk_error) }

/* The pool that --threads asks for; NULL for one thread. Close it after every session. */
struct rwk_pool *pool_open(const struct options *options);

/* The position options of a command line, with one of its --rope-scaling values or NULL. */
void model_options(struct rwk_model_options *ret, const struct options *options,
                   const char *rope_scaling);
/* The only --rope-scaling of a command that takes at most one, or NULL. */
const char *rope_scaling_of(const struct options *options);

struct rwk_model *model_open(const char *path, const struct options *options,
                             const char *rope_scaling, struct rwk_pool *pool);
void model_info(const struct rwk_model *model, struct rwk_model_info *ret_info);
struct rwk_tokenizer *tokenizer_open(const char *path);

/* A cache for more positions than this should be asked for. */
#define CONTEXT_BOUND 32768

/* The positions that a session may use where the work does not say: -c, or what the position plan
 * is valid for, bounded to CONTEXT_BOUND. */
uint64_t context_limit(const struct rwk_model_info *info, const struct options *options);
/* One line, unless --quiet, when positions beyond those the plan is valid for are going to be
 * used. */
void context_notice(const struct rwk_model_info *info, const struct options *options,
                    uint64_t context);

void session_options(struct rwk_session_options *ret, const struct options *options,
                     uint64_t context, struct rwk_pool *pool);
struct rwk_session *session_open(struct rwk_model *model,
                                 const struct rwk_session_options *options);

/* Text -> ids, with RWK_ENCODE_... flags. Spans may be NULL; else *ret_spans is to be freed. */
struct ids;
void encode(struct ids *ids, struct rwk_span **ret_spans, const struct rwk_tokenizer *tokenizer,
            const char *text, size_t size, uint32_t flags);

#endif
