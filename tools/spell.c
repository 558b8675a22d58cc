/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Respells arguments: options of train, eval and predict under their names in Trainer, Accelerate or DeepSpeed become Yoke's, by a
 * command's rows. The commands call it before they parse (cli.c), in the main thread. Changed values share one block, sized for the largest
 * results. Only rank 0 (YOKE_RANK) prints a row's line.
 */
#include "tools/spell.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/number.h"
#include "core/base/word.h"
#include "core/io/json.h"

const char yk__spell_nothing[] = "";

/* ---- Values ------------------------------------------------------------------------------------------------------ */

const char *yk__spell_precision(const char *given, char *space, size_t size)
{
    given += strncmp(given, "torch.", 6) ? 0 : 6;
    const int k = yk__word_find(YK__PRECISION_WORDS, given, strlen(given));
    snprintf(space, size, "%s", yk__word_text(YK__PRECISION_WORDS, k < 0 ? YK__PRECISIONS : k).text);
    return k < 0 ? NULL : space;
}

/* Lightning's words. Its "-true" formats but that of 32 bits hold the weights in 16 bits, and stay unknown. */
const char *yk__spell_mixed(const char *given, char *space, size_t size)
{
    static const char *const words[] = {"32", "fp32", "32-true", "fp32", "16-mixed", "fp16", "bf16-mixed", "bf16", "16", "fp16"};
    (void)space;
    (void)size;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i += 2)
        if (!strcasecmp(given, words[i]))
            return words[i + 1];
    return given;
}

const char *yk__spell_half(const char *given, char *space, size_t size)
{
    (void)given;
    (void)space;
    (void)size;
    return "fp16";
}

const char *yk__spell_device(const char *given, char *space, size_t size)
{
    (void)space;
    (void)size;
    if (!strcasecmp(given, "gpu"))
        return "auto";
    return !strcasecmp(given, "cpu") ? "cpu" : strcasecmp(given, "cuda") ? given : "cuda:0";
}

const char *yk__spell_cpu(const char *given, char *space, size_t size)
{
    (void)given;
    (void)space;
    (void)size;
    return "cpu";
}

/* True if a kind precedes the path: a word and a colon. */
static bool has_kind(const char *spec)
{
    const size_t n = strspn(spec, "abcdefghijklmnopqrstuvwxyz0123456789");
    return n && spec[n] == ':';
}

/* The kind of the images in a folder, by its files' names; NULL if they say none. */
static const char *folder_kind(const char *given, size_t length)
{
    char path[4096];
    const char *kind = NULL;
    snprintf(path, sizeof path, "%.*s", (int)length, given);
    DIR *d = opendir(path);
    struct dirent *entry;
    for (int i = 0; d && !kind && i < 512 && (entry = readdir(d)); i++) { /* folders of such data have few files */
        const char *dot = strrchr(entry->d_name, '.');
        if (strstr(entry->d_name, "idx3-ubyte"))
            kind = "idx";
        else if (dot && (!strcmp(dot, ".bin") || !strcmp(dot, ".gz")) &&
                 (!strncmp(entry->d_name, "data_batch_", 11) || strstr(entry->d_name, "cifar")))
            kind = "cifar10";
    }
    if (d)
        closedir(d);
    return kind;
}

const char *yk__spell_data(const char *given, char *space, size_t size)
{
    static const struct {
        const char *ending, *kind, *keys;
    } kinds[] = {
        {".csv", "csv", ""}, {".tsv", "csv", ",delimiter=tab"}, {".jsonl", "jsonl", ""}, {".json", "jsonl", ""}, {".txt", "text", ""},
    };
    const size_t n = strcspn(given, ",");
    if (has_kind(given))
        return given;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const size_t length = strlen(kinds[i].ending);
        if (n <= length || strncasecmp(given + n - length, kinds[i].ending, length))
            continue;
        const char *keys = strstr(given + n, ",delimiter=") ? "" : kinds[i].keys;
        snprintf(space, size, "%s:%.*s%s%s", kinds[i].kind, (int)n, given, keys, given + n);
        return space;
    }
    const char *kind = folder_kind(given, n);
    if (kind)
        snprintf(space, size, "%s:%s", kind, given);
    return kind ? space : given; /* the reader lists the kinds */
}

const char *yk__spell_percent(const char *given, char *space, size_t size)
{
    char *end;
    const double v = yk__number_read(given, &end);
    if (end == given || *end || !(v >= 0 && v < 100))
        return NULL;
    snprintf(space, size, "%.12g", v / 100);
    return v > 0 ? space : yk__spell_nothing;
}

