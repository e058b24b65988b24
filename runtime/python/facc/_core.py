"""Context, Program, Kernel and Launch: the handles of facc.h as objects.

Nothing on the GPU is freed behind the user's back: a kernel may be in flight
when Python drops the last name for it, so kernels live until Context.close,
which waits for the devices first."""
import ctypes as c
import itertools
import operator
import os
import weakref
from collections import namedtuple

from . import _abi
from ._error import Error, check, new_error, warn
from ._sequences import (as_batch, i32_list, lse_as_batch, lse_shape, make_block_mask, need_layout, out_shape,
                         set_packed)
from ._tensor import (array, cuda_index, dtype_name, empty_like, fill, is_capturing, maybe_array,
                      stream_function)

_lib = _abi.load()

Declared = namedtuple("Declared", "name dtype shape")  # shape: integers or dimension names
Info = namedtuple("Info", [n for n, _ in _abi.kernel_info._fields_[1:] if n != "reserved0"])


def version():
    return _lib.facc_version().decode()


def _create(function, *arguments):
    """Calls a function of the form f(out, ..., err); gives the handle."""
    handle, error = c.c_void_p(), new_error()
    check(function(c.byref(handle), *arguments, c.byref(error)), error)
    return handle


def _take_text(handle):
    text = c.string_at(handle).decode(errors="replace")
    _lib.facc_string_free(handle)
    return text


def _encode(text, what):
    """Bytes for a char pointer: of an expression, a name, or a path, which may
    hold any bytes. C would end it at a NUL."""
    if text is None:
        return None
    try:
        text = os.fsencode(text)
    except (TypeError, ValueError):
        raise Error(_abi.ERR_ARGUMENT, f"{what} must be text, got {text!r}") from None
    if b"\0" in text:
        raise Error(_abi.ERR_ARGUMENT, f"{what} holds a NUL character")
    return text


def _int32(value, what):
    """What an int32_t holds; ctypes would wrap the rest."""
    try:
        value = operator.index(value)
    except TypeError:
        raise Error(_abi.ERR_ARGUMENT, f"{what} must be an integer, got {value!r}") from None
    if not -2**31 <= value < 2**31:
        raise Error(_abi.ERR_ARGUMENT, f"{what} is {value}, beyond 32 bits")
    return value


def _choice(values, value, what):
    try:
        return values[value]
    except (KeyError, TypeError):
        names = ", ".join(str(v) for v in values)
        raise Error(_abi.ERR_ARGUMENT, f"{what} is {value!r}; there are {names}") from None


