/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Identifies a thread, and tells from /proc if it is ready to run, by another process of the same host. Number, start time and process
 * namespace together name a thread, as numbers are given out again.
 *
 * live.c (beats of ranks) and transport_watch.c publish their own thread's identity. Before they call a silent peer dead they ask if its
 * thread only waits for a processor. advance.c asks that of its own process's threads, before it calls an act stuck. Any thread.
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

bool yk__threads_ready(void)
{
    const int32_t own = yk__thread_own().number;
    DIR *tasks = opendir("/proc/self/task");
    bool ready = false;
    for (const struct dirent *task; !ready && tasks && (task = readdir(tasks)) != NULL;) {
        char path[sizeof "/proc/self/task/" + sizeof task->d_name + sizeof "/stat"], state = 0;
        unsigned long long began;
        int32_t number;
        snprintf(path, sizeof path, "/proc/self/task/%s/stat", task->d_name);
        ready = task->d_name[0] != '.' && atoi(task->d_name) != own && thread_read(path, &number, &state, &began) && state == 'R';
    }
    if (tasks)
        closedir(tasks);
    return ready;
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
