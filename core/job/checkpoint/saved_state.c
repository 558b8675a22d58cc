/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and checks a checkpoint's state, a JSON object that another person may have written. One pass checks kinds, ranges, names and
 * checksums, so later readers need no checks.
 *
 * save.c and its neighbours call it in the step thread. A wrong value is an error that names the entry and the range.
 */
#include "core/job/checkpoint/saved_state.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/io/json.h"
#include "core/job/param.h"

#define MOST_COUNT ((uint64_t)1 << 53) /* largest count of steps, batches, epochs: JSON readers agree up to here */

#define MOST_EPOCH ((uint64_t)1 << 31)

/* The context of a check, and its first error. */
typedef struct state_reader {
    const yk_job *job;
    const char *dir;
    yk_error *err;
} state_reader;

bool yk__state_count(const json_t *v, uint64_t *out)
{
    const char *text = json_string_value(v);
    uint64_t n = 0;
    if (json_is_integer(v)) {
        *out = (uint64_t)json_integer_value(v);
        return json_integer_value(v) >= 0;
    }
    if (!text || !*text)
        return false;
    for (; *text; text++)
        if (*text < '0' || *text > '9' || __builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, (uint64_t)(*text - '0'), &n))
            return false;
    *out = n;
    return true;
}

bool yk__state_real(const json_t *v, double *out)
{
    static const struct {
        const char *word;
        double value;
    } words[] = {{"inf", INFINITY}, {"-inf", -INFINITY}, {"nan", NAN}, {"-nan", NAN}};
    const char *text = json_string_value(v);
    *out = json_number_value(v);
    for (size_t i = 0; text && i < sizeof words / sizeof words[0]; i++)
        if (!strcmp(text, words[i].word)) {
            *out = words[i].value;
            return true;
        }
    return json_is_number(v);
}

json_t *yk__state_of_count(uint64_t v)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, v);
    return json_string(text);
}

json_t *yk__state_of_real(double v)
{
    char text[40];
    if (isfinite(v))
        return json_real(v);
    snprintf(text, sizeof text, "%g", v);
    return json_string(text);
}

static bool fail_value(const state_reader *l, const char *where, const json_t *v, const char *expected)
{
    char *text = v ? yk__json_dump(v, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    if (!l->err->status)
        yk__fail(l->err, YK_E_FORMAT, "%s/trainer_state.json: %s is %.60s, expected %s", l->dir, where, text ? text : "missing",
                 expected);
    yk__free(text);
    return false;
}

static bool count_ok(const state_reader *l, const json_t *o, const char *key, const char *where, uint64_t most, uint64_t *out)
{
    char text[80];
    uint64_t n = 0;
    const bool ok = yk__state_count(json_object_get(o, key), &n) && n <= most;
    if (out)
        *out = n;
    snprintf(text, sizeof text, "a whole number from 0 to %" PRIu64, most);
    return ok || fail_value(l, where, json_object_get(o, key), text);
}

static bool real_ok(const state_reader *l, const json_t *o, const char *key, const char *where, double least, double most)
{
    char text[80];
    double v;
    const bool ok = yk__state_real(json_object_get(o, key), &v) && v >= least && v <= most;
    snprintf(text, sizeof text, "a number from %g to %g", least, most);
    return ok || fail_value(l, where, json_object_get(o, key), text);
}

static bool whole_ok(const state_reader *l, const json_t *o, const char *key, const char *where, int64_t least)
{
    const json_t *v = json_object_get(o, key);
    const bool ok = json_is_integer(v) && json_integer_value(v) >= least && json_integer_value(v) <= (json_int_t)MOST_COUNT;
    return ok || fail_value(l, where, v, "a whole number within its range");
}

/* ---- The parts ---- */

/* Facts that checkpoints of earlier versions lack. */
static bool rows_ok(const state_reader *l, const json_t *place)
{
    const json_t *content = json_object_get(place, "content"), *classes = json_object_get(place, "classes");
    if (!json_object_get(place, "rows"))
        return true;
    for (size_t i = 0; i < json_array_size(classes); i++)
        if (!json_is_string(json_array_get(classes, i)))
            return fail_value(l, "data: classes", json_array_get(classes, i), "names");
    return count_ok(l, place, "rows", "data: rows", MOST_COUNT, NULL) &&
           (!json_object_get(place, "batches") || count_ok(l, place, "batches", "data: batches", MOST_COUNT, NULL)) &&
           count_ok(l, place, "order_seed", "data: order_seed", UINT64_MAX, NULL) &&
           (json_is_string(content) || fail_value(l, "data: content", content, "a sum as text")) &&
           (!classes || json_is_array(classes) || fail_value(l, "data: classes", classes, "a list of names"));
}

static bool data_ok(const state_reader *l, const json_t *places)
{
    if (!json_is_array(places))
        return fail_value(l, "data", places, "a list");
    for (size_t i = 0; i < json_array_size(places); i++)
        if (!count_ok(l, json_array_get(places, i), "epoch", "data: epoch", MOST_EPOCH, NULL) ||
            !count_ok(l, json_array_get(places, i), "batch", "data: batch", MOST_COUNT, NULL) || !rows_ok(l, json_array_get(places, i)) ||
            (json_object_get(json_array_get(places, i), "global_batch") &&
             !whole_ok(l, json_array_get(places, i), "global_batch", "data: global_batch", 1)))
            return false;
    return true;
}

static bool own_steps_ok(const state_reader *l, const json_t *o, uint64_t steps)
{
    const char *name;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)o, name, v)
    {
        uint64_t n;
        if (!yk__param_named(l->job, name))
            return fail_value(l, "optimizer: param_steps", json_object_get(o, name), "names of the job's parameters alone");
        if (!yk__state_count(v, &n) || n > steps)
            return fail_value(l, "optimizer: param_steps", v, "no more steps than the optimizer's");
    }
    return true;
}

