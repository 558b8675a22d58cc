/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks a settings file's keys by the tables of its format. Each key gets its fate: an option here, nothing to do, or refused with a
 * reason. config_read.c and the tables (keys_*.c) call it, in the main thread. The lists in `settings` collect options, items (a key and
 * its fate) and messages. An unknown key is a message with its line and the nearest known key.
 */
#include "tools/config/config_settings.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/mem.h"
#include "core/base/number.h"
#include "core/base/word.h"
#include "core/run/stage.h"
#include "tools/spell.h"

/* ---- Lists ------------------------------------------------------------------------------------------------------- */

static bool list_grow(settings *s, void *list, size_t *capacity, size_t count, size_t size)
{
    if (!s->err.status && yk__grow(list, capacity, count + 1, size))
        yk__fail_mem(&s->err, (count + 1) * size, "settings");
    return !s->err.status;
}

static char *text_keep(settings *s, const char *text)
{
    char *copy = text && !s->err.status ? yk__strdup(text) : NULL;
    if (text && !copy && !s->err.status)
        yk__fail_mem(&s->err, strlen(text), "settings");
    return copy;
}

void settings_say(settings *s, const char *file, uint32_t line, const char *key, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    int n = snprintf(text, sizeof text, "%.400s%s", file ? file : "", line || !file ? "" : ": ");
    n += line ? snprintf(text + n, sizeof text - (size_t)n, ", line %u: ", line) : 0;
    n += snprintf(text + n, sizeof text - (size_t)n, "%.300s%s", key ? key : "", key ? ": " : "");
    va_start(ap, fmt);
    vsnprintf(text + n, sizeof text - (size_t)n, fmt, ap);
    va_end(ap);
    if (list_grow(s, &s->message, &s->message_capacity, s->messages, sizeof *s->message))
        s->message[s->messages++] = text_keep(s, text);
}

static void option_free(settings_option *o)
{
    yk__free(o->name);
    yk__free(o->value);
    yk__free(o->key);
}

static void option_remove(settings *s, size_t k)
{
    option_free(&s->option[k]);
    memmove(&s->option[k], &s->option[k + 1], (--s->options - k) * sizeof *s->option);
}

void settings_put(settings *s, settings_scope scope, const char *name, const char *value, const char *file, settings_place at)
{
    const settings_option *before = settings_find(s, scope, name);
    if (before && before->preset) {
        option_remove(s, (size_t)(before - s->option));
        before = NULL;
    }
    if (before)
        s->option[before - s->option].says++;
    const yk__cli_command *command = scope == SETTINGS_LAUNCH ? yk__launch_command : yk__train_command;
    const bool differs = before && before->value && value && !yk__cli_same_value(command, name, before->value, value);
    if (differs && scope != SETTINGS_ENV && settings_replaced(s, name))
        settings_part_of(s, before->name, value, file, at); /* is dropped with the first */
    else if (differs)
        settings_say(s, file, at.line, at.key, "--%s would be %s, and %s, line %u makes it %s: leave one", name, value, before->file,
                     before->line,
                     before->value);
    else if (!before && list_grow(s, &s->option, &s->option_capacity, s->options, sizeof *s->option))
        s->option[s->options++] =
            (settings_option){.scope = scope, .name = text_keep(s, name), .value = text_keep(s, value), .key = text_keep(s, at.key),
                              .file = file, .line = at.line, .says = 1};
}

void settings_preset(settings *s, const char *name, const char *value, const char *file)
{
    const size_t before = s->options;
    if (settings_find(s, SETTINGS_TRAIN, name))
        return;
    settings_put(s, SETTINGS_TRAIN, name, value, file, (settings_place){1, NULL});
    if (s->options > before)
        s->option[before].preset = true;
}

const char *settings_typed(const settings *s, const char *name)
{
    const int k = s->command ? yk__cli_find(s->command, name, strlen(name)) : -1;
    return k < 0 ? NULL : s->typed[k];
}

double settings_typed_number(const settings *s, const char *name)
{
    const char *text = settings_typed(s, name);
    return text ? strtod(text, NULL) : 0;
}

