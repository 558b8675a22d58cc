/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads values of yoke launch's options in the words of other launchers. The counts of gpu, cpu and auto come from a child process that
 * selects devices (core/launch/device_choice.h). So no driver runs in the launcher. The devices to count are --devices, else YOKE_DEVICES.
 */
#include "tools/cmd/launch_words.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/option.h"
#include "core/device/device.h"
#include "core/launch/device_choice.h"
#include "core/launch/own_host.h"
#include "tools/spell.h"

enum { CORES_MOST = 4096 };

const char *launch_map_nodes(const char *given, char *space, size_t size)
{
    const size_t n = strcspn(given, ":");
    if (!given[n])
        return given;
    snprintf(space, size, "%.*s", (int)n, given);
    return strcmp(space, given + n + 1) ? NULL : space;
}

const char *launch_map_slot(const char *given, char *space, size_t size)
{
    (void)space;
    (void)size;
    return strcmp(given, "slot") ? NULL : given;
}

const char *launch_map_rendezvous(const char *given, char *space, size_t size)
{
    (void)space;
    (void)size;
    return strcmp(given, "c10d") && strcmp(given, "static") ? NULL : given;
}

const char *launch_map_endpoint(const char *given, char *space, size_t size)
{
    const char *colon = strrchr(given, ':');
    snprintf(space, size, "%.*s", (int)(colon ? colon - given : (long)strlen(given)), given);
    return !*space || yk__own_host_is(space) ? given : NULL;
}

/* ---- Variables --------------------------------------------------------------------------------------------------- */

static char **variables; /* until the process ends */
static size_t variable_count;

char *const *launch_variables(void)
{
    static char *none[] = {NULL};
    return variables ? variables : none;
}

static bool is_variable(const char *name, size_t n)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    return n && strspn(name, letters) >= n && !(*name >= '0' && *name <= '9');
}

/* Takes over the name. */
static bool variable_note(char *name)
{
    bool known = false;
    for (size_t i = 0; i < variable_count; i++)
        known = known || !strcmp(variables[i], name);
    char **more = known ? NULL : realloc(variables, (variable_count + 2) * sizeof *more);
    if (!more) {
        free(name);
        return known;
    }
    variables = more;
    variables[variable_count++] = name;
    variables[variable_count] = NULL;
    return true;
}

const char *launch_map_variable(const char *given, char *space, size_t size)
{
    const size_t n = strcspn(given, "=");
    char *name = is_variable(given, n) ? strndup(given, n) : NULL;
    (void)space;
    (void)size;
    if (!name)
        return NULL;
    if (given[n] ? setenv(name, given + n + 1, 1) : !getenv(name)) {
        free(name);
        return NULL;
    }
    return variable_note(name) ? yk__spell_nothing : NULL;
}

/* ---- Ranks of a host --------------------------------------------------------------------------------------------- */

/* The placements' specs with blanks between; the caller frees it. NULL without memory. */
static char *places_text(const yk__placement *place, uint32_t n)
{
    char spec[sizeof place->plugin + sizeof place->cores + 16], *text = NULL;
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);
    for (uint32_t i = 0; f && i < n; i++) {
        yk__placement_text(&place[i], spec, sizeof spec);
        fprintf(f, "%s%s", i ? " " : "", spec);
    }
    return f && !fclose(f) ? text : NULL;
}

/* Cores of the processor; 0 after an error. */
static uint32_t cores_count(yk_error *err)
{
    static int core[CORES_MOST];
    yk__placement *place = NULL;
    uint32_t n = 0;
    if (!yk__launch_select("cpu", &place, &n, err))
        n = yk__cores_parse(place[0].cores, core, CORES_MOST);
    yk__free(place);
    return err->status ? 0 : n;
}

/* The ranks that a word means here, and their devices. */
static yk_status word_count(const char *word, const char *given, uint32_t *ranks, const char **devices, yk_error *err)
{
    yk__placement *place = NULL;
    uint32_t n = 0;
    if (!strcmp(word, "cpu")) {
        char spec[32];
        *ranks = cores_count(err);
        snprintf(spec, sizeof spec, "cpu/%u", *ranks);
        *devices = err->status ? NULL : given ? given : strdup(spec);
        return err->status;
    }
    if (yk__launch_select(given, &place, &n, err))
        return err->status;
    char *all = places_text(place, n);
    *ranks = strcmp(word, "gpu") ? n : yk__cards_first(place, n);
    if (*ranks)
        *devices = places_text(place, *ranks);
    else
        yk__fail(err, YK_E_ARG, "--nproc-per-node gpu: there is no accelerator among the devices (%s): give a number, cpu or auto; yoke "
                 "info says what keeps a device away", all ? all : "out of memory");
    free(all);
    yk__free(place);
    return err->status || *devices ? err->status : yk__fail_mem(err, 0, "the devices of this host");
}

void launch_each_read(const yk__cli *cli, bool listed, uint32_t *ranks, const char **devices, bool *bad)
{
    const char *text = yk__cli_text(cli, "nproc-per-node");
    const char *given = yk__cli_given(cli, "devices") ? yk__cli_text(cli, "devices") : yk__option_devices();
    yk_error err = YK_ERROR_INIT;
    if (!text || (strcmp(text, "gpu") && strcmp(text, "cpu") && strcmp(text, "auto"))) {
        *ranks = (uint32_t)yk__cli_int(cli, "nproc-per-node", 1, 1 << 16, bad);
        return;
    }
    if (listed) {
        yk__cli_usage(cli->command, "--nproc-per-node %s counts the devices of this host: give a number for a list of hosts; without one a "
                      "host has a rank for each device", text);
        *bad = true;
    } else if (word_count(text, given, ranks, devices, &err)) {
        yk__cli_usage(cli->command, "%s", err.text);
        *bad = true;
    } else
        yk__cli_usage(cli->command, "--nproc-per-node %s: %u rank%s here: %s", text, *ranks, *ranks == 1 ? "" : "s", *devices);
}
