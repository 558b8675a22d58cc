/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The common part of the commands with a model and data: it checks the shared options, starts the ranks, and opens data and model.
 * train_use_open opens the job too, for eval and predict. The commands train, bench and estimate-memory call train_open (alike.c), and
 * test calls yk_open.
 *
 * yoke train, eval, predict and test call train_main in the main thread. Each started rank runs the same command line, so it calls
 * train_main again. In a rank, or with no ranks to start, train_launch returns -1, and train_main calls `run`. bench and estimate-memory
 * call train_launch directly. A rank of yoke launch (YOKE_JOB_FD, YOKE_NODE_FD) refuses --devices.
 */
#include "tools/train/train.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/absent.h"
#include "core/base/number.h"
#include "core/base/option.h"
#include "core/base/word.h"
#include "core/control/start/origin.h"
#include "core/job/loop/row_padding.h"
#include "core/job/session/standing.h"
#include "tools/config/apply.h"
#include "tools/plan/search.h"
#include "tools/spell.h"
#include "tools/train/alike.h"
#include "tools/train/inputs.h"

double train_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

char **train_arguments(int argc, char **argv)
{
    static char self[PATH_MAX];
    char **args = calloc((size_t)argc + 2, sizeof *args);
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (!args)
        return NULL;
    if (n >= 0)
        self[n] = 0;
    else /* without /proc; several ranks cannot be started then, and the error names this path */
        strcpy(self, "/proc/self/exe");
    args[0] = self;
    memcpy(args + 1, argv, (size_t)argc * sizeof *args);
    return args;
}

/* The ranks find theirs in YOKE_DEVICES. */
static void drop_devices(char **args)
{
    char **to = args;
    for (char **from = args; *from; from++)
        if (!strcmp(*from, "--devices") && from[1])
            from++;
        else if (strncmp(*from, "--devices=", 10))
            *to++ = *from;
    *to = NULL;
}

int train_launch(const yk__cli *cli, char **args)
{
    bool bad = false;
    if (!args)
        return yk__cli_usage(cli->command, "out of memory");
    if (getenv("YOKE_JOB_FD") || getenv("YOKE_NODE_FD"))
        yk__cli_refuse_idle(cli, "devices", "in a rank of a job: yoke launch --devices selects them", &bad);
    if (bad)
        return YK_EXIT_USAGE;
    drop_devices(args);
    return yk_launch(yk__cli_text(cli, "devices"), args);
}

/* True for --plan auto, of a command that trains. */
static bool asks_plan(const yk__cli *cli)
{
    const bool has = yk__cli_find(cli->command, "plan", 4) >= 0;
    const char *plan = has ? yk__cli_text(cli, "plan") : NULL;
    return plan && yk__word_find("auto", plan, strlen(plan)) == 0;
}

int train_main(const yk__cli_command *command, int argc, char **argv, bool (*check)(const yk__cli *cli), int (*run)(const yk__cli *cli))
{
    char **planned = NULL;
    yk__cli cli;
    int code;
    argv = settings_apply(&(settings_job){command, check}, &argc, argv, &code);
    if (argv) {
        code = YK_EXIT_USAGE;
        argv = yk__spell(command, &argc, argv);
    }
    if (!argv)
        return code;
    char **args = train_arguments(argc, argv);
    code = yk__cli_parse(command, argc, argv, &cli);
    if (code < 0 && check && !check(&cli))
        code = YK_EXIT_USAGE;
    if (code < 0 && asks_plan(&cli)) {
        planned = search_apply(&cli, args[0], &argc, args + 1, &code); /* args: parsing reorders argv */
        free(args);
        args = planned ? train_arguments(argc, planned) : NULL;
        code = planned ? yk__cli_parse(command, argc, planned, &cli) : code;
    }
    if (code < 0)
        code = train_launch(&cli, args);
    if (code < 0) {
        const bool single = !yk__launched();
        if (single)
            yk__standing_begin(); /* also before yk_open and after yk_close */
        code = run(&cli);
        if (single)
            yk__standing_end();
    }
    free(planned);
    free(args);
    return code;
}

