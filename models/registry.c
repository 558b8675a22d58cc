/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the builder of a model by name or by a Hugging Face configuration. Saves weights under the names of published files, with their
 * companion files. load.c loads them. A program calls it in the step thread.
 */
#include "models/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const model_kind *const kinds[] = {&model_mlp,      &model_resnet20, &model_resnet32, &model_resnet18,
                                          &model_resnet50, &model_gpt2,     &model_bert,     &model_bert_mlm};
enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

static const model_kind *kind_find(const char *name)
{
    for (size_t i = 0; name && i < N_KINDS; i++)
        if (!strcmp(kinds[i]->name, name))
            return kinds[i];
    return NULL;
}

static void unknown_name(yk_job *job, const char *name)
{
    char list[256] = "";
    for (size_t i = 0; i < N_KINDS; i++) {
        strncat(list, i ? ", " : "", sizeof list - strlen(list) - 1);
        strncat(list, kinds[i]->name, sizeof list - strlen(list) - 1);
    }
    model_fail(job, YK_E_ARG, "there is no model \"%s\"; there are %s", name ? name : "(NULL)", list);
}

static void model_release(yk_model *m)
{
    if (!m)
        return;
    if (m->settings)
        yk_settings_free(m->settings);
    free(m->tokenizer);
    free(m->own.prefix);
    free(m->folder);
    free(m->net);
    free(m);
}

/* Makes a model without parameters; NULL (and the job failed) if memory is gone. Takes ownership of own's prefix. */
static yk_model *model_alloc(yk_job *job, const model_kind *kind, yk_settings *settings, model_own own, const yk_data *data)
{
    yk_model *m = calloc(1, sizeof *m);
    const char *tokenizer = data ? yk_data_tokenizer(data) : NULL;
    if (m) {
        m->job = job;
        m->kind = kind;
        m->data = data;
        m->own = own;
        m->net = calloc(1, kind->net_size);
        m->tokenizer = tokenizer ? strdup(tokenizer) : NULL;
    }
    if (!m || !m->net || (tokenizer && !m->tokenizer)) {
        if (!m)
            free(own.prefix);
        model_release(m);
        yk_settings_free(settings);
        model_fail(job, YK_E_MEM, "out of memory for model %s", kind->name);
        return NULL;
    }
    m->settings = settings;
    return m;
}

static void write_to_checkpoint(void *object, const char *dir);

