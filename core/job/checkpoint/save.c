/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints of a job (yk_save, yk_load): parameters, moments, and the numbers that a run needs to continue bit for bit. The user's
 * program calls both on all ranks, in the step thread. Rank 0 has the folder, and owners write their slices (writers.c). The state names
 * the launch (YOKE_RUN_ID), if it may restart.
 *
 * A folder appears under its name once it is whole. A load checks the whole state before it changes the job. emergency.c uses the parts for
 * the last whole step after a failure.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/option.h"
#include "core/io/checkpoint.h"
#include "core/job/checkpoint/data_state.h"
#include "core/job/checkpoint/emergency.h"
#include "core/job/checkpoint/job_hash.h"
#include "core/job/checkpoint/registered.h"
#include "core/job/checkpoint/resume.h"
#include "core/job/checkpoint/save.h"
#include "core/job/checkpoint/saved_state.h"
#include "core/job/checkpoint/stored_values.h"
#include "core/job/checkpoint/writers.h"
#include "core/job/opt.h"
#include "core/job/param.h"
#include "core/job/team/local_sgd.h"
#include "core/job/team/precision.h"
#include "core/job/team/share.h"

#define MODEL "model.safetensors"
#define MOMENTS "optimizer.safetensors"

/* ---- Tensors ---- */

/* The tensors of one file, and the way to read them. */
typedef struct tensors {
    yk_job *job;
    yk__safetensors_out *out;
    uint32_t *param, *kind; /* number in job->param; number of the moment */
    int64_t n, held;
    bool moments;
    const yk__kept_step *kept; /* kept step to read from; NULL to read from the engine */
    uint64_t largest;          /* bytes of the largest state */
    void *whole;               /* owned: data of state `held`; NULL before the first */
} tensors;

static const char *moment_name(const yk_opt *opt, uint32_t kind)
{
    static const char *const adam[] = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"};
    return opt->rule.kind == YK_OPT_ADAM ? adam[kind < 3 ? kind : 2] : "momentum";
}

static void tensors_free(tensors *t)
{
    for (int64_t i = 0; i < t->n && t->moments; i++)
        yk__free((char *)(uintptr_t)t->out[i].name);
    yk__free(t->out);
    yk__free(t->param);
    yk__free(t->kind);
    yk__free(t->whole);
}

/* Appends parameter p's entry. */
static bool tensors_append(tensors *t, size_t p, uint32_t kind)
{
    const yk__job_param *x = &t->job->param[p];
    const char *name = x->name;
    if (t->moments && !(name = yk__format("%s.%s", moment_name(t->job->opt, kind), x->name)))
        return false;
    t->param[t->n] = (uint32_t)p;
    t->kind[t->n] = kind;
    t->out[t->n++] = (yk__safetensors_out){
        .name = name, .dtype = t->moments ? YK_F32 : yk__param_file_type(x), .rank = (int)x->dims, .shape = x->dim};
    return true;
}

static uint64_t state_bytes(const yk__job_param *p)
{
    return p->state ? p->n * yk_dtype_bytes(yk__param_file_type(p)) : 0;
}

/* All parameters and states, or all moments of trained parameters. */
static bool tensors_list(yk_job *job, bool moments, tensors *t)
{
    uint32_t kinds = moments ? yk__engine_moments(job->engine) : 1;
    size_t most = job->n_param * kinds + 1;
    bool ok = true;
    *t = (tensors){.job = job, .held = -1, .moments = moments};
    for (size_t i = 0; i < job->n_param; i++)
        t->largest = state_bytes(&job->param[i]) > t->largest ? state_bytes(&job->param[i]) : t->largest;
    t->out = yk__calloc(most, sizeof *t->out);
    t->param = yk__calloc(most, sizeof *t->param);
    t->kind = yk__calloc(most, sizeof *t->kind);
    ok = t->out && t->param && t->kind;
    for (uint32_t k = 0; k < kinds && ok; k++)
        for (size_t i = 0; i < job->n_param && ok; i++)
            if (!moments || (!job->param[i].state && !job->param[i].frozen))
                ok = tensors_append(t, i, k);
    if (!ok) {
        tensors_free(t);
        yk__job_failf(job, YK_E_MEM, "out of memory for a checkpoint");
    }
    return ok;
}

static yk_status tensors_reserve(tensors *t, yk_error *err)
{
    if (!t->whole)
        t->whole = yk__malloc(t->largest);
    return t->whole ? YK_OK : yk__fail_mem(err, t->largest, "a tensor of a checkpoint");
}

