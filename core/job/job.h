/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job: the user's handles, the table of parameters, and what its parts are: the step under way (step.h), the values that the
 * host wants (values.h), the ranks (team.h), what hangs on it (owned.h). The user's view is yoke.h.
 *
 * Handles. yk_t.id = job serial (16 bits) | generation (16) | index (32). Generation 0: a parameter or state, index its
 * number here. Else the generation of a step, index the value number in that step's trace. A step's end moves the job to
 * the next generation, so that every handle of the step is dead but for those in the table of kept values.
 *
 * Thread rule: a job belongs to one thread; the table of jobs may be used from any.
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
#include "core/job/owned.h"
#include "core/job/step.h"
#include "core/job/team.h"
#include "core/job/values.h"
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
    uint32_t dims, number, group; /* number: the engine's */
    int64_t dim[YK_MAX_DIMS];
    uint64_t n;
    uint64_t sign;      /* of name, type and shape: that of its recipe */
    uint64_t given;     /* hash of its init or, once the program or a file gave it values, of the last ones */
    yk_init init;
    yk__vid leaf;       /* in the trace of generation leaf_gen */
    uint32_t slot;
    uint16_t leaf_gen;
    uint16_t assigned;  /* generation of the last yk_assign */
    bool used;          /* a loss of the window under way depends on it */
    uint64_t steps;     /* updates it had */
} yk__job_param;

/* Of the window under way, asked for anew in each, and of the one before. */
typedef struct yk__clipping {
    double norm, value; /* 0: none */
    double last_norm, last_value;
} yk__clipping;

/* Whether programs are made again in the middle of training, which is said once. */
typedef struct yk__compile_watch {
    uint64_t runs, compiles; /* of training; programs made */
    bool reported;
    yk_value last_input[8];  /* types and shapes of the first inputs of the last training run */
    uint32_t n_last;
} yk__compile_watch;

#define YK__ROWS_UNKNOWN (-1) /* of all ranks: those that yk_input brings are added up where they are asked for */

/* Rows of the micro batch that was begun last: this rank's, all ranks', and those of them that do not only fill it up. */
typedef struct yk__batch_rows {
    int64_t local, global, unique;
} yk__batch_rows;

/* LocalSGD: since parameters, and moments, were the same on all ranks. */
typedef struct yk__local_sgd {
    uint64_t steps, moment_steps; /* windows */
    double rows, moment_rows;     /* that this rank trained on in them */
} yk__local_sgd;

/* What the last collective on the user's memory gave back. */
typedef struct yk__gathered {
    unsigned char *data;
    size_t *size; /* of each rank's, where they differ */
    size_t cap_data, cap_size;
} yk__gathered;

/* The last whole step, for a checkpoint by those that are left when a rank is lost (emergency.h). */
typedef struct yk__emergency {
    const char *dir;             /* NULL: none is asked for */
    uint64_t every, windows;     /* a step of so many is kept; windows so far */
    bool due;                    /* before the next window begins */
    bool (*keep)(yk_job *job);   /* before anything of a step runs; false: the job has failed */
    void (*failed)(yk_job *job); /* once the job has failed */
    uint64_t capacity;               /* bytes of the numbers; 0: not known yet */
} yk__emergency;

struct yk_job {
    uint16_t serial, gen;
    yk_error error; /* the first failure, with the user's place in front */
    _Atomic(bool) cancelling, cancelled; /* yk_cancel was called, by any thread; and cancel_text is written */
    char cancel_text[64];
    yk_config config;
    yk_dtype precision; /* that this rank's device computes in */
    char *precision_list; /* by rank; NULL: config.precision for all */
    yk__topology *topology;
    yk__device *device;
    yk__engine *engine;
    yk__team team;

    yk__job_param *param;
    size_t n_param, cap_param;
    size_t n_ready;    /* so many, from the first, have their values on the device */
    bool params_fixed; /* the engine has the layout of the optimizer: no parameter may come any more */
    bool training;
    yk__step step;
    yk__call_sites sites;
    yk__values values;
    yk__compile_watch watch;

    yk_opt *opt;
    yk__clipping clip;
    yk__scaler scaler;
    bool scaling;
    uint64_t backwards;  /* calls of yk_backward that were taken, and where the first one is */
    const char *backward_file;
    int backward_line;
    bool has_stepped;    /* yk_step was called; a checkpoint's count is no sign of that */
    uint64_t micro_step; /* micro batches of the whole run: part of the random key */
    uint64_t saves;      /* number of the newest checkpoint: the last one written, or gone on from; the same on all ranks */

    yk_data **data;
    size_t n_data, cap_data;
    struct yk__job_log *log; /* NULL: none was opened */
    yk__attached attached;
    yk__batch_rows last_batch;
    yk__gathered gathered;
    yk__emergency emergency;
    yk__local_sgd local_sgd;
    bool trigger; /* yk_set_trigger was called here */
    uint32_t samplers; /* made so far */
    char *scratch; /* text handed to the user */
};

yk_status yk__job_register(yk_job *job, yk_error *err); /* gives it a serial */
void yk__job_unregister(yk_job *job);
/* Any thread: makes the call, during which the job stays open; nothing for a job that is closed. */
void yk__job_while_open(yk_job *job, void (*call)(yk_job *job));
/* A call that names no job (yk_step(NULL)) means the one that its thread has opened, or called yk_backward in, last; NULL: it is closed. */
void yk__job_meant(const yk_job *job);
yk_job *yk__job_last(void);
yk_job *yk__job_of(yk_t x); /* NULL: no such job */
/* Keeps the first failure, with the place of the user's call in front (yk__job_fail: of the call whose node the text names, if it
 * names one); err is reset. */
void yk__job_fail(yk_job *job, yk_error *err);
void yk__job_failf(yk_job *job, yk_status status, const char *fmt, ...) YK_PRINTF(3, 4);
/* False, and an error that names the argument, where a call got nothing for it: an unset variable of the environment, argv's end. */
bool yk__job_given(yk_job *job, const char *call, const char *argument, const void *value);
bool yk__job_trains(yk_job *job, const char *call); /* else an error that names the call: the job is for inference */
void yk__here_place(const char **file, int *line); /* of the user's last call; file: NULL where it is not known */
const char *yk__here_text(char *buf, size_t n); /* "FILE:LINE" of the user's last call */
void yk__cancel_noticed(yk_job *job); /* after yk_cancel the job has failed */
bool yk__job_alive(yk_job *job); /* yk_ok, after taking over a failure of the graph */
/* The next call of the step: its number for the nodes it makes, and its place. */
void yk__op_begin(yk_job *job, const char *name);
/* What the ranks compare of the call under way (recipe.h): op_again: a call that is a kind of another is taken for that; op_setting: every
 * setting that changes results; op_operand: one that was not named when the call was entered. */
void yk__op_again(yk_job *job, const char *name, uint32_t n, const yk_t *x);
void yk__op_operand(yk_job *job, yk_t x);
static inline void yk__op_setting(yk_job *job, const char *name, double value)
{
    if (job->team.world > 1)
        yk__recipe_setting_add(&job->step.recipes, name, value);
}
/* The job of the operands if all of it may go on; the required operands come first. NULL: return a poisoned handle. */
yk_job *yk__op_enter(const char *name, uint32_t n, const yk_t *x);
yk_t yk__handle(yk_job *job, yk__vid v);  /* takes over a failure of the graph */
bool yk__is_none(yk_t x);

void yk__data_free(yk_data *d);

#endif
