/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin "slow", for tests and benchmarks of unlike devices: the CPU plugin, with each run made to take k times as long.
 *   YOKE_SLOW_FACTORS     k of slow:0, slow:1, .., separated by ';'. "1,300,600,2": 2 from training run 300 to 600, else 1
 *   YOKE_SLOW_ROW_US      least microseconds of a training run for each of its rows: the time of a device is known then;
 *                         of slow:0, slow:1, .., separated by ';', the last one of all further ones too
 *   YOKE_SLOW_RUN_US      the same of a training run, beside its rows
 *   YOKE_SLOW_PRODUCT_US  the same of a run of another program with a product
 *   YOKE_SLOW_COUNT       a file in which slow:0 counts its training runs, whose number the factors of all devices follow then, and each
 *                         device writes its process: unsigned long of runs, of the processes of slow:0, slow:1, ..
 *   YOKE_SLOW_STOPS=1     that time stands still while the process is stopped
 *   YOKE_SLOW_BUSY=1      the time is spent computing, not asleep
 *   YOKE_SLOW_OWN=1       no sharing of host memory: what goes in and out is copied
 *   YOKE_SLOW_QUANTUM     yk_device_caps.row_quantum
 *   YOKE_SLOW_COMPILE_MS  what making a program takes
 *   YOKE_SLOW_TRAINER_MS  the same of a training program, beside that
 *   YOKE_SLOW_ESTIMATE_MS yk_device_caps.compile_ms
 *   YOKE_SLOW_BROKEN      "2" or "2,3": training programs from the 2nd on, or the 2nd and 3rd, that the compiler refuses
 *   YOKE_SLOW_PLUGIN      another plugin in the CPU's place: "opencl"
 * The CPU plugin is yoke_cpu.so in YOKE_PLUGIN_DIR. A training run is that of a program with products and gradients.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <yoke/plugin.h>

#define EXPORT __attribute__((visibility("default")))

#define SLICE 1e-3

enum { MOST_DEVICES = 8, MOST_PROGRAMS = 4096 };

typedef struct slow_factor {
    double usual, from, to, then;
} slow_factor;

static const yk_plugin *cpu;
static const yk_host *lent;
static yk_host host;
static yk_plugin table;
static slow_factor factors[MOST_DEVICES];
static uint32_t n_device, opened;
typedef struct timing {
    bool trains;
    double seconds; /* that a run takes at least */
} timing;
static struct {
    yk_program *program;
    timing timing;
} timed[MOST_PROGRAMS]; /* those with products; a freed one's place is used again */
static pthread_mutex_t timed_lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t trainers; /* training programs so far */
static uint64_t own_runs, *train_runs = &own_runs;
static double compile_seconds, trainer_seconds, row_seconds, run_seconds, product_seconds; /* the last three of the opened
                                                                                                 device */

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void sleep_seconds(double s)
{
    struct timespec t = {(time_t)s, (long)(1e9 * (s - (double)(time_t)s))};
    while (s > 0 && nanosleep(&t, &t))
        ;
}

/* Time that stands still while the process is stopped: of each short sleep no more counts than twice its length. */
static void sleep_running(double s)
{
    while (s > 0) {
        const double begin = seconds_now();
        sleep_seconds(fmin(s, SLICE));
        s -= fmin(seconds_now() - begin, 2 * SLICE);
    }
}

static void pass_seconds(double s)
{
    const double until = seconds_now() + s;
    if (getenv("YOKE_SLOW_BUSY"))
        while (seconds_now() < until)
            ;
    else if (getenv("YOKE_SLOW_STOPS"))
        sleep_running(s);
    else
        sleep_seconds(s);
}

static bool factors_read(const char *text)
{
    for (n_device = 0; n_device < MOST_DEVICES && text; n_device++) {
        slow_factor *f = &factors[n_device];
        const int n = sscanf(text, "%lf,%lf,%lf,%lf", &f->usual, &f->from, &f->to, &f->then);
        if ((n != 1 && n != 4) || !(f->usual >= 1) || (n == 4 && !(f->then >= 1)))
            return false;
        text = strchr(text, ';');
        text += text != NULL;
    }
    return n_device > 0;
}

/* The CPU plugin takes this one's cores, and its own other options. */
static const char *slow_option(const char *plugin, const char *key)
{
    const char *own = strcmp(key, "CORES") ? NULL : lent->option("slow", key);
    return own ? own : lent->option(plugin, key);
}

