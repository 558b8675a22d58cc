/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The launcher of one host's ranks. It starts one process per rank, each in a process group of its own, and watches them until the job
 * ends. `yoke launch`, yk_launch (core/job/team/ranks.c) and node.c call it, in a program with one thread. It returns the job's exit code
 * once its ranks have ended.
 *
 * The job's shared record holds the first error that ends the job. The launcher may find it (an exit, a signal, a stop), or a rank (its own
 * failure, or another rank without progress). The liveness thread of a rank may also find it (silence). From then on the ranks have a
 * little time to end by themselves, then SIGTERM, then SIGKILL. A rank that SIGKILL does not end is named and left behind. A signal to the
 * launcher goes to the ranks; if none of them makes progress for YOKE_STUCK_MS then, the job ends in the same way. With
 * YOKE_EMERGENCY_CHECKPOINT the time is longer, as ranks save. With YOKE_LIVENESS_MS=0 a stopped rank is no error.
 */
#include "config.h"

#include "core/launch/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/advance.h"
#include "core/base/process/cgroup.h"
#include "core/base/process/thread_id.h"
#include "core/base/clock.h"
#include "core/base/limit.h"
#include "core/base/mem.h"
#include "core/base/option.h"
#include "core/launch/launch_internal.h"

#define GRACE_MS 1600       /* from the error to SIGKILL ... */
#define GRACE_SILENT_MS 360 /* ... and after an error whose detection took most of the two seconds */
#define SAVE_MS 120000      /* and for remaining ranks that write an emergency checkpoint: they end by themselves afterwards */
#define STOPPED_MS 1100     /* some, not all, ranks stopped for so long: lost. Shorter than the ranks' own detection of silence */
#define DEATH_MS 2000       /* from SIGKILL to giving up */
#define LOOK_MS 50      /* between two checks of a rank whose wrapper has ended, or of the ranks' progress */
#define STILL_MORE_MS 2000 /* the ranks find a call or device that stands still first, and name it */
#define LOOK_MAX_MS 150 /* a later look adds that much: this process was stopped, as perhaps all were */
#define LEFT_MS 60000       /* from a goodbye to the end of the process: exit handlers, of drivers mostly */

/* ---- Ending ------------------------------------------------------------------------------------------------------ */

static void signal_all(const yk__launcher *launcher, int sig)
{
    for (uint32_t r = 0; r < launcher->n_ranks; r++)
        if (launcher->rank[r].pid)
            kill(-launcher->rank[r].pid, sig);
}

static void say_line(yk__launcher *launcher, const char *text)
{
    if (launcher->say)
        launcher->say(text);
}

/* Reports the cause of the job's end. If a restart may follow, the report waits until every rank has ended. */
static void say_end(yk__launcher *launcher, const char *why)
{
    char text[YK_ERROR_TEXT + 64];
    if (yk__restart_left(&launcher->restart))
        return;
    yk__restart_describe(&launcher->restart, false, why, text, sizeof text);
    say_line(launcher, text);
    launcher->said = true;
}

static void kill_all(yk__launcher *launcher)
{
    signal_all(launcher, SIGKILL);
    if (!launcher->killed_at)
        launcher->killed_at = yk__clock_ms();
}

static void start_clock(yk__launcher *launcher, int64_t grace)
{
    launcher->culprit_at = yk__clock_ms() + grace;
    grace = yk__option_text(YK__OPTION_EMERGENCY_CHECKPOINT) ? SAVE_MS : grace;
    launcher->kill_at = yk__clock_ms() + grace;
    launcher->term_at = launcher->kill_at - grace / 2;
}

/* A silent rank hears no request to end. */
static void kill_silent(const yk__launcher *launcher, uint32_t rank)
{
    if (rank < launcher->n_ranks && launcher->rank[rank].pid)
        kill(-launcher->rank[rank].pid, SIGKILL);
}

