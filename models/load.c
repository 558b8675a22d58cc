/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads weights of a published file into a model: names under which a file may hold a parameter, parameters that a file may lack, and
 * tensors that no parameter uses. registry.c and tools/train/train.c call it in the step thread.
 */
#include "models/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_SIZE = 512 };

/* Endings of names by other versions of transformers: TensorFlow's of 2018, and the bias by its place in the head. */
static const char *const endings[][2] = {
    {".LayerNorm.weight", ".LayerNorm.gamma"},
    {".LayerNorm.bias", ".LayerNorm.beta"},
    {"cls.predictions.bias", "cls.predictions.decoder.bias"},
};

/* Makes the name with another version's ending; false if it has none. */
static bool name_older(const char *name, char older[NAME_SIZE])
{
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        const size_t n = strlen(name), tail = strlen(endings[i][0]);
        if (n < tail || strcmp(name + n - tail, endings[i][0]) != 0)
            continue;
        snprintf(older, NAME_SIZE, "%.*s%s", (int)(n - tail), name, endings[i][1]);
        return true;
    }
    return false;
}

/* True if the file has the name, with or without "module.", the prefix of PyTorch's wrapper. */
static bool name_there(yk_weights *w, const char *name, char found[NAME_SIZE])
{
    snprintf(found, NAME_SIZE, "%s", name);
    if (yk_weights_has(w, found))
        return true;
    snprintf(found, NAME_SIZE, "module.%s", name);
    return yk_weights_has(w, found);
}

/* The name without the family's prefix, as in a base model's file ("BertModel"). */
static const char *name_of_base(const yk_model *m, const char *name)
{
    const char *prefix = m->kind->prefix ? m->kind->prefix : "";
    const size_t n = strlen(prefix);
    return strncmp(name, prefix, n) ? name : name + n;
}

/* Finds the file's name of a parameter. */
static bool name_find(const yk_model *m, yk_weights *w, const char *name, char found[NAME_SIZE])
{
    char older[NAME_SIZE];
    if (name_there(w, name, found) || name_there(w, name_of_base(m, name), found))
        return true;
    return name_older(name, older) && (name_there(w, older, found) || name_there(w, name_of_base(m, older), found));
}

static void name_take(yk_weights *w, const char *name, bool *taken)
{
    for (uint32_t i = 0; i < yk_weights_count(w); i++)
        taken[i] |= !strcmp(yk_weights_name(w, i), name);
}

/* True for parts that a pre-trained file may lack: the head is new then. */
static bool may_be_new(const char *name)
{
    return !strncmp(name, "classifier.", 11) || !strncmp(name, "cls.", 4) || strstr(name, "num_batches_tracked") ||
           !strncmp(name, "bert.pooler.", 12);
}

static bool is_of_head(const yk_model *m, const char *name)
{
    return *m->head && !strncmp(name, m->head, strlen(m->head));
}

/* True if the shape of a head's tensor differs from the parameter's in the number of classes at most, which *classes gets. */
static bool is_head_alike(const yk_weights *w, const char *name, yk_t param, int64_t *classes)
{
    int64_t dim[8];
    const uint32_t rank = yk_weights_shape(w, name, dim);
    bool same = rank > 0 && rank == yk_dims(param);
    for (uint32_t i = 1; same && i < rank; i++)
        same = dim[i] == yk_dim(param, (int32_t)i);
    *classes = same ? dim[0] : 0;
    return same;
}

static void say_head(const yk_model *m, const char *path, int64_t classes)
{
    const long long own = yk_settings_int(m->settings, "num_labels", 0);
    if (classes && !m->own.new_head)
        model_fail(m->job, YK_E_FORMAT, "%s: its classifier (%sweight, %sbias) is of %lld classes, and there are %lld: --new-head "
                   "(new_head=yes) gives the model a new one for them", path, m->head, m->head, (long long)classes, own);
    else if (m->own.head_differs && !m->own.new_head)
        model_fail(m->job, YK_E_FORMAT, "%s: its classifier (%sweight, %sbias) is of classes of other names than the data's: --new-head "
                   "(new_head=yes) gives the model a new one for them", path, m->head, m->head);
    else if (m->own.resumes)
        return;
    else if (classes)
        yk_warn(m->job, "%s: its classifier (%sweight, %sbias) of %lld classes is not taken: it starts new, of %lld", path, m->head,
                m->head, (long long)classes, own);
    else if (m->own.head_differs)
        yk_warn(m->job, "%s: its classifier (%sweight, %sbias) is not taken, as its classes have other names: it starts new", path,
                m->head, m->head);
    else if (m->own.new_head)
        yk_warn(m->job, "%s: its classes are those of the data: its classifier (%sweight, %sbias) stays", path, m->head, m->head);
}

