/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Islands of devices of one process (kit_island.h), on a device that adds whole numbers: each fault of one member, and each way to leave,
 * is one and the same failure of all members, within a second, and no member waits for ever. Nothing is lost: all memory is given back.
 */
#include "plugins/kit/kit_island.h"

#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "plugins/kit/kit_clock.h"
#include "tests/support/plugin_host.h"
#include "tests/support/run.h"

enum { MEMBERS = 3, COUNT = 5 };
#define SECOND 1000000000u

struct yk_device {
    uint32_t number;
};

struct yk_buffer {
    int32_t v[MEMBERS * COUNT];
};

/* Which call of which member fails. */
static enum { NOTHING, BEGIN, TAKE, WORK, PUT, QUEUE } fault;
static atomic_int live; /* the island's own data, operands and results */
static atomic_bool held; /* a copy waits while it is set */

static uint64_t buffer_bytes(const yk_buffer *b)
{
    return sizeof b->v;
}

static void *data_new(const int32_t *v)
{
    int32_t *data = plugin_host.alloc(COUNT * sizeof *data, 64);
    if (v)
        memcpy(data, v, COUNT * sizeof *data);
    live++;
    return data;
}

static void data_free(void *data)
{
    live--;
    plugin_host.free(data);
}

static void *island_begin(yk_device *const *dev, uint32_t ranks, char why[KIT_WHY])
{
    snprintf(why, KIT_WHY, "device %u is of another kind", dev[ranks - 1]->number);
    return fault == BEGIN ? NULL : data_new(NULL);
}

static void *operand_take(yk_device *dev, const yk_coll_op *op, uint32_t ranks, char why[KIT_WHY])
{
    (void)ranks;
    snprintf(why, KIT_WHY, "its operand is gone");
    return fault == TAKE && dev->number == 1 ? NULL : data_new(op->src->v + op->src_offset / sizeof *op->src->v);
}

static bool island_work(void *own, const yk_coll_op *op, uint32_t ranks, void *const *operand, void **result, char why[KIT_WHY])
{
    int32_t sum[COUNT] = {0};
    (void)own;
    snprintf(why, KIT_WHY, "the library is at a loss");
    for (uint32_t r = 0; r < ranks; r++)
        for (uint64_t i = 0; i < op->count; i++)
            sum[i] += ((int32_t *)operand[r])[i];
    for (uint32_t r = 0; r < ranks && fault != WORK; r++)
        result[r] = data_new(sum);
    return fault != WORK;
}

static bool result_put(yk_device *dev, const yk_coll_op *op, uint32_t ranks, void *result, char why[KIT_WHY])
{
    (void)ranks;
    snprintf(why, KIT_WHY, "there is no place for it");
    memcpy(op->dst->v, result, op->count * sizeof *op->dst->v);
    data_free(result);
    return fault != PUT || dev->number != 1;
}

static const kit_island_ops island_ops = {.host = &plugin_host, .plugin = "adder", .bytes = buffer_bytes, .begin = island_begin,
                                          .end = data_free, .take = operand_take, .give = data_free, .work = island_work,
                                          .put = result_put};

static yk_status buffer_copy(yk_device *dev, const yk_copy *c, char why[KIT_WHY])
{
    (void)c;
    while (held)
        usleep(1000);
    snprintf(why, KIT_WHY, "the copy fails");
    return fault == QUEUE && dev->number == 1 ? YK_E_IO : YK_OK;
}

static const kit_queue_ops queue_ops = {.host = &plugin_host, .plugin = "adder", .bytes = buffer_bytes, .copy = buffer_copy,
                                        .drop = kit_island_drop};

/* ---- Members ---- */

typedef struct member {
    yk_device dev;
    yk_buffer b;
    yk_queue *q;
    yk_comm *comm;
    uint32_t rank, ranks;
    yk_status status;
    uint64_t point;
} member;

static member m[MEMBERS];
static uint8_t ticket[256];
static uint32_t ticket_bytes;

