/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads settings files: finds a file's format (Yoke's, Accelerate's, DeepSpeed's, Trainer's), and hands it to that format's table
 * (keys_*.c). apply.c and `yoke config` call it in the main thread. A settings object owns its texts until settings_free.
 */
#include "tools/config/config_settings.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "core/base/word.h"
#include "core/run/stage.h"
#include "tools/spell.h"

static const char *file_keep(settings *s, const char *name)
{
    char *copy = yk__strdup(name);
    if (!copy || yk__grow(&s->file, &s->file_capacity, s->files + 1, sizeof *s->file)) {
        yk__free(copy);
        yk__fail_mem(&s->err, strlen(name), "the name of a file of settings");
        return NULL;
    }
    s->file[s->files++] = copy;
    return copy;
}

static yk_status settings_status(const settings *s)
{
    return s->err.status ? s->err.status : s->messages ? YK_E_FORMAT : YK_OK;
}

/* ---- Yoke's own -------------------------------------------------------------------------------------------------- */

/* A name from a command's table or its spellings; NULL if unknown. Sets *valued. */
static const char *name_find(const yk__cli_command *c, const char *name, bool *valued, const yk__cli_option **refused)
{
    const int k = yk__cli_find(c, name, strlen(name));
    *refused = k >= 0 && c->options[k].arg == YK_REFUSED ? &c->options[k] : NULL;
    for (size_t i = 0; i < c->n_spellings; i++)
        if (yk__cli_is_named(c->spellings[i].name, name, strlen(name))) {
            *valued = c->spellings[i].arg;
            return name;
        }
    *valued = k >= 0 && yk__cli_takes_value(&c->options[k]);
    return k >= 0 ? name : NULL;
}

/* Options of the command line that name settings (apply.c). */
#define SOURCE_NAMES                                                                                                                 \
    "config-file|default-config-file|deepspeed|deepspeed-config|deepspeed-config-file|fsdp|fsdp-config|sharded-ddp|parallelism-config|" \
    "accelerator-config|dry-run"

static void own_option(settings *s, const yk__cli_command *c, settings_scope scope, const char *file, const yk__tree *node)
{
    bool valued = false;
    const yk__cli_option *refused = NULL;
    const char *words[YK_CLI_OPTIONS], *near = NULL;
    static char kept[YK_CLI_OPTIONS][64];
    char name[100], path[128], space[2048];
    snprintf(path, sizeof path, "%s.%.90s", c->name, node->key);
    if (!name_find(c, node->key, &valued, &refused)) {
        for (size_t i = 0; i < c->n_options; i++) {
            snprintf(kept[i], sizeof kept[i], "%.*s", (int)strcspn(c->options[i].name, "|"), c->options[i].name);
            words[i] = kept[i];
        }
        near = yk__nearest_word(node->key, words, c->n_options);
        settings_say(s, file, node->line, path, "yoke %s has no such option%s%s%s", c->name, near ? ": did you mean " : "", near ? near
                     : "", near ? "?" : "");
    } else if (yk__tree_is_null(node) || (refused && node->kind == YK__TREE_TEXT && yk__cli_asks_nothing(refused, node->text)))
        return;
    else if (refused)
        settings_say(s, file, node->line, path, "%s", refused->help);
    else if (yk__cli_is_named(SOURCE_NAMES, node->key, strlen(node->key)))
        settings_say(s, file, node->line, path, "a file of settings names no other: give --%s on the command line", node->key);
    else if (node->kind != YK__TREE_TEXT)
        settings_say(s, file, node->line, path, "expected a value, got a map or a list");
    else if (!valued && yk__cli_truth(node->text) < 0)
        settings_say(s, file, node->line, path, "expected true or false, got %s", node->text);
    else {
        const bool off = !valued && yk__cli_truth(node->text) == 0;
        const char *value = valued ? node->text : NULL, *ours = off ? node->key
                                                                    : yk__spell_option(c, node->key, strlen(node->key), &value, space,
                                                                                       sizeof space);
        snprintf(name, sizeof name, "%s%.90s", off ? "no-" : "", ours ? ours : "");
        for (char *p = name; *p; p++)
            *p = *p == '_' ? '-' : *p;
        if (ours)
            settings_put(s, scope, name, value, file, settings_of(node));
    }
}

