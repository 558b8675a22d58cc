/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fake driver's ground floor: its state, calls that fail on purpose, the contexts of a thread, and objects that were made and not
 * freed. It only counts objects; upper files know their contents and ends.
 */
#define _GNU_SOURCE
#include "tests/fakes/libcuda_state.h"

#include <stdlib.h>
#include <string.h>

#define STACK 16

fake_state fake = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .fail_code = CUDA_ERROR_UNKNOWN};
static _Thread_local CUcontext stack[STACK];
static _Thread_local int depth;

/* ---- Failing on purpose ---- */

uint64_t fake_env(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

bool fake_call_counted(const char *name, CUresult *rc)
{
    pthread_mutex_lock(&fake.lock);
    const bool fails = ++fake.calls == fake.fail_at || (fake.fail_name && !strcmp(name, fake.fail_name));
    fake.failed = fails ? name : fake.failed;
    if (fake.names && strcmp(name, "cuEventQuery") != 0)
        fprintf(fake.names, "%s\n", name);
    *rc = fails ? (CUresult)fake.fail_code : CUDA_SUCCESS;
    pthread_mutex_unlock(&fake.lock);
    return fails;
}

const char *fake_cuda_failed(void)
{
    return fake.failed ? fake.failed : "";
}

void fake_cuda_fail(uint64_t n, int code)
{
    pthread_mutex_lock(&fake.lock);
    fake.fail_at = n ? fake.calls + n : 0;
    fake.fail_code = code;
    pthread_mutex_unlock(&fake.lock);
}

void fake_cuda_fail_all(const char *name, int code)
{
    pthread_mutex_lock(&fake.lock);
    fake.fail_name = name;
    fake.fail_code = code;
    pthread_mutex_unlock(&fake.lock);
}

void fake_cuda_hang(uint64_t n)
{
    pthread_mutex_lock(&fake.lock);
    fake.hang_at = n ? fake.kernels + n : 0;
    fake.released = false;
    pthread_mutex_unlock(&fake.lock);
}

void fake_cuda_lose(uint64_t n)
{
    pthread_mutex_lock(&fake.lock);
    fake.lose_at = n ? fake.launches + n : 0;
    pthread_mutex_unlock(&fake.lock);
}

void fake_cuda_release(void)
{
    pthread_mutex_lock(&fake.lock);
    fake.released = true;
    pthread_cond_broadcast(&fake.changed);
    pthread_mutex_unlock(&fake.lock);
}

/* ---- The contexts of a thread ---- */

CUcontext fake_context_now(void)
{
    return depth ? stack[depth - 1] : NULL;
}

CUresult fake_context_begin(const char *name, CUcontext *context)
{
    CUresult rc;
    *context = fake_context_now();
    if (fake_call_counted(name, &rc))
        return rc;
    if (!fake.begun)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (!*context)
        return CUDA_ERROR_INVALID_CONTEXT;
    pthread_mutex_lock(&fake.lock);
    rc = (CUresult)(*context)->lost;
    pthread_mutex_unlock(&fake.lock);
    return rc;
}

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    CUresult rc;
    if (fake_call_fails(&rc))
        return rc;
    if (!context || depth == STACK)
        return CUDA_ERROR_INVALID_CONTEXT;
    stack[depth++] = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
    CUresult rc;
    const bool fails = fake_call_fails(&rc);
    if (!depth)
        return CUDA_ERROR_INVALID_CONTEXT;
    *context = stack[--depth];
    return fails ? rc : CUDA_SUCCESS;
}

/* Living objects */

typedef struct fake_object {
    struct fake_object *next;
    void *object;
    CUcontext context;
    fake_kind kind;
} fake_object;
static fake_object *objects; /* under the lock */

void fake_object_add(fake_kind kind, void *object, CUcontext context)
{
    fake_object *own = malloc(sizeof *own);
    pthread_mutex_lock(&fake.lock);
    *own = (fake_object){.next = objects, .object = object, .context = context, .kind = kind};
    objects = own;
    pthread_mutex_unlock(&fake.lock);
}

void fake_object_remove(void *object)
{
    fake_object *found = NULL;
    pthread_mutex_lock(&fake.lock);
    for (fake_object **at = &objects; *at && !found; at = found ? at : &(*at)->next)
        if ((*at)->object == object) {
            found = *at;
            *at = found->next;
        }
    pthread_mutex_unlock(&fake.lock);
    free(found);
}

uint64_t fake_object_count(void)
{
    uint64_t n = 0;
    for (const fake_object *o = objects; o; o = o->next)
        n++;
    return n;
}

void *fake_object_take(CUcontext context, fake_kind kind)
{
    void *object = NULL;
    pthread_mutex_lock(&fake.lock);
    for (const fake_object *o = objects; o && !object; o = o->next)
        object = o->context == context && o->kind == kind ? o->object : NULL;
    fake.abandoned += object != NULL;
    pthread_mutex_unlock(&fake.lock);
    if (object)
        fake_object_remove(object);
    return object;
}

void fake_context_settle(CUcontext context)
{
    const struct CUstream_st *null_stream = fake.null_stream[context - fake.device];
    for (bool busy = true; busy;) {
        busy = null_stream->done < null_stream->given;
        for (const fake_object *o = objects; o && !busy; o = o->next) {
            const struct CUstream_st *s = o->object;
            busy = o->kind == FAKE_STREAM && o->context == context && s->done < s->given;
        }
        if (busy)
            pthread_cond_wait(&fake.changed, &fake.lock);
    }
}
