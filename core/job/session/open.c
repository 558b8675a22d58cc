/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens and closes a job (yk_open, yk_close). Opening reads the configuration, joins the ranks, chooses the device, makes the engine and
 * compares settings. Closing frees all that belongs to the job. Settings that the program leaves open come from ACCELERATE_MIXED_PRECISION,
 * ACCELERATE_GRADIENT_ACCUMULATION_STEPS, YOKE_MEMORY_LIMIT and YOKE_BUCKET_BYTES. Settings that exclude YOKE_WIRE or YOKE_WIRE_PARAMS are
 * errors beside these variables.
 *
 * The user's program calls both on all ranks; the thread that opens is the step thread from then on. A failed opening still gives a job,
 * which holds the error; NULL if there is no memory.
 */
#include <float.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "core/base/process/guest.h"
#include "core/base/hash.h"
#include "core/base/limit.h"
#include "core/base/log.h"
#include "core/base/number.h"
#include "core/base/option.h"
#include "core/base/option_names.h"
#include "core/coll/wire.h"
#include "core/control/start/origin.h"
#include "core/job/checkpoint/emergency.h"
#include "core/job/config_size.h"
#include "core/job/loop/job_log.h"
#include "core/job/opt.h"
#include "core/job/session/open.h"
#include "core/job/session/standing.h"
#include "core/job/team/host_place.h"
#include "core/job/team/job_join.h"
#include "core/job/team/precision.h"
#include "core/job/team/rank_device.h"
#include "core/job/team/rank_pace.h"
#include "core/job/team/share.h"
#include "core/run/host_device.h"
#include "core/run/stage.h"

#define PLANS_LEAST 4u      /* plans that the cache keeps at least, of any size */
#define INFERENCE_PLANS 32u /* a server sees many lengths, and no window needs several */

static atomic_int open_jobs;

/* ---- Opening ---- */

