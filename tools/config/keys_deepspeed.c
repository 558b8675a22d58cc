/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of keys of DeepSpeed's JSON (0.18), and their combined meaning as options of Yoke. config_read.c walks a file by it, in the
 * main thread. `yoke config --keys deepspeed` prints this table, and tests/cli/config.sh compares it with docs/from-deepspeed.md.
 */
#include "tools/config/config_settings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/word.h"

#define WITH_RANKS "rows of a step over all ranks: two of it, the micro batch and the accumulation give the third"
#define LOSS_SCALING "--loss-scaling, by DeepSpeed's rule"
#define ALWAYS "always so, or there is nothing to choose"
#define BOUND "an upper bound of gathered data, which is planned"
#define SWAPPED "transfers are planned"
#define DATA "rows come from --data, shuffled by --data-seed"
#define QUANTIZED "weights are not quantized"

#define LOGGING_MOST 1073741824.0 /* of --logging-steps; no run has as many steps, so a larger number is the same */

static const settings_key keys[] = {
    {"train_batch_size|train_micro_batch_size_per_gpu", SETTINGS_INT, SETTINGS_HONOURED, "1 16777216", NULL, NULL, WITH_RANKS},
    {"gradient_accumulation_steps", SETTINGS_INT, SETTINGS_HONOURED, "1 1048576", NULL, "train:gradient-accumulation-steps", NULL},
    {"gradient_clipping", SETTINGS_REAL, SETTINGS_HONOURED, "0 1e30", NULL, "train:max-grad-norm", "--max-grad-norm"},
    {"steps_per_print", SETTINGS_INT, SETTINGS_MAPPED, "1 1e18", NULL, NULL, "--logging-steps"},
    {"wall_clock_breakdown|dump_state|memory_breakdown|timers", SETTINGS_ANY, SETTINGS_IDLE, NULL, NULL, NULL,
     "yoke trace writes a timeline"},
    {"prescale_gradients|gradient_predivide_factor", SETTINGS_ANY, SETTINGS_REFUSED, NULL, "1|1.0", NULL,
     "sums of gradients are divided once, exactly"},
    {"sparse_gradients", SETTINGS_ANY, SETTINGS_REFUSED, NULL, NULL, NULL, "gradients are dense"},
    {"disable_allgather|zero_allow_untested_optimizer|zero_force_ds_cpu_optimizer|graph_harvesting", SETTINGS_SWITCH,
     SETTINGS_IDLE, NULL, NULL, NULL, ALWAYS},
    {"dataloader_drop_last", SETTINGS_SWITCH, SETTINGS_HONOURED, NULL, NULL, NULL, "--dataloader-drop-last"},
    {"communication_data_type", SETTINGS_WORD, SETTINGS_MAPPED, "fp32=float32|bf16=bfloat16", NULL, "env:YOKE_WIRE",
     "YOKE_WIRE; fp16 has no wire"},
    {"seq_parallel_communication_data_type|seq_parallel_comm_data_type|sequence_parallel_size", SETTINGS_ANY, SETTINGS_REFUSED, NULL,
     "1", NULL, "rows of tokens are not cut over ranks (sequence parallel)"},
    {"fp16|bf16|bfloat16", SETTINGS_MAP, SETTINGS_HONOURED, NULL, NULL, NULL, "--precision"},
    {"fp16.enabled", SETTINGS_SWITCH, SETTINGS_HONOURED, NULL, NULL, NULL, "--precision fp16"},
    {"bf16.enabled", SETTINGS_SWITCH, SETTINGS_HONOURED, NULL, NULL, NULL, "--precision bf16"},
    {"bfloat16.enabled", SETTINGS_SWITCH, SETTINGS_HONOURED, NULL, NULL, NULL, "--precision bf16"},
    {"fp16.loss_scale", SETTINGS_REAL, SETTINGS_HONOURED, "0 1e30", NULL, NULL, LOSS_SCALING},
    {"fp16.min_loss_scale", SETTINGS_REAL, SETTINGS_HONOURED, "0 1e30", NULL, NULL, LOSS_SCALING},
    {"fp16.initial_scale_power", SETTINGS_INT, SETTINGS_HONOURED, "0 100", NULL, NULL, LOSS_SCALING},
    {"fp16.loss_scale_window", SETTINGS_INT, SETTINGS_HONOURED, "1 1000000000", NULL, NULL, LOSS_SCALING},
    {"fp16.hysteresis", SETTINGS_INT, SETTINGS_HONOURED, "1 1000000", NULL, NULL, LOSS_SCALING},
    {"fp16.consecutive_hysteresis", SETTINGS_SWITCH, SETTINGS_HONOURED, NULL, NULL, NULL, LOSS_SCALING},
    {"fp16.auto_cast", SETTINGS_SWITCH, SETTINGS_IDLE, NULL, NULL, NULL, "inputs are cast by the class of each operation"},
    {"bf16.loss_scale|min_loss_scale|initial_scale_power|loss_scale_window|hysteresis|consecutive_hysteresis", SETTINGS_ANY,
     SETTINGS_IDLE, NULL, NULL, NULL, "bf16 has no loss scale"},
    {"bfloat16.loss_scale|min_loss_scale|initial_scale_power|loss_scale_window|hysteresis|consecutive_hysteresis", SETTINGS_ANY,
     SETTINGS_IDLE, NULL, NULL, NULL, "bf16 has no loss scale"},
    {"bfloat16.immediate_grad_update|check_grad_overflow", SETTINGS_SWITCH, SETTINGS_IDLE, NULL, NULL, NULL, ALWAYS},
    {"fp16.opt_level", SETTINGS_ANY, SETTINGS_IDLE, NULL, NULL, NULL, "of apex, and DeepSpeed's fp16 does not read it"},
    {"bf16.immediate_grad_update|check_grad_overflow", SETTINGS_SWITCH, SETTINGS_IDLE, NULL, NULL, NULL, ALWAYS},
    {"fp16.fp16_master_weights_and_grads", SETTINGS_ANY, SETTINGS_REFUSED, NULL, NULL, NULL, "masters are f32"},
    {"bf16.bf16_master_weights_and_grads|bf16_master_weights_and_gradients", SETTINGS_ANY, SETTINGS_REFUSED, NULL, NULL, NULL,
     "masters are f32"},
    {"bfloat16.bf16_master_weights_and_grads|bf16_master_weights_and_gradients", SETTINGS_ANY, SETTINGS_REFUSED, NULL, NULL, NULL,
     "masters are f32"},
    {"bf16.bf16_optimizer_states", SETTINGS_ANY, SETTINGS_LATER, NULL, NULL, NULL, "moments of 16 bits are not built yet"},
    {"bfloat16.bf16_optimizer_states", SETTINGS_ANY, SETTINGS_LATER, NULL, NULL, NULL, "moments of 16 bits are not built yet"},
    {"amp|torch_autocast", SETTINGS_ANY, SETTINGS_REFUSED, NULL, NULL, NULL, "there is one kind of mixed precision: --precision"},
    {"data_types", SETTINGS_MAP, SETTINGS_MAPPED, NULL, NULL, NULL, NULL},
    {"data_types.grad_accum_dtype", SETTINGS_WORD, SETTINGS_IDLE, "fp32=float32", NULL, NULL, "sums of gradients are f32"},
    {"optimizer", SETTINGS_MAP, SETTINGS_HONOURED, NULL, NULL, NULL, NULL},
    {"optimizer.type", SETTINGS_WORD, SETTINGS_HONOURED, "Adam|AdamW|SGD", NULL, NULL,
     "--optim; Adam without adam_w_mode false is AdamW, as there"},
    {"optimizer.legacy_fusion", SETTINGS_SWITCH, SETTINGS_IDLE, NULL, NULL, NULL, ALWAYS},
    {"optimizer.params", SETTINGS_MAP, SETTINGS_HONOURED, NULL, NULL, NULL, NULL},
    {"optimizer.params.lr", SETTINGS_REAL, SETTINGS_HONOURED, "0 1e10", NULL, "train:learning-rate", "--learning-rate"},
    {"optimizer.params.betas", SETTINGS_REALS, SETTINGS_HONOURED, NULL, NULL, NULL, "--adam-beta1 and --adam-beta2"},
    {"optimizer.params.eps", SETTINGS_REAL, SETTINGS_HONOURED, "0 1", NULL, "train:adam-epsilon", "--adam-epsilon"},
    {"optimizer.params.weight_decay", SETTINGS_REAL, SETTINGS_HONOURED, "0 1e10", NULL, "train:weight-decay", "--weight-decay"},
    {"optimizer.params.momentum", SETTINGS_REAL, SETTINGS_HONOURED, "0 1", NULL, "train:momentum", "--momentum"},
    {"optimizer.params.adam_w_mode", SETTINGS_SWITCH, SETTINGS_HONOURED, NULL, NULL, NULL, "--optim adam or adamw"},
    {"optimizer.params.torch_adam|fused|foreach|set_grad_none", SETTINGS_SWITCH, SETTINGS_IDLE, NULL, NULL, NULL,
     "there is one form of it"},
    {"optimizer.params.bias_correction", SETTINGS_ANY, SETTINGS_LATER, NULL, "true", NULL,
     "an Adam without bias correction is not built yet"},
    {"optimizer.params.max_grad_norm", SETTINGS_ANY, SETTINGS_REFUSED, NULL, "0.0", NULL,
     "the key is gradient_clipping, as DeepSpeed itself says"},
    {"optimizer.params.amsgrad|nesterov|freeze_step|cuda_aware|comm_backend_name|max_coeff|min_coeff|dampening", SETTINGS_ANY,
     SETTINGS_REFUSED, NULL, NULL, NULL, "--optim is sgd, adam or adamw, without variants"},
    {"scheduler", SETTINGS_MAP, SETTINGS_HONOURED, NULL, NULL, NULL, NULL},
    {"scheduler.type", SETTINGS_WORD, SETTINGS_HONOURED, "WarmupLR|WarmupDecayLR|WarmupCosineLR|OneCycle|LRRangeTest", NULL,
     "train:lr-scheduler-type", "--lr-scheduler-type"},
    {"scheduler.params", SETTINGS_MAP, SETTINGS_HONOURED, NULL, NULL, NULL, NULL},
    {"scheduler.params.warmup_num_steps", SETTINGS_REAL, SETTINGS_HONOURED, "-1 1e30", NULL, NULL, "--warmup-steps"},
    {"scheduler.params.warmup_min_lr|warmup_max_lr|total_num_steps|warmup_min_ratio|cos_min_ratio|cycle_min_lr|"
     "cycle_max_lr|decay_lr_rate|cycle_first_step_size|cycle_second_step_size|decay_step_size|lr_range_test_min_lr|"
     "lr_range_test_step_size|lr_range_test_step_rate|cycle_first_stair_count|cycle_second_stair_count|cycle_min_mom|cycle_max_mom|"
     "decay_mom_rate",
     SETTINGS_REAL, SETTINGS_HONOURED, "-1 1e30", NULL, NULL, "--lr-scheduler-kwargs"},
    {"scheduler.params.warmup_type", SETTINGS_WORD, SETTINGS_HONOURED, "log|linear", NULL, NULL, "--lr-scheduler-kwargs"},
    {"scheduler.params.lr_range_test_staircase", SETTINGS_SWITCH, SETTINGS_HONOURED, NULL, NULL, NULL, "--lr-scheduler-kwargs"},
    {"scheduler.params.cycle_momentum", SETTINGS_ANY, SETTINGS_REFUSED, NULL, "true", NULL,
     "the momentum follows the cycle: cycle_min_mom and cycle_max_mom of one value keep it"},
    {"scheduler.params.last_batch_iteration", SETTINGS_ANY, SETTINGS_REFUSED, NULL, "=-1", NULL,
     "a schedule begins with the run: --resume-from-checkpoint goes on"},
    {"zero_optimization", SETTINGS_MAP, SETTINGS_MAPPED, NULL, NULL, NULL, NULL},
    {"zero_optimization.stage", SETTINGS_INT, SETTINGS_MAPPED, "0 3", NULL, NULL, "0 and 1: --shard state; 2: gradients; 3: params"},
    {"zero_optimization.cpu_offload", SETTINGS_SWITCH, SETTINGS_MAPPED, NULL, NULL, NULL, "--offload state=host"},
    {"zero_optimization.cpu_offload_params|cpu_offload_param", SETTINGS_SWITCH, SETTINGS_MAPPED, NULL, NULL, NULL, "--offload params=host"},
    {"zero_optimization.cpu_offload_use_pin_memory", SETTINGS_SWITCH, SETTINGS_IDLE, NULL, NULL, NULL, "always pinned where a card is"},
    {"zero_optimization.offload_optimizer|offload_param", SETTINGS_MAP, SETTINGS_HONOURED, NULL, NULL, NULL, NULL},
    {"zero_optimization.offload_optimizer.device", SETTINGS_WORD, SETTINGS_HONOURED, "none|cpu|nvme", NULL, NULL,
     "cpu: --offload state=host; nvme: --offload state=nvme:DIR"},
    {"zero_optimization.offload_param.device", SETTINGS_WORD, SETTINGS_HONOURED, "none|cpu|nvme", NULL, NULL,
     "cpu: --offload params=host; nvme: not built yet, a run refuses it"},
    {"zero_optimization.offload_optimizer.nvme_path", SETTINGS_TEXT, SETTINGS_HONOURED, NULL, NULL, NULL,
     "the folder of --offload state=nvme:DIR"},
    {"zero_optimization.offload_param.nvme_path", SETTINGS_TEXT, SETTINGS_HONOURED, NULL, NULL, NULL,
     "the folder of --offload params=nvme:DIR: not built yet, a run refuses it"},
    {"zero_optimization.offload_optimizer.ratio", SETTINGS_REAL, SETTINGS_HONOURED, "0 1", NULL, NULL,
     "the part of --offload state=host:R; a disk has the whole"},
    {"zero_optimization.offload_optimizer.pin_memory|buffer_count|fast_init|pipeline|pipeline_read|pipeline_write|cpuadam_cores_perc",
     SETTINGS_ANY, SETTINGS_IDLE, NULL, NULL, NULL, "always pinned and pipelined; counts and cores are planned"},
    {"zero_optimization.offload_param.pin_memory|buffer_count|buffer_size|max_in_cpu", SETTINGS_ANY, SETTINGS_IDLE, NULL, NULL, NULL,
     SWAPPED},
    {"zero_optimization.offload_optimizer.super_offload", SETTINGS_ANY, SETTINGS_REFUSED, NULL, NULL, NULL,
     "updates are exact, none is rolled back"},
    {"zero_optimization.zenflow", SETTINGS_ANY, SETTINGS_REFUSED, NULL, NULL, NULL, "no update is late"},
    {"zero_optimization.reduce_bucket_size", SETTINGS_INT, SETTINGS_MAPPED, "1 274877906944", NULL, NULL,
     "YOKE_BUCKET_BYTES, elements x 4"},
    {"zero_optimization.allgather_bucket_size", SETTINGS_INT, SETTINGS_IDLE, "1 1e12", NULL, NULL,
     "one size for both ways: reduce_bucket_size"},
    {"zero_optimization.stage3_prefetch_bucket_size|stage3_max_live_parameters|stage3_max_reuse_distance|prefetch_bucket_size|"
     "max_live_parameters|max_reuse_distance",
     SETTINGS_INT, SETTINGS_IDLE, "0 1e15", NULL, NULL, BOUND},
    {"zero_optimization.stage3_param_persistence_threshold|param_persistence_threshold", SETTINGS_INT, SETTINGS_HONOURED, "0 1e15", NULL,
     NULL,
     "--keep-whole"},
    {"zero_optimization.stage3_model_persistence_threshold|model_persistence_threshold", SETTINGS_INT, SETTINGS_IDLE, "0 1e19", NULL,
     NULL, BOUND},
    {"zero_optimization.stage3_gather_16bit_weights_on_model_save|"
     "gather_16bit_weights_on_model_save|stage3_gather_fp16_weights_on_model_save",
     SETTINGS_SWITCH, SETTINGS_IDLE, NULL, NULL, NULL, "a saved model is whole"},
    {"zero_optimization.overlap_comm|contiguous_gradients|reduce_scatter|allgather_partitions|round_robin_gradients|sub_group_size|"
     "use_multi_rank_bucket_allreduce|ignore_unused_parameters|memory_efficient_linear|elastic_checkpoint|legacy_stage1|grad_hooks|"
     "use_all_reduce_for_fetch_params|stage3_use_all_reduce_for_fetch_params|log_trace_cache_warnings",
     SETTINGS_ANY, SETTINGS_IDLE, NULL, NULL, NULL, ALWAYS},
    {"zero_optimization.zero_hpz_partition_size", SETTINGS_INT, SETTINGS_MAPPED, "1 65536", NULL, NULL, "above 1: --shard-within host"},
    {"zero_optimization.mics_shard_size|mics_hierarchical_params_gather", SETTINGS_ANY, SETTINGS_REFUSED, NULL, "-1|1", NULL,
     "slices are over all ranks or one host's: --shard-within host"},
    {"zero_optimization.zero_quantized_gradients", SETTINGS_SWITCH, SETTINGS_MAPPED, NULL, NULL, NULL,
     "YOKE_WIRE=int8, with error feedback"},
    {"zero_optimization.load_from_fp32_weights", SETTINGS_ANY, SETTINGS_REFUSED, NULL, "true", NULL, "masters are loaded in f32"},
    {"zero_optimization.zeropp_loco_param", SETTINGS_ANY, SETTINGS_REFUSED, NULL, NULL, NULL,
     "YOKE_WIRE=int8 feeds errors back whole, in each step"},
    {"zero_optimization.zero_quantized_weights", SETTINGS_ANY, SETTINGS_REFUSED, NULL, NULL, NULL, "ranks would compute with unequal bits"},
    {"zero_optimization.zero_quantized_nontrainable_weights", SETTINGS_ANY, SETTINGS_LATER, NULL, NULL, NULL,
     "quantized frozen weights are not built yet"},
    {"zero_optimization.module_granularity_threshold|pipeline_loading_checkpoint|override_module_apply|stage3_module_granularity_threshold|"
     "leaf_module",
     SETTINGS_ANY, SETTINGS_IDLE, NULL, NULL, NULL, "the trace of a step says when each value is read"},
    {"activation_checkpointing", SETTINGS_MAP, SETTINGS_MAPPED, NULL, NULL, NULL, NULL},
    {"activation_checkpointing.cpu_checkpointing", SETTINGS_SWITCH, SETTINGS_MAPPED, NULL, NULL, NULL,
     "--offload activations=host"},
    {"activation_checkpointing.partition_activations", SETTINGS_SWITCH, SETTINGS_IDLE, NULL, NULL, NULL,
     "they would be cut over ranks of tensor parallel, of which there is one"},
    {"activation_checkpointing.contiguous_memory_optimization|number_checkpoints|synchronize_checkpoint_boundary|profile", SETTINGS_ANY,
     SETTINGS_IDLE, NULL, NULL, NULL, "memory of a step is planned; --gradient-checkpointing chooses blocks"},
    {"aio", SETTINGS_ANY, SETTINGS_IDLE, NULL, NULL, NULL, "requests to a disk are planned"},
    {"tensorboard|csv_monitor|wandb|comet", SETTINGS_MAP, SETTINGS_MAPPED, NULL, NULL, NULL, NULL},
    {"tensorboard.enabled", SETTINGS_SWITCH, SETTINGS_MAPPED, NULL, NULL, NULL, "--report-to tensorboard"},
    {"csv_monitor.enabled", SETTINGS_SWITCH, SETTINGS_MAPPED, NULL, NULL, NULL, "--report-to csv"},
    {"tensorboard.output_path", SETTINGS_TEXT, SETTINGS_MAPPED, NULL, NULL, NULL, "--logging-dir"},
    {"tensorboard.job_name", SETTINGS_TEXT, SETTINGS_MAPPED, NULL, NULL, NULL, "--run-name"},
    {"csv_monitor.output_path", SETTINGS_TEXT, SETTINGS_MAPPED, NULL, NULL, NULL, "--logging-dir"},
    {"csv_monitor.job_name", SETTINGS_TEXT, SETTINGS_MAPPED, NULL, NULL, NULL, "--run-name"},
    {"wandb.enabled", SETTINGS_ANY, SETTINGS_REFUSED, NULL, NULL, NULL, "nothing is uploaded: --report-to writes files"},
    {"comet.enabled", SETTINGS_ANY, SETTINGS_REFUSED, NULL, NULL, NULL, "nothing is uploaded: --report-to writes files"},
    {"wandb.group|team|project", SETTINGS_ANY, SETTINGS_IDLE, NULL, NULL, NULL, "of what is switched off"},
    {"comet.samples_log_interval|project|workspace|api_key|experiment_name|experiment_key|online|mode", SETTINGS_ANY, SETTINGS_IDLE, NULL,
     NULL, NULL, "of what is switched off"},
    {"checkpoint", SETTINGS_MAP, SETTINGS_MAPPED, NULL, NULL, NULL, NULL},
    {"checkpoint.tag_validation|writer|parallel_write", SETTINGS_ANY, SETTINGS_IDLE, NULL, NULL, NULL,
     "a checkpoint is one whole, which rank 0 commits"},
    {"checkpoint.load_universal|use_node_local_storage|checkpoint_serialization", SETTINGS_ANY, SETTINGS_REFUSED, NULL, NULL, NULL,
     "checkpoints are whole files under Hugging Face's names, in one folder"},
    {"flops_profiler|comms_logger", SETTINGS_ANY, SETTINGS_REFUSED, NULL, NULL, NULL, "yoke trace writes a timeline of a step"},
    {"elasticity|autotuning", SETTINGS_ANY, SETTINGS_REFUSED, NULL, NULL, NULL,
     "shares follow the speed of each rank, and --max-restarts goes on"},
    {"data_efficiency|curriculum_learning|data_sampling", SETTINGS_ANY, SETTINGS_REFUSED, NULL, NULL, NULL, DATA},
    {"compression_training|quantize_training|weight_quantization", SETTINGS_ANY, SETTINGS_REFUSED, NULL, NULL, NULL, QUANTIZED},
    {"eigenvalue|progressive_layer_drop", SETTINGS_ANY, SETTINGS_REFUSED, NULL, NULL, NULL, "there is nothing like it here"},
    {"sparse_attention", SETTINGS_ANY, SETTINGS_REFUSED, NULL, NULL, NULL, "attention is dense"},
    {"hybrid_engine", SETTINGS_ANY, SETTINGS_REFUSED, NULL, NULL, NULL, "there is no engine for generation"},
    {"compile", SETTINGS_ANY, SETTINGS_REFUSED, NULL, NULL, NULL,
     "there is no switch: every step is traced, fused and planned before it runs"},
    {"moe|expert_parallel", SETTINGS_ANY, SETTINGS_REFUSED, NULL, NULL, NULL, "there are no experts"},
    {"tensor_parallel|pipeline", SETTINGS_ANY, SETTINGS_REFUSED, NULL, NULL, NULL, "layouts besides data parallel are not built yet"},
    {"nebula|use_data_before_expert_parallel_|use_data_before_expert_parallelism|swap_tensor", SETTINGS_ANY, SETTINGS_REFUSED, NULL,
     NULL, NULL, "there is nothing like it here"},
};

