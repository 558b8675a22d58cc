/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CSV and TSV as in RFC 4180: a header line, fields in double quotes where needed (doubled quotes inside, line ends
 * inside), LF or CRLF between records, an optional UTF-8 byte order mark, blank lines skipped. Everything else is
 * refused with its line: other encodings, NUL bytes, a lone CR, an open quote, text after a closing quote, records with
 * more or fewer fields than the header. Records are streamed.
 *
 * Lifetime: a result of field() lives until the next call of next(). Thread rule: one thread at a time.
 */
#ifndef YOKE_CORE_READ_CSV_H
#define YOKE_CORE_READ_CSV_H

#include "core/io/file.h"

typedef struct yk__csv yk__csv;

typedef struct yk__csv_options {
    char delimiter; /* 0: the first of comma, tab, semicolon that the header line holds */
    int no_quotes;  /* a quote is a character like any other (GLUE's TSV files) */
} yk__csv_options;

/* Reads the header. f stays the caller's and must outlive the object. */
yk_status yk__csv_read(yk__file *file, const yk__csv_options *options, yk__csv **out, yk_error *err);
void yk__csv_close(yk__csv *csv); /* takes NULL */

int yk__csv_columns(const yk__csv *csv);
const char *yk__csv_column(const yk__csv *csv, int i);
int yk__csv_find(const yk__csv *csv, const char *name); /* -1: no such column */
char yk__csv_delimiter(const yk__csv *csv);

/* The next record; *more is 0 at the end. */
yk_status yk__csv_next(yk__csv *csv, int *more, yk_error *err);
const char *yk__csv_field(const yk__csv *csv, int i, size_t *bytes); /* also ends in 0 */
int64_t yk__csv_line(const yk__csv *csv);                            /* line where the record starts; the header is 1 */

#endif
