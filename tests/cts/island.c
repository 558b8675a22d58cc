/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin "far" with both extensions, in their smallest form: its two devices can be joined, by threads of one process, and sums
 * are done in the queues' threads, in the order of ranks; exported buffers are files in memory.
 */
#define _GNU_SOURCE
#include <sys/mman.h>

#define yk_plugin_query far_query
#include "plugins/template/far.c"
#undef yk_plugin_query

#include <yoke/extension.h>

#ifndef ISLAND_QUERY /* broken_island.c is made over it */
#define ISLAND_QUERY yk_plugin_query
#endif
#define MOST 8u /* members */

/* ---- yk.coll.1 ---- */

/* State that the members of a comm share. A collective has two phases: all have come, all have read. */
typedef struct island {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t ranks, joined, left, arrived;
    uint64_t phase;
    bool aborted;
    const float *src[MOST];
} island;

struct yk_comm {
    island *of;
    uint32_t rank;
};

static yk_status island_name(yk_device *dev, char name[64])
{
    (void)dev;
    snprintf(name, 64, "far.%ld", (long)getpid());
    return YK_OK;
}

static yk_status island_ticket(yk_device *dev, uint8_t ticket[256], uint32_t *bytes)
{
    island *of = kit_zeroed(host, WHO, sizeof *of, "an island");
    (void)dev;
    if (!of)
        return YK_E_MEM;
    pthread_mutex_init(&of->lock, NULL);
    pthread_cond_init(&of->changed, NULL);
    memcpy(ticket, &of, sizeof of); /* members are threads of this process */
    *bytes = sizeof of;
    return YK_OK;
}

/* Until all members have come to this place; false if somebody aborts before. Under the lock. */
static bool island_meet(island *of)
{
    const uint64_t phase = of->phase;
    if (++of->arrived == of->ranks) {
        of->arrived = 0;
        of->phase++;
        pthread_cond_broadcast(&of->changed);
    }
    while (of->phase == phase && !of->aborted)
        pthread_cond_wait(&of->changed, &of->lock);
    return of->phase != phase; /* one that goes on at once may abort before the others wake */
}

static yk_status island_join(yk_device *dev, const uint8_t *ticket, uint32_t bytes, uint32_t rank, uint32_t ranks, yk_comm **out)
{
    yk_comm *comm = kit_zeroed(host, WHO, sizeof *comm, "a comm");
    (void)dev;
    if (!comm || bytes != sizeof comm->of || ranks > MOST || rank >= ranks) {
        host->free(comm);
        host->fail(WHO, "rank %u of %u with a ticket of %u bytes cannot join", rank, ranks, bytes);
        return YK_E_ARG;
    }
    memcpy(&comm->of, ticket, sizeof comm->of);
    comm->rank = rank;
    pthread_mutex_lock(&comm->of->lock);
    comm->of->ranks = ranks;
    comm->of->joined++;
    const bool met = island_meet(comm->of);
    pthread_mutex_unlock(&comm->of->lock);
    *out = comm;
    return met ? YK_OK : YK_E_CANCELLED;
}

static void island_leave(yk_comm *comm)
{
    island *of = comm->of;
    pthread_mutex_lock(&of->lock);
    const bool last = ++of->left == of->joined;
    pthread_mutex_unlock(&of->lock);
    host->free(comm);
    if (last) {
        pthread_cond_destroy(&of->changed);
        pthread_mutex_destroy(&of->lock);
        host->free(of);
    }
}

static void island_abort(yk_comm *comm)
{
    pthread_mutex_lock(&comm->of->lock);
    comm->of->aborted = true;
    pthread_cond_broadcast(&comm->of->changed);
    pthread_mutex_unlock(&comm->of->lock);
}

typedef struct island_job {
    yk_comm *comm;
    yk_coll_op op;
} island_job;

/* Sums of count elements from `at` on of all members, in the order of ranks. */
static void ranks_add(const island *of, uint64_t at, float *dst, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        float sum = of->src[0][at + i];
        for (uint32_t r = 1; r < of->ranks; r++)
            sum += of->src[r][at + i];
        dst[i] = sum;
    }
}

/* A member's result, made of all operands while nobody writes. */
static void result_make(const yk_comm *comm, const yk_coll_op *op, float *result)
{
    const island *of = comm->of;
    const uint64_t n = op->count;
    if (op->kind == YK_COLL_ALL_REDUCE)
        ranks_add(of, 0, result, n);
    else if (op->kind == YK_COLL_REDUCE_SCATTER)
        ranks_add(of, comm->rank * n, result, n);
    else if (op->kind == YK_COLL_BROADCAST)
        memcpy(result, of->src[op->root], n * sizeof *result);
    else
        for (uint32_t r = 0; r < of->ranks; r++)
            memcpy(result + r * n, of->src[r], n * sizeof *result);
}

