/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files shm_attach.c, shm_block.c and shm_wait.c share. The memory object begins with the places below, one per rank; blocks
 * follow.
 */
#ifndef YOKE_CORE_COLL_SHM_INTERNAL_H
#define YOKE_CORE_COLL_SHM_INTERNAL_H

#include <stddef.h>

#include "core/coll/shm.h"

#define YK__SHM_PAGE 4096u

/* Of one rank: how far it is with blocks. */
typedef struct yk__shm_place {
    yk__counter asked, mapped, released; /* blocks so far */
    _Alignas(64) _Atomic uint64_t bytes; /* of the block asked for last */
} yk__shm_place;

typedef struct yk__shm_block {
    void *mem;
    uint64_t bytes, offset; /* offset: in the object */
} yk__shm_block;

/* A place in the object that was released. */
typedef struct yk__shm_gap {
    uint64_t offset, bytes;
} yk__shm_gap;

struct yk__shm {
    yk__control *control;
    const volatile int *cancelled;
    uint32_t rank, size;
    uint32_t *local; /* [locals]: the ranks of this host, ascending */
    uint32_t locals;
    int fd; /* control's */
    yk__shm_place *place; /* [size] */
    uint64_t place_bytes;
    yk_status (*watch)(void *arg, uint32_t peer, yk_error *err);
    void *watch_arg;
    yk__control_wait sleep_wait; /* of the sleep on a word, from one call to the next */
    uint32_t sleep_seen;
    yk__shm_block *block;
    size_t n_block, block_cap;
    yk__shm_gap *gap;
    size_t n_gap, gap_cap;
    uint32_t made, released; /* blocks so far */
    uint64_t end;            /* of the object, as far as agreed on */
};

#endif
