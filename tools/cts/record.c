/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verdict that yoke-cts --report writes: the parent process counts results by group, operation and type as they come (report.c), and
 * writes one file at the end (main.c). A child process describes the device to it (cts_describe). docs/devices.md shows such verdicts.
 * A report holds only facts that are the same in each run on a device, and cts_record_write writes it whole or not at all.
 */
#include "config.h"

#include "tools/cts/record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "core/device/transport_load.h"
#include "core/io/folder.h"
#include "tools/cli.h"

#define REPORT 1 /* version of the file's form */

typedef struct tally {
    char key[64], type[8]; /* group; or operation and type, "" if it has none */
    uint32_t tols;         /* bit 1 << cts_tol */
    uint32_t n[CTS_OUTCOMES];
} tally;

typedef struct tallies {
    tally *at;
    size_t n, cap;
} tallies;

typedef struct names {
    char **at;
    size_t n, cap;
} names;

struct cts_record {
    tallies groups, operations;
    names tests[CTS_OUTCOMES]; /* but those that passed */
    uint32_t n[CTS_OUTCOMES], not_run;
    char about[8][2][128]; /* key and text */
    uint32_t n_about;
    bool out_of_memory;
};

cts_record *cts_record_new(void)
{
    return yk__calloc(1, sizeof(cts_record));
}

void cts_record_free(cts_record *r)
{
    if (!r)
        return;
    for (int o = 0; o < CTS_OUTCOMES; o++) {
        for (size_t i = 0; i < r->tests[o].n; i++)
            yk__free(r->tests[o].at[i]);
        yk__free(r->tests[o].at);
    }
    yk__free(r->groups.at);
    yk__free(r->operations.at);
    yk__free(r);
}

/* ---- Results ------------------------------------------------------------------------------------------------------------ */

static tally *tally_of(cts_record *r, tallies *t, const char *key, size_t length, const char *type)
{
    tally fresh = {.tols = 0};
    snprintf(fresh.key, sizeof fresh.key, "%.*s", (int)length, key);
    snprintf(fresh.type, sizeof fresh.type, "%s", type);
    for (size_t i = 0; i < t->n; i++)
        if (!strcmp(t->at[i].key, fresh.key) && !strcmp(t->at[i].type, type))
            return &t->at[i];
    if (yk__grow(&t->at, &t->cap, t->n + 1, sizeof *t->at)) {
        r->out_of_memory = true;
        return NULL;
    }
    t->at[t->n] = fresh;
    return &t->at[t->n++];
}

/* The first part of a test's name that is a type; "": there is none. */
static const char *type_in(const char *name)
{
    for (const char *part = strchr(name, '.'); part; part = strchr(part + 1, '.'))
        for (uint32_t i = 0; i < YK_DTYPE_COUNT; i++) {
            const char *type = yk__dtype_name(i);
            const size_t n = strcspn(part + 1, ".");
            if (strlen(type) == n && !strncmp(part + 1, type, n))
                return type;
        }
    return "";
}

static void tally_add(tally *t, cts_outcome outcome, int tol)
{
    if (!t)
        return;
    t->n[outcome]++;
    t->tols |= tol < 0 ? 0 : 1u << tol;
}

static void name_add(cts_record *r, names *list, const char *name)
{
    char *copy = yk__strdup(name);
    if (!copy || yk__grow(&list->at, &list->cap, list->n + 1, sizeof *list->at)) {
        yk__free(copy);
        r->out_of_memory = true;
        return;
    }
    list->at[list->n++] = copy;
}

