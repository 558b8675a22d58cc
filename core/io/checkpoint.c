/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes and opens a checkpoint's folder, so that a whole one is always there. A save writes DIR.yoke-tmp, syncs it, and exchanges
 * it with DIR by one rename. If the file system cannot exchange, three renames do it, by way of DIR.yoke-old. At any moment DIR or
 * DIR.yoke-old is whole. The next save moves DIR.yoke-old back if DIR is missing, and clears other remains. DIR.old and DIR.tmp may be a
 * user's copies: they stay.
 *
 * yk_save has one on rank 0; other ranks write to its files (core/job/checkpoint/writers.c). In an emergency (emergency.c there) any one
 * surviving rank writes: the first that claims the kept step. Rank 0 tries that place in yk_open: it begins a checkpoint there, and
 * abandons it. In yk_load every rank reads the folder and checks all sums. yoke train (tools/train/checkpoints.c) reads states, checks
 * sizes and removes old checkpoints.
 */
#include "core/io/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/absent.h"
#include "core/base/advance.h"
#include "core/base/crc32c.h"
#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/io/folder.h"
#include "core/io/json.h"
#include "core/io/stamp.h"

#define STATE "trainer_state.json"
#define MOMENTS "optimizer.safetensors" /* each training writes it; Hugging Face's Trainer writes optimizer.pt */
#define CHUNK (1u << 20)

struct yk__checkpoint {
    char *dir, *tmp, *old;
    json_t *files;
    bool replaces; /* a folder, of which it has the permissions */
    yk__folder_rights replaced;
};

/* ---- Files ---- */

/* A name in a checkpoint may be a pipe, a device or a link that another user put there. Only a regular file is opened for reading. */
static int open_regular(const char *path, yk_error *err)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode))
        return fd;
    if (fd < 0)
        errno == ELOOP ? yk__fail(err, YK_E_FORMAT, "%s: is a link, and links are not followed", path) : yk__fail_open(err, path, errno);
    else
        yk__fail(err, YK_E_FORMAT, "%s: is no regular file", path);
    if (fd >= 0)
        close(fd);
    return -1;
}

/* The sums that a state may have of a file. */
typedef struct file_sums {
    uint64_t bytes, hash; /* hash: in checkpoints of earlier versions */
    uint32_t crc;
    bool hashes; /* hash is computed, not crc */
} file_sums;

static void sums_add(file_sums *sums, const void *data, size_t n)
{
    if (n && sums->hashes)
        sums->hash = yk__hash_bytes(sums->hash, data, n);
    else if (n)
        sums->crc = yk__crc32c(sums->crc, data, n);
    sums->bytes += n;
}

static yk_status sum_file(const char *path, file_sums *sums, yk_error *err)
{
    ssize_t got;
    int fd = open_regular(path, err);
    char *buf = fd < 0 ? NULL : yk__malloc(CHUNK);
    *sums = (file_sums){.hash = YK_HASH_SEED, .hashes = sums->hashes};
    if (fd < 0)
        return err->status;
    if (!buf) {
        close(fd);
        return yk__fail_mem(err, CHUNK, path);
    }
    do {
        size_t have = 0;
        yk__act_begin(YK__ACT_FILE);
        while (have < CHUNK && ((got = read(fd, buf + have, CHUNK - have)) > 0 || (got < 0 && errno == EINTR)))
            have += got > 0 ? (size_t)got : 0;
        yk__act_end(YK__ACT_FILE);
        yk__advance();
        if (got < 0)
            yk__fail(err, YK_E_IO, "%s: reading failed: %s", path, strerror(errno));
        sums_add(sums, buf, have);
    } while (got > 0);
    yk__free(buf);
    close(fd);
    return err->status;
}

/* Files that a checkpoint may have besides those its state names; they identify the remains of an unfinished checkpoint. Each of them is
 * NAME.yoke-tmp while it is written (yk__folder_write_file). NAME.tmp may be a user's copy. */
static const char *const known_files[] = {"model.safetensors", MOMENTS, "registered.safetensors", STATE, "best.json",
                                          YK__CHECKPOINT_MARK, "config.json", "tokenizer.json", "tokenizer_config.json",
                                          "special_tokens_map.json", "added_tokens.json", "vocab.txt", "vocab.json", "merges.txt",
                                          "generation_config.json", "chat_template.jinja"};

static bool name_is_known(const char *name)
{
    for (size_t i = 0; i < sizeof known_files / sizeof known_files[0]; i++) {
        const size_t n = strlen(known_files[i]);
        if (!strncmp(name, known_files[i], n) && (!name[n] || !strcmp(name + n, YK__FOLDER_TMP)))
            return true;
    }
    return false;
}

