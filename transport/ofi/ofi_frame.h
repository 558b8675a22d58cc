/* SPDX-License-Identifier: Apache-2.0 */
/* Frames between the provider and messages; all under the lock. */
#ifndef YOKE_TRANSPORT_OFI_OFI_FRAME_H
#define YOKE_TRANSPORT_OFI_OFI_FRAME_H

#include "transport/base.h"

/* Gives waiting frames to the provider and handles arrived ones. *moved: true if there were any. */
yk_status yk__ofi_move(yk_tr *t, bool *moved, yk_tr_error *error);
/* Posts all receives of frames. */
yk_status yk__ofi_post_all(yk_tr *t, yk_tr_error *error);
bool yk__ofi_unsent(const yk_tr *t, uint32_t peer);

#endif