static bool is_operation(const char *name, size_t group)
{
    static const char *const groups[] = {"op", "composite", "body"};
    for (uint32_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (strlen(groups[i]) == group && !strncmp(groups[i], name, group))
            return true;
    return false;
}

void cts_record_add(cts_record *r, cts_outcome outcome, const char *name, int tol)
{
    const size_t group = strcspn(name, "/"), operation = strcspn(name, ".");
    if (!r)
        return;
    r->n[outcome]++;
    tally_add(tally_of(r, &r->groups, name, group, ""), outcome, tol);
    if (is_operation(name, group))
        tally_add(tally_of(r, &r->operations, name, operation, type_in(name)), outcome, tol);
    if (outcome != CTS_PASSED)
        name_add(r, &r->tests[outcome], name);
}

void cts_record_not_run(cts_record *r, uint32_t tests)
{
    if (r)
        r->not_run += tests;
}

/* ---- The tested object ------------------------------------------------------------------------------------------------------ */

static void about_say(cts *c, const char *key, const char *text)
{
    fprintf(c->out, "A%s\t%.100s\n", key, text);
}

/* A plugin writes its own measurements in parentheses (docs/opencl.md); the report leaves them out, as they differ between runs. */
static void architecture_say(cts *c, const char *isa)
{
    char text[80];
    size_t n = strcspn(isa, "(");
    while (n && isa[n - 1] == ' ')
        n--;
    snprintf(text, sizeof text, "%.*s", (int)n, isa);
    about_say(c, "architecture", text);
}

static void device_say(cts *c, const yk__plugin *p)
{
    yk_error err = YK_ERROR_INIT;
    yk_device_caps caps = {.size = sizeof caps};
    if (yk__plugin_caps(p, c->device, &caps, &err))
        return;
    about_say(c, "device", caps.name);
    if (yk__product_bits(&caps) < YK__F32_BITS) {
        char bits[16];
        snprintf(bits, sizeof bits, "%u", yk__product_bits(&caps));
        about_say(c, "product_bits", bits);
    }
    if (!(caps.flags & (YK_CAP_CPU | YK_CAP_CORES))) /* a CPU's instruction set belongs to its host, and the report names no host */
        architecture_say(c, caps.isa);
}

static void plugin_say(cts *c)
{
    yk_error err = YK_ERROR_INIT;
    yk__plugin *p;
    char minor[32];
    if (yk__plugin_load(c->path, &p, &err))
        return;
    about_say(c, "plugin", yk__plugin_table(p)->name);
    about_say(c, "version", yk__plugin_table(p)->version ? yk__plugin_table(p)->version : "");
    snprintf(minor, sizeof minor, "%u.%u", yk__plugin_table(p)->abi, yk__plugin_table(p)->minor);
    about_say(c, "abi", minor);
    device_say(c, p);
}

static void transport_say(cts *c)
{
    yk_error err = YK_ERROR_INIT;
    char minor[32];
    if (yk__transport_load(c->transport_path, &c->transport, &err))
        return;
    about_say(c, "transport", c->transport->name);
    snprintf(minor, sizeof minor, "%u.%u", c->transport->major, c->transport->minor);
    about_say(c, "abi", minor);
}

void cts_describe(cts *c)
{
    if (c->transport_path)
        transport_say(c);
    else
        plugin_say(c);
    fflush(c->out);
}

void cts_record_about(cts_record *r, const char *line)
{
    const size_t key = strcspn(line, "\t");
    if (!r || r->n_about == sizeof r->about / sizeof *r->about || !line[key])
        return;
    snprintf(r->about[r->n_about][0], sizeof r->about[0][0], "%.*s", (int)key, line);
    snprintf(r->about[r->n_about][1], sizeof r->about[0][1], "%s", line + key + 1);
    r->n_about++;
}

/* ---- The file ------------------------------------------------------------------------------------------------------------ */

static const char *const outcome_name[CTS_OUTCOMES] = {"passed", "failed", "unsupported", "expected_failures"};

static void counts_put(FILE *f, const uint32_t *n)
{
    for (int o = 0; o < CTS_OUTCOMES; o++)
        fprintf(f, "%s\"%s\": %u", o ? ", " : "", outcome_name[o], n[o]);
}

static void about_put(FILE *f, const cts_record *r)
{
    for (uint32_t i = 0; i < r->n_about; i++) {
        fprintf(f, "  \"%s\": ", r->about[i][0]);
        yk__json_write(f, r->about[i][1]);
        fprintf(f, ",\n");
    }
}

/* Writes the options that select tests and their numbers. */
static void options_put(FILE *f, const cts *c, const char *groups)
{
    fprintf(f, "  \"options\": {\"seed\": %llu, \"count\": %u", (unsigned long long)c->seed, c->count);
    fprintf(f, "%s%s%s%s%s", c->quick ? ", \"quick\": true" : "", c->longest ? ", \"long\": true" : "", c->wide ? ", \"wide\": true" : "",
            c->claims ? ", \"claims\": true" : "", c->lists->verify ? ", \"verify\": true" : "");
    if (groups) {
        fprintf(f, ", \"group\": ");
        yk__json_write(f, groups);
    }
    if (c->only) {
        fprintf(f, ", \"only\": ");
        yk__json_write(f, c->only);
    }
    fprintf(f, "},\n");
}

static void groups_put(FILE *f, const tallies *t)
{
    fprintf(f, "  \"groups\": [");
    for (size_t i = 0; i < t->n; i++) {
        fprintf(f, "%s\n    {\"group\": \"%s\", ", i ? "," : "", t->at[i].key);
        counts_put(f, t->at[i].n);
        fprintf(f, "}");
    }
    fprintf(f, "\n  ],\n");
}

static void tolerances_put(FILE *f, uint32_t tols)
{
    static const char *const tol_name[] = {"exact", "round", "ulp", "abssum", "largest", "share", "noise"};
    bool any = false;
    fprintf(f, "\"tolerances\": [");
    for (uint32_t i = 0; i < sizeof tol_name / sizeof *tol_name; i++)
        if (tols >> i & 1) {
            fprintf(f, "%s\"%s\"", any ? ", " : "", tol_name[i]);
            any = true;
        }
    fprintf(f, "], ");
}

static void operations_put(FILE *f, const tallies *t)
{
    fprintf(f, "  \"operations\": [");
    for (size_t i = 0; i < t->n; i++) {
        fprintf(f, "%s\n    {\"test\": ", i ? "," : "");
        yk__json_write(f, t->at[i].key);
        fprintf(f, ", \"type\": \"%s\", ", t->at[i].type);
        tolerances_put(f, t->at[i].tols);
        counts_put(f, t->at[i].n);
        fprintf(f, "}");
    }
    fprintf(f, "\n  ],\n");
}

static void names_put(FILE *f, const char *key, const names *list, const char *end)
{
    fprintf(f, "  \"%s\": [", key);
    for (size_t i = 0; i < list->n; i++) {
        fprintf(f, "%s\n    ", i ? "," : "");
        yk__json_write(f, list->at[i]);
    }
    fprintf(f, "%s]%s\n", list->n ? "\n  " : "", end);
}

static void record_put(FILE *f, const cts_record *r, const cts *c, const char *groups)
{
    fprintf(f, "{\n  \"report\": %d,\n  \"suite\": \"%s\",\n", REPORT, PACKAGE_VERSION);
    if (c->transport_path)
        fprintf(f, "  \"suite_abi\": \"%u.%u\",\n", YK_TRANSPORT_MAJOR, YK_TRANSPORT_MINOR);
    else
        fprintf(f, "  \"suite_abi\": \"%u.%u\",\n  \"device_number\": %u,\n", YK_ABI, YK_ABI_MINOR, c->device);
    about_put(f, r);
    options_put(f, c, groups);
    fprintf(f, "  \"result\": \"%s\",\n  \"totals\": {", r->n[CTS_FAILED] ? "failed" : "passed");
    counts_put(f, r->n);
    fprintf(f, ", \"not_run\": %u},\n", r->not_run);
    groups_put(f, &r->groups);
    operations_put(f, &r->operations);
    names_put(f, "failed", &r->tests[CTS_FAILED], ",");
    names_put(f, "expected_failures", &r->tests[CTS_EXPECTED], ",");
    names_put(f, "unsupported", &r->tests[CTS_LEFT_OUT], "");
    fprintf(f, "}\n");
}

yk_status cts_record_check(const char *path, yk_error *err)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? yk__format("%.*s", slash == path ? 1 : (int)(slash - path), path) : yk__strdup(".");
    struct stat st;
    if (!folder)
        return yk__fail_mem(err, strlen(path), "a path");
    if (!stat(path, &st) && !S_ISREG(st.st_mode))
        yk__fail(err, YK_E_ARG, "--report %s: expected a file's name, and this is a folder, a device or a pipe", path);
    else if (!*path || (slash && !slash[1]))
        yk__fail(err, YK_E_ARG, "--report \"%s\": expected a file's name", path);
    else if (access(folder, W_OK | X_OK))
        yk__fail(err, YK_E_ARG, "--report %s: the folder %s cannot be written: %s", path, folder, strerror(errno));
    yk__free(folder);
    return err->status;
}

yk_status cts_record_write(const cts_record *r, const cts *c, const char *groups, const char *path, yk_error *err)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = r->out_of_memory ? NULL : open_memstream(&text, &n);
    if (f)
        record_put(f, r, c, groups);
    if (!f || ferror(f) | fclose(f))
        yk__fail_mem(err, n, "the report");
    else
        yk__folder_write_file(path, text, n, err);
    free(text);
    return err->status;
}
