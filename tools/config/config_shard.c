/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the options of slices, offload and layout (--shard, --offload and so on) into yk_config, and refuses unsupported ones by name.
 * `yoke train` and `yoke estimate-memory` call it in the main thread, before they open a job.
 */
#include "tools/config/config_shard.h"

#include <math.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/number.h"
#include "core/base/option.h"
#include "core/base/word.h"
#include "core/run/stage.h"

static bool value_refuse(const yk__cli *cli, const char *name, const char *value, const char *expected)
{
    yk__cli_usage(cli->command, "--%s %s: expected %s", name, value, expected);
    return false;
}

static bool word_read(const yk__cli *cli, const char *name, const char *words)
{
    const char *value = yk__cli_text(cli, name);
    return !value || yk__word_find(words, value, strlen(value)) >= 0 || value_refuse(cli, name, value, words);
}

/* The value of a number with a unit, or without one. */
static double size_value(const char *value)
{
    static const char units[] = "KMGT";
    char *end;
    const double v = yk__number_read(value, &end);
    const char *unit = *end ? strchr(units, *end) : NULL;
    return unit ? ldexp(v, 10 * (int)(unit - units + 1)) : v;
}

/* A number of bytes or elements, from 0 to `most`. */
static bool size_read(const yk__cli *cli, const char *name, const char *words, double most)
{
    const char *value = yk__cli_text(cli, name);
    char *end = NULL;
    if (!value || yk__word_find(words, value, strlen(value)) >= 0)
        return true;
    const double v = yk__number_read(value, &end);
    return (end != value && v >= 0 && (*end ? strchr("KMGT", *end) && !end[1] : v == floor(v)) && size_value(value) <= most) ||
           value_refuse(cli, name, value, *words ? "a whole number from 0 on, or its preset" : "a whole number from 0 on");
}

/* A stage without a name has a message of its own. */
static bool offload_read(const yk__cli *cli, yk_config *config)
{
    const char *value = yk__cli_text(cli, "offload");
    yk__stage stage = {.kind = YK__STAGE_PARAMS};
    yk_error err = YK_ERROR_INIT;
    yk__offload offload;
    char source[96];
    snprintf(source, sizeof source, "--offload %.64s", value ? value : "");
    yk__stage_find(yk__cli_text(cli, "shard"), &stage);
    if (yk__offload_read(value, "--offload", &offload, &err) || yk__offload_fits(offload, stage.kind, source, &err)) {
        yk__cli_usage(cli->command, "%s", err.text);
        return false;
    }
    const bool more = offload >= YK__OFFLOAD_DISK || yk__offload_activations(value) || yk__offload_part(value) < 1; /* than its kind */
    config->offload = more ? value : offload == YK__OFFLOAD_NONE ? NULL : yk__offload_text(offload);
    return true;
}

/* Forms that are read and not built: the option, its words (NULL: any value), the first stage that has it, the reason. */
static const struct {
    const char *name, *words;
    yk__stage_kind least;
    const char *why;
} unbuilt[] = {
    {"parallel", "tensor|pipe", YK__STAGE_STATE, "ranks share the rows of a batch: --parallel data"},
    {"reduce", "window", YK__STAGE_GRADIENTS,
     "gradients in slices are summed in each micro batch (--reduce micro); --shard state sums once a window"},
    {"tied-gradients", "twice", YK__STAGE_GRADIENTS, "a tied table's gradient is summed once, when both of its parts are made"},
    {"shard-unit", "all|block", YK__STAGE_PARAMS, "a unit is a bucket of parameters, whose most bytes a size gives: --shard-unit 16M"},
    {"keep-whole-params", NULL, YK__STAGE_PARAMS, "units stay whole by their size (--keep-whole)"},
};