const char *train_precision_by_rank(const yk__cli *cli)
{
    const char *list = yk__cli_text(cli, "precision");
    return list && strchr(list, ',') ? list : NULL;
}

static const char *const formats[] = {"fp32", "bf16", "fp16", "fp8"};

/* The format that accelerate launch requests (ACCELERATE_MIXED_PRECISION), as an index of formats. */
static int environment_precision(void)
{
    const uint32_t word = yk__option_words(YK__OPTION_ACCELERATE_PRECISION); /* no, fp32, bf16, fp16, fp8 */
    return word ? (int)word - 1 : 0;
}

/* An index of formats by --precision, --bf16, --fp16 or the --*-full-eval switches, else by accelerate's variable. */
static int read_precision(const yk__cli *cli, bool *bad)
{
    const bool trains = yk__cli_find(cli->command, "optim", 5) >= 0, by_rank = train_precision_by_rank(cli) != NULL;
    int k = by_rank ? 0 : !yk__cli_given(cli, "precision") ? environment_precision()
                                                           : yk__cli_choice(cli, "precision", YK__PRECISION_WORDS, bad);
    bool chosen = yk__cli_given(cli, "precision");
    for (int i = 1; i <= 4 && !*bad; i++) {
        const int format = (i - 1) % 2 + 1;
        const bool full_eval = i > 2;
        char name[32];
        snprintf(name, sizeof name, "%s%s", formats[format], full_eval ? "-full-eval" : "");
        if (!yk__cli_on(cli, name))
            continue;
        if (by_rank) {
            yk__cli_usage(cli->command, "--%s contradicts --precision %s: expected one of the two", name, yk__cli_text(cli, "precision"));
            *bad = true;
        } else if (full_eval && trains && k != format) {
            yk__cli_usage(cli->command, "--%s: an evaluation computes in the training's precision, which is %s: --%s trains and evaluates "
                          "in it", name, formats[k], formats[format]);
            *bad = true;
        } else if (chosen && k != format) {
            yk__cli_usage(cli->command, "--%s contradicts %s: expected one precision", name, formats[k]);
            *bad = true;
        }
        k = format;
        chosen = true;
    }
    return k;
}

static bool is_of(const char *spec, const char *const *kinds)
{
    while (*kinds && (strncmp(spec, *kinds, strlen(*kinds)) || spec[strlen(*kinds)] != ':'))
        kinds++;
    return *kinds != NULL;
}

/* True if data are named, and each spec has one of these kinds. */
static bool is_kind(const yk__cli *cli, const char *const *kinds)
{
    const char *const spec[] = {yk__cli_text(cli, "data"), yk__cli_text(cli, "eval-data")};
    for (int i = 0; i < 2; i++)
        if (spec[i] && !is_of(spec[i], kinds))
            return false;
    return spec[0] || spec[1];
}

/* Writes the value of a key of the spec; false if it is absent. */
static bool spec_value(const char *spec, const char *key, char *value, size_t size)
{
    char named[32];
    snprintf(named, sizeof named, ",%s=", key);
    const char *at = strstr(spec, named);
    if (at)
        snprintf(value, size, "%.*s", (int)strcspn(at + strlen(named), ","), at + strlen(named));
    return at != NULL;
}

/* True if no spec of the data leaves the option to be used: each has the key of its name, with another value in `value`. */
static bool is_overruled(const yk__cli *cli, const char *option, char *value, size_t size)
{
    const char *const spec[] = {yk__cli_text(cli, "data"), yk__cli_text(cli, "eval-data")};
    bool overruled = false;
    for (int i = 0; i < 2 && yk__cli_typed(cli, option); i++) {
        if (spec[i] && (!spec_value(spec[i], option, value, size) ||
                        yk__cli_same_value(cli->command, option, value, yk__cli_text(cli, option))))
            return false;
        overruled = overruled || spec[i];
    }
    return overruled;
}

