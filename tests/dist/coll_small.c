/* SPDX-License-Identifier: Apache-2.0 */
/* Small collectives, each compared bit for bit with what a rank makes alone. */
#include "config.h"

#include "tests/dist/coll_small.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "core/base/hash.h"
#include "core/base/philox.h"

yk__control *control;
yk__coll *coll;
uint32_t rank, ranks;
uint64_t hash = YK_HASH_SEED;

float input_of(uint32_t r, uint32_t call, uint32_t i)
{
    uint32_t c[4] = {i, r, call, 0}, k[2] = {7, 11}, out[4];
    yk__philox(c, k, out);
    return (float)(((double)out[0] - 2147483648.0) / 65536.0 * (out[1] % 7 ? 1.0 : 1e6));
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
    hash = yk__hash_bytes(hash, data, bytes);
}

/* ---- Small ones --------------------------------------------------------------------------------------------------- */

float expected_sum(const yk__comm *comm, uint32_t call, uint32_t i)
{
    float sum = 0;
    bool first = true;
    for (uint32_t r = 0; r < ranks; r++) {
        if (!yk__comm_has(comm, r))
            continue;
        sum = first ? input_of(r, call, i) : sum + input_of(r, call, i);
        first = false;
    }
    return sum;
}

int check_sums(yk__comm *comm, uint32_t call, uint32_t n, bool feeds, yk_error *err)
{
    static float v[16384];
    const yk__coll_desc d = {.kind = YK__COLL_ALL_REDUCE, .dtype = YK_F32, .out = v, .count = n, .feeds = feeds};
    for (uint32_t i = 0; i < n; i++)
        v[i] = input_of(rank, call, i);
    if (yk__coll_run(comm, &d, err))
        return 1;
    mix_hash(v, n * sizeof *v);
    for (uint32_t i = 0; i < n; i++) {
        const float want = expected_sum(comm, call, i);
        if (memcmp(&want, &v[i], sizeof want))
            return 1;
    }
    return 0;
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
    memset(out, 0xff, sizeof out);
    for (uint32_t i = 0; i < bytes; i++)
        in[i] = (unsigned char)(rank * 31 + call + i);
    if (yk__coll_run(comm, &d, err))
        return 1;
    mix_hash(out, bytes * ranks);
    for (uint32_t r = 0; r < ranks; r++)
        for (uint32_t i = 0; i < bytes; i++)
            if (out[r * bytes + i] != (yk__comm_has(comm, r) ? (unsigned char)(r * 31 + call + i) : 0))
                return 1;
    return 0;
}

int check_broadcast(yk__comm *comm, uint32_t call, uint64_t bytes, yk_error *err)
{
    static unsigned char data[400000];
    for (uint32_t root = 0; root < ranks; root++) {
        const yk__coll_desc d = {.kind = YK__COLL_BROADCAST, .dtype = YK_U8, .root = root, .out = data, .count = bytes};
        if (!yk__comm_has(comm, root))
            continue;
        for (uint64_t i = 0; i < bytes; i++)
            data[i] = rank == root ? (unsigned char)(root + call + i * 7) : 0;
        if (yk__coll_run(comm, &d, err))
            return 1;
        for (uint64_t i = 0; i < bytes; i++)
            if (data[i] != (unsigned char)(root + call + i * 7))
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
        for (uint32_t i = 0; i < N; i++)
            v[k][i] = input_of(rank, turn + k, i);
        if ((k + turn) % ranks == rank)
            usleep(2000);
        if (yk__coll_begin(world, &d, &request[k], err))
            return 1;
    }
    for (uint32_t k = 0; k < MANY; k++)
        if (yk__coll_wait(request[(k * 5 + turn) % MANY], err))
            return 1;
    for (uint32_t k = 0; k < MANY; k++)
        for (uint32_t i = 0; i < N; i++) {
            const float want = expected_sum(world, turn + k, i);
            if (memcmp(&want, &v[k][i], sizeof want))
                return 1;
        }
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
