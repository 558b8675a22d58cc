/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Credentials of munge, a service by which hosts prove a message's user and keep it secret. meeting.c seals and opens the job's secret with
 * it in the joining thread, so the launcher's store shows no secret. The library is loaded at the first call.
 *
 * Prototypes and numbers are those of munge(3), munge_ctx(3) and munge_enum(3).
 */
#include "config.h"

#include "core/control/start/munge.h"
#include "core/base/process/signals.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OPTION_UID_RESTRICTION 9
#define ERROR_REPLAYED 17 /* the same credential again, as each rank of a host decodes it */

typedef struct munge_calls {
    void *(*ctx_create)(void);
    void (*ctx_destroy)(void *ctx);
    int (*ctx_set)(void *ctx, int option, ...);
    int (*encode)(char **credential, void *ctx, const void *data, int bytes);
    int (*decode)(const char *credential, void *ctx, void **data, int *bytes, uid_t *uid, gid_t *gid);
    const char *(*text)(int error);
} munge_calls;

/* The library stays loaded. */
static yk_status calls_load(munge_calls *calls, yk_error *err)
{
    static const char *const names[] = {"munge_ctx_create", "munge_ctx_destroy", "munge_ctx_set",
                                        "munge_encode",     "munge_decode",      "munge_strerror"};
    void **const call[] = {(void **)&calls->ctx_create, (void **)&calls->ctx_destroy, (void **)&calls->ctx_set,
                           (void **)&calls->encode,     (void **)&calls->decode,      (void **)&calls->text};
    yk__signals kept;
    void *library;
    yk__signals_keep(&kept);
    library = dlopen("libmunge.so.2", RTLD_NOW | RTLD_LOCAL);
    yk__signals_restore(&kept);
    if (!library)
        return yk__fail(err, YK_E_UNSUPPORTED, "munge: %s: install libmunge2", dlerror());
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        *call[i] = dlsym(library, names[i]);
        if (!*call[i])
            return yk__fail(err, YK_E_UNSUPPORTED, "munge: libmunge.so.2 lacks %s: install a newer libmunge2", names[i]);
    }
    return YK_OK;
}

yk_status yk__munge_seal(const uint8_t *secret, size_t bytes, char *text, size_t size, yk_error *err)
{
    munge_calls calls = {.encode = NULL};
    char *credential = NULL;
    void *ctx;
    int e;
    if (calls_load(&calls, err))
        return err->status;
    ctx = calls.ctx_create();
    if (!ctx)
        return yk__fail_mem(err, 0, "a context of munge");
    e = calls.ctx_set(ctx, OPTION_UID_RESTRICTION, geteuid());
    if (!e)
        e = calls.encode(&credential, ctx, secret, (int)bytes);
    if (e)
        yk__fail(err, YK_E_IO, "munge: %s", calls.text(e));
    else if (!credential || strlen(credential) >= size)
        yk__fail(err, YK_E_INTERNAL, "munge: a credential of %zu bytes: expected fewer than %zu",
                 credential ? strlen(credential) : 0, size);
    else
        memcpy(text, credential, strlen(credential) + 1);
    free(credential); /* allocated by libmunge */
    calls.ctx_destroy(ctx);
    return err->status;
}

yk_status yk__munge_open(const char *text, uint8_t *secret, size_t bytes, yk_error *err)
{
    munge_calls calls = {.encode = NULL};
    void *data = NULL;
    int n = 0, e;
    uid_t uid = (uid_t)-1;
    gid_t gid;
    if (calls_load(&calls, err))
        return err->status;
    e = calls.decode(text, NULL, &data, &n, &uid, &gid);
    if (e && e != ERROR_REPLAYED)
        yk__fail(err, YK_E_IO, "munge: %s", calls.text(e));
    else if (uid != geteuid() || !data || n != (int)bytes)
        yk__fail(err, YK_E_FORMAT, "munge: a secret of user %u and %d bytes: expected %u and %zu", (unsigned)uid, n, (unsigned)geteuid(),
                 bytes);
    else
        memcpy(secret, data, bytes);
    if (data)
        explicit_bzero(data, n > 0 ? (size_t)n : 0);
    free(data); /* allocated by libmunge */
    return err->status;
}
