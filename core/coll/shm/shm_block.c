/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of shared memory: their places in the object, allocation and release. coll.c, feed.c, msg_plane.c and shm_slot.c call it in the
 * step thread. All ranks of a host call it in the same order, so each rank knows the free places.
 *
 * Memory is freed once the last rank has released it. All ranks together make the next block in that place, after that.
 */
#include "config.h"

#include "core/coll/shm/shm_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/process/cgroup.h"
#include "core/base/mem.h"
#include "core/base/process/reserve.h"

/* Offset of the first free place that is large enough, else the end. */
static uint64_t place_block(yk__shm *shm, uint64_t bytes)
{
    for (size_t i = 0; i < shm->n_gap; i++) {
        yk__shm_gap *gap = &shm->gap[i];
        const uint64_t at = gap->offset;
        if (gap->bytes < bytes)
            continue;
        gap->offset += bytes;
        gap->bytes -= bytes;
        if (!gap->bytes)
            *gap = shm->gap[--shm->n_gap];
        return at;
    }
    shm->end += bytes;
    return shm->end - bytes;
}

/* Joins a gap with its neighbours. */
static void join_gap(yk__shm *shm, yk__shm_gap gap)
{
    for (size_t i = 0; i < shm->n_gap;) {
        const yk__shm_gap other = shm->gap[i];
        if (other.offset + other.bytes != gap.offset && gap.offset + gap.bytes != other.offset) {
            i++;
            continue;
        }
        gap.offset = other.offset < gap.offset ? other.offset : gap.offset;
        gap.bytes += other.bytes;
        shm->gap[i] = shm->gap[--shm->n_gap];
        i = 0;
    }
    shm->gap[shm->n_gap++] = gap; /* has capacity: one gap less, or reserved by the release */
}

static bool released_by_all(const yk__shm *shm)
{
    for (uint32_t i = 0; i < shm->locals; i++)
        if (!yk__shm_reached(&shm->place[shm->local[i]].released, shm->released))
            return false;
    return true;
}

static void end_for(yk__shm *shm, const yk_error *err)
{
    yk__control_end(shm->control, shm->rank, err->status, err->text);
}

void yk__shm_release(yk__shm *shm, void *mem)
{
    yk_error err = YK_ERROR_INIT;
    size_t i = 0;
    while (i < shm->n_block && shm->block[i].mem != mem)
        i++;
    if (i == shm->n_block)
        return;
    if (yk__grow(&shm->gap, &shm->gap_cap, shm->n_gap + 1, sizeof *shm->gap)) { /* else the ranks' lists would differ */
        yk__fail(&err, YK_E_MEM, "out of memory (the places of shared blocks)");
        end_for(shm, &err);
        return;
    }
    const yk__shm_block b = shm->block[i];
    shm->block[i] = shm->block[--shm->n_block];
    munmap(b.mem, b.bytes);
    shm->released++;
    yk__shm_set(shm, &shm->place[shm->rank].released, shm->released);
    if (released_by_all(shm) &&
        fallocate(shm->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)b.offset, (off_t)b.bytes)) {
        yk__fail(&err, YK_E_IO, "giving back %llu bytes of shared memory: %s", (unsigned long long)b.bytes, strerror(errno));
        end_for(shm, &err);
    }
    join_gap(shm, (yk__shm_gap){b.offset, b.bytes});
}

/* ---- Allocation -------------------------------------------------------------------------------------------------- */

static yk_status fail_memory(const char *what, uint64_t bytes, int e, yk_error *err)
{
    return yk__fail(err, YK_E_MEM, "%llu bytes of shared memory for %s: %s", (unsigned long long)bytes, what, strerror(e));
}

static bool is_lowest(const yk__shm *shm)
{
    return shm->rank == shm->local[0];
}

static bool has_ended(const void *control)
{
    yk_error why = YK_ERROR_INIT;
    return yk__control_check(control, &why) != YK_OK;
}

/* Reserves the block's memory, as a lack of it would else be a SIGBUS in the middle of a step. The lowest rank does so once all ranks
 * have come: by then they have released the block that lay there. */
static yk_status reserve_block(yk__shm *shm, const char *what, uint64_t at, uint64_t bytes, yk_error *err)
{
    const uint64_t left = yk__cgroup_memory_left();
    if (bytes > left) /* the kernel would take the rest, and then kill some process */
        return yk__fail(err, YK_E_MEM, "%llu bytes of shared memory for %s: %llu are left", (unsigned long long)bytes, what,
                        (unsigned long long)left);
    const int failed = yk__reserve(shm->fd, at, bytes, has_ended, shm->control);
    if (failed == ECANCELED)
        return yk__control_check(shm->control, err);
    return failed && failed != EOPNOTSUPP ? fail_memory(what, bytes, failed, err) : YK_OK;
}

