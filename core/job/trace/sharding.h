/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The placement of values over several ranks (sharding.c defines it), and of results by their operands (sharding_rules.c). In a group of
 * one every value is REPLICATED and no table is kept.
 */
#ifndef YOKE_CORE_JOB_TRACE_SHARDING_H
#define YOKE_CORE_JOB_TRACE_SHARDING_H

#include "core/job/job.h"

yk__sharding yk__sharding_of(const yk_job *job, yk__vid v);
yk_t yk__result(yk_job *job, yk__vid v, yk__sharding s); /* handle of a result; a folded view becomes a separate value */
yk_t yk__result_moved(yk_job *job, yk__vid v, yk__sharding s); /* the operand with other rows: s has its sign */
yk_t yk__result_expanded(yk_job *job, yk__vid v, yk__sharding s); /* a result whose first length may equal the rows by chance */
yk__vid yk__result_like(yk_job *job, yk__vid from, yk__vid v); /* places v like `from` (a cast) */
yk__vid yk__as_float(yk_job *job, yk__vid v); /* casts to f32 unless it is float */
/* The sum over the ranks of a PARTIAL value, in training; else v. */
yk__vid yk__sum_of_ranks(yk_job *job, yk__vid v);
yk__vid yk__operand(yk_job *job, const char *name, yk_t x); /* yk__sum_of_ranks of yk__step_value */
yk__vid yk__rank_term(yk_job *job, yk__vid v); /* a REPLICATED value times this rank's share of the rows */
/* LOCAL, with the user's place as the reason's. v has the shape for the error. */
yk__sharding yk__shard_local(yk_job *job, yk__vid v, const char *why);
/* Placement of results: of an elementwise op (YK_NONE operands are skipped); of an op that mixes only the last axes of each row. */
yk__sharding yk__shard_map(yk_job *job, uint32_t n, const yk__vid *in);
yk__sharding yk__shard_same(yk_job *job, uint32_t n, const yk__vid *in); /* elementwise, and a length of 1 does not broadcast */
yk__sharding yk__shard_rowwise(yk_job *job, yk__vid x, uint32_t mixed, uint32_t n_rest, const yk__vid *rest);
yk__sharding yk__shard_sum(yk_job *job, yk__vid v, uint32_t axes, bool keep);
yk__sharding yk__shard_drop(yk_job *job, yk__vid v, uint32_t axes, bool keep); /* removes axes without rows */
yk__sharding yk__shard_reshape(yk_job *job, yk__vid v, uint32_t dims, const int64_t *dim);
yk__sharding yk__shard_matmul(yk_job *job, yk__vid a, yk__vid b);
yk__sharding yk__shard_max(yk_job *job, yk__vid v, uint32_t axes, bool keep);
yk__sharding yk__shard_expand(yk_job *job, yk__vid v, uint32_t dims, const int64_t *dim);
yk__sharding yk__shard_concat(yk_job *job, uint32_t n, const yk__vid *in, uint32_t axis);
yk__sharding yk__shard_gather(yk_job *job, yk__vid table, yk__vid index);
yk__sharding yk__shard_labels(yk_job *job, yk__vid logits, yk__vid labels, yk__vid weight); /* result: a cross entropy's items */
yk__sharding yk__shard_total(yk__sharding items, bool mean);                /* result: the sum or mean of a loss's items */
bool yk__over_rows(const yk_job *job, yk__vid v, uint32_t axes); /* SHARDED, with its rows in these axes */
yk__vid yk__row_mean_of(yk_job *job, yk__vid v, uint32_t axes);  /* the reciprocal of the count, a scalar */
yk__vid yk__share_leaf(yk_job *job);
void yk__sharding_alike(yk_job *job, yk__vid v); /* turns a guess: equal on all ranks, which compare it if it is an input */
void yk__sharding_input(yk_job *job, uint32_t number);
void yk__sharding_sign(yk_job *job, yk__vid leaf); /* a leaf of the current call */
/* The sharding's numbers in the counts' exchange, YK__SHARD_NUMBERS of them; check: after their sum. */
#define YK__SHARD_INPUTS 8
#define YK__SHARD_INPUT 3 /* numbers of an input */
#define YK__SHARD_NUMBERS (1 + YK__SHARD_INPUT * YK__SHARD_INPUTS + 2 * YK__EXPANDED)
void yk__sharding_numbers(const yk_job *job, double *number);
bool yk__sharding_check(yk_job *job, const double *number, const double *sum);
void yk__sharding_counts(yk_job *job, double ranks); /* sets shares and means, once all ranks' rows are known */
bool yk__sharding_loss(yk_job *job, yk__vid loss); /* false if the loss cannot be split; the job has the error */

#endif
