/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data types of values, shared by users (yoke.h) and plugin writers (plugin.h).
 */
#ifndef YOKE_DTYPE_H
#define YOKE_DTYPE_H

#include <stdint.h>

/* enumerator, number (never changes; new types are appended), short name, safetensors name, bytes of an element. A plugin must support
 * f32, i32 and bool (it may emulate bool, four in a word) and declares further types in yk_device_caps.store. A bool is one byte, 0 or 1.
 * Numbers are in the host's byte order, in files little-endian. */
#define YK_DTYPE_TABLE(X)                                                                                              \
    X(YK_F32, 0, "f32", "F32", 4)                                                                                      \
    X(YK_F16, 1, "f16", "F16", 2)                                                                                      \
    X(YK_BF16, 2, "bf16", "BF16", 2)                                                                                   \
    X(YK_F64, 3, "f64", "F64", 8)                                                                                      \
    X(YK_I32, 4, "i32", "I32", 4)                                                                                      \
    X(YK_I64, 5, "i64", "I64", 8)                                                                                      \
    X(YK_U8, 6, "u8", "U8", 1)                                                                                         \
    X(YK_BOOL, 7, "bool", "BOOL", 1)                                                                                   \
    X(YK_I8, 8, "i8", "I8", 1)                                                                                         \
    X(YK_F8E4M3, 9, "f8e4m3", "F8_E4M3", 1)                                                                            \
    X(YK_F8E5M2, 10, "f8e5m2", "F8_E5M2", 1)

typedef enum yk_dtype {
#define YK_DTYPE_ENUM(e, number, name, st, bytes) e = number,
    YK_DTYPE_TABLE(YK_DTYPE_ENUM)
#undef YK_DTYPE_ENUM
        YK_DTYPE_COUNT
} yk_dtype;

/* Bytes of one element; 0 for a number that is no dtype. [any] */
static inline uint32_t yk_dtype_bytes(uint32_t dtype)
{
    static const uint8_t bytes[] = {
#define YK_DTYPE_BYTES(e, number, name, st, n) n,
        YK_DTYPE_TABLE(YK_DTYPE_BYTES)
#undef YK_DTYPE_BYTES
    };
    return dtype < YK_DTYPE_COUNT ? bytes[dtype] : 0;
}

#endif
