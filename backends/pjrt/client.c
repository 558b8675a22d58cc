/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of a vendor's PJRT plugin: loads it, opens a client, takes a device of it, compiles, uploads, runs and downloads (client.h). It
 * knows nothing of Yoke, as yoke-probe-pjrt shares it.
 *
 * The plugin's files and the trial's call it, in their caller's thread. A failed call returns false and leaves the vendor's words in `why`.
 * The caller frees each object by the call that stands beside its maker. The calls wait for the device.
 */
#include "backends/pjrt/client.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool why_say(char why[PJ_WHY], const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static bool why_say(char why[PJ_WHY], const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, PJ_WHY, fmt, ap);
    va_end(ap);
    for (char *c = why; *c; c++)
        if (*c == '\n')
            *c = ' ';
    return false;
}

/* One call. An error's text goes to `why`, which may be NULL. */
static bool api_call(const pj_client *c, int place, void *args, char *why)
{
    pjrt_error *error = c->api->call[place](args);
    if (!error)
        return true;
    pjrt_error_args a = {.size = sizeof a, .error = error};
    c->api->call[PJRT_ERROR_MESSAGE](&a);
    if (why)
        why_say(why, "%.*s", (int)(a.text_size < PJ_WHY ? a.text_size : PJ_WHY), a.text ? a.text : "");
    a = (pjrt_error_args){.size = offsetof(pjrt_error_args, text), .error = error};
    c->api->call[PJRT_ERROR_DESTROY](&a);
    return false;
}

static void object_destroy(const pj_client *c, int place, void *object)
{
    pjrt_object_args a = {.size = sizeof a, .object = object};
    if (object)
        api_call(c, place, &a, NULL);
}

/* Waits for an event and ends it. */
static bool event_wait(const pj_client *c, pjrt_event *event, char *why)
{
    pjrt_object_args a = {.size = sizeof a, .object = event};
    const bool good = !event || api_call(c, PJRT_EVENT_AWAIT, &a, why);
    object_destroy(c, PJRT_EVENT_DESTROY, event);
    return good;
}

/* The text that the vendor has for something. */
static void text_ask(const pj_client *c, int place, const void *object, char text[PJ_TEXT])
{
    pjrt_ask_args a = {.size = sizeof a, .object = object};
    text[0] = 0;
    if (object && api_call(c, place, &a, NULL) && a.answer)
        snprintf(text, PJ_TEXT, "%.*s", (int)(a.answer_size < PJ_TEXT ? a.answer_size : PJ_TEXT), (const char *)a.answer);
    text[strcspn(text, "\n")] = 0;
}

static void *object_ask(const pj_client *c, int place, void *object)
{
    pjrt_ask_args a = {.size = offsetof(pjrt_ask_args, answer_size), .object = object};
    return api_call(c, place, &a, NULL) ? a.answer : NULL;
}

/* ---- The plugin ---------------------------------------------------------------------------------------------------- */

/* The text that is sent has the syntax of StableHLO 1. */
static bool dialect_fits(const pj_client *c, char why[PJ_WHY])
{
    pjrt_attributes_args a = {.size = sizeof a};
    if (!api_call(c, PJRT_PLUGIN_ATTRIBUTES, &a, NULL))
        return true; /* it does not say */
    for (size_t i = 0; i < a.n_attribute; i++) {
        const pjrt_named_value *v = &a.attribute[i];
        if (v->name_size == 25 && !memcmp(v->name, "stablehlo_current_version", 25) && v->type == PJRT_VALUE_INT64_LIST &&
            v->value_size >= 1 && v->value.numbers[0] != 1)
            return why_say(why, "its StableHLO is version %lld; expected 1", (long long)v->value.numbers[0]);
    }
    return true;
}

