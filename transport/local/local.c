/* SPDX-License-Identifier: Apache-2.0 */
/* A rank's side: joining, counters, waits, shared blocks. */
#include "config.h"

#include "transport/local/layout.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/base/cgroup.h"
#include "core/base/mem.h"

#define SPIN_NS 40000             /* then look between others' turns: the cores may be shared */
#define YIELD_NS 3000000          /* then sleep: a core that rests takes long to come back, longest in a virtual machine */
#define SLICE_NS (20 * 1000000ll) /* a sleeping wait looks at the abort word so often */

yk_status yk__local_fail(yk_tr_error *why, yk_status status, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why->text, sizeof why->text, fmt, ap);
    va_end(ap);
    return status;
}

int64_t yk__local_now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* ---- Counters ---------------------------------------------------------------------------------------------------- */

/* A sleeper counts itself before it looks at the flag; the flag is stored before the count is read. Both are
 * sequentially consistent, so either the sleeper sees the new value or the setter sees the sleeper. */
void yk__local_flag_set(yk_tr *t, uint32_t flag, uint32_t value)
{
    yk__local_slot *s = &t->head->slot[t->rank];
    atomic_fetch_add_explicit(&s->calls, 1, memory_order_relaxed);
    atomic_store(&s->flag[flag], value);
    if (atomic_load(&s->sleepers))
        syscall(SYS_futex, &s->flag[flag], FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void yk__local_sleep(yk_tr *t, uint32_t peer, uint32_t flag, uint32_t seen, int64_t ns)
{
    yk__local_slot *s = &t->head->slot[peer];
    struct timespec ts = {ns / 1000000000, ns % 1000000000};
    atomic_fetch_add(&s->sleepers, 1);
    if (atomic_load(&s->flag[flag]) == seen)
        syscall(SYS_futex, &s->flag[flag], FUTEX_WAIT, seen, &ts, NULL, 0);
    atomic_fetch_sub(&s->sleepers, 1);
}

static bool flag_reached(yk_tr *t, uint32_t peer, uint32_t flag, uint32_t value, uint32_t *seen)
{
    *seen = atomic_load_explicit(&t->head->slot[peer].flag[flag], memory_order_acquire);
    return (int32_t)(*seen - value) >= 0;
}

static yk_status look_lost(yk_tr *t, uint32_t peer, uint32_t flag, uint32_t value, const char *what, yk_tr_error *why)
{
    uint32_t seen;
    yk_status s = yk__local_end_error(t, why);
    if (s)
        return s;
    if (atomic_load(&t->head->slot[peer].state) != YK_LOCAL_LEFT || flag_reached(t, peer, flag, value, &seen))
        return YK_OK;
    s = yk__local_fail(why, YK_E_DEVICE_LOST, "%s left the group while %s waited for it in %s", t->name[peer],
                        t->name[t->rank], what);
    yk__local_end_for(t, peer, false, s, why->text);
    return s;
}

static yk_status wait_flag(yk_tr *t, uint32_t peer, uint32_t flag, uint32_t value, const char *what,
                           yk__local_idle *idle, yk_tr_error *why)
{
    int64_t begin = 0, waited;
    uint32_t seen;
    for (uint32_t turn = 1; !flag_reached(t, peer, flag, value, &seen); turn++) {
        yk_status s;
        cpu_relax();
        if (turn % 64)
            continue;
        s = look_lost(t, peer, flag, value, what, why);
        if (s)
            return s;
        begin = begin ? begin : yk__local_now();
        waited = yk__local_now() - begin;
        if (waited <= SPIN_NS)
            continue;
        turn |= 63; /* after others' turns each look may be the last: test and go at once again */
        if (waited <= YIELD_NS) {
            sched_yield();
            continue;
        }
        if (t->watch && !flag_reached(t, peer, flag, value, &seen) && (s = t->watch(t->watch_arg, peer, why)) != YK_OK)
            return s;
        s = yk__local_look_idle(t, idle, peer, what, why);
        if (s)
            return s;
        yk__local_sleep(t, peer, flag, seen, SLICE_NS);
    }
    return YK_OK;
}

yk_status yk__local_flag_wait(yk_tr *t, uint32_t peer, uint32_t flag, uint32_t value, const char *what,
                              yk_tr_error *why)
{
    yk__local_idle idle = {0};
    const yk_status s = wait_flag(t, peer, flag, value, what, &idle, why);
    yk__local_waited(t, &idle);
    return s;
}

static yk_status flag_set(yk_tr *t, uint32_t flag, uint32_t value)
{
    if (flag >= YK_TR_FLAGS)
        return YK_E_ARG;
    yk__local_flag_set(t, flag, value);
    return YK_OK;
}

static yk_status flag_wait(yk_tr *t, uint32_t peer, uint32_t flag, uint32_t value, const char *what, yk_tr_error *why)
{
    if (flag >= YK_TR_FLAGS || peer >= t->ranks)
        return yk__local_fail(why, YK_E_ARG, "waiting for flag %u of rank %u: there are %u flags and %u ranks", flag,
                               peer, YK_TR_FLAGS, t->ranks);
    return yk__local_flag_wait(t, peer, flag, value, what, why);
}

/* ---- Shared blocks ----------------------------------------------------------------------------------------------- */

static uint64_t page_up(uint64_t bytes)
{
    return (bytes + YK_LOCAL_PAGE - 1) / YK_LOCAL_PAGE * YK_LOCAL_PAGE;
}

static yk_status fail_memory(yk_tr *t, const char *what, uint64_t bytes, int e, yk_tr_error *why)
{
    const yk_status s = yk__local_fail(why, YK_E_MEM, "%llu bytes of shared memory for %s: %s", (unsigned long long)bytes, what,
                                        strerror(e));
    yk__local_end_for(t, t->rank, false, s, why->text);
    return s;
}

/* Without this a lack of memory would show as a SIGBUS in the middle of a step. Rank 0 does it when all have come: by then they
 * have given back what lay there before. */
static yk_status reserve_block(yk_tr *t, const char *what, uint64_t at, uint64_t bytes, yk_tr_error *why)
{
    const uint64_t left = yk__memory_left();
    int failed;
    if (bytes > left) { /* the kernel would take what there is, and then kill somebody */
        const yk_status s = yk__local_fail(why, YK_E_MEM, "%llu bytes of shared memory for %s: %llu are left",
                                            (unsigned long long)bytes, what, (unsigned long long)left);
        yk__local_end_for(t, t->rank, false, s, why->text);
        return s;
    }
    do
        failed = fallocate(t->memfd, 0, (off_t)at, (off_t)bytes);
    while (failed && errno == EINTR);
    return failed && errno != EOPNOTSUPP ? fail_memory(t, what, bytes, errno, why) : YK_OK;
}

/* Rank 0 makes the object longer, then all tell what they asked for and compare. */
static yk_status block_agree(yk_tr *t, const char *what, uint64_t bytes, uint64_t end, yk_tr_error *why)
{
    uint32_t number = t->made + 1;
    if (t->rank == 0 && ftruncate(t->memfd, (off_t)end))
        return fail_memory(t, what, bytes, errno, why);
    atomic_store(&t->head->slot[t->rank].block_bytes, bytes);
    yk__local_flag_set(t, YK_LOCAL_FLAG_BLOCK, number);
    for (uint32_t r = 0; r < t->ranks; r++) {
        uint64_t theirs;
        yk_status s = yk__local_flag_wait(t, r, YK_LOCAL_FLAG_BLOCK, number, what, why);
        if (s)
            return s;
        theirs = atomic_load(&t->head->slot[r].block_bytes);
        if (theirs != bytes)
            return yk__local_fail(why, YK_E_INTERNAL, "shared memory for %s: %s asks for %llu bytes, %s for %llu",
                                   what, t->name[t->rank], (unsigned long long)bytes, t->name[r],
                                   (unsigned long long)theirs);
    }
    return YK_OK;
}

static yk_status map_block(yk_tr *t, const char *what, uint64_t at, uint64_t bytes, void **mem, yk_tr_error *why)
{
    struct stat st;
    void *p = NULL;
    if (fstat(t->memfd, &st) || (uint64_t)st.st_size < at + bytes)
        return yk__local_fail(why, YK_E_INTERNAL, "shared memory for %s: the object is too short", what);
    p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, t->memfd, (off_t)at);
    if (p == MAP_FAILED)
        return yk__local_fail(why, YK_E_MEM, "mapping %llu bytes of shared memory for %s: %s",
                               (unsigned long long)bytes, what, strerror(errno));
    if (bytes >= 2u << 20)
        madvise(p, bytes, MADV_HUGEPAGE); /* a wish */
    t->block[t->blocks++] = (yk__local_block){p, bytes, at};
    *mem = p;
    return YK_OK;
}

static yk_status block_shared(yk_tr *t, const char *what, uint64_t bytes, void **mem, yk_tr_error *why)
{
    uint64_t whole = page_up(bytes ? bytes : 1);
    void *p = NULL;
    uint64_t at;
    yk_status s;
    if (bytes > INT64_MAX / 2 || whole > INT64_MAX / 2 - t->end)
        return yk__local_fail(why, YK_E_ARG, "shared memory for %s: %llu bytes are too many", what,
                               (unsigned long long)bytes);
    if (yk__grow(&t->block, &t->block_cap, t->blocks + 1, sizeof *t->block))
        return yk__local_fail(why, YK_E_MEM, "out of memory (the list of shared blocks)");
    at = yk__local_block_place(t, whole);
    s = block_agree(t, what, bytes, t->end, why);
    if (!s && t->rank == 0)
        s = reserve_block(t, what, at, whole, why);
    s = s ? s : map_block(t, what, at, whole, &p, why);
    if (s)
        return s;
    t->made++;
    /* block_bytes may change only after all have read it */
    yk__local_flag_set(t, YK_LOCAL_FLAG_MAPPED, t->made);
    for (uint32_t r = 0; r < t->ranks && !s; r++)
        s = yk__local_flag_wait(t, r, YK_LOCAL_FLAG_MAPPED, t->made, what, why);
    if (!s)
        *mem = p;
    return s;
}

/* ---- Joining and leaving ----------------------------------------------------------------------------------------- */

static yk_status receive_hello(yk_tr *t, yk__local_hello *hello, yk_tr_error *why)
{
    struct iovec iov = {hello, sizeof *hello};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t n = recvmsg(t->job_fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    struct cmsghdr *c = n < 0 ? NULL : CMSG_FIRSTHDR(&m);
    if (n < 0)
        return yk__local_fail(why, YK_E_ARG, "descriptor %d is not the launcher's, or the job was joined before: %s",
                               t->job_fd, strerror(errno));
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(&t->memfd, CMSG_DATA(c), sizeof(int));
    if (n != (ssize_t)sizeof *hello || (m.msg_flags & MSG_CTRUNC) || t->memfd < 0 || hello->magic != YK_LOCAL_MAGIC)
        return yk__local_fail(why, YK_E_FORMAT, "what came over descriptor %d is not a job", t->job_fd);
    if (hello->version != YK_LOCAL_VERSION)
        return yk__local_fail(why, YK_E_FORMAT, "the launcher speaks version %u, this program %u: use one version",
                               hello->version, YK_LOCAL_VERSION);
    if (!hello->ranks || hello->ranks > YK_TR_RANKS || hello->rank >= hello->ranks ||
        hello->bytes != yk__local_bytes(hello->ranks))
        return yk__local_fail(why, YK_E_FORMAT, "the launcher's description of the job does not fit: rank %u of %u",
                               hello->rank, hello->ranks);
    return YK_OK;
}

static yk_status map_head(yk_tr *t, const yk__local_hello *hello, yk_tr_error *why)
{
    const int seals = fcntl(t->memfd, F_GET_SEALS); /* -1: a file of another kind, which can have none */
    struct stat st;
    void *p = NULL;
    if (fstat(t->memfd, &st) || (uint64_t)st.st_size < hello->bytes)
        return yk__local_fail(why, YK_E_FORMAT, "the job's shared memory is shorter than %llu bytes",
                               (unsigned long long)hello->bytes);
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
        return yk__local_fail(why, YK_E_FORMAT, "the job's shared memory is not sealed");
    p = mmap(NULL, hello->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, t->memfd, 0);
    if (p == MAP_FAILED)
        return yk__local_fail(why, YK_E_MEM, "mapping the job's shared memory: %s", strerror(errno));
    t->head = p;
    t->head_bytes = t->end = hello->bytes;
    t->rank = hello->rank;
    t->ranks = hello->ranks;
    t->ring_bytes = yk__local_ring_bytes(t->ranks);
    if (t->head->magic != hello->magic || t->head->version != hello->version || t->head->ranks != hello->ranks ||
        t->head->bytes != hello->bytes || !yk__local_same_secret(t->head->secret, hello->secret))
        return yk__local_fail(why, YK_E_FORMAT,
                               "the job's shared memory is not the launcher's: its secret or size "
                               "differs");
    if (atomic_load(&t->head->slot[t->rank].state) != YK_LOCAL_ABSENT)
        return yk__local_fail(why, YK_E_FORMAT, "rank %u has joined already", t->rank);
    return YK_OK;
}

static yk_status fail_join(yk_tr *t, uint32_t peer, yk_status status, yk_tr_error *why, const char *what)
{
    char name[YK_LOCAL_NAME];
    yk__local_name_copy(name, t->head->slot[peer].name);
    yk__local_fail(why, status, "%s %s", name, what);
    yk__local_end_for(t, peer, false, status, why->text);
    return status;
}

static yk_status wait_joined(yk_tr *t, uint32_t peer, int64_t begin, uint32_t join_ms, yk_tr_error *why)
{
    struct timespec ms = {0, 1000000};
    char what[64];
    uint32_t state;
    while ((state = atomic_load(&t->head->slot[peer].state)) == YK_LOCAL_ABSENT || state == YK_LOCAL_GONE) {
        yk_status s = yk__local_end_error(t, why);
        if (s)
            return s;
        if (state == YK_LOCAL_GONE)
            return fail_join(t, peer, YK_E_DEVICE_LOST, why, "ended (exit code 0) before it joined the others");
        if (join_ms && yk__local_now() - begin > join_ms * 1000000ll) {
            snprintf(what, sizeof what, "has not joined within %u s", join_ms / 1000);
            return fail_join(t, peer, YK_E_TIMEOUT, why, what);
        }
        nanosleep(&ms, NULL);
    }
    yk__local_name_copy(t->name[peer], t->head->slot[peer].name);
    return YK_OK;
}

static yk_status job_join(yk_tr *t, const yk_tr_config *c, yk_tr_error *why)
{
    const int64_t begin = yk__local_now();
    uint32_t absent = YK_LOCAL_ABSENT;
    yk_status s;
    t->name = yk__calloc(t->ranks, sizeof *t->name);
    if (!t->name)
        return yk__local_fail(why, YK_E_MEM, "out of memory (the names of %u ranks)", t->ranks);
    for (uint32_t r = 0; r < t->ranks; r++)
        yk__local_name_copy(t->name[r], t->head->slot[r].name);
    if (c->name)
        yk__local_name_copy(t->head->slot[t->rank].name, c->name);
    s = yk__local_beat_start(t, why);
    if (s)
        return s;
    t->pid = getpid();
    atomic_store(&t->head->slot[t->rank].pid, t->pid);
    if (!atomic_compare_exchange_strong(&t->head->slot[t->rank].state, &absent, YK_LOCAL_JOINED))
        return fail_join(t, t->rank, YK_E_DEVICE_LOST, why, "joined after the launcher saw it end: its program must stay in front");
    for (uint32_t r = 0; r < t->ranks && !s; r++)
        s = wait_joined(t, r, begin, c->join_ms, why);
    return s;
}

static void local_close(yk_tr *t)
{
    if (!t)
        return;
    if (t->beating && t->pid == getpid()) { /* a fork has neither the thread nor a say */
        atomic_store(&t->head->slot[t->rank].state, YK_LOCAL_LEFT);
        yk__local_report_left(t);
    }
    if (t->pid == getpid())
        yk__local_beat_stop(t);
    yk__local_messages_free(t);
    for (size_t i = 0; i < t->blocks; i++)
        munmap(t->block[i].mem, t->block[i].bytes);
    if (t->head)
        munmap(t->head, t->head_bytes);
    if (t->memfd >= 0)
        close(t->memfd);
    yk__free(t->block);
    yk__free(t->gap);
    yk__free(t->name);
    yk__free(t);
}

static yk_status local_open(const yk_tr_config *c, yk_tr **out, yk_tr_error *why)
{
    yk__local_hello hello;
    yk_status s;
    yk_tr *t = yk__calloc(1, sizeof *t);
    if (!t)
        return yk__local_fail(why, YK_E_MEM, "out of memory (a transport)");
    t->memfd = t->wake_fd = -1;
    t->job_fd = c->job_fd;
    t->liveness_ms = c->liveness_ms;
    if (c->size >= sizeof *c) { /* a caller of an earlier version has none of these */
        t->stuck_ms = c->stuck_ms;
        t->advance = c->advance;
        t->watch = c->watch;
        t->watch_arg = c->watch_arg;
    }
    s = receive_hello(t, &hello, why);
    s = s ? s : map_head(t, &hello, why);
    s = s ? s : job_join(t, c, why);
    if (s) {
        local_close(t);
        return s;
    }
    *out = t;
    return YK_OK;
}

static void local_info(const yk_tr *t, yk_tr_info *i)
{
    i->rank = t->rank;
    i->ranks = t->ranks;
    i->caps = YK_TR_CAP_SHARED;
}

static const char *peer_name(const yk_tr *t, uint32_t peer)
{
    return peer < t->ranks ? t->name[peer] : "";
}

static void local_abort(yk_tr *t, yk_status status, const char *words)
{
    yk__local_end_for(t, t->rank, false, status, words);
}

static const volatile int *local_cancelled(const yk_tr *t)
{
    return (const volatile int *)&t->head->abort;
}

const yk_transport *yk__local_transport(void)
{
    static const yk_transport table = {
        .size = sizeof table,
        .abi = YK_TRANSPORT_ABI,
        .name = "local",
        .open = local_open,
        .close = local_close,
        .info = local_info,
        .peer_name = peer_name,
        .cancelled = local_cancelled,
        .abort = local_abort,
        .shared = block_shared,
        .flag_set = flag_set,
        .flag_wait = flag_wait,
        .send = yk__local_send,
        .recv = yk__local_recv,
        .progress = yk__local_progress,
        .wait = yk__local_wait,
        .cancel = yk__local_cancel,
        .word_sleep = yk__local_word_sleep,
        .word_wake = yk__local_word_wake,
        .release = yk__local_release,
    };
    return &table;
}
