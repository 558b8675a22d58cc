/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command yoke estimate-memory: plans a training step like the run itself, without making or running anything, and prints bytes by
 * purpose. yoke.c calls it by its table of commands, in the main thread of each rank. Nothing is compiled, except for a device whose
 * compiler alone knows a program's memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/number.h"
#include "core/job/team/host_place.h"
#include "core/run/host_device.h"
#include "tools/bench/sample_time.h"
#include "tools/config/apply.h"
#include "tools/config/config_shard.h"
#include "tools/plan/table.h"
#include "tools/train/spellings.h"
#include "tools/train/train_options.h"

static const yk__cli_option options[] = {
    TRAIN_MODEL_OPTIONS,
    TRAIN_RUN_OPTIONS,
    SHARD_OPTIONS,
    {"threads", "N", NULL, "the CPU's first N cores, instead of --devices", NULL},
    {"no-compile", NULL, NULL, "compile nothing, also for a device whose compiler alone knows a program's memory", NULL},
    {"timed-seconds", "S", NULL, "run steps on the devices, too, for about S seconds, and print the time of one", NULL},
    TRAIN_REFUSED_OPTIONS,
    TRAIN_REFUSED("dtypes", "--precision names one format: run it once for each"),
};

static const yk__cli_spelling spellings[] = {
    TRAIN_SPELLINGS, TRAIN_RUN_SPELLINGS, {"library-name", "NAME", NULL, NULL, NULL, "config.json of the folder names the model"}};

static const yk__cli_command command = {
    .name = "estimate-memory",
    .usage = "--model NAME|--from DIR [--data KIND:PATH] [the options of yoke train]",
    .summary = "tell beforehand how much memory a training step takes",
    .text = "Plans a training step as the run itself would, for each rank, and prints the bytes its device will be asked for:\n"
            "exactly those, since the very same code plans both. Nothing is allocated on the device or computed, so\n"
            "that models that do not fit here have an answer too. Nothing is compiled, unless a device's compiler alone knows\n"
            "what its programs take (PJRT). Then lines say what the largest program takes, by its compiler's account, and how\n"
            "long compiling took: its arguments and results, what of the results lies where arguments lay, temporary memory,\n"
            "which counts as working memory, and code. The cache folder keeps what was compiled for the run; with --no-compile\n"
            "such memory is not known, and not counted.\n"
            "\n"
            "Parameters include the 16-bit copies that products read in mixed precision (none under a memory limit).\n"
            "Activations are what the forward pass leaves for the backward pass; working memory is the most that lies beside\n"
            "them in the same block, at another time or at the same, with what the plugin packs operands into (where it\n"
            "reports it). Shared: the host memory in which several ranks exchange gradients and parameters, once for all of them,\n"
            "and the 16-bit copies that processors of one host read together;\n"
            "where they send messages, of rank 0, with what YOKE_WIRE=int8 keeps. On the host: memory that --offload state=host takes for\n"
            "a rank, beside shared memory. On disk: a rank's file with --offload state=nvme:DIR, whose folder need not exist here.\n"
            "With --data the vocabulary, the classes and the lengths of rows are the data's, and batches are read from them: of rows of\n"
            "text the first 256. Without, batches are random numbers of the model's sizes, as long as --seq-len or --max-length says.\n"
            "\n"
            "With --timed-seconds the ranks also train on the devices, with the memory of a run, and the report ends with the least\n"
            "time of a step. Bytes are then those of training alone.\n"
            "\n"
            "An evaluation takes its working memory from the same block, and inputs and results of its own; a training without\n"
            "evaluation data has --eval-strategy no here, where --data does not say so. What a device's driver or the\n"
            "program itself need is not in it, nor\n"
            "what yoke train's --do-predict adds. The options are yoke train's, so that its command\n"
            "line and its files of settings can be asked for; those that change no memory have no effect.\n"
            "Without --devices or YOKE_DEVICES: cpu.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .spellings = spellings,
    .n_spellings = sizeof spellings / sizeof spellings[0],
};

/* The account of a rank's largest program, in the order of yk_program_memory's members. */
enum { ARGUMENT, RESULT, ALIAS, TEMPORARY, CODE, PROGRAMS, SECONDS, ACCOUNT };
/* Bytes of memory, the last of all ranks; then work; then the account, of which PROGRAMS is 0 where none is known. */
enum { SIZES = 10, OF_RANK = SIZES - 1, AT_ACCOUNT = SIZES + WORK_FIELDS, FIELDS = AT_ACCOUNT + ACCOUNT };

static void account_fields(const yk_job *job, double v[ACCOUNT])
{
    yk__engine_stats s;
    yk__engine_stats_get(job->engine, &s);
    v[ARGUMENT] = (double)s.largest.argument;
    v[RESULT] = (double)s.largest.result;
    v[ALIAS] = (double)s.largest.alias;
    v[TEMPORARY] = (double)s.largest.temporary;
    v[CODE] = (double)s.largest.code;
    v[PROGRAMS] = (double)s.accounts;
    v[SECONDS] = s.accounts ? s.compile_seconds : 0;
}

