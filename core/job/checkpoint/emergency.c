/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Emergency checkpoints: keeps the last whole step, and writes it after a failure to the folder YOKE_EMERGENCY_CHECKPOINT. One step of
 * YOKE_EMERGENCY_STEPS is kept. All calls are in the step thread. open.c (core/job/session) reads the option, and rank 0 tries the folder
 * then. A failing call runs write_kept on each surviving rank (core/job/handle.c). The first that claims the step writes it.
 *
 * A step is kept before the next window's work, not at its own end: by yk__window_begin, or by yk__step_flush without a loader. Until then
 * the user's loop may still change state after yk_step (the schedule, its own counts).
 */
#include "core/job/checkpoint/emergency.h"

#include <string.h>
#include <sys/stat.h>

#include "core/base/log.h"
#include "core/base/option.h"
#include "core/io/folder.h"
#include "core/io/json.h"
#include "core/job/checkpoint/registered.h"
#include "core/job/checkpoint/save.h"
#include "core/job/opt.h"

#define NUMBERS_BYTES (1u << 20) /* bytes of the state as text: some KiB, and some hundred bytes a rank */

static void write_kept(yk_job *job);

/* Makes the parent folder of dir, as an output folder may not exist yet. */
static yk_status make_parent(const char *dir, yk_error *err)
{
    char *parent = yk__strdup(dir), *slash;
    if (!parent)
        return yk__fail_mem(err, strlen(dir), "a path");
    for (size_t n = strlen(parent); n > 1 && parent[n - 1] == '/'; n--)
        parent[n - 1] = 0;
    slash = strrchr(parent, '/');
    if (slash && slash != parent) {
        *slash = 0;
        yk__folder_make(parent, err);
    }
    yk__free(parent);
    return err->status;
}

/* Begins and abandons a checkpoint there, as nobody can choose another place once a rank is lost. An empty folder is removed and made
 * again. */
static yk_status try_place(const char *dir, yk_error *err)
{
    yk__folder_rights was;
    const bool was_there = yk__folder_is(dir) && yk__folder_rights_of(-1, dir, &was);
    yk__checkpoint *c;
    if (make_parent(dir, err) || yk__checkpoint_begin(dir, &c, err))
        return yk__fail_in(err, "YOKE_EMERGENCY_CHECKPOINT");
    yk__checkpoint_abandon(c);
    if (!was_there || yk__folder_is(dir) || mkdir(dir, S_IRWXU))
        return YK_OK;
    return yk__folder_rights_keep_at(dir, &was, err);
}

