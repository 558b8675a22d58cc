/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yk_weights: reads tensors of safetensors files into parameters, and writes parameters to such files. models/ loads and saves Hugging Face
 * folders with it; a user's program may, too.
 *
 * All ranks call it in the step thread; each reads the files, and rank 0 writes. A tensor of another shape is an error with both shapes.
 * yk_weights_close frees what yk_weights_open made.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/convert.h"
#include "core/io/folder.h"
#include "core/io/safetensors.h"
#include "core/job/checkpoint/job_hash.h"
#include "core/job/checkpoint/stored_values.h"
#include "core/job/param.h"

struct yk_weights {
    yk_job *job;
    yk__safetensors *file;
};

yk_weights *yk_weights_open(yk_job *job, const char *path)
{
    YK__ACT_HERE(YK__ACT_CALL);
    yk_error err = YK_ERROR_INIT;
    yk_weights *w;
    if (!yk_ok(job) || !yk__job_given(job, "yk_weights_open", "path", path))
        return NULL;
    w = yk__calloc(1, sizeof *w);
    if (!w)
        yk__fail_mem(&err, sizeof *w, path);
    else {
        w->job = job;
        if (!yk__stage_check(path, &err))
            yk__safetensors_open(path, &w->file, &err);
    }
    if (err.status) {
        yk__free(w);
        yk_fail(job, err.status, err.text);
        return NULL;
    }
    return w;
}

bool yk_weights_has(yk_weights *w, const char *name)
{
    return w && yk__safetensors_find(w->file, name) != NULL;
}

uint32_t yk_weights_count(const yk_weights *w)
{
    return w ? (uint32_t)yk__safetensors_count(w->file) : 0;
}

const char *yk_weights_name(const yk_weights *w, uint32_t i)
{
    return i < yk_weights_count(w) ? yk__safetensors_at(w->file, i)->name : NULL;
}

uint32_t yk_weights_shape(const yk_weights *w, const char *name, int64_t dim[8])
{
    const yk__safetensor *t = w ? yk__safetensors_find(w->file, name) : NULL;
    const uint32_t rank = t && t->rank > 0 && t->rank <= 8 ? (uint32_t)t->rank : 0;
    for (uint32_t i = 0; i < rank; i++)
        dim[i] = t->shape[i];
    return rank;
}

static bool same_shape(const yk__safetensor *t, yk_t param)
{
    bool same = (uint32_t)t->rank == yk_dims(param);
    for (int i = 0; same && i < t->rank; i++)
        same = t->shape[i] == yk_dim(param, i);
    return same;
}

static void wrong_shape(yk_weights *w, const yk__safetensor *t, yk_t param)
{
    char have[128], want[128], text[512];
    int64_t dim[8];
    for (uint32_t i = 0; i < yk_dims(param); i++)
        dim[i] = yk_dim(param, (int32_t)i);
    yk__safetensors_shape_text(t->rank, t->shape, have, sizeof have);
    yk__safetensors_shape_text((int)yk_dims(param), dim, want, sizeof want);
    snprintf(text, sizeof text, "%s: tensor \"%s\" has shape %s, but the model needs %s", yk__safetensors_path(w->file), t->name,
             have, want);
    yk_fail(w->job, YK_E_FORMAT, text);
}

static bool is_whole_type(int dtype)
{
    return dtype == YK_I8 || dtype == YK_U8 || dtype == YK_BOOL || dtype == YK_I32 || dtype == YK_I64;
}

/* Integers stay exact, and are refused for a float parameter. */
static yk_status type_check(const yk_weights *w, const yk__safetensor *t, bool counts, yk_error *err)
{
    float none = 0;
    if (is_whole_type(t->dtype) && !counts)
        return yk__fail(err, YK_E_FORMAT, "%s: tensor \"%s\" has type %s, but the model needs fractions: whole numbers are quantized "
                        "weights, which Yoke does not read", yk__safetensors_path(w->file), t->name, t->dtype_name);
    if (yk__array_to_f32(t->dtype, &none, 0, &none))
        return yk__fail(err, YK_E_FORMAT, "%s: tensor \"%s\" has type %s, which cannot become f32", yk__safetensors_path(w->file),
                        t->name, t->dtype_name);
    return YK_OK;
}

