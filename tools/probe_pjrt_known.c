/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A training with known results, which shows that a vendor's plugin computes rightly. tools/probe_pjrt.c runs it in a process of its own
 * before a job relies on the plugin.
 *
 * Every parameter is donated, and the gradient of the layer below reads it after its own gradient is there. So a plugin that writes a
 * result over an argument too early trains wrong numbers. The second parameter's gradient takes 51 million multiply-adds: xla-cpu-pjrt
 * 0.0.1 is wrong from some 26 million on and right at 13.
 */
#include "tools/probe_pjrt_known.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define ROWS 128
#define INPUTS 784
#define HIDDEN 512
#define OUTPUTS 10
#define STEPS 5
#define RATE 0.01
#define FAR 1e-4 /* relative to the largest number: sums of 784 products in f32, over five steps */

static char program[] =
    "module @known {\n"
    "func.func public @main(%b: tensor<512xf32> {tf.aliasing_output = 0 : i32}, %w: tensor<784x512xf32> {tf.aliasing_output = 1 : i32},\n"
    "    %u: tensor<512x10xf32> {tf.aliasing_output = 2 : i32}, %x: tensor<128x784xf32>, %y: tensor<128x10xf32>)\n"
    "    -> (tensor<512xf32>, tensor<784x512xf32>, tensor<512x10xf32>, tensor<f32>) {\n"
    "  %zero = stablehlo.constant dense<0.0> : tensor<f32>\n"
    "  %one = stablehlo.constant dense<1.0> : tensor<128x512xf32>\n"
    "  %rate1 = stablehlo.constant dense<0.01> : tensor<512xf32>\n"
    "  %rate2 = stablehlo.constant dense<0.01> : tensor<784x512xf32>\n"
    "  %rate3 = stablehlo.constant dense<0.01> : tensor<512x10xf32>\n"
    "  %mean = stablehlo.constant dense<0.0078125> : tensor<128x10xf32>\n"
    "  %a = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST]\n"
    "    : (tensor<128x784xf32>, tensor<784x512xf32>) -> tensor<128x512xf32>\n"
    "  %bb = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<512xf32>) -> tensor<128x512xf32>\n"
    "  %s = stablehlo.add %a, %bb : tensor<128x512xf32>\n"
    "  %h = stablehlo.tanh %s : tensor<128x512xf32>\n"
    "  %p = stablehlo.dot_general %h, %u, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST]\n"
    "    : (tensor<128x512xf32>, tensor<512x10xf32>) -> tensor<128x10xf32>\n"
    "  %e = stablehlo.subtract %p, %y : tensor<128x10xf32>\n"
    "  %d = stablehlo.multiply %e, %mean : tensor<128x10xf32>\n"
    "  %ed = stablehlo.multiply %e, %d : tensor<128x10xf32>\n"
    "  %loss = stablehlo.reduce(%ed init: %zero) applies stablehlo.add across dimensions = [0, 1]\n"
    "    : (tensor<128x10xf32>, tensor<f32>) -> tensor<f32>\n"
    "  %gu = stablehlo.dot_general %h, %d, contracting_dims = [0] x [0], precision = [HIGHEST, HIGHEST]\n"
    "    : (tensor<128x512xf32>, tensor<128x10xf32>) -> tensor<512x10xf32>\n"
    "  %su = stablehlo.multiply %gu, %rate3 : tensor<512x10xf32>\n"
    "  %nu = stablehlo.subtract %u, %su : tensor<512x10xf32>\n"
    "  %dh = stablehlo.dot_general %d, %u, contracting_dims = [1] x [1], precision = [HIGHEST, HIGHEST]\n"
    "    : (tensor<128x10xf32>, tensor<512x10xf32>) -> tensor<128x512xf32>\n"
    "  %hh = stablehlo.multiply %h, %h : tensor<128x512xf32>\n"
    "  %ch = stablehlo.subtract %one, %hh : tensor<128x512xf32>\n"
    "  %ds = stablehlo.multiply %dh, %ch : tensor<128x512xf32>\n"
    "  %gw = stablehlo.dot_general %x, %ds, contracting_dims = [0] x [0], precision = [HIGHEST, HIGHEST]\n"
    "    : (tensor<128x784xf32>, tensor<128x512xf32>) -> tensor<784x512xf32>\n"
    "  %sw = stablehlo.multiply %gw, %rate2 : tensor<784x512xf32>\n"
    "  %nw = stablehlo.subtract %w, %sw : tensor<784x512xf32>\n"
    "  %gb = stablehlo.reduce(%ds init: %zero) applies stablehlo.add across dimensions = [0]\n"
    "    : (tensor<128x512xf32>, tensor<f32>) -> tensor<512xf32>\n"
    "  %sb = stablehlo.multiply %gb, %rate1 : tensor<512xf32>\n"
    "  %nb = stablehlo.subtract %b, %sb : tensor<512xf32>\n"
    "  return %nb, %nw, %nu, %loss : tensor<512xf32>, tensor<784x512xf32>, tensor<512x10xf32>, tensor<f32>\n"
    "}\n"
    "}\n";