/* Starts the clock once the record holds an error. */
static void begin_end(yk__launcher *launcher)
{
    yk_error err = YK_ERROR_INIT;
    uint32_t rank;
    bool silent;
    if (launcher->ending || !yk__control_job_error(launcher->job, &rank, &silent, &err))
        return;
    launcher->ending = true;
    for (uint32_t r = 0; r < launcher->n_ranks; r++)
        launcher->rank[r].still_ms = 0; /* a rank that has waited may have a step to write now */
    launcher->culprit = rank;
    launcher->culprit_advance = yk__control_job_advance(launcher->job, rank);
    start_clock(launcher, silent ? GRACE_SILENT_MS : GRACE_MS); /* before a line that may find no reader */
    if (silent)
        kill_silent(launcher, rank);
    say_end(launcher, err.text);
}

/* A process that survives SIGKILL waits in the kernel, for a device or a file system, or is frozen; it dies when it wakes. */
static void give_up(yk__launcher *launcher)
{
    char text[256];
    for (uint32_t r = 0; r < launcher->n_ranks; r++)
        if (launcher->rank[r].pid) {
            snprintf(text, sizeof text,
                     "%s: process %ld has not died %d s after SIGKILL (frozen, or waiting for a device or a file "
                     "system); it is "
                     "left behind",
                     launcher->rank[r].name, (long)launcher->rank[r].pid, DEATH_MS / 1000);
            say_line(launcher, text);
        }
    launcher->gave_up = true;
}

/* Ranks with extra time for an emergency checkpoint must advance. A culprit without advance is stuck: it writes none. */
static void end_culprit(yk__launcher *launcher, int64_t now)
{
    if (!launcher->culprit_at || now < launcher->culprit_at)
        return;
    launcher->culprit_at = 0;
    if (yk__control_job_advance(launcher->job, launcher->culprit) == launcher->culprit_advance)
        kill_silent(launcher, launcher->culprit);
}

static void deadlines_enforce(yk__launcher *launcher)
{
    int64_t now = yk__clock_ms();
    if (launcher->killed_at && launcher->alive && now - launcher->killed_at >= DEATH_MS)
        give_up(launcher);
    if (!launcher->ending)
        return;
    end_culprit(launcher, now);
    if (!launcher->term_sent && now >= launcher->term_at) {
        launcher->term_sent = true;
        signal_all(launcher, SIGTERM);
        signal_all(launcher, SIGCONT);
    }
    if (now >= launcher->kill_at) {
        kill_all(launcher);
        launcher->kill_at = now + 100;
    }
}

/* True if a rank says that SIGUSR1 asks it to leave, as yoke train does. Another program may do anything then. */
static bool any_asked(const yk__launcher *launcher)
{
    for (uint32_t r = 0; r < launcher->n_ranks; r++)
        if (launcher->rank[r].heeds || yk__control_job_heeds(launcher->job, r))
            return true;
    return false;
}

static void interrupt_text(const yk__launcher *launcher, const char *why, char *text, size_t size)
{
    const int sig = launcher->interrupted;
    snprintf(text, size, "interrupted by signal %d (%s)%s%s", sig, strsignal(sig), *why ? ", then " : "", why);
}

/* A signal to the launcher explains an end, and `why` is added if the rank chose its exit code. SIGUSR1 to another program explains only
 * the end of a rank that it killed. A later failure is the program's own, and counts for a restart. */
static void fail_with(yk__launcher *launcher, uint32_t rank, yk_status status, const char *why)
{
    char text[YK_ERROR_TEXT + 224];
    const int sig = launcher->interrupted, code = launcher->rank[rank].code;
    const bool obeyed = launcher->killed_at || code == 128 + sig;
    const bool chosen = code && !obeyed && code != 128 + SIGTERM && code != 128 + SIGKILL;
    if (!sig)
        snprintf(text, sizeof text, "%s", why);
    else if (sig == SIGUSR1 && !obeyed && !any_asked(launcher)) {
        snprintf(text, sizeof text, "%s (signal %d came before)", why, sig);
        launcher->interrupted = launcher->again ? sig : 0;
    } else {
        interrupt_text(launcher, chosen ? why : "", text, sizeof text);
        status = YK_E_CANCELLED;
    }
    yk__control_job_abort(launcher->job, rank, status, text);
    begin_end(launcher);
}

/* `what` follows the rank's name in the text. */
static void fail_rank(yk__launcher *launcher, uint32_t rank, yk_status status, const char *what)
{
    char text[YK_ERROR_TEXT + 160];
    snprintf(text, sizeof text, "%s%s", launcher->rank[rank].name, what);
    fail_with(launcher, rank, status, text);
}