/* Bytes on the device of a run of the program. */
static double account_total(const double v[ACCOUNT])
{
    return v[ARGUMENT] + v[RESULT] - v[ALIAS] + v[TEMPORARY] + v[CODE];
}

static void account_print_json(const double v[ACCOUNT])
{
    static const char *const names[] = {"argument", "result", "alias", "temporary", "code"};
    if (!v[PROGRAMS])
        return;
    printf(", \"program\": {");
    for (int i = 0; i < PROGRAMS; i++)
        printf("\"%s\": %.0f, ", names[i], v[i]);
    printf("\"total\": %.0f}, \"programs\": %.0f, \"compile_seconds\": %.3f", account_total(v), v[PROGRAMS], v[SECONDS]);
}

static void rank_fields(const yk_job *job, double v[FIELDS])
{
    const work counted = work_count(job);
    yk_memory now, *m = &now;
    yk_memory_get(job, m);
    const uint64_t all[SIZES] = {m->params, m->grads,  m->state, m->activations,
                                 m->scratch, m->inputs, m->peak,  m->host, m->disk,  m->shared};
    for (int i = 0; i < SIZES; i++)
        v[i] = (double)all[i];
    memcpy(v + SIZES, &counted, sizeof counted);
    account_fields(job, v + AT_ACCOUNT);
}

/* A device's facts for a plan, of all ranks on each rank. */
typedef struct device_facts {
    char model[sizeof((yk_device_caps *)0)->name];
    uint64_t memory; /* bytes: free ones of a card, as in a run; the host's all */
    bool host;   /* its memory is the host's */
    bool served; /* --offload lets the host update for it */
    double updated; /* the host's part of the parameters; 0 without --offload */
} device_facts;

static double host_part(const yk_job *job)
{
    yk__engine_stats s;
    yk__engine_stats_get(job->engine, &s);
    return yk__job_offload(job) && s.trained_elements ? (double)s.host_elements / (double)s.trained_elements : 0;
}

static void facts_print(const device_facts *f)
{
    printf(", \"model\": ");
    yk__json_text(f->model);
    printf(", \"memory\": %llu, \"host\": %s, \"served\": %s, \"host_part\": %s", (unsigned long long)f->memory,
           f->host ? "true" : "false", f->served ? "true" : "false", yk__number_text(f->updated, 6).text);
}

static void print_json(yk_job *job, const double *v, const device_facts *facts, const timed *t)
{
    static const char *const names[] = {"parameter_bytes", "gradient_bytes", "state_bytes", "activation_bytes",
                                        "scratch_bytes",   "input_bytes",    "peak_bytes", "host_bytes", "disk_bytes"};
    printf("{\"ranks\": [");
    for (uint32_t r = 0; r < yk_world_size(job); r++) {
        printf("%s{\"device\": ", r ? ", " : "");
        yk__json_text(yk_device_name(job, r));
        for (int i = 0; i < OF_RANK; i++)
            printf(", \"%s\": %.0f", names[i], v[r * FIELDS + (uint32_t)i]);
        facts_print(&facts[r]);
        printf(", \"work\": ");
        work_print(v + r * FIELDS + SIZES);
        account_print_json(v + r * FIELDS + AT_ACCOUNT);
        printf("}");
    }
    printf("], \"shared_bytes\": %.0f", v[SIZES - 1]);
    if (t->steps > 0)
        printf(", \"step_s\": %.6g, \"processor_s\": %.6g, \"timed_steps\": %.0f", t->seconds, t->processor, t->steps);
    printf("}\n");
}

/* Rows of the ranks' accounts; none if no rank has one. */
static void accounts_print(yk_job *job, const double *v)
{
    static const char *const names[] = {"largest program:", "  arguments", "  results", "  of them in place", "  temporary", "  code"};
    const uint32_t world = yk_world_size(job);
    char text[32];
    double known = 0;
    for (uint32_t r = 0; r < world; r++)
        known += v[r * FIELDS + AT_ACCOUNT + PROGRAMS];
    if (!known)
        return;
    for (int i = 0; i <= PROGRAMS; i++) {
        printf("%-18s", names[i]);
        for (uint32_t r = 0; r < world; r++) {
            const double *a = v + r * FIELDS + AT_ACCOUNT;
            printf(" %14s", !a[PROGRAMS] ? "-" : table_bytes_text(i ? a[i - 1] : account_total(a), text, sizeof text));
        }
        printf("\n");
    }
    printf("%-18s", "compiling, s");
    for (uint32_t r = 0; r < world; r++)
        printf(" %14.1f", v[r * FIELDS + AT_ACCOUNT + SECONDS]);
    printf("\n");
}

static double column_sum(const yk_job *job, const double *v, int i)
{
    double sum = 0;
    for (uint32_t r = 0; r < yk_world_size(job); r++)
        sum += v[r * FIELDS + (uint32_t)i];
    return sum;
}

