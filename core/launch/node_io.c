/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The traffic of a node, one host's part of a job, with the launcher while its ranks run. Their lines go to the launcher, each with its
 * rank in front; the launcher's signals go to the ranks. node.c opens it; the loop in launch.c waits for both kinds. One thread.
 */
#include "config.h"

#include "core/launch/node_io.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/option.h"

#define DRAIN_MS 1500  /* a reader that takes nothing for so long counts as gone */
#define SILENT_MS 1200 /* beyond YOKE_LIVENESS_MS: beats share a line with output */

/* ---- Standard output and error ------------------------------------------------------------------------------------ */

static yk__outlet outlets[2] = {{.fd = -1}, {.fd = -1}};

void yk__node_open(void)
{
    yk__outlet_open(&outlets[0], STDOUT_FILENO);
    yk__outlet_open(&outlets[1], STDERR_FILENO);
}

void yk__node_say(const char *what, const char *text)
{
    char line[YK__LINE_MOST];
    int n = snprintf(line, sizeof line, YK__NODE_LINE "%s%s%s\n", what, *text ? " " : "", text);
    n = n < (int)sizeof line ? n : (int)sizeof line - 1;
    line[n - 1] = '\n';
    yk__outlet_put(&outlets[0], line, (size_t)n);
}

void yk__node_tell(uint32_t rank, const char *text)
{
    char what[32];
    snprintf(what, sizeof what, "verdict %u", rank);
    yk__node_say(what, text);
}

void yk__node_drain(void)
{
    for (int i = 0; i < 2; i++)
        yk__outlet_drain(&outlets[i], DRAIN_MS);
}

/* The last word stands behind all output, and is lost with any of it. */
void yk__node_close(void)
{
    yk__outlet_drain(&outlets[1], DRAIN_MS);
    if (!outlets[0].lost && !outlets[1].lost)
        yk__node_say("end", "");
    yk__outlet_drain(&outlets[0], DRAIN_MS);
    for (int i = 0; i < 2; i++)
        yk__outlet_close(&outlets[i]);
}

/* ---- While ranks run ---------------------------------------------------------------------------------------------- */

nfds_t yk__node_poll(const yk__node *node, struct pollfd *poll)
{
    nfds_t n = 0;
    poll[n++] = (struct pollfd){node->orders, POLLIN, 0};
    for (uint32_t i = 0; i < 2; i++)
        poll[n++] = (struct pollfd){yk__outlet_waits(&outlets[i]) ? outlets[i].fd : -1, POLLOUT, 0};
    for (uint32_t i = 0; i < 2 * node->ranks; i++)
        poll[n++] = (struct pollfd){yk__outlet_full(&outlets[i % 2]) ? -1 : node->output[i].fd, POLLIN, 0};
    return n;
}

typedef struct printer {
    yk__outlet *to;
    uint32_t rank;
} printer;

static void line_pass(void *context, const char *text, size_t bytes)
{
    const printer *of = context;
    char line[YK__LINE_MOST + 24];
    int n = snprintf(line, sizeof line, "[%u] ", of->rank);
    memcpy(line + n, text, bytes);
    n += (int)bytes;
    if (text[bytes - 1] != '\n')
        line[n++] = '\n';
    yk__outlet_put(of->to, line, (size_t)n);
}

static bool node_pump(yk__node *node, bool all)
{
    bool came = false;
    for (uint32_t i = 0; i < 2; i++)
        yk__outlet_flush(&outlets[i]);
    for (uint32_t i = 0; i < 2 * node->ranks; i++) {
        printer of = {&outlets[i % 2], node->first + i / 2};
        if (all || !yk__outlet_full(of.to))
            came = yk__lines_pump(&node->output[i], line_pass, &of) || came;
    }
    return came;
}

void yk__node_pump(yk__node *node)
{
    node_pump(node, false);
}

void yk__node_finish(yk__node *node)
{
    for (int i = 0; i < YK__PIPE_PUMPS && node_pump(node, true); i++)
        if (!outlets[0].lost && !outlets[1].lost)
            yk__node_drain();
}

static bool is_order(int sig)
{
    return sig == SIGINT || sig == SIGTERM || sig == SIGHUP || sig == SIGUSR1 || sig == SIGTSTP || sig == SIGCONT;
}

int yk__node_order(yk__node *node)
{
    struct pollfd p = {node->orders, POLLIN, 0};
    uint8_t sig = 0;
    while (node->orders >= 0 && poll(&p, 1, 0) > 0) {
        const ssize_t n = read(node->orders, &sig, 1);
        node->heard = node->heard || n == 1;
        if (n == 1 && is_order(sig))
            return sig;
        if (n == 1 || (n < 0 && (errno == EINTR || errno == EAGAIN)))
            continue;
        node->orders = -1;
        return -1;
    }
    return 0;
}

int64_t yk__node_silence_ms(void)
{
    const int64_t liveness = (int64_t)yk__option_number(YK__OPTION_LIVENESS_MS);
    return liveness ? liveness + SILENT_MS : 0;
}

/* A step's length is limited: a longer one is this process's own pause. */
bool yk__node_beat(yk__node *node)
{
    const int64_t now = yk__clock_ms(), step = node->checked_at ? now - node->checked_at : 0, limit = yk__node_silence_ms();
    node->silent_ms = node->heard ? 0 : node->silent_ms + (step < YK__NODE_BEAT_MS ? step : YK__NODE_BEAT_MS);
    node->heard = false;
    node->checked_at = now;
    if (now - node->beat_at >= YK__NODE_BEAT_MS && !yk__outlet_waits(&outlets[0])) {
        yk__node_say("beat", "");
        node->beat_at = now;
    }
    return !limit || node->silent_ms < 2 * limit; /* the launcher, which watches all hosts, must notice first */
}
