/* SPDX-License-Identifier: Apache-2.0 */
/* The ofi transport as a shared object, transport_ofi.so: its one symbol, which core/device/transport_load.c looks up in its caller's
 * thread. */
#include "transport/ofi/ofi.h"

__attribute__((visibility("default"))) const yk_transport *yk_transport_query(uint32_t major);

const yk_transport *yk_transport_query(uint32_t major)
{
    return major == YK_TRANSPORT_MAJOR ? yk__ofi_transport() : NULL;
}