static void *member_join(void *arg)
{
    member *own = arg;
    own->status = kit_island_join(&own->dev, ticket, ticket_bytes, own->rank, own->ranks, &own->comm, &island_ops);
    return NULL;
}

/* All members join, those that `wrong` changes too. */
static void members_join(void (*wrong)(void))
{
    pthread_t thread[MEMBERS];
    ck_assert_int_eq(kit_island_ticket(&island_ops, ticket, &ticket_bytes), YK_OK);
    for (uint32_t r = 0; r < MEMBERS; r++)
        m[r] = (member){.dev = {r}, .rank = r, .ranks = MEMBERS};
    if (wrong)
        wrong();
    for (uint32_t r = 0; r < MEMBERS; r++)
        ck_assert_int_eq(pthread_create(&thread[r], NULL, member_join, &m[r]), 0);
    for (uint32_t r = 0; r < MEMBERS; r++)
        pthread_join(thread[r], NULL);
}

static void members_begin(void)
{
    members_join(NULL);
    for (uint32_t r = 0; r < MEMBERS; r++) {
        ck_assert_int_eq(m[r].status, YK_OK);
        ck_assert_int_eq(kit_queue_new(&m[r].dev, &queue_ops, &m[r].q), YK_OK);
        for (int i = 0; i < COUNT; i++)
            m[r].b.v[i] = (int32_t)r * 10 + i;
    }
    plugin_host_text[0] = 0;
}

static yk_status member_run(uint32_t r, uint64_t count)
{
    const yk_coll_op op = {.size = sizeof op, .kind = YK_COLL_ALL_REDUCE, .dtype = YK_I32, .wire = YK_I32, .src = &m[r].b,
                           .dst = &m[r].b, .count = count};
    return kit_island_run(m[r].q, m[r].comm, &op, &m[r].point);
}

static yk_status member_wait(uint32_t r)
{
    return kit_queue_wait(m[r].q, m[r].point, SECOND);
}

static void members_end(void)
{
    for (uint32_t r = 0; r < MEMBERS; r++) {
        kit_island_leave(m[r].comm);
        kit_queue_free(m[r].q);
    }
    kit_islands_forget(&plugin_host);
    ck_assert_int_eq(live, 0);
}

/* All members but the one at fault, if it is given, end with these words. */
static void members_failed(const char *words, uint32_t but)
{
    for (uint32_t r = 0; r < MEMBERS; r++) {
        plugin_host_text[0] = 0;
        const yk_status s = member_wait(r);
        ck_assert_msg(s != YK_OK && s != YK_E_TIMEOUT, "member %u: status %d", r, s);
        ck_assert_msg(r == but || strstr(plugin_host_text, words), "member %u: \"%s\" is not in \"%s\"", r, words, plugin_host_text);
    }
    members_end();
}

/* ---- Tests ---- */

static void case_start(void)
{
    fault = NOTHING;
    held = false;
}

START_TEST(test_sum)
{
    members_begin();
    for (int times = 0; times < 200; times++)
        for (uint32_t r = 0; r < MEMBERS; r++) {
            m[r].b.v[0] = (int32_t)r;
            ck_assert_int_eq(member_run(r, 1), YK_OK);
            if (times % 2) /* two may be in flight */
                ck_assert_int_eq(member_run(r, 0), YK_OK);
            if (r == MEMBERS - 1)
                for (uint32_t i = 0; i < MEMBERS; i++) {
                    ck_assert_int_eq(member_wait(i), YK_OK);
                    ck_assert_int_eq(m[i].b.v[0], 3);
                }
        }
    members_end();
}
END_TEST

START_TEST(test_other_shape)
{
    members_begin();
    ck_assert_int_eq(member_run(0, 4), YK_OK);
    usleep(50000);
    ck_assert_int_eq(member_run(1, 5), YK_OK);
    ck_assert_int_eq(member_run(2, 4), YK_OK);
    members_failed("expected all_reduce of 4 elements (i32 as i32, root 0) as member 0 gave, got all_reduce of 5", MEMBERS);
}
END_TEST

