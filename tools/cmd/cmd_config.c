/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command yoke config: asks `accelerate config`'s questions, or takes the answers as options, and writes the file for yoke launch and
 * yoke train. --keys prints the known keys of other programs' files (tools/config). yoke.c calls it by its table of commands, in the main
 * thread.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/word.h"
#include "core/run/stage.h"
#include "tools/config/apply.h"
#include "tools/spell.h"

static const yk__cli_option options[] = {
    {"config-file|default-config-file|output", "FILE", NULL, "the file to write or to show (default: ~/.config/yoke/config.yaml)", NULL},
    {"devices", "SPECS", NULL, "devices of each host, one rank each (yoke launch)", NULL},
    {"num-processes", "N", NULL, "so many ranks in all (yoke launch)", NULL},
    {"nnodes", "N", NULL, "so many hosts (yoke launch)", NULL},
    {"node-rank", "N", NULL, "which of these hosts this one is, from 0 (yoke launch)", NULL},
    {"master-addr", "ADDRESS", NULL, "where rank 0 listens, with several hosts (yoke launch)", NULL},
    {"master-port", "PORT", NULL, "and its port (yoke launch)", NULL},
    {"precision", "P", NULL, "fp32, bf16, fp16 or fp8 (yoke train)", NULL},
    {"shard", "STAGE", NULL, "values in slices over the ranks: state, gradients (yoke train)", NULL},
    {"gradient-accumulation-steps", "N", NULL, "micro batches per optimizer step (yoke train)", NULL},
    {"max-grad-norm", "R", NULL, "clip the gradient to this norm (yoke train)", NULL},
    {"overwrite|force", NULL, NULL, "the file may be there already", NULL},
    {"dry-run", NULL, NULL, "write nothing: show the fate of each key of --config-file, or the file that would be written", NULL},
    {"keys", "FORMAT", NULL,
     "print the fate of each key of a format: deepspeed, accelerate, fsdp, parallelism, accelerator ..", NULL},
    {"json", NULL, NULL, "one JSON object on standard output", NULL},
};

static const yk__cli_spelling spellings[] = {
    {"num-machines", "N", "nnodes", NULL, NULL, NULL},
    {"machine-rank", "N", "node-rank", NULL, NULL, NULL},
    {"main-process-ip", "ADDRESS", "master-addr", NULL, NULL, NULL},
    {"main-process-port", "PORT", "master-port", NULL, NULL, NULL},
    {"mixed-precision", "TYPE", "precision", yk__spell_precision, "no, bf16, fp16 or fp8", NULL},
    {"use-cpu|cpu", NULL, "devices", yk__spell_cpu, NULL, NULL},
};

static const yk__cli_command command = {
    .name = "config",
    .usage = "[--config-file FILE] [--dry-run] [options]",
    .summary = "write or show the file of settings",
    .text = "In a terminal, and without options of yoke launch or yoke train, it asks for them; an empty answer leaves a setting out. The "
            "file has Yoke's own form, which yoke launch and yoke train read:\n"
            "\n"
            "    yoke: 1\n    launch:\n      devices: cpu/2\n    train:\n      precision: bf16\n"
            "\n"
            "Below launch and train stand options of these commands. A file that --config-file does not name is read by both where it is "
            "~/.config/yoke/config.yaml; --config-file none leaves it out.\n"
            "\n"
            "With --dry-run and a file that is there, of Yoke, Accelerate or DeepSpeed, each key is printed with what becomes of it here: "
            "honoured, mapped, not needed, not built yet or refused; and the options that they make.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .spellings = spellings,
    .n_spellings = sizeof spellings / sizeof spellings[0],
};

/* A setting: its option, its owner, and its question. */
static const struct question {
    const char *option, *section, *text, *words;
    double least, most; /* range of a number; most 0 for none */
    bool hosts;         /* asked only for several hosts */
} questions[] = {
    {"nnodes", "launch", "How many hosts?", NULL, 1, 65536, false},
    {"node-rank", "launch", "Which of them is this one, from 0?", NULL, 0, 65535, true},
    {"master-addr", "launch", "At which address does rank 0 listen?", NULL, 0, 0, true},
    {"master-port", "launch", "At which port?", NULL, 1, 65535, true},
    {"devices", "launch", "Which devices of each host (cpu/2, cuda:*, auto)?", NULL, 0, 0, false},
    {"num-processes", "launch", "How many ranks in all?", NULL, 1, 65536, false},
    {"precision", "train", "Which precision (fp32, bf16, fp16, fp8)?", YK__PRECISION_WORDS, 0, 0, false},
    {"shard", "train", "Which values should lie in slices over the ranks (state, gradients)?",
     "state=zero1=zero0=no_shard|gradients=zero2", 0, 0, false},
    {"gradient-accumulation-steps", "train", "How many micro batches per optimizer step?", NULL, 1, 1048576, false},
    {"max-grad-norm", "train", "Which norm is the gradient clipped to?", NULL, 0, 1e30, false},
};
enum { QUESTIONS = sizeof questions / sizeof questions[0] };

