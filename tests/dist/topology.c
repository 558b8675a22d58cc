/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives over messages where some ranks share a host: large vectors go to each host once. Each rank adds up by itself what it
 * expects, in the order that the job's settings say, and compares bit for bit; the bytes between hosts are counted. And jobs train
 * over such hosts: to the same parameters on all ranks, those of any other layout where sums go by rank, near them elsewhere.
 *
 * A rank has one argument: SUMS-WIRE of collectives, or "train", "factors" (PowerSGD), "little", "resumed", "scaled", "excluded",
 * "moved".
 */
#include "config.h"

#include <yoke/yoke.h>

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/convert.h"
#include "core/coll/coll.h"
#include "core/coll/coll_state.h"
#include "core/control/control.h"
#include "core/control/start/bootstrap.h"
#include "core/control/start/origin.h"
#include "core/job/job.h"
#include "core/run/engine.h"
#include "tests/support/hosts.h"
#include "tests/support/own_roles.h"
#include "tests/support/run.h"
#include "tests/support/sanitize.h"
#ifdef HAVE_SODIUM
#include "transport/sock/sock.h"
#endif

enum { NUMBERS = 260001 /* the largest slice goes in three chunks */, LITTLE = 77, BROADCAST = (5 << 17) + 3, TURNS = 2, WATCHDOG_S = 200,
       BLOCK = 256 /* numbers with one scale, from the beginning of a slice on */ };

static yk__control *control;
static yk__coll *coll;
static uint32_t rank, ranks;
static bool by_host, narrow; /* narrow: parameters travel in bf16 */
static yk__wire wire;

/* Expected values: loops over arrays of this test alone, each compared as a whole with what the library made. */

/* Every rank can compute every rank's input. */
TEST_LONE_LOOPS static float input_of(uint32_t r, uint32_t turn, uint32_t i)
{
    uint64_t x = ((uint64_t)(r + 1) << 40 | (uint64_t)turn << 32 | i) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9u;
    return (float)((double)(int32_t)(x >> 32) / 65536.0 * ((x & 7) ? 1.0 : 1e6));
}

static bool same_host(uint32_t a, uint32_t b)
{
    return yk__control_host(control, a) == yk__control_host(control, b);
}

static bool is_lowest(const yk__comm *comm, uint32_t rank_of)
{
    for (uint32_t r = 0; r < rank_of; r++)
        if (yk__comm_has(comm, r) && same_host(r, rank_of))
            return false;
    return true;
}

/* n numbers of a vector, which begin a block of their owner's slice. */
typedef struct block {
    const yk__comm *comm;
    uint32_t owner, turn;
    uint64_t begin, n;
} block;

TEST_LONE_LOOPS static void inputs_add(const block *b, uint32_t r, uint32_t turn, bool is_first, float *sum)
{
    for (uint64_t k = 0; k < b->n; k++) {
        const float x = input_of(r, turn, (uint32_t)(b->begin + k));
        sum[k] = is_first ? x : sum[k] + x;
    }
}

/* Before it is rounded: of one member, or by host the sum of the host's members, in the order of rank numbers. */
static void part_make(const block *b, uint32_t lowest, uint32_t turn, float *part)
{
    inputs_add(b, lowest, turn, true, part);
    for (uint32_t r = lowest + 1; r < ranks && by_host; r++)
        if (yk__comm_has(b->comm, r) && same_host(lowest, r))
            inputs_add(b, r, turn, false, part);
}

/* As int8 leaves the numbers, to which `left` of them is added and of which it is rounded away. */
TEST_LONE_LOOPS static void part_scale(const block *b, float *part, float *left)
{
    float largest = 0;
    for (uint64_t k = 0; k < b->n; k++) {
        part[k] += left[k];
        largest = fmaxf(largest, fabsf(part[k]));
    }
    const float scale = largest / 127;
    for (uint64_t k = 0; k < b->n; k++) {
        const float v = part[k];
        part[k] = nearbyintf(v / scale) * scale;
        left[k] = v - part[k];
    }
}

TEST_LONE_LOOPS static void part_halve(float *part, uint64_t n)
{
    for (uint64_t k = 0; k < n; k++)
        part[k] = yk__bf16_to_f32(yk__f32_to_bf16(part[k]));
}

