/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the transport of a job's messages, registers memory with it, and passes messages to it, with or without seals (sealed.c).
 *
 * coll.c (core/coll) opens and closes the plane, and registers memory, in the step thread. At an exit another thread closes it
 * (core/group/group.c). Messages are sent and tested under the plane's lock, by the step thread or the progress thread. connection_lost
 * alone runs in a thread of the transport.
 */
#include "core/coll/messages/msg_plane.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/advance.h"
#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/base/process/signals.h"
#include "core/base/timed.h"

#define LOST_MS 4000 /* a message that was sent is lost after so long a silence of its sender (decision 0060) */

void yk__msg_lock(yk__coll *coll)
{
    if (coll->plane)
        pthread_mutex_lock(&coll->plane->lock);
}

void yk__msg_unlock(yk__coll *coll)
{
    if (coll->plane)
        pthread_mutex_unlock(&coll->plane->lock);
}

/* Reports a format error as an I/O error: the wire changed the bytes, not the user's input, and another attempt may succeed. */
yk_status yk__msg_fail(yk_error *err, yk_status status, const yk_tr_error *error, const yk__coll *coll)
{
    return yk__fail(err, status == YK_E_FORMAT ? YK_E_IO : status, "%s, transport %s: %.*s", yk__control_name(coll->control, coll->rank),
                    coll->plane->table->name, (int)sizeof error->text - 1, error->text);
}

uint64_t yk__msg_sent_far(yk__coll *coll)
{
    uint64_t bytes;
    pthread_mutex_lock(&coll->plane->lock);
    bytes = coll->plane->sent_far;
    pthread_mutex_unlock(&coll->plane->lock);
    return bytes;
}

/* ---- Opening ------------------------------------------------------------------------------------------------------ */

/* Serves the transport's rendezvous over the control plane. */
static yk_status exchange_blobs(void *arg, const void *own, uint32_t bytes, void *all, yk_tr_error *error)
{
    yk_error err = YK_ERROR_INIT;
    const yk_status s = yk__control_exchange(arg, "opening a transport", own, bytes, all, &err);
    if (s)
        snprintf(error->text, sizeof error->text, "%.639s", err.text);
    return s;
}

static yk_status check_job(void *arg, yk_tr_error *error)
{
    yk_error err = YK_ERROR_INIT;
    if (yk__control_check(arg, &err))
        snprintf(error->text, sizeof error->text, "%.639s", err.text);
    return err.status;
}

/* Runs in a thread of the transport. A rank that has left the job may close its connections in any way. */
static void connection_lost(void *arg, uint32_t peer, const yk_tr_error *why)
{
    yk__control *control = arg;
    yk_error err = YK_ERROR_INIT;
    if (yk__control_left(control, peer))
        return;
    yk__fail(&err, YK_E_IO, "%s and %s: %s", yk__control_name(control, yk__control_rank(control)), yk__control_name(control, peer),
             why->text);
    yk__control_end(control, yk__control_rank(control), err.status, err.text);
}

static yk_status check_table(const yk_transport *table, uint32_t ranks, yk_error *err)
{
    if (!table)
        return yk__fail(err, YK_E_ARG, "%u ranks have no memory in common, and there is no transport", ranks);
    if (table->size < offsetof(yk_transport, mem_key) || table->major != YK_TRANSPORT_MAJOR)
        return yk__fail(err, YK_E_ARG, "transport %s is of version %u.%u: expected %u", table->name, table->major, table->minor,
                        YK_TRANSPORT_MAJOR);
    return YK_OK;
}

static yk_status check_peers(const yk__coll *coll, yk_error *err)
{
    const yk__msg_plane *plane = coll->plane;
    for (uint32_t r = 0; r < coll->size; r++) {
        yk_tr_peer peer = {.size = sizeof peer};
        yk_tr_error error = {""};
        const yk_status s = plane->table->peer(plane->tr, r, &peer, &error);
        if (s)
            return yk__msg_fail(err, s, &error, coll);
        if (r != coll->rank && (peer.caps & YK_TR_CAP_MESSAGES) == 0)
            return yk__fail(err, YK_E_ARG, "transport %s does not reach %s", plane->table->name, yk__control_name(coll->control, r));
    }
    return YK_OK;
}

static yk_status share_memory(yk__coll *coll, yk_tr_config *c, yk_error *err)
{
    yk__msg_plane *plane = coll->plane;
    const uint64_t bytes = plane->table->shared_bytes(coll->size);
    if (!bytes || !yk__shm_one_host(coll->control))
        return YK_OK;
    if (yk__shm_attach(coll->control, &plane->shm, err))
        return err->status;
    return yk__shm_alloc(plane->shm, "messages", bytes, &c->shared, err);
}

static yk_status open_transport(yk__coll *coll, yk_error *err)
{
    yk__msg_plane *plane = coll->plane;
    yk_tr_config c = {.size = sizeof c,
                      .rank = coll->rank,
                      .ranks = coll->size,
                      .host = plane->host,
                      .name = yk__control_name(coll->control, coll->rank),
                      .exchange = exchange_blobs,
                      .exchange_arg = coll->control,
                      .secret = yk__control_secret(coll->control),
                      .secret_bytes = YK__CONTROL_SECRET,
                      .address = yk__control_address(coll->control),
                      .check = check_job,
                      .lost = connection_lost};
    yk_tr_error error = {""};
    yk__signals kept;
    yk_status s;
    for (uint32_t r = 0; r < coll->size; r++)
        plane->host[r] = yk__control_host(coll->control, r);
    s = share_memory(coll, &c, err);
    if (s)
        return s;
    yk__signals_keep(&kept);
    s = plane->table->open(&c, &plane->tr, &error);
    yk__signals_restore(&kept);
    return s ? yk__msg_fail(err, s, &error, coll) : check_peers(coll, err);
}