bool pj_plugin_load(const char *file, pj_client *c, char why[PJ_WHY])
{
    memset(c, 0, sizeof *c);
    setenv("TF_CPP_MIN_LOG_LEVEL", "2", 0); /* XLA writes harmless lines to standard error */
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return why_say(why, "%s", dlerror());
    pjrt_get_api get;
    *(void **)&get = dlsym(library, "GetPjrtApi");
    if (!get || !(c->api = get()))
        return why_say(why, "it has no GetPjrtApi: no PJRT plugin");
    if (c->api->size < sizeof *c->api || c->api->major != PJRT_MAJOR || c->api->minor < PJRT_LEAST_MINOR)
        return why_say(why, "its PJRT is %d.%d; expected %d.%d or later", c->api->major, c->api->minor, PJRT_MAJOR, PJRT_LEAST_MINOR);
    pjrt_object_args a = {.size = offsetof(pjrt_object_args, object)};
    return api_call(c, PJRT_PLUGIN_INITIALIZE, &a, why) && dialect_fits(c, why);
}

/* ---- The client ---------------------------------------------------------------------------------------------------- */

static bool client_create(pj_client *c, const pjrt_named_value *option, size_t n_option, char why[PJ_WHY])
{
    pjrt_client_create_args a = {.size = sizeof a, .option = option, .n_option = n_option};
    if (!api_call(c, PJRT_CLIENT_CREATE, &a, why))
        return false;
    c->client = a.client;
    return true;
}

#define OPTION(text, kind, member, what, n) \
    {.size = sizeof(pjrt_named_value), .name = (text), .name_size = sizeof(text) - 1, .type = (kind), .value = {.member = (what)}, \
     .value_size = (n)}

/* Tries each set of options in turn, as vendors refuse unknown ones; the last set is empty. */
static bool client_any(pj_client *c, uint32_t index, uint32_t each, char why[PJ_WHY])
{
    int64_t visible[PJ_DEVICES];
    for (uint32_t i = 0; i < each; i++)
        visible[i] = index / each * each + i;
    const pjrt_named_value cpu[] = {OPTION("cpu_device_count", PJRT_VALUE_INT64, number, each, 1)};
    const pjrt_named_value gpu[] = {OPTION("visible_devices", PJRT_VALUE_INT64_LIST, numbers, visible, each),
                                    OPTION("preallocate", PJRT_VALUE_BOOL, flag, false, 1)};
    c->only = false;
    if (client_create(c, cpu, 1, why))
        return true;
    c->only = client_create(c, gpu, 2, why);
    return c->only || client_create(c, NULL, 0, why);
}

bool pj_client_open(pj_client *c, uint32_t index, uint32_t each, char why[PJ_WHY])
{
    if (!client_any(c, index, each, why))
        return false;
    text_ask(c, PJRT_CLIENT_PLATFORM_NAME, c->client, c->platform);
    text_ask(c, PJRT_CLIENT_PLATFORM_VERSION, c->client, c->version);
    if (pj_client_take(c, index, each, why))
        return true;
    pj_client_close(c);
    return false;
}

bool pj_client_take(pj_client *c, uint32_t index, uint32_t each, char why[PJ_WHY])
{
    pjrt_devices_args a = {.size = sizeof a, .client = c->client};
    if (!api_call(c, PJRT_CLIENT_ADDRESSABLE_DEVICES, &a, why))
        return false;
    const size_t at = c->only ? index % each : index;
    c->n_device = (uint32_t)(a.n_device < PJ_DEVICES ? a.n_device : PJ_DEVICES);
    if (at >= a.n_device)
        return why_say(why, "it has %zu devices, no device %u", a.n_device, index);
    c->device = a.device[at];
    const pjrt_device_description *description = object_ask(c, PJRT_DEVICE_GET_DESCRIPTION, c->device);
    pjrt_id_args d = {.size = offsetof(pjrt_id_args, id) + sizeof d.id, .description = description};
    text_ask(c, PJRT_DEVICE_DESCRIPTION_KIND, description, c->kind);
    if (!api_call(c, PJRT_DEVICE_DESCRIPTION_ID, &d, why))
        return false;
    c->id = d.id;
    return true;
}

void pj_client_close(pj_client *c)
{
    object_destroy(c, PJRT_CLIENT_DESTROY, c->client);
    c->client = NULL;
    c->device = NULL;
}

bool pj_client_memory(const pj_client *c, uint64_t *total, uint64_t *used)
{
    pjrt_device_memory_args a = {.size = sizeof a, .device = c->device};
    if (!api_call(c, PJRT_DEVICE_MEMORY_STATS, &a, NULL) || !a.limit_set || a.limit <= 0)
        return false;
    *total = (uint64_t)a.limit;
    *used = a.in_use > 0 && a.in_use <= a.limit ? (uint64_t)a.in_use : 0;
    return true;
}

