/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yoke-cts, groups rebind and errors. Group rebind runs a program with other buffers, offsets and contents, and in turn with a second
 * program. It also checks scratch sizes, memory accounts, a program's writes to its operands, and equal bits of repeated runs. Group
 * errors makes calls that a plugin must refuse, then uses the device's queue again. main.c runs each group in a child process with the
 * device under test open.
 */
#include <math.h>
#include <string.h>

#include "core/base/mem.h"
#include "tools/cts/cts.h"

#define M 6
#define K 10
#define N 7

/* y = x w + b with separate slots; unlike: y = x w - b, with one more slot, and slots in another order. */
typedef struct product {
    yk__graph g;
    yk_graph abi;
    yk_program *program;
    bool unlike;
    uint32_t x, w, b, y, n_slot; /* slots, and their number; slot 0 is the arena */
} product;

static yk__vid slot_leaf(yk__graph *g, yk_slot_kind kind, uint32_t dims, const int64_t *dim, uint32_t *slot)
{
    uint64_t bytes = 4;
    for (uint32_t d = 0; d < dims; d++)
        bytes *= (uint64_t)dim[d];
    *slot = yk__slot_new(g, kind, bytes, 0);
    return *slot == YK_NONE ? YK_NONE : yk__leaf(g, *slot, 0, YK_F32, dims, dim);
}

static void value_place(yk__graph *g, yk__vid v, uint32_t slot, uint64_t bytes)
{
    if (v == YK_NONE)
        return;
    g->value[v].slot = slot;
    g->value[v].offset = 0;
    if (g->slot[slot].bytes < bytes)
        g->slot[slot].bytes = bytes;
}

static bool product_new(cts *c, product *p, bool unlike)
{
    static const int64_t x[] = {M, K}, w[] = {K, N}, b[] = {N};
    yk_error err = YK_ERROR_INIT;
    yk__vid vx, vw, vb, t, y;
    memset(p, 0, sizeof *p);
    p->unlike = unlike;
    yk__graph_init(&p->g);
    if (unlike) {
        yk__slot_new(&p->g, YK_SLOT_RESULT, 64, 0);
        vb = slot_leaf(&p->g, YK_SLOT_PARAM, 1, b, &p->b);
        vw = slot_leaf(&p->g, YK_SLOT_PARAM, 2, w, &p->w);
        vx = slot_leaf(&p->g, YK_SLOT_INPUT, 2, x, &p->x);
    } else {
        vx = slot_leaf(&p->g, YK_SLOT_INPUT, 2, x, &p->x);
        vw = slot_leaf(&p->g, YK_SLOT_PARAM, 2, w, &p->w);
        vb = slot_leaf(&p->g, YK_SLOT_PARAM, 1, b, &p->b);
    }
    t = yk__dot(&p->g, vx, vw, false, false);
    y = yk__bin(&p->g, unlike ? YK_OP_SUB : YK_OP_ADD, t, vb);
    p->y = yk__slot_new(&p->g, YK_SLOT_RESULT, 0, 0);
    if (y != YK_NONE && p->y != YK_NONE) {
        value_place(&p->g, t, 0, M * N * 4);
        value_place(&p->g, y, p->y, M * N * 4);
        p->g.value[y].flags |= YK_VALUE_OUTPUT;
    }
    p->n_slot = p->y + 1;
    yk__graph_seal(&p->g, &p->abi, &err);
    return cts_error(c, &err) && cts_ok(c, c->t->program_new(c->dev->handle, &p->abi, &p->program), "program_new");
}

static void product_free(cts *c, product *p)
{
    if (p->program)
        c->t->program_free(p->program);
    yk__graph_free(&p->g);
}

typedef struct binding {
    yk_buffer *buffer[8];
    uint64_t offset[8], version[8];
    float x[M * K], w[K * N], b[N], y[M * N];
    float sign; /* sign of b in y */
} binding;

