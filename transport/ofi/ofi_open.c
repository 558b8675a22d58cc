/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening and closing of the ofi transport, in the thread that joins or leaves a job. Every rank makes an endpoint and publishes its
 * address and provider. All ranks must have the same provider, as libfabric's providers cannot talk to each other.
 *
 * Then each rank greets each other rank, so that all connections exist before the first message. Closing ends when all sent frames have
 * arrived, or the other ranks are gone, or a time limit has passed.
 */
#include "config.h"

#include "transport/ofi/ofi_open.h"

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/base/process/signals.h"
#include "core/net/bytes.h"
#include "transport/ofi/ofi_frame.h"
#include "transport/ofi/ofi_internal.h"
#include "transport/ofi/ofi_message.h"
#include "transport/ofi/provider.h"

enum {
    OPEN_MS = 60000,  /* time limit for the greetings of all ranks */
    LINGER_MS = 1000, /* time limit of close, for sent frames */
    STRANGE_STRIDE = 64,
    NONCE = 16,
    ADDRESS = 256,
    /* layout of a rank's contact: provider, the provider's protocol and version, a nonce, the watch's thread, address */
    CONTACT_PROTOCOL = YK__OFI_NAME,
    CONTACT_LIBRARY = CONTACT_PROTOCOL + 8,
    CONTACT_NONCE = CONTACT_LIBRARY + 8,
    CONTACT_WATCH = CONTACT_NONCE + NONCE,
    CONTACT_ADDRESS_BYTES = CONTACT_WATCH + YK__WATCH_INFO,
    CONTACT_ADDRESS = CONTACT_ADDRESS_BYTES + 8,
    CONTACT = CONTACT_ADDRESS + ADDRESS
};

static yk_status fail_call(yk_tr_error *error, const yk_tr *t, const char *what, int code)
{
    return yk__tr_fail(error, YK_E_IO, "provider %s: %s: %s", t->info->fabric_attr->prov_name, what, fi_strerror(code < 0 ? -code : code));
}

/* ---- libfabric's objects -------------------------------------------------------------------------------------------- */

static yk_status domain_open(yk_tr *t, yk_tr_error *error)
{
    struct fi_cq_attr cq = {.size = (size_t)t->base.ranks * 2 * YK__OFI_DEPTH + 2 * YK__OFI_STRANGERS, .format = FI_CQ_FORMAT_MSG,
                            .wait_obj = FI_WAIT_NONE};
    struct fi_av_attr av = {.type = t->info->domain_attr->av_type, .count = t->base.ranks};
    int code = fi_fabric(t->info->fabric_attr, &t->fabric, NULL);
    if (!code)
        code = fi_domain(t->fabric, t->info, &t->domain, NULL);
    if (!code)
        code = fi_av_open(t->domain, &av, &t->av, NULL);
    if (!code)
        code = fi_cq_open(t->domain, &cq, &t->cq, NULL);
    return code ? fail_call(error, t, "opening it", code) : YK_OK;
}

static yk_status endpoint_open(yk_tr *t, yk_tr_error *error)
{
    int code = fi_endpoint(t->domain, t->info, &t->ep, NULL);
    if (!code)
        code = fi_ep_bind(t->ep, &t->av->fid, 0);
    if (!code)
        code = fi_ep_bind(t->ep, &t->cq->fid, FI_TRANSMIT | FI_RECV);
    if (!code)
        code = fi_enable(t->ep);
    return code ? fail_call(error, t, "an endpoint", code) : YK_OK;
}

static void object_close(struct fid *object)
{
    if (object)
        fi_close(object);
}

/* ---- Frames' memory ------------------------------------------------------------------------------------------------- */

static yk__ofi_buffer *buffer_set(yk_tr *t, uint32_t at, yk__ofi_use use, uint32_t peer, uint8_t *data)
{
    t->buffer[at] = (yk__ofi_buffer){.use = use, .peer = peer, .data = data};
    return &t->buffer[at];
}

