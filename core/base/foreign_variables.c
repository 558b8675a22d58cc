/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of environment variables of Accelerate and DeepSpeed that Yoke cannot follow, with the request that each would make. option.c
 * checks it when a job opens, in the caller's thread. A set variable with such a request is an error that names it and the remedy.
 */
#include "config.h"

#include "core/base/foreign_variables.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define OFF "false|no|n|f|0|off"
#define SHARDED "--shard, or yk_config.shard, says which values lie in slices over the ranks"
#define DEEPSPEED "DeepSpeed is not used: --deepspeed FILE reads its settings, and --shard has its stages"
#define OFFLOADED "--offload moves the optimizer's state (state=host) and the parameters (params=host) to the host"
#define PARALLEL "ranks share out rows, and slices of values (--shard): each computes whole layers and sequences"
#define RECOMPUTED "blocks of layers are computed again by --gradient-checkpointing or yk_model_recompute"
#define MEGATRON "Megatron-LM is not used: ranks share out rows"
#define COMPILED "there is no compiler to choose: every step is traced, fused and planned before it runs"
#define RECIPE "fp8 has one recipe here, without settings"
#define FORMAT "ACCELERATE_MIXED_PRECISION, --precision or yk_config.precision says what products compute in"
#define PLACED "YOKE_DEVICES or --devices names the devices"

