/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `yoke test --golden DIR`, folder curves/: whole training runs, compared step by step with numbers of PyTorch. Any number of ranks: each
 * takes its part of the rows. cmd_test.c calls golden_curves in the main thread of each rank.
 */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/check/golden/golden.h"

typedef struct curve {
    golden *golden;
    json_t *spec, *ranks;      /* job.json; the rows of each rank, or NULL */
    const char *split;         /* name of a split of gpt2_uneven_ranks */
    json_t *splits;
    yk__safetensors *init, *batches, *expected;
    yk_job *job;
    golden_net *net;
    yk_opt *opt;
    yk_sched *sched;
    golden_worst worst;
    float *x, *aux;
    int32_t *ids, *mask, *types, *labels, *branch;
    int64_t rows, tokens, x_size, aux_width;
} curve;

static double curve_tolerance(const curve *c, const char *key)
{
    return json_number_value(json_object_get(json_object_get(c->spec, "tolerance_float32"), key));
}

static json_t *spec_part(const curve *c, const char *section, const char *key)
{
    return json_object_get(json_object_get(c->spec, section), key);
}

static const char *type_of(const curve *c, const char *section)
{
    const char *s = json_string_value(spec_part(c, section, "type"));
    return s ? s : "";
}

/* ---- Setting up ------------------------------------------------------------------------------------------------------ */

static void load_params(curve *c)
{
    for (uint32_t i = 0; i < yk_param_count(c->job) && yk_ok(c->job); i++) {
        const char *name = yk_param_name(c->job, i);
        size_t n;
        float *v = golden_f32(c->init, name, &n);
        if (v)
            yk_param_write(yk_param_at(c->job, i), v, n);
        else if (!yk_param_is_state(c->job, i))
            yk_fail(c->job, YK_E_FORMAT, "init.safetensors lacks a parameter");
        free(v);
    }
}

static void make_optimizer(curve *c)
{
    const char *type = type_of(c, "optimizer");
    const double given = json_number_value(spec_part(c, "optimizer", "lr")), lr = given == 0 ? YK_ZERO : given;
    const double decay = json_number_value(spec_part(c, "optimizer", "weight_decay"));
    const yk_sgd_config sgd = {lr, json_number_value(spec_part(c, "optimizer", "momentum")),
                               json_number_value(spec_part(c, "optimizer", "dampening")), decay,
                               json_is_true(spec_part(c, "optimizer", "nesterov")), json_is_true(spec_part(c, "optimizer", "maximize"))};
    const yk_adam_config adam = {.lr = lr,
                                 .beta1 = json_number_value(json_array_get(spec_part(c, "optimizer", "betas"), 0)),
                                 .beta2 = json_number_value(json_array_get(spec_part(c, "optimizer", "betas"), 1)),
                                 .eps = json_number_value(spec_part(c, "optimizer", "eps")),
                                 .weight_decay = decay,
                                 .amsgrad = json_is_true(spec_part(c, "optimizer", "amsgrad")),
                                 .maximize = json_is_true(spec_part(c, "optimizer", "maximize"))};
    json_t *spared = spec_part(c, "optimizer", "no_decay");
    c->opt = !strcmp(type, "sgd") ? yk_sgd(c->job, &sgd) : !strcmp(type, "adam") ? yk_adam(c->job, &adam) : yk_adamw(c->job, &adam);
    if (json_array_size(spared)) {
        uint32_t group = yk_opt_group(c->opt, 1, 0);
        for (size_t i = 0; i < json_array_size(spared); i++)
            yk_opt_move(c->opt, group, yk_param_find(c->job, json_string_value(json_array_get(spared, i))));
    }
}

static void make_schedule(curve *c)
{
    json_t *schedule = json_object_get(c->spec, "schedule");
    char params[1024];
    golden_schedule_text(schedule, params, sizeof params);
    c->sched = yk_schedule(c->opt, &(yk_sched_config){.name = golden_schedule_name(schedule), .params = params});
}