/* user: the state, or NULL. */
static bool checkpoint_owns(void *user, const char *name)
{
    const json_t *more = json_object_get(user, "model_files");
    for (size_t i = 0; i < json_array_size(more); i++) {
        const char *one = json_string_value(json_array_get(more, i));
        if (one && !strcmp(name, one))
            return true;
    }
    return name_is_known(name) || json_object_get(json_object_get(user, "files"), name) != NULL;
}

static json_t *state_or_null(const char *dir)
{
    yk_error ignored = YK_ERROR_INIT;
    json_t *state = NULL;
    yk__checkpoint_state(dir, &state, &ignored);
    return state;
}

/* Removes the checkpoint at dir; other files in it move to move_to, if given. */
static yk_status remove_to(const char *dir, const char *move_to, yk_error *err)
{
    if (!yk__folder_is(dir) && !move_to)
        return yk__folder_remove(dir, checkpoint_owns, NULL, err);
    json_t *state = state_or_null(dir);
    if (!move_to || !yk__folder_is(dir) || !yk__folder_move(dir, move_to, checkpoint_owns, state, err))
        yk__folder_remove(dir, checkpoint_owns, state, err);
    json_decref(state);
    return err->status;
}

yk_status yk__checkpoint_remove(const char *dir, yk_error *err)
{
    return remove_to(dir, NULL, err);
}

/* ---- Writing ---- */

static void checkpoint_free(yk__checkpoint *ckpt)
{
    yk__free(ckpt->dir);
    yk__free(ckpt->tmp);
    yk__free(ckpt->old);
    json_decref(ckpt->files);
    yk__free(ckpt);
}

/* Without slashes at the end. */
static size_t name_length(const char *dir)
{
    size_t n = strlen(dir);
    while (n > 1 && dir[n - 1] == '/')
        n--;
    return n;
}

