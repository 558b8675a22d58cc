/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer target for the reader of graphs:
 *   clang -g -O1 -fsanitize=fuzzer,address,undefined -I. -Iinclude tests/fuzz/fuzz_graph.c core/graph/[a-z]*.c
 * core/base/{mem,error,hash,philox}.c -lm An input whose first byte is even is a graph without its checksum; an odd one
 * is a list of edits (u16 place, u8 value) to a graph that is right, which gets behind the first checks at once.
 */
#include "tests/fuzz/graph_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned char *base;
static size_t n_base;

static void make_base(void)
{
    yk__graph g;
    yk_graph s;
    yk_error err = YK_ERROR_INIT;
    void *p = NULL;
    yk__graph_init(&g);
    graph_input_base(&g);
    if (yk__graph_seal(&g, &s, &err) || yk__graph_write(&s, &p, &n_base, &err))
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
        graph_input_read(data + 1, size - 1);
        return 0;
    }
    p = malloc(n_base);
    if (!p)
        return 0;
    memcpy(p, base, n_base);
    for (size_t i = 1; i + 3 <= size; i += 3)
        p[(data[i] | (size_t)data[i + 1] << 8) % n_base] = data[i + 2];
    graph_input_read(p, n_base);
    free(p);
    return 0;
}
