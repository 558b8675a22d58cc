/* SPDX-License-Identifier: Apache-2.0 */
/* Structures that shm_attach.c, shm_block.c and shm_wait.c share. The memory object begins with one place per rank; blocks follow. */
#ifndef YOKE_CORE_COLL_SHM_SHM_INTERNAL_H
#define YOKE_CORE_COLL_SHM_SHM_INTERNAL_H

#include <stddef.h>

#include "core/coll/shm/shm.h"

#define YK__SHM_PAGE 4096u

/* One rank's progress with blocks. */
typedef struct yk__shm_place {
    yk__counter asked, mapped, released; /* numbers of blocks so far */
    _Alignas(64) _Atomic uint64_t bytes; /* size of the last block that it asked for */
} yk__shm_place;

typedef struct yk__shm_block {
    void *mem;
    uint64_t bytes, offset; /* offset in the object */
} yk__shm_block;

/* A free range of the object, after a release. */
typedef struct yk__shm_gap {
    uint64_t offset, bytes;
} yk__shm_gap;

struct yk__shm {
    yk__control *control;
    const volatile int *cancelled;
    uint32_t rank, size;
    uint32_t *local; /* [locals]: ranks of this host, ascending */
    uint32_t locals;
    int fd; /* core/control's */
    yk__shm_place *place; /* [size] */
    uint64_t place_bytes;
    yk_status (*watch)(void *arg, uint32_t peer, yk_error *err);
    void *watch_arg;
    yk__control_wait sleep_wait; /* state of the sleep on a word, from one call to the next */
    uint32_t sleep_seen;
    yk__shm_block *block;
    size_t n_block, block_cap;
    yk__shm_gap *gap;
    size_t n_gap, gap_cap;
    uint32_t made, released; /* numbers of blocks so far */
    uint64_t end;            /* agreed end of the object, in bytes */
};

#endif
