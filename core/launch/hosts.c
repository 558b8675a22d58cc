/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readers of lists of hosts, in forms that users have: NAME:COUNT of mpirun's --host and "NAME slots=COUNT" of host files of mpirun and
 * DeepSpeed. Slurm's variables for an allocation count too (sbatch(1): SLURM_JOB_NODELIST, SLURM_TASKS_PER_NODE). cmd_launch.c
 * calls one of the three readers, in the main thread.
 */
#include "config.h"

#include "core/base/absent.h"
#include "core/launch/hosts.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/io/text.h"

#define RANKS_MOST 256u /* per host */
#define NAME_MOST 255u
#define LINE_MOST 4095u /* bytes of a host file's line without its comment */
#define FORM \
    "expected NAME, NAME:RANKS, NAME=DEVICES, NAME:RANKS=DEVICES, in a file also NAME slots=RANKS, an IPv6 one in brackets ([fd99::1]:2)"

void yk__hosts_free(yk__hosts *hosts)
{
    for (uint32_t i = 0; i < hosts->count; i++) {
        yk__free(hosts->host[i].name);
        yk__free(hosts->host[i].devices);
    }
    yk__free(hosts->host);
    *hosts = (yk__hosts){.host = NULL};
}

/* ssh would take a name that begins with a dash for an option. */
static bool is_name(const char *name, size_t bytes)
{
    if (!bytes || bytes > NAME_MOST || name[0] == '-')
        return false;
    for (size_t i = 0; i < bytes; i++)
        if (name[i] <= ' ' || name[i] > '~' || strchr("'\"\\$`;&|<>()*?!#[]{},", name[i]))
            return false;
    return true;
}

static bool read_ranks(const char *text, size_t bytes, uint32_t *ranks)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] < '0' || text[i] > '9' || value > RANKS_MOST)
            return false;
        value = value * 10 + (uint64_t)(text[i] - '0');
    }
    *ranks = (uint32_t)value;
    return value && value <= RANKS_MOST;
}

/* devices: NULL, or text that the call copies. */
static yk_status host_add(yk__hosts *hosts, const char *name, size_t bytes, uint32_t ranks, const char *devices, yk_error *err)
{
    yk__host *host;
    if (!is_name(name, bytes))
        return yk__fail(err, YK_E_ARG, "host '%.*s': no name of a host; " FORM, (int)(bytes < 80 ? bytes : 80), name);
    for (uint32_t i = 0; i < hosts->count; i++)
        if (strlen(hosts->host[i].name) == bytes && !memcmp(hosts->host[i].name, name, bytes))
            return yk__fail(err, YK_E_ARG, "host '%s' stands twice in the list: give it the ranks of both (%s:COUNT)", hosts->host[i].name,
                            hosts->host[i].name);
    if (hosts->count == YK__HOSTS_MOST)
        return yk__fail(err, YK_E_ARG, "more than %u hosts", YK__HOSTS_MOST);
    host = yk__realloc(hosts->host, hosts->count + 1, sizeof *host);
    if (!host)
        return yk__fail_mem(err, (hosts->count + 1) * sizeof *host, "the hosts of a job");
    hosts->host = host;
    host += hosts->count++;
    *host = (yk__host){.name = yk__strndup(name, bytes), .devices = devices ? yk__strdup(devices) : NULL, .ranks = ranks};
    return host->name && (host->devices || !devices) ? YK_OK : yk__fail_mem(err, bytes, "the name of a host");
}

/* NAME[:RANKS][=DEVICES]; brackets around an address are not part of the name for ssh. */
static yk_status entry_add(yk__hosts *hosts, const char *entry, yk_error *err)
{
    const char *equals = strchr(entry, '='), *close = *entry == '[' ? strchr(entry, ']') : NULL, *begin = close ? entry + 1 : entry;
    const size_t head = equals ? (size_t)(equals - entry) : strlen(entry);
    const size_t name = close ? (size_t)(close + 1 - entry) : strcspn(entry, ":=");
    uint32_t ranks = 0;
    if (name < head && (entry[name] != ':' || !read_ranks(entry + name + 1, head - name - 1, &ranks)))
        return yk__fail(err, YK_E_ARG, "host '%.80s': " FORM ", from 1 to %u ranks", entry, RANKS_MOST);
    if (equals && !equals[1])
        return yk__fail(err, YK_E_ARG, "host '%.80s': no devices behind the '='", entry);
    return host_add(hosts, begin, close ? name - 2 : name, ranks, equals ? equals + 1 : NULL, err);
}

static yk_status fail_list(yk__hosts *hosts, yk_error *err)
{
    yk__hosts_free(hosts);
    return err->status;
}

yk_status yk__hosts_parse(const char *text, yk__hosts *hosts, yk_error *err)
{
    char *copy = yk__strdup(text), *next = copy, *entry;
    *hosts = (yk__hosts){.host = NULL};
    if (!copy)
        return yk__fail_mem(err, strlen(text), "the hosts of a job");
    while (!err->status && (entry = strsep(&next, ",")))
        entry_add(hosts, entry, err);
    yk__free(copy);
    return err->status ? fail_list(hosts, err) : YK_OK;
}

