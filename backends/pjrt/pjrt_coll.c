/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives of the PJRT plugin (yk.coll.1): devices of one client run one executable, of which each is a replica.
 *
 * The host calls it through the extension in pjrt_plugin.c. The kit brings members together (kit_island.c); here a collective becomes text
 * (hlo/collective.c), is compiled once for each form, and runs on all members' arrays in the thread of the last member to come. Members are
 * devices of one process, so YOKE_PJRT_CLIENT_DEVICES allows them; ranks of a job have a client each, and no island.
 */
#include <stdio.h>
#include <unistd.h>

#include <yoke/extension.h>

#include "backends/pjrt/pjrt.h"
#include "plugins/kit/hlo/collective.h"
#include "plugins/kit/kit_island.h"
#include "plugins/kit/plugin.h"

#define CODES 64 /* executables that an island keeps */
_Static_assert(KIT_ISLAND_MOST <= PJ_DEVICES, "lists of replicas hold all members");

typedef struct pj_island {
    pj_client client; /* of all members */
    pj_replicas replicas;
    pj_code *codes;
} pj_island;

static hlo_collective form_of(const yk_coll_op *op, uint32_t ranks)
{
    const bool roots = op->kind == YK_COLL_BROADCAST;
    return (hlo_collective){.kind = op->kind, .type = op->dtype, .wire = op->wire, .root = roots ? op->root : 0, .ranks = ranks,
                            .count = (int64_t)op->count};
}

static pj_range range_of(const yk_coll_op *op, uint64_t begin, const int64_t *n)
{
    return (pj_range){begin, (uint64_t)*n * yk_dtype_bytes((yk_dtype)op->dtype), op->dtype, 1, n};
}

/* ---- An island's members ------------------------------------------------------------------------------------------- */

static bool members_fit(yk_device *const *dev, uint32_t ranks, char why[KIT_WHY])
{
    for (uint32_t r = 0; r < ranks; r++) {
        if (r && (!dev[r]->shared || dev[r]->shared != dev[0]->shared))
            return snprintf(why, KIT_WHY, "joining: expected devices of one client, got one of another for member %u of %u: raise "
                            "YOKE_PJRT_CLIENT_DEVICES, the number of devices that a client holds", r, ranks), false;
        for (uint32_t i = 0; i < r; i++)
            if (dev[i]->client.id == dev[r]->client.id)
                return snprintf(why, KIT_WHY, "joining: expected different devices, got one device as members %u and %u", i, r), false;
    }
    return true;
}

static void *island_begin(yk_device *const *dev, uint32_t ranks, char why[KIT_WHY])
{
    if (!members_fit(dev, ranks, why))
        return NULL;
    pj_island *own = kit_zeroed(pj_host, PJ_NAME, sizeof *own, "an island");
    snprintf(why, KIT_WHY, "no memory for an island");
    if (own)
        own->client = dev[0]->client;
    for (uint32_t r = 0; r < ranks && own; r++)
        own->replicas.id[own->replicas.n++] = dev[r]->client.id;
    return own;
}

static void island_end(void *own)
{
    pj_island *island = own;
    pj_codes_free(&island->client, &island->codes, 0);
    pj_host->free(island);
}

/* ---- A collective -------------------------------------------------------------------------------------------------- */

static void *operand_take(yk_device *dev, const yk_coll_op *op, uint32_t ranks, char why[KIT_WHY])
{
    const hlo_collective form = form_of(op, ranks);
    const int64_t n = hlo_collective_in(&form);
    const pj_range range = range_of(op, op->src_offset, &n);
    (void)dev;
    return pj_array_take(op->src, &range, why);
}

static void operand_give(void *operand)
{
    pj_array_give(operand);
}

static bool island_work(void *own, const yk_coll_op *op, uint32_t ranks, void *const *operand, void **result, char why[KIT_WHY])
{
    pj_island *island = own;
    const hlo_collective form = form_of(op, ranks);
    pjrt_buffer *in[PJ_DEVICES], *out[PJ_DEVICES] = {NULL};
    pjrt_loaded *loaded = NULL;
    hlo_text text = {.n = 0};
    kit_text_init(&text.text, pj_host);
    hlo_collective_put(&text, &form);
    snprintf(why, KIT_WHY, "no memory for its program");
    if (!text.text.bad)
        loaded = pj_code_need(&island->client, &island->replicas, &island->codes, &text.text, why);
    kit_text_free(&text.text);
    pj_codes_free(&island->client, &island->codes, CODES);
    for (uint32_t r = 0; r < ranks; r++)
        in[r] = pj_array_of(operand[r]);
    if (!loaded || !pj_execute_replicas(&island->client, loaded, ranks, in, out, why))
        return false;
    for (uint32_t r = 0; r < ranks; r++)
        result[r] = out[r];
    return true;
}

static bool result_put(yk_device *dev, const yk_coll_op *op, uint32_t ranks, void *result, char why[KIT_WHY])
{
    const hlo_collective form = form_of(op, ranks);
    const int64_t n = hlo_collective_out(&form);
    const pj_range range = range_of(op, op->dst_offset, &n);
    (void)dev;
    return pj_array_put(op->dst, &range, result, why);
}

/* ---- The extension ------------------------------------------------------------------------------------------------- */

static kit_island_ops island_ops = {.plugin = PJ_NAME, .bytes = pj_buffer_bytes, .begin = island_begin, .end = island_end,
                                    .take = operand_take, .give = operand_give, .work = island_work, .put = result_put};

/* A name of this process and client, as no other process can join. */
static yk_status coll_island(yk_device *dev, char name[64])
{
    *name = 0;
    if (dev->shared)
        snprintf(name, 64, "pjrt %ld %p", (long)getpid(), (void *)dev->shared);
    return YK_OK;
}

static yk_status coll_ticket(yk_device *dev, uint8_t ticket[256], uint32_t *bytes)
{
    (void)dev;
    return kit_island_ticket(&island_ops, ticket, bytes);
}

static yk_status coll_join(yk_device *dev, const uint8_t *ticket, uint32_t bytes, uint32_t rank, uint32_t ranks, yk_comm **comm)
{
    return kit_island_join(dev, ticket, bytes, rank, ranks, comm, &island_ops);
}

static bool types_fit(const yk_coll_op *op)
{
    const uint32_t narrow = 1u << YK_F16 | 1u << YK_BF16, types = narrow | 1u << YK_F32 | 1u << YK_I32 | 1u << YK_U8;
    return op->dtype < 32 && op->wire < 32 && types >> op->dtype & 1 &&
           (op->wire == op->dtype || (op->dtype == YK_F32 && narrow >> op->wire & 1));
}

static yk_status coll_run(yk_queue *q, yk_comm *comm, const yk_coll_op *op, uint64_t *point)
{
    if (types_fit(op))
        return kit_island_run(q, comm, op, point);
    pj_host->fail(PJ_NAME, "a collective of type %u as %u: expected f32, f16, bf16, i32 or u8 as it is, or f32 as f16 or bf16", op->dtype,
                  op->wire);
    return YK_E_UNSUPPORTED;
}

void pj_coll_init(void)
{
    island_ops.host = pj_host;
}

const yk_coll *pj_coll(void)
{
    static const yk_coll coll = {.size = sizeof coll, .flags = YK_COLL_FIXED_ORDER | YK_COLL_ONE_PER_DEVICE, .island = coll_island,
                                 .ticket = coll_ticket, .join = coll_join, .leave = kit_island_leave, .abort = kit_island_abort,
                                 .run = coll_run};
    return pj_host && pj_client_devices() > 1 ? &coll : NULL;
}
