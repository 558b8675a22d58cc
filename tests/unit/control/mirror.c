/* SPDX-License-Identifier: Apache-2.0 */
/* Slots of other hosts: a change here arrives there, once; impossible frames are refused and change nothing. The contents of the
 * launcher's store. */
#include "config.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/control/mirror.h"
#include "core/control/start/pmi.h"
#include "tests/support/run.h"

#define RANKS 3u

typedef struct pair {
    yk__control_head *here, *there;
    yk__mirror_seen seen;
    uint32_t frames;
} pair;

static yk__control_head *head_new(uint64_t host)
{
    yk__control_head *head = calloc(1, yk__control_bytes(RANKS));
    ck_assert_ptr_nonnull(head);
    head->ranks = RANKS;
    head->host = host;
    return head;
}

static void pair_new(pair *p)
{
    *p = (pair){.here = head_new(1), .there = head_new(2)};
    atomic_store(&p->here->slot[1].host, 1);
    strcpy(p->here->slot[1].name, "rank 1 (a)");
    atomic_store(&p->here->slot[1].state, YK__RANK_JOINED);
}

static void pair_free(pair *p)
{
    free(p->here);
    free(p->there);
}

static void deliver_frame(void *arg, uint32_t kind, const void *data, uint32_t bytes)
{
    pair *p = arg;
    yk_error err = YK_ERROR_INIT;
    const yk__frame frame = {.kind = kind, .bytes = bytes, .data = data};
    p->frames++;
    ck_assert_msg(!yk__mirror_apply(p->there, &frame, &err), "%s", err.text);
}

static void scan_slot(pair *p, bool all)
{
    yk__mirror_scan(p->here, 1, all, &p->seen, deliver_frame, p);
}

START_TEST(slot_arrives_whole)
{
    uint8_t info[YK__CONTROL_INFO] = {9, 8, 7};
    pair p;
    pair_new(&p);
    yk__control_slot *a = &p.here->slot[1], *b = &p.there->slot[1];
    yk__control_slot_publish(a, info, sizeof info);
    memset(a->blob, 5, 100);
    a->blob_bytes = 100;
    atomic_store(&a->given, 4);
    atomic_store(&a->taken, 3);
    strcpy(a->waits_in, "a test");
    atomic_store(&a->waits_for, 1);
    scan_slot(&p, true);
    ck_assert_str_eq(b->name, "rank 1 (a)");
    ck_assert_str_eq(b->waits_in, "a test");
    ck_assert_mem_eq(b->info, info, sizeof info);
    ck_assert_mem_eq(b->blob, a->blob, 101);
    ck_assert_uint_eq(atomic_load(&b->given), 4);
    ck_assert_uint_eq(atomic_load(&b->taken), 3);
    ck_assert_uint_eq(atomic_load(&b->waits_for), 1);
    ck_assert_uint_eq(atomic_load(&b->host), 1);
    ck_assert_uint_eq(atomic_load(&b->state), YK__RANK_JOINED);
    ck_assert_uint_eq(atomic_load(&b->stamp) % 2, 0);
    pair_free(&p);
}
END_TEST

START_TEST(what_has_not_changed_is_not_sent_again)
{
    pair p;
    pair_new(&p);
    scan_slot(&p, true);
    p.frames = 0;
    scan_slot(&p, true);
    ck_assert_uint_eq(p.frames, 0);
    atomic_fetch_add(&p.here->slot[1].calls, 1); /* nobody is waiting for that */
    scan_slot(&p, false);
    ck_assert_uint_eq(p.frames, 0);
    scan_slot(&p, true);
    ck_assert_uint_eq(p.frames, 1);
    atomic_store(&p.here->slot[1].state, YK__RANK_LEFT);
    scan_slot(&p, false);
    ck_assert_uint_eq(p.frames, 2);
    ck_assert_uint_eq(atomic_load(&p.there->slot[1].state), YK__RANK_LEFT);
    pair_free(&p);
}
END_TEST

START_TEST(end_of_the_job_arrives_once)
{
    yk_error err = YK_ERROR_INIT;
    yk__frame_end end;
    uint32_t rank;
    bool silent;
    pair p;
    pair_new(&p);
    ck_assert(!yk__mirror_end(p.here, &end));
    yk__control_record_end(p.here, 2, true, YK_E_FORMAT, "the first");
    ck_assert(yk__mirror_end(p.here, &end));
    const yk__frame frame = {.kind = YK__FRAME_END, .bytes = sizeof end, .data = (const uint8_t *)&end};
    ck_assert_int_eq(yk__mirror_apply_end(p.there, &frame, &err), YK_OK);
    strcpy(end.text, "the second");
    ck_assert_int_eq(yk__mirror_apply_end(p.there, &frame, &err), YK_OK);
    ck_assert(yk__control_read_end(p.there, RANKS, &rank, &silent, &err));
    ck_assert_str_eq(err.text, "the first");
    ck_assert_int_eq(err.status, YK_E_FORMAT);
    ck_assert(silent && rank == 2);
    pair_free(&p);
}
END_TEST

static void assert_refused(uint32_t kind, const void *data, uint32_t bytes)
{
    yk_error err = YK_ERROR_INIT;
    const yk__frame frame = {.kind = kind, .bytes = bytes, .data = data};
    pair p;
    pair_new(&p);
    const yk_status s = kind == YK__FRAME_END ? yk__mirror_apply_end(p.there, &frame, &err) : yk__mirror_apply(p.there, &frame, &err);
    ck_assert_msg(s == YK_E_FORMAT, "kind %u, %u bytes: '%s'", kind, bytes, err.text);
    pair_free(&p);
}

