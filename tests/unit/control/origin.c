/* SPDX-License-Identifier: Apache-2.0 */
/* How a process was started, by made-up environments: which are refused, who says so, and what is no cause for alarm. */
#include "config.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/control/origin.h"
#include "tests/support/run.h"

typedef struct origin_case {
    const char *variables; /* separated by spaces */
    const char *words;     /* in the error; NULL: no error */
    bool silent;           /* this process leaves the error to another one */
} origin_case;

static const origin_case cases[] = {
    /* nobody, or one process */
    {"", NULL, false},
    {"WORLD_SIZE=1 RANK=0 LOCAL_RANK=0", NULL, false},
    {"WORLD_SIZE=4", NULL, false},
    {"RANK=3", NULL, false},
    {"WORLD_SIZE=four RANK=0", NULL, false},
    {"OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_RANK=0 PMIX_RANK=0", NULL, false},
    {"PMI_SIZE=1 PMI_RANK=0", NULL, false},
    {"YOKE_WORLD_SIZE=1 YOKE_RANK=0", NULL, false},
    /* salloc's shell; sbatch's script, of one task and of four; srun of one task in a job of four, also by PMIx; salloc's
     * interactive step */
    {"SLURM_JOB_ID=7 SLURM_NTASKS=4 SLURM_NNODES=1", NULL, false},
    {"SLURM_JOB_ID=7 SLURM_NTASKS=1 SLURM_PROCID=0", NULL, false},
    {"SLURM_JOB_ID=7 SLURM_NTASKS=4 SLURM_PROCID=0 SLURM_LOCALID=0", NULL, false},
    {"SLURM_NTASKS=4 SLURM_PROCID=0 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=1", NULL, false},
    {"SLURM_NTASKS=1 SLURM_PROCID=0 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=1 PMIX_RANK=0", NULL, false},
    {"SLURM_NTASKS=4 SLURM_PROCID=0 SLURM_STEP_ID=4294967290 SLURM_STEP_NUM_TASKS=1", NULL, false},
    /* a pod without an index; one whose launcher says that it is alone */
    {"KUBERNETES_SERVICE_HOST=10.0.0.1 KUBERNETES_PORT=443 HOSTNAME=train-abc", NULL, false},
    {"JOB_COMPLETION_INDEX=0 WORLD_SIZE=1 RANK=0", NULL, false},

    /* several */
    {"WORLD_SIZE=4 RANK=0 LOCAL_RANK=0", "torchrun or a launcher like it (WORLD_SIZE=4, RANK=0)", false},
    {"WORLD_SIZE=4 RANK=2 LOCAL_RANK=2", "(WORLD_SIZE=4, RANK=2)", true},
    {"WORLD_SIZE=2 LOCAL_RANK=1", "(WORLD_SIZE=2, LOCAL_RANK=1)", true},
    {"OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 PMIX_RANK=0", "mpirun (Open MPI) (OMPI_COMM_WORLD_SIZE=2", false},
    {"OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1 PMIX_RANK=1", "OMPI_COMM_WORLD_RANK=1", true},
    {"MV2_COMM_WORLD_SIZE=2 MV2_COMM_WORLD_RANK=0", "mpirun (MVAPICH)", false},
    {"PMI_SIZE=8 PMI_RANK=0", "mpiexec (MPICH, Intel MPI) or srun with PMI (PMI_SIZE=8, PMI_RANK=0)", false},
    {"PMI_SIZE=8 PMI_RANK=7", "PMI_RANK=7", true},
    {"SLURM_NTASKS=2 SLURM_PROCID=0 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2", "srun (SLURM_STEP_NUM_TASKS=2", false},
    {"SLURM_NTASKS=2 SLURM_PROCID=1 SLURM_STEP_ID=0", "srun (SLURM_NTASKS=2, SLURM_PROCID=1)", true},
    {"SLURM_STEP_NUM_TASKS=3 SLURM_PROCID=0 WORLD_SIZE=1 RANK=0", "srun (SLURM_STEP_NUM_TASKS=3", false},
    {"PMIX_RANK=0 PMIX_NAMESPACE=x", "a PMIx launcher (prterun, srun) (PMIX_RANK=0)", false},
    {"PMIX_RANK=1", "PMIX_RANK=1", true},
    {"JOB_COMPLETION_INDEX=0", "a Kubernetes indexed job (JOB_COMPLETION_INDEX=0)", false},
    {"JOB_COMPLETION_INDEX=3", "JOB_COMPLETION_INDEX=3", false}, /* a pod has a log of its own */
    {"WORLD_SIZE=2 RANK=0", "'yoke launch", false},
    {"WORLD_SIZE=2 RANK=0", "YOKE_LAUNCHER=none", false},

    /* overruled */
    {"WORLD_SIZE=4 RANK=2 YOKE_LAUNCHER=none", NULL, false},
    {"YOKE_JOB_FD=77 YOKE_RANK=1 YOKE_WORLD_SIZE=2 YOKE_LAUNCHER=none", NULL, false},
    {"YOKE_LAUNCHER=torchrun", "YOKE_LAUNCHER=torchrun: expected none", false},

    /* a rank of ours without its descriptor */
    {"YOKE_JOB_FD=77 YOKE_RANK=0 YOKE_WORLD_SIZE=2", "rank 0 of 2 of a 'yoke launch', but cannot reach it: YOKE_JOB_FD=77, but "
     "descriptor 77 is closed", false},
    {"YOKE_JOB_FD=77 YOKE_RANK=0 YOKE_WORLD_SIZE=1", "descriptor 77 is closed", false},
    {"YOKE_JOB_FD=0 YOKE_RANK=0 YOKE_WORLD_SIZE=2", "descriptor 0 is not the launcher's", false},
    {"YOKE_JOB_FD=-1 YOKE_RANK=0 YOKE_WORLD_SIZE=2", "YOKE_JOB_FD=-1 is not the number of a descriptor", false},
    {"YOKE_JOB_FD=abc", "YOKE_JOB_FD=abc is not the number", false},
    {"YOKE_JOB_FD=99999999999 YOKE_RANK=0", "is not the number", false},
    {"YOKE_RANK=0 YOKE_WORLD_SIZE=2", "YOKE_JOB_FD is not set", false},
    {"YOKE_RANK=1", "YOKE_JOB_FD is not set", false},
    {"YOKE_JOB_FD=77 YOKE_RANK=0 YOKE_WORLD_SIZE=2 WORLD_SIZE=4 RANK=3", "a 'yoke launch'", false},
};
#define CASES ((int)(sizeof cases / sizeof *cases))

