/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ofi transport among strangers: what they send is refused, the job is unharmed, and the log says it once. Ranks are threads of this
 * process, a stranger is an endpoint of its own, or (who has taken over a rank's address) that rank's endpoint.
 */
#include "config.h"

#include <check.h>
#include <fcntl.h>
#include <pthread.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/net/bytes.h"
#include "tests/support/run.h"
#include "transport/ofi/internal.h"

enum { RANKS = 2, BLOB = 4096, LIMIT_MS = 20000 };

static const uint8_t secret[32] = "the secret of this job, 32 bytes";

typedef struct meeting {
    pthread_mutex_t lock;
    pthread_cond_t all_here;
    uint32_t here;
    uint8_t blob[RANKS][BLOB];
    const char *provider; /* what rank 1 says it has; NULL: what it has */
    bool ended;           /* what check says */
} meeting;

typedef struct member {
    uint32_t rank;
    yk_tr *tr;
    yk_tr_error error;
    yk_status s;
} member;

static meeting meet;
static member member_of[RANKS];
static char log_path[] = "/tmp/yoke-ofi-XXXXXX";
static int saved_stderr;

static void open_meeting(void)
{
    int fd;
    memset(&meet, 0, sizeof meet);
    memset(member_of, 0, sizeof member_of);
    pthread_mutex_init(&meet.lock, NULL);
    pthread_cond_init(&meet.all_here, NULL);
    strcpy(log_path, "/tmp/yoke-ofi-XXXXXX");
    fd = mkstemp(log_path);
    ck_assert_int_ge(fd, 0);
    saved_stderr = dup(2);
    dup2(fd, 2);
    close(fd);
}

static int logged_lines(const char *text)
{
    char line[1000];
    int n = 0;
    FILE *f = fopen(log_path, "r");
    while (fgets(line, sizeof line, f))
        n += strstr(line, text) != NULL;
    fclose(f);
    return n;
}

static yk_status exchange_blobs(void *arg, const void *own, uint32_t bytes, void *all, yk_tr_error *error)
{
    const member *m = arg;
    (void)error;
    pthread_mutex_lock(&meet.lock);
    memcpy(meet.blob[m->rank], own, bytes);
    if (m->rank == 1 && meet.provider)
        snprintf((char *)meet.blob[1], YK__OFI_NAME, "%s", meet.provider);
    meet.here++;
    pthread_cond_broadcast(&meet.all_here);
    while (meet.here < RANKS)
        pthread_cond_wait(&meet.all_here, &meet.lock);
    for (uint32_t r = 0; r < RANKS; r++)
        memcpy((uint8_t *)all + (size_t)r * bytes, meet.blob[r], bytes);
    pthread_mutex_unlock(&meet.lock);
    return YK_OK;
}

static yk_status check_job(void *arg, yk_tr_error *error)
{
    (void)arg;
    if (!meet.ended)
        return YK_OK;
    snprintf(error->text, sizeof error->text, "the job has ended");
    return YK_E_CANCELLED;
}

static void *open_member(void *arg)
{
    static const uint64_t host[RANKS];
    member *m = arg;
    const yk_tr_config c = {.size = sizeof c, .rank = m->rank, .ranks = RANKS, .host = host, .name = "test",
                            .exchange = exchange_blobs, .exchange_arg = m, .secret = secret, .secret_bytes = sizeof secret,
                            .address = "127.0.0.1", .check = check_job};
    m->s = yk__ofi_transport()->open(&c, &m->tr, &m->error);
    return NULL;
}

static void open_both(void)
{
    pthread_t thread;
    for (uint32_t r = 0; r < RANKS; r++)
        member_of[r].rank = r;
    pthread_create(&thread, NULL, open_member, &member_of[1]);
    open_member(&member_of[0]);
    pthread_join(thread, NULL);
}

static void assert_open(void)
{
    open_both();
    for (uint32_t r = 0; r < RANKS; r++)
        ck_assert_msg(!member_of[r].s, "rank %u: %s", r, member_of[r].error.text);
}

static void *close_member(void *arg)
{
    member *m = arg;
    yk__ofi_transport()->close(m->tr);
    return NULL;
}

/* Both at once: each waits for the other. */
static void close_all(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, close_member, &member_of[1]);
    close_member(&member_of[0]);
    pthread_join(thread, NULL);
    dup2(saved_stderr, 2);
    close(saved_stderr);
    unlink(log_path);
}