/* True after a message, if the value is such a form. word: the part of it that names the form, of n characters. */
static bool unbuilt_refuse(const yk__cli *cli, const char *name, const char *value, size_t n, yk__stage_kind stage)
{
    for (size_t i = 0; value && i < sizeof unbuilt / sizeof unbuilt[0]; i++) {
        if (strcmp(unbuilt[i].name, name) || stage < unbuilt[i].least ||
            (unbuilt[i].words && yk__word_find(unbuilt[i].words, value, n) < 0))
            continue;
        yk__cli_usage(cli->command, "--%s %s: " SETTINGS_NOT_BUILT ": %s", name, value, unbuilt[i].why);
        return true;
    }
    return false;
}

static bool layout_read(const yk__cli *cli)
{
    static const char *const axes[] = {"data", "tensor", "pipe"};
    char copy[256], *next = copy, *axis;
    snprintf(copy, sizeof copy, "%s", yk__cli_text(cli, "parallel"));
    while ((axis = strsep(&next, ","))) {
        const size_t n = strcspn(axis, "=");
        char *end = NULL;
        int k = 0;
        while (k < 3 && !yk__word_is(axes[k], strlen(axes[k]), axis, n))
            k++;
        const long ranks = axis[n] ? strtol(axis + n + 1, &end, 10) : 1;
        if (k == 3 || ranks < 1 || (axis[n] && (end == axis + n + 1 || *end)))
            return value_refuse(cli, "parallel", axis, "data, tensor=N or pipe=N, N from 1 on");
        if (k > 0 && ranks > 1)
            return !unbuilt_refuse(cli, "parallel", axis, n, YK__STAGE_STATE);
        if (k == 0 && axis[n]) {
            yk__cli_usage(cli->command, "--parallel %s: --devices says how many ranks share the rows: give data alone", axis);
            return false;
        }
    }
    return true;
}

static bool regex_read(const yk__cli *cli)
{
    const char *value = yk__cli_text(cli, "keep-whole-params");
    regex_t r;
    if (!value)
        return true;
    if (regcomp(&r, value, REG_EXTENDED | REG_NOSUB))
        return value_refuse(cli, "keep-whole-params", value, "a regular expression (POSIX, extended)");
    regfree(&r);
    return true;
}

/* ---- The scale of losses ----------------------------------------------------------------------------------------- */

static bool scaling_key(const yk__cli *cli, yk_scale_config *scale, const char *key, const char *value)
{
    const int rule = yk__word_find("rule", key, strlen(key)) == 0 ? yk__word_find("torch|deepspeed|megatron", value, strlen(value)) : -1;
    struct {
        const char *name;
        double *real;
        uint32_t *whole;
    } keys[] = {{"init", &scale->init, NULL},   {"growth", &scale->growth, NULL}, {"backoff", &scale->backoff, NULL},
                {"floor", &scale->floor, NULL},
                {"fixed", &scale->fixed, NULL}, {"interval", NULL, &scale->interval}, {"hysteresis", NULL, &scale->hysteresis}};
    char *end;
    const double v = yk__number_read(value, &end);
    if (rule >= 0) {
        scale->rule = (yk_scale_rule)rule;
        return true;
    }
    if (yk__word_find("consecutive", key, strlen(key)) == 0 && yk__cli_truth(value) >= 0) {
        scale->consecutive_hysteresis = yk__cli_truth(value);
        return true;
    }
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (!yk__word_is(keys[i].name, strlen(keys[i].name), key, strlen(key)) || end == value || *end || !(v > 0 && v < 1e30) ||
            (keys[i].whole && (v != floor(v) || v > 1e9)))
            continue;
        if (keys[i].real)
            *keys[i].real = v;
        else
            *keys[i].whole = (uint32_t)v;
        return true;
    }
    yk__cli_usage(cli->command,
                  "--loss-scaling %s=%s: expected rule=torch, deepspeed or megatron, consecutive=1, or a number above 0 for init, "
                  "growth, backoff, floor, interval, hysteresis or fixed", key, value);
    return false;
}

