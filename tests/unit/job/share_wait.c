/* SPDX-License-Identifier: Apache-2.0 */
/* The ends of windows under old shares, on one of two ranks. No batch runs: the cases say which programs a window had. */
#include <check.h>

#include "core/job/job.h"
#include "core/job/opt.h"
#include "core/job/team/share.h"
#include "core/run/engine.h"
#include "tests/support/run.h"

enum { RANKS = 2, ROWS = 64 };
enum { WHOLE = 1, MISSING = 2 }; /* a window has a whole batch; of one, a program is missing */

typedef struct rig {
    yk_job job;
    yk_opt opt;
    yk__engine engine;
    yk__share share;
    uint64_t rows[RANKS];
    bool costly[RANKS];
    yk_error err;
} rig;

/* The policy's first decision is 32 rows each. */
static void rig_open(rig *r)
{
    static const yk__seat seat[RANKS];
    *r = (rig){.rows = {16, 48}, .costly = {true, true}, .err = YK_ERROR_INIT};
    r->share.share = r->rows;
    r->share.costly = r->costly;
    r->share.n = ROWS;
    r->job.team.world = RANKS;
    r->job.team.share = &r->share;
    r->job.engine = &r->engine;
    r->job.opt = &r->opt;
    pthread_mutex_init(&r->share.lock, NULL);
    ck_assert(!yk__group_solo(&r->job.team.group, &r->err));
    ck_assert(!yk__policy_new(RANKS, seat, ROWS, &r->share.policy, &r->err));
    ck_assert_uint_eq(yk__policy_decision(r->share.policy)->share[0], 32);
    r->share.waiting = (yk__waiting){.on = true, .missing = true};
}

static void rig_close(rig *r)
{
    yk__policy_free(r->share.policy);
    yk__group_leave(r->job.team.group);
    pthread_mutex_destroy(&r->share.lock);
}

static bool window_is_last(rig *r, int has)
{
    bool over;
    r->share.waiting.seen |= has & WHOLE;
    r->share.waiting.missing |= (has & MISSING) != 0;
    ck_assert(!yk__share_wait(&r->job, &over, &r->err));
    return over;
}

START_TEST(a_wait_ends_with_a_window_that_has_its_programs)
{
    rig r;
    rig_open(&r);
    for (int i = 0; i < 5; i++)
        ck_assert(!window_is_last(&r, WHOLE | MISSING));
    ck_assert(window_is_last(&r, WHOLE));
    rig_close(&r);
}
END_TEST

/* Such a window shows no program, and may come between the ends of two compilations. A job may have no other ones. */
START_TEST(two_windows_of_short_batches_do_not_end_it)
{
    rig r;
    rig_open(&r);
    for (int i = 0; i < 3; i++) {
        ck_assert(!window_is_last(&r, WHOLE | MISSING));
        ck_assert(!window_is_last(&r, 0));
        ck_assert(!window_is_last(&r, 0));
    }
    ck_assert(window_is_last(&r, 0));
    rig_close(&r);
}
END_TEST

START_TEST(the_way_back_to_a_checkpoints_rows_waits_for_none)
{
    bool changed;
    rig r;
    rig_open(&r);
    r.opt.micro = 1; /* nothing is decided within a window */
    ck_assert(yk__share_waits(&r.job));
    ck_assert(yk__share_follow(&r.job));
    r.share.resumed = true;
    ck_assert(yk__share_update(&r.job, ROWS, &changed));
    r.rows[0] = 16, r.rows[1] = 48;
    ck_assert(!yk__share_waits(&r.job));
    rig_close(&r);
}
END_TEST

int main(void)
{
    TCase *c = tcase_create("share_wait");
    tcase_add_test(c, a_wait_ends_with_a_window_that_has_its_programs);
    tcase_add_test(c, two_windows_of_short_batches_do_not_end_it);
    tcase_add_test(c, the_way_back_to_a_checkpoints_rows_waits_for_none);
    return suite_run("job_share_wait", c);
}