static bool any_joined(const yk__launcher *launcher)
{
    for (uint32_t r = 0; r < launcher->n_ranks; r++)
        if (yk__control_job_joined(launcher->job, r))
            return true;
    return false;
}

/* Every rank leaves this way, one after the other; it is no fault. */
static void note_again(yk__launcher *launcher, uint32_t rank)
{
    if (launcher->again)
        return;
    launcher->again = true;
    launcher->again_at = yk__clock_ms() + LEFT_MS;
    launcher->again_rank = rank;
}

static void note_end(yk__launcher *launcher, uint32_t rank, int status)
{
    yk__child *child = &launcher->rank[rank];
    char what[128];
    bool left_open = yk__control_job_joined(launcher->job, rank);
    child->pid = 0;
    child->stopped = false;
    launcher->alive--;
    child->code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (child->code == YK__LAUNCH_AGAIN && launcher->ending && !launcher->interrupted && !launcher->node)
        child->code = 1; /* the signal that it obeyed was this launcher's own, as the job had failed */
    if (WIFSIGNALED(status))
        snprintf(what, sizeof what, " was killed by signal %d (%s)%s", WTERMSIG(status), strsignal(WTERMSIG(status)),
                 WTERMSIG(status) == SIGKILL && yk__cgroup_kills() > launcher->oom_kills
                     ? "; the kernel killed a process of this control group for want of memory"
                     : "");
    else if (child->code && child->blamed) { /* because of another host's rank: the exit code alone would hide that */
        fail_with(launcher, rank, YK_E_DEVICE_LOST, launcher->blame);
        return;
    } else if (child->code == YK__LAUNCH_AGAIN && (launcher->node || yk__control_job_left(launcher->job, rank))) {
        note_again(launcher, rank);
        return;
    } else if (child->code)
        snprintf(what, sizeof what, " ended with exit code %d", child->code);
    else if (left_open)
        snprintf(what, sizeof what, " ended without leaving the group (exit code 0)");
    else if (yk__control_job_gone(launcher->job, rank) && any_joined(launcher))
        snprintf(what, sizeof what, " ended (exit code 0) before it joined the other ranks");
    else
        return;
    fail_rank(launcher, rank, YK_E_DEVICE_LOST, what);
}

/* A rank's report about itself counts at once. Another rank's host may know more of that one, so the launcher hears of both reports. */
static void take_verdict(yk__launcher *launcher, uint32_t rank, uint32_t who, const yk_error *err)
{
    char text[YK_ERROR_TEXT + 64];
    if (who != launcher->node->first + rank) {
        if (!launcher->blame[0])
            snprintf(launcher->blame, sizeof launcher->blame, "%s", err->text);
        launcher->rank[rank].blamed = true;
        if (yk__launcher_led(launcher))
            yk__node_tell(who, err->text);
        return;
    }
    interrupt_text(launcher, err->text, text, sizeof text);
    yk__control_job_abort(launcher->job, rank, err->status, launcher->interrupted ? text : err->text);
    begin_end(launcher);
}

/* Several hosts: takes all that the rank has said. */
static void read_verdict(yk__launcher *launcher, uint32_t rank)
{
    uint32_t who;
    for (;;) {
        yk_error err = YK_ERROR_INIT;
        if (yk__control_job_fd(launcher->job, rank) < 0 || !yk__control_job_verdict(launcher->job, rank, &who, &err))
            return;
        if (!err.status && !launcher->rank[rank].heeds && yk__launcher_led(launcher))
            yk__node_say("heeds", "");
        launcher->rank[rank].heeds = launcher->rank[rank].heeds || !err.status;
        if (err.status && !launcher->ending)
            take_verdict(launcher, rank, who, &err);
    }
}

