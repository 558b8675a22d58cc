/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads files of described devices (JSON or YAML), and writes them as JSON, for `yoke plan`.
 *
 * search.c loads the user's --device-file, to plan for a machine that is not here. describe.c stores this machine's measured times in the
 * cache folder, and loads them from there. `yoke info --describe` (cmd_info.c) prints them. All run in the main thread. A wrong key or
 * value is an error with the file's name and line.
 */
#include "tools/plan/device_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/number.h"

const char *const times_names[TIMES_FIELDS] = {
#define X(name, unit) #name,
    TIMES_TABLE(X)
#undef X
};

typedef struct reader {
    const char *name;
    yk_error *err;
} reader;

static yk_status refuse_key(const reader *r, const yk__tree *t, const char *expected)
{
    return yk__fail(r->err, YK_E_FORMAT, "%s, line %u: %.40s%s%.40s: expected %s", r->name, t->line, t->key ? t->key : "an entry",
                    t->kind == YK__TREE_TEXT ? " " : "", t->kind == YK__TREE_TEXT ? t->text : "", expected);
}

static yk_status read_number(const reader *r, const yk__tree *t, double least, double most, const char *expected, double *v)
{
    char *end = NULL;
    const double got = t->kind == YK__TREE_TEXT && !t->quoted ? yk__number_read(t->text, &end) : -1;
    if (!end || end == t->text || *end || !(got >= least && got <= most))
        return refuse_key(r, t, expected);
    *v = got;
    return YK_OK;
}

static yk_status read_text(const reader *r, const yk__tree *t, char *to, size_t size)
{
    if (t->kind != YK__TREE_TEXT || yk__tree_is_null(t) || !*t->text || strlen(t->text) >= size)
        return refuse_key(r, t, "a short text");
    strcpy(to, t->text);
    return YK_OK;
}

static yk_status read_seconds(const reader *r, const yk__tree *t, double *v)
{
    return read_number(r, t, 0, 3600, "seconds, from 0 to 3600", v);
}

static double *find_time(times *t, const char *key)
{
    for (int i = 0; i < TIMES_FIELDS; i++)
        if (!strcmp(key, times_names[i]))
            return (double *)t + i;
    return NULL;
}

static yk_status read_device_key(const reader *r, const yk__tree *t, device_row *row)
{
    double v = 0;
    double *time = find_time(&row->times, t->key);
    if (time)
        return read_seconds(r, t, time);
    if (!strcmp(t->key, "name"))
        return read_text(r, t, row->name, sizeof row->name);
    if (!strcmp(t->key, "model"))
        return read_text(r, t, row->model, sizeof row->model);
    if (!strcmp(t->key, "offload"))
        return read_seconds(r, t, &row->offload);
    if (!strcmp(t->key, "host")) {
        if (t->kind != YK__TREE_TEXT || (strcmp(t->text, "true") && strcmp(t->text, "false")))
            return refuse_key(r, t, "true or false");
        row->host = !strcmp(t->text, "true");
        return YK_OK;
    }
    if (!strcmp(t->key, "count")) {
        if (read_number(r, t, 1, DEVICES_RANKS, "a number of ranks, from 1 to 65536", &v))
            return r->err->status;
        row->count = (uint32_t)v;
        return v == floor(v) ? YK_OK : refuse_key(r, t, "a whole number of ranks");
    }
    if (!strcmp(t->key, "memory")) {
        if (read_number(r, t, 0, 1e18, "bytes, from 0 to 1e18", &v))
            return r->err->status;
        row->memory = (uint64_t)v;
        return YK_OK;
    }
    return refuse_key(r, t, "name, model, count, memory, host, offload, or a time (yoke info --describe writes them)");
}

static yk_status read_device(const reader *r, const yk__tree *t, device_row *row)
{
    *row = (device_row){.count = 1};
    if (t->kind != YK__TREE_MAP)
        return refuse_key(r, t, "a device, as {\"name\": .., \"memory\": ..}");
    for (const yk__tree *key = t->child; key; key = key->next)
        if (read_device_key(r, key, row))
            return r->err->status;
    if (!*row->name)
        return yk__fail(r->err, YK_E_FORMAT, "%s, line %u: a device without a name: give its \"name\"", r->name, t->line);
    if (!(row->times.products > 0))
        return yk__fail(r->err, YK_E_FORMAT, "%s, line %u: device %.40s has no time of products: yoke info --describe measures it",
                        r->name, t->line, row->name);
    return YK_OK;
}

