/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening a device, the start-up probe, and the validating layer, with the template plugin linked in and made to
 * misbehave.
 */
#include "config.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#undef fail /* a macro of check.h */
#define SANITIZER YK_SANITIZER
#define yk_plugin_query template_query
#include "core/device/device_internal.h"
#include "plugins/template/template.c"

#include <yoke/extension.h>

#include "core/device/device.h"
#include "core/graph/graph.h"

static yk_plugin bad;
static enum fault { NONE, WRONG_RESULT, SKIPS_POINT, WRITES_BEHIND, POLLS_BACK, LIMITS, TAKES_LONG, NEVER_DONE } fault;
static uint64_t waits, longest_wait; /* calls of queue_wait; the longest that one was to take */
static int *ended;                   /* a job's flag, that queue_wait sets; NULL: none */

static yk_status bad_run(yk_queue *q, const yk_submit *s, uint64_t *point)
{
    const yk_graph *g = s->program->graph;
    void *slot[64];
    yk_status st = bind_slots(g, s, slot);
    for (uint32_t i = 0; i < g->n_node && !st; i++) {
        st = run_node(g, i, slot);
        if (fault == WRONG_RESULT && g->node[i].op == YK_OP_DOT) {
            const yk_value *v = &g->value[g->index[g->node[i].out]];
            ((float *)((uint8_t *)slot[v->slot] + v->offset))[5] += 0.01f;
        }
    }
    return queue_end(q, st, point);
}

static yk_status bad_copy(yk_queue *q, const yk_copy *c, uint64_t *point)
{
    const yk_buffer *b = c->dst;
    const uint64_t offset = c->dst_offset, bytes = c->bytes;
    yk_status st = queue_copy(q, c, point);
    if (!b)
        return st;
    if (fault == SKIPS_POINT)
        *point = ++q->point;
    if (fault == WRITES_BEHIND && offset + bytes < b->bytes && bytes == 100) /* the guards are larger */
        b->memory[offset + bytes] = 1;
    return st;
}

static yk_status bad_poll(yk_queue *q, uint64_t *done)
{
    yk_status st = queue_poll(q, done);
    if (fault == POLLS_BACK)
        *done += 7;
    if (fault == TAKES_LONG || fault == NEVER_DONE)
        *done = fault == TAKES_LONG ? 1000 + waits / 4 : 0; /* others are finished meanwhile */
    return st;
}

/* A device in the middle of a point: it waits as long as it is to, a second at most. */
static yk_status bad_wait(yk_queue *q, uint64_t point, uint64_t timeout)
{
    longest_wait = timeout > longest_wait ? timeout : longest_wait;
    if (ended)
        __atomic_store_n(ended, 1, __ATOMIC_RELEASE);
    if (fault == NEVER_DONE || (fault == TAKES_LONG && waits++ < 20)) {
        usleep(timeout < 1000000000 ? (useconds_t)(timeout / 1000) : 1000000);
        return YK_E_TIMEOUT;
    }
    return queue_wait(q, point, timeout);
}

static yk_status bad_caps(uint32_t i, yk_device_caps *caps)
{
    yk_status st = device_caps(i, caps);
    if (fault == LIMITS) {
        caps->max_bind = 1 << 20;
        caps->value_align = 512;
        caps->store |= 1u << YK_I8;
    }
    return st;
}

/* Collectives of a single member: the sum is a copy. */
struct yk_comm {
    yk_device *dev;
};
static yk_comm member;

static yk_status single_join(yk_device *dev, const uint8_t *ticket, uint32_t bytes, uint32_t rank, uint32_t ranks, yk_comm **comm)
{
    (void)ticket, (void)bytes, (void)rank, (void)ranks;
    member.dev = dev;
    *comm = &member;
    return YK_OK;
}

static void single_leave(yk_comm *comm)
{
    comm->dev = NULL;
}

static yk_status single_run(yk_queue *q, yk_comm *comm, const yk_coll_op *op, uint64_t *point)
{
    const yk_copy copy = {.size = sizeof copy, .n_wait = op->n_wait, .wait = op->wait, .src = op->src, .dst = op->dst,
                          .src_offset = op->src_offset, .dst_offset = op->dst_offset, .bytes = op->count * yk_dtype_bytes(op->dtype)};
    return comm == &member && comm->dev ? queue_copy(q, &copy, point) : YK_E_INTERNAL;
}

