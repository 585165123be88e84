/* Opening the small checkpoints of tests/data, and sessions on them; what fails ends the test. */
#ifndef RWK_TESTS_CHECKPOINT_H
#define RWK_TESTS_CHECKPOINT_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ropewalk/ropewalk.h>

static struct rwk_error failure = { .size = sizeof failure };

/* For calls that are given &failure. */
#define assert_ok(call)                                                                            \
    do {                                                                                           \
        enum rwk_status status_ = (call);                                                          \
        ck_assert_msg(status_ == RWK_STATUS_OK, "%s: %s: %s", #call, rwk_status_name(status_),     \
                      failure.message);                                                            \
    } while (0)

/* The path of a checkpoint; good until the next call. */
static inline const char *checkpoint_path(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, RWK_TEST_DATA "/checkpoints/%.127s", name);
    return path;
}

static inline struct rwk_model *open_checkpoint(const char *name,
                                                const struct rwk_model_options *options)
{
    struct rwk_model *model = NULL;
    assert_ok(rwk_model_open(&model, checkpoint_path(name), options, &failure));
    return model;
}

static inline struct rwk_session *open_session(struct rwk_model *model,
                                               const struct rwk_session_options *options)
{
    struct rwk_session *session = NULL;
    assert_ok(rwk_session_create(&session, model, options, &failure));
    return session;
}

#endif
