/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Yoke for users: train one model across whatever hardware there is.
 *
 * Open a job, make model, data and optimizer on it, call yk_backward and yk_step. Values are lazy: an operation only
 * appends to the step's trace; the trace runs when yk_step is called or a value is read. A trace that was seen before
 * (same operations and shapes) costs a look-up.
 *
 * Ranks: every rank of a job runs the same program, and makes the calls that take a job, or anything made from one, in the same order.
 * yk_backward fails where ranks made their losses, or what states are assigned, by other calls, operands or settings, but for other rows
 * or padding taken out (yk_pack_tokens); the error names both lines.
 *
 * Tags of a function, in front of what it does:
 *   [all]    collective, as MPI has it: it talks to the other ranks, so each of them has to make the call or the job ends with an error
 *            that names both places. Some talk only at times (yk_end only if the step has not run yet); the tag holds always.
 *   [waits]  it may block: for the device, for files, for other ranks. Every [all] does. Others return at once.
 *   [safe]   it cannot fail, and does something harmless after an error. Whatever has no such tag may fail the job.
 *
 * Errors are sticky: the first failure is stored with the caller's file and line, later calls return a poisoned handle, NULL, 0 or
 * NaN and do nothing, yk_each loops end, and yk_close reports it. The library never ends the process.
 *
 * Lifetimes: temporaries die at the end of their step (yk_step, yk_end, or the end of a yk_each body); a value that is to be read
 * afterwards is named by yk_keep before. Losses given to yk_backward are kept by themselves until the next step's end. Parameters,
 * optimizer, schedule, data and models belong to the job and go with yk_close. Settings and weight files are the caller's, to be freed
 * and closed. Strings that come back belong to what they were asked of. Arrays, strings and configurations that are given are copied.
 *
 * Configuration structs: a member left zero means the documented default, and a NULL pointer to one that all are zero. YK_ZERO stands for 0
 * where 0 itself is meant. Threads: a job and all that hangs on it belong to one thread. Shapes are row-major, [outermost, .., innermost],
 * images NCHW; axes count from 0, negative ones (int32_t) from the end. Letters in shapes: n rows, B batch, T tokens, C channels or
 * classes, H heads or height, W width, D width of a head.
 */
#ifndef YOKE_H
#define YOKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <yoke/dtype.h>
#include <yoke/status.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#define YK_API __attribute__((visibility("default")))
/* 0 in a number of a configuration struct whose default is another: .beta1 = YK_ZERO. An unsigned member takes it cast. */
#define YK_ZERO (-2147483647 - 1)
#else
#define YK_API
#endif

/* ---- The job --------------------------------------------------------------------------------------------------- */

typedef struct yk_job yk_job;
typedef struct { uint64_t id; } yk_t; /* a value; id 0 is poisoned; copy freely, never freed */

/* What "the loss of an optimizer step" means when it is accumulated over micro batches and ranks. Ranks never average
 * averages: sums and counts are added up and divided once. */
typedef enum yk_average {
    YK_AVERAGE_MICRO,  /* mean over the micro batches of each one's mean loss (Accelerate's rule) */
    YK_AVERAGE_ITEMS,  /* sum of all items' losses / number of items in the whole accumulation (tokens, rows) */
    YK_AVERAGE_ROWS    /* each micro batch's mean loss weighted by its number of rows */
} yk_average;

typedef enum yk_scale_rule { YK_SCALE_TORCH, YK_SCALE_DEEPSPEED, YK_SCALE_MEGATRON } yk_scale_rule;

/* Dynamic loss scaling for fp16; zero members take the rule's own defaults (PyTorch: 65536, 2, 0.5, 2000; DeepSpeed:
 * 2^16, interval 1000, hysteresis 2, floor 1). Whatever the rule, the job ends with an error when the scale falls below 2^-24
 * or 100 optimizer steps in a row are skipped. */
typedef struct yk_scale_config {
    yk_scale_rule rule;
    double init, growth, backoff, floor;
    uint32_t interval, hysteresis;
    bool consecutive_hysteresis; /* DeepSpeed */
    bool stay_at_floor;          /* go on where the rule, or the line above, ends the job */
    double fixed;                /* not 0: a constant scale */
} yk_scale_config;

typedef struct yk_config {
    const char *devices;     /* device specs, "cpu:0 opencl:*"; NULL: those of yk_launch, else YOKE_DEVICES, else "cpu" with
                                ACCELERATE_USE_CPU, else "auto". Of a list each rank takes one: the list has as
                                many as its host has ranks, or the job; one is this rank's own.
                                Other devices than 'yoke launch' gave are an error */
    yk_dtype precision;      /* YK_F32 (default; ACCELERATE_MIXED_PRECISION is followed then), YK_BF16, YK_F16: compute format;
                                weights stay f32. YK_F8E4M3 (fp8): bf16, but operands
                                of linear layers' products are rounded to 8 bits, not of the first and the last layer */
    const char *precision_by_rank; /* instead: "fp32,bf16,fp16", of each rank, the last for all that follow. One in fp16 scales the loss
                                      of all, and a gradient that overflows on one skips the step of all */
    yk_dtype substitute;     /* the format a device that lacks `precision` may use, logged; YK_F32 (default): none unless... */
    bool allow_substitute;   /* ...this is set: then `substitute` is used */
    uint32_t accumulate;     /* micro batches per optimizer step; default: ACCELERATE_GRADIENT_ACCUMULATION_STEPS, else 1 */
    yk_average average;
    uint64_t seed;           /* of weights, dropout and sample order */
    yk_scale_config scale;
    uint64_t memory_limit;   /* bytes of device memory; activations are recomputed to stay below; 0: YOKE_MEMORY_LIMIT ("6G", or
                                by rank "6G,500M"), else what the device has free, if that helps */
    bool accumulate_over_epochs; /* an epoch's end does not end an accumulation (Accelerate's sync_with_dataloader=False) */
    uint32_t hash_every;     /* compare the parameters' hash between ranks every so many steps, of 2^23 numbers at a time and of
                                the next ones the next time; default 100. yk_param_hash compares all */
    uint32_t local_sgd_steps; /* not 0: LocalSGD, see yk_average_params */
    uint32_t power_sgd_rank; /* not 0, at most 64: PowerSGD, with error feedback and warm start. Of the gradient of a matrix ranks exchange
                                factors of that rank, where those are less than half of it; the first dimension is the rows */
    bool quiet;              /* no device table on standard error */
    bool plan_only;          /* steps are planned, not run: for yk_memory_get. Values read are zero, weights stay unset */
    const char *shares;      /* rows of each rank: "speed", as measured; "equal", or parts by rank, "3:1:2", of 1 to 1000000; NULL:
                                YOKE_SHARES, else speed. Fixed shares (equal, parts) measure nothing and exclude no rank, and each rank
                                updates an even part of the parameters: the same devices with the same shares give the same bits. Rows
                                that parts leave over go to the largest remainders, of equal ones to the lower rank. A share that does
                                not fit a rank's memory is an error. The same on all ranks */
} yk_config;

