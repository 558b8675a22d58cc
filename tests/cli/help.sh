#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every command explains each of its options, as text and as a manual page; the two scripts explain themselves.
. "$YOKE_SOURCE/tests/golden/lib.sh"

helps() { # helps PROGRAM [COMMAND]: each option has a line with words behind it
    "$@" --help >"$out/help" && head -n 1 "$out/help" | grep -q '^usage: yoke' || return 1
    ! grep -E '^  --[a-z0-9-]+( [^ ]+)? *$' "$out/help" && ! grep -n '.\{150,\}' "$out/help" &&
        awk '/^(Options|Names|Refused).*:$/ { head = $0; next } head && !NF { print "no option below: " head; bad = 1 }
             { head = "" } END { exit bad }' "$out/help"
}

manual() { # manual PROGRAM [COMMAND]: it has the sections of a page, and every option of --help
    "$@" --help | sed -n 's/^  --\([a-z0-9-]*\).*/\1/p' | grep -vx help >"$out/options"
    "$@" --man >"$out/page" || return 1
    for section in NAME SYNOPSIS DESCRIPTION; do grep -q "^.SH $section" "$out/page" || { echo "no $section"; return 1; }; done
    while read -r option; do
        grep -qF "$(printf '%s' "\\-\\-$option" | sed 's/\([a-z0-9]\)-/\1\\-/g')" "$out/page" || { echo "no --$option"; return 1; }
    done <"$out/options"
    command -v man >/dev/null 2>&1 || return 0
    MANROFFSEQ='' MANWIDTH=100 man --warnings -E UTF-8 -l "$out/page" 2>&1 >/dev/null | grep . && return 1
    return 0
}

for command in train eval predict info env config launch trace estimate-memory plan bench test plugin inspect tokenize; do
    ok "yoke $command --help" helps "$yoke" $command
    ok "yoke $command --man" manual "$yoke" $command