/* The block as a sender's message has it; int8 follows from what was rounded away in the turns before. */
static void part_send(const block *b, uint32_t from, float *part)
{
    const bool is_far = !same_host(from, b->owner), scaled = is_far && wire == YK__WIRE_INT8;
    float left[BLOCK] = {0};
    for (uint32_t t = scaled ? 0 : b->turn; t <= b->turn; t++) {
        part_make(b, from, t, part);
        if (scaled)
            part_scale(b, part, left);
    }
    if (is_far && wire == YK__WIRE_BF16)
        part_halve(part, b->n);
}

TEST_LONE_LOOPS static void block_expect(const block *b, float *sum)
{
    bool is_first = true;
    for (uint32_t r = 0; r < ranks; r++) {
        float part[BLOCK];
        if (!yk__comm_has(b->comm, r) || (by_host && !is_lowest(b->comm, r)))
            continue;
        part_send(b, r, part);
        for (uint64_t k = 0; k < b->n; k++)
            sum[k] = is_first ? part[k] : sum[k] + part[k];
        is_first = false;
    }
    if (narrow)
        part_halve(sum, b->n);
}

static uint64_t bytes_sent(uint64_t n)
{
    return wire == YK__WIRE_INT8 ? n + (n + BLOCK - 1) / BLOCK * 4 : n * (wire == YK__WIRE_BF16 ? 2 : 4);
}

/* How many hosts with members there are beside that of `rank_of`; how many members on them. */
static void count_far(const yk__comm *comm, uint32_t rank_of, uint64_t *hosts, uint64_t *members)
{
    *hosts = *members = 0;
    for (uint32_t r = 0; r < ranks; r++)
        if (yk__comm_has(comm, r) && !same_host(r, rank_of)) {
            *hosts += is_lowest(comm, r);
            ++*members;
        }
}

/* Bytes between hosts of a reduce-scatter and an all-gather of these slices, without the records of both. */
static uint64_t expected_bytes(const yk__comm *comm, const yk__slices *parts)
{
    uint64_t all = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        const uint64_t n = parts->begin[r + 1] - parts->begin[r];
        uint64_t hosts, members;
        if (!yk__comm_has(comm, r))
            continue;
        count_far(comm, r, &hosts, &members);
        all += bytes_sent(n) * (by_host ? hosts : members) + n * hosts * (narrow ? 2 : 4);
    }
    return all;
}

/* ---- A rank ------------------------------------------------------------------------------------------------------- */

static int fail_wrong(yk_error *err, const char *what, uint32_t number)
{
    return !err->status && yk__fail(err, YK_E_INTERNAL, "rank %u: %s %u is wrong", rank, what, number);
}

static float numbers[NUMBERS];

typedef struct vector {
    uint32_t n;
    yk__coll_buffer grad, param;
    yk__slices parts;
    yk__request *request;
} vector;

static void fill_grads(vector *v, uint32_t turn)
{
    inputs_add(&(block){.n = v->n}, rank, turn, true, numbers);
    memcpy(v->grad.mem, numbers, v->n * sizeof *numbers);
}

/* Spoils the results, which are NaN now and must become numbers. */
static void spoil_params(vector *v)
{
    const uint64_t begin = v->parts.begin[rank], end = v->parts.begin[rank + 1];
    memset(v->param.mem, 0xff, begin * sizeof(float));
    memset((float *)v->param.mem + end, 0xff, (v->n - end) * sizeof(float));
}

static yk_status begin_sum(yk__comm *comm, vector *v, uint32_t turn, yk_error *err)
{
    yk__coll_desc d = {.kind = YK__COLL_REDUCE_SCATTER, .dtype = YK_F32, .count = v->n, .buffer = &v->grad, .parts = &v->parts};
    d.out = (float *)(turn % 2 ? v->param.mem : v->grad.mem) + v->parts.begin[rank];
    return yk__coll_begin(comm, &d, &v->request, err);
}

static yk_status begin_gather(yk__comm *comm, vector *v, uint32_t turn, yk_error *err)
{
    const yk__coll_desc d = {
        .kind = YK__COLL_ALL_GATHERV, .dtype = YK_F32, .count = v->n, .buffer = &v->param, .parts = &v->parts, .narrow = narrow};
    const uint64_t begin = v->parts.begin[rank], n = v->parts.begin[rank + 1] - begin;
    spoil_params(v);
    if (turn % 2 == 0) /* else they were summed up there */
        memcpy((float *)v->param.mem + begin, (float *)v->grad.mem + begin, n * sizeof(float));
    if (narrow) {
        memcpy(numbers, (float *)v->param.mem + begin, n * sizeof(float));
        part_halve(numbers, n);
        memcpy((float *)v->param.mem + begin, numbers, n * sizeof(float));
    }
    return yk__coll_begin(comm, &d, &v->request, err);
}

