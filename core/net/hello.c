/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hello, by which the two ends of a new connection prove that they know the job's secret. It is a state machine over three messages of
 * one form, and never blocks. assemble.c and the socket transport step it, each in its own thread.
 *
 * The form: magic, version and kind, role, stream, rank, peer, ranks, loopback, job, nonce, proof. Apart from magic and version, no field
 * is trusted before the proof is checked.
 */
#include "core/net/hello.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "core/net/bytes.h"

#define HELLO_MAGIC 0x4f4c4859u /* "YHLO" */

enum { AT_MAGIC = 0, AT_VERSION = 4, AT_ROLE = 8, AT_STREAM = 12, AT_RANK = 16, AT_PEER = 20, AT_RANKS = 24, AT_LOOPBACK = 28, AT_JOB = 32,
       AT_NONCE = 40, AT_PROOF = 72 };

_Static_assert(AT_PROOF + YK__AUTH_BYTES == YK__HELLO_BYTES, "the form of a message");

static uint8_t *message_at(yk__hello *h, uint32_t message)
{
    return h->said + message * YK__HELLO_BYTES;
}

/* The connecting side writes HELLO and PROOF. */
static bool is_own(const yk__hello *h, uint32_t message)
{
    return h->connects == (message != 1);
}

/* The proof covers every message so far, except the last one's own proof. */
static void make_proof(const yk__hello *h, uint32_t message, uint8_t proof[YK__AUTH_BYTES])
{
    const uint8_t *key = message == 1 ? h->accept_key : h->connect_key;
    yk__auth_mac(key, h->said, message * YK__HELLO_BYTES + AT_PROOF, proof);
}

static void write_message(yk__hello *h)
{
    uint8_t *to = message_at(h, h->message);
    memset(to, 0, YK__HELLO_BYTES);
    yk__bytes_put32(to + AT_MAGIC, HELLO_MAGIC);
    yk__bytes_put32(to + AT_VERSION, YK__HELLO_VERSION << 16 | h->message);
    yk__bytes_put32(to + AT_ROLE, h->role);
    yk__bytes_put32(to + AT_STREAM, h->stream);
    yk__bytes_put32(to + AT_RANK, h->rank);
    yk__bytes_put32(to + AT_PEER, h->peer);
    yk__bytes_put32(to + AT_RANKS, h->ranks);
    yk__bytes_put32(to + AT_LOOPBACK, h->loopback);
    yk__bytes_put64(to + AT_JOB, h->job);
    yk__auth_random(to + AT_NONCE, AT_PROOF - AT_NONCE);
    make_proof(h, h->message, to + AT_PROOF);
}

static yk_status check_proof(yk__hello *h, const uint8_t *from, yk_error *err)
{
    const uint32_t version = yk__bytes_get32(from + AT_VERSION);
    uint8_t proof[YK__AUTH_BYTES];
    if (yk__bytes_get32(from + AT_MAGIC) != HELLO_MAGIC)
        return yk__fail(err, YK_E_FORMAT, "it sent no hello of Yoke");
    if (version >> 16 != YK__HELLO_VERSION)
        return yk__fail(err, YK_E_FORMAT, "its hello has version %u, this Yoke's has %u: run the same Yoke on all hosts",
                        version >> 16, YK__HELLO_VERSION);
    make_proof(h, h->message, proof);
    if (!yk__auth_equal(proof, from + AT_PROOF, sizeof proof))
        return yk__fail(err, YK_E_FORMAT, "its hello proves no knowledge of this job's secret");
    return YK_OK;
}

/* Compares the fields of a proven message. They differ if two jobs share a secret, or if an address leads to another rank. */
static yk_status check_fields(const yk__hello *h, const uint8_t *from, yk_error *err)
{
    const uint32_t rank = yk__bytes_get32(from + AT_RANK), peer = yk__bytes_get32(from + AT_PEER);
    const uint32_t stream = yk__bytes_get32(from + AT_STREAM), role = yk__bytes_get32(from + AT_ROLE);
    if ((yk__bytes_get32(from + AT_VERSION) & 0xffff) != h->message)
        return yk__fail(err, YK_E_FORMAT, "message %u of its hello has another form", h->message);
    if (yk__bytes_get64(from + AT_JOB) != h->job)
        return yk__fail(err, YK_E_FORMAT, "it is of another job, number %llx; this is %llx",
                        (unsigned long long)yk__bytes_get64(from + AT_JOB), (unsigned long long)h->job);
    if (yk__bytes_get32(from + AT_RANKS) != h->ranks || rank >= h->ranks || rank == h->rank)
        return yk__fail(err, YK_E_FORMAT, "it is rank %u of %u; this is rank %u of %u", rank, yk__bytes_get32(from + AT_RANKS),
                        h->rank, h->ranks);
    if (peer != h->rank || (h->expected != YK__HELLO_ANY && rank != h->expected))
        return yk__fail(err, YK_E_FORMAT, "rank %u takes this for rank %u; here is rank %u, which connects to rank %u", rank, peer,
                        h->rank, h->expected);
    if (role != h->role || (h->message ? stream != h->stream : stream >= h->streams))
        return yk__fail(err, YK_E_FORMAT, "rank %u connects for another use: role %u, stream %u", rank, role, stream);
    return YK_OK;
}

