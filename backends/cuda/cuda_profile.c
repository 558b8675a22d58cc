/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times of a card's launches (YOKE_CUDA_PROFILE=1), summed by operation, kernel and shape, and printed when the device is closed.
 * cuda_program.c puts an event before the first launch of a program and behind each one. It waits for each program, and records no graph
 * then; a lock guards the sums, as any thread may run a queue.
 */
#include "backends/cuda/cuda_internal.h"

struct cuda_marks {
    size_t n;
    CUevent event[];
};

cuda_marks *cuda_marks_new(size_t n)
{
    cuda_marks *m = cuda_alloc(sizeof *m + n * sizeof *m->event);
    while (m && m->n < n)
        if (cuda.event_new(&m->event[m->n], CU_EVENT_DEFAULT)) {
            cuda_marks_free(m);
            return NULL;
        } else {
            m->n++;
        }
    return m;
}

void cuda_marks_free(cuda_marks *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->n; i++)
        cuda.event_free(m->event[i]);
    cuda_free(m);
}

CUresult cuda_marks_set(cuda_marks *m, size_t i, CUstream stream)
{
    return cuda.event_record(m->event[i], stream);
}

CUresult cuda_marks_add(yk_device *dev, const cuda_marks *m, const yk_graph *graph, const kit_program *kit, CUstream stream)
{
    char name[KIT_LAUNCH_TEXT];
    CUresult rc = cuda.stream_synchronize(stream);
    pthread_mutex_lock(&dev->profile_lock);
    for (size_t i = 0; i < kit->n_launch && !rc; i++) {
        float ms = 0;
        rc = cuda.event_elapsed(&ms, m->event[i], m->event[i + 1]);
        kit_launch_text(graph, &kit->launch[i], name);
        if (!rc)
            kit_profile_add(&dev->profile, name, (uint64_t)(1e6 * (double)ms));
    }
    pthread_mutex_unlock(&dev->profile_lock);
    return rc;
}
