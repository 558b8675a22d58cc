/* SPDX-License-Identifier: Apache-2.0 */
/* A transport for tests: bytes through a stream socket between each two ranks, no memory in common. It has puts. */
#ifndef YOKE_TESTS_SUPPORT_LOOPBACK_H
#define YOKE_TESTS_SUPPORT_LOOPBACK_H

#include <yoke/transport.h>

const yk_transport *loopback_transport(void);
/* For so long nothing that others send arrives at this process. */
void loopback_hold(int ms);

#endif
