/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yoke-cts, group abi: checks of a plugin's file and its table before a device is opened: symbols, libraries, versions, sizes. main.c runs
 * each group in a child process, with the plugin under test loaded; results go to report.c.
 */
#include "config.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fenv.h>
#include <float.h>
#include <locale.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "tools/cts/cts.h"

#define MOST_DEVICES 4096u
#define STARTS 3

typedef struct symbols {
    const char *name; /* name of the entry point */
    uint32_t exported, foreign;
    char wrong[300];   /* wrongly exported names, or undefined ones without a provider */
    char library[400]; /* needed */
    bool entry, vendor; /* the entry point is there; a library beyond the C library's own is needed */
    bool versioned;     /* symbols of the C library carry versions (not so with musl, nor where a sanitizer stands between) */
} symbols;

static void text_append(char *text, size_t n, const char *word)
{
    size_t used = strlen(text);
    if (used < n)
        snprintf(text + used, n - used, "%s%s", used ? ", " : "", word);
}

static bool text_starts(const char *s, const char *with)
{
    return !strncmp(s, with, strlen(with));
}

/* Symbols of the C library and the compiler's run time carry a version or a reserved name. */
static bool from_system(const char *name, const char *version)
{
    return text_starts(version, "GLIBC_") || text_starts(version, "GCC_") || text_starts(name, "__asan_") ||
           text_starts(name, "__ubsan_") || text_starts(name, "__tsan_") || text_starts(name, "__sanitizer_") ||
           !strcmp(name, "__tls_get_addr");
}

static void take_symbol(void *arg, const char *name, bool defined, const char *version)
{
    symbols *s = arg;
    s->versioned = s->versioned || *version;
    if (defined && !strcmp(name, s->name)) {
        s->entry = true;
    } else if (defined) {
        s->exported++;
        text_append(s->wrong, sizeof s->wrong, name);
    } else if (!from_system(name, version)) {
        s->foreign++;
        if (text_starts(name, "yk_"))
            text_append(s->wrong, sizeof s->wrong, name);
    }
}

static void take_library(void *arg, const char *library)
{
    static const char *const system[] = {"libc.so",  "libm.so",  "libpthread.so", "libdl.so",   "librt.so",
                                         "libgcc_s", "ld-linux", "libasan",       "libubsan.so", "libtsan.so",
                                         "libc.musl", "linux-vdso"};
    symbols *s = arg;
    bool known = false;
    for (size_t i = 0; i < sizeof system / sizeof *system; i++)
        known = known || text_starts(library, system[i]);
    s->vendor = s->vendor || !known || text_starts(library, "libasan") || text_starts(library, "libtsan");
    if (!known)
        text_append(s->library, sizeof s->library, library);
}

void cts_file_check(cts *c, const char *path, const char *symbol)
{
    symbols s = {.name = symbol};
    yk_error err = YK_ERROR_INIT;
    cts_elf_read(path, &s, take_symbol, take_library, &err);
    if (!cts_error(c, &err))
        return;
    if (!s.entry)
        cts_fail(c, "%s is not exported", symbol);
    else if (s.exported)
        cts_fail(c, "it exports more than %s: %s", symbol, s.wrong);
    else if (*s.wrong)
        cts_fail(c, "it uses symbols of the host: %s; a plugin links nothing of yoke", s.wrong);
    else if (s.foreign && s.versioned && !s.vendor)
        cts_fail(c, "%u undefined symbols are of no library it names as needed", s.foreign);
    if (*s.library)
        fprintf(stderr, "# %s needs %s\n", path, s.library);
}

static void check_file(cts *c, const char *path)
{
    if (!cts_begin(c, "symbols"))
        return;
    cts_file_check(c, path, YK_PLUGIN_SYMBOL);
    cts_pass(c);
}

