/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small graphs for the tests of the CPU plugin: every value has a slot of its own with guard bytes behind it. Data go
 * in and out as doubles, rounded to the value's type on the way in.
 */
#ifndef TESTS_UNIT_CPU_KIT_H
#define TESTS_UNIT_CPU_KIT_H

#include "backends/cpu/cpu.h"
#include "backends/cpu/program.h"

#define KIT_VALUES 96

typedef struct kit {
    yk_graph g;
    yk_value value[KIT_VALUES];
    yk_node node[64];
    uint32_t index[256];
    int64_t attr[256];
    yk_slot slot[KIT_VALUES];
    char *data[KIT_VALUES];
} kit;

void kit_host(void); /* malloc, stderr */
kit *kit_new(void);
void kit_free(kit *k);
/* A dense value; dims ends with -1. */
uint32_t kit_value(kit *k, int dtype, const int64_t *dim);
#define KIT(k, dtype, ...) kit_value(k, dtype, (const int64_t[]){__VA_ARGS__, -1})
/* A broadcast view: stride 0 where `mask` has the bit of the axis; the data are those of the remaining axes. */
uint32_t kit_broadcast(kit *k, int dtype, const int64_t *dim, unsigned mask);
void kit_set(kit *k, uint32_t v, const double *x); /* as many as the value stores */
void kit_random(kit *k, uint32_t v, double lo, double hi);
double kit_get(const kit *k, uint32_t v, int64_t i); /* element i of the stored data */
double kit_at(const kit *k, uint32_t v, int64_t i);  /* element i of the logical, broadcast shape */
int64_t kit_stored(const kit *k, uint32_t v);
/* A top node; ins and outs end with YK_NONE. body: added with kit_body before, then n_body nodes. */
yk_node *kit_node(kit *k, int op, const uint32_t *in, const uint32_t *out, const int64_t *attr, uint32_t n_attr);
#define KIT_IDS(...) ((const uint32_t[]){__VA_ARGS__, YK_NONE})
/* The last `n` top nodes become the body of a new node of this op. */
yk_node *kit_wrap(kit *k, int op, uint32_t n, const uint32_t *in, const uint32_t *out);
/* Runs all nodes with nt workers; status of planning. Guard bytes are checked (aborts the test when broken). */
yk_status kit_run(kit *k, const cpu_isa *isa, int nt);
/* The same `times` times; the least seconds of one run, or -1. */
double kit_time(kit *k, const cpu_isa *isa, int nt, int times);
double kit_random_unit(void);
const cpu_isa *kit_isa(int i); /* NULL past the last */

#endif
