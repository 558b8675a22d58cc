/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of keys of FSDP, as Accelerate's files (fsdp_NAME) and Trainer's fsdp_config have them; of ParallelismConfig and
 * AcceleratorConfig. config_read.c and keys_accelerate.c walk a file by them, in the main thread. Behind the walk they call
 * settings_finish_*, which makes options of keys that count together.
 */
#include "tools/config/config_settings.h"

#include <stdlib.h>
#include <string.h>

#include "core/run/stage.h"

#define XLA "there is no XLA"
#define BY_RANGE "parameters keep their names, and their values come by range from a seed or a file"

static const settings_key fsdp[] = {
    {"version", SETTINGS_INT, SETTINGS_IDLE, "1 2", NULL, NULL, "there is one form"},
    {"sharding_strategy", SETTINGS_WORD, SETTINGS_MAPPED,
     "full_shard=1|shard_grad_op=2|no_shard=3|hybrid_shard=4|hybrid_shard_zero2=_hybrid_shard_zero2=5", NULL, NULL,
     "--shard, --shard-within and --reshard-after-forward"},
    {"reshard_after_forward", SETTINGS_WORD, SETTINGS_HONOURED,
     "true=yes=on|false=no=off|full_shard|shard_grad_op|no_shard|hybrid_shard|hybrid_shard_zero2", NULL,
     NULL, "--reshard-after-forward"},
    {"auto_wrap_policy", SETTINGS_WORD, SETTINGS_IDLE, "transformer_based_wrap|size_based_wrap|no_wrap", NULL, NULL,
     "units are buckets of parameters (--shard-unit)"},
    {"transformer_layer_cls_to_wrap|transformer_cls_names_to_wrap|transformer_cls_name_to_wrap", SETTINGS_ANY, SETTINGS_IDLE, NULL, NULL,
     NULL,
     "units are buckets of parameters (--shard-unit)"},
    {"min_num_params", SETTINGS_INT, SETTINGS_IDLE, "0 1e15", NULL, NULL, "units are buckets of parameters (--shard-unit)"},
    {"cpu_offload|offload_params", SETTINGS_SWITCH, SETTINGS_MAPPED, NULL, NULL, NULL,
     "--offload state=host,params=host; the job refuses it in --shard state (NO_SHARD)"},
    {"backward_prefetch", SETTINGS_WORD, SETTINGS_MAPPED, "backward_pre=1|backward_post=2|no_prefetch", NULL, NULL,
     "--prefetch-units auto or 0"},
    {"backward_prefetch_policy", SETTINGS_WORD, SETTINGS_MAPPED, "backward_pre=1|backward_post=2|no_prefetch", NULL, NULL,
     "--prefetch-units auto or 0"},
    {"forward_prefetch|limit_all_gathers", SETTINGS_SWITCH, SETTINGS_IDLE, NULL, NULL, NULL,
     "a unit comes before its first reader: --prefetch-units"},
    {"mixed_precision_policy", SETTINGS_ANY, SETTINGS_REFUSED, NULL, NULL, NULL,
     "activations are cast by the class of each operation: --precision"},
    {"ignored_modules|ignored_params", SETTINGS_TEXT, SETTINGS_MAPPED, NULL, NULL, "train:keep-whole-params", "--keep-whole-params"},
    {"state_dict_type", SETTINGS_WORD, SETTINGS_HONOURED, "full_state_dict=1|sharded_state_dict=3|local_state_dict=2", NULL, NULL,
     "a checkpoint is one whole; LOCAL_STATE_DICT is refused"},
    {"state_dict_config|optim_state_dict_config", SETTINGS_ANY, SETTINGS_IDLE, NULL, NULL, NULL, "a checkpoint is one whole"},
    {"use_orig_params|sync_module_states|cpu_ram_efficient_loading|param_init_fn|sync_each_batch|set_reshard_after_backward", SETTINGS_ANY,
     SETTINGS_IDLE, NULL, NULL, NULL, BY_RANGE},
    {"activation_checkpointing", SETTINGS_SWITCH, SETTINGS_HONOURED, NULL, NULL, "train:gradient-checkpointing",
     "--gradient-checkpointing"},
    {"activation_checkpointing_offload|activation_cpu_offload", SETTINGS_SWITCH, SETTINGS_HONOURED, NULL, NULL, NULL,
     "--offload activations=host"},
    {"enable_ram_efficient_loading", SETTINGS_SWITCH, SETTINGS_IDLE, NULL, NULL, NULL, BY_RANGE},
    {"xla|xla_fsdp_settings|xla_fsdp_grad_ckpt|xla_fsdp_v2", SETTINGS_ANY, SETTINGS_REFUSED, NULL, NULL, NULL, XLA},
};

