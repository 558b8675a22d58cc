/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ranks' shares, rows of a micro batch, as a part of a checkpoint's state, with the policy's measured times (core/balance). Shares of
 * other ranks or older versions are measured anew; fixed shares are the job's own.
 *
 * save.c writes and reads them in the step thread, on all ranks.
 */
#include <math.h>

#include "core/base/log.h"
#include "core/job/checkpoint/saved_state.h"
#include "core/job/team/share.h"

static json_t *list_of(const uint64_t *v, uint32_t n)
{
    yk__json_builder list = yk__json_begin(json_array());
    for (uint32_t i = 0; i < n; i++)
        yk__json_append(&list, json_integer((json_int_t)v[i]));
    return yk__json_end(&list);
}

static json_t *parts_of(const yk__fixed *fixed)
{
    yk__json_builder list = yk__json_begin(json_array());
    for (uint32_t i = 0; i < fixed->ranks; i++)
        yk__json_append(&list, json_integer(fixed->part[i]));
    return yk__json_end(&list);
}

static json_t *devices_of(const yk_job *job)
{
    yk__json_builder list = yk__json_begin(json_array());
    for (uint32_t r = 0; r < job->team.world; r++)
        yk__json_append(&list, json_string(job->team.name[r]));
    return yk__json_end(&list);
}

static json_t *policy_state(const yk__policy *policy)
{
    const uint32_t n = yk__policy_count(policy);
    yk__json_builder list = yk__json_begin(json_array());
    double *v = yk__calloc(n, sizeof *v);
    if (v)
        yk__policy_get(policy, v);
    else
        list.failed = true;
    for (uint32_t i = 0; i < n && v; i++)
        yk__json_append(&list, yk__state_of_real(v[i]));
    yk__free(v);
    return yk__json_end(&list);
}

/* Saves parts at the place of rows: an older version finds numbers that it knows, and measures anew. */
static void fixed_save(const yk_job *job, yk__json_builder *state)
{
    const yk__fixed *fixed = &job->team.share->fixed;
    json_int_t all = 0;
    yk__json_builder o = yk__json_begin(json_object());
    for (uint32_t r = 0; r < job->team.world; r++)
        all += fixed->part[r];
    yk__json_put(&o, "devices", devices_of(job));
    yk__json_put(&o, "fixed", json_string(fixed->text));
    yk__json_put(&o, "rows", json_integer(all));
    yk__json_put(&o, "share", parts_of(fixed));
    yk__json_put(&o, "total", list_of(job->team.share->total, job->team.world));
    yk__json_put(state, "shares", yk__json_end(&o));
}

void yk__share_save(const yk_job *job, yk__json_builder *state)
{
    const yk__share *s = job->team.share;
    if (job->team.world > 1 && s->fixed.is_fixed)
        fixed_save(job, state);
    if (!s->policy || !yk__policy_count(s->policy))
        return;
    yk__json_builder o = yk__json_begin(json_object());
    yk__json_put(&o, "devices", devices_of(job));
    yk__json_put(&o, "rows", json_integer((json_int_t)s->n));
    yk__json_put(&o, "share", list_of(yk__policy_decision(s->policy)->share, job->team.world));
    yk__json_put(&o, "total", list_of(s->total, job->team.world));
    yk__json_put(&o, "policy", policy_state(s->policy));
    yk__json_put(state, "shares", yk__json_end(&o));
}

static bool same_devices(const yk_job *job, const json_t *a)
{
    json_t *own = devices_of(job);
    const bool same = a && json_equal(own, a);
    json_decref(own);
    return same;
}

static bool numbers_hold(const json_t *a, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const double v = json_number_value(json_array_get(a, i));
        if (!json_is_number(json_array_get(a, i)) || !isfinite(v) || v < 0.0 || v > 1e15)
            return false;
    }
    return json_array_size(a) == n;
}

/* Restores each rank's total of rows. */
static void totals_take(yk_job *job, const json_t *totals)
{
    for (uint32_t r = 0; r < job->team.world; r++)
        job->team.share->total[r] = (uint64_t)json_number_value(json_array_get(totals, r));
}

/* Makes the policy anew from its saved numbers. */
static bool policy_read(yk_job *job, uint64_t rows, const json_t *numbers)
{
    yk_error quiet = YK_ERROR_INIT;
    const uint32_t n = yk__share_policy(job, rows, &quiet) ? 0 : yk__policy_count(job->team.share->policy);
    double *v = n && numbers_hold(numbers, n) ? yk__calloc(n, sizeof *v) : NULL;
    bool good;
    for (uint32_t i = 0; i < n && v; i++)
        v[i] = json_number_value(json_array_get(numbers, i));
    good = v && yk__policy_set(job->team.share->policy, v);
    yk__free(v);
    return good;
}

static bool shares_read(yk_job *job, const json_t *o)
{
    const double rows = json_number_value(json_object_get(o, "rows"));
    const json_t *totals = json_object_get(o, "total");
    if (!same_devices(job, json_object_get(o, "devices")) || !(rows >= 1.0) || rows > INT32_MAX ||
        !numbers_hold(totals, job->team.world) || !policy_read(job, (uint64_t)rows, json_object_get(o, "policy")))
        return false;
    totals_take(job, totals);
    return true;
}

void yk__share_load(yk_job *job, const json_t *o)
{
    yk__share *s = job->team.share;
    if (job->team.world == 1 || !o)
        return;
    if (s->fixed.is_fixed || json_object_get(o, "fixed")) {
        /* the parts are the job's own, and core/job/checkpoint/resume.c reports a difference */
        if (same_devices(job, json_object_get(o, "devices")) && numbers_hold(json_object_get(o, "total"), job->team.world))
            totals_take(job, json_object_get(o, "total"));
        return;
    }
    s->waiting = (yk__waiting){0};
    if (shares_read(job, o)) {
        s->resumed = true;
        yk__share_follow(job);
        return;
    }
    yk__policy_free(s->policy);
    s->policy = NULL;
    s->n = 0;
    if (job->team.rank == 0)
        yk__log(YK_LOG_INFO, "balance", "the checkpoint's shares are for other ranks; they are measured anew");
}
