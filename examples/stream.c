/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream of unknown length: lines "x y" of a file. Each rank reads every line and keeps the lines with the sampler's numbers.
 * yk_gather_for_metrics combines the ranks' results, and all ranks stop as soon as one of them asks for it.
 *
 *   stream FILE [EPOCHS]
 */
#include <stdio.h>
#include <stdlib.h>
#include <yoke/yoke.h>

enum { BATCH = 32 };

typedef struct stream {
    FILE *file;
    float line[BATCH][2];
    int64_t read, held; /* number of lines read; number of lines in line[] */
} stream;

static void stream_read(stream *s)
{
    for (s->held = 0; s->held < BATCH && fscanf(s->file, "%f %f", &s->line[s->held][0], &s->line[s->held][1]) == 2; s->held++)
        s->read++;
}

typedef struct model {
    yk_t a, b;
} model;

/* Runs one epoch; opt NULL: evaluation. Returns the largest error of all rows. */
static double epoch_run(yk_job *job, yk_sampler *sampler, stream *s, const model *m, yk_opt *opt, int64_t *seen)
{
    double worst = 0;
    yk_sample rows;
    rewind(s->file);
    s->read = *seen = 0;
    for (;;) {
        float x[BATCH], y[BATCH], error[BATCH] = {0};
        stream_read(s);
        if (s->held < BATCH)
            yk_sampler_end(sampler, (uint64_t)s->read);
        if (!yk_sampler_next(sampler, &rows))
            return worst;
        for (int64_t i = 0; i < rows.rows; i++) {
            const float *line = s->line[rows.row[i] - (s->read - s->held)];
            x[i] = line[0];
            y[i] = line[1];
        }
        const yk_t target = yk_input(job, YK_F32, 1, &rows.rows, y);
        const yk_t guess = yk_add(yk_mul(yk_input(job, YK_F32, 1, &rows.rows, x), m->a), m->b);
        const yk_t off = yk_keep(yk_abs(yk_sub(guess, target)));
        if (opt) {
            yk_backward(yk_mse_loss(guess, target, NULL));
            yk_step(opt);
        }
        yk_read(off, error, (size_t)rows.rows * sizeof *error);
        int64_t n;
        const float *all = yk_gather_for_metrics(job, error, sizeof *error, &n);
        for (int64_t i = 0; i < n; i++)
            worst = (double)all[i] > worst ? (double)all[i] : worst;
        *seen += n;
    }
}

int main(int argc, char **argv)
{
    stream s = {.file = argc > 1 ? fopen(argv[1], "r") : NULL};
    const int epochs = argc > 2 ? atoi(argv[2]) : 50;
    if (!s.file) {
        fprintf(stderr, "usage: stream FILE [EPOCHS], FILE of lines \"x y\"\n");
        return 2;
    }
    yk_job *job = yk_open(NULL);
    const model m = {yk_param(job, "a", 0, NULL, (yk_init){0}), yk_param(job, "b", 0, NULL, (yk_init){0})};
    yk_opt *opt = yk_sgd(job, &(yk_sgd_config){.lr = 0.1});
    yk_sampler *sampler = yk_sampler_new(job, &(yk_sampler_config){.batch = BATCH, .split_batches = true, .uneven_batches = true});
    int64_t seen = 0;
    int e = 0;
    while (e++ < epochs && yk_ok(job)) {
        if (epoch_run(job, sampler, &s, &m, opt, &seen) < 0.01 && yk_is_last(job))
            yk_set_trigger(job); /* one rank's flag is enough */
        if (yk_check_trigger(job))
            break;
    }
    yk_train(job, false);
    const double worst = epoch_run(job, sampler, &s, &m, NULL, &seen);
    yk_print(job, "%d rows, %d epochs: no row is off by more than %.2f\n", (int)seen, e, worst);
    fclose(s.file);
    return yk_close(job);
}
