/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The template plugin with one fault, chosen by -D: what the suite must find.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <fenv.h>
#include <locale.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define yk_plugin_query good_query
#include "template.c"
#undef yk_plugin_query

static yk_plugin bad;

#ifdef BREAK_RESULT /* one operation is a little wrong in one element */
static yk_status bad_run(yk_queue *q, const yk_submit *s, uint64_t *point)
{
    yk_status st = queue_run(q, s, point);
    const yk_graph *g = s->program->graph;
    for (uint32_t i = 0; i < g->n_node && !st; i++)
        if (g->node[i].op == YK_OP_MUL) {
            const yk_value *v = &g->value[g->index[g->node[i].out]];
            float *y = (float *)(s->slot[v->slot]->memory + s->slot_offset[v->slot] + v->offset);
            if (v->dtype == YK_F32)
                y[kit_value_count(v) - 1] *= 1.001f;
        }
    return st;
}
#endif

#ifdef BREAK_BITS /* sums depend on the time of day */
static yk_status bad_run(yk_queue *q, const yk_submit *s, uint64_t *point)
{
    static uint32_t runs;
    yk_status st = queue_run(q, s, point);
    const yk_graph *g = s->program->graph;
    for (uint32_t i = 0; i < g->n_node && !st && runs++ % 3 == 0; i++)
        if (g->node[i].op == YK_OP_SUM) {
            const yk_value *v = &g->value[g->index[g->node[i].out]];
            s->slot[v->slot]->memory[s->slot_offset[v->slot] + v->offset] ^= 1; /* the last bit */
        }
    return st;
}
#endif

#ifdef BREAK_POLL_ABORT /* what was done before an abort is still said to be done after it */
static yk_status bad_poll(yk_queue *q, uint64_t *done)
{
    *done = q->point;
    return YK_OK;
}
#endif

#ifdef BREAK_RUN_ABORT /* an aborted queue refuses copies, and runs programs */
static yk_status bad_run(yk_queue *q, const yk_submit *s, uint64_t *point)
{
    const int why = atomic_exchange(&q->failed, YK_OK);
    const yk_status st = queue_run(q, s, point);
    atomic_store(&q->failed, why);
    return st;
}
#endif

#ifdef BREAK_COMPOSITES /* compiles what it did not claim */
static yk_status bad_program(yk_device *dev, const yk_graph *g, yk_program **out)
{
    (void)dev;
    *out = kit_zeroed(host, WHO, sizeof **out, "a program");
    if (*out)
        (*out)->graph = g;
    return *out ? YK_OK : YK_E_MEM;
}
#endif

#ifdef BREAK_END /* one element too many is stored */
static yk_status bad_run(yk_queue *q, const yk_submit *s, uint64_t *point)
{
    yk_status st = queue_run(q, s, point);
    const yk_graph *g = s->program->graph;
    for (uint32_t i = 0; i < g->n_node && !st; i++)
        if (g->node[i].op == YK_OP_ADD) {
            const yk_value *v = &g->value[g->index[g->node[i].out]];
            const yk_buffer *b = s->slot[v->slot];
            uint64_t end = s->slot_offset[v->slot] + v->offset + (uint64_t)kit_value_count(v) * yk_dtype_bytes(v->dtype);
            if (end + 4 <= b->bytes)
                memset(b->memory + end, 0, 4);
        }
    return st;
}
#endif

#ifdef BREAK_POINT /* every 17th point is never reached */
static uint32_t calls;

static yk_status bad_copy(yk_queue *q, const yk_copy *c, uint64_t *point)
{
    yk_status st = queue_copy(q, c, point);
    if (!st && ++calls % 17 == 0)
        q->point--;
    return st;
}

static yk_status bad_wait(yk_queue *q, uint64_t point, uint64_t timeout_ns)
{
    yk_status st = queue_wait(q, point, timeout_ns);
    if (st == YK_E_TIMEOUT)
        usleep(timeout_ns > 20000000 ? 20000 : (useconds_t)(timeout_ns / 1000));
    return st;
}
#endif

