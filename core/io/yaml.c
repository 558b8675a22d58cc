/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads YAML of settings into a tree (tree.c), by libyaml's events; the reader of settings files calls it, in the main thread. libyaml
 * takes some texts that YAML 1.2 forbids, and reads a few as something else (yaml-test-suite). Each has a form that a file of settings does
 * without; this reader refuses it.
 */
#include "config.h"

#include "core/io/tree.h"

#include <string.h>

#include "core/base/mem.h"

#ifdef HAVE_YAML
#include <yaml.h>

typedef struct yaml_read {
    const char *name, *text;
    size_t bytes;
    const char *found; /* the byte of the last mark that was searched for */
    size_t index;      /* and its number among the characters */
    yaml_parser_t parser;
    yaml_event_t event; /* the last one taken */
    int depth;
    yk_error *err;
} yaml_read;

static yk_status refuse_at(yaml_read *r, size_t line, const char *what)
{
    return yk__fail(r->err, YK_E_FORMAT, "%s, line %zu: %s", r->name, line + 1, what);
}

static bool text_begins(const char *text, size_t n, const char *with)
{
    return n >= strlen(with) && !memcmp(text, with, strlen(with));
}

/* A line break of Unicode that YAML 1.2 does not count as one. */
static bool is_break(const char *text, size_t n)
{
    return text_begins(text, n, "\xc2\x85") || text_begins(text, n, "\xe2\x80\xa8") || text_begins(text, n, "\xe2\x80\xa9");
}

/* The fault of a line of n bytes that libyaml reads otherwise than YAML 1.2, or takes although it is no YAML; NULL if none. */
static const char *find_fault(const char *line, size_t n)
{
    size_t blanks = 0;
    while (blanks < n && (line[blanks] == ' ' || line[blanks] == '\t'))
        blanks++;
    if (memchr(line, 0, n))
        return "a NUL byte";
    if (blanks < n && memchr(line, '\t', blanks))
        return "a tab as indentation: use blanks";
    if (n && line[0] == '%')
        return "a directive (%): a file of settings has none";
    for (size_t i = 0; i < n; i++)
        if (line[i] == '\r')
            return "a carriage return without a line feed: end lines by one of LF and CR LF";
        else if (is_break(line + i, n - i))
            return "a line break other than \\n";
    return NULL;
}

static yk_status check_lines(yaml_read *r)
{
    size_t line = 0;
    for (const char *at = r->text, *end = at + r->bytes; at < end; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        const size_t n = (size_t)((stop ? stop : end) - at);
        const char *fault = find_fault(at, n - (stop && n && at[n - 1] == '\r'));
        if (fault)
            return refuse_at(r, line, fault);
        at += n + 1;
    }
    return YK_OK;
}

/* The byte at a mark, which counts characters. Marks come mostly in order, so the search continues from the last one. */
static const char *mark_find(yaml_read *r, yaml_mark_t mark)
{
    const char *end = r->text + r->bytes;
    if (mark.index < r->index) {
        r->found = r->text;
        r->index = 0;
    }
    for (; r->index < mark.index && r->found < end; r->index++)
        for (r->found++; r->found < end && ((unsigned char)*r->found & 0xc0) == 0x80; r->found++)
            ;
    return r->found;
}

static const char *why_not_parsed(const yaml_parser_t *p)
{
    return p->problem && *p->problem ? p->problem : "not YAML";
}

static yk_status event_next(yaml_read *r)
{
    yaml_event_delete(&r->event);
    if (yaml_parser_parse(&r->parser, &r->event))
        return YK_OK;
    memset(&r->event, 0, sizeof r->event);
    if (r->parser.error == YAML_MEMORY_ERROR)
        return yk__fail_mem(r->err, 0, "a file of settings");
    if (r->parser.error == YAML_READER_ERROR)
        return yk__fail(r->err, YK_E_FORMAT, "%s, byte %zu: not YAML: %s", r->name, r->parser.problem_offset, why_not_parsed(&r->parser));
    return yk__fail(r->err, YK_E_FORMAT, "%s, line %zu: not YAML: %s%s%s", r->name, r->parser.problem_mark.line + 1,
                    why_not_parsed(&r->parser), r->parser.context ? " " : "", r->parser.context ? r->parser.context : "");
}

