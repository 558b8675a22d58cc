/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Roles: with any owners of the parameters, and with a rank without rows as a member or excluded, training gives the same bits: on
 * devices that share the parameters and on devices with their own memory, in every precision, and over messages, with and without a
 * progress thread. An only member's norm is its device's sum in f32: with clipping by it the numbers are near those of other roles, and
 * have the bits of another job with an only member in the same windows. The same if the host updates for devices with their own memory.
 */
#include "config.h"

#include <math.h>
#include <time.h>

#include "core/base/hash.h"
#include "core/group/transport_choice.h"
#include "core/run/engine.h"
#include "core/run/ways/ways.h"
#include "tests/dist/net.h"
#include "tests/support/loopback.h"
#include "tests/support/own_roles.h"
#include "tests/support/ranks.h"
#include "tests/support/refplugin.h"
#include "tests/support/sanitize.h"

enum { WINDOWS = 12, MOMENTS = 2 };

/* The roles from a window on. One rank, the first or the last, rests at times: it has no rows then. It owns the last of the parts, the
 * other ranks own the parts before it. */
typedef struct change {
    int window;
    bool all;       /* the resting rank is a member too */
    double owns[3];
} change;

typedef struct plan {
    const char *name;
    int n;
    change change[6];
} plan;

/* The first is what the others are compared to. The resting rank has no rows in windows 3 to 5 and 8 to 10. */
static const plan plans[] = {
    {"even", 0, {{0}}},
    {"1:1", 1, {{0, true, {1, 1, 1}}}},
    {"1:0", 1, {{0, true, {1, 0, 0}}}},
    {"0:1", 1, {{0, true, {0, 0, 1}}}},
    {"3:1", 1, {{0, true, {3, 1, 1}}}},
    {"changing", 4, {{0, true, {3, 1, 1}}, {2, true, {0, 1, 1}}, {5, true, {1, 0, 0}}, {7, true, {1, 2, 5}}}},
    {"excluded", 4, {{3, false, {1, 1, 0}}, {6, true, {1, 1, 1}}, {8, false, {1, 1, 0}}, {11, true, {1, 1, 1}}}},
    {"excluded, 1:0", 4, {{3, false, {1, 0, 0}}, {6, true, {1, 0, 0}}, {8, false, {1, 0, 0}}, {11, true, {1, 0, 0}}}},
    {"excluded, 0:1", 4, {{3, false, {1, 1, 0}}, {6, true, {0, 0, 1}}, {8, false, {1, 1, 0}}, {11, true, {0, 0, 1}}}},
    {"shortly", 6, {{3, false, {1, 1, 0}}, {4, true, {1, 1, 1}}, {5, false, {3, 1, 0}}, {6, true, {1, 0, 0}}, {10, false, {1, 1, 0}},
                    {11, true, {0, 1, 1}}}},
};

typedef struct result {
    float param[N_PARAM][IN * MID], grad[N_PARAM][IN * MID], moment[MOMENTS][N_PARAM][IN * MID], state[MID];
    double norm[WINDOWS];
    bool skipped[WINDOWS];
    uint64_t hash;
} result;

static bool first_rests; /* or the last */
static bool spoils;      /* the gradients are not finite */
static bool unclipped;
static bool offloads; /* all plans but the first: the host updates for devices with memory of their own */
static bool disk;     /* and moments lie in files */
static bool slices;   /* gradients lie in slices */
static bool pulls;    /* and parameters, on devices with memory of their own, but for the first plan */
static bool far;      /* and parameters in all plans; over messages no rank has them whole, and none is excluded */
static bool dawdles;  /* members but rank 0 publish late, in all plans but the first */
static bool shares_copies; /* in 16 bits: the devices of all ranks read the host */
static double limit = 0.3; /* of the norm: most windows are clipped */

/* A rank's number as the plans count: the resting one is the last. */
static uint32_t place_of(uint32_t rank, uint32_t ranks)
{
    return first_rests ? ranks - 1 - rank : rank;
}

static bool rank_rests(int window)
{
    return (window >= 3 && window <= 5) || (window >= 8 && window <= 10);
}

