/* Leaving with one line, memory, input, and the file that must not be left half written. */
#include "tool.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "progress.h"

static const char *unfinished; /* the file of file_begin() */

static void complain(const char *format, va_list args)
{
    char line[2048];
    vsnprintf(line, sizeof line, format, args);
    for (char *c = line; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    progress_clear();
    fprintf(stderr, "ropewalk: %s\n", line);
}

void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    complain(format, args);
    va_end(args);
    if (unfinished)
        unlink(unfinished);
    /* What is still in the buffer of standard output belongs to a result that will not be
     * completed. */
    _exit(EXIT_FAILED);
}

void warn(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    complain(format, args);
    va_end(args);
}

void check(enum rwk_status status, const struct rwk_error *error)
{
    if (status)
        die("%s", error && error->message[0] ? error->message : rwk_status_name(status));
}

void *allocate(size_t n, size_t size)
{
    void *memory = calloc(n ? n : 1, size);
    if (!memory)
        die("out of memory: %zu times %zu bytes were refused", n, size);
    return memory;
}

void reserve(void *array, size_t *capacity, size_t n, size_t size)
{
    void *old, *grown;
    if (n <= *capacity)
        return;
    size_t wanted = *capacity < SIZE_MAX / 2 && *capacity * 2 > n ? *capacity * 2 : n;
    memcpy(&old, array, sizeof old);
    grown = reallocarray(old, wanted, size);
    if (!grown)
        die("out of memory: %zu times %zu bytes were refused", wanted, size);
    memcpy(array, &grown, sizeof grown);
    *capacity = wanted;
}

char *read_whole(const char *path, size_t *ret_size)
{
    FILE *file = path ? fopen(path, "rb") : stdin;
    const char *name = path ? path : "standard input";
    char *text = NULL;
    size_t capacity = 0, size = 0, got;
    if (!file)
        die("%s: %s", name, strerror(errno));
    do {
        reserve(&text, &capacity, size + 65536, 1);
        errno = 0;
        got = fread(text + size, 1, capacity - size - 1, file);
        size += got;
    } while (got);
    if (ferror(file))
        die("%s: %s", name, strerror(errno));
    if (path)
        fclose(file);
    text[size] = 0;
    *ret_size = size;
    return text;
}

const char *skip_byte_order_mark(const char *text, size_t *size)
{
    if (*size < 3 || memcmp(text, "\xef\xbb\xbf", 3) != 0)
        return text;
    *size -= 3;
    return text + 3;
}

double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void file_begin(const char *path) { unfinished = path; }

void file_commit(void) { unfinished = NULL; }
