/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A PJRT plugin whose compiler is IREE's: a second judge, beside XLA, of what yoke_pjrt.so writes. scripts/iree-suite builds it and runs
 * the suite on it. Programs and arrays are files of a folder of their own; iree-compile and iree-run-module are processes, so that a crash
 * of theirs fails one test. Donation is taken out of the text: IREE 3.13 writes a result over an argument that is still to be read.
 * PJRT_IREE is the folder of IREE's wheels, PJRT_IREE_PLATFORM the platform's name: for "cpu" the text is the one that XLA's CPU plugin
 * gets. With PJRT_IREE_KEEP set the files stay; with PJRT_IREE_DONATE set the text keeps its donations.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/pjrt/api.h"

#define SECONDS "120" /* limit of one process */
#define PATH 600
#define TYPE 200
#define ARGUMENTS 600 /* of a program, and as many results */

struct pjrt_error {
    char text[1000];
};

struct pjrt_client {
    char folder[PATH], compiler[PATH], runner[PATH], platform[64];
    pjrt_device *device[1]; /* the client itself: an address is all it needs */
    atomic_uint programs, runs;
};

struct pjrt_buffer { /* dense; the elements follow */
    char type[TYPE]; /* "2x3xf32" */
    size_t bytes;
    char data[];
};

struct pjrt_loaded {
    pjrt_client *client;
    char module[PATH + 40];
    size_t n_result;
    char result[][TYPE];
};

extern char **environ;

static pjrt_error *error_new(const char *text, const char *more)
{
    pjrt_error *e = malloc(sizeof *e);
    if (e)
        snprintf(e->text, sizeof e->text, "%s%s", text, more);
    return e;
}

/* ---- Files and processes ------------------------------------------------------------------------------------------------- */

static bool file_write(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wbe");
    bool good = f && fwrite(bytes, 1, n, f) == n;
    if (f)
        good = !fclose(f) && good;
    return good;
}

static bool file_read(const char *path, void *bytes, size_t n)
{
    FILE *f = fopen(path, "rbe");
    const bool good = f && fread(bytes, 1, n, f) == n && fgetc(f) == EOF;
    if (f)
        fclose(f);
    return good;
}

static bool files_kept(void)
{
    return getenv("PJRT_IREE_KEEP") != NULL;
}

/* The first line of a log that has "error" or asks for a report, else the first one. */
static pjrt_error *log_error(const char *path, const char *who)
{
    char line[800], first[800] = "";
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        const bool says = strstr(line, "error") || strstr(line, "Assertion") || strstr(line, "PLEASE");
        if (!*first || says)
            snprintf(first, sizeof first, "%s", line);
        if (says)
            break;
    }
    if (f)
        fclose(f);
    return error_new(who, *first ? first : "no word");
}

/* Runs a program within SECONDS; its words go to the file `log`. */
static pjrt_error *process_run(char *const *argv, const char *log, const char *who)
{
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int status = 0;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    const int failed = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failed)
        return error_new("cannot start ", argv[0]);
    waitpid(pid, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return NULL;
    if (WIFSIGNALED(status)) {
        char name[40];
        snprintf(name, sizeof name, "died of signal %d", WTERMSIG(status));
        return error_new(who, name);
    }
    return WEXITSTATUS(status) == 124 ? error_new(who, "no end within " SECONDS " s") : log_error(log, who);
}

/* ---- Clients --------------------------------------------------------------------------------------------------------------- */

static pjrt_error *client_create(void *args)
{
    pjrt_client_create_args *a = args;
    const char *iree = getenv("PJRT_IREE"), *platform = getenv("PJRT_IREE_PLATFORM"), *tmp = getenv("TMPDIR");
    pjrt_client *c = calloc(1, sizeof *c);
    if (!c || !iree)
        return free(c), error_new("PJRT_IREE is not set", "");
    snprintf(c->compiler, PATH, "%s/compiler/_mlir_libs/iree-compile", iree);
    snprintf(c->runner, PATH, "%s/_runtime_libs/iree-run-module", iree);
    snprintf(c->platform, sizeof c->platform, "%s", platform ? platform : "iree");
    snprintf(c->folder, PATH, "%s/pjrt-iree-XXXXXX", tmp ? tmp : "/tmp");
    if (access(c->compiler, X_OK) || access(c->runner, X_OK) || !mkdtemp(c->folder))
        return free(c), error_new("no iree-compile and iree-run-module, or no folder to write to: ", iree);
    c->device[0] = (pjrt_device *)(void *)c;
    a->client = c;
    return NULL;
}