static bool is_expected(const yk__comm *comm, const vector *v, uint32_t turn)
{
    for (uint32_t r = 0; r < ranks; r++)
        for (uint64_t i = v->parts.begin[r], end = v->parts.begin[r + 1]; i < end; i += BLOCK)
            block_expect(&(block){comm, r, turn, i, end - i < BLOCK ? end - i : BLOCK}, numbers + i);
    return !memcmp(numbers, v->param.mem, v->n * sizeof *numbers);
}

/* Two vectors on their way at once; the next turn overwrites data that other ranks read. */
static int run_turn(yk__comm *comm, vector *v, uint32_t turn, yk_error *err)
{
    for (uint32_t k = 0; k < 2; k++)
        fill_grads(&v[k], turn);
    for (uint32_t k = 0; k < 2; k++)
        if (begin_sum(comm, &v[k], turn, err))
            return 1;
    for (uint32_t k = 0; k < 2; k++)
        if (yk__coll_wait(v[k].request, err))
            return 1;
    for (uint32_t k = 0; k < 2; k++)
        if (begin_gather(comm, &v[k], turn, err))
            return 1;
    for (uint32_t k = 0; k < 2; k++)
        if (yk__coll_wait(v[k].request, err) || !is_expected(comm, &v[k], turn))
            return fail_wrong(err, "vector", turn * 2 + k);
    return 0;
}

static yk_status sum_sent(double *sent, yk_error *err)
{
    *sent = (double)yk__coll_sent(coll);
    return yk__coll_run(yk__coll_world(coll), &(yk__coll_desc){.kind = YK__COLL_ALL_REDUCE, .dtype = YK_F64, .out = sent, .count = 1},
                        err);
}

/* Called by all ranks: measures the bytes that sum_sent itself sends, and a request's records. */
static yk_status measure_idle(yk__comm *comm, double *begin, double *idle, double *records, yk_error *err)
{
    const yk__coll_desc barrier = {.kind = YK__COLL_BARRIER};
    if (sum_sent(idle, err) || sum_sent(records, err) || (yk__comm_has(comm, rank) && yk__coll_run(comm, &barrier, err)) ||
        sum_sent(begin, err))
        return err->status;
    *idle = *records - *idle;
    *records = *begin - *records - *idle;
    return YK_OK;
}

static int run_turns(yk__comm *comm, vector *v, yk_error *err)
{
    double begin, idle, records, end;
    if (measure_idle(comm, &begin, &idle, &records, err))
        return 1;
    for (uint32_t turn = 0; turn < TURNS && yk__comm_has(comm, rank); turn++)
        if (run_turn(comm, v, turn, err))
            return 1;
    if (sum_sent(&end, err))
        return 1;
    const double more = end - begin - idle - 4 * TURNS * records - TURNS * (double)(expected_bytes(comm, &v[0].parts) +
                                                                                    expected_bytes(comm, &v[1].parts));
    return !more || (more > 0 && coll->rounds_below && comm->hosts.count == comm->size) ? 0 : fail_wrong(err, "surplus", (uint32_t)more);
}

TEST_LONE_LOOPS static void bytes_fill(uint8_t *to, uint32_t root)
{
    for (uint32_t i = 0; i < BROADCAST; i++)
        to[i] = (uint8_t)(root + i * 7 + i / 251);
}

static int run_broadcast(yk__comm *comm, uint32_t root, yk_error *err)
{
    static uint8_t data[BROADCAST], want[BROADCAST];
    const yk__coll_desc d = {.kind = YK__COLL_BROADCAST, .dtype = YK_U8, .root = root, .out = data, .count = BROADCAST};
    bytes_fill(want, root);
    memset(data, 0, BROADCAST);
    if (rank == root)
        memcpy(data, want, BROADCAST);
    if (yk__coll_run(comm, &d, err))
        return 1;
    return memcmp(data, want, BROADCAST) ? fail_wrong(err, "broadcast", root) : 0;
}

