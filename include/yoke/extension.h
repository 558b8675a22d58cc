/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Extensions of the compute ABI: families of functions that a plugin may offer beside its table. yk_plugin.extension(NAME) gives
 * a pointer to the struct, or NULL. Names end in a version; a struct grows at its end like every table, and what would change
 * its meaning is a new name.
 */
#ifndef YOKE_EXTENSION_H
#define YOKE_EXTENSION_H

#include <yoke/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- yk.coll.1: collectives that devices do among themselves ----------------------------------------------------- */

#define YK_EXT_COLL "yk.coll.1"

typedef struct yk_comm yk_comm; /* opaque; owned by the plugin: a device's membership among `ranks` others */

enum { /* flags */
    YK_COLL_FIXED_ORDER = 1,   /* sums do not depend on timing, and all members get the same bits */
    YK_COLL_ONE_PER_DEVICE = 2 /* a device is a member once: two ranks on one cannot both join */
};

typedef enum yk_coll_kind {
    YK_COLL_ALL_REDUCE,     /* src and dst: count elements; dst = sum over members */
    YK_COLL_REDUCE_SCATTER, /* src: ranks * count elements; dst: count of them, the member's own part, summed */
    YK_COLL_ALL_GATHER,     /* src: count elements; dst: ranks * count, by rank */
    YK_COLL_BROADCAST       /* src of member `root` to dst of all */
} yk_coll_kind;

/*
 * One collective. All members give the same kind, type, wire, count and root, in the same order. src and dst do not overlap, but for
 * what lies in place: one place of ALL_REDUCE and BROADCAST, and of REDUCE_SCATTER the dst that is the member's own part of src. Of
 * src then only what dst covers is defined afterwards. Nothing outside of dst changes else.
 *
 * Sums: elements of f32 are added in f32. Of a narrower type each sum of two may be rounded to it, to nearest even, and of two members
 * one is. A wire narrower than dtype: each element is rounded to it before it is added or moved, the member's own too, and each sum of
 * two may be. A move keeps the bits of numbers, of -0 too. YK_E_UNSUPPORTED: a type, a wire or ALL_GATHER that a plugin does not have;
 * the other three kinds of f32 the host calls wherever devices are joined.
 */
typedef struct yk_coll_op {
    uint32_t size, kind;  /* yk_coll_kind */
    uint32_t dtype, wire; /* yk_dtype: of the elements; what travels (the same, or a narrower float) */
    uint32_t root, n_wait;
    const yk_wait *wait;  /* start only when these points are done */
    yk_buffer *src, *dst;
    uint64_t src_offset, dst_offset, count; /* bytes; elements */
} yk_coll_op;

typedef struct yk_coll {
    uint32_t size, flags; /* YK_COLL_* */
    /* Which devices of a host can be joined: those with equal names. "": with none. [any] */
    yk_status (*island)(yk_device *dev, char name[64]);
    /* Made by rank 0 of an island; the host carries it to the others. At most 256 bytes. [any] */
    yk_status (*ticket)(yk_device *dev, uint8_t ticket[256], uint32_t *bytes);
    /* Each member once, with the ticket; returns when all have come. [any] */
    yk_status (*join)(yk_device *dev, const uint8_t *ticket, uint32_t bytes, uint32_t rank, uint32_t ranks, yk_comm **comm);
    void (*leave)(yk_comm *comm); /* what runs is over or aborted [one] */
    /* Collectives of this comm that have not ended fail, here and, sooner or later, elsewhere; so does a queue that one was given to,
     * with YK_E_CANCELLED or what else ended it, for good. [any] */
    void (*abort)(yk_comm *comm);
    /* Enqueued as a run is: in order with what the queue was given, completed by the point. Failures are the queue's. [one] per
     * queue */
    yk_status (*run)(yk_queue *q, yk_comm *comm, const yk_coll_op *op, uint64_t *point);
} yk_coll;

/* ---- yk.share.1: buffers that another process of the machine uses -------------------------------------------------- */

#define YK_EXT_SHARE "yk.share.1"

typedef enum yk_share_kind {
    YK_SHARE_MEMORY_FD, /* a file descriptor that mmap takes */
    YK_SHARE_DMA_BUF,   /* a dma-buf file descriptor */
    YK_SHARE_OPAQUE     /* a vendor's handle, for a device of the same kind */
} yk_share_kind;

typedef struct yk_share_handle {
    uint32_t size, kind; /* yk_share_kind */
    int32_t fd;          /* -1: none; the receiver's own number after it was passed on */
    uint32_t reserved;
    uint64_t bytes;      /* of the buffer */
    uint8_t data[128];   /* of YK_SHARE_OPAQUE */
} yk_share_handle;

typedef struct yk_share {
    uint32_t size, kinds; /* bit 1 << yk_share_kind for each that can be made */
    /* Of a buffer made with YK_BUF_EXPORT. The descriptor is the caller's to close. [any] */
    yk_status (*export_buffer)(yk_buffer *b, uint32_t kind, yk_share_handle *handle);
    /* The same memory as a buffer of this device; the descriptor stays the caller's. Freed with buffer_free. [any] */
    yk_status (*import_buffer)(yk_device *dev, const yk_share_handle *handle, yk_buffer **b);
} yk_share;

#ifdef __cplusplus
}
#endif
#endif
