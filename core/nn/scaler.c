/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loss scaling for fp16, one function for each library's rule (PyTorch, DeepSpeed, Megatron). open.c (core/job/session) begins it and
 * window.c (core/job/loop) updates it after each window, in the step thread; each rank has equal numbers. yoke test compares it with golden
 * tables (tools/check/golden). Each function keeps the order of its library's source, because tests compare runs bit for bit.
 */
#include "core/nn/scaler.h"

#include <float.h>
#include <stddef.h>

static const struct {
    double init, growth, backoff, floor;
    uint32_t interval, hysteresis;
} defaults[] = {
    [YK_SCALER_TORCH] = {65536.0, 2.0, 0.5, 0.0, 2000, 1},
    [YK_SCALER_DEEPSPEED] = {65536.0, 2.0, 0.5, 1.0, 1000, 2},
    [YK_SCALER_MEGATRON] = {4294967296.0, 2.0, 0.5, 1.0, 1000, 2},
    [YK_SCALER_FIXED] = {1.0, 1.0, 1.0, 0.0, 1, 1},
};

void yk__scaler_init(yk__scaler *scaler, yk__scaler_rule rule, double init, double growth, double backoff, double floor,
                     uint32_t interval, uint32_t hysteresis)
{
    *scaler = (yk__scaler){.rule = rule, .last_bad = -1};
    scaler->scale = init != 0.0 ? init : defaults[rule].init;
    scaler->growth = growth != 0.0 ? growth : defaults[rule].growth;
    scaler->backoff = backoff != 0.0 ? backoff : defaults[rule].backoff;
    scaler->floor = floor != 0.0 ? floor : defaults[rule].floor;
    scaler->interval = interval ? interval : defaults[rule].interval;
    scaler->hysteresis = hysteresis ? hysteresis : defaults[rule].hysteresis;
    scaler->hysteresis_left = scaler->hysteresis;
}

static bool torch_update(yk__scaler *scaler, bool overflow)
{
    if (overflow) {
        scaler->scale = (double)(float)(scaler->scale * scaler->backoff);
        scaler->good_steps = 0;
        return true;
    }
    if (++scaler->good_steps < (int64_t)scaler->interval)
        return true;
    scaler->good_steps = 0;
    if (scaler->scale * scaler->growth <= (double)FLT_MAX)
        scaler->scale = (double)(float)(scaler->scale * scaler->growth);
    return true;
}

/* deepspeed/runtime/fp16/loss_scaler.py, DynamicLossScaler.update_scale */
static bool deepspeed_update(yk__scaler *scaler, bool overflow)
{
    bool go_on = true;
    if (overflow) {
        if (scaler->hysteresis == 1 || scaler->hysteresis_left == 1) {
            if (scaler->scale == scaler->floor && !scaler->stay_at_floor)
                go_on = false;
            scaler->scale =
                scaler->scale * scaler->backoff > scaler->floor ? scaler->scale * scaler->backoff : scaler->floor;
        } else {
            scaler->hysteresis_left--;
        }
        scaler->last_bad = scaler->iter;
    } else {
        if (scaler->consecutive)
            scaler->hysteresis_left = scaler->hysteresis;
        int64_t stable = scaler->iter - scaler->last_bad - 1;
        if (stable > 0 && stable % (int64_t)scaler->interval == 0) {
            if (!scaler->consecutive)
                scaler->hysteresis_left = scaler->hysteresis;
            scaler->scale *= scaler->growth;
        }
    }
    scaler->iter++;
    return go_on;
}

static bool megatron_update(yk__scaler *scaler, bool overflow)
{
    if (overflow) {
        scaler->good_steps = 0;
        if (--scaler->hysteresis_left <= 0)
            scaler->scale =
                scaler->scale * scaler->backoff > scaler->floor ? scaler->scale * scaler->backoff : scaler->floor;
        return true;
    }
    if (++scaler->good_steps < (int64_t)scaler->interval)
        return true;
    scaler->good_steps = 0;
    scaler->hysteresis_left = scaler->hysteresis;
    scaler->scale *= scaler->growth;
    return true;
}

bool yk__scaler_update(yk__scaler *scaler, bool overflow)
{
    scaler->skips = overflow ? scaler->skips + 1 : 0;
    switch (scaler->rule) {
    case YK_SCALER_TORCH:
        return torch_update(scaler, overflow);
    case YK_SCALER_DEEPSPEED:
        return deepspeed_update(scaler, overflow);
    case YK_SCALER_MEGATRON:
        return megatron_update(scaler, overflow);
    default:
        return true;
    }
}

bool yk__scaler_exhausted(const yk__scaler *scaler)
{
    return !scaler->stay_at_floor && (scaler->scale < YK__SCALER_LEAST || scaler->skips >= YK__SCALER_MOST_SKIPS);
}