static const yk_coll single_coll = {.size = sizeof single_coll, .join = single_join, .leave = single_leave, .run = single_run};

static const void *bad_extension(const char *name)
{
    return !strcmp(name, YK_EXT_COLL) ? (const void *)&single_coll : !strcmp(name, YK_EXT_SHARE) ? &bad : NULL;
}

static const yk_plugin *bad_query(uint32_t abi)
{
    bad = table;
    bad.extension = bad_extension;
    bad.device_caps = bad_caps;
    bad.n_op = fault == LIMITS ? YK_OP_RELU : bad.n_op;
    bad.n_dtype = fault == LIMITS ? YK_I8 : bad.n_dtype;
    bad.name = "badx";
    bad.queue_run = bad_run;
    bad.queue_copy = bad_copy;
    bad.queue_poll = bad_poll;
    bad.queue_wait = bad_wait;
    return abi == YK_ABI ? &bad : NULL;
}

static yk__device *open_with(const char *layers, const char *probe, enum fault f, yk_error *err)
{
    yk__placement place = {.plugin = "badx"};
    yk__device *dev = NULL;
    yk__plugin *p;
    static bool registered;
    setenv("YOKE_PLUGIN_DIR", "/nonexistent", 1);
    setenv("YOKE_LAYERS", layers, 1);
    setenv("YOKE_PROBE", probe, 1);
    unsetenv("YOKE_PLUGINS");
    fault = f;
    if (!registered)
        ck_assert_msg(yk__plugin_register(bad_query, "badx", &p, err) == YK_OK, "%s", err->text);
    registered = true;
    yk__device_open(&place, &dev, err);
    return dev;
}

START_TEST(probe_passes_quickly)
{
    yk_error err = YK_ERROR_INIT;
    clock_t begin = clock();
    yk__device *dev = open_with("", "on", NONE, &err);
    double ms = 1e3 * (double)(clock() - begin) / CLOCKS_PER_SEC;
    ck_assert_msg(dev != NULL, "%s", err.text);
    ck_assert_msg(strcmp(YK_SANITIZER, "none") || ms < 100, "the probe took %.1f ms of processor time", ms);
    yk__device_close(dev);
}
END_TEST

START_TEST(probe_refuses_a_wrong_device)
{
    yk_error err = YK_ERROR_INIT;
    yk__device *dev = open_with("", "on", WRONG_RESULT, &err);
    ck_assert_ptr_null(dev);
    ck_assert_ptr_nonnull(strstr(err.text, "badx:0"));
    ck_assert_ptr_nonnull(strstr(err.text, "computes wrongly"));
    err = (yk_error)YK_ERROR_INIT;
    dev = open_with("", "off", WRONG_RESULT, &err);
    ck_assert_msg(dev != NULL, "%s", err.text);
    yk__device_close(dev);
}
END_TEST

START_TEST(a_device_that_is_not_there)
{
    yk_error err = YK_ERROR_INIT;
    yk__placement place = {.plugin = "badx", .device = 4};
    yk__device *dev = open_with("", "off", NONE, &err), *none = NULL;
    ck_assert_ptr_nonnull(dev);
    ck_assert_int_eq(yk__device_open(&place, &none, &err), YK_E_ARG);
    ck_assert_ptr_nonnull(strstr(err.text, "there is no device 4; it has 1"));
    yk__device_close(dev);
}
END_TEST

