/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `yoke test --vectors DIR`: reads the cases of a folder of ONNX operator vectors, runs them on the device, and compares. cmd_test.c calls
 * it in the main thread; exit code 0 if all cases agree.
 */
#include "tools/check/vectors.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/convert.h"
#include "core/io/json.h"
#include "tools/cli.h"
#include "tools/check/vectors_ops.h"

/* Operands that the host must know (axes, shapes) are read from the file by the builders; see operand_ints (vectors_ops.c). */
static void make_inputs(vector_case *c)
{
    for (int64_t i = 0; i < yk__safetensors_count(c->file); i++) {
        const yk__safetensor *t = yk__safetensors_at(c->file, i);
        int k = -1;
        if (sscanf(t->name, "in.%d.", &k) != 1 || k < 0 || k >= VECTOR_MOST)
            continue;
        c->in_tensor[k] = t;
        c->n_in = k + 1 > c->n_in ? k + 1 : c->n_in;
    }
}

static double worst_of(const float *got, const double *want, size_t n)
{
    double worst = 0; /* in units of the tolerance: 1e-6 + 1e-5 |want| */
    for (size_t i = 0; i < n; i++) {
        const double g = (double)got[i], d = fabs(g - want[i]);
        if ((isnan(g) && isnan(want[i])) || g == want[i])
            continue;
        if (isnan(d))
            return INFINITY;
        worst = fmax(worst, d / (1e-6 + 1e-5 * fabs(want[i])));
    }
    return worst;
}

/* Expected numbers as doubles, whatever their type. */
static double *expected_read(vector_case *c, const yk__safetensor *t)
{
    yk_error err = YK_ERROR_INIT;
    const void *data;
    double *v = calloc((size_t)t->elements + 1, sizeof *v);
    float *f = calloc((size_t)t->elements + 1, sizeof *f);
    if (!v || !f || yk__safetensors_data(c->file, t, &data, &err) ||
        (t->dtype != YK_F64 && yk__array_to_f32(t->dtype, data, (size_t)t->elements, f))) {
        free(v);
        v = NULL;
    }
    for (int64_t i = 0; v && i < t->elements; i++)
        v[i] = t->dtype == YK_F64 ? ((const double *)data)[i] : (double)f[i];
    free(f);
    return v;
}

/* Reads output k of the job as floats and compares; infinite where shapes differ. */
static double output_compare(vector_case *c, int k, const yk__safetensor *t)
{
    const yk_t y = c->out[k];
    const size_t n = (size_t)t->elements;
    double *want = expected_read(c, t), worst = INFINITY;
    float *got = calloc(n + 1, sizeof *got);
    bool same = (int)yk_dims(y) == t->rank;
    for (int i = 0; same && i < t->rank; i++)
        same = yk_dim(y, i) == t->shape[i];
    if (same && want && got) {
        yk_read(y, got, n * sizeof *got);
        worst = worst_of(got, want, n);
    }
    free(want);
    free(got);
    return worst;
}

static double run_case(vector_case *c)
{
    double worst = -1;
    for (int k = 0; k < 3; k++)
        if (c->out[k].id)
            c->out[k] = yk_keep(yk_cast(c->out[k], YK_F32));
    for (int64_t i = 0; i < yk__safetensors_count(c->file) && yk_ok(c->job); i++) {
        const yk__safetensor *t = yk__safetensors_at(c->file, i);
        int k = -1;
        if (sscanf(t->name, "out.%d.", &k) == 1 && k >= 0 && k < 3 && c->out[k].id)
            worst = fmax(worst, output_compare(c, k, t));
    }
    yk_end(c->job);
    return worst;
}

static void case_report(vectors *v, const char *name, int verdict, double worst, const char *text)
{
    static const char *const words[] = {"ok", "FAILED", "unsupported"};
    v->passed += verdict == 0;
    v->failed += verdict == 1;
    v->unsupported += verdict == 2;
    if (v->json)
        printf("{\"case\": \"%s\", \"result\": \"%s\", \"worst\": %.3g}\n", name, words[verdict], isfinite(worst) ? worst : -1.0);
    else if (verdict == 2)
        printf("unsupported  %s (%s)\n", name, text);
    else
        printf("%-6s %-56s worst %.2f of 1 (1e-6 + 1e-5 |value|)  %s\n", words[verdict], name, worst, text);
}

static void run_file(vectors *v, const char *label, const char *path)
{
    vector_case c = {0};
    yk_error err = YK_ERROR_INIT;
    char text[512] = "";
    double worst = NAN;
    if (yk__safetensors_open(path, &c.file, &err)) {
        case_report(v, label, 1, NAN, err.text);
        return;
    }
    c.op = yk__safetensors_meta(c.file, "op_type");
    c.op = c.op ? c.op : yk__safetensors_meta(c.file, "op");
    const char *attrs = yk__safetensors_meta(c.file, "attributes");
    attrs = attrs ? attrs : yk__safetensors_meta(c.file, "attrs");
    attrs = attrs ? attrs : "{}";
    yk__json_parse(path, attrs, strlen(attrs), 0, &c.attrs, &err);
    c.job = yk_open(&(yk_config){.devices = v->devices, .quiet = true});
    make_inputs(&c);
    if (c.job && yk_ok(c.job) && c.op && vector_build(&c))
        worst = run_case(&c);
    else if (c.job && yk_ok(c.job))
        c.unsupported = true;
    if (!c.job || !yk_ok(c.job))
        snprintf(text, sizeof text, "%s", c.job ? yk_error_text(c.job) : "out of memory");
    if (c.unsupported)
        case_report(v, label, 2, NAN, c.op ? c.op : "no op_type");
    else
        case_report(v, label, text[0] || !(worst >= 0 && worst <= 1), worst, text);
    if (c.job)
        yk_close(c.job);
    json_decref(c.attrs);
    yk__safetensors_close(c.file);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* All .safetensors files of a folder and the folders in it. */
static int folder_walk(vectors *v, const char *dir, const char *prefix)
{
    struct dirent **list = NULL;
    int n = scandir(dir, &list, NULL, by_name);
    for (int i = 0; i < n; i++) {
        char path[4096], label[512];
        struct stat st;
        const size_t len = strlen(list[i]->d_name);
        snprintf(path, sizeof path, "%s/%s", dir, list[i]->d_name);
        snprintf(label, sizeof label, "%s%s", prefix, list[i]->d_name);
        if (list[i]->d_name[0] != '.' && !stat(path, &st)) {
            if (S_ISDIR(st.st_mode)) {
                strncat(label, "/", sizeof label - strlen(label) - 1);
                folder_walk(v, path, label);
            } else if (len > 12 && !strcmp(list[i]->d_name + len - 12, ".safetensors") && (!v->only || strstr(label, v->only))) {
                run_file(v, label, path);
            }
        }
        free(list[i]);
    }
    free(list);
    return n;
}

int vectors_run(vectors *v)
{
    if (folder_walk(v, v->dir, "") < 0 || v->passed + v->failed + v->unsupported == 0) {
        fprintf(stderr, "yoke test: --vectors %s: there is no .safetensors file in it\n", v->dir);
        return YK_EXIT_USAGE;
    }
    return 0;
}
