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
#include <unistd.h>

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

void yk__node_tell(uint32_t rank, const char *text)
{
    printf(YK__NODE_LINE "verdict %u %s\n", rank, text);
    fflush(stdout);
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