/* One call of one member fails. */
static void call_fails(int which, const char *words)
{
    fault = which;
    members_begin();
    for (uint32_t r = 0; r < MEMBERS; r++)
        ck_assert_int_eq(member_run(r, COUNT), YK_OK);
    members_failed(words, MEMBERS);
}

START_TEST(test_take_fails)
{
    call_fails(TAKE, "member 1 of 3: its operand is gone");
}
END_TEST

START_TEST(test_work_fails)
{
    call_fails(WORK, "all_reduce of 5 elements over 3 members: the library is at a loss");
}
END_TEST

/* The sum is there on the other members; the next one fails. */
START_TEST(test_put_fails)
{
    fault = PUT;
    members_begin();
    for (uint32_t r = 0; r < MEMBERS; r++)
        ck_assert_int_eq(member_run(r, COUNT), YK_OK);
    ck_assert_int_eq(member_wait(0), YK_OK);
    ck_assert_int_ne(member_wait(1), YK_OK);
    ck_assert_int_eq(member_wait(2), YK_OK);
    ck_assert_int_eq(member_run(0, COUNT), YK_OK);
    ck_assert_int_eq(member_run(2, COUNT), YK_OK);
    members_failed("there is no place for it", MEMBERS);
}
END_TEST

/* A queue fails before its collective, which is never begun. */
START_TEST(test_queue_fails)
{
    fault = QUEUE;
    held = true;
    members_begin();
    const yk_copy copy = {.size = sizeof copy, .dst = &m[1].b, .src_host = m[0].b.v, .bytes = 4};
    ck_assert_int_eq(kit_queue_copy(m[1].q, &copy, &m[1].point), YK_OK);
    for (uint32_t r = 0; r < MEMBERS; r++)
        ck_assert_int_eq(member_run(r, COUNT), YK_OK);
    held = false;
    members_failed("member 1 of 3: its queue failed before the collective", 1);
}
END_TEST

START_TEST(test_queue_aborted)
{
    members_begin();
    ck_assert_int_eq(member_run(0, COUNT), YK_OK);
    ck_assert_int_eq(member_run(1, COUNT), YK_OK);
    usleep(50000);
    kit_queue_abort(m[1].q, YK_E_CANCELLED);
    usleep(100000);
    ck_assert_int_eq(member_run(2, COUNT), YK_OK);
    members_failed("the queue of member 1 of 3 was aborted", 1);
}
END_TEST

/* A queue that failed takes no further collective, so the host is told at once, and the other members wait for nothing. */
START_TEST(test_queue_refuses)
{
    members_begin();
    ck_assert_int_eq(member_run(0, COUNT), YK_OK);
    ck_assert_int_eq(member_run(2, COUNT), YK_OK);
    kit_queue_abort(m[1].q, YK_E_CANCELLED);
    ck_assert_int_eq(member_run(1, COUNT), YK_E_CANCELLED);
    members_failed("the queue of member 1 of 3 takes no collective", 1);
}
END_TEST

/* A collective of no elements is one that all members give, too. */
START_TEST(test_no_elements)
{
    members_begin();
    ck_assert_int_eq(member_run(0, COUNT), YK_OK);
    ck_assert_int_eq(member_run(1, 0), YK_OK);
    ck_assert_int_eq(member_run(2, COUNT), YK_OK);
    members_failed("all_reduce of 0", MEMBERS);
}
END_TEST

/* A member with two queues counts once: it would stand for the one that is missing, whose operand is gone. */
START_TEST(test_two_queues)
{
    yk_queue *more = NULL, *own;
    members_begin();
    ck_assert_int_eq(kit_queue_new(&m[0].dev, &queue_ops, &more), YK_OK);
    ck_assert_int_eq(member_run(0, COUNT), YK_OK);
    own = m[0].q;
    m[0].q = more;
    ck_assert_int_eq(member_run(0, COUNT), YK_OK);
    m[0].q = own;
    usleep(50000);
    ck_assert_int_eq(member_run(1, COUNT), YK_OK);
    ck_assert_int_eq(member_run(2, COUNT), YK_OK);
    kit_queue_free(more);
    members_failed("member 0 of 3 gave two collectives at once", MEMBERS);
}
END_TEST

