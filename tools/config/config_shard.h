/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Training options for the part of a model that each rank holds, and its place; and for the scale of losses. --shard says which values lie
 * in slices over the ranks: the optimizer's state, gradients, too, or parameters, too. --offload state=host keeps that state on the host.
 * Every value is read, and unsupported ones are refused by name.
 */
#ifndef YOKE_TOOLS_CONFIG_CONFIG_SHARD_H
#define YOKE_TOOLS_CONFIG_CONFIG_SHARD_H

#include <yoke/yoke.h>

#include "tools/cli.h"
#include "tools/config/apply.h"

/* For the table of a command that trains, or plans a training. */
#define SHARD_OPTIONS                                                                                                                \
    CONFIG_FILE_OPTIONS, \
        {"deepspeed|deepspeed-config|deepspeed-config-file", "FILE|JSON", NULL, "DeepSpeed's settings", NULL}, \
        {"fsdp", "WORDS", NULL, "full_shard, shard_grad_op, no_shard, hybrid_shard .. with auto_wrap, offload: --shard", NULL},      \
        {"fsdp-config", "FILE|JSON", NULL, "FSDP's settings", NULL},                                                                 \
        {"sharded-ddp", "WORDS", NULL, "simple, zero_dp_2 or zero_dp_3, with auto_wrap and offload: --shard", NULL},                 \
        {"parallelism-config", "FILE|JSON", NULL, "Accelerate's ParallelismConfig", NULL},                                           \
        {"accelerator-config", "FILE|JSON", NULL, "Accelerate's AcceleratorConfig", NULL},                                           \
        {"shard", "state|gradients|params", "state",                                                                                 \
         "in slices over the ranks: the optimizer's state; gradients, too; parameters, too", NULL},                                      \
        {"shard-within", "world|host", "world", "--shard params: slices over all ranks and hosts, or all parameters on each host", NULL},\
        {"shard-parts", "equal|speed|N:N..", "speed", "slices of each rank: alike, by measured speed and what fits, or by parts", NULL}, \
        {"shard-unit", "auto|BYTES", "auto", "most bytes of a unit that --shard params brings, as 4M; auto: YOKE_BUCKET_BYTES", NULL}, \
        {"reshard-after-forward", "on|off", "on", "--shard params brings parameters again for backward", NULL},                      \
        {"prefetch-units", "auto|N", "auto", "units that --shard params brings early; auto: 0, over messages 1", NULL},               \
        {"keep-whole", "N", "100000", "--shard params: a unit of at most N elements stays whole on each device", NULL},              \
        {"keep-whole-params", "REGEX", NULL, "parameters with such names stay whole: not built yet", NULL},                          \
        {"reduce", "auto|micro|window", "auto", "when --shard gradients sums: in each micro batch (auto); window: not built yet", NULL},   \
        {"tied-gradients", "once|twice", "once", "how often a tied table's gradient is summed with --shard gradients", NULL},        \
        {"offload", "PART=PLACE,..", NULL, \
         "state=host[:R]|nvme:DIR, params=host, activations=host: values of a GPU that the host or a disk holds", NULL}, \
        {"parallel", "data|AXIS=N,..", "data", "the layout of ranks: data; tensor, pipe: not built yet", NULL},            \
        {"plan", "auto|none|MS", NULL, "auto: take the options of yoke plan; MS: milliseconds that it predicted, to log", NULL},         \
        {"device-file", "FILE", NULL, "yoke plan: the devices that this file of yoke info --describe describes", NULL},              \
        {"loss-scaling", "KEY=VALUE,..", NULL,                                                                                       \
         "of fp16: rule=torch|deepspeed|megatron, init, growth, backoff, floor, interval, hysteresis, consecutive, fixed", NULL}

/* Reads them, and fills config->scale; sets *bad after messages. */
void shard_read(const yk__cli *cli, yk_config *config, bool *bad);

#endif
