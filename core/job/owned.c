/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lists of objects that belong to a job: objects to free at yk_close, and writers and readers of files beside a checkpoint.
 *
 * Models, samplers, tokenizers and registered memory add to the lists in the step thread. open.c (core/job/session) releases objects at the
 * end, the last one first; save.c (core/job/checkpoint) calls the writers and readers.
 */
#include "core/job/owned.h"

#include "core/base/mem.h"
#include "core/job/job.h"

bool yk__owned_add(yk__attached *a, void *object, void (*release)(void *object))
{
    if (yk__grow(&a->owned, &a->cap_owned, a->n_owned + 1, sizeof *a->owned))
        return false;
    a->owned[a->n_owned++] = (yk__owned){object, release};
    return true;
}

bool yk__companion_add(yk__attached *a, void *object, void (*write)(void *object, const char *dir))
{
    if (yk__grow(&a->companion, &a->cap_companion, a->n_companion + 1, sizeof *a->companion))
        return false;
    a->companion[a->n_companion++] = (yk__companion){object, write};
    return true;
}

bool yk__reader_add(yk__attached *a, void *object, void (*call)(void *object, const char *dir))
{
    if (yk__grow(&a->reader, &a->cap_reader, a->n_reader + 1, sizeof *a->reader))
        return false;
    a->reader[a->n_reader++] = (yk__reader){object, call};
    return true;
}

bool yk__block_add(yk__attached *a, const char *name, void *data, size_t bytes)
{
    char *copy = yk__strdup(name);
    if (!copy || yk__grow(&a->block, &a->cap_block, a->n_block + 1, sizeof *a->block)) {
        yk__free(copy);
        return false;
    }
    a->block[a->n_block++] = (yk__block){copy, data, (int64_t)bytes};
    return true;
}

void yk__owned_release(yk__attached *a)
{
    while (a->n_owned > 0) {
        const yk__owned o = a->owned[--a->n_owned];
        o.release(o.object);
    }
}

void yk__attached_free(yk__attached *a)
{
    yk__free(a->owned);
    yk__free(a->companion);
    yk__free(a->reader);
    for (size_t i = 0; i < a->n_block; i++)
        yk__free(a->block[i].name);
    yk__free(a->block);
}

void yk_on_close(yk_job *job, void *object, void (*release)(void *object))
{
    if (job && yk__owned_add(&job->attached, object, release))
        return;
    release(object);
    if (job)
        yk_fail(job, YK_E_MEM, "out of memory in yk_on_close");
}