static pjrt_error *client_destroy(void *args)
{
    pjrt_client *c = ((pjrt_object_args *)args)->object;
    DIR *d = files_kept() ? NULL : opendir(c->folder);
    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d))
        if (e->d_name[0] != '.')
            unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
    rmdir(c->folder);
    free(c);
    return NULL;
}

static pjrt_error *client_devices(void *args)
{
    pjrt_devices_args *a = args;
    a->device = a->client->device;
    a->n_device = 1;
    return NULL;
}

static pjrt_error *client_platform(void *args)
{
    pjrt_ask_args *a = args;
    char *name = ((pjrt_client *)(uintptr_t)a->object)->platform;
    a->answer = name;
    a->answer_size = strlen(name);
    return NULL;
}

static pjrt_error *text_iree(void *args)
{
    static char name[] = "IREE";
    pjrt_ask_args *a = args;
    a->answer = name;
    a->answer_size = sizeof name - 1;
    return NULL;
}

static pjrt_error *device_description(void *args)
{
    pjrt_ask_args *a = args;
    a->answer = (void *)(uintptr_t)a->object;
    return NULL;
}

/* ---- Programs -------------------------------------------------------------------------------------------------------------- */

/* Reads the next "tensor<TYPE>" of a list that ends with '{'. */
static const char *type_next(const char *at, char type[TYPE])
{
    while (*at && *at != '{' && strncmp(at, "tensor<", 7))
        at++;
    if (*at != 't')
        return NULL;
    at += 7;
    const size_t n = strcspn(at, ">");
    snprintf(type, TYPE, "%.*s", (int)n, at);
    return at + n;
}

/* Writes blanks over the marks of donated arguments. */
static void donations_clear(char *text)
{
    for (char *at = text; (at = strstr(at, "{tf.aliasing_output"));)
        memset(at, ' ', strcspn(at, "}") + 1);
}

static pjrt_loaded *loaded_new(const char *text)
{
    pjrt_loaded *l = calloc(1, sizeof *l + ARGUMENTS * sizeof l->result[0]);
    const char *at = strstr(text, "@main(");
    at = at ? strstr(at, "-> (") : NULL;
    while (l && at && l->n_result < ARGUMENTS && (at = type_next(at, l->result[l->n_result])))
        l->n_result++;
    return l;
}

/* The limit is for scatters of whole tables: IREE refuses 32 KiB of a function's stack else. */
static pjrt_error *client_compile(void *args)
{
    pjrt_compile_args *a = args;
    pjrt_client *c = a->client;
    const unsigned number = atomic_fetch_add(&c->programs, 1);
    char in[PATH + 40], log[PATH + 40];
    char *text = strndup(a->program->code, a->program->code_size);
    pjrt_loaded *l = text ? loaded_new(text) : NULL;
    if (!l)
        return free(text), error_new("no memory", "");
    if (!l->n_result)
        return free(l), free(text), error_new("no results in the text", "");
    if (!getenv("PJRT_IREE_DONATE"))
        donations_clear(text);
    l->client = c;
    snprintf(in, sizeof in, "%s/%u.mlir", c->folder, number);
    snprintf(log, sizeof log, "%s/%u.log", c->folder, number);
    snprintf(l->module, sizeof l->module, "%s/%u.vmfb", c->folder, number);
    char *const argv[] = {"timeout", SECONDS, c->compiler, in, "--iree-input-type=stablehlo", "--iree-hal-target-backends=llvm-cpu",
                          "--iree-llvmcpu-target-cpu=host", "--iree-llvmcpu-stack-allocation-limit=4194304", "-o", l->module, NULL};
    pjrt_error *error = file_write(in, text, strlen(text)) ? process_run(argv, log, "iree-compile: ") : error_new("cannot write ", in);
    free(text);
    if (error)
        free(l);
    else
        a->loaded = l;
    return error;
}

static pjrt_error *loaded_destroy(void *args)
{
    pjrt_loaded *l = ((pjrt_object_args *)args)->object;
    if (!files_kept())
        unlink(l->module);
    free(l);
    return NULL;
}

/* ---- Arrays ---------------------------------------------------------------------------------------------------------------- */