static int check_broadcasts(yk_error *err)
{
    double begin, idle, records, end, want = 0;
    uint64_t hosts, members;
    if (measure_idle(yk__coll_world(coll), &begin, &idle, &records, err))
        return 1;
    for (uint32_t root = 0; root < ranks; root++) {
        if (run_broadcast(yk__coll_world(coll), root, err))
            return 1;
        count_far(yk__coll_world(coll), root, &hosts, &members);
        want += (double)(hosts * BROADCAST) + records;
    }
    if (sum_sent(&end, err))
        return 1;
    return end - begin - idle == want ? 0 : fail_wrong(err, "count of bytes broadcast", 0);
}

static yk_status vector_new(vector *v, uint32_t n, const double *part, yk_error *err)
{
    *v = (vector){.n = n};
    return yk__slices_by(&v->parts, n, ranks, part, err) ||
                   yk__coll_alloc(coll, "gradients", n * sizeof(float), YK__COLL_PRIVATE, &v->grad, err) ||
                   yk__coll_keep_residual(coll, &v->grad, err) ||
                   yk__coll_alloc(coll, "parameters", n * sizeof(float), YK__COLL_COMMON, &v->param, err)
               ? err->status
               : YK_OK;
}

/* Checks vectors of the members, which own by `part`. */
static int check_vectors(yk__comm *comm, uint32_t n, const double *part, yk_error *err)
{
    vector v[2];
    int bad = 1;
    if (!vector_new(&v[0], n, part, err) && !vector_new(&v[1], LITTLE, part, err)) {
        bad = run_turns(comm, v, err);
        for (uint32_t k = 0; k < 2; k++) {
            yk__coll_release(coll, &v[k].grad);
            yk__coll_release(coll, &v[k].param);
            yk__slices_free(&v[k].parts);
        }
    }
    return bad;
}

/* Checks with all ranks, then without rank 1, so that hosts have other members. */
static int check_all(yk_error *err)
{
    const bool some[HOSTS_RANKS] = {true, false, true, true, true}, all[HOSTS_RANKS] = {true, true, true, true, true};
    const double part[HOSTS_RANKS] = {1, 36, 0, 2, 1}, others[HOSTS_RANKS] = {36, 0, 1, 1, 2};
    yk__comm *members = yk__coll_members(coll);
    if (check_vectors(members, NUMBERS, part, err) || check_broadcasts(err) || yk__comm_set_members(members, some, err))
        return 1;
    if (check_vectors(members, NUMBERS, others, err) || yk__comm_set_members(members, all, err))
        return 1;
    return check_vectors(members, 3 * LITTLE, part, err);
}

static yk_status rank_join(yk_error *err)
{
    static uint32_t advance;
    yk__control_config config = {.liveness_ms = 20000, .join_ms = 60000, .stuck_ms = 60000, .advance = &advance};
    yk__origin origin;
    if (yk__origin_find(&origin, err) || yk__bootstrap(&origin, config.join_ms, true, &config.job_fd, &config.agent, err) ||
        yk__control_join(&config, &control, err))
        return err->status;
    rank = yk__control_rank(control);
    ranks = yk__control_size(control);
    return YK_OK;
}

static int run_collectives(const char *what)
{
    yk_error err = YK_ERROR_INIT;
    by_host = strstr(what, "run") != NULL;
    narrow = strstr(what, "narrow") != NULL;
    wire = strstr(what, "int8") ? YK__WIRE_INT8 : strstr(what, "bf16") ? YK__WIRE_BF16 : YK__WIRE_F32;
    yk__coll_config config = {.by_host = by_host, .wire = wire, .columns_from = UINT64_MAX};
    config.progress = strstr(what, "threaded") != NULL;
    config.rounds_below = config.progress ? UINT64_MAX : 0;
#ifdef HAVE_SODIUM
    config.transport = yk__sock_transport();
#endif
    if (!rank_join(&err)) {
        config.control = control;
        if ((yk__coll_new(&config, &coll, &err) || check_all(&err)) && err.status != YK_E_CANCELLED)
            yk__control_end(control, rank, err.status, err.text);
        yk__coll_free(coll);
        yk__control_leave(control);
    }
    printf("%s", err.text);
    return err.status ? 3 : 0;
}

/* ---- Training ----------------------------------------------------------------------------------------------------- */

