/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of keys of Accelerate's YAML (1.15 and older), and their combined meaning as options of Yoke. config_read.c walks a file by it,
 * in the main thread. docs/from-accelerate.md documents the keys.
 */
#include "tools/config/config_settings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/word.h"

#define TPU "there is no backend for TPUs"
#define MEETING "ranks of one host meet in its memory; ranks of several hosts at main_process_ip"
#define FIXED_FP8 "fp8 rounds operands of products to E4M3, in one way"
#define LAYOUT "layouts besides data parallel are not built yet: expected 1"
#define CLOUD "jobs run on machines that are there: compute_environment LOCAL_MACHINE"

static const settings_key keys[] = {
    {"compute_environment", SETTINGS_WORD, SETTINGS_HONOURED, "LOCAL_MACHINE|AMAZON_SAGEMAKER", NULL, NULL, "this machine"},
    {"distributed_type", SETTINGS_WORD, SETTINGS_MAPPED,
     "NO|MULTI_CPU|MULTI_GPU|MULTI_XPU|MULTI_NPU|MULTI_MLU|MULTI_HPU|MULTI_SDAA|MULTI_MUSA|MULTI_NEURON|FSDP|"
      "DEEPSPEED|MEGATRON_LM|TP|TPU|XLA", NULL, NULL,
     "which of the maps below counts; MULTI_CPU: --devices cpu"},
    {"mixed_precision", SETTINGS_WORD, SETTINGS_HONOURED, YK__PRECISION_WORDS, NULL, NULL, "--precision"},
    {"num_processes", SETTINGS_INT, SETTINGS_HONOURED, "1 65536", NULL, NULL, "yoke launch --num-processes"},
    {"num_machines", SETTINGS_INT, SETTINGS_HONOURED, "1 65536", NULL, NULL, "yoke launch --nnodes"},
    {"machine_rank", SETTINGS_INT, SETTINGS_HONOURED, "0 65535", NULL, NULL, "yoke launch --node-rank"},
    {"main_process_ip", SETTINGS_TEXT, SETTINGS_HONOURED, NULL, NULL, NULL, "yoke launch --master-addr"},
    {"main_process_port", SETTINGS_INT, SETTINGS_HONOURED, "1 65535", NULL, NULL, "yoke launch --master-port"},
    {"use_cpu", SETTINGS_SWITCH, SETTINGS_MAPPED, NULL, NULL, NULL, "--devices cpu"},
    {"gpu_ids", SETTINGS_TEXT, SETTINGS_MAPPED, NULL, NULL, NULL, "--devices, a cuda:N each; all: one for each rank"},
    {"rdzv_backend|same_network|rdzv_conf|main_rendezvous_port", SETTINGS_ANY, SETTINGS_IDLE, NULL, NULL, NULL, MEETING},
    {"main_training_function|num_cpu_threads_per_process|monitor_interval|max_restarts|use_xpu|use_mps_device", SETTINGS_ANY,
     SETTINGS_IDLE, NULL, NULL, NULL,
     "the program and the devices are named where it is started"},
    {"debug|enable_cpu_affinity", SETTINGS_SWITCH, SETTINGS_IDLE, NULL, NULL, NULL,
     "records of ranks are compared, and threads bound, always"},
    {"downcast_bf16|tpu_use_cluster|tpu_use_sudo|tpu_env|tpu_name|tpu_zone|tpu_vm|commands|command_file|tpu_cluster", SETTINGS_ANY,
     SETTINGS_IDLE, NULL, NULL, NULL, "of TPUs alone"},
    {"dynamo_config|dynamo_backend|ipex_config", SETTINGS_ANY, SETTINGS_IDLE, NULL, NULL, NULL,
     "every step is traced, fused and planned before it runs"},
    {"mpirun_config", SETTINGS_MAP, SETTINGS_MAPPED, NULL, NULL, NULL, NULL},
    {"mpirun_config.mpirun_hostfile", SETTINGS_TEXT, SETTINGS_MAPPED, NULL, NULL, NULL, "yoke launch --hostfile"},
    {"mpirun_config.mpirun_ccl", SETTINGS_ANY, SETTINGS_IDLE, NULL, NULL, NULL, MEETING},
    {"fp8_config", SETTINGS_MAP, SETTINGS_MAPPED, NULL, NULL, NULL, NULL},
    {"fp8_config.backend|opt_level|optimization_level|amax_history_len|amax_history_length|amax_compute_algo|amax_compute_algorithm|"
     "interval|use_autocast_during_eval|use_during_eval|enable_fsdp_float8_all_gather|pad_inner_dim",
     SETTINGS_ANY, SETTINGS_IDLE, NULL, NULL, NULL, FIXED_FP8},
    {"fp8_config.fp8_format", SETTINGS_WORD, SETTINGS_HONOURED, "E4M3|HYBRID", NULL, NULL, FIXED_FP8},
    {"fp8_config.margin", SETTINGS_ANY, SETTINGS_REFUSED, NULL, "0.0", NULL, "scales of fp8 have no margin: expected 0"},
    {"fp8_config.override_linear_precision", SETTINGS_ANY, SETTINGS_REFUSED, NULL, "(false, false, false)", NULL,
     "all three products of a layer are in fp8: expected false three times"},
    {"deepspeed_config|fsdp_config|megatron_lm_config|parallelism_config", SETTINGS_ANY, SETTINGS_MAPPED, NULL, NULL, NULL,
     "by distributed_type"},
    {"ec2_instance_type|iam_role_name|base_job_name|profile|region|image_uri|py_version|pytorch_version|transformers_version|"
     "sagemaker_inputs_file|sagemaker_metrics_file|additional_args|mixed_precision_type",
     SETTINGS_ANY, SETTINGS_REFUSED, NULL, NULL, NULL, CLOUD},
};

