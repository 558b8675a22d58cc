/* SPDX-License-Identifier: Apache-2.0 */
/* Every node by the reference evaluator, at once; `ref` has the counters and switches of tests. */
#include "config.h"

#include "tests/support/refplugin.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/advance.h"

ref_state ref = {.claim = REF_CLAIM_ALL, .align = 64};

const yk_device_caps ref_caps = {
    .size = sizeof ref_caps,
    .name = "reference",
    .flags = YK_CAP_DETERMINISTIC | YK_CAP_LONG_SUMS,
    .align = 64,
    .units = 1,
    .store = 1u << YK_F32 | 1u << YK_BF16 | 1u << YK_F16 | 1u << YK_I32 | 1u << YK_BOOL | 1u << YK_U8,
    .compute = 1u << YK_F32 | 1u << YK_BF16 | 1u << YK_F16,
    .isa = "f64",
};

struct yk_device {
    int unused;
};
struct yk_buffer {
    char *data;
    uint64_t bytes;
    int own;
};
/* A program that has not run yet. */
typedef struct late_run {
    const yk_graph *g;
    void **slot;
    uint64_t point;
} late_run;

enum { LATE = 64 };

struct yk_queue {
    uint64_t point;
    late_run late[LATE];
    uint32_t n_late;
    char broken[96]; /* failure of a run, for waiting threads */
    uint32_t node;   /* node of the failure */
};
struct yk_program {
    const yk_graph *g;
};

static const yk_host *host;
static yk_device the_device;

uint32_t ref_claims(void *arg, const yk_graph *g, uint32_t node)
{
    (void)arg, (void)g, (void)node;
    if (ref.claim == REF_CLAIM_NONE)
        return 0;
    return YK_CLAIM_RUN | (ref.claim == REF_CLAIM_ADD ? (uint32_t)YK_CLAIM_ACCUMULATE : 0) |
           (ref.strided ? (uint32_t)YK_CLAIM_STRIDED_OUT : 0);
}

static yk_status ref_init(const yk_host *h)
{
    host = h;
    return YK_OK;
}

static yk_status device_count(uint32_t *n)
{
    *n = 1;
    return YK_OK;
}

static yk_status device_caps(uint32_t i, yk_device_caps *caps)
{
    (void)i;
    *caps = ref_caps;
    caps->align = ref.align;
    caps->flags |= ref.wrap ? (uint32_t)(YK_CAP_WRAP | YK_CAP_HOST_VISIBLE | YK_CAP_CPU) : 0;
    return YK_OK;
}

static yk_status device_open(uint32_t i, yk_device **dev)
{
    sigset_t blocked;
    (void)i;
    if (ref.takes_signals) {
        signal(SIGTERM, exit);
        sigemptyset(&blocked);
        sigaddset(&blocked, SIGUSR1);
        pthread_sigmask(SIG_BLOCK, &blocked, NULL);
    }
    *dev = &the_device;
    return YK_OK;
}

static uint32_t ref_device_claims(yk_device *dev, const yk_graph *g, uint32_t node)
{
    return ref_claims(dev, g, node);
}

/* Who looks at this process takes it for one in its program's own code. */
static void note_act(void)
{
    __atomic_add_fetch(&ref.own, yk__act_now() == YK__ACT_OWN, __ATOMIC_RELAXED); /* program_new may run in another thread */
}

static yk_status buffer_new(yk_device *dev, const yk_buffer_desc *desc, yk_buffer **b)
{
    note_act();
    const uint64_t bytes = desc->bytes;
    (void)dev;
    if (ref.max_alloc && bytes > ref.max_alloc)
        return YK_E_MEM;
    *b = calloc(1, sizeof **b);
    (*b)->data = malloc(bytes);
    memset((*b)->data, 0xff, bytes); /* NaN: nobody may count on the contents */
    (*b)->bytes = bytes;
    (*b)->own = 1;
    ref.bytes += bytes;
    ref.buffers++;
    return YK_OK;
}

static yk_status buffer_wrap(yk_device *dev, void *mem, uint64_t bytes, yk_buffer **b)
{
    (void)dev;
    *b = calloc(1, sizeof **b);
    (*b)->data = mem;
    (*b)->bytes = bytes;
    return YK_OK;
}

static void buffer_free(yk_buffer *b)
{
    note_act();
    if (b->own) {
        ref.bytes -= b->bytes;
        ref.buffers--;
        free(b->data);
    }
    free(b);
}