/* A state lies whole on each rank. */
static yk_status read_state(yk_weights *w, const yk__safetensor *t, yk_t param, yk__job_param *p, yk_error *err)
{
    const size_t n = (size_t)t->elements;
    const bool exact = t->dtype == YK_I64 && yk__param_file_type(p) == YK_I64;
    void *data = yk__malloc(n * sizeof(int64_t)), *to = yk__malloc(n * sizeof(int64_t));
    if (!data || !to)
        yk__fail_mem(err, 2 * n * sizeof(int64_t), t->name);
    else if (!yk__safetensors_load(w->file, t, 0, t->bytes, data, err)) {
        if (exact)
            yk__param_put_file(w->job, p, data);
        else if (!yk__array_to_f32(t->dtype, data, n, to))
            yk_param_write(param, to, n);
    }
    yk__free(data);
    yk__free(to);
    return err->status;
}

static yk_status read_into(yk_weights *w, const yk__safetensor *t, yk_t param, yk_error *err)
{
    yk__job_param *p = yk__param_of(w->job, "yk_weights_read", param);
    yk__source source;
    if (!p || type_check(w, t, yk__param_file_type(p) == YK_I64, err))
        return err->status;
    if (p->state)
        return read_state(w, t, param, p, err);
    if (!yk__stored_values(w->file, t, false, &source, err))
        yk__param_give(w->job, p, source);
    return err->status;
}

bool yk_weights_read(yk_weights *w, const char *name, yk_t param)
{
    YK__ACT_HERE(YK__ACT_CALL);
    const yk__safetensor *t = w && yk_ok(w->job) ? yk__safetensors_find(w->file, name) : NULL;
    yk_error err = YK_ERROR_INIT;
    if (!t)
        return false;
    if (!same_shape(t, param))
        wrong_shape(w, t, param);
    else if (read_into(w, t, param, &err))
        yk_fail(w->job, err.status, err.text);
    return true;
}

/* True if both have the same elements; each piece is read from both. */
static bool values_same(const yk__source *a, const yk__source *b, uint64_t n, yk_error *err)
{
    enum { PIECE = 4096 };
    float x[PIECE], y[PIECE];
    bool same = true;
    for (uint64_t at = 0; at < n && same; at += PIECE) {
        const uint64_t some = n - at < PIECE ? n - at : PIECE;
        same = !a->read(a->object, at, some, x, err) && !b->read(b->object, at, some, y, err) && !memcmp(x, y, some * sizeof *x);
    }
    return same;
}

bool yk_weights_same(yk_weights *w, const char *name, const char *other)
{
    YK__ACT_HERE(YK__ACT_CALL);
    const bool ok = w && yk_ok(w->job);
    const yk__safetensor *t = ok ? yk__safetensors_find(w->file, name) : NULL, *u = ok ? yk__safetensors_find(w->file, other) : NULL;
    yk__source a = {0}, b = {0};
    yk_error err = YK_ERROR_INIT, type = YK_ERROR_INIT;
    bool same = t && u && t->rank == u->rank && !memcmp(t->shape, u->shape, (size_t)t->rank * sizeof *t->shape) &&
                !type_check(w, t, false, &type) && !type_check(w, u, false, &type);
    if (!same)
        return false;
    if (!yk__stored_values(w->file, t, false, &a, &err) && !yk__stored_values(w->file, u, false, &b, &err))
        same = values_same(&a, &b, (uint64_t)t->elements, &err);
    if (a.free)
        a.free(a.object);
    if (b.free)
        b.free(b.object);
    if (err.status)
        yk_fail(w->job, err.status, err.text);
    return same && !err.status;
}

void yk_weights_close(yk_weights *w)
{
    if (w)
        yk__safetensors_close(w->file);
    yk__free(w);
}

/* ---- Writing ------------------------------------------------------------------------------------------------------ */

typedef struct writer {
    yk_job *job;
    const yk_t *param;
    void *whole;     /* owned: data of tensor `held` */
    int64_t held;
    size_t capacity;
} writer;

static yk_status tensor_fetch(void *user, int64_t i, uint64_t from, void *buf, size_t bytes, yk_error *err)
{
    writer *w = user;
    if (w->held != i) {
        yk__job_param *p = yk__param_of(w->job, "yk_weights_save", w->param[i]);
        if (!p || !yk__param_get_file(w->job, p, w->whole))
            return yk__job_why(w->job, err);
        w->held = i;
    }
    memcpy(buf, (const char *)w->whole + from, bytes);
    return YK_OK;
}

