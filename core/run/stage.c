/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of stages: the words of `--shard`, FSDP's and ZeRO's too, each with the values that lie in slices. A row's first flag puts
 * slices over a host instead of over all ranks; its second flag keeps gathered parameters from forward to backward. stage.c also reads
 * `--offload`. yk__stage_read suggests the nearest word; yk__offload_read refuses places that are not built.
 *
 * core/job reads the user's setting with it when a job opens. `yoke train` and `yoke plan` read configuration files with it. Thread-safe.
 */
#include "core/run/stage.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/base/nearest.h"
#include "core/base/number.h"
#include "core/base/word.h"

static const struct {
    const char *names; /* one word with its other spellings, a list of core/base/word.h */
    yk__stage stage;
} stages[] = {
    /* zero0 and no_shard keep no slices in their libraries; here they mean `state`, the stage with the fewest values in slices */
    {"state=zero1=zero0=no_shard=simple", {"state", YK__STAGE_STATE, false, false}},
    {"gradients=zero2=zero_dp_2", {"gradients", YK__STAGE_GRADIENTS, false, false}},
    {"params=zero3=full_shard=zero_dp_3", {"params", YK__STAGE_PARAMS, false, false}},
    {"shard_grad_op", {"params", YK__STAGE_PARAMS, false, true}},
    {"hybrid_shard", {"params", YK__STAGE_PARAMS, true, false}},
    {"hybrid_shard_zero2=_hybrid_shard_zero2", {"params", YK__STAGE_PARAMS, true, true}},
};

bool yk__stage_find(const char *word, yk__stage *stage)
{
    for (size_t i = 0; i < sizeof stages / sizeof stages[0]; i++)
        if (yk__word_find(stages[i].names, word, strlen(word)) == 0) {
            *stage = stages[i].stage;
            return true;
        }
    return false;
}

yk_status yk__stage_read(const char *word, const char *source, yk__stage *stage, yk_error *err)
{
    static const char *const words[] = {"state", "gradients", "params", "zero1", "zero2", "zero3"};
    if (!yk__stage_find(word, stage)) {
        const char *near = yk__nearest_word(word, words, sizeof words / sizeof words[0]);
        return yk__fail(err, YK_E_ARG, "%s %.80s: expected state, gradients or params%s%s%s", source, word, near ? ": did you mean " : "",
                        near ? near : "", near ? "?" : "");
    }
    return YK_OK;
}

/* ---- Places beside devices ---- */

/* One PART=PLACE[:R] as its pieces; fraction is NULL without R. */
typedef struct offload_part {
    const char *what, *place, *fraction;
    size_t n_what, n_word;
    double part; /* 1 without R; 0 for an R that is no number between 0 and 1 */
    bool disk;
} offload_part;

static bool part_split(const char *text, offload_part *p)
{
    char *end = NULL;
    *p = (offload_part){.what = text, .n_what = strcspn(text, "="), .part = 1};
    p->place = text[p->n_what] ? text + p->n_what + 1 : "";
    p->n_word = strcspn(p->place, ":");
    const bool host = yk__word_find("host=cpu", p->place, p->n_word) == 0;
    const bool disk = yk__word_find("nvme", p->place, p->n_word) == 0 && p->place[p->n_word] && p->place[p->n_word + 1];
    p->disk = disk;
    p->fraction = host ? strchr(p->place, ':') : disk ? strchr(p->place + p->n_word + 1, ':') : NULL;
    if (p->fraction)
        p->part = yk__number_read(p->fraction + 1, &end);
    if (p->fraction && (end == p->fraction + 1 || *end || !(p->part > 0 && p->part < 1)))
        p->part = 0;
    return (host || disk) && yk__word_find("state|state+masters|params|activations", p->what, p->n_what) >= 0;
}

static bool part_is(const offload_part *p, const char *what)
{
    return yk__word_find(what, p->what, p->n_what) == 0;
}

/* The reason why a place is not built; NULL if it is. */
static const char *part_unbuilt(const offload_part *p)
{
    if (part_is(p, "activations"))
        return p->disk || p->part < 1 ? "activations lie in the host's memory, all that are large: activations=host" : NULL;
    if (p->disk && !part_is(p, "state"))
        return "a disk holds the optimizer's moments: state=nvme:DIR; parameters lie in memory: params=host";
    if (p->disk && p->part < 1)
        return "the disk holds the whole of a slice: state=nvme:DIR";
    return p->part < 1 && part_is(p, "params") ? "the host holds the whole of a slice: params=host" : NULL;
}

