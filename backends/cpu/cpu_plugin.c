/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of the CPU plugin, as the host loads it (plugin.h): one device, the cores of this rank; buffers are host memory. Its functions
 * measure the pool, choose the instruction set, allocate buffers, and pass programs and queues to the files of exec/.
 *
 * core calls them through the table: an open device's functions in the thread that opened it, but queue_abort in any thread (plugin.h has
 * the tags). YOKE_CPU_CORES or the device spec names the cores, YOKE_CPU_ISA the instruction set. YOKE_CPU_PROFILE belongs to
 * cpu_profile.c. A wrong value is an error, as is an unknown YOKE_CPU_* name.
 */
#define _GNU_SOURCE
#if defined HAVE_CONFIG_H
#include "config.h"
#endif

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "backends/cpu/cpu_ops.h"
#include "backends/cpu/exec/cpu_device.h"
#include "backends/cpu/exec/cpu_profile.h"
#include "plugins/kit/kit_cores.h"
#include "plugins/kit/kit_options.h"
#include "plugins/kit/plugin.h"
#include "plugins/kit/value.h"

#define ONE_WORKER_NS 30000.0 /* a shorter program runs on one worker */
#define EXPORT __attribute__((visibility("default")))

/* Accepts any text; device_open checks if the machine has the set. */
static bool value_is_any(const char *value)
{
    return *value != 0;
}

static bool value_is_profile(const char *value)
{
    return kit_option_is_flag(value) || !strcmp(value, "own");
}

static const kit_option options[] = {
    {"CORES", kit_option_is_cores, KIT_ALLOWED_CORES},
    {"ISA", value_is_any, "a set of instructions"},
    {"PROFILE", value_is_profile, "0, 1 or own"},
};

static yk_status plugin_init(const yk_host *host)
{
    if (host->size < offsetof(yk_host, option) + sizeof host->option)
        return YK_E_ABI;
    cpu_host = host;
    if (kit_options_check(host, "cpu", options, sizeof options / sizeof *options))
        return YK_E_ARG;
    cpu_profile_begin();
    return YK_OK;
}

static void plugin_fini(void)
{
    cpu_profile_end();
}

static yk_status device_count(uint32_t *n)
{
    *n = 1;
    return YK_OK;
}

static yk_status find_cores(int *cores, int most, int *n)
{
    const char *text = kit_option_value(cpu_host, "cpu", "CORES");
    cpu_set_t set;
    CPU_ZERO(&set);
    *n = 0;
    if (text ? !kit_cores_parse(text, &set) : sched_getaffinity(0, sizeof set, &set) != 0)
        CPU_ZERO(&set);
    for (int c = 0; c < CPU_SETSIZE && *n < most; c++)
        if (CPU_ISSET(c, &set))
            cores[(*n)++] = c;
    if (!*n && text) { /* set by a device spec, after the check of the environment */
        cpu_host->fail("cpu", "CORES=%s: expected " KIT_ALLOWED_CORES, text);
        return YK_E_ARG;
    }
    if (!*n)
        cores[(*n)++] = -1;
    return YK_OK;
}

static yk_status find_isa(const cpu_isa **isa)
{
    const char *why = NULL;
    *isa = cpu_isa_choose(cpu_host->option("cpu", "ISA"), &why);
    if (*isa)
        return YK_OK;
    cpu_host->fail("cpu", "%s", why);
    return YK_E_ARG;
}

static void cpu_name(char *name, size_t size)
{
    char line[256];
    FILE *f = fopen("/proc/cpuinfo", "re");
    snprintf(name, size, "CPU");
    while (f && fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) || !colon)
            continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(name, size, "%.*s", (int)size - 1, colon + 2);
        break;
    }
    if (f)
        fclose(f);
}

static uint64_t memory_free(void)
{
    char line[128];
    unsigned long long kib = 0;
    FILE *f = fopen("/proc/meminfo", "re");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %llu", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return kib * 1024;
}

