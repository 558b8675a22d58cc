/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last whole step in two copies that outlive the ranks which wrote them, in memory that the ranks of a host share (snapshot.h). If a
 * rank dies, a rank that is left saves a checkpoint from there.
 *
 * core/job/checkpoint/emergency.c writes it through api.c (core/run) after a step, on all ranks, in the step thread. The optimizer's own
 * memory cannot serve. Its operations work in place, and the moments of a device with memory of its own die with its process.
 */
#include "core/run/values/snapshot.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/base/round.h"

#define LINE 64u
#define PAGE 4096u

/* The head of the block, before the copies. */
typedef struct snapshot_head {
    _Atomic uint32_t claimed; /* a rank has taken it: the job is over, and no step is written any more */
} snapshot_head;

/* ---- Layout ---- */

/* Elements of the buckets before this one, trained and frozen. */
static uint64_t bucket_at(const yk__params *p, uint32_t bucket)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < bucket; i++)
        at += p->bucket[i].layout.n;
    return at;
}

static uint64_t state_at(const yk__params *p, size_t state)
{
    uint64_t at = 0;
    for (size_t i = 0; i < state; i++)
        at += yk__round_up(p->state[i].n * yk_dtype_bytes(p->state[i].dtype), LINE);
    return at;
}

static void lay_out(yk__snapshot *snapshot, uint64_t capacity)
{
    const yk__params *p = snapshot->params;
    snapshot->capacity = capacity;
    snapshot->values_at = yk__round_up(snapshot->exchange->world * sizeof(yk__snapshot_record), PAGE);
    snapshot->moments_at = snapshot->values_at + bucket_at(p, p->n_all_bucket) * sizeof(float);
    snapshot->states_at = snapshot->moments_at + p->n_moment * p->n_trained * sizeof(float);
    snapshot->host_at = snapshot->states_at + state_at(p, p->n_state);
    snapshot->copy_bytes = yk__round_up(snapshot->host_at + sizeof(uint64_t) + capacity, PAGE);
}

static snapshot_head *head_of(const yk__snapshot *snapshot)
{
    return snapshot->block.mem;
}

static char *copy_of(const yk__snapshot *snapshot, int copy)
{
    return (char *)snapshot->block.mem + PAGE + (uint64_t)copy * snapshot->copy_bytes;
}

yk__snapshot_record *yk__snapshot_record_of(const yk__snapshot *snapshot, int copy, uint32_t rank)
{
    return (yk__snapshot_record *)(void *)copy_of(snapshot, copy) + rank;
}

static float *value_of(const yk__snapshot *snapshot, int copy, uint32_t bucket)
{
    return (float *)(void *)(copy_of(snapshot, copy) + snapshot->values_at) + bucket_at(snapshot->params, bucket);
}

static float *moment_of(const yk__snapshot *snapshot, int copy, uint32_t kind, const yk__bucket *b)
{
    const uint64_t at = kind * snapshot->params->n_trained + b->shared_at;
    return (float *)(void *)(copy_of(snapshot, copy) + snapshot->moments_at) + at;
}

static char *host_of(const yk__snapshot *snapshot, int copy)
{
    return copy_of(snapshot, copy) + snapshot->host_at;
}

/* ---- Writing ---- */

static yk_status make_block(yk__snapshot *snapshot, uint64_t capacity, yk_error *err)
{
    if (snapshot->block.mem)
        return YK_OK;
    lay_out(snapshot, capacity);
    return yk__exchange_alloc_snapshot(snapshot->exchange, PAGE + 2 * snapshot->copy_bytes, &snapshot->block, err);
}

void yk__snapshot_release(yk__snapshot *snapshot)
{
    if (snapshot->block.mem)
        yk__exchange_release_snapshot(snapshot->exchange, &snapshot->block);
}

/* Begins the transfers of this rank's slices of a bucket, which go on after it returns. */
static yk_status get_slices(const yk__snapshot *snapshot, int copy, uint32_t bucket, yk_error *err)
{
    const yk__params *p = snapshot->params;
    const yk__bucket *b = &p->bucket[bucket];
    if (b->begin == b->end)
        return YK_OK;
    if (yk__params_get(p, b, (yk__range){b->begin, b->end}, value_of(snapshot, copy, bucket) + b->begin, err))
        return err->status;
    for (uint32_t k = 0; k < p->n_moment; k++)
        if (p->state_home->get(p, b, k, (yk__range){b->begin, b->end}, moment_of(snapshot, copy, k, b) + b->begin, err))
            return err->status;
    return YK_OK;
}

