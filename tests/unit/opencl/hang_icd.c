/* SPDX-License-Identifier: Apache-2.0 */
/* An OpenCL driver that never answers: for traps.c. */
#include <unistd.h>

__attribute__((visibility("default"))) void *clGetExtensionFunctionAddress(const char *name);

void *clGetExtensionFunctionAddress(const char *name)
{
    (void)name;
    for (;;)
        pause();
}
