/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pulls over messages: both ends. core/run begins pulls, offers slices and waits, in the step thread. The progress thread or a waiting step
 * thread drives both ends (yk__msg_step_all). The plane's lock guards all of it.
 *
 * A rank sends an ask to the owner of a slice. The answer is the ask again, then the bytes in chunks. All of it has one tag, so it arrives
 * in this order. Asks from one rank to another have numbers, and the answers keep their order. An owner takes a rank's next ask after its
 * answer to the last one. Later asks wait in the transport.
 */
#include "core/coll/messages/msg_pull.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/coll/coll.h"
#include "core/coll/messages/msg.h"
#include "core/coll/pull.h"

#define MAGIC 0x6c6c7570u
#define CHUNK (1ull << 20) /* bytes of a message, at most */
enum { WINDOW = 4 };       /* chunks of an answer under way at once */

typedef struct ask {
    uint32_t magic, key;
    uint64_t number, version, at, bytes;
} ask;

/* Chunks on their way, the oldest first. */
typedef struct flow {
    yk_tr_op *op[WINDOW];
    uint64_t posted, done; /* bytes */
} flow;

typedef struct offered {
    const uint8_t *mem; /* NULL: nothing */
    uint64_t at, bytes;
} offered;

/* The owner's end, for one other rank. */
typedef struct asker {
    yk_tr_op *listen, *head;
    ask came;
    bool has, answers, broken; /* an ask is here; its answer has begun; the job ends */
    uint64_t heard;            /* asks so far */
    flow flow;
} asker;

/* A pull from one owner. */
typedef struct part {
    struct part *next; /* the next from that owner */
    yk__pulling *of;
    uint32_t peer;
    ask ask, head;
    yk_tr_op *asks, *heads;
    bool posted, headed;
    char *to;
    flow flow;
} part;

struct yk__pulling {
    yk__coll *coll;
    uint32_t n, open;
    yk_error err;
    part part[];
};

struct yk__msg_pulls {
    offered *offer; /* by key */
    size_t cap;
    uint32_t n, answers; /* offers; answers under way */
    uint64_t version;
    bool open; /* published, not withdrawn */
    asker *asker;           /* [world] */
    part **first;           /* [world]: pulls under way from each owner */
    uint64_t *asked;        /* [world] */
};

/* ---- Messages ----------------------------------------------------------------------------------------------------- */

static yk_tr_range bytes_range(void *data, uint64_t bytes)
{
    return (yk_tr_range){.data = data, .bytes = bytes};
}

static yk_status message_post(yk__coll *coll, bool send, uint32_t peer, uint64_t tag, yk_tr_range range, yk_tr_op **op, yk_error *err)
{
    yk__msg_plane *plane = coll->plane;
    yk_tr_error error = {""};
    const yk_status s = send ? yk__msg_send(plane, peer, tag, &range, op, &error) : yk__msg_recv(plane, peer, tag, &range, op, &error);
    if (s)
        return yk__msg_fail(err, s, &error, coll);
    if (send && plane->host[peer] != plane->host[coll->rank])
        plane->sent_far += range.bytes;
    return YK_OK;
}

/* Sets *op to NULL if it is done. want: bytes of a receive; UINT64_MAX for a send. */
static yk_status message_test(yk__coll *coll, uint32_t peer, yk_tr_op **op, uint64_t want, yk_error *err)
{
    yk_tr_error error = {""};
    uint64_t got = want;
    int done = 0;
    const yk_status s = yk__msg_test(coll->plane, *op, &done, &got, &error);
    if (done)
        *op = NULL;
    if (s)
        return yk__msg_fail(err, s, &error, coll);
    if (done && want != UINT64_MAX && got != want)
        return yk__fail(err, YK_E_IO, "a message of a pull from %s to %s has %llu bytes: expected %llu",
                        yk__control_name(coll->control, peer), yk__control_name(coll->control, coll->rank), (unsigned long long)got,
                        (unsigned long long)want);
    return YK_OK;
}

static void message_cancel(yk__coll *coll, yk_tr_op **op)
{
    if (*op)
        yk__msg_cancel(coll->plane, *op);
    *op = NULL;
}

static uint64_t chunk_bytes(uint64_t at, uint64_t bytes)
{
    return bytes - at < CHUNK ? bytes - at : CHUNK;
}

