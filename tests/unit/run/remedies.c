/* SPDX-License-Identifier: Apache-2.0 */
/* Remedies of a lack of memory: each is open to the job, and makes the part smaller that is too large. */
#include "config.h"

#include <check.h>
#include <string.h>

#include "core/run/queue.h"
#include "tests/support/refplugin.h"
#include "tests/support/run.h"

#define CHECKPOINTING "--gradient-checkpointing"
#define MICROS "--gradient-accumulation-steps"
#define ON_HOST "activations=host"

static const char *const all_words[] = {"raise the limit", MICROS,      CHECKPOINTING,       ON_HOST,        "state=host",
                                        "state=nvme:DIR",  "--shard params", "--shard gradients", "smaller batch", "yoke plan",
                                        "--per-device-eval-batch-size"};
enum { WORDS = sizeof all_words / sizeof all_words[0] };

/* Fails unless the text has exactly these of all words, each once. */
static void expect_words(const char *text, const char *const *words)
{
    for (int i = 0; i < WORDS; i++) {
        bool wanted = false;
        for (const char *const *w = words; *w; w++)
            wanted = wanted || !strcmp(*w, all_words[i]);
        const char *at = strstr(text, all_words[i]);
        ck_assert_msg((at != NULL) == wanted, "%s is %s in: %s", all_words[i], wanted ? "not" : "there", text);
        ck_assert_msg(!at || !strstr(at + 1, all_words[i]), "%s stands twice in: %s", all_words[i], text);
    }
}

#define OPEN .trains = true, .recomputes = true, .stores = true, .state_host = true, .gradients = true, .params = true

/* The part that fills the device decides; an option in use is not open. */
START_TEST(a_remedy_is_open_and_of_the_part)
{
    static const struct {
        yk__remedies open;
        yk__lack lack;
        const char *words[8];
    } row[] = {
        {{OPEN}, {YK__OF_ACTIVATIONS, false, 0}, {MICROS, CHECKPOINTING, ON_HOST, "yoke plan"}},
        {{OPEN}, {YK__OF_ACTIVATIONS, true, 0}, {"raise the limit", MICROS, ON_HOST, "yoke plan"}},
        {{OPEN, .rows = 1}, {YK__OF_ACTIVATIONS, false, 0}, {CHECKPOINTING, ON_HOST, "yoke plan"}},
        {{.trains = true}, {YK__OF_ACTIVATIONS, false, 0}, {MICROS, "yoke plan"}},
        {{OPEN}, {YK__OF_STATE, false, 0}, {"state=host", "yoke plan"}},
        {{.trains = true, .state_disk = true}, {YK__OF_STATE, false, 0}, {"state=nvme:DIR", "yoke plan"}},
        {{OPEN}, {YK__OF_PARAMS, false, 0}, {"--shard params", "yoke plan"}},
        {{OPEN}, {YK__OF_GRADS, false, 0}, {"--shard gradients", "yoke plan"}},
        {{OPEN}, {YK__OF_GRADS | YK__OF_PARAMS, false, 0}, {"--shard params", "yoke plan"}},
        {{.trains = true}, {YK__OF_PARAMS, false, 0}, {"yoke plan"}},
        {{.trains = false}, {YK__OF_ACTIVATIONS, false, 0}, {"smaller batch"}},
        {{OPEN, .evaluates = true}, {YK__OF_ACTIVATIONS, true, 0}, {"raise the limit", "--per-device-eval-batch-size", "yoke plan"}},
        {{.trains = false}, {YK__OF_PARAMS, false, 0}, {NULL}},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        char text[640], tight[24];
        yk__remedies_write(&row[i].open, &row[i].lack, text, sizeof text);
        expect_words(text, row[i].words);
        yk__remedies_write(&row[i].open, &row[i].lack, tight, sizeof tight);
        ck_assert_uint_lt(strlen(tight), sizeof tight);
    }
}
END_TEST