/* Reads a state, whole, to t->whole. */
static yk_status state_read(tensors *t, int64_t i, yk_error *err)
{
    yk_job *job = t->job;
    const yk__job_param *p = &job->param[t->param[i]];
    if (t->held == i || tensors_reserve(t, err))
        return err->status;
    if (t->kept)
        memcpy(t->whole, yk__engine_snapshot_state(job->engine, t->kept, p->number), p->n * yk_dtype_bytes(p->dtype));
    else if (yk__engine_state_read(job->engine, p->number, t->whole, err))
        return err->status;
    yk__param_to_file(p, t->whole);
    t->held = i;
    return YK_OK;
}

/* Elements [from, from + n) of tensor i, as its file has them (yk__tensors_out). */
static yk_status tensor_read(void *user, int64_t i, uint64_t from, uint64_t n, bool single, void *buf, yk_error *err)
{
    tensors *t = user;
    yk__engine *e = t->job->engine;
    const yk__job_param *p = &t->job->param[t->param[i]];
    const uint64_t each = yk_dtype_bytes(t->out[i].dtype);
    const void *from_memory = NULL;
    if (p->state && state_read(t, i, err))
        return err->status;
    if (p->state)
        from_memory = t->whole;
    else if (t->kept)
        from_memory = t->moments ? yk__engine_snapshot_moment(e, t->kept, t->kind[i], p->number)
                                 : yk__engine_snapshot_param(e, t->kept, p->number);
    if (from_memory)
        memcpy(buf, (const char *)from_memory + from * each, n * each);
    else if (t->moments)
        yk__engine_moment_read(e, t->kind[i], p->number, from, n, single, buf, err);
    else
        yk__engine_param_part(e, p->number, from, n, buf, err);
    return err->status;
}

static uint32_t tensor_owner(void *user, int64_t i, uint64_t at, uint64_t *to)
{
    const tensors *t = user;
    const yk__job_param *p = &t->job->param[t->param[i]];
    *to = p->n;
    return p->state ? YK_NONE : yk__engine_owner(t->job->engine, p->number, at, to);
}

/* ---- State ---- */

static double real_of(const json_t *v, double preset)
{
    double out;
    return yk__state_real(v, &out) ? out : preset;
}

static uint64_t count_of(const json_t *v)
{
    uint64_t out;
    return yk__state_count(v, &out) ? out : 0;
}

/* Update counts of parameters with fewer updates than the optimizer. */
static json_t *own_steps(const yk_opt *opt)
{
    yk__json_builder o = yk__json_begin(json_object());
    for (size_t i = 0; i < opt->job->n_param; i++) {
        const yk__job_param *p = &opt->job->param[i];
        if (!p->state && p->steps != opt->steps)
            yk__json_put(&o, p->name, yk__state_of_count(p->steps));
    }
    return yk__json_end(&o);
}

static json_t *schedule_state(const yk_opt *opt)
{
    yk__json_builder o = yk__json_begin(json_object()), list = yk__json_begin(json_array());
    double plateau[4];
    char hash[20];
    yk__sched_state_get(opt->sched->rule, plateau);
    for (int i = 0; i < 4; i++)
        yk__json_append(&list, yk__state_of_real(plateau[i]));
    yk__json_put(&o, "hash", json_string(yk__resume_schedule(opt, hash, sizeof hash)));
    yk__json_put(&o, "step", yk__state_of_count(opt->sched->step));
    yk__json_put(&o, "plateau", yk__json_end(&list));
    return yk__json_end(&o);
}

static json_t *optimizer_state(const yk_opt *opt)
{
    yk__json_builder o = yk__json_begin(json_object());
    yk__json_put(&o, "kind", json_string(opt->rule.kind == YK_OPT_ADAM ? "adam" : "sgd"));
    yk__json_put(&o, "flags", json_integer(opt->rule.flags));
    yk__json_put(&o, "steps", yk__state_of_count(opt->steps));
    yk__json_put(&o, "param_steps", own_steps(opt));
    yk__json_put(&o, "lr", yk__state_of_real(opt->lr));
    yk__json_put(&o, "base_lr", yk__state_of_real(opt->base_lr));
    yk__json_put(&o, "beta1", yk__state_of_real(opt->rule.beta1));
    yk__json_put(&o, "beta2", yk__state_of_real(opt->rule.beta2));
    yk__json_put(&o, "eps", yk__state_of_real(opt->rule.eps));
    yk__json_put(&o, "weight_decay", yk__state_of_real(opt->group[0].weight_decay));
    if (opt->sched)
        yk__json_put(&o, "schedule", schedule_state(opt));
    return yk__json_end(&o);
}

