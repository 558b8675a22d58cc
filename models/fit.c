/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that a model and data fit: registry.c asks for kinds before it builds a model, a program for sizes afterwards. Step thread. */
#include "models/model.h"

#include <string.h>

static const char *const needs[] = {"labelled images (idx:DIR or cifar10:DIR)", "rows of text with a label each (csv:FILE or jsonl:FILE)",
                                    "running text (text:FILE or tokens:FILE)",
                                    "text whose tokens are masked (csv:FILE, jsonl:FILE, lines:FILE or text:FILE with mlm_probability)"};
static const char *const partners[] = {"mlp, resnet20, resnet32, resnet18 and resnet50", "bert", "gpt2", "bert-mlm"};

static bool rows_of_text(const yk_data *data)
{
    const char *kind = yk_data_kind(data);
    return !strcmp(kind, "csv") || !strcmp(kind, "jsonl") || !strcmp(kind, "lines");
}

static model_input data_input(const yk_data *data)
{
    int64_t chw[3] = {0, 0, 0};
    if (yk_data_labels(data) == YK_LABELS_MASKED)
        return MODEL_MASKED_TEXT;
    yk_data_shape(data, chw);
    return chw[0] ? MODEL_IMAGES : rows_of_text(data) ? MODEL_LABELLED_TEXT : MODEL_RUNNING_TEXT;
}

bool model_fits_kind(yk_job *job, const model_kind *kind, const yk_data *data)
{
    const model_input got = data ? data_input(data) : kind->input;
    if (got == kind->input)
        return true;
    model_fail(job, YK_E_ARG, "model %s and %s data do not go together: %s takes %s; %s data go with %s", kind->name,
             yk_data_kind(data), kind->name, needs[kind->input], yk_data_kind(data), partners[got]);
    return false;
}

static bool fits_vocabulary(yk_model *m, const yk_data *data)
{
    const long long ids = yk_data_vocab(data), most = yk_settings_int(m->settings, "vocab_size", ids);
    if (ids <= most)
        return true;
    model_fail(m->job, YK_E_ARG, "the tokens of the %s data have ids up to %lld, but model %s has a vocabulary of %lld (vocab_size): "
             "the tokenizer is another than the model's (--tokenizer), or vocab_size must be %lld", yk_data_kind(data), ids - 1,
             m->kind->name, most, ids);
    return false;
}

static bool fits_classes(yk_model *m, const yk_data *data)
{
    const long long classes = yk_data_classes(data), most = yk_settings_int(m->settings, "num_labels", classes);
    if (classes <= most)
        return true;
    model_fail(m->job, YK_E_ARG, "the %s data have %lld classes, but model %s has %lld (num_labels)%s", yk_data_kind(data), classes,
             m->kind->name, most, m->data == data ? ": --new-head (new_head=yes) gives one that is read a new classifier" : "");
    return false;
}

/* A model that takes an image as one row of numbers knows a pixel by its place. The images that it was made for say how wide a row is. */
static bool fits_shape(yk_model *m, const yk_data *data)
{
    int64_t chw[3], own[3];
    yk_data_shape(data, chw);
    yk_data_shape(m->data, own);
    if (!own[0] || yk_settings_int(m->settings, "input_size", 0) <= 0 || !memcmp(chw, own, sizeof chw))
        return true;
    model_fail(m->job, YK_E_ARG, "the images of the %s data are %lldx%lldx%lld, those that model %s was made for %lldx%lldx%lld: expected "
               "images of one shape", yk_data_kind(data), (long long)chw[0], (long long)chw[1], (long long)chw[2], m->kind->name,
               (long long)own[0], (long long)own[1], (long long)own[2]);
    return false;
}

static bool fits_image(yk_model *m, const yk_data *data)
{
    int64_t chw[3];
    long long pixels, inputs, channels;
    yk_data_shape(data, chw);
    pixels = chw[0] * chw[1] * chw[2];
    inputs = yk_settings_int(m->settings, "input_size", pixels);
    channels = yk_settings_int(m->settings, "num_channels", chw[0]);
    if (inputs == pixels && channels == chw[0])
        return fits_shape(m, data);
    if (inputs != pixels)
        model_fail(m->job, YK_E_ARG, "the images of the %s data are %lldx%lldx%lld, %lld numbers, but model %s takes %lld (input_size)",
                   yk_data_kind(data), (long long)chw[0], (long long)chw[1], (long long)chw[2], pixels, m->kind->name, inputs);
    else
        model_fail(m->job, YK_E_ARG, "the images of the %s data have %lld channels, but model %s takes %lld (num_channels)",
                   yk_data_kind(data), (long long)chw[0], m->kind->name, channels);
    return false;
}

/* Data without labels, for predictions, fit a classifier and a regression. */
static bool fits_regression(yk_model *m, const yk_data *data)
{
    const yk_labels labels = yk_data_labels(data);
    if (labels == YK_LABELS_NONE || m->regression == (labels == YK_LABELS_NUMBERS))
        return true;
    model_fail(m->job, YK_E_ARG, m->regression ? "model %s has num_labels=1, a regression, but the labels of the %s data were read as "
                                                 "classes (yk_data_config.numbers)"
                                               : "model %s has classes, but the labels of the %s data are numbers: a regression has "
                                                 "num_labels=1", m->kind->name, yk_data_kind(data));
    return false;
}

bool yk_model_fits(yk_model *m, const yk_data *data)
{
    if (!m || !data || !yk_ok(m->job))
        return m && yk_ok(m->job);
    if (!model_fits_kind(m->job, m->kind, data))
        return false;
    if (m->kind->input == MODEL_IMAGES)
        return fits_image(m, data) && fits_classes(m, data);
    if (!fits_vocabulary(m, data))
        return false;
    return m->kind->input != MODEL_LABELLED_TEXT || (fits_regression(m, data) && fits_classes(m, data));
}