/* The keys hold for this connection alone, as the hashed messages contain both nonces. */
static void make_keys(yk__hello *h)
{
    uint8_t *connecting = h->connects ? h->send_key : h->recv_key, *accepting = h->connects ? h->recv_key : h->send_key;
    yk__auth_derive(h->session_key, sizeof h->session_key, "from the connecting side", h->said, sizeof h->said, connecting);
    yk__auth_derive(h->session_key, sizeof h->session_key, "from the accepting side", h->said, sizeof h->said, accepting);
}

static void begin_message(yk__hello *h, uint32_t message)
{
    h->message = message;
    h->moved = 0;
    if (message == 3) {
        make_keys(h);
        h->state = YK__HELLO_DONE;
    } else if (is_own(h, message)) {
        write_message(h);
        h->state = YK__HELLO_WRITE;
    } else {
        h->state = YK__HELLO_READ;
    }
}

/* Each end's own port must be the peer port of the other end. A proxy or tunnel between two loopback devices changes a port. */
static bool ports_fit(uint32_t own, uint32_t other)
{
    return own && other == (own << 16 | own >> 16);
}

static yk_status take_message(yk__hello *h, yk_error *err)
{
    const uint8_t *from = message_at(h, h->message);
    if (check_proof(h, from, err) || check_fields(h, from, err))
        return err->status;
    h->peer = h->expected = yk__bytes_get32(from + AT_RANK); /* take_message compares it in later messages too */
    h->stream = yk__bytes_get32(from + AT_STREAM);
    h->is_loopback = ports_fit(h->loopback, yk__bytes_get32(from + AT_LOOPBACK));
    return YK_OK;
}

yk_status yk__hello_begin(yk__hello *h, const yk__hello_config *c, bool connects, yk_error *err)
{
    if (yk__auth_init(err))
        return err->status;
    if (!c->secret || c->secret_bytes < YK__AUTH_SECRET_LEAST)
        return yk__fail(err, YK_E_ARG, "the job's secret has %u bytes; it takes %u at least", c->secret ? c->secret_bytes : 0,
                        YK__AUTH_SECRET_LEAST);
    if (c->rank >= c->ranks || (connects && (c->peer >= c->ranks || c->peer == c->rank)))
        return yk__fail(err, YK_E_ARG, "a connection of rank %u to rank %u of %u", c->rank, c->peer, c->ranks);
    *h = (yk__hello){.connects = connects, .job = c->job, .rank = c->rank, .peer = c->peer, .expected = c->peer, .ranks = c->ranks,
                     .role = c->role, .stream = connects ? c->stream : 0, .streams = c->stream,
                     .loopback = c->loopback};
    yk__auth_derive(c->secret, c->secret_bytes, "yoke hello: connecting side", NULL, 0, h->connect_key);
    yk__auth_derive(c->secret, c->secret_bytes, "yoke hello: accepting side", NULL, 0, h->accept_key);
    yk__auth_derive(c->secret, c->secret_bytes, "yoke session", NULL, 0, h->session_key);
    begin_message(h, 0);
    return YK_OK;
}

/* Moves bytes of the message in progress; *all: the message is complete. */
static yk_status move_bytes(yk__hello *h, int fd, bool *all, yk_error *err)
{
    uint8_t *at = message_at(h, h->message) + h->moved;
    const size_t left = YK__HELLO_BYTES - h->moved;
    ssize_t n;
    do
        n = is_own(h, h->message) ? send(fd, at, left, MSG_NOSIGNAL | MSG_DONTWAIT) : recv(fd, at, left, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
        return yk__fail(err, YK_E_IO, "the connection failed in message %u of its hello: %s", h->message, strerror(errno));
    if (n == 0)
        return yk__fail(err, YK_E_IO, "the connection ended after %u bytes of message %u of its hello", h->moved, h->message);
    h->moved += n > 0 ? (uint32_t)n : 0;
    *all = h->moved == YK__HELLO_BYTES;
    return YK_OK;
}

yk_status yk__hello_step(yk__hello *h, int fd, yk_error *err)
{
    while (h->state != YK__HELLO_DONE) {
        bool all = false;
        if (move_bytes(h, fd, &all, err))
            return err->status;
        if (!all)
            return YK_OK;
        if (!is_own(h, h->message) && take_message(h, err))
            return err->status;
        begin_message(h, h->message + 1);
    }
    return YK_OK;
}

void yk__hello_end(yk__hello *h)
{
    yk__auth_wipe(h, sizeof *h);
}
