/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yoke-cts: the conformance suite for compute plugins, and for transports (tr.h). Every group runs in a child process that loads
 * the plugin afresh, and results come back over a pipe. A crash or a hang is one failed test: another process goes on with the next one.
 */
#ifndef YOKE_TOOLS_CTS_CTS_H
#define YOKE_TOOLS_CTS_CTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "core/device/device.h"
#include "core/device/simple.h"

#include <yoke/transport.h>

typedef enum cts_verdict { CTS_PASS, CTS_FAIL, CTS_UNSUPPORTED } cts_verdict;

typedef struct cts {
    const char *path; /* path of the plugin */
    uint32_t device;
    uint64_t seed, timeout_ns;
    const char *group; /* that runs now */
    const char *only;  /* pattern of test names, or NULL */
    bool quick;
    bool longest;      /* sums of a hundred million terms, too */
    uint32_t count;    /* random graphs */
    bool wide;         /* larger random graphs, of many shapes and more operations */
    bool claims;       /* composites are not run: a claimed one passes */
    uint32_t from;     /* finished tests of the group: an earlier process died in the last of them */
    uint32_t number;   /* tests of the group so far */
    bool counting;     /* only counts the tests */
    bool left;         /* a queue was given up, and may be at work: the device is not closed */
    int printed;       /* file in the place of standard output, for the plugin's output */
    int64_t printed_bytes;
    const struct cts_lists *lists;
    FILE *out; /* results go there */
    uint32_t shrunk; /* graphs that this process made smaller */
    bool failed_now; /* the test that runs now has its verdict: it failed, or is unsupported */
    /* The open device; NULL in the groups that open it themselves. */
    yk__device *dev;
    const yk_plugin *t;
    /* or the transport; NULL: a plugin is tested */
    const yk_transport *transport;
    const char *transport_path;
} cts;

/* ---- Reporting ------------------------------------------------------------------------------------------------------- */

