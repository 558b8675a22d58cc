/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing a job: device, group, engine, the table of ranks. */
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/limit.h"
#include "core/base/log.h"
#include "core/base/option.h"
#include "core/job/job.h"

static atomic_int open_jobs;

/* ---- Opening ---- */

static yk_status check_config(yk_job *job, yk_error *err)
{
    yk_config *c = &job->config;
    if (c->precision != YK_F32 && c->precision != YK_BF16 && c->precision != YK_F16)
        return yk__fail(err, YK_E_ARG, "precision %s: expected f32, bf16 or f16", yk__dtype_name(c->precision));
    if (c->average > YK_AVERAGE_ROWS || c->scale.rule > YK_SCALE_MEGATRON)
        return yk__fail(err, YK_E_ARG, "yk_config: an enumerator is out of range");
    c->accumulate = c->accumulate ? c->accumulate : 1;
    c->hash_every = c->hash_every ? c->hash_every : 100;
    return YK_OK;
}

/* The one device of this process. */
static yk_status choose(yk_job *job, yk__placement *mine, yk_error *err)
{
    const char *words = yk__launched() ? yk__option_text(YK__OPTION_DEVICES) : job->config.devices;
    yk__placement *place = NULL;
    uint32_t n = 0;
    if (!words)
        words = yk__option_text(YK__OPTION_DEVICES);
    bool automatic = !words || !*words || !strcmp(words, "auto");
    yk_status s = yk__topology_new(&job->topology, err);
    s = s ? s : yk__device_select(words, job->topology, &place, &n, err);
    if (s)
        return s;
    if (n == 0)
        s = yk__fail(err, YK_E_ARG, "devices \"%s\" select none", words ? words : "auto");
    else if (n > 1 && !automatic)
        s = yk__fail(err, YK_E_ARG, "devices \"%s\" are %u ranks: start the program by 'yoke launch', or call yk_launch first",
                     words, n);
    else
        *mine = place[0];
    yk__free(place);
    return s;
}