static double host_b[HIDDEN], host_w[INPUTS][HIDDEN], host_u[HIDDEN][OUTPUTS], host_x[ROWS][INPUTS], host_y[ROWS][OUTPUTS];
static double host_h[ROWS][HIDDEN], host_d[ROWS][OUTPUTS], host_s[ROWS][HIDDEN];
static float data[INPUTS * HIDDEN]; /* the largest array */
_Static_assert(ROWS <= HIDDEN && OUTPUTS <= HIDDEN, "no array is larger");
static uint32_t noise_state;

/* A number in -1..1, the same in every process. */
static double noise_next(void)
{
    noise_state = noise_state * 1664525u + 1013904223u;
    return (double)(float)((noise_state >> 8) * 0x1p-23 - 1);
}

static void host_fill(double *v, size_t n, double scale)
{
    for (size_t i = 0; i < n; i++)
        v[i] = (float)(noise_next() * scale);
}

static void host_begin(void)
{
    noise_state = 1;
    host_fill(host_b, HIDDEN, 0.1);
    host_fill(host_w[0], INPUTS * HIDDEN, 0.05);
    host_fill(host_u[0], HIDDEN * OUTPUTS, 0.1);
    host_fill(host_x[0], ROWS * INPUTS, 1);
    host_fill(host_y[0], ROWS * OUTPUTS, 1);
}

/* Forward: the loss. */
static double host_forward(void)
{
    double loss = 0;
    for (int r = 0; r < ROWS; r++) {
        for (int j = 0; j < HIDDEN; j++)
            host_h[r][j] = host_b[j];
        for (int i = 0; i < INPUTS; i++)
            for (int j = 0; j < HIDDEN; j++)
                host_h[r][j] += host_x[r][i] * host_w[i][j];
        for (int j = 0; j < HIDDEN; j++)
            host_h[r][j] = tanh(host_h[r][j]);
        for (int k = 0; k < OUTPUTS; k++) {
            double e = -host_y[r][k];
            for (int j = 0; j < HIDDEN; j++)
                e += host_h[r][j] * host_u[j][k];
            host_d[r][k] = e / ROWS;
            loss += e * e / ROWS;
        }
    }
    return loss;
}

/* Gradients of half the loss, and the step. */
static void host_backward(void)
{
    for (int r = 0; r < ROWS; r++)
        for (int j = 0; j < HIDDEN; j++) {
            double sum = 0;
            for (int k = 0; k < OUTPUTS; k++)
                sum += host_d[r][k] * host_u[j][k];
            host_s[r][j] = sum * (1 - host_h[r][j] * host_h[r][j]);
        }
    for (int r = 0; r < ROWS; r++)
        for (int j = 0; j < HIDDEN; j++) {
            host_b[j] -= RATE * host_s[r][j];
            for (int k = 0; k < OUTPUTS; k++)
                host_u[j][k] -= RATE * host_h[r][j] * host_d[r][k];
        }
    for (int r = 0; r < ROWS; r++)
        for (int i = 0; i < INPUTS; i++)
            for (int j = 0; j < HIDDEN; j++)
                host_w[i][j] -= RATE * host_x[r][i] * host_s[r][j];
}

