/* Any bytes as a JSON document: the reader, the tree and the single literal, and what must hold
 * between them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "loaders/tree.h"

#define REQUIRE(condition) ((condition) ? (void)0 : abort())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use_number(const struct rwk_json *json)
{
    int64_t s;
    uint64_t u;
    double d;
    bool is_signed = rwk_json_int64(json, &s), is_unsigned = rwk_json_uint64(json, &u);
    if (is_signed && is_unsigned)
        REQUIRE(s >= 0 && (uint64_t)s == u);
    if (rwk_json_double(json, &d)) {
        REQUIRE(isfinite(d));
        if (is_signed)
            REQUIRE(d == (double)s);
    } else {
        REQUIRE(!is_signed && !is_unsigned);
    }
}

static void use_string(const struct rwk_json *json, const char *text)
{
    char *decoded = malloc(json->raw_size + 1);
    REQUIRE(decoded != NULL);
    size_t n = rwk_json_decode(json, decoded), size = 0, consumed = 0;
    REQUIRE(n <= json->raw_size && n == rwk_json_decode(json, NULL));
    decoded[n] = '\0';
    REQUIRE(rwk_json_equals(json, decoded) == !memchr(decoded, '\0', n));
    char *again = malloc(n + 1);
    REQUIRE(again != NULL);
    size_t literal = json->raw_size + 2;
    REQUIRE(
        !rwk_json_string_decode(text + json->event_at, literal, again, n, &size, &consumed, NULL));
    REQUIRE(size == n && consumed == literal && memcmp(again, decoded, n) == 0);
    free(again);
    free(decoded);
}

static bool read_events(const char *text, size_t size)
{
    struct rwk_json json;
    enum rwk_json_event event;
    size_t before = 0;
    rwk_json_init(&json, text, size, true, "fuzz.json", NULL);
    while ((event = rwk_json_next(&json)) != RWK_JSON_END && event != RWK_JSON_ERROR) {
        REQUIRE(json.at > before && json.at <= size && json.depth <= RWK_JSON_DEPTH);
        before = json.at;
        if (event == RWK_JSON_NUMBER)
            use_number(&json);
        else if (event == RWK_JSON_STRING || event == RWK_JSON_KEY)
            use_string(&json, text);
    }
    return event == RWK_JSON_END;
}

/* Skipping over the whole text must find the same end. */
static bool skip_all(const char *text, size_t size)
{
    struct rwk_json json;
    rwk_json_init(&json, text, size, true, "fuzz.json", NULL);
    return rwk_json_skip(&json) && rwk_json_next(&json) == RWK_JSON_END;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    struct rwk_memory memory;
    struct rwk_error error = { .size = sizeof error };
    struct rwk_node *root = NULL;
    rwk_memory_init(&memory, NULL, 0);
    struct rwk_arena arena = { .memory = &memory };
    bool good = read_events(text, size);
    REQUIRE(good == skip_all(text, size));
    enum rwk_status status = rwk_tree_parse(&root, &arena, text, size, "fuzz.json", &error);
    if (status == RWK_STATUS_OK) {
        REQUIRE(good && root);
        rwk_tree_find(root, "a.b.c");
    } else {
        REQUIRE(status == RWK_STATUS_FORMAT && !root && strchr(error.message, '\n') == NULL);
    }
    rwk_arena_finish(&arena);
    REQUIRE(atomic_load(&memory.used) == 0);
    return 0;
}
