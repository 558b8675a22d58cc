/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank's verdict on a transport's test (yoke-cts --transport). The test ranks set it, and tr_ranks.c reads it in the parent. It is in
 * memory that outlives the rank, and each rank's first verdict counts: later failures mostly follow from it.
 */
#include "config.h"

#include <stdarg.h>
#include <string.h>

#include "core/base/error.h"
#include "tools/cts/tr.h"

bool cts_tr_verdict_is(const cts_tr_verdicts *verdicts, uint32_t rank, cts_tr_state state)
{
    return __atomic_load_n(&verdicts->rank[rank].state, __ATOMIC_ACQUIRE) == (uint32_t)state;
}

bool cts_tr_any_failed(const cts_tr_verdicts *verdicts)
{
    return __atomic_load_n(&verdicts->failed, __ATOMIC_ACQUIRE) != 0;
}

void cts_tr_set_failed(cts_tr_verdicts *verdicts)
{
    __atomic_store_n(&verdicts->failed, 1, __ATOMIC_RELEASE);
}

static bool verdict_say(cts_tr *t, cts_tr_state state, const char *fmt, va_list ap)
{
    cts_tr_verdict *v = &t->verdicts->rank[t->rank];
    uint32_t nothing = CTS_TR_NOTHING;
    if (!__atomic_compare_exchange_n(&v->state, &nothing, CTS_TR_WRITING, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return false;
    vsnprintf(v->text, sizeof v->text, fmt, ap);
    __atomic_store_n(&v->state, (uint32_t)state, __ATOMIC_RELEASE);
    if (state == CTS_TR_FAILED)
        cts_tr_set_failed(t->verdicts);
    return false;
}

bool cts_tr_fail(cts_tr *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    verdict_say(t, CTS_TR_FAILED, fmt, ap);
    va_end(ap);
    return false;
}

bool cts_tr_late(cts_tr *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    verdict_say(t, CTS_TR_LATE, fmt, ap);
    va_end(ap);
    return false;
}

bool cts_tr_unsupported(cts_tr *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    verdict_say(t, CTS_TR_UNSUPPORTED, fmt, ap);
    va_end(ap);
    return false;
}

bool cts_tr_ok(cts_tr *t, yk_status status, const yk_tr_error *error, const char *what)
{
    return !status || cts_tr_fail(t, "%s: %s (%s)", what, error->text, yk__status_name(status));
}

bool cts_tr_refused(cts_tr *t, yk_status status, yk_status expected, const yk_tr_error *error, const char *what)
{
    if (status != expected)
        return cts_tr_fail(t, "%s: %s, expected %s", what, yk__status_name(status), yk__status_name(expected));
    if (!*error->text || strchr(error->text, '\n') || !memchr(error->text, 0, sizeof error->text))
        return cts_tr_fail(t, "%s: the error's text is not one line: \"%.80s\"", what, error->text);
    return true;
}
