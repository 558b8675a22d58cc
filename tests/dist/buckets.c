/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A few steps of an MLP whose backward takes long after its first bucket of gradients is complete, each rank with as many rows as any
 * other, so that no window is measured: a measured one waits for its device. Run by trace.sh, which looks at what travels meanwhile, and
 * says how wide it is, as its devices are not all fast. With a file as its second argument the program traces steps 3 and 4 itself.
 */
#include <stdlib.h>

#include <yoke/yoke.h>

enum { STEPS = 8, ROWS = 128, IN = 128, OUT = 10, LAYERS = 4 };

typedef struct layer {
    yk_t weight, bias;
} layer;

static void layers_make(yk_job *job, layer *net, int64_t hidden)
{
    static const char *const name[LAYERS][2] = {{"w1", "b1"}, {"w2", "b2"}, {"w3", "b3"}, {"w4", "b4"}};
    for (int i = 0; i < LAYERS; i++) {
        const int64_t in = i ? hidden : IN, out = i + 1 < LAYERS ? hidden : OUT;
        net[i].weight = yk_param(job, name[i][0], 2, (int64_t[]){out, in}, (yk_init){YK_INIT_NORMAL, 0, 0.03f});
        net[i].bias = yk_param(job, name[i][1], 1, &out, (yk_init){YK_INIT_ZEROS, 0, 0});
    }
}

static yk_t loss_of(yk_job *job, const layer *net, const float *point, const int32_t *label)
{
    yk_t x = yk_input(job, YK_F32, 2, (int64_t[]){ROWS, IN}, point);
    for (int i = 0; i + 1 < LAYERS; i++)
        x = yk_tanh(yk_linear(x, net[i].weight, net[i].bias));
    return yk_cross_entropy(yk_linear(x, net[LAYERS - 1].weight, net[LAYERS - 1].bias),
                            yk_input(job, YK_I32, 1, (int64_t[]){ROWS}, label));
}

int main(int argc, char **argv)
{
    static float point[ROWS * IN];
    int32_t label[ROWS], row[ROWS];
    layer net[LAYERS];
    yk_job *job = yk_open(&(yk_config){.seed = 1, .quiet = true});
    layers_make(job, net, argc > 1 ? atoi(argv[1]) : 768);
    yk_opt *opt = yk_adam(job, &(yk_adam_config){.lr = 1e-4});
    for (int i = 0; i < ROWS * IN; i++)
        point[i] = (float)(i * 7919 % 1000) / 500 - 1;
    for (int i = 0; i < ROWS; i++) {
        label[i] = i % OUT;
        row[i] = (int32_t)yk_rank(job) * ROWS + i;
    }
    for (int i = 0; i < STEPS && yk_ok(job); i++) {
        if (argc > 2 && i == 3)
            yk_trace_begin(job);
        if (argc > 2 && i == 5)
            yk_trace_end(job, argv[2]);
        yk_set_rows(job, ROWS, row, (int64_t)yk_world_size(job) * ROWS);
        yk_backward(loss_of(job, net, point, label));
        yk_step(opt);
    }
    return yk_close(job);
}