/* Sets f32 as the dtype of the saved folder, as all parameters are f32: transformers would round them to the original's type. */
static void put_dtype(yk_settings *s)
{
    static const char *const keys[] = {"dtype", "torch_dtype"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (yk_settings_has(s, keys[i]) && strcmp(yk_settings_text(s, keys[i], ""), "float32") != 0)
            yk_settings_put(s, keys[i], "float32");
}

static yk_model *model_build(yk_job *job, const model_kind *kind, yk_settings *settings, model_own own, const yk_data *data)
{
    yk_model *m;
    if (!own.prefix || !model_fits_kind(job, kind, data) || !model_config_check(job, kind, settings)) {
        free(own.prefix);
        yk_settings_free(settings);
        return NULL;
    }
    m = model_alloc(job, kind, settings, own, data);
    if (!m)
        return NULL;
    m->first = yk_param_count(job);
    kind->build(m, m->net, data);
    m->count = yk_param_count(job) - m->first;
    yk_settings_check(settings);
    if (yk_ok(job) && own.new_head && !*m->head)
        model_fail(job, YK_E_ARG, "--new-head (new_head=yes): model %s has no classifier: its outputs are tokens", kind->name);
    if (yk_ok(job))
        model_config_rest(job, kind, settings);
    yk_model_fits(m, data);
    yk_settings_put(settings, "model_type", kind->model_type);
    yk_settings_put(settings, "yoke_model", kind->name);
    put_dtype(settings);
    yk_on_close(job, m, (void (*)(void *))model_release);
    if (!yk_ok(job)) /* the job owns the model, or has released it */
        return NULL;
    yk_on_save(job, m, write_to_checkpoint);
    return m;
}

/* Takes key=VALUE, a setting of the job only, out of "a=1,key=VALUE,..". "" if absent; NULL if out of memory. */
static char *key_take(char *pairs, const char *key)
{
    const size_t n = strlen(key);
    char *at = pairs, *value;
    while (*at && (strncmp(at, key, n) != 0 || at[n] != '='))
        at += strcspn(at, ","), at += *at == ',';
    if (!*at)
        return strdup("");
    value = strndup(at + n + 1, strcspn(at + n + 1, ","));
    const char *rest = at + strcspn(at, ",");
    rest += *rest == ',';
    memmove(at, rest, strlen(rest) + 1);
    return value;
}

/* yes, true, no, false or nothing. NULL: out of memory. */
static bool switch_read(yk_job *job, const char *key, const char *value)
{
    if (!value) {
        model_fail(job, YK_E_MEM, "out of memory for a model's configuration");
        return false;
    }
    const bool on = !strcmp(value, "yes") || !strcmp(value, "true");
    if (!on && *value && strcmp(value, "no") != 0 && strcmp(value, "false") != 0)
        model_fail(job, YK_E_ARG, "%s=%.40s: expected yes or no", key, value);
    return on;
}

/* True if "a=1,b=2,.." sets the key. */
static bool is_set(const char *pairs, const char *key)
{
    const size_t n = strlen(key);
    while (*pairs && (strncmp(pairs, key, n) != 0 || pairs[n] != '='))
        pairs += strcspn(pairs, ","), pairs += *pairs == ',';
    return *pairs != 0;
}

static bool sets_layers(const char *pairs)
{
    static const char *const keys[] = {"num_hidden_layers", "n_layer", "hidden", "blocks_per_stage", "widths"};
    bool set = false;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        set |= is_set(pairs, keys[i]);
    return set;
}

/* Fills own, and returns settings of the remaining keys. own->prefix NULL: the job failed. */
static yk_settings *settings_new(yk_job *job, const char *config, model_own *own)
{
    char *rest = strdup(config ? config : ""), *new_head = rest ? key_take(rest, "new_head") : NULL,
         *resumes = rest ? key_take(rest, "resumes") : NULL;
    yk_settings *s;
    *own = (model_own){.prefix = rest ? key_take(rest, "prefix") : NULL, .fewer_layers = config && sets_layers(config)};
    if (!own->prefix)
        model_fail(job, YK_E_MEM, "out of memory for a model's configuration");
    own->new_head = switch_read(job, "new_head", new_head);
    own->resumes = switch_read(job, "resumes", resumes);
    s = yk_settings_new(job, rest);
    free(new_head);
    free(resumes);
    free(rest);
    return s;
}

yk_model *yk_model_new(yk_job *job, const char *name, const char *config, const yk_data *data)
{
    yk_settings *s;
    model_own own;
    const model_kind *kind = kind_find(name);
    if (!yk_ok(job))
        return NULL;
    if (!kind) {
        unknown_name(job, name);
        return NULL;
    }
    s = settings_new(job, config, &own);
    return model_build(job, kind, s, own, data);
}

/* The builder for a config.json: by Yoke's own key, else by model_type and the head in `architectures`. */
static const model_kind *kind_of(yk_settings *s, const yk_data *data)
{
    const char *own = yk_settings_text(s, "yoke_model", NULL), *type = yk_settings_text(s, "model_type", "");
    const char *head = yk_settings_text(s, "architectures", "");
    if (own)
        return kind_find(own);
    if (!strcmp(type, "bert") && (data ? yk_data_labels(data) == YK_LABELS_MASKED : strstr(head, "MaskedLM") || strstr(head, "LMHead")))
        return &model_bert_mlm;
    for (size_t i = 0; i < N_KINDS; i++)
        if (!strcmp(kinds[i]->model_type, type))
            return kinds[i];
    return NULL;
}

/* Fails the job. transformers uses "resnet" for other networks; Yoke's older folders had it too, beside yoke_model. */
static void unknown_type(yk_job *job, const char *path, yk_settings *s)
{
    const char *type = yk_settings_text(s, "model_type", "(none)"), *own = yk_settings_text(s, "yoke_model", NULL);
    if (own)
        unknown_name(job, own);
    else if (!strcmp(type, "resnet"))
        model_fail(job, YK_E_ARG, "%s: model_type \"resnet\" without yoke_model is a ResNet of transformers, whose layers and names "
                   "Yoke has not; yk_model_load takes torchvision's into resnet18 and resnet50", path);
    else
        model_fail(job, YK_E_ARG, "%s: expected model_type mlp, yoke-resnet, gpt2 or bert, got \"%s\": convert the "
                   "folder to one of these", path, type);
}

/* True if the configuration and the data (with names) name any class differently. */
static bool names_differ(const yk_settings *s, const yk_data *data)
{
    bool differ = false;
    for (uint32_t i = 0; i < yk_data_classes(data) && yk_data_class_name(data, i); i++) {
        const char *name = yk_settings_label(s, i);
        differ |= !name || strcmp(name, yk_data_class_name(data, i)) != 0;
    }
    return differ;
}

/* True if the configuration's names of classes are more than transformers' presets. */
static bool names_given(const yk_settings *s)
{
    const char *first = yk_settings_label(s, 0);
    return first && strcmp(first, "LABEL_0") != 0;
}

/* Gives a new head the data's classes, unless the caller has set their number. */
static void head_follow(yk_settings *s, const yk_data *data, bool chosen, model_own *own)
{
    char number[16];
    const uint32_t n = yk_data_classes(data);
    own->head_differs = names_differ(s, data);
    snprintf(number, sizeof number, "%u", n);
    if (n && !chosen)
        yk_settings_put(s, "num_labels", number);
    if (yk_settings_has(s, "problem_type")) /* the old head's */
        yk_settings_put(s, "problem_type", yk_settings_int(s, "num_labels", 2) > 1 ? "single_label_classification" : "regression");
}

yk_model *yk_model_from_pretrained(yk_job *job, const char *dir, const char *config, const yk_data *data)
{
    char path[4096];
    yk_settings *s;
    model_own own;
    const model_kind *kind;
    yk_model *m;
    if (!yk_ok(job))
        return NULL;
    if (!dir) {
        model_fail(job, YK_E_ARG, "yk_model_from_pretrained: dir is NULL");
        return NULL;
    }
    s = settings_new(job, config, &own);
    const bool chosen = yk_settings_has(s, "num_labels");
    snprintf(path, sizeof path, "%s/config.json", dir);
    yk_settings_json(s, path);
    kind = yk_ok(job) ? kind_of(s, data) : NULL;
    if (!kind)
        unknown_type(job, path, s);
    if (!kind || !model_head_check(job, path, s) || !model_keys_check(job, path, s)) {
        yk_settings_free(s);
        free(own.prefix);
        return NULL;
    }
    if (own.new_head)
        head_follow(s, data, chosen, &own);
    else
        own.head_differs = names_given(s) && names_differ(s, data);
    m = model_build(job, kind, s, own, data);
    if (!m)
        return NULL;
    if (!m->tokenizer && (!data || !strcmp(yk_data_kind(data), "tokens"))) /* other data have a tokenizer, or need none */
        m->tokenizer = strdup(dir);
    m->folder = strdup(dir);
    yk_model_load(m, dir);
    return m;
}

/* Copies a file of a folder; an absent file is no error, as folders differ. */
static void copy_file(yk_model *m, const char *folder, const char *dir, const char *name)
{
    char from[4096], to[4096], block[65536];
    size_t n;
    FILE *in, *out;
    bool bad = false;
    snprintf(from, sizeof from, "%s/%s", folder, name);
    snprintf(to, sizeof to, "%s/%s", dir, name);
    in = fopen(from, "rbe");
    if (!in)
        return;
    out = fopen(to, "wbxe"); /* never overwrites a file, which may be the source */
    while (out && !bad && (n = fread(block, 1, sizeof block, in)) > 0)
        bad = fwrite(block, 1, n, out) != n;
    bad |= ferror(in) != 0;
    fclose(in);
    if (!out || fclose(out) || bad)
        model_fail(m->job, YK_E_IO, "%s: cannot write it as a copy of %s", to, from);
}

static void copy_files(yk_model *m, const char *folder, const char *dir, const char *const *name, size_t n)
{
    for (size_t i = 0; folder && i < n && yk_ok(m->job); i++)
        copy_file(m, folder, dir, name[i]);
}

/* Files beside config.json and the weights: the tokenizer's, a file of both, and the model's. */
static const char *const companions[] = {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
                                         "vocab.txt",      "vocab.json",            "merges.txt",              "chat_template.jinja",
                                         "generation_config.json"};
enum { N_TOKENS = 7, GENERATION = 8, N_COMPANIONS };

/* Writes the companion files of the weights. dir has none of them yet. Data with a tokenizer know the settings it was used with. */
static void write_companions(yk_model *m, const char *dir)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/config.json", dir);
    yk_settings_save(m->settings, path);
    yk_data_save_tokenizer(m->data, dir);
    if (!m->data || !yk_data_tokenizer(m->data))
        copy_files(m, m->tokenizer, dir, companions, N_TOKENS);
    copy_files(m, m->folder, dir, companions + N_TOKENS, N_COMPANIONS - N_TOKENS);
}