static void share_rows(rig *r, int window)
{
    const uint32_t ranks = yk__group_size(r->group), me = yk__group_rank(r->group), with = ranks - rank_rests(window);
    const uint32_t at = me - (first_rests && rank_rests(window) && me > 0);
    const bool has = !rank_rests(window) || place_of(me, ranks) + 1 < ranks;
    r->begin = has ? (int64_t)(ROWS * at / with) : 0;
    r->end = has ? (int64_t)(ROWS * (at + 1) / with) : 0;
}

static yk_status apply_change(rig *r, const change *c, yk_error *err)
{
    const uint32_t ranks = yk__group_size(r->group);
    own_roles roles = own_roles_of(r->e, ranks);
    for (uint32_t i = 0; i < ranks; i++) {
        const uint32_t place = place_of(i, ranks);
        const bool last = place + 1 == ranks;
        roles.member[i] = c->all || !last;
        roles.owns[i] = roles.member[i] ? c->owns[last ? 2 : place] : 0.0;
    }
    return own_roles_set(r->e, &roles, err);
}

static yk_status run_window(rig *r, int w, bool half, result *out, yk_error *err)
{
    float h[2][YK_HYPER_COUNT];
    yk__updated u;
    share_rows(r, w);
    for (int m = 0; m < 2; m++) {
        r->scale = half && w % 4 == 2 && m ? 1e30f : half ? 64.0f : spoils ? INFINITY : 1.0f; /* some windows pass what fp16 holds */
        if (net_micro(r, (uint32_t)(w * 2 + m), m == 0, err))
            return err->status;
    }
    net_hyper(YK_OPT_ADAM, w + 1, h);
    if (yk__engine_update(r->e,
                          &(yk__update){.hyper = (const float(*)[YK_HYPER_COUNT])h, .divisor = (half ? 64.0 : 1.0) * 2.0 * ROWS,
                                        .clip_norm = unclipped ? 0.0 : limit, .check_finite = half},
                          &u, err))
        return err->status;
    out->norm[w] = u.skipped ? 0.0 : u.grad_norm;
    out->skipped[w] = u.skipped;
    return YK_OK;
}

static yk_status read_result(rig *r, result *out, yk_error *err)
{
    for (int i = 0; i < N_PARAM; i++) {
        if (yk__engine_param_read(r->e, r->number[i], out->param[i], err) ||
            yk__engine_grad_read(r->e, r->number[i], out->grad[i], err))
            return err->status;
        for (uint32_t k = 0; k < MOMENTS; k++)
            if (yk__engine_moment_read(r->e, k, r->number[i], 0, UINT64_MAX, false, out->moment[k][i], err))
                return err->status;
    }
    return yk__engine_state_read(r->e, r->state, out->state, err) ? err->status : yk__engine_hash(r->e, &out->hash, err);
}

/* ---- A slow member ---- */

static bool dawdling_fits(const yk__params *p)
{
    return p->exchange->part == YK__PART_MEMBER && p->exchange->rank > 0;
}

/* Rank 0 is far ahead: only a meeting behind the publication keeps it from reading this rank's old slices. */
static yk_status publish_dawdling(yk__updater *u, yk_error *err)
{
    nanosleep(&(struct timespec){0, 10000000}, NULL);
    return yk__way_publish_through(u, err);
}

static const yk__way dawdling = {.name = "dawdling", .fits = dawdling_fits, .publish = publish_dawdling};

