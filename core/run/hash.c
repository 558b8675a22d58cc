/* SPDX-License-Identifier: Apache-2.0 */
/* Hashes of what this rank's device reads parameters from, to be compared with other ranks'. */
#include "core/base/hash.h"
#include "core/base/mem.h"
#include "core/run/inner.h"

#define CHUNK (4u << 20) /* bytes hashed at once */

static yk_status hash_part(yk__engine *e, yk_buffer *b, uint64_t offset, uint64_t bytes, void *room, uint64_t *h, yk_error *err)
{
    for (uint64_t at = 0; at < bytes && !err->status; at += CHUNK) {
        const uint64_t n = bytes - at < CHUNK ? bytes - at : CHUNK;
        if (!yk__store_io(e, b, offset + at, room, n, false, err))
            *h = yk__hash_bytes(*h, room, n);
    }
    return err->status;
}

static yk_status hash_values(yk__engine *e, void *room, uint64_t *hash, yk_error *err)
{
    uint64_t h = YK_HASH_SEED;
    for (size_t i = 0; i < e->n_param && !err->status; i++) {
        const yk__eparam *q = &e->param[i];
        hash_part(e, e->pack[q->pack].value, q->at * sizeof(float), q->n * sizeof(float), room, &h, err);
    }
    *hash = h;
    return err->status;
}

/* Copies are made again first where they are older than the parameters: as the next program would. */
static yk_status hash_copies(yk__engine *e, void *room, yk__hashes *out, yk_error *err)
{
    uint64_t which = YK_HASH_SEED, h = YK_HASH_SEED;
    bool any = false;
    for (size_t i = 0; i < e->n_param; i++)
        any = any || e->param[i].low;
    if (!any || yk__low_refresh(e, err))
        return err->status;
    for (size_t i = 0; i < e->n_param && !err->status; i++) {
        const yk__eparam *q = &e->param[i];
        if (!q->low)
            continue;
        which = yk__hash_u64(which, i);
        hash_part(e, q->low, 0, q->n * yk_dtype_bytes(e->config.precision), room, &h, err);
    }
    out->copied = which;
    out->copies = h;
    return err->status;
}

static yk_status hash_all(yk__engine *e, bool copies, yk__hashes *h, yk_error *err)
{
    void *room;
    *h = (yk__hashes){0};
    if (yk__store_lay_out(e, err))
        return err->status;
    room = yk__malloc(CHUNK);
    if (!room)
        return yk__fail_mem(err, CHUNK, "the hash of the parameters");
    if (!hash_values(e, room, &h->values, err) && copies)
        hash_copies(e, room, h, err);
    yk__free(room);
    return err->status;
}

yk_status yk__engine_hashes(yk__engine *e, yk__hashes *h, yk_error *err)
{
    return hash_all(e, true, h, err);
}

yk_status yk__engine_hash(yk__engine *e, uint64_t *hash, yk_error *err)
{
    yk__hashes h;
    if (!hash_all(e, false, &h, err))
        *hash = h.values;
    return err->status;
}

bool yk__hashes_agree(const yk__hashes *a, const yk__hashes *b)
{
    return a->values == b->values && (a->copied != b->copied || a->copies == b->copies);
}
