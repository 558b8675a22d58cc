/* SPDX-License-Identifier: Apache-2.0 */
/* Reading CIFAR-10: the file is its records; only size and labels have to be looked at. */
#include "core/read/cifar.h"

#include <inttypes.h>

#include "core/base/mem.h"

#define LIMIT ((uint64_t)1 << 36)

static yk_status records_check(const yk__file *f, const uint8_t *p, size_t bytes, yk_error *err)
{
    if (bytes == 0 || bytes % YK__CIFAR_RECORD)
        return yk__fail(err, YK_E_FORMAT, "%s: %zu bytes, expected a multiple of %u (CIFAR-10 records)",
                        yk__file_path(f), bytes, YK__CIFAR_RECORD);
    for (size_t i = 0; i < bytes; i += YK__CIFAR_RECORD)
        if (p[i] >= YK__CIFAR_CLASSES)
            return yk__fail(err, YK_E_FORMAT, "%s: byte %zu: label %d of record %zu, expected 0 to %d",
                            yk__file_path(f), i, p[i], i / YK__CIFAR_RECORD, YK__CIFAR_CLASSES - 1);
    return YK_OK;
}

yk_status yk__cifar_read(yk__file *f, uint8_t **records, int64_t *count, yk_error *err)
{
    size_t bytes;
    char *p;
    yk_status s;
    int64_t left = yk__file_left(f);
    if (left >= 0 && left % YK__CIFAR_RECORD)
        return yk__fail(err, YK_E_FORMAT, "%s: %" PRId64 " bytes, expected a multiple of %u (CIFAR-10 records)",
                        yk__file_path(f), left, YK__CIFAR_RECORD);
    s = yk__file_read_rest(f, LIMIT, &p, &bytes, err);
    if (s)
        return s;
    s = records_check(f, (uint8_t *)p, bytes, err);
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
    yk__file *f;
    yk_status s = yk__file_open(path, YK__FILE_AUTO, &f, err);
    if (s)
        return s;
    s = yk__cifar_read(f, records, count, err);
    yk__file_close(f);
    return s;
}
