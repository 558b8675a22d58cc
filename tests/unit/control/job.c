/* SPDX-License-Identifier: Apache-2.0 */
/* The launcher's end of a rank's socket: a rank's message is read, even if the rank left messages unread. */
#include "config.h"

#include <check.h>

#include "core/control/control.h"
#include "core/control/control_job.h"
#include "tests/support/run.h"

/* A socket whose other end closed with unread bytes, here the hello, answers ECONNRESET first, and what was sent after that. */
START_TEST(last_words_of_a_rank_that_never_joined_are_read)
{
    yk__control_job *job = NULL;
    yk_error err = YK_ERROR_INIT, why = YK_ERROR_INIT, said = YK_ERROR_INIT;
    ck_assert_msg(!yk__control_job_new(2, &job, &err), "%s", err.text);
    yk__fail(&why, YK_E_ARG, "no such device");
    ck_assert(yk__control_report(yk__control_job_rank_fd(job, 1), &why));
    yk__control_job_started(job, 1); /* the only one that has it open */
    ck_assert(yk__control_job_notice(job, 1, &said));
    ck_assert_int_eq(said.status, YK_E_ARG);
    ck_assert_str_eq(said.text, "no such device");
    ck_assert(!yk__control_job_notice(job, 1, &err) && yk__control_job_fd(job, 1) < 0); /* and then the end */
    yk__control_job_free(job);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("job");
    tcase_add_test(t, last_words_of_a_rank_that_never_joined_are_read);
    return suite_run("job", t);
}
