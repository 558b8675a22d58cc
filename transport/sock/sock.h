/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport over TCP: one to four authenticated streams between any two ranks (YOKE_SOCK_STREAMS), on any hosts.
 * Frames have MACs, except on streams that both ends know never to leave the kernel (YOKE_SOCK_MAC).
 * It listens on the loopback interface if all ranks run on one host, else on yk_tr_config.address, and only during open().
 */
#ifndef YOKE_TRANSPORT_SOCK_SOCK_H
#define YOKE_TRANSPORT_SOCK_SOCK_H

#include <yoke/transport.h>

const yk_transport *yk__sock_transport(void);

#endif
