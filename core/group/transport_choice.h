/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport of a job's ranks, as YOKE_TRANSPORT says, the same on all ranks.
 *   auto   common memory if one host has all ranks, else sock
 *   shm    common memory; an error if some rank runs on another host
 *   NAME   the messages of that transport, on one host too
 * Thread rule: one thread (the step thread).
 */
#ifndef YOKE_CORE_GROUP_TRANSPORT_CHOICE_H
#define YOKE_CORE_GROUP_TRANSPORT_CHOICE_H

#include "core/coll/coll.h"

/* Offers a transport that YOKE_TRANSPORT may name, besides the library's. Call it before joining a job; the table must stay. */
void yk__transport_offer(const yk_transport *table);
/* YK_E_ARG if YOKE_TRANSPORT names an unknown transport, in a job of one rank, which needs no transport. */
yk_status yk__transport_check(yk_error *err);
/* Sets the fields of config that say how the ranks of config->control exchange data; collective. */
yk_status yk__transport_choose(yk__coll_config *config, yk_error *err);

#endif
