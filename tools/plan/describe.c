/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Describes this machine's devices (--devices, else YOKE_DEVICES, else cpu) for `yoke plan`: runs probes, fits the times, and keeps the
 * result in the cache folder. Its key is the devices' names and the plugins' names for them.
 *
 * search.c calls it in the main thread, before candidates are compared, and `yoke info --describe` (cmd_info.c); a description in the cache
 * costs no probe.
 */
#include "config.h"

#include "tools/plan/describe.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/hash.h"
#include "core/base/limit.h"
#include "core/base/mem.h"
#include "core/base/option.h"
#include "core/device/device.h"
#include "core/io/json.h"
#include "tools/plan/child.h"
#include "tools/plan/cost.h"

enum { OUTPUT = 4 << 20, MOST_ARGS = 24, GROWTHS = 2 };
#define LONG_ENOUGH 0.004 /* seconds of a step, below which a probe's batch grows */

/* Small models, and the work that each has most of. */
static const struct {
    const char *model, *config;
    int batch;
    bool grows; /* the batch grows on a fast device */
} probes[] = {
    {"mlp", "hidden=8,input_size=8", 1, false},                                       /* a step */
    {"resnet20", "image_size=8", 1, false},                                           /* nodes */
    {"mlp", "hidden=1024+1024,input_size=1024", 1, false},                            /* updates */
    {"mlp", "hidden=512+512+512,input_size=512", 512, true},                          /* products */
    {"resnet20", "image_size=32", 4, true},                                           /* convolutions */
    {"gpt2", "n_layer=1,n_embd=64,n_head=1,seq_len=512,n_positions=512,vocab_size=64", 4, true},   /* attention */
    {"gpt2", "n_layer=1,n_embd=64,n_head=1,seq_len=64,vocab_size=8192", 4, true},                  /* special elements */
    {"gpt2", "n_layer=4,n_embd=64,n_head=2,seq_len=128,vocab_size=64", 8, true},                   /* bytes */
    {"gpt2", "n_layer=2,n_embd=256,n_head=4,seq_len=128,vocab_size=512", 4, true},                 /* a mixture */
};
enum { PROBES = sizeof probes / sizeof probes[0], PROBE_STEP = 0, PROBE_UPDATE = 2, PROBE_MIX = 8 };

/* The last line of a child's standard error. error: errno of a child that did not start; 0 if it did. */
static void read_reason(const char *path, int error, double most, yk_error *err)
{
    char line[YK_ERROR_TEXT + 128], last[YK_ERROR_TEXT + 128] = "it ended without a message"; /* with a prefix */
    if (error == ETIMEDOUT) {
        yk__fail(err, YK_E_TIMEOUT, "it took more than %.0f s, and was ended: a device may hang", most);
        return;
    }
    if (error)
        snprintf(last, sizeof last, "a process for a part of the plan: %s", yk__limit_reason(error).text);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f))
        if (line[strspn(line, " \n")])
            snprintf(last, sizeof last, "%.*s", (int)strcspn(line, "\n"), line);
    if (f)
        fclose(f);
    const char *text = strncmp(last, "yoke: error: ", 13) ? last : last + 13; /* the caller's own prefix comes before it */
    /* its own watch over a device that hangs names this variable */
    yk__fail(err, strstr(text, yk__option_row_of(YK__OPTION_STUCK_MS)->name) ? YK_E_TIMEOUT : YK_E_ARG, "%s", text);
}

json_t *describe_run(char **argv, double most, yk_error *err)
{
    char path[] = "/tmp/yoke-plan-XXXXXX", *out = yk__malloc(OUTPUT);
    const int fd = mkstemp(path);
    errno = 0;
    const int code = out && fd >= 0 ? child_run(argv, most, path, out, OUTPUT) : -1, error = code < 0 ? errno : 0;
    yk_error why = YK_ERROR_INIT;
    json_t *o = NULL;
    if (code == 0)
        yk__json_parse(argv[1], out, strlen(out), 0, &o, &why);
    if (!out || fd < 0)
        yk__fail(err, YK_E_IO, "no temporary file in /tmp, or no memory, for the output of yoke %s", argv[1]);
    else if (!o)
        read_reason(path, error, most, err);
    if (fd >= 0) {
        close(fd);
        unlink(path);
    }
    yk__free(out);
    return o;
}

work describe_work(const json_t *object)
{
    work w;
    for (int i = 0; i < WORK_FIELDS; i++)
        ((double *)&w)[i] = json_number_value(json_object_get(object, work_names[i]));
    return w;
}

/* ---- A probe ----------------------------------------------------------------------------------------------------- */

