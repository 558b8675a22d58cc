/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults of members of an island on a PJRT plugin (tests/cts/pjrt_coll.sh): pjrt_members CASE WORDS. Two devices of one client begin a
 * sum, one of them wrongly; all members that wait have to fail, with these words. CASE: "shape" another number of elements; "queue" an
 * aborted queue; "execute" a vendor's error, made by the shim; "twice" one device as both members; "types" a type that is not added.
 * YOKE_PJRT names the vendor's plugin. Exit code: 0 as expected; else it says how not.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <yoke/extension.h>

#include "tests/support/plugin_host.h"

#define MEMBERS 2
#define COUNT 1000u
#define WAIT_NS 60000000000u

static const yk_plugin *plugin;
static const yk_coll *coll;
static const char *fault;
static uint8_t ticket[256];
static uint32_t ticket_bytes;

typedef struct member {
    uint32_t rank;
    yk_device *dev;
    yk_queue *q;
    yk_buffer *b;
    yk_comm *comm;
    yk_status status;
    uint64_t point;
} member;

static void *member_join(void *arg)
{
    member *m = arg;
    m->status = coll->join(m->dev, ticket, ticket_bytes, m->rank, MEMBERS, &m->comm);
    return NULL;
}

static bool member_open(member *m)
{
    const yk_buffer_desc buffer = {.size = sizeof buffer, .bytes = COUNT * 4};
    const yk_queue_desc queue = {.size = sizeof queue};
    return !plugin->device_open(strcmp(fault, "twice") ? m->rank : 0, &m->dev) && !plugin->queue_new(m->dev, &queue, &m->q) &&
           !plugin->buffer_new(m->dev, &buffer, &m->b);
}

static void member_close(member *m)
{
    if (m->comm)
        coll->leave(m->comm);
    plugin->queue_free(m->q);
    plugin->buffer_free(m->b);
    plugin->device_close(m->dev);
}

static yk_status member_run(member *m)
{
    const struct timespec moment = {0, 100000000};
    const bool wrong = m->rank == 1;
    const uint32_t dtype = strcmp(fault, "types") ? YK_F32 : YK_I64;
    const yk_coll_op op = {.size = sizeof op, .kind = YK_COLL_ALL_REDUCE, .dtype = dtype, .wire = dtype, .src = m->b, .dst = m->b,
                           .count = wrong && !strcmp(fault, "shape") ? COUNT - 1 : COUNT};
    const yk_status s = coll->run(m->q, m->comm, &op, &m->point);
    if (!wrong && !strcmp(fault, "queue")) {
        nanosleep(&moment, NULL); /* its queue waits for the other member */
        plugin->queue_abort(m->q, YK_E_CANCELLED);
        nanosleep(&moment, NULL);
    }
    return s;
}

/* All have joined: every member has to fail, in its run or in the wait for it. */
static bool members_fail(member *m)
{
    bool good = true;
    for (uint32_t r = 0; r < MEMBERS; r++)
        m[r].status = member_run(&m[r]);
    for (uint32_t r = 0; r < MEMBERS; r++) {
        if (!m[r].status)
            m[r].status = plugin->queue_wait(m[r].q, m[r].point, WAIT_NS);
        if (!m[r].status || m[r].status == YK_E_TIMEOUT) {
            printf("member %u: expected a failure, got status %d\n", r, m[r].status);
            good = false;
        }
    }
    return good;
}

int main(int argc, char **argv)
{
    member m[MEMBERS] = {{.rank = 0}, {.rank = 1}};
    pthread_t thread[MEMBERS];
    const char *words = argc > 2 ? argv[2] : "";
    fault = argc > 1 ? argv[1] : "";
    plugin_host_option("PROBE", "none");
    plugin_host_option("CLIENT_DEVICES", "2");
    plugin = plugin_host_load("pjrt");
    if (!plugin || plugin->init(&plugin_host) || !(coll = plugin->extension(YK_EXT_COLL)) || !member_open(&m[0]) || !member_open(&m[1]) ||
        coll->ticket(m[0].dev, ticket, &ticket_bytes)) {
        printf("no two devices: %s\n", plugin_host_text);
        return 1;
    }
    for (uint32_t r = 0; r < MEMBERS; r++)
        if (pthread_create(&thread[r], NULL, member_join, &m[r]))
            return 1;
    for (uint32_t r = 0; r < MEMBERS; r++)
        pthread_join(thread[r], NULL);
    const bool joined = !m[0].status && !m[1].status;
    bool good = joined ? strcmp(fault, "twice") && members_fail(m) : m[0].status && m[1].status && !strcmp(fault, "twice");
    if (!good || !strstr(plugin_host_text, words)) {
        printf("status %d and %d; expected \"%s\" in: %s\n", m[0].status, m[1].status, words, plugin_host_text);
        good = false;
    }
    for (uint32_t r = 0; r < MEMBERS; r++)
        member_close(&m[r]);
    plugin->fini();
    return good ? 0 : 1;
}
