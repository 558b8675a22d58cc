/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads safetensors, the format of model files: names, shapes and data of tensors. Checkpoints, yk_weights and `yoke inspect` open files
 * with it, in the caller's thread.
 *
 * Opening reads only headers, and checks each against its file's size, so that reading data later needs no check but that of the read
 * itself. A model in several files has an index, whose weight_map names each tensor's file; each file is a part. Binary search leads from a
 * name to its tensor.
 */
#include "core/io/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/absent.h"
#include "core/base/advance.h"
#include "core/base/byte_order.h"
#include "core/base/hash.h"
#include "core/base/mem.h"
#include "core/io/foreign.h"
#include "core/io/json.h"
#include "core/io/stamp.h"

#define HEADER_LIMIT 100000000u /* bytes; the format's own limit */
#define SAMPLE 4096u            /* bytes; a sign reads SAMPLES of them */
#define SAMPLES 16u

struct part {
    char *path;
    int fd; /* -1 for memory */
    const uint8_t *mem; /* the caller's memory in place of a file; NULL if fd is open */
    uint64_t size, data_at; /* bytes of the file; offset of its data */
    yk__watch *watch;       /* checksums of the bytes read; NULL if in memory */
};

struct yk__safetensors {
    uint32_t held; /* closes that are still due before the last */
    char *path; /* the file or index that was opened */
    struct part *parts;
    int n_parts;
    yk__safetensor *tensor;
    size_t count, cap;
    const yk__safetensor **by_name;
    void **data; /* per tensor, the copy that yk__safetensors_data keeps; NULL before its first call */
    json_t *meta; /* metadata of the first part that has any; NULL if none has */
};

/* The format's types. bits: size of an element; dtype: -1 if Yoke has no such type. unit: bytes of a number, whose order a big-endian
 * machine swaps: C64 has two numbers of 4 bytes. */
static const struct {
    const char *name;
    int bits, unit, dtype;
} types[] = {
#define X(e, number, name, st, bytes) {st, 8 * (bytes), bytes, e},
    YK_DTYPE_TABLE(X)
#undef X
        {"I16", 16, 2, -1},
    {"U16", 16, 2, -1},
    {"U32", 32, 4, -1},
    {"U64", 64, 8, -1},
    {"C64", 64, 4, -1},
    {"F8_E8M0", 8, 1, -1},
    {"F8_E4M3FNUZ", 8, 1, -1},
    {"F8_E5M2FNUZ", 8, 1, -1},
    {"F4", 4, 1, -1},
    {"F6_E2M3", 6, 1, -1},
    {"F6_E3M2", 6, 1, -1},
};
#define NTYPES ((int)(sizeof types / sizeof types[0]))

static int find_type(const char *name)
{
    for (int i = 0; i < NTYPES; i++)
        if (!strcmp(types[i].name, name))
            return i;
    return -1;
}

/* ---- bytes of a part ---- */

enum { CHUNK = 16 << 20 };

static yk_status part_read(const struct part *part, uint64_t at, void *out, uint64_t n, yk_error *err)
{
    const uint64_t from = at;
    uint8_t *to = out;
    if (part->fd < 0) {
        if (n)
            memcpy(to, part->mem + at, (size_t)n);
        return YK_OK;
    }
    while (n) {
        yk__act_begin(YK__ACT_FILE);
        ssize_t r = pread(part->fd, to, (size_t)(n < CHUNK ? n : CHUNK), (off_t)at); /* each read counts as progress of this rank */
        yk__act_end(YK__ACT_FILE);
        if (r < 0 && errno == EINTR)
            continue;
        if (r <= 0)
            return yk__fail(err, YK_E_IO, "%s: reading failed at byte %" PRIu64 ": %s", part->path, at,
                            r ? strerror(errno) : "the file has become shorter");
        yk__advance();
        to += r;
        at += (uint64_t)r;
        n -= (uint64_t)r;
    }
    yk__watch_place(part->watch, from, out, (size_t)(at - from));
    return yk__watch_check(part->watch, part->fd, part->path, err);
}

