/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands yoke info, yoke env and yoke plugin: the devices, plugins, transports and settings of this machine, and the reasons for the
 * choice. yoke.c calls them by its table of commands, in the main thread. yoke env lists every variable of core/base/option.h with its
 * origin. A plugin is asked in a child process, so that a driver that dies ends only that one.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

#include <jansson.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <utf8proc.h>
#include <zlib.h>

#ifdef HAVE_HWLOC
#include <hwloc.h>
#endif

#include "core/base/mem.h"
#include "core/base/option.h"
#include "core/base/option_names.h"
#include "core/base/process/cgroup.h"
#include "core/control/start/origin.h"
#include "core/device/device.h"
#include "core/device/module.h"
#include "core/device/transport_load.h"
#include "core/launch/asking.h"
#include "tools/cli.h"
#include "tools/plan/describe.h"
#include "tools/train/train.h"

#ifdef __GLIBC__
#define SYSTEM_LIBC gnu_get_libc_version()
#else
#define SYSTEM_LIBC "of another kind"
#endif

static const yk__cli_option options[] = {
    {"kinds", NULL, NULL, "only the names of the plugins that have devices here", NULL},
    {"gpus", NULL, NULL, "only the number of devices that are not the host's cores", NULL},
    {"env", NULL, NULL, "the environment variables that are read: value, where it is from, default, meaning", NULL},
    {"describe", NULL, NULL, "measure --devices, and print the file of them that yoke plan --device-file reads", NULL},
    {"devices", "SPECS", NULL, "of --describe; default: cpu", "YOKE_DEVICES"},
    {"precision", "P", "fp32", "of --describe: fp32, bf16, fp16 or fp8", NULL},
    {"json", NULL, NULL, "one JSON object", NULL},
};

static const yk__cli_command command = {
    .name = "info",
    .usage = "[--env|--describe] [--json]",
    .summary = "devices, plugins and libraries on this machine, and what was chosen and why",
    .text = "YOKE_PLUGIN_DIR names the folder of plugins (else it is the one beside the program, in a build tree or an installation\n"
            "that was moved, or that of the installation), YOKE_PLUGINS picks some of them by name or path, YOKE_CPU_ISA forces\n"
            "an instruction set of the CPU plugin, YOKE_DEVICES selects what a job runs on; --env lists those of the core.\n"
            "\n"
            "--describe runs short steps of small models on the devices, alone and together, and prints a JSON file for another\n"
            "machine: memory in bytes, and seconds for each operation, byte, element and node. Its \"count\" may be raised by hand.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
};

typedef struct survey {
    yk__plugin_info *plugin;
    uint32_t n_plugin;
    yk__topology *topology;
} survey;

static yk_status survey_take(survey *s, yk_error *err)
{
    if (yk__topology_new(&s->topology, err))
        return err->status;
    yk__plugins_silence(); /* the table has the reasons */
    return yk__plugin_list(&s->plugin, &s->n_plugin, err);
}

/* A device's capabilities, or the reason why it has none. */
static yk_status device_caps(const yk__plugin_info *p, uint32_t i, yk_device_caps *caps, yk_error *err)
{
    yk__plugin *plugin;
    *err = (yk_error)YK_ERROR_INIT;
    return yk__plugin_load(p->path, &plugin, err) ? err->status : yk__plugin_caps(plugin, i, caps, err);
}

static void print_dtypes(uint32_t mask, const char *separator, const char *quote)
{
    static const char *const names[] = {
#define X(e, number, name, st, bytes) [number] = name,
        YK_DTYPE_TABLE(X)
#undef X
    };
    bool first = true;
    for (uint32_t t = 0; t < YK_DTYPE_COUNT; t++)
        if (mask & 1u << t) {
            printf("%s%s%s%s", first ? "" : separator, quote, names[t], quote);
            first = false;
        }
}

static void libraries_each(void (*one)(const char *name, const char *version, int last))
{
    char zlib[32], pcre[64] = "";
    snprintf(zlib, sizeof zlib, "%s", zlibVersion());
    pcre2_config(PCRE2_CONFIG_VERSION, pcre);
#ifdef HAVE_HWLOC
    char hwloc[32];
    snprintf(hwloc, sizeof hwloc, "%d.%d", HWLOC_API_VERSION >> 16, HWLOC_API_VERSION >> 8 & 255);
    one("hwloc", hwloc, 0);
#else
    one("hwloc", "not built in (--with-hwloc)", 0);
#endif
    one("jansson", JANSSON_VERSION, 0);
    one("pcre2", pcre, 0);
    one("utf8proc", utf8proc_version(), 0);
    one("zlib", zlib, 1);
}

