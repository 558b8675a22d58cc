/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Command lines of yoke and yoke-cts: parses arguments by the command's table of options, prints help and manual page from it, and reads
 * values. Each command calls it first, in the main thread. A wrong value is an error with the option's name and the expectation.
 */
#include "config.h"

#include "tools/cli.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "core/base/number.h"
#include "core/base/word.h"
#include "core/io/utf8.h"

char yk__cli_separator(const yk__cli_command *command)
{
    return command->own_program ? '-' : ' ';
}

/* Options that nobody has typed. */
static struct {
    char *name, *from; /* until the process ends */
} filed[YK_CLI_OPTIONS];
static size_t filed_count;

void yk__cli_note_file(const char *name, const char *from)
{
    if (filed_count == YK_CLI_OPTIONS)
        return;
    filed[filed_count].name = strdup(name);
    filed[filed_count].from = strdup(from);
    filed_count += filed[filed_count].name && filed[filed_count].from;
}

bool yk__cli_occurs(const char *text, const char *name)
{
    const size_t n = strlen(name);
    for (const char *at = strstr(text, "--"); at; at = strstr(at + 2, "--"))
        if (!strncmp(at + 2, name, n) && !isalnum((unsigned char)at[n + 2]) && at[n + 2] != '-' && at[n + 2] != '_')
            return true;
    return false;
}

static yk__cli_ear diverted;
static void *diverted_context;

void yk__cli_divert(yk__cli_ear ear, void *context)
{
    diverted = ear;
    diverted_context = context;
}

/* filed: the origin of options that nobody has typed stands behind the message. */
__attribute__((format(printf, 3, 0))) static int usage_print(const yk__cli_command *command, bool filed_too, const char *fmt, va_list ap)
{
    char *text = NULL;
    const int n = vasprintf(&text, fmt, ap);
    if (diverted) {
        diverted(diverted_context, n < 0 ? "out of memory" : text, !filed_too);
        if (n >= 0)
            free(text);
        return YK_EXIT_USAGE;
    }
    fprintf(stderr, "yoke%c%s: %s", yk__cli_separator(command), command->name, n < 0 ? "out of memory" : text);
    for (size_t i = 0; n >= 0 && filed_too && i < filed_count; i++)
        if (yk__cli_occurs(text, filed[i].name))
            fprintf(stderr, " [--%s: %s]", filed[i].name, filed[i].from);
    fputc('\n', stderr);
    if (n >= 0)
        free(text);
    return YK_EXIT_USAGE;
}

int yk__cli_usage(const yk__cli_command *command, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const int code = usage_print(command, true, fmt, ap);
    va_end(ap);
    return code;
}

/* Of an option that the user typed: options in its text are advice, whose origin explains nothing. */
__attribute__((format(printf, 2, 3))) static int usage_advise(const yk__cli_command *command, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const int code = usage_print(command, false, fmt, ap);
    va_end(ap);
    return code;
}

const char yk__cli_refused[] = "refused";

bool yk__cli_is_refused(const yk__cli_option *o)
{
    return o->arg == yk__cli_refused;
}

bool yk__cli_takes_value(const yk__cli_option *o)
{
    return yk__cli_is_refused(o) ? o->preset != NULL : o->arg != NULL;
}

int yk__cli_values(const yk__cli_option *o)
{
    int n = yk__cli_takes_value(o);
    for (const char *gap = n ? strchr(yk__cli_is_refused(o) ? o->preset : o->arg, ' ') : NULL; gap; gap = strchr(gap + 1, ' '))
        n++;
    return n;
}

/* Length of the name that help shows: the first. */
static int name_length(const yk__cli_option *o)
{
    return (int)strcspn(o->name, "|");
}

