/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `yoke predict`: scores of each row, gathered from the ranks and written by rank 0 in the file's order. cmd_predict.c and cmd_train.c call
 * predict_write in the main thread of all ranks.
 */
#include "tools/eval/predict.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/io/folder.h"
#include "tools/cli.h"

/* Escapes characters that would break the line, as in C. */
static void write_escaped(FILE *f, const char *text)
{
    static const char plain[] = "\n\t\r\\", letter[] = "ntr\\";
    for (; *text; text++) {
        const char *at = strchr(plain, *text);
        if (at)
            fprintf(f, "\\%c", letter[at - plain]);
        else
            fputc(*text, f);
    }
}

static void write_label(FILE *f, const yk_data *data, uint32_t k, bool json)
{
    const char *name = yk_data_class_name(data, k);
    if (!name)
        fprintf(f, "%u", k);
    else if (json)
        yk__json_write(f, name);
    else
        write_escaped(f, name);
}

static void write_number(FILE *f, const yk_data *data, uint64_t row, double number, bool json)
{
    fprintf(f, json ? "{\"row\": %llu, \"number\": %.9g}\n" : "%llu\t%.9g\n", (unsigned long long)yk_data_line(data, row), number);
}

static void write_row(FILE *f, const yk_data *data, uint64_t row, const double *score, uint32_t classes, bool json)
{
    uint32_t best = 0;
    if (classes == 1) {
        write_number(f, data, row, score[0], json);
        return;
    }
    for (uint32_t k = 1; k < classes; k++)
        best = score[k] > score[best] ? k : best;
    fprintf(f, json ? "{\"row\": %llu, \"label\": " : "%llu\t", (unsigned long long)yk_data_line(data, row));
    write_label(f, data, best, json);
    fprintf(f, json ? ", \"score\": %.9g, \"scores\": [" : "\t%.6f\n", score[best]);
    for (uint32_t k = 0; json && k < classes; k++)
        fprintf(f, "%s%.9g", k ? ", " : "", score[k]);
    if (json)
        fprintf(f, "]}\n");
}

/* Puts this rank's scores of a batch among zeros, so that a sum over ranks has every score. A rank without rows reads too: the first
 * read runs the step, which needs every rank. */
static bool gather_scores(yk_job *job, const yk_batch *batch, yk_t scores, uint32_t classes, double *all)
{
    const size_t n = (size_t)batch->rows * classes, padded = (size_t)yk_dim(scores, 0) * classes;
    float *own = malloc((padded + 1) * sizeof *own);
    if (!own) {
        yk_fail(job, YK_E_MEM, "out of memory for predictions");
        return false;
    }
    yk_read(scores, own, padded * sizeof *own);
    for (size_t i = 0; i < n; i++)
        all[(size_t)batch->first * classes + i] = own[i];
    free(own);
    yk_all_reduce_sum(job, all, (uint32_t)((size_t)batch->global_rows * classes));
    return yk_ok(job);
}

/* A model that computes no numbers names no class. */
static bool are_finite(yk_job *job, const yk_data *data, uint64_t row, const double *score, uint32_t classes)
{
    char text[160];
    for (uint32_t k = 0; k < classes; k++)
        if (!isfinite(score[k])) {
            snprintf(text, sizeof text, "row %" PRIu64 ": the model's result is %g: its weights are damaged, or had diverged when they "
                     "were saved", yk_data_line(data, row), score[k]);
            yk_fail(job, YK_E_NUMERIC, text);
            return false;
        }
    return true;
}

static void predict_batch(yk_job *job, const yk_batch *batch, yk_t scores, const yk_data *data, uint64_t first_row, FILE *f, bool json)
{
    const uint32_t classes = (uint32_t)yk_dim(scores, -1);
    double *all = yk_ok(job) ? calloc((size_t)batch->global_rows * classes + 1, sizeof *all) : NULL;
    if (!all)
        yk_fail(job, YK_E_MEM, "out of memory for predictions");
    bool right = all && gather_scores(job, batch, scores, classes, all);
    for (int64_t i = 0; right && i < batch->global_rows; i++) {
        const uint64_t row = first_row + (uint64_t)i;
        right = are_finite(job, data, row, all + i * classes, classes);
        if (right && yk_is_main(job))
            write_row(f, data, row, all + i * classes, classes, json);
    }
    free(all);
}

bool predict_check(yk_job *job, const yk_data *data)
{
    const yk_labels labels = yk_data_labels(data);
    if (yk_ok(job) && (labels == YK_LABELS_NEXT || labels == YK_LABELS_MASKED))
        yk_fail(job, YK_E_ARG, "predictions name the class of each row, and these data have no classes: they are a language model's");
    return yk_ok(job);
}

static void predict_rows(yk_job *job, yk_model *m, yk_data *data, FILE *f, bool json)
{
    uint64_t row = 0;
    yk_train(job, false);
    yk_data_seek(data, 0, 0);
    yk_each (batch, job, data) {
        yk_t logits = yk_cast(yk_forward(m, &batch), YK_F32), scores = yk_keep(yk_dim(logits, -1) == 1 ? logits : yk_softmax(logits));
        predict_batch(job, &batch, scores, data, row, f, json);
        row += (uint64_t)batch.global_rows;
    }
    yk_train(job, true);
}

void predict_write(yk_job *job, yk_model *m, yk_data *data, const char *path, const char *option, bool json)
{
    const bool writes = path && yk_is_main(job);
    const char *reason = NULL;
    char real[PATH_MAX], to[PATH_MAX + sizeof YK__FOLDER_TMP], text[4400];
    if (!predict_check(job, data))
        return;
    const int own = writes ? yk__folder_opened(path) : -1;
    /* Else the file itself takes the lines. */
    const bool fresh = writes && own < 0 && yk__folder_file(path, real) && !yk__folder_keeps(real);
    snprintf(to, sizeof to, "%s%s", fresh ? real : path ? path : "", fresh ? YK__FOLDER_TMP : "");
    FILE *f = own >= 0 ? yk__folder_stream(own)
              : fresh  ? yk__folder_stream(yk__folder_successor(to, real))
              : writes ? fopen(to, "we")
                       : stdout;
    if (f)
        predict_rows(job, m, data, f, json);
    if (!f || writes)
        reason = f ? yk__cli_close_file(f) : strerror(errno);
    if (fresh && !reason && yk_ok(job) && rename(to, real)) /* whole, or not there */
        reason = strerror(errno);
    if (fresh && f && (reason || !yk_ok(job)))
        unlink(to);
    if (!reason)
        return;
    snprintf(text, sizeof text, "%s%.4000s: %s", option, f || access(path, F_OK) ? path : to, reason);
    yk_fail(job, YK_E_IO, text);
}
