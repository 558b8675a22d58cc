/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words the remedies of a lack of memory, the same for buffers, plans, slices and shares. queue.c and api.c call it in the step thread.
 */
#include "core/run/remedies.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct remedy_list {
    char *text;
    size_t size, used;
} remedy_list;

__attribute__((format(printf, 2, 3))) static void remedy_add(remedy_list *l, const char *format, ...)
{
    va_list args;
    if (l->used && l->used + 6 < l->size)
        l->used += (size_t)snprintf(l->text + l->used, l->size - l->used, ", or ");
    va_start(args, format);
    const int n = vsnprintf(l->text + l->used, l->size - l->used, format, args);
    va_end(args);
    l->used += n > 0 ? (size_t)n : 0;
    if (l->used >= l->size)
        l->used = l->size - 1;
}

/* A micro batch of one row is the smallest one. */
static void rows_add(remedy_list *l, const yk__remedies *r, uint64_t times)
{
    if (r->rows == 1)
        return;
    if (!r->trains || r->evaluates)
        remedy_add(l, r->trains ? "a smaller --per-device-eval-batch-size" : "a smaller batch");
    else if (times > 1 && r->rows && r->rows % times == 0)
        remedy_add(l, "a --global-batch %llu times smaller and %llu times the --gradient-accumulation-steps", (unsigned long long)times,
                   (unsigned long long)times);
    else
        remedy_add(l, "a smaller --global-batch and more --gradient-accumulation-steps");
}

void yk__remedies_write(const yk__remedies *r, const yk__lack *lack, char *text, size_t size)
{
    remedy_list l = {text, size, 0};
    const char *place = r->place ? r->place : "";
    *text = 0;
    if (lack->limited)
        remedy_add(&l, "raise the limit");
    if (lack->parts & YK__OF_ACTIVATIONS) {
        rows_add(&l, r, lack->times);
        if (r->recomputes && !r->evaluates && !lack->limited)
            remedy_add(&l, "--gradient-checkpointing, or a limit (--memory-limit, YOKE_MEMORY_LIMIT) below what is free: activations are "
                           "then computed again, not kept");
        if (r->stores && !r->evaluates)
            remedy_add(&l, "--offload %sactivations=host", place);
    }
    if (lack->parts & YK__OF_STATE && r->state_host) /* in place of a part of the state */
        remedy_add(&l, "--offload %sstate=host", strncmp(place, "state=host:", 11) ? place : strchr(place, ',') + 1);
    if (lack->parts & YK__OF_STATE && r->state_disk)
        remedy_add(&l, "--offload %sstate=nvme:DIR", place);
    if (lack->parts & YK__OF_PARAMS && r->params)
        remedy_add(&l, "--shard params");
    else if (lack->parts & YK__OF_GRADS && r->gradients)
        remedy_add(&l, "--shard gradients");
    if (r->trains)
        remedy_add(&l, "see `yoke plan` with these options");
}
