/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fake driver's own types, and what all of it stands on. Its floors, each of which knows those below it: libcuda.c (devices, contexts,
 * modules), libcuda_stream.c (streams, events, graphs), libcuda_memory.c, libcuda_state.c.
 */
#ifndef YOKE_TESTS_FAKES_LIBCUDA_STATE_H
#define YOKE_TESTS_FAKES_LIBCUDA_STATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

#include "backends/cuda/driver.h"
#include "tests/fakes/fake_cuda.h"

#define FAKE_DEVICES 8

/* The functions of the driver that it plays. */
#define X(member, symbol, parameters) FAKE_EXPORT CUresult symbol parameters;
CUDA_DRIVER_TABLE(X)
#undef X

struct CUctx_st { /* a device and its primary context */
    uint64_t memory, used;
    uint64_t retained;
    int lost; /* the code that every call returns from then on */
};

struct CUmod_st {
    void *object;
    const fake_kernel *kernel;
    struct CUfunc_st *function; /* one for each kernel */
    CUcontext context;
};

struct CUfunc_st {
    const fake_kernel *kernel;
    CUcontext context;
};

typedef struct fake_op { /* a stream's operation */
    struct fake_op *next;
    enum { FAKE_LAUNCH, FAKE_COPY, FAKE_RECORD, FAKE_WAIT, FAKE_GRAPH, FAKE_CALL } kind;
    const fake_kernel *kernel; /* a launch: the arguments lie behind the op */
    unsigned grid[3], threads;
    void **parameter;
    char *to, *from; /* a copy */
    void *snapshot;  /* host memory that was taken at once; freed with the op */
    size_t bytes;
    CUevent event;
    uint64_t record;     /* which recording of the event */
    struct CUgraphExec_st *exec;
    bool *finished; /* somebody waits for the end of this one */
    void (*function)(void *argument); /* a call */
    void *argument;
} fake_op;

struct CUgraph_st {
    fake_op *first, **end;
};

struct CUgraphExec_st {
    fake_op *first;
};

struct CUstream_st {
    CUcontext context;
    pthread_t thread;
    fake_op *first, **end;
    uint64_t given, done;
    bool stop;
    CUgraph capture; /* the current recording, or NULL */
};

struct CUevent_st {
    CUcontext context;
    uint64_t asked, done; /* recordings */
    uint64_t uses;        /* its own, and one for each op that names it */
    int64_t when_ns;      /* time of the last finished recording */
};

/* All of the driver's state, under one lock. */
typedef struct fake_state {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool begun;
    int n, sm, version;
    int n_shown, shown[FAKE_DEVICES]; /* CUDA_VISIBLE_DEVICES: by the number that a process knows */
    struct CUctx_st device[FAKE_DEVICES];
    struct CUstream_st *null_stream[FAKE_DEVICES]; /* the stream NULL */
    uint64_t calls, fail_at, launches, lose_at, kernels, hang_at, graphs, abandoned;
    uint64_t pageable; /* copies of host memory that is not registered, but for short ones: they hold up the host */
    int fail_code;
    const char *fail_name; /* each call of this function fails; NULL: of none */
    const char *failed; /* the call that was made to fail */
    bool released;
    FILE *names; /* FAKE_CUDA_CALLS; NULL: none */
} fake_state;

extern fake_state fake;

/* Counts a call of this function; true if it is the one that fails, with the code. */
#define fake_call_fails(rc) fake_call_counted(__func__, rc)
bool fake_call_counted(const char *name, CUresult *rc);
/* The current context of this thread, if it can be used: counts the call too. */
#define fake_call_begin(context) fake_context_begin(__func__, context)
CUresult fake_context_begin(const char *name, CUcontext *context);
CUcontext fake_context_now(void);

uint64_t fake_env(const char *name, uint64_t otherwise);

/* Kinds of objects that were made and not freed, except memory. */
typedef enum fake_kind { FAKE_MODULE, FAKE_STREAM, FAKE_EVENT, FAKE_CAPTURED, FAKE_EXEC } fake_kind;
void fake_object_add(fake_kind kind, void *object, CUcontext context); /* takes the lock, as do the next two */
void fake_object_remove(void *object);
/* Takes any one such object of the context off the list, and counts it as abandoned; NULL: there is none. */
void *fake_object_take(CUcontext context, fake_kind kind);
uint64_t fake_object_count(void); /* under the lock */
void fake_context_settle(CUcontext context); /* until its streams have done what they were given; under the lock */

#endif
