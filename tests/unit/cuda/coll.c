/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA plugin's yk.coll.1 on an NCCL without cards (tests/fakes): members are threads with one device each. All four collectives of
 * two and of four, refusals, every call of NCCL failing in turn. tests/dist/islands.sh has members that are processes, yoke-cts the
 * rules for all such plugins.
 */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yoke/extension.h>

#include "tests/fakes/fake_cuda.h"
#include "tests/support/fakes.h"
#include "tests/support/plugin_host.h"
#include "tests/support/run.h"

#define MEMBERS 4u
#define PART 20000u /* elements: more than goes through the fake at once */
#define ALL (MEMBERS * PART)
#define SLICE_NS 5000000u

static const yk_plugin *plugin;
static const yk_coll *coll;
static struct {
    uint64_t (*live)(void), (*calls)(void);
    void (*fail_call)(uint64_t n);
} fake;

typedef struct member {
    const uint8_t *ticket;
    uint32_t bytes, rank, ranks, device;
    atomic_bool *failed; /* one of the members has */
    yk_device *dev;
    yk_queue *q;
    yk_buffer *b;
    yk_comm *comm;
    yk_status status;
    float sum[ALL], part[PART], all[ALL], from_one[PART]; /* results of the four collectives */
} member;

/* ---- One member ---- */

static yk_status member_open(member *m)
{
    const yk_buffer_desc buffer = {.size = sizeof buffer, .bytes = ALL * sizeof(float)};
    const yk_queue_desc queue = {.size = sizeof queue, .kind = YK_QUEUE_COLL};
    yk_status s = plugin->device_open(m->device, &m->dev);
    if (!s)
        s = plugin->queue_new(m->dev, &queue, &m->q);
    if (!s)
        s = plugin->buffer_new(m->dev, &buffer, &m->b);
    if (!s)
        s = coll->join(m->dev, m->ticket, m->bytes, m->rank, m->ranks, &m->comm);
    return s;
}

static void member_close(member *m)
{
    if (m->comm)
        coll->leave(m->comm);
    if (m->q)
        plugin->queue_free(m->q);
    if (m->b)
        plugin->buffer_free(m->b);
    if (m->dev)
        plugin->device_close(m->dev);
}

/* A small whole number: sums are exact, in whatever order. */
static float number_of(uint32_t rank, uint64_t i)
{
    return (float)((i + 1) % 97 * (rank + 1));
}

/* Gives up once another member has failed, as the core does. */
static yk_status member_wait(member *m, uint64_t point)
{
    yk_status s;
    do {
        s = plugin->queue_wait(m->q, point, SLICE_NS);
        if (s == YK_E_TIMEOUT && atomic_load(m->failed))
            coll->abort(m->comm);
    } while (s == YK_E_TIMEOUT);
    return s;
}

/* The buffer begins with the member's numbers; one collective within it; n elements from its beginning to out. */
static yk_status member_do(member *m, yk_coll_op op, float *out, uint64_t n)
{
    static _Thread_local float in[ALL];
    uint64_t point = 0;
    op.size = sizeof op;
    op.dtype = op.wire = YK_F32;
    op.src = op.dst = m->b;
    for (uint32_t i = 0; i < ALL; i++)
        in[i] = number_of(m->rank, i);
    yk_status s = yk_put(plugin, m->q, m->b, 0, in, sizeof in, &point);
    if (!s)
        s = coll->run(m->q, m->comm, &op, &point);
    if (!s)
        s = member_wait(m, point); /* a copy to memory that is not registered would wait within the driver, and could not be given up */
    if (!s)
        s = yk_get(plugin, m->q, m->b, op.kind == YK_COLL_REDUCE_SCATTER ? op.dst_offset : 0, out, n * sizeof *out, &point);
    if (!s)
        s = member_wait(m, point);
    return s;
}

