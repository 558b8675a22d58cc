/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labelled texts in memory, from CSV/TSV, JSON lines or plain lines: a text, a class and the line it starts on per row.
 *
 * Labels: when the first one is an integer all must be integers from 0 up (below `classes` if given, and below the model's number of
 * classes in an evaluation) and are used as they are; but if the model's id2label has a whole number as the name of another class,
 * integers are names. Names, at least two different ones, are numbered by `names_of`, else by the model's id2label (in
 * training only if the file has no other names), else by the list in `categories` (a JSON array of strings; a
 * categories.json beside the file is taken by itself), else in sorted order (by bytes).
 * With `numbers` labels are finite numbers instead, of a regression.
 * Unlabelled rows have the classes that the model names, or none; plain lines are never labelled.
 * A row whose text is empty is dropped and counted.
 *
 * Immutable after opening, so any thread may read it.
 */
#ifndef YOKE_CORE_READ_ROWS_H
#define YOKE_CORE_READ_ROWS_H

#include <stdbool.h>

#include "core/io/file.h"

typedef struct yk__rows {
    int64_t count, dropped;
    char *text;     /* all texts, one after the other */
    size_t *at;     /* count + 1 offsets into text */
    int32_t *label; /* count; all 0 where there are none */
    float *number;  /* count; NULL: labels are classes */
    int64_t *line;  /* count; CSV: the header is line 1 */
    int classes;
    char **names; /* classes names, or NULL: labels were integers, or there are none */
} yk__rows;

typedef struct yk__rows_options {
    const char *text, *label; /* columns or keys; NULL: "text", "label" */
    const char *categories;   /* path of a list of names, or NULL */
    const yk__rows *names_of; /* number names (and bound integers) as there, or NULL */
    const char *model;        /* path of a model's config.json, or NULL */
    bool trains;              /* the model may get other names than it has */
    bool new_head;            /* it has its own only where the file has all of them */
    int classes;              /* 0: the largest label + 1 */
    char delimiter;           /* CSV: as yk__csv_options */
    int no_quotes;
    int json; /* JSON lines instead of CSV */
    bool lines;      /* plain lines */
    bool numbers;    /* labels are numbers; categories, names_of, model and classes say nothing then */
    bool unlabelled; /* labels are neither needed nor looked at */
    bool may_be_empty; /* no rows are no error, nor is a file of no bytes */
} yk__rows_options;

yk_status yk__rows_open(const char *path, const yk__rows_options *options, yk__rows **out, yk_error *err);
yk_status yk__rows_read(yk__file *file, const yk__rows_options *options, yk__rows **out, yk_error *err);
void yk__rows_close(yk__rows *rows); /* takes NULL */

#endif
