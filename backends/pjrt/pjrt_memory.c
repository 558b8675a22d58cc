/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffers of the PJRT plugin, and copies to and from them. The host calls it through the table in pjrt_plugin.c, and pjrt_program.c takes
 * arguments and results here, in the queue's thread. Buffers are not exported.
 *
 * A PJRT array has no address and no parts, while a slot is a range of a buffer. So a buffer is host memory, of which ranges live in arrays
 * on the device. Ranges that have an array do not overlap. An array that a program has written is newer than the host memory below it until
 * something needs that memory. A value that keeps its place and its shape stays on the device from run to run.
 */
#include "backends/pjrt/pjrt.h"
#include "plugins/kit/plugin.h"

struct pj_array {
    pj_array *next; /* next in the buffer's list */
    yk_device *dev;
    uint32_t users; /* the list, and runs */
    bool newer;     /* than the host memory */
    pj_range range;
    int64_t dim[YK_MAX_DIMS];
    pjrt_buffer *array;
};

struct yk_buffer {
    yk_device *dev;
    char *memory;
    uint64_t bytes;
    pj_array *first;
};

/* Guards all buffers' arrays, as queues run in parallel. No program runs while it is held. */
static pthread_mutex_t arrays_lock = PTHREAD_MUTEX_INITIALIZER;

int pj_element_type(uint32_t dtype)
{
    static const int types[YK_DTYPE_COUNT] = {[YK_F32] = PJRT_F32, [YK_F16] = PJRT_F16, [YK_BF16] = PJRT_BF16,
                                              [YK_I32] = PJRT_S32, [YK_U8] = PJRT_U8,   [YK_BOOL] = PJRT_PRED};
    return types[dtype];
}

yk_status pj_buffer_new(yk_device *dev, const yk_buffer_desc *desc, yk_buffer **out)
{
    if (desc->flags & YK_BUF_EXPORT) {
        pj_host->fail(PJ_NAME, "buffers of this plugin are not exported");
        return YK_E_UNSUPPORTED;
    }
    yk_buffer *b = kit_zeroed(pj_host, PJ_NAME, sizeof *b, "a buffer");
    if (!b)
        return YK_E_MEM;
    b->dev = dev;
    b->bytes = desc->bytes;
    b->memory = desc->bytes > kit_host_memory() ? NULL : pj_host->alloc(desc->bytes + (desc->bytes == 0), 64);
    if (!b->memory) {
        pj_host->free(b);
        return kit_no_memory(pj_host, PJ_NAME, desc->bytes, "a buffer");
    }
    *out = b;
    return YK_OK;
}

uint64_t pj_buffer_bytes(const yk_buffer *b)
{
    return b->bytes;
}

/* ---- Arrays, under the lock ------------------------------------------------------------------------------------------ */

static void array_drop(pj_array *a)
{
    if (--a->users)
        return;
    pj_buffer_free(&a->dev->client, a->array);
    pj_host->free(a);
}

static bool ranges_meet(const pj_range *a, uint64_t begin, uint64_t bytes)
{
    return a->begin < begin + bytes && begin < a->begin + a->bytes;
}

/* The host memory below an array becomes as new as it. */
static bool array_fetch(const yk_buffer *b, pj_array *a, char why[KIT_WHY])
{
    if (a->newer && !pj_download(&b->dev->client, a->array, b->memory + a->range.begin, a->range.bytes, why))
        return false;
    a->newer = false;
    return true;
}

/* Fetches the contents of a range. */
static bool range_fetch(yk_buffer *b, uint64_t begin, uint64_t bytes, char why[KIT_WHY])
{
    for (pj_array *a = b->first; a; a = a->next)
        if (ranges_meet(&a->range, begin, bytes) && !array_fetch(b, a, why))
            return false;
    return true;
}

/* Removes the arrays over a range before its contents change. First fetches their parts outside the range. */
static bool range_clear(yk_buffer *b, uint64_t begin, uint64_t bytes, char why[KIT_WHY])
{
    for (pj_array **at = &b->first; *at;) {
        pj_array *a = *at;
        const bool inside = a->range.begin >= begin && a->range.begin + a->range.bytes <= begin + bytes;
        if (!ranges_meet(&a->range, begin, bytes)) {
            at = &a->next;
            continue;
        }
        if (!inside && !array_fetch(b, a, why))
            return false;
        *at = a->next;
        array_drop(a);
    }
    return true;
}