/* One that cannot be made is no file. */
static void count_open(const char *path)
{
    const int fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    const size_t bytes = (1 + MOST_DEVICES) * sizeof *train_runs;
    void *map = fd >= 0 && !ftruncate(fd, (off_t)bytes) ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (fd >= 0)
        close(fd);
    if (map != MAP_FAILED)
        train_runs = map;
}

/* The i-th of the variable's numbers, or the last one; 0 without it. */
static double number_of(const char *variable, uint32_t i)
{
    const char *text = getenv(variable);
    for (const char *next = text ? strchr(text, ';') : NULL; next && i; next = strchr(text, ';'), i--)
        text = next + 1;
    return text ? atof(text) : 0;
}

static yk_status slow_init(const yk_host *h)
{
    const char *text = getenv("YOKE_SLOW_FACTORS");
    lent = h;
    host = *h;
    host.option = slow_option;
    compile_seconds = 1e-3 * number_of("YOKE_SLOW_COMPILE_MS", 0);
    trainer_seconds = 1e-3 * number_of("YOKE_SLOW_TRAINER_MS", 0);
    count_open(getenv("YOKE_SLOW_COUNT"));
    if (!factors_read(text ? text : "1")) {
        h->fail("slow", "YOKE_SLOW_FACTORS=%s: expected numbers of 1 or more, as in \"1;50;1,300,600,2\"", text);
        return YK_E_ARG;
    }
    return cpu->init(&host);
}

static yk_status slow_count(uint32_t *n)
{
    uint32_t own;
    *n = n_device;
    return cpu->device_count(&own); /* some plugins look for their devices then */
}

static yk_status slow_caps(uint32_t i, yk_device_caps *caps)
{
    const yk_status s = cpu->device_caps(0, caps);
    if (s)
        return s;
    snprintf(caps->name, sizeof caps->name, "slow %u, factor %g", i, factors[i].usual);
    caps->flags &= ~(uint32_t)YK_CAP_CORES;
    if (getenv("YOKE_SLOW_QUANTUM"))
        caps->row_quantum = strtoull(getenv("YOKE_SLOW_QUANTUM"), NULL, 10);
    if (getenv("YOKE_SLOW_ESTIMATE_MS"))
        caps->compile_ms = strtoull(getenv("YOKE_SLOW_ESTIMATE_MS"), NULL, 10);
    if (getenv("YOKE_SLOW_OWN"))
        caps->flags &= ~(uint32_t)(YK_CAP_WRAP | YK_CAP_HOST_VISIBLE);
    return YK_OK;
}

static yk_status slow_open(uint32_t i, yk_device **dev)
{
    opened = i;
    row_seconds = 1e-6 * number_of("YOKE_SLOW_ROW_US", i);
    run_seconds = 1e-6 * number_of("YOKE_SLOW_RUN_US", i);
    product_seconds = 1e-6 * number_of("YOKE_SLOW_PRODUCT_US", i);
    if (train_runs != &own_runs)
        train_runs[1 + i] = (uint64_t)getpid();
    return cpu->device_open(0, dev);
}

static bool graph_multiplies(const yk_graph *g)
{
    bool product = false;
    for (uint32_t i = 0; i < g->n_all_node; i++)
        product = product || g->node[i].op == YK_OP_DOT || g->node[i].op == YK_OP_DOT_MAP;
    return product;
}

static bool graph_trains(const yk_graph *g)
{
    bool gradient = false;
    for (uint32_t i = 0; i < g->n_slot; i++)
        gradient = gradient || g->slot[i].kind == YK_SLOT_GRAD;
    return gradient && graph_multiplies(g);
}

/* Rows of the batch that the graph reads. */
static uint64_t graph_rows(const yk_graph *g)
{
    for (uint32_t i = 0; i < g->n_value; i++)
        if (g->value[i].slot < g->n_slot && g->slot[g->value[i].slot].kind == YK_SLOT_INPUT && g->value[i].dims > 1)
            return (uint64_t)g->value[i].dim[0];
    return 0;
}

/* The program's, or with NULL one that is free; MOST_PROGRAMS: there is none. The lock is held. */
static uint32_t timed_place(const yk_program *p)
{
    uint32_t i = 0;
    while (i < MOST_PROGRAMS && timed[i].program != p)
        i++;
    return i;
}