static void *member_main(void *arg)
{
    member *m = arg;
    const uint64_t own = (uint64_t)m->rank * PART * sizeof(float);
    m->status = member_open(m);
    if (!m->status)
        m->status = member_do(m, (yk_coll_op){.kind = YK_COLL_ALL_REDUCE, .count = ALL}, m->sum, ALL);
    if (!m->status)
        m->status = member_do(m, (yk_coll_op){.kind = YK_COLL_REDUCE_SCATTER, .dst_offset = own, .count = PART}, m->part, PART);
    if (!m->status)
        m->status =
            member_do(m, (yk_coll_op){.kind = YK_COLL_ALL_GATHER, .src_offset = own, .count = PART}, m->all, (uint64_t)m->ranks * PART);
    if (!m->status)
        m->status = member_do(m, (yk_coll_op){.kind = YK_COLL_BROADCAST, .root = m->ranks - 1, .count = PART}, m->from_one, PART);
    if (m->status)
        atomic_store(m->failed, true);
    return NULL;
}

/* ---- All of them ---- */

/* The first status that is none, of the ticket and of all members; all is closed. */
static yk_status members_run(member *m, uint32_t ranks)
{
    atomic_bool failed = false;
    pthread_t thread[MEMBERS];
    uint8_t ticket[256];
    uint32_t bytes = 0;
    yk_device *dev = NULL;
    yk_status s = plugin->device_open(0, &dev);
    if (!s)
        s = coll->ticket(dev, ticket, &bytes);
    for (uint32_t r = 0; r < ranks && !s; r++) {
        m[r] = (member){.ticket = ticket, .bytes = bytes, .rank = r, .ranks = ranks, .device = r, .failed = &failed};
        ck_assert_int_eq(pthread_create(&thread[r], NULL, member_main, &m[r]), 0);
    }
    const uint32_t begun = s ? 0 : ranks;
    for (uint32_t r = 0; r < begun; r++)
        pthread_join(thread[r], NULL);
    for (uint32_t r = 0; r < begun; r++) {
        s = s ? s : m[r].status;
        if (m[r].comm && atomic_load(&failed))
            coll->abort(m[r].comm);
    }
    for (uint32_t r = 0; r < begun; r++)
        member_close(&m[r]);
    if (dev)
        plugin->device_close(dev);
    return s;
}

static void results_check(const member *m)
{
    for (uint32_t i = 0; i < ALL; i++) {
        float sum = 0;
        for (uint32_t r = 0; r < m->ranks; r++)
            sum += number_of(r, i);
        ck_assert_msg(m->sum[i] == sum, "all-reduce, member %u, element %u: %g instead of %g", m->rank, i, m->sum[i], sum);
        if (i / PART == m->rank)
            ck_assert_msg(m->part[i % PART] == sum, "reduce-scatter, member %u, element %u", m->rank, i);
        if (i / PART < m->ranks)
            ck_assert_msg(m->all[i] == number_of(i / PART, i), "all-gather, member %u, element %u: %g", m->rank, i, m->all[i]);
        if (i < PART)
            ck_assert_msg(m->from_one[i] == number_of(m->ranks - 1, i), "broadcast, member %u, element %u", m->rank, i);
    }
}

/* ---- Tests ---- */

static void case_start(void)
{
    setenv("FAKE_CUDA_DEVICES", "4", 1);
    void *driver = fake_library("fake_cuda", "DRIVER"), *nccl = fake_library("fake_nccl", "NCCL");
    fake_symbol(driver, "fake_cuda_live", &fake.live);
    fake_symbol(nccl, "fake_nccl_calls", &fake.calls);
    fake_symbol(nccl, "fake_nccl_fail", &fake.fail_call);
    fake_library("fake_nvrtc", "NVRTC");
    plugin = plugin_host_load("cuda");
    ck_assert_ptr_nonnull(plugin);
    ck_assert_int_eq(plugin->init(&plugin_host), YK_OK);
    coll = plugin->extension(YK_EXT_COLL);
    ck_assert_ptr_nonnull(coll);
}

static void case_stop(void)
{
    plugin->fini();
    ck_assert_uint_eq(fake.live(), 0);
}

static member members[MEMBERS];
static atomic_bool never; /* no other member fails */

START_TEST(collectives_of_two_and_of_four)
{
    for (uint32_t ranks = 2; ranks <= 4; ranks += 2) {
        ck_assert_msg(members_run(members, ranks) == YK_OK, "%s", plugin_host_text);
        for (uint32_t r = 0; r < ranks; r++)
            results_check(&members[r]);
    }
}
END_TEST

