/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stages of sharding: the kinds of a model's values that lie in slices over the ranks. One table has the words of yk_config.shard, of
 * --shard, and of FSDP's and ZeRO's files. Also the places of --offload. Thread-safe.
 */
#ifndef YOKE_CORE_RUN_STAGE_H
#define YOKE_CORE_RUN_STAGE_H

#include <stdbool.h>

#include "core/base/error.h"

typedef enum yk__stage_kind { YK__STAGE_STATE, YK__STAGE_GRADIENTS, YK__STAGE_PARAMS } yk__stage_kind;

typedef struct yk__stage {
    const char *word;    /* canonical: "state", "gradients" or "params" */
    yk__stage_kind kind;
    bool within_host;    /* slices lie over the ranks of a host, not over all ranks */
    bool stays;          /* gathered parameters stay from forward to backward */
} yk__stage;

/* The stage that a word names: state, gradients, params, zero0 to zero3, or a strategy of FSDP. False if absent. */
bool yk__stage_find(const char *word, yk__stage *stage);
/* YK_E_ARG for a word that names no stage, with the nearest word. `source` names the setting ("--shard"). */
yk_status yk__stage_read(const char *word, const char *source, yk__stage *stage, yk_error *err);

/* The values of the optimizer that the host holds for a rank with memory of its own. It updates the parameters that it holds, so it has the
 * state, too. On disk the state of every rank lies in a file. */
typedef enum yk__offload {
    YK__OFFLOAD_NONE,
    YK__OFFLOAD_STATE,
    YK__OFFLOAD_PARAMS,
    YK__OFFLOAD_DISK,       /* the state on disk; the host updates */
    YK__OFFLOAD_DISK_PARAMS /* and it holds the parameters */
} yk__offload;

/* Reads the places of values beside devices, "state=host,params=host" (yk_config.offload, --offload); NULL and "none" name none. YK_E_ARG
 * for a malformed place or part, and for one that is not built. */
yk_status yk__offload_read(const char *text, const char *source, yk__offload *offload, yk_error *err);
const char *yk__offload_text(yk__offload offload); /* its kind, as yk__offload_read takes it */
static inline bool yk__offload_has_params(yk__offload offload)
{
    return offload == YK__OFFLOAD_PARAMS || offload == YK__OFFLOAD_DISK_PARAMS;
}
/* True if a text that yk__offload_read takes has activations=host; the kind does not say it. */
bool yk__offload_activations(const char *text);
/* The part of the state that the host has by such a text, state=host:0.6; 1 if it names no part. */
double yk__offload_part(const char *text);
/* The folder of the state on disk, which the caller frees; NULL without one, or without memory. */
char *yk__offload_folder(const char *text);
/* YK_E_ARG for parameters on the host in a stage whose devices have all of them. source: the setting and its value, for the message. */
yk_status yk__offload_fits(yk__offload offload, yk__stage_kind stage, const char *source, yk_error *err);

#endif
