/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Saves a tokenizer to a model's folder (yk_data_save_tokenizer): its source files, and in tokenizer_config.json every choice by an option,
 * a preset or another file. So neither the folder's name nor the command line is needed again. Rank 0 writes, in the step thread.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/limit.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/io/folder.h"
#include "core/io/json.h"
#include "core/text/source.h"
#include "core/io/text.h"
#include "core/text/tokenizer.h"
#include "core/io/utf8.h"

/* ---- Characters and bytes ---- */

static void char_put(FILE *f, int32_t c)
{
    char u[5] = "";
    if (c < 0x20 || c == '"' || c == '\\' || c == 0x7f)
        fprintf(f, "\"\\u%04x\"", (unsigned)c);
    else {
        u[yk__utf8_put(c, u)] = 0;
        fprintf(f, "\"%s\"", u);
    }
}

/* Writes a WordLevel model whose words are single characters. Expressions of Hugging Face's tokenizers are Oniguruma's, which has no
 * (?s:.) */
static void chars_put(const yk__tokenizer *tok, FILE *f)
{
    fputs("{\"version\":\"1.0\",\"added_tokens\":[],\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"Split\","
          "\"pattern\":{\"Regex\":\"[\\\\s\\\\S]\"},\"behavior\":\"Isolated\",\"invert\":false},\"post_processor\":null,"
          "\"decoder\":{\"type\":\"Fuse\"},\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"<unk>\",\"vocab\":{",
          f);
    for (int32_t i = 0; i < tok->n_chars; i++) {
        fputs(i ? "," : "", f);
        char_put(f, tok->chars[i]);
        fprintf(f, ":%" PRId32, i);
    }
    fputs("}}}\n", f);
}

/* Writes a BPE on bytes without merges: the id of a byte is the byte. */
static void bytes_put(FILE *f)
{
    fputs("{\"version\":\"1.0\",\"added_tokens\":[],\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\","
          "\"add_prefix_space\":false,\"trim_offsets\":false,\"use_regex\":false},\"post_processor\":null,"
          "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{",
          f);
    for (int b = 0; b < 256; b++) {
        fputs(b ? "," : "", f);
        char_put(f, yk__tok_byte_char(b));
        fprintf(f, ":%d", b);
    }
    fputs("}}}\n", f);
}

static yk_status text_write(const char *path, const yk__tokenizer *tok, yk_error *err)
{
    FILE *f = fopen(path, "we");
    int bad;
    if (!f)
        return yk__fail(err, YK_E_IO, "%s: cannot be written", path);
    if (tok->kind == TOK_CHAR)
        chars_put(tok, f);
    else
        bytes_put(f);
    bad = ferror(f);
    yk__limit_held held;
    yk__limit_hold(&held);
    bad |= fclose(f);
    yk__limit_release(&held);
    return bad ? yk__fail(err, YK_E_IO, "%s: writing failed", path) : YK_OK;
}

/* ---- tokenizer_config.json ---- */

static yk_status json_write(const char *path, const json_t *v, yk_error *err)
{
    char *text = yk__json_dump(v, JSON_INDENT(2) | JSON_ENSURE_ASCII);
    char *lines = text ? yk__format("%s\n", text) : NULL;
    yk_status s = lines ? yk__folder_write_file(path, lines, strlen(lines), err) : yk__fail_mem(err, 1 << 16, "a configuration");
    yk__free(text);
    yk__free(lines);
    return s;
}

/* Sets a key if its value differs, and *changed then. -1 if memory ran out. */
static int key_set(json_t *o, const char *key, json_t *v, bool *changed)
{
    const json_t *old = json_object_get(o, key);
    const bool same = v && old && json_equal(old, v);
    if (same)
        json_decref(v);
    *changed |= !same;
    return same ? 0 : json_object_set_new(o, key, v);
}

/* Sets the class's keys to the values in use. A null of strip_accents follows the casing and stays. */
static int settings_put(const yk__tokenizer *tok, json_t *config, bool *changed)
{
    const json_t *accents = json_object_get(config, "strip_accents");
    const bool follows = accents && json_is_null(accents) && tok->strip_accents == tok->lowercase;
    int bad = 0;
    if (tok->class_wins || !json_object_get(config, "tokenizer_class"))
        bad |= key_set(config, "tokenizer_class", json_string(tok->class_name), changed);
    if (!strcmp(tok->class_name, "BertTokenizer")) {
        bad |= key_set(config, "do_lower_case", json_boolean(tok->lowercase), changed);
        bad |= follows ? 0 : key_set(config, "strip_accents", json_boolean(tok->strip_accents), changed);
        bad |= key_set(config, "tokenize_chinese_chars", json_boolean(tok->chinese), changed);
    }
    if (!strcmp(tok->class_name, "GPT2Tokenizer"))
        bad |= key_set(config, "add_prefix_space", json_boolean(tok->prefix_space), changed);
    for (int i = 0; i < tok->n_presets; i++) { /* earlier versions had none of them in a folder that does not name them */
        const char *token = tok->presets[i].token;
        if (!json_object_get(config, tok->presets[i].key))
            bad |= key_set(config, tok->presets[i].key, token ? json_string(token) : json_null(), changed);
    }
    return bad;
}