/* O_NONBLOCK: opening a FIFO would wait for a writer, before the check for a regular file refuses it. */
static yk_status part_open(struct part *part, const char *path, yk_error *err)
{
    struct stat st;
    part->path = yk__strdup(path);
    if (!part->path)
        return yk__fail_mem(err, strlen(path), "a path");
    part->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (part->fd < 0 || fstat(part->fd, &st))
        return yk__fail_open(err, path, errno);
    if (!S_ISREG(st.st_mode))
        return yk__fail(err, YK_E_ARG, "%s: expected a regular file", path);
    part->size = (uint64_t)st.st_size;
    return yk__watch_new(&st, &part->watch, err);
}

/* ---- the header ---- */

/* Fails with YK_E_FORMAT and the program's name if the file has another program's format. A file is ours if its header is shorter than
 * 2^40 bytes and begins as an object. */
static yk_status part_foreign(const struct part *part, yk_error *err)
{
    uint8_t head[YK__FOREIGN_HEAD];
    const uint64_t n = part->size < sizeof head ? part->size : sizeof head;
    if (part_read(part, 0, head, n, err))
        return err->status;
    if (n > 8 && head[8] == '{' && !head[5] && !head[6] && !head[7])
        return YK_OK;
    return yk__foreign_refuse(part->path, YK__FOREIGN_TENSORS, head, (size_t)n, part->size, err);
}

/* Reads the header's text; the caller frees *text. */
static yk_status header_text(struct part *part, char **text, size_t *bytes, yk_error *err)
{
    uint8_t b[8];
    uint64_t n = 0;
    yk_status s = part_foreign(part, err);
    if (s)
        return s;
    if (part->size < 8)
        return yk__fail(err, YK_E_FORMAT, "%s: byte 0: expected the 8 bytes of a header length, found %" PRIu64,
                        part->path, part->size);
    s = part_read(part, 0, b, 8, err);
    if (s)
        return s;
    for (int i = 7; i >= 0; i--)
        n = n << 8 | b[i];
    if (n > HEADER_LIMIT)
        return yk__fail(err, YK_E_FORMAT, "%s: byte 0: header length %" PRIu64 ", expected at most %u", part->path, n,
                        HEADER_LIMIT);
    if (n > part->size - 8)
        return yk__fail(err, YK_E_FORMAT, "%s: byte 0: header length %" PRIu64 ", but only %" PRIu64 " bytes follow",
                        part->path, n, part->size - 8);
    *text = yk__malloc((size_t)n + 1);
    if (!*text)
        return yk__fail_mem(err, n, "a safetensors header");
    *bytes = (size_t)n;
    part->data_at = 8 + n;
    s = part_read(part, 8, *text, n, err);
    if (s)
        yk__free(*text);
    return s;
}

static yk_status tensor_fail(const struct part *part, const char *name, const char *what, yk_error *err)
{
    return yk__fail(err, YK_E_FORMAT, "%s: tensor '%.100s': %s", part->path, name, what);
}

/* Checks every dimension, also those of an empty tensor: a product of its other dimensions must not overflow. */
static yk_status read_shape(const struct part *part, yk__safetensor *tensor, const json_t *v, yk_error *err)
{
    uint64_t n = 1;
    bool is_empty = false;
    size_t rank = json_array_size(v);
    int64_t *shape;
    if (!json_is_array(v) || rank > INT32_MAX)
        return tensor_fail(part, tensor->name, "shape: expected an array of integers", err);
    shape = yk__calloc(rank, sizeof *shape);
    if (!shape)
        return yk__fail_mem(err, rank * sizeof *shape, "a shape");
    tensor->shape = shape;
    tensor->rank = (int)rank;
    for (size_t i = 0; i < rank; i++) {
        const json_t *d = json_array_get(v, i);
        shape[i] = json_integer_value(d);
        if (!json_is_integer(d) || shape[i] < 0)
            return tensor_fail(part, tensor->name, "shape: expected integers that are not negative", err);
        if (shape[i] && n > (uint64_t)INT64_MAX / (uint64_t)shape[i])
            return tensor_fail(part, tensor->name, "shape: the number of elements overflows 64 bits", err);
        n *= shape[i] ? (uint64_t)shape[i] : 1;
        is_empty = is_empty || !shape[i];
    }
    tensor->elements = is_empty ? 0 : (int64_t)n;
    return YK_OK;
}

