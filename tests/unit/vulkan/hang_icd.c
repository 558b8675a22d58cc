/* SPDX-License-Identifier: Apache-2.0 */
/* A Vulkan driver that never answers: for tests/cts/vulkan.sh. */
#include <unistd.h>

__attribute__((visibility("default"))) void *vk_icdGetInstanceProcAddr(void *instance, const char *name);

void *vk_icdGetInstanceProcAddr(void *instance, const char *name)
{
    (void)instance, (void)name;
    for (;;)
        pause();
}
