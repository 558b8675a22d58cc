/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport over TCP: one to four authenticated streams between any two ranks (YOKE_SOCK_STREAMS), on whatever hosts they run.
 * Frames bear MACs, but on streams that both ends see to never leave the kernel (YOKE_SOCK_MAC).
 * Where all ranks run on one host it listens on the loopback interface, else on yk_tr_config.address; while open() runs, and no longer.
 */
#ifndef YOKE_TRANSPORT_SOCK_SOCK_H
#define YOKE_TRANSPORT_SOCK_SOCK_H

#include <yoke/transport.h>

const yk_transport *yk__sock_transport(void);

#endif