const char *settings_mapped(const yk__cli_command *c, const char *name, size_t n, const char *value, char *space, size_t size)
{
    const char *given = value ? value : "true", *mapped = NULL;
    for (size_t i = 0; i < c->n_spellings; i++) {
        const yk__cli_spelling *row = &c->spellings[i];
        if (!yk__cli_is_named(row->name, name, n))
            continue;
        if (row->ours && row->map && 2 * strlen(given) + 64 <= size)
            mapped = row->map(given, space, size);
        break;
    }
    return mapped && mapped != yk__spell_nothing ? mapped : value;
}

bool settings_list_has(const char *list, const char *words, bool in)
{
    bool has = false;
    for (; *list && !has; list += *list == ',') {
        const size_t n = strcspn(list, ",");
        has = (yk__word_find(words, list, n) >= 0) == in;
        list += n;
    }
    return has;
}

/* True if the file's precision, under any of its names, is one of the words. words: NULL for any. */
static bool precision_is(const settings *s, const char *words)
{
    bool is = false;
    for (size_t i = 0; i < s->options && !is; i++) {
        const settings_option *o = &s->option[i];
        char space[128];
        const bool format = o->name && !o->value && (!strcmp(o->name, "bf16") || !strcmp(o->name, "fp16"));
        const bool named = o->name && yk__cli_is_named("precision|dtype|torch-dtype|mixed-precision|amp|use-amp|native-amp", o->name,
                                                       strlen(o->name));
        const char *value = format ? o->name : !named ? NULL
            : s->command ? settings_mapped(s->command, o->name, strlen(o->name), o->value, space, sizeof space) : o->value;
        is = o->scope == SETTINGS_TRAIN && value && (!words || settings_list_has(value, words, true));
    }
    return is;
}

#define HALF_WORDS "fp16=float16=half=f16"

const char *settings_typed_precision(const settings *s)
{
    static const struct {
        const char *name, *words;
    } switches[] = {{"bf16", "bf16=bfloat16"}, {"fp16", HALF_WORDS}};
    const char *typed = settings_typed(s, "precision");
    bool off = false;
    for (size_t i = 0; i < 2; i++) {
        const char *given = settings_typed(s, switches[i].name);
        if (given && yk__cli_truth(given) != 0)
            return switches[i].name;
        off = off || (given && precision_is(s, switches[i].words));
    }
    return typed || !off ? typed : "fp32";
}

const char *settings_owner(const settings *s, const char *name)
{
    static const struct {
        const char *owner, *options, *words; /* words: "" for the file's own value */
        bool use;                            /* these words have a use for the options; else all but these */
    } belongings[] = {{"lr-scheduler-type", "lr-scheduler-kwargs", "", true},
                      {"optim", "momentum", "sgd", true},
                      {"optim", "adam-beta1|adam-beta2|adam-epsilon", "sgd", false},
                      {"precision", "loss-scaling", HALF_WORDS, true},
                      {"shard", "shard-within|keep-whole|prefetch-units|reshard-after-forward", "params", true},
                      {"report-to", "run-name|logging-dir", "none", false}};
    for (size_t i = 0; i < sizeof belongings / sizeof belongings[0]; i++) {
        const char *owner = belongings[i].owner, *words = belongings[i].words;
        const bool format = !strcmp(owner, "precision");
        const settings_option *own = settings_find(s, SETTINGS_TRAIN, owner);
        const char *typed = format ? settings_typed_precision(s) : settings_typed(s, owner);
        yk__stage stage;
        if (!typed || !yk__cli_is_named(belongings[i].options, name, strlen(name)) || !(own || (format && precision_is(s, NULL))))
            continue;
        if (!strcmp(owner, "shard") && yk__stage_find(typed, &stage))
            typed = stage.word;
        if (!settings_list_has(typed, *words || !own ? words : own->value, belongings[i].use))
            return owner;
    }
    return NULL;
}

bool settings_alike(const char *name, const char *other)
{
    static const char *const alike[] = {"global-batch|per-device-train-batch-size", "warmup-steps|warmup-ratio",
                                        "num-processes|nproc-per-node"};
    bool is = false;
    for (size_t i = 0; i < sizeof alike / sizeof alike[0]; i++)
        is = is || (yk__cli_is_named(alike[i], name, strlen(name)) && yk__cli_is_named(alike[i], other, strcspn(other, "|")));
    return is;
}

