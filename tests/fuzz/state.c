/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The numbers of a checkpoint's state through yk_load: each in turn becomes every odd number of a list. An accepted state must train on:
 * finite, one update a step, forwards.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/job/job.h"

static const char *const odd[] = {"-1",        "0",      "1",      "0.5",          "5",
                                  "1e308",     "-1e308", "1e-310", "9007199254740993", "9223372036854775807",
                                  "\"nan\"",   "\"inf\"", "\"-1\"", "\"18446744073709551615\"", "\"\"",
                                  "\" 7\"",    "true",   "null",   "[]",           "{}"};
enum { N_ODD = sizeof odd / sizeof odd[0], MOST = 200 };

static char folder[64], file[96];
static char *text; /* text of the good state */
static size_t number_at[MOST], number_bytes[MOST];
static int n_number, loaded;

static int check_report(int number, bool ok, const char *what)
{
    printf("%sok %d - %s\n", ok ? "" : "not ", number, what);
    fflush(stdout);
    return ok;
}

static yk_opt *training_start(yk_job *job, yk_t *w, yk_sched **sched)
{
    const int64_t dim = 4;
    *w = yk_param(job, "w", 1, &dim, (yk_init){YK_INIT_ONES, 0, 0});
    yk_opt *opt = yk_adamw(job, &(yk_adam_config){.lr = 0.01});
    *sched = yk_schedule(opt, &(yk_sched_config){.name = "constant"});
    return opt;
}

static void one_step(yk_t w, yk_opt *opt, yk_sched *sched)
{
    yk_backward(yk_sum(yk_mul(w, w), 1, false));
    yk_step(opt);
    yk_sched_step(sched);
}

static yk_job *open_job(void)
{
    return yk_open(&(yk_config){.devices = "cpu:0", .quiet = true, .seed = 5, .precision = YK_F16});
}

/* A checkpoint after two steps; into its state goes a part that only several ranks write. */
static bool make_checkpoint(void)
{
    static const char shares[] = "\"shares\": {\"rows\": 8, \"steps\": 4, \"looked\": 2, \"share\": [3, 5], \"total\": [6, 10], "
                                 "\"balance\": [0.5]},\n";
    yk_job *job = open_job();
    yk_t w;
    yk_sched *sched;
    yk_opt *opt = training_start(job, &w, &sched);
    one_step(w, opt, sched);
    one_step(w, opt, sched);
    yk_save(job, folder);
    if (yk_close(job))
        return false;
    FILE *f = fopen(file, "r");
    text = calloc(1, 1 << 16);
    size_t n = f && text ? fread(text, 1, (1 << 16) - sizeof shares, f) : 0;
    if (f)
        fclose(f);
    char *at = n ? strchr(text, '{') + 1 : NULL;
    if (!at)
        return false;
    memmove(at + sizeof shares - 1, at, strlen(at) + 1);
    memcpy(at, shares, sizeof shares - 1);
    return true;
}

/* Finds the numbers: digits after a ':', '[' or ',' and a space, or within quotes there. The files' own numbers stay. */
static void find_numbers(void)
{
    const char *end = strstr(text, "\"files\"");
    for (char *p = text; *p && n_number < MOST; p++) {
        char *q = p + (*p == '"');
        size_t n = strspn(q, "0123456789.e+-");
        const bool start_of = p > text && (p[-1] == ' ' || p[-1] == '[' || p[-1] == '\n');
        if (!n || !start_of || (*p == '"' && q[n] != '"') || (end && p > end && p < strchr(end, '}')))
            continue;
        number_at[n_number] = (size_t)(p - text);
        number_bytes[n_number++] = n + 2 * (*p == '"');
        p = q + n;
    }
}

static bool write_state(int number, const char *value)
{
    const size_t at = number_at[number], after = at + number_bytes[number];
    FILE *f = fopen(file, "w");
    return f && (fprintf(f, "%.*s%s%s", (int)at, text, value, text + after), fclose(f) == 0);
}

/* Loads and goes on; false: accepted, and then no training. */
static bool goes_on(void)
{
    yk_job *job = open_job();
    yk_t w;
    yk_sched *sched;
    float v[4];
    yk_opt *opt = training_start(job, &w, &sched);
    yk_load(job, folder);
    if (!yk_ok(job)) {
        const yk_status s = yk_error_status(job);
        yk_close(job);
        return s == YK_E_FORMAT || s == YK_E_ARG;
    }
    loaded++;
    const uint64_t before = yk_steps(opt);
    one_step(w, opt, sched);
    one_step(w, opt, sched);
    yk_param_read(w, v, 4);
    bool ok = !yk_ok(job) || (isfinite(v[0]) && v[0] <= 1.0f && yk_lr(opt) >= 0.0 && isfinite(yk_lr(opt)) && yk_loss_scale(opt) > 0.0);
    ok = ok && (!yk_ok(job) || yk_steps(opt) <= before + 2) && yk_steps(opt) >= before && before <= (uint64_t)1 << 53;
    yk_close(job);
    return ok;
}

/* A number of its own for each pair of place and value, so that a stride takes some of each. */
static bool try_all(int stride)
{
    char what[160];
    bool ok = true;
    for (int i = 0; i < n_number * N_ODD; i += stride) {
        const int at = i % n_number, with = (i / n_number + i) % N_ODD;
        if (!write_state(at, odd[with]) || goes_on())
            continue;
        snprintf(what, sizeof what, "%.40s became %s", text + (number_at[at] > 24 ? number_at[at] - 24 : 0), odd[with]);
        for (char *p = what; *p; p++)
            *p = *p == '\n' ? ' ' : *p;
        printf("# %s: accepted, and does not train\n", what);
        ok = false;
    }
    return ok;
}

int main(void)
{
    char command[128];
    strcpy(folder, "/tmp/yoke-state-XXXXXX");
    if (!mkdtemp(folder))
        return 1;
    snprintf(file, sizeof file, "%s/trainer_state.json", folder);
    printf("1..3\n");
    freopen("/dev/null", "w", stderr); /* each refusal is a line */
    if (!check_report(1, make_checkpoint(), "a checkpoint"))
        return 1;
    find_numbers();
    bool good = n_number > 20 && write_state(0, "8") && goes_on() && loaded == 1;
    printf("# %d numbers\n", n_number);
    check_report(2, good, "the seed is good");
    check_report(3, try_all(getenv("YOKE_FUZZ_SECONDS") ? 1 : 3), "odd numbers are refused, or train on");
    printf("# %d accepted\n", loaded);
    free(text);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) != 0;
}
