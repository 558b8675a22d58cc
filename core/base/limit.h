/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits of the process. File size (ulimit -f): a write beyond it fails with EFBIG instead of ending the process. Descriptors (ulimit -n):
 * raises the soft limit towards the hard one. Each rank of a large job has a connection or more to every other rank.
 */
#ifndef YOKE_CORE_BASE_LIMIT_H
#define YOKE_CORE_BASE_LIMIT_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

void yk__limit_is_error(void); /* ignores SIGXFSZ, unless the program has a handler of its own, and raises the soft limit */
/* The same for the soft limit alone, for a job in a process that is another's, whose signals stay as they are. The call that undoes the
 * last raise sets the limit as it was. Both from any thread. */
void yk__limit_raise(void);
void yk__limit_lower(void);
/* In between a write of the calling thread past the file size limit is an error, unless the process has a handler of its own for
 * SIGXFSZ. */
typedef struct yk__limit_held {
    sigset_t mask;
    bool held;
} yk__limit_held;
void yk__limit_hold(yk__limit_held *held);
void yk__limit_release(const yk__limit_held *held);
ssize_t yk__limit_write(int fd, const void *data, size_t bytes); /* write() between the two, errno kept */
void yk__limit_restore(void);  /* restores the old limits in a child before an exec. Async-signal-safe */
/* strerror(error), for a call that makes descriptors with the limit and the remedy. */
typedef struct yk__limit_text {
    char text[160];
} yk__limit_text;
yk__limit_text yk__limit_reason(int error);
yk__limit_text yk__limit_thread_reason(int error); /* the same for a call that makes a thread or a process */
/* Text for the error (errno) of a call that makes or polls descriptors: the limit and the remedy; "" for another error. */
void yk__limit_explain_descriptors(int error, uint64_t connections, char *text, size_t capacity);

#endif