static void read_notices(yk__launcher *launcher, uint32_t rank)
{
    if (launcher->node) {
        read_verdict(launcher, rank);
        return;
    }
    yk_error err = YK_ERROR_INIT;
    char what[YK_ERROR_TEXT + 2];
    bool reported = yk__control_job_fd(launcher->job, rank) >= 0 && yk__control_job_notice(launcher->job, rank, &err);
    begin_end(launcher); /* if a rank has ended the job, its record is the first */
    snprintf(what, sizeof what, ": %s", err.text);
    if (reported && !launcher->ending)
        fail_rank(launcher, rank, err.status, what);
    if (launcher->left_ms && !launcher->rank[rank].left_at && yk__control_job_left(launcher->job, rank))
        launcher->rank[rank].left_at = yk__clock_ms();
}

/* True if the process that joined lives: the rank's, or one in its group if a wrapper started it. If the wrapper has ended, process 1
 * inherits that one, or this launcher as process 1 or as a subreaper; neither may reap it by itself. */
static bool member_lives(const yk__launcher *launcher, uint32_t rank)
{
    const pid_t own = launcher->rank[rank].pid, pid = yk__control_job_pid(launcher->job, rank);
    if (!own || pid <= 0 || pid == own)
        return own && pid > 0;
    return getpgid(pid) == own && waitpid(pid, NULL, WNOHANG) != pid && !yk__process_ended(pid);
}

/* Fails ranks that have left the group and do not end. A wrapper may have other work still. */
static void watch_left(yk__launcher *launcher)
{
    char what[160];
    for (uint32_t r = 0; r < launcher->n_ranks; r++) {
        if (!launcher->rank[r].left_at || yk__clock_ms() - launcher->rank[r].left_at < launcher->left_ms)
            continue;
        launcher->rank[r].left_at = 0;
        if (launcher->ending || !member_lives(launcher, r))
            continue;
        snprintf(what, sizeof what,
                 " left the group but has not ended within %.1f s: an exit handler hangs, perhaps a driver's",
                 (double)launcher->left_ms / 1000);
        fail_rank(launcher, r, YK_E_DEVICE_LOST, what);
    }
}

/* Fails the job if a rank has left to be started again, and other ranks do not follow in time. */
static void watch_again(yk__launcher *launcher)
{
    if (!launcher->again || launcher->ending || !launcher->alive || yk__clock_ms() < launcher->again_at)
        return;
    fail_rank(launcher, launcher->again_rank, YK_E_DEVICE_LOST, " ended with exit code 75 and the ranks that are left do not");
}

/* All ranks of the job are stopped and none has ended: the user did it. A launcher of several hosts is the one that stops all ranks. */
static bool is_pause(const yk__launcher *launcher, uint32_t stopped)
{
    return yk__launcher_led(launcher) ? launcher->paused : stopped == launcher->n_ranks;
}

/* Fails ranks that are stopped while other ranks run, or after other ranks have ended. */
static void watch_stopped(yk__launcher *launcher)
{
    uint32_t stopped = 0, which = 0;
    for (uint32_t r = 0; r < launcher->n_ranks; r++)
        if (launcher->rank[r].pid && launcher->rank[r].stopped && !stopped++)
            which = r;
    if (!launcher->liveness || !stopped || is_pause(launcher, stopped)) {
        launcher->stopped_since = 0;
        return;
    }
    if (!launcher->stopped_since)
        launcher->stopped_since = yk__clock_ms();
    if (!launcher->ending && yk__clock_ms() - launcher->stopped_since >= STOPPED_MS) {
        fail_rank(launcher, which, YK_E_DEVICE_LOST,
                  stopped < launcher->alive ? " was stopped while other ranks run" : " was stopped and does not go on");
        start_clock(launcher, GRACE_SILENT_MS);
        if (yk__option_text(YK__OPTION_EMERGENCY_CHECKPOINT)) /* or the launcher would wait for it as long as for ranks that save */
            kill_silent(launcher, which);
    }
}

/* Adds the time since the last look for each rank whose count of progress stays; begins with a signal, or with the job's end. */
static void progress_look(yk__launcher *launcher)
{
    const int64_t now = yk__clock_ms(), step = launcher->seen_at ? now - launcher->seen_at : 0;
    if (!launcher->interrupted && !launcher->ending)
        return;
    launcher->seen_at = now;
    for (uint32_t r = 0; r < launcher->n_ranks; r++) {
        const uint32_t advance = yk__control_job_advance(launcher->job, r);
        yk__child *child = &launcher->rank[r];
        child->still_ms = advance == child->advance ? child->still_ms + (step < LOOK_MAX_MS ? step : LOOK_MAX_MS) : 0;
        child->advance = advance;
    }
}

