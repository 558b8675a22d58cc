/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin's objects and the in-order queue. */
#ifndef YOKE_BACKENDS_CPU_EXEC_DEVICE_H
#define YOKE_BACKENDS_CPU_EXEC_DEVICE_H

#include <pthread.h>
#include <sched.h>

#include "backends/cpu/exec/cpu.h"
#include "backends/cpu/exec/pool.h"
#include "backends/cpu/exec/program.h"

#define CPU_MAX_CORES 1024
#define CPU_PAGE 4096 /* buffers begin on one; the host makes large ones of huge pages */

struct yk_device {
    const cpu_isa *isa;
    cpu_pool *pool;
    int n, core0;
    cpu_set_t cores;      /* the workers' */
    pthread_mutex_t lock; /* one program at a time uses the pool and the scratch */
    char *scratch;        /* grows to what the largest program needs */
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

yk_status cpu_queue_new(yk_device *dev, yk_queue **queue);
void cpu_queue_free(yk_queue *queue);
yk_status cpu_queue_run(yk_queue *queue, const yk_submit *s, uint64_t *point);
yk_status cpu_queue_put(yk_queue *queue, yk_buffer *buffer, uint64_t offset, const void *src, uint64_t bytes, uint64_t *point);
yk_status cpu_queue_get(yk_queue *queue, yk_buffer *buffer, uint64_t offset, void *dst, uint64_t bytes, uint64_t *point);
yk_status cpu_queue_poll(yk_queue *queue, uint64_t *done);
yk_status cpu_queue_wait(yk_queue *queue, uint64_t point, uint64_t timeout_ns);

#endif
