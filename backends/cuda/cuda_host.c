/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's table of services for this plugin (plugin.h): memory, options and log lines, through one global that cuda_plugin.c sets at the
 * start. All files of the plugin call it, in any thread.
 */
#include "backends/cuda/cuda_host.h"

#include "plugins/kit/plugin.h"

const yk_host *cuda_host;

void *cuda_alloc(size_t bytes)
{
    return kit_zeroed(cuda_host, CUDA_WHO, bytes, "the plugin's state");
}

void cuda_free(void *p)
{
    kit_release(cuda_host, p);
}

const char *cuda_option(const char *key)
{
    return kit_option_value(cuda_host, CUDA_WHO, key);
}
