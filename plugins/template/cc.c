/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A third plugin to copy: a text device. The kit turns a graph into kernels, which are text, and has queues, programs and arguments
 * (plugins/kit/kit_device.h). This file compiles text, keeps memory, copies bytes and launches; kit_device.h says in which threads the kit
 * calls it. Its compiler is the system's C compiler, and its memory is a handle that only copies and kernels use.
 *
 * Change these, in this order: device_describe (its flags first), memory_take to memory_get, text_build and code_load, code_launch. Run
 * `yoke-cts --plugin ./yoke_cc.so` after each. A device with an interface for kernels by name sets entries to false; its caps and target
 * say its groups of work-items.
 */
#define _GNU_SOURCE /* mkostemp */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "plugins/kit/kit_device.h"

#define MEMORY (1ull << 30) /* bytes of a device; the kit refuses buffers beyond them */

static void device_describe(uint32_t i, yk_device_caps *caps, kit_target *target)
{
    /* YK_CAP_CPU: it computes on the host's cores. A device with its own chip must not set it. The kit's kernels hold YK_CAP_LONG_SUMS. */
    caps->flags = YK_CAP_DETERMINISTIC | YK_CAP_CPU | YK_CAP_LONG_SUMS;
    caps->mem_total = MEMORY;
    snprintf(caps->name, sizeof caps->name, "C compiler %u", i);
    snprintf(caps->isa, sizeof caps->isa, "c11");
    target->units = 2;
    target->max_local = 256u << 10;
}

/* ---- Memory ---- */

static void *memory_take(void *device, uint64_t bytes)
{
    (void)device;
    return kit_device_host()->alloc(bytes, 256);
}

static void memory_give(void *device, void *memory)
{
    (void)device;
    kit_device_host()->free(memory);
}

static yk_status memory_put(void *stream, void *memory, uint64_t at, const void *from, uint64_t bytes)
{
    (void)stream;
    memcpy((char *)memory + at, from, bytes);
    return YK_OK;
}

static yk_status memory_get(void *stream, void *memory, uint64_t at, void *to, uint64_t bytes)
{
    (void)stream;
    memcpy(to, (const char *)memory + at, bytes);
    return YK_OK;
}

/* ---- Kernels ---- */

/* A name for each file, as the loader takes equal names for one library. */
static void *code_load(void *device, const void *image, size_t bytes)
{
    char path[] = "/tmp/yoke-cc-XXXXXX";
    const int file = mkostemp(path, O_CLOEXEC);
    (void)device;
    if (file < 0)
        return NULL;
    void *code = write(file, image, bytes) == (ssize_t)bytes ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    unlink(path);
    close(file);
    return code;
}

/* The object in a file; .data is NULL if it cannot be read. */
static kit_image object_read(const char *path)
{
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    const off_t bytes = file < 0 ? 0 : lseek(file, 0, SEEK_END);
    kit_image image = {.data = bytes > 0 ? kit_device_host()->alloc((size_t)bytes, 64) : NULL, .bytes = (size_t)bytes};
    if (image.data && pread(file, image.data, image.bytes, 0) != bytes) {
        kit_device_host()->free(image.data);
        image.data = NULL;
    }
    if (file >= 0)
        close(file);
    return image;
}

/* The compiler reads the text from a pipe and writes a file, which becomes the image. */
static yk_status text_build(void *device, const char *text, const char *macros, void **code, kit_image *image)
{
    char path[] = "/tmp/yoke-cc-XXXXXX", command[1024];
    const int file = mkostemp(path, O_CLOEXEC);
    snprintf(command, sizeof command, "cc -std=gnu11 -O1 -w -Wno-psabi -fPIC -shared %s -o %s -x c - -lm", macros, path);
    FILE *compiler = file < 0 ? NULL : popen(command, "we");
    const bool sent = compiler && fputs(text, compiler) >= 0;
    if (compiler && pclose(compiler) == 0 && sent)
        *image = object_read(path);
    if (file >= 0)
        close(file), unlink(path);
    if (image->data && (*code = code_load(device, image->data, image->bytes)) != NULL)
        return YK_OK;
    kit_device_say("a kernel does not compile: %s", command);
    return YK_E_INTERNAL;
}

static void code_release(void *code)
{
    dlclose(code);
}

static yk_status code_launch(void *stream, void *code, const kit_launch *launch, const kit_argument *argument)
{
    kit_entry *entry = (kit_entry *)(uintptr_t)dlsym(code, KIT_ENTRY);
    (void)stream;
    entry(argument, launch->groups);
    return YK_OK;
}

static const kit_device device = {
    .name = "cc",
    .version = "1",
    .describe = device_describe,
    .alloc = memory_take,
    .free = memory_give,
    .put = memory_put,
    .get = memory_get,
    .entries = true,
    .build = text_build,
    .load = code_load,
    .release = code_release,
    .launch = code_launch,
};

KIT_DEVICE_EXPORT(device)
