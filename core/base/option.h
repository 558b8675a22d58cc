/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The environment variables that core reads, one line of a table each. No other place in core reads a YOKE_* name, or one that
 * Accelerate sets, from the environment. yk__options_check refuses a value that cannot be read; yk_open, yk_launch and the commands
 * run it first. If it did not run, the functions below return the default for such a value. An empty value counts as unset. A program
 * with more rights than its caller (setuid) takes no paths and no plugin options from the environment.
 *
 * Each call reads the environment anew; a job reads its options once. Thread rule: as getenv.
 */
#ifndef YOKE_CORE_BASE_OPTION_H
#define YOKE_CORE_BASE_OPTION_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"

typedef enum yk__option_kind {
    YK__OPTION_TEXT = 1, /* a name, or text that its own part of core parses and checks */
    YK__OPTION_PATH,     /* a file, a folder, or a list of them; ignored in a setuid program */
    YK__OPTION_COUNT,    /* an integer from least to most */
    YK__OPTION_SIZES,    /* bytes as 500M or 1.5G, or such numbers by rank with commas between; the last serves all further ranks */
    YK__OPTION_SIZE,     /* one number of bytes */
    YK__OPTION_WORD,     /* one of the words */
    YK__OPTION_WORDS,    /* any of the words, with commas or blanks between */
} yk__option_kind;

/* Owner of a value. */
typedef enum yk__option_scope {
    YK__OPTION_EACH, /* a rank's own: ranks may differ */
    YK__OPTION_ALL   /* the job's: ranks with different values would deadlock or diverge (core/group/transport_choice.c) */
} yk__option_scope;

