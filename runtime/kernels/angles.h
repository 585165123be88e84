/* Cosines and sines of rotary angles: the same for every instruction set. */
#ifndef RWK_KERNELS_ANGLES_H
#define RWK_KERNELS_ANGLES_H
#include <stdint.h>
void rwk_angles(float *cos, float *sin, const float *inv_freq, float position, float factor, uint32_t n_pairs);
void rwk_sincos(double x, double *ret_sin, double *ret_cos);
#endif