/* The format to compute in on this device. */
static yk_status choose_precision(yk_job *job, yk_error *err)
{
    const yk_device_caps *caps = &job->device->caps;
    yk_dtype p = job->config.precision, other = job->config.substitute;
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

static void make_scaler(yk_job *job)
{
    static const yk__scaler_rule rules[] = {YK_SCALER_TORCH, YK_SCALER_DEEPSPEED, YK_SCALER_MEGATRON};
    const yk_scale_config *c = &job->config.scale;
    job->scaling = job->config.precision == YK_F16;
    yk__scaler_init(&job->scaler, c->fixed != 0.0 ? YK_SCALER_FIXED : rules[c->rule], c->fixed != 0.0 ? c->fixed : c->init,
                    c->growth, c->backoff, c->floor, c->interval, c->hysteresis);
    job->scaler.consecutive = c->consecutive_hysteresis;
    job->scaler.stay_at_floor = c->stay_at_floor;
}

/* What ranks tell each other at the start. */
typedef struct rank_card {
    char name[96], device[96], isa[64], cores[256];
    uint64_t memory, limit, free; /* limit: 0, or the user's; free: 0, or what the device has */
    uint32_t units, precision, forced, cpu;
    double pace;
} rank_card;

static void print_table(const yk_job *job, const rank_card *c)
{
    fprintf(stderr, "%-5s %-18s %-6s %-34s %-14s %6s %9s %s\n", "rank", "device spec", "forced", "device", "isa", "units",
            "memory", "precision");
    for (uint32_t r = 0; r < job->world; r++)
        fprintf(stderr, "%-5u %-18.18s %-6s %-34.34s %-14.14s %6u %6.1f GB %s\n", r, c[r].name, c[r].forced ? "yes" : "no",
                c[r].device, c[r].isa, c[r].units, (double)c[r].memory / 1e9, yk__dtype_name(c[r].precision));
}

/* Ranks that compute on the host's cores share its memory. */
static yk_status make_shares(yk_job *job, const rank_card *c, yk_error *err)
{
    yk__rank_room *room = yk__calloc(job->world, sizeof *room);
    uint32_t on_host = 0;
    yk_status s;
    if (!room)
        return yk__fail_mem(err, job->world * sizeof *room, "the table of ranks");
    for (uint32_t r = 0; r < job->world; r++)
        on_host += c[r].cpu != 0;
    for (uint32_t r = 0; r < job->world; r++)
        room[r] = (yk__rank_room){.bytes = c[r].limit ? c[r].limit : c[r].free / (c[r].cpu ? on_host : 1),
                                  .limited = c[r].limit != 0,
                                  .forced = c[r].forced != 0,
                                  .pace = c[r].pace,
                                  .cores = c[r].cpu ? c[r].cores : NULL};
    s = yk__share_new(job, room, err);
    yk__free(room);
    return s;
}

static yk_status exchange_cards(yk_job *job, yk_error *err)
{
    const yk_device_caps *caps = &job->device->caps;
    rank_card mine = {.memory = caps->mem_total, .units = caps->units, .precision = job->precision};
    mine.forced = job->device->place.forced;
    mine.limit = job->config.memory_limit;
    mine.free = caps->mem_free;
    mine.cpu = caps->flags & YK_CAP_CPU;
    mine.pace = job->world > 1 && !job->config.plan_only ? yk__device_pace(job->device) : 0.0;
    yk__placement_text(&job->device->place, mine.name, sizeof mine.name);
    snprintf(mine.cores, sizeof mine.cores, "%.*s", (int)sizeof mine.cores - 1, job->device->place.cores);
    snprintf(mine.device, sizeof mine.device, "%s", caps->name);
    snprintf(mine.isa, sizeof mine.isa, "%s", caps->isa);
    rank_card *all = yk__calloc(job->world, sizeof *all);
    job->rank_name = yk__calloc(job->world, sizeof *job->rank_name);
    yk_status s = all && job->rank_name ? yk__group_all_gather(job->group, &mine, sizeof mine, all, err)
                                        : yk__fail_mem(err, job->world * sizeof *all, "the table of ranks");
    for (uint32_t r = 0; r < job->world && !s; r++)
        memcpy(job->rank_name[r], all[r].name, sizeof all[r].name);
    if (!s && job->rank == 0 && !job->config.quiet)
        print_table(job, all);
    s = s ? s : make_shares(job, all, err);
    yk__free(all);
    return s;
}

/* A launched process joins its ranks once; jobs that follow one another share the group, which is left at exit. */
static yk__group *joined;
static pid_t joined_by;

static void leave_joined(void)
{
    if (getpid() != joined_by) /* a fork that ends: the group is its parent's */
        return;
    yk__group_leave(joined);
    joined = NULL;
}

static yk_status find_group(yk__group **group, yk_error *err)
{
    if (!yk__launched() && !joined)
        return yk__group_solo(group, err);
    if (!joined) {
        yk_status s = yk__group_join(NULL, &joined, err); /* as the launcher named it: "rank 1 (cpu:1)" */
        if (s)
            return s;
        joined_by = getpid();
        atexit(leave_joined);
        yk__group_place(joined, yk__here_place);
    }
    *group = joined;
    return YK_OK;
}

/* Once the plugin is loaded, as its own variables bear its name. */
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
    if (!yk__group_excludes(job->group))
        return YK_OK;
    member = yk__calloc(job->world, sizeof *member);
    if (!member)
        return yk__fail_mem(err, job->world * sizeof *member, "the ranks of a job");
    for (uint32_t r = 0; r < job->world; r++)
        member[r] = true;
    yk_status s = yk__group_set_members(job->group, member, err);
    yk__free(member);
    return s;
}

