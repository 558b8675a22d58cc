/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inputs_keep refuses a command that would write its results over a file that it reads. It compares inodes, which finds links and other
 * spellings. train.c (for every command that trains or uses a model) and cmd_tokenize.c call it in the main thread, before they read data
 * or a model.
 */
#include "tools/train/inputs.h"

#include <dirent.h>
#include <fnmatch.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/io/folder.h"
#include "tools/config/apply.h"

/* Patterns name the files that a command reads in a folder of each kind. Files of other names may be earlier results. */
#define TOKENIZER_NAMES \
    "config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.txt", "vocab.json", \
        "merges.txt", "chat_template.jinja"
static const char *const of_tokenizer[] = {TOKENIZER_NAMES, NULL};
static const char *const of_model[] = {TOKENIZER_NAMES, "generation_config.json", "trainer_state.json", "best.json", "*.safetensors",
                                       "*.index.json", "pytorch_model*.bin", NULL};
static const char *const of_images[] = {"*ubyte", "*ubyte.gz", NULL}, *const of_records[] = {"*.bin", "*.bin.gz", NULL};

static const struct kind {
    const char *name;
    const char *const *names; /* NULL: it reads no folder */
    bool shards;              /* the path may be a glob pattern; in a folder, other names count too, except an empty file or a log */
    bool tables;              /* it reads categories.json beside the file */
} kinds[] = {
    {"idx", of_images, false, false}, {"cifar10", of_records, false, false}, {"tokens", of_records, true, false},
    {"csv", NULL, false, true},       {"jsonl", NULL, false, true},          {"lines", NULL, false, true},
};
static const struct kind plain;

static bool name_fits(const char *const *names, const char *name)
{
    while (*names && fnmatch(*names, name, 0))
        names++;
    return *names;
}

/* True if the file is empty or begins as a line of a log does. */
static bool file_is_log(const char *path)
{
    char head[2] = "{\"", first[2] = "{\"";
    FILE *f = fopen(path, "re");
    if (f && fread(first, 1, sizeof first, f) == 0)
        memcpy(first, head, sizeof first);
    if (f)
        fclose(f);
    return f && !memcmp(first, head, sizeof first);
}

/* input_has is true if `to` is the input itself or, in an input that is a folder, a file that the kind reads. */
static bool input_has(const char *input, const struct kind *kind, const char *to)
{
    bool has = yk__folder_same(input, to);
    DIR *d = kind->names && *input && !has ? opendir(input) : NULL;
    for (struct dirent *e; d && !has && (e = readdir(d));) {
        char path[4400];
        snprintf(path, sizeof path, "%.4096s/%s", input, e->d_name);
        has = yk__folder_same(path, to) && (name_fits(kind->names, e->d_name) || (kind->shards && !file_is_log(path)));
    }
    if (d)
        closedir(d);
    return has;
}

static bool part_has(const char *part, const struct kind *kind, const char *to)
{
    glob_t found = {0};
    bool has = input_has(part, kind, to);
    if (!has && kind->shards && !glob(part, GLOB_NOSORT, NULL, &found))
        for (size_t i = 0; i < found.gl_pathc && !has; i++)
            has = yk__folder_same(found.gl_pathv[i], to);
    globfree(&found);
    return has;
}

static bool categories_are(const char *table, const char *to)
{
    char path[4400];
    const char *slash = strrchr(table, '/');
    snprintf(path, sizeof path, "%.*scategories.json", slash ? (int)(slash + 1 - table) : 0, table);
    return yk__folder_same(path, to);
}

/* spec_has compares `to` with the parts between '+' of KIND:PATH+PATH,OPTION=FILE, each FILE, and the categories.json beside the
 * whole path of a table. It tries the whole path first, as a path may have a '+' itself. */
static bool spec_has(const char *spec, const char *to)
{
    const char *at = strchr(spec, ':');
    const struct kind *kind = &plain;
    char path[4096];
    if (!at)
        return false;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (!strncmp(kinds[i].name, spec, (size_t)(at - spec)) && !kinds[i].name[at - spec])
            kind = &kinds[i];
    snprintf(path, sizeof path, "%.*s", (int)strcspn(at + 1, ","), at + 1);
    if (part_has(path, kind, to) || (kind->tables && categories_are(path, to)))
        return true;
    for (; at; at = strpbrk(at + 1, "+,")) {
        const char *from = at + 1;
        if (*at == ',')
            from += strcspn(from, "=,") + (from[strcspn(from, "=,")] == '=');
        snprintf(path, sizeof path, "%.*s", (int)strcspn(from, *at == ',' ? "," : "+,"), from);
        if (part_has(path, *at == ',' ? &plain : kind, to))
            return true;
    }
    return false;
}

/* reader_find returns the option whose input has this file, "the settings" for a file of settings, or NULL if no input has it. */
static const char *reader_find(const yk__cli *cli, const char *to)
{
    static const struct kind model = {"", of_model, false, false}, tokenizer = {"", of_tokenizer, false, false};
    static const struct {
        const char *option;
        const struct kind *kind; /* NULL: the option's text names its kind, KIND:PATH */
    } reads[] = {{"--data", NULL},    {"--eval-data", NULL},       {"--eval-rows", &plain},
                 {"--from", &model}, {"--tokenizer", &tokenizer}, {"--resume-from-checkpoint", &model}};
    const char *file;
    for (size_t i = 0; i < sizeof reads / sizeof reads[0]; i++) {
        const char *given = yk__cli_text(cli, reads[i].option + 2);
        if (given && (reads[i].kind ? input_has(given, reads[i].kind, to) : spec_has(given, to)))
            return reads[i].option;
    }
    for (size_t i = 0; (file = settings_file(i)); i++)
        if (yk__folder_same(file, to))
            return "the settings";
    return NULL;
}

void inputs_keep(const yk__cli *cli, bool *bad)
{
    static const char *const writes[] = {"output", "log", "output-dir"};
    for (size_t k = 0; k < sizeof writes / sizeof writes[0]; k++) {
        const char *given = yk__cli_text(cli, writes[k]), *reader = NULL;
        const bool predicts = k == 2;
        char to[4400];
        struct stat st;
        snprintf(to, sizeof to, "%.4096s%s", given ? given : "", predicts ? "/predictions.jsonl" : "");
        if (given && (!predicts || yk__cli_on(cli, "do-predict")) && !stat(to, &st))
            reader = reader_find(cli, to);
        if (!reader)
            continue;
        yk__cli_usage(cli->command, "--%s %s: %s%sis a file of %s, which would be lost: name another %s", writes[k], given,
                      predicts ? to : "", predicts ? " " : "", reader, predicts ? "folder" : "file");
        *bad = true;
    }
}
