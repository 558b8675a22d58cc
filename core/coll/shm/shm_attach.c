/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attaches a rank to the memory of its host's ranks, and detaches it. coll.c and msg_plane.c call it in the step thread. All ranks of the
 * job attach together. A rank that is alone on its host, in a job of several ranks, gets none.
 */
#include "config.h"

#include "core/coll/shm/shm_internal.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/mem.h"

bool yk__shm_one_host(const yk__control *c)
{
    for (uint32_t r = 1; r < yk__control_size(c); r++)
        if (yk__control_host(c, r) != yk__control_host(c, 0))
            return false;
    return true;
}

static void list_local(yk__shm *shm)
{
    for (uint32_t r = 0; r < shm->size; r++)
        if (yk__control_host(shm->control, r) == yk__control_host(shm->control, shm->rank))
            shm->local[shm->locals++] = r;
}

static yk_status shm_new(yk__control *c, yk__shm **out, yk_error *err)
{
    yk__shm *shm = yk__calloc(1, sizeof *shm);
    if (!shm)
        return yk__fail_mem(err, sizeof *shm, "the shared memory of a job");
    *out = shm;
    shm->control = c;
    shm->cancelled = yk__control_cancelled(c);
    shm->rank = yk__control_rank(c);
    shm->size = yk__control_size(c);
    shm->local = yk__calloc(shm->size, sizeof *shm->local);
    if (!shm->local)
        return yk__fail_mem(err, shm->size * sizeof *shm->local, "the shared memory of a job");
    list_local(shm);
    shm->fd = yk__control_memory(c);
    shm->place_bytes = (shm->size * sizeof *shm->place + YK__SHM_PAGE - 1) / YK__SHM_PAGE * YK__SHM_PAGE;
    shm->end = shm->place_bytes;
    return YK_OK;
}

static yk_status map_places(yk__shm *shm, yk_error *err)
{
    struct stat st;
    void *p;
    char none = 0, *all = yk__calloc(shm->size, 1);
    yk_status s;
    if (!all)
        return yk__fail_mem(err, shm->size, "the shared memory of a job");
    if (shm->rank == shm->local[0] && ftruncate(shm->fd, (off_t)shm->place_bytes))
        s = yk__fail(err, YK_E_MEM, "%llu bytes of shared memory: %s", (unsigned long long)shm->place_bytes, strerror(errno));
    else
        s = yk__control_exchange(shm->control, "making shared memory", &none, 1, all, err); /* the other ranks wait for this exchange */
    yk__free(all);
    if (s)
        return s;
    if (fstat(shm->fd, &st) || (uint64_t)st.st_size < shm->place_bytes)
        return yk__fail(err, YK_E_INTERNAL, "the ranks' shared memory is too short");
    p = mmap(NULL, shm->place_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, shm->fd, 0);
    if (p == MAP_FAILED)
        return yk__fail(err, YK_E_MEM, "mapping the ranks' shared memory: %s", strerror(errno));
    shm->place = p;
    return YK_OK;
}

yk_status yk__shm_attach(yk__control *c, yk__shm **out, yk_error *err)
{
    yk__shm *shm = NULL;
    *out = NULL;
    if (shm_new(c, &shm, err) || map_places(shm, err)) {
        yk__shm_detach(shm);
        return err->status;
    }
    if (shm->locals > 1 || shm->size == 1)
        *out = shm;
    else
        yk__shm_detach(shm);
    return YK_OK;
}

uint32_t yk__shm_ranks(const yk__shm *shm)
{
    return shm->locals;
}

uint32_t yk__shm_index(const yk__shm *shm, uint32_t rank)
{
    for (uint32_t i = 0; i < shm->locals; i++)
        if (shm->local[i] == rank)
            return i;
    return UINT32_MAX;
}

void yk__shm_detach(yk__shm *shm)
{
    if (!shm)
        return;
    for (size_t i = 0; i < shm->n_block; i++)
        munmap(shm->block[i].mem, shm->block[i].bytes);
    if (shm->place)
        munmap(shm->place, shm->place_bytes);
    yk__free(shm->local);
    yk__free(shm->block);
    yk__free(shm->gap);
    yk__free(shm);
}

void yk__shm_watch(yk__shm *shm, yk_status (*watch)(void *arg, uint32_t peer, yk_error *err), void *arg)
{
    shm->watch = watch;
    shm->watch_arg = arg;
}
