/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs: every node of a graph becomes one or a few launches, whose kernel objects keep their arguments. Slots are
 * bound at submission, and only those arguments are set again whose slot has moved.
 */
#include "backends/opencl/ocl.h"

#include <stdatomic.h>
#include <stdio.h>

static _Atomic uint64_t scratch_serial; /* of the last scratch memory made */

void ocl_fail(yk_program *p, yk_status s)
{
    if (p->failed == YK_OK)
        p->failed = s;
}

static bool room(yk_program *p, void **array, size_t n, size_t *cap, size_t size)
{
    if (n < *cap)
        return true;
    size_t more = *cap + 32;
    void *bigger = ocl_grow(*array, n * size, more * size);
    if (!bigger) {
        ocl_fail(p, YK_E_MEM);
        return false;
    }
    *array = bigger;
    *cap = n + more;
    return true;
}

/* ---- Lowering ---- */

void ocl_launch_from(yk_program *p, cl_program program, const char *kernel, int64_t x, int64_t y, int64_t z,
                     uint32_t local)
{
    cl_int rc;
    if (p->failed != YK_OK || !room(p, (void **)&p->launch, p->n_launch, &p->cap_launch, sizeof *p->launch))
        return;
    if (p->dev->cpu_shape)
        local = 1;
    ocl_launch *l = &p->launch[p->n_launch];
    *l = (ocl_launch){.dims = z > 1 ? 3u : y > 1 ? 2u : 1u, .node = p->node, .local = {local, 1, 1}};
    l->global[0] = (size_t)x * local;
    l->global[1] = (size_t)y;
    l->global[2] = (size_t)z;
    p->arg = 0;
    p->n_launch++;
    if (p->counting)
        return;
    l->kernel = clCreateKernel(program, kernel, &rc);
    if (rc != CL_SUCCESS)
        ocl_fail(p, ocl_error(rc, kernel));
}

void ocl_launch_begin(yk_program *p, const char *unit, const char *defines, const char *kernel, int64_t x, int64_t y,
                      int64_t z, uint32_t local)
{
    cl_program program = NULL;
    if (p->failed != YK_OK)
        return;
    if (!p->counting)
        ocl_fail(p, ocl_unit_get(p->dev, unit, defines, &program));
    ocl_launch_from(p, program, kernel, x, y, z, local);
}

static void arg_bind(yk_program *p, uint32_t slot, uint64_t offset, uint32_t element)
{
    if (p->failed != YK_OK || !room(p, (void **)&p->bind, p->n_bind, &p->cap_bind, sizeof *p->bind))
        return;
    p->bind[p->n_bind++] = (ocl_bind){(uint32_t)p->n_launch - 1, p->arg, slot, element, offset};
    p->arg += 2;
}

void ocl_arg_value(yk_program *p, uint32_t value)
{
    ocl_arg_value_at(p, value, 0);
}

void ocl_arg_value_at(yk_program *p, uint32_t value, int64_t element)
{
    const yk_value *v = &p->g->value[value];
    if (p->failed == YK_OK && v->slot >= p->g->n_slot) {
        ocl_host->fail(OCL_WHO, "value %u of node %u has no slot", value, p->node);
        ocl_fail(p, YK_E_ARG);
    }
    arg_bind(p, v->slot, v->offset + (uint64_t)element * yk_dtype_bytes(v->dtype), yk_dtype_bytes(v->dtype));
}

void ocl_arg_scratch(yk_program *p, uint64_t offset, uint64_t bytes, uint32_t element)
{
    if (p->scratch_bytes < offset + bytes)
        p->scratch_bytes = offset + bytes;
    arg_bind(p, OCL_SLOT_SCRATCH, offset, element);
}

void ocl_arg_meta(yk_program *p, const int64_t *meta, uint32_t n)
{
    uint64_t at = p->n_meta * sizeof *meta;
    for (uint32_t i = 0; i < n; i++)
        if (room(p, (void **)&p->meta, p->n_meta, &p->cap_meta, sizeof *p->meta))
            p->meta[p->n_meta++] = meta[i];
    arg_bind(p, OCL_SLOT_META, at, sizeof *meta);
}

static void arg_set(yk_program *p, size_t bytes, const void *v)
{
    if (p->failed != YK_OK || p->counting)
        return;
    cl_int rc = clSetKernelArg(p->launch[p->n_launch - 1].kernel, p->arg++, bytes, v);
    if (rc != CL_SUCCESS)
        ocl_fail(p, ocl_error(rc, "clSetKernelArg"));
}

void ocl_arg_long(yk_program *p, int64_t v)
{
    cl_long x = v;
    arg_set(p, sizeof x, &x);
}