/* [all] [waits] Opens a job on the device(s). In a process started by `yoke launch` it joins the other ranks. Never NULL but when
 * memory is gone; whether it worked says yk_ok. It fails in a process that is one of several and would train alone: behind
 * a wrapper that closed the launcher's descriptor, under torchrun, mpirun, srun; YOKE_LAUNCHER=none overrules that. */
YK_API yk_job *yk_open(const yk_config *config);
/* [all] [waits] Reports the first error on standard error, once; frees the job and all that belongs to it. 0, or the exit code for the
 * process: 2 bad input or settings (YK_E_ARG, YK_E_FORMAT), 1 anything else. */
YK_API int yk_close(yk_job *job);
/* [safe] Whether nothing has failed so far. False for NULL. */
YK_API bool yk_ok(const yk_job *job);
/* [safe] The first failure's status; YK_OK: none. */
YK_API yk_status yk_error_status(const yk_job *job);
/* [safe] Its text, one line, the caller's FILE:LINE in front; "" when yk_ok. The job's, until yk_close. */
YK_API const char *yk_error_text(const yk_job *job);
/* Lets the program fail the job in its own words, which are copied. The first failure stays. */
YK_API void yk_fail(yk_job *job, yk_status status, const char *text);

/* [waits] [safe] If `devices` (as in yk_config) selects several ranks and this process is not one of them: starts the program argv (its
 * last member NULL) once per rank, waits for all, and returns the exit code; errors stand on standard error. Otherwise returns -1 at
 * once: go on in this process. Called before yk_open, by a program with one thread. */
YK_API int yk_launch(const char *devices, char *const *argv);
/* [waits] [safe] The same without a program of its own (a notebook, a test): forks this process `ranks` times, calls function(argument) in
 * each, and returns the exit code of the job when all have ended; errors stand on standard error. What the function returns is its
 * rank's exit code: yk_close's. ranks 0: one per device of `devices`; more than there are: each its part of the cores, or all the one
 * device that is named. In a process that is a rank already, the function is called there; other `ranks` than there are: an error. An
 * error after yk_open: jobs are opened in the function alone. */
YK_API int yk_launch_ranks(uint32_t ranks, const char *devices, int (*function)(void *argument), void *argument);

/* [safe] How often this job was started anew because a rank died or failed; yoke launch --max-restarts or YOKE_MAX_RESTARTS says how
 * often it may be (under torchrun: its TORCHELASTIC_RESTART_COUNT). 0 at first; else a program goes on from its newest checkpoint, and
 * adds to files that it began before. */
YK_API uint32_t yk_restart_count(void);

/* [safe] The number of this rank, 0 to yk_world_size - 1, and how many there are; of a job that failed to open 0 and 1. */
YK_API uint32_t yk_rank(const yk_job *job);
YK_API uint32_t yk_world_size(const yk_job *job);
/* [safe] Whether this is rank 0, which writes files and prints. */
YK_API bool yk_is_main(const yk_job *job);
/* [safe] The number of this rank among those of its host, and how many these are. */
YK_API uint32_t yk_local_rank(const yk_job *job);
YK_API uint32_t yk_local_world_size(const yk_job *job);
/* [safe] Whether this is the first rank of its host; the last one of all. */
YK_API bool yk_is_local_main(const yk_job *job);
YK_API bool yk_is_last(const yk_job *job);
/* [safe] What a rank's device calls itself, for messages; "" for a rank that there is not. The job's, until yk_close. */
YK_API const char *yk_device_name(const yk_job *job, uint32_t rank);
/* [safe] The part of the training rows a rank worked on so far, 0 to 1. */
YK_API double yk_share(const yk_job *job, uint32_t rank);
/* [safe] The most device memory this rank had at once so far, in bytes. */
YK_API uint64_t yk_peak_bytes(const yk_job *job);

/* Device memory of this rank now, in bytes, as its plugin was asked for it; peak: the most so far. With
 * yk_config.plan_only it is what the same steps would take. */
typedef struct yk_memory {
    uint64_t params, grads, state; /* state: of the optimizer (this rank's slices) and running statistics */
    uint64_t activations;          /* of the arena: what forward leaves for backward, at most */
    uint64_t scratch;              /* the rest of the arena, and what the plugin takes beside it, where it tells */
    uint64_t inputs;               /* inputs and results of a step */
    uint64_t peak;
    uint64_t shared;               /* host memory of all ranks together: gradients and parameters they exchange. Where they send messages:
                                    * of this rank, with what 8 bits leave over and with PowerSGD's matrices */
} yk_memory;
/* [safe] Fills m. */
YK_API void yk_memory_get(const yk_job *job, yk_memory *m);
/* [all] [waits] A hash of all parameters, equal on all ranks; the job fails if their parameters differ. */
YK_API uint64_t yk_param_hash(yk_job *job);
/* [all] [waits] With yk_config.local_sgd_steps = k (Accelerate's LocalSGD) each rank steps on the gradients of its own rows, with moments
 * of its own, and after every k steps the parameters become the mean of all ranks', weighted by the rows that each trained on in them. This
 * averages now, as the end of Accelerate's block does: before an evaluation, or before yk_param_read is to give all ranks the same.
 * yk_param_hash and what saves do so themselves; yk_save averages the moments as well, and who goes on goes on from there. In the middle of
 * an accumulation window it is an error. Norm and clipping are of this rank's gradients, no rank is excluded, and there is
 * no yk_grad_read. Without local_sgd_steps it does nothing. */
YK_API void yk_average_params(yk_job *job);
/* [all] [waits] Returns when all ranks have called it. */
YK_API void yk_barrier(yk_job *job);
/* [all] [waits] What stands between the two is done by rank 0 first, or with local by the first rank of each host; then by the
 * others, which wait in _begin. For downloads and caches (Accelerate's main_process_first, local_main_process_first). */
