/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of step values that the host wants or has read (yk_keep, yk_item, yk_read, yk_backward), and their memory.
 *
 * read.c (core/job/loop) adds and finds entries, window.c (core/job/loop) and operand.c find them. flush.c (core/job/loop) ages them at a
 * step's end, and open.c (core/job/session) frees them, all in the step thread. The table owns the memory.
 */
#include "core/job/host_values.h"

#include <string.h>

#include "core/base/mem.h"

yk__kept *yk__kept_find(const yk__values *v, uint16_t gen, yk__vid vid)
{
    for (size_t i = v->n_kept; i-- > 0;)
        if (v->kept[i].gen == gen && v->kept[i].vid == vid && !v->kept[i].handle_over)
            return &v->kept[i];
    return NULL;
}

/* Takes zeroed memory for a value, from an earlier step if the size fits. */
static bool host_take(yk__values *v, yk__kept *k)
{
    for (int i = 0; i < YK__SPARES && !k->host; i++)
        if (v->spare[i].memory && v->spare[i].bytes >= k->bytes && v->spare[i].bytes <= 2 * k->bytes + 64) {
            k->host = v->spare[i].memory;
            k->capacity = v->spare[i].bytes;
            v->spare[i].memory = NULL;
            memset(k->host, 0, (size_t)k->bytes);
        }
    if (!k->host) {
        k->host = yk__calloc((size_t)k->bytes + 8, 1);
        k->capacity = k->bytes + 8;
    }
    return k->host != NULL;
}

static void host_give(yk__values *v, yk__kept *k)
{
    for (int i = 0; i < YK__SPARES; i++)
        if (!v->spare[i].memory && k->host) {
            v->spare[i] = (yk__spare){k->host, k->capacity};
            k->host = NULL;
        }
    yk__free(k->host);
}

static void spare_clear(yk__values *v)
{
    for (int i = 0; i < YK__SPARES; i++) {
        yk__free(v->spare[i].memory);
        v->spare[i].memory = NULL;
    }
}

yk__kept *yk__kept_new(yk__values *v, uint16_t gen, yk__vid vid, yk__vid source, const yk_value *type, yk_error *err)
{
    const uint32_t each = yk__dtype_is_float(type->dtype) ? 4 : yk_dtype_bytes(type->dtype);
    yk__kept k = {.gen = gen, .vid = vid, .source = source, .factor = 1.0, .value = *type};
    k.bytes = (uint64_t)yk__value_count(type) * each;
    if (yk__grow(&v->kept, &v->cap_kept, v->n_kept + 1, sizeof k) || !host_take(v, &k)) {
        yk__fail_mem(err, k.bytes, "a value to be read");
        return NULL;
    }
    v->kept[v->n_kept] = k;
    return &v->kept[v->n_kept++];
}

static void deferred_clear(yk__values *v)
{
    for (size_t i = 0; i < v->n_deferred; i++)
        yk__free(v->deferred[i]);
    v->n_deferred = 0;
}

/* Keeps an entry's memory as a spare, or frees it. If a run may still write to it, deferred_clear frees it later. */
static void kept_release(yk__values *v, yk__engine *engine, yk__kept *k)
{
    yk_error err = YK_ERROR_INIT;
    if (k->sent && !k->ready && engine) {
        if (v->n_deferred >= 64 && !yk__engine_wait(engine, 0, &err))
            deferred_clear(v);
        if (!yk__grow(&v->deferred, &v->cap_deferred, v->n_deferred + 1, sizeof *v->deferred)) {
            v->deferred[v->n_deferred++] = k->host;
            return;
        }
        yk__engine_wait(engine, 0, &err);
    }
    host_give(v, k);
}

/* An entry dies when its step ends, or one step later with outlives_step. A pinned one stays until window.c has read it. */
void yk__values_age(yk__values *v, yk__engine *e)
{
    size_t n = 0;
    for (size_t i = 0; i < v->n_kept; i++) {
        yk__kept *k = &v->kept[i];
        const bool over = !k->outlives_step || k->age >= 1;
        if (over && !k->pinned) {
            kept_release(v, e, k);
            continue;
        }
        k->handle_over = k->handle_over || over;
        k->age = k->age < 255 ? (uint8_t)(k->age + 1) : k->age;
        v->kept[n++] = *k;
    }
    v->n_kept = n;
}

void yk__values_free(yk__values *v, yk__engine *e)
{
    for (size_t i = 0; i < v->n_kept; i++)
        kept_release(v, e, &v->kept[i]);
    v->n_kept = 0;
    deferred_clear(v);
    spare_clear(v);
    yk__free(v->kept);
    yk__free(v->deferred);
}

double yk__kept_first(const yk__kept *k)
{
    float f;
    int32_t i;
    if (yk__dtype_is_float(k->value.dtype)) {
        memcpy(&f, k->host, sizeof f);
        return (double)f;
    }
    if (k->value.dtype == YK_I32) {
        memcpy(&i, k->host, sizeof i);
        return (double)i;
    }
    return (double)*(const uint8_t *)k->host;
}
