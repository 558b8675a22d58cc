/* SPDX-License-Identifier: Apache-2.0 */
/* The OpenCL plugin's answers about drivers that are kept between processes: plugins/kit/survey.h says what each does. */
#ifndef YOKE_BACKENDS_OPENCL_SURVEY_H
#define YOKE_BACKENDS_OPENCL_SURVEY_H

#include "backends/opencl/ocl.h"
#include "plugins/kit/survey.h"

static inline kit_survey ocl_survey(void)
{
    return (kit_survey){.host = ocl_host, .plugin = OCL_WHO, .version = OCL_VERSION, .prefix = "ocl", .option = {"CORES", "FAMILY"}};
}

static inline uint64_t ocl_survey_key(const char *const *entry, uint32_t n_entry)
{
    const kit_survey own = ocl_survey();
    return kit_survey_key(&own, entry, n_entry);
}

static inline uint64_t ocl_survey_key_devices(uint64_t key)
{
    const kit_survey own = ocl_survey();
    return kit_survey_key_devices(&own, key);
}

static inline bool ocl_survey_read(const char *kind, uint64_t key, void *answer, uint32_t bytes, uint32_t *got, uint64_t *age)
{
    const kit_survey own = ocl_survey();
    return kit_survey_read(&own, kind, key, answer, bytes, got, age);
}

static inline void ocl_survey_write(const char *kind, uint64_t key, const void *answer, uint32_t bytes)
{
    const kit_survey own = ocl_survey();
    kit_survey_write(&own, kind, key, answer, bytes);
}

static inline bool ocl_survey_old(uint64_t age)
{
    return kit_survey_old(age);
}

#endif
