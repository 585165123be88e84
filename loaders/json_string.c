/* Strings out of JSON: into an arena, and for programs that read JSON line by line. */
#include "loaders/json.h"

#include <string.h>

enum rwk_status rwk_json_copy(struct rwk_json *json, struct rwk_arena *arena, const char **ret_text,
                              size_t *ret_size)
{
    char *text = rwk_arena_alloc(arena, json->raw_size + 1);
    if (!text)
        return rwk_fail_nomem(json->error, json->raw_size + 1);
    size_t n = rwk_json_decode(json, text);
    text[n] = '\0';
    if (memchr(text, '\0', n))
        return rwk_json_fail(json, "a string holds a NUL character");
    *ret_text = text;
    *ret_size = n;
    return RWK_STATUS_OK;
}

enum rwk_status rwk_json_string_decode(const char *text, size_t size, char *ret_text,
                                       size_t capacity, size_t *ret_size, size_t *ret_consumed,
                                       struct rwk_error *error)
{
    struct rwk_json json;
    if (size == 0 || text[0] != '"')
        return rwk_fail(error, RWK_STATUS_FORMAT, NULL, "a JSON string is wanted");
    rwk_json_init(&json, text, size, false, NULL, error);
    if (rwk_json_next(&json) != RWK_JSON_STRING)
        return json.status;
    *ret_consumed = json.at;
    *ret_size = rwk_json_decode(&json, NULL);
    if (*ret_size <= capacity)
        rwk_json_decode(&json, ret_text);
    return RWK_STATUS_OK;
}
