/* SPDX-License-Identifier: Apache-2.0 */
/* A small network for tests of the engine over ranks: two products, a sum over all ranks' rows between them. MID is no multiple of 4. */
#ifndef YOKE_TESTS_DIST_NET_H
#define YOKE_TESTS_DIST_NET_H

#include "core/run/run.h"

enum { ROWS = 7, IN = 40, MID = 62, OUT = 3, N_PARAM = 3 };
extern const uint64_t size[N_PARAM];

typedef struct rig {
    yk__device *dev;
    yk__group *group;
    yk__engine *e;
    uint32_t number[N_PARAM], state;
    int64_t begin, end; /* rows of the global batch */
    float scale;        /* gradient of the loss; 0: 1 */
} rig;

/* An engine with its parameters written, a state, and its optimizer. */
yk_status net_setup(rig *r, yk__device *dev, yk__group *group, const yk__engine_config *c, yk__opt_kind kind, yk_error *err);
/* One of a window's two micro batches; its data follow from seed. */
yk_status net_micro(rig *r, uint32_t seed, bool first, yk_error *err);
void net_hyper(yk__opt_kind kind, int step, float h[2][YK_HYPER_COUNT]);

#endif
