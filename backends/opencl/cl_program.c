/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs of the OpenCL plugin: the kit's launches (plugins/kit/lower/lower.h) as kernel objects, which keep their arguments. The host
 * makes programs through the table in cl_plugin.c, in any thread; cl_queue.c runs them. cl_shape.c makes some for its trials of a device.
 *
 * A submission binds slots, and sets only the arguments whose slot has moved.
 */
#include "backends/opencl/ocl.h"
#include "plugins/kit/plugin.h"

#include <stdio.h>

/* ---- Binding ---- */

static yk_status bind_set(yk_program *program, const ocl_bind *b, cl_mem mem, uint64_t offset)
{
    const ocl_launch *launch = &program->launch[b->launch];
    uint64_t element;
    if (!kit_arg_element(&b->arg, offset, &element)) {
        KIT_FAIL_NODE(ocl_host, OCL_WHO, program->graph->node[launch->node].stream,
                      "node %u: an operand at byte %llu is not aligned to %u", launch->node,
                      (unsigned long long)(offset + b->arg.value.offset), b->arg.element);
        return YK_E_ARG;
    }
    const cl_ulong first = element;
    cl_int rc = clSetKernelArg(launch->kernel, b->at, sizeof mem, &mem);
    if (rc == CL_SUCCESS)
        rc = clSetKernelArg(launch->kernel, b->at + 1, sizeof first, &first);
    return rc == CL_SUCCESS ? YK_OK : ocl_error(rc, "clSetKernelArg");
}

static yk_status bind_all(yk_program *program, kit_arg_kind kind, cl_mem mem)
{
    yk_status s = YK_OK;
    for (size_t i = 0; i < program->n_bind && s == YK_OK; i++)
        if (program->bind[i].arg.kind == kind)
            s = bind_set(program, &program->bind[i], mem, 0);
    return s;
}

/* Binds the program's own memory: the kernels' run-time sizes. */
static yk_status bind_meta(yk_program *program, const kit_program *kit)
{
    cl_int rc = CL_SUCCESS;
    if (kit->n_meta)
        program->meta = clCreateBuffer(program->dev->ctx, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, kit->n_meta * sizeof *kit->meta,
                                       kit->meta, &rc);
    return rc == CL_SUCCESS ? bind_all(program, KIT_ARG_META, program->meta) : ocl_error(rc, "memory of a program");
}

/* Binds scratch memory. The programs of a queue run one after the other and share it; it grows to the largest need. */
static yk_status bind_scratch(yk_program *program, ocl_scratch *s, cl_command_queue q)
{
    if (program->scratch_bytes > s->bytes) {
        ocl_finish(q);
        ocl_scratch_free(s);
        yk_status made = ocl_buffer_bytes(program->dev, program->scratch_bytes, &s->buffer);
        if (made != YK_OK)
            return made;
        s->bytes = program->scratch_bytes;
    }
    if (!program->scratch_bytes || program->scratch_serial == s->buffer->serial)
        return YK_OK;
    yk_status st = bind_all(program, KIT_ARG_SCRATCH, s->buffer->mem);
    program->scratch_serial = st == YK_OK ? s->buffer->serial : 0;
    return st;
}

void ocl_scratch_free(ocl_scratch *s)
{
    ocl_buffer_free(s->buffer);
    *s = (ocl_scratch){0};
}

/* Checks a slot that a kernel uses. */
static yk_status slot_check(const yk_program *program, const yk_submit *s, const ocl_bind *b)
{
    const uint32_t slot = b->arg.slot;
    const uint64_t bytes = program->graph->slot[slot].bytes, offset = s->slot_offset[slot];
    if (!s->slot[slot])
        KIT_FAIL_NODE(ocl_host, OCL_WHO, program->graph->node[program->launch[b->launch].node].stream,
                      "node %u uses slot %u, which is not bound", program->launch[b->launch].node, slot);
    else if (offset > s->slot[slot]->bytes || bytes > s->slot[slot]->bytes - offset)
        ocl_host->fail(OCL_WHO, "slot %u needs %llu bytes from %llu on; its buffer has %llu", slot, (unsigned long long)bytes,
                       (unsigned long long)offset, (unsigned long long)s->slot[slot]->bytes);
    else
        return YK_OK;
    return YK_E_ARG;
}