static bool is_own(const yk__tree *map)
{
    return yk__tree_get(map, "yoke") || yk__tree_get(map, "train") || yk__tree_get(map, "launch");
}

static void own_read(settings *s, const char *file, const yk__tree *map)
{
    for (const yk__tree *c = map->child; c; c = c->next) {
        const bool train = !strcmp(c->key, "train"), launch = !strcmp(c->key, "launch");
        if (!strcmp(c->key, "yoke") && (c->kind != YK__TREE_TEXT || strcmp(c->text, "1") != 0) && !yk__tree_is_null(c))
            settings_say(s, file, c->line, "yoke", "expected 1, the form of this file");
        else if ((train || launch) && c->kind == YK__TREE_MAP)
            for (const yk__tree *node = c->child; node; node = node->next)
                own_option(s, train ? yk__train_command : yk__launch_command, train ? SETTINGS_TRAIN : SETTINGS_LAUNCH, file, node);
        else if ((train || launch) && !yk__tree_is_null(c))
            settings_say(s, file, c->line, c->key, "expected a map of options");
        else if (!train && !launch && strcmp(c->key, "yoke"))
            settings_say(s, file, c->line, c->key, "expected yoke, launch or train");
    }
}

/* ---- All --------------------------------------------------------------------------------------------------------- */

/* In this folder, as Accelerate has it, else in the folder of the file that names it. */
static void path_join(const char *file, const char *name, char *path, size_t size)
{
    const char *slash = strrchr(file, '/');
    const bool second = slash && *name != '/' && access(name, R_OK);
    snprintf(path, size, "%.*s%s", second ? (int)(slash + 1 - file) : 0, file, name);
}

static void read_named(settings *s, const char *file, const yk__tree *map)
{
    const char *type = settings_text(map, "distributed_type"), *name = settings_text(map, "deepspeed_config.deepspeed_config_file");
    char path[PATH_MAX];
    if (!name || !type || strcasecmp(type, "DEEPSPEED"))
        return;
    path_join(file, name, path, sizeof path);
    if (access(path, R_OK)) {
        settings_say(s, file, settings_line(map, "deepspeed_config.deepspeed_config_file"), "deepspeed_config_file",
                     "there is no file %s", path);
        return;
    }
    settings_read_as(s, &settings_deepspeed, NULL, path);
}

static bool is_accelerate(const yk__tree *map, const char *path)
{
    const size_t n = strlen(path);
    return yk__tree_get(map, "distributed_type") || yk__tree_get(map, "compute_environment") || n < 5 || strcasecmp(path + n - 5, ".json");
}

/* A trainer's own file (axolotl, LLaMA-Factory), which names one of DeepSpeed's or FSDP's. */
static bool is_of_trainer(const yk__tree *map)
{
    static const char *const keys[] = {"base_model", "model_name_or_path", "datasets", "dataset", "finetuning_type", "deepspeed"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0] && !yk__tree_get(map, "distributed_type"); i++)
        if (yk__tree_get(map, keys[i]))
            return true;
    return false;
}

static const char *table_title(const settings_table *table)
{
    return table ? table->title : "Yoke's or Accelerate's YAML, or DeepSpeed's JSON";
}

/* A file of Yoke's own or Accelerate's may have comments alone. */
static bool is_empty(const settings_table *table, const char *file, const yk__tree *map)
{
    struct stat st;
    return map->kind == YK__TREE_MAP && !map->child && !stat(file, &st) && (table || (S_ISREG(st.st_mode) && !st.st_size));
}

