/* UTF-8, one character at a time (RFC 3629: no overlong forms, no surrogates, nothing beyond
 * U+10FFFF). */
#ifndef RWK_BASE_UTF8_H
#define RWK_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the well-formed character at text[0..left), 0 if there is none. *ret_incomplete: all
 * that is there is the beginning of a character. */
static inline size_t rwk_utf8_valid(const char *text, size_t left, bool *ret_incomplete)
{
    const unsigned char *p = (const unsigned char *)text;
    unsigned char c = left ? p[0] : 0xff;
    size_t n = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;
    unsigned char low = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80; /* bounds of the second byte */
    unsigned char high = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
    *ret_incomplete = false;
    for (size_t i = 1; i < n; i++, low = 0x80, high = 0xbf) {
        if (i >= left) {
            *ret_incomplete = true;
            return 0;
        }
        if (p[i] < low || p[i] > high)
            return 0;
    }
    return n;
}

/* The same where an unfinished character is as bad as any other. */
static inline size_t rwk_utf8_length(const char *text, size_t left)
{
    bool incomplete;
    return rwk_utf8_valid(text, left, &incomplete);
}

/* Bytes of the longest beginning of a character at text, where no whole one stands: what one U+FFFD
 * stands for. */
static inline size_t rwk_utf8_broken(const char *text, size_t left)
{
    bool incomplete = true;
    size_t n = 1;
    for (; n < left && n < 3; n++) {
        rwk_utf8_valid(text, n + 1, &incomplete);
        if (!incomplete)
            break;
    }
    return n;
}

/* Bytes of the character at p, and its code point; the text is valid and does not end at p. */
static inline size_t rwk_utf8_next(const char *text, uint32_t *ret_code)
{
    const unsigned char *p = (const unsigned char *)text;
    if (p[0] < 0x80)
        return *ret_code = p[0], 1;
    if (p[0] < 0xe0)
        return *ret_code = (uint32_t)(p[0] & 0x1f) << 6 | (p[1] & 0x3f), 2;
    if (p[0] < 0xf0)
        return *ret_code =
                   (uint32_t)(p[0] & 0x0f) << 12 | (uint32_t)(p[1] & 0x3f) << 6 | (p[2] & 0x3f),
               3;
    *ret_code = (uint32_t)(p[0] & 7) << 18 | (uint32_t)(p[1] & 0x3f) << 12 |
                (uint32_t)(p[2] & 0x3f) << 6 | (p[3] & 0x3f);
    return 4;
}

/* Where the character before text[at] begins; at > 0. */
static inline size_t rwk_utf8_back(const char *text, size_t at)
{
    do
        at--;
    while (at > 0 && ((unsigned char)text[at] & 0xc0) == 0x80);
    return at;
}

/* Writes a code point at p (room for 4 bytes); its size. */
static inline size_t rwk_utf8_put(char *p, uint32_t code)
{
    static const unsigned char lead[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
    size_t n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, code >>= 6)
        p[i] = (char)(0x80 | (code & 0x3f));
    p[0] = (char)(lead[n] | code);
    return n;
}

/* The number of the ASCII bytes at the start of text. */
static inline size_t rwk_ascii_length(const char *text, size_t size)
{
    size_t n = 0;
    for (uint64_t eight; n + 8 <= size; n += 8) {
        __builtin_memcpy(&eight, text + n, 8);
        if (eight & 0x8080808080808080u)
            break;
    }
    while (n < size && (unsigned char)text[n] < 0x80)
        n++;
    return n;
}

/* Whether all of text is well-formed. */
static inline bool rwk_utf8_all(const char *text, size_t size)
{
    for (size_t i = 0, n; i < size; i += n) {
        n = rwk_ascii_length(text + i, size - i);
        if (!n && !(n = rwk_utf8_length(text + i, size - i)))
            return false;
    }
    return true;
}

#endif