static void library_line(const char *name, const char *version, int last)
{
    printf("  %-10s %s\n", name, version);
    (void)last;
}

static void library_json(const char *name, const char *version, int last)
{
    printf("\"%s\": \"%s\"%s", name, version, last ? "" : ", ");
}

/* A processor behind an interface for other devices, such as OpenCL's PoCL. */
static bool is_second_processor(const yk_device_caps *c)
{
    return c->flags & YK_CAP_CPU && !(c->flags & YK_CAP_CORES);
}

/* True if a container's limit, not the machine, says the memory of this device (yk__device_cap_memory). */
static bool is_capped(const yk_device_caps *c)
{
    uint64_t limit, left;
    return c->flags & YK_CAP_CPU && yk__cgroup_memory(&limit, &left) && limit == c->mem_total;
}

static void print_plugin(const yk__plugin_info *p)
{
    printf("  %-10s %s, %u device%s  %s\n             %s\n", p->name, p->loaded ? p->version : "not used", p->devices,
           p->devices == 1 ? "" : "s", p->reason ? p->reason : "", p->path);
    for (uint32_t i = 0; p->loaded && i < p->devices; i++) {
        yk_device_caps c;
        yk_error err;
        if (device_caps(p, i, &c, &err)) {
            printf("    %s:%u  cannot be used: %s\n", p->name, i, err.text);
            continue;
        }
        printf("    %s:%u  %s%s%s, %u units, memory %.1f GiB%s, computes in ", p->name, i, c.name, c.isa[0] ? ", " : "", c.isa, c.units,
               (double)c.mem_total / 1073741824.0, is_capped(&c) ? ", limit of the cgroup" : "");
        print_dtypes(c.compute, " ", "");
        if (yk__product_bits(&c) < YK__F32_BITS)
            printf(" (products of f32 keep %u of 24 bits)", yk__product_bits(&c));
        printf("%s\n", is_second_processor(&c) ? " on the host's cores" : "");
    }
}

/* The way in which this process was started, and by which a program started likewise finds the other ranks. */
static void write_origin(char *text, size_t size)
{
    yk_error err = YK_ERROR_INIT;
    yk__origin origin;
    if (yk__origin_find(&origin, &err))
        snprintf(text, size, "refused: %s", err.text);
    else
        yk__origin_text(&origin, text, size);
}

static void origin_line(void)
{
    char text[YK_ERROR_TEXT + 16];
    write_origin(text, sizeof text);
    printf("started as: %s\n", text);
}

/* Appends the installed transports. The chosen one describes its way to other hosts, which can take a second to find. */
static void write_installed(char *text, size_t size, const char *chosen)
{
    char *names = yk__transport_names();
    for (char *name = names ? strtok(names, ", ") : NULL; name; name = strtok(NULL, ", ")) {
        char words[400] = "";
        const size_t used = strlen(text);
        if (chosen && !strcmp(name, chosen))
            yk__transport_describe(name, words, sizeof words);
        snprintf(text + used, size - used, *words ? ", %s (%s)" : ", %s", name, words);
    }
    yk__free(names);
}

/* The installed transports, and the one that a job would use. */
static void write_transports(char *text, size_t size)
{
    const char *chosen = yk__option_text(YK__OPTION_TRANSPORT);
    const bool choose = !chosen || !strcmp(chosen, "auto");
    snprintf(text, size, "shm, local");
    write_installed(text, size, chosen);
    const char *automatic = strstr(text, "sock") ? "shm among ranks of one host, sock where there are several"
                                                 : "shm among ranks of one host; none that reaches another host is installed";
    snprintf(text + strlen(text), size - strlen(text), choose ? "; %s" : "; %s, as YOKE_TRANSPORT says", choose ? automatic : chosen);
}

static void transport_line(void)
{
    char text[1600];
    write_transports(text, sizeof text);
    printf("transports: %s\n", text);
}

static void absence_line(const survey *s)
{
    if (!s->n_plugin)
        printf("  none in %s%s\n", yk__plugin_folder(), yk__plugin_folder_advice());
}

