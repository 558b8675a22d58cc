/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file of settings, read from YAML or JSON into keys and values that know their lines. Values stay text: the setting's type decides the
 * meaning of `no` or `010`, so YAML 1.1 and 1.2 cannot disagree.
 *
 * JSON is strict RFC 8259 (core/io/json.h). YAML files of settings have maps, lists and scalars of one line. Messages refuse anchors,
 * aliases, tags, directives, several documents, text over several lines and tabs as indentation. Depth is at most 64, and a text has at
 * most 16 MiB. Keys are not empty, and occur once in a map.
 *
 * Errors: YK_E_IO, YK_E_MEM; YK_E_FORMAT with the file, the line and the reason; YK_E_UNSUPPORTED if YAML is not built in. Thread rule: one
 * thread at a time for a given tree.
 */
#ifndef YOKE_CORE_IO_TREE_H
#define YOKE_CORE_IO_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

typedef enum yk__tree_kind { YK__TREE_MAP, YK__TREE_LIST, YK__TREE_TEXT } yk__tree_kind;

typedef struct yk__tree {
    yk__tree_kind kind;
    uint32_t line; /* from 1; a map's member has its key's line */
    bool quoted;   /* text in quotes, which is no number, switch or null */
    char *key;     /* a map's member's key, else NULL */
    char *text;    /* for YK__TREE_TEXT, NUL-terminated, without NUL bytes; a plain `null` or nothing is the text "null" */
    struct yk__tree *child, *next;
} yk__tree;

/* The name and first character choose the format: ".json" or a '{' means JSON, anything else YAML. */
yk_status yk__tree_load(const char *path, yk__tree **out, yk_error *err);
yk_status yk__tree_json(const char *name, const char *text, size_t bytes, yk__tree **out, yk_error *err);
yk_status yk__tree_yaml(const char *name, const char *text, size_t bytes, yk__tree **out, yk_error *err);
void yk__tree_free(yk__tree *tree); /* takes NULL */

/* The member of a map; NULL if absent, or if `map` is no map. */
yk__tree *yk__tree_get(const yk__tree *map, const char *key);
bool yk__tree_is_null(const yk__tree *node); /* null outside quotes */

/* For the readers: a node with copies of key and text, each may be NULL. NULL if memory ran out, with err set. */
yk__tree *yk__tree_new(yk__tree_kind kind, uint32_t line, const char *key, const char *text, yk_error *err);

enum { YK__TREE_DEPTH = 64, YK__TREE_BYTES = 16 << 20 };

#endif
