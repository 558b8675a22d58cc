/* SPDX-License-Identifier: Apache-2.0 */
/*
 * safetensors: named tensors in one file, or in several with a model.safetensors.index.json.
 *
 * Format: 8 bytes little-endian header length (at most 100,000,000), then the header, then the data, little-endian, row-major. The header
 * is a JSON object {"NAME": {"dtype", "shape", "data_offsets": [begin, end)}, "__metadata__": {string: string}}. Opening makes all checks
 * of the reference reader: UTF-8, no duplicate key, known dtype, sizes that do not overflow. The data must have no hole or overlap and end
 * exactly with the file. An unknown field of a tensor's entry is ignored.
 *
 * pread reads data on demand, so a file that shrinks meanwhile gives an error, never a signal.
 *
 * Lifetime: names, shapes and data belong to the object. Thread rule: any threads may call load() at the same time; data() one at a time.
 * Errors: YK_E_IO, YK_E_FORMAT, YK_E_MEM; messages begin with the path.
 */
#ifndef YOKE_CORE_IO_SAFETENSORS_H
#define YOKE_CORE_IO_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include <yoke/plugin.h>

#include "core/base/error.h"

typedef struct yk__safetensors yk__safetensors;

typedef struct yk__safetensor {
    const char *name;
    const char *dtype_name; /* the format's name, "F32" */
    int dtype; /* yk_dtype; -1 for a type of the format that Yoke does not compute with (I16, U32, F4 ...) */
    int unit;  /* bytes that stand in the file's order, least first: 1 for types below a byte, 4 for the parts of C64 */
    int rank;
    const int64_t *shape; /* rank entries */
    int64_t elements;
    uint64_t bytes;
    uint64_t begin; /* offset of its data, from the start of the data part of its file */
    int file;       /* index of its file */
} yk__safetensor;

/* path: a .safetensors file, an index (*.index.json), or a directory that holds model.safetensors or its index. */
yk_status yk__safetensors_open(const char *path, yk__safetensors **out, yk_error *err);
/* The same on memory, which must outlive the object. */
yk_status yk__safetensors_from_memory(const char *name, const void *data, size_t bytes, yk__safetensors **out,
                                      yk_error *err);
void yk__safetensors_close(yk__safetensors *tensors); /* takes NULL */
void yk__safetensors_hold(yk__safetensors *tensors);  /* the object then needs one close more; not while another thread uses it */

int64_t yk__safetensors_count(const yk__safetensors *tensors);
const yk__safetensor *yk__safetensors_at(const yk__safetensors *tensors, int64_t i); /* in the header's order */
const yk__safetensor *yk__safetensors_find(const yk__safetensors *tensors, const char *name); /* NULL if absent */
const char *yk__safetensors_path(const yk__safetensors *tensors);

/* Metadata of the (first) file; NULL if the key is absent. */
const char *yk__safetensors_meta(const yk__safetensors *tensors, const char *key);
int64_t yk__safetensors_meta_count(const yk__safetensors *tensors);
void yk__safetensors_meta_at(const yk__safetensors *tensors, int64_t i, const char **key, const char **value);

/* Copies bytes [from, from + bytes) of a tensor to out, in the host's byte order. */
yk_status yk__safetensors_load(yk__safetensors *tensors, const yk__safetensor *tensor, uint64_t from, uint64_t bytes,
                               void *out, yk_error *err);
/* A hash of the tensor's size and of samples, 64 KiB of its data: other weights have another one. */
yk_status yk__safetensors_sign(yk__safetensors *tensors, const yk__safetensor *tensor, uint64_t *sign, yk_error *err);
/* The whole tensor, aligned to 64 bytes, read at the first call and kept until close. */
yk_status yk__safetensors_data(yk__safetensors *tensors, const yk__safetensor *tensor, const void **out, yk_error *err);

/* ---- writing ---- */

/* Gives the next `bytes` bytes of tensor i (from offset `from`) in this machine's byte order. */
typedef yk_status (*yk__safetensors_fetch)(void *user, int64_t i, uint64_t from, void *buf, size_t bytes,
                                           yk_error *err);

typedef struct yk__safetensors_out {
    const char *name;
    uint32_t dtype; /* yk_dtype */
    int rank;
    const int64_t *shape;
    const void *data; /* or NULL: fetch delivers it, in pieces of at most 1 MiB */
} yk__safetensors_out;

/* Writes "[64, 3, 7, 7]" to buf, cut at n bytes. */
void yk__safetensors_shape_text(int rank, const int64_t *shape, char *buf, size_t n);

/* The reason why no tensor can have this name; NULL if one can. */
const char *yk__safetensors_name_wrong(const char *name);

/* A file's bytes before the data of its tensors, which stand in the given order, without gap. */
typedef struct yk__safetensors_header {
    char *text; /* the caller's to free */
    uint64_t bytes;
    uint64_t data_bytes;
} yk__safetensors_header;

yk_status yk__safetensors_header_make(const char *path, const yk__safetensors_out *tensor, int64_t count, const char *const *meta,
                                      int nmeta, yk__safetensors_header *header, yk_error *err);
/* Writes a whole file to fd from its current place: tensors in the given order, without gap. meta: pairs key, value
 * (2 * nmeta strings). Names must differ. path is for messages. Does not sync. */
yk_status yk__safetensors_write(int fd, const char *path, const yk__safetensors_out *tensor, int64_t count,
                                const char *const *meta, int nmeta, yk__safetensors_fetch fetch, void *user,
                                yk_error *err);

#endif
