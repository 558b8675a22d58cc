/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trees of settings, as files in JSON or YAML have them, with the line of each key. tools/config and tools/plan read files with it, in the
 * main thread; yaml.c fills the same trees. jansson checks JSON text first; a walk over it afterwards counts lines. yk__tree_free frees all
 * of it.
 */
#include "core/io/tree.h"

#include <linux/magic.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "core/base/mem.h"
#include "core/io/file.h"
#include "core/io/foreign.h"
#include "core/io/json.h"

yk__tree *yk__tree_new(yk__tree_kind kind, uint32_t line, const char *key, const char *text, yk_error *err)
{
    yk__tree *node = yk__calloc(1, sizeof *node);
    if (node) {
        *node = (yk__tree){.kind = kind, .line = line, .key = key ? yk__strdup(key) : NULL, .text = text ? yk__strdup(text) : NULL};
        if ((node->key || !key) && (node->text || !text))
            return node;
    }
    yk__tree_free(node);
    yk__fail_mem(err, sizeof *node, "a tree of settings");
    return NULL;
}

void yk__tree_free(yk__tree *tree)
{
    while (tree) {
        yk__tree *next = tree->next;
        yk__tree_free(tree->child);
        yk__free(tree->key);
        yk__free(tree->text);
        yk__free(tree);
        tree = next;
    }
}

yk__tree *yk__tree_get(const yk__tree *map, const char *key)
{
    yk__tree *node = map && map->kind == YK__TREE_MAP ? map->child : NULL;
    while (node && strcmp(node->key, key))
        node = node->next;
    return node;
}

