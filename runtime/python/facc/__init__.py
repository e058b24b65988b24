"""facc: attention variants compiled at run time, on PyTorch tensors, NumPy
arrays and whatever has DLPack.

    o = facc.attention(q, k, v, mask_mod="q >= kv and q - kv < window",
                       params={"window": 1024})
    o = facc.attention(q, k, v, score_mod="alibi.lua", tensors={"slopes": slopes})

CUDA tensors run on the GPU, on the current stream, without copies and without
synchronising; arrays in host memory run on the CPU. torch.compile keeps a call
whole. facc.flex has FlexAttention's calling convention."""
import sys

from . import _abi, _op
from ._again import form_of
from ._calls import dropout_of, extras, find_program, run
from ._core import Context, Declared, Kernel, Launch, Program, cpu_attention, default_context, version
from ._error import Error, FaccWarning
from ._fp8 import Fp8, Quantized, quantize
from ._sequences import BlockMask, lse_shape, need_layout, out_shape
from ._tensor import array, empty_like

__version__ = version()
__all__ = ["BlockMask", "Context", "Declared", "Error", "FaccWarning", "Fp8", "Kernel", "Launch", "Program", "Quantized",
           "attention", "default_context", "oracle", "quantize", "version"]


def attention(q, k, v, score_mod=None, mask_mod=None, program=None, tensors=None, params=None, scale=None, out=None,
              return_lse=False, seqused_q=None, seqused_kv=None, context=None, cu_seqlens_q=None, cu_seqlens_kv=None,
              max_seqlen_q=None, max_seqlen_kv=None, block_mask=None, sinks=None, stream=None, dropout_p=0.0,
              seed=None, offset=0, fp8=None, exact_peaks=False):
    """softmax(mask_mod(score_mod(scale * q k^T))) v.

    q [B, H, Sq, D], k [B, Hkv, Skv, D], v [B, Hkv, Skv, Dv], one element type,
    last dimension contiguous on the GPU, other strides as they come: PyTorch
    tensors, NumPy arrays, or any framework's through DLPack, without copies.
    seqused_q and seqused_kv are i32 [B]. Gives the output [B, H, Sq, Dv], with
    return_lse also the natural log of the sum of exponentials, f32 [B, H, Sq].

    score_mod and mask_mod are each one of
      an expression         "score + bias[h][q][kv]", "q >= kv"
      a Lua function        "function(b, h, q, kv) … return … end"
      a Lua chunk           "local facc = require 'facc' … return …": the mod, or
                            facc.attention { … }, of which it takes the mod
      the path of a file    with such a chunk: a path object, or text in ".lua"
    Expressions and functions see score, b, h, q, kv, facc, and by their names
    what `tensors` (arrays) and `params` (numbers that may change without
    recompiling) hold; chunks declare what they capture, and find it there.
    `program` instead of both is a Program, the path of a Lua file or its text.

    Packed sequences: cu_seqlens_q and cu_seqlens_kv, i32 [n + 1], say where
    each of n sequences begins and ends in q [Tq, H, D], k [Tkv, Hkv, D],
    v [Tkv, Hkv, Dv], which give [Tq, H, Dv] and LSE [H, Tq]; or in
    [1, H, Tq, D] and so on. max_seqlen_q and max_seqlen_kv, at least the
    longest lengths, save work and are the size of dimensions "q" and "kv"; the
    default is Tq and Tkv. For the mods b is the sequence, q and kv count from
    its start.

    block_mask: lists of blocks that count, a facc.BlockMask or that of
    PyTorch's FlexAttention (whose mask_mod is to be given as mask_mod: it
    decides the cells of partial blocks; facc.flex translates it).

    sinks: attention sinks, f32 [H]: a logit of each query head that joins the
    softmax's denominator of its rows (and the LSE) and has no value, as GPT-OSS
    has them. Neither `scale` nor the mods touch it; -inf is none. A row of which
    no key counts has the LSE sink.

    dropout_p: each normalised weight becomes 0 with this probability, to 16
    bits; the others are divided by 1 - dropout_p. seed and offset, integers from
    0 to 2^64 - 1, say which: with the same two (and b, h, q, kv) the same
    weights, on the CPU and on any GPU; a training step takes another offset.
    The LSE is that without dropout.

    fp8: q, k, v of float8_e4m3fn or float8_e5m2 (or uint8) stand for scaled
    values: a facc.Fp8, for which facc.quantize has the rest. Results are bf16 on
    the GPU, f32 else, unless `out` says otherwise. exact_peaks, of FP8 on the GPU:
    in rows that few keys carry (outliers in Q and K) the largest weights are
    rounded exactly, for 0.7 of the kernel's error in more time.

    stream: the raw CUstream to launch on, as an integer; the default is the
    current one of q's framework. Neither it nor context is for torch.compile.
    Raises facc.Error: message, file, line. A mod that is hardly meant so (a number
    as a condition) is a facc.FaccWarning, once."""
    if _op.is_wanted(q):
        _op.refuse_handles(context, stream)
        if fp8 is not None or exact_peaks:
            raise Error(_abi.ERR_UNSUPPORTED, f"{'exact_peaks' if fp8 is None else 'fp8'} is not for torch.compile yet")
        return _op.attention(q, k, v, score_mod, mask_mod, program, tensors, params, scale, out, return_lse,
                             seqused_q, seqused_kv, cu_seqlens_q, cu_seqlens_kv, max_seqlen_q, max_seqlen_kv,
                             block_mask, sinks, dropout_p, seed, offset)
    form = form_of(q, k, v, score_mod, mask_mod, program, tensors, params, scale, out, return_lse, seqused_q,
                   seqused_kv, context, cu_seqlens_q, cu_seqlens_kv, max_seqlen_q, max_seqlen_kv, block_mask, sinks,
                   dropout_p, seed, fp8, exact_peaks)
    again = form and form.launch(params, seed, offset, stream)
    if again:
        made, lse = again
        out = made if out is None else out
    else:
        program = find_program(score_mod, mask_mod, program, tensors, params, context)
        out, lse = run(program, q, k, v, out, return_lse, stream, cu_seqlens_q, cu_seqlens_kv, max_seqlen_q,
                       max_seqlen_kv, block_mask, sinks, fp8, form, exact_peaks, tensors=tensors, params=params,
                       scale=scale, seqused_q=seqused_q, seqused_kv=seqused_kv, **dropout_of(dropout_p, seed, offset))
    return (out, lse) if return_lse else out


def oracle(q, k, v, score_mod=None, mask_mod=None, program=None, tensors=None, params=None, scale=None,
           seqused_q=None, seqused_kv=None, context=None, cu_seqlens_q=None, cu_seqlens_kv=None, max_seqlen_q=None,
           max_seqlen_kv=None, block_mask=None, sinks=None, dropout_p=0.0, seed=None, offset=0, fp8=None):
    """The same on host arrays, all arithmetic in double: output and LSE, f64."""
    q, k, v = array(q, "q"), array(k, "k"), array(v, "v")
    need_layout(cu_seqlens_q is not None, q=q, k=k, v=v)
    program = find_program(score_mod, mask_mod, program, tensors, params, context)
    out = empty_like(q, out_shape(q, v), "f64")
    lse = empty_like(q, lse_shape(q), "f64")
    cpu_attention(program, q, k, v, out, lse, f64=True, tensors=tensors, params=params, scale=scale,
                  seqused_q=seqused_q, seqused_kv=seqused_kv,
                  **extras(cu_seqlens_q, cu_seqlens_kv, max_seqlen_q, max_seqlen_kv, block_mask, sinks, fp8),
                  **dropout_of(dropout_p, seed, offset))
    return out, lse


if "torch" in sys.modules:
    _op.define()
