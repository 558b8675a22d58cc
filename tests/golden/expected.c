/* SPDX-License-Identifier: Apache-2.0 */
/* expected DIR: runs the model of a Hugging Face folder on the inputs of its expected.safetensors, and compares every
 * output that is there to 1e-4. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define YK_NO_HERE
#include <yoke/yoke.h>

#include "tools/check/golden/golden.h"

static yk_t ids_input(yk_job *job, yk__safetensors *f, const char *name)
{
    const yk__safetensor *t = yk__safetensors_find(f, name);
    int32_t *v = golden_i32(f, name, NULL);
    int64_t dim[2] = {1, 0};
    yk_t x = YK_NO;
    if (t && v) {
        dim[0] = t->rank == 2 ? t->shape[0] : 1;
        dim[1] = t->shape[t->rank - 1];
        x = yk_input(job, YK_I32, 2, dim, v);
    }
    free(v);
    return x;
}

/* Largest difference of `y` (its first `columns` of the last axis) from the tensor; -1 where the file has no such. */
static double tensor_difference(yk__safetensors *f, const char *name, yk_t y)
{
    const yk__safetensor *t = yk__safetensors_find(f, name);
    size_t n;
    double *want = t ? golden_f64(f, name, &n) : NULL, worst = -1;
    float *got = want ? calloc(n, sizeof *got) : NULL;
    if (got) {
        const int64_t columns = t->shape[t->rank - 1];
        if (yk_dim(y, -1) > columns)
            y = yk_slice(y, -1, 0, columns, 1);
        yk_read(yk_keep(y), got, n * sizeof *got);
        worst = golden_abs(got, want, n);
    }
    free(got);
    free(want);
    return worst;
}

static int tensor_compare(yk_model *m, const yk_batch *b, yk__safetensors *f, const char *tensor, const char *part)
{
    yk_job *job = yk_job_of(b->input_ids);
    double d;
    if (!yk__safetensors_find(f, tensor))
        return 0;
    d = tensor_difference(f, tensor, yk_model_part(m, b, part));
    printf("%s: off by %.2e\n", tensor, d);
    return !yk_ok(job) || !(d >= 0 && d <= 1e-4);
}

int main(int argc, char **argv)
{
    char path[4096];
    yk_error err = YK_ERROR_INIT;
    yk__safetensors *f;
    yk_job *job = yk_open(&(yk_config){.quiet = true});
    yk_model *m;
    yk_batch b = {0};
    int bad = 0;
    if (argc < 2)
        return 2;
    snprintf(path, sizeof path, "%s/expected.safetensors", argv[1]);
    if (yk__safetensors_open(path, &f, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    m = yk_model_from_pretrained(job, argv[1], NULL, NULL);
    yk_train(job, false);
    b.input_ids = ids_input(job, f, "input_ids");
    b.attention_mask = ids_input(job, f, "attention_mask");
    b.token_type_ids = ids_input(job, f, "token_type_ids");
    bad |= tensor_compare(m, &b, f, "last_hidden_state", "last_hidden_state");
    bad |= tensor_compare(m, &b, f, "pooler_output", "pooler_output");
    bad |= tensor_compare(m, &b, f, "embeddings", "embeddings");
    bad |= tensor_compare(m, &b, f, "mlm_logits_first_256", "logits");
    bad |= tensor_compare(m, &b, f, "lm_logits_first_256", "logits");
    yk__safetensors_close(f);
    return yk_close(job) || bad;
}
