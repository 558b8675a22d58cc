/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads of a rank that becomes excluded from a step: the loss, as on all ranks, and a value that depends on an exchange. Run by
 * tests/cli/excluded.sh, which makes rank 0 the slow one; prints a line "rank N: .." on every rank.
 *   excluded IDX-DIR loss|value|rows|unlike
 * rows: an evaluation after every 20 steps; the number is of its fewest rows over all ranks. unlike: from step 150 on the last rank clips
 * otherwise than the rest, and rank 0 reads a parameter late in that step, when the others compare why they differ.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <yoke/yoke.h>

enum { STEPS = 400, UNLIKE = 150 };

/* The root of how many rows of all ranks are right: it needs the sum over ranks within the step. */
static yk_t count_right(yk_t logits, yk_t labels)
{
    const yk_t right = yk_cast(yk_equal(yk_argmax(logits, -1), labels), YK_F32);
    return yk_keep(yk_sqrt(yk_sum(right, 1, false)));
}

/* One step; *excluded: this rank had no part in it. */
static double step_value(yk_model *net, yk_opt *opt, const yk_batch *batch, bool loss_too, bool *excluded)
{
    const yk_t logits = yk_forward(net, batch), loss = yk_keep(yk_model_loss(net, batch, logits));
    const yk_t right = count_right(logits, batch->labels);
    double number;
    yk_backward(loss);
    yk_step(opt);
    *excluded = batch->rows == 0;
    number = loss_too ? yk_item(loss) : 0;
    return loss_too || !*excluded ? number : yk_item(right);
}

static double rows_evaluated(yk_job *job, yk_model *net, yk_data *data)
{
    double rows = 0;
    yk_train(job, false);
    yk_each (batch, job, data) {
        yk_item(count_right(yk_forward(net, &batch), batch.labels));
        rows += (double)batch.rows;
    }
    yk_train(job, true);
    yk_all_reduce_sum(job, &rows, 1);
    return rows;
}

/* Steps until the ranks' clipping differs. */
static void unlike_run(yk_job *job, yk_data *data, yk_model *net, yk_opt *opt)
{
    static float value[784 * 32];
    int step = 0;
    while (yk_ok(job) && step < STEPS)
        yk_each (batch, job, data) {
            yk_backward(yk_model_loss(net, &batch, yk_forward(net, &batch)));
            yk_clip_norm(job, step >= UNLIKE && yk_rank(job) + 1 == yk_world_size(job) ? 2.0f : 1.0f);
            if (step == UNLIKE && !batch.rows) {
                fprintf(stderr, "an excluded rank comes to read\n");
                sleep(2);
                yk_param_read(yk_param_at(job, 0), value, 784 * 32);
            }
            yk_step(opt);
            if (++step == STEPS)
                break;
        }
}

int main(int argc, char **argv)
{
    const bool rows = argc > 2 && !strcmp(argv[2], "rows"), loss = rows || (argc > 2 && !strcmp(argv[2], "loss"));
    char spec[4096];
    yk_job *job = yk_open(&(yk_config){.seed = 42, .quiet = true});
    bool excluded = false;
    double number = 0, fewest = 1e9;
    int step = 0, without = 0;
    snprintf(spec, sizeof spec, "idx:%s", argc > 1 ? argv[1] : "");
    yk_data *data = yk_data_open(job, spec, &(yk_data_config){.global_batch = 64});
    yk_data *test = yk_data_open(job, spec, &(yk_data_config){.global_batch = 64, .eval = true});
    yk_model *net = yk_model_new(job, "mlp", "hidden=32", data);
    yk_opt *opt = yk_adamw(job, &(yk_adam_config){.lr = 1e-3});
    if (argc > 2 && !strcmp(argv[2], "unlike"))
        unlike_run(job, data, net, opt);
    else while (yk_ok(job) && step < STEPS)
        yk_each (batch, job, data) {
            number = step_value(net, opt, &batch, loss, &excluded);
            without += excluded;
            if (rows && step % 20 == 19)
                fewest = fmin(fewest, rows_evaluated(job, net, test));
            if (++step == STEPS)
                break;
        }
    if (yk_ok(job))
        printf("rank %u: %.17g, without %s\n", yk_rank(job), rows ? fewest : number, without ? "some" : "none");
    return yk_close(job);
}
