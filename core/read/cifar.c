/* SPDX-License-Identifier: Apache-2.0 */
/* Reading CIFAR-10: the file is its records; only size and labels have to be looked at. */
#include "core/read/cifar.h"

#include <inttypes.h>

#include "core/base/mem.h"

#define LIMIT ((uint64_t)1 << 36)

static yk_status records_check(const yk__file *file, const uint8_t *p, size_t bytes, yk_error *err)
{
    if (bytes == 0 || bytes % YK__CIFAR_RECORD)
        return yk__fail(err, YK_E_FORMAT, "%s: %zu bytes, expected a multiple of %u (CIFAR-10 records)",
                        yk__file_path(file), bytes, YK__CIFAR_RECORD);
    for (size_t i = 0; i < bytes; i += YK__CIFAR_RECORD)
        if (p[i] >= YK__CIFAR_CLASSES)
            return yk__fail(err, YK_E_FORMAT, "%s: byte %zu: label %d of record %zu, expected 0 to %d",
                            yk__file_path(file), i, p[i], i / YK__CIFAR_RECORD, YK__CIFAR_CLASSES - 1);
    return YK_OK;
}

yk_status yk__cifar_read(yk__file *file, uint8_t **records, int64_t *count, yk_error *err)
{
    size_t bytes;
    char *p;
    yk_status s;
    int64_t left = yk__file_left(file);
    if (left >= 0 && left % YK__CIFAR_RECORD)
        return yk__fail(err, YK_E_FORMAT, "%s: %" PRId64 " bytes, expected a multiple of %u (CIFAR-10 records)",
                        yk__file_path(file), left, YK__CIFAR_RECORD);
    s = yk__file_read_rest(file, LIMIT, &p, &bytes, err);
    if (s)
        return s;
    s = records_check(file, (uint8_t *)p, bytes, err);
    if (s) {
        yk__free(p);
        return s;
    }
    *records = (uint8_t *)p;
    *count = (int64_t)(bytes / YK__CIFAR_RECORD);
    return YK_OK;
}

yk_status yk__cifar_open(const char *path, uint8_t **records, int64_t *count, yk_error *err)
{
    yk__file *file;
    yk_status s = yk__file_open(path, YK__FILE_AUTO, &file, err);
    if (s)
        return s;
    s = yk__cifar_read(file, records, count, err);
    yk__file_close(file);
    return s;
}
