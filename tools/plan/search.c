/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The search of `yoke plan`. It makes the candidates (stages of sharding, recomputation, micro batches, offload to host and disk), plans
 * each one's memory and time, and sorts them.
 *
 * cmd_plan.c calls search_run in the main thread. `yoke estimate-memory` plans each candidate in a child process (child.c), so that a
 * failure ends only that one. With described devices that child has YOKE_TRANSPORT=local. tools/train/train.c applies the chosen one.
 */
#include "tools/plan/search.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "core/base/number.h"
#include "core/base/option.h"
#include "core/base/process/cgroup.h"
#include "core/base/word.h"
#include "core/control/start/origin.h"
#include "core/run/stage.h"
#include "tools/plan/child.h"
#include "tools/plan/describe.h"
#include "tools/plan/disk_probe.h"
#include "tools/plan/step_times.h"
#include "tools/train/train.h"

enum { MOST_ARGS = 2 * YK_CLI_OPTIONS + 24, HALVINGS = 3 };

static const char *const stage_words[] = {"state", "gradients", "params"};
enum { STAGES = sizeof stage_words / sizeof stage_words[0] };

/* Options that the candidates set, that name the devices, or that are the plan's own. */
static const char own_options[] = "config-file|deepspeed|fsdp|fsdp-config|sharded-ddp|parallelism-config|accelerator-config|dry-run|plan|"
                                  "device-file|json|objective|measure|measure-seconds|memory-limit|shard|gradient-checkpointing|"
                                  "global-batch|per-device-train-batch-size|gradient-accumulation-steps|devices|output-dir|disk";
static const char on_host[] = "state=host";
static const char *const away[] = {"activations=host", "state=host,activations=host"};

/* ---- Candidates --------------------------------------------------------------------------------------------------- */

/* True if the host can update for a device that is here; its time, which a busy machine blurs, may be 0. */
static bool host_serves(const search *s)
{
    bool serves = false;
    for (uint32_t i = 0; i < s->devices.n; i++)
        serves = serves || s->devices.row[i].served;
    return serves && !s->described;
}

/* True for a stage that a run accepts, and that the user left open. */
static bool stage_open(const search *s, uint32_t k, const char *offload)
{
    yk__stage stage, typed;
    yk_error err = YK_ERROR_INIT;
    if (yk__stage_read(stage_words[k], "--shard", &stage, &err))
        return false;
    if (yk__cli_typed(s->cli, "shard"))
        return yk__stage_find(yk__cli_text(s->cli, "shard"), &typed) && typed.kind == stage.kind;
    return s->devices.ranks > 1 || k == 0 || (offload && offload != away[0] && host_serves(s)) ||
           yk__cli_typed(s->cli, "offload"); /* to the host a rank alone sends slices, too */
}

/* Appends the candidates of each stage. */
static void candidates_make(search *s, const char *offload, uint64_t batch, uint64_t micros)
{
    const bool asked = yk__cli_on(s->cli, "gradient-checkpointing");
    const bool settled = yk__cli_typed(s->cli, "gradient-checkpointing");
    for (uint32_t k = 0; k < STAGES; k++)
        for (int again = settled && asked; stage_open(s, k, offload) && again <= !(s->has_no_blocks || (settled && !asked)); again++)
            for (uint32_t i = 0; i <= HALVINGS && batch % (1u << i) == 0; i++) {
                const uint64_t rows = batch >> i;
                if ((i && rows < s->devices.ranks) || s->n == SEARCH_MOST)
                    break;
                s->list[s->n++] = (candidate){
                    .shard = stage_words[k], .offload = offload, .recomputes = again, .batch = rows, .micros = micros << i};
            }
}

/* True if the user left the place of the state open, and a candidate does not fit. */
static bool state_open(const search *s)
{
    bool tight = false;
    for (uint32_t i = 0; i < s->n; i++)
        tight = tight || !s->list[i].fits;
    return tight && !yk__cli_typed(s->cli, "offload");
}

/* True if no candidate fits, and the user left the place of activations open. */
static bool none_fits(const search *s)
{
    bool fits = false;
    for (uint32_t i = 0; i < s->n; i++)
        fits = fits || s->list[i].fits;
    return !fits && !yk__cli_typed(s->cli, "offload");
}

