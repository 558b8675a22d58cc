/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin's objects and the in-order queue. */
#ifndef YOKE_BACKENDS_CPU_EXEC_CPU_DEVICE_H
#define YOKE_BACKENDS_CPU_EXEC_CPU_DEVICE_H

#include <pthread.h>
#include <sched.h>

#include "backends/cpu/exec/cpu.h"
#include "backends/cpu/exec/cpu_pool.h"
#include "backends/cpu/exec/cpu_program.h"

#define CPU_MAX_CORES 1024
#define CPU_PAGE 4096 /* buffers begin on one; the host makes large ones of huge pages */

struct yk_device {
    const cpu_isa *isa;
    cpu_pool *pool;
    int n, core0;
    cpu_set_t cores;      /* the workers' */
    pthread_mutex_t lock; /* one program at a time uses the pool and the scratch */
    char *scratch;        /* grows to the size for the largest program */
    size_t scratch_bytes;
};

struct yk_buffer {
    char *data;
    uint64_t bytes;
    bool owned;
};

struct yk_program {
    yk_device *dev;
    cpu_prog *prog;
};

yk_status cpu_queue_new(yk_device *dev, const yk_queue_desc *desc, yk_queue **q);
void cpu_queue_free(yk_queue *q);
yk_status cpu_queue_run(yk_queue *q, const yk_submit *s, uint64_t *point);
yk_status cpu_queue_copy(yk_queue *q, const yk_copy *c, uint64_t *point);
yk_status cpu_queue_poll(yk_queue *q, uint64_t *done);
yk_status cpu_queue_wait(yk_queue *q, uint64_t point, uint64_t timeout_ns);
void cpu_queue_abort(yk_queue *q, yk_status why);
yk_status cpu_queue_span(yk_queue *q, uint64_t point, uint64_t *begin_ns, uint64_t *end_ns);

#endif