typedef char answers[QUESTIONS][256];

/* The reason why an answer is invalid, or NULL. */
static const char *answer_fault(const struct question *q, const char *answer)
{
    static char text[128];
    char *end;
    const double v = strtod(answer, &end);
    if (q->words && yk__word_find(q->words, answer, strlen(answer)) < 0) {
        size_t n = (size_t)snprintf(text, sizeof text, "expected");
        for (int i = 0; *yk__word_text(q->words, i).text && n < sizeof text - YK__WORD_BYTES; i++)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", i ? ", " : " ", yk__word_text(q->words, i).text);
        return text;
    }
    if (q->most > 0 && (end == answer || *end || !(v >= q->least && v <= q->most) || (q->most < 1e9 && v != (double)(long)v))) {
        snprintf(text, sizeof text, "expected a %snumber from %g to %g", q->most < 1e9 ? "whole " : "", q->least, q->most);
        return text;
    }
    return strpbrk(answer, "'\n\r") ? "expected a text without quotes" : NULL;
}

/* A line of the input without its end; false where the input ends first. A longer line than fits is "" after a message. */
static bool line_read(char *answer, size_t size)
{
    if (!fgets(answer, (int)size, stdin) || (!strchr(answer, '\n') && feof(stdin)))
        return false;
    if (!strchr(answer, '\n')) {
        int c;
        while ((c = getchar()) != '\n' && c != EOF)
            ;
        printf("expected an answer of at most %zu characters\n", size - 2);
        *answer = 0;
        return c != EOF;
    }
    answer[strcspn(answer, "\r\n")] = 0;
    return true;
}

/* The canonical spelling of an answer that is a word. */
static void answer_settle(const struct question *q, char *answer, size_t size)
{
    if (q->words && *answer)
        snprintf(answer, size, "%s", yk__word_text(q->words, yk__word_find(q->words, answer, strlen(answer))).text);
}

/* Asks until the answer is valid or empty; false at the end of the input. */
static bool question_ask(const struct question *q, char *answer, size_t size)
{
    const char *fault;
    do {
        printf("%s [nothing: as the command does] ", q->text);
        fflush(stdout);
        if (!line_read(answer, size))
            return false;
        fault = *answer ? answer_fault(q, answer) : NULL;
        if (fault)
            printf("%s: %s\n", answer, fault);
    } while (fault);
    answer_settle(q, answer, size);
    return true;
}

/* False where the input ends before the last answer. */
static bool questions_ask(answers given)
{
    for (int i = 0; i < QUESTIONS; i++)
        if ((!questions[i].hosts || atof(given[0]) > 1) && !question_ask(&questions[i], given[i], sizeof given[i]))
            return false;
    return true;
}

/* From the options; false after a message. *any: one was given. */
static bool answers_take(const yk__cli *cli, answers given, bool *any)
{
    bool good = true;
    for (int i = 0; i < QUESTIONS; i++) {
        const char *value = yk__cli_text(cli, questions[i].option), *fault = value ? answer_fault(&questions[i], value) : NULL;
        if (value && (fault || strlen(value) >= sizeof given[i])) {
            yk__cli_usage(&command, "--%s %s: %s", questions[i].option, value, fault ? fault : "expected a shorter text");
            good = false;
        } else if (value) {
            snprintf(given[i], sizeof given[i], "%s", value);
            answer_settle(&questions[i], given[i], sizeof given[i]);
            *any = true;
        }
    }
    if (atof(given[0]) > 1 && !*given[2] && *any) {
        yk__cli_usage(&command, "--nnodes %s needs --master-addr, where rank 0 listens", given[0]);
        good = false;
    }
    return good;
}

static void file_print(FILE *f, answers given)
{
    fprintf(f, "# Settings of yoke launch and yoke train (yoke config --dry-run shows what they become)\nyoke: 1\n");
    for (int s = 0; s < 2; s++) {
        bool begun = false;
        for (int i = 0; i < QUESTIONS; i++)
            if (*given[i] && !strcmp(questions[i].section, s ? "train" : "launch")) {
                fprintf(f, "%s  %s: %s%s%s\n", begun ? "" : s ? "train:\n" : "launch:\n", questions[i].option, questions[i].most > 0 ? ""
                        : "'", given[i],
                        questions[i].most > 0 ? "" : "'");
                begun = true;
            }
    }
}

