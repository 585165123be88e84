/* Text -> double, correctly rounded, whatever the host's locale.
 *
 * Fast path (W. Clinger, "How to read floating point numbers accurately", 1990): up to 15 digits and a power of ten up to
 * 10^22 are exact in double, so one multiplication or division rounds once. The rest goes to strtod_l in the "C" locale. */
#include "loaders/json.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double powers[] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };

static bool fast_path(const char *text, size_t size, double *ret)
{
    uint64_t digits = 0;
    int n_digits = 0, scale = 0, exponent = 0;
    size_t i = 0;
    bool negative = size && text[0] == '-', point = false;
    for (i = negative; i < size && text[i] != 'e' && text[i] != 'E'; i++) {
        if (text[i] == '.') {
            point = true;
            continue;
        }
        if (++n_digits > 15)
            return false;
        digits = digits * 10 + (uint64_t)(text[i] - '0');
        scale -= point;
    }
    if (i < size) {
        bool minus = i + 1 < size && text[i + 1] == '-';
        for (i += 1 + (minus || (i + 1 < size && text[i + 1] == '+')); i < size; i++)
            if ((exponent = exponent * 10 + (text[i] - '0')) > 1000)
                return false;
        exponent = minus ? -exponent : exponent;
    }
    exponent += scale;
    if (exponent < -22 || exponent > 22)
        return false;
    double value = exponent < 0 ? (double)digits / powers[-exponent] : (double)digits * powers[exponent];
    *ret = negative ? -value : value;
    return true;
}

bool rwk_parse_double(const char *text, size_t size, double *ret)
{
    if (fast_path(text, size, ret))
        return true;
    char copy[1024];
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!c || size >= sizeof copy) {
        if (c)
            freelocale(c);
        return false;
    }
    memcpy(copy, text, size);
    copy[size] = '\0';
    double value = strtod_l(copy, NULL, c);
    freelocale(c);
    if (!isfinite(value))
        return false;
    *ret = value;
    return true;
}
