/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times the products of GPT-2 124M (1024 tokens) and BERT-base (4096 tokens), forward, dgrad and wgrad, beside oneDNN if
 * configured --with-onednn. In turn: Yoke, oneDNN on plain matrices, oneDNN with B packed; least of all rounds, in GFLOP/s.
 * B is packed twice: with its reorder timed, as a step with new weights needs it, and beforehand. Yoke's time includes its
 * packing. The first ratio is to the better of plain and packed, the second to B packed beforehand.
 * usage: gemm_peer [threads [rounds [part of a name]]]; KIT_CPU_TIME=1: seconds of the process, not of the wall
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/cpu_kit.h"

typedef struct product {
    const char *name;
    int64_t m, n, k;
    int ta, tb; /* stored as k x m, n x k */
    int narrow_out; /* the result is bf16 as the operands are, else f32 */
} product;

static const product products[] = {
    {"proj fwd", 1024, 768, 768, 0, 0, 1},     {"proj dgrad", 1024, 768, 768, 0, 1, 0},
    {"proj wgrad", 768, 768, 1024, 1, 0, 0},   {"qkv fwd", 1024, 2304, 768, 0, 0, 1},
    {"qkv dgrad", 1024, 768, 2304, 0, 1, 0},   {"qkv wgrad", 768, 2304, 1024, 1, 0, 0},
    {"fc fwd", 1024, 3072, 768, 0, 0, 1},      {"fc dgrad", 1024, 768, 3072, 0, 1, 0},
    {"fc wgrad", 768, 3072, 1024, 1, 0, 0},    {"out fwd", 1024, 768, 3072, 0, 0, 1},
    {"out dgrad", 1024, 3072, 768, 0, 1, 1},   {"out wgrad", 3072, 768, 1024, 1, 0, 0},
    {"head fwd", 1024, 50257, 768, 0, 1, 1},   {"head dgrad", 1024, 768, 50257, 0, 0, 0},
    {"head wgrad", 50257, 768, 1024, 1, 0, 0}, {"bert fwd", 4096, 768, 768, 0, 1, 1},
    {"bert inner fwd", 4096, 3072, 768, 0, 1, 1}, {"bert wgrad", 3072, 768, 4096, 1, 0, 0},
};

