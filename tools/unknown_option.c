/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The message for an option that a command does not have: a near name, its name here, or the reason for its absence. cli.c asks for it
 * while it parses, and spell.c for the form of a value, in the main thread.
 */
#include "tools/cli.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* True if each word of `few`, between dashes, is one of `many`. Both are lists' names: they end at '|' or 0. */
static bool words_within(const char *few, const char *many)
{
    const size_t end = strcspn(many, "|");
    for (const char *w = few; *w && *w != '|'; w += *w == '-') {
        const size_t n = strcspn(w, "-|");
        bool found = false;
        for (size_t at = 0; at < end && !found; at += strcspn(many + at, "-|") + 1)
            found = strcspn(many + at, "-|") == n && !strncmp(many + at, w, n);
        if (!found)
            return false;
        w += n;
    }
    return true;
}

static size_t words_count(const char *name)
{
    size_t n = 1;
    for (; *name && *name != '|'; name++)
        n += *name == '-';
    return n;
}

/* A name that may have been meant, of an option or of a row of spellings. */
typedef struct meant {
    const yk__cli_command *command;
    const char *given;
    const char *name, *ours; /* NULL before one is found; ours: NULL if the name is our own. Both may end at '|' */
    size_t distance;         /* words, or letters, that differ */
    int option;              /* its number, or -1 */
} meant;

/* A name as it sounds: its letters and digits in lower case, without the s of plurals. It ends at '|' or 0. */
static void name_squash(const char *name, char *text, size_t size)
{
    size_t n = 0;
    for (const char *p = name; *p && *p != '|' && n + 1 < size; p++) {
        const bool ends = !p[1] || strchr("|-_.", p[1]);
        if (!strchr("-_.", *p) && !(ends && n > 2 && (*p == 's' || *p == 'S')))
            text[n++] = (char)tolower((unsigned char)*p);
    }
    text[n] = 0;
}

typedef void (*meant_try)(meant *m, const char *name, const char *ours, int option);

/* Tries each name of the command: first our own with their further spellings, then those of other programs. */
static meant meant_find(const yk__cli_command *c, const char *given, size_t distance, meant_try take)
{
    meant m = {.command = c, .given = given, .distance = distance, .option = -1};
    for (size_t i = 0; i < c->n_options; i++)
        for (const char *name = c->options[i].name; *name; name += strcspn(name, "|"), name += *name == '|')
            take(&m, name, NULL, (int)i);
    take(&m, "help", NULL, -1);
    for (size_t i = 0; i < c->n_spellings; i++) {
        const yk__cli_spelling *row = &c->spellings[i];
        const int option = row->ours ? yk__cli_find(c, row->ours, strlen(row->ours)) : -1;
        for (const char *name = row->name; *name; name += strcspn(name, "|"), name += *name == '|')
            take(&m, name, row->ours, option);
    }
    return m;
}

static bool is_refused(const meant *m, int option)
{
    return option >= 0 && yk__cli_is_refused(&m->command->options[option]);
}

/* Takes a name of the same letters. */
static void meant_by_sound(meant *m, const char *name, const char *ours, int option)
{
    char asked[64], known[64];
    name_squash(m->given, asked, sizeof asked);
    name_squash(name, known, sizeof known);
    if (!m->name && *asked && !strcmp(asked, known)) {
        m->name = name;
        m->ours = ours;
        m->option = option;
    }
}

/* True if the last word only says the kind of a value: output-file of output. */
static bool is_kind_of(const char *given, const char *name)
{
    const size_t n = strcspn(name, "|");
    return !strncmp(given, name, n) && given[n] == '-' && yk__cli_is_named("file|path|dir|folder|directory|name", given + n + 1,
                                                                           strlen(given + n + 1));
}

/* Takes the name if it is nearer by words: the longer name has all words of the shorter one. Training's option is meant if two are as
 * near. */
static void meant_by_words(meant *m, const char *name, const char *ours, int option)
{
    const size_t n = words_count(m->given), own = words_count(name), distance = n > own ? n - own : own - n;
    const bool trains = distance == m->distance && m->name && words_within("eval", m->name) && words_within("train", name);
    if ((distance >= m->distance && !trains) || (is_refused(m, option) && n < 2) || (!ours && option < 0))
        return;
    if (n > own ? words_within(name, m->given) && (own > 1 || is_kind_of(m->given, name)) : words_within(m->given, name)) {
        m->name = name;
        m->ours = ours;
        m->option = option;
        m->distance = distance;
    }
}

/* Takes the name if it is nearer by its letters. Few letters are near to every word, and so are the many names of other programs. */
static void meant_by_letters(meant *m, const char *name, const char *ours, int option)
{
    char asked[64], known[64];
    name_squash(m->given, asked, sizeof asked);
    name_squash(name, known, sizeof known);
    const size_t distance = yk__word_distance(asked, known), n = strlen(asked), most = ours ? n / 4 : n < 4 ? 1 : n / 3 + 1;
    if (distance > most || distance >= m->distance || is_refused(m, option))
        return;
    m->name = name;
    m->ours = ours;
    m->option = option;
    m->distance = distance;
}