static void print_text(const survey *s)
{
    char *cores = yk__topology_core_list(s->topology);
    printf("yoke %s\ncores: %u (%s)\nplugins:\n", PACKAGE_VERSION, yk__topology_cores(s->topology), cores ? cores : "?");
    for (uint32_t i = 0; i < s->n_plugin; i++)
        print_plugin(&s->plugin[i]);
    absence_line(s);
    printf("libraries:\n");
    libraries_each(library_line);
    yk__free(cores);
    transport_line();
    origin_line();
}

static void print_device_json(const yk__plugin_info *p, uint32_t i)
{
    yk_device_caps c;
    yk_error err;
    if (device_caps(p, i, &c, &err)) {
        printf("%s{\"spec\": \"%s:%u\", \"error\": ", i ? ", " : "", p->name, i);
        yk__json_text(err.text);
        printf("}");
        return;
    }
    printf("%s{\"spec\": \"%s:%u\", \"name\": ", i ? ", " : "", p->name, i);
    yk__json_text(c.name);
    printf(", \"isa\": ");
    yk__json_text(c.isa);
    printf(", \"units\": %u, \"mem_total\": %llu, \"mem_free\": %llu, ", c.units, (unsigned long long)c.mem_total,
           (unsigned long long)c.mem_free);
    printf("\"mem_source\": \"%s\", \"compute\": [", is_capped(&c) ? "cgroup" : "device");
    print_dtypes(c.compute, ", ", "\"");
    printf("], \"product_bits\": %u}", yk__product_bits(&c));
}

/* Without the braces. */
static void print_members(const survey *s)
{
    char origin[YK_ERROR_TEXT + 16], transports[1600];
    printf("\"version\": \"%s\", \"cores\": %u, \"plugins\": [", PACKAGE_VERSION, yk__topology_cores(s->topology));
    for (uint32_t i = 0; i < s->n_plugin; i++) {
        const yk__plugin_info *p = &s->plugin[i];
        printf("%s{\"name\": ", i ? ", " : "");
        yk__json_text(p->name);
        printf(", \"path\": ");
        yk__json_text(p->path);
        printf(", \"loaded\": %s, \"reason\": ", p->loaded ? "true" : "false");
        yk__json_text(p->reason ? p->reason : "");
        printf(", \"devices\": [");
        for (uint32_t d = 0; p->loaded && d < p->devices; d++)
            print_device_json(p, d);
        printf("]}");
    }
    printf("], \"libraries\": {");
    libraries_each(library_json);
    printf("}, \"started_as\": ");
    write_origin(origin, sizeof origin);
    yk__json_text(origin);
    printf(", \"transports\": ");
    write_transports(transports, sizeof transports);
    yk__json_text(transports);
}

static void print_json(const survey *s)
{
    putchar('{');
    print_members(s);
    printf("}\n");
}

static void print_kinds(const survey *s)
{
    for (uint32_t i = 0; i < s->n_plugin; i++)
        if (s->plugin[i].loaded && s->plugin[i].devices)
            printf("%s\n", s->plugin[i].name);
}

static void print_gpus(const survey *s)
{
    uint32_t n = 0;
    yk_device_caps c;
    yk_error err;
    for (uint32_t i = 0; i < s->n_plugin; i++)
        for (uint32_t d = 0; s->plugin[i].loaded && d < s->plugin[i].devices; d++)
            n += !device_caps(&s->plugin[i], d, &c, &err) && !(c.flags & YK_CAP_CPU);
    printf("%u\n", n);
}

typedef struct survey_request {
    const yk__cli_command *command;
    void (*print)(const survey *s);
    bool refused_too; /* prints also where a variable of the environment is refused */
} survey_request;

static int survey_child(void *argument, int fd)
{
    const survey_request *request = argument;
    survey s = {0};
    yk_error err = YK_ERROR_INIT;
    char program[64];
    int code = YK_EXIT_OK;
    (void)fd;
    if ((!request->refused_too && yk__options_check(&err)) || survey_take(&s, &err)) {
        yk__cli_usage(request->command, "%s", err.text);
        code = err.status == YK_E_ARG || err.status == YK_E_ABI ? YK_EXIT_USAGE : YK_EXIT_FAILED;
    } else {
        request->print(&s);
        fflush(stdout); /* before drivers end */
    }
    yk__plugin_list_free(s.plugin, s.n_plugin);
    yk__topology_free(s.topology);
    yk__plugins_fini();
    snprintf(program, sizeof program, "yoke %s", request->command->name);
    return yk__cli_close_output(program, code);
}

