/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Candidates of `yoke plan`: each stage of sharding that is built, with and without recomputation, and micro batches in powers of two at a
 * fixed number of rows a step. If one of them does not fit and a device has memory of its own, the same follow with --offload
 * state=host; with --disk DIR and if one does not fit yet, with state=nvme:DIR. If none fits
 * yet, those with activations=host follow. `yoke estimate-memory` plans each one in a child, with the
 * run's own code; cost.h predicts its time.
 */
#ifndef YOKE_TOOLS_PLAN_SEARCH_H
#define YOKE_TOOLS_PLAN_SEARCH_H

#include "tools/cli.h"
#include "tools/plan/cost.h"

/* Where a predicted time comes from: times of small models, its own steps, or these times by factors that other steps gave. */
typedef enum candidate_times { TIMES_MODEL, TIMES_MEASURED, TIMES_SCALED } candidate_times;

typedef struct candidate {
    const char *shard;
    const char *offload;  /* --offload, by the plan: a word of the search; NULL: none */
    bool recomputes;      /* --gradient-checkpointing */
    uint64_t batch, micros; /* rows of a micro batch over all ranks; micro batches */
    double seconds;       /* predicted, of a step */
    candidate_times times;
    double factor_fixed, factor_rows; /* by which measured steps corrected the parts of a step that rows do not change, and the rest */
    double wire;          /* bytes that a rank sends in a step */
    double largest, shared, all; /* bytes: the fullest rank, host memory of all ranks, sum */
    double host;          /* bytes of host memory that offload takes, all ranks */
    double file, disk;    /* bytes on this host's disk, all ranks; bytes that the disk of a rank reads and writes in a step */
    const char *where;    /* the device that has least room, or the host */
    double needs, has;    /* bytes there; has 0: unknown */
    double activations, state; /* bytes there, for a candidate that does not fit */
    bool fits;
    char *failure;        /* its steps hung: it does not fit, and this is the reason; NULL: they did not */
    char *refusal;        /* of the planner under the limit, if the bytes without it would fit; NULL: none */
    cost_rank *rank;      /* by row of devices */
    work *work;           /* the same */
} candidate;

enum { SEARCH_MOST = 120 };

typedef struct search {
    const yk__cli *cli;
    char *program;
    bool described; /* the devices are those of a file */
    bool by_memory; /* --objective memory */
    bool has_no_blocks; /* the model cannot recompute */
    devices devices;
    char *folder;   /* on the disk: of --disk, or of --offload; NULL: none */
    char *on_disk;  /* "state=nvme:DIR" of --disk; NULL: without it */
    double free_bytes; /* there; 0: unknown */
    double measures; /* seconds that steps of candidates run for */
    uint32_t n;
    candidate list[SEARCH_MOST]; /* fitting ones first, the best first */
} search;

/* Finds the devices (of --device-file, or measured), then plans and sorts all candidates. False after a message; *code: the exit code. */
bool search_run(search *s, const yk__cli *cli, bool by_memory, char *program, int *code);
void search_free(search *s);
/* Plans bytes and time of a candidate with the first six members; false where the planner refuses it. search_drop frees it. */
bool search_plan(const search *s, candidate *c);
void search_drop(candidate *c);
bool search_hung(const search *s); /* a candidate's steps hung */
/* Runs steps of a candidate for about so many seconds; returns the least step's seconds, 0 with an error if they failed: YK_E_TIMEOUT if
 * they took more than `most` seconds. */
double search_timed(const search *s, const candidate *c, double seconds, double most, yk_error *err);

enum { FOLDER_MOST = 2048, OPTIONS_MOST = FOLDER_MOST + 320 }; /* bytes of a state's folder, and of the options in text with it */
/* The options of a candidate behind the user's own ones, in text. */
void search_options(const search *s, const candidate *c, char *text, size_t size);
/* Prints them and the user's own ones, as words of a shell: the options of yoke train that the plan is for. */
void search_print(const search *s, const candidate *c);

/* argv with the options of the best candidate behind it, and --plan MS in place of --plan auto; *argc is updated. The devices, memory
 * limits and data are cli's. The caller frees it. NULL after a message, with the exit code in *code. */
char **search_apply(const yk__cli *cli, char *program, int *argc, char **argv, int *code);

#endif