enum { ROWS = 16, IN = 24, HIDDEN = 200, OUT = 5, STEPS = 40, FACTORS = 4 };

static void make_batch(yk_job *job, uint32_t step, yk_t *x, yk_t *labels)
{
    const uint32_t number = yk_rank(job), world = yk_world_size(job);
    float point[ROWS][IN];
    int32_t label[ROWS], row[ROWS];
    for (uint32_t i = 0; i < ROWS; i++) {
        row[i] = (int32_t)(number * ROWS + i);
        label[i] = (int32_t)((step * ROWS + i) % OUT);
        for (uint32_t k = 0; k < IN; k++)
            point[i][k] = input_of(number, step, i * IN + k) / 65536.0f / 1e6f + (k == (uint32_t)label[i] ? 0.4f : 0.0f);
    }
    yk_set_rows(job, ROWS, row, (int64_t)world * ROWS);
    *x = yk_input(job, YK_F32, 2, (int64_t[]){ROWS, IN}, point);
    *labels = yk_input(job, YK_I32, 1, (int64_t[]){ROWS}, label);
}

static const yk_init normal = {YK_INIT_NORMAL, 0, 0.1f};

typedef struct training {
    yk_job *job;
    yk_t w1, w2;
    yk_opt *opt;
} training;

static training training_make(const yk_config *config, double rate, yk_init init)
{
    training t = {.job = yk_open(config)};
    t.w1 = yk_param(t.job, "w1", 2, (int64_t[]){HIDDEN, IN}, init);
    t.w2 = yk_param(t.job, "w2", 2, (int64_t[]){OUT, HIDDEN}, init);
    t.opt = yk_adam(t.job, &(yk_adam_config){.lr = rate});
    return t;
}

static training training_open(double rate, uint32_t factors, yk_init init)
{
    return training_make(&(yk_config){.seed = 1, .quiet = true, .power_sgd_rank = factors}, rate, init);
}

/* The last step's loss. */
static double run_steps(training *t, uint32_t from, uint32_t to)
{
    double loss_value = 0;
    for (uint32_t step = from; step < to && yk_ok(t->job); step++) {
        yk_t x, labels, loss;
        make_batch(t->job, step, &x, &labels);
        loss = yk_cross_entropy(yk_linear(yk_tanh(yk_linear(x, t->w1, YK_NO)), t->w2, YK_NO), labels);
        yk_backward(loss);
        if (step + 1 == to)
            loss_value = yk_item(loss);
        yk_step(t->opt);
    }
    return loss_value;
}

/* Prints the hash of the parameters after the first step and after the last, of a rate that bf16 has no digits for at such weights. */
static int run_little(void)
{
    training t = training_open(1e-5, 0, (yk_init){YK_INIT_UNIFORM, 0.5f, 1.0f});
    run_steps(&t, 0, 1);
    const uint64_t first = yk_param_hash(t.job);
    run_steps(&t, 1, STEPS);
    const uint64_t last = yk_param_hash(t.job);
    printf("%016llx %016llx", (unsigned long long)first, (unsigned long long)last);
    return yk_close(t.job);
}

/* Ends it; an error is printed. */
static int training_hash(training *t, uint64_t *hash)
{
    *hash = yk_param_hash(t->job);
    if (!yk_ok(t->job))
        printf("%s", yk_error_text(t->job));
    return yk_close(t->job);
}

static int print_pair(const uint64_t hash[2])
{
    printf("%016llx %016llx", (unsigned long long)hash[0], (unsigned long long)hash[1]);
    return 0;
}

/* Prints the hash of a training that saves half-way and goes on, and of one that goes on from there. */
static int run_resumed(uint32_t factors)
{
    enum { HALF = 6 };
    const char *dir = getenv("TOPOLOGY_DIR");
    uint64_t hash[2];
    for (int again = 0; again < 2; again++) {
        training t = training_open(0.003, factors, normal);
        if (again)
            yk_load(t.job, dir);
        else
            run_steps(&t, 0, HALF);
        if (!again)
            yk_save(t.job, dir);
        run_steps(&t, HALF, 2 * HALF);
        if (training_hash(&t, &hash[again]))
            return 3;
    }
    return print_pair(hash);
}

