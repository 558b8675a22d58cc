/* SPDX-License-Identifier: Apache-2.0 */
/* Every reader of outside files on arbitrary bytes; the first byte of the input says which. */
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "core/read/cifar.h"
#include "core/read/csv.h"
#include "core/read/idx.h"
#include "core/read/jsonl.h"
#include "core/read/rows.h"
#include "core/read/shards.h"
#include "core/data/spec.h"
#include "core/io/text.h"
#include "core/text/tokenizer.h"
#include "core/io/checkpoint.h"
#include "core/io/labels.h"
#include "core/io/safetensors.h"
#include "core/io/tree.h"
#include "tests/fuzz/mutate.h"

static yk_error err;
static long accepted; /* inputs that were good */

static void file_drain(yk__file *f)
{
    char buf[4096];
    size_t got = 1;
    uint64_t total = 0;
    while (got && total < 1 << 24 && !yk__file_read(f, buf, sizeof buf, &got, &err))
        total += got;
    accepted += !got;
}

static void read_idx(yk__file *f)
{
    yk__idx *x;
    if (!yk__idx_read(f, &x, &err)) {
        yk__idx_close(x);
        accepted++;
    }
}

static void read_cifar(yk__file *f)
{
    yk__cifar cifar;
    if (!yk__cifar_read(f, UINT64_MAX, &cifar, &err)) {
        yk__cifar_free(&cifar);
        accepted++;
    }
}

static void read_csv(yk__file *f)
{
    yk__csv *c;
    int more = 1;
    if (yk__csv_read(f, NULL, &c, &err))
        return;
    while (more && !yk__csv_next(c, &more, &err) && more)
        for (int i = 0; i < yk__csv_columns(c); i++)
            if (strlen(yk__csv_field(c, i, NULL)) > 1 << 28)
                abort();
    yk__csv_close(c);
    accepted += !more;
}

static void rows_of(yk__file *f, int json)
{
    yk__rows_options o = {.json = json};
    yk__rows *r;
    if (!yk__rows_read(f, &o, &r, &err)) {
        yk__rows_close(r);
        accepted++;
    }
}

static void read_csv_rows(yk__file *f)
{
    rows_of(f, 0);
}

static void read_jsonl(yk__file *f)
{
    rows_of(f, 1);
}

static void read_json(yk__file *f)
{
    json_t *v;
    if (!yk__json_read(f, YK__JSON_ANY, &v, &err)) {
        json_decref(v);
        accepted++;
    }
}

static void read_tokens(yk__file *f)
{
    yk__tokens t;
    int32_t ids[7];
    bool good = true;
    if (yk__tokens_read(f, 0, &t, &err))
        return;
    for (int64_t i = 0; i < t.count && good; i += 7)
        good = !yk__tokens_get(&t, i, t.count - i < 7 ? t.count - i : 7, ids, &err);
    if (good == !!yk__tokens_check(&t, &err)) /* both look at every id */
        abort();
    accepted += good;
    yk__tokens_close(&t);
}

/* Text through the tokenizer of its own characters, which must give one id for each. */
static void read_text(yk__file *f)
{
    char *s;
    size_t n;
    yk__tokenizer *t;
    yk__encoder *e;
    yk__ids ids = {0};
    if (yk__text_read(f, 0, &s, &n, &err))
        return;
    if (!yk__tokenizer_chars("text", s, n, &t, &err)) {
        if (!yk__encoder_new(t, &e, &err)) {
            if (yk__encoder_encode(e, s, n, NULL, 0, 1, 0, &ids, &err) || ids.count > n)
                abort();
            yk__encoder_free(e);
            accepted++;
        }
        yk__tokenizer_close(t);
    }
    yk__ids_free(&ids);
    yk__free(s);
}

static void read_safetensors(const uint8_t *data, size_t size)
{
    yk__safetensors *st;
    const void *p;
    if (yk__safetensors_from_memory("fuzz", data, size, &st, &err))
        return;
    for (int64_t i = 0; i < yk__safetensors_count(st); i++)
        if (yk__safetensors_data(st, yk__safetensors_at(st, i), &p, &err))
            abort();
    yk__safetensors_close(st);
    accepted++;
}

static void read_spec(const uint8_t *data, size_t size)
{
    char *s = yk__strndup((const char *)data, size);
    yk__spec x;
    if (s && !yk__spec_parse(s, &x, &err)) {
        yk__spec_free(&x);
        accepted++;
    }
    yk__free(s);
}