static double clock_now(void)
{
    struct timespec t;
    clock_gettime(getenv("KIT_CPU_TIME") ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static kit *graph_of(const product *p, int dtype)
{
    static const int64_t none[1];
    kit *k = kit_new();
    uint32_t a = KIT(k, dtype, p->m, p->k), b = KIT(k, dtype, p->k, p->n);
    uint32_t c = KIT(k, p->narrow_out ? dtype : YK_F32, p->m, p->n);
    if (p->ta)
        k->value[a].stride[0] = 1, k->value[a].stride[1] = p->m;
    if (p->tb)
        k->value[b].stride[0] = 1, k->value[b].stride[1] = p->k;
    memset(k->data[a], 0, (size_t)k->slot[a].bytes);
    memset(k->data[b], 0, (size_t)k->slot[b].bytes);
    kit_node(k, YK_OP_DOT, KIT_IDS(a, b), KIT_IDS(c), none, 0);
    return k;
}

/* Prints a line for bench/kernels; N, T: storage of each operand */
static void print_product(const product *p, int dtype)
{
    printf("%-16s %5lldx%5lldx%5lld %c%c %s  ", p->name, (long long)p->m, (long long)p->n, (long long)p->k, p->ta ? 'T' : 'N',
           p->tb ? 'T' : 'N', dtype == YK_F32 ? "f32 " : "bf16");
}

#ifdef HAVE_ONEDNN
#include <oneapi/dnnl/dnnl.h>

typedef struct peer {
    dnnl_stream_t stream;
    dnnl_primitive_t run, pack; /* pack: `from` to b, or NULL */
    dnnl_memory_t a, b, c, from;
} peer;

static dnnl_engine_t engine;

static void dnnl_must(dnnl_status_t s, const char *what)
{
    if (s == dnnl_success)
        return;
    fprintf(stderr, "oneDNN: %s: status %d\n", what, (int)s);
    exit(1);
}

/* data NULL: the library allocates */
static dnnl_memory_t memory_of(const dnnl_memory_desc_t *d, void *data)
{
    dnnl_memory_t m;
    dnnl_must(dnnl_memory_create(&m, d, engine, data ? data : DNNL_MEMORY_ALLOCATE), "memory");
    return m;
}

static dnnl_memory_desc_t matrix_desc(int64_t rows, int64_t cols, int type, int transposed, int any)
{
    dnnl_memory_desc_t d;
    const dnnl_dims_t dims = {rows, cols};
    dnnl_format_tag_t tag = any ? dnnl_format_tag_any : transposed ? dnnl_ba : dnnl_ab;
    dnnl_must(dnnl_memory_desc_init_by_tag(&d, 2, dims, type == YK_F32 ? dnnl_f32 : dnnl_bf16, tag), "matrix");
    return d;
}

/* Adds the reorder of a plain B to the layout that the product reads. */
static void add_packing(peer *r, const dnnl_memory_desc_t *plain, const dnnl_memory_desc_t *packed, void *data)
{
    dnnl_primitive_desc_t pd;
    r->from = memory_of(plain, data);
    dnnl_must(dnnl_reorder_primitive_desc_create(&pd, plain, engine, packed, engine, NULL), "reorder");
    dnnl_must(dnnl_primitive_create(&r->pack, pd), "reorder");
    dnnl_primitive_desc_destroy(pd);
}

/* Makes the product on the kit's matrices; packed: B in the library's preferred layout. */
static peer peer_new(const product *p, const kit *k, int dtype, int packed)
{
    peer r = {0};
    dnnl_matmul_desc_t d;
    dnnl_primitive_desc_t pd;
    dnnl_memory_desc_t a = matrix_desc(p->m, p->k, dtype, p->ta, 0), b = matrix_desc(p->k, p->n, dtype, p->tb, packed);
    dnnl_memory_desc_t c = matrix_desc(p->m, p->n, p->narrow_out ? dtype : YK_F32, 0, 0), from = matrix_desc(p->k, p->n, dtype, p->tb, 0);
    dnnl_must(dnnl_stream_create(&r.stream, engine, dnnl_stream_default_flags), "stream");
    dnnl_must(dnnl_matmul_desc_init(&d, &a, &b, NULL, &c), "matmul");
    dnnl_must(dnnl_primitive_desc_create(&pd, &d, NULL, engine, NULL), "matmul");
    dnnl_must(dnnl_primitive_create(&r.run, pd), "matmul");
    r.a = memory_of(&a, k->data[0]);
    const dnnl_memory_desc_t *weights = dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
    r.b = memory_of(weights, packed ? NULL : k->data[1]);
    r.c = memory_of(&c, k->data[2]);
    if (packed)
        add_packing(&r, &from, weights, k->data[1]);
    dnnl_primitive_desc_destroy(pd);
    return r;
}

static double peer_time(const peer *p, int times, int packing)
{
    const dnnl_exec_arg_t from_to[] = {{DNNL_ARG_FROM, p->from}, {DNNL_ARG_TO, p->b}};
    const dnnl_exec_arg_t arg[] = {{DNNL_ARG_SRC, p->a}, {DNNL_ARG_WEIGHTS, p->b}, {DNNL_ARG_DST, p->c}};
    double best = 1e30;
    for (int i = 0; i < times; i++) {
        double from = clock_now();
        if (packing)
            dnnl_must(dnnl_primitive_execute(p->pack, p->stream, 2, from_to), "pack");
        dnnl_must(dnnl_primitive_execute(p->run, p->stream, 3, arg), "execute");
        dnnl_must(dnnl_stream_wait(p->stream), "wait");
        double t = clock_now() - from;
        best = t < best ? t : best;
    }
    return best;
}

static void peer_free(peer *p)
{
    dnnl_memory_destroy(p->a);
    dnnl_memory_destroy(p->b);
    dnnl_memory_destroy(p->c);
    if (p->pack) {
        dnnl_memory_destroy(p->from);
        dnnl_primitive_destroy(p->pack);
    }
    dnnl_primitive_destroy(p->run);
    dnnl_stream_destroy(p->stream);
}

static void product_compare(const product *p, int dtype, const cpu_isa *isa, int threads, int rounds)
{
    kit *k = graph_of(p, dtype);
    peer plain = peer_new(p, k, dtype, 0), packed = peer_new(p, k, dtype, 1);
    double flop = 2e-9 * (double)p->m * (double)p->n * (double)p->k, best[4] = {1e30, 1e30, 1e30, 1e30};
    int times = flop > 20 ? 1 : 3;
    for (int r = 0; r < rounds; r++) {
        double t[4] = {kit_time(k, isa, threads, times + 1), peer_time(&plain, times, 0), peer_time(&packed, times, 1),
                       peer_time(&packed, times, 0)};
        for (int i = 0; i < 4; i++)
            best[i] = t[i] < best[i] ? t[i] : best[i];
    }
    double peers = best[1] < best[2] ? best[1] : best[2];
    print_product(p, dtype);
    printf("ours %6.1f  plain %6.1f  packed %6.1f  ratio %.3f  packed beforehand %6.1f  ratio %.3f\n", flop / best[0],
           flop / best[1], flop / best[2], peers / best[0], flop / best[3], best[3] / best[0]);
    peer_free(&plain);
    peer_free(&packed);
    kit_free(k);
}

/* Gives oneDNN the same number of threads: OpenMP reads it when it is loaded, so the program starts anew with it. */
static void equal_threads(char **argv, int threads)
{
    char text[16];
    const char *now = getenv("OMP_NUM_THREADS");
    snprintf(text, sizeof text, "%d", threads);
    if (now && strcmp(now, text) == 0)
        return;
    setenv("OMP_NUM_THREADS", text, 1);
    execv("/proc/self/exe", argv);
    perror("/proc/self/exe");
    exit(1);
}

static void peer_begin(char **argv, int threads)
{
    equal_threads(argv, threads);
    dnnl_must(dnnl_engine_create(&engine, dnnl_cpu, 0), "engine");
}
#else
static void product_compare(const product *p, int dtype, const cpu_isa *isa, int threads, int rounds)
{
    kit *k = graph_of(p, dtype);
    double from = clock_now(), best = kit_time(k, isa, threads, 3 * rounds);
    double flop = 2e-9 * (double)p->m * (double)p->n * (double)p->k;
    print_product(p, dtype);
    printf("ours %6.1f  (%.1f s)\n", flop / best, clock_now() - from);
    kit_free(k);
}

static void peer_begin(char **argv, int threads)
{
    (void)argv, (void)threads;
}
#endif

int main(int argc, char **argv)
{
    const char *why = NULL, *only = argc > 3 ? argv[3] : "";
    int threads = argc > 1 ? atoi(argv[1]) : 1, rounds = argc > 2 ? atoi(argv[2]) : 3;
    const cpu_isa *isa = cpu_isa_choose(getenv("YOKE_CPU_ISA"), &why);
    if (!isa || threads < 1 || threads > 64 || rounds < 1) {
        fprintf(stderr, "%s\n", why ? why : "threads: 1 to 64; rounds: at least 1");
        return 2;
    }
    peer_begin(argv, threads);
    printf("isa %s, %d threads, GFLOP/s\n", isa->name, threads);
    for (int dtype = 0; dtype < 2; dtype++)
        for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
            char name[64];
            snprintf(name, sizeof name, "%s %s", products[i].name, dtype ? "bf16" : "f32");
            if (strstr(name, only))
                product_compare(&products[i], dtype ? YK_BF16 : YK_F32, isa, threads, rounds);
        }
    return 0;
}
