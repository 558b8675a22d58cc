/* SPDX-License-Identifier: Apache-2.0 */
/* A Vulkan driver that ends the process as soon as the loader asks it anything: for tests/cts/vulkan.sh. */
#include <signal.h>

__attribute__((visibility("default"))) void *vk_icdGetInstanceProcAddr(void *instance, const char *name);

void *vk_icdGetInstanceProcAddr(void *instance, const char *name)
{
    (void)instance, (void)name;
    raise(SIGABRT);
    return 0;
}