/* Refuses an option that a key of the spec contradicts, as the spec's value is taken. */
static void refuse_overruled(const yk__cli *cli, bool *bad)
{
    static const char *const names[] = {"tokenizer", "max-length", "seq-len"};
    char value[512];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (!is_overruled(cli, names[i], value, sizeof value))
            continue;
        yk__cli_usage(cli->command, "--%s %s contradicts %s=%s of the data: give one of them", names[i], yk__cli_text(cli, names[i]),
                      names[i], value);
        *bad = true;
    }
}

/* Refuses options that the named kinds of data do not use. */
static void refuse_idle_data_options(const yk__cli *cli, bool *bad)
{
    static const char *const images[] = {"idx", "cifar10", NULL}, *const rows[] = {"csv", "jsonl", "lines", NULL};
    static const char *const running[] = {"text", "tokens", NULL}, *const tokens[] = {"tokens", NULL};
    const bool pictures = is_kind(cli, images), table = is_kind(cli, rows), text = is_kind(cli, running);
    if (pictures || is_kind(cli, tokens))
        yk__cli_refuse_idle(cli, "tokenizer", pictures ? "with images" : "with token ids", bad);
    if (pictures || text)
        yk__cli_refuse_idle(cli, "max-length", pictures ? "with images" : "with running text, which has --seq-len", bad);
    if (pictures || table)
        yk__cli_refuse_idle(cli, "seq-len", pictures ? "with images" : "with rows of text, which have --max-length", bad);
    if (pictures || text)
        yk__cli_refuse_idle(cli, "group-by-length", "but with rows of text (csv, jsonl)", bad);
    if (pictures || text)
        yk__cli_refuse_idle(cli, "eval-rows", pictures ? "with images: holdout= in --data keeps some" : "with running text, which is cut "
                            "at split=", bad);
}

static void read_masking(const yk__cli *cli, bool *bad)
{
    const char *name = yk__cli_text(cli, "model");
    yk__cli_real(cli, "mlm-probability", 1e-6, 0.999999, bad);
    if (name && strcmp(name, "bert-mlm") != 0)
        yk__cli_refuse_idle(cli, "mlm-probability", "with another model than bert-mlm", bad);
}

/* Refuses a kind of data that the named model does not read, before a missing tokenizer is the error. */
static void refuse_pair(const yk__cli *cli, bool *bad)
{
    static const struct {
        const char *model, *takes, *kinds[5];
    } pairs[] = {
        {"mlp", "labelled images (idx:DIR or cifar10:DIR)", {"idx", "cifar10"}},
        {"resnet", "labelled images (idx:DIR or cifar10:DIR)", {"idx", "cifar10"}},
        {"gpt2", "running text (text:FILE or tokens:FILE)", {"text", "tokens"}},
        {"bert-mlm", "text (csv:FILE, jsonl:FILE, lines:FILE or text:FILE)", {"csv", "jsonl", "lines", "text"}},
        {"bert", "rows of text with a label each (csv:FILE or jsonl:FILE)", {"csv", "jsonl"}},
    };
    static const char *const known[] = {"idx", "cifar10", "csv", "jsonl", "lines", "text", "tokens", NULL};
    const char *name = yk__cli_text(cli, "model"), *const spec[] = {yk__cli_text(cli, "data"), yk__cli_text(cli, "eval-data")};
    size_t i = 0;
    while (name && i < sizeof pairs / sizeof pairs[0] && strncmp(name, pairs[i].model, strlen(pairs[i].model)) != 0)
        i++;
    for (int k = 0; k < 2 && name && i < sizeof pairs / sizeof pairs[0]; k++) {
        if (!spec[k] || !is_of(spec[k], known) || is_of(spec[k], pairs[i].kinds))
            continue;
        yk__cli_usage(cli->command, "model %s and %.*s data do not go together: %s takes %s", name, (int)strcspn(spec[k], ":"), spec[k],
                      name, pairs[i].takes);
        *bad = true;
    }
}

/* True if the path exists. */
static bool is_there(const char *path)
{
    struct stat st;
    return !stat(path, &st);
}

/* NAME or OWNER/NAME, as models are called on the hub. */
static bool is_hub_name(const char *path)
{
    const char *slash = strchr(path, '/');
    return *path && path != slash && *path != '.' && (!slash || (slash[1] && !strchr(slash + 1, '/')));
}

