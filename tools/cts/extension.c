/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yoke-cts, group extension: families of functions besides a plugin's table, such as yk.coll.1. main.c runs each group in a child process
 * with the device under test open. Both families are tested in one process: members of a collective are threads, and the exporting device
 * imports a shared buffer.
 */
#include <string.h>
#include <unistd.h>

#include "tools/cts/cts_coll.h"

/* ---- yk.share.1 ---- */

static void share_memory(cts *c, const yk_share *share, yk_buffer *b)
{
    yk_share_handle handle = {.size = sizeof handle};
    yk_buffer *again = NULL;
    char out[] = "written through one, read through the other", in[sizeof out] = "";
    uint64_t point = 0;
    uint32_t kind = 0;
    while (!(share->kinds >> kind & 1) && kind < 31)
        kind++;
    if (!cts_ok(c, share->export_buffer(b, kind, &handle), "export_buffer"))
        return;
    if (cts_ok(c, share->import_buffer(c->dev->handle, &handle, &again), "import_buffer")) {
        if (cts_ok(c, yk_put(c->t, c->dev->queue, b, 64, out, sizeof out, &point), "queue_copy") &&
            cts_ok(c, yk_get(c->t, c->dev->queue, again, 64, in, sizeof in, &point), "queue_copy") &&
            cts_wait(c, c->dev->queue, point) && memcmp(in, out, sizeof out))
            cts_fail(c, "yk.share.1: what is written to a shared buffer is not there in the imported one");
        c->t->buffer_free(again);
    }
    if (handle.fd >= 0)
        close(handle.fd);
}

static void test_share(cts *c, const yk_share *share)
{
    const yk_buffer_desc desc = {.size = sizeof desc, .flags = YK_BUF_EXPORT, .bytes = 4096};
    yk_buffer *b = NULL;
    if (!cts_begin(c, "share"))
        return;
    if (cts_ok(c, c->t->buffer_new(c->dev->handle, &desc, &b), "buffer_new with YK_BUF_EXPORT")) {
        share_memory(c, share, b);
        c->t->buffer_free(b);
    }
    cts_pass(c);
}

/* One test for each that is not there, too, so that it is seen. */
static const void *extension_of(cts *c, const char *name, const char *test)
{
    const void *e = c->t->extension(name);
    if (!e && cts_begin(c, "%s", test))
        cts_unsupported(c, "%s is not offered", name);
    return e;
}

/* The version is part of the name, as another version's functions may differ. */
static void test_unknown(cts *c)
{
    static const char *const names[] = {"yk.no-such-extension.1", "yk.coll", "yk.coll.0", "yk.coll.10", "yk.share.10", "yk.share.1 ", ""};
    if (!cts_begin(c, "unknown"))
        return;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (c->t->extension(names[i]))
            cts_fail(c, "extension(\"%s\") is not NULL: nobody knows this name", names[i]);
    cts_pass(c);
}

void cts_group_extension(cts *c)
{
    const yk_coll *coll = extension_of(c, YK_EXT_COLL, "coll");
    const yk_share *share = extension_of(c, YK_EXT_SHARE, "share");
    if (coll)
        cts_coll(c, coll);
    if (share)
        test_share(c, share);
    test_unknown(c);
}