/* ---- A candidate's plan ------------------------------------------------------------------------------------------- */

/* The user's options as they were read, for a child that plans. */
static int user_arguments(const yk__cli *cli, char **argv, char (*names)[48])
{
    int n = 0;
    for (size_t i = 0; i < cli->command->n_options; i++) {
        const yk__cli_option *o = &cli->command->options[i];
        const size_t length = strcspn(o->name, "|");
        if (!cli->typed[i] || yk__cli_is_named(own_options, o->name, length) || o->arg == YK_REFUSED)
            continue;
        snprintf(names[i], sizeof names[i], "--%s%.*s", o->arg || cli->value[i] ? "" : "no-", (int)length, o->name);
        argv[n++] = names[i];
        if (o->arg)
            argv[n++] = child_word(cli->value[i]);
    }
    return n;
}

/* The devices for the child: present ones; for described ones processors in their place, which exchange by messages. */
static const char *planning_devices(const search *s)
{
    const char *given = yk__cli_text(s->cli, "devices");
    if (s->described)
        return s->devices.ranks > 1 ? "cpu:0! cpu:0!" : "cpu:0!";
    return given && *given ? given : "cpu";
}

/* The word of --shard: the user's own one may say more than its stage (hybrid_shard). */
static const char *candidate_shard(const search *s, const candidate *c)
{
    return yk__cli_typed(s->cli, "shard") ? yk__cli_text(s->cli, "shard") : c->shard;
}

/* timed: seconds to run steps for; 0: it is planned alone. most: seconds of the child. */
static json_t *candidate_run(const search *s, const candidate *c, double timed, double most, yk_error *err)
{
    static char names[YK_CLI_OPTIONS][48];
    char *argv[MOST_ARGS], batch[24], micros[24], text[24];
    const uint64_t ranks = s->devices.ranks, planned = ranks > 1 ? 2 : 1;
    const uint64_t rows = s->described ? (c->batch + ranks - 1) / ranks * planned : c->batch;
    int n = 0;
    snprintf(batch, sizeof batch, "%llu", (unsigned long long)rows);
    snprintf(micros, sizeof micros, "%llu", (unsigned long long)(s->described && c->micros > 2 ? 2 : c->micros)); /* more: no more bytes */
    argv[n++] = s->program;
    argv[n++] = child_word("estimate-memory");
    n += user_arguments(s->cli, argv + n, names);
    const char *const words[] = {"--json", "--no-compile", "--config-file", "none", "--devices", planning_devices(s), "--shard",
                                 candidate_shard(s, c), "--global-batch", batch, "--gradient-accumulation-steps", micros};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        argv[n++] = child_word(words[i]);
    if (c->recomputes)
        argv[n++] = child_word("--gradient-checkpointing");
    if (c->offload) {
        argv[n++] = child_word("--offload");
        argv[n++] = child_word(c->offload);
    }
    if (timed > 0) {
        snprintf(text, sizeof text, "%.3f", timed);
        argv[n++] = child_word("--timed-seconds");
        argv[n++] = text;
    }
    argv[n] = NULL;
    return describe_run(argv, most, err);
}

static double bytes_of(const json_t *rank, const char *name)
{
    return json_number_value(json_object_get(rank, name));
}

/* Index of the first rank of a row of devices, as the job numbers them. */
static uint32_t first_rank(const devices *d, const json_t *ranks, uint32_t row, bool described)
{
    const size_t n = json_array_size(ranks);
    for (size_t i = 0; i < n && !described; i++)
        if (!strcmp(json_string_value(json_object_get(json_array_get(ranks, i), "device")), d->row[row].name))
            return (uint32_t)i;
    return 0;
}

/* A planned rank of two stands for a described one of many: slices are smaller, and its own blocks for messages are its memory. */
static double rank_bytes(const search *s, const json_t *rank, double shared)
{
    const double peak = bytes_of(rank, "peak_bytes"), sliced = bytes_of(json_object_get(rank, "work"), "sliced");
    if (!s->described)
        return peak;
    return s->devices.ranks > 1 ? peak - sliced + sliced * 2 / s->devices.ranks + shared : peak;
}

