/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which transport a job's ranks use: what YOKE_TRANSPORT says, the same on all ranks.
 *   auto   memory in common where all ranks run on one host, else sock
 *   shm    memory in common, and an error where some rank runs on another host
 *   NAME   the messages of that transport, on one host too
 * Thread rule: one thread (the step thread).
 */
#ifndef YOKE_CORE_GROUP_TRANSPORT_H
#define YOKE_CORE_GROUP_TRANSPORT_H

#include "core/coll/coll.h"

/* One more transport that YOKE_TRANSPORT may name, beside those of the library; before a job is joined. It stays. */
void yk__transport_offer(const yk_transport *table);
/* YK_E_ARG where YOKE_TRANSPORT names none that there is, for a job of one rank, which needs none. */
yk_status yk__transport_check(yk_error *err);
/* Fills in how the ranks of config->control exchange data; collective. */
yk_status yk__transport_choose(yk__coll_config *config, yk_error *err);

#endif
