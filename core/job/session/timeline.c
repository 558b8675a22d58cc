/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A timeline of the steps between two calls of the user's program, over all ranks, in one file by rank 0.
 *
 * All ranks call yk_trace_begin and yk_trace_end, in the step thread; no command of yoke does. `yoke trace` sets YOKE_TRACE instead,
 * and yk_trace_end then writes no file.
 */
#include <string.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/io/folder.h"
#include "core/job/job.h"

void yk_trace_begin(yk_job *job)
{
    yk_error err = YK_ERROR_INIT;
    if (yk_ok(job) && yk__engine_trace_begin(job->engine, &err))
        yk__job_fail(job, &err);
}

/* Writes the ranks' events between the format's head and tail. */
static yk_status write_events(const char *file, const char *events, const size_t *size, uint32_t ranks, yk_error *err)
{
    static const char head[] = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", tail[] = "]}\n";
    size_t bytes = sizeof head + sizeof tail, at = sizeof head - 1;
    char *text;
    for (uint32_t r = 0; r < ranks; r++)
        bytes += size[r] + 1;
    text = yk__malloc(bytes);
    if (!text)
        return yk__fail_mem(err, bytes, file);
    memcpy(text, head, at);
    for (uint32_t r = 0; r < ranks; events += size[r++]) {
        if (size[r] && text[at - 1] != '[')
            text[at++] = ',';
        memcpy(text + at, events, size[r]);
        at += size[r];
    }
    memcpy(text + at, tail, sizeof tail - 1);
    yk__folder_write_file(file, text, at + sizeof tail - 1, err);
    yk__free(text);
    return err->status;
}

void yk_trace_end(yk_job *job, const char *file)
{
    yk_error err = YK_ERROR_INIT;
    const size_t *size = NULL;
    const char *all;
    char *own = NULL;
    size_t bytes = 0;
    if (yk_ok(job) && yk__engine_trace_end(job->engine, &own, &err))
        yk__job_fail(job, &err);
    all = yk_gather_object(job, own, own ? strlen(own) : 0, &size);
    for (uint32_t r = 0; all && r < job->team.world; r++)
        bytes += size[r];
    if (all && !bytes)
        yk__log(YK_LOG_INFO, "trace", "%s is not written: YOKE_TRACE traces this process", file);
    else if (all && job->team.rank == 0 && write_events(file, all, size, job->team.world, &err))
        yk__job_fail(job, &err);
    yk__free(own);
    yk_barrier(job);
}
