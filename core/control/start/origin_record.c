/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts that all ways to an origin share; an origin is the record of how a process was started. They are the user's address of rank 0
 * (YOKE_ADDR, YOKE_PORT), the list of missing variables, and the line that tells people the origin.
 *
 * origin.c and launchers.c fill an origin with it; waiting.c and `yoke info` print it. No state; any thread.
 */
#include "config.h"

#include "core/control/start/origin_record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/option.h"

yk_status yk__origin_incomplete(const yk__origin *origin, const yk__missing *missing, yk_error *err)
{
    const bool secret = strstr(missing->names, "YOKE_SECRET_FILE") != NULL;
    const char *port = getenv("YOKE_PORT");
    const bool link = port && yk__option_is_service_link("YOKE_PORT", port) && strstr(missing->names, "YOKE_PORT");
    return yk__fail(err, YK_E_ARG,
                    "this process is one of several of %s (%s), but how they find each other is not known; not set: %s.%s%s If each "
                    "process is a job of its own, set YOKE_LAUNCHER=none; for one host 'yoke launch --devices \"cpu:0 cpu:1\" "
                    "PROGRAM' needs none of this",
                    origin->launcher, origin->why, missing->names,
                    link ? " The YOKE_PORT that there is comes from a Kubernetes service called yoke: set a number in the pod's env." : "",
                    secret ? " A secret: head -c 32 /dev/urandom > FILE; chmod 600 FILE; the same file on each host." : "");
}

yk_status yk__origin_read_port(yk__origin *origin, yk_error *err)
{
    const char *text = yk__variable_text("YOKE_PORT");
    unsigned long long port = 0;
    if (!text)
        return YK_OK;
    if (!yk__variable_number("YOKE_PORT", &port) || !port || port > 65535)
        return yk__fail(err, YK_E_ARG, "rank %u of %u: YOKE_PORT=%.40s: expected a number from 1 to 65535", origin->rank, origin->size,
                        text);
    origin->port = (uint16_t)port;
    return YK_OK;
}

yk_status yk__origin_meet(yk__origin *origin, yk_error *err)
{
    yk__missing missing = {""};
    const char *address = yk__variable_text("YOKE_ADDR");
    if (address)
        snprintf(origin->address, sizeof origin->address, "%s", address);
    if (yk__origin_read_port(origin, err))
        return err->status;
    if (!origin->address[0])
        yk__missing_add(&missing, "YOKE_ADDR");
    if (!origin->port)
        yk__missing_add(&missing, "YOKE_PORT");
    yk__missing_add(&missing, "YOKE_SECRET_FILE");
    origin->kind = YK__ORIGIN_ADDRESS;
    return missing.names[0] ? yk__origin_incomplete(origin, &missing, err) : YK_OK;
}

void yk__origin_text(const yk__origin *o, char *text, size_t size)
{
    char meet[320] = "";
    if (o->kind == YK__ORIGIN_SINGLE) {
        snprintf(text, size, "a single process (%s)", o->why);
        return;
    }
    if (o->kind == YK__ORIGIN_LAUNCH) {
        snprintf(text, size, "a rank of yoke launch (%s)", o->why);
        return;
    }
    if (o->kind == YK__ORIGIN_HOST || o->kind == YK__ORIGIN_STORE)
        snprintf(meet, sizeof meet, "all on this host");
    else if (o->kind == YK__ORIGIN_SHARED)
        snprintf(meet, sizeof meet, "the ranks meet where rank 0 says over %s", o->store_fd >= 0 ? "PMI" : "PMIx");
    else
        snprintf(meet, sizeof meet, "the ranks meet at %s, port %u", o->address, o->port);
    snprintf(text, size, "rank %u of %u of %s (%s); %s", o->rank, o->size, o->launcher, o->why, meet);
}
