/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An NCCL without cards, for tests: libfake_nccl.so stands for libnccl.so.2 beside the fake driver, whose memory and streams it uses.
 * Members are threads or processes: they meet in a shared memory object that is named by the unique id. Sums are taken from the last
 * member to the first, so that a test sees whose order a sum has. It refuses the same as NCCL: one device twice, calls on a
 * communicator that is not ready, memory of the host. As NCCL from 2.22 on connects members in the first collective of an algorithm, that
 * of a kind is under way, and in no stream, until all members have called it; not so with NCCL_RUNTIME_CONNECT=0.
 *
 * The environment: FAKE_NCCL_FAIL=n: the n-th call of this process fails. FAKE_NCCL_HANG=n: the n-th collective of this process does
 * not end before its communicator is aborted. FAKE_NCCL_DIE="n device file": in its n-th collective, 0: before it joins, a process with
 * this device makes the file and kills itself. FAKE_NCCL_WRONG=root: broadcasts are from the first member; =part: all members get its
 * part of a sum. FAKE_NCCL_NAME: how names of such objects begin, behind "fake-nccl-". FAKE_NCCL_VERSION=n: another version than 22809.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "backends/cuda/nccl.h"
#include "tests/fakes/beside.h"
#include "tests/fakes/fake_cuda.h"
#include "tests/support/f16.h"

#define MEMBERS 8
#define CHUNK 65536u /* bytes of each member at once */
#define NAP_NS 50000

#define X(member, symbol, parameters) FAKE_EXPORT ncclResult_t symbol parameters;
CUDA_NCCL_TABLE(X)
#undef X
FAKE_EXPORT const char *ncclGetErrorString(ncclResult_t code);
FAKE_EXPORT const char *ncclGetLastError(ncclComm_t comm);

typedef enum kind { SUM, SUM_PART, GATHER, SPREAD, KINDS } kind;

/* State that members share. */
typedef struct shared {
    atomic_uint joined, aborted, finished;
    atomic_uint called[KINDS]; /* how many have called the first of them */
    _Atomic int device[MEMBERS]; /* 1 + number */
    atomic_ullong steps[MEMBERS]; /* how often each has come to a meeting */
    char data[MEMBERS][CHUNK];
} shared;

struct ncclComm {
    shared *common;
    char name[128]; /* name of the object, until all members have it */
    int rank, ranks;
    unsigned long long step; /* counted by the stream's thread */
    atomic_bool aborted;
    atomic_int uses; /* its own, and one for each collective that is enqueued */
    bool finished, called[KINDS];
    struct collective *connecting; /* in no stream yet; NULL: none */
    CUstream stream;               /* whose it is */
};

typedef struct collective {
    ncclComm_t comm;
    kind kind;
    const char *src;
    char *dst;
    size_t count, size; /* elements of a member's part; bytes of each */
    ncclDataType_t type;
    int root;
    bool hangs, dies;
} collective;

static struct {
    pthread_once_t once;
    int (*device)(void);
    void *(*memory)(CUdeviceptr memory, size_t bytes);
    void (*call)(CUstream stream, void (*function)(void *), void *argument);
    atomic_ullong fail_at;
    unsigned long long hang_at, die_at;
    int dying; /* number of a device */
    char died[256];
    bool wrong_root, wrong_part;
    bool connects; /* when a kind is called first, not when members join */
} driver = {.once = PTHREAD_ONCE_INIT};
static atomic_ullong calls, collectives;

static void collective_main(void *argument); /* a stream's thread */

static void thread_nap(void)
{
    const struct timespec moment = {0, NAP_NS};
    nanosleep(&moment, NULL);
}

/* ---- Beginning ---- */

static void driver_find(void)
{
    fake_driver_symbol("fake_cuda_device", &driver.device);
    fake_driver_symbol("fake_cuda_memory", &driver.memory);
    fake_driver_symbol("fake_cuda_call", &driver.call);
    atomic_store(&driver.fail_at, fake_number("FAKE_NCCL_FAIL"));
    driver.hang_at = fake_number("FAKE_NCCL_HANG");
    const char *connect = getenv("NCCL_RUNTIME_CONNECT");
    driver.connects = !connect || strcmp(connect, "0");
    const char *wrong = getenv("FAKE_NCCL_WRONG");
    driver.wrong_root = wrong && !strcmp(wrong, "root");
    driver.wrong_part = wrong && !strcmp(wrong, "part");
    const char *die = getenv("FAKE_NCCL_DIE");
    if (die && sscanf(die, "%llu %d %255s", &driver.die_at, &driver.dying, driver.died) != 3)
        abort();
}

