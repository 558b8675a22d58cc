/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Formats of computation by rank: "fp32,bf16,fp16", the last one for all ranks that follow (yk_config.precision). Checks the words, and
 * tells a rank's format, its name, and if gradients need a loss scale.
 *
 * open.c (core/job/session) asks it while a job opens; checkpoints and agree.c (core/job/trace) ask for the text. The step thread. An
 * unknown word is an error that lists the known ones. Pure.
 */
#include "core/job/team/precision.h"

#include <string.h>

#include "core/base/word.h"

static const yk_dtype formats[] = {YK_F32, YK_BF16, YK_F16}; /* in the order of YK__PRECISION_WORDS */
#define FORMATS (sizeof formats / sizeof *formats)

/* The format at *s, which moves past it; FORMATS if absent. */
static size_t format_read(const char **s)
{
    const size_t n = strcspn(*s, ",");
    const int i = yk__word_find(YK__PRECISION_WORDS, *s, n);
    *s += n;
    return i < 0 || (size_t)i > FORMATS ? FORMATS : (size_t)i;
}

static yk_status check_list(const yk_job *job, const char *list, yk_error *err)
{
    const char *s = list;
    uint32_t n = 0;
    do {
        if (format_read(&s) == FORMATS)
            return yk__fail(err, YK_E_ARG, "precision \"%s\": expected fp32, bf16 or fp16 for each rank, as in fp32,bf16; the last one "
                            "is for all that follow (fp8 is the whole job's)", list);
        n++;
    } while (*s++ == ',');
    if (n > job->team.world)
        return yk__fail(err, YK_E_ARG, "precision \"%s\" is of %u ranks, and the job has %u", list, n, job->team.world);
    return YK_OK;
}

yk_status yk__precision_check(yk_job *job, yk_error *err)
{
    const yk_config *c = &job->config;
    if (c->precision_by_rank && c->precision != YK_F32)
        return yk__fail(err, YK_E_ARG, "yk_config: precision %s and precision_by_rank \"%s\": give one of them",
                        yk__precision_name(c->precision), c->precision_by_rank);
    if (!c->precision_by_rank)
        return YK_OK;
    if (check_list(job, c->precision_by_rank, err))
        return err->status;
    job->precision_list = yk__strdup(c->precision_by_rank);
    return job->precision_list ? YK_OK : yk__fail_mem(err, strlen(c->precision_by_rank), "the precision of ranks");
}

yk_dtype yk__precision_of(const yk_job *job, uint32_t rank)
{
    const char *s = job->precision_list;
    size_t format = FORMATS;
    for (uint32_t r = 0; s && r <= rank; r++) {
        format = format_read(&s);
        if (!*s)
            break;
        s++;
    }
    return format < FORMATS ? formats[format] : yk__precision_rounds8(job) ? YK_BF16 : job->config.precision;
}

bool yk__precision_rounds8(const yk_job *job)
{
    return job->config.precision == YK_F8E4M3;
}

const char *yk__precision_name(yk_dtype precision)
{
    return precision == YK_F8E4M3 ? "fp8" : yk__dtype_name(precision);
}

bool yk__precision_scales(const yk_job *job)
{
    for (uint32_t r = 0; r < job->team.world; r++)
        if (yk__precision_of(job, r) == YK_F16)
            return true;
    return false;
}

const char *yk__precision_text(const yk_job *job)
{
    return job->precision_list ? job->precision_list : yk__precision_name(job->config.precision);
}
