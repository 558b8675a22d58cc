/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of this program as a child, whose JSON on standard output a command reads. */
#ifndef YOKE_TOOLS_PLAN_CHILD_H
#define YOKE_TOOLS_PLAN_CHILD_H

#include <stddef.h>
#include <stdint.h>

/* A word of argv, which a child does not change. */
static inline char *child_word(const char *s)
{
    return (char *)(uintptr_t)s;
}

/* Runs argv and reads its standard output into out, with a NUL. errors: a file for its standard error; NULL: it stays this process's. The
 * child dies with this thread, and is killed after `most` seconds. Returns the exit code; -1 for a child that was not started, was killed,
 * or wrote more than fits. errno: the reason why it was not started, ETIMEDOUT after `most` seconds, else 0. */
int child_run(char **argv, double most, const char *errors, char *out, size_t size);

/* Sets a variable of the environment for the children that follow, NULL: takes it away. child_restore gives back the state before; *kept is
 * theirs. Thread rule: no other thread may use the environment meanwhile. */
void child_set(const char *name, const char *value, char **kept);
void child_restore(const char *name, char **kept);

#endif
