"""Reads `facc compile --json` and fails on spills that have no exception.

spills.txt has one line per exception: FILE DTYPE D/DV ARCH BYTES reason; FILE
of variants for packed sequences ends in +packed, with block lists in +blocks,
with sinks in +sinks, with dropout in +dropout; ARCH is 90a for family sm90."""
import json
import sys


def main(report, exceptions):
    allowed = {}
    with open(exceptions) as f:
        for line in f:
            if line.strip() and not line.startswith("#"):
                file, dtype, dims, arch, size, reason = line.split(maxsplit=5)
                allowed[file, dtype, dims, arch] = int(size)
    with open(report) as f:
        rows = json.load(f)
    bad = 0
    for r in rows:
        dims = "%d/%d" % (r["head_dim"], r["head_dim_v"])
        hints = ("+packed" if r["packed"] else "") + ("+blocks" if r["block_mask"] else "") + \
            ("+sinks" if r["sinks"] else "") + ("+dropout" if r["dropout"] else "")
        arch = str(r["arch"]) + ("a" if r["family"] == "sm90" else "")
        key = (r["file"] or "-") + hints, r["dtype"], dims, arch
        if r["status"] != "FACC_OK" or r["spill_bytes"] > allowed.get(key, 0):
            bad += 1
            print(*key, r["status"], r["spill_bytes"], "spill bytes", r["message"])
    print("%d kernels, %d bad" % (len(rows), bad))
    return bad != 0 or not rows


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
