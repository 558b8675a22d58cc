/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the model builders of this folder. Everything here uses yoke.h alone: a user's program can do the
 * same.
 */
#ifndef YOKE_MODELS_MODEL_H
#define YOKE_MODELS_MODEL_H

#ifndef YK_NO_HERE
#define YK_NO_HERE /* errors name the line of the user's call instead of a line in here */
#endif
#include <yoke/yoke.h>

/* Contents of a model's batches. */
typedef enum model_input { MODEL_IMAGES, MODEL_LABELLED_TEXT, MODEL_RUNNING_TEXT, MODEL_MASKED_TEXT } model_input;

typedef struct model_kind {
    const char *name, *text;      /* name for yk_model_new; one line for lists */
    const char *model_type;       /* in config.json */
    const char *prefix;           /* names in files may lack it ("bert.") */
    const char *const (*tied)[2];      /* a tensor that files may have, and the parameter that replaces it; ends with NULL */
    const char *const *layers;         /* prefixes of all tensors that it computes by, without `prefix`; ends with NULL */
    const char *const *relatives; /* prefixes of tensors of models that are taken for it, NULL for none; ends with NULL */
    const char *numbered;              /* the names of its blocks' tensors begin so, # for a number ("h.#."); without `prefix` */
    model_input input;
    size_t net_size;              /* bytes of the builder's own struct, zeroed before build */
    bool blocks;                  /* it has blocks of layers, which can be recomputed (model_block_begin) */
    /* Reads the settings and makes the parameters; data may be NULL. Puts the chosen values back into the settings. */
    void (*build)(yk_model *m, void *net, const yk_data *data);
    yk_t (*part)(yk_model *m, void *net, const yk_batch *batch, const char *part); /* poisoned for an unknown part */
    /* Operations of a row, forward and backward. Backward has two products for each forward product, except for gradients
     * of the data. */
    double (*flops)(const void *net, int64_t width);
} model_kind;

/* A model's properties in its job, outside of its configuration. */
typedef struct model_own {
    char *prefix;      /* prefix of its parameters' names in the job, "" for none; files lack it */
    bool new_head;     /* the classifier starts new if the file's has other classes */
    bool resumes;      /* a checkpoint replaces what the file gives, so that no line tells what the file lacks */
    bool head_differs; /* the file's classes have other names */
    int64_t classes;   /* num_labels of the configuration if the data have another number of names; else 0 */
    bool fewer_layers; /* the caller has set the number of layers, so that the file may have later ones */
} model_own;

struct yk_model {
    yk_job *job;
    const model_kind *kind;
    yk_settings *settings;
    char *tokenizer;            /* folder whose tokenizer files are copied when saving, or NULL */
    model_own own;
    char head[32];              /* prefix of its classifier's parameters ("fc."), "" if it has none */
    char *folder;               /* the folder it was opened from, or NULL */
    const yk_data *data;        /* the data it was made for, or NULL: their vocabulary of characters is saved too */
    uint32_t first, count;      /* its parameters in the job */
    float smoothing;            /* label smoothing in training */
    bool regression;            /* its logit is a number, not a class's */
    bool recompute;             /* blocks are not kept for backward */
    void *net;
};

void model_fail(yk_job *job, yk_status status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* True if data (may be NULL) have the kind that the model takes; else the job fails in a line that names both kinds. */
bool model_fits_kind(yk_job *job, const model_kind *kind, const yk_data *data);

/* True if the kind supports the settings; else the job fails in a line that names key and value. */
bool model_config_check(yk_job *job, const model_kind *kind, yk_settings *s);
/* Names, in one line, the keys of config.json that the kind did not read and no table knows. */
void model_config_rest(yk_job *job, const model_kind *kind, yk_settings *s);
/* True if the kind supports the head in `architectures` of the config.json at path; else the job fails. */
bool model_head_check(yk_job *job, const char *path, yk_settings *s);
/* True if the config.json at path leaves empty the objects and lists that it must; else the job fails. */
bool model_keys_check(yk_job *job, const char *path, yk_settings *s);

/* False for a folder of quantized weights: the job fails in a line that names the file and the key. */
bool model_quantized_check(yk_job *job, const char *path);
/* The file in a folder for which model_quantized_check refuses it; NULL if absent. */
const char *model_foreign_mark(const char *path);
bool model_file_there(const char *dir, const char *name);
/* True if a tensor of that name has scales, zero points or packed values of quantized weights. */
bool model_quantized_tensor(const char *name);

extern const model_kind model_mlp, model_resnet20, model_resnet32, model_resnet18, model_resnet50, model_gpt2, model_bert, model_bert_mlm;

/* Parameters by printf-made names: model_param(m, init, dims, dim, "layer%d.%s", ...). */
yk_t model_param(yk_model *m, yk_init init, uint32_t dims, const int64_t *dim, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
/* A buffer that is saved and not trained. */
yk_t model_state(yk_model *m, yk_dtype dtype, uint32_t dims, const int64_t *dim, float value, const char *fmt, ...)
    __attribute__((format(printf, 6, 7)));
/* The name in files of the model's parameter i. */
const char *model_file_name(const yk_model *m, uint32_t i);

/* weight [out, in] and bias [out] named PREFIX.weight, PREFIX.bias. PyTorch's default: uniform in ±1/sqrt(in). */
typedef struct model_linear {
    yk_t weight, bias;
} model_linear;
model_linear model_linear_new(yk_model *m, const char *prefix, int64_t in, int64_t out, bool bias, const yk_init *init);
/* The last linear layer of a classifier, with a bias. */
model_linear model_head_new(yk_model *m, const char *prefix, int64_t in, int64_t classes, const yk_init *init);
yk_t model_linear_on(model_linear l, yk_t x);

typedef struct model_norm {
    yk_t weight, bias;
    float eps;
} model_norm;
model_norm model_norm_new(yk_model *m, const char *prefix, int64_t width, bool bias, float eps);
yk_t model_norm_on(model_norm n, yk_t x);

/* The word of a key; preset if it is unset or null. An object gives a text that is no word of any key. */
const char *model_word(yk_settings *s, const char *key, const char *preset);
/* A norm's epsilon; a negative or an endless one fails the job. */
float model_eps(yk_model *m, const char *key, double preset);
/* The activation of a key, by transformers' names: "relu", "gelu", "gelu_new", "gelu_pytorch_tanh", "silu", "tanh", "sigmoid" and further
 * spellings of these; an unknown name fails the job. */
typedef yk_t model_activation(yk_t x);
model_activation *model_activation_of(yk_model *m, const char *key, const char *preset);

yk_init model_normal(double std);

/* Enclose each block of a forward pass: its values are recomputed in backward if the model recomputes. */
void model_block_begin(const yk_model *m);
void model_block_end(const yk_model *m);

void model_put_int(yk_model *m, const char *key, int64_t v); /* sets a setting */
/* Number of classes of a classifier: num_labels, else the data's, else the preset. The names of the data's labels replace a
 * configuration's in the settings. */
int64_t model_classes(yk_model *m, const yk_data *data, int64_t preset);

#endif