const settings_table settings_accelerate = {"accelerate", "Accelerate's YAML", keys, sizeof keys / sizeof keys[0], false, false};

static const settings_key plugin_keys[] = {
    {"deepspeed_config_file", SETTINGS_TEXT, SETTINGS_HONOURED, NULL, NULL, NULL, "the file is read"},
    {"zero_stage", SETTINGS_INT, SETTINGS_MAPPED, "0 3", NULL, NULL, "--shard"},
    {"offload_optimizer_device", SETTINGS_WORD, SETTINGS_HONOURED, "none|cpu|nvme", NULL, NULL,
     "--offload state=host, or state=nvme:DIR"},
    {"offload_param_device", SETTINGS_WORD, SETTINGS_HONOURED, "none|cpu|nvme", NULL, NULL,
     "--offload params=host; nvme is not built yet"},
    {"offload_optimizer_nvme_path|offload_param_nvme_path", SETTINGS_TEXT, SETTINGS_HONOURED, NULL, NULL, NULL,
     "the folder of --offload state=nvme:DIR; params=nvme is not built yet"},
    {"gradient_accumulation_steps", SETTINGS_INT, SETTINGS_HONOURED, "1 1048576", NULL, "train:gradient-accumulation-steps",
     "--gradient-accumulation-steps"},
    {"gradient_clipping", SETTINGS_REAL, SETTINGS_HONOURED, "0 1e30", NULL, "train:max-grad-norm", "--max-grad-norm"},
    {"zero3_init_flag|zero3_save_16bit_model", SETTINGS_SWITCH, SETTINGS_IDLE, NULL, NULL, NULL,
     "values come by range, and a saved model is whole"},
    {"deepspeed_hostfile", SETTINGS_TEXT, SETTINGS_HONOURED, NULL, NULL, NULL, "yoke launch --hostfile"},
    {"deepspeed_multinode_launcher", SETTINGS_TEXT, SETTINGS_IDLE, NULL, NULL, NULL, "yoke launch uses ssh, or srun in a Slurm allocation"},
    {"deepspeed_inclusion_filter|deepspeed_exclusion_filter", SETTINGS_ANY, SETTINGS_REFUSED, NULL, NULL, NULL,
     "--hosts and --devices name the hosts and devices of the job"},
    {"deepspeed_moe_layer_cls_names", SETTINGS_ANY, SETTINGS_REFUSED, NULL, NULL, NULL, "there are no experts"},
};

