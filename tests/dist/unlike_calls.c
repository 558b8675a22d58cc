/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks of one job that call different functions on the user's memory end with both places and functions, though the functions exchange
 * equal messages. Without a launcher this is the test; as a rank it makes the calls of its arguments: PAIR FOLDER. The last rank makes the
 * second call.
 */
#include "tests/support/ranks.h"

#define DEVICES "cpu:0! cpu:0!"

typedef enum call_kind {
    SUM,
    MEAN,
    MAX,
    GATHER,
    GATHER_OBJECT,
    BROADCAST,
    BROADCAST_OBJECT,
    PAD,
    BARRIER,
    FIRST,
    TRIGGER,
    PRINT
} call_kind;

static const struct {
    call_kind first, second;
    const char *words[2];
} pairs[] = {
    {SUM, MEAN, {"of yk_all_reduce_sum called at ", "of yk_all_reduce_mean called at "}},
    {MAX, GATHER, {"of yk_all_reduce_max called at ", "of yk_gather called at "}},
    {SUM, TRIGGER, {"of yk_all_reduce_sum called at ", "of yk_check_trigger called at "}},
    {GATHER, GATHER_OBJECT, {"of yk_gather called at ", "of yk_gather_object called at "}},
    {GATHER_OBJECT, PRINT, {"of yk_gather_object called at ", "of yk_print_in_order called at "}},
    {BROADCAST_OBJECT, BROADCAST, {"of yk_broadcast_object called at ", "of yk_broadcast called at "}},
    {BARRIER, FIRST, {"of yk_barrier called at ", "of yk_main_first_begin or yk_main_first_end called at "}},
    {GATHER, PAD, {"of yk_gather called at ", "of yk_pad_across_ranks called at "}},
};

static void call_make(yk_job *job, call_kind kind)
{
    double v[16] = {1}, all[64];
    int64_t dim = 1;
    size_t bytes = sizeof *v;
    const size_t *size;
    switch (kind) {
    case SUM: yk_all_reduce_sum(job, v, 1); break;
    case MEAN: yk_all_reduce_mean(job, v, 1); break;
    case MAX: yk_all_reduce_max(job, v, 1); break;
    case GATHER: yk_gather(job, v, sizeof *v, all); break;
    case GATHER_OBJECT: yk_gather_object(job, v, sizeof *v, &size); break;
    case BROADCAST: yk_broadcast(job, v, sizeof *v, 0); break;
    case BROADCAST_OBJECT: yk_broadcast_object(job, v, &bytes, 0); break;
    case PAD: yk_pad_across_ranks(job, YK_F64, 1, &dim, v, NULL); break;
    case BARRIER: yk_barrier(job); break;
    case FIRST: yk_main_first_begin(job, false); break;
    case TRIGGER: yk_check_trigger(job); break;
    case PRINT: yk_print_in_order(job, "a line"); break;
    }
}

static int rank_main(int pair)
{
    yk_job *job = yk_open(&(yk_config){.quiet = true});
    const call_kind kind = yk_rank(job) ? pairs[pair].second : pairs[pair].first;
    for (int i = 0; i < 3; i++)
        call_make(job, kind);
    return yk_close(job);
}

START_TEST(both_functions_are_named)
{
    char said[4096], pair[16];
    snprintf(pair, sizeof pair, "%d", _i);
    const int code = ranks_run(DEVICES, pair, said, sizeof said);
    ck_assert_msg(code == 1 && strstr(said, "the ranks' programs have diverged"), "%d: exit code %d: %s", _i, code, said);
    for (int i = 0; i < 2; i++)
        ck_assert_msg(strstr(said, pairs[_i].words[i]), "%d: %s", _i, said);
}
END_TEST

int main(int argc, char **argv)
{
    if (argc == 3)
        return rank_main(atoi(argv[1]));
    TCase *t = tcase_create("calls");
    tcase_add_checked_fixture(t, ranks_folder_make, ranks_folder_remove);
    tcase_set_timeout(t, RANKS_TIMEOUT);
    tcase_add_loop_test(t, both_functions_are_named, 0, sizeof pairs / sizeof *pairs);
    return suite_run("unlike_calls", t);
}