/* A refused option under its first name, as there are many. */
static void print_option(const yk__cli_option *o)
{
    const bool refused = yk__cli_is_refused(o), valued = o->arg && !refused;
    char left[160];
    size_t n = (size_t)snprintf(left, sizeof left, "--%.*s", name_length(o), o->name);
    for (const char *name = o->name + name_length(o); *name && !refused && n < sizeof left; name += strcspn(name + 1, "|") + 1)
        n += (size_t)snprintf(left + n, sizeof left - n, ", --%.*s", (int)strcspn(name + 1, "|"), name + 1);
    if (n < sizeof left)
        snprintf(left + n, sizeof left - n, "%s%s", valued ? " " : "", valued ? o->arg : "");
    printf("  %-36s %s", left, o->help);
    if (o->preset && !yk__cli_is_refused(o))
        printf(" (default: %s)", o->preset);
    if (o->env && !refused)
        printf(" [%s]", o->env);
    putchar('\n');
}

/* Prints the accepted options, or the refused ones. */
static void print_options(const yk__cli_command *c, bool refused, void (*print)(const yk__cli_option *o))
{
    int n = 0;
    for (size_t i = 0; i < c->n_options; i++)
        if (yk__cli_is_refused(&c->options[i]) == refused) {
            if (refused && !n)
                printf(print == print_option ? "\nRefused, with the reason (options of other programs):\n"
                                             : ".SH REFUSED OPTIONS\nKnown from other programs:\n");
            print(&c->options[i]);
            n++;
        }
}

enum { WIDTH = 100, FOLDED = 80 };

/* Prints text in lines of at most WIDTH columns, broken at blanks. A line end of the text after at most FOLDED columns stays, as it ends
 * a list or paragraph. A later one is only a fold in the source's string, and counts as a blank. */
static void print_wrapped(const char *s)
{
    const char *begin = s; /* begin of the source's line */
    size_t column = 0;
    for (;;) {
        const size_t n = strcspn(s, " \n");
        const bool ends = s[n] == '\n' && (s + n - begin <= FOLDED || s[n + 1] == '\n');
        column += (size_t)printf("%.*s", (int)n, s);
        if (!s[n])
            break;
        begin = s[n] == '\n' ? s + n + 1 : begin;
        s += n + 1;
        if (ends || column + 1 + strcspn(s, " \n") > WIDTH)
            column = (size_t)printf("\n") - 1;
        else
            column += (size_t)printf(" ");
    }
    putchar('\n');
}

/* Calls print for each name of a row: its dashes, its length and the row. A row with our own name only maps a value. */
static void each_spelling(const yk__cli_command *c, bool idle, void (*print)(const char *name, const yk__cli_spelling *row))
{
    char dashed[96];
    for (size_t i = 0; i < c->n_spellings; i++) {
        const yk__cli_spelling *row = &c->spellings[i];
        if (idle != !row->ours || (row->ours && !strcmp(row->ours, row->name)))
            continue;
        for (const char *name = row->name; *name; name += name[0] == '|') {
            const size_t n = strcspn(name, "|");
            snprintf(dashed, sizeof dashed, "%s%.*s", n > 1 ? "--" : "-", (int)n, name);
            print(dashed, row);
            name += n;
        }
    }
}

static void print_spelling(const char *name, const yk__cli_spelling *row)
{
    char left[128];
    snprintf(left, sizeof left, "%s%s%s", name, row->arg ? " " : "", row->arg ? row->arg : "");
    printf("  %-36s %s%s%s%s\n", left, row->ours ? "--" : "", row->ours ? row->ours : "", row->ours && row->why ? "; it " : "",
           row->why ? row->why : "");
}

static void print_spellings(const yk__cli_command *c)
{
    if (!c->n_spellings)
        return;
    printf("\nNames of other programs, and the options that they stand for:\n");
    each_spelling(c, false, print_spelling);
    bool idle = false;
    for (size_t i = 0; i < c->n_spellings; i++)
        idle = idle || !c->spellings[i].ours;
    if (idle)
        printf("\nOptions of other programs that change nothing here, with the reason (a line says so):\n");
    each_spelling(c, true, print_spelling);
}

