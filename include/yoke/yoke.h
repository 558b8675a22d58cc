/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Yoke for users: train one model over unlike devices, on one host or several.
 *
 * A program opens a job, makes model, data and optimizer on it, and calls yk_backward and yk_step. Values are lazy: an operation only
 * appends to the step's trace. The trace runs when yk_step is called or a value is read. A trace with the same operations and shapes
 * as an earlier one reuses its plan and costs a look-up.
 *
 * Ranks: every rank of a job runs the same program. All ranks make the calls on a job and its objects in the same order.
 * yk_backward fails if the ranks' losses or assigned states come from different calls, operands or settings; the error names both lines.
 * Row counts and the padding removed by yk_pack_tokens may differ.
 *
 * Tags of a function, in front of its description:
 *   [all]    collective, as in MPI: every rank must make the call, else the job ends with an error that names both places.
 *            Some functions talk to other ranks only at times (yk_end only if the step has not run yet); the tag always holds.
 *   [waits]  may block, for the device, for files or for other ranks. Every [all] function does. The other functions return at once.
 *   [safe]   cannot fail the job, and does something harmless after an error. A function without this tag may fail the job.
 *
 * Errors are sticky: the job stores the first failure with the caller's file and line. Later calls do nothing and return a poisoned
 * handle, NULL, 0 or NaN; yk_each loops end; yk_close reports the failure. The library never ends the process.
 *
 * Lifetimes: a temporary dies at the end of its step (yk_step, yk_end, or the end of a yk_each body). yk_keep, called before, makes a
 * value readable for one step more. yk_backward keeps its loss until the next step's end. Parameters, optimizer, schedule, data and
 * models belong to the job; yk_close frees them. The caller frees settings and closes weight files. A returned string belongs to the
 * object it was asked of. Yoke copies the arrays, strings and configurations it is given.
 *
 * Configuration structs: a member left zero means the documented default; a NULL pointer means that all members are zero. YK_ZERO stands
 * for a real 0. A struct travels with its size: the last parameter `size` of a function is sizeof the caller's struct. A program in C or
 * C++ leaves it out: yk_open(&config). A binding, or a call through a pointer to the function, passes it. Members that an older, shorter
 * struct lacks are zero. A longer struct works if the rest of it is zero; else the call fails the job.
 *
 * Threads: a job and all objects made on it belong to one thread, in the process that opened it. Shapes are row-major,
 * [outermost, .., innermost], images NCHW. Axes count from 0, negative ones (int32_t) from the end. Letters in shapes: n rows, B batch,
 * T tokens, C channels or classes, H heads or height, W width, D width of a head.
 */
#ifndef YOKE_H
#define YOKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <yoke/dtype.h>
#include <yoke/status.h>