static json_t *scaler_state(const yk__scaler *s)
{
    yk__json_builder o = yk__json_begin(json_object());
    yk__json_put(&o, "rule", json_string(yk__resume_scaling(s->rule)));
    yk__json_put(&o, "growth", yk__state_of_real(s->growth));
    yk__json_put(&o, "backoff", yk__state_of_real(s->backoff));
    yk__json_put(&o, "floor", yk__state_of_real(s->floor));
    yk__json_put(&o, "interval", json_integer(s->interval));
    yk__json_put(&o, "hysteresis", json_integer(s->hysteresis));
    yk__json_put(&o, "consecutive", json_integer(s->consecutive));
    yk__json_put(&o, "scale", yk__state_of_real(s->scale));
    yk__json_put(&o, "count", json_integer(s->good_steps));
    yk__json_put(&o, "left", json_integer(s->hysteresis_left));
    yk__json_put(&o, "iter", json_integer(s->iter));
    yk__json_put(&o, "last_bad", json_integer(s->last_bad));
    return yk__json_end(&o);
}

/* Seconds since 1970, for people; `saves` gives the order even if the clock was set. */
static double save_time(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void yk__save_after(yk_job *job, uint64_t saves)
{
    job->saves = saves > job->saves ? saves : job->saves;
}

json_t *yk__save_state(yk_job *job)
{
    const char *run = yk__option_text(YK__OPTION_RUN_ID);
    yk__json_builder o = yk__json_begin(json_object());
    yk__json_put(&o, "format", json_string("yoke-checkpoint"));
    yk__json_put(&o, "version", json_integer(1));
    yk__json_put(&o, "global_step", json_integer((json_int_t)yk_steps(job->opt)));
    yk__json_put(&o, "saved_at", yk__state_of_real(save_time()));
    yk__json_put(&o, "saves", yk__state_of_count(job->saves));
    if (run)
        yk__json_put(&o, "run", json_string(run));
    yk__json_put(&o, "micro_step", yk__state_of_count(job->micro_step));
    yk__json_put(&o, "seed", yk__state_of_count(job->config.seed));
    yk__json_put(&o, "precision", json_string(yk__precision_text(job)));
    yk__json_put(&o, "accumulate", json_integer(job->config.accumulate));
    yk__json_put(&o, "data", yk__data_state(job));
    if (job->opt)
        yk__json_put(&o, "optimizer", optimizer_state(job->opt));
    if (job->scaling)
        yk__json_put(&o, "scaler", scaler_state(&job->scaler));
    return yk__json_end(&o);
}

static json_t *state_with_shares(yk_job *job)
{
    yk__json_builder o = yk__json_begin(yk__save_state(job));
    yk__share_save(job, &o);
    return yk__json_end(&o);
}

/* ---- Saving ---- */

static yk_status save_file(yk__writers *w, yk_job *job, const char *file, bool moments, const yk__kept_step *kept, yk_error *err)
{
    tensors t;
    if (!tensors_list(job, moments, &t))
        return yk__job_why(job, err);
    t.kept = kept;
    yk__writers_file(w,
                     &(yk__tensors_out){.name = file, .tensor = t.out, .n = t.n, .owner = tensor_owner, .read = tensor_read,
                                        .is_shared = moments, .user = &t},
                     err);
    tensors_free(&t);
    return err->status;
}

yk_status yk__save_companions(yk_job *job, const char *dir, yk_error *err)
{
    for (size_t i = 0; i < job->attached.n_companion && yk_ok(job); i++)
        job->attached.companion[i].write(job->attached.companion[i].object, dir);
    return yk_ok(job) ? YK_OK : yk__job_why(job, err);
}

/* Writes all files except the state; c is NULL on ranks other than 0. */
static yk_status save_parts(yk__checkpoint *c, yk_job *job, const char *dir, yk_error *err)
{
    yk__writers w;
    if (!yk__writers_open(&w, job, dir, c, err) && !save_file(&w, job, MODEL, false, NULL, err) && job->opt)
        save_file(&w, job, MOMENTS, true, NULL, err);
    yk__writers_close(&w);
    if (!err->status && c && !yk__registered_save(c, job, NULL, err))
        yk__save_companions(job, yk__checkpoint_folder(c), err);
    return err->status;
}

yk_status yk__save_kept(yk__checkpoint *c, yk_job *job, const yk__kept_step *kept, yk_error *err)
{
    yk__writers w = {.job = job, .checkpoint = c, .folder = yk__strdup(yk__checkpoint_folder(c)), .dir = AT_FDCWD};
    if (!w.folder)
        yk__fail_mem(err, strlen(yk__checkpoint_folder(c)), "a path");
    else if (!save_file(&w, job, MODEL, false, kept, err))
        save_file(&w, job, MOMENTS, true, kept, err);
    yk__writers_close(&w);
    return err->status;
}

void yk_on_save(yk_job *job, void *object, void (*write)(void *object, const char *dir))
{
    if (yk_ok(job) && !yk__companion_add(&job->attached, object, write))
        yk__job_failf(job, YK_E_MEM, "out of memory in yk_on_save");
}

static bool have_whole(yk_job *job)
{
    yk_error err = YK_ERROR_INIT;
    if (yk__engine_whole(job->engine, &err))
        yk__job_fail(job, &err);
    return yk_ok(job);
}

void yk_save(yk_job *job, const char *dir)
{
    YK__ACT_HERE(YK__ACT_CALL);
    yk_error err = YK_ERROR_INIT;
    yk__checkpoint *c = NULL;
    if (!yk_ok(job) || !yk__job_given(job, "yk_save", "dir", dir))
        return;
    if (yk__emergency_is(job, dir)) {
        yk__job_failf(job, YK_E_ARG, "yk_save: %s: expected another folder than YOKE_EMERGENCY_CHECKPOINT's: give the variable another "
                      "one, as a rank that is lost in a save leaves its files here", dir);
        return;
    }
    if (!yk__opt_window_ended(job, "yk_save", "would not be saved"))
        return;
    if (!yk__params_ready(job) || (job->opt && !yk__opt_made(job->opt)) || !yk__local_sgd_average(job, true) || !have_whole(job) ||
        !yk__job_catch_up(job))
        return;
    job->saves++;
    if ((job->team.rank == 0 && yk__checkpoint_begin(dir, &c, &err)) || save_parts(c, job, dir, &err)) {
        yk__job_fail(job, &err); /* first, so that the other ranks see no removed files before they hear of it */
        yk__checkpoint_abandon(c);
    } else if (c) {
        json_t *state = state_with_shares(job);
        yk__checkpoint_commit(c, state, &err);
        json_decref(state);
        if (err.status)
            yk__job_fail(job, &err);
    }
    yk_barrier(job);
}

/* ---- Loading ---- */

/* Gives a parameter or moment its values by range. Ranks that read slices alone check these; else each rank checks all before the job
 * changes. */
static yk_status stored_put(tensors *t, int64_t i, yk__safetensors *st, const yk__safetensor *x, yk_error *err)
{
    yk_job *job = t->job;
    yk__job_param *p = &job->param[t->param[i]];
    yk__source source;
    if ((!yk__engine_is_pulled(job->engine) && yk__stored_check(st, x, err)) || yk__stored_values(st, x, true, &source, err))
        return err->status;
    if (!t->moments)
        return yk__param_give(job, p, source) ? YK_OK : yk__job_why(job, err);
    yk__engine_moment_give(job->engine, t->kind[i], p->number, &source, err);
    source.free(source.object);
    return err->status;
}

static yk_status state_put(tensors *t, int64_t i, yk__safetensors *st, const yk__safetensor *x, yk_error *err)
{
    yk_job *job = t->job;
    if (tensors_reserve(t, err) || yk__safetensors_load(st, x, 0, x->bytes, t->whole, err))
        return err->status;
    return yk__param_put_file(job, &job->param[t->param[i]], t->whole) ? YK_OK : yk__job_why(job, err);
}

static yk_status tensor_put(tensors *t, int64_t i, yk__safetensors *st, yk_error *err)
{
    const yk__job_param *p = &t->job->param[t->param[i]];
    const yk__safetensor *x = yk__safetensors_find(st, t->out[i].name);
    bool same = x && x->rank == (int)p->dims && x->dtype == (int)t->out[i].dtype;
    for (uint32_t k = 0; same && k < p->dims; k++)
        same = x->shape[k] == p->dim[k];
    if (!x)
        return yk__fail(err, YK_E_FORMAT, "%s: tensor %s is missing", yk__safetensors_path(st), t->out[i].name);
    if (!same) {
        char want[128], have[128];
        yk__safetensors_shape_text((int)p->dims, p->dim, want, sizeof want);
        yk__safetensors_shape_text(x->rank, x->shape, have, sizeof have);
        return yk__fail(err, YK_E_FORMAT, "%s: tensor %s: expected %s%s, as in the job, got %s%s: make the model as for the checkpoint",
                        yk__safetensors_path(st), t->out[i].name, yk__dtype_name(t->out[i].dtype), want, x->dtype_name, have);
    }
    return p->state ? state_put(t, i, st, x, err) : stored_put(t, i, st, x, err);
}

static bool is_listed(const tensors *t, const char *name)
{
    bool found = false;
    for (int64_t i = 0; i < t->n && !found; i++)
        found = !strcmp(t->out[i].name, name);
    return found;
}

/* Names the first tensor that only one side has, as the counts differ. */
static yk_status fail_other_tensors(const tensors *t, const yk__safetensors *st, yk_error *err)
{
    const long long have = (long long)yk__safetensors_count(st);
    const char *own = NULL, *other = NULL;
    for (int64_t i = 0; i < t->n && !own; i++)
        own = yk__safetensors_find(st, t->out[i].name) ? NULL : t->out[i].name;
    for (int64_t i = 0; i < have && !other; i++)
        other = is_listed(t, yk__safetensors_at(st, i)->name) ? NULL : yk__safetensors_at(st, i)->name;
    if (!own && !other)
        other = "a tensor twice";
    return yk__fail(err, YK_E_FORMAT, "%s: %lld tensors, the job has %lld; %s has %s, %s has not%s", yk__safetensors_path(st), have,
                    (long long)t->n, own ? "the job" : "the file", own ? own : other, own ? "the file" : "the job",
                    !t->moments ? "" : own ? ": was it frozen then?" : ": is it frozen now?");
}

static yk_status tensors_load(yk_job *job, yk__safetensors *st, bool moments, yk_error *err)
{
    tensors t;
    if (!tensors_list(job, moments, &t))
        return yk__job_why(job, err);
    if (yk__safetensors_count(st) != t.n)
        fail_other_tensors(&t, st, err);
    for (int64_t i = 0; i < t.n && !err->status; i++)
        tensor_put(&t, i, st, err);
    tensors_free(&t);
    return err->status;
}

static yk_status load_file(yk_job *job, const char *dir, const char *file, bool moments, yk_error *err)
{
    yk__safetensors *st = NULL;
    char *path = yk__format("%s/%s", dir, file);
    if (!path)
        return yk__fail_mem(err, strlen(dir), "a path");
    if (!yk__safetensors_open(path, &st, err)) {
        tensors_load(job, st, moments, err);
        yk__safetensors_close(st);
    }
    yk__free(path);
    return err->status;
}

static yk_status check_format(const char *dir, const json_t *state, yk_error *err)
{
    if (!yk__checkpoint_ours(state) || json_integer_value(json_object_get(state, "version")) != 1)
        return yk__fail(err, YK_E_FORMAT, "%s: no checkpoint of Yoke, version 1", dir);
    return YK_OK;
}

/* Checks the state after the parameters: another model's state differs too, but the parameters tell it more clearly. */
static yk_status check_state(const yk_job *job, const char *dir, const json_t *state, yk_error *err)
{
    const json_t *o = json_object_get(state, "optimizer");
    const char *kind = json_string_value(json_object_get(o, "kind"));
    if (count_of(json_object_get(state, "seed")) != job->config.seed)
        return yk__fail(err, YK_E_ARG, "%s was made with seed %" PRIu64 "; this job's is %" PRIu64, dir,
                        count_of(json_object_get(state, "seed")), job->config.seed);
    if (!o != !job->opt)
        return yk__fail(err, YK_E_ARG, "%s holds %s optimizer, the job has %s", dir, o ? "an" : "no", o ? "none" : "one");
    if (o && (!kind || strcmp(kind, job->opt->rule.kind == YK_OPT_ADAM ? "adam" : "sgd") != 0 ||
              json_integer_value(json_object_get(o, "flags")) != (json_int_t)job->opt->rule.flags))
        return yk__fail(err, YK_E_ARG, "%s was made with another optimizer (%s, or other variants of it) than the job's", dir,
                        kind ? kind : "?");
    if (yk__state_check(job, dir, state, err))
        return err->status;
    return yk__data_state_check(job, dir, json_object_get(state, "data"), err);
}

static void restore_optimizer(yk_opt *opt, const json_t *o)
{
    const json_t *s = json_object_get(o, "schedule"), *p = json_object_get(s, "plateau");
    const bool same_rate = yk__resume_same_rate(opt, o);
    double plateau[4];
    opt->steps = count_of(json_object_get(o, "steps"));
    for (size_t i = 0; i < opt->job->n_param; i++) {
        const json_t *own = json_object_get(json_object_get(o, "param_steps"), opt->job->param[i].name);
        opt->job->param[i].steps = own ? count_of(own) : opt->steps;
    }
    if (same_rate && !s == !opt->sched)
        opt->lr = real_of(json_object_get(o, "lr"), opt->lr);
    if (yk__resume_momentum(opt))
        opt->rule.beta1 = real_of(json_object_get(o, "beta1"), opt->rule.beta1);
    if (!s || !opt->sched)
        return;
    opt->sched->step = count_of(json_object_get(s, "step"));
    yk__sched_state_get(opt->sched->rule, plateau);
    for (size_t i = same_rate ? 0 : 1; i < 4; i++)
        plateau[i] = real_of(json_array_get(p, i), plateau[i]);
    yk__sched_state_set(opt->sched->rule, plateau);
    if (!yk__resume_same_schedule(opt, o))
        yk__opt_follow(opt->sched);
}

/* A fixed scale is a setting, so none is taken and none is replaced; counters are of one rule. Checkpoints of earlier versions name no
 * rule. */
static void restore_scaler(yk__scaler *s, const json_t *o)
{
    const char *rule = json_string_value(json_object_get(o, "rule"));
    const int64_t left = json_integer_value(json_object_get(o, "left"));
    if (!o || s->rule == YK_SCALER_FIXED || (rule && !strcmp(rule, yk__resume_scaling(YK_SCALER_FIXED))))
        return;
    s->scale = fmax(real_of(json_object_get(o, "scale"), s->scale), s->floor);
    if (rule && strcmp(rule, yk__resume_scaling(s->rule)) != 0)
        return;
    s->good_steps = json_integer_value(json_object_get(o, "count"));
    s->hysteresis_left = left < (int64_t)s->hysteresis ? left : (int64_t)s->hysteresis;
    s->iter = json_integer_value(json_object_get(o, "iter"));
    s->last_bad = json_integer_value(json_object_get(o, "last_bad"));
}

void yk_load(yk_job *job, const char *dir)
{
    YK__ACT_HERE(YK__ACT_CALL);
    yk_error err = YK_ERROR_INIT;
    json_t *state = NULL;
    uint64_t mark = 0;
    if (!yk_ok(job) || !yk__job_given(job, "yk_load", "dir", dir) ||
        !yk__opt_window_ended(job, "yk_load", "would be added to the checkpoint's next window") || (job->opt && !yk__opt_made(job->opt)))
        return;
    if (yk__checkpoint_read(dir, &state, &mark, &err) || check_format(dir, state, &err) || load_file(job, dir, MODEL, false, &err) ||
        check_state(job, dir, state, &err) || (job->opt && load_file(job, dir, MOMENTS, true, &err)) ||
        yk__registered_load(job, dir, state, &err) || yk__checkpoint_same(dir, state, mark, &err)) {
        yk__job_fail(job, &err);
    } else {
        yk__resume_notes(job, dir, state);
        job->micro_step = count_of(json_object_get(state, "micro_step"));
        job->saves = count_of(json_object_get(state, "saves"));
        if (job->opt)
            restore_optimizer(job->opt, json_object_get(state, "optimizer"));
        restore_scaler(&job->scaler, json_object_get(state, "scaler"));
        yk__share_load(job, json_object_get(state, "shares"));
        yk__data_state_restore(job, dir, json_object_get(state, "data"));
        yk__registered_read(job, dir);
    }
    if (yk_ok(job) && yk__engine_whole(job->engine, &err)) /* earlier rounding errors belong to another training */
        yk__job_fail(job, &err);
    job->local_sgd = (yk__local_sgd){0};
    job->emergency.due = true; /* the step kept before belongs to another training */
    json_decref(state);
    yk_barrier(job);
}
