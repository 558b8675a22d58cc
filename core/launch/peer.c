/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts a node, one host's part of a job, from the launcher. It has the command (ssh or srun), its process, and the records that tell the
 * node its ranks and its job (node.h).
 *
 * remote.c calls it for each host, in a program with one thread. Words that a remote shell reads are quoted.
 */
#include "config.h"

#include "core/launch/peer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/limit.h"
#include "core/base/mem.h"
#include "core/base/option.h"
#include "core/launch/node.h"
#include "core/launch/own_host.h"

#define WORDS_MOST 64

extern char **environ;

/* The process that sends beats has the socket too, hence the shutdown. */
void yk__peer_hang_up(yk__peer *peer)
{
    if (peer->in >= 0) {
        shutdown(peer->in, SHUT_RDWR);
        close(peer->in);
    }
    peer->in = -1;
}

void yk__peer_release(yk__peer *peer)
{
    yk__peer_hang_up(peer);
    yk__lines_close(&peer->out);
    yk__lines_close(&peer->err);
    for (uint32_t i = 0; i < peer->ranks; i++)
        yk__free(peer->device[i]);
    yk__free(peer->device);
    for (size_t i = 0; peer->argv && peer->argv[i]; i++)
        yk__free(peer->argv[i]);
    yk__free(peer->argv);
}

/* ---- The command ------------------------------------------------------------------------------------------------- */

/* Quotes text for a shell: 'it'\''s'. Allocated. */
static char *text_quote(const char *text)
{
    char *quoted = yk__malloc(4 * strlen(text) + 3), *to = quoted;
    if (!quoted)
        return NULL;
    *to++ = '\'';
    for (; *text; text++) {
        if (*text == '\'') {
            memcpy(to, "'\\'", 3);
            to += 3;
        }
        *to++ = *text;
    }
    *to++ = '\'';
    *to = 0;
    return quoted;
}

static void word_add(char **words, size_t *n, char *word)
{
    if (*n < WORDS_MOST - 1)
        words[(*n)++] = word;
    else
        yk__free(word);
}

/* Splits `shell` into words; changes it. */
static void words_split(char *shell, char **words, size_t *n)
{
    char *next = shell, *word;
    while ((word = strsep(&next, " \t")))
        if (*word)
            word_add(words, n, yk__strdup(word));
}

/* ssh hands one line to the host's shell; srun hands over words; this host needs neither. */
static void words_write(const yk__peer_config *config, const yk__host *host, const char *program, char **words, size_t *n)
{
    static const char *const srun[] = {"srun", "--nodes=1", "--ntasks=1", "--overlap", "--cpu-bind=none", "--mpi=none", "--input=0"};
    if (config->slurm) {
        for (size_t i = 0; i < sizeof srun / sizeof *srun; i++)
            word_add(words, n, yk__strdup(srun[i]));
        word_add(words, n, yk__format("--nodelist=%s", host->name));
    }
    if (config->slurm || host->own) {
        word_add(words, n, yk__strdup(program));
        word_add(words, n, yk__strdup("launch"));
        word_add(words, n, yk__strdup("--node"));
        return;
    }
    char *shell = yk__strdup(config->shell), *quoted = text_quote(program);
    if (shell)
        words_split(shell, words, n);
    word_add(words, n, yk__strdup(host->name));
    word_add(words, n, quoted ? yk__format("exec %s launch --node", quoted) : NULL);
    yk__free(shell);
    yk__free(quoted);
}

static yk_status command_make(const yk__peer_config *config, const yk__host *host, yk__peer *peer, yk_error *err)
{
    char program[4096];
    const ssize_t bytes = readlink("/proc/self/exe", program, sizeof program - 1);
    size_t n = 0;
    if (bytes < 0)
        return yk__fail(err, YK_E_IO, "/proc/self/exe: %s", strerror(errno));
    program[bytes] = 0;
    peer->argv = yk__calloc(WORDS_MOST, sizeof *peer->argv);
    if (!peer->argv)
        return yk__fail_mem(err, WORDS_MOST * sizeof *peer->argv, "the command of a host");
    words_write(config, host, program, peer->argv, &n);
    for (size_t i = 0; i < n; i++)
        if (!peer->argv[i])
            return yk__fail_mem(err, sizeof program, "the command of a host");
    return YK_OK;
}

