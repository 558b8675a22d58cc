/* SPDX-License-Identifier: Apache-2.0 */
#include "core/io/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/advance.h"
#include "core/base/mem.h"
#include "core/io/json.h"

#define HEADER_LIMIT 100000000u

struct part {
    char *path;
    int fd; /* -1: memory */
    const uint8_t *mem;
    uint64_t size, data_at; /* bytes of the file; where its data begin */
};

struct yk__safetensors {
    char *path;
    struct part *parts;
    int nparts;
    yk__safetensor *t;
    size_t count, cap;
    const yk__safetensor **by_name;
    void **data; /* per tensor, or NULL */
    json_t *meta;
};

/* The format's types. bits: of an element. */
static const struct {
    const char *name;
    int bits, dtype;
} types[] = {
#define X(e, number, name, st, bytes) {st, 8 * (bytes), e},
    YK_DTYPE_TABLE(X)
#undef X
        {"I16", 16, -1},
    {"U16", 16, -1},
    {"U32", 32, -1},
    {"U64", 64, -1},
    {"C64", 64, -1},
    {"F8_E8M0", 8, -1},
    {"F8_E4M3FNUZ", 8, -1},
    {"F8_E5M2FNUZ", 8, -1},
    {"F4", 4, -1},
    {"F6_E2M3", 6, -1},
    {"F6_E3M2", 6, -1},
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

static yk_status part_read(const struct part *p, uint64_t at, void *out, uint64_t n, yk_error *err)
{
    uint8_t *to = out;
    if (p->fd < 0) {
        if (n)
            memcpy(to, p->mem + at, (size_t)n);
        return YK_OK;
    }
    while (n) {
        ssize_t r = pread(p->fd, to, (size_t)(n < (1u << 30) ? n : (1u << 30)), (off_t)at);
        if (r < 0 && errno == EINTR)
            continue;
        if (r <= 0)
            return yk__fail(err, YK_E_IO, "%s: reading failed at byte %" PRIu64 ": %s", p->path, at,
                            r ? strerror(errno) : "the file has become shorter");
        yk__advance();
        to += r;
        at += (uint64_t)r;
        n -= (uint64_t)r;
    }
    return YK_OK;
}

static yk_status part_open(struct part *p, const char *path, yk_error *err)
{
    struct stat st;
    p->path = yk__strdup(path);
    if (!p->path)
        return yk__fail_mem(err, strlen(path), "a path");
    p->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (p->fd < 0 || fstat(p->fd, &st))
        return yk__fail_open(err, path, errno);
    if (!S_ISREG(st.st_mode))
        return yk__fail(err, YK_E_ARG, "%s: expected a regular file", path);
    p->size = (uint64_t)st.st_size;
    return YK_OK;
}

/* ---- the header ---- */

/* Reads the header's text; the caller frees *text. */
static yk_status header_text(struct part *p, char **text, size_t *bytes, yk_error *err)
{
    uint8_t b[8];
    uint64_t n = 0;
    yk_status s;
    if (p->size < 8)
        return yk__fail(err, YK_E_FORMAT, "%s: byte 0: expected the 8 bytes of a header length, found %" PRIu64,
                        p->path, p->size);
    s = part_read(p, 0, b, 8, err);
    if (s)
        return s;
    for (int i = 7; i >= 0; i--)
        n = n << 8 | b[i];
    if (n > HEADER_LIMIT)
        return yk__fail(err, YK_E_FORMAT, "%s: byte 0: header length %" PRIu64 ", expected at most %u", p->path, n,
                        HEADER_LIMIT);
    if (n > p->size - 8)
        return yk__fail(err, YK_E_FORMAT, "%s: byte 0: header length %" PRIu64 ", but only %" PRIu64 " bytes follow",
                        p->path, n, p->size - 8);
    *text = yk__malloc((size_t)n + 1);
    if (!*text)
        return yk__fail_mem(err, n, "a safetensors header");
    *bytes = (size_t)n;
    p->data_at = 8 + n;
    s = part_read(p, 8, *text, n, err);
    if (s)
        yk__free(*text);
    return s;
}

static yk_status bad(const struct part *p, const char *name, const char *what, yk_error *err)
{
    return yk__fail(err, YK_E_FORMAT, "%s: tensor '%.100s': %s", p->path, name, what);
}

static yk_status read_shape(const struct part *p, yk__safetensor *t, const json_t *v, yk_error *err)
{
    uint64_t n = 1;
    size_t rank = json_array_size(v);
    int64_t *shape;
    if (!json_is_array(v) || rank > INT32_MAX)
        return bad(p, t->name, "shape: expected an array of integers", err);
    shape = yk__calloc(rank, sizeof *shape);
    if (!shape)
        return yk__fail_mem(err, rank * sizeof *shape, "a shape");
    t->shape = shape;
    t->rank = (int)rank;
    for (size_t i = 0; i < rank; i++) {
        const json_t *d = json_array_get(v, i);
        shape[i] = json_integer_value(d);
        if (!json_is_integer(d) || shape[i] < 0)
            return bad(p, t->name, "shape: expected integers that are not negative", err);
        if (shape[i] && n > (uint64_t)INT64_MAX / (uint64_t)shape[i])
            return bad(p, t->name, "shape: the number of elements overflows 64 bits", err);
        n *= (uint64_t)shape[i];
    }
    t->elements = (int64_t)n;
    return YK_OK;
}

static yk_status read_offsets(const struct part *p, yk__safetensor *t, const json_t *v, int bits, yk_error *err)
{
    const json_t *b = json_array_get(v, 0), *e = json_array_get(v, 1);
    uint64_t n = (uint64_t)t->elements;
    if (json_array_size(v) != 2 || !json_is_integer(b) || !json_is_integer(e))
        return bad(p, t->name, "data_offsets: expected two integers", err);
    if (json_integer_value(b) < 0 || json_integer_value(e) < json_integer_value(b))
        return bad(p, t->name, "data_offsets: expected 0 <= begin <= end", err);
    if (n > UINT64_MAX / (uint64_t)bits)
        return bad(p, t->name, "shape: the size overflows 64 bits", err);
    if (n * (uint64_t)bits % 8)
        return bad(p, t->name, "shape: the elements do not fill whole bytes", err);
    t->begin = (uint64_t)json_integer_value(b);
    t->bytes = (uint64_t)json_integer_value(e) - t->begin;
    if (n * (uint64_t)bits / 8 != t->bytes)
        return yk__fail(err, YK_E_FORMAT,
                        "%s: tensor '%.100s': data_offsets span %" PRIu64 " bytes, dtype and shape need %" PRIu64,
                        p->path, t->name, t->bytes, n * (uint64_t)bits / 8);
    return YK_OK;
}

static yk_status read_tensor(const struct part *p, yk__safetensor *t, const char *key, const json_t *v, yk_error *err)
{
    const json_t *dtype = json_object_get(v, "dtype"), *shape = json_object_get(v, "shape");
    const json_t *offsets = json_object_get(v, "data_offsets");
    int k;
    yk_status s;
    t->name = yk__strdup(key);
    if (!t->name)
        return yk__fail_mem(err, strlen(key), "a tensor's name");
    if (!json_is_object(v))
        return bad(p, key, "expected an object", err);
    if (!dtype || !shape || !offsets)
        return bad(p, key, "expected the keys dtype, shape and data_offsets", err);
    k = json_is_string(dtype) ? find_type(json_string_value(dtype)) : -1;
    if (k < 0)
        return yk__fail(err, YK_E_FORMAT, "%s: tensor '%.100s': dtype '%.20s' is none of the format", p->path, key,
                        json_is_string(dtype) ? json_string_value(dtype) : yk__json_type(dtype));
    t->dtype_name = types[k].name;
    t->dtype = types[k].dtype;
    s = read_shape(p, t, shape, err);
    return s ? s : read_offsets(p, t, offsets, types[k].bits, err);
}

static yk_status read_meta(yk__safetensors *st, const struct part *p, json_t *v, yk_error *err)
{
    const char *key;
    json_t *x;
    if (!json_is_object(v))
        return yk__fail(err, YK_E_FORMAT, "%s: __metadata__: expected an object, found %s", p->path, yk__json_type(v));
    json_object_foreach(v, key, x) if (!json_is_string(x)) return yk__fail(
        err, YK_E_FORMAT, "%s: __metadata__ '%.100s': expected a string, found %s", p->path, key, yk__json_type(x));
    if (!st->meta)
        st->meta = json_incref(v);
    return YK_OK;
}

static yk_status read_entries(yk__safetensors *st, int file, json_t *header, yk_error *err)
{
    const struct part *p = &st->parts[file];
    size_t need = st->count + json_object_size(header);
    const char *key;
    json_t *v;
    if (yk__grow(&st->t, &st->cap, need, sizeof *st->t))
        return yk__fail_mem(err, need * sizeof *st->t, "the tensors of a file");
    json_object_foreach(header, key, v)
    {
        yk__safetensor *t = &st->t[st->count];
        yk_status s;
        if (!strcmp(key, "__metadata__")) {
            s = read_meta(st, p, v, err);
        } else {
            memset(t, 0, sizeof *t);
            t->file = file;
            st->count++;
            s = read_tensor(p, t, key, v, err);
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

/* The data must follow each other without hole or overlap and end with the file. */
static yk_status check_layout(const yk__safetensors *st, size_t first, const struct part *p, yk_error *err)
{
    size_t n = st->count - first;
    uint64_t at = 0;
    const yk__safetensor **o = yk__calloc(n, sizeof *o);
    yk_status s = YK_OK;
    if (!o)
        return yk__fail_mem(err, n * sizeof *o, "the order of tensors");
    for (size_t i = 0; i < n; i++)
        o[i] = &st->t[first + i];
    qsort(o, n, sizeof *o, by_begin);
    for (size_t i = 0; i < n && !s; i++) {
        if (o[i]->begin != at)
            s = yk__fail(err, YK_E_FORMAT,
                         "%s: tensor '%.100s': data_offsets begin at %" PRIu64 ", expected %" PRIu64
                         " (no hole, no overlap)",
                         p->path, o[i]->name, o[i]->begin, at);
        at = o[i]->begin + o[i]->bytes;
    }
    yk__free(o);
    if (!s && at != p->size - p->data_at)
        s = yk__fail(err, YK_E_FORMAT, "%s: byte %" PRIu64 ": %" PRIu64 " bytes of data, the header describes %" PRIu64,
                     p->path, p->data_at, p->size - p->data_at, at);
    return s;
}

static yk_status parse_part(yk__safetensors *st, int file, yk_error *err)
{
    struct part *p = &st->parts[file];
    size_t bytes = 0, first = st->count;
    char *text = NULL;
    json_t *header = NULL;
    yk_status s = header_text(p, &text, &bytes, err);
    if (s)
        return s;
    if (bytes == 0 || text[0] != '{')
        s = yk__fail(err, YK_E_FORMAT, "%s: byte 8: expected a header that begins with '{'", p->path);
    else
        s = yk__json_parse(p->path, text, bytes, YK__JSON_UNIQUE_KEYS, &header, err);
    yk__free(text);
    if (s)
        return s;
    s = read_entries(st, file, header, err);
    json_decref(header);
    return s ? s : check_layout(st, first, p, err);
}

/* ---- names ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const yk__safetensor *const *)a)->name, (*(const yk__safetensor *const *)b)->name);
}

static yk_status index_names(yk__safetensors *st, yk_error *err)
{
    st->by_name = yk__calloc(st->count, sizeof *st->by_name);
    st->data = yk__calloc(st->count, sizeof *st->data);
    if (!st->by_name || !st->data)
        return yk__fail_mem(err, st->count * 2 * sizeof(void *), "the names of tensors");
    for (size_t i = 0; i < st->count; i++)
        st->by_name[i] = &st->t[i];
    qsort(st->by_name, st->count, sizeof *st->by_name, by_name);
    for (size_t i = 1; i < st->count; i++)
        if (!strcmp(st->by_name[i - 1]->name, st->by_name[i]->name))
            return yk__fail(err, YK_E_FORMAT, "%s: tensor '%.100s' is in two files", st->path, st->by_name[i]->name);
    return YK_OK;
}

const yk__safetensor *yk__safetensors_find(const yk__safetensors *st, const char *name)
{
    yk__safetensor key = {.name = name};
    const yk__safetensor *k = &key;
    const yk__safetensor **r = NULL;
    if (st->count)
        r = bsearch(&k, st->by_name, st->count, sizeof *st->by_name, by_name);
    return r ? *r : NULL;
}

/* ---- several files ---- */

static int part_of(const yk__safetensors *st, const char *path)
{
    for (int i = 0; i < st->nparts; i++)
        if (!strcmp(st->parts[i].path, path))
            return i;
    return -1;
}

static char *beside(const char *path, const char *name)
{
    const char *slash = strrchr(path, '/');
    return slash ? yk__format("%.*s/%s", (int)(slash - path), path, name) : yk__strdup(name);
}

static yk_status add_part(yk__safetensors *st, const char *name, yk_error *err)
{
    char *path;
    yk_status s = YK_OK;
    if (!name[0] || name[0] == '.' || strchr(name, '/'))
        return yk__fail(err, YK_E_FORMAT, "%s: weight_map names '%.100s', expected a file in the same directory",
                        st->path, name);
    path = beside(st->path, name);
    if (!path)
        return yk__fail_mem(err, strlen(st->path), "a path");
    if (part_of(st, path) < 0) {
        st->parts[st->nparts].fd = -1;
        s = part_open(&st->parts[st->nparts++], path, err);
        if (!s)
            s = parse_part(st, st->nparts - 1, err);
    }
    yk__free(path);
    return s;
}

/* Every tensor of the map must be in the file that the map names. */
static yk_status check_map(const yk__safetensors *st, json_t *map, yk_error *err)
{
    const char *key;
    json_t *v;
    json_object_foreach(map, key, v)
    {
        const yk__safetensor *t = yk__safetensors_find(st, key);
        const char *path = t ? strrchr(st->parts[t->file].path, '/') : NULL;
        path = path ? path + 1 : t ? st->parts[t->file].path : "no file";
        if (strcmp(path, json_string_value(v)))
            return yk__fail(err, YK_E_FORMAT, "%s: weight_map says '%.100s' is in %.100s, found it in %s", st->path,
                            key, json_string_value(v), path);
    }
    return YK_OK;
}

static yk_status open_map(yk__safetensors *st, json_t *map, yk_error *err)
{
    const char *key;
    json_t *v;
    st->parts = yk__calloc(json_object_size(map), sizeof *st->parts);
    if (!st->parts)
        return yk__fail_mem(err, json_object_size(map) * sizeof *st->parts, "the files of an index");
    json_object_foreach(map, key, v)
    {
        yk_status s;
        if (!json_is_string(v))
            return yk__fail(err, YK_E_FORMAT, "%s: weight_map '%.100s': expected a file name, found %s", st->path, key,
                            yk__json_type(v));
        s = add_part(st, json_string_value(v), err);
        if (s)
            return s;
    }
    return YK_OK;
}

static yk_status open_index(yk__safetensors *st, yk_error *err)
{
    json_t *index, *map;
    yk_status s = yk__json_load(st->path, YK__JSON_UNIQUE_KEYS, &index, err);
    if (s)
        return s;
    s = yk__json_object(index, st->path, "weight_map", &map, err);
    if (!s)
        s = open_map(st, map, err);
    if (!s)
        s = index_names(st, err);
    if (!s)
        s = check_map(st, map, err);
    json_decref(index);
    return s;
}

/* ---- opening ---- */

static yk_status open_single(yk__safetensors *st, const void *data, size_t bytes, yk_error *err)
{
    yk_status s = YK_OK;
    st->parts = yk__calloc(1, sizeof *st->parts);
    if (!st->parts)
        return yk__fail_mem(err, sizeof *st->parts, "a file");
    st->parts[0].fd = -1;
    st->nparts = 1;
    if (data) {
        st->parts[0].path = yk__strdup(st->path);
        st->parts[0].mem = data;
        st->parts[0].size = bytes;
        if (!st->parts[0].path)
            s = yk__fail_mem(err, strlen(st->path), "a path");
    } else {
        s = part_open(&st->parts[0], st->path, err);
    }
    if (!s)
        s = parse_part(st, 0, err);
    return s ? s : index_names(st, err);
}

/* The file that a directory means. NULL: out of memory. */
static char *resolve(const char *path)
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

static yk_status open_as(char *path, const void *data, size_t bytes, yk__safetensors **out, yk_error *err)
{
    yk__safetensors *st = path ? yk__calloc(1, sizeof *st) : NULL;
    yk_status s;
    if (!st) {
        yk__free(path);
        return yk__fail_mem(err, sizeof *st, "a safetensors file");
    }
    st->path = path;
    s = !data && is_index(path) ? open_index(st, err) : open_single(st, data, bytes, err);
    if (s)
        yk__safetensors_close(st);
    else
        *out = st;
    return s;
}

yk_status yk__safetensors_open(const char *path, yk__safetensors **out, yk_error *err)
{
    return open_as(resolve(path), NULL, 0, out, err);
}

yk_status yk__safetensors_from_memory(const char *name, const void *data, size_t bytes, yk__safetensors **out,
                                      yk_error *err)
{
    return open_as(yk__strdup(name), data, bytes, out, err);
}

void yk__safetensors_close(yk__safetensors *st)
{
    if (!st)
        return;
    for (size_t i = 0; i < st->count; i++) {
        if (st->data)
            yk__free(st->data[i]);
        yk__free((void *)st->t[i].shape);
        yk__free((void *)st->t[i].name);
    }
    for (int i = 0; i < st->nparts; i++) {
        if (st->parts[i].fd >= 0)
            close(st->parts[i].fd);
        yk__free(st->parts[i].path);
    }
    json_decref(st->meta);
    yk__free(st->data);
    yk__free(st->by_name);
    yk__free(st->t);
    yk__free(st->parts);
    yk__free(st->path);
    yk__free(st);
}

/* ---- reading ---- */

int64_t yk__safetensors_count(const yk__safetensors *st)
{
    return (int64_t)st->count;
}

const yk__safetensor *yk__safetensors_at(const yk__safetensors *st, int64_t i)
{
    return &st->t[i];
}

const char *yk__safetensors_path(const yk__safetensors *st)
{
    return st->path;
}

const char *yk__safetensors_meta(const yk__safetensors *st, const char *key)
{
    return json_string_value(json_object_get(st->meta, key));
}

int64_t yk__safetensors_meta_count(const yk__safetensors *st)
{
    return (int64_t)json_object_size(st->meta);
}

void yk__safetensors_meta_at(const yk__safetensors *st, int64_t i, const char **key, const char **value)
{
    void *it = json_object_iter(st->meta);
    while (i-- > 0)
        it = json_object_iter_next(st->meta, it);
    *key = json_object_iter_key(it);
    *value = json_string_value(json_object_iter_value(it));
}

/* The file is little-endian; from is a multiple of the element size where this matters. */
static void to_host(const yk__safetensor *t, void *out, uint64_t bytes)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    uint64_t w = t->elements ? t->bytes / (uint64_t)t->elements : 1;
    uint8_t *p = out;
    for (uint64_t i = 0; w > 1 && i + w <= bytes; i += w)
        for (uint64_t k = 0; k < w / 2; k++) {
            uint8_t x = p[i + k];
            p[i + k] = p[i + w - 1 - k];
            p[i + w - 1 - k] = x;
        }
#else
    (void)t, (void)out, (void)bytes;
#endif
}

yk_status yk__safetensors_load(yk__safetensors *st, const yk__safetensor *t, uint64_t from, uint64_t bytes, void *out,
                               yk_error *err)
{
    const struct part *p = &st->parts[t->file];
    yk_status s;
    if (from > t->bytes || bytes > t->bytes - from)
        return yk__fail(err, YK_E_ARG, "%s: tensor '%.100s': bytes %" PRIu64 " to %" PRIu64 " of %" PRIu64, p->path,
                        t->name, from, from + bytes, t->bytes);
    s = part_read(p, p->data_at + t->begin + from, out, bytes, err);
    if (!s)
        to_host(t, out, bytes);
    return s;
}

yk_status yk__safetensors_data(yk__safetensors *st, const yk__safetensor *t, const void **out, yk_error *err)
{
    void **slot = &st->data[t - st->t];
    if (!*slot) {
        void *p = yk__aligned((size_t)t->bytes, 64);
        yk_status s;
        if (!p)
            return yk__fail_mem(err, t->bytes, t->name);
        s = yk__safetensors_load(st, t, 0, t->bytes, p, err);
        if (s) {
            yk__free(p);
            return s;
        }
        *slot = p;
    }
    *out = *slot;
    return YK_OK;
}
