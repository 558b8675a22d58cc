/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moments in a file (docs/decisions/0091): the row "file" of the homes of moments. This rank's slices lie in a file of its own. A step
 * takes them in blocks through a few areas of host memory. While the device updates one block, the disk reads the next ones and writes the
 * last. The device that updates is a processor, so its programs work in these areas. The step thread.
 */
#ifndef YOKE_CORE_RUN_VALUES_STATE_FILE_H
#define YOKE_CORE_RUN_VALUES_STATE_FILE_H

#include "core/run/values/state_home.h"

#define YK__STATE_AREAS 3u /* one is updated, one read, one written */

typedef struct yk__state_area {
    float *host;                 /* all moments, `elements` of each */
    struct yk_buffer *buffer[3]; /* by moment */
    uint64_t offset;             /* bytes in front of the block: the begin of its first page */
    uint64_t request;            /* the number of its last read */
} yk__state_area;

typedef struct yk__state_file {
    char *dir;
    struct yk__tier *tier; /* NULL before the moments are made, and on a device that plans only */
    uint64_t most;         /* elements of a block at most; a multiple of the elements of a page */
    uint64_t elements;     /* the same for these buckets */
    yk__state_area area[YK__STATE_AREAS];
    uint32_t bound;        /* the area of the next program */
} yk__state_file;

/* Opens the home for an engine whose device updates in host memory. block: elements of a block at most; 0: 4 MiB of each moment. */
yk_status yk__state_file_new(const char *dir, uint64_t block, yk__state_file **out, yk_error *err);
void yk__state_file_free(yk__state_file *file); /* its moments are gone; takes NULL */
uint64_t yk__state_file_bytes(const struct yk__params *p); /* on the disk */
extern const yk__state_home yk__state_home_file;

#endif
