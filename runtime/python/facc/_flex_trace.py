"""FlexAttention's mods in Python → Lua functions. The mod is called once with
Symbols, which write a line of Lua for each operation; PyTorch hands them its
functions by the __torch_function__ protocol.

A boolean stands as text until it is used, since a Lua local that holds one would
fork the trace; numbers are locals."""
import math
import re

import torch

from . import _abi
from ._error import Error

SCORE, INDICES = "score", ("b", "h", "q", "kv")
FLOATS = {torch.float16, torch.bfloat16, torch.float32, torch.float64}
MOST_LOCALS = 150  # Lua has 200; beyond, a table's fields
KINDS = {torch.bool: "b", **dict.fromkeys(FLOATS, "f")}


def unsupported(what):
    return Error(_abi.ERR_UNSUPPORTED, f"{what}; write this mod in Lua (facc.attention)")


class Trace:
    """One mod's lines, and what it captures."""

    def __init__(self, key, device):
        self.key, self.device = key, device
        self.lines, self.tensors, self.params = [], {}, {}
        self.names = {}  # by the id of a captured tensor, which is kept alive

    def local(self, kind, text):
        name = f"v{len(self.lines)}"
        self.lines.append(f"  local {name} = {text}")
        return Symbol(self, kind, name)

    def captured(self, tensor):
        """The name of a captured tensor."""
        name = self.name_of(tensor)
        self.tensors[name] = tensor
        return name

    def name_of(self, tensor):
        return self.names.setdefault(id(tensor), (f"{self.key[0]}{len(self.names)}", tensor))[0]

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
        if isinstance(x, torch.Tensor):
            if x.ndim:
                raise unsupported(f"{self.key} computes with a tensor of rank {x.ndim}, not with its elements")
            return self.scalar(x)
        if isinstance(x, bool):
            return Symbol(self, "b", "true" if x else "false")
        if isinstance(x, int):
            return Symbol(self, "i", f"({x})" if x < 0 else str(x))
        if isinstance(x, float):
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

    def index(self, tensor, indices):
        """tensor[indices], or what is left to index."""
        if isinstance(tensor, Partial):
            free = [n for n, i in enumerate(tensor.indices) if i is None]
            given, tensor = list(tensor.indices), tensor.tensor
        else:
            free, given = list(range(tensor.ndim)), [None] * tensor.ndim
        indices = indices if isinstance(indices, tuple) else (indices,)
        if len(indices) > len(free):
            raise unsupported(f"{self.key}: {len(indices)} indices of a tensor that has {len(free)}")
        for n, x in zip(free, indices):
            if isinstance(x, slice) and x == slice(None):
                continue
            if isinstance(x, bool) or not isinstance(x, (int, Symbol, torch.Tensor)):
                raise unsupported(f"{self.key} indexes with a {type(x).__name__}")
            if isinstance(x, int) and x < 0:
                x += tensor.shape[n]
            given[n] = self.number(x)
            if given[n].kind == "f":
                raise unsupported(f"{self.key} indexes with a float")
        if any(i is None for i in given):
            return Partial(self, tensor, given)
        kind, name = KINDS.get(tensor.dtype, "i"), self.captured(tensor)
        text = f"{name}({', '.join(i.text for i in given)})"
        return Symbol(self, kind, text) if kind == "b" else self.local(kind, text)


