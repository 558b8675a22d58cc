/* SPDX-License-Identifier: Apache-2.0 */
/* A program's own settings; see own_state.h. */
#include "config.h"

#include "tests/support/own_state.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RESTORER 0x04000000 /* the C library sets it in whatever passes by sigaction() */

extern char **environ;

static unsigned float_mode(void)
{
#if defined __x86_64__
    return __builtin_ia32_stmxcsr() & 0xffc0u; /* without the flags that computations set */
#elif defined __aarch64__
    unsigned long mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    return (unsigned)mode;
#else
    return 0;
#endif
}

void state_take(own_state *state)
{
    size_t at = 0;
    memset(state, 0, sizeof *state);
    sched_getaffinity(0, sizeof state->cores, &state->cores);
    pthread_sigmask(SIG_SETMASK, NULL, &state->mask);
    for (int i = 1; i < 65; i++)
        sigaction(i, NULL, &state->action[i]);
    getrlimit(RLIMIT_NOFILE, &state->descriptors);
    state->umask = umask(0);
    umask(state->umask);
    state->mode = float_mode();
    state->thread_locale = uselocale((locale_t)0);
    snprintf(state->locale, sizeof state->locale, "%s", setlocale(LC_ALL, NULL));
    ck_assert_ptr_nonnull(getcwd(state->folder, sizeof state->folder));
    for (char **variable = environ; *variable; variable++) {
        if (!strncmp(*variable, "CK_", 3))
            continue;
        at += (size_t)snprintf(state->variables + at, OWN_STATE_TEXT - at, "%s\n", *variable);
        ck_assert(at < OWN_STATE_TEXT);
    }
}

void states_compare(const own_state *was, const own_state *is, const char *devices, const char *when)
{
    ck_assert_msg(CPU_EQUAL(&was->cores, &is->cores), "%s, %s: %d cores, %d before", devices, when, CPU_COUNT(&is->cores),
                  CPU_COUNT(&was->cores));
    for (int i = 1; i < 65; i++) {
        ck_assert_msg(sigismember(&was->mask, i) == sigismember(&is->mask, i), "%s, %s: mask of signal %d", devices, when, i);
        ck_assert_msg(was->action[i].sa_handler == is->action[i].sa_handler &&
                          (was->action[i].sa_flags | RESTORER) == (is->action[i].sa_flags | RESTORER),
                      "%s, %s: disposition of signal %d", devices, when, i);
    }
    ck_assert_msg(was->umask == is->umask && was->mode == is->mode && was->thread_locale == is->thread_locale,
                  "%s, %s: umask, mode or locale",
                  devices, when);
    ck_assert_msg(!strcmp(was->locale, is->locale) && !strcmp(was->folder, is->folder), "%s, %s: locale or folder", devices, when);
    ck_assert_msg(!strcmp(was->variables, is->variables), "%s, %s: the environment was\n%s\nand is\n%s", devices, when, was->variables,
                  is->variables);
}

void cuda_fakes_use(void)
{
    static const char *const names[][2] = {{"DRIVER", "cuda"}, {"NVRTC", "nvrtc"}, {"NCCL", "nccl"},
                                            {"CUBLASLT", "cublaslt"}, {"CUDNN", "cudnn"}};
    const char *build = getenv("YOKE_BUILD");
    unsetenv("CUDA_VISIBLE_DEVICES");
    for (int i = 0; i < 5; i++) {
        char name[40], path[1024];
        snprintf(name, sizeof name, "YOKE_CUDA_%s", names[i][0]);
        snprintf(path, sizeof path, "%s/tests/fakes/.libs/fake_%s.so", build ? build : ".", names[i][1]);
        setenv(name, path, 1);
    }
}
