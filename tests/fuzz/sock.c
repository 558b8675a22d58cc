/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes that come in over the two streams of a rank of the sock transport: heads, short messages and segments, cut anywhere, with and
 * without receives, and cancelled operations. The first byte of the input selects MACs, and good ones, so that the code after the check
 * is reached; without good ones no message may count. Then follow parts, each a byte that selects a frame (a head, its payload), raw
 * bytes, or a call.
 */
#include "config.h"

#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "tests/fuzz/mutate.h"
#include "transport/sock/sock_internal.h"

enum { STREAMS = 2, RECEIVES = 3, SENDS = 2, LENGTH = 100000, HEAD = YK__MATCH_HEAD };
enum { MOST = YK__SOCK_SEGMENT + YK__SOCK_HEAD + YK__SOCK_TAIL };
enum { MACS = 1, PROVEN = 2 };                                     /* flags of the first byte */
enum { STREAM = 1, BYTES = 2, FILL = 4, CALL = 8, CUT_SHIFT = 4 }; /* flags of a part's byte */

typedef struct lab {
    yk_tr t;
    yk__sock_peer peer[2];
    int far[STREAMS]; /* the other end */
    uint64_t sealed[STREAMS];
    bool proven, failed;
    yk_tr_op *op[RECEIVES + SENDS];
    uint8_t *block;
    yk_tr_error error;
} lab;

static const uint8_t key[YK__AUTH_BYTES] = "a key that the fuzzer knows ...";
static long accepted; /* parts with a good MAC; without MACs receives that were filled */

/* ---- The rank -------------------------------------------------------------------------------------------------------- */

static void stream_open(lab *l, uint32_t i, uint32_t mac_bytes)
{
    yk__sock_stream *stream = &l->peer[1].stream[i];
    int fd[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd))
        abort();
    *stream = (yk__sock_stream){.fd = fd[0], .peer = 1, .number = i};
    stream->in.capacity = i ? YK__SOCK_INPUT_SEGMENTS : YK__SOCK_INPUT;
    stream->in.data = malloc(stream->in.capacity);
    stream->in.mac_bytes = stream->out.mac_bytes = mac_bytes;
    memcpy(stream->in.key, key, sizeof key);
    memcpy(stream->out.key, key, sizeof key);
    l->far[i] = fd[1];
}

static void op_post(lab *l, uint32_t i)
{
    static const uint64_t bytes[RECEIVES + SENDS] = {LENGTH, 10, LENGTH, LENGTH, 10};
    const bool send = i >= RECEIVES;
    yk__match *match = &l->peer[1].match;
    if (yk__tr_op_new(sizeof **l->op, 0, 1, true, send ? 5 : i % 2, &(yk_tr_range){.data = l->block + i % RECEIVES * LENGTH,
                                                                                  .bytes = bytes[i]}, &l->op[i], &l->error))
        abort();
    l->op[i]->is_send = send;
    if (send)
        yk__match_send(match, l->op[i]);
    else
        l->failed = l->failed || yk__match_recv(match, l->op[i], &l->error);
    l->failed = l->failed || yk__sock_write_peer(&l->t, 1, &l->error);
}

static void op_cancel(lab *l, uint32_t i)
{
    bool revoke;
    if (!l->op[i])
        return;
    yk__match_cancel(&l->peer[1].match, l->op[i], &revoke);
    if (l->op[i]->is_send)
        yk__sock_detach_send(&l->t, l->op[i]);
    if (revoke)
        yk__sock_say(&l->t, 1, YK__MATCH_REVOKE, l->op[i]->number, &l->error);
    yk__free(l->op[i]);
    l->op[i] = NULL;
}

static long count_received(const lab *l)
{
    long n = 0;
    for (uint32_t i = 0; i < RECEIVES; i++)
        n += l->op[i] && l->op[i]->done;
    return n;
}