static const settings_table plugin = {"accelerate-deepspeed", "Accelerate's deepspeed_config", plugin_keys,
                                      sizeof plugin_keys / sizeof plugin_keys[0], true, false};

static const settings_key megatron_keys[] = {
    {"tp_degree|tp_size|pp_degree|num_micro_batches", SETTINGS_ANY, SETTINGS_REFUSED, NULL, "1", NULL, LAYOUT},
    {"enable_async_tp|overlap_cpu_optimizer_d2h_h2d", SETTINGS_ANY, SETTINGS_IDLE, NULL, NULL, NULL, "transfers overlap always"},
    {"num_layers_per_virtual_pipeline_stage|decoder_last_pipeline_num_layers|pipeline_model_parallel_split_rank|sequence_parallelism",
     SETTINGS_ANY, SETTINGS_REFUSED, NULL, NULL, NULL, "layouts besides data parallel are not built yet"},
    {"context_parallel_size|cp_size|sp_size|expert_model_parallel_size|expert_tensor_parallel_size", SETTINGS_ANY, SETTINGS_REFUSED, NULL,
     "1", NULL, LAYOUT},
    {"use_distributed_optimizer", SETTINGS_SWITCH, SETTINGS_IDLE, NULL, NULL, NULL, "the optimizer's state lies in slices always"},
    {"use_custom_fsdp", SETTINGS_SWITCH, SETTINGS_MAPPED, NULL, NULL, NULL, "--shard params"},
    {"use_precision_aware_optimizer", SETTINGS_ANY, SETTINGS_REFUSED, NULL, NULL, NULL, "states of the optimizer are f32"},
    {"optimizer_cpu_offload", SETTINGS_SWITCH, SETTINGS_HONOURED, NULL, NULL, NULL, "--offload state=host"},
    {"recompute_activations", SETTINGS_SWITCH, SETTINGS_MAPPED, NULL, NULL, NULL, "--gradient-checkpointing"},
    {"recompute_granularity", SETTINGS_WORD, SETTINGS_MAPPED, "full|selective", NULL, NULL, "--gradient-checkpointing"},
    {"recompute_method|recompute_num_layers", SETTINGS_ANY, SETTINGS_IDLE, NULL, NULL, NULL, "--gradient-checkpointing chooses blocks"},
    {"calculate_per_token_loss", SETTINGS_SWITCH, SETTINGS_MAPPED, NULL, NULL, NULL, "--average items"},
    {"gradient_clipping", SETTINGS_REAL, SETTINGS_HONOURED, "0 1e30", NULL, "train:max-grad-norm", "--max-grad-norm"},
};

static const settings_table megatron = {"accelerate-megatron", "Accelerate's megatron_lm_config", megatron_keys,
                                        sizeof megatron_keys / sizeof megatron_keys[0], false, false};

const settings_table *const settings_nested[] = {&plugin, &megatron, NULL};

/* ---- Combined meaning of keys ------------------------------------------------------------------------------------ */

static bool is_type(const yk__tree *map, const char *name)
{
    const char *type = settings_text(map, "distributed_type");
    return type && !strcasecmp(type, name);
}

static bool is_cpu(const yk__tree *map)
{
    return settings_on(map, "use_cpu", false) || is_type(map, "MULTI_CPU");
}

/* Ranks in total, and per host; 0 if not given. */
static double ranks_of(const yk__tree *map)
{
    return settings_number(map, "num_processes", is_type(map, "NO") ? 1 : 0);
}