/* params=host alone means state=host,params=host; state+masters=host means state=host. */
yk_status yk__offload_read(const char *text, const char *source, yk__offload *offload, yk_error *err)
{
    char copy[2048], *next = copy, *one;
    bool disk = false, host = false, params = false;
    double part = 0; /* the state's; 0: not known */
    *offload = YK__OFFLOAD_NONE;
    if (!text || yk__word_find("none=no=false", text, strlen(text)) == 0)
        return YK_OK;
    if (strlen(text) >= sizeof copy)
        return yk__fail(err, YK_E_ARG, "%s: expected fewer than %zu characters, got %zu", source, sizeof copy, strlen(text));
    strcpy(copy, text);
    while ((one = strsep(&next, ","))) {
        offload_part p;
        if (!part_split(one, &p))
            return yk__fail(err, YK_E_ARG, "%s %.200s: expected state, params or activations, = and host or nvme:DIR, and perhaps :R, a "
                            "part between 0 and 1: state=host:0.6", source, one);
        if (!(p.part > 0))
            return yk__fail(err, YK_E_ARG, "%s %.200s: expected a part between 0 and 1, got %.40s: give one, as in state=host:0.6, or "
                            "none for the whole", source, one, p.fraction + 1);
        if (part_unbuilt(&p))
            return yk__fail(err, YK_E_ARG, "%s %.300s: not built yet: %s", source, text, part_unbuilt(&p));
        if (part_is(&p, "activations"))
            continue; /* yk__offload_activations reads this part */
        if (!part_is(&p, "params") && part > 0 && part != p.part)
            return yk__fail(err, YK_E_ARG, "%s %.300s: the state has one part: expected one state=.., got two: choose one", source, text);
        part = part_is(&p, "params") ? part : p.part;
        params = params || part_is(&p, "params");
        disk = disk || p.disk;
        host = host || (!p.disk && !part_is(&p, "params"));
        *offload = disk ? params ? YK__OFFLOAD_DISK_PARAMS : YK__OFFLOAD_DISK : params ? YK__OFFLOAD_PARAMS : YK__OFFLOAD_STATE;
    }
    if (params && part > 0 && part < 1)
        return yk__fail(err, YK_E_ARG, "%s %.300s: not built yet: the host updates all parameters that it holds: state=host, params=host",
                        source, text);
    if (disk && host)
        return yk__fail(err, YK_E_ARG, "%s %.300s: the state lies in one place: expected host or nvme:DIR, got both: choose one", source,
                        text);
    return YK_OK;
}

const char *yk__offload_text(yk__offload offload)
{
    static const char *const text[] = {"none", "state=host", "state=host,params=host", "state=nvme:DIR", "state=nvme:DIR,params=host"};
    return text[offload];
}

bool yk__offload_activations(const char *text)
{
    for (const char *one = text; one && *one; one += strcspn(one, ","), one += *one == ',')
        if (yk__word_find("activations", one, strcspn(one, "=,")) == 0)
            return true;
    return false;
}

double yk__offload_part(const char *text)
{
    double part = 1;
    for (const char *one = text; one && *one; one += strcspn(one, ","), one += *one == ',') {
        char *copy = yk__strndup(one, strcspn(one, ","));
        offload_part p;
        if (copy && part_split(copy, &p) && !p.disk && (part_is(&p, "state") || part_is(&p, "state+masters")))
            part = p.part;
        yk__free(copy);
    }
    return part;
}

char *yk__offload_folder(const char *text)
{
    for (const char *one = text; one && *one; one += strcspn(one, ","), one += *one == ',') {
        char *copy = yk__strndup(one, strcspn(one, ",")), *dir = NULL;
        offload_part p;
        if (copy && part_split(copy, &p) && p.disk)
            dir = yk__strndup(p.place + p.n_word + 1, strcspn(p.place + p.n_word + 1, ":"));
        yk__free(copy);
        if (dir)
            return dir;
    }
    return NULL;
}

yk_status yk__offload_fits(yk__offload offload, yk__stage_kind stage, const char *source, yk_error *err)
{
    if (!yk__offload_has_params(offload) || stage == YK__STAGE_PARAMS)
        return YK_OK;
    return yk__fail(err, YK_E_ARG, "%s: each device has all parameters in this stage: --shard params, or without params=host", source);
}
