/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One host's part of a job on several hosts, `yoke launch --node`: reads the launcher's records, chooses devices, listens for rank 0, and
 * starts the ranks. node.h has the protocol.
 *
 * cmd_launch.c calls yk__node_main in a process that the launcher (remote.c) started by ssh or srun. It returns when all ranks of this host
 * have ended.
 */
#include "config.h"

#include "core/launch/node.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/limit.h"
#include "core/base/mem.h"
#include "core/base/number.h"
#include "core/base/option.h"
#include "core/control/control.h"
#include "core/launch/device_choice.h"
#include "core/launch/launch_internal.h"
#include "core/net/tcp.h"

#define RECORD_MOST 131072u

typedef struct part { /* the launcher's records */
    char *folder, *devices, *name, *address;
    uint32_t ranks, hosts, port, first, size;
    char **argv;
    size_t args, arg_capacity;
    uint8_t secret[YK__NODE_SECRET];
    bool has_secret;
} part;

static void say_error(const char *text)
{
    yk__node_say("error", text);
}

/* ---- Records ----------------------------------------------------------------------------------------------------- */

/* Reads one byte at a time, as signals follow the records. False at the end of the input. */
static bool record_read(char *record)
{
    for (size_t n = 0; n < RECORD_MOST; n++) {
        ssize_t got;
        do
            got = read(STDIN_FILENO, record + n, 1);
        while (got < 0 && errno == EINTR);
        if (got != 1)
            return false;
        if (!record[n])
            return true;
    }
    return false;
}

static yk_status number_take(const char *name, const char *value, uint32_t most, uint32_t *number, yk_error *err)
{
    char *end;
    const unsigned long n = strtoul(value, &end, 10);
    if (*value < '0' || *value > '9' || *end || n > most)
        return yk__fail(err, YK_E_FORMAT, "the launcher says %s=%.40s: expected a number up to %u", name, value, most);
    *number = (uint32_t)n;
    return YK_OK;
}

static yk_status text_take(const char *value, char **text, yk_error *err)
{
    yk__free(*text);
    *text = yk__strdup(value);
    return *text ? YK_OK : yk__fail_mem(err, strlen(value), "the launcher's message");
}

static yk_status secret_take(part *own, const char *value, yk_error *err)
{
    if (strlen(value) != 2 * sizeof own->secret)
        return yk__fail(err, YK_E_FORMAT, "the launcher's secret has %zu digits", strlen(value));
    for (size_t i = 0; i < sizeof own->secret; i++)
        if (!yk__number_byte(value + 2 * i, &own->secret[i]))
            return yk__fail(err, YK_E_FORMAT, "the launcher's secret: expected hexadecimal digits, got another character");
    own->has_secret = true;
    return YK_OK;
}

static yk_status argument_take(part *own, const char *value, yk_error *err)
{
    if (yk__grow(&own->argv, &own->arg_capacity, own->args + 2, sizeof *own->argv))
        return yk__fail_mem(err, strlen(value), "the program's arguments");
    own->argv[own->args] = NULL;
    if (text_take(value, &own->argv[own->args], err))
        return err->status;
    own->argv[++own->args] = NULL;
    return YK_OK;
}

/* Accepts variables of Yoke; `any`: those that the user named, or that Yoke follows, as the rest of the environment is this host's. */
static yk_status variable_take(char *value, bool any, yk_error *err)
{
    char *equals = strchr(value, '=');
    if ((!any && strncmp(value, "YOKE_", 5)) || !equals || equals == value)
        return yk__fail(err, YK_E_FORMAT, "the launcher sets %.60s: expected a variable%s", value, any ? "" : " of Yoke");
    *equals = 0;
    return setenv(value, equals + 1, 1) ? yk__fail_mem(err, 0, "an environment variable") : YK_OK;
}

