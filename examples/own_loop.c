/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Custom data and a custom loop: random points of a plane, labelled by a ring that they lie in or not. The program asks for this
 * rank's rows of a batch (yk_split), makes them, and declares their numbers (yk_set_rows). The rest is as on one device.
 *
 *   own_loop [STEPS]
 */
#include <stdio.h>
#include <stdlib.h>
#include <yoke/yoke.h>

enum { BATCH = 256, HIDDEN = 64 };

typedef struct net {
    yk_t w1, b1, w2, b2;
} net;

static net net_new(yk_job *job)
{
    const int64_t w1[2] = {HIDDEN, 2}, b1 = HIDDEN, w2[2] = {2, HIDDEN}, b2 = 2;
    const yk_init wide = {YK_INIT_NORMAL, 0, 2.0f}, narrow = {YK_INIT_NORMAL, 0, 0.1f}, zeros = {YK_INIT_ZEROS, 0, 0};
    return (net){yk_param(job, "w1", 2, w1, wide), yk_param(job, "b1", 1, &b1, zeros), yk_param(job, "w2", 2, w2, narrow),
                 yk_param(job, "b2", 1, &b2, zeros)};
}

static yk_t net_forward(const net *n, yk_t x)
{
    return yk_linear(yk_tanh(yk_linear(x, n->w1, n->b1)), n->w2, n->b2);
}

/* Makes point i of an endless set, the same on every rank; returns its label, 1 in the ring. */
static int32_t point_make(uint64_t i, float x[2])
{
    uint64_t z = (i + 1) * 0x9e3779b97f4a7c15u; /* splitmix64 */
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    x[0] = (float)(uint32_t)z * 0x1p-31f - 1;
    x[1] = (float)(uint32_t)(z >> 32) * 0x1p-31f - 1;
    const float square = x[0] * x[0] + x[1] * x[1];
    return square > 0.25f && square < 0.8f;
}

/* This rank's rows of a batch. */
static void batch_make(yk_job *job, uint64_t batch, yk_t *x, yk_t *labels)
{
    float point[BATCH][2];
    int32_t label[BATCH], row[BATCH];
    uint64_t first = 0, count = 0;
    yk_split(job, BATCH, &first, &count);
    for (uint64_t i = 0; i < count; i++) {
        row[i] = (int32_t)(first + i);
        label[i] = point_make(batch * BATCH + first + i, point[i]);
    }
    yk_set_rows(job, (int64_t)count, row, BATCH);
    *x = yk_input(job, YK_F32, 2, (int64_t[]){(int64_t)count, 2}, point);
    *labels = yk_input(job, YK_I32, 1, (int64_t[]){(int64_t)count}, label);
}

int main(int argc, char **argv)
{
    const uint64_t steps = argc > 1 ? strtoull(argv[1], NULL, 10) : 800;
    yk_job *job = yk_open(&(yk_config){.seed = 1});
    net n = net_new(job);
    yk_opt *opt = yk_adam(job, &(yk_adam_config){.lr = 0.01});
    yk_t x, labels;
    for (uint64_t i = 0; i < steps && yk_ok(job); i++) {
        batch_make(job, i, &x, &labels);
        yk_backward(yk_cross_entropy(net_forward(&n, x), labels));
        yk_step(opt);
        if ((i + 1) % 200 == 0)
            yk_print(job, "step %llu: loss %.4f\n", (unsigned long long)i + 1, yk_step_loss(opt));
    }
    yk_train(job, false); /* evaluation: values are of this rank's rows; all_reduce adds them up */
    batch_make(job, steps, &x, &labels);
    double right = yk_item(yk_sum(yk_cast(yk_equal(yk_argmax(net_forward(&n, x), 1), labels), YK_F32), 1, false));
    yk_end(job);
    yk_all_reduce_sum(job, &right, 1);
    yk_print(job, "accuracy %.3f on %d new points\n", right / BATCH, (int)BATCH);
    return yk_close(job);
}
