/* SPDX-License-Identifier: Apache-2.0 */
/* Small graphs run by the OpenCL plugin, or another that a test names, through its ABI alone (loaded with dlopen). */
#ifndef YOKE_TESTS_SUPPORT_OPENCL_KIT_H
#define YOKE_TESTS_SUPPORT_OPENCL_KIT_H

#include "tests/support/kit.h"
#include "tests/support/plugin_host.h"

extern const char *ok_name; /* "opencl", unless the test says another before ok_start */
extern const yk_plugin *ok_plugin;
extern yk_device *ok_device;

int ok_start(uint32_t device); /* loads, inits, opens; number of devices, -1 on failure */
void ok_stop(void);

uint32_t ok_claims(kit *k, uint32_t node);
yk_status ok_run(kit *k); /* all nodes; guard bytes are checked */

#endif
