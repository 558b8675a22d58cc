/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selects one of libfabric's providers for a job: the first suitable one, in an order that puts networks that bypass the kernel before TCP.
 * YOKE_OFI_PROVIDER names one provider, and replaces the order. ofi_open.c asks when a job opens, and `yoke info` through ofi.c; any
 * thread.
 *
 * TCP is called `tcp` from libfabric 1.18 on, `net` in 1.16 and 1.17, and `tcp;ofi_rxm` everywhere; the last is slower.
 */
#include "config.h"

#include "transport/ofi/provider.h"

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/option.h"
#include "core/base/process/signals.h"

typedef struct candidate {
    const char *name;
    bool by_address; /* endpoints have Internet addresses */
} candidate;

static const candidate preferred[] = {
    {"efa", false}, {"cxi", false}, {"verbs;ofi_rxm", true}, {"psm3", false}, {"tcp", true}, {"net", true}, {"tcp;ofi_rxm", true},
};

/* Providers used only if YOKE_OFI_PROVIDER names them: for ranks of one host, or slow. */
static const candidate others[] = {{"shm", false}, {"sockets", true}, {"udp;ofi_rxd", true}};

static struct fi_info *hints_new(const char *provider)
{
    struct fi_info *h = fi_allocinfo();
    if (!h)
        return NULL;
    h->caps = FI_TAGGED | FI_DIRECTED_RECV;
    h->mode = FI_CONTEXT | FI_CONTEXT2;
    h->ep_attr->type = FI_EP_RDM;
    h->domain_attr->threading = FI_THREAD_DOMAIN;
    h->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR;
    h->domain_attr->resource_mgmt = FI_RM_ENABLED;
    h->tx_attr->msg_order = h->rx_attr->msg_order = FI_ORDER_SAS;
    h->fabric_attr->prov_name = strdup(provider); /* fi_freeinfo frees it */
    return h;
}

/* The provider on this host; NULL if absent. */
static struct fi_info *provider_find(const candidate *c, const char *address)
{
    struct fi_info *hints = hints_new(c->name), *found = NULL;
    const char *node = c->by_address ? (address ? address : "127.0.0.1") : NULL;
    yk__signals kept;
    if (!hints)
        return NULL;
    yk__signals_keep(&kept);
    if (fi_getinfo(FI_VERSION(1, 17), node, NULL, node ? FI_SOURCE | FI_NUMERICHOST : 0, hints, &found))
        found = NULL;
    yk__signals_restore(&kept);
    fi_freeinfo(hints);
    if (found && strcmp(found->fabric_attr->prov_name, c->name)) { /* a layer over it, with another name on the wire */
        fi_freeinfo(found);
        found = NULL;
    }
    return found;
}

static const candidate *candidate_find(const candidate *list, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(list[i].name, name))
            return &list[i];
    return NULL;
}

static yk_status provider_forced(const char *name, const char *address, struct fi_info **info, yk_tr_error *error)
{
    const candidate *known = candidate_find(preferred, sizeof preferred / sizeof *preferred, name);
    if (!known)
        known = candidate_find(others, sizeof others / sizeof *others, name);
    if (!known)
        return yk__tr_fail(error, YK_E_ARG, "YOKE_OFI_PROVIDER=%.60s, expected efa, cxi, verbs;ofi_rxm, psm3, tcp, net, tcp;ofi_rxm, "
                            "shm, sockets or udp;ofi_rxd", name);
    *info = provider_find(known, address);
    if (!*info)
        return yk__tr_fail(error, YK_E_UNSUPPORTED, "YOKE_OFI_PROVIDER=%.60s: libfabric %u.%u has no such provider here that offers tagged "
                            "messages at %s (fi_info -p says what it has)", name, FI_MAJOR(fi_version()), FI_MINOR(fi_version()),
                            known->by_address && address ? address : "this host");
    return YK_OK;
}

yk_status yk__ofi_provider(const char *address, struct fi_info **info, yk_tr_error *error)
{
    const char *forced = yk__option_text(YK__OPTION_OFI_PROVIDER);
    *info = NULL;
    if (forced && *forced)
        return provider_forced(forced, address, info, error);
    for (size_t i = 0; i < sizeof preferred / sizeof *preferred && !*info; i++)
        *info = provider_find(&preferred[i], address);
    if (!*info)
        return yk__tr_fail(error, YK_E_UNSUPPORTED, "libfabric %u.%u has no provider here that offers tagged messages at %s; fi_info says "
                            "what it has, YOKE_TRANSPORT=sock takes TCP without it", FI_MAJOR(fi_version()), FI_MINOR(fi_version()),
                            address ? address : "this host");
    return YK_OK;
}

yk_status yk__ofi_describe(char *text, uint64_t capacity)
{
    struct fi_info *info = NULL;
    yk_tr_error error = {""};
    const yk_status s = yk__ofi_provider(NULL, &info, &error);
    if (s)
        snprintf(text, capacity, "%s", error.text);
    else
        snprintf(text, capacity, "provider %s of libfabric %u.%u", info->fabric_attr->prov_name, FI_MAJOR(fi_version()),
                 FI_MINOR(fi_version()));
    if (info)
        fi_freeinfo(info);
    return s;
}
