/* Activations, tanh and exp through what uses them, and angles, against the C library in double.
 * Bounds in ulps are mathfn.h's, plus those of the few operations around them. */
#include "check.h"

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}
static double silu(double x)
{
    return x * sigmoid(x);
}
static double relu(double x)
{
    return x > 0 ? x : 0;
}
static double gelu_erf(double x)
{
    return x / 2 * erfc(-x * M_SQRT1_2);
}
static double gelu_tanh(double x)
{
    return x * sigmoid(2 * sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
}
static double quick_gelu(double x)
{
    return x * sigmoid((double)1.702f * x);
}
static double relu2(double x)
{
    return relu(x) * relu(x);
}

/* Left of `tail` the argument of exp is rounded to float32 before it is used: there the bound grows
 * with it. */
static const struct {
    enum rwk_activation act;
    const char *name;
    double (*f)(double);
    double bound, tail;
} activations[] = {
    { RWK_ACT_SILU, "silu", silu, 4, -1e9 },
    { RWK_ACT_RELU, "relu", relu, 0, -1e9 },
    { RWK_ACT_GELU_ERF, "gelu_erf", gelu_erf, 8, -1e9 },
    { RWK_ACT_GELU_TANH, "gelu_tanh", gelu_tanh, 8, -1 },
    { RWK_ACT_QUICK_GELU, "quick_gelu", quick_gelu, 5, -1 },
    { RWK_ACT_RELU2, "relu2", relu2, 1, -1e9 },
};

enum { N = 20011 };

/* x from -range to range, finer near zero. */
static void ramp(float *x, float range)
{
    for (int i = 0; i < N; i++) {
        float u = 2 * (float)i / (N - 1) - 1;
        x[i] = range * u * fabsf(u);
    }
}

static void check_activation(struct context *c, size_t row)
{
    struct buffer bx = buffer_aligned(N * sizeof(float)), by = buffer_open(N * sizeof(float), 4, 0);
    float *x = (float *)bx.p, *y = (float *)by.p;
    ramp(x, 13);
    c->k->activate[activations[row].act](y, x, N);
    double worst = -INFINITY, at = 0;
    for (int i = 0; i < N; i++) {
        double right = activations[row].f((double)x[i]), bound = activations[row].bound;
        if ((double)x[i] < activations[row].tail)
            bound += 2 * pow((double)x[i], 4);
        /* the results' last bits fade where they are no normal numbers any more */
        double excess = (fabs((double)y[i] - right) < 1e-35 ? 0 : ulps(y[i], right)) - bound;
        if (!(excess <= worst)) {
            worst = excess;
            at = (double)x[i];
        }
    }
    claim(c, worst <= 0, "%s(%g) is off by %.2f ulp beyond its bound", activations[row].name, at,
          worst);
    float special[] = { NAN, INFINITY, 0, 100, -100, 1e30f };
    c->k->activate[activations[row].act](special, special, 6);
    claim(c,
          isnan(special[0]) && isinf(special[1]) && special[2] == 0 &&
              special[3] == (float)activations[row].f(100) && fabsf(special[4]) < 1e-30f &&
              special[5] == (float)activations[row].f(1e30),
          "%s of special numbers", activations[row].name);
    claim(c, buffer_intact(&by), "%s stays inside", activations[row].name);
    buffer_close(&bx);
    buffer_close(&by);
}

/* softcap(x, 1) is tanh; exp shows in log_sum of two numbers. */
static void check_tanh(struct context *c)
{
    static float x[N], y[N];
    double worst = 0;
    ramp(x, 12);
    memcpy(y, x, sizeof y);
    c->k->softcap(y, 1, N);
    for (int i = 0; i < N; i++)
        worst = fmax(worst, ulps(y[i], tanh((double)x[i])));
    claim(c, worst <= 3, "tanh is off by %.2f ulp", worst);
    memcpy(y, x, sizeof y);
    c->k->softcap(y, 30, N);
    for (int i = 0; i < N; i++)
        claim(c, ulps(y[i], 30 * tanh((double)x[i] / 30)) <= 5, "softcap(%g, 30) = %g",
              (double)x[i], (double)y[i]);
}

static void check_exp(struct context *c)
{
    double worst = 0;
    for (int i = 0; i < N; i++) {
        float x[2] = { 0, -87.0f * (float)i / N }, max;
        double sum;
        c->k->log_sum(x, 2, &max, &sum);
        worst = fmax(worst,
                     ulps((float)(sum - 1), exp((double)x[1])) - 1 / exp((double)x[1]) * 0x1p-29);
    }
    claim(c, worst <= 1.5, "exp is off by %.2f ulp", worst);
}

static void check_angles(struct context *c)
{
    enum { PAIRS = 37 };
    float inv_freq[PAIRS], cosine[PAIRS], sine[PAIRS];
    static const float positions[] = { 0,    1,     2,      3,       17,       511,
                                       4096, 32767, 131071, 1000003, 16777216, 4e9f };
    for (int i = 0; i < PAIRS; i++)
        inv_freq[i] = (float)pow(10000, -2.0 * i / 74);
    double worst = 0;
    for (size_t p = 0; p < COUNT(positions); p++)
        for (int f = 0; f < 2; f++) {
            float factor = f ? 1.2079441f : 1;
            c->k->angles(cosine, sine, inv_freq, positions[p], factor, PAIRS);
            for (int i = 0; i < PAIRS; i++) {
                float theta = positions[p] * inv_freq[i];
                worst = fmax(worst, ulps(cosine[i], (double)((float)cos((double)theta) * factor)));
                worst = fmax(worst, ulps(sine[i], (double)((float)sin((double)theta) * factor)));
            }
        }
    claim(c, worst <= 1, "angles are off by %.2f ulp", worst);
}

void check_math(struct context *c)
{
    for (size_t i = 0; i < COUNT(activations); i++)
        check_activation(c, i);
    check_tanh(c);
    check_exp(c);
    check_angles(c);
}