bool settings_typed_alike(const settings *s, const char *name)
{
    bool is = false;
    for (size_t i = 0; s->command && i < s->command->n_options && !is; i++)
        is = s->typed[i] && settings_alike(name, s->command->options[i].name);
    return is;
}

bool settings_replaced(const settings *s, const char *name)
{
    return settings_typed(s, name) || settings_typed_alike(s, name) || settings_owner(s, name) ||
           (!strcmp(name, "precision") && settings_typed_precision(s));
}

void settings_part_of(settings *s, const char *name, const char *value, const char *file, settings_place at)
{
    if (list_grow(s, &s->part, &s->part_capacity, s->parts, sizeof *s->part))
        s->part[s->parts++] = (settings_part){.name = name, .file = file, .value = text_keep(s, value), .key = text_keep(s, at.key),
                                              .line = at.line};
}

/* True if the key's path is `end`, or ends with a point and `end`. */
static bool path_ends(const char *path, const char *end)
{
    const size_t n = strlen(path), k = strlen(end);
    return n >= k && !strcmp(path + n - k, end) && (n == k || path[n - k - 1] == '.');
}

void settings_mark(settings *s, settings_fate fate, const char *file, uint32_t line, const char *key, const char *why)
{
    for (size_t i = 0; key && i < s->items; i++) {
        settings_item *item = &s->item[i];
        if (item->fate != SETTINGS_REFUSED && item->file == file && item->line == line && item->path && path_ends(item->path, key)) {
            item->fate = fate;
            item->why = why;
        }
    }
}

/* The last message's text behind its key: the reason of a fate. NULL without memory. */
static const char *message_reason(settings *s, const char *key)
{
    const char *text = s->messages ? s->message[s->messages - 1] : NULL;
    char before[320];
    snprintf(before, sizeof before, ": %.300s: ", key);
    const char *at = text ? strstr(text, before) : NULL;
    return at ? settings_reason(s, at + strlen(before)) : NULL;
}

void settings_lack_folder(settings *s, const char *file, uint32_t line, const char *device, const char *folder)
{
    settings_say(s, file, line, device, "nvme needs %s, its folder", folder);
    settings_mark(s, SETTINGS_REFUSED, file, line, device, message_reason(s, device));
}

void settings_drop(settings *s, const settings_option *o, const char *why)
{
    const char *kept = settings_reason(s, why);
    settings_mark(s, SETTINGS_IDLE, o->file, o->line, o->key, kept);
    for (size_t i = 0; i < s->options; i++) /* o may be a copy */
        s->option[i].dropped = s->option[i].dropped || (s->option[i].scope == o->scope && !strcmp(s->option[i].name, o->name));
    for (size_t i = 0; i < s->parts; i++)
        if (!strcmp(s->part[i].name, o->name))
            settings_mark(s, SETTINGS_IDLE, s->part[i].file, s->part[i].line, s->part[i].key, kept);
}

const char *settings_reason(settings *s, const char *text)
{
    char *copy = text_keep(s, text);
    if (copy && list_grow(s, &s->reason, &s->reason_capacity, s->reasons, sizeof *s->reason))
        return s->reason[s->reasons++] = copy;
    yk__free(copy);
    return NULL;
}

const settings_option *settings_find(const settings *s, settings_scope scope, const char *name)
{
    for (size_t i = 0; i < s->options; i++)
        if (s->option[i].scope == scope && s->option[i].name && !strcmp(s->option[i].name, name))
            return &s->option[i];
    return NULL;
}

void settings_free(settings *s)
{
    for (size_t i = 0; i < s->items; i++) {
        yk__free(s->item[i].path);
        yk__free(s->item[i].value);
    }
    for (size_t i = 0; i < s->options; i++)
        option_free(&s->option[i]);
    for (size_t i = 0; i < s->parts; i++) {
        yk__free(s->part[i].value);
        yk__free(s->part[i].key);
    }
    for (size_t i = 0; i < s->reasons; i++)
        yk__free(s->reason[i]);
    for (size_t i = 0; i < s->messages; i++)
        yk__free(s->message[i]);
    for (size_t i = 0; i < s->files; i++)
        yk__free(s->file[i]);
    yk__free(s->item);
    yk__free(s->option);
    yk__free(s->part);
    yk__free(s->reason);
    yk__free(s->message);
    yk__free(s->file);
    *s = (settings){.err = YK_ERROR_INIT};
}

