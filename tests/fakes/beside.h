/* SPDX-License-Identifier: Apache-2.0 */
/* The fake driver, for the libraries that lie beside it and use its memory and streams. Any thread. */
#ifndef YOKE_TESTS_FAKES_BESIDE_H
#define YOKE_TESTS_FAKES_BESIDE_H

#include "tests/support/sanitize.h" /* TEST_LOOPS */

/* *to, a pointer to a function, gets a symbol of the driver; a missing one ends the process. */
void fake_driver_symbol(const char *symbol, void *to);
unsigned long long fake_number(const char *variable); /* value in the environment; 0 if unset */

#endif
