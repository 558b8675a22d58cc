/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives between processes, bit for bit equal to sums in the order of rank numbers made by each rank alone. */
#include "config.h"

#include "tests/support/ranks.h"
#include "tests/support/run.h"
#include "tests/support/sanitize.h"

#include <check.h>
#include <math.h>
#include <unistd.h>

#include "core/base/philox.h"

#define MAX_RANKS 8

/* Every rank can compute every rank's input. */
static double rank_input(uint32_t rank, uint32_t call, uint32_t i)
{
    uint32_t c[4] = {i, rank, call, 0}, k[2] = {7, 11}, out[4];
    yk__philox(c, k, out);
    return ((double)out[0] - 2147483648.0) / 65536.0 * (out[1] % 7 ? 1.0 : 1e6);
}

static int report_wrong(yk_error *err, const char *what, uint32_t call)
{
    if (err->status == YK_OK)
        yk__fail(err, YK_E_INTERNAL, "%s, call %u: wrong result", what, call);
    yk__group_report(err);
    return 1;
}

/* n columns of members' rows, `pitch` apart. */
static yk__coll_desc columns_desc(yk__coll_op op, float *v, uint32_t rows, uint32_t n, uint32_t pitch)
{
    return (yk__coll_desc){
        .kind = YK__COLL_ALL_REDUCE, .dtype = YK_F32, .op = op, .out = v, .count = n, .rows = rows, .pitch = pitch};
}

static yk_status run_members(yk__group *g, const yk__coll_desc *d, yk_error *err)
{
    return yk__coll_run(yk__coll_members(yk__group_coll(g)), d, err);
}

enum { INSTRUMENTED = TEST_UNDER_TSAN || TEST_UNDER_ASAN }; /* more turns have other numbers, in the same places */

static int check_sums(yk__group *g, uint32_t call, uint32_t n, yk_error *err)
{
    uint32_t ranks = yk__group_size(g), me = yk__group_rank(g);
    static double d[8192];
    static float f[16384];
    const yk__coll_desc columns = columns_desc(YK__COLL_SUM, f, 1, n, n);
    yk__request *request = NULL;
    for (uint32_t i = 0; i < n; i++) {
        d[i] = rank_input(me, call, i);
        f[i] = (float)d[i];
    }
    if (yk__group_sum_f64(g, d, n, err) || yk__coll_begin(yk__coll_members(yk__group_coll(g)), &columns, &request, err))
        return 1;
    memset(f, 0xff, n * sizeof *f); /* it was taken along */
    if (yk__coll_wait(request, err))
        return 1;
    for (uint32_t i = 0; i < n; i++) {
        double sd = rank_input(0, call, i);
        float sf = (float)sd;
        for (uint32_t r = 1; r < ranks; r++) {
            sd += rank_input(r, call, i);
            sf += (float)rank_input(r, call, i);
        }
        if (memcmp(&sd, &d[i], sizeof sd) || memcmp(&sf, &f[i], sizeof sf))
            return 1;
    }
    return 0;
}

/* The largest over ranks; of element 0 a NaN, which the last rank has. */
static int check_maxima(yk__group *g, uint32_t call, uint32_t n, yk_error *err)
{
    const uint32_t ranks = yk__group_size(g), me = yk__group_rank(g);
    static float f[16384];
    const yk__coll_desc columns = columns_desc(YK__COLL_MAX, f, 1, n, n);
    for (uint32_t i = 0; i < n; i++)
        f[i] = i || me + 1 < ranks ? (float)rank_input(me, call, i) : NAN;
    if (run_members(g, &columns, err))
        return 1;
    for (uint32_t i = 0; i < n; i++) {
        float top = (float)rank_input(0, call, i);
        for (uint32_t r = 1; r < ranks; r++)
            top = fmaxf(top, (float)rank_input(r, call, i));
        if (i ? f[i] != top : !isnan(f[i]))
            return 1;
    }
    return 0;
}

/* Numbers of rank r in channel i; none on some ranks. */
static uint32_t number_count(uint32_t r, uint32_t i)
{
    return (r + i) % 3 ? 1 + (r * 7 + i) % 5 : 0;
}

/* Far from zero, so that sums of squares without the mean taken off would lose all digits. */
static double rank_number(uint32_t r, uint32_t call, uint32_t i, uint32_t k)
{
    return 3000.0 + (double)((r * 37 + call * 11 + i * 5 + k * 13) % 64) / 64.0;
}

