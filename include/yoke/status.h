/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Status codes, returned by every Yoke function that can fail. Shared by users (yoke.h) and plugin writers (plugin.h).
 */
#ifndef YOKE_STATUS_H
#define YOKE_STATUS_H

/* name, meaning */
#define YK_STATUS_TABLE(X)                                                                                             \
    X(YK_OK, "success")                                                                                                \
    X(YK_E_ARG, "an argument or a setting is wrong")                                                                   \
    X(YK_E_MEM, "out of memory")                                                                                       \
    X(YK_E_UNSUPPORTED, "not supported here")                                                                          \
    X(YK_E_TIMEOUT, "timed out")                                                                                       \
    X(YK_E_DEVICE_LOST, "the device or its rank was lost")                                                             \
    X(YK_E_IO, "reading or writing failed")                                                                            \
    X(YK_E_ABI, "a plugin does not fit this host")                                                                     \
    X(YK_E_INTERNAL, "a fault inside Yoke")                                                                            \
    X(YK_E_FORMAT, "a file or message is not in the expected format")                                                  \
    X(YK_E_CANCELLED, "cancelled")                                                                                     \
    X(YK_E_NUMERIC, "a number that has to be finite is not")

typedef enum yk_status {
#define YK_STATUS_ENUM(name, text) name,
    YK_STATUS_TABLE(YK_STATUS_ENUM)
#undef YK_STATUS_ENUM
        YK_STATUS_COUNT
} yk_status;

#endif
