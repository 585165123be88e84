/* Any bytes as the saved state of a session. The first byte says which of the checks that would
 * stop nearly everything are made to hold: 1 the header's checksum, 2 the checksum at the end, 4
 * the fingerprint. What loads is continued and saved again. */
#include <stdlib.h>
#include <string.h>
#include <ropewalk/ropewalk.h>
#include "runtime/base/hash.h"

#define REQUIRE(condition) ((condition) ? (void)0 : abort())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Offsets of the format (runtime/state.c). */
enum {
    FINGERPRINT = 16,
    N_GROUPS = 60,
    GROUPS = 64,
    GROUP_SIZE = 16,
    MAX_GROUPS = 8,
    CONTEXT = 70
};

struct bytes {
    uint8_t *data;
    size_t size, capacity, at;
};

static struct rwk_model *model;
static uint64_t fingerprint;

static int put(void *user_data, const void *data, size_t size)
{
    struct bytes *b = user_data;
    if (size == 0)
        return 0;
    if (b->capacity - b->size < size) {
        b->capacity = 2 * (b->size + size);
        b->data = realloc(b->data, b->capacity);
        REQUIRE(b->data != NULL);
    }
    memcpy(b->data + b->size, data, size);
    b->size += size;
    return 0;
}

static int get(void *user_data, void *buffer, size_t size, size_t *ret_size)
{
    struct bytes *b = user_data;
    *ret_size = size < b->size - b->at ? size : b->size - b->at;
    if (*ret_size > 0)
        memcpy(buffer, b->data + b->at, *ret_size);
    b->at += *ret_size;
    return 0;
}

static struct rwk_session_options session_options(void)
{
    struct rwk_session_options options;
    rwk_session_options_init(&options);
    options.context = CONTEXT;
    return options;
}

static void clean_up(void)
{
    rwk_model_close(&model);
}

/* Opens the model; its fingerprint is what a session of it saves. */
static void prepare(void)
{
    struct rwk_session_options options = session_options();
    struct rwk_session *session = NULL;
    struct bytes saved = { 0 };
    const char *path = RWK_TEST_DATA "/checkpoints/mistral-window";
    REQUIRE(rwk_model_open(&model, path, NULL, NULL) == RWK_STATUS_OK && atexit(clean_up) == 0);
    REQUIRE(rwk_session_create(&session, model, &options, NULL) == RWK_STATUS_OK);
    REQUIRE(rwk_session_save(session, put, &saved, NULL) == RWK_STATUS_OK);
    memcpy(&fingerprint, saved.data + FINGERPRINT, sizeof fingerprint);
    rwk_session_close(&session);
    free(saved.data);
}

static void seal(uint8_t *data, size_t at)
{
    uint64_t hash = rwk_hash(data, at);
    memcpy(data + at, &hash, sizeof hash);
}

static void make_hold(uint8_t *data, size_t size, unsigned what)
{
    uint32_t n_groups;
    if (size < GROUPS)
        return;
    if (what & 4)
        memcpy(data + FINGERPRINT, &fingerprint, sizeof fingerprint);
    memcpy(&n_groups, data + N_GROUPS, sizeof n_groups);
    if (what & 1 && n_groups <= MAX_GROUPS && size >= GROUPS + GROUP_SIZE * n_groups + 8)
        seal(data, GROUPS + GROUP_SIZE * n_groups);
    if (what & 2)
        seal(data, size - 8);
}

static void go_on(struct rwk_session *session)
{
    struct bytes saved = { 0 };
    struct rwk_session_options options = session_options();
    struct rwk_session *again = NULL;
    uint32_t token = 1;
    if (rwk_session_position(session) < CONTEXT)
        REQUIRE(rwk_session_eval(session, &token, 1, 0, NULL, NULL) == RWK_STATUS_OK);
    REQUIRE(rwk_session_save(session, put, &saved, NULL) == RWK_STATUS_OK);
    REQUIRE(rwk_session_load(&again, model, &options, get, &saved, NULL) == RWK_STATUS_OK);
    REQUIRE(rwk_session_position(again) == rwk_session_position(session));
    rwk_session_close(&again);
    free(saved.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rwk_error error = { .size = sizeof error };
    struct rwk_session_options options = session_options();
    struct rwk_session *session = NULL;
    struct bytes state = { 0 };
    if (!model)
        prepare();
    if (size < 1)
        return 0;
    put(&state, data + 1, size - 1);
    make_hold(state.data, state.size, data[0]);
    enum rwk_status status = rwk_session_load(&session, model, &options, get, &state, &error);
    if (status == RWK_STATUS_OK) {
        for (uint64_t i = 0; i < rwk_session_position(session); i++)
            REQUIRE(rwk_session_tokens(session)[i] < 101);
        go_on(session);
    } else {
        REQUIRE(!session && error.message[0] && !strchr(error.message, '\n'));
        REQUIRE(status == RWK_STATUS_FORMAT || status == RWK_STATUS_MISMATCH ||
                status == RWK_STATUS_CONTEXT_FULL || status == RWK_STATUS_UNSUPPORTED ||
                status == RWK_STATUS_RANGE);
    }
    rwk_session_close(&session);
    free(state.data);
    return 0;
}
