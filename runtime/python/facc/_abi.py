"""The C interface: finds libfacc.so and mirrors runtime/facc.h in ctypes.

Field order and types follow the header; tests/test_abi.py compares
every size and offset with what a C compiler says."""
import ctypes as c
import os
import pathlib

MAX_DIMS = 5

i32, i64, size_t, text, ptr = c.c_int32, c.c_int64, c.c_size_t, c.c_char_p, c.c_void_p

STATUS = {
    0: "FACC_OK", -1: "FACC_ERR_ARGUMENT", -2: "FACC_ERR_SCRIPT", -3: "FACC_ERR_UNSUPPORTED",
    -4: "FACC_ERR_MEMORY", -5: "FACC_ERR_IO", -6: "FACC_ERR_NO_DRIVER", -7: "FACC_ERR_NO_NVRTC",
    -8: "FACC_ERR_COMPILE", -9: "FACC_ERR_CUDA", -10: "FACC_ERR_NOT_PREPARED",
    -11: "FACC_ERR_BOUNDS", -12: "FACC_ERR_NO_JIT", -13: "FACC_ERR_FORKED",
    -14: "FACC_ERR_INTERNAL",
}
ERR_ARGUMENT, ERR_SCRIPT, ERR_UNSUPPORTED, ERR_IO, ERR_NOT_PREPARED = -1, -2, -3, -5, -10

# facc_dtype: number, and the names that NumPy, ml_dtypes and PyTorch use.
DTYPES = {
    "f32": (1, "float32"), "f16": (2, "float16"), "bf16": (3, "bfloat16"),
    "e4m3": (4, "float8_e4m3fn"), "e5m2": (5, "float8_e5m2"), "i8": (6, "int8"),
    "u8": (7, "uint8"), "i16": (8, "int16"), "i32": (9, "int32"), "i64": (10, "int64"),
    "bool": (11, "bool"), "f64": (12, "float64"),
}
DTYPE_OF_NUMBER = {number: name for name, (number, _) in DTYPES.items()}
DTYPE_OF_ARRAY = {array: name for name, (_, array) in DTYPES.items()}
LAYOUTS = {"any": 0, "aligned": 1}
FAMILIES = {"auto": 0, None: 0, "sm80": 80, "sm90": 90}
DUMPS = {"ir": 1, "variant": 2, "config": 3, "flat": 4, "ptx": 5}


class error(c.Structure):
    _fields_ = [("struct_size", size_t), ("status", i32), ("line", i32), ("stage", c.c_char * 24),
                ("file", c.c_char * 256), ("message", c.c_char * 2048), ("log", c.c_char * 8192)]


class tensor(c.Structure):
    _fields_ = [("data", ptr), ("dtype", i32), ("rank", i32), ("shape", i64 * MAX_DIMS),
                ("stride", i64 * MAX_DIMS)]


class compile_event(c.Structure):
    _fields_ = [("key", text), ("source", text), ("seconds", c.c_double)]


ON_COMPILE = c.CFUNCTYPE(None, ptr, c.POINTER(compile_event))
ON_WARNING = c.CFUNCTYPE(None, ptr, text)


class options(c.Structure):
    _fields_ = [("struct_size", size_t), ("cache_dirs", text), ("cache_mode", i32), ("no_jit", i32),
                ("nvrtc_path", text), ("template_dir", text), ("cpu_threads", i32),
                ("reserved0", i32), ("on_compile", ON_COMPILE), ("on_warning", ON_WARNING),
                ("user", ptr), ("manifest", text)]


class declaration(c.Structure):
    _fields_ = [("name", text), ("dtype", i32), ("is_param", i32), ("rank", i32),
                ("shape", i64 * MAX_DIMS), ("dim_names", text * MAX_DIMS)]


class declared(c.Structure):
    _fields_ = [("name", text), ("dtype", i32), ("rank", i32), ("shape", i64 * MAX_DIMS),
                ("dim_names", text * MAX_DIMS)]


class variant(c.Structure):
    _fields_ = [("struct_size", size_t), ("dtype", i32), ("out_dtype", i32), ("head_dim", i32),
                ("head_dim_v", i32), ("arch", i32), ("device", i32), ("check_bounds", i32),
                ("block_mask", i32), ("packed", i32), ("sinks", i32), ("layout", i32), ("family", i32),
                ("block_scales", i32), ("centred_v", i32), ("dropout", i32), ("transposes_v", i32), ("exact_peaks", i32), ("reserved0", i32)]


