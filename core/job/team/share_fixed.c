/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The setting of fixed shares (--shares, else YOKE_SHARES) and of fixed parts of slices (--shard-parts): reads it, and refuses other
 * settings that contradict it. core/balance/fixed.c has the words' meaning.
 *
 * open.c (core/job/session) calls it while a job opens; data.c and sampler.c (core/job/loop) check before training, flush.c and window.c
 * (core/job/loop) explain a failure by it, in the step thread. Errors name both settings.
 */
#include <stdio.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/option.h"
#include "core/job/team/share.h"

/* The setting that the shares come from. */
static const char *shares_source(const yk_job *job)
{
    return job->config.shares ? "yk_config.shares (--shares)" : "YOKE_SHARES";
}

yk_status yk__share_choose(const yk_job *job, yk__fixed *fixed, yk_error *err)
{
    const char *text = job->config.shares ? job->config.shares : yk__option_text(YK__OPTION_SHARES);
    return yk__fixed_read(text, shares_source(job), "rows", job->team.world, fixed, err);
}

yk_status yk__parts_choose(yk_job *job, yk_error *err)
{
    yk__fixed *parts = &job->team.parts;
    if (yk__fixed_read(job->config.shard_parts, "yk_config.shard_parts (--shard-parts)", "slices", job->team.world, parts, err))
        return err->status;
    if (parts->is_fixed && job->config.local_sgd_steps)
        return yk__fail(err, YK_E_ARG, "yk_config.shard_parts (--shard-parts) is \"%.80s\", with LocalSGD, where each rank updates all "
                        "parameters: choose one", parts->text);
    return YK_OK;
}

yk_status yk__share_check_equal(const yk_job *job, const char *setting, yk_error *err)
{
    const yk__fixed *fixed = &job->team.share->fixed;
    if (!fixed->is_given || (fixed->is_fixed && fixed->is_even))
        return YK_OK;
    return yk__fail(err, YK_E_ARG, "%s gives each rank equally many rows, but %s is \"%.80s\": choose one", setting, shares_source(job),
                    fixed->text);
}

void yk__share_tell_idle(const yk_job *job, int64_t n)
{
    const yk__fixed *fixed = &job->team.share->fixed;
    uint32_t idle = 0, first = 0;
    char more[32] = "";
    for (uint32_t r = job->team.world; r-- > 0;) {
        uint64_t before, rows;
        yk__fixed_part(fixed, (uint64_t)n, r, &before, &rows);
        if (rows)
            continue;
        first = r;
        idle++;
    }
    if (!idle || fixed->is_even || !yk_is_main(job))
        return;
    if (idle > 1)
        snprintf(more, sizeof more, " and %u more", idle - 1);
    yk__log(YK_LOG_WARN, "balance", "%s \"%.80s\" gives rank %u (%s)%s none of the %lld rows of a batch: give a larger part or batch, or "
            "leave the device out", shares_source(job), fixed->text, first, job->team.name[first], more, (long long)n);
}

void yk__share_explain(const yk_job *job, yk_error *err)
{
    const yk_error said = *err;
    if (said.status != YK_E_MEM || job->team.world == 1 || !job->team.share->fixed.is_fixed)
        return;
    const char *remedies = strstr(said.text, "; remedies: ");
    const int lack = remedies ? (int)(remedies - said.text) : (int)strlen(said.text);
    yk__fail(err, YK_E_MEM, "%.*s; the fixed share of rank %u (%s) is %lld of %lld rows, and stays so: give it a smaller part, or share by "
             "speed, which gives a rank no more than fits%s", lack, said.text, job->team.rank, job->team.name[job->team.rank],
             (long long)job->step.local_rows, (long long)job->step.global_rows, remedies ? remedies : "");
}
