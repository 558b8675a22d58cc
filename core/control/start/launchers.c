/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The variables by which other launchers (torchrun, srun, mpirun, Kubernetes) tell a process its rank and its job, in one table. origin.c
 * asks for the row that counts, in the opening thread. The row becomes an origin with a way to the other ranks, or an error that names the
 * missing variables.
 *
 * Sources: torchrun's "Environment Variables" (docs.pytorch.org, elastic/run), srun(1) "OUTPUT ENVIRONMENT VARIABLES", mpirun(1) of Open
 * MPI 4.1, MPICH's hydra, Kubernetes' "Indexed Job".
 */
#include "config.h"

#include "core/control/start/launchers.h"

#include <stdio.h>
#include <string.h>

#include "core/net/tcp.h"

#define JOB_VARIABLES 4
#define PORT_LOWEST 20000u /* first port derived from a job's number, and the number of such ports */
#define PORT_COUNT 10000u

/* ---- The address of rank 0 --------------------------------------------------------------------------------------- */

/* If the workers use the store of torchrun's agent, the agent itself listens on MASTER_PORT, so the next port is ours. */
static yk_status find_torch_address(yk__origin *origin, yk_error *err)
{
    const char *address = yk__variable_text("MASTER_ADDR"), *agent = yk__variable_text("TORCHELASTIC_USE_AGENT_STORE");
    const unsigned own = agent && (!strcmp(agent, "True") || !strcmp(agent, "1"));
    unsigned long long port;
    yk__missing missing = {""};
    if (address)
        snprintf(origin->address, sizeof origin->address, "%s", address);
    if (yk__variable_number("MASTER_PORT", &port) && port && port + own <= 65535)
        origin->port = (uint16_t)(port + own);
    if (!yk__variable_text("YOKE_ADDR"))
        yk__missing_add(&missing, "MASTER_ADDR");
    if (!yk__variable_text("YOKE_PORT"))
        yk__missing_add(&missing, "MASTER_PORT");
    if (!*missing.names)
        return yk__origin_meet(origin, err);
    if (!yk__variable_text("YOKE_SECRET_FILE")) /* the user of one host needs none (is_one_host) */
        strcat(missing.names, " (for a second host YOKE_SECRET_FILE, too)");
    return yk__origin_incomplete(origin, &missing, err);
}

/* Writes the first name of a list: a3 for "a[3-4,7],b". */
static void write_first_node(const char *list, char *name, size_t size)
{
    const size_t plain = strcspn(list, "[,"), number = list[plain] == '[' ? strcspn(list + plain + 1, "-,]") : 0;
    snprintf(name, size, "%.*s%.*s", (int)plain, list, (int)number, number ? list + plain + 1 : "");
}

/* Rank 0 is a task of the step's first node. The port comes from the job's number, so that jobs on one node do not collide. */
static yk_status find_slurm_address(yk__origin *origin, yk_error *err)
{
    const char *list = yk__variable_text("SLURM_STEP_NODELIST");
    unsigned long long job = 0, step = 0;
    if (list)
        write_first_node(list, origin->address, sizeof origin->address);
    if (yk__variable_number("SLURM_JOB_ID", &job)) {
        yk__variable_number("SLURM_STEP_ID", &step);
        origin->port = (uint16_t)(PORT_LOWEST + (job * 16 + step) % PORT_COUNT);
    }
    return yk__origin_meet(origin, err);
}

/* A pod of an indexed job is JOB-INDEX; other pods find it as JOB-INDEX.SERVICE if a headless service of that name exists. */
static yk_status find_pod_address(yk__origin *origin, yk_error *err)
{
    const char *service = yk__variable_text("YOKE_SERVICE"), *host = yk__variable_text("HOSTNAME");
    const char *dash = host ? strrchr(host, '-') : NULL;
    yk__missing missing = {""};
    if (service && dash)
        snprintf(origin->address, sizeof origin->address, "%.*s-0.%s", (int)(dash - host), host, service);
    yk__missing_add(&missing, "YOKE_SIZE");
    if (!service && !yk__variable_text("YOKE_ADDR"))
        yk__missing_add(&missing, "YOKE_SERVICE");
    yk__missing_add(&missing, "YOKE_PORT");
    yk__missing_add(&missing, "YOKE_SECRET_FILE");
    if (!missing.names[0] && service && !dash && !yk__variable_text("YOKE_ADDR"))
        return yk__fail(err, YK_E_ARG, "%s (%s): YOKE_SERVICE needs a HOSTNAME that is NAME-INDEX, as an indexed job gives its pods, and "
                        "here it is \"%.60s\"; YOKE_ADDR may give rank 0's address instead", origin->launcher, origin->why,
                        host ? host : "");
    return missing.names[0] ? yk__origin_incomplete(origin, &missing, err) : yk__origin_meet(origin, err);
}

