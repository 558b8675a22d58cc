/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command yoke config: asks `accelerate config`'s questions, or takes the answers as options, and writes the file for yoke launch and
 * yoke train. --keys prints the known keys of other programs' files (tools/config). yoke.c calls it by its table of commands, in the main
 * thread. Answers that contradict each other are errors; a file that is there stays without --overwrite.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/word.h"
#include "core/io/folder.h"
#include "core/run/stage.h"
#include "tools/config/apply.h"
#include "tools/spell.h"
#include "tools/train/train_options.h"

/* Settings: X(option, its value (NULL: a switch), its help, its section, its question (NULL: never asked), least and most of its number
 * (most 0: none), asked of several hosts alone). yoke train's own reader checks the settings of its section. */
#define CONFIG_SETTINGS(X) \
    X("nnodes", "N", "hosts of the job", "launch", "How many hosts?", 1, 65536, false) \
    X("node-rank", "N", "number of this host among --nnodes, from 0", "launch", "Which of them is this one, from 0?", 0, 65535, true) \
    X("master-addr", "ADDRESS", "address on host 0 at which rank 0 listens", "launch", "At which address does rank 0 listen?", 0, 0, \
      true) \
    X("master-port", "PORT", "the port at --master-addr", "launch", "At which port?", 1, 65535, true) \
    X("devices", "SPECS", "devices of each host, one rank each", "launch", "Which devices of each host (cpu/2, cuda:*, auto)?", 0, 0, \
      false) \
    X("num-processes", "N", "ranks in all", "launch", "How many ranks in all?", 1, 65536, false) \
    X("nproc-per-node", "N", "ranks on each host", "launch", NULL, 1, 65536, false) \
    X("hosts", "LIST", "run on these hosts, by ssh", "launch", NULL, 0, 0, false) \
    X("hostfile", "FILE", "a file with a host on each line", "launch", NULL, 0, 0, false) \
    X("max-restarts", "N", "most starts of the job after a rank died or failed", "launch", NULL, 0, 1000, false) \
    X("precision", "P[,..]", "fp32, bf16, fp16 or fp8; by rank: fp32,bf16", "train", "Which precision (fp32, bf16, fp16, fp8)?", 0, 0, \
      false) \
    X("shard", "STAGE", "values in slices over the ranks: state, gradients, params", "train", \
      "Which values should lie in slices over the ranks (state, gradients, params)?", 0, 0, false) \
    X("shard-within", "world|host", "--shard params: slices over all ranks, or within each host", "train", NULL, 0, 0, false) \
    X("shard-parts", "equal|speed|N:N..", "slices of each rank", "train", NULL, 0, 0, false) \
    X("shard-unit", "auto|BYTES", "most bytes of a unit that --shard params brings, as 4M", "train", NULL, 0, 0, false) \
    X("reshard-after-forward", "on|off", "--shard params brings parameters again for backward", "train", NULL, 0, 0, false) \
    X("prefetch-units", "auto|N", "units that --shard params brings early", "train", NULL, 0, 0, false) \
    X("keep-whole", "N", "--shard params: a unit of at most N elements stays whole", "train", NULL, 0, 0, false) \
    X("offload", "PART=PLACE,..", "values beside a device: none, state=host, state=nvme:DIR, params=host", "train", \
      "Which values lie beside a device (none, state=host, state=nvme:DIR, params=host)?", 0, 0, false) \
    X("gradient-checkpointing", NULL, "compute blocks of layers again in backward", "train", \
      "Should backward compute blocks of layers again (true, false)?", 0, 0, false) \
    X("shares", "equal|speed|N:N..", "rows of each rank", "train", NULL, 0, 0, false) \
    X("per-device-train-batch-size", "N", "rows of a micro batch for each rank", "train", NULL, 0, 0, false) \
    X("global-batch", "N", "rows of a micro batch over all ranks, instead", "train", NULL, 0, 0, false) \
    X("gradient-accumulation-steps", "N", "micro batches per optimizer step", "train", "How many micro batches per optimizer step?", \
      0, 0, false) \
    X("average", "RULE", "how micro batches count: micro, items or rows", "train", NULL, 0, 0, false) \
    X("bucket-bytes", "BYTES", "gradients exchanged at a time, as 16M", "train", NULL, 0, 0, false) \
    X("memory-limit", "BYTES", "of each rank, as 6G or 500M; by rank: 6G,2G", "train", NULL, 0, 0, false) \
    X("local-sgd-steps", "N", "ranks average after every N steps of their own", "train", NULL, 0, 0, false) \
    X("max-grad-norm", "R", "clip the gradient to this norm", "train", "Which norm is the gradient clipped to?", 0, 0, false) \
    X("loss-scaling", "KEY=VALUE,..", "of fp16", "train", NULL, 0, 0, false) \
    X("plan", "auto|none", "auto: take the options of yoke plan", "train", NULL, 0, 0, false) \
    X("measure-seconds", "S", "--plan auto: seconds in which steps of the candidates run", "train", NULL, 0, 0, false)