static bool array_is(const pj_array *a, const pj_range *range)
{
    bool same = a->range.begin == range->begin && a->range.bytes == range->bytes && a->range.dtype == range->dtype &&
                a->range.dims == range->dims;
    for (uint32_t i = 0; i < range->dims && same; i++)
        same = a->dim[i] == range->dim[i];
    return same;
}

static pj_array *array_new(yk_buffer *b, const pj_range *range, pjrt_buffer *array, bool newer)
{
    pj_array *a = pj_host->alloc(sizeof *a, 64);
    if (!a)
        return NULL;
    *a = (pj_array){.next = b->first, .dev = b->dev, .users = 1, .newer = newer, .range = *range, .array = array};
    for (uint32_t i = 0; i < range->dims; i++)
        a->dim[i] = range->dim[i];
    b->first = a;
    return a;
}

/* The host's bytes of a range as a new array. */
static pj_array *array_make(yk_buffer *b, const pj_range *range, char why[KIT_WHY])
{
    const pj_shape shape = {pj_element_type(range->dtype), range->dims, range->dim};
    pjrt_buffer *array = NULL;
    if (!range_fetch(b, range->begin, range->bytes, why) || !range_clear(b, range->begin, range->bytes, why) ||
        !pj_upload(&b->dev->client, b->memory + range->begin, &shape, &array, why))
        return NULL;
    pj_array *a = array_new(b, range, array, false);
    if (!a)
        pj_buffer_free(&b->dev->client, array);
    return a;
}

/* ---- For programs ----------------------------------------------------------------------------------------------------- */

pj_array *pj_array_take(yk_buffer *b, const pj_range *range, char why[KIT_WHY])
{
    pthread_mutex_lock(&arrays_lock);
    pj_array *a = b->first;
    while (a && !array_is(a, range))
        a = a->next;
    if (!a)
        a = array_make(b, range, why);
    if (a)
        a->users++;
    pthread_mutex_unlock(&arrays_lock);
    return a;
}

pjrt_buffer *pj_array_of(const pj_array *a)
{
    return a->array;
}

void pj_array_give(pj_array *a)
{
    pthread_mutex_lock(&arrays_lock);
    array_drop(a);
    pthread_mutex_unlock(&arrays_lock);
}

bool pj_array_put(yk_buffer *b, const pj_range *range, pjrt_buffer *array, char why[KIT_WHY])
{
    pthread_mutex_lock(&arrays_lock);
    const bool good = range_clear(b, range->begin, range->bytes, why) && array_new(b, range, array, true) != NULL;
    if (!good)
        pj_buffer_free(&b->dev->client, array);
    pthread_mutex_unlock(&arrays_lock);
    return good;
}

/* ---- Copies ------------------------------------------------------------------------------------------------------------ */

yk_status pj_buffer_copy(yk_device *dev, const yk_copy *c, char why[KIT_WHY])
{
    (void)dev;
    pthread_mutex_lock(&arrays_lock);
    const bool good = (!c->src || range_fetch(c->src, c->src_offset, c->bytes, why)) &&
                      (!c->dst || range_clear(c->dst, c->dst_offset, c->bytes, why));
    if (good)
        memcpy(c->dst ? c->dst->memory + c->dst_offset : c->dst_host, c->src ? c->src->memory + c->src_offset : c->src_host, c->bytes);
    pthread_mutex_unlock(&arrays_lock);
    return good ? YK_OK : YK_E_DEVICE_LOST;
}

void pj_buffer_release(yk_buffer *b)
{
    char why[KIT_WHY];
    if (!b || atomic_load(&b->dev->left_behind))
        return;
    pthread_mutex_lock(&arrays_lock);
    range_clear(b, 0, b->bytes, why);
    pthread_mutex_unlock(&arrays_lock);
    pj_host->free(b->memory);
    pj_host->free(b);
}