/* The program's timing; one of zeros if it has none. */
static timing timing_of(const yk_program *p)
{
    pthread_mutex_lock(&timed_lock);
    const uint32_t place = timed_place(p);
    const timing t = place < MOST_PROGRAMS ? timed[place].timing : (timing){0};
    pthread_mutex_unlock(&timed_lock);
    return t;
}

static void timing_set(const yk_program *was, yk_program *p, timing t)
{
    pthread_mutex_lock(&timed_lock);
    const uint32_t place = timed_place(was);
    if (place < MOST_PROGRAMS) {
        timed[place].program = p;
        timed[place].timing = t;
    }
    pthread_mutex_unlock(&timed_lock);
}

static bool trainer_broken(void)
{
    const char *text = getenv("YOKE_SLOW_BROKEN");
    const uint32_t number = __atomic_add_fetch(&trainers, 1, __ATOMIC_RELAXED);
    unsigned from, to;
    const int n = text ? sscanf(text, "%u,%u", &from, &to) : 0;
    return n > 0 && number >= from && (n == 1 || number <= to);
}

static yk_status slow_program(yk_device *dev, const yk_graph *g, yk_program **p)
{
    const bool trains = graph_trains(g);
    pass_seconds(compile_seconds + (trains ? trainer_seconds : 0));
    if (trains && trainer_broken()) {
        lent->fail("slow", "training program %u is broken by YOKE_SLOW_BROKEN", __atomic_load_n(&trainers, __ATOMIC_RELAXED));
        return YK_E_INTERNAL;
    }
    const yk_status s = cpu->program_new(dev, g, p);
    if (!s && graph_multiplies(g))
        timing_set(NULL, *p, (timing){trains, trains ? run_seconds + row_seconds * (double)graph_rows(g) : product_seconds});
    return s;
}

static void slow_program_free(yk_program *p)
{
    if (p)
        timing_set(p, NULL, (timing){0});
    cpu->program_free(p);
}

/* The device's present factor. */
static double factor_now(void)
{
    const slow_factor *f = &factors[opened];
    const double runs = (double)__atomic_load_n(train_runs, __ATOMIC_RELAXED);
    return f->then > 0 && runs > f->from && runs <= f->to ? f->then : f->usual;
}

static yk_status slow_run(yk_queue *q, const yk_submit *s, uint64_t *point)
{
    const timing t = timing_of(s->program);
    const double begin = seconds_now();
    double factor, took;
    yk_status st = cpu->queue_run(q, s, point);
    if (t.trains && (train_runs == &own_runs || !opened))
        __atomic_add_fetch(train_runs, 1, __ATOMIC_RELAXED);
    factor = factor_now();
    if (st || (factor <= 1 && t.seconds <= 0))
        return st;
    st = cpu->queue_wait(q, *point, UINT64_MAX);
    took = seconds_now() - begin;
    pass_seconds(factor * fmax(t.seconds, took) - took);
    return st;
}

static const yk_plugin *cpu_query(uint32_t abi)
{
    const char *dir = getenv("YOKE_PLUGIN_DIR");
    char path[4096];
    void *dl, *symbol;
    yk_plugin_query_fn query;
    const char *const name = getenv("YOKE_SLOW_PLUGIN");
    snprintf(path, sizeof path, "%s/yoke_%s.so", dir ? dir : ".", name ? name : "cpu");
    dl = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    symbol = dl ? dlsym(dl, YK_PLUGIN_SYMBOL) : NULL;
    if (!symbol) {
        fprintf(stderr, "slow: %s\n", dlerror());
        return NULL;
    }
    memcpy(&query, &symbol, sizeof query);
    return query(abi);
}

EXPORT const yk_plugin *yk_plugin_query(uint32_t abi);
const yk_plugin *yk_plugin_query(uint32_t abi)
{
    cpu = cpu_query(abi);
    if (!cpu)
        return NULL;
    table = *cpu;
    table.name = "slow";
    table.init = slow_init;
    table.device_count = slow_count;
    table.device_caps = slow_caps;
    table.device_open = slow_open;
    table.program_new = slow_program;
    table.program_free = slow_program_free;
    table.queue_run = slow_run;
    return &table;
}
