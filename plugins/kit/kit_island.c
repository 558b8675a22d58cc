/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Islands of devices of one process: joins members, brings them together for each collective, and fails all of them together.
 *
 * A plugin's yk_coll calls it (backends/pjrt/pjrt_coll.c); joining and leaving in any thread, collectives in the threads of queues. One
 * lock for all islands suffices: nothing slow is done under it. A ticket is a number of this process, so a ticket of another one, or of an
 * island that is gone, is refused.
 */
#include "plugins/kit/kit_island.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "plugins/kit/kit_clock.h"
#include "plugins/kit/plugin.h"

#define LOOK_NS 20000000u    /* ns between two looks of a waiting member at its own queue */
#define LEAVE_NS 2000000000u /* ns that kit_island_leave waits for the member's last collectives */

typedef struct kit_island {
    struct kit_island *next;
    const kit_island_ops *ops;
    void *own; /* the plugin's; NULL until all members have come */
    uint64_t number; /* the ticket */
    uint32_t ranks, members, arrived;
    bool left, working; /* a member has left; one runs the collective for all */
    uint64_t phase;     /* of meetings; joining is the first */
    yk_status failed;
    char why[KIT_WHY];
    yk_coll_op op; /* of the member that came first, `first` */
    uint32_t first;
    yk_comm *member[KIT_ISLAND_MOST];
    bool here[KIT_ISLAND_MOST]; /* the member is at a meeting */
    void *operand[KIT_ISLAND_MOST], *result[KIT_ISLAND_MOST];
    pthread_cond_t changed;
} kit_island;

struct yk_comm {
    kit_island *of;
    yk_device *dev;
    uint32_t rank, jobs; /* jobs: collectives that are given and not done */
};

typedef struct island_job {
    yk_comm *comm;
    yk_coll_op op;
} island_job;

static pthread_mutex_t islands_lock = PTHREAD_MUTEX_INITIALIZER; /* guards all islands */
static kit_island *islands;
static uint64_t islands_made;

