/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors: a status and one line of text that names the object, the value, the expectation and the remedy.
 *
 * A function that can fail takes a `yk_error *err` as its last parameter (never NULL) and returns err->status. Only the
 * first function to see a failure fills it, with yk__fail(). Callers pass it up unchanged, or put a prefix in front with
 * yk__fail_in(). Nothing is allocated, so errors can be reported when memory is gone. Thread rule: one error object per
 * thread.
 */
#ifndef YOKE_CORE_BASE_ERROR_H
#define YOKE_CORE_BASE_ERROR_H

#include <stdint.h>

#include <yoke/status.h>

#define YK_ERROR_TEXT 768

typedef struct yk_error {
    yk_status status;
    uint32_t node; /* number of the call in the user's step whose node failed (yk_node.stream); 0 if the failure is of no node */
    char text[YK_ERROR_TEXT]; /* one line, no newline, UTF-8, cut if longer */
} yk_error;

#if defined(__GNUC__)
#define YK_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define YK_PRINTF(fmt, args)
#endif

/* The state before the first failure. */
#define YK_ERROR_INIT {YK_OK, 0, {0}}

/* Stores status and text and returns the status, for `return yk__fail(err, ...)`. YK_OK is a mistake of the caller and is stored as
 * YK_E_INTERNAL. Control characters in the text become '?'. */
yk_status yk__fail(yk_error *err, yk_status status, const char *fmt, ...) YK_PRINTF(3, 4);

/* Notes the node that failed, unless a function below has noted one; returns the status. */
yk_status yk__fail_node(yk_error *err, uint32_t node);

/* Makes text from a file or a plugin safe for terminals and for JSON, in place: control characters, also U+0080 to U+009F, and bytes that
 * are no UTF-8 become '?'. Returns text. */
char *yk__printable(char *text);

/* Puts "prefix: " in front of the stored text and keeps the status; returns the status. */
yk_status yk__fail_in(yk_error *err, const char *fmt, ...) YK_PRINTF(2, 3);

/* "out of memory (N bytes for WHAT)". */
yk_status yk__fail_mem(yk_error *err, unsigned long long bytes, const char *what);

/* The name of a status, "YK_E_IO", and its meaning; never NULL, also for numbers out of range. */
const char *yk__status_name(yk_status status);
const char *yk__status_text(yk_status status);

#endif