static bool bind_new(cts *c, const product *p, binding *b, uint32_t shift)
{
    uint64_t align = c->dev->caps.align;
    memset(b, 0, sizeof *b);
    b->sign = p->unlike ? -1 : 1;
    for (uint32_t i = 0; i < p->n_slot; i++) {
        b->offset[i] = align * ((shift * (i + 1)) % 7); /* not 0 in any slot, if shift is not */
        b->version[i] = 1;
        if (!cts_ok(c, cts_buffer_new(c, p->abi.slot[i].bytes + b->offset[i] + 64, &b->buffer[i]), "buffer_new"))
            return false;
    }
    return true;
}

static void bind_free(cts *c, const product *p, binding *b)
{
    for (uint32_t i = 0; i < p->n_slot; i++)
        if (b->buffer[i])
            c->t->buffer_free(b->buffer[i]);
}

static void numbers_fill(float *p, uint32_t n, uint64_t *state)
{
    for (uint32_t i = 0; i < n; i++)
        p[i] = (float)cts_below(state, 2001) / 1000 - 1;
}

static bool write_inputs(cts *c, const product *p, binding *b, uint64_t seed, bool weights)
{
    uint64_t state = seed, point;
    numbers_fill(b->x, M * K, &state);
    if (weights) {
        numbers_fill(b->w, K * N, &state);
        numbers_fill(b->b, N, &state);
        b->version[p->w]++, b->version[p->b]++;
    }
    b->version[p->x]++;
    return cts_ok(c, yk_put(c->t, c->dev->queue, b->buffer[p->x], b->offset[p->x], b->x, sizeof b->x, &point), "queue_copy") &&
           (!weights ||
            (cts_ok(c, yk_put(c->t, c->dev->queue, b->buffer[p->w], b->offset[p->w], b->w, sizeof b->w, &point), "put") &&
             cts_ok(c, yk_put(c->t, c->dev->queue, b->buffer[p->b], b->offset[p->b], b->b, sizeof b->b, &point), "put"))) &&
           cts_wait(c, c->dev->queue, point);
}

static bool binding_submit(cts *c, const product *p, binding *b, uint64_t *point)
{
    yk_submit s = {.size = sizeof s,
                   .n_slot = p->n_slot,
                   .program = p->program,
                   .slot = b->buffer,
                   .slot_offset = b->offset,
                   .slot_version = b->version};
    return cts_ok(c, c->t->queue_run(c->dev->queue, &s, point), "queue_run") &&
           cts_ok(c, yk_get(c->t, c->dev->queue, b->buffer[p->y], b->offset[p->y], b->y, sizeof b->y, point), "queue_copy");
}

static bool binding_right(cts *c, const binding *b, const char *what)
{
    const double loss = yk__product_loss(&c->dev->caps);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            double y = (double)b->sign * b->b[j], terms = 0;
            for (int k = 0; k < K; k++) {
                y += (double)b->x[i * K + k] * b->w[k * N + j];
                terms += fabs((double)b->x[i * K + k] * b->w[k * N + j]);
            }
            if (!(fabs(y - b->y[i * N + j]) < 1e-5 + loss * terms)) {
                cts_fail(c, "%s: element %d,%d is %.8g, expected %.8g", what, i, j, b->y[i * N + j], y);
                return false;
            }
        }
    return true;
}

/* Two sets of buffers in turn. */
static void test_bindings(cts *c, const product *p)
{
    binding b[2] = {{.offset = {0}}, {.offset = {0}}};
    uint64_t point = 0;
    bool ok;
    if (!cts_begin(c, "buffers"))
        return;
    ok = bind_new(c, p, &b[0], 0) && bind_new(c, p, &b[1], 1);
    for (int i = 0; ok && i < 2; i++)
        ok = write_inputs(c, p, &b[i], 10 + (uint64_t)i, true);
    for (int round = 0; ok && round < 2; round++) {
        for (int i = 0; ok && i < 2; i++)
            ok = binding_submit(c, p, &b[i], &point);
        if (ok && (ok = cts_wait(c, c->dev->queue, point)))
            ok = binding_right(c, &b[0], "first buffers") && binding_right(c, &b[1], "other buffers and offsets");
    }
    cts_pass(c);
    for (int i = 0; i < 2; i++)
        bind_free(c, p, &b[i]);
}

