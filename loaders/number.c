/* Text -> double, correctly rounded, whatever the host's locale.
 *
 *   text -> decimal: 0.d1 d2 d3 ... x 10^point, leading and trailing zeros dropped
 *   few digits, small power of ten: both are exact doubles, so one product or quotient rounds once
 *       (W. Clinger, "How to Read Floating Point Numbers Accurately", 1990)
 *   otherwise: the decimal is doubled or halved, exactly, until it lies in [1/2, 1)
 *       -> times 2^53 -> whole part: the significand; the digits behind the point say how to round
 *
 * 800 digits are enough: half way between two doubles lies a decimal of at most 768 digits, also
 * after the halvings, so of the digits beyond one need only know whether any of them is not zero.
 */
#include "loaders/json.h"

#include <float.h>
#include <string.h>

enum { MAX_DIGITS = 800, MAX_SHIFT = 59 /* 10 * 2^59 + carry fits 64 bits */ };

struct decimal {
    bool negative;
    bool more; /* digits that are not all zero were dropped */
    int n;     /* digits kept; the first and the last are not 0 */
    int64_t point;
    uint8_t digit[MAX_DIGITS];
};

static void trim(struct decimal *d)
{
    while (d->n && d->digit[d->n - 1] == 0)
        d->n--;
}

static void put_digit(struct decimal *d, unsigned digit)
{
    if (d->n < MAX_DIGITS)
        d->digit[d->n++] = (uint8_t)digit;
    else
        d->more |= digit != 0;
}

static void read_decimal(struct decimal *d, const char *text, size_t size)
{
    bool fraction = false;
    size_t i = d->negative = text[0] == '-';
    for (; i < size && text[i] != 'e' && text[i] != 'E'; i++) {
        if (text[i] == '.') {
            fraction = true;
            continue;
        }
        if (d->n || text[i] != '0') {
            put_digit(d, (unsigned)(text[i] - '0'));
            d->point += !fraction;
        } else {
            d->point -= fraction;
        }
    }
    trim(d);
    if (i == size)
        return;
    bool minus = text[++i] == '-';
    int64_t exponent = 0;
    for (i += text[i] == '-' || text[i] == '+'; i < size; i++)
        if (exponent < INT64_MAX / 100)
            exponent = exponent * 10 + (text[i] - '0');
    d->point += minus ? -exponent : exponent;
}

/* Digits up to 2^53, times or over a power of ten up to 10^22; false for other numbers. */
static bool convert_exactly(const struct decimal *d, double *ret)
{
    static const double powers[] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                     1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                     1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };
    int64_t exponent = d->point - d->n;
    uint64_t whole = 0;
    if (FLT_EVAL_METHOD != 0 || d->n > 16 || exponent < -22 || exponent > 22)
        return false;
    for (int i = 0; i < d->n; i++)
        whole = whole * 10 + d->digit[i];
    if (whole > 1ull << 53)
        return false;
    *ret = exponent < 0 ? (double)whole / powers[-exponent] : (double)whole * powers[exponent];
    return true;
}

/* d *= 2^shift, from the last digit on, with room for the digits that come in front. */
static void multiply(struct decimal *d, unsigned shift)
{
    enum { ROOM = 20 };
    uint8_t digits[ROOM + MAX_DIGITS];
    uint64_t carry = 0;
    int at = ROOM + d->n, end = at;
    for (int i = d->n - 1; i >= 0; i--, carry /= 10)
        digits[--at] = (carry += (uint64_t)d->digit[i] << shift) % 10;
    for (; carry; carry /= 10)
        digits[--at] = carry % 10;
    d->point += end - at - d->n;
    d->n = 0;
    while (at < end)
        put_digit(d, digits[at++]);
    trim(d);
}

/* d /= 2^shift, from the first digit on. */
static void divide(struct decimal *d, unsigned shift)
{
    uint64_t rest = 0, mask = (1ull << shift) - 1;
    int n = d->n;
    d->n = 0;
    for (int i = 0; i < n || rest; i++) {
        rest = rest * 10 + (i < n ? d->digit[i] : 0);
        if (d->n || rest >> shift)
            put_digit(d, (unsigned)(rest >> shift));
        else
            d->point--;
        rest &= mask;
        if (d->n == MAX_DIGITS && i >= n) {
            d->more |= rest != 0;
            break;
        }
    }
    trim(d);
}

static unsigned bounded(int64_t shift)
{
    return (unsigned)(shift < MAX_SHIFT ? shift : MAX_SHIFT);
}

/* The whole part, rounded to nearest, ties to even. */
static uint64_t rounded(const struct decimal *d)
{
    uint64_t whole = 0;
    int point = (int)d->point;
    for (int i = 0; i < point; i++)
        whole = whole * 10 + (i < d->n ? d->digit[i] : 0);
    if (d->n <= point || d->digit[point] < 5)
        return whole;
    bool tie = d->digit[point] == 5 && d->n == point + 1 && !d->more;
    return whole + (tie ? whole & 1 : 1);
}

/* The bits of |d|: those of infinity when it is too large. */
static uint64_t convert_by_shifts(struct decimal *d)
{
    const uint64_t infinity = 0x7ffull << 52;
    int exponent = 0, significant = 53;
    if (d->n == 0 || d->point < -330)
        return 0;
    if (d->point > 310)
        return infinity;
    /* 10^(point - 1) <= d < 10^point and 8 < 10, so these steps never pass [1/2, 1). */
    while (d->point > 0) {
        unsigned shift = d->point > 1 ? bounded(3 * (d->point - 1)) : 1;
        divide(d, shift);
        exponent += (int)shift;
    }
    while (d->point < 0 || d->digit[0] < 5) {
        unsigned shift = d->point < 0 ? bounded(-3 * d->point) : 1;
        multiply(d, shift);
        exponent -= (int)shift;
    }
    if (exponent > 1024)
        return infinity;
    if (exponent < DBL_MIN_EXP) /* subnormal: the last bit stays at 2^-1074 */
        significant -= DBL_MIN_EXP - exponent;
    if (significant < 0)
        return 0;
    multiply(d, (unsigned)significant);
    uint64_t whole = rounded(d);
    /* The significand's top bit, where there is one, adds 1 to the exponent field; so does rounding
     * up to a power of 2. */
    return significant < 53 ? whole : ((uint64_t)(exponent - DBL_MIN_EXP) << 52) + whole;
}

bool rwk_parse_double(const char *text, size_t size, double *ret)
{
    struct decimal d;
    double value;
    d.more = false;
    d.n = 0;
    d.point = 0;
    read_decimal(&d, text, size);
    if (!convert_exactly(&d, &value)) {
        uint64_t bits = convert_by_shifts(&d);
        if (bits >> 52 == 0x7ff)
            return false;
        memcpy(&value, &bits, sizeof value);
    }
    *ret = d.negative ? -value : value;
    return true;
}
