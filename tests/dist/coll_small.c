/* SPDX-License-Identifier: Apache-2.0 */
/* Small collectives, each compared bit for bit with what a rank makes alone. */
#include "config.h"

#include "tests/dist/coll_small.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "core/base/hash.h"
#include "tests/support/sanitize.h"

yk__control *control;
yk__coll *coll;
uint32_t rank, ranks;
uint64_t hash = YK_HASH_SEED;

/* Loops over arrays of this test alone: what goes to the library and what it should make is copied and compared as a whole. */

static float numbers[16384];
static unsigned char octets[400000];

TEST_LONE_LOOPS float input_of(uint32_t r, uint32_t call, uint32_t i)
{
    uint64_t x = ((uint64_t)(r + 1) << 40 ^ (uint64_t)call << 20 ^ i) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9u;
    return (float)((double)(int32_t)(x >> 32) / 65536.0 * ((x & 7) ? 1.0 : 1e6));
}

TEST_LONE_LOOPS static void numbers_add(uint32_t r, uint32_t call, uint32_t n, bool is_first, float *sum)
{
    for (uint32_t i = 0; i < n; i++) {
        const float x = input_of(r, call, i);
        sum[i] = is_first ? x : sum[i] + x;
    }
}

void inputs_fill(float *to, uint32_t call, uint32_t n)
{
    numbers_add(rank, call, n, true, numbers);
    memcpy(to, numbers, n * sizeof *to);
}

TEST_LONE_LOOPS static void octets_fill(uint32_t first, uint32_t each, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        octets[i] = (unsigned char)(first + i * each);
}

int report_wrong(const yk_error *err, const char *what, uint32_t call)
{
    yk_error own = *err;
    if (own.status == YK_OK)
        yk__fail(&own, YK_E_INTERNAL, "%s, call %u: wrong result", what, call);
    yk__control_end(control, rank, own.status, own.text);
    return 1;
}

void mix_hash(const void *data, size_t bytes)
{
    if (rank == 0) /* which leaves it */
        hash = yk__hash_bytes(hash, data, bytes);
}

/* ---- Small ones --------------------------------------------------------------------------------------------------- */

const float *sums_expect(const yk__comm *comm, uint32_t call, uint32_t n)
{
    bool is_first = true;
    for (uint32_t r = 0; r < ranks; r++) {
        if (!yk__comm_has(comm, r))
            continue;
        numbers_add(r, call, n, is_first, numbers);
        is_first = false;
    }
    return numbers;
}

int check_sums(yk__comm *comm, uint32_t call, uint32_t n, bool feeds, yk_error *err)
{
    static float v[16384];
    const yk__coll_desc d = {.kind = YK__COLL_ALL_REDUCE, .dtype = YK_F32, .out = v, .count = n, .feeds = feeds};
    inputs_fill(v, call, n);
    if (yk__coll_run(comm, &d, err))
        return 1;
    mix_hash(v, n * sizeof *v);
    return memcmp(sums_expect(comm, call, n), v, n * sizeof *v) != 0;
}

/* Rows apart, their gaps untouched; a maximum with a NaN; moments. */
static int check_columns(yk__coll_op op, uint32_t call, uint32_t n, yk_error *err)
{
    static float v[3 * 6000];
    const uint32_t rows = op == YK__COLL_MOMENTS ? 3 : 2, pitch = n + 3;
    const yk__coll_desc d = {.kind = YK__COLL_ALL_REDUCE, .dtype = YK_F32, .op = op, .out = v, .count = n, .rows = rows, .pitch = pitch};
    for (uint32_t i = 0; i < rows * pitch; i++)
        v[i] = i / pitch == 2 ? (float)((rank + i) % 3) : fabsf(input_of(rank, call, i));
    if (op == YK__COLL_MAX && n && rank + 1 == ranks)
        v[0] = NAN;
    if (yk__coll_run(yk__coll_world(coll), &d, err))
        return 1;
    for (uint32_t r = 0; r < rows; r++)
        mix_hash(v + r * pitch, n * sizeof *v);
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t i = n; i < pitch; i++)
            if (v[r * pitch + i] != (r == 2 ? (float)((rank + r * pitch + i) % 3) : fabsf(input_of(rank, call, r * pitch + i))))
                return 1;
    return op == YK__COLL_MAX && n && !isnan(v[0]);
}

