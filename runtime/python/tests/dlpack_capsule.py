"""DLPack capsules of NumPy arrays that say what a test wants: another device,
no strides, a byte offset, an old or a new struct."""
import ctypes as c

from facc import _dlpack

_new = c.pythonapi.PyCapsule_New
_new.restype, _new.argtypes = c.py_object, (c.c_void_p, c.c_char_p, c.c_void_p)
_alive = []  # the structs: a capsule without a destructor borrows them
CODES = {"f": 2, "i": 0, "u": 1, "b": 6}


def dlpack_capsule(values, device_type=1, device=0, versioned=False, flags=0, strides=True, offset=0, code=None,
                   lanes=1, major=1):
    m = (_dlpack.versioned if versioned else _dlpack.managed)()
    if versioned:
        m.major, m.minor, m.flags = major, 0, flags
    t = m.tensor
    extents = c.c_int64 * values.ndim
    shape, steps = extents(*values.shape), extents(*(s // values.itemsize for s in values.strides))
    t.data, t.byte_offset = values.ctypes.data - offset, offset
    t.device_type, t.device_id, t.ndim = device_type, device, values.ndim
    t.code, t.bits, t.lanes = CODES[values.dtype.kind] if code is None else code, 8 * values.itemsize, lanes
    t.shape, t.strides = shape, steps if strides else None
    _alive.append((m, shape, steps, values))
    return _new(c.addressof(m), b"dltensor_versioned" if versioned else b"dltensor", None)
