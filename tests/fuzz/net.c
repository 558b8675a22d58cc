/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of a stranger to a listener, and of a peer with the secret: the hello on both sides, and frames. The first byte of the input
 * selects the case; with 8 added the bytes get good proofs, so that the code after the check is reached.
 */
#include "config.h"

#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/net/frame.h"
#include "core/net/hello.h"
#include "tests/fuzz/mutate.h"

enum { PROVEN = 8, PROOF_AT = YK__HELLO_BYTES - YK__AUTH_BYTES };

static const uint8_t secret[32] = "a secret that the fuzzer knows..";
static yk_error err;
static long accepted; /* inputs that were good */

static yk__hello hello_of(bool connects)
{
    const yk__hello_config c = {.secret = secret, .secret_bytes = sizeof secret, .job = 5, .rank = connects, .ranks = 2,
                                .peer = connects ? 0 : YK__HELLO_ANY, .role = YK__HELLO_DATA, .stream = connects ? 0 : 1};
    yk__hello h;
    if (yk__hello_begin(&h, &c, connects, &err))
        abort();
    return h;
}

/* The messages of the accepting, or of the connecting side's peer, are the input's. */
static void read_hello(bool connects, bool proven, const uint8_t *data, size_t size)
{
    yk__hello h = hello_of(connects);
    int fd[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd))
        abort();
    yk__hello_step(&h, fd[0], &err);
    for (uint32_t m = connects; m < 3 && size && !err.status && h.state != YK__HELLO_DONE; m += 2) {
        const size_t n = size < YK__HELLO_BYTES ? size : YK__HELLO_BYTES;
        uint8_t *to = h.said + m * YK__HELLO_BYTES;
        memcpy(to, data, n);
        if (proven)
            yk__auth_mac(connects ? h.accept_key : h.connect_key, h.said, m * YK__HELLO_BYTES + PROOF_AT, to + PROOF_AT);
        if (send(fd[1], to, n, 0) != (ssize_t)n)
            abort();
        yk__hello_step(&h, fd[0], &err);
        data += n;
        size -= n;
    }
    accepted += h.state == YK__HELLO_DONE;
    if (h.state == YK__HELLO_DONE && (!proven || h.peer != !connects))
        abort(); /* nobody makes a proof by chance */
    close(fd[0]);
    close(fd[1]);
}

static void read_frames(bool proven, const uint8_t *data, size_t size)
{
    yk__frame_channel in;
    uint8_t *copy = malloc(size + 1);
    yk__frame f = {.data = data};
    memcpy(copy, data, size);
    yk__frame_channel_init(&in, secret);
    for (size_t at = 0; at < size && f.data && !err.status;) {
        uint32_t need = 0;
        if (yk__frame_open(&in, copy + at, size - at, 64, &f, &need, &err) || need > 64 + YK__FRAME_EXTRA)
            break;
        if (!f.data && proven && size - at >= YK__FRAME_EXTRA) { /* the same bytes as a frame that fits */
            yk__frame_channel out = in;
            const uint32_t bytes = (uint32_t)(size - at - YK__FRAME_EXTRA);
            uint8_t *inner = malloc(bytes + 1u);
            memcpy(inner, copy + at + YK__FRAME_HEAD, bytes);
            yk__frame_seal(&out, 3, inner, bytes, copy + at);
            free(inner);
            yk__frame_open(&in, copy + at, size - at, 64, &f, &need, &err);
        }
        if (f.data && !proven)
            abort();
        accepted += f.data != NULL;
        at += need;
    }
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const int which = size ? data[0] : 0;
    memset(&err, 0, sizeof err);
    if (!size)
        return 0;
    if ((which & 7) < 2)
        read_hello(which & 1, which & PROVEN, data + 1, size - 1);
    else
        read_frames(which & PROVEN, data + 1, size - 1);
    return 0;
}

#ifndef YK_LIBFUZZER
#define HELLO "\5"
_Static_assert(YK__HELLO_VERSION == 5, "HEAD has the version of good seeds");
#define HEAD(message, from, to) \
    "\x59\x48\x4c\x4f" message "\0" HELLO "\0\2\0\0\0\0\0\0\0" from "\0\0\0" to "\0\0\0\2\0\0\0\0\0\0\0\5\0\0\0\0\0\0\0"
#define NONCE "0123456789abcdef0123456789abcdef"
#define SEED(text) {text, sizeof text - 1}

static const struct {
    int which, rounds;
    fuzz_seed seed;
} seeds[] = {
    {PROVEN, 6000, SEED(HEAD("\0", "\1", "\0") NONCE NONCE HEAD("\2", "\1", "\0") NONCE NONCE)},
    {PROVEN + 1, 6000, SEED(HEAD("\1", "\0", "\1") NONCE NONCE)},
    {0, 3000, SEED(HEAD("\0", "\1", "\0") NONCE NONCE)},
    {1, 3000, SEED(HEAD("\1", "\0", "\1") NONCE NONCE)},
    {PROVEN + 2, 6000, SEED("\x14\0\0\0\3\0\0\0\0\0\0\0\0\0\0\0 bytes and a MAC 0123456789abcdef")},
    {2, 3000, SEED("\5\0\0\0\3\0\0\0\0\0\0\0\0\0\0\0bytes0123456789abcdef")},
};

int main(void)
{
    const int n = (int)(sizeof seeds / sizeof seeds[0]);
    printf("1..%d\n", n);
    for (int i = 0; i < n; i++) {
        const bool proven = seeds[i].which & PROVEN;
        bool ok;
        accepted = 0;
        fuzz_run(&seeds[i].seed, seeds[i].which, 0);
        ok = proven == (accepted > 0);
        fuzz_run(&seeds[i].seed, seeds[i].which, seeds[i].rounds);
        printf("%sok %d - input %d: the seed is %s, %d inputs, %ld accepted\n", ok ? "" : "not ", i + 1, seeds[i].which,
               proven ? "good" : "refused", seeds[i].rounds + 1, accepted);
        if (!ok)
            printf("# %s\n", err.text);
        fflush(stdout);
    }
    return 0;
}
#endif
