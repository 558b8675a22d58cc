/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command yoke launch: one process per device, as the ranks of one job, on this host or on several. yoke.c calls it by its table of
 * commands. It reads options and settings files, chooses devices, and hands over to core/launch; the exit code is the job's. YOKE_SSH is
 * the default of --ssh; launchers started by hand on each host share a YOKE_SECRET_FILE.
 */
#include "tools/cmd/launch_words.h"
#include "tools/config/apply.h"
#include "tools/spell.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "core/base/option.h"
#include "core/base/word.h"
#include "core/control/start/origin.h"
#include "core/control/start/variables.h"
#include "core/device/device.h"
#include "core/launch/device_choice.h"
#include "core/launch/launch.h"
#include "core/launch/node.h"
#include "core/launch/own_host.h"
#include "core/launch/pipe_lines.h"
#include "core/launch/remote.h"
#include "core/launch/restart.h"

#define REFUSED(name, value, why) {name, YK_REFUSED, value, why, NULL}

static const yk__cli_option options[] = {
    {"devices", "SPECS", NULL, "devices, one rank each; with several hosts those of each host", "YOKE_DEVICES"},
    {"num-processes", "N", NULL, "ranks in all; they fill a list of hosts from the first on, else each host has an even part", NULL},
    {"nproc-per-node", "N|gpu|cpu|auto", NULL,
     "ranks on each host; gpu: one per accelerator, cpu: one per core, auto: one per device", NULL},
    {"nnodes", "N", "1", "hosts of the job; this command starts the ranks of one, and is given on each, with --node-rank", NULL},
    {"node-rank", "N", "0", "number of this host among --nnodes, from 0", NULL},
    {"master-addr", "ADDRESS", NULL, "address on host 0 at which rank 0 listens", "YOKE_ADDR"},
    {"master-port", "PORT", NULL, "the port at --master-addr (default with --nnodes: 29500)", "YOKE_PORT"},
    {"precision", "P", NULL, "precision of the program, if neither its options nor its yk_config name one", NULL},
    {"hosts", "LIST", NULL, "run on these hosts, by ssh: NAME, NAME:RANKS or NAME:RANKS=SPECS each, with commas between", NULL},
    {"hostfile", "FILE", NULL, "a file with a host on each line, written as in --hosts or as 'NAME slots=RANKS'", NULL},
    {"env", "NAME[=VALUE]", NULL, "a variable for the ranks, on other hosts too; may be given several times", NULL},
    {"ssh", "COMMAND", NULL, "the command that runs another one on a host (default: ssh -o BatchMode=yes)", "YOKE_SSH"},
    {"max-restarts", "N", "0", "most starts of the job after a rank died or failed", "YOKE_MAX_RESTARTS"},
    {"config-file|default-config-file", "FILE", NULL,
     "settings in YAML (Yoke's, Accelerate's) or JSON (DeepSpeed's); none: no file", "YOKE_CONFIG_FILE"},
    {"dry-run", NULL, NULL, "print the commands that would run on each host, and start no rank; hosts are asked for their devices", NULL},
    {"json", NULL, NULL, "print one JSON line about the job on standard output when it has ended", NULL},
    REFUSED("multi-gpu|multi-cpu|multi-xpu|multi-npu", NULL, "--devices says which devices there are, one rank each: --devices cuda:*"),
    REFUSED("include|exclude", "LIST", "--hosts names the hosts and --devices the devices: --hosts a:2,b or --devices 'cuda:0 cuda:1'"),
    REFUSED("gpu-ids|num-gpus", "LIST", "--devices names the devices: --devices 'cuda:0 cuda:1'"),
    REFUSED("mpi|use-mpi", NULL, "mpirun starts the ranks itself: mpirun -n 2 PROGRAM"),
    REFUSED("use-fsdp", NULL, "the program shards: yoke train --shard params, or yk_config.shard"),
    REFUSED("fsdp-sharding-strategy|fsdp-offload-params|fsdp-auto-wrap-policy|fsdp-transformer-layer-cls-to-wrap|fsdp-state-dict-type|"
            "fsdp-backward-prefetch|fsdp-use-orig-params|fsdp-min-num-params|fsdp-version|fsdp-reshard-after-forward|"
            "fsdp-activation-checkpointing|fsdp-cpu-ram-efficient-loading|fsdp-sync-module-states|fsdp-forward-prefetch",
            "VALUE",
            "the program shards: yoke train --shard params; --fsdp-config FILE reads FSDP's settings"),
    REFUSED("use-deepspeed", NULL, "the program shards: yoke train --shard, or --deepspeed FILE"),
    REFUSED("zero-stage|deepspeed-config-file|deepspeed-config|deepspeed-multinode-launcher|offload-optimizer-device|"
            "offload-param-device|offload-optimizer-nvme-path|offload-param-nvme-path|zero3-init-flag|zero3-save-16bit-model", "VALUE",
            "the program shards: yoke train --shard and --offload, or --deepspeed FILE; --hostfile names the hosts"),
    REFUSED("gradient-clipping", "R", "the program clips: yoke train --max-grad-norm"),
    REFUSED("gradient-accumulation-steps", "N", "the program accumulates: yoke train --gradient-accumulation-steps"),
    REFUSED("rdzv-conf", "KEY=VALUE,..", "YOKE_JOIN_MS is how long ranks wait for each other at the start"),
    REFUSED("local-addr", "ADDRESS", "--master-addr is rank 0's address, and other hosts need none"),
    REFUSED("num-nodes|mpirun-ccl|launcher|launcher-args|ssh-port", "VALUE",
            "--hosts or --hostfile names the hosts, and --ssh the command that reaches them"),
    REFUSED("enable-cpu-affinity|bind-cores-to-rank", NULL, "--devices says which cores a rank has: cpu:0-3, cpu/2"),
    REFUSED("bind-core-list", "LIST", "--devices says which cores a rank has: cpu:0-3, cpu/2"),
    REFUSED("main-training-function", "NAME", "the program is run from its start: yk_launch_ranks starts a function of it"),
    REFUSED("megatron-lm-tp-degree|megatron-lm-pp-degree|megatron-lm-num-micro-batches|megatron-lm-sequence-parallelism|"
            "megatron-lm-recompute-activations|megatron-lm-use-distributed-optimizer|megatron-lm-gradient-clipping", "VALUE",
            "each rank computes whole layers: the program puts values in slices, yoke train --shard"),
    REFUSED("tpu|use-mps-device|use-megatron-lm|tpu-use-cluster|tpu-use-sudo|ipex|use-xpu", NULL,
            "there is no such backend; yoke info lists the devices that there are"),
    REFUSED("dynamo-backend|dynamo-mode|dynamo-use-fullgraph|dynamo-use-dynamic", "VALUE",
            "there is no switch: every step is traced, fused and planned before it runs"),
    REFUSED("num-cpu-threads-per-process", "N", "--devices says which cores a rank has: cpu:0-3, cpu/2"),
    REFUSED("module|run-path", NULL, "there are no modules of Python: name the program itself, as in python -m MODULE"),
    REFUSED("debug", NULL, "YOKE_LOG=debug prints more, and ranks' steps are always compared"),
    REFUSED("log-dir|enable-each-rank-log|logs-specs|redirects|tee|local-ranks-filter|role|event-log-handler|numa-binding|"
            "signals-to-handle", "VALUE",
            "what ranks print goes where the launcher's does: sh -c 'exec PROGRAM >log.$YOKE_RANK' gives each rank a file"),
    REFUSED("fp8-backend|fp8-format|fp8-margin|fp8-interval|fp8-amax-history-len|fp8-amax-compute-algo|fp8-opt-level|"
            "fp8-override-linear-precision", "VALUE", "--precision fp8 has no further settings"),
    REFUSED("fp8-use-autocast-during-eval|fp8-enable-fsdp-float8-all-gather|fp8-pad-inner-dim", NULL,
            "--precision fp8 has no further settings"),
    REFUSED("use-parallelism-config", NULL, "the program shards: yoke train --shard params, or --parallelism-config FILE"),
    REFUSED("parallelism-config-dp-replicate-size|parallelism-config-dp-shard-size|parallelism-config-tp-size|parallelism-config-cp-size|"
            "parallelism-config-sp-size|parallelism-config-cp-comm-strategy|deepspeed-moe-layer-cls-names|deepspeed-exclusion-filter|"
            "deepspeed-inclusion-filter|megatron-lm-no-async-grads", "VALUE",
            "the program shards: yoke train --shard; --hosts names hosts and their devices"),
    REFUSED("aws-access-key-id|aws-secret-access-key|tpu-cluster|vm|commands|tpu-name|tpu-zone", "VALUE",
            "nothing is rented: --hosts names hosts that ssh reaches"),
    REFUSED("downcast-bf16|dynamo-use-regional-compilation", NULL, "--precision bf16 is the switch; every step is planned before it runs"),
    REFUSED("save-pid|no-ssh|no-ssh-check|virtual-local-rank", NULL, "there is nothing like it here"),
    REFUSED("min-elastic-nodes|max-elastic-nodes|venv-script|use-agent-store|duplicate-stdout-filters|duplicate-stderr-filters|"
            "shutdown-timeout", "VALUE", "there is nothing like it here"),
    REFUSED("bind-to|cpu-bind|cpu-set|cpu-list|rankfile|cpus-per-rank|cpus-per-proc|cpus-per-task|binding", "VALUE",
            "--devices says which cores a rank has: cpu:0-3, cpu/2"),
    REFUSED("mca|gmca|omca|prtemca|pmixmca", "NAME VALUE",
            "a setting of Open MPI, which starts no rank here: YOKE_TRANSPORT, YOKE_ADDR and YOKE_PORT say how ranks meet"),
    REFUSED("genv", "NAME VALUE", "--env NAME=VALUE gives the ranks a variable"),
    REFUSED("genvlist|envlist|export", "LIST", "--env NAME gives the ranks a variable, each by an --env of its own"),
    REFUSED("gpus-per-node|gpus-per-task|gpus|gres", "VALUE", "--devices cuda:* has a rank for each card, as --nproc-per-node gpu has"),
    REFUSED("partition|account|qos|time|mem|mem-per-cpu|job-name|nodelist|constraint", "VALUE",
            "an option of srun or salloc: allocate by them, and run yoke launch inside: its hosts are the allocation's"),
    REFUSED("wdir|wd|chdir", "DIR", "ranks start in this folder: cd there before"),
    REFUSED("timeout", "SECONDS", "timeout SECONDS yoke launch .. ends the job"),
    REFUSED("prefix|path", "DIR", "yoke and the program have the same path on every host"),
    REFUSED("tag-output|timestamp-output|label|prepend-rank", NULL,
            "lines have [RANK] in front where a rank is on another host; elsewhere sh -c 'PROGRAM | sed s/^/$YOKE_RANK:/'"),
    REFUSED("output-filename|output", "VALUE", "sh -c 'exec PROGRAM >log.$YOKE_RANK' gives each rank a file"),
    REFUSED("report-bindings|display-map|display-allocation|display-topo", NULL, "--dry-run prints which rank has which device"),
    REFUSED("display", "VALUE", "--dry-run prints which rank has which device"),
    REFUSED("pernode", NULL, "--nproc-per-node 1 is the same"),
    REFUSED("nolocal|novm|do-not-launch|enable-recovery", NULL, "there is nothing like it here"),
    REFUSED("autotuning|force-multi|elastic-training", NULL, "there is nothing like it here"),
};

