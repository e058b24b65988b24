"""FP8: quantize(), and what attention() takes besides Q, K and V of it."""
import ctypes as c
import operator
from collections import namedtuple

from . import _abi
from ._core import _create, _int32, _lib, default_context, dtype_number
from ._error import Error, check, new_error
from ._sequences import i32_list
from ._tensor import array, cuda_index, dtype_name, empty_like, fill, maybe_array, stream_function

Quantized = namedtuple("Quantized", "data scale mean image block dtype")


class Fp8:
    """What FP8 arrays stand for: q * descale_q, k * descale_k, v * descale_v +
    v_mean. Each descale is f32: one number (rank 0), [B, Hkv] (Q's also [B, H]),
    or [B, Hkv, blocks] with a value for each block_q or block_kv rows, multiples
    of 32; None is 1. v_mean [B, Hkv, Dv]; v_image: V as GPU kernels read it, as
    quantize(image=True) gives it, so that no launch has to make it. dtype, "e4m3"
    or "e5m2": what arrays of uint8 are, as NumPy has no FP8."""

    def __init__(self, descale_q=None, descale_k=None, descale_v=None, block_q=0, block_kv=0, v_mean=None,
                 v_image=None, dtype="e4m3"):
        if dtype not in ("e4m3", "e5m2"):
            raise Error(_abi.ERR_ARGUMENT, f"dtype is {dtype!r}; there are e4m3, e5m2")
        self.scales = descale_q, descale_k, descale_v
        self.blocks = _int32(block_q, "block_q"), _int32(block_kv, "block_kv")
        self.v_mean, self.v_image, self.dtype = v_mean, v_image, dtype

    @classmethod
    def of(cls, q, k, v):
        """Of three results of quantize()."""
        if not q.dtype == k.dtype == v.dtype:
            raise Error(_abi.ERR_ARGUMENT, "q, k and v are of different FP8 types")
        if k.block and v.block and k.block != v.block:
            raise Error(_abi.ERR_ARGUMENT, f"blocks of k have {k.block} rows, those of v {v.block}")
        return cls(q.scale, k.scale, v.scale, q.block, k.block or v.block, v.mean, v.image, q.dtype)

    def name_of(self, name):
        """The facc dtype of an array of that name."""
        return self.dtype if name == "u8" else name

    @property
    def has_blocks(self):
        return any(s is not None and len(s.shape) == 3 for s in self.scales)

    def set(self, arguments):
        """Enters it into the facc_args of Arguments."""
        a = arguments.a
        for view in a.q, a.k, a.v:
            if view.dtype == _abi.DTYPES["u8"][0]:
                view.dtype = _abi.DTYPES[self.dtype][0]
        named = zip(("descale_q", "descale_k", "descale_v", "v_mean", "v_image"),
                    (*self.scales, self.v_mean, self.v_image))
        for name, x in named:
            x = maybe_array(x, name)
            if x is None:
                continue
            view = _abi.tensor()
            arguments._fill(view, x, name)
            if name == "v_image" and view.dtype == _abi.DTYPES["u8"][0]:
                view.dtype = _abi.DTYPES[self.dtype][0]
            setattr(a, name, c.pointer(view))
            arguments.keep += [x, view]
        a.descale_block_q, a.descale_block_kv = self.blocks


def quantize(x, dtype="e4m3", per="tensor", power_of_two=False, hadamard=None, mean=False, image=False, cu_seqlens=None,
             max_seqlen=None, context=None, stream=None):
    """Rounds Q, K or V, [B, H, S, D] of f32, f16 or bf16, to FP8. Gives (data,
    scale, mean, image, block, dtype): data is of float8_e4m3fn or float8_e5m2
    (PyTorch), or uint8.

    per: what shares a scale, from its largest magnitude: "tensor", "head", or a
    number of rows, a multiple of 32. power_of_two: of scales; good for V.
    hadamard: a seed; random signs and a Hadamard transform of each row, which
    spread outliers of Q and K and leave scores as they are if both have the same
    seed. mean: V's channels lose their means over the rows, which are given back
    beside. image: V also as GPU kernels read it. cu_seqlens, i32 [n + 1]: packed
    sequences in [1, H, T, D]; scales and means are of each. NaN and infinities
    become NaN.

    o = facc.attention(q8.data, k8.data, v8.data, fp8=facc.Fp8.of(q8, k8, v8))"""
    x = array(x, "x", stream)
    cu_seqlens = maybe_array(cu_seqlens, "cu_seqlens", stream)
    context = context or default_context()
    if len(x.shape) != 4:
        raise Error(_abi.ERR_ARGUMENT, f"x: shape is {tuple(x.shape)}, expected [B, H, S, D]")
    if dtype not in ("e4m3", "e5m2"):
        raise Error(_abi.ERR_ARGUMENT, f"dtype is {dtype!r}; there are e4m3, e5m2")
    a, out = _arguments(x, dtype, per, mean, image, cu_seqlens, max_seqlen)
    a.power_of_two, a.hadamard = bool(power_of_two), hadamard is not None
    a.seed = 0 if hadamard is None else operator.index(hadamard) % 2**64
    error = new_error()
    if cuda_index(x) < 0:
        check(_lib.facc_quantize(context.handle, c.byref(a), c.byref(error)), error)
    else:
        _launch(context, a, x, dtype, stream, error)
    return out


