"""facc::attention, a torch.library operator with a fake implementation:
torch.compile, torch.export and make_fx keep a call of facc.attention whole and
know what it gives. Eager calls of plain tensors do not come here.

The operator takes what facc.attention takes, flat: a dictionary is names beside
values, a block mask its lists, "" no mod, a Program its number."""
import operator
import os

from . import _abi
from ._calls import dropout_of, find_program, out_dtype, run
from ._core import Program, counter
from ._dlpack import Array
from ._error import Error
from ._sequences import BlockMask, block_mask_fields, lse_shape, need_layout, out_shape
from ._tensor import dtype_name, refuse_gradient

SCHEMA = """attention(Tensor q, Tensor k, Tensor v, str score_mod, str mask_mod, str program, SymInt number,
    str[] tensor_names, Tensor[] tensors, str[] int_names, SymInt[] ints, str[] float_names, float[] floats,
    float? scale, bool return_lse, Tensor? seqused_q, Tensor? seqused_kv, Tensor? cu_seqlens_q, Tensor? cu_seqlens_kv,
    SymInt? max_seqlen_q, SymInt? max_seqlen_kv, Tensor[] block_lists, SymInt[] block_size, Tensor? sinks,
    float dropout_p, SymInt seed, SymInt offset)
    -> (Tensor, Tensor)"""


def is_wanted(x):
    """Whether x is a tensor that a compiler or a tracer looks at. Dynamo traces
    this: a look at sys.modules would make it guard all of that."""
    if isinstance(x, Array) or not hasattr(x, "is_cuda"):
        return False
    try:
        import torch
    except ImportError:
        return False
    if not hasattr(torch, "library") or not isinstance(x, torch.Tensor):
        return False
    if torch.compiler.is_compiling():
        return True
    return type(x) not in (torch.Tensor, torch.nn.Parameter) or torch._C._len_torch_dispatch_stack() > 0


def refuse_handles(context, stream):
    """What a compiled graph cannot hold."""
    for what, x in ("context", context), ("stream", stream):
        if x is not None:
            raise Error(_abi.ERR_UNSUPPORTED, f"{what}= is not for compiled or traced calls"
                        + (": give program= a Program of that context" if what == "context" else ""))


def text_of(mod, what):
    try:
        return "" if mod is None else os.fsdecode(mod)
    except TypeError:
        raise Error(_abi.ERR_ARGUMENT, f"{what} must be text or the path of a Lua file, got {mod!r}"
                    + (" (facc.flex takes mods in Python)" if callable(mod) else "")) from None


def dropout_fields(dropout_p, seed, offset):
    """Of the operator, whose integers have 64 bits and a sign."""
    if dropout_p == 0:
        return 0.0, 0, 0
    if seed is None:
        raise Error(_abi.ERR_ARGUMENT, "dropout_p needs a seed; with another seed or offset, others are dropped")
    return (float(dropout_p), *(x - 2**64 if x >= 2**63 else x for x in (counter("seed", seed),
                                                                         counter("offset", offset))))


def attention(q, k, v, score_mod, mask_mod, program, tensors, params, scale, out, return_lse, seqused_q, seqused_kv,
              cu_seqlens_q, cu_seqlens_kv, max_seqlen_q, max_seqlen_kv, block_mask, sinks,
              dropout_p, seed, offset):
    """facc.attention, by the operator."""
    import torch
    define()
    number, tensors, ints, floats = -1, tensors or {}, {}, {}
    if isinstance(program, Program):
        number, program = program.number, None
    for name, x in (params or {}).items():
        if isinstance(x, float):
            floats[name] = x
        else:
            ints[name] = x if isinstance(x, int) else operator.index(x)
    lists, size = ([], []) if block_mask is None else block_mask_fields(block_mask)
    result, lse = torch.ops.facc.attention(
        q, k, v, text_of(score_mod, "score_mod"), text_of(mask_mod, "mask_mod"), text_of(program, "program"), number,
        list(tensors), list(tensors.values()), list(ints), list(ints.values()), list(floats), list(floats.values()),
        scale, return_lse, seqused_q, seqused_kv, cu_seqlens_q, cu_seqlens_kv, max_seqlen_q, max_seqlen_kv, lists,
        size, sinks, *dropout_fields(dropout_p, seed, offset))
    if out is not None:
        result = out.copy_(result)
    return (result, lse) if return_lse else result


def implementation(q, k, v, score_mod, mask_mod, program, number, tensor_names, tensors, int_names, ints, float_names,
                   floats, scale, return_lse, seqused_q, seqused_kv, cu_seqlens_q, cu_seqlens_kv, max_seqlen_q,
                   max_seqlen_kv, block_lists, block_size, sinks, dropout_p, seed, offset):
    call = dict(tensors=dict(zip(tensor_names, tensors)),
                params={**dict(zip(int_names, ints)), **dict(zip(float_names, floats))}, scale=scale,
                seqused_q=seqused_q, seqused_kv=seqused_kv)
    if number >= 0:
        program = Program.by_number.get(number)
        if program is None:
            raise Error(_abi.ERR_ARGUMENT, "the Program that was compiled with is gone")
    program = find_program(score_mod or None, mask_mod or None, program or None, call["tensors"], call["params"])
    block_mask = None
    if block_size:
        lists = list(block_lists) + [None] * (4 - len(block_lists))
        block_mask = BlockMask(*lists, BLOCK_SIZE=tuple(block_size))
    out, lse = run(program, q, k, v, None, return_lse, None, cu_seqlens_q, cu_seqlens_kv, max_seqlen_q, max_seqlen_kv,
                   block_mask, sinks, **call, **dropout_of(dropout_p, seed % 2**64, offset % 2**64))
    return out, q.new_empty(0) if lse is None else lse


def fake(q, k, v, *rest):
    import torch
    return_lse, cu_seqlens_q = rest[11], rest[14]
    need_layout(cu_seqlens_q is not None, q=q, k=k, v=v)
    name = _abi.DTYPES[out_dtype(dtype_name(q, "q"), q.is_cuda)][1]
    out = q.new_empty(out_shape(q, v), dtype=getattr(torch, name))
    return out, q.new_empty(lse_shape(q), dtype=torch.float32) if return_lse else q.new_empty(0)


def autograd(*arguments):
    """There is no backward: what requires a gradient is refused, not cut off."""
    import torch
    names = SCHEMA[SCHEMA.index("(") + 1:SCHEMA.index(")")].split(",")
    for name, x in zip(names, arguments):
        for tensor in x if isinstance(x, (list, tuple)) else [x]:
            if isinstance(tensor, torch.Tensor):
                refuse_gradient(tensor, name.split()[-1], torch)
    with torch._C._AutoDispatchBelowAutograd():
        return torch.ops.facc.attention(*arguments)


_library = []


def define():
    """Once, as soon as there is PyTorch."""
    if _library:
        return
    import torch
    library = torch.library.Library("facc", "FRAGMENT")
    library.define(" ".join(SCHEMA.split()), tags=(torch.Tag.pt2_compliant_tag,))
    for key in "CPU", "CUDA":
        library.impl("attention", implementation, key)
    library.impl("attention", autograd, "Autograd")
    torch.library.register_fake("facc::attention", fake, lib=library)
    _library.append(library)


define._dynamo_marked_constant = True  # torch.compile calls it instead of tracing it
