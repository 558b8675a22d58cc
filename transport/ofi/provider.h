/* SPDX-License-Identifier: Apache-2.0 */
/* Selection of libfabric's provider for a job on this host. Thread rule: any thread. */
#ifndef YOKE_TRANSPORT_OFI_PROVIDER_H
#define YOKE_TRANSPORT_OFI_PROVIDER_H

#include <rdma/fabric.h>

#include "transport/transport_op.h"

/* This host's provider for an endpoint at that address (NULL: the loopback interface); released with fi_freeinfo. */
yk_status yk__ofi_provider(const char *address, struct fi_info **info, yk_tr_error *error);
/* As yk_tr_describe. */
yk_status yk__ofi_describe(char *text, uint64_t capacity);

#endif