static yk_status rank_train(yk__device *dev, yk__group *g, yk_dtype precision, const plan *p, result *out, yk_error *err)
{
    const yk__placement host = {.plugin = "ref"};
    const yk__engine_config c = {.precision = precision, .bucket_bytes = 4096, .scatters = slices,
                                 .slices = far || (pulls && p != &plans[0]), .slices_by_host = pulls,
                                 .way = dawdles && p != &plans[0] ? &dawdling : NULL,
                                 .offloads = offloads && p != &plans[0], .host = &host,
                                 .state_dir = disk && p != &plans[0] ? "/tmp" : NULL, .state_block = 1};
    rig r = {0};
    int next = 0;
    memset(out, 0, sizeof *out);
    ref.wrap = ref.wrap || c.offloads; /* the host's device, which opens now, computes in the host's memory */
    if (!net_setup(&r, dev, g, &c, YK_OPT_ADAM, err) && (r.e->host.dev != NULL) != (c.offloads && yk__host_serves(dev)))
        yk__fail(err, YK_E_INTERNAL, "the host %s", r.e->host.dev ? "updates" : "does not update");
    for (int w = 0; w < WINDOWS && !err->status; w++) {
        if (next < p->n && p->change[next].window == w && apply_change(&r, &p->change[next++], err))
            break;
        run_window(&r, w, precision == YK_F16, out, err);
    }
    if (!err->status && r.e->params.copies.shared != (shares_copies && precision != YK_F32))
        yk__fail(err, YK_E_INTERNAL, "16-bit copies are %s", shares_copies ? "not once per host" : "once per host");
    if (!err->status) /* sums of gradients can still be read when their owners changed */
        apply_change(&r, &(change){0, true, {1, 1, 1}}, err);
    if (!err->status && r.e->host.dev && r.e->queue.bytes[YK__STATE_BYTES] != MID * sizeof(float))
        yk__fail(err, YK_E_INTERNAL, "moments lie on the device");
    for (uint32_t i = 0; i < r.e->params.n_bucket && !err->status && c.slices; i++)
        if ((r.e->params.bucket[i].home->kind == YK__HOME_BLOCK) != (r.e->host.dev != NULL))
            yk__fail(err, YK_E_INTERNAL, "a bucket's home is %s", r.e->params.bucket[i].home->name);
    if (!err->status)
        read_result(&r, out, err);
    if (!err->status)
        yk__engine_leave(r.e, err);
    yk__engine_free(r.e);
    return err->status;
}

/* The numbers are equal (a sum without a block of zeros may be -0 where it was 0). */
static bool same_numbers(const float *a, const float *b, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (!(a[i] == b[i]) && !(isnan(a[i]) && isnan(b[i])))
            return false;
    return true;
}

/* The same bits, or for an only member within the error of a device's sum in f32. */
static bool same_norms(double a, double b, bool lone)
{
    return !memcmp(&a, &b, sizeof a) || (lone && fabs(a - b) < 1e-5 * b);
}

static bool near_numbers(const float *a, const float *b, uint64_t n, double allowed)
{
    for (uint64_t i = 0; i < n; i++)
        if (!(fabs((double)a[i] - b[i]) <= allowed * (fabs((double)b[i]) + 1e-2)))
            return false;
    return true;
}

static bool plan_excludes(const plan *p)
{
    bool excludes = false;
    for (int i = 0; i < p->n; i++)
        excludes |= !p->change[i].all;
    return excludes;
}

/* The resting rank is excluded, and the other clips by its own norm. */
static bool has_single_norm(const yk__group *g, const plan *p)
{
    return plan_excludes(p) && yk__group_size(g) == 2;
}

static yk_status results_near(const result *a, const result *b, double allowed, const char *name, yk_error *err)
{
    for (int i = 0; i < N_PARAM; i++)
        if (!near_numbers(a->param[i], b->param[i], size[i], allowed))
            return yk__fail(err, YK_E_INTERNAL, "%s: parameter %d is not near", name, i);
    for (int w = 0; w < WINDOWS; w++)
        if (fabs(a->norm[w] - b->norm[w]) > 10 * allowed * b->norm[w] || a->skipped[w] != b->skipped[w])
            return yk__fail(err, YK_E_INTERNAL, "%s: window %d: norm %.17g and %.17g, skipped %d and %d", name, w, a->norm[w],
                            b->norm[w], a->skipped[w], b->skipped[w]);
    return YK_OK;
}

static yk_status results_compare(const result *a, const result *b, bool lone, const char *name, yk_error *err)
{
    for (int i = 0; i < N_PARAM; i++) {
        if (memcmp(a->param[i], b->param[i], size[i] * sizeof(float)))
            return yk__fail(err, YK_E_INTERNAL, "%s: parameter %d differs", name, i);
        if (!same_numbers(a->grad[i], b->grad[i], size[i]))
            return yk__fail(err, YK_E_INTERNAL, "%s: gradient %d differs", name, i);
        for (int k = 0; k < MOMENTS; k++)
            if (!same_numbers(a->moment[k][i], b->moment[k][i], size[i]))
                return yk__fail(err, YK_E_INTERNAL, "%s: moment %d of parameter %d differs", name, k, i);
    }
    for (int w = 0; w < WINDOWS; w++)
        if (!same_norms(a->norm[w], b->norm[w], lone) || a->skipped[w] != b->skipped[w])
            return yk__fail(err, YK_E_INTERNAL, "%s: window %d: norm %.17g and %.17g, skipped %d and %d", name, w, a->norm[w],
                            b->norm[w], a->skipped[w], b->skipped[w]);
    if (!same_numbers(a->state, b->state, MID))
        return yk__fail(err, YK_E_INTERNAL, "%s: the state differs", name);
    return a->hash == b->hash ? YK_OK : yk__fail(err, YK_E_INTERNAL, "%s: the hash differs", name);
}

