/* SPDX-License-Identifier: Apache-2.0 */
/* Environment variables by their names alone. Thread rule: from one thread, before others write the environment. */
#ifndef YOKE_CORE_BASE_OPTION_NAMES_H
#define YOKE_CORE_BASE_OPTION_NAMES_H

#include <stdbool.h>
#include <stdint.h>

/* True if an unknown name ("YOKE_BUKET_BYTES=..") is foreign: it begins with the name of one of these plugins ("cpu, opencl"), belongs
 * to Yoke's own tests and scripts, or comes with a Kubernetes service called yoke. */
bool yk__option_foreign(const char *name, const char *plugins);
/* Returns the number of unknown YOKE_* variables; calls one() for each, with its name and the nearest known name or NULL. */
uint32_t yk__options_unknown(const char *plugins, void (*one)(const char *name, const char *nearest));
/* Logs one warning per unknown variable. */
void yk__options_warn(const char *plugins);

#endif
