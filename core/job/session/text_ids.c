/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts text to token ids for a program without a data set, such as a server, which gets its texts one by one (yk_tokenizer_open). The
 * tokenizers are in core/text.
 *
 * The user's program calls it in the step thread; each rank works alone. The job owns the tokenizer.
 */
#include <string.h>

#include "core/job/job.h"
#include "core/text/tokenizer.h"

struct yk_tokenizer {
    yk_job *job;
    yk__tokenizer *files;
    yk__encoder *encoder;
    yk__ids ids;
};

static void tokenizer_release(void *object)
{
    yk_tokenizer *t = object;
    yk__ids_free(&t->ids);
    yk__encoder_free(t->encoder);
    yk__tokenizer_close(t->files);
    yk__free(t);
}

yk_tokenizer *yk_tokenizer_open(yk_job *job, const char *dir)
{
    yk_error err = YK_ERROR_INIT;
    if (!yk_ok(job) || !yk__job_given(job, "yk_tokenizer_open", "dir", dir))
        return NULL;
    yk_tokenizer *t = yk__calloc(1, sizeof *t);
    if (!t) {
        yk__job_failf(job, YK_E_MEM, "out of memory in yk_tokenizer_open");
        return NULL;
    }
    t->job = job;
    if ((strcmp(dir, "bytes") ? yk__tokenizer_open(dir, -1, &t->files, &err) : yk__tokenizer_bytes(&t->files, &err)) ||
        yk__encoder_new(t->files, &t->encoder, &err)) {
        tokenizer_release(t);
        yk__job_fail(job, &err);
        return NULL;
    }
    yk__tokenizer_notes_log(t->files);
    yk_on_close(job, t, tokenizer_release);
    return yk_ok(job) ? t : NULL;
}

int64_t yk_tokenizer_encode(yk_tokenizer *t, const char *text, uint32_t most, int32_t *id)
{
    yk_error err = YK_ERROR_INIT;
    if (!t || !yk_ok(t->job) || !yk__job_given(t->job, "yk_tokenizer_encode", "text", text))
        return -1;
    if (!most) {
        yk__job_failf(t->job, YK_E_ARG, "yk_tokenizer_encode: room for 0 ids: expected room for 1 or more");
        return -1;
    }
    if (yk__encoder_encode(t->encoder, text, strlen(text), NULL, 0, 1, most, &t->ids, &err)) {
        if (err.status != YK_E_FORMAT)
            yk__job_fail(t->job, &err);
        return -1;
    }
    if (t->ids.count)
        memcpy(id, t->ids.id, t->ids.count * sizeof *id);
    return (int64_t)t->ids.count;
}
