/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions to a plugin before its use: start-up, the number of its devices, and their capabilities. The answers are checked. A process
 * that waits for this one can see which plugin is being asked (core/launch/asking.c).
 *
 * select.c, pluginlist.c and device_open.c ask, in the thread that opens or selects devices. A wrong answer is an error with the plugin's
 * name.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/advance.h"
#include "core/base/process/cgroup.h"
#include "core/base/process/signals.h"
#include "core/device/device_internal.h"

static char *watcher; /* YK__ASKED bytes that another process reads, or NULL */

void yk__plugin_watch(char *text)
{
    watcher = text;
}

void yk__plugin_asked(const char *name)
{
    if (watcher)
        snprintf(watcher, YK__ASKED, "%s", name);
}

yk_status yk__plugin_devices(const yk__plugin *p, uint32_t *n, yk_error *err)
{
    YK__ACT_HERE(YK__ACT_OPEN);
    yk__signals kept;
    yk__host_message_clear();
    yk__signals_keep(&kept);
    yk__plugin_asked(p->name);
    *n = 0;
    yk_status s = p->call->device_count(n);
    yk__plugin_asked("");
    yk__signals_restore(&kept);
    if (s)
        return *n = 0, yk__plugin_fail(err, p, s, "counting its devices");
    if (*n > YK__DEVICES)
        return yk__fail(err, YK_E_ABI, "%s: it says that it has %u devices; expected at most %u", p->name, *n, YK__DEVICES);
    return YK_OK;
}

/* Terminates the text and replaces unprintable bytes: it goes to terminals and into JSON, and drivers write ASCII. */
static void text_clean(char *text, size_t size)
{
    text[size - 1] = 0;
    for (unsigned char *s = (unsigned char *)text; *s; s++)
        if (*s < 0x20 || *s >= 0x7f)
            *s = '?';
}

void yk__device_cap_memory(yk_device_caps *caps)
{
    uint64_t limit, left;
    if (!(caps->flags & YK_CAP_CPU) || !yk__cgroup_memory(&limit, &left))
        return;
    caps->mem_total = limit < caps->mem_total ? limit : caps->mem_total;
    const uint64_t most = caps->mem_free ? caps->mem_free : caps->mem_total; /* the device has no more */
    caps->mem_free = !most || left < most ? left : most;
}

uint32_t yk__product_bits(const yk_device_caps *caps)
{
    return caps->product_bits ? (uint32_t)caps->product_bits : YK__F32_BITS;
}

double yk__product_loss(const yk_device_caps *caps)
{
    const uint32_t bits = yk__product_bits(caps);
    return bits < YK__F32_BITS ? ldexp(1, 2 - (int)bits) : 0;
}

yk_status yk__plugin_caps(const yk__plugin *p, uint32_t i, yk_device_caps *c, yk_error *err)
{
    YK__ACT_HERE(YK__ACT_OPEN);
    memset(c, 0, sizeof *c);
    c->size = sizeof *c;
    yk__signals kept;
    yk__host_message_clear();
    yk__signals_keep(&kept);
    yk__plugin_asked(p->name);
    yk_status s = p->call->device_caps(i, c);
    yk__plugin_asked("");
    yk__signals_restore(&kept);
    if (s)
        return yk__plugin_fail(err, p, s, "reading a device's capabilities");
    text_clean(c->name, sizeof c->name);
    text_clean(c->isa, sizeof c->isa);
    text_clean(c->locality, sizeof c->locality);
    yk__device_cap_memory(c);
    return YK_OK;
}