#ifdef BREAK_SYMBOL /* a helper leaks out */
__attribute__((visibility("default"))) int helper(void);
__attribute__((visibility("default"))) int helper(void)
{
    return 1;
}
#endif

#ifdef BREAK_CRASH
static yk_status bad_run(yk_queue *q, const yk_submit *s, uint64_t *point)
{
    if (s->program->graph->node[0].op == YK_OP_GATHER)
        *(volatile int *)8 = 1;
    return queue_run(q, s, point);
}
#endif

/* The nodes with something changed in each, which the graph does not say. */
#if defined BREAK_ADD_TRANSPOSED || defined BREAK_ADD_BATCH || defined BREAK_SCATTER || defined BREAK_CLAIM || defined BREAK_ROWS
#define SPOILS
static void node_spoil(const yk_graph *g, yk_value *value, yk_node *n)
{
    yk_value *x = n->n_in ? &value[g->index[n->in]] : NULL;
    const bool adds = n->flags & YK_NODE_ACCUMULATE;
    (void)x, (void)adds;
#ifdef BREAK_ADD_TRANSPOSED /* the first operand is read as it lies when the product is added */
    if (n->op == YK_OP_DOT && adds && x->stride[x->dims - 1] != 1) {
        x->stride[x->dims - 1] = 1;
        x->stride[x->dims - 2] = x->dim[x->dims - 1];
    }
#endif
#ifdef BREAK_ADD_BATCH /* products in batches overwrite */
    if (n->op == YK_OP_DOT && x->dims == 3)
        n->flags = 0;
#endif
#ifdef BREAK_SCATTER /* says that it adds, and overwrites */
    if (n->op == YK_OP_SCATTER_ADD)
        n->flags = 0;
#endif
#ifdef BREAK_CLAIM /* a composite that says so */
    if (n->op == YK_OP_RELU)
        n->flags = 0;
#endif
#ifdef BREAK_ROWS /* rows are counted in 16 bits */
    if (n->op == YK_OP_SUM && x->dims == 2)
        x->dim[0] &= 65535;
#endif
}

static yk_status bad_run(yk_queue *q, const yk_submit *s, uint64_t *point)
{
    const yk_graph *g = s->program->graph;
    void *slot[64];
    yk_status st = bind_slots(g, s, slot);
    for (uint32_t i = 0; i < g->n_node && !st; i++) {
        yk_value *value = malloc(g->n_value * sizeof *value);
        yk_node *node = malloc(g->n_all_node * sizeof *node);
        yk_graph spoiled = *g;
        memcpy(value, g->value, g->n_value * sizeof *value);
        memcpy(node, g->node, g->n_all_node * sizeof *node);
        node_spoil(g, value, &node[i]);
        spoiled.value = value;
        spoiled.node = node;
        st = run_node(&spoiled, i, slot);
        free(value);
        free(node);
    }
    return queue_end(q, st, point);
}

static uint32_t bad_claims(yk_device *dev, const yk_graph *g, uint32_t node)
{
#ifdef BREAK_SCATTER
    if (g->node[node].op == YK_OP_SCATTER_ADD)
        return YK_CLAIM_RUN | YK_CLAIM_ACCUMULATE;
#endif
#ifdef BREAK_CLAIM
    if (g->node[node].op == YK_OP_RELU)
        return YK_CLAIM_RUN | YK_CLAIM_ACCUMULATE;
#endif
    return node_claims(dev, g, node);
}
#endif

/* Results of one operation, changed. */
#if defined BREAK_LOWEST || defined BREAK_NAN || defined BREAK_TINY || defined BREAK_NEG_ZERO || defined BREAK_ABS_ZERO || \
    defined BREAK_SKIPS || defined BREAK_CARRY || defined BREAK_RANGE || defined BREAK_MOVE_ZERO
