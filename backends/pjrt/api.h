/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of the PJRT C API that this plugin calls, as prototypes of its own: layouts and places in the table are facts of the interface,
 * which grows at the end of its structs and of its table. Every struct begins with its size and a list of extensions, which is NULL here.
 * tests/cts/pjrt_layout.c compares them with a vendor's header.
 */
#ifndef YOKE_BACKENDS_PJRT_API_H
#define YOKE_BACKENDS_PJRT_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PJRT_MAJOR 0
#define PJRT_LEAST_MINOR 54 /* compiled memory stats have their place in the table since then */

typedef struct pjrt_error pjrt_error; /* opaque, as are the next seven */
typedef struct pjrt_event pjrt_event;
typedef struct pjrt_client pjrt_client;
typedef struct pjrt_device pjrt_device;
typedef struct pjrt_device_description pjrt_device_description;
typedef struct pjrt_executable pjrt_executable;
typedef struct pjrt_loaded pjrt_loaded;
typedef struct pjrt_buffer pjrt_buffer;

/* Places in pjrt_api.call. */
enum {
    PJRT_ERROR_DESTROY = 0, /* returns no error, and neither does the next */
    PJRT_ERROR_MESSAGE = 1,
    PJRT_PLUGIN_INITIALIZE = 3,
    PJRT_PLUGIN_ATTRIBUTES = 4,
    PJRT_EVENT_DESTROY = 5,
    PJRT_EVENT_AWAIT = 8,
    PJRT_CLIENT_CREATE = 10,
    PJRT_CLIENT_DESTROY = 11,
    PJRT_CLIENT_PLATFORM_NAME = 12,
    PJRT_CLIENT_PLATFORM_VERSION = 14,
    PJRT_CLIENT_ADDRESSABLE_DEVICES = 16,
    PJRT_CLIENT_COMPILE = 20,
    PJRT_CLIENT_BUFFER_FROM_HOST_BUFFER = 22,
    PJRT_DEVICE_DESCRIPTION_ID = 23,
    PJRT_DEVICE_DESCRIPTION_KIND = 26,
    PJRT_DEVICE_GET_DESCRIPTION = 29,
    PJRT_DEVICE_MEMORY_STATS = 34,
    PJRT_EXECUTABLE_DESTROY = 40,
    PJRT_EXECUTABLE_SERIALIZE = 49,
    PJRT_LOADED_DESTROY = 50,
    PJRT_LOADED_GET_EXECUTABLE = 51,
    PJRT_LOADED_EXECUTE = 55,
    PJRT_DESERIALIZE_AND_LOAD = 56,
    PJRT_BUFFER_DESTROY = 58,
    PJRT_BUFFER_TO_HOST_BUFFER = 70,
    PJRT_COMPILED_MEMORY_STATS = 96,
    PJRT_CALLS = 97 /* places that are looked at */
};

/* All functions take one struct of arguments. NULL: no error. */
typedef pjrt_error *(*pjrt_call)(void *args);

typedef struct pjrt_api {
    size_t size;
    void *extensions;
    size_t version_size;
    void *version_extensions;
    int major, minor;
    pjrt_call call[PJRT_CALLS];
} pjrt_api;

/* The one exported symbol. */
typedef const pjrt_api *(*pjrt_get_api)(void);

typedef struct pjrt_error_args { /* arguments of DESTROY; only MESSAGE has the text */
    size_t size;
    void *extensions;
    const pjrt_error *error;
    const char *text;
    size_t text_size;
} pjrt_error_args;

/* A call with one object as its argument: initialize (none), destroy, await. */
typedef struct pjrt_object_args {
    size_t size;
    void *extensions;
    void *object;
} pjrt_object_args;

/* A call that answers with one pointer about one object: PLATFORM_NAME, PLATFORM_VERSION, DESCRIPTION_KIND (with the length of the text),
 * GET_DESCRIPTION, GET_EXECUTABLE. */
typedef struct pjrt_ask_args {
    size_t size;
    void *extensions;
    const void *object;
    void *answer;
    size_t answer_size;
} pjrt_ask_args;

typedef struct pjrt_id_args { /* DESCRIPTION_ID */
    size_t size;
    void *extensions;
    const pjrt_device_description *description;
    int id;
} pjrt_id_args;

enum { PJRT_VALUE_STRING, PJRT_VALUE_INT64, PJRT_VALUE_INT64_LIST, PJRT_VALUE_FLOAT, PJRT_VALUE_BOOL };

