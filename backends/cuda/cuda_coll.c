/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The extension yk.coll.1 by NCCL: collectives of the cards of one host, without the host. core/run/islands.c joins members and runs sums,
 * in the step thread.
 *
 * NCCL's calls do not block (ncclConfig_t.blocking = 0), and are polled here, so that a member that never comes is given up. Between hosts
 * Yoke's own transport carries data, as it is authenticated. NCCL refuses one card twice (YK_COLL_ONE_PER_DEVICE). All of its algorithms
 * but one add in an order of their own that is the same each time. Sums in the switch of NVLink (NVLS) have no such order
 * (github.com/NVIDIA/nccl, issue 1497). So with such a switch the order counts as fixed with NCCL_NVLS_ENABLE=0 only.
 */
#include "backends/cuda/cuda_internal.h"
#include "backends/cuda/nccl.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "plugins/kit/kit_clock.h"

#define JOIN_NS 30000000000u /* for all members to come, and to be connected (nccl.c) */
#define CALL_NS 10000000000u /* for a collective to be enqueued, which waits for no other member */
#define LEAVE_NS 1000000000u /* for the other members' last reads of this one */
#define NAP_NS 50000

_Static_assert(sizeof(ncclUniqueId) <= 256, "fits a ticket");

struct yk_comm {
    yk_device *dev;
    const cuda_nccl *nccl;
    pthread_mutex_t lock; /* guards the next two */
    ncclComm_t handle;    /* NULL: it was aborted */
    yk_queue *queue;      /* queue of the last collective */
    uint32_t ranks;
};

/* ---- Errors ---- */

static yk_status comm_error(const yk_comm *comm, ncclResult_t code, const char *what)
{
    const char *last = comm->handle ? comm->nccl->error_last(comm->handle) : NULL;
    return cuda_error_say((int)code == ncclRemoteError ? YK_E_CANCELLED : YK_E_INTERNAL, "NCCL: %s: %s (%d)%s%s", what,
                          comm->nccl->error_text(code), (int)code, last && *last ? ", " : "", last ? last : "");
}

static yk_status comm_gone(const char *what)
{
    return cuda_error_say(YK_E_CANCELLED, "NCCL: %s: the communicator was aborted", what);
}

/* The communicator's state; ncclInProgress while a call is under way. */
static yk_status comm_look(yk_comm *comm, const char *what, ncclResult_t *state)
{
    yk_status s = YK_OK;
    pthread_mutex_lock(&comm->lock);
    if (!comm->handle) {
        s = comm_gone(what);
    } else {
        const ncclResult_t rc = comm->nccl->comm_state(comm->handle, state);
        const ncclResult_t worse = rc ? rc : *state;
        if (worse && (int)worse != ncclInProgress)
            s = comm_error(comm, worse, what);
    }
    pthread_mutex_unlock(&comm->lock);
    return s;
}

/* Until the call that was made last is through. */
static yk_status comm_await(yk_comm *comm, const char *what, uint64_t limit_ns)
{
    const struct timespec moment = {0, NAP_NS};
    const uint64_t begin = kit_now_ns();
    for (;;) {
        ncclResult_t state = (ncclResult_t)ncclSuccess;
        const yk_status s = comm_look(comm, what, &state);
        if (s || !state)
            return s;
        if (kit_now_ns() - begin > limit_ns)
            return cuda_error_say(YK_E_TIMEOUT, "NCCL: %s: not all of %u members have come within %llu s", what, comm->ranks,
                                  (unsigned long long)(limit_ns / 1000000000u));
        nanosleep(&moment, NULL);
    }
}

/* ---- Joining ---- */

/* Identity of this host until it is started again. */
static uint64_t host_identity(void)
{
    char text[128] = "";
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (!f || !fgets(text, sizeof text, f))
        gethostname(text, sizeof text - 1);
    if (f)
        fclose(f);
    return kit_hash(KIT_HASH_SEED, text, strlen(text));
}

static yk_status coll_island(yk_device *dev, char name[64])
{
    (void)dev;
    *name = 0;
    if (cuda_nccl_open())
        snprintf(name, 64, "nccl %d %016llx", cuda_nccl_version(), (unsigned long long)host_identity());
    return YK_OK;
}

static yk_status nccl_need(const cuda_nccl **nccl)
{
    *nccl = cuda_nccl_open();
    if (*nccl)
        return YK_OK;
    cuda_host->fail(CUDA_WHO, "cards are joined by NCCL, and there is none that can be used: install libnccl.so.2, or name it by "
                    "YOKE_CUDA_NCCL");
    return YK_E_UNSUPPORTED;
}