/* A tokenizer.json, then a sentence through it. */
static void tokenizer_try(const char *path)
{
    static const char words[] = "Hello w\xc3\xb6rld, [MASK] <new> \xe4\xb8\xad\xe6\x96\x87 <|endoftext|> a  b";
    yk__tokenizer *t;
    yk__encoder *e;
    yk__ids ids = {0};
    if (yk__tokenizer_open(path, -1, &t, &err))
        return;
    if (!yk__encoder_new(t, &e, &err)) {
        if (!yk__encoder_encode(e, words, sizeof words - 1, words, 5, 1, 9, &ids, &err) && ids.count > 9)
            abort();
        yk__encoder_free(e);
        accepted++;
    }
    yk__tokenizer_close(t);
    yk__ids_free(&ids);
}

static void read_tokenizer(const uint8_t *data, size_t size)
{
    char path[64];
    FILE *f;
    snprintf(path, sizeof path, "/tmp/yoke-fuzz-%ld.json", (long)getpid());
    f = fopen(path, "wb");
    if (!f)
        return;
    fwrite(data, 1, size, f);
    fclose(f);
    tokenizer_try(path);
    unlink(path);
}

/* The bytes as a file that lies with a vocabulary. */
static void read_with_vocabulary(const char *name, const uint8_t *data, size_t size)
{
    static const char vocabulary[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhello\na\n##b\n";
    char dir[64], path[2][128];
    const char *const names[] = {"vocab.txt", name};
    snprintf(dir, sizeof dir, "/tmp/yoke-fuzz-vocab-%ld", (long)getpid());
    mkdir(dir, 0700);
    for (int i = 0; i < 2; i++) {
        snprintf(path[i], sizeof path[i], "%s/%s", dir, names[i]);
        FILE *f = fopen(path[i], "wb");
        if (!f)
            return;
        fwrite(i ? (const char *)data : vocabulary, 1, i ? size : sizeof vocabulary - 1, f);
        fclose(f);
    }
    tokenizer_try(dir);
    unlink(path[0]);
    unlink(path[1]);
    rmdir(dir);
}

static void read_tokenizer_config(const uint8_t *data, size_t size)
{
    read_with_vocabulary("tokenizer_config.json", data, size);
}

static void read_tokens_map(const uint8_t *data, size_t size)
{
    read_with_vocabulary("special_tokens_map.json", data, size);
}

static void read_added_tokens(const uint8_t *data, size_t size)
{
    read_with_vocabulary("added_tokens.json", data, size);
}

/* The bytes as a file of a folder of this process; its path in out. */
static bool file_of(const char *name, const uint8_t *data, size_t size, char dir[64], char out[128])
{
    snprintf(dir, 64, "/tmp/yoke-fuzz-%ld", (long)getpid());
    mkdir(dir, 0700);
    snprintf(out, 128, "%s/%s", dir, name);
    FILE *f = fopen(out, "wb");
    if (!f)
        return false;
    fwrite(data, 1, size, f);
    fclose(f);
    return true;
}

/* The index of a sharded model; its one shard is an empty model. */
static void read_shards(const uint8_t *data, size_t size)
{
    static const uint8_t part[] = "\x38\0\0\0\0\0\0\0{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}   1";
    char dir[64], path[128], shard[128];
    yk__safetensors *st;
    const void *p;
    if (!file_of("s", part, sizeof part - 1, dir, shard) || !file_of("m.index.json", data, size, dir, path))
        return;
    if (!yk__safetensors_open(path, &st, &err)) {
        for (int64_t i = 0; i < yk__safetensors_count(st); i++)
            if (yk__safetensors_data(st, yk__safetensors_at(st, i), &p, &err))
                abort();
        yk__safetensors_close(st);
        accepted++;
    }
    unlink(path);
    unlink(shard);
    rmdir(dir);
}

static void read_checkpoint(const uint8_t *data, size_t size)
{
    char dir[64], path[128], file[128];
    json_t *state;
    uint64_t mark;
    if (!file_of("x", (const uint8_t *)"ab", 2, dir, file) || !file_of("trainer_state.json", data, size, dir, path))
        return;
    if (!yk__checkpoint_read(dir, &state, &mark, &err)) {
        json_decref(state);
        accepted++;
    }
    unlink(path);
    unlink(file);
    rmdir(dir);
}

static void read_labels(yk__file *f)
{
    json_t *v, *map;
    yk__labels l;
    if (yk__json_read(f, YK__JSON_UNIQUE_KEYS, &v, &err))
        return;
    if (!yk__labels_of(v, "fuzz", &l, &err)) {
        for (int by_name = 0; by_name < 2; by_name++)
            if ((map = yk__labels_map(&l, by_name)))
                json_decref(map);
        accepted += l.count > 0;
        yk__labels_free(&l);
    }
    json_decref(v);
}

static void (*const of_file[])(yk__file *f) = {file_drain, read_idx,  read_cifar,  read_csv,  read_csv_rows,
                                               read_jsonl, read_json, read_tokens, read_text, read_labels};
#define NFILE ((int)(sizeof of_file / sizeof of_file[0]))

/* A folder of two token files: the input, and one of three ids, which are read through the border. */
static void read_token_shards(const uint8_t *data, size_t size)
{
    char dir[64], path[128], second[128];
    int32_t ids[5];
    yk__shards shards;
    bool good = true;
    if (!file_of("b.bin", (const uint8_t *)"\1\0\2\0\3", 6, dir, second) || !file_of("a.bin", data, size, dir, path))
        return;
    if (!yk__shards_open(dir, 0, 0, &shards, &err)) {
        const int64_t count = shards.start[shards.count];
        for (int64_t i = 0; i < count && good; i += 5)
            good = !yk__shards_get(&shards, i, count - i < 5 ? count - i : 5, ids, &err);
        if (!good || ids[(count - 1) % 5] != 3) /* so few are all checked at opening */
            abort();
        yk__shards_close(&shards);
        accepted++;
    }
    unlink(path);
    unlink(second);
    rmdir(dir);
}

static void read_tree_json(const uint8_t *data, size_t size)
{
    yk__tree *tree;
    accepted += !yk__tree_json("fuzz", (const char *)data, size, &tree, &err);
    yk__tree_free(tree);
}

/* Without libyaml all are refused, which is good enough for what is not there. */
static void read_tree_yaml(const uint8_t *data, size_t size)
{
    yk__tree *tree;
    const yk_status s = yk__tree_yaml("fuzz", (const char *)data, size, &tree, &err);
    accepted += !s || s == YK_E_UNSUPPORTED;
    yk__tree_free(tree);
}

static void (*const of_bytes[])(const uint8_t *data, size_t size) = {read_safetensors, read_spec,       read_tokenizer,
                                                                     read_shards,      read_checkpoint, read_token_shards,
                                                                     read_tokenizer_config, read_tokens_map, read_added_tokens,
                                                                     read_tree_json, read_tree_yaml};
#define NBYTES ((int)(sizeof of_bytes / sizeof of_bytes[0]))

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int k = size ? data[0] % (NFILE + NBYTES) : 0;
    yk__file *f;
    if (!size)
        return 0;
    err = (yk_error)YK_ERROR_INIT;
    data++;
    size--;
    if (k >= NFILE)
        of_bytes[k - NFILE](data, size);
    else if (!yk__file_from_memory("fuzz", data, size, k ? YK__FILE_AUTO : YK__FILE_GZIP, &f, &err)) {
        of_file[k](f);
        yk__file_close(f);
    }
    return 0;
}

