/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the files of results with the files that a command reads, by inode, so that links and other spellings are found. train.c (for
 * every command that trains or uses a model) and cmd_tokenize.c call it in the main thread, before anything is read.
 */
#include "tools/train/inputs.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/io/folder.h"

/* Endings of names in folders of models, tokenizers, checkpoints and data. Other files there may be earlier results. */
static const char *const endings[] = {"config.json", "tokenizer.json", "special_tokens_map.json", "added_tokens.json", "vocab.txt",
                                      "vocab.json",  "merges.txt",     "chat_template.jinja",     "trainer_state.json", ".safetensors",
                                      ".index.json", "ubyte",          ".bin",                    ".gz"};

static bool name_is_input(const char *name)
{
    const size_t n = strlen(name);
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        const size_t k = strlen(endings[i]);
        if (n >= k && !strcmp(name + n - k, endings[i]))
            return true;
    }
    return false;
}

/* True if `to` is the input, or an input's file in it, if that is a folder. */
static bool input_has(const char *input, const char *to)
{
    bool has = yk__folder_same(input, to);
    DIR *d = *input && !has ? opendir(input) : NULL;
    for (struct dirent *e; d && !has && (e = readdir(d));) {
        char path[4400];
        snprintf(path, sizeof path, "%.4096s/%s", input, e->d_name);
        has = name_is_input(e->d_name) && yk__folder_same(path, to);
    }
    if (d)
        closedir(d);
    return has;
}

/* True for a part between '+' of KIND:PATH+PATH, or a file of the options that follow. A path may have a '+' itself. */
static bool spec_has(const char *spec, const char *to)
{
    const char *at = strchr(spec, ':');
    char path[4096];
    if (!at)
        return false;
    snprintf(path, sizeof path, "%.*s", (int)strcspn(at + 1, ","), at + 1);
    if (input_has(path, to))
        return true;
    for (; at; at = strpbrk(at + 1, "+,")) {
        const char *from = at + 1;
        if (*at == ',')
            from += strcspn(from, "=,") + (from[strcspn(from, "=,")] == '=');
        snprintf(path, sizeof path, "%.*s", (int)strcspn(from, *at == ',' ? "," : "+,"), from);
        if (input_has(path, to))
            return true;
    }
    return false;
}

static const char *const writes[] = {"output", "log"};

void inputs_keep(const yk__cli *cli, bool *bad)
{
    static const char *const reads[] = {"data", "eval-data", "eval-rows", "from", "tokenizer", "resume-from-checkpoint"};
    for (size_t k = 0; k < 2; k++) {
        const char *to = yk__cli_text(cli, writes[k]);
        struct stat st;
        for (size_t i = 0; to && !stat(to, &st) && i < sizeof reads / sizeof reads[0]; i++) {
            const char *given = yk__cli_text(cli, reads[i]);
            if (!given || !(i < 2 ? spec_has(given, to) : input_has(given, to)))
                continue;
            yk__cli_usage(cli->command, "--%s %s: is a file of --%s, which would be lost: name another file", writes[k], to, reads[i]);
            *bad = true;
        }
    }
}

bool inputs_keep_words(const yk__cli *cli, char *const *words)
{
    for (size_t k = 0; k < 2; k++) {
        const char *to = yk__cli_text(cli, writes[k]);
        int named = 0;
        for (char *const *w = words; to && *w; w++) {
            const char *eq = **w == '-' ? strchr(*w, '=') : NULL;
            named += yk__folder_same(eq ? eq + 1 : *w, to);
        }
        if (named < 2)
            continue;
        yk__cli_usage(cli->command, "--%s %s: another option names this file, which would be lost: name another file", writes[k], to);
        return false;
    }
    return true;
}
