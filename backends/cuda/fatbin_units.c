/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A build tool: lists the kit's units, sets of kernels, that are compiled with the CUDA plugin, for fatbins.sh and tests. They serve common
 * models. NVRTC compiles other units, and kernels that are generated for a graph, at run time.
 *
 *   fatbin-units          a line for each: its key, its macros
 *   fatbin-units FOLDER   writes its text to FOLDER/KEY.cu, too
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "backends/cuda/fatbin.h"

#define LINE 256

/* The plugin's devices as the kit sees them: a GPU with the least of shared memory, so that these macros are every card's. */
static void host_fail(const char *who, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fprintf(stderr, "fatbin-units: %s: ", who);
    vfprintf(stderr, format, list);
    fprintf(stderr, "\n");
    va_end(list);
}

static const yk_host host = {.size = sizeof host, .fail = host_fail};
static const kit_target target = {.host = &host, .plugin = "cuda", .four = true};

static bool text_write(const char *folder, uint64_t key, const char *macros, const char *const part[KIT_PARTS])
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%016llx.cu", folder, (unsigned long long)key);
    FILE *f = fopen(path, "we");
    if (!f)
        return false;
    for (const char *at = strstr(macros, "-D"); at; at = strstr(at + 2, "-D")) { /* "-DNAME=VALUE" */
        const char *name = at + 2, *end = name + strcspn(name, " "), *equal = memchr(name, '=', (size_t)(end - name));
        fprintf(f, "#define %.*s %.*s\n", (int)((equal ? equal : end) - name), name, equal ? (int)(end - equal - 1) : 1,
                equal ? equal + 1 : "1");
    }
    for (int i = 0; i < KIT_PARTS; i++)
        fputs(part[i], f);
    return !fclose(f);
}

/* False after it was said why. */
static bool unit_list(const char *folder, const char *file, const char *macros)
{
    char text[LINE];
    const char *part[KIT_PARTS];
    if (!kit_unit_parts(&target, file, NULL, part) || !kit_unit_macros(&target, macros, text, sizeof text))
        return false;
    const uint64_t key = cuda_fatbin_key(text, part);
    printf("%016llx %s %s\n", (unsigned long long)key, file, macros);
    if (!folder || text_write(folder, key, text, part))
        return true;
    perror(folder);
    return false;
}

static const char *const types[] = {"f32", "bf16", "f16"};
#define TYPES (sizeof types / sizeof *types)

static bool data_list(const char *folder)
{
    static const char *const single[] = {"-DUNIT_COPY -DE=uchar", "-DUNIT_COPY -DE=ushort", "-DUNIT_COPY -DE=uint", "-DUNIT_COPY -DE=ulong",
                                        "-DUNIT_MAKE", "-DUNIT_ARGMAX_I"};
    bool good = unit_list(folder, "step", "-DT=f32 -DK_FOUR");
    for (size_t i = 0; i < sizeof single / sizeof *single && good; i++)
        good = unit_list(folder, "data", single[i]);
    return good;
}

static bool types_list(const char *folder)
{
    char macros[LINE];
    bool good = true;
    for (size_t i = 0; i < TYPES && good; i++) {
        snprintf(macros, sizeof macros, "-DUNIT_FLOAT -DT=%s", types[i]);
        good = unit_list(folder, "data", macros);
        snprintf(macros, sizeof macros, "-DT=%s%s", types[i], kit_row_macros(&target));
        good = good && unit_list(folder, "nn", macros);
        snprintf(macros, sizeof macros, "-DT=%s", types[i]);
        good = good && unit_list(folder, "parts", macros) && unit_list(folder, "pool", macros);
        if (strcmp(types[i], "f16"))
            good = good && unit_list(folder, "round8", macros);
        for (int back = 0; back < 2 && good; back++) {
            snprintf(macros, sizeof macros, "-DT=%s -DXE_EACH=%d -DXE_TEAM=%d%s", types[i], i ? 8 : 4, back ? 512 : 256,
                     back ? " -DXE_BACK" : "");
            good = unit_list(folder, "xent", macros);
        }
    }
    for (size_t i = 1; i < TYPES && good; i++) { /* layer norms that write 16 bits */
        snprintf(macros, sizeof macros, "-DT=f32 -DTO=%s%s", types[i], kit_row_macros(&target));
        good = unit_list(folder, "nn", macros);
    }
    return good && unit_list(folder, "eight", "-DT=bf16") && unit_list(folder, "lines", "-DE=ushort") &&
           unit_list(folder, "lines", "-DE=uint") && unit_list(folder, "widen", "-DT=bf16");
}

