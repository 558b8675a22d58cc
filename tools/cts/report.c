/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yoke-cts's results: from the child that runs a group, through a pipe, to the lines the user sees and to record.c. Each test begins by
 * cts_begin and ends by cts_pass or cts_fail, in the child; main.c reads the pipe in the parent.
 */
#include <errno.h>
#include <fnmatch.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/hash.h"
#include "core/base/mem.h"
#include "core/io/text.h"
#include "tools/cli.h"
#include "tools/cts/cts.h"
#include "tools/cts/record.h"

static char current[160]; /* the test that runs; one thread per child */

/* ---- In the child ------------------------------------------------------------------------------------------------------ */

static void verdict_send(cts *c, char verdict, const char *fmt, va_list ap)
{
    char text[900];
    vsnprintf(text, sizeof text, fmt, ap);
    for (char *s = text; *s; s++)
        if (*s == '\n' || *s == '\t')
            *s = ' ';
    fprintf(c->out, "%c%s\t%s\n", verdict, current, yk__printable(text));
    fflush(c->out);
}

static void send_text(cts *c, char verdict, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    verdict_send(c, verdict, fmt, ap);
    va_end(ap);
}

#define STEMS 2048
#define KEPT 10 /* one case in so many */

/* For --quick: the first case of an operation and type, with and without accumulation, and of results that are not finite or tiny, then
 * every KEPTth; cases that compile for seconds only in fp32; each collective, as it compiles nothing. */
static bool case_sampled(const char *name)
{
    static struct {
        uint64_t hash;
        uint32_t n;
    } stem[STEMS];
    static const char *const types[] = {".f32", ".bf16", ".f16"};
    uint64_t h = yk__hash_bytes(YK_HASH_SEED, name, strcspn(name, "."));
    uint32_t at;
    if (strstr(name, ".largest.") && strstr(name, "f16")) /* or bf16 */
        return false;
    if (strstr(name, "/coll."))
        return true;
    for (uint32_t i = 0; i < 3; i++)
        h = strstr(name, types[i]) ? yk__hash_u64(h, i) : h;
    h = strstr(name, ".accumulate") ? yk__hash_u64(h, 3) : h;
    h = strstr(name, ".not_finite") || strstr(name, ".tiny") ? yk__hash_u64(h, 4) : h;
    for (at = (uint32_t)(h % STEMS); stem[at].n && stem[at].hash != h; at = (at + 1) % STEMS)
        ;
    stem[at].hash = h;
    return stem[at].n++ % KEPT == 0;
}

bool cts_begin(cts *c, const char *fmt, ...)
{
    char name[120];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(name, sizeof name, fmt, ap);
    va_end(ap);
    snprintf(current, sizeof current, "%s/%s", c->group, name);
    c->failed_now = false;
    if ((c->only && fnmatch(c->only, current, 0)) || (c->quick && !case_sampled(current)))
        return false;
    if (++c->number <= c->from || c->counting)
        return false;
    if (!c->lists->verify && cts_listed(c->lists->unsupported, current)) {
        send_text(c, 'U', "on the list of unsupported tests");
        return false;
    }
    fprintf(c->out, "B%u %s\n", c->number, current); /* so that a crash can be laid at its door */
    fflush(c->out);
    return true;
}

/* Fails the test if the plugin printed since the last check. */
static void output_check(cts *c)
{
    char text[80] = "";
    struct stat st;
    ssize_t n;
    fflush(stdout);
    if (fstat(c->printed, &st) || st.st_size <= c->printed_bytes)
        return;
    n = pread(c->printed, text, sizeof text - 1, c->printed_bytes);
    c->printed_bytes = st.st_size;
    text[n > 0 ? strcspn(text, "\n") : 0] = 0;
    cts_fail(c, "the plugin prints to standard output: \"%s\"", text);
}

void cts_pass(cts *c)
{
    output_check(c);
    if (!c->failed_now)
        send_text(c, 'P', "%s", "");
}

void cts_fail(cts *c, const char *fmt, ...)
{
    va_list ap;
    if (c->failed_now)
        return;
    c->failed_now = true;
    va_start(ap, fmt);
    verdict_send(c, 'F', fmt, ap);
    va_end(ap);
}

void cts_unsupported(cts *c, const char *fmt, ...)
{
    va_list ap;
    if (c->failed_now)
        return;
    c->failed_now = true;
    va_start(ap, fmt);
    verdict_send(c, 'U', fmt, ap);
    va_end(ap);
}