/* ---- Programs ------------------------------------------------------------------------------------------------------ */

/* An entry of env_option_overrides (7) with a bool (2): a cast to 16 bits and back rounds, as XLA would else drop it. */
#define EXACT "xla_allow_excess_precision"
static const char options_exact[] = "\x3a\x20\x0a\x1a" EXACT "\x12\x02\x10\x00";
#define OPTIONS_MOST (PJ_DEVICES * 10 + 96) /* a negative number takes ten bytes */

/* Adds a number of a proto, in sevens of bits. */
static void proto_number(char *to, size_t *n, uint64_t value)
{
    for (; value > 127; value >>= 7)
        to[(*n)++] = (char)(value & 127) | (char)128;
    to[(*n)++] = (char)value;
}

/* Adds a member that holds bytes. */
static void proto_bytes(char *to, size_t *n, char tag, const char *bytes, size_t n_byte)
{
    to[(*n)++] = tag;
    proto_number(to, n, n_byte);
    memcpy(to + *n, bytes, n_byte);
    *n += n_byte;
}

/*
 * A serialized CompileOptionsProto: executable_build_options (3) with num_replicas (4), num_partitions (5) of 1, and device_assignment (9),
 * which has both numbers (1, 2) and the devices' (3, in it 1). Without the last a program would run on the client's first devices.
 */
static size_t options_write(const pj_replicas *replicas, char options[OPTIONS_MOST])
{
    char ids[OPTIONS_MOST] = "", list[OPTIONS_MOST], devices[OPTIONS_MOST], build[OPTIONS_MOST];
    size_t n_id = 0, n_list = 0, n_device = 0, n_build = 0, n = 0;
    for (uint32_t i = 0; i < replicas->n; i++)
        proto_number(ids, &n_id, (uint64_t)replicas->id[i]);
    proto_bytes(list, &n_list, 0x0a, ids, n_id);
    devices[n_device++] = 0x08;
    proto_number(devices, &n_device, replicas->n);
    devices[n_device++] = 0x10;
    devices[n_device++] = 1;
    proto_bytes(devices, &n_device, 0x1a, list, n_list);
    build[n_build++] = 0x20;
    proto_number(build, &n_build, replicas->n);
    build[n_build++] = 0x28;
    build[n_build++] = 1;
    proto_bytes(build, &n_build, 0x4a, devices, n_device);
    proto_bytes(options, &n, 0x1a, build, n_build);
    memcpy(options + n, options_exact, sizeof options_exact - 1);
    return n + sizeof options_exact - 1;
}

bool pj_compile(const pj_client *c, const pj_replicas *replicas, char *text, size_t bytes, pjrt_loaded **loaded, char why[PJ_WHY])
{
    char options[OPTIONS_MOST];
    const size_t n = options_write(replicas, options);
    const pjrt_program p = {.size = sizeof p, .code = text, .code_size = bytes, .format = "mlir", .format_size = 4};
    pjrt_compile_args a = {.size = sizeof a, .client = c->client, .program = &p, .options = options, .options_size = n};
    if (!api_call(c, PJRT_CLIENT_COMPILE, &a, why))
        return false;
    *loaded = a.loaded;
    return true;
}

void pj_loaded_free(const pj_client *c, pjrt_loaded *loaded)
{
    object_destroy(c, PJRT_LOADED_DESTROY, loaded);
}

bool pj_serialize(const pj_client *c, pjrt_loaded *loaded, void (*keep)(void *arg, const void *bytes, size_t n), void *arg)
{
    pjrt_executable *executable = object_ask(c, PJRT_LOADED_GET_EXECUTABLE, loaded);
    pjrt_serialize_args a = {.size = sizeof a, .executable = executable};
    const bool good = executable && api_call(c, PJRT_EXECUTABLE_SERIALIZE, &a, NULL);
    if (good) {
        keep(arg, a.bytes, a.n_byte);
        a.release(a.owner);
    }
    object_destroy(c, PJRT_EXECUTABLE_DESTROY, executable);
    return good;
}