/* ---- The table --------------------------------------------------------------------------------------------------- */

/* A launcher, and the variables of each of its processes. A launcher without a size (NULL) counts as having started several processes,
 * unless another row reported a single one. */
typedef struct launcher_row {
    const char *name;
    const char *size, *rank;    /* variables: number of processes; number of this one */
    const char *local_size;     /* number of processes on this host; NULL if it sets none */
    const char *nodes;          /* number of hosts; NULL if it sets none */
    const char *needs, *spoils; /* the row counts only with `needs` set and `spoils` unset (NULL: always) */
    const char *job[JOB_VARIABLES]; /* variables that tell this job from other jobs on a host */
    yk_status (*find_address)(yk__origin *origin, yk_error *err); /* finds rank 0's address for ranks on several hosts; NULL for a
                                                                   * launcher with a store */
    bool own_log;               /* a process's output does not appear among the other processes' output */
} launcher_row;

/* A worker of torchrun may have inherited the variables of the launcher that started torchrun, so torchrun's variables spoil these rows.
 * Slurm: sbatch and salloc set SLURM_PROCID and SLURM_NTASKS too, for a script or shell that runs as one process. Only srun sets the
 * variables of a step. */
#define TORCH "torchrun or a launcher like it"
#define TORCH_JOB {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_ADDR", "MASTER_PORT"}
#define SLURM_JOB {"SLURM_JOB_ID", "SLURM_STEP_ID"}
static const launcher_row launchers[] = {
    {"mpirun (Open MPI)", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", NULL, NULL,
     "TORCHELASTIC_RUN_ID", {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}, yk__origin_meet, false},
    {TORCH, "WORLD_SIZE", "RANK", "LOCAL_WORLD_SIZE", NULL, NULL, NULL, TORCH_JOB, find_torch_address, false},
    {"mpirun (MVAPICH)", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK", NULL, NULL, NULL, NULL, {NULL}, yk__origin_meet, false},
    {"srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", NULL, "SLURM_STEP_NUM_NODES", "SLURM_STEP_NUM_TASKS", NULL, SLURM_JOB,
     find_slurm_address, false},
    {"srun", "SLURM_NTASKS", "SLURM_PROCID", NULL, "SLURM_NNODES", "SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS", SLURM_JOB,
     find_slurm_address, false},
    {"mpiexec (MPICH, Intel MPI) or srun with PMI", "PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS", NULL, NULL, NULL, {"PMI_FD"}, NULL,
     false},
    {"a PMIx launcher (prterun, srun)", NULL, "PMIX_RANK", NULL, NULL, NULL, NULL, {"PMIX_NAMESPACE"}, yk__origin_meet, false},
    {"a Kubernetes indexed job", "YOKE_SIZE", "JOB_COMPLETION_INDEX", NULL, NULL, "YOKE_SIZE", NULL, {NULL}, find_pod_address, true},
    {"a Kubernetes indexed job", NULL, "JOB_COMPLETION_INDEX", NULL, NULL, NULL, "YOKE_SIZE", {NULL}, find_pod_address, true},
};

/* ---- The row that counts ----------------------------------------------------------------------------------------- */

typedef enum row_word { ROW_NOTHING, ROW_ONE, ROW_SEVERAL, ROW_FAULTY } row_word;

typedef struct found_launcher {
    const launcher_row *row; /* NULL if no row counts */
    unsigned long long size, rank;
    row_word says;
} found_launcher;

/* True for RANK without torchrun's other variables: any program may set it. */
static bool is_somebody_elses(const launcher_row *row)
{
    static const char *const torch[] = {"TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
    if (row->find_address != find_torch_address)
        return false;
    for (size_t i = 0; i < sizeof torch / sizeof *torch; i++)
        if (yk__variable_text(torch[i]))
            return false;
    return true;
}

/* Reads both variables, which are set. A process number outside the size says nothing about the number of processes. */
static row_word numbers_read(found_launcher *found)
{
    if (!yk__variable_number(found->row->size, &found->size) || !yk__variable_number(found->row->rank, &found->rank))
        return ROW_FAULTY;
    if (found->size > 1)
        return ROW_SEVERAL;
    return found->rank < found->size ? ROW_ONE : ROW_FAULTY;
}

/* Slurm numbers the one process of a script or shell 0. A higher number of several tasks is a task of srun, though the variables of its
 * step are missing, as a container may pass on a few alone. SLURM_PROCID by itself is no such job: it names one of a sweep's trainings. */
static bool is_stripped_task(const launcher_row *row)
{
    unsigned long long rank, size;
    return row->needs && !strcmp(row->needs, "SLURM_STEP_ID") && !yk__variable_text(row->needs) &&
           !yk__variable_text("SLURM_STEP_NUM_TASKS") && yk__variable_number(row->rank, &rank) && rank &&
           yk__variable_number(row->size, &size) && size > 1;
}

/* one: an earlier row reported a single process. */
static row_word row_read(found_launcher *found, bool one)
{
    const launcher_row *row = found->row;
    const bool size = row->size && yk__variable_text(row->size), rank = yk__variable_text(row->rank) != NULL;
    if (!one && is_stripped_task(row))
        return ROW_FAULTY;
    if ((!size && !rank) || (row->needs && !yk__variable_text(row->needs)) || (row->spoils && yk__variable_text(row->spoils)))
        return ROW_NOTHING;
    if (size && rank)
        return numbers_read(found);
    if (size)
        return yk__variable_number(row->size, &found->size) && found->size == 1 ? ROW_NOTHING : ROW_FAULTY;
    if (row->size)
        return is_somebody_elses(row) ? ROW_NOTHING : ROW_FAULTY;
    if (!yk__variable_number(row->rank, &found->rank))
        return ROW_FAULTY;
    return found->rank || !one ? ROW_SEVERAL : ROW_ONE;
}

/* The first row that reports more than one process, else the first unreadable row. Scripts set some of torchrun's variables, and leave the
 * rest to srun. */
static found_launcher find_launcher(void)
{
    found_launcher faulty = {NULL, 0, 0, ROW_NOTHING};
    bool one = false; /* some row reports a single process */
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        found_launcher found = {&launchers[i], 0, 0, ROW_NOTHING};
        found.says = row_read(&found, one);
        if (found.says == ROW_SEVERAL)
            return found;
        if (found.says == ROW_FAULTY && !faulty.row)
            faulty = found;
        one = one || found.says == ROW_ONE;
    }
    return faulty;
}

/* True for a loopback address: only this host reaches it, so all ranks are here. */
static bool is_loopback(const char *address)
{
    return !strcmp(address, "localhost") || (*address && yk__tcp_is_loopback(address));
}

static bool is_one_host(const found_launcher *found)
{
    const launcher_row *row = found->row;
    const char *master = row->find_address == find_torch_address ? yk__variable_text("MASTER_ADDR") : NULL;
    unsigned long long n;
    if (row->local_size && yk__variable_number(row->local_size, &n))
        return n == found->size;
    if (row->nodes && yk__variable_number(row->nodes, &n))
        return n == 1;
    return master && is_loopback(master);
}

static void write_job(const launcher_row *row, char *job, size_t size)
{
    size_t used = 0;
    job[0] = 0;
    for (int i = 0; i < JOB_VARIABLES && row->job[i]; i++) {
        const char *value = yk__variable_text(row->job[i]);
        if (value && used < size)
            used += (size_t)snprintf(job + used, size - used, "%s=%s ", row->job[i], value);
    }
}

/* Finds the launcher's store, in which rank 0 publishes its address. Not if the address is known already, from the user or, with a
 * secret, from the launcher's variables. */
static bool find_store(const found_launcher *found, yk__origin *origin)
{
    const bool knows = found->row->find_address && found->row->find_address != yk__origin_meet;
    unsigned long long number;
    if (yk__variable_text("YOKE_ADDR") || (knows && found->row->find_address != find_slurm_address) ||
        (knows && yk__variable_text("YOKE_SECRET_FILE")))
        return false;
    if (yk__variable_number("PMI_FD", &number) && number <= INT32_MAX)
        origin->store_fd = (int)number;
    else if (!yk__variable_text("PMIX_NAMESPACE") || !yk__variable_number("PMIX_RANK", &number) || number != found->rank)
        return false;
    origin->kind = YK__ORIGIN_SHARED;
    return true;
}

static yk_status complete_origin(yk__origin *origin, const found_launcher *found, yk_error *err)
{
    const bool one_host = is_one_host(found);
    unsigned long long fd;
    if (found->row->job[0] && strcmp(found->row->job[0], "PMI_FD"))
        write_job(found->row, origin->job, sizeof origin->job);
    if (one_host && origin->job[0] && !yk__variable_text("YOKE_ADDR")) {
        origin->kind = YK__ORIGIN_HOST;
        return YK_OK;
    }
    if (one_host && yk__variable_number("PMI_FD", &fd) && fd <= INT32_MAX && !yk__variable_text("YOKE_ADDR")) {
        origin->kind = YK__ORIGIN_STORE;
        origin->store_fd = (int)fd;
        return YK_OK;
    }
    if (!one_host && find_store(found, origin))
        return yk__origin_read_port(origin, err);
    return found->row->find_address ? found->row->find_address(origin, err) : yk__origin_meet(origin, err);
}

static yk_status launcher_numbers_fail(const yk__origin *origin, yk_error *err)
{
    return yk__fail(err, YK_E_ARG, "%s (%s): expected the number of a process below how many there are, %u at most; if this process is a "
                    "job of its own, set YOKE_LAUNCHER=none", origin->launcher, origin->why, YK__RANKS);
}

/* SLURM_PROCID and SLURM_NTASKS look like a rank and a size, of which a user expects one training. */
static yk_status stripped_task_fail(const yk__origin *origin, yk_error *err)
{
    return yk__fail(err, YK_E_ARG, "this process is one of several of %s (%s); expected SLURM_STEP_ID with them, got none: let its "
                    "container pass on SLURM_JOB_ID, SLURM_STEP_ID, SLURM_STEP_NUM_TASKS, SLURM_STEP_NUM_NODES and SLURM_STEP_NODELIST; "
                    "if this process is a job of its own, set YOKE_LAUNCHER=none", origin->launcher, origin->why);
}

/* Fails for one unset variable of two, or for a value that is no number. */
static yk_status launcher_faulty(const launcher_row *row, const yk__origin *origin, yk_error *err)
{
    yk__missing missing = {""};
    if (is_stripped_task(row))
        return stripped_task_fail(origin, err);
    if (row->size)
        yk__missing_add(&missing, row->size);
    yk__missing_add(&missing, row->rank);
    return missing.names[0] ? yk__origin_incomplete(origin, &missing, err) : launcher_numbers_fail(origin, err);
}

/* Fails for a pod, which sets its index but not the number of pods. */
static yk_status launcher_incomplete(const found_launcher *found, yk__origin *origin, yk_error *err)
{
    yk__missing missing = {""};
    if (found->row->find_address == find_pod_address)
        return find_pod_address(origin, err);
    yk__missing_add(&missing, "YOKE_RANK");
    yk__missing_add(&missing, "YOKE_SIZE");
    yk__missing_add(&missing, "YOKE_ADDR");
    yk__missing_add(&missing, "YOKE_PORT");
    yk__missing_add(&missing, "YOKE_SECRET_FILE");
    return yk__origin_incomplete(origin, &missing, err);
}

/* Writes the variables as they are set: "WORLD_SIZE=4, RANK=2". */
static void write_why(const launcher_row *row, char *why, size_t size)
{
    const char *names[] = {row->size, row->rank};
    size_t used = 0;
    why[0] = 0;
    for (int i = 0; i < 2; i++) {
        const char *value = names[i] ? yk__variable_text(names[i]) : NULL;
        if (value && used < size)
            used += (size_t)snprintf(why + used, size - used, "%s%.40s=%.40s", used ? ", " : "", names[i], value);
    }
}

/* The variable's number, clipped to 32 bits; 0 if it is no number. */
static uint32_t read_clipped(const char *name)
{
    unsigned long long number;
    return !yk__variable_number(name, &number) ? 0 : number < UINT32_MAX ? (uint32_t)number : UINT32_MAX;
}

yk_status yk__launcher_find(yk__origin *origin, bool *own_log, yk_error *err)
{
    const found_launcher found = find_launcher();
    const launcher_row *row = found.row;
    if (!row)
        return YK_OK;
    *own_log = row->own_log;
    *origin = (yk__origin){.kind = YK__ORIGIN_ADDRESS, .launcher = row->name, .store_fd = -1};
    write_why(row, origin->why, sizeof origin->why);
    origin->rank = read_clipped(row->rank);
    origin->size = row->size ? read_clipped(row->size) : 0;
    if (found.says == ROW_FAULTY)
        return launcher_faulty(row, origin, err);
    if (!row->size)
        return launcher_incomplete(&found, origin, err);
    if (found.rank >= found.size || found.size > YK__RANKS)
        return launcher_numbers_fail(origin, err);
    return complete_origin(origin, &found, err);
}
