/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ways out of a lack of a device's memory: options that this job does not use, and that make the part smaller that is too large.
 * Thread rule: the step thread.
 */
#ifndef YOKE_CORE_RUN_REMEDIES_H
#define YOKE_CORE_RUN_REMEDIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Parts of a device's memory. */
enum { YK__OF_ACTIVATIONS = 1, YK__OF_PARAMS = 2, YK__OF_GRADS = 4, YK__OF_STATE = 8 };

/* Options that are open to a job; zero names none but a smaller batch. */
typedef struct yk__remedies {
    bool trains;          /* the job has steps, which micro batches can part */
    bool evaluates;       /* the program at hand has no backward pass: neither micro batches nor its options make it smaller */
    bool recomputes;      /* --gradient-checkpointing is open: neither it nor a limit makes activations be computed again */
    bool stores;          /* --offload activations=host */
    bool state_host;      /* --offload state=host */
    bool state_disk;      /* --offload state=nvme:DIR */
    bool gradients;       /* --shard gradients */
    bool params;          /* --shard params */
    uint64_t rows;        /* rows in this rank's micro batch; 0: unknown */
    const char *place;    /* the places that --offload has already, "state=host,"; NULL or "": none */
} yk__remedies;

/* A lack of memory. */
typedef struct yk__lack {
    uint32_t parts;  /* YK__OF_..: parts of which each one could make room */
    bool limited;    /* a limit of the user's refuses, not the device */
    uint64_t times;  /* by which a micro batch is too large, at least; 0: unknown */
} yk__lack;

/* Writes the ways out as a list, "raise the limit, or --shard params"; "" if none is known. */
void yk__remedies_write(const yk__remedies *r, const yk__lack *lack, char *text, size_t size);

#endif
