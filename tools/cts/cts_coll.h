/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of collectives (yk.coll.1) that groups of the suite share. */
#ifndef YOKE_TOOLS_CTS_CTS_COLL_H
#define YOKE_TOOLS_CTS_CTS_COLL_H

#include <yoke/extension.h>

#include "tools/cts/cts.h"

/* Members are threads of this process. */
void cts_coll(cts *c, const yk_coll *coll);

#endif