/* New contents in the same buffers. */
static void test_contents(cts *c, const product *p)
{
    binding b;
    uint64_t point = 0;
    bool ok;
    if (!cts_begin(c, "contents"))
        return;
    ok = bind_new(c, p, &b, 1) && write_inputs(c, p, &b, 11, true);
    for (int round = 0; ok && round < 4; round++)
        ok = write_inputs(c, p, &b, 100 + (uint64_t)round, round % 2) && binding_submit(c, p, &b, &point) &&
             cts_wait(c, c->dev->queue, point) &&
             binding_right(c, &b, round % 2 ? "new weights, higher versions" : "new input, same weights");
    cts_pass(c);
    bind_free(c, p, &b);
}

/* Runs two programs in turn, fifty times, without a wait, and compares the last results. The second is compiled while the first exists. */
static void test_in_flight(cts *c, const product *p)
{
    product other;
    binding b, d;
    uint64_t point = 0;
    bool ok;
    if (!cts_begin(c, "in_flight"))
        return;
    memset(&b, 0, sizeof b);
    memset(&d, 0, sizeof d);
    ok = product_new(c, &other, true) && bind_new(c, p, &b, 2) && bind_new(c, &other, &d, 3) && write_inputs(c, p, &b, 5, true) &&
         write_inputs(c, &other, &d, 6, true);
    for (int i = 0; ok && i < 50; i++)
        ok = binding_submit(c, p, &b, &point) && binding_submit(c, &other, &d, &point);
    if (ok && cts_wait(c, c->dev->queue, point) && binding_right(c, &b, "first program"))
        binding_right(c, &d, "second program");
    cts_pass(c);
    bind_free(c, p, &b);
    bind_free(c, &other, &d);
    product_free(c, &other);
}

/* y = x w, then w becomes w/2 where it lies: the second run sees it, though no version has grown. */
static void test_own_writes(cts *c)
{
    static const int64_t x[] = {M, K}, w[] = {K, N};
    yk__simple_how how = {.claims = yk__simple_claims, .arg = c->dev, .align = c->dev->caps.align};
    cts_check k;
    yk_error err = YK_ERROR_INIT;
    yk__simple s;
    yk__vid vw, y, half;
    void **slot = NULL, **want = NULL;
    if (!cts_begin(c, "own_writes"))
        return;
    cts_check_init(&k, c);
    k.tol = CTS_LARGEST, k.n = K, k.in_type = YK_F32;
    vw = cts_state(&k.g, YK_F32, CTS_UNIT, 0, 2, w);
    y = yk__dot(&k.g, cts_leaf(&k.g, YK_F32, CTS_UNIT, 1, 2, x), vw, false, false);
    half = yk__scale(&k.g, vw, 0.5);
    if (half != YK_NONE) {
        k.g.value[half].slot = k.g.value[vw].slot;
        k.g.value[half].offset = k.g.value[vw].offset;
    }
    if (!yk__simple_new(&k.g, &how, 1, &y, &s, &err)) {
        slot = yk__simple_slots(&s), want = yk__simple_slots(&s);
        cts_fill(&s, slot, 1, false);
        cts_fill(&s, want, 1, false);
        for (int run = 0; run < 3 && !err.status; run++)
            yk__simple_eval(&s, want, &err);
        yk__simple_runs(&s, c->dev, slot, 3, &err);
        if (cts_error(c, &err))
            cts_compare(c, &k, 0, &s.abi.value[y], (uint8_t *)slot[s.result] + s.abi.value[y].offset,
                        &(cts_reference){.v = &s.abi.value[y], .at = (uint8_t *)want[s.result] + s.abi.value[y].offset});
        yk__simple_slots_free(&s, slot);
        yk__simple_slots_free(&s, want);
        yk__simple_free(&s);
    } else {
        cts_error(c, &err);
    }
    cts_check_free(&k);
    cts_pass(c);
}

