/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of memory by whole ranges, for the micro-kernels of products under AddressSanitizer. Its check of each load takes several times as
 * long as the products, which are most of a training. A kernel that is CPU_RANGED asks once for each range that it reads or writes. A wrong
 * range ends the process with AddressSanitizer's report, as a wrong load does. In other builds the macros are empty. kernels.h includes
 * it, before a file's target begins.
 */
#ifndef YOKE_BACKENDS_CPU_ISA_RANGES_H
#define YOKE_BACKENDS_CPU_ISA_RANGES_H

#include <stddef.h>
#include <stdint.h>

#if defined __SANITIZE_ADDRESS__
#define CPU_RANGE_CHECKS 1
#elif defined __has_feature
#if __has_feature(address_sanitizer)
#define CPU_RANGE_CHECKS 1
#endif
#endif

#ifdef CPU_RANGE_CHECKS
void *__asan_region_is_poisoned(void *begin, size_t bytes); /* its first wrong byte, NULL if none is wrong */
void __asan_report_load1(void *address);
void __asan_report_store1(void *address);

#define CPU_RANGED __attribute__((no_sanitize("address")))

static inline void cpu_range_read(const void *begin, size_t bytes)
{
    void *wrong = bytes ? __asan_region_is_poisoned((void *)(uintptr_t)begin, bytes) : NULL;
    if (wrong)
        __asan_report_load1(wrong);
}

/* Rows `ld` words apart, of n words each. */
static inline void cpu_range_read_rows(const void *begin, size_t rows, size_t ld, size_t n)
{
    if (ld == n)
        cpu_range_read(begin, 4 * rows * n);
    else
        for (size_t i = 0; i < rows; i++)
            cpu_range_read((const char *)begin + 4 * i * ld, 4 * n);
}

static inline void cpu_range_write_rows(void *begin, size_t rows, size_t ld, size_t n)
{
    for (size_t i = 0; i < rows; i++) {
        void *wrong = __asan_region_is_poisoned((char *)begin + 4 * i * ld, 4 * n);
        if (wrong)
            __asan_report_store1(wrong);
    }
}
#else
#define CPU_RANGE_CHECKS 0
#define CPU_RANGED
#define cpu_range_read(begin, bytes) ((void)(begin))
#define cpu_range_read_rows(begin, rows, ld, n) ((void)(begin))
#define cpu_range_write_rows(begin, rows, ld, n) ((void)(begin))
#endif

#endif
