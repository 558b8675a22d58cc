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
#include <stdint.h>

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
/* Hands over what has come, and says whether something has. The end of the pipe closes lines->fd, and the last line needs no newline. */
bool yk__lines_pump(yk__lines *lines, yk__line_take take, void *context);
void yk__lines_close(yk__lines *lines);
/* Writes all of it; false when nobody reads any more. */
bool yk__write_all(int fd, const void *data, size_t bytes);

/* ---- Output that may not be read --------------------------------------------------------------------------------- */

#define YK__OUTLET_FULL 262144u  /* bytes that wait: from here on whoever prints is to wait too */
#define YK__OUTLET_MOST 1048576u /* and at most: what comes on top is lost */

/* What goes to one of the standard descriptors, whose reader may be slow, stopped or absent: no call waits for it but yk__outlet_drain. */
typedef struct yk__outlet {
    int fd;        /* -1: nobody reads any more */
    bool own;      /* opened anew, so that not to wait is this object's setting and not that of all who write there */
    bool socket;
    char *text;
    size_t begin, used, capacity;
    uint64_t lost; /* pieces of yk__outlet_put that were too many */
} yk__outlet;

void yk__outlet_open(yk__outlet *outlet, int fd);
void yk__outlet_put(yk__outlet *outlet, const char *text, size_t bytes);
void yk__outlet_flush(yk__outlet *outlet); /* what is taken at once */
size_t yk__outlet_waits(const yk__outlet *outlet);  /* bytes; poll fd for POLLOUT while there are some */
bool yk__outlet_full(const yk__outlet *outlet);
/* Until all is written, or the reader has taken nothing for `ms`; what is left then is lost, a piece more. */
void yk__outlet_drain(yk__outlet *outlet, int ms);
void yk__outlet_close(yk__outlet *outlet);

/* A line of the launcher's own on standard error, "WHO: TEXT"; waits YK__TELL_MS at most, and no more once that was in vain. */
#define YK__TELL_MS 800
void yk__launch_tell(const char *who, const char *text);
/* The same wait for what goes to standard output; false: it was not read. */
bool yk__launch_print(const char *text, size_t bytes);

#endif