/* X(id, name, kind, default, least, most, words, layer, scope, help); a default of "" means no default. */
#define YK_OPTION_TABLE(X)                                                                                                        \
    X(LOG, "YOKE_LOG", WORD, "warn", 0, 0, "error, warn, info, debug, trace", "base", EACH, "what is reported on standard error")          \
    X(DEVICES, "YOKE_DEVICES", TEXT, "auto", 0, 0, NULL, "job", EACH, "device specs where none are given: cpu:0 cpu/2 opencl:*")       \
    X(MEMORY_LIMIT, "YOKE_MEMORY_LIMIT", SIZES, "0", 0, 1ull << 60, NULL, "job", EACH,                                                  \
      "bytes a rank may take on its device, or by rank: activations are computed again to stay below; 0: none, and an error where the " \
      "device has no more")                                                                                                       \
    X(SHARES, "YOKE_SHARES", TEXT, "speed", 0, 0, NULL, "job", EACH,                                                                   \
      "rows of each rank: speed, as measured; equal, or parts by rank as 3:1:2, which fix the parts of the optimizer too, evenly")  \
    X(PLUGIN_DIR, "YOKE_PLUGIN_DIR", PATH, "", 0, 0, NULL, "device", EACH,                                                              \
      "the folder of plugins, instead of the one beside the program or the installed one")                                       \
    X(PLUGINS, "YOKE_PLUGINS", PATH, "", 0, 0, NULL, "device", EACH, "names or paths of the plugins to use, instead of all")           \
    X(CACHE_DIR, "YOKE_CACHE_DIR", PATH, "", 0, 0, NULL, "device", EACH,                                                                \
      "the folder of compiled kernels and of what was measured, instead of ~/.cache/yoke")                                       \
    X(TOPOLOGY_XML, "YOKE_TOPOLOGY_XML", PATH, "", 0, 0, NULL, "device", EACH, "a machine recorded by lstopo, instead of this one")    \
    X(LAYERS, "YOKE_LAYERS", WORDS, "", 0, 0, "validate, trace, count", "device", EACH, "checks and records every call of a plugin")   \
    X(PROBE, "YOKE_PROBE", WORD, "on", 0, 0, "on, off", "device", EACH, "a small computation that each device does when it is opened") \
    X(LIVENESS_MS, "YOKE_LIVENESS_MS", COUNT, "1300", 0, 3600000, NULL, "group", EACH, \
      "after so long a silent rank is taken for dead; 0: never, nor for stuck unless YOKE_STUCK_MS is set")                       \
    X(STUCK_MS, "YOKE_STUCK_MS", COUNT, "600000", 0, 86400000, NULL, "base", EACH,                                                        \
      "after so long a rank that does nothing, while others wait for it, is taken for stuck; where it is not set, a call or a device " \
      "is after 20 times the longest of its kind so far, 30 s at least; a compilation has 20 times its device's estimate, if longer; " \
      "0: never")             \
    X(JOIN_MS, "YOKE_JOIN_MS", COUNT, "300000", 1, 86400000, NULL, "group", EACH, "how long ranks wait for all to join")               \
    X(TRANSPORT, "YOKE_TRANSPORT", TEXT, "auto", 0, 0, NULL, "group", ALL,                                                             \
      "how ranks exchange data: auto, shm (memory in common), or a transport: sock (TCP), ..")                                       \
    X(REPRODUCIBILITY, "YOKE_REPRODUCIBILITY", WORD, "rank", 0, 0, "rank, run, fast", "group", ALL, \
      "sums over hosts: rank, the same bits on any hosts; run, those of a host first, the same bits on the same hosts")             \
    X(WIRE, "YOKE_WIRE", WORD, "fp32", 0, 0, "fp32, bf16, int8", "group", ALL,                                                       \
      "how gradients travel between hosts; bf16 has half the bytes, int8 (with error feedback) a quarter")                        \
    X(WIRE_PARAMS, "YOKE_WIRE_PARAMS", WORD, "fp32", 0, 0, "fp32, bf16", "group", ALL,                                               \
      "how updated parameters travel between hosts; bf16 halves the bytes, and what is rounded away stays with the owner")         \
    X(PROGRESS, "YOKE_PROGRESS", WORD, "on", 0, 0, "on, off", "group", ALL, "a thread that moves messages while the device computes")  \
    X(MESSAGE_CHECK, "YOKE_MESSAGE_CHECK", WORD, "auto", 0, 0, "auto, off, on", "group", ALL,                                              \
      "checksums and numbers on messages, which find changed and lost ones; auto: but for transports that check messages themselves") \
    X(SOCK_STREAMS, "YOKE_SOCK_STREAMS", COUNT, "2", 1, 4, NULL, "transport", EACH,                                                     \
      "connections between two ranks over TCP; the first is for short messages alone where there are others")                    \
    X(SOCK_MAC, "YOKE_SOCK_MAC", WORD, "auto", 0, 0, "auto, always", "transport", EACH,                                                  \
      "MACs on what goes over TCP; auto: but for connections that never leave the kernel, as both ends have one address")        \
    X(OFI_PROVIDER, "YOKE_OFI_PROVIDER", TEXT, "", 0, 0, NULL, "transport", EACH,                                                        \
      "of libfabric, for the transport ofi: the same on all hosts; else the best that there is")                                  \
    X(BUCKET_BYTES, "YOKE_BUCKET_BYTES", SIZE, "16M", 4096, 1ull << 40, NULL, "run", ALL, "gradients exchanged at a time")            \
    X(CUT, "YOKE_CUT", WORD, "bucket", 0, 0, "bucket, node", "plan", ALL, "node: every node is a segment of its own, to find a fault") \
    X(DUMP, "YOKE_DUMP", PATH, "", 0, 0, NULL, "plan", EACH, "a folder that gets every plan, and its graph after each pass") \
    X(EMERGENCY_CHECKPOINT, "YOKE_EMERGENCY_CHECKPOINT", PATH, "", 0, 0, NULL, "job", ALL,                                               \
      "a folder: the last whole step goes there when a rank of this host is lost")                                               \
    X(EMERGENCY_STEPS, "YOKE_EMERGENCY_STEPS", COUNT, "1", 1, 1000000, NULL, "job", ALL, "one step of so many is kept for that")       \
    X(TRACE, "YOKE_TRACE", PATH, "", 0, 0, NULL, "run", EACH, \
      "a file: rank R writes a trace of some steps to FILE.R; yoke trace joins them")\
    X(TRACE_SKIP, "YOKE_TRACE_SKIP", COUNT, "10", 0, 1ull << 40, NULL, "run", EACH, "steps before those that are traced")              \
    X(TRACE_STEPS, "YOKE_TRACE_STEPS", COUNT, "3", 1, 1000, NULL, "run", EACH, "steps that are traced")                                 \
    X(LAUNCHER, "YOKE_LAUNCHER", WORD, "", 0, 0, "none", "control", EACH,                                                               \
      "none: a process that another launcher started is a job of its own")                                                       \
    X(JOB_FD, "YOKE_JOB_FD", TEXT, "", 0, 0, NULL, "control", EACH, "set by yoke launch: the job's descriptor")                        \
    X(RANK, "YOKE_RANK", TEXT, "", 0, 0, NULL, "control", EACH, \
      "the number of this rank; yoke launch sets it, or whoever starts ranks by hand") \
    X(RANKS, "YOKE_SIZE", TEXT, "", 0, 0, NULL, "control", EACH, "the number of ranks, where they are started by hand or by Kubernetes") \
    X(ADDR, "YOKE_ADDR", TEXT, "", 0, 0, NULL, "control", EACH, "the name or address of rank 0's host, which rank 0 listens on")       \
    X(PORT, "YOKE_PORT", COUNT, "", 1, 65535, NULL, "control", EACH, "the TCP port of rank 0") \
    X(SECRET_FILE, "YOKE_SECRET_FILE", PATH, "", 0, 0, NULL, "control", EACH,                                                          \
      "a file of 16 bytes or more, readable by its owner alone (chmod 600), equal on all hosts: who knows it may join")          \
    X(LISTEN_FD, "YOKE_LISTEN_FD", COUNT, "", 0, INT32_MAX, NULL, "control", EACH,                                                       \
      "set by yoke launch --hosts: the socket on which rank 0 listens")                                                           \
    X(NODE_FD, "YOKE_NODE_FD", COUNT, "", 0, INT32_MAX, NULL, "control", EACH,                                                          \
      "set by yoke launch --hosts: where a rank says what has ended the job")                                                     \
    X(CONFIG_FILE, "YOKE_CONFIG_FILE", PATH, "", 0, 0, NULL, "tools", EACH,                                                            \
      "settings that yoke launch and yoke train read; none: not those of yoke config either")                                          \
    X(SSH, "YOKE_SSH", TEXT, "ssh -o BatchMode=yes", 0, 0, NULL, "tools", EACH,                                                        \
      "the command by which yoke launch --hosts runs another on a host")                                                        \
    X(SERVICE, "YOKE_SERVICE", TEXT, "", 0, 0, NULL, "control", EACH, "the headless service of a Kubernetes indexed job")              \
    X(HOST_ID, "YOKE_HOST_ID", TEXT, "", 0, 0, NULL, "control", EACH, "for tests: ranks with unlike values count as on unlike hosts")  \
    X(MAX_RESTARTS, "YOKE_MAX_RESTARTS", COUNT, "0", 0, 1000000, NULL, "job", EACH,                                                       \
      "how often a launch starts a job anew of which a rank died or failed")                                                     \
    X(RESTART_COUNT, "YOKE_RESTART_COUNT", COUNT, "0", 0, 1000000, NULL, "job", EACH, \
      "set by yoke launch: how often that was done so far") \
    X(RUN_ID, "YOKE_RUN_ID", TEXT, "", 0, 0, NULL, "launch", EACH,                                                                        \
      "set by yoke launch with restarts: a number that all attempts of one launch have in common, and no other launch")           \
    X(WORLD_SIZE, "YOKE_WORLD_SIZE", COUNT, "", 1, INT32_MAX, NULL, "control", EACH, "set by yoke launch: the number of ranks") \
    X(LOCAL_RANK, "YOKE_LOCAL_RANK", COUNT, "", 0, INT32_MAX, NULL, "launch", EACH, \
      "for programs, set by yoke launch: its number on this host") \
    X(ACCELERATE_PRECISION, "ACCELERATE_MIXED_PRECISION", WORD, "no", 0, 0, "no, fp32, bf16, fp16, fp8", "job", EACH, \
      "of accelerate launch: what products compute in where the program and --precision do not say") \
    X(ACCELERATE_ACCUMULATE, "ACCELERATE_GRADIENT_ACCUMULATION_STEPS", COUNT, "1", 1, 1 << 20, NULL, "job", EACH, \
      "of accelerate launch: micro batches of an optimizer step where the program and --gradient-accumulation-steps do not say") \
    X(ACCELERATE_CPU, "ACCELERATE_USE_CPU", WORD, "False", 0, 0, "False, True, false, true, 0, 1, no, yes", "job", EACH, \
      "of accelerate launch: the devices are cpu where neither the program, --devices nor YOKE_DEVICES says")

