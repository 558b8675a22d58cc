/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The progress bar of a training, on standard error; only rank 0's is on. cmd_train.c (tools/cmd) begins it; loop.c draws it, says lines by
 * it, starts its clock and ends it; prediction.c says one line; each in the main thread. The bar stands on one line. Each report draws it
 * anew, and progress_say clears it first; a log line does not. Without a terminal the reports are plain lines.
 */
#include "tools/train/train_progress.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "tools/train/train.h"

enum { WIDTH = 24 };

void progress_begin(progress *p, bool on)
{
    *p = (progress){.on = on, .terminal = isatty(STDERR_FILENO), .begin = train_seconds()};
}

static void bar_draw(progress *p, uint64_t step, uint64_t total)
{
    const uint64_t full = total ? step * WIDTH / total : 0;
    const double gone = train_seconds() - p->begin, left = step > p->first ? gone * (double)(total - step) / (double)(step - p->first) : 0;
    fprintf(stderr, "\r\033[K[");
    for (uint64_t i = 0; i < WIDTH; i++)
        fputc(i < full ? '#' : '.', stderr);
    fprintf(stderr, "] %llu/%llu  %.0f s left", (unsigned long long)step, (unsigned long long)total, left);
    p->open = true;
}

void progress_show(progress *p, uint64_t step, uint64_t total, double loss, double lr, double rows_per_s)
{
    if (!p->on)
        return;
    if (p->terminal)
        bar_draw(p, step, total);
    else
        fprintf(stderr, "step %llu/%llu", (unsigned long long)step, (unsigned long long)total);
    loss = isnan(loss) ? fabs(loss) : loss; /* not "-nan" */
    fprintf(stderr, "  loss %.4f  lr %.3g  %.0f samples/s%s", loss, lr, rows_per_s, p->terminal ? "" : "\n");
    fflush(stderr);
}

void progress_say(progress *p, const char *fmt, ...)
{
    va_list ap;
    if (!p->on)
        return;
    if (p->open)
        fprintf(stderr, "\r\033[K");
    p->open = false;
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
}

void progress_end(progress *p)
{
    if (p->on && p->open)
        fputc('\n', stderr);
    p->open = false;
}
