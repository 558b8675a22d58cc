/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Some steps of each kind of model, one job after the other. Rank 0 prints "NAME loss LOSS norm NORM parameters HASH" for each. The
 * argument is a folder with "images", "rows.csv" and "text"; "mlp", "resnet20", "gpt2" or "bert" after it select models. YOKE_SHARES
 * splits the rows; without it they are split equally. Run by repeat.sh.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yoke/yoke.h>

enum { STEPS = 2, PATH = 400 };

typedef struct repeat_case {
    const char *name, *data, *config;
    uint32_t batch, accumulate;
    double lr;
    float clip;
    bool adam;
} repeat_case;

/* Each has more than 1 MiB of parameters, so that there are buckets of several sizes. */
static const repeat_case cases[] = {
    {"mlp", "idx:%s/images", "hidden=512+512,dropout=0.1", 12, 1, 1e-3, 0.5f, true},
    {"resnet20", "idx:%s/images", "", 12, 1, 0.1, 0, false},
    {"gpt2", "text:%s/text,tokenizer=bytes", "n_layer=2,n_embd=128,n_head=2,n_positions=16", 12, 2, 1e-3, 1, true},
    {"bert", "csv:%s/rows.csv,text=text,label=label",
     "num_hidden_layers=2,hidden_size=128,num_attention_heads=2,intermediate_size=512,max_position_embeddings=16", 12, 1, 1e-3, 1, true},
};

static void steps_train(yk_job *job, const repeat_case *c, const char *folder)
{
    char spec[PATH];
    snprintf(spec, sizeof spec, c->data, folder);
    yk_data *data = yk_data_open(job, spec, &(yk_data_config){.global_batch = c->batch, .seq_len = 16, .max_length = 16,
                                                              .tokenizer = strcmp(c->name, "bert") ? NULL : "bytes",
                                                              .equal_shares = !getenv("YOKE_SHARES")});
    yk_model *model = yk_model_new(job, c->name, c->config, data);
    yk_opt *opt = c->adam ? yk_adamw(job, &(yk_adam_config){.lr = c->lr, .weight_decay = 0.01})
                          : yk_sgd(job, &(yk_sgd_config){.lr = c->lr, .momentum = 0.9});
    for (uint32_t i = 0; i < STEPS * c->accumulate && yk_ok(job); i++) {
        yk_batch batch;
        if (!yk_data_next(data, &batch))
            break;
        yk_backward(yk_model_loss(model, &batch, yk_forward(model, &batch)));
        if (c->clip > 0)
            yk_clip_norm(job, c->clip);
        yk_step(opt);
    }
    const double loss = yk_step_loss(opt), norm = yk_grad_norm(opt);
    const uint64_t hash = yk_param_hash(job);
    if (yk_ok(job))
        yk_print(job, "%s loss %.9g norm %.17g parameters %016llx\n", c->name, loss, norm, (unsigned long long)hash);
}

static bool is_wanted(int argc, char **argv, const char *name)
{
    for (int i = 2; i < argc; i++)
        if (!strcmp(argv[i], name))
            return true;
    return argc < 3;
}

int main(int argc, char **argv)
{
    int code = argc < 2 ? 2 : 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases && !code; i++) {
        if (!is_wanted(argc, argv, cases[i].name))
            continue;
        yk_job *job = yk_open(&(yk_config){.seed = 3, .quiet = true, .accumulate = cases[i].accumulate});
        steps_train(job, &cases[i], argv[1]);
        code = yk_close(job);
    }
    return code;
}