/* True for a model that the library makes by its name. The table of options lists them (train.h). */
static bool is_model(const yk__cli *cli, const char *name)
{
    const int k = yk__cli_find(cli->command, "model", 5);
    const size_t n = strlen(name);
    for (const char *one = k < 0 ? "" : cli->command->options[k].help; *one; one += strspn(one, ", ")) {
        const size_t length = strcspn(one, ", ");
        if (length == n && !strncmp(one, name, n))
            return true;
        one += length;
    }
    return false;
}

/* Refuses a model's folder as --model, and a hub's name as --from. With --model, --from gives weights alone, so text then needs
 * --tokenizer. */
static void refuse_from(const yk__cli *cli, bool *bad)
{
    static const char *const texts[] = {"csv", "jsonl", "lines", "text", NULL};
    const char *from = yk__cli_text(cli, "from"), *name = yk__cli_text(cli, "model");
    char path[4096];
    snprintf(path, sizeof path, "%s/config.json", name ? name : "");
    if (name && !is_model(cli, name) && is_there(path)) {
        yk__cli_usage(cli->command, "--model %s: is a model's folder, which stands behind --from: --model names what to make anew", name);
        *bad = true;
        return;
    }
    if (!from)
        return;
    snprintf(path, sizeof path, "%s/config.json", from);
    if (!is_there(from) && is_hub_name(from)) {
        yk__cli_usage(cli->command, "--from %s: there is no such folder, and nothing is downloaded: hf download %s "
                      "--local-dir DIR, then --from DIR", from, from);
        *bad = true;
    } else if (name && is_there(path) && is_kind(cli, texts) && !yk__cli_text(cli, "tokenizer")) {
        yk__cli_usage(cli->command, "--from %s beside --model %s gives weights alone, and no tokenizer: leave --model out, for what the "
                      "folder's config.json says, or give --tokenizer", from, name);
        *bad = true;
    }
}

/* The path of a spec whose kind reads one file, "" otherwise. */
static void file_of(const char *spec, char *path, size_t size)
{
    static const char *const files[] = {"csv", "jsonl", "lines", "text", NULL};
    path[0] = 0;
    if (spec && is_of(spec, files))
        snprintf(path, size, "%.*s", (int)strcspn(strchr(spec, ':') + 1, ","), strchr(spec, ':') + 1);
}

/* Refuses a missing file before devices are opened, so that it is reported with other errors. */
static void refuse_absent(const yk__cli *cli, bool *bad)
{
    static const char *const names[] = {"data", "eval-data", "eval-rows", "from"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *given = yk__cli_text(cli, names[i]);
        yk_error err = YK_ERROR_INIT;
        char path[4096];
        if (i < 2)
            file_of(given, path, sizeof path);
        else
            snprintf(path, sizeof path, "%s", given ? given : "");
        struct stat st;
        if (!*path || (i < 3 && !strcmp(path, "-"))) /* standard input */
            continue;
        if (!stat(path, &st) || errno != ENOENT || (i == 3 && is_hub_name(path))) /* refuse_from has more about a hub's name */
            continue;
        yk__fail_open(&err, path, ENOENT);
        yk__cli_usage(cli->command, "--%s: %s", names[i], err.text);
        *bad = true;
    }
}

/* Refuses "char" if the loaded model's folder has a tokenizer: "char" would number the present text's characters anew. */
static void refuse_char(const yk__cli *cli, bool *bad)
{
    static const char *const files[] = {"tokenizer.json", "vocab.txt", "vocab.json"};
    const char *from = yk__cli_text(cli, "from"), *tokenizer = yk__cli_text(cli, "tokenizer");
    char path[4096];
    if (!from || yk__cli_text(cli, "model") || !tokenizer || strcmp(tokenizer, "char") != 0)
        return;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", from, files[i]);
        if (!is_there(path))
            continue;
        yk__cli_usage(cli->command, "--tokenizer char would number the characters anew, and %s has the numbers that the model was trained "
                      "with: leave --tokenizer out", path);
        *bad = true;
        return;
    }
}