#define CHANGES
static void element_change(uint16_t op, uint32_t from, uint32_t dtype, void *element)
{
    float f = 0;
    uint16_t h = 0;
    memcpy(dtype == YK_F32 ? (void *)&f : (void *)&h, element, dtype == YK_F32 ? 4 : dtype == YK_BF16 || dtype == YK_F16 ? 2 : 0);
    (void)op, (void)from;
#ifdef BREAK_LOWEST /* the largest begins at the lowest number there is */
    if (op == YK_OP_RMAX && dtype == YK_F32 && f < -3e38f)
        memcpy(element, &(float){-3.4028235e38f}, 4);
#endif
#ifdef BREAK_NAN /* NaN is rounded as numbers are */
    if (op == YK_OP_CAST && dtype == YK_BF16 && (h & 0x7fff) > 0x7f80)
        memcpy(element, &(uint16_t){0x7f80}, 2);
#endif
#ifdef BREAK_TINY /* small numbers of f16 are flushed */
    if (op == YK_OP_CAST && from == YK_F16 && dtype == YK_F32 && f > -6e-5f && f < 6e-5f)
        memset(element, 0, 4);
#endif
#ifdef BREAK_NEG_ZERO /* 0 - x */
    if (op == YK_OP_NEG && dtype == YK_F32 && f == 0)
        memset(element, 0, 4);
#endif
#ifdef BREAK_ABS_ZERO /* x < 0 ? -x : x */
    if (op == YK_OP_ABS && dtype == YK_F32 && f == 0)
        memcpy(element, &(float){-0.f}, 4);
#endif
#ifdef BREAK_CARRY /* rounding carries nothing into the exponent */
    if (dtype == YK_BF16 && (h & 0x7f) == 0 && (h & 0x7fff) > 0x80 && (h & 0x7fff) < 0x7f80)
        memcpy(element, &(uint16_t){(uint16_t)(h - 1)}, 2);
#endif
#ifdef BREAK_RANGE /* the largest number in the place of an infinity */
    if (dtype == YK_F16 && (h & 0x7fff) == 0x7c00)
        memcpy(element, &(uint16_t){(uint16_t)(h - 1)}, 2);
#endif
#ifdef BREAK_MOVE_ZERO /* what moves is added to 0 */
    if ((op == YK_OP_COPY || op == YK_OP_GATHER) && dtype == YK_F32 && f == 0)
        memset(element, 0, 4);
#endif
#ifdef BREAK_SKIPS /* products leave out zeros, whatever they are multiplied with */
    if (op == YK_OP_DOT && dtype == YK_F32 && f != f)
        memset(element, 0, 4);
#endif
}

static yk_status bad_run(yk_queue *q, const yk_submit *s, uint64_t *point)
{
    yk_status st = queue_run(q, s, point);
    const yk_graph *g = s->program->graph;
    for (uint32_t i = 0; i < g->n_node && !st; i++) {
        const yk_node *n = &g->node[i];
        const yk_value *y = &g->value[g->index[n->out]];
        const uint32_t bytes = yk_dtype_bytes(y->dtype);
        uint8_t *data = s->slot[y->slot]->memory + s->slot_offset[y->slot] + y->offset;
        for (int64_t k = 0; k < kit_value_count(y) && n->n_in && y->base == g->index[n->out]; k++)
            element_change(n->op, g->value[g->index[n->in]].dtype, y->dtype, data + (uint64_t)k * bytes);
    }
    return st;
}
#endif

#include "tests/cts/broken_stats.h"

#ifdef BREAK_PACKED /* states are packed once, whatever the program itself writes there */
static char kept[64 * 64];
static const void *kept_of;

static yk_status bad_run(yk_queue *q, const yk_submit *s, uint64_t *point)
{
    const yk_graph *g = s->program->graph;
    for (uint32_t i = 0; i < g->n_slot; i++)
        if (g->slot[i].kind == YK_SLOT_STATE && g->slot[i].bytes > 4096 + 280) {
            void *now = s->slot[i]->memory + s->slot_offset[i] + 4096; /* where the suite's leaves lie */
            memcpy(kept_of == now ? now : kept, kept_of == now ? kept : now, 280);
            kept_of = now;
        }
    return queue_run(q, s, point);
}
#endif

#ifdef BREAK_HANG /* one operation never ends */
static yk_status bad_run(yk_queue *q, const yk_submit *s, uint64_t *point)
{
    while (s->program->graph->node[0].op == YK_OP_GATHER)
        usleep(10000);
    return queue_run(q, s, point);
}
#endif

