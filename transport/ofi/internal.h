/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the ofi transport share.
 *
 * Frames are what libfabric carries: at most YK__OFI_FRAME bytes, from and into memory of the transport's own, so that an operation can be
 * given up at any time, whatever the provider does with a peer that is gone. A frame is
 *   u64 number of the frame | head (transport/match.h) | payload | MAC (core/net/mac.h) of that number over all before
 * keyed for these two ranks in this direction. The next frame of a rank is the one with the next number; others were sent by somebody
 * else, or once more.
 */
#ifndef YOKE_TRANSPORT_OFI_INTERNAL_H
#define YOKE_TRANSPORT_OFI_INTERNAL_H

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_tagged.h>

#include "core/net/mac.h"
#include "transport/base.h"
#include "transport/match.h"

enum {
    YK__OFI_HEAD = 8 + YK__MATCH_HEAD, /* bytes */
    YK__OFI_SEGMENT = 128 << 10,       /* of a long message in one frame, at most */
    YK__OFI_FRAME = YK__OFI_HEAD + YK__OFI_SEGMENT + YK__MAC_BYTES,
    YK__OFI_DEPTH = 4,          /* frames under way between two ranks, in each direction */
    YK__OFI_STRANGERS = 32,     /* receives for what is not of this job: one for each bit of the prefix */
    YK__OFI_NAME = 64           /* bytes of a provider's name, with its end */
};

/* Kinds of frames beside those of messages. */
typedef enum yk__ofi_kind {
    YK__OFI_HELLO = YK__MATCH_KINDS, /* the first frame */
    YK__OFI_BYE,                     /* the rank closes; nothing but BYE_SEEN comes behind it */
    YK__OFI_BYE_SEEN,                /* all before the peer's BYE has come */
    YK__OFI_BEAT                     /* nothing, of a rank that has nothing to say */
} yk__ofi_kind;

/* A frame without payload that waits to be sent. */
typedef struct yk__ofi_talk {
    struct yk__ofi_talk *next;
    uint32_t kind;
    uint64_t number;
} yk__ofi_talk;

typedef enum yk__ofi_use { YK__OFI_SENT, YK__OFI_RECEIVED, YK__OFI_STRANGE } yk__ofi_use;

typedef struct yk__ofi_buffer {
    struct fi_context2 context; /* the first member: what a completion names is the buffer */
    struct yk__ofi_buffer *next;
    yk__ofi_use use;
    uint32_t peer; /* of a stranger's: the bit */
    uint32_t bytes;
    uint64_t sequence;
    uint8_t *data; /* [YK__OFI_FRAME]; of a stranger's less */
} yk__ofi_buffer;

typedef struct yk__ofi_peer {
    fi_addr_t address;
    uint8_t send_key[YK__AUTH_BYTES], recv_key[YK__AUTH_BYTES];
    uint64_t sent, expected; /* numbers of the next frames */
    yk__ofi_buffer *idle;    /* to send from */
    yk__ofi_buffer *filled;  /* to be given to the provider, in order */
    yk__ofi_buffer *parked;  /* came before an earlier one */
    yk__ofi_talk *talk;      /* in order, before all others */
    uint32_t under_way;      /* frames that the provider has not yet sent */
    yk__match match;
    bool greeted; /* its first frame has come */
    bool gone;       /* it has closed, or has seen that this rank does */
    yk__line line;   /* counts frames; ended: the provider says that the peer cannot be reached */
    bool failed;     /* the watch has found it lost: operations fail, */
    yk_tr_error why; /* with this */
} yk__ofi_peer;

struct yk_tr {
    yk__tr_base base;
    yk__ofi_peer *peer;  /* [ranks] */
    uint64_t tag;        /* of all frames of the job; of 32 bits, */
    uint64_t tag_bits;   /* of those that the provider has */
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *ep;
    struct fid_mr *mr;   /* of the frames' memory; NULL: the provider does not want it */
    void *desc;
    uint8_t *memory;     /* of all frames */
    yk__ofi_buffer *buffer;
    uint32_t buffers;
    bool closing;
    bool refused;     /* a stranger's frame was logged */
    yk_status failed; /* a rank sent what cannot be: every call says why */
    yk_tr_error why;
};

#endif