/* "cuda:0 cuda:3" for "0,3". */
static void put_cards(settings *s, const char *file, const yk__tree *map)
{
    const char *ids = settings_text(map, "gpu_ids");
    char text[512] = "", copy[256], *next = copy, *id;
    size_t n = 0;
    static const char *const others[] = {"MULTI_XPU", "MULTI_NPU", "MULTI_MLU", "MULTI_HPU", "MULTI_SDAA", "MULTI_MUSA", "MULTI_NEURON"};
    if (!ids || !strcasecmp(ids, "all"))
        return;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (is_type(map, others[i])) {
            settings_unneed(s, file, "gpu_ids",
                            "distributed_type has no CUDA cards: num_processes counts the devices, --devices chooses them");
            return;
        }
    snprintf(copy, sizeof copy, "%s", ids);
    while ((id = strsep(&next, ", "))) {
        if (*id && strspn(id, "0123456789") == strlen(id) && n < sizeof text - 16)
            n += (size_t)snprintf(text + n, sizeof text - n, "%scuda:%s", n ? " " : "", id);
        else if (*id)
            settings_say(s, file, settings_line(map, "gpu_ids"), "gpu_ids", "expected all, or numbers with commas between, got %s", ids);
    }
    if (n)
        settings_put(s, SETTINGS_LAUNCH, "devices", text, file, settings_at(map, "gpu_ids"));
}

#define MPIRUN_LIST "mpirun_config.mpirun_hostfile"
#define DEEPSPEED_LIST "deepspeed_config.deepspeed_hostfile"

/* The key of the host file that Accelerate hands to a launcher of all hosts; NULL: each host starts its own ranks, or there is one. */
static const char *list_key(const yk__tree *map)
{
    const char *launcher = settings_text(map, "deepspeed_config.deepspeed_multinode_launcher");
    const bool by_host = launcher && yk__word_find("standard|nossh", launcher, strlen(launcher)) >= 0;
    const char *key = is_type(map, "MULTI_CPU") ? MPIRUN_LIST : is_type(map, "DEEPSPEED") && !by_host ? DEEPSPEED_LIST : NULL;
    return key && settings_number(map, "num_machines", 1) > 1 && settings_text(map, key) ? key : NULL;
}

/* Each host of the list has an even part of the ranks, whatever slots the list gives it; without num_processes mpirun starts one. */
static void put_list(settings *s, const char *file, const yk__tree *map, const char *key, double machines)
{
    const double ranks = ranks_of(map), each = ranks / machines;
    const bool by_mpi = !strcmp(key, MPIRUN_LIST);
    char text[40];
    settings_put(s, SETTINGS_LAUNCH, "hostfile", settings_text(map, key), file, settings_at(map, key));
    snprintf(text, sizeof text, "%.0f", machines);
    if (!(ranks > 0) && by_mpi)
        settings_put(s, SETTINGS_LAUNCH, "num-processes", text, file, settings_at(map, "num_machines"));
    snprintf(text, sizeof text, "%.0f", ranks > 0 ? each : 1);
    if (each == floor(each) && (ranks > 0 || by_mpi))
        settings_put(s, SETTINGS_LAUNCH, "nproc-per-node", text, file, settings_at(map, "num_machines"));
    if (ranks > 0 || by_mpi)
        settings_mark(s, SETTINGS_HONOURED, file, settings_line(map, "num_machines"), "num_machines", "yoke launch --nproc-per-node");
}

static void finish_hosts(settings *s, const char *file, const yk__tree *map)
{
    static const struct {
        const char *key, *option;
    } hosts[] = {{"num_machines", "nnodes"}, {"machine_rank", "node-rank"}, {"main_process_ip", "master-addr"},
                 {"main_process_port", "master-port"}};
    const double machines = settings_number(map, "num_machines", 1), ranks = ranks_of(map), rank = settings_number(map, "machine_rank", 0);
    const char *list = list_key(map);
    if (rank >= machines)
        settings_say(s, file, settings_line(map, "machine_rank"), "machine_rank",
                     "expected a number below num_machines, which is %.0f, got %.0f",
                     machines, rank);
    if (machines > 1 && ranks > 0 && (double)(long)(ranks / machines) * machines != ranks)
        settings_say(s, file, settings_line(map, "num_processes"), "num_processes",
                     "%.0f are of all machines, and %.0f machines have no even "
                     "part of it", ranks, machines);
    if (settings_text(map, MPIRUN_LIST) && (!list || strcmp(list, MPIRUN_LIST)))
        settings_unneed(s, file, MPIRUN_LIST, machines > 1 ? "distributed_type is another" : "one host needs no address");
    if (is_type(map, "DEEPSPEED") && settings_text(map, DEEPSPEED_LIST) && !list)
        settings_unneed(s, file, DEEPSPEED_LIST, machines > 1 ? "this launcher starts by main_process_ip" : "one host needs no address");
    if (machines > 1 && !list && !settings_text(map, "main_process_ip"))
        settings_say(s, file, settings_line(map, "num_machines"), "num_machines",
                     "%.0f machines need main_process_ip, where rank 0 listens", machines);
    if (ranks > 0)
        settings_put(s, SETTINGS_LAUNCH, "num-processes", settings_text(map, "num_processes") ? settings_text(map, "num_processes") : "1",
                     file,
                     settings_at(map, "num_processes"));
    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++)
        if (machines > 1 && !list && settings_text(map, hosts[i].key))
            settings_put(s, SETTINGS_LAUNCH, hosts[i].option, settings_text(map, hosts[i].key), file, settings_at(map, hosts[i].key));
        else
            settings_unneed(s, file, hosts[i].key, list ? "the host file names the hosts" : "one host needs no address");
    if (list)
        put_list(s, file, map, list, machines);
}