static const struct {
    int type;
    const char *name, *text; /* for IREE's tools, in the text */
    size_t bytes;
} TYPES[] = {{PJRT_PRED, "i1", "i1", 1},   {PJRT_S8, "si8", "i8", 1},  {PJRT_U8, "ui8", "ui8", 1}, {PJRT_S32, "i32", "i32", 4},
             {PJRT_F16, "f16", "f16", 2}, {PJRT_F32, "f32", "f32", 4}, {PJRT_BF16, "bf16", "bf16", 2}};
enum { N_TYPES = sizeof TYPES / sizeof *TYPES };

static pjrt_buffer *buffer_new(const char *type, size_t bytes)
{
    pjrt_buffer *b = malloc(sizeof *b + bytes + 1);
    if (b) {
        snprintf(b->type, TYPE, "%s", type);
        b->bytes = bytes;
    }
    return b;
}

/* An array for a result of the text: "2x3xf32". NULL for a type that is not known. */
static pjrt_buffer *buffer_for(const char *text)
{
    size_t n = 1;
    const char *at = text;
    while (isdigit((unsigned char)*at)) {
        char *end;
        n *= strtoul(at, &end, 10);
        at = end + (*end == 'x');
    }
    for (size_t i = 0; i < N_TYPES; i++)
        if (!strcmp(TYPES[i].text, at)) {
            char type[TYPE];
            snprintf(type, TYPE, "%.*s%s", (int)(at - text), text, TYPES[i].name);
            return buffer_new(type, n * TYPES[i].bytes);
        }
    return NULL;
}

static pjrt_error *buffer_from_host(void *args)
{
    pjrt_from_host_args *a = args;
    char type[TYPE] = "";
    size_t n = 1, length = 0, k = 0;
    for (size_t i = 0; i < a->n_dim; i++) {
        length += (size_t)snprintf(type + length, TYPE - length, "%lldx", (long long)a->dim[i]);
        n *= (size_t)a->dim[i];
    }
    while (k < N_TYPES && TYPES[k].type != a->type)
        k++;
    if (k == N_TYPES)
        return error_new("unknown element type", "");
    snprintf(type + length, TYPE - length, "%s", TYPES[k].name);
    pjrt_buffer *b = buffer_new(type, n * TYPES[k].bytes);
    if (!b)
        return error_new("no memory", "");
    memcpy(b->data, a->data, b->bytes);
    a->buffer = b;
    a->done = NULL;
    return NULL;
}

static pjrt_error *buffer_to_host(void *args)
{
    pjrt_to_host_args *a = args;
    if (a->to_size != a->source->bytes)
        return error_new("an array of another size: ", a->source->type);
    memcpy(a->to, a->source->data, a->to_size);
    a->event = NULL;
    return NULL;
}

static pjrt_error *object_free(void *args)
{
    free(((pjrt_object_args *)args)->object);
    return NULL;
}

/* ---- Runs ------------------------------------------------------------------------------------------------------------------ */

typedef struct run {
    pjrt_client *client;
    unsigned number;
    char *argv[2 * ARGUMENTS + 8];
    size_t n_argv, fixed;
} run;

static void file_name(const run *r, const char *what, size_t i, char path[PATH + 60])
{
    snprintf(path, PATH + 60, "%s/run%u.%s%zu.bin", r->client->folder, r->number, what, i);
}

/* Writes the arguments and adds what names them to the command. */
static pjrt_error *run_prepare(run *r, const pjrt_execute_args *a)
{
    const pjrt_loaded *l = a->loaded;
    char path[PATH + 60];
    for (size_t i = 0; i < a->n_argument; i++) {
        const pjrt_buffer *b = a->argument[0][i];
        file_name(r, "in", i, path);
        if (!file_write(path, b->data, b->bytes))
            return error_new("cannot write ", path);
        if (asprintf(&r->argv[r->n_argv++], "--input=%s=@%s", b->type, path) < 0)
            return error_new("no memory", "");
    }
    for (size_t i = 0; i < l->n_result; i++) {
        file_name(r, "out", i, path);
        if (asprintf(&r->argv[r->n_argv++], "--output=@%s", path) < 0)
            return error_new("no memory", "");
    }
    return NULL;
}

