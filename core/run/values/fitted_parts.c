/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first parts of slices, by memory (docs/decisions/0090). Ranks tell each other their capacities, in bytes, when params.c makes a
 * layout. A rank's part is at most its capacity, and the other ranks take the rest by their weights. If no parts fit, all ranks fail with
 * the sizes.
 *
 * Capacities count until the first update: from then on a job's reports say the parts that fit, from programs that have run. All ranks
 * compute alike from equal numbers. The step thread.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/run/values/params.h"

#define SHARES 10000.0 /* parts are whole numbers of about this sum, as --shard-parts takes them */
#define RUN_PART 4u /* programs and inputs get 1 / RUN_PART of the bytes behind lanes at first, or RUN_LEAST, but at most half */
#define RUN_LEAST (4ull << 20) /* bytes: a plugin's scratch memory */
#define MOMENTS 2u /* expected if no optimizer is there yet */

/* Bytes of one rank. */
typedef struct yk__capacity {
    uint64_t most;  /* the memory that it may use; 0: not known */
    uint64_t limit; /* the user's; 0: none */
    uint64_t least; /* needed by any program, without slices: whole parameters and gradients, states */
    uint64_t first; /* the same, with lanes and a part for programs */
    uint64_t each;  /* an element in its slices */
} yk__capacity;

static uint64_t bucket_whole(const yk__params *p, const yk__bucket *b, const yk__home *home)
{
    const bool own_grad = b->trained && !p->scatters && !(yk__exchange_has_blocks(p->exchange) && yk__queue_wraps(p->queue));
    return (home->kind == YK__HOME_DEVICE ? yk__bucket_bytes(b) : 0) + (own_grad ? yk__bucket_bytes(b) : 0);
}

/* The two largest buckets, which are in lanes at once when programs sum gradients or pull parameters in turn. */
static uint64_t lane_bytes(const yk__params *p, bool pulled_only)
{
    uint64_t most[2] = {0, 0};
    for (uint32_t i = 0; i < (pulled_only ? p->n_all_bucket : p->n_bucket); i++) {
        const uint64_t bytes = pulled_only && !yk__home_expect(p, &p->bucket[i])->pulled ? 0 : yk__bucket_bytes(&p->bucket[i]);
        most[1] = bytes > most[0] ? most[0] : bytes > most[1] ? bytes : most[1];
        most[0] = bytes > most[0] ? bytes : most[0];
    }
    return most[0] + most[1];
}

/* The part of `left` bytes that slices leave to programs at first. */
static uint64_t run_bytes(uint64_t left)
{
    const uint64_t least = RUN_LEAST < left / 2 ? RUN_LEAST : left / 2;
    return left / RUN_PART > least ? left / RUN_PART : least;
}

static yk__capacity capacity_own(const yk__params *p)
{
    const yk__queue *q = p->queue;
    const uint64_t moments = p->expects_moments ? p->expected_moments : MOMENTS;
    yk__capacity capacity = {.most = q->dev->plans_only ? q->limit : yk__queue_most(q),
                             .least = q->held,
                             .limit = p->expects_moments ? q->limit : 0};
    const uint64_t sums = p->scatters ? 1 : 0;
    uint64_t sliced = 0, copies = 0; /* elements of slices, each as often as it lies there; bytes */
    for (uint32_t i = 0; i < p->n_all_bucket; i++) {
        const yk__home *home = yk__home_expect(p, &p->bucket[i]);
        capacity.least += bucket_whole(p, &p->bucket[i], home);
        if (p->bucket[i].trained)
            sliced += p->bucket[i].layout.n * ((home->kind == YK__HOME_SLICE) + (yk__bucket_offloads(p, &p->bucket[i]) ? 0 : sums) +
                                               (yk__bucket_keeps_moments(p, &p->bucket[i]) ? moments : 0));
        copies += home->pulled ? 0 : p->bucket[i].layout.n * yk_dtype_bytes(p->precision);
    }
    capacity.each = (sliced * sizeof(float) + p->n_trained - 1) / p->n_trained;
    capacity.first = capacity.least + lane_bytes(p, true) + (p->scatters ? lane_bytes(p, false) : 0);
    capacity.first += p->precision == YK_F32 ? 0 : copies;
    capacity.first += run_bytes(capacity.most > capacity.first ? capacity.most - capacity.first : 0);
    return capacity;
}

/* The part of all trained elements that a rank has capacity for. */
static double capacity_part(const yk__params *p, const yk__capacity *capacity, uint64_t most, uint64_t first)
{
    if (!most || !capacity->each)
        return 1.0;
    return most > first ? fmin(1.0, (double)(most - first) / (double)capacity->each / (double)p->n_trained) : 0.0;
}

/* Caps weights, and makes 1 their sum. cap: -1 afterwards for a rank that has its cap. Returns false if the caps leave a rest. */
static bool weights_cap(double *weight, double *cap, uint32_t n)
{
    double left = 1.0, sum = 0.0;
    bool again = true;
    for (uint32_t r = 0; r < n; r++)
        sum += weight[r];
    while (again && sum > 0.0) {
        const double each = left / sum;
        again = false;
        for (uint32_t r = 0; r < n; r++)
            if (cap[r] >= 0.0 && weight[r] * each > cap[r] * (1 + 1e-9)) {
                left -= cap[r];
                sum -= weight[r];
                weight[r] = cap[r];
                cap[r] = -1.0;
                again = true;
            }
        sum = sum > 1e-12 ? sum : 0.0;
    }
    for (uint32_t r = 0; r < n && sum > 0.0; r++)
        weight[r] *= cap[r] < 0.0 ? 1.0 : left / sum;
    return sum > 0.0 || left < 1e-6;
}