static yk_status record_take(part *own, char *record, yk_error *err)
{
    char *value = strchr(record, '=');
    if (!value)
        return yk__fail(err, YK_E_FORMAT, "the launcher says '%.60s': expected NAME=VALUE", record);
    *value++ = 0;
    if (!strcmp(record, "folder"))
        return text_take(value, &own->folder, err);
    if (!strcmp(record, "devices"))
        return text_take(value, &own->devices, err);
    if (!strcmp(record, "name"))
        return text_take(value, &own->name, err);
    if (!strcmp(record, "address"))
        return text_take(value, &own->address, err);
    if (!strcmp(record, "arg"))
        return argument_take(own, value, err);
    if (!strcmp(record, "env") || !strcmp(record, "variable"))
        return variable_take(value, strcmp(record, "variable") == 0, err);
    if (!strcmp(record, "secret"))
        return secret_take(own, value, err);
    if (!strcmp(record, "port"))
        return number_take(record, value, UINT16_MAX, &own->port, err);
    if (!strcmp(record, "version") && !strcmp(value, YK__NODE_VERSION))
        return YK_OK;
    uint32_t *const number = !strcmp(record, "ranks")   ? &own->ranks
                             : !strcmp(record, "hosts") ? &own->hosts
                             : !strcmp(record, "first") ? &own->first
                             : !strcmp(record, "size")  ? &own->size
                                                        : NULL;
    return number ? number_take(record, value, YK__RANKS, number, err)
                  : yk__fail(err, YK_E_FORMAT, "the launcher says %.40s=%.40s, which this version does not know: use one version of Yoke "
                             "on all hosts", record, value);
}

/* Reads up to the empty record. *whole: false if the launcher has ended before. */
static yk_status records_read(part *own, bool *whole, yk_error *err)
{
    char *record = yk__malloc(RECORD_MOST);
    if (!record)
        return yk__fail_mem(err, RECORD_MOST, "the launcher's message");
    while ((*whole = record_read(record)) && *record && !record_take(own, record, err))
        ;
    yk__free(record);
    return err->status;
}

/* ---- Rank 0's address -------------------------------------------------------------------------------------------- */

/* The address at which ssh came in here (SSH_CONNECTION); NULL without ssh, or from this host itself. */
static const char *find_ssh_address(char text[YK__TCP_ADDRESS])
{
    const char *connection = getenv("SSH_CONNECTION"); /* client, its port, this side's address, its port */
    if (!connection || sscanf(connection, "%*s %*s %63s", text) != 1 || yk__tcp_is_loopback(text))
        return NULL;
    return text;
}

/* address= is empty if the user gave none. */
static yk_status listen_for_ranks(const part *own, yk__node *node, yk_error *err)
{
    char text[YK__TCP_ADDRESS];
    const char *ssh = find_ssh_address(text), *at = strrchr(own->name, '@');
    const char *name = *own->address ? own->address : own->hosts < 2 ? "127.0.0.1" : ssh ? ssh : at ? at + 1 : own->name;
    if (yk__tcp_listen(name, (uint16_t)own->port, &node->listener, err))
        return yk__fail_in(err, "rank 0's address");
    node->port = yk__tcp_port(node->listener);
    yk__tcp_own_address(node->listener, text);
    snprintf(node->address, sizeof node->address, "%s", text);
    if (!*own->address && own->hosts > 1 && yk__tcp_is_loopback(node->address))
        return yk__fail(err, YK_E_ARG, "its name stands for %s there, which other hosts do not reach: set YOKE_ADDR to an address or name "
                        "of it in the job's network", *node->address ? node->address : "no address");
    return YK_OK;
}

/* ---- The whole --------------------------------------------------------------------------------------------------- */

/* Makes a file without a name that its owner alone may read, as core/control/start/secret.h wants it. */
static yk_status secret_store(part *own, int *fd, yk_error *err)
{
    *fd = memfd_create("yoke-secret", MFD_CLOEXEC);
    if (*fd < 0 || fchmod(*fd, 0400) || !yk__write_all(*fd, own->secret, sizeof own->secret))
        return yk__fail(err, YK_E_IO, "the job's secret: %s", yk__limit_reason(errno).text);
    explicit_bzero(own->secret, sizeof own->secret);
    return YK_OK;
}

