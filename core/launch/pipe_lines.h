/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The output of a process, taken line by line from a pipe, so that lines of several processes are not torn.
 *
 * Thread rule: one thread per object.
 */
#ifndef YOKE_CORE_LAUNCH_PIPE_LINES_H
#define YOKE_CORE_LAUNCH_PIPE_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

#define YK__LINE_MOST 8192u /* a longer line comes in pieces */

typedef struct yk__lines {
    int fd; /* -1 if nothing can come */
    size_t used;
    char text[YK__LINE_MOST];
} yk__lines;

/* text: a line with its newline, or a piece of one without; ends with a zero behind `bytes`. */
typedef void (*yk__line_take)(void *context, const char *text, size_t bytes);

/* Makes a pipe. Its reading end is non-blocking and in lines->fd; *writer is for the process. Each end is close-on-exec. */
yk_status yk__lines_open(yk__lines *lines, int *writer, yk_error *err);
/* Hands over the text that has come, and returns true if there was any. The end of the pipe closes lines->fd, and the last line needs no
 * newline. */
bool yk__lines_pump(yk__lines *lines, yk__line_take take, void *context);
void yk__lines_close(yk__lines *lines);
/* Writes the whole data; false once the reader is gone. */
bool yk__write_all(int fd, const void *data, size_t bytes);

/* ---- Output to a possibly absent reader -------------------------------------------------------------------------- */

#define YK__PIPE_PUMPS 64 /* calls of yk__lines_pump that empty any pipe, but end if another process fills it */
#define YK__OUTLET_FULL 262144u  /* waiting bytes: from here on writers should wait too */
#define YK__OUTLET_MOST 1048576u /* waiting bytes at most: further pieces are lost */

/* Output to one of the standard descriptors. Its reader may be slow, stopped or absent: no call but yk__outlet_drain waits for it. */
typedef struct yk__outlet {
    int fd;        /* -1 once the reader is gone */
    bool own;      /* opened anew, so that O_NONBLOCK is this object's setting alone */
    bool socket;
    char *text;
    size_t begin, used, capacity;
    uint64_t lost; /* pieces of yk__outlet_put beyond the limit, or that could not be written */
    int failed;    /* errno of a write; 0 if none failed, or the reader has gone */
} yk__outlet;

void yk__outlet_open(yk__outlet *outlet, int fd);
void yk__outlet_put(yk__outlet *outlet, const char *text, size_t bytes);
void yk__outlet_flush(yk__outlet *outlet); /* writes as much as the reader takes at once */
size_t yk__outlet_waits(const yk__outlet *outlet);  /* bytes; poll fd for POLLOUT while there are some */
bool yk__outlet_full(const yk__outlet *outlet);
/* Returns once the text is written, or the reader has taken nothing for `ms`; the remaining text is then lost and counts as one piece. */
void yk__outlet_drain(yk__outlet *outlet, int ms);
void yk__outlet_close(yk__outlet *outlet);

/* Gives a line of the launcher's own, "WHO: TEXT", to the program's log (yk_set_log). Without one it prints the line on standard error,
 * waits YK__TELL_MS at most, and no more once that was in vain. */
#define YK__TELL_MS 800
void yk__launch_tell(const char *who, const char *text);
/* The same wait for standard output; false if the reader did not take it. */
bool yk__launch_print(const char *text, size_t bytes);

#endif
