/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives the kit the compiled code of a unit, a set of kernels that are compiled together (plugins/kit/units.h). The kit looks in its table
 * and its cache folder (units.c), and gives a cached image to module_load. If both lack the unit, or module_load refuses the image,
 * module_build takes the image that was compiled with the plugin (fatbin.h). If the plugin has no such image or the driver refuses it,
 * NVRTC compiles the unit, and the kit keeps NVRTC's image for other processes.
 *
 * kit_units_get (plugins/kit/units.c) calls module_load and module_build under its lock, while cuda_program.c makes a program. That is in
 * any thread, before the program's first run; other programs may run meanwhile. kit_units_release calls module_release when the device
 * closes, without the lock. The device's context is current.
 *
 * A unit's text is `part`, KIT_PARTS pieces of source in order, of which some are empty; `macros` are the compiler's options that define
 * its macros.
 */
#include "backends/cuda/cuda_internal.h"
#include "backends/cuda/fatbin.h"

#include <stdio.h>

/* Loads an image from the kit's cache folder. If the driver refuses it, module_load returns NULL, and the kit deletes the file. */
static void *module_load(yk_device *dev, const void *image, size_t bytes)
{
    CUmodule module = NULL;
    (void)dev, (void)bytes;
    return cuda.module_load(&module, image) ? NULL : module;
}

/* NULL if the plugin has no image of this unit, or if the driver refuses the image. */
static CUmodule module_built_in(const char *macros, const char *const part[KIT_PARTS])
{
    const uint64_t key = cuda_fatbin_key(macros, part);
    const void *fatbin = cuda_fatbin_find(key);
    CUmodule module = NULL;
    const CUresult rc = fatbin ? cuda.module_load(&module, fatbin) : CUDA_SUCCESS;
    if (rc)
        cuda_host->log(3, CUDA_WHO, "unit %016llx was compiled with the plugin, and the driver does not take it (%d)",
                       (unsigned long long)key, (int)rc);
    else
        cuda_host->log(3, CUDA_WHO, "unit %016llx (%s) is %s", (unsigned long long)key, macros, fatbin ? "built in" : "compiled by NVRTC");
    return rc ? NULL : module;
}

/* image_refused makes the error for a driver that refuses NVRTC's image, and names NVRTC's version and the driver's. */
static yk_status image_refused(CUresult rc)
{
    const int driver = cuda_driver_version();
    int version[2] = {0, 0};
    char what[160];
    cuda_compiler_version(version);
    snprintf(what, sizeof what, "loading compiled kernels (NVRTC %d.%d, driver %d.%d%s)", version[0], version[1], driver / 1000,
             driver % 1000 / 10, version[0] > driver / 1000 ? ": set YOKE_CUDA_NVRTC to an NVRTC of the driver's major version" : "");
    return cuda_error(rc, what);
}

/* *code: the module, which the kit owns. image: NVRTC's image in memory that the kit frees. It stays empty for a built-in unit, as no
 * other process needs a file of it. Under YOKE_CUDA_FATBINS=0 NVRTC compiles built-in units, unless the cache folder has them. */
static yk_status module_build(yk_device *dev, const char *macros, const char *const part[KIT_PARTS], void **code, kit_image *image)
{
    CUmodule module = cuda_option("FATBINS") && !strcmp(cuda_option("FATBINS"), "0") ? NULL : module_built_in(macros, part);
    char *made = NULL;
    if ((*code = module) != NULL)
        return YK_OK;
    const yk_status s = cuda_compile(part, KIT_PARTS, macros, dev->sm, &made, &image->bytes);
    if (s)
        return s;
    const CUresult rc = cuda.module_load(&module, made);
    if (rc) {
        cuda_free(made);
        return image_refused(rc);
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