/* Posts chunks of `bytes` at mem, as many as may be under way. */
static yk_status flow_post(yk__coll *coll, flow *f, bool send, uint32_t peer, uint8_t *mem, uint64_t bytes, yk_error *err)
{
    while (f->posted < bytes && f->posted - f->done < WINDOW * CHUNK) {
        const uint64_t n = chunk_bytes(f->posted, bytes);
        yk_tr_op **op = &f->op[f->posted / CHUNK % WINDOW];
        if (message_post(coll, send, peer, YK__MSG_TAG_ANSWER, bytes_range(mem + f->posted, n), op, err))
            return err->status;
        f->posted += n;
    }
    return YK_OK;
}

/* The same, and takes finished messages in their order, as a seal refuses a message tested before an older one of its tag. */
static yk_status flow_step(yk__coll *coll, flow *f, bool send, uint32_t peer, uint8_t *mem, uint64_t bytes, yk_error *err)
{
    while (!flow_post(coll, f, send, peer, mem, bytes, err) && f->done < bytes) {
        const uint64_t n = chunk_bytes(f->done, bytes);
        yk_tr_op **op = &f->op[f->done / CHUNK % WINDOW];
        if (message_test(coll, peer, op, send ? UINT64_MAX : n, err) || *op)
            return err->status;
        f->done += n;
    }
    return err->status;
}

static void flow_cancel(yk__coll *coll, flow *f)
{
    for (uint32_t i = 0; i < WINDOW; i++)
        message_cancel(coll, &f->op[i]);
}

/* ---- The owner's end ---------------------------------------------------------------------------------------------- */

static yk_status ask_refuse(const yk__coll *coll, uint32_t peer, const ask *a, const char *why, yk_error *err)
{
    return yk__fail(err, YK_E_INTERNAL, "%s asks %s in pull %llu for version %llu of bytes [%llu, %llu) of bucket %u: %s; the version "
                    "here is %llu", yk__control_name(coll->control, peer), yk__control_name(coll->control, coll->rank),
                    (unsigned long long)a->number, (unsigned long long)a->version, (unsigned long long)a->at,
                    (unsigned long long)(a->at + a->bytes), a->key, why, (unsigned long long)coll->plane->pulls->version);
}

static yk_status asker_listen(yk__coll *coll, uint32_t peer, yk_error *err)
{
    asker *k = &coll->plane->pulls->asker[peer];
    if (!k->listen && message_post(coll, false, peer, YK__MSG_TAG_ASK, bytes_range(&k->came, sizeof k->came), &k->listen, err))
        return err->status;
    if (message_test(coll, peer, &k->listen, sizeof k->came, err) || k->listen)
        return err->status;
    k->has = true;
    if (k->came.magic != MAGIC || k->came.number != k->heard + 1)
        return ask_refuse(coll, peer, &k->came, "no ask, or not the next", err);
    k->heard++;
    return YK_OK;
}

/* The offered bytes of an ask of this version; NULL, with err filled, if there are none. */
static const uint8_t *ask_find(const yk__coll *coll, uint32_t peer, const ask *a, yk_error *err)
{
    const yk__msg_pulls *pulls = coll->plane->pulls;
    const offered *o = a->key < pulls->n ? &pulls->offer[a->key] : NULL;
    if (o && o->mem && a->at >= o->at && a->bytes <= o->bytes && a->at - o->at <= o->bytes - a->bytes)
        return o->mem + (a->at - o->at);
    ask_refuse(coll, peer, a, "this rank does not have them", err);
    return NULL;
}

/* Begins the answer, unless the version is still to be published. */
static yk_status asker_begin(yk__coll *coll, uint32_t peer, yk_error *err)
{
    yk__msg_pulls *pulls = coll->plane->pulls;
    asker *k = &pulls->asker[peer];
    if (k->came.version == pulls->version + 1)
        return YK_OK;
    if (k->came.version != pulls->version || !pulls->open)
        return ask_refuse(coll, peer, &k->came, "expected the version that was published last, or the next", err);
    if (!ask_find(coll, peer, &k->came, err) ||
        message_post(coll, true, peer, YK__MSG_TAG_ANSWER, bytes_range(&k->came, sizeof k->came), &k->head, err))
        return err->status;
    k->answers = true;
    k->flow = (flow){.posted = 0};
    pulls->answers++;
    return YK_OK;
}

