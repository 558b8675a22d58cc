/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts the options of settings files (--config-file and so on) before a command's own arguments. A typed option keeps its value, and a line
 * says so. The default file is YOKE_CONFIG_FILE, else config.yaml in XDG_CONFIG_HOME's yoke, or in HOME's .config/yoke.
 *
 * The commands that take such files call settings_apply first, in the main thread, before ranks start. A fault of a file is an error with
 * its line and key. Devices come from YOKE_DEVICES if no option names them. A process with YOKE_RANK, YOKE_JOB_FD or YOKE_NODE_FD is a
 * rank; YOKE_WORLD_SIZE is the number of ranks.
 */
#include "tools/config/apply.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "core/base/option.h"
#include "core/base/word.h"
#include "core/control/start/origin.h"
#include "core/io/folder.h"
#include "core/launch/device_choice.h"
#include "core/run/stage.h"
#include "tools/spell.h"

/* Options that name settings. */
static const struct source {
    const char *names;
    const settings_table *table; /* NULL: a file of any format, or words */
    bool words;
} sources[] = {
    {"config-file|default-config-file", NULL, false},
    {"deepspeed|deepspeed-config|deepspeed-config-file", &settings_deepspeed, false},
    {"fsdp", NULL, true},
    {"sharded-ddp", NULL, true},
    {"fsdp-config", &settings_fsdp, false},
    {"parallelism-config", &settings_parallelism, false},
    {"accelerator-config", &settings_accelerator, false},
};
enum { SOURCES = sizeof sources / sizeof sources[0] };

typedef struct applier {
    const yk__cli_command *command;
    settings read;
    const char *given[SOURCES];
    bool rank, speaks, dry;     /* rank of a job; its first rank */
    const char *program;        /* base name of the program that yoke launch starts; NULL if absent, or yoke train, which reads the file
                                 * itself */
    char **out;
    int count;
} applier;

/* True for yoke launch, which starts the program after it; every other command computes itself. */
static bool command_launches(const yk__cli_command *c)
{
    return c->rest;
}

static bool command_has(const yk__cli_command *c, const char *name)
{
    return yk__cli_find(c, name, strlen(name)) >= 0;
}

/* Index of the option that a typed name stands for, and if it has a value; -1 if unknown. */
static int option_of(const yk__cli_command *c, const char *name, size_t n, bool *valued)
{
    const int k = yk__cli_find(c, name, n);
    *valued = k >= 0 && yk__cli_takes_value(&c->options[k]);
    if (k < 0 && n > 1 && name[1] >= '0' && name[1] <= '9') { /* -n2, whose value is in the same word */
        const int letter = option_of(c, name, 1, valued);
        *valued = false;
        return letter;
    }
    for (size_t i = 0; k < 0 && i < c->n_spellings; i++)
        if (yk__cli_is_named(c->spellings[i].name, name, n)) {
            *valued = c->spellings[i].arg != NULL;
            return c->spellings[i].ours ? yk__cli_find(c, c->spellings[i].ours, strlen(c->spellings[i].ours)) : -1;
        }
    return k;
}

static int source_of(const yk__cli_command *c, const char *name, size_t n)
{
    for (int i = 0; i < SOURCES; i++)
        if (yk__cli_is_named(sources[i].names, name, n) && yk__cli_find(c, name, n) >= 0 && c->options[yk__cli_find(c, name, n)].arg !=
            YK_REFUSED)
            return i;
    return -1;
}

/* A typed option of this number, in our words. value: NULL for a switch. */
static void applier_note(applier *a, int k, const char *name, size_t n, const char *value)
{
    char space[1024];
    const char *word = settings_mapped(a->command, name, n, value, space, sizeof space);
    word = word == space ? settings_reason(&a->read, space) : word;
    a->read.typed[k] = word ? word : "";
    if (!strcmp(a->command->options[k].name, "devices"))
        a->read.devices = word;
}

/* Index of the switch that "no-NAME" turns off; -1 if it is none. */
static int switch_off(const yk__cli_command *c, const char *name, size_t n)
{
    const bool negated = n > 3 && (!strncmp(name, "no-", 3) || !strncmp(name, "no_", 3));
    const int k = negated ? yk__cli_find(c, name + 3, n - 3) : -1;
    return k >= 0 && !c->options[k].arg ? k : -1;
}

