/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport over libfabric: reliable datagrams with tags (FI_EP_RDM, FI_TAGGED, FI_DIRECTED_RECV) of the best provider that this host
 * has, or of the one that YOKE_OFI_PROVIDER names; the same on all hosts. Its endpoint lies on yk_tr_config.address for as long as it is
 * open. libfabric proves nothing about who sends: every frame carries a MAC of the job's secret (decision 0029).
 */
#ifndef YOKE_TRANSPORT_OFI_OFI_H
#define YOKE_TRANSPORT_OFI_OFI_H

#include <yoke/transport.h>

const yk_transport *yk__ofi_transport(void);

#endif