/* True if the classifier starts new, because the file's has other classes. */
static bool head_is_new(const yk_model *m, yk_weights *w, const char *path)
{
    const long long now = yk_settings_int(m->settings, "num_labels", 0);
    int64_t classes = 0, of_tensor;
    char there[NAME_SIZE];
    bool found = false, alike = true;
    for (uint32_t i = 0; i < m->count; i++) {
        const yk_t param = yk_param_at(m->job, m->first + i);
        if (!is_of_head(m, model_file_name(m, i)) || !name_find(m, w, model_file_name(m, i), there))
            continue;
        found = true;
        alike = alike && is_head_alike(w, there, param, &of_tensor);
        classes = alike && of_tensor != yk_dim(param, 0) ? of_tensor : classes;
    }
    if (found && !alike) /* other widths: reading the tensor says so */
        return false;
    if (found) /* otherwise it is new anyway */
        say_head(m, path, classes);
    else if (m->own.classes && !m->own.resumes)
        yk_warn(m->job, "%s: its configuration has num_labels %lld, and the data's labels are %lld names: the classifier has %lld "
                "classes (--model-config num_labels=%lld keeps the first number)", path, (long long)m->own.classes, now, now,
                (long long)m->own.classes);
    return found && (classes || m->own.head_differs);
}

static bool folder_has(const char *dir, const char *name)
{
    char path[4096];
    FILE *f;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    f = fopen(path, "rbe");
    if (f)
        fclose(f);
    return f != NULL;
}

/* Refuses a folder whose config.json is of another model: tensors of RoBERTa and BERT, say, have the same names without their prefix. Older
 * folders of Yoke have another word for the type, beside the model's own name. */
static void type_check(const yk_model *m, const char *path)
{
    char place[4096];
    snprintf(place, sizeof place, "%s/config.json", path);
    if (!folder_has(path, "config.json"))
        return;
    yk_settings *s = yk_settings_new(m->job, NULL);
    yk_settings_json(s, place);
    const char *type = yk_settings_text(s, "model_type", m->kind->model_type), *own = yk_settings_text(s, "yoke_model", "");
    if (yk_ok(m->job) && strcmp(type, m->kind->model_type) != 0 && strcmp(own, m->kind->name) != 0)
        model_fail(m->job, YK_E_FORMAT, "%s: its config.json is of another model, model_type \"%.100s\": expected \"%s\" for model %s",
                   path, type, m->kind->model_type, m->kind->name);
    yk_settings_free(s);
}

/* The file's first name that begins so, with or without "module."; NULL if there is none. */
static const char *name_begun(const yk_weights *w, const char *part)
{
    for (uint32_t i = 0; i < yk_weights_count(w); i++) {
        const char *name = yk_weights_name(w, i), *bare = strncmp(name, "module.", 7) ? name : name + 7;
        if (!strncmp(bare, part, strlen(part)))
            return name;
    }
    return NULL;
}

/* Refuses tensors that are those of a relative, which computes otherwise. Beside the model's own prefix they are a head of someone's, say,
 * which is left. */
static void relatives_check(const yk_model *m, const yk_weights *w, const char *path)
{
    for (const char *const *part = m->kind->relatives; part && *part && !name_begun(w, m->kind->prefix); part++) {
        const char *name = name_begun(w, *part);
        if (!name)
            continue;
        model_fail(m->job, YK_E_FORMAT, "%s: tensor \"%s\" is of another model than %s, like RoBERTa: expected names that begin with "
                   "\"%s\"", path, name, m->kind->name, m->kind->prefix);
        return;
    }
}

static void say_new(const yk_model *m, const char *path, const char *name)
{
    if (!may_be_new(name) && !(m->own.new_head && is_of_head(m, name)))
        model_fail(m->job, YK_E_FORMAT, "%s: no tensor \"%s\", which model %s needs", path, name, m->kind->name);
    else if (!strstr(name, "num_batches") && !m->own.resumes)
        yk_warn(m->job, "%s has no \"%s\": it starts new", path, name);
}

/* Loads every parameter that the file has; returns their number. */
static uint32_t params_load(yk_model *m, yk_weights *w, const char *path, bool *taken)
{
    uint32_t found = 0;
    char there[NAME_SIZE];
    const bool new_head = head_is_new(m, w, path);
    for (uint32_t i = 0; i < m->count && yk_ok(m->job); i++) {
        const char *name = model_file_name(m, i);
        if (!name_find(m, w, name, there)) {
            say_new(m, path, name);
            continue;
        }
        if (!new_head || !is_of_head(m, name))
            yk_weights_read(w, there, yk_param_at(m->job, m->first + i));
        name_take(w, there, taken);
        found++;
    }
    return found;
}