static int print_help(const yk__cli_command *c)
{
    printf("usage: yoke%c%s %s\n\n%s\n", yk__cli_separator(c), c->name, c->usage, c->summary);
    if (c->text) {
        putchar('\n');
        print_wrapped(c->text);
    }
    printf("\nOptions:\n");
    print_options(c, false, print_option);
    printf("  %-36s %s\n", "--help", "this text");
    print_spellings(c);
    print_options(c, true, print_option);
    printf("\nExit code: 0 done, 1 failed, 2 bad input or usage%s%s.\n", c->exits ? ", " : "", c->exits ? c->exits : "");
    return YK_EXIT_OK;
}

/* Text for troff: backslashes and leading dots must not act. */
static void print_roff(const char *s)
{
    bool start = true;
    for (; *s; s++) {
        if (start && (*s == '.' || *s == '\''))
            fputs("\\&", stdout);
        if (*s == '\\')
            fputs("\\e", stdout);
        else if (*s == '-')
            fputs("\\-", stdout);
        else if (*s == '\n' && s[1] == '\n')
            fputs("\n.PP", stdout);
        else
            putchar(*s);
        start = *s == '\n';
    }
}

static void print_man_option(const yk__cli_option *o)
{
    printf(".TP\n.B ");
    for (const char *name = o->name; *name;) {
        const size_t n = strcspn(name, "|");
        char dashed[96];
        snprintf(dashed, sizeof dashed, "--%.*s", (int)n, name);
        print_roff(dashed);
        name += n + (name[n] == '|');
        printf(*name ? ", " : "");
    }
    if (o->arg && !yk__cli_is_refused(o))
        printf(" \\fI%s\\fR", o->arg);
    putchar('\n');
    print_roff(o->help);
    if (o->preset && !yk__cli_is_refused(o))
        printf("\nDefault: %s.", o->preset);
    if (o->env && !yk__cli_is_refused(o))
        printf("\nAlso from the environment: %s.", o->env);
    putchar('\n');
}

static void print_man_spelling(const char *name, const yk__cli_spelling *row)
{
    printf(".TP\n.B ");
    print_roff(name);
    if (row->arg)
        printf(" \\fI%s\\fR", row->arg);
    printf("\n%s", row->ours ? "\\-\\-" : "");
    print_roff(row->ours ? row->ours : row->why);
    printf("%s", row->ours && row->why ? "; it " : "");
    print_roff(row->ours && row->why ? row->why : "");
    putchar('\n');
}

static void print_man_spellings(const yk__cli_command *c)
{
    if (!c->n_spellings)
        return;
    printf(".SH NAMES OF OTHER PROGRAMS\nThey stand for these options.\n");
    each_spelling(c, false, print_man_spelling);
    printf(".SH OPTIONS WITHOUT EFFECT\nThese options of other programs change nothing here, and a line says so.\n");
    each_spelling(c, true, print_man_spelling);
}

/* man yoke-plugin shows the guide of those who write one, yoke-plugin(7), which a page of section 1 would hide. */
const char *yk__cli_page(const char *command)
{
    return strcmp(command, "plugin") ? command : "plugin-list";
}

static int print_man(const yk__cli_command *c)
{
    printf(".TH YOKE-%s 1\n.SH NAME\nyoke-%s \\- %s\n.SH SYNOPSIS\n.B yoke%c%s\n", yk__cli_page(c->name), yk__cli_page(c->name), c->summary,
           yk__cli_separator(c), c->name);
    print_roff(c->usage);
    printf("\n.SH DESCRIPTION\n");
    print_roff(c->text ? c->text : c->summary);
    printf("\n.SH OPTIONS\n");
    print_options(c, false, print_man_option);
    print_man_spellings(c);
    print_options(c, true, print_man_option);
    printf(".SH EXIT STATUS\n0 done, 1 failed, 2 bad input or usage%s%s.\n.SH SEE ALSO\n.BR yoke (1)\n", c->exits ? ", " : "",
           c->exits ? c->exits : "");
    return YK_EXIT_OK;
}

static void print_name(const char *name, size_t n, const char *value)
{
    printf("--%.*s %s\n", (int)n, name, value ? value : "-");
}

