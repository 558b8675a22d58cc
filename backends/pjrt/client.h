/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A vendor's PJRT plugin and a device of a client of it: opening, compiling, running, copying. It knows nothing of Yoke, so that the
 * program that tries plugins shares it. A function that returns false has set `why`, in the vendor's words if any.
 */
#ifndef YOKE_BACKENDS_PJRT_CLIENT_H
#define YOKE_BACKENDS_PJRT_CLIENT_H

#include "backends/pjrt/api.h"

#define PJ_WHY 256
#define PJ_TEXT 96
#define PJ_DEVICES 64

typedef struct pj_client {
    const pjrt_api *api;
    pjrt_client *client;
    pjrt_device *device; /* the one that is used */
    int id;              /* its number among the replicas of programs */
    uint32_t n_device;   /* devices that the client sees */
    bool only;           /* the client sees only this device, or the ones that were to be in it */
    uint64_t stamp;      /* version of the vendor's file; set by the opener */
    char platform[PJ_TEXT], version[PJ_TEXT], kind[PJ_TEXT];
} pj_client;

/* The shape of a dense array on the host. */
typedef struct pj_shape {
    int type; /* PJRT_F32 .. */
    uint32_t dims;
    const int64_t *dim;
} pj_shape;

/* Loads the file and initialises it. A vendor's library is never unloaded. */
bool pj_plugin_load(const char *file, pj_client *c, char why[PJ_WHY]);
/* Makes a client and takes device `index` of it. The client sees `each` devices if the vendor has an option for that: with 1 this one
 * alone, else index / each * each and those behind it. */
bool pj_client_open(pj_client *c, uint32_t index, uint32_t each, char why[PJ_WHY]);
/* Takes device `index` of a client that is open. */
bool pj_client_take(pj_client *c, uint32_t index, uint32_t each, char why[PJ_WHY]);
void pj_client_close(pj_client *c);
/* Bytes of the device's memory and of it in use; false: unknown. */
bool pj_client_memory(const pj_client *c, uint64_t *total, uint64_t *used);

/* The devices that run a program together, by the numbers of its replicas. */
typedef struct pj_replicas {
    uint32_t n;
    int id[PJ_DEVICES];
} pj_replicas;

/* Compiles StableHLO text. */
bool pj_compile(const pj_client *c, const pj_replicas *replicas, char *text, size_t bytes, pjrt_loaded **loaded, char why[PJ_WHY]);
void pj_loaded_free(const pj_client *c, pjrt_loaded *loaded);
/* Calls keep(arg, bytes, n) with the compiled program as bytes, which pj_restore takes. */
bool pj_serialize(const pj_client *c, pjrt_loaded *loaded, void (*keep)(void *arg, const void *bytes, size_t n), void *arg);
bool pj_restore(const pj_client *c, const void *bytes, size_t n, pjrt_loaded **loaded);
/* The vendor's own account of a program's memory on the device; false if it has none. Only the first five members count. */
bool pj_memory(const pj_client *c, pjrt_loaded *loaded, pjrt_compiled_memory_args *account);

/* Copies from the host; the memory may change when the call returns. */
bool pj_upload(const pj_client *c, const void *from, const pj_shape *shape, pjrt_buffer **buffer, char why[PJ_WHY]);
/* Copies to the host, all of the array. */
bool pj_download(const pj_client *c, pjrt_buffer *buffer, void *to, size_t bytes, char why[PJ_WHY]);
void pj_buffer_free(const pj_client *c, pjrt_buffer *buffer);

/* Runs a program and waits for it. Arguments named in kept[] are not donated. */
typedef struct pj_run {
    pjrt_loaded *loaded;
    pjrt_buffer *const *in;
    size_t n_in;
    pjrt_buffer **out;
    const int64_t *kept;
    size_t n_kept;
} pj_run;
bool pj_execute(const pj_client *c, const pj_run *run, char why[PJ_WHY]);
/* Runs a program of one argument and one result on its n replicas at once. Without success there are no results. */
bool pj_execute_replicas(const pj_client *c, pjrt_loaded *loaded, uint32_t n, pjrt_buffer *const *in, pjrt_buffer **out, char why[PJ_WHY]);

#endif
