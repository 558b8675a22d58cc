/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What goes through a host's part of a job while its ranks run: their lines to the launcher, each with its rank in front, and the
 * launcher's signals to them. The loop that waits for both is that of launch.c.
 */
#include "config.h"

#include "core/launch/node_io.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/option.h"
#include "core/control/gather.h"
#include "core/control/secret.h"

nfds_t yk__node_poll(const yk__node *node, struct pollfd *poll)
{
    nfds_t n = 0;
    poll[n++] = (struct pollfd){node->orders, POLLIN, 0};
    for (uint32_t i = 0; i < 2 * node->ranks; i++)
        poll[n++] = (struct pollfd){node->output[i].fd, POLLIN, 0};
    return n;
}

typedef struct outlet {
    int fd;
    uint32_t rank;
} outlet;

static void line_pass(void *context, const char *text, size_t bytes)
{
    const outlet *out = context;
    char line[YK__LINE_MOST + 24];
    int n = snprintf(line, sizeof line, "[%u] ", out->rank);
    memcpy(line + n, text, bytes);
    n += (int)bytes;
    if (text[bytes - 1] != '\n')
        line[n++] = '\n';
    yk__write_all(out->fd, line, (size_t)n);
}

void yk__node_pump(yk__node *node)
{
    for (uint32_t i = 0; i < 2 * node->ranks; i++) {
        outlet out = {i % 2 ? STDERR_FILENO : STDOUT_FILENO, node->first + i / 2};
        yk__lines_pump(&node->output[i], line_pass, &out);
    }
}

int yk__node_order(yk__node *node)
{
    struct pollfd p = {node->orders, POLLIN, 0};
    uint8_t sig = 0;
    while (node->orders >= 0 && poll(&p, 1, 0) > 0) {
        const ssize_t n = read(node->orders, &sig, 1);
        if (n == 1 && (sig == SIGINT || sig == SIGTERM || sig == SIGHUP))
            return sig;
        if (n == 1 || (n < 0 && errno == EINTR))
            continue;
        node->orders = -1;
        return -1;
    }
    return 0;
}

/* ---- A rank that has ended ---------------------------------------------------------------------------------------- */

/* It stops when rank 0 waits, and ends when it does not. */
static _Noreturn void ask_and_stop(const yk__node *node, uint32_t rank)
{
    uint8_t secret[YK__SECRET_MOST];
    yk__gather_config config = {.secret = secret, .address = node->address, .port = node->port, .listener = -1,
                                .rank = node->first + rank, .ranks = node->size,
                                .join_ms = (uint32_t)yk__option_number(YK__OPTION_JOIN_MS)};
    const int64_t until = yk__clock_ms() + config.join_ms;
    const ssize_t bytes = pread(node->secret, secret, sizeof secret, 0);
    yk_error err;
    int fd = -1;
    config.secret_bytes = bytes > 0 ? (uint32_t)bytes : 0;
    do
        err = (yk_error)YK_ERROR_INIT;
    while (yk__gather_ask(&config, &fd, &err) == YK_E_TIMEOUT && (!config.join_ms || yk__clock_ms() < until));
    if (!err.status)
        raise(SIGSTOP);
    _exit(0); /* child */
}

pid_t yk__node_ask(const yk__node *node, uint32_t rank)
{
    const pid_t parent = getpid(), pid = fork();
    if (pid)
        return pid > 0 ? pid : 0;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1); /* child: the node died before the prctl */
    ask_and_stop(node, rank);
}

bool yk__node_answer(pid_t *pid)
{
    int status = 0;
    if (!*pid || waitpid(*pid, &status, WNOHANG | WUNTRACED) != *pid)
        return false;
    if (WIFSTOPPED(status))
        return true;
    *pid = 0;
    return false;
}

void yk__node_ask_end(pid_t *pid)
{
    if (!*pid)
        return;
    kill(*pid, SIGKILL);
    waitpid(*pid, NULL, 0);
    *pid = 0;
}
