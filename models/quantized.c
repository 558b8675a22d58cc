/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Refuses folders of quantized weights. Their numbers are not their values: a value needs the scales beside it and the configuration of
 * the library. Each library marks its folders in its own way; such weights are refused in every type. A folder with an adapter (PEFT's
 * LoRA and others) beside its weights is refused, too, as transformers would apply it. load.c asks, in the step thread.
 */
#include "models/model.h"

#include <stdio.h>
#include <string.h>

/* Keys of config.json: transformers, compressed-tensors before it, MLX, and AWQ before transformers adopted it. */
static const char *const keys[] = {"quantization_config", "compression_config", "quantization", "quant_config"};

/* Files beside config.json: AutoGPTQ, AutoAWQ, NVIDIA's ModelOpt, optimum-quanto, torchao. */
static const char *const files[] = {"quantize_config.json", "quant_config.json", "hf_quant_config.json", "quanto_qmap.json",
                                    "quantization_map.json"};

#define ADAPTER "adapter_config.json"

/* Endings of the tensors that bear scales, zero points or packed values. */
static const char *const endings[] = {
    ".SCB", ".weight_format", ".absmax", ".quant_map", ".nested_absmax", ".nested_quant_map", ".quant_state.bitsandbytes__nf4",
    ".quant_state.bitsandbytes__fp4", ".weight_scale", ".weight_scale_inv", ".weight_scale_2", ".weight_zero_point", ".weight_packed",
    ".weight_shape", ".weight_g_idx", ".input_scale", ".input_zero_point", ".qweight", ".qzeros", ".scales", ".g_idx", ".zeros",
    "._data", "._scale", "_blocks", "_scales",
};

bool model_file_there(const char *dir, const char *name)
{
    char path[4096];
    FILE *f = snprintf(path, sizeof path, "%s/%s", dir, name) < (int)sizeof path ? fopen(path, "rbe") : NULL;
    if (f)
        fclose(f);
    return f != NULL;
}

static void folder_refuse(yk_job *job, const char *path, const char *place)
{
    model_fail(job, YK_E_FORMAT, "%.200s: %.100s says that the weights are quantized, which Yoke does not read: take the folder of the "
               "unquantized model", path, place);
}

static void keys_check(yk_job *job, const char *path)
{
    char place[4096];
    yk_settings *s = yk_settings_new(job, NULL);
    snprintf(place, sizeof place, "%s/config.json", path);
    yk_settings_json(s, place);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0] && yk_ok(job); i++) {
        snprintf(place, sizeof place, "config.json's key \"%s\"", keys[i]);
        if (yk_settings_has(s, keys[i]))
            folder_refuse(job, path, place);
    }
    yk_settings_free(s);
}

bool model_quantized_check(yk_job *job, const char *path)
{
    if (model_file_there(path, "config.json"))
        keys_check(job, path);
    for (size_t i = 0; i < sizeof files / sizeof files[0] && yk_ok(job); i++)
        if (model_file_there(path, files[i]))
            folder_refuse(job, path, files[i]);
    if (yk_ok(job) && model_file_there(path, ADAPTER))
        model_fail(job, YK_E_FORMAT, "%.200s: adapter_config.json names an adapter, which Yoke does not apply: merge it into the weights, "
                   "and take that folder (peft: merge_and_unload, save_pretrained)", path);
    return yk_ok(job);
}

const char *model_foreign_mark(const char *path)
{
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (model_file_there(path, files[i]))
            return files[i];
    return model_file_there(path, ADAPTER) ? ADAPTER : NULL;
}

bool model_quantized_tensor(const char *name)
{
    const size_t n = strlen(name);
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        const size_t tail = strlen(endings[i]);
        if (n > tail && !strcmp(name + n - tail, endings[i]))
            return true;
    }
    return false;
}
