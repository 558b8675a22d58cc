/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fake NVRTC: "compiles" CUDA C++ by the system's C++ compiler. The text is preprocessed first, so that all kernels are seen
 * (`__global__ void NAME(`), and each gets an entry in a table that the fake driver reads.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/cuda/driver.h"
#include "tests/fakes/fake_cuda.h"
#include "tests/fakes/host.kch"
#include "tests/support/compiled.h"

#define COMPILER_OPTIONS                                                                                                                  \
    "-std=gnu++17 -Og -w -fPIC -shared -nostdlib -fvisibility=hidden -fno-exceptions -fno-rtti -fno-math-errno -ffp-contract=off "       \
    "-fcf-protection=none -fno-stack-protector"

enum { OUT_OF_MEMORY = 1, INVALID_INPUT = 3, INVALID_PROGRAM = 4, INVALID_OPTION = 5, COMPILATION = 6, INTERNAL = 11 };

struct _nvrtcProgram {
    char *text, *log, *image; /* image: a fake_image and what it heads */
    size_t bytes;
    int arch, ptx;
};

static const int archs[] = {75, 80, 86, 89, 90, 100, 120};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t calls, fail_at;
static int release = 129;
static bool fail_asked;

#define X(member, symbol, parameters) FAKE_EXPORT nvrtcResult symbol parameters;
CUDA_COMPILER_TABLE(X)
#undef X
FAKE_EXPORT const char *nvrtcGetErrorString(nvrtcResult code);

/* ---- Failing on purpose ---- */

/* True if this call is the one that fails. */
static bool call_fails(void)
{
    const char *text = getenv("FAKE_NVRTC_FAIL");
    pthread_mutex_lock(&lock);
    if (!fail_asked && text)
        fail_at = strtoull(text, NULL, 10);
    fail_asked = true;
    const bool fails = ++calls == fail_at;
    pthread_mutex_unlock(&lock);
    return fails;
}

void fake_nvrtc_set_version(int version)
{
    release = version;
}

void fake_nvrtc_fail(uint64_t n)
{
    pthread_mutex_lock(&lock);
    fail_asked = true;
    fail_at = n ? calls + n : 0;
    pthread_mutex_unlock(&lock);
}

uint64_t fake_nvrtc_calls(void)
{
    pthread_mutex_lock(&lock);
    const uint64_t n = calls;
    pthread_mutex_unlock(&lock);
    return n;
}

/* ---- Files ---- */

static char *file_read(const char *path, size_t *bytes)
{
    FILE *f = fopen(path, "rb");
    char *data = NULL;
    size_t cap = 0, n = 0, got = 1;
    while (f && got) {
        if (n + 65536 > cap)
            data = realloc(data, cap = 2 * cap + 65537);
        got = fread(data + n, 1, 65536, f);
        n += got;
    }
    if (f)
        fclose(f);
    if (data)
        data[n] = 0;
    *bytes = n;
    return data;
}

static bool file_write(const char *folder, const char *name, const char *const *part)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    for (; f && *part; part++)
        fputs(*part, f);
    return f && !fclose(f);
}

static bool command_run(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static bool command_run(const char *fmt, ...)
{
    char command[2000];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(command, sizeof command, fmt, ap);
    va_end(ap);
    return system(command) == 0;
}

/* ---- Compiling ---- */

/* For every `__global__ void NAME(` of the preprocessed text an entry; allocated. */
static char *table_make(const char *text)
{
    char *table = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&table, &bytes);
    fprintf(f, "\nextern \"C\" __attribute__((visibility(\"default\"))) const fake_kernel fake_kernels[];\n"
               "const fake_kernel fake_kernels[] = {\n");
    for (const char *at = text; (at = strstr(at, "__global__")) != NULL;) {
        at += strlen("__global__");
        const char *name = strstr(at, "void");
        name = name ? name + 4 + strspn(name + 4, " \n") : at;
        const int n = (int)strcspn(name, " (\n");
        fprintf(f, "    {\"%.*s\", fake_count_of(%.*s), fake_sizes_of(%.*s),\n"
                   "     [](void **p, const unsigned *grid, unsigned threads, char *stacks) {\n"
                   "         return fake_grid_run([](void **q) { fake_call(%.*s, q); }, p, grid, threads, stacks); }},\n",
                n, name, n, name, n, name, n, name);
    }
    fprintf(f, "    {0, 0, 0, 0}};\n");
    fclose(f);
    return table;
}