const char *yk__spell_mebibytes(const char *given, char *space, size_t size)
{
    char *end;
    const double v = yk__number_read(given, &end);
    if (end == given || *end || !(v > 0 && v < 1e9))
        return NULL;
    snprintf(space, size, "%.0f", v * 1048576);
    return space;
}

const char *yk__spell_classes(const char *given, char *space, size_t size)
{
    const size_t n = strlen(given);
    if (!n || n > 9 || strspn(given, "0123456789") != n || strspn(given, "0") == n)
        return NULL;
    snprintf(space, size, "num_labels=%s", given);
    return space;
}

/* Writes a number, a word, true or false, or null; of a list "5+11+30". */
static bool write_json(FILE *f, const json_t *v, bool nested)
{
    bool ok = true;
    if (json_is_string(v))
        fputs(json_string_value(v), f);
    else if (json_is_integer(v))
        fprintf(f, "%lld", (long long)json_integer_value(v));
    else if (json_is_real(v))
        fprintf(f, "%.17g", json_real_value(v));
    else if (json_is_array(v) && !nested)
        for (size_t i = 0; i < json_array_size(v) && ok; i++) {
            fputs(i ? "+" : "", f);
            ok = write_json(f, json_array_get(v, i), true);
        }
    else if (json_is_boolean(v) || json_is_null(v))
        fputs(json_is_null(v) ? "null" : json_is_true(v) ? "true" : "false", f);
    else
        ok = false;
    return ok;
}

const char *yk__spell_settings(const char *given, char *space, size_t size)
{
    yk_error why = YK_ERROR_INIT;
    json_t *object = NULL, *v;
    const char *key, *gap = "";
    bool ok = given[strspn(given, " ")] == '{' && !yk__json_parse("settings", given, strlen(given), YK__JSON_UNIQUE_KEYS, &object, &why);
    FILE *f = ok ? fmemopen(space, size, "w") : NULL;
    if (given[strspn(given, " ")] != '{')
        return given;
    if (f) {
        json_object_foreach (object, key, v) {
            fprintf(f, "%s%s=", gap, key);
            ok = write_json(f, v, false) && ok;
            gap = ",";
        }
        ok = !fclose(f) && ok;
    }
    json_decref(object);
    return ok && f ? *gap ? space : yk__spell_nothing : NULL;
}

/* ---- Arguments --------------------------------------------------------------------------------------------------- */

typedef struct speller {
    const yk__cli_command *command;
    char **out, *space;
    const char *typed[YK_CLI_OPTIONS], *value[YK_CLI_OPTIONS]; /* by option: the name that it was given by, and its value */
    int count;
    bool lines; /* a text with a row per line */
    bool speaks, bad;
} speller;

static const yk__cli_spelling *find_spelling(const yk__cli_command *c, const char *name, size_t n)
{
    for (size_t i = 0; i < c->n_spellings; i++)
        if (yk__cli_is_named(c->spellings[i].name, name, n))
            return &c->spellings[i];
    return NULL;
}

/* The argument behind this one, if it may be a value; NULL for an option, and at the end. */
static const char *next_value(const speller *s, int argc, char **argv, int i)
{
    return i + 1 < argc && !yk__cli_is_option(s->command, argv[i + 1]) ? argv[i + 1] : NULL;
}

/* True for --line_by_line anywhere: it tells how a .txt is read. */
static bool is_line_by_line(const yk__cli_command *c, int argc, char **argv)
{
    bool on = false;
    for (int i = 1; i < argc && !c->rest; i++) {
        const size_t n = strcspn(argv[i], "=");
        if (strncmp(argv[i], "--", 2) || n < 3 || !yk__cli_is_named("line-by-line", argv[i] + 2, n - 2))
            continue;
        on = yk__cli_truth(argv[i][n] ? argv[i] + n + 1 : i + 1 < argc ? argv[i + 1] : NULL) != 0;
    }
    return on;
}

const char *yk__spell_option(const yk__cli_command *command, const char *name, size_t n, const char **value, char *space, size_t size)
{
    const yk__cli_spelling *row = find_spelling(command, name, n);
    const char *given = *value ? *value : "true";
    if (!row || !row->ours || row->why || row->map == yk__spell_data || 2 * strlen(given) + 64 > size) /* --line-by-line counts for data */
        return name;
    if (!row->map)
        return row->ours;
    const char *mapped = row->map(given, space, size);
    if (mapped && mapped != yk__spell_nothing)
        *value = mapped;
    return !mapped ? name : mapped == yk__spell_nothing ? NULL : row->ours;
}

