/* SPDX-License-Identifier: Apache-2.0 */
/* The fake driver's streams, and the end of what is made with them, for those who make and end contexts. */
#ifndef YOKE_TESTS_FAKES_LIBCUDA_STREAM_H
#define YOKE_TESTS_FAKES_LIBCUDA_STREAM_H

#include "tests/fakes/libcuda_state.h"

CUstream fake_stream_start(CUcontext context); /* NULL: no thread */
void fake_stream_stop(CUstream s); /* waits for what it was given */
/* Frees a stream, event, captured or instantiated graph that nobody else has; takes the lock. */
void fake_stream_object_free(fake_kind kind, void *object);

#endif