static void set_variables(const char *list)
{
    char copy[256], *rest = copy, *one;
    snprintf(copy, sizeof copy, "%s", list);
    clearenv();
    while ((one = strtok_r(rest, " ", &rest))) {
        char *value = strchr(one, '=');
        *value = 0;
        setenv(one, value + 1, 1);
    }
}

START_TEST(rank_is_read_from_the_environment)
{
    const origin_case *c = &cases[_i];
    yk_error err = YK_ERROR_INIT;
    yk_status s;
    set_variables(c->variables);
    s = yk__launch_check(&err);
    ck_assert_msg(!yk__launched(), "'%s': launched", c->variables);
    ck_assert_msg(s == (c->words ? YK_E_ARG : YK_OK), "'%s': status %d '%s'", c->variables, (int)s, err.text);
    if (c->words)
        ck_assert_msg(strstr(err.text, c->words) != NULL, "'%s': '%s', expected '%s'", c->variables, err.text, c->words);
    ck_assert_msg(yk__launch_speaks() == !c->silent, "'%s': who says so", c->variables);
}
END_TEST

/* A descriptor that works: other launchers' variables mean nothing then. */
START_TEST(own_descriptor_comes_before_other_launchers)
{
    yk_error err = YK_ERROR_INIT;
    char text[64];
    int fd[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fd), 0);
    snprintf(text, sizeof text, "YOKE_JOB_FD=%d YOKE_RANK=1 WORLD_SIZE=4 RANK=1", fd[0]);
    set_variables(text);
    ck_assert(yk__launched());
    ck_assert_int_eq(yk__launch_fd(), fd[0]);
    ck_assert_int_eq(yk__launch_check(&err), YK_OK);
    setenv("YOKE_LAUNCHER", "none", 1);
    ck_assert(!yk__launched());
    close(fd[0]);
    unsetenv("YOKE_LAUNCHER");
    ck_assert(!yk__launched());
    ck_assert_int_eq(yk__launch_check(&err), YK_E_ARG);
    close(fd[1]);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("origin");
    tcase_add_loop_test(t, rank_is_read_from_the_environment, 0, CASES);
    tcase_add_test(t, own_descriptor_comes_before_other_launchers);
    return suite_run("origin", t);
}
