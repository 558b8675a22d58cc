/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ofi transport among strangers: their messages are refused, the job is unharmed, and the log reports it once. Ranks are threads of
 * this process. A stranger is its own endpoint, or that rank's endpoint if it has taken over a rank's address.
 */
#include "config.h"

#include <check.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/net/bytes.h"
#include "tests/support/meeting.h"
#include "tests/support/run.h"
#include "transport/ofi/ofi.h"
#include "transport/ofi/ofi_internal.h"
#include "transport/ofi/provider.h"

static void open_meeting(void)
{
    meeting_begin(yk__ofi_transport());
    for (uint32_t r = 0; r < MEETING_RANKS; r++)
        meet.member[r].address = "127.0.0.1";
}

/* Moves until the refusal of rank 0 is logged. */
static void await_refusal(const char *text)
{
    const int64_t until = yk__clock_ms() + MEETING_MS;
    while (!meeting_logged(text) && yk__clock_ms() < until)
        meeting_move();
    ck_assert_msg(meeting_logged(text) == 1, "\"%s\" is logged %d times", text, meeting_logged(text));
}

/* ---- Strangers ------------------------------------------------------------------------------------------------------ */

typedef struct stranger {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *ep;
    fi_addr_t victim;
} stranger;

static void stranger_open(stranger *x)
{
    struct fi_cq_attr cq = {.size = 64, .format = FI_CQ_FORMAT_MSG};
    struct fi_av_attr av = {.type = FI_AV_UNSPEC};
    yk_tr_error error = {""};
    uint8_t address[256];
    size_t bytes = sizeof address;
    memset(x, 0, sizeof *x);
    ck_assert_msg(!yk__ofi_provider("127.0.0.1", &x->info, &error), "%s", error.text);
    ck_assert(!fi_fabric(x->info->fabric_attr, &x->fabric, NULL) && !fi_domain(x->fabric, x->info, &x->domain, NULL));
    ck_assert(!fi_av_open(x->domain, &av, &x->av, NULL) && !fi_cq_open(x->domain, &cq, &x->cq, NULL));
    ck_assert(!fi_endpoint(x->domain, x->info, &x->ep, NULL) && !fi_ep_bind(x->ep, &x->av->fid, 0));
    ck_assert(!fi_ep_bind(x->ep, &x->cq->fid, FI_TRANSMIT | FI_RECV) && !fi_enable(x->ep));
    ck_assert(!fi_getname(&meet.member[0].tr->ep->fid, address, &bytes));
    ck_assert_int_eq(fi_av_insert(x->av, address, 1, &x->victim, 0, NULL), 1);
}

static void stranger_close(stranger *x)
{
    fi_close(&x->ep->fid);
    fi_close(&x->cq->fid);
    fi_close(&x->av->fid);
    fi_close(&x->domain->fid);
    fi_close(&x->fabric->fid);
    fi_freeinfo(x->info);
}

/* Until the provider has taken it, and has sent it. */
static void stranger_send(stranger *x, const void *data, size_t bytes, uint64_t tag)
{
    const int64_t until = yk__clock_ms() + MEETING_MS;
    struct fi_context2 context;
    struct fi_cq_msg_entry entry;
    ssize_t n;
    do {
        n = fi_tsend(x->ep, data, bytes, NULL, x->victim, tag, &context);
        fi_cq_read(x->cq, &entry, 0);
        meeting_move();
    } while (n == -FI_EAGAIN && yk__clock_ms() < until);
    ck_assert_msg(!n, "a stranger cannot send: %s", fi_strerror((int)-n));
    while (fi_cq_read(x->cq, &entry, 1) == -FI_EAGAIN && yk__clock_ms() < until)
        meeting_move();
}

START_TEST(a_strangers_messages_are_refused_and_logged_once)
{
    static const uint64_t tags[] = {0, 42, UINT32_MAX, UINT64_MAX};
    static uint8_t forged[2000] = "forged";
    stranger x;
    meeting_assert_open();
    stranger_open(&x);
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
        stranger_send(&x, forged, i % 2 ? sizeof forged : 7, tags[i]);
    await_refusal("rank 0 refuses a message from a stranger: it is not of this job; more of them are not reported");
    meeting_assert_unharmed();
    ck_assert_int_eq(meeting_logged("refuses a message"), 1);
    stranger_close(&x);
}
END_TEST

