/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The error for a path that cannot be opened: names the deepest folder that is there, and a similar name in it. Walks up the path, and
 * looks for the name below among that folder's entries. Openers of a user's file call yk__fail_open (core/control, core/io, core/read,
 * tools/train), each in its own thread.
 */
#include "core/base/absent.h"
#include "core/base/limit.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/nearest.h"

enum { PATH_BYTES = 1024, NAME_BYTES = 64, ENTRIES = 512 }; /* a folder of more entries is searched in part */

/* Names in messages have no control characters. */
static bool name_prints(const char *name)
{
    while (*name && (unsigned char)*name >= 0x20 && *name != 0x7f)
        name++;
    return !*name;
}

/* The nearest name of the folder's entries; "" if none is near. */
static void near_find(const char *folder, const char *name, char near[NAME_BYTES])
{
    DIR *d = opendir(folder);
    struct dirent *entry;
    *near = 0;
    const bool asks = strlen(name) > 2; /* any two letters are near each other */
    for (int i = 0; d && asks && i < ENTRIES && (entry = readdir(d)); i++) {
        const char *both[2] = {entry->d_name, *near ? near : entry->d_name};
        if (*entry->d_name == '.' || strlen(entry->d_name) >= NAME_BYTES || !name_prints(entry->d_name))
            continue;
        const char *best = yk__nearest_word(name, both, 2);
        if (best == entry->d_name && strcmp(best, name)) /* a link to nowhere has the name itself */
            snprintf(near, NAME_BYTES, "%s", entry->d_name);
    }
    if (d)
        closedir(d);
}

/* A model's folder without config.json: names its newest checkpoint, which is one, if it has any. */
static void model_advise(const char *folder, char *text, size_t size)
{
    static const char begin[] = "checkpoint-";
    long newest = -1;
    DIR *d = opendir(folder);
    struct dirent *entry;
    for (int i = 0; d && i < ENTRIES && (entry = readdir(d)); i++) {
        const char *number = entry->d_name + sizeof begin - 1;
        char file[PATH_BYTES + 64];
        if (strncmp(entry->d_name, begin, sizeof begin - 1) || !*number || number[strspn(number, "0123456789")])
            continue;
        snprintf(file, sizeof file, "%s/%.40s/config.json", folder, entry->d_name);
        if (strtol(number, NULL, 10) > newest && !access(file, R_OK))
            newest = strtol(number, NULL, 10);
    }
    if (d)
        closedir(d);
    if (newest >= 0)
        snprintf(text, size, " (no model was written there at a training's end: %.200s/checkpoint-%ld is one)", folder, newest);
    else
        snprintf(text, size, " (expected a folder with config.json and model.safetensors, as save_pretrained, hf download --local-dir and "
                             "yoke train write it)");
}

/* " (FOLDER has no NAME: did you mean OTHER?)" in text; "" if nothing helps, as the file alone is missing and no name is near. */
static void absent_advise(const char *path, char *text, size_t size)
{
    char folder[PATH_BYTES], near[NAME_BYTES], *slash, *name = folder;
    struct stat st;
    bool whole = true; /* the missing name is the path's last */
    *text = 0;
    if (strlen(path) >= sizeof folder)
        return;
    strcpy(folder, path);
    for (;;) {
        slash = strrchr(folder, '/');
        name = slash ? slash + 1 : folder;
        if (slash)
            *slash = 0;
        const char *above = !slash ? "." : slash == folder ? "/" : folder;
        if (!*name && slash)
            continue;
        if (!stat(above, &st))
            break;
        if (!slash)
            return;
        whole = false;
    }
    if (!S_ISDIR(st.st_mode) || !*name)
        return;
    const char *above = !slash ? "." : slash == folder ? "/" : folder;
    near_find(above, name, near);
    if (whole && slash && !strcmp(name, "config.json"))
        model_advise(above, text, size);
    else if (*near)
        snprintf(text, size, " (%.200s has no %.60s: did you mean %s?)", slash ? above : "this folder", name, near);
    else if (!whole)
        snprintf(text, size, " (%.200s has no folder %.60s)", slash ? above : "this folder", name);
}

yk_status yk__fail_open(yk_error *err, const char *path, int why)
{
    static const int names[] = {ENOENT, ENOTDIR, EISDIR, EACCES, EPERM, ELOOP, ENAMETOOLONG, EINVAL, ENXIO};
    yk_status s = YK_E_IO;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (why == names[i])
            s = YK_E_ARG;
    char advice[400] = "";
    if (why == ENOENT)
        absent_advise(path, advice, sizeof advice);
    return yk__fail(err, s, "%s: cannot be opened: %s%s", path, yk__limit_reason(why).text, advice);
}