bool yk__tree_is_null(const yk__tree *node)
{
    return node->kind == YK__TREE_TEXT && !node->quoted && !strcmp(node->text, "null");
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

typedef struct json_walk {
    const char *name, *at;
    uint32_t line;
    int depth;
    yk_error *err;
} json_walk;

static char walk_space(json_walk *w)
{
    for (; *w->at && strchr(" \t\r\n", *w->at); w->at++)
        w->line += *w->at == '\n';
    return *w->at;
}

/* The string at the quote, decoded; yk__free it. NULL after an error, with err set. */
static char *walk_string(json_walk *w)
{
    const char *begin = w->at++;
    char *copy = NULL;
    json_t *value = NULL;
    while (*w->at != '"')
        w->at += *w->at == '\\' ? 2 : 1;
    w->at++;
    if (!yk__json_parse(w->name, begin, (size_t)(w->at - begin), YK__JSON_ANY, &value, w->err)) {
        if (strlen(json_string_value(value)) != json_string_length(value))
            yk__fail(w->err, YK_E_FORMAT, "%s, line %u: expected text in a string, got a NUL: remove it", w->name, w->line);
        else if (!(copy = yk__strdup(json_string_value(value))))
            yk__fail_mem(w->err, json_string_length(value), "a string of settings");
    }
    json_decref(value);
    return copy;
}

static yk__tree *walk_value(json_walk *w, uint32_t line, const char *key);

/* The key of a member and its colon; yk__free it. NULL after an error, with err set. */
static char *walk_key(json_walk *w, uint32_t *line)
{
    char *key;
    *line = w->line;
    key = walk_string(w);
    if (key && !*key) {
        yk__fail(w->err, YK_E_FORMAT, "%s, line %u: expected a key, got an empty one: name it", w->name, *line);
        yk__free(key);
        key = NULL;
    }
    walk_space(w);
    w->at++;
    return key;
}

/* Members of an object or values of an array, behind their bracket. */
static void walk_members(json_walk *w, yk__tree *parent, char close)
{
    yk__tree **last = &parent->child;
    while (!w->err->status && walk_space(w) != close) {
        uint32_t line = w->line;
        char *key = NULL;
        if (*w->at == ',') {
            w->at++;
            continue;
        }
        if (close == ']' || (key = walk_key(w, &line))) {
            *last = walk_value(w, close == ']' ? 0 : line, key);
            last = *last ? &(*last)->next : last;
        }
        yk__free(key);
    }
    w->at++;
}

static yk__tree *walk_nested(json_walk *w, uint32_t line, const char *key)
{
    const bool list = *w->at++ == '[';
    yk__tree *node = NULL;
    if (++w->depth > YK__TREE_DEPTH)
        yk__fail(w->err, YK_E_FORMAT, "%s, line %u: expected at most %d levels of maps and lists, got more: nest them less", w->name,
                 w->line, YK__TREE_DEPTH);
    else
        node = yk__tree_new(list ? YK__TREE_LIST : YK__TREE_MAP, line, key, NULL, w->err);
    if (node)
        walk_members(w, node, list ? ']' : '}');
    w->depth--;
    return node;
}

/* line 0 means the value's own line. */
static yk__tree *walk_value(json_walk *w, uint32_t line, const char *key)
{
    const char first = walk_space(w), *begin = w->at;
    char *text;
    yk__tree *node;
    line = line ? line : w->line;
    if (first == '{' || first == '[')
        return walk_nested(w, line, key);
    if (first == '"')
        text = walk_string(w);
    else {
        w->at += strcspn(w->at, ",]} \t\r\n");
        text = yk__strndup(begin, (size_t)(w->at - begin));
        if (!text)
            yk__fail_mem(w->err, (size_t)(w->at - begin), "a value of settings");
    }
    node = text ? yk__tree_new(YK__TREE_TEXT, line, key, text, w->err) : NULL;
    if (node)
        node->quoted = first == '"';
    yk__free(text);
    return node;
}

yk_status yk__tree_json(const char *name, const char *text, size_t bytes, yk__tree **out, yk_error *err)
{
    json_t *checked = NULL;
    char *copy = NULL;
    json_walk w = {.name = name, .line = 1, .err = err};
    *out = NULL;
    if (yk__json_parse(name, text, bytes, YK__JSON_UNIQUE_KEYS, &checked, err))
        return err->status;
    json_decref(checked);
    copy = yk__strndup(text, bytes);
    if (!copy)
        return yk__fail_mem(err, bytes, "a file of settings");
    w.at = copy;
    *out = walk_value(&w, 0, NULL);
    yk__free(copy);
    if (err->status) {
        yk__tree_free(*out);
        *out = NULL;
    }
    return err->status;
}

/* ---- Files ------------------------------------------------------------------------------------------------------- */

static bool is_json(const char *path, const char *text)
{
    const size_t n = strlen(path);
    return (n > 5 && !strcasecmp(path + n - 5, ".json")) || text[strspn(text, " \t\r\n")] == '{';
}

/* A pipe that is open already, as a shell's <(COMMAND) is; a named one without a writer would block for ever. */
static bool is_open_pipe(const char *path)
{
    struct statfs fs;
    return !statfs(path, &fs) && fs.f_type == PIPEFS_MAGIC;
}

yk_status yk__tree_load(const char *path, yk__tree **out, yk_error *err)
{
    yk__file *file;
    char *text = NULL;
    size_t bytes = 0, mark;
    struct stat st;
    *out = NULL;
    if (!stat(path, &st) && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode) && !is_open_pipe(path))
        return yk__fail(err, YK_E_ARG, "%s: is a named pipe or a device, expected a file or a pipe of the shell", path);
    if (yk__file_open(path, YK__FILE_AUTO, &file, err))
        return err->status;
    yk__file_read_rest(file, YK__TREE_BYTES, &text, &bytes, err);
    yk__file_close(file);
    if (err->status)
        return err->status;
    mark = yk__json_mark(text, bytes);
    if (!yk__foreign_refuse(path, YK__FOREIGN_TEXT, text, bytes, bytes, err))
        (is_json(path, text + mark) ? yk__tree_json : yk__tree_yaml)(path, text + mark, bytes - mark, out, err);
    yk__free(text);
    return err->status;
}
