/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folders that are written beside and put in place whole, and the limits of removing one.
 *
 * Removing follows no symbolic link at the end of a path. The target of a move, and a folder that is synced as a parent, may be links.
 * yk__folder_remove removes only files that its callback owns. Errors: YK_E_IO, YK_E_MEM;
 * messages begin with the path. Thread rule: any thread; one at a time per folder.
 */
#ifndef YOKE_CORE_IO_FOLDER_H
#define YOKE_CORE_IO_FOLDER_H

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "core/base/error.h"

/* Returns true if a file of that name belongs to the caller. */
typedef bool (*yk__folder_own)(void *user, const char *name);

/* The next entry of an open folder; NULL at its end, and after a failure, which fills the error. */
struct dirent *yk__folder_next(DIR *dir, const char *path, yk_error *err);
/* A descriptor of a real folder, for the *at calls; -1 with the error filled. */
int yk__folder_open(const char *dir, yk_error *err);
bool yk__folder_is(const char *dir); /* a real folder, not a link to one */
/* Makes the folder and its missing parents. */
yk_status yk__folder_make(const char *dir, yk_error *err);
/* Removes the files that are own, then the folder. If it holds further files, they and the folder stay: an error names one. A missing
 * folder is no error. */
yk_status yk__folder_remove(const char *dir, yk__folder_own own, void *user, yk_error *err);
int yk__folder_sync_file(int fd); /* fsync, as an act (core/base/advance.h) */
/* fsync of every file in it, and of the folder. */
yk_status yk__folder_sync(const char *dir, yk_error *err);
yk_status yk__folder_sync_parent(const char *path, yk_error *err);
/* Moves every entry of `from` to `to`, over files of the same name; with `own`, only entries that are not own and that `to` lacks. */
yk_status yk__folder_move(const char *from, const char *to, yk__folder_own own, void *user, yk_error *err);
/* Puts `from` at the place of `to`; if `to` was a folder, `from` is that folder afterwards. If the file system cannot exchange two
 * names, the old folder is called `aside` for a moment. */
yk_status yk__folder_exchange(const char *from, const char *to, const char *aside, yk_error *err);

/* ---- Files ---- */

#define YK__FOLDER_TMP ".yoke-tmp" /* ending of a file or folder under construction, as NAME.tmp may be a user's */

/* Sets the path whose file a new one replaces: path, or a link's target. False if that is a device, a pipe or an open file (/dev/stdout),
 * or a link leads nowhere. */
bool yk__folder_file(const char *path, char real[PATH_MAX]);
/* True if the file that yk__folder_file set takes bytes, and no new one its place: it is a mount point, or its folder takes no file. */
bool yk__folder_keeps(const char *real);
/* A copy of the descriptor that a name such as /dev/stdout stands for; the caller's to close. -1 for every other name. Opened by name, a
 * file would lose its position and perhaps its content. */
int yk__folder_opened(const char *path);
/* The permissions of a file or folder, for one that takes its place. */
typedef struct yk__folder_rights {
    struct stat st;
    ssize_t acl_bytes; /* of its list for single users and groups; 0: it has none, -1: it cannot be read */
    char acl[1024];
} yk__folder_rights;

/* Reads them from a path, links followed, or without one from a descriptor. False with errno. */
bool yk__folder_rights_of(int fd, const char *path, yk__folder_rights *rights);
/* Gives them to an open file or folder, with the owner and group if possible. What cannot be kept leaves it closed. False with errno if it
 * stays open to more users. */
bool yk__folder_rights_keep(int fd, const yk__folder_rights *old);
yk_status yk__folder_rights_keep_at(const char *dir, const yk__folder_rights *old, yk_error *err); /* dir: no link */
/* Gives each file in `fresh` the permissions of the file of its name in `old`. */
yk_status yk__folder_entries_keep(const char *fresh, const char *old, yk_error *err);
/* Creates `fresh`, which a rename will put at the place of `path`. It has the permissions of the file there, or without one a new file's.
 * -1 with errno. */
int yk__folder_successor(const char *fresh, const char *path);
/* The descriptor as a stream that writes; NULL with errno set, and the descriptor is closed. Without a descriptor (-1) errno stays. */
FILE *yk__folder_stream(int fd);
bool yk__folder_same(const char *one, const char *two); /* two names of one regular file */
/* A whole file: written beside, synced, renamed. A link stays one. A device, a pipe, an open file or one that keeps its place takes the
 * bytes itself. */
yk_status yk__folder_write_file(const char *path, const char *text, size_t bytes, yk_error *err);

/* ---- Several files of a folder replaced together ----
 * The caller writes them into DIR/.yoke-save.tmp; after they are synced, that becomes DIR/.yoke-save, from which they are moved into
 * DIR. A kill before leaves the old files, a kill in between leaves a DIR/.yoke-save, which check() names. */
yk_status yk__stage_begin(const char *dir, char **stage, yk_error *err); /* *stage: its path, the caller's to free */
/* A file NAME.yoke-gone in the stage makes the commit remove DIR/NAME, and a line names it. */
yk_status yk__stage_commit(const char *dir, yk_error *err);
void yk__stage_abandon(const char *dir);
yk_status yk__stage_check(const char *dir, yk_error *err); /* YK_E_FORMAT if a replacement was interrupted */

#endif
