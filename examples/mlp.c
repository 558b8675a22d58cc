/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A first program: a classifier for the images of an IDX folder, on the devices that YOKE_DEVICES names.
 *
 *   mlp DIR [EPOCHS]                                     on one device
 *   YOKE_DEVICES="cpu:0 opencl:0@1" yoke launch mlp DIR  on two unlike devices, to the same result up to rounding
 */
#include <stdio.h>
#include <stdlib.h>
#include <yoke/yoke.h>

/* The share of test images whose class is right, over all devices. */
static double accuracy_of(yk_job *job, yk_model *net, yk_data *test)
{
    double sums[2] = {0, 0}; /* right rows, all rows */
    yk_train(job, false);
    yk_each (batch, job, test) {
        yk_t right = yk_equal(yk_argmax(yk_forward(net, &batch), 1), batch.labels);
        sums[0] += yk_item(yk_sum(yk_cast(right, YK_F32), 1, false));
        sums[1] += (double)batch.rows;
    }
    yk_train(job, true);
    yk_all_reduce_sum(job, sums, 2);
    return sums[0] / sums[1];
}

int main(int argc, char **argv)
{
    char spec[4096];
    snprintf(spec, sizeof spec, "idx:%s", argc > 1 ? argv[1] : "/usr/share/datasets/fashion-mnist");
    yk_job *job = yk_open(&(yk_config){.seed = 42});
    yk_data *data = yk_data_open(job, spec, &(yk_data_config){.global_batch = 128}); /* rows over all ranks */
    yk_data *test = yk_data_open(job, spec, &(yk_data_config){.global_batch = 128, .eval = true});
    yk_model *net = yk_model_new(job, "mlp", "hidden=512+256", data);
    yk_opt *opt = yk_adamw(job, &(yk_adam_config){.lr = 1e-3, .weight_decay = 0.01});

    for (int epoch = 0; epoch < (argc > 2 ? atoi(argv[2]) : 1); epoch++) {
        yk_each (batch, job, data) { /* one step; temporaries die with it */
            yk_t loss = yk_model_loss(net, &batch, yk_forward(net, &batch));
            yk_backward(loss);
            yk_clip_norm(job, 1.0f);
            yk_step(opt);
        }
        yk_print(job, "epoch %d: loss %.4f, accuracy %.4f\n", epoch, yk_step_loss(opt), accuracy_of(job, net, test));
    }
    yk_model_save(net, "mlp-out");
    return yk_close(job); /* prints the first error, once; 0 if there was none */
}
