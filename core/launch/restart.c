/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Restarts of a job after a rank died or failed (--max-restarts). It counts them, says if one is due, and makes the message for users and
 * the variables for ranks. yk__restart_inherit reads the variables of the launcher of several hosts in a node (YOKE_RESTART_COUNT,
 * YOKE_RUN_ID).
 *
 * launch.c and remote.c ask it when a job has ended. It starts nothing itself. No state but the struct; any thread.
 */
#include "config.h"

#include "core/launch/restart.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "core/base/mem.h"
#include "core/base/option.h"

yk_status yk__restart_first(yk__restart *restart, uint32_t most, yk_error *err)
{
    uint8_t number[(sizeof restart->run - 1) / 2];
    *restart = (yk__restart){.most = most};
    if (!most)
        return YK_OK;
    if (getrandom(number, sizeof number, 0) != (ssize_t)sizeof number)
        return yk__fail(err, YK_E_IO, "a number for this launch: getrandom: %s", strerror(errno));
    for (size_t i = 0; i < sizeof number; i++)
        snprintf(restart->run + 2 * i, 3, "%02x", number[i]);
    return YK_OK;
}

void yk__restart_inherit(yk__restart *restart)
{
    const char *run = yk__option_text(YK__OPTION_RUN_ID);
    *restart = (yk__restart){.count = (uint32_t)yk__option_number(YK__OPTION_RESTART_COUNT)};
    snprintf(restart->run, sizeof restart->run, "%s", run ? run : "");
}

bool yk__restart_left(const yk__restart *restart)
{
    return restart->count < restart->most;
}

bool yk__restart_due(const yk__restart *restart, int code)
{
    return (code == 1 || code == YK__LAUNCH_AGAIN) && yk__restart_left(restart);
}

yk_status yk__restart_again(int sig, yk_error *err)
{
    return sig ? yk__fail(err, YK_E_CANCELLED, "interrupted by signal %d (%s): the ranks have left with exit code %d, to be started again",
                          sig, strsignal(sig), YK__LAUNCH_AGAIN)
               : yk__fail(err, YK_E_CANCELLED, "the ranks have left with exit code %d, to be started again", YK__LAUNCH_AGAIN);
}

void yk__restart_describe(const yk__restart *restart, bool due, const char *why, char *text, size_t size)
{
    if (due)
        snprintf(text, size, "%s: restart %u of %u", why, restart->count + 1, restart->most);
    else if (restart->most && restart->count)
        snprintf(text, size, "%s, after %u restart%s", why, restart->count, restart->count > 1 ? "s" : "");
    else
        snprintf(text, size, "%s", why);
}

void yk__restart_variables(const yk__restart *restart, char *variable[YK__RESTART_VARIABLES])
{
    variable[0] = yk__format("YOKE_RESTART_COUNT=%u", restart->count);
    variable[1] = restart->run[0] ? yk__format("YOKE_RUN_ID=%s", restart->run) : NULL;
}
