/* SPDX-License-Identifier: Apache-2.0 */
/* Small graphs run by the OpenCL plugin through its ABI alone (loaded with dlopen). */
#ifndef YOKE_TESTS_SUPPORT_OPENCL_KIT_H
#define YOKE_TESTS_SUPPORT_OPENCL_KIT_H

#include "tests/support/kit.h"

extern const yk_plugin *ok_plugin;
extern yk_device *ok_device;
extern const char *ok_option_key[8], *ok_option_value[8]; /* what the host answers for options */
extern const char *ok_cache_dir;
extern int ok_quiet;
extern char ok_log_text[8192]; /* all log and fail lines */

const yk_plugin *ok_load(void);         /* NULL: not built */
int ok_start(uint32_t device);          /* loads, inits, opens; number of devices, -1 on failure */
void ok_stop(void);

uint32_t ok_claims(kit *k, uint32_t node);
yk_status ok_run(kit *k); /* all nodes; guard bytes are checked */

#endif