static yk_status program_new(yk_device *dev, const yk_graph *g, yk_program **p)
{
    note_act();
    (void)dev;
    for (uint32_t i = 0; i < g->n_all_node && ref.checks == 2; i++) /* in bodies too */
        if (g->node[i].op == YK_OP_LOG) {
            host->fail_node("ref", g->node[i].stream, "this plugin has no logarithm");
            return YK_E_UNSUPPORTED;
        }
    *p = malloc(sizeof **p);
    (*p)->g = g;
    __atomic_add_fetch(&ref.programs, 1, __ATOMIC_RELAXED);
    return YK_OK;
}

static void program_free(yk_program *p)
{
    note_act();
    __atomic_sub_fetch(&ref.programs, 1, __ATOMIC_RELAXED);
    free(p);
}

static yk_status queue_new(yk_device *dev, const yk_queue_desc *desc, yk_queue **q)
{
    (void)dev, (void)desc;
    *q = calloc(1, sizeof **q);
    return YK_OK;
}

static void queue_free(yk_queue *q)
{
    if (ref.leave_ms)
        usleep(1000 * ref.leave_ms);
    for (uint32_t i = 0; i < q->n_late; i++)
        free(q->late[i].slot);
    free(q);
}

/* The first index outside of its table, as a device finds it: when it comes to it. */
static void check_gather(yk_queue *q, const yk_graph *g, const yk_node *n, void *const *slot)
{
    const yk_value *table = &g->value[g->index[n->in]], *index = &g->value[g->index[n->in + 1]];
    const int32_t *at = (const int32_t *)(const void *)((const char *)slot[index->slot] + index->offset);
    for (int64_t i = 0; i < index->dim[0] && !*q->broken; i++)
        if (at[i] >= table->dim[0]) {
            snprintf(q->broken, sizeof q->broken, "(gather): row %d of a table of %lld", at[i], (long long)table->dim[0]);
            q->node = n->stream;
        }
}

static bool is_update(const yk_graph *g)
{
    for (uint32_t i = 0; i < g->n_node; i++)
        if (g->node[i].op == YK_OP_SGD_STEP || g->node[i].op == YK_OP_ADAM_STEP)
            return true;
    return false;
}

enum { SLOTS = 4096 };

/* Slots of the program's operands: it is given no other buffer. */
static void slots_mark(const yk_graph *g, bool touched[SLOTS])
{
    for (uint32_t i = 0; i < g->n_node; i++)
        for (uint32_t k = 0; k < (uint32_t)g->node[i].n_in + g->node[i].n_out; k++) {
            const yk_node *n = &g->node[i];
            touched[g->value[g->index[k < n->n_in ? n->in + k : n->out + k - n->n_in]].slot] = true;
        }
}

static yk_status run_graph(yk_queue *q, const yk_graph *g, void **slot)
{
    for (uint32_t i = 0; i < g->n_node; i++) {
        if (ref.checks == 1 && g->node[i].op == YK_OP_GATHER)
            check_gather(q, g, &g->node[i], slot);
        yk_status st = host->eval_node(g, i, slot);
        if (st)
            return st;
    }
    if (ref.breaks && is_update(g))
        snprintf(q->broken, sizeof q->broken, "(step): the processor broke");
    ref.runs++;
    return YK_OK;
}

/* Runs what is late, up to this point. */
static yk_status run_late(yk_queue *q, uint64_t point)
{
    yk_status st = YK_OK;
    uint32_t n = 0;
    for (; n < q->n_late && q->late[n].point <= point && !st; n++) {
        st = run_graph(q, q->late[n].g, q->late[n].slot);
        free(q->late[n].slot);
    }
    q->n_late -= n;
    memmove(q->late, q->late + n, q->n_late * sizeof *q->late);
    return st;
}

