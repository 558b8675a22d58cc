/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a safetensors file: the header is made in memory, and the data go out tensor by tensor. Checkpoints and weights.c call it, in the
 * step thread. Data come from memory or piece by piece from a callback, so that a file may be larger than memory.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/advance.h"
#include "core/base/byte_order.h"
#include "core/base/limit.h"
#include "core/base/mem.h"
#include "core/io/safetensors.h"
#include "core/io/utf8.h"

#define PIECE ((size_t)1 << 20)

struct text {
    char *data;
    size_t length, cap;
    int failed; /* memory is gone */
};

static void text_add(struct text *text, const char *s, size_t n)
{
    if (text->failed || yk__grow(&text->data, &text->cap, text->length + n + 1, 1)) {
        text->failed = 1;
        return;
    }
    memcpy(text->data + text->length, s, n);
    text->length += n;
    text->data[text->length] = 0;
}

static void text_add_str(struct text *text, const char *s)
{
    text_add(text, s, strlen(s));
}

static void text_add_int(struct text *text, uint64_t v)
{
    char b[24];
    text_add(text, b, (size_t)snprintf(b, sizeof b, "%" PRIu64, v));
}

static void text_add_quoted(struct text *text, const char *s)
{
    text_add_str(text, "\"");
    for (; *s; s++) {
        char b[8];
        if (*s == '"' || *s == '\\')
            text_add(text, b, (size_t)snprintf(b, sizeof b, "\\%c", *s));
        else if ((unsigned char)*s < 0x20)
            text_add(text, b, (size_t)snprintf(b, sizeof b, "\\u%04x", (unsigned)(unsigned char)*s));
        else
            text_add(text, s, 1);
    }
    text_add_str(text, "\"");
}

static const char *type_name(uint32_t dtype)
{
    static const char *const names[] = {
#define X(e, number, name, st, bytes) [number] = st,
        YK_DTYPE_TABLE(X)
#undef X
    };
    return dtype < YK_DTYPE_COUNT ? names[dtype] : NULL;
}

/* Bytes of a tensor; -1 for a negative dimension, an overflow or an unknown type. */
static int64_t tensor_bytes(const yk__safetensors_out *tensor)
{
    int64_t n = yk_dtype_bytes(tensor->dtype);
    if (!n)
        return -1;
    for (int i = 0; i < tensor->rank; i++)
        if (tensor->shape[i] < 0 || __builtin_mul_overflow(n, tensor->shape[i], &n))
            return -1;
    return n;
}

static void text_add_tensor(struct text *header, const yk__safetensors_out *tensor, uint64_t begin, uint64_t end)
{
    text_add_quoted(header, tensor->name);
    text_add_str(header, ":{\"dtype\":\"");
    text_add_str(header, type_name(tensor->dtype));
    text_add_str(header, "\",\"shape\":[");
    for (int i = 0; i < tensor->rank; i++) {
        if (i)
            text_add_str(header, ",");
        text_add_int(header, (uint64_t)tensor->shape[i]);
    }
    text_add_str(header, "],\"data_offsets\":[");
    text_add_int(header, begin);
    text_add_str(header, ",");
    text_add_int(header, end);
    text_add_str(header, "]}");
}

static void text_add_meta(struct text *header, const char *const *meta, int nmeta)
{
    text_add_str(header, "\"__metadata__\":{");
    for (int i = 0; i < nmeta; i++) {
        if (i)
            text_add_str(header, ",");
        text_add_quoted(header, meta[2 * i]);
        text_add_str(header, ":");
        text_add_quoted(header, meta[2 * i + 1]);
    }
    text_add_str(header, "}");
}

/* 8 bytes of length, then the JSON, padded with spaces to a multiple of 8. *data_bytes: of all tensors. */
static yk_status build_header(struct text *header, const char *path, const yk__safetensors_out *tensor, int64_t count,
                              const char *const *meta, int nmeta, uint64_t *data_bytes, yk_error *err)
{
    uint64_t at = 0;
    text_add(header, "\0\0\0\0\0\0\0", 8);
    text_add_str(header, "{");
    if (nmeta)
        text_add_meta(header, meta, nmeta);
    for (int64_t i = 0; i < count; i++) {
        int64_t n = tensor_bytes(&tensor[i]);
        if (n < 0 || at + (uint64_t)n > INT64_MAX)
            return yk__fail(err, YK_E_ARG, "%s: tensor '%.100s': expected a type and lengths of the format and at most 2^63 bytes in "
                            "all, got others", path,
                            tensor[i].name);
        if (i || nmeta)
            text_add_str(header, ",");
        text_add_tensor(header, &tensor[i], at, at + (uint64_t)n);
        at += (uint64_t)n;
    }
    text_add_str(header, "}");
    while (!header->failed && header->length % 8)
        text_add_str(header, " ");
    if (header->failed)
        return yk__fail_mem(err, header->length, "a safetensors header");
    for (size_t i = 0; i < 8; i++)
        header->data[i] = (char)((uint64_t)(header->length - 8) >> (8 * i));
    *data_bytes = at;
    return YK_OK;
}

