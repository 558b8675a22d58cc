/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine's interface (run.h): a rank's device, its parameters and the programs of its steps, as one object. The file makes and joins
 * the engine's parts, and passes each call on to the part that does it. Gradients are exchanged in buckets of YOKE_BUCKET_BYTES, unless the
 * caller gives a unit; YOKE_WIRE=int8 excludes some remedies for full memory.
 *
 * core/job calls it in the step thread, which runs the user's program. yoke bench, estimate-memory and plan read its statistics there. A
 * failed call leaves its reason in *err. yk__engine_free gives back all that yk__engine_new and later calls made.
 */
#include "core/run/engine.h"

#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/number.h"
#include "core/base/option.h"

#define PLANS 96u /* programs in the cache unless the config says how many */
#define SINGLE_BYTES (1ull << 30) /* bytes of a bucket in a job of one rank, which exchanges nothing: few launches, each of many elements */

static yk_status check_precision(const yk__device *dev, yk_dtype precision, yk_error *err)
{
    const uint32_t mask = 1u << precision;
    const yk_device_caps *c = &dev->caps;
    char have[64] = "";
    if (precision >= YK_DTYPE_COUNT || !yk__dtype_is_float(precision) || precision == YK_F64)
        return yk__fail(err, YK_E_ARG, "precision must be f32, bf16 or f16");
    if ((c->store & mask) && (c->compute & mask))
        return YK_OK;
    for (uint32_t d = 0; d < YK_DTYPE_COUNT; d++)
        if (yk__dtype_is_float(d) && (c->store & c->compute & 1u << d) && strlen(have) + 12 < sizeof have)
            strcat(strcat(have, *have ? ", " : ""), yk__dtype_name(d));
    return yk__fail(err, YK_E_UNSUPPORTED, "%s cannot compute in %s; it has %s", c->name, yk__dtype_name(precision), have);
}

static bool slices_are_far(const yk__exchange *exchange, const yk__engine_config *c)
{
    return c->slices && !c->slices_by_host && exchange->laid_for == YK__MESSAGES;
}

/* Refuses what far slices are not built with. A device that plans only has no progress thread to ask for. */
static yk_status check_slices(const yk__exchange *exchange, const yk__engine_config *c, yk_error *err)
{
    const char *other = NULL;
    if (!slices_are_far(exchange, c))
        return YK_OK;
    if (exchange->medium && !exchange->drives)
        other = "YOKE_PROGRESS=off: no thread would answer other ranks";
    else if (exchange->narrows)
        other = "YOKE_WIRE_PARAMS=bf16: what rounding takes stays with the owner";
    else if (c->offloads)
        other = "--offload";
    if (!other)
        return YK_OK;
    return yk__fail(err, YK_E_ARG, "parameters in slices over ranks that exchange messages are not built together with %s: leave that out, "
                    "or keep all parameters on each host (--shard-within host)", other);
}

/* Buckets travel by themselves: between ranks, or between an only rank's device and its host. The options decide, not the device, so a
 * processor alone has the same buckets, and with them the bits of its norm. */
static bool cuts_buckets(const yk__exchange *exchange, const yk__engine_config *c)
{
    return exchange->world > 1 || (c->offloads && (c->scatters || c->host_part > 0));
}

static uint64_t cut_bytes(const yk__engine_config *c)
{
    return c->unit_bytes ? c->unit_bytes : yk__option_number(YK__OPTION_BUCKET_BYTES);
}

static yk_status publish_late(void *params, yk_error *err)
{
    return yk__params_publish_late(params, err);
}

/* For an engine of which at most the exchange and the host device are open. */
static yk_status engine_drop(yk__engine *e, yk_error *err)
{
    yk__host_close(&e->host);
    yk__state_file_free(e->params.state_file);
    yk__exchange_close(&e->exchange);
    yk__free(e);
    return err->status;
}

