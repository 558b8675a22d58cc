/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SIGTERM and SIGUSR1 ask a training to leave: a pre-emption, or a time limit that is near. The ranks agree at a step's end, save a
 * checkpoint, and end with YK_EXIT_AGAIN. A second signal ends the process as it ends any other.
 *
 * Signals belong to the process, so there is one state for it. Thread rule: the thread that trains; the handler runs on any.
 */
#ifndef YOKE_TOOLS_TRAIN_LEAVE_H
#define YOKE_TOOLS_TRAIN_LEAVE_H

#include <stdint.h>
#include <yoke/yoke.h>

typedef struct leave {
    uint64_t next, every; /* the step at which the ranks ask each other again; the steps between */
    uint64_t step;        /* at which they did last */
    double at;              /* when that was, in seconds */
} leave;

/* First of all: until leave_begin a signal ends the process with YK_EXIT_AGAIN, as there is nothing to save. A signal that is ignored
 * stays so. */
void leave_listen(void);
/* A signal ends the process as it ends any other. */
void leave_ignore(void);
/* After yk_open, whose drivers may have taken the signals: from here on a signal waits for the end of the step. */
void leave_begin(const yk_job *job);
/* [all] After `step` steps: whether a rank has a signal, the same on all ranks. Several ranks ask each other every half second of steps, 16
 * steps at most, and where it is `last`. */
bool leave_asked(leave *state, yk_job *job, uint64_t step, bool last);
/* The signal that this process got; 0: another rank did. */
int leave_signal(void);
/* The checkpoint is whole: a further signal ends the process with YK_EXIT_AGAIN. */
void leave_end(void);

#endif
