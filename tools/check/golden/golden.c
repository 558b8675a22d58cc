/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts that all folders of `yoke test --golden` share: the choice of cases, the lines they print, the comparison that came closest,
 * tensors as numbers. The runners beside it (golden_*.c, curves.c, tables.c) call it in the main thread.
 */
#include "tools/check/golden/golden.h"

#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/convert.h"
#include "tools/cli.h"

bool golden_wanted(const golden *g, const char *name)
{
    return !g->only || strstr(name, g->only);
}

void golden_report(golden *g, golden_verdict v, const char *name, double worst, double limit, const char *text)
{
    static const char *const words[] = {"ok", "FAILED", "unsupported"};
    g->passed += v == GOLDEN_PASS;
    g->failed += v == GOLDEN_FAIL;
    g->unsupported += v == GOLDEN_UNSUPPORTED;
    if (!g->speak)
        return;
    if (g->json) {
        printf("{\"case\": ");
        yk__json_text(name);
        printf(", \"result\": \"%s\", \"worst\": %.6g, \"limit\": %.6g, \"what\": ", words[v], isfinite(worst) ? worst : -1.0, limit);
        yk__json_text(text);
        printf("}\n");
    } else if (v == GOLDEN_UNSUPPORTED)
        printf("unsupported  %s (%s)\n", name, text);
    else
        printf("%-6s %-44s worst %.2e of %.1e  %s\n", words[v], name, worst, limit, text);
    fflush(stdout);
}

void golden_note(golden_worst *w, double error, double limit, const char *what)
{
    const double ratio = error / limit, before = w->limit > 0 ? w->error / w->limit : -1;
    if (isnan(error) || (!isnan(w->error) && ratio > before)) {
        w->error = error;
        w->limit = limit;
        snprintf(w->what, sizeof w->what, "%s", what);
    }
}

golden_verdict golden_judge(const golden_worst *w)
{
    return w->limit > 0 && w->error <= w->limit ? GOLDEN_PASS : GOLDEN_FAIL;
}

static void *tensor_load(yk__safetensors *f, const char *name, size_t *n, size_t size, const yk__safetensor **t, const void **data)
{
    yk_error err = YK_ERROR_INIT;
    *t = f ? yk__safetensors_find(f, name) : NULL;
    if (!*t || yk__safetensors_data(f, *t, data, &err))
        return NULL;
    if (n)
        *n = (size_t)(*t)->elements;
    return calloc((size_t)(*t)->elements + 1, size);
}

double *golden_f64(yk__safetensors *f, const char *name, size_t *n)
{
    const yk__safetensor *t;
    const void *data;
    double *v = tensor_load(f, name, n, sizeof *v, &t, &data);
    for (int64_t i = 0; v && i < t->elements; i++)
        switch (t->dtype) {
        case YK_F64: v[i] = ((const double *)data)[i]; break;
        case YK_F32: v[i] = (double)((const float *)data)[i]; break;
        case YK_I64: v[i] = (double)((const int64_t *)data)[i]; break;
        default: v[i] = NAN; break;
        }
    return v;
}

float *golden_f32(yk__safetensors *f, const char *name, size_t *n)
{
    const yk__safetensor *t;
    const void *data;
    float *v = tensor_load(f, name, n, sizeof *v, &t, &data);
    if (v && yk__array_to_f32(t->dtype, data, (size_t)t->elements, v)) {
        free(v);
        return NULL;
    }
    return v;
}

int32_t *golden_i32(yk__safetensors *f, const char *name, size_t *n)
{
    const yk__safetensor *t;
    const void *data;
    int32_t *v = tensor_load(f, name, n, sizeof *v, &t, &data);
    for (int64_t i = 0; v && i < t->elements; i++)
        v[i] = t->dtype == YK_I64   ? (int32_t)((const int64_t *)data)[i]
               : t->dtype == YK_I32 ? ((const int32_t *)data)[i]
                                    : (int32_t)((const float *)data)[i];
    return v;
}

static void path_of(const golden *g, char path[PATH_MAX], const char *fmt, va_list ap)
{
    int n = snprintf(path, PATH_MAX, "%s/", g->dir);
    if (n < PATH_MAX)
        vsnprintf(path + n, PATH_MAX - (size_t)n, fmt, ap);
}

yk__safetensors *golden_open(golden *g, const char *fmt, ...)
{
    yk_error err = YK_ERROR_INIT;
    yk__safetensors *f = NULL;
    char path[PATH_MAX];
    va_list ap;
    va_start(ap, fmt);
    path_of(g, path, fmt, ap);
    va_end(ap);
    if (yk__safetensors_open(path, &f, &err))
        fprintf(stderr, "yoke test: %s\n", err.text);
    return f;
}

json_t *golden_json(golden *g, const char *fmt, ...)
{
    yk_error err = YK_ERROR_INIT;
    json_t *v = NULL;
    char path[PATH_MAX];
    va_list ap;
    va_start(ap, fmt);
    path_of(g, path, fmt, ap);
    va_end(ap);
    if (yk__json_load(path, YK__JSON_UNIQUE_KEYS, &v, &err))
        fprintf(stderr, "yoke test: %s\n", err.text);
    return v;
}

double golden_abs(const float *got, const double *want, size_t n)
{
    double worst = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)got[i] - want[i]);
        if (isnan(d) && !isinf((float)want[i]))
            return isnan((double)got[i]) && isnan(want[i]) ? worst : NAN;
        if (isinf((float)want[i]) && got[i] == (float)want[i])
            continue; /* beyond f32: infinity is the nearest there is */
        worst = d > worst ? d : worst;
    }
    return worst;
}

yk_job *golden_job(const golden *g, yk_config config)
{
    config.devices = g->devices;
    config.quiet = true;
    return yk_open(&config);
}

bool golden_close(yk_job *job, char *text, size_t n)
{
    const bool ok = job && yk_ok(job);
    text[0] = 0;
    if (!ok)
        snprintf(text, n, "%s", job ? yk_error_text(job) : "out of memory");
    if (job)
        yk_close(job);
    return ok;
}
