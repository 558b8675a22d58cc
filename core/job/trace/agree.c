/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hashes of a rank's next actions, and the error if ranks are about to act differently (agree.h has the method).
 *
 * yk__count_ranks (count.c) sends the numbers with the counts that it sums over the members, so they cost no exchange. That is in
 * yk_backward, or before a step without one runs. The step thread of every rank calls yk__agree_numbers before that sum and yk__agree_check
 * after it; an excluded rank's numbers do not count in the sum. Only if numbers differ do all ranks, excluded ones too, exchange more.
 * yk__agree_data is for yk_data_open, and has a sum of its own.
 *
 * n: the number of members. Numbers are f64, in which sums of 22-bit hashes and their squares are exact.
 */
#include "core/job/trace/agree.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/job/data_info.h"
#include "core/job/opt.h"
#include "core/job/team/precision.h"
#include "core/job/trace/agree_graph.h"
#include "core/job/team/host_place.h"
#include "core/run/stage.h"

#define HASH_BITS 22 /* 2 * 22 bits and the largest number of ranks stay below 2^53 */
#define UPDATE_BITS 20 /* yk__update.sign */
#define NUMBERS YK__AGREE_SETTINGS

typedef struct agree_part {
    uint64_t hash;
    uint32_t n;
    yk__agree_number number[NUMBERS]; /* values that an error can show */
} agree_part;

static uint64_t hash_f64(uint64_t h, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return yk__hash_u64(h, bits);
}

/* Ranks compare each number; an error shows the first ones. */
static void part_take(agree_part *part, yk__agree_number number)
{
    part->hash = hash_f64(hash_f64(part->hash, number.value), number.rest);
    if (part->n < NUMBERS)
        part->number[part->n++] = number;
}

static void part_add(agree_part *part, const char *name, double value)
{
    part_take(part, (yk__agree_number){name, value, 0});
}

yk__agree_number yk__agree_whole(const char *name, uint64_t whole)
{
    const uint64_t low = whole >> 53 ? whole & 2047 : 0; /* the other 53 bits are exact in f64 */
    return (yk__agree_number){name, (double)(whole - low), (double)low};
}

/* value, rest: as yk__agree_whole makes them. */
static void number_text(double value, double rest, char buf[32])
{
    if (value >= 0x1p53 && value < 0x1p64)
        snprintf(buf, 32, "%" PRIu64, (uint64_t)value + (uint64_t)rest);
    else
        snprintf(buf, 32, "%.9g", value);
}

/* ---- Settings ---- */

static double stage_of(const yk_job *job)
{
    yk__stage stage = {.kind = YK__STAGE_STATE};
    return job->config.shard && yk__stage_find(job->config.shard, &stage) ? stage.kind : YK__STAGE_STATE;
}

static void describe_optimizer(const yk_job *job, agree_part *part)
{
    const yk_opt *opt = job->opt;
    part->hash = YK_HASH_SEED;
    part_add(part, "number of parameters", (double)job->n_param);
    if (!opt)
        return;
    const bool adam = opt->rule.kind != YK_OPT_SGD;
    part_add(part, "kind", opt->rule.kind);
    part_add(part, "flags", opt->rule.flags);
    part_add(part, adam ? "beta1" : "momentum", opt->rule.beta1);
    part_add(part, adam ? "beta2" : "dampening", opt->rule.beta2);
    part_add(part, "epsilon", opt->rule.eps);
    part_add(part, "weight decay", opt->group[0].weight_decay);
    part_add(part, "groups of parameters", opt->n_group);
    part_add(part, "steps between means (LocalSGD)", job->config.local_sgd_steps);
    part_add(part, "rank of PowerSGD", job->config.power_sgd_rank);
    part_add(part, "stage of sharding", stage_of(job));
    part_add(part, "offload to the host", yk__job_offload(job) + 8 * yk__offload_activations(job->config.offload));
    part_add(part, "part of the state on the host", yk__offload_part(job->config.offload));
    part_add(part, "steps between hashes", job->config.hash_every);
    for (uint32_t i = 1; i < opt->n_group; i++) {
        part_add(part, "a group's factor on the rate", opt->group[i].lr_factor);
        part_add(part, "a group's weight decay", opt->group[i].weight_decay);
    }
}