void yk__peer_command(const yk__peer *peer, char *text, size_t size)
{
    size_t used = 0;
    text[0] = 0;
    for (size_t i = 0; peer->argv[i] && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? " " : "", peer->argv[i]);
}

/* ---- Its process ------------------------------------------------------------------------------------------------- */

/* After the fork: only async-signal-safe calls. */
static void become_shell(const yk__peer *peer, const sigset_t *mask, const int *fd, pid_t launcher)
{
    static const char words[] = " cannot be started\n";
    setpgid(0, 0); /* the launcher passes on end signals of the terminal's group */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != launcher)
        _exit(1); /* child: the launcher died before the prctl */
    for (int i = 0; i < 3; i++)
        dup2(fd[i], i);
    sigprocmask(SIG_SETMASK, mask, NULL);
    yk__limit_restore();
    execvp(peer->argv[0], peer->argv);
    if (write(STDERR_FILENO, peer->argv[0], strlen(peer->argv[0])) < 0 || write(STDERR_FILENO, words, sizeof words - 1) < 0)
        _exit(126); /* child */
    _exit(127);     /* child */
}

static yk_status peer_fork(yk__peer *peer, const sigset_t *mask, const int *fd, yk_error *err)
{
    const pid_t launcher = getpid();
    peer->pid = fork();
    if (peer->pid == 0)
        become_shell(peer, mask, fd, launcher);
    if (peer->pid < 0) {
        peer->pid = 0;
        return yk__fail(err, YK_E_IO, "starting %s for host %s: fork: %s", peer->argv[0], peer->name,
                        yk__limit_thread_reason(errno).text);
    }
    setpgid(peer->pid, peer->pid);
    return YK_OK;
}

/* fd: the child's descriptors 0, 1 and 2. If a standard descriptor of this process were closed, one of them would take its number. */
static yk_status descriptors_open(yk__peer *peer, int *fd, yk_error *err)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
        return yk__fail(err, YK_E_IO, "a socket for host %s: %s", peer->name, yk__limit_reason(errno).text);
    peer->in = pair[0];
    fd[0] = pair[1];
    if (yk__lines_open(&peer->out, &fd[1], err) || yk__lines_open(&peer->err, &fd[2], err))
        return err->status;
    for (int i = 0; i < 3; i++)
        if (fd[i] < 3)
            return yk__fail(err, YK_E_ARG, "standard input, output or error of the launcher is closed: give it /dev/null");
    return YK_OK;
}

/* ---- Records ----------------------------------------------------------------------------------------------------- */

/* A host that does not take the record ends soon; the launcher notices then. */
static void record_send(yk__peer *peer, const char *name, const char *value)
{
    char *record = name ? yk__format("%s=%s", name, value) : yk__strdup("");
    const size_t bytes = record ? strlen(record) + 1 : 0;
    size_t sent = 0;
    while (peer->in >= 0 && sent < bytes) {
        const ssize_t n = send(peer->in, record + sent, bytes - sent, MSG_NOSIGNAL);
        if (n > 0)
            sent += (size_t)n;
        else if (errno != EINTR)
            yk__peer_hang_up(peer);
    }
    if (!record)
        yk__peer_hang_up(peer);
    yk__free(record);
}

static void number_send(yk__peer *peer, const char *name, uint32_t value)
{
    char text[16];
    snprintf(text, sizeof text, "%u", value);
    record_send(peer, name, text);
}

/* True for Yoke's variables of the job, not of one process or place; devices travel in a record of their own. */
static bool is_of_job(const char *variable)
{
    static const char *const own[] = {"RANK=", "WORLD_SIZE=", "SIZE=", "LOCAL_RANK=", "JOB_FD=", "LAUNCHER=", "ADDR=", "PORT=",
                                      "SECRET_FILE=", "LISTEN_FD=", "NODE_FD=", "HOST_ID=", "SSH=", "DEVICES=", "SERVICE=",
                                      "RESTART_COUNT=", "RUN_ID=", "MAX_RESTARTS="};
    if (strncmp(variable, "YOKE_", 5))
        return false;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (!strncmp(variable + 5, own[i], strlen(own[i])))
            return false;
    return true;
}