static double limit_of(const search *s, uint32_t row)
{
    uint32_t rank = 0;
    for (uint32_t i = 0; i < row; i++)
        rank += s->devices.row[i].count;
    const double limit = (double)yk__option_size_of(YK__OPTION_MEMORY_LIMIT, rank);
    return limit > 0 ? limit : 0;
}

/* The host's memory, or a container's part of it. */
static double host_bytes(void)
{
    uint64_t limit, left;
    yk__cgroup_memory(&limit, &left); /* without a limit: UINT64_MAX */
    return fmin((double)limit, (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE));
}

/* Compares a place's need with its room (0: unknown); true if no other place has been as tight. */
static bool place_check(candidate *c, const char *where, double needs, double has)
{
    const bool tighter = !c->needs || (has > 0 && (!(c->has > 0) || needs / has > c->needs / c->has));
    c->fits = c->fits && (!(has > 0) || needs <= has);
    if (!tighter)
        return false;
    c->where = where;
    c->needs = needs;
    c->has = has;
    return true;
}

/* Processors of a host share its memory, unless limits part it. */
static void row_check(const search *s, candidate *c, uint32_t i, const json_t *rank, double bytes)
{
    const device_row *row = &s->devices.row[i];
    const double limit = limit_of(s, i);
    const bool pooled = row->host && !limit && !s->described;
    if (!place_check(c, row->name, pooled ? c->all : bytes, limit ? limit : (double)row->memory))
        return;
    c->activations = bytes_of(rank, "activation_bytes") + bytes_of(rank, "scratch_bytes");
    c->state = bytes_of(rank, "state_bytes");
}

/* The state on disk. Ranks that are here share one disk; a described rank has its own, and a slice of its job's size. */
static void disk_read(const search *s, candidate *c, const json_t *ranks)
{
    const devices *d = &s->devices;
    for (uint32_t i = 0; i < d->n && !s->described; i++)
        c->file += d->row[i].count * bytes_of(json_array_get(ranks, first_rank(d, ranks, i, false)), "disk_bytes");
    c->disk = 2 * (s->described ? bytes_of(json_array_get(ranks, 0), "disk_bytes") * (d->ranks > 1 ? 2.0 / d->ranks : 1) : c->file);
    if (c->file > 0 && place_check(c, s->folder, c->file, s->free_bytes))
        c->activations = 0;
}

static void memory_read(const search *s, candidate *c, const json_t *o)
{
    const devices *d = &s->devices;
    const json_t *ranks = json_object_get(o, "ranks");
    const double shared = json_number_value(json_object_get(o, "shared_bytes"));
    c->shared = s->described ? 0 : shared;
    c->fits = true;
    for (uint32_t i = 0; i < d->n; i++)
        c->host += d->row[i].count * bytes_of(json_array_get(ranks, first_rank(d, ranks, i, s->described)), "host_bytes");
    c->all = c->shared + c->host;
    for (uint32_t i = 0; i < d->n; i++) {
        const double bytes = rank_bytes(s, json_array_get(ranks, first_rank(d, ranks, i, s->described)), shared);
        c->largest = fmax(c->largest, bytes);
        c->all += bytes * d->row[i].count;
    }
    for (uint32_t i = 0; i < d->n; i++) {
        const json_t *rank = json_array_get(ranks, first_rank(d, ranks, i, s->described));
        row_check(s, c, i, rank, rank_bytes(s, rank, shared));
    }
    if (c->host > 0 && place_check(c, "the host", c->shared + c->host, host_bytes()))
        c->activations = c->state = 0;
    disk_read(s, c, ranks);
}

