/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trackers of a training (--report-to): a csv table and TensorBoard's event files.
 *
 * reports.c opens and closes them on rank 0, loop.c adds the figures of a log line or an evaluation; all in the main thread. An event file
 * is a row of TFRecord frames, each with a protocol buffer `Event`. The code that writes one has its fields in its comment.
 */
#include "tools/train/trackers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/cli.h"
#include "tools/train/logfile.h"

typedef struct tracker_file {
    FILE *file; /* NULL: not wanted */
    char path[4352];
} tracker_file;

struct trackers {
    tracker_file csv, events;
};

/* CRC-32C (Castagnoli), masked as TFRecord files have it: rotated by 15 bits, plus a constant. */
static uint32_t masked_crc(const uint8_t *data, size_t n)
{
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < n; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    crc = ~crc;
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static void write_little(FILE *f, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        fputc((int)(v >> 8 * i & 0xff), f);
}

/* A record: length, its checksum, data, their checksum. */
static void write_record(FILE *f, const uint8_t *data, size_t n)
{
    uint8_t length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)((uint64_t)n >> 8 * i);
    fwrite(length, 1, sizeof length, f);
    write_little(f, masked_crc(length, sizeof length), 4);
    fwrite(data, 1, n, f);
    write_little(f, masked_crc(data, n), 4);
}

/* A protocol buffer under construction; fields here are far below its size. */
typedef struct message {
    uint8_t data[512];
    size_t n;
} message;

static void put_byte(message *m, uint8_t v)
{
    if (m->n < sizeof m->data)
        m->data[m->n++] = v;
}

static void put_varint(message *m, uint64_t v)
{
    for (; v > 0x7f; v >>= 7)
        put_byte(m, (uint8_t)(v | 0x80));
    put_byte(m, (uint8_t)v);
}

static void put_fixed(message *m, uint8_t key, const void *v, size_t n) /* numbers of a little-endian machine */
{
    put_byte(m, key);
    for (size_t i = 0; i < n; i++)
        put_byte(m, ((const uint8_t *)v)[i]);
}

static void put_bytes(message *m, uint8_t key, const void *v, size_t n)
{
    put_byte(m, key);
    put_varint(m, n);
    for (size_t i = 0; i < n; i++)
        put_byte(m, ((const uint8_t *)v)[i]);
}

/* Event { double wall_time = 1; int64 step = 2; string file_version = 3; Summary summary = 5 } */
static message event_new(void)
{
    message m = {.n = 0};
    struct timespec now;
    double seconds;
    clock_gettime(CLOCK_REALTIME, &now);
    seconds = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    put_fixed(&m, 1 << 3 | 1, &seconds, sizeof seconds);
    return m;
}

static void write_version(FILE *f)
{
    static const char version[] = "brain.Event:2";
    message m = event_new();
    put_bytes(&m, 3 << 3 | 2, version, sizeof version - 1);
    write_record(f, m.data, m.n);
}

/* Event { SessionLog session_log = 7 }, SessionLog { SessionStatus status = 1 }, START = 1: earlier files' figures of this step and later
 * ones are hidden. */
static void write_start(FILE *f, uint64_t step)
{
    static const char start[] = {1 << 3, 1};
    message m = event_new();
    put_byte(&m, 2 << 3);
    put_varint(&m, step);
    put_bytes(&m, 7 << 3 | 2, start, sizeof start);
    write_record(f, m.data, m.n);
}

/* Summary { repeated Value value = 1 }, Value { string tag = 1; float simple_value = 2 } */
static void write_scalar(FILE *f, uint64_t step, const char *tag, double value)
{
    const float narrow = (float)value;
    message m = event_new(), v = {.n = 0}, summary = {.n = 0};
    put_bytes(&v, 1 << 3 | 2, tag, strlen(tag));
    put_fixed(&v, 2 << 3 | 5, &narrow, sizeof narrow);
    put_bytes(&summary, 1 << 3 | 2, v.data, v.n);
    put_byte(&m, 2 << 3);
    put_varint(&m, step);
    put_bytes(&m, 5 << 3 | 2, summary.data, summary.n);
    write_record(f, m.data, m.n);
}

static bool open_file(tracker_file *t, bool wanted, int64_t kept, char *text, size_t size)
{
    t->file = wanted ? logfile_open(t->path, kept) : NULL;
    if (wanted && !t->file)
        snprintf(text, size, "--report-to: %.400s: %s", t->path, strerror(errno));
    return !wanted || t->file;
}

trackers *trackers_open(const char *dir, bool csv, bool tensorboard, int64_t kept, char *text, size_t size)
{
    trackers *t = calloc(1, sizeof *t);
    char host[128] = "";
    if (!t) {
        snprintf(text, size, "--report-to: out of memory");
        return NULL;
    }
    gethostname(host, sizeof host - 1);
    snprintf(t->csv.path, sizeof t->csv.path, "%s/log.csv", dir);
    snprintf(t->events.path, sizeof t->events.path, "%s/events.out.tfevents.%lld.%s.%ld", dir, (long long)time(NULL), host,
             (long)getpid());
    if (!open_file(&t->csv, csv, kept, text, size) || !open_file(&t->events, tensorboard, LOGFILE_ANEW, text, size)) {
        yk__cli_close_file(t->csv.file);
        free(t);
        return NULL;
    }
    if (t->csv.file && ftell(t->csv.file) <= 0)
        fprintf(t->csv.file, "step,epoch,tag,value\n");
    if (t->events.file)
        write_version(t->events.file);
    if (t->events.file) /* a new run hides another one of the folder */
        write_start(t->events.file, kept < 0 ? 0 : (uint64_t)kept + 1);
    return t;
}

void trackers_add(trackers *t, uint64_t step, double epoch, const char *tag, double value)
{
    if (t && t->csv.file)
        fprintf(t->csv.file, "%llu,%.6g,%s,%.9g\n", (unsigned long long)step, epoch, tag, value);
    if (t && t->events.file)
        write_scalar(t->events.file, step, tag, value);
}

void trackers_flush(trackers *t)
{
    if (t && t->csv.file)
        fflush(t->csv.file);
    if (t && t->events.file)
        fflush(t->events.file);
}

bool trackers_close(trackers *t, char *text, size_t size)
{
    tracker_file *const all[2] = {t ? &t->csv : NULL, t ? &t->events : NULL};
    bool whole = true;
    for (int i = 0; t && i < 2; i++) {
        const char *reason = yk__cli_close_file(all[i]->file);
        if (reason)
            snprintf(text, size, "--report-to: %.400s: %s", all[i]->path, reason);
        whole = whole && !reason;
    }
    free(t);
    return whole;
}
