/* SPDX-License-Identifier: Apache-2.0 */
/* Environment variables by their names alone. Thread rule: from one thread, before others write the environment. */
#ifndef YOKE_CORE_BASE_OPTION_NAMES_H
#define YOKE_CORE_BASE_OPTION_NAMES_H

#include <stdbool.h>
#include <stdint.h>

/* For an unknown name of the environment ("YOKE_BUKET_BYTES=.."): whether it belongs to somebody else, that is, begins with the
 * name of one of these plugins ("cpu, opencl"), is one of Yoke's own tests and scripts, or comes with a Kubernetes service called yoke. */
bool yk__option_foreign(const char *name, const char *plugins);
/* The number of YOKE_* variables that nobody knows; of each, one() gets the name and the nearest known one or NULL. */
uint32_t yk__options_unknown(const char *plugins, void (*one)(const char *name, const char *nearest));
/* One warning for each of them. */
void yk__options_warn(const char *plugins);

#endif