class Context:
    """The cache, the drivers and the CPU threads. on_compile(key, source,
    seconds) is called when a kernel was asked for, on_warning(message) instead
    of printing. cache_mode: None (environment), "rw", "ro" or "off". manifest: a
    file that records what kernels are asked for (facc compile --manifest)."""

    def __init__(self, cache_dirs=None, cache_mode=None, no_jit=False, nvrtc=None, templates=None,
                 cpu_threads=0, on_compile=None, on_warning=None, manifest=None):
        modes = {None: 0, "rw": 1, "ro": 2, "off": 3}
        o = _abi.options(struct_size=c.sizeof(_abi.options),
                         cache_dirs=_encode(cache_dirs, "cache_dirs"),
                         cache_mode=_choice(modes, cache_mode, "cache_mode"), no_jit=bool(no_jit),
                         nvrtc_path=_encode(nvrtc, "nvrtc"),
                         template_dir=_encode(templates, "templates"), manifest=_encode(manifest, "manifest"),
                         cpu_threads=_int32(cpu_threads, "cpu_threads"))
        for what, function in (("on_compile", on_compile), ("on_warning", on_warning)):
            if function is not None and not callable(function):
                raise Error(_abi.ERR_ARGUMENT, f"{what} must be a function, got {function!r}")
        if on_compile:
            o.on_compile = _abi.ON_COMPILE(lambda _, e: on_compile(
                e[0].key.decode(), e[0].source.decode(), e[0].seconds))
        if on_warning:
            o.on_warning = _abi.ON_WARNING(lambda _, m: on_warning(m.decode(errors="replace")))
        self._callbacks = o.on_compile, o.on_warning
        self.handle = _create(_lib.facc_ctx_create, c.byref(o))
        self._kernels = []      # handles, freed by close()
        self._all = weakref.WeakSet()  # Programs, closed by close()
        self._programs = {}     # of mods, by their texts and declarations (_mods.py)
        self._files = {}        # Programs of files, by inode, time and size
        self._loaded = set()    # devices with a kernel of ours
        self.calls = {}         # launched ones, by their forms (_again.py)
        self._quantizers = {}   # handles of _fp8.py, by what is compiled in

    def close(self):
        """Waits for the devices in use, then frees everything. Programs and
        kernels of this context must not be used afterwards."""
        if not self.handle:
            return
        for device in self._loaded:
            error = new_error()
            check(_lib.facc_device_synchronize(self.handle, device, c.byref(error)), error)
        for kernel in self._kernels:
            _lib.facc_kernel_free(kernel)
            kernel.value = None  # seen by its Kernel and Launches: an error, no crash
        for quantizer in self._quantizers.values():
            _lib.facc_quantizer_free(quantizer)
        self._quantizers = {}
        for program in list(self._all):
            program.close()
        _lib.facc_ctx_free(self.handle)
        self.handle, self._kernels, self._programs, self._files, self.calls = None, [], {}, {}, {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def system(self):
        """Driver, NVRTC, cache and CPU as a dict."""
        info, error = _abi.system_info(struct_size=c.sizeof(_abi.system_info)), new_error()
        check(_lib.facc_system(self.handle, c.byref(info), c.byref(error)), error)
        return _as_dict(info)

    def device(self, index=0):
        """Name, architecture and sizes of a GPU as a dict."""
        info, error = _abi.device_info(struct_size=c.sizeof(_abi.device_info)), new_error()
        check(_lib.facc_device_info_get(self.handle, _int32(index, "device"), c.byref(info), c.byref(error)), error)
        return _as_dict(info)

    def clear_cache(self):
        removed, error = c.c_int64(), new_error()
        check(_lib.facc_cache_clear(self.handle, c.byref(removed), c.byref(error)), error)
        return removed.value


def _as_dict(info):
    values = {n: getattr(info, n) for n, _ in info._fields_[1:] if n != "reserved0"}
    return {n: v.decode(errors="replace") if isinstance(v, bytes) else v
            for n, v in values.items()}


_default = []


def default_context():
    """The context of calls that name none; made on first use."""
    if not _default:
        _default.append(Context())
    return _default[0]


class Program:
    """A traced score_mod and mask_mod. tensors and params list what it takes;
    warning is what the lint says, "" for nothing: a FaccWarning when it is made."""

    by_number = weakref.WeakValueDictionary()
    _numbers = itertools.count()

    def __init__(self, handle, context, source=None):
        self.number = next(self._numbers)
        self.by_number[self.number] = self
        self.handle, self.context = handle, context
        self._finalizer = weakref.finalize(self, _lib.facc_program_free, handle)
        self._finalizer.atexit = False
        context._all.add(self)
        self.tensors = self._declared(_lib.facc_program_tensor_count, _lib.facc_program_tensor)
        self.params = self._declared(_lib.facc_program_param_count, _lib.facc_program_param)
        self.source = source  # of a composed text, whose lines are other texts' (_mods.py)
        warning = _lib.facc_program_warning(handle).decode(errors="replace")
        self.warning = source.renamed(warning) if source else warning
        self._kernels = {}
        self.calls = {}  # of attention(program=self), by their forms (_again.py)

    @classmethod
    def from_file(cls, path, context=None):
        context = context or default_context()
        return cls(_create(_lib.facc_program_load_file, context.handle, _encode(path, "path")), context).tell()

    @classmethod
    def from_string(cls, text, name="string", context=None):
        return cls.untold(text, name, context or default_context()).tell()

    @classmethod
    def untold(cls, text, name, context, source=None):
        """As from_string, without a word of what the lint says."""
        try:
            text = text.encode(errors="surrogateescape")
        except (AttributeError, ValueError):
            raise Error(_abi.ERR_ARGUMENT, f"a program must be text, got {text!r}") from None
        return cls(_create(_lib.facc_program_load_string, context.handle, _encode(name, "name"), text,
                           len(text)), context, source)

    @classmethod
    def from_expressions(cls, score=None, mask=None, declarations=(), context=None):
        """One-line expressions over score, b, h, q, kv and the declared names.
        declarations: (name, facc dtype, shape), shape a tuple of integers or
        dimension names ("B" "H" "Hkv" "q" "kv" "any"), or None for a param."""
        context = context or default_context()
        items = (_abi.declaration * len(declarations))()
        for item, (name, dtype, shape) in zip(items, declarations):
            item.name, item.dtype = _encode(name, "a declared name"), dtype_number(dtype, name)
            item.is_param, item.rank = shape is None, len(shape or ())
            if item.rank > _abi.MAX_DIMS:
                raise Error(_abi.ERR_ARGUMENT, f"tensor '{name}' has rank {item.rank}; at most {_abi.MAX_DIMS}")
            for n, extent in enumerate(shape or ()):
                if isinstance(extent, str):
                    item.shape[n], item.dim_names[n] = -1, extent.encode()
                else:
                    item.shape[n] = extent
        return cls(_create(_lib.facc_program_load_expressions, context.handle,
                           _encode(score, "score_mod"), _encode(mask, "mask_mod"), items,
                           len(items)), context).tell()

    def tell(self):
        """Says what the lint says; gives the program."""
        if self.warning:
            warn(self.warning)
        return self

    def close(self):
        self._finalizer()
        self.handle, self.calls = None, {}

    def _declared(self, count, get):
        out = []
        for n in range(count(self.handle)):
            d = _abi.declared()
            check(get(self.handle, n, c.byref(d)))
            shape = tuple(d.dim_names[k].decode() if d.dim_names[k] else d.shape[k]
                          for k in range(d.rank))
            out.append(Declared(d.name.decode(), _abi.DTYPE_OF_NUMBER[d.dtype], shape))
        return out

    def dump(self, what="ir", **variant):
        """Text: "ir", "variant", "config", "flat" or "ptx". The keywords are
        those of Kernel; "ir" needs none."""
        v = c.byref(_variant(**variant)) if variant else None
        return _take_text(_create(_lib.facc_program_dump, self.context.handle, self.handle, v,
                                  _choice(_abi.DUMPS, what, "what")))

    def explain(self, json=False, **variant):
        v = c.byref(_variant(**variant)) if variant else None
        return _take_text(_create(_lib.facc_program_explain, self.context.handle, self.handle, v,
                                  json))

    def check(self, status, error):
        """Raises what a call has reported, with the places of its own texts."""
        if status:
            try:
                check(status, error)
            except Error as e:
                raise (self.source.located(e) if self.source else e) from None

    def kernel(self, **variant):
        """The Kernel of this variant, made once per program."""
        key = tuple(sorted(variant.items()))
        kernel = self._kernels.get(key)
        if kernel is None:
            kernel = self._kernels[key] = Kernel(self, **variant)
        return kernel


def dtype_number(dtype, what):
    return _choice(_abi.DTYPES, dtype, what)[0]


def _variant(dtype="bf16", head_dim=0, head_dim_v=0, out_dtype=None, arch=0, device=0,
             check_bounds=False, block_mask=False, packed=False, layout="any", family="auto", sinks=False,
             dropout=False, block_scales=False, centred_v=False, transposes_v=False, exact_peaks=False):
    return _abi.variant(struct_size=c.sizeof(_abi.variant), dtype=dtype_number(dtype, "dtype"),
                        out_dtype=dtype_number(out_dtype, "out_dtype") if out_dtype else 0,
                        head_dim=_int32(head_dim, "head_dim"),
                        head_dim_v=_int32(head_dim_v, "head_dim_v"), arch=_int32(arch, "arch"),
                        device=_int32(device, "device"), check_bounds=bool(check_bounds),
                        block_mask=bool(block_mask), packed=bool(packed), sinks=bool(sinks),
                        block_scales=bool(block_scales), centred_v=bool(centred_v), transposes_v=bool(transposes_v),
                        exact_peaks=bool(exact_peaks), layout=_choice(_abi.LAYOUTS, layout, "layout"),
                        family=_choice(_abi.FAMILIES, family, "family"), dropout=bool(dropout))


class Kernel:
    """A compiled kernel: from memory, disk or NVRTC. Needs no GPU if arch is
    given. variant: dtype, head_dim, head_dim_v, out_dtype, arch, device,
    check_bounds, block_mask (True: launches bring one), packed (True: launches
    bring cu_seqlens_q and cu_seqlens_kv; else they must not), sinks (the same of
    sinks), dropout (True: launches may have dropout_p), layout ("any", or
    "aligned": launches have pointers and strides of 16 bytes' multiples, so that
    no second code is needed for others), block_scales (FP8, True: descales of
    blocks of rows), centred_v (FP8, True: V has no channel means), transposes_v (FP8, True: the
    kernel transposes V, and takes no image of it), exact_peaks (FP8, True: weights that carry
    a row are rounded exactly), family ("auto": the best; "sm80" or "sm90" alone)."""

    def __init__(self, program, **variant):
        self.program, context = program, program.context
        self.variant = _variant(**variant)
        self.handle = _create(_lib.facc_kernel_get, context.handle, program.handle,
                              c.byref(self.variant))
        context._kernels.append(self.handle)
        self.out_dtype = variant.get("out_dtype") or variant.get("dtype", "bf16")
        self._loaded = set()

    @property
    def info(self):
        i = _abi.kernel_info(struct_size=c.sizeof(_abi.kernel_info))
        check(_lib.facc_kernel_get_info(self.handle, c.byref(i)))
        return Info(**_as_dict(i))

    @property
    def family(self):
        """The kernel family: "sm80" or "sm90"."""
        return self.info.family

    @property
    def fallback(self):
        """Family of the code for tensors that are not aligned, "" if there is
        none."""
        return self.info.fallback

    @property
    def launched(self):
        """Family that the last launch took, "" before the first."""
        return self.info.launched

    def load(self, device=0):
        """Makes it launchable on a device. Not inside a graph capture."""
        if device not in self._loaded:
            error = new_error()
            check(_lib.facc_kernel_load(self.handle, _int32(device, "device"), c.byref(error)), error)
            self._loaded.add(device)
            self.program.context._loaded.add(device)

    def prepare(self, q, k, v, out=None, lse=None, **call):
        """A Launch bound to these CUDA tensors, checked; calling it is cheap."""
        q, k, v = array(q, "q"), array(k, "k"), array(v, "v")
        need_layout(call.get("cu_seqlens_q") is not None, q=q, k=k, v=v)
        launch = Launch(self, q, k, v, out, lse, **call)
        launch.check()
        return launch

    def bounds_report(self, device=0):
        """After a launch of a check_bounds kernel: raises if it read outside
        a captured tensor. Waits for the device."""
        error = new_error()
        self.program.check(_lib.facc_kernel_bounds_report(self.handle, _int32(device, "device"), c.byref(error)),
                           error)


class Arguments:
    """facc_args for some arrays, which it keeps alive."""

    def __init__(self, program, q, k, v, out, lse, tensors=None, params=None, scale=None, seqused_q=None,
                 seqused_kv=None, cu_seqlens_q=None, cu_seqlens_kv=None, max_seqlen_q=None, max_seqlen_kv=None,
                 block_mask=None, sinks=None, dropout_p=0.0, seed=None, offset=0, fp8=None):
        captured = [array(x, f"tensor '{d.name}'") for d, x in
                    zip(program.tensors, _pick(program.tensors, tensors, "tensor"))]
        out, lse, sinks = maybe_array(out, "out"), maybe_array(lse, "lse"), maybe_array(sinks, "sinks")
        seqused_q, seqused_kv = maybe_array(seqused_q, "seqused_q"), maybe_array(seqused_kv, "seqused_kv")
        cu_seqlens_q = maybe_array(cu_seqlens_q, "cu_seqlens_q")
        cu_seqlens_kv = maybe_array(cu_seqlens_kv, "cu_seqlens_kv")
        self.device = cuda_index(q)
        self.a = a = _abi.args(struct_size=c.sizeof(_abi.args), device=max(self.device, 0))
        self.keep = [q, k, v, out, lse, seqused_q, seqused_kv, captured, cu_seqlens_q, cu_seqlens_kv]
        self._fill(a.q, q, "q")
        self._fill(a.k, k, "k")
        self._fill(a.v, v, "v")
        self._fill(a.o, out, "out", writable=True)
        if lse is not None:
            self._fill(a.lse, lse, "lse", writable=True)
        if fp8 is not None:
            fp8.set(self)
        if cu_seqlens_q is not None or cu_seqlens_kv is not None:
            set_packed(a, self.device, cu_seqlens_q, cu_seqlens_kv, max_seqlen_q, max_seqlen_kv)
            for view in a.q, a.k, a.v, a.o:
                as_batch(view)
            lse_as_batch(a.lse)
        elif max_seqlen_q is not None or max_seqlen_kv is not None:
            raise Error(_abi.ERR_ARGUMENT, "max_seqlen_q and max_seqlen_kv are of packed sequences, but there is no "
                        "cu_seqlens_q")
        if captured:
            a.n_tensors = len(captured)
            a.tensors = self.views = (_abi.tensor * len(captured))()
            for view, d, x in zip(self.views, program.tensors, captured):
                self._fill(view, x, f"tensor '{d.name}'")
        values = _pick(program.params, params, "param")
        if values:
            a.n_params = len(values)
            a.params = self.scalars = (_abi.scalar_value * len(values))()
            for n, x in enumerate(values):
                self.set_param(program, n, x)
        if scale is not None:
            a.scale = scale
            if scale == 0:
                raise Error(_abi.ERR_ARGUMENT, "scale must not be 0 (None is the default, 1/sqrt(D))")
        if seqused_q is not None:
            a.seqused_q = self._lengths("seqused_q", seqused_q)
        if seqused_kv is not None:
            a.seqused_kv = self._lengths("seqused_kv", seqused_kv)
        if block_mask is not None:
            self.block_mask, lists = make_block_mask(block_mask, self.device, a.n_seqs or a.q.shape[0], a.q.shape[1])
            a.block_mask = c.pointer(self.block_mask)
            self.keep.append(lists)
        if sinks is not None:
            self.sinks = _abi.tensor()
            self._fill(self.sinks, sinks, "sinks")
            a.sinks = c.pointer(self.sinks)
            self.keep.append(sinks)
        a.dropout_p = dropout_p
        if dropout_p != 0 and seed is None:
            raise Error(_abi.ERR_ARGUMENT, "dropout_p needs a seed; with another seed or offset, others are dropped")
        self.set_dropout(0 if seed is None else seed, offset)

    def set_dropout(self, seed, offset):
        self.a.dropout_seed, self.a.dropout_offset = counter("seed", seed), counter("offset", offset)

    def _fill(self, view, x, what, writable=False):
        dtype, device = fill(view, x, what, writable)
        if device != self.device:
            raise Error(_abi.ERR_ARGUMENT, f"{what} is not on the same device as q")
        return dtype

    def set_param(self, program, index, value):
        declared = program.params[index]
        if declared.dtype == "f32":
            self.scalars[index].f = param_value(declared.name, value, number)
        else:
            self.scalars[index].i = param_value(declared.name, value, whole)

    def _lengths(self, name, x):
        return i32_list(x, name, self.device, (self.a.n_seqs or self.a.q.shape[0],), "[B]")


def counter(name, value):
    """An int of 64 bits without a sign."""
    value = operator.index(value)
    if not 0 <= value < 2**64:
        raise Error(_abi.ERR_ARGUMENT, f"{name} is {value}: from 0 to 2^64 - 1")
    return value


def number(value):
    if isinstance(value, str):  # which float would read
        raise TypeError
    return float(value)


def whole(value):
    """An int from any kind of integer, or a float that is one."""
    try:
        value = operator.index(value)
    except TypeError:
        if isinstance(value, str) or value != int(value):
            raise ValueError from None
        value = int(value)
    if not -2**63 <= value < 2**63:  # ctypes would wrap it
        raise OverflowError
    return value


def param_value(name, value, convert):
    try:
        return convert(value)
    except (TypeError, ValueError, OverflowError):
        kind = "an integer" if convert is whole else "a number"
        raise Error(_abi.ERR_ARGUMENT, f"param '{name}' is {kind}, got {value!r}") from None


def _pick(declared, given, what):
    """Values in the program's order; all there, none too many."""
    if not declared and not given:
        return []
    given = dict(given or {})
    missing = [d.name for d in declared if d.name not in given]
    if missing:
        raise Error(_abi.ERR_ARGUMENT, f"{what} '{missing[0]}' is missing")
    values = [given.pop(d.name) for d in declared]
    if given:
        names = ", ".join(d.name for d in declared) or "none"
        raise Error(_abi.ERR_ARGUMENT, f"the program has no {what} '{next(iter(given))}' (it has: {names})")
    return values


class Launch:
    """A prepared call, made by Kernel.prepare: arguments packed, workspace at
    hand. Call it to enqueue on the current stream; out and lse are its results.
    Each call checks the arguments, as check() does without launching.

    The workspace holds the schedule of a mask that is more than plain bounds,
    so that a Launch is for one stream at a time. Every call makes the schedule
    anew unless schedule_ready is set: then the last one is used again, which is
    right only while lengths, params, block lists and what the mask reads of
    captured tensors are the same. set_param() ends it."""

    def __init__(self, kernel, q, k, v, out=None, lse=None, want_lse=True, **call):
        if cuda_index(q) < 0:
            raise Error(_abi.ERR_ARGUMENT, "a kernel launch needs CUDA tensors")
        if out is None:
            out = empty_like(q, out_shape(q, v), kernel.out_dtype)
        if lse is None and want_lse:
            lse = empty_like(q, lse_shape(q), "f32")
        self.kernel, self.out, self.lse, self.workspace = kernel, out, lse, None
        self.arguments = arguments = Arguments(kernel.program, q, k, v, out, lse, **call)
        self.device, self._launched = arguments.device, False
        if self.device not in kernel._loaded and is_capturing(q):
            raise Error(_abi.ERR_NOT_PREPARED, f"the kernel is not loaded on device {self.device} yet, and a graph is "
                        "being captured: make the call once before the capture, or call Kernel.load()")
        kernel.load(self.device)
        self._call = (kernel.handle, c.byref(arguments.a))
        self._error = new_error()
        self._error_ref = c.byref(self._error)
        size, align = c.c_size_t(), c.c_size_t()
        status = _lib.facc_workspace_size(*self._call, c.byref(size), c.byref(align))
        if status:
            self.check()  # says what is wrong
            check(status)
        if size.value:  # the allocators' blocks are aligned to 512 bytes
            self.workspace = empty_like(q, (size.value,), "u8")
            arguments.a.workspace = array(self.workspace, "workspace").data_ptr()
            arguments.a.workspace_size = size.value
        self._stream = stream_function(q)

    def check(self):
        program = self.kernel.program
        check(_lib.facc_kernel_check(program.context.handle, program.handle, c.byref(self.kernel.variant),
                                     self._call[1], self._error_ref), self._error)

    def __call__(self, stream=None):
        """stream: a raw CUstream as an integer; None is the framework's current
        one."""
        if stream is None:
            stream = self._stream(self.device)
        status = _lib.facc_kernel_launch(*self._call, stream, self._error_ref)
        if status:
            check(status, self._error)
        self._launched = True
        return self.out

    @property
    def schedule_ready(self):
        return bool(self.arguments.a.schedule_ready)

    @schedule_ready.setter
    def schedule_ready(self, ready):
        if ready and not self._launched:
            raise Error(_abi.ERR_ARGUMENT, "schedule_ready needs a launch before, whose schedule is used again")
        self.arguments.a.schedule_ready = bool(ready)

    def set_param(self, name, value):
        """Changes a run-time param for the launches to come."""
        names = [d.name for d in self.kernel.program.params]
        if name not in names:
            raise Error(_abi.ERR_ARGUMENT, f"the program has no param '{name}'")
        self.arguments.set_param(self.kernel.program, names.index(name), value)
        self.arguments.a.schedule_ready = False

    def set_dropout(self, seed, offset=0):
        """Other weights are dropped by the launches to come; a captured graph
        repeats those of its capture."""
        self.arguments.set_dropout(seed, offset)


def cpu_attention(program, q, k, v, out, lse=None, f64=False, threads=0, **call):
    """facc_cpu_attention on host arrays."""
    arguments = Arguments(program, q, k, v, out, lse, **call)
    if arguments.device >= 0:
        raise Error(_abi.ERR_ARGUMENT, "the CPU path needs host arrays")
    options = _abi.cpu_options(struct_size=c.sizeof(_abi.cpu_options), f64=bool(f64),
                                threads=_int32(threads, "threads"))
    error = new_error()
    program.check(_lib.facc_cpu_attention(program.context.handle, program.handle, c.byref(arguments.a),
                                          c.byref(options), c.byref(error)), error)


def param_type_of(name, x):
    """The type of a param that an expression reads: f32 unless an integer."""
    try:
        operator.index(x)
    except TypeError:
        param_value(name, x, number)
        return "f32"
    return "i32" if -2**31 <= param_value(name, x, whole) < 2**31 else "i64"


def declaration_of(name, x):
    """How an array that an expression reads is declared."""
    x = array(x, f"tensor '{name}'")
    return name, dtype_name(x, f"tensor '{name}'"), tuple(int(n) for n in x.shape)
