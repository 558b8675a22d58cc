/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameters and states of one rank: their layout, their buffers, and the slices that this rank owns.
 *
 * Layout. Trained parameters stand in reverse order of creation (the gradients of the last layers come first) in buckets. A bucket has
 * about bucket_bytes, or less with several ranks. It never passes the smallest of the devices' buffer limits, unless a parameter is larger
 * by itself. A bucket of parameters is the bucket of their gradients too. Buckets follow from the parameters and the ranks' devices, never
 * from the exchanges or the hosts: an element's owner decides about its bits. Values, gradients and moments of a bucket are laid out alike:
 * element i of one array belongs to element i of each other array. Each parameter begins at a multiple of 64 elements, and the gaps hold
 * zeros. Frozen parameters stand in buckets behind, without gradients. Each rank owns a slice of every trained bucket by its role
 * (roles.c): it holds the moments of that slice alone, and updates it. In LocalSGD a rank holds and updates whole buckets, and slices serve
 * exchanges only.
 *
 * The layout is made when it is first needed (param_layout.c); values written before that wait on the host. A parameter that comes later
 * causes a new layout.
 */
#ifndef YOKE_CORE_RUN_VALUES_PARAMS_H
#define YOKE_CORE_RUN_VALUES_PARAMS_H

#include "core/run/islands.h"
#include "core/run/queue.h"
#include "core/run/values/copies.h"
#include "core/run/values/far_slices.h"
#include "core/run/values/slice_sums.h"
#include "core/run/values/state_home.h"
#include "core/run/way.h"

#define YK__MOMENTS 3

typedef struct yk__param {
    char *name;
    uint64_t n, at; /* elements; first element in its bucket */
    uint64_t rows;  /* rows of the gradient as PowerSGD's matrix; 0: no matrix */
    uint32_t bucket;
    bool trained;
    yk_dtype dtype;     /* dtype of its values and gradients; copies in the compute format come in addition */
    yk__source pending; /* gives its values until there is a layout */
    yk_buffer *compute; /* the copy in the compute format, when a program reads one */
    bool is_once;       /* compute is the host's one copy, which owners write in the optimizer's pass; else this rank's own */
} yk__param;

typedef struct yk__state {
    char *name;
    yk_dtype dtype;
    uint64_t n;
    yk_buffer *buffer;
} yk__state;

typedef struct yk__bucket {
    bool trained;
    yk__layout layout;
    const yk__home *home;
    yk__queue *updates;  /* the queue of the device that updates this rank's slice, and has its moments: the rank's own, or the host's */
    yk_buffer *values;   /* the home's; other code calls yk__params_bind */
    float *own;          /* far slices: this rank's slice, which other ranks pull; or all of a frozen bucket on the host; else NULL */
    yk_pin *own_pin;     /* for that memory, on a device that copies it */
    uint64_t shared_at; /* elements of the trained buckets before it: its begin in the blocks for exchanges */
    yk_buffer *grad, *moment[YK__MOMENTS]; /* grad: of the whole bucket, or of this rank's slice (yk__grad_at); moment: state_home's */
    float *sum;          /* gradients in slices: the window's sums of this rank's slice; else NULL */
    yk_pin *sum_pin;     /* of that memory, on a device that copies it */
    yk__piece *piece;    /* and the pieces that are summed at once */
    uint32_t n_piece;
    float *shared;       /* this rank's gradients for exchanges; NULL if it does not talk */
    bool is_wrapped;     /* grad is that memory, or `sum` */
    yk_buffer *host_values, *host_grad; /* on a rank that offloads: the blocks' part, for the host device; NULL with sums in slices */
    bool is_part;        /* `shared` is zero outside this rank's part of its island's sum, apart from this rank's slice */
    yk__slices summed;   /* with YK__SUMS_MOVED: the slices that hold the sums of gradients */
    uint64_t begin, end; /* elements that this rank updates: its slice; in LocalSGD all */
    float *rest;         /* [end - begin]: the slice's rest from rounding (masters.c); NULL if not rounded */
    bool cast_due;       /* its copies in the compute format are made when a segment waits for it */
    uint64_t point;      /* queue point that completes the gradients of the last micro batch */
    uint64_t updated;    /* point of the host's queue that completes the bucket's last update, if updates are deferred */
    yk__request *request; /* its exchange under way */
    int64_t begun_ns, done_ns; /* times of the last exchange, for traces */
} yk__bucket;