const settings_table settings_deepspeed = {"deepspeed", "DeepSpeed's JSON", keys, sizeof keys / sizeof keys[0], true, true};

/* ---- Combined meaning of keys ------------------------------------------------------------------------------------ */

static void put_number(settings *s, const char *name, double v, const char *file, settings_place at)
{
    char text[40];
    snprintf(text, sizeof text, "%.15g", v);
    settings_put(s, SETTINGS_TRAIN, name, text, file, at);
}

/* Each key's part of --loss-scaling; without fp16 there is no scale. */
static void scaling_parts(settings *s, const char *file, const yk__tree *map, bool half)
{
    static const char *const parts[][2] = {{"loss_scale", "fixed"}, {"initial_scale_power", "init"}, {"loss_scale_window", "interval"},
                                           {"hysteresis", "hysteresis"}, {"min_loss_scale", "floor"},
                                           {"consecutive_hysteresis", "consecutive"}};
    char path[64], text[96];
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        snprintf(path, sizeof path, "fp16.%s", parts[i][0]);
        const double v = settings_number(map, path, 1);
        if (!half)
            settings_unneed(s, file, path, "fp16 is off");
        snprintf(text, sizeof text, "%s=%.15g", parts[i][1], i == 1 ? ldexp(1, (int)v) : v);
        if (half && settings_text(map, path) && i < 5)
            settings_part_of(s, "loss-scaling", text, file, settings_at(map, path));
    }
}

