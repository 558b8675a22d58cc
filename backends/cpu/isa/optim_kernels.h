/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of optimizer steps and of the gradients' statistics: kern_rows.inc. Included from nn/optim.c. */
#ifndef YOKE_BACKENDS_CPU_ISA_OPTIM_KERNELS_H
#define YOKE_BACKENDS_CPU_ISA_OPTIM_KERNELS_H

#include "backends/cpu/isa/isa.h"

/* YK_HYPER_* of a step, and its YK_OPT_* flags */
typedef struct cpu_hyper {
    float lr, b1, b2, eps, decay, scale, clip, c1, sqrt_c2, first;
    int flags;
} cpu_hyper;

typedef struct cpu_optim_kernels {
    void (*adam)(const cpu_hyper *h, const float *g, float *p, float *m, float *v, float *vmax, size_t n);
    void (*sgd)(const cpu_hyper *h, const float *g, float *p, float *b, size_t n);
    /* adds the sum of squares of scale g, and the count of numbers that are not finite */
    void (*stats)(const float *g, float scale, size_t n, double *sum, double *bad);
} cpu_optim_kernels;

#endif
