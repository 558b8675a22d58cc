/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client of PMIx, the library by which launchers such as Slurm and Open MPI pass small data between processes. It shares one text by put,
 * commit, fence with data and get.
 *
 * meeting.c calls yk__pmix_share in the joining thread, on all ranks. It waits at the fence for all of them. The library stays loaded.
 */
#include "config.h"

#include "core/control/start/pmix.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/process/signals.h"
#include "core/control/start/pmix_types.h"

#define KEY "yoke.meeting"

static yk_status calls_load(yk__pmix_calls *calls, yk_error *err)
{
    void *library = dlopen("libpmix.so.2", RTLD_NOW | RTLD_GLOBAL); /* global, as its components look for its symbols */
    if (!library)
        return yk__fail(err, YK_E_UNSUPPORTED, "PMIx: %s", dlerror());
    *(void **)&calls->init = dlsym(library, "PMIx_Init");
    *(void **)&calls->finalize = dlsym(library, "PMIx_Finalize");
    *(void **)&calls->put = dlsym(library, "PMIx_Put");
    *(void **)&calls->commit = dlsym(library, "PMIx_Commit");
    *(void **)&calls->fence = dlsym(library, "PMIx_Fence");
    *(void **)&calls->get = dlsym(library, "PMIx_Get");
    *(void **)&calls->text = dlsym(library, "PMIx_Error_string");
    if (!calls->init || !calls->finalize || !calls->put || !calls->commit || !calls->fence || !calls->get || !calls->text)
        return yk__fail(err, YK_E_UNSUPPORTED, "PMIx: libpmix.so.2 lacks a function");
    return YK_OK;
}

static yk_status fail_call(const yk__pmix_calls *calls, const char *call, int status, yk_error *err)
{
    return yk__fail(err, YK_E_IO, "PMIx_%s: %s", call, calls->text(status));
}

static yk_status value_put(const yk__pmix_calls *calls, char *text, yk_error *err)
{
    yk__pmix_value value = {.type = YK__PMIX_STRING, .data.string = text};
    int s = calls->put(YK__PMIX_GLOBAL, KEY, &value);
    if (s)
        return fail_call(calls, "Put", s, err);
    s = calls->commit();
    return s ? fail_call(calls, "Commit", s, err) : YK_OK;
}

static yk_status ranks_fence(const yk__pmix_calls *calls, uint32_t ms, yk_error *err)
{
    yk__pmix_info info[2] = {{.key = YK__PMIX_COLLECT_DATA, .value = {.type = YK__PMIX_BOOL, .data.flag = true}},
                             {.key = YK__PMIX_TIMEOUT, .value = {.type = YK__PMIX_INT, .data.integer = (int)(ms / 1000) + 1}}};
    const int s = calls->fence(NULL, 0, info, ms ? 2 : 1);
    return s ? fail_call(calls, "Fence", s, err) : YK_OK;
}

static yk_status value_get(const yk__pmix_calls *calls, const yk__pmix_proc *own, char *text, size_t size, yk_error *err)
{
    yk__pmix_proc first = *own;
    yk__pmix_value *value = NULL;
    first.rank = 0;
    const int s = calls->get(&first, KEY, NULL, 0, &value);
    if (s)
        return fail_call(calls, "Get", s, err);
    if (value->type != YK__PMIX_STRING || !value->data.string || strlen(value->data.string) >= size)
        yk__fail(err, YK_E_FORMAT, "PMIx: expected a text of fewer than %zu bytes from rank 0", size);
    else
        memcpy(text, value->data.string, strlen(value->data.string) + 1);
    if (value->type == YK__PMIX_STRING)
        free(value->data.string); /* allocated by the library; its macros free it so too */
    free(value);
    return err->status;
}

yk_status yk__pmix_share(uint32_t rank, uint32_t ms, char *value, size_t size, yk_error *err)
{
    yk__pmix_calls calls = {.init = NULL};
    yk__pmix_proc own = {"", 0};
    yk__signals kept;
    int s;
    yk__signals_keep(&kept);
    s = calls_load(&calls, err) ? 0 : calls.init(&own, NULL, 0);
    yk__signals_restore(&kept);
    if (err->status)
        return err->status;
    if (s)
        return fail_call(&calls, "Init", s, err);
    if (own.rank != rank)
        yk__fail(err, YK_E_FORMAT, "PMIx: this is rank %u, the launcher's variables say %u", own.rank, rank);
    else if ((rank == 0 && value_put(&calls, value, err)) || ranks_fence(&calls, ms, err) ||
             (rank && value_get(&calls, &own, value, size, err)))
        yk__fail_in(err, "rank 0's address");
    s = calls.finalize(NULL, 0);
    return !err->status && s ? fail_call(&calls, "Finalize", s, err) : err->status;
}