static void finish_precision(settings *s, const char *file, const yk__tree *map)
{
    const bool both = settings_is_given(map, "bf16") && settings_is_given(map, "bfloat16");
    const bool older = !both && settings_on(map, "bfloat16.enabled", false);
    const bool half = settings_on(map, "fp16.enabled", false), brain = settings_on(map, "bf16.enabled", false) || older;
    const char *of_brain = older ? "bfloat16.enabled" : "bf16.enabled";
    const double fixed = settings_number(map, "fp16.loss_scale", 0);
    const size_t parts = s->parts;
    char text[256];
    if (both)
        settings_unneed(s, file, "bfloat16", "DeepSpeed reads it only where bf16 is absent");
    if (half && brain)
        settings_say(s, file, settings_line(map, of_brain), of_brain,
                     "fp16.enabled (line %u) is on too: expected one precision",
                     settings_line(map, "fp16.enabled"));
    else if (half || brain)
        settings_put(s, SETTINGS_TRAIN, "precision", half ? "fp16" : "bf16", file,
                     settings_at(map, half ? "fp16.enabled" : of_brain));
    scaling_parts(s, file, map, half);
    if (!half || brain)
        return;
    if (fixed > 0)
        snprintf(text, sizeof text, "fixed=%.15g", fixed);
    else
        snprintf(text, sizeof text, "rule=deepspeed,init=%.15g,interval=%.15g,hysteresis=%.15g,floor=%.15g%s",
                 ldexp(1, (int)settings_number(map, "fp16.initial_scale_power", 16)), settings_number(map, "fp16.loss_scale_window", 1000),
                 settings_number(map, "fp16.hysteresis", 2), settings_number(map, "fp16.min_loss_scale", 1),
                 settings_on(map, "fp16.consecutive_hysteresis", false) ? ",consecutive=1" : "");
    if (s->parts > parts || settings_text(map, "fp16.consecutive_hysteresis"))
        settings_put(s, SETTINGS_TRAIN, "loss-scaling", text, file, settings_at(map, "fp16"));
    else
        settings_preset(s, "loss-scaling", text, file);
}

