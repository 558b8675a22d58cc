/* SPDX-License-Identifier: Apache-2.0 */
/* A client of the PMI text protocol, of which it needs three requests. Source: MPICH, src/pmi/doc/wire-protocol. */
#include "config.h"

#include "core/control/pmi.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/clock.h"

#define ANSWER_MS 20000
#define LINE 1024
#define KEY (sizeof " kvsname=" - 1)

static yk_status read_line(int fd, char line[LINE], yk_error *err)
{
    const int64_t until = yk__clock_ms() + ANSWER_MS;
    size_t n = 0;
    while (n < LINE - 1) {
        struct pollfd p = {fd, POLLIN, 0};
        const int64_t left = until - yk__clock_ms();
        if (left <= 0)
            return yk__fail(err, YK_E_TIMEOUT, "the launcher does not answer on PMI_FD=%d", fd);
        if (poll(&p, 1, (int)left) <= 0)
            continue;
        if (read(fd, line + n, 1) != 1) /* a byte at a time: what follows is another answer */
            return yk__fail(err, YK_E_IO, "the launcher has closed PMI_FD=%d", fd);
        if (line[n] == '\n') {
            line[n] = 0;
            return YK_OK;
        }
        n++;
    }
    return yk__fail(err, YK_E_FORMAT, "the launcher's answer on PMI_FD=%d is longer than %d bytes", fd, LINE);
}

/* Sends a request and reads its answer, which has to be of this kind. */
static yk_status pmi_ask(int fd, const char *request, const char *kind, char answer[LINE], yk_error *err)
{
    const size_t n = strlen(request);
    char expected[64];
    if (send(fd, request, n, MSG_NOSIGNAL) != (ssize_t)n)
        return yk__fail(err, YK_E_IO, "asking the launcher on PMI_FD=%d: %s", fd, strerror(errno));
    if (read_line(fd, answer, err))
        return err->status;
    snprintf(expected, sizeof expected, "cmd=%s", kind);
    if (strncmp(answer, expected, strlen(expected)))
        return yk__fail(err, YK_E_FORMAT, "the launcher answers '%.100s' on PMI_FD=%d: expected '%s'", answer, fd, expected);
    return YK_OK;
}

yk_status yk__pmi_job_name(int fd, char name[YK__PMI_VALUE], yk_error *err)
{
    char answer[LINE];
    const char *value;
    size_t n;
    if (pmi_ask(fd, "cmd=init pmi_version=1 pmi_subversion=1\n", "response_to_init", answer, err) ||
        pmi_ask(fd, "cmd=get_my_kvsname\n", "my_kvsname", answer, err))
        return err->status;
    value = strstr(answer, " kvsname=");
    n = value ? strcspn(value + KEY, " ") : 0;
    if (!n || n >= YK__PMI_VALUE)
        return yk__fail(err, YK_E_FORMAT, "the launcher's name of the job, '%.100s': expected 1 to %d bytes", answer, YK__PMI_VALUE - 1);
    memcpy(name, value + KEY, n);
    name[n] = 0;
    return pmi_ask(fd, "cmd=finalize\n", "finalize_ack", answer, err);
}