class scalar_value(c.Union):
    _fields_ = [("i", i64), ("f", c.c_double)]


class block_mask(c.Structure):
    _fields_ = [("struct_size", size_t), ("block_q", i32), ("block_kv", i32), ("rows", i32), ("cols", i32),
                ("per_b", i32), ("per_h", i32), ("kv_num_blocks", ptr), ("kv_indices", ptr),
                ("full_kv_num_blocks", ptr), ("full_kv_indices", ptr)]


class args(c.Structure):
    _fields_ = [("struct_size", size_t), ("q", tensor), ("k", tensor), ("v", tensor), ("o", tensor),
                ("lse", tensor), ("scale", c.c_double), ("tensors", c.POINTER(tensor)),
                ("n_tensors", i32), ("n_params", i32), ("params", c.POINTER(scalar_value)),
                ("seqused_q", ptr), ("seqused_kv", ptr), ("workspace", ptr),
                ("workspace_size", size_t), ("device", i32), ("schedule_ready", i32),
                ("cu_seqlens_q", ptr), ("cu_seqlens_kv", ptr), ("n_seqs", i32), ("max_seqlen_q", i32),
                ("max_seqlen_kv", i32), ("reserved0", i32), ("block_mask", c.POINTER(block_mask)),
                ("sinks", c.POINTER(tensor)), ("descale_q", c.POINTER(tensor)), ("descale_k", c.POINTER(tensor)),
                ("descale_v", c.POINTER(tensor)), ("descale_block_q", i32), ("descale_block_kv", i32),
                ("v_mean", c.POINTER(tensor)), ("v_image", c.POINTER(tensor)), ("dropout_p", c.c_double),
                ("dropout_seed", c.c_uint64), ("dropout_offset", c.c_uint64)]


class quantize_args(c.Structure):
    _fields_ = [("struct_size", size_t), ("in", tensor), ("out", tensor), ("scale", tensor), ("mean", tensor),
                ("image", tensor), ("block", i32), ("power_of_two", i32), ("hadamard", i32), ("n_seqs", i32),
                ("seed", c.c_uint64), ("cu_seqlens", ptr), ("max_seqlen", i32), ("device", i32), ("workspace", ptr),
                ("workspace_size", size_t)]


class quantize_variant(c.Structure):
    _fields_ = [("struct_size", size_t), ("from", i32), ("to", i32), ("head_dim", i32), ("arch", i32),
                ("device", i32), ("hadamard", i32), ("mean", i32), ("image", i32)]


class kernel_info(c.Structure):
    _fields_ = [("struct_size", size_t), ("key", c.c_char * 33), ("family", c.c_char * 15),
                ("arch", i32), ("tile_m", i32), ("tile_n", i32), ("warps", i32), ("stages", i32),
                ("registers", i32), ("spill_bytes", i32), ("shared_bytes", i32),
                ("cubin_bytes", i64), ("compile_seconds", c.c_double), ("source", c.c_char * 16),
                ("compiler", c.c_char * 48), ("tier", c.c_char * 16), ("scheduled", i32), ("transposes_v", i32),
                ("fallback", c.c_char * 16), ("launched", c.c_char * 16)]


class verdict_counts(c.Structure):
    _fields_ = [("struct_size", size_t), ("rows", i32), ("cols", i32), ("empty", i64), ("full", i64),
                ("partial", i64), ("cells", i64), ("kept", i64), ("tier", c.c_char * 16), ("skip_kept", i32),
                ("reserved0", i32)]


class cpu_options(c.Structure):
    _fields_ = [("struct_size", size_t), ("f64", i32), ("threads", i32)]


class system_info(c.Structure):
    _fields_ = [("struct_size", size_t), ("driver_found", i32), ("driver_version", i32),
                ("device_count", i32), ("nvrtc_found", i32), ("nvrtc_version", i32),
                ("driver_path", c.c_char * 256), ("nvrtc_path", c.c_char * 256),
                ("driver_error", c.c_char * 256), ("nvrtc_error", c.c_char * 256),
                ("cache_dir", c.c_char * 256), ("cache_writable", i32),
                ("cache_error", c.c_char * 256), ("cpu_threads", i32), ("cpu_isa", c.c_char * 32)]


