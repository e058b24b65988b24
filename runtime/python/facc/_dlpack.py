"""Arrays of any framework through DLPack, without copies: Array has the few
attributes of a PyTorch tensor that this package looks at."""
import ctypes as c
import sys
import types

from . import _abi
from ._error import Error

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13
READ_ONLY = 1  # bit of the flags
# (type code, bits): names as in _abi.DTYPES
NAMES = {(2, 32): "float32", (2, 16): "float16", (4, 16): "bfloat16", (10, 8): "float8_e4m3fn", (12, 8): "float8_e5m2",
         (0, 8): "int8", (1, 8): "uint8", (0, 16): "int16", (0, 32): "int32", (0, 64): "int64", (6, 8): "bool",
         (2, 64): "float64"}


class tensor(c.Structure):
    _fields_ = [("data", c.c_void_p), ("device_type", c.c_int32), ("device_id", c.c_int32), ("ndim", c.c_int32),
                ("code", c.c_uint8), ("bits", c.c_uint8), ("lanes", c.c_uint16), ("shape", c.POINTER(c.c_int64)),
                ("strides", c.POINTER(c.c_int64)), ("byte_offset", c.c_uint64)]


class managed(c.Structure):  # DLManagedTensor
    _fields_ = [("tensor", tensor), ("manager", c.c_void_p), ("deleter", c.c_void_p)]


class versioned(c.Structure):  # DLManagedTensorVersioned
    _fields_ = [("major", c.c_uint32), ("minor", c.c_uint32), ("manager", c.c_void_p), ("deleter", c.c_void_p),
                ("flags", c.c_uint64), ("tensor", tensor)]


_pointer = c.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = c.c_void_p, (c.py_object, c.c_char_p)
_is_valid = c.pythonapi.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = c.c_int, (c.py_object, c.c_char_p)


def current_stream(x, device):
    """The raw stream of x's framework: CuPy's, else PyTorch's, else the legacy
    default stream."""
    cupy = sys.modules.get("cupy")
    if cupy is not None and isinstance(x, cupy.ndarray):
        with cupy.cuda.Device(device):
            return cupy.cuda.get_current_stream().ptr
    torch = sys.modules.get("torch")
    return torch._C._cuda_getCurrentRawStream(device) if torch is not None else 0


def capsule_of(x, device_type, device, stream):
    """The producer makes x's data ready for work on `stream`."""
    more = {}
    if device_type in (CUDA, CUDA_MANAGED):
        if stream is None:
            stream = current_stream(x, device)
        more["stream"] = stream or 1  # 1 is DLPack's word for the legacy default
    try:
        return x.__dlpack__(max_version=(1, 1), **more), stream
    except TypeError:  # producers from before DLPack 1.0
        return x.__dlpack__(**more), stream


class Array:
    """A borrowed view of x; never calls the deleter, which its capsule does."""

    requires_grad = False

    def __init__(self, x, what, stream=None):
        try:
            device_type, device = x.__dlpack_device__()
            device_type, device = int(device_type), int(device)
            self.capsule, self.stream = capsule_of(x, device_type, device, stream)
        except (AttributeError, BufferError, RuntimeError, TypeError, ValueError) as e:
            raise Error(_abi.ERR_ARGUMENT, f"{what}: {type(x).__name__} gives no DLPack: {e}") from None
        self.owner, self.read_only = x, False
        if _is_valid(self.capsule, b"dltensor_versioned"):
            m = c.cast(_pointer(self.capsule, b"dltensor_versioned"), c.POINTER(versioned)).contents
            if m.major != 1:
                raise Error(_abi.ERR_ARGUMENT, f"{what}: DLPack {m.major}.{m.minor} is not known")
            self.read_only = bool(m.flags & READ_ONLY)
        elif _is_valid(self.capsule, b"dltensor"):
            m = c.cast(_pointer(self.capsule, b"dltensor"), c.POINTER(managed)).contents
        else:
            raise Error(_abi.ERR_ARGUMENT, f"{what}: {type(x).__name__}.__dlpack__ gave no DLPack capsule")
        self._describe(m.tensor, what)

    def _describe(self, t, what):
        if t.device_type not in (CPU, CUDA, CUDA_HOST, CUDA_MANAGED):
            raise Error(_abi.ERR_ARGUMENT, f"{what}: DLPack device type {t.device_type} is not supported")
        self.is_cuda = t.device_type in (CUDA, CUDA_MANAGED)
        self.index = t.device_id if self.is_cuda else -1
        self.device = types.SimpleNamespace(type="cuda" if self.is_cuda else "cpu", index=self.index)
        self.dtype = NAMES.get((t.code, t.bits)) if t.lanes == 1 else None
        if self.dtype is None:
            raise Error(_abi.ERR_ARGUMENT, f"{what}: element type {t.code}/{t.bits}x{t.lanes} of DLPack is not "
                        "supported")
        self.itemsize, self.ndim = t.bits // 8, t.ndim
        self.shape = tuple(t.shape[:t.ndim])
        self.address = (t.data or 0) + t.byte_offset
        if t.strides:
            self.strides = tuple(t.strides[:t.ndim])
        else:  # compact, row-major
            strides, step = [], 1
            for n in reversed(self.shape):
                strides.append(step)
                step *= n
            self.strides = tuple(reversed(strides))

    def data_ptr(self):
        return self.address

    def stride(self):
        return self.strides

    def element_size(self):
        return self.itemsize

    def get_device(self):
        return self.index


def allocate(x, shape, name):
    """A new array for results beside x, `name` as NumPy says it: NumPy's on the
    host, on a GPU CuPy's for CuPy's arrays, else PyTorch's."""
    if not x.is_cuda:
        import numpy
        return numpy.empty(shape, name)
    cupy = sys.modules.get("cupy")
    if cupy is not None and (isinstance(x.owner, cupy.ndarray) or "torch" not in sys.modules) and name != "bfloat16":
        with cupy.cuda.Device(x.index):
            return cupy.empty(shape, name)
    torch = sys.modules.get("torch")
    if torch is None:
        raise Error(_abi.ERR_ARGUMENT, "memory on the GPU comes from PyTorch or CuPy: import one of them first")
    return torch.empty(shape, dtype=getattr(torch, name), device=f"cuda:{x.index}")
