/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client of PMI, the text protocol by which launchers such as Slurm and MPICH's hydra pass small texts between processes. It sends six of
 * the protocol's requests: enough to put a text, and to get another rank's.
 *
 * meeting.c and bootstrap.c call it in the joining thread, and it waits for all ranks at the protocol's barrier. Source: MPICH,
 * src/pmi/doc/wire-protocol.
 */
#include "config.h"

#include "core/control/start/pmi.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/number.h"

#define ANSWER_MS 20000
#define LINE 1024

static yk_status read_line(int fd, int64_t until, char line[LINE], yk_error *err)
{
    size_t n = 0;
    while (n < LINE - 1) {
        struct pollfd p = {fd, POLLIN, 0};
        const int64_t left = until - yk__clock_ms();
        if (left <= 0)
            return yk__fail(err, YK_E_TIMEOUT, "the launcher does not answer on PMI_FD=%d", fd);
        if (poll(&p, 1, (int)left) <= 0)
            continue;
        if (read(fd, line + n, 1) != 1) /* one byte at a time, as later bytes belong to another answer */
            return yk__fail(err, YK_E_IO, "the launcher has closed PMI_FD=%d", fd);
        if (line[n] == '\n') {
            line[n] = 0;
            return YK_OK;
        }
        n++;
    }
    return yk__fail(err, YK_E_FORMAT, "the launcher's answer on PMI_FD=%d is longer than %d bytes", fd, LINE);
}

/* Sends a request and reads its answer within ms; the answer must be of this kind. */
static yk_status pmi_ask_within(int fd, int64_t ms, const char *request, const char *kind, char answer[LINE], yk_error *err)
{
    const size_t n = strlen(request);
    char expected[64];
    if (send(fd, request, n, MSG_NOSIGNAL) != (ssize_t)n)
        return yk__fail(err, YK_E_IO, "asking the launcher on PMI_FD=%d: %s", fd, strerror(errno));
    if (read_line(fd, yk__clock_ms() + ms, answer, err))
        return err->status;
    snprintf(expected, sizeof expected, "cmd=%s", kind);
    if (strncmp(answer, expected, strlen(expected)))
        return yk__fail(err, YK_E_FORMAT, "the launcher answers '%.100s' on PMI_FD=%d: expected '%s'", answer, fd, expected);
    return YK_OK;
}

static yk_status pmi_ask(int fd, const char *request, const char *kind, char answer[LINE], yk_error *err)
{
    return pmi_ask_within(fd, ANSWER_MS, request, kind, answer, err);
}

/* Copies the value of "key=" in an answer, up to a blank. */
static yk_status value_copy(const char *answer, const char *key, char *value, size_t size, yk_error *err)
{
    const char *at = strstr(answer, key);
    const size_t n = at ? strcspn(at + strlen(key), " ") : 0;
    if (!n || n >= size)
        return yk__fail(err, YK_E_FORMAT, "the launcher's answer '%.100s': expected %s with 1 to %zu bytes", answer, key, size - 1);
    memcpy(value, at + strlen(key), n);
    value[n] = 0;
    return YK_OK;
}

static yk_status pmi_begin(int fd, char name[YK__PMI_VALUE], yk_error *err)
{
    char answer[LINE];
    if (pmi_ask(fd, "cmd=init pmi_version=1 pmi_subversion=1\n", "response_to_init", answer, err) ||
        pmi_ask(fd, "cmd=get_my_kvsname\n", "my_kvsname", answer, err))
        return err->status;
    return value_copy(answer, " kvsname=", name, YK__PMI_VALUE, err);
}

yk_status yk__pmi_job_name(int fd, char name[YK__PMI_VALUE], yk_error *err)
{
    char answer[LINE];
    return pmi_begin(fd, name, err) ? err->status : pmi_ask(fd, "cmd=finalize\n", "finalize_ack", answer, err);
}

/* Puts the text as two hex digits per byte: blanks, '=' and newlines would end the value. */
static yk_status text_put(int fd, const char *name, const char *text, yk_error *err)
{
    char request[LINE], answer[LINE];
    int n = snprintf(request, sizeof request, "cmd=put kvsname=%s key=yoke value=", name);
    for (; *text && n < LINE - 4; text++)
        n += snprintf(request + n, sizeof request - (size_t)n, "%02x", (uint8_t)*text);
    if (*text)
        return yk__fail(err, YK_E_INTERNAL, "the launcher's store: expected a request of at most %d bytes, got a longer one", LINE);
    snprintf(request + n, sizeof request - (size_t)n, "\n");
    return pmi_ask(fd, request, "put_result rc=0", answer, err);
}

static yk_status text_get(int fd, const char *name, char *text, size_t size, yk_error *err)
{
    char request[LINE], answer[LINE], value[2 * YK__PMI_TEXT + 1];
    uint8_t byte;
    snprintf(request, sizeof request, "cmd=get kvsname=%s key=yoke\n", name);
    if (pmi_ask(fd, request, "get_result rc=0", answer, err) || value_copy(answer, " value=", value, sizeof value, err))
        return err->status;
    for (size_t i = 0; value[2 * i]; i++) {
        if (i + 1 >= size || !yk__number_byte(value + 2 * i, &byte))
            return yk__fail(err, YK_E_FORMAT, "the launcher's store holds '%.60s': expected pairs of digits", value);
        text[i] = (char)byte;
        text[i + 1] = 0;
    }
    return YK_OK;
}

yk_status yk__pmi_share(int fd, uint32_t rank, uint32_t ms, char *value, size_t size, yk_error *err)
{
    char name[YK__PMI_VALUE], answer[LINE];
    if (pmi_begin(fd, name, err) || (!rank && text_put(fd, name, value, err)) ||
        pmi_ask_within(fd, ms ? ms : INT32_MAX, "cmd=barrier_in\n", "barrier_out", answer, err) ||
        (rank && text_get(fd, name, value, size, err)))
        return yk__fail_in(err, "rank 0's address");
    return pmi_ask(fd, "cmd=finalize\n", "finalize_ack", answer, err);
}
