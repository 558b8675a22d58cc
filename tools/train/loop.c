/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The training loop: batches to steps, steps to epochs, and the work between them.
 *
 * cmd_train.c (tools/cmd) calls train_begin once the checkpoint is loaded, then train_loop. All ranks do, each in its main thread: the
 * calls of job, data and evaluation are collective. Rank 0 alone prints and writes reports. Steps are the optimizer's, one for each
 * accumulation window.
 */
#include "tools/train/loop.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tools/train/reports.h"

typedef struct number_text {
    char text[32];
} number_text;

/* A number in JSON; null if it is not finite. */
static number_text number_write(double v)
{
    number_text t = {"null"};
    if (isfinite(v))
        snprintf(t.text, sizeof t.text, "%.9g", v);
    return t;
}

static double epochs_done(const train_run *r)
{
    return r->per_epoch ? (double)r->steps / (double)r->per_epoch : 0;
}

/* Adds the work since the last log line to the whole run's speed, and starts the next line. `span`: seconds. */
static void close_span(train_run *r, double span)
{
    r->spent += span;
    r->rows += r->log_rows;
    r->log_spent = 0;
    r->log_rows = r->log_tokens = 0;
}

/* Speeds of a span that ended with the job are unknown. */
static void print_step(const train_run *r, FILE *f, uint64_t epoch, double rows_per_s, double tokens_per_s)
{
    fprintf(f,
            "{\"step\": %llu, \"epoch\": %llu, \"loss\": %s, \"lr\": %s, \"grad_norm\": %s, \"samples_per_s\": %s, "
            "\"tokens_per_s\": %s, \"seconds\": %.6g}\n",
            (unsigned long long)r->steps, (unsigned long long)epoch, number_write(yk_step_loss(r->opt)).text,
            number_write(yk_lr(r->opt)).text, number_write(yk_grad_norm(r->opt)).text,
            number_write(rows_per_s).text, number_write(tokens_per_s).text, train_seconds() - r->started);
}

/* All ranks call it, and rank 0 writes: the speed is over all ranks, and the span ended on all. */
static void log_line(train_run *r, uint64_t epoch)
{
    const double loss = yk_step_loss(r->opt); /* waits for the device, so only for a printed line */
    const double span = r->log_spent + yk_step_seconds(r->opt);
    const double rows = (double)r->log_rows / span, tokens = (double)r->log_tokens / span;
    FILE *f = report_begin(r);
    progress_show(&r->bar, r->steps, r->total, loss, yk_lr(r->opt), rows);
    if (f)
        print_step(r, f, epoch, rows, tokens);
    report_end(r);
    trackers_add(r->trackers, r->steps, epochs_done(r), "train/loss", loss);
    trackers_add(r->trackers, r->steps, epochs_done(r), "train/learning_rate", yk_lr(r->opt));
    trackers_add(r->trackers, r->steps, epochs_done(r), "train/grad_norm", yk_grad_norm(r->opt));
    trackers_add(r->trackers, r->steps, epochs_done(r), "train/samples_per_s", rows);
    trackers_flush(r->trackers);
    r->logged = r->steps;
    close_span(r, span);
}

static void tell_result(train_run *r, uint64_t epoch)
{
    char text[256] = "";
    FILE *f = fmemopen(text, sizeof text - 1, "w"), *line = report_begin(r);
    for (int i = 0; i < METRIC_COUNT; i++)
        if (r->metrics & 1u << i) {
            char tag[64];
            snprintf(tag, sizeof tag, "eval/%s", metric_names[i]);
            trackers_add(r->trackers, r->steps, epochs_done(r), tag, r->result.value[i]);
        }
    trackers_flush(r->trackers);
    if (f) {
        metric_print(f, &r->result, r->metrics);
        fclose(f);
    }
    progress_say(&r->bar, "epoch %llu step %llu: eval %s", (unsigned long long)epoch, (unsigned long long)r->steps, text);
    if (line) {
        fprintf(line, "{\"step\": %llu, \"epoch\": %llu, ", (unsigned long long)r->steps, (unsigned long long)epoch);
        metric_print_json(line, &r->result, r->metrics);
        fprintf(line, ", \"seconds\": %.6g}\n", train_seconds() - r->started);
    }
    report_end(r);
}

/* counts: the strategy made it due, so the schedule and the best model use it. A resumed run then has it too. False before the first
 * step, and after a step that is last only by the number of steps. */
