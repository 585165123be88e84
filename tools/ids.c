/* Reading ids and files. */
#include "tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int parse_ids(const char *text, size_t size, uint32_t **ret, size_t *ret_n)
{
    size_t n = 0, capacity = 0, i = 0;
    uint32_t *ids = NULL;
    while (i < size) {
        char c = text[i];
        if (c == ' ' || c == ',' || c == '[' || c == ']' || c == '\n' || c == '\r' || c == '\t') {
            i++;
            continue;
        }
        uint64_t id = 0;
        size_t start = i;
        while (i < size && text[i] >= '0' && text[i] <= '9' && id <= UINT32_MAX)
            id = id * 10 + (uint64_t)(text[i++] - '0');
        if (i == start || id > UINT32_MAX) {
            free(ids);
            return fail("ids: \"%.*s\" is not a token id", (int)(size - start < 20 ? size - start : 20), text + start);
        }
        if (n == capacity) {
            capacity = capacity ? 2 * capacity : 64;
            uint32_t *grown = realloc(ids, capacity * sizeof *ids);
            if (!grown) {
                free(ids);
                return fail("out of memory");
            }
            ids = grown;
        }
        ids[n++] = (uint32_t)id;
    }
    *ret = ids;
    *ret_n = n;
    return EXIT_DONE;
}

int read_whole(const char *path, char **ret, size_t *ret_size)
{
    FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    size_t size = 0, capacity = 1 << 16;
    char *data = malloc(capacity);
    int code = f ? 0 : errno;
    while (f && data) {
        size += fread(data + size, 1, capacity - size, f);
        if (size < capacity) {
            code = ferror(f) ? errno : 0;
            break;
        }
        capacity *= 2;
        char *grown = realloc(data, capacity);
        if (!grown)
            free(data);
        data = grown;
    }
    if (f && f != stdin)
        fclose(f);
    if (!data)
        return fail("%s: out of memory", path);
    if (code) {
        free(data);
        return fail("%s: %s", path, strerror(code));
    }
    data[size < capacity ? size : capacity - 1] = '\0';
    *ret = data;
    *ret_size = size;
    return EXIT_DONE;
}

int encode_text(struct rwk_tokenizer *tokenizer, const char *text, size_t size, uint32_t flags, uint32_t **ret, size_t *ret_n)
{
    struct rwk_error error = { .size = sizeof error };
    size_t capacity = size / 2 + 16, n = 0;
    uint32_t *ids = malloc(capacity * sizeof *ids);
    if (!ids)
        return fail("out of memory");
    enum rwk_status status = rwk_tokenizer_encode(tokenizer, text, size, flags, ids, capacity, NULL, &n, &error);
    if (!status && n > capacity) {
        uint32_t *grown = realloc(ids, n * sizeof *ids);
        if (!grown) {
            free(ids);
            return fail("out of memory");
        }
        ids = grown;
        status = rwk_tokenizer_encode(tokenizer, text, size, flags, ids, n, NULL, &n, &error);
    }
    if (status) {
        free(ids);
        return fail_error(&error);
    }
    *ret = ids;
    *ret_n = n;
    return EXIT_DONE;
}