static yk_status read_offsets(const struct part *part, yk__safetensor *tensor, const json_t *v, int bits, yk_error *err)
{
    const json_t *b = json_array_get(v, 0), *e = json_array_get(v, 1);
    uint64_t n = (uint64_t)tensor->elements;
    if (json_array_size(v) != 2 || !json_is_integer(b) || !json_is_integer(e))
        return tensor_fail(part, tensor->name, "data_offsets: expected two integers", err);
    if (json_integer_value(b) < 0 || json_integer_value(e) < json_integer_value(b))
        return tensor_fail(part, tensor->name, "data_offsets: expected 0 <= begin <= end", err);
    if (n > UINT64_MAX / (uint64_t)bits)
        return tensor_fail(part, tensor->name, "shape: the size overflows 64 bits", err);
    if (n * (uint64_t)bits % 8)
        return tensor_fail(part, tensor->name, "shape: the elements do not fill whole bytes", err);
    tensor->begin = (uint64_t)json_integer_value(b);
    tensor->bytes = (uint64_t)json_integer_value(e) - tensor->begin;
    if (n * (uint64_t)bits / 8 != tensor->bytes)
        return yk__fail(err, YK_E_FORMAT,
                        "%s: tensor '%.100s': data_offsets span %" PRIu64 " bytes, dtype and shape need %" PRIu64,
                        part->path, tensor->name, tensor->bytes, n * (uint64_t)bits / 8);
    return YK_OK;
}

static yk_status read_tensor(const struct part *part, yk__safetensor *tensor, const char *key, const json_t *v,
                             yk_error *err)
{
    const json_t *dtype = json_object_get(v, "dtype"), *shape = json_object_get(v, "shape");
    const json_t *offsets = json_object_get(v, "data_offsets");
    int k;
    yk_status s;
    tensor->name = yk__strdup(key);
    if (!tensor->name)
        return yk__fail_mem(err, strlen(key), "a tensor's name");
    if (!json_is_object(v))
        return tensor_fail(part, key, "expected an object", err);
    if (!dtype || !shape || !offsets)
        return tensor_fail(part, key, "expected the keys dtype, shape and data_offsets", err);
    k = json_is_string(dtype) ? find_type(json_string_value(dtype)) : -1;
    if (k < 0)
        return yk__fail(err, YK_E_FORMAT, "%s: tensor '%.100s': expected a dtype of the format (F32, BF16, ..), got '%.20s'", part->path,
                        key, json_is_string(dtype) ? json_string_value(dtype) : yk__json_type(dtype));
    tensor->dtype_name = types[k].name;
    tensor->dtype = types[k].dtype;
    tensor->unit = types[k].unit;
    s = read_shape(part, tensor, shape, err);
    if (!s)
        s = read_offsets(part, tensor, offsets, types[k].bits, err);
    return s;
}

static yk_status read_meta(yk__safetensors *tensors, const struct part *part, json_t *v, yk_error *err)
{
    const char *key;
    json_t *x;
    if (!json_is_object(v))
        return yk__fail(err, YK_E_FORMAT, "%s: __metadata__: expected an object, found %s", part->path,
                        yk__json_type(v));
    json_object_foreach(v, key, x) if (!json_is_string(x)) return yk__fail(
        err, YK_E_FORMAT, "%s: __metadata__ '%.100s': expected a string, found %s", part->path, key, yk__json_type(x));
    if (!tensors->meta)
        tensors->meta = json_incref(v);
    return YK_OK;
}

