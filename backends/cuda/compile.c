/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiles CUDA C++ to code for the chip (a cubin) by NVRTC, a library that is opened at the first need. YOKE_CUDA_NVRTC names another
 * library than the ones below. cuda_build.c calls it for units of kernels, in any thread that makes a program; cuda_list.c asks for the
 * compiler's key.
 *
 * The kernels' text is complete, so NVRTC needs no header of CUDA. A driver takes code of its own major version and of older ones, so a
 * driver of CUDA 12 is given no NVRTC of 13.
 */
#include "backends/cuda/cuda_internal.h"

#include <dlfcn.h>
#include <stdio.h>

#include "backends/cuda/library.h"

#define OPTIONS 24
#define OPTION_BYTES 64

static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", NULL};

static struct {
    pthread_mutex_t lock;
    void *library; /* never closed */
    cuda_compiler call;
    char why[160]; /* it could not be opened */
} compiler = {.lock = PTHREAD_MUTEX_INITIALIZER};

#define SYMBOL(member, name, parameters) {#name, offsetof(cuda_compiler, member)},
static const cuda_symbol symbols[] = {CUDA_COMPILER_TABLE(SYMBOL) SYMBOL(error_text, nvrtcGetErrorString, ) {NULL, 0}};
#undef SYMBOL

/* Under the lock; false when there is none. */
static bool library_open(void)
{
    const char *missing;
    compiler.library = cuda_library_open("NVRTC", names + CUDA_NAMES_BEFORE_13, symbols, &compiler.call, &missing);
    if (missing)
        snprintf(compiler.why, sizeof compiler.why, "this one lacks %s; that of CUDA 12 or later is needed", missing);
    else if (!compiler.library)
        snprintf(compiler.why, sizeof compiler.why, "%s", cuda_option("NVRTC") ? dlerror() : CUDA_NAMES_BEFORE_13 ? "libnvrtc.so.12"
                                                                                                           : "libnvrtc.so.13, .12");
    return compiler.library != NULL;
}

static bool compiler_ready(void)
{
    pthread_mutex_lock(&compiler.lock);
    const bool ready = compiler.library || library_open();
    pthread_mutex_unlock(&compiler.lock);
    return ready;
}

static yk_status compiler_missing(void)
{
    pthread_mutex_lock(&compiler.lock);
    cuda_host->fail(CUDA_WHO, "NVRTC is needed to compile kernels and could not be opened (%s): install it (libnvrtc.so.12 or .13, of the "
                    "CUDA toolkit or the package nvidia-cuda-nvrtc) or name it by YOKE_CUDA_NVRTC", compiler.why);
    pthread_mutex_unlock(&compiler.lock);
    return YK_E_UNSUPPORTED;
}

static yk_status compiler_error(nvrtcResult code, const char *what)
{
    cuda_host->fail(CUDA_WHO, "%s: %s (%d)", what, compiler.call.error_text(code), (int)code);
    return YK_E_INTERNAL;
}

bool cuda_compiler_version(int version[2])
{
    return compiler_ready() && !compiler.call.version(&version[0], &version[1]);
}

uint64_t cuda_compiler_key(void)
{
    int version[2] = {0, 0};
    return cuda_compiler_version(version) ? kit_hash(KIT_HASH_SEED, version, sizeof version) : 0;
}

void cuda_compiler_forget(void)
{
    pthread_mutex_lock(&compiler.lock);
    compiler.library = NULL; /* the option may name another one then */
    pthread_mutex_unlock(&compiler.lock);
}

/* ---- Options ---- */

/* The newest chip up to `sm` that NVRTC knows; 0 after the host was told why. */
static yk_status arch_choose(int sm, int *arch)
{
    int n = 0, list[64];
    nvrtcResult rc = compiler.call.archs_count(&n);
    *arch = 0;
    if (!rc && n >= 1 && n <= (int)(sizeof list / sizeof *list))
        rc = compiler.call.archs(list);
    if (rc)
        return compiler_error(rc, "asking NVRTC which chips it knows");
    for (int i = 0; i < n && i < (int)(sizeof list / sizeof *list); i++)
        if (list[i] <= sm && list[i] > *arch)
            *arch = list[i];
    if (*arch)
        return YK_OK;
    cuda_host->fail(CUDA_WHO, "this NVRTC does not compile for compute capability %d.%d; an older one does", sm / 10, sm % 10);
    return YK_E_UNSUPPORTED;
}