static yk_status device_caps(uint32_t i, yk_device_caps *out)
{
    yk_device_caps c = {.size = sizeof c};
    int cores[CPU_MAX_CORES], n = 0, at;
    const cpu_isa *isa;
    yk_status s = i ? YK_E_ARG : find_cores(cores, CPU_MAX_CORES, &n);
    if (s == YK_OK)
        s = find_isa(&isa);
    if (s != YK_OK)
        return s;
    c.flags = YK_CAP_HOST_VISIBLE | YK_CAP_WRAP | YK_CAP_DETERMINISTIC | YK_CAP_CPU | YK_CAP_CORES | YK_CAP_LONG_SUMS;
    cpu_name(c.name, sizeof c.name);
    at = snprintf(c.locality, sizeof c.locality, "cores:");
    for (int k = 0; k < n && at < (int)sizeof c.locality - 8; k++) {
        int first = k;
        while (k + 1 < n && cores[k + 1] == cores[k] + 1)
            k++;
        at += snprintf(c.locality + at, sizeof c.locality - (size_t)at, first == k ? "%s%d" : "%s%d-%d",
                       first ? "," : "", cores[first], cores[k]);
    }
    c.mem_total = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    c.mem_free = memory_free();
    c.align = 64;
    c.units = (uint32_t)n;
    /* kernels take bf16 in pairs, the first one as the lower half of a word */
    const uint32_t bf16 = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 1u << YK_BF16 : 0;
    c.store = 1u << YK_F32 | 1u << YK_F16 | bf16 | 1u << YK_I32 | 1u << YK_U8 | 1u << YK_BOOL;
    c.compute = 1u << YK_F32 | 1u << YK_F16 | bf16 | 1u << YK_I32;
    snprintf(c.isa, sizeof c.isa, "%s", isa->name);
    uint32_t size = out->size < c.size ? out->size : c.size;
    c.size = size;
    memcpy(out, &c, size);
    return YK_OK;
}

static void device_measure(yk_device *d)
{
    cpu_pool_measure(d->pool, cpu_isa_slowness(d->isa));
    const cpu_costs costs = cpu_pool_costs(d->pool);
    cpu_host->log(3, "cpu", "%d workers: waking one takes %.1f us, all that spin come in %.2f us; a step of %.1f us and more is shared; "
                  "products of %s take %.2f of the time guessed", d->n, 1e-3 * (double)costs.wake_ns, 1e-3 * (double)costs.turn_ns,
                  1e-3 * costs.share_ns, d->isa->name, costs.slowness);
}

static yk_status device_open(uint32_t i, yk_device **dev)
{
    int cores[CPU_MAX_CORES], n = 0;
    const cpu_isa *isa;
    yk_status s = i ? YK_E_ARG : find_cores(cores, CPU_MAX_CORES, &n);
    if (s == YK_OK)
        s = find_isa(&isa);
    if (s != YK_OK)
        return s;
    yk_device *d = cpu_host->alloc(sizeof *d, 64);
    if (!d)
        return YK_E_MEM;
    memset(d, 0, sizeof *d);
    d->isa = isa;
    d->n = n;
    d->core0 = cores[0];
    for (int k = 0; k < n; k++)
        if (cores[k] >= 0 && cores[k] < CPU_SETSIZE)
            CPU_SET(cores[k], &d->cores);
    d->pool = cpu_pool_new(cores, n);
    if (!d->pool) {
        cpu_host->fail("cpu", "no thread or no memory for %d workers", n);
        cpu_host->free(d);
        return YK_E_MEM;
    }
    device_measure(d);
    cpu_profile_workers(n);
    pthread_mutex_init(&d->lock, NULL);
    *dev = d;
    return YK_OK;
}

static void device_close(yk_device *d)
{
    if (!d)
        return;
    cpu_pool_free(d->pool);
    cpu_host->free(d->scratch);
    pthread_mutex_destroy(&d->lock);
    cpu_host->free(d);
}

static uint32_t device_claims(yk_device *dev, const yk_graph *g, uint32_t node)
{
    (void)dev;
    return cpu_op_claims(g, node);
}

/* ---- Memory ---- */

static yk_status buffer_make(void *data, uint64_t bytes, bool owned, yk_buffer **out)
{
    yk_buffer *buffer = cpu_host->alloc(sizeof *buffer, 64);
    if (!buffer)
        return YK_E_MEM;
    *buffer = (yk_buffer){data, bytes, owned};
    *out = buffer;
    return YK_OK;
}

