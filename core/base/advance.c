/* SPDX-License-Identifier: Apache-2.0 */
/* The count of what this process has done. */
#include "core/base/advance.h"

#include "core/base/option.h"

uint32_t yk__advanced;

const volatile uint32_t *yk__advance_count(void)
{
    return &yk__advanced;
}

uint32_t yk__stuck_ms(void)
{
    if (!yk__option_text(YK__OPTION_STUCK_MS) && !yk__option_number(YK__OPTION_LIVENESS_MS))
        return 0;
    return (uint32_t)yk__option_number(YK__OPTION_STUCK_MS);
}
