/* What every command shares: leaving with one line, notices, memory that is there or ends the
 * program, reading input.
 *
 * A command either prints its result and returns, or ends through die(): exit status 1 and exactly
 * one line on standard error. The library below never exits; this program may, and so needs no way
 * back out of a failure. */
#ifndef TOOL_H
#define TOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ropewalk/ropewalk.h>

#define PRINTF(at, first) __attribute__((format(printf, at, first)))
#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

enum exit_status { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

/* `ropewalk: <message>` on standard error, control characters replaced; exit status 1. */
_Noreturn void die(const char *format, ...) PRINTF(1, 2);
/* Ends the program with the library's message unless status is RWK_STATUS_OK. */
void check(enum rwk_status status, const struct rwk_error *error);
/* One line on standard error, as die() prints it. */
void warn(const char *format, ...) PRINTF(1, 2);

/* n objects of `size` bytes, zeroed; never NULL. Release with free(). */
void *allocate(size_t n, size_t size);
/* Makes *array (of *capacity elements, may be NULL with 0) hold at least n elements. */
void reserve(void *array, size_t *capacity, size_t n, size_t size);

/* A whole file, or standard input where path is NULL; NUL behind it. Release with free(). */
char *read_whole(const char *path, size_t *ret_size);
/* Moves past a UTF-8 byte-order mark at the start of a text. */
const char *skip_byte_order_mark(const char *text, size_t *size);

/* Seconds of a clock that only goes forward. */
double now(void);

/* Registers a file that is being written: it is removed if the program ends before file_commit().
 */
void file_begin(const char *path);
void file_commit(void);

#endif