static const yk__cli_spelling spellings[] = {
    {"n|np|num-procs|ranks|ntasks", "N", "num-processes", NULL, NULL, NULL},
    {"ppn|npernode|perhost|ntasks-per-node|tasks-per-node", "N", "nproc-per-node", NULL, NULL, NULL},
    {"nodes", "N", "nnodes", NULL, NULL, NULL},
    {"H|host", "LIST", "hosts", NULL, NULL, NULL},
    {"f|machinefile|deepspeed-hostfile|mpirun-hostfile", "FILE", "hostfile", NULL, NULL, NULL},
    {"env", "NAME[=VALUE]", "env", launch_map_variable, "NAME=VALUE, or the NAME of a variable that is set", NULL},
    {"x", "NAME[=VALUE]", "env", launch_map_variable, "NAME=VALUE, or the NAME of a variable that is set", NULL},
    {"num-machines", "N", "nnodes", NULL, NULL, NULL},
    {"machine-rank", "N", "node-rank", NULL, NULL, NULL},
    {"main-process-ip", "ADDRESS", "master-addr", NULL, NULL, NULL},
    {"main-process-port", "PORT", "master-port", NULL, NULL, NULL},
    {"mixed-precision", "TYPE", "precision", yk__spell_precision, "no, bf16, fp16 or fp8", NULL},
    {"cpu|use-cpu", NULL, "devices", yk__spell_cpu, NULL, NULL},
    {"standalone", NULL, NULL, NULL, NULL, "the ranks of one host meet in its memory, and need no address"},
    {"monitor-interval", "SECONDS", NULL, NULL, NULL, "a rank that ends is seen at once"},
    {"start-method", "NAME", NULL, NULL, NULL, "each rank is a process of its own"},
    {"quiet|same-network|rdzv-auto-configure", NULL, NULL, NULL, NULL,
     "a line is printed where there is something to say, and hosts find each other by address"},
    {"nnodes", "N", "nnodes", launch_map_nodes, "a number of hosts: ranks that come and go (MIN:MAX) there are none", NULL},
    {"map-by|rank-by", "PLACE", NULL, launch_map_slot, "slot: ranks are numbered by host, in the order of the list; --devices names "
     "their cores", "ranks are numbered by host, in the order of the list"},
    {"allow-run-as-root", NULL, NULL, NULL, NULL, "any user may start a job"},
    {"oversubscribe|overcommit", NULL, NULL, NULL, NULL, "ranks may share cores, and a line says which do"},
    {"genvall", NULL, NULL, NULL, NULL, "ranks of this host have its environment"},
    {"rdzv-backend", "NAME", NULL, launch_map_rendezvous, "c10d or static: several hosts meet by --nnodes, --node-rank and --master-addr",
     "ranks of one host meet in its memory, those of several at --master-addr"},
    {"rdzv-id", "NAME", NULL, NULL, NULL, "each job has a secret of its own"},
    {"rdzv-endpoint", "HOST[:PORT]", NULL, launch_map_endpoint, "an address of this host: several meet by --nnodes, --node-rank, "
     "--master-addr HOST and --master-port PORT", "ranks of one host meet in its memory"},
    {"no-local-rank", NULL, NULL, NULL, NULL, "no --local_rank is given to the program"},
    {"m", NULL, "module", NULL, NULL, NULL},
    {"no-python", NULL, NULL, NULL, NULL, "the program is run as it is named"},
};