/* Refuses an empty --devices, such as "$UNSET". */
static void refuse_no_devices(const yk__cli *cli, bool *bad)
{
    if (!yk__cli_typed(cli, "devices") || *yk__cli_text(cli, "devices"))
        return;
    yk__cli_usage(cli->command, "--devices is empty: a device spec for each rank, or auto");
    *bad = true;
}

/* --eval-split R[,seed=N]: the part R of the rows, chosen by seed N (42). */
static double train_split(const yk__cli *cli, uint64_t *seed, bool *bad)
{
    const char *s = yk__cli_text(cli, "eval-split");
    char *end = NULL, *after = NULL;
    double part;
    *seed = 42;
    if (!s)
        return 0;
    part = yk__number_read(s, &end);
    errno = 0;
    if (!strncmp(end, ",seed=", 6) && end[6] >= '0' && end[6] <= '9')
        *seed = strtoull(end + 6, &after, 10);
    if (end != s && part > 0 && part < 1 && !*(after ? after : end) && !errno)
        return part;
    yk__cli_usage(cli->command, "--eval-split %s: expected a part between 0 and 1, and perhaps a seed: 0.1 or 0.1,seed=42", s);
    *bad = true;
    return 0;
}

/* Refuses --eval-split beside another option that names rows to evaluate on, and its seed with running text. */
static void read_split(const yk__cli *cli, bool *bad)
{
    static const char *const running[] = {"text", "tokens", NULL};
    uint64_t seed = 42;
    train_split(cli, &seed, bad);
    if (yk__cli_text(cli, "eval-data")) {
        yk__cli_refuse_idle(cli, "eval-split", "beside --eval-data", bad);
        yk__cli_refuse_idle(cli, "eval-rows", "beside --eval-data", bad);
    } else if (yk__cli_text(cli, "eval-rows"))
        yk__cli_refuse_idle(cli, "eval-split", "beside --eval-rows", bad);
    else if (yk__cli_typed(cli, "eval-split") && is_kind(cli, running) && strchr(yk__cli_text(cli, "eval-split"), ',')) {
        yk__cli_usage(cli->command, "--eval-split %s: running text is cut at its end, not by a seed: give the part alone",
                      yk__cli_text(cli, "eval-split"));
        *bad = true;
    }
}

/* Sets the variable of an option that the core reads from it, also in the ranks (YOKE_BUCKET_BYTES, YOKE_MEMORY_LIMIT). */
static void read_variable(const yk__cli *cli, const char *name, yk__option option, bool *bad)
{
    yk_error err = YK_ERROR_INIT;
    if (!yk__cli_typed(cli, name))
        return;
    setenv(yk__option_row_of(option)->name, yk__cli_text(cli, name), 1);
    if (!yk__option_check(option, &err))
        return;
    yk__cli_usage(cli->command, "%s", err.text);
    *bad = true;
}

bool train_config(const yk__cli *cli, yk_config *config)
{
    static const yk_dtype types[] = {YK_F32, YK_BF16, YK_F16, YK_F8E4M3};
    bool bad = false;
    int k = read_precision(cli, &bad);
    config->devices = yk__cli_text(cli, "devices");
    config->shares = yk__cli_typed(cli, "shares") ? yk__cli_text(cli, "shares") : NULL;
    config->precision = k < 0 ? YK_F32 : types[k];
    config->precision_by_rank = train_precision_by_rank(cli);
    if (k == 0 && !config->precision_by_rank && environment_precision())
        config->precision_by_rank = formats[0]; /* the command line's word, not the environment's */
    config->allow_substitute = yk__cli_on(cli, "allow-substitute");
    config->substitute = YK_F32;
    config->seed = (uint64_t)yk__cli_int(cli, "seed", 0, INT64_MAX, &bad);
    yk__cli_int(cli, "max-length", 1, 1 << 20, &bad); /* used later; a bad number is reported before devices are opened */
    yk__cli_int(cli, "seq-len", 1, 1 << 20, &bad);
    yk__cli_int(cli, "per-device-eval-batch-size", 1, 1 << 20, &bad);
    read_variable(cli, "bucket-bytes", YK__OPTION_BUCKET_BYTES, &bad);
    read_variable(cli, "memory-limit", YK__OPTION_MEMORY_LIMIT, &bad);
    read_masking(cli, &bad);
    read_split(cli, &bad);
    refuse_pair(cli, &bad);
    refuse_from(cli, &bad);
    refuse_absent(cli, &bad);
    inputs_keep(cli, &bad);
    refuse_char(cli, &bad);
    refuse_no_devices(cli, &bad);
    refuse_idle_data_options(cli, &bad);
    refuse_overruled(cli, &bad);
    return !bad;
}