/* Writes a temporary file, syncs and renames it, so that the file is the old or the new one, never a half. A link stays one. */
static yk_status write_file(const char *named, const yk__safetensors_out *t, int64_t n, writer *w, yk_error *err)
{
    const char *const meta[] = {"format", "pt"};
    char file[PATH_MAX], temporary[PATH_MAX + 16];
    int fd;
    if (!yk__folder_file(named, file))
        return yk__fail(err, YK_E_IO, "%s: expected a file's name, got a device, a pipe or a link that leads nowhere", named);
    snprintf(temporary, sizeof temporary, "%s" YK__FOLDER_TMP, file);
    fd = yk__folder_successor(temporary, file);
    if (fd < 0)
        return yk__fail(err, YK_E_IO, "%s: cannot create it: %s", temporary, strerror(errno));
    if (!yk__safetensors_write(fd, temporary, t, n, meta, 1, tensor_fetch, w, err) && yk__folder_sync_file(fd))
        yk__fail(err, YK_E_IO, "%s: cannot sync it: %s", temporary, strerror(errno));
    if (close(fd) && !err->status)
        yk__fail(err, YK_E_IO, "%s: cannot close it: %s", temporary, strerror(errno));
    if (!err->status && rename(temporary, file))
        yk__fail(err, YK_E_IO, "%s: cannot rename %s to it: %s", file, temporary, strerror(errno));
    if (err->status) {
        unlink(temporary);
        return err->status;
    }
    return yk__folder_sync_parent(file, err);
}

void yk_weights_save(yk_job *job, const char *file, uint32_t n, const char *const *name, const yk_t *param)
{
    YK__ACT_HERE(YK__ACT_CALL);
    yk__safetensors_out *t = yk__calloc(n + 1, sizeof *t);
    writer w = {.job = job, .param = param, .held = -1};
    yk_error err = YK_ERROR_INIT;
    yk__job_catch_up(job);
    for (uint32_t i = 0; t && i < n && yk_ok(job); i++) {
        const yk__job_param *p = yk__param_of(job, "yk_weights_save", param[i]);
        if (!p)
            break;
        t[i] = (yk__safetensors_out){.name = name[i], .dtype = yk__param_file_type(p), .rank = (int)p->dims, .shape = p->dim};
        w.capacity = p->n > w.capacity ? p->n : w.capacity;
    }
    w.whole = yk__malloc((w.capacity + 1) * sizeof(int64_t));
    if (!t || !w.whole)
        yk__fail_mem(&err, w.capacity * sizeof(int64_t), file);
    else if (yk_is_main(job) && yk_ok(job))
        write_file(file, t, n, &w, &err);
    if (err.status)
        yk_fail(job, err.status, err.text);
    yk__free(w.whole);
    yk__free(t);
    yk_barrier(job);
}

/* ---- Several files together ---------------------------------------------------------------------------------------- */

const char *yk_stage_begin(yk_job *job, const char *dir)
{
    YK__ACT_HERE(YK__ACT_CALL);
    yk_error err = YK_ERROR_INIT;
    if (!yk_ok(job) || !yk__job_given(job, "yk_stage_begin", "dir", dir))
        return NULL;
    yk_make_dir(job, dir);
    if (!yk_ok(job))
        return NULL;
    yk__free(job->scratch);
    job->scratch = NULL;
    if (yk_is_main(job))
        yk__stage_begin(dir, &job->scratch, &err);
    else if (!(job->scratch = yk__strdup(dir))) /* a path to hand on; this rank writes nothing there */
        yk__fail_mem(&err, strlen(dir), "a path");
    if (err.status)
        yk__job_fail(job, &err);
    yk_barrier(job);
    return yk_ok(job) ? job->scratch : NULL;
}

void yk_stage_commit(yk_job *job, const char *dir)
{
    YK__ACT_HERE(YK__ACT_CALL);
    yk_error err = YK_ERROR_INIT;
    if (yk_is_main(job) && !yk_ok(job))
        yk__stage_abandon(dir);
    else if (yk_is_main(job) && yk__stage_commit(dir, &err))
        yk__job_fail(job, &err);
    yk_barrier(job);
}