/* True if the value of --config-file or its like names no file. */
static bool is_none(const char *value)
{
    return !*value || !strcasecmp(value, "none") || yk__cli_truth(value) == 0;
}

/* One option; *i moves on over its value. */
static void applier_take(applier *a, int argc, char **argv, int *i)
{
    const char *name = argv[*i] + (argv[*i][1] == '-' ? 2 : 1), *eq = strchr(name, '=');
    const size_t n = eq ? (size_t)(eq - name) : strlen(name);
    bool valued = false;
    const int k = option_of(a->command, name, n, &valued), source = source_of(a->command, name, n);
    char *next = valued && !eq && *i + 1 < argc ? argv[*i + 1] : NULL;
    if (source == 1 && !eq && (!next || next[0] == '-')) /* a switch in scripts for deepspeed, besides --deepspeed_config FILE */
        return;
    const bool own = k >= 0 && yk__cli_find(a->command, name, n) == k;
    const char *truth = a->command->most == 0 && *i + 1 < argc && yk__cli_truth(argv[*i + 1]) >= 0 ? argv[*i + 1] : NULL;
    const char *given = eq ? eq + 1 : valued ? next : truth;
    const int off = k < 0 ? switch_off(a->command, name, n) : -1;
    if (k >= 0 && (own || valued || yk__cli_truth(given) != 0)) /* --use-cpu false: nothing */
        applier_note(a, k, name, n, given);
    else if (off >= 0)
        a->read.typed[off] = "false";
    a->dry = a->dry || (n == 7 && !strncmp(name, "dry-run", 7)) || (n == 7 && !strncmp(name, "dry_run", 7));
    if (source >= 0 && (eq || next)) {
        const char *before = a->given[source], *value = eq ? eq + 1 : next;
        if (before && !is_none(before) && !is_none(value) && strcmp(before, value) && !yk__folder_same(before, value))
            settings_say(&a->read, NULL, 0, NULL, "--%.*s %.200s: %.200s is given already, and one of them counts: expected one", (int)n,
                         name, value, before);
        a->given[source] = value;
        *i += next != NULL;
        return;
    }
    const int values = eq ? 0 : own ? yk__cli_values(&a->command->options[k]) : next != NULL;
    a->out[a->count++] = argv[*i];
    for (int v = 0; v < values && *i + 1 < argc; v++)
        a->out[a->count++] = argv[++*i];
}

/* The default file; NULL if none. */
static const char *file_default(const yk__cli_command *c)
{
    static char path[PATH_MAX];
    const char *named = yk__option_text(YK__OPTION_CONFIG_FILE);
    if (!command_has(c, "config-file") || (named && *named))
        return command_has(c, "config-file") ? named : NULL;
    return !getenv("YOKE_RANK") && settings_default_path(path, sizeof path) && !access(path, R_OK) ? path : NULL;
}

bool settings_default_path(char *path, size_t size)
{
    const char *folder = getenv("XDG_CONFIG_HOME"), *user = getenv("HOME");
    if (folder && *folder == '/')
        snprintf(path, size, "%s/yoke/config.yaml", folder);
    else if (user && *user == '/')
        snprintf(path, size, "%s/.config/yoke/config.yaml", user);
    else
        return false;
    return true;
}

/* The devices that a file names, for a command that starts the ranks itself: of several ranks on processors as many parts. NULL: none. */
static const char *file_devices(const settings *s, char spec[32])
{
    const settings_option *own = settings_find(s, SETTINGS_LAUNCH, "devices"), *ranks = settings_find(s, SETTINGS_LAUNCH, "num-processes");
    if (!own || !ranks || atoi(ranks->value) < 2 || strcmp(own->value, "cpu"))
        return own ? own->value : NULL;
    snprintf(spec, 32, "cpu/%d", atoi(ranks->value));
    return spec;
}

