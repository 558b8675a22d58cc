/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job's secret as a credential of munge, which only processes of the same user on hosts with the same munge key can read: for handing it
 * over a launcher's store, which anybody on the network may see. libmunge is opened when it is needed.
 *
 * Thread rule: any thread.
 */
#ifndef YOKE_CORE_CONTROL_MUNGE_H
#define YOKE_CORE_CONTROL_MUNGE_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

/* The credential as text. YK_E_UNSUPPORTED without libmunge, YK_E_IO where its daemon does not answer. */
yk_status yk__munge_seal(const uint8_t *secret, size_t bytes, char *text, size_t size, yk_error *err);
/* What such a text holds, which has to be `bytes` long and made by this user. */
yk_status yk__munge_open(const char *text, uint8_t *secret, size_t bytes, yk_error *err);

#endif