static void moments_of(uint32_t first, uint32_t last, uint32_t call, uint32_t i, double *v)
{
    v[0] = v[1] = v[2] = 0.0;
    for (uint32_t r = first; r < last; r++)
        v[2] += number_count(r, i);
    for (uint32_t r = first; r < last; r++)
        for (uint32_t k = 0; k < number_count(r, i); k++)
            v[0] += rank_number(r, call, i, k) / v[2];
    for (uint32_t r = first; r < last; r++)
        for (uint32_t k = 0; k < number_count(r, i); k++)
            v[1] += (rank_number(r, call, i, k) - v[0]) * (rank_number(r, call, i, k) - v[0]);
}

/* n columns of `pitch`; the others stay as they are. */
static int check_moments(yk__group *g, uint32_t call, uint32_t n, uint32_t pitch, yk_error *err)
{
    const uint32_t me = yk__group_rank(g);
    static float f[3 * 5461];
    const yk__coll_desc columns = columns_desc(YK__COLL_MOMENTS, f, 3, n, pitch);
    double v[3];
    memset(f, 0, sizeof f);
    for (uint32_t i = 0; i < n; i++) {
        moments_of(me, me + 1, call, i, v);
        for (uint32_t r = 0; r < 3; r++)
            f[r * pitch + i] = (float)v[r];
    }
    if (run_members(g, &columns, err))
        return 1;
    for (uint32_t i = 0; i < pitch; i++) {
        moments_of(0, i < n ? yk__group_size(g) : 0, call, i, v);
        for (uint32_t r = 0; r < 3; r++)
            if (!(fabs((double)f[r * pitch + i] - v[r]) <= (r == 1 ? 1e-2 * (v[1] + 0.1) : r ? 0.0 : 1e-3)))
                return 1;
    }
    return 0;
}

static int check_gathers(yk__group *g, uint32_t call, size_t bytes, yk_error *err)
{
    static unsigned char in[65536], out[MAX_RANKS * 65536];
    for (size_t i = 0; i < bytes; i++)
        in[i] = (unsigned char)(yk__group_rank(g) * 31 + call + i);
    if (yk__group_all_gather(g, in, bytes, out, err))
        return 1;
    for (uint32_t r = 0; r < yk__group_size(g); r++)
        for (size_t i = 0; i < bytes; i++)
            if (out[r * bytes + i] != (unsigned char)(r * 31 + call + i))
                return 1;
    return 0;
}

static int check_broadcasts(yk__group *g, uint32_t call, uint64_t bytes, yk_error *err)
{
    static unsigned char data[400000];
    for (uint32_t root = 0; root < yk__group_size(g); root++) {
        const yk__coll_desc d = {.kind = YK__COLL_BROADCAST, .dtype = YK_U8, .root = root, .out = data, .count = bytes};
        for (uint64_t i = 0; i < bytes; i++)
            data[i] = yk__group_rank(g) == root ? (unsigned char)(root + call + i * 7) : 0;
        if (yk__coll_run(yk__coll_world(yk__group_coll(g)), &d, err))
            return 1;
        for (uint64_t i = 0; i < bytes; i++)
            if (data[i] != (unsigned char)(root + call + i * 7))
                return 1;
    }
    return 0;
}

static int case_small(yk__group *g, yk_error *err)
{
    static const uint32_t sizes[] = {1, 0, 3, 64, 1000, 8192};
    static const uint64_t large[] = {1, 0, 65536, 65537, 300001};
    const uint32_t turns = INSTRUMENTED ? 1 : 3, barriers = INSTRUMENTED ? 500 : 2000;
    for (uint32_t turn = 0; turn < turns; turn++) {
        for (uint32_t i = 0; i < 6; i++) {
            if (check_sums(g, turn * 10 + i, sizes[i], err))
                return report_wrong(err, "sum", i);
            if (check_maxima(g, turn * 10 + i, sizes[i], err))
                return report_wrong(err, "maximum", i);
            if (check_gathers(g, turn * 10 + i, i == 5 ? 65536 : sizes[i] * 5, err))
                return report_wrong(err, "all-gather", i);
            if (i < 5 ? check_moments(g, turn, sizes[i], sizes[i] + i, err) : check_moments(g, turn, 5461, 5461, err))
                return report_wrong(err, "moments", i);
        }
        for (uint32_t i = 0; i < 5; i++)
            if (check_broadcasts(g, turn + i, large[i], err))
                return report_wrong(err, "broadcast", i);
    }
    for (uint32_t i = 0; i < barriers; i++)
        if (yk__group_barrier(g, err) || (i % 100 == 0 && check_sums(g, i, 17, err)))
            return report_wrong(err, "barrier", i);
    return 0;
}