/* The fault in a scalar's form; NULL if accepted. */
static const char *scalar_fault(const yaml_event_t *e)
{
    const yaml_scalar_style_t style = e->data.scalar.style;
    const char *text = (const char *)e->data.scalar.value;
    if (style == YAML_LITERAL_SCALAR_STYLE || style == YAML_FOLDED_SCALAR_STYLE)
        return "a block of text (| or >): a setting has one line";
    if (e->start_mark.line != e->end_mark.line)
        return "a text over several lines: a setting has one line";
    if (strlen(text) != e->data.scalar.length)
        return "a NUL in a text";
    if (style == YAML_PLAIN_SCALAR_STYLE && (text[0] == '?' || !strcmp(text, "-")))
        return "a text that begins with ? or is a dash alone: put it in quotes";
    return NULL;
}

/* The fault of an event that no setting needs; NULL if none. */
static const char *event_fault(yaml_read *r)
{
    const yaml_event_t *e = &r->event;
    const char *anchor = NULL, *tag = NULL, *end;
    switch (e->type) {
    case YAML_ALIAS_EVENT: return "an alias (*): a file of settings has none: write the value again";
    case YAML_SCALAR_EVENT:
        anchor = (const char *)e->data.scalar.anchor, tag = (const char *)e->data.scalar.tag;
        break;
    case YAML_SEQUENCE_START_EVENT:
        anchor = (const char *)e->data.sequence_start.anchor, tag = (const char *)e->data.sequence_start.tag;
        break;
    case YAML_MAPPING_START_EVENT:
        anchor = (const char *)e->data.mapping_start.anchor, tag = (const char *)e->data.mapping_start.tag;
        break;
    default: break;
    }
    if (anchor)
        return "an anchor (&): a file of settings has none: write the value again";
    if (tag)
        return "a tag (!): a file of settings has none, and nothing is made of one";
    end = mark_find(r, e->end_mark);
    if (end > r->text && strchr("'\"]}", end[-1]) && end < r->text + r->bytes && *end == '#')
        return "a # right behind a value: a comment has a blank before it";
    return e->type == YAML_SCALAR_EVENT ? scalar_fault(e) : NULL;
}

static yk__tree *read_node(yaml_read *r, uint32_t line, const char *key);

/* True if a ? stands before the key; libyaml takes it for an indicator even if a character follows it. */
static bool has_question(yaml_read *r)
{
    const char *at = mark_find(r, r->event.start_mark);
    while (at > r->text && (at[-1] == ' ' || at[-1] == '\t'))
        at--;
    return at > r->text && at[-1] == '?';
}

/* A copy of the key in the last event; yk__free it. NULL after an error, with err set. */
static char *read_key(yaml_read *r, const yk__tree *map)
{
    const size_t line = r->event.start_mark.line;
    const char *fault = has_question(r) ? "a ? before a key: put the key in quotes" : event_fault(r);
    const char *text = (const char *)r->event.data.scalar.value;
    char *key;
    if (r->event.type != YAML_SCALAR_EVENT || fault || !*text) {
        refuse_at(r, line, fault ? fault : r->event.type == YAML_SCALAR_EVENT ? "a key is empty" : "a key is a map or a list");
        return NULL;
    }
    if (yk__tree_get(map, text)) {
        yk__fail(r->err, YK_E_FORMAT, "%s, line %zu: key '%.80s' stands twice (line %u has it too): leave one", r->name, line + 1, text,
                 yk__tree_get(map, text)->line);
        return NULL;
    }
    key = yk__strdup(text);
    if (!key)
        yk__fail_mem(r->err, strlen(text), "a key of settings");
    return key;
}

