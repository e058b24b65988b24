"""Units for tuning and checking templates without the library: configuration text, NVRTC through
ctypes, the compiler's resource report. Needs no GPU and no package beyond Python's own."""
import ctypes
import glob
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ELEMENT = {"f16": 0, "bf16": 1, "f32": 2, "e4m3": 3, "e5m2": 4}


def shared_bytes(c):
    """runtime/select.c's formula; the template asserts that it agrees. sm90: all there is."""
    if "wgmma" in c:
        return 227 * 1024
    row = 2 * -(-c["D"] // 16) * 16 + 16
    row_v = 2 * -(-c["Dv"] // 16) * 16 + 16
    loop = c["m"] * row + c["stages"] * c["n"] * (row + row_v)
    return max(loop, 0 if c["out"] == "f32" else c["m"] * row_v)


def fp8_text(c):
    if c["dtype"] not in ("e4m3", "e5m2"):
        return ""
    return f"""#define FACC_FP8 1
constexpr int kElementE4m3 = 3, kElementE5m2 = 4;
constexpr bool kBlockScales = {"true" if c.get("block_scales") else "false"};
constexpr bool kPromotes = {"true" if c.get("promotes") else "false"};
constexpr bool kTransposesV = {"true" if c.get("transposes") else "false"};
constexpr bool kExactPeaks = {"true" if c.get("peaks") else "false"};
"""


def fp8_variant(text):
    """A Variant of 16 bits as variant.c prints it for FP8: descales join the softmax scale in Tile."""
    start = text.index("Tile tile(const KernelArgs &")
    end = text.index("Row row(const KernelArgs &")
    maker = text[start:end].replace("Tile tile(", "Tile undescaled(", 1)
    maker = maker.replace("Tile t;", "Tile t{};")
    maker = re.sub(r"args\.scale\b", "facc_descaled(args, b, h)", maker)
    maker = maker.replace("args.scale_log2", "(facc_descaled(args, b, h) * kLog2e)")
    added = """
    static FACC_FN Tile tile(const KernelArgs &args, int b, int h)
    {
        Tile t = undescaled(args, b, h);
        t.scale = facc_descaled(args, b, h);
        t.scale_log2 = t.scale * kLog2e;
        return t;
    }
    """
    place = maker.rindex("static")
    rest = re.sub(r"args\.scale(_log2)?\b", r"t.scale\1", re.sub(r"const Tile &([,)])", r"const Tile &t\1", text[end:]))
    text = text[:start] + maker[:place] + added + maker[place:] + rest
    text = re.sub(r"(struct Tile \{[^}]*)\}", r"\1 float scale, scale_log2; }", text, count=1)
    return text.replace("struct Variant", '#include "common/descales.cuh"\nstruct Variant', 1)


def config_text(c):
    return f"""#pragma once
constexpr int kElementF16 = 0, kElementBf16 = 1, kElementF32 = 2;
{fp8_text(c)}constexpr int kElement = {ELEMENT[c["dtype"]]};
constexpr int kOutElement = {ELEMENT[c["out"]]};
constexpr int kHeadDim = {c["D"]}, kHeadDimV = {c["Dv"]};
constexpr int kTileM = {c["m"]}, kTileN = {c["n"]};
constexpr int kWarps = {c["warps"]}, kStages = {c["stages"]};
constexpr bool kQInRegisters = {"true" if c["qreg"] else "false"};
constexpr int kQBuffers = {c.get("q_buffers", 1)};
constexpr int kSharedBytes = {shared_bytes(c)};
constexpr bool kHasSinks = {"true" if c.get("sinks") else "false"};
constexpr bool kHasDropout = {"true" if c.get("dropout") else "false"};
constexpr bool kCheckBounds = false;
constexpr bool kBlockMask = {"true" if c.get("block_mask") else "false"};
constexpr bool kFullBlocksArePartial = false;
constexpr bool kPacked = {"true" if c.get("packed", True) else "false"};
#define FACC_SCHEDULED {int(c.get("scheduled", True))}
constexpr int kNumTensors = {c.get("tensors", 0)}, kNumParams = {c.get("params", 0)};
constexpr int kExtraDim = {c.get("extra", 0)};
constexpr int kPlaneBytes = {c.get("plane", 0)};
"""


def read(path):
    with open(os.path.join(ROOT, path)) as f:
        return f.read()


def template_headers():
    names = sorted(glob.glob(os.path.join(ROOT, "templates", "*", "*.*h")))
    base = os.path.join(ROOT, "templates")
    return {os.path.relpath(n, base): read(os.path.relpath(n, ROOT)) for n in names
            if "/stub/" not in n}


def load_nvrtc():
    places = [os.environ.get("FACC_NVRTC"), "libnvrtc.so.13", "libnvrtc.so.12",
              "/usr/local/cuda/lib64/libnvrtc.so"]
    for folder in sys.path:
        places += glob.glob(os.path.join(folder, "nvidia", "*", "lib", "libnvrtc.so.*"))
    for name in filter(None, places):
        try:
            return ctypes.CDLL(name)
        except OSError:
            pass
    raise SystemExit("no NVRTC found: set FACC_NVRTC")


def compile_text(main, text, headers, arch):
    """(cubin or None, log) of a file by its name and text, and headers by theirs."""
    lib = load_nvrtc()
    n = len(headers)
    names = (ctypes.c_char_p * n)(*[k.encode() for k in headers])
    texts = (ctypes.c_char_p * n)(*[v.encode() for v in headers.values()])
    program = ctypes.c_void_p()
    lib.nvrtcCreateProgram(ctypes.byref(program), text.encode(), main.encode(), n, texts, names)
    options = [f"-arch=sm_{arch}", "--std=c++17", "-Xptxas", "-v", "--no-cache"]
    args = (ctypes.c_char_p * len(options))(*[o.encode() for o in options])
    rc = lib.nvrtcCompileProgram(program, len(options), args)
    size = ctypes.c_size_t()
    lib.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value + 1)
    lib.nvrtcGetProgramLog(program, log)
    cubin = None
    if rc == 0:
        lib.nvrtcGetCUBINSize(program, ctypes.byref(size))
        data = ctypes.create_string_buffer(size.value)
        lib.nvrtcGetCUBIN(program, data)
        cubin = data.raw
    lib.nvrtcDestroyProgram(ctypes.byref(program))
    return cubin, log.value.decode()


def compile_unit(config, variant_text, arch, patches=(), main="sm80/forward.cu"):
    """(cubin or None, log). patches: (file, old text, new text) for trying variations."""
    headers = template_headers()
    if "wgmma" in config:
        headers["facc_wgmma.cuh"] = config["wgmma"]
    headers["facc_config.cuh"] = config_text(config)
    headers["facc_variant.cuh"] = variant_text
    for name, old, new in patches:
        assert old in headers[name], (name, old)
        headers[name] = headers[name].replace(old, new)
    return compile_text(main, read("templates/" + main), headers, arch)


def report(log, kernel="facc_forward"):
    """(registers, spill bytes, stack bytes, warnings); what is about `kernel`, warnings about all."""
    warnings = re.findall(r"C75\d\d|warning[^\n]*", log)
    log = next((part for part in log.split("Compiling entry function '")
                if part.startswith(kernel + "'")), "")
    registers = re.search(r"Used (\d+) registers", log)
    spill = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", log)
    stack = re.search(r"(\d+) bytes stack frame", log)
    return (int(registers[1]) if registers else -1,
            int(spill[1]) + int(spill[2]) if spill else -1,
            int(stack[1]) if stack else -1, warnings)