/* Runs a probe on devices (one, or those of the job); offload: a value of --offload, or NULL. A failure leaves seconds 0. */
static double probe_run(const describe_ask *ask, const char *on, int k, int batch, const char *offload, work *w, yk_error *err)
{
    char rows[16], *argv[MOST_ARGS];
    int n = 0;
    json_t *o;
    double seconds;
    snprintf(rows, sizeof rows, "%d", batch);
    const char *const words[] = {ask->program, "bench", "step", "--json", "--model", probes[k].model, "--model-config", probes[k].config,
                                 "--optim", "adamw", "--iterations", "8", "--global-batch", rows, "--devices", on, "--precision",
                                 ask->precision};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        argv[n++] = child_word(words[i]);
    if (ask->substitute)
        argv[n++] = child_word("--allow-substitute");
    if (offload) {
        argv[n++] = child_word("--offload");
        argv[n++] = child_word(offload);
    }
    argv[n] = NULL;
    o = describe_run(argv, DESCRIBE_MOST, err);
    seconds = json_number_value(json_object_get(o, "min_ms")) * 1e-3;
    *w = describe_work(json_object_get(o, "work"));
    json_decref(o);
    return seconds;
}

/* The update on the host in place of the device's, by the difference of two steps. A device that refuses it has no time of it.
 * One that takes it has some, even if a busy machine hides the difference. */
static void measure_offload(const describe_ask *ask, device_row *row, double plain)
{
    work w;
    yk_error refusal = YK_ERROR_INIT;
    const double s = probe_run(ask, row->name, PROBE_UPDATE, probes[PROBE_UPDATE].batch, "state=host", &w, &refusal);
    if (s > 0)
        row->offload = fmax(fmax(s - plain, 0) / w.trained + row->times.update, 1e-13);
}

/* A row of the fit: counts of a step in the order of the times. */
static void counts_of(const work *w, double trained, double a[TIMES_FIELDS])
{
    memcpy(a, w, (TIMES_FIELDS - 2) * sizeof *a);
    a[TIMES_FIELDS - 2] = trained;
    a[TIMES_FIELDS - 1] = 1;
}

static yk_status measure_single(const describe_ask *ask, device_row *row, yk_error *err)
{
    double a[PROBES][TIMES_FIELDS], s[PROBES];
    for (int k = 0; k < PROBES; k++) {
        work w;
        int batch = probes[k].batch;
        s[k] = probe_run(ask, row->name, k, batch, NULL, &w, err);
        for (int i = 0; i < GROWTHS && probes[k].grows && s[k] > 0 && s[k] < LONG_ENOUGH; i++)
            s[k] = probe_run(ask, row->name, k, batch *= 8, NULL, &w, err);
        if (err->status || !(s[k] > 0))
            return err->status ? err->status : yk__fail(err, YK_E_INTERNAL, "%s: a probe took no time", row->name);
        counts_of(&w, w.trained, a[k]);
    }
    cost_fit((const double(*)[TIMES_FIELDS])a, s, PROBES, &row->times);
    if (!(row->times.products > 0)) /* hidden by the rest: the probe of products bounds it */
        row->times.products = s[3] / a[3][0];
    if (row->served)
        measure_offload(ask, row, s[PROBE_UPDATE]);
    return YK_OK;
}

/* ---- All devices of a job ------------------------------------------------------------------------------------------ */

/* Seconds that the model predicts for a probe's step of each rank without exchange, on the slowest device. */
static double step_predict(const devices *d, const work *w)
{
    double most = 0;
    for (uint32_t i = 0; i < d->n; i++)
        most = fmax(most, cost_micro(&d->row[i].times, w) + d->row[i].times.update * w->trained / d->ranks);
    return most;
}

/* Exchange: a step of nearly no work, one with many parameters, and one with rows for each rank. */
static yk_status measure_together(const describe_ask *ask, const char *on, devices *d, yk_error *err)
{
    work w;
    const int rows = (int)d->ranks;
    d->step = probe_run(ask, on, PROBE_STEP, rows, NULL, &w, err);
    const double big = err->status ? 0 : probe_run(ask, on, PROBE_UPDATE, rows, NULL, &w, err);
    if (err->status)
        return err->status;
    d->line = fmax(0, (big - d->step - step_predict(d, &w)) / cost_wire(&w, d->ranks, 1, false));
    const double mixed = probe_run(ask, on, PROBE_MIX, rows * probes[PROBE_MIX].batch, NULL, &w, err);
    if (err->status)
        return err->status;
    const double single = step_predict(d, &w), exchange = d->line * cost_wire(&w, d->ranks, 1, false);
    d->together = fmax(1, (mixed - d->step - exchange) / single);
    return YK_OK;
}

static yk_status measure_all(const describe_ask *ask, const char *on, devices *d, yk_error *err)
{
    for (uint32_t i = 0; i < d->n && !err->status; i++)
        measure_single(ask, &d->row[i], err);
    if (err->status || d->ranks < 2)
        return err->status;
    char *kept;
    child_set("YOKE_SHARES", "equal", &kept); /* bench has no option for them */
    measure_together(ask, on, d, err);
    child_restore("YOKE_SHARES", &kept);
    return err->status;
}