int check_gather(yk__comm *comm, uint32_t call, uint32_t bytes, bool feeds, yk_error *err)
{
    static unsigned char in[65536], out[MAX_RANKS * 65536];
    const yk__coll_desc d = {.kind = YK__COLL_ALL_GATHER, .dtype = YK_U8, .in = in, .out = out, .count = bytes, .feeds = feeds};
    memset(out, 0xff, (size_t)bytes * ranks);
    octets_fill(rank * 31 + call, 1, bytes);
    memcpy(in, octets, bytes);
    if (yk__coll_run(comm, &d, err))
        return 1;
    mix_hash(out, bytes * ranks);
    for (uint32_t r = 0; r < ranks; r++) {
        const bool has = yk__comm_has(comm, r);
        octets_fill(has ? r * 31 + call : 0, has, bytes);
        if (memcmp(out + r * bytes, octets, bytes))
            return 1;
    }
    return 0;
}

int check_broadcast(yk__comm *comm, uint32_t call, uint64_t bytes, yk_error *err)
{
    static unsigned char data[400000];
    for (uint32_t root = 0; root < ranks; root++) {
        const yk__coll_desc d = {.kind = YK__COLL_BROADCAST, .dtype = YK_U8, .root = root, .out = data, .count = bytes};
        if (!yk__comm_has(comm, root))
            continue;
        octets_fill(root + call, 7, bytes);
        memset(data, 0, bytes);
        if (rank == root)
            memcpy(data, octets, bytes);
        if (yk__coll_run(comm, &d, err) || memcmp(data, octets, bytes))
            return 1;
    }
    return 0;
}

/* More small ones under way than there are places for their data, and ranks that are late by turns. */
static int check_many(uint32_t turn, yk_error *err)
{
    enum { MANY = 12, N = 700 };
    static float v[MANY][N];
    yk__comm *world = yk__coll_world(coll);
    yk__request *request[MANY];
    for (uint32_t k = 0; k < MANY; k++) {
        const yk__coll_desc d = {.kind = YK__COLL_ALL_REDUCE, .dtype = YK_F32, .out = v[k], .count = N};
        inputs_fill(v[k], turn + k, N);
        if ((k + turn) % ranks == rank)
            usleep(2000);
        if (yk__coll_begin(world, &d, &request[k], err))
            return 1;
    }
    for (uint32_t k = 0; k < MANY; k++)
        if (yk__coll_wait(request[(k * 5 + turn) % MANY], err))
            return 1;
    for (uint32_t k = 0; k < MANY; k++)
        if (memcmp(sums_expect(world, turn + k, N), v[k], sizeof v[k]))
            return 1;
    mix_hash(v, sizeof v);
    return 0;
}

int case_small(yk_error *err)
{
    static const uint32_t sizes[] = {1, 0, 3, 64, 1000, 5000};
    static const uint64_t large[] = {1, 0, 65536, 65537, 300001};
    yk__comm *world = yk__coll_world(coll);
    for (uint32_t i = 0; i < 6; i++) {
        if (check_sums(world, i, sizes[i], false, err))
            return report_wrong(err, "sum", i);
        if (check_columns(YK__COLL_MAX, i, sizes[i], err))
            return report_wrong(err, "maximum", i);
        if (check_columns(YK__COLL_MOMENTS, i, sizes[i], err))
            return report_wrong(err, "moments", i);
        if (check_gather(world, i, i == 5 ? 65536 : sizes[i] * 5, false, err))
            return report_wrong(err, "all-gather", i);
        if (i < 5 && check_broadcast(world, i, large[i], err))
            return report_wrong(err, "broadcast", i);
    }
    for (uint32_t i = 0; i < 10; i++)
        if (check_many(i, err))
            return report_wrong(err, "many sums", i);
    for (uint32_t i = 0; i < 200; i++)
        if (yk__coll_run(world, &(yk__coll_desc){.kind = YK__COLL_BARRIER}, err))
            return report_wrong(err, "barrier", i);
    return 0;
}

int case_few(yk_error *err)
{
    static const uint32_t sizes[] = {1, 0, 33, 301};
    bool odd[MAX_RANKS], all[MAX_RANKS];
    for (uint32_t r = 0; r < MAX_RANKS; r++)
        odd[r] = r % 2 || ranks < 4, all[r] = true;
    for (uint32_t i = 0; i < 4; i++) {
        yk__comm *world = yk__coll_world(coll), *members = yk__coll_members(coll);
        if (check_sums(world, i, sizes[i], false, err) || check_columns(YK__COLL_MAX, i, sizes[i], err) ||
            check_columns(YK__COLL_MOMENTS, i, sizes[i], err) || check_gather(world, i, sizes[i] * 5, false, err) ||
            check_broadcast(world, i, sizes[i] * 3, err))
            return report_wrong(err, "small ones of all", i);
        if (yk__comm_set_members(members, odd, err) || check_sums(members, i, sizes[i], true, err) ||
            check_gather(members, i, sizes[i], true, err) || yk__comm_set_members(members, all, err))
            return report_wrong(err, "small ones of some", i);
    }
    return check_many(3, err) ? report_wrong(err, "many sums", 3) : 0;
}
