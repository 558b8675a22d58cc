/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of plugins: NAME from a file "yoke_NAME.so", and the list of such files in the folder. plugin.c, pluginlist.c and module.c use it.
 * Opens no plugin's file; any thread.
 */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/device/device_internal.h"
#include "core/device/module.h"

/* "yoke_NAME.so" -> NAME, or NULL. */
char *yk__plugin_file_name(const char *file)
{
    size_t len = strlen(file);
    if (len <= 8 || strncmp(file, "yoke_", 5) || strcmp(file + len - 3, ".so"))
        return NULL;
    return yk__strndup(file + 5, len - 8);
}

bool yk__plugin_is_file(const char *name)
{
    size_t len = strlen(name);
    return len > 8 && !strncmp(name, "yoke_", 5) && !strcmp(name + len - 3, ".so");
}

static int is_plugin(const struct dirent *d)
{
    return yk__plugin_is_file(d->d_name);
}

/* Names separated by ", ": takes `s`, returns s with `name` added. */
char *yk__plugin_add_name(char *s, const char *name)
{
    char *t = s && name && *name ? yk__format("%s%s%s", s, *s ? ", " : "", name) : s;
    if (t != s)
        yk__free(s);
    return t;
}

char *yk__plugin_folder_names(void)
{
    struct dirent **entry = NULL;
    int n = scandir(yk__plugin_folder(), &entry, is_plugin, alphasort);
    char *s = yk__strdup("");
    for (int i = 0; i < n; i++) {
        char *name = yk__plugin_file_name(entry[i]->d_name);
        s = yk__plugin_add_name(s, name);
        yk__free(name);
        free(entry[i]);
    }
    free(entry);
    return s;
}
