/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yoke-probe-pjrt: loads the PJRT plugin that YOKE_PJRT names, makes a client, and trains a small network with known results on its
 * first device. Exit 0: the numbers are right and the process ended as it should. A plugin that aborts or hangs, also at its end, does so
 * here and in no job. The reason is the exit code (PJ_EXIT_*) and stands on standard error.
 * Its one argument is the id of the process that asks: with that one it ends, also when the plugin hangs.
 */
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "backends/pjrt/exits.h"
#include "tools/probe_pjrt_known.h"

/* The parent may have ended before this could be asked for. */
static void end_with_parent(const char *parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (parent && (long)getppid() != atol(parent))
        _exit(PJ_EXIT_LOAD); /* child process */
}

/* Without a TPU, libtpu asks a metadata server about it for minutes. */
static void metadata_skip(void)
{
    glob_t found;
    const bool none = glob("/dev/accel*", 0, NULL, &found) && glob("/dev/vfio/[0-9]*", 0, NULL, &found);
    if (none)
        setenv("TPU_SKIP_MDS_QUERY", "1", 0);
    else
        globfree(&found);
}

static int plugin_try(const char *file, char why[PJ_WHY])
{
    pj_client c;
    if (!pj_plugin_load(file, &c, why))
        return PJ_EXIT_LOAD;
    if (!pj_client_open(&c, 0, 1, why))
        return PJ_EXIT_CLIENT;
    const int code = pj_known_training(&c, why) ? 0 : PJ_EXIT_NUMBERS;
    pj_client_close(&c);
    return code;
}

int main(int argc, char **argv)
{
    const char *entry = getenv("YOKE_PJRT");
    char file[512], why[PJ_WHY] = "";
    end_with_parent(argc > 1 ? argv[1] : NULL);
    if (!entry)
        return PJ_EXIT_LOAD;
    pj_entry_file(entry, file, sizeof file);
    metadata_skip();
    const int code = plugin_try(file, why);
    if (code)
        fprintf(stderr, "%s: %s\n", file, why);
    return code; /* exit handlers run: a vendor's may abort */
}
