/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a small graph by a plugin as a host would: the file is loaded, slots become buffers, results are copied back. */
#include "tests/support/opencl_kit.h"
#include "tests/support/sanitize.h"

#if TEST_UNDER_ASAN
/* LeakSanitizer stops all threads at the end of a process, and crashes where one of the driver's ends at that moment. tests/cts/opencl.sh
 * looks for leaks of the plugin. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}
#endif

const char *ok_name = "opencl";
const yk_plugin *ok_plugin;
yk_device *ok_device;

int ok_start(uint32_t device)
{
    uint32_t n = 0;
    plugin_host_prints = true;
    ok_plugin = plugin_host_load(ok_name);
    if (!ok_plugin || ok_plugin->init(&plugin_host) != YK_OK || ok_plugin->device_count(&n) != YK_OK)
        return -1;
    if (n > device && ok_plugin->device_open(device, &ok_device) != YK_OK)
        return -1;
    return (int)n;
}

void ok_stop(void)
{
    if (ok_device)
        ok_plugin->device_close(ok_device);
    ok_device = NULL;
    ok_plugin->fini();
}

uint32_t ok_claims(kit *k, uint32_t node)
{
    return ok_plugin->claims(ok_device, &k->g, node);
}

/* ---- Running ---- */

static yk_status run_bound(kit *k, yk_program *p, yk_queue *q, yk_buffer **buf)
{
    uint64_t zero[KIT_VALUES] = {0}, point = 0;
    yk_submit s = {.size = sizeof s, .n_slot = k->g.n_slot, .program = p, .slot = buf, .slot_offset = zero,
                   .slot_version = zero};
    yk_status st = YK_OK;
    for (uint32_t i = 0; i < k->g.n_slot && st == YK_OK; i++)
        st = yk_put(ok_plugin, q, buf[i], 0, k->data[i], k->slot[i].bytes + KIT_GUARD, &point);
    if (st == YK_OK)
        st = ok_plugin->queue_run(q, &s, &point);
    for (uint32_t i = 0; i < k->g.n_slot && st == YK_OK; i++)
        st = yk_get(ok_plugin, q, buf[i], 0, k->data[i], k->slot[i].bytes + KIT_GUARD, &point);
    yk_status done = ok_plugin->queue_wait(q, point, UINT64_MAX);
    return st == YK_OK ? done : st;
}

yk_status ok_run(kit *k)
{
    yk_buffer *buf[KIT_VALUES] = {0};
    yk_program *p = NULL;
    yk_queue *q = NULL;
    yk_status st = ok_plugin->program_new(ok_device, &k->g, &p);
    if (st == YK_OK)
        st = ok_plugin->queue_new(ok_device, KIT_QUEUE, &q);
    for (uint32_t i = 0; i < k->g.n_slot && st == YK_OK; i++)
        st = ok_plugin->buffer_new(ok_device, KIT_BYTES(k->slot[i].bytes + KIT_GUARD), &buf[i]);
    if (st == YK_OK)
        st = run_bound(k, p, q, buf);
    if (q)
        ok_plugin->queue_free(q);
    for (uint32_t i = 0; i < k->g.n_slot; i++)
        ok_plugin->buffer_free(buf[i]);
    ok_plugin->program_free(p);
    return st == YK_OK && !kit_guarded(k) ? YK_E_INTERNAL : st;
}