/* Whole numbers, so that --shard-parts can repeat them: capped ones rounded down, so that none passes its capacity. */
static void weights_round(double *weight, const double *cap, uint32_t n)
{
    for (uint32_t r = 0; r < n; r++)
        if (weight[r] > 0.0)
            weight[r] = fmax(1.0, cap[r] < 0.0 ? floor(weight[r] * SHARES) : ceil(weight[r] * SHARES));
}

static bool any_capped(const double *cap, uint32_t n)
{
    bool any = false;
    for (uint32_t r = 0; r < n; r++)
        any = any || cap[r] < 0.0;
    return any;
}

/* Capacities at first, then the most that limits allow: programs may need less than they are left at first. */
yk__fitting yk__parts_fit(const yk__params *p, double *weight, double *work)
{
    const uint32_t n = p->exchange->world;
    if (!p->capacity)
        return YK__FIT_ALL;
    memcpy(work, p->capacity, n * sizeof *work);
    for (uint32_t r = 0; r < n; r++)
        work[n + r] = weight[r];
    if (!weights_cap(weight, work, n)) {
        for (uint32_t r = 0; r < n; r++)
            weight[r] = work[n + r] > 0.0 ? p->capacity[r] + 1.0 / SHARES : 0.0;
        memcpy(work, p->capacity + n, n * sizeof *work);
        if (!weights_cap(weight, work, n))
            return YK__FIT_NONE;
        weights_round(weight, work, n);
        return YK__FIT_CAPPED;
    }
    if (any_capped(work, n)) {
        weights_round(weight, work, n);
        return YK__FIT_CAPPED;
    }
    for (uint32_t r = 0; r < n; r++) /* to the last bit as they were */
        weight[r] = work[n + r];
    return YK__FIT_ALL;
}

/* Says the rank that lacks most for an even part. */
static yk_status fit_refuse(const yk__params *p, const yk__capacity *capacity, yk_error *err)
{
    const uint32_t n = p->exchange->world;
    uint32_t worst = 0;
    double all = 0.0, lacks = -INFINITY;
    uint64_t need = 0;
    for (uint32_t r = 0; r < n; r++) {
        const uint64_t even = capacity[r].least + capacity[r].each * (p->n_trained / n);
        all += p->capacity[n + r];
        if (capacity[r].limit && (double)even - (double)capacity[r].limit > lacks) {
            lacks = (double)even - (double)capacity[r].limit;
            worst = r;
            need = even;
        }
    }
    yk__fail(err, YK_E_MEM, "no parts of the slices fit: %s needs %llu bytes with an even part, and its memory limit is "
             "%llu; all limits together have capacity for %.1f %% of the slices, so add a rank", yk__exchange_name(p->exchange, worst),
             (unsigned long long)need, (unsigned long long)capacity[worst].limit, 100.0 * all);
    return yk__queue_advise_lack(p->queue, &(yk__lack){.parts = YK__OF_STATE | YK__OF_GRADS | YK__OF_PARAMS, .limited = true}, err);
}

static void fit_log(const yk__params *p, const double *weight)
{
    const uint32_t n = p->exchange->world;
    char text[400] = "";
    size_t used = 0;
    for (uint32_t r = 0; r < n && used + 20 < sizeof text; r++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%.0f", r ? ":" : "", weight[r]);
    bool even = true; /* the first capacity is an estimate: parts by it may be even ones */
    for (uint32_t r = 1; r < n; r++)
        even = even && weight[r] == weight[0];
    if (even)
        return;
    if (p->exchange->rank == 0 && n <= 32)
        yk__log(YK_LOG_WARN, "memory", "even slices do not fit: parts follow each rank's memory at first, as --shard-parts %s", text);
    else if (p->exchange->rank == 0)
        yk__log(YK_LOG_WARN, "memory", "even slices do not fit: parts follow each rank's memory at first");
}

static yk_status capacities_take(yk__params *p, const yk__capacity *all, double *weight, yk_error *err)
{
    const uint32_t n = p->exchange->world;
    for (uint32_t r = 0; r < n; r++) {
        p->capacity[r] = capacity_part(p, &all[r], all[r].most, all[r].first);
        p->capacity[n + r] = capacity_part(p, &all[r], all[r].limit, all[r].least);
        weight[r] = p->exchange->roles.owns[r];
    }
    const yk__fitting fit = yk__parts_fit(p, weight, weight + n);
    if (fit == YK__FIT_NONE)
        return fit_refuse(p, all, err);
    if (fit == YK__FIT_CAPPED)
        fit_log(p, weight);
    return YK_OK;
}

yk_status yk__parts_measure(yk__params *p, yk_error *err)
{
    const uint32_t n = p->exchange->world;
    const bool counts = p->fits_parts && !p->has_updated && n > 1 && p->n_trained && !yk__exchange_updates_all(p->exchange);
    yk__parts_forget(p);
    if (!counts)
        return YK_OK;
    const yk__capacity own = capacity_own(p);
    const size_t each = sizeof own + 3 * sizeof(double);
    yk__capacity *all = yk__calloc(n, each);
    p->capacity = yk__calloc(n, 2 * sizeof *p->capacity);
    if (!all || !p->capacity)
        yk__fail_mem(err, n * each, "the ranks' capacities");
    else if (!yk__group_all_gather(p->exchange->group, &own, sizeof own, all, err))
        capacities_take(p, all, (double *)(all + n), err);
    yk__free(all);
    return err->status;
}

void yk__parts_forget(yk__params *p)
{
    yk__free(p->capacity);
    p->capacity = NULL;
}
