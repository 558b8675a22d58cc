/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings files of other programs, and our own: the meaning of their keys here. A format is one table of keys (keys_*.c), and each key
 * has a fate. A key with an effect becomes an option, as if typed on the command line.
 *
 * Lifetime: a settings object owns its texts until settings_free. Thread rule: one thread.
 */
#ifndef YOKE_TOOLS_CONFIG_CONFIG_SETTINGS_H
#define YOKE_TOOLS_CONFIG_CONFIG_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/base/error.h"
#include "core/io/tree.h"
#include "tools/cli.h"

typedef enum settings_fate {
    SETTINGS_HONOURED, /* means the same here */
    SETTINGS_MAPPED,   /* has a different name or form here */
    SETTINGS_IDLE,     /* not needed: one line gives the reason */
    SETTINGS_LATER,    /* has a meaning here, and is not built yet: a file is read with it, and a run refuses it */
    SETTINGS_REFUSED   /* refused with the reason, unless its value requests nothing */
} settings_fate;

typedef enum settings_kind {
    SETTINGS_SWITCH,
    SETTINGS_INT,
    SETTINGS_REAL,
    SETTINGS_WORD, /* one of the words of the row */
    SETTINGS_TEXT,
    SETTINGS_REALS, /* a list of two numbers */
    SETTINGS_MAP,   /* keys with their own rows */
    SETTINGS_ANY    /* any value, with all nested keys */
} settings_kind;

/* The target of an option. */
typedef enum settings_scope { SETTINGS_TRAIN, SETTINGS_LAUNCH, SETTINGS_ENV } settings_scope;

typedef struct settings_key {
    const char *path; /* "zero_optimization.stage"; several as "a|b", with the map before all: "fp16.a|b" */
    settings_kind kind;
    settings_fate fate;
    const char *words;   /* SETTINGS_WORD: a list of core/base/word.h; numbers: "LEAST MOST"; NULL for any */
    const char *off;     /* refused key: values that request nothing, besides false, no, none, null, 0 and {}; NULL for no others;
                          * "=-1": this number alone */
    const char *option;  /* option that takes the value: "train:max-grad-norm", "env:YOKE_WIRE"; NULL: see `why`, or settings_finish */
    const char *why;     /* its meaning here, or the reason why it has none */
} settings_key;

typedef struct settings_table {
    const char *name, *title; /* "deepspeed", "DeepSpeed's JSON" */
    const settings_key *key;
    size_t count;
    bool automatic; /* "auto" leaves a value to the command */
    bool comments;  /* keys like "_comment" and "//" are notes, as JSON has no comments */
} settings_table;

#define SETTINGS_NOT_BUILT "not built yet" /* in a command's message about an option that it takes when it is built */

#define SETTINGS_ROWS "window-rows" /* no option: it stands for rows of a step that only the number of ranks tells */

/* The commands' own names, for our YAML. */
extern const yk__cli_command *const yk__train_command, *const yk__launch_command;
extern const settings_table *const settings_nested[]; /* tables of Accelerate's plugins; ends with NULL */
extern const settings_table settings_accelerate, settings_deepspeed, settings_fsdp, settings_parallelism, settings_accelerator;

/* A key of a file, and its fate. */
typedef struct settings_item {
    settings_fate fate;
    const char *file; /* one of settings.file */
    uint32_t line;
    char *path, *value;
    const char *why;
} settings_item;

typedef struct settings_option {
    settings_scope scope;
    char *name, *value; /* without dashes; value NULL: a switch that is on */
    char *key;          /* of the file, which the option is made of; NULL: words on the command line */
    const char *file;
    uint32_t line;
    uint32_t says;      /* times that files say it, with this value */
    bool dropped;       /* by settings_drop */
    bool preset;        /* of a key that the file lacks: it gives way to what another file says or is typed, without a word */
} settings_option;

/* A key's part of an option that several keys make. */
typedef struct settings_part {
    const char *name, *file; /* name: the option; file: one of settings.file */
    char *value, *key; /* the option's value as this key alone makes it; the key's path */
    uint32_t line;
    bool refused;      /* settings_decide's own */
} settings_part;

/* The place of an option in a file. */
typedef struct settings_place {
    uint32_t line;
    const char *key; /* NULL: none */
} settings_place;

/* A number that a file says. */
typedef struct settings_said {
    double number;     /* 0: no file says it */
    const char *file;  /* one of settings.file */
    const char *key;   /* static */
    uint32_t line;
} settings_said;

typedef struct settings {
    settings_item *item;
    settings_option *option;
    settings_part *part;
    char **message; /* errors, one line each, with file, line and key */
    char **file;
    char **reason;  /* texts for items, from the command's check */
    size_t items, options, parts, messages, files, reasons;
    size_t item_capacity, option_capacity, part_capacity, message_capacity, file_capacity, reason_capacity;
    double ranks; /* of the job, if the caller knows; else 0 */
    double (*ranks_count)(const struct settings *s); /* counts them where a key needs it, 0 if it cannot; NULL: nobody can */
    const char *devices; /* for ranks_count: --devices as typed; NULL: not */
    const yk__cli_command *command; /* whose options are typed; NULL: none */
    const char *typed[YK_CLI_OPTIONS]; /* by option of the command: its value in our words; of a switch "" or a truth; NULL: not typed */
    settings_said rows, micro; /* DeepSpeed's train_batch_size and train_micro_batch_size_per_gpu, until settings_settle */
    const char *unclipped; /* DeepSpeed's file without gradient_clipping; NULL: none */
    const char *unheated;  /* DeepSpeed's file with a warm-up and without warmup_max_lr; NULL: none */
    uint32_t unheated_rates; /* times that such files say the learning rate */
    yk_error err; /* only for memory; errors in a file are messages */
} settings;