/* The folder of --from, whose config.json describes the model. NULL with --model: then --from gives weights alone. */
static const char *model_folder(const yk__cli *cli)
{
    return yk__cli_text(cli, "model") ? NULL : yk__cli_text(cli, "from");
}

/* The tokenizer's folder: the given one, else the model's. */
static const char *tokenizer_folder(const yk__cli *cli)
{
    const char *t = yk__cli_text(cli, "tokenizer");
    return t ? t : model_folder(cli);
}

/* True if --eval-data names other data than --data: running text is then not split. */
static bool text_is_whole(const yk__cli *cli)
{
    const char *data = yk__cli_text(cli, "data"), *own = yk__cli_text(cli, "eval-data");
    size_t n = own ? strcspn(own, ",") : 0;
    return own && !(data && !strncmp(own, data, n) && (data[n] == ',' || !data[n]));
}

yk_settings *train_settings(const yk__cli *cli, yk_job *job)
{
    yk_settings *s = yk_settings_new(job, yk__cli_text(cli, "model-config"));
    char path[4096];
    if (model_folder(cli)) {
        snprintf(path, sizeof path, "%s/config.json", model_folder(cli));
        yk_settings_json(s, path);
    }
    return s;
}

/* Chooses the kind of labels that the model needs. */
static void choose_labels(const yk__cli *cli, yk_job *job, yk_data_config *c)
{
    static const char *const tables[] = {"csv", "jsonl", NULL}, *const texts[] = {"csv", "jsonl", "lines", "text", NULL};
    yk_settings *s = train_settings(cli, job);
    const char *name = yk__cli_text(cli, "model");
    bool bad = false; /* reported before the job was opened */
    name = name ? name : yk_settings_text(s, "yoke_model", "");
    if (yk__cli_given(cli, "mlm-probability"))
        c->mlm_probability = yk__cli_real(cli, "mlm-probability", 1e-6, 0.999999, &bad);
    else if (!strcmp(name, "bert-mlm") && is_kind(cli, texts)) /* the model refuses other data itself */
        c->mlm_probability = 0.15;
    c->numbers = !(c->mlm_probability > 0) && is_kind(cli, tables) && yk_settings_int(s, "num_labels", 0) == 1;
    yk_settings_free(s);
}

/* Tokens of a row or window that the folder's model was trained with, if they were given then; else those that it has places for, at
 * most 128. */
static uint32_t default_length(const yk__cli *cli, yk_job *job, bool of_rows)
{
    yk_settings *s = train_settings(cli, job);
    const int64_t context = yk_settings_int(s, "n_positions", yk_settings_int(s, "max_position_embeddings", 128));
    const int64_t kept = yk_settings_int(s, of_rows ? "yoke_max_length" : "yoke_seq_len", 0);
    yk_settings_free(s);
    return kept > 0 && kept <= 1 << 24 ? (uint32_t)kept : context > 0 && context < 128 ? (uint32_t)context : 128;
}

uint32_t train_length(const yk__cli *cli, yk_job *job, const char *option)
{
    bool bad = false; /* reported before the job was opened */
    return yk__cli_given(cli, option) ? (uint32_t)yk__cli_int(cli, option, 1, 1 << 20, &bad)
                                      : default_length(cli, job, !strcmp(option, "max-length"));
}

/* ---- Settings of the data that a saved folder keeps: without them its model would be used otherwise than it was trained ---- */

