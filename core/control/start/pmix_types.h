/* SPDX-License-Identifier: Apache-2.0 */
/* Our own prototypes of the parts of PMIx that we use (PMIx standard 4.1, chapters 3 to 5); tests/unit/control/pmix_header.c compares
 * them with pmix.h. */
#ifndef YOKE_CORE_CONTROL_START_PMIX_TYPES_H
#define YOKE_CORE_CONTROL_START_PMIX_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct yk__pmix_proc {
    char nspace[256];
    uint32_t rank;
} yk__pmix_proc;

typedef struct yk__pmix_value {
    uint16_t type; /* YK__PMIX_BOOL .. */
    union {
        bool flag;
        char *string;
        int integer;
        struct {
            char *name, *value, separator;
        } variable; /* the largest member */
    } data;
} yk__pmix_value;

typedef struct yk__pmix_info {
    char key[512];
    uint32_t flags;
    yk__pmix_value value;
} yk__pmix_info;

#define YK__PMIX_BOOL 1
#define YK__PMIX_STRING 3
#define YK__PMIX_INT 6
#define YK__PMIX_GLOBAL 3 /* scope of ranks on all hosts */
#define YK__PMIX_COLLECT_DATA "pmix.collect"
#define YK__PMIX_TIMEOUT "pmix.timeout"

typedef struct yk__pmix_calls {
    int (*init)(yk__pmix_proc *own, yk__pmix_info *info, size_t n);
    int (*finalize)(const yk__pmix_info *info, size_t n);
    int (*put)(uint8_t scope, const char *key, yk__pmix_value *value);
    int (*commit)(void);
    int (*fence)(const yk__pmix_proc *proc, size_t n, const yk__pmix_info *info, size_t n_info);
    int (*get)(const yk__pmix_proc *proc, const char *key, const yk__pmix_info *info, size_t n, yk__pmix_value **value);
    const char *(*text)(int status);
} yk__pmix_calls;

#endif
