/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How values lie over several ranks (sharding.c says what that means), and of results by their operands (sharding_rules.c). In
 * a group of one all is REPLICATED and nothing is kept.
 */
#ifndef YOKE_CORE_JOB_SHARDING_H
#define YOKE_CORE_JOB_SHARDING_H

#include "core/job/job.h"

yk__sharding yk__sharding_of(const yk_job *job, yk__vid v);
yk_t yk__result(yk_job *job, yk__vid v, yk__sharding s); /* the handle of a result; a folded view becomes a value of its own */
yk_t yk__result_moved(yk_job *job, yk__vid v, yk__sharding s); /* what the operand is, in other rows: s has its sign */
yk_t yk__result_expanded(yk_job *job, yk__vid v, yk__sharding s); /* whose first length may be rows by chance */
yk__vid yk__result_like(yk_job *job, yk__vid from, yk__vid v); /* v lies as `from` does (a cast) */
yk__vid yk__as_float(yk_job *job, yk__vid v); /* cast to f32 where it is not float */
/* PARTIAL: its sum over the ranks, while training; else v. */
yk__vid yk__sum_of_ranks(yk_job *job, yk__vid v);
yk__vid yk__operand(yk_job *job, const char *name, yk_t x); /* yk__sum_of_ranks of yk__step_value */
yk__vid yk__rank_term(yk_job *job, yk__vid v); /* REPLICATED: times the rank's share of the rows */
/* LOCAL, with the user's place as the reason's. v names the shape. */
yk__sharding yk__shard_local(yk_job *job, yk__vid v, const char *why);
/* Of results: of an elementwise op (YK_NONE operands are skipped); of one whose last axes each row computes by itself. */
yk__sharding yk__shard_map(yk_job *job, uint32_t n, const yk__vid *in);
yk__sharding yk__shard_rowwise(yk_job *job, yk__vid x, uint32_t mixed, uint32_t n_rest, const yk__vid *rest);
yk__sharding yk__shard_sum(yk_job *job, yk__vid v, uint32_t axes, bool keep);
yk__sharding yk__shard_drop(yk_job *job, yk__vid v, uint32_t axes, bool keep); /* axes that the rows do not lie along */
yk__sharding yk__shard_reshape(yk_job *job, yk__vid v, uint32_t dims, const int64_t *dim);
yk__sharding yk__shard_matmul(yk_job *job, yk__vid a, yk__vid b);
yk__sharding yk__shard_max(yk_job *job, yk__vid v, uint32_t axes, bool keep);
yk__sharding yk__shard_expand(yk_job *job, yk__vid v, uint32_t dims, const int64_t *dim);
yk__sharding yk__shard_concat(yk_job *job, uint32_t n, const yk__vid *in, uint32_t axis);
yk__sharding yk__shard_gather(yk_job *job, yk__vid table, yk__vid index);
yk__sharding yk__shard_labels(yk_job *job, yk__vid logits, yk__vid labels); /* of the items of a cross entropy */
yk__sharding yk__shard_total(yk__sharding items, bool mean);                /* of the sum or the mean of a loss's items */
bool yk__over_rows(const yk_job *job, yk__vid v, uint32_t axes); /* SHARDED, and the axes hold its rows */
yk__vid yk__row_mean_of(yk_job *job, yk__vid v, uint32_t axes);  /* the reciprocal, a scalar */
yk__vid yk__share_leaf(yk_job *job);
void yk__sharding_input(yk_job *job, uint32_t number);
void yk__sharding_sign(yk_job *job, yk__vid leaf); /* a leaf that the call under way made */
/* What the counts' exchange carries of it: room for YK__SHARD_NUMBERS numbers; check: after they were added up. */
#define YK__SHARD_INPUTS 8
#define YK__SHARD_NUMBERS (1 + 2 * (YK__SHARD_INPUTS + YK__EXPANDED))
void yk__sharding_numbers(const yk_job *job, double *number);
bool yk__sharding_check(yk_job *job, const double *number, const double *sum);
void yk__sharding_counts(yk_job *job, double ranks); /* shares and means, now that the rows of all ranks are known */
bool yk__sharding_loss(yk_job *job, yk__vid loss); /* false: it cannot be split; the job has the error */

#endif
