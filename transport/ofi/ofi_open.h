/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing of the ofi transport, as in yk_transport. */
#ifndef YOKE_TRANSPORT_OFI_OFI_OPEN_H
#define YOKE_TRANSPORT_OFI_OFI_OPEN_H

#include "transport/base.h"

yk_status yk__ofi_open(const yk__tr_calls *calls, const yk_tr_config *config, yk_tr **t, yk_tr_error *error);
void yk__ofi_close(yk_tr *t);

#endif