static void run_evaluate(train_run *r, uint64_t epoch, bool counts)
{
    if (!r->eval || !yk_data_rows(r->eval))
        return;
    if (r->log_rows)
        r->log_spent += yk_step_seconds(r->opt); /* evaluation is no part of the training's speed */
    yk_average_params(r->job); /* LocalSGD */
    r->result = train_evaluate(r->job, r->model, r->eval, r->metrics);
    r->evaluated = r->steps;
    if (counts)
        yk_sched_metric(r->sched, r->result.value[r->best.by]);
    if (yk_ok(r->job) && yk_is_main(r->job))
        tell_result(r, epoch);
    if (counts)
        train_best_judge(r->job, &r->best, &r->result, r->steps, r->out);
    r->stop = train_best_is_late(&r->best);
    yk_step_seconds(r->opt);
}

/* Optimizer steps done at this place in the data. Steps whose update loss scaling skipped count, as in Hugging Face's count, so that a
 * run ends after its batches in any case. */
static uint64_t steps_at(const train_run *r, uint64_t epoch, uint64_t batch)
{
    return epoch * r->per_epoch + (batch + r->accumulate - 1) / r->accumulate;
}

/* The same at the start of a run. A window that a checkpoint with other windows cut off still has its step to come. */
static uint64_t steps_before(const train_run *r, uint64_t epoch, uint64_t batch)
{
    return batch < yk_data_batches(r->data) ? epoch * r->per_epoch + batch / r->accumulate : steps_at(r, epoch, batch);
}

/* Windows count from an epoch's first batch, so the first one of a resumed run may be a rest. */
static bool window_ends(const train_run *r, const yk_batch *batch)
{
    return batch->last || (batch->index + 1) % r->accumulate == 0;
}

static bool evaluation_due(const train_run *r, const yk_batch *batch)
{
    const double done = r->eval_when.strategy == TRAIN_STEPS ? (double)r->steps : epochs_done(r);
    return done >= r->eval_delay && train_when_due(&r->eval_when, r->steps, batch->last);
}

static bool log_due(const train_run *r, const yk_batch *batch)
{
    return (r->log_first && r->steps == 1) || train_when_due(&r->log_when, r->steps, batch->last) ||
           (r->log_when.strategy != TRAIN_NEVER && r->steps == r->total);
}

/* The epoch of the last step. */
static uint64_t epoch_at(const train_run *r)
{
    return r->steps && r->per_epoch ? (r->steps - 1) / r->per_epoch : 0;
}

/* The last step has its own line, even if the run was not known to end with it. */
static void end_span(train_run *r)
{
    if (!r->log_rows || !yk_ok(r->job))
        return;
    if (r->log_when.strategy != TRAIN_NEVER && r->logged != r->steps)
        log_line(r, epoch_at(r));
    else
        close_span(r, r->log_spent + yk_step_seconds(r->opt));
}

static void save_model(train_run *r)
{
    if (yk_ok(r->job) && r->saved != r->steps)
        yk_model_save(r->model, r->out);
    r->saved = r->steps;
}

/* After a rank's signal the checkpoint of this step is the run's last action. saved: it exists already. */
static void leave_if_asked(train_run *r, bool last, bool saved)
{
    if (!leave_asked(&r->leave, r->job, r->steps, last))
        return;
    const int sig = leave_signal();
    if (!saved)
        checkpoint_save(&r->kept, r->job, r->steps);
    if (!yk_ok(r->job))
        return;
    leave_end();
    r->left = true;
    progress_end(&r->bar);
    if (yk_is_main(r->job))
        fprintf(stderr, "yoke train: %s: %s/checkpoint-%llu holds the training after step %llu of %llu: --resume-from-checkpoint last goes "
                "on from there\n", sig == SIGTERM ? "SIGTERM" : sig ? "SIGUSR1" : "another rank has got a signal", r->out,
                (unsigned long long)r->steps, (unsigned long long)r->steps, (unsigned long long)r->total);
}

/* The work at the end of an accumulation window. A checkpoint comes last, so that a resumed run has nothing to catch up with, at the run's
 * end either. An early stop has one too, if --save-strategy is steps or epoch. The model is saved before the last evaluation, which may
 * fail. prediction_end compares a plan's step time (--plan) with the measured one. */
static void after_window(train_run *r, const yk_batch *batch)
{
    r->steps = steps_at(r, batch->epoch, batch->index + 1);
    prediction_end(&r->plan, r->job, &r->bar, r->steps >= r->total);
    yk_sched_step(r->sched);
    if (log_due(r, batch))
        log_line(r, batch->epoch);
    if (r->steps >= r->total) {
        end_span(r);
        save_model(r);
    }
    if (evaluation_due(r, batch))
        run_evaluate(r, batch->epoch, true);
    const bool saves = r->save_when.strategy == TRAIN_STEPS || r->save_when.strategy == TRAIN_EPOCHS;
    const bool due = train_when_due(&r->save_when, r->steps, batch->last) || (r->stop && saves);
    if (due)
        checkpoint_save(&r->kept, r->job, r->steps);
    leave_if_asked(r, r->steps >= r->total || r->stop, due);
    prediction_begin(&r->plan);
}

