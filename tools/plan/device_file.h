/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Described devices: memory and times by which a plan predicts a step. `yoke info --describe` measures and writes the file, and
 * `--device-file` reads it on another machine. The file is JSON, or YAML of the same keys:
 *
 *   {"format": "yoke-devices", "precision": "fp32", "line": 8e-11, "step": 2e-4, "together": 1.1,
 *    "devices": [{"name": "cpu:0", "model": "..", "count": 2, "memory": 8589934592, "host": true,
 *                 "products": 2.5e-11, "moved": 1e-10, ..}]}
 *
 * Times are seconds for one unit of work_count.h: of an operation, a byte, an element, a node. An absent time is 0. A device with memory of
 * its own has "offload", too: the seconds of an element that the host updates for it (--offload state=host). "disk" beside "line" is the
 * time of a byte that a rank reads from its disk, or writes there (--offload state=nvme:DIR).
 */
#ifndef YOKE_TOOLS_PLAN_DEVICE_FILE_H
#define YOKE_TOOLS_PLAN_DEVICE_FILE_H

#include <stdio.h>

#include "core/io/tree.h"
#include "tools/plan/work_count.h"

/* X(name, meaning): seconds for each unit of work, in the order of WORK_TABLE, then of a step. */
#define TIMES_TABLE(X)                                                                                                 \
    WORK_TABLE(X)                                                                                                      \
    X(update, "elements that a rank updates")                                                                          \
    X(step, "steps")

typedef struct times {
#define X(name, unit) double name;
    TIMES_TABLE(X)
#undef X
} times;

enum { TIMES_FIELDS = sizeof(times) / sizeof(double) };
extern const char *const times_names[TIMES_FIELDS];

enum { DEVICES_NAME = 96 };

typedef struct device_row {
    char name[DEVICES_NAME], model[DEVICES_NAME]; /* specification; the plugin's name for the device */
    uint32_t count;
    uint64_t memory; /* bytes that a rank may use; 0: unknown */
    bool host;       /* its memory is the host's */
    bool served;     /* it is here, and --offload lets the host update for it */
    times times;
    double offload; /* seconds of an element that the host updates for this device, with its copies; 0: unknown */
} device_row;

typedef struct devices {
    char precision[8];
    double line;     /* seconds that a byte takes between ranks */
    double step;     /* seconds that a step of all ranks takes beside its work */
    double disk;     /* seconds of a byte of state that a disk reads or writes; 0: unknown */
    double together; /* a rank's time beside the other ranks over its time alone, at least 1 */
    uint32_t n, ranks;
    device_row *row; /* n of them, with `ranks` ranks together */
} devices;

enum { DEVICES_RANKS = 1 << 16 }; /* most of a file */

/* Reads a file, or a tree of one; YK_E_FORMAT names file, line and key. `name`: the file's, for messages. */
yk_status devices_load(const char *path, devices *d, yk_error *err);
yk_status devices_read(const char *name, const yk__tree *tree, devices *d, yk_error *err);
void devices_write(const devices *d, FILE *f);
void devices_free(devices *d);

#endif
