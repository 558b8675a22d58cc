/* SPDX-License-Identifier: Apache-2.0 */
/* A rank that finds nonsense in a message ring says so; it does not crash. */
#include "config.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/philox.h"
#include "tests/support/run.h"
#include "transport/local/local.h"
#include "transport/local/local_internal.h"

static uint32_t drawn;

static uint32_t draw_number(void)
{
    uint32_t c[4] = {drawn++, 1, 2, 3}, k[2] = {9, 9}, out[4];
    yk__philox(c, k, out);
    return out[0];
}

static yk_status no_exchange(void *arg, const void *own, uint32_t bytes, void *all, yk_tr_error *error)
{
    (void)arg;
    (void)own;
    (void)bytes;
    (void)all;
    (void)error;
    return YK_E_INTERNAL;
}

static yk_tr *open_first(void *shared)
{
    static const uint64_t host[2] = {5, 5};
    const yk_tr_config c = {.size = sizeof c, .ranks = 2, .host = host, .name = "test", .exchange = no_exchange, .shared = shared};
    yk_tr_error error = {""};
    yk_tr *t = NULL;
    ck_assert_msg(!yk__local_transport()->open(&c, &t, &error), "%s", error.text);
    return t;
}

static void fill_ring(void *shared, uint32_t turn)
{
    yk__local_ring *ring = yk__local_ring_at(shared, 2, 1, 0);
    uint32_t *w = (void *)ring->data, n = 64;
    uint64_t q;
    for (uint32_t i = 0; i < n; i++)
        w[i] = draw_number();
    atomic_store(&ring->read, turn % 5 == 0 ? draw_number() : 0);
    atomic_store(&ring->written, turn % 3 == 0 ? draw_number() : draw_number() % 256);
    if (turn % 2) { /* frames that begin well */
        w[0] = 0x4d415246u;
        w[1] = turn % 4 == 1 ? draw_number() % 100 : draw_number();
        w[2] = turn % 8 == 1 ? draw_number() % 5 : 0;
        w[3] = turn % 4 == 3 ? draw_number() % 3 : 0;
        q = turn % 16 < 8 ? draw_number() % 4 : draw_number();
        memcpy(&w[4], &q, 8);
        q = turn % 32 < 16 ? w[1] : (uint64_t)draw_number() << 32 | draw_number();
        memcpy(&w[6], &q, 8);
        q = turn % 64 < 48 ? 0 : draw_number();
        memcpy(&w[8], &q, 8);
        if (turn % 3)
            atomic_store(&ring->written, 40 + w[1] % 200);
    }
}

START_TEST(ring_of_garbage)
{
    const yk_transport *table = yk__local_transport();
    const uint64_t bytes = table->shared_bytes(2);
    int whole = 0, refused = 0;
    for (uint32_t turn = 0; turn < 600; turn++) {
        unsigned char data[128];
        void *shared = aligned_alloc(64, bytes);
        yk_tr_range to = {.data = data, .bytes = sizeof data};
        yk_tr_error error = {""};
        uint64_t events = 0;
        yk_tr_op *op = NULL;
        int done = 0;
        yk_status s = YK_OK;
        yk_tr *t;
        memset(shared, 0, bytes);
        t = open_first(shared);
        ck_assert_int_eq(table->recv(t, 1, draw_number() % 4, &to, &op, &error), YK_OK);
        fill_ring(shared, turn);
        for (int i = 0; i < 3; i++) {
            s = table->progress(t, 0, &events, &error);
            ck_assert_msg(s == YK_OK || s == YK_E_FORMAT, "%d: %s", (int)s, error.text);
        }
        refused += s == YK_E_FORMAT;
        s = table->test(t, op, &done, NULL, &error);
        whole += !s && done;
        if (!done)
            table->cancel(t, op);
        table->close(t);
        free(shared);
    }
    ck_assert_msg(refused > 100, "%d of 600 refused", refused);
    ck_assert_msg(whole > 0, "no frame was whole: the test has lost its aim");
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("garbage");
    tcase_add_test(t, ring_of_garbage);
    tcase_set_timeout(t, 120);
    return suite_run("garbage", t);
}
