/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a checkpoint's files of tensors by ranges: owners write their slices into the same files, and rank 0 the rest. yk_save calls it on
 * all ranks, and an emergency checkpoint on one, in the step thread.
 *
 * A rank that does not reach rank 0's folder sends its slices to rank 0 (docs/decisions/0099). All ranks go through the same ranges in one
 * order, so that they meet where slices are sent.
 */
#include "core/job/checkpoint/writers.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "core/base/advance.h"
#include "core/base/byte_order.h"
#include "core/base/crc32c.h"
#include "core/io/folder.h"
#include "core/io/range_file.h"

#define PIECE ((uint64_t)1 << 20) /* bytes that are read and written at once */
#define MARK_BYTES 16

/* ---- The ranks that write ---- */

/* Opens the folder once for all files. If a later attempt of the job has a new folder of this name, a late rank does not write there. */
static bool folder_open(yk__writers *w)
{
    w->dir = open(w->folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return w->dir >= 0;
}

/* The mark is a file with random bytes that rank 0 puts into its folder. A disk that hangs is found here, while the other ranks watch. */
static yk_status mark_write(yk__writers *w, char mark[MARK_BYTES], yk_error *err)
{
    YK__ACT_HERE(YK__ACT_FILE);
    if (getrandom(mark, MARK_BYTES, 0) != MARK_BYTES)
        return yk__fail(err, YK_E_IO, "a checkpoint's mark: getrandom: %s", strerror(errno));
    const int fd = folder_open(w) ? openat(w->dir, YK__CHECKPOINT_MARK, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666) : -1;
    bool good = fd >= 0 && write(fd, mark, MARK_BYTES) == MARK_BYTES && !yk__folder_sync_file(fd);
    const int error = errno;
    good = (fd < 0 || !close(fd)) && good;
    return good ? YK_OK : yk__fail(err, YK_E_IO, "%s/" YK__CHECKPOINT_MARK ": cannot be written: %s", w->folder, strerror(error));
}

/* Opens the mark as the files are opened: a rank that may not write there sends its slices. */
static bool mark_found(yk__writers *w, const char mark[MARK_BYTES])
{
    YK__ACT_HERE(YK__ACT_FILE);
    char have[MARK_BYTES + 1];
    const int fd = folder_open(w) ? openat(w->dir, YK__CHECKPOINT_MARK, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC) : -1;
    const bool found = fd >= 0 && read(fd, have, sizeof have) == MARK_BYTES && !memcmp(have, mark, MARK_BYTES);
    if (fd >= 0)
        close(fd);
    return found;
}

static yk_status mark_remove(const yk__writers *w, yk_error *err)
{
    if (unlinkat(w->dir, YK__CHECKPOINT_MARK, 0))
        yk__fail(err, YK_E_IO, "%s/" YK__CHECKPOINT_MARK ": cannot be removed: %s", w->folder, strerror(errno));
    return err->status;
}

/* all: [ranks][MARK_BYTES]. */
static yk_status find_writers(yk__writers *w, char *all, yk_error *err)
{
    yk__group *group = w->job->team.group;
    char mark[MARK_BYTES] = {0};
    bool found;
    if ((w->checkpoint && mark_write(w, mark, err)) || yk__group_all_gather(group, mark, sizeof mark, all, err))
        return err->status;
    found = w->checkpoint || mark_found(w, all);
    if (yk__group_all_gather(group, &found, sizeof found, w->writes, err))
        return err->status;
    return w->checkpoint ? mark_remove(w, err) : YK_OK;
}

yk_status yk__writers_open(yk__writers *w, yk_job *job, const char *dir, yk__checkpoint *checkpoint, yk_error *err)
{
    const uint32_t world = job->team.world;
    char *all = yk__malloc((size_t)world * MARK_BYTES);
    *w = (yk__writers){job, checkpoint, yk__checkpoint_temporary(dir), yk__calloc(world, sizeof *w->writes), AT_FDCWD};
    if (!all || !w->folder || !w->writes)
        yk__fail_mem(err, (size_t)world * MARK_BYTES, "a checkpoint");
    else if (world == 1)
        w->writes[0] = true;
    else
        find_writers(w, all, err);
    yk__free(all);
    return err->status;
}

void yk__writers_close(yk__writers *w)
{
    if (w->dir >= 0 && w->writes)
        close(w->dir);
    yk__free(w->folder);
    yk__free(w->writes);
    *w = (yk__writers){0};
}

/* ---- One file ---- */

/* A file on this rank. */
typedef struct file_part {
    yk__writers *w;
    const yk__tensors_out *out;
    yk__range_file file; /* zeros if this rank writes none of it */
    void *piece;         /* PIECE bytes */
} file_part;

/* The job may end for another rank's failure while this rank has much to write. */
static yk_status check_end(const file_part *f, yk_error *err)
{
    const yk__group *group = f->w->job->team.group;
    if (f->w->writes && __atomic_load_n(yk__group_cancel(group), __ATOMIC_ACQUIRE))
        return yk__fail(err, YK_E_CANCELLED, "the job ends");
    return YK_OK;
}

/* Brings elements of tensor i from their owner to their writer, and writes them at byte `place` of the file. */
static yk_status range_write(file_part *f, int64_t i, uint32_t owner, uint64_t from, uint64_t n, uint64_t place, yk_error *err)
{
    const yk__writers *w = f->w;
    const uint64_t each = yk_dtype_bytes(f->out->tensor[i].dtype);
    const bool single = !w->writes || owner == YK_NONE || w->writes[owner];
    const uint32_t writer = single && owner != YK_NONE ? owner : 0;
    const bool is_writer = !w->writes || writer == w->job->team.rank;
    if (check_end(f, err) || (!is_writer && (single || !f->out->is_shared)))
        return err->status;
    if (f->out->read(f->out->user, i, from, n, single, f->piece, err) || !is_writer)
        return err->status;
    if (!YK__LITTLE_ENDIAN) /* the file is */
        yk__bytes_swap(f->piece, n * each, (uint32_t)each);
    return yk__range_file_write(&f->file, place, f->piece, n * each, err);
}

static uint64_t tensor_elements(const yk__safetensors_out *tensor)
{
    uint64_t n = 1;
    for (int k = 0; k < tensor->rank; k++)
        n *= (uint64_t)tensor->shape[k];
    return n;
}

/* place: of the tensor's first byte. */
static yk_status tensor_write(file_part *f, int64_t i, uint64_t place, yk_error *err)
{
    const uint64_t each = yk_dtype_bytes(f->out->tensor[i].dtype), n = tensor_elements(&f->out->tensor[i]), most = PIECE / each;
    for (uint64_t at = 0, to = 0; at < n && !err->status; at = to) {
        const uint32_t owner = f->out->owner(f->out->user, i, at, &to);
        to = to - at < most ? to : at + most;
        range_write(f, i, owner, at, to - at, place + at * each, err);
    }
    return err->status;
}

static yk_status tensors_write(file_part *f, uint64_t place, yk_error *err)
{
    for (int64_t i = 0; i < f->out->n && !err->status; i++) {
        tensor_write(f, i, place, err);
        place += tensor_elements(&f->out->tensor[i]) * yk_dtype_bytes(f->out->tensor[i].dtype);
    }
    return err->status;
}

/* Rank 0 makes the file, and the other ranks open it behind that. */
static yk_status file_open(file_part *f, const yk__safetensors_header *header, yk_error *err)
{
    const yk__writers *w = f->w;
    const uint64_t bytes = header->bytes + header->data_bytes;
    if (w->checkpoint && (yk__range_file_open(&f->file, w->dir, w->folder, f->out->name, bytes, true, err) ||
                          yk__range_file_write(&f->file, 0, header->text, header->bytes, err)))
        return err->status;
    if (!w->writes || yk__group_barrier(w->job->team.group, err))
        return err->status;
    if (!w->checkpoint && w->writes[w->job->team.rank] &&
        yk__range_file_open(&f->file, w->dir, w->folder, f->out->name, bytes, false, err)) {
        yk_error end = YK_ERROR_INIT;
        if (check_end(f, &end)) /* rank 0 removed the file for that reason */
            *err = end;
    }
    return err->status;
}

/* A rank's part of a file's sum, and the sum of its header: names, shapes and offsets of the tensors. */
typedef struct part_sums {
    uint32_t part, header;
} part_sums;

/* Behind it, all ranks' ranges are on the disk, at the same offsets. */
static yk_status sums_join(const yk__writers *w, const char *name, part_sums *sums, yk_error *err)
{
    part_sums *all;
    if (!w->writes)
        return YK_OK;
    all = yk__malloc(w->job->team.world * sizeof *all);
    if (!all)
        return yk__fail_mem(err, w->job->team.world * sizeof *all, "a checkpoint");
    if (!yk__group_all_gather(w->job->team.group, sums, sizeof *sums, all, err)) {
        sums->part = 0;
        for (uint32_t r = 0; r < w->job->team.world && !err->status; r++) {
            sums->part ^= all[r].part;
            if (all[r].header != all[0].header)
                yk__fail(err, YK_E_ARG, "%s/%s: expected the same tensors on all ranks, got others on rank %u than on rank 0: make the "
                         "same parameters and states on each rank", w->folder, name, r);
        }
    }
    yk__free(all);
    return err->status;
}

yk_status yk__writers_file(yk__writers *w, const yk__tensors_out *out, yk_error *err)
{
    const char *const meta[] = {"format", "pt"};
    file_part f = {.w = w, .out = out, .piece = yk__malloc(PIECE)};
    yk__safetensors_header header = {0};
    part_sums sums = {0};
    if (!f.piece)
        yk__fail_mem(err, PIECE, "a piece of a checkpoint");
    else if (!yk__safetensors_header_make(out->name, out->tensor, out->n, meta, 1, &header, err) && !file_open(&f, &header, err))
        tensors_write(&f, header.bytes, err);
    yk__range_file_close(&f.file, err);
    sums.part = f.file.sum;
    sums.header = err->status ? 0 : yk__crc32c(0, header.text, header.bytes);
    yk__free(header.text);
    yk__free(f.piece);
    if (err->status || sums_join(w, out->name, &sums, err) || !w->checkpoint)
        return err->status;
    const uint64_t bytes = header.bytes + header.data_bytes;
    return yk__checkpoint_add(w->checkpoint, out->name, bytes, yk__crc32c_whole(sums.part, bytes), err);
}
