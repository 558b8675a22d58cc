/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yk__transport_choose sets the transport of a job of several ranks: shared memory, or messages (YOKE_TRANSPORT). auto takes shared memory
 * on one host, and "sock" between hosts; "shm" between hosts is an error. A name such as "ofi" takes that transport. A transport of
 * messages gets the settings YOKE_REPRODUCIBILITY, YOKE_WIRE, YOKE_WIRE_PARAMS, YOKE_MESSAGE_CHECK and YOKE_PROGRESS. group.c calls
 * yk__transport_choose on all ranks when a job starts, in the joining thread.
 *
 * known_transport finds "local", messages over shared memory of one host, and a transport offered by the program (tests).
 * yk__transport_load opens any other: "sock" (TCP), "ofi" (libfabric) or a file.
 *
 * compare_settings compares the variables with scope ALL (option.h) over the ranks. Two ranks with different transports would wait for each
 * other for ever. The error names the variable, both values and both ranks.
 */
#include "core/group/transport_choice.h"

#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/option.h"
#include "core/device/transport_load.h"
#include "transport/local/local.h"

#define BETWEEN_HOSTS "sock" /* the transport of auto between ranks without common memory */

enum { NAME_BYTES = 64 };

static const yk_transport *offered; /* the program's transport; NULL if none */

void yk__transport_offer(const yk_transport *table)
{
    offered = table;
}

/* Finds a transport of the program or the library; NULL for any other name, which may be a file. */
static const yk_transport *known_transport(const char *name)
{
    const yk_transport *const known[] = {yk__local_transport(), offered};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i] && !strcmp(known[i]->name, name))
            return known[i];
    return NULL;
}

/* Extends err, the reason why the file of that name is unusable, by the names that YOKE_TRANSPORT may have. */
static yk_status refuse_name(const char *name, yk_error *err)
{
    return yk__fail_in(err, "YOKE_TRANSPORT=%.60s, expected auto, shm, %s%s%s or one that is installed", name, yk__local_transport()->name,
                       offered ? ", " : "", offered ? offered->name : "");
}

static yk_status find_transport(const char *name, const yk_transport **table, yk_error *err)
{
    *table = known_transport(name);
    return *table || !yk__transport_load(name, table, err) ? YK_OK : refuse_name(name, err);
}

static const char *chosen_name(void)
{
    const char *text = yk__option_text(YK__OPTION_TRANSPORT);
    return text ? text : "auto";
}

/* yk__group_solo calls it for a job of one rank. Such a job needs no transport, but a wrong YOKE_TRANSPORT is an error there too. */
yk_status yk__transport_check(yk_error *err)
{
    const char *name = chosen_name();
    char *path;
    if (!strcmp(name, "auto") || !strcmp(name, "shm") || known_transport(name))
        return YK_OK;
    path = yk__transport_path(name, err);
    yk__free(path);
    return path ? YK_OK : refuse_name(name, err);
}

/* The first rank on another host than rank 0; 0 if one host has all ranks. */
static uint32_t first_elsewhere(const yk__control *control)
{
    for (uint32_t r = 1; r < yk__control_size(control); r++)
        if (yk__control_host(control, r) != yk__control_host(control, 0))
            return r;
    return 0;
}

/* The settings that all ranks must share: the values of the job's variables, in the order of their table. */
enum { SETTINGS = YK__CONTROL_BLOB / NAME_BYTES };

typedef struct setting_names {
    char name[SETTINGS][NAME_BYTES];
} setting_names;

/* Writes "16M" as 16777216, and an unset variable as its default, so that equal settings compare equal. Keeps only the end of a long
 * value. */
static void setting_write(yk__option option, char to[NAME_BYTES])
{
    const yk__option_row *row = yk__option_row_of(option);
    const char *text = yk__option_text(option);
    text = text ? text : row->preset;
    if (row->kind == YK__OPTION_SIZE || row->kind == YK__OPTION_COUNT)
        snprintf(to, NAME_BYTES, "%llu", (unsigned long long)yk__option_number(option));
    else
        snprintf(to, NAME_BYTES, "%s", strlen(text) < NAME_BYTES ? text : text + strlen(text) - NAME_BYTES + 1);
}

/* Lists the numbers of the job's variables, at most SETTINGS. */
static uint32_t settings_list(yk__option list[SETTINGS])
{
    uint32_t n = 0;
    for (yk__option i = 0; i < YK__OPTION_N && n < SETTINGS; i++)
        if (yk__option_row_of(i)->scope == YK__OPTION_ALL)
            list[n++] = i;
    return n;
}

static yk_status compare_ranks(const yk__control *control, const setting_names *all, yk_error *err)
{
    yk__option list[SETTINGS];
    const uint32_t n = settings_list(list);
    for (uint32_t r = 1; r < yk__control_size(control); r++)
        for (uint32_t i = 0; i < n; i++)
            if (memcmp(all[0].name[i], all[r].name[i], NAME_BYTES))
                return yk__fail(err, YK_E_ARG, "%s is '%.63s' on %s and '%.63s' on %s: expected the same on all ranks",
                                yk__option_row_of(list[i])->name, all[0].name[i], yk__control_name(control, 0),
                                all[r].name[i], yk__control_name(control, r));
    return YK_OK;
}

static yk_status compare_settings(yk__control *control, yk_error *err)
{
    const uint32_t ranks = yk__control_size(control);
    setting_names own = {{""}}, *all = yk__calloc(ranks, sizeof *all);
    yk__option list[SETTINGS];
    const uint32_t n = settings_list(list);
    if (!all)
        return yk__fail_mem(err, ranks * sizeof *all, "the ranks' variables");
    for (uint32_t i = 0; i < n; i++)
        setting_write(list[i], own.name[i]);
    if (!yk__control_exchange(control, "comparing the ranks' variables", &own, sizeof own, all, err))
        compare_ranks(control, all, err);
    yk__free(all);
    return err->status;
}

static yk_status refuse_memory(const yk__control *control, uint32_t other, yk_error *err)
{
    return yk__fail(err, YK_E_ARG, "YOKE_TRANSPORT=shm: %s runs on another host than %s, so that they have no memory in common: leave "
                    "it out, or name a transport between hosts", yk__control_name(control, other), yk__control_name(control, 0));
}

yk_status yk__transport_choose(yk__coll_config *config, yk_error *err)
{
    const char *name = chosen_name();
    const uint32_t other = first_elsewhere(config->control);
    if (compare_settings(config->control, err))
        return err->status;
    if (!strcmp(name, "shm") && other)
        return refuse_memory(config->control, other, err);
    if (!strcmp(name, "shm") || (!strcmp(name, "auto") && !other))
        return YK_OK;
    config->messages_only = !other; /* a transport that is chosen by name on one host */
    config->by_host = yk__option_words(YK__OPTION_REPRODUCIBILITY) > 0; /* run; fast allows any order, and this is one */
    config->wire = (yk__wire)yk__option_words(YK__OPTION_WIRE);
    config->narrow_params = yk__option_words(YK__OPTION_WIRE_PARAMS) == 1;
    config->seal = (yk__seal)yk__option_words(YK__OPTION_MESSAGE_CHECK);
    config->progress = yk__option_words(YK__OPTION_PROGRESS) == 0;
    return find_transport(strcmp(name, "auto") ? name : BETWEEN_HOSTS, &config->transport, err);
}
