/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times Yoke's tokenizer on the lines of a file: usage: tokenizer DIR FILE PASSES [IDS]
 * Prints one JSON object: ids, and the seconds of the first pass and of the fastest pass. With IDS it writes the ids there, as
 * 32-bit numbers in the order of the lines, with the template's tokens.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/io/text.h"
#include "core/text/tokenizer.h"

/* Encodes all lines once; count gets the number of ids. */
static yk_status lines_encode(yk__encoder *e, const char *text, size_t bytes, FILE *to, size_t *count, yk_error *err)
{
    const char *p = text, *end = text + bytes;
    yk__ids ids = {0};
    yk_status s = YK_OK;
    *count = 0;
    while (p < end && !s) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        const size_t n = (size_t)((nl ? nl : end) - p);
        s = yk__encoder_encode(e, p, n, NULL, 0, 1, 0, &ids, err);
        *count += ids.count;
        if (to)
            fwrite(ids.id, sizeof *ids.id, ids.count, to);
        p += n + 1;
    }
    yk__ids_free(&ids);
    return s;
}

static yk_status speed_measure(const char *dir, const char *text, size_t bytes, int passes, FILE *to, yk_error *err)
{
    yk__tokenizer *t = NULL;
    yk__encoder *e = NULL;
    double first = 0, least = 1e30;
    size_t ids = 0;
    yk_status s = yk__tokenizer_open(dir, -1, &t, err);
    if (!s)
        s = yk__encoder_new(t, &e, err);
    for (int i = 0; i < passes && !s; i++) {
        const double at = yk__clock_seconds();
        s = lines_encode(e, text, bytes, NULL, &ids, err);
        first = i ? first : yk__clock_seconds() - at;
        least = yk__clock_seconds() - at < least ? yk__clock_seconds() - at : least;
    }
    if (!s && to)
        s = lines_encode(e, text, bytes, to, &ids, err);
    if (!s)
        printf("{\"ids\": %zu, \"first_s\": %.6g, \"least_s\": %.6g}\n", ids, first, least);
    yk__encoder_free(e);
    yk__tokenizer_close(t);
    return s;
}

int main(int argc, char **argv)
{
    yk_error err = {0};
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = argc > 4 ? fopen(argv[4], "wb") : NULL;
    yk_status s;
    if (argc < 4 || atoi(argv[3]) < 1 || (argc > 4 && !to)) {
        fprintf(stderr, "usage: tokenizer DIR FILE PASSES [IDS]\n");
        return 2;
    }
    s = yk__text_open(argv[2], 0, &text, &bytes, &err);
    if (!s)
        s = speed_measure(argv[1], text, bytes, atoi(argv[3]), to, &err);
    if (s)
        fprintf(stderr, "tokenizer: %s\n", err.text);
    yk__free(text);
    if (to && fclose(to))
        s = YK_E_IO;
    return s != YK_OK;
}
