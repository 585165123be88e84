/* Saving and loading sessions.
 *
 *   session -> header, tokens, last logits, cache pages that later queries can see, checksum
 *           -> the host's writer
 *   the host's reader -> header checked against model and options -> a fresh session, filled
 *                     -> checksum -> given out
 *
 * Little-endian, in this order:
 *
 *   offset  size  what
 *   0       8     "RWKSTATE"
 *   8       4     version of the format, 1
 *   12      2     enum rwk_kv_type of the cache
 *   14      2     1: float32 activations with quantised weights; else 0
 *   16      8     fingerprint of the model (models/fingerprint.c)
 *   24      8     P, tokens of the sequence
 *   32      8     C <= P, tokens whose keys and values follow
 *   40      8     frequency epoch of the cache: rwk_position_epoch of P when C > 0, else 0
 *   48      8     tokens computed as one pass would; 2^64 - 1: all (see rwk_session_shift)
 *   56      4     1 when the logits of the last token follow, else 0
 *   60      4     G, groups of layers with one window
 *   64      16 G  for each group: bytes of a page, number of pages
 *   64+16G  8     XXH3-64 of all bytes before
 *           4 P   tokens
 *           4 V   logits, float32, V the model's vocabulary; when they follow
 *           ...   pages: for each group those of blocks 0 .. ceil(C / 64) - 1 that a window has
 *                 not left behind, oldest first, as kernels/kvpage.h lays them out
 *           8     XXH3-64 of all bytes before
 *
 * Nothing read is used before it was checked: the header has a checksum of its own, every number in
 * it must be the one that model and options demand, tokens must be in the vocabulary. Pages are
 * numbers, any of which are safe. The session that is being filled is thrown away when anything
 * does not fit. */
#include "runtime/session.h"

#include <string.h>
#include "runtime/base/hash.h"
#include "runtime/base/progress.h"

static const char magic[8] = { 'R', 'W', 'K', 'S', 'T', 'A', 'T', 'E' };
enum { VERSION = 1 };

struct header {
    char magic[8];
    uint32_t version;
    uint16_t kv_type, activations;
    uint64_t fingerprint, position, n_cached, epoch, n_exact;
    uint32_t has_logits, n_groups;
    struct {
        uint64_t page_bytes, n_pages;
    } groups[RWK_MAX_KV_GROUPS];
};

static size_t header_bytes(const struct header *h)
{
    return offsetof(struct header, groups) + h->n_groups * sizeof *h->groups;
}

/* 1 where the option makes a difference: float32 activations in spite of quantised weights. */
static uint16_t activations(const struct rwk_session *s)
{
    return s->wide && s->model->n_quantized;
}

/* What a header of these tokens must say. */
static struct header header_of(const struct rwk_session *s, uint64_t position, uint64_t n_cached)
{
    struct header h = { .version = VERSION,
                        .kv_type = (uint16_t)s->options.kv_type,
                        .activations = activations(s),
                        .fingerprint = s->model->fingerprint,
                        .position = position,
                        .n_cached = n_cached,
                        .n_exact = s->n_exact,
                        .epoch = n_cached ? rwk_position_epoch(&s->model->position, position) : 0,
                        .has_logits = s->n_logits > 0,
                        .n_groups = s->model->n_groups };
    memcpy(h.magic, magic, sizeof magic);
    for (uint32_t g = 0; g < h.n_groups; g++) {
        uint64_t first, end;
        rwk_kv_cache_visible(&s->sequence.cache, g, n_cached, &first, &end);
        h.groups[g].page_bytes = rwk_kv_cache_page_bytes(&s->sequence.cache, g);
        h.groups[g].n_pages = end - first;
    }
    return h;
}

/* ---- the stream, either way ---- */

struct stream {
    rwk_write_fn write; /* one of the two */
    rwk_read_fn read;
    void *data;
    const char *file; /* for messages, or NULL */
    const atomic_int *cancel;
    struct rwk_progress progress;
    XXH3_state_t hash;
    uint64_t offset;
    struct rwk_error *error;
};

static enum rwk_status failed(const struct stream *s, enum rwk_status status, int code,
                              const char *what)
{
    struct rwk_where where = { .file = s->file, .offset = s->offset, .os_error = code };
    return rwk_fail_at(s->error, status, &where, "%s", what);
}

static enum rwk_status move_on(struct stream *s, size_t n)
{
    s->offset += n;
    if (!rwk_progress_add(&s->progress, n) || atomic_load_explicit(s->cancel, memory_order_relaxed))
        return rwk_fail(s->error, RWK_STATUS_CANCELLED, s->file, "cancelled");
    return RWK_STATUS_OK;
}

static enum rwk_status put(struct stream *s, const void *data, size_t n)
{
    int code = s->write(s->data, data, n);
    if (code)
        return failed(s, RWK_STATUS_IO, code, "the state could not be written");
    XXH3_64bits_update(&s->hash, data, n);
    return move_on(s, n);
}

