/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yoke-cts, group offsets: copies, values, slots and rows at 5 GiB of a buffer, which offsets of 32 bits turn into 1 GiB. main.c runs the
 * group in a child process. Tests touch little of the buffer, so that a device with the host's memory takes some MiB of it. Places come in
 * pairs that are equal in 31 or 32 bits.
 */
#include "config.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/process/cgroup.h"
#include "core/base/clock.h"
#include "core/base/mem.h"
#include "tools/cts/cts_ops.h"

#define GIB (1ull << 30)
#define FAR (5 * GIB)
#define NEAR GIB          /* the same in 32 bits */
#define MIDDLE (3 * GIB)  /* the same as NEAR in 31 bits */
#define FAR_OUT (4 * GIB + GIB / 2)
#define NEAR_OUT (GIB / 2)
#define BYTES (FAR + (1u << 20))
#define NEEDED (6 * GIB)  /* bytes of memory, for devices that reserve a whole buffer at once */
#define COPIED 3000
#define WINDOW (1ull << 20)
#define LENGTH (4 * GIB + WINDOW) /* of a copy; the rest of a division by 2^32 is WINDOW */
#define COUNT 256         /* elements of a value */
#define WIDTH 4096        /* elements of a row */
#define ROWS 3
#define SLOTS 6
#define TRIED_ROWS 16384  /* rows of a table of 256 MiB; looking them up takes less than TRIED_S unless it reads the whole table */
#define TRIED_S 0.2
#define MOST_SCRATCH (64u << 20)

typedef struct large {
    cts *c;
    yk_buffer *buffer; /* BYTES long */
} large;

static bool bytes_put(cts *c, yk_buffer *b, uint64_t at, const void *data, uint64_t bytes)
{
    uint64_t point = 0;
    return cts_ok(c, yk_put(c->t, c->dev->queue, b, at, data, bytes, &point), "queue_copy to a buffer of 5 GiB") &&
           cts_wait(c, c->dev->queue, point);
}

static bool bytes_get(cts *c, yk_buffer *b, uint64_t at, void *data, uint64_t bytes)
{
    uint64_t point = 0;
    return cts_ok(c, yk_get(c->t, c->dev->queue, b, at, data, bytes, &point), "queue_copy from a buffer of 5 GiB") &&
           cts_wait(c, c->dev->queue, point);
}

/* ---- Copies ---- */

static const uint64_t copied_at[] = {NEAR + 5, MIDDLE + 5, 4 * GIB - COPIED / 2, FAR + 5};
#define PLACES (sizeof copied_at / sizeof *copied_at)

static void place_check(cts *c, yk_buffer *b, uint32_t i, uint32_t seed, const char *how)
{
    uint8_t got[COPIED], want[COPIED];
    char what[100];
    cts_pattern_fill(want, COPIED, seed + i);
    snprintf(what, sizeof what, "what %s at byte %llu of a buffer of 5 GiB", how, (unsigned long long)copied_at[i]);
    if (bytes_get(c, b, copied_at[i], got, COPIED))
        cts_bytes_same(c, got, want, COPIED, what);
}

static void copies_of_host(large *l)
{
    uint8_t data[COPIED];
    for (uint32_t i = 0; i < PLACES && !l->c->failed_now; i++) {
        cts_pattern_fill(data, COPIED, i);
        bytes_put(l->c, l->buffer, copied_at[i], data, COPIED);
    }
    for (uint32_t i = 0; i < PLACES && !l->c->failed_now; i++)
        place_check(l->c, l->buffer, i, 0, "the host put");
}

/* To the places and back from them by copies between buffers. */
static void copies_of_device(large *l, yk_buffer *small)
{
    cts *c = l->c;
    uint8_t data[COPIED], got[COPIED];
    uint64_t point = 0;
    for (uint32_t i = 0; i < PLACES && !c->failed_now; i++) {
        const yk_copy there = {.size = sizeof there, .src = small, .dst = l->buffer, .dst_offset = copied_at[i], .bytes = COPIED};
        cts_pattern_fill(data, COPIED, 20 + i);
        if (bytes_put(c, small, 0, data, COPIED) && cts_ok(c, c->t->queue_copy(c->dev->queue, &there, &point), "queue_copy"))
            cts_wait(c, c->dev->queue, point);
    }
    for (uint32_t i = 0; i < PLACES && !c->failed_now; i++) {
        const yk_copy back = {.size = sizeof back, .src = l->buffer, .src_offset = copied_at[i], .dst = small, .bytes = COPIED};
        place_check(c, l->buffer, i, 20, "another buffer gave");
        cts_pattern_fill(data, COPIED, 20 + i);
        if (!c->failed_now && cts_ok(c, c->t->queue_copy(c->dev->queue, &back, &point), "queue_copy") &&
            bytes_get(c, small, 0, got, COPIED))
            cts_bytes_same(c, got, data, COPIED, "what another buffer got from a place beyond 4 GiB");
    }
}