static void move_both(void)
{
    for (uint32_t r = 0; r < RANKS; r++) {
        uint64_t events = 0;
        yk_tr_error error = {""};
        ck_assert_msg(!yk__ofi_transport()->progress(member_of[r].tr, 0, &events, &error), "%s", error.text);
    }
}

/* A message each way. */
static void assert_unharmed(void)
{
    const yk_transport *table = yk__ofi_transport();
    for (uint32_t r = 0; r < RANKS; r++) {
        char text[6] = "hello", got[6] = "";
        const int64_t until = yk__clock_ms() + LIMIT_MS;
        yk_tr_op *op[2];
        yk_tr_error error;
        ck_assert(!table->send(member_of[r].tr, 1 - r, 5, &(yk_tr_range){.data = text, .bytes = 6}, &op[0], &error));
        ck_assert(!table->recv(member_of[1 - r].tr, r, 5, &(yk_tr_range){.data = got, .bytes = 6}, &op[1], &error));
        for (int i = 0; i < 2; i++) {
            int done = 0;
            while (!done && yk__clock_ms() < until) {
                move_both();
                ck_assert(!table->test(member_of[i ? 1 - r : r].tr, op[i], &done, NULL, &error));
            }
            ck_assert_msg(done, "a message of rank %u does not arrive", r);
        }
        ck_assert_str_eq(got, "hello");
    }
}

/* Moves until the refusal of rank 0 is logged. */
static void await_refusal(const char *text)
{
    const int64_t until = yk__clock_ms() + LIMIT_MS;
    while (!logged_lines(text) && yk__clock_ms() < until)
        move_both();
    ck_assert_msg(logged_lines(text) == 1, "\"%s\" is logged %d times", text, logged_lines(text));
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
    ck_assert(!fi_getname(&member_of[0].tr->ep->fid, address, &bytes));
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
    const int64_t until = yk__clock_ms() + LIMIT_MS;
    struct fi_context2 context;
    struct fi_cq_msg_entry entry;
    ssize_t n;
    do {
        n = fi_tsend(x->ep, data, bytes, NULL, x->victim, tag, &context);
        fi_cq_read(x->cq, &entry, 0);
        move_both();
    } while (n == -FI_EAGAIN && yk__clock_ms() < until);
    ck_assert_msg(!n, "a stranger cannot send: %s", fi_strerror((int)-n));
    while (fi_cq_read(x->cq, &entry, 1) == -FI_EAGAIN && yk__clock_ms() < until)
        move_both();
}

START_TEST(a_strangers_messages_are_refused_and_logged_once)
{
    static const uint64_t tags[] = {0, 42, UINT32_MAX, UINT64_MAX};
    static uint8_t forged[2000] = "forged";
    stranger x;
    assert_open();
    stranger_open(&x);
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
        stranger_send(&x, forged, i % 2 ? sizeof forged : 7, tags[i]);
    await_refusal("rank 0 refuses a message from a stranger: it is not of this job; more of them are not reported");
    assert_unharmed();
    ck_assert_int_eq(logged_lines("refuses a message"), 1);
    stranger_close(&x);
}
END_TEST

/* The tag is the job's, the address is no rank's. */
START_TEST(who_knows_the_tag_meets_no_receive)
{
    uint8_t forged[YK__OFI_HEAD + YK__OFI_MAC] = {0};
    stranger x;
    assert_open();
    stranger_open(&x);
    stranger_send(&x, forged, sizeof forged, member_of[0].tr->tag);
    assert_unharmed();
    stranger_close(&x);
}
END_TEST

/* Sends from rank 1's own endpoint, past its transport. */
static void send_as_rank_1(void *data, size_t bytes)
{
    yk_tr *t = member_of[1].tr;
    yk__ofi_buffer *b = t->peer[0].idle;
    t->peer[0].idle = b->next;
    memcpy(b->data, data, bytes);
    ck_assert_int_eq((int)fi_tsend(t->ep, b->data, bytes, t->desc, t->peer[0].address, t->tag, &b->context), 0);
    t->peer[0].under_way++;
}

