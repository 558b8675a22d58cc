/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transports that are shared objects (yoke/transport.h): transport_NAME.so in the folder of plugins, by the rules of plugins.
 * Thread rule: any thread.
 */
#ifndef YOKE_CORE_DEVICE_TRANSPORT_LOAD_H
#define YOKE_CORE_DEVICE_TRANSPORT_LOAD_H

#include <yoke/transport.h>

#include "core/base/error.h"

/* The file of a name in the folder of plugins; a text with a '/' is a path and stays as it is. Allocated. NULL with YK_E_ARG and the
 * list of names for an unknown name. */
char *yk__transport_path(const char *name_or_path, yk_error *err);
/* Loads a transport; its table stays until the process ends. YK_E_ARG for an unknown name, YK_E_ABI for a file that is no transport, or
 * of another major. */
yk_status yk__transport_load(const char *name_or_path, const yk_transport **table, yk_error *err);
/* Names of the transports in the folder, separated by ", "; allocated; NULL if memory is out. */
char *yk__transport_names(void);
/* A transport's description of itself, or the reason why it cannot be used; "" if it has none. */
void yk__transport_describe(const char *name, char *text, size_t capacity);

#endif