static const char *const image_kinds[] = {"idx", "cifar10", NULL}, *const image_keys[] = {"mean", "std"};

/* Writes "yoke_KEY=VALUE,..": mean and deviation of images, the length of rows or windows, as far as they were given. */
static void write_kept(const yk__cli *cli, char *text, size_t size)
{
    static const char *const rows[] = {"csv", "jsonl", "lines", NULL}, *const running[] = {"text", "tokens", NULL};
    const char *spec = yk__cli_text(cli, "data");
    char value[512];
    *text = 0;
    if (!spec || strcmp(cli->command->name, "train") != 0)
        return;
    const char *length = is_of(spec, rows) ? "max-length" : is_of(spec, running) ? "seq-len" : NULL;
    const bool inside = length && spec_value(spec, length, value, sizeof value);
    if (inside || (length && yk__cli_typed(cli, length)))
        snprintf(text, size, "yoke_%s=%s,", is_of(spec, rows) ? "max_length" : "seq_len", inside ? value : yk__cli_text(cli, length));
    for (size_t i = 0; i < 2 && is_of(spec, image_kinds); i++)
        if (spec_value(spec, image_keys[i], value, sizeof value))
            snprintf(text + strlen(text), size - strlen(text), "yoke_%s=%s,", image_keys[i], value);
}

/* Writes the spec of images, and the folder's mean and deviation behind it, as far as it names none. */
static void write_spec(const yk__cli *cli, yk_job *job, const char *spec, char *text, size_t size)
{
    yk_settings *s = train_settings(cli, job);
    char key[32], value[8];
    snprintf(text, size, "%s", spec);
    for (size_t i = 0; i < 2; i++) {
        snprintf(key, sizeof key, "yoke_%s", image_keys[i]);
        const char *kept = yk_settings_text(s, key, NULL);
        if (kept && !spec_value(spec, image_keys[i], value, sizeof value))
            snprintf(text + strlen(text), size - strlen(text), ",%s=%s", image_keys[i], kept);
    }
    yk_settings_free(s);
}

/* Fills the sample options. max_rows is --max-eval-samples for an evaluation, else --max-train-samples. */
static void take_sample_options(const yk__cli *cli, bool eval, yk_data_config *c)
{
    bool bad = false; /* reported before the job was opened */
    c->max_rows = (uint64_t)yk__cli_int(cli, eval ? "max-eval-samples" : "max-train-samples", 1, INT64_MAX, &bad);
    c->keep_last = yk__cli_given(cli, "dataloader-drop-last") && !yk__cli_on(cli, "dataloader-drop-last");
    c->by_length = yk__cli_on(cli, "group-by-length");
    c->seed = (uint64_t)yk__cli_int(cli, "data-seed", 0, INT64_MAX, &bad);
    if (yk__cli_given(cli, "data-seed") && !c->seed)
        c->seed = (uint64_t)YK_ZERO;
}

yk_data *train_data(const yk__cli *cli, yk_job *job, bool eval, uint32_t global_batch)
{
    const char *own = yk__cli_text(cli, "eval-data"), *spec = eval && own ? own : yk__cli_text(cli, "data");
    bool bad = false; /* reported before the job was opened */
    uint64_t seed = 42;
    char whole[8192];
    yk_data_config c = {.global_batch = global_batch,
                        .eval = eval,
                        .unlabelled = !strcmp(cli->command->name, "predict"),
                        .tokenizer = tokenizer_folder(cli),
                        .model = model_folder(cli),
                        .new_head = yk__cli_on(cli, "new-head"),
                        .whole = text_is_whole(cli),
                        .eval_rows = eval && own ? NULL : yk__cli_text(cli, "eval-rows"),
                        .eval_split = eval && own ? 0 : train_split(cli, &seed, &bad),
                        .max_length = train_length(cli, job, "max-length"),
                        .seq_len = train_length(cli, job, "seq-len")};
    c.eval_seed = seed;
    take_sample_options(cli, eval, &c);
    choose_labels(cli, job, &c);
    if (!spec)
        yk_fail(job, YK_E_ARG, "--data is missing: give the data as KIND:PATH");
    /* images.c gives the training images' mean and deviation to those that evaluate in yoke train */
    if (spec && is_of(spec, image_kinds) && !(eval && !strcmp(cli->command->name, "train"))) {
        write_spec(cli, job, spec, whole, sizeof whole);
        spec = whole;
    }
    yk_data *d = spec ? yk_data_open(job, spec, &c) : NULL;
    if (d)
        yk__data_pad(d, !c.unlabelled);
    return d;
}