static yk_status assemble(yk_job *job, yk_error *err)
{
    yk__placement mine;
    yk_status s = yk__launch_check(err);
    s = s ? s : yk__options_check(err);
    s = s ? s : check_config(job, err);
    s = s ? s : choose(job, &mine, err);
    if (s)
        return s;
    s = find_group(&job->group, err);
    if (s)
        return s;
    job->rank = yk__group_rank(job->group);
    job->world = yk__group_size(job->group);
    s = yk__device_open(&mine, &job->device, err);
    s = s ? s : choose_precision(job, err);
    if (s)
        return s;
    if (job->rank == 0)
        warn_unknown_options();
    if (!job->config.memory_limit)
        job->config.memory_limit = yk__option_size_of(YK__OPTION_MEMORY_LIMIT, job->rank);
    make_scaler(job);
    s = all_members(job, err);
    if (s)
        return s;
    const yk__engine_config c = {.precision = job->precision, .memory_limit = job->config.memory_limit,
                                .dry = job->config.plan_only};
    s = yk__engine_new(job->device, job->group, &c, &job->engine, err);
    return s ? s : exchange_cards(job, err);
}

yk_job *(yk_open)(const yk_config *config)
{
    yk_error err = YK_ERROR_INIT;
    yk_job *job = yk__calloc(1, sizeof *job);
    yk__limit_is_error(); /* or a checkpoint could end the program */
    if (!job)
        return NULL;
    if (config)
        job->config = *config;
    job->gen = 1;
    job->world = 1;
    job->training = true;
    job->loss = job->seed = YK_NONE;
    job->share_leaf = YK_NONE;
    job->key_input = job->rows_input = YK_NONE;
    atomic_fetch_add(&open_jobs, 1);
    yk__graph_init(&job->g);
    if (yk__job_register(job, &err) || assemble(job, &err))
        yk__job_fail(job, &err);
    return job;
}

/* ---- Closing ---- */

static void free_tables(yk_job *job)
{
    for (size_t i = 0; i < job->n_param; i++)
        yk__free(job->param[i].name);
    for (size_t i = 0; i < job->cap_input; i++)
        yk__free(job->input[i].data);
    yk__free(job->param);
    yk__free(job->input);
    yk__free(job->scalar_input);
    yk__free(job->scalar_slot);
    yk__free(job->row);
    yk__sharding_free(job);
    yk__free(job->assign);
    yk__free(job->recompute);
    yk__free(job->packing);
    yk__free(job->kept);
    yk__free(job->limbo);
    yk__free(job->data);
    yk__free(job->log);
    yk__free(job->owned);
    yk__free(job->companion);
    yk__free(job->rank_name);
    yk__free(job->scratch);
    yk__free(job->room.value);
    yk__free(job->room.host);
    yk__free(job->room.input);
    yk__free(job->room.input_bytes);
    yk__free(job->room.need);
    yk__free(job->room.label);
    yk__free(job->room.leaf);
}

static void release_all(yk_job *job)
{
    for (size_t i = job->n_data; i-- > 0;)
        yk__data_free(job->data[i]);
    yk__opt_free(job->opt);
    for (size_t i = job->n_owned; i-- > 0;)
        job->owned[i].release(job->owned[i].object);
    yk__engine_free(job->engine);
    job->engine = NULL;
    yk__kept_clear(job, true);
    yk__device_close(job->device);
    yk__share_free(job->share);
    if (job->group != joined)
        yk__group_leave(job->group);
    yk__topology_free(job->topology);
    yk__graph_free(&job->g);
    free_tables(job);
}

static yk_job *volatile hung; /* the last job whose device hangs: kept, and for who looks for leaks reachable */