/* Runs in a separate process, so that a plugin that ends it or hangs is named. */
static int survey_run(const yk__cli *cli, void (*print)(const survey *s), bool refused_too)
{
    survey_request request = {cli->command, print, refused_too};
    yk__asking asking;
    yk_error err = YK_ERROR_INIT;
    int code = YK_EXIT_FAILED;
    if (!yk__asking_start(&asking, survey_child, &request, &err)) {
        yk__asking_await(&asking, &err);
        yk__asking_end(&asking, &code, &err);
    }
    if (!err.status)
        return code;
    yk__cli_usage(cli->command, "%s", err.text);
    return YK_EXIT_FAILED;
}

/* ---- yoke info --env ------------------------------------------------------------------------------------------------ */

static void print_variable(const char *name, const char *value, const char *from, const char *preset, const char *help)
{
    printf("%-20s %-12s (%s%s%s)\n%20s %s\n", name, value && *value ? value : "-", from, preset ? "; default: " : "",
           !preset ? "" : *preset ? preset : "none", "", help);
}

/* The value of a variable outside the table; a secret is not shown. */
static const char *variable_shown(const char *name)
{
    static const char *const secrets[] = {"SECRET", "TOKEN", "PASSWORD", "KEY"};
    const char *value = getenv(name);
    for (size_t i = 0; i < sizeof secrets / sizeof secrets[0]; i++)
        if (value && *value && strstr(name, secrets[i]))
            return "(not shown)";
    return value;
}

static void print_unknown(const char *name, const char *nearest)
{
    char help[96];
    snprintf(help, sizeof help, "read by nobody%s%s%s", nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "?" : "");
    print_variable(name, variable_shown(name), "not known", NULL, help);
}

/* Variables of plugins that are set: which there are, only the plugins know. */
static void print_foreign(const char *plugins)
{
    for (char **variable = environ; *variable; variable++) {
        char name[128];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(*variable, "="), *variable);
        if (!strncmp(name, "YOKE_", 5) && yk__option_foreign(name, plugins))
            print_variable(name, variable_shown(name), "environment", NULL, "of a plugin, of Yoke's own tests, or of a Kubernetes service");
    }
}

/* Options of yoke env, and the variable that each has precedence over. */
static const struct {
    const char *name;
    yk__option variable;
} stand_ins[] = {
    {"devices", YK__OPTION_DEVICES},
    {"shares", YK__OPTION_SHARES},
    {"memory-limit", YK__OPTION_MEMORY_LIMIT},
    {"precision", YK__OPTION_ACCELERATE_PRECISION},
    {"gradient-accumulation-steps", YK__OPTION_ACCELERATE_ACCUMULATE},
};

/* A setting in force, and which of option, environment and default has said it. NULL for cli: no option can. */
static const char *setting_value(const yk__cli *cli, yk__option variable, const char **from)
{
    const char *set = yk__option_text(variable);
    for (size_t i = 0; cli && i < sizeof stand_ins / sizeof stand_ins[0]; i++)
        if (stand_ins[i].variable == variable && yk__cli_typed(cli, stand_ins[i].name)) {
            *from = "option";
            return yk__cli_text(cli, stand_ins[i].name);
        }
    *from = set ? "environment" : "default";
    if (!set && variable == YK__OPTION_DEVICES && yk__option_devices()) {
        *from = "environment, ACCELERATE_USE_CPU";
        return yk__option_devices();
    }
    return set ? set : yk__option_row_of(variable)->preset;
}

static void print_env_text(const yk__cli *cli, const char *plugins)
{
    for (yk__option i = 0; i < YK__OPTION_N; i++) {
        const yk__option_row *row = yk__option_row_of(i);
        const char *from, *value = setting_value(cli, i, &from);
        char *help = yk__format("%s%s%s%s (%s%s)", row->help, row->words ? ": " : "", row->words ? row->words : "",
                                row->kind == YK__OPTION_SIZE || row->kind == YK__OPTION_SIZES ? ", as 500K, 16M or 1.5G" : "",
                                strcmp(row->layer, "transport") && strcmp(row->layer, "tools") ? "core/" : "", row->layer);
        print_variable(row->name, value, from, strcmp(from, "default") ? row->preset : NULL, help ? help : row->help);
        yk__free(help);
    }
    print_foreign(plugins);
    yk__options_unknown(plugins, print_unknown);
}

