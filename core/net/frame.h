/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames: a kind and some bytes, the unit of a connection after its hello. Each frame carries its number and a MAC under the key of its
 * direction, so the reader notices a frame that was changed, dropped, repeated or reordered.
 *
 *   u32 length of the bytes | u32 kind | u64 number of the frame | bytes | 16 bytes of MAC over everything before
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
#define YK__FRAME_EXTRA (YK__FRAME_HEAD + YK__FRAME_MAC) /* bytes of a frame besides its data */
#define YK__FRAME_MOST (1u << 20)                        /* bytes in one frame, at most */

/* One direction of a connection. */
typedef struct yk__frame_channel {
    uint8_t key[YK__AUTH_BYTES];
    uint64_t number; /* number of the next frame */
} yk__frame_channel;

typedef struct yk__frame {
    uint32_t kind, bytes;
    const uint8_t *data; /* points into the `from` of yk__frame_open; NULL while the frame is incomplete */
} yk__frame;

/* key: send_key or recv_key of yk__hello. */
void yk__frame_channel_init(yk__frame_channel *channel, const uint8_t key[YK__AUTH_BYTES]);
/* Writes a frame of bytes + YK__FRAME_EXTRA to `to`; bytes is at most YK__FRAME_MOST. Returns its length. */
uint32_t yk__frame_seal(yk__frame_channel *out, uint32_t kind, const void *data, uint32_t bytes, uint8_t *to);
/* Reads the frame at the beginning of `have` received bytes. *need: bytes that the frame takes, as far as is known; once frame->data is
 * set, they are its length and the next frame follows. limit: most bytes of a frame at this time, checked before any wait or allocation.
 * YK_E_IO for a frame that is too long, out of order or not from the peer: the caller then closes the connection. */
yk_status yk__frame_open(yk__frame_channel *in, const uint8_t *from, uint64_t have, uint32_t limit, yk__frame *frame, uint32_t *need,
                         yk_error *err);

#endif
