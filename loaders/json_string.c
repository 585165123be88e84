/* One JSON string literal, for programs that read JSON line by line. */
#include "loaders/json.h"

#include <string.h>

/* The end of the literal at the start of text: one past its closing quote, or size when there is none. */
static size_t literal_size(const char *text, size_t size)
{
    for (size_t i = 1; i < size; i++) {
        if (text[i] == '\\')
            i++;
        else if (text[i] == '"')
            return i + 1;
    }
    return size;
}

enum rwk_status rwk_json_string_decode(const char *text, size_t size, char *ret_text, size_t capacity, size_t *ret_size,
                                       size_t *ret_consumed, struct rwk_error *error)
{
    struct rwk_json json;
    size_t n = size && text[0] == '"' ? literal_size(text, size) : size;
    rwk_json_init(&json, text, n, false, NULL, error);
    if (rwk_json_next(&json) != RWK_JSON_STRING)
        return rwk_json_fail(&json, "a JSON string is wanted");
    if (capacity >= json.raw_size) {
        *ret_size = rwk_json_decode(&json, ret_text);
    } else {
        *ret_size = json.raw_size; /* decoding never grows: an upper bound serves as the size needed */
    }
    *ret_consumed = n;
    return RWK_STATUS_OK;
}