static void time_read(const search *s, candidate *c, const json_t *o)
{
    const devices *d = &s->devices;
    const json_t *ranks = json_object_get(o, "ranks");
    const char *shares = yk__cli_text(s->cli, "shares");
    for (uint32_t i = 0; i < d->n; i++)
        c->work[i] = describe_work(json_object_get(json_array_get(ranks, first_rank(d, ranks, i, s->described)), "work"));
    const bool slices = strcmp(c->shard, "state") != 0;
    const double part = json_number_value(json_object_get(json_array_get(ranks, 0), "host_part"));
    const bool by_speed = !shares || !strcmp(shares, "speed");
    c->seconds = cost_step(&(cost_case){d, c->work, (double)c->micros, by_speed, slices, part, c->disk}, c->rank);
    c->wire = cost_wire(&c->work[0], d->ranks, (double)c->micros, slices);
}

/* Plans without the limit in YOKE_MEMORY_LIMIT. */
static json_t *unlimited_run(const search *s, const candidate *c, yk_error *err)
{
    char *limit;
    child_set("YOKE_MEMORY_LIMIT", NULL, &limit);
    json_t *o = candidate_run(s, c, 0, DESCRIBE_MOST, err);
    child_restore("YOKE_MEMORY_LIMIT", &limit);
    return o;
}

/* Under a limit the planner recomputes more, as in the run; a candidate that cannot be planned so tells its need without. A rank that
 * stands for a described one has other slices, which a limit would not fit. */
static json_t *limited_run(const search *s, candidate *c, yk_error *err)
{
    if (s->described)
        return unlimited_run(s, c, err);
    json_t *o = candidate_run(s, c, 0, DESCRIBE_MOST, err);
    if (o || !getenv("YOKE_MEMORY_LIMIT"))
        return o;
    c->refusal = yk__strdup(err->text);
    *err = (yk_error)YK_ERROR_INIT;
    return unlimited_run(s, c, err);
}

static bool candidate_plan(const search *s, candidate *c, yk_error *err)
{
    json_t *o;
    c->rank = calloc(s->devices.n, sizeof *c->rank);
    c->work = calloc(s->devices.n, sizeof *c->work);
    if (!c->rank || !c->work)
        return !yk__fail_mem(err, s->devices.n * sizeof *c->rank, "a plan");
    o = limited_run(s, c, err);
    if (o) {
        memory_read(s, c, o);
        c->fits = c->fits && !c->refusal;
        time_read(s, c, o);
    }
    json_decref(o);
    return !err->status;
}

static void candidate_free(candidate *c)
{
    free(c->rank);
    free(c->work);
    yk__free(c->refusal);
    yk__free(c->failure);
}

bool search_plan(const search *s, candidate *c)
{
    yk_error err = YK_ERROR_INIT;
    return candidate_plan(s, c, &err);
}

void search_drop(candidate *c)
{
    candidate_free(c);
}

bool search_hung(const search *s)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (s->list[i].failure)
            return true;
    return false;
}

double search_timed(const search *s, const candidate *c, double seconds, double most, yk_error *err)
{
    json_t *o = candidate_run(s, c, seconds, most, err);
    const double least = json_number_value(json_object_get(o, "step_s"));
    json_decref(o);
    return isfinite(least) ? least : 0;
}

static bool stage_same(const candidate *a, const candidate *b)
{
    return a->shard == b->shard && a->offload == b->offload;
}

/* Removes the candidates of one's stage, which stand together, and says why. Returns the index behind the planned ones that stay. */
static uint32_t stage_drop(search *s, candidate one, const char *why)
{
    uint32_t first = 0, end;
    while (!stage_same(&s->list[first], &one))
        first++;
    for (end = first; end < s->n && stage_same(&s->list[end], &one); end++)
        candidate_free(&s->list[end]);
    memmove(&s->list[first], &s->list[end], (s->n - end) * sizeof s->list[0]);
    s->n -= end - first;
    fprintf(stderr, "yoke %s: --shard %s%s%s is no candidate: %s\n", s->cli->command->name, one.shard, one.offload ? " --offload " : "",
            one.offload ? one.offload : "", why);
    return first;
}

/* Removes the candidates from `first` on that compute blocks again, as the model has none, and makes no more of them. */
static void recomputes_drop(search *s, uint32_t first, const char *why)
{
    uint32_t kept = first;
    for (uint32_t i = first; i < s->n; i++) {
        if (s->list[i].recomputes)
            candidate_free(&s->list[i]);
        else
            s->list[kept++] = s->list[i];
    }
    s->n = kept;
    s->has_no_blocks = true;
    fprintf(stderr, "yoke %s: --gradient-checkpointing is no candidate: %s\n", s->cli->command->name, why);
}