/* True for a transport that finds changed, lost and doubled messages itself. */
static bool checks_itself(const yk_transport *table)
{
    return table->extension(YK_TR_EXT_CHECKED) != NULL;
}

/* A quarter of YOKE_STUCK_MS, so that a lost message is named before a rank that waits for it. */
static int64_t lost_ms(void)
{
    const uint32_t stuck = yk__stuck_ms();
    return stuck && stuck / 4 < LOST_MS ? stuck / 4 : stuck ? LOST_MS : 0;
}

static yk_status seal_messages(yk__coll *coll, yk__seal seal, yk_error *err)
{
    yk__msg_plane *plane = coll->plane;
    const yk__sealed_config c = {.table = plane->table, .tr = plane->tr, .rank = coll->rank, .ranks = coll->size,
                                 .question_tag = YK__MSG_TAG_QUESTION, .lost_ms = lost_ms()};
    yk_tr_error error = {""};
    yk_status s;
    if (seal == YK__SEAL_OFF || (seal == YK__SEAL_AUTO && checks_itself(plane->table)))
        return YK_OK;
    s = yk__sealed_new(&c, &plane->sealed, &error);
    return s ? yk__msg_fail(err, s, &error, coll) : YK_OK;
}

yk_status yk__msg_open(yk__coll *coll, const yk_transport *transport, yk__seal seal, yk_error *err)
{
    yk__msg_plane *plane;
    if (check_table(transport, coll->size, err))
        return err->status;
    plane = coll->plane = yk__calloc(1, sizeof *plane);
    if (!plane)
        return yk__fail_mem(err, sizeof *plane, "a transport");
    plane->table = transport;
    plane->pid = getpid();
    pthread_mutex_init(&plane->lock, NULL);
    yk__timed_init(&plane->begun);
    plane->host = yk__calloc(coll->size, sizeof *plane->host);
    if (!plane->host)
        return yk__fail_mem(err, coll->size * sizeof *plane->host, "a transport");
    return open_transport(coll, err) ? err->status : seal_messages(coll, seal, err);
}

bool yk__msg_plane_is_own(const yk__msg_plane *plane)
{
    return plane->pid == getpid();
}

void yk__msg_close(yk__coll *coll)
{
    yk__msg_plane *plane = coll->plane;
    if (!plane || !yk__msg_plane_is_own(plane))
        return;
    yk__sealed_free(plane->sealed);
    if (plane->tr)
        plane->table->close(plane->tr);
    yk__shm_detach(plane->shm);
    pthread_cond_destroy(&plane->begun);
    pthread_mutex_destroy(&plane->lock);
    yk__free(plane->host);
    yk__free(plane);
    coll->plane = NULL;
}

/* ---- Messages ----------------------------------------------------------------------------------------------------- */

yk_status yk__msg_send(yk__msg_plane *plane, uint32_t peer, uint64_t tag, const yk_tr_range *from, yk_tr_op **op, yk_tr_error *error)
{
    return plane->sealed ? yk__sealed_send(plane->sealed, peer, tag, from, op, error)
                         : plane->table->send(plane->tr, peer, tag, from, op, error);
}

yk_status yk__msg_recv(yk__msg_plane *plane, uint32_t peer, uint64_t tag, const yk_tr_range *to, yk_tr_op **op, yk_tr_error *error)
{
    return plane->sealed ? yk__sealed_recv(plane->sealed, peer, tag, to, op, error)
                         : plane->table->recv(plane->tr, peer, tag, to, op, error);
}

yk_status yk__msg_test(yk__msg_plane *plane, yk_tr_op *op, int *done, uint64_t *bytes, yk_tr_error *error)
{
    return plane->sealed ? yk__sealed_test(plane->sealed, op, done, bytes, error)
                         : plane->table->test(plane->tr, op, done, bytes, error);
}

void yk__msg_cancel(yk__msg_plane *plane, yk_tr_op *op)
{
    if (plane->sealed)
        yk__sealed_cancel(plane->sealed, op);
    else
        plane->table->cancel(plane->tr, op);
}

void yk__msg_serve(yk__msg_plane *plane)
{
    if (plane->sealed)
        yk__sealed_serve(plane->sealed, yk__clock_ms());
}

yk_status yk__msg_look(yk__coll *coll, yk_error *err)
{
    yk_tr_error error = {""};
    const yk_status s = coll->plane->sealed ? yk__sealed_look(coll->plane->sealed, yk__clock_ms(), &error) : YK_OK;
    return s ? yk__msg_fail(err, s, &error, coll) : YK_OK;
}

bool yk__msg_moved(yk__msg_plane *plane, bool events)
{
    return plane->sealed ? yk__sealed_moved(plane->sealed) : events;
}

/* ---- Memory ------------------------------------------------------------------------------------------------------- */

yk_status yk__msg_register(yk__coll *coll, yk__coll_buffer *b, yk_error *err)
{
    const yk_tr_mem_source source = {.size = sizeof source, .kind = YK_TR_MEM_HOST, .data = b->mem, .bytes = b->bytes};
    yk_tr_error error = {""};
    yk_tr_mem *mem = NULL;
    const yk_status s = coll->plane->table->mem_register(coll->plane->tr, &source, &mem, &error);
    b->registered = mem;
    return s ? yk__msg_fail(err, s, &error, coll) : YK_OK;
}

void yk__msg_unregister(yk__coll *coll, yk__coll_buffer *b)
{
    coll->plane->table->mem_release(coll->plane->tr, b->registered);
    b->registered = NULL;
}