static void lab_open(lab *l, int how)
{
    static const yk__match_calls calls = {.say = yk__sock_say, .detach = yk__sock_detach_recv};
    memset(l, 0, sizeof *l);
    l->t.base.ranks = 2;
    l->t.streams = STREAMS;
    l->t.peer = l->peer;
    l->t.poll = l->t.bell = -1;
    l->proven = how & PROVEN;
    l->block = malloc(RECEIVES * LENGTH); /* a separate block, so that a sanitizer sees a write past the end */
    l->peer[1].match = (yk__match){.calls = &calls, .t = &l->t, .peer = 1, .events = &l->t.base.events};
    for (uint32_t i = 0; i < YK__SOCK_STREAMS; i++)
        l->peer[0].stream[i].fd = l->peer[1].stream[i].fd = -1;
    for (uint32_t i = 0; i < STREAMS; i++)
        stream_open(l, i, how & MACS ? YK__MAC_BYTES : 0);
    for (uint32_t i = 0; i < RECEIVES + SENDS; i++)
        op_post(l, i);
}

static void lab_close(lab *l)
{
    for (uint32_t i = 0; i < RECEIVES + SENDS; i++)
        op_cancel(l, i);
    for (uint32_t i = 0; i < STREAMS; i++) {
        yk__sock_stream *stream = &l->peer[1].stream[i];
        if (stream->fd >= 0)
            close(stream->fd);
        close(l->far[i]);
        free(stream->in.data);
        yk__free(stream->out.data);
    }
    yk__match_drop_early(&l->peer[1].match);
    free(l->block);
}

/* Input */

/* Reads what came, and takes out of the way what the rank says. */
static void rank_move(lab *l)
{
    static uint8_t said[1 << 16];
    for (uint32_t i = 0; i < STREAMS && !l->failed; i++) {
        yk__sock_stream *stream = &l->peer[1].stream[i];
        if (stream->fd >= 0)
            l->failed = yk__sock_read(&l->t, stream, &l->error);
        while (recv(l->far[i], said, sizeof said, 0) > 0)
            ;
        if (!l->failed && stream->fd >= 0)
            l->failed = yk__sock_write(&l->t, stream, &l->error);
    }
}

static void bytes_come(lab *l, uint32_t stream, const uint8_t *data, size_t bytes)
{
    while (bytes && !l->failed && l->peer[1].stream[stream].fd >= 0) {
        const ssize_t n = send(l->far[stream], data, bytes, MSG_NOSIGNAL);
        data += n > 0 ? n : 0;
        bytes -= n > 0 ? (size_t)n : 0;
        rank_move(l);
    }
}

static size_t part_seal(lab *l, uint32_t stream, uint8_t *at, size_t bytes)
{
    const uint32_t mac_bytes = l->peer[1].stream[stream].in.mac_bytes;
    if (mac_bytes && l->proven)
        yk__mac_of(key, l->sealed[stream]++, at, bytes, at + bytes);
    return bytes + mac_bytes;
}

/* A head and its payload, cut in two. The payload is zeros (FILL), or the input's, as far as that goes. How much of the input that took. */
static size_t frame_come(lab *l, int how, const uint8_t *data, size_t size)
{
    static uint8_t frame[MOST];
    const uint32_t stream = how & STREAM;
    const yk__match_head head = yk__match_head_decode(data);
    const size_t most = how & FILL ? YK__SOCK_SEGMENT : size - HEAD < YK__SOCK_SEGMENT ? size - HEAD : YK__SOCK_SEGMENT;
    const size_t payload = head.bytes < most ? head.bytes : most, taken = how & FILL ? 0 : payload;
    const size_t tail = head.kind == YK__MATCH_SEGMENT; /* the byte that says that the segment is whole */
    size_t bytes, cut;
    memcpy(frame, data, HEAD);
    memset(frame + HEAD, 0, YK__MAC_BYTES);
    bytes = part_seal(l, stream, frame, HEAD);
    if (payload) {
        memcpy(frame + bytes, data + HEAD, taken);
        memset(frame + bytes + taken, 0, payload - taken + YK__SOCK_TAIL);
        frame[bytes + payload] = (uint8_t)tail;
        bytes += part_seal(l, stream, frame + bytes, payload + tail);
    }
    cut = bytes * (size_t)(how >> CUT_SHIFT) / 16;
    bytes_come(l, stream, frame, cut);
    bytes_come(l, stream, frame + cut, bytes - cut);
    return HEAD + taken;
}

