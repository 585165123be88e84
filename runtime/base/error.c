/* Error objects: message = [file ": "] [subject ": "] sentence [" (at byte N)"] [": " errno text],
 * one line, truncated to what the caller's object holds. Only the prefix of the object that the
 * caller's `size` covers is written. */
#include "error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const status_names[] = {
    [RWK_STATUS_OK] = "ok",
    [RWK_STATUS_NOMEM] = "out of memory",
    [RWK_STATUS_IO] = "input/output error",
    [RWK_STATUS_FORMAT] = "malformed file",
    [RWK_STATUS_UNSUPPORTED] = "unsupported",
    [RWK_STATUS_RANGE] = "out of range",
    [RWK_STATUS_CONTEXT_FULL] = "context full",
    [RWK_STATUS_CANCELLED] = "cancelled",
    [RWK_STATUS_MISMATCH] = "mismatch",
    [RWK_STATUS_BUSY] = "busy",
    [RWK_STATUS_NUMERIC] = "not a finite number",
};

const char *rwk_status_name(enum rwk_status status)
{
    size_t i = (size_t)status;
    return i < sizeof status_names / sizeof *status_names ? status_names[i] : "unknown status";
}

/* Control characters would break the promise of one line; bytes above 0x7e stay (UTF-8). */
static void make_single_line(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            *text = '?';
}

/* Appends to a NUL-terminated buffer, truncating. */
static void append(char *buffer, size_t capacity, const char *format, ...) RWK_PRINTF(3, 4);
static void append(char *buffer, size_t capacity, const char *format, ...)
{
    size_t used = strlen(buffer);
    va_list args;
    va_start(args, format);
    vsnprintf(buffer + used, capacity - used, format, args);
    va_end(args);
}

static enum rwk_status fail_va(struct rwk_error *error, enum rwk_status status,
                               const struct rwk_where *where, const char *format, va_list args)
{
    if (!error)
        return status;
    struct rwk_error e = { .size = error->size,
                           .status = status,
                           .os_error = where->os_error,
                           .byte_offset = where->offset };
    size_t used;
    if (where->file) {
        snprintf(e.file, sizeof e.file, "%s", where->file);
        append(e.message, sizeof e.message, "%.480s: ", where->file);
    }
    if (where->subject) {
        snprintf(e.subject, sizeof e.subject, "%s", where->subject);
        append(e.message, sizeof e.message, "%.200s: ", where->subject);
    }
    used = strlen(e.message);
    vsnprintf(e.message + used, sizeof e.message - used, format, args);
    if (where->offset != RWK_NO_OFFSET)
        append(e.message, sizeof e.message, " (at byte %llu)", (unsigned long long)where->offset);
    if (where->os_error) {
        char text[128];
        /* XSI and GNU strerror_r differ in type; strerrordesc_np is not everywhere: take the
         * portable way out. */
        const char *description = strerror(where->os_error);
        snprintf(text, sizeof text, "%s", description ? description : "unknown error");
        append(e.message, sizeof e.message, ": %s", text);
    }
    make_single_line(e.file);
    make_single_line(e.subject);
    make_single_line(e.message);
    size_t size = error->size < sizeof e ? error->size : sizeof e;
    memcpy(error, &e, size);
    return status;
}

enum rwk_status rwk_fail_at(struct rwk_error *error, enum rwk_status status,
                            const struct rwk_where *where, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fail_va(error, status, where, format, args);
    va_end(args);
    return status;
}

enum rwk_status rwk_fail(struct rwk_error *error, enum rwk_status status, const char *file,
                         const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fail_va(error, status, &(struct rwk_where) { .file = file, .offset = RWK_NO_OFFSET }, format,
            args);
    va_end(args);
    return status;
}

enum rwk_status rwk_fail_on(struct rwk_error *error, enum rwk_status status, const char *file,
                            const char *subject, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fail_va(error, status,
            &(struct rwk_where) { .file = file, .subject = subject, .offset = RWK_NO_OFFSET },
            format, args);
    va_end(args);
    return status;
}

enum rwk_status rwk_fail_io(struct rwk_error *error, const char *file, int os_error,
                            const char *what)
{
    struct rwk_where where = { .file = file, .offset = RWK_NO_OFFSET, .os_error = os_error };
    return rwk_fail_at(error, RWK_STATUS_IO, &where, "%s", what);
}

enum rwk_status rwk_fail_nomem(struct rwk_error *error, size_t size)
{
    return rwk_fail(error, RWK_STATUS_NOMEM, NULL, "out of memory: %zu bytes were refused", size);
}
