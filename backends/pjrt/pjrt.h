/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the PJRT plugin: devices, buffers, programs. */
#ifndef YOKE_BACKENDS_PJRT_PJRT_H
#define YOKE_BACKENDS_PJRT_PJRT_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "backends/pjrt/client.h"
#include "plugins/kit/kit_queue.h"
#include "plugins/kit/kit_text.h"

#define PJ_NAME "pjrt"
#define PJ_VERSION "0.1.0"

extern const yk_host *pj_host; /* set by init */

struct yk_device {
    pj_client client;
    struct pj_shared *shared; /* its client, which other open devices have, too; NULL: the client is its own */
    pthread_mutex_t lock;     /* guards the list */
    struct pj_code *codes;    /* compiled programs, each text once */
    atomic_bool left_behind; /* a hanging queue was left behind: nothing is freed, as the device may still use it */
};

/* pjrt_options.c */
const char *pj_option(const char *key);
yk_status pj_options_check(void);
uint64_t pj_cache_most(void);     /* bytes of compiled programs that are kept; 0: none is */
uint32_t pj_client_devices(void); /* devices that one client holds */

/* pjrt_list.c: vendors' plugins and their devices */
yk_status pj_device_count(uint32_t *n);
yk_status pj_device_caps(uint32_t i, yk_device_caps *caps);
yk_status pj_device_open(uint32_t i, yk_device **dev);
void pj_device_close(yk_device *dev);
void pj_devices_forget(void);
/* Threads that a vendor's library starts take the cores of the thread that makes a client, or compiles: CORES, if that is set. *was: the
 * cores before; true if they changed. */
bool pj_cores_bind(cpu_set_t *was);
void pj_cores_restore(bool bound, const cpu_set_t *was);

/* pjrt_memory.c: a buffer is host memory and arrays on the device that hold ranges of it. */
typedef struct pj_array pj_array; /* counted */
typedef struct pj_range {
    uint64_t begin, bytes;
    uint32_t dtype, dims;
    const int64_t *dim;
} pj_range;
yk_status pj_buffer_new(yk_device *dev, const yk_buffer_desc *desc, yk_buffer **out);
void pj_buffer_release(yk_buffer *b);
uint64_t pj_buffer_bytes(const yk_buffer *b);
yk_status pj_buffer_copy(yk_device *dev, const yk_copy *c, char why[KIT_WHY]);
/* The array with the present contents of a range; the caller releases it. NULL, with `why`, after a failure. */
pj_array *pj_array_take(yk_buffer *b, const pj_range *range, char why[KIT_WHY]);
pjrt_buffer *pj_array_of(const pj_array *a);
void pj_array_give(pj_array *a);
/* The range now has the contents of this array, which the buffer owns from here on, also when this fails. */
bool pj_array_put(yk_buffer *b, const pj_range *range, pjrt_buffer *array, char why[KIT_WHY]);
int pj_element_type(uint32_t dtype);

/* pjrt_coll.c: collectives of devices of one client; NULL: a client holds one device */
void pj_coll_init(void);
const struct yk_coll *pj_coll(void);

/* pjrt_program.c */
typedef struct pj_code pj_code;
yk_status pj_program_new(yk_device *dev, const yk_graph *g, yk_program **out);
void pj_program_free(yk_program *p);
const yk_graph *pj_program_graph(const yk_program *p);
yk_status pj_program_memory(const yk_program *p, yk_program_memory *m);
yk_status pj_program_run(yk_device *dev, const yk_submit *s, char why[KIT_WHY]);
/* The executable of a text, from the list or compiled and put at its front; the text may be taken. NULL, with `why`, after a failure. */
pjrt_loaded *pj_code_need(const pj_client *c, const pj_replicas *replicas, pj_code **list, kit_text *text, char why[PJ_WHY]);
/* Frees all but the first `kept`. */
void pj_codes_free(const pj_client *c, pj_code **list, uint32_t kept);

#endif
