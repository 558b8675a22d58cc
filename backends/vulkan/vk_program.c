/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program of the Vulkan plugin: the kit's launches with their pipelines, and recorded commands for each set of addresses that it has run
 * with. The host makes programs through the table in vk_plugin.c, in any thread; runs are in the queue's thread (vk_queue.c).
 *
 * Commands contain addresses instead of buffers, so they stay valid for any buffer there. Each launch waits for the previous one.
 */
#include "backends/vulkan/vlk.h"

#include <stdio.h>

#include "plugins/kit/spirv/spirv.h"
#include "plugins/kit/value.h"

#define BINDINGS 16u /* most recorded bindings of a program */

typedef struct binding {
    struct binding *next;
    VkDeviceAddress *address; /* addresses of the slots, then of scratch memory */
    vlk_memory arguments;     /* a word per kit_arg, then the stopped launch: its number + 1, or 0 */
    VkCommandBuffer commands;
    VkQueryPool times;        /* end of each launch, or NULL */
    uint32_t users;           /* pending submissions */
} binding;

struct yk_program {
    yk_device *dev;
    const yk_graph *graph;
    kit_program kit;
    VkPipeline *pipeline; /* by launch */
    vlk_memory meta;
    pthread_mutex_t lock; /* protects the members below */
    VkCommandPool pool;
    binding *binding; /* list, most recently used first */
};

/* ---- Making ---- */

static yk_status program_meta(yk_program *p)
{
    const uint64_t bytes = p->kit.n_meta * sizeof *p->kit.meta;
    const yk_status s = bytes ? vlk_memory_new(p->dev, bytes, true, &p->meta, "a program's sizes") : YK_OK;
    if (!s && bytes)
        memcpy(p->meta.host, p->kit.meta, bytes);
    return s;
}

static yk_status program_compile(yk_program *p)
{
    yk_status s = YK_OK;
    p->pipeline = vlk_alloc(p->kit.n_launch * sizeof *p->pipeline);
    if (!p->pipeline)
        return YK_E_MEM;
    for (size_t i = 0; i < p->kit.n_launch && !s; i++)
        s = vlk_pipeline_get(p->dev, &p->kit, &p->kit.launch[i], &p->pipeline[i]);
    return s;
}

static yk_status program_pool(yk_program *p)
{
    const VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                          .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                          .queueFamilyIndex = p->dev->physical->family};
    const VkResult result = vkCreateCommandPool(p->dev->handle, &pool, NULL, &p->pool);
    return result == VK_SUCCESS ? YK_OK : vlk_error(result, "a program's commands");
}

yk_status vlk_program_new(yk_device *dev, const yk_graph *graph, yk_program **out)
{
    yk_program *p = vlk_alloc(sizeof *p);
    if (!p)
        return YK_E_MEM;
    p->dev = dev;
    p->graph = graph;
    pthread_mutex_init(&p->lock, NULL);
    yk_status s = kit_program_make(&dev->target, graph, &p->kit);
    if (!s)
        s = program_compile(p);
    if (!s)
        s = program_meta(p);
    if (!s)
        s = program_pool(p);
    if (s)
        vlk_program_free(p);
    else
        *out = p;
    return s;
}

/* Frees a binding; its commands go with the pool. */
static void binding_free(yk_program *p, binding *b)
{
    if (b->commands)
        vkFreeCommandBuffers(p->dev->handle, p->pool, 1, &b->commands);
    vkDestroyQueryPool(p->dev->handle, b->times, NULL);
    vlk_memory_free(p->dev, &b->arguments);
    vlk_free(b->address);
    vlk_free(b);
}

void vlk_program_free(yk_program *p)
{
    if (!p || atomic_load(&p->dev->left_behind))
        return;
    while (p->binding) {
        binding *b = p->binding;
        p->binding = b->next;
        binding_free(p, b);
    }
    vkDestroyCommandPool(p->dev->handle, p->pool, NULL);
    vlk_memory_free(p->dev, &p->meta);
    vlk_free(p->pipeline);
    kit_program_free(&p->kit);
    pthread_mutex_destroy(&p->lock);
    vlk_free(p);
}

const yk_graph *vlk_program_graph(const yk_program *program)
{
    return program->graph;
}

yk_status vlk_graph_scratch(yk_device *dev, const yk_graph *graph, uint64_t *bytes)
{
    return kit_scratch_bytes(&dev->target, graph, bytes);
}

/* ---- Recording ---- */

static uint64_t argument_word(const yk_program *p, const kit_arg *arg, const VkDeviceAddress *address)
{
    switch ((kit_arg_kind)arg->kind) {
    case KIT_ARG_SLOT:
        return address[arg->slot] + arg->value.offset;
    case KIT_ARG_SCRATCH:
        return address[p->graph->n_slot] + arg->value.offset;
    case KIT_ARG_META:
        return p->meta.address + arg->value.offset;
    default:
        return kit_arg_bits(arg);
    }
}

