/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small graphs run by the OpenCL plugin through its ABI alone (loaded with dlopen). Every value has a slot of its own
 * with guard bytes behind it. Data go in and out as doubles, rounded to the value's type on the way in.
 */
#ifndef TESTS_UNIT_OPENCL_KIT_H
#define TESTS_UNIT_OPENCL_KIT_H

#include <stdbool.h>

#include <yoke/plugin.h>

#define OK_VALUES 64

typedef struct ok_graph {
    yk_graph g;
    yk_value value[OK_VALUES];
    yk_node node[64];
    uint32_t index[256];
    int64_t attr[128];
    yk_slot slot[OK_VALUES];
    char *data[OK_VALUES];
} ok_graph;

extern const yk_plugin *ok_plugin;
extern yk_device *ok_device;
extern const char *ok_option_key[8], *ok_option_value[8]; /* what the host answers for options */
extern const char *ok_cache_dir;
extern int ok_quiet;
extern char ok_log_text[8192]; /* all log and fail lines */

const yk_plugin *ok_load(void);         /* NULL: not built */
int ok_start(uint32_t device);          /* loads, inits, opens; number of devices, -1 on failure */
void ok_stop(void);

ok_graph *ok_new(void);
void ok_free(ok_graph *k);
uint32_t ok_value(ok_graph *k, int dtype, const int64_t *dim, unsigned broadcast);
#define OK(k, dtype, ...) ok_value(k, dtype, (const int64_t[]){__VA_ARGS__, -1}, 0)
#define OKB(k, dtype, mask, ...) ok_value(k, dtype, (const int64_t[]){__VA_ARGS__, -1}, mask)
/* The same memory with other strides. */
uint32_t ok_view(ok_graph *k, uint32_t base, uint32_t dims, const int64_t *dim, const int64_t *stride, int64_t start);
void ok_set(ok_graph *k, uint32_t v, const double *x);
void ok_random(ok_graph *k, uint32_t v, double lo, double hi);
void ok_random_int(ok_graph *k, uint32_t v, int lo, int hi);
double ok_get(const ok_graph *k, uint32_t v, int64_t i); /* element i of the stored data */
double ok_at(const ok_graph *k, uint32_t v, int64_t i);  /* element i of the logical shape */
int64_t ok_count(const ok_graph *k, uint32_t v);         /* elements of the logical shape */
yk_node *ok_node(ok_graph *k, int op, const uint32_t *in, const uint32_t *out, const int64_t *attr, uint32_t n_attr);
#define OK_IDS(...) ((const uint32_t[]){__VA_ARGS__, YK_NONE})
#define OK_NONE ((const uint32_t[]){YK_NONE})
#define OK_ATTR(...) (const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)
/* The last n top nodes become the body of a new node. */
yk_node *ok_wrap(ok_graph *k, int op, uint32_t n, const uint32_t *in, const uint32_t *out);
uint32_t ok_claims(ok_graph *k, uint32_t node);
yk_status ok_run(ok_graph *k); /* all nodes; guard bytes are checked */
double ok_unit(void);          /* a random number in [0, 1) */

#endif
