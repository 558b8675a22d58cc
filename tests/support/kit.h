/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small graphs for the tests of plugins: every value but views has a slot of its own with guard bytes behind it. Data go in
 * and out as doubles, rounded to the value's type on the way in.
 */
#ifndef YOKE_TESTS_SUPPORT_KIT_H
#define YOKE_TESTS_SUPPORT_KIT_H

#include <stdbool.h>

#include <yoke/plugin.h>

#define KIT_VALUES 96
#define KIT_GUARD 256

typedef struct kit {
    yk_graph g;
    yk_value value[KIT_VALUES];
    yk_node node[64];
    uint32_t index[256];
    int64_t attr[256];
    yk_slot slot[KIT_VALUES];
    char *data[KIT_VALUES]; /* by slot */
} kit;

void *kit_alloc(size_t bytes, size_t align); /* as yk_host.alloc; for free() */
kit *kit_new(void);
void kit_free(kit *k);

/* A dense value; dims ends with -1. */
uint32_t kit_value(kit *k, int dtype, const int64_t *dim);
#define KIT(k, dtype, ...) kit_value(k, dtype, (const int64_t[]){__VA_ARGS__, -1})
/* Stride 0 where `mask` has the bit of the axis; the data are those of the remaining axes. */
uint32_t kit_broadcast(kit *k, int dtype, const int64_t *dim, unsigned mask);
#define KITB(k, dtype, mask, ...) kit_broadcast(k, dtype, (const int64_t[]){__VA_ARGS__, -1}, mask)
/* The same memory with other strides. */
uint32_t kit_view(kit *k, uint32_t base, uint32_t dims, const int64_t *dim, const int64_t *stride, int64_t start);
int64_t kit_stored(const kit *k, uint32_t v); /* elements of its slot */
int64_t kit_count(const kit *k, uint32_t v);  /* elements of the logical shape */

void kit_set(kit *k, uint32_t v, const double *x); /* as many as the value stores */
void kit_random(kit *k, uint32_t v, double lo, double hi);
void kit_random_int(kit *k, uint32_t v, int lo, int hi);
double kit_random_unit(void);                        /* in [0, 1) */
double kit_get(const kit *k, uint32_t v, int64_t i); /* element i of the stored data */
double kit_at(const kit *k, uint32_t v, int64_t i);  /* element i of the logical shape */

/* A top node; ins and outs end with YK_NONE. */
yk_node *kit_node(kit *k, int op, const uint32_t *in, const uint32_t *out, const int64_t *attr, uint32_t n_attr);
#define KIT_IDS(...) ((const uint32_t[]){__VA_ARGS__, YK_NONE})
#define KIT_NONE ((const uint32_t[]){YK_NONE})
#define KIT_ATTR(...) (const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)
/* The last n top nodes become the body of a new node of this op. */
yk_node *kit_wrap(kit *k, int op, uint32_t n, const uint32_t *in, const uint32_t *out);
bool kit_guarded(const kit *k); /* nothing was written behind a slot */

#define KIT_BYTES(n) (&(yk_buffer_desc){.size = sizeof(yk_buffer_desc), .bytes = (n)}) /* a buffer of n bytes */
#define KIT_QUEUE (&(yk_queue_desc){.size = sizeof(yk_queue_desc), .kind = YK_QUEUE_COMPUTE})

#endif
