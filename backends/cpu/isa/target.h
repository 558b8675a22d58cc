/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The instruction set of a file's functions, independent of the compiler's options: CPU_TARGET_BEGIN("avx2,fma") before the first
 * function, CPU_TARGET_END after the last. The intrinsics' header comes before, as its functions name their own sets.
 */
#ifndef YOKE_BACKENDS_CPU_ISA_TARGET_H
#define YOKE_BACKENDS_CPU_ISA_TARGET_H

#include <immintrin.h>

#define CPU_TARGET_PRAGMA(text) _Pragma(#text)
#if defined __clang__
#define CPU_TARGET_BEGIN(sets) \
    CPU_TARGET_PRAGMA(clang attribute push(__attribute__((target(sets))), apply_to = function))
#define CPU_TARGET_END CPU_TARGET_PRAGMA(clang attribute pop)
#else
#define CPU_TARGET_BEGIN(sets) CPU_TARGET_PRAGMA(GCC target(sets))
#define CPU_TARGET_END
#endif

#endif
