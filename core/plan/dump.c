/* SPDX-License-Identifier: Apache-2.0 */
/*
 * YOKE_DUMP=DIR: writes a new plan as text and as a drawing (plan-N.txt, plan-N.dot), and its instructions (list-N.txt). passes.c and
 * core/run/prog.c call it while a program is made, in the step thread. Without the variable it writes nothing. yk__plan_dump_list
 * needs the folder's name, so prog.c calls it only if yk__plan_dumps returns true.
 *
 * The graph after each pass goes to a text file (pass-N-07-empty.txt), so that two passes can be compared. N is the plan's number in the
 * lines of YOKE_LOG=debug. It counts the plans of one process, so ranks need a folder each. A plan that passes.c gives up for the arena's
 * limit has files of its passes only.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/option.h"
#include "core/plan/plan_internal.h"

/* Opens a file for writing; makes a missing folder. */
static FILE *open_file(const char *dir, const char *path)
{
    FILE *f = fopen(path, "we");
    return f || errno != ENOENT || mkdir(dir, 0777) ? f : fopen(path, "we");
}

/* Writes text to path and frees both; NULL means out of memory. Warns once, as all files of a plan fail alike. */
static void write_text(const char *dir, char *path, char *text)
{
    static atomic_flag warned = ATOMIC_FLAG_INIT;
    FILE *f;
    errno = ENOMEM;
    f = text && path ? open_file(dir, path) : NULL;
    if (f) {
        fputs(text, f);
        fclose(f);
    } else if (!atomic_flag_test_and_set(&warned)) {
        yk__log(YK_LOG_WARN, "plan", "YOKE_DUMP: cannot write %s: %s", path ? path : dir, strerror(errno));
    }
    yk__free(path);
    yk__free(text);
}

void yk__plan_dump_pass(const yk__work *work, uint32_t order, const char *name)
{
    const char *dir = yk__option_text(YK__OPTION_DUMP);
    yk_error err = YK_ERROR_INIT;
    yk__graph copy; /* because sealing moves bodies behind the nodes */
    yk_graph g;
    if (!dir || yk__graph_copy(&work->g, &copy, &err))
        return;
    if (!yk__graph_seal(&copy, &g, &err))
        write_text(dir, yk__format("%s/pass-%u-%02u-%s.txt", dir, work->number, order, name), yk__graph_text(&g));
    yk__graph_free(&copy);
}

void yk__plan_dump(yk__plan *plan)
{
    const char *dir = yk__option_text(YK__OPTION_DUMP);
    yk_error err = YK_ERROR_INIT;
    yk_graph g;
    if (!dir || yk__graph_seal(&plan->graph, &g, &err))
        return;
    write_text(dir, yk__format("%s/plan-%u.txt", dir, plan->number), yk__graph_text(&g));
    write_text(dir, yk__format("%s/plan-%u.dot", dir, plan->number), yk__graph_dot(&g));
}

bool yk__plan_dumps(void)
{
    return yk__option_text(YK__OPTION_DUMP) != NULL;
}

void yk__plan_dump_list(const yk__plan *plan, char *text)
{
    const char *dir = yk__option_text(YK__OPTION_DUMP);
    write_text(dir, yk__format("%s/list-%u.txt", dir, plan->number), text);
}