static bool load_batches(curve *c)
{
    const yk__safetensor *t = yk__safetensors_find(c->batches, "x");
    c->x = golden_f32(c->batches, "x", NULL);
    c->ids = golden_i32(c->batches, "input_ids", NULL);
    c->mask = golden_i32(c->batches, "attention_mask", NULL);
    c->types = golden_i32(c->batches, "token_type_ids", NULL);
    c->labels = golden_i32(c->batches, "labels", NULL);
    c->branch = golden_i32(c->batches, "branch", NULL);
    c->aux = golden_f32(c->batches, "aux_target", NULL);
    c->x_size = 1;
    for (int i = 2; t && i < t->rank; i++)
        c->x_size *= t->shape[i];
    c->tokens = t && t->rank == 5 ? t->shape[4] : 1; /* for images: their side */
    c->rows = t ? t->shape[1] : 0;
    t = yk__safetensors_find(c->batches, "input_ids");
    if (t && t->rank == 3) {
        c->rows = t->shape[1];
        c->tokens = t->shape[2];
    }
    t = yk__safetensors_find(c->batches, "aux_target");
    c->aux_width = t && t->rank == 4 ? t->shape[3] : 0;
    return (c->x || c->ids) && c->rows > 0 && c->rows <= 256;
}

static void set_up(curve *c)
{
    const char *combine = json_string_value(json_object_get(c->spec, "combine"));
    json_t *frozen = json_object_get(c->spec, "frozen");
    yk_config config = {.accumulate = 1u << 20, /* only the table ends windows */
                        .average = combine && !strcmp(combine, "token_mean") ? YK_AVERAGE_ITEMS : YK_AVERAGE_MICRO};
    c->job = golden_job(c->golden, config);
    if (!c->job || !yk_ok(c->job))
        return;
    c->net = golden_net_new(c->job, c->spec);
    if (!c->net || !load_batches(c)) {
        yk_fail(c->job, YK_E_UNSUPPORTED, "a model or a batch of a kind that is not known here");
        return;
    }
    load_params(c);
    for (size_t i = 0; i < json_array_size(frozen); i++)
        yk_freeze(yk_param_find(c->job, json_string_value(json_array_get(frozen, i))), true);
    make_optimizer(c);
    make_schedule(c);
}

/* ---- Rows of a rank -------------------------------------------------------------------------------------------------- */

/* Row numbers of this rank in micro batch m; by the case's own split, else a contiguous part. */
static int64_t rows_of_rank(const curve *c, size_t m, size_t window, int32_t *row)
{
    const uint32_t rank = yk_rank(c->job), world = yk_world_size(c->job);
    json_t *list = NULL;
    int64_t n = 0;
    if (c->splits) {
        json_t *first = json_array_get(json_array_get(c->splits, 0), 0);
        list = json_array_get(json_is_array(first) ? json_array_get(c->splits, m) : c->splits, rank);
        for (size_t i = 0; i < json_array_size(list); i++)
            row[n++] = (int32_t)json_integer_value(json_array_get(list, i));
        return n;
    }
    if (c->ranks) {
        list = json_array_get(json_array_get(json_object_get(c->ranks, "windows"), window), rank);
        for (size_t i = 0; i < json_array_size(list); i++) {
            const int64_t at = json_integer_value(json_array_get(list, i));
            if (at / c->rows == (int64_t)m)
                row[n++] = (int32_t)(at % c->rows);
        }
        return n;
    }
    for (int64_t i = c->rows * rank / world; i < c->rows * (rank + 1) / world; i++)
        row[n++] = (int32_t)i;
    return n;
}

static void *rows_gather(const void *from, size_t size, const int32_t *row, int64_t n, size_t first)
{
    char *to = from ? malloc((size_t)n * size + 1) : NULL;
    for (int64_t i = 0; to && i < n; i++)
        memcpy(to + (size_t)i * size, (const char *)from + (first + (size_t)row[i]) * size, size);
    return to;
}

