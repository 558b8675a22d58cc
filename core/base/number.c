/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and writes numbers as text in the C locale, so that a program's locale changes no file. The readers and writers of settings, files
 * and the text of graphs call it, and core/control and core/launch for bytes of two hexadecimal digits; only the calling thread has that
 * locale meanwhile.
 */
#include "core/base/number.h"

#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static locale_t plain; /* never freed: one per process */

static void make_plain(void)
{
    plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

/* Switches the thread to the C locale; returns its own locale, to restore by uselocale(). */
static locale_t enter_plain(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_plain);
    return uselocale(plain);
}

double yk__number_read(const char *s, char **end)
{
    const locale_t own = enter_plain();
    const double v = strtod(s, end);
    uselocale(own);
    return v;
}

yk__number yk__number_text(double v, int digits)
{
    yk__number n;
    const locale_t own = enter_plain();
    snprintf(n.text, sizeof n.text, "%.*g", digits < 17 ? digits : 17, v);
    uselocale(own);
    return n;
}

static int digit_value(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool yk__number_byte(const char *text, uint8_t *byte)
{
    const int high = digit_value(text[0]), low = high < 0 ? -1 : digit_value(text[1]);
    if (low < 0)
        return false;
    *byte = (uint8_t)(high << 4 | low);
    return true;
}
