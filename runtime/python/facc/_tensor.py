"""NumPy arrays and PyTorch tensors as facc_tensor. PyTorch is looked at only
where the caller's object comes from it, so that it need not be installed."""
import functools
import sys

from . import _abi
from ._error import Error


def torch_of(x):
    """The torch module if x is its tensor, else None."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and isinstance(x, torch.Tensor) else None


def need_array(x, what):
    if torch_of(x) is None and not hasattr(x, "__array_interface__"):
        raise Error(_abi.ERR_ARGUMENT, f"{what} must be a NumPy array or a PyTorch tensor, got "
                    f"{type(x).__name__}")


@functools.lru_cache
def _dtype_name(dtype):
    return _abi.DTYPE_OF_ARRAY.get(str(dtype).rpartition(".")[2])


def dtype_name(x, what):
    need_array(x, what)
    return _dtype_of(x, what)


def _dtype_of(x, what):
    name = _dtype_name(x.dtype)
    if name is None:
        raise Error(_abi.ERR_ARGUMENT, f"{what}: element type {x.dtype} is not supported")
    return name


def cuda_index(x):
    """Device ordinal of a CUDA tensor, -1 for host memory."""
    if torch_of(x) is None:
        return -1
    if x.is_cuda:
        return x.get_device()
    if x.device.type != "cpu":
        raise Error(_abi.ERR_ARGUMENT, f"tensors on {x.device} are not supported")
    return -1


def refuse_gradient(x, what, torch):
    """There is no backward yet; a silently missing gradient would be worse
    than an error."""
    if x.requires_grad and torch.is_grad_enabled():
        raise Error(_abi.ERR_UNSUPPORTED, f"{what} requires a gradient, and facc has no backward "
                    "yet: detach it, or call inside torch.no_grad()")


def fill(view, x, what, writable=False):
    """Describes x in the facc_tensor `view`, which then borrows x's memory.
    Gives its facc dtype and cuda_index."""
    torch = torch_of(x)
    if torch is None:
        need_array(x, what)
    name, rank = _dtype_of(x, what), x.ndim
    if rank > _abi.MAX_DIMS:
        raise Error(_abi.ERR_ARGUMENT, f"{what} has rank {rank}; at most {_abi.MAX_DIMS}")
    if torch is not None:
        refuse_gradient(x, what, torch)
        view.data, strides, device = x.data_ptr(), x.stride(), cuda_index(x)
    else:
        device, interface = -1, x.__array_interface__
        view.data, read_only = interface["data"]
        if writable and read_only:
            raise Error(_abi.ERR_ARGUMENT, f"{what} is read-only")
        if not x.dtype.isnative:
            raise Error(_abi.ERR_ARGUMENT, f"{what} is not in this machine's byte order")
        size = x.itemsize
        if any(s % size for s in x.strides):
            raise Error(_abi.ERR_ARGUMENT, f"{what}: strides {x.strides} are no multiples of {size} bytes")
        strides = [s // size for s in x.strides]
    view.dtype, view.rank = _abi.DTYPES[name][0], rank
    view.shape[:rank], view.stride[:rank] = x.shape, strides
    return name, device


def is_aligned(x):
    """Whether a CUDA tensor [B, H, S, D] or [T, H, D] is what facc.h calls
    aligned: family sm90 takes it. Strides of torch have no sign."""
    if x.data_ptr() % 16:
        return False
    shape, strides, width = x.shape, x.stride(), 16 // x.element_size()
    for n, s in zip(shape[:-1], strides):
        if s % width and n > 1:
            return False
    row = -2 if len(shape) == 4 else 0
    return shape[row] <= 1 or strides[row] >= shape[-1]


def empty_like(x, shape, dtype):
    """A new array of x's kind (and device): shape, facc dtype name."""
    torch = torch_of(x)
    if torch is not None:
        return torch.empty(shape, dtype=getattr(torch, _abi.DTYPES[dtype][1]), device=x.device)
    import numpy
    name = _abi.DTYPES[dtype][1]
    return numpy.empty(shape, x.dtype if name == x.dtype.name else name)
