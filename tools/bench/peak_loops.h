/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loops at the hardware's peak: multiply-add on full registers, dot products of short formats, reading, copying and filling memory.
 * `yoke bench peaks` times them; a floor is work over such a peak.
 *
 * The loops are plain functions without state: any thread may run them. The lists leave out loops for an instruction set that the
 * machine lacks.
 */
#ifndef YOKE_TOOLS_BENCH_PEAK_LOOPS_H
#define YOKE_TOOLS_BENCH_PEAK_LOOPS_H

#include <stddef.h>
#include <stdint.h>

typedef struct peaks_math {
    const char *format; /* format of the factors: "fp32", "bf16", "int8"; sums are 32 bits wide */
    const char *isa;    /* the instruction, for the report: "avx512 fma" */
    double ops;         /* additions and multiplications of one turn */
    void (*run)(uint64_t iterations);
    void (*begin)(void); /* called in each thread before run, and end after it; NULL for no call */
    void (*end)(void);
} peaks_math;

typedef struct peaks_memory {
    const char *what; /* "read", "copy", "fill"; with "_nt" past the caches */
    int bytes;        /* moved for each byte of the buffer: 1, or 2 for a copy */
    void (*run)(char *to, const char *from, size_t bytes); /* whole multiples of PEAKS_LINE, aligned to it */
} peaks_memory;

enum { PEAKS_LINE = 512, PEAKS_MOST = 12 };

/* Lists the loops that this machine can run; returns the number of entries, at most PEAKS_MOST. */
int peaks_math_list(peaks_math out[PEAKS_MOST]);
int peaks_memory_list(peaks_memory out[PEAKS_MOST]);

#endif