class device_info(c.Structure):
    _fields_ = [("struct_size", size_t), ("name", c.c_char * 128), ("arch", i32),
                ("multiprocessors", i32), ("memory_bytes", i64), ("l2_bytes", i64),
                ("shared_bytes_per_block", i32), ("clock_khz", i32), ("memory_clock_khz", i32),
                ("memory_bus_bits", i32)]


STRUCTS = (error, tensor, compile_event, options, declaration, declared, variant, block_mask, args, kernel_info,
           verdict_counts, cpu_options, quantize_args, quantize_variant, system_info, device_info)

_out, _err, _size = c.POINTER(ptr), c.POINTER(error), c.POINTER(size_t)
_args, _variant = c.POINTER(args), c.POINTER(variant)
FUNCTIONS = {  # name: (result, arguments)
    "version": (text, ()),
    "ctx_create": (i32, (_out, c.POINTER(options), _err)),
    "ctx_free": (None, (ptr,)),
    "string_free": (None, (ptr,)),
    "program_load_file": (i32, (_out, ptr, text, _err)),
    "program_load_string": (i32, (_out, ptr, text, text, size_t, _err)),
    "program_load_expressions": (i32, (_out, ptr, text, text, c.POINTER(declaration), size_t, _err)),
    "program_free": (None, (ptr,)),
    "program_tensor_count": (i32, (ptr,)),
    "program_param_count": (i32, (ptr,)),
    "program_tensor": (i32, (ptr, i32, c.POINTER(declared))),
    "program_param": (i32, (ptr, i32, c.POINTER(declared))),
    "program_warning": (text, (ptr,)),
    "program_dump": (i32, (_out, ptr, ptr, _variant, i32, _err)),
    "program_explain": (i32, (_out, ptr, ptr, _variant, i32, _err)),
    "kernel_check": (i32, (ptr, ptr, _variant, _args, _err)),
    "kernel_get": (i32, (_out, ptr, ptr, _variant, _err)),
    "kernel_free": (None, (ptr,)),
    "kernel_load": (i32, (ptr, i32, _err)),
    "kernel_get_info": (i32, (ptr, c.POINTER(kernel_info))),
    "workspace_size": (i32, (ptr, _args, _size, _size)),
    "kernel_launch": (i32, (ptr, _args, ptr, _err)),
    "kernel_bounds_report": (i32, (ptr, i32, _err)),
    "cpu_attention": (i32, (ptr, ptr, _args, c.POINTER(cpu_options), _err)),
    "v_chunks": (i64, (i64, i32)),
    "transposes_v": (i32, (i32, i64)),
    "quantize": (i32, (ptr, c.POINTER(quantize_args), _err)),
    "quantizer_get": (i32, (_out, ptr, c.POINTER(quantize_variant), _err)),
    "quantizer_free": (None, (ptr,)),
    "quantizer_load": (i32, (ptr, i32, _err)),
    "quantizer_workspace_size": (i32, (ptr, c.POINTER(quantize_args), _size, _size, _err)),
    "quantizer_launch": (i32, (ptr, c.POINTER(quantize_args), ptr, _err)),
    "verdict_map": (i32, (ptr, ptr, _args, i32, i32, i32, i32, ptr, ptr, c.POINTER(verdict_counts), _err)),
    "cache_clear": (i32, (ptr, c.POINTER(i64), _err)),
    "system": (i32, (ptr, c.POINTER(system_info), _err)),
    "device_info_get": (i32, (ptr, i32, c.POINTER(device_info), _err)),
    "device_synchronize": (i32, (ptr, i32, _err)),
}


def candidates():
    """Where libfacc.so may be, in this order; the last is the loader's path."""
    here = pathlib.Path(__file__).resolve().parent
    chosen = os.environ.get("FACC_LIBRARY")
    if chosen:
        return [chosen]
    near = [here / "libfacc.so", here.parents[2] / "build" / "release" / "libfacc.so"]
    return [str(p) for p in near if p.exists()] + ["libfacc.so"]


def load():
    failures = []
    for path in candidates():
        try:
            library = c.CDLL(path)
            break
        except OSError as e:
            failures.append(f"{path}: {e}")
    else:
        raise ImportError("libfacc.so was not found; set FACC_LIBRARY to its path\n  "
                          + "\n  ".join(failures))
    for name, (result, arguments) in FUNCTIONS.items():
        try:
            f = getattr(library, "facc_" + name)
        except AttributeError:
            raise ImportError(f"{path} is not the library of this package: it has no facc_{name}") from None
        f.restype, f.argtypes = result, arguments
    return library