/* Makes a checkpoint open as a model, if all parameters of the job are this model's. */
static void write_to_checkpoint(void *object, const char *dir)
{
    yk_model *m = object;
    if (m->first == 0 && m->count == yk_param_count(m->job) && !*m->own.prefix)
        write_companions(m, dir);
}

/* Writes all parameters under their names into dir. */
static void write_weights(yk_model *m, const char *dir)
{
    const char **name = calloc(m->count + 1, sizeof *name);
    yk_t *param = calloc(m->count + 1, sizeof *param);
    char path[4096];
    for (uint32_t i = 0; name && param && i < m->count; i++) {
        name[i] = model_file_name(m, i);
        param[i] = yk_param_at(m->job, m->first + i);
    }
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    if (name && param)
        yk_weights_save(m->job, path, m->count, name, param);
    else
        model_fail(m->job, YK_E_MEM, "out of memory for saving %s", dir);
    free(name);
    free(param);
}

/* Parts with a former model's files in dir: NAME.yoke-gone makes the commit remove NAME. The tokenizer's stay if the new one was read from
 * there as a single file, or if there is no new one: then they may be the user's. */
static void former_part(yk_model *m, const char *stage, const char *dir)
{
    const char *from = m->data ? yk_data_tokenizer(m->data) : NULL, *stays = NULL, *mark = model_foreign_mark(dir);
    char path[4096];
    struct stat a, b;
    bool any = false;
    snprintf(path, sizeof path, "%s/%s", dir, companions[0]);
    const bool single = from && !stat(from, &a) && !stat(path, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
    for (size_t i = 0; i < N_TOKENS; i++)
        any |= model_file_there(stage, companions[i]);
    for (size_t i = 0; i < N_COMPANIONS; i++) {
        if (model_file_there(stage, companions[i]) || !model_file_there(dir, companions[i]))
            continue;
        if (i < GENERATION && (single || !any)) {
            stays = single || stays ? stays : companions[i];
            continue;
        }
        snprintf(path, sizeof path, "%s/%s.yoke-gone", stage, companions[i]);
        FILE *f = fopen(path, "we");
        if (!f || fclose(f))
            model_fail(m->job, YK_E_IO, "%s: cannot be written", path);
    }
    if (mark)
        yk_warn(m->job, "%s: %s was there and is of another model: move it away, as it keeps Yoke from opening the folder", dir, mark);
    if (stays)
        yk_warn(m->job, "%s: the tokenizer there (%s) stays, and is not of the saved model: remove it, unless it fits", dir, stays);
}

void yk_model_save(yk_model *m, const char *dir)
{
    const char *stage = m ? yk_stage_begin(m->job, dir) : NULL;
    if (!stage)
        return;
    write_weights(m, stage);
    if (yk_ok(m->job) && yk_is_main(m->job))
        write_companions(m, stage);
    if (yk_ok(m->job) && yk_is_main(m->job))
        former_part(m, stage, dir);
    yk_stage_commit(m->job, dir);
}
