/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the result of one check of `yoke test`, and counts failures. sanity.c and its neighbours call it on all ranks, in the main thread;
 * the first rank prints.
 */
#include "tools/check/sanity_report.h"

#include <stdio.h>

void sanity_report(sanity *s, bool ok, const char *name, const char *text)
{
    s->passed += ok;
    s->failed += !ok;
    if (s->speak)
        printf("%s  %s%s%s%s\n", ok ? "ok    " : "FAILED", name, text[0] ? " (" : "", text, text[0] ? ")" : "");
}
