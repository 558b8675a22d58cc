/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The batch of a step in DeepSpeed's terms: train_batch_size = micro batch x accumulation x ranks. Each number may be of a file, of another
 * file, or typed. settings_settle (keys_deepspeed.c) calls this after the last file, in the main thread, so no order of files decides.
 */
#include "tools/config/config_settings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MICRO_OPTION "per-device-train-batch-size"
#define STEPS_OPTION "gradient-accumulation-steps"

/* A number of the batch, and its name in messages. */
typedef struct batch_part {
    double number; /* 0: nobody says it */
    char name[600];
} batch_part;

/* The name of a number in messages; its file only if that is another one than train_batch_size's. */
static void part_name(batch_part *p, const settings *s, const char *key, const char *file, uint32_t line)
{
    if (file == s->rows.file)
        snprintf(p->name, sizeof p->name, "%s %.15g", key, p->number);
    else
        snprintf(p->name, sizeof p->name, "%s %.15g (%.400s, line %u)", key, p->number, file, line);
}

/* The option of a file, in any spelling of the command ("batch-size"); NULL: no file has it. */
static const settings_option *option_said(const settings *s, const char *option)
{
    const settings_option *own = settings_find(s, SETTINGS_TRAIN, option);
    for (size_t i = 0; !own && i < yk__train_command->n_spellings; i++) {
        const yk__cli_spelling *row = &yk__train_command->spellings[i];
        for (size_t j = 0; !own && row->ours && !strcmp(row->ours, option) && j < s->options; j++)
            if (s->option[j].scope == SETTINGS_TRAIN && yk__cli_is_named(row->name, s->option[j].name, strlen(s->option[j].name)))
                own = &s->option[j];
    }
    return own;
}

/* The number of an option that is typed, else of a file, whose key is `own` or makes the option. own: NULL if there is none. */
static batch_part part_find(const settings *s, const char *option, const settings_said *own)
{
    const settings_option *read = option_said(s, option);
    batch_part p = {.number = settings_typed_number(s, option)};
    if (p.number > 0)
        snprintf(p.name, sizeof p.name, "--%s %.15g", option, p.number);
    else if (read && read->value && (p.number = strtod(read->value, NULL)) > 0)
        part_name(&p, s, read->key ? read->key : option, read->file, read->line);
    else if (own && (p.number = own->number) > 0)
        part_name(&p, s, own->key, own->file, own->line);
    return p;
}

/* The number of an option's variable, which counts where no option is said; 0 if there is none. */
static double number_preset(const settings *s, const char *name, const char **variable)
{
    const int k = s->command ? yk__cli_find(s->command, name, strlen(name)) : -1;
    *variable = k < 0 ? NULL : s->command->options[k].env;
    const char *text = *variable ? getenv(*variable) : NULL;
    return text ? strtod(text, NULL) : 0;
}

static void put_number(settings *s, const char *name, double v, const settings_said *of)
{
    char text[40];
    snprintf(text, sizeof text, "%.15g", v);
    settings_put(s, SETTINGS_TRAIN, name, text, of->file, (settings_place){of->line, of->key});
}

/* True if rows of a step and the given numbers agree; else a message names each of them. */
static bool batch_agrees(settings *s, double all, const batch_part *micro, const batch_part *steps, double ranks)
{
    const double unit = (micro->number > 0 ? micro->number : 1) * (steps->number > 0 ? steps->number : 1) * ranks;
    const bool whole = micro->number > 0 && steps->number > 0 && s->ranks > 0;
    char of_ranks[40] = "";
    if (whole ? all == unit : fmod(all, unit) == 0)
        return true;
    if (micro->number > 0 && s->ranks > 0)
        snprintf(of_ranks, sizeof of_ranks, " x %.15g rank%s", ranks, ranks > 1 ? "s" : "");
    settings_say(s, s->rows.file, s->rows.line, s->rows.key, "%.15g is %s %s%s%s%s: expected %s%.15g", all,
                 whole ? "not" : "no multiple of", micro->name, *micro->name && *steps->name ? " x " : "", steps->name, of_ranks,
                 whole ? "" : "a multiple of ", unit);
    return false;
}

