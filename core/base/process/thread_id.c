/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Identifies a thread, and tells from /proc if it is ready to run, by another process of the same host. Number, start time and process
 * namespace together name a thread, as numbers are given out again.
 *
 * live.c (beats of ranks) and transport_watch.c publish their own thread's identity. Before they call a silent peer dead they ask if its
 * thread only waits for a processor. advance.c asks that of its own process's threads, and of a compiler that a driver has started, before
 * it calls an act stuck. Any thread.
 */
#include "core/base/process/thread_id.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Reads a line of /proc, "1234 (name) R ..", whose name may have any letter; returns its rest behind the name, NULL if absent. */
static const char *line_read(const char *path, char *text, size_t size)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return NULL;
    text[n] = 0;
    return strrchr(text, ')');
}

/* The thread's number, its state, and its start (word 22). */
static bool thread_read(const char *path, int32_t *number, char *state, unsigned long long *began)
{
    char text[512];
    const char *rest = line_read(path, text, sizeof text);
    return rest && sscanf(text, "%d", number) == 1 &&
           sscanf(rest, ") %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu", state, began) == 2;
}

yk__thread_id yk__thread_own(void)
{
    struct stat space;
    unsigned long long began = 0;
    int32_t number = 0;
    char state;
    if (!thread_read("/proc/thread-self/stat", &number, &state, &began))
        number = 0;
    return (yk__thread_id){.space = stat("/proc/self/ns/pid", &space) ? 0 : (uint64_t)space.st_ino, .began = began, .number = number};
}

bool yk__thread_ready(const yk__thread_id *thread, uint64_t own_space)
{
    char path[64], state;
    unsigned long long began;
    int32_t number;
    if (thread->number <= 0 || !own_space || thread->space != own_space)
        return false;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)thread->number);
    return thread_read(path, &number, &state, &began) && state == 'R' && began == thread->began;
}

static bool process_ready(int32_t process, int32_t except, int levels);

/* The processes that the thread has started; a kernel without the file shows none. */
static bool children_ready(int32_t process, const char *task, int levels)
{
    char path[96], text[1024], *at = text;
    snprintf(path, sizeof path, "/proc/%d/task/%.20s/children", (int)process, task);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    for (long child; (child = strtol(at, &at, 10)) > 0;)
        if (process_ready((int32_t)child, 0, levels - 1))
            return true;
    return false;
}

/* except: a thread that is left out. levels: 0 for the process alone, 1 with the processes that it has started, 2 with theirs. */
static bool process_ready(int32_t process, int32_t except, int levels)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", (int)process);
    DIR *tasks = opendir(path);
    bool ready = false;
    for (const struct dirent *task; !ready && tasks && (task = readdir(tasks)) != NULL;) {
        char file[96], state = 0;
        unsigned long long began;
        int32_t number;
        if (task->d_name[0] == '.')
            continue;
        snprintf(file, sizeof file, "/proc/%d/task/%.20s/stat", (int)process, task->d_name);
        ready = (atoi(task->d_name) != except && thread_read(file, &number, &state, &began) && state == 'R') ||
                (levels && children_ready(process, task->d_name, levels));
    }
    if (tasks)
        closedir(tasks);
    return ready;
}

bool yk__process_ready(bool children)
{
    return process_ready((int32_t)getpid(), yk__thread_own().number, children ? 3 : 0);
}

bool yk__process_ended(int32_t process)
{
    char path[64], text[512], state;
    long threads;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
    const char *rest = line_read(path, text, sizeof text);
    return rest && sscanf(rest, ") %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %ld", &state, &threads) == 2 &&
           (state == 'Z' || state == 'X') && threads <= 1; /* else its first thread alone has ended */
}
