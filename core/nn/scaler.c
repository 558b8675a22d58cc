/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loss scaling, one function for each library's rule; the order of tests and updates in each is that of its source, because a
 * comparison with a run of that library is bit for bit.
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

void yk__scaler_init(yk__scaler *s, yk__scaler_rule rule, double init, double growth, double backoff, double floor,
                     uint32_t interval, uint32_t hysteresis)
{
    *s = (yk__scaler){.rule = rule, .last_bad = -1};
    s->scale = init != 0.0 ? init : defaults[rule].init;
    s->growth = growth != 0.0 ? growth : defaults[rule].growth;
    s->backoff = backoff != 0.0 ? backoff : defaults[rule].backoff;
    s->floor = floor != 0.0 ? floor : defaults[rule].floor;
    s->interval = interval ? interval : defaults[rule].interval;
    s->hysteresis = hysteresis ? hysteresis : defaults[rule].hysteresis;
    s->hysteresis_left = s->hysteresis;
}

static bool torch_update(yk__scaler *s, bool overflow)
{
    if (overflow) {
        s->scale = (double)(float)(s->scale * s->backoff);
        s->good_steps = 0;
        return true;
    }
    if (++s->good_steps < (int64_t)s->interval)
        return true;
    s->good_steps = 0;
    if (s->scale * s->growth <= (double)FLT_MAX)
        s->scale = (double)(float)(s->scale * s->growth);
    return true;
}

/* deepspeed/runtime/fp16/loss_scaler.py, DynamicLossScaler.update_scale */
static bool deepspeed_update(yk__scaler *s, bool overflow)
{
    bool go_on = true;
    if (overflow) {
        if (s->hysteresis == 1 || s->hysteresis_left == 1) {
            if (s->scale == s->floor && !s->stay_at_floor)
                go_on = false;
            s->scale = s->scale * s->backoff > s->floor ? s->scale * s->backoff : s->floor;
        } else {
            s->hysteresis_left--;
        }
        s->last_bad = s->iter;
    } else {
        if (s->consecutive)
            s->hysteresis_left = s->hysteresis;
        int64_t stable = s->iter - s->last_bad - 1;
        if (stable > 0 && stable % (int64_t)s->interval == 0) {
            if (!s->consecutive)
                s->hysteresis_left = s->hysteresis;
            s->scale *= s->growth;
        }
    }
    s->iter++;
    return go_on;
}

static bool megatron_update(yk__scaler *s, bool overflow)
{
    if (overflow) {
        s->good_steps = 0;
        if (--s->hysteresis_left <= 0)
            s->scale = s->scale * s->backoff > s->floor ? s->scale * s->backoff : s->floor;
        return true;
    }
    if (++s->good_steps < (int64_t)s->interval)
        return true;
    s->good_steps = 0;
    s->hysteresis_left = s->hysteresis;
    s->scale *= s->growth;
    return true;
}

bool yk__scaler_update(yk__scaler *s, bool overflow)
{
    s->skips = overflow ? s->skips + 1 : 0;
    switch (s->rule) {
    case YK_SCALER_TORCH:
        return torch_update(s, overflow);
    case YK_SCALER_DEEPSPEED:
        return deepspeed_update(s, overflow);
    case YK_SCALER_MEGATRON:
        return megatron_update(s, overflow);
    default:
        return true;
    }
}

bool yk__scaler_exhausted(const yk__scaler *s)
{
    return !s->stay_at_floor && (s->scale < YK__SCALER_LEAST || s->skips >= YK__SCALER_MOST_SKIPS);
}
