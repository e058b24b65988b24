"""score_mod and mask_mod as they are given: one-line expressions, texts of Lua
functions, Lua chunks and Lua files. Gives the Program that they make together.

Expressions alone are the C library's own. All else becomes one Lua text, in
which every mod's lines stand as they are; messages about that text get each
mod's own name and line back."""
import functools
import os
import re

from . import _abi
from ._core import Program, declaration_of, param_type_of
from ._error import Error

COMMENTS = re.compile(r"(?:\s+|--\[(=*)\[.*?\]\1\]|--[^\n]*(?:\n|$))*", re.S)
FUNCTION = re.compile(r"function\s*\(")
CHUNK = re.compile(r"(?:local|return)\b")
NAME = "facc.mods.text"  # of the composed text, for as long as nobody sees it
PLACE = re.compile(re.escape(NAME) + r":(\d+)")
FIRST = 'local facc = require "facc" local made, make = {}, facc.attention facc.attention = ' \
        "function(t) made[t] = true return t end"


def kind_of(mod):
    """"file", "function", "chunk" or "expression"."""
    return kind_of_text(mod) if isinstance(mod, str) else "file"


@functools.lru_cache(256)
def kind_of_text(mod):
    start = COMMENTS.match(mod).end()
    if FUNCTION.match(mod, start):
        return "function"
    if CHUNK.match(mod, start):
        return "chunk"
    return "file" if mod.endswith(".lua") and "\n" not in mod else "expression"


class Mod:
    """One mod: kind, text, the name that messages call it by."""

    def __init__(self, key, given):
        self.key, self.kind, self.name, self.text = key, kind_of(given), key, given
        if self.kind == "file":
            self.name, self.text = file_text(given, key)

    def is_chunk(self):
        return self.kind in ("file", "chunk")


def file_text(path, what):
    try:
        path = os.fspath(path)
    except TypeError:
        raise Error(_abi.ERR_ARGUMENT, f"{what} must be text or the path of a Lua file, got {path!r}"
                    + (" (facc.flex takes mods in Python)" if callable(path) else "")) from None
    try:
        with open(path, "rb") as f:
            text = f.read().decode(errors="surrogateescape")
    except (OSError, ValueError) as e:
        raise Error(_abi.ERR_IO, f"{os.fsdecode(path)}: {getattr(e, 'strerror', None) or e}") from None
    return os.fsdecode(path), text


def file_key(path):
    """What changes with a file; None if there is none."""
    try:
        state = os.stat(os.fspath(path))
    except (OSError, TypeError, ValueError):
        return None
    return state.st_dev, state.st_ino, state.st_mtime_ns, state.st_size


def mod_key(mod):
    """What changes with a mod, as a key of a dictionary."""
    if mod is None or isinstance(mod, str) and kind_of(mod) != "file":
        return mod
    return file_key(mod) or repr(mod)


def declarations(tensors, params, fixed=False):
    """Of what the caller captures, for expressions and functions. Extents are
    those of each call, which keeps kernels, or with fixed=True those of this."""
    items = []
    for name, x in (tensors or {}).items():
        name, dtype, shape = declaration_of(name, x)
        items.append((name, dtype, shape if fixed else ("any",) * len(shape)))
    return tuple(items + [(name, param_type_of(name, x), None) for name, x in (params or {}).items()])


def load(context, score_mod, mask_mod, tensors, params):
    """The Program of these mods, made once for each context."""
    programs, declared = context._programs, declarations(tensors, params)
    mods = mod_key(score_mod), mod_key(mask_mod)
    program = programs.get((*mods, declared))
    if program is None:
        try:
            program = programs[(*mods, declared)] = make(context, score_mod, mask_mod, declared)
        except Error as e:
            if e.status != _abi.ERR_SCRIPT or not tensors:
                raise
            program = ()
    if program == ():  # a loop over a captured tensor's extent needs its number
        fixed = declarations(tensors, params, fixed=True)
        program = programs.get((*mods, fixed))
        if program is None:
            program = programs[(*mods, fixed)] = make(context, score_mod, mask_mod, fixed)
            programs[(*mods, declared)] = ()
    return program