/* Copies frozen parameters, which change only when the host writes them. */
static yk_status get_frozen(yk__snapshot *snapshot, int copy, yk_error *err)
{
    const yk__params *p = snapshot->params;
    if (snapshot->frozen_writes[copy] == p->writes + 1)
        return YK_OK;
    for (uint32_t i = p->n_bucket; i < p->n_all_bucket; i++)
        if (yk__params_get(p, &p->bucket[i], (yk__range){0, p->bucket[i].layout.n}, value_of(snapshot, copy, i), err))
            return err->status;
    snapshot->frozen_writes[copy] = p->writes + 1;
    return YK_OK;
}

/* Copies the state that all members have alike; the first member does it. */
static yk_status get_common(yk__snapshot *snapshot, int copy, const void *host, uint64_t bytes, yk_error *err)
{
    const yk__params *p = snapshot->params;
    char *states = copy_of(snapshot, copy) + snapshot->states_at;
    if (bytes > snapshot->capacity)
        return yk__fail(err, YK_E_INTERNAL, "the numbers of a step take %llu bytes; there is capacity for %llu",
                        (unsigned long long)bytes, (unsigned long long)snapshot->capacity);
    for (size_t i = 0; i < p->n_state; i++) {
        const uint64_t n = p->state[i].n * yk_dtype_bytes(p->state[i].dtype);
        if (n && yk__queue_get(p->queue, p->state[i].buffer, 0, states + state_at(p, i), n, err))
            return err->status;
    }
    memcpy(host_of(snapshot, copy), &bytes, sizeof bytes);
    memcpy(host_of(snapshot, copy) + sizeof bytes, host, bytes);
    return get_frozen(snapshot, copy, err);
}

yk_status yk__snapshot_write(yk__snapshot *snapshot, const void *host, uint64_t bytes, uint64_t capacity, yk_error *err)
{
    const yk__params *p = snapshot->params;
    const yk__exchange *exchange = snapshot->exchange;
    const int copy = (int)(++snapshot->made % 2);
    yk__snapshot_record *own;
    if (make_block(snapshot, capacity, err) || exchange->part == YK__PART_EXCLUDED || atomic_load(&head_of(snapshot)->claimed))
        return err->status;
    own = yk__snapshot_record_of(snapshot, copy, exchange->rank);
    atomic_store(&own->number, 0);
    for (uint32_t i = 0; i < p->n_bucket; i++)
        if (get_slices(snapshot, copy, i, err))
            return err->status;
    if ((exchange->rank == yk__exchange_first_member(exchange) && get_common(snapshot, copy, host, bytes, err)) ||
        yk__queue_idle(p->queue, err) || yk__queue_idle(p->updates, err))
        return err->status;
    atomic_store(&own->members, yk__exchange_members(exchange));
    atomic_store(&own->number, snapshot->made);
    return YK_OK;
}

/* ---- Reading ---- */

/* The number of a copy's snapshot; 0 if it is not whole. */
static uint64_t whole_number(const yk__snapshot *snapshot, int copy)
{
    uint64_t newest = 0;
    uint32_t have = 0, members = 0;
    for (uint32_t r = 0; r < snapshot->exchange->world; r++) {
        const yk__snapshot_record *record = yk__snapshot_record_of(snapshot, copy, r);
        const uint64_t number = atomic_load(&record->number);
        have = number == newest ? have + 1 : number > newest ? 1 : have;
        members = number > newest ? atomic_load(&record->members) : members;
        newest = number > newest ? number : newest;
    }
    return newest && have == members ? newest : 0;
}

/* Claims first, then reads. A member that has not seen the end may have begun one more snapshot by then, in the other copy, and begins no
 * further one. An excluded rank may be the only rank left. */
int yk__snapshot_claim(yk__snapshot *snapshot)
{
    uint64_t first, second;
    if (!snapshot->block.mem || atomic_exchange(&head_of(snapshot)->claimed, 1))
        return -1;
    first = whole_number(snapshot, 0);
    second = whole_number(snapshot, 1);
    if (first || second)
        return second > first;
    atomic_store(&head_of(snapshot)->claimed, 0);
    return -1;
}

const void *yk__snapshot_host(const yk__snapshot *snapshot, int copy, uint64_t *bytes)
{
    memcpy(bytes, host_of(snapshot, copy), sizeof *bytes);
    return host_of(snapshot, copy) + sizeof *bytes;
}

const float *yk__snapshot_param(const yk__snapshot *snapshot, int copy, uint32_t number)
{
    const yk__param *q = &snapshot->params->param[number];
    return value_of(snapshot, copy, q->bucket) + q->at;
}

const float *yk__snapshot_moment(const yk__snapshot *snapshot, int copy, uint32_t kind, uint32_t number)
{
    const yk__param *q = &snapshot->params->param[number];
    return moment_of(snapshot, copy, kind, &snapshot->params->bucket[q->bucket]) + q->at;
}

const void *yk__snapshot_state(const yk__snapshot *snapshot, int copy, uint32_t number)
{
    return copy_of(snapshot, copy) + snapshot->states_at + state_at(snapshot->params, number);
}
