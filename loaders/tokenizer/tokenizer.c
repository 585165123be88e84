#include "runtime/base/error.h"
enum rwk_status rwk_tokenizer_open(struct rwk_tokenizer **t, const char *path, const struct rwk_tokenizer_options *o, struct rwk_error *error) { (void)t; (void)o; return rwk_fail(error, RWK_STATUS_UNSUPPORTED, path, "no tokenizer yet"); }
void rwk_tokenizer_close(struct rwk_tokenizer **t) { (void)t; }
uint32_t rwk_tokenizer_special(const struct rwk_tokenizer *t, enum rwk_special r) { (void)t; (void)r; return RWK_TOKEN_NONE; }
enum rwk_status rwk_tokenizer_encode(const struct rwk_tokenizer *t, const char *text, size_t size, uint32_t flags, uint32_t *ids, size_t cap, struct rwk_span *spans, size_t *n, struct rwk_error *e) { (void)t;(void)text;(void)size;(void)flags;(void)ids;(void)cap;(void)spans;(void)n; return rwk_fail(e, RWK_STATUS_UNSUPPORTED, 0, "no"); }
enum rwk_status rwk_tokenizer_decode(const struct rwk_tokenizer *t, const uint32_t *ids, size_t n_ids, uint32_t flags, char *text, size_t cap, size_t *n, struct rwk_error *e) { (void)t;(void)ids;(void)n_ids;(void)flags;(void)text;(void)cap;(void)n; return rwk_fail(e, RWK_STATUS_UNSUPPORTED, 0, "no"); }
enum rwk_status rwk_tokenizer_piece(const struct rwk_tokenizer *t, uint32_t id, struct rwk_piece *p) { (void)t;(void)id;(void)p; return RWK_STATUS_RANGE; }
enum rwk_status rwk_stream_create(struct rwk_stream **s, struct rwk_tokenizer *t, uint32_t f, struct rwk_error *e) { (void)s;(void)t;(void)f; return rwk_fail(e, RWK_STATUS_UNSUPPORTED, 0, "no"); }
void rwk_stream_close(struct rwk_stream **s) { (void)s; }
enum rwk_status rwk_stream_add_stop(struct rwk_stream *s, const char *t, size_t n, struct rwk_error *e) { (void)s;(void)t;(void)n; return rwk_fail(e, RWK_STATUS_UNSUPPORTED, 0, "no"); }
enum rwk_status rwk_stream_prime(struct rwk_stream *s, const uint32_t *i, size_t n, struct rwk_error *e) { (void)s;(void)i;(void)n; return rwk_fail(e, RWK_STATUS_UNSUPPORTED, 0, "no"); }
enum rwk_status rwk_stream_push(struct rwk_stream *s, uint32_t id, const char **t, size_t *n, int *st, struct rwk_error *e) { (void)s;(void)id;(void)t;(void)n;(void)st; return rwk_fail(e, RWK_STATUS_UNSUPPORTED, 0, "no"); }
enum rwk_status rwk_stream_flush(struct rwk_stream *s, const char **t, size_t *n, struct rwk_error *e) { (void)s;(void)t;(void)n; return rwk_fail(e, RWK_STATUS_UNSUPPORTED, 0, "no"); }