/* One bucket of a step: sizes differ, some are summed in place. */
typedef struct bucket {
    uint64_t n;
    yk__coll_buffer grad, param;
    yk__slices s;
} bucket;

static int bucket_new(yk__group *g, bucket *b, uint64_t n, yk_error *err)
{
    yk__coll *coll = yk__group_coll(g);
    *b = (bucket){.n = n};
    if (yk__slices_even(&b->s, n, yk__group_size(g), err) ||
        yk__coll_alloc(coll, "gradients", n * sizeof(float), YK__COLL_PRIVATE, &b->grad, err))
        return 1;
    for (uint32_t r = 0; r < yk__group_size(g); r++)
        for (uint64_t i = 0; i < n; i++)
            if (((const float *)yk__coll_peer_view(&b->grad, r))[i] != 0)
                return 1;
    if (yk__coll_alloc(coll, "parameters", n * sizeof(float), YK__COLL_COMMON, &b->param, err))
        return 1;
    return yk__group_barrier(g, err) != YK_OK; /* all have seen the zeros */
}

static void bucket_free(yk__group *g, bucket *b)
{
    yk__coll_release(yk__group_coll(g), &b->grad);
    yk__coll_release(yk__group_coll(g), &b->param);
    yk__slices_free(&b->s);
}

static yk_status reduce_bucket(yk__group *g, const bucket *b, float *out, yk_error *err)
{
    const yk__coll_desc d = {
        .kind = YK__COLL_REDUCE_SCATTER, .dtype = YK_F32, .out = out, .count = b->n, .buffer = &b->grad, .parts = &b->s};
    return run_members(g, &d, err);
}

static yk_status gather_bucket(yk__group *g, const bucket *b, yk_error *err)
{
    const yk__coll_desc d = {.kind = YK__COLL_ALL_GATHERV, .dtype = YK_F32, .count = b->n, .buffer = &b->param, .parts = &b->s};
    return run_members(g, &d, err);
}

static int check_params(const yk__group *g, const bucket *b, uint32_t call)
{
    for (uint64_t i = 0; i < b->n; i++) {
        float s = (float)rank_input(0, call, (uint32_t)i);
        for (uint32_t r = 1; r < yk__group_size(g); r++)
            s += (float)rank_input(r, call, (uint32_t)i);
        if (memcmp(&s, (const float *)b->param.mem + i, sizeof s))
            return 1;
    }
    return 0;
}

static int run_step(yk__group *g, bucket *b, uint32_t buckets, uint32_t call, yk_error *err)
{
    uint32_t me = yk__group_rank(g);
    for (uint32_t k = 0; k < buckets; k++) {
        float *block = b[k].grad.mem;
        for (uint64_t i = 0; i < b[k].n; i++)
            block[i] = (float)rank_input(me, call + k, (uint32_t)i);
    }
    for (uint32_t k = 0; k < buckets; k++) {
        uint64_t begin = b[k].s.begin[me];
        float *param = b[k].param.mem, *out = (call % 3 ? param : (float *)b[k].grad.mem) + begin;
        if (reduce_bucket(g, &b[k], out, err))
            return 1;
        if (call % 3 == 0)
            memcpy(param + begin, out, (b[k].s.begin[me + 1] - begin) * sizeof(float));
    }
    for (uint32_t k = 0; k < buckets; k++)
        if (gather_bucket(g, &b[k], err))
            return 1;
    for (uint32_t k = 0; k < buckets; k++)
        if (check_params(g, &b[k], call + k))
            return 1;
    return 0;
}

static int case_slices(yk__group *g, yk_error *err)
{
    static const uint64_t sizes[] = {1, 63, 64, 1025, 30011};
    bucket b[5];
    for (uint32_t k = 0; k < 5; k++)
        if (bucket_new(g, &b[k], sizes[k], err))
            return report_wrong(err, "shared memory", k);
    for (uint32_t turn = 0; turn < (INSTRUMENTED ? 4 : 13); turn++)
        if (run_step(g, b, 5, turn, err))
            return report_wrong(err, "slices", turn);
    for (uint32_t k = 0; k < 5; k++)
        bucket_free(g, &b[k]);
    return 0;
}