START_TEST(transfers_and_waits)
{
    yk_error err = YK_ERROR_INIT;
    yk__device *dev = open_with("", "off", NONE, &err);
    const volatile int cancel = 1;
    uint64_t point = 0;
    char data[10] = "yoke", back[10] = "";
    yk_buffer *b = NULL;
    ck_assert_int_eq(yk__device_buffer(dev, 100, &b, &err), YK_OK);
    ck_assert_int_eq(yk__device_put(dev, b, 90, data, 10, &point, &err), YK_OK);
    ck_assert_int_eq(yk__device_get(dev, b, 90, back, 10, &point, &err), YK_OK);
    ck_assert_int_eq(yk__device_wait(dev, point, NULL, &err), YK_OK);
    ck_assert_str_eq(back, "yoke");
    ck_assert_int_eq(yk__device_wait(dev, point + 1, &cancel, &err), YK_E_CANCELLED);
    err = (yk_error)YK_ERROR_INIT;
    ck_assert_int_eq(yk__device_put(dev, b, 95, data, 10, &point, &err), YK_E_ARG);
    ck_assert_ptr_nonnull(strstr(err.text, "badx: copying to the device: bytes 95..105 of a buffer of 100"));
    err = (yk_error)YK_ERROR_INIT;
    ck_assert_int_eq(yk__device_buffer(dev, 1ull << 60, &b, &err), YK_E_MEM);
    ck_assert_ptr_nonnull(strstr(err.text, "a buffer of 1152921504606846976 bytes"));
    dev->table->buffer_free(b);
    yk__device_close(dev);
}
END_TEST

/* It answers, counts points and knows the sizes of its buffers; the plugin gets nothing to do. */
START_TEST(a_device_that_plans_only_holds_nothing)
{
    yk_error err = YK_ERROR_INIT;
    yk__device *dev = open_with("", "off", NONE, &err);
    char data[10] = "yoke", back[10] = "as it was";
    uint64_t point = 0;
    yk_buffer *b = NULL;
    ck_assert_ptr_nonnull(dev);
    ck_assert_int_eq(yk__device_plan_only(dev, &err), YK_OK);
    ck_assert_int_eq(yk__device_buffer(dev, 1ull << 60, &b, &err), YK_OK); /* more than the machine has */
    ck_assert_int_eq(yk__device_put(dev, b, (1ull << 60) - 10, data, 10, &point, &err), YK_OK);
    ck_assert_int_eq(yk__device_get(dev, b, (1ull << 60) - 10, back, 10, &point, &err), YK_OK);
    ck_assert_uint_eq(point, 2);
    ck_assert_int_eq(yk__device_wait(dev, point, NULL, &err), YK_OK);
    ck_assert_str_eq(back, "as it was");
    ck_assert_ptr_null(dev->table->buffer_map(b));
    ck_assert_int_eq(yk__device_put(dev, b, (1ull << 60) - 9, data, 10, &point, &err), YK_E_ARG);
    dev->table->buffer_free(b);
    yk__device_close(dev);
}
END_TEST

START_TEST(layers_let_a_good_plugin_pass)
{
    yk_error err = YK_ERROR_INIT;
    yk__device *dev = open_with("validate,trace,count", "on", NONE, &err);
    uint64_t point = 0;
    char data[100] = "yoke", back[100] = "";
    yk_buffer *b = NULL;
    ck_assert_msg(dev != NULL, "%s", err.text);
    ck_assert_int_eq(yk__device_buffer(dev, 100, &b, &err), YK_OK);
    ck_assert_int_eq(yk__device_put(dev, b, 0, data, 100, &point, &err), YK_OK);
    ck_assert_int_eq(yk__device_get(dev, b, 0, back, 100, &point, &err), YK_OK);
    ck_assert_int_eq(yk__device_wait(dev, point, NULL, &err), YK_OK);
    ck_assert_str_eq(back, "yoke");
    dev->table->buffer_free(b);
    yk__device_close(dev);
    yk__plugins_fini();
}
END_TEST

/* Asks the device for two extensions; text gets the lines on standard error. */
static const void *ask_extension(const char *layers, char *text, size_t capacity)
{
    yk_error err = YK_ERROR_INIT;
    yk__device *dev = open_with(layers, "off", NONE, &err);
    FILE *said = tmpfile();
    const int before = dup(STDERR_FILENO);
    ck_assert(dev && said && before >= 0 && dup2(fileno(said), STDERR_FILENO) >= 0);
    const void *found = dev->table->extension(YK_EXT_SHARE);
    ck_assert_ptr_null(dev->table->extension("yk.none.1"));
    ck_assert_int_ge(dup2(before, STDERR_FILENO), 0);
    close(before);
    rewind(said);
    text[fread(text, 1, capacity - 1, said)] = 0;
    fclose(said);
    yk__device_close(dev);
    return found;
}

