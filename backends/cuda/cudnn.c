/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuDNN, opened when the first attention is planned. Without it the kit's kernels compute attention too, which the log says.
 * YOKE_CUDA_CUDNN names another library than those below, or is 0: none is opened.
 */
#include "backends/cuda/cudnn.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "backends/cuda/host.h"

static const char *const names[] = {"libcudnn.so.9", "libcudnn.so"};

static struct {
    pthread_mutex_t lock;
    bool asked, found;
    cuda_cudnn call;
} dnn = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The name of the first symbol that is not there, or NULL. */
static const char *symbols_find(void *library, cuda_cudnn *table)
{
    void *symbol;
#define CUDA_CUDNN_FIND(member, name, parameters)                                                                                         \
    if (!(symbol = dlsym(library, #name)))                                                                                                \
        return #name;                                                                                                                     \
    memcpy(&table->member, &symbol, sizeof symbol);
    CUDA_CUDNN_TABLE(CUDA_CUDNN_FIND)
    CUDA_CUDNN_FIND(status_text, cudnnGetErrorString, )
    CUDA_CUDNN_FIND(version, cudnnGetVersion, )
#undef CUDA_CUDNN_FIND
    return NULL;
}

/* Under the lock. */
static bool library_open(void)
{
    const char *path = cuda_option("CUDNN"), *missing;
    if (path && !strcmp(path, "0")) {
        cuda_host->log(2, CUDA_WHO, "cuDNN is not used (YOKE_CUDA_CUDNN=0): attention is computed by the plugin's own kernels");
        return false;
    }
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !path && !library; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        cuda_host->log(2, CUDA_WHO, "no cuDNN (%s): attention is computed by the plugin's own kernels, which are slower; YOKE_CUDA_CUDNN "
                       "names it, or is 0", dlerror());
        return false;
    }
    if ((missing = symbols_find(library, &dnn.call)) != NULL) {
        cuda_host->log(1, CUDA_WHO, "cuDNN is not used: it lacks %s; version 9 is needed", missing);
        dlclose(library);
        return false;
    }
    const size_t version = dnn.call.version();
    if (version < CUDA_CUDNN_VERSION) {
        cuda_host->log(1, CUDA_WHO, "cuDNN is not used: its version is %zu; %d or later is needed", version, CUDA_CUDNN_VERSION);
        dlclose(library);
        return false;
    }
    cuda_host->log(2, CUDA_WHO, "attention of 16 bits is computed by cuDNN %zu.%zu.%zu where it has no mask but the causal one",
                   version / 10000, version / 100 % 100, version % 100);
    return true; /* never closed: its threads and exit handlers do not survive that */
}

const cuda_cudnn *cuda_cudnn_open(void)
{
    pthread_mutex_lock(&dnn.lock);
    if (!dnn.asked)
        dnn.found = library_open();
    dnn.asked = true;
    const bool found = dnn.found;
    pthread_mutex_unlock(&dnn.lock);
    return found ? &dnn.call : NULL;
}

void cuda_cudnn_forget(void)
{
    pthread_mutex_lock(&dnn.lock);
    dnn.asked = dnn.found = false;
    pthread_mutex_unlock(&dnn.lock);
}