/* Members make their results beside when all have come, and store them when all have read. In the queue's thread. */
static yk_status collective_run(void *arg, char why[KIT_WHY])
{
    island_job *j = arg;
    island *of = j->comm->of;
    const uint64_t n = j->op.count * (j->op.kind == YK_COLL_ALL_GATHER ? of->ranks : 1);
    float *result = host->alloc(n * sizeof *result, 64);
    bool whole;
    pthread_mutex_lock(&of->lock);
    of->src[j->comm->rank] = (const float *)(j->op.src->far + j->op.src_offset);
    whole = island_meet(of) && result;
    pthread_mutex_unlock(&of->lock);
    if (whole)
        result_make(j->comm, &j->op, result);
    pthread_mutex_lock(&of->lock);
    whole = whole && island_meet(of);
    pthread_mutex_unlock(&of->lock);
    if (whole)
        memcpy(j->op.dst->far + j->op.dst_offset, result, n * sizeof *result);
    else
        snprintf(why, KIT_WHY, "the collective was aborted");
    host->free(result);
    host->free(j);
    return whole ? YK_OK : YK_E_CANCELLED;
}

static yk_status island_run(yk_queue *q, yk_comm *comm, const yk_coll_op *op, uint64_t *point)
{
    island_job *job;
    yk_status s;
    if (op->kind > YK_COLL_BROADCAST || op->dtype != YK_F32 || op->wire != YK_F32) {
        host->fail(WHO, "collective %u of type %u: elements are f32", op->kind, op->dtype);
        return YK_E_UNSUPPORTED;
    }
    if (!(job = kit_zeroed(host, WHO, sizeof *job, "a collective")))
        return YK_E_MEM;
    *job = (island_job){comm, *op};
    s = kit_queue_call(q, op->n_wait, op->wait, collective_run, job, point);
    if (s)
        host->free(job);
    return s;
}

static const yk_coll coll = {.size = sizeof coll,
                             .flags = YK_COLL_FIXED_ORDER,
                             .island = island_name,
                             .ticket = island_ticket,
                             .join = island_join,
                             .leave = island_leave,
                             .abort = island_abort,
                             .run = island_run};

/* ---- yk.share.1 ---- */

#define SHARED UINT32_MAX /* the use of a buffer that is a shared_buffer */

typedef struct shared_buffer {
    yk_buffer buffer; /* first: it is told by its address */
    int fd;
} shared_buffer;

static yk_status shared_new(yk_device *dev, int fd, uint64_t bytes, yk_buffer **out)
{
    shared_buffer *b = kit_zeroed(host, WHO, sizeof *b, "a shared buffer");
    void *at = b ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (at == MAP_FAILED) {
        host->free(b);
        host->fail(WHO, "%llu bytes could not be shared", (unsigned long long)bytes);
        return YK_E_MEM;
    }
    b->fd = dup(fd);
    b->buffer = (yk_buffer){.dev = dev, .far = at, .bytes = bytes, .use = SHARED};
    *out = &b->buffer;
    return YK_OK;
}

static yk_status island_buffer(yk_device *dev, const yk_buffer_desc *desc, yk_buffer **out)
{
    yk_status s = YK_E_MEM;
    int fd;
    if (!(desc->flags & YK_BUF_EXPORT))
        return buffer_new(dev, desc, out);
    fd = memfd_create("yoke", MFD_CLOEXEC);
    if (fd >= 0 && ftruncate(fd, (off_t)desc->bytes) == 0)
        s = shared_new(dev, fd, desc->bytes, out);
    close(fd);
    return s;
}

static void island_buffer_free(yk_buffer *b)
{
    if (b->use != SHARED) {
        buffer_free(b);
        return;
    }
    munmap(b->far, b->bytes);
    close(((shared_buffer *)b)->fd);
    host->free(b);
}

static yk_status export_buffer(yk_buffer *b, uint32_t kind, yk_share_handle *handle)
{
    if (b->use != SHARED || kind != YK_SHARE_MEMORY_FD) {
        host->fail(WHO, "only buffers made with YK_BUF_EXPORT are exported, as memory (kind %u was asked for)", kind);
        return YK_E_ARG;
    }
    *handle = (yk_share_handle){.size = sizeof *handle, .kind = kind, .fd = dup(((shared_buffer *)b)->fd), .bytes = b->bytes};
    return handle->fd < 0 ? YK_E_IO : YK_OK;
}

static yk_status import_buffer(yk_device *dev, const yk_share_handle *handle, yk_buffer **b)
{
    return shared_new(dev, handle->fd, handle->bytes, b);
}

static const yk_share share = {.size = sizeof share,
                               .kinds = 1u << YK_SHARE_MEMORY_FD,
                               .export_buffer = export_buffer,
                               .import_buffer = import_buffer};

/* ---- The table ---- */

static const void *island_extension(const char *name)
{
    return !strcmp(name, YK_EXT_COLL) ? (const void *)&coll : !strcmp(name, YK_EXT_SHARE) ? &share : NULL;
}

/* A host that lends nothing of a name says so. */
static yk_status island_init(const yk_host *h)
{
    return h->extension("yk.none.1") ? YK_E_INTERNAL : plugin_init(h);
}

static yk_plugin island_table;

__attribute__((visibility("default"))) const yk_plugin *ISLAND_QUERY(uint32_t abi);

__attribute__((visibility("default"))) const yk_plugin *ISLAND_QUERY(uint32_t abi)
{
    island_table = table;
    island_table.name = "island";
    island_table.init = island_init;
    island_table.buffer_new = island_buffer;
    island_table.buffer_free = island_buffer_free;
    island_table.extension = island_extension;
    return abi == YK_ABI ? &island_table : NULL;
}