static const yk__cli_command command = {
    .name = "launch",
    .usage = "[--hosts LIST] [--devices SPECS] [--max-restarts N] [--dry-run] [--json] [--] PROGRAM [ARGUMENTS]",
    .summary = "run a program once per device, as the ranks of one job",
    .text =
        "SPECS select the devices, separated by spaces or commas: cpu (one rank on all cores), cpu:0-3 (one rank on "
        "these cores), cpu/2 (two ranks that share the cores), opencl:0, opencl:0@1 (its host threads on core 1), "
        "opencl:*, auto. A device that would slow the job down is excluded from it; a '!' behind its spec (opencl:0!) "
        "keeps it in. Each rank's process finds its device in YOKE_DEVICES, its number in YOKE_RANK and "
        "YOKE_LOCAL_RANK, and how many there are in YOKE_WORLD_SIZE; a program that uses Yoke reads them by itself.\n"
        "\n"
        "The ranks meet in shared memory that has no name and ends with them. The job's secret goes to them over the "
        "inherited descriptor YOKE_JOB_FD, never over a command line or the environment.\n"
        "\n"
        "When a rank is killed, stops, dies or ends with an error, the launcher ends the other ranks within two seconds, and "
        "one line names the rank. A rank that lives but does nothing while other ranks wait for it (a deadlock, a device that "
        "never finishes) is found later. In a call of the library or of a device it has 30 s, or 20 times the longest of its "
        "kind so far, and ten times as long while its process computes. In its program's own code, at a pipe or a terminal, and "
        "in its first wait for a disk, one line names it after that time, and it ends after YOKE_STUCK_MS. A compilation has 20 "
        "times its device's estimate, if the device gives one and that is longer. A connection that ends or carries nothing "
        "while its ranks live ends the job within five seconds. The launcher passes SIGINT, SIGTERM, SIGHUP and SIGUSR1 on to "
        "the ranks; a second signal kills them. Ranks that save and leave with exit code 75 have the time that they need for "
        "it. Ctrl-Z stops the whole job. If the launcher itself is killed, the ranks end too.\n"
        "\n"
        "With --max-restarts N the launcher starts a job anew, with the same ranks, at most N times. It does so when a rank "
        "died, stopped or ended with another code than 0 and 2, and all ranks have ended; a line gives the reason and the "
        "number of the restart. Wrong input (exit code 2) and a signal to the launcher end the job. YOKE_RESTART_COUNT tells "
        "the ranks the number of restarts. 'yoke train' goes on from the newest checkpoint that it wrote into its folder in an "
        "earlier attempt, or begins anew there, and adds to its logs. Several hosts have to share that folder.\n"
        "\n"
        "Environment: YOKE_LIVENESS_MS is the time for which a rank may give no sign of life (default 1300; 0 switches this "
        "off, as for a debugger that stops one rank). YOKE_STUCK_MS is the time for which a rank that other ranks wait for may "
        "do nothing. If it is set, it rules in every case; the default, 600000, is for the program's own code. 0 switches this "
        "off, and so does YOKE_LIVENESS_MS=0 unless YOKE_STUCK_MS is set. Calls of the library, compiled programs, reads and "
        "writes, and work that the device finishes count as something done; work of the program's own does not. YOKE_JOIN_MS is "
        "the time for which the ranks wait for each other at the start (default 300000).\n"
        "\n"
        "With --hosts the ranks run on several hosts, numbered in the order of the list: --hosts a:2,b:4 or, with devices, "
        "--hosts 'a=opencl:0 opencl:1,b:4=cpu/4'. A host without a number of ranks has one per device. ssh has to work without "
        "a password. yoke, the program and the current folder have the same path on every host. The launcher passes on "
        "variables whose names begin with YOKE_, those of accelerate that Yoke follows, and those of --env. localhost, and "
        "this host's own name or address, needs no ssh. -n beside such a list fills it from its first host on, and "
        "--nproc-per-node counts the ranks of each host. In a Slurm allocation of several nodes the nodes are the hosts, and "
        "srun takes the place of ssh; YOKE_LAUNCHER=none takes this node alone. The job's secret goes to the hosts over "
        "standard input. With ranks on another host each printed line has '[RANK] ' in front, and one of more than 8 KB comes"
        " as several. Until all ranks have come, rank 0 listens at the address where ssh reached its host, or at YOKE_ADDR "
        "and YOKE_PORT.\n"
        "\n"
        "Names of other programs may stand behind one dash, as mpirun has them: -np 2, -hostfile FILE. Options behind the program's "
        "name are the program's own.\n"
        "\n"
        "Other launchers work too: mpirun, mpiexec, srun, torchrun, a Kubernetes indexed job, or a start by hand with "
        "YOKE_RANK, YOKE_SIZE, YOKE_ADDR, YOKE_PORT and YOKE_SECRET_FILE. The processes are then the ranks of one job. "
        "docs/launching.md has the needs of each launcher; 'yoke info' says how a process was started. A rank that lost the "
        "descriptor (behind a wrapper that closes what it inherits) ends with an error instead of training alone. So does one "
        "of several processes whose variables do not suffice. YOKE_LAUNCHER=none says that such a process is a job of its own.\n"
        "\n"
        "With --nnodes N, --node-rank and --master-addr this command starts the ranks of one of N hosts, and the same command starts "
        "the rest on each of the other hosts. They meet at that address by the secret in YOKE_SECRET_FILE. A signal to one of these "
        "launchers goes to its own ranks, from which the ranks of other hosts hear of it.\n"
        "\n"
        "The exit code is 2 when the rank at fault ended with 2, 75 when the ranks left with 75, and 128 plus the signal's number after "
        "another interruption.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .spellings = spellings,
    .n_spellings = sizeof spellings / sizeof *spellings,
    .least = 1,
    .most = -1,
    .rest = true,
};
const yk__cli_command *const yk__launch_command = &command;

