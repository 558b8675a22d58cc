/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuDNN, opened when the first attention or convolution is planned. Without it the kit's kernels compute them too, which the log says.
 * YOKE_CUDA_CUDNN names another library than those below, or is 0: none is opened.
 */
#include "backends/cuda/cudnn.h"

#include <dlfcn.h>
#include <string.h>

#include "backends/cuda/host.h"
#include "backends/cuda/library.h"

static const char *const names[] = {"libcudnn.so.9", "libcudnn.so", NULL};
static cuda_cudnn dnn;
static cuda_once once = CUDA_ONCE;

#define SYMBOL(member, name, parameters) {#name, offsetof(cuda_cudnn, member)},
static const cuda_symbol symbols[] = {
    CUDA_CUDNN_TABLE(SYMBOL) SYMBOL(status_text, cudnnGetErrorString, ) SYMBOL(version, cudnnGetVersion, ) {NULL, 0}};
#undef SYMBOL

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
    const size_t version = dnn.version();
    if (version < CUDA_CUDNN_VERSION) {
        cuda_host->log(1, CUDA_WHO, "cuDNN is not used: its version is %zu; %d or later is needed", version, CUDA_CUDNN_VERSION);
        dlclose(library);
        return false;
    }
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