static void print_setting_json(const char *name, const char *value, const char *from, const char *preset, const char *help)
{
    printf("{\"name\": ");
    yk__json_text(name);
    printf(", \"value\": ");
    yk__json_text(value ? value : "");
    printf(", \"from\": \"%s\", \"default\": \"%s\", \"help\": ", from, preset);
    yk__json_text(help);
    putchar('}');
}

static void print_unknown_json(const char *name, const char *nearest)
{
    char help[96];
    snprintf(help, sizeof help, "read by nobody%s%s%s", nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "?" : "");
    printf(", ");
    print_setting_json(name, variable_shown(name), "not known", "", help);
}

static void print_env_json(const yk__cli *cli, const char *plugins)
{
    printf("\"environment\": [");
    for (yk__option i = 0; i < YK__OPTION_N; i++) {
        const char *from, *value = setting_value(cli, i, &from);
        printf("%s", i ? ", " : "");
        print_setting_json(yk__option_row_of(i)->name, value, from, yk__option_row_of(i)->preset, yk__option_row_of(i)->help);
    }
    for (char **variable = environ; *variable; variable++) {
        char name[128];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(*variable, "="), *variable);
        if (strncmp(name, "YOKE_", 5) || !yk__option_foreign(name, plugins))
            continue;
        printf(", ");
        print_setting_json(name, variable_shown(name), "environment", "", "of a plugin, of Yoke's own tests, or of a Kubernetes service");
    }
    yk__options_unknown(plugins, print_unknown_json);
    printf("]");
}

static int run_env(bool json)
{
    yk_error err = YK_ERROR_INIT;
    char *plugins = yk__plugin_owners();
    printf(json ? "{" : "");
    json ? print_env_json(NULL, plugins) : print_env_text(NULL, plugins);
    printf(json ? "}\n" : "");
    yk__free(plugins);
    return yk__options_check(&err) ? yk__cli_usage(&command, "%s", err.text) : YK_EXIT_OK;
}

/* Measures the devices anew, and prints their file. */
static int run_describe(const yk__cli *cli, char *program)
{
    static const char *const formats[] = {"fp32", "bf16", "fp16", "fp8"};
    bool bad = false;
    const int k = yk__cli_word(cli, "precision", formats, 4, &bad);
    yk_error err = YK_ERROR_INIT;
    devices d;
    if (bad)
        return YK_EXIT_USAGE;
    if (describe_devices(&(describe_ask){"info", program, yk__cli_text(cli, "devices"), formats[k], false, true}, &d, &err))
        return yk__cli_usage(&command, "%s", err.text);
    devices_write(&d, stdout);
    devices_free(&d);
    return YK_EXIT_OK;
}

/* One of --describe, --env, --kinds and --gpus decides, in this order. */
static bool options_idle(const yk__cli *cli)
{
    static const char *const way[] = {"describe", "env", "kinds", "gpus"};
    char why[48] = "without --describe";
    bool bad = false;
    size_t k = 0;
    while (k < 4 && !yk__cli_on(cli, way[k]))
        k++;
    if (k) {
        yk__cli_refuse_idle(cli, "devices", why, &bad);
        yk__cli_refuse_idle(cli, "precision", why, &bad);
    }
    if (k < 4)
        snprintf(why, sizeof why, "beside --%s", way[k]);
    for (size_t i = k + 1; i < 4; i++)
        yk__cli_refuse_idle(cli, way[i], why, &bad);
    if (k == 2 || k == 3)
        yk__cli_refuse_idle(cli, "json", why, &bad);
    return bad;
}

int yk__cmd_info(int argc, char **argv)
{
    yk__cli cli;
    char **args = train_arguments(argc, argv), *program = args ? args[0] : argv[0];
    int code = yk__cli_parse(&command, argc, argv, &cli);
    free(args);
    if (code >= 0)
        return code;
    if (options_idle(&cli))
        return YK_EXIT_USAGE;
    if (yk__cli_on(&cli, "describe"))
        return run_describe(&cli, program);
    if (yk__cli_on(&cli, "env"))
        return run_env(yk__cli_on(&cli, "json"));
    return survey_run(&cli, yk__cli_on(&cli, "kinds")  ? print_kinds
                            : yk__cli_on(&cli, "gpus") ? print_gpus
                            : yk__cli_on(&cli, "json") ? print_json
                                                       : print_text, false);
}