/* A launched job: device specs by rank, and the ranks' hosts; NULL for this host. */
typedef struct launched {
    uint32_t ranks;
    char **device;
    const char **host;
} launched;

static void launched_free(launched *job)
{
    for (uint32_t r = 0; job->device && r < job->ranks; r++)
        yk__free(job->device[r]);
    yk__free(job->device);
    yk__free(job->host);
}

static yk_status launched_new(launched *job, uint32_t ranks, yk_error *err)
{
    *job = (launched){ranks, yk__calloc(ranks, sizeof *job->device), yk__calloc(ranks, sizeof *job->host)};
    return job->device && job->host ? YK_OK : yk__fail_mem(err, ranks * sizeof *job->device, "the ranks of a job");
}

static yk_status launched_fill(launched *job, uint32_t rank, const char *device, const char *host, yk_error *err)
{
    job->host[rank] = host;
    job->device[rank] = yk__strdup(device);
    return job->device[rank] ? YK_OK : yk__fail_mem(err, strlen(device), "the devices of a job");
}

static void say_launch(const char *text)
{
    yk__launch_tell("yoke launch", text);
}

static void list_write(FILE *f, const char *name, uint32_t n, const char *const *text)
{
    fprintf(f, "\"%s\": [", name);
    for (uint32_t i = 0; i < n; i++) {
        fprintf(f, "%s", i ? ", " : "");
        yk__json_write(f, text[i]);
    }
    fprintf(f, "], ");
}