/* *goes_on: an answer has ended, and another ask may be here. */
static yk_status asker_step(yk__coll *coll, uint32_t peer, bool *goes_on, yk_error *err)
{
    yk__msg_pulls *pulls = coll->plane->pulls;
    asker *k = &pulls->asker[peer];
    const uint8_t *mem;
    *goes_on = false;
    if ((!k->has && asker_listen(coll, peer, err)) || !k->has || (!k->answers && asker_begin(coll, peer, err)) || !k->answers)
        return err->status;
    mem = ask_find(coll, peer, &k->came, err);
    if (!mem || flow_step(coll, &k->flow, true, peer, (uint8_t *)(uintptr_t)mem, k->came.bytes, err) ||
        (k->head && message_test(coll, peer, &k->head, UINT64_MAX, err)) || k->head || k->flow.done < k->came.bytes)
        return err->status;
    k->has = k->answers = false;
    pulls->answers--;
    *goes_on = true;
    return YK_OK;
}

static void asker_cancel(yk__coll *coll, asker *k)
{
    message_cancel(coll, &k->listen);
    message_cancel(coll, &k->head);
    flow_cancel(coll, &k->flow);
    coll->plane->pulls->answers -= k->answers;
    k->answers = false;
    k->broken = true;
}

/* Answers a rank as far as possible. A fault ends the job. A rank that left, or a broken transport, shows to the waiting ranks. */
static void asker_serve(yk__coll *coll, uint32_t peer)
{
    asker *k = &coll->plane->pulls->asker[peer];
    bool goes_on = true;
    while (goes_on && !k->broken) {
        yk_error err = YK_ERROR_INIT;
        if (!asker_step(coll, peer, &goes_on, &err))
            continue;
        asker_cancel(coll, k);
        if (!yk__control_left(coll->control, peer))
            yk__coll_abort(coll, &err);
    }
}

/* ---- The end that pulls ------------------------------------------------------------------------------------------- */

static yk_status part_test(part *p, yk_error *err)
{
    yk__coll *coll = p->of->coll;
    if (p->asks && message_test(coll, p->peer, &p->asks, UINT64_MAX, err))
        return err->status;
    if (!p->headed && (message_test(coll, p->peer, &p->heads, sizeof p->head, err) || p->heads))
        return err->status;
    if (!p->headed && memcmp(&p->head, &p->ask, sizeof p->ask))
        return yk__fail(err, YK_E_INTERNAL, "%s answers pull %llu of %s with another one: number %llu, version %llu, bucket %u",
                        yk__control_name(coll->control, p->peer), (unsigned long long)p->ask.number,
                        yk__control_name(coll->control, coll->rank), (unsigned long long)p->head.number,
                        (unsigned long long)p->head.version, p->head.key);
    p->headed = true;
    return YK_OK;
}

/* Receives are posted in the order of the messages: of a later pull from this owner, only behind all of this one. */
static yk_status part_step(part *p, yk_error *err)
{
    yk__coll *coll = p->of->coll;
    if (!p->posted && message_post(coll, false, p->peer, YK__MSG_TAG_ANSWER, bytes_range(&p->head, sizeof p->head), &p->heads, err))
        return err->status;
    p->posted = true;
    if (flow_post(coll, &p->flow, false, p->peer, (uint8_t *)p->to, p->ask.bytes, err) || part_test(p, err) || !p->headed)
        return err->status;
    return flow_step(coll, &p->flow, false, p->peer, (uint8_t *)p->to, p->ask.bytes, err);
}

static bool part_is_done(const part *p)
{
    return p->headed && !p->asks && p->flow.done == p->ask.bytes;
}

static void peer_pull(yk__coll *coll, uint32_t peer)
{
    yk__msg_pulls *pulls = coll->plane->pulls;
    while (pulls->first[peer]) {
        part *p = pulls->first[peer];
        if (p->of->err.status || part_step(p, &p->of->err) || !part_is_done(p))
            return;
        pulls->first[peer] = p->next;
        p->of->open--;
        coll->plane->active--;
    }
}

void yk__msg_pulls_step(yk__coll *coll)
{
    for (uint32_t r = 0; coll->plane->pulls && r < coll->size; r++) {
        if (r == coll->rank)
            continue;
        peer_pull(coll, r);
        if (coll->plane->serves)
            asker_serve(coll, r);
    }
}

void yk__msg_pulls_fail(yk__coll *coll, yk_status status, const yk_tr_error *error)
{
    for (uint32_t r = 0; coll->plane->pulls && r < coll->size; r++)
        for (part *p = coll->plane->pulls->first[r]; p; p = p->next)
            if (!p->of->err.status)
                yk__msg_fail(&p->of->err, status, error, coll);
}