static int case_differ(yk__group *g, yk_error *err)
{
    double v[2] = {0, 0};
    yk_status s = yk__group_rank(g) ? yk__group_sum_f64(g, v, 2, err) : yk__group_barrier(g, err);
    if (s == YK_E_INTERNAL && strstr(err->text, "a barrier of 0 bytes") && strstr(err->text, "a sum of f64 of 16 bytes"))
        return 0;
    return report_wrong(err, "unlike collectives", 0);
}

/* The test's place of a call; long, so that its end counts. */
static void test_place(const char **file, int *line)
{
    *file = strcmp(getenv("YOKE_RANK"), "0")
                ? "other.c"
                : "/a/very/long/folder/whose/name/takes/more/than/there/is/room/for/in/a/card/of/a/rank/main.c";
    *line = 10 + atoi(getenv("YOKE_RANK"));
}

static yk_status endless_sums(yk__group *g, yk_error *err)
{
    double v = 1;
    while (!yk__group_sum_members(g, &v, 1, err))
        ;
    return err->status;
}

/* The pairs of calls at which rank 0 and another rank differ. */
static yk_status call_unlike(yk__group *g, const char *what, bucket *b, yk_error *err)
{
    const bool zero = yk__group_rank(g) == 0, last = yk__group_rank(g) + 1 == yk__group_size(g);
    double v[2] = {0, 0};
    float f[2] = {0, 0};
    const yk__coll_desc columns = columns_desc(YK__COLL_SUM, f, 1, 2, 2);
    yk__coll_buffer block;
    if (!strcmp(what, "bucket"))
        return zero ? reduce_bucket(g, b, b->param.mem, err) : yk__group_sum_f64(g, v, 1, err);
    if (!strcmp(what, "slices"))
        return zero ? gather_bucket(g, b, err) : yk__group_sum_members(g, v, 2, err);
    if (!strcmp(what, "next")) /* one has a sum more */
        return zero && yk__group_sum_members(g, v, 1, err) ? err->status : reduce_bucket(g, b, b->param.mem, err);
    if (!strcmp(what, "shared"))
        return zero ? yk__coll_alloc(yk__group_coll(g), "a block", 4096, YK__COLL_COMMON, &block, err) : yk__group_barrier(g, err);
    if (!strcmp(what, "columns"))
        return zero ? run_members(g, &columns, err) : gather_bucket(g, b, err);
    if (!strcmp(what, "excluded-barrier"))
        return last ? yk__group_barrier(g, err) : endless_sums(g, err);
    return last ? yk__group_sum_members(g, v, 1, err) : yk__group_barrier(g, err); /* "excluded-sum" */
}

static int case_diverge(yk__group *g, const char *what, yk_error *err)
{
    bool member[MAX_RANKS] = {true, true, true};
    double begin;
    bucket b;
    if (bucket_new(g, &b, 1000, err))
        return report_wrong(err, "shared memory", 0);
    yk__group_place(g, test_place);
    member[yk__group_size(g) - 1] = strncmp(what, "excluded", 8) != 0;
    if (yk__group_set_members(g, member, err))
        return report_wrong(err, "members", 0);
    begin = ranks_now();
    call_unlike(g, what, &b, err);
    if (ranks_now() - begin > 10.0)
        yk__fail(err, YK_E_TIMEOUT, "%s: it took %.1f s", what, ranks_now() - begin);
    return report_wrong(err, what, 0);
}

static int case_sizes(yk__group *g, yk_error *err)
{
    yk__coll_buffer block;
    yk_status s = yk__coll_alloc(yk__group_coll(g), "a block", yk__group_rank(g) ? 4096 : 8192, YK__COLL_COMMON, &block, err);
    if (s == YK_E_INTERNAL && strstr(err->text, "a block") && strstr(err->text, "8192"))
        return 0;
    return report_wrong(err, "unlike sizes", 0);
}