YK_API void yk_main_first_begin(yk_job *job, bool local);
YK_API void yk_main_first_end(yk_job *job, bool local);
/* [safe] Raises this rank's flag for yk_check_trigger. */
YK_API void yk_set_trigger(yk_job *job);
/* [all] [waits] Whether some rank has raised its flag since the last call, the same on all; all flags are down then. */
YK_API bool yk_check_trigger(yk_job *job);
/* The steps from here on are traced, as `yoke trace` traces those of a whole program, until yk_trace_end (Accelerate's profile): of every
 * rank what its device computes and copies, what travels, and what the step thread waits for. Nothing is waited for because of it. */
YK_API void yk_trace_begin(yk_job *job);
/* [all] [waits] Waits for the devices, and has rank 0 write what all ranks traced to one file, for chrome://tracing or ui.perfetto.dev. In
 * a program under `yoke trace` both calls do nothing. */
YK_API void yk_trace_end(yk_job *job, const char *file);
/* [waits] Returns when this rank's device has nothing left to do. */
YK_API void yk_sync(yk_job *job);
/* [safe] printf on rank 0 alone, flushed. */
YK_API void yk_print(yk_job *job, const char *fmt, ...);
/* [all] [waits] Every rank's line, "[RANK 1] ..", in the order of ranks, printed by rank 0. A line of up to 1023 bytes. */
YK_API void yk_print_in_order(yk_job *job, const char *fmt, ...);

/* ---- Collectives on host memory ---------------------------------------------------------------------------------- */

/* Of values of the step there are yk_sum, yk_mean, yk_max and yk_gather_rows, which are over the rows of all ranks by themselves. What
 * comes back as a pointer is the job's, until its next call here; NULL after an error. Any size; a rank that asks for another one is
 * named. */

/* [all] [waits] v[i], of n numbers, becomes the sum of all ranks' v[i], added in rank order; their mean, the sum divided by the
 * number of ranks; the largest. */
YK_API void yk_all_reduce_sum(yk_job *job, double *v, uint32_t n);
YK_API void yk_all_reduce_mean(yk_job *job, double *v, uint32_t n);
YK_API void yk_all_reduce_max(yk_job *job, double *v, uint32_t n);
/* [all] [waits] all[0..ranks * bytes) = every rank's data, in the order of ranks; bytes are equal on all. */
YK_API void yk_gather(yk_job *job, const void *data, size_t bytes, void *all);
/* [all] [waits] The same of data that differ in size: (*size)[r] bytes of rank r, one rank's behind the other's (gather_object). */
YK_API const void *yk_gather_object(yk_job *job, const void *data, size_t bytes, const size_t **size);
/* [all] [waits] What this rank computed of its rows of the micro batch that was begun last, row_bytes of each, put together for the rows
 * of all ranks in their order: *rows of them. Rows that only fill a batch up (even_batches) are not among them. How many this rank has:
 * what yk_data_next, yk_sampler_next or yk_set_rows said, else the first length of the step's first input. */
YK_API const void *yk_gather_for_metrics(yk_job *job, const void *data, size_t row_bytes, int64_t *rows);
/* [all] [waits] Rank root's data, to the data of all; bytes are equal on all. */
YK_API void yk_broadcast(yk_job *job, void *data, size_t bytes, uint32_t root);
/* [all] [waits] The same where only the root knows how many: *bytes is what it gives, and on all what came. */
YK_API const void *yk_broadcast_object(yk_job *job, const void *data, size_t *bytes, uint32_t root);
typedef struct yk_pad_config {
    int32_t axis;
    double value;   /* of the new elements */
    bool pad_first; /* in front, not behind */
} yk_pad_config;
/* [all] [waits] data of shape dim[0..dims), f32, f64, i32, i64, u8 or bool, made as long along an axis as the longest rank's; dim[axis]
 * becomes that. Other lengths are equal on all. c NULL: zeros behind, along the first axis. */
YK_API const void *yk_pad_across_ranks(yk_job *job, yk_dtype dtype, uint32_t dims, int64_t *dim, const void *data, const yk_pad_config *c);
/* [safe] This rank's run of n items: *first and how many; the first ranks have one more where they do not come out even. Returns how many
 * times item n - 1 has to stand behind them so that all ranks have equally many (split_between_processes, apply_padding). */
YK_API uint64_t yk_split_between_ranks(const yk_job *job, uint64_t n, uint64_t *first, uint64_t *count);

/* ---- Parameters and inputs --------------------------------------------------------------------------------------- */

typedef enum yk_init_kind { YK_INIT_ZEROS, YK_INIT_ONES, YK_INIT_NORMAL, YK_INIT_UNIFORM } yk_init_kind;
typedef struct yk_init {
    yk_init_kind kind;
    float a, b; /* normal: mean, standard deviation; uniform: from, to */
} yk_init;

/* The first read, write or step after parameters were made lays out all that there are, which all ranks do together. */

/* A parameter of shape dim[0..dims): f32, trained, saved under its name. The same name twice is an error. Lives as long as the job. */
YK_API yk_t yk_param(yk_job *job, const char *name, uint32_t dims, const int64_t *dim, yk_init init);
/* A buffer that is saved but not trained (running statistics), all `value` at first; dtype YK_F32 or YK_I32 (saved as I64). */
YK_API yk_t yk_state(yk_job *job, const char *name, yk_dtype dtype, uint32_t dims, const int64_t *dim, float value);
/* The state gets the value, of its shape, when the step runs; once a step. */
YK_API void yk_assign(yk_t state, yk_t value);
/* frozen: no gradient, no update, no decay (torch's requires_grad off). Said before the first step: an error once the optimizer's state is
 * made. During training a parameter that no loss of a window depends on rests, without update or decay. */
YK_API void yk_freeze(yk_t param, bool frozen);
/* [safe] How many parameters and states there are, numbered in order of creation. */
YK_API uint32_t yk_param_count(const yk_job *job);
/* [safe] The name of number i; NULL if there is none. The job's. */
YK_API const char *yk_param_name(const yk_job *job, uint32_t i);
/* [safe] The handle of number i; poisoned if there is none. */
YK_API yk_t yk_param_at(yk_job *job, uint32_t i);
/* [safe] The handle of the one with that name; poisoned, without an error, if there is none. */
YK_API yk_t yk_param_find(yk_job *job, const char *name);
/* [safe] Whether number i is a state. */
YK_API bool yk_param_is_state(const yk_job *job, uint32_t i);
/* [all] [waits] Overwrites a parameter or state by n numbers, all of it; every rank must write the same. */
YK_API void yk_param_write(yk_t param, const float *data, size_t n);
/* [all] [waits] Copies all n numbers of a parameter or state to data. Once parameters are laid out a rank may read alone. */
YK_API void yk_param_read(yk_t param, float *data, size_t n);
/* [all] [waits] The gradient of the last optimizer step, summed over ranks and before clipping: n numbers, the parameter's. */
YK_API void yk_grad_read(yk_t param, float *data, size_t n);