/* ---- Offers ------------------------------------------------------------------------------------------------------- */

static void pulls_free(yk__msg_pulls *pulls)
{
    yk__free(pulls->offer);
    yk__free(pulls->asker);
    yk__free(pulls->first);
    yk__free(pulls->asked);
    yk__free(pulls);
}

static yk_status pulls_need(yk__coll *coll, yk_error *err)
{
    yk__msg_pulls *pulls = coll->plane->pulls;
    if (pulls)
        return YK_OK;
    pulls = yk__calloc(1, sizeof *pulls);
    if (!pulls)
        return yk__fail_mem(err, sizeof *pulls, "pulls");
    pulls->asker = yk__calloc(coll->size, sizeof *pulls->asker);
    pulls->first = yk__calloc(coll->size, sizeof *pulls->first);
    pulls->asked = yk__calloc(coll->size, sizeof *pulls->asked);
    if (!pulls->asker || !pulls->first || !pulls->asked) {
        pulls_free(pulls);
        return yk__fail_mem(err, coll->size * sizeof *pulls->asker, "pulls");
    }
    coll->plane->pulls = pulls;
    return YK_OK;
}

/* Ends answers that still read the memory, in a job that ends. */
static void answers_cancel(yk__coll *coll)
{
    for (uint32_t r = 0; coll->plane->pulls->answers && r < coll->size; r++)
        if (coll->plane->pulls->asker[r].answers)
            asker_cancel(coll, &coll->plane->pulls->asker[r]);
}

static yk_status offer_set(yk__coll *coll, uint32_t key, const offered *now, yk_error *err)
{
    yk__msg_pulls *pulls = coll->plane->pulls;
    bool any = false;
    if (yk__grow(&pulls->offer, &pulls->cap, key + 1ull, sizeof *pulls->offer))
        return yk__fail_mem(err, (key + 1ull) * sizeof *pulls->offer, "pulls");
    for (; pulls->n <= key; pulls->n++)
        pulls->offer[pulls->n] = (offered){.mem = NULL};
    answers_cancel(coll);
    pulls->offer[key] = *now;
    for (uint32_t i = 0; i < pulls->n; i++)
        any = any || pulls->offer[i].mem;
    coll->plane->serves = any;
    return YK_OK;
}

yk_status yk__coll_offer(yk__coll *coll, uint32_t key, const void *mem, uint64_t at, uint64_t bytes, yk_error *err)
{
    yk_status s;
    pthread_mutex_lock(&coll->plane->lock);
    s = pulls_need(coll, err) ? err->status : offer_set(coll, key, &(offered){mem, at, bytes}, err);
    pthread_mutex_unlock(&coll->plane->lock);
    return s;
}

static bool answers_open(const void *coll)
{
    return ((const yk__coll *)coll)->plane->pulls->answers > 0;
}

static uint32_t answers_peer(const void *of)
{
    const yk__coll *coll = of;
    for (uint32_t r = 0; r < coll->size; r++)
        if (coll->plane->pulls->asker[r].answers)
            return r;
    return UINT32_MAX;
}

yk_status yk__coll_withdraw(yk__coll *coll, yk_error *err)
{
    const yk__msg_wait wait = {.coll = coll, .of = coll, .is_open = answers_open, .peer = answers_peer, .polls = true,
                               .what = "an answer to a pull"};
    yk_status s = YK_OK;
    pthread_mutex_lock(&coll->plane->lock);
    if (!pulls_need(coll, err)) {
        coll->plane->pulls->open = false;
        s = yk__msg_wait_done(&wait, err);
    }
    pthread_mutex_unlock(&coll->plane->lock);
    yk__msg_hand_over(coll);
    return s ? s : err->status;
}

void yk__coll_publish(yk__coll *coll)
{
    pthread_mutex_lock(&coll->plane->lock);
    coll->plane->pulls->version++;
    coll->plane->pulls->open = true;
    yk__msg_pulls_step(coll);
    pthread_mutex_unlock(&coll->plane->lock);
    yk__msg_hand_over(coll);
}

/* ---- Pulls -------------------------------------------------------------------------------------------------------- */

static void pulling_append(part *p)
{
    part **at = &p->of->coll->plane->pulls->first[p->peer];
    while (*at)
        at = &(*at)->next;
    *at = p;
    p->of->open++;
    p->of->coll->plane->active++;
}

