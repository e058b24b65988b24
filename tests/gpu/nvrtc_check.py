"""Compiles the templates of both families with NVRTC as runtime/select.c configures them and reads
the compiler's resource report: no spills, no stack, no C75xx. Needs a C compiler and NVRTC, no GPU.

    python3 tests/gpu/nvrtc_check.py [--all] [--family sm80|sm90]

Where nvdisasm is at hand (CUDA's, or nvidia-cuda-nvdisasm from PyPI beside this Python), kernels of
sm90 are also asked whether ptxas knows what is the same in all lanes (templates/README.md, "What
ptxas must see"): where it does not, they are 5 to 11 % slower.

By default, with plain attention, every head dim of sm80 on sm_90 and some on every architecture,
head dims of sm90, and its products (facc_wgmma.cuh) in a loop of their own; with --all every sample
variant too.
"""
import argparse
import concurrent.futures
import ctypes
import glob
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile

from tune_unit import ROOT, compile_text, compile_unit, config_text, fp8_variant, read, report

ARCHS = (80, 86, 89, 90, 100, 120)
VARIANTS = {"plain": 0, "causal": 0, "alibi_causal": 1, "document": 1, "softcap": 0, "bias": 1,
            "softcap_fast": 0, "causal_relative": 0, "t5_causal_sm90": 1, "relative_bias_sm90": 1,
            "document_planned": 1, "document_halved": 1, "dilated": 0, "keep_scanned": 1,
            "plain+blocks": 0, "causal+blocks": 0, "keep_scanned+blocks": 1}  # with block lists
SCHEDULED = {"document_planned", "document_halved", "keep_scanned", "plain+blocks", "causal+blocks",
             "keep_scanned+blocks"}
UNMASKED = {"plain", "softcap", "bias", "relative_bias_sm90"}
DTYPE = {"f32": 1, "f16": 2, "bf16": 3, "e4m3": 4, "e5m2": 5}
# Bytes that may spill, with the reason.
ALLOWED = {
    # of scheduled masks, dim 128: tests/api/spills.txt
    "document_planned": 8, "document_halved": 8, "keep_scanned": 404, "plain+blocks": 16,
    "causal+blocks": 340, "keep_scanned+blocks": 404,
    # four 64-bit row offsets and an address for each score: more than the registers hold
    "bias": 200,
    # two groups of warps on sm_80 and sm_100: tests/api/spills.txt
    "causal": 52,
}
# The same of one head dim on one architecture.
ALLOWED_AT = {("plain", 96, 100): 72}  # two groups of warps there: tests/api/spills.txt

# The same of sm90: elements that are loaded cell by cell, where a program's own would be copied; both masks at once.
SM90_ALLOWED = {"bias": 32, "keep_scanned+blocks": 20}

# The same of FP8. At dim 128 three groups of warps leave 160 registers, which weights and products nearly fill; addresses
# and offsets of a bias for each score do not fit (8 bytes of them with exact peaks).
FP8_ALLOWED = {("alibi_causal", 128): 8, ("softcap", 128): 16, ("softcap_fast", 128): 24, ("bias", 128): 276, ("bias", 64): 8,
               ("causal_relative", 128): 8, ("bias", 256): 68}
FP8_VARIANTS = ("causal", "alibi_causal", "softcap", "softcap_fast", "bias", "causal_relative", "t5_causal_sm90",
                "relative_bias_sm90")

# Those of the producer's warps, whose lanes do part, and of masks' own loops.
GUARDS = 9

SHIM = r"""
#include <string.h>
#include "runtime/select.h"
int choose(int dtype, int out, int d, int dv, int arch, int family, int mask, int centred, int *c)
{
    facc_variant v;
    struct unit_config u;
    struct diag diag;
    memset(&v, 0, sizeof v);
    diag_init(&diag);
    v.struct_size = sizeof v;
    v.dtype = (facc_dtype)dtype;
    v.out_dtype = (facc_dtype)out;
    v.head_dim = d;
    v.head_dim_v = dv;
    v.centred_v = centred;
    if (!select_config(&v, arch, family, 0, mask, NULL, &u, &diag))
        return 0;
    c[0] = u.tile_m, c[1] = u.tile_n, c[2] = u.warps, c[3] = u.stages;
    c[4] = u.q_in_registers, c[5] = u.shared_bytes, c[6] = u.q_buffers, c[7] = u.promotes;
    return 1;
}
"""