/* Puts the options that the numbers make: the accumulation that they leave open, and the rows of a micro batch over all ranks. */
static void batch_put(settings *s, double all, const batch_part *micro, const batch_part *steps, double ranks, bool own)
{
    const bool derived = micro->number > 0 && !(steps->number > 0); /* the accumulation */
    const bool rows_typed = settings_typed_number(s, "global-batch") > 0, micro_typed = settings_typed_number(s, MICRO_OPTION) > 0;
    const settings_said *of = s->micro.number > 0 && micro_typed ? &s->micro : &s->rows;
    if (derived && !(s->ranks > 0)) {
        settings_put(s, SETTINGS_TRAIN, SETTINGS_ROWS, NULL, s->rows.file, (settings_place){s->rows.line, s->rows.key});
        return;
    }
    if (derived && !rows_typed)
        put_number(s, STEPS_OPTION, all / (micro->number * ranks), &s->rows);
    if (!(micro->number > 0) || (s->micro.number > 0 && !own)) /* else an option has the micro batch itself */
        put_number(s, "global-batch", derived ? micro->number * ranks : all / (steps->number > 0 ? steps->number : 1), of);
}

/* Ranks that the command line or a file says, by yoke launch's two options; 0: it says none, or a word (gpu) that counts devices. */
static double ranks_said(const settings *s, bool typed)
{
    const settings_option *all = settings_find(s, SETTINGS_LAUNCH, "num-processes"), *hosts = settings_find(s, SETTINGS_LAUNCH, "nnodes");
    const settings_option *each = settings_find(s, SETTINGS_LAUNCH, "nproc-per-node");
    const double on_all = typed ? settings_typed_number(s, "num-processes") : all && all->value ? strtod(all->value, NULL) : 0;
    const double on_each = typed ? settings_typed_number(s, "nproc-per-node") : each && each->value ? strtod(each->value, NULL) : 0;
    const double nodes = settings_typed_number(s, "nnodes"), of_file = hosts && hosts->value ? strtod(hosts->value, NULL) : 1;
    return on_all > 0 ? on_all : on_each * (nodes > 0 ? nodes : of_file);
}

/* Ranks of the job, as it starts them: typed ones, else devices, else a file's number. 0: not known yet. */
static double ranks_find(const settings *s)
{
    const double typed = ranks_said(s, true), counted = typed > 0 || !s->ranks_count ? typed : s->ranks_count(s);
    return counted > 0 || settings_typed(s, "num-processes") || settings_typed(s, "nproc-per-node") ? counted : ranks_said(s, false);
}

/* Without a micro batch the rows of a step are over all ranks, whose parts may be unequal here. A micro batch or accumulation that is typed
 * counts in place of a file's, so that the rows of a step stay. A typed --global-batch takes the place of train_batch_size itself. */
void settings_settle_batch(settings *s)
{
    const double all = s->rows.number, given = s->micro.number;
    const bool own = option_said(s, MICRO_OPTION);
    if (given > 0 && (!(all > 0) || own))
        put_number(s, MICRO_OPTION, given, &s->micro); /* two that differ are an error */
    if (all > 0) {
        const batch_part micro = part_find(s, MICRO_OPTION, &s->micro);
        const char *variable = "";
        batch_part steps = part_find(s, STEPS_OPTION, NULL);
        if (!(steps.number > 0) && !(micro.number > 0) && (steps.number = number_preset(s, STEPS_OPTION, &variable)) > 0)
            snprintf(steps.name, sizeof steps.name, "%s %.15g", variable, steps.number);
        if (micro.number > 0 && !(s->ranks > 0))
            s->ranks = ranks_find(s);
        const double ranks = micro.number > 0 && s->ranks > 0 ? s->ranks : 1;
        if (settings_typed_number(s, "global-batch") > 0 || batch_agrees(s, all, &micro, &steps, ranks))
            batch_put(s, all, &micro, &steps, ranks, own);
    }
    s->rows = s->micro = (settings_said){0};
}