/* ---- Values ------------------------------------------------------------------------------------------------------ */

static const yk__tree *node_find(const yk__tree *map, const char *path)
{
    while (map && *path) {
        char key[96];
        const size_t n = strcspn(path, ".");
        snprintf(key, sizeof key, "%.*s", (int)n, path);
        map = yk__tree_get(map, key);
        path += n + (path[n] == '.');
    }
    return map;
}

static bool is_automatic(const yk__tree *node)
{
    return node->kind == YK__TREE_TEXT && !strcasecmp(node->text, "auto");
}

/* True if the node is a text other than "", null and "auto". */
static bool is_said(const yk__tree *node)
{
    return node && node->kind == YK__TREE_TEXT && *node->text && !yk__tree_is_null(node) && !is_automatic(node);
}

bool settings_is_given(const yk__tree *map, const char *path)
{
    const yk__tree *node = node_find(map, path);
    return node && !yk__tree_is_null(node);
}

const char *settings_text(const yk__tree *map, const char *path)
{
    const yk__tree *node = node_find(map, path);
    return is_said(node) ? node->text : NULL;
}

yk__tree *settings_key_get(const yk__tree *map, const char *prefix, const char *name)
{
    char key[96];
    snprintf(key, sizeof key, "%s%s", prefix, name);
    yk__tree *node = yk__tree_get(map, key);
    node = node ? node : yk__tree_get(map, name);
    return is_said(node) ? node : NULL;
}

bool settings_on(const yk__tree *map, const char *path, bool preset)
{
    const char *text = settings_text(map, path);
    return text ? yk__cli_truth(text) == 1 : preset;
}

double settings_number(const yk__tree *map, const char *path, double preset)
{
    const char *text = settings_text(map, path);
    return text ? yk__number_read(text, NULL) : preset;
}

uint32_t settings_line(const yk__tree *map, const char *path)
{
    const yk__tree *node = node_find(map, path);
    return node ? node->line : 1;
}

settings_place settings_at(const yk__tree *map, const char *path)
{
    return (settings_place){settings_line(map, path), path};
}

settings_place settings_of(const yk__tree *node)
{
    return (settings_place){node->line, node->key};
}

/* True if the value requests nothing. off: the row's words that request nothing besides false, null and "auto"; NULL if none. */
static bool is_off(const yk__tree *node, const char *off)
{
    if (node->kind == YK__TREE_LIST) {
        const yk__tree *c = node->child;
        while (c && is_off(c, off))
            c = c->next;
        return !c;
    }
    if (node->kind != YK__TREE_TEXT) {
        const yk__tree *enabled = yk__tree_get(node, "enabled");
        return !node->child || (enabled && (yk__tree_is_null(enabled) ||
                                            (enabled->kind == YK__TREE_TEXT && yk__cli_truth(enabled->text) == 0)));
    }
    if (off && *off == '=') { /* a number, where 0 asks for something */
        char *end;
        return yk__tree_is_null(node) || is_automatic(node) || (yk__number_read(node->text, &end) == strtod(off + 1, NULL) && !*end);
    }
    if (off && !strcmp(off, "true")) /* a key that asks for something where it is false */
        return yk__cli_truth(node->text) == 1 || is_automatic(node);
    return !*node->text || yk__cli_truth(node->text) == 0 || yk__word_find("none|null|auto", node->text, strlen(node->text)) >= 0 ||
           (off && yk__word_find(off, node->text, strlen(node->text)) >= 0);
}

static const char *node_words(const yk__tree *node)
{
    return node->kind == YK__TREE_MAP ? "a map" : node->kind == YK__TREE_LIST ? "a list" : node->quoted ? "text" : node->text;
}