/* "WHAT=PLACE" of --offload, which offload_NAME_device and its folder ask for; else "". why: DeepSpeed has no use for it; NULL: it has. */
static void place_take(settings *s, const char *file, const yk__tree *part, const char *name, const char *what, const char *why,
                       char text[560])
{
    char device[64], folder[64];
    snprintf(device, sizeof device, "offload_%s_device", name);
    snprintf(folder, sizeof folder, "offload_%s_nvme_path", name);
    const char *place = settings_text(part, device), *path = settings_text(part, folder);
    const bool disk = place && !strcmp(place, "nvme");
    char shown[96];
    snprintf(shown, sizeof shown, "deepspeed_config.%s", folder);
    if (!disk)
        settings_unneed(s, file, shown, "device nvme alone has a folder");
    if (!place || !strcmp(place, "none"))
        return;
    if (why)
        settings_unneed(s, file, shown, why);
    snprintf(shown, sizeof shown, "deepspeed_config.%s", device);
    if (why) {
        settings_unneed(s, file, shown, why);
        return;
    }
    if (disk && !path)
        settings_lack_folder(s, file, settings_line(part, device), shown, folder);
    snprintf(text, 560, "%s=%s%s", what, disk ? "nvme:" : "host", disk && path ? path : "");
    settings_part_of(s, "offload", text, file, settings_at(part, device));
    settings_part_of(s, "offload", text, file, settings_at(part, folder));
}

static void finish_plugin(settings *s, const char *file, const yk__tree *map)
{
    static const char *const stages[] = {"state", "state", "gradients", "params"};
    yk__tree *part = yk__tree_get(map, "deepspeed_config");
    settings_walk(s, &plugin, file, part, "deepspeed_config", ""); /* first, as it settles words */
    const bool named = settings_text(part, "deepspeed_config_file"); /* then the stage is that file's */
    const double stage = settings_number(part, "zero_stage", -1), counts = stage >= 0 ? stage : named ? 3 : 2;
    char state_text[560] = "", params_text[560] = "", text[1200];
    if (stage < 0 && !named)
        settings_preset(s, "shard", "gradients", file); /* Accelerate's own number is 2 */
    if (stage >= 0 && stage <= 3)
        settings_put(s, SETTINGS_TRAIN, "shard", stages[(int)stage], file, settings_at(part, "zero_stage"));
    place_take(s, file, part, "optimizer", "state", counts < 1 ? "DeepSpeed reads it in stages 1 to 3 alone" : NULL, state_text);
    place_take(s, file, part, "param", "params", counts < 3 ? "DeepSpeed reads it in stage 3 alone" : NULL, params_text);
    snprintf(text, sizeof text, "%s%s%s", state_text, *state_text && *params_text ? "," : "", params_text);
    if (*text)
        settings_put(s, SETTINGS_TRAIN, "offload", text, file, settings_of(part));
}

