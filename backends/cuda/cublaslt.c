/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens cuBLASLt, once for all devices. product.c opens it for a device's first matrix product. cudnn.c may open it earlier,
 * because cuDNN itself needs cuBLASLt. Any thread may ask first; cuda_once lets one open it, and the other threads wait for that.
 *
 * Without cuBLASLt the plugin's own kernels (plugins/kit) compute products, and a log line says so. YOKE_CUDA_CUBLASLT names another
 * library than the names below; 0 opens none. Log levels: 1 is a warning, 2 information.
 */
#include "backends/cuda/cublaslt.h"

#include <dlfcn.h>
#include <string.h>

#include "backends/cuda/cuda_host.h"
#include "backends/cuda/driver.h"
#include "backends/cuda/library.h"

/* Newest first. A driver older than CUDA 13 cannot run the first, so CUDA_NAMES_BEFORE_13 skips it. */
static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so", NULL};
static cuda_cublaslt blas; /* library_open fills it, again only after cuda_cublaslt_forget */
static cuda_once once = CUDA_ONCE;

/* The last two functions are not in the header's table, as they return no cublasStatus_t. */
#define SYMBOL(member, name, parameters) {#name, offsetof(cuda_cublaslt, member)},
static const cuda_symbol symbols[] = {
    CUDA_CUBLASLT_TABLE(SYMBOL) SYMBOL(status_text, cublasLtGetStatusString, ) SYMBOL(version, cublasLtGetVersion, ) {NULL, 0}};
#undef SYMBOL

static bool library_open(void)
{
    const char *path = cuda_option("CUBLASLT"), *missing;
    if (path && !strcmp(path, "0")) {
        cuda_host->log(2, CUDA_WHO, "cuBLASLt is not used (YOKE_CUDA_CUBLASLT=0): products are computed by the plugin's own kernels");
        return false;
    }
    if (!cuda_library_open("CUBLASLT", names + CUDA_NAMES_BEFORE_13, symbols, &blas, &missing) && !missing) {
        cuda_host->log(1, CUDA_WHO, "no cuBLASLt (%s): products are computed by the plugin's own kernels, which are slower; "
                       "set YOKE_CUDA_CUBLASLT to its file, or to 0 to use none", dlerror());
        return false;
    }
    if (missing) {
        cuda_host->log(1, CUDA_WHO, "cuBLASLt is not used: it lacks %s; that of CUDA 12 or later is needed", missing);
        return false;
    }
    const size_t version = blas.version();
    cuda_host->log(2, CUDA_WHO, "products are computed by cuBLASLt %zu.%zu.%zu", version / 10000, version / 100 % 100, version % 100);
    return true;
}

const cuda_cublaslt *cuda_cublaslt_open(void)
{
    return cuda_once_found(&once, library_open) ? &blas : NULL;
}

/* plugin_fini calls it, once all devices are closed. The next cuda_cublaslt_open reads the option anew; the library stays loaded
 * (library.h). */
void cuda_cublaslt_forget(void)
{
    cuda_once_forget(&once);
}
