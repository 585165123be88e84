/* A strict pull reader for JSON: no tree, no allocation, no recursion; the byte offset of every
 * error.
 *
 * Strict means RFC 8259 and what the reference's parsers refuse besides: invalid UTF-8, lone
 * surrogates in escapes, control characters in strings, leading zeros, trailing commas, anything
 * after the value but white space, nesting deeper than RWK_JSON_DEPTH. A byte-order mark at the
 * start is skipped when asked for.
 *
 * Use: rwk_json_init; then rwk_json_next until RWK_JSON_END or RWK_JSON_ERROR. Once an error has
 * been returned every later call returns it again, and the error object given at init says what it
 * was. */
#ifndef RWK_LOADERS_JSON_H
#define RWK_LOADERS_JSON_H

#include <stdbool.h>
#include "runtime/base/error.h"
#include "runtime/base/memory.h"

enum { RWK_JSON_DEPTH = 128 };

enum rwk_json_event {
    RWK_JSON_ERROR,
    RWK_JSON_END, /* the whole text has been read */
    RWK_JSON_NULL,
    RWK_JSON_FALSE,
    RWK_JSON_TRUE,
    RWK_JSON_NUMBER,
    RWK_JSON_STRING,
    RWK_JSON_KEY, /* a member's name; its value is the next event */
    RWK_JSON_ARRAY,
    RWK_JSON_ARRAY_END,
    RWK_JSON_OBJECT,
    RWK_JSON_OBJECT_END
};

struct rwk_json {
    const char *text; /* not owned; need not end in NUL */
    size_t size;
    size_t at;               /* next byte to read */
    size_t base;             /* where the text begins in the file, for messages; 0 unless set after
                                rwk_json_init */
    const char *file;        /* for messages; may be NULL */
    struct rwk_error *error; /* may be NULL */
    enum rwk_status status;  /* RWK_STATUS_FORMAT after an error */

    /* Of the latest event */
    size_t event_at; /* where it starts */
    const char *raw; /* NUMBER: its spelling; STRING, KEY: what stands between the quotes, escapes
                        and all */
    size_t raw_size;
    bool escaped; /* STRING, KEY: raw holds escapes, so it must be decoded */

    uint32_t depth;
    uint32_t expect;                             /* private: what may come next */
    uint64_t is_object[RWK_JSON_DEPTH / 64 + 1]; /* private: a bit for each open level */
};

void rwk_json_init(struct rwk_json *json, const char *text, size_t size, bool skip_byte_order_mark,
                   const char *file, struct rwk_error *error);

enum rwk_json_event rwk_json_next(struct rwk_json *json);

/* The rest of the value whose first event was just returned (nothing for scalars). After KEY: its
 * whole value. */
bool rwk_json_skip(struct rwk_json *json);

/* Decodes the latest STRING or KEY into buffer, which must hold raw_size bytes (decoding never
 * grows). Returns its size. May decode in place over a writable copy of raw. buffer NULL: the size
 * only. */
size_t rwk_json_decode(const struct rwk_json *json, char *buffer);

/* A copy of the latest STRING or KEY, decoded and NUL-terminated, in the arena. FORMAT when it
 * holds a NUL itself, since C strings would cut it short there. */
enum rwk_status rwk_json_copy(struct rwk_json *json, struct rwk_arena *arena, const char **ret_text,
                              size_t *ret_size);

/* Whether the latest STRING or KEY equals a NUL-terminated text (escapes respected, nothing
 * decoded). */
bool rwk_json_equals(const struct rwk_json *json, const char *text);

/* The latest NUMBER. As integer: false unless it is spelled as a plain integer (no fraction, no
 * exponent) in range. As double: correctly rounded, whatever the host's locale; false when it
 * overflows. */
bool rwk_json_int64(const struct rwk_json *json, int64_t *ret);
bool rwk_json_uint64(const struct rwk_json *json, uint64_t *ret);
bool rwk_json_double(const struct rwk_json *json, double *ret);

/* Fails with a message of the caller's at the latest event; returns RWK_STATUS_FORMAT (or the
 * earlier error's). */
enum rwk_status rwk_json_fail(struct rwk_json *json, const char *format, ...) RWK_PRINTF(2, 3);

/* Correctly rounded text -> double independent of locale; text[0..size) must be a JSON number.
 * False on overflow. */
bool rwk_parse_double(const char *text, size_t size, double *ret);

#endif