bool pj_restore(const pj_client *c, const void *bytes, size_t n, pjrt_loaded **loaded)
{
    pjrt_deserialize_args a = {.size = sizeof a, .client = c->client, .bytes = bytes, .n_byte = n};
    if (!api_call(c, PJRT_DESERIALIZE_AND_LOAD, &a, NULL))
        return false;
    *loaded = a.loaded;
    return true;
}

bool pj_memory(const pj_client *c, pjrt_loaded *loaded, pjrt_compiled_memory_args *account)
{
    pjrt_executable *executable = object_ask(c, PJRT_LOADED_GET_EXECUTABLE, loaded);
    *account = (pjrt_compiled_memory_args){.size = sizeof *account, .executable = executable};
    const bool good = executable && api_call(c, PJRT_COMPILED_MEMORY_STATS, account, NULL);
    object_destroy(c, PJRT_EXECUTABLE_DESTROY, executable);
    return good && account->code >= 0 && account->argument >= 0 && account->result >= 0 && account->alias >= 0 && account->temporary >= 0;
}

/* ---- Arrays and runs ------------------------------------------------------------------------------------------------ */

bool pj_upload(const pj_client *c, const void *from, const pj_shape *shape, pjrt_buffer **buffer, char why[PJ_WHY])
{
    pjrt_from_host_args a = {.size = sizeof a, .client = c->client, .data = from, .type = shape->type, .dim = shape->dim,
                             .n_dim = shape->dims, .semantics = PJRT_ONLY_DURING_CALL, .device = c->device};
    if (!api_call(c, PJRT_CLIENT_BUFFER_FROM_HOST_BUFFER, &a, why))
        return false;
    *buffer = a.buffer;
    if (event_wait(c, a.done, why))
        return true;
    pj_buffer_free(c, a.buffer);
    return false;
}

bool pj_download(const pj_client *c, pjrt_buffer *buffer, void *to, size_t bytes, char why[PJ_WHY])
{
    pjrt_to_host_args a = {.size = sizeof a, .source = buffer, .to = to, .to_size = bytes};
    return api_call(c, PJRT_BUFFER_TO_HOST_BUFFER, &a, why) && event_wait(c, a.event, why);
}

void pj_buffer_free(const pj_client *c, pjrt_buffer *buffer)
{
    object_destroy(c, PJRT_BUFFER_DESTROY, buffer);
}

bool pj_execute(const pj_client *c, const pj_run *run, char why[PJ_WHY])
{
    pjrt_execute_options options = {.size = sizeof options, .kept = run->kept, .n_kept = run->n_kept};
    pjrt_buffer *const *in = run->in;
    pjrt_buffer **out = run->out;
    pjrt_event *done = NULL;
    pjrt_execute_args a = {.size = sizeof a, .loaded = run->loaded, .options = &options, .argument = &in, .n_device = 1,
                           .n_argument = run->n_in, .result = &out, .done = &done};
    return api_call(c, PJRT_LOADED_EXECUTE, &a, why) && event_wait(c, done, why);
}

bool pj_execute_replicas(const pj_client *c, pjrt_loaded *loaded, uint32_t n, pjrt_buffer *const *in, pjrt_buffer **out, char why[PJ_WHY])
{
    pjrt_execute_options options = {.size = sizeof options};
    pjrt_buffer *const *argument[PJ_DEVICES];
    pjrt_buffer **result[PJ_DEVICES];
    pjrt_event *done[PJ_DEVICES] = {NULL};
    for (uint32_t i = 0; i < n; i++) {
        argument[i] = &in[i];
        result[i] = &out[i];
    }
    pjrt_execute_args a = {.size = sizeof a, .loaded = loaded, .options = &options, .argument = argument, .n_device = n, .n_argument = 1,
                           .result = result, .done = done};
    if (!api_call(c, PJRT_LOADED_EXECUTE, &a, why))
        return false;
    bool good = true;
    for (uint32_t i = 0; i < n; i++)
        good = event_wait(c, done[i], good ? why : NULL) && good;
    for (uint32_t i = 0; i < n && !good; i++)
        pj_buffer_free(c, out[i]);
    return good;
}