#ifdef BREAK_PRINT
static yk_status bad_program(yk_device *dev, const yk_graph *g, yk_program **out)
{
    puts("compiling");
    return program_new(dev, g, out);
}
#endif

/* ---- What is done to the process ---- */

#if defined BREAK_SIGNAL || defined BREAK_MASK || defined BREAK_CORES || defined BREAK_LOCALE || defined BREAK_ROUNDING || \
    defined BREAK_FLUSH || defined BREAK_QUEUE_CORES
#define CHANGES_PROCESS
static void process_change(void)
{
#if defined BREAK_SIGNAL
    signal(SIGTERM, SIG_IGN);
#elif defined BREAK_MASK
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
#elif defined BREAK_CORES || defined BREAK_QUEUE_CORES
    cpu_set_t set, one;
    int core = 0;
    sched_getaffinity(0, sizeof set, &set);
    while (!CPU_ISSET(core, &set))
        core++;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    sched_setaffinity(0, sizeof one, &one);
#elif defined BREAK_LOCALE
    setlocale(LC_ALL, "C.UTF-8");
#elif defined BREAK_FLUSH && defined __SSE2__
    __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8000);
#else
    fesetround(FE_UPWARD);
#endif
}

#if defined BREAK_QUEUE_CORES
static yk_status bad_queue(yk_device *dev, const yk_queue_desc *desc, yk_queue **q)
{
    return process_change(), queue_new(dev, desc, q);
}
#else
static yk_status bad_open(uint32_t i, yk_device **dev)
{
    process_change();
    return device_open(i, dev);
}
#endif
#endif

#if defined BREAK_LEAK_FINI
static void *end_sleep(void *arg)
{
    pause();
    return arg;
}

static void bad_fini(void)
{
    pthread_t t;
    if (!pthread_create(&t, NULL, end_sleep, NULL))
        pthread_detach(t);
    plugin_fini();
}
#endif

#if defined BREAK_DEVICES /* counts what it has not set */
static yk_status bad_count(uint32_t *n)
{
    *n = UINT32_MAX;
    return YK_OK;
}
#endif

/* ---- What stays behind ---- */

#if defined BREAK_LEAK_DEVICE /* the device's own memory, a part of which is lost with each run */
static uint64_t taken;

static yk_status bad_run(yk_queue *q, const yk_submit *s, uint64_t *point)
{
    taken += 1 << 20;
    return queue_run(q, s, point);
}

static yk_status bad_buffer(yk_device *dev, const yk_buffer_desc *desc, yk_buffer **b)
{
    const yk_status s = buffer_new(dev, desc, b);
    taken += s ? 0 : desc->bytes;
    return s;
}

static void bad_buffer_free(yk_buffer *b)
{
    taken -= b->bytes;
    buffer_free(b);
}
#endif

#ifdef BREAK_LEAK_PROGRAM
static void bad_program_free(yk_program *p)
{
    (void)p;
}
#endif

#ifdef BREAK_LEAK_BUFFER
static void bad_buffer_free(yk_buffer *b)
{
    host->free(b);
}
#endif

#ifdef BREAK_LEAK_QUEUE
static void bad_queue_free(yk_queue *q)
{
    (void)q;
}
#endif

#ifdef BREAK_LEAK_RUN
static yk_status bad_run(yk_queue *q, const yk_submit *s, uint64_t *point)
{
    return host->alloc(100, 8) ? queue_run(q, s, point) : YK_E_MEM;
}
#endif

#if defined BREAK_LEAK_FILE || defined BREAK_LEAK_MEMORY
static yk_status bad_open(uint32_t i, yk_device **dev)
{
#ifdef BREAK_LEAK_FILE
    if (open("/dev/null", O_RDONLY) < 0)
        return YK_E_IO;
#else
    if (mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
        return YK_E_MEM;
#endif
    return device_open(i, dev);
}
#endif

#ifdef BREAK_LEAK_THREAD
static void *thread_sleep(void *arg)
{
    (void)arg;
    for (;;)
        pause();
    return NULL;
}

static yk_status bad_queue(yk_device *dev, const yk_queue_desc *desc, yk_queue **q)
{
    pthread_attr_t attr;
    pthread_t t;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 65536);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    return pthread_create(&t, &attr, thread_sleep, NULL) ? YK_E_MEM : queue_new(dev, desc, q);
}
#endif