static const yk_plugin *plugin_query(cts *c, const char *path)
{
    void *dl = dlopen(path, RTLD_NOW | RTLD_LOCAL), *symbol = dl ? dlsym(dl, YK_PLUGIN_SYMBOL) : NULL;
    yk_plugin_query_fn fn;
    memcpy(&fn, &symbol, sizeof fn);
    if (!cts_begin(c, "query"))
        return fn ? fn(YK_ABI) : NULL;
    if (!fn) {
        cts_fail(c, "%s", dl ? "the entry point is missing" : dlerror());
        return NULL;
    }
    if (fn(YK_ABI + 1000))
        cts_fail(c, "it answers a major number (%u) that does not exist yet", YK_ABI + 1000);
    if (!fn(YK_ABI))
        cts_fail(c, "it does not answer major %u", YK_ABI);
    if (fn(YK_ABI) != fn(YK_ABI))
        cts_fail(c, "two queries give two tables");
    cts_pass(c);
    return fn(YK_ABI);
}

/* The loader's own rules: a table may be longer or shorter than this header's, and some members may be NULL. */
static void check_table(cts *c, const yk_plugin *t)
{
    yk_error err = YK_ERROR_INIT;
    yk_plugin taken;
    if (!cts_begin(c, "table"))
        return;
    yk__plugin_table_take(t, "this plugin", &taken, &err);
    if (cts_error(c, &err) && t->reserved)
        cts_fail(c, "the reserved word of the table is %u, expected 0", t->reserved);
    else if (!c->failed_now && t->minor <= YK_ABI_MINOR && t->size > sizeof *t)
        cts_fail(c, "the table has %u bytes and says minor %u, whose tables have at most %zu: additions raise the minor", t->size,
                 t->minor, sizeof *t);
    cts_pass(c);
}

/* Caps into a struct smaller than the plugin's: no byte after it may change. */
static void check_short_caps(cts *c, const yk_plugin *t)
{
    struct {
        yk_device_caps caps;
        uint8_t guard[64];
    } short_caps;
    const uint32_t few = offsetof(yk_device_caps, isa);
    if (!cts_begin(c, "caps_short"))
        return;
    memset(&short_caps, YK__GUARD_BYTE, sizeof short_caps);
    short_caps.caps.size = few;
    if (!cts_ok(c, t->device_caps(c->device, &short_caps.caps), "device_caps"))
        return;
    for (size_t i = few; i < sizeof short_caps; i++)
        if (((uint8_t *)&short_caps)[i] != YK__GUARD_BYTE)
            cts_fail(c, "byte %zu was written, the caller's struct has %u", i, few);
    cts_pass(c);
}

static void *old_alloc(size_t bytes, size_t align)
{
    return yk__malloc_aligned(bytes, align);
}

/* A text that a report shows in one line. */
static bool text_is_plain(const char *text)
{
    while (*text && (unsigned char)*text >= ' ' && *text != 127)
        text++;
    return !*text;
}

/* The first capability that differs between two answers, but for sizes of memory; NULL if none does. */
static const char *caps_difference(const yk_device_caps *a, const yk_device_caps *b)
{
    return strcmp(a->name, b->name)                ? "name"
           : strcmp(a->isa, b->isa)                ? "isa"
           : strcmp(a->locality, b->locality)      ? "locality"
           : a->flags != b->flags                  ? "flags"
           : a->align != b->align                  ? "align"
           : a->value_align != b->value_align      ? "value_align"
           : a->units != b->units                  ? "units"
           : a->store != b->store                  ? "store"
           : a->compute != b->compute              ? "compute"
           : a->compile_ms != b->compile_ms        ? "compile_ms"
           : a->row_quantum != b->row_quantum      ? "row_quantum"
           : a->product_bits != b->product_bits    ? "product_bits"
                                                   : NULL;
}

/* A device is the same device at each question, before it is opened and later. */
static void check_caps_again(cts *c, const yk_plugin *t)
{
    yk_device_caps first = {.size = sizeof first};
    uint32_t n = 0;
    if (!cts_begin(c, "caps_again") || !cts_ok(c, t->device_caps(c->device, &first), "device_caps") ||
        !cts_ok(c, t->device_count(&n), "device_count"))
        return;
    for (int i = 0; i < 3 && !c->failed_now; i++) {
        yk_device_caps now = {.size = sizeof now};
        uint32_t devices = 0;
        yk_device *dev = NULL;
        if (i == 1 && cts_ok(c, t->device_open(c->device, &dev), "device_open"))
            t->device_close(dev);
        if (!cts_ok(c, t->device_caps(c->device, &now), "device_caps") || !cts_ok(c, t->device_count(&devices), "device_count"))
            break;
        const char *other = caps_difference(&first, &now);
        if (other)
            cts_fail(c, "%s of the device differs between two calls of device_caps; sizes of memory alone may", other);
        else if (devices != n)
            cts_fail(c, "device_count says %u, and %u before", devices, n);
    }
    cts_pass(c);
}