/* For a reader that may be gone: a launcher ends all the same. */
static void print_json(const launched *job, int code, const yk_error *err)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&text, &bytes);
    if (!f)
        return;
    fprintf(f, "{");
    list_write(f, "ranks", job->ranks, (const char *const *)job->device);
    if (job->ranks && job->host[0])
        list_write(f, "hosts", job->ranks, job->host);
    fprintf(f, "\"exit_code\": %d, \"error\": ", code);
    if (err->status)
        yk__json_write(f, err->text);
    else
        fprintf(f, "null");
    fprintf(f, "}\n");
    if (!fclose(f) && !yk__launch_print(text, bytes))
        say_launch("nobody reads standard output: the line of --json is lost");
    free(text); /* open_memstream's */
}

/* Prints the ranks of a host, or of all hosts if host is NULL. first: number of the job's first rank. */
static void print_ranks(const launched *job, uint32_t first, const char *host)
{
    for (uint32_t r = 0; r < job->ranks; r++)
        if (!host || !strcmp(job->host[r], host))
            printf("%srank %u: %s\n", host ? "  " : "", first + r, job->device[r]);
}

static void print_program(char *const *argv)
{
    printf("program:");
    for (; *argv; argv++)
        printf(" %s", *argv);
    printf("\n");
}

/* ---- This host --------------------------------------------------------------------------------------------------- */

static yk_status describe_places(const yk__placement *place, uint32_t n, launched *job, yk_error *err)
{
    char spec[sizeof place->plugin + sizeof place->cores + 16];
    launched_new(job, n, err);
    for (uint32_t r = 0; r < n && !err->status; r++) {
        yk__placement_text(&place[r], spec, sizeof spec);
        launched_fill(job, r, spec, NULL, err);
    }
    return err->status;
}

/* The number of ranks, and the range of this host's. */
typedef struct parts {
    uint32_t here, first, total, nodes; /* here 0: one per device */
    uint32_t asked, each;               /* ranks of the job, and of a host, as the options say; 0: they do not */
    const char *devices;                /* NULL: --devices */
} parts;

/* True in a Slurm allocation of several nodes, unless YOKE_LAUNCHER=none. */
static bool is_allocation(void)
{
    const char *nodes = yk__variable_text("SLURM_NNODES"), *own = yk__option_text(YK__OPTION_LAUNCHER);
    return yk__variable_text("SLURM_JOB_ID") && yk__variable_text("SLURM_JOB_NODELIST") && nodes && atoi(nodes) > 1 &&
           !(own && !strcmp(own, "none"));
}

