/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of the library as a guest: settings of the program itself, before and after a call. */
#ifndef YOKE_TESTS_SUPPORT_OWN_STATE_H
#define YOKE_TESTS_SUPPORT_OWN_STATE_H

#include <locale.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

enum { OWN_STATE_TEXT = 65536 };

/* Affinity, mask, mode and thread locale are the calling thread's, the rest is the process's. */
typedef struct own_state {
    cpu_set_t cores;
    sigset_t mask;
    struct sigaction action[65];
    struct rlimit descriptors;
    mode_t umask;
    unsigned mode;
    locale_t thread_locale;
    char locale[256], folder[1024], variables[OWN_STATE_TEXT];
} own_state;

void state_take(own_state *state);
/* Ends the test if a setting differs; the limit of descriptors may, as open jobs raise it. */
void states_compare(const own_state *was, const own_state *is, const char *devices, const char *when);

/* Vendors' CUDA libraries are the tests' fakes in this process. */
void cuda_fakes_use(void);

#endif