/* Our name in full; one of the same letters; one that differs by a letter at its end; one with the same words; one with nearly the same
 * letters. */
static meant meant_by(const yk__cli_command *c, const char *given)
{
    const size_t n = strlen(given);
    const int k = yk__cli_find(c, given, n);
    if (k >= 0)
        return (meant){.name = given, .option = k};
    const meant same = meant_find(c, given, 1, meant_by_sound);
    if (same.name)
        return same;
    const meant near = meant_find(c, given, SIZE_MAX, meant_by_letters), words = meant_find(c, given, 4, meant_by_words);
    const size_t length = near.name ? strcspn(near.name, "|") : 0;
    if (near.name && (length == n + 1 || n == length + 1) && !strncmp(given, near.name, n < length ? n : length))
        return near;
    return words.name ? words : near;
}

/* ---- Names of all programs' habit ---------------------------------------------------------------------------------- */

/* The first of `ours` that the command has was meant, unless `why` tells more; `ours` "": `why` holds for every command. */
static const struct habit {
    const char *names, *ours, *why;
    bool valued; /* where `ours` is "" */
} habits[] = {
    {"help-all|helpfull|helpshort|help-full|usage|?", "help", NULL, false},
    {"version|V", "", "yoke --version prints it", false},
    {"verbose|v|vv|vvv", "", "YOKE_LOG=debug says more", false},
    {"quiet|silent|q", "", "YOKE_LOG=error says least", false},
    {"e|ep|ne", "num-train-epochs", NULL, false},
    {"bs|B|mbs|tbs", "per-device-train-batch-size|per-device-eval-batch-size", NULL, false},
    {"gbs", "global-batch", NULL, false},
    {"b", "per-device-eval-batch-size", NULL, false},
    {"m", "model", NULL, false},
    {"d", "data|devices", NULL, false},
    {"l", "learning-rate", NULL, false},
    {"a|ga|gas", "gradient-accumulation-steps", NULL, false},
    {"g|gpu|gpus|np|n-gpu|num-gpus|num-processes|nproc-per-node", "devices", NULL, false},
    {"s", "seed", NULL, false},
    {"c|C|cfg|conf|config", "config-file", NULL, false},
    {"f", "config-file", NULL, false},
    {"r", "resume-from-checkpoint|redirects", NULL, false},
    {"t", "tokenizer|tee", NULL, false},
    {"w", "weight-decay", NULL, false},
    {"p", "precision", NULL, false},
    {"o", "output-dir|output", NULL, false},
    {"N", "nproc-per-node", "to srun it is the number of hosts, --nnodes, and to mpirun the ranks of each host, --nproc-per-node", false},
    {"y|yes|force", "overwrite-output-dir", NULL, false},
    {"y|yes|force", "", "nothing is asked", false},
};

/* The command's first option of a list, whose name `*list` then is; NULL if it has none. */
static const yk__cli_option *first_of(const yk__cli_command *c, const char **list)
{
    for (; **list; *list += **list == '|') {
        const size_t n = strcspn(*list, "|");
        const int k = yk__cli_find(c, *list, n);
        if (k >= 0)
            return &c->options[k];
        *list += n;
    }
    return NULL;
}

/* True after a message. */
static bool refuse_habit(const yk__cli_command *c, const char *dashes, const char *name, bool *valued)
{
    for (size_t i = 0; i < sizeof habits / sizeof habits[0]; i++) {
        const struct habit *h = &habits[i];
        const char *ours = h->ours;
        const yk__cli_option *o = yk__cli_is_named(h->names, name, strlen(name)) ? first_of(c, &ours) : NULL;
        if (!yk__cli_is_named(h->names, name, strlen(name)) || (!o && *h->ours && strcmp(h->ours, "help") != 0))
            continue;
        *valued = o ? yk__cli_takes_value(o) : h->valued;
        if (o && yk__cli_is_refused(o))
            yk__cli_usage(c, "unknown option %s%s: as of --%.*s, %s", dashes, name, (int)strcspn(ours, "|"), ours, o->help);
        else if (o && !h->why)
            yk__cli_usage(c, "unknown option %s%s: did you mean --%.*s?", dashes, name, (int)strcspn(ours, "|"), ours);
        else
            yk__cli_usage(c, "unknown option %s%s: %s", dashes, name, h->why ? h->why : "did you mean --help, which lists all?");
        return true;
    }
    return false;
}

/* ---- The messages -------------------------------------------------------------------------------------------------- */

