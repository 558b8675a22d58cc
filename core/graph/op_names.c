/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names, numbers and traits of operations and data types: the tables of plugin.h, dtype.h and op_table.h as arrays. All layers ask it by
 * number. Constant data; any thread.
 */
#include "core/graph/graph.h"

#include <string.h>

#include "core/graph/op_table.h"

#define UN YK_KIND_UN
#define BIN YK_KIND_BIN
#define PRIM YK_KIND_PRIM
#define COMP YK_KIND_COMP
#define CORE YK_KIND_CORE

static const yk__op_info ops[] = {
#define X(e, number, name, kind, prec, tol, least, most, outs, attrs) \
    [number] = {name, kind, YK_PREC_##prec, YK_TOL_##tol, least, most, outs, attrs},
    YK_OP_TABLE(X)
#undef X
};

#undef UN
#undef BIN
#undef PRIM
#undef COMP
#undef CORE

static const yk__op_traits traits[] = {
#define X(e, infer, body, eval, rule, layout, floats, map, cheap, linear, ranks, back) \
    [YK_OP_##e] = {floats, YK_MAP_##map, YK_CHEAP_##cheap, YK_LINEAR_##linear, YK_RANKS_##ranks, YK_OP_##back},
    YK_IMPL_TABLE(X)
#undef X
};

/* Each operation has a row, and the rows stand in the order of the numbers. */
enum op_row {
#define X(e, infer, body, eval, rule, layout, floats, map, cheap, linear, ranks, back) ROW_##e,
    YK_IMPL_TABLE(X)
#undef X
    ROW_COUNT
};
#define X(e, infer, body, eval, rule, layout, floats, map, cheap, linear, ranks, back) \
    _Static_assert((int)ROW_##e == (int)YK_OP_##e, "the row of " #e " stands elsewhere than its number");
YK_IMPL_TABLE(X)
#undef X
_Static_assert((int)ROW_COUNT == (int)YK_OP_COUNT, "an operation of YK_OP_TABLE has no row in YK_IMPL_TABLE");

static const char *const dtypes[] = {
#define X(e, number, name, st, bytes) [number] = name,
    YK_DTYPE_TABLE(X)
#undef X
};

const yk__op_info *yk__op_info_of(uint32_t op)
{
    return op < YK_OP_COUNT ? &ops[op] : NULL;
}

int yk__op_find(const char *name)
{
    for (int i = 0; i < YK_OP_COUNT; i++)
        if (!strcmp(ops[i].name, name))
            return i;
    return -1;
}

const yk__op_traits *yk__op_traits_of(uint32_t op)
{
    static const yk__op_traits none = {.back = YK_OP_NONE};
    return op < YK_OP_COUNT ? &traits[op] : &none;
}

bool yk__op_is_map(uint32_t op)
{
    return yk__op_traits_of(op)->map == YK_MAP_MAP;
}

bool yk__op_in_map(uint32_t op)
{
    return yk__op_traits_of(op)->map != YK_MAP_NO;
}

bool yk__op_over_ranks(uint32_t op)
{
    return yk__op_traits_of(op)->ranks == YK_RANKS_ALL;
}

const char *yk__dtype_name(uint32_t dtype)
{
    return dtype < YK_DTYPE_COUNT ? dtypes[dtype] : "?";
}

bool yk__dtype_is_float(uint32_t dtype)
{
    switch (dtype) {
    case YK_F32:
    case YK_F16:
    case YK_BF16:
    case YK_F64:
    case YK_F8E4M3:
    case YK_F8E5M2:
        return true;
    default:
        return false;
    }
}
