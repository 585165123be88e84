/* Filling the caller's error object. Every failing function of the project ends in `return
 * rwk_fail(...)`. */
#ifndef RWK_BASE_ERROR_H
#define RWK_BASE_ERROR_H

#include <ropewalk/ropewalk.h>

#define RWK_PRINTF(format_index, first) __attribute__((format(printf, format_index, first)))
#define RWK_NO_OFFSET UINT64_MAX

/* Where something went wrong; unknown parts are NULL or RWK_NO_OFFSET. */
struct rwk_where {
    const char *file;    /* path */
    const char *subject; /* tensor name, config key, option */
    uint64_t offset;     /* bytes into the file */
    int os_error;        /* errno, or 0 */
};

/* Stores status and the sentence "<file>: <subject>: <message> (at byte N): <errno text>" (the
 * parts that are known) in *error, if error is not NULL; control characters become '?'. Returns
 * `status`, so that callers can return it on. */
enum rwk_status rwk_fail_at(struct rwk_error *error, enum rwk_status status,
                            const struct rwk_where *where, const char *format, ...)
    RWK_PRINTF(4, 5);

/* The same with nothing known of the place but, perhaps, the file (NULL if not). */
enum rwk_status rwk_fail(struct rwk_error *error, enum rwk_status status, const char *file,
                         const char *format, ...) RWK_PRINTF(4, 5);

/* The same for a config key, tensor or option of a file. */
enum rwk_status rwk_fail_on(struct rwk_error *error, enum rwk_status status, const char *file,
                            const char *subject, const char *format, ...) RWK_PRINTF(5, 6);

/* RWK_STATUS_IO, with errno or 0. */
enum rwk_status rwk_fail_io(struct rwk_error *error, const char *file, int os_error,
                            const char *what);

/* Out of memory, with the size that was asked for. */
enum rwk_status rwk_fail_nomem(struct rwk_error *error, size_t size);

#endif
