/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs: the kit's launches (plugins/kit/program.h) as kernel objects, which keep their arguments. Slots are bound at
 * submission, and only those arguments are set again whose slot has moved.
 */
#include "backends/opencl/ocl.h"

#include <stdatomic.h>
#include <stdio.h>

static _Atomic uint64_t scratch_serial; /* of the last scratch memory made */

/* ---- Binding ---- */

static yk_status bind_set(yk_program *p, const ocl_bind *b, cl_mem mem, uint64_t offset)
{
    const ocl_launch *launch = &p->launch[b->launch];
    uint64_t element;
    if (!kit_arg_element(&b->arg, offset, &element)) {
        ocl_host->fail(OCL_WHO, "node %u: an operand at byte %llu is not aligned to %u", launch->node,
                       (unsigned long long)(offset + b->arg.value.offset), b->arg.element);
        return YK_E_ARG;
    }
    const cl_ulong first = element;
    cl_int rc = clSetKernelArg(launch->kernel, b->at, sizeof mem, &mem);
    if (rc == CL_SUCCESS)
        rc = clSetKernelArg(launch->kernel, b->at + 1, sizeof first, &first);
    return rc == CL_SUCCESS ? YK_OK : ocl_error(rc, "clSetKernelArg");
}

static yk_status bind_all(yk_program *p, kit_arg_kind kind, cl_mem mem)
{
    yk_status s = YK_OK;
    for (size_t i = 0; i < p->n_bind && s == YK_OK; i++)
        if (p->bind[i].arg.kind == kind)
            s = bind_set(p, &p->bind[i], mem, 0);
    return s;
}

/* Binds what the program itself owns: the kernels' run-time sizes. */
static yk_status bind_meta(yk_program *p, const kit_program *k)
{
    cl_int rc = CL_SUCCESS;
    if (k->n_meta)
        p->meta = clCreateBuffer(p->dev->ctx, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, k->n_meta * sizeof *k->meta, k->meta, &rc);
    return rc == CL_SUCCESS ? bind_all(p, KIT_ARG_META, p->meta) : ocl_error(rc, "memory of a program");
}