static bool scaling_read(const yk__cli *cli, yk_config *config)
{
    const char *value = yk__cli_text(cli, "loss-scaling");
    char copy[512], *next = copy, *pair;
    if (!value)
        return true;
    if (config->precision != YK_F16 && !config->precision_by_rank) {
        yk__cli_usage(cli->command, "--loss-scaling has no effect but in fp16: --precision fp16");
        return false;
    }
    snprintf(copy, sizeof copy, "%s", value);
    while ((pair = strsep(&next, ","))) {
        const size_t n = strcspn(pair, "=");
        char *text = pair[n] ? pair + n + 1 : pair + n;
        pair[n] = 0;
        if (!scaling_key(cli, &config->scale, pair, text))
            return false;
    }
    return true;
}

/* ---- All --------------------------------------------------------------------------------------------------------- */

/* Refuses options that the stage does not have. */
static void idle_refuse(const yk__cli *cli, yk__stage_kind kind, bool *bad)
{
    static const char *const of_params[] = {"shard-within", "shard-unit", "reshard-after-forward", "prefetch-units", "keep-whole",
                                            "keep-whole-params"};
    static const char *const of_gradients[] = {"reduce", "tied-gradients"};
    char why[96];
    snprintf(why, sizeof why, "with --shard %s: parameters are whole on each rank", kind == YK__STAGE_STATE ? "state" : "gradients");
    for (size_t i = 0; i < sizeof of_params / sizeof of_params[0] && kind != YK__STAGE_PARAMS; i++)
        yk__cli_refuse_idle(cli, of_params[i], why, bad);
    for (size_t i = 0; i < sizeof of_gradients / sizeof of_gradients[0] && kind == YK__STAGE_STATE; i++)
        yk__cli_refuse_idle(cli, of_gradients[i], "with --shard state: gradients are whole on each rank", bad);
}

/* Gradients in slices exclude an exchange that keeps errors of whole gradients; the job would refuse it later. */
static void wire_refuse(const yk__cli *cli, const yk__stage *stage, bool *bad)
{
    enum { INT8 = 2 }; /* index among the option's words */
    if (stage->kind == YK__STAGE_STATE || yk__option_words(YK__OPTION_WIRE) != INT8)
        return;
    yk__cli_usage(cli->command, "YOKE_WIRE=int8 keeps an error of each gradient on each rank, and --shard %s has gradients in slices: "
                  "choose one", stage->word);
    *bad = true;
}

/* Refuses forms of this stage that are not built. */
static bool stage_refuse(const yk__cli *cli, yk__stage_kind stage)
{
    bool bad = false;
    for (size_t i = 0; i < sizeof unbuilt / sizeof unbuilt[0]; i++) {
        const char *name = unbuilt[i].name, *value = strcmp(name, "parallel") ? yk__cli_text(cli, name) : NULL; /* layout_read */
        bad = unbuilt_refuse(cli, name, value, value ? strlen(value) : 0, stage) || bad;
    }
    return bad;
}

/* The bounds of YOKE_BUCKET_BYTES, as a unit is a bucket. */
static bool unit_fits(const yk__cli *cli, const char *unit, uint64_t bytes)
{
    const yk__option_row *row = yk__option_row_of(YK__OPTION_BUCKET_BYTES);
    if (bytes < row->least || bytes > row->most)
        return value_refuse(cli, "shard-unit", unit, "bytes, from 4096 to 1024G (as 16M), or auto");
    if (!yk__cli_typed(cli, "bucket-bytes"))
        return true;
    yk__cli_usage(cli->command, "--shard-unit %s and --bucket-bytes %s: a unit is a bucket, so they say the same: choose one", unit,
                  yk__cli_text(cli, "bucket-bytes"));
    return false;
}