/* A run refuses some stages beside some options (--offload) or ranks (messages), and recomputing for some models. Such a candidate is left
 * out, unless nothing else is there. A stage's candidates that recompute stand behind its other ones. */
static bool candidates_plan(search *s, uint32_t from, yk_error *err)
{
    for (uint32_t i = from; i < s->n;) {
        if (candidate_plan(s, &s->list[i], err)) {
            i++;
            continue;
        }
        const bool again = s->list[i].recomputes && i && stage_same(&s->list[i], &s->list[i - 1]);
        if ((stage_same(&s->list[i], &s->list[0]) && !again) || (err->status != YK_E_ARG && err->status != YK_E_TIMEOUT))
            return false;
        if (again)
            recomputes_drop(s, i, err->text);
        else
            i = stage_drop(s, s->list[i], err->text);
        *err = (yk_error)YK_ERROR_INIT;
    }
    return true;
}

/* ---- Order -------------------------------------------------------------------------------------------------------- */

/* Parts that move: of candidates that are alike in time, the one with fewer comes first. */
static double candidate_parts(const candidate *c)
{
    const int place = !c->offload ? 0 : c->offload == on_host ? 3 : c->offload == away[1] ? 5 : 4;
    return (strcmp(c->shard, "state") != 0 ? 2 : 0) + place + c->recomputes + 0.1 * log2((double)c->micros);
}

static bool orders_by_memory;

static int candidate_compare(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    if (x->fits != y->fits)
        return x->fits ? -1 : 1;
    const double of_x = orders_by_memory ? x->all : x->seconds * (1 + 0.005 * candidate_parts(x));
    const double of_y = orders_by_memory ? y->all : y->seconds * (1 + 0.005 * candidate_parts(y));
    return of_x < of_y ? -1 : of_x > of_y;
}

/* ---- All ---------------------------------------------------------------------------------------------------------- */

static bool devices_find(search *s, int *code)
{
    const char *file = yk__cli_text(s->cli, "device-file"), *precision = yk__cli_text(s->cli, "precision");
    const char *format = yk__cli_on(s->cli, "bf16") ? "bf16" : yk__cli_on(s->cli, "fp16") ? "fp16" : precision;
    yk_error err = YK_ERROR_INIT;
    *code = YK_EXIT_USAGE;
    s->described = file != NULL;
    if (file && !devices_load(file, &s->devices, &err) && strcmp(s->devices.precision, format)) {
        yk__cli_usage(s->cli->command, "%s: its times are of %s, and the plan is for %s: yoke info --describe --precision %s", file,
                      s->devices.precision, format, format);
        return false;
    }
    if (!file)
        describe_devices(&(describe_ask){s->cli->command->name, s->program, yk__cli_text(s->cli, "devices"), format,
                                         yk__cli_on(s->cli, "allow-substitute"), yk__cli_on(s->cli, "measure")},
                         &s->devices, &err);
    if (err.status)
        yk__cli_usage(s->cli->command, "%s", err.text);
    return !err.status;
}

/* Finds the folder of the state on disk. */
static bool folder_find(search *s)
{
    const char *disk = yk__cli_text(s->cli, "disk");
    const char *offload = yk__cli_typed(s->cli, "offload") ? yk__cli_text(s->cli, "offload") : NULL;
    s->on_disk = disk ? yk__format("state=nvme:%s", disk) : NULL;
    s->folder = yk__offload_folder(offload ? offload : s->on_disk);
    if (disk && (!s->folder || strpbrk(disk, " \t,:") || (offload && strcmp(s->folder, disk)))) {
        yk__cli_usage(s->cli->command, "--disk %s: expected a folder without blanks, commas and colons in its name, and no --offload to "
                      "another one", disk);
        return false;
    }
    if (s->folder && (strlen(s->folder) > FOLDER_MOST || strlen(disk ? s->on_disk : offload) > FOLDER_MOST + 64)) {
        yk__cli_usage(s->cli->command, "--%s: expected a folder of at most %d bytes, got %zu", disk ? "disk" : "offload", FOLDER_MOST,
                      strlen(s->folder));
        return false;
    }
    if (disk && !yk__cli_text(s->cli, "device-file") && access(disk, W_OK | X_OK)) {
        yk__cli_usage(s->cli->command, "--disk %s: expected a folder to write to, got: %s", disk, strerror(errno));
        return false;
    }
    return true;
}