#ifdef BREAK_VERSION /* weights are kept over a change of their contents */
static float kept[64 * 64];
static const void *kept_of;

static yk_status bad_run(yk_queue *q, const yk_submit *s, uint64_t *point)
{
    const yk_graph *g = s->program->graph;
    for (uint32_t i = 0; i < g->n_slot; i++)
        if (g->slot[i].kind == YK_SLOT_PARAM && g->slot[i].bytes <= sizeof kept && s->slot[i]) {
            void *now = s->slot[i]->memory + s->slot_offset[i];
            if (kept_of == now)
                memcpy(now, kept, g->slot[i].bytes);
            kept_of = now;
            memcpy(kept, now, g->slot[i].bytes);
            break;
        }
    return queue_run(q, s, point);
}
#endif

#ifdef BREAK_SCRATCH_BYTES /* another answer each time */
static yk_status bad_scratch(yk_device *dev, const yk_graph *g, uint64_t *bytes)
{
    static uint64_t times;
    (void)dev, (void)g;
    *bytes = 64 * ++times;
    return YK_OK;
}
#endif

#include "tests/cts/broken_caps.h"

#ifdef BREAK_PRIORITY /* no queue but those of usual urgency */
static yk_status bad_queue(yk_device *dev, const yk_queue_desc *desc, yk_queue **q)
{
    return desc->priority ? YK_E_UNSUPPORTED : queue_new(dev, desc, q);
}
#endif

#if defined BREAK_NARROW || defined BREAK_STRIDED /* claims layer norms into 16 bits, or attention into views, and leaves zeros there */
static bool is_spoilt(const yk_graph *g, const yk_node *n)
{
    const yk_value *y = &g->value[g->index[n->out]];
#ifdef BREAK_NARROW
    return n->op == YK_OP_LAYER_NORM && y->dtype != YK_F32 && g->value[g->index[n->in]].dtype == YK_F32;
#else
    return n->op == YK_OP_ATTENTION && !kit_value_dense(y);
#endif
}

static uint32_t bad_claims(yk_device *dev, const yk_graph *g, uint32_t node)
{
    if (g->node[node].op == YK_OP_LAYER_NORM)
        return YK_CLAIM_RUN | YK_CLAIM_NARROW_OUT;
    return g->node[node].op == YK_OP_ATTENTION ? YK_CLAIM_RUN | YK_CLAIM_STRIDED_OUT : node_claims(dev, g, node);
}

static yk_status bad_run(yk_queue *q, const yk_submit *s, uint64_t *point)
{
    const yk_graph *g = s->program->graph;
    const yk_status st = queue_run(q, s, point);
    for (uint32_t i = 0; i < g->n_node && !st; i++) {
        const yk_value *y = &g->value[g->index[g->node[i].out]];
        if (is_spoilt(g, &g->node[i])) /* as many bytes as it has elements: some are the view's */
            memset(s->slot[y->slot]->memory + s->slot_offset[y->slot] + y->offset, 0,
                   (size_t)kit_value_count(y) * yk_dtype_bytes(y->dtype));
    }
    return st;
}
#endif

#if defined BREAK_NARROW || defined BREAK_STRIDED || defined BREAK_LIMIT || defined BREAK_OUTPUTS || defined BREAK_STATS_ONE || \
    defined BREAK_STATS_MEAN
static yk_status bad_program(yk_device *dev, const yk_graph *g, yk_program **out)
{
    (void)dev;
    *out = kit_zeroed(host, WHO, sizeof **out, "a program");
    if (*out)
        (*out)->graph = g;
    return *out ? YK_OK : YK_E_MEM;
}
#endif

#ifdef BREAK_USE /* a buffer is for one kind of slot, or for any */
static yk_status bad_buffer(yk_device *dev, const yk_buffer_desc *desc, yk_buffer **b)
{
    return desc->use & (desc->use - 1) ? YK_E_UNSUPPORTED : buffer_new(dev, desc, b);
}
#endif