static void tree_read(settings *s, const settings_table *table, const char *file, yk__tree *map)
{
    if (map->kind != YK__TREE_MAP) {
        settings_say(s, file, map->line, NULL, "expected a map of keys, got %s: expected %s",
                     map->kind == YK__TREE_LIST ? "a list" : map->text, table_title(table));
        return;
    }
    if (is_empty(table, file, map)) {
        settings_say(s, file, 0, NULL, "has no settings: expected %s", table_title(table));
        return;
    }
    if (!table && is_own(map)) {
        own_read(s, file, map);
        return;
    }
    if (!table && is_of_trainer(map)) {
        const char *named = settings_text(map, "deepspeed");
        settings_say(s, file, map->child->line, map->child->key,
                     "a trainer's file (axolotl, LLaMA-Factory) is not read: give its settings as options of yoke train%s%s",
                     named ? ", and its file of DeepSpeed as --deepspeed " : "", named ? named : "");
        return;
    }
    table = table ? table : is_accelerate(map, file) ? &settings_accelerate : &settings_deepspeed;
    settings_walk(s, table, file, map, "", table == &settings_fsdp ? "fsdp_" : table == &settings_parallelism ? "parallelism_config_" : "");
    if (table == &settings_accelerate) {
        settings_finish_accelerate(s, file, map);
        read_named(s, file, map);
    } else if (table == &settings_deepspeed)
        settings_finish_deepspeed(s, file, map);
    else if (table == &settings_parallelism)
        settings_finish_parallelism(s, file, map, "parallelism_config_");
    else if (table == &settings_fsdp)
        settings_finish_fsdp(s, file, map, "fsdp_");
}

static yk_status source_read(settings *s, const settings_table *table, const char *name, const char *text)
{
    yk__tree *tree = NULL;
    yk_error err = YK_ERROR_INIT;
    const char *file = file_keep(s, name);
    if (!file)
        return s->err.status;
    if (text)
        yk__tree_json(file, text, strlen(text), &tree, &err);
    else
        yk__tree_load(file, &tree, &err);
    if (err.status) {
        const bool kind = err.status == YK_E_FORMAT;
        char *copy = yk__format("%s%s%s", err.text, kind ? ": expected " : "", kind ? table_title(table) : "");
        if (!copy || yk__grow(&s->message, &s->message_capacity, s->messages + 1, sizeof *s->message)) {
            yk__free(copy);
            return yk__fail_mem(&s->err, 0, "settings");
        }
        s->message[s->messages++] = copy;
        return err.status;
    }
    tree_read(s, table, file, tree);
    yk__tree_free(tree);
    return settings_status(s);
}

yk_status settings_read(settings *s, const char *path)
{
    return source_read(s, NULL, path, NULL);
}

yk_status settings_read_as(settings *s, const settings_table *table, const char *option, const char *given)
{
    const bool text = given[strspn(given, " ")] == '{';
    return source_read(s, table, text ? option : given, text ? given : NULL);
}

/* ---- Trainer's words --------------------------------------------------------------------------------------------- */

yk_status settings_read_strategy(settings *s, const char *option, const char *words)
{
    const char *file = file_keep(s, option);
    char copy[256], *next = copy, *word;
    snprintf(copy, sizeof copy, "%s", words);
    while (file && (word = strsep(&next, " ,"))) {
        const size_t n = strlen(word);
        yk__stage stage = {0};
        const bool staged = yk__stage_find(yk__cli_truth(word) == 1 ? "full_shard" : word, &stage);
        if (!n || yk__cli_truth(word) == 0 || yk__word_find("auto_wrap", word, n) == 0)
            continue;
        if (yk__word_find("offload", word, n) == 0)
            settings_put(s, SETTINGS_TRAIN, "offload", "state=host,params=host", file, (settings_place){1, NULL});
        else if (!staged)
            settings_say(s, file, 0, NULL,
                         "expected full_shard, shard_grad_op, no_shard, hybrid_shard, hybrid_shard_zero2, simple, zero_dp_2 or "
                         "zero_dp_3, with auto_wrap and offload, got \"%s\"", word);
        if (!staged)
            continue;
        settings_put(s, SETTINGS_TRAIN, "shard", stage.word, file, (settings_place){1, NULL});
        if (stage.within_host)
            settings_put(s, SETTINGS_TRAIN, "shard-within", "host", file, (settings_place){1, NULL});
        if (stage.stays)
            settings_put(s, SETTINGS_TRAIN, "reshard-after-forward", "off", file, (settings_place){1, NULL});
    }
    return settings_status(s);
}