static atomic_bool submitted;

static const yk_coll_op sum_of_all = {.kind = YK_COLL_ALL_REDUCE, .count = ALL};

/* Its turn comes when the other's call is back. */
static void *late_main(void *arg)
{
    member *m = arg;
    const struct timespec moment = {0, SLICE_NS};
    m->status = member_open(m);
    while (!atomic_load(&submitted))
        nanosleep(&moment, NULL);
    if (!m->status)
        m->status = member_do(m, sum_of_all, m->sum, ALL);
    return NULL;
}

/* A member that is far behind costs others a wait on their devices, however long, and none within the call. */
START_TEST(members_need_not_call_at_once)
{
    pthread_t thread;
    yk_device *dev = NULL;
    uint8_t ticket[256];
    uint32_t bytes = 0;
    uint64_t point = 0;
    ck_assert_int_eq(plugin->device_open(0, &dev), YK_OK);
    ck_assert_int_eq(coll->ticket(dev, ticket, &bytes), YK_OK);
    for (uint32_t r = 0; r < 2; r++)
        members[r] = (member){.ticket = ticket, .bytes = bytes, .rank = r, .ranks = 2, .device = r, .failed = &never};
    ck_assert_int_eq(pthread_create(&thread, NULL, late_main, &members[1]), 0);
    member *m = &members[0];
    ck_assert_msg(member_open(m) == YK_OK, "%s", plugin_host_text);
    yk_coll_op op = sum_of_all;
    op.size = sizeof op;
    op.dtype = op.wire = YK_F32;
    op.src = op.dst = m->b;
    m->status = coll->run(m->q, m->comm, &op, &point);
    atomic_store(&submitted, true);
    ck_assert_msg(m->status == YK_OK, "%s", plugin_host_text);
    ck_assert_int_eq(member_wait(m, point), YK_OK);
    pthread_join(thread, NULL);
    ck_assert_int_eq(members[1].status, YK_OK);
    member_close(m);
    member_close(&members[1]);
    plugin->device_close(dev);
}
END_TEST

/* For a single member, as other members would wait for it until they give up. */
START_TEST(every_call_fails_in_turn)
{
    uint64_t calls = UINT64_MAX, failures = 0;
    for (int run = 0; run < 3; run++) { /* some calls are looks, of which there may be more or fewer */
        const uint64_t before = fake.calls();
        ck_assert_msg(members_run(members, 1) == YK_OK, "%s", plugin_host_text);
        calls = fake.calls() - before < calls ? fake.calls() - before : calls;
    }
    for (uint64_t n = 1; n <= calls; n++) {
        *plugin_host_text = 0;
        fake.fail_call(n);
        const yk_status st = members_run(members, 1);
        fake.fail_call(0);
        failures += st != YK_OK;
        ck_assert_msg(!st || strstr(plugin_host_text, "NCCL: "), "call %llu: status %d: %s", (unsigned long long)n, st, plugin_host_text);
        ck_assert_msg(fake.live() == 0, "call %llu: %llu objects are left", (unsigned long long)n, (unsigned long long)fake.live());
    }
    ck_assert_uint_ge(failures, 8); /* a name, joining, four collectives and their states */
    ck_assert_msg(members_run(members, 1) == YK_OK, "%s", plugin_host_text);
}
END_TEST

START_TEST(what_nccl_cannot_is_refused)
{
    member m = {.ranks = 1, .failed = &never};
    uint8_t ticket[256];
    yk_device *dev = NULL;
    uint64_t point = 0;
    char name[64] = "";
    ck_assert_int_eq(plugin->device_open(0, &dev), YK_OK);
    ck_assert_int_eq(coll->island(dev, name), YK_OK);
    ck_assert_int_eq(strncmp(name, "nccl 22809 ", 11), 0);
    ck_assert_int_eq(coll->ticket(dev, ticket, &m.bytes), YK_OK);
    m.ticket = ticket;
    ck_assert_int_eq(coll->join(dev, ticket, m.bytes - 1, 0, 1, &m.comm), YK_E_ARG);
    ck_assert_msg(member_open(&m) == YK_OK, "%s", plugin_host_text);
    yk_coll_op op = {.size = sizeof op, .kind = YK_COLL_ALL_REDUCE, .dtype = YK_F32, .wire = YK_BF16, .src = m.b, .dst = m.b, .count = 4};
    ck_assert_int_eq(coll->run(m.q, m.comm, &op, &point), YK_E_UNSUPPORTED);
    op.wire = YK_F32;
    op.count = ALL + 1;
    ck_assert_int_eq(coll->run(m.q, m.comm, &op, &point), YK_E_ARG);
    op.count = 4;
    op.root = 1;
    ck_assert_int_eq(coll->run(m.q, m.comm, &op, &point), YK_E_ARG);
    op.root = 0;
    ck_assert_int_eq(coll->run(m.q, m.comm, &op, &point), YK_OK); /* a refusal changes nothing */
    ck_assert_int_eq(plugin->queue_wait(m.q, point, UINT64_MAX), YK_OK);
    member_close(&m);
    plugin->device_close(dev);
}
END_TEST

