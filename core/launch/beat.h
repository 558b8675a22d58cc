/* SPDX-License-Identifier: Apache-2.0 */
/* The process that shows the hosts of a job that the launcher's host is alive (node.h). Thread rule: a program with one thread. */
#ifndef YOKE_CORE_LAUNCH_BEAT_H
#define YOKE_CORE_LAUNCH_BEAT_H

#include "core/launch/peer.h"

yk_status yk__beat_start(const yk__peer *peer, uint32_t n, pid_t *beater, yk_error *err);
void yk__beat_stop(pid_t *beater); /* does nothing if *beater is 0 */

#endif
