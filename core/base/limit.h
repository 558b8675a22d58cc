/* SPDX-License-Identifier: Apache-2.0 */
/* A file size limit (ulimit -f) makes a write fail with EFBIG, as other errors do, instead of ending the process. */
#ifndef YOKE_CORE_BASE_LIMIT_H
#define YOKE_CORE_BASE_LIMIT_H

void yk__limit_is_error(void); /* ignores SIGXFSZ, unless the program has a handler of its own */
void yk__limit_restore(void);  /* in a child before an exec: as it was. Async-signal-safe */

#endif
