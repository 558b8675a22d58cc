/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Group extension: what a plugin offers beside its table. Both extensions are tried with one process: members of a collective are
 * threads, and a shared buffer is imported by the device that exported it.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <yoke/extension.h>

#include "core/base/mem.h"
#include "tools/cts/cts.h"

#define COUNT 1000u
#define BYTES (COUNT * sizeof(float))

/* ---- yk.coll.1 ---- */

typedef struct member {
    cts *c;
    const yk_coll *coll;
    const uint8_t *ticket;
    uint32_t bytes, rank, ranks, device;
    yk_device *dev;
    yk_queue *q;
    yk_buffer *b;
    yk_comm *comm;
    yk_status status, ended; /* ended: of the wait for what was given up */
    atomic_bool joined;      /* or could not */
    float data[COUNT];
} member;

static yk_status member_open(member *m)
{
    const yk_plugin *t = m->c->t;
    const yk_buffer_desc buffer = {.size = sizeof buffer, .bytes = BYTES};
    const yk_queue_desc queue = {.size = sizeof queue, .kind = YK_QUEUE_COLL};
    yk_status s = t->device_open(m->device, &m->dev);
    if (!s)
        s = t->queue_new(m->dev, &queue, &m->q);
    if (!s)
        s = t->buffer_new(m->dev, &buffer, &m->b);
    if (!s)
        s = m->coll->join(m->dev, m->ticket, m->bytes, m->rank, m->ranks, &m->comm);
    return s;
}

static void member_close(member *m)
{
    if (m->comm)
        m->coll->leave(m->comm);
    if (m->q)
        m->c->t->queue_free(m->q);
    if (m->b)
        m->c->t->buffer_free(m->b);
    if (m->dev)
        m->c->t->device_close(m->dev);
}

static yk_coll_op sum_in_place(yk_buffer *b)
{
    return (yk_coll_op){.size = sizeof(yk_coll_op), .kind = YK_COLL_ALL_REDUCE, .dtype = YK_F32, .wire = YK_F32, .src = b, .dst = b,
                        .count = COUNT};
}

static void *member_main(void *arg)
{
    member *m = arg;
    const yk_plugin *t = m->c->t;
    uint64_t point = 0;
    m->status = member_open(m);
    for (int round = 0; round < 3 && !m->status; round++) {
        const yk_coll_op op = sum_in_place(m->b);
        m->status = yk_put(t, m->q, m->b, 0, m->data, BYTES, &point);
        if (!m->status)
            m->status = m->coll->run(m->q, m->comm, &op, &point);
        if (!m->status)
            m->status = yk_get(t, m->q, m->b, 0, m->data, BYTES, &point);
        if (!m->status)
            m->status = t->queue_wait(m->q, point, m->c->timeout_ns);
    }
    return NULL;
}

/* Three sums in a row: each member then has (1 + 2 + .. + ranks) * ranks^2 times what it began with. */
static void sums_check(cts *c, const member *m, uint32_t ranks)
{
    for (uint32_t r = 0; r < ranks; r++) {
        if (!cts_ok(c, m[r].status, "a member of the collective"))
            return;
        for (uint32_t i = 0; i < COUNT; i++)
            if (m[r].data[i] != (float)((i % 7) * (ranks * (ranks + 1) / 2) * ranks * ranks)) {
                cts_fail(c, "yk.coll.1: all_reduce over %u members: element %u of member %u is %g", ranks, i, r, m[r].data[i]);
                return;
            }
    }
}

static bool coll_shares_device(const yk_coll *coll)
{
    return !(coll->flags & YK_COLL_ONE_PER_DEVICE);
}

/* Member 0 is the device that is tested. */
static uint32_t member_device(const cts *c, const yk_coll *coll, uint32_t rank)
{
    uint32_t n = 1;
    return coll_shares_device(coll) || c->t->device_count(&n) || !n ? c->device : (c->device + rank) % n;
}

/* Whether there are devices for so many members; else the test says that there are not. */
static bool members_fit(cts *c, const yk_coll *coll, uint32_t ranks)
{
    uint32_t n = 0;
    if (coll_shares_device(coll) || (!c->t->device_count(&n) && ranks <= n))
        return true;
    cts_unsupported(c, "a device is a member once, and there are %u", n);
    return false;
}

/* A thread for each member of `ranks`, with numbers to add; how many could be started. */
static uint32_t members_begin(cts *c, const yk_coll *coll, member *m, uint32_t ranks, const uint8_t *ticket, uint32_t bytes,
                              void *(*run)(void *), pthread_t *thread)
{
    uint32_t begun = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        m[r] = (member){.c = c, .coll = coll, .ticket = ticket, .bytes = bytes, .rank = r, .ranks = ranks,
                        .device = member_device(c, coll, r)};
        for (uint32_t i = 0; i < COUNT; i++)
            m[r].data[i] = (float)((i % 7) * (r + 1));
    }
    while (begun < ranks && !pthread_create(&thread[begun], NULL, run, &m[begun]))
        begun++;
    return begun;
}

static void members_join(const pthread_t *thread, uint32_t n)
{
    for (uint32_t r = 0; r < n; r++)
        pthread_join(thread[r], NULL);
}