static const struct {
    const char *name;
    const char *nothing; /* values that ask for nothing, with | between, in any case */
    const char *why;
} rows[] = {
    {"ACCELERATE_USE_FSDP", OFF, SHARDED},
    {"ACCELERATE_USE_DEEPSPEED", OFF, DEEPSPEED},
    {"ACCELERATE_USE_MEGATRON_LM", OFF, MEGATRON},
    {"ACCELERATE_USE_SAGEMAKER", OFF, "jobs are started by yoke launch, torchrun, mpirun, srun or by hand"},
    {"ACCELERATE_USE_MPS_DEVICE", OFF "|none", PLACED},
    {"ACCELERATE_USE_XPU", OFF "|none", PLACED},
    {"ACCELERATE_USE_IPEX", OFF "|none", COMPILED},
    {"ACCELERATE_USE_TP", OFF "|none", PARALLEL},
    {"ACCELERATE_USE_TPU", OFF "|none", PLACED},
    {"ACCELERATE_TPU", OFF "|none", PLACED},
    {"ACCELERATE_DEEPSPEED_ZERO_STAGE", "0|1|none", SHARDED},
    {"ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE", OFF "|none", OFFLOADED},
    {"ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_DEVICE", OFF "|none", OFFLOADED},
    {"ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_NVME_PATH", OFF "|none", OFFLOADED},
    {"ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_NVME_PATH", OFF "|none", OFFLOADED},
    {"ACCELERATE_DEEPSPEED_ZERO3_INIT", OFF "|none", SHARDED},
    {"ACCELERATE_DEEPSPEED_ZERO3_SAVE_16BIT_MODEL", OFF "|none", "weights are saved as f32"},
    {"ACCELERATE_DEEPSPEED_CONFIG_FILE", "none", "--deepspeed FILE reads a file of DeepSpeed"},
    {"ACCELERATE_DEEPSPEED_MOE_LAYER_CLS_NAMES", "none", "there are no layers of experts"},
    {"ACCELERATE_GRADIENT_CLIPPING", OFF "|none|auto|0.0", "the program clips: --max-grad-norm or yk_clip_norm"},
    {"ACCELERATE_DYNAMO_BACKEND", OFF "|none", COMPILED},
    {"ACCELERATE_DOWNCAST_BF16", OFF "|none", FORMAT},
    {"ACCELERATE_TORCH_DEVICE", "none", PLACED},
    {"ACCELERATE_FP8_BACKEND", "auto|none|" OFF, RECIPE},
    {"ACCELERATE_FP8_OPT_LEVEL", "O2|O1|none", RECIPE},
    {"ACCELERATE_FP8_MARGIN", "0", RECIPE},
    {"ACCELERATE_FP8_INTERVAL", "1", RECIPE},
    {"ACCELERATE_FP8_FORMAT", "HYBRID|E4M3", RECIPE},
    {"ACCELERATE_FP8_AMAX_HISTORY_LEN", "1024", RECIPE},
    {"ACCELERATE_FP8_AMAX_COMPUTE_ALGO", "most_recent", RECIPE},
    {"ACCELERATE_FP8_OVERRIDE_FPROP", OFF, RECIPE},
    {"ACCELERATE_FP8_OVERRIDE_DGRAD", OFF, RECIPE},
    {"ACCELERATE_FP8_OVERRIDE_WGRAD", OFF, RECIPE},
    {"ACCELERATE_FP8_USE_AUTOCAST_DURING_EVAL", OFF, RECIPE},
    {"ACCELERATE_FP8_USE_MXFP8_BLOCK_SCALING", OFF, RECIPE},
    {"FSDP_SHARDING_STRATEGY", "NO_SHARD|3|none", SHARDED},
    {"FSDP_RESHARD_AFTER_FORWARD", OFF "|NO_SHARD|none", SHARDED},
    {"FSDP_OFFLOAD_PARAMS", OFF "|none", OFFLOADED},
    {"FSDP_CPU_OFFLOAD", OFF "|none", OFFLOADED},
    {"FSDP_ACTIVATION_CPU_OFFLOAD", OFF "|none", OFFLOADED},
    {"FSDP_MIN_NUM_PARAMS", "0|none", SHARDED},
    {"FSDP_AUTO_WRAP_POLICY", "NO_WRAP|none", SHARDED},
    {"FSDP_TRANSFORMER_CLS_TO_WRAP", "none", SHARDED},
    {"FSDP_BACKWARD_PREFETCH", "NO_PREFETCH|none", SHARDED},
    {"FSDP_FORWARD_PREFETCH", OFF "|none", SHARDED},
    {"FSDP_STATE_DICT_TYPE", "FULL_STATE_DICT|none", "a checkpoint has its weights whole"},
    {"FSDP_ACTIVATION_CHECKPOINTING", OFF "|none", RECOMPUTED},
    {"FSDP_IGNORED_MODULES", "none", SHARDED},
    {"PARALLELISM_CONFIG_DP_SHARD_SIZE", "1|none", SHARDED},
    {"PARALLELISM_CONFIG_TP_SIZE", "1|none", PARALLEL},
    {"PARALLELISM_CONFIG_CP_SIZE", "1|none", PARALLEL},
    {"PARALLELISM_CONFIG_SP_SIZE", "1|none", PARALLEL},
    {"MEGATRON_LM_TP_DEGREE", "1", PARALLEL},
    {"MEGATRON_LM_PP_DEGREE", "1", PARALLEL},
    {"MEGATRON_LM_EXPERT_MODEL_PARALLEL_SIZE", "1", PARALLEL},
    {"MEGATRON_LM_EXPERT_TENSOR_PARALLEL_SIZE", "1", PARALLEL},
    {"MEGATRON_LM_SEQUENCE_PARALLELISM", OFF, PARALLEL},
    {"MEGATRON_LM_NUM_MICRO_BATCHES", "1", PARALLEL},
    {"MEGATRON_LM_RECOMPUTE_ACTIVATIONS", OFF, RECOMPUTED},
    {"MEGATRON_LM_OPTIMIZER_CPU_OFFLOAD", OFF, OFFLOADED},
    {"DEEPSPEED_USE_HPU", OFF, PLACED},
    {"DS_ACCELERATOR", "none", PLACED},
    {"XLA_USE_BF16", OFF, FORMAT},
    {"XLA_DOWNCAST_BF16", OFF, FORMAT},
};

static bool value_is_one_of(const char *value, const char *words)
{
    for (const char *word = words; *word; word += word[0] == '|') {
        const size_t n = strcspn(word, "|");
        if (strlen(value) == n && !strncasecmp(value, word, n))
            return true;
        word += n;
    }
    return false;
}

yk_status yk__foreign_check(yk_error *err)
{
    char others[YK_ERROR_TEXT] = "";
    size_t first = sizeof rows / sizeof *rows, used = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *value = getenv(rows[i].name);
        if (!value || !*value || value_is_one_of(value, rows[i].nothing))
            continue;
        if (first == sizeof rows / sizeof *rows)
            first = i;
        else if (used < sizeof others / 2)
            used += (size_t)snprintf(others + used, sizeof others - used, "%s%s", used ? ", " : "; refused like it: ", rows[i].name);
    }
    if (first == sizeof rows / sizeof *rows)
        return YK_OK;
    return yk__fail(err, YK_E_ARG, "%s=%.60s is not followed: %s. Unset it%s", rows[first].name, getenv(rows[first].name),
                    rows[first].why, others);
}