int yk_close(yk_job *job)
{
    if (!job)
        return 1;
    if (yk_ok(job))
        yk__log_flush(job, true);
    yk__log_close(job);
    yk_status s = job->error.status;
    if (s && !yk__launch_report(&job->error) && yk__launch_speaks()) /* a launched rank's error is told once, by the launcher */
        yk__log(YK_LOG_ERROR, "error", "%s", job->error.text);
    yk__job_unregister(job);
    if (job->device && job->device->lost) {
        hung = job; /* what its device was given stays, for good */
    } else {
        release_all(job);
        yk__free(job);
        if (atomic_fetch_sub(&open_jobs, 1) == 1)
            yk__plugins_fini();
    }
    return s == YK_OK ? 0 : s == YK_E_ARG || s == YK_E_FORMAT ? 2 : 1;
}

/* ---- Ranks ---- */

static void say_launch(const char *text)
{
    yk__log(YK_LOG_ERROR, "launch", "%s", text);
}

static int run_ranks(yk__placement *place, uint32_t n, char *const *argv)
{
    yk_error err = YK_ERROR_INIT;
    int code = -1;
    if (n > 1)
        yk__launch(place, n, argv, say_launch, &code, &err);
    yk__free(place);
    return code;
}

int yk_launch(const char *devices, char *const *argv)
{
    yk_error err = YK_ERROR_INIT;
    yk__placement *place = NULL;
    uint32_t n = 0;
    if (yk__launched())
        return -1;
    /* in a child process: a driver must not run here before the ranks are forked */
    yk_status s = yk__launch_check(&err);
    s = s ? s : yk__options_check(&err);
    s = s ? s : yk__launch_select(devices ? devices : yk__option_text(YK__OPTION_DEVICES), &place, &n, &err);
    if (!s)
        return run_ranks(place, n, argv);
    if (yk__launch_speaks())
        say_launch(err.text);
    return s == YK_E_ARG || s == YK_E_FORMAT ? 2 : 1;
}

uint32_t yk_rank(const yk_job *job)
{
    return job ? job->rank : 0;
}

uint32_t yk_world(const yk_job *job)
{
    return job ? job->world : 1;
}

bool yk_is_main(const yk_job *job)
{
    return yk_rank(job) == 0;
}

const char *yk_device_name(const yk_job *job, uint32_t rank)
{
    return job && job->rank_name && rank < job->world ? job->rank_name[rank] : "";
}

uint64_t yk_peak_bytes(const yk_job *job)
{
    yk__engine_stats s = {0};
    if (job && job->engine)
        yk__engine_stats_get(job->engine, &s);
    return s.peak_bytes;
}

