/* SPDX-License-Identifier: Apache-2.0 */
/* The reader of described devices on arbitrary bytes: a file that it takes has ranks and times that a plan can compute with. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/mutate.h"
#include "tools/plan/device_file.h"

static yk_error err;
static long accepted;

static void devices_check(const devices *d)
{
    uint64_t ranks = 0;
    for (uint32_t i = 0; i < d->n; i++) {
        ranks += d->row[i].count;
        if (!d->row[i].count || !d->row[i].name[0] || !(d->row[i].times.products > 0))
            abort();
    }
    if (!d->n || ranks != d->ranks || ranks > DEVICES_RANKS || !(d->together >= 1) || !(d->line >= 0))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    yk__tree *tree = NULL;
    devices d;
    err = (yk_error)YK_ERROR_INIT;
    if (!yk__tree_json("fuzz", (const char *)data, size, &tree, &err) && !devices_read("fuzz", tree, &d, &err)) {
        devices_check(&d);
        devices_free(&d);
        accepted++;
    }
    yk__tree_free(tree);
    return 0;
}

#ifndef YK_LIBFUZZER
static const char good[] = "{\"format\": \"yoke-devices\", \"precision\": \"bf16\", \"line\": 8e-11, \"step\": 2e-4, \"together\": 1.5,\n"
                           " \"devices\": [{\"name\": \"a\", \"model\": \"b\", \"count\": 7, \"memory\": 1e9, \"host\": true,\n"
                           "  \"products\": 1e-12, \"moved\": 1e-10, \"update\": 0},\n {\"name\": \"c\", \"products\": 1}]}";

int main(void)
{
    const fuzz_seed seed = {(const uint8_t *)good, sizeof good - 1};
    printf("1..2\n");
    fuzz_run(&seed, -1, 0);
    printf("%sok 1 - the seed is accepted\n", accepted ? "" : "not ");
    if (!accepted)
        printf("# %s\n", err.text);
    fuzz_run(&seed, -1, 20000);
    printf("%sok 2 - changed inputs: %ld of 20000 accepted, with numbers that a plan can use\n", accepted > 1 ? "" : "not ", accepted);
    return 0;
}
#endif