/* ---- On the device ------------------------------------------------------------------------------------------------- */

enum { ARRAYS = 5, TRAINED = 3, RESULTS = 4 };
static const struct known_array {
    const char *name;
    double *host;
    size_t n;
    uint32_t dims;
    int64_t dim[2];
} array[ARRAYS] = {{"the first parameter", host_b, HIDDEN, 1, {HIDDEN}},
                   {"the second parameter", host_w[0], INPUTS * HIDDEN, 2, {INPUTS, HIDDEN}},
                   {"the third parameter", host_u[0], HIDDEN * OUTPUTS, 2, {HIDDEN, OUTPUTS}},
                   {"the batch", host_x[0], ROWS * INPUTS, 2, {ROWS, INPUTS}},
                   {"the targets", host_y[0], ROWS * OUTPUTS, 2, {ROWS, OUTPUTS}}};

static bool array_upload(const pj_client *c, const struct known_array *a, pjrt_buffer **buffer, char why[PJ_WHY])
{
    const pj_shape shape = {PJRT_F32, a->dims, a->dim};
    for (size_t i = 0; i < a->n; i++)
        data[i] = (float)a->host[i];
    return pj_upload(c, data, &shape, buffer, why);
}

static bool numbers_agree(const double *want, size_t n, const char *name, int step, char why[PJ_WHY])
{
    double most = 0;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, fabs(want[i]));
    for (size_t i = 0; i < n; i++)
        if (!(fabs(data[i] - want[i]) <= FAR * most)) {
            snprintf(why, PJ_WHY, "it trains wrong numbers: %s has %.9g after step %d; expected %.9g", name, (double)data[i], step,
                     want[i]);
            return false;
        }
    return true;
}

/* One step: new parameters take the place of the donated ones. */
static bool step_run(const pj_client *c, pjrt_loaded *loaded, pjrt_buffer *in[ARRAYS], int step, char why[PJ_WHY])
{
    pjrt_buffer *out[RESULTS] = {NULL};
    const pj_run run = {.loaded = loaded, .in = in, .n_in = ARRAYS, .out = out};
    const double loss = host_forward();
    if (!pj_execute(c, &run, why))
        return false;
    for (int i = 0; i < TRAINED; i++) {
        pj_buffer_free(c, in[i]);
        in[i] = out[i];
    }
    const bool good = pj_download(c, out[TRAINED], data, sizeof *data, why) && numbers_agree(&loss, 1, "the loss", step, why);
    pj_buffer_free(c, out[TRAINED]);
    host_backward();
    return good;
}

static bool parameters_agree(const pj_client *c, pjrt_buffer *in[ARRAYS], int step, char why[PJ_WHY])
{
    bool good = true;
    for (int i = 0; i < TRAINED && good; i++)
        good = pj_download(c, in[i], data, array[i].n * sizeof *data, why) &&
               numbers_agree(array[i].host, array[i].n, array[i].name, step, why);
    return good;
}

bool pj_known_training(const pj_client *c, char why[PJ_WHY])
{
    pjrt_buffer *in[ARRAYS] = {NULL};
    pjrt_loaded *loaded = NULL;
    host_begin();
    bool good = pj_compile(c, &(pj_replicas){1, {c->id}}, program, strlen(program), &loaded, why);
    for (int i = 0; i < ARRAYS && good; i++)
        good = array_upload(c, &array[i], &in[i], why);
    for (int step = 1; step <= STEPS && good; step++)
        good = step_run(c, loaded, in, step, why) && parameters_agree(c, in, step, why);
    for (int i = 0; i < ARRAYS; i++)
        pj_buffer_free(c, in[i]);
    pj_loaded_free(c, loaded);
    return good;
}