static int case_environment(yk__group *g, yk_error *err)
{
    char rank[16], size[16], word[16];
    snprintf(rank, sizeof rank, "%u", yk__group_rank(g));
    snprintf(size, sizeof size, "%u", yk__group_size(g));
    snprintf(word, sizeof word, "opencl:0@%u", yk__group_rank(g));
    if (strcmp(getenv("YOKE_RANK"), rank) || strcmp(getenv("YOKE_LOCAL_RANK"), rank) ||
        strcmp(getenv("YOKE_WORLD_SIZE"), size) || strcmp(getenv("YOKE_DEVICES"), word))
        return report_wrong(err, "environment", 0);
    return strcmp(yk__group_name(g, 1), "one") ? report_wrong(err, "name", 1) : 0;
}

static int as_rank(const char *what)
{
    static const struct {
        const char *name;
        int (*run)(yk__group *g, yk_error *err);
    } cases[] = {{"small", case_small},
                 {"slices", case_slices},
                 {"differ", case_differ},
                 {"sizes", case_sizes},
                 {"environment", case_environment}};
    yk_error err = YK_ERROR_INIT;
    yk__group *g;
    int bad = 1;
    if (yk__group_join(!strcmp(getenv("YOKE_RANK"), "1") ? "one" : NULL, &g, &err))
        return report_wrong(&err, "join", 0);
    if (!strncmp(what, "diverge-", 8))
        bad = case_diverge(g, what + 8, &err);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!strcmp(cases[i].name, what))
            bad = cases[i].run(g, &err);
    if (!bad)
        yk__group_leave(g);
    return bad;
}

static void expect_success(uint32_t n, const char *what)
{
    yk_error err = YK_ERROR_INIT;
    int code = -1;
    ck_assert_msg(!ranks_start(n, what, NULL, &code, &err), "%u ranks, %s: %s", n, what, err.text);
    ck_assert_int_eq(code, 0);
}

static const uint32_t rank_counts[] = {1, 2, 3, 5};

START_TEST(small_messages_and_their_sums)
{
    expect_success(rank_counts[_i], "small");
}
END_TEST

START_TEST(slices_are_reduced_and_gathered)
{
    expect_success(rank_counts[_i], "slices");
}
END_TEST

START_TEST(unlike_calls)
{
    expect_success(2, "differ");
    expect_success(2, "sizes");
}
END_TEST

static const char *const unlike[] = {"diverge-bucket", "diverge-slices",  "diverge-next",
                                     "diverge-shared", "diverge-columns", "diverge-excluded-barrier",
                                     "diverge-excluded-sum"};

/* Without the comparison of calls each of these waits for ever. */
START_TEST(diverging_ranks_end)
{
    for (uint32_t ranks = 2; ranks <= 3; ranks++) {
        yk_error err = YK_ERROR_INIT;
        const double begin = ranks_now();
        int code = -1;
        ranks_start(ranks, unlike[_i], NULL, &code, &err);
        ck_assert_msg(err.status == YK_E_INTERNAL && strstr(err.text, "diverged") && strstr(err.text, "other.c:1"), "%s: %s",
                      unlike[_i], err.text);
        /* Any two ranks that differ may report first. test_place names their calls. */
        ck_assert_msg(strstr(err.text, "main.c:10") || (strstr(err.text, "other.c:11") && strstr(err.text, "other.c:12")), "%s: %s",
                      unlike[_i], err.text);
        ck_assert_msg(ranks_now() - begin < RANKS_SOON, "%s: %.1f s", unlike[_i], ranks_now() - begin);
    }
}
END_TEST

START_TEST(the_environment_names_rank_and_size)
{
    expect_success(3, "environment");
}
END_TEST

START_TEST(many_ranks)
{
    expect_success(8, "small");
}
END_TEST

static int run_suite(void)
{
    TCase *t = tcase_create("collect");
    tcase_add_loop_test(t, small_messages_and_their_sums, 0, 4);
    tcase_add_loop_test(t, slices_are_reduced_and_gathered, 0, 4);
    tcase_add_test(t, unlike_calls);
    tcase_add_loop_test(t, diverging_ranks_end, 0, sizeof unlike / sizeof *unlike);
    tcase_add_test(t, the_environment_names_rank_and_size);
    tcase_add_test(t, many_ranks);
    tcase_set_timeout(t, RANKS_TIMEOUT);
    return suite_run("collect", t);
}

int main(int argc, char **argv)
{
    return yk__launched() && argc > 1 ? as_rank(argv[1]) : run_suite();
}