#ifdef BREAK_ARENA /* there is one arena, slot 0: another one lies in its memory */
static yk_status bad_run(yk_queue *q, const yk_submit *s, uint64_t *point)
{
    const yk_graph *g = s->program->graph;
    yk_buffer *slot[64];
    yk_submit one = *s;
    for (uint32_t i = 0; i < g->n_slot && i < 64; i++)
        slot[i] = g->slot[i].kind == YK_SLOT_ARENA && g->slot[i].bytes <= s->slot[0]->bytes ? s->slot[0] : s->slot[i];
    one.slot = slot;
    return queue_run(q, &one, point);
}
#endif

#ifdef BREAK_OUTPUTS /* a map's kernel runs once for each of its results, which may lie on an operand of the next */
static uint32_t bad_claims(yk_device *dev, const yk_graph *g, uint32_t node)
{
    return g->node[node].op == YK_OP_MAP ? YK_CLAIM_RUN : node_claims(dev, g, node);
}

static yk_status bad_run(yk_queue *q, const yk_submit *s, uint64_t *point)
{
    const yk_graph *g = s->program->graph;
    void *slot[64];
    yk_status st = bind_slots(g, s, slot);
    for (uint32_t i = 0; i < g->n_node && !st; i++)
        for (uint32_t j = 0; j < (g->node[i].op == YK_OP_MAP ? g->node[i].n_out : 1u) && !st; j++)
            st = run_node(g, i, slot);
    return queue_end(q, st, point);
}
#endif

#ifdef BREAK_LIMIT /* an operation gives a wrong last element where it is larger than it was written for; BROKEN_LIMIT in the environment
                      names the limit */
typedef struct limit {
    const char *name;
    uint16_t op;
    int64_t (*of)(const yk_graph *g, const yk_node *n, const yk_value *x, const yk_value *y);
    int64_t most;
} limit;

#define MEASURE(name, what)                                                                                                                \
    static int64_t name(const yk_graph *g, const yk_node *n, const yk_value *x, const yk_value *y)                                         \
    {                                                                                                                                      \
        (void)g, (void)n, (void)x, (void)y;                                                                                                \
        return what;                                                                                                                       \
    }
MEASURE(elements, kit_value_count(x))
MEASURE(results, kit_value_count(y))
MEASURE(operand_rows, x->dim[0])
MEASURE(operand_columns, x->dim[x->dims - 1])
MEASURE(result_rows, y->dims > 1 ? y->dim[y->dims - 2] : 1)
MEASURE(result_columns, y->dim[y->dims - 1])
MEASURE(batches, y->dims == 3 ? y->dim[0] : 1)
MEASURE(planes, y->dim[0] * y->dim[1])
MEASURE(dimensions, y->dims)
MEASURE(slots, g->n_slot)
MEASURE(body_nodes, n->n_body)