/* For completion: each name with its dashes, then "-" for a switch or the name of its value. */
static int print_names(const yk__cli_command *c)
{
    for (size_t i = 0; i < c->n_options; i++) {
        const yk__cli_option *o = &c->options[i];
        for (const char *name = yk__cli_is_refused(o) ? "" : o->name; *name; name += name[0] == '|') {
            const size_t n = strcspn(name, "|");
            print_name(name, n, o->arg);
            name += n;
        }
    }
    for (size_t i = 0; i < c->n_spellings; i++)
        for (const char *name = c->spellings[i].name; *name; name += name[0] == '|') {
            const size_t n = strcspn(name, "|");
            if (n > 1 && yk__cli_find(c, name, n) < 0)
                print_name(name, n, c->spellings[i].arg);
            name += n;
        }
    printf("--help -\n");
    return YK_EXIT_OK;
}

/* True if `name`, of n characters, is one of the names of a list; '_' stands for '-'. */
bool yk__cli_is_named(const char *list, const char *name, size_t n)
{
    for (; *list; list += list[0] == '|') {
        const size_t length = strcspn(list, "|");
        size_t same = 0;
        while (same < length && same < n && (name[same] == '_' ? '-' : name[same]) == list[same])
            same++;
        if (same == length && length == n)
            return true;
        list += length;
    }
    return false;
}

int yk__cli_find(const yk__cli_command *c, const char *name, size_t n)
{
    for (size_t i = 0; i < c->n_options; i++)
        if (yk__cli_is_named(c->options[i].name, name, n))
            return (int)i;
    return -1;
}

bool yk__cli_is_option(const yk__cli_command *c, const char *word)
{
    const size_t n = word && !strncmp(word, "--", 2) ? strcspn(word + 2, "=") : 0;
    bool known = n && yk__cli_find(c, word + 2, n) >= 0;
    for (size_t i = 0; n && !known && i < c->n_spellings; i++)
        known = yk__cli_is_named(c->spellings[i].name, word + 2, n);
    return known;
}

static void skip_value(const yk__cli_command *c, bool valued, const char *next, int *i)
{
    *i += yk__cli_is_value(c, valued, next);
}

int yk__cli_truth(const char *s)
{
    static const char *const words[] = {"false", "no", "f", "n", "0", "off", "true", "yes", "t", "y", "1", "on"};
    for (int i = 0; s && i < 12; i++)
        if (!strcasecmp(s, words[i]))
            return i >= 6;
    return -1;
}

/* A switch: its value after "=", or the next argument if that is a truth value and no other argument is expected. */
static int parse_switch(const yk__cli_command *c, int k, const char *value, const char *next, int *i, yk__cli *cli)
{
    const int truth = value ? yk__cli_truth(value) : c->most == 0 ? yk__cli_truth(next) : -1;
    if (value && truth < 0)
        return yk__cli_usage(c, "--%.*s takes no value but true or false, but \"%s\" was given", name_length(&c->options[k]),
                             c->options[k].name, value);
    *i += !value && truth >= 0;
    cli->value[k] = truth == 0 ? NULL : "";
    return -1;
}

bool yk__cli_asks_nothing(const yk__cli_option *o, const char *given)
{
    return !*given || yk__cli_truth(given) == 0 || !strcasecmp(given, "none") ||
           (o->env && yk__word_find(o->env, given, strlen(given)) >= 0);
}

/* An option of other programs. Turned off, it has no effect. */
static int parse_refused(const yk__cli_command *c, int k, const char *name, int argc, char **argv, int *i)
{
    const char *eq = strchr(name, '='), *given = eq ? eq + 1 : *i + 1 < argc ? argv[*i + 1] : NULL;
    const int values = yk__cli_values(&c->options[k]);
    if (given && yk__cli_asks_nothing(&c->options[k], given)) {
        *i += !eq;
        return -1;
    }
    for (int v = eq != NULL; v < (values ? values : 1); v++)
        skip_value(c, values > 0, *i + 1 < argc ? argv[*i + 1] : NULL, i);
    return usage_advise(c, "--%.*s: %s", (int)strcspn(name, "="), name, c->options[k].help);
}

