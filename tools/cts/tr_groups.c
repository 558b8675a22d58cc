/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The groups of yoke-cts --transport, and the first of them, abi: the file, its symbol, its table. main.c runs each group in a child
 * process, which forks the ranks of a test (tr_ranks.c).
 */
#include "config.h"

#include <dlfcn.h>
#include <string.h>

#include "core/device/transport_load.h"
#include "tools/cts/tr.h"

const cts_group cts_tr_groups[] = {
    {"abi", "the file, its one symbol, the table", true, cts_tr_group_abi},
    {"connect", "opening among one, two and three ranks, again, and with a rank that dies", true, cts_tr_group_connect},
    {"order", "messages with one tag arrive in order", true, cts_tr_group_order},
    {"sizes", "messages of all lengths, at odd addresses", true, cts_tr_group_sizes},
    {"match", "receives take the messages of their rank and tag", true, cts_tr_group_match},
    {"many", "many messages under way", true, cts_tr_group_many},
    {"wait", "waiting for some of many, for some time", true, cts_tr_group_wait},
    {"threads", "calls from several threads", true, cts_tr_group_threads},
    {"cancel", "operations that are given up", true, cts_tr_group_cancel},
    {"memory", "registered memory", true, cts_tr_group_memory},
    {"put", "one-sided writes and their notices", true, cts_tr_group_put},
    {"arguments", "calls that must be refused", true, cts_tr_group_arguments},
    {"death", "a rank that dies", true, cts_tr_group_death},
    {"close", "operations in progress when a rank closes", true, cts_tr_group_close},
    {"leak", "objects that were made and released leave nothing behind", true, cts_tr_group_leak},
};
const uint32_t cts_n_tr_group = sizeof cts_tr_groups / sizeof *cts_tr_groups;

static void check_symbols(cts *c)
{
    if (!cts_begin(c, "symbols"))
        return;
    cts_file_check(c, c->transport_path, YK_TRANSPORT_SYMBOL);
    cts_pass(c);
}

/* The file again, past the loader: its handle is the same. */
static void check_query(cts *c)
{
    void *dl = dlopen(c->transport_path, RTLD_NOW | RTLD_LOCAL), *symbol = dl ? dlsym(dl, YK_TRANSPORT_SYMBOL) : NULL;
    yk_transport_query_fn query;
    if (!cts_begin(c, "query"))
        return;
    memcpy(&query, &symbol, sizeof query);
    if (!query)
        cts_fail(c, "%s", dl ? "the entry point is missing" : dlerror());
    else if (query(YK_TRANSPORT_MAJOR + 1000))
        cts_fail(c, "it answers a major number (%u) that does not exist yet", YK_TRANSPORT_MAJOR + 1000);
    else if (query(YK_TRANSPORT_MAJOR) != query(YK_TRANSPORT_MAJOR))
        cts_fail(c, "two queries give two tables");
    cts_pass(c);
}

static void check_table(cts *c)
{
    const yk_transport *t = c->transport;
    if (!cts_begin(c, "table"))
        return;
    if (t->unused)
        cts_fail(c, "a word that is unused is %u, expected 0", t->unused);
    else if (!*t->name || strlen(t->name) > 32 || strspn(t->name, "abcdefghijklmnopqrstuvwxyz0123456789_-") != strlen(t->name))
        cts_fail(c, "its name is \"%.40s\", expected up to 32 of a-z, 0-9, _ and -", t->name);
    else if (!strstr(c->transport_path, t->name))
        cts_fail(c, "its name is \"%s\", and its file is %s", t->name, c->transport_path);
    else if (t->extension("no such extension"))
        cts_fail(c, "it has an extension that does not exist");
    else if (t->size >= sizeof *t && (!t->put != !t->mem_key || !t->put != !t->mem_import || !t->put != !t->notices))
        cts_fail(c, "of put, mem_key, mem_import and notices it has some alone");
    cts_pass(c);
}

/* Checks a transport's description of itself, if it has one. */
static void check_describe(cts *c)
{
    const yk_tr_describe *d = c->transport->extension(YK_TR_EXT_DESCRIBE);
    char text[256];
    if (!cts_begin(c, "describe"))
        return;
    if (!d) {
        cts_unsupported(c, "it does not have the extension %s", YK_TR_EXT_DESCRIBE);
        return;
    }
    memset(text, 'x', sizeof text);
    d->describe(text, sizeof text - 1);
    if (!memchr(text, 0, sizeof text - 1) || text[sizeof text - 1] != 'x' || !*text || strchr(text, '\n'))
        cts_fail(c, "its description is not one line of less than its capacity");
    cts_pass(c);
}

void cts_tr_group_abi(cts *c)
{
    check_symbols(c);
    check_query(c);
    check_table(c);
    check_describe(c);
}