def make(context, score_mod, mask_mod, declared):
    mods = [Mod(key, given) for key, given in (("score_mod", score_mod), ("mask_mod", mask_mod)) if given is not None]
    if all(m.kind == "expression" for m in mods):
        return Program.from_expressions(score_mod, mask_mod, declared, context=context)
    chunks = [m for m in mods if m.is_chunk()]
    if len(chunks) == len(mods):
        return compose(context, mods, ()).tell()
    taken = set()
    if chunks:  # what they declare themselves
        alone = compose(context, chunks, ())
        taken = {d.name for d in alone.tensors + alone.params}
        alone.close()
    return compose(context, mods, [d for d in declared if d[0] not in taken]).tell()


def quoted(text):
    """A Lua string."""
    return '"' + "".join(c if c.isprintable() and c.isascii() and c not in '"\\' else
                         "".join(f"\\{b:03d}" for b in c.encode(errors="surrogateescape")) for c in text) + '"'


def declaration_text(name, dtype, shape):
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name if isinstance(name, str) else ""):
        raise Error(_abi.ERR_ARGUMENT, f"{name!r} is not a name: use letters, digits and _")
    if shape is None:
        return f"{name} = facc.param({quoted(name)}, {quoted(dtype)})"
    extents = ", ".join(quoted(n) if isinstance(n, str) else str(n) for n in shape)
    return f"{name} = facc.tensor({quoted(name)}, {quoted(dtype)}, {{ {extents} }})"


def compose(context, mods, declared):
    """A program in which each mod's text begins a line of its own."""
    lines, parts, fields = [FIRST], [], []

    def add(mod, before, after):
        lines.append(before)
        first = sum(x.count("\n") + 1 for x in lines) + 1
        parts.append((first, first + mod.text.count("\n"), mod.name))
        lines.extend([mod.text, after])
    for mod in mods:
        if mod.is_chunk():
            add(mod, f"local {mod.key} = (function()", "end)()")
            lines.append(f"if made[{mod.key}] then {mod.key} = {mod.key}.{mod.key} or "
                         f"error({quoted(f'{mod.name} has no {mod.key}')}, 0) end")
    lines.extend(declaration_text(*d) for d in declared)
    for mod in mods:
        if mod.kind == "function":
            add(mod, f"local {mod.key} = (", ")")
        value = quoted(mod.text) if mod.kind == "expression" else mod.key
        fields.append(f"{mod.key} = {value}")
    lines.append(f"return make {{ {', '.join(fields)} }}")
    source = Source(parts, " and ".join(mod.name for mod in mods))
    try:
        return Program.untold("\n".join(lines), NAME, context, source)
    except Error as e:
        raise source.located(e) from None


class Source:
    """Where the lines of a composed text are from: (first, last, name); all
    other lines, expressions among them, are of `names`."""

    def __init__(self, parts, names):
        self.parts, self.names = parts, names

    def place(self, line):
        for first, last, name in self.parts:
            if first <= line <= last:
                return name, line - first + 1
        return self.names, 0

    def renamed(self, text):
        """A message with names and lines of the mods."""
        def name_and_line(match):
            name, line = self.place(int(match[1]))
            return f"{name}:{line}" if line else name
        return PLACE.sub(name_and_line, text)

    def located(self, e):
        """The Error e with names and lines of the mods."""
        if e.file != NAME:
            return e
        message, log = self.renamed(e.message), self.renamed(e.log)
        for old in PLACE.findall(e.message + "\n" + e.log):  # the quoted line's number
            new = self.place(int(old))[1]
            message = re.sub(rf"(?m)^(\s*){old} \|", rf"\g<1>{new} |" if new else r"\g<1>|", message, count=1)
        name, line = self.place(e.line)
        return Error(e.status, message.replace(NAME, name), e.stage, name, line, log.replace(NAME, name))