/* ---- Files ------------------------------------------------------------------------------------------------------- */

/* Rewrites "a slots=2" to "a:2" in place, "a slots=2 type=cpu" to "a:2=cpu/2", and "::1 slots=2" to "[::1]:2"; type=gpu changes nothing.
 * Other lines stay. The caller's line has space for the longer text. */
static void line_rewrite(char *line)
{
    size_t name = strcspn(line, " \t"), n;
    const char *slots = line + name + strspn(line + name, " \t"), *type;
    if (strncmp(slots, "slots=", 6))
        return;
    if (*line != '[' && memchr(line, ':', name)) { /* an address; the brackets take the place of "sl" */
        memmove(line + 1, line, name);
        line[0] = '[';
        line[name + 1] = ']';
        name += 2;
    }
    line[name] = ':';
    memmove(line + name + 1, slots + 6, strlen(slots + 6) + 1);
    n = strcspn(line, " \t");
    type = line + n + strspn(line + n, " \t");
    if (!strncmp(type, "max_slots=", 10) || !strncmp(type, "max-slots=", 10)) /* Open MPI's limit on ranks: there are `slots` of them */
        type += strcspn(type, " \t"), type += strspn(type, " \t");
    if (!strcmp(type, "type=gpu") || !*type)
        line[n] = 0;
    else if (!strcmp(type, "type=cpu")) {
        char ranks[16];
        snprintf(ranks, sizeof ranks, "%.*s", (int)(n - name - 1 < 15 ? n - name - 1 : 15), line + name + 1);
        sprintf(line + n, "=cpu/%s", ranks);
    }
}

/* text begins with a line of the file, and goes on after it. */
static yk_status line_add(yk__hosts *hosts, const char *text, yk_error *err)
{
    char line[LINE_MOST + 32], *begin = line, *end; /* with space for line_rewrite */
    const size_t n = strcspn(text, "#\n");
    if (n > LINE_MOST)
        return yk__fail(err, YK_E_ARG, "%zu bytes for a host: expected %u at most", n, LINE_MOST);
    memcpy(line, text, n);
    line[n] = 0;
    begin += strspn(begin, " \t");
    end = begin + strlen(begin);
    while (end > begin && (end[-1] == ' ' || end[-1] == '\t'))
        *--end = 0;
    line_rewrite(begin);
    return *begin ? entry_add(hosts, begin, err) : YK_OK;
}

yk_status yk__hosts_read(const char *path, yk__hosts *hosts, yk_error *err)
{
    char *text;
    size_t bytes;
    *hosts = (yk__hosts){.host = NULL};
    if (yk__text_open(path, 0, &text, &bytes, err))
        return err->status;
    if (strlen(text) < bytes)
        yk__fail(err, YK_E_FORMAT, "%.200s: byte %zu: a NUL byte, expected a host on each line", path, strlen(text));
    for (size_t at = 0, number = 1; !err->status && at < bytes; at += strcspn(text + at, "\n") + 1, number++)
        if (line_add(hosts, text + at, err))
            yk__fail_in(err, "%.200s, line %zu", path, number);
    yk__free(text);
    if (!err->status && !hosts->count)
        yk__fail(err, YK_E_ARG, "%.200s: names no host", path);
    return err->status ? fail_list(hosts, err) : YK_OK;
}

/* ---- Slurm ------------------------------------------------------------------------------------------------------- */

static yk_status fail_nodes(const char *nodes, yk_error *err)
{
    return yk__fail(err, YK_E_FORMAT, "nodes '%.120s' of Slurm: expected names with numbers like a[1-3,07],b", nodes);
}

/* Adds hosts HEAD01 .. HEAD12 for "01-12": numbers are padded to the digits of the first one. */
static yk_status range_add(yk__hosts *hosts, const char *head, size_t bytes, const char *range, size_t length, yk_error *err)
{
    char text[32], name[NAME_MOST + 32], *end;
    unsigned long first, last;
    int digits;
    if (!length || length >= sizeof text || bytes > NAME_MOST || range[0] < '0' || range[0] > '9')
        return fail_nodes(range, err);
    snprintf(text, sizeof text, "%.*s", (int)length, range);
    first = last = strtoul(text, &end, 10);
    digits = (int)(end - text);
    if (*end == '-')
        last = strtoul(end + 1, &end, 10);
    if (*end || last < first || last - first >= YK__HOSTS_MOST || digits > 12)
        return fail_nodes(range, err);
    for (unsigned long i = first; i <= last; i++) {
        const int n = snprintf(name, sizeof name, "%.*s%0*lu", (int)bytes, head, digits, i);
        if (host_add(hosts, name, (size_t)n, 0, NULL, err))
            return err->status;
    }
    return YK_OK;
}

