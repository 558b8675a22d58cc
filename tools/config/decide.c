/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fate of a file's keys in a run. A command's own check of its options decides about the options that the keys make, so --dry-run says
 * what a run does. apply.c and `yoke config` call it in the main thread, before ranks start.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "tools/config/apply.h"
#include "tools/spell.h"

enum { VERDICTS = 64, WORDS = 2048 };

/* Refused options, and the message about each. */
typedef struct verdicts {
    const settings *s;
    const settings_option *option[VERDICTS]; /* NULL: no file's */
    char *message[VERDICTS]; /* owned */
    size_t count;
    bool lost; /* a message, for lack of memory */
} verdicts;

/* True if messages name it as a variable. */
static bool option_is_variable(const settings_option *o)
{
    return o->scope == SETTINGS_ENV;
}

/* The option or variable of a file that begins the message; NULL for a typed one. */
static const settings_option *option_meant(const settings *s, const char *message)
{
    const char *name = message + (strncmp(message, "--", 2) ? 0 : 2);
    const size_t n = strcspn(name, " :=,");
    for (size_t i = 0; i < s->options; i++)
        if (!s->option[i].dropped && (name == message) == option_is_variable(&s->option[i]) && strlen(s->option[i].name) == n &&
            !strncmp(s->option[i].name, name, n))
            return &s->option[i];
    return NULL;
}

static void verdicts_add(verdicts *v, const settings_option *o, const char *message)
{
    char *copy = v->count < VERDICTS ? yk__strdup(message) : NULL;
    v->lost = v->lost || (!copy && v->count < VERDICTS);
    if (!copy)
        return;
    v->option[v->count] = o;
    v->message[v->count++] = copy;
}

/* A message is about the option that begins it, else about each option of a file in its text, as in a run's message, else about words that
 * no file has. */
static void verdicts_hear(void *context, const char *message, bool advice)
{
    verdicts *v = context;
    const settings_option *o = option_meant(v->s, message);
    const size_t before = v->count;
    for (size_t i = 0; !o && !advice && i < v->s->options; i++)
        if (!v->s->option[i].dropped && !option_is_variable(&v->s->option[i]) && yk__cli_occurs(message, v->s->option[i].name))
            verdicts_add(v, &v->s->option[i], message);
    if (o || v->count == before)
        verdicts_add(v, o, message);
}

static void verdicts_free(verdicts *v)
{
    for (size_t i = 0; i < v->count; i++)
        yk__free(v->message[i]);
}

char *settings_word(const settings_option *o)
{
    return yk__format("--%s%s%s", o->name, o->value ? "=" : "", o->value ? o->value : "");
}

/* Runs the command's check over a copy of the words; its messages go to the verdicts. True if the command takes the words: then messages
 * are remarks. */
static bool words_check(verdicts *v, const settings_job *job, int argc, char *const *argv)
{
    char *copy[WORDS + 1], **own = copy;
    yk__cli cli;
    bool right;
    memcpy(copy, argv, (size_t)argc * sizeof *copy);
    copy[argc] = NULL;
    yk__cli_divert(verdicts_hear, v);
    own = yk__spell(job->command, &argc, copy);
    right = own && yk__cli_parse(job->command, argc, own, &cli) < 0 && job->check(&cli);
    yk__cli_divert(NULL, NULL);
    return right;
}

/* True if the command refuses the option with this value alone in its place. */
static bool part_is_refused(const settings *s, const settings_job *job, const settings_option *o, const char *part, int argc,
                            char *const *argv)
{
    settings_option own = *o;
    own.value = (char *)(uintptr_t)part;
    char *copy[WORDS], *word = settings_word(&own);
    const size_t n = strlen(o->name) + 3;
    verdicts v = {.s = s};
    bool refused = false;
    for (int i = 0; i < argc; i++)
        copy[i] = word && i && strlen(argv[i]) >= n && !strncmp(argv[i], word, n) ? word : argv[i];
    const bool right = words_check(&v, job, argc, copy);
    for (size_t i = 0; i < v.count && !right; i++)
        refused = refused || v.option[i] == o;
    verdicts_free(&v);
    yk__free(word);
    return refused;
}

/* Gives the keys that a refused option is made of their fate: those whose own part is refused, or all if only the whole is. */
static void option_judge(settings *s, const settings_job *job, const settings_option *o, const char *message, int argc, char *const *argv)
{
    const settings_fate fate = strstr(message, SETTINGS_NOT_BUILT) ? SETTINGS_LATER : SETTINGS_REFUSED;
    const char *why = settings_reason(s, message);
    bool some = false;
    for (size_t i = 0; i < s->parts; i++) {
        settings_part *p = &s->part[i];
        p->refused = !strcmp(p->name, o->name) && part_is_refused(s, job, o, p->value, argc, argv);
        some = some || p->refused;
    }
    for (size_t i = 0; i < s->parts; i++)
        if (!strcmp(s->part[i].name, o->name) && (s->part[i].refused || !some))
            settings_mark(s, fate, s->part[i].file, s->part[i].line, s->part[i].key, why);
    settings_mark(s, fate, o->file, o->line, o->key, why);
    if (fate == SETTINGS_REFUSED)
        settings_say(s, o->file, o->line, o->key, "%s", message);
}

void settings_decide_rows(settings *s)
{
    const settings_option *rows = settings_find(s, SETTINGS_TRAIN, SETTINGS_ROWS);
    if (rows && !rows->dropped)
        settings_mark(s, SETTINGS_LATER, rows->file, rows->line, rows->key,
                      "with train_micro_batch_size_per_gpu alone the number of ranks gives the accumulation, and it is not known yet: "
                      "give gradient_accumulation_steps, or start by yoke launch --config-file");
}

bool settings_decide(settings *s, const settings_job *job, int argc, char *const *argv)
{
    verdicts v = {.s = s};
    settings_decide_rows(s);
    if (!job->check || argc > WORDS || s->messages || s->err.status)
        return false;
    const bool right = words_check(&v, job, argc, argv);
    for (size_t i = 0; i < v.count && !right; i++)
        if (v.option[i])
            option_judge(s, job, v.option[i], v.message[i], argc, argv);
        else
            settings_say(s, NULL, 0, NULL, "%s", v.message[i]);
    if (v.lost)
        yk__fail_mem(&s->err, VERDICTS, "settings");
    verdicts_free(&v);
    return true;
}

void settings_decide_file(settings *s, const settings_job *job)
{
    settings_settle(s);
    char **word = yk__calloc(s->options + 1, sizeof *word);
    int n = 1;
    if (!word) {
        yk__fail_mem(&s->err, s->options * sizeof *word, "settings");
        return;
    }
    word[0] = (char *)(uintptr_t)job->command->name;
    for (size_t i = 0; i < s->options; i++)
        if (s->option[i].scope == SETTINGS_ENV)
            setenv(s->option[i].name, s->option[i].value, 0); /* as a run has it */
        else if (s->option[i].scope == SETTINGS_TRAIN && strcmp(s->option[i].name, SETTINGS_ROWS))
            word[n] = settings_word(&s->option[i]), n += word[n] != NULL;
    settings_decide(s, job, n, word);
    for (int i = 1; i < n; i++)
        yk__free(word[i]);
    yk__free(word);
}