/* A queue's programs run one after the other and share its scratch memory, which grows to what the greediest needs. */
static yk_status bind_scratch(yk_program *p, ocl_scratch *s, cl_command_queue q)
{
    if (p->scratch_bytes > s->bytes) {
        clFinish(q);
        ocl_scratch_free(s);
        yk_status made = ocl_buffer_bytes(p->dev, p->scratch_bytes, &s->buffer);
        if (made != YK_OK)
            return made;
        s->bytes = p->scratch_bytes;
        s->serial = atomic_fetch_add(&scratch_serial, 1) + 1;
    }
    if (!p->scratch_bytes || p->scratch_serial == s->serial)
        return YK_OK;
    yk_status st = bind_all(p, KIT_ARG_SCRATCH, s->buffer->mem);
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
        const uint32_t slot = b->arg.slot;
        if (b->arg.kind != KIT_ARG_SLOT)
            continue;
        const yk_buffer *buf = slot < s->n_slot ? s->slot[slot] : NULL;
        if (!buf) {
            ocl_host->fail(OCL_WHO, "node %u uses slot %u, which is not bound", p->launch[b->launch].node, slot);
            return YK_E_ARG;
        }
        if (p->bound[slot] == buf->mem && p->bound_offset[slot] == s->slot_offset[slot])
            continue;
        yk_status st = bind_set(p, b, buf->mem, s->slot_offset[slot]);
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

static yk_status scalar_set(cl_kernel kernel, cl_uint at, const kit_arg *arg)
{
    const size_t bytes = arg->kind == KIT_ARG_I64 ? sizeof(cl_long) : sizeof(cl_int);
    const cl_int rc = clSetKernelArg(kernel, at, bytes, &arg->value);
    return rc == CL_SUCCESS ? YK_OK : ocl_error(rc, "clSetKernelArg");
}

/* Numbers are set once; memory is noted to be bound. */
static yk_status launch_args(yk_program *p, const kit_program *k, uint32_t number)
{
    const kit_launch *from = &k->launch[number];
    cl_uint at = 0;
    yk_status s = YK_OK;
    for (uint32_t i = 0; i < from->n_arg && s == YK_OK; i++) {
        const kit_arg *arg = &k->arg[from->arg + i];
        if (kit_arg_is_memory(arg)) {
            p->bind[p->n_bind++] = (ocl_bind){.launch = number, .at = at, .arg = *arg};
            at += 2;
        } else {
            s = scalar_set(p->launch[number].kernel, at++, arg);
        }
    }
    return s;
}

static yk_status launch_make(yk_program *p, const kit_program *k, const cl_program *of, uint32_t number)
{
    const kit_launch *from = &k->launch[number];
    ocl_launch *l = &p->launch[number];
    cl_int rc;
    *l = (ocl_launch){.dims = from->groups[2] > 1 ? 3u : from->groups[1] > 1 ? 2u : 1u, .node = from->node, .local = {from->local, 1, 1}};
    for (int d = 0; d < 3; d++)
        l->global[d] = (size_t)from->groups[d] * l->local[d];
    l->kernel = clCreateKernel(of[from->unit], from->kernel, &rc);
    p->n_launch = number + 1;
    return rc == CL_SUCCESS ? launch_args(p, k, number) : ocl_error(rc, from->kernel);
}

static yk_status program_fill(yk_program *p, const kit_program *k)
{
    cl_program *of = ocl_alloc(k->n_unit * sizeof *of);
    p->launch = ocl_alloc(k->n_launch * sizeof *p->launch);
    p->bind = ocl_alloc(k->n_arg * sizeof *p->bind);
    p->bound = ocl_alloc(p->g->n_slot * sizeof *p->bound);
    p->bound_offset = ocl_alloc(p->g->n_slot * sizeof *p->bound_offset);
    p->scratch_bytes = k->scratch_bytes;
    yk_status s = of && p->launch && p->bind && p->bound && p->bound_offset ? ocl_units_get(p->dev, k, of) : YK_E_MEM;
    for (uint32_t i = 0; i < k->n_launch && s == YK_OK; i++)
        s = launch_make(p, k, of, i);
    ocl_free(of);
    return s == YK_OK ? bind_meta(p, k) : s;
}

yk_status ocl_program_new(yk_device *dev, const yk_graph *g, yk_program **out)
{
    kit_program k;
    yk_status s = kit_program_make(&dev->target, g, &k);
    if (s != YK_OK)
        return s;
    yk_program *p = ocl_alloc(sizeof *p);
    if (!p) {
        kit_program_free(&k);
        return YK_E_MEM;
    }
    p->dev = dev;
    p->g = g;
    pthread_mutex_init(&p->lock, NULL);
    s = program_fill(p, &k);
    kit_program_free(&k);
    if (s == YK_OK)
        *out = p;
    else
        ocl_program_free(p);
    return s;
}

yk_status ocl_graph_scratch(yk_device *dev, const yk_graph *g, uint64_t *bytes)
{
    kit_program k;
    yk_status s = kit_program_make(&dev->target, g, &k);
    if (s != YK_OK)
        return s;
    *bytes = k.scratch_bytes;
    kit_program_free(&k);
    return YK_OK;
}

void ocl_program_free(yk_program *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < p->n_launch; i++)
        if (p->launch[i].kernel)
            clReleaseKernel(p->launch[i].kernel);
    if (p->meta)
        clReleaseMemObject(p->meta);
    ocl_free(p->launch);
    ocl_free(p->bind);
    ocl_free(p->bound);
    ocl_free(p->bound_offset);
    pthread_mutex_destroy(&p->lock);
    ocl_free(p);
}