static void finish_megatron(settings *s, const char *file, const yk__tree *map)
{
    static const struct {
        const char *key, *option, *value;
    } keys_of[] = {{"use_custom_fsdp", "shard", "params"},
                   {"optimizer_cpu_offload", "offload", "state=host"},
                   {"recompute_activations", "gradient-checkpointing", NULL},
                   {"calculate_per_token_loss", "average", "items"}};
    yk__tree *part = yk__tree_get(map, "megatron_lm_config");
    settings_walk(s, &megatron, file, part, "megatron_lm_config", "megatron_lm_");
    for (size_t i = 0; i < sizeof keys_of / sizeof keys_of[0]; i++) {
        const yk__tree *node = settings_key_get(part, "megatron_lm_", keys_of[i].key);
        if (node && yk__cli_truth(node->text) == 1)
            settings_put(s, SETTINGS_TRAIN, keys_of[i].option, keys_of[i].value, file, settings_of(node));
    }
    const yk__tree *granularity = settings_key_get(part, "megatron_lm_", "recompute_granularity");
    if (granularity)
        settings_put(s, SETTINGS_TRAIN, "gradient-checkpointing", NULL, file, settings_of(granularity));
}

/* The maps of plugins: one counts, by distributed_type. */
static void finish_maps(settings *s, const char *file, const yk__tree *map)
{
    static const struct {
        const char *key, *type;
    } maps[] = {{"deepspeed_config", "DEEPSPEED"}, {"fsdp_config", "FSDP"}, {"megatron_lm_config", "MEGATRON_LM"}};
    yk__tree *layout = yk__tree_get(map, "parallelism_config");
    for (size_t i = 0; i < 3; i++) {
        yk__tree *part = yk__tree_get(map, maps[i].key);
        const bool counts = is_type(map, maps[i].type);
        if (part && part->child && !counts)
            settings_idle(s, file, part, maps[i].key, "distributed_type is another");
        if (!part || part->kind != YK__TREE_MAP || !counts)
            continue;
        if (i == 0)
            finish_plugin(s, file, map);
        else if (i == 2)
            finish_megatron(s, file, map);
        else
            settings_walk(s, &settings_fsdp, file, part, "fsdp_config", "fsdp_");
    }
    if (is_type(map, "FSDP"))
        settings_finish_fsdp(s, file, yk__tree_get(map, "fsdp_config"), "fsdp_");
    if (layout && layout->kind == YK__TREE_MAP) {
        settings_walk(s, &settings_parallelism, file, layout, "parallelism_config", "parallelism_config_");
        settings_finish_parallelism(s, file, layout, "parallelism_config_");
    }
}

void settings_finish_accelerate(settings *s, const char *file, const yk__tree *map)
{
    const char *precision = settings_text(map, "mixed_precision");
    const char *list = settings_text(map, "fp8_config.override_linear_precision");
    if (settings_text(map, "compute_environment") && strcasecmp(settings_text(map, "compute_environment"), "LOCAL_MACHINE"))
        settings_say(s, file, settings_line(map, "compute_environment"), "compute_environment", CLOUD);
    if (is_type(map, "TPU") || is_type(map, "XLA"))
        settings_say(s, file, settings_line(map, "distributed_type"), "distributed_type", TPU);
    if (list && (strstr(list, "true") || strstr(list, "True")))
        settings_say(s, file, settings_line(map, "fp8_config"), "fp8_config.override_linear_precision", FIXED_FP8);
    if (precision && !strcmp(precision, "fp32") && is_type(map, "DEEPSPEED") &&
        settings_text(map, "deepspeed_config.deepspeed_config_file")) { /* accelerate config writes "no" beside such a file */
        settings_preset(s, "precision", precision, file);
        settings_mark(s, SETTINGS_MAPPED, file, settings_line(map, "mixed_precision"), "mixed_precision",
                      "--precision, unless the file of DeepSpeed has one");
    } else if (precision)
        settings_put(s, SETTINGS_TRAIN, "precision", precision, file, settings_at(map, "mixed_precision"));
    if (is_cpu(map))
        settings_put(s, SETTINGS_LAUNCH, "devices", "cpu", file, settings_at(map, settings_text(map, "use_cpu") ? "use_cpu"
                                                                               : "distributed_type"));
    else
        put_cards(s, file, map);
    finish_maps(s, file, map);
    finish_hosts(s, file, map);
}