static void check_caps_memory(cts *c, const yk_device_caps *k)
{
    const unsigned long long total = k->mem_total, most = k->max_alloc;
    if (k->max_bind && most && k->max_bind > most)
        cts_fail(c, "max_bind %llu is more than a buffer may have (max_alloc %llu)", (unsigned long long)k->max_bind, most);
    else if (total && most > total)
        cts_fail(c, "a buffer may have max_alloc, %llu bytes, and the device has mem_total, %llu", most, total);
    else if (total && k->mem_free > total)
        cts_fail(c, "mem_free (%llu bytes) is more than mem_total (%llu)", (unsigned long long)k->mem_free, total);
}

static void check_caps(cts *c, const yk_plugin *t)
{
    const uint32_t must = 1u << YK_F32 | 1u << YK_I32 | 1u << YK_BOOL;
    yk_device_caps k = {.size = sizeof k};
    if (!cts_begin(c, "caps") || !cts_ok(c, t->device_caps(c->device, &k), "device_caps"))
        return;
    if (k.reserved)
        cts_fail(c, "the reserved word of the capabilities is %u, expected 0", k.reserved);
    else if (t->n_dtype < 32 && (k.store | k.compute) >> t->n_dtype)
        cts_fail(c, "store (%#x) or compute (%#x) has types from number %u on, which n_dtype says the plugin does not know", k.store,
                 k.compute, t->n_dtype);
    else if (!k.align || (k.align & (k.align - 1)) || k.align > 65536)
        cts_fail(c, "align %u is not a power of two up to 65536", k.align);
    else if ((k.store & must) != must)
        cts_fail(c, "store lacks one of f32, i32, bool");
    else if (!(k.compute & 1u << YK_F32) || (k.compute & ~k.store))
        cts_fail(c, "compute (%#x) lacks f32 or has types that store (%#x) has not", k.compute, k.store);
    else if (!memchr(k.name, 0, sizeof k.name) || !*k.name || !memchr(k.locality, 0, sizeof k.locality) ||
             !memchr(k.isa, 0, sizeof k.isa))
        cts_fail(c, "name is empty, or a text has no end");
    else if (!text_is_plain(k.name) || !text_is_plain(k.locality) || !text_is_plain(k.isa))
        cts_fail(c, "name, locality or isa has a control character; reports show each in one line");
    else if ((k.value_align & (k.value_align - 1)) || k.value_align > 65536)
        cts_fail(c, "value_align %u is neither 0 nor a power of two up to 65536", k.value_align);
    else if (k.compile_ms > 4320000)
        cts_fail(c, "compile_ms %llu is more than 4320000, 72 minutes", (unsigned long long)k.compile_ms);
    else if (k.row_quantum > 65536)
        cts_fail(c, "row_quantum %llu is more than 65536", (unsigned long long)k.row_quantum);
    else if (k.product_bits && (k.product_bits < 8 || k.product_bits > YK__F32_BITS))
        cts_fail(c, "product_bits %llu is neither 0 nor 8 to 24", (unsigned long long)k.product_bits);
    else if (t->device_caps(99999, &k) == YK_OK)
        cts_fail(c, "device 99999 has capabilities");
    else if ((k.flags & YK_CAP_WRAP) && !t->buffer_wrap)
        cts_fail(c, "YK_CAP_WRAP without buffer_wrap");
    else if ((k.flags & YK_CAP_HOST_VISIBLE) && !t->buffer_map)
        cts_fail(c, "YK_CAP_HOST_VISIBLE without buffer_map");
    else if (!k.units)
        cts_fail(c, "it has 0 compute units; a device has one at least");
    else
        check_caps_memory(c, &k);
    cts_pass(c);
}