static void arguments_write(const yk_program *p, binding *b)
{
    uint64_t *word = b->arguments.host;
    for (size_t i = 0; i < p->kit.n_arg; i++)
        word[i] = argument_word(p, &p->kit.arg[i], b->address);
    word[p->kit.n_arg] = 0;
}

static uint32_t part_of(uint64_t groups, uint64_t from, uint32_t most)
{
    return groups - from < most ? (uint32_t)(groups - from) : most;
}

/* Records a grid in parts that the device allows; the kernel adds the start of its part. */
static void launch_record(const yk_program *p, const binding *b, size_t i)
{
    const kit_launch *l = &p->kit.launch[i];
    const uint32_t *most = p->dev->physical->properties.limits.maxComputeWorkGroupCount;
    kit_spirv_push push = {.arguments = b->arguments.address + l->arg * sizeof(uint64_t),
                           .stopped = b->arguments.address + p->kit.n_arg * sizeof(uint64_t),
                           .launch = (uint32_t)i + 1};
    vkCmdBindPipeline(b->commands, VK_PIPELINE_BIND_POINT_COMPUTE, p->pipeline[i]);
    for (uint64_t z = 0; z < l->groups[2]; z += most[2])
        for (uint64_t y = 0; y < l->groups[1]; y += most[1])
            for (uint64_t x = 0; x < l->groups[0]; x += most[0]) {
                push.group[0] = (uint32_t)x;
                push.group[1] = (uint32_t)y;
                push.group[2] = (uint32_t)z;
                vkCmdPushConstants(b->commands, p->dev->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof push, &push);
                vkCmdDispatch(b->commands, part_of(l->groups[0], x, most[0]), part_of(l->groups[1], y, most[1]),
                              part_of(l->groups[2], z, most[2]));
            }
    vlk_barrier(b->commands);
}

/* Records a binding. Several lanes may run the same commands at the same time. */
static VkResult binding_record(yk_program *p, binding *b)
{
    const VkCommandBufferAllocateInfo one = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                             .commandPool = p->pool,
                                             .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                             .commandBufferCount = 1};
    const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                            .flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT};
    VkResult result = vkAllocateCommandBuffers(p->dev->handle, &one, &b->commands);
    if (result == VK_SUCCESS && vlk_profile_wanted())
        result = vlk_profile_begin(p->dev, (uint32_t)p->kit.n_launch, &b->times);
    if (result == VK_SUCCESS)
        result = vkBeginCommandBuffer(b->commands, &begin);
    if (result != VK_SUCCESS)
        return result;
    vlk_barrier(b->commands);
    if (b->times) {
        vkCmdResetQueryPool(b->commands, b->times, 0, (uint32_t)p->kit.n_launch + 1);
        vkCmdWriteTimestamp(b->commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, b->times, 0);
    }
    for (size_t i = 0; i < p->kit.n_launch; i++) {
        launch_record(p, b, i);
        if (b->times)
            vkCmdWriteTimestamp(b->commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, b->times, (uint32_t)i + 1);
    }
    return vkEndCommandBuffer(b->commands);
}

/* ---- Bindings; under the program's lock ---- */

static VkDeviceAddress slot_address(const yk_submit *s, uint32_t slot)
{
    return s->slot[slot] ? s->slot[slot]->memory.address + s->slot_offset[slot] : 0;
}

static bool binding_fits(const yk_program *p, const binding *b, const yk_submit *s, VkDeviceAddress scratch)
{
    for (uint32_t i = 0; i < p->graph->n_slot; i++)
        if (b->address[i] != slot_address(s, i))
            return false;
    return b->address[p->graph->n_slot] == scratch;
}

/* Frees the least recently used binding that is not in use, if there are many. */
static void bindings_trim(yk_program *p)
{
    binding **last = NULL;
    uint32_t n = 0;
    for (binding **at = &p->binding; *at; at = &(*at)->next, n++)
        if (!(*at)->users)
            last = at;
    if (n < BINDINGS || !last)
        return;
    binding *b = *last;
    *last = b->next;
    binding_free(p, b);
}