START_TEST(frames_that_cannot_be_are_refused)
{
    yk__frame_state state = {.host = 1, .rank = 1};
    yk__frame_name name = {.rank = RANKS};
    yk__frame_blob blob = {.rank = 0};
    yk__frame_end end = {.status = YK_STATUS_COUNT};
    assert_refused(YK__FRAME_NAME, &name, sizeof name);
    name.rank = 1;
    assert_refused(YK__FRAME_NAME, &name, sizeof name - 1);
    assert_refused(YK__FRAME_STATE, &state, sizeof state + 1);
    assert_refused(YK__FRAME_HERE, &state, sizeof state);
    assert_refused(77, &state, sizeof state);
    state.state = YK__RANK_GONE + 1;
    assert_refused(YK__FRAME_STATE, &state, sizeof state);
    state.state = YK__RANK_JOINED;
    state.waits_for = RANKS + 1;
    assert_refused(YK__FRAME_STATE, &state, sizeof state);
    state.waits_for = 0;
    state.host = 2; /* that of whom it is sent to */
    assert_refused(YK__FRAME_STATE, &state, sizeof state);
    assert_refused(YK__FRAME_BLOB, &blob, 4);
    assert_refused(YK__FRAME_BLOB, &blob, sizeof blob + 1);
    assert_refused(YK__FRAME_END, &end, sizeof end);
    end.status = 0;
    assert_refused(YK__FRAME_END, &end, sizeof end);
    end.status = YK_E_IO;
    assert_refused(YK__FRAME_END, &end, sizeof end - 4);
}
END_TEST

/* Random bytes of each kind and length, in memory of exactly that length: the sanitizers see what reads behind it. */
START_TEST(random_frames_do_no_harm)
{
    pair p;
    pair_new(&p);
    srand(7);
    for (int i = 0; i < 20000; i++) {
        yk_error err = YK_ERROR_INIT;
        const uint32_t bytes = i % 3 ? (uint32_t)rand() % 200 : (uint32_t)rand() % 5000, kind = (uint32_t)rand() % 11;
        uint8_t *data = malloc(bytes ? bytes : 1);
        for (uint32_t b = 0; b < bytes; b++)
            data[b] = rand() % 4 ? 0 : (uint8_t)rand();
        const yk__frame frame = {.kind = kind, .bytes = bytes, .data = data};
        if (kind == YK__FRAME_END)
            yk__mirror_apply_end(p.there, &frame, &err);
        else
            yk__mirror_apply(p.there, &frame, &err);
        free(data);
    }
    ck_assert_uint_eq(p.there->ranks, RANKS);
    ck_assert_uint_eq(p.there->host, 2);
    for (uint32_t r = 0; r < RANKS; r++)
        ck_assert_uint_le(atomic_load(&p.there->slot[r].state), YK__RANK_GONE);
    pair_free(&p);
}
END_TEST

/* ---- The launcher's store ---------------------------------------------------------------------------------------- */

typedef struct fake_launcher {
    int fd;
    const char *answer[3]; /* to the requests in turn; NULL: it closes */
    char asked[256];
} fake_launcher;

static void *answer_requests(void *arg)
{
    fake_launcher *f = arg;
    for (int i = 0; i < 3; i++) {
        const size_t used = strlen(f->asked);
        const ssize_t n = read(f->fd, f->asked + used, sizeof f->asked - 1 - used);
        if (n <= 0 || !f->answer[i] || write(f->fd, f->answer[i], strlen(f->answer[i])) < 0)
            break;
    }
    close(f->fd);
    return NULL;
}

static yk_status ask_fake(const char *name_answer, char name[YK__PMI_VALUE], char *asked, yk_error *err)
{
    int fd[2];
    pthread_t thread;
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
    fake_launcher f = {fd[1], {"cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n", name_answer, "cmd=finalize_ack\n"}, ""};
    ck_assert_int_eq(pthread_create(&thread, NULL, answer_requests, &f), 0);
    const yk_status s = yk__pmi_job_name(fd[0], name, err);
    close(fd[0]);
    pthread_join(thread, NULL);
    strcpy(asked, f.asked);
    return s;
}

START_TEST(store_names_the_job)
{
    char name[YK__PMI_VALUE], asked[256];
    yk_error err = YK_ERROR_INIT;
    ck_assert_msg(!ask_fake("cmd=my_kvsname kvsname=kvs_4711_0 rc=0\n", name, asked, &err), "%s", err.text);
    ck_assert_str_eq(name, "kvs_4711_0");
    ck_assert_str_eq(asked, "cmd=init pmi_version=1 pmi_subversion=1\ncmd=get_my_kvsname\ncmd=finalize\n");
}
END_TEST

START_TEST(store_that_answers_nonsense_is_refused)
{
    char name[YK__PMI_VALUE], asked[256];
    yk_error err = YK_ERROR_INIT;
    ck_assert_int_eq(ask_fake("cmd=my_kvsname\n", name, asked, &err), YK_E_FORMAT);
    ck_assert_int_eq(ask_fake("hello\n", name, asked, &err), YK_E_FORMAT);
    ck_assert_int_eq(ask_fake(NULL, name, asked, &err), YK_E_IO);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("mirror");
    tcase_add_test(t, slot_arrives_whole);
    tcase_add_test(t, what_has_not_changed_is_not_sent_again);
    tcase_add_test(t, end_of_the_job_arrives_once);
    tcase_add_test(t, frames_that_cannot_be_are_refused);
    tcase_add_test(t, random_frames_do_no_harm);
    tcase_add_test(t, store_names_the_job);
    tcase_add_test(t, store_that_answers_nonsense_is_refused);
    return suite_run("mirror", t);
}