/* Host data of this step, copied: shape dim[0..dims), dtype f32, i32, u8 or bool. An input is rows where its first length is a multiple
 * of this rank's rows (yk_set_rows, else the first length of the step's first input), else the same on all ranks, which is checked. */
YK_API yk_t yk_input(yk_job *job, yk_dtype dtype, uint32_t dims, const int64_t *dim, const void *data);
/* Says that x is the same on all ranks though its first length fits this rank's rows: an input (class weights, a table), or what
 * yk_expand made of a value that is. Called before x is used; returns it. */
YK_API yk_t yk_replicated(yk_t x);
/* Which rows of the global micro batch this rank's inputs hold: their `local` global row numbers (NULL: 0..local-1), and how many rows
 * the micro batch has over all ranks. Dropout follows the global row. Loaders call it themselves. local may be 0. */
YK_API void yk_set_rows(yk_job *job, int64_t local, const int32_t *row, int64_t global);
/* [all] [waits] This rank's part of the next global micro batch of n rows, by measured speed: rows *first to *first + *count - 1.
 * Loaders call it themselves. A rank that would slow the job down is excluded for a while: it gets no rows here or from a loader, the
 * same program runs on it, some time behind the others, and sees the same losses, norms and steps. Parameters it reads by itself are
 * the newest ones; after yk_barrier they are everybody's. Rows given to it all the same are an error. */
YK_API void yk_split(yk_job *job, uint64_t n, uint64_t *first, uint64_t *count);
/* A scalar, given when the step runs: another value needs no new plan. */
YK_API yk_t yk_constant(yk_job *job, float value);

/* [safe] The job of a value; NULL of a poisoned one. */
YK_API yk_job *yk_job_of(yk_t x);
/* [safe] How many dimensions x has (torch's x.dim()); 0 if poisoned. */
YK_API uint32_t yk_dims(yk_t x);
/* [safe] The length of x along an axis (torch's x.size(axis)); -1 if poisoned. */
YK_API int64_t yk_dim(yk_t x, int32_t axis);
/* [safe] Training (the default) or evaluation, for dropout, batch norm and label smoothing: torch's model.train() and eval(). */
YK_API void yk_train(yk_job *job, bool on);
/* [safe] Which of the two it is. */
YK_API bool yk_training(const yk_job *job);

/* ---- Reading values ------------------------------------------------------------------------------------------------ */

/* Makes x readable until the end of the next step; returns it. */
YK_API yk_t yk_keep(yk_t x);
/* [all] [waits] The value of x, one number. A loss that went through yk_backward gives the global mean over all ranks, so that every
 * rank must read it. Rows, and sums and means over rows, give this rank's own (a mean, after yk_backward: its part of that over all);
 * what is not linear in those gives, in training, what it is of all ranks' rows, so that every rank must read it. NaN after an error. */
YK_API double yk_item(yk_t x);
/* [all] [waits] The same of a value of any shape: bytes must be the size of all its elements, f32, i32 or bool (1 byte) as the value has
 * them. Nothing is written after an error. */
YK_API void yk_read(yk_t x, void *data, size_t bytes);
/* Notes x, one number, under a name for the tracker's next line (Accelerate's log); it is written when it is known, nobody waits.
 * By all ranks. Of a sum or mean over rows, and of what is linear in one, the line has that of all ranks' rows, as of the loss: in
 * evaluation too, where each rank's mean counts by its labels, else by its rows. Of all else it has rank 0's: in evaluation also of
 * what is not linear in such a value, as the root of a mean; in that case add up by yk_all_reduce_sum. */
YK_API void yk_track(yk_job *job, const char *name, yk_t x);
/* Opens the tracker: a file of JSON lines, {"step": 3, "loss": 0.51}, which rank 0 appends to. One for a job. */
YK_API void yk_track_open(yk_job *job, const char *path);
/* [all] [waits] Ends a step that has no yk_step (evaluation); nothing where no step is open. */
YK_API void yk_end(yk_job *job);

/* ---- Operations: all return a value of the same job ---------------------------------------------------------------- */

/* Over several ranks a loss is what it is of all ranks' rows in one process, whatever it is made of. Sums over rows add up,
 * means divide by the rows of all ranks, yk_max takes the largest of all, and what is not linear in such a value takes that
 * of all ranks: yk_sqrt(yk_mean(..)), x minus its mean, a softmax over rows. So a mean is yk_mean, or a sum divided by the
 * global rows, not by this rank's. What rows of different ranks would have to meet for (x times its transpose, some of the rows,
 * rows put together by yk_reshape) has no such form: yk_backward of a loss that depends on it is an error that names the line;
 * yk_gather_rows gives each rank the rows of all. In evaluation (yk_train) nothing is exchanged: all values are of this rank's rows. */