/* The file for the fake driver: a library after its head. False if it does not exist. */
static bool image_read(nvrtcProgram p, const char *path)
{
    size_t bytes = 0;
    char *object = file_read(path, &bytes);
    if (!object)
        return false;
    const fake_image head = {FAKE_MAGIC, bytes, p->arch, p->ptx};
    p->bytes = sizeof head + bytes;
    p->image = malloc(p->bytes);
    memcpy(p->image, &head, sizeof head);
    memcpy(p->image + sizeof head, object, bytes);
    free(object);
    return true;
}

static uint64_t source_key(nvrtcProgram p, const char *compiler, const char *arch, const char *macros)
{
    const char *const all[] = {COMPILER_OPTIONS, compiler, arch, macros, kit_src_host, p->text};
    uint64_t key = COMPILED_SEED;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        key = compiled_key(key, all[i]);
    return key;
}

static nvrtcResult source_compile(nvrtcProgram p, const char *folder, const char *macros)
{
    const char *compiler = getenv("CXX") ? getenv("CXX") : "c++";
    char path[200], arch[40], kept[COMPILED_PATH];
    size_t bytes = 0;
    snprintf(arch, sizeof arch, "#define FAKE_ARCH %d\n", p->arch);
    const bool keeps = compiled_path(source_key(p, compiler, arch, macros), kept);
    if (keeps && image_read(p, kept))
        return NVRTC_SUCCESS;
    if (!file_write(folder, "a.cc", (const char *[]){p->text, NULL}))
        return INTERNAL;
    bool good = command_run("%s -E -P -w -D__CUDACC_RTC__ %s %s/a.cc -o %s/b.cc 2>%s/log", compiler, macros, folder, folder, folder);
    snprintf(path, sizeof path, "%s/b.cc", folder);
    char *text = good ? file_read(path, &bytes) : NULL;
    char *table = text ? table_make(text) : NULL;
    good = good && file_write(folder, "c.cc", (const char *[]){arch, kit_src_host, text, table, NULL}) &&
           command_run("%s " COMPILER_OPTIONS " %s/c.cc -o %s/c.so 2>%s/log", compiler, folder, folder, folder);
    free(text);
    free(table);
    snprintf(path, sizeof path, "%s/log", folder);
    free(p->log);
    p->log = file_read(path, &bytes);
    snprintf(path, sizeof path, "%s/c.so", folder);
    if (!good || !image_read(p, path))
        return COMPILATION;
    return keeps && !compiled_keep(path, kept) ? INTERNAL : NVRTC_SUCCESS;
}

/* The macros among the options; an option that NVRTC would not know is refused. */
static nvrtcResult options_read(nvrtcProgram p, int n, const char *const *options, char *macros, size_t size)
{
    *macros = 0;
    for (int i = 0; i < n; i++) {
        const char *o = options[i];
        if (sscanf(o, "--gpu-architecture=sm_%d", &p->arch) == 1)
            p->ptx = 0;
        else if (sscanf(o, "--gpu-architecture=compute_%d", &p->arch) == 1)
            p->ptx = 1;
        else if (strncmp(o, "-D", 2) || !o[2])
            return INVALID_OPTION;
        else
            snprintf(macros + strlen(macros), size - strlen(macros), " '%s'", o);
    }
    return p->arch ? NVRTC_SUCCESS : INVALID_OPTION;
}

/* ---- A real one beside ---- */

