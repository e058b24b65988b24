"""facc check through the CLI's program, where that lies beside the library
($FACC_LIBRARY's folder): a mask with a schedule, packed sequences, and that it
can fail."""
import os
import pathlib
import subprocess
import tempfile

import numpy as np

from device import DEVICE
from harness import EXAMPLES, ROOT, expect, test

LIBRARY = pathlib.Path(os.environ.get("FACC_LIBRARY") or ROOT / "build" / "release" / "libfacc.so")
BINARY = LIBRARY.resolve().parent / "facc"


def documents(B, S):
    return np.sort(np.random.default_rng(7).integers(0, 5, (B, S)).astype(np.int32), axis=1)


def check(arguments, arrays, code=0, word="passed"):
    """facc check with these arguments, {name} in them the file of that array."""
    with tempfile.TemporaryDirectory() as folder:
        files = {}
        for name, x in arrays.items():
            files[name] = f"{folder}/{name}.npy"
            np.save(files[name], x)
        command = [str(BINARY), "check", *(a.format(**files) for a in arguments), "--device",
                   "gpu" if DEVICE == "cuda" else "cpu"]
        # the program finds the library beside it as Python does
        environment = dict(os.environ, LD_LIBRARY_PATH=f"{BINARY.parent}:{os.environ.get('LD_LIBRARY_PATH', '')}")
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    text = (done.stdout + done.stderr).strip()
    expect(done.returncode == code and word in text, f"{' '.join(command)}: exit code {done.returncode}: {text[-500:]}")


@test("cli")
def facc_check():
    if not BINARY.exists():
        print(f"SKIPPED facc check: no {BINARY}")
        return
    square = ["--random", "2,4,2,300,300,128", "--dtype", "bf16"]
    ids, cu = {"ids": documents(2, 300)}, {"cu": np.int32([0, 0, 1, 131, 131, 331])}
    packed = ["--random", "1,4,2,331,331,64", "--dtype", "f16", "--cu-seqlens-q", "{cu}", "--cu-seqlens-kv", "{cu}"]
    document = [str(EXAMPLES / "document.lua"), "--tensor", "ids={ids}"]
    yield "examples/document.lua", lambda: check([*document, *square], ids)
    yield "packed, causal", lambda: check(["--mask", "q >= kv", *packed], cu)
    yield "packed, documents", lambda: check([*document, *packed], {**cu, "ids": documents(5, 200)})
    yield "a limit that nothing meets", lambda: check([*document, *square, "--lse-limit", "1e-12"], ids, 1, "FAILED")