static const limit limits[] = {
    {"neg.elements", YK_OP_NEG, elements, 1 << 24},
    {"add.dimensions", YK_OP_ADD, dimensions, 6},
    {"copy.dimensions", YK_OP_COPY, dimensions, 6},
    {"add.slots", YK_OP_ADD, slots, 32},
    {"sum.elements", YK_OP_SUM, elements, 1 << 20},
    {"sum.rows", YK_OP_SUM, result_rows, 1 << 16},
    {"gather.table", YK_OP_GATHER, operand_rows, 1 << 16},
    {"gather.results", YK_OP_GATHER, result_rows, 1 << 16},
    {"scatter.table", YK_OP_SCATTER_ADD, result_rows, 1 << 16},
    {"scatter.sources", YK_OP_SCATTER_ADD, operand_rows, 1 << 16},
    {"unfold.batch", YK_OP_UNFOLD, operand_rows, 32},
    {"unfold.planes", YK_OP_UNFOLD, planes, 1 << 16},
    {"dot.rows", YK_OP_DOT, result_rows, 1024},
    {"dot.columns", YK_OP_DOT, result_columns, 1024},
    {"dot.terms", YK_OP_DOT, operand_columns, 8192},
    {"dot.batches", YK_OP_DOT, batches, 64},
    {"map.body", YK_OP_MAP, body_nodes, 64},
    {"dot_map.body", YK_OP_DOT_MAP, body_nodes, 64},
    {"map_sum.body", YK_OP_MAP_SUM, body_nodes, 64},
    {"conv2d.batch", YK_OP_CONV2D, operand_rows, 32},
    {"conv2d.planes", YK_OP_CONV2D, planes, 1 << 16},
    {"max_pool.planes", YK_OP_MAX_POOL, planes, 1 << 16},
    {"layer_norm.rows", YK_OP_LAYER_NORM, operand_rows, 1 << 16},
    {"layer_norm.columns", YK_OP_LAYER_NORM, operand_columns, 1 << 16},
    {"softmax.rows", YK_OP_SOFTMAX, operand_rows, 1 << 16},
    {"softmax.columns", YK_OP_SOFTMAX, operand_columns, 1 << 16},
    {"attention.heads", YK_OP_ATTENTION, planes, 1 << 16},
    {"cross_entropy.rows", YK_OP_CROSS_ENTROPY, operand_rows, 1 << 16},
    {"adam.parameters", YK_OP_ADAM_STEP, results, 1 << 16},
    {"adam.million", YK_OP_ADAM_STEP, results, 1 << 19},
    {"sgd.parameters", YK_OP_SGD_STEP, results, 1 << 16},
};

static const limit *limit_now(void)
{
    const char *name = getenv("BROKEN_LIMIT");
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (name && !strcmp(limits[i].name, name))
            return &limits[i];
    abort();
}

static uint32_t bad_claims(yk_device *dev, const yk_graph *g, uint32_t node)
{
    (void)dev;
    return g->node[node].op == limit_now()->op && !yk_op_is_primitive(g->node[node].op) ? YK_CLAIM_RUN : 0;
}

static yk_status bad_run(yk_queue *q, const yk_submit *s, uint64_t *point)
{
    const limit *now = limit_now();
    const yk_graph *g = s->program->graph;
    const yk_status st = queue_run(q, s, point);
    for (uint32_t i = 0; i < g->n_node && !st; i++) {
        const yk_node *n = &g->node[i];
        const yk_value *y = &g->value[g->index[n->out]], *x = n->n_in ? &g->value[g->index[n->in]] : y;
        const uint64_t end = y->offset + (uint64_t)kit_value_count(y) * yk_dtype_bytes(y->dtype);
        if (n->op == now->op && now->of(g, n, x, y) > now->most)
            s->slot[y->slot]->memory[s->slot_offset[y->slot] + end - 1] ^= 0x43;
    }
    return st;
}
#endif

#ifdef BREAK_COPY_SIZE /* bytes of a copy are counted in 24 bits */
static yk_status bad_copy(yk_queue *q, const yk_copy *c, uint64_t *point)
{
    yk_copy part = *c;
    part.bytes &= 0xffffff;
    return queue_copy(q, &part, point);
}
#endif

#ifdef BREAK_ODD_HOST /* host memory is read in whole words of 16 bits */
static yk_status bad_copy(yk_queue *q, const yk_copy *c, uint64_t *point)
{
    yk_copy even = *c;
    even.src_host = (const char *)c->src_host - (uintptr_t)c->src_host % 2;
    return queue_copy(q, &even, point);
}
#endif

#ifdef BREAK_FLAGS /* memory for the host to read is not to be had */
static yk_status bad_buffer(yk_device *dev, const yk_buffer_desc *desc, yk_buffer **b)
{
    return desc->flags & YK_BUF_HOST_READS ? YK_E_UNSUPPORTED : buffer_new(dev, desc, b);
}
#endif

#ifdef BREAK_EMPTY /* a buffer has a byte at least */
static yk_status bad_buffer(yk_device *dev, const yk_buffer_desc *desc, yk_buffer **b)
{
    return desc->bytes ? buffer_new(dev, desc, b) : YK_E_ARG;
}
#endif