/* The tag is the job's, the address is no rank's. */
START_TEST(who_knows_the_tag_meets_no_receive)
{
    uint8_t forged[YK__OFI_HEAD + YK__MAC_BYTES] = {0};
    stranger x;
    meeting_assert_open();
    stranger_open(&x);
    stranger_send(&x, forged, sizeof forged, meet.member[0].tr->tag);
    meeting_assert_unharmed();
    stranger_close(&x);
}
END_TEST

/* Sends from rank 1's own endpoint, past its transport. */
static void send_as_rank_1(void *data, size_t bytes)
{
    yk_tr *t = meet.member[1].tr;
    yk__ofi_buffer *b = t->peer[0].idle;
    t->peer[0].idle = b->next;
    memcpy(b->data, data, bytes);
    ck_assert_int_eq((int)fi_tsend(t->ep, b->data, bytes, t->desc, t->peer[0].address, t->tag, &b->context), 0);
    t->peer[0].under_way++;
}

START_TEST(a_forged_message_from_a_ranks_address_is_refused)
{
    uint8_t forged[200] = {0};
    meeting_assert_open();
    yk__bytes_put64(forged, meet.member[0].tr->peer[1].expected);
    yk__bytes_put32(forged + 8, YK__MATCH_SHORT);
    send_as_rank_1(forged, sizeof forged);
    await_refusal("rank 0 refuses a message from the address of rank 1: it does not prove the job's secret");
    send_as_rank_1(forged, 3);
    meeting_assert_unharmed();
    ck_assert_int_eq(meeting_logged("refuses a message"), 1);
}
END_TEST

static size_t frame_make(uint8_t *to, uint64_t sequence, uint32_t kind)
{
    memset(to, 0, YK__OFI_HEAD);
    yk__bytes_put64(to, sequence);
    yk__bytes_put32(to + 8, kind);
    yk__mac_of(meet.member[1].tr->peer[0].send_key, sequence, to, YK__OFI_HEAD, to + YK__OFI_HEAD);
    return YK__OFI_HEAD + YK__MAC_BYTES;
}

START_TEST(a_replayed_message_is_refused)
{
    uint8_t frame[YK__OFI_HEAD + YK__MAC_BYTES];
    meeting_assert_open();
    send_as_rank_1(frame, frame_make(frame, 0, YK__OFI_HELLO));
    await_refusal("rank 0 refuses a message from the address of rank 1: it was sent before");
    meeting_assert_unharmed();
}
END_TEST

START_TEST(a_damaged_frame_is_an_error_that_names_the_rank)
{
    const yk_transport *table = yk__ofi_transport();
    const int64_t until = yk__clock_ms() + MEETING_MS;
    uint8_t frame[YK__OFI_HEAD + YK__MAC_BYTES], byte;
    uint64_t events = 0;
    yk_tr_op *op;
    yk_tr_error error = {""};
    yk_status s = YK_OK;
    meeting_assert_open();
    send_as_rank_1(frame, frame_make(frame, meet.member[1].tr->peer[0].sent, 77));
    while (!s && yk__clock_ms() < until) {
        s = table->progress(meet.member[0].tr, 0, &events, &error);
        table->progress(meet.member[1].tr, 0, &events, &(yk_tr_error){""});
    }
    ck_assert_int_eq(s, YK_E_FORMAT);
    ck_assert_ptr_nonnull(strstr(error.text, "rank 1 sent a frame that rank 0 cannot take: kind 77"));
    ck_assert_int_eq(table->send(meet.member[0].tr, 1, 1, &(yk_tr_range){.data = &byte, .bytes = 1}, &op, &error), YK_E_FORMAT);
}
END_TEST

/* ---- Opening -------------------------------------------------------------------------------------------------------- */