/* The scratch bytes are known before the run, and equal for equal graphs. */
static void test_scratch(cts *c, const product *p)
{
    uint64_t bytes = 0, again = 0;
    if (!cts_begin(c, "scratch"))
        return;
    if (!c->t->graph_scratch)
        cts_unsupported(c, "no graph_scratch");
    else if (cts_ok(c, c->t->graph_scratch(c->dev->handle, &p->abi, &bytes), "graph_scratch") &&
             cts_ok(c, c->t->graph_scratch(c->dev->handle, &p->abi, &again), "graph_scratch once more") && bytes != again)
        cts_fail(c, "graph_scratch says %llu bytes, then %llu for the same graph", (unsigned long long)bytes,
                 (unsigned long long)again);
    else if (c->dev->caps.mem_total && bytes > c->dev->caps.mem_total)
        cts_fail(c, "graph_scratch says %llu bytes; the device has %llu", (unsigned long long)bytes,
                 (unsigned long long)c->dev->caps.mem_total);
    cts_pass(c);
}

/* False if the plugin writes beyond the size of a shorter struct, as an older host has. */
static bool account_keeps_short(cts *c, const yk_program *program)
{
    struct {
        yk_program_memory m;
        uint64_t behind;
    } old;
    memset(&old, 0xa5, sizeof old);
    const yk_program_memory kept = old.m;
    old.m.size = offsetof(yk_program_memory, temporary);
    old.m.reserved = 0;
    return !cts_ok(c, c->t->program_memory(program, &old.m), "program_memory of a shorter struct") ||
           !memcmp(&old.m.temporary, &kept.temporary, sizeof kept - offsetof(yk_program_memory, temporary));
}

/* Equal programs have equal accounts. An account counts at least the bytes of the product's arguments and results. */
static void account_check(cts *c, const product *p, const product *twin)
{
    const uint64_t in = 4 * (M * K + K * N + N), out = 4 * M * N;
    yk_program_memory m = {.size = sizeof m}, again = {.size = sizeof again};
    const yk_status s = c->t->program_memory(p->program, &m);
    if (s == YK_E_UNSUPPORTED)
        cts_unsupported(c, "no account of this program");
    else if (!cts_ok(c, s, "program_memory") || !cts_ok(c, c->t->program_memory(twin->program, &again), "program_memory of its twin"))
        return;
    else if (memcmp(&m, &again, sizeof m))
        cts_fail(c, "program_memory says %llu temporary bytes, and another account for an equal program (%llu)",
                 (unsigned long long)m.temporary, (unsigned long long)again.temporary);
    else if (m.alias > m.argument || m.alias > m.result)
        cts_fail(c, "program_memory says that %llu bytes of %llu and %llu are shared", (unsigned long long)m.alias,
                 (unsigned long long)m.argument, (unsigned long long)m.result);
    else if (m.argument < in || m.result < out)
        cts_fail(c, "program_memory says %llu bytes of arguments and %llu of results; expected %llu and %llu at least",
                 (unsigned long long)m.argument, (unsigned long long)m.result, (unsigned long long)in, (unsigned long long)out);
    else if (!account_keeps_short(c, p->program))
        cts_fail(c, "program_memory writes behind the size of the host's struct");
}

static void test_account(cts *c, const product *p)
{
    product twin;
    if (!cts_begin(c, "account"))
        return;
    if (product_new(c, &twin, false))
        account_check(c, p, &twin);
    product_free(c, &twin);
    cts_pass(c);
}

/* ---- Equal bits ---- */

/* Wants operations whose bits vary unless the device fixes their order: long sums, a product, and a scatter_add of many rows to few. */
static void sums_want(cts_check *k)
{
    static const int64_t row[] = {3, 20011}, column[] = {2003, 5}, left[] = {16, 3001}, right[] = {3001, 16}, src[] = {2003, 8},
                         index[] = {2003};
    yk__graph *g = &k->g;
    const yk__vid rows = cts_leaf(g, YK_F32, CTS_UNIT, 0, 2, row), columns = cts_leaf(g, YK_F32, CTS_UNIT, 1, 2, column);
    cts_want(k, yk__sum(g, rows, 2));
    cts_want(k, yk__sum(g, rows, 3));
    cts_want(k, yk__sum(g, columns, 1));
    cts_want(k, yk__dot(g, cts_leaf(g, YK_F32, CTS_UNIT, 2, 2, left), cts_leaf(g, YK_F32, CTS_UNIT, 3, 2, right), false, false));
    cts_want(k, yk__scatter_add(g, cts_leaf(g, YK_F32, CTS_UNIT, 4, 2, src), cts_leaf(g, YK_I32, CTS_INDEX, 5, 1, index), 5));
}