/* ---- yoke env -------------------------------------------------------------------------------------------------------- */

static const yk__cli_option env_options[] = {
    {"devices", "SPECS", NULL, "an option of other commands: its setting is shown as given here", NULL},
    {"shares", "equal|speed|N:N..", NULL, "an option of other commands, as --devices", NULL},
    {"precision", "P", NULL, "an option of other commands, as --devices", NULL},
    {"gradient-accumulation-steps", "N", NULL, "an option of other commands, as --devices", NULL},
    {"memory-limit", "BYTES", NULL, "an option of other commands, as --devices", NULL},
    {"json", NULL, NULL, "one JSON object of the same content", NULL},
};

static const yk__cli_command env_command = {
    .name = "env",
    .usage = "[--json] [options]",
    .summary = "facts for a fault report: versions, devices, plugins and every setting in force",
    .text = "Prints what yoke info prints, the system beneath, and each setting with its value and where that is from: an option of\n"
            "this command line, a variable of the environment, or the default. Variables of accelerate launch that a job follows are\n"
            "among them (ACCELERATE_MIXED_PRECISION, ACCELERATE_GRADIENT_ACCUMULATION_STEPS, ACCELERATE_USE_CPU). A variable that is\n"
            "refused is named at the end, with exit code 2.",
    .options = env_options,
    .n_options = sizeof env_options / sizeof env_options[0],
};

static const yk__cli *env_cli; /* for the survey's child, which is a fork of this process */

static void system_text(char *text, size_t size)
{
    struct utsname u = {0};
    uname(&u);
    snprintf(text, size, "%s %s %s, libc %s", u.sysname, u.release, u.machine, SYSTEM_LIBC);
}

static void print_report_text(const survey *s)
{
    char system[512], *plugins = yk__plugin_owners();
    system_text(system, sizeof system);
    print_text(s);
    printf("system: %s\nsettings:\n", system);
    print_env_text(env_cli, plugins);
    yk__free(plugins);
}

static void print_report_json(const survey *s)
{
    char system[512], *plugins = yk__plugin_owners();
    system_text(system, sizeof system);
    putchar('{');
    print_members(s);
    printf(", \"system\": ");
    yk__json_text(system);
    printf(", ");
    print_env_json(env_cli, plugins);
    printf("}\n");
    yk__free(plugins);
}

int yk__cmd_env(int argc, char **argv)
{
    yk__cli cli;
    yk_error err = YK_ERROR_INIT;
    int code = yk__cli_parse(&env_command, argc, argv, &cli);
    if (code >= 0)
        return code;
    env_cli = &cli;
    code = survey_run(&cli, yk__cli_on(&cli, "json") ? print_report_json : print_report_text, true);
    return !code && yk__options_check(&err) ? yk__cli_usage(&env_command, "%s", err.text) : code;
}

/* ---- yoke plugin list --------------------------------------------------------------------------------------------- */

static const yk__cli_option plugin_options[] = {{"json", NULL, NULL, "one JSON object", NULL}};

static const yk__cli_command plugin_command = {
    .name = "plugin",
    .usage = "list [--json]",
    .summary = "list the plugins",
    .text = "Each plugin with its file, its version, its number of devices, and why it was chosen or is not used.",
    .options = plugin_options,
    .n_options = 1,
    .least = 1,
    .most = 1,
};

static void print_plugins(const survey *s)
{
    for (uint32_t i = 0; i < s->n_plugin; i++)
        printf("%-10s %-8s %u device%s  %s  (%s)\n", s->plugin[i].name, s->plugin[i].loaded ? s->plugin[i].version : "not used",
               s->plugin[i].devices, s->plugin[i].devices == 1 ? " " : "s", s->plugin[i].path,
               s->plugin[i].reason ? s->plugin[i].reason : "");
    absence_line(s);
}

int yk__cmd_plugin(int argc, char **argv)
{
    yk__cli cli;
    int code = yk__cli_parse(&plugin_command, argc, argv, &cli);
    if (code >= 0)
        return code;
    if (strcmp(cli.positional[0], "list"))
        return yk__cli_usage(&plugin_command, "unknown action \"%s\"; there is: list", cli.positional[0]);
    return survey_run(&cli, yk__cli_on(&cli, "json") ? print_json : print_plugins, false);
}