/* The start of every call. */
static ncclResult_t call_begin(void)
{
    pthread_once(&driver.once, driver_find);
    return atomic_fetch_add(&calls, 1) + 1 == atomic_load(&driver.fail_at) ? (ncclResult_t)ncclSystemError : (ncclResult_t)ncclSuccess;
}

void fake_nccl_fail(uint64_t n)
{
    pthread_once(&driver.once, driver_find);
    atomic_store(&driver.fail_at, n ? atomic_load(&calls) + n : 0);
}

uint64_t fake_nccl_calls(void)
{
    return atomic_load(&calls);
}

const char *ncclGetErrorString(ncclResult_t code)
{
    return (int)code == ncclSystemError ? "unhandled system error (says the fake NCCL)" : "an error of the fake NCCL";
}

const char *ncclGetLastError(ncclComm_t comm)
{
    return comm ? "the fake NCCL knows no more" : "";
}

ncclResult_t ncclGetVersion(int *version)
{
    const uint64_t other = fake_number("FAKE_NCCL_VERSION");
    *version = other ? (int)other : 22809;
    return call_begin();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    uint64_t number = 0;
    const ncclResult_t rc = call_begin();
    if (rc || getrandom(&number, sizeof number, 0) != sizeof number)
        return rc ? rc : (ncclResult_t)ncclSystemError;
    memset(id, 0, sizeof *id);
    snprintf(id->internal, sizeof id->internal, "/fake-nccl-%.32s%016llx", getenv("FAKE_NCCL_NAME") ? getenv("FAKE_NCCL_NAME") : "",
             (unsigned long long)number);
    return rc;
}

/* ---- Communicators ---- */

static void comm_drop(ncclComm_t comm)
{
    if (atomic_fetch_sub(&comm->uses, 1) != 1)
        return;
    munmap(comm->common, sizeof *comm->common);
    free(comm);
}