/* A number of the batch: kept for settings_settle_batch. Two files that differ are an error, unless the option is typed. */
static void batch_note(settings *s, settings_said *kept, const char *option, const char *file, const yk__tree *map, const char *key)
{
    const double v = settings_number(map, key, 0);
    const settings_place at = settings_at(map, key);
    if (v > 0 && !(kept->number > 0))
        *kept = (settings_said){v, file, key, at.line};
    else if (v > 0 && (kept == &s->micro ? settings_replaced(s, option) : settings_typed(s, option) != NULL))
        settings_part_of(s, option, settings_text(map, key), file, at); /* is dropped with the first */
    else if (v > 0 && v != kept->number)
        settings_say(s, file, at.line, key, "%.15g, and %s, line %u has %.15g: leave one", v, kept->file, kept->line, kept->number);
}

static void finish_optimizer(settings *s, const char *file, const yk__tree *map)
{
    const char *type = settings_text(map, "optimizer.type");
    const yk__tree *betas = yk__tree_get(yk__tree_get(yk__tree_get(map, "optimizer"), "params"), "betas");
    const bool decoupled = settings_on(map, "optimizer.params.adam_w_mode", true);
    if (type)
        settings_put(s, SETTINGS_TRAIN, "optim",
                     (type[0] | 32) == 's' ? "sgd" : strlen(type) > 4 || decoupled ? "adamw" : "adam", file,
                         settings_at(map, "optimizer.type"));
    if (betas && betas->kind == YK__TREE_LIST && betas->child && betas->child->next && !betas->child->next->next) {
        settings_put(s, SETTINGS_TRAIN, "adam-beta1", betas->child->text, file, settings_of(betas));
        settings_put(s, SETTINGS_TRAIN, "adam-beta2", betas->child->next->text, file, settings_of(betas));
    }
}