static void speller_say(const speller *s, const char *name, const yk__cli_spelling *row)
{
    char text[512];
    if (!row->why || !s->speaks)
        return;
    snprintf(text, sizeof text, "%.*s %s%s", (int)strcspn(name, "="), name, row->ours ? "" : "changes nothing here: ", row->why);
    yk__cli_usage(s->command, "%s", text);
}

/* The later of two values under one name counts, as everywhere. */
static bool is_same_name(const char *a, const char *b, size_t n)
{
    char list[96];
    snprintf(list, sizeof list, "%.*s", (int)strcspn(a, "="), a);
    for (char *p = list + 2; strlen(list) > 2 && *p; p++)
        *p = *p == '_' ? '-' : *p;
    return yk__cli_is_named(list, b, n);
}

/* Notes the option under our name; false if another of its names had another value. */
static bool speller_note(speller *s, const char *typed, size_t typed_length, const char *ours, const char *value)
{
    const int k = yk__cli_find(s->command, ours, strcspn(ours, "|"));
    const char *before = k < 0 ? NULL : s->typed[k];
    if (k < 0 || s->command->options[k].arg == YK_REFUSED) /* each refused name gets its reason */
        return true;
    if (before && value && s->value[k] && !yk__cli_same_value(s->command, ours, value, s->value[k]) &&
        !is_same_name(before, typed, typed_length)) {
        yk__cli_usage(s->command, "%.*s and %.*s are one option, --%.*s, and say \"%s\" and \"%s\": give one of them",
                      (int)strcspn(before, "="), before, (int)typed_length, typed, (int)strcspn(ours, "|"), ours, s->value[k], value);
        s->bad = true;
        return false;
    }
    s->typed[k] = typed;
    s->value[k] = value;
    return true;
}

static void speller_put(speller *s, const char *word)
{
    s->out[s->count++] = (char *)(uintptr_t)word;
}

/* An argument with a row. `value` is NULL if it is missing, which the command's own parser reports. */
static void speller_map(speller *s, const char *arg, const yk__cli_spelling *row, const char *value)
{
    const size_t size = value ? 2 * strlen(value) + 64 : 0, n = strcspn(arg, "=");
    const char *mapped = value && row->map ? row->map(value, s->space, size) : value;
    if (value && !mapped) {
        yk__cli_usage(s->command, "%.*s %s: expected %s", (int)n, arg, value, row->expected);
        s->bad = true;
        return;
    }
    if (mapped == yk__spell_nothing)
        return;
    if (mapped == s->space && s->lines && !strncmp(mapped, "text:", 5)) {
        const size_t length = strlen(mapped + 4);
        memmove(s->space + 5, s->space + 4, length + 1);
        memcpy(s->space, "lines", 5);
    }
    if (mapped == s->space)
        s->space += size;
    speller_say(s, arg, row);
    if (!row->ours || !speller_note(s, arg, n, row->ours, mapped))
        return;
    const size_t ours = strlen(row->ours) + 3;
    snprintf(s->space, ours, "--%s", row->ours);
    speller_put(s, s->space);
    s->space += ours;
    if (mapped)
        speller_put(s, mapped);
}

/* A row without a value is a switch. Turned off it has no effect, or is refused if the row expects it on. */
static void speller_switch(speller *s, const char *arg, const yk__cli_spelling *row, const char *value, const char *next, int *i)
{
    const int truth = value ? yk__cli_truth(value) : s->command->most == 0 ? yk__cli_truth(next) : -1;
    *i += !value && truth >= 0;
    if (value && truth < 0) {
        yk__cli_usage(s->command, "%.*s takes no value but true or false, but \"%s\" was given", (int)strcspn(arg, "="), arg, value);
        s->bad = true;
    } else if (!truth && !row->ours && row->expected) {
        yk__cli_usage(s->command, "%.*s: expected %s: %s", (int)strcspn(arg, "="), arg, row->expected, row->why);
        s->bad = true;
    } else if (truth || !row->ours)
        speller_map(s, arg, row, "true");
}

