/* SPDX-License-Identifier: Apache-2.0 */
/* The file with the secret of a job whose ranks run on several hosts. Thread rule: any thread. */
#ifndef YOKE_CORE_CONTROL_START_SECRET_H
#define YOKE_CORE_CONTROL_START_SECRET_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

#define YK__SECRET_MOST 4096u /* bytes */

/* Reads any bytes. YK_E_ARG for a file that another user can read or owns, or that is too short or too long. */
yk_status yk__secret_read(const char *path, uint8_t secret[YK__SECRET_MOST], uint32_t *bytes, yk_error *err);

#endif
