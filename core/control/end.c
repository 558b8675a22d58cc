/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a job: one record in the control object, and messages to the launcher. Every wait checks the record (yk__control_check). The
 * launcher and any thread of a rank may write it: step, transport, beat (live.c) or agent. The first write counts.
 *
 * A note wakes the launcher, which then reads the record itself. An error before the join has no record, so its note has the text. In a job
 * of several hosts each rank also sends the verdict to its host's part of yoke launch (tell_node).
 */
#include "config.h"

#include "core/control/control_internal.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

/* ---- The record -------------------------------------------------------------------------------------------------- */

bool yk__control_record_end(yk__control_head *head, uint32_t rank, bool silent, yk_status status, const char *text)
{
    uint32_t running = YK__JOB_RUNNING;
    if (!atomic_compare_exchange_strong(&head->abort, &running, YK__JOB_ENDING))
        return false;
    head->abort_rank = rank;
    head->abort_status = (uint32_t)status;
    head->abort_silent = silent;
    snprintf(head->abort_text, sizeof head->abort_text, "%s", text);
    atomic_store(&head->abort, YK__JOB_ENDED);
    return true;
}

/* The writer may have died between its two stores, so the wait for the text is short. */
static bool text_ready(const yk__control_head *head)
{
    struct timespec ms = {0, 1000000};
    for (int i = 0; i < 50; i++) {
        if (atomic_load(&head->abort) == YK__JOB_ENDED)
            return true;
        nanosleep(&ms, NULL);
    }
    return false;
}

bool yk__control_read_end(const yk__control_head *head, uint32_t ranks, uint32_t *rank, bool *silent, yk_error *err)
{
    char text[sizeof head->abort_text];
    uint32_t status, who;
    if (atomic_load(&head->abort) == YK__JOB_RUNNING)
        return false;
    *rank = UINT32_MAX;
    *silent = false;
    if (!text_ready(head)) {
        yk__fail(err, YK_E_DEVICE_LOST, "the job was ended by a rank that died before it could say why");
        return true;
    }
    who = head->abort_rank;
    status = head->abort_status;
    memcpy(text, head->abort_text, sizeof text);
    text[sizeof text - 1] = 0;
    yk__fail(err, status && status < YK_STATUS_COUNT ? (yk_status)status : YK_E_DEVICE_LOST, "%s", text);
    if (who < ranks)
        *rank = who;
    *silent = head->abort_silent != 0;
    return true;
}

/* Reports the verdict at once, as a rank that knows of the end may exit next, and its exit is not the reason. The first report counts. */
static void tell_node(const yk__control *c, uint32_t rank, const yk_error *err)
{
    yk__control_verdict verdict = {.rank = rank, .status = (uint32_t)err->status};
    if (c->node_fd < 0)
        return;
    memcpy(verdict.text, err->text, sizeof verdict.text);
    send(c->node_fd, &verdict, sizeof verdict, MSG_NOSIGNAL | MSG_DONTWAIT);
}

yk_status yk__control_check(const yk__control *c, yk_error *err)
{
    uint32_t rank;
    bool silent;
    if (!yk__control_read_end(c->head, c->size, &rank, &silent, err))
        return YK_OK;
    tell_node(c, rank, err);
    return err->status;
}

/* ---- Notes to the launcher --------------------------------------------------------------------------------------- */

static bool note_send(int fd, const yk__control_note *note)
{
    return fd >= 0 && send(fd, note, sizeof *note, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof *note;
}

bool yk__control_report(int job_fd, const yk_error *why)
{
    yk__control_note note = {.kind = YK__NOTE_ERROR, .status = (uint32_t)why->status};
    memcpy(note.text, why->text, sizeof note.text);
    return note_send(job_fd, &note);
}

void yk__control_report_left(const yk__control *c)
{
    const yk__control_note note = {.kind = YK__NOTE_LEFT};
    note_send(c->job_fd, &note); /* wakes the launcher, which reads the state itself */
}

void yk__control_report_change(const yk__control *c)
{
    const yk__control_note note = {.kind = YK__NOTE_CHANGE};
    if (c->head->relayed)
        note_send(c->job_fd, &note);
}

void yk__control_end_for(yk__control *c, uint32_t rank, bool silent, yk_status status, const char *text)
{
    yk__control_note note = {.kind = YK__NOTE_ABORT};
    yk_error first = YK_ERROR_INIT;
    if (yk__control_record_end(c->head, rank, silent, status, text))
        note_send(c->job_fd, &note); /* wakes the launcher, which reads the record itself */
    yk__control_check(c, &first);    /* tells the node */
}

void yk__control_end(yk__control *c, uint32_t rank, yk_status status, const char *text)
{
    yk__control_end_for(c, rank, false, status, text);
}