/* ---- The process, which is the host's ---------------------------------------------------------------------------------- */

/* True for faults and debuggers' signals, which drivers with kernels on the host's cores catch themselves. */
static bool signal_is_driver(int number)
{
    return number == SIGFPE || number == SIGSEGV || number == SIGBUS || number == SIGILL || number == SIGTRAP || number == SIGABRT ||
           number == SIGUSR2 || number == SIGKILL || number == SIGSTOP;
}

typedef struct process_state {
    void *handler[65];
    sigset_t mask;
    cpu_set_t cores; /* cores of the calling thread */
    char locale[400];
    int rounding;
    bool makes_tiny, reads_tiny; /* the thread's numbers below the normal ones count */
} process_state;

static void state_take(process_state *s)
{
    const char *locale = setlocale(LC_ALL, NULL);
    memset(s, 0, sizeof *s);
    for (int i = 1; i < 65; i++) {
        struct sigaction now;
        void (*handler)(int) = SIG_DFL;
        if (!signal_is_driver(i) && !sigaction(i, NULL, &now))
            handler = now.sa_handler;
        memcpy(&s->handler[i], &handler, sizeof handler);
    }
    pthread_sigmask(SIG_SETMASK, NULL, &s->mask);
    sched_getaffinity(0, sizeof s->cores, &s->cores);
    snprintf(s->locale, sizeof s->locale, "%s", locale ? locale : "");
    s->rounding = fegetround();
    volatile float normal = FLT_MIN, tiny = FLT_MIN / 2;
    s->makes_tiny = normal / 2 > 0;
    s->reads_tiny = tiny * 2 > 0;
}

static void state_compare(cts *c, const process_state *before, const char *what)
{
    process_state now;
    state_take(&now);
    for (int i = 1; i < 65; i++)
        if (now.handler[i] != before->handler[i])
            cts_fail(c, "%s changes what signal %d (%s) does; that is the host's", what, i, strsignal(i));
    for (int i = 1; i < 65; i++)
        if (sigismember(&now.mask, i) != sigismember(&before->mask, i))
            cts_fail(c, "%s changes whether signal %d is blocked in its caller's thread", what, i);
    if (!CPU_EQUAL(&now.cores, &before->cores))
        cts_fail(c, "%s changes the cores on which its caller's thread runs (%d, %d before)", what, CPU_COUNT(&now.cores),
                 CPU_COUNT(&before->cores));
    if (strcmp(now.locale, before->locale))
        cts_fail(c, "%s changes the locale from %s to %s", what, before->locale, now.locale);
    if (now.rounding != before->rounding)
        cts_fail(c, "%s changes how its caller's thread rounds", what);
    if (now.makes_tiny != before->makes_tiny || now.reads_tiny != before->reads_tiny)
        cts_fail(c, "%s changes whether subnormal numbers count in its caller's thread", what);
}

static void objects_compare(cts *c, const yk_plugin *t, yk_device *dev, const process_state *before)
{
    yk_queue *q = NULL;
    yk_buffer *b = NULL;
    uint64_t point = 0;
    if (cts_ok(c, t->queue_new(dev, &(yk_queue_desc){.size = sizeof(yk_queue_desc), .kind = YK_QUEUE_COMPUTE}, &q), "queue_new"))
        state_compare(c, before, "queue_new");
    if (cts_ok(c, t->buffer_new(dev, &(yk_buffer_desc){.size = sizeof(yk_buffer_desc), .bytes = 64}, &b), "buffer_new"))
        state_compare(c, before, "buffer_new");
    if (q && b && cts_ok(c, yk_put(t, q, b, 0, "seven", 5, &point), "queue_copy") && cts_ok(c, t->queue_wait(q, point, 1000000000), "wait"))
        state_compare(c, before, "queue_copy");
    if (q)
        t->queue_free(q);
    if (b)
        t->buffer_free(b);
    state_compare(c, before, "queue_free or buffer_free");
}