/* Fills in how --shard params brings parameters; false after a message. */
static bool params_take(const yk__cli *cli, const yk__stage *stage, yk_config *config)
{
    const char *unit = yk__cli_text(cli, "shard-unit");
    const char *within = yk__cli_text(cli, "shard-within"), *again = yk__cli_text(cli, "reshard-after-forward");
    const char *ahead = yk__cli_text(cli, "prefetch-units");
    const double whole = size_value(yk__cli_text(cli, "keep-whole"));
    bool good = true;
    if (yk__word_find("auto", unit, strlen(unit)) < 0) {
        config->shard_unit = (uint64_t)size_value(unit);
        good = unit_fits(cli, unit, config->shard_unit);
    }
    config->shard_within = stage->within_host || yk__word_find("world|host", within, strlen(within)) == 1 ? "host" : "world";
    config->gathered_stay = stage->stays || yk__word_find("on=true|off=false", again, strlen(again)) == 1;
    config->prefetch_units = yk__word_find("auto", ahead, strlen(ahead)) == 0 ? 0 : (uint32_t)size_value(ahead);
    config->keep_whole = whole < 1 ? 1 : (uint64_t)whole; /* 0 is the preset of yk_config */
    return good;
}

/* Options that ask a planner. A described device is for a plan alone: a run takes devices that are there. */
static bool plan_read(const yk__cli *cli)
{
    const char *plan = yk__cli_text(cli, "plan"), *file = yk__cli_text(cli, "device-file");
    char *end = NULL;
    bool good = true;
    if (plan && yk__word_find("auto|none", plan, strlen(plan)) < 0 &&
        (!(yk__number_read(plan, &end) > 0) || end == plan || *end))
        good = value_refuse(cli, "plan", plan, "auto, none, or the milliseconds of a step that yoke plan predicted");
    if (yk__cli_find(cli->command, "measure-seconds", 15) >= 0) {
        bool bad = false;
        yk__cli_real(cli, "measure-seconds", 0, 1e6, &bad);
        if (strcmp(cli->command->name, "plan") && (!plan || yk__word_find("none", plan, strlen(plan)) == 0)) /* MS: of an applied plan */
            yk__cli_refuse_idle(cli, "measure-seconds", "without --plan auto", &bad);
        good = good && !bad;
    }
    if (file && access(file, R_OK)) {
        yk__cli_usage(cli->command, "--device-file %s: there is no such file", file);
        good = false;
    } else if (file && strcmp(cli->command->name, "plan")) {
        yk__cli_usage(cli->command, "--device-file %s: a run takes devices that are there: yoke plan --device-file plans for described "
                      "ones", file);
        good = false;
    }
    return good;
}

void shard_read(const yk__cli *cli, yk_config *config, bool *bad)
{
    yk_error err = YK_ERROR_INIT;
    yk__stage stage = {0};
    const bool good[] = { /* all are read, so that each mistake has its message */
        word_read(cli, "shard-within", "world|host"), word_read(cli, "reshard-after-forward", "on=true|off=false"),
        word_read(cli, "reduce", "auto|micro|window"), word_read(cli, "tied-gradients", "once|twice"),
        size_read(cli, "shard-unit", "auto|all|block", 1e18), size_read(cli, "prefetch-units", "auto", 1e6),
        size_read(cli, "keep-whole", "", 1e18), regex_read(cli), offload_read(cli, config), layout_read(cli), scaling_read(cli, config),
        plan_read(cli)};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        *bad = *bad || !good[i];
    if (yk__stage_read(yk__cli_text(cli, "shard"), "--shard", &stage, &err)) {
        yk__cli_usage(cli->command, "%s", err.text);
        *bad = true;
        return;
    }
    config->shard = stage.word;
    idle_refuse(cli, stage.kind, bad);
    wire_refuse(cli, &stage, bad);
    *bad = stage_refuse(cli, stage.kind) || *bad;
    *bad = (!*bad && stage.kind == YK__STAGE_PARAMS && !params_take(cli, &stage, config)) || *bad;
    config->shard_parts = yk__cli_typed(cli, "shard-parts") ? yk__cli_text(cli, "shard-parts") : NULL;
}
