/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of kernels that were compiled with the plugin (configure --with-nvcc), and looking one up. cuda_build.c asks for a unit's image
 * before NVRTC compiles it, in any thread. NULL if the unit is not built in. cuda_list.c asks for the table's key, and fatbin_units.c for a
 * unit's.
 */
#include "backends/cuda/fatbin.h"

#include <string.h>

#include "plugins/kit/plugin.h"

#ifdef CUDA_FATBINS
#include "backends/cuda/fatbins.inc"
#else
static const cuda_fatbin fatbins[] = {{0, NULL}};
#endif

uint64_t cuda_fatbin_key(const char *macros, const char *const part[KIT_PARTS])
{
    uint64_t key = kit_hash(KIT_HASH_SEED, macros, strlen(macros) + 1);
    for (int i = 0; i < KIT_PARTS; i++)
        key = kit_hash(key, part[i], strlen(part[i]));
    return key;
}

const void *cuda_fatbin_find(uint64_t key)
{
    for (const cuda_fatbin *at = fatbins; at->image; at++)
        if (at->key == key)
            return at->image;
    return NULL;
}

uint64_t cuda_fatbins_key(void)
{
    uint64_t key = 0;
    for (const cuda_fatbin *at = fatbins; at->image; at++)
        key = kit_hash(key ? key : KIT_HASH_SEED, &at->key, sizeof at->key);
    return key;
}