static void test_all_reduce(cts *c, const yk_coll *coll, uint32_t ranks)
{
    member *m = yk__calloc(ranks, sizeof *m);
    pthread_t thread[4];
    uint8_t ticket[256];
    uint32_t bytes = 0;
    if (m && cts_begin(c, "coll.all_reduce.%u", ranks) && members_fit(c, coll, ranks)) {
        if (cts_ok(c, coll->ticket(c->dev->handle, ticket, &bytes), "ticket")) {
            const uint32_t begun = members_begin(c, coll, m, ranks, ticket, bytes, member_main, thread);
            members_join(thread, begun);
            sums_check(c, m, ranks);
            for (uint32_t r = 0; r < begun; r++)
                member_close(&m[r]);
        }
        cts_pass(c);
    }
    yk__free(m);
}

static void member_await(const member *m)
{
    const struct timespec moment = {0, 100000};
    for (uint64_t ns = 0; !atomic_load(&m->joined) && ns < m->c->timeout_ns; ns += 100000)
        nanosleep(&moment, NULL);
}

/* The first member begins a sum that nobody else comes to, and gives it up, once the other one knows that it has joined. */
static void *abort_main(void *arg)
{
    member *m = arg;
    const yk_plugin *t = m->c->t;
    uint64_t point = 0;
    m->status = member_open(m);
    atomic_store(&m->joined, true);
    if (m->status || m->rank)
        return NULL;
    const yk_coll_op op = sum_in_place(m->b);
    m->status = m->coll->run(m->q, m->comm, &op, &point);
    if (m->status)
        return NULL;
    member_await(m + 1);
    m->coll->abort(m->comm);
    m->ended = t->queue_wait(m->q, point, m->c->timeout_ns);
    return NULL;
}

static void test_abort(cts *c, const yk_coll *coll)
{
    member *m = yk__calloc(2, sizeof *m);
    pthread_t thread[2];
    uint8_t ticket[256];
    uint32_t bytes = 0, begun = 0;
    if (m && cts_begin(c, "coll.abort") && members_fit(c, coll, 2)) {
        if (cts_ok(c, coll->ticket(c->dev->handle, ticket, &bytes), "ticket")) {
            begun = members_begin(c, coll, m, 2, ticket, bytes, abort_main, thread);
            members_join(thread, begun);
        }
        for (uint32_t r = 0; r < begun; r++)
            cts_ok(c, m[r].status, "a member of the collective");
        if (begun == 2 && !c->failed_now && (m[0].ended == YK_OK || m[0].ended == YK_E_TIMEOUT))
            cts_fail(c, "yk.coll.1: after abort the wait for a sum of one member of two gives %s, expected a failure",
                     yk__status_name(m[0].ended));
        for (uint32_t r = 0; r < begun && !c->failed_now; r++) /* what may never end is left behind */
            member_close(&m[r]);
        cts_pass(c);
    }
    yk__free(m);
}

/* ---- yk.share.1 ---- */

static void share_memory(cts *c, const yk_share *share, yk_buffer *b)
{
    yk_share_handle handle = {.size = sizeof handle};
    yk_buffer *again = NULL;
    char out[] = "written through one, read through the other", in[sizeof out] = "";
    uint64_t point = 0;
    uint32_t kind = 0;
    while (!(share->kinds >> kind & 1) && kind < 31)
        kind++;
    if (!cts_ok(c, share->export_buffer(b, kind, &handle), "export_buffer"))
        return;
    if (cts_ok(c, share->import_buffer(c->dev->handle, &handle, &again), "import_buffer")) {
        if (cts_ok(c, yk_put(c->t, c->dev->queue, b, 64, out, sizeof out, &point), "queue_copy") &&
            cts_ok(c, yk_get(c->t, c->dev->queue, again, 64, in, sizeof in, &point), "queue_copy") &&
            cts_wait(c, c->dev->queue, point) && memcmp(in, out, sizeof out))
            cts_fail(c, "yk.share.1: what is written to a shared buffer is not there in the imported one");
        c->t->buffer_free(again);
    }
    if (handle.fd >= 0)
        close(handle.fd);
}

static void test_share(cts *c, const yk_share *share)
{
    const yk_buffer_desc desc = {.size = sizeof desc, .flags = YK_BUF_EXPORT, .bytes = 4096};
    yk_buffer *b = NULL;
    if (!cts_begin(c, "share"))
        return;
    if (cts_ok(c, c->t->buffer_new(c->dev->handle, &desc, &b), "buffer_new with YK_BUF_EXPORT")) {
        share_memory(c, share, b);
        c->t->buffer_free(b);
    }
    cts_pass(c);
}

/* One test for each that is not there, too, so that it is seen. */
static const void *extension_of(cts *c, const char *name, const char *test)
{
    const void *e = c->t->extension(name);
    if (!e && cts_begin(c, "%s", test))
        cts_unsupported(c, "%s is not offered", name);
    return e;
}

/* A version is a part of the name: what another one's functions mean is not known here. */
static void test_unknown(cts *c)
{
    static const char *const names[] = {"yk.no-such-extension.1", "yk.coll", "yk.coll.0", "yk.coll.10", "yk.share.10", "yk.share.1 ", ""};
    if (!cts_begin(c, "unknown"))
        return;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (c->t->extension(names[i]))
            cts_fail(c, "extension(\"%s\") is not NULL: nobody knows this name", names[i]);
    cts_pass(c);
}

void cts_group_extension(cts *c)
{
    const yk_coll *coll = extension_of(c, YK_EXT_COLL, "coll");
    const yk_share *share = extension_of(c, YK_EXT_SHARE, "share");
    for (uint32_t ranks = 1; coll && ranks <= 3; ranks++)
        test_all_reduce(c, coll, ranks);
    if (coll)
        test_abort(c, coll);
    if (share)
        test_share(c, share);
    test_unknown(c);
}