/* Checks tied tensors that some files hold twice. Different numbers there belong to another model, despite its config.json. */
static void tied_check(const yk_model *m, yk_weights *w, const char *path, bool *taken)
{
    char there[NAME_SIZE], own[NAME_SIZE], stored[NAME_SIZE];
    for (const char *const (*pair)[2] = m->kind->tied; pair && **pair && yk_ok(m->job); pair++) {
        if (!name_there(w, (*pair)[0], there))
            continue;
        name_take(w, there, taken);
        snprintf(own, sizeof own, "%s%s", m->own.prefix, (*pair)[1]);
        if (!name_find(m, w, (*pair)[1], stored) || yk_weights_same(w, there, stored) || !yk_ok(m->job))
            continue;
        yk_weights_read(w, there, yk_param_find(m->job, own)); /* says so if the shape or type is wrong */
        if (yk_ok(m->job))
            model_fail(m->job, YK_E_FORMAT, "%s: tensor \"%s\" has other numbers than \"%s\": model %s has tie_word_embeddings=true only, "
                       "which makes them one", path, there, (*pair)[1], m->kind->name);
    }
}

/* True for constants that older versions saved. */
static bool is_constant(const char *name)
{
    static const char *const tails[] = {".attn.bias", ".attn.masked_bias", "embeddings.position_ids", "embeddings.token_type_ids"};
    for (size_t i = 0; i < sizeof tails / sizeof tails[0]; i++) {
        const size_t n = strlen(name), tail = strlen(tails[i]);
        if (n >= tail && !strcmp(name + n - tail, tails[i]))
            return true;
    }
    return false;
}

/* A tensor's name without "module." and without the family's prefix. */
static const char *tensor_base(const yk_model *m, const char *name)
{
    return name_of_base(m, strncmp(name, "module.", 7) ? name : name + 7);
}

/* True if the tensor belongs to the layers that the model computes: without it they compute something else. */
static bool is_of_layers(const yk_model *m, const char *name)
{
    const char *base = tensor_base(m, name);
    for (const char *const *part = m->kind->layers; *part; part++)
        if (!strncmp(base, *part, strlen(*part)))
            return true;
    return false;
}

/* True if the number behind n bytes of the name is larger than the number of each parameter that begins alike. */
static bool is_beyond(const yk_model *m, const char *base, size_t n)
{
    const unsigned long number = strtoul(base + n, NULL, 10);
    bool any = false;
    for (uint32_t i = 0; i < m->count; i++) {
        const char *own = name_of_base(m, model_file_name(m, i));
        if (strncmp(own, base, n) != 0 || own[n] < '0' || own[n] > '9')
            continue;
        if (strtoul(own + n, NULL, 10) >= number)
            return false;
        any = true;
    }
    return any;
}

/* True if the tensor belongs to a block or stage behind the model's last one. */
static bool is_of_later_block(const yk_model *m, const char *name)
{
    const char *base = tensor_base(m, name);
    size_t n = 0;
    bool later = false;
    for (const char *part = m->kind->numbered; *part; part++)
        if (*part != '#') {
            if (base[n++] != *part)
                return false;
        } else {
            const size_t digits = strspn(base + n, "0123456789");
            later |= digits && is_beyond(m, base, n);
            n += digits;
        }
    return later;
}

/* Refuses a tensor of the model's own layers that is no parameter: a bias, a further layer, a second norm. A caller that has set the number
 * of layers leaves the last ones out, and nothing else. */
static void left_refuse(const yk_model *m, yk_weights *w, const char *path, const bool *taken)
{
    for (uint32_t i = 0; i < yk_weights_count(w) && yk_ok(m->job); i++) {
        const char *name = yk_weights_name(w, i);
        if (taken[i] || is_constant(name) || !is_of_layers(m, name) || (m->own.fewer_layers && is_of_later_block(m, name)))
            continue;
        model_fail(m->job, YK_E_FORMAT, "%s: tensor \"%s\" belongs to layers of model %s, which have no such parameter: they would "
                   "compute something else without it; expected tensors as config.json describes them", path, name, m->kind->name);
    }
}

/* Prints one line about all tensors that are no parameter of the model: a saved folder lacks them. */
static void say_left(const yk_model *m, yk_weights *w, const char *path, const bool *taken)
{
    enum { NAMED = 3 };
    char names[3 * NAME_SIZE] = "";
    uint32_t left = 0;
    for (uint32_t i = 0; i < yk_weights_count(w); i++) {
        const char *name = yk_weights_name(w, i);
        if (taken[i] || is_constant(name))
            continue;
        if (left < NAMED)
            snprintf(names + strlen(names), sizeof names - strlen(names), "%s%.*s", left ? ", " : "", NAME_SIZE - 4, name);
        left++;
    }
    if (left && !m->own.resumes)
        yk_warn(m->job, "%s: model %s has no place for %u of its tensors: %s%s", path, m->kind->name, left, names,
                left > NAMED ? ", .." : "");
}