static void read_members(yaml_read *r, yk__tree *node)
{
    const bool map = node->kind == YK__TREE_MAP, flow = map ? r->event.data.mapping_start.style == YAML_FLOW_MAPPING_STYLE
                                                            : r->event.data.sequence_start.style == YAML_FLOW_SEQUENCE_STYLE;
    const yaml_event_type_t end = map ? YAML_MAPPING_END_EVENT : YAML_SEQUENCE_END_EVENT;
    const size_t begin = r->event.start_mark.line;
    yk__tree **last = &node->child;
    while (!event_next(r) && r->event.type != end) {
        const uint32_t line = (uint32_t)r->event.start_mark.line + 1;
        char *key = map ? read_key(r, node) : NULL;
        if (r->err->status || (map && event_next(r)) || !(*last = read_node(r, line, key))) {
            yk__free(key);
            return;
        }
        last = &(*last)->next;
        yk__free(key);
    }
    if (!r->err->status && flow && r->event.end_mark.line != begin)
        refuse_at(r, begin, "a list or map in brackets goes over several lines: write it into one, or as lines of its own");
    else if (!r->err->status && flow && event_fault(r))
        refuse_at(r, begin, event_fault(r));
}

/* The value that the last event begins. */
static yk__tree *read_node(yaml_read *r, uint32_t line, const char *key)
{
    const yaml_event_t *e = &r->event;
    const char *fault = event_fault(r);
    yk__tree *node;
    if (fault) {
        refuse_at(r, e->start_mark.line, fault);
        return NULL;
    }
    if (e->type == YAML_SCALAR_EVENT) {
        const bool plain = e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
        const char *text = (const char *)e->data.scalar.value;
        const bool nothing = plain && (!*text || !strcmp(text, "~") || !strcmp(text, "Null") || !strcmp(text, "NULL"));
        node = yk__tree_new(YK__TREE_TEXT, line, key, nothing ? "null" : text, r->err);
        if (node)
            node->quoted = !plain;
        return node;
    }
    if (++r->depth > YK__TREE_DEPTH) {
        yk__fail(r->err, YK_E_FORMAT, "%s, line %u: more than %d levels of maps and lists", r->name, line, YK__TREE_DEPTH);
        return NULL;
    }
    node = yk__tree_new(e->type == YAML_MAPPING_START_EVENT ? YK__TREE_MAP : YK__TREE_LIST, line, key, NULL, r->err);
    if (node)
        read_members(r, node);
    r->depth--;
    return node;
}

/* Reads one document; an empty text is an empty map. */
static yk__tree *read_document(yaml_read *r)
{
    yk__tree *tree = NULL;
    if (event_next(r) || event_next(r)) /* the stream's beginning, and the document's */
        return NULL;
    if (r->event.type == YAML_STREAM_END_EVENT)
        return yk__tree_new(YK__TREE_MAP, 1, NULL, NULL, r->err);
    if (!event_next(r))
        tree = read_node(r, (uint32_t)r->event.start_mark.line + 1, NULL);
    if (!r->err->status && !event_next(r) && !event_next(r) && r->event.type != YAML_STREAM_END_EVENT)
        refuse_at(r, r->event.start_mark.line, "a second document: a file of settings has one");
    return tree;
}

yk_status yk__tree_yaml(const char *name, const char *text, size_t bytes, yk__tree **out, yk_error *err)
{
    yaml_read r = {.name = name, .text = text, .bytes = bytes, .found = text, .err = err};
    *out = NULL;
    if (check_lines(&r))
        return err->status;
    if (!yaml_parser_initialize(&r.parser))
        return yk__fail_mem(err, 0, "a file of settings");
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, bytes);
    *out = read_document(&r);
    yaml_event_delete(&r.event);
    yaml_parser_delete(&r.parser);
    if (err->status) {
        yk__tree_free(*out);
        *out = NULL;
    }
    return err->status;
}

#else

yk_status yk__tree_yaml(const char *name, const char *text, size_t bytes, yk__tree **out, yk_error *err)
{
    (void)text;
    (void)bytes;
    *out = NULL;
    return yk__fail(err, YK_E_UNSUPPORTED, "%s: YAML is not read by this build, which had no libyaml (Debian: libyaml-dev): JSON is", name);
}

#endif