static yk_status bind_slots(yk_program *program, const yk_submit *s)
{
    if (s->n_slot != program->graph->n_slot) {
        ocl_host->fail(OCL_WHO, "%u slots are bound, the program has %u", s->n_slot, program->graph->n_slot);
        return YK_E_ARG;
    }
    for (size_t i = 0; i < program->n_bind; i++) {
        const ocl_bind *b = &program->bind[i];
        const uint32_t slot = b->arg.slot;
        if (b->arg.kind != KIT_ARG_SLOT)
            continue;
        const yk_buffer *buf = s->slot[slot];
        if (slot_check(program, s, b))
            return YK_E_ARG;
        if (program->bound[slot] == buf->serial && program->bound_offset[slot] == s->slot_offset[slot])
            continue;
        yk_status st = bind_set(program, b, buf->mem, s->slot_offset[slot]);
        if (st != YK_OK)
            return st;
    }
    for (uint32_t i = 0; i < s->n_slot; i++) {
        program->bound[i] = s->slot[i] ? s->slot[i]->serial : 0;
        program->bound_offset[i] = s->slot_offset[i];
    }
    return YK_OK;
}

static void bind_forget(yk_program *program)
{
    memset(program->bound, 0, program->graph->n_slot * sizeof *program->bound);
}

/* ---- Running ---- */

static yk_status run_launches(yk_program *program, cl_command_queue q, cl_uint n_wait, const cl_event *wait, cl_event *last)
{
    for (size_t i = 0; i < program->n_launch; i++) {
        const ocl_launch *launch = &program->launch[i];
        bool end = i + 1 == program->n_launch;
        cl_int rc = clEnqueueNDRangeKernel(q, launch->kernel, launch->dims, NULL, launch->global, launch->local, i ? 0 : n_wait,
                                           i ? NULL : wait, end ? last : NULL);
        if (rc != CL_SUCCESS) {
            char name[80] = "", what[160];
            clGetKernelInfo(launch->kernel, CL_KERNEL_FUNCTION_NAME, sizeof name, name, NULL);
            snprintf(what, sizeof what, "node %u, kernel %s", launch->node, name);
            return ocl_error(rc, what);
        }
    }
    return YK_OK;
}

yk_status ocl_program_run(yk_program *program, const yk_submit *s, cl_command_queue q, ocl_scratch *scratch, cl_uint n_wait,
                          const cl_event *wait, cl_event *last)
{
    ocl_signals *signals = NULL;
    ocl_watch watch;
    pthread_mutex_lock(&program->lock);
    if (!program->ran) {
        signals = ocl_signals_save();
        ocl_watch_begin(&watch, program->dev);
    }
    yk_status st = bind_slots(program, s);
    if (st == YK_OK)
        st = bind_scratch(program, scratch, q);
    if (st == YK_OK)
        st = run_launches(program, q, n_wait, wait, last);
    if (st != YK_OK)
        bind_forget(program);
    if (!program->ran) {
        ocl_finish(q); /* the driver may compile at a kernel's first run */
        ocl_watch_end(&watch);
        ocl_signals_restore(signals);
    }
    program->ran = true;
    pthread_mutex_unlock(&program->lock);
    return st;
}

/* ---- Making ---- */

static yk_status scalar_set(cl_kernel kernel, cl_uint at, const kit_arg *arg)
{
    const size_t bytes = arg->kind == KIT_ARG_I64 ? sizeof(cl_long) : sizeof(cl_int);
    const cl_int rc = clSetKernelArg(kernel, at, bytes, &arg->value);
    return rc == CL_SUCCESS ? YK_OK : ocl_error(rc, "clSetKernelArg");
}

