/* value -> bytes -> standard output or a file, with every failure noticed. */
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "tool.h"

/* ---- standard output ---- */

static _Noreturn void out_failed(void) { die("standard output: %s", strerror(errno)); }

void out_write(const void *bytes, size_t size)
{
    if (size && fwrite(bytes, 1, size, stdout) != size)
        out_failed();
}

void out_print(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vprintf(format, args);
    va_end(args);
    if (n < 0)
        out_failed();
}

void out_flush(void)
{
    if (fflush(stdout) != 0)
        out_failed();
}

bool out_is_terminal(void) { return isatty(STDOUT_FILENO); }

/* ---- numbers ---- */

/* "d.ddde+xx" with as few digits as were found to suffice -> plain notation where that is short:
 * 10000, not 1e+04. */
static const char *format_plain(char buffer[NUMBER_SIZE], double value, int digits)
{
    if (!isfinite(value))
        return buffer;
    int exponent = atoi(strchr(buffer, 'e') + 1), decimals = digits - 1 - exponent;
    if (exponent >= -5 && exponent < 16)
        snprintf(buffer, NUMBER_SIZE, "%.*f", decimals > 0 ? decimals : 0, value);
    return buffer;
}

const char *format_double(char buffer[NUMBER_SIZE], double value)
{
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(buffer, NUMBER_SIZE, "%.*e", digits - 1, value);
        if (strtod(buffer, NULL) == value)
            return format_plain(buffer, value, digits);
    }
    return buffer; /* not a number, which equals nothing */
}

const char *format_float(char buffer[NUMBER_SIZE], float value)
{
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(buffer, NUMBER_SIZE, "%.*e", digits - 1, (double)value);
        if (strtof(buffer, NULL) == value)
            return format_plain(buffer, (double)value, digits);
    }
    return buffer;
}

/* ---- JSON ---- */

/* Length of the valid UTF-8 sequence at the start of text[0..size), or 0. */
static size_t utf8_length(const unsigned char *text, size_t size)
{
    static const struct {
        unsigned char first, last, low, high, length;
    } rows[] = {
        { 0x00, 0x7f, 0x00, 0xff, 1 }, { 0xc2, 0xdf, 0x80, 0xbf, 2 },
        { 0xe0, 0xe0, 0xa0, 0xbf, 3 }, { 0xe1, 0xec, 0x80, 0xbf, 3 },
        { 0xed, 0xed, 0x80, 0x9f, 3 }, { 0xee, 0xef, 0x80, 0xbf, 3 },
        { 0xf0, 0xf0, 0x90, 0xbf, 4 }, { 0xf1, 0xf3, 0x80, 0xbf, 4 },
        { 0xf4, 0xf4, 0x80, 0x8f, 4 },
    };
    for (size_t r = 0; r < COUNT_OF(rows); r++) {
        if (text[0] < rows[r].first || text[0] > rows[r].last || size < rows[r].length)
            continue;
        if (rows[r].length > 1 && (text[1] < rows[r].low || text[1] > rows[r].high))
            return 0;
        for (size_t i = 2; i < rows[r].length; i++)
            if ((text[i] & 0xc0) != 0x80)
                return 0;
        return rows[r].length;
    }
    return 0;
}

static void json_escaped(const unsigned char *text, size_t size)
{
    for (size_t i = 0, length; i < size; i += length) {
        length = utf8_length(text + i, size - i);
        if (!length) {
            out_write("\xef\xbf\xbd", 3);
            length = 1;
        } else if (text[i] == '"' || text[i] == '\\') {
            out_print("\\%c", text[i]);
        } else if (text[i] == '\n') {
            out_write("\\n", 2);
        } else if (text[i] < 0x20 || text[i] == 0x7f) {
            out_print("\\u%04x", text[i]);
        } else if (length == 2 && text[i] == 0xc2 && text[i + 1] < 0xa0) {
            /* C1 controls: U+0085 ends a line for some readers, as U+2028 and U+2029 do. */
            out_print("\\u%04x", text[i + 1]);
        } else if (length == 3 && !memcmp(text + i, "\xe2\x80", 2) &&
                   (text[i + 2] & 0xfe) == 0xa8) {
            out_print("\\u20%x", text[i + 2] & 0x3f);
        } else {
            out_write(text + i, length);
        }
    }
}

void out_quoted(const char *text, size_t size)
{
    out_write("\"", 1);
    json_escaped((const unsigned char *)text, size);
    out_write("\"", 1);
}