# (D, Dv, kTileN, kWarps): what the tiles of sm90 use, and head dims that fill no panel
PRODUCTS = ((64, 64, 96, 16), (64, 64, 128, 12), (96, 96, 80, 16), (96, 96, 128, 12), (128, 128, 128, 12),
            (192, 128, 128, 12), (192, 192, 96, 12), (256, 256, 64, 12),
            (256, 256, 80, 12), (40, 40, 128, 12), (72, 104, 64, 12), (8, 8, 16, 12))

WGMMA_SHIM = r"""
#include <string.h>
#include "compiler/emit/emit.h"
int print(int dtype, int d, int dv, int n, char *text, int size)
{
    struct unit_config c = {.family = "sm90", .dtype = (enum dtype)dtype, .head_dim = d,
                            .head_dim_v = dv, .tile_n = n};
    struct arena *a = arena_new(&alloc_libc);
    struct strbuf b;
    strbuf_init(&b, a);
    if (!emit_wgmma(NULL, &c, &b) || (int)b.len >= size)
        return 0;
    memcpy(text, strbuf_text(&b), b.len + 1);
    arena_free(a);
    return 1;
}
"""


def build_shim(folder, name, text, sources):
    source, library = os.path.join(folder, name + ".c"), os.path.join(folder, name + ".so")
    with open(source, "w") as f:
        f.write(text)
    parts = [source] + [os.path.join(ROOT, p) for p in sources]
    subprocess.run([os.environ.get("CC", "cc"), "-std=c11", "-D_GNU_SOURCE", "-fPIC", "-shared",
                    "-I", ROOT, "-o", library, *parts, "-lm"], check=True)
    return ctypes.CDLL(library)


def load_select(folder):
    return build_shim(folder, "select", SHIM,
                      ("runtime/select.c", "compiler/dtype.c", "compiler/support/diag.c"))


def load_printer(folder):
    shim = build_shim(folder, "wgmma", WGMMA_SHIM,
                      ["compiler/emit/wgmma.c"] + [f"compiler/support/{n}.c" for n in
                                                   ("arena", "strbuf", "diag")])
    text = ctypes.create_string_buffer(1 << 17)

    def wgmma(dtype, d, dv, n):
        if not shim.print(DTYPE[dtype], d, dv, n, text, len(text)):
            raise SystemExit(f"nothing printed for {d}/{dv}, {n} columns")
        return text.value.decode()
    return wgmma


def nvdisasm():
    beside = os.path.join(sysconfig.get_paths()["purelib"], "nvidia", "*", "bin", "nvdisasm")
    return next(iter(glob.glob(beside)), None) or shutil.which("nvdisasm")


def guards(cubin):
    """Instructions that ask whether lanes have parted, where ptxas does not know; None without nvdisasm."""
    program = nvdisasm()
    if not program or not cubin:
        return None
    with tempfile.NamedTemporaryFile(suffix=".cubin") as f:
        f.write(cubin)
        f.flush()
        return subprocess.run([program, "-c", f.name], check=True, capture_output=True, text=True).stdout.count("BRA.DIV")


def judge(c, compiled, allowed):
    cubin, log = compiled
    registers, spill, stack, warnings = report(log)
    if "wgmma" in c and c["variant"] != "products":
        parted = guards(cubin)
        if parted is not None and parted > GUARDS:
            warnings = [*warnings, f"{parted} guards of lanes that part, more than {GUARDS}"]
    label = (f"sm_{c['arch']} D {c['D']}/{c['Dv']} {c['dtype']}->{c['out']} {c['variant']} "
             f"{c['m']}x{c['n']} w{c['warps']} s{c['stages']}" + " transposes V" * c.get("transposes", False) +
             " exact peaks" * c.get("peaks", False))
    bad = cubin is None or spill > allowed or (stack > 0 and allowed == 0) or bool(warnings)
    return bad, f"{label}: {registers} registers, {spill} B spilled, {stack} B stack" + \
        "".join(" " + w for w in warnings) + ("" if cubin else "\n" + log[:1000])


def configure(select, dtype, out, d, dv, arch, variant, wgmma=None, centred=False):
    """wgmma: prints the products; the family is then sm90, else sm80."""
    c = (ctypes.c_int * 8)()
    mask = variant not in UNMASKED
    family = 90 if wgmma else 80
    if not select.choose(DTYPE[dtype], DTYPE[out], d, dv, arch, family, mask, centred, c):
        raise SystemExit(f"no tile for {d}/{dv} on sm_{arch}")
    config = dict(block_mask="+blocks" in variant, D=d, Dv=dv, m=c[0], n=c[1], warps=c[2],
                  stages=c[3], qreg=bool(c[4]), q_buffers=c[6], dtype=dtype, out=out, arch=arch,
                  variant=variant, tensors=VARIANTS[variant])
    if wgmma:
        config.update(arch="90a", wgmma=wgmma(dtype, d, dv, c[1]), packed=False,
                      scheduled=variant in SCHEDULED, promotes=bool(c[7]))
    return config