/* Prints the hash of a training in fp16 whose loss scale stays, and of one whose scale doubles after every third step. */
static int run_scaled(uint32_t factors)
{
    uint64_t hash[2];
    for (uint32_t grows = 0; grows < 2; grows++) {
        training t = training_make(&(yk_config){.seed = 1, .quiet = true, .power_sgd_rank = factors, .precision = YK_F16,
                                                .scale = {.init = 64, .growth = 2, .interval = grows ? 3 : 1000}}, 0.003, normal);
        run_steps(&t, 0, 12);
        if (training_hash(&t, &hash[grows]))
            return 3;
    }
    return print_pair(hash);
}

static void set_roles(training *t, const own_roles *roles)
{
    yk_error err = YK_ERROR_INIT;
    if (yk_ok(t->job) && own_roles_set(t->job->engine, roles, &err))
        yk_fail(t->job, err.status, err.text);
}

static void set_members(training *t, bool both)
{
    set_roles(t, &(own_roles){.member = {true, both}, .owns = {1, 0}});
}

/* Prints the hash of a training of a rate that bf16 has no digits for, in which rank 1 owns more, less and nothing and is excluded, and
 * of one that gathers the whole parameters by hand before each such change, as for a checkpoint. */
static int run_moved(void)
{
    static const own_roles roles[] = {{{true, true}, {3, 1}}, {{true, true}, {1, 2}}, {{true, false}, {1, 0}}, {{true, true}, {1, 1}}};
    uint64_t hash[2];
    for (int by_hand = 0; by_hand < 2; by_hand++) {
        training t = training_open(1e-5, 0, (yk_init){YK_INIT_UNIFORM, 0.5f, 1.0f});
        uint32_t step = 0;
        for (size_t i = 0; i < sizeof roles / sizeof *roles && yk_ok(t.job); i++) {
            yk_error err = YK_ERROR_INIT;
            if (yk__engine_roles(t.job->engine)->member[1]) /* else it would have no rows */
                run_steps(&t, step, step + 3);
            step += 3;
            if (by_hand && yk__engine_whole(t.job->engine, &err))
                yk_fail(t.job, err.status, err.text);
            set_roles(&t, &roles[i]);
        }
        if (training_hash(&t, &hash[by_hand]))
            return 3;
    }
    return print_pair(hash);
}

/* Rank 1 owns nothing and is excluded for a while. Prints the hash of the training, and of one whose residuals are cleared by hand then. */
static int run_excluded(void)
{
    uint64_t hash[2];
    for (int by_hand = 0; by_hand < 2; by_hand++) {
        training t = training_open(0.003, 0, normal);
        run_steps(&t, 0, 1);
        set_members(&t, true);
        run_steps(&t, 1, 4);
        set_members(&t, false);
        set_members(&t, true);
        if (by_hand && yk_ok(t.job))
            yk__exchange_clear_residual(&t.job->engine->exchange);
        run_steps(&t, 4, 8);
        if (training_hash(&t, &hash[by_hand]))
            return 3;
    }
    return print_pair(hash);
}

/* Prints the hash of the parameters and the last loss. */
static int run_training(uint32_t factors)
{
    training t = training_open(0.003, factors, normal);
    const double loss_value = run_steps(&t, 0, STEPS);
    if (yk_ok(t.job))
        printf("%016llx %.6f", (unsigned long long)yk_param_hash(t.job), loss_value);
    else
        printf("%s", yk_error_text(t.job));
    return yk_close(t.job);
}

/* ---- The test ----------------------------------------------------------------------------------------------------- */

static const struct {
    const char *hosts, *what;
} runs[] = {{"aabb", "rank-fp32"}, {"abab", "rank-fp32-threaded"}, {"abbbc", "rank-bf16"}, {"aabb", "run-fp32-threaded"},
            {"abbbc", "run-fp32"}, {"aabba", "run-bf16"}, {"abc", "run-bf16-threaded"}, {"abbbc", "rank-int8"},
            {"aabba", "run-int8-threaded"}, {"abbbc", "run-bf16-narrow"}, {"abcde", "rank-int8-narrow-threaded"}};

START_TEST(each_host_gets_bytes_once)
{
    hosts_job j;
    hosts_new(&j, runs[_i].hosts);
    hosts_start(&j, runs[_i].what);
    hosts_wait(&j, -1);
    hosts_assert_well(&j);
    hosts_free(&j);
}
END_TEST

