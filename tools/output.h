/* What the commands print: bytes on standard output with every failure noticed, JSON, CSV fields,
 * safetensors.
 *
 * Numbers: the program never calls setlocale(), so it runs in the C locale whatever the
 * environment says, and printf and strtod use a decimal point. Reals are printed with the fewest
 * digits that read back as the same value. */
#ifndef OUTPUT_H
#define OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Standard output; a failure (disk full, closed pipe) ends the program with one line. */
void out_write(const void *bytes, size_t size);
void out_print(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* As a JSON string, with its quotes. */
void out_quoted(const char *text, size_t size);
void out_flush(void);
/* Whether standard output is a terminal: then text that need not end in a line break gets one. */
bool out_is_terminal(void);

#define NUMBER_SIZE 40
/* The shortest decimal forms that read back as the same double, or float. Return `buffer`. */
const char *format_double(char buffer[NUMBER_SIZE], double value);
const char *format_float(char buffer[NUMBER_SIZE], float value);

/* A JSON text on standard output, one value after another. Inside an object every value has a key;
 * in an array, NULL. */
struct json {
    unsigned depth;
    bool comma; /* the next value needs one before it */
};
void json_object(struct json *json, const char *key);
void json_array(struct json *json, const char *key);
void json_end(struct json *json, char bracket); /* '}' or ']'; a line break after the outermost */
void json_text(struct json *json, const char *key, const char *text, size_t size);
/* NUL-terminated; NULL: null */
void json_string(struct json *json, const char *key, const char *text);
void json_count(struct json *json, const char *key, uint64_t value);
void json_bound(struct json *json, const char *key, uint64_t value);   /* UINT64_MAX: null */
void json_real(struct json *json, const char *key, double value);      /* not finite: null */
void json_flag(struct json *json, const char *key, bool value);
void json_null(struct json *json, const char *key);
void json_floats(struct json *json, const char *key, const float *values, size_t n);
void json_ids(struct json *json, const char *key, const uint32_t *ids, size_t n);

/* A file being written, one at a time: opened at once, so that a name that cannot be written is
 * refused before the work. It is written beside its name and takes it in file_close(), when all of
 * it is on the disk: until then, and for good where the program fails, an older file stays what it
 * was. */
FILE *file_open(const char *path);
void file_close(FILE *file, const char *path);

/* The head of a safetensors file with the one tensor `name` F32 [rows, cols]; the rows follow. */
void safetensors_head(FILE *file, const char *name, uint64_t rows, uint64_t cols);

#endif
