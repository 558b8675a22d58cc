/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens NCCL when the host first asks a device for yk.coll.1 (cuda_coll.c), in any thread; cuda_once lets one open it. It needs no
 * toolkit. Without it a machine exchanges through the host, and a log line says so. YOKE_CUDA_NCCL names another library than
 * libnccl.so.2; 0 opens none.
 *
 * From 2.22 on NCCL connects members at an algorithm's first use, in a call that waits for all of them. It waits even for a member that
 * is far behind at this step, or dead. With NCCL_RUNTIME_CONNECT=0, which is set here, they connect when they join. A value that is set
 * already stays.
 */
#include "backends/cuda/nccl.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/cuda_host.h"
#include "backends/cuda/library.h"

static const char *const names[] = {"libnccl.so.2", NULL};
static cuda_nccl nccl;
static cuda_once once = CUDA_ONCE;
static int version; /* once it is found */

#define SYMBOL(member, name, parameters) {#name, offsetof(cuda_nccl, member)},
static const cuda_symbol symbols[] = {
    CUDA_NCCL_TABLE(SYMBOL) SYMBOL(error_text, ncclGetErrorString, ) SYMBOL(error_last, ncclGetLastError, ) {NULL, 0}};
#undef SYMBOL

static bool library_open(void)
{
    const char *path = cuda_option("NCCL"), *missing;
    if (path && !strcmp(path, "0"))
        return false;
    setenv("NCCL_RUNTIME_CONNECT", "0", 0);
    void *library = cuda_library_open("NCCL", names, symbols, &nccl, &missing);
    if (!library && !missing) {
        cuda_host->log(path ? 1 : 2, CUDA_WHO, "no NCCL (%s): ranks on cards exchange through the host", dlerror());
        return false;
    }
    const ncclResult_t rc = library ? nccl.version(&version) : (ncclResult_t)0;
    if (library && !rc && version >= (int)CUDA_NCCL_VERSION)
        return true;
    if (missing)
        cuda_host->log(1, CUDA_WHO, "NCCL is not used: it lacks %s; one of version 2.14 or later is needed", missing);
    else if (rc)
        cuda_host->log(1, CUDA_WHO, "NCCL is not used: asked for its version it says: %s", nccl.error_text(rc));
    else
        cuda_host->log(1, CUDA_WHO, "NCCL is not used: its version is %d.%d.%d; 2.14 or later is needed", version / 10000,
                       version / 100 % 100, version % 100);
    if (library)
        dlclose(library);
    return false;
}

const cuda_nccl *cuda_nccl_open(void)
{
    return cuda_once_found(&once, library_open) ? &nccl : NULL;
}

int cuda_nccl_version(void)
{
    return cuda_nccl_open() ? version : 0;
}

void cuda_nccl_forget(void)
{
    cuda_once_forget(&once);
}
