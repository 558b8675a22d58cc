/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a job's secret from YOKE_SECRET_FILE; ranks on other hosts prove by it that they belong to the job. bootstrap.c calls it in the
 * joining thread.
 *
 * The file must belong to this user or root, and give other users no access. check_file checks the opened descriptor, because the name
 * may stand for another file a moment later.
 */
#include "config.h"

#include "core/base/absent.h"
#include "core/control/start/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/net/auth.h"

static yk_status check_file(const char *path, int fd, yk_error *err)
{
    struct stat st;
    if (fstat(fd, &st))
        return yk__fail(err, YK_E_IO, "%s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return yk__fail(err, YK_E_ARG, "%s: expected a plain file with the job's secret, got another kind: name a plain file", path);
    if (st.st_uid != geteuid() && st.st_uid != 0)
        return yk__fail(err, YK_E_ARG, "%s: the job's secret belongs to user %u: expected %u", path, (unsigned)st.st_uid,
                        (unsigned)geteuid());
    if (st.st_mode & 077)
        return yk__fail(err, YK_E_ARG, "%s: other users can read or write the job's secret (mode %04o): chmod 600 it", path,
                        (unsigned)st.st_mode & 07777);
    if ((uint64_t)st.st_size < YK__AUTH_SECRET_LEAST || (uint64_t)st.st_size > YK__SECRET_MOST)
        return yk__fail(err, YK_E_ARG, "%s: a secret of %lld bytes: expected %u to %u (head -c 32 /dev/urandom > FILE)", path,
                        (long long)st.st_size, YK__AUTH_SECRET_LEAST, YK__SECRET_MOST);
    return YK_OK;
}

/* Marks a descriptor with yoke launch's secret close-on-exec, as programs that this process starts must not have it. */
static void descriptor_keep(const char *path)
{
    unsigned fd;
    int end = 0;
    if (sscanf(path, "/proc/self/fd/%u%n", &fd, &end) == 1 && !path[end])
        fcntl((int)fd, F_SETFD, FD_CLOEXEC);
}

yk_status yk__secret_read(const char *path, uint8_t secret[YK__SECRET_MOST], uint32_t *bytes, yk_error *err)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n;
    if (fd < 0)
        return yk__fail_open(err, path, errno);
    if (check_file(path, fd, err)) {
        close(fd);
        return err->status;
    }
    n = read(fd, secret, YK__SECRET_MOST);
    close(fd);
    descriptor_keep(path);
    if (n < (ssize_t)YK__AUTH_SECRET_LEAST)
        return yk__fail(err, YK_E_IO, "%s: the job's secret cannot be read whole", path);
    *bytes = (uint32_t)n;
    return YK_OK;
}