/* Checks the options for several hosts, of which none can be guessed; false after a line that names every missing option. */
static bool check_nodes(const yk__cli *cli, const parts *p, uint32_t restarts)
{
    const char *missing[] = {p->here ? "" : " --nproc-per-node or --num-processes (how many ranks),",
                             yk__cli_typed(cli, "node-rank") ? "" : " --node-rank (which host this is),",
                             yk__cli_text(cli, "master-addr") ? "" : " --master-addr (where rank 0 listens),",
                             yk__option_text(YK__OPTION_SECRET_FILE) ? "" : " YOKE_SECRET_FILE (a file of 32 random bytes, the same on all "
                                                                            "hosts),"};
    char text[512];
    if (restarts) {
        yk__cli_usage(&command, "--max-restarts: a launcher on each host cannot start the rest anew: --hosts can, from one");
        return false;
    }
    snprintf(text, sizeof text, "%s%s%s%s", missing[0], missing[1], missing[2], missing[3]);
    if (!*text)
        return true;
    text[strlen(text) - 1] = 0;
    yk__cli_usage(&command, "--nnodes %u needs%s; --hosts LIST needs none of it, where ssh works", p->nodes, text);
    return false;
}

/* A list has its own number of hosts; those of ranks are matched with it later (yk__hosts_allot). slurm: the nodes of an allocation. */
static bool read_listed(const yk__cli *cli, bool slurm, uint32_t nodes)
{
    const char *all = yk__variable_text("SLURM_NNODES");
    bool bad = false;
    if (slurm && yk__cli_typed(cli, "nnodes") && nodes != (uint32_t)atoi(all)) {
        yk__cli_usage(&command, "--nnodes %u: the %s nodes of this Slurm allocation are the hosts: --hosts LIST names some of them, for "
                      "ssh", nodes, all);
        bad = true;
    }
    if (slurm)
        yk__cli_refuse_idle(cli, "node-rank", "in a Slurm allocation, whose nodes are the hosts, unless YOKE_LAUNCHER=none takes this node "
                            "alone", &bad);
    if (slurm)
        return !bad;
    yk__cli_refuse_idle(cli, "nnodes", "beside --hosts or --hostfile, which name the hosts", &bad);
    yk__cli_refuse_idle(cli, "node-rank", "beside --hosts or --hostfile, which name the hosts", &bad);
    return !bad;
}

/* False after a message. */
static bool read_parts(const yk__cli *cli, uint32_t restarts, parts *p)
{
    const bool named = yk__cli_text(cli, "hosts") || yk__cli_text(cli, "hostfile"), listed = named || is_allocation();
    bool bad = false;
    p->asked = (uint32_t)yk__cli_int(cli, "num-processes", 1, 1 << 16, &bad);
    p->nodes = (uint32_t)yk__cli_int(cli, "nnodes", 1, 1 << 16, &bad);
    const uint32_t node = (uint32_t)yk__cli_int(cli, "node-rank", 0, (int64_t)p->nodes - 1, &bad);
    yk__cli_int(cli, "master-port", 1, 65535, &bad);
    launch_each_read(cli, listed, &p->each, &p->devices, &bad);
    if (listed)
        return read_listed(cli, !named, p->nodes) && !bad;
    if (!bad && p->asked && (p->asked % p->nodes || (p->each && p->each * p->nodes != p->asked))) {
        yk__cli_usage(&command, p->each ? "--num-processes %u is of all hosts, and %u of --nproc-per-node %u have another number"
                                        : "--num-processes %u is of all hosts, and %u hosts have no even part of it",
                      p->asked, p->nodes, p->each);
        bad = true;
    }
    if (bad)
        return false;
    p->here = p->each ? p->each : p->asked / p->nodes;
    p->first = node * p->here;
    p->total = p->nodes * p->here;
    if (p->nodes == 1 && yk__cli_typed(cli, "master-addr"))
        say_launch("--master-addr changes nothing with one host: its ranks meet in its memory");
    return p->nodes == 1 || check_nodes(cli, p, restarts);
}

static void run_places(const yk__cli *cli, const parts *p, const yk__placement *place, uint32_t n, uint32_t restarts, int *code,
                       yk_error *err)
{
    const char *port = yk__cli_text(cli, "master-port");
    const yk__launch_host host = {n, p->first, p->total, yk__cli_text(cli, "master-addr"), (uint16_t)atoi(port ? port : "29500")};
    if (p->nodes > 1)
        yk__launch_part(&host, place, cli->positional, say_launch, code, err);
    else
        yk__launch(place, n, cli->positional, restarts, say_launch, code, err);
}

/* The processor for several ranks: even parts of its cores, if there are enough. */
static yk_status select_places(const yk__cli *cli, const parts *p, yk__placement **place, uint32_t *n, yk_error *err)
{
    const char *devices = p->devices ? p->devices : yk__cli_given(cli, "devices") ? yk__cli_text(cli, "devices") : yk__option_devices();
    const uint32_t ranks = p->here;
    yk_error few = YK_ERROR_INIT;
    char spec[32];
    snprintf(spec, sizeof spec, "cpu/%u", ranks);
    if (ranks > 1 && devices && !strcmp(devices, "cpu") && !yk__launch_select(spec, place, n, &few))
        return YK_OK;
    return yk__launch_select_ranks(devices, ranks, place, n, err);
}

/* The exit code of devices that are not found: a shortage, or a driver that hangs, is no wrong input. */
static int places_code(yk_status status)
{
    return status == YK_E_IO || status == YK_E_MEM || status == YK_E_TIMEOUT || status == YK_E_DEVICE_LOST ? YK_EXIT_FAILED : YK_EXIT_USAGE;
}

