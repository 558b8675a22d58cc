/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers as text, independent of the locale. After setlocale(LC_ALL, "") in half of Europe, strtod stops at the point of
 * "0.25" and printf writes "0,25", which is no JSON. Thread rule: any thread; other threads keep their locale.
 */
#ifndef YOKE_CORE_BASE_NUMBER_H
#define YOKE_CORE_BASE_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

double yk__number_read(const char *s, char **end); /* as strtod in the C locale; end may be NULL */

/* "%.*g" with that many digits, in the C locale. */
typedef struct yk__number {
    char text[32];
} yk__number;
yk__number yk__number_text(double v, int digits);

/* Reads two hexadecimal digits at text; false if absent. */
bool yk__number_byte(const char *text, uint8_t *byte);

#endif