/* Elementwise; operands broadcast as in NumPy. Operands of two types become f32 where one is a float, else i32, as u8 and bool do for
 * arithmetic; what is only known of floats (yk_exp ..) takes other types as f32. */
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
YK_API yk_t yk_cast(yk_t x, yk_dtype dtype);                   /* of float, i32, u8 and bool to any of these */
YK_API yk_t yk_relu(yk_t x);
YK_API yk_t yk_gelu(yk_t x);                                   /* exact, with erf */
YK_API yk_t yk_gelu_tanh(yk_t x);                              /* by tanh: GPT-2's gelu_new */
YK_API yk_t yk_silu(yk_t x);                                   /* x * sigmoid(x) */
YK_API yk_t yk_tanh(yk_t x);
YK_API yk_t yk_sigmoid(yk_t x);
YK_API yk_t yk_erf(yk_t x);
/* Shape: views where they can be; x of any type. */
YK_API yk_t yk_reshape(yk_t x, uint32_t dims, const int64_t *dim);   /* one length may be -1 */
YK_API yk_t yk_flatten(yk_t x, int32_t from);                        /* [.., a, b] -> [.., a*b] from that axis on */
YK_API yk_t yk_permute(yk_t x, const uint32_t *axis);                /* axis i of the result is axis[i] of x */
YK_API yk_t yk_slice(yk_t x, int32_t axis, int64_t begin, int64_t end, int64_t step); /* end -1: to the end */
YK_API yk_t yk_concat(const yk_t *x, uint32_t n, int32_t axis);      /* n values, equal but for that axis */
YK_API yk_t yk_pad(yk_t x, int32_t axis, int64_t before, int64_t after, float value); /* so many entries more */
YK_API yk_t yk_expand(yk_t x, uint32_t dims, const int64_t *dim);    /* broadcast to that shape */
/* Reductions: axes as a bit mask, 1u << 0 | 1u << 2; the reduced axes vanish, with keep they stay as 1. */
YK_API yk_t yk_sum(yk_t x, uint32_t axes, bool keep);
YK_API yk_t yk_mean(yk_t x, uint32_t axes, bool keep);
YK_API yk_t yk_max(yk_t x, uint32_t axes, bool keep);
YK_API yk_t yk_argmax(yk_t x, int32_t axis);                         /* i32; the first of equal ones; over rows their global numbers */
/* The rows [global rows, ..] of all ranks, on each, f32, in the order of their global numbers, for losses over pairs of rows: x
 * times the transpose of it. The gradient of a row is that of all ranks' uses of it. On one rank x as it is; in evaluation
 * this rank's rows. */
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
YK_API yk_t yk_conv2d(yk_t x, yk_t weight, yk_t bias, const yk_conv2d_config *c);
/* x [n, C, H, W]: [n, C, H', W']. */
YK_API yk_t yk_max_pool2d(yk_t x, const yk_pool2d_config *c);
YK_API yk_t yk_avg_pool2d(yk_t x, const yk_pool2d_config *c);
YK_API yk_t yk_adaptive_avg_pool2d(yk_t x, int64_t height, int64_t width); /* [n, C, height, width] */
/* Over the last axis of x [.., C]; gamma, beta [C] or YK_NO. */
YK_API yk_t yk_layer_norm(yk_t x, yk_t gamma, yk_t beta, float eps);
typedef struct yk_batch_norm_state {
    yk_t mean, var; /* states of f32 [C] */
    yk_t count;     /* a state of i32 [], batches seen; may be YK_NO */
} yk_batch_norm_state;
/* x [n, C, ..], gamma and beta [C] or YK_NO. Training: statistics of the whole global micro batch (all ranks), running values updated
 * by `momentum` (0 = 0.1; below 0: the mean of all batches, by `count`), the variance unbiased; an error for one value of a channel on
 * all ranks together. Evaluation: running values. */
YK_API yk_t yk_batch_norm(yk_t x, yk_t gamma, yk_t beta, yk_batch_norm_state running, float momentum, float eps);
/* ids i32 of any shape, table [V, D]: ids' shape with D behind. The row padding_index gets no gradient; -1: none is such. An id of -1
 * gives zeros; any other that the table does not have fails the job where ids are an input as it came. */
YK_API yk_t yk_embedding(yk_t ids, yk_t table, int32_t padding_index);
/* Elements become 0 with probability p, the others x / (1 - p); x itself in evaluation. */
YK_API yk_t yk_dropout(yk_t x, float p);

/* Rows without padding. keep: [B, T], an input or what follows from inputs; a token counts where it is not 0. yk_pack_tokens takes
 * the tokens that count out of x [B, T, ..], one behind the other, [yk_packed_count, ..]; their number is rounded up to a multiple of
 * B T / 32 with rows of zeros, which get no gradient. yk_unpack_tokens puts them back into [B, T, ..], zeros elsewhere.
 * yk_dropout_packed drops of a packed x what yk_dropout drops of the [B, T, ..] it came from. */
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
/* softmax(scale q kᵀ + bias) v: q [B, H, Tq, D], k and v [B, Hk, Tk, D], where Hk divides H: [B, H, Tq, D]. */
YK_API yk_t yk_attention(yk_t q, yk_t k, yk_t v, const yk_attention_config *c);
/* YK_NO: an optional operand that is not there. */
#ifdef __cplusplus
#define YK_NO (yk_t{})
#define YK_EMPTY {}
#else
#define YK_NO ((yk_t){0})
#define YK_EMPTY {0}
#endif

/* Losses: by default scalars, the mean over what counts (see yk_average for accumulation). */
typedef enum yk_reduction { YK_MEAN, YK_SUM, YK_EACH } yk_reduction; /* YK_EACH: one loss per label or element */
typedef struct yk_cross_entropy_config {
    float smoothing;
    int32_t ignore_index; /* default -100 */
    yk_t weight;          /* [C] class weights */
    yk_reduction reduction;
} yk_cross_entropy_config;
/* logits [.., C], labels i32 [..]: class numbers, -100 is ignored. */
YK_API yk_t yk_cross_entropy(yk_t logits, yk_t labels);
YK_API yk_t yk_cross_entropy_with(yk_t logits, yk_t labels, const yk_cross_entropy_config *c);
typedef struct yk_loss_config {
    yk_reduction reduction;
    yk_t weight, pos_weight; /* bce: of elements, of positive targets; broadcast; default none */
} yk_loss_config;
/* Binary cross entropy of logits and targets of one shape, targets from 0 to 1. */
YK_API yk_t yk_bce_with_logits(yk_t logits, yk_t target, const yk_loss_config *c);
/* (x - target)², of one shape. */
YK_API yk_t yk_mse_loss(yk_t x, yk_t target, const yk_loss_config *c);

/* Activation checkpointing (torch.utils.checkpoint): what is traced between the two is computed again in backward instead of being
 * kept. Not one within another. */
YK_API void yk_recompute_begin(yk_job *job);
YK_API void yk_recompute_end(yk_job *job);

/* Of a job in bf16 or fp16: what is traced between the two is computed in f32, its gradients too, from operands that are widened (torch's
 * autocast with enabled=False; the .float() there is not needed). Not one within another. In f32 it changes nothing. */
YK_API void yk_full_precision_begin(yk_job *job);
YK_API void yk_full_precision_end(yk_job *job);

/* ---- Training -------------------------------------------------------------------------------------------------------- */