/* The place of the newest values of the trained parameters. */
typedef enum yk__value_state {
    YK__VALUES_PUBLISHED,   /* in the place exchanges read; this rank's device has them, or they are on their way */
    YK__VALUES_UNPUBLISHED, /* on the devices that updated them: the block for exchanges is older */
    YK__VALUES_ROUNDED,     /* with their owners: they travelled as numbers of bf16, and the rest stayed (masters.c) */
    YK__VALUES_BEHIND       /* with the members: this excluded rank's device has older ones */
} yk__value_state;

/* The sums over ranks of the last window's gradients. */
typedef enum yk__sums {
    YK__SUMS_MADE,  /* in this rank's slices; also at first, without gradients */
    YK__SUMS_MOVED, /* in the slices before roles changed: bucket.summed */
    YK__SUMS_DUE    /* a window has begun */
} yk__sums;

typedef struct yk__params {
    yk__queue *queue;
    yk__queue *updates;             /* the rank's own, or the host's if the rank offloads: of the device that updates its buckets */
    yk__exchange *exchange;
    yk__island island;
    yk__way way;                    /* the columns that this rank follows; chosen anew when roles change */
    const yk__way *first_way;       /* a row before the table's; NULL for none */
    const yk__home *first_home;     /* the same of homes */
    struct yk__state_file *state_file; /* moments lie in a file; NULL: they do not */
    const yk__state_home *state_home; /* holds the moments; set with the engine */
    uint64_t bucket_bytes;
    uint32_t gap;                   /* elements: parameters begin at multiples; 0: not agreed yet */
    uint64_t most;                  /* elements of a bucket of several parameters that every rank's device takes as one buffer */
    yk_dtype precision;             /* the compute format */
    bool rounds8;                   /* and linear layers' products have operands of 8 bits */
    bool inference;                 /* no parameter is trained, even if declared so */
    yk__param *param;
    yk__state *state;
    size_t n_param, cap_param, n_state, cap_state;
    yk_pin *grad_pin, *value_pin;   /* pins of the blocks for exchanges */
    bool laid_out;
    uint32_t layouts;               /* layouts made so far */
    yk__bucket *bucket;
    uint32_t n_all_bucket, n_bucket; /* trained buckets are the first n_bucket */
    uint64_t n_trained;             /* elements of all trained buckets */
    uint32_t n_moment;              /* moments of each element of a slice */
    uint64_t version;               /* version of the values */
    uint64_t writes;                /* writes by the host */
    yk__copies copies;              /* in the compute format */
    uint32_t gathered;              /* trained buckets, the last first, whose parameters are here; the rest are on their way */
    uint32_t power_rank;            /* rank of PowerSGD; 0: gradients are exchanged as they are */
    struct yk__power *power;        /* PowerSGD's state; NULL if it begins anew (powersgd.h) */
    bool parts_fixed;               /* the user's parts of slices: no island evens them */
    bool fits_parts;                /* first parts follow the ranks' memory: the same on all ranks */
    double *capacity;               /* [2][ranks] of ranks, as parts: at first, and by their limits; NULL: not counted */
    bool has_updated;               /* reports say from now on the parts that fit */
    bool expects_moments;           /* the optimizer is known */
    uint32_t expected_moments;
    bool offloads;                  /* the job offloads (host_device.h): constant, the same on all ranks */
    double host_part;               /* so much of the trained elements, by buckets, is the host's to update; 1: all */
    uint64_t n_host;                /* these elements: of the first buckets. The same on all ranks, also if this one offloads nothing */
    bool all_on_host;               /* and a device with memory of its own pulls frozen parameters from the host, too */
    bool scatters;                  /* gradients in slices (slice_sums.h): constant, the same on all ranks of several */
    bool slices;                    /* parameters in slices, too, on devices with memory of their own: constant */
    bool far;                       /* with them: over messages, and no host has all parameters (far_slices.h): the same on all ranks */
    bool pulls_stay;                /* and pulled once a run */
    uint32_t pulls_ahead;           /* so many pulls early */
    uint64_t keep_whole;            /* elements of a bucket up to which it stays whole */
    yk__sums_state summing;         /* their pieces on their way */
    yk__value_state values;
    yk__sums sums;
    yk__exact squares;              /* squares of these sums, on a rank that talks */
} yk__params;

/* ---- params.c: declaring and laying out ---- */

