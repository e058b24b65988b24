"""facc: attention variants compiled at run time, on NumPy arrays and PyTorch
tensors.

    o = facc.attention(q, k, v, mask_mod="q >= kv and q - kv < window",
                       params={"window": 1024})
    o = facc.attention(q, k, v, program="alibi.lua", tensors={"slopes": slopes})

CUDA tensors run on the GPU, on the current stream, without copies and without
synchronising; arrays in host memory run on the CPU."""
import os

from . import _abi
from ._core import (Context, Declared, Kernel, Launch, Program, cpu_attention, declaration_of,
                    default_context, param_type_of, version)
from ._error import Error
from ._sequences import BlockMask, lse_shape, need_layout, out_shape
from ._tensor import cuda_index, dtype_name, empty_like, is_aligned

__version__ = version()
__all__ = ["BlockMask", "Context", "Declared", "Error", "Kernel", "Launch", "Program", "attention", "default_context",
           "oracle", "version"]

_CPU_OUT = ("f32", "f16", "bf16")


def attention(q, k, v, score_mod=None, mask_mod=None, program=None, tensors=None, params=None, scale=None, out=None,
              return_lse=False, seqused_q=None, seqused_kv=None, context=None, cu_seqlens_q=None, cu_seqlens_kv=None,
              max_seqlen_q=None, max_seqlen_kv=None, block_mask=None, sinks=None):
    """softmax(mask_mod(score_mod(scale * q k^T))) v.

    q [B, H, Sq, D], k [B, Hkv, Skv, D], v [B, Hkv, Skv, Dv], one element type,
    last dimension contiguous on the GPU, other strides as they come. score_mod
    and mask_mod are expressions over score, b, h, q, kv and the names in
    `tensors` (arrays) and `params` (numbers that may change without
    recompiling); `program` instead is a Program or the path of a Lua file.
    seqused_q and seqused_kv are i32 [B]. Gives the output [B, H, Sq, Dv], with
    return_lse also the natural log of the sum of exponentials, f32 [B, H, Sq].

    Packed sequences: cu_seqlens_q and cu_seqlens_kv, i32 [n + 1], say where
    each of n sequences begins and ends in q [Tq, H, D], k [Tkv, Hkv, D],
    v [Tkv, Hkv, Dv], which give [Tq, H, Dv] and LSE [H, Tq]; or in
    [1, H, Tq, D] and so on. max_seqlen_q and max_seqlen_kv, at least the
    longest lengths, save work and are the size of dimensions "q" and "kv"; the
    default is Tq and Tkv. For the mods b is the sequence, q and kv count from
    its start.

    block_mask: lists of blocks that count, a facc.BlockMask or that of
    PyTorch's FlexAttention (whose mask_mod is to be given as mask_mod: it
    decides the cells of partial blocks).

    sinks: attention sinks, f32 [H]: a logit of each query head that joins the
    softmax's denominator of its rows (and the LSE) and has no value, as GPT-OSS
    has them. Neither `scale` nor the mods touch it; -inf is none. A row of which
    no key counts has the LSE sink.
    Raises facc.Error."""
    call = dict(tensors=tensors, params=params, scale=scale, seqused_q=seqused_q, seqused_kv=seqused_kv)
    packed = _add_extras(call, cu_seqlens_q, cu_seqlens_kv, max_seqlen_q, max_seqlen_kv, block_mask, sinks)
    need_layout(packed, q=q, k=k, v=v)
    program = find_program(score_mod, mask_mod, program, tensors, params, context)
    device, dtype = cuda_index(q), dtype_name(q, "q")
    if device < 0:
        if out is None:
            out = empty_like(q, out_shape(q, v), dtype if dtype in _CPU_OUT else "f32")
        lse = empty_like(q, lse_shape(q), "f32") if return_lse else None
        cpu_attention(program, q, k, v, out, lse, **call)
    else:
        more = {} if block_mask is None else {"block_mask": True}
        if packed:
            more["packed"] = True
        if sinks is not None:
            more["sinks"] = True
        if is_aligned(q) and is_aligned(k) and is_aligned(v) and (out is None or is_aligned(out)):
            more["layout"] = "aligned"
        kernel = program.kernel(dtype=dtype, head_dim=q.shape[-1], head_dim_v=v.shape[-1],
                                out_dtype=dtype if out is None else dtype_name(out, "out"),
                                device=device, **more)
        launch = Launch(kernel, q, k, v, out, None, want_lse=return_lse, **call)
        launch()
        out, lse = launch.out, launch.lse
    return (out, lse) if return_lse else out


def oracle(q, k, v, score_mod=None, mask_mod=None, program=None, tensors=None, params=None, scale=None,
           seqused_q=None, seqused_kv=None, context=None, cu_seqlens_q=None, cu_seqlens_kv=None, max_seqlen_q=None,
           max_seqlen_kv=None, block_mask=None, sinks=None):
    """The same on host arrays, all arithmetic in double: output and LSE, f64."""
    call = dict(tensors=tensors, params=params, scale=scale, seqused_q=seqused_q, seqused_kv=seqused_kv)
    packed = _add_extras(call, cu_seqlens_q, cu_seqlens_kv, max_seqlen_q, max_seqlen_kv, block_mask, sinks)
    need_layout(packed, q=q, k=k, v=v)
    program = find_program(score_mod, mask_mod, program, tensors, params, context)
    out = empty_like(q, out_shape(q, v), "f64")
    lse = empty_like(q, lse_shape(q), "f64")
    cpu_attention(program, q, k, v, out, lse, f64=True, **call)
    return out, lse


def _add_extras(call, cu_q, cu_kv, max_q, max_kv, block_mask, sinks):
    """What most calls have not. True for packed sequences."""
    if cu_q is not None or cu_kv is not None or max_q is not None or max_kv is not None:
        call.update(cu_seqlens_q=cu_q, cu_seqlens_kv=cu_kv, max_seqlen_q=max_q, max_seqlen_kv=max_kv)
    if block_mask is not None:
        call["block_mask"] = block_mask
    if sinks is not None:
        call["sinks"] = sinks
    return cu_q is not None


def find_program(score_mod=None, mask_mod=None, program=None, tensors=None, params=None, context=None):
    """The Program that these arguments of attention() mean."""
    if program is None:
        declared = [declaration_of(name, x) for name, x in (tensors or {}).items()]
        declared += [(name, param_type_of(name, x), None) for name, x in (params or {}).items()]
        context = context or default_context()
        return context.expressions(score_mod, mask_mod, tuple(declared))
    if score_mod is not None or mask_mod is not None:
        raise Error(_abi.ERR_ARGUMENT, "give either a program or score_mod and mask_mod, not both")
    if isinstance(program, Program):
        return program
    context = context or default_context()
    try:
        state = os.stat(program)
    except (OSError, TypeError, ValueError):
        return Program.from_file(program, context)  # reports it
    key = state.st_dev, state.st_ino, state.st_mtime_ns, state.st_size
    files = context._files
    if key not in files:
        files[key] = Program.from_file(program, context)
    return files[key]