/* Ranks of a command that starts them itself, one for each device. Devices that cannot be counted are the run's error. */
static double ranks_count(const settings *s)
{
    char spec[32];
    const char *own = file_devices(s, spec), *specs = s->devices ? s->devices : own ? own : getenv("YOKE_DEVICES");
    const settings_option *ranks = settings_find(s, SETTINGS_LAUNCH, "num-processes");
    struct yk__placement *place = NULL;
    yk_error err = YK_ERROR_INIT;
    uint32_t n = 0;
    if (specs == spec)
        return atoi(ranks->value);
    if (!specs || !*specs)
        return ranks ? 0 : 1; /* 0: the file's number */
    yk__launch_select(specs, &place, &n, &err);
    yk__free(place);
    return err.status ? 0 : n;
}

static const char *files_read[SOURCES + 1]; /* NULL ends them; static, as checks of options ask much later */

const char *settings_file(size_t i)
{
    return i < SOURCES ? files_read[i] : NULL;
}

static void applier_read(applier *a)
{
    size_t files = 0;
    const char *size = getenv("YOKE_WORLD_SIZE");
    a->read.ranks = size ? strtod(size, NULL) : a->read.ranks;
    if (!a->rank && command_has(a->command, "devices") && !command_launches(a->command))
        a->read.ranks_count = ranks_count;
    for (int i = 0; i < SOURCES; i++) {
        char option[64];
        snprintf(option, sizeof option, "--%.*s", (int)strcspn(sources[i].names, "|"), sources[i].names);
        if (!a->given[i] || is_none(a->given[i]))
            continue;
        if (!sources[i].words)
            files_read[files++] = a->given[i];
        if (sources[i].words)
            settings_read_strategy(&a->read, option, a->given[i]);
        else if (sources[i].table)
            settings_read_as(&a->read, sources[i].table, option, a->given[i]);
        else
            settings_read(&a->read, a->given[i]);
    }
    files_read[files] = NULL;
    settings_settle(&a->read);
}

/* The option has no effect in this run: a line says so unless the file lacks the key, and the fate of its keys for --dry-run. */
static void applier_drop(applier *a, const char *fmt, const char *what, const settings_option *o)
{
    char text[512];
    if (!a->speaks)
        return;
    snprintf(text, sizeof text, fmt, what);
    if (!o->preset)
        yk__cli_usage(a->command, "%s%s%s, line %u", text, " of ", o->file, o->line);
    if (a->dry)
        settings_drop(&a->read, o, text);
}

/* True if the command line has an option with the same meaning. */
static bool is_typed(const applier *a, const char *name)
{
    bool valued = false;
    const int own = option_of(a->command, name, strlen(name), &valued), k = own < 0 ? switch_off(a->command, name, strlen(name)) : own;
    const char *ours = k < 0 ? name : a->command->options[k].name;
    if (yk__cli_is_named("precision|bf16|fp16", ours, strcspn(ours, "|")))
        return settings_typed_precision(&a->read);
    if (k >= 0 && a->read.typed[k])
        return true;
    return settings_typed_alike(&a->read, name);
}

/* True if a file says an option with the meaning of this preset. */
static bool is_said(const applier *a, const settings_option *preset)
{
    bool said = false;
    for (size_t i = 0; i < a->read.options && !said; i++)
        said = &a->read.option[i] != preset && a->read.option[i].scope == preset->scope &&
               settings_alike(preset->name, a->read.option[i].name);
    return said;
}

/* A message of the command about this option names its file, line and key. */
static void option_note(const settings_option *o)
{
    char from[PATH_MAX + 400];
    if (o->key)
        snprintf(from, sizeof from, "%.*s, line %u: %.300s", PATH_MAX, o->file, o->line, o->key);
    else
        snprintf(from, sizeof from, "%.*s", PATH_MAX, o->file);
    yk__cli_note_file(o->name, from);
}

/* "--NAME=VALUE" in the list, unless it is typed. */
static void option_apply(applier *a, const settings_option *o)
{
    char *word;
    const char *owner = settings_owner(&a->read, o->name);
    char other[160];
    if (is_typed(a, o->name)) {
        applier_drop(a, "the command line takes the place of --%s", o->name, o);
        return;
    }
    if (o->preset && is_said(a, o)) {
        applier_drop(a, "another file takes the place of --%s", o->name, o);
        return;
    }
    if (owner) {
        snprintf(other, sizeof other, "--%s has no use for --%s", owner, o->name);
        applier_drop(a, "the command line's %s", other, o);
        return;
    }
    word = settings_word(o); /* until the process ends, as the list */
    if (!word) {
        settings_say(&a->read, o->file, o->line, o->name, "out of memory");
        return;
    }
    a->out[a->count++] = word;
    option_note(o);
}