static void buffers_share_out(yk_tr *t)
{
    uint8_t *at = t->memory;
    uint32_t n = 0;
    for (uint32_t r = 0; r < t->base.ranks; r++)
        for (uint32_t i = 0; i < YK__OFI_DEPTH && r != t->base.rank; i++) {
            yk__ofi_buffer *b = buffer_set(t, n++, YK__OFI_SENT, r, at);
            b->next = t->peer[r].idle;
            t->peer[r].idle = b;
            buffer_set(t, n++, YK__OFI_RECEIVED, r, at + YK__OFI_FRAME);
            at += 2 * YK__OFI_FRAME;
        }
    for (uint32_t bit = 0; bit < YK__OFI_STRANGERS; bit++, at += STRANGE_STRIDE)
        buffer_set(t, n++, YK__OFI_STRANGE, bit, at);
    t->buffers = n;
}

static yk_status buffers_new(yk_tr *t, yk_tr_error *error)
{
    const size_t frames = (size_t)(t->base.ranks - 1) * 2 * YK__OFI_DEPTH;
    const size_t bytes = frames * YK__OFI_FRAME + YK__OFI_STRANGERS * STRANGE_STRIDE;
    int code;
    t->memory = yk__calloc(1, bytes);
    t->buffer = yk__calloc(frames + YK__OFI_STRANGERS, sizeof *t->buffer);
    if (!t->memory || !t->buffer)
        return yk__tr_fail(error, YK_E_MEM, "out of memory (%zu bytes of frames for %u ranks)", bytes, t->base.ranks);
    buffers_share_out(t);
    if (!(t->info->domain_attr->mr_mode & FI_MR_LOCAL))
        return YK_OK;
    code = fi_mr_reg(t->domain, t->memory, bytes, FI_SEND | FI_RECV, 0, 0, 0, &t->mr, NULL);
    if (code)
        return fail_call(error, t, "registering memory", code);
    t->desc = fi_mr_desc(t->mr);
    return YK_OK;
}

/* ---- Rendezvous ----------------------------------------------------------------------------------------------------- */

static yk_status contact_encode(yk_tr *t, uint8_t to[CONTACT], yk_tr_error *error)
{
    size_t bytes = ADDRESS;
    const int code = fi_getname(&t->ep->fid, to + CONTACT_ADDRESS, &bytes);
    if (code || bytes > ADDRESS)
        return fail_call(error, t, "the endpoint's address", code ? code : FI_ETOOSMALL);
    snprintf((char *)to, YK__OFI_NAME, "%s", t->info->fabric_attr->prov_name);
    yk__bytes_put32(to + CONTACT_PROTOCOL, t->info->ep_attr->protocol);
    yk__bytes_put32(to + CONTACT_PROTOCOL + 4, t->info->ep_attr->protocol_version);
    yk__bytes_put32(to + CONTACT_LIBRARY, fi_version());
    yk__auth_random(to + CONTACT_NONCE, NONCE);
    yk__watch_publish(t, to + CONTACT_WATCH);
    yk__bytes_put32(to + CONTACT_ADDRESS_BYTES, (uint32_t)bytes);
    return YK_OK;
}

static void provider_print(const uint8_t *contact, char *to, size_t capacity)
{
    const uint32_t version = yk__bytes_get32(contact + CONTACT_LIBRARY);
    snprintf(to, capacity, "%.63s (libfabric %u.%u, protocol %u.%u)", (const char *)contact, FI_MAJOR(version), FI_MINOR(version),
             yk__bytes_get32(contact + CONTACT_PROTOCOL), yk__bytes_get32(contact + CONTACT_PROTOCOL + 4));
}