/* True for the variables of other launchers that Yoke follows (ACCELERATE_MIXED_PRECISION and so on). */
static bool is_followed(const char *variable)
{
    for (yk__option i = 0; i < YK__OPTION_N; i++) {
        const char *name = yk__option_row_of(i)->name;
        const size_t n = strlen(name);
        if (strncmp(name, "YOKE_", 5) && !strncmp(variable, name, n) && variable[n] == '=')
            return true;
    }
    return false;
}

/* Sends rank 0's host an address to listen on, "" if the host must find one itself. No name of this host says how other hosts reach it. */
static void address_send(yk__peer *peer, const yk__peer_config *config)
{
    char own[YK__TCP_ADDRESS] = "";
    if (!config->address && config->hosts->host[0].own && config->hosts->count > 1)
        yk__own_host_address(config->hosts, own);
    record_send(peer, "address", config->address ? config->address : own);
    record_send(peer, "port", config->port ? config->port : "0");
}

/* Sends the variables of --env; names that begin with YOKE_ go with the variables of the job. */
static void variables_send(yk__peer *peer, char *const *names)
{
    for (; *names; names++) {
        const char *value = strncmp(*names, "YOKE_", 5) ? getenv(*names) : NULL;
        char *variable = value ? yk__format("%s=%s", *names, value) : NULL;
        if (variable)
            record_send(peer, "variable", variable);
        else if (value)
            yk__peer_hang_up(peer);
        yk__free(variable);
    }
}

static void restart_send(yk__peer *peer, const yk__restart *restart)
{
    char *variable[YK__RESTART_VARIABLES];
    yk__restart_variables(restart, variable);
    if (!variable[0] || (restart->run[0] && !variable[1]))
        yk__peer_hang_up(peer);
    for (int i = 0; i < YK__RESTART_VARIABLES; i++) {
        if (variable[i])
            record_send(peer, "env", variable[i]);
        yk__free(variable[i]);
    }
}

static void records_send(yk__peer *peer, const yk__peer_config *config, uint32_t index, const char *folder)
{
    const yk__host *host = &config->hosts->host[index];
    const char *devices = host->devices ? host->devices : config->devices;
    record_send(peer, "version", YK__NODE_VERSION);
    record_send(peer, "name", host->name);
    record_send(peer, "folder", folder);
    if (devices)
        record_send(peer, "devices", devices);
    number_send(peer, "ranks", host->ranks);
    number_send(peer, "hosts", config->hosts->count);
    if (!index)
        address_send(peer, config);
    for (char **variable = environ; *variable; variable++)
        if (is_of_job(*variable) || is_followed(*variable))
            record_send(peer, is_followed(*variable) ? "variable" : "env", *variable);
    variables_send(peer, config->variables);
    restart_send(peer, &config->restart);
    for (char *const *word = config->argv; *word; word++)
        record_send(peer, "arg", *word);
    record_send(peer, NULL, NULL);
}

yk_status yk__peer_start(yk__peer *peer, const yk__peer_config *config, uint32_t index, const sigset_t *mask, yk_error *err)
{
    int fd[3] = {-1, -1, -1};
    char *folder = getcwd(NULL, 0);
    if (!folder)
        return yk__fail(err, YK_E_IO, "the current folder: %s", strerror(errno));
    if (!command_make(config, &config->hosts->host[index], peer, err) && !descriptors_open(peer, fd, err) &&
        !peer_fork(peer, mask, fd, err))
        records_send(peer, config, index, folder);
    for (int i = 0; i < 3; i++)
        if (fd[i] >= 0)
            close(fd[i]);
    free(folder); /* getcwd's */
    return err->status;
}

void yk__peer_run(yk__peer *peer, const yk__peer_begin *begin)
{
    record_send(peer, "secret", begin->secret);
    number_send(peer, "first", begin->first);
    number_send(peer, "size", begin->size);
    record_send(peer, "address", begin->address);
    number_send(peer, "port", begin->port);
    record_send(peer, NULL, NULL);
}