/* Reads a file, whose keys tell its format. Messages describe errors; the status is the first failure (YK_E_FORMAT for messages). */
yk_status settings_read(settings *s, const char *path);
/* One format's file, or its JSON text where `given` begins with '{'; `option` names the text in messages. */
yk_status settings_read_as(settings *s, const settings_table *table, const char *option, const char *given);
/* Trainer's --fsdp "full_shard auto_wrap offload" and --sharded_ddp "zero_dp_3 offload". */
yk_status settings_read_strategy(settings *s, const char *option, const char *words);
/* After the last file: what depends on several files and on typed options, in no order of files. */
void settings_settle(settings *s);
void settings_free(settings *s);

/* ---- For the formats ---- */

/* file: NULL for a message about words that no file has. */
void settings_say(settings *s, const char *file, uint32_t line, const char *key, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
void settings_put(settings *s, settings_scope scope, const char *name, const char *value, const char *file, settings_place at);
/* Puts the option if no file says it; one that does takes its place. */
void settings_preset(settings *s, const char *name, const char *value, const char *file);
/* The value as the option has it that this name stands for, by the command's spellings. value: NULL for a switch that is on. The result is
 * NULL, the value, in space or static. */
const char *settings_mapped(const yk__cli_command *c, const char *name, size_t n, const char *value, char *space, size_t size);
/* The option's value on the command line, in our words; of a switch "" or a truth (yk__cli_truth). NULL: not typed. */
const char *settings_typed(const settings *s, const char *name);
/* True if a part of the list "a,b" is one of the words; with `in` false, if one is none of them. */
bool settings_list_has(const char *list, const char *words, bool in);
/* The precision that the command line names by any of its options; NULL if it names none. A switch that is off names fp32 if the file's
 * precision is the switch's, else none. */
const char *settings_typed_precision(const settings *s);
/* The typed option whose value has no use for this option of a file, as the file has it for its own value; else NULL. */
const char *settings_owner(const settings *s, const char *name);
/* True if two options have one meaning. other: may be the list of its names. */
bool settings_alike(const char *name, const char *other);
/* True if the command line has an option with the same meaning as this one. */
bool settings_typed_alike(const settings *s, const char *name);
/* True if the command line has this option, another with its meaning, or a value that has no use for it: no value of a file counts. */
bool settings_replaced(const settings *s, const char *name);
double settings_typed_number(const settings *s, const char *name); /* 0: not typed */
/* Notes the key's part of the option. name: of static memory. */
void settings_part_of(settings *s, const char *name, const char *value, const char *file, settings_place at);
/* Walks a map by a table: checks kinds, notes fates, adds options, and gives each word and integer in the tree its canonical form, so
 * that later readers compare with one spelling. `shown` is the map's own path in the file, `strip` a prefix that its keys may have
 * besides the table's names ("fsdp_"). */
void settings_walk(settings *s, const settings_table *table, const char *file, yk__tree *map, const char *shown, const char *strip);
/* The member that is called NAME, or PREFIX and NAME, and has a text; NULL if absent, null or "auto". */
yk__tree *settings_key_get(const yk__tree *map, const char *prefix, const char *name);
/* True for keys that begin as comments do, and for "comment" itself. */
bool settings_is_comment(const char *key);
/* Every key below is idle for this reason. */
void settings_idle(settings *s, const char *file, const yk__tree *map, const char *path, const char *why);
/* The keys of this path and below, but for those that are refused, turn out to be idle for this reason. */
void settings_unneed(settings *s, const char *file, const char *path, const char *why);
/* Gives the key at this place a fate, unless it is refused. `key` is the end of its path, or NULL: then nothing changes. */
void settings_mark(settings *s, settings_fate fate, const char *file, uint32_t line, const char *key, const char *why);
/* Refuses device nvme, which the stage has a use for, without its folder's key. */
void settings_lack_folder(settings *s, const char *file, uint32_t line, const char *device, const char *folder);
/* The option and its keys have no effect in this run. */
void settings_drop(settings *s, const settings_option *o, const char *why);
const char *settings_reason(settings *s, const char *text); /* a copy that lives as long as the settings */
const settings_option *settings_find(const settings *s, settings_scope scope, const char *name);

/* In each format a known key that is null is as absent. "auto" is given: it leaves the value to the command. */
bool settings_is_given(const yk__tree *map, const char *path);
/* Values of checked trees by path; "auto" and null are as absent. */
const char *settings_text(const yk__tree *map, const char *path);
bool settings_on(const yk__tree *map, const char *path, bool preset);
double settings_number(const yk__tree *map, const char *path, double preset);
uint32_t settings_line(const yk__tree *map, const char *path); /* 1: absent */
settings_place settings_at(const yk__tree *map, const char *path);
settings_place settings_of(const yk__tree *node);

/* Apply the combined meaning of a format's keys. */
void settings_finish_deepspeed(settings *s, const char *file, const yk__tree *map);
void settings_settle_batch(settings *s); /* settings_settle's: the relation of rows, micro batch, accumulation and ranks */
void settings_finish_accelerate(settings *s, const char *file, const yk__tree *map);
/* prefix "fsdp_" in Accelerate's files. */
void settings_finish_fsdp(settings *s, const char *file, const yk__tree *map, const char *prefix);
void settings_finish_parallelism(settings *s, const char *file, const yk__tree *map, const char *prefix);

#endif
