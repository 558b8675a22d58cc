/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens cuDNN when the first attention or convolution is planned. Without it the kit's kernels compute both, and a log line says so.
 * YOKE_CUDA_CUDNN names another library than the ones below; 0 opens none. dnn.c calls it, in any thread.
 *
 * cuDNN looks for the cuBLASLt of its own CUDA when the first plan is made, and ends the process if it finds none. So the plugin opens that
 * one before (cublaslt.c).
 */
#define _GNU_SOURCE
#include "backends/cuda/cudnn.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "backends/cuda/cublaslt.h"
#include "backends/cuda/cuda_host.h"
#include "backends/cuda/library.h"

static const char *const names[] = {"libcudnn.so.9", "libcudnn.so", NULL};
static cuda_cudnn dnn;
static cuda_once once = CUDA_ONCE;

#define SYMBOL(member, name, parameters) {#name, offsetof(cuda_cudnn, member)},
static const cuda_symbol symbols[] = {
    CUDA_CUDNN_TABLE(SYMBOL) SYMBOL(status_text, cudnnGetErrorString, ) SYMBOL(version, cudnnGetVersion, )
        SYMBOL(cuda_version, cudnnGetCudartVersion, ) {NULL, 0}};
#undef SYMBOL

/* True if cuDNN finds a cuBLASLt of that name: one that is open, among the system's libraries, beside cuDNN, or in a package of
 * Python. It stays open. */
static bool cublaslt_found(const char *name, size_t major)
{
    char file[4200], of_cuda[40];
    const char *const places[] = {"", "../../cublas/lib/", of_cuda};
    Dl_info cudnn;
    cuda_cublaslt_open(); /* YOKE_CUDA_CUBLASLT may name one that is found nowhere */
    if (dlopen(name, RTLD_NOW | RTLD_LOCAL))
        return true;
    snprintf(of_cuda, sizeof of_cuda, "../../cu%zu/lib/", major);
    const char *slash = dladdr((const void *)(uintptr_t)dnn.create, &cudnn) ? strrchr(cudnn.dli_fname, '/') : NULL;
    for (size_t i = 0; slash && i < sizeof places / sizeof *places; i++) {
        snprintf(file, sizeof file, "%.*s%s%s", (int)(slash + 1 - cudnn.dli_fname), cudnn.dli_fname, places[i], name);
        if (dlopen(file, RTLD_NOW | RTLD_LOCAL))
            return true;
    }
    return false;
}

/* Libraries that cuDNN needs; the log names a missing one. */
static bool library_serves(void)
{
    const size_t version = dnn.version(), major = dnn.cuda_version() / 1000;
    char name[40];
    if (version < CUDA_CUDNN_VERSION) {
        cuda_host->log(1, CUDA_WHO, "cuDNN is not used: its version is %zu; %d or later is needed", version, CUDA_CUDNN_VERSION);
        return false;
    }
    snprintf(name, sizeof name, "libcublasLt.so.%zu", major);
    if (!major || cublaslt_found(name, major)) /* 0: of no CUDA */
        return true;
    cuda_host->log(1, CUDA_WHO, "cuDNN is not used: it was made with CUDA %zu and needs %s, which is not found: attention and "
                   "convolutions are computed by the plugin's own kernels; install cuBLAS of CUDA %zu, or name the file by "
                   "YOKE_CUDA_CUBLASLT", major, name, major);
    return false;
}

static bool library_open(void)
{
    const char *path = cuda_option("CUDNN"), *missing;
    if (path && !strcmp(path, "0")) {
        cuda_host->log(2, CUDA_WHO, "cuDNN is not used (YOKE_CUDA_CUDNN=0): attention and convolutions are computed by the plugin's own "
                       "kernels");
        return false;
    }
    void *library = cuda_library_open("CUDNN", names, symbols, &dnn, &missing);
    if (!library && !missing) {
        cuda_host->log(path ? 1 : 2, CUDA_WHO, "no cuDNN (%s): attention and convolutions are computed by the plugin's own kernels, "
                       "which are slower; YOKE_CUDA_CUDNN names it, or is 0", dlerror());
        return false;
    }
    if (missing) {
        cuda_host->log(1, CUDA_WHO, "cuDNN is not used: it lacks %s; version 9 is needed", missing);
        return false;
    }
    if (!library_serves()) {
        dlclose(library);
        return false;
    }
    const size_t version = dnn.version();
    cuda_host->log(2, CUDA_WHO, "large convolutions, and attention of 16 bits without a mask but the causal one, are computed by cuDNN "
                   "%zu.%zu.%zu", version / 10000, version / 100 % 100, version % 100);
    return true;
}

const cuda_cudnn *cuda_cudnn_open(void)
{
    return cuda_once_found(&once, library_open) ? &dnn : NULL;
}

void cuda_cudnn_forget(void)
{
    cuda_once_forget(&once);
}