def variant_text(variant):
    if variant == "plain":
        return read("templates/stub/facc_variant.cuh")
    name = f"tests/gpu/variants/{variant}.cuh"
    return read(name if os.path.exists(os.path.join(ROOT, name)) else f"tests/golden/{variant}.cuh")


def check(c):
    if c["variant"] == "products":
        headers = {"facc_config.cuh": config_text(c), "facc_wgmma.cuh": c["wgmma"]}
        return judge(c, compile_text("wgmma_loop.cu", read("tests/gpu/wgmma_loop.cu"), headers,
                                     c["arch"]), 0)
    text = variant_text(c["variant"].removesuffix("+blocks"))
    if c["dtype"] in ("e4m3", "e5m2"):
        allowed = FP8_ALLOWED.get((c["variant"], c["D"]), 0)
        return judge(c, compile_unit(c, fp8_variant(text), c["arch"], main="sm90/fp8_forward.cu"), allowed)
    if "wgmma" in c:
        allowed = SM90_ALLOWED.get(c["variant"], 0)
        return judge(c, compile_unit(c, text, c["arch"], main="sm90/forward.cu"), allowed)
    allowed = ALLOWED_AT.get((c["variant"], c["D"], c["arch"]), ALLOWED.get(c["variant"], 0))
    return judge(c, compile_unit(c, text, c["arch"]), allowed)


def cases_sm80(select, everything):
    for d in range(8, 257, 8):
        yield configure(select, ("bf16", "f16")[d // 8 % 2], "bf16", d, d, 90, "plain")
    for d, dv in ((192, 128), (128, 192), (8, 256), (256, 8)):
        yield configure(select, "bf16", "f32", d, dv, 90, "plain")
    for arch in ARCHS:
        for d in (64, 96, 128, 192, 256):
            if arch != 90:
                yield configure(select, "f16", "f16", d, d, arch, "plain")
            for variant in VARIANTS if everything else ():
                if variant != "plain" and not variant.endswith("_sm90"):
                    yield configure(select, "bf16", "bf16", d, d, arch, variant)


def cases_sm90(select, wgmma, everything):
    for d, dv, n, warps in PRODUCTS:
        for dtype in ("f16", "bf16"):
            yield dict(D=d, Dv=dv, m=16 * (warps - 4), n=n, warps=warps, stages=2, qreg=False,
                       dtype=dtype, out=dtype, arch="90a", variant="products",
                       wgmma=wgmma(dtype, d, dv, n))
    for d, dv in ((8, 8), (40, 40), (64, 64), (72, 104), (96, 96), (128, 128), (128, 64),
                  (192, 128), (192, 192), (256, 256), (256, 8), (8, 256)):
        for dtype, out in (("bf16", "bf16"), ("f16", "f32")):
            yield configure(select, dtype, out, d, dv, 90, "plain", wgmma)
        for variant in VARIANTS if everything and min(d, dv) >= 64 else ():
            if variant != "plain":
                yield configure(select, "bf16", "bf16", d, dv, 90, variant, wgmma)
    for d in (64, 128, 256):
        for dtype, out, centred, blocks in (("e4m3", "bf16", True, False), ("e5m2", "f32", False, False),
                                            ("e4m3", "f16", True, True)):
            for inside in (False, True):
                yield dict(configure(select, dtype, out, d, d, 90, "plain", wgmma, centred), block_scales=blocks,
                           transposes=inside)
            yield dict(configure(select, dtype, out, d, d, 90, "plain", wgmma, centred), block_scales=blocks, peaks=True)
        for variant in FP8_VARIANTS if everything else ():
            for inside in (False, True):
                yield dict(configure(select, "e4m3", "bf16", d, d, 90, variant, wgmma, True), transposes=inside)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--family", choices=("sm80", "sm90"))
    asked = parser.parse_args()
    todo = []
    with tempfile.TemporaryDirectory() as folder:
        select = load_select(folder)
        if asked.family != "sm80":
            todo += cases_sm90(select, load_printer(folder), asked.all)
        if asked.family != "sm90":
            todo += cases_sm80(select, asked.all)
    failed = 0
    with concurrent.futures.ProcessPoolExecutor() as pool:
        for bad, line in pool.map(check, todo):
            failed += bad
            print(("FAILED " if bad else "ok     ") + line, flush=True)
    print(f"{len(todo)} units, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
