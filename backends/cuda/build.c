/* SPDX-License-Identifier: Apache-2.0 */
/* Code of units, as plugins/kit/units.h asks for it: what NVRTC made is loaded as a module, and kept for other processes. */
#include "backends/cuda/internal.h"

static void *module_load(yk_device *dev, const void *image, size_t bytes)
{
    CUmodule module = NULL;
    (void)dev, (void)bytes;
    return cuda.module_load(&module, image) ? NULL : module;
}

static yk_status module_build(yk_device *dev, const char *macros, const char *const part[KIT_PARTS], void **code, kit_image *image)
{
    CUmodule module = NULL;
    char *made = NULL;
    const yk_status s = cuda_compile(part, KIT_PARTS, macros, dev->sm, &made, &image->bytes);
    if (s)
        return s;
    const CUresult rc = cuda.module_load(&module, made);
    if (rc) {
        cuda_free(made);
        return cuda_error(rc, "loading compiled kernels");
    }
    *code = module;
    image->data = made;
    return YK_OK;
}

static void module_release(void *code)
{
    cuda.module_free(code);
}

const kit_compiler cuda_units_compiler = {.load = module_load, .build = module_build, .release = module_release};
