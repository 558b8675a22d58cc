/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job: the user's handles, the table of parameters, and its parts. These are the current step (step.h), the values that the host wants
 * (host_values.h), the ranks (team.h), and attached objects (owned.h). The user's view is yoke.h.
 *
 * Handles. yk_t.id = job serial (16 bits) | generation (16) | index (32). Generation 0 is a parameter or state; index is its number
 * here. Any other generation is a step's; index is the value number in that step's trace. The end of a step advances the job's
 * generation, so the step's handles die, except handles in the table of kept values.
 *
 * Thread rule: a job belongs to one thread; any thread may use the table of jobs.
 */
#ifndef YOKE_CORE_JOB_JOB_H
#define YOKE_CORE_JOB_JOB_H

#define YK_NO_HERE
#include <stdatomic.h>

#include <yoke/yoke.h>

#include "core/base/advance.h"
#include "core/base/error.h"
#include "core/base/mem.h"
#include "core/device/device.h"
#include "core/job/callsite.h"
#include "core/job/host_values.h"
#include "core/job/owned.h"
#include "core/job/step.h"
#include "core/job/team.h"
#include "core/nn/optim.h"
#include "core/nn/scaler.h"
#include "core/nn/sched.h"
#include "core/run/run.h"

#define YK__POISON ((yk_t){0})

/* A number of a configuration struct: 0 is the default, YK_ZERO is 0. */
static inline double yk__setting_or(double given, double preset)
{
    return given == YK_ZERO ? 0.0 : given != 0.0 ? given : preset;
}

/* A parameter or state. */
typedef struct yk__job_param {
    char *name;
    bool state, frozen, pending; /* pending: its first value is not on the device yet */
    yk_dtype dtype;
    uint32_t dims, number, group; /* number: its number in the engine */
    int64_t dim[YK_MAX_DIMS];
    uint64_t n;
    uint64_t sign;      /* sign of its recipe: of name, type and shape */
    uint64_t given;     /* hash of its init, or of the last values that the program or a file gave it */
    yk_init init;
    yk__vid leaf;       /* leaf in the trace of generation leaf_gen */
    uint32_t slot;
    uint16_t leaf_gen;
    uint16_t assigned;  /* generation of the last yk_assign */
    bool used;          /* a loss of the current window depends on it */
    uint64_t steps;     /* updates so far */
} yk__job_param;

/* Clipping of the current window, which each window must request, and of the previous one. */
typedef struct yk__clipping {
    double norm, value; /* 0 if not requested */
    double last_norm, last_value;
} yk__clipping;

/* Watches for programs that are made in the middle of training, for one log line. */
typedef struct yk__compile_watch {
    uint64_t runs, compiles; /* training runs; programs made */
    bool reported;
    yk_value last_input[8];  /* types and shapes of the first inputs of the last training run */
    uint32_t n_last;
} yk__compile_watch;

#define YK__ROWS_UNKNOWN (-1) /* all ranks' rows: to be summed on demand from the rows that yk_input brings */

/* Rows of the last begun micro batch: this rank's, all ranks', and the global ones without fill-up repeats. */
typedef struct yk__batch_rows {
    int64_t local, global, unique;
} yk__batch_rows;

/* LocalSGD: counts since parameters, or moments, were last equal on all ranks. */
typedef struct yk__local_sgd {
    uint64_t steps, moment_steps; /* windows */
    double rows, moment_rows;     /* rows of this rank in these windows */
} yk__local_sgd;

/* Result of the last collective on the user's memory. */
typedef struct yk__gathered {
    unsigned char *data;
    size_t *size; /* size of each rank's data, if they differ */
    size_t cap_data, cap_size;
} yk__gathered;

/* The last whole step, from which surviving ranks write a checkpoint when a rank is lost (emergency.h). */
typedef struct yk__emergency {
    const char *dir;             /* NULL without emergency checkpoints */
    uint64_t every, windows;     /* windows per kept step; windows so far */
    bool due;                    /* keep a step before the next window begins */
    bool (*keep)(yk_job *job);   /* called before any work of a step; false if the job has failed */
    void (*failed)(yk_job *job); /* called once the job has failed */
    uint64_t capacity;               /* bytes of the packed numbers; 0 before the first step */
} yk__emergency;

