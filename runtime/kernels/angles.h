/* Cosines and sines of rotary angles, alike on every instruction set: plain arithmetic in double.
 *
 *   theta = position * inv_freq, one float32 product                    as the reference forms it
 *   k = theta / (pi/2), rounded;  r = theta - k pi/2, pi/2 in parts of 20, 20 and 53 bits, so that
 * the products with k are exact below 2^33 quarter turns;  sine and cosine of |r| <= pi/4 by their
 * series;  the quadrant from k
 *
 * What is rounded to float32 in the end errs by less than 1e-12 of its value. */
#ifndef RWK_KERNELS_ANGLES_H
#define RWK_KERNELS_ANGLES_H

#include <stdint.h>

void rwk_angles(float *cos, float *sin, const float *inv_freq, float position, float factor,
                uint32_t n_pairs);

#endif
