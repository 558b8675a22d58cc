/* SPDX-License-Identifier: Apache-2.0 */
/* Libraries of tests/fakes for a test that loads the CUDA plugin itself. A missing one ends the test. */
#ifndef YOKE_TESTS_SUPPORT_FAKES_H
#define YOKE_TESTS_SUPPORT_FAKES_H

#include <stdbool.h>

/* The fake driver runs kernels on x86-64 only: false elsewhere; a line of TAP then skips the test. */
bool fake_cuda_runs(void);
/* Opens NAME.so of the build's fakes; option: the plugin's option that names it from then on, or NULL. */
void *fake_library(const char *name, const char *option);
/* *to, a pointer to a function, gets a symbol of it. */
void fake_symbol(void *library, const char *symbol, void *to);
const char *fake_path(const char *name); /* stays */

#endif
