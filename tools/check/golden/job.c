/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks job.json of a golden training run, and the settings of an optimizer's case. curves.c and golden_optim.c ask before they run a
 * case, in the main thread. The runner must read every key, or the key only describes the data; and it must know every value. Any other key
 * or value makes the case unsupported, by name.
 */
#include <stdio.h>
#include <string.h>

#include "core/nn/sched.h"
#include "tools/check/golden/golden.h"

typedef struct known_keys {
    const char *section, *of; /* of: the section's type or kind, NULL for any */
    const char *keys;
} known_keys;

static const known_keys known[] = {
    {"", NULL, " name catches meaning clip combine dropout excluded_in_float32 float32_deviation frozen loss mask_rates "
     "mask_rates_note micro_steps micro_steps_per_window model optimizer ranks rows same_as schedule snapshots splits steps tokens "
     "tolerance_float32 tolerance_float64 "},
    {"optimizer", "sgd", " type lr momentum dampening weight_decay nesterov maximize no_decay "},
    {"optimizer", "adam", " type lr betas eps weight_decay amsgrad maximize no_decay "},
    {"optimizer", "adamw", " type lr betas eps weight_decay amsgrad maximize no_decay "},
    {"clip", "none", " type "},
    {"clip", "norm", " type max_norm norm_type "},
    {"clip", "value", " type max_value "},
    {"loss", "cross_entropy", " kind ignore_index label_smoothing shift_labels aux_weight ignored_fraction "},
    {"model", "mlp", " kind sizes activation branch unused init_scale "},
    {"model", "resnet", " kind widths blocks_per_stage classes image batch_norm_eps batch_norm_momentum init_scale "},
    {"model", "gpt2", " kind vocab width layers heads context layer_norm_eps init_scale "},
    {"model", "gpt2_aux", " kind vocab width layers heads context layer_norm_eps aux_out init_scale "},
    {"model", "bert_mlm", " kind vocab hidden layers heads intermediate context layer_norm_eps init_scale "},
    {"model", "bert_classifier", " kind vocab hidden layers heads intermediate context layer_norm_eps classes init_scale "},
};

static bool has_word(const char *words, const char *word)
{
    const size_t n = strlen(word);
    for (const char *p = strstr(words, word); p; p = strstr(p + 1, word))
        if (p[-1] == ' ' && p[n] == ' ')
            return true;
    return false;
}

/* The keys of a section of this type; NULL if unknown. */
static const char *keys_of(const char *section, const char *type)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i].section, section) && (!known[i].of || !strcmp(known[i].of, type)))
            return known[i].keys;
    return NULL;
}

bool golden_known(const char *section, const char *type, json_t *object, char *why, size_t n)
{
    const char *keys = keys_of(section, type), *key;
    json_t *v;
    if (!keys) {
        snprintf(why, n, "%s %s", section, type);
        return false;
    }
    json_object_foreach(object, key, v)
        if (!has_word(keys, key)) {
            snprintf(why, n, "%s%s%s: setting \"%s\"", section, *section ? " " : "job file", type, key);
            return false;
        }
    return true;
}

static const char *type_in(json_t *section, const char *key)
{
    const char *s = json_string_value(json_object_get(section, key));
    return s ? s : "";
}

static bool section_known(json_t *spec, const char *section, const char *type_key, char *why, size_t n)
{
    json_t *object = json_object_get(spec, section);
    return !object || golden_known(section, type_in(object, type_key), object, why, n);
}

/* Checks values that the runner does not read but assumes. */
static bool values_known(json_t *spec, char *why, size_t n)
{
    const char *combine = json_string_value(json_object_get(spec, "combine"));
    json_t *loss = json_object_get(spec, "loss"), *clip = json_object_get(spec, "clip"), *v;
    *why = 0;
    if (json_number_value(json_object_get(spec, "dropout")) != 0.0)
        snprintf(why, n, "dropout");
    else if (combine && !has_word(" mean_of_micro_means token_mean ", combine))
        snprintf(why, n, "combine %s", combine);
    else if ((v = json_object_get(loss, "ignore_index")) && json_integer_value(v) != -100)
        snprintf(why, n, "loss: ignore_index other than -100");
    else if ((v = json_object_get(clip, "norm_type")) && json_number_value(v) != 2.0)
        snprintf(why, n, "clip: another norm than the 2-norm");
    return !*why;
}

void golden_schedule_text(json_t *schedule, char *params, size_t n)
{
    const char *key;
    json_t *v;
    size_t used = 0;
    *params = 0;
    json_object_foreach(schedule, key, v)
    {
        const char *as = !strcmp(key, "warmup_steps")     ? "num_warmup_steps"
                         : !strcmp(key, "training_steps") ? "num_training_steps"
                         : !strcmp(key, "total_steps")    ? "num_training_steps"
                         : !strcmp(key, "t_max")          ? "T_max"
                                                          : key;
        if (!strcmp(key, "type") || used + 160 > n)
            continue;
        used += (size_t)snprintf(params + used, n - used, "%s%s=", used ? "," : "", as);
        if (json_is_string(v) || json_is_boolean(v))
            used += (size_t)snprintf(params + used, n - used, "%.80s",
                                     json_is_string(v) ? json_string_value(v) : json_is_true(v) ? "true" : "false");
        else if (!json_is_array(v))
            used += (size_t)snprintf(params + used, n - used, "%.17g", json_number_value(v));
        for (size_t i = 0; i < json_array_size(v) && used + 32 < n; i++)
            used += (size_t)snprintf(params + used, n - used, "%s%.17g", i ? "+" : "", json_number_value(json_array_get(v, i)));
    }
}

const char *golden_schedule_name(json_t *schedule)
{
    const char *type = type_in(schedule, "type");
    return !strcmp(type, "torch_cosine_annealing") ? "CosineAnnealingLR" : !strcmp(type, "torch_multistep") ? "MultiStepLR" : type;
}

/* Checks the schedule, which knows its own settings. A case that equals another except for its ranks (same_as) has none. */
static bool schedule_known(json_t *spec, char *why, size_t n)
{
    json_t *schedule = json_object_get(spec, "schedule");
    const double lr = json_number_value(json_object_get(json_object_get(spec, "optimizer"), "lr"));
    yk_error err = YK_ERROR_INIT;
    yk__sched *s = NULL;
    char params[1024];
    if (!schedule && json_object_get(spec, "same_as"))
        return true;
    golden_schedule_text(schedule, params, sizeof params);
    yk__sched_new(golden_schedule_name(schedule), 0, 0, params, lr, &s, &err);
    yk__sched_free(s);
    snprintf(why, n, "%s", err.text);
    return !err.status;
}

bool golden_job_known(json_t *spec, char *why, size_t n)
{
    return golden_known("", "", spec, why, n) && section_known(spec, "optimizer", "type", why, n) &&
           section_known(spec, "clip", "type", why, n) && section_known(spec, "loss", "kind", why, n) &&
           section_known(spec, "model", "kind", why, n) && values_known(spec, why, n) && schedule_known(spec, why, n);
}
