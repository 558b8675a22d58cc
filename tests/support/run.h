/* SPDX-License-Identifier: Apache-2.0 */
/* The main() of a unit test: one test case as the whole program, with TAP on standard output. */
#ifndef YOKE_TESTS_SUPPORT_RUN_H
#define YOKE_TESTS_SUPPORT_RUN_H

#include <check.h>

/* Takes the case over. 0 whatever fails: the harness reads TAP. */
static inline int suite_run(const char *name, TCase *t)
{
    Suite *s = suite_create(name);
    SRunner *runner = srunner_create(s);
    suite_add_tcase(s, t);
    srunner_set_tap(runner, "-");
    srunner_run_all(runner, CK_SILENT);
    srunner_free(runner);
    return 0;
}

/* The same of a table of tests, each within the fixture. */
static inline int suite_run_all(const char *name, const TTest *const *tests, size_t n, SFun setup, SFun teardown)
{
    TCase *t = tcase_create(name);
    tcase_add_checked_fixture(t, setup, teardown);
    for (size_t i = 0; i < n; i++)
        tcase_add_test(t, tests[i]);
    return suite_run(name, t);
}

#endif