done
page() { # docs/from-huggingface.md: what it calls taken is taken, what it calls refused is refused, and all of that
    python3 - "$YOKE_SOURCE/docs/from-huggingface.md" "$yoke" <<'P'
import re, subprocess, sys
man = subprocess.run([sys.argv[2], "train", "--man"], capture_output=True, text=True, check=True).stdout.replace("\\-", "-")
options, refused = man.split(".SH REFUSED")
names = lambda text: {n for line in re.findall(r"^\.B (--.*)", text, re.M) for n in re.findall(r"--[a-z0-9-]+", line)}
taken, refused = names(options), names(refused)
page = open(sys.argv[1]).read()
table, _, rest = page.partition("## Taken")[2].partition("## Refused")
said = {n for row in re.findall(r"^\| (`--.*?) \|", table, re.M) for n in re.findall(r"--[a-z0-9-]+", row)}
no = set(re.findall(r"--[a-z0-9-]+", rest))
assert len(said) > 50 and said <= taken, said - taken
assert no == refused and len(no) > 80, no ^ refused
# the fields of transformers.TrainingArguments 5.24, and some of before
theirs = """
output_dir per_device_train_batch_size num_train_epochs max_steps learning_rate lr_scheduler_type lr_scheduler_kwargs warmup_steps optim
optim_args weight_decay adam_beta1 adam_beta2 adam_epsilon optim_target_modules gradient_accumulation_steps average_tokens_across_devices
max_grad_norm label_smoothing_factor bf16 fp16 bf16_full_eval fp16_full_eval tf32 activation_checkpointing activation_checkpointing_kwargs
gradient_checkpointing gradient_checkpointing_kwargs torch_compile torch_compile_backend torch_compile_mode use_liger_kernel
liger_kernel_config use_cache neftune_noise_alpha torch_empty_cache_steps auto_find_batch_size logging_strategy logging_steps
logging_first_step log_on_each_node logging_nan_inf_filter include_num_input_tokens_seen log_level log_level_replica disable_tqdm
report_to run_name project trackio_space_id trackio_bucket_id trackio_static_space_id eval_strategy eval_steps eval_delay
per_device_eval_batch_size prediction_loss_only eval_on_start eval_do_concat_batches eval_use_gather_object eval_accumulation_steps
include_for_metrics batch_eval_metrics save_only_model save_strategy save_steps save_on_each_node save_total_limit enable_jit_checkpoint
push_to_hub hub_token hub_private_repo hub_model_id hub_strategy hub_always_push hub_revision load_best_model_at_end metric_for_best_model
greater_is_better ignore_data_skip restore_callback_states_from_checkpoint full_determinism seed data_seed use_cpu accelerator_config
parallelism_config dataloader_drop_last dataloader_num_workers dataloader_pin_memory dataloader_persistent_workers
dataloader_prefetch_factor dataloader_multiprocessing_context dataloader_in_order remove_unused_columns label_names
train_sampling_strategy length_column_name ddp_find_unused_parameters ddp_bucket_cap_mb ddp_broadcast_buffers ddp_static_graph ddp_backend
ddp_timeout fsdp fsdp_config deepspeed debug skip_memory_metrics do_train do_eval do_predict resume_from_checkpoint local_rank
overwrite_output_dir evaluation_strategy warmup_ratio no_cuda logging_dir per_gpu_train_batch_size per_gpu_eval_batch_size group_by_length
adafactor sharded_ddp fp16_backend half_precision_backend save_safetensors use_ipex use_mps_device include_inputs_for_metrics
include_tokens_per_second push_to_hub_model_id""".split()
unknown = [name for name in theirs if "--" + name.replace("_", "-") not in taken | refused]
assert len(theirs) > 130 and not unknown, unknown
for name in set(re.findall(r"--[a-z][a-z0-9_-]*", page.split("```")[1])) - {"--json"}:
    assert name.replace("_", "-") in taken, name
P
}
ok "the page for users of Hugging Face names what there is" page
accelerate_page() { # docs/from-accelerate.md: names of ours exist, every capability of Accelerate's has a row with both sides
    python3 - "$YOKE_SOURCE" "$yoke" <<'P'
import re, subprocess, sys
page = open(sys.argv[1] + "/docs/from-accelerate.md").read()
header = "".join(open(f"{sys.argv[1]}/include/yoke/{name}.h").read() for name in ("yoke", "builder"))
declared = set(re.findall(r"\b(yk_\w+)\(", header)) | set(re.findall(r"\} (yk_\w+);", header)) | {"yk_each"}
bodies = {name: body for body, name in re.findall(r"\{([^{}]*)\} (yk_\w+);", header)}
ours = set(re.findall(r"\byk_\w+", page))
types = {"yk_job", "yk_data"} # without a body
assert len(ours) > 70 and ours - types <= declared, ours - declared
for struct, member in re.findall(r"\b(yk_\w+)\.(\w+)", page):
    assert re.search(rf"\b{member}\b", re.sub(r"/\*.*?\*/", "", bodies[struct], flags=re.S)), (struct, member)
manual = "".join(subprocess.run([sys.argv[2], command, "--man"], capture_output=True, text=True, check=True).stdout.replace("\\-", "-")
                 for command in ("train", "launch"))
for text in re.findall(r"`(?:yoke train )?(--(?!golden|cpu)[a-z-]+)", page):
    assert text in manual, text
theirs = """split_batches even_batches drop_last dispatch_batches skip_first_batches set_epoch use_seedable_sampler use_stateful_dataloader
remainder gather gather_for_metrics use_gather_object reduce pad_across_processes broadcast broadcast_object_list copy_tensor_to_devices
gather_object send_to_device split_between_processes wait_for_everyone main_process_first local_main_process_first on_main_process
on_last_process on_process set_trigger check_trigger print get_logger set_seed synchronize_rng_states end_training backward accumulate
sync_gradients no_sync trigger_sync_in_backward autocast clip_grad_norm_ clip_grad_value_ unscale_gradients join_uneven_inputs
LocalSGD profile rng_types find_executable_batch_size prepare
unwrap_model free_memory init_trackers log save_state load_state register_for_checkpointing save_model
init_empty_weights infer_auto_device_map cpu_offload load_and_quantize_model prepare_pippy notebook_launcher debug_launcher mixed_precision
gradient_accumulation_steps GradScalerKwargs DistributedDataParallelKwargs InitProcessGroupKwargs ProfileKwargs AutocastKwargs
num_processes process_index is_main_process is_local_main_process is_last_process FSDP ParallelismConfig total_limit""".split()
rows = [r.split(" | ") for r in re.findall(r"^\| (?!-)(.*) \|$", page, re.M)]
left = " ".join(r[0] + " " + (r[1] if len(r) > 2 else "") for r in rows)
for name in theirs:
    assert re.search(rf"\b{name}\b", left), name
assert len(rows) > 90 and all(len(r) >= 2 and all(c.strip() for c in r[1:]) for r in rows), [r for r in rows if len(r) < 2]
section = re.search(r"---- Collectives on host memory.*?/\* ----", header, re.S).group(0)
new = set(re.findall(r"\b(yk_\w+)\(", section))
new |= {f for f in declared if re.match(r"yk_(sampler_(new|end|seek)|on_(save|load)|main_first)", f)}
assert len(new) > 15 and new <= ours, new - ours
P
}
ok "the page for users of Accelerate names what there is" accelerate_page
forced() { # what keeps a device in is where a user looks for it
    for command in train launch; do
        "$yoke" $command --help >"$out/help" && "$yoke" $command --man >"$out/page" || return 1
        for text in "$out/help" "$out/page"; do grep -q "!'* behind" "$text" || { echo "$command: ${text##*/}"; return 1; }; done
    done
    grep -q '`!` behind its spec' "$YOKE_SOURCE/README.md"
}
ok "'!' is explained in help, manual page and README" forced
ok "yoke --help" "$yoke" --help
ok "yoke-cts --help" helps "$YOKE_BUILD/yoke-cts"
ok "yoke-cts --man" manual "$YOKE_BUILD/yoke-cts"
ok "./quickstart --help" sh "$YOKE_SOURCE/quickstart" --help
ok "./check --help" sh "$YOKE_SOURCE/check" --help
usage() {
    sh "$YOKE_SOURCE/$1" --nosuch
    [ $? = 2 ]
}
ok "./quickstart refuses what it does not know" usage quickstart
ok "./check refuses what it does not know" usage check
plan