static yk_status read_devices(const reader *r, const yk__tree *t, devices *d)
{
    uint32_t n = 0;
    uint64_t ranks = 0;
    if (t->kind != YK__TREE_LIST || !t->child)
        return refuse_key(r, t, "a list of one device or more");
    for (const yk__tree *one = t->child; one; one = one->next)
        n++;
    d->row = calloc(n, sizeof *d->row);
    if (!d->row)
        return yk__fail_mem(r->err, n * sizeof *d->row, "described devices");
    for (const yk__tree *one = t->child; one; one = one->next) {
        if (read_device(r, one, &d->row[d->n]))
            return r->err->status;
        ranks += d->row[d->n++].count;
    }
    if (ranks > DEVICES_RANKS)
        return refuse_key(r, t, "65536 ranks at most");
    d->ranks = (uint32_t)ranks;
    return YK_OK;
}

static yk_status read_key(const reader *r, const yk__tree *t, devices *d)
{
    if (!strcmp(t->key, "format"))
        return t->kind == YK__TREE_TEXT && !strcmp(t->text, "yoke-devices") ? YK_OK : refuse_key(r, t, "yoke-devices");
    if (!strcmp(t->key, "precision")) {
        if (t->kind != YK__TREE_TEXT ||
            (strcmp(t->text, "fp32") && strcmp(t->text, "bf16") && strcmp(t->text, "fp16") && strcmp(t->text, "fp8")))
            return refuse_key(r, t, "fp32, bf16, fp16 or fp8");
        strcpy(d->precision, t->text);
        return YK_OK;
    }
    if (!strcmp(t->key, "line") || !strcmp(t->key, "step") || !strcmp(t->key, "disk"))
        return read_seconds(r, t, *t->key == 'l' ? &d->line : *t->key == 's' ? &d->step : &d->disk);
    if (!strcmp(t->key, "together"))
        return read_number(r, t, 1, 1e6, "a factor from 1 to 1e6", &d->together);
    if (!strcmp(t->key, "devices") && !d->row)
        return read_devices(r, t, d);
    return refuse_key(r, t, "format, precision, line, step, disk, together or devices");
}

yk_status devices_read(const char *name, const yk__tree *tree, devices *d, yk_error *err)
{
    const reader r = {name, err};
    *d = (devices){.precision = "fp32", .together = 1};
    if (tree->kind != YK__TREE_MAP || !yk__tree_get(tree, "devices"))
        return yk__fail(err, YK_E_FORMAT, "%s, line %u: no \"devices\": expected a file of yoke info --describe", name, tree->line);
    for (const yk__tree *key = tree->child; key && !err->status; key = key->next)
        read_key(&r, key, d);
    if (err->status)
        devices_free(d);
    return err->status;
}

yk_status devices_load(const char *path, devices *d, yk_error *err)
{
    yk__tree *tree = NULL;
    *d = (devices){0};
    if (!yk__tree_load(path, &tree, err))
        devices_read(path, tree, d, err);
    yk__tree_free(tree);
    return err->status;
}

void devices_free(devices *d)
{
    free(d->row);
    *d = (devices){0};
}

/* write_text escapes quotes and backslashes, and leaves out control bytes. A device's name is a plugin's text. */
static void write_text(FILE *f, const char *s)
{
    fputc('"', f);
    for (; *s; s++)
        if (*s == '"' || *s == '\\')
            fprintf(f, "\\%c", *s);
        else if ((unsigned char)*s >= 0x20)
            fputc(*s, f);
    fputc('"', f);
}

static void write_row(const device_row *row, FILE *f)
{
    const double *v = (const double *)&row->times;
    fprintf(f, "  {\"name\": ");
    write_text(f, row->name);
    if (*row->model) {
        fprintf(f, ", \"model\": ");
        write_text(f, row->model);
    }
    fprintf(f, ", \"count\": %u, \"memory\": %llu, \"host\": %s,\n   ", row->count, (unsigned long long)row->memory,
            row->host ? "true" : "false");
    for (int i = 0; i < TIMES_FIELDS; i++)
        fprintf(f, "%s\"%s\": %s", i ? ", " : "", times_names[i], yk__number_text(v[i], 6).text);
    if (row->offload > 0)
        fprintf(f, ", \"offload\": %s", yk__number_text(row->offload, 6).text);
    fprintf(f, "}");
}

void devices_write(const devices *d, FILE *f)
{
    fprintf(f, "{\"format\": \"yoke-devices\", \"precision\": \"%s\", \"line\": %s, ", d->precision, yk__number_text(d->line, 6).text);
    fprintf(f, "\"step\": %s, ", yk__number_text(d->step, 6).text);
    if (d->disk > 0)
        fprintf(f, "\"disk\": %s, ", yk__number_text(d->disk, 6).text);
    fprintf(f, "\"together\": %s,\n \"devices\": [\n", yk__number_text(d->together, 6).text);
    for (uint32_t i = 0; i < d->n; i++) {
        write_row(&d->row[i], f);
        fprintf(f, "%s\n", i + 1 < d->n ? "," : "]}");
    }
}