/* A signal asks ranks to end, and no rank waits for one that sleeps in its own code, or takes no notice. SIGUSR1 is left out:
 * it may ask another library's program, which shows no progress, for something else. */
static void watch_interrupted(yk__launcher *launcher)
{
    char text[YK_ERROR_TEXT];
    uint32_t which = UINT32_MAX;
    if (!launcher->interrupted || launcher->interrupted == SIGUSR1 || launcher->ending || !launcher->stuck_ms)
        return;
    for (uint32_t r = launcher->n_ranks; r-- > 0;)
        if (launcher->rank[r].pid) {
            if (launcher->rank[r].still_ms < launcher->stuck_ms + STILL_MORE_MS)
                return;
            which = r;
        }
    if (which == UINT32_MAX)
        return;
    snprintf(text, sizeof text, "interrupted by signal %d (%s), and %s has made no progress since, for %.1f s (YOKE_STUCK_MS)",
             launcher->interrupted, strsignal(launcher->interrupted), launcher->rank[which].name,
             (double)launcher->rank[which].still_ms / 1000);
    yk__control_job_abort(launcher->job, which, YK_E_CANCELLED, text);
    begin_end(launcher);
}

/* With an emergency checkpoint ranks have SAVE_MS: no rank needs it that hangs as it would not be allowed to before. */
static void watch_saving(const yk__launcher *launcher)
{
    for (uint32_t r = 0; r < launcher->n_ranks; r++) {
        const uint32_t patience = yk__control_job_patience(launcher->job, r);
        if (launcher->ending && patience && launcher->rank[r].still_ms >= (patience > GRACE_MS ? patience : GRACE_MS))
            kill_silent(launcher, r);
    }
}

/* A launcher of several hosts knows no counts of its ranks. */
static void watch_progress(yk__launcher *launcher)
{
    if (launcher->node)
        return;
    progress_look(launcher);
    watch_interrupted(launcher);
    watch_saving(launcher);
}

static void note_stops(yk__child *child)
{
    siginfo_t si = {0};
    while (!waitid(P_PID, (id_t)child->pid, &si, WSTOPPED | WCONTINUED | WNOHANG) && si.si_pid) {
        child->stopped = si.si_code == CLD_STOPPED;
        si = (siginfo_t){0};
    }
}

/* True for a wrapper (a shell) that a signal has killed while its rank still handles the same signal. */
static bool is_outlived(const yk__launcher *launcher, uint32_t rank)
{
    const pid_t pid = yk__control_job_pid(launcher->job, rank);
    return launcher->interrupted && !launcher->ending && !launcher->killed_at && pid != launcher->rank[rank].pid &&
           member_lives(launcher, rank);
}

/* Process 1 of a container, or a subreaper, inherits what a rank's children leave behind. This function reaps the dead of a running rank's
 * group, but neither the rank nor the process that joined, which member_lives asks about. A process that outlives its rank, or has a group
 * of its own, stays dead until the launcher ends. */
static void reap_orphans(const yk__launcher *launcher, uint32_t rank)
{
    const pid_t own = launcher->rank[rank].pid, member = yk__control_job_pid(launcher->job, rank);
    siginfo_t si = {0};
    while (!waitid(P_PGID, (id_t)own, &si, WEXITED | WNOHANG | WNOWAIT) && si.si_pid && si.si_pid != own && si.si_pid != member) {
        waitpid(si.si_pid, NULL, WNOHANG);
        si = (siginfo_t){0};
    }
}

/* Kills the rank's children before it reaps the rank: afterwards another process may have the number of its group. */
static void reap_rank(yk__launcher *launcher, uint32_t rank)
{
    const pid_t pid = launcher->rank[rank].pid;
    siginfo_t si = {0};
    int status;
    if (waitid(P_PID, (id_t)pid, &si, WEXITED | WNOHANG | WNOWAIT) || !si.si_pid || is_outlived(launcher, rank))
        return;
    read_notices(launcher, rank); /* the rank's last notices explain its end */
    if (launcher->ending || si.si_code != CLD_EXITED || si.si_status)
        kill(-pid, SIGKILL);
    yk__guard_remove(&launcher->guard, pid);
    if (waitpid(pid, &status, WNOHANG) == pid)
        note_end(launcher, rank, status);
}