/* Numbers of absent keys that DeepSpeed and this command have otherwise. Of gradient_clipping DeepSpeed itself has had two. */
static void finish_absent(settings *s, const char *file, const yk__tree *map)
{
    const char *type = settings_text(map, "optimizer.type");
    if (type && !settings_is_given(map, "optimizer.params.lr"))
        settings_preset(s, "learning-rate", "0.001", file);
    if (type && (type[0] | 32) == 's' && !settings_is_given(map, "optimizer.params.momentum"))
        settings_preset(s, "momentum", "0", file);
    if (!settings_is_given(map, "gradient_clipping"))
        s->unclipped = file;
}

/* The steps of a warm-up are --warmup-steps, so that a typed one takes their place. "auto" is Trainer's: the command's own number, or 0.
 * Without the key DeepSpeed has 1000. */
static bool finish_warmup(settings *s, const char *file, const yk__tree *map)
{
    const char *type = settings_text(map, "scheduler.type"), *path = "scheduler.params.warmup_num_steps";
    const yk__tree *steps = yk__tree_get(yk__tree_get(yk__tree_get(map, "scheduler"), "params"), "warmup_num_steps");
    const bool warms = type && yk__word_find("warmuplr|warmupdecaylr|warmupcosinelr", type, strlen(type)) >= 0;
    const bool automatic = steps && steps->kind == YK__TREE_TEXT && !strcasecmp(steps->text, "auto");
    if (!warms || !(automatic || (settings_text(map, path) && !steps->text[strspn(steps->text, "0123456789")])))
        return false;
    if (automatic)
        settings_preset(s, "warmup-steps", "0", file);
    else
        settings_put(s, SETTINGS_TRAIN, "warmup-steps", steps->text, file, settings_at(map, path));
    return true;
}