/* Layer norms of 768 and 1024 elements a row, and of small ones: of each type, and of f32 that write bf16. */
static bool norms_list(const char *folder)
{
    char macros[LINE];
    bool good = true;
    for (size_t i = 0; i <= TYPES && good; i++) {
        const int halves = i > 0 && i < TYPES ? 2 : 1; /* elements of half the size: a line has twice as many */
        const char *to = i < TYPES ? "" : " -DTO=bf16";
        snprintf(macros, sizeof macros, "-DT=%s%s -DNV=%d -DNW=1%s", types[i % TYPES], to, 6 / halves, kit_row_macros(&target));
        good = unit_list(folder, "norms", macros);
        snprintf(macros, sizeof macros, "-DT=%s%s -DNV=%d -DNW=2%s", types[i % TYPES], to, 4 / halves, kit_row_macros(&target));
        good = good && unit_list(folder, "norms", macros);
        snprintf(macros, sizeof macros, "-DT=%s%s -DNV=1 -DNW=1%s", types[i % TYPES], to, kit_row_macros(&target));
        good = good && unit_list(folder, "norms", macros);
    }
    return good;
}

/* Heads of 64 and 128 elements, both ways; of 16 bits by tensor cores as chips from 8.0 on have them. */
static bool attention_list(const char *folder)
{
    char macros[LINE];
    bool good = true;
    for (size_t i = 0; i < TYPES * 4 && good; i++) {
        const bool back = i % 2, large = i / 2 % 2, mma = i >= 4;
        const int at = snprintf(macros, sizeof macros, "-D%s -DT=%s -DAD=%d", back ? "ATT_BACKWARD" : "ATT_FORWARD", types[i / 4],
                                large ? 128 : 64);
        snprintf(macros + at, sizeof macros - (size_t)at, mma ? " -DATT_TEAM=128 -DATT_OTHER=%d -DMMA_TERMS=16" :
                 " -DATT_TEAM=64 -DQL=1 -DKT=%d", !mma ? 32 : !back ? 64 : large ? 16 : 32);
        good = unit_list(folder, mma ? "attn_mma" : "attn_gpu", macros);
    }
    return good;
}

/* Filters of 1 x 1 and 3 x 3 in tiles of 16, 32 and 64 rows; of bf16 by tensor cores. */
static bool convolutions_list(const char *folder)
{
    char macros[LINE];
    bool good = true;
    for (int i = 0; i < 12 && good; i++) {
        const int side = i % 2 ? 3 : 1, rows = 16 << i / 2 % 3;
        const char *type = types[i / 6];
        const int at = snprintf(macros, sizeof macros, "-DT=%s -DTC=%s -DKH=%d -DKW=%d -DIH=0", type, type, side, side);
        snprintf(macros + at, sizeof macros - (size_t)at, i < 6 ? " -DGEMM_TEAM=256 -DGM=%d" : " -DGM=%d -DMMA_TERMS=16", rows);
        good = unit_list(folder, i < 6 ? "conv_gpu" : "conv_mma", macros);
    }
    return good;
}

int main(int argc, char **argv)
{
    const char *folder = argc > 1 ? argv[1] : NULL;
    return !(data_list(folder) && types_list(folder) && norms_list(folder) && attention_list(folder) && convolutions_list(folder));
}
