"""Calls of attention() like two before: the same mods, and tensors of the same
types, shapes, strides and devices. The facc_args of the second are used again with
other pointers, params and seeds in them, and each launch checks them.

Of PyTorch's CUDA tensors alone, and only where nothing is to be said: what is
not plain (gradients, lazy negation, other classes, block masks, FP8) takes the
long way, which knows what to do or why not, and so does what a launch refuses.
Nothing here keeps a tensor alive."""
import ctypes as c
import sys

from . import _abi
from ._core import _lib, Program, default_context
from ._mods import kind_of, mod_key

MOST = 256  # forms of calls that a context or a Program remembers
NUMBERS = int, float, type(None)
_launch = _lib.facc_kernel_launch


def _param_kind(x):
    """As find_program tells types of params apart; None: it has to look."""
    if type(x) is int:
        return "i32" if -2**31 <= x < 2**31 else "i64"
    return "f32" if type(x) is float else None


def _program_key(score_mod, mask_mod, program):
    """What changes with the program; None: the long way says what is wrong."""
    if program is None:
        return mod_key(score_mod), mod_key(mask_mod)
    if score_mod is not None or mask_mod is not None:
        return None
    if isinstance(program, Program):
        return program.number
    return "program", program if kind_of(program) == "chunk" else mod_key(program)


class Form:
    """What a call shares with those like it, and the addresses that it does
    not, in the order of `fields` (of facc_args) and `names` (captured)."""

    __slots__ = "known", "key", "free", "addresses", "fields", "names"

    def __init__(self, known, key, addresses, fields, names):
        self.known, self.key, self.addresses, self.fields, self.names = known, key, addresses, fields, names
        self.free = known.get(key)

    def launch(self, params, seed, offset, stream):
        """Output and LSE; None: nothing was launched, and the long way does it."""
        if not self.free:
            return None
        try:
            call = self.free.pop()
        except IndexError:  # another thread was faster
            return None
        results = call(self.addresses, params, seed, offset, stream)
        if results is not None:
            self.free.append(call)
        return results

    def remember(self, launch):
        """From the second time on: lengths that grow from call to call come once."""
        if self.free is not None:
            self.free.append(Call(launch, self.fields, self.names))
            return
        if len(self.known) >= MOST:
            self.known.clear()
        self.known[self.key] = []


def form_of(q, k, v, score_mod, mask_mod, program, tensors, params, scale, out, return_lse, seqused_q, seqused_kv,
            context, cu_seqlens_q, cu_seqlens_kv, max_seqlen_q, max_seqlen_kv, block_mask, sinks, dropout_p, seed,
            fp8, exact_peaks):
    """The Form of these arguments of attention(); None: it has none."""
    torch = sys.modules.get("torch")
    if (torch is None or type(q) is not torch.Tensor or not q.is_cuda or block_mask is not None or fp8 is not None
            or exact_peaks or torch.autograd.forward_ad._current_level >= 0):
        return None
    for x in scale, max_seqlen_q, max_seqlen_kv, dropout_p:
        if type(x) not in NUMBERS:
            return None
    program_key = _program_key(score_mod, mask_mod, program)
    if program_key is None or dropout_p and seed is None:
        return None
    fields, arrays = ["q", "k", "v"], [q, k, v]
    for name, x in (("o", out), ("seqused_q", seqused_q), ("seqused_kv", seqused_kv), ("cu_seqlens_q", cu_seqlens_q),
                    ("cu_seqlens_kv", cu_seqlens_kv), ("sinks", sinks)):
        if x is not None:
            fields.append(name)
            arrays.append(x)
    key, names = [program_key, scale, max_seqlen_q, max_seqlen_kv, dropout_p, bool(return_lse), *fields], ()
    if tensors:
        if type(tensors) is not dict:
            return None
        names = tuple(tensors)
        arrays.extend(tensors.values())
        key.append(names)
    if params:
        if type(params) is not dict:
            return None
        kinds = [_param_kind(x) for x in params.values()]
        if None in kinds:
            return None
        key += "params", *params, *kinds
    addresses, plain = [], (torch.Tensor, torch.nn.Parameter)
    try:
        for x in arrays:
            if (type(x) not in plain or not x.is_cuda or x.is_neg() or x.requires_grad and torch.is_grad_enabled()):
                return None
            address = x.data_ptr()
            addresses.append(address)
            key += x.dtype, *x.shape, *x.stride(), x.get_device(), address % 16
        known = (program if isinstance(program, Program) else context or default_context()).calls
        return Form(known, tuple(key), addresses, fields, names)
    except (RuntimeError, TypeError):  # no memory of its own; no key
        return None


def _pointer(struct, at, field):
    """The pointer `field` of a struct in `struct`, which it keeps."""
    return c.c_void_p.from_buffer(struct, at + field.offset)


def _make(pointer, shape, dtype, device):
    x = sys.modules["torch"].empty(shape, dtype=dtype, device=device)
    pointer.value = x.data_ptr()
    return x


class Call:
    """The facc_args of a Launch that has launched, without its tensors."""

    def __init__(self, launch, fields, names):
        self.arguments, self.kernel, self.device = launch.arguments, launch.kernel, launch.device
        self.handle, self.args = launch._call
        self.stream = launch._stream
        self.arguments.keep = None
        a, program = self.arguments.a, launch.kernel.program
        self.addresses = [self._of_field(name) for name in fields]
        at = {d.name: n * c.sizeof(_abi.tensor) for n, d in enumerate(program.tensors)}
        self.addresses += [_pointer(self.arguments.views, at[name], _abi.tensor.data) for name in names]
        made = [None if "o" in fields else launch.out, launch.lse, launch.workspace]
        self.made = [x if x is None else (self._of_field(name), tuple(x.shape), x.dtype, x.device)
                     for name, x in zip(("o", "lse", "workspace"), made)]
        self.params = [(n, d.name) for n, d in enumerate(program.params)]
        self.dropout = a.dropout_p != 0

    def _of_field(self, name):
        field = getattr(_abi.args, name)
        if name == "sinks":
            return _pointer(self.arguments.sinks, 0, _abi.tensor.data)
        if name in ("q", "k", "v", "o", "lse"):
            return _pointer(self.arguments.a, field.offset, _abi.tensor.data)
        return _pointer(self.arguments.a, 0, field)

    def __call__(self, addresses, params, seed, offset, stream):
        """What is made for it, else None each: the output, unless it is given,
        and the LSE. None alone: the launch was refused."""
        for pointer, address in zip(self.addresses, addresses):
            pointer.value = address
        for n, name in self.params:
            self.arguments.set_param(self.kernel.program, n, params[name])
        if self.dropout:
            self.arguments.set_dropout(seed, offset)
        out, lse, workspace = self.made
        out, lse = out and _make(*out), lse and _make(*lse)
        workspace = workspace and _make(*workspace)  # the allocator keeps it for the stream
        if stream is None:
            stream = self.stream(self.device)
        return None if _launch(self.handle, self.args, stream, None) else (out, lse)