#ifndef YK_LIBFUZZER
#define SEED(s)          \
    {                    \
        s, sizeof(s) - 1 \
    }
static const uint8_t cifar_record[3073] = {3};
static const char bpe[] =
    "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"H\":3,\"e\":4,\"He\":5,\"l\":6,\"\\u0120\":7},"
    "\"merges\":[\"a b\",[\"H\",\"e\"]]},\"added_tokens\":[{\"id\":8,\"content\":\"[MASK]\",\"lstrip\":true,\"rstrip\":"
    "true}],\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true}}";
static const char wordpiece[] =
    "{\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"u\",\"vocab\":{\"u\":0,\"he\":1,\"##llo\":2,\"[C]\":3}},"
    "\"normalizer\":{\"type\":\"BertNormalizer\",\"lowercase\":true},\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},"
    "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"[C]\",\"type_id\":0}},"
    "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],\"pair\":[{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},"
    "{\"Sequence\":{\"id\":\"B\",\"type_id\":1}}]}}";
static const char state[] = "{\"format\":\"yoke-checkpoint\",\"files\":{\"x\":{\"bytes\":2,\"sum\":\"68b29b176de456e7\"}}}";
static const struct {
    int reader, rounds;
    fuzz_seed seed;
} seeds[] = {
    {0, 4000,
     SEED("\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xcb\x48\xcd\xc9\xc9\x07\x00\x86\xa6\x10\x36\x05\x00\x00\x00")},
    {1, 4000, SEED("\0\0\x0d\2\0\0\0\2\0\0\0\1\x3f\x80\0\0\x40\0\0\0")},
    {2, 200, {cifar_record, sizeof cifar_record}},
    {3, 4000,
     SEED("\xef\xbb\xbf"
          "a,\"b\"\"c\",d\r\n1,\"2\r\n3\",\n\n4,5,6")},
    {4, 4000, SEED("text,label\n\"a\nb\",dog\nz,ape\n")},
    {4, 2000, SEED("label;text\n1;abc\n0;x\n")},
    {5, 4000, SEED("{\"text\":\"a\",\"label\":3}\n{\"label\":0,\"text\":\"b\"}\n")},
    {5, 2000, SEED("[{\"text\":\"a\",\"label\":\"x\"},{\"text\":\"b\",\"label\":\"y\"}]")},
    {6, 4000, SEED("{\"a\\u0000\":[1,-2.5e3,\"\\ud834\\udd1e\",{\"b\":null,\"c\":[true,false]}]}")},
    {7, 4000, SEED("YKTOKENS\1\0\0\0\2\0\0\0\3\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0\1\0\2\0\3\0")},
    {8, 4000, SEED("caf\xc3\xa9 \xe4\xb8\xad\xf0\x9f\x9a\x80\n\tend")},
    {NFILE, 6000,
     SEED("\x84\0\0\0\0\0\0\0{\"__metadata__\":{\"a\":\"b\"},\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":"
          "[0,8]},\"y\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[8,9]}}  123456789")},
    {NFILE + 1, 4000, SEED("csv:/a/b.csv,text=t,label=l,max-length=128")},
    {NFILE + 2, 1500, SEED(bpe)},
    {NFILE + 2, 1500, SEED(wordpiece)},
    {9, 4000, SEED("{\"id2label\":{\"0\":\"no\",\"1\":\"y\\u00e9s\"},\"label2id\":{\"no\":0}}")},
    {NFILE + 3, 600, SEED("{\"metadata\":{\"total_size\":1},\"weight_map\":{\"a\":\"s\"}}")},
    {NFILE + 4, 600, SEED(state)},
    {NFILE + 6, 1500, SEED("{\"tokenizer_class\":\"BertTokenizer\",\"do_lower_case\":false,\"mask_token\":\"[MASK]\","
                           "\"added_tokens_decoder\":{\"8\":{\"content\":\"<new>\",\"normalized\":true,\"lstrip\":true}},"
                           "\"truncation_side\":\"left\"}")},
    {NFILE + 7, 1000, SEED("{\"cls_token\":\"a\",\"additional_special_tokens\":[\"<new>\",{\"content\":\"x\",\"single_word\":true}]}")},
    {NFILE + 8, 1000, SEED("{\"<new>\":8,\"[x]\":9}")},
    {NFILE + 9, 3000, SEED("{\"fp16\":{\"enabled\":\"auto\",\"loss_scale\":0},\n\"betas\":[0.9,9.5e-1],\"a\\u00e9\":null}")},
    {NFILE + 10, 3000, SEED("# c\na:\n  b: 1 # d\n  'c': \"x\\n\"\n  e:\n  - {f: [g, h], i: null}\n  - j\n")},
    {NFILE + 5, 2000, SEED("YKTOKENS\1\0\0\0\2\0\0\0\3\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0\1\0\2\0\3\0")},
};

int main(void)
{
    int n = (int)(sizeof seeds / sizeof seeds[0]), ok;
    printf("1..%d\n", n);
    for (int i = 0; i < n; i++) {
        accepted = 0;
        fuzz_run(&seeds[i].seed, seeds[i].reader, 0);
        ok = accepted > 0; /* else the mutations would only try the first check of the reader */
        fuzz_run(&seeds[i].seed, seeds[i].reader, seeds[i].rounds);
        printf("%sok %d - reader %d: the seed is good, %d inputs, %ld accepted\n", ok ? "" : "not ", i + 1,
               seeds[i].reader, seeds[i].rounds + 1, accepted);
        if (!ok)
            printf("# %s\n", err.text);
        fflush(stdout);
    }
    return 0;
}
#endif
