/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dynamic loss scaling for fp16: the rules of torch.amp.GradScaler, DeepSpeed (ZeRO path) and Megatron as pure state machines. The
 * caller reports to yk__scaler_update, once per window, if any gradient of any rank was not finite.
 *
 * torch      overflow: scale *= backoff, count = 0. Good: count + 1; at `interval` scale *= growth unless that is
 *            infinite in f32, count = 0. No floor.
 * deepspeed  overflow: with remaining hysteresis 1 (or set to 1) halve, at the floor end the job unless stay; else only
 *            hysteresis - 1. Good: growth after interval + 1 good steps the first time, then every interval.
 * megatron   overflow: count = 0, hysteresis - 1, and while that is <= 0 scale = max(scale * backoff, floor).
 *            Good: count + 1; at interval both are reset and scale *= growth.
 */
#ifndef YOKE_CORE_NN_SCALER_H
#define YOKE_CORE_NN_SCALER_H

#include <stdbool.h>
#include <stdint.h>

#define YK__SCALER_LEAST 0x1p-24  /* f16's least number: a gradient that overflows there overflows at every scale */
#define YK__SCALER_MOST_SKIPS 100 /* torch falls from 2^16 below YK__SCALER_LEAST in 41 overflows */

typedef enum yk__scaler_rule { YK_SCALER_TORCH, YK_SCALER_DEEPSPEED, YK_SCALER_MEGATRON, YK_SCALER_FIXED } yk__scaler_rule;

typedef struct yk__scaler {
    yk__scaler_rule rule;
    double growth, backoff, floor;
    uint32_t interval, hysteresis;
    bool consecutive, stay_at_floor;
    /* state */
    double scale;
    int64_t good_steps;      /* torch, megatron: good steps since the last change */
    int64_t hysteresis_left; /* hysteresis left */
    int64_t iter, last_bad; /* deepspeed */
    uint32_t skips;         /* overflows in a row */
} yk__scaler;

/* Zero settings take the rule's defaults. */
void yk__scaler_init(yk__scaler *scaler, yk__scaler_rule rule, double init, double growth, double backoff, double floor,
                     uint32_t interval, uint32_t hysteresis);
/* False if the scale is at its floor and overflowed again: the caller must end the job. */
bool yk__scaler_update(yk__scaler *scaler, bool overflow);
/* True if no lower scale can help, whatever the rule says: the scale is below YK__SCALER_LEAST, or YK__SCALER_MOST_SKIPS windows in a
 * row overflowed. Always false with stay_at_floor. */
bool yk__scaler_exhausted(const yk__scaler *scaler);

#endif
