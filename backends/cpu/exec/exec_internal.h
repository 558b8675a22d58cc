/* SPDX-License-Identifier: Apache-2.0 */
/* A compiled program from inside: cpu_build.c fills it, cpu_program.c runs it. */
#ifndef YOKE_BACKENDS_CPU_EXEC_EXEC_INTERNAL_H
#define YOKE_BACKENDS_CPU_EXEC_EXEC_INTERNAL_H

#include "backends/cpu/exec/cpu.h"
#include "backends/cpu/exec/cpu_pace.h"
#include "backends/cpu/exec/cpu_profile.h"

typedef struct prog_step {
    cpu_fn fn;
    const void *args;
    cpu_profile_entry *entry; /* counts its time; NULL if unprofiled */
    double work;              /* as in cpu_emit */
    int pieces;               /* 1: not shared */
} prog_step;

typedef struct arg_chunk {
    struct arg_chunk *next;
    size_t used, size;
} arg_chunk;

struct cpu_prog {
    prog_step *steps;
    uint32_t n_step, cap;
    arg_chunk *chunks;
    size_t thread_ws, shared_ws;
    bool serial;
    double work;
    uint32_t n_slot;
    uint8_t *uses;
    const yk_slot *slot; /* the graph's */
    cpu_pace pace;
};

#endif