/* A plugin must not change a process's signal handling, nor the cores of a host thread. */
static void check_process(cts *c, const yk_plugin *t, const process_state *before)
{
    yk_device *dev;
    if (!cts_begin(c, "process"))
        return;
    state_compare(c, before, "init");
    if (cts_ok(c, t->device_open(c->device, &dev), "device_open")) {
        state_compare(c, before, "device_open");
        objects_compare(c, t, dev, before);
        t->device_close(dev);
        state_compare(c, before, "device_close");
    }
    cts_pass(c);
}

/* ---- One device, open twice ---- */

#define WORD 8 /* bytes */

typedef struct opened {
    yk_device *dev;
    yk_queue *q;
    yk_buffer *b;
} opened;

static bool opened_begin(cts *c, const yk_plugin *t, opened *o)
{
    return cts_ok(c, t->device_open(c->device, &o->dev), "device_open") &&
           cts_ok(c, t->queue_new(o->dev, &(yk_queue_desc){.size = sizeof(yk_queue_desc), .kind = YK_QUEUE_COMPUTE}, &o->q), "queue_new") &&
           cts_ok(c, t->buffer_new(o->dev, &(yk_buffer_desc){.size = sizeof(yk_buffer_desc), .bytes = WORD}, &o->b), "buffer_new");
}

static void opened_end(const yk_plugin *t, opened *o)
{
    if (o->q)
        t->queue_free(o->q);
    if (o->b)
        t->buffer_free(o->b);
    if (o->dev)
        t->device_close(o->dev);
    *o = (opened){0};
}

static bool opened_put(cts *c, const yk_plugin *t, const opened *o, const char word[WORD])
{
    uint64_t point = 0;
    return cts_ok(c, yk_put(t, o->q, o->b, 0, word, WORD, &point), "queue_copy to a device that is open twice") &&
           cts_ok(c, t->queue_wait(o->q, point, c->timeout_ns), "queue_wait of a device that is open twice");
}

static bool opened_holds(cts *c, const yk_plugin *t, const opened *o, const char word[WORD])
{
    char got[WORD] = "";
    uint64_t point = 0;
    if (!cts_ok(c, yk_get(t, o->q, o->b, 0, got, WORD, &point), "queue_copy from a device that is open twice") ||
        !cts_ok(c, t->queue_wait(o->q, point, c->timeout_ns), "queue_wait of a device that is open twice"))
        return false;
    if (memcmp(got, word, WORD))
        cts_fail(c, "a buffer of a device that is open twice holds \"%.*s\", expected \"%s\"", WORD - 1, got, word);
    return memcmp(got, word, WORD) == 0;
}

/* Each open has memory of its own, and outlives the close of the other. The host uses buffers with queues of the same open alone. */
static void check_open_twice(cts *c, const yk_plugin *t)
{
    static const char words[][WORD] = {"first  ", "second ", "third  "};
    opened one = {0}, two = {0};
    if (!cts_begin(c, "open_twice"))
        return;
    if (opened_begin(c, t, &one) && opened_begin(c, t, &two) && opened_put(c, t, &one, words[0]) && opened_put(c, t, &two, words[1]) &&
        opened_holds(c, t, &one, words[0])) {
        opened_end(t, &one);
        if (opened_holds(c, t, &two, words[1]) && opened_put(c, t, &two, words[2]))
            opened_holds(c, t, &two, words[2]);
    }
    opened_end(t, &two);
    opened_end(t, &one);
    cts_pass(c);
}

static void check_devices(cts *c, const yk_plugin *t, uint32_t n)
{
    yk_device *dev;
    if (!cts_begin(c, "devices"))
        return;
    if (n > MOST_DEVICES)
        cts_fail(c, "device_count gives %u devices, expected at most %u", n, MOST_DEVICES);
    else if (!n)
        cts_fail(c, "the plugin has no devices");
    else if (c->device >= n)
        cts_fail(c, "there is no device %u; it has %u", c->device, n);
    else if (t->device_open(n + 1000, &dev) == YK_OK)
        cts_fail(c, "device %u of %u can be opened", n + 1000, n);
    else if (cts_ok(c, t->device_open(c->device, &dev), "device_open"))
        t->device_close(dev);
    cts_pass(c);
}