static void variable_apply(applier *a, const settings_option *o)
{
    const char *own = getenv(o->name);
    if (own && *own && strcmp(own, o->value))
        applier_drop(a, "the environment takes the place of %s", o->name, o);
    else
        setenv(o->name, o->value, 1);
}

/* For a command that starts the ranks itself: the options of yoke launch that it has too. */
static void place_apply(applier *a, const settings_option *o)
{
    char spec[32];
    if (a->rank || yk__cli_is_named("num-processes|nproc-per-node", o->name, strlen(o->name)))
        return;
    if (strcmp(o->name, "devices")) {
        applier_drop(a, "yoke launch takes --%s, not this command", o->name, o);
        return;
    }
    settings_option own = *o;
    own.value = (char *)(uintptr_t)file_devices(&a->read, spec);
    option_apply(a, &own);
}

/* Several ranks of a file that names no devices: yoke launch finds as many. */
static void ranks_check(applier *a)
{
    const settings_option *ranks = settings_find(&a->read, SETTINGS_LAUNCH, "num-processes");
    const int k = yk__cli_find(a->command, "devices", 7);
    if (a->rank || !ranks || atoi(ranks->value) < 2 || (k >= 0 && a->read.typed[k]) || getenv("YOKE_DEVICES") ||
        settings_find(&a->read, SETTINGS_LAUNCH, "devices"))
        return;
    settings_say(&a->read, ranks->file, ranks->line, "num_processes",
                 "%s ranks, and no devices: give --devices, or start them by yoke launch "
                 "--config-file %s -- yoke %s ..", ranks->value, ranks->file, a->command->name);
}

/* Refuses in a run the keys that are not built. */
static void later_refuse(applier *a)
{
    settings_decide_rows(&a->read);
    for (size_t i = 0; i < a->read.items; i++)
        if (a->read.item[i].fate == SETTINGS_LATER)
            settings_say(&a->read, a->read.item[i].file, a->read.item[i].line, a->read.item[i].path, "%s", a->read.item[i].why);
}

/* Refuses a pipe under yoke launch, as its ranks would read it again. */
static void pipe_check(applier *a)
{
    struct stat st;
    if (command_launches(a->command) && a->given[0] && !a->program && !stat(a->given[0], &st) && S_ISFIFO(st.st_mode))
        settings_say(&a->read, a->given[0], 0, NULL, "is a pipe, which each rank would have to read: expected a file");
}

/* One line for the keys that are not needed, and one for the key that is. */
static void say_idle(const applier *a)
{
    char text[900] = "";
    size_t n = 0;
    if (a->read.unclipped && a->speaks && command_has(a->command, "max-grad-norm") && !is_typed(a, "max-grad-norm") &&
        !settings_find(&a->read, SETTINGS_TRAIN, "max-grad-norm"))
        yk__cli_usage(a->command, "%s has no gradient_clipping: gradients are clipped at norm 1, as DeepSpeed does by now; DeepSpeed 0.18 "
                      "did not clip (gradient_clipping or --max-grad-norm says which)", a->read.unclipped);
    for (size_t i = 0; i < a->read.items && n < sizeof text - 100; i++)
        if (a->read.item[i].fate == SETTINGS_IDLE)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", n ? ", " : "", a->read.item[i].path);
    if (n && a->speaks)
        yk__cli_usage(a->command, "not needed here: %s (yoke config --dry-run --config-file FILE says why)", text);
}

/* True if a setting of training, in any spelling of it, is an option of the command; a switch may be turned off. */
static bool command_takes(const yk__cli_command *c, const settings_option *o)
{
    bool valued = false;
    const char *name = o->name + (!o->value && !strncmp(o->name, "no-", 3) && !command_has(c, o->name) ? 3 : 0);
    const int k = option_of(yk__train_command, name, strlen(name), &valued);
    const char *ours = k < 0 ? name : yk__train_command->options[k].name;
    return yk__cli_find(c, ours, strcspn(ours, "|")) >= 0;
}

