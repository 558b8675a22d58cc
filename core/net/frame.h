/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames: a kind and some bytes, as they go over a connection after its hello. Each carries its number and a MAC under the key of its
 * direction, so that none can be changed, left off, repeated or put in another place.
 *
 *   u32 length of the bytes | u32 kind | u64 number of the frame | bytes | 16 bytes of MAC over all before
 *
 * Thread rule: one thread per direction.
 */
#ifndef YOKE_CORE_NET_FRAME_H
#define YOKE_CORE_NET_FRAME_H

#include <stdint.h>

#include "core/base/error.h"
#include "core/net/auth.h"

#define YK__FRAME_HEAD 16u
#define YK__FRAME_MAC 16u
#define YK__FRAME_EXTRA (YK__FRAME_HEAD + YK__FRAME_MAC) /* what a frame has beyond its bytes */
#define YK__FRAME_MOST (1u << 20)                        /* bytes in one frame */

/* One direction of a connection. */
typedef struct yk__frame_channel {
    uint8_t key[YK__AUTH_BYTES];
    uint64_t number; /* of the next frame */
} yk__frame_channel;

typedef struct yk__frame {
    uint32_t kind, bytes;
    const uint8_t *data; /* within what yk__frame_open was given; NULL: the frame is not complete yet */
} yk__frame;

/* key: of yk__hello. */
void yk__frame_channel_init(yk__frame_channel *channel, const uint8_t key[YK__AUTH_BYTES]);
/* Writes a frame of bytes + YK__FRAME_EXTRA to `to`; bytes is at most YK__FRAME_MOST. Returns its length. */
uint32_t yk__frame_seal(yk__frame_channel *out, uint32_t kind, const void *data, uint32_t bytes, uint8_t *to);
/* The frame at the beginning of `have` bytes that have come in. *need: how many bytes it takes in all as far as one can tell by now;
 * where frame->data is set they are its length, and the next frame follows. limit: the most bytes a frame may have at this
 * time, checked before anything is waited for or reserved. YK_E_IO for a frame that is too long, that has another number, or
 * that does not come from the peer: the connection is to be closed then. */
yk_status yk__frame_open(yk__frame_channel *in, const uint8_t *from, uint64_t have, uint32_t limit, yk__frame *frame, uint32_t *need,
                         yk_error *err);

#endif
