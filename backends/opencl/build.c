/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiling. A program is named by the hash of its text, options, device and driver; it is looked for in the device's
 * table, then in the cache folder (a file with a header and a checksum: one that does not fit is thrown away and built
 * anew; drivers that keep kernels themselves do without), then compiled.
 */
#include "backends/opencl/ocl.h"
#include "plugins/kit/cache.h"

/* ---- Table of the device (under its lock) ---- */

static cl_program unit_find(yk_device *dev, uint64_t key)
{
    for (size_t i = 0; i < dev->n_unit; i++)
        if (dev->unit[i].key == key)
            return dev->unit[i].program;
    return NULL;
}

static yk_status unit_keep(yk_device *dev, uint64_t key, cl_program program)
{
    if (dev->n_unit == dev->cap_unit) {
        size_t more = dev->cap_unit + 32;
        ocl_unit *u = ocl_grow(dev->unit, dev->n_unit * sizeof *u, more * sizeof *u);
        if (!u)
            return YK_E_MEM;
        dev->unit = u;
        dev->cap_unit = dev->n_unit + more;
    }
    clRetainProgram(program);
    dev->unit[dev->n_unit++] = (ocl_unit){key, program};
    return YK_OK;
}

/* ---- Cache of binaries ---- */

static kit_cache cache_own(void)
{
    return (kit_cache){.host = ocl_host, .plugin = OCL_WHO, .prefix = "ocl"};
}

static void cache_store(uint64_t key, cl_program program)
{
    const kit_cache cache = cache_own();
    size_t bytes = 0;
    if (clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof bytes, &bytes, NULL) != CL_SUCCESS || !bytes)
        return;
    unsigned char *data = ocl_alloc(bytes);
    if (data && clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof data, &data, NULL) == CL_SUCCESS)
        kit_cache_write(&cache, key, data, bytes);
    ocl_free(data);
}

static cl_program cache_load(yk_device *dev, uint64_t key)
{
    const kit_cache cache = cache_own();
    size_t bytes = 0;
    cl_int rc, one;
    unsigned char *data = kit_cache_read(&cache, key, &bytes);
    if (!data)
        return NULL;
    const unsigned char *p = data;
    cl_program program = clCreateProgramWithBinary(dev->ctx, 1, &dev->id, &bytes, &p, &one, &rc);
    ocl_free(data);
    if (rc != CL_SUCCESS)
        return NULL;
    if (clBuildProgram(program, 1, &dev->id, NULL, NULL, NULL) == CL_SUCCESS)
        return program;
    clReleaseProgram(program);
    kit_cache_drop(&cache, key);
    return NULL;
}

/* ---- Compiling ---- */

static yk_status build_failed(yk_device *dev, cl_program program, cl_int rc, const char *options)
{
    size_t n = 0;
    clGetProgramBuildInfo(program, dev->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &n);
    char *text = n ? ocl_alloc(n + 1) : NULL;
    if (text)
        clGetProgramBuildInfo(program, dev->id, CL_PROGRAM_BUILD_LOG, n, text, NULL);
    ocl_host->fail(OCL_WHO, "compiling kernels (%s): %s (%d)\n%.4000s", options, ocl_error_name(rc), rc,
                   text ? text : "");
    ocl_free(text);
    return YK_E_INTERNAL;
}

static yk_status build_source(yk_device *dev, const char *options, const char *const *part, uint32_t n, cl_program *out)
{
    cl_int rc;
    const char **text = ocl_alloc(n * sizeof *text);
    if (!text)
        return YK_E_MEM;
    memcpy(text, part, n * sizeof *text);
    cl_program program = clCreateProgramWithSource(dev->ctx, n, text, NULL, &rc);
    ocl_free(text);
    if (rc != CL_SUCCESS)
        return ocl_error(rc, "clCreateProgramWithSource");
    rc = clBuildProgram(program, 1, &dev->id, options, NULL, NULL);
    if (rc != CL_SUCCESS) {
        yk_status s = build_failed(dev, program, rc, options);
        clReleaseProgram(program);
        return s;
    }
    *out = program;
    return YK_OK;
}

static uint64_t build_key(const yk_device *dev, const char *options, const char *const *part, uint32_t n)
{
    uint64_t key = kit_hash(dev->identity, options, strlen(options) + 1);
    for (uint32_t i = 0; i < n; i++)
        key = kit_hash(key, part[i], strlen(part[i]));
    return key;
}

/* Under the device's lock. The program belongs to the device's table. */
static yk_status build_locked(yk_device *dev, const char *options, const char *const *part, uint32_t n, cl_program *out)
{
    uint64_t key = build_key(dev, options, part, n);
    cl_program program = unit_find(dev, key);
    if (program) {
        *out = program;
        return YK_OK;
    }
    ocl_watch watch;
    ocl_signals *signals = ocl_signals_save();
    yk_status s = YK_OK;
    ocl_watch_begin(&watch, dev);
    program = dev->binaries ? cache_load(dev, key) : NULL;
    if (!program) {
        s = build_source(dev, options, part, n, &program);
        if (s == YK_OK && dev->binaries)
            cache_store(key, program);
    }
    ocl_watch_end(&watch);
    ocl_signals_restore(signals);
    if (s != YK_OK)
        return s;
    s = unit_keep(dev, key, program);
    clReleaseProgram(program);
    if (s == YK_OK)
        *out = program;
    return s;
}

/* Under the device's lock. file: of the kit, or NULL: the text of generated kernels. */
static yk_status unit_build(yk_device *dev, const char *file, const char *macros, const char *text, cl_program *out)
{
    char options[256];
    const char *part[KIT_PARTS];
    if (!kit_unit_parts(&dev->target, file, text, part) || !kit_unit_macros(&dev->target, macros, options, sizeof options))
        return YK_E_INTERNAL;
    return build_locked(dev, options, part, KIT_PARTS, out);
}

/* The generated kernels that the device does not have yet, compiled as one program. */
static yk_status generated_build(yk_device *dev, const kit_program *kit)
{
    kit_text text;
    cl_program program = NULL;
    yk_status s = YK_OK;
    kit_text_init(&text, ocl_host);
    for (size_t i = 0; i < kit->n_unit; i++) {
        const kit_unit *u = &kit->unit[i];
        if (!u->file && !unit_find(dev, u->key))
            kit_text_put(&text, kit->text.data + u->begin, u->end - u->begin);
    }
    if (text.bad)
        s = YK_E_MEM;
    else if (text.data)
        s = unit_build(dev, NULL, "", text.data, &program);
    for (size_t i = 0; i < kit->n_unit && program && s == YK_OK; i++)
        if (!kit->unit[i].file && !unit_find(dev, kit->unit[i].key))
            s = unit_keep(dev, kit->unit[i].key, program);
    kit_text_free(&text);
    return s;
}

yk_status ocl_units_get(yk_device *dev, const kit_program *kit, cl_program *of)
{
    pthread_mutex_lock(&dev->lock);
    yk_status s = generated_build(dev, kit);
    for (size_t i = 0; i < kit->n_unit && s == YK_OK; i++) {
        const kit_unit *u = &kit->unit[i];
        if (u->file)
            s = unit_build(dev, u->file, u->macros, NULL, &of[i]);
        else
            of[i] = unit_find(dev, u->key);
    }
    pthread_mutex_unlock(&dev->lock);
    return s;
}
