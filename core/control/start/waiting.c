/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log line of a process that waits at the start of a job: which ranks are absent, and how this process was started. It comes once a
 * wait has become long.
 *
 * The files that wait (join.c, assemble.c, rendezvous.c) ask whether the line is due between their polls. meeting.c waits inside a library,
 * so there a thread of its own writes the line.
 */
#include "config.h"

#include "core/control/start/waiting.h"

#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/log.h"

#define SAY_MS 5000
#define NAMES_MOST 8

void yk__waiting_begin(yk__waiting *waiting, const yk__origin *origin)
{
    *waiting = (yk__waiting){origin, yk__clock_ms() + SAY_MS};
}

bool yk__waiting_due(yk__waiting *waiting)
{
    const bool due = waiting && waiting->origin && waiting->say_at && yk__clock_ms() >= waiting->say_at;
    if (due)
        waiting->say_at = 0;
    return due;
}

void yk__waiting_say(const yk__waiting *waiting, const char *what, ...)
{
    char text[512], own[704];
    va_list ap;
    va_start(ap, what);
    vsnprintf(text, sizeof text, what, ap);
    va_end(ap);
    yk__origin_text(waiting->origin, own, sizeof own);
    yk__log(YK_LOG_WARN, "control", "waited %d s so far for %s: this process is %s%s", SAY_MS / 1000, text, own,
            waiting->origin->kind == YK__ORIGIN_LAUNCH ? "" : "; if it is a job of its own, set YOKE_LAUNCHER=none");
}

/* Until the line is said or the wait is over. */
static void *watch_main(void *arg)
{
    yk__waiting_watch *watch = arg;
    struct pollfd over = {watch->over, POLLIN, 0};
    while (watch->waiting->say_at && !over.revents) {
        const int64_t left = watch->waiting->say_at - yk__clock_ms();
        poll(&over, 1, left > 0 ? (int)left : 0);
        if (!over.revents && yk__waiting_due(watch->waiting))
            yk__waiting_say(watch->waiting, "%s", watch->what);
    }
    return NULL;
}

void yk__waiting_begin_watch(yk__waiting_watch *watch, yk__waiting *waiting, const char *what)
{
    sigset_t all, old;
    *watch = (yk__waiting_watch){.waiting = waiting, .what = what, .over = -1};
    if (!waiting->origin || !waiting->say_at)
        return;
    watch->over = eventfd(0, EFD_CLOEXEC);
    if (watch->over < 0)
        return;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    if (pthread_create(&watch->thread, NULL, watch_main, watch)) {
        close(watch->over);
        watch->over = -1;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void yk__waiting_end_watch(yk__waiting_watch *watch)
{
    if (watch->over < 0)
        return;
    eventfd_write(watch->over, 1);
    pthread_join(watch->thread, NULL);
    close(watch->over);
    watch->over = -1;
}

void yk__rank_names_add(yk__rank_names *names, uint32_t rank)
{
    char *end = names->text + strlen(names->text);
    const size_t left = sizeof names->text - strlen(names->text);
    names->count++;
    if (names->count == 1)
        snprintf(end, left, "rank %u", rank);
    else if (names->count == 2) {
        memmove(names->text + 5, names->text + 4, strlen(names->text + 4) + 1);
        names->text[4] = 's';
        snprintf(end + 1, left - 1, ", %u", rank);
    } else if (names->count <= NAMES_MOST)
        snprintf(end, left, ", %u", rank);
    else {
        if (names->count > NAMES_MOST + 1)
            *strstr(names->text, " and ") = 0;
        end = names->text + strlen(names->text);
        snprintf(end, sizeof names->text - (size_t)(end - names->text), " and %u more", names->count - NAMES_MOST);
    }
}