START_TEST(an_extension_that_layers_hide_is_reported)
{
    char text[1000];
    if (_i == 0) {
        ck_assert_ptr_eq(ask_extension("", text, sizeof text), &bad);
        ck_assert_str_eq(text, "");
        return;
    }
    ck_assert_ptr_null(ask_extension("count", text, sizeof text));
    ck_assert_msg(strstr(text, "hides " YK_EXT_SHARE " of plugin \"badx\"") != NULL, "'%s'", text);
    ck_assert_ptr_null(strstr(text, "yk.none.1"));
}
END_TEST

/* Under a layer collectives run, and their handles, lengths and points are looked at. */
START_TEST(validate_looks_at_collectives)
{
    yk_error err = YK_ERROR_INIT;
    yk__device *dev = open_with("validate,count", "off", NONE, &err);
    uint64_t point = 0;
    float data[4] = {1.0f, 2.0f, 3.0f, 4.0f}, back[4] = {0.0f};
    yk_buffer *b[2] = {NULL, NULL};
    yk_comm *comm = NULL;
    ck_assert_msg(dev != NULL, "%s", err.text);
    const yk_coll *coll = dev->table->extension(YK_EXT_COLL);
    ck_assert(coll && coll != &single_coll);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(yk__device_buffer(dev, sizeof data, &b[i], &err), YK_OK);
    ck_assert_int_eq(yk__device_put(dev, b[0], 0, data, sizeof data, &point, &err), YK_OK);
    ck_assert_int_eq(coll->join(dev->handle, NULL, 0, 0, 3, &comm), YK_OK);
    const yk_wait wait = {dev->queue, point};
    yk_coll_op op = {.size = sizeof op, .kind = YK_COLL_ALL_REDUCE, .dtype = YK_F32, .wire = YK_F32, .n_wait = 1, .wait = &wait,
                     .src = b[0], .dst = b[1], .src_offset = 4, .count = 3};
    ck_assert_int_eq(coll->run(dev->queue, comm, &op, &point), YK_OK);
    ck_assert_int_eq(yk__device_get(dev, b[1], 0, back, sizeof back, &point, &err), YK_OK);
    ck_assert_int_eq(yk__device_wait(dev, point, NULL, &err), YK_OK);
    ck_assert(back[0] == 2.0f && back[1] == 3.0f && back[2] == 4.0f);
    op.count = 4; /* one past the source's end */
    ck_assert_int_eq(coll->run(dev->queue, comm, &op, &point), YK_E_ARG);
    op.count = 2, op.kind = YK_COLL_REDUCE_SCATTER; /* of three members' parts */
    ck_assert_int_eq(coll->run(dev->queue, comm, &op, &point), YK_E_ARG);
    op.count = UINT64_MAX / 4 + 1, op.kind = YK_COLL_BROADCAST; /* its bytes are 0 in 64 bits */
    ck_assert_int_eq(coll->run(dev->queue, comm, &op, &point), YK_E_ARG);
    coll->leave(comm);
    op.count = 3, op.kind = YK_COLL_ALL_REDUCE;
    ck_assert_int_eq(coll->run(dev->queue, comm, &op, &point), YK_E_INTERNAL);
    ck_assert_ptr_nonnull(strstr(yk__plugin_message(), "is no living communicator"));
    for (int i = 0; i < 2; i++)
        dev->table->buffer_free(b[i]);
    yk__device_close(dev);
}
END_TEST

START_TEST(validate_finds_a_skipped_point)
{
    yk_error err = YK_ERROR_INIT;
    yk__device *dev = open_with("validate", "off", NONE, &err);
    uint64_t point = 0;
    yk_buffer *b = NULL;
    ck_assert_msg(dev != NULL, "%s", err.text);
    ck_assert_int_eq(yk__device_buffer(dev, 64, &b, &err), YK_OK);
    fault = SKIPS_POINT;
    ck_assert_int_eq(yk__device_put(dev, b, 0, "x", 1, &point, &err), YK_E_INTERNAL);
    ck_assert_ptr_nonnull(strstr(err.text, "points grow by one"));
    fault = NONE;
    dev->table->buffer_free(b);
    yk__device_close(dev);
}
END_TEST

