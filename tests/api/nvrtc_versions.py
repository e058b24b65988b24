"""Kernels by every NVRTC from 12.4 on that PyPI has: they compile, or the message says what is too old.
usage: nvrtc_versions.py path/to/facc [VERSION...]   (from the repository's root; downloads some 40 to 90 MB for each)"""

import glob
import json
import os
import subprocess
import sys
import tempfile

VERSIONS = ["12.4", "12.5", "12.6", "12.8", "12.9", "13.0", "13.1", "13.2", "13.3"]
WORKS = {80: "12.4", 90: "12.4", 100: "12.8", 120: "12.8"}  # from which version on
FILE = "examples/document.lua"  # has a schedule's kernels, too


def number(version):
    return tuple(int(x) for x in version.split("."))


def install(version):
    """The folder of libnvrtc.so, or None where PyPI has no such version."""
    target = os.path.abspath(f"build/nvrtc/{version}")
    find = lambda: glob.glob(f"{target}/nvidia/*/lib/libnvrtc.so.1[0-9]")
    if not find():
        package = "nvidia-cuda-nvrtc" + ("-cu12" if number(version) < (13,) else "")
        subprocess.run(
            [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--target",
             target, f"{package}=={version}.*"],
            capture_output=True,
        )
    return os.path.dirname(find()[0]) if find() else None


def compile_with(facc, folder, cache):
    env = dict(os.environ, FACC_NVRTC=folder, FACC_CACHE_DIR=cache, FACC_LOG="off")
    archs = ",".join(str(a) for a in WORKS)
    out = subprocess.run([facc, "compile", FILE, "--arch", archs, "--head-dim", "64", "--json"], env=env,
                         capture_output=True, text=True)
    try:
        return json.loads(out.stdout)
    except ValueError:
        sys.exit(f"no JSON (exit code {out.returncode}): {out.stdout}{out.stderr}")


def judge(version, row):
    """What is wrong with it, or None."""
    too_old = number(version) < number(WORKS[row["arch"]])
    if row["status"] == "FACC_OK":
        if row["source"] != "nvrtc" or row["cubin_bytes"] < 10000 or row["registers"] <= 0:
            return f"strange: {row}"
        return None
    if too_old and row["status"] == "FACC_ERR_UNSUPPORTED" and "install a newer NVRTC" in row["message"]:
        return None
    return f"{row['status']}: {row['message']}"


def main():
    facc, tried, bad = os.path.abspath(sys.argv[1]), 0, 0
    for version in sys.argv[2:] or VERSIONS:
        folder = install(version)
        if not folder:
            print(f"{version}: PyPI has none (or cannot be reached)")
            continue
        tried += 1
        with tempfile.TemporaryDirectory() as cache:
            rows = compile_with(facc, folder, cache)
        for row in rows:
            wrong = judge(version, row)
            if wrong:
                bad += 1
                print(f"FAILED {version}: {row['file']}, sm_{row['arch']}: {wrong}")
        good = [r for r in rows if r["status"] == "FACC_OK"]
        spills = sum(r["spill_bytes"] for r in good)
        print(f"{version}: {len(good)} kernels, {len(rows) - len(good)} refused, {spills} spill bytes, "
              f"{sum(r['seconds'] for r in good):.1f} s", flush=True)
    if not tried:
        sys.exit(77)
    sys.exit(bad > 0)


main()