/* Adds one part of the list, "a" or "a[1-3,7]"; *at moves behind it. */
static yk_status part_add(yk__hosts *hosts, const char **at, yk_error *err)
{
    const char *begin = *at, *range;
    const size_t head = strcspn(begin, "[,");
    *at = begin + head;
    if (begin[head] != '[')
        return host_add(hosts, begin, head, 0, NULL, err);
    for (range = begin + head + 1; *range && range[-1] != ']'; range += strcspn(range, ",]") + 1) {
        const size_t length = strcspn(range, ",]");
        if (!range[length])
            return fail_nodes(begin, err);
        if (range_add(hosts, begin, head, range, length, err))
            return err->status;
    }
    *at = range;
    return range[-1] == ']' ? YK_OK : fail_nodes(begin, err);
}

static yk_status fail_tasks(const char *tasks, yk_error *err)
{
    return yk__fail(err, YK_E_FORMAT, "tasks '%.80s' of Slurm: expected counts from 1 to %u like 2(x3),1", tasks, RANKS_MOST);
}

/* Sets the hosts' ranks from "2(x3),1". */
static yk_status tasks_take(yk__hosts *hosts, const char *tasks, yk_error *err)
{
    uint32_t host = 0;
    const char *at = tasks;
    do {
        at += *at == ',' && at != tasks;
        const size_t digits = strspn(at, "0123456789");
        unsigned long times = 1;
        uint32_t ranks;
        char *end = (char *)(uintptr_t)at + digits;
        if (!read_ranks(at, digits, &ranks))
            return fail_tasks(tasks, err);
        if (!strncmp(end, "(x", 2)) {
            times = strtoul(end + 2, &end, 10);
            end += *end == ')';
        }
        for (; times && host < hosts->count; times--)
            hosts->host[host++].ranks = ranks;
        at = end;
    } while (*at == ',');
    if (*at)
        return fail_tasks(tasks, err);
    return host == hosts->count ? YK_OK : yk__fail(err, YK_E_FORMAT, "tasks '%.80s' of Slurm are of %u nodes: expected %u", tasks, host,
                                                   hosts->count);
}

yk_status yk__hosts_of_slurm(const char *nodes, const char *tasks, yk__hosts *hosts, yk_error *err)
{
    const char *at = nodes;
    *hosts = (yk__hosts){.host = NULL};
    while (!err->status && !part_add(hosts, &at, err) && *at)
        if (*at++ != ',')
            fail_nodes(nodes, err);
    if (!err->status && tasks)
        tasks_take(hosts, tasks, err);
    return err->status ? fail_list(hosts, err) : YK_OK;
}

/* ---- Ranks asked for beside a list ------------------------------------------------------------------------------- */

/* Each host has as many. */
static yk_status each_allot(yk__hosts *hosts, uint32_t each, yk_error *err)
{
    for (uint32_t i = 0; i < hosts->count; i++) {
        yk__host *host = &hosts->host[i];
        if (host->ranks && host->ranks < each)
            return yk__fail(err, YK_E_ARG, "--nproc-per-node %u, and host '%s' has %u ranks in the list: give it more there, or fewer here",
                            each, host->name, host->ranks);
        host->ranks = each;
    }
    return YK_OK;
}

/* Fills the hosts in turn; *left: ranks without a host. */
static void total_fill(yk__hosts *hosts, uint32_t total, uint32_t *left)
{
    uint32_t kept = 0;
    *left = total;
    for (uint32_t i = 0; i < hosts->count; i++) {
        yk__host *host = &hosts->host[i];
        host->ranks = host->ranks < *left ? host->ranks : *left;
        *left -= host->ranks;
        if (host->ranks)
            hosts->host[kept++] = *host;
        else {
            yk__free(host->name);
            yk__free(host->devices);
        }
    }
    hosts->count = kept;
}

static yk_status total_allot(yk__hosts *hosts, uint32_t total, yk_error *err)
{
    uint32_t numbered = 0, sum = 0, left;
    for (uint32_t i = 0; i < hosts->count; i++) {
        numbered += hosts->host[i].ranks > 0;
        sum += hosts->host[i].ranks;
    }
    if (!numbered && total % hosts->count)
        return yk__fail(err, YK_E_ARG, "--num-processes %u is of all hosts, and %u hosts have no even part of it", total, hosts->count);
    for (uint32_t i = 0; i < hosts->count && !numbered; i++)
        hosts->host[i].ranks = total / hosts->count;
    if (!numbered)
        return YK_OK;
    if (numbered < hosts->count)
        return yk__fail(err, YK_E_ARG, "--num-processes %u, and of %u hosts %u have a number of ranks in the list: number all of them or "
                        "none", total, hosts->count, numbered);
    if (sum < total)
        return yk__fail(err, YK_E_ARG, "--num-processes %u, and the list of hosts has room for %u ranks: give more there (NAME:RANKS, "
                        "slots=RANKS), or fewer here", total, sum);
    total_fill(hosts, total, &left);
    return YK_OK;
}

yk_status yk__hosts_allot(yk__hosts *hosts, uint32_t total, uint32_t each, yk_error *err)
{
    if (!hosts->count || (!total && !each))
        return YK_OK;
    if (each && total && (uint64_t)each * hosts->count != total)
        return yk__fail(err, YK_E_ARG, "--num-processes %u is of all hosts, and %u hosts of --nproc-per-node %u have another number", total,
                        hosts->count, each);
    return each ? each_allot(hosts, each, err) : total_allot(hosts, total, err);
}
