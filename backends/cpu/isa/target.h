/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The instruction set that the functions of a file are compiled for, whatever the compiler's options say:
 * CPU_TARGET_BEGIN("avx2,fma") before the first of them, CPU_TARGET_END behind the last. The intrinsics' own header comes
 * first, as its functions name their sets themselves.
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
