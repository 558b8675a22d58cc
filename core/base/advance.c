/* SPDX-License-Identifier: Apache-2.0 */
/* The count of what this process has done: a load and a store, no locked instruction, as every call of the library does it. */
#include "core/base/advance.h"

#include "core/base/option.h"

static uint32_t count;

void yk__advance(void)
{
    __atomic_store_n(&count, __atomic_load_n(&count, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
}

const volatile uint32_t *yk__advance_count(void)
{
    return &count;
}

uint32_t yk__stuck_ms(void)
{
    if (!yk__option_text(YK__OPTION_STUCK_MS) && !yk__option_number(YK__OPTION_LIVENESS_MS))
        return 0;
    return (uint32_t)yk__option_number(YK__OPTION_STUCK_MS);
}