static void test_copies(large *l)
{
    yk_buffer *small = NULL;
    if (!cts_begin(l->c, "copy"))
        return;
    copies_of_host(l);
    if (!l->c->failed_now && cts_ok(l->c, cts_buffer_new(l->c, COPIED, &small), "buffer_new"))
        copies_of_device(l, small);
    if (small)
        l->c->t->buffer_free(small);
    cts_pass(l->c);
}

/* One page of host memory many times in a row, so that a copy of more than 4 GiB touches little; NULL if the host cannot. */
static uint8_t *window_new(void)
{
    const int file = memfd_create("yoke-cts", MFD_CLOEXEC);
    uint8_t *at = mmap(NULL, LENGTH, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    bool ok = file >= 0 && at != MAP_FAILED && !ftruncate(file, WINDOW);
    for (uint64_t i = 0; i < LENGTH && ok; i += WINDOW)
        ok = mmap(at + i, WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) != MAP_FAILED;
    if (file >= 0)
        close(file);
    if (!ok && at != MAP_FAILED)
        munmap(at, LENGTH);
    return ok ? at : NULL;
}

/* A copy of 4 GiB and 1 MiB to the host, whose last part is the only one with numbers: a length of 32 bits ends before it. */
static void test_length(large *l)
{
    uint8_t data[COPIED];
    uint8_t *window;
    cts *c = l->c;
    if (!cts_begin(c, "length"))
        return;
    window = window_new();
    if (!window)
        cts_unsupported(c, "the host maps no page so often");
    cts_pattern_fill(data, COPIED, 40);
    if (window && bytes_put(c, l->buffer, LENGTH - COPIED, data, COPIED) && bytes_get(c, l->buffer, 0, window, LENGTH))
        cts_bytes_same(c, window + WINDOW - COPIED, data, COPIED, "the end of a copy of 4 GiB and 1 MiB");
    if (window)
        munmap(window, LENGTH);
    cts_pass(c);
}

/* ---- Programs ---- */

/* Buffers of the slots that the graph's builder made; the planner's are added here. */
typedef struct bound {
    yk_buffer *slot[SLOTS], *own[SLOTS];
    uint64_t offset[SLOTS], version[SLOTS];
} bound;

static bool slots_add(cts *c, const yk__simple *plan, bound *b)
{
    for (uint32_t i = 0; i < plan->abi.n_slot && i < SLOTS; i++) {
        const uint64_t bytes = plan->abi.slot[i].bytes;
        if (!b->slot[i] && bytes && !cts_ok(c, cts_buffer_new(c, bytes, &b->own[i]), "buffer_new"))
            return false;
        b->slot[i] = b->slot[i] ? b->slot[i] : b->own[i];
    }
    return true;
}

static bool graph_fits(cts *c, const yk__simple *plan)
{
    uint64_t scratch = 0;
    if (c->t->graph_scratch && cts_ok(c, c->t->graph_scratch(c->dev->handle, &plan->abi, &scratch), "graph_scratch") &&
        scratch > MOST_SCRATCH)
        cts_unsupported(c, "it takes %llu MiB of scratch memory here", (unsigned long long)(scratch >> 20));
    return !c->failed_now;
}

/* Runs the graph and brings the wanted value to the host; out NULL: not. */
static bool graph_run(cts *c, yk__graph *g, yk__vid want, bound *b, void *out)
{
    const yk__simple_how how = {.claims = yk__simple_claims, .arg = c->dev, .align = c->dev->caps.align};
    yk_error err = YK_ERROR_INIT;
    yk__simple plan;
    yk_program *p = NULL;
    uint64_t point = 0;
    if (yk__simple_new(g, &how, 1, &want, &plan, &err))
        return cts_error(c, &err);
    bool ok = graph_fits(c, &plan) && slots_add(c, &plan, b) && cts_ok(c, c->t->program_new(c->dev->handle, &plan.abi, &p), "program_new");
    const yk_submit s = {.size = sizeof s, .n_slot = plan.abi.n_slot, .program = p, .slot = b->slot, .slot_offset = b->offset,
                         .slot_version = b->version};
    const yk_value *v = &plan.abi.value[want];
    ok = ok && cts_ok(c, c->t->queue_run(c->dev->queue, &s, &point), "queue_run") && cts_wait(c, c->dev->queue, point) &&
         (!out || bytes_get(c, b->slot[v->slot], b->offset[v->slot] + v->offset, out, yk__value_bytes(v)));
    if (p)
        c->t->program_free(p);
    yk__simple_free(&plan);
    return ok;
}

static void bound_free(cts *c, bound *b)
{
    for (uint32_t i = 0; i < SLOTS; i++)
        if (b->own[i])
            c->t->buffer_free(b->own[i]);
}

static void numbers_fill(float *x, uint32_t n, uint32_t seed)
{
    for (uint32_t i = 0; i < n; i++)
        x[i] = (float)(i * 7 % 1001 + seed * 5000); /* whole, so that sums are exact */
}

static void numbers_compare(cts *c, const float *got, const float *want, uint32_t n, const char *what)
{
    for (uint32_t i = 0; i < n && !c->failed_now; i++)
        if (!(got[i] == want[i]))
            cts_fail(c, "%s: element %u is %g, expected %g", what, i, got[i], want[i]);
}

/* a - b of two values of one slot, to a third one there; or of two slots of one buffer to a third. */
static void test_values(large *l, const char *name, bool slots)
{
    static const int64_t dim[] = {COUNT};
    static const uint64_t at[] = {NEAR, FAR, FAR_OUT};
    float a[COUNT], b[COUNT], want[COUNT], got[COUNT] = {0}, before[COUNT] = {0};
    yk__vid v[3];
    bound bind = {.slot = {NULL}};
    yk__graph g;
    cts *c = l->c;
    if (!cts_begin(c, "%s", name))
        return;
    yk__graph_init(&g);
    uint32_t slot = 0;
    for (uint32_t i = 0; i < 3; i++) {
        if (slots || i == 0)
            slot = yk__slot_new(&g, YK_SLOT_STATE, slots ? sizeof a : BYTES, 0);
        v[i] = yk__leaf(&g, slot, slots ? 0 : at[i], YK_F32, 1, dim);
        bind.slot[slot] = l->buffer;
        bind.offset[slot] = slots ? at[i] : 0;
    }
    yk__node_new(&g, YK_OP_SUB, 0, 2, v, 1, v + 2, 0, NULL);
    numbers_fill(a, COUNT, 1);
    numbers_fill(b, COUNT, 3);
    for (uint32_t i = 0; i < COUNT; i++)
        want[i] = a[i] - b[i];
    if (bytes_put(c, l->buffer, NEAR, a, sizeof a) && bytes_put(c, l->buffer, FAR, b, sizeof b) &&
        bytes_put(c, l->buffer, NEAR_OUT, before, sizeof before) && bytes_put(c, l->buffer, FAR_OUT, before, sizeof before) &&
        graph_run(c, &g, v[2], &bind, got)) {
        numbers_compare(c, got, want, COUNT, slots ? "a slot at 5 GiB of its buffer" : "a value at 5 GiB of its slot");
        if (!c->failed_now && bytes_get(c, l->buffer, NEAR_OUT, got, sizeof got))
            numbers_compare(c, got, before, COUNT, "memory that the program does not write, 4 GiB before its result");
    }
    bound_free(c, &bind);
    yk__graph_free(&g);
    cts_pass(c);
}

/* ---- Rows ---- */

static const uint64_t row_at[ROWS] = {FAR, NEAR, MIDDLE};
#define ROW_BYTES (WIDTH * sizeof(float))

typedef struct rows_test {
    yk__graph g;
    bound bind;
    yk__vid table, index;
    float row[ROWS][WIDTH], got[ROWS][WIDTH];
} rows_test;

/* False if a look-up reads the whole table, as host->eval_node does. */
static bool rows_are_picked(large *l)
{
    static const int64_t table[] = {TRIED_ROWS, WIDTH}, n[] = {ROWS};
    static const int32_t index[ROWS] = {0, 1, 2};
    double least = 1e9;
    for (int i = 0; i < 3 && least > TRIED_S && !l->c->failed_now; i++) {
        bound bind = {.slot = {NULL}};
        yk__vid in[2], y = YK_NONE;
        yk__graph g;
        yk__graph_init(&g);
        const uint32_t slot = yk__slot_new(&g, YK_SLOT_STATE, TRIED_ROWS * ROW_BYTES, 0);
        const uint32_t second = yk__slot_new(&g, YK_SLOT_INPUT, sizeof index, 0);
        in[0] = yk__leaf(&g, slot, 0, YK_F32, 2, table);
        in[1] = yk__leaf(&g, second, 0, YK_I32, 1, n);
        yk__apply(&g, YK_OP_GATHER, 2, in, 0, NULL, YK_DTYPE_COUNT, YK_NONE, NULL, &y, 1);
        bind.slot[slot] = l->buffer;
        if (cts_ok(l->c, cts_buffer_new(l->c, sizeof index, &bind.own[second]), "buffer_new") &&
            bytes_put(l->c, bind.own[second], 0, index, sizeof index)) {
            const double began = yk__clock_seconds();
            bind.slot[second] = bind.own[second];
            graph_run(l->c, &g, y, &bind, NULL);
            least = yk__clock_seconds() - began < least ? yk__clock_seconds() - began : least;
        }
        bound_free(l->c, &bind);
        yk__graph_free(&g);
    }
    if (least > TRIED_S && !l->c->failed_now)
        cts_unsupported(l->c, "a look-up of three rows takes %.1f s of a table of 256 MiB: it reads all of it", least);
    return !l->c->failed_now;
}

/* A table of 5 GiB, numbers in three of its rows, and an index of these. */
static bool rows_begin(large *l, rows_test *t)
{
    const int64_t rows = (int64_t)(FAR / ROW_BYTES) + 1, table[] = {rows, WIDTH}, n[] = {ROWS};
    cts *c = l->c;
    int32_t index[ROWS];
    bool ok = true;
    yk__graph_init(&t->g);
    const uint32_t in_table = yk__slot_new(&t->g, YK_SLOT_STATE, (uint64_t)rows * ROW_BYTES, 0);
    const uint32_t in_index = yk__slot_new(&t->g, YK_SLOT_INPUT, sizeof index, 0);
    t->table = yk__leaf(&t->g, in_table, 0, YK_F32, 2, table);
    t->index = yk__leaf(&t->g, in_index, 0, YK_I32, 1, n);
    t->bind.slot[in_table] = l->buffer;
    for (uint32_t i = 0; i < ROWS && ok; i++) {
        numbers_fill(t->row[i], WIDTH, i + 1);
        index[i] = (int32_t)(row_at[i] / ROW_BYTES);
        ok = bytes_put(c, l->buffer, row_at[i], t->row[i], ROW_BYTES);
    }
    ok = ok && cts_ok(c, cts_buffer_new(c, sizeof index, &t->bind.own[in_index]), "buffer_new") &&
         bytes_put(c, t->bind.own[in_index], 0, index, sizeof index);
    t->bind.slot[in_index] = t->bind.own[in_index];
    return ok;
}

static void rows_end(large *l, rows_test *t)
{
    if (!t)
        return;
    bound_free(l->c, &t->bind);
    yk__graph_free(&t->g);
    yk__free(t);
}

static void test_gather(large *l)
{
    rows_test *t;
    yk__vid y = YK_NONE;
    if (!cts_begin(l->c, "gather"))
        return;
    t = yk__calloc(1, sizeof *t);
    if (t && rows_are_picked(l) && rows_begin(l, t)) {
        const yk__vid in[] = {t->table, t->index};
        yk__apply(&t->g, YK_OP_GATHER, 2, in, 0, NULL, YK_DTYPE_COUNT, YK_NONE, NULL, &y, 1);
        if (graph_run(l->c, &t->g, y, &t->bind, t->got))
            numbers_compare(l->c, t->got[0], t->row[0], ROWS * WIDTH, "rows looked up at 5, 1 and 3 GiB of a table");
    }
    rows_end(l, t);
    cts_pass(l->c);
}

static void added_check(large *l, const rows_test *t)
{
    for (uint32_t i = 0; i < ROWS && !l->c->failed_now; i++) {
        float want[WIDTH];
        for (uint32_t k = 0; k < WIDTH; k++)
            want[k] = t->row[i][k] + (float)(i + 1);
        if (bytes_get(l->c, l->buffer, row_at[i], (void *)t->got[i], ROW_BYTES))
            numbers_compare(l->c, t->got[i], want, WIDTH, "a row added to at 5, 1 or 3 GiB of a table");
    }
}

/* Adds i + 1 to row i of the index; only on devices that add to an output, as a new table of 5 GiB would need 5 GiB of zeros. */
static void test_scatter(large *l)
{
    static const int64_t dim[] = {ROWS, WIDTH};
    cts *c = l->c;
    rows_test *t;
    yk_graph sealed;
    yk_error err = YK_ERROR_INIT;
    if (!cts_begin(c, "scatter_add.accumulate"))
        return;
    t = yk__calloc(1, sizeof *t);
    if (t && rows_begin(l, t)) {
        const uint32_t slot = yk__slot_new(&t->g, YK_SLOT_INPUT, ROWS * ROW_BYTES, 0);
        const yk__vid in[] = {yk__leaf(&t->g, slot, 0, YK_F32, 2, dim), t->index};
        yk__node_new(&t->g, YK_OP_SCATTER_ADD, YK_NODE_ACCUMULATE, 2, in, 1, &t->table, 0, NULL);
        for (uint32_t i = 0; i < ROWS * WIDTH; i++)
            t->got[i / WIDTH][i % WIDTH] = (float)(i / WIDTH + 1);
        if (!yk__graph_seal(&t->g, &sealed, &err) && !(yk__simple_claims(c->dev, &sealed, 0) & YK_CLAIM_ACCUMULATE))
            cts_unsupported(c, "not claimed");
        else if (cts_error(c, &err) && cts_ok(c, cts_buffer_new(c, ROWS * ROW_BYTES, &t->bind.own[slot]), "buffer_new") &&
                 bytes_put(c, t->bind.own[slot], 0, t->got, ROWS * ROW_BYTES)) {
            t->bind.slot[slot] = t->bind.own[slot];
            if (graph_run(c, &t->g, t->table, &t->bind, NULL))
                added_check(l, t);
        }
    }
    rows_end(l, t);
    cts_pass(c);
}

/* Why there is no such buffer; NULL: there is one. */
static const char *large_new(large *l)
{
    const yk_device_caps *k = &l->c->dev->caps;
    const bool host = (k->flags & (YK_CAP_CPU | YK_CAP_HOST_VISIBLE)) != 0;
    if (strcmp(YK_SANITIZER, "none") != 0)
        return "a sanitizer marks each byte of a buffer";
    if ((k->max_alloc && k->max_alloc < BYTES) || (k->max_bind && k->max_bind < BYTES))
        return "a buffer or a slot of this device is smaller than 5 GiB";
    if (cts_free_bytes(l->c) && cts_free_bytes(l->c) < NEEDED)
        return "the device has less than 6 GiB free";
    if (host && yk__cgroup_memory_left() < NEEDED)
        return "the host has less than 6 GiB free";
    if (cts_buffer_new(l->c, BYTES, &l->buffer) == YK_OK)
        return NULL;
    yk__plugin_message();
    return "the device gives no buffer of 5 GiB";
}

void cts_group_offsets(cts *c)
{
    large l = {c, NULL};
    const char *why = c->counting ? NULL : large_new(&l);
    if (why) {
        if (cts_begin(c, "beyond_4gib"))
            cts_unsupported(c, "%s", why);
        return;
    }
    test_copies(&l);
    if (c->longest) /* a device of the host's memory copies 4 GiB for seconds */
        test_length(&l);
    test_values(&l, "value", false);
    test_values(&l, "slot", true);
    test_gather(&l);
    test_scatter(&l);
    if (l.buffer)
        c->t->buffer_free(l.buffer);
}
