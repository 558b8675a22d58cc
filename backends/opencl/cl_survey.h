/* SPDX-License-Identifier: Apache-2.0 */
/* Stored answers about drivers, between processes (plugins/kit/kit_survey.h), for the OpenCL plugin. */
#ifndef YOKE_BACKENDS_OPENCL_CL_SURVEY_H
#define YOKE_BACKENDS_OPENCL_CL_SURVEY_H

#include "backends/opencl/ocl.h"
#include "plugins/kit/kit_survey.h"

static inline kit_survey ocl_survey(void)
{
    return (kit_survey){.host = ocl_host, .plugin = OCL_WHO, .version = OCL_VERSION, .prefix = "ocl", .option = {"CORES", "FAMILY"}};
}

#endif