bool yk__emergency_is(const yk_job *job, const char *dir)
{
    const char *own = job->emergency.dir;
    struct stat a, b;
    return own && (!strcmp(dir, own) || (!stat(dir, &a) && !stat(own, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino));
}

yk_status yk__emergency_open(yk_job *job, yk_error *err)
{
    const char *dir = yk__option_text(YK__OPTION_EMERGENCY_CHECKPOINT);
    if (!dir || job->config.plan_only || job->config.inference)
        return YK_OK;
    if (job->team.world == 1) {
        yk__log(YK_LOG_WARN, "save", "YOKE_EMERGENCY_CHECKPOINT: this job is one rank, and nobody is left when it is lost");
        return YK_OK;
    }
    if (job->config.local_sgd_steps)
        return yk__fail(err, YK_E_UNSUPPORTED, "YOKE_EMERGENCY_CHECKPOINT is \"%s\", but in LocalSGD each rank has parameters and moments "
                        "of its own: save more often instead", dir);
    if (!yk__engine_can_snapshot(job->engine))
        return yk__fail(err, YK_E_UNSUPPORTED, "YOKE_EMERGENCY_CHECKPOINT is \"%s\", but these ranks have no memory in common: a step can "
                        "be kept by ranks of one host alone, without YOKE_TRANSPORT; save more often instead", dir);
    if (job->team.rank == 0 && try_place(dir, err))
        return err->status;
    job->emergency = (yk__emergency){.dir = dir,
                                     .every = yk__option_number(YK__OPTION_EMERGENCY_STEPS),
                                     .keep = yk__emergency_keep,
                                     .failed = write_kept};
    return YK_OK;
}

/* ---- Keeping ---- */

void yk__emergency_stepped(yk_job *job)
{
    yk__emergency *emergency = &job->emergency;
    if (emergency->dir && ++emergency->windows % emergency->every == 0)
        emergency->due = true;
}

/* Packs the state as text with its final 0, then the registered bytes. */
static char *pack_numbers(yk_job *job, uint64_t *bytes)
{
    json_t *state = yk__save_state(job);
    char *text = yk__json_dump(state, JSON_COMPACT), *all = NULL;
    const size_t length = text ? strlen(text) + 1 : 0;
    *bytes = length + yk__registered_bytes(job);
    if (text)
        all = yk__malloc(*bytes);
    if (all) {
        memcpy(all, text, length);
        yk__registered_pack(job, all + length);
    }
    yk__free(text);
    json_decref(state);
    return all;
}

/* Only the first member's numbers are kept. */
static void keep_step(yk_job *job, yk_error *err)
{
    const bool packs = yk__engine_snapshot_packs(job->engine);
    uint64_t bytes = 0;
    char *all = packs ? pack_numbers(job, &bytes) : NULL;
    if (packs && !all) {
        yk__fail_mem(err, bytes, "the numbers of a step");
        return;
    }
    job->emergency.capacity = job->emergency.capacity ? job->emergency.capacity : NUMBERS_BYTES + yk__registered_bytes(job);
    yk__engine_snapshot(job->engine, all, bytes, job->emergency.capacity, err);
    yk__free(all);
}

bool yk__emergency_keep(yk_job *job)
{
    yk_error err = YK_ERROR_INIT;
    if (!job->emergency.dir || !job->emergency.due || !job->params_fixed || !job->opt || job->opt->micro)
        return yk_ok(job);
    job->emergency.due = false;
    keep_step(job, &err);
    if (err.status)
        yk__job_fail(job, &err);
    return yk_ok(job);
}

/* ---- After a failure ---- */

static yk_status write_files(yk__checkpoint *c, yk_job *job, const yk__kept_step *kept, yk_error *err)
{
    const char *packed = (const char *)kept->host + strlen(kept->host) + 1;
    if (yk__save_kept(c, job, kept, err) || yk__registered_save(c, job, packed, err) ||
        yk__save_companions(job, yk__checkpoint_folder(c), err))
        return err->status;
    return YK_OK;
}

static yk_status write_checkpoint(yk_job *job, const yk__kept_step *kept, json_t *state, yk_error *err)
{
    yk__checkpoint *c = NULL;
    if (yk__checkpoint_begin(job->emergency.dir, &c, err) || write_files(c, job, kept, err)) {
        yk__checkpoint_abandon(c);
        return err->status;
    }
    return yk__checkpoint_commit(c, state, err);
}

/* Keeps the error that ended the job: it is set aside, because the writing functions check that all is well. */
static void write_kept(yk_job *job)
{
    const yk_error why = job->error;
    yk_error err = YK_ERROR_INIT;
    yk__kept_step kept;
    json_t *state = NULL;
    job->emergency.failed = NULL;
    if (!yk__engine_snapshot_claim(job->engine, &kept))
        return;
    job->error = (yk_error)YK_ERROR_INIT;
    if (yk__json_parse("the kept step", kept.host, strlen(kept.host), 0, &state, &err) || write_checkpoint(job, &kept, state, &err))
        yk__log(YK_LOG_ERROR, "save", "the emergency checkpoint: %s", err.text);
    else
        yk__log(YK_LOG_WARN, "save", "%s holds the training after step %lld, the last whole one: go on from there", job->emergency.dir,
                (long long)json_integer_value(json_object_get(state, "global_step")));
    json_decref(state);
    job->error = why;
}
