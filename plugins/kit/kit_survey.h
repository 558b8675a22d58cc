/* SPDX-License-Identifier: Apache-2.0 */
/* Answers about drivers that are kept between processes; see kit_survey.c for how long they hold. One thread. */
#ifndef YOKE_PLUGINS_KIT_KIT_SURVEY_H
#define YOKE_PLUGINS_KIT_KIT_SURVEY_H

#include <stdbool.h>

#include <yoke/plugin.h>

#define KIT_SURVEY_OPTIONS 4

typedef struct kit_survey { /* owner of the answers */
    const yk_host *host;
    const char *plugin, *version;
    const char *prefix;                     /* prefix of file names */
    const char *option[KIT_SURVEY_OPTIONS]; /* options that decide about devices; NULL after the last */
} kit_survey;

/* Keys of the facts for these loader entries; the second also covers the cores and options. */
uint64_t kit_survey_key(const kit_survey *who, const char *const *entry, uint32_t n_entry);
uint64_t kit_survey_key_devices(const kit_survey *who, uint64_t key);

/* Reads an answer of at most `bytes`, *got bytes, *age seconds old; false if none holds. */
bool kit_survey_read(const kit_survey *who, const char *kind, uint64_t key, void *answer, uint32_t bytes, uint32_t *got, uint64_t *age);
/* Keeps an answer. Call it with the drivers loaded: the answer depends on the libraries mapped now. Failures are ignored. */
void kit_survey_write(const kit_survey *who, const char *kind, uint64_t key, const void *answer, uint32_t bytes);
bool kit_survey_old(uint64_t age); /* too old to go on leaving a driver out */

#endif
