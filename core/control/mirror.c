/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows a rank of another host in this host's control object, as if it were local. It makes frames from changes of a local rank's slot,
 * and writes the frames of another host's rank into that rank's slot here. It also makes a frame of the job's end, and records the end
 * that another host sent. agent.c calls it, in the agent's thread.
 *
 * On each host a slot has one writer: the rank itself, or the agent that mirrors it. Readers look at the count first, then at the blob.
 * So a writer stores the blob before its count, and for the same reason the name before the state.
 */
#include "core/control/mirror.h"

#include <stddef.h>
#include <string.h>

#define BLOB_HEAD offsetof(yk__frame_blob, blob)

/* ---- From a slot ------------------------------------------------------------------------------------------------- */

static void read_state(yk__control_head *head, uint32_t rank, yk__frame_state *state)
{
    yk__control_slot *s = &head->slot[rank];
    memset(state, 0, sizeof *state); /* its padding is compared too */
    state->host = atomic_load(&s->host);
    state->rank = rank;
    state->state = atomic_load(&s->state);
    state->taken = atomic_load(&s->taken);
    state->waits_for = atomic_load(&s->waits_for);
    state->calls = atomic_load(&s->calls);
    state->advance = atomic_load(&s->advance);
    state->pid = atomic_load(&s->pid);
    state->exits = atomic_load(&s->exits);
    state->act = atomic_load(&s->act);
    state->patience_ms = atomic_load(&s->patience_ms);
    if (state->waits_for)
        memcpy(state->waits_in, s->waits_in, sizeof state->waits_in);
}

static bool is_urgent(const yk__frame_state *now, const yk__frame_state *sent)
{
    return now->state != sent->state || now->taken != sent->taken || now->waits_for != sent->waits_for;
}

static void scan_name(const yk__control_slot *s, uint32_t rank, yk__mirror_seen *seen, yk__mirror_send send, void *arg)
{
    yk__frame_name name = {.rank = rank};
    if (seen->named)
        return;
    yk__control_copy_name(name.name, s->name);
    send(arg, YK__FRAME_NAME, &name, sizeof name);
    seen->named = true;
}

/* Sends the blob. The rank writes its next blob only once all ranks have read this one, which other hosts' agents report after it was
 * sent. */
static void scan_blob(const yk__control_slot *s, uint32_t rank, yk__mirror_seen *seen, yk__mirror_send send, void *arg)
{
    yk__frame_blob blob = {.rank = rank, .given = atomic_load(&s->given)};
    const uint32_t bytes = s->blob_bytes < YK__CONTROL_BLOB ? s->blob_bytes : YK__CONTROL_BLOB;
    if (blob.given == seen->given)
        return;
    memcpy(blob.blob, s->blob, bytes);
    send(arg, YK__FRAME_BLOB, &blob, (uint32_t)BLOB_HEAD + bytes);
    seen->given = blob.given;
}

static void scan_info(const yk__control_slot *s, uint32_t rank, yk__mirror_seen *seen, yk__mirror_send send, void *arg)
{
    yk__frame_info info = {.rank = rank};
    const uint32_t stamp = atomic_load_explicit(&s->stamp, memory_order_acquire);
    if (stamp == seen->stamp || stamp % 2)
        return;
    memcpy(info.info, s->info, sizeof info.info);
    atomic_thread_fence(memory_order_acquire);
    if (atomic_load_explicit(&s->stamp, memory_order_relaxed) != stamp)
        return; /* the rank is writing it: try again at the next scan */
    send(arg, YK__FRAME_INFO, &info, sizeof info);
    seen->stamp = stamp;
}

void yk__mirror_scan(yk__control_head *head, uint32_t rank, bool all, yk__mirror_seen *seen, yk__mirror_send send, void *arg)
{
    const yk__control_slot *s = &head->slot[rank];
    yk__frame_state now;
    read_state(head, rank, &now); /* read first, as readers look at the state first: the rest is then at least as new */
    if (now.state != YK__RANK_ABSENT)
        scan_name(s, rank, seen, send, arg);
    scan_blob(s, rank, seen, send, arg);
    if (all)
        scan_info(s, rank, seen, send, arg);
    if (!is_urgent(&now, &seen->state) && (!all || !memcmp(&now, &seen->state, sizeof now)))
        return;
    send(arg, YK__FRAME_STATE, &now, sizeof now);
    seen->state = now;
}

bool yk__mirror_end(const yk__control_head *head, yk__frame_end *end)
{
    yk_error err = YK_ERROR_INIT;
    bool silent;
    memset(end, 0, sizeof *end);
    if (!yk__control_read_end(head, head->ranks, &end->rank, &silent, &err))
        return false;
    end->status = (uint32_t)err.status;
    end->silent = silent;
    memcpy(end->text, err.text, sizeof end->text);
    return true;
}

