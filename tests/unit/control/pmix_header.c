/* SPDX-License-Identifier: Apache-2.0 */
/* Our prototypes of PMIx beside those of pmix.h; compiled by pmix_header.sh alone. */
#include <pmix.h>
#include <stddef.h>

#include "core/control/start/pmix_types.h"

#define SAME(a, b) _Static_assert((a) == (b), #a " is " #b)
SAME(sizeof(yk__pmix_proc), sizeof(pmix_proc_t));
SAME(offsetof(yk__pmix_proc, rank), offsetof(pmix_proc_t, rank));
SAME(sizeof(yk__pmix_value), sizeof(pmix_value_t));
SAME(offsetof(yk__pmix_value, data), offsetof(pmix_value_t, data));
SAME(sizeof(((yk__pmix_value *)0)->type), sizeof(pmix_data_type_t));
SAME(sizeof(yk__pmix_info), sizeof(pmix_info_t));
SAME(offsetof(yk__pmix_info, flags), offsetof(pmix_info_t, flags));
SAME(offsetof(yk__pmix_info, value), offsetof(pmix_info_t, value));
SAME(sizeof(((yk__pmix_info *)0)->flags), sizeof(pmix_info_directives_t));
SAME(YK__PMIX_BOOL, PMIX_BOOL);
SAME(YK__PMIX_STRING, PMIX_STRING);
SAME(YK__PMIX_INT, PMIX_INT);
SAME(YK__PMIX_GLOBAL, PMIX_GLOBAL);
SAME(sizeof(pmix_scope_t), sizeof(uint8_t));
SAME(sizeof(pmix_status_t), sizeof(int));
SAME(sizeof YK__PMIX_COLLECT_DATA, sizeof PMIX_COLLECT_DATA);
SAME(sizeof YK__PMIX_TIMEOUT, sizeof PMIX_TIMEOUT);

/* Each takes as many arguments of those types, or this does not compile. */
void calls_compare(void);
void calls_compare(void)
{
    pmix_status_t (*init)(pmix_proc_t *, pmix_info_t *, size_t) = PMIx_Init;
    pmix_status_t (*finalize)(const pmix_info_t *, size_t) = PMIx_Finalize;
    pmix_status_t (*put)(pmix_scope_t, const char *, pmix_value_t *) = PMIx_Put;
    pmix_status_t (*commit)(void) = PMIx_Commit;
    pmix_status_t (*fence)(const pmix_proc_t *, size_t, const pmix_info_t *, size_t) = PMIx_Fence;
    pmix_status_t (*get)(const pmix_proc_t *, const char *, const pmix_info_t *, size_t, pmix_value_t **) = PMIx_Get;
    const char *(*text)(pmix_status_t) = PMIx_Error_string;
    (void)init, (void)finalize, (void)put, (void)commit, (void)fence, (void)get, (void)text;
}