/* Under the lock. The first failure stays. */
static void island_fail(kit_island *of, yk_status status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void island_fail(kit_island *of, yk_status status, const char *fmt, ...)
{
    va_list ap;
    if (of->failed)
        return;
    va_start(ap, fmt);
    vsnprintf(of->why, sizeof of->why, fmt, ap);
    va_end(ap);
    of->failed = status;
    pthread_cond_broadcast(&of->changed);
}

/* Until something changes, for LOOK_NS at most. Under the lock. */
static void island_sleep(kit_island *of)
{
    const uint64_t end = kit_now_ns() + LOOK_NS;
    const struct timespec until = {(time_t)(end / 1000000000u), (long)(end % 1000000000u)};
    pthread_cond_timedwait(&of->changed, &islands_lock, &until);
}

/* ---- Joining ------------------------------------------------------------------------------------------------------- */

yk_status kit_island_ticket(const kit_island_ops *ops, uint8_t ticket[256], uint32_t *bytes)
{
    pthread_condattr_t attr;
    kit_island *of = kit_zeroed(ops->host, ops->plugin, sizeof *of, "an island");
    if (!of)
        return YK_E_MEM;
    of->ops = ops;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&of->changed, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_lock(&islands_lock);
    of->number = kit_now_ns() + islands_made++;
    of->next = islands;
    islands = of;
    pthread_mutex_unlock(&islands_lock);
    memcpy(ticket, &of->number, sizeof of->number);
    *bytes = sizeof of->number;
    return YK_OK;
}

static kit_island *island_find(const uint8_t *ticket, uint32_t bytes)
{
    uint64_t number = 0;
    if (bytes == sizeof number)
        memcpy(&number, ticket, sizeof number);
    kit_island *of = islands;
    while (of && of->number != number)
        of = of->next;
    return of;
}

/* Under the lock: the island is out of the list and gone. */
static void island_free(kit_island *of)
{
    kit_island **at = &islands;
    while (*at && *at != of)
        at = &(*at)->next;
    *at = *at ? of->next : NULL;
    pthread_cond_destroy(&of->changed);
    of->ops->host->free(of);
}

/* Under the lock, which is open while the plugin begins: nobody else is there to change anything. */
static void island_begin(kit_island *of)
{
    yk_device *dev[KIT_ISLAND_MOST];
    char why[KIT_WHY] = "the devices cannot be joined";
    for (uint32_t r = 0; r < of->ranks; r++)
        dev[r] = of->member[r]->dev;
    of->working = true;
    pthread_mutex_unlock(&islands_lock);
    void *own = of->ops->begin(dev, of->ranks, why);
    pthread_mutex_lock(&islands_lock);
    of->working = false;
    of->arrived = 0;
    of->own = own;
    of->phase += own != NULL;
    if (!own)
        island_fail(of, YK_E_ARG, "%s", why);
    pthread_cond_broadcast(&of->changed);
}

/* Under the lock. A wrong member fails the members that wait for the right one, but not an island at work. */
static yk_status member_enter(kit_island *of, yk_comm *comm, uint32_t ranks, char why[KIT_WHY])
{
    const uint32_t rank = comm->rank;
    const bool counts = ranks <= KIT_ISLAND_MOST && rank < ranks && (!of->ranks || of->ranks == ranks);
    if (!counts || of->member[rank]) {
        snprintf(why, KIT_WHY, "joining: expected each of %u members once, %u at most, got member %u of %u%s",
                 of->ranks ? of->ranks : ranks, KIT_ISLAND_MOST, rank, ranks, counts ? " again" : "");
        if (!of->phase)
            island_fail(of, YK_E_ARG, "%s", why);
        return YK_E_ARG;
    }
    of->ranks = ranks;
    of->member[rank] = comm;
    if (++of->arrived == ranks && !of->failed)
        island_begin(of);
    while ((!of->phase && !of->failed) || of->working)
        island_sleep(of);
    snprintf(why, KIT_WHY, "%s", of->why);
    return of->phase ? YK_OK : of->failed;
}

/* Under the lock. The plugin's own data, to be ended without it, if the island went with its last member. */
static void *member_leave(yk_comm *comm)
{
    kit_island *of = comm->of;
    void *own = of->own;
    of->ops->host->free(comm);
    if (--of->members)
        return NULL;
    island_free(of);
    return own;
}

yk_status kit_island_join(yk_device *dev, const uint8_t *ticket, uint32_t bytes, uint32_t rank, uint32_t ranks, yk_comm **out,
                          const kit_island_ops *ops)
{
    char why[KIT_WHY] = "joining: expected the ticket of an island of this process, got that of another one, or of one that is gone";
    yk_comm *comm = kit_zeroed(ops->host, ops->plugin, sizeof *comm, "a member");
    if (!comm)
        return YK_E_MEM;
    *comm = (yk_comm){.dev = dev, .rank = rank};
    pthread_mutex_lock(&islands_lock);
    kit_island *of = comm->of = island_find(ticket, bytes);
    yk_status s = YK_E_ARG;
    void *own = NULL;
    if (of) {
        of->members++;
        s = member_enter(of, comm, ranks, why);
    }
    if (of && s)
        own = member_leave(comm);
    else if (s)
        ops->host->free(comm);
    pthread_mutex_unlock(&islands_lock);
    if (own)
        ops->end(own);
    if (s)
        ops->host->fail(ops->plugin, "%s", why);
    else
        *out = comm;
    return s;
}

void kit_islands_forget(const yk_host *host)
{
    pthread_mutex_lock(&islands_lock);
    while (islands) {
        kit_island *of = islands;
        islands = of->next;
        if (!of->members) {
            pthread_cond_destroy(&of->changed);
            host->free(of);
        }
    }
    pthread_mutex_unlock(&islands_lock);
}

/* ---- Leaving ------------------------------------------------------------------------------------------------------- */

void kit_island_abort(yk_comm *comm)
{
    pthread_mutex_lock(&islands_lock);
    island_fail(comm->of, YK_E_CANCELLED, "member %u of %u gave the island up", comm->rank, comm->of->ranks);
    pthread_mutex_unlock(&islands_lock);
}

/* A member whose collective never ends stays, as does its island: they are still used. */
void kit_island_leave(yk_comm *comm)
{
    const uint64_t end = kit_now_ns() + LEAVE_NS;
    if (!comm)
        return;
    pthread_mutex_lock(&islands_lock);
    kit_island *of = comm->of;
    const kit_island_ops *ops = of->ops;
    void *own = NULL;
    of->left = true;
    if (of->arrived || comm->jobs)
        island_fail(of, YK_E_CANCELLED, "member %u of %u has left the island", comm->rank, of->ranks);
    while (comm->jobs && kit_now_ns() < end)
        island_sleep(of);
    if (!comm->jobs)
        own = member_leave(comm);
    pthread_mutex_unlock(&islands_lock);
    if (own)
        ops->end(own);
}

/* ---- Collectives --------------------------------------------------------------------------------------------------- */

static const char *kind_name(uint32_t kind)
{
    static const char *const names[] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast"};
    return kind < sizeof names / sizeof *names ? names[kind] : "an unknown collective";
}

static const char *type_name(uint32_t dtype)
{
    static const char *const names[] = {
#define DTYPE_NAME(e, number, name, st, bytes) name,
        YK_DTYPE_TABLE(DTYPE_NAME)
#undef DTYPE_NAME
    };
    return dtype < sizeof names / sizeof *names ? names[dtype] : "an unknown type";
}

/* Under the lock: the first member to come says what all do. */
static void op_compare(kit_island *of, const yk_comm *comm, const yk_coll_op *op)
{
    const yk_coll_op *want = &of->op;
    if (!of->arrived) {
        of->op = *op;
        of->first = comm->rank;
    } else if (op->kind != want->kind || op->dtype != want->dtype || op->wire != want->wire || op->count != want->count ||
               op->root != want->root) {
        island_fail(of, YK_E_ARG, "expected %s of %llu elements (%s as %s, root %u) as member %u gave, got %s of %llu (%s as %s, root %u) "
                    "from member %u: give all members the same collectives in one order", kind_name(want->kind),
                    (unsigned long long)want->count, type_name(want->dtype), type_name(want->wire), want->root, of->first,
                    kind_name(op->kind), (unsigned long long)op->count, type_name(op->dtype), type_name(op->wire), op->root, comm->rank);
    }
}

/* Under the lock, which is open during the work: the other members wait, and their operands stay. */
static void island_work(kit_island *of)
{
    const yk_coll_op op = of->op;
    char why[KIT_WHY] = "";
    of->arrived = 0;
    of->working = true;
    pthread_mutex_unlock(&islands_lock);
    const bool good = !op.count || of->ops->work(of->own, &op, of->ranks, of->operand, of->result, why);
    pthread_mutex_lock(&islands_lock);
    of->working = false;
    of->phase += good;
    if (!good)
        island_fail(of, YK_E_DEVICE_LOST, "%s of %llu elements over %u members: %s", kind_name(op.kind), (unsigned long long)op.count,
                    of->ranks, why);
    pthread_cond_broadcast(&of->changed);
}

/* Waits for the other members, and for the collective. Under the lock. */
static bool member_meet(yk_comm *comm, const yk_coll_op *op, void *operand)
{
    kit_island *of = comm->of;
    const uint64_t phase = of->phase;
    if (of->left)
        island_fail(of, YK_E_CANCELLED, "a member has left the island of %u", of->ranks);
    if (of->here[comm->rank])
        island_fail(of, YK_E_ARG, "member %u of %u gave two collectives at once: give all of them to one queue", comm->rank, of->ranks);
    if (!of->failed)
        op_compare(of, comm, op);
    if (of->failed)
        return false;
    of->here[comm->rank] = true;
    of->operand[comm->rank] = operand;
    if (++of->arrived == of->ranks)
        island_work(of);
    while (of->phase == phase && (!of->failed || of->working)) {
        island_sleep(of);
        if (of->phase == phase && kit_queue_failed(kit_queue_current()))
            island_fail(of, YK_E_CANCELLED, "the queue of member %u of %u was aborted", comm->rank, of->ranks);
    }
    of->here[comm->rank] = false;
    return of->phase != phase;
}

/* In the queue's thread. Members meet for no elements, too: one that gives another number would else leave the rest waiting. */
static yk_status job_do(const island_job *j, char why[KIT_WHY])
{
    yk_comm *comm = j->comm;
    kit_island *of = comm->of;
    char own[KIT_WHY] = "no memory for its operand";
    const bool some = j->op.count > 0;
    void *result = NULL, *operand = some ? of->ops->take(comm->dev, &j->op, of->ranks, own) : NULL;
    pthread_mutex_lock(&islands_lock);
    if (some && !operand)
        island_fail(of, YK_E_DEVICE_LOST, "member %u of %u: %s", comm->rank, of->ranks, own);
    const bool met = (operand || !some) && member_meet(comm, &j->op, operand);
    const yk_status failed = of->failed;
    if (met)
        result = of->result[comm->rank];
    else
        snprintf(why, KIT_WHY, "%s", of->why);
    pthread_mutex_unlock(&islands_lock);
    if (operand)
        of->ops->give(operand);
    if (!met)
        return failed;
    return !some || of->ops->put(comm->dev, &j->op, of->ranks, result, why) ? YK_OK : YK_E_DEVICE_LOST;
}

static void job_end(island_job *j, yk_status s, const char *why)
{
    kit_island *of = j->comm->of;
    const kit_island_ops *ops = of->ops;
    pthread_mutex_lock(&islands_lock);
    if (s)
        island_fail(of, s, "member %u of %u: %s", j->comm->rank, of->ranks, why);
    j->comm->jobs--;
    pthread_cond_broadcast(&of->changed);
    pthread_mutex_unlock(&islands_lock); /* member and island may be gone */
    ops->host->free(j);
}

static yk_status job_call(void *arg, char why[KIT_WHY])
{
    const island_job *j = arg;
    const yk_status s = job_do(j, why);
    job_end(arg, s, why);
    return s;
}

void kit_island_drop(void *arg)
{
    job_end(arg, YK_E_CANCELLED, "its queue failed before the collective");
}

static bool range_fits(uint64_t bytes, uint64_t offset, uint64_t count, uint64_t size)
{
    return offset <= bytes && count <= (bytes - offset) / size;
}

static yk_status op_check(const yk_comm *comm, const yk_coll_op *op)
{
    const kit_island_ops *ops = comm->of->ops;
    const uint64_t size = yk_dtype_bytes((yk_dtype)op->dtype), ranks = comm->of->ranks;
    const uint64_t in = op->kind == YK_COLL_REDUCE_SCATTER ? ranks : 1, out = op->kind == YK_COLL_ALL_GATHER ? ranks : 1;
    if (op->kind > YK_COLL_BROADCAST || !size || op->root >= ranks || !op->src || !op->dst || op->count > UINT64_MAX / ranks ||
        !range_fits(ops->bytes(op->src), op->src_offset, in * op->count, size) ||
        !range_fits(ops->bytes(op->dst), op->dst_offset, out * op->count, size)) {
        ops->host->fail(ops->plugin, "%s of %llu elements: expected operands within their buffers and a root below %llu, got root %u, "
                        "src at %llu, dst at %llu", kind_name(op->kind), (unsigned long long)op->count, (unsigned long long)ranks, op->root,
                        (unsigned long long)op->src_offset, (unsigned long long)op->dst_offset);
        return YK_E_ARG;
    }
    return YK_OK;
}

yk_status kit_island_run(yk_queue *q, yk_comm *comm, const yk_coll_op *op, uint64_t *point)
{
    const kit_island_ops *ops = comm->of->ops;
    yk_status s = op_check(comm, op);
    island_job *j = s ? NULL : kit_zeroed(ops->host, ops->plugin, sizeof *j, "a collective");
    if (!j)
        return s ? s : YK_E_MEM;
    j->comm = comm;
    memcpy(&j->op, op, op->size < sizeof j->op ? op->size : sizeof j->op);
    pthread_mutex_lock(&islands_lock);
    comm->jobs++;
    pthread_mutex_unlock(&islands_lock);
    s = kit_queue_call(q, op->n_wait, op->wait, job_call, j, point);
    if (s) { /* the queue has failed for good, so this member never comes */
        pthread_mutex_lock(&islands_lock);
        island_fail(comm->of, s, "the queue of member %u of %u takes no collective", comm->rank, comm->of->ranks);
        comm->jobs--;
        pthread_cond_broadcast(&comm->of->changed);
        pthread_mutex_unlock(&islands_lock);
        ops->host->free(j);
    }
    return s;
}
