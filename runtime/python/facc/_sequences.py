"""Packed sequences and block masks: the parts of facc_args that say which rows
belong to which sequence, and which blocks of cells count."""
import ctypes as c
import operator
from collections import namedtuple

from . import _abi
from ._error import Error
from ._tensor import array, fill, maybe_array

BlockMask = namedtuple("BlockMask", "kv_num_blocks kv_indices full_kv_num_blocks full_kv_indices BLOCK_SIZE",
                       defaults=(None, None, 128))
BlockMask.__doc__ = """Block lists, the fields of PyTorch's BlockMask: i32 arrays, counts [B or 1, H or 1, rows],
indices [B or 1, H or 1, rows, cols]; BLOCK_SIZE is (query rows, keys) of a block, or one number for both."""


def out_shape(q, v):
    return (*q.shape[:-1], v.shape[-1])


def lse_shape(q):
    """[B, H, Sq]; of packed q [T, H, D]: [H, T]."""
    return q.shape[:3] if q.ndim == 4 else (q.shape[1], q.shape[0])


def need_layout(packed, **arrays):
    for name, x in arrays.items():
        if x.ndim != 4 and not (packed and x.ndim == 3):
            layout = "[T, H, D] or [1, H, T, D]" if packed else "[B, H, S, D]"
            raise Error(_abi.ERR_ARGUMENT, f"{name} must be {layout}, has rank {x.ndim}")


def as_batch(view):
    """Makes [T, H, D] the view [1, H, T, D] that facc.h takes, and [H, T]
    [1, H, T]; others stay."""
    shape, stride = view.shape, view.stride
    if view.rank == 3:
        shape[:4] = 1, shape[1], shape[0], shape[2]
        stride[:4] = 0, stride[1], stride[0], stride[2]
        view.rank = 4


def lse_as_batch(view):
    shape, stride = view.shape, view.stride
    if view.rank == 2:
        shape[:3] = 1, shape[0], shape[1]
        stride[:3] = 0, stride[0], stride[1]
        view.rank = 3


def i32_list(x, what, device, shape, layout):
    """Address of a contiguous i32 array of `shape`; None in it: any extent."""
    view = _abi.tensor()
    dtype, where = fill(view, x, what)
    if where != device:
        raise Error(_abi.ERR_ARGUMENT, f"{what} is not on the same device as q")
    have, stride, step = view.shape[:view.rank], view.stride[:view.rank], 1
    good = dtype == "i32" and len(have) == len(shape) and all(
        want is None or n == want for n, want in zip(have, shape))
    for n, s in zip(reversed(have), reversed(stride)):
        good = good and (n <= 1 or s == step)
        step *= n
    if not good:
        raise Error(_abi.ERR_ARGUMENT, f"{what} must be i32 {layout} and contiguous, is {dtype} {list(have)}")
    return view.data


def _length(value, what):
    if value is None:
        return 0
    try:
        value = operator.index(value)
    except TypeError:
        raise Error(_abi.ERR_ARGUMENT, f"{what} must be an integer, got {value!r}") from None
    if not 0 < value < 2**31:
        raise Error(_abi.ERR_ARGUMENT, f"{what} is {value}; it must be at least 1, and at most 2^30")
    return value


def set_packed(a, device, cu_seqlens_q, cu_seqlens_kv, max_seqlen_q, max_seqlen_kv):
    """Offsets of packed sequences into facc_args."""
    for what, x in ("cu_seqlens_q", cu_seqlens_q), ("cu_seqlens_kv", cu_seqlens_kv):
        if x is None:
            raise Error(_abi.ERR_ARGUMENT, f"packed sequences need both cu_seqlens_q and cu_seqlens_kv; {what} is "
                        "None")
    a.cu_seqlens_q = i32_list(cu_seqlens_q, "cu_seqlens_q", device, (None,), "[n + 1]")
    n = cu_seqlens_q.shape[0] - 1
    if n < 1:
        raise Error(_abi.ERR_ARGUMENT, "cu_seqlens_q must have at least 2 entries, those of one sequence")
    a.cu_seqlens_kv = i32_list(cu_seqlens_kv, "cu_seqlens_kv", device, (n + 1,), f"[{n + 1}], as cu_seqlens_q,")
    a.n_seqs = n
    a.max_seqlen_q = _length(max_seqlen_q, "max_seqlen_q")
    a.max_seqlen_kv = _length(max_seqlen_kv, "max_seqlen_kv")