/* Two dashes, or one before a word; *valued: the option that was probably meant takes a value. */
static void refuse_word(const yk__cli_command *c, const char *dashes, const char *name, bool *valued)
{
    char list[64];
    const char *dot = strrchr(name, '.'); /* a group of Lightning's or Hydra's options */
    const char *rule = dashes[1] ? "" : "options begin with --: ";
    const meant m = meant_by(c, dot ? dot + 1 : name);
    const yk__cli_option *o = m.option < 0 ? NULL : &c->options[m.option];
    snprintf(list, sizeof list, " (yoke%c%s --help lists all)", yk__cli_separator(c), c->name);
    *valued = o && yk__cli_takes_value(o);
    if (!m.name)
        yk__cli_usage(c, "unknown option %s%s: %sno option is called nearly so%s", dashes, name, rule, list);
    else if (o && yk__cli_is_refused(o))
        yk__cli_usage(c, "unknown option %s%s: as of --%.*s, %s", dashes, name, (int)strcspn(m.name, "|"), m.name, o->help);
    else if (m.ours)
        yk__cli_usage(c, "unknown option %s%s: %sdid you mean --%.*s, here --%s?%s", dashes, name, rule, (int)strcspn(m.name, "|"), m.name,
                      m.ours, list);
    else
        yk__cli_usage(c, "unknown option %s%s: %sdid you mean --%.*s?%s", dashes, name, rule, (int)strcspn(m.name, "|"), m.name, list);
}

/* A row of spellings that has the name; NULL if none. */
static const yk__cli_spelling *find_row(const yk__cli_command *c, const char *name, size_t n)
{
    for (size_t i = 0; i < c->n_spellings; i++)
        if (yk__cli_is_named(c->spellings[i].name, name, n))
            return &c->spellings[i];
    return NULL;
}

/* One letter without a meaning: the options that begin with it. */
static void refuse_letter(const yk__cli_command *c, char letter)
{
    char text[256] = "";
    size_t n = 0, found = 0;
    for (size_t i = 0; i < c->n_options && found < 4; i++)
        if (c->options[i].name[0] == letter && !yk__cli_is_refused(&c->options[i])) {
            n += (size_t)snprintf(text + n, sizeof text - n, "%s--%.*s", found ? ", " : "", (int)strcspn(c->options[i].name, "|"),
                                  c->options[i].name);
            found++;
        }
    if (found)
        yk__cli_usage(c, "unknown option -%c: options begin with --: did you mean one of %s?", letter, text);
    else
        yk__cli_usage(c, "unknown option -%c: options begin with --, and none with %c (yoke%c%s --help lists all)", letter, letter,
                      yk__cli_separator(c), c->name);
}

/* Letters behind one dash that are no name: a letter with its value (-b8), or several letters (-xvf). */
static void refuse_cluster(const yk__cli_command *c, const char *letters, bool *valued)
{
    const yk__cli_spelling *row = find_row(c, letters, 1);
    const char *value = letters + 1 + (letters[1] == '='), letter[] = {*letters, 0};
    const bool number = *value >= '0' && *value <= '9';
    if (row && row->arg && number)
        yk__cli_usage(c, "unknown option -%s: a value stands alone: did you mean -%c %s?", letters, *letters, value);
    else if (!number || !refuse_habit(c, "-", letter, valued))
        refuse_word(c, "-", letters, valued);
}

/* True for a path, a script, or a program in PATH. */
static bool names_program(const char *word)
{
    const char *path = getenv("PATH"), *dot = strrchr(word, '.');
    char file[4096];
    if (strchr(word, '/') || (dot && (!strcmp(dot, ".py") || !strcmp(dot, ".sh"))))
        return true;
    for (; path && *path; path += *path == ':') {
        const size_t n = strcspn(path, ":");
        snprintf(file, sizeof file, "%.*s/%s", (int)n, path, word);
        if (!access(file, X_OK))
            return true;
        path += n;
    }
    return false;
}

bool yk__cli_is_value(const yk__cli_command *c, bool valued, const char *next)
{
    if (!next || (next[0] == '-' && !(next[1] >= '0' && next[1] <= '9')))
        return false;
    return valued || c->most == 0 || (c->rest && !names_program(next));
}

bool yk__cli_refuse(const yk__cli_command *c, const char *arg)
{
    const bool word = arg[1] == '-';
    char name[64];
    bool valued = false;
    const char *given = arg + 1 + word;
    const size_t n = strcspn(given, "=");
    snprintf(name, sizeof name, "%.*s", (int)n, given);
    for (char *p = name; *p && word; p++)
        *p = *p == '_' ? '-' : *p;
    const yk__cli_spelling *row = word ? NULL : find_row(c, name, strlen(name));
    const int k = word ? -1 : yk__cli_find(c, name, strlen(name));
    if (n > 1 && (row || k >= 0)) {
        yk__cli_usage(c, "unknown option -%s: options begin with --: did you mean --%s?", given, name);
        return row ? row->arg != NULL : yk__cli_takes_value(&c->options[k]);
    }
    if (refuse_habit(c, word ? "--" : "-", name, &valued))
        return valued;
    if (word)
        refuse_word(c, "--", name, &valued);
    else if (n == 1)
        refuse_letter(c, *name);
    else
        refuse_cluster(c, given, &valued);
    return valued;
}
