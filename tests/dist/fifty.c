/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 50 steps of an MLP, each rank with as many rows as any other, so that the parameters hang on nothing that is measured; rank 0 prints
 * "ranks N parameters HASH". With an argument so many steps, and "training" after the first, for tests that disturb them; with a second
 * one so many hidden units, so that each rank has parameters to update, of which rank 0 reads some without the others; a third is the rank
 * of PowerSGD. Run by launchers.sh under every launcher, by network.sh and by islands.sh.
 */
#include <stdio.h>
#include <stdlib.h>
#include <yoke/yoke.h>

enum { STEPS = 50, ROWS = 8, IN = 6, HIDDEN = 16, OUT = 3, RANKS_MOST = 16 };

/* This rank's rows of a batch. */
static void batch_make(yk_job *job, uint64_t batch, yk_t *x, yk_t *labels)
{
    const uint32_t rank = yk_rank(job), world = yk_world_size(job);
    float point[ROWS][IN];
    int32_t label[ROWS], row[ROWS];
    for (uint32_t i = 0; i < ROWS; i++) {
        const uint64_t number = (batch * RANKS_MOST + rank) * ROWS + i;
        row[i] = (int32_t)(rank * ROWS + i);
        label[i] = (int32_t)(number % OUT);
        for (uint32_t k = 0; k < IN; k++)
            point[i][k] = (float)((number * 2654435761u + k * 40503u) % 1000) / 500 - 1;
    }
    yk_set_rows(job, ROWS, row, (int64_t)world * ROWS);
    *x = yk_input(job, YK_F32, 2, (int64_t[]){ROWS, IN}, point);
    *labels = yk_input(job, YK_I32, 1, (int64_t[]){ROWS}, label);
}

static uint64_t number_of(int argc, char **argv, int i, uint64_t otherwise)
{
    return i < argc ? strtoull(argv[i], NULL, 10) : otherwise;
}

/* The other ranks' updates are then on their way to rank 0, or on its devices. */
static void read_single(yk_t param, size_t n)
{
    float *values = malloc(n * sizeof *values);
    if (values)
        yk_param_read(param, values, n);
    free(values);
}

int main(int argc, char **argv)
{
    const uint64_t steps = number_of(argc, argv, 1, STEPS);
    const int64_t hidden = (int64_t)number_of(argc, argv, 2, HIDDEN);
    yk_job *job = yk_open(&(yk_config){.seed = 1, .quiet = true, .power_sgd_rank = (uint32_t)number_of(argc, argv, 3, 0)});
    const yk_init normal = {YK_INIT_NORMAL, 0, 0.3f};
    const yk_t w1 = yk_param(job, "w1", 2, (int64_t[]){hidden, IN}, normal), b1 = yk_param(job, "b1", 1, (int64_t[]){hidden}, normal);
    const yk_t w2 = yk_param(job, "w2", 2, (int64_t[]){OUT, hidden}, normal), b2 = yk_param(job, "b2", 1, (int64_t[]){OUT}, normal);
    yk_opt *opt = yk_adam(job, &(yk_adam_config){.lr = 0.01});
    for (uint64_t i = 0; i < steps && yk_ok(job); i++) {
        yk_t x, labels;
        batch_make(job, i, &x, &labels);
        yk_backward(yk_cross_entropy(yk_linear(yk_tanh(yk_linear(x, w1, b1)), w2, b2), labels));
        yk_step(opt);
        if (argc > 2 && i % 8 == 3 && !yk_rank(job))
            read_single(w1, (size_t)hidden * IN);
        if (!i && argc > 1 && yk_ok(job)) {
            yk_print(job, "training\n");
            fflush(stdout);
        }
    }
    const double norm = yk_grad_norm(opt);
    const uint64_t hash = yk_param_hash(job);
    if (yk_ok(job) && argc > 2)
        yk_print(job, "gradient norm %.9g\n", norm);
    if (yk_ok(job))
        yk_print(job, "ranks %u parameters %016llx\n", yk_world_size(job), (unsigned long long)hash);
    return yk_close(job);
}
