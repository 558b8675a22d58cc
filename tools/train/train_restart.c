/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mark of a launch (YOKE_RUN_ID) in its output folder (DIR/.yoke-run). An attempt that yoke launch started anew (--max-restarts) finds
 * it, and knows the folder as its own.
 *
 * output.c writes it on rank 0, and cmd_train.c (tools/cmd) asks for it (restart_is_own), in the main thread. checkpoints.c takes only the
 * launch's name (restart_run), to compare it with a checkpoint's. A launch without restarts has no name and writes no file.
 */
#include "tools/train/train_restart.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/option.h"

const char *restart_run(void)
{
    return yk__option_text(YK__OPTION_RUN_ID);
}

static void mark_path(const char *dir, char *path, size_t size)
{
    snprintf(path, size, "%s/.yoke-run", dir);
}

bool restart_is_own(const char *dir)
{
    const char *own = restart_run();
    char path[4352], name[64] = "";
    FILE *f;
    if (!own)
        return false;
    mark_path(dir, path, sizeof path);
    f = fopen(path, "re");
    if (!f)
        return false;
    const bool whole = fscanf(f, "%63s", name) == 1;
    fclose(f);
    return whole && !strcmp(name, own);
}

const char *restart_claim(const char *dir)
{
    const char *own = restart_run();
    char path[4352];
    if (!own || restart_is_own(dir))
        return NULL;
    mark_path(dir, path, sizeof path);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return strerror(errno);
    const bool failed = dprintf(fd, "%s\n", own) < 0;
    const char *why = failed ? strerror(errno) : NULL;
    close(fd);
    return why;
}
