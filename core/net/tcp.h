/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TCP sockets of a job: non-blocking, close-on-exec, without delay, each bound to one address and never to all.
 *
 * Thread rule: any thread.
 */
#ifndef YOKE_CORE_NET_TCP_H
#define YOKE_CORE_NET_TCP_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"

/* Listens on the address of that host (a name or a number), which must be this host's. port 0: any free port. */
yk_status yk__tcp_listen(const char *host, uint16_t port, int *fd, yk_error *err);
uint16_t yk__tcp_port(int fd); /* port of a listening socket; 0 if it has no port */
#define YK__TCP_ADDRESS 64 /* bytes of a numeric address */
/* This end's address of a connection; "" if unknown. */
void yk__tcp_own_address(int fd, char address[YK__TCP_ADDRESS]);
/* True if other hosts cannot use a numeric address: loopback, or "". */
bool yk__tcp_is_loopback(const char *address);
/* Accepts the next connection; *fd is -1 if none is waiting. */
yk_status yk__tcp_accept(int listener, int *fd, yk_error *err);
/* Connects within ms. YK_E_TIMEOUT and YK_E_IO may be tried again; YK_E_ARG if the host does not exist;
 * YK_E_MEM without a descriptor. */
yk_status yk__tcp_connect(const char *host, uint16_t port, int ms, int *fd, yk_error *err);

#endif
