/* SPDX-License-Identifier: Apache-2.0 */
/* Two ranks of a transport in one process; see meeting.h. */
#include "config.h"

#include "tests/support/meeting.h"

#include <check.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/clock.h"

meeting meet;
const uint8_t meeting_secret[32] = "the secret of this job, 32 bytes";

void meeting_begin(const yk_transport *table)
{
    int fd;
    memset(&meet, 0, sizeof meet);
    meet.table = table;
    for (uint32_t r = 0; r < MEETING_RANKS; r++)
        meet.member[r].rank = r;
    pthread_mutex_init(&meet.lock, NULL);
    pthread_cond_init(&meet.all_here, NULL);
    strcpy(meet.log_path, "/tmp/yoke-meeting-XXXXXX");
    fd = mkstemp(meet.log_path);
    ck_assert_int_ge(fd, 0);
    meet.saved_stderr = dup(2);
    dup2(fd, 2);
    close(fd);
}

int meeting_logged(const char *text)
{
    char line[1000];
    int n = 0;
    FILE *f = fopen(meet.log_path, "r");
    while (fgets(line, sizeof line, f))
        n += strstr(line, text) != NULL;
    fclose(f);
    return n;
}

/* ---- Opening and closing ------------------------------------------------------------------------------------------ */

static yk_status blobs_exchange(void *arg, const void *own, uint32_t bytes, void *all, yk_tr_error *error)
{
    const meeting_member *m = arg;
    (void)error;
    ck_assert_uint_le(bytes, MEETING_BLOB);
    pthread_mutex_lock(&meet.lock);
    memcpy(meet.blob[m->rank], own, bytes);
    if (meet.speak)
        meet.speak(m->rank, meet.blob[m->rank]);
    meet.here++;
    pthread_cond_broadcast(&meet.all_here);
    while (meet.here < MEETING_RANKS)
        pthread_cond_wait(&meet.all_here, &meet.lock);
    for (uint32_t r = 0; r < MEETING_RANKS; r++)
        memcpy((uint8_t *)all + (size_t)r * bytes, meet.blob[r], bytes);
    pthread_mutex_unlock(&meet.lock);
    if (meet.met)
        meet.met(m->rank);
    return YK_OK;
}

static yk_status job_check(void *arg, yk_tr_error *error)
{
    const meeting_member *m = arg;
    if (!meet.ended[m->rank])
        return YK_OK;
    snprintf(error->text, sizeof error->text, "the job has ended");
    return YK_E_CANCELLED;
}

static void connection_lost(void *arg, uint32_t peer, const yk_tr_error *why)
{
    const meeting_member *m = arg;
    ck_assert_uint_eq(peer, 1 - m->rank);
    pthread_mutex_lock(&meet.lock);
    meet.lost[m->rank] = *why;
    pthread_mutex_unlock(&meet.lock);
}

static void *member_open(void *arg)
{
    meeting_member *m = arg;
    const yk_tr_config c = {.size = sizeof c, .rank = m->rank, .ranks = MEETING_RANKS, .host = meet.host, .name = "test",
                            .exchange = blobs_exchange, .exchange_arg = m, .secret = meeting_secret,
                            .secret_bytes = sizeof meeting_secret, .address = m->address, .check = job_check,
                            .lost = connection_lost};
    m->s = meet.table->open(&c, &m->tr, &m->error);
    return NULL;
}

static void *member_close(void *arg)
{
    const meeting_member *m = arg;
    if (m->tr)
        meet.table->close(m->tr);
    return NULL;
}

/* Both at once: each may wait for the other. */
static void both_do(void *(*work)(void *))
{
    pthread_t thread;
    pthread_create(&thread, NULL, work, &meet.member[1]);
    work(&meet.member[0]);
    pthread_join(thread, NULL);
}

void meeting_open(uint32_t rank)
{
    member_open(&meet.member[rank]);
}

void meeting_open_both(void)
{
    both_do(member_open);
}

void meeting_assert_open(void)
{
    meeting_open_both();
    for (uint32_t r = 0; r < MEETING_RANKS; r++)
        ck_assert_msg(!meet.member[r].s, "rank %u: %s", r, meet.member[r].error.text);
}

void meeting_close(uint32_t rank)
{
    member_close(&meet.member[rank]);
    meet.member[rank].tr = NULL;
}

void meeting_end(void)
{
    both_do(member_close);
    dup2(meet.saved_stderr, 2);
    close(meet.saved_stderr);
    unlink(meet.log_path);
}

/* ---- Connections ---------------------------------------------------------------------------------------------------- */

static void each_connection(void (*work)(int fd))
{
    for (int fd = 3; fd < 256; fd++) {
        struct sockaddr_storage a;
        socklen_t bytes = sizeof a;
        if (!getpeername(fd, (struct sockaddr *)&a, &bytes) && (a.ss_family == AF_INET || a.ss_family == AF_INET6))
            work(fd);
    }
}

static void connection_deafen(int fd)
{
    struct sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
    const struct sock_fprog filter = {1, &nothing};
    ck_assert(!setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter));
}

void meeting_deafen(void)
{
    each_connection(connection_deafen);
}

static void connection_cut(int fd)
{
    shutdown(fd, SHUT_RDWR);
}

void meeting_cut(void)
{
    each_connection(connection_cut);
}

yk_tr_error meeting_lost(uint32_t rank, int64_t ms)
{
    const int64_t until = yk__clock_ms() + ms;
    yk_tr_error lost = {""};
    while (!*lost.text && yk__clock_ms() < until) {
        usleep(20000);
        pthread_mutex_lock(&meet.lock);
        lost = meet.lost[rank];
        pthread_mutex_unlock(&meet.lock);
    }
    return lost;
}

/* ---- Messages ----------------------------------------------------------------------------------------------------- */

void meeting_move(void)
{
    for (uint32_t r = 0; r < MEETING_RANKS; r++) {
        uint64_t events = 0;
        yk_tr_error error = {""};
        ck_assert_msg(!meet.table->progress(meet.member[r].tr, 0, &events, &error), "%s", error.text);
    }
}

static void op_await(uint32_t rank, yk_tr_op *op)
{
    const int64_t until = yk__clock_ms() + MEETING_MS;
    yk_tr_error error = {""};
    int done = 0;
    while (!done && yk__clock_ms() < until) {
        meeting_move();
        ck_assert_msg(!meet.table->test(meet.member[rank].tr, op, &done, NULL, &error), "%s", error.text);
    }
    ck_assert_msg(done, "a message of rank %u is not done", rank);
}

void meeting_carry(uint32_t from, const void *data, void *got, uint64_t bytes)
{
    yk_tr_op *op[2];
    yk_tr_error error;
    ck_assert(!meet.table->send(meet.member[from].tr, 1 - from, 5, &(yk_tr_range){.data = (void *)data, .bytes = bytes}, &op[0], &error));
    ck_assert(!meet.table->recv(meet.member[1 - from].tr, from, 5, &(yk_tr_range){.data = got, .bytes = bytes}, &op[1], &error));
    op_await(from, op[0]);
    op_await(1 - from, op[1]);
}

void meeting_assert_unharmed(void)
{
    for (uint32_t r = 0; r < MEETING_RANKS; r++) {
        char got[6] = "";
        ck_assert_msg(!meet.member[r].s, "rank %u: %s", r, meet.member[r].error.text);
        meeting_carry(r, "hello", got, sizeof got);
        ck_assert_str_eq(got, "hello");
    }
}
