/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fine-tunes a model of the Hugging Face hub on labelled texts: the folder's encoder with a new classifier. It uses a warm-up, a linear
 * schedule, weight decay for matrices only, and prints the accuracy on test rows. The saved folder opens in transformers.
 *
 *   finetune MODEL-DIR TRAIN.csv TEST.csv OUTPUT-DIR [ROWS]      columns text and category
 */
#include <stdio.h>
#include <stdlib.h>
#include <yoke/yoke.h>

enum { BATCH = 32, EPOCHS = 3 };

static yk_data *rows_open(yk_job *job, const char *file, const char *model, bool eval, uint64_t rows)
{
    char spec[4200];
    snprintf(spec, sizeof spec, "csv:%s,text=text,label=category", file);
    return yk_data_open(job, spec,
                        &(yk_data_config){.tokenizer = model, .max_length = 64, .global_batch = BATCH, .eval = eval, .max_rows = rows});
}

/* Biases and norms get no decay, in a separate group. */
static yk_opt *optimizer_new(yk_job *job, const yk_model *model)
{
    yk_opt *opt = yk_adamw(job, &(yk_adam_config){.lr = 2e-4, .weight_decay = 0.01});
    const uint32_t plain = yk_opt_group(opt, 1.0, 0.0);
    for (uint32_t i = 0; i < yk_param_count(job); i++)
        if (!yk_param_is_state(job, i) && !yk_model_decays(model, yk_param_name(job, i)))
            yk_opt_move(opt, plain, yk_param_at(job, i));
    return opt;
}

static double accuracy_of(yk_job *job, yk_model *model, yk_data *data)
{
    double sums[2] = {0, 0}; /* correct rows, all rows */
    yk_train(job, false);
    yk_each (batch, job, data) {
        yk_t right = yk_equal(yk_argmax(yk_forward(model, &batch), 1), batch.labels);
        sums[0] += yk_item(yk_sum(yk_cast(right, YK_F32), 1, false)); /* also on a rank without rows */
        sums[1] += (double)batch.rows;
    }
    yk_train(job, true);
    yk_all_reduce_sum(job, sums, 2);
    return sums[1] > 0 ? sums[0] / sums[1] : 0;
}

int main(int argc, char **argv)
{
    if (argc < 5)
        return fprintf(stderr, "usage: finetune MODEL-DIR TRAIN.csv TEST.csv OUTPUT-DIR [ROWS]\n"), 2;
    const uint64_t rows = argc > 5 ? strtoull(argv[5], NULL, 10) : 0;
    yk_job *job = yk_open(&(yk_config){.seed = 42});
    yk_data *train = rows_open(job, argv[2], argv[1], false, rows), *test = rows_open(job, argv[3], argv[1], true, rows);
    yk_model *model = yk_model_from_pretrained(job, argv[1], NULL, train); /* as many classes as the data have */
    yk_opt *opt = optimizer_new(job, model);
    const double steps = (double)(yk_data_batches(train) * EPOCHS);
    yk_sched *sched = yk_schedule(opt, &(yk_sched_config){.name = "linear", .warmup_steps = steps / 10, .total_steps = steps});
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        yk_each (batch, job, train) {
            yk_backward(yk_model_loss(model, &batch, yk_forward(model, &batch)));
            yk_clip_norm(job, 1.0f);
            yk_step(opt);
            yk_sched_step(sched);
        }
        yk_print(job, "epoch %d: loss of the last step %.4f, accuracy %.4f\n", epoch, yk_step_loss(opt), accuracy_of(job, model, test));
    }
    yk_model_save(model, argv[4]);
    return yk_close(job);
}
