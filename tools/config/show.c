/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the fate of each key of a settings file (an option, not needed, refused), as text or JSON, and the messages about it. `yoke
 * config` and --dry-run call it in the main thread.
 */
#include "tools/config/apply.h"

#include <string.h>

static const char *const fates[] = {"honoured", "mapped", "not needed", "not built yet", "refused"};
static const char *const commands[] = {"train", "launch", "variable"};

void settings_complain(const settings *s, const yk__cli_command *command)
{
    for (size_t i = 0; i < s->messages; i++)
        yk__cli_usage(command, "%s", s->message[i]);
    if (s->err.status)
        yk__cli_usage(command, "%s", s->err.text);
}

void settings_show(const settings *s, FILE *f)
{
    for (size_t i = 0; i < s->items; i++)
        fprintf(f, "%s:%u: %s: %s: %s%s%s\n", s->item[i].file, s->item[i].line, s->item[i].path, s->item[i].value, fates[s->item[i].fate],
                s->item[i].why ? ": " : "", s->item[i].why ? s->item[i].why : "");
    for (size_t i = 0; i < s->options && !s->messages; i++) { /* files with errors give no options */
        const settings_option *o = &s->option[i];
        if (!strcmp(o->name, SETTINGS_ROWS))
            continue;
        if (o->scope == SETTINGS_ENV)
            fprintf(f, "variable: %s=%s\n", o->name, o->value);
        else
            fprintf(f, "yoke %s: --%s%s%s\n", commands[o->scope], o->name, o->value ? " " : "", o->value ? o->value : "");
    }
}

void settings_show_json(const settings *s, FILE *f)
{
    fprintf(f, "{\"keys\": [");
    for (size_t i = 0; i < s->items; i++) {
        fprintf(f, "%s{\"file\": ", i ? ", " : "");
        yk__json_write(f, s->item[i].file);
        fprintf(f, ", \"line\": %u, \"key\": ", s->item[i].line);
        yk__json_write(f, s->item[i].path);
        fprintf(f, ", \"value\": ");
        yk__json_write(f, s->item[i].value);
        fprintf(f, ", \"fate\": \"%s\", \"why\": ", fates[s->item[i].fate]);
        yk__json_write(f, s->item[i].why ? s->item[i].why : "");
        fprintf(f, "}");
    }
    fprintf(f, "], \"options\": [");
    for (size_t i = 0, n = 0; i < s->options && !s->messages; i++) {
        if (!strcmp(s->option[i].name, SETTINGS_ROWS))
            continue;
        fprintf(f, "%s{\"of\": \"%s\", \"name\": ", n++ ? ", " : "", commands[s->option[i].scope]);
        yk__json_write(f, s->option[i].name);
        fprintf(f, ", \"value\": ");
        yk__json_write(f, s->option[i].value ? s->option[i].value : "");
        fprintf(f, "}");
    }
    fprintf(f, "], \"errors\": [");
    for (size_t i = 0; i < s->messages; i++) {
        fprintf(f, "%s", i ? ", " : "");
        yk__json_write(f, s->message[i]);
    }
    fprintf(f, "]}\n");
}

/* Names of a row in code marks, each with the map before it. */
static void names_print(const settings_key *row, FILE *f)
{
    const char *dot = strrchr(row->path, '.'), *at = dot ? dot + 1 : row->path;
    const int head = (int)(at - row->path);
    while (*at) {
        const size_t n = strcspn(at, "|");
        fprintf(f, "`%.*s%.*s`%s", head, row->path, (int)n, at, at[n] ? ", " : "");
        at += n + (at[n] == '|');
    }
}

bool settings_print_keys(const char *format, FILE *f)
{
    const settings_table *const tables[] = {&settings_deepspeed, &settings_accelerate, &settings_fsdp, &settings_parallelism,
                                            &settings_accelerator, settings_nested[0], settings_nested[1]};
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++) {
        if (strcmp(tables[t]->name, format))
            continue;
        fprintf(f, "| key | fate | here |\n|---|---|---|\n");
        for (size_t i = 0; i < tables[t]->count; i++) {
            const settings_key *row = &tables[t]->key[i];
            if (row->kind == SETTINGS_MAP && !row->why)
                continue;
            fprintf(f, "| ");
            names_print(row, f);
            fprintf(f, " | %s | %s%s |\n", fates[row->fate], row->why ? row->why : "--", row->why ? "" : strchr(row->option, ':') + 1);
        }
        return true;
    }
    return false;
}