START_TEST(validate_finds_a_lying_poll)
{
    yk_error err = YK_ERROR_INIT;
    yk__device *dev = open_with("validate", "off", POLLS_BACK, &err);
    uint64_t done;
    ck_assert_msg(dev != NULL, "%s", err.text);
    ck_assert_int_eq(dev->table->queue_poll(dev->queue, &done), YK_E_INTERNAL);
    ck_assert_ptr_nonnull(strstr(yk__plugin_message(), "were given out"));
    fault = NONE;
    yk__device_close(dev);
}
END_TEST

START_TEST(validate_finds_dead_handles_and_ranges)
{
    yk_error err = YK_ERROR_INIT;
    yk__device *dev = open_with("validate", "off", NONE, &err);
    uint64_t point = 0;
    yk_buffer *b = NULL;
    char data[65] = "";
    ck_assert_msg(dev != NULL, "%s", err.text);
    ck_assert_int_eq(yk__device_buffer(dev, 64, &b, &err), YK_OK);
    ck_assert_int_eq(yk__device_put(dev, b, 0, data, 65, &point, &err), YK_E_ARG);
    ck_assert_ptr_nonnull(strstr(err.text, "65 bytes at 0 of a buffer of 64"));
    dev->table->buffer_free(b);
    err = (yk_error)YK_ERROR_INIT;
    ck_assert_int_eq(yk__device_put(dev, b, 0, data, 1, &point, &err), YK_E_INTERNAL);
    ck_assert_ptr_nonnull(strstr(err.text, "no living buffer"));
    yk__device_close(dev);
}
END_TEST

/* A newer ABI may use these words: it would read the host's garbage. */
START_TEST(validate_finds_a_reserved_word)
{
    yk_error err = YK_ERROR_INIT;
    yk__device *dev = open_with("validate", "off", NONE, &err);
    const int64_t dim = 4;
    yk_program *p = NULL;
    yk__graph g;
    yk_graph view;
    yk__vid x;
    ck_assert_msg(dev != NULL, "%s", err.text);
    yk__graph_init(&g);
    x = yk__leaf(&g, yk__slot_new(&g, YK_SLOT_PARAM, 16, 0), 0, YK_F32, 1, &dim);
    yk__node_new(&g, YK_OP_FILL, 0, 0, NULL, 1, &x, 1, &(int64_t){0});
    ck_assert_int_eq(yk__graph_seal(&g, &view, &err), YK_OK);
    g.node[0].reserved = 7;
    yk__plugin_message();
    ck_assert_uint_eq(dev->table->claims(dev->handle, &view, 0), 0);
    ck_assert_ptr_nonnull(strstr(yk__plugin_message(), "the reserved word of node 0 is 7"));
    g.node[0].reserved = 0;
    g.value[0].reserved = 9;
    ck_assert_int_eq(dev->table->program_new(dev->handle, &view, &p), YK_E_INTERNAL);
    ck_assert_ptr_nonnull(strstr(yk__plugin_message(), "the reserved word of value 0 is 9"));
    g.value[0].reserved = 0;
    ck_assert_int_eq(dev->table->program_new(dev->handle, &view, &p), YK_OK);
    dev->table->program_free(p);
    yk__graph_free(&g);
    yk__device_close(dev);
}
END_TEST

START_TEST(validate_finds_a_write_behind)
{
    yk_error err = YK_ERROR_INIT;
    yk__device *dev = open_with("validate", "off", NONE, &err);
    uint64_t point = 0;
    yk_buffer *b = NULL;
    char data[100] = "";
    ck_assert_msg(dev != NULL, "%s", err.text);
    ck_assert_int_eq(yk__device_buffer(dev, 100, &b, &err), YK_OK);
    fault = WRITES_BEHIND;
    ck_assert_int_eq(yk__device_put(dev, b, 0, data, 100, &point, &err), YK_OK);
    yk__plugin_message();
    dev->table->buffer_free(b);
    ck_assert_ptr_nonnull(strstr(yk__plugin_message(), "byte 100 of a buffer of 100 bytes is found written"));
    fault = NONE;
    yk__device_close(dev);
}
END_TEST