static void json_key(struct json *json, const char *key)
{
    if (json->comma)
        out_write(", ", 2);
    json->comma = true;
    if (key) {
        out_quoted(key, strlen(key));
        out_write(": ", 2);
    }
}

static void json_begin(struct json *json, const char *key, char bracket)
{
    json_key(json, key);
    out_write(&bracket, 1);
    json->comma = false;
    json->depth++;
}

void json_object(struct json *json, const char *key) { json_begin(json, key, '{'); }
void json_array(struct json *json, const char *key) { json_begin(json, key, '['); }

void json_end(struct json *json, char bracket)
{
    out_write(&bracket, 1);
    json->comma = true;
    if (--json->depth == 0)
        out_write("\n", 1);
}

void json_text(struct json *json, const char *key, const char *text, size_t size)
{
    json_key(json, key);
    out_quoted(text, size);
}

void json_string(struct json *json, const char *key, const char *text)
{
    if (text)
        json_text(json, key, text, strlen(text));
    else
        json_null(json, key);
}

void json_count(struct json *json, const char *key, uint64_t value)
{
    json_key(json, key);
    out_print("%" PRIu64, value);
}

void json_bound(struct json *json, const char *key, uint64_t value)
{
    if (value == UINT64_MAX)
        json_null(json, key);
    else
        json_count(json, key, value);
}

void json_real(struct json *json, const char *key, double value)
{
    char number[NUMBER_SIZE];
    json_key(json, key);
    out_print("%s", isfinite(value) ? format_double(number, value) : "null");
}

void json_flag(struct json *json, const char *key, bool value)
{
    json_key(json, key);
    out_print("%s", value ? "true" : "false");
}

void json_null(struct json *json, const char *key)
{
    json_key(json, key);
    out_write("null", 4);
}

void json_floats(struct json *json, const char *key, const float *values, size_t n)
{
    char number[NUMBER_SIZE];
    json_array(json, key);
    for (size_t i = 0; i < n; i++) {
        json_key(json, NULL);
        out_print("%s", format_float(number, values[i]));
    }
    json_end(json, ']');
}

void json_ids(struct json *json, const char *key, const uint32_t *ids, size_t n)
{
    json_array(json, key);
    for (size_t i = 0; i < n; i++)
        json_count(json, NULL, ids[i]);
    json_end(json, ']');
}

/* ---- files ---- */

/* The file that is being written, and where it goes to; NULL where it is written in place. */
static char *part, *target;

/* Pipes and devices are written in place. */
static bool is_written_in_place(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && !S_ISREG(s.st_mode);
}

FILE *file_open(const char *path)
{
    if (is_written_in_place(path)) {
        FILE *file = fopen(path, "wb");
        if (!file)
            die("%s: %s", path, strerror(errno));
        return file;
    }
    target = realpath(path, NULL); /* through links, where there is something already */
    if (!target)
        target = strcpy(allocate(strlen(path) + 1, 1), path);
    size_t size = strlen(target) + 32;
    part = allocate(size, 1);
    snprintf(part, size, "%s.%ld.part", target, (long)getpid());
    int fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "wb");
    if (!file)
        die("%s: %s", path, strerror(errno));
    file_begin(part);
    return file;
}

void file_close(FILE *file, const char *path)
{
    bool failed = ferror(file) != 0 || fflush(file) != 0 || (part && fsync(fileno(file)) != 0);
    if (fclose(file) != 0 || failed || (part && rename(part, target) != 0))
        die("%s: %s", path, errno ? strerror(errno) : "not written");
    file_commit();
    free(part);
    free(target);
    part = target = NULL;
}

/* Offset 0: u64 little-endian, length N of the header; 8: N bytes of JSON, padded with blanks so
 * that the data, which begin at 8 + N, are aligned to 8. */
void safetensors_head(FILE *file, const char *name, uint64_t rows, uint64_t cols)
{
    char header[256];
    unsigned char length[8];
    int n = snprintf(header, sizeof header,
                     "{\"%s\":{\"dtype\":\"F32\",\"shape\":[%" PRIu64 ",%" PRIu64 "],"
                     "\"data_offsets\":[0,%" PRIu64 "]}}",
                     name, rows, cols, rows * cols * sizeof(float));
    while (n % 8)
        header[n++] = ' ';
    for (unsigned i = 0; i < 8; i++)
        length[i] = (unsigned char)((uint64_t)n >> (8 * i));
    fwrite(length, 1, sizeof length, file);
    fwrite(header, 1, (size_t)n, file);
}