/* Sets numbers once; notes memory arguments for binding. */
static yk_status launch_args(yk_program *program, const kit_program *kit, uint32_t number)
{
    const kit_launch *from = &kit->launch[number];
    cl_uint at = 0;
    yk_status s = YK_OK;
    for (uint32_t i = 0; i < from->n_arg && s == YK_OK; i++) {
        const kit_arg *arg = &kit->arg[from->arg + i];
        if (kit_arg_is_memory(arg)) {
            program->bind[program->n_bind++] = (ocl_bind){.launch = number, .at = at, .arg = *arg};
            at += 2;
        } else {
            s = scalar_set(program->launch[number].kernel, at++, arg);
        }
    }
    return s;
}

static yk_status launch_make(yk_program *program, const kit_program *kit, void *const *of, uint32_t number)
{
    const kit_launch *from = &kit->launch[number];
    ocl_launch *launch = &program->launch[number];
    cl_int rc;
    *launch = (ocl_launch){.dims = from->groups[2] > 1   ? 3u
                                   : from->groups[1] > 1 ? 2u
                                                         : 1u,
                           .node = from->node,
                           .local = {from->local, 1, 1}};
    for (int d = 0; d < 3; d++)
        launch->global[d] = (size_t)from->groups[d] * launch->local[d];
    launch->kernel = clCreateKernel(of[from->unit], from->kernel, &rc);
    program->n_launch = number + 1;
    return rc == CL_SUCCESS ? launch_args(program, kit, number) : ocl_error(rc, from->kernel);
}

static yk_status program_fill(yk_program *program, const kit_program *kit)
{
    void **of = ocl_alloc(kit->n_unit * sizeof *of);
    program->launch = ocl_alloc(kit->n_launch * sizeof *program->launch);
    program->bind = ocl_alloc(kit->n_arg * sizeof *program->bind);
    program->bound = ocl_alloc(program->graph->n_slot * sizeof *program->bound);
    program->bound_offset = ocl_alloc(program->graph->n_slot * sizeof *program->bound_offset);
    program->scratch_bytes = kit->scratch_bytes;
    yk_status s = of && program->launch && program->bind && program->bound && program->bound_offset
                      ? kit_units_get(&program->dev->units, kit, of)
                      : YK_E_MEM;
    for (uint32_t i = 0; i < kit->n_launch && s == YK_OK; i++)
        s = launch_make(program, kit, of, i);
    ocl_free(of);
    return s == YK_OK ? bind_meta(program, kit) : s;
}

yk_status ocl_program_new(yk_device *dev, const yk_graph *graph, yk_program **out)
{
    kit_program kit;
    yk_status s = kit_program_make(&dev->target, graph, &kit);
    if (s != YK_OK)
        return s;
    yk_program *program = ocl_alloc(sizeof *program);
    if (!program) {
        kit_program_free(&kit);
        return YK_E_MEM;
    }
    program->dev = dev;
    program->graph = graph;
    pthread_mutex_init(&program->lock, NULL);
    s = program_fill(program, &kit);
    kit_program_free(&kit);
    if (s == YK_OK)
        *out = program;
    else
        ocl_program_free(program);
    return s;
}

yk_status ocl_graph_scratch(yk_device *dev, const yk_graph *graph, uint64_t *bytes)
{
    return kit_scratch_bytes(&dev->target, graph, bytes);
}

void ocl_program_free(yk_program *program)
{
    if (!program)
        return;
    for (size_t i = 0; i < program->n_launch; i++)
        if (program->launch[i].kernel)
            clReleaseKernel(program->launch[i].kernel);
    if (program->meta)
        clReleaseMemObject(program->meta);
    ocl_free(program->launch);
    ocl_free(program->bind);
    ocl_free(program->bound);
    ocl_free(program->bound_offset);
    pthread_mutex_destroy(&program->lock);
    ocl_free(program);
}
