/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Extensions of the compute ABI: optional families of functions of a plugin. yk_plugin.extension(NAME) returns a pointer to the struct;
 * NULL if absent. Names end in a version. A struct grows at its end, as every table does; a change of its meaning takes a new name.
 */
#ifndef YOKE_EXTENSION_H
#define YOKE_EXTENSION_H

#include <yoke/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- yk.coll.1: collectives among devices ------------------------------------------------------------------------ */

#define YK_EXT_COLL "yk.coll.1"

typedef struct yk_comm yk_comm; /* opaque, owned by the plugin: a device's membership in a group of `ranks` */

enum { /* flags */
    YK_COLL_FIXED_ORDER = 1,   /* sums do not depend on timing, and all members get the same bits */
    YK_COLL_ONE_PER_DEVICE = 2 /* a device joins once: two ranks on one device cannot both join */
};

typedef enum yk_coll_kind {
    YK_COLL_ALL_REDUCE,     /* src and dst: count elements; dst = sum over members */
    YK_COLL_REDUCE_SCATTER, /* src: ranks * count elements; dst: count of them, the member's own part, summed */
    YK_COLL_ALL_GATHER,     /* src: count elements; dst: ranks * count, by rank */
    YK_COLL_BROADCAST       /* src of member `root` to dst of all members */
} yk_coll_kind;

/*
 * One collective. All members give the same kind, type, wire, count and root, in the same order. Memory of src and dst does not overlap,
 * with two exceptions. ALL_REDUCE and BROADCAST may have src = dst, and REDUCE_SCATTER's dst may be the member's own part of src. In the
 * latter case only dst's part of src is defined afterwards. Otherwise nothing outside of dst changes.
 *
 * Sums: f32 elements are added in f32. Infinities and NaNs show in the sum, as the host knows by them that numbers passed a range. With a
 * narrower type each partial sum of two may be rounded to it, to nearest even; with two members their sum is rounded once. With a wire
 * narrower than dtype, each element, the member's own included, is rounded to it before it is added or moved. Each partial sum may be
 * rounded to it too. A move keeps the bits of numbers, also of -0. A plugin returns YK_E_UNSUPPORTED for a type, a wire or ALL_GATHER that
 * it lacks. The host uses the other three kinds, in f32, wherever devices are joined.
 */
typedef struct yk_coll_op {
    uint32_t size, kind;  /* yk_coll_kind */
    uint32_t dtype, wire; /* yk_dtype of the elements; type that travels (the same, or a narrower float) */
    uint32_t root, n_wait;
    const yk_wait *wait;  /* start only when these points are done */
    yk_buffer *src, *dst;
    uint64_t src_offset, dst_offset, count; /* bytes; elements */
} yk_coll_op;

typedef struct yk_coll {
    uint32_t size, flags; /* YK_COLL_* */
    /* Name of the island of this device: devices of a host with equal names can be joined; "" if with none. [any] */
    yk_status (*island)(yk_device *dev, char name[64]);
    /* Makes a ticket of at most 256 bytes on rank 0 of an island; the host carries it to the other ranks. [any] */
    yk_status (*ticket)(yk_device *dev, uint8_t ticket[256], uint32_t *bytes);
    /* Called once per member, with the ticket; returns when all members have joined. A member may be lost: the host then leaves the call
     * behind and uses this device no more. So a time limit of the plugin's own is allowed and not needed. [any] */
    yk_status (*join)(yk_device *dev, const uint8_t *ticket, uint32_t bytes, uint32_t rank, uint32_t ranks, yk_comm **comm);
    void (*leave)(yk_comm *comm); /* no collective runs, or all are aborted [one] */
    /* Fails pending collectives of this comm, here and, sooner or later, on the other members. Their queues fail for good, with
     * YK_E_CANCELLED or the failure that came first. [any] */
    void (*abort)(yk_comm *comm);
    /* Enqueues a collective, in order with the queue's other work; the point completes it. Failures belong to the queue. [one] per
     * queue */
    yk_status (*run)(yk_queue *q, yk_comm *comm, const yk_coll_op *op, uint64_t *point);
} yk_coll;

/* ---- yk.share.1: buffers for another process of the machine -------------------------------------------------------- */

#define YK_EXT_SHARE "yk.share.1"

typedef enum yk_share_kind {
    YK_SHARE_MEMORY_FD, /* a file descriptor that mmap takes */
    YK_SHARE_DMA_BUF,   /* a dma-buf file descriptor */
    YK_SHARE_OPAQUE     /* a vendor's handle, for a device of the same kind */
} yk_share_kind;

typedef struct yk_share_handle {
    uint32_t size, kind; /* yk_share_kind */
    int32_t fd;          /* -1: none; after a transfer the receiver's own number */
    uint32_t reserved;
    uint64_t bytes;      /* size of the buffer */
    uint8_t data[128];   /* handle of YK_SHARE_OPAQUE */
} yk_share_handle;

typedef struct yk_share {
    uint32_t size, kinds; /* bit 1 << yk_share_kind for each supported kind */
    /* Exports a buffer made with YK_BUF_EXPORT. The caller closes the descriptor. [any] */
    yk_status (*export_buffer)(yk_buffer *b, uint32_t kind, yk_share_handle *handle);
    /* Makes a buffer of this device over the same memory. The caller keeps the descriptor. Freed with buffer_free. [any] */
    yk_status (*import_buffer)(yk_device *dev, const yk_share_handle *handle, yk_buffer **b);
} yk_share;

#ifdef __cplusplus
}
#endif
#endif
