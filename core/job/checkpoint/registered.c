/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registered bytes: memory of the user's program that checkpoints save and restore (yk_register_for_checkpointing). They are u8 tensors in
 * a safetensors file, so they get the same checksums and the same all-or-nothing writing as the other files.
 *
 * save.c and emergency.c write and read them in the step thread. The memory stays the program's own. sampler.c (core/job/loop) registers
 * its place the same way. A block whose size has changed is an error.
 */
#include "core/job/checkpoint/registered.h"

#include <string.h>

#define REGISTERED "registered.safetensors"

void yk_register_for_checkpointing(yk_job *job, const char *name, void *data, size_t bytes)
{
    if (!yk_ok(job) || !yk__job_given(job, "yk_register_for_checkpointing", "name", name))
        return;
    const char *wrong = yk__safetensors_name_wrong(name);
    if (wrong) {
        yk__job_failf(job, YK_E_ARG, "yk_register_for_checkpointing: \"%s\": %s: give the state another name", name, wrong);
        return;
    }
    for (size_t i = 0; i < job->attached.n_block; i++)
        if (!strcmp(job->attached.block[i].name, name)) {
            yk__job_failf(job, YK_E_ARG, "yk_register_for_checkpointing: \"%s\" is registered already: give each state a name of its own",
                          name);
            return;
        }
    if (!yk__block_add(&job->attached, name, data, bytes))
        yk__job_failf(job, YK_E_MEM, "out of memory in yk_register_for_checkpointing");
}

void yk_on_load(yk_job *job, void *object, void (*read)(void *object, const char *dir))
{
    if (yk_ok(job) && !yk__reader_add(&job->attached, object, read))
        yk__job_failf(job, YK_E_MEM, "out of memory in yk_on_load");
}

void yk__registered_read(yk_job *job, const char *dir)
{
    for (size_t i = 0; i < job->attached.n_reader && yk_ok(job); i++)
        job->attached.reader[i].call(job->attached.reader[i].object, dir);
}

uint64_t yk__registered_bytes(const yk_job *job)
{
    uint64_t n = 0;
    for (size_t i = 0; i < job->attached.n_block; i++)
        n += (uint64_t)job->attached.block[i].bytes;
    return n;
}

void yk__registered_pack(const yk_job *job, char *to)
{
    for (size_t i = 0; i < job->attached.n_block; i++) {
        memcpy(to, job->attached.block[i].data, (size_t)job->attached.block[i].bytes);
        to += job->attached.block[i].bytes;
    }
}

yk_status yk__registered_save(yk__checkpoint *ckpt, const yk_job *job, const char *packed, yk_error *err)
{
    const yk__attached *a = &job->attached;
    yk__safetensors_out *out = yk__calloc(a->n_block + 1, sizeof *out);
    if (!out)
        return yk__fail_mem(err, a->n_block * sizeof *out, "a checkpoint");
    for (size_t i = 0; i < a->n_block; i++) {
        out[i] = (yk__safetensors_out){.name = a->block[i].name, .dtype = YK_U8, .rank = 1, .shape = &a->block[i].bytes,
                                        .data = packed ? packed : a->block[i].data};
        packed += packed ? a->block[i].bytes : 0;
    }
    if (a->n_block)
        yk__checkpoint_tensors(ckpt, REGISTERED, out, (int64_t)a->n_block, err);
    yk__free(out);
    return err->status;
}

static bool is_registered(const yk_job *job, const char *name)
{
    for (size_t i = 0; i < job->attached.n_block; i++)
        if (!strcmp(job->attached.block[i].name, name))
            return true;
    return false;
}

static yk_status blocks_read(yk_job *job, yk__safetensors *file, yk_error *err)
{
    for (int64_t i = 0; i < yk__safetensors_count(file) && !err->status; i++)
        if (!is_registered(job, yk__safetensors_at(file, i)->name))
            yk__fail(err, YK_E_FORMAT, "%s holds \"%s\", which this program has not registered (yk_register_for_checkpointing)",
                     yk__safetensors_path(file), yk__safetensors_at(file, i)->name);
    for (size_t i = 0; i < job->attached.n_block && !err->status; i++) {
        const yk__block *b = &job->attached.block[i];
        const yk__safetensor *x = yk__safetensors_find(file, b->name);
        if (!x || x->bytes != (uint64_t)b->bytes)
            yk__fail(err, YK_E_FORMAT, "%s: the registered state \"%s\" %s: %lld bytes, expected %lld", yk__safetensors_path(file), b->name,
                     x ? "has another size" : "is not in it", x ? (long long)x->bytes : 0LL, (long long)b->bytes);
        else
            yk__safetensors_load(file, x, 0, x->bytes, b->data, err);
    }
    return err->status;
}

yk_status yk__registered_load(yk_job *job, const char *dir, const json_t *state, yk_error *err)
{
    yk__safetensors *file = NULL;
    if (!json_object_get(json_object_get(state, "files"), REGISTERED)) {
        if (job->attached.n_block)
            yk__fail(err, YK_E_FORMAT, "%s holds no registered state, this program has \"%s\" (yk_register_for_checkpointing, "
                                       "yk_sampler_new)", dir, job->attached.block[0].name);
        return err->status;
    }
    char *path = yk__format("%s/%s", dir, REGISTERED);
    if (!path)
        return yk__fail_mem(err, strlen(dir), "a path");
    if (!yk__safetensors_open(path, &file, err))
        blocks_read(job, file, err);
    yk__safetensors_close(file);
    yk__free(path);
    return err->status;
}