yk_status yk__params_declare(yk__params *p, const char *name, uint64_t n, bool trained, uint32_t *number, yk_error *err);
yk_status yk__params_declare_state(yk__params *p, const char *name, yk_dtype dtype, uint64_t n, uint32_t *number, yk_error *err);
/* Lists the buckets; collective. */
yk_status yk__params_list(yk__params *p, yk_error *err);
/* Makes their buffers, with undefined contents, where the way needs them; collective. */
yk_status yk__params_lay_out(yk__params *p, yk_error *err);
void yk__params_drop_layout(yk__params *p);
void yk__params_free(yk__params *p); /* frees states and names; the layout must be gone */
/* Adds the blocks that a way needs if it was chosen after the layout was made, and copies the values there. Collective. */
yk_status yk__params_add_blocks(yk__params *p, yk_error *err);
/* Cuts a bucket into slices, by the roles. */
yk_status yk__params_cut(const yk__params *p, yk__bucket *b, yk_error *err);
uint64_t yk__params_slice_bytes(const yk__params *p); /* of values that lie in slices */
/* Makes moments of this rank's slices, with undefined contents. */
yk_status yk__params_make_moments(yk__params *p, yk_error *err);

/* The host updates slices of this rank. */
static inline bool yk__params_offload(const yk__params *p)
{
    return p->updates != p->queue;
}

/* The host updates this rank's slice of the bucket. */
static inline bool yk__bucket_offloads(const yk__params *p, const yk__bucket *b)
{
    return b->updates != p->queue;
}

/* Gradients and values of the bucket have a place in the blocks for exchanges, if there are any. */
static inline bool yk__bucket_in_blocks(const yk__params *p, const yk__bucket *b)
{
    return p->exchange->world > 1 || yk__bucket_offloads(p, b);
}

/* Moments of the bucket take memory of this rank's own device. */
static inline bool yk__bucket_keeps_moments(const yk__params *p, const yk__bucket *b)
{
    return !p->state_file && !yk__bucket_offloads(p, b);
}

/* The host's update goes on under the next forward, as no other rank waits for its values (docs/decisions/0096). */
static inline bool yk__params_defer(const yk__params *p)
{
    return yk__params_offload(p) && p->exchange->part == YK__PART_ALL && !p->state_file;
}

/* The buffer, of the device that updates, with the sums of gradients. */
static inline yk_buffer *yk__bucket_sums(const yk__bucket *b)
{
    return b->host_grad ? b->host_grad : b->grad;
}

/* ---- fitted_parts.c: the first parts, by memory ---- */

typedef enum yk__fitting {
    YK__FIT_ALL,    /* weights stay */
    YK__FIT_CAPPED, /* a rank has less than its weight; weights are whole numbers */
    YK__FIT_NONE
} yk__fitting;

/* Asks all ranks for their capacities, and fails on all of them if no parts fit. Needs the buckets' sizes. Collective. */
yk_status yk__parts_measure(yk__params *p, yk_error *err);
/* Caps the ranks' weights by their capacities. work: [2][ranks]. */
yk__fitting yk__parts_fit(const yk__params *p, double *weight, double *work);
void yk__parts_forget(yk__params *p);

/* ---- home.c: a bucket's values; the range's elements ---- */

/* For a program or a transfer of this rank's device, submitted behind `point`. */
static inline yk__bound yk__params_bind(const yk__bucket *b, yk__range range, uint64_t point)
{
    return b->home->bind ? b->home->bind(b, range, point) : (yk__bound){0};
}
/* Element `at` of the bucket in the block for exchanges, in this rank's far slice, or of a frozen bucket on the host; NULL if it is not
 * there. */
float *yk__params_host(const yk__params *p, const yk__bucket *b, uint64_t at);
/* The elements that the home has on this rank's device: none, this rank's slice, or all. */
yk__range yk__params_held(const yk__bucket *b);
/* The elements in the buffer of values on the device that updates: the host's has the whole bucket, in the block. */
yk__range yk__params_updated(const yk__params *p, const yk__bucket *b);
/* Transfers between the home and the host; last_point completes them. Elements that the home has not come from the block for exchanges, or
 * from far slices, and none go there. A frozen bucket on the host is read and written there; no pull is under way then. */
