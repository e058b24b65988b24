"""NumPy arrays, PyTorch tensors and, through DLPack, any other framework's as
facc_tensor. PyTorch is looked at only where the caller's object comes from it,
so that it need not be installed."""
import functools
import sys

from . import _abi
from ._dlpack import Array, allocate, current_stream
from ._error import Error


def torch_of(x):
    """The torch module if x is its tensor, else None."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and isinstance(x, torch.Tensor) else None


def array(x, what, stream=None):
    """x, if it is a NumPy array or PyTorch tensor, or a view of it by DLPack.
    stream: the raw one that a GPU's data must be ready for; None is x's
    framework's current one."""
    if isinstance(x, Array) or torch_of(x) is not None or hasattr(x, "__array_interface__"):
        return x
    if hasattr(x, "__dlpack__"):
        return Array(x, what, stream)
    raise Error(_abi.ERR_ARGUMENT, f"{what} must be a NumPy array or a PyTorch tensor, or have DLPack, got "
                f"{type(x).__name__}")


def maybe_array(x, what, stream=None):
    return None if x is None else array(x, what, stream)


@functools.lru_cache
def _dtype_name(dtype):
    return _abi.DTYPE_OF_ARRAY.get(str(dtype).rpartition(".")[2])


def dtype_name(x, what):
    """The facc dtype of what array() gave."""
    name = _dtype_name(x.dtype)
    if name is None:
        raise Error(_abi.ERR_ARGUMENT, f"{what}: element type {x.dtype} is not supported")
    return name


def cuda_index(x):
    """Device ordinal of a CUDA tensor, -1 for host memory."""
    if isinstance(x, Array):
        return x.index
    if torch_of(x) is None:
        return -1
    if x.is_cuda:
        return x.get_device()
    if x.device.type != "cpu":
        raise Error(_abi.ERR_ARGUMENT, f"tensors on {x.device} are not supported")
    return -1


def refuse_gradient(x, what, torch):
    """There is no backward yet, and no forward mode; a silently missing gradient
    would be worse than an error."""
    if x.requires_grad and torch.is_grad_enabled():
        raise Error(_abi.ERR_UNSUPPORTED, f"{what} requires a gradient, and facc has no backward "
                    "yet: detach it, or call inside torch.no_grad()")
    forward = torch.autograd.forward_ad
    if forward._current_level >= 0 and forward.unpack_dual(x).tangent is not None:
        raise Error(_abi.ERR_UNSUPPORTED, f"{what} has a tangent, and facc has no derivatives yet: detach it")


def torch_address(x, what):
    """Of the memory that holds x's values as they are."""
    if x.is_neg():
        raise Error(_abi.ERR_ARGUMENT, f"{what} is a view with the negative bit: give {what}.resolve_neg()")
    try:
        return x.data_ptr()
    except RuntimeError:
        raise Error(_abi.ERR_UNSUPPORTED, f"{what} has no memory of its own: sparse tensors, torch.vmap and "
                    "torch.func.jvp are not supported") from None


def fill(view, x, what, writable=False):
    """Describes what array() gave in the facc_tensor `view`, which then borrows
    its memory. Gives its facc dtype and cuda_index."""
    torch = torch_of(x)
    name, rank = dtype_name(x, what), x.ndim
    if rank > _abi.MAX_DIMS:
        raise Error(_abi.ERR_ARGUMENT, f"{what} has rank {rank}; at most {_abi.MAX_DIMS}")
    if torch is not None or isinstance(x, Array):
        device = cuda_index(x)
        if torch is not None:
            refuse_gradient(x, what, torch)
            view.data = torch_address(x, what)
        elif writable and x.read_only:
            raise Error(_abi.ERR_ARGUMENT, f"{what} is read-only")
        else:
            view.data = x.data_ptr()
        strides = x.stride()
    else:
        view.data, strides, device = *_numpy_memory(x, what, writable), -1
    view.dtype, view.rank = _abi.DTYPES[name][0], rank
    view.shape[:rank], view.stride[:rank] = x.shape, strides
    return name, device


def _numpy_memory(x, what, writable):
    """Address, strides in elements."""
    address, read_only = x.__array_interface__["data"]
    if writable and read_only:
        raise Error(_abi.ERR_ARGUMENT, f"{what} is read-only")
    if not x.dtype.isnative:
        raise Error(_abi.ERR_ARGUMENT, f"{what} is not in this machine's byte order")
    size = x.itemsize
    if any(s % size for s in x.strides):
        raise Error(_abi.ERR_ARGUMENT, f"{what}: strides {x.strides} are no multiples of {size} bytes")
    return address, [s // size for s in x.strides]


def is_capturing(x):
    """Whether PyTorch captures a graph of the stream that a CUDA tensor's calls go
    to; other frameworks are not asked."""
    torch = torch_of(x)
    return torch is not None and torch.cuda.is_current_stream_capturing()


def is_aligned(x, what):
    """Whether a CUDA tensor [B, H, S, D] or [T, H, D] is what facc.h calls
    aligned: family sm90 takes it."""
    try:
        address = x.data_ptr()
    except RuntimeError:
        address = torch_address(x, what)  # says why
    if address % 16:
        return False
    shape, strides, width = x.shape, x.stride(), 16 // x.element_size()
    for n, s in zip(shape[:-1], strides):
        if n > 1 and (s % width or s < 0):
            return False
    row = -2 if len(shape) == 4 else 0
    return shape[row] <= 1 or strides[row] >= shape[-1]


def empty_like(x, shape, dtype):
    """A new array of x's kind (and device): shape, facc dtype name."""
    torch, name = torch_of(x), _abi.DTYPES[dtype][1]
    if torch is not None:
        return torch.empty(shape, dtype=getattr(torch, name), device=x.device)
    if isinstance(x, Array):
        return allocate(x, shape, name)
    import numpy
    return numpy.empty(shape, x.dtype if name == x.dtype.name else name)


def stream_function(x):
    """For a CUDA tensor: device ordinal -> its framework's current raw stream."""
    torch = torch_of(x)
    if torch is not None:
        return torch._C._cuda_getCurrentRawStream
    return functools.partial(current_stream, x.owner)