START_TEST(a_forged_message_from_a_ranks_address_is_refused)
{
    uint8_t forged[200] = {0};
    assert_open();
    yk__bytes_put64(forged, member_of[0].tr->peer[1].expected);
    yk__bytes_put32(forged + 8, YK__OFI_SHORT);
    send_as_rank_1(forged, sizeof forged);
    await_refusal("rank 0 refuses a message from the address of rank 1: it does not prove the job's secret");
    send_as_rank_1(forged, 3);
    assert_unharmed();
    ck_assert_int_eq(logged_lines("refuses a message"), 1);
}
END_TEST

static size_t frame_make(uint8_t *to, uint64_t sequence, uint32_t kind)
{
    uint8_t mac[YK__AUTH_BYTES];
    memset(to, 0, YK__OFI_HEAD);
    yk__bytes_put64(to, sequence);
    yk__bytes_put32(to + 8, kind);
    yk__auth_mac(member_of[1].tr->peer[0].send_key, to, YK__OFI_HEAD, mac);
    memcpy(to + YK__OFI_HEAD, mac, YK__OFI_MAC);
    return YK__OFI_HEAD + YK__OFI_MAC;
}

START_TEST(a_replayed_message_is_refused)
{
    uint8_t frame[YK__OFI_HEAD + YK__OFI_MAC];
    assert_open();
    send_as_rank_1(frame, frame_make(frame, 0, YK__OFI_HELLO));
    await_refusal("rank 0 refuses a message from the address of rank 1: it was sent before");
    assert_unharmed();
}
END_TEST

START_TEST(a_damaged_frame_is_an_error_that_names_the_rank)
{
    const yk_transport *table = yk__ofi_transport();
    const int64_t until = yk__clock_ms() + LIMIT_MS;
    uint8_t frame[YK__OFI_HEAD + YK__OFI_MAC], byte;
    uint64_t events = 0;
    yk_tr_op *op;
    yk_tr_error error = {""};
    yk_status s = YK_OK;
    assert_open();
    send_as_rank_1(frame, frame_make(frame, member_of[1].tr->peer[0].sent, 77));
    while (!s && yk__clock_ms() < until) {
        s = table->progress(member_of[0].tr, 0, &events, &error);
        table->progress(member_of[1].tr, 0, &events, &(yk_tr_error){""});
    }
    ck_assert_int_eq(s, YK_E_FORMAT);
    ck_assert_ptr_nonnull(strstr(error.text, "rank 1 sent a frame that rank 0 cannot take: kind 77"));
    ck_assert_int_eq(table->send(member_of[0].tr, 1, 1, &(yk_tr_range){.data = &byte, .bytes = 1}, &op, &error), YK_E_FORMAT);
}
END_TEST

/* ---- Opening -------------------------------------------------------------------------------------------------------- */

START_TEST(unlike_providers_are_an_error_that_names_both)
{
    meet.provider = "carrier-pigeon";
    open_both();
    for (uint32_t r = 0; r < RANKS; r++) {
        ck_assert_int_eq(member_of[r].s, YK_E_ARG);
        ck_assert_ptr_nonnull(strstr(member_of[r].error.text, "rank 0 has libfabric's provider "));
        ck_assert_ptr_nonnull(strstr(member_of[r].error.text, "and rank 1 has carrier-pigeon (libfabric"));
    }
}
END_TEST

START_TEST(the_end_of_the_job_ends_opening)
{
    meet.ended = true;
    open_both();
    for (uint32_t r = 0; r < RANKS; r++) {
        ck_assert_int_eq(member_of[r].s, YK_E_CANCELLED);
        ck_assert_str_eq(member_of[r].error.text, "the job has ended");
    }
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
        an_unknown_provider_is_an_error_that_lists_the_others,
    };
    return suite_run_all("ofi", tests, sizeof tests / sizeof *tests, open_meeting, close_all);
}