static void ranks_reap(yk__launcher *launcher)
{
    for (uint32_t r = 0; r < launcher->n_ranks; r++) {
        if (!launcher->rank[r].pid)
            continue;
        note_stops(&launcher->rank[r]);
        reap_orphans(launcher, r);
        reap_rank(launcher, r);
    }
    watch_stopped(launcher);
    watch_left(launcher);
    watch_again(launcher);
    watch_progress(launcher);
}

/* ---- Signals to the launcher ------------------------------------------------------------------------------------- */

/* order: the launcher of several hosts passed the signal on. */
static void job_interrupt(yk__launcher *launcher, int sig, bool order)
{
    if (yk__signals_repeated(&launcher->signals, sig, order))
        return;
    if (launcher->interrupted && (launcher->interrupted != SIGUSR1 || any_asked(launcher))) {
        kill_all(launcher);
        return;
    }
    launcher->interrupted = sig;
    signal_all(launcher, sig);
    signal_all(launcher, SIGCONT);
}

/* Ctrl-Z reaches only the launcher's process group: the ranks stop first, then the launcher; they continue together. */
static void stop_job(const yk__launcher *launcher)
{
    signal_all(launcher, SIGSTOP);
    yk__signals_stop(&launcher->signals);
    signal_all(launcher, SIGCONT);
}

static void read_signals(yk__launcher *launcher)
{
    int sig;
    while ((sig = yk__signals_next(&launcher->signals)))
        if (sig == SIGTSTP)
            stop_job(launcher);
        else if (sig != SIGCHLD)
            job_interrupt(launcher, sig, false);
}

/* ---- The whole --------------------------------------------------------------------------------------------------- */

static int64_t earlier_of(int64_t at, int64_t other)
{
    return !other || (at && at < other) ? at : other;
}

static int next_timeout(const yk__launcher *launcher)
{
    int64_t at = launcher->ending ? (launcher->term_sent ? launcher->kill_at : launcher->term_at) : 0;
    if (!launcher->ending && launcher->stopped_since)
        at = launcher->stopped_since + STOPPED_MS;
    if (launcher->culprit_at)
        at = earlier_of(at, launcher->culprit_at);
    if (launcher->seen_at)
        at = earlier_of(at, yk__clock_ms() + LOOK_MS);
    if (launcher->again && !launcher->ending)
        at = earlier_of(at, launcher->again_at);
    if (launcher->killed_at)
        at = earlier_of(at, launcher->killed_at + DEATH_MS);
    for (uint32_t r = 0; r < launcher->n_ranks; r++)
        if (launcher->rank[r].left_at && launcher->rank[r].pid)
            at = earlier_of(at, launcher->rank[r].left_at + launcher->left_ms);
    if (yk__launcher_led(launcher))
        at = earlier_of(at, yk__clock_ms() + YK__NODE_BEAT_MS);
    if (!at)
        return -1;
    at -= yk__clock_ms();
    return at < 0 ? 0 : (int)at + 1;
}

/* ---- The standard descriptors ------------------------------------------------------------------------------------ */

void yk__launch_keep_standard(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR); /* kept over exec: it replaces a standard one */
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

/* Descriptors of signals, of the ranks' notices, and of a node on several hosts. */
static nfds_t polls_fill(const yk__launcher *launcher, struct pollfd *p)
{
    p[0] = (struct pollfd){launcher->signals.fd, POLLIN, 0};
    for (uint32_t r = 0; r < launcher->n_ranks; r++)
        p[r + 1] = (struct pollfd){yk__control_job_fd(launcher->job, r), POLLIN, 0};
    const yk__node *led = yk__launcher_led(launcher);
    return launcher->n_ranks + 1 + (led ? yk__node_poll(led, p + launcher->n_ranks + 1) : 0);
}