/* "--no-NAME" of a switch. */
static int find_negated(const yk__cli_command *c, const char *name, size_t n)
{
    const bool negated = n > 3 && (!strncmp(name, "no-", 3) || !strncmp(name, "no_", 3));
    const int k = negated ? yk__cli_find(c, name + 3, n - 3) : -1;
    return k >= 0 && (!c->options[k].arg || yk__cli_is_refused(&c->options[k])) ? k : -1;
}

/* One "--name[=value]"; *i moves on over a value in the next argument. -1: fine. */
static int parse_option(const yk__cli_command *c, int argc, char **argv, int *i, yk__cli *cli)
{
    const char *name = argv[*i] + 2, *eq = strchr(name, '='), *next = *i + 1 < argc ? argv[*i + 1] : NULL;
    const size_t n = eq ? (size_t)(eq - name) : strlen(name);
    const int off = eq ? -1 : find_negated(c, name, n);
    const int k = yk__cli_find(c, name, n);
    if (k < 0 && off < 0) {
        skip_value(c, yk__cli_refuse(c, argv[*i]), eq ? NULL : next, i);
        return YK_EXIT_USAGE;
    }
    cli->given[k < 0 ? off : k] = cli->typed[k < 0 ? off : k] = true;
    if (k < 0) {
        cli->value[off] = NULL;
        return -1;
    }
    if (yk__cli_is_refused(&c->options[k]))
        return parse_refused(c, k, name, argc, argv, i);
    if (!c->options[k].arg)
        return parse_switch(c, k, eq ? eq + 1 : NULL, next, i, cli);
    if (!eq && !next)
        return yk__cli_usage(c, "--%.*s needs a value: %s", name_length(&c->options[k]), c->options[k].name, c->options[k].arg);
    if (!eq && yk__cli_is_option(c, next))
        return yk__cli_usage(c, "--%.*s needs a value: %s, and %s stands there", name_length(&c->options[k]), c->options[k].name,
                             c->options[k].arg, next);
    cli->value[k] = eq ? eq + 1 : argv[++*i];
    return -1;
}

static void take_presets(const yk__cli_command *c, yk__cli *cli)
{
    memset(cli, 0, sizeof *cli);
    cli->command = c;
    for (size_t i = 0; i < c->n_options; i++) {
        const bool refused = yk__cli_is_refused(&c->options[i]);
        const char *env = c->options[i].env && !refused ? getenv(c->options[i].env) : NULL;
        cli->value[i] = env && *env ? env : refused ? NULL : c->options[i].preset;
        cli->given[i] = env && *env;
    }
}

/* The option before which an argument without one belongs, by the file's name; NULL if the command has none such. */
static const char *option_of(const yk__cli_command *c, const char *argument)
{
    static const struct {
        const char *ending, *option;
    } files[] = {{".yaml", "config-file"}, {".yml", "config-file"}, {".json", "config-file"}, {".csv", "data"}, {".tsv", "data"},
                 {".jsonl", "data"}, {".txt", "data"}};
    const char *dot = strrchr(argument, '.'), *found = NULL;
    char path[4096];
    for (size_t i = 0; dot && i < sizeof files / sizeof files[0]; i++)
        if (!strcmp(dot, files[i].ending))
            found = files[i].option;
    snprintf(path, sizeof path, "%s/config.json", argument);
    if (!access(path, F_OK))
        found = "from";
    return found && yk__cli_find(c, found, strlen(found)) >= 0 ? found : NULL;
}

