/* SPDX-License-Identifier: Apache-2.0 */
/* The table of stages; see stage.h. */
#include "core/run/stage.h"

#include <string.h>

#include "core/base/nearest.h"
#include "core/base/word.h"

static const struct {
    const char *names; /* a list of core/base/word.h with one word */
    yk__stage stage;
} stages[] = {
    {"state=zero1=zero0=no_shard=simple", {"state", YK__STAGE_STATE, false, false}},
    {"gradients=zero2=zero_dp_2", {"gradients", YK__STAGE_GRADIENTS, false, false}},
    {"params=zero3=full_shard=zero_dp_3", {"params", YK__STAGE_PARAMS, false, false}},
    {"shard_grad_op", {"params", YK__STAGE_PARAMS, false, true}},
    {"hybrid_shard", {"params", YK__STAGE_PARAMS, true, false}},
    {"hybrid_shard_zero2=_hybrid_shard_zero2", {"params", YK__STAGE_PARAMS, true, true}},
};

bool yk__stage_find(const char *word, yk__stage *stage)
{
    for (size_t i = 0; i < sizeof stages / sizeof stages[0]; i++)
        if (yk__word_find(stages[i].names, word, strlen(word)) == 0) {
            *stage = stages[i].stage;
            return true;
        }
    return false;
}

yk_status yk__stage_read(const char *word, const char *source, yk__stage *stage, yk_error *err)
{
    static const char *const words[] = {"state", "gradients", "params", "zero1", "zero2", "zero3"};
    if (!yk__stage_find(word, stage)) {
        const char *near = yk__nearest_word(word, words, sizeof words / sizeof words[0]);
        return yk__fail(err, YK_E_ARG, "%s %.80s: expected state, gradients or params%s%s%s", source, word, near ? ": did you mean " : "",
                        near ? near : "", near ? "?" : "");
    }
    return YK_OK;
}