/* The layer's own waits go by what moves, not by a time that a large program may need. */
START_TEST(validate_waits_while_something_moves)
{
    yk_error err = YK_ERROR_INIT;
    yk_buffer *b = NULL;
    yk__device *dev;
    setenv("YOKE_STUCK_MS", "400", 1);
    dev = open_with("validate", "off", NONE, &err);
    ck_assert_msg(dev != NULL, "%s", err.text);
    fault = TAKES_LONG; /* a second in all */
    ck_assert_msg(yk__device_buffer(dev, 100, &b, &err) == YK_OK, "%s", err.text);
    dev->table->buffer_free(b);
    ck_assert_uint_lt(longest_wait, 1000000000);
    fault = NEVER_DONE;
    ck_assert_int_eq(yk__device_buffer(dev, 100, &b, &err), YK_E_INTERNAL);
    ck_assert_msg(strstr(err.text, "is not reached, and nothing has been for ") != NULL, "%s", err.text);
    fault = NONE;
    yk__device_close(dev);
}
END_TEST

/* A run of one node, with a slot of 16 bytes, on a device that never gets to its end. */
static yk_status run_submit(yk__device *dev, yk_error *err)
{
    const int64_t dim = 4;
    const uint64_t zeros[2] = {0, 0};
    uint64_t point = 0;
    yk_program *p = NULL;
    yk_buffer *slot[2] = {NULL, NULL}; /* slot 0: no arena */
    yk__graph g;
    yk_graph view;
    yk__graph_init(&g);
    const yk__vid x = yk__leaf(&g, yk__slot_new(&g, YK_SLOT_PARAM, 16, 0), 0, YK_F32, 1, &dim);
    yk__node_new(&g, YK_OP_FILL, 0, 0, NULL, 1, &x, 1, &(int64_t){0});
    ck_assert_int_eq(yk__graph_seal(&g, &view, err), YK_OK);
    ck_assert_int_eq(dev->table->program_new(dev->handle, &view, &p), YK_OK);
    ck_assert_int_eq(yk__device_buffer(dev, 16, &slot[1], err), YK_OK);
    const yk_submit s = {.size = sizeof s, .n_slot = 2, .program = p, .slot = slot, .slot_offset = zeros, .slot_version = zeros};
    fault = NEVER_DONE;
    const yk_status st = dev->table->queue_run(dev->queue, &s, &point);
    fault = NONE;
    ended = NULL;
    ck_assert_uint_eq(point, 1);
    dev->table->buffer_free(slot[1]);
    dev->table->program_free(p);
    yk__graph_free(&g);
    return st;
}

/* Another rank may have died within a collective that a run waits for: the layer's wait ends with the job, as those of the host do. */
START_TEST(validate_waits_no_longer_than_its_job)
{
    yk_error err = YK_ERROR_INIT;
    int cancel = 0;
    setenv("YOKE_STUCK_MS", "400", 1);
    yk__device *dev = open_with("validate", "off", NONE, &err);
    ck_assert_msg(dev != NULL, "%s", err.text);
    if (_i)
        yk__layers_cancel(dev, &cancel);
    ended = &cancel;
    ck_assert_int_eq(run_submit(dev, &err), _i ? YK_OK : YK_E_INTERNAL);
    yk__device_close(dev);
}
END_TEST

#define ASKED 1000

static void *island_join(void *arg)
{
    const yk_coll *coll = ((yk__device *)arg)->table->extension(YK_EXT_COLL);
    yk_comm *comm = NULL;
    for (int i = 0; i < ASKED; i++)
        if (!coll->join(((yk__device *)arg)->handle, NULL, 0, 0, 1, &comm))
            coll->leave(comm);
    return NULL;
}

/* The step thread asks for collectives while a member joins in a thread of its own (island_join.c). TSan sees it if one writes. */
START_TEST(collectives_are_asked_for_while_a_member_joins)
{
    yk_error err = YK_ERROR_INIT;
    yk__device *dev = open_with("count", "off", NONE, &err);
    pthread_t thread;
    ck_assert_msg(dev != NULL, "%s", err.text);
    const void *coll = dev->table->extension(YK_EXT_COLL);
    ck_assert_int_eq(pthread_create(&thread, NULL, island_join, dev), 0);
    for (int i = 0; i < ASKED; i++)
        ck_assert_ptr_eq(dev->table->extension(YK_EXT_COLL), coll);
    pthread_join(thread, NULL);
    yk__device_close(dev);
}
END_TEST