static void finish_schedule(settings *s, const char *file, const yk__tree *map)
{
    const yk__tree *params = yk__tree_get(yk__tree_get(map, "scheduler"), "params");
    const bool warmed = finish_warmup(s, file, map);
    char text[1024];
    size_t n = 0;
    for (const yk__tree *c = params ? params->child : NULL; c && n < sizeof text; c = c->next)
        if (settings_text(params, c->key) && !settings_is_comment(c->key) && !(warmed && !strcmp(c->key, "warmup_num_steps")) &&
            yk__word_find("cycle_momentum|last_batch_iteration", c->key, strlen(c->key)) < 0) {
            const size_t from = n + (n > 0);
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s=%s", n ? "," : "", c->key, c->text);
            settings_part_of(s, "lr-scheduler-kwargs", from < sizeof text ? text + from : "", file, settings_of(c));
        }
    const char *type = settings_text(map, "scheduler.type");
    if (type && yk__word_find("warmuplr|warmupdecaylr", type, strlen(type)) >= 0 &&
        !settings_is_given(map, "scheduler.params.warmup_max_lr")) {
        s->unheated = file;
        s->unheated_rates += settings_text(map, "optimizer.params.lr") != NULL;
    }
    if (n && n < sizeof text)
        settings_put(s, SETTINGS_TRAIN, "lr-scheduler-kwargs", text, file,
                     params && params->child ? settings_of(params) : settings_at(map, "scheduler.type"));
}

/* Without warmup_max_lr DeepSpeed warms up to its own number, whatever the optimizer's rate in that file is. A typed rate or another file's
 * holds instead, in any order of files. */
static void settle_rate(settings *s)
{
    const settings_option *rate = settings_find(s, SETTINGS_TRAIN, "learning-rate");
    const settings_option *own = settings_find(s, SETTINGS_TRAIN, "lr-scheduler-kwargs");
    const char *most = "warmup_max_lr=0.001", *file = s->unheated;
    s->unheated = NULL;
    if (!file || settings_typed(s, "learning-rate") || (rate && !rate->preset && rate->says > s->unheated_rates) ||
        (own && (!own->value || strstr(own->value, "warmup_max_lr"))))
        return;
    if (!own) {
        settings_preset(s, "lr-scheduler-kwargs", most, file);
        return;
    }
    char *joined = yk__format("%s%s%s", own->value, *own->value ? "," : "", most);
    if (!joined) {
        yk__fail_mem(&s->err, strlen(most), "settings");
        return;
    }
    yk__free(own->value);
    s->option[own - s->option].value = joined;
}

/* A setting of the list "a=1,b=2". */
static double listed_number(const char *list, const char *name, double preset)
{
    const size_t n = strlen(name);
    for (; *list; list += strcspn(list, ","), list += *list == ',')
        if (!strncmp(list, name, n) && list[n] == '=')
            return strtod(list + n + 1, NULL);
    return preset;
}

/* OneCycle of DeepSpeed gives Adam the second beta 0.99, and leaves SGD's momentum as it is. Yoke's cycle changes the momentum alone, of
 * any optimizer. */