/* Its step has no limit: yk_sched_seek takes any, and a program may count more steps than the optimizer. */
static bool schedule_ok(const state_reader *l, const json_t *s)
{
    static const double least[] = {0, -INFINITY, 0, 0}, most[] = {DBL_MAX, INFINITY, DBL_MAX, DBL_MAX};
    const json_t *plateau = json_object_get(s, "plateau");
    double v;
    if (!s)
        return true;
    if (!count_ok(l, s, "step", "optimizer: schedule: step", UINT64_MAX, NULL))
        return false;
    for (size_t i = 0; i < 4; i++) /* rate, best so far (infinite at first), bad steps, cooldown */
        if (!yk__state_real(json_array_get(plateau, i), &v) || !(v >= least[i] && v <= most[i]))
            return fail_value(l, "optimizer: schedule: plateau", plateau, "four numbers within their ranges");
    return true;
}

/* micro: micro batches so far; an update takes at least one. */
static bool optimizer_ok(const state_reader *l, const json_t *o, uint64_t micro)
{
    uint64_t steps;
    if (!o)
        return true;
    const char *kind = json_string_value(json_object_get(o, "kind"));
    const bool adam = kind && !strcmp(kind, "adam");
    const double most_beta = adam ? 1.0 - DBL_EPSILON / 2 : DBL_MAX; /* sgd's momentum has no upper limit, its dampening none at all */
    return count_ok(l, o, "steps", "optimizer: steps", micro, &steps) && own_steps_ok(l, json_object_get(o, "param_steps"), steps) &&
           real_ok(l, o, "lr", "optimizer: lr", 0, DBL_MAX) &&
           (!json_object_get(o, "base_lr") || real_ok(l, o, "base_lr", "optimizer: base_lr", 0, DBL_MAX)) &&
           real_ok(l, o, "beta1", "optimizer: beta1", 0, most_beta) &&
           real_ok(l, o, "beta2", "optimizer: beta2", adam ? 0 : -DBL_MAX, most_beta) &&
           real_ok(l, o, "eps", "optimizer: eps", 0, DBL_MAX) &&
           schedule_ok(l, json_object_get(o, "schedule"));
}

/* With stay_at_floor a scale may fall to 0, and DeepSpeed's rule has no upper limit. */
static bool scaler_ok(const state_reader *l, const json_t *s)
{
    return !s || (real_ok(l, s, "scale", "scaler: scale", 0, DBL_MAX) && whole_ok(l, s, "count", "scaler: count", 0) &&
                  whole_ok(l, s, "left", "scaler: left", -(int64_t)MOST_COUNT) && whole_ok(l, s, "iter", "scaler: iter", 0) &&
                  whole_ok(l, s, "last_bad", "scaler: last_bad", -1));
}

static bool shares_ok(const state_reader *l, const json_t *o)
{
    const json_t *share = json_object_get(o, "share");
    uint64_t rows, n, sum = 0;
    if (!o)
        return true;
    if (!count_ok(l, o, "rows", "shares: rows", INT32_MAX, &rows))
        return false;
    for (size_t i = 0; i < json_array_size(share); i++) {
        if (!yk__state_count(json_array_get(share, i), &n) || n > rows)
            return fail_value(l, "shares: share", share, "whole numbers of rows");
        sum += n;
    }
    return (rows && sum == rows) || fail_value(l, "shares: share", share, "numbers of rows that add up to shares: rows");
}

static bool files_ok(const state_reader *l, const json_t *files, bool moments)
{
    return (json_object_get(files, "model.safetensors") && (!moments || json_object_get(files, "optimizer.safetensors"))) ||
           fail_value(l, "files", files,
                      moments ? "entries of model.safetensors and optimizer.safetensors" : "an entry of model.safetensors");
}

yk_status yk__state_check(const yk_job *job, const char *dir, const json_t *state, yk_error *err)
{
    const state_reader l = {job, dir, err};
    const json_t *o = json_object_get(state, "optimizer");
    uint64_t micro = 0;
    if (count_ok(&l, state, "micro_step", "micro_step", MOST_COUNT, &micro) && data_ok(&l, json_object_get(state, "data")) &&
        optimizer_ok(&l, o, micro) && scaler_ok(&l, json_object_get(state, "scaler")) &&
        shares_ok(&l, json_object_get(state, "shares")) && files_ok(&l, json_object_get(state, "files"), o != NULL))
        return YK_OK;
    return err->status;
}