/* Trains over hosts; the parameters' hash, the same on all ranks, and the loss. */
static double train_as(const char *what, const char *hosts, const char *sums, const char *format, char hash[17])
{
    hosts_job j;
    double loss;
    setenv("YOKE_REPRODUCIBILITY", sums, 1);
    setenv("YOKE_WIRE", format, 1);
    hosts_new(&j, hosts);
    hosts_start(&j, what);
    hosts_wait(&j, -1);
    hosts_assert_well(&j);
    ck_assert_int_eq(sscanf(j.said[0], "%16s %lf", hash, &loss), 2);
    for (uint32_t r = 1; r < j.ranks; r++)
        ck_assert_msg(!strcmp(j.said[0], j.said[r]), "rank %u of %s: '%s', rank 0: '%s'", r, hosts, j.said[r], j.said[0]);
    hosts_free(&j);
    return loss;
}

static double train_over(const char *hosts, const char *sums, const char *format, char hash[17])
{
    return train_as("train", hosts, sums, format, hash);
}

/* Factors of rank 4 of 200 x 24; of 5 x 200 they would be too long. The sums do not depend on hosts, so neither do the bits. */
START_TEST(factors_of_gradients_train)
{
    char whole[17], hash[17], others[17];
    const double loss = train_over("ab", "rank", "fp32", whole), factored = train_as("factors", "ab", "rank", "fp32", hash);
    train_as("factors", "aa", "rank", "fp32", others);
    ck_assert_msg(fabs(factored - loss) < 2e-2 * loss, "%g, with factors %g", loss, factored);
    ck_assert_msg(strcmp(whole, hash), "nothing was factored");
    ck_assert_str_eq(hash, others);
}
END_TEST

START_TEST(training_over_hosts)
{
    char by_rank[17], others[17], by_hosts[17], rounded[17], fast[17];
    const double any = train_over("aabb", "fast", "fp32", fast);
    if (TEST_UNDER_TSAN)
        return; /* sums in an order have the threads of the trainings below; their losses are the plain build's */
    const double loss = train_over("aabb", "rank", "fp32", by_rank);
    train_over("abbc", "rank", "fp32", others);
    ck_assert_str_eq(by_rank, others);
    const double near = train_over("aabb", "run", "fp32", by_hosts), rough = train_over("aabb", "run", "bf16", rounded);
    ck_assert_msg(loss < 0.8 && fabs(near - loss) < 1e-3 * loss && fabs(rough - loss) < 2e-2 * loss, "%g, by host %g, bf16 %g", loss,
                  near, rough);
    const double eighth = train_over("aabb", "run", "int8", rounded);
    ck_assert_msg(fabs(eighth - loss) < 2e-2 * loss, "%g, int8 %g", loss, eighth);
    setenv("YOKE_WIRE_PARAMS", "bf16", 1);
    const double narrowed = train_over("aabb", "run", "int8", rounded);
    unsetenv("YOKE_WIRE_PARAMS");
    ck_assert_msg(fabs(narrowed - loss) < 2e-2 * loss, "%g, with parameters in bf16 %g", loss, narrowed);
    ck_assert_msg(fabs(any - loss) < 1e-3 * loss, "%g, in any order %g", loss, any);
    ck_assert_msg(strcmp(by_rank, by_hosts) && strcmp(by_hosts, rounded), "other sums have the same bits: %s %s %s", by_rank, by_hosts,
                  rounded);
}
END_TEST

/* Two hashes that all ranks print alike. */
static void print_hashes(const char *hosts, const char *what, char hash[2][17])
{
    hosts_job j;
    setenv("YOKE_WIRE", strstr(what, "factors") ? "fp32" : "int8", 1);
    setenv("YOKE_WIRE_PARAMS", "bf16", 1);
    hosts_new(&j, hosts);
    char dir[128];
    snprintf(dir, sizeof dir, "%s/checkpoint", j.folder);
    setenv("TOPOLOGY_DIR", dir, 1);
    hosts_start(&j, what);
    hosts_wait(&j, -1);
    hosts_assert_well(&j);
    ck_assert_int_eq(sscanf(j.said[0], "%16s %16s", hash[0], hash[1]), 2);
    for (uint32_t r = 1; r < j.ranks; r++)
        ck_assert_msg(!strcmp(j.said[0], j.said[r]), "rank %u: '%s', rank 0: '%s'", r, j.said[r], j.said[0]);
    hosts_free(&j);
}

