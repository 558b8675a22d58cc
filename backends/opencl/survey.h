/* SPDX-License-Identifier: Apache-2.0 */
/* Answers about drivers that are kept between processes; see survey.c for how long they hold. */
#ifndef YOKE_BACKENDS_OPENCL_SURVEY_H
#define YOKE_BACKENDS_OPENCL_SURVEY_H

#include "backends/opencl/ocl.h"

/* Of what was found with these loader entries; the second also of the cores it was found on. */
uint64_t ocl_survey_key(const char *const *entry, uint32_t n_entry);
uint64_t ocl_survey_key_devices(uint64_t key);

/* An answer of at most `bytes`, *got of them, *age seconds old; false: there is none that holds. */
bool ocl_survey_read(const char *kind, uint64_t key, void *answer, uint32_t bytes, uint32_t *got, uint64_t *age);
/* Call it with the drivers loaded: the libraries mapped now are what the answer depends on. Failure is no matter. */
void ocl_survey_write(const char *kind, uint64_t key, const void *answer, uint32_t bytes);
bool ocl_survey_old(uint64_t age); /* too old to go on leaving a driver out */

#endif