class Traced:
    """What PyTorch's functions may be given."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        trace = find_trace(args, kwargs)
        operation = OPERATIONS.get(function.__name__.strip("_"))
        if operation is None:
            raise unsupported(f"{trace.key} calls {function.__name__}, which has no translation")
        try:
            return operation(trace, *args, **(kwargs or {}))
        except TypeError as e:
            raise unsupported(f"{trace.key} calls {function.__name__} in a way that has no translation ({e})") from None


def find_trace(args, kwargs):
    stack = [args, tuple((kwargs or {}).values())]
    while stack:
        x = stack.pop()
        if isinstance(x, Traced):
            return x.trace
        if isinstance(x, (tuple, list)):
            stack.extend(x)
    raise unsupported("a mod calls a function of PyTorch in a way that has no translation")


class Partial(Traced):
    """A captured tensor of which some indices are there: None is one that is not."""

    def __init__(self, trace, tensor, indices):
        self.trace, self.tensor, self.indices = trace, tensor, indices
        self.dtype, self.device = tensor.dtype, trace.device
        self.shape = torch.Size(n for n, i in zip(tensor.shape, indices) if i is None)
        self.ndim = len(self.shape)

    def __getitem__(self, indices):
        return self.trace.index(self, indices)

    def __len__(self):
        return self.shape[0]

    def __getattr__(self, name):
        raise unsupported(f"{self.trace.key} uses '{name}' of a tensor of rank {self.ndim}, not of its elements")


class Symbol(Traced):
    """A traced scalar: kind b, i or f, and its Lua text."""

    shape, ndim = torch.Size(()), 0

    def __init__(self, trace, kind, text):
        self.trace, self.kind, self.text = trace, kind, text
        self.dtype = {"b": torch.bool, "i": torch.int32, "f": torch.float32}[kind]
        self.device = trace.device

    def __getattr__(self, name):
        operation = OPERATIONS.get(name.strip("_"))
        if operation is None or name.startswith("__") and not name.endswith("__"):
            raise unsupported(f"{self.trace.key} uses '{name}' of a traced value, which has no translation")
        return lambda *args, **kwargs: operation(self.trace, self, *args, **kwargs)

    def _no_value(self, *_):
        raise unsupported(f"{self.trace.key} asks for the value of a traced scalar: `if`, `and`, `or`, `not`, int(), "
                          "float() and range() of one are not for FlexAttention's mods (use torch.where, &, |, ~)")
    __bool__ = __int__ = __float__ = __index__ = __len__ = __iter__ = _no_value
    __hash__ = object.__hash__


def arithmetic(sign, kind=None):
    def operation(trace, x, y, alpha=None, rounding_mode=None):
        x, y = trace.number(x), trace.number(y)
        if alpha not in (None, 1):
            y = trace.local(y.kind, f"{y.text} * {trace.number(alpha).text}")
        both = "i" if x.kind == y.kind == "i" else "f"
        if rounding_mode == "floor" or sign == "//":
            return (trace.local("i", f"{x.text} // {y.text}") if both == "i" else
                    trace.local("f", f"facc.float(facc.floor({x.text} / {y.text}))"))
        if rounding_mode is not None:
            raise unsupported(f"{trace.key} divides with rounding_mode {rounding_mode!r}")
        return trace.local(kind or both, f"{x.text} {sign} {y.text}")
    return operation


def comparison(sign):
    def operation(trace, x, y):
        x, y = trace.value(x), trace.value(y)
        if (x.kind == "b") != (y.kind == "b") or x.kind == "b" and sign not in ("==", "~="):
            x, y = trace.number(x), trace.number(y)
        return Symbol(trace, "b", f"({x.text} {sign} {y.text})")
    return operation


def logic(word, sign):
    """&, | and ^ of booleans or of integers."""
    def operation(trace, x, y):
        x, y = trace.value(x), trace.value(y)
        if sign and x.kind == y.kind == "i":
            return trace.local("i", f"{x.text} {sign} {y.text}")
        return Symbol(trace, "b", f"({trace.bool(x).text} {word} {trace.bool(y).text})")
    return operation


def negation(trace, x):
    x = trace.value(x)
    return trace.local("i", f"~{x.text}") if x.kind == "i" else Symbol(trace, "b", f"(not {trace.bool(x).text})")


def function(name, kind="f"):
    def operation(trace, *args, out=None, approximate=None):
        args = [trace.number(x) for x in args]
        both = kind or ("f" if any(x.kind == "f" for x in args) else "i")
        spelled = "gelu_tanh" if name == "gelu" and approximate == "tanh" else name
        return trace.local(both, f"facc.{spelled}({', '.join(x.text for x in args)})")
    return operation


def rounding(name):
    def operation(trace, x):
        x = trace.number(x)
        return x if x.kind == "i" else trace.local("f", f"facc.float(facc.{name}({x.text}))")
    return operation


def clamp(trace, x, min=None, max=None):
    x = trace.number(x)
    for name, bound in ("max", min), ("min", max):
        if bound is not None:
            x = OPERATIONS["maximum" if name == "max" else "minimum"](trace, x, bound)
    return x


def as_float(trace, x, *_, **__):
    x = trace.number(x)
    return x if x.kind == "f" else trace.local("f", f"facc.float({x.text})")


def as_int(trace, x, *_, **__):
    """Towards zero."""
    x = trace.number(x)
    if x.kind == "i":
        return x
    return trace.local("i", f"facc.where(function() return {x.text} < 0 end, facc.ceil({x.text}), "
                            f"facc.floor({x.text}))")


def converted(trace, x, *args, dtype=None, **_):
    for a in args:
        dtype = a if isinstance(a, torch.dtype) else dtype
        if isinstance(a, (torch.Tensor, Traced)):
            dtype = a.dtype
    if dtype is None:
        return trace.value(x)
    kind = KINDS.get(dtype, "i")
    return trace.bool(x) if kind == "b" else (as_float if kind == "f" else as_int)(trace, x)


def filled(value):
    """ones_like, new_zeros, …: a scalar of this value, of x's type or dtype."""
    def operation(trace, x, *args, fill_value=None, dtype=None, **_):
        given = value
        if given is None:
            given = args[-1] if args else fill_value
        elif args and tuple(args[0]) != ():
            raise unsupported(f"{trace.key} makes a tensor of shape {tuple(args[0])}")
        return converted(trace, given, dtype=dtype or x.dtype)
    return operation


def same(trace, x, *_, **__):
    return trace.value(x)


def power(trace, x, y):
    return trace.local("f", f"{trace.number(x).text} ^ {trace.number(y).text}")


def reversed_(operation):
    return lambda trace, x, y: operation(trace, y, x)


