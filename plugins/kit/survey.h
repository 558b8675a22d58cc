/* SPDX-License-Identifier: Apache-2.0 */
/* Answers about drivers that are kept between processes; see survey.c for how long they hold. One thread. */
#ifndef YOKE_PLUGINS_KIT_SURVEY_H
#define YOKE_PLUGINS_KIT_SURVEY_H

#include <stdbool.h>

#include <yoke/plugin.h>

#define KIT_SURVEY_OPTIONS 4

typedef struct kit_survey { /* whose answers */
    const yk_host *host;
    const char *plugin, *version;
    const char *prefix;                     /* of the files */
    const char *option[KIT_SURVEY_OPTIONS]; /* that decide about devices; NULL: no more */
} kit_survey;

/* Of what was found with these loader entries; the second also of the cores and options it was found with. */
uint64_t kit_survey_key(const kit_survey *who, const char *const *entry, uint32_t n_entry);
uint64_t kit_survey_key_devices(const kit_survey *who, uint64_t key);

/* An answer of at most `bytes`, *got of them, *age seconds old; false: there is none that holds. */
bool kit_survey_read(const kit_survey *who, const char *kind, uint64_t key, void *answer, uint32_t bytes, uint32_t *got, uint64_t *age);
/* Call it with the drivers loaded: the libraries mapped now are what the answer depends on. Failure is no matter. */
void kit_survey_write(const kit_survey *who, const char *kind, uint64_t key, const void *answer, uint32_t bytes);
bool kit_survey_old(uint64_t age); /* too old to go on leaving a driver out */

#endif