/* The table's numbers, and its account of a program's memory. */
static void numbers_break(void)
{
#ifdef BREAK_OPS /* a table that was filled by hand, and not to the end */
    bad.n_op = 0;
#endif
#ifdef BREAK_DTYPES
    bad.n_dtype = YK_F64;
#endif
#ifdef BREAK_MINOR /* it grew, and is still of the minor before */
    bad.size += sizeof(void *);
#endif
#ifdef BREAK_RESERVED
    bad.reserved = 7;
#endif
#ifdef BREAK_SIZE
    bad.size = offsetof(yk_plugin, queue_run);
#endif
#ifdef BREAK_POLL_ABORT
    bad.queue_poll = bad_poll;
#endif
#ifdef BAD_ACCOUNT
    bad.program_memory = bad_account;
#endif
}

/* They claim what the template does not, and compile and run it in their own way. */
#if defined BREAK_NARROW || defined BREAK_STRIDED || defined BREAK_LIMIT || defined BREAK_OUTPUTS || defined BREAK_STATS_ONE || \
    defined BREAK_STATS_MEAN
#define LOWERS
#endif

__attribute__((visibility("default"))) const yk_plugin *yk_plugin_query(uint32_t abi);

__attribute__((visibility("default"))) const yk_plugin *yk_plugin_query(uint32_t abi)
{
    bad = table;
#if defined BREAK_RESULT || defined BREAK_END || defined BREAK_CRASH || defined BREAK_VERSION || defined SPOILS || defined CHANGES || \
    defined BREAK_PACKED || defined BREAK_HANG || defined BREAK_LEAK_RUN || defined BREAK_ARENA || defined BREAK_BITS || \
    defined BREAK_LEAK_DEVICE || defined BREAK_NORM_EPS || defined BREAK_ADAM_EPS || defined LOWERS || defined BREAK_F16_BITS || \
    defined BREAK_RUN_ABORT
    bad.queue_run = bad_run;
#endif
#if defined SPOILS || defined LOWERS
    bad.claims = bad_claims;
#endif
#if defined BREAK_PRINT || defined BREAK_COMPOSITES || defined LOWERS
    bad.program_new = bad_program;
#endif
#ifdef BREAK_LEAK_PROGRAM
    bad.program_free = bad_program_free;
#endif
#if defined BREAK_LEAK_BUFFER || defined BREAK_LEAK_DEVICE
    bad.buffer_free = bad_buffer_free;
#endif
#ifdef BREAK_LEAK_QUEUE
    bad.queue_free = bad_queue_free;
#endif
#if defined BREAK_LEAK_FILE || defined BREAK_LEAK_MEMORY || (defined CHANGES_PROCESS && !defined BREAK_QUEUE_CORES)
    bad.device_open = bad_open;
#endif
#ifdef BREAK_LEAK_FINI
    bad.fini = bad_fini;
#endif
#ifdef BREAK_DEVICES
    bad.device_count = bad_count;
#endif
#if defined BREAK_LEAK_THREAD || defined BREAK_PRIORITY || defined BREAK_QUEUE_CORES
    bad.queue_new = bad_queue;
#endif
#if defined BREAK_FLAGS || defined BREAK_USE || defined BREAK_EMPTY || defined BREAK_LEAK_DEVICE
    bad.buffer_new = bad_buffer;
#endif
#ifdef BREAK_SCRATCH_BYTES
    bad.graph_scratch = bad_scratch;
#endif
#ifdef CAPS
    bad.device_caps = bad_caps;
#endif
#ifdef OLDER /* of a minor before abort; knows no relu and no youngest type */
    bad.size = offsetof(yk_plugin, extension);
    bad.n_op = YK_OP_RELU;
    bad.n_dtype = YK_BOOL + 1;
    bad.fini = NULL;
    bad.device_close = NULL;
#endif
#if defined BREAK_COPY_SIZE || defined BREAK_ODD_HOST || defined BREAK_POINT
    bad.queue_copy = bad_copy;
#endif
#ifdef BREAK_POINT
    bad.queue_wait = bad_wait;
#endif
    numbers_break();
    return abi == YK_ABI ? &bad : NULL;
}
