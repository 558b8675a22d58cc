/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines on standard error: one line each, lower case, "yoke[rank]: SUBJECT: EVENT (REASON)".
 * YOKE_LOG=error|warn|info|debug|trace sets the level (default warn). Thread-safe; a line is written by one write().
 */
#ifndef YOKE_CORE_BASE_LOG_H
#define YOKE_CORE_BASE_LOG_H

#include <stdbool.h>

enum { YK_LOG_ERROR = 0, YK_LOG_WARN, YK_LOG_INFO, YK_LOG_DEBUG, YK_LOG_TRACE };

int yk__log_level(void);
void yk__log_set_level(int level);
void yk__log_set_rank(int rank); /* -1 (the default) leaves the rank out */
/* Lines go to write(user, line) from now on, without the newline; NULL: to standard error. From any thread, one at a time: it makes no call
 * that may log. */
void yk__log_set_writer(void (*write)(void *user, const char *line), void *user);
/* Hands a line of the caller's own making to the writer; false without one: the caller prints it. */
bool yk__log_give(const char *line);
void yk__log_line(const char *fmt, ...) __attribute__((format(printf, 1, 2))); /* as it is, whatever the level */
void yk__log(int level, const char *who, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