/* The launcher stops the ranks of all hosts, or continues them. */
static void job_pause(yk__launcher *launcher, bool paused)
{
    launcher->paused = paused;
    signal_all(launcher, paused ? SIGSTOP : SIGCONT);
}

static void node_serve(yk__launcher *launcher)
{
    yk__node *node = yk__launcher_led(launcher);
    const char *lost = NULL;
    int order;
    if (!node)
        return;
    yk__node_pump(node);
    while ((order = yk__node_order(node)) > 0)
        if (order == SIGTSTP || order == SIGCONT)
            job_pause(launcher, order == SIGTSTP);
        else
            job_interrupt(launcher, order, true);
    if (order < 0)
        lost = "the launcher of the job has ended";
    else if (!yk__node_beat(node))
        lost = "the launcher of the job gives no sign of life: its host or the connection is gone";
    if (lost) {
        yk__control_job_abort(launcher->job, launcher->n_ranks, YK_E_CANCELLED, lost);
        begin_end(launcher);
    }
}

static void job_supervise(yk__launcher *launcher, struct pollfd *p)
{
    while (launcher->alive && !launcher->gave_up) {
        if (poll(p, polls_fill(launcher, p), next_timeout(launcher)) < 0 && errno != EINTR)
            break;
        for (uint32_t r = 0; r < launcher->n_ranks; r++)
            if (p[r + 1].revents)
                read_notices(launcher, r);
        read_signals(launcher);
        node_serve(launcher);
        ranks_reap(launcher);
        deadlines_enforce(launcher);
    }
    if (yk__launcher_led(launcher))
        yk__node_finish(launcher->node);
}

static yk_status job_verdict(const yk__launcher *launcher, int *code, yk_error *err)
{
    uint32_t rank;
    bool silent;
    if (!yk__control_job_error(launcher->job, &rank, &silent, err)) {
        *code = launcher->again ? YK__LAUNCH_AGAIN : 0;
        return launcher->again ? yk__restart_again(launcher->interrupted, err) : YK_OK;
    }
    const int own = rank < launcher->n_ranks ? launcher->rank[rank].code : 1;
    const bool saved = launcher->interrupted && launcher->again; /* and a second signal ended a rank on its way out */
    *code = saved || own == YK__LAUNCH_AGAIN ? YK__LAUNCH_AGAIN : launcher->interrupted ? 128 + launcher->interrupted : own == 2 ? 2 : 1;
    return err->status;
}

static yk_status launcher_run(yk__launcher *launcher, const yk__placement *place, int *code, yk_error *err)
{
    const size_t polls = launcher->n_ranks + 1 + YK__NODE_POLL((size_t)launcher->n_ranks);
    struct pollfd *p = yk__calloc(polls, sizeof *p);
    yk_status s;
    if (!p)
        return yk__fail_mem(err, polls * sizeof *p, "the launcher's descriptors");
    yk__guard_start(&launcher->guard);
    s = yk__launcher_start(launcher, place, err);
    launcher->ran = !s;
    if (s) {
        *code = s == YK_E_ARG ? 2 : 1;
        yk__control_job_abort(launcher->job, 0, s, err->text);
        begin_end(launcher);
        kill_all(launcher);
    }
    job_supervise(launcher, p);
    read_signals(launcher); /* a signal that came with the last rank's end also prevents a restart */
    yk__guard_stop(&launcher->guard);
    yk__free(p);
    if (!s)
        s = job_verdict(launcher, code, err);
    return s;
}

static yk_status prepare_launch(yk__launcher *launcher, yk_error *err)
{
    if (!launcher->n_ranks || (!launcher->function && (!launcher->argv || !launcher->argv[0])))
        return yk__fail(err, YK_E_ARG, "nothing to launch: %u devices, program '%s'", launcher->n_ranks,
                        launcher->argv && launcher->argv[0] ? launcher->argv[0] : "");
    yk__limit_is_error();
    launcher->oom_kills = yk__cgroup_kills();
    launcher->liveness = yk__option_number(YK__OPTION_LIVENESS_MS) != 0;
    launcher->stuck_ms = yk__stuck_ms();
    launcher->left_ms = yk__call_ms() && launcher->stuck_ms ? LEFT_MS : launcher->stuck_ms;
    if (yk__control_job_new(launcher->n_ranks, &launcher->job, err))
        return err->status;
    launcher->rank = yk__calloc(launcher->n_ranks, sizeof *launcher->rank);
    return launcher->rank ? YK_OK : yk__fail_mem(err, launcher->n_ranks * sizeof *launcher->rank, "the ranks of a job");
}