static void part_call(lab *l, int which)
{
    const uint32_t i = (uint32_t)which % (RECEIVES + SENDS);
    if (l->op[i])
        op_cancel(l, i);
    else
        op_post(l, i);
}

static void parts_come(lab *l, const uint8_t *data, size_t size)
{
    while (size > 1 && !l->failed) {
        const int how = data[0];
        size_t n = 0;
        data++;
        size--;
        if (how & CALL)
            part_call(l, how >> CUT_SHIFT);
        else if (how & BYTES)
            bytes_come(l, how & STREAM, data, n = (size_t)(how >> CUT_SHIFT) + 1 < size ? (size_t)(how >> CUT_SHIFT) + 1 : size);
        else if (size >= HEAD)
            n = frame_come(l, how, data, size);
        else
            return;
        data += n;
        size -= n;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static lab l;
    uint64_t proven;
    if (!size)
        return 0;
    lab_open(&l, data[0]);
    parts_come(&l, data + 1, size - 1);
    proven = l.peer[1].stream[0].in.number + l.peer[1].stream[1].in.number;
    if (data[0] & MACS && !l.proven && proven)
        abort(); /* nobody makes a MAC by chance */
    accepted += data[0] & MACS ? (long)proven : count_received(&l);
    lab_close(&l);
    return 0;
}

#ifndef YK_LIBFUZZER
#define WORD(byte) byte "\0\0\0"
#define LONG(byte) WORD(byte) WORD("\0")
#define HEAD_OF(kind, bytes, tag, total, number, place) WORD(kind) bytes LONG(tag) total LONG(number) place
#define FRAME(kind, bytes, tag, total, number, place) HEAD_OF(kind, WORD(bytes), tag, LONG(total), number, LONG(place))
#define LARGE "\240\206\1\0" /* 100000 */
#define SEED(text) {text, sizeof text - 1}

/* Messages to a receive and to none; a long one, announced, in two segments and cut; a long one of ours that is asked for. */
static const fuzz_seed seeds[] = {
    SEED("\0" FRAME("\1", "\4", "\1", "\4", "\0", "\0") "four" "\160" FRAME("\1", "\4", "\7", "\4", "\0", "\0") "kept"
         "\60" FRAME("\1", "\0", "\0", "\0", "\0", "\0")),
    SEED("\0" HEAD_OF("\2", WORD("\0"), "\0", LARGE WORD("\0"), "\1", LONG("\0"))
         "\65" HEAD_OF("\5", "\100\234\0\0", "\0", LARGE WORD("\0"), "\1", LONG("\0"))
         "\5" HEAD_OF("\5", "\140\352\0\0", "\0", LARGE WORD("\0"), "\1", "\100\234\0\0" WORD("\0"))
         "\0" FRAME("\6", "\0", "\0", "\0", "\1", "\0")),
    SEED("\0" FRAME("\3", "\0", "\0", "\0", "\1", "\0") "\70\0" FRAME("\4", "\0", "\0", "\0", "\1", "\0") "\10\0"
         FRAME("\1", "\4", "\1", "\4", "\0", "\0") "four"),
};

int main(void)
{
    static const int how[] = {0, MACS | PROVEN, MACS};
    const int n = (int)(sizeof seeds / sizeof seeds[0]), ways = (int)(sizeof how / sizeof how[0]);
    printf("1..%d\n", n * ways);
    for (int i = 0; i < n * ways; i++) {
        const int way = how[i / n];
        const bool good = way != MACS;
        bool ok;
        accepted = 0;
        fuzz_run(&seeds[i % n], way, 0);
        ok = good == (accepted > 0);
        fuzz_run(&seeds[i % n], way, good ? 1500 : 500);
        ok = ok && good == (accepted > 0);
        printf("%sok %d - streams %s, frames %d: the seed is %s, %ld accepted\n", ok ? "" : "not ", i + 1,
               !way ? "without MACs" : good ? "with good MACs" : "with others' MACs", i % n, good ? "good" : "refused", accepted);
        fflush(stdout);
    }
    return 0;
}
#endif