static enum rwk_status get(struct stream *s, void *data, size_t n)
{
    size_t got = 0;
    int code = s->read(s->data, data, n, &got);
    if (code)
        return failed(s, RWK_STATUS_IO, code, "the state could not be read");
    if (got != n)
        return failed(s, RWK_STATUS_FORMAT, 0, "the state ends too early (truncated?)");
    XXH3_64bits_update(&s->hash, data, n);
    return move_on(s, n);
}

static enum rwk_status put_checksum(struct stream *s)
{
    uint64_t sum = XXH3_64bits_digest(&s->hash);
    return put(s, &sum, sizeof sum);
}

static enum rwk_status get_checksum(struct stream *s)
{
    uint64_t sum = XXH3_64bits_digest(&s->hash), stored;
    enum rwk_status status = get(s, &stored, sizeof stored);
    return status          ? status
           : sum == stored ? RWK_STATUS_OK
                           : failed(s, RWK_STATUS_FORMAT, 0,
                                    "the state is damaged: its checksum is another one");
}

/* All pages of the header, either way. */
static enum rwk_status
move_pages(struct stream *s, struct rwk_kv_cache *cache, const struct header *h,
           enum rwk_status (*move)(struct stream *s, struct rwk_kv_page *page, size_t n))
{
    enum rwk_status status = RWK_STATUS_OK;
    for (uint32_t g = 0; g < h->n_groups; g++) {
        uint64_t first, end;
        rwk_kv_cache_visible(cache, g, h->n_cached, &first, &end);
        for (uint64_t b = first; b < end && !status; b++)
            status = move(s, cache->table[g][b], (size_t)h->groups[g].page_bytes);
    }
    return status;
}

static enum rwk_status put_page(struct stream *s, struct rwk_kv_page *page, size_t n)
{
    return put(s, page->data, n);
}

static enum rwk_status get_page(struct stream *s, struct rwk_kv_page *page, size_t n)
{
    return get(s, page->data, n);
}

static uint64_t total_bytes(const struct header *h, const struct rwk_model *model)
{
    uint64_t n = header_bytes(h) + 16 + h->position * sizeof(uint32_t) +
                 (h->has_logits ? model->vocab_size * sizeof(float) : 0);
    for (uint32_t g = 0; g < h->n_groups; g++)
        n += h->groups[g].page_bytes * h->groups[g].n_pages;
    return n;
}

static void stream_init(struct stream *s, struct rwk_session *session, const struct header *h)
{
    s->cancel = &session->cancel;
    s->progress = (struct rwk_progress) { session->options.progress, session->options.progress_data,
                                          s->offset, total_bytes(h, session->model) };
}

/* ---- saving ---- */

static enum rwk_status save(struct rwk_session *session, struct stream *s)
{
    bool is_stale = rwk_session_usable_cache(session, session->position) != session->n_cached;
    struct header h = header_of(session, session->position, is_stale ? 0 : session->n_cached);
    stream_init(s, session, &h);
    XXH3_64bits_reset(&s->hash);
    enum rwk_status status = put(s, &h, header_bytes(&h));
    if (!status)
        status = put_checksum(s);
    if (!status && h.position)
        status = put(s, session->tokens, (size_t)h.position * sizeof *session->tokens);
    if (!status && h.has_logits)
        status = put(s, rwk_session_logits(session, RWK_LAST),
                     session->model->vocab_size * sizeof *session->logits);
    if (!status)
        status = move_pages(s, &session->sequence.cache, &h, put_page);
    if (!status)
        status = put_checksum(s);
    atomic_store(&session->cancel, 0);
    return status;
}

enum rwk_status rwk_session_save_named(struct rwk_session *session, rwk_write_fn write,
                                       void *write_data, const char *file, struct rwk_error *error)
{
    struct stream s = { .write = write, .data = write_data, .file = file, .error = error };
    enum rwk_status status = rwk_session_enter(session, error);
    if (status)
        return status;
    status = save(session, &s);
    rwk_session_leave(session);
    return status;
}

enum rwk_status rwk_session_save(struct rwk_session *session, rwk_write_fn write, void *write_data,
                                 struct rwk_error *error)
{
    return rwk_session_save_named(session, write, write_data, NULL, error);
}

/* ---- loading ---- */