bool train_cuts_text(const yk__cli *cli)
{
    static const char *const running[] = {"text", "tokens", NULL};
    const char *data = yk__cli_text(cli, "data");
    return data && is_of(data, running) && !strstr(data, ",split=") && !yk__cli_text(cli, "eval-split") && !text_is_whole(cli);
}

bool train_has_eval(const yk__cli *cli)
{
    static const char *const tables[] = {"csv", "jsonl", "lines", NULL}, *const files[] = {"cifar10", NULL};
    const char *data = yk__cli_text(cli, "data");
    char path[4096] = "";
    struct stat info;
    bool whole = data && is_of(data, tables);
    if (data && is_of(data, files) && !strstr(data, ",holdout="))
        snprintf(path, sizeof path, "%.*s", (int)strcspn(strchr(data, ':') + 1, ","), strchr(data, ':') + 1);
    whole = whole || (*path && !stat(path, &info) && !S_ISDIR(info.st_mode));
    return !whole || yk__cli_text(cli, "eval-data") || yk__cli_text(cli, "eval-rows") || yk__cli_text(cli, "eval-split");
}

uint32_t train_eval_batch(const yk__cli *cli, const yk_job *job, uint32_t training)
{
    bool bad = false; /* reported before the job was opened */
    const int64_t rows = yk__cli_int(cli, "per-device-eval-batch-size", 1, 1 << 20, &bad);
    const uint32_t world = yk_world_size(job);
    return rows ? (uint32_t)rows * world : training && training < 64 * world ? training : 64 * world;
}

yk_model *train_model(const yk__cli *cli, yk_job *job, const yk_data *data)
{
    const char *name = yk__cli_text(cli, "model"), *from = yk__cli_text(cli, "from"), *given = yk__cli_text(cli, "model-config");
    char config[4096], kept[1100];
    yk_model *m;
    if (!name && !from) {
        yk_fail(job, YK_E_ARG, "neither --model NAME nor --from DIR is given: there is nothing to work with");
        return NULL;
    }
    const bool resumes = !strcmp(cli->command->name, "train") && (yk__cli_text(cli, "resume-from-checkpoint") || yk_restart_count());
    write_kept(cli, kept, sizeof kept);
    const int n = snprintf(config, sizeof config, "%s%s%s%s", kept, yk__cli_on(cli, "new-head") ? "new_head=yes," : "",
                           resumes ? "resumes=yes," : "", given ? given : "");
    if (n >= (int)sizeof config) {
        yk_fail(job, YK_E_ARG, "--model-config has more than 4000 characters");
        return NULL;
    }
    if (!name)
        return yk_model_from_pretrained(job, from, config, data);
    m = yk_model_new(job, name, config, data);
    if (from)
        yk_model_load(m, from);
    return m;
}

bool train_use_check(const yk__cli *cli)
{
    yk_config config = {0};
    bool bad = false;
    yk__cli_int(cli, "max-eval-samples", 1, INT64_MAX, &bad); /* used later; reported before devices are opened */
    return train_config(cli, &config) && !bad;
}

bool train_use_open(const yk__cli *cli, yk_config *config, train_use *use, int *code)
{
    *use = (train_use){NULL, NULL, NULL};
    if (!train_config(cli, config)) {
        *code = YK_EXIT_USAGE;
        return false;
    }
    *code = YK_EXIT_FAILED;
    use->job = train_open(cli, config);
    if (!use->job)
        return false;
    use->data = train_data(cli, use->job, true, train_eval_batch(cli, use->job, 0));
    use->model = train_model(cli, use->job, use->data);
    return true;
}