#define CONFIG_OPTION(option, arg, help, section, text, least, most, hosts) {option, arg, NULL, help " (yoke " section ")", NULL},
#define CONFIG_QUESTION(option, arg, help, section, text, least, most, hosts) {option, section, arg, text, least, most, hosts},

static const yk__cli_option options[] = {
    {"config-file|default-config-file|output", "FILE", NULL, "the file to write or to show (default: ~/.config/yoke/config.yaml)", NULL},
    CONFIG_SETTINGS(CONFIG_OPTION)
    {"overwrite|force", NULL, NULL, "the file may be there already", NULL},
    {"dry-run", NULL, NULL, "write nothing: show the fate of each key of --config-file, or the file that would be written", NULL},
    {"keys", "FORMAT", NULL,
     "print the fate of each key of a format: deepspeed, accelerate, fsdp, parallelism, accelerator ..", NULL},
    {"json", NULL, NULL, "one JSON object on standard output", NULL},
};

static const yk__cli_spelling spellings[] = {
    {"n|np|num-procs|ranks", "N", "num-processes", NULL, NULL, NULL},
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
            "Below launch and train stand options of these commands. Without --config-file both commands read "
            "~/.config/yoke/config.yaml, if it is there; with --config-file none they read no file.\n"
            "\n"
            "With --dry-run and a file of Yoke, Accelerate or DeepSpeed, each key is printed with its fate: honoured, mapped, not needed, "
            "not built yet or refused. The options that the keys make follow.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .spellings = spellings,
    .n_spellings = sizeof spellings / sizeof spellings[0],
};

static const struct question {
    const char *option, *section, *arg, *text; /* arg NULL: a switch; text NULL: never asked */
    double least, most;                        /* range of a whole number; most 0 for none */
    bool hosts;                                /* asked only for several hosts */
} questions[] = {CONFIG_SETTINGS(CONFIG_QUESTION)};
enum { QUESTIONS = sizeof questions / sizeof questions[0], NNODES = 0, MASTER_ADDR = 2, NPROC = 6 };

typedef char answers[QUESTIONS][256];

static bool question_trains(const struct question *q)
{
    return !strcmp(q->section, "train");
}

/* The words that yoke launch takes for the number of ranks of a host (launch_words.c). */
static bool is_device_word(const struct question *q, const char *answer)
{
    return !strcmp(q->option, "nproc-per-node") && yk__cli_is_named("gpu|cpu|auto", answer, strlen(answer));
}

/* The reason why an answer is invalid, or NULL. */
static const char *answer_fault(const struct question *q, const char *answer)
{
    static char text[128];
    const double v = strtod(answer, NULL);
    if (!q->arg && yk__cli_truth(answer) < 0)
        return "expected true or false";
    if (q->most > 0 && !is_device_word(q, answer) && (!*answer || answer[strspn(answer, "0123456789")] || v < q->least || v > q->most)) {
        snprintf(text, sizeof text, "expected a whole number from %g to %g", q->least, q->most);
        return text;
    }
    return strpbrk(answer, "'\n\r") ? "expected a text without quotes" : NULL;
}