add, sub, mul, div = arithmetic("+"), arithmetic("-"), arithmetic("*"), arithmetic("/", "f")
OPERATIONS = {
    "add": add, "sub": sub, "subtract": sub, "mul": mul, "multiply": mul, "div": div, "divide": div, "truediv": div,
    "true_divide": div, "floordiv": arithmetic("//"), "floor_divide": arithmetic("//"), "mod": arithmetic("%"),
    "remainder": arithmetic("%"), "pow": power, "lshift": arithmetic("<<"), "rshift": arithmetic(">>"),
    "bitwise_left_shift": arithmetic("<<"), "bitwise_right_shift": arithmetic(">>"),
    "lt": comparison("<"), "le": comparison("<="), "gt": comparison(">"), "ge": comparison(">="),
    "eq": comparison("=="), "ne": comparison("~="), "less": comparison("<"), "less_equal": comparison("<="),
    "greater": comparison(">"), "greater_equal": comparison(">="), "not_equal": comparison("~="),
    "and": logic("and", "&"), "or": logic("or", "|"), "xor": logic("~=", "~"), "bitwise_and": logic("and", "&"),
    "bitwise_or": logic("or", "|"), "bitwise_xor": logic("~=", "~"), "logical_and": logic("and", None),
    "logical_or": logic("or", None), "logical_xor": logic("~=", None), "invert": negation, "bitwise_not": negation,
    "logical_not": lambda trace, x: Symbol(trace, "b", f"(not {trace.bool(x).text})"),
    "neg": lambda trace, x: sub(trace, 0, x), "negative": lambda trace, x: sub(trace, 0, x), "pos": same,
    "abs": function("abs", None), "absolute": function("abs", None), "sign": function("sign", None),
    "maximum": function("max", None), "minimum": function("min", None), "max": function("max", None),
    "min": function("min", None), "clamp": clamp, "clip": clamp,
    "clamp_min": clamp, "clamp_max": lambda trace, x, max: clamp(trace, x, None, max),
    **{name: function(name) for name in (
        "exp", "exp2", "log", "log2", "log10", "sqrt", "rsqrt", "sin", "cos", "tan", "tanh", "sigmoid", "erf", "silu",
        "gelu", "softplus")},
    "relu": function("relu", None), "reciprocal": function("rcp"), "square": lambda trace, x: mul(trace, x, x),
    "floor": rounding("floor"), "ceil": rounding("ceil"), "round": rounding("round"),
    "where": lambda trace, c, x, y: (trace.where(c, x, y) if isinstance(c, (Symbol, torch.Tensor, bool)) else
                                     trace.where(x, c, y)),
    "masked_fill": lambda trace, x, c, value: trace.where(c, value, x),
    "getitem": lambda trace, tensor, indices: trace.index(tensor, indices),
    "to": converted, "type": converted, "float": as_float, "half": as_float, "bfloat16": as_float, "double": as_float,
    "int": as_int, "long": as_int, "bool": lambda trace, x: trace.bool(x),
    "clone": same, "detach": same, "contiguous": same, "squeeze": same,
    "ones_like": filled(1), "zeros_like": filled(0), "full_like": filled(None), "new_ones": filled(1),
    "new_zeros": filled(0), "new_full": filled(None), "new_tensor": filled(None),
}
for _name in "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift":
    OPERATIONS["r" + _name] = reversed_(OPERATIONS[_name])
OPERATIONS["rsub"] = lambda trace, x, y, alpha=None: sub(trace, y, x, alpha=alpha)
OPERATIONS["rdiv"] = OPERATIONS["rtruediv"]


def _method(name):
    def call(self, *args):
        try:
            return OPERATIONS[name](self.trace, self, *args)
        except TypeError as e:
            raise unsupported(f"{self.trace.key}: {name} ({e})") from None
    return call


for _name in ("add sub mul truediv floordiv mod pow and or xor lshift rshift radd rsub rmul rtruediv rfloordiv rmod rpow "
              "rand ror rxor rlshift rrshift lt le gt ge eq ne neg pos abs invert").split():
    setattr(Symbol, f"__{_name}__", _method(_name))


def translate(mod, key, device=torch.device("cpu")):
    """(Lua function, tensors, params) of a Python mod. key: "score_mod" or
    "mask_mod"; device: that of the query."""
    trace = Trace(key, device)
    score = [Symbol(trace, "f", SCORE)] if key == "score_mod" else []
    result = mod(*score, *(Symbol(trace, "i", name) for name in INDICES))
    if isinstance(result, Partial):
        raise unsupported(f"{key} gives a tensor of rank {result.ndim}")
    result = trace.number(result) if key == "score_mod" else trace.bool(result)
    parameters = ", ".join(([SCORE] if score else []) + list(INDICES))
    text = "\n".join([*trace.lines, f"  return {result.text}"])
    if len(trace.lines) > MOST_LOCALS:
        text = "  local v = {}\n" + re.sub(r"\bv(\d+)\b", r"v[\1]", text.replace("  local v", "  v"))
    return f"function({parameters})\n{text}\nend", trace.tensors, trace.params