/* A number in the row's range; false after a message. Whole numbers may be written as 5e8. */
static bool number_check(settings *s, const settings_key *row, const char *file, const yk__tree *node, const char *path, bool whole)
{
    const char *text = node->kind == YK__TREE_TEXT && !node->quoted ? node->text : "";
    const char *digits = text + (*text == '-');
    char *end;
    const double v = yk__number_read(text, &end);
    double least = whole ? 0 : -HUGE_VAL, most = whole ? 1e15 : HUGE_VAL;
    if (row->words)
        sscanf(row->words, "%lf %lf", &least, &most);
    if (!*text || *end || !isfinite(v) || strpbrk(text, "xX_") || (whole && v != floor(v))) {
        settings_say(s, file, node->line, path, "expected a %snumber, got %s%s%s", whole ? "whole " : "", node_words(node),
                     node->quoted ? " in quotes: " : "", node->quoted ? node->text : "");
        return false;
    }
    if (digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9') {
        settings_say(s, file, node->line, path, "%s is one number in YAML 1.1 and another in YAML 1.2: write it without the first 0", text);
        return false;
    }
    if (v < least || v > most) {
        settings_say(s, file, node->line, path, "expected a %snumber from %.15g to %.15g, got %s", whole ? "whole " : "", least, most,
                     text);
        return false;
    }
    return true;
}

static bool word_check(settings *s, const settings_key *row, const char *file, const yk__tree *node, const char *path)
{
    const char *text = node->kind == YK__TREE_TEXT ? node->text : "", *list[32], *near;
    yk__word word[32];
    char all[512] = "";
    size_t n = 0, used = 0;
    if (*text && yk__word_find(row->words, text, strlen(text)) >= 0)
        return true;
    for (; n < 32 && *(word[n] = yk__word_text(row->words, (int)n)).text && used < sizeof all - YK__WORD_BYTES; n++) {
        list[n] = word[n].text;
        used += (size_t)snprintf(all + used, sizeof all - used, "%s%s", n ? "|" : "", list[n]);
    }
    near = *text ? yk__nearest_word(text, list, n) : NULL;
    settings_say(s, file, node->line, path, "expected one of %s, got %s%s%s%s", all, *text ? text : node_words(node),
                 near ? ": did you mean " : "", near ? near : "", near ? "?" : "");
    return false;
}

static bool pair_check(settings *s, const char *file, const yk__tree *node, const char *path)
{
    const settings_key part = {.words = "0 0.999999999"};
    size_t n = 0;
    bool good = node->kind == YK__TREE_LIST;
    for (const yk__tree *c = node->child; c && good; c = c->next, n++)
        good = number_check(s, &part, file, c, path, false);
    if (good && n == 2)
        return true;
    if (node->kind != YK__TREE_LIST || n != 2)
        settings_say(s, file, node->line, path, "expected a list of two numbers, got %zu", n);
    return false;
}

/* False after a message. */
static bool value_check(settings *s, const settings_key *row, const char *file, const yk__tree *node, const char *path)
{
    switch (row->kind) {
    case SETTINGS_INT: return number_check(s, row, file, node, path, true);
    case SETTINGS_REAL: return number_check(s, row, file, node, path, false);
    case SETTINGS_WORD: return word_check(s, row, file, node, path);
    case SETTINGS_REALS: return pair_check(s, file, node, path);
    case SETTINGS_SWITCH:
        if (node->kind == YK__TREE_TEXT && yk__cli_truth(node->text) >= 0)
            return true;
        settings_say(s, file, node->line, path, "expected true or false, got %s", node_words(node));
        return false;
    case SETTINGS_MAP:
        if (node->kind == YK__TREE_MAP)
            return true;
        settings_say(s, file, node->line, path, "expected a map of keys, got %s", node_words(node));
        return false;
    default:
        if (row->kind == SETTINGS_ANY || node->kind == YK__TREE_TEXT)
            return true;
        settings_say(s, file, node->line, path, "expected a text, got %s", node_words(node));
        return false;
    }
}

/* Writes a word in its canonical spelling, and an integer in digits (5e8: 500000000), for later readers of the tree. */
static void value_settle(settings *s, const settings_key *row, yk__tree *node)
{
    char digits[40];
    yk__word word = {""};
    const char *text = word.text;
    char *copy;
    if (row->kind == SETTINGS_WORD)
        word = yk__word_text(row->words, yk__word_find(row->words, node->text, strlen(node->text)));
    else if (row->kind == SETTINGS_INT && !strchr(node->text, 'e') && !strchr(node->text, 'E') && !strchr(node->text, '.'))
        return;
    else if (row->kind == SETTINGS_INT) {
        snprintf(digits, sizeof digits, "%.0f", yk__number_read(node->text, NULL));
        text = digits;
    } else
        return;
    copy = text_keep(s, text);
    if (!copy)
        return;
    yk__free(node->text);
    node->text = copy;
}