def _block_size(size):
    both = size if isinstance(size, (tuple, list)) else (size, size)
    if len(both) != 2 or size is None:
        raise Error(_abi.ERR_ARGUMENT, f"block_mask.BLOCK_SIZE must be one or two integers, got {size!r}")
    return [_length(n, "block_mask.BLOCK_SIZE") for n in both]


def block_mask_fields(mask):
    """The lists that an object with the fields of BlockMask has, and its block
    size."""
    try:
        *lists, size = (getattr(mask, f) for f in BlockMask._fields)
    except AttributeError as e:
        raise Error(_abi.ERR_ARGUMENT, f"block_mask must be a BlockMask, PyTorch's or facc's: {e}") from None
    if (lists[2] is None) != (lists[3] is None):
        raise Error(_abi.ERR_ARGUMENT, "block_mask: give both lists of full blocks, or neither")
    return [x for x in lists if x is not None], _block_size(size)


def make_block_mask(mask, device, B, H):
    """facc_block_mask of an object with the fields of BlockMask, and what it
    borrows from."""
    try:
        counts, indices, full_counts, full_indices, size = (getattr(mask, f) for f in BlockMask._fields)
    except AttributeError as e:
        raise Error(_abi.ERR_ARGUMENT, f"block_mask must be a BlockMask, PyTorch's or facc's: {e}") from None
    counts, indices = array(counts, "block_mask.kv_num_blocks"), array(indices, "block_mask.kv_indices")
    full_counts = maybe_array(full_counts, "block_mask.full_kv_num_blocks")
    full_indices = maybe_array(full_indices, "block_mask.full_kv_indices")
    if counts.ndim != 3 or indices.ndim != 4:
        raise Error(_abi.ERR_ARGUMENT, "block_mask: kv_num_blocks must be [B or 1, H or 1, rows], kv_indices "
                    f"[B or 1, H or 1, rows, cols]; their ranks are {counts.ndim} and {indices.ndim}")
    if counts.shape[0] not in (1, B) or counts.shape[1] not in (1, H):
        raise Error(_abi.ERR_ARGUMENT, f"block_mask: kv_num_blocks is {list(counts.shape)}, for B {B} and H {H} it "
                    f"must be [{B} or 1, {H} or 1, rows]")
    if (full_counts is None) != (full_indices is None):
        raise Error(_abi.ERR_ARGUMENT, "block_mask: give both lists of full blocks, or neither")
    m = _abi.block_mask(struct_size=c.sizeof(_abi.block_mask))
    m.block_q, m.block_kv = _block_size(size)
    lists, all_lists = tuple(counts.shape), tuple(indices.shape)
    m.rows, m.cols, m.per_b, m.per_h = lists[2], all_lists[3], lists[0] > 1, lists[1] > 1

    def address(x, name, shape):
        return i32_list(x, "block_mask." + name, device, shape, str(list(shape)))
    m.kv_num_blocks = address(counts, "kv_num_blocks", lists)
    m.kv_indices = address(indices, "kv_indices", (*lists, all_lists[3]))
    if full_counts is not None:
        m.full_kv_num_blocks = address(full_counts, "full_kv_num_blocks", lists)
        m.full_kv_indices = address(full_indices, "full_kv_indices", (*lists, all_lists[3]))
    return m, (counts, indices, full_counts, full_indices)
