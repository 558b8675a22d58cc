/* SPDX-License-Identifier: Apache-2.0 */
/* What group.c and collect.c share. */
#ifndef YOKE_CORE_GROUP_INNER_H
#define YOKE_CORE_GROUP_INNER_H

#include <yoke/transport.h>

#include "core/group/group.h"

_Static_assert(YK__RANKS == YK_TR_RANKS, "as many ranks as the transport has");

#define YK_GROUP_MAIL 65536u /* bytes of a small message of one rank */

/* Counters of the transport that the collectives use. */
enum {
    YK_GROUP_FLAG_MAIL,   /* small collectives entered */
    YK_GROUP_FLAG_BUCKET, /* gradient buckets written */
    YK_GROUP_FLAG_SLICES  /* parameter slices written */
};

/* A rank's message of one small collective; two per rank, used in turn. */
typedef struct yk__group_mail {
    uint32_t sequence, kind;
    uint64_t bytes;
    uint32_t root, unused[11];
    uint8_t data[YK_GROUP_MAIL];
} yk__group_mail;

struct yk__group {
    const yk_transport *table; /* NULL: a group of one */
    yk_tr *tr;
    uint32_t rank, size;
    char *name;             /* of a group of one */
    volatile int cancelled; /* of a group of one */
    yk_error why;           /* of a group of one that was aborted */
    void **block;           /* of a group of one */
    size_t blocks, block_cap;
    yk__group_mail *mail; /* [size][2] */
    uint32_t mails, marked, reduced, slices;
};

yk_status yk__group_wait_all(yk__group *g, uint32_t flag, uint32_t value, const char *what, yk_error *err);
yk_status yk__group_check(yk__group *g, yk_error *err); /* the error of a group of one that was aborted */

#endif
