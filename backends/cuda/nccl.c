/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL, opened when devices are first asked whether they can be joined. It needs no toolkit, and a machine without it exchanges through
 * the host, which the log says. YOKE_CUDA_NCCL names another library than libnccl.so.2, or is 0: none is opened.
 */
#include "backends/cuda/nccl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "backends/cuda/host.h"

static struct {
    pthread_mutex_t lock;
    bool asked, found;
    int version;
    cuda_nccl call;
} nccl = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The name of the first symbol that is not there, or NULL. */
static const char *symbols_find(void *library, cuda_nccl *table)
{
    void *symbol;
#define CUDA_NCCL_FIND(member, name, parameters)                                                                                          \
    if (!(symbol = dlsym(library, #name)))                                                                                                \
        return #name;                                                                                                                     \
    memcpy(&table->member, &symbol, sizeof symbol);
    CUDA_NCCL_TABLE(CUDA_NCCL_FIND)
    CUDA_NCCL_FIND(error_text, ncclGetErrorString, )
    CUDA_NCCL_FIND(error_last, ncclGetLastError, )
#undef CUDA_NCCL_FIND
    return NULL;
}

/* Under the lock. */
static bool library_open(void)
{
    const char *path = cuda_option("NCCL"), *missing;
    if (path && !strcmp(path, "0"))
        return false;
    void *library = dlopen(path ? path : "libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        cuda_host->log(path ? 1 : 2, CUDA_WHO, "no NCCL (%s): ranks on cards exchange through the host", dlerror());
        return false;
    }
    missing = symbols_find(library, &nccl.call);
    if (!missing && !nccl.call.version(&nccl.version) && nccl.version >= (int)CUDA_NCCL_VERSION)
        return true; /* never closed: its threads do not survive that */
    cuda_host->log(1, CUDA_WHO, "NCCL is not used: it %s%s; one of version 2.14 or later is needed", missing ? "lacks " : "is too old",
                   missing ? missing : "");
    dlclose(library);
    return false;
}

const cuda_nccl *cuda_nccl_open(void)
{
    pthread_mutex_lock(&nccl.lock);
    if (!nccl.asked)
        nccl.found = library_open();
    nccl.asked = true;
    const bool found = nccl.found;
    pthread_mutex_unlock(&nccl.lock);
    return found ? &nccl.call : NULL;
}

int cuda_nccl_version(void)
{
    pthread_mutex_lock(&nccl.lock);
    const int version = nccl.found ? nccl.version : 0;
    pthread_mutex_unlock(&nccl.lock);
    return version;
}

void cuda_nccl_forget(void)
{
    pthread_mutex_lock(&nccl.lock);
    nccl.asked = nccl.found = false;
    pthread_mutex_unlock(&nccl.lock);
}