typedef struct pjrt_named_value {
    size_t size;
    void *extensions;
    const char *name;
    size_t name_size;
    int type; /* PJRT_VALUE_* */
    union {
        const char *text;
        int64_t number;
        const int64_t *numbers;
        float real;
        bool flag;
    } value;
    size_t value_size;
} pjrt_named_value;

typedef struct pjrt_attributes_args {
    size_t size;
    void *extensions;
    const pjrt_named_value *attribute;
    size_t n_attribute;
} pjrt_attributes_args;

typedef struct pjrt_client_create_args {
    size_t size;
    void *extensions;
    const pjrt_named_value *option;
    size_t n_option;
    void *get, *get_arg, *put, *put_arg; /* callbacks of a store between processes: NULL */
    pjrt_client *client;
    void *try_get, *try_get_arg;
} pjrt_client_create_args;

typedef struct pjrt_devices_args {
    size_t size;
    void *extensions;
    pjrt_client *client;
    pjrt_device *const *device;
    size_t n_device;
} pjrt_devices_args;

typedef struct pjrt_program {
    size_t size;
    void *extensions;
    char *code;
    size_t code_size;
    const char *format;
    size_t format_size;
} pjrt_program;

typedef struct pjrt_compile_args {
    size_t size;
    void *extensions;
    pjrt_client *client;
    const pjrt_program *program;
    const char *options;
    size_t options_size;
    pjrt_loaded *loaded;
} pjrt_compile_args;

enum { PJRT_PRED = 1, PJRT_S8 = 2, PJRT_S32 = 4, PJRT_U8 = 6, PJRT_F16 = 10, PJRT_F32 = 11, PJRT_BF16 = 13 };
enum { PJRT_ONLY_DURING_CALL = 0 }; /* how long host memory stays as it is */

typedef struct pjrt_from_host_args {
    size_t size;
    void *extensions;
    pjrt_client *client;
    const void *data;
    int type;
    const int64_t *dim;
    size_t n_dim;
    const int64_t *stride;
    size_t n_stride;
    int semantics;
    pjrt_device *device;
    void *memory, *layout;
    pjrt_event *done;
    pjrt_buffer *buffer;
} pjrt_from_host_args;

typedef struct pjrt_to_host_args {
    size_t size;
    void *extensions;
    pjrt_buffer *source;
    void *layout;
    void *to;
    size_t to_size;
    pjrt_event *event;
} pjrt_to_host_args;

typedef struct pjrt_execute_options {
    size_t size;
    void *extensions;
    void *send, *receive;
    size_t n_send, n_receive;
    int launch;
    const int64_t *kept; /* arguments that are not donated although the program would take them */
    size_t n_kept;
    void *context;
    const char *location;
    size_t n_task;
    int *task;
    int64_t *incarnation;
} pjrt_execute_options;

typedef struct pjrt_execute_args {
    size_t size;
    void *extensions;
    pjrt_loaded *loaded;
    pjrt_execute_options *options;
    pjrt_buffer *const *const *argument; /* [n_device] */
    size_t n_device, n_argument;
    pjrt_buffer **const *result;
    pjrt_event **done; /* [n_device] */
    pjrt_device *device;
} pjrt_execute_args;

typedef struct pjrt_serialize_args {
    size_t size;
    void *extensions;
    const pjrt_executable *executable;
    const char *bytes;
    size_t n_byte;
    void *owner;
    void (*release)(void *owner);
} pjrt_serialize_args;

typedef struct pjrt_deserialize_args {
    size_t size;
    void *extensions;
    pjrt_client *client;
    const char *bytes;
    size_t n_byte;
    pjrt_loaded *loaded;
    const char *options;
    size_t options_size;
} pjrt_deserialize_args;

typedef struct pjrt_device_memory_args { /* more follows, which `size` leaves out */
    size_t size;
    void *extensions;
    pjrt_device *device;
    int64_t in_use;
    int64_t peak;
    bool peak_set;
    int64_t allocs;
    bool allocs_set;
    int64_t largest;
    bool largest_set;
    int64_t limit;
    bool limit_set;
    int64_t reserved;
    bool reserved_set;
    int64_t peak_reserved;
    bool peak_reserved_set;
    int64_t reservable;
    bool reservable_set;
    int64_t largest_free;
    bool largest_free_set;
    int64_t pool;
    bool pool_set;
    int64_t peak_pool;
    bool peak_pool_set;
} pjrt_device_memory_args;

typedef struct pjrt_compiled_memory_args {
    size_t size;
    void *extensions;
    pjrt_executable *executable;
    int64_t code, argument, result, alias, temporary;
    int64_t host_code, host_argument, host_result, host_alias, host_temporary;
    int64_t peak;
} pjrt_compiled_memory_args;

#endif