static void describe_rate(const yk_job *job, agree_part *part)
{
    const yk_opt *opt = job->opt;
    if (!opt)
        return;
    part_add(part, "rate", opt->lr);
    part_add(part, "schedule's step", opt->sched ? (double)opt->sched->step : -1.0);
    if (opt->sched)
        part->hash = yk__sched_hash(opt->sched->rule, part->hash);
}

static void describe_scaler(const yk__scaler *scaler, agree_part *part)
{
    part_add(part, "rule of the loss scale", scaler->rule);
    part_add(part, "growth of the loss scale", scaler->growth);
    part_add(part, "backoff of the loss scale", scaler->backoff);
    part_add(part, "least loss scale", scaler->floor);
    part_add(part, "interval of the loss scale", scaler->interval);
    part_add(part, "hysteresis of the loss scale", scaler->hysteresis);
}

/* Clipping requested before yk_backward belongs to this window. After yk_backward the comparison takes the previous window's values. */
static void describe_clipping(const yk_job *job, agree_part *part)
{
    part_add(part, "largest norm", job->clip.norm > 0.0 ? job->clip.norm : job->clip.last_norm);
    part_add(part, "largest value", job->clip.value > 0.0 ? job->clip.value : job->clip.last_value);
    part_add(part, "loss scale", job->scaling ? job->scaler.scale : 1.0);
    part_add(part, "precision", job->config.precision);
    part->hash = yk__hash_bytes(part->hash, yk__precision_text(job), strlen(yk__precision_text(job)));
    part_add(part, "micro batches in an accumulation window", job->config.accumulate);
    part_add(part, "average", job->config.average);
    if (job->scaling)
        describe_scaler(&job->scaler, part);
}

static void describe_data(const yk_job *job, agree_part *part)
{
    part_add(part, "calls of yk_set_rows", job->step.rows_set);
    if (job->step.rows_set)
        part_add(part, "rows of the global micro batch", (double)job->step.global_rows);
    for (size_t i = 0; i < job->n_data; i++)
        if (yk__data_trains(job->data[i])) {
            uint64_t epoch, batch;
            yk_data_tell(job->data[i], &epoch, &batch);
            part_add(part, "epoch", (double)epoch);
            part_add(part, "batch", (double)batch);
            part_add(part, "batches", (double)yk_data_batches(job->data[i]));
        }
    if (job->step.sampled.used) {
        part_add(part, "the sampler's epoch", (double)job->step.sampled.epoch);
        part_add(part, "the sampler's row", (double)job->step.sampled.row);
        part_add(part, "rows of the sampler", (double)job->step.sampled.rows);
        part_add(part, "the sampler's global batch", (double)job->step.sampled.global_batch);
        part_take(part, yk__agree_whole("the sampler's seed", job->step.sampled.seed));
    }
}

/* In LocalSGD each rank has its own values, so they are left out. */
static uint64_t param_hash(const yk_job *job, const yk__job_param *p)
{
    const uint64_t given = job->config.local_sgd_steps ? 0 : p->given;
    return yk__hash_u64(p->sign ^ given, (uint64_t)p->group << 1 | p->frozen);
}

static void describe_parameters(const yk_job *job, agree_part *part)
{
    for (size_t i = 0; i < job->n_param; i++)
        part->hash = yk__hash_u64(part->hash, param_hash(job, &job->param[i]));
}

enum { PART_GRAPH, PART_OPTIMIZER, PART_RATE, PART_CLIPPING, PART_SEED, PART_DATA, PART_PARAMETERS };
static const char *const part_names[YK__AGREE_PARTS] = {
    "another graph (its operations, their order, operands and settings)", "other settings of the optimizer",
    "another learning rate or schedule", "another clipping, loss scale or precision", "another seed", "another place in the data",
    "other parameters (name, shape, init or values given, group, frozen or not)"};