static golden_rows take_rows(const curve *c, size_t m, const int32_t *row, int64_t n)
{
    const size_t first = m * (size_t)c->rows, wide = (size_t)c->tokens * sizeof(int32_t);
    golden_rows r = {.rows = n, .global = c->rows, .tokens = c->tokens, .aux_width = c->aux_width};
    const yk__safetensor *t = yk__safetensors_find(c->batches, "labels");
    r.x = rows_gather(c->x, (size_t)c->x_size * sizeof(float), row, n, first);
    r.ids = rows_gather(c->ids, wide, row, n, first);
    r.mask = rows_gather(c->mask, wide, row, n, first);
    r.types = rows_gather(c->types, wide, row, n, first);
    r.labels = rows_gather(c->labels, t && t->rank == 3 ? wide : sizeof(int32_t), row, n, first);
    r.aux_target = rows_gather(c->aux, (size_t)(c->tokens * c->aux_width) * sizeof(float), row, n, first);
    r.branch = c->branch && c->branch[m];
    return r;
}

static void drop_rows(golden_rows *r)
{
    free((void *)(uintptr_t)r->x);
    free((void *)(uintptr_t)r->ids);
    free((void *)(uintptr_t)r->mask);
    free((void *)(uintptr_t)r->types);
    free((void *)(uintptr_t)r->labels);
    free((void *)(uintptr_t)r->aux_target);
}

/* ---- Running ------------------------------------------------------------------------------------------------------------ */

static void note_one(curve *c, double got, const double *want, size_t i, double limit, bool relative, const char *what)
{
    char text[96];
    double error;
    if (!want)
        return;
    error = fabs(got - want[i]);
    snprintf(text, sizeof text, "%s %zu", what, i);
    golden_note(&c->worst, relative ? (want[i] != 0 ? error / fabs(want[i]) : error) : error, limit, text);
}

static void micro_step(curve *c, size_t m, size_t window, bool last, const double *want)
{
    int32_t row[256];
    const int64_t n = rows_of_rank(c, m, window, row);
    golden_rows r = take_rows(c, m, row, n);
    yk_t aux, logits, loss;
    yk_set_rows(c->job, n, row, c->rows);
    logits = golden_net_logits(c->net, &r, &aux);
    loss = golden_net_loss(c->net, &r, logits, aux);
    yk_backward(loss);
    if (!strcmp(type_of(c, "clip"), "norm"))
        yk_clip_norm(c->job, (float)json_number_value(spec_part(c, "clip", "max_norm")));
    if (!strcmp(type_of(c, "clip"), "value"))
        yk_clip_value(c->job, (float)json_number_value(spec_part(c, "clip", "max_value")));
    if (last)
        yk_accumulate_end(c->job);
    yk_step(c->opt);
    note_one(c, yk_item(loss), want, m, curve_tolerance(c, "micro_loss_abs"), false, "micro_loss");
    drop_rows(&r);
}

static bool tensor_excluded(const curve *c, const char *tensor, size_t i)
{
    json_t *list = json_object_get(c->spec, "excluded_in_float32");
    for (size_t k = 0; k < json_array_size(list); k++) {
        json_t *e = json_array_get(list, k);
        if (!strcmp(json_string_value(json_object_get(e, "tensor")), tensor) &&
            (int64_t)i >= json_integer_value(json_object_get(e, "begin")) && (int64_t)i < json_integer_value(json_object_get(e, "end")))
            return true;
    }
    return false;
}

/* Largest difference, or (relative) the L2 norm of the difference over that of the expected tensor. */
static double tensor_difference(const curve *c, const char *name, const float *got, const double *want, size_t n, bool relative)
{
    double worst = 0, sum = 0, norm = 0;
    for (size_t i = 0; i < n; i++) {
        const double d = tensor_excluded(c, name, i) ? 0 : fabs((double)got[i] - want[i]);
        if (isnan(d))
            return NAN;
        worst = d > worst ? d : worst;
        sum += d * d;
        norm += tensor_excluded(c, name, i) ? 0 : want[i] * want[i];
    }
    return !relative ? worst : norm > 0 ? sqrt(sum / norm) : sqrt(sum);
}