static bool has_file(const char *dir, const char *name)
{
    char path[PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return !access(path, F_OK);
}

/* A folder that holds a model, and no training to go on with, and a checkpoint that a save put aside are told from one that is empty or
 * misspelt. */
static void absent_explain(const char *dir, yk_error *err)
{
    char aside[PATH_MAX];
    snprintf(aside, sizeof aside, "%.*s" YK__CHECKPOINT_OLD, (int)name_length(dir), dir);
    if (has_file(dir, "config.json"))
        yk__fail(err, YK_E_FORMAT, "%s: expected a checkpoint (" STATE "), got the folder of a model: open it as a model (--from, "
                 "yk_model_from_pretrained, yk_model_load)", dir);
    else if (has_file(aside, STATE))
        yk__fail(err, err->status, "%s: a save was interrupted while the checkpoint was called %s: rename that to %s", dir, aside, dir);
}

/* Any JSON; NULL with a failure. */
static yk_status state_load(const char *dir, json_t **state, yk_error *err)
{
    char *path = yk__format("%s/" STATE, dir);
    if (!path)
        return yk__fail_mem(err, strlen(dir), "a path");
    const int fd = open_regular(path, err);
    if (fd >= 0) {
        close(fd);
        yk__json_load(path, YK__JSON_UNIQUE_KEYS, state, err);
    } else if (access(path, F_OK))
        absent_explain(dir, err);
    yk__free(path);
    return err->status;
}

/* A state that is absent, cannot be read or names no format is taken for ours if the moments' file is there, which no other program writes.
 * saves: a line names such a checkpoint. */
static yk_status place_check(const char *dir, bool saves, yk_error *err)
{
    yk_error why = YK_ERROR_INIT;
    yk__folder_rights was;
    struct stat st;
    json_t *state = NULL;
    if (lstat(dir, &st))
        return YK_OK;
    if (!S_ISDIR(st.st_mode))
        return yk__fail(err, YK_E_IO, "%s: is no folder: a checkpoint cannot take its place", dir);
    const bool known = yk__folder_rights_of(-1, dir, &was);
    if (!rmdir(dir)) /* it was empty; a check alone leaves it as it was */
        return saves || mkdir(dir, S_IRWXU) || !known ? YK_OK : yk__folder_rights_keep_at(dir, &was, err);
    const bool has_state = has_file(dir, STATE);
    if (has_state && state_load(dir, &state, &why) == YK_E_MEM)
        yk__fail(err, why.status, "%s", why.text);
    else if (json_object_get(state, "format") ? !yk__checkpoint_ours(state) : !has_file(dir, MOMENTS))
        yk__fail(err, YK_E_IO, "%s: is there and is no checkpoint of Yoke (%s): move it away, remove it or choose another name", dir,
                 state ? "another program wrote its " STATE : has_state ? why.text : "it has no " STATE);
    else if (!state && saves)
        yk__log(YK_LOG_WARN, "checkpoint", "%s%s: this checkpoint is damaged, and a save replaces it", has_state ? why.text : dir,
                has_state ? "" : ": it has no " STATE);
    json_decref(state);
    return err->status;
}

yk_status yk__checkpoint_place(const char *dir, yk_error *err)
{
    return place_check(dir, false, err);
}

/* Repairs an interrupted save: moves the old checkpoint back to its place, removes half a new one. The owner of a folder that is replaced,
 * an empty one too, may have closed it or a file in it. The new folder is closed until it has their permissions. */
static yk_status clear_place(yk__checkpoint *ckpt, yk_error *err)
{
    struct stat st;
    ckpt->replaces = yk__folder_rights_of(-1, ckpt->dir, &ckpt->replaced);
    if (place_check(ckpt->dir, true, err))
        return err->status;
    if (lstat(ckpt->dir, &st) && yk__folder_is(ckpt->old) && rename(ckpt->old, ckpt->dir))
        return yk__fail(err, YK_E_IO, "%s: cannot rename %s to it: %s", ckpt->dir, ckpt->old, strerror(errno));
    const bool there = yk__folder_is(ckpt->dir);
    if (there)
        ckpt->replaces = yk__folder_rights_of(-1, ckpt->dir, &ckpt->replaced);
    if (remove_to(ckpt->old, there ? ckpt->dir : NULL, err) || remove_to(ckpt->tmp, there ? ckpt->dir : NULL, err))
        return err->status;
    if (mkdir(ckpt->tmp, ckpt->replaces ? S_IRWXU : 0777))
        return yk__fail(err, YK_E_IO, "%s: cannot make the folder: %s", ckpt->tmp, strerror(errno));
    return YK_OK;
}

/* Before the new checkpoint takes the place. */
static yk_status rights_keep(yk__checkpoint *ckpt, yk_error *err)
{
    if (yk__folder_is(ckpt->dir) && yk__folder_entries_keep(ckpt->tmp, ckpt->dir, err))
        return err->status;
    ckpt->replaced.st.st_mode |= S_IRWXU; /* files are removed from it later */
    return ckpt->replaces ? yk__folder_rights_keep_at(ckpt->tmp, &ckpt->replaced, err) : YK_OK;
}

char *yk__checkpoint_temporary(const char *dir)
{
    return yk__format("%.*s" YK__CHECKPOINT_TMP, (int)name_length(dir), dir);
}

yk_status yk__checkpoint_begin(const char *dir, yk__checkpoint **out, yk_error *err)
{
    yk__checkpoint *ckpt = yk__calloc(1, sizeof *ckpt);
    if (!ckpt)
        return yk__fail_mem(err, sizeof *ckpt, "a checkpoint");
    const size_t n = name_length(dir);
    ckpt->dir = yk__strndup(dir, n);
    ckpt->tmp = yk__checkpoint_temporary(dir);
    ckpt->old = ckpt->dir ? yk__format("%s" YK__CHECKPOINT_OLD, ckpt->dir) : NULL;
    ckpt->files = json_object();
    if (!ckpt->dir || !ckpt->tmp || !ckpt->old || !ckpt->files)
        yk__fail_mem(err, n, "a checkpoint");
    if (err->status || clear_place(ckpt, err)) {
        checkpoint_free(ckpt);
        return err->status;
    }
    *out = ckpt;
    return YK_OK;
}

const char *yk__checkpoint_folder(const yk__checkpoint *ckpt)
{
    return ckpt->tmp;
}

yk_status yk__checkpoint_add(yk__checkpoint *ckpt, const char *file, uint64_t bytes, uint32_t crc, yk_error *err)
{
    char text[12];
    snprintf(text, sizeof text, "%08" PRIx32, crc);
    json_t *entry = json_pack("{s:I, s:s}", "bytes", (json_int_t)bytes, "crc32c", text);
    if (!entry || json_object_set_new(ckpt->files, file, entry))
        yk__fail_mem(err, 64, "a checkpoint");
    return err->status;
}

yk_status yk__checkpoint_tensors(yk__checkpoint *ckpt, const char *file, const yk__safetensors_out *tensor, int64_t n, yk_error *err)
{
    const char *const meta[] = {"format", "pt"};
    char *path = yk__format("%s/%s", ckpt->tmp, file);
    file_sums sums = {0};
    if (!path)
        return yk__fail_mem(err, strlen(ckpt->tmp), "a path");
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        yk__fail(err, YK_E_IO, "%s: cannot be created: %s", path, strerror(errno));
    else if (!yk__safetensors_write(fd, path, tensor, n, meta, 1, NULL, NULL, err) && !sum_file(path, &sums, err) &&
             yk__folder_sync_file(fd))
        yk__fail(err, YK_E_IO, "%s: cannot be synced: %s", path, strerror(errno));
    if (fd >= 0 && close(fd) && !err->status)
        yk__fail(err, YK_E_IO, "%s: cannot be closed: %s", path, strerror(errno));
    yk__free(path);
    return err->status ? err->status : yk__checkpoint_add(ckpt, file, sums.bytes, sums.crc, err);
}

/* JSON holds only names in UTF-8: a file of another name is left alone, as a stranger's is. */
static void append_name(yk__json_builder *names, const char *name)
{
    json_error_t why;
    json_t *text = json_pack_ex(&why, 0, "s", name);
    if (text || json_error_code(&why) != json_error_invalid_utf8)
        yk__json_append(names, text);
}

/* Names of further files in the folder, written by callers; NULL after a failure. */
static json_t *list_companions(const yk__checkpoint *ckpt, yk_error *err)
{
    DIR *d = opendir(ckpt->tmp);
    if (!d) {
        yk__fail(err, YK_E_IO, "%s: cannot be read: %s", ckpt->tmp, strerror(errno));
        return NULL;
    }
    yk__json_builder names = yk__json_begin(json_array());
    yk_error cut = YK_ERROR_INIT;
    for (struct dirent *e; (e = yk__folder_next(d, ckpt->tmp, &cut));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 && !json_object_get(ckpt->files, e->d_name))
            append_name(&names, e->d_name);
    closedir(d);
    json_t *list = yk__json_end(&names);
    if (list && !cut.status)
        return list;
    if (cut.status)
        yk__fail(err, cut.status, "%s", cut.text);
    else
        yk__fail_mem(err, 64, "a checkpoint");
    json_decref(list);
    return NULL;
}

static yk_status write_state(const yk__checkpoint *ckpt, json_t *state, yk_error *err)
{
    json_t *companions = list_companions(ckpt, err);
    if (!companions)
        return err->status;
    yk__json_builder whole = yk__json_begin(state);
    yk__json_put(&whole, "files", json_incref(ckpt->files));
    yk__json_put(&whole, "model_files", companions);
    char *path = yk__format("%s/" STATE, ckpt->tmp);
    char *text = whole.failed ? NULL : yk__json_dump(state, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
    if (path && text)
        yk__folder_write_file(path, text, strlen(text), err);
    else
        yk__fail_mem(err, 64, "a checkpoint");
    yk__free(text);
    yk__free(path);
    return err->status;
}

yk_status yk__checkpoint_commit(yk__checkpoint *ckpt, json_t *state, yk_error *err)
{
    yk_error left = YK_ERROR_INIT;
    yk_status s = write_state(ckpt, state, err);
    if (!s)
        s = yk__folder_sync(ckpt->tmp, err);
    if (!s) /* a file may be closed to this process afterwards */
        s = rights_keep(ckpt, err);
    if (s) {
        yk__checkpoint_abandon(ckpt);
        return s;
    }
    s = yk__folder_exchange(ckpt->tmp, ckpt->dir, ckpt->old, err);
    if (!s)
        s = yk__folder_sync_parent(ckpt->dir, err);
    if (!s &&
        remove_to(ckpt->tmp, ckpt->dir, &left)) /* the replaced one; the new one is safe: no reason to end a job */
        yk__log(YK_LOG_WARN, "checkpoint", "%s", left.text);
    checkpoint_free(ckpt);
    return s;
}

void yk__checkpoint_abandon(yk__checkpoint *ckpt)
{
    if (!ckpt)
        return;
    yk_error ignored = YK_ERROR_INIT;
    yk__checkpoint_remove(ckpt->tmp, &ignored);
    checkpoint_free(ckpt);
}

/* ---- Reading ---- */

static yk_status stat_file(const char *path, struct stat *st, yk_error *err)
{
    int fd = open_regular(path, err);
    if (fd < 0)
        return err->status;
    if (fstat(fd, st))
        yk__fail(err, YK_E_IO, "%s: %s", path, strerror(errno));
    close(fd);
    return err->status;
}

static yk_status size_file(const char *path, uint64_t *bytes, yk_error *err)
{
    struct stat st;
    if (!stat_file(path, &st, err))
        *bytes = (uint64_t)st.st_size;
    return err->status;
}

/* Adds a file's size and the time of its last change. */
static yk_status mark_file(const char *dir, const char *name, uint64_t *mark, yk_error *err)
{
    struct stat st;
    char *path = yk__format("%s/%s", dir, name);
    if (!path)
        return yk__fail_mem(err, strlen(dir), "a path");
    if (!stat_file(path, &st, err)) {
        const yk__stamp stamp = yk__stamp_of(&st);
        *mark = yk__hash_u64(yk__hash_u64(*mark, stamp.bytes), (uint64_t)stamp.changed_s * 1000000000 + (uint64_t)stamp.changed_ns);
    }
    yk__free(path);
    return err->status;
}

static yk_status mark_files(const char *dir, const json_t *state, uint64_t *mark, yk_error *err)
{
    const char *name;
    json_t *entry;
    *mark = YK_HASH_SEED;
    json_object_foreach((json_t *)(uintptr_t)json_object_get(state, "files"), name, entry)
    {
        if (strchr(name, '/') == NULL && mark_file(dir, name, mark, err))
            return err->status;
    }
    return mark_file(dir, STATE, mark, err);
}

yk_status yk__checkpoint_same(const char *dir, const json_t *state, uint64_t mark, yk_error *err)
{
    uint64_t now;
    if (mark_files(dir, state, &now, err) || now == mark)
        return err->status;
    return yk__fail(err, YK_E_IO, "%s: was written again while it was read: load it again", dir);
}

/* The sum that an entry names, as text of the same kind. NULL if it names none. */
static const char *sum_of(const json_t *entry, const file_sums *sums, char text[24])
{
    snprintf(text, 24, sums->hashes ? "%016" PRIx64 : "%08" PRIx64, sums->hashes ? sums->hash : sums->crc);
    return json_string_value(json_object_get(entry, sums->hashes ? "sum" : "crc32c"));
}

/* sums: check the sum too, not only the size. */
static yk_status check_file(const char *dir, const char *name, const json_t *entry, bool sums, yk_error *err)
{
    json_t *size = json_object_get(entry, "bytes");
    file_sums have = {.hashes = !json_object_get(entry, "crc32c")};
    char *path, text[24];
    const char *expected = sum_of(entry, &have, text);
    if (strchr(name, '/') || !json_is_integer(size) || !expected)
        return yk__fail(err, YK_E_FORMAT, "%s/" STATE ": the entry of file \"%.64s\" is malformed", dir, name);
    path = yk__format("%s/%s", dir, name);
    if (!path)
        return yk__fail_mem(err, strlen(dir), "a path");
    if (!(sums ? sum_file(path, &have, err) : size_file(path, &have.bytes, err))) {
        sum_of(entry, &have, text);
        if (have.bytes != (uint64_t)json_integer_value(size))
            yk__fail(err, YK_E_FORMAT, "%s: %llu bytes, expected %lld: the checkpoint is damaged", path,
                     (unsigned long long)have.bytes, (long long)json_integer_value(size));
        else if (sums && strcmp(text, expected) != 0)
            yk__fail(err, YK_E_FORMAT, "%s: its sum is %s, expected %.32s: the checkpoint is damaged", path, text, expected);
    }
    yk__free(path);
    return err->status;
}

static yk_status check_files(const char *dir, const json_t *state, bool sums, yk_error *err)
{
    const char *name;
    json_t *entry;
    json_object_foreach((json_t *)(uintptr_t)json_object_get(state, "files"), name, entry)
    {
        if (check_file(dir, name, entry, sums, err))
            return err->status;
    }
    return YK_OK;
}

yk_status yk__checkpoint_sizes(const char *dir, const json_t *state, yk_error *err)
{
    return check_files(dir, state, false, err);
}

bool yk__checkpoint_ours(const json_t *state)
{
    const char *format = json_string_value(json_object_get(state, "format"));
    return format && !strcmp(format, "yoke-checkpoint");
}

yk_status yk__checkpoint_state(const char *dir, json_t **state, yk_error *err)
{
    char path[PATH_MAX];
    json_t *j = NULL, *files;
    yk_status s = state_load(dir, &j, err);
    snprintf(path, sizeof path, "%s/" STATE, dir);
    if (!s)
        s = yk__json_object(j, path, "files", &files, err);
    if (s)
        json_decref(j);
    else
        *state = j;
    return s;
}

yk_status yk__checkpoint_read(const char *dir, json_t **state, uint64_t *mark, yk_error *err)
{
    json_t *j = NULL;
    yk_status s = yk__checkpoint_state(dir, &j, err);
    if (!s)
        s = mark_files(dir, j, mark, err);
    if (!s)
        s = check_files(dir, j, true, err);
    if (s)
        json_decref(j);
    else
        *state = j;
    return s;
}
