/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiled code kept between processes: a file of the host's cache folder for each key, with a header and a checksum. One that
 * does not fit is thrown away, as if it had not been there; so is what cannot be written. No state: any thread, any process.
 */
#ifndef YOKE_PLUGINS_KIT_CACHE_H
#define YOKE_PLUGINS_KIT_CACHE_H

#include <yoke/plugin.h>

/* Of whom: who speaks in the log, and how the names of its files begin. */
typedef struct kit_cache {
    const yk_host *host;
    const char *plugin, *prefix;
} kit_cache;

void *kit_cache_read(const kit_cache *cache, uint64_t key, size_t *bytes); /* of host->alloc; NULL: there is none */
void kit_cache_write(const kit_cache *cache, uint64_t key, const void *data, size_t bytes);
void kit_cache_drop(const kit_cache *cache, uint64_t key); /* what was read is of no use */

#endif
