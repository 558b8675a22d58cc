# SPDX-License-Identifier: Apache-2.0
"""Reads C as far as the house style needs it: which files there are, code and comments apart, functions by their braces.

No preprocessor runs: a function that a macro makes is not seen, and a brace that stands in a macro is not counted.
"""
import collections
import os
import re

KEYWORDS = frozenset("""auto break case char const continue default do double else enum extern float for goto if inline int long
register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while _Alignas _Alignof
_Atomic _Bool _Generic _Noreturn _Static_assert _Thread_local __attribute__ __asm__ __typeof__ __extension__ __restrict
define undef include ifdef ifndef endif elif defined pragma error""".split())
WORD = re.compile(r"[A-Za-z_]\w*")
PIECE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'', re.S)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.M)
MARK = re.compile(r"[{};()]")
EDGE = re.compile(r"^/\*+|\*+/$|^//|^[ \t]*\*(?!/)", re.M)  # marks of a comment
CASE = re.compile(r"START_TEST\s*\(\s*(\w+)\s*\)")

# name; line of the opening brace; lines between the braces; is it static; is it a case of the test library
Function = collections.namedtuple("Function", "name line length static case")


def files(root=".", wanted=(".c", ".h", ".inc", ".kc")):
    """Paths of the tree's own sources, relative to root: no build folders, nothing hidden, nothing configure makes."""
    found = []
    for top, folders, names in os.walk(root):
        folders[:] = sorted(d for d in folders if not d.startswith((".", "build", "_build")) and d != "autom4te.cache")
        for name in sorted(names):
            path = os.path.relpath(os.path.join(top, name), root)
            if path.endswith(tuple(wanted)) and path != "config.h" and "Makefile.in" not in path:
                found.append(path)
    return found


def blank(match):
    """The same number of lines without what stands on them."""
    return "\n" * match.group(0).count("\n") or " "


def parts(text):
    """(code, commented): the text without comments and with empty strings, line by line as before; lines with a comment."""
    commented = set()
    out, at, line = [], 0, 1
    for m in PIECE.finditer(text):
        piece = m.group(0)
        out.append(text[at:m.start()])
        line += text.count("\n", at, m.start())
        more = piece.count("\n")
        if piece[0] == "/":
            commented.update(range(line, line + more + 1))
            out.append("\n" * more or " ")
        else:
            out.append(piece[0] * 2 + "\n" * more)
        line += more
        at = m.end()
    out.append(text[at:])
    return "".join(out), commented


def comments(text):
    """[(line, words)]: each comment's text in one line, without its marks; no licence, no rules between sections."""
    found = []
    for m in PIECE.finditer(text):
        words = " ".join(EDGE.sub("", m.group(0)).split()) if m.group(0)[0] == "/" else ""
        if words and "SPDX-License-Identifier" not in words:
            found.append((text.count("\n", 0, m.start()) + 1, words.strip("- ")))
    return found


def without_directives(code):
    return DIRECTIVE.sub(blank, code)


def functions(code):
    """The functions defined in code (as parts() leaves it), in order."""
    code = without_directives(code)
    depth, level, begin, open_at, found = 0, 0, 0, 0, []
    head = None
    for m in MARK.finditer(code):
        c = m.group(0)
        if c == "(":
            level += 1
        elif c == ")":
            level -= 1
        elif c == "{":
            if depth == 0:
                head = signature(code[begin:m.start()])
                open_at = m.start()
            depth += 1
        elif c == "}":
            depth = max(0, depth - 1)
            if depth == 0:
                if head:
                    line = code.count("\n", 0, open_at) + 1
                    found.append(Function(head[0], line, max(0, code.count("\n", open_at, m.start()) - 1), head[1], head[2]))
                begin = m.end()
        elif depth == 0 and level == 0:
            begin = m.end()
    return found


def bodies(code):
    """What stands in braces: bodies of functions, tables, members; no prototypes, no directives."""
    code, depth, open_at, out = without_directives(code), 0, 0, []
    for m in re.finditer(r"[{}]", code):
        if m.group(0) == "{":
            open_at = open_at if depth else m.end()
            depth += 1
        else:
            depth = max(0, depth - 1)
            if depth == 0:
                out.append(code[open_at:m.start()])
    return "\n".join(out)


def signature(text):
    """(name, static, case) of what is declared before a brace; None where that is no function."""
    text = text.strip()
    case = CASE.search(text)
    if case:
        return case.group(1), True, True
    if not text.endswith(")") or "=" in re.sub(r"\([^()]*\)", "", text):
        return None
    level = 0
    for i in range(len(text) - 1, -1, -1):
        level += {")": 1, "(": -1}.get(text[i], 0)
        if level == 0:
            m = re.search(r"\b([A-Za-z_]\w*)\s*$|\(([A-Za-z_]\w*)\)\s*$", text[:i])  # in brackets: a macro has that name too
            name = m and (m.group(1) or m.group(2))
            if not m or name in KEYWORDS:
                return None
            words = WORD.findall(text[:m.start()])
            return (name, "static" in words, False) if words else None
    return None