static void train_batch(train_run *r, const yk_batch *batch)
{
    yk_t loss = yk_model_loss(r->model, batch, yk_forward(r->model, batch));
    r->best.current = false;
    if (r->clip > 0)
        yk_clip_norm(r->job, (float)r->clip); /* before yk_backward: there the ranks compare it */
    if (window_ends(r, batch))
        yk_accumulate_end(r->job);
    yk_backward(loss);
    yk_step(r->opt);
    r->log_rows += (uint64_t)batch->global_rows;
    r->log_tokens += (uint64_t)(batch->global_rows * (batch->width > 0 ? batch->width : 0));
    if (yk_ok(r->job) && window_ends(r, batch))
        after_window(r, batch);
}

/* Corrects the schedule's step, if other batches or windows give the checkpoint's run more or fewer steps than this one's. (Else it
 * stays: an update that loss scaling skipped was a step of the run, and none of the schedule's.) */
static void resume_steps(train_run *r)
{
    if (!r->kept.from[0])
        return;
    const bool same = checkpoint_same_steps(&r->kept, r->data, r->batch, r->accumulate);
    if (!same) {
        yk_sched_seek(r->sched, r->steps);
        progress_say(&r->bar, "the schedule goes on at step %llu of %llu, by the rows that were trained on", (unsigned long long)r->steps,
                     (unsigned long long)r->total);
    }
    train_best_resume(r->job, &r->best, r->kept.from, same ? r->steps : UINT64_MAX, r->out);
    r->stop = train_best_is_late(&r->best);
}

/* Saves the model once more if an earlier one was better. */
static void finish_training(train_run *r)
{
    end_span(r);
    save_model(r);
    if (yk_ok(r->job) && r->eval_last && r->evaluated != r->steps)
        run_evaluate(r, epoch_at(r), false);
    if (r->stop)
        progress_say(&r->bar, "stopped early: %s has not got better for %llu evaluations", metric_names[r->best.by],
                     (unsigned long long)r->best.waited);
    if ((r->best.save || r->best.patience) && !r->best.found)
        progress_say(&r->bar, "no evaluation that was due gave a finite %s: the last model is the one that is left",
                     metric_names[r->best.by]);
    if (!train_best_load(r->job, &r->best, &r->result, r->out))
        return;
    r->result = r->best.result;
    progress_say(&r->bar, "the best model is that of step %llu: it is the one that is left", (unsigned long long)r->best.step);
    yk_model_save(r->model, r->out);
}

void train_begin(train_run *r)
{
    uint64_t epoch, next;
    yk_data_tell(r->data, &epoch, &next);
    r->steps = steps_before(r, epoch, next);
    r->evaluated = r->saved = UINT64_MAX;
    r->first = r->bar.first = r->steps;
    r->bar.begin = train_seconds(); /* the time before is no step's */
}

void train_loop(train_run *r)
{
    r->started = train_seconds();
    if (r->steps >= r->total && yk_ok(r->job) && yk_is_main(r->job))
        fprintf(stderr, "yoke train: the checkpoint is at step %llu and the run ends at %llu: nothing is left to train\n",
                (unsigned long long)r->steps, (unsigned long long)r->total);
    resume_steps(r);
    if (r->stop && r->steps < r->total && yk_ok(r->job) && yk_is_main(r->job))
        fprintf(stderr, "yoke train: the run of the checkpoint was stopped early, at step %llu: nothing is left to train (a larger "
                "--early-stopping-patience goes on)\n", (unsigned long long)r->steps);
    yk_step_seconds(r->opt);
    leave_if_asked(r, true, false);
    if (r->eval_first && r->steps < r->total && !r->left && !r->stop)
        run_evaluate(r, epoch_at(r), false);
    while (r->steps < r->total && !r->stop && !r->left && yk_ok(r->job))
        yk_each (batch, r->job, r->data) { /* an epoch, or the rest of a resumed one; the data then continue with the next */
            train_batch(r, &batch);
            if (r->steps >= r->total || r->stop || r->left)
                break;
        }
    if (!r->left)
        finish_training(r);
    progress_end(&r->bar);
}