static yk_status coll_ticket(yk_device *dev, uint8_t ticket[256], uint32_t *bytes)
{
    yk_comm none = {.dev = dev};
    ncclUniqueId id;
    const yk_status s = nccl_need(&none.nccl);
    if (s)
        return s;
    const ncclResult_t rc = none.nccl->unique_id(&id);
    if (rc)
        return comm_error(&none, rc, "a name for a communicator");
    memcpy(ticket, &id, sizeof id);
    *bytes = sizeof id;
    return YK_OK;
}

static const char joining[] = "joining (YOKE_CUDA_NCCL=0 goes on without NCCL)";

/* The device's context is current. */
static yk_status comm_start(yk_comm *comm, const uint8_t *ticket, uint32_t rank)
{
    ncclConfig_t config = {
        .size = sizeof config, .magic = CUDA_NCCL_MAGIC, .version = CUDA_NCCL_VERSION, .blocking = 0, .cgaClusterSize = INT_MIN};
    ncclUniqueId id;
    memcpy(&id, ticket, sizeof id);
    const ncclResult_t rc = comm->nccl->comm_init(&comm->handle, (int)comm->ranks, id, (int)rank, &config);
    if (rc && (int)rc != ncclInProgress)
        return comm_error(comm, rc, joining);
    return comm_await(comm, joining, JOIN_NS);
}

static void comm_free(yk_comm *comm)
{
    pthread_mutex_destroy(&comm->lock);
    cuda_free(comm);
}

static yk_status coll_join(yk_device *dev, const uint8_t *ticket, uint32_t bytes, uint32_t rank, uint32_t ranks, yk_comm **out)
{
    const cuda_nccl *nccl;
    yk_status s = nccl_need(&nccl);
    if (s)
        return s;
    if (bytes != sizeof(ncclUniqueId) || rank >= ranks || ranks > INT_MAX) {
        cuda_host->fail(CUDA_WHO, "joining as member %u of %u with a ticket of %u bytes; expected one of %zu", rank, ranks, bytes,
                        sizeof(ncclUniqueId));
        return YK_E_ARG;
    }
    yk_comm *comm = cuda_alloc(sizeof *comm);
    if (!comm)
        return YK_E_MEM;
    *comm = (yk_comm){.dev = dev, .nccl = nccl, .ranks = ranks};
    pthread_mutex_init(&comm->lock, NULL);
    if (cuda_enter(dev, &s)) {
        s = comm_start(comm, ticket, rank);
        if (s && comm->handle)
            nccl->comm_abort(comm->handle);
        cuda_leave();
    }
    if (s)
        comm_free(comm);
    else
        *out = comm;
    return s;
}

/* ---- Leaving ---- */

static void coll_abort(yk_comm *comm)
{
    yk_status s;
    pthread_mutex_lock(&comm->lock);
    if (comm->queue)
        cuda_queue_abort(comm->queue, YK_E_CANCELLED);
    if (comm->handle && cuda_enter(comm->dev, &s)) {
        comm->nccl->comm_abort(comm->handle);
        cuda_leave();
    }
    comm->handle = NULL;
    pthread_mutex_unlock(&comm->lock);
}

/* Other members may still read the buffers of this one: they have a moment; a dead member never finishes. The context is current. */
static void comm_close(yk_comm *comm)
{
    const ncclResult_t rc = comm->nccl->comm_finalize(comm->handle);
    if ((rc && (int)rc != ncclInProgress) || comm_await(comm, "leaving", LEAVE_NS))
        comm->nccl->comm_abort(comm->handle);
    else
        comm->nccl->comm_destroy(comm->handle);
}

static void coll_leave(yk_comm *comm)
{
    yk_status s;
    if (!comm)
        return;
    if (comm->handle && cuda_enter(comm->dev, &s)) {
        comm_close(comm);
        cuda_leave();
    }
    comm_free(comm);
}

/* ---- Collectives ---- */

static bool type_find(uint32_t type, ncclDataType_t *out)
{
    switch (type) {
    case YK_F32:
        *out = (ncclDataType_t)ncclFloat32;
        return true;
    case YK_F16:
        *out = (ncclDataType_t)ncclFloat16;
        return true;
    case YK_BF16:
        *out = (ncclDataType_t)ncclBfloat16;
        return true;
    case YK_I32:
        *out = (ncclDataType_t)ncclInt32;
        return true;
    case YK_U8:
        *out = (ncclDataType_t)ncclUint8;
        return true;
    default:
        return false;
    }
}

typedef struct job { /* a collective that is enqueued */
    yk_comm *comm;
    const yk_coll_op *op;
    ncclDataType_t type;
} job;