/* Notes the options that would keep memory free, and that this job does not use. Those that it would refuse are not open. */
static void remedies_note(yk__engine *e, const yk__engine_config *c)
{
    yk__queue *q = &e->queue;
    const bool may = !c->inference && !c->local_sgd, serves = yk__host_serves(q->dev), several = e->exchange.world > 1;
    const bool far = slices_are_far(&e->exchange, c), messages = e->exchange.laid_for == YK__MESSAGES && !c->slices_by_host;
    char part[40];
    const bool whole = c->power_rank || yk__option_words(YK__OPTION_WIRE) == YK__WIRE_INT8; /* exchanges of whole gradients */
    snprintf(part, sizeof part, c->host_part > 0 ? "state=host:%s," : "state=host,", yk__number_text(c->host_part, 6).text);
    snprintf(q->place, sizeof q->place, "%s%s%s", !c->offloads ? "" : c->state_dir ? "state=nvme:DIR," : part,
             c->all_on_host ? "params=host," : "", c->stores ? "activations=host," : "");
    q->open = (yk__remedies){.trains = !c->inference,
                             .recomputes = !c->inference && !c->memory_limit,
                             .stores = !c->inference && serves && !c->stores,
                             .state_host = may && (!c->offloads || c->host_part > 0) && !far && serves,
                             .state_disk = may && !c->offloads && !far && !serves,
                             .gradients = may && several && !c->scatters && !whole,
                             .params = may && several && !c->slices && !whole &&
                                       !(messages && (c->offloads || e->exchange.narrows || (e->exchange.medium && !e->exchange.drives))),
                             .place = q->place};
}

void yk__engine_advise(yk__engine *e, uint64_t rows, uint64_t times, yk_error *err)
{
    e->queue.open.rows = rows;
    e->queue.open.evaluates = false;
    yk__queue_advise_lack(&e->queue, &(yk__lack){.parts = YK__OF_ACTIVATIONS, .limited = e->queue.limit != 0, .times = times}, err);
}

static void island_abort(void *island)
{
    yk__island_abort(island);
}

yk_status yk__engine_new(yk__device *dev, yk__group *group, const yk__engine_config *c, yk__engine **out, yk_error *err)
{
    yk__engine *e;
    if (check_precision(dev, c->precision, err))
        return err->status;
    e = yk__calloc(1, sizeof *e);
    if (!e)
        return yk__fail_mem(err, sizeof *e, "an engine");
    if (yk__exchange_open(&e->exchange, group, dev->plans_only, c->local_sgd, err) || check_slices(&e->exchange, c, err))
        return engine_drop(e, err);
    e->queue = (yk__queue){.dev = dev, .cancel = yk__exchange_cancel(&e->exchange), .limit = c->memory_limit, .abort = island_abort,
                           .island = &e->params.island};
    remedies_note(e, c);
    e->params =
        (yk__params){.queue = &e->queue, .updates = &e->queue, .exchange = &e->exchange, .precision = c->precision, .version = 1};
    e->params.rounds8 = c->rounds8;
    e->params.inference = c->inference;
    e->params.power_rank = c->power_rank;
    e->params.scatters = c->scatters && e->exchange.part != YK__PART_LOCAL &&
                         (e->exchange.world > 1 || (c->offloads && yk__host_serves(dev)));
    e->params.slices = c->slices && e->params.scatters;
    e->params.far = e->params.slices && slices_are_far(&e->exchange, c);
    e->params.pulls_stay = c->pulls_stay;
    e->params.pulls_ahead = e->params.far && !c->pulls_ahead ? 1 : c->pulls_ahead;
    e->params.keep_whole = c->keep_whole;
    e->params.parts_fixed = c->parts != NULL;
    for (uint32_t r = 0; r < e->exchange.world && c->parts; r++)
        e->exchange.owns[r] = c->parts[r];
    e->params.first_way = c->way;
    e->params.first_home = c->home;
    e->params.offloads = c->offloads;
    e->params.host_part = c->host_part > 0 ? c->host_part : 1;
    e->params.all_on_host = c->all_on_host && c->offloads && e->params.slices;
    e->params.bucket_bytes = cuts_buckets(&e->exchange, c) ? cut_bytes(c) : SINGLE_BYTES;
    if (c->bucket_bytes)
        e->params.bucket_bytes = c->bucket_bytes;
    if (c->offloads && yk__host_open(&e->host, &e->params, c->host, err))
        return engine_drop(e, err);
    if (c->state_dir && yk__state_file_new(c->state_dir, c->state_block, &e->params.state_file, err))
        return engine_drop(e, err);
    e->params.state_home = yk__state_home_choose(&e->params);
    yk__params_choose_way(&e->params);
    e->exec = (yk__exec){.queue = &e->queue, .exchange = &e->exchange, .params = &e->params, .first_action = c->action,
                         .stores = c->stores && yk__host_serves(dev),
                         .cache_bytes = c->cache_bytes, .cache_most = c->cache_most ? c->cache_most : PLANS, .runs = 1};
    e->exec.instance.pulls.far = e->params.far;
    e->updater = (yk__updater){.optim = {{.exec = e->host.dev ? &e->host.exec : &e->exec, .params = &e->params},
                                         {.exec = &e->exec, .params = &e->params}},
                               .n_optim = e->host.dev && c->host_part > 0 ? 2 : 1,
                               .exec = &e->exec, .params = &e->params, .divisor = 1.0};
    if (yk__tracer_open(dev, e->exchange.rank, yk__exchange_name(&e->exchange, e->exchange.rank), &e->queue.tracer, err))
        return engine_drop(e, err);
    yk__exchange_before_meeting(&e->exchange, publish_late, &e->params);
    e->snapshot = (yk__snapshot){.params = &e->params, .exchange = &e->exchange};
    yk__layers_cancel(dev, e->queue.cancel);
    *out = e;
    return YK_OK;
}