/* Checks that all ranks have the same provider with the same protocol. */
static yk_status providers_compare(const uint8_t *all, uint32_t ranks, yk_tr_error *error)
{
    char first[120], other[120];
    for (uint32_t r = 0; r < ranks; r++) {
        const uint8_t *contact = all + (size_t)r * CONTACT;
        if (!memchr(contact, 0, YK__OFI_NAME) || yk__bytes_get32(contact + CONTACT_ADDRESS_BYTES) > ADDRESS)
            return yk__tr_fail(error, YK_E_FORMAT, "expected a provider description of rank %u, got unreadable bytes", r);
        if (!memcmp(contact, all, CONTACT_LIBRARY))
            continue;
        provider_print(all, first, sizeof first);
        provider_print(contact, other, sizeof other);
        return yk__tr_fail(error, YK_E_ARG, "rank 0 has libfabric's provider %s, and rank %u has %s, which do not understand each other: "
                            "YOKE_OFI_PROVIDER=NAME takes one that all hosts have, such as tcp;ofi_rxm", first, r, other);
    }
    return YK_OK;
}

/* All bits from the highest bit of the format down. */
static uint64_t tag_bits(uint64_t format)
{
    uint64_t bits = UINT64_MAX;
    while (format && !(format & (bits ^ bits >> 1)))
        bits >>= 1;
    return bits;
}

/* Derives a key for each direction of each pair, from this job's secret and both ends' nonces. */
static void keys_derive(yk_tr *t, const yk_tr_config *c, const uint8_t *all)
{
    uint8_t context[8 + 2 * NONCE], tag[YK__AUTH_BYTES];
    for (uint32_t r = 0; r < t->base.ranks; r++)
        for (int in = 0; in < 2; in++) {
            const uint32_t from = in ? r : t->base.rank, to = in ? t->base.rank : r;
            yk__bytes_put32(context, from);
            yk__bytes_put32(context + 4, to);
            memcpy(context + 8, all + (size_t)from * CONTACT + CONTACT_NONCE, NONCE);
            memcpy(context + 8 + NONCE, all + (size_t)to * CONTACT + CONTACT_NONCE, NONCE);
            yk__auth_derive(c->secret, c->secret_bytes, "ofi frames", context, sizeof context,
                            in ? t->peer[r].recv_key : t->peer[r].send_key);
        }
    yk__auth_derive(c->secret, c->secret_bytes, "ofi tag", all + CONTACT_NONCE, NONCE, tag);
    t->tag = yk__bytes_get32(tag);
    t->tag_bits = tag_bits(t->info->ep_attr->mem_tag_format);
}

/* Prints an address for errors, as "10.0.0.1:1234" if the provider gives such. */
static void address_print(const yk_tr *t, const uint8_t *contact, char to[YK__WATCH_ADDRESS])
{
    char text[128] = "?";
    size_t bytes = sizeof text;
    const char *at;
    fi_av_straddr(t->av, contact + CONTACT_ADDRESS, text, &bytes);
    text[sizeof text - 1] = 0;
    at = strstr(text, "://");
    snprintf(to, YK__WATCH_ADDRESS, "%.63s", at ? at + 3 : text);
}

static yk_status addresses_insert(yk_tr *t, const uint8_t *all, yk_tr_error *error)
{
    for (uint32_t r = 0; r < t->base.ranks; r++) {
        address_print(t, all + (size_t)t->base.rank * CONTACT, t->peer[r].line.own);
        address_print(t, all + (size_t)r * CONTACT, t->peer[r].line.other);
        yk__watch_know(t, &t->peer[r].line, r, all + (size_t)r * CONTACT + CONTACT_WATCH);
    }
    for (uint32_t r = 0; r < t->base.ranks; r++)
        if (r != t->base.rank && fi_av_insert(t->av, all + (size_t)r * CONTACT + CONTACT_ADDRESS, 1, &t->peer[r].address, 0, NULL) != 1)
            return yk__tr_fail(error, YK_E_IO, "provider %s does not take the address of rank %u", t->info->fabric_attr->prov_name, r);
    return YK_OK;
}

