/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits of the process. File size (ulimit -f): a write beyond it fails with EFBIG instead of ending the process. Descriptors
 * (ulimit -n): the soft limit is raised towards the hard one, as each rank of a large job has a connection or more to every other rank.
 */
#ifndef YOKE_CORE_BASE_LIMIT_H
#define YOKE_CORE_BASE_LIMIT_H

#include <stddef.h>
#include <stdint.h>

void yk__limit_is_error(void); /* ignores SIGXFSZ, unless the program has a handler of its own, and raises the soft limit */
void yk__limit_restore(void);  /* restores the old limits in a child before an exec. Async-signal-safe */
/* Text for the error (errno) of a call that makes or polls descriptors: the limit and the remedy; "" for another error. */
void yk__limit_explain_descriptors(int error, uint64_t connections, char *text, size_t capacity);

#endif