static const void *job_src(const yk_coll_op *op)
{
    return (const void *)(uintptr_t)(op->src->memory + op->src_offset);
}

static void *job_dst(const yk_coll_op *op)
{
    return (void *)(uintptr_t)(op->dst->memory + op->dst_offset);
}

/* Under the lock. */
static ncclResult_t job_call(const job *j, CUstream stream)
{
    const yk_coll_op *op = j->op;
    const cuda_nccl *nccl = j->comm->nccl;
    const ncclComm_t comm = j->comm->handle;
    switch ((yk_coll_kind)op->kind) {
    case YK_COLL_ALL_REDUCE:
        return nccl->all_reduce(job_src(op), job_dst(op), op->count, j->type, (ncclRedOp_t)ncclSum, comm, stream);
    case YK_COLL_REDUCE_SCATTER:
        return nccl->reduce_scatter(job_src(op), job_dst(op), op->count, j->type, (ncclRedOp_t)ncclSum, comm, stream);
    case YK_COLL_ALL_GATHER:
        return nccl->all_gather(job_src(op), job_dst(op), op->count, j->type, comm, stream);
    case YK_COLL_BROADCAST:
        return nccl->broadcast(job_src(op), job_dst(op), op->count, j->type, (int)op->root, comm, stream);
    }
    return (ncclResult_t)ncclInvalidArgument;
}

static yk_status job_start(yk_queue *q, CUstream stream, const void *what)
{
    static const char *const names[] = {"all-reduce", "reduce-scatter", "all-gather", "broadcast"};
    const job *j = what;
    const char *name = names[j->op->kind];
    yk_status s = YK_OK;
    pthread_mutex_lock(&j->comm->lock);
    if (!j->comm->handle) {
        s = comm_gone(name);
    } else {
        j->comm->queue = q;
        const ncclResult_t rc = job_call(j, stream);
        if (rc && (int)rc != ncclInProgress)
            s = comm_error(j->comm, rc, name);
    }
    pthread_mutex_unlock(&j->comm->lock);
    if (!s)
        s = comm_await(j->comm, name, CALL_NS);
    return s;
}

static bool range_fits(const yk_buffer *b, uint64_t offset, uint64_t count, uint64_t times, uint64_t size)
{
    return b && offset <= b->bytes && (!count || times <= (b->bytes - offset) / size / count);
}

static yk_status op_check(const yk_comm *comm, const yk_coll_op *op, ncclDataType_t *type)
{
    const uint64_t size = yk_dtype_bytes((yk_dtype)op->dtype);
    const uint64_t from = op->kind == YK_COLL_REDUCE_SCATTER ? comm->ranks : 1, to = op->kind == YK_COLL_ALL_GATHER ? comm->ranks : 1;
    if (op->kind > YK_COLL_BROADCAST || !type_find(op->dtype, type) || op->wire != op->dtype) {
        cuda_host->fail(CUDA_WHO, "collective %u of type %u, travelling as %u: NCCL takes the four of f32, f16, bf16, i32, u8, as they are",
                        op->kind, op->dtype, op->wire);
        return YK_E_UNSUPPORTED;
    }
    if (op->root < comm->ranks && range_fits(op->src, op->src_offset, op->count, from, size) &&
        range_fits(op->dst, op->dst_offset, op->count, to, size))
        return YK_OK;
    cuda_host->fail(CUDA_WHO, "collective %u of %llu elements passes its buffers, or its root %u is none of %u members", op->kind,
                    (unsigned long long)op->count, op->root, comm->ranks);
    return YK_E_ARG;
}

static yk_status coll_run(yk_queue *q, yk_comm *comm, const yk_coll_op *op, uint64_t *point)
{
    job j = {.comm = comm, .op = op};
    yk_status s = op_check(comm, op, &j.type);
    if (!s)
        s = cuda_queue_command(q, op->wait, op->n_wait, job_start, &j, point);
    return s;
}

#define COLL_TABLE(fixed)                                                                                                                 \
    {                                                                                                                                     \
        .size = sizeof(yk_coll), .flags = YK_COLL_ONE_PER_DEVICE | (fixed), .island = coll_island, .ticket = coll_ticket,                 \
        .join = coll_join, .leave = coll_leave, .abort = coll_abort, .run = coll_run                                                      \
    }

const yk_coll *cuda_coll(void)
{
    static const yk_coll fixed = COLL_TABLE(YK_COLL_FIXED_ORDER), loose = COLL_TABLE(0);
    const char *nvls = getenv("NCCL_NVLS_ENABLE");
    return (nvls && !strcmp(nvls, "0")) || !cuda_has_multicast() ? &fixed : &loose;
}