static yk_status check_skips(const result *r, bool half, yk_error *err)
{
    for (int w = 0; w < WINDOWS; w++)
        if (r->skipped[w] != (half && w % 4 == 2))
            return yk__fail(err, YK_E_INTERNAL, "window %d was %s", w, r->skipped[w] ? "skipped" : "not skipped");
    return YK_OK;
}

/* Leaves rank 0's hash, for the test to compare with other ways. */
static void leave_hash(const yk__group *g, const result *r)
{
    const char *name = getenv("YOKE_TEST_FILE");
    FILE *f = name && yk__group_rank(g) == 0 ? fopen(name, "w") : NULL;
    if (!f)
        return;
    fprintf(f, "%llx %.17g", (unsigned long long)r->hash, r->norm[WINDOWS - 1]);
    fclose(f);
}

static yk_status run_plans(yk__group *g, const char *what, yk_error *err)
{
    static result first, other, single;
    bool has_single = false;
    const yk_dtype precision = strstr(what, "f16") ? strstr(what, "bf16") ? YK_BF16 : YK_F16 : YK_F32;
    yk__device *dev = NULL;
    if (ref_open(&dev, err) || rank_train(dev, g, precision, &plans[0], &first, err) || check_skips(&first, precision == YK_F16, err))
        return err->status;
    const size_t n = strstr(what, "once") ? 1 : dawdles ? 2 : sizeof plans / sizeof *plans;
    for (size_t i = 1; i < n && !err->status; i++) {
        const plan *p = &plans[i];
        if ((TEST_UNDER_TSAN || TEST_UNDER_ASAN) && p->n < 4) /* "changing" has their roles, too; the plain build has their bits */
            continue;
        if (yk__group_size(g) > 2 && p->n < 4 && strcmp(p->name, "0:1") != 0 && !getenv("YOKE_TEST_LONG")) /* two ranks have had them */
            continue;
        if (TEST_UNDER_TSAN && strchr(p->name, ',')) /* the threads of "excluded" */
            continue;
        if (far && !yk__coll_shares(yk__group_coll(g)) && plan_excludes(p))
            continue;
        const bool lone = has_single_norm(g, p);
        if (rank_train(dev, g, precision, p, &other, err))
            break;
        if (!lone || unclipped)
            results_compare(&first, &other, lone, p->name, err);
        else if (results_near(&first, &other, precision == YK_F32 ? 1e-5 : 2e-3, p->name, err) || strncmp(p->name, "excluded", 8) != 0)
            continue;
        else if (has_single)
            results_compare(&single, &other, false, p->name, err);
        else
            single = other, has_single = true;
    }
    if (!err->status)
        leave_hash(g, &first);
    yk__device_close(dev);
    return err->status;
}

static yk_status exclude_last(rig *r, yk_error *err)
{
    const uint32_t last = yk__group_size(r->group) - 1;
    own_roles roles = own_roles_of(r->e, last + 1);
    roles.member[last] = false;
    roles.owns[last] = 0.0;
    return own_roles_set(r->e, &roles, err);
}

/* Only one rank's slice holds the gradient that is not finite; all name it, every time. excludes: of two ranks one is excluded. */
static yk_status run_bad(yk__group *g, bool excludes, yk_error *err)
{
    const yk__engine_config c = {.precision = YK_F32, .bucket_bytes = 4096};
    yk__device *dev = NULL;
    ref_open(&dev, err);
    for (int turn = 0; turn < 12 && !err->status; turn++) {
        rig r = {0};
        result out;
        yk_error said = YK_ERROR_INIT;
        if (net_setup(&r, dev, g, &c, YK_OPT_ADAM, err) || (excludes && exclude_last(&r, err)))
            break;
        spoils = true;
        if (run_window(&r, excludes ? 3 : turn, false, &out, &said) != YK_E_NUMERIC ||
            !strstr(said.text, "the gradient of \"p0\" is not finite"))
            yk__fail(err, YK_E_INTERNAL, "turn %d: %s", turn, said.text);
        yk__engine_free(r.e);
    }
    yk__device_close(dev);
    return err->status;
}