static void settle_cycle(settings *s)
{
    const settings_option *type = settings_find(s, SETTINGS_TRAIN, "lr-scheduler-type");
    const settings_option *optim = settings_find(s, SETTINGS_TRAIN, "optim");
    const settings_option *beta = settings_find(s, SETTINGS_TRAIN, "adam-beta2"), *of = settings_find(s, SETTINGS_TRAIN, "momentum");
    const settings_option *list = settings_find(s, SETTINGS_TRAIN, "lr-scheduler-kwargs");
    const char *typed = settings_typed(s, "optim"), *name = typed ? typed : optim && optim->value ? optim->value : "adamw";
    if (!type || !type->value || strcmp(type->value, "OneCycle") || !type->key || strcmp(type->key, "type") ||
        settings_typed(s, "lr-scheduler-type"))
        return;
    if (strcmp(name, "sgd") && !settings_typed(s, "adam-beta2")) {
        settings_preset(s, "adam-beta2", "0.99", type->file);
        if (beta && beta->value && beta->key && !strcmp(beta->key, "betas") && strtod(beta->value, NULL) != 0.99)
            settings_say(s, beta->file, beta->line, "optimizer.params.betas", "DeepSpeed's OneCycle has 0.99 for the second: "
                         "expected 0.99, got %s (a typed --adam-beta2 takes its place)", beta->value);
    }
    if (strcmp(name, "sgd") || settings_typed(s, "lr-scheduler-kwargs"))
        return;
    const char *given = settings_typed(s, "momentum"), *said = list && list->value ? list->value : "";
    const double m = given ? strtod(given, NULL) : of && of->value ? strtod(of->value, NULL) : 0.9;
    if (listed_number(said, "cycle_min_mom", 0.8) != m || listed_number(said, "cycle_max_mom", 0.9) != m ||
        listed_number(said, "decay_mom_rate", 0) != 0)
        settings_say(s, type->file, type->line, "scheduler.type", "DeepSpeed's OneCycle leaves the momentum of SGD as it is: expected "
                     "cycle_min_mom and cycle_max_mom %.15g, its momentum, and decay_mom_rate 0", m);
}

void settings_settle(settings *s)
{
    settings_settle_batch(s);
    settle_rate(s);
    settle_cycle(s);
}

/* "host", "nvme:DIR", or NULL, of a place's device. read: the stage has a use for it. */
static const char *offload_place(settings *s, const char *file, const yk__tree *map, const char *what, bool read, char *text, size_t size)
{
    char path[96], of_device[96];
    snprintf(of_device, sizeof of_device, "zero_optimization.%s.device", what);
    const char *device = settings_text(map, of_device), *folder;
    snprintf(path, sizeof path, "zero_optimization.%s.nvme_path", what);
    if (!device || strcmp(device, "nvme"))
        settings_unneed(s, file, path, "device nvme alone has a folder");
    if (!device || !strcmp(device, "none"))
        return NULL;
    if (strcmp(device, "nvme"))
        return "host";
    folder = settings_text(map, path);
    if (!folder && read)
        settings_lack_folder(s, file, settings_line(map, of_device), of_device, "nvme_path");
    snprintf(text, size, "nvme:%s", folder ? folder : "");
    return text;
}

/* Adds "WHAT=PLACE" to --offload, which these keys ask for. */
static void offload_add(settings *s, const char *file, const yk__tree *map, char text[1200], const char *place,
                        const char *const *keys_of)
{
    const size_t n = strlen(text);
    for (int i = 0; i < 4 && keys_of[i]; i++)
        settings_part_of(s, "offload", place, file, settings_at(map, keys_of[i]));
    snprintf(text + n, 1200 - n, "%s%s", n ? "," : "", place);
}

static void finish_offload(settings *s, const char *file, const yk__tree *map, int stage)
{
    static const char *const of_state[] = {"zero_optimization.offload_optimizer.device", "zero_optimization.offload_optimizer.nvme_path",
                                           "zero_optimization.cpu_offload", NULL};
    static const char *const of_params[] = {"zero_optimization.offload_param.device", "zero_optimization.offload_param.nvme_path",
                                            "zero_optimization.cpu_offload_params", "zero_optimization.cpu_offload_param"};
    static const char *const of_activations[] = {"activation_checkpointing.cpu_checkpointing", NULL};
    char state_text[512], params_text[512], place[560], text[1200] = "";
    const char *ratio = "zero_optimization.offload_optimizer.ratio";
    const double part = settings_number(map, ratio, 1);
    const char *state = offload_place(s, file, map, "offload_optimizer", stage >= 1, state_text, sizeof state_text);
    const char *params = offload_place(s, file, map, "offload_param", stage == 3, params_text, sizeof params_text);
    state = !state && settings_on(map, "zero_optimization.cpu_offload", false) ? "host" : state;
    for (size_t i = 2; i < 4 && !params; i++)
        params = settings_on(map, of_params[i], false) ? "host" : NULL;
    for (int i = 0; i < 4 && params && stage < 3; i++)
        settings_unneed(s, file, of_params[i], "DeepSpeed reads it in stage 3 alone");
    for (int i = 0; i < 3 && state && stage < 1; i++)
        settings_unneed(s, file, of_state[i], "DeepSpeed reads it in stages 1 to 3 alone");
    params = stage < 3 ? NULL : params;
    state = stage < 1 ? NULL : state;
    if (!state)
        settings_unneed(s, file, ratio, "the optimizer's state stays with its device");
    if (state && part > 0) { /* the least ratio is no offload */
        snprintf(place, sizeof place, "state=%s", state);
        offload_add(s, file, map, text, place, of_state);
        snprintf(place, sizeof place, ":%g", part);
        strcat(text, part < 1 ? place : "");
        settings_part_of(s, "offload", text, file, settings_at(map, ratio));
    }
    if (params) {
        snprintf(place, sizeof place, "params=%s", params);
        offload_add(s, file, map, text, place, of_params);
    }
    if (settings_on(map, of_activations[0], false))
        offload_add(s, file, map, text, "activations=host", of_activations);
    if (*text)
        settings_put(s, SETTINGS_TRAIN, "offload", text, file, settings_at(map, "zero_optimization"));
}