static bool real_open(const char *path, cuda_compiler *real)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL), *symbol;
#define FIND(member, name, parameters)                                                                                                    \
    if (!library || !(symbol = dlsym(library, #name)))                                                                                    \
        return false;                                                                                                                     \
    memcpy(&real->member, &symbol, sizeof symbol);
    CUDA_COMPILER_TABLE(FIND)
#undef FIND
    return true;
}

static nvrtcResult real_compile(nvrtcProgram p, const cuda_compiler *real, int arch, int n, const char *const *options)
{
    char chip[40];
    const char *list[64] = {chip};
    nvrtcProgram program;
    size_t bytes = 0;
    snprintf(chip, sizeof chip, "--gpu-architecture=sm_%d", arch);
    for (int i = 1; i < n && i < 64; i++)
        list[i] = options[i];
    nvrtcResult rc = real->program_new(&program, p->text, "yoke.cu", 0, NULL, NULL);
    if (rc)
        return rc;
    rc = real->compile(program, n, list);
    if (rc && !real->log_bytes(program, &bytes)) {
        free(p->log);
        p->log = calloc(1, bytes + 1);
        real->log(program, p->log);
    }
    real->program_free(&program);
    return rc;
}

/* Compiles the program's text by the real NVRTC for each named chip; the first option is the chip. */
static nvrtcResult real_check(nvrtcProgram p, int n, const char *const *options)
{
    const char *path = getenv("FAKE_NVRTC_CHECK"), *archs_text = getenv("FAKE_NVRTC_ARCHS");
    cuda_compiler real;
    nvrtcResult rc = NVRTC_SUCCESS;
    if (!path)
        return rc;
    if (!real_open(path, &real))
        return INTERNAL;
    for (const char *at = archs_text ? archs_text : "90"; *at && !rc; at += strspn(at, " ")) {
        char *end;
        rc = real_compile(p, &real, (int)strtol(at, &end, 10), n, options);
        at = end;
    }
    return rc;
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram p, int n_option, const char *const *options)
{
    char folder[] = "/tmp/yoke-nvrtc-XXXXXX", macros[1000];
    nvrtcResult rc = call_fails() ? INTERNAL : options_read(p, n_option, options, macros, sizeof macros);
    if (!rc)
        rc = real_check(p, n_option, options);
    if (rc)
        return rc;
    if (!mkdtemp(folder))
        return INTERNAL;
    rc = source_compile(p, folder, macros);
    return command_run("rm -rf %s", folder) ? rc : INTERNAL;
}

/* ---- The rest ---- */

nvrtcResult nvrtcVersion(int *major, int *minor)
{
    *major = release / 10;
    *minor = release % 10;
    return call_fails() ? INTERNAL : NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetNumSupportedArchs(int *count)
{
    *count = (int)(sizeof archs / sizeof *archs);
    return call_fails() ? INTERNAL : NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetSupportedArchs(int *list)
{
    memcpy(list, archs, sizeof archs);
    return call_fails() ? INTERNAL : NVRTC_SUCCESS;
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram *program, const char *text, const char *name, int n_header, const char *const *headers,
                               const char *const *names)
{
    (void)name, (void)headers, (void)names;
    if (call_fails())
        return INTERNAL;
    if (n_header || !text)
        return INVALID_INPUT;
    *program = calloc(1, sizeof **program);
    (*program)->text = strdup(text);
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram *program)
{
    const bool fails = call_fails();
    free((*program)->text);
    free((*program)->log);
    free((*program)->image);
    free(*program);
    *program = NULL;
    return fails ? INTERNAL : NVRTC_SUCCESS;
}

static nvrtcResult image_bytes(const struct _nvrtcProgram *p, int ptx, size_t *bytes)
{
    if (call_fails())
        return INTERNAL;
    if (!p->image || p->ptx != ptx)
        return INVALID_PROGRAM;
    *bytes = p->bytes;
    return NVRTC_SUCCESS;
}

static nvrtcResult image_copy(const struct _nvrtcProgram *p, int ptx, char *image)
{
    size_t bytes = 0;
    const nvrtcResult rc = image_bytes(p, ptx, &bytes);
    if (!rc)
        memcpy(image, p->image, bytes);
    return rc;
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram p, size_t *bytes)
{
    return image_bytes(p, 0, bytes);
}

nvrtcResult nvrtcGetCUBIN(nvrtcProgram p, char *cubin)
{
    return image_copy(p, 0, cubin);
}

nvrtcResult nvrtcGetPTXSize(nvrtcProgram p, size_t *bytes)
{
    return image_bytes(p, 1, bytes);
}

nvrtcResult nvrtcGetPTX(nvrtcProgram p, char *ptx)
{
    return image_copy(p, 1, ptx);
}

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram p, size_t *bytes)
{
    *bytes = (p->log ? strlen(p->log) : 0) + 1;
    return call_fails() ? INTERNAL : NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetProgramLog(nvrtcProgram p, char *log)
{
    strcpy(log, p->log ? p->log : "");
    return call_fails() ? INTERNAL : NVRTC_SUCCESS;
}

const char *nvrtcGetErrorString(nvrtcResult code)
{
    switch ((int)code) {
    case NVRTC_SUCCESS:
        return "NVRTC_SUCCESS";
    case OUT_OF_MEMORY:
        return "NVRTC_ERROR_OUT_OF_MEMORY";
    case INVALID_OPTION:
        return "NVRTC_ERROR_INVALID_OPTION";
    case COMPILATION:
        return "NVRTC_ERROR_COMPILATION";
    default:
        return "NVRTC_ERROR_INTERNAL_ERROR";
    }
}
