/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layers' functions for collectives among devices (YOKE_LAYERS, yk.coll.1). As in hook_calls.c each unwraps the host's handles, calls
 * the plugin's function of the same name, and checks, times or prints the call.
 *
 * layers.c gives them to core/run/islands.c and yoke-cts in place of the plugin's own table, in the thread of each call. No call waits for
 * a collective's point, as other members may not have begun: guards are looked at by later runs, and when a buffer is freed.
 */
#include "core/base/mem.h"
#include "core/device/hook.h"

static yk_status coll_island(yk_device *dev, char name[64])
{
    hook_object *d = (hook_object *)dev;
    if (!yk__hook_alive(dev, HOOK_DEVICE))
        return YK_E_INTERNAL;
    const hook_call c = yk__hook_begin(d->hook, HOOK_coll_island);
    return yk__hook_end(&c, d->hook->inner_coll->island(d->inner, name), 0);
}

static yk_status coll_ticket(yk_device *dev, uint8_t ticket[256], uint32_t *bytes)
{
    hook_object *d = (hook_object *)dev;
    if (!yk__hook_alive(dev, HOOK_DEVICE))
        return YK_E_INTERNAL;
    const hook_call c = yk__hook_begin(d->hook, HOOK_coll_ticket);
    return yk__hook_end(&c, d->hook->inner_coll->ticket(d->inner, ticket, bytes), 0);
}

/* The object is made behind the call, which may never return. */
static yk_status coll_join(yk_device *dev, const uint8_t *ticket, uint32_t bytes, uint32_t rank, uint32_t ranks, yk_comm **comm)
{
    hook_object *d = (hook_object *)dev, *o = NULL;
    yk_comm *inner = NULL;
    if (!yk__hook_alive(dev, HOOK_DEVICE))
        return YK_E_INTERNAL;
    const hook_call c = yk__hook_begin(d->hook, HOOK_coll_join);
    yk_status s = d->hook->inner_coll->join(d->inner, ticket, bytes, rank, ranks, &inner);
    s = yk__plugin_made(s, inner);
    if (!s && !(o = yk__hook_object(d->hook, HOOK_COMM, d, &s)))
        d->hook->inner_coll->leave(inner);
    if (s)
        return yk__hook_end(&c, s, 0);
    o->inner = inner;
    o->ranks = ranks;
    *comm = (yk_comm *)o;
    return yk__hook_end(&c, YK_OK, 0);
}

static void coll_leave(yk_comm *comm)
{
    hook_object *o = (hook_object *)comm;
    if (!yk__hook_alive(comm, HOOK_COMM))
        return;
    const hook_call c = yk__hook_begin(o->hook, HOOK_coll_leave);
    o->hook->inner_coll->leave(o->inner);
    yk__hook_end(&c, YK_OK, 0);
    yk__hook_drop(o);
}

static void coll_abort(yk_comm *comm)
{
    hook_object *o = (hook_object *)comm;
    if (!yk__hook_alive(comm, HOOK_COMM))
        return;
    const hook_call c = yk__hook_begin(o->hook, HOOK_coll_abort);
    o->hook->inner_coll->abort(o->inner);
    yk__hook_end(&c, YK_OK, 0);
}

/* Checks one end of a collective: of `count` elements, or of such a part for each member. */
static yk_status end_check(const hook_object *q, const yk_coll_op *op, yk_buffer *b, uint64_t offset, uint32_t parts)
{
    const uint64_t each = (uint64_t)yk_dtype_bytes(op->dtype) * parts;
    if (!yk__hook_alive(b, HOOK_BUFFER))
        return YK_E_INTERNAL;
    if (((const hook_object *)b)->device != q->device)
        return yk__hook_wrong("yk.coll.1: expected buffers of the queue's device, got one of another device");
    return yk__hook_range_check((const hook_object *)b, offset, each && op->count > UINT64_MAX / each ? UINT64_MAX : op->count * each);
}

static yk_status op_check(const hook_object *q, const hook_object *comm, const yk_coll_op *op)
{
    yk_status s = YK_OK;
    if (comm->device != q->device)
        return yk__hook_wrong("yk.coll.1: expected a queue of the device that joined, got one of another device");
    for (uint32_t i = 0; i < op->n_wait && !s; i++)
        s = yk__hook_alive(op->wait[i].queue, HOOK_QUEUE) ? YK_OK : YK_E_INTERNAL;
    if (!s && op->src)
        s = end_check(q, op, op->src, op->src_offset, op->kind == YK_COLL_REDUCE_SCATTER ? comm->ranks : 1);
    if (!s && op->dst)
        s = end_check(q, op, op->dst, op->dst_offset, op->kind == YK_COLL_ALL_GATHER ? comm->ranks : 1);
    return s;
}

static yk_status op_forward(hook_object *q, const hook_object *comm, const yk_coll_op *op, uint64_t *point)
{
    const hook_object *src = (const hook_object *)op->src, *dst = (const hook_object *)op->dst;
    yk_coll_op inner = *op;
    yk_wait *wait = yk__calloc(op->n_wait + 1ull, sizeof *wait);
    if (!wait)
        return YK_E_MEM;
    yk__hook_waits(op->wait, op->n_wait, wait);
    inner.wait = wait;
    inner.src = src ? src->inner : NULL;
    inner.dst = dst ? dst->inner : NULL;
    inner.src_offset += src ? src->guard : 0;
    inner.dst_offset += dst ? dst->guard : 0;
    const yk_status s = q->hook->inner_coll->run(q->inner, comm->inner, &inner, point);
    yk__free(wait);
    return yk__hook_point_check(q, s, *point, "yk.coll.1");
}

static yk_status coll_run(yk_queue *q, yk_comm *comm, const yk_coll_op *op, uint64_t *point)
{
    hook_object *o = (hook_object *)q;
    if (!yk__hook_alive(q, HOOK_QUEUE) || !yk__hook_alive(comm, HOOK_COMM))
        return YK_E_INTERNAL;
    const hook_call c = yk__hook_begin(o->hook, HOOK_coll_run);
    yk_status s = o->hook->layers & HOOK_VALIDATE ? op_check(o, (const hook_object *)comm, op) : YK_OK;
    if (!s)
        s = op_forward(o, (const hook_object *)comm, op, point);
    return yk__hook_end(&c, s, op->count * yk_dtype_bytes(op->dtype));
}

const yk_coll *yk__hook_coll(hook *h, const yk_coll *inner)
{
    pthread_mutex_lock(&h->lock);
    if (!h->inner_coll) { /* once: other threads may be in its functions, as coll_join is */
        h->coll = (yk_coll){.size = sizeof h->coll, .flags = inner->flags, .island = coll_island, .ticket = coll_ticket,
                            .join = coll_join, .leave = coll_leave, .abort = coll_abort, .run = coll_run};
        h->inner_coll = inner;
    }
    pthread_mutex_unlock(&h->lock);
    return &h->coll;
}
