/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yoke-probe-vulkan compiles and runs an empty kernel on each device of the drivers in VK_DRIVER_FILES.
 *
 * plugins/kit/kit_probe.c starts one probe for each manifest without a kept verdict, before the Vulkan plugin loads drivers. It leaves a
 * driver out after a non-zero exit, a signal, or silence beyond its time limit; the other drivers stay.
 *
 * The probe exits with 0 if nothing failed. A failed enumeration, and an incompatible driver, count as no device. The one argument is the
 * id of the asking process. The probe ends with that process, even if the driver hangs.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <vulkan/vulkan.h>

#define MANY 16
#define WORDS(n, op) ((uint32_t)(n) << 16 | (op))

/* void main() {}, one work-item */
static const uint32_t shader[] = {
    0x07230203, 0x00010000, 0, 5, 0,
    WORDS(2, 17), 1,                             /* capability Shader */
    WORDS(3, 14), 0, 1,                          /* memory model */
    WORDS(5, 15), 5, 1, 0x6e69616d, 0,           /* entry point "main" */
    WORDS(6, 16), 1, 17, 1, 1, 1,                /* groups of one */
    WORDS(2, 19), 2, WORDS(3, 33), 3, 2,         /* void, void() */
    WORDS(5, 54), 2, 1, 0, 3, WORDS(2, 248), 4,  /* the function, its block */
    WORDS(1, 253), WORDS(1, 56),                 /* return, end */
};

static VkResult pipeline_make(VkDevice dev, VkPipeline *pipeline)
{
    const VkShaderModuleCreateInfo module = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                             .codeSize = sizeof shader,
                                             .pCode = shader};
    const VkPipelineLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
    VkComputePipelineCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
                                        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                                                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                                                  .pName = "main"}};
    VkResult rc = vkCreateShaderModule(dev, &module, NULL, &info.stage.module);
    if (rc == VK_SUCCESS)
        rc = vkCreatePipelineLayout(dev, &layout, NULL, &info.layout);
    return rc == VK_SUCCESS ? vkCreateComputePipelines(dev, VK_NULL_HANDLE, 1, &info, NULL, pipeline) : rc;
}

static VkResult kernel_run(VkDevice dev, VkQueue queue, uint32_t family, VkPipeline pipeline)
{
    const VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, .queueFamilyIndex = family};
    const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    VkCommandBufferAllocateInfo one = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, .commandBufferCount = 1};
    VkCommandBuffer commands;
    VkResult rc = vkCreateCommandPool(dev, &pool, NULL, &one.commandPool);
    if (rc == VK_SUCCESS)
        rc = vkAllocateCommandBuffers(dev, &one, &commands);
    if (rc == VK_SUCCESS)
        rc = vkBeginCommandBuffer(commands, &begin);
    if (rc != VK_SUCCESS)
        return rc;
    vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    vkCmdDispatch(commands, 1, 1, 1);
    rc = vkEndCommandBuffer(commands);
    const VkSubmitInfo submit = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &commands};
    if (rc == VK_SUCCESS)
        rc = vkQueueSubmit(queue, 1, &submit, VK_NULL_HANDLE);
    return rc == VK_SUCCESS ? vkQueueWaitIdle(queue) : rc;
}

/* The first queue family that computes; `n` if none does. */
static uint32_t family_of(VkPhysicalDevice physical, uint32_t *n)
{
    VkQueueFamilyProperties family[MANY];
    uint32_t i = 0;
    *n = MANY;
    vkGetPhysicalDeviceQueueFamilyProperties(physical, n, family);
    while (i < *n && !(family[i].queueFlags & VK_QUEUE_COMPUTE_BIT))
        i++;
    return i;
}

static VkResult device_try(VkPhysicalDevice physical)
{
    const float priority = 1.0f;
    uint32_t n;
    const uint32_t family = family_of(physical, &n);
    const VkDeviceQueueCreateInfo queue_info = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                                .queueFamilyIndex = family,
                                                .queueCount = 1,
                                                .pQueuePriorities = &priority};
    const VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                     .queueCreateInfoCount = 1,
                                     .pQueueCreateInfos = &queue_info};
    VkDevice dev;
    VkQueue queue;
    VkPipeline pipeline;
    if (family == n)
        return VK_SUCCESS;
    VkResult rc = vkCreateDevice(physical, &info, NULL, &dev);
    if (rc != VK_SUCCESS)
        return rc;
    vkGetDeviceQueue(dev, family, 0, &queue);
    rc = pipeline_make(dev, &pipeline);
    return rc == VK_SUCCESS ? kernel_run(dev, queue, family, pipeline) : rc;
}

/* The parent may have ended before this could be asked for. */
static void end_with_parent(const char *parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (parent && (long)getppid() != atol(parent))
        _exit(1); /* child process */
}

int main(int argc, char **argv)
{
    const VkApplicationInfo own = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_1};
    const VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &own};
    VkInstance instance;
    VkPhysicalDevice device[MANY];
    uint32_t n = MANY;
    int bad = 0;
    end_with_parent(argc > 1 ? argv[1] : NULL);
    const VkResult rc = vkCreateInstance(&info, NULL, &instance);
    if (rc != VK_SUCCESS) /* an unreadable manifest fails even with good ones present */
        return rc != VK_ERROR_INCOMPATIBLE_DRIVER;
    if (vkEnumeratePhysicalDevices(instance, &n, device) < 0)
        n = 0;
    for (uint32_t i = 0; i < n; i++)
        bad |= device_try(device[i]) != VK_SUCCESS;
    _exit(bad); /* child process: exit handlers of drivers are not worth waiting for */
}
