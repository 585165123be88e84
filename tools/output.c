/* Printing numbers and JSON, and writing one tensor as safetensors. */
#include "tool.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void print_json_string(FILE *to, const char *text, size_t size)
{
    fputc('"', to);
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\')
            fprintf(to, "\\%c", c);
        else if (c == '\n')
            fputs("\\n", to);
        else if (c < 0x20 || c == 0x7f)
            fprintf(to, "\\u%04x", c);
        else if (c == 0xc2 && i + 1 < size && (unsigned char)text[i + 1] == 0x85) /* what some take for an end of line */
            fputs("\\u0085", to), i++;
        else if (c == 0xe2 && i + 2 < size && (unsigned char)text[i + 1] == 0x80 && ((unsigned char)text[i + 2] & 0xfe) == 0xa8)
            fprintf(to, "\\u20%x", (unsigned char)text[i + 2] & 0x3f), i += 2;
        else
            fputc(c, to);
    }
    fputc('"', to);
}

void print_double(FILE *to, double value)
{
    char text[40];
    if (!isfinite(value)) {
        fputs("null", to);
        return;
    }
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    fputs(text, to);
}

void print_float(FILE *to, float value)
{
    char text[40];
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)value);
        if (strtof(text, NULL) == value)
            break;
    }
    fputs(text, to);
}

/* Written beside the goal and renamed, so that a failure leaves an old file as it was. */
int write_tensor(const char *path, const char *name, uint64_t rows, uint64_t cols, const float *data)
{
    char header[256], temporary[4096];
    uint64_t bytes = rows * cols * sizeof(float);
    int n = snprintf(header, sizeof header, "{\"%s\":{\"dtype\":\"F32\",\"shape\":[%llu,%llu],\"data_offsets\":[0,%llu]}}", name,
                     (unsigned long long)rows, (unsigned long long)cols, (unsigned long long)bytes);
    while (n % 8)
        header[n++] = ' ';
    if (snprintf(temporary, sizeof temporary, "%s.%ld.part", path, (long)getpid()) >= (int)sizeof temporary)
        return fail("%s: the name is too long", path);
    FILE *f = fopen(temporary, "wb");
    if (!f)
        return fail("%s: %s", path, strerror(errno));
    unsigned char length[8] = { (unsigned char)n, (unsigned char)(n >> 8) };
    bool good = fwrite(length, 1, 8, f) == 8 && fwrite(header, 1, (size_t)n, f) == (size_t)n &&
                fwrite(data, sizeof *data, rows * cols, f) == rows * cols;
    int code = errno;
    good = fclose(f) == 0 && good;
    if (good && rename(temporary, path) == 0)
        return EXIT_DONE;
    code = good ? errno : code;
    unlink(temporary);
    return fail("%s: %s", path, strerror(code));
}