/* Each argument that is one too many. */
static int refuse_positional(const yk__cli_command *c, const yk__cli *cli)
{
    for (int i = c->most; i < cli->n_positional; i++) {
        const char *argument = cli->positional[i], *option = option_of(c, argument);
        if (option)
            yk__cli_usage(c, "unexpected argument \"%s\": %s stands behind --%s", argument,
                          !strcmp(option, "config-file") ? "a file of settings" : !strcmp(option, "data") ? "a file of data"
                                                                                                        : "a model's folder", option);
        else
            yk__cli_usage(c, "unexpected argument \"%s\"; usage: yoke%c%s %s", argument, yk__cli_separator(c), c->name, c->usage);
    }
    return YK_EXIT_USAGE;
}

/* The positional arguments, once all are known. -1: fine. */
static int check_positional(const yk__cli_command *c, yk__cli *cli)
{
    if (cli->wrong)
        return YK_EXIT_USAGE;
    if (cli->n_positional < c->least)
        return yk__cli_usage(c, "an argument is missing; usage: yoke%c%s %s", yk__cli_separator(c), c->name, c->usage);
    if (c->most >= 0 && cli->n_positional > c->most)
        return refuse_positional(c, cli);
    cli->positional[cli->n_positional] = NULL; /* there is room: the list began where the command's name was */
    return -1;
}

int yk__cli_parse(const yk__cli_command *c, int argc, char **argv, yk__cli *cli)
{
    bool only_positional = false;
    take_presets(c, cli);
    cli->positional = argv; /* positional arguments are moved to the front, over read ones */
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i];
        if (only_positional || a[0] != '-' || !a[1]) {
            cli->positional[cli->n_positional++] = argv[i];
            only_positional = only_positional || c->rest;
        } else if (!strcmp(a, "--help") || !strcmp(a, "-h"))
            return print_help(c);
        else if (!strcmp(a, "--man"))
            return print_man(c);
        else if (!strcmp(a, "--options"))
            return print_names(c);
        else if (!strcmp(a, "--"))
            only_positional = true;
        else if (a[1] != '-') {
            const char *next = i + 1 < argc && !strchr(a, '=') ? argv[i + 1] : NULL;
            skip_value(c, yk__cli_refuse(c, a), next, &i);
            cli->wrong = true;
        } else if (parse_option(c, argc, argv, &i, cli) >= 0)
            cli->wrong = true;
    }
    return check_positional(c, cli);
}

static int option_number(const yk__cli *cli, const char *name)
{
    return yk__cli_find(cli->command, name, strlen(name));
}

const char *yk__cli_text(const yk__cli *cli, const char *name)
{
    int k = option_number(cli, name);
    return k < 0 ? NULL : cli->value[k];
}

bool yk__cli_on(const yk__cli *cli, const char *name)
{
    return yk__cli_text(cli, name) != NULL;
}

bool yk__cli_given(const yk__cli *cli, const char *name)
{
    int k = option_number(cli, name);
    return k >= 0 && cli->given[k];
}

bool yk__cli_typed(const yk__cli *cli, const char *name)
{
    int k = option_number(cli, name);
    return k >= 0 && cli->typed[k];
}

int64_t yk__cli_int(const yk__cli *cli, const char *name, int64_t least, int64_t most, bool *bad)
{
    const char *s = yk__cli_text(cli, name);
    char *end;
    long long v;
    if (!s)
        return 0;
    errno = 0;
    v = strtoll(s, &end, 10);
    if (errno || !*s || *end || v < least || v > most) {
        yk__cli_usage(cli->command, "--%s %s: expected a whole number from %lld to %lld", name, s, (long long)least,
                      (long long)most);
        *bad = true;
        return least;
    }
    return v;
}

double yk__cli_real(const yk__cli *cli, const char *name, double least, double most, bool *bad)
{
    const char *s = yk__cli_text(cli, name);
    char *end;
    double v;
    if (!s)
        return 0;
    v = yk__number_read(s, &end);
    if (!*s || *end || !(v >= least && v <= most)) {
        yk__cli_usage(cli->command, "--%s %s: expected a number from %g to %g", name, s, least, most);
        *bad = true;
        return least;
    }
    return v;
}

