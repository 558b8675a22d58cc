/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serves a classifier of texts from a saved folder: each line that comes by a Unix socket is answered by a line, the label and its score.
 * One thread computes, and waits for lines of all clients by poll. SIGTERM and SIGINT reach a thread of their own, which calls yk_cancel.
 *
 *   serve MODEL-DIR SOCKET               until a signal comes
 *   serve MODEL-DIR SOCKET --bench N     asks itself N lines of 4 to 60 words, prints the latencies, and ends
 */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include <yoke/yoke.h>

enum { CLIENTS = 64, LINE = 4096, TOKENS = 128, CLASSES = 1024, STEP = 8 }; /* lengths are rounded up to a multiple of STEP */

typedef struct server {
    yk_job *job;
    yk_model *model;
    yk_tokenizer *tokenizer;
    yk_settings *settings;
    const char *path;
    int end[2]; /* a pipe; a byte in it ends the server */
    int n_bench;
    int used[CLIENTS];
    char line[CLIENTS][LINE];
    struct pollfd watched[CLIENTS + 2]; /* the pipe, the socket, the clients */
} server;

/* ---- One line ---- */

static void text_classify(server *s, const char *text, char *answer, size_t capacity)
{
    int32_t id[TOKENS] = {0}, keep[TOKENS] = {0}, type[TOKENS] = {0};
    static float score[CLASSES];
    const int64_t n = yk_tokenizer_encode(s->tokenizer, text, TOKENS, id);
    if (n < 1) {
        snprintf(answer, capacity, "error: the line is empty, or not UTF-8\n");
        return;
    }
    const int64_t width = (n + STEP - 1) / STEP * STEP, dim[2] = {1, width};
    for (int64_t i = 0; i < n; i++)
        keep[i] = 1;
    yk_batch batch = {.input_ids = yk_input(s->job, YK_I32, 2, dim, id), .rows = 1, .global_rows = 1, .width = width};
    batch.attention_mask = yk_input(s->job, YK_I32, 2, dim, keep);
    batch.token_type_ids = yk_input(s->job, YK_I32, 2, dim, type);
    yk_t scores = yk_softmax(yk_forward(s->model, &batch));
    const int64_t classes = yk_dim(scores, -1);
    if (classes > CLASSES)
        yk_fail(s->job, YK_E_ARG, "more classes than this server has capacity for");
    yk_read(scores, score, (size_t)(classes > 0 ? classes : 0) * sizeof *score);
    yk_end(s->job);
    uint32_t best = 0;
    for (uint32_t i = 1; yk_ok(s->job) && i < classes; i++)
        best = score[i] > score[best] ? i : best;
    const char *label = yk_settings_label(s->settings, best);
    if (label)
        snprintf(answer, capacity, "%s\t%.4f\n", label, (double)score[best]);
    else
        snprintf(answer, capacity, "%u\t%.4f\n", best, (double)score[best]);
}

/* ---- Clients ---- */

static void client_drop(server *s, int i)
{
    close(s->watched[i + 2].fd);
    s->watched[i + 2].fd = -1;
    s->used[i] = 0;
}

static void client_add(server *s)
{
    const int fd = accept(s->watched[1].fd, NULL, NULL);
    for (int i = 0; i < CLIENTS && fd >= 0; i++)
        if (s->watched[i + 2].fd < 0) {
            s->watched[i + 2] = (struct pollfd){.fd = fd, .events = POLLIN};
            return;
        }
    if (fd >= 0)
        close(fd); /* the house is full */
}

/* Answers the whole lines that are there. A client that is gone, sends too long a line, or does not read its answers, is dropped. */
static void client_serve(server *s, int i)
{
    char answer[512], *line = s->line[i], *end;
    const int fd = s->watched[i + 2].fd;
    const ssize_t n = recv(fd, line + s->used[i], (size_t)(LINE - 1 - s->used[i]), 0);
    if (n <= 0) {
        client_drop(s, i);
        return;
    }
    s->used[i] += (int)n;
    line[s->used[i]] = 0;
    while (yk_ok(s->job) && (end = memchr(line, '\n', (size_t)s->used[i]))) {
        *end = 0;
        text_classify(s, line, answer, sizeof answer);
        s->used[i] -= (int)(end + 1 - line);
        memmove(line, end + 1, (size_t)s->used[i] + 1);
        if (yk_ok(s->job) && send(fd, answer, strlen(answer), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
            client_drop(s, i);
            return;
        }
    }
    if (s->used[i] == LINE - 1)
        client_drop(s, i);
}

static void clients_serve(server *s)
{
    while (yk_ok(s->job) && poll(s->watched, CLIENTS + 2, -1) >= 0 && !s->watched[0].revents) {
        if (s->watched[1].revents)
            client_add(s);
        for (int i = 0; i < CLIENTS; i++)
            if (s->watched[i + 2].fd >= 0 && s->watched[i + 2].revents)
                client_serve(s, i);
    }
}

static int socket_at(server *s, bool listens)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof at.sun_path, "%s", s->path);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listens && strlen(s->path) < sizeof at.sun_path && !bind(fd, (struct sockaddr *)&at, sizeof at) && !listen(fd, CLIENTS))
        return fd;
    if (!listens && !connect(fd, (struct sockaddr *)&at, sizeof at))
        return fd;
    yk_fail(s->job, YK_E_IO, "the socket cannot be opened: expected a short path that does not exist yet, in a folder of yours");
    close(fd);
    return -1;
}