/* A large model's parameters are compared a part at a time, each part in turn. */
static yk_status check_parts(yk__device *dev, yk__group *g, yk_error *err)
{
    const uint64_t n = 20000000, each = 1u << 23, from[] = {0, each, 2 * each, 0}, to[] = {each, 2 * each, n, each};
    yk__engine *e = NULL;
    uint32_t number;
    if (!yk__engine_new(dev, g, &(yk__engine_config){.precision = YK_F32}, &e, err) &&
        !yk__engine_param(e, "a", n - 5, true, &number, err))
        yk__engine_param(e, "b", 5, true, &number, err);
    for (uint64_t turn = 0; turn < 4 && !err->status; turn++) {
        const yk__span part = yk__engine_hash_part(e, turn);
        if (part.from != from[turn] || part.to != to[turn])
            yk__fail(err, YK_E_INTERNAL, "turn %llu: %llu..%llu", (unsigned long long)turn, (unsigned long long)part.from,
                     (unsigned long long)part.to);
    }
    yk__engine_free(e);
    return err->status;
}

/* True if two ranks' elements from..to-1 agree. */
static bool part_agrees(yk__engine *e, yk__group *g, yk__span part, yk_error *err)
{
    yk__hashes own, all[2];
    return !yk__engine_hashes(e, part, &own, err) && !yk__group_all_gather(g, &own, sizeof own, all, err) &&
           yk__hashes_agree(&all[0], &all[1]);
}

/* 16-bit copies are compared too: of a rank one of whose copies differs, wherever the part that is compared begins. */
static yk_status run_copies(yk__group *g, yk_error *err)
{
    enum { AT = 100 };
    const yk__engine_config c = {.precision = YK_BF16, .bucket_bytes = 4096};
    const uint32_t me = yk__group_rank(g);
    uint16_t other = 0x4321;
    yk__device *dev = NULL;
    rig r = {0};
    result out;
    if (!ref_open(&dev, err) && !check_parts(dev, g, err) && !net_setup(&r, dev, g, &c, YK_OPT_ADAM, err))
        run_window(&r, 0, false, &out, err);
    for (int turn = 0; turn < 2 && !err->status; turn++) {
        if (turn && me == 1)
            yk__queue_write(&r.e->queue, r.e->params.param[0].compute, AT * sizeof other, &other, sizeof other, err);
        for (int p = 0; p < 4 && !err->status; p++) {
            const yk__span part[] = {YK__SPAN_ALL, {0, AT}, {AT, AT + 1}, {AT + 1, UINT64_MAX}};
            if (part_agrees(r.e, g, part[p], err) == (turn == 1 && p % 2 == 0) && !err->status)
                yk__fail(err, YK_E_INTERNAL, "part %d of copies that are %s", p, turn ? "unlike in another" : "alike");
        }
    }
    yk__engine_free(r.e);
    yk__device_close(dev);
    return err->status;
}

/* An excluded rank's own read while members go on is of one update: its hash is among those that a member noted. */
static yk_status run_reads(yk__group *g, yk_error *err)
{
    enum { TURNS = 60, READS = 400 };
    static float w1[IN * MID];
    static uint64_t seen[READS];
    const yk__engine_config c = {.precision = YK_F32, .bucket_bytes = 4096};
    const bool excluded = yk__group_rank(g) == yk__group_size(g) - 1;
    uint64_t *noted = NULL;
    yk__device *dev = NULL;
    yk__coll_buffer block = {0};
    rig r = {0};
    result out;
    int n = 0, reads = 0;
    if (!ref_open(&dev, err) && !net_setup(&r, dev, g, &c, YK_OPT_ADAM, err) &&
        !yk__coll_alloc(yk__group_coll(g), "hashes", (TURNS + 1) * sizeof *noted, YK__COLL_COMMON, &block, err))
        exclude_last(&r, err);
    noted = block.mem;
    for (int turn = 0; turn <= TURNS && !err->status; turn++) {
        if (turn && run_window(&r, 3, false, &out, err)) /* the excluded rank has no rows in it */
            break;
        for (int i = 0; i < (excluded ? READS / (TURNS + 1) : 1) && !err->status; i++)
            if (!yk__engine_param_read(r.e, r.number[0], w1, err) && excluded)
                seen[reads++] = yk__hash_bytes(YK_HASH_SEED, w1, sizeof w1);
        if (yk__group_rank(g) == 0)
            noted[n++] = yk__hash_bytes(YK_HASH_SEED, w1, sizeof w1);
    }
    if (!err->status)
        yk__group_barrier(g, err);
    for (int i = 0; i < reads && !err->status; i++) {
        int k = 0;
        while (k <= TURNS && noted[k] != seen[i])
            k++;
        if (k > TURNS)
            yk__fail(err, YK_E_INTERNAL, "read %d of %d is of no update", i, reads);
    }
    yk__engine_free(r.e);
    if (block.mem)
        yk__coll_release(yk__group_coll(g), &block);
    yk__device_close(dev);
    return err->status;
}

