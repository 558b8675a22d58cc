/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Group extension: what a plugin offers beside its table. Both extensions are tried with one process: members of a collective are
 * threads, and a shared buffer is imported by the device that exported it.
 */
#include <pthread.h>
#include <string.h>
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
    uint32_t bytes, rank, ranks;
    yk_device *dev;
    yk_queue *q;
    yk_buffer *b;
    yk_comm *comm;
    yk_status status;
    float data[COUNT];
} member;

static yk_status member_open(member *m)
{
    const yk_plugin *t = m->c->t;
    const yk_buffer_desc buffer = {.size = sizeof buffer, .bytes = BYTES};
    const yk_queue_desc queue = {.size = sizeof queue, .kind = YK_QUEUE_COLL};
    yk_status s = t->device_open(m->c->device, &m->dev);
    if (!s)
        s = t->queue_new(m->dev, &queue, &m->q);
    if (!s)
        s = t->buffer_new(m->dev, &buffer, &m->b);
    return s ? s : m->coll->join(m->dev, m->ticket, m->bytes, m->rank, m->ranks, &m->comm);
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

static void *member_main(void *arg)
{
    member *m = arg;
    const yk_plugin *t = m->c->t;
    uint64_t point = 0;
    m->status = member_open(m);
    for (int round = 0; round < 3 && !m->status; round++) {
        const yk_coll_op op = {.size = sizeof op, .kind = YK_COLL_ALL_REDUCE, .dtype = YK_F32, .wire = YK_F32, .src = m->b, .dst = m->b,
                               .count = COUNT};
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
                cts_fail(c, "all_reduce over %u members: element %u of member %u is %g", ranks, i, r, m[r].data[i]);
                return;
            }
    }
}

static void test_all_reduce(cts *c, const yk_coll *coll, uint32_t ranks)
{
    member *m = yk__calloc(ranks, sizeof *m);
    pthread_t thread[4];
    uint8_t ticket[256];
    uint32_t bytes = 0, begun = 0;
    if (!m || !cts_begin(c, "coll.all_reduce.%u", ranks)) {
        yk__free(m);
        return;
    }
    if (cts_ok(c, coll->ticket(c->dev->handle, ticket, &bytes), "ticket")) {
        for (uint32_t r = 0; r < ranks; r++) {
            m[r] = (member){.c = c, .coll = coll, .ticket = ticket, .bytes = bytes, .rank = r, .ranks = ranks};
            for (uint32_t i = 0; i < COUNT; i++)
                m[r].data[i] = (float)((i % 7) * (r + 1));
        }
        while (begun < ranks && !pthread_create(&thread[begun], NULL, member_main, &m[begun]))
            begun++;
        for (uint32_t r = 0; r < begun; r++)
            pthread_join(thread[r], NULL);
        sums_check(c, m, ranks);
        for (uint32_t r = 0; r < begun; r++)
            member_close(&m[r]);
    }
    cts_pass(c);
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
            cts_fail(c, "what is written to a shared buffer is not there in the imported one");
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

void cts_group_extension(cts *c)
{
    const yk_coll *coll = extension_of(c, YK_EXT_COLL, "coll");
    const yk_share *share = extension_of(c, YK_EXT_SHARE, "share");
    for (uint32_t ranks = 1; coll && ranks <= 3; ranks++)
        test_all_reduce(c, coll, ranks);
    if (share)
        test_share(c, share);
    if (cts_begin(c, "unknown")) {
        if (c->t->extension("yk.no-such-extension.1"))
            cts_fail(c, "an unknown extension is not NULL");
        cts_pass(c);
    }
}
