"""Compiles the sm80 template with NVRTC as runtime/select.c configures it and reads the compiler's
resource report: no spills, no stack, no C75xx. Needs a C compiler and NVRTC, no GPU.

    python3 tests/gpu/nvrtc_check.py [--all]

By default every head dim on sm_90 and some on every architecture, with plain attention; with --all
every sample variant too.
"""
import concurrent.futures
import ctypes
import os
import subprocess
import sys
import tempfile

from tune_unit import ROOT, compile_unit, read, report

ARCHS = (80, 86, 89, 90, 100, 120)
VARIANTS = {"plain": 0, "causal": 0, "alibi_causal": 1, "document": 1, "softcap": 0, "bias": 1,
            "document_planned": 1, "document_halved": 1, "dilated": 0, "keep_scanned": 1,
            "plain+blocks": 0, "causal+blocks": 0, "keep_scanned+blocks": 1}  # with block lists
UNMASKED = {"plain", "softcap", "bias"}
DTYPE = {"f32": 1, "f16": 2, "bf16": 3}
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

SHIM = r"""
#include <string.h>
#include "runtime/select.h"
int choose(int dtype, int out, int d, int dv, int arch, int mask, int *c)
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
    if (!select_config(&v, arch, 0, mask, &u, &diag))
        return 0;
    c[0] = u.tile_m, c[1] = u.tile_n, c[2] = u.warps, c[3] = u.stages;
    c[4] = u.q_in_registers, c[5] = u.shared_bytes;
    return 1;
}
"""


def load_select(folder):
    source, library = os.path.join(folder, "shim.c"), os.path.join(folder, "select.so")
    with open(source, "w") as f:
        f.write(SHIM)
    parts = [source] + [os.path.join(ROOT, p) for p in
                        ("runtime/select.c", "compiler/dtype.c", "compiler/support/diag.c")]
    subprocess.run([os.environ.get("CC", "cc"), "-std=c11", "-D_GNU_SOURCE", "-fPIC", "-shared",
                    "-I", ROOT, "-o", library, *parts, "-lm"], check=True)
    return ctypes.CDLL(library)


def configure(select, dtype, out, d, dv, arch, variant):
    c = (ctypes.c_int * 6)()
    mask = variant not in UNMASKED
    if not select.choose(DTYPE[dtype], DTYPE[out], d, dv, arch, mask, c):
        raise SystemExit(f"no tile for {d}/{dv} on sm_{arch}")
    return dict(block_mask="+blocks" in variant, D=d, Dv=dv, m=c[0], n=c[1], warps=c[2],
                stages=c[3], qreg=bool(c[4]), shared=c[5], dtype=dtype, out=out, arch=arch,
                variant=variant, tensors=VARIANTS[variant])


def check(c):
    variant = c["variant"].removesuffix("+blocks")
    name = "templates/stub/facc_variant.cuh" if variant == "plain" else \
        f"tests/gpu/variants/{variant}.cuh"
    cubin, log = compile_unit(c, read(name), c["arch"])
    registers, spill, stack, warnings = report(log)
    label = (f"sm_{c['arch']} D {c['D']}/{c['Dv']} {c['dtype']}->{c['out']} {c['variant']} "
             f"{c['m']}x{c['n']} w{c['warps']} s{c['stages']}")
    allowed = ALLOWED.get(c["variant"], 0)
    bad = cubin is None or spill > allowed or (stack > 0 and allowed == 0) or bool(warnings)
    return bad, f"{label}: {registers} registers, {spill} B spilled, {stack} B stack" + \
        "".join(" " + w for w in warnings) + ("" if cubin else "\n" + log[:1000])


def cases(select, everything):
    for d in range(8, 257, 8):
        yield configure(select, ("bf16", "f16")[d // 8 % 2], "bf16", d, d, 90, "plain")
    for d, dv in ((192, 128), (128, 192), (8, 256), (256, 8)):
        yield configure(select, "bf16", "f32", d, dv, 90, "plain")
    for arch in ARCHS:
        for d in (64, 96, 128, 192, 256):
            if arch != 90:
                yield configure(select, "f16", "f16", d, d, arch, "plain")
            for variant in VARIANTS if everything else ():
                if variant != "plain":
                    yield configure(select, "bf16", "bf16", d, d, arch, variant)


def main():
    with tempfile.TemporaryDirectory() as folder:
        todo = list(cases(load_select(folder), "--all" in sys.argv))
    failed = 0
    with concurrent.futures.ProcessPoolExecutor() as pool:
        for bad, line in pool.map(check, todo):
            failed += bad
            print(("FAILED " if bad else "ok     ") + line, flush=True)
    print(f"{len(todo)} units, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