/* ---- Other threads ---- */

static void *signals_await(void *argument)
{
    server *s = argument;
    sigset_t set;
    int number;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigwait(&set, &number);
    yk_cancel(s->job); /* a step that runs ends */
    if (write(s->end[1], "", 1) < 0) /* and so does poll */
        abort();
    return NULL;
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static int times_compare(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static void times_print(const char *what, double *ms, int n)
{
    qsort(ms, (size_t)n, sizeof *ms, times_compare);
    printf("%s: %d lines, p50 %.2f ms, p99 %.2f ms\n", what, n, ms[n / 2], ms[n * 99 / 100]);
}

/* A client: the first lines of each length make plans. */
static void *lines_ask(void *argument)
{
    server *s = argument;
    char line[LINE], answer[512];
    double *ms = calloc((size_t)s->n_bench, sizeof *ms);
    const int fd = socket_at(s, false);
    for (int round = 0; ms && fd >= 0 && round < 2; round++) {
        for (int i = 0; i < s->n_bench; i++) {
            int at = 0;
            for (int k = 0; k < 4 + i * 7 % 57; k++)
                at += sprintf(line + at, "card ");
            line[at - 1] = '\n';
            const double begin = now_ms();
            if (send(fd, line, (size_t)at, MSG_NOSIGNAL) != at || recv(fd, answer, sizeof answer, 0) <= 0)
                i = round = s->n_bench; /* the server has ended */
            else
                ms[i] = now_ms() - begin;
        }
        if (round < 2)
            times_print(round ? "warm" : "first", ms, s->n_bench);
    }
    free(ms);
    if (write(s->end[1], "", 1) < 0)
        abort();
    close(fd);
    return NULL;
}

int main(int argc, char **argv)
{
    static server s;
    sigset_t set;
    pthread_t waiter, client;
    if (argc != 3 && !(argc == 5 && !strcmp(argv[3], "--bench") && atoi(argv[4]) > 0))
        return fprintf(stderr, "usage: serve MODEL-DIR SOCKET [--bench N]\n"), 2;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set, NULL); /* before any thread is made, so that each of them has it */
    s.job = yk_open(&(yk_config){.inference = true, .quiet = true});
    s.settings = yk_settings_new(s.job, NULL);
    char config[4200];
    snprintf(config, sizeof config, "%s/config.json", argv[1]);
    yk_settings_json(s.settings, config);
    s.model = yk_model_from_pretrained(s.job, argv[1], NULL, NULL);
    s.tokenizer = yk_tokenizer_open(s.job, argv[1]);
    s.path = argv[2];
    s.n_bench = argc == 5 ? atoi(argv[4]) : 0;
    for (int i = 0; i < CLIENTS + 2; i++)
        s.watched[i].fd = -1;
    if (yk_ok(s.job) && pipe(s.end))
        yk_fail(s.job, YK_E_IO, "no descriptors for a pipe");
    const int fd = yk_ok(s.job) ? socket_at(&s, true) : -1;
    bool asks = false;
    if (yk_ok(s.job)) {
        s.watched[0] = (struct pollfd){.fd = s.end[0], .events = POLLIN};
        s.watched[1] = (struct pollfd){.fd = fd, .events = POLLIN};
        if (!pthread_create(&waiter, NULL, signals_await, &s))
            pthread_detach(waiter);
        asks = s.n_bench && !pthread_create(&client, NULL, lines_ask, &s);
        clients_serve(&s);
    }
    for (int i = 1; fd >= 0 && i < CLIENTS + 2; i++)
        if (s.watched[i].fd >= 0)
            close(s.watched[i].fd);
    if (asks)
        pthread_join(client, NULL);
    if (fd >= 0)
        unlink(s.path);
    yk_settings_free(s.settings);
    const bool stopped = yk_error_status(s.job) == YK_E_CANCELLED;
    const int code = yk_close(s.job);
    return stopped ? 0 : code;
}
