/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of the PJRT plugin, as the host loads it (plugin.h). It runs Yoke's programs on a vendor's PJRT plugin, as TPUs and XLA have
 * one.
 *
 * Devices are in pjrt_list.c, buffers in pjrt_memory.c, programs in pjrt_program.c, collectives in pjrt_coll.c; the queue is the kit's, a
 * thread for each. Vendors' libraries stay loaded when the plugin ends.
 */
#include "plugins/kit/plugin.h"

#include <yoke/extension.h>

#include "backends/pjrt/pjrt.h"
#include "plugins/kit/kit_island.h"

const yk_host *pj_host;

static void queue_left(yk_device *dev, yk_queue *q)
{
    (void)q;
    atomic_store(&dev->left_behind, true);
}

static kit_queue_ops queue_ops = {
    .plugin = PJ_NAME, .graph = pj_program_graph, .bytes = pj_buffer_bytes, .run = pj_program_run, .copy = pj_buffer_copy,
    .left = queue_left, .drop = kit_island_drop};

static yk_status plugin_init(const yk_host *host)
{
    if (!kit_host_fits(host))
        return YK_E_ABI;
    pj_host = queue_ops.host = host;
    pj_coll_init();
    return pj_options_check();
}

/* Keeps vendors' libraries loaded: their threads and exit handlers do not survive unloading. */
static void plugin_fini(void)
{
    if (pj_host) {
        pj_devices_forget();
        kit_islands_forget(pj_host);
    }
    pj_host = NULL;
}

static const void *plugin_extension(const char *name)
{
    return !strcmp(name, YK_EXT_COLL) ? pj_coll() : NULL;
}

static yk_status queue_new(yk_device *dev, const yk_queue_desc *desc, yk_queue **q)
{
    (void)desc; /* every kind of queue is a thread */
    return kit_queue_new(dev, &queue_ops, q);
}

static const yk_plugin TABLE = {
    KIT_PLUGIN_HEAD(PJ_NAME, PJ_VERSION),
    .init = plugin_init,
    .fini = plugin_fini,
    .device_count = pj_device_count,
    .device_caps = pj_device_caps,
    .device_open = pj_device_open,
    .device_close = pj_device_close,
    .buffer_new = pj_buffer_new,
    .buffer_free = pj_buffer_release,
    .program_new = pj_program_new,
    .program_free = pj_program_free,
    .program_memory = pj_program_memory,
    .extension = plugin_extension,
    .queue_new = queue_new,
    KIT_QUEUE_TABLE,
};

KIT_PLUGIN_EXPORT(TABLE)