/* ---- Into a slot ------------------------------------------------------------------------------------------------- */

static uint32_t least_bytes(uint32_t kind)
{
    switch (kind) {
    case YK__FRAME_NAME:
        return sizeof(yk__frame_name);
    case YK__FRAME_STATE:
        return sizeof(yk__frame_state);
    case YK__FRAME_INFO:
        return sizeof(yk__frame_info);
    case YK__FRAME_BLOB:
        return BLOB_HEAD;
    default:
        return UINT32_MAX;
    }
}

yk_status yk__mirror_rank(const yk__control_head *head, const yk__frame *frame, uint32_t *rank, yk_error *err)
{
    const uint32_t least = least_bytes(frame->kind), most = frame->kind == YK__FRAME_BLOB ? least + YK__CONTROL_BLOB : least;
    const size_t at = frame->kind == YK__FRAME_STATE ? offsetof(yk__frame_state, rank) : 0;
    if (frame->bytes < least || frame->bytes > most)
        return yk__fail(err, YK_E_FORMAT, "a frame of kind %u with %u bytes", frame->kind, frame->bytes);
    memcpy(rank, frame->data + at, sizeof *rank);
    if (*rank >= head->ranks)
        return yk__fail(err, YK_E_FORMAT, "a frame about rank %u of %u", *rank, head->ranks);
    return YK_OK;
}

static yk_status apply_state(yk__control_head *head, const yk__frame *frame, yk_error *err)
{
    yk__control_slot *s;
    yk__frame_state in;
    memcpy(&in, frame->data, sizeof in);
    s = &head->slot[in.rank];
    if (in.state > YK__RANK_GONE || in.waits_for > head->ranks || in.host == head->host)
        return yk__fail(err, YK_E_FORMAT, "rank %u in state %u, waiting for rank %u", in.rank, in.state, in.waits_for - 1);
    in.waits_in[sizeof in.waits_in - 1] = 0;
    atomic_store(&s->host, in.host);
    atomic_store(&s->pid, in.pid);
    atomic_store(&s->exits, in.exits);
    atomic_store(&s->calls, in.calls);
    atomic_store(&s->advance, in.advance);
    atomic_store(&s->act, in.act);
    atomic_store(&s->patience_ms, in.patience_ms);
    atomic_store(&s->taken, in.taken);
    if (in.waits_for)
        memcpy(s->waits_in, in.waits_in, sizeof s->waits_in);
    atomic_store(&s->waits_for, in.waits_for);
    atomic_store(&s->state, in.state);
    return YK_OK;
}

static void apply_name(yk__control_head *head, const yk__frame *frame)
{
    yk__frame_name in;
    memcpy(&in, frame->data, sizeof in);
    in.name[sizeof in.name - 1] = 0;
    yk__control_copy_name(head->slot[in.rank].name, in.name);
}

static void apply_info(yk__control_head *head, const yk__frame *frame)
{
    yk__frame_info in;
    memcpy(&in, frame->data, sizeof in);
    yk__control_slot_publish(&head->slot[in.rank], in.info, sizeof in.info);
}

static void apply_blob(yk__control_head *head, const yk__frame *frame)
{
    const uint32_t bytes = frame->bytes - (uint32_t)BLOB_HEAD;
    yk__frame_blob in;
    yk__control_slot *s;
    memcpy(&in, frame->data, BLOB_HEAD);
    s = &head->slot[in.rank];
    memcpy(s->blob, frame->data + BLOB_HEAD, bytes);
    s->blob_bytes = bytes;
    atomic_store(&s->given, in.given);
}

yk_status yk__mirror_apply(yk__control_head *head, const yk__frame *frame, yk_error *err)
{
    uint32_t rank;
    if (yk__mirror_rank(head, frame, &rank, err))
        return err->status;
    if (frame->kind == YK__FRAME_STATE)
        return apply_state(head, frame, err);
    if (frame->kind == YK__FRAME_NAME)
        apply_name(head, frame);
    else if (frame->kind == YK__FRAME_INFO)
        apply_info(head, frame);
    else
        apply_blob(head, frame);
    return YK_OK;
}

yk_status yk__mirror_apply_end(yk__control_head *head, const yk__frame *frame, yk_error *err)
{
    yk__frame_end in;
    if (frame->bytes != sizeof in)
        return yk__fail(err, YK_E_FORMAT, "the end of a job in %u bytes", frame->bytes);
    memcpy(&in, frame->data, sizeof in);
    in.text[sizeof in.text - 1] = 0;
    if (!in.status || in.status >= YK_STATUS_COUNT)
        return yk__fail(err, YK_E_FORMAT, "the end of a job with status %u", in.status);
    yk__control_record_end(head, in.rank, in.silent != 0, (yk_status)in.status, in.text);
    return YK_OK;
}
