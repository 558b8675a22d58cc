/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job's secret as a munge credential. Only processes of the same user on hosts with the same munge key can read it. So it may go through
 * a launcher's store, which is readable on the network. The first use loads libmunge.
 *
 * Thread rule: any thread.
 */
#ifndef YOKE_CORE_CONTROL_START_MUNGE_H
#define YOKE_CORE_CONTROL_START_MUNGE_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

/* Writes the credential as text. YK_E_UNSUPPORTED without libmunge, YK_E_IO if its daemon does not answer. */
yk_status yk__munge_seal(const uint8_t *secret, size_t bytes, char *text, size_t size, yk_error *err);
/* Decodes such a text; it must hold `bytes` bytes and come from this user. */
yk_status yk__munge_open(const char *text, uint8_t *secret, size_t bytes, yk_error *err);

#endif
