/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The settings of a rank that offloads: its host updates parameters in place of the device. They are the words of --offload, the check that
 * they fit the stage, and the processor to use.
 *
 * open.c (core/job/session) calls it in the step thread while a job opens, and compares the kind (yk__job_offload) over the ranks, as
 * agree.c (core/job/trace) does later. A device that computes in host memory needs no such processor. host_place.c opens nothing:
 * core/run/host_device.c does.
 */
#include "config.h"

#include "core/job/team/host_place.h"

#include <stdio.h>

#include "core/base/mem.h"
#include "core/run/host_device.h"

yk__offload yk__job_offload(const yk_job *job)
{
    yk_error ignored = YK_ERROR_INIT;
    yk__offload offload;
    return yk__offload_read(job->config.offload, "", &offload, &ignored) ? YK__OFFLOAD_NONE : offload;
}

static yk_status check_stage(const yk_job *job, yk__offload offload, yk_error *err)
{
    yk__stage stage = {.kind = YK__STAGE_STATE};
    char source[96];
    if (job->config.shard && !yk__stage_find(job->config.shard, &stage))
        return YK_OK; /* refused elsewhere */
    snprintf(source, sizeof source, "yk_config.offload is \"%.60s\"", job->config.offload);
    return yk__offload_fits(offload, stage.kind, source, err);
}

yk_status yk__offload_check(const yk_job *job, yk_error *err)
{
    yk__offload offload;
    if (yk__offload_read(job->config.offload, "yk_config.offload", &offload, err) || offload == YK__OFFLOAD_NONE ||
        check_stage(job, offload, err))
        return err->status;
    if (job->config.local_sgd_steps)
        return yk__fail(err, YK_E_ARG, "yk_config.offload is \"%s\", with LocalSGD, where each device updates all parameters: choose one",
                        job->config.offload);
    return YK_OK;
}

yk_status yk__offload_place(const yk_job *job, yk__placement *host, yk_error *err)
{
    yk__placement *found = NULL;
    uint32_t n;
    if (yk__job_offload(job) == YK__OFFLOAD_NONE || !yk__host_serves(job->device))
        return YK_OK;
    if (!yk__device_pick(YK_HOST_PLUGIN, job->topology, YK__PICK_NONE, &found, &n, err)) {
        *host = found[0];
        if (*job->device->place.cores)
            snprintf(host->cores, sizeof host->cores, "%s", job->device->place.cores);
    }
    yk__free(found);
    return err->status;
}
