/* Runs Check suites: how main ends. */
#ifndef FACC_TEST_SUITE_H
#define FACC_TEST_SUITE_H

#include <check.h>

/* Runs the suite and frees it; main's result. */
static inline int suite_run(Suite *s)
{
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    const int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}

/* The same of a list of tests, each between set_up and tear_down, if there are
 * any, and at most so many seconds long. */
static inline int suite_run_tests(const char *name, double seconds, SFun set_up,
                                  SFun tear_down, const TTest *const *tests,
                                  size_t n)
{
    Suite *s = suite_create(name);
    TCase *t = tcase_create("all");
    if (set_up)
        tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_set_timeout(t, seconds);
    for (size_t i = 0; i < n; i++)
        tcase_add_test(t, tests[i]);
    suite_add_tcase(s, t);
    return suite_run(s);
}

#endif
