/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compilations, and the log line of a long one. core/run/prog.c and simplerun.c say when each program begins and ends, in the
 * step thread or in that of core/run/ahead.c; other ranks then see that this one compiles.
 *
 * A vendor's compiler may take minutes in one call and say nothing, so a thread of its own writes the line: after FIRST_MS, and again each
 * time that the time has doubled.
 */
#include <pthread.h>
#include <signal.h>

#include "core/base/advance.h"
#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/process/signals.h"
#include "core/base/timed.h"
#include "core/device/compiling.h"
#include "core/device/device_internal.h"

#define FIRST_MS 10000

/* Milliseconds that other ranks wait for one compilation, by the device's estimate: as for other acts, 20 times the usual time. */
#define TIMES 20u
#define MOST_MS 86400000u

void yk__compile_allowed_for(const yk__device *dev)
{
    const uint64_t ms = dev->caps.compile_ms;
    yk__compile_allow(ms < MOST_MS / TIMES ? TIMES * (uint32_t)ms : MOST_MS);
}

/* The lock is held. */
static void line_write(const yk__compiling *c, int64_t ms)
{
    yk__log(YK_LOG_WARN, "device", "%s:%u compiles %s %u of %u, %lld s so far", c->dev->plugin->name, c->dev->place.device, c->what, c->at,
            c->of, (long long)ms / 1000);
}

static void *watch_main(void *arg)
{
    yk__compiling *c = arg;
    const int64_t began = yk__clock_ns();
    int64_t next_ms = FIRST_MS;
    pthread_mutex_lock(&c->lock);
    while (!c->ended) {
        const int64_t at = began + next_ms * 1000000;
        yk__timed_wait(&c->wake, &c->lock, at);
        if (c->ended || yk__clock_ns() < at)
            continue;
        line_write(c, next_ms);
        next_ms *= 2;
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

void yk__compiling_begin(yk__compiling *c, yk__device *dev, const char *what, uint32_t of)
{
    sigset_t all, kept;
    *c = (yk__compiling){.dev = dev, .what = what, .of = of};
    if (!of)
        return;
    pthread_mutex_init(&c->lock, NULL);
    yk__timed_init(&c->wake);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &kept);
    c->watched = !pthread_create(&c->watch, NULL, watch_main, c); /* without it no line is written */
    pthread_sigmask(SIG_SETMASK, &kept, NULL);
}

yk_status yk__compiling_next(yk__compiling *c, const yk_graph *g, yk_program **p, yk_error *err)
{
    yk__device *dev = c->dev;
    yk__signals kept;
    pthread_mutex_lock(&c->lock);
    c->at++;
    pthread_mutex_unlock(&c->lock);
    yk__host_message_clear();
    yk__compile_allowed_for(dev);
    yk__act_begin(YK__ACT_COMPILE);
    if (!c->overlapped)
        yk__signals_keep(&kept); /* a compiler may be loaded now; an overlapped one has been, and handlers are the program's */
    yk_status s = dev->table->program_new(dev->handle, g, p);
    if (!c->overlapped)
        yk__signals_restore(&kept);
    yk__act_end(YK__ACT_COMPILE);
    yk__advance();
    s = yk__plugin_made(s, *p);
    return s ? yk__plugin_fail(err, dev->plugin, s, "compiling a program") : YK_OK;
}

void yk__compiling_end(yk__compiling *c)
{
    if (!c->of)
        return;
    pthread_mutex_lock(&c->lock);
    c->ended = true;
    pthread_cond_signal(&c->wake);
    pthread_mutex_unlock(&c->lock);
    if (c->watched)
        pthread_join(c->watch, NULL);
    pthread_cond_destroy(&c->wake);
    pthread_mutex_destroy(&c->lock);
}

bool yk__compiled_account(yk__device *dev, const yk_program *p, yk_program_memory *m, yk_error *err)
{
    *m = (yk_program_memory){.size = sizeof *m};
    yk__host_message_clear();
    const yk_status s = dev->table->program_memory(p, m);
    if (s && s != YK_E_UNSUPPORTED)
        yk__plugin_fail(err, dev->plugin, s, "the memory of a compiled program");
    else if (!s && (m->alias > m->argument || m->alias > m->result))
        yk__fail(err, YK_E_INTERNAL, "%s: expected a part of %llu bytes of arguments and of %llu of results, got %llu shared bytes: mend "
                 "its program_memory", dev->plugin->name, (unsigned long long)m->argument, (unsigned long long)m->result,
                 (unsigned long long)m->alias);
    return !s && !err->status;
}