/* An only member's gradients and parameters never leave its device, clipped or not. */
static yk_status run_single(yk__group *g, yk_error *err)
{
    static const double limits[] = {1e6, 1e-3, 0.0};
    const yk__engine_config c = {.precision = YK_F32, .bucket_bytes = 4096};
    const bool excluded = yk__group_rank(g) == 1;
    yk__device *dev = NULL;
    rig r = {0};
    result out;
    if (!ref_open(&dev, err) && !net_setup(&r, dev, g, &c, YK_OPT_ADAM, err) && !exclude_last(&r, err))
        run_window(&r, 3, false, &out, err); /* programs are made */
    for (int i = 0; i < 6 && !err->status; i++) {
        const uint64_t before = ref.copied;
        limit = limits[i / 2];
        if (!run_window(&r, 3, false, &out, err) && !excluded && ref.copied - before > IN * MID * sizeof(float))
            yk__fail(err, YK_E_INTERNAL, "window %d: %llu bytes were copied", i, (unsigned long long)(ref.copied - before));
    }
    yk__engine_free(r.e);
    yk__device_close(dev);
    return err->status;
}

/* True if an exchange of the bucket takes this rank's device's values. */
static bool is_published(rig *r, uint32_t bucket, yk_error *err)
{
    const yk__bucket *b = &r->e->params.bucket[bucket];
    static float own[IN * MID];
    const uint64_t n = b->layout.n < IN * MID ? b->layout.n : IN * MID;
    return !yk__params_get(&r->e->params, b, (yk__range){0, n}, own, err) && !yk__queue_idle(&r->e->queue, err) &&
           !memcmp(own, yk__exchange_values(&r->e->exchange, b->shared_at), n * sizeof *own);
}

/* An only member's parameters stay on its device while nobody asks, in timed windows too: until ranks meet. */
static yk_status run_late(yk__group *g, yk_error *err)
{
    const yk__engine_config c = {.precision = YK_F32, .bucket_bytes = 4096};
    const bool excluded = yk__group_rank(g) == 1;
    yk__device *dev = NULL;
    rig r = {0};
    result out;
    ref.wrap = false;
    if (!ref_open(&dev, err) && !net_setup(&r, dev, g, &c, YK_OPT_ADAM, err))
        exclude_last(&r, err);
    for (int turn = 0; turn < 6 && !err->status; turn++) {
        yk__engine_measure(r.e, turn % 3 == 1);
        if (!run_window(&r, 3, false, &out, err) && !excluded && is_published(&r, 0, err) && !err->status)
            yk__fail(err, YK_E_INTERNAL, "window %d: parameters left the device", turn);
        if (turn % 3 == 2 && !err->status && !yk__group_barrier(g, err) && !excluded && !is_published(&r, 0, err) && !err->status)
            yk__fail(err, YK_E_INTERNAL, "window %d: parameters are late where ranks meet", turn);
    }
    yk__engine_free(r.e);
    yk__device_close(dev);
    return err->status;
}

/* least: elements of the first bucket; most: of the last. */
static void check_taper(yk__engine *e, uint64_t least, uint64_t most, yk_error *err)
{
    const yk__bucket *b = e->params.bucket;
    const uint32_t n = e->params.n_bucket;
    for (uint32_t i = 1; i < n && !err->status; i++)
        if (b[i].layout.n > b[i - 1].layout.n)
            yk__fail(err, YK_E_INTERNAL, "bucket %u has %llu elements, more than the one before it", i, (unsigned long long)b[i].layout.n);
    if (!err->status && (b[0].layout.n < least || b[n - 1].layout.n > most || n > yk__exchange_depth(&e->exchange)))
        yk__fail(err, YK_E_INTERNAL, "%u buckets, %llu elements in the first and %llu in the last", n, (unsigned long long)b[0].layout.n,
                 (unsigned long long)b[n - 1].layout.n);
}