def _arguments(x, dtype, per, mean, image, cu_seqlens, max_seqlen):
    B, H, S, D = (int(n) for n in x.shape)
    device = cuda_index(x)
    block = 0
    if per not in ("tensor", "head"):
        try:
            block = _int32(per, "per")
        except Error:
            raise Error(_abi.ERR_ARGUMENT, f"per is {per!r}: 'tensor', 'head' or a number of rows") from None
    a = _abi.quantize_args(struct_size=c.sizeof(_abi.quantize_args), block=block, device=max(device, 0))
    seqs, longest = B, S
    if cu_seqlens is not None:
        seqs = int(cu_seqlens.shape[0]) - 1
        a.cu_seqlens = i32_list(cu_seqlens, "cu_seqlens", device, (seqs + 1,), "[n + 1]")
        a.n_seqs = seqs
        a.max_seqlen = 0 if max_seqlen is None else _int32(max_seqlen, "max_seqlen")
        longest = a.max_seqlen or S
    stored = dtype if _has_fp8(x) else "u8"
    scale = {"tensor": (), "head": (seqs, H)}.get(per, (seqs, H, -(-longest // block) if block > 0 else 0))
    arrays = {"out": empty_like(x, (B, H, S, D), stored), "scale": empty_like(x, scale, "f32"), "mean": None,
              "image": None}
    if mean:
        arrays["mean"] = empty_like(x, (seqs, H, D), "f32")
    if image:
        chunks = _lib.facc_v_chunks(S, seqs if cu_seqlens is not None else 0)
        arrays["image"] = empty_like(x, (B, H, chunks, 32 * D), stored)
    fill(getattr(a, "in"), x, "x")
    for name, y in arrays.items():
        if y is not None:
            view = getattr(a, name)
            fill(view, array(y, name), name, writable=True)
            if view.dtype == _abi.DTYPES["u8"][0]:
                view.dtype = _abi.DTYPES[dtype][0]
    return a, Quantized(arrays["out"], arrays["scale"], arrays["mean"], arrays["image"], block, dtype)


def _has_fp8(x):
    return hasattr(x, "new_empty")  # PyTorch


def _launch(context, a, x, dtype, stream, error):
    device = cuda_index(x)
    key = (dtype_name(x, "x"), dtype, int(x.shape[3]), device, a.hadamard, bool(a.mean.data), bool(a.image.data))
    handle = context._quantizers.get(key)
    if handle is None:
        v = _abi.quantize_variant(c.sizeof(_abi.quantize_variant), dtype_number(key[0], "x"),
                                  dtype_number(dtype, "dtype"), key[2], 0, device, *key[4:])
        handle = _create(_lib.facc_quantizer_get, context.handle, c.byref(v))
        context._quantizers[key] = handle
        check(_lib.facc_quantizer_load(handle, device, c.byref(error)), error)
        context._loaded.add(device)
    size, align = c.c_size_t(), c.c_size_t()
    check(_lib.facc_quantizer_workspace_size(handle, c.byref(a), c.byref(size), c.byref(align), c.byref(error)), error)
    workspace = empty_like(x, (size.value,), "u8")  # the allocator keeps it for the stream
    a.workspace, a.workspace_size = array(workspace, "workspace").data_ptr(), size.value
    if stream is None:
        stream = stream_function(x)(device)
    check(_lib.facc_quantizer_launch(handle, c.byref(a), stream, c.byref(error)), error)