/* Finds the disk's time: of the file of devices, or measured. A folder of --offload that is not there yet has none, and a line says so. */
static bool disk_find(search *s)
{
    const char *file = yk__cli_text(s->cli, "device-file");
    struct statvfs disk_space;
    yk_error err = YK_ERROR_INIT;
    if (s->described && s->folder && !(s->devices.disk > 0))
        yk__fail(&err, YK_E_ARG, "--%s %s: %s has no time of a disk: give \"disk\", seconds of a byte", s->on_disk ? "disk" : "offload",
                 s->folder, file);
    if (s->folder && !s->described) {
        if (statvfs(s->folder, &disk_space) == 0)
            s->free_bytes = (double)disk_space.f_bavail * (double)disk_space.f_frsize;
        if (access(s->folder, W_OK | X_OK) == 0)
            disk_probe(s->folder, &s->devices.disk, &err);
        else
            fprintf(stderr, "yoke %s: %s is not there yet: times do not know this disk\n", s->cli->command->name, s->folder);
    }
    if (err.status)
        yk__cli_usage(s->cli->command, "%s", err.text);
    return !err.status;
}

/* Rows of a micro batch over all ranks. */
static uint64_t batch_of(const search *s, bool *bad)
{
    const int64_t all = yk__cli_int(s->cli, "global-batch", 1, 1 << 20, bad);
    return all ? (uint64_t)all : s->devices.ranks * (uint64_t)yk__cli_int(s->cli, "per-device-train-batch-size", 1, 1 << 20, bad);
}

static bool batch_enough(const search *s, uint64_t batch)
{
    if (batch >= s->devices.ranks)
        return true;
    yk__cli_usage(s->cli->command, "--global-batch %llu: %u ranks need a row each: expected %u or more", (unsigned long long)batch,
                  s->devices.ranks, s->devices.ranks);
    return false;
}

/* Plans the candidates with the state in one more place. */
static bool places_plan(search *s, const char *offload, uint64_t batch, uint64_t micros, yk_error *err)
{
    const uint32_t n = s->n;
    candidates_make(s, offload, batch, micros);
    fprintf(stderr, "yoke %s: plans the memory of %u candidate%s%s%s\n", s->cli->command->name, s->n - n, s->n - n == 1 ? "" : "s",
            offload ? " with --offload " : "", offload ? offload : "");
    return candidates_plan(s, n, err);
}

bool search_run(search *s, const yk__cli *cli, bool by_memory, char *program, int *code)
{
    bool bad = false;
    char *transport;
    yk_error err = YK_ERROR_INIT;
    *s = (search){.cli = cli, .program = program, .by_memory = by_memory};
    *code = YK_EXIT_USAGE;
    if (!folder_find(s) || !devices_find(s, code) || !disk_find(s))
        return false;
    const uint64_t batch = batch_of(s, &bad);
    const uint64_t micros = (uint64_t)yk__cli_int(cli, "gradient-accumulation-steps", 1, 1 << 20, &bad);
    const double seconds = yk__cli_real(cli, "measure-seconds", 0, 1e6, &bad);
    if (bad || !batch_enough(s, batch))
        return false;
    child_set("YOKE_TRANSPORT", s->described ? "local" : getenv("YOKE_TRANSPORT"), &transport); /* local: ranks with memory of their own */
    bool planned = places_plan(s, NULL, batch, micros, &err);
    if (planned && state_open(s) && host_serves(s))
        planned = places_plan(s, on_host, batch, micros, &err);
    if (planned && state_open(s) && s->on_disk)
        planned = places_plan(s, s->on_disk, batch, micros, &err);
    for (int i = 0; i < 2 && planned && none_fits(s) && host_serves(s); i++)
        planned = places_plan(s, away[i], batch, micros, &err);
    child_restore("YOKE_TRANSPORT", &transport);
    if (!planned) {
        yk__cli_usage(cli->command, "%s", err.text);
        return false;
    }
    if (!s->described && seconds > 0)
        steps_measure(s, seconds);
    orders_by_memory = s->by_memory;
    qsort(s->list, s->n, sizeof s->list[0], candidate_compare);
    return true;
}

