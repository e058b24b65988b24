"""FlexAttention's mods in Python → Lua functions. The mod is called once with
Symbols, which write a line of Lua for each operation (_flex_ops.py); PyTorch
hands them its functions by the __torch_function__ protocol.

A boolean stands as text until it is used, since a Lua local that holds one would
fork the trace; numbers are locals. A row of values (a captured tensor's, or
torch.stack's) is written out element by element, unless facc.dot takes it."""
import functools
import math
import numbers
import re

import torch

from ._flex_ops import FLOATS, KINDS, METHODS, OF_FIRST, OPERATIONS, VECTORS, unsupported

DTYPES = {"b": torch.bool, "i": torch.int32, "f": torch.float32}
SCORE, INDICES = "score", ("b", "h", "q", "kv")
LOCAL = re.compile(r"\bv(\d+)\b")
MOST_LOCALS = 150  # Lua has 200; beyond, a table's fields
MOST_ELEMENTS = 64  # of a row that is written out
OPERANDS = ("condition", "input", "elements", "tensors", "mask", "other", "exponent", "test_elements", "value")


class Trace:
    """One mod's lines, and what it captures."""

    def __init__(self, mod, key, device):
        self.key, self.device, self.variables = key, device, variables_of(mod)
        self.lines, self.tensors, self.params = [], {}, {}
        self.names = {}  # by the id of a captured tensor, which is kept alive

    def symbol(self, kind, text):
        return Symbol(self, kind, text)

    def local(self, kind, text):
        name = f"v{len(self.lines)}"
        self.lines.append(f"  local {name} = {text}")
        return Symbol(self, kind, name)

    def vector(self, items):
        return Vector(self, list(items))

    def captured(self, tensor):
        """The name of a captured tensor."""
        name = self.name_of(tensor)
        self.tensors[name] = tensor.float() if tensor.dtype == torch.float64 else tensor
        return name

    def name_of(self, tensor):
        """Unlike any other of both mods; has the variable's, for messages."""
        variable = self.variables.get(id(tensor), "")
        name = f"{self.key[0]}{len(self.names)}{variable and '_'}{variable[:40]}"
        return self.names.setdefault(id(tensor), (name, tensor))[0]

    def scalar(self, tensor):
        """A captured tensor of rank 0. On another device it is a param, which
        each call reads; an infinity is itself."""
        kind = KINDS.get(tensor.dtype, "i")
        if tensor.device.type == "cpu" and (self.device.type != "cpu" or kind == "f"):
            value = tensor.item()
            if kind == "b" or kind == "f" and not math.isfinite(value):
                return self.value(value)
            name = self.name_of(tensor)
            self.params[name] = float(value) if kind == "f" else value
            return Symbol(self, kind, name)
        return Symbol(self, kind, f"{self.captured(tensor)}()")

    def value(self, x):
        """A Symbol of what a mod computes with."""
        if isinstance(x, Symbol):
            return x
        if isinstance(x, (torch.Tensor, Traced)):
            if x.ndim:
                raise unsupported(f"{self.key} computes with a tensor of rank {x.ndim}, not with its elements")
            return self.scalar(x)
        if isinstance(x, bool):
            return Symbol(self, "b", "true" if x else "false")
        if isinstance(x, numbers.Integral):
            return Symbol(self, "i", f"({x})" if x < 0 else str(x))
        if isinstance(x, numbers.Real):
            x = float(x)
            if math.isnan(x):
                raise unsupported(f"{self.key} has a NaN")
            text = "math.huge" if math.isinf(x) else repr(abs(x))
            return Symbol(self, "f", f"(-{text})" if math.copysign(1, x) < 0 else text)
        raise unsupported(f"{self.key} computes with a {type(x).__name__}")

    def number(self, x):
        x = self.value(x)
        return self.where(x, 1, 0) if x.kind == "b" else x

    def bool(self, x):
        x = self.value(x)
        return x if x.kind == "b" else Symbol(self, "b", f"({x.text} ~= 0)")

    def where(self, c, x, y):
        c, x, y = self.bool(c), self.value(x), self.value(y)
        if x.kind == y.kind == "b":
            return Symbol(self, "b", f"({c.text} and {x.text} or not {c.text} and {y.text})")
        x, y = self.number(x), self.number(y)
        kind = "f" if "f" in (x.kind, y.kind) else "i"
        return self.local(kind, f"facc.where(function() return {c.text} end, {x.text}, {y.text})")

    # ---- elements of captured tensors ----

    def index(self, tensor, indices):
        """tensor[indices], or what is left to index."""
        if isinstance(tensor, Partial):
            free = [n for n, i in enumerate(tensor.indices) if i is None]
            given, tensor = list(tensor.indices), tensor.tensor
        else:
            free, given = list(range(tensor.ndim)), [None] * tensor.ndim
        indices = indices if isinstance(indices, tuple) else (indices,)
        if any(x is Ellipsis for x in indices):
            n = next(n for n, x in enumerate(indices) if x is Ellipsis)
            rest = (slice(None),) * (len(free) - len(indices) + 1)
            indices = indices[:n] + rest + indices[n + 1:]
        if len(indices) > len(free):
            raise unsupported(f"{self.key}: {len(indices)} indices of a tensor that has {len(free)}")
        for n, x in zip(free, indices):
            if isinstance(x, slice) and x == slice(None):
                continue
            if isinstance(x, bool) or not isinstance(x, (numbers.Integral, Symbol, torch.Tensor)):
                raise unsupported(f"{self.key} indexes with a {type(x).__name__}")
            if isinstance(x, numbers.Integral):
                if not -tensor.shape[n] <= x < tensor.shape[n]:
                    raise IndexError(f"{self.key}: index {x} of {tensor.shape[n]}")
                x = int(x) % tensor.shape[n]
            given[n] = self.number(x)
            if given[n].kind == "f":
                raise unsupported(f"{self.key} indexes with a float")
        if any(i is None for i in given):
            return Partial(self, tensor, given)
        kind, name = KINDS.get(tensor.dtype, "i"), self.captured(tensor)
        text = f"{name}({', '.join(i.text for i in given)})"
        return Symbol(self, kind, text) if kind == "b" else self.local(kind, text)

    def slice_of(self, x):
        """The Lua slice that a row of a captured tensor of floats is, or None."""
        tensor, given = (x.tensor, x.indices[:-1]) if isinstance(x, Partial) else (x, [])
        if isinstance(tensor, torch.Tensor) and tensor.dtype in FLOATS and all(i is not None for i in given):
            return f"{self.captured(tensor)}({', '.join(i.text for i in given)})"
        return None

    def elements(self, x):
        """The Symbols of a row."""
        if isinstance(x, Vector):
            return x.items
        if not is_row(x):
            return [self.value(x)]
        if len(x) > MOST_ELEMENTS:
            raise unsupported(f"{self.key} computes with a row of {len(x)} elements; at most {MOST_ELEMENTS} are "
                              "written out")
        return [self.index(x, n) for n in range(len(x))]

    def rows(self, *operands):
        """The elements of each, one element standing for as many as the others
        have."""
        rows = [self.elements(x) for x in operands]
        longest = max(len(row) for row in rows)
        if any(len(row) not in (1, longest) for row in rows):
            lengths = " and ".join(str(len(row)) for row in rows)
            raise unsupported(f"{self.key} computes with rows of {lengths} elements")
        return [row * (longest // len(row)) for row in rows]


def variables_of(mod):
    """{id: name} of what a mod, or a mod in its closure, reads from its closure
    and its module."""
    names, seen, stack = {}, set(), [mod]
    while stack:
        function = stack.pop()
        code = getattr(function, "__code__", None)
        if code is None or id(function) in seen:
            continue
        seen.add(id(function))
        held = {name: function.__globals__[name] for name in code.co_names if name in function.__globals__}
        for name, cell in zip(code.co_freevars, function.__closure__ or ()):
            try:
                held[name] = cell.cell_contents
            except ValueError:  # not assigned yet
                continue
            stack.extend(held[name] if isinstance(held[name], (tuple, list)) else [held[name]])
        names.update((id(x), name) for name, x in held.items() if name.isascii())
    return names


def is_row(x):
    return isinstance(x, (Traced, torch.Tensor)) and x.ndim == 1


def apply(trace, name, args, named=None, table=None):
    """Writes the operation of this name of PyTorch's."""
    named, operation = dict(named or {}), (table or {}).get(name) or VECTORS.get(name) or OPERATIONS.get(name)
    if operation is None:
        raise unsupported(f"{trace.key} calls {name}, which has no translation")
    args = (*args, *(named.pop(n) for n in OPERANDS if n in named))
    operands = args[:1] if name in OF_FIRST else args
    try:
        if name in VECTORS or not any(is_row(x) for x in operands):
            return operation(trace, *args, **named)
        if name in ("mul", "multiply", "rmul") and all(is_row(x) for x in operands):
            return Product(trace, *args)
        rows = trace.rows(*operands)
        return trace.vector(operation(trace, *each, *args[len(operands):], **named) for each in zip(*rows))
    except TypeError as e:
        raise unsupported(f"{trace.key} calls {name} in a way that has no translation ({e})") from None


# ---- what a mod is given, and gets -------------------------------------------

class Traced:
    """What PyTorch's functions may be given: an operation by its name, as a
    function or a method."""

    __array_ufunc__ = None  # NumPy's numbers leave operators to us
    factors = None  # of a Product

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return apply(find_trace(args, kwargs), function.__name__.strip("_"), args, kwargs)

    def __getattr__(self, name):
        plain = name.strip("_")
        if plain not in OPERATIONS and plain not in VECTORS or name.startswith("__") and not name.endswith("__"):
            raise unsupported(f"{self.trace.key} uses '{name}' of {self.what}, which has no translation")
        return lambda *args, **kwargs: apply(self.trace, plain, (self, *args), kwargs, METHODS)

    def size(self, dim=None):
        return self.shape if dim is None else self.shape[dim]

    def dim(self):
        return self.ndim

    def _no_value(self, *_):
        raise unsupported(f"{self.trace.key} asks for the value of a traced scalar: `if`, `and`, `or`, `not`, int(), "
                          "float() and range() of one are not for FlexAttention's mods (use torch.where, &, |, ~)")
    __bool__ = __int__ = __float__ = __index__ = _no_value
    __hash__ = object.__hash__


def find_trace(args, kwargs):
    stack = [args, tuple((kwargs or {}).values())]
    while stack:
        x = stack.pop()
        if isinstance(x, Traced):
            return x.trace
        if isinstance(x, (tuple, list)):
            stack.extend(x)
    raise unsupported("a mod calls a function of PyTorch in a way that has no translation")


class Symbol(Traced):
    """A traced scalar: kind b, i or f, and its Lua text."""

    what, shape, ndim = "a traced value", torch.Size(()), 0

    def __init__(self, trace, kind, text):
        self.trace, self.kind, self.text = trace, kind, text
        self.device, self.dtype = trace.device, DTYPES[kind]

    __len__ = __iter__ = Traced._no_value


class Rows(Traced):
    """What has elements."""

    def __init__(self, trace, dtype, shape):
        self.trace, self.device, self.dtype, self.shape = trace, trace.device, dtype, torch.Size(shape)
        self.ndim = len(self.shape)

    @property
    def what(self):
        return f"a tensor of rank {self.ndim}, not of its elements"

    def __len__(self):
        return self.shape[0]

    def __iter__(self):
        return (self[n] for n in range(len(self)))


class Partial(Rows):
    """A captured tensor of which some indices are there: None is one that is not."""

    def __init__(self, trace, tensor, indices):
        super().__init__(trace, tensor.dtype, (n for n, i in zip(tensor.shape, indices) if i is None))
        self.tensor, self.indices = tensor, indices

    def __getitem__(self, indices):
        return self.trace.index(self, indices)


class Vector(Rows):
    """Symbols in a row."""

    def __init__(self, trace, items):
        super().__init__(trace, items[0].dtype if items else torch.float32, (len(items),))
        self.items = items

    def __getitem__(self, n):
        n, = n if isinstance(n, tuple) else (n,)
        if not isinstance(n, (int, slice)):
            raise unsupported(f"{self.trace.key} indexes a row of traced values with a {type(n).__name__}")
        return self.trace.vector(self.items[n]) if isinstance(n, slice) else self.items[n]


class Product(Vector):
    """Two rows multiplied: their sum is a facc.dot."""

    def __init__(self, trace, *factors):
        Rows.__init__(self, trace, torch.float32, (max(len(x) for x in factors),))
        self.factors = factors

    @property
    def items(self):
        return [OPERATIONS["mul"](self.trace, *pair) for pair in zip(*self.trace.rows(*self.factors))]


def _method(name):
    return lambda self, *args: apply(self.trace, name, (self, *args))


for _name in ("add sub mul truediv floordiv mod pow and or xor lshift rshift matmul radd rsub rmul rtruediv rfloordiv "
              "rmod rpow rand ror rxor rlshift rrshift rmatmul lt le gt ge eq ne neg pos abs invert").split():
    setattr(Traced, f"__{_name}__", _method(_name))


def translate(mod, key, device=torch.device("cpu")):
    """(Lua function, tensors, params) of a Python mod. key: "score_mod" or
    "mask_mod"; device: that of the query."""
    trace = Trace(mod, key, device)
    score = [Symbol(trace, "f", SCORE)] if key == "score_mod" else []
    result = mod(*score, *(Symbol(trace, "i", name) for name in INDICES))
    if isinstance(result, Rows):
        raise unsupported(f"{key} gives a tensor of rank {result.ndim}")
    result = trace.number(result) if key == "score_mod" else trace.bool(result)
    parameters = ", ".join(([SCORE] if score else []) + list(INDICES))
    text = body(*trace.lines, f"  return {result.text}")
    return f"function({parameters})\n{text}\nend", trace.tensors, trace.params


@functools.lru_cache(256)
def body(*lines):
    """Those of the lines that the last one needs."""
    kept, names = [lines[-1]], set(LOCAL.findall(lines[-1]))
    for line in reversed(lines[:-1]):
        name, *operands = LOCAL.findall(line)
        if name in names:
            kept.append(line)
            names.update(operands)
    text = "\n".join(kept[::-1])
    if len(kept) <= MOST_LOCALS:
        return text
    return "  local v = {}\n" + LOCAL.sub(r"v[\1]", text.replace("  local v", "  v"))