static bool describe_all(yk_job *job, agree_part part[YK__AGREE_PARTS])
{
    memset(part, 0, YK__AGREE_PARTS * sizeof *part);
    describe_optimizer(job, &part[PART_OPTIMIZER]);
    describe_rate(job, &part[PART_RATE]);
    describe_clipping(job, &part[PART_CLIPPING]);
    part_take(&part[PART_SEED], yk__agree_whole("seed", job->config.seed));
    describe_data(job, &part[PART_DATA]);
    describe_parameters(job, &part[PART_PARAMETERS]);
    part[PART_GRAPH].hash = yk__recipes_sign(&job->step.recipes, yk__agree_loss(job));
    if (job->step.recipes.lost)
        yk__job_failf(job, YK_E_MEM, "out of memory for how the values of a step were made");
    return yk_ok(job);
}

/* ---- Comparing ---- */

static double small_hash(uint64_t hash)
{
    return (double)(yk__hash_u64(YK_HASH_SEED, hash) >> (64 - HASH_BITS));
}

bool yk__agree_numbers(yk_job *job, double number[YK__AGREE_NUMBERS])
{
    agree_part part[YK__AGREE_PARTS];
    if (!describe_all(job, part))
        return false;
    number[0] = 1.0;
    for (uint32_t i = 0; i < YK__AGREE_PARTS; i++) {
        number[1 + 2 * i] = small_hash(part[i].hash);
        number[2 + 2 * i] = number[1 + 2 * i] * number[1 + 2 * i];
    }
    return true;
}

/* A product of whole numbers below 2^64, in two halves, as not every machine has 128-bit integers. */
typedef struct product {
    uint64_t high, low;
} product;

static product product_of(double a, double b)
{
    const uint64_t x = (uint64_t)a, y = (uint64_t)b, x_low = x & UINT32_MAX, y_low = y & UINT32_MAX;
    const uint64_t low = x_low * y_low, middle = (x >> 32) * y_low + (low >> 32), other = x_low * (y >> 32) + (middle & UINT32_MAX);
    return (product){(x >> 32) * (y >> 32) + (middle >> 32) + (other >> 32), other << 32 | (low & UINT32_MAX)};
}

static bool all_equal(double n, double sum, double squares)
{
    const product one = product_of(n, squares), other = product_of(sum, sum);
    return one.high == other.high && one.low == other.low;
}

/* The first rank whose first number differs from most ranks'; *like: one of the equal ranks. A row's number 0 is 1 if the rank took
 * part. */
static uint32_t find_odd(const double *row, uint32_t world, uint32_t width, uint32_t *like)
{
    uint32_t most = 0;
    for (uint32_t r = 0; r < world; r++) {
        uint32_t n = 0;
        for (uint32_t k = 0; k < world; k++)
            n += row[r * width] != 0.0 && row[k * width] != 0.0 && row[k * width + 1] == row[r * width + 1];
        if (n > most)
            most = n, *like = r;
    }
    for (uint32_t r = 0; r < world; r++)
        if (row[r * width] != 0.0 && row[r * width + 1] != row[*like * width + 1])
            return r;
    return *like;
}

/* Names the first parameter that differs between two ranks, which have equally many. */
static yk_status name_parameter(yk_job *job, uint32_t odd, uint32_t like, char *buf, size_t n, yk_error *err)
{
    const size_t bytes = job->n_param * sizeof(uint64_t);
    uint64_t *all = yk__calloc(job->team.world + 1u, bytes + 1), *own = all + job->team.world * job->n_param;
    size_t i = 0;
    if (!all)
        return yk__fail_mem(err, (job->team.world + 1u) * bytes, "the ranks' parameters");
    for (size_t k = 0; k < job->n_param; k++)
        own[k] = param_hash(job, &job->param[k]);
    if (!yk__group_all_gather(job->team.group, own, bytes, all, err)) {
        while (i < job->n_param && all[odd * job->n_param + i] == all[like * job->n_param + i])
            i++;
        if (i < job->n_param)
            snprintf(buf, n, ": %.200s", job->param[i].name);
    }
    yk__free(all);
    return err->status;
}

