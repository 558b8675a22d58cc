/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the kit's whole plugin: the structs, and the functions that kit_device.c and kit_device_program.c share. */
#ifndef YOKE_PLUGINS_KIT_KIT_DEVICE_INTERNAL_H
#define YOKE_PLUGINS_KIT_KIT_DEVICE_INTERNAL_H

#include <stdatomic.h>

#include "plugins/kit/kit_device.h"
#include "plugins/kit/kit_profile.h"
#include "plugins/kit/kit_queue.h"

extern const kit_device *kit_device_own; /* the author's */
extern const yk_host *kit_device_lent;

/* An opened device. */
struct yk_device {
    uint32_t number;
    void *own, *stream;   /* the author's; the stream is for uploads when a program is made */
    yk_device_caps caps;
    kit_target target;
    kit_units units;
    bool profiles;        /* YOKE_<NAME>_PROFILE=1 */
    kit_profile profile;
    pthread_mutex_t lock; /* one thread at a time uses `stream` and `profile` */
    atomic_bool left_behind; /* a queue's thread goes on: nothing that it may use is freed */
};

struct yk_buffer {
    yk_device *dev;
    void *memory;
    uint64_t bytes;
};

/* Data of a queue, which only its thread uses. */
typedef struct kit_device_queue {
    yk_device *dev;
    void *stream, *scratch;
    uint64_t scratch_bytes;
} kit_device_queue;

static inline kit_device_queue *kit_device_queue_data(yk_queue *q)
{
    return *kit_queue_own(q);
}

/* Memory within the device's limits; NULL if there is none. [any] */
void *kit_device_memory_take(const yk_device *dev, uint64_t bytes);
void kit_device_memory_give(const yk_device *dev, void *memory, uint64_t bytes);

void kit_device_programs_begin(yk_device *dev);
void kit_device_programs_end(yk_device *dev);
uint32_t kit_device_claims(yk_device *dev, const yk_graph *graph, uint32_t node);
yk_status kit_device_scratch(yk_device *dev, const yk_graph *graph, uint64_t *bytes);
yk_status kit_device_program_new(yk_device *dev, const yk_graph *graph, yk_program **out);
void kit_device_program_free(yk_program *p);
const yk_graph *kit_device_program_graph(const yk_program *p);
yk_status kit_device_program_run(yk_device *dev, kit_device_queue *q, const yk_submit *s); /* in the queue's thread; may end at `wait` */

#endif
