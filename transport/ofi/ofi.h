/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport over libfabric: reliable datagrams with tags (FI_EP_RDM, FI_TAGGED, FI_DIRECTED_RECV). It uses this host's best
 * provider, or the one in YOKE_OFI_PROVIDER; the same on all hosts. Its endpoint has yk_tr_config.address from open to close.
 * libfabric does not authenticate senders: every frame carries a MAC of the job's secret (decision 0029).
 */
#ifndef YOKE_TRANSPORT_OFI_OFI_H
#define YOKE_TRANSPORT_OFI_OFI_H

#include <yoke/transport.h>

const yk_transport *yk__ofi_transport(void);

#endif
