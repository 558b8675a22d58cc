/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Saves while it trains and continues from the last checkpoint, bit for bit. Stop it at any time and start it again: its last line
 * equals that of an uninterrupted run. A checkpoint holds parameters, optimizer, schedule and the place in the data.
 *
 *   resume IDX-DIR CHECKPOINT-DIR STEPS [STOP-AFTER]
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <yoke/yoke.h>

enum { SAVE_EVERY = 25 };

/* Loads the checkpoint. Data, model, optimizer and schedule must exist before yk_load, which fills them. */
static void checkpoint_load(yk_job *job, const char *dir, const yk_opt *opt)
{
    char file[4200];
    snprintf(file, sizeof file, "%s/trainer_state.json", dir);
    if (access(file, F_OK))
        return;
    yk_load(job, dir);
    yk_print(job, "goes on after step %llu\n", (unsigned long long)yk_steps(opt));
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return fprintf(stderr, "usage: resume IDX-DIR CHECKPOINT-DIR STEPS [STOP-AFTER]\n"), 2;
    char spec[4096];
    snprintf(spec, sizeof spec, "idx:%s", argv[1]);
    const uint64_t steps = strtoull(argv[3], NULL, 10), stop = argc > 4 ? strtoull(argv[4], NULL, 10) : steps;
    yk_job *job = yk_open(&(yk_config){.seed = 3});
    yk_data *data = yk_data_open(job, spec, &(yk_data_config){.global_batch = 64});
    yk_model *net = yk_model_new(job, "mlp", "hidden=64", data);
    yk_opt *opt = yk_adamw(job, &(yk_adam_config){.lr = 1e-3, .weight_decay = 0.01});
    yk_sched *sched = yk_schedule(opt, &(yk_sched_config){.name = "cosine", .warmup_steps = 10, .total_steps = (double)steps});
    checkpoint_load(job, argv[2], opt);
    while (yk_ok(job) && yk_steps(opt) < stop) {
        yk_each (batch, job, data) { /* the rest of an epoch first, then whole epochs */
            yk_backward(yk_model_loss(net, &batch, yk_forward(net, &batch)));
            yk_step(opt);
            yk_sched_step(sched);
            if (yk_steps(opt) % SAVE_EVERY == 0)
                yk_save(job, argv[2]);
            if (yk_steps(opt) >= stop)
                break;
        }
    }
    const uint64_t hash = yk_param_hash(job);
    yk_print(job, "step %llu: parameters %016llx\n", (unsigned long long)yk_steps(opt), (unsigned long long)hash);
    return yk_close(job);
}
