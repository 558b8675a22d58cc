/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of the ofi transport.
 *
 * libfabric carries frames of at most YK__OFI_FRAME bytes, from and into the transport's own memory. So an operation can be given up
 * at any time, even if the provider keeps working on a lost peer's frames. A frame is
 *   u64 number of the frame | head (transport/match.h) | payload | MAC (core/net/mac.h) of that number over all before
 * keyed for these two ranks in this direction. The next frame of a rank has the next number; a frame with another number is forged or
 * repeated.
 */
#ifndef YOKE_TRANSPORT_OFI_OFI_INTERNAL_H
#define YOKE_TRANSPORT_OFI_OFI_INTERNAL_H

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_tagged.h>

#include "core/net/mac.h"
#include "transport/base.h"
#include "transport/match.h"

enum {
    YK__OFI_HEAD = 8 + YK__MATCH_HEAD, /* bytes */
    YK__OFI_SEGMENT = 128 << 10,       /* largest payload of a frame, bytes */
    YK__OFI_FRAME = YK__OFI_HEAD + YK__OFI_SEGMENT + YK__MAC_BYTES,
    YK__OFI_DEPTH = 4,          /* pending frames between two ranks, in each direction */
    YK__OFI_STRANGERS = 32,     /* receives for messages of other jobs: one for each bit of the prefix */
    YK__OFI_NAME = 64           /* bytes of a provider's name, with its terminator */
};

/* Kinds of frames beside message frames. */
typedef enum yk__ofi_kind {
    YK__OFI_HELLO = YK__MATCH_KINDS, /* the first frame */
    YK__OFI_BYE,                     /* the rank closes; only BYE_SEEN may follow */
    YK__OFI_BYE_SEEN,                /* every frame before the peer's BYE has arrived */
    YK__OFI_BEAT                     /* an empty frame of an idle rank */
} yk__ofi_kind;

/* A frame without payload that waits to be sent. */
typedef struct yk__ofi_talk {
    struct yk__ofi_talk *next;
    uint32_t kind;
    uint64_t number;
} yk__ofi_talk;

typedef enum yk__ofi_use { YK__OFI_SENT, YK__OFI_RECEIVED, YK__OFI_STRANGE } yk__ofi_use;

typedef struct yk__ofi_buffer {
    struct fi_context2 context; /* the first member, so that a completion's context is the buffer */
    struct yk__ofi_buffer *next;
    yk__ofi_use use;
    uint32_t peer; /* for a stranger's buffer: the bit */
    uint32_t bytes;
    uint64_t sequence;
    uint8_t *data; /* [YK__OFI_FRAME]; shorter for a stranger's buffer */
} yk__ofi_buffer;

typedef struct yk__ofi_peer {
    fi_addr_t address;
    uint8_t send_key[YK__AUTH_BYTES], recv_key[YK__AUTH_BYTES];
    uint64_t sent, expected; /* numbers of the next frames */
    yk__ofi_buffer *idle;    /* free buffers to send from */
    yk__ofi_buffer *filled;  /* frames for the provider, in order */
    yk__ofi_buffer *parked;  /* frames that arrived before an earlier one */
    yk__ofi_talk *talk;      /* frames without payload, in order, before all others */
    uint32_t under_way;      /* frames that the provider has not sent yet */
    yk__match match;
    bool greeted; /* its first frame has arrived */
    bool gone;       /* it has closed, or has seen this rank's close */
    yk__line line;   /* counts frames; ended: the provider cannot reach the peer */
    bool failed;     /* the watch has found it lost: operations fail, */
    yk_tr_error why; /* with this error */
} yk__ofi_peer;

struct yk_tr {
    yk__tr_base base;
    yk__ofi_peer *peer;  /* [ranks] */
    uint64_t tag;        /* tag of all frames of the job, of 32 bits, */
    uint64_t tag_bits;   /* in the bits that the provider has */
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *ep;
    struct fid_mr *mr;   /* registration of the frames' memory; NULL if the provider needs none */
    void *desc;
    uint8_t *memory;     /* memory of all frames */
    yk__ofi_buffer *buffer;
    uint32_t buffers;
    bool closing;
    bool refused;     /* a stranger's frame was logged */
    yk_status failed; /* a rank sent an impossible frame: every call fails with why */
    yk_tr_error why;
};

#endif
