/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SIGTERM and SIGUSR1 ask a training to leave: it saves a checkpoint at a step's end, and ends with YK_EXIT_AGAIN. A second signal ends the
 * process at once.
 *
 * cmd_train.c (tools/cmd) takes the signals in the main thread, and the handler may run on any thread. loop.c asks leave_asked after each
 * step, on all ranks: they agree by a collective, so all leave at one step.
 */
#include "tools/train/leave.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "core/control/start/origin.h"
#include "core/group/group.h"
#include "tools/cli.h"
#include "tools/train/train.h"

#define ASK_SECONDS 0.5
#define ASK_STEPS 16
/* Two signals within this time are one: timeout(1) sends its signal to the process and to the process's group, and a cluster sends one to a
 * rank of several and to its launcher, which passes it on. A signal that Yoke's own launcher passes on is never a second one, as the
 * launcher kills for that. */
#define TWICE_SECONDS 0.05
#define TWICE_PASSED_ON_SECONDS 0.5

static const int signals[] = {SIGTERM, SIGUSR1};
static struct sigaction replaced[sizeof signals / sizeof *signals]; /* the actions before leave_listen */
static volatile sig_atomic_t saving;  /* a signal waits for the end of the step */
static volatile sig_atomic_t asked;   /* the first signal; 0 before it */
static volatile sig_atomic_t several; /* ranks, which a launcher may have started */
static volatile pid_t launcher;       /* Yoke's own; 0 if another started this process */
static _Atomic double asked_at;       /* seconds */

/* Async-signal-safe. */
static bool is_same_signal(const siginfo_t *info)
{
    const double twice = several ? TWICE_PASSED_ON_SECONDS : TWICE_SECONDS;
    const bool passed = info->si_code == SI_QUEUE && info->si_pid == getppid(); /* by yoke trace */
    return asked && (passed || (launcher && info->si_pid == launcher) || train_seconds() - atomic_load(&asked_at) < twice);
}

/* Async-signal-safe. After its save the process also survives further signals, as other ranks wait until it leaves the group. */
static void signal_take(int sig, siginfo_t *info, void *context)
{
    const int kept = errno;
    (void)context;
    if (!asked && saving) {
        atomic_store(&asked_at, train_seconds());
        asked = sig;
    } else if (!is_same_signal(info)) {
        if (!saving)
            _exit(YK_EXIT_AGAIN);
        if (getpid() == 1) /* to which the default action does nothing */
            _exit(128 + sig);
        signal(sig, SIG_DFL);
        raise(sig); /* delivered when this handler returns */
    }
    errno = kept;
}

static void take_signals(bool first)
{
    const struct sigaction take = {.sa_sigaction = signal_take, .sa_flags = SA_RESTART | SA_SIGINFO};
    struct sigaction now;
    sigset_t taken;
    sigemptyset(&taken);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (!sigaction(signals[i], NULL, &now) && now.sa_handler != SIG_IGN) {
            sigaction(signals[i], &take, NULL);
            if (first)
                replaced[i] = now;
            sigaddset(&taken, signals[i]);
        }
    pthread_sigmask(SIG_UNBLOCK, &taken, NULL); /* the parent may block them: its mask is inherited */
}

void leave_listen(void)
{
    take_signals(true);
}

void leave_ignore(void)
{
    struct sigaction now;
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (!sigaction(signals[i], NULL, &now) && (now.sa_flags & SA_SIGINFO) && now.sa_sigaction == signal_take)
            sigaction(signals[i], &replaced[i], NULL);
}

void leave_begin(const yk_job *job)
{
    several = yk_world_size(job) > 1;
    launcher = yk__launch_fd() >= 0 ? getppid() : 0;
    saving = true;
    take_signals(false);
    yk__group_heeds_signal();
}

bool leave_asked(leave *state, yk_job *job, uint64_t step, bool last)
{
    const double now = train_seconds();
    double sum[] = {asked != 0, now - state->at};
    if (!yk_ok(job) || yk_world_size(job) == 1)
        return yk_ok(job) && asked;
    if (step < state->next && !last)
        return false;
    yk_all_reduce_sum(job, sum, 2);
    const double each = sum[1] / yk_world_size(job) / (double)(step > state->step ? step - state->step : 1);
    const double most = fmin(ASK_STEPS, 2.0 * (double)state->every); /* steps may get slower */
    state->every = (uint64_t)fmax(1, fmin(most, floor(ASK_SECONDS / each)));
    state->step = step;
    state->next = step + state->every;
    state->at = now;
    return yk_ok(job) && sum[0] > 0;
}

int leave_signal(void)
{
    return asked;
}

void leave_end(void)
{
    saving = false;
}
