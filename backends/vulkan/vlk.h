/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Vulkan plugin's own types. One file per part, and each calls only parts named after it: vk_plugin.c (table, options); vk_queue.c
 * (functions for the kit's queue); vk_program.c (launches of the kit as recorded commands); pipeline.c (kernels as pipelines);
 * vk_profile.c (time per kernel); vk_memory.c (buffers); work.c (submitting and waiting); vk_device.c (an open device); vk_cache.c
 * (pipelines between processes); vk_list.c (list of devices); limits.c; vk_probe.c (drivers tried in a child process); vk_host.c. The kit
 * selects the launches of a graph (plugins/kit/lower/lower.h) and translates kernels (spirv/spirv.h).
 *
 * Memory is named by its address (bufferDeviceAddress): there are no descriptors, no limit of a binding's range, and recorded
 * commands do not refer to buffers.
 */
#ifndef YOKE_BACKENDS_VULKAN_VLK_H
#define YOKE_BACKENDS_VULKAN_VLK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <vulkan/vulkan.h>

#include <yoke/plugin.h>

#include "plugins/kit/kit_profile.h"
#include "plugins/kit/kit_queue.h"
#include "plugins/kit/kit_survey.h"
#include "plugins/kit/lower/lower.h"

#define VLK_WHO "vulkan"
#define VLK_VERSION "0.1.0"
#define VLK_PAGE 4096u /* alignment of imported host memory, bytes */

/* ---- vk_host.c ---- */
extern const yk_host *vlk_host; /* NULL before init */
void *vlk_alloc(size_t bytes);  /* zeroed; NULL after telling the host */
void vlk_free(void *p);
const char *vlk_option(const char *key); /* NULL if unset or empty */
const char *vlk_result_name(VkResult result);
yk_status vlk_result_status(VkResult result);
/* A status for a failed call, explained to the host as "what: VK_NAME". */
yk_status vlk_error(VkResult result, const char *what);
bool vlk_extension_there(VkPhysicalDevice handle, const char *name);

/* ---- vk_probe.c ---- */
uint64_t vlk_probe_key(void);    /* key of the present drivers and their environment, before any set-up; 0 without a driver */
kit_survey vlk_survey(void);   /* stored answers about drivers and devices */
bool vlk_probe_known(void);     /* true if stored results for these drivers are recent enough, or probing is off */
void vlk_probe_drivers(void);   /* excludes drivers that abort or hang, by VK_DRIVER_FILES; after vlk_probe_key */
void vlk_probe_done(void);      /* called after the drivers are loaded */

/* ---- vk_list.c ---- */
typedef struct vlk_physical { /* a device of a driver; lives until vlk_devices_forget */
    VkInstance instance;
    VkPhysicalDevice handle;
    VkPhysicalDeviceProperties properties;
    VkPhysicalDeviceMemoryProperties memory;
    uint64_t max_alloc;
    uint32_t max_group, max_local; /* work-items of a group, bytes that they share */
    uint32_t family;       /* family of the used queue */
    uint32_t memory_type;  /* memory type of buffers */
    uint32_t staging_type; /* type of memory that the host reads and writes */
    bool visible;          /* the host sees buffers */
    bool keeps_nan;        /* a kernel may require that NaN and infinity are kept */
    bool ends_loops;       /* llvmpipe ends a kernel's loops after 65535 rounds, silently */
    uint32_t lanes;        /* on a processor: work-items of a subgroup, which are lanes of its vectors; 0 on a GPU */
    bool budget;           /* VK_EXT_memory_budget */
    bool imports;          /* VK_EXT_external_memory_host and visible buffers: a buffer can wrap host memory */
} vlk_physical;
yk_status vlk_device_count(uint32_t *n);
yk_status vlk_device_caps(uint32_t i, yk_device_caps *caps);
yk_status vlk_device_open(uint32_t i, yk_device **dev);
void vlk_devices_forget(void);
void vlk_instance_keep(void); /* from here on vlk_devices_forget leaves the instance, and so the drivers */

/* ---- limits.c ---- */
bool vlk_limits_good(const char *value); /* true for a legal value of the option LIMITS */
void vlk_limits_read(vlk_physical *p); /* max_alloc, max_group, max_local: the device's, or the option's lower ones */

/* ---- vk_coop.c ---- */
void vlk_coop_find(const vlk_physical *p, kit_target *target); /* sets coop and coop_lanes; logs them, or the reason for none */

/* ---- vk_device.c ---- */
typedef struct vlk_memory { /* device memory with an address */
    VkBuffer buffer;
    VkDeviceMemory memory;
    VkDeviceAddress address;
    void *host; /* its host address, or NULL if the host does not see it */
    uint64_t bytes;
} vlk_memory;

typedef struct vlk_pipeline { /* keyed by source, kernel and group size */
    struct vlk_pipeline *next;
    uint64_t key;
    VkPipeline pipeline;
} vlk_pipeline;

typedef struct vlk_lane { /* resources of one submission at a time; owned by the thread that took it */
    struct vlk_lane *next;
    VkCommandPool pool;
    VkCommandBuffer copy; /* recorded anew for each copy */
    VkSemaphore done;     /* a timeline */
    uint64_t point;       /* the newest point given to it */
    vlk_memory staging, scratch;
} vlk_lane;

struct yk_device {
    const vlk_physical *physical;
    VkDevice handle;
    VkQueue queue;
    pthread_mutex_t queue_lock; /* around submissions */
    PFN_vkGetMemoryHostPointerPropertiesEXT host_properties; /* NULL if host memory is not imported */
    VkPipelineLayout layout;
    VkPipelineCache cache;
    size_t cache_bytes; /* size of the cache at the start */
    kit_target target;
    pthread_mutex_t lock; /* protects the next three */
    kit_profile profile;
    vlk_pipeline *pipeline;
    vlk_lane *lane; /* free lanes */
    atomic_bool left_behind; /* a hanging queue was left behind: nothing is freed, as the device may still use it */
};
yk_status vlk_device_make(const vlk_physical *physical, yk_device **dev);
void vlk_device_close(yk_device *dev);
uint32_t vlk_device_claims(yk_device *dev, const yk_graph *graph, uint32_t node);

/* ---- vk_cache.c ---- */
VkResult vlk_cache_open(yk_device *dev);  /* makes dev->cache, with data stored by other processes */
void vlk_cache_close(yk_device *dev); /* stores new data, and destroys the cache */

/* ---- vk_memory.c ---- */
struct yk_buffer {
    yk_device *dev;
    vlk_memory memory;
    uint64_t bytes;
};
yk_status vlk_memory_new(yk_device *dev, uint64_t bytes, bool staging, vlk_memory *memory, const char *what);
void vlk_memory_free(yk_device *dev, vlk_memory *memory); /* accepts an empty one */
yk_status vlk_buffer_new(yk_device *dev, const yk_buffer_desc *desc, yk_buffer **buffer);
yk_status vlk_buffer_wrap(yk_device *dev, void *host, uint64_t bytes, yk_buffer **buffer);
void vlk_buffer_free(yk_buffer *buffer);
void *vlk_buffer_map(yk_buffer *buffer);
uint64_t vlk_buffer_bytes(const yk_buffer *buffer);

/* ---- work.c ---- */
yk_status vlk_lane_take(yk_device *dev, vlk_lane **lane, char why[KIT_WHY]);
void vlk_lane_give(yk_device *dev, vlk_lane *lane);
void vlk_lanes_free(yk_device *dev);
void vlk_barrier(VkCommandBuffer commands); /* earlier commands end before later ones, which see their results, as the host does */
VkResult vlk_lane_run(yk_device *dev, vlk_lane *lane, VkCommandBuffer commands); /* submits and waits */
yk_status vlk_copy_run(yk_device *dev, const yk_copy *copy, char why[KIT_WHY]);

/* ---- pipeline.c ---- */
/* The pipeline of a launch, from the device's list or new. The device keeps it. */
yk_status vlk_pipeline_get(yk_device *dev, const kit_program *kit, const kit_launch *launch, VkPipeline *pipeline);
void vlk_pipelines_free(yk_device *dev);

/* ---- vk_program.c ---- */
yk_status vlk_program_new(yk_device *dev, const yk_graph *graph, yk_program **program);
void vlk_program_free(yk_program *program);
yk_status vlk_graph_scratch(yk_device *dev, const yk_graph *graph, uint64_t *bytes);
const yk_graph *vlk_program_graph(const yk_program *program);
yk_status vlk_program_run(yk_device *dev, const yk_submit *s, char why[KIT_WHY]);

/* ---- vk_profile.c ---- */
bool vlk_profile_wanted(void);
VkResult vlk_profile_begin(yk_device *dev, uint32_t n_launch, VkQueryPool *pool); /* for n_launch + 1 timestamps */
void vlk_profile_add(yk_device *dev, VkQueryPool pool, const yk_graph *graph, const kit_program *kit); /* after a run */

/* ---- vk_queue.c ---- */
yk_status vlk_queue_new(yk_device *dev, const yk_queue_desc *desc, yk_queue **queue);

#endif