int yk__cli_word(const yk__cli *cli, const char *name, const char *const *words, size_t n, bool *bad)
{
    const char *s = yk__cli_text(cli, name), *near;
    char list[512] = "";
    size_t used = 0;
    if (!s)
        return -1;
    for (size_t i = 0; i < n; i++) {
        int w;
        if (yk__word_is(words[i], strlen(words[i]), s, strlen(s)))
            return (int)i;
        w = snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", words[i]);
        used += w > 0 && used + (size_t)w < sizeof list ? (size_t)w : 0;
    }
    near = yk__nearest_word(s, words, n);
    yk__cli_usage(cli->command, "--%s %s: expected one of %s%s%s%s", name, s, list, near ? " (did you mean " : "",
                  near ? near : "", near ? "?)" : "");
    *bad = true;
    return -1;
}

int yk__cli_choice(const yk__cli *cli, const char *name, const char *list, bool *bad)
{
    const char *s = yk__cli_text(cli, name), *words[16];
    yk__word word[16];
    const int k = s ? yk__word_find(list, s, strlen(s)) : -1;
    size_t n = 0;
    for (; n < 16 && *(word[n] = yk__word_text(list, (int)n)).text; n++)
        words[n] = word[n].text;
    return !s || k >= 0 ? k : yk__cli_word(cli, name, words, n, bad);
}

bool yk__cli_same_value(const yk__cli_command *command, const char *name, const char *a, const char *b)
{
    const int k = yk__cli_find(command, name, strcspn(name, "|"));
    const char *arg = k < 0 ? NULL : command->options[k].arg;
    char *end[2];
    if (!strcmp(a, b) || !arg || (strcmp(arg, "N") && strcmp(arg, "R")))
        return !strcmp(a, b);
    const double v[] = {yk__number_read(a, &end[0]), yk__number_read(b, &end[1])};
    return v[0] == v[1] && *a && *b && !*end[0] && !*end[1];
}

void yk__cli_refuse_idle(const yk__cli *cli, const char *name, const char *why, bool *bad)
{
    const int k = option_number(cli, name);
    if (!yk__cli_typed(cli, name) || (!cli->command->options[k].arg && !cli->command->options[k].preset && !cli->value[k]))
        return;
    yk__cli_usage(cli->command, "--%s has no effect %s", name, why);
    *bad = true;
}

const char *yk__cli_close_file(FILE *f)
{
    int reason;
    bool failed;
    if (!f)
        return NULL;
    failed = ferror(f); /* set by an earlier write, whose errno is lost */
    errno = 0;
    reason = fflush(f) ? errno : 0;
    if (fclose(f) && !reason)
        reason = errno;
    return reason ? strerror(reason) : failed ? "a write failed (is the disk full?)" : NULL;
}

int yk__cli_close_output(const char *program, int code)
{
    const bool unused = __fpending(stdout) == 0 && !ferror(stdout); /* a program may start without one and not miss it */
    const char *reason = yk__cli_close_file(stdout);
    if (!reason || (unused && errno == EBADF))
        return code;
    fprintf(stderr, "%s: standard output is incomplete: %s\n", program, reason);
    return code ? code : YK_EXIT_FAILED;
}

void yk__json_write(FILE *f, const char *s)
{
    int length;
    fputc('"', f);
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            fprintf(f, "\\%c", *s);
        else if ((unsigned char)*s < 0x20 || *s == 0x7f)
            fprintf(f, "\\u%04x", (unsigned)*s);
        else if ((unsigned char)*s == 0xc2 && (unsigned char)s[1] >= 0x80 && (unsigned char)s[1] < 0xa0)
            fprintf(f, "\\u%04x", (unsigned)(unsigned char)*++s); /* U+0080 to U+009F */
        else if (yk__utf8_get(s, strnlen(s, 4), &length) < 0)
            fprintf(f, "\\ufffd"); /* no JSON has other bytes than UTF-8: a name of a file may */
        else {
            fwrite(s, 1, (size_t)length, f);
            s += length - 1;
        }
    }
    fputc('"', f);
}

void yk__json_text(const char *s)
{
    yk__json_write(stdout, s);
}