static void print_table(yk_job *job, const double *v, const timed *t)
{
    static const char *const names[] = {"parameters", "gradients", "optimizer, state", "activations",
                                        "working memory", "inputs, results", "peak", "on the host", "on disk"};
    char text[32];
    printf("%-18s", "");
    for (uint32_t r = 0; r < yk_world_size(job); r++)
        printf(" %14.14s", yk_device_name(job, r));
    for (int i = 0; i < OF_RANK; i++) {
        if (i >= OF_RANK - 2 && !column_sum(job, v, i))
            continue;
        printf("\n%-18s", names[i]);
        for (uint32_t r = 0; r < yk_world_size(job); r++)
            printf(" %14s", table_bytes_text(v[r * FIELDS + (uint32_t)i], text, sizeof text));
    }
    printf("\n");
    if (yk_world_size(job) > 1)
        printf("%-18s %14s\n", "shared by all", table_bytes_text(v[SIZES - 1], text, sizeof text));
    accounts_print(job, v);
    if (t->steps > 0)
        printf("%-18s %14.3f\n", "least step, ms", 1e3 * t->seconds);
}

static void estimate_report(sample *s, const timed *t)
{
    const uint32_t world = yk_world_size(s->job);
    double *v = calloc((size_t)world * FIELDS, sizeof *v);
    device_facts *facts = calloc(world, sizeof *facts);
    const yk_device_caps *caps = &s->job->device->caps;
    const bool host = caps->flags & YK_CAP_CPU;
    device_facts own = {.memory = !host && caps->mem_free ? caps->mem_free : caps->mem_total,
                        .host = host,
                        .served = yk__host_serves(s->job->device),
                        .updated = host_part(s->job)};
    if (!v || !facts) {
        yk_fail(s->job, YK_E_MEM, "out of memory for the report");
        free(v);
        free(facts);
        return;
    }
    snprintf(own.model, sizeof own.model, "%s", caps->name);
    yk_gather(s->job, &own, sizeof own, facts);
    rank_fields(s->job, v + (size_t)yk_rank(s->job) * FIELDS);
    yk_all_reduce_sum(s->job, v, world * FIELDS);
    if (yk_ok(s->job) && yk_is_main(s->job) && yk__cli_on(s->cli, "json"))
        print_json(s->job, v, facts, t);
    else if (yk_ok(s->job) && yk_is_main(s->job))
        print_table(s->job, v, t);
    free(v);
    free(facts);
}

/* Batches to plan: later ones of equal rows take no more, the optimizer's state comes at the end of the first step, and rows of text
 * have different lengths. */
static uint64_t batches_to_plan(const sample *s, uint32_t micros)
{
    enum { LONGEST = 256 };
    const uint64_t least = 3 * (uint64_t)micros, all = s->data && s->by_rows ? yk_data_batches(s->data) : 0;
    const uint64_t most = all < LONGEST ? all : LONGEST;
    return most > least ? most : least;
}

static int estimate_run(const yk__cli *cli)
{
    bool bad = false;
    const double seconds = yk__cli_real(cli, "timed-seconds", 0, 1e6, &bad);
    yk_config c = {0};
    timed t = {0};
    sample s;
    if (bad || !train_options_read(cli, &c))
        return YK_EXIT_USAGE;
    const uint32_t micros = c.accumulate < 6 || seconds > 0 ? c.accumulate : 6; /* later ones take no more */
    c.accumulate = micros;
    c.plan_only = !(seconds > 0);
    if (!sample_open(&s, cli, true, &c))
        return YK_EXIT_USAGE;
    if (!yk__cli_on(cli, "no-compile") && yk_ok(s.job))
        yk__device_plan_compiles(s.job->device);
    sample_make(&s);
    if (yk_ok(s.job) && seconds > 0)
        t = timed_steps(&s, micros, seconds);
    for (uint64_t i = 0, n = yk_ok(s.job) && c.plan_only ? batches_to_plan(&s, micros) : 0; i < n && yk_ok(s.job); i++)
        sample_micro(&s);
    if (yk_ok(s.job) && c.plan_only && s.eval_batch)
        sample_evaluate(&s);
    if (yk_ok(s.job))
        estimate_report(&s, &t);
    sample_free(&s);
    return yk_close(s.job);
}

/* Plans for the processor, unless an option names a device. */
static void take_devices(yk__cli *cli)
{
    const int k = yk__cli_find(cli->command, "devices", 7);
    if (!cli->value[k])
        cli->value[k] = "cpu";
}

int yk__cmd_estimate(int argc, char **argv)
{
    yk__cli cli;
    int code;
    argv = settings_apply(&(settings_job){&command, sample_as_train_right}, &argc, argv, &code);
    if (!argv)
        return code;
    argv = yk__spell(&command, &argc, argv);
    if (!argv)
        return YK_EXIT_USAGE;
    char **args = train_arguments(argc, argv);
    code = yk__cli_parse(&command, argc, argv, &cli);
    if (code < 0 && !sample_as_train_right(&cli))
        code = YK_EXIT_USAGE;
    if (code < 0)
        take_devices(&cli);
    if (code < 0)
        code = yk__cli_given(&cli, "threads") ? -1 : train_launch(&cli, args);
    if (code < 0)
        code = estimate_run(&cli);
    free(args);
    return code;
}