void ocl_arg_int(yk_program *p, int64_t v)
{
    cl_int x = (cl_int)v;
    arg_set(p, sizeof x, &x);
}

void ocl_arg_float(yk_program *p, double v)
{
    cl_float x = (cl_float)v;
    arg_set(p, sizeof x, &x);
}

/* ---- Binding ---- */

static yk_status bind_set(yk_program *p, const ocl_bind *b, cl_mem mem, uint64_t offset)
{
    cl_kernel k = p->launch[b->launch].kernel;
    uint64_t at = offset + b->offset;
    cl_ulong element = at / b->element;
    if (at % b->element) {
        ocl_host->fail(OCL_WHO, "node %u: an operand at byte %llu is not aligned to %u", p->launch[b->launch].node,
                       (unsigned long long)at, b->element);
        return YK_E_ARG;
    }
    cl_int rc = clSetKernelArg(k, b->arg, sizeof mem, &mem);
    if (rc == CL_SUCCESS)
        rc = clSetKernelArg(k, b->arg + 1, sizeof element, &element);
    return rc == CL_SUCCESS ? YK_OK : ocl_error(rc, "clSetKernelArg");
}

static yk_status bind_all(yk_program *p, uint32_t slot, cl_mem mem)
{
    yk_status s = YK_OK;
    for (size_t i = 0; i < p->n_bind && s == YK_OK; i++)
        if (p->bind[i].slot == slot)
            s = bind_set(p, &p->bind[i], mem, 0);
    return s;
}

/* Binds what the program itself owns: the kernels' run-time sizes. */
static yk_status bind_own(yk_program *p)
{
    cl_int rc = CL_SUCCESS;
    if (p->n_meta)
        p->meta_mem = clCreateBuffer(p->dev->ctx, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, p->n_meta * sizeof *p->meta,
                                     p->meta, &rc);
    return rc == CL_SUCCESS ? bind_all(p, OCL_SLOT_META, p->meta_mem) : ocl_error(rc, "memory of a program");
}

/* A queue's programs run one after the other and share its scratch memory, which grows to what the greediest needs. */
static yk_status bind_scratch(yk_program *p, ocl_scratch *s, cl_command_queue q)
{
    if (p->scratch_bytes > s->bytes) {
        clFinish(q);
        ocl_scratch_free(s);
        yk_status made = ocl_buffer_new(p->dev, p->scratch_bytes, &s->buffer);
        if (made != YK_OK)
            return made;
        s->bytes = p->scratch_bytes;
        s->serial = atomic_fetch_add(&scratch_serial, 1) + 1;
    }
    if (!p->scratch_bytes || p->scratch_serial == s->serial)
        return YK_OK;
    yk_status st = bind_all(p, OCL_SLOT_SCRATCH, s->buffer->mem);
    p->scratch_serial = st == YK_OK ? s->serial : 0;
    return st;
}

void ocl_scratch_free(ocl_scratch *s)
{
    ocl_buffer_free(s->buffer);
    *s = (ocl_scratch){0};
}

static yk_status bind_slots(yk_program *p, const yk_submit *s)
{
    for (size_t i = 0; i < p->n_bind; i++) {
        const ocl_bind *b = &p->bind[i];
        if (b->slot >= p->g->n_slot)
            continue;
        const yk_buffer *buf = b->slot < s->n_slot ? s->slot[b->slot] : NULL;
        if (!buf) {
            ocl_host->fail(OCL_WHO, "node %u uses slot %u, which is not bound", p->launch[b->launch].node, b->slot);
            return YK_E_ARG;
        }
        if (p->bound[b->slot] == buf->mem && p->bound_offset[b->slot] == s->slot_offset[b->slot])
            continue;
        yk_status st = bind_set(p, b, buf->mem, s->slot_offset[b->slot]);
        if (st != YK_OK)
            return st;
    }
    for (uint32_t i = 0; i < p->g->n_slot && i < s->n_slot; i++) {
        p->bound[i] = s->slot[i] ? s->slot[i]->mem : NULL;
        p->bound_offset[i] = s->slot_offset[i];
    }
    return YK_OK;
}

static void bind_forget(yk_program *p)
{
    memset(p->bound, 0, p->g->n_slot * sizeof *p->bound);
}

/* ---- Running ---- */

static yk_status run_launches(yk_program *p, cl_command_queue q, cl_uint n_wait, const cl_event *wait, cl_event *last)
{
    for (size_t i = 0; i < p->n_launch; i++) {
        const ocl_launch *l = &p->launch[i];
        bool end = i + 1 == p->n_launch;
        cl_int rc = clEnqueueNDRangeKernel(q, l->kernel, l->dims, NULL, l->global, l->local, i ? 0 : n_wait,
                                           i ? NULL : wait, end ? last : NULL);
        if (rc != CL_SUCCESS) {
            char name[80] = "", what[160];
            clGetKernelInfo(l->kernel, CL_KERNEL_FUNCTION_NAME, sizeof name, name, NULL);
            snprintf(what, sizeof what, "node %u, kernel %s", l->node, name);
            return ocl_error(rc, what);
        }
    }
    return YK_OK;
}

