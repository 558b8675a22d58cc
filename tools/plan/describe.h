/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures devices for a plan. Probes are short `yoke bench step` runs of small models, each with much of one kind of work, so that a fit
 * (cost_fit) finds the time of each kind. Devices are measured alone, and then all together for the exchange.
 */
#ifndef YOKE_TOOLS_PLAN_DESCRIBE_H
#define YOKE_TOOLS_PLAN_DESCRIBE_H

#include <jansson.h>

#include "tools/plan/device_file.h"

/* A question to this program: the devices and the precision of a job. */
typedef struct describe_ask {
    const char *command;   /* its name, for the line that says what takes seconds */
    char *program;         /* this program's path */
    const char *devices;   /* specifications; NULL: YOKE_DEVICES, else cpu */
    const char *precision; /* one word */
    bool substitute;       /* --allow-substitute */
    bool fresh;            /* measure, though the cache folder has times */
} describe_ask;

/* The devices of a job, from the cache folder or measured; an error with the failed probe's message. */
yk_status describe_devices(const describe_ask *ask, devices *d, yk_error *err);
#define DESCRIBE_MOST 600 /* seconds that a child may take to list devices, to plan or to measure a small model */
/* Runs a command of this program that prints one JSON object, the caller's to json_decref. It is killed after `most` seconds. On failure
 * err has the child's message. */
json_t *describe_run(char **argv, double most, yk_error *err);
/* Reads a "work" object. */
work describe_work(const json_t *object);

#endif
