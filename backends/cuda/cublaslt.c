/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuBLASLt, opened when the first product is planned. Without it the kit's kernels compute products too, which the log says.
 * YOKE_CUDA_CUBLASLT names another library than those below, or is 0: none is opened.
 */
#include "backends/cuda/cublaslt.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "backends/cuda/host.h"

static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"};

static struct {
    pthread_mutex_t lock;
    bool asked, found;
    cuda_cublaslt call;
} blas = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The name of the first symbol that is not there, or NULL. */
static const char *symbols_find(void *library, cuda_cublaslt *table)
{
    void *symbol;
#define CUDA_CUBLASLT_FIND(member, name, parameters)                                                                                      \
    if (!(symbol = dlsym(library, #name)))                                                                                                \
        return #name;                                                                                                                     \
    memcpy(&table->member, &symbol, sizeof symbol);
    CUDA_CUBLASLT_TABLE(CUDA_CUBLASLT_FIND)
    CUDA_CUBLASLT_FIND(status_text, cublasLtGetStatusString, )
    CUDA_CUBLASLT_FIND(version, cublasLtGetVersion, )
#undef CUDA_CUBLASLT_FIND
    return NULL;
}

/* Under the lock. */
static bool library_open(void)
{
    const char *path = cuda_option("CUBLASLT"), *missing;
    if (path && !strcmp(path, "0")) {
        cuda_host->log(2, CUDA_WHO, "cuBLASLt is not used (YOKE_CUDA_CUBLASLT=0): products are computed by the plugin's own kernels");
        return false;
    }
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !path && !library; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        cuda_host->log(1, CUDA_WHO, "no cuBLASLt (%s): products are computed by the plugin's own kernels, which are slower; "
                       "YOKE_CUDA_CUBLASLT names it, or is 0", dlerror());
        return false;
    }
    if ((missing = symbols_find(library, &blas.call)) != NULL) {
        cuda_host->log(1, CUDA_WHO, "cuBLASLt is not used: it lacks %s; that of CUDA 12 or later is needed", missing);
        dlclose(library);
        return false;
    }
    const size_t version = blas.call.version();
    cuda_host->log(2, CUDA_WHO, "products are computed by cuBLASLt %zu.%zu.%zu", version / 10000, version / 100 % 100, version % 100);
    return true; /* never closed: its threads and exit handlers do not survive that */
}

const cuda_cublaslt *cuda_cublaslt_open(void)
{
    pthread_mutex_lock(&blas.lock);
    if (!blas.asked)
        blas.found = library_open();
    blas.asked = true;
    const bool found = blas.found;
    pthread_mutex_unlock(&blas.lock);
    return found ? &blas.call : NULL;
}

void cuda_cublaslt_forget(void)
{
    pthread_mutex_lock(&blas.lock);
    blas.asked = blas.found = false;
    pthread_mutex_unlock(&blas.lock);
}