/* The folders in front of a file's name. */
static void folders_make(const char *path)
{
    char part[PATH_MAX];
    for (const char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        snprintf(part, sizeof part, "%.*s", (int)(at - path), path);
        mkdir(part, 0777);
    }
}

/* False after a message if the path must not be replaced. Checked before the questions, so that no answer is lost. */
static bool target_check(const yk__cli *cli, const char *path)
{
    struct stat st;
    if (stat(path, &st))
        return true;
    if (!S_ISREG(st.st_mode))
        yk__cli_usage(&command, "%s is no file but a %s: name a file", path, S_ISDIR(st.st_mode) ? "folder" : "device or pipe");
    else if (!yk__cli_on(cli, "overwrite"))
        yk__cli_usage(&command, "%s is there already: --overwrite writes it anew, --dry-run shows it", path);
    return S_ISREG(st.st_mode) && yk__cli_on(cli, "overwrite");
}

static int file_write(const yk__cli *cli, const char *named, answers given)
{
    char fresh[PATH_MAX + 8], real[PATH_MAX];
    const char *reason, *path = realpath(named, real) ? real : named; /* a link stays one */
    FILE *f;
    folders_make(path);
    snprintf(fresh, sizeof fresh, "%s.new", path);
    f = fopen(fresh, "we");
    if (f)
        file_print(f, given);
    reason = f ? yk__cli_close_file(f) : strerror(errno);
    if (!reason && rename(fresh, path))
        reason = strerror(errno);
    if (reason) {
        if (f)
            unlink(fresh);
        yk__cli_usage(&command, "%s: %s", path, reason);
        return YK_EXIT_FAILED;
    }
    if (yk__cli_on(cli, "json")) {
        printf("{\"written\": ");
        yk__json_text(path);
        printf("}\n");
    } else
        printf("written to %s; yoke launch and yoke train read it%s%s\n", path, yk__cli_text(cli, "config-file") ? ": --config-file " : "",
               yk__cli_text(cli, "config-file") ? path : "");
    return YK_EXIT_OK;
}

static int file_show(const yk__cli *cli, const char *path)
{
    settings s = {.err = YK_ERROR_INIT};
    const yk_status status = settings_read(&s, path);
    if (yk__cli_on(cli, "json"))
        settings_show_json(&s, stdout);
    else
        settings_show(&s, stdout);
    fflush(stdout);
    settings_complain(&s, &command);
    settings_free(&s);
    return status ? YK_EXIT_USAGE : YK_EXIT_OK;
}

int yk__cmd_config(int argc, char **argv)
{
    answers given;
    char preset[PATH_MAX];
    bool any = false;
    yk__cli cli;
    argv = yk__spell(&command, &argc, argv);
    int code = argv ? yk__cli_parse(&command, argc, argv, &cli) : YK_EXIT_USAGE;
    if (code >= 0)
        return code;
    memset(given, 0, sizeof given);
    if (yk__cli_text(&cli, "keys") && settings_print_keys(yk__cli_text(&cli, "keys"), stdout))
        return YK_EXIT_OK;
    if (yk__cli_text(&cli, "keys"))
        return yk__cli_usage(&command, "--keys %s: expected deepspeed, accelerate, accelerate-deepspeed, accelerate-megatron, fsdp, "
                             "parallelism or accelerator", yk__cli_text(&cli, "keys"));
    const char *path = yk__cli_text(&cli, "config-file");
    if (!path && !settings_default_path(preset, sizeof preset))
        return yk__cli_usage(&command, "there is no HOME for the file: give --config-file");
    path = path ? path : preset;
    if (!answers_take(&cli, given, &any))
        return YK_EXIT_USAGE;
    if (yk__cli_on(&cli, "dry-run") && !any)
        return file_show(&cli, path);
    if (!any && !isatty(STDIN_FILENO))
        return yk__cli_usage(&command,
                             "standard input is no terminal to ask in: give the settings as options (--devices cpu/2 ..), or --dry-run");
    if (!yk__cli_on(&cli, "dry-run") && !target_check(&cli, path))
        return YK_EXIT_USAGE;
    if (!any && !questions_ask(given)) {
        printf("\n");
        return yk__cli_usage(&command, "the input ended before the last answer: nothing is written");
    }
    if (!yk__cli_on(&cli, "dry-run"))
        return file_write(&cli, path, given);
    file_print(stdout, given);
    return YK_EXIT_OK;
}
