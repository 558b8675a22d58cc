/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A PJRT plugin around another one, PJRT_SHIM_REAL, that is bad in the way PJRT_SHIM says: "spoil" puts zeros in the place of the first
 * result from the third run on, "hang" never returns from a compile, "exit" aborts when the process ends. "none" does as the other one,
 * and so do three that append lines to the file PJRT_SHIM_FILE. "cards" has three devices, each in a client of its own, and writes their
 * numbers as clients of them are made. "account" writes each account of a program's memory, five numbers. "cores" writes the number of
 * cores that the caller of a compile may use. "all" knows no option, so each client has all devices that the real plugin has without one.
 * "one" knows none either, and has one device. "bare" runs a program of several replicas without its arguments, which the real one refuses.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/pjrt/api.h"

static pjrt_api table;
static pjrt_call real_execute, real_create, real_account, real_compile;
static pjrt_client *client;
static pjrt_device *device;

static pjrt_error *shim_create(void *args)
{
    pjrt_client_create_args *a = args;
    pjrt_error *error = real_create(args);
    if (!error) {
        pjrt_devices_args d = {.size = sizeof d, .client = client = a->client};
        table.call[PJRT_CLIENT_ADDRESSABLE_DEVICES](&d);
        device = d.device[0];
    }
    return error;
}

static const pjrt_named_value wrong = {.size = sizeof wrong, .name = "no such option", .name_size = 14, .type = PJRT_VALUE_INT64,
                                       .value_size = 1};

static pjrt_error *shim_one(void *args)
{
    static const pjrt_named_value one = {.size = sizeof one, .name = "cpu_device_count", .name_size = 16, .type = PJRT_VALUE_INT64,
                                         .value = {.number = 1}, .value_size = 1};
    pjrt_client_create_args *a = args;
    a->option = a->n_option ? &wrong : &one;
    a->n_option = 1;
    return real_create(args);
}

static pjrt_error *shim_all(void *args)
{
    pjrt_client_create_args *a = args;
    if (a->n_option) {
        a->option = &wrong;
        a->n_option = 1;
    }
    return real_create(args);
}

/* A client of each of three devices, which are the one device of the real plugin. Other options, and other devices, are refused. */
static pjrt_error *shim_each(void *args)
{
    static const pjrt_named_value one = {.size = sizeof one, .name = "cpu_device_count", .name_size = 16, .type = PJRT_VALUE_INT64,
                                         .value = {.number = 1}, .value_size = 1};
    pjrt_client_create_args *a = args;
    const bool fits = a->n_option == 2 && !memcmp(a->option->name, "visible_devices", 15) && *a->option->value.numbers < 3;
    const char *path = getenv("PJRT_SHIM_FILE");
    FILE *f = fits && path ? fopen(path, "a") : NULL;
    if (f) {
        fprintf(f, "%lld\n", (long long)*a->option->value.numbers);
        fclose(f);
    }
    a->option = fits ? &one : &wrong;
    a->n_option = 1;
    return real_create(args);
}

static pjrt_error *shim_execute(void *args)
{
    static const float zeros[4096];
    static const int64_t dim[1] = {512};
    static int runs;
    pjrt_execute_args *a = args;
    pjrt_error *error = real_execute(args);
    if (!error && ++runs >= 3) {
        pjrt_from_host_args h = {.size = sizeof h, .client = client, .data = zeros, .type = PJRT_F32, .dim = dim, .n_dim = 1,
                                 .device = device};
        table.call[PJRT_CLIENT_BUFFER_FROM_HOST_BUFFER](&h);
        a->result[0][0] = h.buffer;
    }
    return error;
}

static pjrt_error *shim_bare(void *args)
{
    pjrt_execute_args *a = args;
    if (a->n_device > 1)
        a->n_argument = 0;
    return real_execute(args);
}

static pjrt_error *shim_account(void *args)
{
    const pjrt_compiled_memory_args *a = args;
    const char *path = getenv("PJRT_SHIM_FILE");
    pjrt_error *error = real_account(args);
    FILE *f = error || !path ? NULL : fopen(path, "a");
    if (f) {
        fprintf(f, "%lld %lld %lld %lld %lld\n", (long long)a->argument, (long long)a->result, (long long)a->alias,
                (long long)a->temporary, (long long)a->code);
        fclose(f);
    }
    return error;
}

static pjrt_error *shim_cores(void *args)
{
    const char *path = getenv("PJRT_SHIM_FILE");
    FILE *f = path ? fopen(path, "a") : NULL;
    cpu_set_t cores;
    if (f && !sched_getaffinity(0, sizeof cores, &cores))
        fprintf(f, "%d\n", CPU_COUNT(&cores));
    if (f)
        fclose(f);
    return real_compile(args);
}

static pjrt_error *shim_hang(void *args)
{
    (void)args;
    for (;;)
        pause();
}

const pjrt_api *GetPjrtApi(void);
__attribute__((visibility("default"))) const pjrt_api *GetPjrtApi(void)
{
    const char *how = getenv("PJRT_SHIM"), *file = getenv("PJRT_SHIM_REAL");
    void *library = dlopen(file ? file : "", RTLD_NOW | RTLD_LOCAL);
    pjrt_get_api get = NULL;
    if (library)
        *(void **)&get = dlsym(library, "GetPjrtApi");
    if (!get || !how)
        return NULL;
    memcpy(&table, get(), sizeof table);
    table.size = sizeof table;
    real_execute = table.call[PJRT_LOADED_EXECUTE];
    real_create = table.call[PJRT_CLIENT_CREATE];
    real_compile = table.call[PJRT_CLIENT_COMPILE];
    real_account = table.call[PJRT_COMPILED_MEMORY_STATS];
    if (!strcmp(how, "spoil")) {
        table.call[PJRT_LOADED_EXECUTE] = shim_execute;
        table.call[PJRT_CLIENT_CREATE] = shim_create;
    } else if (!strcmp(how, "cards")) {
        table.call[PJRT_CLIENT_CREATE] = shim_each;
    } else if (!strcmp(how, "bare")) {
        table.call[PJRT_LOADED_EXECUTE] = shim_bare;
    } else if (!strcmp(how, "one")) {
        table.call[PJRT_CLIENT_CREATE] = shim_one;
    } else if (!strcmp(how, "all")) {
        table.call[PJRT_CLIENT_CREATE] = shim_all;
    } else if (!strcmp(how, "account")) {
        table.call[PJRT_COMPILED_MEMORY_STATS] = shim_account;
    } else if (!strcmp(how, "cores")) {
        table.call[PJRT_CLIENT_COMPILE] = shim_cores;
    } else if (!strcmp(how, "hang")) {
        table.call[PJRT_CLIENT_COMPILE] = shim_hang;
    } else if (!strcmp(how, "exit")) {
        atexit(abort);
    }
    return &table;
}
