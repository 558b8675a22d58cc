/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines: built in one buffer and written by one write(), so that lines of several ranks do not mix. Any thread, in any process of Yoke.
 *
 * yk__log is for events, by level. yk__log_line prints lines without a level or a prefix of its own: the table of ranks, the notes on
 * offloading, yk_warn. standing.c (core/job/session) and pipe_lines.c (core/launch) hand lines that they made to yk__log_give. They print
 * them if it is false, and standing.c also if the writer takes longer than a second. A unit test alone calls yk__log_set_level. YOKE_LOG
 * gives the level when it is first needed, group.c the rank once it has joined, and yk_set_log (core/job/embed.c) a writer. A larger level
 * is a less important line.
 */
#include "core/base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/advance.h"
#include "core/base/error.h"
#include "core/base/option.h"

static atomic_int log_level = -1;
static atomic_int log_rank = -1;
static pthread_mutex_t writer_lock = PTHREAD_MUTEX_INITIALIZER;
static void (*_Atomic writer)(void *user, const char *line); /* NULL: standard error */
static void *writer_user;

int yk__log_level(void)
{
    int level = atomic_load(&log_level);
    if (level < 0) {
        level = (int)yk__option_words(YK__OPTION_LOG); /* its words are in the order of the levels */
        atomic_store(&log_level, level);
    }
    return level;
}

void yk__log_set_level(int level)
{
    atomic_store(&log_level, level);
}

void yk__log_set_rank(int rank)
{
    atomic_store(&log_rank, rank);
}

void yk__log_set_writer(void (*write)(void *user, const char *line), void *user)
{
    pthread_mutex_lock(&writer_lock);
    writer_user = user;
    atomic_store(&writer, write);
    pthread_mutex_unlock(&writer_lock);
}

/* Takes no lock without a writer. A program's signal handler may interrupt it and call exit(), whose functions may log. */
bool yk__log_give(const char *line)
{
    if (!atomic_load(&writer))
        return false;
    pthread_mutex_lock(&writer_lock);
    void (*const write_line)(void *user, const char *line) = atomic_load(&writer);
    if (write_line)
        write_line(writer_user, line);
    pthread_mutex_unlock(&writer_lock);
    return write_line;
}

/* line has room for a newline. A pager, a stopped terminal or the writer may block this thread, which is not stuck then. */
static void line_put(char *line)
{
    YK__ACT_HERE(YK__ACT_OUTSIDE);
    const size_t n = strlen(line);
    const bool is_taken = yk__log_give(line);
    line[n] = '\n';
    if (!is_taken && write(STDERR_FILENO, line, n + 1) < 0)
        return; /* nobody is left to tell */
}

void yk__log(int level, const char *who, const char *fmt, ...)
{
    char line[1200];
    int n, rank = atomic_load(&log_rank);
    va_list ap;
    if (level > yk__log_level())
        return;
    n = rank < 0 ? snprintf(line, sizeof line, "yoke: %.64s: ", who)
                 : snprintf(line, sizeof line, "yoke[%d]: %.64s: ", rank, who);
    if (n < 0 || (size_t)n >= sizeof line - 2)
        return;
    va_start(ap, fmt);
    vsnprintf(line + n, sizeof line - (size_t)n - 1, fmt, ap);
    va_end(ap);
    for (size_t end = strlen(line); end && line[end - 1] == '\n'; end--) /* a plugin's own end of the line */
        line[end - 1] = 0;
    line_put(yk__printable(line)); /* it may have words of a plugin, a file or a driver */
}

void yk__log_line(const char *fmt, ...)
{
    char line[1200];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line - 1, fmt, ap);
    va_end(ap);
    line_put(line);
}