#define SAME_RUNS 5

static void bits_compare(cts *c, const yk__simple *s, uint64_t seed)
{
    yk_error err = YK_ERROR_INIT;
    const uint64_t bytes = s->abi.slot[s->result].bytes;
    void **first = yk__simple_slots(s), **again = yk__simple_slots(s);
    for (int run = 0; first && again && run < SAME_RUNS && !c->failed_now; run++) {
        void **slot = run ? again : first;
        cts_fill(s, slot, seed, false);
        yk__simple_run(s, c->dev, slot, &err);
        if (cts_error(c, &err) && run && memcmp(first[s->result], again[s->result], bytes))
            cts_fail(c, "YK_CAP_DETERMINISTIC, but run %d gives other bits than the first", run + 1);
    }
    yk__simple_slots_free(s, first);
    yk__simple_slots_free(s, again);
}

/* Plans a check's wanted values, and compares the bits of some runs. The caller frees the check. */
static void bits_check(cts *c, cts_check *k)
{
    const yk__simple_how how = {.claims = yk__simple_claims, .arg = c->dev, .align = c->dev->caps.align};
    yk_error err = YK_ERROR_INIT;
    yk__simple s;
    yk__simple_new(&k->g, &how, k->n_want, k->want, &s, &err);
    if (cts_error(c, &err)) {
        bits_compare(c, &s, k->seed);
        yk__simple_free(&s);
    }
}

/* Claimed composites that add: one case each. *done: bits of the finished ones. */
static void composite_bits(cts *c, cts_check *k, const char *name, uint32_t *done)
{
    static const char *const adding[] = {"conv2d_dw.", "layer_norm_bwd.", "bn_stats.", "grad_stats", "attention_bwd."};
    yk_error err = YK_ERROR_INIT;
    for (uint32_t i = 0; i < sizeof adding / sizeof *adding; i++)
        if (!(*done & 1u << i) && !strncmp(name, adding[i], strlen(adding[i])) && cts_claimed(c, k, &err)) {
            *done |= 1u << i;
            bits_check(c, k);
        }
}

static void composites_bits(cts *c)
{
    uint32_t done = 0;
    for (uint32_t i = 0; i < cts_n_composite; i++)
        for (uint32_t number = 0, more = 1; more && !c->failed_now; number++) {
            char name[100] = "";
            cts_check k;
            cts_check_init(&k, c);
            more = cts_composites[i](&k, number, YK_F32, name, sizeof name);
            if (more)
                composite_bits(c, &k, name, &done);
            cts_check_free(&k);
        }
}

static void test_bits(cts *c)
{
    cts_check k;
    if (!cts_begin(c, "same_bits"))
        return;
    if (!(c->dev->caps.flags & YK_CAP_DETERMINISTIC)) {
        cts_unsupported(c, "no YK_CAP_DETERMINISTIC");
        return;
    }
    cts_check_init(&k, c);
    sums_want(&k);
    bits_check(c, &k);
    cts_check_free(&k);
    composites_bits(c);
    cts_pass(c);
}

void cts_group_rebind(cts *c)
{
    product p;
    bool made;
    bool begun = cts_begin(c, "program");
    made = product_new(c, &p, false);
    if (begun)
        cts_pass(c);
    if (made) {
        test_bindings(c, &p);
        test_contents(c, &p);
        test_in_flight(c, &p);
        test_scratch(c, &p);
        test_account(c, &p);
    }
    product_free(c, &p);
    test_own_writes(c);
    test_bits(c);
}