/* ---- Walks ------------------------------------------------------------------------------------------------------- */

/* The value to print; a secret is hidden. */
static const char *node_shown(const yk__tree *node, const char *path)
{
    if (strstr(path, "api_key") || strstr(path, "experiment_key") || strstr(path, "token"))
        return "(not shown)";
    return node->kind == YK__TREE_TEXT ? node->text : node->child ? ".." : "{}";
}

static void item_add(settings *s, settings_fate fate, const char *file, const yk__tree *node, const char *path, const char *why)
{
    if (list_grow(s, &s->item, &s->item_capacity, s->items, sizeof *s->item))
        s->item[s->items++] = (settings_item){.fate = fate, .file = file, .line = node->line, .path = text_keep(s, path),
                                              .value = text_keep(s, node_shown(node, path)),
                                              .why = why};
}

/* True if one of the names between bars equals this. */
static bool names_have(const char *names, const char *name)
{
    const size_t n = strlen(name);
    for (; *names; names += *names == '|') {
        if (strcspn(names, "|") == n && !strncmp(names, name, n))
            return true;
        names += strcspn(names, "|");
    }
    return false;
}

/* True if the row describes this path. */
static bool row_is(const settings_key *row, const char *path)
{
    const char *dot = strrchr(row->path, '.');
    const size_t head = dot ? (size_t)(dot + 1 - row->path) : 0;
    return strlen(path) > head && !strncmp(row->path, path, head) && !strchr(path + head, '.') && names_have(row->path + head, path + head);
}

static const settings_key *row_find(const settings_table *table, const char *path)
{
    for (size_t i = 0; i < table->count; i++)
        if (row_is(&table->key[i], path))
            return &table->key[i];
    return NULL;
}

/* Refuses a key without a row, and names the nearest key of the same map. */
static void key_refuse(settings *s, const settings_table *table, const char *file, const yk__tree *node, const char *path,
                       const char *shown)
{
    const char *dot = strrchr(path, '.'), *word[256], *near;
    const size_t head = dot ? (size_t)(dot + 1 - path) : 0;
    static char kept[256][64];
    size_t n = 0;
    for (size_t i = 0; i < table->count; i++) {
        const char *row = table->key[i].path, *last = strrchr(row, '.'), *at = last ? last + 1 : row;
        if ((size_t)(at - row) != head || strncmp(row, path, head))
            continue;
        for (; *at && n < 256; at += strcspn(at, "|"), at += *at == '|') {
            snprintf(kept[n], sizeof kept[n], "%.*s", (int)strcspn(at, "|"), at);
            word[n] = kept[n];
            n++;
        }
    }
    near = yk__nearest_word(path + head, word, n);
    settings_say(s, file, node->line, shown, "unknown key of %s%s%s%s", table->title, near ? ": did you mean " : "", near ? near : "",
                 near ? "?" : "");
    item_add(s, SETTINGS_REFUSED, file, node, shown, message_reason(s, shown));
}

static void option_put(settings *s, const settings_key *row, const char *file, const yk__tree *node)
{
    const bool launch = !strncmp(row->option, "launch:", 7), variable = !strncmp(row->option, "env:", 4);
    const char *name = strchr(row->option, ':') + 1;
    if (row->kind == SETTINGS_SWITCH && yk__cli_truth(node->text) == 0)
        return;
    settings_put(s, launch ? SETTINGS_LAUNCH : variable ? SETTINGS_ENV : SETTINGS_TRAIN, name,
                 row->kind == SETTINGS_SWITCH ? NULL : node->text, file, settings_of(node));
}

bool settings_is_comment(const char *key)
{
    return *key == '_' || *key == '#' || !strncmp(key, "//", 2) || !strcasecmp(key, "comment") || !strcasecmp(key, "comments");
}

