/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The user's view of the ranks: starting them (yk_launch), this rank's number (yk_rank), and calls that all ranks make outside of steps
 * (yk_barrier, yk_print, yk_make_dir).
 *
 * The user's program and the tools call it in the step thread; yk_launch comes before any job, while the program has one thread. It starts
 * the ranks' processes through core/launch. Devices that the program leaves open come from YOKE_DEVICES, restarts from YOKE_MAX_RESTARTS.
 * yk_restart_count reads YOKE_RESTART_COUNT, else torchrun's variable.
 */
#include <stdarg.h>
#include <stdio.h>

#include "core/base/log.h"
#include "core/base/option.h"
#include "core/control/start/origin.h"
#include "core/control/start/variables.h"
#include "core/io/folder.h"
#include "core/job/job.h"
#include "core/job/team/coll_use.h"
#include "core/job/team/job_join.h"
#include "core/job/team/rank_device.h"
#include "core/launch/device_choice.h"
#include "core/launch/launch.h"
#include "core/launch/pipe_lines.h"

static void say_launch(const char *text)
{
    if (yk__log_level() >= YK_LOG_ERROR)
        yk__launch_tell("yoke launch", text);
}

static uint32_t restarts_allowed(void)
{
    return (uint32_t)yk__option_number(YK__OPTION_MAX_RESTARTS);
}

static int run_ranks(yk__placement *place, uint32_t n, char *const *argv)
{
    yk_error err = YK_ERROR_INIT;
    int code = -1;
    if (n > 1 || restarts_allowed()) /* a job of one rank needs a launcher that starts it anew */
        yk__launch(place, n, argv, restarts_allowed(), say_launch, &code, &err);
    yk__free(place);
    return code;
}

int yk_launch(const char *devices, char *const *argv)
{
    yk_error err = YK_ERROR_INIT;
    yk__placement *place = NULL;
    uint32_t n = 0;
    yk__place_ask(devices);
    if (yk__launched())
        return -1;
    yk__launch_keep_standard();
    /* selects in a child process, as a driver must not run here before the ranks are forked */
    const char *spec = devices ? devices : yk__option_devices();
    if (!yk__launch_check(&err) && !yk__options_check(&err) && !yk__launch_select(spec, &place, &n, &err))
        return run_ranks(place, n, argv);
    yk__launch_await_turn();
    say_launch(err.text);
    return err.status == YK_E_ARG || err.status == YK_E_FORMAT ? 2 : 1;
}

typedef struct user_call {
    int (*function)(void *argument);
    void *argument;
} user_call;

/* The body of a started rank. */
static int call_user(void *argument)
{
    const user_call *call = argument;
    const int code = call->function(call->argument);
    yk__join_leave(code);
    return code;
}

static int call_ranks(uint32_t ranks, const char *devices, user_call *call)
{
    yk_error err = YK_ERROR_INIT;
    yk__placement *place = NULL;
    const char *spec = devices ? devices : yk__option_devices();
    uint32_t n = 0;
    int code = 0;
    yk__launch_keep_standard();
    if (yk__join_had_job())
        yk__fail(&err, YK_E_ARG, "yk_launch_ranks after yk_open: the drivers that this process has loaded do not work in its forks. Open "
                 "jobs in the function alone");
    else if (!yk__launch_check(&err) && !yk__options_check(&err) && !yk__launch_select_ranks(spec, ranks, &place, &n, &err)) {
        yk__launch_call(place, n, call_user, call, restarts_allowed(), say_launch, &code, &err);
        yk__free(place);
        return code;
    }
    yk__launch_await_turn();
    say_launch(err.text);
    return err.status == YK_E_ARG || err.status == YK_E_FORMAT ? 2 : 1;
}

static uint32_t ranks_started(const yk__origin *origin)
{
    unsigned long long size = 0;
    if (origin->kind != YK__ORIGIN_LAUNCH)
        return origin->size;
    return yk__variable_number("YOKE_WORLD_SIZE", &size) && size <= YK__RANKS ? (uint32_t)size : 0;
}

/* Runs in a rank that a launcher started: the launcher decided the number of ranks. */
static int call_in_rank(uint32_t ranks, const char *devices, user_call *call)
{
    yk_error err = YK_ERROR_INIT;
    yk__origin origin;
    yk__origin_find(&origin, &err);
    const uint32_t started = ranks_started(&origin);
    yk__place_ask(devices);
    if (!ranks || ranks == started)
        return call->function(call->argument);
    yk__fail(&err, YK_E_ARG, "yk_launch_ranks asks for %u ranks, but this process is one of %u of %s: start it by itself, or ask for as "
             "many", ranks, started, origin.launcher);
    say_launch(err.text);
    return 2;
}

int yk_launch_ranks(uint32_t ranks, const char *devices, int (*function)(void *argument), void *argument)
{
    user_call call = {function, argument};
    return yk__launched() ? call_in_rank(ranks, devices, &call) : call_ranks(ranks, devices, &call);
}

uint32_t yk_restart_count(void)
{
    unsigned long long count = 0;
    if (!yk__option_text(YK__OPTION_RESTART_COUNT) && yk__variable_number("TORCHELASTIC_RESTART_COUNT", &count))
        return count < UINT32_MAX ? (uint32_t)count : UINT32_MAX;
    return (uint32_t)yk__option_number(YK__OPTION_RESTART_COUNT);
}

uint32_t yk_rank(const yk_job *job)
{
    return job ? job->team.rank : 0;
}

uint32_t yk_world_size(const yk_job *job)
{
    return job ? job->team.world : 1;
}

bool yk_is_main(const yk_job *job)
{
    return yk_rank(job) == 0;
}

const char *yk_device_name(const yk_job *job, uint32_t rank)
{
    return job && job->team.name && rank < job->team.world ? job->team.name[rank] : "";
}

void yk_barrier(yk_job *job)
{
    YK__USE_HERE(job, YK__USE_BARRIER);
    yk_error err = YK_ERROR_INIT;
    if (yk_ok(job) && job->team.world > 1 && yk__group_barrier(job->team.group, &err))
        yk__job_fail(job, &err);
}

void yk_print(yk_job *job, const char *fmt, ...)
{
    va_list ap;
    if (!yk_is_main(job) || (job && !yk_ok(job))) /* whose values are NaN: "loss nan" would precede the cause */
        return;
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    fflush(stdout);
}

void yk_make_dir(yk_job *job, const char *dir)
{
    YK__USE_HERE(job, YK__USE_MAKE_DIR);
    yk_error err = YK_ERROR_INIT;
    if (!yk_ok(job) || !yk__job_given(job, "yk_make_dir", "dir", dir))
        return;
    if (job->team.rank == 0 && yk__folder_make(dir, &err)) {
        yk__job_fail(job, &err);
        return;
    }
    yk_barrier(job);
}