/* [all] [waits] Traces the gradients of loss, one f32 number, by all parameters that are not frozen. Once per micro batch: a sum of
 * losses may be scaled and added before. Waits for other ranks alone, and only where counts or settings are compared. */
YK_API void yk_backward(yk_t loss);
/* For the optimizer step to come: g *= min(1, max / (norm + 1e-6)), norm as yk_grad_norm. Ranks that clip otherwise are told apart in
 * yk_backward, so in the same step where it was asked for before. */
YK_API void yk_clip_norm(yk_job *job, float max);
/* The same: each element into [-max, max]. */
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
/* One optimizer per job; all parameters that exist when it is made are its, in one group. adamw: weight_decay as given
 * (0 is 0). A parameter that no loss of an optimizer step depends on rests in it: value, moments and its own step count
 * stand still, and no decay applies (PyTorch's rule). */
YK_API yk_opt *yk_sgd(yk_job *job, const yk_sgd_config *c);
YK_API yk_opt *yk_adam(yk_job *job, const yk_adam_config *c);  /* decay added to the gradient */
YK_API yk_opt *yk_adamw(yk_job *job, const yk_adam_config *c); /* decoupled decay */
/* A further parameter group with its own decay and a factor on the learning rate; its number (the first group is 0). 64 at most. */
YK_API uint32_t yk_opt_group(yk_opt *opt, double lr_factor, double weight_decay);
/* Moves a parameter into a group, before the first step. */
YK_API void yk_opt_move(yk_opt *opt, uint32_t group, yk_t param);
/* [safe] The learning rate in force. */
YK_API double yk_lr(const yk_opt *opt);
/* From the next optimizer step on; finite, 0 or more. A schedule sets it itself. */
YK_API void yk_set_lr(yk_opt *opt, double lr);
/* [all] [waits] Ends the micro batch; on the last one of the accumulation (every `accumulate`-th, or the last of the data) reduces over
 * ranks, clips and updates: an optimizer step. The device may still be at work when it returns. */
YK_API void yk_step(yk_opt *opt);
/* [safe] Whether the last yk_step really updated: it ended an accumulation, and no gradient overflowed. */
YK_API bool yk_stepped(const yk_opt *opt);
/* [safe] L2 norm over all gradients of the last optimizer step, before clipping; infinite where it was skipped because one overflowed. */
YK_API double yk_grad_norm(const yk_opt *opt);
/* [all] [waits] Loss of the last optimizer step as optimised, over all micro batches and ranks: the first call after it adds the ranks'
 * parts up. */
YK_API double yk_step_loss(yk_opt *opt);
/* [all] [waits] Seconds since the last such call, or since the optimizer was made, until the ranks that take part have all come here: the
 * longest of theirs. Rows of all ranks (yk_batch.global_rows) by it are the job's speed, also on a rank that is excluded. */
YK_API double yk_step_seconds(yk_opt *opt);
/* [safe] Optimizer steps so far. */
YK_API uint64_t yk_steps(const yk_opt *opt);
/* [safe] fp16: the scale of the loss now; 1 otherwise. */
YK_API double yk_loss_scale(const yk_opt *opt);
/* [safe] The micro batch under way is the last of its accumulation, whatever yk_config.accumulate says; it is not (Accelerate's
 * no_sync). */
YK_API void yk_accumulate_end(yk_job *job);
YK_API void yk_accumulate_on(yk_job *job);
/* [safe] Whether it is: the yk_step to come makes an optimizer step (Accelerate's sync_gradients). */
YK_API bool yk_sync_gradients(const yk_job *job);

typedef struct yk_sched yk_sched;
/* Names, settings and formulas of transformers' get_scheduler (linear, cosine, reduce_lr_on_plateau ..), torch.optim's lr_scheduler
 * (StepLR, OneCycleLR ..) and DeepSpeed's schedules (WarmupLR ..). The error of any other name lists all that there are. */
typedef struct yk_sched_config {
    const char *name;   /* NULL: constant */
    double warmup_steps, total_steps; /* a warm-up of a schedule that has none (constant, PyTorch's) is an error */
    const char *params; /* further settings, "key=value,key=value", by the names of their source */
} yk_sched_config;
/* One per optimizer, whose rate at the time is the schedule's base. */
YK_API yk_sched *yk_schedule(yk_opt *opt, const yk_sched_config *c);
/* [safe] The next step's rate; moves on only when the optimizer really stepped. */
YK_API void yk_sched_step(yk_sched *s);
/* [safe] Goes on at that step: after yk_load, where a step's batches are larger or smaller than they were when the checkpoint was made. */
YK_API void yk_sched_seek(yk_sched *s, uint64_t step);
/* [safe] reduce_lr_on_plateau goes by evaluations, not by steps: after each, every rank gives the same metric (the loss, or with
 * mode=max an accuracy). Other schedules take no notice of it; yk_sched_by_metric tells them apart. */
YK_API void yk_sched_metric(yk_sched *s, double metric);
YK_API bool yk_sched_by_metric(const yk_sched *s);

/* ---- Data ------------------------------------------------------------------------------------------------------------- */

typedef struct yk_data yk_data;
typedef struct yk_data_config {
    uint32_t global_batch;   /* rows of a micro batch over all ranks; default 32 */
    uint32_t rank_batch;     /* instead of it: rows of a rank (a DataLoader's batch_size), so that the ranks have so many times more */
    bool equal_shares;       /* yk_config.shares "equal" for these data; a batch that the ranks do not divide is an error, and so are shares
                                that say otherwise. Of a short batch each rank gets what there is of its rows (Accelerate's rule) */
    bool even_batches;       /* on several ranks the last, shorter batch is filled up with the epoch's first rows (Accelerate's default) */
    bool eval;               /* the evaluation part, in order, every row once, last batch short */
    bool keep_last;          /* training: keep the last, shorter batch (default: dropped) */
    bool in_order;           /* training: not shuffled */
    const char *tokenizer;   /* folder, "char" or "bytes" */
    uint32_t max_length;     /* tokens; default 128 for rows of text */
    uint32_t seq_len;        /* tokens of a window of running text; default 128 */
    const char *eval_rows;   /* file of line numbers that evaluate instead of train */
    const char *model;       /* folder of a model whose config.json (id2label) numbers the names of labels */
    bool new_head;           /* training: it does so only where the data have all of these names, and no others */
    bool unlabelled;         /* for predictions: there may be no rows; of rows of text labels are not looked at, and batches have none */
    bool whole;              /* running text: all of the file, not its part before or after the split */
    uint64_t max_rows;       /* only the first so many rows of the part; default all */
    bool by_length;          /* training on rows of text: a batch's rows are of like length, so that it has little padding */
    uint64_t seed;           /* of the order of rows, and of which tokens are masked; default the job's */
    bool numbers;            /* csv, jsonl: labels are numbers, of a regression */
    double mlm_probability;  /* rows of text and running text: a token is masked with that probability, for a masked language model */
    double eval_split;       /* 0 to below 1: this part of the rows, rounded up, evaluates instead of training; of running text its end */
    uint64_t eval_seed;      /* rows of text: which ones they are; the same on all ranks */
} yk_data_config;