/* False if the machine can never hold so much: a kernel that overcommits grants any size, and kills the process when it is written. */
static bool memory_holds(uint64_t bytes)
{
    struct sysinfo info;
    return sysinfo(&info) || bytes <= ((uint64_t)info.totalram + info.totalswap) * info.mem_unit;
}

static yk_status buffer_new(yk_device *dev, const yk_buffer_desc *desc, yk_buffer **out)
{
    const uint64_t bytes = desc->bytes;
    (void)dev;
    if (desc->flags & YK_BUF_EXPORT) {
        cpu_host->fail("cpu", "buffers of this plugin are not exported");
        return YK_E_UNSUPPORTED;
    }
    const bool fits = bytes <= SIZE_MAX / 2 && memory_holds(bytes);
    void *p = fits ? cpu_host->alloc(kit_round_bytes(bytes ? (size_t)bytes : 1, 64), CPU_PAGE) : NULL;
    if (!p) {
        cpu_host->fail("cpu", "no memory for a buffer of %llu bytes", (unsigned long long)bytes);
        return YK_E_MEM;
    }
    yk_status s = buffer_make(p, bytes, true, out);
    if (s != YK_OK)
        cpu_host->free(p);
    return s;
}

static yk_status buffer_wrap(yk_device *dev, void *host, uint64_t bytes, yk_buffer **out)
{
    (void)dev;
    return host ? buffer_make(host, bytes, false, out) : YK_E_ARG;
}

static void buffer_free(yk_buffer *buffer)
{
    if (!buffer)
        return;
    if (buffer->owned)
        cpu_host->free(buffer->data);
    cpu_host->free(buffer);
}

static void *buffer_map(yk_buffer *buffer)
{
    return buffer->data;
}

/* A short program gets one worker, as workers that meet at each of its steps would cost more than they save. */
static yk_status device_plan(const yk_device *dev, const yk_graph *g, cpu_prog **prog)
{
    yk_status s = cpu_prog_new(g, dev->isa, dev->n, prog);
    if (s != YK_OK || dev->n == 1 || cpu_prog_work(*prog) >= ONE_WORKER_NS)
        return s;
    cpu_prog_free(*prog);
    return cpu_prog_new(g, dev->isa, 1, prog);
}

static yk_status graph_scratch(yk_device *dev, const yk_graph *g, uint64_t *bytes)
{
    cpu_prog *prog;
    yk_status s = device_plan(dev, g, &prog);
    if (s != YK_OK)
        return s;
    *bytes = cpu_prog_scratch(prog, dev->n);
    cpu_prog_free(prog);
    return YK_OK;
}

static yk_status program_new(yk_device *dev, const yk_graph *g, yk_program **out)
{
    yk_program *program = cpu_host->alloc(sizeof *program, 64);
    if (!program)
        return YK_E_MEM;
    yk_status s = device_plan(dev, g, &program->prog);
    if (s != YK_OK) {
        cpu_host->free(program);
        return s;
    }
    program->dev = dev;
    *out = program;
    return YK_OK;
}

static void program_free(yk_program *program)
{
    if (!program)
        return;
    cpu_prog_free(program->prog);
    cpu_host->free(program);
}

EXPORT const yk_plugin *yk_plugin_query(uint32_t abi);

const yk_plugin *yk_plugin_query(uint32_t abi)
{
    static const yk_plugin table = {
        KIT_PLUGIN_HEAD("cpu", "0.1.0"),
        .init = plugin_init,
        .fini = plugin_fini,
        .device_count = device_count,
        .device_caps = device_caps,
        .device_open = device_open,
        .device_close = device_close,
        .claims = device_claims,
        .buffer_new = buffer_new,
        .buffer_wrap = buffer_wrap,
        .buffer_free = buffer_free,
        .buffer_map = buffer_map,
        .program_new = program_new,
        .program_free = program_free,
        .queue_new = cpu_queue_new,
        .queue_free = cpu_queue_free,
        .queue_run = cpu_queue_run,
        .queue_copy = cpu_queue_copy,
        .queue_poll = cpu_queue_poll,
        .queue_wait = cpu_queue_wait,
        .graph_scratch = graph_scratch,
        .queue_abort = cpu_queue_abort,
        .queue_span = cpu_queue_span,
    };
    return abi == YK_ABI ? &table : NULL;
}