static yk_status fail_differing(yk_job *job, const char *what, const agree_part *part, const double *row, uint32_t width, yk_error *err)
{
    uint32_t like = 0;
    const uint32_t odd = find_odd(row, job->team.world, width, &like);
    char values[512] = "", one[32], other[32];
    for (uint32_t i = 0; i < part->n && !*values; i++) {
        const double *a = row + odd * width + 2 + 2 * i, *b = row + like * width + 2 + 2 * i;
        if (a[0] == b[0] && a[1] == b[1])
            continue;
        number_text(a[0], a[1], one);
        number_text(b[0], b[1], other);
        snprintf(values, sizeof values, ": %s %s, not %s", part->number[i].name, one, other);
    }
    if (what == part_names[PART_GRAPH] && yk__agree_graph_place(job, odd, like, values, sizeof values, err))
        return err->status;
    if (what == part_names[PART_PARAMETERS] && name_parameter(job, odd, like, values, sizeof values, err))
        return err->status;
    if (what == part_names[PART_GRAPH] && !*values)
        snprintf(values, sizeof values, ": it assigned something else to states after yk_backward of the step before");
    return yk__fail(err, YK_E_ARG, "%s has %s than %s%s: every rank must run the same program with the same settings",
                    yk__group_name(job->team.group, odd), what, yk__group_name(job->team.group, like), values);
}

/* All ranks exchange their numbers of the part, so each reports the same error. Excluded ranks take part. */
static void tell_difference(yk_job *job, const char *what, const agree_part *part)
{
    enum { WIDTH = 2 + 2 * NUMBERS };
    yk_error err = YK_ERROR_INIT;
    double *row = yk__calloc(job->team.world, WIDTH * sizeof *row);
    if (!row) {
        yk__job_failf(job, YK_E_MEM, "out of memory; ranks differ: one has %s", what);
        return;
    }
    double *own = row + job->team.rank * WIDTH;
    own[0] = 1.0;
    own[1] = small_hash(part->hash);
    for (uint32_t i = 0; i < part->n; i++) {
        own[2 + 2 * i] = part->number[i].value;
        own[3 + 2 * i] = part->number[i].rest;
    }
    if (!yk__group_sum_f64(job->team.group, row, job->team.world * WIDTH, &err))
        fail_differing(job, what, part, row, WIDTH, &err);
    yk__free(row);
    yk__job_fail(job, &err);
}

bool yk__agree_check(yk_job *job, const double sum[YK__AGREE_NUMBERS])
{
    agree_part part[YK__AGREE_PARTS];
    for (uint32_t i = 0; i < YK__AGREE_PARTS; i++)
        if (!all_equal(sum[0], sum[1 + 2 * i], sum[2 + 2 * i])) {
            if (describe_all(job, part))
                tell_difference(job, part_names[i], &part[i]);
            return false;
        }
    yk__recipes_compared(&job->step.recipes);
    return true;
}

/* ---- The update ---- */

static void describe_update(const yk_job *job, agree_part *part)
{
    memset(part, 0, sizeof *part);
    describe_rate(job, part);
    part_add(part, "largest norm", job->clip.norm);
    part_add(part, "largest value", job->clip.value);
    part->hash = yk__hash_u64(part->hash, yk__recipes_late(&job->step.recipes));
}

uint32_t yk__agree_update_sign(const yk_job *job)
{
    agree_part part;
    describe_update(job, &part);
    return (uint32_t)(yk__hash_u64(YK_HASH_SEED, part.hash) >> (64 - UPDATE_BITS));
}

void yk__agree_update_tell(yk_job *job)
{
    agree_part part;
    describe_update(job, &part);
    tell_difference(job, "another update (learning rate, clipping, states assigned after yk_backward)", &part);
}

bool yk__agree_data(yk_job *job, const char *spec, uint64_t hash, uint32_t n, const yk__agree_number *setting)
{
    yk_error err = YK_ERROR_INIT;
    agree_part part = {.hash = hash};
    char what[256];
    for (uint32_t i = 0; i < n && i < NUMBERS; i++)
        part_take(&part, setting[i]);
    double number[3] = {1.0, small_hash(part.hash), small_hash(part.hash) * small_hash(part.hash)};
    if (job->team.world == 1)
        return true;
    if (yk__group_sum_f64(job->team.group, number, 3, &err)) {
        yk__job_fail(job, &err);
        return false;
    }
    if (all_equal(number[0], number[1], number[2]))
        return true;
    snprintf(what, sizeof what, "read other data from %.200s", spec);
    tell_difference(job, what, &part);
    return false;
}