typedef enum yk__option {
#define X(id, ...) YK__OPTION_##id,
    YK_OPTION_TABLE(X)
#undef X
        YK__OPTION_N
} yk__option;

typedef struct yk__option_row {
    const char *name;
    yk__option_kind kind;
    const char *preset;
    uint64_t least, most;
    const char *words; /* separated by ", "; NULL for kinds other than WORD and WORDS */
    const char *layer; /* the folder that reads it: transport, tools, or one of core */
    yk__option_scope scope;
    const char *help;
} yk__option_row;

const yk__option_row *yk__option_row_of(yk__option option);

/* The environment's value; NULL if unset, empty, a service link, or a path in a setuid program. */
const char *yk__option_text(yk__option option);
/* True for a Kubernetes service link: in a pod Kubernetes sets NAME_PORT=tcp://ADDRESS:PORT for each service. A service called yoke thus
 * sets YOKE_PORT, which is not meant for Yoke and counts as unset. */
bool yk__option_is_service_link(const char *name, const char *value);
/* COUNT and SIZE: the value or the default. */
uint64_t yk__option_number(yk__option option);
/* SIZES: the value of a rank. */
uint64_t yk__option_size_of(yk__option option, uint32_t rank);
/* WORD: the number of the word in the table's list. WORDS: a bit for each. */
uint32_t yk__option_words(yk__option option);

/* The device specs that the environment names: YOKE_DEVICES, else YK_HOST_PLUGIN for ACCELERATE_USE_CPU; NULL if
 * absent. The build names that plugin, which serves the host's cores; the core itself names none. */
const char *yk__option_devices(void);

/* YK_E_ARG with the variable, its value and the allowed values: for one option; for all options, and for the variables of another
 * program that ask for a feature that Yoke lacks (foreign_variables.h). */
yk_status yk__option_check(yk__option option, yk_error *err);
yk_status yk__options_check(yk_error *err);

/* A variable outside the table, for paths and programs; NULL if unset or empty, or in a setuid program. */
const char *yk__environment_path(const char *name);

#endif
