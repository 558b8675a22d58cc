/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Results of programs on their way to the host. A copy to memory that is not registered holds the host up until the device reaches it, so
 * the host could submit nothing behind it. If the device registers memory (YK_CAP_PINS), results go through a registered stage. After a
 * wait they are copied from the stage to their destination. Zeros: no results. Step thread.
 */
#ifndef YOKE_CORE_RUN_VALUES_FETCH_H
#define YOKE_CORE_RUN_VALUES_FETCH_H

#include "core/run/queue.h"

#define YK__FETCHES 128u

typedef struct yk__fetches {
    char *stage;
    yk_pin *pin;
    uint64_t used; /* bytes of the stage */
    uint32_t n, first; /* first: the first result that was not handed over */
    struct {
        void *dst;
        uint64_t at, bytes, point;
    } list[YK__FETCHES];
} yk__fetches;

/* dst is valid after a wait for the queue's last point and yk__fetches_done. */
yk_status yk__fetches_add(yk__fetches *f, yk__queue *q, yk_buffer *b, uint64_t offset, void *dst, uint64_t bytes, yk_error *err);
/* Hands over the results that have arrived by now. */
void yk__fetches_done(yk__fetches *f, const yk__queue *q);
void yk__fetches_free(yk__fetches *f, yk__queue *q); /* the queue no longer uses them */

#endif