static int launch_here(const yk__cli *cli, const parts *p, uint32_t restarts)
{
    yk_error err = YK_ERROR_INIT;
    yk__placement *place = NULL;
    launched job = {0, NULL, NULL};
    uint32_t n = 0;
    int code = 0;
    if (select_places(cli, p, &place, &n, &err) || describe_places(place, n, &job, &err)) {
        yk__cli_usage(&command, "%s", err.text);
        code = places_code(err.status);
    } else if (yk__cli_on(cli, "dry-run")) {
        print_ranks(&job, p->first, NULL);
        print_program(cli->positional);
    } else {
        run_places(cli, p, place, n, restarts, &code, &err);
        if (yk__cli_on(cli, "json"))
            print_json(&job, code, &err);
    }
    launched_free(&job);
    yk__free(place);
    return code;
}

/* ---- Several hosts ----------------------------------------------------------------------------------------------- */

/* Finds the hosts of the job. Their count stays 0 if the job is of this host alone. */
static yk_status find_hosts(const yk__cli *cli, yk__hosts *hosts, bool *slurm, yk_error *err)
{
    const char *list = yk__cli_text(cli, "hosts"), *file = yk__cli_text(cli, "hostfile");
    if (list && file)
        return yk__fail(err, YK_E_ARG, "--hosts and --hostfile: give one of them");
    if (list)
        return yk__hosts_parse(list, hosts, err);
    if (file)
        return yk__hosts_read(file, hosts, err);
    *slurm = is_allocation();
    return *slurm ? yk__hosts_of_slurm(yk__variable_text("SLURM_JOB_NODELIST"),
                                       yk__variable_text("SLURM_NTASKS") ? yk__variable_text("SLURM_TASKS_PER_NODE") : NULL, hosts, err)
                  : YK_OK;
}

/* Fills the job from the hosts' answers, at the first start and at each restart. A restart with another number of ranks is an error. */
static yk_status describe_hosts(const yk__remote *remote, const yk__hosts *hosts, launched *job, yk_error *err)
{
    if (job->ranks && job->ranks != yk__remote_size(remote))
        return yk__fail(err, YK_E_DEVICE_LOST, "no restart: the hosts have %u ranks now, and had %u", yk__remote_size(remote), job->ranks);
    launched_free(job);
    launched_new(job, yk__remote_size(remote), err);
    for (uint32_t r = 0; r < job->ranks && !err->status; r++)
        launched_fill(job, r, yk__remote_device(remote, r), hosts->host[yk__remote_host(remote, r)].name, err);
    return err->status;
}

static void print_hosts(const yk__remote *remote, const yk__hosts *hosts, const launched *job, char *const *argv)
{
    char text[8192];
    for (uint32_t i = 0; i < hosts->count; i++) {
        yk__remote_command(remote, i, text, sizeof text);
        printf("host %s: %s\n", hosts->host[i].name, text);
        print_ranks(job, 0, hosts->host[i].name);
    }
    print_program(argv);
}

/* True if another attempt follows. */
static bool hosts_attempt(const yk__cli *cli, const yk__peer_config *config, launched *job, int *code, yk_error *err)
{
    yk__remote *remote = NULL;
    bool again = false;
    if (!yk__remote_open(config, say_launch, &remote, code, err)) { /* else it has said why */
        if (describe_hosts(remote, config->hosts, job, err)) {
            say_launch(err->text);
            *code = YK_EXIT_FAILED;
        } else if (yk__cli_on(cli, "dry-run"))
            print_hosts(remote, config->hosts, job, cli->positional);
        else
            yk__remote_run(remote, &again, code, err);
    }
    yk__remote_close(remote);
    return again;
}

static int launch_on_hosts(const yk__cli *cli, const yk__hosts *hosts, bool slurm, uint32_t restarts)
{
    const char *shell = yk__cli_text(cli, "ssh");
    yk__peer_config config = {.hosts = hosts, .devices = yk__cli_text(cli, "devices"), .slurm = slurm, .argv = cli->positional,
                              .variables = launch_variables(), .shell = shell ? shell : yk__option_row_of(YK__OPTION_SSH)->preset,
                              .address = yk__cli_text(cli, "master-addr"), .port = yk__cli_text(cli, "master-port")};
    yk_error err = YK_ERROR_INIT;
    launched job = {0, NULL, NULL};
    yk__signals signals;
    int code = 0;
    fflush(stdout);
    config.signals = &signals;
    if (yk__restart_first(&config.restart, restarts, &err) || yk__signals_take(&signals, &err)) {
        say_launch(err.text);
        return YK_EXIT_FAILED;
    }
    while (hosts_attempt(cli, &config, &job, &code, &err)) {
        config.restart.count++;
        err = (yk_error)YK_ERROR_INIT;
    }
    yk__signals_release(&signals);
    if (yk__cli_on(cli, "json") && !yk__cli_on(cli, "dry-run"))
        print_json(&job, code, &err);
    launched_free(&job);
    return code;
}