static pjrt_error *run_results(const run *r, const pjrt_execute_args *a)
{
    const pjrt_loaded *l = a->loaded;
    for (size_t i = 0; i < l->n_result; i++) {
        char path[PATH + 60];
        pjrt_buffer *b = buffer_for(l->result[i]);
        file_name(r, "out", i, path);
        if (!b || !file_read(path, b->data, b->bytes)) {
            free(b);
            while (i-- > 0)
                free(a->result[0][i]);
            return error_new("no result of type ", l->result[b ? 0 : i]);
        }
        a->result[0][i] = b;
    }
    return NULL;
}

static void run_clean(run *r, size_t n_in, size_t n_out)
{
    char path[PATH + 60];
    for (size_t i = 0; i < n_in + n_out; i++) {
        file_name(r, i < n_in ? "in" : "out", i < n_in ? i : i - n_in, path);
        if (!files_kept())
            unlink(path);
    }
    for (size_t i = r->fixed; i < r->n_argv; i++)
        free(r->argv[i]);
}

static pjrt_error *loaded_execute(void *args)
{
    pjrt_execute_args *a = args;
    pjrt_loaded *l = a->loaded;
    char module[PATH + 60], log[PATH + 60];
    if (a->n_argument > ARGUMENTS)
        return error_new("too many arguments", "");
    run *r = calloc(1, sizeof *r);
    if (!r)
        return error_new("no memory", "");
    r->client = l->client;
    r->number = atomic_fetch_add(&l->client->runs, 1);
    snprintf(module, sizeof module, "--module=%s", l->module);
    file_name(r, "log", 0, log);
    char *const fixed[] = {"timeout", SECONDS, l->client->runner, module, "--device=local-sync", "--function=main"};
    r->fixed = r->n_argv = sizeof fixed / sizeof *fixed;
    memcpy(r->argv, fixed, sizeof fixed);
    pjrt_error *error = run_prepare(r, a);
    if (!error)
        error = process_run(r->argv, log, "iree-run-module: ");
    if (!error)
        error = run_results(r, a);
    run_clean(r, a->n_argument, l->n_result);
    unlink(log);
    free(r);
    if (a->done)
        a->done[0] = NULL;
    return error;
}

/* ---- The table ------------------------------------------------------------------------------------------------------------- */

static pjrt_error *error_message(void *args)
{
    pjrt_error_args *a = args;
    a->text = a->error->text;
    a->text_size = strlen(a->text);
    return NULL;
}

static pjrt_error *call_nothing(void *args)
{
    (void)args;
    return NULL;
}

static pjrt_error *call_refused(void *args)
{
    (void)args;
    return error_new("not in this plugin", "");
}

const pjrt_api *GetPjrtApi(void);
__attribute__((visibility("default"))) const pjrt_api *GetPjrtApi(void)
{
    static pjrt_api table = {.size = sizeof table, .major = PJRT_MAJOR, .minor = PJRT_LEAST_MINOR};
    for (int i = 0; i < PJRT_CALLS; i++)
        table.call[i] = call_refused;
    table.call[PJRT_ERROR_DESTROY] = object_free; /* the error is its one object */
    table.call[PJRT_ERROR_MESSAGE] = error_message;
    table.call[PJRT_PLUGIN_INITIALIZE] = call_nothing;
    table.call[PJRT_CLIENT_CREATE] = client_create;
    table.call[PJRT_CLIENT_DESTROY] = client_destroy;
    table.call[PJRT_CLIENT_PLATFORM_NAME] = client_platform;
    table.call[PJRT_CLIENT_PLATFORM_VERSION] = text_iree;
    table.call[PJRT_CLIENT_ADDRESSABLE_DEVICES] = client_devices;
    table.call[PJRT_CLIENT_COMPILE] = client_compile;
    table.call[PJRT_CLIENT_BUFFER_FROM_HOST_BUFFER] = buffer_from_host;
    table.call[PJRT_DEVICE_DESCRIPTION_ID] = call_nothing; /* 0 */
    table.call[PJRT_DEVICE_DESCRIPTION_KIND] = text_iree;
    table.call[PJRT_DEVICE_GET_DESCRIPTION] = device_description;
    table.call[PJRT_LOADED_DESTROY] = loaded_destroy;
    table.call[PJRT_LOADED_EXECUTE] = loaded_execute;
    table.call[PJRT_BUFFER_DESTROY] = object_free;
    table.call[PJRT_BUFFER_TO_HOST_BUFFER] = buffer_to_host;
    return &table;
}
