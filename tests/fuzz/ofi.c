/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of a rank over the ofi transport that bear a good MAC: heads and payload of all kinds and lengths, with and without a receive.
 * The input is one frame after the other, a head without its number and its payload. Between them the receiving side cancels a receive,
 * posts one, and takes out its answers.
 */
#include "config.h"

#include <stdio.h>

#include "tests/fuzz/mutate.h"
#include "transport/ofi/ofi_internal.h"
#include "transport/ofi/ofi_message.h"

enum { HEAD = YK__MATCH_HEAD, RECEIVES = 3, LENGTH = 100000 };

static long accepted; /* frames that were good */

static void peer_end(yk_tr *t)
{
    yk__match_head head;
    static uint8_t payload[YK__OFI_SEGMENT];
    while (yk__ofi_next(t, 1, &head, payload))
        ;
    yk__match_drop_early(&t->peer[1].match);
}

static yk_tr_op *op_post(yk_tr *t, bool send, uint64_t tag, uint64_t bytes, uint8_t *data)
{
    yk_tr_error error;
    yk_tr_op *op = NULL;
    if (yk__tr_op_new(sizeof *op, 0, 1, true, tag, &(yk_tr_range){.data = data, .bytes = bytes}, &op, &error))
        abort();
    op->is_send = send;
    if (send)
        yk__match_send(&t->peer[1].match, op);
    else if (yk__match_recv(&t->peer[1].match, op, &error))
        abort();
    return op;
}

static void take_frames(yk_tr *t, const uint8_t *data, size_t size)
{
    static uint8_t answer[YK__OFI_SEGMENT];
    yk_tr_error error;
    while (size >= HEAD) {
        yk__match_head reply, head = yk__match_head_decode(data);
        data += HEAD;
        size -= HEAD;
        if (head.bytes > size) /* frame.c has compared it with what came */
            head.bytes = (uint32_t)size;
        if (yk__ofi_take(t, 1, &head, data, &error))
            return;
        accepted++;
        data += head.bytes;
        size -= head.bytes;
        yk__ofi_next(t, 1, &reply, answer);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const yk__match_calls calls = {.say = yk__ofi_say};
    yk__ofi_peer peer[2] = {{.sent = 0}};
    yk_tr t = {.base = {.ranks = 2}, .peer = peer};
    yk_tr_op *op[RECEIVES + 2];
    yk__match_head head;
    static uint8_t payload[YK__OFI_SEGMENT];
    uint8_t *block = malloc(RECEIVES * LENGTH);
    memset(block, 0, RECEIVES * LENGTH);
    peer[1].match = (yk__match){.calls = &calls, .t = &t, .peer = 1, .events = &t.base.events};
    for (uint32_t i = 0; i < RECEIVES; i++)
        op[i] = op_post(&t, false, i % 2, i == 2 ? 10 : LENGTH, block + i * LENGTH);
    op[RECEIVES] = op_post(&t, true, 5, LENGTH, block);
    op[RECEIVES + 1] = op_post(&t, true, 5, 10, block);
    yk__ofi_next(&t, 1, &head, payload);
    take_frames(&t, data, size);
    yk__ofi_cancel(&t, op[0]);
    take_frames(&t, data, size);
    for (uint32_t i = 1; i < RECEIVES + 2; i++)
        yk__ofi_cancel(&t, op[i]);
    peer_end(&t);
    free(block);
    return 0;
}

#ifndef YK_LIBFUZZER
#define WORD(byte) byte "\0\0\0"
#define LONG(byte) WORD(byte) WORD("\0")
#define FRAME(kind, bytes, tag, total, number, place) WORD(kind) WORD(bytes) LONG(tag) LONG(total) LONG(number) LONG(place)
#define HELLO FRAME("\7", "\0", "\0", "\0", "\0", "\0")
#define SEED(text) {text, sizeof text - 1}

static const fuzz_seed seeds[] = {
    SEED(HELLO FRAME("\1", "\4", "\1", "\4", "\0", "\0") "four" FRAME("\1", "\4", "\7", "\4", "\0", "\0") "kept"),
    SEED(HELLO "\2\0\0\0\0\0\0\0" LONG("\0") "\0\0\1\1\0\0\0\0" LONG("\1") LONG("\0") "\5\0\0\0\10\0\0\0" LONG("\0") "\0\0\1\1\0\0\0\0"
         LONG("\1") LONG("\0") "segments" FRAME("\6", "\0", "\0", "\0", "\1", "\0")),
    SEED(HELLO FRAME("\3", "\0", "\0", "\0", "\1", "\0") FRAME("\4", "\0", "\0", "\0", "\1", "\0")
         FRAME("\10", "\0", "\0", "\0", "\0", "\0")),
};

int main(void)
{
    const int n = (int)(sizeof seeds / sizeof seeds[0]);
    printf("1..%d\n", n);
    for (int i = 0; i < n; i++) {
        bool ok;
        accepted = 0;
        fuzz_run(&seeds[i], -1, 0);
        ok = accepted >= 3;
        fuzz_run(&seeds[i], -1, 3000);
        printf("%sok %d - frames %d: the seed is good, 3001 inputs, %ld frames accepted\n", ok ? "" : "not ", i + 1, i, accepted);
        fflush(stdout);
    }
    return 0;
}
#endif
