/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Beats to the hosts of a job, from a process of its own. A stopped launcher (Ctrl-Z, SIGSTOP) sends none, and its hosts must not take that
 * for its end. remote.c starts and stops it.
 *
 * The process ends with the launcher and with the launcher's host; then the hosts end their ranks.
 */
#include "config.h"

#include "core/launch/beat.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/limit.h"
#include "core/launch/node_io.h"

/* After the fork: only async-signal-safe calls. */
static _Noreturn void beat_main(const yk__peer *peer, uint32_t n, pid_t launcher)
{
    const struct timespec pause = {0, YK__NODE_BEAT_MS * 1000000L};
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    const uint8_t beat = 0;
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    setsid(); /* stop and end signals of the terminal's group must not reach it */
    prctl(PR_SET_NAME, "yoke-beat");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != launcher)
        _exit(1); /* child: the launcher died before the prctl */
    for (int i = 0; null >= 0 && i <= 2; i++)
        dup2(null, i); /* the launcher's readers see the end of output without waiting for this process */
    for (;;) {
        for (uint32_t i = 0; i < n; i++)
            if (peer[i].in >= 0)
                send(peer[i].in, &beat, 1, MSG_NOSIGNAL | MSG_DONTWAIT); /* a full socket needs no beat */
        nanosleep(&pause, NULL);
    }
}

yk_status yk__beat_start(const yk__peer *peer, uint32_t n, pid_t *beater, yk_error *err)
{
    const pid_t launcher = getpid();
    *beater = fork();
    if (*beater == 0)
        beat_main(peer, n, launcher);
    if (*beater > 0)
        return YK_OK;
    *beater = 0;
    return yk__fail(err, YK_E_IO, "a process that tells the hosts that the launcher is there: fork: %s",
                    yk__limit_thread_reason(errno).text);
}

void yk__beat_stop(pid_t *beater)
{
    if (!*beater)
        return;
    kill(*beater, SIGKILL);
    while (waitpid(*beater, NULL, 0) < 0 && errno == EINTR)
        ;
    *beater = 0;
}