/* The lowest rank extends the object. Then all ranks publish the size that they asked for, and compare. */
static yk_status agree_block(yk__shm *shm, const char *what, uint64_t bytes, yk_error *err)
{
    yk__shm_place *own = &shm->place[shm->rank];
    const uint32_t number = shm->made + 1;
    if (is_lowest(shm) && ftruncate(shm->fd, (off_t)shm->end))
        return fail_memory(what, bytes, errno, err);
    atomic_store(&own->bytes, bytes);
    yk__shm_set(shm, &own->asked, number);
    for (uint32_t i = 0; i < shm->locals; i++) {
        const uint32_t r = shm->local[i];
        uint64_t theirs;
        if (yk__shm_wait(shm, &shm->place[r].asked, number, r, what, err))
            return err->status;
        theirs = atomic_load(&shm->place[r].bytes);
        if (theirs != bytes)
            return yk__fail(err, YK_E_INTERNAL, "shared memory for %s: %s asks for %llu bytes, %s for %llu", what,
                            yk__control_name(shm->control, shm->rank), (unsigned long long)bytes,
                            yk__control_name(shm->control, r), (unsigned long long)theirs);
    }
    return YK_OK;
}

static yk_status map_block(yk__shm *shm, const char *what, uint64_t at, uint64_t bytes, void **mem, yk_error *err)
{
    struct stat st;
    void *p = NULL;
    if (fstat(shm->fd, &st) || (uint64_t)st.st_size < at + bytes)
        return yk__fail(err, YK_E_INTERNAL, "shared memory for %s: the object is too short", what);
    p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, shm->fd, (off_t)at);
    if (p == MAP_FAILED)
        return yk__fail(err, YK_E_MEM, "mapping %llu bytes of shared memory for %s: %s", (unsigned long long)bytes, what,
                        strerror(errno));
    if (bytes >= 2u << 20)
        madvise(p, bytes, MADV_HUGEPAGE); /* only advice */
    shm->block[shm->n_block++] = (yk__shm_block){p, bytes, at};
    *mem = p;
    return YK_OK;
}

static yk_status make_block(yk__shm *shm, const char *what, uint64_t bytes, bool sparse, void **mem, yk_error *err)
{
    const uint64_t whole = ((bytes ? bytes : 1) + YK__SHM_PAGE - 1) / YK__SHM_PAGE * YK__SHM_PAGE;
    void *p = NULL;
    uint64_t at;
    if (bytes > INT64_MAX / 2 || whole > INT64_MAX / 2 - shm->end)
        return yk__fail(err, YK_E_ARG, "shared memory for %s: %llu bytes are too many", what, (unsigned long long)bytes);
    if (yk__grow(&shm->block, &shm->block_cap, shm->n_block + 1, sizeof *shm->block))
        return yk__fail(err, YK_E_MEM, "out of memory (the list of shared blocks)");
    at = place_block(shm, whole);
    if (agree_block(shm, what, bytes, err) || (is_lowest(shm) && !sparse && reserve_block(shm, what, at, whole, err)) ||
        map_block(shm, what, at, whole, &p, err))
        return err->status;
    shm->made++;
    /* The place's `bytes` may change only after all ranks have read it. */
    yk__shm_set(shm, &shm->place[shm->rank].mapped, shm->made);
    for (uint32_t i = 0; i < shm->locals; i++)
        if (yk__shm_wait(shm, &shm->place[shm->local[i]].mapped, shm->made, shm->local[i], what, err))
            return err->status;
    *mem = p;
    return YK_OK;
}

/* A rank that lacks memory for the block ends the job with its reason. The other ranks would else only report that a rank has ended.
 * Each rank finds unequal sizes itself. */
yk_status yk__shm_alloc(yk__shm *shm, const char *what, uint64_t bytes, void **mem, yk_error *err)
{
    if (make_block(shm, what, bytes, false, mem, err) == YK_E_MEM)
        end_for(shm, err);
    return err->status;
}

yk_status yk__shm_alloc_sparse(yk__shm *shm, const char *what, uint64_t bytes, void **mem, yk_error *err)
{
    if (make_block(shm, what, bytes, true, mem, err) == YK_E_MEM)
        end_for(shm, err);
    return err->status;
}

/* Pages of the range that have memory already keep their contents. */
yk_status yk__shm_fill(yk__shm *shm, const void *mem, uint64_t at, uint64_t bytes, yk_error *err)
{
    const uint64_t from = at / YK__SHM_PAGE * YK__SHM_PAGE;
    const uint64_t whole = (at + bytes - from + YK__SHM_PAGE - 1) / YK__SHM_PAGE * YK__SHM_PAGE;
    for (size_t i = 0; i < shm->n_block; i++)
        if (shm->block[i].mem == mem && from + whole <= shm->block[i].bytes)
            return reserve_block(shm, "16-bit parameters", shm->block[i].offset + from, whole, err);
    return yk__fail(err, YK_E_INTERNAL, "there is no block of shared memory with a range of %llu bytes at %llu", (unsigned long long)bytes,
                    (unsigned long long)at);
}