yk_status yk__params_get(const yk__params *p, const yk__bucket *b, yk__range range, void *dst, yk_error *err);
yk_status yk__params_put(const yk__params *p, const yk__bucket *b, yk__range range, const void *src, yk_error *err);
static inline uint64_t yk__bucket_bytes(const yk__bucket *b)
{
    return b->layout.n * yk_dtype_bytes(b->layout.dtype);
}
/* The same of the elements that this rank updates: of values, sums, or a moment. */
static inline uint64_t yk__bucket_own_bytes(const yk__bucket *b)
{
    return (b->end - b->begin) * yk_dtype_bytes(b->layout.dtype);
}

/* Byte of element `at` of a bucket in b->grad, which holds the bucket or this rank's slice. */
static inline uint64_t yk__grad_at(const yk__params *p, const yk__bucket *b, uint64_t at)
{
    return (at - (p->scatters ? b->begin : 0)) * sizeof(float);
}

/* ---- param_values.c: to and from the host ---- */

void yk__source_drop(yk__source *source);
/* Makes or reads the values that wait, in the buckets' homes; collective while any wait. */
yk_status yk__params_flush(yk__params *p, yk_error *err);
/* The reverse, before the layout goes. */
yk_status yk__params_unflush(yk__params *p, yk_error *err);
yk_status yk__params_write(yk__params *p, uint32_t number, const float *data, yk_error *err);
yk_status yk__params_give(yk__params *p, uint32_t number, yk__source source, yk_error *err); /* takes the source */
/* Elements [from, from + n) of a parameter, or those up to its end. */
yk_status yk__params_read(yk__params *p, uint32_t number, uint64_t from, uint64_t n, float *data, yk_error *err);
/* range: of the bucket, within the parameter; this rank's device's values. */
yk_status yk__params_read_device(yk__params *p, const yk__param *q, yk__range range, float *data, yk_error *err);
yk_status yk__params_write_state(yk__params *p, uint32_t number, const void *data, yk_error *err);
yk_status yk__params_read_state(yk__params *p, uint32_t number, void *data, yk_error *err);

/* ---- masters.c: parameters that travel in bf16 ---- */

/* This rank's slices, in the block for exchanges and on the device, become numbers of bf16; the rest is kept. The device is idle. */
yk_status yk__params_round(yk__params *p, yk_error *err);
/* The reverse; does nothing with parameters that are not rounded. */
yk_status yk__params_restore(yk__params *p, yk_error *err);
void yk__params_drop_rest(yk__params *p); /* frees the rests; the values stay */
void yk__params_forget_rest(const yk__params *p, const yk__param *q); /* the host writes this parameter */
/* Gathers all parameters, as their owners have them, on all members. All ranks call it. */
yk_status yk__params_gather_whole(yk__params *p, yk_error *err);

/* ---- average.c: LocalSGD, in which each rank updates whole parameters of its own ---- */

/* The trained parameters, or their moments, become the mean. weight: of this rank; the weights add up to 1. All members call it, between
 * windows; gradients are lost. */
yk_status yk__params_average(yk__params *p, double weight, yk_error *err);
yk_status yk__moments_average(yk__params *p, double weight, yk_error *err);

/* ---- ways/choose.c ---- */

/* Chooses the way anew. All ranks call it when the island or the roles may have changed, with no exchange under way. */
void yk__params_choose_way(yk__params *p);

/* ---- window_reduce.c: the exchanges at the end of a window ---- */

/* Sums the gradients over the members; each owner gets its slices. Once per window. */
yk_status yk__params_reduce(yk__params *p, yk_error *err);
/* Copies this rank's slices of the values to the block for exchanges, unless the device writes them there. Done when it returns. */
yk_status yk__params_publish(yk__params *p, yk_error *err);
/* The same if the state is YK__VALUES_UNPUBLISHED; else does nothing. */
yk_status yk__params_publish_late(yk__params *p, yk_error *err);
/* Copies elements of a bucket from the block for exchanges to a home elsewhere. */
yk_status yk__params_put_shared(yk__params *p, const yk__bucket *b, yk__range range, yk_error *err);
/* Device and host may read the bucket. The transfers to a device's own copy go on behind. */
yk_status yk__params_await(yk__params *p, uint32_t bucket, yk_error *err);
yk_status yk__params_settle(yk__params *p, yk_error *err); /* all buckets */
/* Sends all trained parameters of the root, a member, to a rank that was excluded, if `take` is set. All ranks call it, and none may be in
 * an update meanwhile. */
yk_status yk__params_refresh(yk__params *p, uint32_t root, bool take, yk_error *err);

#endif
