/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the model builders of this folder share. Everything here is built over yoke.h alone: a program of the user's can
 * do the same.
 */
#ifndef YOKE_MODELS_MODEL_H
#define YOKE_MODELS_MODEL_H

#ifndef YK_NO_HERE
#define YK_NO_HERE /* errors name the line of the user's call, not one in here */
#endif
#include <yoke/yoke.h>

/* What a model's batches hold. */
typedef enum model_input { MODEL_IMAGES, MODEL_LABELLED_TEXT, MODEL_RUNNING_TEXT, MODEL_MASKED_TEXT } model_input;

typedef struct model_kind {
    const char *name, *text;      /* as yk_model_new takes it; one line for lists */
    const char *model_type;       /* in config.json */
    const char *prefix;           /* names in files may lack it ("bert.") */
    const char *const (*tied)[2];      /* tensors that files may have beside the parameter that stands for them; NULL ends them */
    const char *const *other_heads;    /* how names begin that published files have for heads which this kind has not; NULL ends them */
    model_input input;
    size_t net_size;              /* of the builder's own struct, zeroed before build */
    bool blocks;                  /* it has blocks of layers, which can be computed again (model_block_begin) */
    /* Reads the settings and makes the parameters; data may be NULL. Puts what it decided back into the settings. */
    void (*build)(yk_model *m, void *net, const yk_data *data);
    yk_t (*part)(yk_model *m, void *net, const yk_batch *batch, const char *part); /* poisoned: no such part */
    /* Operations of a row, forward and backward: the latter has two products for each forward one, except where the data would
     * get a gradient. */
    double (*flops)(const void *net, int64_t width);
} model_kind;

/* What is a model's in its job, and no setting of its configuration. */
typedef struct model_own {
    char *prefix;      /* of its parameters' names in the job, "" for none; files have them without it */
    bool new_head;     /* where the file's classifier is of other classes, it is new */
    bool head_differs; /* it is: its classes have other names */
} model_own;

struct yk_model {
    yk_job *job;
    const model_kind *kind;
    yk_settings *settings;
    char *tokenizer;            /* folder whose tokenizer files are copied along when saving, or NULL */
    model_own own;
    char head[32];              /* how the names of its classifier's parameters begin ("fc."), "" where it has none */
    char *folder;               /* that it was opened from, or NULL */
    const yk_data *data;        /* that it was made for, or NULL: its vocabulary of characters is saved too */
    uint32_t first, count;      /* its parameters in the job */
    float smoothing;            /* of labels, in training */
    bool regression;            /* its logit is a number, not a class's */
    bool recompute;             /* blocks are not kept for backward */
    void *net;
};

void model_fail(yk_job *job, yk_status status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Whether data (may be NULL) are of the kind that such a model takes; else the job fails in a line that names both. */
bool model_fits_kind(yk_job *job, const model_kind *kind, const yk_data *data);

/* Whether the kind computes what the settings say; else the job fails in a line that names key and value. */
bool model_config_check(yk_job *job, const model_kind *kind, yk_settings *s);
/* Keys of config.json that the kind did not read: those that are not known are named in a line. */
void model_config_rest(yk_job *job, const model_kind *kind, yk_settings *s);
/* The same of the head in `architectures` of the config.json at path. */
bool model_head_check(yk_job *job, const char *path, yk_settings *s);

/* Whether the folder's weights are what their numbers say; else the job fails in a line that names the file and the key. */
bool model_quantized_check(yk_job *job, const char *path);
/* Whether a tensor of that name bears the scales, zero points or packed values of quantized weights. */
bool model_quantized_tensor(const char *name);

extern const model_kind model_mlp, model_resnet20, model_resnet32, model_resnet18, model_resnet50, model_gpt2, model_bert, model_bert_mlm;

/* Parameters by printf-made names: model_param(m, init, dims, dim, "layer%d.%s", ...). */
yk_t model_param(yk_model *m, yk_init init, uint32_t dims, const int64_t *dim, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
/* A buffer that is saved and not trained. */
yk_t model_state(yk_model *m, yk_dtype dtype, uint32_t dims, const int64_t *dim, float value, const char *fmt, ...)
    __attribute__((format(printf, 6, 7)));
/* The name of its parameter i in files. */
const char *model_file_name(const yk_model *m, uint32_t i);

/* weight [out, in] and bias [out] named PREFIX.weight, PREFIX.bias. PyTorch's default: uniform in ±1/sqrt(in). */
typedef struct model_linear {
    yk_t weight, bias;
} model_linear;
model_linear model_linear_new(yk_model *m, const char *prefix, int64_t in, int64_t out, bool bias, const yk_init *init);
/* The same for the layer that a classifier ends with, which has a bias. */
model_linear model_head_new(yk_model *m, const char *prefix, int64_t in, int64_t classes, const yk_init *init);
yk_t model_linear_on(model_linear l, yk_t x);

typedef struct model_norm {
    yk_t weight, bias;
    float eps;
} model_norm;
model_norm model_norm_new(yk_model *m, const char *prefix, int64_t width, bool bias, float eps);
yk_t model_norm_on(model_norm n, yk_t x);

/* That of a key, by transformers' names: "relu", "gelu", "gelu_new", "gelu_pytorch_tanh", "silu", "tanh", "sigmoid" and further spellings
 * of these; an unknown name fails the job. */
typedef yk_t model_activation(yk_t x);
model_activation *model_activation_of(yk_model *m, const char *key, const char *preset);

yk_init model_normal(double std);

/* Around each block of a forward pass: not kept for backward where the model recomputes. */
void model_block_begin(const yk_model *m);
void model_block_end(const yk_model *m);

void model_put_int(yk_model *m, const char *key, int64_t v); /* into the settings */
/* Classes of a classifier: num_labels, else as many as the data has, else the preset. The names of the data's labels go
 * into the settings, in place of a configuration's. */
int64_t model_classes(yk_model *m, const yk_data *data, int64_t preset);

#endif
