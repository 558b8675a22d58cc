/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole plugin over a few functions of a device: those that allocate, copy, compile, launch and wait. The kit has the rest. That is the
 * table, queues with their threads and points, spans and failures, and the limit of memory. It also has the lowering of graphs to kernels,
 * compiled code by the hash of its text, arguments, and scratch memory. The author fills a kit_device and ends the file with
 *
 *     KIT_DEVICE_EXPORT(device)
 *
 * A device is one of three kinds, or a mixture:
 *   text     `build` compiles kernels from text, `launch` runs one (plugins/template/cc.c).
 *   library  `has` names the nodes that a library of operators computes, `call` computes one. Without `build` the kit computes each other
 *            primitive by the host's reference kernels, on copies in host memory: right and slow (plugins/template/blas.c).
 *   mixed    both: kernels compute the nodes that the library lacks.
 *
 * Threads. Each queue has a thread, and one stream (`stream_new`): put, get, move, launch, call and wait come from that thread, with that
 * stream. Such calls of several queues run at the same time. `put` and `wait` also come for a stream that no queue has, when a program is
 * made. The remaining functions come from any thread at any time, but no two calls of build or load on one opened device at once.
 *
 * Failures. A function that fails says why by kit_device_say before it returns the status, in the thread that called it. `wait` says and
 * returns a failure of earlier work. A failure of a stream's function fails the queue for good.
 *
 * Option YOKE_<NAME>_PROFILE=1 prints to stderr, when a device is closed, the time of each operation by kernel and shape, the longest
 * first. The words "library" and "host" stand for the kernel of a node that `call` or the host computes. The stream waits after each launch
 * then.
 *
 * Sources: libyoke_kit.a (pkg-config --libs yoke-plugin). One plugin per shared object.
 */
#ifndef YOKE_PLUGINS_KIT_KIT_DEVICE_H
#define YOKE_PLUGINS_KIT_KIT_DEVICE_H

#include "plugins/kit/kit_entry.h"
#include "plugins/kit/plugin.h"
#include "plugins/kit/units.h"

/* A member may be NULL if its comment says so. */
typedef struct kit_device {
    const char *name, *version; /* name: a-z0-9_, as in YOKE_DEVICES */

    /* ---- Devices ---- */
    uint32_t (*count)(void); /* 0 without a driver. NULL: one device */
    /*
     * Describes device i. caps and target come with defaults: the types of the kit's kernels, slots at multiples of 256 bytes, no flags.
     * caps->mem_total is a limit that the kit keeps: it refuses buffers beyond it, and fills in mem_free. target: the members about
     * kernels. A device without `build` leaves target as it is. Needs no open device.
     */
    void (*describe)(uint32_t i, yk_device_caps *caps, kit_target *target);
    /*
     * The same device may be open several times. mem_total limits all opens of a device together. Memory, code and streams of one open are
     * used with that open alone, so each open may keep its own. The kit refuses a queue memory of another open. Closing one leaves the
     * remaining opens as they are. NULL: each `device` is NULL
     */
    yk_status (*open)(uint32_t i, void **device);
    void (*close)(void *device);                  /* NULL: nothing to do */
    /*
     * The host gave up work that does not end (yk_cancel, a lost device), and the kit leaves its queue behind. The queue's thread stays in
     * put, get, move, launch, call or wait of `stream`. It may use the device, its memory and its code for ever. From here on the kit calls
     * none of close, free, and release for this open device. Its other queues go on working, and their streams end as usual; so may queues
     * that are made later. A device that can stop the work of this one stream does so here. NULL: a device that cannot, or cannot tell its
     * streams apart. Called once for each such queue, from the thread that frees it, 2 s after the abort at the earliest. The kit begins no
     * launch, call or computation by the host after an abort. So a slow device that ends each of them is not left. A device that does its
     * work only at `wait` is left if all work that it was given takes 2 s or more.
     */
    void (*left)(void *device, void *stream);
    yk_status (*stream_new)(void *device, void **stream); /* NULL: the device itself is the stream */
    void (*stream_free)(void *stream);                    /* NULL without stream_new */

    /* ---- Memory: alloc returns a handle, which the kit never dereferences. free, address, put, get and move get this handle. ---- */
    void *(*alloc)(void *device, uint64_t bytes); /* 1 byte at least; NULL if there is no memory */
    void (*free)(void *device, void *memory);     /* no stream uses it */
    void *(*address)(void *device, void *memory); /* as launches and calls get it. NULL: the handle itself */
    /* Copies between host memory and the device, from byte `at` of the memory on; `bytes` is at least 1. May be done only at `wait`:
     * from and to are valid until the stream's next `wait` returns. */
    yk_status (*put)(void *stream, void *memory, uint64_t at, const void *from, uint64_t bytes);
    yk_status (*get)(void *stream, void *memory, uint64_t at, void *to, uint64_t bytes);
    /* Copies inside the device; the ends do not overlap. NULL: by get and put. */
    yk_status (*move)(void *stream, void *to, uint64_t to_at, void *from, uint64_t from_at, uint64_t bytes);
    yk_status (*wait)(void *stream); /* returns when all work of the stream is done. NULL: each function waits for its work */

    /* ---- Kernels: NULL for a device without a compiler ---- */
    /*
     * Compiles `text` (kernels/dialect.kc) with macros ("-DNAME=VALUE ..."). entries: the text has one kernel and its entry (kit_entry.h);
     * otherwise kernels by name. `load` makes the same code of *image, memory of host->alloc, in another process. The image is kept in the
     * cache folder under the device's name, version and isa. It stays empty if there is none.
     */
    bool entries; /* the compiler's language is plain C: asks for the CPU shape */
    yk_status (*build)(void *device, const char *text, const char *macros, void **code, kit_image *image);
    void *(*load)(void *device, const void *image, size_t bytes); /* NULL if it is useless here. The pointer may be NULL: keeps none */
    void (*release)(void *code);
    /* Runs launch->groups times launch->local work-items of launch->kernel. argument: launch->n_arg of them, valid during the call. May be
     * done only at `wait`, but before the stream's next launch begins, or as if it was. */
    yk_status (*launch)(void *stream, void *code, const kit_launch *launch, const kit_argument *argument);

    /* ---- Operators of a library: NULL without one ---- */
    /* True if `call` computes this node, of any operation, with its types, strides and flags. The host asks before values have slots. A
     * composite for which it is true is claimed. Always the same answer for one node. */
    bool (*has)(void *device, const yk_graph *graph, uint32_t node);
    /* Computes a node. operand: its inputs, then its outputs, 28 at most; number.i64 is the byte at which the value begins. operand is
     * valid during the call. graph is valid until the stream's next `wait` returns. May be done only at `wait`, after the stream's earlier
     * work. */
    yk_status (*call)(void *stream, const yk_graph *graph, uint32_t node, const kit_argument *operand);
} kit_device;

/* Explains the status that a function of the device is about to return. [any] */
void kit_device_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
const yk_host *kit_device_host(void); /* the host's functions */

/* The table of the plugin; `device` outlives it. */
const yk_plugin *kit_device_plugin(const kit_device *device);

#define KIT_DEVICE_EXPORT(device)                                                                    \
    const yk_plugin *yk_plugin_query(uint32_t abi);                                                  \
    __attribute__((visibility("default"))) const yk_plugin *yk_plugin_query(uint32_t abi)            \
    {                                                                                                \
        return abi == YK_ABI ? kit_device_plugin(&(device)) : NULL;                                  \
    }

#endif