static void answer_ready(const yk__node *node, const yk__placement *place, uint32_t n)
{
    char spec[sizeof place->plugin + sizeof place->cores + 16], ready[sizeof node->address + 16];
    for (uint32_t r = 0; r < n; r++) {
        yk__placement_text(&place[r], spec, sizeof spec);
        yk__node_say("rank", spec);
    }
    snprintf(ready, sizeof ready, "%s %u", node->listener >= 0 ? node->address : "-", node->port);
    yk__node_say("ready", ready);
    yk__node_drain();
}

static yk_status start_ranks(part *own, yk__node *node, const yk__placement *place, uint32_t n, int *code, yk_error *err)
{
    node->first = own->first;
    node->size = own->size;
    node->port = (uint16_t)own->port;
    snprintf(node->address, sizeof node->address, "%s", own->address);
    node->output = yk__calloc(2 * (size_t)n, sizeof *node->output);
    if (!node->output)
        return yk__fail_mem(err, 2 * (size_t)n * sizeof *node->output, "the ranks' output");
    for (uint32_t i = 0; i < 2 * n; i++)
        node->output[i].fd = -1;
    node->ranks = n;
    if (!own->has_secret || !own->argv || own->first + (uint64_t)n > own->size)
        return yk__fail(err, YK_E_FORMAT, "the launcher does not say all that a host has to know");
    if (secret_store(own, &node->secret, err))
        return err->status;
    return yk__launch_node(node, place, own->argv, say_error, code, err);
}

static yk_status node_prepare(const part *own, yk__node *node, yk__placement **place, uint32_t *n, yk_error *err)
{
    if (!own->folder || !own->name)
        return yk__fail(err, YK_E_FORMAT, "the launcher does not say all that a host has to know");
    if (chdir(own->folder))
        return yk__fail(err, YK_E_ARG, "the folder %.300s of the launcher is not there: %s", own->folder, strerror(errno));
    node->host = own->name;
    if (yk__options_check(err) || yk__launch_select_ranks(own->devices, own->ranks, place, n, err))
        return err->status;
    return own->address ? listen_for_ranks(own, node, err) : YK_OK;
}

static yk_status node_run(part *own, yk__node *node, int *code, yk_error *err)
{
    yk__placement *place = NULL;
    uint32_t n = 0;
    bool whole = false;
    if (records_read(own, &whole, err) || !whole)
        return err->status;
    if (!node_prepare(own, node, &place, &n, err)) {
        answer_ready(node, place, n);
        if (!records_read(own, &whole, err) && whole)
            start_ranks(own, node, place, n, code, err);
    }
    yk__free(place);
    return err->status;
}

static void part_free(part *own)
{
    yk__free(own->folder);
    yk__free(own->devices);
    yk__free(own->name);
    yk__free(own->address);
    for (size_t i = 0; i < own->args; i++)
        yk__free(own->argv[i]);
    yk__free(own->argv);
}

int yk__node_main(void)
{
    yk_error err = YK_ERROR_INIT;
    part own = {.folder = NULL};
    yk__node node = {.listener = -1, .secret = -1, .orders = STDIN_FILENO};
    int code = 0;
    yk__node_open();
    if (node_run(&own, &node, &code, &err) && !code) { /* else the error has been reported */
        code = err.status == YK_E_ARG || err.status == YK_E_FORMAT ? 2 : 1;
        say_error(err.text);
    }
    yk__node_close();
    if (node.listener >= 0)
        close(node.listener);
    if (node.secret >= 0)
        close(node.secret);
    for (uint32_t i = 0; i < 2 * node.ranks; i++)
        yk__lines_close(&node.output[i]);
    yk__free(node.output);
    part_free(&own);
    return code;
}