const settings_table settings_fsdp = {"fsdp", "FSDP's settings", fsdp, sizeof fsdp / sizeof fsdp[0], false, false};

static const settings_key parallelism[] = {
    {"dp_replicate_size|dp_shard_size", SETTINGS_INT, SETTINGS_MAPPED, "-1 65536", NULL, NULL,
     "--shard params, and --shard-within host where both are above 1"},
    {"tp_size|tp_degree", SETTINGS_ANY, SETTINGS_REFUSED, NULL, "1", NULL, "tensor parallel is not built yet: expected 1"},
    {"cp_size|sp_size", SETTINGS_ANY, SETTINGS_REFUSED, NULL, "1", NULL,
     "rows of tokens are not cut over ranks (context and sequence parallel): expected 1"},
    {"pp_size", SETTINGS_ANY, SETTINGS_REFUSED, NULL, "1", NULL, "pipeline parallel is not built yet: expected 1"},
    {"ep_size", SETTINGS_ANY, SETTINGS_REFUSED, NULL, "1", NULL, "there are no experts: expected 1"},
    {"cp_backend|cp_comm_strategy|sp_backend|sp_seq_length|sp_seq_length_is_variable|"
     "sp_attn_implementation|tp_handler|cp_handler|sp_handler|"
     "device_mesh",
     SETTINGS_ANY, SETTINGS_IDLE, NULL, NULL, NULL, "of layouts that are not there"},
};

const settings_table settings_parallelism = {"parallelism", "ParallelismConfig", parallelism, sizeof parallelism / sizeof parallelism[0],
                                             false, false};

static const settings_key accelerator[] = {
    {"split_batches", SETTINGS_SWITCH, SETTINGS_REFUSED, NULL, NULL, NULL, "--global-batch is of all ranks"},
    {"dispatch_batches", SETTINGS_ANY, SETTINGS_REFUSED, NULL, NULL, NULL, "each rank reads its own rows"},
    {"even_batches", SETTINGS_SWITCH, SETTINGS_IDLE, NULL, NULL, NULL, "a batch is shared out by speed, and no row counts twice"},
    {"use_seedable_sampler", SETTINGS_SWITCH, SETTINGS_IDLE, NULL, NULL, NULL, "rows are always shuffled by --data-seed"},
    {"non_blocking|use_configured_state", SETTINGS_SWITCH, SETTINGS_IDLE, NULL, NULL, NULL, "copies run beside the step"},
    {"gradient_accumulation_kwargs", SETTINGS_MAP, SETTINGS_MAPPED, NULL, NULL, NULL, NULL},
    {"gradient_accumulation_kwargs.num_steps", SETTINGS_INT, SETTINGS_HONOURED, "1 1048576", NULL, "train:gradient-accumulation-steps",
     "--gradient-accumulation-steps"},
    {"gradient_accumulation_kwargs.adjust_scheduler|sync_with_dataloader|sync_each_batch", SETTINGS_SWITCH, SETTINGS_IDLE, NULL, NULL, NULL,
     "steps of the schedule are steps of the optimizer"},
};

const settings_table settings_accelerator = {"accelerator", "AcceleratorConfig", accelerator, sizeof accelerator / sizeof accelerator[0],
                                             false, false};

/* ---- Combined meaning of keys ------------------------------------------------------------------------------------ */

static bool is_on(const yk__tree *map, const char *prefix, const char *name)
{
    const yk__tree *node = settings_key_get(map, prefix, name);
    return node && yk__cli_truth(node->text) == 1;
}

#define FSDP_HOST "state=host,params=host"
#define FSDP_ACTIVATIONS "activations=host"

/* Notes the part of --offload that a switch requests; true if the switch is on. */
static bool part_take(settings *s, const char *file, const yk__tree *map, const char *prefix, const char *name, const char *value)
{
    const yk__tree *node = settings_key_get(map, prefix, name);
    const bool on = is_on(map, prefix, name);
    if (on)
        settings_part_of(s, "offload", value, file, settings_of(node));
    return on;
}