typedef struct options {
    char text[OPTIONS][OPTION_BYTES];
    const char *list[OPTIONS];
    int n;
} options;

static void option_add(options *o, const char *text, size_t n)
{
    if (o->n < OPTIONS && n < OPTION_BYTES) {
        memcpy(o->text[o->n], text, n);
        o->text[o->n][n] = 0;
        o->list[o->n] = o->text[o->n];
    }
    o->n++; /* too many, or too long: seen by options_make */
}

/* "-DA=1 -DB" one by one. */
static bool options_make(options *o, const char *macros, int arch, bool exact)
{
    char text[OPTION_BYTES];
    bool fits = true;
    o->n = 0;
    option_add(o, text, (size_t)snprintf(text, sizeof text, "--gpu-architecture=%s_%d", exact ? "sm" : "compute", arch));
    for (const char *at = macros; *at;) {
        const size_t n = strcspn(at, " ");
        fits = fits && n < OPTION_BYTES;
        if (n)
            option_add(o, at, n);
        at += n + (at[n] == ' ');
    }
    return fits && o->n <= OPTIONS;
}

/* ---- Compiling ---- */

static char *parts_join(const char *const *parts, size_t n_part)
{
    size_t bytes = 1;
    for (size_t i = 0; i < n_part; i++)
        bytes += strlen(parts[i]);
    char *text = cuda_alloc(bytes), *at = text;
    for (size_t i = 0; i < n_part && text; i++) {
        const size_t n = strlen(parts[i]);
        memcpy(at, parts[i], n);
        at += n;
    }
    return text;
}

static yk_status compile_failed(nvrtcProgram program, nvrtcResult code, const char *macros)
{
    size_t n = 0;
    char *text = compiler.call.log_bytes(program, &n) ? NULL : cuda_alloc(n + 1);
    if (text && compiler.call.log(program, text))
        *text = 0;
    cuda_host->fail(CUDA_WHO, "compiling kernels (%s): %s (%d)\n%.4000s", macros, compiler.call.error_text(code), (int)code,
                    text ? text : "");
    cuda_free(text);
    return YK_E_INTERNAL;
}

static yk_status image_take(nvrtcProgram program, bool exact, char **image, size_t *bytes)
{
    nvrtcResult rc = exact ? compiler.call.cubin_bytes(program, bytes) : compiler.call.ptx_bytes(program, bytes);
    if (rc)
        return compiler_error(rc, "taking the code from NVRTC");
    if (!(*image = cuda_alloc(*bytes + 1)))
        return YK_E_MEM;
    rc = exact ? compiler.call.cubin(program, *image) : compiler.call.ptx(program, *image);
    if (!rc)
        return YK_OK;
    cuda_free(*image);
    *image = NULL;
    return compiler_error(rc, "taking the code from NVRTC");
}

static yk_status text_compile(const char *text, const char *macros, int sm, char **image, size_t *bytes)
{
    options o;
    int arch;
    nvrtcProgram program = NULL;
    yk_status s = arch_choose(sm, &arch);
    if (s)
        return s;
    if (!options_make(&o, macros, arch, arch == sm)) {
        cuda_host->fail(CUDA_WHO, "the macros of a unit are too many or too long: %s", macros);
        return YK_E_INTERNAL;
    }
    nvrtcResult rc = compiler.call.program_new(&program, text, "yoke.cu", 0, NULL, NULL);
    if (rc)
        return compiler_error(rc, "nvrtcCreateProgram");
    rc = compiler.call.compile(program, o.n, o.list);
    s = rc ? compile_failed(program, rc, macros) : image_take(program, arch == sm, image, bytes);
    compiler.call.program_free(&program);
    return s;
}

yk_status cuda_compile(const char *const *parts, size_t n_part, const char *macros, int sm, char **image, size_t *bytes)
{
    if (!compiler_ready())
        return compiler_missing();
    char *text = parts_join(parts, n_part);
    yk_status s = text ? text_compile(text, macros, sm, image, bytes) : YK_E_MEM;
    cuda_free(text);
    return s;
}