/* ---- errors ------------------------------------------------------------------------------------------------------------------ */

/* Compiles a graph that must be refused; why: the reason, in words after `what`. */
static void graph_refused(cts *c, const yk_graph *g, const char *what, const char *why)
{
    yk_program *p = NULL;
    yk_status s = c->t->program_new(c->dev->handle, g, &p);
    if (s == YK_OK) {
        c->t->program_free(p);
        cts_fail(c, "program_new compiles %s, %s; it has to refuse it, in words", what, why);
    } else if (!*yk__plugin_message()) {
        cts_fail(c, "program_new refuses %s without a message through host->fail", what);
    }
}

static void test_unclaimed(cts *c)
{
    uint32_t tried = 0;
    if (!cts_begin(c, "unclaimed"))
        return;
    for (uint32_t i = 0; i < cts_n_composite; i++) {
        char name[100];
        cts_check k;
        yk__simple s;
        yk_error err = YK_ERROR_INIT;
        yk__simple_how how = {.align = c->dev->caps.align};
        cts_check_init(&k, c);
        if (cts_composites[i](&k, 0, YK_F32, name, sizeof name) && !cts_claimed(c, &k, &err) && !err.status &&
            !yk__simple_new(&k.g, &how, k.n_want, k.want, &s, &err)) {
            graph_refused(c, &s.abi, name, "a composite to which claims answers 0");
            yk__simple_free(&s);
            tried++;
        }
        cts_check_free(&k);
    }
    if (!tried)
        cts_unsupported(c, "all that was tried is claimed");
    else
        cts_pass(c);
}

/* Puts operation number op into a valid graph, which program_new must refuse. */
static void no_operation(cts *c, uint16_t op, const char *name)
{
    static const int64_t dim[] = {5};
    cts_check k;
    yk__simple s;
    yk_error err = YK_ERROR_INIT;
    yk__simple_how how = {.align = c->dev->caps.align};
    if (!cts_begin(c, "%s", name))
        return;
    cts_check_init(&k, c);
    cts_want(&k, yk__un(&k.g, YK_OP_NEG, cts_leaf(&k.g, YK_F32, CTS_UNIT, 0, 1, dim)));
    yk__simple_new(&k.g, &how, k.n_want, k.want, &s, &err);
    if (cts_error(c, &err)) {
        s.g.node[0].op = op;
        graph_refused(c, &s.abi, name, "which no plugin can know");
        yk__simple_free(&s);
    }
    cts_pass(c);
    cts_check_free(&k);
}

/* A refusal leaves the queue unchanged. */
static void after_refusal(cts *c, yk_queue *q, yk_buffer *b)
{
    uint8_t data[8] = {0};
    uint64_t point = 0;
    if (!cts_ok(c, yk_put(c->t, q, b, 0, data, sizeof data, &point), "the call after a refused one"))
        return;
    if (point != 1)
        cts_fail(c, "a refused call took a point: the next is %llu", (unsigned long long)point);
    cts_wait(c, q, point);
}

/* One copy that must be refused at once, in words. */
static void copy_refused(cts *c, const char *name, yk_queue *q, yk_buffer *b, const yk_copy *copy)
{
    uint64_t point = 0;
    yk_status s = c->t->queue_copy(q, copy, &point);
    if (s != YK_E_ARG)
        cts_fail(c, "%s: %s, expected YK_E_ARG", name, yk__status_name(s));
    else if (!*yk__plugin_message())
        cts_fail(c, "%s: refused without a message through host->fail", name);
    else
        after_refusal(c, q, b);
}

static void test_refused_copy(cts *c, const char *name, uint64_t offset, bool host_to_host)
{
    uint8_t data[64] = {0}, other[64];
    yk_copy copy = {.size = sizeof copy, .src_host = data, .dst_offset = offset, .bytes = 32};
    yk_queue *q = NULL;
    yk_buffer *b = NULL;
    if (!cts_begin(c, "%s", name) || !cts_ok(c, cts_queue_new(c, YK_QUEUE_COMPUTE, &q), "queue_new"))
        return;
    if (cts_ok(c, cts_buffer_new(c, 32, &b), "buffer_new")) {
        copy.dst = host_to_host ? NULL : b;
        copy.dst_host = host_to_host ? other : NULL;
        copy_refused(c, name, q, b, &copy);
        c->t->buffer_free(b);
    }
    c->t->queue_free(q);
    yk__plugin_message();
    cts_pass(c);
}

