/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiled code kept between processes: one file per key in the host's cache folder, with a header and a checksum. A file that does not
 * match is deleted and counts as absent; a failed write is ignored. With a limit, a write deletes the files that were read or written the
 * longest time ago, until the rest fits. No state: any thread, any process.
 */
#ifndef YOKE_PLUGINS_KIT_KIT_CACHE_H
#define YOKE_PLUGINS_KIT_KIT_CACHE_H

#include <yoke/plugin.h>

/* The owner of the files: its name in the log, and the prefix of file names. */
typedef struct kit_cache {
    const yk_host *host;
    const char *plugin, *prefix;
    uint64_t most; /* bytes that files of this prefix take together; 0: no limit */
} kit_cache;

void *kit_cache_read(const kit_cache *cache, uint64_t key, size_t *bytes); /* memory of host->alloc; NULL if absent */
void kit_cache_write(const kit_cache *cache, uint64_t key, const void *data, size_t bytes);
void kit_cache_drop(const kit_cache *cache, uint64_t key); /* deletes a file whose contents were useless */

#endif
