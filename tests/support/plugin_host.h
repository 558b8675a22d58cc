/* SPDX-License-Identifier: Apache-2.0 */
/* The host of a plugin that a test loads itself: options and cache folder as the test says, and all that the plugin says in one text. */
#ifndef YOKE_TESTS_SUPPORT_PLUGIN_HOST_H
#define YOKE_TESTS_SUPPORT_PLUGIN_HOST_H

#include <stdbool.h>

#include <yoke/plugin.h>

extern const yk_host plugin_host;
extern char plugin_host_text[8192];   /* all log and fail lines, "PLUGIN: LINE\n" each; the test empties it */
extern const char *plugin_host_cache; /* the cache folder, or NULL */
extern bool plugin_host_prints;       /* lines to standard error too */

void plugin_host_option(const char *key, const char *value); /* NULL: not set */
/* The table of yoke_NAME.so of the folder of plugins; NULL, and a line on standard error, if it cannot be loaded. */
const yk_plugin *plugin_host_load(const char *name);

#endif