/* Over messages buckets become smaller towards the first parameters, whose gradients are complete last; all may be under way at once. */
static yk_status run_taper(yk__group *g, yk_error *err)
{
    enum { PARAMS = 120, EACH = 65536 };
    const yk__engine_config c = {.precision = YK_F32};
    yk__device *dev = NULL;
    yk__engine *e = NULL;
    uint32_t number;
    if (!ref_open(&dev, err))
        yk__engine_new(dev, g, &c, &e, err);
    for (int i = 0; i < PARAMS && !err->status; i++)
        yk__engine_param(e, "p", EACH, true, &number, err);
    if (!err->status && !yk__engine_lay_out(e, err))
        check_taper(e, PARAMS * EACH / 8, 5 * EACH, err);
    yk__engine_free(e);
    yk__device_close(dev);
    return err->status;
}

static yk_status run_case(yk__group *g, const char *what, yk_error *err)
{
    first_rests = strstr(what, "first") != NULL;
    unclipped = strstr(what, "unclipped") != NULL;
    offloads = strstr(what, "offload") != NULL;
    disk = strstr(what, "disk") != NULL;
    pulls = strstr(what, "pulled") != NULL;
    far = strstr(what, "far") != NULL;
    dawdles = strstr(what, "dawdling") != NULL;
    slices = pulls || far || strstr(what, "sliced") != NULL;
    shares_copies = strstr(what, "shared") && yk__coll_shares(yk__group_coll(g));
    ref.wrap = strstr(what, "shared") || (strstr(what, "mixed") && yk__group_rank(g) % 2 == 0);
    return !strncmp(what, "bad", 3)  ? run_bad(g, unclipped, err)
           : !strcmp(what, "copies") ? run_copies(g, err)
           : !strncmp(what, "reads", 5) ? run_reads(g, err)
           : !strcmp(what, "late")   ? run_late(g, err)
           : !strcmp(what, "single") ? run_single(g, err)
           : !strcmp(what, "taper")  ? run_taper(g, err)
                                     : run_plans(g, what, err);
}

static const char *const kinds[] = {"bf16-shared", "f32-own",   "f32-mixed", "bf16-own", "f32-shared", "f16-shared",
                                    "bf16-mixed", "f16-own",  "f16-mixed", "f32-own-first", "bf16-mixed-first",
                                    "f32-shared-unclipped", "f16-own-unclipped", "bf16-mixed-first-unclipped",
                                    "bf16-shared-first", "f16-shared-unclipped", "f16-own-offload",
                                    "bf16-mixed-first-offload", "f32-own-sliced-offload", "bf16-own-pulled", "f32-own-pulled-offload",
                                    "f16-mixed-first-pulled-offload", "f32-mixed-pulled-dawdling",
                                    "f32-own-pulled-offload-dawdling", "f16-mixed-offload-disk", "f32-shared-first-offload-disk"};

START_TEST(a_bad_gradient_is_named_by_all)
{
    ranks_pass(2, "bad");
    ranks_pass(3, "bad");
    ranks_pass(2, "bad-unclipped");
}
END_TEST

START_TEST(copies_are_compared)
{
    ranks_pass(2, "copies");
}
END_TEST

START_TEST(an_excluded_rank_reads_whole_updates)
{
    ranks_pass(2, "reads");
    ranks_pass(2, "reads-shared");
    ranks_pass(3, "reads-mixed");
}
END_TEST

START_TEST(an_only_members_parameters_stay_until_asked_for)
{
    ranks_pass(2, "late");
    setenv("YOKE_TRANSPORT", "loopback", 1);
    ranks_pass(2, "late");
}
END_TEST

START_TEST(an_only_members_gradients_stay_on_its_device)
{
    ranks_pass(2, "single");
}
END_TEST

START_TEST(the_last_buckets_are_small_over_messages)
{
    setenv("YOKE_TRANSPORT", "loopback", 1);
    ranks_pass(2, "taper");
}
END_TEST

