/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of recipes. A recipe records the call, operands and settings that made a value of a step; its sign is their hash (recipe.h).
 * A job of one rank makes none. A value assigned after the comparison enters the next step's sign (late).
 *
 * handle.c begins recipes, core/job/trace ends them while a step is traced, and step.c clears the tables, all in the step thread. agree.c
 * (core/job/trace) compares the signs over the ranks, and agree_graph.c (core/job/trace) finds the first call that differs.
 */
#include "core/job/recipe.h"

#include <string.h>

#include "core/base/hash.h"
#include "core/base/mem.h"

void yk__recipe_begin(yk__recipes *r, uint32_t call, const char *name)
{
    r->now = (yk__recipe){.name = name, .call = call, .operand = (uint32_t)r->n_operand, .setting = (uint32_t)r->n_setting};
}

void yk__recipe_operand(yk__recipes *r, uint64_t sign)
{
    if (yk__grow(&r->operand, &r->cap_operand, r->n_operand + 1, sizeof *r->operand)) {
        r->lost = true;
        return;
    }
    r->operand[r->n_operand++] = sign;
    r->now.n_operand++;
}

void yk__recipe_setting_add(yk__recipes *r, const char *name, double value)
{
    if (yk__grow(&r->setting, &r->cap_setting, r->n_setting + 1, sizeof *r->setting)) {
        r->lost = true;
        return;
    }
    r->setting[r->n_setting++] = (yk__recipe_setting){name, value};
    r->now.n_setting++;
}

static uint64_t recipe_sign(const yk__recipes *r, const yk__recipe *one)
{
    uint64_t sign = yk__hash_bytes(YK_HASH_SEED, one->name, strlen(one->name));
    sign = yk__hash_u64(sign, (uint64_t)one->n_operand << 32 | one->n_setting);
    for (uint32_t i = 0; i < one->n_operand; i++)
        sign = yk__hash_u64(sign, r->operand[one->operand + i]);
    for (uint32_t i = 0; i < one->n_setting; i++) {
        uint64_t bits;
        memcpy(&bits, &r->setting[one->setting + i].value, sizeof bits);
        sign = yk__hash_u64(sign, bits);
    }
    return sign;
}

uint64_t yk__recipe_end(yk__recipes *r)
{
    if (yk__grow(&r->made, &r->cap_made, r->n_made + 1, sizeof *r->made)) {
        r->lost = true;
        return 0;
    }
    r->now.sign = recipe_sign(r, &r->now);
    r->made[r->n_made++] = r->now;
    return r->now.sign;
}

void yk__recipe_assigned(yk__recipes *r, uint64_t sign)
{
    if (yk__grow(&r->assigned, &r->cap_assigned, r->n_assigned + 1, sizeof *r->assigned))
        r->lost = true;
    else
        r->assigned[r->n_assigned++] = sign;
}

const yk__recipe *yk__recipe_find(const yk__recipes *r, uint64_t sign)
{
    for (size_t i = r->n_made; i-- > 0;)
        if (r->made[i].sign == sign)
            return &r->made[i];
    return NULL;
}

static uint64_t assigned_sign(const yk__recipes *r, uint64_t sign, size_t from)
{
    for (size_t i = from; i < r->n_assigned; i++)
        sign = yk__hash_u64(sign, r->assigned[i]);
    return sign;
}

uint64_t yk__recipes_sign(const yk__recipes *r, uint64_t loss)
{
    return assigned_sign(r, yk__hash_u64(yk__hash_u64(YK_HASH_SEED, loss), r->late), 0);
}

uint64_t yk__recipes_late(const yk__recipes *r)
{
    return assigned_sign(r, r->late, r->n_compared);
}

void yk__recipes_compared(yk__recipes *r)
{
    r->n_compared = r->n_assigned;
    r->late = 0;
}

void yk__recipes_clear(yk__recipes *r)
{
    r->late = yk__recipes_late(r);
    r->n_made = r->n_operand = r->n_setting = r->n_assigned = r->n_compared = 0;
}

void yk__recipes_free(yk__recipes *r)
{
    yk__free(r->made);
    yk__free(r->operand);
    yk__free(r->setting);
    yk__free(r->assigned);
}