static yk_status queue_run(yk_queue *q, const yk_submit *s, uint64_t *point)
{
    note_act();
    const yk_graph *g = s->program->g;
    void *slot[SLOTS];
    bool touched[SLOTS] = {false};
    slots_mark(g, touched);
    if (ref.update_ms && is_update(g))
        usleep(ref.update_ms * 1000);
    for (uint32_t i = 0; i < s->n_slot; i++) {
        if (s->slot[i] && s->slot_offset[i] + g->slot[i].bytes > s->slot[i]->bytes) {
            host->fail("ref", "slot %u ends outside of its buffer", i);
            return YK_E_ARG;
        }
        if (s->slot[i] && !touched[i]) {
            host->fail("ref", "slot %u has a buffer, and the program does not touch it", i);
            return YK_E_ARG;
        }
        slot[i] = s->slot[i] ? s->slot[i]->data + s->slot_offset[i] : NULL;
    }
    *point = ++q->point;
    if (ref.late && is_update(g) && q->n_late < LATE) {
        q->late[q->n_late] = (late_run){g, malloc(s->n_slot * sizeof *slot), q->point};
        memcpy(q->late[q->n_late++].slot, slot, s->n_slot * sizeof *slot);
        return YK_OK;
    }
    const yk_status st = run_late(q, q->point);
    if (st)
        return st;
    return run_graph(q, g, slot);
}

static char *copy_end(yk_buffer *b, char *host_end, uint64_t offset, uint64_t bytes)
{
    return !b ? host_end : offset > b->bytes || bytes > b->bytes - offset ? NULL : b->data + offset;
}

static yk_status queue_copy(yk_queue *q, const yk_copy *c, uint64_t *point)
{
    note_act();
    const char *src = copy_end(c->src, (char *)(uintptr_t)c->src_host, c->src_offset, c->bytes);
    char *dst = copy_end(c->dst, c->dst_host, c->dst_offset, c->bytes);
    const yk_status st = run_late(q, q->point);
    if (st)
        return st;
    if (c->bytes && (!src || !dst))
        return YK_E_ARG;
    if (c->bytes)
        memcpy(dst, src, c->bytes);
    ref.copied += c->bytes;
    *point = ++q->point;
    return YK_OK;
}

static yk_status queue_poll(yk_queue *q, uint64_t *done)
{
    if (*q->broken) {
        host->fail_node("ref", q->node, "%s", q->broken);
        return YK_E_ARG;
    }
    *done = q->n_late ? q->late[0].point - 1 : !ref.hangs ? q->point : ref.hangs > 2 ? 1000 - (uint64_t)ref.hangs : 0;
    return YK_OK;
}

static yk_status queue_wait(yk_queue *q, uint64_t point, uint64_t timeout)
{
    const struct timespec t = {0, (long)(timeout < 999999999 ? timeout : 999999999)};
    const clock_t end = clock() + CLOCKS_PER_SEC / 20;
    const yk_status st = ref.hangs ? YK_OK : run_late(q, point);
    if (st)
        return st;
    if (*q->broken) {
        host->fail_node("ref", q->node, "%s", q->broken);
        return YK_E_ARG;
    }
    if (!ref.hangs)
        return YK_OK;
    if (ref.hangs > 3)
        ref.hangs--;
    if (ref.hangs == 3)
        return YK_OK;
    if (ref.hangs == 2)
        while (clock() < end)
            ;
    else
        nanosleep(&t, NULL);
    return YK_E_TIMEOUT;
}

static void queue_abort(yk_queue *q, yk_status why)
{
    (void)q, (void)why;
    ref.aborts++;
}

static const yk_plugin *ref_query(uint32_t abi)
{
    static const yk_plugin table = {
        .size = sizeof table, .abi = YK_ABI, .minor = YK_ABI_MINOR, .n_op = YK_OP_COUNT, .n_dtype = YK_DTYPE_COUNT,
        .name = "ref", .version = "1", .sanitizer = YK_SANITIZER,
        .init = ref_init, .device_count = device_count, .device_caps = device_caps, .device_open = device_open,
        .claims = ref_device_claims, .buffer_new = buffer_new, .buffer_wrap = buffer_wrap, .buffer_free = buffer_free,
        .program_new = program_new, .program_free = program_free, .queue_new = queue_new, .queue_free = queue_free,
        .queue_run = queue_run, .queue_copy = queue_copy, .queue_poll = queue_poll,
        .queue_wait = queue_wait, .queue_abort = queue_abort,
    };
    return abi == YK_ABI ? &table : NULL;
}

yk_status ref_register(yk_error *err)
{
    static yk__plugin *plugin;
    return plugin ? YK_OK : yk__plugin_register(ref_query, "ref", &plugin, err);
}

yk_status ref_open(yk__device **dev, yk_error *err)
{
    const yk__placement place = {.plugin = "ref", .forced = true};
    return ref_register(err) ? err->status : yk__device_open(&place, dev, err);
}