#ifdef __cplusplus
#include <yoke/cxx_names.h>
extern "C" {
#endif
#if defined(__GNUC__)
#define YK_API __attribute__((visibility("default")))
/* A real 0 in a number of a configuration struct whose default is not 0: .beta1 = YK_ZERO. Cast it for an unsigned member. */
#define YK_ZERO (-2147483647 - 1)
#else
#define YK_API
#endif

/* ---- The job --------------------------------------------------------------------------------------------------- */

typedef struct yk_job yk_job;
typedef struct { uint64_t id; } yk_t; /* a value; id 0 is poisoned; copy freely, never freed */

/* Meaning of "the loss of an optimizer step" that accumulates over micro batches and ranks. Ranks never average averages: they add up
 * sums and counts and divide once. */
typedef enum yk_average {
    YK_AVERAGE_MICRO,  /* mean over the micro batches of each one's mean loss (Accelerate's rule) */
    YK_AVERAGE_ITEMS,  /* sum of all items' losses / number of items in the whole accumulation (tokens, rows) */
    YK_AVERAGE_ROWS    /* each micro batch's mean loss weighted by its number of rows */
} yk_average;

typedef enum yk_scale_rule { YK_SCALE_TORCH, YK_SCALE_DEEPSPEED, YK_SCALE_MEGATRON } yk_scale_rule;

/* Dynamic loss scaling for fp16. Zero members take the rule's own defaults (PyTorch: 65536, 2, 0.5, 2000; DeepSpeed: 2^16,
 * interval 1000, hysteresis 2, floor 1). Under every rule the job ends with an error when the scale falls below 2^-24 or 100 optimizer
 * steps in a row are skipped. */
typedef struct yk_scale_config {
    yk_scale_rule rule;
    double init, growth, backoff, floor;
    uint32_t interval, hysteresis;
    bool consecutive_hysteresis; /* DeepSpeed */
    bool stay_at_floor;          /* continue at the floor where the rule, or the line above, ends the job */
    double fixed;                /* not 0: a constant scale */
} yk_scale_config;

typedef struct yk_config {
    const char *devices;     /* device specs, "cpu:0 opencl:*"; NULL: those of yk_launch, else YOKE_DEVICES, else "cpu" with
                                ACCELERATE_USE_CPU, else "auto". Each rank takes one of a list, which has one per rank of its host or
                                one per rank of the job. A single spec is this rank's own. Devices that differ from those 'yoke launch'
                                gave are an error */
    yk_dtype precision;      /* compute format: YK_F32 (default; then ACCELERATE_MIXED_PRECISION counts), YK_BF16, YK_F16; weights stay
                                f32. YK_F8E4M3 (fp8): bf16, with operands of linear layers' products rounded to 8 bits, except in the
                                first and the last layer */
    const char *precision_by_rank; /* instead of precision: "fp32,bf16,fp16", one per rank; the last one serves all further ranks. One
                                      rank in fp16 scales the loss of all ranks, and its gradient overflow skips the step of all */
    yk_dtype substitute;     /* format for a device that lacks `precision`, logged; YK_F32 (default): none unless... */
    bool allow_substitute;   /* ...this is set: then `substitute` is used */
    uint32_t accumulate;     /* micro batches per optimizer step; default: ACCELERATE_GRADIENT_ACCUMULATION_STEPS, else 1 */
    yk_average average;
    uint64_t seed;           /* seed of weights, dropout and sample order */
    yk_scale_config scale;
    uint64_t memory_limit;   /* bytes of device memory; Yoke recomputes activations to stay below. 0: YOKE_MEMORY_LIMIT ("6G", or by rank
                                "6G,500M"), else the device's free memory, if recomputing helps */
    bool accumulate_over_epochs; /* an epoch's end does not end an accumulation (Accelerate's sync_with_dataloader=False) */
    uint32_t hash_every;     /* steps between two comparisons of the ranks' parameter hashes; default 100. Each comparison covers the next
                                2^23 numbers; yk_param_hash compares all parameters */
    uint32_t local_sgd_steps; /* not 0: LocalSGD, see yk_average_params */
    uint32_t power_sgd_rank; /* not 0, at most 64: PowerSGD of this rank, with error feedback and warm start. Ranks exchange two factors of
                                a matrix's gradient where these are less than half of it; the first dimension is the rows */
    bool quiet;              /* no device table on standard error */
    bool plan_only;          /* plan steps without running them, for yk_memory_get. Values read are zero, weights stay unset */
    const char *shares;      /* rows of each rank: "speed", as measured; "equal"; or parts by rank, "3:1:2", of 1 to 1000000; NULL:
                                YOKE_SHARES, else speed. Equal on all ranks. Fixed shares (equal, parts) measure nothing and exclude no
                                rank, and each rank updates an even part of the parameters, or what shard_parts says. So the same devices
                                and shares give the same bits. Rows that parts leave over go to the largest remainders, on a tie to the
                                lower rank. A share that exceeds a rank's memory is an error */
    const char *shard;       /* values that lie in slices over the ranks. "state" (NULL: the same): the optimizer's state. "gradients"
                                (zero2): they are summed in backward of each micro batch, so that a rank keeps sums of its slices alone.
                                With one micro batch a window it has the bits of "state", with several another rounding. "params" (zero3,
                                full_shard): a device with memory of its own also keeps its slices of the parameters alone. Each part of the
                                model comes to it when it is read. FSDP's names set the members below, too. Equal on all ranks */
    bool inference;          /* a job that only computes outputs: no memory for gradients, moments and their exchange, at most
                                plans_most plans, and yk_train is off at first. yk_backward, an optimizer and yk_step are errors. Equal on
                                all ranks */
    uint32_t plans_most;     /* plans (one for each combination of operations and shapes) kept at a time; the one used longest ago goes.
                                At least 4; default 96, with inference 32. Plans that pass 64 MiB of host memory go earlier */
    const char *shard_within; /* with shard "params". "world" (NULL: the same): slices over all ranks. Ranks that exchange messages read
                                them from their owners, and no host has all parameters, processors neither. Such ranks take part in all
                                steps. "host": each host has all parameters */
    bool gathered_stay;      /* with it: parameters that were brought for forward stay for backward (shard_grad_op) */
    uint32_t prefetch_units; /* with it: parts of the model that are brought early; 0: none, but 1 where ranks read slices by messages */
    uint64_t keep_whole;     /* with it: a part of at most so many elements (0: 100000) stays whole on each device; over messages none */
    const char *offload;     /* "state=host": the host's processor holds the optimizer's state of a rank whose device has memory of its own.
                                It updates that rank's slices, with a processor's bits. With shard "params" it has that rank's parameters,
                                too. "state=host,params=host" needs that stage, and takes frozen parameters to the host, too. Other ranks
                                stay as they are. "state=host:0.5": it has about that part. "state=nvme:DIR": all moments are in files of
                                DIR. "activations=host", alone or beside: see docs/sharding.md. NULL, "none": no. Equal on all ranks */
    const char *shard_parts; /* slices of each rank. "speed" (NULL: the same): as measured and what fits. With fixed shares: even (NULL), or
                                even unless only other parts fit each rank's memory ("speed"). "equal", or parts by rank, "1:2:1", of 1 to
                                1000000. Equal on all ranks. With fixed shares, too, equal parts give equal bits in all stages, over each
                                transport. A slice that exceeds a rank's memory is an error */
    uint64_t shard_unit;     /* with shard "params": most bytes of a part, from 4096 on; 0: YOKE_BUCKET_BYTES. Equal on all ranks */
} yk_config;

/* [all] [waits] Opens a job on the device(s); in a process started by `yoke launch` it joins the other ranks. Returns NULL only if memory
 * is gone; yk_ok tells success. Fails in a process that is one of several and would train alone: behind a wrapper that closed the
 * launcher's descriptor, under torchrun, mpirun, srun. YOKE_LAUNCHER=none overrules that check. No other thread of the program changes the
 * environment meanwhile. The call gives it back as it was, with the caller's affinity, signals and floating-point mode. */
YK_API yk_job *yk_open(const yk_config *config, size_t size);
/* [all] [waits] Reports the first error on standard error, once; frees the job and all objects made on it. Returns the process's exit
 * code: 0 done, 2 bad input or settings (YK_E_ARG, YK_E_FORMAT), 1 any other error. */
YK_API int yk_close(yk_job *job);
/* [safe] True if nothing has failed so far. False for NULL. */
YK_API bool yk_ok(const yk_job *job);
/* [safe] The first failure's status; YK_OK if absent. */
YK_API yk_status yk_error_status(const yk_job *job);
/* [safe] The first failure's text, one line that begins with the caller's FILE:LINE; "" if absent. Belongs to the job. */
YK_API const char *yk_error_text(const yk_job *job);
/* Fails the job in the program's own words, which are copied. An earlier failure stays. */
YK_API void yk_fail(yk_job *job, yk_status status, const char *text);

/* [safe] Ends the job, for all ranks, from any thread of the program while the job is open, but from no signal handler. A step that runs
 * returns within 100 ms on a CPU, and so do waits for other ranks. Every rank's error (YK_E_CANCELLED) names this one. yk_close is still to
 * be called, by the job's own thread; a CPU computes no more within 100 ms. A job that is closed already is left alone, as is NULL. Another
 * device (OpenCL, Vulkan, CUDA) first ends the commands it has: the step returns within 500 ms, and yk_close waits for the device. If it
 * finishes nothing for 2 s, yk_close returns, and the process keeps what that device holds. A compiler ends first, too: a first step on
 * OpenCL took 10 to 24 s more. Measured from the call: 0 to 20 ms on a CPU, to 85 ms until yk_close ends, 20 ms in collectives. */
YK_API void yk_cancel(yk_job *job);
/* [safe] Gives lines for standard error to write(user, line) instead, without their newline. They come from all jobs of the process, from
 * any thread, one at a time. It makes no call of this header. NULL: standard error again. Among them are lines that yk_launch and
 * yk_launch_ranks say of their ranks. Ranks of yk_launch_ranks inherit `write`; those of yk_launch are programs of their own. */
YK_API void yk_set_log(void (*write)(void *user, const char *line), void *user);

/* [waits] [safe] Starts the program argv (last member NULL) once per rank, waits for all, and returns the exit code. It does so if
 * `devices` (as in yk_config) selects several ranks and this process is not one of them. Otherwise returns -1 at once: the caller
 * continues in this process. Errors go to the log (yk_set_log). Called before yk_open, by a program with one thread. */
YK_API int yk_launch(const char *devices, char *const *argv);
/* [waits] [safe] yk_launch for a process without a program of its own (a notebook, a test). Forks it `ranks` times and calls
 * function(argument) in each child. Returns the job's exit code when all have ended; errors go to the log. The function returns its rank's
 * exit code, that of yk_close. ranks 0: one per device of `devices`. Ranks beyond the devices split the cores, or share the one named
 * device. In a process that is a rank already, the function is called directly; then another `ranks` than the job's is an error. An error
 * after yk_open too: open jobs inside the function only. */
YK_API int yk_launch_ranks(uint32_t ranks, const char *devices, int (*function)(void *argument), void *argument);

/* [safe] Restarts of this job so far, after a rank died or failed; 0 in the first run. `yoke launch --max-restarts` or YOKE_MAX_RESTARTS
 * limits them. Under torchrun: TORCHELASTIC_RESTART_COUNT. A restarted program loads its newest checkpoint and appends to files that it
 * began before. */
YK_API uint32_t yk_restart_count(void);

/* [safe] The number of this rank, 0 to yk_world_size - 1, and the number of ranks. They are 0 and 1 for a job that failed to open. */
YK_API uint32_t yk_rank(const yk_job *job);
YK_API uint32_t yk_world_size(const yk_job *job);
/* [safe] True on rank 0, which writes files and prints. */
YK_API bool yk_is_main(const yk_job *job);
/* [safe] The number of this rank among the ranks of its host, and the number of ranks there. */
YK_API uint32_t yk_local_rank(const yk_job *job);
YK_API uint32_t yk_local_world_size(const yk_job *job);
/* [safe] True on the first rank of its host; true on the last rank of the job. */
YK_API bool yk_is_local_main(const yk_job *job);
YK_API bool yk_is_last(const yk_job *job);
/* [safe] The device name of a rank, for messages; "" if there is no such rank. Belongs to the job. */
YK_API const char *yk_device_name(const yk_job *job, uint32_t rank);
/* [safe] Share of the training rows that a rank has computed so far, 0 to 1. */
YK_API double yk_share(const yk_job *job, uint32_t rank);
/* [safe] Peak device memory of this rank so far, in bytes. */
YK_API uint64_t yk_peak_bytes(const yk_job *job);

/* Device memory of this rank now, in bytes, as requested from its plugin. With yk_config.plan_only: the memory that the same steps
 * would take. */
typedef struct yk_memory {
    uint64_t params, grads, state; /* state: optimizer (this rank's slices) and running statistics */
    uint64_t activations;          /* part of the arena: values that forward leaves for backward, at most */
    uint64_t scratch;              /* the rest of the arena, plus the plugin's own scratch, if it reports that */
    uint64_t inputs, peak;         /* inputs: and results of a step */
    uint64_t shared;               /* host memory of all ranks together: gradients and parameters that they exchange. With
                                    * messages: this rank's, with rounding errors of int8 and PowerSGD's matrices */
    uint64_t plans;                /* number of plans kept now (yk_config.plans_most) */
    uint64_t plan_bytes;           /* host memory of these plans, estimated */
    uint64_t plans_made;           /* plans made so far, with those that went */
    uint64_t host;                 /* host memory of this rank with yk_config.offload, at most: optimizer, sums of gradients in slices,
                                    * and frozen parameters with "params=host". On an only rank also gradients and parameters */
    uint64_t disk;                 /* this rank's file with "state=nvme:DIR" */
} yk_memory;
/* [safe] Fills m. */
YK_API void yk_memory_get(const yk_job *job, yk_memory *m, size_t size);
/* [all] [waits] A hash of all parameters, equal on all ranks. The job fails if the ranks' parameters differ. */
YK_API uint64_t yk_param_hash(yk_job *job);
/* [all] [waits] Averages the parameters of LocalSGD now, as the end of Accelerate's LocalSGD block does. Without
 * yk_config.local_sgd_steps = k it does nothing; inside an accumulation window it is an error.
 * LocalSGD: each rank steps on the gradients of its own rows, with its own moments. After every k steps the parameters become the mean
 * over ranks, weighted by the rows each rank trained on. Norm and clipping use this rank's gradients, no rank is excluded, and
 * yk_grad_read is an error.
 * Call it before an evaluation, and before a yk_param_read that must be equal on all ranks. yk_param_hash and the saving functions call
 * it themselves. yk_save averages the moments as well, and training continues from the means. */
YK_API void yk_average_params(yk_job *job);
/* [all] [waits] Returns when all ranks have called it. */
YK_API void yk_barrier(yk_job *job);
/* [all] [waits] Rank 0 runs the code between the two calls first, with `local` the first rank of each host. The other ranks wait in _begin,
 * then run it. For downloads and caches (Accelerate's main_process_first, local_main_process_first). */
YK_API void yk_main_first_begin(yk_job *job, bool local);
YK_API void yk_main_first_end(yk_job *job, bool local);
/* [safe] Raises this rank's flag for yk_check_trigger. */
YK_API void yk_set_trigger(yk_job *job);
/* [all] [waits] True on all ranks if any rank has raised its flag since the last call; clears all flags. */
YK_API bool yk_check_trigger(yk_job *job);
/* Traces the steps from here to yk_trace_end (Accelerate's profile), as `yoke trace` traces a whole program. For each rank the trace has
 * device computation and copies, messages, and the step thread's waits. Tracing adds no waits. */
YK_API void yk_trace_begin(yk_job *job);
/* [all] [waits] Waits for the devices; rank 0 writes the traces of all ranks to one file for chrome://tracing or ui.perfetto.dev. Under
 * `yoke trace` yk_trace_begin and yk_trace_end do nothing. */
YK_API void yk_trace_end(yk_job *job, const char *file);
/* [waits] Returns when this rank's device has finished its work. */
YK_API void yk_sync(yk_job *job);
/* [safe] printf on rank 0 alone, then a flush. Prints nothing after an error, as values are NaN then. */
YK_API void yk_print(yk_job *job, const char *fmt, ...);
/* [safe] Rank 0 alone: the line "yoke: TEXT", of 1023 bytes at most, to standard error or to the function of yk_set_log. */
YK_API void yk_warn(yk_job *job, const char *fmt, ...);
/* [all] [waits] Rank 0 prints every rank's line, "[RANK 1] ..", in rank order. A line has at most 1023 bytes. */
YK_API void yk_print_in_order(yk_job *job, const char *fmt, ...);

/* ---- Collectives on host memory ---------------------------------------------------------------------------------- */

/* Host memory only: yk_sum, yk_mean, yk_max and yk_gather_rows combine values of a step over the rows of all ranks by themselves.
 * A returned pointer belongs to the job and is valid until its next call of this section; NULL after an error. Sizes have no limit.
 * An error names a rank whose size differs. */

/* [all] [waits] v[i], of n numbers, becomes the sum of all ranks' v[i], added in rank order; the mean (sum / ranks); the maximum. */
YK_API void yk_all_reduce_sum(yk_job *job, double *v, uint32_t n);
YK_API void yk_all_reduce_mean(yk_job *job, double *v, uint32_t n);
YK_API void yk_all_reduce_max(yk_job *job, double *v, uint32_t n);
/* [all] [waits] all[0..ranks * bytes) = every rank's data, in rank order; bytes is equal on all ranks. */
YK_API void yk_gather(yk_job *job, const void *data, size_t bytes, void *all);
/* [all] [waits] yk_gather for sizes that differ: (*size)[r] bytes of rank r, concatenated in rank order (gather_object). */
YK_API const void *yk_gather_object(yk_job *job, const void *data, size_t bytes, const size_t **size);
/* [all] [waits] Concatenates the ranks' results per row of the latest micro batch, row_bytes a row, in global row order; *rows is their
 * number. Rows that only fill a batch up (even_batches) are dropped. This rank's row count is that of yk_data_next, yk_sampler_next or
 * yk_set_rows, else the first length of the step's first input. */
YK_API const void *yk_gather_for_metrics(yk_job *job, const void *data, size_t row_bytes, int64_t *rows);
/* [all] [waits] Copies rank root's data to all ranks; bytes is equal on all ranks. */
YK_API void yk_broadcast(yk_job *job, void *data, size_t bytes, uint32_t root);
/* [all] [waits] yk_broadcast of a size that only the root knows: *bytes is the root's size on input, and its size on all ranks after. */
YK_API const void *yk_broadcast_object(yk_job *job, const void *data, size_t *bytes, uint32_t root);
typedef struct yk_pad_config {
    int32_t axis;
    double value;   /* value of the new elements */
    bool pad_first; /* in front, instead of behind */
} yk_pad_config;
/* [all] [waits] Pads data of shape dim[0..dims) (f32, f64, i32, i64, u8 or bool) along an axis to the longest rank's length. Sets dim[axis]
 * to it. The other lengths are equal on all ranks. c NULL: zeros behind, along the first axis. */
YK_API const void *yk_pad_across_ranks(yk_job *job, yk_dtype dtype, uint32_t dims, int64_t *dim, const void *data,
                                       const yk_pad_config *c, size_t size);
/* [safe] Splits n items into one run per rank: *first and *count are this rank's; the first ranks get the surplus items. Returns the number
 * of copies of item n - 1 to append so that all ranks have equally many (split_between_processes, apply_padding). */
YK_API uint64_t yk_split_between_ranks(const yk_job *job, uint64_t n, uint64_t *first, uint64_t *count);

/* ---- Parameters and inputs --------------------------------------------------------------------------------------- */

typedef enum yk_init_kind { YK_INIT_ZEROS, YK_INIT_ONES, YK_INIT_NORMAL, YK_INIT_UNIFORM } yk_init_kind;
typedef struct yk_init {
    yk_init_kind kind;
    float a, b; /* normal: mean, standard deviation; uniform: from, to */
} yk_init;

/* The first read, write or step after new parameters lays out all of them, together on all ranks. */

/* A parameter of shape dim[0..dims): f32, trained, saved under its unique name. Lives with the job. Error within a window, as yk_freeze. */
YK_API yk_t yk_param(yk_job *job, const char *name, uint32_t dims, const int64_t *dim, yk_init init);
/* A buffer that is saved but not trained (running statistics), filled with `value`; dtype YK_F32 or YK_I32 (saved as I64). */
YK_API yk_t yk_state(yk_job *job, const char *name, yk_dtype dtype, uint32_t dims, const int64_t *dim, float value);
/* Sets the state to a value of its shape when the step runs; once per step. The step's values read the old state, assigned ones too. */
YK_API void yk_assign(yk_t state, yk_t value);
/* frozen: no gradient, no update, no decay (torch's requires_grad off). Call it before the first step: it is an error once the optimizer
 * state exists, or within an accumulation window. A trained parameter that no loss of a window depends on gets no update and no decay. */
YK_API void yk_freeze(yk_t param, bool frozen);
/* [safe] The number of parameters and states, which are numbered in order of creation. */
YK_API uint32_t yk_param_count(const yk_job *job);
/* [safe] The name of number i; NULL if absent. Belongs to the job. */
YK_API const char *yk_param_name(const yk_job *job, uint32_t i);
/* [safe] The handle of number i; poisoned if absent. */
YK_API yk_t yk_param_at(yk_job *job, uint32_t i);
/* [safe] The handle of that name; poisoned, without an error, if absent. */
YK_API yk_t yk_param_find(yk_job *job, const char *name);
/* [safe] True if number i is a state. */
YK_API bool yk_param_is_state(const yk_job *job, uint32_t i);
/* [all] [waits] Overwrites a whole parameter or state by n numbers, which must be equal on all ranks. */
YK_API void yk_param_write(yk_t param, const float *data, size_t n);
/* [all] [waits] Copies all n numbers of a parameter or state to data. A rank may read alone once parameters are laid out. */
YK_API void yk_param_read(yk_t param, float *data, size_t n);
/* [all] [waits] Copies the last optimizer step's gradient, n numbers, summed over ranks, before clipping. Error within a window. */
YK_API void yk_grad_read(yk_t param, float *data, size_t n);

/* Host data of this step, copied: shape dim[0..dims), dtype f32, i32, u8 or bool. An input holds rows if its first length is a multiple
 * of this rank's rows (yk_set_rows, else the first length of the step's first input). Any other input must be equal on all ranks, which
 * Yoke checks. */
YK_API yk_t yk_input(yk_job *job, yk_dtype dtype, uint32_t dims, const int64_t *dim, const void *data);
/* Declares x equal on all ranks although its first length fits this rank's rows. Its operand x is an input (class weights, a table), or
 * yk_expand of a replicated value. Call it before any use of x; returns x. */
YK_API yk_t yk_replicated(yk_t x);
/* Sets the rows of the global micro batch that this rank's inputs hold. They are `local` global row numbers (NULL: 0..local-1), of `global`
 * rows over all ranks. Dropout follows the global row number. Loaders call it themselves. local may be 0. */
YK_API void yk_set_rows(yk_job *job, int64_t local, const int32_t *row, int64_t global);
/* [all] [waits] This rank's part of the next global micro batch of n rows (at most 2^31 - 1), by measured speed: rows *first to *first +
 * *count - 1. Loaders call it themselves. Yoke excludes a rank for a while if it would slow the job down. An excluded rank gets no rows
 * here or from a loader. It runs the same program, somewhat behind the other ranks, and sees the same losses, norms and steps. The
 * parameters it reads are the newest it has; after yk_barrier they are equal on all ranks. Rows given to an excluded rank are an error. */
YK_API void yk_split(yk_job *job, uint64_t n, uint64_t *first, uint64_t *count);
/* A scalar, passed when the step runs: another value reuses the plan. */
YK_API yk_t yk_constant(yk_job *job, float value);

/* [safe] The job of a value; NULL if x is poisoned. */
YK_API yk_job *yk_job_of(yk_t x);
/* [safe] The number of dimensions of x (torch's x.dim()); 0 if poisoned. */
YK_API uint32_t yk_dims(yk_t x);
/* [safe] The length of x along an axis (torch's x.size(axis)); -1 if poisoned. */
YK_API int64_t yk_dim(yk_t x, int32_t axis);
/* [safe] Switches between training (the default) and evaluation, as torch's train() and eval(): dropout, batch norm, label smoothing. */
YK_API void yk_train(yk_job *job, bool on);
/* [safe] True in training mode. */
YK_API bool yk_training(const yk_job *job);

/* ---- Reading values ------------------------------------------------------------------------------------------------ */

/* Keeps x readable until the end of the next step; returns x. */
YK_API yk_t yk_keep(yk_t x);
/* [all] [waits] The value of x, one number; NaN after an error.
 * A loss that went through yk_backward gives the mean over all ranks. Values of rows, and sums and means over rows, give this rank's own;
 * after yk_backward a mean gives this rank's part of the global mean. In training, a value that is not linear in such a sum or mean uses
 * all ranks' rows. Every rank must read a value that depends on all ranks' rows. */
YK_API double yk_item(yk_t x);
/* [all] [waits] Copies a value of any shape, f32, i32 or bool (1 byte) as the value is. The size of all its elements must be `bytes`.
 * Writes nothing after an error. */
YK_API void yk_read(yk_t x, void *data, size_t bytes);
/* Adds x, one number, under a name to the tracker's next line (Accelerate's log). The line is written when the number is known; no call
 * waits for it. Called by all ranks.
 * A sum or mean over rows, or a value linear in one, counts all ranks' rows, as the loss does. This holds in evaluation too; there each
 * rank's mean has the weight of its labels, else of its rows. Any other value is rank 0's. In evaluation that includes nonlinear
 * functions of a sum or mean, such as a root: use yk_all_reduce_sum there. */
YK_API void yk_track(yk_job *job, const char *name, yk_t x);
/* Opens the job's tracker: a file of JSON lines, {"step": 3, "loss": 0.51}, that rank 0 appends to. One per job. */
YK_API void yk_track_open(yk_job *job, const char *path);
/* [all] [waits] Ends a step that has no yk_step (evaluation); does nothing if no step is open. */
YK_API void yk_end(yk_job *job);

/* ---- Operations: all return a value of the same job ---------------------------------------------------------------- */

/* A loss over several ranks equals the loss of all ranks' rows in one process. Sums over rows add up, means divide by the rows of all
 * ranks, yk_max takes the maximum over all. A nonlinear function of such a value uses the global value: yk_sqrt(yk_mean(..)), x minus
 * its mean, a softmax over rows. So write a mean as yk_mean, or as a sum divided by the global rows, never by this rank's rows.
 * Operations that combine rows of different ranks have no such form: x times its transpose, some of the rows, rows merged by yk_reshape.
 * For a loss that depends on one, yk_backward is an error that names the line. yk_gather_rows gives each rank the rows of all ranks.
 * Evaluation (yk_train) exchanges nothing: all values are of this rank's rows. */

/* Elementwise; operands broadcast as in NumPy. Operands of two types become f32 if one is a float, else i32; u8 and bool become i32 for
 * arithmetic. Functions defined for floats only (yk_exp ..) convert other types to f32. */
YK_API yk_t yk_add(yk_t a, yk_t b);
YK_API yk_t yk_sub(yk_t a, yk_t b);
YK_API yk_t yk_mul(yk_t a, yk_t b);
YK_API yk_t yk_div(yk_t a, yk_t b);
YK_API yk_t yk_maximum(yk_t a, yk_t b);
YK_API yk_t yk_minimum(yk_t a, yk_t b);
YK_API yk_t yk_less(yk_t a, yk_t b);                           /* bool */
YK_API yk_t yk_equal(yk_t a, yk_t b);                          /* bool */
YK_API yk_t yk_where(yk_t c, yk_t a, yk_t b);                  /* c ? a : b; c bool */
YK_API yk_t yk_scale(yk_t x, float factor);                    /* x * factor; another factor needs no new plan */
YK_API yk_t yk_shift(yk_t x, float addend);                    /* x + addend; another one needs no new plan */
YK_API yk_t yk_neg(yk_t x);
YK_API yk_t yk_abs(yk_t x);
YK_API yk_t yk_exp(yk_t x);
YK_API yk_t yk_log(yk_t x);                                    /* natural logarithm */
YK_API yk_t yk_sqrt(yk_t x);
YK_API yk_t yk_rsqrt(yk_t x);                                  /* 1 / sqrt(x) */
YK_API yk_t yk_cast(yk_t x, yk_dtype dtype);                   /* between float, i32, u8 and bool */
YK_API yk_t yk_relu(yk_t x);
YK_API yk_t yk_gelu(yk_t x);                                   /* exact, with erf */
YK_API yk_t yk_gelu_tanh(yk_t x);                              /* by tanh: GPT-2's gelu_new */
YK_API yk_t yk_silu(yk_t x);                                   /* x * sigmoid(x) */
YK_API yk_t yk_tanh(yk_t x);
YK_API yk_t yk_sigmoid(yk_t x);
YK_API yk_t yk_erf(yk_t x);
YK_API yk_t yk_sinh(yk_t x);                                   /* (e^x - e^-x) / 2 */
/* Shape: views if possible; x of any type. */
YK_API yk_t yk_reshape(yk_t x, uint32_t dims, const int64_t *dim);   /* one length may be -1 */
YK_API yk_t yk_flatten(yk_t x, int32_t from);                        /* [.., a, b] -> [.., a*b] from that axis on */
YK_API yk_t yk_permute(yk_t x, const uint32_t *axis);                /* axis i of the result is axis[i] of x */
YK_API yk_t yk_slice(yk_t x, int32_t axis, int64_t begin, int64_t end, int64_t step); /* end -1: to the end */
YK_API yk_t yk_concat(const yk_t *x, uint32_t n, int32_t axis);      /* n values, equal but for that axis */
YK_API yk_t yk_pad(yk_t x, int32_t axis, int64_t before, int64_t after, float value); /* so many entries more */
YK_API yk_t yk_expand(yk_t x, uint32_t dims, const int64_t *dim);    /* broadcast to that shape */
/* Reductions: axes as a bit mask, 1u << 0 | 1u << 2. The result has no reduced axes; with keep they stay, of length 1. */
YK_API yk_t yk_sum(yk_t x, uint32_t axes, bool keep);
YK_API yk_t yk_mean(yk_t x, uint32_t axes, bool keep);
YK_API yk_t yk_max(yk_t x, uint32_t axes, bool keep);
YK_API yk_t yk_argmax(yk_t x, int32_t axis);                         /* i32; the first of equal ones; over rows their global numbers */
/* The rows of all ranks on each rank, [global rows, ..] f32 in global row order. Losses over pairs of rows use them: x times the transpose
 * of the result. The gradient of a row sums all ranks' uses of it. With one rank it returns x; in evaluation, this rank's rows. */
YK_API yk_t yk_gather_rows(yk_t x);
/* Products. */
YK_API yk_t yk_matmul(yk_t a, yk_t b);                               /* [.., M, K] x [.., K, N], leading ones broadcast */
YK_API yk_t yk_linear(yk_t x, yk_t weight, yk_t bias);               /* x·Wᵀ + b: x [.., in], weight [out, in], bias [out] or YK_NO */
YK_API yk_t yk_linear_io(yk_t x, yk_t weight, yk_t bias);            /* x·W + b: weight [in, out] (Hugging Face's Conv1D) */
/* Layers. */
typedef struct yk_conv2d_config {
    int32_t stride[2], padding[2], dilation[2]; /* height, width; stride and dilation default 1 */
    int32_t groups;                             /* default 1 */
} yk_conv2d_config;
typedef struct yk_pool2d_config {
    int32_t kernel[2], stride[2], padding[2], dilation[2]; /* stride defaults to kernel; dilation for max only */
    bool exclude_padding;                                  /* average: divide by the real pixels only */
    bool ceil_mode;                                        /* a last window that hangs over the edge counts */
} yk_pool2d_config;
/* x [n, C, H, W], weight [out, C / groups, kh, kw], bias [out] or YK_NO: [n, out, H', W']. */
YK_API yk_t yk_conv2d(yk_t x, yk_t weight, yk_t bias, const yk_conv2d_config *c, size_t size);
/* x [n, C, H, W]: [n, C, H', W']. */
YK_API yk_t yk_max_pool2d(yk_t x, const yk_pool2d_config *c, size_t size);
YK_API yk_t yk_avg_pool2d(yk_t x, const yk_pool2d_config *c, size_t size);
YK_API yk_t yk_adaptive_avg_pool2d(yk_t x, int64_t height, int64_t width); /* [n, C, height, width] */
/* Normalises the last axis of x [.., C]; gamma, beta [C] or YK_NO. */
YK_API yk_t yk_layer_norm(yk_t x, yk_t gamma, yk_t beta, float eps);
typedef struct yk_batch_norm_state {
    yk_t mean, var; /* states of f32 [C] */
    yk_t count;     /* a state of i32 [], batches seen; may be YK_NO */
} yk_batch_norm_state;
/* x [n, C, ..], gamma and beta [C] or YK_NO. Training: statistics of the whole global micro batch (all ranks). Running values move by
 * `momentum` (0 = 0.1; below 0: the mean of all batches, by `count`), with unbiased variance. A channel with a single value over all
 * ranks is an error. Evaluation: running values. */
YK_API yk_t yk_batch_norm(yk_t x, yk_t gamma, yk_t beta, yk_batch_norm_state running, float momentum, float eps);
/* ids i32 of any shape, table [V, D]: the shape of ids with D appended. The row padding_index gets no gradient; -1: no such row. Id -1
 * gives zeros. Any other id outside the table fails the job if ids is a direct input. */
YK_API yk_t yk_embedding(yk_t ids, yk_t table, int32_t padding_index);
/* Zeroes elements with probability p and divides the rest by 1 - p; returns x in evaluation. */
YK_API yk_t yk_dropout(yk_t x, float p);

/* Rows without padding. keep [B, T] is an input or computed from inputs; a token counts if its entry is not 0. yk_pack_tokens gathers the
 * counting tokens of x [B, T, ..] into [yk_packed_count, ..]. Rows of zeros, which get no gradient, round their number up to a multiple
 * of B T / 32. yk_unpack_tokens puts them back into [B, T, ..], with zeros elsewhere. yk_dropout_packed drops the same elements of a
 * packed x as yk_dropout drops of the [B, T, ..] it came from. */
YK_API int64_t yk_packed_count(yk_t keep);
YK_API yk_t yk_pack_tokens(yk_t x, yk_t keep);
YK_API yk_t yk_unpack_tokens(yk_t x, yk_t keep);
YK_API yk_t yk_dropout_packed(yk_t x, float p, yk_t keep);

/* Over the last axis. */
YK_API yk_t yk_softmax(yk_t x);
YK_API yk_t yk_log_softmax(yk_t x);
typedef struct yk_attention_config {
    bool causal;      /* key j seen by query i if j <= i + Tk - Tq */
    float scale;      /* default 1/sqrt(D) */
    float dropout;
    yk_t key_keep;    /* [B, Tk], 0 = never seen, any numeric type; default none */
    yk_t bias;        /* added to the scaled scores, broadcast to [B,H,Tq,Tk]; default none */
} yk_attention_config;
/* softmax(scale q kᵀ + bias) v: [B, H, Tq, D]. Shapes: q [B, H, Tq, D], k and v [B, Hk, Tk, D] with H a multiple of Hk. */
YK_API yk_t yk_attention(yk_t q, yk_t k, yk_t v, const yk_attention_config *c, size_t size);
/* YK_NO: an absent optional operand. */
#ifdef __cplusplus
#define YK_NO (yk_t{})
#define YK_EMPTY {}
#else
#define YK_NO ((yk_t){0})
#define YK_EMPTY {0}
#endif

/* Losses: scalars by default, the mean over the counting labels or elements (see yk_average for accumulation). */
typedef enum yk_reduction { YK_MEAN, YK_SUM, YK_EACH } yk_reduction; /* YK_EACH: one loss per label or element */
typedef struct yk_cross_entropy_config {
    float smoothing;
    int32_t ignore_index; /* default -100 */
    yk_t weight;          /* [C] class weights */
    yk_reduction reduction;
} yk_cross_entropy_config;
/* logits [.., C], labels i32 [..]: class numbers, -100 is ignored. */
YK_API yk_t yk_cross_entropy(yk_t logits, yk_t labels);
YK_API yk_t yk_cross_entropy_with(yk_t logits, yk_t labels, const yk_cross_entropy_config *c, size_t size);
typedef struct yk_loss_config {
    yk_reduction reduction;
    yk_t weight, pos_weight; /* bce: weights of elements, of positive targets; broadcast; default none */
} yk_loss_config;
/* Binary cross entropy of logits and targets of one shape, targets from 0 to 1. */
YK_API yk_t yk_bce_with_logits(yk_t logits, yk_t target, const yk_loss_config *c, size_t size);
/* (x - target)², of one shape. */
YK_API yk_t yk_mse_loss(yk_t x, yk_t target, const yk_loss_config *c, size_t size);

/* Activation checkpointing (torch.utils.checkpoint): backward recomputes the operations traced between the two calls, so their results
 * are not kept. Not nested. */
YK_API void yk_recompute_begin(yk_job *job);
YK_API void yk_recompute_end(yk_job *job);

/* Computes the operations traced between the two calls, and their gradients, in f32 from widened operands, in a job in bf16 or fp16. This
 * is torch's autocast with enabled=False; its .float() is not needed. No effect in f32. Not nested. */
YK_API void yk_full_precision_begin(yk_job *job);
YK_API void yk_full_precision_end(yk_job *job);

/* ---- Training -------------------------------------------------------------------------------------------------------- */

/* [all] [waits] Traces the gradients of loss, one f32 number, by all parameters that are not frozen. Once per micro batch: add and scale
 * several losses before the call. Waits only for other ranks, and only when it compares counts or settings. */
YK_API void yk_backward(yk_t loss);
/* Clips the next optimizer step's gradients: g *= min(1, max / (norm + 1e-6)), norm as yk_grad_norm. yk_backward fails if ranks clip
 * differently, and yk_step if the call came after it, before it updates. */
YK_API void yk_clip_norm(yk_job *job, float max);
/* Clips each gradient element of the next optimizer step to [-max, max]. */
YK_API void yk_clip_value(yk_job *job, float max);

typedef struct yk_opt yk_opt;
typedef struct yk_sgd_config { /* lr defaults to 1e-3 */
    double lr, momentum, dampening, weight_decay;
    bool nesterov, maximize;
} yk_sgd_config;
typedef struct yk_adam_config { /* also adamw; lr defaults to 1e-3, betas to 0.9, 0.999, eps to 1e-8 */
    double lr, beta1, beta2, eps, weight_decay;
    bool amsgrad, maximize;
} yk_adam_config;
/* One optimizer per job; it owns all parameters that exist when it is made, in one group. adamw: weight_decay as given (0 is 0).
 * A parameter that no loss of an optimizer step depends on rests: its value, moments and own step count stay, without decay (PyTorch's
 * rule). */
YK_API yk_opt *yk_sgd(yk_job *job, const yk_sgd_config *c, size_t size);
YK_API yk_opt *yk_adam(yk_job *job, const yk_adam_config *c, size_t size);  /* decay added to the gradient */
YK_API yk_opt *yk_adamw(yk_job *job, const yk_adam_config *c, size_t size); /* decoupled decay */
/* Adds a parameter group with its own decay and a factor on the learning rate. Returns its number (the first group is 0). At most 64. */
YK_API uint32_t yk_opt_group(yk_opt *opt, double lr_factor, double weight_decay);
/* Moves a parameter into a group, before the first step. */
YK_API void yk_opt_move(yk_opt *opt, uint32_t group, yk_t param);
/* [safe] The current learning rate. */
YK_API double yk_lr(const yk_opt *opt);
/* Sets the learning rate from the next optimizer step on; finite, at least 0. A schedule calls it itself. */
YK_API void yk_set_lr(yk_opt *opt, double lr);
/* [all] [waits] Ends the micro batch. The last micro batch of an accumulation (every `accumulate`-th, or the data's last) makes an
 * optimizer step: reduce over ranks, clip, update. The device may still be at work when it returns. */
YK_API void yk_step(yk_opt *opt);
/* [safe] True if the last yk_step updated parameters: it ended an accumulation, and no gradient overflowed. */
YK_API bool yk_stepped(const yk_opt *opt);
/* [safe] L2 norm of all gradients of the last optimizer step, before clipping; infinite if an overflow skipped the step. */
YK_API double yk_grad_norm(const yk_opt *opt);
/* [all] [waits] Loss of the last optimizer step as optimised, over all micro batches and ranks. The first call after a step adds up the
 * ranks' parts. */
YK_API double yk_step_loss(yk_opt *opt);
/* [all] [waits] Seconds since the previous call, or since the optimizer was made, until all participating ranks arrive: the maximum over
 * ranks. Global rows (yk_batch.global_rows) divided by it are the job's speed, also on an excluded rank. */
YK_API double yk_step_seconds(yk_opt *opt);
/* [safe] The number of optimizer steps so far. */
YK_API uint64_t yk_steps(const yk_opt *opt);
/* [safe] fp16: the current loss scale; 1 otherwise. */
YK_API double yk_loss_scale(const yk_opt *opt);
/* [safe] Makes the current micro batch the last of its accumulation, whatever yk_config.accumulate says; makes it not the last
 * (Accelerate's no_sync). */
YK_API void yk_accumulate_end(yk_job *job);
YK_API void yk_accumulate_on(yk_job *job);
/* [safe] True if the next yk_step makes an optimizer step (Accelerate's sync_gradients). */
YK_API bool yk_sync_gradients(const yk_job *job);

typedef struct yk_sched yk_sched;
/* Names, settings and formulas of transformers' get_scheduler (linear, cosine, reduce_lr_on_plateau ..), torch.optim's lr_scheduler
 * (StepLR, OneCycleLR ..) and DeepSpeed's schedules (WarmupLR ..). The error for an unknown name lists all names. */
typedef struct yk_sched_config {
    const char *name;   /* NULL: constant */
    double warmup_steps, total_steps; /* a warm-up for a schedule without one (constant, PyTorch's) is an error */
    const char *params; /* further settings, "key=value,key=value", by the names of their source */
} yk_sched_config;
/* One per optimizer; the optimizer's rate at this call is the schedule's base. */
YK_API yk_sched *yk_schedule(yk_opt *opt, const yk_sched_config *c, size_t size);
/* [safe] Sets the next step's rate; advances only if the optimizer updated. */
YK_API void yk_sched_step(yk_sched *s);
/* [safe] Moves to that step: after yk_load, if a step's batches differ in size from those of the checkpoint. */
YK_API void yk_sched_seek(yk_sched *s, uint64_t step);
/* [safe] reduce_lr_on_plateau follows evaluations instead of steps: after each, every rank passes the same metric (the loss, or with
 * mode=max an accuracy). Other schedules ignore it; yk_sched_by_metric is true for a schedule that needs it. */
YK_API void yk_sched_metric(yk_sched *s, double metric);
YK_API bool yk_sched_by_metric(const yk_sched *s);

/* ---- Data ------------------------------------------------------------------------------------------------------------- */

typedef struct yk_data yk_data;
typedef struct yk_data_config {
    uint32_t global_batch;   /* rows of a micro batch over all ranks; default 32 */
    uint32_t rank_batch;     /* instead of global_batch: rows of one rank (a DataLoader's batch_size) */
    bool equal_shares;       /* yk_config.shares "equal" for these data. An error: shares that differ, or a batch that is no multiple of
                                the ranks. A rank gets the rows of a short batch that its equal part covers (Accelerate's rule) */
    bool even_batches;       /* several ranks: the epoch's first rows fill up the last, shorter batch (Accelerate's default) */
    bool eval;               /* the evaluation part, in order, every row once, last batch short */
    bool keep_last;          /* training: keep the last, shorter batch (default: dropped) */
    bool in_order;           /* training: not shuffled */
    const char *tokenizer;   /* folder, "char" or "bytes" */
    uint32_t max_length;     /* tokens; default 128 for rows of text */
    uint32_t seq_len;        /* tokens of a window of running text; default 128 */
    const char *eval_rows;   /* file of line numbers that evaluate instead of train */
    const char *model;       /* folder of a model whose config.json (id2label) numbers the names of labels */
    bool new_head;           /* training: `model` numbers the labels only if the data have exactly its names */
    bool unlabelled;         /* for predictions: zero rows are legal; labels of rows of text are not read, and batches have none */
    bool whole;              /* running text: all of the file, not its part before or after the split */
    uint64_t max_rows;       /* only the first max_rows rows of the part; default all */
    bool by_length;          /* training on rows of text: rows of similar length share a batch, so that it has little padding */
    uint64_t seed;           /* seed of the order of rows and of the masked tokens; default the job's */
    bool numbers;            /* csv, jsonl: labels are numbers, for a regression */
    double mlm_probability;  /* rows of text and running text: probability that a token is masked, for a masked language model */
    double eval_split;       /* 0 to below 1: part of the rows, rounded up, that evaluates instead of training; running text: its end */
    uint64_t eval_seed;      /* rows of text: selects the rows of eval_split; equal on all ranks */
} yk_data_config;

typedef struct yk_batch {
    yk_t x;                  /* images f32 [n, C, H, W]; for text the same as input_ids */
    yk_t input_ids, attention_mask, token_type_ids; /* i32 [n, T] */
    yk_t labels;             /* i32 [n], or [n, T] for language models; f32 [n] for a regression */
    int64_t rows, global_rows, width; /* this rank's rows, all ranks' rows, T */
    int64_t unique_rows;     /* all ranks' rows without the last ones that only fill the batch up (even_batches) */
    int64_t first;           /* index of this rank's first row among all ranks' rows */
    uint64_t epoch, index;   /* number of the batch in its epoch */
    bool last;               /* last batch of the epoch */
} yk_batch;

/* [all] [waits] spec: "idx:DIR", "cifar10:DIR", "csv:FILE,text=..,label=..", "jsonl:FILE,..", "lines:FILE" (unlabelled), "text:FILE",
 * "tokens:FILE". The job fails if the ranks' data differ. */
YK_API yk_data *yk_data_open(yk_job *job, const char *spec, const yk_data_config *c, size_t size);
/* [safe] "idx", "csv", .. */
YK_API const char *yk_data_kind(const yk_data *d);
/* [safe] Rows and batches of an epoch. */
YK_API uint64_t yk_data_rows(const yk_data *d);
YK_API uint64_t yk_data_batches(const yk_data *d);
/* [safe] Position of row i (from 0) in its file: for csv and jsonl the line number, as in eval_rows; else i + 1. */
YK_API uint64_t yk_data_line(const yk_data *d, uint64_t i);
/* Kinds of labels: a row's class; its number (regression); each token's successor; each token before masking (-100: not masked). */
typedef enum yk_labels { YK_LABELS_NONE, YK_LABELS_CLASSES, YK_LABELS_NUMBERS, YK_LABELS_NEXT, YK_LABELS_MASKED } yk_labels;
/* [safe] The kind of the labels. */
YK_API yk_labels yk_data_labels(const yk_data *d);
/* [safe] The number of classes; 0 if the data have none. */
YK_API uint32_t yk_data_classes(const yk_data *d);
/* [safe] The name of label i; NULL if labels are numbers. */
YK_API const char *yk_data_class_name(const yk_data *d, uint32_t i);
/* [safe] Upper bound of token ids, exclusive; 0 for images. */
YK_API uint32_t yk_data_vocab(const yk_data *d);
/* [safe] Channels, height and width of images; 0, 0, 0 for other data. */
YK_API void yk_data_shape(const yk_data *d, int64_t chw[3]);
/* [safe] The folder of the data's tokenizer files; NULL if absent. */
YK_API const char *yk_data_tokenizer(const yk_data *d);
/* [waits] Writes the data's tokenizer files into DIR, which must have none of them. A tokenizer_config.json records casing, accents and
 * class as they were used. Characters and bytes get a tokenizer.json. */
YK_API void yk_data_save_tokenizer(const yk_data *d, const char *dir);
/* [all] [waits] The next batch of this rank; ends the previous batch's step. False at the end of the epoch or after an error. A loop by
 * hand continues at the current place of the data; yk_data_seek goes elsewhere. */
YK_API bool yk_data_next(yk_data *d, yk_batch *batch);
/* [all] [waits] yk_data_next for yk_each, whose first call passes an empty batch: after a loop left by break, a new epoch begins. */
YK_API bool yk_data_each(yk_data *d, yk_batch *batch);
/* Moves to that batch of that epoch, on all ranks, at once (Accelerate's skip_first_batches). */
YK_API void yk_data_seek(yk_data *d, uint64_t epoch, uint64_t batch);
/* [safe] Position of the next batch. After an epoch's last batch it is batch yk_data_batches() of that epoch until yk_data_next runs. */
YK_API void yk_data_tell(const yk_data *d, uint64_t *epoch, uint64_t *batch);

/* Row numbers for a program with its own data: the rows of a data set, or of a stream, for each batch of this rank. */
typedef struct yk_sampler yk_sampler;
typedef struct yk_sampler_config {
    uint64_t rows;       /* rows of the data set; 0: a stream, which yk_sampler_end ends */
    uint32_t batch;      /* rows of one rank; with split_batches of all ranks together */
    bool split_batches;
    bool uneven_batches; /* an epoch's last batch has fewer rows, on some ranks none; default: the epoch's first rows fill it up */
    bool drop_last;      /* or it is dropped */
    bool dispatch;       /* or it is filled up to a multiple of the ranks only, and split evenly (Accelerate's dispatch_batches) */
    bool by_speed;       /* ranks get rows by yk_config.shares, as from yk_data_next; default: equally many, and other shares
                            are an error */
    bool shuffle;        /* not for a stream */
    uint64_t seed;       /* seed of the order; default the job's */
} yk_sampler_config;
typedef struct yk_sample {
    const int64_t *row;  /* numbers of this rank's rows; valid until the next call */
    int64_t rows;        /* length of row; 0 is legal: make the same calls without rows */
    int64_t first, global_rows, unique_rows; /* as in yk_batch */
    uint64_t epoch, index;
    bool last;           /* last batch of the epoch */
} yk_sample;
/* A sampler with Accelerate's rules for an epoch (docs/from-accelerate.md). Belongs to the job. yk_save stores its position in rows, so a
 * job with another number of ranks or another batch continues with exactly the unused rows. */
YK_API yk_sampler *yk_sampler_new(yk_job *job, const yk_sampler_config *c, size_t size);
/* [safe] Batches of an epoch; 0 for a stream that has not ended. */
YK_API uint64_t yk_sampler_batches(const yk_sampler *s);
/* [all] [waits] The next batch; begins its step, as yk_data_next does. False at the end of the epoch or after an error. After a loop left
 * by break it continues at that place: yk_sampler_seek(s, epoch + 1, 0) begins a new epoch. */
YK_API bool yk_sampler_next(yk_sampler *s, yk_sample *sample);
/* Ends a stream after `rows` rows. Called on all ranks before the batch that they do not fill is requested: read one batch ahead. */
YK_API void yk_sampler_end(yk_sampler *s, uint64_t rows);
/* Moves to that batch of that epoch, on all ranks, at once. */
YK_API void yk_sampler_seek(yk_sampler *s, uint64_t epoch, uint64_t batch);
/* [safe] Position of the next batch, as yk_data_tell. */
YK_API void yk_sampler_tell(const yk_sampler *s, uint64_t *epoch, uint64_t *batch);

/* [all] [waits] The largest of start, 0.9 start, 0.81 start .. (rounded down, Accelerate's find_executable_batch_size) that fits the
 * memory of all ranks. step(job, batch, user) makes a model and one or two training steps in a job that only plans (plan_only). That job
 * uses config's memory settings and is closed afterwards. 0: batch 1 does not fit, or step failed, which was reported. Called while no
 * job is open. */
YK_API uint32_t yk_find_batch_size(const yk_config *config, uint32_t start, void (*step)(yk_job *job, uint32_t batch, void *user),
                                   void *user, size_t size);

/* Loops over the batches of an epoch: opens each step, and ends it if the body did not call yk_step. After a break the next loop is a new
 * epoch from its first batch, as a new `for` over a DataLoader. After yk_data_seek or yk_load it continues at that place. */
#define yk_each(batch, job, data)                                                                                      \
    for (yk_batch batch = YK_EMPTY; yk_ok(job) && yk_data_each(data, &batch); yk_end(job))

/* ---- Models (models/): built over this header alone ------------------------------------------------------------------- */

typedef struct yk_model yk_model;
/* name: "mlp", "resnet20", "resnet32", "resnet18", "resnet50", "gpt2", "bert" (sequence classification), "bert-mlm".
 * config: "key=value,key=value" by Hugging Face's keys, or NULL. The data (may be NULL) give classes, vocabulary and image shape. In
 * config, here and below, prefix=P puts P before each parameter's name in the job, not in files. It serves two models of one kind
 * (prefix=teacher.). With new_head=yes, for weights from a file, a classifier whose classes differ from the data's, in number or names,
 * starts new. Else another number of classes is an error. resumes=yes: yk_load follows, so no line says what such a file lacks. */
YK_API yk_model *yk_model_new(yk_job *job, const char *name, const char *config, const yk_data *data);
/* [all] [waits] Architecture and weights from a Hugging Face folder (config.json, model.safetensors or its shards). A head that the file
 * lacks (a classifier on an encoder) starts new, with a message; unused tensors give a message too. Features that Yoke does not compute
 * (an untied head, a decoder's BERT, another head) are refused. */
YK_API yk_model *yk_model_from_pretrained(yk_job *job, const char *dir, const char *config, const yk_data *data);
/* [all] [waits] Reads weights of a file or folder into a model. Names may carry "module.", lack "bert." or "transformer.", and end in
 * LayerNorm.gamma and LayerNorm.beta. */
YK_API void yk_model_load(yk_model *m, const char *path);
/* [all] [waits] Writes weights, config.json and the tokenizer's files, replaced together (yk_stage_begin). A checkpoint of a job with one
 * model has the same files: yk_model_from_pretrained opens it. */
YK_API void yk_model_save(yk_model *m, const char *dir);
/* Fails the job, in a line that names model and data, unless the model can work on the data: kind, shape, token ids and classes. Data
 * of yk_model_new and yk_model_from_pretrained are checked there, other data before the first step. True if they fit. */
YK_API bool yk_model_fits(yk_model *m, const yk_data *data);
/* The logits of a batch: [n, C]; for language models [n, T, V]; for a regression (BERT with num_labels=1) its numbers [n, 1]. */
YK_API yk_t yk_forward(yk_model *m, const yk_batch *batch);
/* The mean loss of a batch by its labels: cross entropy, or for a regression the squared error. */
YK_API yk_t yk_model_loss(yk_model *m, const yk_batch *batch, yk_t logits);
/* Label smoothing of yk_model_loss in training, 0 to below 1 (PyTorch's rule). No effect on a regression. */
YK_API void yk_model_label_smoothing(yk_model *m, float smoothing);
/* Recomputes each block of layers in backward to save memory (gradient checkpointing). GPT-2, BERT and ResNets have blocks; for another
 * model the job fails. */
YK_API void yk_model_recompute(yk_model *m, bool on);
/* A named part of the forward pass, depending on the model: "logits", "last_hidden_state", "pooler_output". */
YK_API yk_t yk_model_part(yk_model *m, const yk_batch *batch, const char *part);
/* [safe] The name, as passed to yk_model_new. */
YK_API const char *yk_model_name(const yk_model *m);
/* [safe] The number of trained numbers. */
YK_API uint64_t yk_model_num_parameters(const yk_model *m);
/* [safe] Forward and backward operations of one row at this width, in tokens (2 per multiply-add). */
YK_API double yk_model_flops(const yk_model *m, int64_t width);
/* [safe] True if weight decay is usual for the parameter of that name: for matrices, not for biases and norms. */
YK_API bool yk_model_decays(const yk_model *m, const char *param);

#include <yoke/builder.h>

/* ---- Checkpoints ---------------------------------------------------------------------------------------------------------- */

/* [all] [waits] Saves a run so that it can continue bit for bit: parameters, optimizer, schedule, scale, step, place in the data. Files are
 * written beside, synced and renamed; readers check sums. Several ranks continue with their shares and measurements. Sums follow shares:
 * bits stay equal until the uninterrupted run would have changed its shares, which it reviews every ten steps. From then on results are
 * equal up to the order of sums. A job with another number of ranks measures anew. */
YK_API void yk_save(yk_job *job, const char *dir);
/* [all] [waits] Loads a checkpoint; the same parameters, optimizer, schedule and data must exist before. Error within a window. */
YK_API void yk_load(yk_job *job, const char *dir);

/* ---- Places of errors ----------------------------------------------------------------------------------------------------- */

/* [safe] Sets the place that an error of this thread's next call names; file must stay valid. Macros (here.h), in C++ inline functions
 * (cxx.h), call it with the caller's file and line before every function above that is not [safe]. Define YK_NO_HERE before this header
 * to avoid that. */
YK_API void yk_here(const char *file, int line);

#ifdef __cplusplus
}
#include <yoke/cxx.h>
#else
#include <yoke/here.h>
#endif
#endif
