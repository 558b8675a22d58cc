/* SPDX-License-Identifier: Apache-2.0 */
/* The error of an input that cannot be opened, with the remedy for a path that is not there. */
#ifndef YOKE_CORE_BASE_ABSENT_H
#define YOKE_CORE_BASE_ABSENT_H

#include "core/base/error.h"

/* "PATH: cannot be opened: WHY" for an input and the errno of open(). For an absent path also the part of it that is missing, and the
 * nearest name beside that. A folder without config.json is told as none of a model. YK_E_ARG if the file is absent or this user may not
 * read it, as another name would help; YK_E_IO for a failure of the machine. */
yk_status yk__fail_open(yk_error *err, const char *path, int why);

#endif
