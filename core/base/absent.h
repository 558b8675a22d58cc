/* SPDX-License-Identifier: Apache-2.0 */
/* The remedy for a path that is not there: the part of it that is missing, and the name beside it that may have been meant. */
#ifndef YOKE_CORE_BASE_ABSENT_H
#define YOKE_CORE_BASE_ABSENT_H

#include <stddef.h>

/* " (FOLDER has no NAME: did you mean OTHER?)" in text; "" if nothing helps, as the file alone is missing and no name is near. A folder
 * without config.json is told as none of a model. */
void yk__absent_advise(const char *path, char *text, size_t size);

#endif