/* True if two kinds differ in the precision or in the rank that rests alone. */
static bool same_threads(const char *a, const char *b)
{
    char kind[2][64];
    for (int i = 0; i < 2; i++) {
        snprintf(kind[i], sizeof kind[i], "%s", strchr(i ? b : a, '-'));
        char *first = strstr(kind[i], "-first");
        if (first)
            memmove(first, first + 6, strlen(first + 6) + 1);
    }
    return !strcmp(kind[0], kind[1]);
}

/* True if an earlier kind is the same in another precision, or where another rank rests. */
static bool kind_is_repeated(const char *const *kind, int i)
{
    bool repeated = false;
    for (int k = 0; k < i; k++)
        repeated = repeated || same_threads(kind[k], kind[i]);
    return repeated;
}

/* What sanitizers see of a kind does not depend on its bits: three ranks have no other threads than two, nor do precisions; and a kind's
 * neighbours have the other number of ranks. */
START_TEST(same_bits)
{
    if (TEST_UNDER_TSAN && kind_is_repeated(kinds, _i))
        return;
    if (!TEST_UNDER_ASAN || _i % 2 == 0)
        ranks_pass(2, kinds[_i]);
    if (!TEST_UNDER_TSAN && (!TEST_UNDER_ASAN || _i % 2))
        ranks_pass(3, kinds[_i]);
}
END_TEST

static void run_way(const char *transport, const char *progress, uint32_t ranks, const char *what, char *text, int capacity)
{
    char file[] = "/tmp/yoke-roles-XXXXXX";
    const int fd = mkstemp(file);
    FILE *f;
    ck_assert_int_ge(fd, 0);
    close(fd);
    setenv("YOKE_TEST_FILE", file, 1);
    setenv("YOKE_TRANSPORT", transport, 1);
    setenv("YOKE_PROGRESS", progress, 1);
    ranks_pass(ranks, what);
    f = fopen(file, "r");
    ck_assert(f && fgets(text, capacity, f));
    fclose(f);
    unlink(file);
}

START_TEST(messages_give_the_same_bits)
{
    static const char *const what[] = {"f32-mixed", "bf16-own", "f16-mixed", "bf16-shared", "f32-own-first", "f32-shared", "f16-shared",
                                       "bf16-mixed-sliced-offload", "bf16-own-pulled", "bf16-mixed-pulled-offload",
                                       "f16-mixed-far", "bf16-own-first-far"};
    char shm[64], text[64], once[64];
    bool is_kind = false;
    if (TEST_UNDER_TSAN && kind_is_repeated(what, _i))
        return;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        is_kind = is_kind || !strcmp(kinds[i], what[_i]);
    snprintf(once, sizeof once, "%s%s", what[_i], is_kind ? "-once" : ""); /* same_bits has its other plans */
    const uint32_t least = TEST_UNDER_ASAN ? 2 + (uint32_t)_i / 2 % 2 : 2, most = TEST_UNDER_TSAN ? 2 : TEST_UNDER_ASAN ? least : 3;
    for (uint32_t ranks = least; ranks <= most; ranks++) {
        run_way("shm", "on", ranks, once, shm, sizeof shm);
        run_way("loopback", _i % 2 || strstr(what[_i], "far") ? "on" : "off", ranks, what[_i], text, sizeof text);
        ck_assert_str_eq(shm, text);
    }
}
END_TEST

int main(int argc, char **argv)
{
    if (argc == 3) {
        yk__transport_offer(loopback_transport());
        return ranks_member(argv[1], run_case);
    }
    TCase *t = tcase_create("roles");
    tcase_add_test(t, a_bad_gradient_is_named_by_all);
    tcase_add_test(t, copies_are_compared);
    tcase_add_test(t, an_excluded_rank_reads_whole_updates);
    tcase_add_test(t, an_only_members_parameters_stay_until_asked_for);
    tcase_add_test(t, an_only_members_gradients_stay_on_its_device);
    tcase_add_test(t, the_last_buckets_are_small_over_messages);
    tcase_add_loop_test(t, same_bits, 0, sizeof kinds / sizeof *kinds);
    tcase_add_loop_test(t, messages_give_the_same_bits, 0, 12);
    tcase_set_timeout(t, RANKS_TIMEOUT);
    return suite_run("roles", t);
}