static yk_status contacts_exchange(yk_tr *t, const yk_tr_config *c, yk_tr_error *error)
{
    uint8_t own[CONTACT] = {0}, *all = yk__calloc(t->base.ranks, CONTACT);
    yk_status s;
    if (!all)
        return yk__tr_fail(error, YK_E_MEM, "out of memory (addresses of %u ranks)", t->base.ranks);
    s = contact_encode(t, own, error);
    if (!s)
        s = c->exchange(c->exchange_arg, own, CONTACT, all, error);
    if (!s)
        s = providers_compare(all, t->base.ranks, error);
    if (!s)
        s = addresses_insert(t, all, error);
    if (!s)
        keys_derive(t, c, all);
    yk__free(all);
    return s;
}

/* ---- Greeting ------------------------------------------------------------------------------------------------------- */

/* A rank whose greeting, or this rank's greeting to it, is pending; t->base.ranks if there is none. */
static uint32_t missing_peer(const yk_tr *t)
{
    for (uint32_t r = 0; r < t->base.ranks; r++)
        if (r != t->base.rank && (!t->peer[r].greeted || yk__ofi_unsent(t, r)))
            return r;
    return t->base.ranks;
}

static yk_status fail_lost(const yk_tr *t, yk_tr_error *error)
{
    for (uint32_t r = 0; r < t->base.ranks; r++)
        if (t->peer[r].line.ended)
            return yk__tr_fail(error, YK_E_IO, "rank %u (%s) cannot reach rank %u (%s): %s", t->base.rank, t->peer[r].line.own, r,
                               t->peer[r].line.other, t->peer[r].line.why);
    return YK_OK;
}

static yk_status ranks_await(yk_tr *t, yk_tr_error *error)
{
    const int64_t begin = yk__clock_ms();
    const struct timespec pause = {0, 100000};
    yk_status s = YK_OK;
    while (!s && missing_peer(t) < t->base.ranks) {
        bool moved = false;
        pthread_mutex_unlock(&t->base.lock);
        nanosleep(&pause, NULL);
        pthread_mutex_lock(&t->base.lock);
        s = yk__ofi_move(t, &moved, error);
        if (!s)
            s = yk__tr_check(t, error);
        if (!s)
            s = fail_lost(t, error);
        if (!s && yk__clock_ms() - begin > OPEN_MS)
            s = yk__tr_fail(error, YK_E_TIMEOUT, "rank %u has heard nothing of rank %u over provider %s for %d s", t->base.rank,
                             missing_peer(t), t->info->fabric_attr->prov_name, OPEN_MS / 1000);
    }
    return s;
}

static yk_status ranks_greet(yk_tr *t, yk_tr_error *error)
{
    yk_status s;
    pthread_mutex_lock(&t->base.lock);
    s = yk__ofi_post_all(t, error);
    for (uint32_t r = 0; r < t->base.ranks && !s; r++)
        if (r != t->base.rank)
            s = yk__ofi_say(t, r, YK__OFI_HELLO, 0, error);
    if (!s) {
        yk__watch_begin(t); /* here, as a greeted rank may wait long for another one */
        s = ranks_await(t, error);
    }
    pthread_mutex_unlock(&t->base.lock);
    return s;
}

/* ---- Opening -------------------------------------------------------------------------------------------------------- */

static yk_status peers_new(yk_tr *t, yk_tr_error *error)
{
    static const yk__match_calls calls = {.say = yk__ofi_say};
    t->peer = yk__calloc(t->base.ranks, sizeof *t->peer);
    if (!t->peer)
        return yk__tr_fail(error, YK_E_MEM, "out of memory (%u ranks)", t->base.ranks);
    for (uint32_t r = 0; r < t->base.ranks; r++)
        t->peer[r].match = (yk__match){.calls = &calls, .t = t, .peer = r, .events = &t->base.events};
    return YK_OK;
}