void yk_memory_get(const yk_job *job, yk_memory *m)
{
    yk__engine_stats s = {0};
    if (job && job->engine)
        yk__engine_stats_get(job->engine, &s);
    *m = (yk_memory){.params = s.param_bytes,
                     .grads = s.grad_bytes,
                     .state = s.state_bytes,
                     .activations = s.kept_bytes < s.arena_bytes ? s.kept_bytes : s.arena_bytes,
                     .inputs = s.input_bytes,
                     .peak = s.peak_bytes,
                     .shared = s.shared_bytes};
    m->scratch = s.arena_bytes - m->activations + s.scratch_bytes;
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

bool yk__job_catch_up(yk_job *job)
{
    yk_error err = YK_ERROR_INIT;
    if (yk_ok(job) && yk__params_ready(job) && yk__engine_catch_up(job->engine, &err))
        yk__job_fail(job, &err);
    return yk_ok(job);
}

/* The hash that counts is rank 0's, or the first member's. */
static bool compare_hashes(yk_job *job, const yk__hashes *all, bool by_all)
{
    uint32_t first = 0;
    char text[256];
    size_t n = 0;
    while (!by_all && !yk__group_member(job->group, first))
        first++;
    for (uint32_t r = 0; r < job->world && n + 64 < sizeof text; r++)
        if ((by_all || yk__group_member(job->group, r)) && !yk__hashes_agree(&all[r], &all[first]))
            n += (size_t)snprintf(text + n, sizeof text - n, "%srank %u (%.32s)", n ? ", " : "", r, job->rank_name[r]);
    if (n)
        yk__job_failf(job, YK_E_INTERNAL, "the parameters of %s differ from those of rank %u (%.32s) after step %llu", text, first,
                      job->rank_name[first], (unsigned long long)yk_steps(job->opt));
    return n == 0;
}

bool yk__job_hash(yk_job *job, bool by_all, uint64_t *hash)
{
    yk_error err = YK_ERROR_INIT;
    yk__hashes mine = {0}, *all = yk__calloc(job->world, sizeof *all);
    const bool reads = by_all || yk__group_member(job->group, job->rank);
    bool same = false;
    if (!all)
        yk__fail_mem(&err, job->world * sizeof *all, "the parameters' hash");
    else if (by_all)
        yk__engine_catch_up(job->engine, &err);
    if (!err.status && reads)
        yk__engine_hashes(job->engine, &mine, &err);
    if (!err.status && by_all)
        yk__group_all_gather(job->group, &mine, sizeof mine, all, &err);
    else if (!err.status)
        yk__group_gather_members(job->group, &mine, sizeof mine, all, &err);
    if (err.status)
        yk__job_fail(job, &err);
    else
        same = compare_hashes(job, all, by_all);
    yk__free(all);
    *hash = mine.values;
    return same;
}

uint64_t yk_param_hash(yk_job *job)
{
    uint64_t hash = 0;
    return yk_ok(job) && yk__params_ready(job) && yk__job_hash(job, true, &hash) ? hash : 0;
}

void yk_sum_ranks(yk_job *job, double *v, uint32_t n)
{
    const uint32_t most = YK_GROUP_MAIL / sizeof *v; /* in one message */
    yk_error err = YK_ERROR_INIT;
    for (uint32_t done = 0; yk_ok(job) && job->world > 1 && done < n; done += most)
        if (yk__group_sum_f64(job->group, v + done, n - done < most ? n - done : most, &err))
            yk__job_fail(job, &err);
}

void yk_barrier(yk_job *job)
{
    yk_error err = YK_ERROR_INIT;
    if (yk_ok(job) && job->world > 1 && yk__group_barrier(job->group, &err))
        yk__job_fail(job, &err);
}

void yk_sync(yk_job *job)
{
    yk_error err = YK_ERROR_INIT;
    if (yk_ok(job) && yk__engine_wait(job->engine, 0, &err))
        yk__job_fail(job, &err);
}

void yk_print(yk_job *job, const char *fmt, ...)
{
    va_list ap;
    if (!yk_is_main(job))
        return;
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    fflush(stdout);
}

/* ---- What hangs on a job ---- */

void yk_owns(yk_job *job, void *object, void (*release)(void *object))
{
    if (!job || yk__grow(&job->owned, &job->cap_owned, job->n_owned + 1, sizeof *job->owned)) {
        release(object);
        if (job)
            yk_fail(job, YK_E_MEM, "out of memory in yk_owns");
        return;
    }
    job->owned[job->n_owned++] = (yk__owned){object, release};
}

static yk_status make_dir(const char *dir, yk_error *err)
{
    char *path = yk__strdup(dir);
    struct stat st;
    if (!path)
        return yk__fail_mem(err, strlen(dir), "a path");
    for (char *p = path + 1; *p; p++)
        if (*p == '/') {
            *p = 0;
            mkdir(path, 0777);
            *p = '/';
        }
    int failed = mkdir(path, 0777), why = errno;
    yk__free(path);
    if (failed && (stat(dir, &st) || !S_ISDIR(st.st_mode)))
        return yk__fail(err, YK_E_IO, "%s: cannot make the folder: %s", dir, strerror(why));
    return YK_OK;
}

void yk_make_dir(yk_job *job, const char *dir)
{
    yk_error err = YK_ERROR_INIT;
    if (!yk_ok(job))
        return;
    if (job->rank == 0 && make_dir(dir, &err)) {
        yk__job_fail(job, &err);
        return;
    }
    yk_barrier(job);
}
