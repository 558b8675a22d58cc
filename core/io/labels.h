/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of classes as Hugging Face's config.json holds them: "id2label": {"0": "no", "1": "yes"} and its reverse, "label2id". transformers
 * names unnamed classes LABEL_0, LABEL_1, ..
 */
#ifndef YOKE_CORE_IO_LABELS_H
#define YOKE_CORE_IO_LABELS_H

#include <stdbool.h>

#include "core/io/json.h"

typedef struct yk__labels {
    char **name;
    int count;
} yk__labels;

/* The names of a configuration's id2label; its keys must be 0 to n-1. If it is absent, or has transformers' own names, label2id's names
 * and numbers count; count 0 if neither names a class. Names that contradict each other or num_labels are refused. path: for errors. */
yk_status yk__labels_of(const json_t *config, const char *path, yk__labels *out, yk_error *err);
yk_status yk__labels_load(const char *path, yk__labels *out, yk_error *err); /* path: a config.json */
bool yk__labels_preset(const yk__labels *labels);                            /* every name is transformers' own */
yk_status yk__labels_copy(char *const *name, int count, yk__labels *out, yk_error *err);
json_t *yk__labels_map(const yk__labels *labels, bool by_name); /* id2label or label2id; NULL if memory ran out */
void yk__labels_free(yk__labels *labels);                       /* empties it */

#endif