static void claim_pigeon(uint32_t rank, uint8_t *own)
{
    if (rank == 1)
        snprintf((char *)own, YK__OFI_NAME, "carrier-pigeon");
}

START_TEST(unlike_providers_are_an_error_that_names_both)
{
    meet.speak = claim_pigeon;
    meeting_open_both();
    for (uint32_t r = 0; r < MEETING_RANKS; r++) {
        ck_assert_int_eq(meet.member[r].s, YK_E_ARG);
        ck_assert_ptr_nonnull(strstr(meet.member[r].error.text, "rank 0 has libfabric's provider "));
        ck_assert_ptr_nonnull(strstr(meet.member[r].error.text, "and rank 1 has carrier-pigeon (libfabric"));
    }
}
END_TEST

START_TEST(the_end_of_the_job_ends_opening)
{
    meet.ended[0] = meet.ended[1] = true;
    meeting_open_both();
    for (uint32_t r = 0; r < MEETING_RANKS; r++) {
        ck_assert_int_eq(meet.member[r].s, YK_E_CANCELLED);
        ck_assert_str_eq(meet.member[r].error.text, "the job has ended");
    }
}
END_TEST

/* Both may be told by the provider first, or by silence; each names both ends. */
static void assert_lost(void)
{
    for (uint32_t r = 0; r < MEETING_RANKS; r++) {
        const yk__line *line = &meet.member[r].tr->peer[1 - r].line;
        const yk_tr_error lost = meeting_lost(r, 20000);
        ck_assert_msg(strstr(lost.text, line->own) && strstr(lost.text, line->other) && strstr(line->own, "127.0.0.1:"), "rank %u: '%s'", r,
                      lost.text);
    }
}

START_TEST(a_connection_that_carries_nothing_is_reported_to_both)
{
    meeting_assert_open();
    for (uint32_t r = 0; r < MEETING_RANKS; r++) { /* as on two hosts, whose watches do not see each other's threads */
        pthread_mutex_lock(&meet.member[r].tr->base.lock);
        meet.member[r].tr->peer[1 - r].line.thread.number = 0;
        pthread_mutex_unlock(&meet.member[r].tr->base.lock);
    }
    meeting_deafen();
    assert_lost();
}
END_TEST

START_TEST(a_line_without_messages_is_well)
{
    meeting_assert_open();
    ck_assert_str_eq(meeting_lost(0, YK__WATCH_SILENT_MS + 600).text, "");
    ck_assert_str_eq(meeting_lost(1, 0).text, "");
    meeting_assert_unharmed();
}
END_TEST

START_TEST(an_unknown_provider_is_an_error_that_lists_the_others)
{
    struct fi_info *info = NULL;
    yk_tr_error error = {""};
    setenv("YOKE_OFI_PROVIDER", "carrier-pigeon", 1);
    ck_assert_int_eq(yk__ofi_provider("127.0.0.1", &info, &error), YK_E_ARG);
    ck_assert_ptr_nonnull(strstr(error.text, "YOKE_OFI_PROVIDER=carrier-pigeon, expected efa, "));
    setenv("YOKE_OFI_PROVIDER", "efa", 1); /* no machine that runs tests has one */
    ck_assert_int_eq(yk__ofi_provider("127.0.0.1", &info, &error), YK_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.text, "YOKE_OFI_PROVIDER=efa: libfabric "));
    unsetenv("YOKE_OFI_PROVIDER");
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        a_strangers_messages_are_refused_and_logged_once, who_knows_the_tag_meets_no_receive,
        a_forged_message_from_a_ranks_address_is_refused, a_replayed_message_is_refused, a_damaged_frame_is_an_error_that_names_the_rank,
        unlike_providers_are_an_error_that_names_both, the_end_of_the_job_ends_opening,
        an_unknown_provider_is_an_error_that_lists_the_others, a_connection_that_carries_nothing_is_reported_to_both,
        a_line_without_messages_is_well,
    };
    return suite_run_all("ofi", tests, sizeof tests / sizeof *tests, open_meeting, meeting_end);
}