void yk__engine_budget(yk__engine *e, uint64_t bytes)
{
    e->queue.budget = bytes;
    e->queue.open.recomputes = e->queue.open.recomputes && !bytes;
}

void yk__engine_fit_parts(yk__engine *e)
{
    e->params.fits_parts = !e->params.parts_fixed;
}

void yk__engine_expect(yk__engine *e, const yk__opt_layout *o)
{
    e->params.expects_moments = true;
    e->params.expected_moments = yk__optim_moments(o);
}

void yk__engine_stop(yk__engine *e)
{
    yk__queue_stop(&e->queue);
    if (e->host.dev)
        yk__device_settle(e->host.dev);
}

bool yk__engine_is_pulled(const yk__engine *e)
{
    return e->params.far;
}

bool yk__engine_lost(const yk__engine *e)
{
    return e && e->host.dev && e->host.dev->lost;
}

yk_status yk__engine_leave(yk__engine *e, yk_error *err)
{
    return e->params.far && e->params.laid_out ? yk__exchange_barrier(&e->exchange, err) : YK_OK;
}

void yk__engine_free(yk__engine *e)
{
    yk_error err = YK_ERROR_INIT;
    if (!e)
        return;
    yk__exchange_before_meeting(&e->exchange, NULL, NULL);
    yk__layers_cancel(e->queue.dev, NULL);
    if (!__atomic_load_n(e->queue.cancel, __ATOMIC_ACQUIRE)) { /* other ranks may still wait for values of this rank */
        yk__params_settle(&e->params, &err);
        yk__params_publish_late(&e->params, &err);
    } else {
        yk__island_abort(&e->params.island);
    }
    yk__queue_drain(&e->queue);
    yk__queue_drain(e->params.updates);
    yk__tracer_close(e->queue.tracer);
    e->queue.tracer = NULL;
    yk__exchange_drop(&e->exchange.reduction);
    for (uint32_t k = 0; k < e->updater.n_optim; k++)
        yk__optim_free(&e->updater.optim[k]);
    yk__cache_clear(&e->exec);
    yk__compute_drop(&e->exec);
    yk__snapshot_release(&e->snapshot);
    yk__power_drop(&e->params);
    yk__params_drop_layout(&e->params);
    yk__island_close(&e->params.island);
    yk__instance_free(&e->exec.instance, &e->queue);
    yk__fetches_free(&e->fetches, &e->queue);
    yk__params_free(&e->params);
    yk__state_file_free(e->params.state_file);
    yk__host_close(&e->host);
    yk__exchange_close(&e->exchange);
    yk__free(e);
}

yk_status yk__engine_wait(yk__engine *e, uint64_t ticket, yk_error *err)
{
    const bool all = !ticket || ticket > e->ticket;
    if (!all && e->ticket - ticket >= YK__TICKETS) /* points only grow, so a later ticket's point will do */
        ticket = e->ticket - YK__TICKETS + 1;
    if (all && yk__params_defer(&e->params) && yk__params_settle(&e->params, err))
        return err->status;
    if (!yk__queue_wait(&e->queue, all ? e->queue.last_point : e->ticket_point[ticket % YK__TICKETS], err))
        yk__fetches_done(&e->fetches, &e->queue);
    return err->status;
}

/* ---- Timelines ---- */

