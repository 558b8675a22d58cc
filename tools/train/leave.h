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
    uint64_t next, every; /* step of the ranks' next exchange; steps between exchanges */
    uint64_t step;        /* step of the last exchange */
    double at;              /* when that was, in seconds */
} leave;

/* Call it first: until leave_begin a signal ends the process with YK_EXIT_AGAIN, as there is nothing to save. An ignored signal stays
 * ignored. */
void leave_listen(void);
/* Restores the actions before leave_listen, of yoke.c: a signal ends the process, also as process 1. */
void leave_ignore(void);
/* Call it after yk_open, as drivers may have taken the signals: from here on a signal waits for the end of the step. */
void leave_begin(const yk_job *job);
/* [all] After `step` steps: true if any rank has a signal, equal on all ranks. Several ranks exchange every half second of steps, at
 * most 16 steps, and if it is `last`. */
bool leave_asked(leave *state, yk_job *job, uint64_t step, bool last);
/* The signal that this process got; 0: another rank did. */
int leave_signal(void);
/* The checkpoint is whole: a further signal ends the process with YK_EXIT_AGAIN. */
void leave_end(void);

#endif
