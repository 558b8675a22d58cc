/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code of units. It is named by the hash of its text, macros, chip, driver and compiler, and looked for in the device's table, then in
 * the cache folder, then compiled; code that the driver does not take is thrown away and compiled anew.
 */
#include "backends/cuda/internal.h"
#include "plugins/kit/cache.h"

/* ---- Table of the device (under its lock) ---- */

static CUmodule unit_find(const yk_device *dev, uint64_t key)
{
    for (size_t i = 0; i < dev->n_unit; i++)
        if (dev->unit[i].key == key)
            return dev->unit[i].module;
    return NULL;
}

static bool units_reserve(yk_device *dev, size_t more)
{
    if (dev->n_unit + more <= dev->cap_unit)
        return true;
    const size_t cap = 2 * dev->cap_unit + more + 32;
    cuda_unit *unit = cuda_alloc(cap * sizeof *unit);
    if (!unit)
        return false;
    if (dev->unit)
        memcpy(unit, dev->unit, dev->n_unit * sizeof *unit);
    cuda_free(dev->unit);
    dev->unit = unit;
    dev->cap_unit = cap;
    return true;
}

static void unit_keep(yk_device *dev, uint64_t key, CUmodule module, bool owner)
{
    dev->unit[dev->n_unit++] = (cuda_unit){key, module, owner};
}

void cuda_units_free(yk_device *dev)
{
    for (size_t i = 0; i < dev->n_unit; i++)
        if (dev->unit[i].owner)
            cuda.module_free(dev->unit[i].module);
    cuda_free(dev->unit);
    dev->unit = NULL;
    dev->n_unit = dev->cap_unit = 0;
}

/* ---- Making code ---- */

static kit_cache cache_own(void)
{
    return (kit_cache){.host = cuda_host, .plugin = CUDA_WHO, .prefix = CUDA_WHO};
}

/* A module of code that was kept, or NULL. */
static CUmodule cache_load(uint64_t key)
{
    const kit_cache cache = cache_own();
    size_t bytes = 0;
    CUmodule module = NULL;
    void *image = kit_cache_read(&cache, key, &bytes);
    if (image && cuda.module_load(&module, image)) {
        kit_cache_drop(&cache, key);
        module = NULL;
    }
    cuda_free(image);
    return module;
}

static yk_status source_build(yk_device *dev, uint64_t key, const char *macros, const char *const part[KIT_PARTS], CUmodule *module)
{
    const kit_cache cache = cache_own();
    char *image = NULL;
    size_t bytes = 0;
    yk_status s = cuda_compile(part, KIT_PARTS, macros, dev->sm, &image, &bytes);
    if (s)
        return s;
    const CUresult rc = cuda.module_load(module, image);
    if (rc)
        s = cuda_error(rc, "loading compiled kernels");
    else
        kit_cache_write(&cache, key, image, bytes);
    cuda_free(image);
    return s;
}

static uint64_t source_key(const yk_device *dev, const char *macros, const char *const part[KIT_PARTS])
{
    uint64_t key = kit_hash(dev->identity, macros, strlen(macros) + 1);
    for (int i = 0; i < KIT_PARTS; i++)
        key = kit_hash(key, part[i], strlen(part[i]));
    return key;
}

/* file: of the kit, or NULL: the text of generated kernels. */
static yk_status unit_build(yk_device *dev, const char *file, const char *macros, const char *text, CUmodule *module)
{
    char options[2 * KIT_MACROS];
    const char *part[KIT_PARTS];
    if (!kit_unit_parts(&dev->target, file, text, part) || !kit_unit_macros(&dev->target, macros, options, sizeof options))
        return YK_E_INTERNAL;
    const uint64_t key = source_key(dev, options, part);
    if ((*module = unit_find(dev, key)) != NULL)
        return YK_OK;
    if (!units_reserve(dev, 1))
        return YK_E_MEM;
    *module = cache_load(key);
    const yk_status s = *module ? YK_OK : source_build(dev, key, options, part, module);
    if (!s)
        unit_keep(dev, key, *module, true);
    return s;
}

/* The generated kernels that the device does not have yet, compiled as one. */
static yk_status generated_build(yk_device *dev, const kit_program *kit)
{
    kit_text text;
    CUmodule module = NULL;
    yk_status s = YK_OK;
    kit_text_init(&text, cuda_host);
    for (size_t i = 0; i < kit->n_unit; i++) {
        const kit_unit *u = &kit->unit[i];
        if (!u->file && !unit_find(dev, u->key))
            kit_text_put(&text, kit->text.data + u->begin, u->end - u->begin);
    }
    if (text.bad || !units_reserve(dev, kit->n_unit + 1))
        s = YK_E_MEM;
    else if (text.data)
        s = unit_build(dev, NULL, "", text.data, &module);
    for (size_t i = 0; i < kit->n_unit && module; i++)
        if (!kit->unit[i].file && !unit_find(dev, kit->unit[i].key))
            unit_keep(dev, kit->unit[i].key, module, false);
    kit_text_free(&text);
    return s;
}

yk_status cuda_units_get(yk_device *dev, const kit_program *kit, CUmodule *of)
{
    pthread_mutex_lock(&dev->lock);
    yk_status s = generated_build(dev, kit);
    for (size_t i = 0; i < kit->n_unit && !s; i++) {
        const kit_unit *u = &kit->unit[i];
        if (u->file)
            s = unit_build(dev, u->file, u->macros, NULL, &of[i]);
        else
            of[i] = unit_find(dev, u->key);
    }
    pthread_mutex_unlock(&dev->lock);
    return s;
}