static shared *shared_map(const char *name)
{
    const int fd = shm_open(name, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    void *at = fd < 0 || ftruncate(fd, sizeof(shared)) ? MAP_FAILED
                                                     : mmap(NULL, sizeof(shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    return at == MAP_FAILED ? NULL : at;
}

static void process_die(void)
{
    close(open(driver.died, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    kill(getpid(), SIGKILL);
}

/* Without blocking, which is the one way that is played. */
ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int ranks, ncclUniqueId id, int rank, ncclConfig_t *config)
{
    const ncclResult_t rc = call_begin();
    if (rc)
        return rc;
    if (config->magic != CUDA_NCCL_MAGIC || config->size < 20 || config->blocking || ranks < 1 || ranks > MEMBERS || rank < 0 ||
        rank >= ranks || driver.device() < 0)
        return (ncclResult_t)ncclInvalidArgument;
    if (*driver.died && !driver.die_at && driver.device() == driver.dying)
        process_die();
    ncclComm_t comm = calloc(1, sizeof *comm);
    *comm = (struct ncclComm){.rank = rank, .ranks = ranks, .common = shared_map(id.internal)};
    if (!comm->common) {
        free(comm);
        return (ncclResult_t)ncclSystemError;
    }
    snprintf(comm->name, sizeof comm->name, "%s", id.internal);
    atomic_store(&comm->uses, 1);
    atomic_store(&comm->common->device[rank], driver.device() + 1);
    atomic_fetch_add(&comm->common->joined, 1);
    *out = comm;
    return (ncclResult_t)ncclInProgress;
}

/* True if two members are one device. */
static bool devices_repeat(const shared *r, int ranks)
{
    for (int i = 0; i < ranks; i++)
        for (int k = 0; k < i; k++)
            if (atomic_load(&r->device[i]) == atomic_load(&r->device[k]))
                return true;
    return false;
}

/* False: it waits for a member that has not called it. */
static bool connecting_end(ncclComm_t comm)
{
    collective *own = comm->connecting;
    if (own && driver.connects && atomic_load(&comm->common->called[own->kind]) < (unsigned)comm->ranks)
        return false;
    comm->connecting = NULL;
    if (own)
        driver.call(comm->stream, collective_main, own);
    return true;
}

static ncclResult_t comm_state(ncclComm_t comm)
{
    const shared *r = comm->common;
    if (atomic_load(&r->joined) < (unsigned)comm->ranks && !atomic_load(&r->aborted))
        return (ncclResult_t)ncclInProgress;
    shm_unlink(comm->name);
    if (devices_repeat(r, comm->ranks))
        return (ncclResult_t)ncclInvalidUsage;
    if (comm->finished && !atomic_load(&r->aborted) && atomic_load(&r->finished) < (unsigned)comm->ranks)
        return (ncclResult_t)ncclInProgress;
    if (atomic_load(&r->aborted))
        return (ncclResult_t)ncclRemoteError;
    return connecting_end(comm) ? (ncclResult_t)ncclSuccess : (ncclResult_t)ncclInProgress;
}

/* A call but looks and an abort on a communicator that is not ready is an error of the caller's. */
static ncclResult_t comm_ready(ncclComm_t comm)
{
    const ncclResult_t state = comm_state(comm);
    return (int)state == ncclInProgress ? (ncclResult_t)ncclInvalidArgument : state;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state)
{
    const ncclResult_t rc = call_begin();
    *state = rc ? rc : comm_state(comm);
    return rc;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    ncclResult_t rc = call_begin();
    if (!rc)
        rc = comm->finished ? (ncclResult_t)ncclInvalidArgument : comm_ready(comm);
    if (rc)
        return rc;
    comm->finished = true;
    atomic_fetch_add(&comm->common->finished, 1);
    return (ncclResult_t)ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    const ncclResult_t rc = call_begin();
    comm_drop(comm);
    return rc;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    const ncclResult_t rc = call_begin();
    atomic_store(&comm->aborted, true);
    atomic_store(&comm->common->aborted, 1);
    shm_unlink(comm->name);
    if (comm->connecting) {
        free(comm->connecting);
        comm_drop(comm);
    }
    comm_drop(comm);
    return rc;
}

/* ---- Collectives, in a stream's thread ---- */

/* Until all members are here; false: it was aborted. */
static bool members_meet(ncclComm_t comm)
{
    shared *r = comm->common;
    atomic_store(&r->steps[comm->rank], ++comm->step);
    for (int i = 0; i < comm->ranks; i++)
        while (atomic_load(&r->steps[i]) < comm->step) {
            if (atomic_load(&comm->aborted)) /* that another member aborts does not help: kernels hang */
                return false;
            thread_nap();
        }
    return true;
}

/* A whole number is exact in a double, as are sums of a few. */
static double element_read(ncclDataType_t type, const char *at)
{
    int32_t whole;
    uint32_t bits = 0;
    uint16_t half;
    float x;
    memcpy(&half, at, sizeof half);
    if ((int)type == ncclFloat16)
        return f16_value(half);
    if ((int)type == ncclInt32)
        return memcpy(&whole, at, sizeof whole), whole;
    if ((int)type == ncclBfloat16)
        bits = (uint32_t)half << 16;
    else
        memcpy(&bits, at, sizeof bits);
    memcpy(&x, &bits, sizeof x);
    return (double)x;
}

static void element_write(ncclDataType_t type, double value, char *at)
{
    const int32_t whole = (int)type == ncclInt32 ? (int32_t)value : 0;
    const float x = (float)value;
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint16_t half = (int)type == ncclFloat16 ? f16_bits(x) : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    if ((int)type == ncclInt32)
        memcpy(at, &whole, sizeof whole);
    else if ((int)type == ncclFloat32)
        memcpy(at, &x, sizeof x);
    else
        memcpy(at, &half, sizeof half);
}

/* Elements [at, at + n) of the members' data, to dst. Each sum of two is rounded to f32, the last to the type. */
static void elements_sum(const collective *c, size_t from, size_t n, char *dst)
{
    for (size_t i = 0; i < n; i++) {
        double sum = 0;
        for (int r = c->comm->ranks; r-- > 0;) {
            const double x = element_read(c->type, c->comm->common->data[r] + (from + i) * c->size);
            sum = r == c->comm->ranks - 1 ? x : (int)c->type == ncclInt32 ? sum + x : (double)((float)sum + (float)x);
        }
        element_write(c->type, sum, dst + i * c->size);
    }
}

/* This member's part of elements [at, at + n) of all the sums. */
static void chunk_sum(const collective *c, size_t at, size_t n)
{
    const size_t part = driver.wrong_part ? 0 : (size_t)c->comm->rank;
    const size_t begin = c->kind == SUM ? 0 : part * c->count, end = begin + c->count;
    const size_t from = at > begin ? at : begin, to = at + n < end ? at + n : end;
    if (from < to)
        elements_sum(c, from - at, to - from, c->dst + (from - begin) * c->size);
}

/* All have shown their chunk of n elements at `at`. */
static void chunk_take(const collective *c, size_t at, size_t n)
{
    if (c->kind == SUM || c->kind == SUM_PART)
        chunk_sum(c, at, n);
    for (int r = 0; r < c->comm->ranks && c->kind == GATHER; r++)
        memcpy(c->dst + ((size_t)r * c->count + at) * c->size, c->comm->common->data[r], n * c->size);
    if (c->kind == SPREAD)
        memcpy(c->dst + at * c->size, c->comm->common->data[driver.wrong_root ? 0 : c->root], n * c->size);
}

static void collective_do(const collective *c)
{
    const size_t all = c->count * (c->kind == SUM_PART ? (size_t)c->comm->ranks : 1), most = CHUNK / c->size;
    for (size_t at = 0; at < all; at += most) {
        const size_t n = all - at < most ? all - at : most;
        if (c->kind != SPREAD || c->root == c->comm->rank || driver.wrong_root)
            memcpy(c->comm->common->data[c->comm->rank], c->src + at * c->size, n * c->size);
        if (!members_meet(c->comm))
            return;
        chunk_take(c, at, n);
        if (!members_meet(c->comm))
            return;
    }
}

static void collective_main(void *argument)
{
    collective *c = argument;
    if (c->dies)
        process_die();
    while (c->hangs && !atomic_load(&c->comm->aborted))
        thread_nap();
    if (!c->hangs)
        collective_do(c);
    comm_drop(c->comm);
    free(c);
}

static size_t type_bytes(ncclDataType_t type)
{
    switch ((int)type) {
    case ncclUint8:
        return 1;
    case ncclFloat16:
    case ncclBfloat16:
        return 2;
    case ncclInt32:
    case ncclFloat32:
        return 4;
    default:
        return 0;
    }
}

/* As NCCL has it: a member's part lies where it is in the whole, or nowhere in it. */
static bool places_fit(const collective *c, size_t from, size_t to)
{
    const size_t part = (size_t)c->comm->rank * c->count * c->size;
    const char *src = c->src, *dst = c->dst, *in = c->kind == SUM_PART ? src + part : src, *out = c->kind == GATHER ? dst + part : dst;
    return in == out || src + from * c->count * c->size <= dst || dst + to * c->count * c->size <= src;
}

static ncclResult_t collective_give(collective c, const void *src, void *dst, ncclDataType_t type, CUstream stream)
{
    const size_t from = c.kind == SUM_PART ? (size_t)c.comm->ranks : 1, to = c.kind == GATHER ? (size_t)c.comm->ranks : 1;
    ncclResult_t rc = call_begin();
    if (!rc)
        rc = comm_ready(c.comm);
    if (rc)
        return rc;
    c.size = type_bytes(type);
    c.type = type;
    c.src = driver.memory((CUdeviceptr)(uintptr_t)src, from * c.count * c.size);
    c.dst = driver.memory((CUdeviceptr)(uintptr_t)dst, to * c.count * c.size);
    if (!c.size || ((c.kind == SUM || c.kind == SUM_PART) && (int)type == ncclUint8) || !c.src || !c.dst || c.root < 0 ||
        c.root >= c.comm->ranks || !places_fit(&c, from, to))
        return (ncclResult_t)ncclInvalidArgument;
    collective *own = malloc(sizeof *own);
    *own = c;
    const unsigned long long number = atomic_fetch_add(&collectives, 1) + 1;
    own->hangs = number == driver.hang_at;
    own->dies = number == driver.die_at && atomic_load(&c.comm->common->device[c.comm->rank]) == driver.dying + 1;
    atomic_fetch_add(&c.comm->uses, 1);
    c.comm->connecting = own;
    c.comm->stream = stream;
    if (driver.connects && !c.comm->called[c.kind])
        atomic_fetch_add(&c.comm->common->called[c.kind], 1);
    c.comm->called[c.kind] = true;
    return driver.connects ? (ncclResult_t)ncclInProgress : comm_state(c.comm);
}

ncclResult_t ncclAllReduce(const void *src, void *dst, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream)
{
    (void)op;
    return collective_give((collective){.comm = comm, .kind = SUM, .count = count}, src, dst, type, stream);
}

ncclResult_t ncclReduceScatter(const void *src, void *dst, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream)
{
    (void)op;
    return collective_give((collective){.comm = comm, .kind = SUM_PART, .count = count}, src, dst, type, stream);
}

ncclResult_t ncclAllGather(const void *src, void *dst, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream)
{
    return collective_give((collective){.comm = comm, .kind = GATHER, .count = count}, src, dst, type, stream);
}

ncclResult_t ncclBroadcast(const void *src, void *dst, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream)
{
    return collective_give((collective){.comm = comm, .kind = SPREAD, .count = count, .root = root}, src, dst, type, stream);
}
