/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of groups op and queue, and helpers of memory tests. */
#ifndef YOKE_TOOLS_CTS_CTS_OPS_H
#define YOKE_TOOLS_CTS_CTS_OPS_H

#include "tools/cts/cts.h"

void cts_ops_elementwise(cts *c);
void cts_ops_source(cts *c);   /* fill, iota, rng */
void cts_ops_reduce(cts *c);   /* sum, rmax, argmax */
void cts_ops_data(cts *c);     /* copy, gather, scatter_add, unfold, fold */
void cts_ops_dot(cts *c);
void cts_queue_busy(cts *c);  /* tests with long work: aborts, spans */
void cts_queue_order(cts *c); /* between queues; copies, abort, spans */

/* Every call on a failed queue returns the reason, with a message, and changes nothing. b has 64 bytes at least. */
void cts_queue_refuses(cts *c, yk_queue *q, yk_status why, yk_buffer *b, const yk_submit *run);

/* Fills with bytes that differ everywhere; compares two places, and reports a difference. */
void cts_pattern_fill(uint8_t *p, size_t n, uint32_t seed);
bool cts_bytes_same(cts *c, const uint8_t *a, const uint8_t *b, size_t n, const char *what);

#endif
