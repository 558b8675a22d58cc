/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This host in a list of hosts: its names, and an address at which other hosts of the list reach it.
 *
 * Thread rule: any thread.
 */
#ifndef YOKE_CORE_LAUNCH_OWN_HOST_H
#define YOKE_CORE_LAUNCH_OWN_HOST_H

#include <stdbool.h>

#include "core/launch/hosts.h"
#include "core/net/tcp.h"

/* True for localhost, a loopback address, this host's own name, with a domain or without, and an address of its own. A name with a user in
 * front (user@localhost) asks for a login, so it is none. */
bool yk__own_host_is(const char *name);
/* Sets `own` of each host that is this one. Two names of this host are an error. */
yk_status yk__own_host_mark(yk__hosts *hosts, yk_error *err);
/* This host's numeric address on the way to another host of the list; else what its own name stands for. "" if all are of the loopback. */
void yk__own_host_address(const yk__hosts *hosts, char text[YK__TCP_ADDRESS]);

#endif