static void options_apply(applier *a)
{
    const bool launches = command_launches(a->command);
    for (size_t i = 0; i < a->read.options; i++) {
        const settings_option *o = &a->read.option[i];
        if (o->scope == SETTINGS_ENV)
            variable_apply(a, o);
        else if (o->scope == SETTINGS_LAUNCH)
            (launches ? option_apply : place_apply)(a, o);
        else if (launches ? a->program && !strcmp(o->name, "precision") /* which it hands on */ : command_takes(a->command, o))
            option_apply(a, o);
    }
}

static void applier_find_program(applier *a, int end, int argc, char **argv)
{
    const int at = end < argc && !strcmp(argv[end], "--") ? end + 1 : end;
    const char *slash = at < argc ? strrchr(argv[at], '/') : NULL, *name = slash ? slash + 1 : at < argc ? argv[at] : NULL;
    if (!name || !command_launches(a->command) ||
        (!strcmp(name, "yoke") && at + 1 < argc &&
         yk__cli_is_named("train|eval|predict|estimate-memory", argv[at + 1], strlen(argv[at + 1]))))
        return;
    a->program = name;
}

/* A setting of training that has no target. */
static bool option_is_other(const applier *a, const settings_option *o)
{
    if (o->scope != SETTINGS_TRAIN)
        return false;
    if (command_launches(a->command))
        return a->program && strcmp(o->name, "precision") != 0;
    return strcmp(o->name, SETTINGS_ROWS) ? !command_takes(a->command, o) : !command_has(a->command, "optim");
}

/* Reports settings of training that have no target: the program of yoke launch has its own, and yoke eval has few. */
static void say_other(applier *a)
{
    const bool launches = command_launches(a->command);
    char text[600] = "";
    size_t n = 0;
    for (size_t i = 0; i < a->read.options && n < sizeof text - 80; i++) {
        const settings_option *o = &a->read.option[i];
        if (!option_is_other(a, o))
            continue;
        if (strcmp(o->name, SETTINGS_ROWS) && !o->preset)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s--%s", n ? ", " : "", o->name);
        if (a->dry)
            settings_drop(&a->read, o, "this command does not train");
    }
    if (n && !launches && a->speaks)
        yk__cli_usage(a->command, "settings of training have no effect here: %s", text);
    else if (n && launches)
        yk__cli_usage(a->command, "%s has settings of yoke train, which %s makes by itself: %s", a->given[0], a->program, text);
}

/* Passes the file on to a yoke train after yoke launch, which reads the same file. */
static void hand_on(const applier *a)
{
    char path[PATH_MAX];
    if (!command_launches(a->command))
        unsetenv("YOKE_CONFIG_FILE"); /* the ranks get options */
    else if (a->given[0] && realpath(a->given[0], path))
        setenv("YOKE_CONFIG_FILE", path, 1);
    else if (a->given[0])
        setenv("YOKE_CONFIG_FILE", "none", 1);
}

/* Takes the arguments in front of a program or "--"; returns the index of their end. */
static int applier_scan(applier *a, int argc, char **argv)
{
    int i = 1;
    while (i < argc && strcmp(argv[i], "--") && !(a->command->rest && argv[i][0] != '-')) {
        if (argv[i][0] == '-' && argv[i][1])
            applier_take(a, argc, argv, &i);
        else
            a->out[a->count++] = argv[i];
        i++;
    }
    return i;
}

/* Which rank this process is, and of how many, under any launcher. */
static void applier_find_rank(applier *a)
{
    const char *rank = getenv("YOKE_RANK");
    yk_error unknown = YK_ERROR_INIT;
    yk__origin origin = {0};
    a->rank = getenv("YOKE_JOB_FD") || getenv("YOKE_NODE_FD") || rank;
    a->speaks = !rank || !strcmp(rank, "0");
    if (yk__origin_find(&origin, &unknown) || origin.kind == YK__ORIGIN_SINGLE || origin.kind == YK__ORIGIN_LAUNCH)
        return;
    a->rank = true;
    a->speaks = origin.rank == 0;
    a->read.ranks = origin.size;
}

static void applier_take_default(applier *a)
{
    a->given[0] = file_default(a->command);
    if (a->given[0] && a->speaks && !yk__option_text(YK__OPTION_CONFIG_FILE))
        yk__cli_usage(a->command, "settings of %s (--config-file none leaves them out)", a->given[0]);
}