typedef struct yk_batch {
    yk_t x;                  /* images f32 [n, C, H, W]; for text the same as input_ids */
    yk_t input_ids, attention_mask, token_type_ids; /* i32 [n, T] */
    yk_t labels;             /* i32 [n], or [n, T] for language models; f32 [n] where they are numbers */
    int64_t rows, global_rows, width; /* this rank's rows, all ranks' rows, T */
    int64_t unique_rows;     /* all ranks' but those that fill it up (even_batches), which are the last */
    int64_t first;           /* of this rank's rows among all ranks' */
    uint64_t epoch, index;   /* number of the batch in its epoch */
    bool last;               /* of the epoch */
} yk_batch;

/* [all] [waits] spec: "idx:DIR", "cifar10:DIR", "csv:FILE,text=..,label=..", "jsonl:FILE,..", "lines:FILE" (unlabelled), "text:FILE",
 * "tokens:FILE". The job fails if the ranks' data differ. */
YK_API yk_data *yk_data_open(yk_job *job, const char *spec, const yk_data_config *c);
/* [safe] "idx", "csv", .. */
YK_API const char *yk_data_kind(const yk_data *d);
/* [safe] Rows and batches of an epoch. */
YK_API uint64_t yk_data_rows(const yk_data *d);
YK_API uint64_t yk_data_batches(const yk_data *d);
/* [safe] Where row i (from 0) stands in its file: the line that eval_rows calls it by, for csv and jsonl; else i + 1. */
YK_API uint64_t yk_data_line(const yk_data *d, uint64_t i);
/* What a batch's labels are: the class of a row, its number (of a regression), of each token the next one, or what it was before it
 * was masked (-100: it was not). */
typedef enum yk_labels { YK_LABELS_NONE, YK_LABELS_CLASSES, YK_LABELS_NUMBERS, YK_LABELS_NEXT, YK_LABELS_MASKED } yk_labels;
/* [safe] What the labels are. */
YK_API yk_labels yk_data_labels(const yk_data *d);
/* [safe] How many classes there are; 0 where labels are none. */
YK_API uint32_t yk_data_classes(const yk_data *d);
/* [safe] The name of label i; NULL where labels are numbers. */
YK_API const char *yk_data_class_name(const yk_data *d, uint32_t i);
/* [safe] Token ids are below this; 0 for images. */
YK_API uint32_t yk_data_vocab(const yk_data *d);
/* [safe] Channels, height and width of images; of other data 0, 0, 0. */
YK_API void yk_data_shape(const yk_data *d, int64_t chw[3]);
/* [safe] The folder of its tokenizer's files, or NULL. */
YK_API const char *yk_data_tokenizer(const yk_data *d);
/* [waits] Writes what turned the data's text into ids into DIR, which has none of these files: its tokenizer's files, and a
 * tokenizer_config.json that says casing, accents and class as they were used. Characters and bytes get a tokenizer.json. */
YK_API void yk_data_save_tokenizer(const yk_data *d, const char *dir);
/* [all] [waits] The next batch of this rank; ends the step of the one before. False at the end of the epoch or after an error. Called by
 * hand it goes on where the data are, whoever stopped there: to begin anew is yk_data_seek. */
YK_API bool yk_data_next(yk_data *d, yk_batch *batch);
/* [all] [waits] The same for yk_each, whose first call has an empty batch: where the loop before was left by break, a new epoch begins. */
YK_API bool yk_data_each(yk_data *d, yk_batch *batch);
/* Goes on at that batch of that epoch, on all ranks, at once (Accelerate's skip_first_batches). */
YK_API void yk_data_seek(yk_data *d, uint64_t epoch, uint64_t batch);
/* [safe] What comes next; after an epoch's last batch that is batch yk_data_batches() of the same epoch until yk_data_next is asked. */
YK_API void yk_data_tell(const yk_data *d, uint64_t *epoch, uint64_t *batch);

/* Row numbers for a program that has its data itself: which rows of a data set, or of a stream, the batches of this rank are made of. */
typedef struct yk_sampler yk_sampler;
typedef struct yk_sampler_config {
    uint64_t rows;       /* of the data set; 0: a stream, whose end yk_sampler_end will say */
    uint32_t batch;      /* rows of a rank; with split_batches of all ranks together */
    bool split_batches;
    bool uneven_batches; /* an epoch's last batch has fewer rows, on some ranks none; default: filled up with the epoch's first rows */
    bool drop_last;      /* or it is dropped */
    bool dispatch;       /* or filled up to a multiple of the ranks alone, and shared out evenly (Accelerate's dispatch_batches) */
    bool by_speed;       /* ranks get rows by yk_config.shares, as from yk_data_next; default: equally many, and shares that say otherwise
                            are an error */
    bool shuffle;        /* no stream */
    uint64_t seed;       /* of the order; default the job's */
} yk_sampler_config;
typedef struct yk_sample {
    const int64_t *row;  /* numbers of this rank's rows; valid until the next call */
    int64_t rows;        /* how many; 0 is legal: the same calls are made without rows */
    int64_t first, global_rows, unique_rows; /* as in yk_batch */
    uint64_t epoch, index;
    bool last;           /* of the epoch */
} yk_sample;
/* One epoch's laws are Accelerate's (docs/from-accelerate.md). The job's; yk_save keeps its place, in rows, so that a job of another
 * number of ranks or batch goes on with exactly the rows that were not used. */
YK_API yk_sampler *yk_sampler_new(yk_job *job, const yk_sampler_config *c);
/* [safe] Batches of an epoch; 0 of a stream that has not ended. */
YK_API uint64_t yk_sampler_batches(const yk_sampler *s);
/* [all] [waits] The next batch; begins its step, as yk_data_next does. False at the end of the epoch or after an error. A loop that was
 * left by break goes on where it stopped: yk_sampler_seek(s, epoch + 1, 0) begins anew. */
