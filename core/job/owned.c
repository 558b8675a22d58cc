/* SPDX-License-Identifier: Apache-2.0 */
/* The lists of what hangs on a job. */
#include "core/job/owned.h"

#include "core/base/mem.h"

bool yk__owned_add(yk__attached *a, void *object, void (*release)(void *object))
{
    if (yk__grow(&a->owned, &a->cap_owned, a->n_owned + 1, sizeof *a->owned))
        return false;
    a->owned[a->n_owned++] = (yk__owned){object, release};
    return true;
}

bool yk__companion_add(yk__attached *a, void *object, void (*write)(void *object, const char *dir))
{
    if (yk__grow(&a->companion, &a->cap_companion, a->n_companion + 1, sizeof *a->companion))
        return false;
    a->companion[a->n_companion++] = (yk__companion){object, write};
    return true;
}

void yk__owned_release(yk__attached *a)
{
    while (a->n_owned > 0) {
        const yk__owned o = a->owned[--a->n_owned];
        o.release(o.object);
    }
}

void yk__attached_free(yk__attached *a)
{
    yk__free(a->owned);
    yk__free(a->companion);
}