/* Help needs no file, and shows even if the file is wrong. */
static bool asks_for_help(int end, char **argv)
{
    static const char *const asks[] = {"--help", "-h", "--man", "--options"};
    for (int i = 1; i < end; i++)
        for (size_t k = 0; k < sizeof asks / sizeof asks[0]; k++)
            if (!strcmp(argv[i], asks[k]))
                return true;
    return false;
}

/* Reports wrong arguments beside a file's faults: typed ones, then the program. */
static void others_complain(const applier *a, char *const *typed, int kept, int end, int argc, char **argv)
{
    char **rest = calloc((size_t)kept + (size_t)(argc - end) + 2, sizeof *rest);
    if (!rest || !a->speaks) {
        free(rest);
        return;
    }
    rest[0] = argv[0];
    memcpy(rest + 1, typed, (size_t)kept * sizeof *rest);
    memcpy(rest + 1 + kept, argv + end, (size_t)(argc - end) * sizeof *rest);
    yk__spell_complain(a->command, 1 + kept + argc - end, rest);
    free(rest);
}

/* The files' options, the typed arguments, and those from `end` on, of *argc (updated) words; NULL without memory. */
static char **applier_join(applier *a, char *const *typed, int kept, int end, int *argc, char **argv)
{
    char **all = calloc((size_t)*argc + a->read.options + 3, sizeof *all); /* until the process ends, with its words */
    if (!all)
        return NULL;
    a->out = all, a->count = 0;
    all[a->count++] = argv[0];
    options_apply(a);
    memcpy(all + a->count, typed, (size_t)kept * sizeof *all);
    memcpy(all + a->count + kept, argv + end, (size_t)(*argc - end) * sizeof *all);
    *argc = a->count + kept + *argc - end;
    return all;
}

/* Frees what applier_join made, if no command runs with it: the options of files stand between argv[0] and the typed words. */
static void joined_free(const applier *a, char **joined)
{
    for (int i = 1; joined && i < (int)a->count; i++)
        yk__free(joined[i]);
    free(joined);
}

char **settings_apply(const settings_job *job, int *argc, char **argv, int *code)
{
    const yk__cli_command *command = job->command;
    applier a = {.command = command, .read.command = command};
    static char **list; /* the result; static, as nothing frees it */
    const int given = *argc;
    bool decided = false;
    char **typed = calloc((size_t)given + 2, sizeof *typed), **joined = NULL;
    int end, kept;
    *code = YK_EXIT_USAGE;
    if (!typed) {
        yk__cli_usage(command, "out of memory");
        return NULL;
    }
    applier_find_rank(&a);
    a.out = typed;
    end = applier_scan(&a, *argc, argv);
    kept = a.count;
    applier_find_program(&a, end, *argc, argv);
    if (asks_for_help(end, argv)) {
        free(typed);
        return argv;
    }
    if (!a.given[0])
        applier_take_default(&a);
    applier_read(&a);
    if (!command_launches(command))
        ranks_check(&a);
    pipe_check(&a);
    if (command_has(command, "optim") && !a.dry)
        later_refuse(&a);
    if (!a.read.messages && !a.read.err.status) {
        list = joined = applier_join(&a, typed, kept, end, argc, argv);
        say_other(&a);
        if (!a.dry)
            say_idle(&a);
        else if (list && a.read.files)
            decided = settings_decide(&a.read, job, *argc, list);
        hand_on(&a);
    }
    if (a.dry && a.speaks && a.read.files)
        settings_show(&a.read, stdout);
    fflush(stdout);
    if (a.read.messages || a.read.err.status) {
        settings_complain(&a.read, command);
        if (!decided)
            others_complain(&a, typed, kept, end, given, argv);
        list = NULL;
    }
    if (list && a.dry && !command_launches(command)) {
        list = NULL;
        *code = a.read.files ? YK_EXIT_OK
                             : yk__cli_usage(command, "--dry-run shows the fate of each key of a file of settings: expected such a file "
                                             "(--config-file, --deepspeed)");
    }
    if (!list)
        joined_free(&a, joined);
    free(typed);
    settings_free(&a.read);
    return list;
}
