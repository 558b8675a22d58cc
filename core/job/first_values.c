/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes first values of parameters and states: constants, uniform and normal numbers. Each element follows from the seed, the parameter's
 * name and the element's number alone. So all ranks have the same values, and a rank makes any range by itself.
 *
 * core/job/param.c makes a source before the first run (yk__params_ready). It reads a state's source itself, at once and whole; the engine
 * reads a parameter's later, by range. The step thread.
 */
#include "core/job/first_values.h"

#include <math.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/mem.h"
#include "core/base/philox.h"

typedef struct first_values {
    yk_init init;
    uint64_t seed, name; /* name: its hash */
} first_values;

/* Maps word w into (0, 1). */
static double open_unit(uint32_t w)
{
    return ((double)w + 0.5) * 0x1p-32;
}

static bool is_constant(yk_init init, float *value)
{
    *value = init.kind == YK_INIT_ZEROS ? 0.0f : init.kind == YK_INIT_ONES ? 1.0f : init.a;
    return init.kind == YK_INIT_ZEROS || init.kind == YK_INIT_ONES || (init.kind == YK_INIT_UNIFORM && init.a == init.b);
}

/* Makes elements 4 * block to 4 * block + 3. Normal numbers by Box and Muller (1958). */
static void block_make(const first_values *v, uint64_t block, float out[4])
{
    const uint32_t key[2] = {(uint32_t)v->seed, (uint32_t)(v->seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)v->name, (uint32_t)(v->name >> 32)};
    const double a = (double)v->init.a, b = (double)v->init.b;
    uint32_t w[4];
    yk__philox(counter, key, w);
    for (int k = 0; k < 4 && v->init.kind != YK_INIT_NORMAL; k++)
        out[k] = (float)(a + (b - a) * open_unit(w[k]));
    for (int k = 0; k < 4 && v->init.kind == YK_INIT_NORMAL; k += 2) {
        const double r = sqrt(-2.0 * log(open_unit(w[k]))), angle = 6.283185307179586 * open_unit(w[k + 1]);
        out[k] = (float)(a + b * r * cos(angle));
        out[k + 1] = (float)(a + b * r * sin(angle));
    }
}

static yk_status values_read(void *object, uint64_t from, uint64_t n, float *out, yk_error *err)
{
    const first_values *v = object;
    float value, four[4];
    const bool constant = is_constant(v->init, &value);
    for (uint64_t i = 0; i < n && constant; i++)
        out[i] = value;
    for (uint64_t i = 0; i < n && !constant;) {
        const uint64_t skip = (from + i) % 4, some = 4 - skip < n - i ? 4 - skip : n - i;
        block_make(v, (from + i) / 4, four);
        memcpy(out + i, four + skip, some * sizeof *out);
        i += some;
    }
    return err->status;
}

yk_status yk__first_values(const yk__job_param *p, uint64_t seed, yk__source *out, yk_error *err)
{
    first_values *v = yk__malloc(sizeof *v);
    if (!v)
        return yk__fail_mem(err, sizeof *v, p->name);
    *v = (first_values){p->init, seed, yk__hash_bytes(YK_HASH_SEED, p->name, strlen(p->name))};
    *out = (yk__source){values_read, yk__free, v, yk__hash_u64(yk__hash_u64(p->sign, p->given), seed)};
    return YK_OK;
}