static yk_status read_entries(yk__safetensors *tensors, int file, json_t *header, yk_error *err)
{
    const struct part *part = &tensors->parts[file];
    size_t need = tensors->count + json_object_size(header);
    const char *key;
    json_t *v;
    if (yk__grow(&tensors->tensor, &tensors->cap, need, sizeof *tensors->tensor))
        return yk__fail_mem(err, need * sizeof *tensors->tensor, "the tensors of a file");
    json_object_foreach(header, key, v)
    {
        yk__safetensor *tensor = &tensors->tensor[tensors->count];
        yk_status s;
        if (!strcmp(key, "__metadata__")) {
            s = read_meta(tensors, part, v, err);
        } else {
            memset(tensor, 0, sizeof *tensor);
            tensor->file = file;
            tensors->count++;
            s = read_tensor(part, tensor, key, v, err);
        }
        if (s)
            return s;
    }
    return YK_OK;
}

static int by_begin(const void *a, const void *b)
{
    const yk__safetensor *x = *(const yk__safetensor *const *)a, *y = *(const yk__safetensor *const *)b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* Checks that the tensors' data lie one after another, without hole or overlap, and end with the file. */
static yk_status check_layout(const yk__safetensors *tensors, size_t first, const struct part *part, yk_error *err)
{
    size_t n = tensors->count - first;
    uint64_t at = 0;
    const yk__safetensor **o = yk__calloc(n, sizeof *o);
    yk_status s = YK_OK;
    if (!o)
        return yk__fail_mem(err, n * sizeof *o, "the order of tensors");
    for (size_t i = 0; i < n; i++)
        o[i] = &tensors->tensor[first + i];
    qsort(o, n, sizeof *o, by_begin);
    for (size_t i = 0; i < n && !s; i++) {
        if (o[i]->begin != at)
            s = yk__fail(err, YK_E_FORMAT,
                         "%s: tensor '%.100s': data_offsets begin at %" PRIu64 ", expected %" PRIu64
                         " (no hole, no overlap)",
                         part->path, o[i]->name, o[i]->begin, at);
        at = o[i]->begin + o[i]->bytes;
    }
    yk__free(o);
    if (!s && at != part->size - part->data_at)
        s = yk__fail(err, YK_E_FORMAT, "%s: byte %" PRIu64 ": %" PRIu64 " bytes of data, the header describes %" PRIu64,
                     part->path, part->data_at, part->size - part->data_at, at);
    return s;
}

static yk_status parse_part(yk__safetensors *tensors, int file, yk_error *err)
{
    struct part *part = &tensors->parts[file];
    size_t bytes = 0, first = tensors->count;
    char *text = NULL;
    json_t *header = NULL;
    yk_status s = header_text(part, &text, &bytes, err);
    if (s)
        return s;
    if (bytes == 0 || text[0] != '{')
        s = yk__fail(err, YK_E_FORMAT, "%s: byte 8: expected a header that begins with '{'", part->path);
    else
        s = yk__json_parse(part->path, text, bytes, YK__JSON_UNIQUE_KEYS, &header, err);
    yk__free(text);
    if (s)
        return s;
    s = read_entries(tensors, file, header, err);
    json_decref(header);
    if (!s)
        s = check_layout(tensors, first, part, err);
    return s;
}

/* ---- names ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const yk__safetensor *const *)a)->name, (*(const yk__safetensor *const *)b)->name);
}

static yk_status index_names(yk__safetensors *tensors, yk_error *err)
{
    tensors->by_name = yk__calloc(tensors->count, sizeof *tensors->by_name);
    tensors->data = yk__calloc(tensors->count, sizeof *tensors->data);
    if (!tensors->by_name || !tensors->data)
        return yk__fail_mem(err, tensors->count * 2 * sizeof(void *), "the names of tensors");
    for (size_t i = 0; i < tensors->count; i++)
        tensors->by_name[i] = &tensors->tensor[i];
    qsort(tensors->by_name, tensors->count, sizeof *tensors->by_name, by_name);
    for (size_t i = 1; i < tensors->count; i++)
        if (!strcmp(tensors->by_name[i - 1]->name, tensors->by_name[i]->name))
            return yk__fail(err, YK_E_FORMAT, "%s: tensor '%.100s' is in two files", tensors->path,
                            tensors->by_name[i]->name);
    return YK_OK;
}

const yk__safetensor *yk__safetensors_find(const yk__safetensors *tensors, const char *name)
{
    yk__safetensor key = {.name = name};
    const yk__safetensor *k = &key;
    const yk__safetensor **r = NULL;
    if (tensors->count)
        r = bsearch(&k, tensors->by_name, tensors->count, sizeof *tensors->by_name, by_name);
    return r ? *r : NULL;
}

/* ---- several files ---- */

static int part_of(const yk__safetensors *tensors, const char *path)
{
    for (int i = 0; i < tensors->n_parts; i++)
        if (!strcmp(tensors->parts[i].path, path))
            return i;
    return -1;
}

static char *path_in_same_folder(const char *path, const char *name)
{
    const char *slash = strrchr(path, '/');
    return slash ? yk__format("%.*s/%s", (int)(slash - path), path, name) : yk__strdup(name);
}

static yk_status add_part(yk__safetensors *tensors, const char *name, yk_error *err)
{
    char *path;
    yk_status s = YK_OK;
    if (!name[0] || name[0] == '.' || strchr(name, '/'))
        return yk__fail(err, YK_E_FORMAT, "%s: weight_map names '%.100s', expected a file in the same directory",
                        tensors->path, name);
    path = path_in_same_folder(tensors->path, name);
    if (!path)
        return yk__fail_mem(err, strlen(tensors->path), "a path");
    if (part_of(tensors, path) < 0) {
        tensors->parts[tensors->n_parts].fd = -1;
        s = part_open(&tensors->parts[tensors->n_parts++], path, err);
        if (!s)
            s = parse_part(tensors, tensors->n_parts - 1, err);
    }
    yk__free(path);
    return s;
}

/* Every tensor of the map must be in the file that the map names. */
static yk_status check_map(const yk__safetensors *tensors, json_t *map, yk_error *err)
{
    const char *key;
    json_t *v;
    json_object_foreach(map, key, v)
    {
        const yk__safetensor *tensor = yk__safetensors_find(tensors, key);
        const char *path = tensor ? strrchr(tensors->parts[tensor->file].path, '/') : NULL;
        path = path ? path + 1 : tensor ? tensors->parts[tensor->file].path : "no file";
        if (strcmp(path, json_string_value(v)))
            return yk__fail(err, YK_E_FORMAT, "%s: weight_map says '%.100s' is in %.100s, found it in %s",
                            tensors->path, key, json_string_value(v), path);
    }
    return YK_OK;
}

/* Opens each file that the map names, once. A map names at most as many files as it has tensors. */
static yk_status open_map(yk__safetensors *tensors, json_t *map, yk_error *err)
{
    const char *key;
    json_t *v;
    tensors->parts = yk__calloc(json_object_size(map), sizeof *tensors->parts);
    if (!tensors->parts)
        return yk__fail_mem(err, json_object_size(map) * sizeof *tensors->parts, "the files of an index");
    json_object_foreach(map, key, v)
    {
        yk_status s;
        if (!json_is_string(v))
            return yk__fail(err, YK_E_FORMAT, "%s: weight_map '%.100s': expected a file name, found %s", tensors->path,
                            key, yk__json_type(v));
        s = add_part(tensors, json_string_value(v), err);
        if (s)
            return s;
    }
    return YK_OK;
}

static yk_status open_index(yk__safetensors *tensors, yk_error *err)
{
    json_t *index, *map;
    yk_status s = yk__json_load(tensors->path, YK__JSON_UNIQUE_KEYS, &index, err);
    if (s)
        return s;
    s = yk__json_object(index, tensors->path, "weight_map", &map, err);
    if (!s)
        s = open_map(tensors, map, err);
    if (!s)
        s = index_names(tensors, err);
    if (!s)
        s = check_map(tensors, map, err);
    json_decref(index);
    return s;
}

/* ---- opening ---- */

static yk_status open_single(yk__safetensors *tensors, const void *data, size_t bytes, yk_error *err)
{
    yk_status s = YK_OK;
    tensors->parts = yk__calloc(1, sizeof *tensors->parts);
    if (!tensors->parts)
        return yk__fail_mem(err, sizeof *tensors->parts, "a file");
    tensors->parts[0].fd = -1;
    tensors->n_parts = 1;
    if (data) {
        tensors->parts[0].path = yk__strdup(tensors->path);
        tensors->parts[0].mem = data;
        tensors->parts[0].size = bytes;
        if (!tensors->parts[0].path)
            s = yk__fail_mem(err, strlen(tensors->path), "a path");
    } else {
        s = part_open(&tensors->parts[0], tensors->path, err);
    }
    if (!s)
        s = parse_part(tensors, 0, err);
    if (!s)
        s = index_names(tensors, err);
    return s;
}

/* Returns the file to open in a directory, or a copy of any other path. NULL if memory ran out. */
static char *path_resolve(const char *path)
{
    struct stat d, f;
    char *single;
    if (stat(path, &d) || !S_ISDIR(d.st_mode))
        return yk__strdup(path);
    single = yk__format("%s/model.safetensors", path);
    if (single && stat(single, &f)) {
        char *index = yk__format("%s/model.safetensors.index.json", path);
        if (!index || !stat(index, &f)) {
            yk__free(single);
            return index;
        }
        yk__free(index);
    }
    return single;
}

static int is_index(const char *path)
{
    size_t n = strlen(path);
    return n > 11 && !strcmp(path + n - 11, ".index.json");
}

/* Takes `path` over; NULL if memory for it ran out. data: the file's bytes in memory; NULL if `path` is on disk. */
static yk_status open_as(char *path, const void *data, size_t bytes, yk__safetensors **out, yk_error *err)
{
    yk__safetensors *tensors = path ? yk__calloc(1, sizeof *tensors) : NULL;
    yk_status s;
    if (!tensors) {
        yk__free(path);
        return yk__fail_mem(err, sizeof *tensors, "a safetensors file");
    }
    tensors->path = path;
    s = !data && is_index(path) ? open_index(tensors, err) : open_single(tensors, data, bytes, err);
    if (s)
        yk__safetensors_close(tensors);
    else
        *out = tensors;
    return s;
}

yk_status yk__safetensors_open(const char *path, yk__safetensors **out, yk_error *err)
{
    return open_as(path_resolve(path), NULL, 0, out, err);
}

yk_status yk__safetensors_from_memory(const char *name, const void *data, size_t bytes, yk__safetensors **out,
                                      yk_error *err)
{
    return open_as(yk__strdup(name), data, bytes, out, err);
}

void yk__safetensors_close(yk__safetensors *tensors)
{
    if (!tensors || (tensors->held && tensors->held--))
        return;
    for (size_t i = 0; i < tensors->count; i++) {
        if (tensors->data)
            yk__free(tensors->data[i]);
        yk__free((void *)tensors->tensor[i].shape);
        yk__free((void *)tensors->tensor[i].name);
    }
    for (int i = 0; i < tensors->n_parts; i++) {
        if (tensors->parts[i].fd >= 0)
            close(tensors->parts[i].fd);
        yk__watch_free(tensors->parts[i].watch);
        yk__free(tensors->parts[i].path);
    }
    json_decref(tensors->meta);
    yk__free(tensors->data);
    yk__free(tensors->by_name);
    yk__free(tensors->tensor);
    yk__free(tensors->parts);
    yk__free(tensors->path);
    yk__free(tensors);
}

void yk__safetensors_hold(yk__safetensors *tensors)
{
    tensors->held++;
}

/* ---- reading ---- */

int64_t yk__safetensors_count(const yk__safetensors *tensors)
{
    return (int64_t)tensors->count;
}

const yk__safetensor *yk__safetensors_at(const yk__safetensors *tensors, int64_t i)
{
    return &tensors->tensor[i];
}

const char *yk__safetensors_path(const yk__safetensors *tensors)
{
    return tensors->path;
}

const char *yk__safetensors_meta(const yk__safetensors *tensors, const char *key)
{
    return json_string_value(json_object_get(tensors->meta, key));
}

int64_t yk__safetensors_meta_count(const yk__safetensors *tensors)
{
    return (int64_t)json_object_size(tensors->meta);
}

void yk__safetensors_meta_at(const yk__safetensors *tensors, int64_t i, const char **key, const char **value)
{
    void *it = json_object_iter(tensors->meta);
    while (i-- > 0)
        it = json_object_iter_next(tensors->meta, it);
    *key = json_object_iter_key(it);
    *value = json_string_value(json_object_iter_value(it));
}

yk_status yk__safetensors_load(yk__safetensors *tensors, const yk__safetensor *tensor, uint64_t from, uint64_t bytes,
                               void *out, yk_error *err)
{
    const struct part *part = &tensors->parts[tensor->file];
    yk_status s;
    if (from > tensor->bytes || bytes > tensor->bytes - from)
        return yk__fail(err, YK_E_ARG, "%s: tensor '%.100s': bytes %" PRIu64 " to %" PRIu64 " of %" PRIu64, part->path,
                        tensor->name, from, from + bytes, tensor->bytes);
    s = part_read(part, part->data_at + tensor->begin + from, out, bytes, err);
    if (!s && !YK__LITTLE_ENDIAN && tensor->elements) /* files are little-endian; callers that read a part begin at a whole element */
        yk__bytes_swap(out, bytes, (size_t)tensor->unit);
    return s;
}

yk_status yk__safetensors_sign(yk__safetensors *tensors, const yk__safetensor *tensor, uint64_t *sign, yk_error *err)
{
    const uint64_t step = tensor->bytes / SAMPLES / 8 * 8; /* whole elements of each type */
    uint8_t sample[SAMPLE];
    uint64_t hash = yk__hash_u64(YK_HASH_SEED, tensor->bytes);
    if (tensor->bytes <= SAMPLES * SAMPLE) {
        for (uint64_t at = 0; at < tensor->bytes && !err->status; at += SAMPLE) {
            const uint64_t n = tensor->bytes - at < SAMPLE ? tensor->bytes - at : SAMPLE;
            if (!yk__safetensors_load(tensors, tensor, at, n, sample, err))
                hash = yk__hash_bytes(hash, sample, (size_t)n);
        }
    }
    for (uint64_t i = 0; i < SAMPLES && tensor->bytes > SAMPLES * SAMPLE && !err->status; i++)
        if (!yk__safetensors_load(tensors, tensor, i * step, SAMPLE, sample, err))
            hash = yk__hash_bytes(hash, sample, SAMPLE);
    *sign = hash;
    return err->status;
}

yk_status yk__safetensors_data(yk__safetensors *tensors, const yk__safetensor *tensor, const void **out, yk_error *err)
{
    void **slot = &tensors->data[tensor - tensors->tensor];
    if (!*slot) {
        void *p = yk__malloc_aligned((size_t)tensor->bytes, 64);
        yk_status s;
        if (!p)
            return yk__fail_mem(err, tensor->bytes, tensor->name);
        s = yk__safetensors_load(tensors, tensor, 0, tensor->bytes, p, err);
        if (s) {
            yk__free(p);
            return s;
        }
        *slot = p;
    }
    *out = *slot;
    return YK_OK;
}

void yk__safetensors_shape_text(int rank, const int64_t *shape, char *buf, size_t n)
{
    size_t used = (size_t)snprintf(buf, n, "[");
    for (int i = 0; i < rank && used < n; i++)
        used += (size_t)snprintf(buf + used, n - used, "%s%lld", i ? ", " : "", (long long)shape[i]);
    if (used < n)
        snprintf(buf + used, n - used, "]");
}