static yk_status binding_new(yk_program *p, const yk_submit *s, VkDeviceAddress scratch, binding **out)
{
    bindings_trim(p);
    binding *b = vlk_alloc(sizeof *b);
    if (!b)
        return YK_E_MEM;
    b->address = vlk_alloc((p->graph->n_slot + 1) * sizeof *b->address);
    yk_status st = b->address ? vlk_memory_new(p->dev, (p->kit.n_arg + 1) * sizeof(uint64_t), true, &b->arguments, "arguments") : YK_E_MEM;
    for (uint32_t i = 0; i < p->graph->n_slot && !st; i++)
        b->address[i] = slot_address(s, i);
    if (!st) {
        b->address[p->graph->n_slot] = scratch;
        arguments_write(p, b);
        st = vlk_result_status(binding_record(p, b));
    }
    if (st)
        binding_free(p, b);
    else
        *out = b;
    return st;
}

/* The binding for these addresses, marked as in use and moved to the front. */
static yk_status binding_get(yk_program *p, const yk_submit *s, VkDeviceAddress scratch, binding **out)
{
    yk_status st = YK_OK;
    pthread_mutex_lock(&p->lock);
    binding **at = &p->binding, *b;
    while (*at && !binding_fits(p, *at, s, scratch))
        at = &(*at)->next;
    if ((b = *at) != NULL)
        *at = b->next;
    else
        st = binding_new(p, s, scratch, &b);
    if (!st) {
        b->next = p->binding;
        b->users++;
        *out = p->binding = b;
    }
    pthread_mutex_unlock(&p->lock);
    return st;
}

static void binding_give(yk_program *p, binding *b)
{
    pthread_mutex_lock(&p->lock);
    b->users--;
    pthread_mutex_unlock(&p->lock);
}

/* ---- Running ---- */

static yk_status scratch_need(yk_device *dev, vlk_memory *scratch, uint64_t bytes)
{
    if (scratch->bytes >= bytes)
        return YK_OK;
    vlk_memory_free(dev, scratch);
    return vlk_memory_new(dev, bytes, false, scratch, "scratch memory");
}

/* Fails the queue if the driver ended a loop early, as the results are wrong then. */
static yk_status stopped_check(const yk_program *p, const binding *b, char why[KIT_WHY])
{
    const uint64_t stopped = ((const volatile uint64_t *)b->arguments.host)[p->kit.n_arg];
    if (!stopped)
        return YK_OK;
    const kit_launch *l = &p->kit.launch[stopped - 1];
    const yk_node *n = &p->graph->node[l->node];
    kit_queue_blame(n->stream);
    snprintf(why, KIT_WHY,
             "node %u (%s): %.50s ends a kernel's loops after 65535 rounds, and %s needs more; give this rank fewer rows",
             n->stream, kit_op_name(n->op), p->dev->physical->properties.deviceName, l->kernel);
    return YK_E_UNSUPPORTED;
}

/* Explains a failure. A device does not report the launch at which it failed. */
static void failure_tell(const yk_program *p, VkResult result, char why[KIT_WHY])
{
    char first[KIT_LAUNCH_TEXT];
    kit_launch_text(p->graph, &p->kit.launch[0], first);
    const int n = snprintf(why, KIT_WHY, "%.40s: %s in %.140s", p->dev->physical->properties.deviceName, vlk_result_name(result), first);
    if (p->graph->n_node > 1 && n > 0 && n < KIT_WHY)
        snprintf(why + n, KIT_WHY - (size_t)n, " or %u operations after it", p->graph->n_node - 1);
}

static yk_status lane_submit(yk_program *p, vlk_lane *lane, const yk_submit *s, char why[KIT_WHY])
{
    binding *b = NULL;
    yk_status st = scratch_need(p->dev, &lane->scratch, p->kit.scratch_bytes);
    if (!st)
        st = binding_get(p, s, lane->scratch.address, &b);
    if (st) {
        snprintf(why, KIT_WHY, "%.80s: no memory for a program of %zu launches (%llu bytes of scratch)",
                 p->dev->physical->properties.deviceName, p->kit.n_launch, (unsigned long long)p->kit.scratch_bytes);
        return st;
    }
    const VkResult result = vlk_lane_run(p->dev, lane, b->commands);
    if (result == VK_SUCCESS)
        st = stopped_check(p, b, why);
    if (result == VK_SUCCESS && b->times)
        vlk_profile_add(p->dev, b->times, p->graph, &p->kit);
    binding_give(p, b);
    if (result != VK_SUCCESS)
        failure_tell(p, result, why);
    return result == VK_SUCCESS ? st : vlk_result_status(result);
}

yk_status vlk_program_run(yk_device *dev, const yk_submit *s, char why[KIT_WHY])
{
    yk_program *p = s->program;
    vlk_lane *lane;
    if (!p->kit.n_launch)
        return YK_OK;
    yk_status st = vlk_lane_take(dev, &lane, why);
    if (st)
        return st;
    st = lane_submit(p, lane, s, why);
    vlk_lane_give(dev, lane);
    return st;
}