static yk_status part_begin(yk__pulling *pulling, uint32_t key, const yk__pull_part *from, yk_error *err)
{
    yk__msg_pulls *pulls = pulling->coll->plane->pulls;
    part *p = &pulling->part[pulling->n];
    *p = (part){.of = pulling, .peer = from->owner, .to = from->to};
    p->ask = (ask){.magic = MAGIC, .key = key, .number = pulls->asked[p->peer] + 1, .version = pulls->version, .at = from->at,
                   .bytes = from->bytes};
    if (message_post(pulling->coll, true, p->peer, YK__MSG_TAG_ASK, bytes_range(&p->ask, sizeof p->ask), &p->asks, err))
        return err->status;
    pulls->asked[p->peer]++;
    pulling->n++;
    pulling_append(p);
    return YK_OK;
}

yk_status yk__coll_pull(yk__coll *coll, uint32_t key, const yk__pull_part *from, uint32_t n, yk__pulling **out, yk_error *err)
{
    yk__pulling *pulling = yk__calloc(1, sizeof *pulling + n * sizeof pulling->part[0]);
    if (!pulling)
        return yk__fail_mem(err, n * sizeof pulling->part[0], "a pull");
    pulling->coll = coll;
    pulling->err = (yk_error)YK_ERROR_INIT;
    pthread_mutex_lock(&coll->plane->lock);
    for (uint32_t i = 0; i < n && !err->status; i++)
        part_begin(pulling, key, &from[i], err);
    if (!err->status)
        yk__msg_pulls_step(coll);
    pthread_mutex_unlock(&coll->plane->lock);
    if (err->status)
        yk__coll_pull_drop(&pulling);
    yk__msg_hand_over(coll);
    *out = pulling;
    return err->status;
}

static bool pulling_is_open(const void *of)
{
    const yk__pulling *pulling = of;
    return pulling->open && !pulling->err.status;
}

static uint32_t pulling_peer(const void *of)
{
    const yk__pulling *pulling = of;
    for (uint32_t i = 0; i < pulling->n; i++)
        if (!part_is_done(&pulling->part[i]))
            return pulling->part[i].peer;
    return UINT32_MAX;
}

yk_status yk__coll_pulled(yk__pulling **out, yk_error *err)
{
    yk__pulling *pulling = *out;
    yk__coll *coll = pulling ? pulling->coll : NULL;
    const yk__msg_wait wait = {.coll = coll, .of = pulling, .is_open = pulling_is_open, .peer = pulling_peer, .polls = true,
                               .what = "a pull of parameters"};
    if (!pulling)
        return YK_OK;
    pthread_mutex_lock(&coll->plane->lock);
    yk__msg_step_all(coll);
    if (!yk__msg_wait_done(&wait, err) && pulling->err.status)
        *err = pulling->err;
    pthread_mutex_unlock(&coll->plane->lock);
    yk__coll_pull_drop(out);
    yk__msg_hand_over(coll);
    return err->status;
}

static void part_drop(part *p)
{
    yk__coll *coll = p->of->coll;
    part **at = &coll->plane->pulls->first[p->peer];
    while (*at && *at != p)
        at = &(*at)->next;
    if (!*at)
        return;
    *at = p->next;
    coll->plane->active--;
    message_cancel(coll, &p->asks);
    message_cancel(coll, &p->heads);
    flow_cancel(coll, &p->flow);
}

void yk__coll_pull_drop(yk__pulling **out)
{
    yk__pulling *pulling = *out;
    if (!pulling)
        return;
    pthread_mutex_lock(&pulling->coll->plane->lock);
    for (uint32_t i = 0; i < pulling->n; i++)
        part_drop(&pulling->part[i]);
    pthread_mutex_unlock(&pulling->coll->plane->lock);
    yk__free(pulling);
    *out = NULL;
}

void yk__msg_pulls_free(yk__coll *coll)
{
    yk__msg_plane *plane = coll->plane;
    if (!plane || !plane->pulls || !yk__msg_plane_is_own(plane))
        return;
    for (uint32_t r = 0; r < coll->size; r++) {
        asker_cancel(coll, &plane->pulls->asker[r]);
        while (plane->pulls->first[r]) /* at an exit in the midst of a pull */
            part_drop(plane->pulls->first[r]);
    }
    pulls_free(plane->pulls);
    plane->pulls = NULL;
}
