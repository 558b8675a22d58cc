/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command yoke tokenize: the ids of a text, one line per line of text; or a token file of the whole text. yoke.c calls it by its table
 * of commands, in the main thread. core/text has the tokenizers. An option without effect is an error, as is an input without a text.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/io/folder.h"
#include "core/read/tokens.h"
#include "core/io/text.h"
#include "core/text/tokenizer.h"
#include "tools/cli.h"
#include "tools/train/inputs.h"

static const yk__cli_option options[] = {
    {"tokenizer", "DIR|char|bytes", NULL,
     "folder with tokenizer.json, vocab.txt, or vocab.json and merges.txt; or the file's characters; or bytes", NULL},
    {"special-tokens", NULL, NULL,
     "add the template's tokens ([CLS] .. [SEP]), as by default; --no-special-tokens leaves them out", NULL},
    {"lowercase", NULL, NULL, "fold case and accents in spite of the files; --no-lowercase keeps them", NULL},
    {"max-length", "N", NULL, "cut each line to this many ids", NULL},
    {"json", NULL, NULL, "a JSON array per line", NULL},
    {"output", "FILE", NULL, "write a token file for tokens:FILE instead: all of the text, its line ends too, no special tokens", NULL},
};

static const yk__cli_command command = {
    .name = "tokenize",
    .usage = "--tokenizer DIR FILE [options]",
    .summary = "turn text into token ids",
    .text = "Prints the ids of each line of FILE (- is standard input, gzip is unpacked) on a line of its own, "
            "separated by\n"
            "spaces. The line end itself is not tokenized. The file must be UTF-8, but for --tokenizer bytes.\n\n"
            "The files of the folder are read as transformers reads them. If no file says whether upper case counts, it "
            "is folded\nand a line says so.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .least = 1,
    .most = 1,
};

static yk_status open_tokenizer(const yk__cli *cli, const char *text, size_t bytes, yk__tokenizer **t, yk_error *err)
{
    const char *name = yk__cli_text(cli, "tokenizer");
    int lowercase = yk__cli_given(cli, "lowercase") ? yk__cli_on(cli, "lowercase") : -1;
    if (lowercase == 1 && (!strcmp(name, "bytes") || !strcmp(name, "char")))
        return yk__fail(err, YK_E_ARG, "--lowercase has no effect with --tokenizer %s", name);
    if (!strcmp(name, "bytes"))
        return yk__tokenizer_bytes(t, err);
    if (!strcmp(name, "char"))
        return yk__tokenizer_chars(cli->positional[0], text, bytes, t, err);
    return yk__tokenizer_open(name, lowercase, t, err);
}

static void print_ids(const yk__ids *ids, bool json)
{
    fputs(json ? "[" : "", stdout);
    for (size_t i = 0; i < ids->count; i++) {
        if (i)
            putchar(json ? ',' : ' ');
        printf("%" PRId32, ids->id[i]);
    }
    puts(json ? "]" : "");
}

static yk_status print_lines(yk__encoder *e, const char *text, size_t bytes, const yk__cli *cli, size_t max_length,
                             yk_error *err)
{
    const char *p = text, *end = text + bytes;
    int special = !yk__cli_given(cli, "special-tokens") || yk__cli_on(cli, "special-tokens");
    yk__ids ids = {0};
    yk_status s = YK_OK;
    for (long line = 1; p < end && !s; line++) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        size_t n = (size_t)((nl ? nl : end) - p);
        s = yk__encoder_encode(e, p, n, NULL, 0, special, max_length, &ids, err);
        if (s)
            yk__fail_in(err, "%s: line %ld", cli->positional[0], line);
        else
            print_ids(&ids, yk__cli_on(cli, "json"));
        p += n + 1;
    }
    yk__ids_free(&ids);
    return s;
}

static yk_status ids_write(const yk__ids *ids, int vocab, const char *path, yk_error *err)
{
    char *file;
    size_t bytes;
    yk_status s = yk__tokens_pack(ids->id, (int64_t)ids->count, vocab, &file, &bytes, err);
    if (s)
        return s;
    s = yk__folder_write_file(path, file, bytes, err);
    yk__free(file);
    return s;
}

/* The text as text:FILE has it. */
static yk_status write_file(yk__encoder *e, const char *text, size_t bytes, const yk__cli *cli, yk_error *err)
{
    yk__ids ids = {0};
    yk_status s = yk__encoder_encode(e, text, bytes, NULL, 0, 0, 0, &ids, err);
    if (s == YK_E_FORMAT)
        yk__fail_in(err, "%s", cli->positional[0]);
    if (!s && !ids.count)
        s = yk__fail(err, YK_E_FORMAT, "%s: expected a text, found none", cli->positional[0]);
    if (!s)
        s = ids_write(&ids, yk__encoder_vocab(e), yk__cli_text(cli, "output"), err);
    yk__ids_free(&ids);
    return s;
}

static yk_status tokenize_run(const yk__cli *cli, size_t max_length, yk_error *err)
{
    yk__tokenizer *t = NULL;
    yk__encoder *e = NULL;
    char *text;
    size_t n;
    yk_status s = yk__text_open(cli->positional[0], !strcmp(yk__cli_text(cli, "tokenizer"), "bytes"), &text, &n, err);
    if (s)
        return s;
    s = open_tokenizer(cli, text, n, &t, err);
    if (!s)
        yk__tokenizer_notes_log(t);
    if (!s)
        s = yk__encoder_new(t, &e, err);
    if (!s)
        s = yk__cli_text(cli, "output") ? write_file(e, text, n, cli, err) : print_lines(e, text, n, cli, max_length, err);
    yk__encoder_free(e);
    yk__tokenizer_close(t);
    yk__free(text);
    return s;
}

int yk__cmd_tokenize(int argc, char **argv)
{
    yk_error err = YK_ERROR_INIT;
    yk__cli cli;
    bool bad = false;
    int64_t max_length;
    int code = yk__cli_parse(&command, argc, argv, &cli);
    if (code >= 0)
        return code;
    if (!yk__cli_text(&cli, "tokenizer"))
        return yk__cli_usage(&command, "--tokenizer is missing (a folder, char or bytes)");
    if (yk__cli_text(&cli, "output") &&
        (yk__cli_on(&cli, "json") || yk__cli_given(&cli, "max-length") || yk__cli_on(&cli, "special-tokens")))
        return yk__cli_usage(&command, "--output writes all ids of the text: no --json, --max-length or --special-tokens with it");
    if (yk__cli_text(&cli, "output") && yk__folder_same(cli.positional[0], yk__cli_text(&cli, "output")))
        return yk__cli_usage(&command, "--output %s: is the text itself, which would be lost: name another file", cli.positional[0]);
    max_length = yk__cli_given(&cli, "max-length") ? yk__cli_int(&cli, "max-length", 1, 1 << 24, &bad) : 0;
    inputs_keep(&cli, &bad);
    if (bad)
        return YK_EXIT_USAGE;
    if (!tokenize_run(&cli, (size_t)max_length, &err))
        return YK_EXIT_OK;
    fprintf(stderr, "yoke tokenize: %s\n", err.text);
    return err.status == YK_E_MEM || err.status == YK_E_IO || err.status == YK_E_INTERNAL ? YK_EXIT_FAILED : YK_EXIT_USAGE;
}
