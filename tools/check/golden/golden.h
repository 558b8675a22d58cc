/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `yoke test --golden DIR`: runs every case of a folder of golden tables (curves/, optim/, layers/, schedules.json,
 * loss_scale.json, loader/; generate/ is counted as unsupported) through the public interface and compares.
 */
#ifndef YOKE_TOOLS_CHECK_GOLDEN_GOLDEN_H
#define YOKE_TOOLS_CHECK_GOLDEN_GOLDEN_H

#include <yoke/yoke.h>

#include "core/io/json.h"
#include "core/io/safetensors.h"

typedef struct golden {
    const char *dir, *devices, *only; /* only: runs cases whose name contains this; NULL for all */
    bool json, speak;                 /* speak: rank 0 */
    unsigned passed, failed, unsupported;
    uint32_t world;
} golden;

typedef enum golden_verdict { GOLDEN_PASS, GOLDEN_FAIL, GOLDEN_UNSUPPORTED } golden_verdict;

/* One line per case: "ok NAME worst 3.1e-07 of 2e-05 (text)". worst and limit: the case's comparison that came closest. */
void golden_report(golden *g, golden_verdict v, const char *name, double worst, double limit, const char *text);
bool golden_wanted(const golden *g, const char *name);

/* The comparison that came closest to (or furthest over) its limit. */
typedef struct golden_worst {
    double error, limit;
    char what[128];
} golden_worst;
void golden_note(golden_worst *w, double error, double limit, const char *what);
golden_verdict golden_judge(const golden_worst *w);

/* Tensors of a file as numbers: allocated, NULL when it is not there or unreadable. *n: elements. */
double *golden_f64(yk__safetensors *f, const char *name, size_t *n);
float *golden_f32(yk__safetensors *f, const char *name, size_t *n);
int32_t *golden_i32(yk__safetensors *f, const char *name, size_t *n);
yk__safetensors *golden_open(golden *g, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
json_t *golden_json(golden *g, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Largest |got - want| and largest |got - want| - rel |want| over n numbers. */
double golden_abs(const float *got, const double *want, size_t n);

/* A job on the devices of the run; quiet. */
yk_job *golden_job(const golden *g, yk_config config);
/* Closes the job; after a failure copies its text to `text`. */
bool golden_close(yk_job *job, char *text, size_t n);

void golden_curves(golden *g);
void golden_optim(golden *g);
void golden_layers(golden *g);
void golden_tables(golden *g);
void golden_loader(golden *g);

/* layers_ops.c: builds the case's op over its inputs; YK_NO: not built. */
typedef struct golden_layer {
    yk_job *job;
    const char *op;
    json_t *attrs;
    yk_t (*in)(void *arg, const char *name); /* YK_NO where the case has no such input */
    void *arg;
    yk_t running_mean, running_var;          /* out: states of batch_norm */
} golden_layer;
yk_t golden_layer_build(golden_layer *l);

/* job.c: true if the runner reads every key and value of a job file, or of the settings of one object ("optimizer" of type "sgd"); else
 * `why` names the first unknown one. */
bool golden_job_known(json_t *spec, char *why, size_t n);
bool golden_known(const char *section, const char *type, json_t *object, char *why, size_t n);
/* The schedule of a job file as yk_schedule takes it. */
const char *golden_schedule_name(json_t *schedule);
void golden_schedule_text(json_t *schedule, char *params, size_t n);

/* curves_model.c */
typedef struct golden_net golden_net;
typedef struct golden_rows { /* one rank's rows of a micro batch, gathered */
    int64_t rows, global;
    int64_t tokens;
    const float *x;
    const int32_t *ids, *mask, *types, *labels;
    const float *aux_target;
    int64_t aux_width;
    bool branch;
} golden_rows;
golden_net *golden_net_new(yk_job *job, json_t *spec); /* model, loss */
void golden_net_free(golden_net *net);
yk_t golden_net_logits(golden_net *net, const golden_rows *r, yk_t *aux);
yk_t golden_net_loss(golden_net *net, const golden_rows *r, yk_t logits, yk_t aux);

#endif