/* The one of two keys of this option that has a value; two values that differ are an error, unless the run has no use for them. */
static const char *twin_of(settings *s, const char *file, const yk__tree *map, const char *const of[2], const char *option)
{
    const char *one = settings_text(map, of[0]), *two = settings_text(map, of[1]);
    if (one && two && settings_replaced(s, option))
        settings_part_of(s, option, two, file, settings_at(map, of[1])); /* is dropped with the first */
    else if (one && two && !yk__cli_same_value(yk__train_command, option, one, two))
        settings_say(s, file, settings_line(map, of[1]), of[1], "%s, and %s (line %u) is %s: expected one value, or --%s", two, of[0],
                     settings_line(map, of[0]), one, option);
    return one || !two ? of[0] : of[1];
}

static void finish_zero(settings *s, const char *file, const yk__tree *map)
{
    static const char *const stages[] = {"state", "state", "gradients", "params"};
    static const char *const of_stage_3[] = {"zero_optimization.stage3_param_persistence_threshold",
                                             "zero_optimization.param_persistence_threshold", "zero_optimization.zero_hpz_partition_size"};
    const double given = settings_number(map, "zero_optimization.stage", -1), bucket =
        settings_number(map, "zero_optimization.reduce_bucket_size", 0);
    const int stage = given >= 0 && given <= 3 ? (int)given : 0;
    char text[40];
    if (given >= 0)
        settings_put(s, SETTINGS_TRAIN, "shard", stages[stage], file, settings_at(map, "zero_optimization.stage"));
    const char *of_whole = stage == 3 ? twin_of(s, file, map, of_stage_3, "keep-whole") : of_stage_3[0];
    const double whole = settings_number(map, of_whole, -1);
    for (size_t i = 0; i < 3 && stage < 3; i++)
        settings_unneed(s, file, of_stage_3[i], "DeepSpeed reads it in stage 3 alone");
    if (stage == 3 && whole >= 0)
        put_number(s, "keep-whole", whole, file, settings_at(map, of_whole));
    if (stage == 3 && settings_number(map, "zero_optimization.zero_hpz_partition_size", 1) > 1)
        settings_put(s, SETTINGS_TRAIN, "shard-within", "host", file, settings_at(map, "zero_optimization.zero_hpz_partition_size"));
    if (settings_on(map, "zero_optimization.zero_quantized_gradients", false))
        settings_put(s, SETTINGS_ENV, "YOKE_WIRE", "int8", file, settings_at(map, "zero_optimization.zero_quantized_gradients"));
    snprintf(text, sizeof text, "%.15g", bucket * 4 < 4096 ? 4096 : bucket * 4);
    if (bucket > 0)
        settings_put(s, SETTINGS_ENV, "YOKE_BUCKET_BYTES", text, file, settings_at(map, "zero_optimization.reduce_bucket_size"));
    finish_offload(s, file, map, stage);
}

/* Monitors write to one folder, under one name. */
static void finish_monitors(settings *s, const char *file, const yk__tree *map)
{
    static const char *const folders[] = {"tensorboard.output_path", "csv_monitor.output_path"};
    static const char *const names[] = {"tensorboard.job_name", "csv_monitor.job_name"};
    static const char *const enabled[] = {"tensorboard.enabled", "csv_monitor.enabled"}, *const kinds[] = {"tensorboard", "csv"};
    const char *typed = settings_typed(s, "report-to");
    bool on[2], read[2];
    for (int i = 0; i < 2; i++) {
        on[i] = settings_on(map, enabled[i], false);
        if (on[i])
            continue;
        settings_unneed(s, file, folders[i], "the monitor is off");
        settings_unneed(s, file, names[i], "the monitor is off");
    }
    if (!on[0] && !on[1])
        return;
    settings_put(s, SETTINGS_TRAIN, "report-to", on[0] && on[1] ? "tensorboard,csv" : kinds[!on[0]], file,
                 settings_at(map, enabled[!on[0]]));
    for (int i = 0; i < 2; i++) {
        read[i] = typed && settings_list_has(typed, i ? "csv=all" : "tensorboard=all", true);
        if (on[i])
            settings_part_of(s, "report-to", kinds[i], file, settings_at(map, enabled[i]));
    }
    for (int i = 0; i < 2 && on[0] && on[1]; i++) { /* of two monitors, a typed --report-to has the other alone */
        if (read[i] || !read[!i])
            continue;
        settings_unneed(s, file, folders[i], "the command line's --report-to has no use for it");
        settings_unneed(s, file, names[i], "the command line's --report-to has no use for it");
        on[i] = false;
    }
    const int k = !on[0];
    const char *folder = on[0] && on[1] ? twin_of(s, file, map, folders, "logging-dir") : folders[k];
    const char *name = on[0] && on[1] ? twin_of(s, file, map, names, "run-name") : names[k];
    if (settings_text(map, folder))
        settings_put(s, SETTINGS_TRAIN, "logging-dir", settings_text(map, folder), file, settings_at(map, folder));
    if (settings_text(map, name))
        settings_put(s, SETTINGS_TRAIN, "run-name", settings_text(map, name), file, settings_at(map, name));
}

void settings_finish_deepspeed(settings *s, const char *file, const yk__tree *map)
{
    const double every = settings_number(map, "steps_per_print", 0);
    finish_precision(s, file, map);
    batch_note(s, &s->rows, "global-batch", file, map, "train_batch_size");
    batch_note(s, &s->micro, "per-device-train-batch-size", file, map, "train_micro_batch_size_per_gpu");
    finish_optimizer(s, file, map);
    finish_absent(s, file, map);
    finish_schedule(s, file, map);
    finish_zero(s, file, map);
    finish_monitors(s, file, map);
    if (every > 0)
        put_number(s, "logging-steps", every > LOGGING_MOST ? LOGGING_MOST : every, file, settings_at(map, "steps_per_print"));
    if (settings_text(map, "dataloader_drop_last"))
        settings_put(s, SETTINGS_TRAIN, settings_on(map, "dataloader_drop_last", true) ? "dataloader-drop-last" : "no-dataloader-drop-last",
                     NULL, file, settings_at(map, "dataloader_drop_last"));
}
