/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/advance.h"
#include "core/base/mem.h"
#include "core/io/safetensors.h"

#define PIECE ((size_t)1 << 20)

struct text {
    char *p;
    size_t len, cap;
    int failed; /* memory is gone */
};

static void add(struct text *t, const char *s, size_t n)
{
    if (t->failed || yk__grow(&t->p, &t->cap, t->len + n + 1, 1)) {
        t->failed = 1;
        return;
    }
    memcpy(t->p + t->len, s, n);
    t->len += n;
    t->p[t->len] = 0;
}

static void add_word(struct text *t, const char *s)
{
    add(t, s, strlen(s));
}

static void add_int(struct text *t, uint64_t v)
{
    char b[24];
    add(t, b, (size_t)snprintf(b, sizeof b, "%" PRIu64, v));
}

static void add_string(struct text *t, const char *s)
{
    add_word(t, "\"");
    for (; *s; s++) {
        char b[8];
        if (*s == '"' || *s == '\\')
            add(t, b, (size_t)snprintf(b, sizeof b, "\\%c", *s));
        else if ((unsigned char)*s < 0x20)
            add(t, b, (size_t)snprintf(b, sizeof b, "\\u%04x", (unsigned)(unsigned char)*s));
        else
            add(t, s, 1);
    }
    add_word(t, "\"");
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

/* The bytes of a tensor, or -1: negative dimension, overflow, unknown type. */
static int64_t tensor_bytes(const yk__safetensors_out *t)
{
    int64_t n = yk_dtype_bytes(t->dtype);
    if (!n)
        return -1;
    for (int i = 0; i < t->rank; i++)
        if (t->shape[i] < 0 || __builtin_mul_overflow(n, t->shape[i], &n))
            return -1;
    return n;
}

static void add_tensor(struct text *h, const yk__safetensors_out *t, uint64_t begin, uint64_t end)
{
    add_string(h, t->name);
    add_word(h, ":{\"dtype\":\"");
    add_word(h, type_name(t->dtype));
    add_word(h, "\",\"shape\":[");
    for (int i = 0; i < t->rank; i++) {
        if (i)
            add_word(h, ",");
        add_int(h, (uint64_t)t->shape[i]);
    }
    add_word(h, "],\"data_offsets\":[");
    add_int(h, begin);
    add_word(h, ",");
    add_int(h, end);
    add_word(h, "]}");
}

static void add_meta(struct text *h, const char *const *meta, int nmeta)
{
    add_word(h, "\"__metadata__\":{");
    for (int i = 0; i < nmeta; i++) {
        if (i)
            add_word(h, ",");
        add_string(h, meta[2 * i]);
        add_word(h, ":");
        add_string(h, meta[2 * i + 1]);
    }
    add_word(h, "}");
}

/* 8 bytes of length, then the JSON, padded with spaces to a multiple of 8. */
static yk_status build_header(struct text *h, const char *path, const yk__safetensors_out *t, int64_t count,
                              const char *const *meta, int nmeta, yk_error *err)
{
    uint64_t at = 0;
    add(h, "\0\0\0\0\0\0\0", 8);
    add_word(h, "{");
    if (nmeta)
        add_meta(h, meta, nmeta);
    for (int64_t i = 0; i < count; i++) {
        int64_t n = tensor_bytes(&t[i]);
        if (n < 0 || at + (uint64_t)n > INT64_MAX)
            return yk__fail(err, YK_E_ARG, "%s: tensor '%.100s': no valid dtype and shape", path, t[i].name);
        if (i || nmeta)
            add_word(h, ",");
        add_tensor(h, &t[i], at, at + (uint64_t)n);
        at += (uint64_t)n;
    }
    add_word(h, "}");
    while (!h->failed && h->len % 8)
        add_word(h, " ");
    if (h->failed)
        return yk__fail_mem(err, h->len, "a safetensors header");
    for (size_t i = 0; i < 8; i++)
        h->p[i] = (char)((uint64_t)(h->len - 8) >> (8 * i));
    return YK_OK;
}

static yk_status write_all(int fd, const char *path, const void *data, uint64_t n, yk_error *err)
{
    const char *p = data;
    while (n) {
        ssize_t r = write(fd, p, (size_t)(n < (1u << 30) ? n : (1u << 30)));
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

static void to_file_order(uint8_t *p, size_t n, size_t w)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    for (size_t i = 0; w > 1 && i + w <= n; i += w)
        for (size_t k = 0; k < w / 2; k++) {
            uint8_t x = p[i + k];
            p[i + k] = p[i + w - 1 - k];
            p[i + w - 1 - k] = x;
        }
#else
    (void)p, (void)n, (void)w;
#endif
}

static yk_status write_tensor(const struct sink *k, const yk__safetensors_out *t, int64_t i, yk_error *err)
{
    uint64_t n = (uint64_t)tensor_bytes(t), at = 0;
    if (t->data && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
        return write_all(k->fd, k->path, t->data, n, err);
    while (at < n) {
        size_t m = n - at < PIECE ? (size_t)(n - at) : PIECE;
        yk_status s = YK_OK;
        if (t->data) {
            memcpy(k->piece, (const char *)t->data + at, m);
            to_file_order((uint8_t *)k->piece, m, yk_dtype_bytes(t->dtype));
        } else {
            s = k->fetch(k->user, i, at, k->piece, m, err);
        }
        if (!s)
            s = write_all(k->fd, k->path, k->piece, m, err);
        if (s)
            return s;
        at += m;
    }
    return YK_OK;
}

static yk_status check_names(const char *path, const yk__safetensors_out *t, int64_t count, yk_error *err)
{
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j < i; j++)
            if (!strcmp(t[i].name, t[j].name))
                return yk__fail(err, YK_E_ARG, "%s: two tensors are named '%.100s'", path, t[i].name);
    return YK_OK;
}

yk_status yk__safetensors_write(int fd, const char *path, const yk__safetensors_out *t, int64_t count,
                                const char *const *meta, int nmeta, yk__safetensors_fetch fetch, void *user,
                                yk_error *err)
{
    struct text h = {0};
    struct sink k = {fd, path, fetch, user, NULL};
    yk_status s = check_names(path, t, count, err);
    if (!s)
        s = build_header(&h, path, t, count, meta, nmeta, err);
    if (s)
        goto free_header;
    k.piece = yk__malloc(PIECE);
    if (!k.piece) {
        s = yk__fail_mem(err, PIECE, "a write buffer");
        goto free_header;
    }
    s = write_all(fd, path, h.p, h.len, err);
    for (int64_t i = 0; i < count && !s; i++)
        s = write_tensor(&k, &t[i], i, err);
    yk__free(k.piece);
free_header:
    yk__free(h.p);
    return s;
}
