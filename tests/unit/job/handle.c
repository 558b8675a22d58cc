/* SPDX-License-Identifier: Apache-2.0 */
/* The table of open jobs: a call looks at its own job alone, as another thread may free any other one meanwhile. */
#define _GNU_SOURCE
#include <check.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "core/job/job.h"
#include "tests/support/run.h"

static yk_t handle_of(const yk_job *job)
{
    return (yk_t){(uint64_t)job->serial << 48};
}

static void job_enter(yk_job *job)
{
    yk_error err = YK_ERROR_INIT;
    ck_assert_msg(!yk__job_register(job, &err), "%s", err.text);
}

/* The memory of the job before it in the table cannot be read, as if it were freed. */
START_TEST(a_job_is_found_among_freed_ones)
{
    yk_job *freed = mmap(NULL, sizeof *freed, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    yk_job *job = calloc(1, sizeof *job);
    ck_assert(freed != MAP_FAILED && job);
    job_enter(freed);
    job_enter(job);
    const yk_t other = handle_of(freed);
    ck_assert(!mprotect(freed, sizeof *freed, PROT_NONE));
    ck_assert_ptr_eq(yk__job_of(handle_of(job)), job);
    yk__job_unregister(freed);
    ck_assert_ptr_null(yk__job_of(other));
    ck_assert_ptr_eq(yk__job_of(handle_of(job)), job);
    yk__job_unregister(job);
    ck_assert_ptr_null(yk__job_of(handle_of(job)));
    munmap(freed, sizeof *freed);
    free(job);
}
END_TEST

/* Serials have 16 bits, and come again. */
START_TEST(open_jobs_have_unlike_serials)
{
    yk_job *old = calloc(1, sizeof *old), *job = calloc(1, sizeof *job);
    ck_assert(old && job);
    job_enter(old);
    for (int i = 0; i < 2 * UINT16_MAX; i++) {
        job_enter(job);
        ck_assert_msg(job->serial && job->serial != old->serial, "job %d has the serial %d, and the first one %d", i, job->serial,
                      old->serial);
        ck_assert_ptr_eq(yk__job_of(handle_of(job)), job);
        yk__job_unregister(job);
    }
    ck_assert_ptr_eq(yk__job_of(handle_of(old)), old);
    yk__job_unregister(old);
    free(job);
    free(old);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("handle");
    tcase_add_test(t, a_job_is_found_among_freed_ones);
    tcase_add_test(t, open_jobs_have_unlike_serials);
    return suite_run("job_handle", t);
}