enum { CHUNK = 16 << 20 };

static yk_status write_all(int fd, const char *path, const void *data, uint64_t n, yk_error *err)
{
    const char *p = data;
    while (n) {
        yk__act_begin(YK__ACT_FILE);
        ssize_t r = yk__limit_write(fd, p, (size_t)(n < CHUNK ? n : CHUNK)); /* each is a sign of life */
        yk__act_end(YK__ACT_FILE);
        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0)
            return yk__fail(err, YK_E_IO, "%s: writing failed: %s", path, strerror(errno));
        yk__advance();
        p += r;
        n -= (uint64_t)r;
    }
    return YK_OK;
}

struct sink {
    int fd;
    const char *path;
    yk__safetensors_fetch fetch;
    void *user;
    char *piece;
};

static yk_status write_tensor(const struct sink *sink, const yk__safetensors_out *tensor, int64_t i, yk_error *err)
{
    uint64_t n = (uint64_t)tensor_bytes(tensor), at = 0;
    if (tensor->data && YK__LITTLE_ENDIAN)
        return write_all(sink->fd, sink->path, tensor->data, n, err);
    while (at < n) {
        size_t m = n - at < PIECE ? (size_t)(n - at) : PIECE;
        yk_status s = YK_OK;
        if (tensor->data)
            memcpy(sink->piece, (const char *)tensor->data + at, m);
        else
            s = sink->fetch(sink->user, i, at, sink->piece, m, err);
        if (!s && !YK__LITTLE_ENDIAN) /* the file is */
            yk__bytes_swap(sink->piece, m, yk_dtype_bytes(tensor->dtype));
        if (!s)
            s = write_all(sink->fd, sink->path, sink->piece, m, err);
        if (s)
            return s;
        at += m;
    }
    return YK_OK;
}

const char *yk__safetensors_name_wrong(const char *name)
{
    if (yk__utf8_check(name, strlen(name)) != strlen(name))
        return "its name is not UTF-8, as names in a file of weights are";
    return strcmp(name, "__metadata__") ? NULL : "in a file of weights that name stands for something else";
}

static yk_status check_names(const char *path, const yk__safetensors_out *tensor, int64_t count, yk_error *err)
{
    for (int64_t i = 0; i < count; i++) {
        const char *wrong = yk__safetensors_name_wrong(tensor[i].name);
        if (wrong)
            return yk__fail(err, YK_E_ARG, "%s: tensor '%.100s': %s: give it another name", path, tensor[i].name, wrong);
        for (int64_t j = 0; j < i; j++)
            if (!strcmp(tensor[i].name, tensor[j].name))
                return yk__fail(err, YK_E_ARG, "%s: two tensors are named '%.100s'", path, tensor[i].name);
    }
    return YK_OK;
}

yk_status yk__safetensors_header_make(const char *path, const yk__safetensors_out *tensor, int64_t count, const char *const *meta,
                                      int nmeta, yk__safetensors_header *header, yk_error *err)
{
    struct text text = {0};
    *header = (yk__safetensors_header){0};
    if (check_names(path, tensor, count, err) || build_header(&text, path, tensor, count, meta, nmeta, &header->data_bytes, err)) {
        yk__free(text.data);
        return err->status;
    }
    header->text = text.data;
    header->bytes = text.length;
    return YK_OK;
}

yk_status yk__safetensors_write(int fd, const char *path, const yk__safetensors_out *tensor, int64_t count,
                                const char *const *meta, int nmeta, yk__safetensors_fetch fetch, void *user,
                                yk_error *err)
{
    yk__safetensors_header header;
    struct sink sink = {fd, path, fetch, user, NULL};
    yk_status s = yk__safetensors_header_make(path, tensor, count, meta, nmeta, &header, err);
    if (!s) {
        sink.piece = yk__malloc(PIECE);
        s = sink.piece ? write_all(fd, path, header.text, header.bytes, err)
                       : yk__fail_mem(err, PIECE, "a write buffer");
    }
    for (int64_t i = 0; i < count && !s; i++)
        s = write_tensor(&sink, &tensor[i], i, err);
    yk__free(sink.piece);
    yk__free(header.text);
    return s;
}