START_TEST(numbers_and_places_are_written)
{
    char text[640];
    const yk__remedies open = {OPEN, .rows = 8, .place = "state=host,"};
    yk__remedies_write(&open, &(yk__lack){YK__OF_ACTIVATIONS, false, 4}, text, sizeof text);
    ck_assert_msg(strstr(text, "a --global-batch 4 times smaller and 4 times the " MICROS), "%s", text);
    ck_assert_msg(strstr(text, "--offload state=host,activations=host"), "%s", text);
    const yk__remedies parted = {OPEN, .rows = 8, .place = "state=host:0.5,"}; /* the whole state takes the place of a part */
    yk__remedies_write(&parted, &(yk__lack){YK__OF_ACTIVATIONS | YK__OF_STATE, false, 4}, text, sizeof text);
    ck_assert_msg(strstr(text, "--offload state=host:0.5,activations=host") && strstr(text, "--offload state=host,"), "%s", text);
    yk__remedies_write(&open, &(yk__lack){YK__OF_ACTIVATIONS, false, 16}, text, sizeof text); /* of 8 rows */
    ck_assert_msg(strstr(text, "more " MICROS) && !strstr(text, "16"), "%s", text);
}
END_TEST

/* A queue holds 950 bytes, and refuses 100 more: by its limit, or by the device's largest buffer (50), which is of no limit. */
static void queue_refuses(uint64_t largest, yk__account holds, yk__account asks, const char *const *words)
{
    yk_error err = YK_ERROR_INIT;
    yk__device *dev = NULL;
    yk_buffer *b = NULL;
    ck_assert_int_eq(ref_open(&dev, &err), YK_OK);
    dev->caps.max_alloc = largest;
    yk__queue q = {.dev = dev, .limit = 1000, .open = {OPEN}};
    yk__queue_count(&q, 950, holds);
    ck_assert_int_eq(yk__queue_buffer(&q, 100, &b, asks, &err), YK_E_MEM);
    expect_words(err.text, words);
    yk__device_close(dev);
}

static void queue_lacks(yk__account holds, yk__account asks, const char *const *words)
{
    queue_refuses(0, holds, asks, words);
}

/* Neither the limit nor another part makes room for it. */
START_TEST(a_buffer_above_the_largest_has_its_own_remedy)
{
    queue_refuses(50, YK__STATE_BYTES, YK__GRAD_BYTES, (const char *const[]){"--shard gradients", "yoke plan", NULL});
    queue_refuses(50, YK__STATE_BYTES, YK__ARENA_BYTES, (const char *const[]){MICROS, CHECKPOINTING, ON_HOST, "yoke plan", NULL});
}
END_TEST

/* The buffer that no longer fits may be of a small part. */
START_TEST(the_large_part_has_the_remedy)
{
    queue_lacks(YK__STATE_BYTES, YK__ARENA_BYTES,
                (const char *const[]){"raise the limit", "state=host", MICROS, ON_HOST, "yoke plan", NULL});
    queue_lacks(YK__STATE_BYTES, YK__GRAD_BYTES,
                (const char *const[]){"raise the limit", "state=host", "--shard gradients", "yoke plan", NULL});
    queue_lacks(YK__ARENA_BYTES, YK__ARENA_BYTES, (const char *const[]){"raise the limit", MICROS, ON_HOST, "yoke plan", NULL});
    queue_lacks(YK__PARAM_BYTES, YK__PARAM_BYTES, (const char *const[]){"raise the limit", "--shard params", "yoke plan", NULL});
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("remedies");
    tcase_add_test(t, a_remedy_is_open_and_of_the_part);
    tcase_add_test(t, numbers_and_places_are_written);
    tcase_add_test(t, the_large_part_has_the_remedy);
    tcase_add_test(t, a_buffer_above_the_largest_has_its_own_remedy);
    return suite_run("remedies", t);
}