START_TEST(test_abort)
{
    members_begin();
    ck_assert_int_eq(member_run(0, COUNT), YK_OK);
    kit_island_abort(m[2].comm);
    ck_assert_int_eq(member_run(1, COUNT), YK_OK);
    ck_assert_int_eq(member_run(2, COUNT), YK_OK);
    members_failed("member 2 of 3 gave the island up", MEMBERS);
}
END_TEST

START_TEST(test_leaves)
{
    members_begin();
    ck_assert_int_eq(member_run(0, COUNT), YK_OK);
    ck_assert_int_eq(member_run(1, COUNT), YK_OK);
    usleep(50000);
    kit_island_leave(m[2].comm);
    m[2].comm = NULL;
    ck_assert_int_ne(member_wait(0), YK_E_TIMEOUT);
    ck_assert_int_ne(member_wait(1), YK_E_TIMEOUT);
    ck_assert_ptr_nonnull(strstr(plugin_host_text, "member 2 of 3 has left the island"));
    members_end();
}
END_TEST

/* ---- Wrong members ---- */

static void joins_fail(void (*wrong)(void), const char *words)
{
    plugin_host_text[0] = 0;
    const uint64_t begun = kit_now_ns();
    members_join(wrong);
    ck_assert_uint_lt(kit_now_ns() - begun, 2ull * SECOND);
    for (uint32_t r = 0; r < MEMBERS; r++)
        ck_assert_int_eq(m[r].status, YK_E_ARG);
    ck_assert_msg(strstr(plugin_host_text, words) != NULL, "\"%s\" is not in \"%s\"", words, plugin_host_text);
    kit_islands_forget(&plugin_host);
    ck_assert_int_eq(live, 0);
}

static void rank_repeated(void)
{
    m[2].rank = 1;
}

static void rank_beyond(void)
{
    m[2].rank = MEMBERS;
}

static void ranks_differ(void)
{
    m[0].ranks = MEMBERS + 1;
}

static void ticket_wrong(void)
{
    ticket[0] ^= 1;
}

START_TEST(test_joins)
{
    joins_fail(rank_repeated, "joining: expected each of 3 members once, 64 at most, got member 1 of 3 again");
    joins_fail(rank_beyond, "got member 3 of 3");
    joins_fail(ranks_differ, "of 4");
    joins_fail(ticket_wrong, "joining: expected the ticket of an island of this process");
    fault = BEGIN;
    joins_fail(NULL, "device 2 is of another kind");
}
END_TEST

/* A stray member does not disturb those at work, and collectives that cannot be are refused at once. */
START_TEST(test_refusals)
{
    yk_comm *stray = NULL;
    members_begin();
    ck_assert_int_eq(kit_island_join(&m[0].dev, ticket, ticket_bytes, 1, MEMBERS, &stray, &island_ops), YK_E_ARG);
    ck_assert_int_eq(member_run(0, MEMBERS * COUNT + 1), YK_E_ARG);
    ck_assert_int_eq(member_run(0, UINT64_MAX / 2), YK_E_ARG);
    for (uint32_t r = 0; r < MEMBERS; r++)
        ck_assert_int_eq(member_run(r, COUNT), YK_OK);
    for (uint32_t r = 0; r < MEMBERS; r++)
        ck_assert_int_eq(member_wait(r), YK_OK);
    ck_assert_int_eq(m[0].b.v[4], 42);
    members_end();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_sum,         test_other_shape,   test_take_fails,  test_work_fails, test_put_fails,
                                  test_queue_fails, test_queue_aborted, test_queue_refuses, test_no_elements, test_two_queues,
                                  test_abort,       test_leaves,        test_joins,       test_refusals};
    return suite_run_all("island", tests, sizeof tests / sizeof *tests, case_start, NULL);
}