/* Puts --shard, --shard-within and --reshard-after-forward, by the strategy's word; without one FULL_SHARD holds. */
static void put_strategy(settings *s, const char *file, const yk__tree *map, const char *prefix)
{
    const yk__tree *strategy = settings_key_get(map, prefix, "sharding_strategy");
    const yk__tree *reshard = settings_key_get(map, prefix, "reshard_after_forward");
    const int again = reshard ? yk__cli_truth(reshard->text) : -1; /* FSDP 2 has true and false, FSDP 1 a strategy */
    const char *name = strategy ? strategy->text : reshard && again < 0 ? reshard->text : "full_shard";
    const yk__tree *node = strategy ? strategy : reshard ? reshard : map;
    const settings_place at = node ? settings_of(node) : (settings_place){1, NULL};
    yk__stage stage;
    if (!yk__stage_find(name, &stage)) /* its message was said */
        return;
    settings_put(s, SETTINGS_TRAIN, "shard", stage.word, file, at);
    if (stage.within_host)
        settings_put(s, SETTINGS_TRAIN, "shard-within", "host", file, at);
    if (stage.stays || again == 0)
        settings_put(s, SETTINGS_TRAIN, "reshard-after-forward", "off", file, at);
}

void settings_finish_fsdp(settings *s, const char *file, const yk__tree *map, const char *prefix)
{
    const yk__tree *ahead = settings_key_get(map, prefix, "backward_prefetch"), *policy = settings_key_get(map, prefix,
                                                                                                              "backward_prefetch_policy");
    const yk__tree *form = settings_key_get(map, prefix, "state_dict_type");
    const bool first = part_take(s, file, map, prefix, "offload_params", FSDP_HOST), second = part_take(s, file, map, prefix, "cpu_offload",
                                                                                                        FSDP_HOST);
    const bool third = part_take(s, file, map, prefix, "activation_checkpointing_offload", FSDP_ACTIVATIONS);
    const bool offload = first || second, activations = part_take(s, file, map, prefix, "activation_cpu_offload", FSDP_ACTIVATIONS) ||
                                                        third;
    if (!settings_find(s, SETTINGS_TRAIN, "shard") || settings_key_get(map, prefix, "sharding_strategy")) /* --fsdp WORDS names one */
        put_strategy(s, file, map, prefix);
    if (ahead && policy && settings_replaced(s, "prefetch-units"))
        settings_part_of(s, "prefetch-units", "0", file, settings_of(policy)); /* is dropped with the first */
    else if (ahead && policy && strcmp(ahead->text, policy->text) != 0)
        settings_say(s, file, policy->line, policy->key, "%s, and %s (line %u) is %s: expected one value", policy->text, ahead->key,
                     ahead->line, ahead->text);
    ahead = ahead && (!policy || strcmp(ahead->text, "backward_pre")) ? ahead : policy;
    if (ahead && strcmp(ahead->text, "backward_pre"))
        settings_put(s, SETTINGS_TRAIN, "prefetch-units", "0", file, settings_of(ahead));
    if (form && !strcmp(form->text, "local_state_dict"))
        settings_say(s, file, form->line, form->key, "LOCAL_STATE_DICT keeps private files of ranks, and a checkpoint here is one "
                     "whole: expected FULL_STATE_DICT or SHARDED_STATE_DICT");
    if (offload || activations)
        settings_put(s, SETTINGS_TRAIN, "offload",
                     !activations ? FSDP_HOST : offload ? FSDP_HOST "," FSDP_ACTIVATIONS : FSDP_ACTIVATIONS,
                     file, (settings_place){1, NULL});
}

void settings_finish_parallelism(settings *s, const char *file, const yk__tree *map, const char *prefix)
{
    const yk__tree *copies = settings_key_get(map, prefix, "dp_replicate_size"), *slices = settings_key_get(map, prefix, "dp_shard_size");
    const double replicate = copies ? strtod(copies->text, NULL) : 1, shard = slices ? strtod(slices->text, NULL) : 1;
    if (shard > 1)
        settings_put(s, SETTINGS_TRAIN, "shard", "params", file, settings_of(slices));
    if (shard > 1 && replicate > 1)
        settings_put(s, SETTINGS_TRAIN, "shard-within", "host", file, settings_of(copies));
}