/* True if this test should run: --only includes it, and the list of unsupported tests does not name it (which is reported). */
bool cts_begin(cts *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Ends the test begun last; one verdict per test, the first failure counts. */
void cts_pass(cts *c);
void cts_fail(cts *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void cts_unsupported(cts *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Fails the test with the plugin's words and returns false unless status is YK_OK. */
bool cts_ok(cts *c, yk_status status, const char *what);
bool cts_error(cts *c, yk_error *err); /* as cts_ok; clears err */

typedef struct cts_group {
    const char *name, *text;
    bool open; /* the device is opened, or the transport loaded, before the group runs */
    void (*run)(cts *c);
} cts_group;

/* The groups to run: for plugins, or for transports. */
typedef struct cts_suite {
    const char *name; /* name of its option */
    const cts_group *group;
    uint32_t n;
} cts_suite;

/* ---- Objects of the device; released through the table ---------------------------------------------------------------- */

yk_status cts_buffer_new(cts *c, uint64_t bytes, yk_buffer **b);
yk_status cts_queue_new(cts *c, uint32_t kind, yk_queue **q); /* YK_QUEUE_* */

/* ---- Waiting ---------------------------------------------------------------------------------------------------------- */

/* Waits at most the time a test has. A queue that lost a point is the failure "the point is never reached". */
bool cts_wait(cts *c, yk_queue *q, uint64_t point);
/* A new queue after a failure: failures of queues are sticky. */
void cts_queue_again(cts *c);

/* ---- Test data -------------------------------------------------------------------------------------------------------- */

/* The numbers of an input; kept in yk_slot.key with a parameter n. */
/* Bytes that the device may have free: all of them if it does not say. 0: unknown. */
uint64_t cts_free_bytes(const cts *c);

typedef enum cts_dist {
    CTS_UNIT,     /* -1..1 */
    CTS_WIDE,     /* -4..4 */
    CTS_POSITIVE, /* 0.1..4 */
    CTS_ZERO,     /* as positive, often 0, now and then infinity */
    CTS_NONZERO,  /* 0.25..4 with either sign */
    CTS_TIES,     /* multiples of 0.5 in -2..2 */
    CTS_SPECIAL,  /* as ties, now and then a NaN, an infinity or -0 */
    CTS_NAN,      /* NaNs with all payloads in f32, now and then a number */
    CTS_LOWEST,   /* -infinity */
    CTS_TINY,     /* below the normal numbers of the type */
    CTS_BYTES,    /* 0..255, whole */
    CTS_WHOLE,    /* -1000..1000, whole */
    CTS_INTEGER,  /* of i32: any, often one at an end; n odd: 2^24..2^24 + 3 */
    CTS_SAME,     /* n tenths everywhere */
    CTS_INDEX,    /* 0..n-1, now and then outside */
    CTS_LABEL,    /* 0..n-1, now and then -100 */
    CTS_KEY,      /* a random key: {low, high, step, 0} */
    CTS_ROWS,     /* row numbers, some large */
    CTS_MASK,     /* 0 or 1, the first is 1 */
    CTS_MOVED,    /* as unit, now and then a NaN, an infinity or -0 */
    CTS_SHIFTED,  /* 999..1001 */
    CTS_HUGE,     /* 2^n..2^(n+1) with either sign */
    CTS_LARGE,    /* 2^n..2^(n+1) */
    CTS_SMALL,    /* -2^-n..2^-n */
    CTS_EDGE,     /* n bits of fraction, then about half a unit or just less than one; often all n are set */
    CTS_PATTERN,  /* every pattern of bf16, in order, with NaNs and infinities; for n != 0 only exponents n - 40 .. n */
    CTS_HYPER     /* hyperparameters of the optimizers */
} cts_dist;

yk__vid cts_leaf(yk__graph *g, yk_dtype dtype, cts_dist dist, uint32_t n, uint32_t dims, const int64_t *dim);
/* A leaf in a slot that a program also writes (parameters, gradient buckets). */
yk__vid cts_state(yk__graph *g, yk_dtype dtype, cts_dist dist, uint32_t n, uint32_t dims, const int64_t *dim);
/* Fills the slots of all leaves, equally for every plan of one graph. absolute: with absolute values. */
void cts_fill(const yk__simple *s, void **slot, uint64_t seed, bool absolute);
uint64_t cts_random(uint64_t *state);
uint32_t cts_below(uint64_t *state, uint32_t n); /* 0..n-1 */

/* ---- Checking a graph against the reference --------------------------------------------------------------------------- */

typedef enum cts_tol {
    CTS_EXACT,  /* the reference rounded to the type */
    CTS_ROUND,  /* one rounding */
    CTS_ULP,    /* a few ulp of the element */
    CTS_ABSSUM, /* 4 sqrt(n) eps of the same operation on absolute values, and one rounding */
    CTS_LARGEST, /* c sqrt(n) eps of the largest element, and one rounding */
    CTS_SHARE,  /* n times the element, and one rounding of 16 bits */
    CTS_NOISE   /* a multiple of the effect of storing every value in its type, in the reference */
} cts_tol;

typedef struct cts_check {
    yk__graph g;
    yk__vid want[16];
    uint32_t n_want;
    cts_tol tol;
    double n;         /* length of the sums; CTS_SHARE: the share */
    const char *advice; /* printed with a wrong result; NULL for none */
    double least;     /* CTS_LARGEST: the largest element counts as this at least: differences of larger numbers */
    double low;       /* CTS_LARGEST: further error in units of the inputs' precision, for 16-bit intermediates */
    uint32_t in_type; /* the inputs' type */
    bool any_zero;    /* CTS_EXACT: +0 and -0 are alike, as max and min may give either; else a zero has the reference's sign */
    uint32_t claims;  /* bits that claims() must return besides 1 */
    uint32_t align;   /* the device's caps.value_align */
    uint32_t product_bits; /* the device's, 24 for whole operands */
    uint64_t seed;
    bool inlined;     /* run the bodies of claimed composites too */
    bool body_noise;  /* CTS_NOISE: rounding error of the bodies, even if composites run */
    bool share;       /* values share memory where the rules allow it */
    bool arenas;      /* two slots of kind ARENA */
    bool around;      /* slots lie within larger buffers, whose other bytes are checked */
    uint64_t lead;    /* around: further bytes before and behind each slot, a multiple of 65536 */
} cts_check;

/* Tells the parent what the numbers of the test that runs are held to. */
void cts_held_to(cts *c, cts_tol tol);
void cts_check_init(cts_check *k, const cts *c);
void cts_check_free(cts_check *k);
void cts_want(cts_check *k, yk__vid v);
/* Plans, runs on device and reference, compares results, checks gaps and inputs. Ends the test. False: the reference gave no
 * results, and the device was not asked. */
bool cts_check_run(cts *c, cts_check *k);
/* Prints the failing graph `number` of the group random, shrunk, and the command that repeats it. */
void cts_shrink(cts *c, const cts_check *k, uint32_t number);
/* Makes the graph's one composite add to its output; false unless it has one separate result in f32. */
bool cts_accumulate(cts_check *k);
/* True if the device claims every composite of a check's graph. */
bool cts_claimed(cts *c, cts_check *k, yk_error *err);
/* One value's elements by the reference; the last two have the types of their own plans. */
typedef struct cts_reference {
    const yk_value *v;
    const void *at;
    const void *aux;     /* on absolute values (CTS_ABSSUM), or rounded at each node (CTS_NOISE); else NULL */
    const void *shorter; /* with shorter operands of products (cts_product_loss); NULL without */
} cts_reference;

/* Compares one value's elements; false with a failure reported. */
bool cts_compare(cts *c, const cts_check *k, uint32_t which, const yk_value *got_v, const void *got, const cts_reference *ref);

/* The share of its absolute terms that a product of the check's graph may lose beside the errors of f32 (yk_device_caps.product_bits);
 * 0 for a graph in which no operands of f32 are multiplied and added up, and on a device that keeps them whole. */
double cts_product_loss(const cts_check *k);
/* Half the distance of the type's numbers from |x| on. */
double cts_half_ulp(double x, uint32_t dtype);
/* True if got is a number of [low, high], rounded to the type: to nearest, ties to even. */
bool cts_rounds_to(double got, uint32_t dtype, double low, double high);

/* ---- Cases of operations ------------------------------------------------------------------------------------------------ */

/* Builds one case of a composite: `number` from 0; false when there is no such case. The name goes into name[]. */
typedef bool cts_case_fn(cts_check *k, uint32_t number, yk_dtype dtype, char *name, size_t n);
extern cts_case_fn *const cts_composites[];
extern const uint32_t cts_n_composite;
bool cts_case_activation(cts_check *k, uint32_t number, yk_dtype dtype, char *name, size_t n);
bool cts_case_norm(cts_check *k, uint32_t number, yk_dtype dtype, char *name, size_t n);
bool cts_case_stats(cts_check *k, uint32_t number, yk_dtype dtype, char *name, size_t n);
bool cts_case_softmax(cts_check *k, uint32_t number, yk_dtype dtype, char *name, size_t n);
bool cts_case_conv(cts_check *k, uint32_t number, yk_dtype dtype, char *name, size_t n);
bool cts_case_pool(cts_check *k, uint32_t number, yk_dtype dtype, char *name, size_t n);
bool cts_case_attention(cts_check *k, uint32_t number, yk_dtype dtype, char *name, size_t n);
bool cts_case_loss(cts_check *k, uint32_t number, yk_dtype dtype, char *name, size_t n);
bool cts_case_round8(cts_check *k, uint32_t number, yk_dtype dtype, char *name, size_t n);
bool cts_case_optim(cts_check *k, uint32_t number, yk_dtype dtype, char *name, size_t n);
bool cts_case_map(cts_check *k, uint32_t number, yk_dtype dtype, char *name, size_t n);

/* Makes the nodes from `first` on the body of one new node. */
void cts_make_body(yk__graph *g, yk_op op, size_t first, uint32_t n_in, const yk__vid *in, uint32_t n_out, const yk__vid *out);

/* Value types the device can compute with, in order: f32, bf16, f16; the number of them. */
uint32_t cts_float_types(const cts *c, yk_dtype *types);

/* ---- Groups --------------------------------------------------------------------------------------------------------------- */

void cts_group_abi(cts *c);
void cts_group_buffer(cts *c);
void cts_group_queue(cts *c);
void cts_group_op(cts *c);
void cts_group_composite(cts *c);
void cts_group_body(cts *c);
void cts_group_random(cts *c);
void cts_group_gradients(cts *c);
void cts_group_guard(cts *c);
void cts_group_rebind(cts *c);
void cts_group_leak(cts *c);
void cts_group_offsets(cts *c);
void cts_group_long(cts *c);
void cts_group_extension(cts *c);
void cts_group_processes(cts *c);
void cts_group_errors(cts *c);

/* A process's holdings; and which of them grew between two parts of a test by as much as a leak in each round. */
typedef struct cts_held {
    int64_t bytes, pages, files, threads, device;
} cts_held;

typedef struct cts_grown {
    bool threads, files, bytes, pages, device;
} cts_grown;

cts_held cts_held_now(const cts *c);
cts_grown cts_held_grown(const cts_held *before, const cts_held *now, uint32_t rounds);

/* Fails the test if a shared object exports a name besides its entry point, or imports a name of the host. */
void cts_file_check(cts *c, const char *path, const char *symbol);
/* Reads the ELF file of a plugin: exported and undefined symbols, libraries it needs. */
yk_status cts_elf_read(const char *path, void *arg, void (*symbol)(void *arg, const char *name, bool defined, const char *version),
                       void (*needed)(void *arg, const char *library), yk_error *err);

/* ---- Lists and totals (main's side) ------------------------------------------------------------------------------------------ */

typedef struct cts_lists {
    char **unsupported, **expected; /* patterns; NULL-terminated */
    bool verify;
} cts_lists;

typedef struct cts_totals {
    uint32_t passed, failed, unsupported, expected, not_run, number;
    bool json;
    struct cts_record *record; /* for --report (record.h); NULL: none is kept */
    int tol;                   /* cts_tol of the test that runs; -1: none */
} cts_totals;

yk_status cts_list_read(const char *path, char ***list, yk_error *err);
void cts_list_free(char **list);
bool cts_listed(char *const *list, const char *name);
/* One result line of a child: "PFU" and the rest of "name\tmessage". */
void cts_take(cts_totals *t, const cts_lists *l, const char *line);
void cts_report(cts_totals *t, const cts_lists *l, cts_verdict v, const char *name, const char *message);

#endif
