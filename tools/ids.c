/* text -> ids. Between two ids stand blanks, or one comma with blanks around it; brackets around
 * the whole may be there. Nothing else is let through: an id that was mistyped must not become
 * another one. */
#include "ids.h"

#include <stdlib.h>
#include "tool.h"

struct cursor {
    const char *next, *end;
};

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool skip_blanks(struct cursor *c)
{
    const char *start = c->next;
    while (c->next < c->end && (*c->next == ' ' || (*c->next >= '\t' && *c->next <= '\r')))
        c->next++;
    return c->next > start;
}

static bool skip_char(struct cursor *c, char wanted)
{
    if (c->next == c->end || *c->next != wanted)
        return false;
    c->next++;
    return true;
}

static bool read_id(struct cursor *c, uint32_t *ret_id)
{
    uint64_t value = 0;
    const char *start = c->next;
    while (c->next < c->end && is_digit(*c->next)) {
        value = value * 10 + (uint64_t)(*c->next++ - '0');
        if (value >= RWK_TOKEN_NONE)
            return false;
    }
    *ret_id = (uint32_t)value;
    return c->next > start;
}

/* Reads ids up to the end or a closing bracket; false at whatever is neither. */
static bool read_list(struct cursor *c, struct ids *ids)
{
    uint32_t id;
    bool separated = true, comma = false;
    for (;;) {
        skip_blanks(c);
        if (c->next == c->end || *c->next == ']')
            return !comma;
        if (!separated || !read_id(c, &id))
            return false;
        ids_append(ids, id);
        separated = skip_blanks(c);
        comma = skip_char(c, ',');
        separated |= comma;
    }
}

void ids_parse(struct ids *ids, const char *text, size_t size, const char *where)
{
    struct cursor c = { text, text + size };
    ids->n = 0;
    skip_blanks(&c);
    bool bracket = skip_char(&c, '[');
    if (!read_list(&c, ids) || skip_char(&c, ']') != bracket)
        die("%s: not a list of token ids (at byte %zu)", where, (size_t)(c.next - text));
    skip_blanks(&c);
    if (c.next != c.end)
        die("%s: not a list of token ids (at byte %zu)", where, (size_t)(c.next - text));
}

void ids_append(struct ids *ids, uint32_t id)
{
    reserve(&ids->items, &ids->capacity, ids->n + 1, sizeof id);
    ids->items[ids->n++] = id;
}

void ids_finish(struct ids *ids)
{
    free(ids->items);
    *ids = (struct ids){ 0 };
}
