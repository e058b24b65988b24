"""The few names of torch that the package looks at, on NumPy arrays."""
import collections
import types

import numpy as np

CURRENT_STREAM = 0x7000


Device = collections.namedtuple("Device", "type index")


class Tensor:
    def __init__(self, values, requires_grad=False, device=-1):
        self.values, self.requires_grad, self.index = values, requires_grad, device
        self.shape, self.ndim, self.dtype = values.shape, values.ndim, f"torch.{values.dtype}"
        self.is_cuda = device >= 0
        self.device = Device("cuda" if self.is_cuda else "cpu", device)

    def get_device(self):
        return self.index

    def is_neg(self):
        return False

    def data_ptr(self):
        return self.values.ctypes.data

    def element_size(self):
        return self.values.itemsize

    def stride(self):
        return tuple(s // self.values.itemsize for s in self.values.strides)


def empty(shape, dtype, device):
    """Aligned as PyTorch's blocks are."""
    dtype = str(dtype).rpartition(".")[2]
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    block = np.empty(size + 512, np.uint8)
    values = block[-block.ctypes.data % 512:][:size].view(dtype).reshape(shape)
    return Tensor(values, device=int(device[5:]) if isinstance(device, str) else device.index)


def torch(recording=False, capturing=False):
    return types.SimpleNamespace(
        cuda=types.SimpleNamespace(is_current_stream_capturing=lambda: capturing),
        Tensor=Tensor, nn=types.SimpleNamespace(Parameter=Tensor), uint8="uint8", float32="float32", float16="float16", is_grad_enabled=lambda: recording,
        autograd=types.SimpleNamespace(forward_ad=types.SimpleNamespace(_current_level=-1)), empty=empty,
        _C=types.SimpleNamespace(_cuda_getCurrentRawStream=lambda device: CURRENT_STREAM + device))
