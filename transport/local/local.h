/* SPDX-License-Identifier: Apache-2.0 */
/* The transport of one host: messages through rings of bytes in memory shared by the ranks (yk_tr_config.shared). */
#ifndef YOKE_TRANSPORT_LOCAL_LOCAL_H
#define YOKE_TRANSPORT_LOCAL_LOCAL_H

#include <yoke/transport.h>

const yk_transport *yk__local_transport(void);

#endif