yk_status yk__engine_trace_begin(yk__engine *e, yk_error *err)
{
    yk__tracer **tracer = &e->queue.tracer;
    if (*tracer)
        return yk__tracer_is_own(*tracer) ? yk__fail(err, YK_E_ARG, "a trace is under way already") : YK_OK;
    return e->queue.dev->plans_only
               ? YK_OK
               : yk__tracer_begin(e->queue.dev, e->exchange.rank, yk__exchange_name(&e->exchange, e->exchange.rank), tracer, err);
}

void yk__engine_trace_span(yk__engine *e, const char *what, uint64_t number, int64_t begin_ns)
{
    yk__tracer_span(e->queue.tracer, YK__LANE_HOST, what, number, begin_ns, yk__clock_ns());
}

yk_status yk__engine_trace_end(yk__engine *e, char **text, yk_error *err)
{
    yk__tracer *tracer = e->queue.tracer;
    *text = NULL;
    if (e->queue.dev->plans_only || (tracer && !yk__tracer_is_own(tracer)))
        return YK_OK;
    if (!tracer)
        return yk__fail(err, YK_E_ARG, "no trace is under way");
    if (yk__params_settle(&e->params, err) || yk__queue_idle(&e->queue, err))
        return err->status;
    e->queue.tracer = NULL;
    return yk__tracer_end(tracer, text, err);
}

/* ---- Parameters and states ---- */

yk_status yk__engine_state(yk__engine *e, const char *name, yk_dtype dtype, uint64_t n, uint32_t *number, yk_error *err)
{
    return yk__params_declare_state(&e->params, name, dtype, n, number, err);
}

yk_status yk__engine_param_write(yk__engine *e, uint32_t number, const float *data, yk_error *err)
{
    return yk__params_write(&e->params, number, data, err);
}

yk_status yk__engine_param_give(yk__engine *e, uint32_t number, yk__source source, yk_error *err)
{
    return yk__params_give(&e->params, number, source, err);
}

yk_status yk__engine_param_read(yk__engine *e, uint32_t number, float *data, yk_error *err)
{
    return yk__params_read(&e->params, number, 0, UINT64_MAX, data, err);
}

yk_status yk__engine_param_part(yk__engine *e, uint32_t number, uint64_t from, uint64_t n, float *data, yk_error *err)
{
    return yk__params_read(&e->params, number, from, n, data, err);
}

yk_status yk__engine_state_write(yk__engine *e, uint32_t number, const void *data, yk_error *err)
{
    return yk__params_write_state(&e->params, number, data, err);
}

yk_status yk__engine_state_read(yk__engine *e, uint32_t number, void *data, yk_error *err)
{
    return yk__params_read_state(&e->params, number, data, err);
}

/* ---- Updates ---- */

yk_status yk__engine_optimizer(yk__engine *e, const yk__opt_layout *o, yk_error *err)
{
    if (e->updater.optim->has_layout)
        return yk__fail(err, YK_E_ARG, "the engine has its optimizer already");
    if (yk__engine_lay_out(e, err))
        return err->status;
    return yk__updater_begin(&e->updater, o, err);
}

yk_status yk__engine_update(yk__engine *e, const yk__update *u, yk__updated *out, yk_error *err)
{
    if (!e->updater.optim->has_layout)
        return yk__fail(err, YK_E_INTERNAL, "an update before yk__engine_optimizer");
    if (yk__updater_run(&e->updater, u, out, err))
        return err->status;
    yk__tracer_stepped(e->queue.tracer);
    return YK_OK;
}

/* *weight: turns this rank's contribution into its fraction of the ranks' sum. */
static yk_status weigh_rank(yk__engine *e, double *weight, yk_error *err)
{
    double sum = *weight;
    if (yk__engine_lay_out(e, err) || yk__exchange_sum(&e->exchange, &sum, 1, err))
        return err->status;
    *weight = sum > 0.0 ? *weight / sum : 1.0 / e->exchange.world;
    return YK_OK;
}

yk_status yk__engine_average(yk__engine *e, double weight, yk_error *err)
{
    if (e->exchange.part != YK__PART_LOCAL || weigh_rank(e, &weight, err))
        return err->status;
    return yk__params_average(&e->params, weight, err);
}

yk_status yk__engine_average_moments(yk__engine *e, double weight, yk_error *err)
{
    if (e->exchange.part != YK__PART_LOCAL || weigh_rank(e, &weight, err))
        return err->status;
    return yk__moments_average(&e->params, weight, err);
}

/* ---- The last whole step ---- */

