/* SPDX-License-Identifier: Apache-2.0 */
/* The start of a process, by made-up environments: refused ones, their messages, and harmless ones. */
#include "config.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/control/start/origin.h"
#include "tests/support/run.h"

typedef struct origin_case {
    const char *variables; /* separated by spaces */
    const char *words;     /* in the error, or, for a rank, in the text of its origin; NULL for a single process */
    bool waits;            /* before it prints the error: another may say the same */
} origin_case;

static const origin_case cases[] = {
    /* nobody, or one process */
    {"", NULL, false},
    {"WORLD_SIZE=1 RANK=0 LOCAL_RANK=0", NULL, false},
    {"WORLD_SIZE=1", NULL, false},
    {"RANK=3", NULL, false},
    {"RANK=three", NULL, false},
    {"LOCAL_RANK=1", NULL, false},
    {"OMPI_COMM_WORLD_SIZE=1", NULL, false},
    {"OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_RANK=0 PMIX_RANK=0", NULL, false},
    {"PMI_SIZE=1 PMI_RANK=0", NULL, false},
    {"YOKE_WORLD_SIZE=1 YOKE_RANK=0", NULL, false},
    /* salloc's shell; sbatch's script, of one task and of four; srun of one task in a job of four, also by PMIx; salloc's
     * interactive step */
    {"SLURM_JOB_ID=7 SLURM_NTASKS=4 SLURM_NNODES=1", NULL, false},
    {"SLURM_JOB_ID=7 SLURM_NTASKS=1 SLURM_PROCID=0", NULL, false},
    {"SLURM_JOB_ID=7 SLURM_NTASKS=4 SLURM_PROCID=0 SLURM_LOCALID=0", NULL, false},
    {"SLURM_NTASKS=4 SLURM_PROCID=0 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=1", NULL, false},
    {"SLURM_PROCID=1 WORLD_SIZE=1 RANK=0", NULL, false},
    /* a container of a sweep, which passes on the number of its training */
    {"SLURM_PROCID=1", NULL, false},
    {"SLURM_JOB_ID=7 SLURM_NTASKS=1 SLURM_PROCID=1", NULL, false},
    {"SLURM_NTASKS=1 SLURM_PROCID=0 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=1 PMIX_RANK=0", NULL, false},
    {"SLURM_NTASKS=4 SLURM_PROCID=0 SLURM_STEP_ID=4294967290 SLURM_STEP_NUM_TASKS=1", NULL, false},
    /* a pod without an index; one whose launcher says that it is alone */
    {"KUBERNETES_SERVICE_HOST=10.0.0.1 KUBERNETES_PORT=443 HOSTNAME=train-abc", NULL, false},
    {"JOB_COMPLETION_INDEX=0 WORLD_SIZE=1 RANK=0", NULL, false},

    /* several ranks that find each other: all on this host */
    {"OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2 PMIX_NAMESPACE=7 PMIX_RANK=1",
     "rank 1 of 2 of mpirun (Open MPI) (OMPI_COMM_WORLD_SIZE=2, OMPI_COMM_WORLD_RANK=1); all on this host", false},
    {"WORLD_SIZE=4 RANK=2 LOCAL_RANK=2 LOCAL_WORLD_SIZE=4 MASTER_ADDR=node MASTER_PORT=9 TORCHELASTIC_RUN_ID=x PMIX_RANK=0 "
     "OMPI_COMM_WORLD_SIZE=8 OMPI_COMM_WORLD_RANK=7", "rank 2 of 4 of torchrun or a launcher like it (WORLD_SIZE=4, RANK=2)", false},
    {"WORLD_SIZE=2 RANK=1 LOCAL_RANK=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500", "rank 1 of 2 of torchrun", false},
    {"SLURM_JOB_ID=7 SLURM_STEP_ID=1 SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=3 SLURM_STEP_NUM_NODES=1 PMIX_RANK=3",
     "rank 3 of 4 of srun (SLURM_STEP_NUM_TASKS=4, SLURM_PROCID=3); all on this host", false},
    {"SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_NTASKS=2 SLURM_PROCID=1 SLURM_NNODES=1", "rank 1 of 2 of srun (SLURM_NTASKS=2", false},
    {"PMI_SIZE=8 PMI_RANK=7 PMI_FD=5 MPI_LOCALNRANKS=8", "rank 7 of 8 of mpiexec (MPICH, Intel MPI) or srun with PMI", false},

    /* several hosts */
    {"YOKE_RANK=1 YOKE_SIZE=3 YOKE_ADDR=node-a YOKE_PORT=7001 YOKE_SECRET_FILE=/s",
     "rank 1 of 3 of YOKE_RANK and YOKE_SIZE (YOKE_RANK=1, YOKE_SIZE=3); the ranks meet at node-a, port 7001", false},
    {"YOKE_RANK=1 YOKE_SIZE=3 YOKE_ADDR=node-a YOKE_PORT=7001 YOKE_SECRET_FILE=/s WORLD_SIZE=9 RANK=2", "rank 1 of 3", false},
    {"YOKE_RANK=0 YOKE_SIZE=1", NULL, false},
    {"OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_LOCAL_SIZE=2 PMIX_NAMESPACE=7 YOKE_ADDR=a YOKE_PORT=1 "
     "YOKE_SECRET_FILE=/s", "OMPI_COMM_WORLD_RANK=3); the ranks meet at a, port 1", false},
    {"WORLD_SIZE=4 RANK=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=node MASTER_PORT=29500 YOKE_SECRET_FILE=/s", "meet at node, port 29500", false},
    {"WORLD_SIZE=4 RANK=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=node MASTER_PORT=29500 YOKE_SECRET_FILE=/s TORCHELASTIC_USE_AGENT_STORE=True",
     "meet at node, port 29501", false},
    {"WORLD_SIZE=4 RANK=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=node MASTER_PORT=29500 YOKE_SECRET_FILE=/s TORCHELASTIC_USE_AGENT_STORE=True "
     "YOKE_PORT=5", "meet at node, port 5", false},
    {"SLURM_JOB_ID=7 SLURM_STEP_ID=1 SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=0 SLURM_STEP_NUM_NODES=2 SLURM_STEP_NODELIST=n[3-4,9],m "
     "YOKE_SECRET_FILE=/s", "meet at n3, port 20113", false},
    {"SLURM_JOB_ID=7 SLURM_STEP_ID=1 SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=0 SLURM_STEP_NUM_NODES=2 SLURM_STEP_NODELIST=host,m "
     "YOKE_SECRET_FILE=/s YOKE_PORT=80", "meet at host, port 80", false},
    {"JOB_COMPLETION_INDEX=2 YOKE_SIZE=4 YOKE_SERVICE=train HOSTNAME=my-job-2 YOKE_PORT=29500 YOKE_SECRET_FILE=/s",
     "rank 2 of 4 of a Kubernetes indexed job (YOKE_SIZE=4, JOB_COMPLETION_INDEX=2); the ranks meet at my-job-0.train, port 29500", false},

    /* a Kubernetes service called yoke sets these in every pod: nobody meant us */
    {"YOKE_PORT=tcp://10.0.0.7:80 YOKE_SERVICE_HOST=10.0.0.7 YOKE_PORT_80_TCP=tcp://10.0.0.7:80", NULL, false},
    {"JOB_COMPLETION_INDEX=2 YOKE_SIZE=4 YOKE_SERVICE=yoke HOSTNAME=a-2 YOKE_PORT=tcp://10.0.0.7:80 YOKE_SECRET_FILE=/s",
     "not set: YOKE_PORT. The YOKE_PORT that there is comes from a Kubernetes service called yoke", false},
    {"WORLD_SIZE=4 RANK=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=node MASTER_PORT=29500 YOKE_SECRET_FILE=/s YOKE_PORT=udp://10.0.0.7:53",
     "meet at node, port 29500", false},

    /* .. and the launcher's store has the address: PMIx, PMI; not where the user or the launcher says it */
    {"OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_LOCAL_SIZE=2 PMIX_NAMESPACE=7 PMIX_RANK=3",
     "OMPI_COMM_WORLD_RANK=3); the ranks meet where rank 0 says over PMIx", false},
    {"SLURM_JOB_ID=7 SLURM_STEP_ID=1 SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=0 SLURM_STEP_NUM_NODES=2 SLURM_STEP_NODELIST=a,b "
     "PMIX_NAMESPACE=7 PMIX_RANK=0", "the ranks meet where rank 0 says over PMIx", false},
    {"SLURM_JOB_ID=7 SLURM_STEP_ID=1 SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=0 SLURM_STEP_NUM_NODES=2 SLURM_STEP_NODELIST=a,b "
     "PMI_FD=5", "the ranks meet where rank 0 says over PMI", false},
    {"SLURM_JOB_ID=7 SLURM_STEP_ID=1 SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=0 SLURM_STEP_NUM_NODES=2 SLURM_STEP_NODELIST=a,b "
     "PMI_FD=5 YOKE_SECRET_FILE=/s", "the ranks meet at a, port 20113", false},
    {"PMI_SIZE=8 PMI_RANK=7 PMI_FD=5 MPI_LOCALNRANKS=4", "the ranks meet where rank 0 says over PMI", false},
    {"WORLD_SIZE=4 RANK=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=node MASTER_PORT=29500 YOKE_SECRET_FILE=/s PMIX_NAMESPACE=7 PMIX_RANK=2",
     "meet at node, port 29500", false},
    {"YOKE_RANK=1 YOKE_SIZE=3 YOKE_WORLD_SIZE=3 YOKE_ADDR=a YOKE_PORT=1 YOKE_SECRET_FILE=/s", "rank 1 of 3", false},

    /* several, and something is missing */
    {"WORLD_SIZE=4 RANK=0 LOCAL_RANK=0", "not set: MASTER_ADDR, MASTER_PORT (for a second host YOKE_SECRET_FILE, too). A secret: "
     "head -c 32", false},
    {"WORLD_SIZE=4 RANK=0 LOCAL_RANK=0 MASTER_ADDR=a YOKE_SECRET_FILE=/s", "not set: MASTER_PORT. If each process", false},
    {"WORLD_SIZE=4 RANK=0 MASTER_ADDR=a MASTER_PORT=1", "not set: YOKE_SECRET_FILE. A secret: head -c 32", false},
    {"WORLD_SIZE=4 RANK=2 LOCAL_RANK=2", "(WORLD_SIZE=4, RANK=2)", true},
    {"WORLD_SIZE=2 LOCAL_RANK=1", "not set: RANK", false},
    {"WORLD_SIZE=2 RANK=5 MASTER_ADDR=localhost MASTER_PORT=1", "expected the number of a process below", true},
    {"WORLD_SIZE=4 RANK=0 LOCAL_WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=2", "not set: YOKE_SECRET_FILE.", false},
    {"OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 PMIX_RANK=0", "mpirun (Open MPI) (OMPI_COMM_WORLD_SIZE=2", false},
    {"OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1 PMIX_RANK=1", "OMPI_COMM_WORLD_RANK=1", true},
    {"MV2_COMM_WORLD_SIZE=2 MV2_COMM_WORLD_RANK=0", "mpirun (MVAPICH)", false},
    {"PMI_SIZE=8 PMI_RANK=0", "mpiexec (MPICH, Intel MPI) or srun with PMI (PMI_SIZE=8, PMI_RANK=0)", false},
    {"PMI_SIZE=8 PMI_RANK=7", "PMI_RANK=7", true},
    {"SLURM_NTASKS=2 SLURM_PROCID=0 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2", "srun (SLURM_STEP_NUM_TASKS=2", false},
    {"SLURM_NTASKS=2 SLURM_PROCID=1 SLURM_STEP_ID=0", "srun (SLURM_NTASKS=2, SLURM_PROCID=1)", true},
    /* a container that passes on no variable of the step */
    {"SLURM_JOB_ID=7 SLURM_NTASKS=2 SLURM_PROCID=1", "srun (SLURM_NTASKS=2, SLURM_PROCID=1); expected SLURM_STEP_ID with them, got none: "
     "let its container pass on SLURM_JOB_ID, SLURM_STEP_ID, SLURM_STEP_NUM_TASKS,", true},
    {"SLURM_STEP_NUM_TASKS=3 SLURM_PROCID=0 WORLD_SIZE=1 RANK=0", "srun (SLURM_STEP_NUM_TASKS=3", false},
    {"PMIX_RANK=0 PMIX_NAMESPACE=x", "a PMIx launcher (prterun, srun) (PMIX_RANK=0), but how they find each other is not known; not "
     "set: YOKE_RANK, YOKE_SIZE,", false},
    {"PMIX_RANK=1", "PMIX_RANK=1", true},
    {"JOB_COMPLETION_INDEX=0", "not set: YOKE_SIZE, YOKE_SERVICE, YOKE_PORT, YOKE_SECRET_FILE", false},
    {"JOB_COMPLETION_INDEX=2 YOKE_SIZE=4 YOKE_SERVICE=train YOKE_PORT=29500 YOKE_SECRET_FILE=/s",
     "YOKE_SERVICE needs a HOSTNAME that is NAME-INDEX, as an indexed job gives its pods, and here it is \"\"; YOKE_ADDR", false},
    {"JOB_COMPLETION_INDEX=2 YOKE_SIZE=4 YOKE_SERVICE=train HOSTNAME=train YOKE_PORT=29500 YOKE_SECRET_FILE=/s", "it is \"train\"", false},
    {"JOB_COMPLETION_INDEX=3", "JOB_COMPLETION_INDEX=3", false}, /* a pod has a log of its own */
    {"WORLD_SIZE=2 RANK=0", "'yoke launch", false},
    {"WORLD_SIZE=2 RANK=0", "YOKE_LAUNCHER=none", false},
    {"YOKE_RANK=1", "(YOKE_RANK=1, YOKE_SIZE=), but how they find each other is not known; not set: YOKE_SIZE, YOKE_ADDR, YOKE_PORT, "
     "YOKE_SECRET_FILE", false},
    {"YOKE_SIZE=2 YOKE_ADDR=a", "not set: YOKE_RANK, YOKE_PORT, YOKE_SECRET_FILE", false},
    {"YOKE_RANK=2 YOKE_SIZE=2", "YOKE_RANK=2, YOKE_SIZE=2: expected a rank below", false},
    {"YOKE_RANK=x YOKE_SIZE=2", "YOKE_RANK=x, YOKE_SIZE=2: expected", false},
    {"YOKE_RANK=0 YOKE_SIZE=99999999", "at most 1024", false},
    {"YOKE_RANK=0 YOKE_SIZE=1025 YOKE_ADDR=a YOKE_PORT=1 YOKE_SECRET_FILE=/s", "at most 1024", false},
    {"WORLD_SIZE=1025 RANK=0 LOCAL_WORLD_SIZE=1025 MASTER_ADDR=a MASTER_PORT=1", "(WORLD_SIZE=1025, RANK=0): expected the number of a "
     "process below how many there are, 1024 at most", false},
    {"YOKE_RANK=0 YOKE_SIZE=2 YOKE_ADDR=a YOKE_PORT=70000 YOKE_SECRET_FILE=/s", "rank 0 of 2: YOKE_PORT=70000: expected a number",
     false},
    {"YOKE_RANK=1 YOKE_SIZE=2 YOKE_ADDR=a YOKE_PORT=70000 YOKE_SECRET_FILE=/s", "rank 1 of 2: YOKE_PORT=70000", false},
    {"WORLD_SIZE=2 RANK=1 LOCAL_WORLD_SIZE=1 MASTER_ADDR=a MASTER_PORT=2", "RANK=1), but how they find each other is not known; not set: "
     "YOKE_SECRET_FILE.", true},

    /* several, and one of two numbers is not set: nobody trains alone */
    {"RANK=0 MASTER_ADDR=node MASTER_PORT=1", "torchrun or a launcher like it (RANK=0), but how they find each other is not known; not "
     "set: WORLD_SIZE.", false},
    {"RANK=0 LOCAL_RANK=0", "not set: WORLD_SIZE.", false},
    {"WORLD_SIZE=2 MASTER_ADDR=node MASTER_PORT=1", "(WORLD_SIZE=2), but how they find each other is not known; not set: RANK.", false},
    {"WORLD_SIZE=4", "not set: RANK.", false},
    {"OMPI_COMM_WORLD_SIZE=2", "mpirun (Open MPI) (OMPI_COMM_WORLD_SIZE=2), but how they find each other is not known; not set: "
     "OMPI_COMM_WORLD_RANK.", false},
    {"OMPI_COMM_WORLD_RANK=1", "(OMPI_COMM_WORLD_RANK=1), but how they find each other is not known; not set: OMPI_COMM_WORLD_SIZE.", true},
    {"MV2_COMM_WORLD_RANK=0", "not set: MV2_COMM_WORLD_SIZE.", false},
    {"PMI_RANK=1", "(PMI_RANK=1), but how they find each other is not known; not set: PMI_SIZE.", true},
    {"PMI_SIZE=2", "(PMI_SIZE=2), but how they find each other is not known; not set: PMI_RANK.", false},
    {"SLURM_STEP_ID=0 SLURM_PROCID=1", "(SLURM_PROCID=1), but how they find each other is not known; not set: SLURM_NTASKS.", true},
    {"SLURM_STEP_NUM_TASKS=2", "not set: SLURM_PROCID.", false},
    /* .. or is no number, or not one of a process that there is */
    {"WORLD_SIZE=2 RANK=1x", "(WORLD_SIZE=2, RANK=1x): expected the number of a process below", false},
    {"WORLD_SIZE=2 RANK=-1", "(WORLD_SIZE=2, RANK=-1): expected", false},
    {"WORLD_SIZE=two RANK=0", "(WORLD_SIZE=two, RANK=0): expected", false},
    {"WORLD_SIZE=0 RANK=0", "(WORLD_SIZE=0, RANK=0): expected", false},
    {"WORLD_SIZE=1 RANK=3", "(WORLD_SIZE=1, RANK=3): expected", true},
    {"WORLD_SIZE=two", "(WORLD_SIZE=two), but how they find each other is not known; not set: RANK.", false},
    {"OMPI_COMM_WORLD_SIZE=two OMPI_COMM_WORLD_RANK=1", "(OMPI_COMM_WORLD_SIZE=two, OMPI_COMM_WORLD_RANK=1): expected", true},
    {"PMIX_RANK=x", "(PMIX_RANK=x): expected", false},
    {"JOB_COMPLETION_INDEX=x", "(JOB_COMPLETION_INDEX=x): expected", false},
    {"JOB_COMPLETION_INDEX=0 YOKE_SIZE=two", "(YOKE_SIZE=two, JOB_COMPLETION_INDEX=0): expected", false},
    /* .. unless another launcher says both */
    {"WORLD_SIZE=4 MASTER_ADDR=node MASTER_PORT=1 SLURM_JOB_ID=7 SLURM_STEP_ID=1 SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=3 "
     "SLURM_STEP_NUM_NODES=1", "rank 3 of 4 of srun (SLURM_STEP_NUM_TASKS=4, SLURM_PROCID=3); all on this host", false},

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
    {"YOKE_RANK=0 YOKE_WORLD_SIZE=2", "YOKE_JOB_FD is not set (started by hand? then YOKE_SIZE says", false},
    {"YOKE_JOB_FD=77 YOKE_RANK=0 YOKE_WORLD_SIZE=2 WORLD_SIZE=4 RANK=3", "a 'yoke launch'", false},
};
#define CASES ((int)(sizeof cases / sizeof *cases))

static void set_variables(const char *list)
{
    char copy[512], *rest = copy, *one;
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
    yk__origin origin;
    char text[512] = "";
    yk_status s;
    set_variables(c->variables);
    s = yk__origin_find(&origin, &err);
    ck_assert_int_eq(yk__launch_check(&err), s);
    ck_assert_msg(s == YK_OK || s == YK_E_ARG, "'%s': status %d '%s'", c->variables, (int)s, err.text);
    ck_assert_msg(yk__launched() == (!s && c->words), "'%s': a rank of several: %d", c->variables, yk__launched());
    if (!s)
        yk__origin_text(&origin, text, sizeof text);
    ck_assert_msg(strstr(s ? err.text : text, c->words ? c->words : "a single process (") != NULL, "'%s': '%s', expected '%s'",
                  c->variables, s ? err.text : text, c->words ? c->words : "a single process");
    ck_assert_msg((yk__launch_patience() > 0) == c->waits, "'%s': who says so first", c->variables);
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
