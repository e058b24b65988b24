"""What FlexAttention's mods may do with traced values (_flex_trace.py), by the
names that PyTorch has for it: each a function of the trace and the operands,
which writes its line of Lua and gives the result. VECTORS work on a whole row of
values; the others are applied element by element where an operand is a row."""
import torch

from . import _abi
from ._error import Error

FLOATS = {torch.float16, torch.bfloat16, torch.float32, torch.float64}
KINDS = {torch.bool: "b", **dict.fromkeys(FLOATS, "f")}  # i: all others


def unsupported(what):
    return Error(_abi.ERR_UNSUPPORTED, f"{what}; write this mod in Lua (facc.attention)")


# ---- scalars -----------------------------------------------------------------

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
        return trace.symbol("b", f"({x.text} {sign} {y.text})")
    return operation


def logic(word, sign):
    """&, | and ^ of booleans or of integers."""
    def operation(trace, x, y):
        x, y = trace.value(x), trace.value(y)
        if sign and x.kind == y.kind == "i":
            return trace.local("i", f"{x.text} {sign} {y.text}")
        return trace.symbol("b", f"({trace.bool(x).text} {word} {trace.bool(y).text})")
    return operation


def negation(trace, x):
    x = trace.value(x)
    return trace.local("i", f"~{x.text}") if x.kind == "i" else trace.symbol("b", f"(not {trace.bool(x).text})")


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


def truncated(trace, x):
    x = trace.number(x)
    return x if x.kind == "i" else as_float(trace, as_int(trace, x))


def converted(trace, x, *args, dtype=None, **_):
    for a in args:
        dtype = a if isinstance(a, torch.dtype) else dtype
        if hasattr(a, "dtype"):
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


# ---- rows of values ----------------------------------------------------------

def along(trace, x, dim, keepdim):
    """The elements of a row that is reduced."""
    if keepdim or dim not in (None, 0, -1, (0,), (-1,), [0], [-1]):
        raise unsupported(f"{trace.key} reduces along dim {dim} with keepdim {keepdim}")
    return trace.elements(x)


def fold(name, convert):
    def operation(trace, x, dim=None, keepdim=False, dtype=None):
        first, *rest = (convert(trace, item) for item in along(trace, x, dim, keepdim))
        for item in rest:
            first = OPERATIONS[name](trace, first, item)
        return converted(trace, first, dtype=dtype)
    return operation


def as_number(trace, x):
    return trace.number(x)


def as_bool(trace, x):
    return trace.bool(x)


sum_of, any_of, all_of = fold("add", as_number), fold("logical_or", as_bool), fold("logical_and", as_bool)


def total(trace, x, dim=None, keepdim=False, dtype=None):
    if getattr(x, "factors", None) and not keepdim and dim in (None, 0, -1, (-1,), [-1]):
        return dot(trace, *x.factors)
    return sum_of(trace, x, dim, keepdim, dtype)


def dot(trace, x, y):
    """One operation of Lua where both are rows of captured floats."""
    if getattr(x, "ndim", 0) != 1 or getattr(y, "ndim", 0) != 1:
        raise unsupported(f"{trace.key} multiplies matrices")
    texts = trace.slice_of(x), trace.slice_of(y)
    if all(texts):
        return trace.local("f", f"facc.dot({texts[0]}, {texts[1]})")
    return sum_of(trace, trace.vector(mul(trace, *pair) for pair in zip(*trace.rows(x, y))))


def largest(name):
    """max and min: of two, or of a row."""
    of_two, of_row = function(name, None), fold(name, as_number)
    return lambda trace, x, *other: of_two(trace, x, *other) if other else of_row(trace, x)


def squeeze(trace, x, *_):
    return trace.elements(x)[0] if x.shape == (1,) else x


def stack(trace, rows, dim=0):
    return trace.vector(trace.value(x) for x in rows)


def unbind(trace, x, dim=0):
    before = (slice(None),) * (dim % x.ndim)
    return [x[(*before, n)] for n in range(x.shape[dim])]


def isin(trace, x, row, invert=False):
    found = any_of(trace, trace.vector(OPERATIONS["eq"](trace, x, y) for y in trace.elements(row)))
    return negation(trace, found) if invert else found


def place(trace, row, x, right=False, side=None, **_):
    """searchsorted: how many elements of a rising row lie before x."""
    before = OPERATIONS["le" if right or side == "right" else "lt"]
    return sum_of(trace, trace.vector(before(trace, y, x) for y in trace.elements(row)))


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
    "logical_not": lambda trace, x: trace.symbol("b", f"(not {trace.bool(x).text})"),
    "neg": lambda trace, x: sub(trace, 0, x), "negative": lambda trace, x: sub(trace, 0, x), "pos": same,
    "abs": function("abs", None), "absolute": function("abs", None), "sign": function("sign", None),
    "maximum": function("max", None), "minimum": function("min", None), "max": largest("max"), "min": largest("min"),
    "clamp": clamp, "clip": clamp,
    "clamp_min": clamp, "clamp_max": lambda trace, x, max: clamp(trace, x, None, max),
    **{name: function(name) for name in (
        "exp", "exp2", "log", "log2", "log10", "sqrt", "rsqrt", "sin", "cos", "tan", "tanh", "sigmoid", "erf", "silu",
        "gelu", "softplus")},
    "relu": function("relu", None), "reciprocal": function("rcp"), "square": lambda trace, x: mul(trace, x, x),
    "log1p": lambda trace, x: OPERATIONS["log"](trace, add(trace, x, 1)),
    "expm1": lambda trace, x: sub(trace, OPERATIONS["exp"](trace, x), 1),
    "floor": rounding("floor"), "ceil": rounding("ceil"), "round": rounding("round"),
    "trunc": truncated, "fix": truncated,
    "where": lambda trace, c, x, y: trace.where(c, x, y),
    "masked_fill": lambda trace, x, c, value: trace.where(c, value, x),
    "to": converted, "type": converted, "type_as": converted, "float": as_float, "half": as_float,
    "bfloat16": as_float, "double": as_float, "int": as_int, "long": as_int, "bool": lambda trace, x: trace.bool(x),
    "ones_like": filled(1), "zeros_like": filled(0), "full_like": filled(None), "new_ones": filled(1),
    "new_zeros": filled(0), "new_full": filled(None), "new_tensor": filled(None),
}
OF_FIRST = {"to", "type", "type_as", "ones_like", "zeros_like", "full_like", "new_ones", "new_zeros", "new_full",
            "new_tensor"}
METHODS = {"where": lambda trace, x, c, y: trace.where(c, x, y)}  # whose operands come in another order
VECTORS = {
    "getitem": lambda trace, tensor, indices: trace.index(tensor, indices),
    "clone": lambda trace, x, **_: x, "detach": lambda trace, x: x, "contiguous": lambda trace, x: x,
    "squeeze": squeeze,
    "sum": total, "any": any_of, "all": all_of, "amax": fold("maximum", as_number), "amin": fold("minimum", as_number),
    "max": largest("max"), "min": largest("min"), "dot": dot, "inner": dot, "vdot": dot, "matmul": dot,
    "rmatmul": reversed_(dot), "stack": stack, "unbind": unbind, "isin": isin, "searchsorted": place,
    "bucketize": lambda trace, x, row, **more: place(trace, row, x, **more),
}
for _name in "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift":
    OPERATIONS["r" + _name] = reversed_(OPERATIONS[_name])
OPERATIONS["rsub"] = lambda trace, x, y, alpha=None: sub(trace, y, x, alpha=alpha)
OPERATIONS["rdiv"] = OPERATIONS["rtruediv"]