/* yoke train's own verdict on its answers together; false after its messages, in this command's name. */
static bool answers_train(answers given)
{
    yk__cli_command as = *yk__train_command;
    char word[QUESTIONS][320], name[] = "config", *argv[QUESTIONS + 2] = {name};
    yk__cli cli;
    int n = 1;
    as.name = command.name;
    for (int i = 0; i < QUESTIONS; i++)
        if (*given[i] && question_trains(&questions[i])) {
            snprintf(word[i], sizeof word[i], "--%s=%s", questions[i].option, given[i]);
            argv[n++] = word[i];
        }
    return yk__cli_parse(&as, n, argv, &cli) < 0 && train_options_right(&cli);
}

/* A line of the input without its end; false where the input ends first. A longer line than fits is "" after a message, and *fits is
 * false. */
static bool line_read(char *answer, size_t size, bool *fits)
{
    *fits = true;
    if (!fgets(answer, (int)size, stdin) || (!strchr(answer, '\n') && feof(stdin)))
        return false;
    if (!strchr(answer, '\n')) {
        int c;
        while ((c = getchar()) != '\n' && c != EOF)
            ;
        printf("expected an answer of at most %zu characters\n", size - 2);
        *answer = 0;
        *fits = false;
        return c != EOF;
    }
    answer[strcspn(answer, "\r\n")] = 0;
    return true;
}

/* The canonical spelling of an answer that is a word: a file has one for each meaning. */
static void answer_settle(const struct question *q, char *answer, size_t size)
{
    const int precision = strcmp(q->option, "precision") ? -1 : yk__word_find(YK__PRECISION_WORDS, answer, strlen(answer));
    yk__stage stage = {0};
    if (precision >= 0)
        snprintf(answer, size, "%s", yk__word_text(YK__PRECISION_WORDS, precision).text);
    else if (!strcmp(q->option, "shard") && yk__stage_find(answer, &stage) && !stage.within_host && !stage.stays)
        snprintf(answer, size, "%s", stage.word);
    else if (!q->arg && *answer)
        snprintf(answer, size, "%s", yk__cli_truth(answer) ? "true" : "false");
}

/* Asks until the answer is valid or empty; false at the end of the input. */
static bool question_ask(answers given, int i)
{
    const struct question *q = &questions[i];
    bool good;
    do {
        printf("%s [nothing: as the command does] ", q->text);
        fflush(stdout);
        if (!line_read(given[i], sizeof given[i], &good))
            return false;
        const char *fault = *given[i] ? answer_fault(q, given[i]) : NULL;
        if (fault)
            printf("%s: %s\n", given[i], fault);
        else
            answer_settle(q, given[i], sizeof given[i]);
        good = good && !fault && (!question_trains(q) || answers_train(given));
    } while (!good);
    return true;
}

/* False where the input ends before the last answer. */
static bool questions_ask(answers given)
{
    for (int i = 0; i < QUESTIONS; i++)
        if (questions[i].text && (!questions[i].hosts || atof(given[NNODES]) > 1) && !question_ask(given, i))
            return false;
    return true;
}

/* Refuses what yoke launch refuses together; false after messages. */
static bool answers_launch(const yk__cli *cli, answers given)
{
    static const char *const counts[] = {"nnodes", "node-rank"};
    const bool listed = yk__cli_text(cli, "hosts") || yk__cli_text(cli, "hostfile");
    bool bad = false;
    for (int i = 0; i < 2 && listed; i++)
        yk__cli_refuse_idle(cli, counts[i], "beside --hosts or --hostfile, which name the hosts", &bad);
    if (listed && is_device_word(&questions[NPROC], given[NPROC])) {
        yk__cli_usage(&command, "--nproc-per-node %s counts the devices of this host: give a number for a list of hosts", given[NPROC]);
        bad = true;
    }
    if (yk__cli_text(cli, "hosts") && yk__cli_text(cli, "hostfile")) {
        yk__cli_usage(&command, "--hosts and --hostfile: give one of them");
        bad = true;
    }
    if (atof(given[NNODES]) > 1 && !*given[MASTER_ADDR] && !bad) {
        yk__cli_usage(&command, "--nnodes %s needs --master-addr: give the address where rank 0 listens", given[NNODES]);
        bad = true;
    }
    return !bad;
}