/* Sets the normalizer of a tokenizer.json to the values in use. */
static int normalizer_put(const yk__tokenizer *tok, json_t *root, bool *changed)
{
    json_t *v = json_object_get(root, "normalizer");
    const json_t *accents = json_object_get(v, "strip_accents"), *lower = json_object_get(v, "lowercase");
    int bad = 0;
    if (tok->kind != TOK_WORDPIECE || !json_is_object(v))
        return 0;
    if (!json_is_boolean(lower) || json_is_true(lower) != tok->lowercase)
        bad |= key_set(v, "lowercase", json_boolean(tok->lowercase), changed);
    if (json_is_boolean(accents) ? json_is_true(accents) != tok->strip_accents : tok->strip_accents != tok->lowercase)
        bad |= key_set(v, "strip_accents", json_boolean(tok->strip_accents), changed);
    if ((json_is_boolean(json_object_get(v, "handle_chinese_chars")) || !tok->chinese))
        bad |= key_set(v, "handle_chinese_chars", json_boolean(tok->chinese), changed);
    return bad;
}

/* Reads `from`, changes it, and writes it to `to`; an unchanged file is not written, with *changed false. */
static yk_status file_change(const yk__tokenizer *tok, const char *from, const char *to,
                             int (*change)(const yk__tokenizer *tok, json_t *root, bool *changed), bool *changed, yk_error *err)
{
    json_t *root = NULL;
    yk_status s = access(from, F_OK) == 0 ? yk__json_load(from, YK__JSON_ANY, &root, err) : YK_OK;
    *changed = false;
    if (!s && !root)
        root = json_object();
    if (!s && (!root || change(tok, root, changed)))
        s = yk__fail_mem(err, 1 << 16, "a configuration");
    if (!s && *changed)
        s = json_write(to, root, err);
    json_decref(root);
    return s;
}

/* ---- Files ---- */

static yk_status file_copy(const char *from, const char *to, yk_error *err)
{
    char *text;
    size_t n;
    yk_status s = yk__text_open(from, 1, &text, &n, err);
    if (s)
        return s;
    s = yk__folder_write_file(to, text, n, err);
    yk__free(text);
    return s;
}

/* Saves a file of the tokenizer's source folder: copies it, or writes it anew if its content must differ. */
static yk_status file_save(const yk__tokenizer *tok, const char *from, const char *to, const char *name, yk_error *err)
{
    bool changed = false;
    yk_status s = YK_OK;
    if (!strcmp(name, "tokenizer_config.json"))
        s = file_change(tok, from, to, settings_put, &changed, err);
    else if (!strcmp(name, "tokenizer.json") && access(from, F_OK) == 0)
        s = file_change(tok, from, to, normalizer_put, &changed, err);
    if (s || changed || access(from, F_OK) != 0)
        return s;
    return file_copy(from, to, err);
}

static yk_status folder_save(const yk__tokenizer *tok, const char *dir, yk_error *err)
{
    const size_t n = strlen(tok->dir);
    const bool single = n > 5 && !strcmp(tok->dir + n - 5, ".json");
    static const char *const names[] = {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
                                        "vocab.txt",      "vocab.json",            "merges.txt"};
    yk_status s = YK_OK;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !s; i++) {
        char *to = yk__format("%s/%s", dir, names[i]);
        char *from = single && i == 0 ? yk__strdup(tok->dir) : yk__format("%s/%s", tok->dir, names[i]);
        s = to && from ? file_save(tok, from, to, names[i], err) : yk__fail_mem(err, n, "a path");
        yk__free(to);
        yk__free(from);
    }
    return s;
}

static yk_status made_save(const yk__tokenizer *tok, const char *dir, yk_error *err)
{
    char *path = yk__format("%s/tokenizer.json", dir), *config = yk__format("%s/tokenizer_config.json", dir);
    yk_status s = path && config ? text_write(path, tok, err) : yk__fail_mem(err, strlen(dir), "a path");
    if (!s) /* from a config.json of GPT-2 transformers would build another tokenizer */
        s = yk__folder_write_file(config, "{\"tokenizer_class\": \"PreTrainedTokenizerFast\"}\n", 47, err);
    yk__free(path);
    yk__free(config);
    return s;
}

yk_status yk__tokenizer_save(const yk__tokenizer *tok, const char *dir, yk_error *err)
{
    if (!tok->dir || tok->kind == TOK_CHAR)
        return made_save(tok, dir, err);
    if (access(tok->dir, R_OK) != 0)
        yk__log(YK_LOG_WARN, "tokenizer", "%s: it is gone, and %s is saved without a tokenizer", tok->dir, dir);
    return access(tok->dir, R_OK) == 0 ? folder_save(tok, dir, err) : YK_OK;
}