/* A call after an abort fails with a message, and at once. */
START_TEST(after_an_abort_nothing_runs)
{
    member m = {.ranks = 1, .failed = &never};
    uint8_t ticket[256];
    uint64_t point = 0;
    ck_assert_int_eq(plugin->device_open(0, &m.dev), YK_OK);
    ck_assert_int_eq(coll->ticket(m.dev, ticket, &m.bytes), YK_OK);
    plugin->device_close(m.dev);
    m.ticket = ticket;
    ck_assert_msg(member_open(&m) == YK_OK, "%s", plugin_host_text);
    coll->abort(m.comm);
    const yk_coll_op op = {
        .size = sizeof op, .kind = YK_COLL_BROADCAST, .dtype = YK_F32, .wire = YK_F32, .src = m.b, .dst = m.b, .count = 4};
    ck_assert_int_eq(coll->run(m.q, m.comm, &op, &point), YK_E_CANCELLED);
    ck_assert_msg(strstr(plugin_host_text, "was aborted") != NULL, "%s", plugin_host_text);
    member_close(&m);
}
END_TEST

static void has_no_island(void)
{
    yk_device *dev = NULL;
    char name[64] = "x";
    uint8_t ticket[256];
    uint32_t bytes = 0;
    ck_assert_int_eq(plugin->init(&plugin_host), YK_OK);
    ck_assert_int_eq(plugin->device_open(0, &dev), YK_OK);
    ck_assert_int_eq(coll->island(dev, name), YK_OK);
    ck_assert_str_eq(name, "");
    ck_assert_int_eq(coll->ticket(dev, ticket, &bytes), YK_E_UNSUPPORTED);
    plugin->device_close(dev);
}

START_TEST(without_nccl_there_is_no_island)
{
    plugin->fini();
    plugin_host_option("NCCL", "0");
    has_no_island();
    ck_assert_msg(strstr(plugin_host_text, "libnccl.so.2") != NULL, "%s", plugin_host_text);
}
END_TEST

START_TEST(an_nccl_that_is_not_used_says_why)
{
    static const char *const cases[][3] = {{"FAKE_NCCL_VERSION", "21304", "its version is 2.13.4; 2.14 or later is needed"},
                                           {"FAKE_NCCL_FAIL", "1", "asked for its version it says: unhandled system error"}};
    plugin->fini();
    setenv(cases[_i][0], cases[_i][1], 1);
    has_no_island();
    ck_assert_msg(strstr(plugin_host_text, cases[_i][2]) != NULL, "%s", plugin_host_text);
}
END_TEST

int main(void)
{
    if (!fake_cuda_runs())
        return 0;
    TCase *t = tcase_create("coll");
    tcase_add_checked_fixture(t, case_start, case_stop);
    tcase_set_timeout(t, 300);
    tcase_add_test(t, collectives_of_two_and_of_four);
    tcase_add_test(t, members_need_not_call_at_once);
    tcase_add_test(t, every_call_fails_in_turn);
    tcase_add_test(t, what_nccl_cannot_is_refused);
    tcase_add_test(t, after_an_abort_nothing_runs);
    tcase_add_test(t, without_nccl_there_is_no_island);
    tcase_add_loop_test(t, an_nccl_that_is_not_used_says_why, 0, 2);
    return suite_run("cuda coll", t);
}
