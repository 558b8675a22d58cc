/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes space for a range of a file in pieces, before it is written, so that a full disk is an error at once.
 *
 * shm_block.c takes shared memory with it, and core/io/tier.c a file on disk; each in its own thread. A signal makes some file systems
 * give back the space of the interrupted call. So one large call might never end under a timer's signals, and pieces do. The callback
 * `ends` stops it between pieces.
 */
#include "config.h"

#include "core/base/process/reserve.h"

#include <errno.h>
#include <fcntl.h>

#include "core/base/advance.h"

#define PIECE ((uint64_t)16 << 20) /* bytes that are reserved by one call: some milliseconds */

int yk__reserve(int fd, uint64_t at, uint64_t bytes, bool (*ends)(const void *user), const void *user)
{
    for (uint64_t done = 0; done < bytes;) {
        const uint64_t piece = bytes - done < PIECE ? bytes - done : PIECE;
        if (ends(user))
            return ECANCELED;
        if (!fallocate(fd, 0, (off_t)(at + done), (off_t)piece))
            done += piece;
        else if (errno != EINTR)
            return errno;
        yk__advance();
    }
    return 0;
}