static yk_status provider_choose(yk_tr *t, const yk_tr_config *c, yk_tr_error *error)
{
    const char *address = NULL;
    yk_error err = YK_ERROR_INIT;
    if (yk__auth_init(&err))
        return yk__tr_fail(error, err.status, "%.600s", err.text);
    if (yk__tr_address(c, &address, error))
        return YK_E_ARG;
    return yk__ofi_provider(address, &t->info, error);
}

static yk_status transport_begin(yk_tr *t, const yk_tr_config *c, yk_tr_error *error)
{
    yk__signals kept;
    yk_status s = peers_new(t, error);
    if (!s)
        s = provider_choose(t, c, error);
    yk__signals_keep(&kept);
    if (!s)
        s = domain_open(t, error);
    if (!s)
        s = endpoint_open(t, error);
    yk__signals_restore(&kept);
    if (!s)
        s = buffers_new(t, error);
    if (!s)
        s = yk__watch_start(t, error);
    if (!s)
        s = contacts_exchange(t, c, error);
    if (!s)
        s = ranks_greet(t, error);
    return s;
}

static void transport_free(yk_tr *t);

yk_status yk__ofi_open(const yk__tr_calls *calls, const yk_tr_config *c, yk_tr **out, yk_tr_error *error)
{
    yk_tr *t = NULL;
    yk_status s = yk__tr_new(sizeof *t, calls, c, &t, error);
    if (s)
        return s;
    s = transport_begin(t, c, error);
    if (s)
        transport_free(t);
    else
        *out = t;
    return s;
}

/* ---- Closing -------------------------------------------------------------------------------------------------------- */

static bool still_sending(const yk_tr *t)
{
    for (uint32_t r = 0; r < t->base.ranks; r++)
        if (r != t->base.rank && !t->peer[r].line.ended && (!t->peer[r].gone || yk__ofi_unsent(t, r)))
            return true;
    return false;
}

static void finish_sending(yk_tr *t)
{
    const int64_t until = yk__clock_ms() + LINGER_MS;
    const struct timespec pause = {0, 100000};
    yk_tr_error ignored;
    t->closing = true;
    for (uint32_t r = 0; r < t->base.ranks; r++)
        if (r != t->base.rank && yk__ofi_say(t, r, YK__OFI_BYE, 0, &ignored))
            return;
    while (!t->failed && !yk__tr_check(t, &ignored) && still_sending(t) && yk__clock_ms() < until) {
        bool moved = false;
        yk__ofi_move(t, &moved, &ignored);
        if (!moved)
            nanosleep(&pause, NULL);
    }
}

static void peer_free(yk__ofi_peer *p)
{
    yk__match_drop_early(&p->match);
    while (p->talk) {
        yk__ofi_talk *talk = p->talk;
        p->talk = talk->next;
        yk__free(talk);
    }
    yk__auth_wipe(p->send_key, sizeof p->send_key);
    yk__auth_wipe(p->recv_key, sizeof p->recv_key);
}

/* Frees the transport: the endpoint before the memory that it may still write to. */
static void transport_free(yk_tr *t)
{
    yk__watch_stop(t);
    t->closing = true;
    object_close(t->ep ? &t->ep->fid : NULL);
    object_close(t->mr ? &t->mr->fid : NULL);
    object_close(t->cq ? &t->cq->fid : NULL);
    object_close(t->av ? &t->av->fid : NULL);
    object_close(t->domain ? &t->domain->fid : NULL);
    object_close(t->fabric ? &t->fabric->fid : NULL);
    if (t->info)
        fi_freeinfo(t->info);
    for (uint32_t r = 0; t->peer && r < t->base.ranks; r++)
        peer_free(&t->peer[r]);
    yk__free(t->memory);
    yk__free(t->buffer);
    yk__free(t->peer);
    yk__tr_free(t);
}

void yk__ofi_close(yk_tr *t)
{
    if (!t)
        return;
    yk__watch_stop(t);
    for (uint32_t r = 0; r < t->base.ranks; r++)
        yk__match_drop_ops(&t->peer[r].match);
    finish_sending(t);
    transport_free(t);
}
