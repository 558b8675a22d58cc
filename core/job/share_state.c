/* SPDX-License-Identifier: Apache-2.0 */
/* The shares in checkpoints. Those of other ranks, and of older versions, are measured anew. */
#include <jansson.h>
#include <math.h>

#include "core/base/log.h"
#include "core/job/share.h"

static json_t *list_of(const uint64_t *v, uint32_t n)
{
    json_t *a = json_array();
    for (uint32_t i = 0; i < n; i++)
        json_array_append_new(a, json_integer((json_int_t)v[i]));
    return a;
}

static json_t *devices_of(const yk_job *job)
{
    json_t *a = json_array();
    for (uint32_t r = 0; r < job->team.world; r++)
        json_array_append_new(a, json_string(job->team.name[r]));
    return a;
}

json_t *yk__share_save(const yk_job *job)
{
    const yk__share *s = job->team.share;
    const uint32_t n = s->policy ? yk__policy_count(s->policy) : 0;
    double *v = yk__calloc(n + 1ull, sizeof *v);
    json_t *o, *a;
    if (!n || !v) {
        yk__free(v);
        return NULL;
    }
    o = json_object();
    a = json_array();
    yk__policy_get(s->policy, v);
    for (uint32_t i = 0; i < n; i++)
        json_array_append_new(a, json_real(v[i]));
    json_object_set_new(o, "devices", devices_of(job));
    json_object_set_new(o, "rows", json_integer((json_int_t)s->n));
    json_object_set_new(o, "share", list_of(yk__policy_shares(s->policy), job->team.world));
    json_object_set_new(o, "total", list_of(s->total, job->team.world));
    json_object_set_new(o, "policy", a);
    yk__free(v);
    return o;
}

static bool same_devices(const yk_job *job, const json_t *a)
{
    json_t *own = devices_of(job);
    const bool same = a && json_equal(own, a);
    json_decref(own);
    return same;
}

static bool numbers_of(const json_t *a, uint32_t n, double *v)
{
    for (uint32_t i = 0; i < n; i++) {
        v[i] = json_number_value(json_array_get(a, i));
        if (!json_is_number(json_array_get(a, i)) || !isfinite(v[i]) || v[i] < 0.0 || v[i] > 1e15)
            return false;
    }
    return json_array_size(a) == n;
}

static bool shares_read(yk_job *job, const json_t *o)
{
    yk__share *s = job->team.share;
    const double rows = json_number_value(json_object_get(o, "rows"));
    yk_error quiet = YK_ERROR_INIT;
    double total[YK__RANKS], *v;
    uint32_t n;
    bool good;
    if (!same_devices(job, json_object_get(o, "devices")))
        return false;
    if (!(rows >= 1.0) || rows > INT32_MAX || !numbers_of(json_object_get(o, "total"), job->team.world, total) ||
        yk__share_policy(job, (uint64_t)rows, &quiet))
        return false;
    n = yk__policy_count(s->policy);
    v = yk__calloc(n, sizeof *v);
    good = v && numbers_of(json_object_get(o, "policy"), n, v) && yk__policy_set(s->policy, v);
    yk__free(v);
    for (uint32_t r = 0; r < job->team.world && good; r++)
        s->total[r] = (uint64_t)total[r];
    return good;
}

void yk__share_load(yk_job *job, const json_t *o)
{
    yk__share *s = job->team.share;
    if (job->team.world == 1 || !o)
        return;
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