/* Each test runs alone too, so none depends on whether another one began. */
static void check_device(cts *c, const yk_plugin *t)
{
    uint32_t n = 0;
    const yk_status counted = t->device_count(&n);
    if (counted) {
        if (cts_begin(c, "devices"))
            cts_ok(c, counted, "device_count");
        return;
    }
    check_devices(c, t, n);
    if (c->device >= n)
        return;
    check_caps_again(c, t);
    check_caps(c, t);
    check_short_caps(c, t);
    check_open_twice(c, t);
}

/* A host older than the plugin: its table ends before log. The plugin may refuse or accept it, but must not call missing functions. */
static void check_old_host(cts *c, const yk_plugin *t)
{
    static yk_host old;
    yk_status s;
    if (!cts_begin(c, "old_host"))
        return;
    memset(&old, 0, sizeof old);
    old.size = offsetof(yk_host, log);
    old.abi = YK_ABI;
    old.alloc = old_alloc;
    old.free = yk__free;
    s = t->init(&old);
    if (s == YK_OK)
        t->fini();
    else if (s != YK_E_ABI && s != YK_E_UNSUPPORTED)
        cts_fail(c, "init with a short host table: %s, expected YK_OK, YK_E_ABI or YK_E_UNSUPPORTED", yk__status_name(s));
    cts_pass(c);
}

static int threads_now(void)
{
    DIR *d = opendir("/proc/self/task");
    int n = 0;
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

/* A thread that was joined is seen for a moment still. */
static int threads_settled(int expected)
{
    int n = threads_now();
    for (int i = 0; i < 100 && n > expected; i++) {
        usleep(2000);
        n = threads_now();
    }
    return n;
}

/* fini joins the plugin's own threads. Threads of a driver that stay exist after the first start already. */
static void threads_compare(cts *c, const int threads[STARTS])
{
    bool grows = true;
    for (int round = 1; round < STARTS; round++)
        grows = grows && threads[round] > threads[round - 1];
    if (grows)
        cts_fail(c, "fini leaves threads: %d, %d more after two further starts", threads[0] - 2, threads[STARTS - 1] - threads[0]);
}

static void device_try(cts *c, const yk_plugin *t)
{
    uint32_t n = 0;
    yk_device *dev;
    if (cts_ok(c, t->device_count(&n), "device_count") && c->device < n && n <= MOST_DEVICES &&
        cts_ok(c, t->device_open(c->device, &dev), "device_open"))
        t->device_close(dev);
}

/* Through the loader's own table, which has the real host services. */
static void check_again(cts *c)
{
    int threads[STARTS] = {0};
    for (int round = 0; round < STARTS; round++) {
        yk_error err = YK_ERROR_INIT;
        yk__plugin *p = NULL;
        if (!cts_begin(c, "start%d", round + 1))
            continue;
        yk__plugin_load(c->path, &p, &err);
        if (!cts_error(c, &err))
            continue;
        device_try(c, yk__plugin_table(p));
        yk__plugins_fini();
        threads[round] = threads_settled(round ? threads[round - 1] : 0);
        if (round == STARTS - 1)
            threads_compare(c, threads);
        cts_pass(c);
    }
}

void cts_group_abi(cts *c)
{
    yk_error err = YK_ERROR_INIT;
    yk__plugin *p = NULL;
    const yk_plugin *t;
    process_state before;
    state_take(&before);
    bool begun = cts_begin(c, "load");
    yk__plugin_load(c->path, &p, &err);
    if (begun && cts_error(c, &err))
        cts_pass(c);
    if (!p) {
        if (strchr(c->path, '/'))
            check_file(c, c->path);
        return;
    }
    check_process(c, yk__plugin_table(p), &before);
    check_file(c, yk__plugin_path(p));
    t = plugin_query(c, yk__plugin_path(p));
    if (!t)
        return;
    check_table(c, t);
    check_device(c, yk__plugin_table(p));
    yk__plugins_fini();
    check_again(c);
    check_old_host(c, t); /* last, as a plugin's state for this host would be useless to the other tests */
}
