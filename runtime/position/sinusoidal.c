/* Sines and cosines added to the token embedding, in the three layouts that checkpoints use (d:
 * hidden size, m < d/2):
 *
 *   interleaved  a = p / 10000^(2m/d);                   x[2m] += sin a, x[2m+1] += cos a
 *                (Vaswani et al. 2017, 3.5)
 *   halves       the same angles;                        x[m] += sin a, x[d/2+m] += cos a
 *                (CTRL, Marian)
 *   fairseq      a = (p + 2) exp(-m ln 10000/(d/2-1));   x[m] += sin a, x[d/2+m] += cos a
 *                (XGLM, whose first two rows are reserved)
 *
 * Frequencies and the product with the position are float32, as the references build their
 * tables; an odd last element gets nothing. */
#include "runtime/position/schemes.h"

#include <math.h>
#include "runtime/kernels/angles.h"

enum { FAIRSEQ_OFFSET = 2, ANGLES = 64 };

static enum rwk_status prepare(struct rwk_position_plan *plan,
                               const struct rwk_position_request *request, struct rwk_arena *arena,
                               struct rwk_error *error)
{
    uint32_t half = plan->hidden_size / 2;
    if (half < 2)
        return rwk_fail_on(error, RWK_STATUS_RANGE, request->file, "hidden_size",
                           "sinusoidal positions need at least 4 elements");
    plan->sinusoid = request->sinusoid;
    plan->sinusoid_freq = rwk_arena_alloc(arena, half * sizeof *plan->sinusoid_freq);
    if (!plan->sinusoid_freq)
        return rwk_fail_nomem(error, half * sizeof *plan->sinusoid_freq);
    float step = (float)(log(10000.0) / (half - 1));
    for (uint32_t m = 0; m < half; m++)
        plan->sinusoid_freq[m] = plan->sinusoid == RWK_SINUSOID_FAIRSEQ
                                     ? (float)exp((double)((float)m * -step))
                                     : (float)(1 / pow(10000.0, 2.0 * m / plan->hidden_size));
    return RWK_STATUS_OK;
}

static void embed(const struct rwk_position_plan *plan, uint64_t position, float *x)
{
    uint32_t half = plan->hidden_size / 2;
    bool interleaved = plan->sinusoid == RWK_SINUSOID_INTERLEAVED;
    float cosine[ANGLES], sine[ANGLES];
    float p = (float)(position + (plan->sinusoid == RWK_SINUSOID_FAIRSEQ ? FAIRSEQ_OFFSET : 0));
    for (uint32_t begin = 0; begin < half; begin += ANGLES) {
        uint32_t n = half - begin < ANGLES ? half - begin : ANGLES;
        rwk_angles(cosine, sine, plan->sinusoid_freq + begin, p, 1, n);
        for (uint32_t i = 0; i < n; i++) {
            uint32_t m = begin + i;
            x[interleaved ? 2 * m : m] += sine[i];
            x[interleaved ? 2 * m + 1 : half + m] += cosine[i];
        }
    }
}

const struct rwk_position_scheme rwk_position_sinusoidal = { .name = "sinusoidal",
                                                             .prepare = prepare,
                                                             .embed = embed };
