/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times the checkpoint of a training of GPT-2 (124 million parameters, AdamW), from a step's end on: usage: saver TOKENS FOLDER TIMES
 * TOKENS is a file of 16-bit token ids, FOLDER the checkpoint's. Each line of input starts a save; it prints one JSON object.
 */
#include <stdio.h>
#include <stdlib.h>

#include <yoke/yoke.h>

#include "core/base/clock.h"

enum { BATCH = 1, WIDTH = 16 };

static void trainer_step(yk_data *data, yk_job *job, yk_model *model, yk_opt *opt)
{
    yk_each (batch, job, data) {
        yk_backward(yk_model_loss(model, &batch, yk_forward(model, &batch)));
        yk_step(opt);
        break;
    }
    yk_step_loss(opt); /* waits for the step's end */
}

int main(int argc, char **argv)
{
    char spec[4200], line[16];
    if (argc != 4)
        return 2;
    yk_job *job = yk_open(&(yk_config){.quiet = true});
    snprintf(spec, sizeof spec, "tokens:%s,dtype=u16,vocab=50257,split=1,seq-len=%d", argv[1], WIDTH);
    yk_data *data = yk_data_open(job, spec, &(yk_data_config){.global_batch = BATCH, .seq_len = WIDTH});
    yk_model *model = yk_model_new(job, "gpt2", NULL, data);
    yk_opt *opt = yk_adamw(job, &(yk_adam_config){.lr = 1e-5});
    for (int i = atoi(argv[3]); i > 0 && yk_ok(job) && fgets(line, sizeof line, stdin); i--) {
        trainer_step(data, job, model, opt);
        const double at = yk__clock_seconds();
        yk_save(job, argv[2]);
        printf("{\"seconds\": %.6g}\n", yk__clock_seconds() - at);
        fflush(stdout);
    }
    return yk_close(job);
}