bool cts_ok(cts *c, yk_status status, const char *what)
{
    const char *said = yk__plugin_message();
    if (status)
        cts_fail(c, "%s: %s%s%s", what, yk__status_name(status), *said ? ": " : "", said);
    return status == YK_OK;
}

bool cts_error(cts *c, yk_error *err)
{
    bool ok = err->status == YK_OK;
    if (!ok)
        cts_fail(c, "%s (%s)", err->text, yk__status_name(err->status));
    *err = (yk_error)YK_ERROR_INIT;
    return ok;
}

void cts_held_to(cts *c, cts_tol tol)
{
    fprintf(c->out, "T%d\n", (int)tol);
}

/* ---- In the parent ----------------------------------------------------------------------------------------------------- */

bool cts_listed(char *const *list, const char *name)
{
    for (; list && *list; list++)
        if (!fnmatch(*list, name, 0))
            return true;
    return false;
}

yk_status cts_list_read(const char *path, char ***out, yk_error *err)
{
    char *text, **list;
    size_t n = 0, cap = 1, bytes;
    if (yk__text_open(path, 0, &text, &bytes, err))
        return err->status;
    list = yk__calloc(1, sizeof *list);
    for (char *line = text, *next; list && line < text + bytes; line = next) {
        next = line + strcspn(line, "\n") + 1;
        size_t k = strcspn(line, "#\n");
        while (k && (line[k - 1] == ' ' || line[k - 1] == '\t'))
            k--;
        line[k] = 0;
        if (!*line)
            continue;
        if (yk__grow(&list, &cap, n + 2, sizeof *list) || !(list[n] = yk__strdup(line))) {
            yk__fail_mem(err, k, path);
            break;
        }
        list[++n] = NULL;
    }
    yk__free(text);
    if (!list)
        yk__fail_mem(err, sizeof *list, path);
    *out = list;
    return err->status;
}

void cts_list_free(char **list)
{
    for (char **s = list; s && *s; s++)
        yk__free(*s);
    yk__free(list);
}

static void result_print(cts_totals *t, cts_outcome outcome, const char *name, const char *message)
{
    static const char *const words[CTS_OUTCOMES] = {"passed", "failed", "unsupported", "expected failure"};
    t->number++;
    cts_record_add(t->record, outcome, name, t->tol);
    if (t->json) {
        printf("{\"test\": ");
        yk__json_text(name);
        printf(", \"result\": \"%s\", \"message\": ", words[outcome]);
        yk__json_text(message);
        printf("}\n");
        return;
    }
    if (outcome == CTS_FAILED)
        printf("not ok %u - %s\n# %s\n", t->number, name, message);
    else if (outcome == CTS_PASSED)
        printf("ok %u - %s\n", t->number, name);
    else
        printf("ok %u - %s # SKIP %s: %s\n", t->number, name, words[outcome], message);
    fflush(stdout);
}

void cts_report(cts_totals *t, const cts_lists *l, cts_verdict v, const char *name, const char *message)
{
    bool unsupported = cts_listed(l->unsupported, name), expected = cts_listed(l->expected, name);
    if (v == CTS_PASS && l->verify && (unsupported || expected)) {
        t->failed++;
        result_print(t, CTS_FAILED, name, unsupported ? "it is listed as unsupported, and passes" : "it is listed as failing, and passes");
    } else if (v == CTS_PASS) {
        t->passed++;
        result_print(t, CTS_PASSED, name, message);
    } else if (v == CTS_FAIL && expected) {
        t->expected++;
        result_print(t, CTS_EXPECTED, name, message);
    } else if (v == CTS_UNSUPPORTED || unsupported) {
        t->unsupported++;
        result_print(t, CTS_LEFT_OUT, name, message);
    } else {
        t->failed++;
        result_print(t, CTS_FAILED, name, message);
    }
}

void cts_take(cts_totals *t, const cts_lists *l, const char *line)
{
    char name[160];
    size_t n = strcspn(line, "\t");
    cts_verdict v = *line == 'P' ? CTS_PASS : *line == 'U' ? CTS_UNSUPPORTED : CTS_FAIL;
    snprintf(name, sizeof name, "%.*s", n ? (int)n - 1 : 0, line + 1);
    cts_report(t, l, v, name, line[n] ? line + n + 1 : "");
}
