/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the ofi transport share.
 *
 * Frames are what libfabric carries: at most YK__OFI_FRAME bytes, from and into memory of the transport's own, so that an operation can be
 * given up at any time, whatever the provider does with a peer that is gone. A frame is a head of 48 bytes, little-endian, its payload,
 * and a MAC:
 *   u64 number of the frame | u32 kind | u32 bytes of payload | u64 tag | u64 bytes of the message | u64 number of the long message |
 *   u64 place in it | payload | 16 bytes of MAC, keyed for these two ranks in this direction, over all before
 * The next frame of a rank is the one with the next number; others were sent by somebody else, or once more.
 *
 * Messages are made of frames as those of sock are (transport/sock/internal.h): short ones whole, long ones announced, asked for when
 * their receive is there, and sent in segments.
 */
#ifndef YOKE_TRANSPORT_OFI_INTERNAL_H
#define YOKE_TRANSPORT_OFI_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_tagged.h>

#include "core/net/auth.h"
#include "transport/ofi/ofi.h"
#include "transport/op.h"

enum {
    YK__OFI_HEAD = 48, /* bytes */
    YK__OFI_MAC = 16,
    YK__OFI_EAGER = 64 << 10,   /* a message of at most so many bytes is short */
    YK__OFI_SEGMENT = 128 << 10, /* of a long one, at most */
    YK__OFI_FRAME = YK__OFI_HEAD + YK__OFI_SEGMENT + YK__OFI_MAC,
    YK__OFI_DEPTH = 4,          /* frames under way between two ranks, in each direction */
    YK__OFI_STRANGERS = 32,     /* receives for what is not of this job: one for each bit of the prefix */
    YK__OFI_NAME = 64           /* bytes of a provider's name, with its end */
};

typedef enum yk__ofi_kind {
    YK__OFI_HELLO = 1, /* the first frame */
    YK__OFI_SHORT,     /* a message */
    YK__OFI_ANNOUNCE,  /* there is a long one */
    YK__OFI_ASK,       /* the receive for it is there */
    YK__OFI_REFUSE,    /* its receive is too small; it is not to be sent */
    YK__OFI_SEGMENTS,  /* a part of it */
    YK__OFI_REVOKE,    /* it is given up */
    YK__OFI_BYE,       /* the rank closes; nothing but BYE_SEEN comes behind it */
    YK__OFI_BYE_SEEN   /* all before the peer's BYE has come */
} yk__ofi_kind;

typedef struct yk__ofi_head {
    uint64_t sequence;
    uint32_t kind, bytes;
    uint64_t tag, total, number, place;
} yk__ofi_head;

/* A message without its receive. */
typedef struct yk__ofi_early {
    struct yk__ofi_early *next;
    uint64_t tag, total;
    uint64_t number; /* of a long one, which is still with the sender; 0: a short one, */
    uint8_t data[];  /* which is here */
} yk__ofi_early;

/* A frame without payload that waits to be sent. */
typedef struct yk__ofi_talk {
    struct yk__ofi_talk *next;
    yk__ofi_kind kind;
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
    yk_tr_op *sends;         /* short messages and announcements, in order */
    yk_tr_op *announced;     /* long ones that wait to be asked for */
    yk_tr_op *asked;         /* long ones whose bytes are being sent, in order */
    yk_tr_op *recvs;         /* in order */
    yk__ofi_early *early;    /* in order */
    uint64_t numbers;
    bool greeted; /* its first frame has come */
    bool gone;    /* it has closed, or has seen that this rank does */
    bool lost;    /* the provider says that it cannot be reached: */
    bool failed;  /* .. and for so long that operations fail */
    int64_t lost_ms;
    char why[160];
} yk__ofi_peer;

struct yk_tr {
    uint32_t rank, ranks;
    uint64_t *host;      /* [ranks] */
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
    pthread_mutex_t lock; /* of all that changes after open, of libfabric's objects too */
    uint64_t events;      /* operations that were done */
    bool closing;
    bool refused;     /* a stranger's frame was logged */
    yk_status failed; /* a rank sent what cannot be: every call says why */
    yk_tr_error why;
    yk_status (*check)(void *exchange_arg, yk_tr_error *error); /* of the configuration; NULL: there is none */
    void *exchange_arg;
};

/* provider.c: what this host has for an endpoint at that address (NULL: the loopback interface); released with fi_freeinfo. */
yk_status yk__ofi_provider(const char *address, struct fi_info **info, yk_tr_error *error);
yk_status yk__ofi_describe(char *text, uint64_t capacity);

/* open.c */
yk_status yk__ofi_open(const yk_tr_config *config, yk_tr **t, yk_tr_error *error);
void yk__ofi_close(yk_tr *t);

/* frame.c; under the lock. */
/* Gives the provider what there is to send, and takes what has come. *moved: there was something. */
yk_status yk__ofi_move(yk_tr *t, bool *moved, yk_tr_error *error);
/* All receives that wait for frames. */
yk_status yk__ofi_post_all(yk_tr *t, yk_tr_error *error);
bool yk__ofi_unsent(const yk_tr *t, uint32_t peer);

/* message.c; under the lock. */
void yk__ofi_finish(yk_tr *t, yk_tr_op *op);
yk_status yk__ofi_say(yk_tr *t, uint32_t peer, yk__ofi_kind kind, uint64_t number, yk_tr_error *error);
/* The next frame for a peer: its head, and its payload at `to`. False: there is none. */
bool yk__ofi_next(yk_tr *t, uint32_t peer, yk__ofi_head *head, uint8_t *to);
/* A frame that is known to be the peer's. */
yk_status yk__ofi_take(yk_tr *t, uint32_t peer, const yk__ofi_head *head, const uint8_t *payload, yk_tr_error *error);
/* A receive that was just posted takes what came before it. */
yk_status yk__ofi_adopt(yk_tr *t, yk_tr_op *op, yk_tr_error *error);
void yk__ofi_cancel(yk_tr *t, yk_tr_op *op);
/* All operations with a peer fail. */
void yk__ofi_fail_peer(yk_tr *t, uint32_t peer);

#endif
