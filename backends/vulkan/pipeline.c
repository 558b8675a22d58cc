/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes kernels, SPIR-V code of the kit, into pipelines of the device, keyed by the hash of their whole input. vk_program.c asks while a
 * program is made, in any thread. The device keeps the pipelines, so each is made once, and frees them when it closes.
 */
#include "backends/vulkan/vlk.h"

#include "plugins/kit/spirv/spirv.h"

static uint64_t pipeline_key(const kit_spirv_source *s)
{
    uint64_t key = kit_hash(KIT_HASH_SEED, s->macros, strlen(s->macros) + 1);
    key = kit_hash(key, s->kernel, strlen(s->kernel) + 1);
    key = kit_hash(key, &s->local, sizeof s->local);
    return key;
}

static vlk_pipeline *pipeline_find(yk_device *dev, uint64_t key)
{
    vlk_pipeline *p = dev->pipeline;
    while (p && p->key != key)
        p = p->next;
    return p;
}

static VkResult pipeline_compile(yk_device *dev, const kit_spirv *shader, VkPipeline *pipeline)
{
    const VkShaderModuleCreateInfo module = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                             .codeSize = shader->n_word * sizeof *shader->word,
                                             .pCode = shader->word};
    const VkPipelineShaderStageCreateFlags full = VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT_EXT;
    const VkPipelineShaderStageRequiredSubgroupSizeCreateInfoEXT size = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO_EXT,
        .requiredSubgroupSize = dev->target.coop_lanes};
    VkComputePipelineCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
                                        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                                                  .pNext = shader->matrices ? &size : NULL,
                                                  .flags = shader->matrices ? full : 0,
                                                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                                                  .pName = "main"},
                                        .layout = dev->layout};
    VkResult result = vkCreateShaderModule(dev->handle, &module, NULL, &info.stage.module);
    if (result != VK_SUCCESS)
        return result;
    result = vkCreateComputePipelines(dev->handle, dev->cache, 1, &info, NULL, pipeline);
    vkDestroyShaderModule(dev->handle, info.stage.module, NULL);
    return result;
}

/* Called under the device's lock. */
static yk_status pipeline_make(yk_device *dev, const kit_spirv_source *source, uint64_t key, vlk_pipeline **out)
{
    kit_spirv shader;
    vlk_pipeline *p = vlk_alloc(sizeof *p);
    yk_status s = p ? kit_spirv_make(&dev->target, source, &shader) : YK_E_MEM;
    const vlk_physical *most = dev->physical;
    if (!s && (shader.local_bytes > most->max_local || source->local > most->max_group)) {
        vlk_host->fail(VLK_WHO, "kernel %s has groups of %u work-items that share %u bytes; this device allows %u and %u", source->kernel,
                       source->local, shader.local_bytes, most->max_group, most->max_local);
        s = YK_E_UNSUPPORTED;
    }
    if (!s) {
        const VkResult result = pipeline_compile(dev, &shader, &p->pipeline);
        s = result == VK_SUCCESS ? YK_OK : vlk_error(result, source->kernel);
    }
    if (p && shader.word)
        kit_spirv_free(&shader);
    if (s) {
        vlk_free(p);
        return s;
    }
    p->key = key;
    p->next = dev->pipeline;
    *out = dev->pipeline = p;
    return YK_OK;
}

/* Finds a kernel's source. A generated kernel's name is made of its text; a file has its own name. */
static yk_status source_of(yk_device *dev, const kit_program *kit, const kit_launch *launch, char *own, char *macros, kit_spirv_source *s)
{
    const kit_unit *u = &kit->unit[launch->unit];
    *s = (kit_spirv_source){.macros = macros,
                            .kernel = launch->kernel,
                            .local = launch->local,
                            .keeps_nan = dev->physical->keeps_nan,
                            .checks_loops = dev->physical->ends_loops};
    if (own)
        memcpy(own, kit->text.data + u->begin, u->end - u->begin);
    if (!kit_unit_parts(&dev->target, u->file, own, s->part) ||
        !kit_unit_macros(&dev->target, u->file ? u->macros : "", macros, 2 * KIT_MACROS))
        return YK_E_INTERNAL;
    return YK_OK;
}

yk_status vlk_pipeline_get(yk_device *dev, const kit_program *kit, const kit_launch *launch, VkPipeline *pipeline)
{
    const kit_unit *u = &kit->unit[launch->unit];
    char macros[2 * KIT_MACROS], *own = u->file ? NULL : vlk_alloc(u->end - u->begin + 1);
    kit_spirv_source source;
    vlk_pipeline *p = NULL;
    if (!u->file && !own)
        return YK_E_MEM;
    yk_status s = source_of(dev, kit, launch, own, macros, &source);
    if (!s) {
        const uint64_t key = pipeline_key(&source);
        pthread_mutex_lock(&dev->lock);
        if (!(p = pipeline_find(dev, key)))
            s = pipeline_make(dev, &source, key, &p);
        pthread_mutex_unlock(&dev->lock);
    }
    vlk_free(own);
    if (!s)
        *pipeline = p->pipeline;
    return s;
}

void vlk_pipelines_free(yk_device *dev)
{
    while (dev->pipeline) {
        vlk_pipeline *p = dev->pipeline;
        dev->pipeline = p->next;
        vkDestroyPipeline(dev->handle, p->pipeline, NULL);
        vlk_free(p);
    }
}
