/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Just enough of an ELF reader for shared objects of this machine's own class and byte order. It lists the dynamic symbols, their version
 * names and the libraries needed. abi.c reads the plugin under test with it, in the group's child process, without loading it. Every offset
 * is checked against the file's size.
 */
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/mem.h"
#include "tools/cts/cts.h"

#define BIND(info) ((info) >> 4) /* the same in both classes */

typedef struct file {
    uint8_t *data;
    uint64_t bytes;
    const ElfW(Ehdr) * head;
    const ElfW(Shdr) * section;
} file;

static const void *file_part(const file *f, uint64_t offset, uint64_t bytes)
{
    return offset <= f->bytes && bytes <= f->bytes - offset ? f->data + offset : NULL;
}

static yk_status read_all(const char *path, file *f, yk_error *err)
{
    FILE *in = fopen(path, "rbe");
    struct stat st;
    if (!in || fstat(fileno(in), &st)) {
        yk__fail(err, YK_E_IO, "%s: %s", path, strerror(errno));
    } else {
        f->bytes = (uint64_t)st.st_size;
        f->data = yk__malloc(f->bytes);
        if (!f->data)
            yk__fail_mem(err, f->bytes, path);
        else if (fread(f->data, 1, f->bytes, in) != f->bytes)
            yk__fail(err, YK_E_IO, "%s: it cannot be read", path);
    }
    if (in)
        fclose(in);
    return err->status;
}

static yk_status find_sections(const char *path, file *f, yk_error *err)
{
    f->head = file_part(f, 0, sizeof *f->head);
    if (!f->head || memcmp(f->head->e_ident, ELFMAG, SELFMAG) || f->head->e_type != ET_DYN)
        return yk__fail(err, YK_E_FORMAT, "%s: it is not an ELF shared object", path);
    f->section = file_part(f, f->head->e_shoff, (uint64_t)f->head->e_shnum * sizeof *f->section);
    if (!f->section || f->head->e_shentsize != sizeof *f->section)
        return yk__fail(err, YK_E_FORMAT, "%s: its section table is damaged", path);
    return YK_OK;
}

static const ElfW(Shdr) * section_of(const file *f, uint32_t type)
{
    for (uint32_t i = 0; i < f->head->e_shnum; i++)
        if (f->section[i].sh_type == type && file_part(f, f->section[i].sh_offset, f->section[i].sh_size))
            return &f->section[i];
    return NULL;
}

static const char *text_at(const file *f, const ElfW(Shdr) * user, uint64_t offset)
{
    const ElfW(Shdr) * s;
    const char *t;
    if (user->sh_link >= f->head->e_shnum)
        return "?";
    s = &f->section[user->sh_link];
    t = file_part(f, s->sh_offset, s->sh_size);
    if (!t || offset >= s->sh_size || !memchr(t + offset, 0, s->sh_size - offset))
        return "?";
    return t + offset;
}

/* The version that an undefined symbol requires ("GLIBC_2.34"), or "". */
static const char *version_of(const file *f, uint64_t number)
{
    const ElfW(Shdr) *need = section_of(f, SHT_GNU_verneed), *used = section_of(f, SHT_GNU_versym);
    const uint16_t *index = used ? file_part(f, used->sh_offset + 2 * number, 2) : NULL;
    uint64_t at = need ? need->sh_offset : 0;
    for (uint32_t i = 0; need && index && i < need->sh_info; i++) {
        const ElfW(Verneed) *n = file_part(f, at, sizeof *n);
        uint64_t aux = n ? at + n->vn_aux : 0;
        for (uint32_t k = 0; n && k < n->vn_cnt; k++) {
            const ElfW(Vernaux) *a = file_part(f, aux, sizeof *a);
            if (!a)
                return "";
            if (a->vna_other == (*index & 0x7fff))
                return text_at(f, need, a->vna_name);
            aux += a->vna_next;
        }
        if (!n)
            return "";
        at += n->vn_next;
    }
    return "";
}

static void symbols_list(const file *f, void *arg, void (*symbol)(void *arg, const char *name, bool defined, const char *version))
{
    const ElfW(Shdr) *s = section_of(f, SHT_DYNSYM);
    for (uint64_t i = 1; s && i < s->sh_size / sizeof(ElfW(Sym)); i++) {
        const ElfW(Sym) *y = (const ElfW(Sym) *)(f->data + s->sh_offset) + i;
        bool weak = BIND(y->st_info) == STB_WEAK, defined = y->st_shndx != SHN_UNDEF;
        if (BIND(y->st_info) == STB_LOCAL || (weak && !defined) || y->st_shndx == SHN_ABS)
            continue;
        symbol(arg, text_at(f, s, y->st_name), defined, defined ? "" : version_of(f, i));
    }
}

static void needed_list(const file *f, void *arg, void (*needed)(void *arg, const char *library))
{
    const ElfW(Shdr) *s = section_of(f, SHT_DYNAMIC);
    for (uint64_t i = 0; s && i < s->sh_size / sizeof(ElfW(Dyn)); i++) {
        const ElfW(Dyn) *d = (const ElfW(Dyn) *)(f->data + s->sh_offset) + i;
        if (d->d_tag == DT_NEEDED)
            needed(arg, text_at(f, s, d->d_un.d_val));
    }
}

yk_status cts_elf_read(const char *path, void *arg, void (*symbol)(void *arg, const char *name, bool defined, const char *version),
                       void (*needed)(void *arg, const char *library), yk_error *err)
{
    file f = {NULL, 0, NULL, NULL};
    if (!read_all(path, &f, err) && !find_sections(path, &f, err)) {
        symbols_list(&f, arg, symbol);
        needed_list(&f, arg, needed);
    }
    yk__free(f.data);
    return err->status;
}