/* Gradients of the first window, or parameters after `step` steps. */
static void compare_params(curve *c, const char *prefix, bool gradient)
{
    for (uint32_t i = 0; i < yk_param_count(c->job) && yk_ok(c->job); i++) {
        const char *name = yk_param_name(c->job, i);
        char key[512];
        size_t n;
        double *want;
        float *got;
        snprintf(key, sizeof key, "%s.%s", prefix, name);
        want = golden_f64(c->expected, key, &n);
        got = want ? calloc(n + 1, sizeof *got) : NULL;
        if (got) {
            if (gradient)
                yk_grad_read(yk_param_at(c->job, i), got, n);
            else
                yk_param_read(yk_param_at(c->job, i), got, n);
            golden_note(&c->worst, tensor_difference(c, name, got, want, n, gradient),
                        curve_tolerance(c, gradient ? "grad1_rel_l2" : "final_param_abs"), key);
        }
        free(want);
        free(got);
    }
}

static bool is_snapshot(const curve *c, size_t step)
{
    json_t *list = json_object_get(c->spec, "snapshots");
    for (size_t i = 0; i < json_array_size(list); i++)
        if ((size_t)json_integer_value(json_array_get(list, i)) == step)
            return true;
    return false;
}

static void run_steps(curve *c)
{
    json_t *windows = json_object_get(c->spec, "micro_steps_per_window");
    double *micro = golden_f64(c->expected, "micro_loss", NULL), *loss = golden_f64(c->expected, "step_loss", NULL);
    double *norm = golden_f64(c->expected, "grad_norm", NULL), *lr = golden_f64(c->expected, "lr", NULL);
    size_t m = 0;
    for (size_t s = 0; s < json_array_size(windows) && yk_ok(c->job); s++) {
        const size_t count = (size_t)json_integer_value(json_array_get(windows, s));
        char prefix[32];
        note_one(c, yk_lr(c->opt), lr, s, 1e-6, true, "lr");
        for (size_t k = 0; k < count && yk_ok(c->job); k++, m++)
            micro_step(c, m, s, k + 1 == count, micro);
        note_one(c, yk_step_loss(c->opt), loss, s, curve_tolerance(c, "micro_loss_abs"), false, "step_loss");
        note_one(c, yk_grad_norm(c->opt), norm, s, curve_tolerance(c, "grad_norm_rel"), true, "grad_norm");
        yk_sched_step(c->sched);
        if (s == 0)
            compare_params(c, "grad1", true);
        snprintf(prefix, sizeof prefix, "step%zu", s + 1);
        if (is_snapshot(c, s + 1))
            compare_params(c, prefix, false);
    }
    free(micro);
    free(loss);
    free(norm);
    free(lr);
}

/* Evaluation mode, all rows on every rank. */
static void run_probe(curve *c)
{
    const yk__safetensor *t = yk__safetensors_find(c->batches, "probe.x");
    const yk__safetensor *ids = yk__safetensors_find(c->batches, "probe.input_ids");
    size_t n = 0;
    double *want = golden_f64(c->expected, "probe.logits", &n);
    float *got = calloc(n + 1, sizeof *got);
    int32_t *branch = golden_i32(c->batches, "probe.branch", NULL);
    golden_rows r = {.tokens = ids ? ids->shape[1] : t && t->rank == 4 ? t->shape[3] : 1};
    yk_t logits, aux;
    r.rows = r.global = ids ? ids->shape[0] : t ? t->shape[0] : 0;
    r.x = golden_f32(c->batches, "probe.x", NULL);
    r.ids = golden_i32(c->batches, "probe.input_ids", NULL);
    r.mask = golden_i32(c->batches, "probe.attention_mask", NULL);
    r.types = golden_i32(c->batches, "probe.token_type_ids", NULL);
    r.branch = branch && branch[0];
    if (want && got && r.rows) {
        yk_train(c->job, false);
        yk_set_rows(c->job, r.rows, NULL, r.rows);
        logits = yk_keep(golden_net_logits(c->net, &r, &aux));
        yk_read(logits, got, n * sizeof *got);
        yk_end(c->job);
        golden_note(&c->worst, golden_abs(got, want, n), curve_tolerance(c, "probe_logits_abs"), "probe.logits");
    }
    drop_rows(&r);
    free(branch);
    free(want);
    free(got);
}