static void assert_alike(const char *hosts, const char *what)
{
    char hash[2][17];
    print_hashes(hosts, what, hash);
    ck_assert_str_eq(hash[0], hash[1]);
}

START_TEST(owners_keep_what_is_rounded_away_from_parameters)
{
    char hash[2][17];
    print_hashes("ab", "little", hash);
    ck_assert_msg(strcmp(hash[0], hash[1]), "the parameters stay %s", hash[0]);
}
END_TEST

START_TEST(what_is_rounded_away_is_in_checkpoints_or_lost_on_both_sides)
{
    assert_alike("aab", "resumed");
    assert_alike("ab", "resumed-factors");
}
END_TEST

/* Scales are powers of two: the bits are those of a scale that stays, if what was rounded away is scaled too. */
START_TEST(what_is_rounded_away_follows_the_loss_scale)
{
    assert_alike("ab", "scaled");
    assert_alike("ab", "scaled-factors");
}
END_TEST

/* It is of rows that others have had since, and of a host's sum that another member may have sent since. */
START_TEST(what_is_rounded_away_ends_with_a_membership)
{
    assert_alike("ab", "excluded");
}
END_TEST

START_TEST(what_is_rounded_away_is_in_the_parameters_when_owners_change)
{
    assert_alike("ab", "moved");
}
END_TEST

START_TEST(factors_have_no_wire_format)
{
    hosts_job j;
    setenv("YOKE_WIRE", "int8", 1);
    hosts_new(&j, "ab");
    hosts_start(&j, "factors");
    hosts_wait(&j, -1);
    for (uint32_t r = 0; r < 2; r++)
        ck_assert_msg(strstr(j.said[r], "YOKE_WIRE is \"int8\", but with PowerSGD"), "rank %u: '%s'", r, j.said[r]);
    hosts_free(&j);
}
END_TEST

START_TEST(settings_that_differ_are_named)
{
    hosts_job j;
    hosts_new(&j, "ab");
    hosts_choose_port(&j);
    setenv("YOKE_WIRE", "bf16", 1);
    hosts_start_rank(&j, 0, "train", "secret");
    setenv("YOKE_WIRE", "fp32", 1);
    hosts_start_rank(&j, 1, "train", "secret");
    hosts_wait(&j, -1);
    for (uint32_t r = 0; r < 2; r++)
        ck_assert_msg(strstr(j.said[r], "YOKE_WIRE is 'bf16' on rank 0"), "rank %u: '%s'", r, j.said[r]);
    hosts_free(&j);
}
END_TEST

static int run_suite(void)
{
    TCase *t = tcase_create("topology");
    tcase_set_timeout(t, 240);
    setenv("YOKE_DEVICES", "cpu:0", 1);
    setenv("YOKE_LIVENESS_MS", "20000", 1); /* nobody dies here, but a busy machine is slow */
#ifdef HAVE_SODIUM
    tcase_add_loop_test(t, each_host_gets_bytes_once, 0, (int)(sizeof runs / sizeof *runs));
    tcase_add_test(t, training_over_hosts);
    tcase_add_test(t, factors_of_gradients_train);
    tcase_add_test(t, owners_keep_what_is_rounded_away_from_parameters);
    tcase_add_test(t, what_is_rounded_away_is_in_checkpoints_or_lost_on_both_sides);
    tcase_add_test(t, what_is_rounded_away_follows_the_loss_scale);
    tcase_add_test(t, what_is_rounded_away_ends_with_a_membership);
    tcase_add_test(t, what_is_rounded_away_is_in_the_parameters_when_owners_change);
    tcase_add_test(t, factors_have_no_wire_format);
    tcase_add_test(t, settings_that_differ_are_named);
#endif
    return suite_run("topology", t);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return run_suite();
    alarm(WATCHDOG_S);
    const uint32_t factors = strstr(argv[1], "factors") ? FACTORS : 0;
    if (!strcmp(argv[1], "train") || !strcmp(argv[1], "factors"))
        return run_training(factors);
    if (!strcmp(argv[1], "little"))
        return run_little();
    if (!strcmp(argv[1], "moved"))
        return run_moved();
    if (!strcmp(argv[1], "excluded"))
        return run_excluded();
    if (strstr(argv[1], "scaled"))
        return run_scaled(factors);
    if (strstr(argv[1], "resumed"))
        return run_resumed(factors);
    return run_collectives(argv[1]);
}
