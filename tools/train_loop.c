/* SPDX-License-Identifier: Apache-2.0 */
/* The training loop: batches to steps, steps to epochs, and what happens between them. */
#include "tools/train_loop.h"

#include <math.h>
#include <stdio.h>

train_json train_number(double v)
{
    train_json t = {"null"};
    if (isfinite(v))
        snprintf(t.text, sizeof t.text, "%.9g", v);
    return t;
}

static void log_line(train_run *r, uint64_t epoch)
{
    const double loss = yk_window_loss(r->opt); /* waits for the device: only where it is shown */
    const double now = train_seconds(), span = r->log_spent + now - r->log_time;
    const double rows = (double)r->log_rows / span, tokens = (double)r->log_tokens / span;
    progress_show(&r->bar, r->steps, r->total, loss, yk_lr(r->opt), rows);
    if (r->log)
        fprintf(r->log,
                "{\"step\": %llu, \"epoch\": %llu, \"loss\": %s, \"lr\": %s, \"grad_norm\": %s, \"samples_per_s\": %.6g, "
                "\"tokens_per_s\": %.6g, \"seconds\": %.6g}\n",
                (unsigned long long)r->steps, (unsigned long long)epoch, train_number(loss).text, train_number(yk_lr(r->opt)).text,
                train_number(yk_grad_norm(r->opt)).text, rows, tokens, now - r->started);
    if (r->log)
        fflush(r->log);
    r->spent += span;
    r->rows += r->log_rows;
    r->log_time = train_seconds();
    r->log_spent = 0;
    r->log_rows = r->log_tokens = 0;
}

static void evaluate(train_run *r, uint64_t epoch)
{
    if (!r->eval || !yk_data_rows(r->eval))
        return;
    r->log_spent += train_seconds() - r->log_time; /* evaluation is no part of the training's speed */
    r->result = train_evaluate(r->job, r->model, r->eval);
    yk_sched_metric(r->sched, r->result.loss);
    r->log_time = train_seconds();
    if (!yk_ok(r->job) || !yk_is_main(r->job))
        return;
    progress_say(&r->bar, "epoch %llu step %llu: eval loss %.4f accuracy %.4f", (unsigned long long)epoch,
                 (unsigned long long)r->steps, r->result.loss, r->result.accuracy);
    if (r->log)
        fprintf(r->log, "{\"step\": %llu, \"epoch\": %llu, \"eval_loss\": %s, \"eval_accuracy\": %s, \"seconds\": %.6g}\n",
                (unsigned long long)r->steps, (unsigned long long)epoch, train_number(r->result.loss).text,
                train_number(r->result.accuracy).text, train_seconds() - r->started);
}

/* Optimizer steps done at this place in the data. Those whose update loss scaling skipped are among them, as in Hugging
 * Face's count, so that a run ends after its batches whatever became of their gradients. */
static uint64_t steps_at(const train_run *r, uint64_t epoch, uint64_t batch)
{
    return epoch * r->per_epoch + (batch + r->accumulate - 1) / r->accumulate;
}

static bool evaluation_due(const train_run *r, const yk_batch *batch)
{
    return r->steps < r->total && (r->eval_every ? r->steps % r->eval_every == 0 : batch->last); /* the last comes once all is saved */
}

/* What the end of an accumulation window brings with it. A checkpoint comes last: who resumes from it has nothing to make up for. */
static void after_window(train_run *r, const yk_batch *batch)
{
    r->steps = steps_at(r, batch->epoch, batch->index + 1);
    yk_sched_step(r->sched);
    if (r->steps % r->log_every == 0 || r->steps == r->total)
        log_line(r, batch->epoch);
    if (evaluation_due(r, batch))
        evaluate(r, batch->epoch);
    if (r->save_every && r->steps % r->save_every == 0)
        checkpoint_save(&r->kept, r->job, r->steps);
}

static void train_batch(train_run *r, const yk_batch *batch)
{
    yk_t loss = yk_model_loss(r->model, batch, yk_forward(r->model, batch));
    yk_backward(loss);
    if (r->clip > 0)
        yk_clip_norm(r->job, (float)r->clip);
    yk_step(r->opt);
    r->log_rows += (uint64_t)batch->global_rows;
    r->log_tokens += (uint64_t)(batch->global_rows * (batch->width > 0 ? batch->width : 0));
    if (yk_ok(r->job) && (batch->last || (batch->index + 1) % r->accumulate == 0))
        after_window(r, batch);
}

/* The epoch of the last step. */
static uint64_t epoch_at(const train_run *r)
{
    return r->steps && r->per_epoch ? (r->steps - 1) / r->per_epoch : 0;
}

void train_loop(train_run *r)
{
    uint64_t epoch, next;
    yk_data_place(r->data, &epoch, &next);
    r->steps = steps_at(r, epoch, next);
    r->started = r->log_time = train_seconds();
    if (r->steps >= r->total && yk_ok(r->job) && yk_is_main(r->job))
        fprintf(stderr, "yoke train: the checkpoint is at step %llu and the run ends at %llu: nothing is left to train\n",
                (unsigned long long)r->steps, (unsigned long long)r->total);
    while (r->steps < r->total && yk_ok(r->job))
        yk_each (batch, r->job, r->data) { /* an epoch, or what a checkpoint left of it; the data go on with the next by themselves */
            train_batch(r, &batch);
            if (r->steps >= r->total)
                break;
        }
    if (yk_ok(r->job))
        yk_model_save(r->model, r->out);
    if (yk_ok(r->job))
        evaluate(r, epoch_at(r));
    progress_end(&r->bar);
}