YK_API bool yk_sampler_next(yk_sampler *s, yk_sample *sample);
/* A stream has ended, after so many rows; said on all ranks before the batch that they do not fill is asked for: read one ahead. */
YK_API void yk_sampler_end(yk_sampler *s, uint64_t rows);
/* Goes on at that batch of that epoch, on all ranks, at once. */
YK_API void yk_sampler_seek(yk_sampler *s, uint64_t epoch, uint64_t batch);
/* [safe] What comes next, as yk_data_tell. */
YK_API void yk_sampler_tell(const yk_sampler *s, uint64_t *epoch, uint64_t *batch);

/* [all] [waits] The largest of start, 0.9 start, 0.81 start .. (rounded down, Accelerate's find_executable_batch_size) for which all ranks
 * have the memory: step(job, batch, user) makes a model and a training step or two in a job that only plans (plan_only). That job takes
 * memory as config says, and is closed. 0: not even 1 fits, or step failed, which was reported. Called when no job is open. */
YK_API uint32_t yk_find_batch_size(const yk_config *config, uint32_t start, void (*step)(yk_job *job, uint32_t batch, void *user),
                                   void *user);

/* for each batch of an epoch of data: opens the step; ends it if the body did not call yk_step. After a break the next such loop is a new
 * epoch, from its first batch, as a new `for` over a DataLoader; after yk_data_seek or yk_load it goes on at that place. */
#define yk_each(batch, job, data)                                                                                      \
    for (yk_batch batch = YK_EMPTY; yk_ok(job) && yk_data_each(data, &batch); yk_end(job))

/* ---- Models (models/): built over this header alone ------------------------------------------------------------------- */

typedef struct yk_model yk_model;
/* name: "mlp", "resnet20", "resnet32", "resnet18", "resnet50", "gpt2", "bert" (sequence classification), "bert-mlm".
 * config: "key=value,key=value" by Hugging Face's keys, or NULL. data (may be NULL) fills in classes, vocabulary and
 * image shape. prefix=P in config, here and below, puts P before each parameter's name in the job, and not in files: for two models of a
 * kind (prefix=teacher.). new_head=yes, where weights are read: a classifier that is of other classes than the data, or of classes with
 * other names, is not read, and starts new; without, another number is an error. */
YK_API yk_model *yk_model_new(yk_job *job, const char *name, const char *config, const yk_data *data);
/* [all] [waits] From a Hugging Face folder (config.json, model.safetensors or its shards): architecture and weights. A head the file
 * lacks (a classifier on an encoder) is new, and said so; so are tensors that the model has no place for. What Yoke does not compute (an
 * untied head, a decoder's BERT, another head) is refused. */
YK_API yk_model *yk_model_from_pretrained(yk_job *job, const char *dir, const char *config, const yk_data *data);
/* [all] [waits] Weights of a file or folder into a model; names may carry "module.", lack "bert." or "transformer.", and end in
 * LayerNorm.gamma and LayerNorm.beta. */
YK_API void yk_model_load(yk_model *m, const char *path);
/* [all] [waits] Weights, config.json and the tokenizer's files, replaced together (yk_stage_begin). A checkpoint of a job with one model
 * has the same files: yk_model_from_pretrained opens it. */
YK_API void yk_model_save(yk_model *m, const char *dir);
/* Fails the job, in a line that names both, unless the model can work on the data: their kinds go together, and shape, token
 * ids and classes fit. yk_model_new and yk_model_from_pretrained look at theirs; other data (evaluation) are looked at before the first
 * step. Whether they fit. */
YK_API bool yk_model_fits(yk_model *m, const yk_data *data);
/* The logits of a batch: [n, C]; of language models [n, T, V]; of a regression (BERT with num_labels=1) its numbers [n, 1]. */
YK_API yk_t yk_forward(yk_model *m, const yk_batch *batch);
/* The mean loss of a batch, by its labels: cross entropy, or of a regression the squared error. */
YK_API yk_t yk_model_loss(yk_model *m, const yk_batch *batch, yk_t logits);
/* Label smoothing of yk_model_loss in training, 0 to below 1 (PyTorch's rule); a regression has none. */
YK_API void yk_model_label_smoothing(yk_model *m, float smoothing);
/* Whether each block of layers is computed again in backward, for less memory: gradient checkpointing. GPT-2, BERT and ResNets have
 * blocks; for another model the job fails. */
YK_API void yk_model_recompute(yk_model *m, bool on);
/* A named part of the forward pass: "logits", "last_hidden_state", "pooler_output"; which there are depends on the model. */
YK_API yk_t yk_model_part(yk_model *m, const yk_batch *batch, const char *part);
/* [safe] As yk_model_new takes it. */
YK_API const char *yk_model_name(const yk_model *m);
/* [safe] How many numbers are trained. */
YK_API uint64_t yk_model_num_parameters(const yk_model *m);
/* [safe] Forward and backward operations of one row at this width, in tokens (2 per multiply-add). */
YK_API double yk_model_flops(const yk_model *m, int64_t width);
/* [safe] Whether weight decay is usual for the parameter of that name: for matrices it is, not for biases and norms. */
YK_API bool yk_model_decays(const yk_model *m, const char *param);

#include <yoke/builder.h>

/* ---- Checkpoints ---------------------------------------------------------------------------------------------------------- */

/* [all] [waits] Everything a run needs to go on bit for bit: parameters, optimizer, schedule, scale, step, place in the data. Written
 * beside, synced, renamed; a reader checks sums. Several ranks go on with the shares they had and what was measured; sums
 * follow shares, so that the bits are the same until the uninterrupted run changed its shares (it looks at them every ten
 * steps), and from then on equal up to the order of sums. A job of another number of ranks measures anew. */
YK_API void yk_save(yk_job *job, const char *dir);
/* [all] [waits] Takes it up: the same parameters, optimizer, schedule and data have to be made before. */
YK_API void yk_load(yk_job *job, const char *dir);

/* ---- Where errors happened ------------------------------------------------------------------------------------------------ */

/* [safe] The place that an error of this thread's next call names; file is a string that stays. here.h has it called, with the
 * caller's file and line, before every function above that is not [safe]. Define YK_NO_HERE before this header to leave that out. */
YK_API void yk_here(const char *file, int line);
#include <yoke/here.h>

#ifdef __cplusplus
}
#endif
#endif
