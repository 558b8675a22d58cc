/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of readers: paths of the test data, the lines and columns of a folder's index.tsv. */
#ifndef YOKE_TESTS_SUPPORT_SUITE_H
#define YOKE_TESTS_SUPPORT_SUITE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/run.h"

static inline const char *suite_root(void)
{
    const char *d = getenv("YOKE_TEST_DATA");
    return d && *d ? d : "../shared/data";
}

/* A path below the test data in a static buffer (four of them take turns). */
static inline const char *suite_path(const char *dir, const char *name)
{
    static char buf[4][1024];
    static int turn;
    char *b = buf[turn++ & 3];
    snprintf(b, sizeof buf[0], "%s/%s%s%s", suite_root(), dir, *name ? "/" : "", name);
    return b;
}

static inline int suite_there(const char *dir)
{
    if (access(suite_path(dir, ""), R_OK) == 0)
        return 1;
    printf("# skipped: no %s (set YOKE_TEST_DATA)\n", suite_path(dir, ""));
    return 0;
}

#define SUITE_COLUMNS 6
#define SUITE_ROWS 400

typedef struct suite_index {
    int count;
    char *cell[SUITE_ROWS][SUITE_COLUMNS]; /* never NULL */
    char *text;
} suite_index;

/* Reads DIR/index.tsv without its header line; count is 0 when it is not there. */
static inline suite_index *suite_open(const char *dir)
{
    suite_index *x = calloc(1, sizeof *x);
    FILE *f = fopen(suite_path(dir, "index.tsv"), "r");
    size_t n;
    char *line, *next;
    if (!f)
        return x;
    x->text = malloc(1 << 20);
    n = fread(x->text, 1, (1 << 20) - 1, f);
    fclose(f);
    x->text[n] = 0;
    for (line = strchr(x->text, '\n'); line && *++line && x->count < SUITE_ROWS; line = next) {
        int k = 0;
        next = strchr(line, '\n');
        if (next)
            *next = 0;
        while (line && k < SUITE_COLUMNS) {
            char *tab = strchr(line, '\t');
            x->cell[x->count][k++] = line;
            if (tab)
                *tab = 0;
            line = tab ? tab + 1 : NULL;
        }
        while (k < SUITE_COLUMNS)
            x->cell[x->count][k++] = x->text + n;
        x->count++;
    }
    return x;
}

static inline void suite_close(suite_index *x)
{
    free(x->text);
    free(x);
}

#endif
