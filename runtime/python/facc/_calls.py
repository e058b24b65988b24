"""What a call of attention() comes to: its program, its kernel, its launch; or
the CPU path."""
from . import _abi, _mods
from ._core import _lib, Launch, Program, cpu_attention, default_context
from ._error import Error
from ._sequences import lse_shape, need_layout, out_shape
from ._tensor import array, cuda_index, dtype_name, empty_like, is_aligned, maybe_array


def find_program(score_mod=None, mask_mod=None, program=None, tensors=None, params=None, context=None):
    """The Program that these arguments of attention() mean."""
    context = context or default_context()
    if program is None:
        return _mods.load(context, score_mod, mask_mod, tensors, params)
    if score_mod is not None or mask_mod is not None:
        raise Error(_abi.ERR_ARGUMENT, "give either a program or score_mod and mask_mod, not both")
    if isinstance(program, Program):
        return program
    if isinstance(program, str) and _mods.kind_of(program) == "chunk":
        key = program
    else:
        key = _mods.file_key(program)
        if key is None:
            return Program.from_file(program, context)  # reports it
    files = context._files
    if key not in files:
        files[key] = (Program.from_string(program, "program", context) if key is program
                      else Program.from_file(program, context))
    return files[key]


def out_dtype(dtype, on_gpu):
    """The element type of results, unless the caller gives the array."""
    if on_gpu and dtype in ("e4m3", "e5m2"):
        return "bf16"
    return dtype if on_gpu or dtype in ("f32", "f16", "bf16") else "f32"


def extras(cu_q, cu_kv, max_q, max_kv, block_mask, sinks, fp8=None):
    """What most calls have not, as keywords of Launch."""
    more = {}
    if cu_q is not None or cu_kv is not None or max_q is not None or max_kv is not None:
        more.update(cu_seqlens_q=cu_q, cu_seqlens_kv=cu_kv, max_seqlen_q=max_q, max_seqlen_kv=max_kv)
    if block_mask is not None:
        more["block_mask"] = block_mask
    if sinks is not None:
        more["sinks"] = sinks
    if fp8 is not None:
        more["fp8"] = fp8
    return more


def dropout_of(dropout_p, seed, offset):
    """The same of dropout."""
    return {} if dropout_p == 0 else dict(dropout_p=dropout_p, seed=seed, offset=offset)


def transposes_v(q, k, cu_seqlens_q):
    """Whether the kernel is to transpose V; packed sequences count as equally long."""
    rows = q.shape[-2] // max(1, cu_seqlens_q.shape[0] - 1) if cu_seqlens_q is not None else q.shape[-2]
    group = q.shape[-3] // k.shape[-3] if k.shape[-3] else 1
    return bool(_lib.facc_transposes_v(q.shape[-1], rows * group))


def run(program, q, k, v, out, return_lse, stream, cu_seqlens_q, cu_seqlens_kv, max_seqlen_q, max_seqlen_kv,
        block_mask, sinks, fp8=None, form=None, exact_peaks=False, **call):
    """Output and LSE, which is None if it is not wanted. form: what the launch
    is remembered by for calls like it (_again.py)."""
    q, k, v = array(q, "q", stream), array(k, "k", stream), array(v, "v", stream)
    call.update(extras(cu_seqlens_q, cu_seqlens_kv, max_seqlen_q, max_seqlen_kv, block_mask, sinks, fp8))
    packed = cu_seqlens_q is not None
    need_layout(packed, q=q, k=k, v=v)
    device, dtype = cuda_index(q), dtype_name(q, "q")
    if fp8 is not None:
        dtype = fp8.name_of(dtype)
    if exact_peaks and dtype not in ("e4m3", "e5m2"):
        raise Error(_abi.ERR_ARGUMENT, f"exact_peaks is for e4m3 and e5m2, q is {dtype}")
    if device < 0:
        if out is None:
            out = empty_like(q, out_shape(q, v), out_dtype(dtype, False))
        lse = empty_like(q, lse_shape(q), "f32") if return_lse else None
        cpu_attention(program, q, k, v, out, lse, **call)
        return out, lse
    given = maybe_array(out, "out", stream)
    more = {} if block_mask is None else {"block_mask": True}
    if packed:
        more["packed"] = True
    if sinks is not None:
        more["sinks"] = True
    if "dropout_p" in call:
        more["dropout"] = True
    if dtype in ("e4m3", "e5m2"):  # kernels know of 13 fraction bits in sums of P V
        more["centred_v"] = (fp8 is not None and fp8.v_mean is not None) or k.shape[-2] < 4096
        if fp8 is not None and fp8.has_blocks:
            more["block_scales"] = True
        if (fp8 is None or fp8.v_image is None) and is_aligned(v, "v") and transposes_v(q, k, cu_seqlens_q):
            more["transposes_v"] = True
        if exact_peaks:
            more["exact_peaks"] = True
    if is_aligned(q, "q") and is_aligned(k, "k") and is_aligned(v, "v") and (out is None or is_aligned(given, "out")):
        more["layout"] = "aligned"
    kernel = program.kernel(dtype=dtype, head_dim=q.shape[-1], head_dim_v=v.shape[-1],
                            out_dtype=out_dtype(dtype, True) if out is None else dtype_name(given, "out"),
                            device=device, **more)
    launch = Launch(kernel, q, k, v, out, None, want_lse=return_lse, **call)
    launch(stream)
    if form is not None:
        form.remember(launch)
    return launch.out, launch.lse
