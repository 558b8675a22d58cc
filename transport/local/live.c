/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Liveness: a thread per rank shows that this process lives and looks whether the others do. The end of a job is one
 * record in the shared head that all waits look at.
 *
 * Silence is added up from this thread's own short steps, each counted with a bound, so that a job that was stopped as
 * a whole (Ctrl-Z, a suspended machine) finds its peers alive when it goes on.
 */
#include "config.h"

#include "transport/local/layout.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define STEP_MAX_MS 150 /* more than this between two looks is this process's own pause */

typedef struct silence {
    uint32_t beat;
    int64_t silent_ms;
} silence;

bool yk__local_end(yk__local_head *head, uint32_t rank, bool silent, yk_status status, const char *words)
{
    uint32_t running = YK_LOCAL_RUNNING;
    if (!atomic_compare_exchange_strong(&head->abort, &running, YK_LOCAL_ENDING))
        return false;
    head->abort_rank = rank;
    head->abort_status = (uint32_t)status;
    head->abort_silent = silent;
    snprintf(head->abort_text, sizeof head->abort_text, "%s", words);
    atomic_store(&head->abort, YK_LOCAL_ENDED);
    return true;
}

/* The writer may have died between the two stores, so the wait for the text is short. */
static bool text_ready(const yk__local_head *head)
{
    struct timespec ms = {0, 1000000};
    for (int i = 0; i < 50; i++) {
        if (atomic_load(&head->abort) == YK_LOCAL_ENDED)
            return true;
        nanosleep(&ms, NULL);
    }
    return false;
}

bool yk__local_ended(const yk__local_head *head, uint32_t ranks, uint32_t *rank, bool *silent, yk_error *err)
{
    char text[sizeof head->abort_text];
    uint32_t status, who;
    if (atomic_load(&head->abort) == YK_LOCAL_RUNNING)
        return false;
    *rank = UINT32_MAX;
    *silent = false;
    if (!text_ready(head)) {
        yk__fail(err, YK_E_DEVICE_LOST, "the job was ended by a rank that died before it could say why");
        return true;
    }
    who = head->abort_rank;
    status = head->abort_status;
    memcpy(text, head->abort_text, sizeof text);
    text[sizeof text - 1] = 0;
    yk__fail(err, status && status < YK_STATUS_COUNT ? (yk_status)status : YK_E_DEVICE_LOST, "%s", text);
    if (who < ranks)
        *rank = who;
    *silent = head->abort_silent != 0;
    return true;
}

yk_status yk__local_end_error(const yk_tr *t, yk_tr_error *why)
{
    yk_error err = YK_ERROR_INIT;
    uint32_t rank;
    bool silent;
    if (!yk__local_ended(t->head, t->ranks, &rank, &silent, &err))
        return YK_OK;
    return yk__local_fail(why, err.status, "%s", err.text);
}

static void find_silent(yk_tr *t, uint32_t peer, silence *w, int64_t step_ms)
{
    yk__local_slot *s = &t->head->slot[peer];
    uint32_t beat = atomic_load(&s->beat);
    yk_tr_error words;
    char name[YK_LOCAL_NAME];
    if (beat != w->beat || atomic_load(&s->state) != YK_LOCAL_JOINED) {
        w->beat = beat;
        w->silent_ms = 0;
        return;
    }
    w->silent_ms += step_ms;
    if (w->silent_ms < t->liveness_ms)
        return;
    yk__local_name_copy(name, s->name); /* t->name may be being filled just now */
    yk__local_fail(&words, YK_E_DEVICE_LOST, "%s gave no sign of life for %.1f s (stopped, hung or dead)", name,
                    (double)w->silent_ms / 1000);
    yk__local_end_for(t, peer, true, YK_E_DEVICE_LOST, words.text);
}

/* True when the launcher has closed its end. Nothing is ever sent to a rank after the hello. */
static bool launcher_gone(int fd)
{
    char c;
    ssize_t n = recv(fd, &c, 1, MSG_DONTWAIT | MSG_PEEK);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

static void *beat_main(void *arg)
{
    yk_tr *t = arg;
    silence w[YK_TR_RANKS] = {{0, 0}};
    struct pollfd p[2] = {{t->wake_fd, POLLIN, 0}, {t->job_fd, POLLIN, 0}};
    int64_t last = yk__local_now();
    for (;;) {
        int64_t now, step;
        if (poll(p, 2, YK_LOCAL_BEAT_MS) < 0 && errno != EINTR)
            return NULL;
        if (p[0].revents)
            return NULL;
        atomic_fetch_add(&t->head->slot[t->rank].beat, 1);
        if (t->advance)
            atomic_store(&t->head->slot[t->rank].advance, __atomic_load_n(t->advance, __ATOMIC_RELAXED));
        if (p[1].revents && launcher_gone(t->job_fd)) {
            yk__local_end(t->head, t->rank, false, YK_E_CANCELLED, "the launcher of the job has died");
            p[1].fd = -1;
        }
        now = yk__local_now();
        step = (now - last) / 1000000;
        last = now;
        for (uint32_t r = 0; t->liveness_ms && r < t->ranks; r++)
            if (r != t->rank)
                find_silent(t, r, &w[r], step > STEP_MAX_MS ? STEP_MAX_MS : step);
    }
}

yk_status yk__local_beat_start(yk_tr *t, yk_tr_error *why)
{
    sigset_t all, old;
    int e;
    t->wake_fd = eventfd(0, EFD_CLOEXEC);
    if (t->wake_fd < 0)
        return yk__local_fail(why, YK_E_IO, "eventfd: %s", strerror(errno));
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    e = pthread_create(&t->beat, NULL, beat_main, t);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (e)
        return yk__local_fail(why, YK_E_IO, "starting the liveness thread: %s", strerror(e));
    t->beating = true;
    return YK_OK;
}

void yk__local_beat_stop(yk_tr *t)
{
    uint64_t one = 1;
    if (t->beating && write(t->wake_fd, &one, sizeof one) == (ssize_t)sizeof one)
        pthread_join(t->beat, NULL);
    if (t->wake_fd >= 0)
        close(t->wake_fd);
    t->beating = false;
    t->wake_fd = -1;
}
