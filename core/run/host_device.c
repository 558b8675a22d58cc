/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens and closes the host device of a rank that offloads: a processor that updates parameters in place of the rank's accelerator
 * (host_device.h).
 *
 * api.c opens and closes it, in the step thread; values/params.c shows it buckets when a layout is made. The engine owns the device. open.c
 * (core/job/session), host_place.c (core/job/team) and cmd_estimate.c (tools/cmd) ask yk__host_serves if a rank has use for it.
 */
#include "core/run/host_device.h"

bool yk__host_serves(const yk__device *dev)
{
    return !yk__queue_wraps(&(yk__queue){.dev = (yk__device *)dev});
}

static yk_status open_device(yk__host *host, const yk__placement *place, bool plans_only, yk_error *err)
{
    if (!place)
        return yk__fail(err, YK_E_INTERNAL, "an engine that offloads without a host device");
    if (yk__device_open(place, &host->dev, err) || (plans_only && yk__device_plan_only(host->dev, err)))
        return err->status;
    if (!yk__host_serves(host->dev))
        return YK_OK;
    return yk__fail(err, YK_E_UNSUPPORTED, "%s cannot hold the optimizer's state: expected a processor that computes in the host's memory",
                    host->dev->caps.name);
}

yk_status yk__host_open(yk__host *host, yk__params *p, const yk__placement *place, yk_error *err)
{
    if (!yk__host_serves(p->queue->dev))
        return YK_OK;
    if (open_device(host, place, p->queue->dev->plans_only, err)) {
        yk__host_close(host);
        return err->status;
    }
    host->queue = (yk__queue){.dev = host->dev, .cancel = p->queue->cancel};
    host->exec = (yk__exec){.queue = &host->queue, .exchange = p->exchange, .params = p, .runs = 1};
    p->updates = &host->queue;
    p->exchange->keeps = true;
    return YK_OK;
}

void yk__host_close(yk__host *host)
{
    if (!host->dev)
        return;
    yk__instance_free(&host->exec.instance, &host->queue);
    yk__device_close(host->dev);
    *host = (yk__host){0};
}
