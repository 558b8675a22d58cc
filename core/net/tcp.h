/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TCP sockets of a job: non-blocking, close-on-exec, without delay, bound to one address and never to all.
 *
 * Thread rule: any thread.
 */
#ifndef YOKE_CORE_NET_TCP_H
#define YOKE_CORE_NET_TCP_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"

/* Listens on the address of that host (a name or a number), which has to be this host's. port 0: any free one. */
yk_status yk__tcp_listen(const char *host, uint16_t port, int *fd, yk_error *err);
uint16_t yk__tcp_port(int fd); /* that a listening socket has; 0: none */
#define YK__TCP_ADDRESS 64 /* bytes of a numeric address */
/* This end's address of a connection; "" where it has none. */
void yk__tcp_own_address(int fd, char address[YK__TCP_ADDRESS]);
/* Whether a numeric address is of no use to other hosts: loopback's, or "". */
bool yk__tcp_is_loopback(const char *address);
/* The next connection; *fd is -1 when none is waiting. */
yk_status yk__tcp_accept(int listener, int *fd, yk_error *err);
/* Connects within ms; YK_E_TIMEOUT or YK_E_IO, after which it may be tried again. YK_E_ARG where there is no such host. */
yk_status yk__tcp_connect(const char *host, uint16_t port, int ms, int *fd, yk_error *err);

#endif