static void run_curve(curve *c, const char *label)
{
    char text[512];
    c->worst = (golden_worst){-1, 0, ""};
    set_up(c);
    if (c->job && yk_ok(c->job))
        run_steps(c);
    if (c->job && yk_ok(c->job))
        run_probe(c);
    golden_net_free(c->net);
    if (golden_close(c->job, text, sizeof text))
        golden_report(c->golden, golden_judge(&c->worst), label, c->worst.error, c->worst.limit, c->worst.what);
    else
        golden_report(c->golden, GOLDEN_FAIL, label, NAN, 0, text);
    free(c->x);
    free(c->ids);
    free(c->mask);
    free(c->types);
    free(c->labels);
    free(c->branch);
    free(c->aux);
    c->x = c->aux = NULL;
    c->ids = c->mask = c->types = c->labels = c->branch = NULL;
}

/* A parameter without a gradient rests (see yoke.h): the table of PyTorch's default, not expected_zero_grad. */
static yk__safetensors *open_expected(golden *g, const char *data)
{
    return golden_open(g, "curves/%s/expected.safetensors", data);
}

/* Every split of a case that other rank counts cannot run. */
static void run_splits(curve *c, json_t *splits, int64_t ranks, const char *label)
{
    const char *key;
    json_t *v;
    char name[640], text[96];
    json_object_foreach(splits, key, v)
    {
        snprintf(name, sizeof name, "%s/%s", label, key);
        snprintf(text, sizeof text, "needs %lld ranks: --devices cpu/%lld", (long long)ranks, (long long)ranks);
        c->splits = v;
        if (ranks != c->golden->world)
            golden_report(c->golden, GOLDEN_UNSUPPORTED, name, NAN, 0, text);
        else
            run_curve(c, name);
    }
    c->splits = NULL;
}

static void run_case(golden *g, const char *name)
{
    curve c = {.golden = g};
    char label[320], path[4096], why[256] = "";
    const char *same, *data = name;
    json_t *own = golden_json(g, "curves/%s/job.json", name), *splits = json_object_get(own, "splits");
    struct stat st;
    snprintf(label, sizeof label, "curves/%s", name);
    same = json_string_value(json_object_get(own, "same_as"));
    if (same)
        data = same;
    c.spec = same ? golden_json(g, "curves/%s/job.json", same) : json_incref(own);
    c.init = golden_open(g, "curves/%s/init.safetensors", data);
    c.batches = golden_open(g, "curves/%s/batches.safetensors", data);
    c.expected = open_expected(g, data);
    if (!own || !c.spec || !c.init || !c.batches || !c.expected)
        golden_report(g, GOLDEN_FAIL, label, NAN, 0, "its files cannot be read");
    else if (!golden_job_known(own, why, sizeof why) || (same && !golden_job_known(c.spec, why, sizeof why)))
        golden_report(g, GOLDEN_UNSUPPORTED, label, NAN, 0, why);
    else if (splits)
        run_splits(&c, splits, json_integer_value(json_object_get(own, "ranks")), label);
    else
        run_curve(&c, label);
    snprintf(path, sizeof path, "%s/curves/%s/ranks.json", g->dir, name);
    if (g->world == 3 && c.expected && !*why && !stat(path, &st)) {
        c.ranks = golden_json(g, "curves/%s/ranks.json", name);
        snprintf(label, sizeof label, "curves/%s/ranks", name);
        run_curve(&c, label);
        json_decref(c.ranks);
    }
    yk__safetensors_close(c.init);
    yk__safetensors_close(c.batches);
    yk__safetensors_close(c.expected);
    json_decref(c.spec);
    json_decref(own);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

void golden_curves(golden *g)
{
    char path[4096], label[300];
    struct dirent **list = NULL;
    int n;
    snprintf(path, sizeof path, "%s/curves", g->dir);
    n = scandir(path, &list, NULL, by_name);
    for (int i = 0; i < n; i++) {
        snprintf(label, sizeof label, "curves/%s", list[i]->d_name);
        if (list[i]->d_name[0] != '.' && golden_wanted(g, label))
            run_case(g, list[i]->d_name);
        free(list[i]);
    }
    free(list);
}
