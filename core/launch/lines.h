/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process prints, taken line by line from a pipe, so that the lines of several are not torn.
 *
 * Thread rule: one thread per object.
 */
#ifndef YOKE_CORE_LAUNCH_LINES_H
#define YOKE_CORE_LAUNCH_LINES_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/error.h"

#define YK__LINE_MOST 8192u /* a longer line comes in pieces */

typedef struct yk__lines {
    int fd; /* -1: there is nothing to come */
    size_t used;
    char text[YK__LINE_MOST];
} yk__lines;

/* text: a line with its newline, or a piece of one without; ends with a zero behind `bytes`. */
typedef void (*yk__line_take)(void *context, const char *text, size_t bytes);

/* A pipe whose reading end is non-blocking and in lines->fd; *writer is for the process. Both are close-on-exec. */
yk_status yk__lines_open(yk__lines *lines, int *writer, yk_error *err);
/* Hands over what has come. The end of the pipe closes lines->fd, and the last line needs no newline. */
void yk__lines_pump(yk__lines *lines, yk__line_take take, void *context);
void yk__lines_close(yk__lines *lines);
/* Writes all of it; false when nobody reads any more. */
bool yk__write_all(int fd, const void *data, size_t bytes);

#endif