START_TEST(unknown_layer)
{
    yk_error err = YK_ERROR_INIT;
    yk__plugin *p;
    setenv("YOKE_LAYERS", "validat", 1);
    ck_assert_int_eq(yk__plugin_register(bad_query, "badx2", &p, &err), YK_E_ARG);
    ck_assert_ptr_nonnull(strstr(err.text, "did you mean validate?"));
    ck_assert_ptr_nonnull(strstr(err.text, "expected one of validate, trace, count"));
}
END_TEST

/* A plan's view of a device's limits, and of types that its plugin does not know. */
START_TEST(limits_and_a_plugin_of_fewer_types)
{
    yk_error err = YK_ERROR_INIT;
    yk__device *dev;
    yk__graph g;
    yk_graph sealed;
    yk__vid x;
    dev = open_with("", "off", LIMITS, &err);
    ck_assert_msg(dev != NULL, "%s", err.text);
    ck_assert_uint_eq(dev->caps.align, 512);
    ck_assert_uint_eq(dev->caps.max_alloc, 1 << 20);
    ck_assert_uint_eq(dev->caps.store & 1u << YK_I8, 0);
    ck_assert_uint_ne(dev->caps.store & 1u << YK_BOOL, 0);
    yk__graph_init(&g);
    x = yk__fill(&g, 1, YK_F32, 0, NULL);
    for (uint32_t op = YK_OP_RELU; op <= YK_OP_GELU; op += YK_OP_GELU - YK_OP_RELU)
        yk__apply(&g, (yk_op)op, 1, &x, 0, NULL, YK_DTYPE_COUNT, YK_NONE, NULL, &(yk__vid){0}, 1);
    ck_assert_int_eq(yk__graph_seal(&g, &sealed, &err), YK_OK);
    ck_assert_uint_eq(dev->table->claims(dev->handle, &sealed, 1), YK_CLAIM_RUN);
    ck_assert_uint_eq(yk__device_claims(dev, &sealed, 1), 0); /* relu is younger than this plugin says it is */
    yk__graph_free(&g);
    yk__device_close(dev);
}
END_TEST

static uint32_t node_reported(uint32_t minor, uint32_t node, const char *words)
{
    const yk__plugin plugin = {.name = "any", .table.minor = minor};
    yk_error err = {YK_OK, 99, {0}};
    if (node)
        yk__host_table()->fail_node("any", node, "%s", words);
    else
        yk__host_table()->fail("any", "%s", words);
    ck_assert_int_eq(yk__plugin_fail(&err, &plugin, YK_E_UNSUPPORTED, "running"), YK_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.text, words));
    ck_assert_uint_eq(yk__plugin_fail(&(yk_error)YK_ERROR_INIT, &plugin, YK_E_MEM, "running"), YK_E_MEM); /* it is said once */
    return err.node;
}

/* Words name a node for plugins of minor 1 alone, which have nothing else to name it by. */
START_TEST(a_failure_bears_its_node)
{
    ck_assert_uint_eq(node_reported(2, 7, "no"), 7);
    ck_assert_uint_eq(node_reported(2, 7, "node 12 (gather): no"), 7);
    ck_assert_uint_eq(node_reported(2, 0, "node 12 (gather): no"), 0);
    ck_assert_uint_eq(node_reported(1, 0, "compiling a program: node 12 (gather): no"), 12);
    ck_assert_uint_eq(node_reported(0, 0, "attention (node 7): no"), 7);
    ck_assert_uint_eq(node_reported(1, 0, "node x, then node 3 (map)"), 3);
    ck_assert_uint_eq(node_reported(1, 0, "a node 5 of the network"), 0);
    ck_assert_uint_eq(node_reported(1, 0, "node 99999999999999999999 (map)"), 0);
    yk_error err = YK_ERROR_INIT;
    yk__fail(&err, YK_E_ARG, "below");
    yk__fail_node(&err, 3);
    yk__fail_node(&err, 4);
    yk__fail_in(&err, "above");
    ck_assert_uint_eq(err.node, 3);
}
END_TEST