bool yk__engine_can_snapshot(const yk__engine *e)
{
    return e->exchange.medium == YK__MEMORY && e->exchange.part != YK__PART_LOCAL;
}

bool yk__engine_snapshot_packs(const yk__engine *e)
{
    return e->exchange.rank == yk__exchange_first_member(&e->exchange);
}

yk_status yk__engine_snapshot(yk__engine *e, const void *host, uint64_t bytes, uint64_t capacity, yk_error *err)
{
    if (!e->updater.optim->has_layout)
        return yk__fail(err, YK_E_INTERNAL, "a snapshot before yk__engine_optimizer");
    return yk__snapshot_write(&e->snapshot, host, bytes, capacity, err);
}

bool yk__engine_snapshot_claim(yk__engine *e, yk__kept_step *kept)
{
    kept->copy = e ? yk__snapshot_claim(&e->snapshot) : -1;
    if (kept->copy >= 0)
        kept->host = yk__snapshot_host(&e->snapshot, kept->copy, &kept->bytes);
    return kept->copy >= 0;
}

const float *yk__engine_snapshot_param(const yk__engine *e, const yk__kept_step *kept, uint32_t number)
{
    return yk__snapshot_param(&e->snapshot, kept->copy, number);
}

const float *yk__engine_snapshot_moment(const yk__engine *e, const yk__kept_step *kept, uint32_t kind, uint32_t number)
{
    return yk__snapshot_moment(&e->snapshot, kept->copy, kind, number);
}

const void *yk__engine_snapshot_state(const yk__engine *e, const yk__kept_step *kept, uint32_t number)
{
    return yk__snapshot_state(&e->snapshot, kept->copy, number);
}

/* ---- Reports ---- */

void yk__engine_measure(yk__engine *e, bool on)
{
    e->updater.measure = on;
}

void yk__engine_stats_get(const yk__engine *e, yk__engine_stats *s)
{
    const uint64_t *bytes = e->queue.bytes, blocks = e->exchange.shared_bytes;
    const uint64_t own = e->exchange.world == 1 ? blocks : 0, shared = blocks - own;
    *s = (yk__engine_stats){
        .peak_bytes = e->queue.peak,
        .param_bytes = bytes[YK__PARAM_BYTES],
        .grad_bytes = bytes[YK__GRAD_BYTES],
        .state_bytes = bytes[YK__STATE_BYTES],
        .arena_bytes = bytes[YK__ARENA_BYTES],
        .input_bytes = bytes[YK__INPUT_BYTES],
        .scratch_bytes = bytes[YK__SCRATCH_BYTES],
        .sliced_bytes = (e->updater.optim[e->updater.n_optim - 1].exec != &e->exec || e->params.state_file ? 0 : bytes[YK__STATE_BYTES]) +
                        yk__sums_bytes(&e->params) + yk__params_slice_bytes(&e->params),
        .kept_bytes = e->exec.kept_bytes,
        .shared_bytes = shared + yk__power_bytes(&e->params),
        .host_bytes = e->host.queue.peak + own + yk__far_bytes(&e->params) + yk__home_frozen_bytes(&e->params) +
                      (e->host.dev ? yk__sums_bytes(&e->params) : 0) + /* they lie on the host, too */
                      yk__instance_lane_bytes(&e->exec.instance, &e->queue) + e->exec.instance.stored.bytes,
        .disk_bytes = yk__state_file_bytes(&e->params),
        .busy_seconds = e->queue.busy_seconds,
        .compiles = e->exec.compiles,
        .hits = e->exec.hits,
        .plan_seconds = e->exec.plan_seconds,
        .plans = e->exec.n_prog,
        .plan_bytes = e->exec.prog_bytes,
        .accounts = e->exec.accounts,
        .largest = e->exec.largest,
        .compile_seconds = e->exec.compile_seconds,
        .update_seconds = e->updater.update_seconds,
        .copy_seconds = e->updater.copy_seconds,
        .update_elements = e->updater.update_elements,
        .copy_elements = e->updater.copy_elements,
        .trained_elements = e->params.n_trained,
        .host_elements = e->params.n_host,
    };
}

void yk__engine_each_plan(const yk__engine *e, void (*see)(void *arg, const yk__plan *plan), void *arg)
{
    for (size_t i = 0; i < e->exec.n_prog; i++)
        see(arg, e->exec.prog[i]->plan);
}
