/* SPDX-License-Identifier: Apache-2.0 */
/* The host's device of a rank that offloads; see host_place.h. */
#include "core/job/team/host_place.h"

#include <stdio.h>

#include "core/base/mem.h"
#include "core/run/host_device.h"
#include "core/run/stage.h"

bool yk__job_offloads(const yk_job *job)
{
    yk_error ignored = YK_ERROR_INIT;
    bool offloads;
    return !job->config.inference && !yk__offload_read(job->config.offload, "", &offloads, &ignored) && offloads;
}

yk_status yk__offload_check(const yk_job *job, yk_error *err)
{
    bool offloads;
    if (yk__offload_read(job->config.offload, "yk_config.offload", &offloads, err) || !offloads)
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
    if (!yk__job_offloads(job) || !yk__host_serves(job->device))
        return YK_OK;
    if (!yk__device_pick("cpu", job->topology, YK__PICK_NONE, &found, &n, err)) {
        *host = found[0];
        if (*job->device->place.cores)
            snprintf(host->cores, sizeof host->cores, "%s", job->device->place.cores);
    }
    yk__free(found);
    return err->status;
}