/* *again: another attempt follows. */
static yk_status launch_once(yk__launcher *launcher, const struct yk__placement *place, bool *again, int *code, yk_error *err)
{
    char text[YK_ERROR_TEXT + 64];
    if (launcher->function)
        fflush(NULL); /* or each rank would print this buffered text again */
    yk_status s = prepare_launch(launcher, err);
    *code = s == YK_E_ARG ? 2 : 1;
    if (!s)
        s = launcher_run(launcher, place, code, err);
    *again = s && launcher->ran && !launcher->gave_up && !launcher->interrupted && yk__restart_due(&launcher->restart, *code);
    if (s && !launcher->said && !(yk__launcher_led(launcher) && *code == YK__LAUNCH_AGAIN)) { /* which the launcher of all hosts reports */
        yk__restart_describe(&launcher->restart, *again, err->text, text, sizeof text);
        say_line(launcher, text);
    }
    yk__free(launcher->rank);
    yk__control_job_free(launcher->job);
    return s;
}

/* Each attempt begins as a copy of the first launcher. A signal between two attempts waits for the next one, which it ends. */
static yk_status launch_job(yk__launcher *first, const struct yk__placement *place, int *code, yk_error *err)
{
    bool again;
    yk_status s = yk__signals_take(&first->signals, err);
    *code = 1;
    if (s)
        say_line(first, err->text);
    for (again = !s; again; first->restart.count++) {
        yk__launcher launcher = *first;
        *err = (yk_error)YK_ERROR_INIT;
        s = launch_once(&launcher, place, &again, code, err);
        first->signals = launcher.signals;
    }
    yk__signals_release(&first->signals);
    return s;
}

static yk_status launch_first(yk__launcher *launcher, const struct yk__placement *place, uint32_t restarts, int *code, yk_error *err)
{
    if (!yk__restart_first(&launcher->restart, restarts, err))
        return launch_job(launcher, place, code, err);
    *code = 1;
    say_line(launcher, err->text);
    return err->status;
}

yk_status yk__launch(const struct yk__placement *place, uint32_t n, char *const *argv, uint32_t restarts, yk__launch_say say, int *code,
                     yk_error *err)
{
    yk__launcher launcher = {.n_ranks = n, .argv = argv, .say = say, .guard = {0, -1}, .signals = {.fd = -1}};
    return launch_first(&launcher, place, restarts, code, err);
}

yk_status yk__launch_node(yk__node *node, const yk__placement *place, char *const *argv, yk__launch_say say, int *code, yk_error *err)
{
    yk__launcher launcher = {.n_ranks = node->ranks, .argv = argv, .node = node, .say = say, .guard = {0, -1}, .signals = {.fd = -1}};
    yk__restart_inherit(&launcher.restart);
    return launch_job(&launcher, place, code, err);
}

yk_status yk__launch_part(const yk__launch_host *host, const struct yk__placement *place, char *const *argv, yk__launch_say say, int *code,
                          yk_error *err)
{
    yk__node node = {.single = true, .first = host->first, .size = host->size, .port = host->port, .listener = -1, .secret = -1,
                     .orders = -1, .ranks = host->ranks};
    yk__launcher launcher = {.n_ranks = host->ranks, .argv = argv, .node = &node, .say = say, .guard = {0, -1}, .signals = {.fd = -1}};
    snprintf(node.address, sizeof node.address, "%s", host->address);
    return launch_first(&launcher, place, 0, code, err);
}

yk_status yk__launch_call(const struct yk__placement *place, uint32_t n, yk__launch_function function, void *argument, uint32_t restarts,
                          yk__launch_say say, int *code, yk_error *err)
{
    yk__launcher launcher = {.n_ranks = n, .function = function, .argument = argument, .say = say, .guard = {0, -1}, .signals = {.fd = -1}};
    return launch_first(&launcher, place, restarts, code, err);
}