/* 0 is the rule's own value, and YK_ZERO a floor of 0. */
static yk_status check_scale(const yk_scale_config *c, yk_error *err)
{
    const struct {
        const char *name;
        double value, least, most;
        const char *expected;
    } numbers[] = {{"init", c->init, DBL_MIN, FLT_MAX, "above 0"},
                   {"fixed", c->fixed, DBL_MIN, FLT_MAX, "above 0"},
                   {"growth", c->growth, 1, FLT_MAX, "1 or more"},
                   {"backoff", c->backoff, DBL_MIN, 1, "above 0 and 1 at most"},
                   {"floor", c->floor == YK_ZERO ? 0 : c->floor, 0, FLT_MAX, "0 or more"}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (numbers[i].value != 0 && !(numbers[i].value >= numbers[i].least && numbers[i].value <= numbers[i].most))
            return yk__fail(err, YK_E_ARG, "yk_config: scale.%s is %g: expected a number, %s", numbers[i].name, numbers[i].value,
                            numbers[i].expected);
    return YK_OK;
}

/* Takes accelerate launch's settings from the environment if the program sets none. */
static void take_environment(yk_config *c)
{
    static const yk_dtype types[] = {YK_F32, YK_F32, YK_BF16, YK_F16, YK_F8E4M3}; /* as the words of the option's row */
    if (c->precision == YK_F32 && !c->precision_by_rank)
        c->precision = types[yk__option_words(YK__OPTION_ACCELERATE_PRECISION)];
    c->accumulate = c->accumulate ? c->accumulate : (uint32_t)yk__option_number(YK__OPTION_ACCELERATE_ACCUMULATE);
}

/* Settings of a training are errors in a job that trains nothing. */
static yk_status check_inference(yk_job *job, yk_error *err)
{
    yk_config *c = &job->config;
    if (c->plans_most && c->plans_most < PLANS_LEAST)
        return yk__fail(err, YK_E_ARG, "yk_config: plans_most is %u: expected %u or more, or 0 for the default", c->plans_most,
                        PLANS_LEAST);
    if (!c->inference)
        return YK_OK;
    c->plans_most = c->plans_most ? c->plans_most : INFERENCE_PLANS;
    if (c->local_sgd_steps || c->power_sgd_rank)
        return yk__fail(err, YK_E_ARG, "yk_config: inference with %s, but a job for inference has no gradients: choose one",
                        c->local_sgd_steps ? "local_sgd_steps" : "power_sgd_rank");
    if (yk__job_offload(job) != YK__OFFLOAD_NONE || yk__offload_activations(c->offload))
        return yk__fail(err, YK_E_ARG, "yk_config: inference with offload \"%s\", but a job for inference has no backward and no update, "
                        "and its device holds the parameters: choose one", c->offload);
    return YK_OK;
}

#define KEEP_WHOLE 100000u /* elements */

/* The stage of yk_config.shard, with the members that a name of FSDP sets. */
static yk__stage job_stage(const yk_job *job)
{
    yk__stage stage = {.kind = YK__STAGE_STATE};
    if (job->config.shard)
        yk__stage_find(job->config.shard, &stage);
    stage.stays = stage.stays || job->config.gathered_stay;
    stage.within_host = stage.within_host || (job->config.shard_within && !strcmp(job->config.shard_within, "host"));
    return stage;
}

static bool job_scatters(const yk_job *job)
{
    return job_stage(job).kind != YK__STAGE_STATE;
}

static yk_status check_slices(const yk_job *job, yk_error *err)
{
    const yk_config *c = &job->config;
    const yk__option_row *buckets = yk__option_row_of(YK__OPTION_BUCKET_BYTES);
    if (c->shard_within && strcmp(c->shard_within, "world") && strcmp(c->shard_within, "host"))
        return yk__fail(err, YK_E_ARG, "yk_config.shard_within: expected world or host, got %.80s", c->shard_within);
    if (job_stage(job).kind != YK__STAGE_PARAMS &&
        (c->shard_within || c->gathered_stay || c->prefetch_units || c->keep_whole || c->shard_unit))
        return yk__fail(err, YK_E_ARG, "yk_config: shard_within, gathered_stay, prefetch_units, keep_whole and shard_unit have no effect "
                        "but with shard \"params\": expected it, got %.80s", c->shard ? c->shard : "none");
    if (c->shard_unit && (c->shard_unit < buckets->least || c->shard_unit > buckets->most))
        return yk__fail(err, YK_E_ARG, "yk_config.shard_unit (--shard-unit): expected %" PRIu64 " bytes to %" PRIu64 ", got %" PRIu64,
                        buckets->least, buckets->most, c->shard_unit);
    return YK_OK;
}

/* Refuses settings that need whole gradients on each rank. */
static yk_status check_gradients(const yk_job *job, yk_error *err)
{
    const yk_config *c = &job->config;
    const char *other = NULL;
    if (c->local_sgd_steps)
        other = "LocalSGD, where each rank updates all parameters";
    else if (c->power_sgd_rank)
        other = "PowerSGD, whose factors are of whole gradients";
    else if (yk__option_words(YK__OPTION_WIRE) == YK__WIRE_INT8)
        other = "YOKE_WIRE=int8, which keeps an error of each gradient on each rank";
    if (!job_scatters(job) || !other)
        return YK_OK;
    return yk__fail(err, YK_E_ARG, "gradients in slices (shard \"%s\") with %s: choose one", c->shard, other);
}

static yk_status check_config(yk_job *job, yk_error *err)
{
    yk_config *c = &job->config;
    yk__stage stage;
    take_environment(c);
    if (c->precision != YK_F32 && c->precision != YK_BF16 && c->precision != YK_F16 && c->precision != YK_F8E4M3)
        return yk__fail(err, YK_E_ARG, "precision %s: expected f32, bf16, f16 or f8e4m3 (fp8)", yk__dtype_name(c->precision));
    if (c->average > YK_AVERAGE_ROWS || c->scale.rule > YK_SCALE_MEGATRON)
        return yk__fail(err, YK_E_ARG, "yk_config: expected average up to %d and scale.rule up to %d, got %d and %d: use yoke.h's names",
                        (int)YK_AVERAGE_ROWS, (int)YK_SCALE_MEGATRON, (int)c->average, (int)c->scale.rule);
    if (c->shard && yk__stage_read(c->shard, "yk_config.shard", &stage, err))
        return err->status;
    if (check_slices(job, err) || check_scale(&c->scale, err))
        return err->status;
    if (c->power_sgd_rank > YK__POWER_RANKS)
        return yk__fail(err, YK_E_ARG, "PowerSGD of rank %u: expected at most %u", c->power_sgd_rank, YK__POWER_RANKS);
    if (c->power_sgd_rank && c->local_sgd_steps)
        return yk__fail(err, YK_E_ARG, "PowerSGD and LocalSGD: in LocalSGD no gradients are exchanged; choose one");
    if (c->power_sgd_rank && yk__option_words(YK__OPTION_WIRE))
        return yk__fail(err, YK_E_ARG, "YOKE_WIRE is \"%s\", but with PowerSGD ranks exchange factors, in fp32: choose one",
                        yk__option_text(YK__OPTION_WIRE));
    if (c->local_sgd_steps && yk__option_words(YK__OPTION_WIRE_PARAMS))
        return yk__fail(err, YK_E_ARG, "YOKE_WIRE_PARAMS is \"%s\", but in LocalSGD each rank updates its own parameters and none travel: "
                        "choose one", yk__option_text(YK__OPTION_WIRE_PARAMS));
    c->hash_every = c->hash_every ? c->hash_every : 100;
    if (yk__offload_check(job, err))
        return err->status;
    return check_gradients(job, err) ? err->status : check_inference(job, err);
}

/* The format to compute in on this device. */
static yk_status choose_precision(yk_job *job, yk_error *err)
{
    const yk_device_caps *caps = &job->device->caps;
    const yk_dtype p = yk__precision_of(job, job->team.rank), other = job->config.substitute;
    if (p == YK_F32 || (caps->compute >> p & 1)) {
        job->precision = p;
        return YK_OK;
    }
    if (job->config.allow_substitute && (other == YK_F32 || (caps->compute >> other & 1))) {
        job->precision = other;
        yk__log(YK_LOG_WARN, "job", "%s cannot compute in %s; it uses %s, as was allowed", caps->name, yk__dtype_name(p),
                yk__dtype_name(other));
        return YK_OK;
    }
    return yk__fail(err, YK_E_UNSUPPORTED, "%s (%s) cannot compute in %s%s", caps->name, caps->isa, yk__dtype_name(p),
                    job->config.allow_substitute ? ", nor in the substitute" : "; a substitute may be allowed");
}

/* The job rounds operands to 8 bits, unless it took an allowed substitute. */
static bool job_rounds8(const yk_job *job)
{
    return yk__precision_rounds8(job) && job->precision == YK_BF16;
}

static void make_scaler(yk_job *job)
{
    static const yk__scaler_rule rules[] = {YK_SCALER_TORCH, YK_SCALER_DEEPSPEED, YK_SCALER_MEGATRON};
    const yk_scale_config *c = &job->config.scale;
    job->scaling = yk__precision_scales(job);
    yk__scaler_init(&job->scaler, c->fixed != 0.0 ? YK_SCALER_FIXED : rules[c->rule], c->fixed != 0.0 ? c->fixed : c->init,
                    c->growth, c->backoff, c->floor == YK_ZERO ? DBL_MIN : c->floor, c->interval, c->hysteresis);
    job->scaler.consecutive = c->consecutive_hysteresis;
    job->scaler.stay_at_floor = c->stay_at_floor;
}

/* A rank's description of itself, which all ranks get at the start. */
typedef struct rank_info {
    char name[96], device[96], isa[64], cores[256];
    struct {
        char text[64]; /* its beginning; the hash covers the whole text */
        uint64_t hash;
    } fixed[2]; /* by fixed_name[] */
    uint64_t memory, limit, free; /* bytes; limit: the user's, or 0; free: of the device, 0 if unknown */
    uint64_t quantum;             /* of rows; 0 for any number */
    uint64_t compile_ms;          /* its device's estimate; 0: not known */
    uint32_t units, precision, forced, cpu;
    uint32_t product_bits; /* yk__product_bits */
    uint32_t on_host; /* its memory is the host's */
    uint32_t inference;
    uint32_t offload, has_memory; /* the job's setting, yk__offload; this rank's device has memory of its own */
    uint32_t stores;              /* activations=host */
    double host_part;             /* state=host:R; 1 without R */
    uint64_t unit;                /* most bytes of a bucket, where ranks cut them */
    uint32_t within_host;         /* slices of the parameters within each host; 0 or 1 */
} rank_info;

static void print_table(const yk_job *job, const rank_info *c)
{
    yk__log_line("%-5s %-18s %-6s %-34s %-14s %6s %9s %s", "rank", "device spec", "forced", "device", "isa", "units",
                 "memory", "precision");
    for (uint32_t r = 0; r < job->team.world; r++)
        yk__log_line("%-5u %-18.18s %-6s %-34.34s %-14.14s %6u %6.1f GB %s", r, c[r].name, c[r].forced ? "yes" : "no", c[r].device,
                     c[r].isa, c[r].units, (double)c[r].memory / 1e9, yk__precision_name((yk_dtype)c[r].precision));
}

#define SMALL (1ull << 30) /* bytes of a device with little memory, if another has eight times as much */

/* Ranks that compute on the host's cores, and in its memory, share that memory. Without a limit of the user's the free memory is the limit.
 * So a device with little of it begins with few rows, as with a limit. */
static yk_status make_shares(yk_job *job, const rank_info *c, yk__fixed *fixed, bool capped, yk_error *err)
{
    uint64_t most = 0;
    yk__rank_budget *budget = yk__calloc(job->team.world, sizeof *budget);
    uint32_t on_host = 0;
    if (!budget)
        return yk__fail_mem(err, job->team.world * sizeof *budget, "the table of ranks");
    for (uint32_t r = 0; r < job->team.world; r++)
        on_host += c[r].on_host;
    for (uint32_t r = 0; r < job->team.world; r++)
        budget[r] = (yk__rank_budget){.bytes = c[r].limit ? c[r].limit : c[r].free / (c[r].on_host ? on_host : 1),
                                      .limited = c[r].limit != 0,
                                      .forced = c[r].forced || job->config.local_sgd_steps || yk__engine_is_pulled(job->engine),
                                      .stays = yk__engine_is_pulled(job->engine),
                                      .quantum = c[r].quantum,
                                      .costly = yk__share_costly(c[r].compile_ms),
                                      .cores = c[r].cpu ? c[r].cores : NULL};
    for (uint32_t r = 0; r < job->team.world; r++)
        most = budget[r].bytes > most ? budget[r].bytes : most;
    for (uint32_t r = 0; r < job->team.world; r++)
        budget[r].limited = budget[r].limited || (budget[r].bytes && budget[r].bytes < SMALL && budget[r].bytes < most / 8);
    if (!job->team.parts.is_fixed && (!fixed->is_fixed || job->team.parts.is_given)) /* with fixed rows, even parts have promised bits */
        yk__engine_fit_parts(job->engine);
    if (capped)
        yk__engine_budget(job->engine, budget[job->team.rank].bytes);
    yk__share_new(job, budget, fixed, err);
    yk__free(budget);
    return err->status;
}

static const char *const fixed_name[] = {"shares (--shares, YOKE_SHARES)", "parts of slices (--shard-parts)"};

static void fill_fixed(const yk__fixed *fixed, rank_info *own, size_t k)
{
    own->fixed[k].hash = yk__hash_bytes(YK_HASH_SEED, fixed->text, strlen(fixed->text));
    snprintf(own->fixed[k].text, sizeof own->fixed[k].text, "%.63s", fixed->text);
}

static yk_status compare_fixed(const yk_job *job, const rank_info *all, size_t k, yk_error *err)
{
    for (uint32_t r = 1; r < job->team.world; r++)
        if (all[r].fixed[k].hash != all[0].fixed[k].hash)
            return yk__fail(err, YK_E_ARG, "%s are %s on rank 0 (%s) and %s on rank %u (%s): expected the same on all ranks", fixed_name[k],
                            all[0].fixed[k].text, all[0].name, all[r].fixed[k].text, r, all[r].name);
    return YK_OK;
}

static const char still[] = "; the devices of the other ranks compute in its memory, so nothing moves";

/* cards: ranks whose devices have memory of their own. */
static void offload_say(const rank_info *own, uint32_t cards, uint32_t ranks)
{
    const yk__offload offload = own->offload;
    const char *part = own->host_part < 1 ? " a part of the parameters" : "";
    const char *holds = yk__offload_has_params(offload) ? "holds the parameters, and updates them," : "updates";
    if (offload == YK__OFFLOAD_DISK || offload == YK__OFFLOAD_DISK_PARAMS)
        cards ? yk__log_line("offload: a file of each rank holds its part of the optimizer's state; the host %s for %u of %u ranks", holds,
                             cards, ranks)
              : yk__log_line("offload: a file of each rank holds its part of the optimizer's state");
    else
        yk__log_line("offload: the host %s%s for %u of %u ranks%s", holds, part, cards, ranks, cards < ranks ? still : "");
}

/* The rank's setting, as its user gives it. */
static const char *offload_words(const rank_info *own, char text[96])
{
    char part[40] = "";
    if (own->host_part < 1)
        snprintf(part, sizeof part, ":%s", yk__number_text(own->host_part, 15).text);
    snprintf(text, 96, "%s%s%s", yk__offload_text(own->offload), part, own->stores ? ",activations=host" : "");
    return text;
}

static yk_status compare_offload(yk_job *job, const rank_info *all, yk_error *err)
{
    char first[96], other[96];
    for (uint32_t r = 0; r < job->team.world; r++) {
        job->team.cards += all[r].has_memory;
        if (strcmp(offload_words(&all[0], first), offload_words(&all[r], other)) != 0 || all[r].host_part != all[0].host_part)
            return yk__fail(err, YK_E_ARG, "yk_config.offload (--offload) is %s on rank 0 (%s) and %s on rank %u (%s): expected the "
                            "same on all ranks", first, all[0].name, other, r, all[r].name);
    }
    if (job->team.rank || job->config.quiet)
        return YK_OK;
    if (all[0].offload)
        offload_say(&all[0], job->team.cards, job->team.world);
    if (all[0].stores)
        yk__log_line("offload: the host keeps activations from forward to backward for %u of %u ranks%s", job->team.cards,
                     job->team.world, job->team.cards < job->team.world ? still : "");
    return YK_OK;
}

static yk_status compare_inference(const yk_job *job, const rank_info *all, yk_error *err)
{
    for (uint32_t r = 1; r < job->team.world; r++)
        if (all[r].inference != all[0].inference)
            return yk__fail(err, YK_E_ARG, "yk_config.inference is %s on rank 0 (%s) and %s on rank %u (%s): expected the same on all "
                            "ranks", all[0].inference ? "set" : "not set", all[0].name,
                            all[r].inference ? "set" : "not set", r, all[r].name);
    return YK_OK;
}

static yk_status compare_unit(const yk_job *job, const rank_info *all, yk_error *err)
{
    for (uint32_t r = 1; r < job->team.world; r++)
        if (all[r].unit != all[0].unit)
            return yk__fail(err, YK_E_ARG, "yk_config.shard_unit (--shard-unit, else YOKE_BUCKET_BYTES) is %" PRIu64 " on rank 0 (%s) and "
                            "%" PRIu64 " on rank %u (%s): expected the same on all ranks", all[0].unit, all[0].name, all[r].unit, r,
                            all[r].name);
    return YK_OK;
}

static yk_status compare_within(const yk_job *job, const rank_info *all, yk_error *err)
{
    static const char *const words[] = {"world", "host"};
    for (uint32_t r = 1; r < job->team.world; r++)
        if (all[r].within_host != all[0].within_host)
            return yk__fail(err, YK_E_ARG, "yk_config.shard_within (--shard-within) is %s on rank 0 (%s) and %s on rank %u (%s): expected "
                            "the same on all ranks", words[all[0].within_host], all[0].name, words[all[r].within_host], r, all[r].name);
    return YK_OK;
}

/* Says once that `params` slices nothing that `gradients` does not. */
static void note_one_copy(const yk_job *job, const rank_info *all)
{
    char names[200] = "";
    for (uint32_t r = 0; r < job->team.world; r++) {
        const size_t n = strlen(names);
        if (!all[r].on_host)
            return;
        snprintf(names + n, sizeof names - n, "%s%s", r ? ", " : "", r == 4 ? ".." : r > 4 ? "" : all[r].name);
    }
    if (job->team.rank == 0 && job->team.world > 1 && job_stage(job).kind == YK__STAGE_PARAMS &&
        !yk__engine_is_pulled(job->engine))
        yk__log(YK_LOG_WARN, "job", "shard \"params\": %s read one copy of the parameters of their host: nothing is left to slice between "
                "them, and it does what \"gradients\" does", names);
}

/* Ranks that pull slices by messages have no part of the model whole. */
static void note_no_whole(const yk_job *job)
{
    const uint64_t whole = job->config.keep_whole;
    if (job->team.rank == 0 && yk__engine_is_pulled(job->engine) && whole > 1 && whole != KEEP_WHOLE)
        yk__log(YK_LOG_WARN, "job", "shard \"params\" over ranks that exchange messages: no part stays whole, keep_whole %llu has no "
                "effect", (unsigned long long)whole);
}

static yk_status exchange_infos(yk_job *job, bool capped, yk_error *err)
{
    const yk_device_caps *caps = &job->device->caps;
    rank_info own = {.memory = caps->mem_total, .units = caps->units, .precision = job->precision};
    yk__fixed fixed;
    if (yk__share_choose(job, &fixed, err))
        return err->status;
    fill_fixed(&fixed, &own, 0);
    fill_fixed(&job->team.parts, &own, 1);
    if (job_rounds8(job))
        own.precision = YK_F8E4M3;
    own.forced = job->device->place.forced;
    own.inference = job->config.inference;
    own.offload = yk__job_offload(job);
    own.stores = yk__offload_activations(job->config.offload);
    own.host_part = yk__offload_part(job->config.offload);
    own.has_memory = yk__host_serves(job->device);
    own.unit = job->config.shard_unit ? job->config.shard_unit : yk__option_number(YK__OPTION_BUCKET_BYTES);
    own.within_host = job_stage(job).within_host;
    own.limit = job->config.memory_limit;
    own.free = caps->mem_free ? caps->mem_free : caps->mem_total;
    own.quantum = caps->row_quantum;
    own.compile_ms = caps->compile_ms;
    own.product_bits = yk__product_bits(caps);
    own.cpu = caps->flags & YK_CAP_CPU;
    own.on_host = own.cpu && caps->flags & YK_CAP_HOST_VISIBLE;
    yk__placement_text(&job->device->place, own.name, sizeof own.name);
    snprintf(own.cores, sizeof own.cores, "%.*s", (int)sizeof own.cores - 1, job->device->place.cores);
    snprintf(own.device, sizeof own.device, "%s", caps->name);
    snprintf(own.isa, sizeof own.isa, "%s", caps->isa);
    rank_info *all = yk__calloc(job->team.world, sizeof *all);
    job->team.name = yk__calloc(job->team.world, sizeof *job->team.name);
    job->team.product_bits = yk__calloc(job->team.world, sizeof *job->team.product_bits);
    if (!all || !job->team.name || !job->team.product_bits)
        yk__fail_mem(err, job->team.world * sizeof *all, "the table of ranks");
    if (!err->status && !yk__group_all_gather(job->team.group, &own, sizeof own, all, err)) {
        note_one_copy(job, all);
        note_no_whole(job);
        for (uint32_t r = 0; r < job->team.world; r++) {
            memcpy(job->team.name[r], all[r].name, sizeof all[r].name);
            job->team.product_bits[r] = all[r].product_bits;
        }
        if (job->team.rank == 0 && !job->config.quiet)
            print_table(job, all);
        if (!compare_fixed(job, all, 0, err) && !compare_fixed(job, all, 1, err) && !compare_inference(job, all, err) &&
            !compare_offload(job, all, err) && !compare_unit(job, all, err) && !compare_within(job, all, err) &&
            !make_shares(job, all, &fixed, capped, err))
            yk__paces_measure(job, err);
    }
    yk__fixed_free(&fixed);
    yk__free(all);
    return err->status;
}

/* Call it once the plugin is loaded, as the plugin's own variables bear its name. */
static void warn_unknown_options(void)
{
    char *plugins = yk__plugin_owners();
    yk__options_warn(plugins);
    yk__free(plugins);
}

/* The group of an earlier job of this process may have excluded ranks. */
static yk_status all_members(yk_job *job, yk_error *err)
{
    bool *member;
    if (!yk__group_excludes(job->team.group))
        return YK_OK;
    member = yk__calloc(job->team.world, sizeof *member);
    if (!member)
        return yk__fail_mem(err, job->team.world * sizeof *member, "the ranks of a job");
    for (uint32_t r = 0; r < job->team.world; r++)
        member[r] = true;
    yk__group_set_members(job->team.group, member, err);
    yk__free(member);
    return err->status;
}

/* Other ranks find one that stands still; nobody else finds a rank alone. */
static void job_watch(yk_job *job, bool single)
{
    if (single && !job->watched)
        yk__standing_begin();
    job->watched |= single;
}

/* A rank that was given no device learns its own from the other ranks of its host. Before it joins, no other rank finds it if a driver
 * hangs, so it is watched like a rank alone. */
static yk_status find_place(yk_job *job, yk__placement *chosen, yk_error *err)
{
    const bool given = !yk__launched() || yk__launch_fd() >= 0;
    if (!given && yk__join_group(&job->team.group, err))
        return err->status;
    if (given)
        yk__standing_begin();
    yk__place_choose(job, chosen, err);
    if (given)
        yk__standing_end();
    if (err->status)
        return err->status;
    return given ? yk__join_group(&job->team.group, err) : YK_OK;
}

static yk_status assemble_job(yk_job *job, bool capped, yk_error *err)
{
    yk__placement chosen, host;
    if (yk__launch_check(err) || yk__options_check(err) || check_config(job, err) || find_place(job, &chosen, err))
        return err->status;
    yk__group_rows(job->team.group, &job->step.empty);
    job->team.rank = yk__group_rank(job->team.group);
    job->team.world = yk__group_size(job->team.group);
    job_watch(job, job->team.world == 1);
    if (yk__precision_check(job, err) || yk__device_open(&chosen, &job->device, err) ||
        (job->config.plan_only && yk__device_plan_only(job->device, err)) || choose_precision(job, err))
        return err->status;
    if (job->team.rank == 0)
        warn_unknown_options();
    if (!job->config.memory_limit)
        job->config.memory_limit = yk__option_size_of(YK__OPTION_MEMORY_LIMIT, job->team.rank);
    if (job->team.rank == 0 && job_rounds8(job))
        yk__log(YK_LOG_WARN, "job", "fp8: operands of linear layers are rounded to 8 bits; a device without products of 8 bits is slower "
                "than in bf16");
    make_scaler(job);
    if (yk__parts_choose(job, err) || yk__offload_place(job, &host, err))
        return err->status;
    const yk__stage stage = job_stage(job);
    const yk__offload offload = yk__job_offload(job);
    const double part = yk__offload_part(job->config.offload);
    char *state_dir = offload >= YK__OFFLOAD_DISK ? yk__offload_folder(job->config.offload) : NULL;
    if (offload >= YK__OFFLOAD_DISK && !state_dir)
        return yk__fail_mem(err, strlen(job->config.offload), "the folder of the state on disk");
    const yk__engine_config c = {.precision = job->precision,
                                 .rounds8 = job_rounds8(job),
                                 .memory_limit = capped ? job->config.memory_limit : 0,
                                 .power_rank = job->config.power_sgd_rank,
                                 .scatters = stage.kind != YK__STAGE_STATE,
                                 .slices = stage.kind == YK__STAGE_PARAMS,
                                 .slices_by_host = stage.within_host,
                                 .pulls_stay = stage.stays,
                                 .pulls_ahead = job->config.prefetch_units,
                                 .keep_whole = job->config.keep_whole ? job->config.keep_whole : KEEP_WHOLE,
                                 .unit_bytes = job->config.shard_unit,
                                 .local_sgd = job->config.local_sgd_steps > 0,
                                 .inference = job->config.inference,
                                 .offloads = offload != YK__OFFLOAD_NONE,
                                 .host_part = part < 1 ? part : 0,
                                 .stores = yk__offload_activations(job->config.offload),
                                 .all_on_host = yk__offload_has_params(offload),
                                 .host = &host,
                                 .state_dir = state_dir,
                                 .parts = job->team.parts.is_fixed ? job->team.parts.part : NULL,
                                 .cache_most = job->config.plans_most};
    if (!all_members(job, err))
        yk__engine_new(job->device, job->team.group, &c, &job->engine, err);
    yk__free(state_dir);
    if (err->status || exchange_infos(job, capped, err) || yk__emergency_open(job, err))
        return err->status;
    return YK_OK;
}

static yk_job *open_job(const char *call, const yk_config *config, size_t size, bool capped)
{
    yk_error err = YK_ERROR_INIT;
    yk_job *job = yk__calloc(1, sizeof *job);
    yk__guest kept;
    if (!job)
        return NULL;
    yk__guest_keep(&kept);
    yk__limit_raise();
    const yk_config *given = yk__config_read(call, config, size, &job->config, sizeof job->config, &err);
    if (given && given != &job->config)
        job->config = *given;
    job->gen = 1;
    job->team.world = 1;
    job->training = !job->config.inference;
    atomic_fetch_add(&open_jobs, 1);
    yk__join_note_job();
    yk__step_init(&job->step);
    job_watch(job, !yk__launched());
    if (!given || yk__job_register(job, &err) || assemble_job(job, capped, &err))
        yk__job_fail(job, &err);
    yk__job_meant(job);
    yk__guest_restore(&kept);
    return job;
}

yk_job *(yk_open)(const yk_config *config, size_t size)
{
    return open_job("yk_open", config, size, true);
}

yk_job *yk__open_uncapped(const yk_config *config, size_t size)
{
    return open_job("yk_find_batch_size", config, size, false);
}

/* ---- Closing ---- */

static void free_tables(yk_job *job)
{
    for (size_t i = 0; i < job->n_param; i++)
        yk__free(job->param[i].name);
    yk__free(job->param);
    yk__free(job->data);
    yk__free(job->team.name);
    yk__free(job->team.product_bits);
    yk__free(job->precision_list);
    yk__free(job->scratch);
    yk__free(job->gathered.data);
    yk__free(job->gathered.size);
    yk__attached_free(&job->attached);
    yk__step_free(&job->step);
    yk__call_sites_free(&job->sites);
}

static void release_all(yk_job *job)
{
    for (size_t i = job->n_data; i-- > 0;)
        yk__data_free(job->data[i]);
    yk__opt_free(job->opt);
    yk__owned_release(&job->attached);
    yk__engine_free(job->engine);
    job->engine = NULL;
    yk__values_free(&job->values, NULL);
    yk__device_close(job->device);
    yk__share_free(job->team.share);
    yk__fixed_free(&job->team.parts);
    if (job->team.group)
        yk__group_rows(job->team.group, NULL);
    yk__join_release(job->team.group);
    yk__topology_free(job->topology);
    free_tables(job);
}

static yk_job *volatile hung; /* the last job whose device hangs: kept reachable, so leak checkers stay quiet */

/* A fork has a copy of the job, whose threads, connections and shared memory are its parent's: all of it stays. */
static int close_parents(yk_job *job)
{
    yk__log(YK_LOG_ERROR, "error", "%s", yk_error_text(job));
    return yk_error_status(job) == YK_E_ARG ? 2 : 1;
}

int yk_close(yk_job *job)
{
    YK__ACT_HERE(YK__ACT_CALL);
    if (!job)
        return 1;
    if (yk__job_is_parents(job))
        return close_parents(job);
    if (yk_ok(job))
        yk__log_flush(job, true);
    yk__log_close(job);
    yk__cancel_noticed(job);
    if (yk_ok(job) && job->backwards > 1 && !job->has_stepped) {
        yk_here(job->backward_file, job->backward_line);
        yk__job_failf(job, YK_E_ARG, "yk_backward was called %llu times and yk_step never, so nothing was trained: call "
                      "yk_step(optimizer) after each yk_backward", (unsigned long long)job->backwards);
    }
    if (yk_ok(job) && job->engine) {
        yk_error err = YK_ERROR_INIT;
        if (yk__engine_leave(job->engine, &err))
            yk__job_fail(job, &err);
    }
    yk_status s = job->error.status;
    if (s && !yk__group_report(&job->error)) { /* a launched rank's error is reported once, by the launcher */
        yk__launch_await_turn();
        yk__log(YK_LOG_ERROR, "error", "%s", job->error.text);
    }
    const bool watched = job->watched;
    yk__job_unregister(job);
    if (atomic_load(&job->cancelled) && job->engine)
        yk__engine_stop(job->engine); /* the device may still compute, in memory that goes now */
    if ((job->device && job->device->lost) || yk__engine_lost(job->engine)) {
        hung = job; /* memory that its device was given is kept for good */
    } else {
        release_all(job);
        yk__free(job);
        if (atomic_fetch_sub(&open_jobs, 1) == 1)
            yk__plugins_fini();
        yk__limit_lower();
    }
    if (watched)
        yk__standing_end();
    return s == YK_OK ? 0 : s == YK_E_ARG || s == YK_E_FORMAT ? 2 : 1;
}

/* A program that closes the library again and again must not grow. A process that exits in the midst of a job leaves it its plugins. */
__attribute__((destructor)) static void plugins_leave(void)
{
    if (atomic_load(&open_jobs))
        return;
    yk__plugins_free();
    yk__place_ask(NULL);
}

uint64_t yk_peak_bytes(const yk_job *job)
{
    yk__engine_stats s = {0};
    if (job && job->engine)
        yk__engine_stats_get(job->engine, &s);
    return s.peak_bytes;
}

void (yk_memory_get)(const yk_job *job, yk_memory *m, size_t size)
{
    yk__engine_stats s = {0};
    if (job && job->engine)
        yk__engine_stats_get(job->engine, &s);
    const uint64_t kept = s.kept_bytes < s.arena_bytes ? s.kept_bytes : s.arena_bytes;
    const yk_memory now = {.params = s.param_bytes,
                           .grads = s.grad_bytes,
                           .state = s.state_bytes,
                           .activations = kept,
                           .scratch = s.arena_bytes - kept + s.scratch_bytes,
                           .inputs = s.input_bytes,
                           .peak = s.peak_bytes,
                           .shared = s.shared_bytes,
                           .plans = s.plans,
                           .plan_bytes = s.plan_bytes,
                           .plans_made = s.compiles,
                           .host = s.host_bytes,
                           .disk = s.disk_bytes};
    yk__config_give(m, size, &now, sizeof now);
}

void yk_train(yk_job *job, bool on)
{
    if (job)
        job->training = on;
}

bool yk_training(const yk_job *job)
{
    return job && job->training;
}

void yk_sync(yk_job *job)
{
    YK__ACT_HERE(YK__ACT_CALL);
    yk_error err = YK_ERROR_INIT;
    if (yk_ok(job) && yk__engine_wait(job->engine, 0, &err))
        yk__job_fail(job, &err);
}