/* The host's services. */
START_TEST(options_and_cache)
{
    yk_error err = YK_ERROR_INIT;
    yk__device *dev = open_with("", "off", NONE, &err);
    char folder[] = "device-cache-XXXXXX", path[80];
    ck_assert_ptr_nonnull(dev);
    setenv("YOKE_BADX_SPEED", "slow", 1);
    ck_assert(host->abi == YK_ABI && host->minor == YK_ABI_MINOR && host->n_op == YK_OP_COUNT && host->n_dtype == YK_DTYPE_COUNT);
    ck_assert_ptr_null(host->extension("yk.none.1"));
    ck_assert_str_eq(host->option("badx", "SPEED"), "slow");
    ck_assert_ptr_null(host->option("badx", "COLOUR"));
    ck_assert_int_eq(yk__plugin_option_set("badx", "speed", "fast", &err), YK_OK);
    ck_assert_str_eq(host->option("badx", "SPEED"), "fast");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/a/b", folder);
    setenv("YOKE_CACHE_DIR", path, 1);
    ck_assert_str_eq(host->cache_dir(), path);
    ck_assert_int_eq(rmdir(path), 0);
    *strrchr(path, '/') = 0;
    ck_assert_int_eq(rmdir(path), 0);
    ck_assert_int_eq(rmdir(folder), 0);
    yk__device_close(dev);
}
END_TEST

/* Kernels that were compiled into it are loaded and run. */
static const struct {
    mode_t mode;
    gid_t group; /* that root and this process are not of; 0: their own */
    bool used;
} cache_folders[] = {{0700, 0, true}, {0755, 0, true}, {0775, 0, true}, {0777, 0, false}, {0775, 54321, false}};

START_TEST(a_cache_folder_that_others_can_write_is_not_used)
{
    yk_error err = YK_ERROR_INIT;
    yk__device *dev = open_with("", "off", NONE, &err);
    char folder[] = "/tmp/yoke-cache-XXXXXX";
    ck_assert_ptr_nonnull(dev);
    ck_assert_ptr_nonnull(mkdtemp(folder));
    setenv("YOKE_CACHE_DIR", folder, 1);
    if (cache_folders[_i].group && chown(folder, geteuid(), cache_folders[_i].group))
        printf("# only root can give a folder to a group that it is not of\n");
    else if (!chmod(folder, cache_folders[_i].mode))
        ck_assert_msg((host->cache_dir() != NULL) == cache_folders[_i].used, "mode %03o", cache_folders[_i].mode);
    ck_assert_int_eq(rmdir(folder), 0);
    yk__device_close(dev);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("device_layers");
    TCase *t = tcase_create("all");
    SRunner *sr = srunner_create(s);
    suite_add_tcase(s, t);
    tcase_add_test(t, probe_passes_quickly);
    tcase_add_test(t, probe_refuses_a_wrong_device);
    tcase_add_test(t, a_device_that_is_not_there);
    tcase_add_test(t, transfers_and_waits);
    tcase_add_test(t, a_device_that_plans_only_holds_nothing);
    tcase_add_test(t, layers_let_a_good_plugin_pass);
    tcase_add_loop_test(t, an_extension_that_layers_hide_is_reported, 0, 2);
    tcase_add_test(t, validate_looks_at_collectives);
    tcase_add_test(t, validate_finds_a_skipped_point);
    tcase_add_test(t, validate_finds_a_lying_poll);
    tcase_add_test(t, validate_finds_dead_handles_and_ranges);
    tcase_add_test(t, validate_finds_a_reserved_word);
    tcase_add_test(t, validate_finds_a_write_behind);
    tcase_add_test(t, validate_waits_while_something_moves);
    tcase_add_loop_test(t, validate_waits_no_longer_than_its_job, 0, 2);
    tcase_add_test(t, collectives_are_asked_for_while_a_member_joins);
    tcase_add_test(t, unknown_layer);
    tcase_add_test(t, limits_and_a_plugin_of_fewer_types);
    tcase_add_test(t, a_failure_bears_its_node);
    tcase_add_test(t, options_and_cache);
    tcase_add_loop_test(t, a_cache_folder_that_others_can_write_is_not_used, 0, sizeof cache_folders / sizeof *cache_folders);
    srunner_set_fork_status(sr, CK_FORK); /* each test chooses the layers of its own process */
    srunner_set_tap(sr, "-");
    srunner_run_all(sr, CK_SILENT);
    srunner_free(sr);
    return 0;
}