typedef enum bad_binding { SLOT_TOO_FEW, SLOT_TOO_MANY, SLOT_SHORT } bad_binding;

/* Submits a run with a slot too few or too many, or with a short buffer. The plugin must refuse it. */
static void run_refused(cts *c, const char *name, const product *p, binding *b, yk_queue *q, bad_binding how)
{
    yk_submit s = {.size = sizeof s, .n_slot = p->n_slot, .program = p->program, .slot = b->buffer, .slot_offset = b->offset,
                   .slot_version = b->version};
    uint64_t point = 0;
    yk_buffer *whole = b->buffer[p->x], *part = NULL;
    if (!cts_ok(c, cts_buffer_new(c, p->abi.slot[p->x].bytes - 4, &part), "buffer_new"))
        return;
    if (how == SLOT_SHORT)
        b->buffer[p->x] = part;
    s.n_slot = p->n_slot + (how == SLOT_TOO_MANY) - (how == SLOT_TOO_FEW);
    const yk_status st = c->t->queue_run(q, &s, &point);
    b->buffer[p->x] = whole;
    if (st != YK_E_ARG)
        cts_fail(c, "a run with %s: %s, expected YK_E_ARG", name, yk__status_name(st));
    else if (!*yk__plugin_message())
        cts_fail(c, "a run with %s: refused without a message through host->fail", name);
    else
        after_refusal(c, q, whole);
    if (!st)
        c->t->queue_wait(q, point, c->timeout_ns);
    c->t->buffer_free(part);
}

static void test_refused_run(cts *c, const char *name, bad_binding how)
{
    product p = {.program = NULL};
    binding b;
    yk_queue *q = NULL;
    if (!cts_begin(c, "%s", name) || !cts_ok(c, cts_queue_new(c, YK_QUEUE_COMPUTE, &q), "queue_new"))
        return;
    memset(&b, 0, sizeof b);
    if (product_new(c, &p, false) && bind_new(c, &p, &b, 0))
        run_refused(c, name, &p, &b, q, how);
    c->t->queue_free(q);
    bind_free(c, &p, &b);
    product_free(c, &p);
    yk__plugin_message();
    cts_pass(c);
}

static void other_queue_works(cts *c)
{
    uint8_t data[64] = {7}, back[64] = {0};
    yk_buffer *b = NULL;
    uint64_t point = 0;
    if (!cts_begin(c, "other_queue") || !cts_ok(c, cts_buffer_new(c, 64, &b), "buffer_new"))
        return;
    if (cts_ok(c, yk_put(c->t, c->dev->queue, b, 0, data, 64, &point), "queue_copy") &&
        cts_ok(c, yk_get(c->t, c->dev->queue, b, 0, back, 64, &point), "queue_copy") && cts_wait(c, c->dev->queue, point) &&
        memcmp(data, back, 64))
        cts_fail(c, "another queue is disturbed by the failure of one");
    c->t->buffer_free(b);
    cts_pass(c);
}

void cts_group_errors(cts *c)
{
    test_unclaimed(c);
    no_operation(c, YK_OP_COUNT + 5, "unknown_operation");
    no_operation(c, YK_OP_ALL_REDUCE, "operation_of_the_core");
    test_refused_copy(c, "beyond_the_end", 1ull << 40, false);
    test_refused_copy(c, "across_the_end", 1, false);
    test_refused_copy(c, "host_to_host", 0, true);
    test_refused_run(c, "a_slot_too_few", SLOT_TOO_FEW);
    test_refused_run(c, "a_slot_too_many", SLOT_TOO_MANY);
    test_refused_run(c, "a_slot_too_short", SLOT_SHORT);
    other_queue_works(c);
}