/* Notes a key's fate, and puts its option. path: in the table; shown: in the file; below: map_walk, which visits a map's keys. */
static void key_walk(settings *s, const settings_table *table, const char *file, yk__tree *node, const char *path, const char *shown,
                     void (*below)(settings *s, const settings_table *t, const char *file, const yk__tree *n, const char *p,
                                   const char *shown))
{
    const settings_key *row = strchr(node->key, '.') ? NULL : row_find(table, path); /* a dot is of a path, not of a key */
    const bool empty = row && row->kind == SETTINGS_TEXT && node->kind == YK__TREE_TEXT && !*node->text;
    const bool nothing = empty || yk__tree_is_null(node), automatic = table->automatic && is_automatic(node);
    if (!row && table->comments && settings_is_comment(node->key)) {
        item_add(s, SETTINGS_IDLE, file, node, shown, "a comment");
        return;
    }
    if (!row) {
        key_refuse(s, table, file, node, path, shown);
        return;
    }
    if (nothing || (automatic && row->kind != SETTINGS_MAP && row->fate < SETTINGS_IDLE)) {
        item_add(s, automatic ? row->fate : SETTINGS_IDLE, file, node, shown, automatic ? "the command's own value" : "nothing is set");
        return;
    }
    if (row->fate == SETTINGS_REFUSED || row->fate == SETTINGS_LATER) {
        const bool off = is_off(node, row->off);
        item_add(s, off ? SETTINGS_IDLE : row->fate, file, node, shown, off ? "asks for nothing" : row->why);
        if (!off && row->fate == SETTINGS_REFUSED)
            settings_say(s, file, node->line, shown, "%s", row->why);
        return;
    }
    if (!(automatic && row->fate == SETTINGS_IDLE) && !value_check(s, row, file, node, shown)) {
        item_add(s, SETTINGS_REFUSED, file, node, shown, message_reason(s, shown));
        return;
    }
    if (row->kind == SETTINGS_MAP && !node->child)
        item_add(s, SETTINGS_IDLE, file, node, shown, "nothing is set");
    if (row->kind == SETTINGS_MAP) {
        below(s, table, file, node, path, shown);
        return;
    }
    item_add(s, row->fate, file, node, shown, row->why);
    if (!automatic)
        value_settle(s, row, node);
    if (row->option && row->fate < SETTINGS_IDLE)
        option_put(s, row, file, node);
}

static void map_walk(settings *s, const settings_table *table, const char *file, const yk__tree *map, const char *path, const char *shown)
{
    for (yk__tree *c = map->child; c && !s->err.status; c = c->next) {
        char full[256], seen[320];
        snprintf(full, sizeof full, "%s%s%s", path, *path ? "." : "", c->key);
        snprintf(seen, sizeof seen, "%s%s%s", shown, *shown ? "." : "", c->key);
        key_walk(s, table, file, c, full, seen, map_walk);
    }
}

void settings_walk(settings *s, const settings_table *table, const char *file, yk__tree *map, const char *shown, const char *strip)
{
    const size_t n = strlen(strip);
    for (yk__tree *c = map->child; c && !s->err.status; c = c->next) {
        const bool longer = n && !strncmp(c->key, strip, n);
        const yk__tree *twin = longer ? yk__tree_get(map, c->key + n) : NULL;
        char seen[320];
        snprintf(seen, sizeof seen, "%s%s%s", shown, *shown ? "." : "", c->key);
        if (twin)
            settings_say(s, file, c->line, seen, "%s (line %u) is the same key: leave one", twin->key, twin->line);
        key_walk(s, table, file, c, c->key + (longer ? n : 0), seen, map_walk);
    }
}

void settings_idle(settings *s, const char *file, const yk__tree *map, const char *path, const char *why)
{
    for (const yk__tree *c = map ? map->child : NULL; c && !s->err.status; c = c->next) {
        char full[256];
        snprintf(full, sizeof full, "%s%s%s", path, *path && c->key ? "." : "", c->key ? c->key : "");
        item_add(s, SETTINGS_IDLE, file, c, full, why);
    }
}

void settings_unneed(settings *s, const char *file, const char *path, const char *why)
{
    const size_t n = strlen(path);
    for (size_t i = 0; i < s->items; i++) {
        settings_item *item = &s->item[i];
        if (item->fate != SETTINGS_REFUSED && item->file == file && item->path && !strncmp(item->path, path, n) &&
            strchr("._", item->path[n] ? item->path[n] : '.')) {
            item->fate = SETTINGS_IDLE;
            item->why = why;
        }
    }
}