/* From the options; false after a message. *any: one was given. */
static bool answers_take(const yk__cli *cli, answers given, bool *any)
{
    bool good = true;
    for (int i = 0; i < QUESTIONS; i++) {
        const struct question *q = &questions[i];
        const bool on = !q->arg && yk__cli_typed(cli, q->option);
        const char *value = on ? yk__cli_on(cli, q->option) ? "true" : "false" : yk__cli_text(cli, q->option);
        const char *fault = value ? answer_fault(q, value) : NULL;
        if (value && (fault || strlen(value) >= sizeof given[i])) {
            yk__cli_usage(&command, "--%s %s: %s", q->option, value, fault ? fault : "expected a shorter text");
            good = false;
        } else if (value) {
            snprintf(given[i], sizeof given[i], "%s", value);
            answer_settle(q, given[i], sizeof given[i]);
            *any = true;
        }
    }
    if (!*any)
        return good;
    const bool trains = answers_train(given);
    return answers_launch(cli, given) && trains && good;
}

/* A number or a truth value stands bare. */
static bool answer_is_bare(const struct question *q, const char *answer)
{
    return !q->arg || q->most > 0 || (question_trains(q) && strspn(answer, "0123456789.") == strlen(answer));
}

static void file_print(FILE *f, answers given)
{
    fprintf(f, "# Settings of yoke launch and yoke train (yoke config --dry-run shows what they become)\nyoke: 1\n");
    for (int s = 0; s < 2; s++) {
        bool begun = false;
        for (int i = 0; i < QUESTIONS; i++)
            if (*given[i] && !strcmp(questions[i].section, s ? "train" : "launch")) {
                const char *quote = answer_is_bare(&questions[i], given[i]) ? "" : "'";
                fprintf(f, "%s  %s: %s%s%s\n", begun ? "" : s ? "train:\n" : "launch:\n", questions[i].option, quote, given[i], quote);
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
    char fresh[PATH_MAX + 16], path[PATH_MAX];
    const char *reason;
    FILE *f;
    folders_make(named);
    const int own = yk__folder_opened(named);
    /* A link stays one; through one that leads nowhere its target is made. */
    const bool whole = own < 0 && yk__folder_file(named, path) && !yk__folder_keeps(path);
    snprintf(fresh, sizeof fresh, "%s%s", whole ? path : named, whole ? YK__FOLDER_TMP : "");
    f = own >= 0 ? yk__folder_stream(own) : whole ? yk__folder_stream(yk__folder_successor(fresh, path)) : fopen(fresh, "we");
    if (f)
        file_print(f, given);
    reason = f ? yk__cli_close_file(f) : strerror(errno);
    if (whole && !reason && rename(fresh, path))
        reason = strerror(errno);
    if (reason) {
        if (f && whole)
            unlink(fresh);
        yk__cli_usage(&command, "%s: %s", named, reason);
        return YK_EXIT_FAILED;
    }
    if (yk__cli_on(cli, "json")) {
        printf("{\"written\": ");
        yk__json_text(named);
        printf("}\n");
    } else /* standard output may be the file */
        fprintf(own >= 0 ? stderr : stdout, "written to %s; yoke launch and yoke train read it%s%s\n", named,
                yk__cli_text(cli, "config-file") ? ": --config-file " : "", yk__cli_text(cli, "config-file") ? named : "");
    return YK_EXIT_OK;
}

static int file_show(const yk__cli *cli, const char *path)
{
    settings s = {.err = YK_ERROR_INIT};
    settings_read(&s, path);
    settings_decide_file(&s, &(settings_job){yk__train_command, train_options_right});
    const bool bad = s.messages || s.err.status;
    if (yk__cli_on(cli, "json"))
        settings_show_json(&s, stdout);
    else
        settings_show(&s, stdout);
    fflush(stdout);
    settings_complain(&s, &command);
    settings_free(&s);
    return bad ? YK_EXIT_USAGE : YK_EXIT_OK;
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
