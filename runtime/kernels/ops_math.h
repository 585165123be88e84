/* exp, tanh, erf and sigmoid over vectors. One implementation for all instruction sets and all callers: the bits of a result
 * depend on its argument only.
 *
 *   exp   x = n ln 2 + r, |r| <= ln 2 / 2 (Cody and Waite, two parts of ln 2);  2^n (1 + r + r^2 P(r)).  exp(0) is exactly 1.
 *   tanh  |x| < 0.65: x T(x^2);  else 1 - 2 / (exp(2|x|) + 1)
 *   erf   |x| < 1: x S(x^2);  else 1 - exp(-L(|x|)), L = -log erfc
 *
 * The polynomials are least-squares fits at Chebyshev nodes; bounds are held by tests/checkkernels: exp 2 ulp, tanh and erf
 * 2e-7 absolute. */

static inline vf v_exp(vf x)
{
    const vf low = vf_set1(-87.3f), high = vf_set1(88.0f), magic = vf_set1(12582912.0f); /* 1.5 * 2^23: rounds to whole */
    vf clamped = vf_min(vf_max(x, low), high);
    vf n = vf_sub(vf_fma(clamped, vf_set1(1.44269504f), magic), magic);
    vf r = vf_fma(n, vf_set1(-0.693359375f), clamped);
    r = vf_fma(n, vf_set1(2.12194440e-4f), r);
    vf p = vf_set1(0.001393454265780747f);
    p = vf_fma(p, r, vf_set1(0.008363776840269566f));
    p = vf_fma(p, r, vf_set1(0.04166645556688309f));
    p = vf_fma(p, r, vf_set1(0.16666573286056519f));
    p = vf_fma(p, r, vf_set1(0.5f));
    vf e = vf_ldexp(vf_add(vf_fma(vf_mul(r, r), p, r), vf_set1(1)), n);
    e = vf_if_less(x, low, vf_zero(), e);
    return vf_if_less(high, x, vf_set1(__builtin_inff()), e);
}

static inline vf v_tanh(vf x)
{
    vf a = vf_abs(x), t = vf_mul(x, x);
    vf p = vf_set1(0.0020466004498302937f);
    p = vf_fma(p, t, vf_set1(-0.008067671209573746f));
    p = vf_fma(p, t, vf_set1(0.02165384590625763f));
    p = vf_fma(p, t, vf_set1(-0.05393749848008156f));
    p = vf_fma(p, t, vf_set1(0.13333122432231903f));
    p = vf_fma(p, t, vf_set1(-0.333333283662796f));
    vf small = vf_fma(vf_mul(x, t), p, x);
    vf e = v_exp(vf_min(vf_add(a, a), vf_set1(40)));
    vf large = vf_sub(vf_set1(1), vf_div(vf_set1(2), vf_add(e, vf_set1(1))));
    return vf_if_less(a, vf_set1(0.65f), small, vf_sign(large, x));
}

static inline vf v_erf(vf x)
{
    vf a = vf_min(vf_abs(x), vf_set1(4)), t = vf_mul(x, x);
    vf s = vf_set1(-9.673590284364764e-06f);
    s = vf_fma(s, t, vf_set1(0.00011268253729213029f));
    s = vf_fma(s, t, vf_set1(-0.0008484396385028958f));
    s = vf_fma(s, t, vf_set1(0.005221053492277861f));
    s = vf_fma(s, t, vf_set1(-0.026865437626838684f));
    s = vf_fma(s, t, vf_set1(0.11283782869577408f));
    s = vf_fma(s, t, vf_set1(-0.37612637877464294f));
    s = vf_fma(s, t, vf_set1(1.128379225730896f));
    vf l = vf_set1(6.582860123671708e-08f);
    l = vf_fma(l, a, vf_set1(-3.095205101999454e-06f));
    l = vf_fma(l, a, vf_set1(6.006879993947223e-05f));
    l = vf_fma(l, a, vf_set1(-0.0006733376067131758f));
    l = vf_fma(l, a, vf_set1(0.005021044984459877f));
    l = vf_fma(l, a, vf_set1(-0.026999497786164284f));
    l = vf_fma(l, a, vf_set1(0.1109074205160141f));
    l = vf_fma(l, a, vf_set1(0.6310888528823853f));
    l = vf_fma(l, a, vf_set1(1.1306045055389404f));
    l = vf_fma(l, a, vf_set1(-0.00040050054667517543f));
    vf large = vf_sub(vf_set1(1), v_exp(vf_sub(vf_zero(), l)));
    return vf_if_less(a, vf_set1(1), vf_mul(x, s), vf_sign(large, x));
}

static inline vf v_sigmoid(vf x) { return vf_div(vf_set1(1), vf_add(vf_set1(1), v_exp(vf_sub(vf_zero(), x)))); }