/* "-n2", a letter with its number; NULL for another word. */
static const yk__cli_spelling *find_numbered(const yk__cli_command *c, const char *arg)
{
    const yk__cli_spelling *row = arg[1] != '-' && arg[1] ? find_spelling(c, arg + 1, 1) : NULL;
    return row && row->arg && arg[2] && strspn(arg + 2, "0123456789") == strlen(arg + 2) ? row : NULL;
}

/* An option of our own, or an unknown one, with its values; `one` dash becomes two. */
static void speller_keep(speller *s, int argc, char **argv, int *i, int k, bool one)
{
    const char *arg = argv[*i], *eq = strchr(arg, '='), *next = next_value(s, argc, argv, *i);
    const size_t n = eq ? (size_t)(eq - arg) : strlen(arg);
    int values = k < 0 ? 0 : yk__cli_values(&s->command->options[k]);
    if (values && (eq || next))
        speller_note(s, arg, n, s->command->options[k].name, eq ? eq + 1 : next);
    if (one && k >= 0) {
        const size_t size = strlen(arg) + 2;
        snprintf(s->space, size, "-%s", arg);
        speller_put(s, s->space);
        s->space += size;
    } else
        speller_put(s, arg);
    if (k < 0 && !eq && s->command->rest && yk__cli_is_value(s->command, false, next))
        values = 1;
    for (int v = eq != NULL; v < values && next_value(s, argc, argv, *i); v++)
        speller_put(s, argv[++*i]);
}

/* One option; *i moves on over its value. */
static void speller_take(speller *s, int argc, char **argv, int *i)
{
    const char *arg = argv[*i], *eq = strchr(arg, '='), *next = next_value(s, argc, argv, *i);
    const char *name = arg + (arg[1] == '-' ? 2 : 1);
    const size_t n = eq ? (size_t)(eq - name) : strlen(name);
    const bool one = arg[1] != '-', word = !one || (n > 1 && s->command->rest);
    const yk__cli_spelling *numbered = find_numbered(s->command, arg);
    const yk__cli_spelling *row = word || n == 1 ? find_spelling(s->command, name, n) : NULL;
    const int k = word ? yk__cli_find(s->command, name, n) : -1;
    const bool negated = !row && k < 0 && n > 3 && (!strncmp(name, "no-", 3) || !strncmp(name, "no_", 3));
    const yk__cli_spelling *off = negated ? find_spelling(s->command, name + 3, n - 3) : NULL;
    if (off && !off->arg)
        speller_switch(s, arg, off, "false", NULL, i);
    else if (row && !row->arg)
        speller_switch(s, arg, row, eq ? eq + 1 : NULL, next, i);
    else if (row)
        speller_map(s, arg, row, eq ? eq + 1 : next ? argv[++*i] : NULL);
    else if (numbered)
        speller_map(s, arg, numbered, arg + 2);
    else
        speller_keep(s, argc, argv, i, k, one);
}

char **yk__spell(const yk__cli_command *command, int *argc, char **argv)
{
    static char **kept; /* the result, followed by the values */
    const char *rank = getenv("YOKE_RANK");
    size_t bytes = 1;
    const bool lines = !strcmp(command->name, "predict") || is_line_by_line(command, *argc, argv);
    speller s = {.command = command, .lines = lines, .speaks = !rank || !strcmp(rank, "0")};
    int i = 1;
    for (int k = 0; k < *argc; k++)
        bytes += 2 * strlen(argv[k]) + 128;
    free(kept);
    kept = calloc(1, (2 * (size_t)*argc + 2) * sizeof *kept + bytes);
    if (!kept) {
        yk__cli_usage(command, "out of memory");
        return NULL;
    }
    s.out = kept;
    s.space = (char *)(kept + 2 * *argc + 2);
    speller_put(&s, argv[0]);
    while (i < *argc && strcmp(argv[i], "--") && !(command->rest && argv[i][0] != '-')) {
        if (argv[i][0] == '-' && argv[i][1])
            speller_take(&s, *argc, argv, &i);
        else
            speller_put(&s, argv[i]);
        i++;
    }
    for (; i < *argc; i++)
        speller_put(&s, argv[i]);
    *argc = s.count;
    if (!s.bad)
        return s.out;
    yk__cli rest;
    yk__cli_parse(command, s.count, s.out, &rest); /* all that is wrong is said at once */
    return NULL;
}

void yk__spell_complain(const yk__cli_command *command, int argc, char **argv)
{
    yk__cli rest;
    char **own = yk__spell(command, &argc, argv);
    if (own)
        yk__cli_parse(command, argc, own, &rest);
}
