/* SPDX-License-Identifier: Apache-2.0 */
/* Roles that a test changes: a copy of an engine's. */
#ifndef YOKE_TESTS_SUPPORT_OWN_ROLES_H
#define YOKE_TESTS_SUPPORT_OWN_ROLES_H

#include <string.h>

#include "core/run/run.h"

typedef struct own_roles {
    bool member[16];
    double owns[16];
} own_roles;

static inline own_roles own_roles_of(const yk__engine *e, uint32_t ranks)
{
    own_roles own;
    memcpy(own.member, yk__engine_roles(e)->member, ranks * sizeof *own.member);
    memcpy(own.owns, yk__engine_roles(e)->owns, ranks * sizeof *own.owns);
    return own;
}

static inline yk_status own_roles_set(yk__engine *e, const own_roles *own, yk_error *err)
{
    return yk__engine_set_roles(e, &(yk__roles){own->member, own->owns}, err);
}

#endif
