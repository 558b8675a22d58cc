/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader of graphs, as a libFuzzer target (clang -g -O1 -fsanitize=fuzzer,address,undefined -DYK_LIBFUZZER) or a test.
 * An input whose first byte is even is a graph without its checksum; an odd one
 * is a list of edits (u16 place, u8 value) to a graph that is right, which gets behind the first checks at once.
 */
#include <stdio.h>

#include "tests/fuzz/graph_input.h"
#include "tests/fuzz/mutate.h"

static unsigned char *base;
static size_t n_base;
static long accepted;

static void make_base(void)
{
    yk__graph g;
    yk_graph s;
    yk_error err = YK_ERROR_INIT;
    void *p = NULL;
    yk__graph_init(&g);
    graph_input_base(&g);
    if (yk__graph_seal(&g, &s, &err) || graph_write(&s, &p, &n_base, &err))
        abort();
    n_base -= 8;
    base = p;
    yk__graph_free(&g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned char *p;
    if (!base)
        make_base();
    if (size < 1)
        return 0;
    if (data[0] % 2 == 0) {
        accepted += graph_input_read(data + 1, size - 1);
        return 0;
    }
    p = malloc(n_base);
    if (!p)
        return 0;
    memcpy(p, base, n_base);
    for (size_t i = 1; i + 3 <= size; i += 3)
        p[(data[i] | (size_t)data[i + 1] << 8) % n_base] = data[i + 2];
    accepted += graph_input_read(p, n_base);
    free(p);
    return 0;
}

#ifndef YK_LIBFUZZER
/* Twelve edits that change nothing: mutations then change a few bytes each. */
static size_t idle_edits(uint8_t *p)
{
    for (size_t i = 0; i < 12; i++) {
        const size_t at = (i * 37 + 11) % n_base;
        memcpy(p + 3 * i, (const uint8_t[]){(uint8_t)at, (uint8_t)(at >> 8), base[at]}, 3);
    }
    return 36;
}

int main(void)
{
    uint8_t edits[36];
    make_base();
    const fuzz_seed seeds[2] = {{base, n_base}, {edits, idle_edits(edits)}};
    printf("1..2\n");
    for (int i = 0; i < 2; i++) {
        accepted = 0;
        fuzz_run(&seeds[i], i, 0);
        const bool good = accepted > 0;
        fuzz_run(&seeds[i], i, 3000);
        printf("%sok %d - %s: the seed is good, %ld mutations accepted\n", good ? "" : "not ", i + 1, i ? "edits" : "bytes",
               accepted);
    }
    free(base);
    return 0;
}
#endif
