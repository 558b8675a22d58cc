/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way of ranks on one host to the control object without a launcher's descriptor. The host's lowest rank listens on a unix socket in
 * the abstract name space, which leaves no file behind. It hands the object to each process of its own user that shows the job's token
 * and the number of a missing rank. Both sides check the other process's user (SO_PEERCRED).
 *
 * Thread rule: one thread at a time per object.
 */
#ifndef YOKE_CORE_CONTROL_START_RENDEZVOUS_H
#define YOKE_CORE_CONTROL_START_RENDEZVOUS_H

#include <poll.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "core/base/error.h"
#include "core/control/control_job.h"
#include "core/control/start/waiting.h"

#define YK__RENDEZVOUS_TOKEN 16                 /* bytes that a rank of this host must show, so that jobs do not mix */
#define YK__RENDEZVOUS_PENDING 64               /* connections without a request so far */
#define YK__RENDEZVOUS_POLL (YK__RENDEZVOUS_PENDING + 1)
#define YK__RENDEZVOUS_NAME 8                    /* bytes of a name that the system chose */

typedef struct yk__rendezvous_place {
    struct sockaddr_un at;
    socklen_t bytes;
} yk__rendezvous_place;

/* The socket's address for a job whose ranks all run on this host. */
void yk__rendezvous_address(const char *job, yk__rendezvous_place *place);
/* Listens at that address; YK_E_IO if another socket has it. */
yk_status yk__rendezvous_listen(const yk__rendezvous_place *place, int *fd, yk_error *err);
/* Listens under a name that the system chooses and *name returns. */
yk_status yk__rendezvous_listen_any(int *fd, uint8_t name[YK__RENDEZVOUS_NAME], yk_error *err);
void yk__rendezvous_address_of(const uint8_t name[YK__RENDEZVOUS_NAME], yk__rendezvous_place *place);

/* Connects there, repeatedly until `deadline` (yk__clock_ms; 0: for ever), and waits for the object's hello, which stays in the socket
 * for yk__control_join. waiting: logs that no rank is there yet; NULL for no log line. */
yk_status yk__rendezvous_join(const yk__rendezvous_place *place, const uint8_t token[YK__RENDEZVOUS_TOKEN], uint32_t rank,
                    uint32_t ranks, int64_t deadline, yk__waiting *waiting, int *job_fd, yk_error *err);

/* The listening side. */
typedef struct yk__rendezvous yk__rendezvous;
/* Admits the ranks whose lowest[r] is `rank`, this process; takes over the listener. *rendezvous is NULL if that is -1. */
yk_status yk__rendezvous_new(int listener, const uint8_t token[YK__RENDEZVOUS_TOKEN], uint32_t rank, uint32_t ranks,
                             const uint32_t *lowest, yk__rendezvous **rendezvous, yk_error *err);
void yk__rendezvous_free(yk__rendezvous *rendezvous);
nfds_t yk__rendezvous_poll(const yk__rendezvous *rendezvous, struct pollfd *poll);
/* Admits the ranks that connected. No-op once all ranks of the host are there. */
yk_status yk__rendezvous_serve(yk__rendezvous *rendezvous, yk__control_job *job, yk_error *err);

#endif