yk_status ocl_program_run(yk_program *p, const yk_submit *s, cl_command_queue q, ocl_scratch *scratch, cl_uint n_wait,
                          const cl_event *wait, cl_event *last)
{
    ocl_signals *signals = NULL;
    ocl_watch watch;
    pthread_mutex_lock(&p->lock);
    if (!p->ran) {
        signals = ocl_signals_save();
        ocl_watch_begin(&watch, p->dev);
    }
    yk_status st = bind_slots(p, s);
    if (st == YK_OK)
        st = bind_scratch(p, scratch, q);
    if (st == YK_OK)
        st = run_launches(p, q, n_wait, wait, last);
    if (st != YK_OK)
        bind_forget(p);
    if (!p->ran) {
        clFinish(q); /* the driver may compile when a kernel first runs */
        ocl_watch_end(&watch);
        ocl_signals_restore(signals);
    }
    p->ran = true;
    pthread_mutex_unlock(&p->lock);
    return st;
}

/* ---- Making ---- */

/* Generated kernels that the device does not have yet, compiled as one program. */
static yk_status program_generated(yk_program *p)
{
    yk_device *dev = p->dev;
    kit_text text;
    cl_program program = NULL;
    yk_status s = YK_OK;
    uint64_t *key = ocl_alloc((p->g->n_node + 1) * sizeof *key);
    size_t n = 0;
    if (!key)
        return YK_E_MEM;
    kit_text_init(&text, ocl_host);
    pthread_mutex_lock(&dev->lock);
    for (uint32_t i = 0; i < p->g->n_node; i++) {
        bool again = false;
        size_t before = text.n;
        if (!ocl_generated_kernel(p->g, i, dev, &text, &key[n]))
            continue;
        again = ocl_unit_find(dev, key[n]) != NULL;
        for (size_t k = 0; k < n && !again; k++)
            again = key[k] == key[n];
        if (again && text.s)
            text.s[text.n = before] = 0;
        else
            n++;
    }
    if (n)
        s = ocl_unit_generated(dev, &text, &program);
    for (size_t i = 0; i < n && s == YK_OK; i++)
        s = ocl_unit_keep(dev, key[i], program);
    pthread_mutex_unlock(&dev->lock);
    kit_text_free(&text);
    ocl_free(key);
    return s;
}

static yk_status program_lower(yk_program *p)
{
    yk_status s = p->counting ? YK_OK : program_generated(p);
    for (uint32_t i = 0; i < p->g->n_node && s == YK_OK; i++) {
        p->node = i;
        ocl_lower_node(p, i);
        s = p->failed;
    }
    return s == YK_OK && !p->counting ? bind_own(p) : s;
}

static yk_status program_make(yk_device *dev, const yk_graph *g, bool counting, yk_program **out)
{
    yk_program *p = ocl_alloc(sizeof *p);
    if (!p)
        return YK_E_MEM;
    p->dev = dev;
    p->g = g;
    p->counting = counting;
    pthread_mutex_init(&p->lock, NULL);
    p->bound = ocl_alloc(g->n_slot * sizeof *p->bound);
    p->bound_offset = ocl_alloc(g->n_slot * sizeof *p->bound_offset);
    yk_status s = p->bound && p->bound_offset ? program_lower(p) : YK_E_MEM;
    if (s != YK_OK) {
        ocl_program_free(p);
        return s;
    }
    *out = p;
    return YK_OK;
}

yk_status ocl_program_new(yk_device *dev, const yk_graph *g, yk_program **p)
{
    return program_make(dev, g, false, p);
}

yk_status ocl_graph_scratch(yk_device *dev, const yk_graph *g, uint64_t *bytes)
{
    yk_program *p;
    yk_status s = program_make(dev, g, true, &p);
    if (s != YK_OK)
        return s;
    *bytes = p->scratch_bytes;
    ocl_program_free(p);
    return YK_OK;
}

void ocl_program_free(yk_program *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < p->n_launch; i++)
        if (p->launch[i].kernel)
            clReleaseKernel(p->launch[i].kernel);
    if (p->meta_mem)
        clReleaseMemObject(p->meta_mem);
    ocl_free(p->launch);
    ocl_free(p->bind);
    ocl_free(p->meta);
    ocl_free(p->bound);
    ocl_free(p->bound_offset);
    pthread_mutex_destroy(&p->lock);
    ocl_free(p);
}
