/* SPDX-License-Identifier: Apache-2.0 */
/* Small collectives of a rank of the test of collectives, and its state. A check is 0 where all is as it should be. */
#ifndef YOKE_TESTS_DIST_COLL_SMALL_H
#define YOKE_TESTS_DIST_COLL_SMALL_H

#include "core/coll/coll.h"

#define MAX_RANKS 16

extern yk__control *control;
extern yk__coll *coll;
extern uint32_t rank, ranks;
extern uint64_t hash; /* of all results, on rank 0 */

float input_of(uint32_t r, uint32_t call, uint32_t i); /* every rank can compute every rank's input */
void inputs_fill(float *to, uint32_t call, uint32_t n); /* this rank's, 16384 at most */
int report_wrong(const yk_error *err, const char *what, uint32_t call); /* ends the job; 1 */
void mix_hash(const void *data, size_t bytes);
const float *sums_expect(const yk__comm *comm, uint32_t call, uint32_t n); /* 16384 at most; the next call overwrites them */
int check_sums(yk__comm *comm, uint32_t call, uint32_t n, bool feeds, yk_error *err);
int check_gather(yk__comm *comm, uint32_t call, uint32_t bytes, bool feeds, yk_error *err);
int check_broadcast(yk__comm *comm, uint32_t call, uint64_t bytes, yk_error *err);
int case_small(yk_error *err);
int case_few(yk_error *err); /* over all ranks, and over odd ranks while the even ones do not call */

#endif
