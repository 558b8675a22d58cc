/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames with a number and a MAC. The MAC covers the number, so the number needs no check of its own.
 *
 * Only link.c calls these functions, with one channel for each direction of a link. Links connect hosts (core/control): an agent's
 * thread uses them during a job, and a joining rank's thread before it.
 */
#include "core/net/frame.h"

#include <string.h>

#include "core/net/bytes.h"

enum { AT_LENGTH = 0, AT_KIND = 4, AT_NUMBER = 8 };

void yk__frame_channel_init(yk__frame_channel *channel, const uint8_t key[YK__AUTH_BYTES])
{
    memcpy(channel->key, key, sizeof channel->key);
    channel->number = 0;
}

uint32_t yk__frame_seal(yk__frame_channel *out, uint32_t kind, const void *data, uint32_t bytes, uint8_t *to)
{
    uint8_t mac[YK__AUTH_BYTES];
    yk__bytes_put32(to + AT_LENGTH, bytes);
    yk__bytes_put32(to + AT_KIND, kind);
    yk__bytes_put64(to + AT_NUMBER, out->number++);
    if (bytes)
        memcpy(to + YK__FRAME_HEAD, data, bytes);
    yk__auth_mac(out->key, to, (size_t)YK__FRAME_HEAD + bytes, mac);
    memcpy(to + YK__FRAME_HEAD + bytes, mac, YK__FRAME_MAC);
    return bytes + YK__FRAME_EXTRA;
}

yk_status yk__frame_open(yk__frame_channel *in, const uint8_t *from, uint64_t have, uint32_t limit, yk__frame *frame, uint32_t *need,
                         yk_error *err)
{
    uint8_t mac[YK__AUTH_BYTES];
    uint32_t bytes;
    *frame = (yk__frame){0};
    *need = YK__FRAME_HEAD;
    if (have < YK__FRAME_HEAD)
        return YK_OK;
    bytes = yk__bytes_get32(from + AT_LENGTH);
    if (bytes > limit || bytes > YK__FRAME_MOST)
        return yk__fail(err, YK_E_IO, "a frame of %u bytes; at most %u are allowed", bytes,
                        limit < YK__FRAME_MOST ? limit : YK__FRAME_MOST);
    *need = bytes + YK__FRAME_EXTRA;
    if (have < *need)
        return YK_OK;
    yk__auth_mac(in->key, from, (size_t)YK__FRAME_HEAD + bytes, mac);
    if (!yk__auth_equal(mac, from + YK__FRAME_HEAD + bytes, YK__FRAME_MAC))
        return yk__fail(err, YK_E_IO, "a frame of %u bytes was not made by the peer, or was changed on its way", bytes);
    if (yk__bytes_get64(from + AT_NUMBER) != in->number)
        return yk__fail(err, YK_E_IO, "expected frame %llu, got %llu: a frame was lost or duplicated",
                        (unsigned long long)in->number, (unsigned long long)yk__bytes_get64(from + AT_NUMBER));
    in->number++;
    *frame = (yk__frame){.kind = yk__bytes_get32(from + AT_KIND), .bytes = bytes, .data = from + YK__FRAME_HEAD};
    return YK_OK;
}