/* True if the folder has pickled weights. A pickle is a program, which Yoke does not run. */
static bool is_pickled(const char *dir)
{
    return !folder_has(dir, "model.safetensors") && !folder_has(dir, "model.safetensors.index.json") &&
           (folder_has(dir, "pytorch_model.bin") || folder_has(dir, "pytorch_model.bin.index.json"));
}

/* Checkpoints of ranks' private files, whose shape is that of the job that wrote them: their name, and the command that makes one file. */
static const struct {
    const char *file, *name, *instead;
} private_files[] = {
    {"zero_to_fp32.py", "a checkpoint of DeepSpeed", "in that folder: python3 zero_to_fp32.py . . --safe_serialization"},
    {"latest", "a checkpoint of DeepSpeed", "its zero_to_fp32.py writes the whole model, with --safe_serialization"},
    {"pytorch_model_fsdp_0/.metadata", "a sharded checkpoint of FSDP",
     "accelerate merge-weights DIR/pytorch_model_fsdp_0 DIR writes model.safetensors"},
    {".metadata", "a sharded checkpoint of torch.distributed", "accelerate merge-weights DIR OUT writes model.safetensors"},
    {"pytorch_model_fsdp.bin", "a checkpoint of FSDP, a pickle of PyTorch", "save it as safetensors"},
};

/* True after a message: nothing else is in the folder, and what is there is read elsewhere. */
static bool private_refuse(const yk_model *m, const char *dir)
{
    if (folder_has(dir, "model.safetensors") || folder_has(dir, "model.safetensors.index.json"))
        return false;
    for (size_t i = 0; i < sizeof private_files / sizeof private_files[0]; i++)
        if (folder_has(dir, private_files[i].file)) {
            model_fail(m->job, YK_E_FORMAT, "%.150s: %s, which Yoke does not read: %s", dir, private_files[i].name,
                       private_files[i].instead);
            return true;
        }
    return false;
}

static yk_weights *file_open(const yk_model *m, const char *path)
{
    if (path && !model_quantized_check(m->job, path))
        return NULL;
    if (path && private_refuse(m, path))
        return NULL;
    if (!path || !is_pickled(path))
        return yk_weights_open(m->job, path);
    model_fail(m->job, YK_E_FORMAT, "%.150s: its weights are in pytorch_model.bin, which Yoke does not read; in that folder: "
               "python3 -c \"import torch,glob;from safetensors.torch import save_file as s;"
               "s({k:v.clone() for f in glob.glob('pytorch_model*.bin') for k,v in torch.load(f,'cpu',weights_only=True).items()},"
               "'model.safetensors',{'format':'pt'})\"", path);
    return NULL;
}

/* Refuses a weight with scales beside it: its numbers are not its values, in every type. */
static void scales_check(const yk_model *m, yk_weights *w, const char *path)
{
    for (uint32_t i = 0; i < yk_weights_count(w) && yk_ok(m->job); i++)
        if (model_quantized_tensor(yk_weights_name(w, i)))
            model_fail(m->job, YK_E_FORMAT, "%s: tensor \"%s\" belongs to quantized weights, which Yoke does not read: take the folder of "
                       "the unquantized model", path, yk_weights_name(w, i));
}

static void file_load(yk_model *m, yk_weights *w, const char *path, bool *taken)
{
    scales_check(m, w, path);
    type_check(m, path);
    relatives_check(m, w, path);
    const uint32_t found = params_load(m, w, path, taken);
    tied_check(m, w, path, taken);
    if (yk_ok(m->job) && !found)
        model_fail(m->job, YK_E_FORMAT, "%s: not one tensor of model %s is in there", path, m->kind->name);
    left_refuse(m, w, path, taken);
    if (yk_ok(m->job))
        say_left(m, w, path, taken);
}

void yk_model_load(yk_model *m, const char *path)
{
    yk_weights *w = m && yk_ok(m->job) ? file_open(m, path) : NULL;
    bool *taken;
    if (!w)
        return;
    taken = calloc(yk_weights_count(w) + 1, sizeof *taken);
    if (taken)
        file_load(m, w, path, taken);
    else
        model_fail(m->job, YK_E_MEM, "out of memory for model %s", m->kind->name);
    free(taken);
    yk_weights_close(w);
}