/* A program over yoke.h reads it from the environment, unless its yk_config has one. Other hosts have their own environments. */
static bool pass_precision(const yk__cli *cli, const char *precision)
{
    const bool far = yk__cli_given(cli, "hosts") || yk__cli_given(cli, "hostfile");
    bool bad = far;
    const int k = far ? -1 : yk__cli_choice(cli, "precision", YK__PRECISION_WORDS, &bad);
    if (far)
        yk__cli_usage(&command, "--precision %s has no effect on other hosts: set yk_config.precision in the program, or launch yoke "
                      "train, eval or predict", precision);
    if (!bad)
        setenv("ACCELERATE_MIXED_PRECISION", yk__word_text(YK__PRECISION_WORDS, k).text, 1);
    return !bad;
}

/* Inserts --precision after the command's name, so that the program's own option overrides it; false after a message. *code: the exit
 * code. */
static bool insert_precision(yk__cli *cli, int *code)
{
    static const char *const commands[] = {"train", "eval", "predict"};
    static char word[32], **list; /* until the process ends */
    const char *precision = yk__cli_text(cli, "precision"), *program = strrchr(cli->positional[0], '/');
    const int n = cli->n_positional;
    bool takes = false;
    program = program ? program + 1 : cli->positional[0];
    for (int i = 0; i < 3 && n > 1; i++)
        takes = takes || (!strcmp(program, "yoke") && !strcmp(cli->positional[1], commands[i]));
    *code = YK_EXIT_USAGE;
    if (!precision)
        return true;
    if (!takes)
        return pass_precision(cli, precision);
    list = calloc((size_t)n + 2, sizeof *list);
    if (!list) {
        yk__cli_usage(&command, "out of memory for the %d words of the command", n);
        *code = YK_EXIT_FAILED;
        return false;
    }
    snprintf(word, sizeof word, "--precision=%.15s", precision);
    memcpy(list, cli->positional, 2 * sizeof *list);
    list[2] = word;
    memcpy(list + 3, cli->positional + 2, ((size_t)n - 2) * sizeof *list);
    cli->positional = list;
    cli->n_positional++;
    return true;
}

/* Says that a host starts without ssh. A user who gives --ssh may mean another machine, behind a forwarded port. */
static void say_own_host(const yk__cli *cli, const yk__hosts *hosts)
{
    char line[640];
    for (uint32_t i = 0; i < hosts->count; i++) {
        const char *name = hosts->host[i].name;
        if (!hosts->host[i].own || !yk__cli_text(cli, "ssh"))
            continue;
        snprintf(line, sizeof line, "%.250s is this host and starts without ssh: write USER@%.250s to log in", name, name);
        say_launch(line);
    }
}

/* A list of this host alone, which no ssh has to reach, is the job of one host. srun binds the ranks of an allocation to its nodes. */
static void take_own_host(yk__hosts *hosts, parts *p)
{
    if (hosts->count != 1 || !hosts->host[0].own)
        return;
    p->here = hosts->host[0].ranks;
    p->devices = hosts->host[0].devices;
    hosts->count = 0;
}

int yk__cmd_launch(int argc, char **argv)
{
    yk_error err = YK_ERROR_INIT;
    yk__hosts hosts = {NULL, 0};
    bool slurm = false, bad = false;
    uint32_t restarts;
    parts part = {0};
    yk__cli cli;
    int code;
    yk__launch_keep_standard();
    if (argc == 2 && !strcmp(argv[1], "--node"))
        return yk__node_main();
    argv = settings_apply(&(settings_job){&command, NULL}, &argc, argv, &code);
    if (!argv)
        return code;
    argv = yk__spell(&command, &argc, argv);
    code = argv ? yk__cli_parse(&command, argc, argv, &cli) : YK_EXIT_USAGE;
    if (code >= 0)
        return code;
    restarts = (uint32_t)yk__cli_int(&cli, "max-restarts", 0, YK__RESTARTS_MOST, &bad);
    if (bad || !read_parts(&cli, restarts, &part))
        return YK_EXIT_USAGE;
    if (!insert_precision(&cli, &code))
        return code;
    if (part.nodes <= 1 && yk__launch_check(&err)) { /* with --nnodes the variables of another launcher may give --node-rank alone */
        yk__launch_await_turn();
        return yk__cli_usage(&command, "%s", err.text);
    }
    if (yk__launched() && yk__launch_fd() < 0)
        return yk__cli_usage(&command, "this process is a rank of another launcher's job already (yoke info): start the program itself, "
                             "or set YOKE_LAUNCHER=none");
    if (find_hosts(&cli, &hosts, &slurm, &err) || yk__hosts_allot(&hosts, part.asked, part.each, &err) ||
        (!slurm && yk__own_host_mark(&hosts, &err))) {
        yk__hosts_free(&hosts);
        return yk__cli_usage(&command, "%s", err.text);
    }
    const uint32_t count = hosts.count;
    say_own_host(&cli, &hosts);
    take_own_host(&hosts, &part);
    code = hosts.count ? launch_on_hosts(&cli, &hosts, slurm, restarts) : launch_here(&cli, &part, restarts);
    hosts.count = count;
    yk__hosts_free(&hosts);
    return code;
}