/* Appends a rank: a row for each distinct name. A model of the device is part of the cache's key. */
static void add_rank(devices *d, const json_t *rank)
{
    const char *name = json_string_value(json_object_get(rank, "device"));
    uint32_t i = 0;
    d->ranks++;
    while (i < d->n && strcmp(d->row[i].name, name))
        i++;
    if (i < d->n) {
        d->row[i].count++;
        return;
    }
    device_row *row = &d->row[d->n++];
    snprintf(row->name, sizeof row->name, "%s", name);
    snprintf(row->model, sizeof row->model, "%s", json_string_value(json_object_get(rank, "model")));
    row->count = 1;
    row->memory = (uint64_t)json_number_value(json_object_get(rank, "memory"));
    row->host = json_is_true(json_object_get(rank, "host"));
    row->served = json_is_true(json_object_get(rank, "served"));
}

/* The ranks that the specifications give, by a tiny estimate. */
static yk_status list_ranks(const describe_ask *ask, const char *on, devices *d, yk_error *err)
{
    const char *const words[] = {ask->program, "estimate-memory", "--json", "--no-compile", "--config-file", "none", "--model", "mlp",
                                 "--model-config", "hidden=8,input_size=8", "--devices", on};
    char *argv[MOST_ARGS] = {NULL};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        argv[i] = child_word(words[i]);
    json_t *o = describe_run(argv, DESCRIBE_MOST, err), *ranks = json_object_get(o, "ranks");
    const size_t n = json_array_size(ranks);
    if (!err->status) {
        d->row = calloc(n ? n : 1, sizeof *d->row);
        for (size_t i = 0; i < n && d->row; i++)
            add_rank(d, json_array_get(ranks, i));
        if (!d->row)
            yk__fail_mem(err, n * sizeof *d->row, "the devices of a plan");
    }
    json_decref(o);
    return err->status;
}

static bool cache_path(const devices *d, char *path, size_t size)
{
    const char *dir = yk__cache_folder();
    uint64_t h = yk__hash_bytes(0, PACKAGE_VERSION, sizeof PACKAGE_VERSION);
    h = yk__hash_bytes(h, d->precision, strlen(d->precision));
    for (uint32_t i = 0; i < d->n; i++) {
        h = yk__hash_bytes(h, d->row[i].name, strlen(d->row[i].name));
        h = yk__hash_bytes(h ^ d->row[i].count, d->row[i].model, strlen(d->row[i].model));
    }
    return dir && snprintf(path, size, "%s/devices-%016llx.json", dir, (unsigned long long)h) < (int)size;
}

/* Times from the file; memory stays as it is now. */
static bool cache_load(const char *path, devices *d)
{
    yk_error err = YK_ERROR_INIT;
    devices kept;
    if (access(path, R_OK) || devices_load(path, &kept, &err))
        return false;
    const bool same = kept.n == d->n && kept.ranks == d->ranks;
    for (uint32_t i = 0; i < d->n && same; i++) {
        d->row[i].times = kept.row[i].times;
        d->row[i].offload = kept.row[i].offload;
    }
    d->line = kept.line;
    d->step = kept.step;
    d->together = kept.together;
    devices_free(&kept);
    return same;
}

static void cache_store(const char *path, const devices *d)
{
    char fresh[4200];
    snprintf(fresh, sizeof fresh, "%.4000s.%d", path, (int)getpid());
    FILE *f = fopen(fresh, "we");
    if (!f)
        return;
    devices_write(d, f);
    if (fclose(f) || rename(fresh, path))
        unlink(fresh);
}

yk_status describe_devices(const describe_ask *ask, devices *d, yk_error *err)
{
    char path[4096], *kept;
    const char *given = ask->devices ? ask->devices : getenv("YOKE_DEVICES"), *on = given && *given ? given : "cpu";
    *d = (devices){.together = 1};
    snprintf(d->precision, sizeof d->precision, "%s", ask->precision);
    if (list_ranks(ask, on, d, err)) {
        devices_free(d);
        return err->status;
    }
    const bool keeps = cache_path(d, path, sizeof path);
    if (keeps && !ask->fresh && cache_load(path, d))
        return YK_OK;
    fprintf(stderr, "yoke %s: measures %u %s by small models%s\n", ask->command, d->n,
            d->n == 1 ? "device" : "devices", keeps ? "; their times stay in the cache folder" : "");
    child_set("YOKE_MEMORY_LIMIT", NULL, &kept); /* it is for the model, not for probes */
    measure_all(ask, on, d, err);
    child_restore("YOKE_MEMORY_LIMIT", &kept);
    if (err->status)
        devices_free(d);
    else if (keeps)
        cache_store(path, d);
    return err->status;
}