void search_free(search *s)
{
    for (uint32_t i = 0; i < s->n; i++)
        candidate_free(&s->list[i]);
    devices_free(&s->devices);
    yk__free(s->folder);
    yk__free(s->on_disk);
}

void search_options(const search *s, const candidate *c, char *text, size_t size)
{
    size_t n = (size_t)snprintf(text, size, "--shard %s", candidate_shard(s, c));
    if (c->offload)
        n += (size_t)snprintf(text + n, size - n, " --offload %s", c->offload);
    if (c->recomputes)
        n += (size_t)snprintf(text + n, size - n, " --gradient-checkpointing");
    snprintf(text + n, size - n, " --global-batch %llu --gradient-accumulation-steps %llu", (unsigned long long)c->batch,
             (unsigned long long)c->micros);
}

/* In quotes where a shell would read more than the word. */
static void word_print(const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=,+@%";
    if (*word && strspn(word, plain) == strlen(word)) {
        printf(" %s", word);
        return;
    }
    printf(" '");
    for (; *word; word++)
        printf(*word == '\'' ? "'\\''" : "%c", *word);
    printf("'");
}

void search_print(const search *s, const candidate *c)
{
    static const char *const of_run[] = {"devices", "memory-limit", "output-dir"}; /* not for a child that plans */
    static char names[YK_CLI_OPTIONS][48];
    char *given[MOST_ARGS], text[OPTIONS_MOST], *rest;
    const int n = user_arguments(s->cli, given, names);
    search_options(s, c, text, sizeof text);
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        word_print(word);
    for (int i = 0; i < n; i++)
        word_print(given[i]);
    for (size_t i = 0; i < sizeof of_run / sizeof of_run[0]; i++)
        if (yk__cli_typed(s->cli, of_run[i])) {
            printf(" --%s", of_run[i]);
            word_print(yk__cli_text(s->cli, of_run[i]));
        }
}

/* ---- yoke train --plan auto --------------------------------------------------------------------------------------- */

/* Splits the options at blanks behind argv: none of their values has one. */
static char **options_append(char **argv, int *argc, char *text)
{
    enum { MOST = 16 };
    char **all = calloc((size_t)*argc + MOST, sizeof *all), *rest;
    if (!all)
        return NULL;
    memcpy(all, argv, (size_t)*argc * sizeof *all);
    for (char *one = strtok_r(text, " ", &rest); one; one = strtok_r(NULL, " ", &rest))
        all[(*argc)++] = one;
    return all;
}

char **search_apply(const yk__cli *cli, char *program, int *argc, char **argv, int *code)
{
    static search s;
    static char text[OPTIONS_MOST + 64];
    char **all = NULL;
    *code = YK_EXIT_FAILED;
    if (yk__launched()) {
        *code = yk__cli_usage(cli->command, "--plan auto: this process is a rank of a job, and a plan is made before ranks start: give "
                              "the options that yoke plan prints");
        return NULL;
    }
    if (search_run(&s, cli, false, program, code) && s.n && s.list[0].fits) {
        search_options(&s, &s.list[0], text, sizeof text);
        fprintf(stderr, "yoke train: plan: %s\n", text);
        const size_t n = strlen(text);
        snprintf(text + n, sizeof text - n, " --plan %s", yk__number_text(s.list[0].seconds * 1e3, 4).text);
        all = options_append(argv, argc, text);
    } else if (s.n) {
        *code = YK_EXIT_FAILED;
        yk__cli_usage(cli->command, search_hung(&s) ? "--plan auto: no candidate is left, as steps hung: yoke plan says which"
                                                    : "--plan auto: no candidate fits: yoke plan lists the bytes that each one needs");
    }
    search_free(&s);
    return all;
}