struct yk_job {
    uint16_t serial, gen;
    unsigned forks; /* yk__job_is_parents */
    yk_error error; /* the first failure, after the user's place */
    _Atomic(bool) cancelling, cancelled; /* set by yk_cancel on any thread; set once cancel_text is written */
    char cancel_text[64];
    yk_config config;
    yk_dtype precision; /* format of this rank's device */
    char *precision_list; /* formats by rank; NULL if config.precision holds for all */
    yk__topology *topology;
    yk__device *device;
    yk__engine *engine;
    yk__team team;

    yk__job_param *param;
    size_t n_param, cap_param;
    size_t n_ready;    /* parameters, from the first on, with their values on the device */
    bool params_fixed; /* the engine has the optimizer's layout, so no parameter may be added */
    bool training;
    yk__step step;
    yk__call_sites sites;
    yk__values values;
    yk__compile_watch watch;

    yk_opt *opt;
    yk__clipping clip;
    yk__scaler scaler;
    bool scaling;
    uint64_t backwards;  /* accepted calls of yk_backward, and the place of the first one */
    const char *backward_file;
    int backward_line;
    bool watched;        /* yk__standing_begin was called for it */
    bool has_stepped;    /* yk_step was called; a checkpoint's count does not tell that */
    uint64_t micro_step; /* micro batches of the whole run: part of the random key */
    uint64_t saves;      /* number of the newest checkpoint, written or resumed from; equal on all ranks */

    yk_data **data;
    size_t n_data, cap_data;
    struct yk__job_log *log; /* NULL unless opened */
    yk__attached attached;
    yk__batch_rows last_batch;
    yk__gathered gathered;
    yk__emergency emergency;
    yk__local_sgd local_sgd;
    bool trigger; /* yk_set_trigger was called on this rank */
    uint32_t samplers; /* samplers made so far */
    char *scratch; /* owned text that the user received */
};

yk_status yk__job_register(yk_job *job, yk_error *err); /* sets its serial */
void yk__job_unregister(yk_job *job);
/* Calls the function while the job is held open; no-op for a closed job. Any thread. */
void yk__job_while_open(yk_job *job, void (*call)(yk_job *job));
/* For calls that name no job (yk_step(NULL)): the job that this thread last opened, or called yk_backward in; NULL once it is closed. */
void yk__job_meant(const yk_job *job);
yk_job *yk__job_last(void);
yk_job *yk__job_of(yk_t x); /* NULL if there is no such job */
/* Keeps the first failure and resets err. The user's place is put before it: of the node's call if the error names a node
 * (yk__job_fail), else of the last call. */
void yk__job_fail(yk_job *job, yk_error *err);
yk_status yk__job_why(const yk_job *job, yk_error *err); /* writes the job's error, or its cancel, to err; returns its status */
void yk__job_failf(yk_job *job, yk_status status, const char *fmt, ...) YK_PRINTF(3, 4);
/* False, with an error that names the argument, if a call got NULL for it: an unset environment variable, or argv's end. */
bool yk__job_given(yk_job *job, const char *call, const char *argument, const void *value);
bool yk__job_trains(yk_job *job, const char *call); /* false, with an error that names the call, in a job for inference */
void yk__here_place(const char **file, int *line); /* place of the user's last call; *file is NULL if unknown */
const char *yk__here_text(char *buf, size_t n); /* "FILE:LINE" of the user's last call */
void yk__cancel_noticed(yk_job *job); /* fails the job after yk_cancel */
bool yk__job_is_parents(const yk_job *job); /* the job belongs to a process that this one was forked from */
bool yk__job_alive(yk_job *job); /* yk_ok, after taking over the graph's failure */
/* Begins the next call of the step: the number for its nodes, and its place. */
void yk__op_begin(yk_job *job, const char *name);
/* The parts of the current call that ranks compare (recipe.h). op_again: begins the call again as another kind. op_setting: adds a
 * setting that changes results. op_operand: adds an operand that op_enter did not get. */
void yk__op_again(yk_job *job, const char *name, uint32_t n, const yk_t *x);
void yk__op_operand(yk_job *job, yk_t x);
static inline void yk__op_setting(yk_job *job, const char *name, double value)
{
    if (job->team.world > 1)
        yk__recipe_setting_add(&job->step.recipes, name, value);
}
/* The job of the operands, if the call may proceed; required operands come first. NULL: return a poisoned handle. */
yk_job *yk__op_enter(const char *name, uint32_t n, const yk_t *x);
yk_t yk__handle(yk_job *job, yk__vid v);  /* takes over the graph's failure */
bool yk__is_none(yk_t x);

void yk__data_free(yk_data *d);

#endif