static enum rwk_status get_header(struct stream *s, struct header *h)
{
    size_t fixed = offsetof(struct header, groups);
    enum rwk_status status = get(s, h, fixed);
    if (status)
        return status;
    s->offset = 0;
    if (memcmp(h->magic, magic, sizeof magic) != 0)
        return failed(s, RWK_STATUS_FORMAT, 0, "is no saved state of a session");
    if (h->version != VERSION)
        return rwk_fail(s->error, RWK_STATUS_UNSUPPORTED, s->file,
                        "version %u of the state's format is not known (%d is)", h->version,
                        VERSION);
    if (h->n_groups > RWK_MAX_KV_GROUPS)
        return failed(s, RWK_STATUS_FORMAT, 0,
                      "the state is damaged: it has too many groups of layers");
    s->offset = fixed;
    if (h->n_groups)
        status = get(s, h->groups, h->n_groups * sizeof *h->groups);
    return status ? status : get_checksum(s);
}

/* Whether the state is one of this session's model and fits it. */
static enum rwk_status check_header(const struct stream *s, const struct header *h,
                                    const struct rwk_session *session)
{
    if (h->fingerprint != session->model->fingerprint)
        return rwk_fail(s->error, RWK_STATUS_MISMATCH, s->file,
                        "the state was saved with another model, or with other "
                        "options of it");
    if (h->kv_type != session->options.kv_type)
        return rwk_fail_on(s->error, RWK_STATUS_MISMATCH, s->file, "kv_type",
                           "the state was saved with cache type %u, the "
                           "options ask for %u",
                           h->kv_type, session->options.kv_type);
    if (h->activations != activations(session))
        return rwk_fail_on(s->error, RWK_STATUS_MISMATCH, s->file, "activations",
                           "the state was saved with another type of activations");
    if (h->position > session->context)
        return rwk_fail(s->error, RWK_STATUS_CONTEXT_FULL, s->file,
                        "the state holds %llu tokens, the context only %llu",
                        (unsigned long long)h->position, (unsigned long long)session->context);
    if (h->n_cached > h->position || h->has_logits > (h->position > 0))
        return rwk_fail(s->error, RWK_STATUS_FORMAT, s->file,
                        "the state's header contradicts itself");
    struct header expected = header_of(session, h->position, h->n_cached);
    expected.has_logits = h->has_logits;
    expected.n_exact = h->n_exact;
    if (memcmp(&expected, h, header_bytes(h)) != 0)
        return rwk_fail(s->error, RWK_STATUS_FORMAT, s->file,
                        "the state's header does not fit the model");
    return RWK_STATUS_OK;
}

static enum rwk_status get_tokens(struct stream *s, struct rwk_session *session, uint64_t n)
{
    enum rwk_status status =
        n ? get(s, session->tokens, (size_t)n * sizeof *session->tokens) : RWK_STATUS_OK;
    for (uint64_t i = 0; i < n && !status; i++)
        if (session->tokens[i] >= session->model->vocab_size)
            status = rwk_fail(s->error, RWK_STATUS_FORMAT, s->file,
                              "the state holds a token id %u, the vocabulary has %u "
                              "entries",
                              session->tokens[i], session->model->vocab_size);
    return status;
}

/* Fills a fresh session. */
static enum rwk_status load(struct rwk_session *session, struct stream *s, const struct header *h)
{
    enum rwk_status status = check_header(s, h, session);
    if (status)
        return status;
    stream_init(s, session, h);
    status = get_tokens(s, session, h->position);
    if (!status && h->has_logits)
        status = get(s, session->logits, session->model->vocab_size * sizeof *session->logits);
    if (status)
        return status;
    rwk_kv_cache_restore(&session->sequence.cache, h->n_cached);
    status = move_pages(s, &session->sequence.cache, h, get_page);
    if (!status)
        status = get_checksum(s);
    if (status)
        return status;
    session->position = h->position;
    session->n_cached = h->n_cached;
    session->n_exact = h->n_exact;
    rwk_session_set_epoch(session, h->epoch);
    session->n_logits = h->has_logits;
    session->call_first = session->logits_first = h->position - h->has_logits;
    return RWK_STATUS_OK;
}

enum rwk_status rwk_session_load_named(struct rwk_session **ret_session, struct rwk_model *model,
                                       const struct rwk_session_options *options, rwk_read_fn read,
                                       void *read_data, const char *file, struct rwk_error *error)
{
    static const atomic_int never;
    struct stream s = {
        .read = read, .data = read_data, .file = file, .cancel = &never, .error = error
    };
    struct header h = { 0 };
    struct rwk_session *session = NULL;
    XXH3_64bits_reset(&s.hash);
    enum rwk_status status = get_header(&s, &h);
    if (!status)
        status = rwk_session_create(&session, model, options, error);
    if (!status)
        status = load(session, &s, &h);
    if (status)
        rwk_session_close(&session);
    else
        *ret_session = session;
    return status;
}

enum rwk_status rwk_session_load(struct rwk_session **ret_session, struct rwk_model *model,
                                 const struct rwk_session_options *options, rwk_read_fn read,
                                 void *read_data, struct rwk_error *error)
{
    return rwk_session_load_named(ret_session, model, options, read, read_data, NULL, error);
}
