#!/usr/bin/env python3
"""Does the fuzzer find mistakes? Plants them one by one in a copy of the tree,
builds the fuzzer there and runs it until it fails.

    python3 tests/fuzz/mutations.py [--mods 3000] [--only TEXT] [--shrink S]

Prints for each mistake the stage and the first seed that found it; ends with 1
if one was not found. Takes minutes: a build for each."""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Name, file, text, what it becomes. "=> nvrtc": found by compiling.
MUTATIONS = [
    ("floor division truncates", "compiler/ir/eval_math.h", "a / b - ((a % b != 0) & ((a ^ b) < 0))", "a / b"),
    ("modulo has the dividend's sign", "compiler/ir/eval_math.h", "(r != 0 && (r ^ b) < 0) ? r + b : r", "r"),
    ("min of ints is max", "compiler/ir/ops.def", "(x0 < x1 ? x0 : x1), ", "(x0 > x1 ? x0 : x1), "),
    ("max of floats is min", "compiler/ir/ops.def", "(x0 < x1 ? x1 : x0), ", "(x1 < x0 ? x1 : x0), "),
    ("shift right is arithmetic", "compiler/ir/eval_math.h", "(int64_t)((uint64_t)a >> -n)", "a >> -n"),
    ("sigmoid of -x", "compiler/ir/ops.def", "(1 / (1 + M(exp)(-x0)))", "(1 / (1 + M(exp)(x0)))"),
    ("log2 is log", "compiler/ir/ops.def", "M(log2)(x0)", "M(log)(x0)"),
    ("round goes up at halves", "compiler/ir/ops.def", "ev_to_i32(M(rint)(x0))", "ev_to_i32(M(floor)(x0 + (FT)0.5))"),
    ("arms of a choice of ints swapped", "compiler/ir/ops.def", '"($0 ? $1 : $2)",           (x0 ? x1 : x2),'
     '                           sel,       ZERO,                                ZERO,                 ZERO)',
     '"($0 ? $1 : $2)", (x0 ? x2 : x1), sel, ZERO, ZERO, ZERO)'),
    ("< of ints is <=", "compiler/ir/compare.c", "strict ? -1 : 0", "0"),
    ("int < float constant rounds down", "compiler/ir/compare.c",
     "int_bound(g, a, ceil(ir_node(g, b)->f), true, true)", "int_bound(g, a, floor(ir_node(g, b)->f), true, true)"),
    ("division by the common factor rounds up", "compiler/ir/linear.c", "m.c = ev_floordiv(m.c, d);",
     "m.c = -ev_floordiv(-m.c, d);"),
    ("not of >= off by one", "compiler/ir/logic.c", "ir_linear_init(&l, ~ir_node(g, r)->i);",
     "ir_linear_init(&l, -ir_node(g, r)->i);"),
    ("equation solved with the wrong sign", "compiler/passes/congruence.c", "l.term[j], -c * l.k[j])))",
     "l.term[j], c * l.k[j])))"),
    ("-inf arms are kept", "compiler/passes/lift.c", "s[r].keep = ir_select(g, c, keep_of(g, s, a), keep_of(g, s, b));",
     "s[r].keep = ir_select(g, c, keep_of(g, s, a), ir_const_b(g, true));"),
    ("elements of captured tensors one dimension off", "compiler/ir/eval.c",
     "offset[i], ev_wrap_mul(m->stride[k], x[wide ? i : 0])", "offset[i], ev_wrap_mul(m->stride[0], x[wide ? i : 0])"),
    ("dot product of a row with itself", "compiler/frontend/vectors.c", "ir_dot(t->graph, x, y), before",
     "ir_dot(t->graph, x, x), before"),
    ("interval of % one too small", "compiler/ir/interval.c", "r.i.hi = d.i.hi - 1;", "r.i.hi = d.i.hi - 2;"),
    ("interval of & too small", "compiler/ir/interval.c", "r.i.hi = min_i(r.i.hi, x[j].i.hi);",
     "r.i.hi = min_i(r.i.hi, x[j].i.lo);"),
    ("interval of * forgets two corners", "compiler/ir/interval.c",
     "    for (int j = 0; j < 4; j++) {\n        int64_t p;", "    for (int j = 0; j < 4; j += 2) {\n        int64_t p;"),
    ("summary leaves out the greatest of the last", "compiler/passes/verdict_tables.c",
     "take(&e, x->lo[last], x->hi[last]);", "take(&e, x->lo[last], x->lo[last]), e.hi = min_i(e.hi, x->lo[last]);"),
    ("summary of blocks is one block short", "compiler/passes/verdict_tables.c",
     "b = a + blocks - ((int64_t)1 << l)", "b = a"),
    ("any true begins at the second position", "compiler/passes/verdict_tables.c",
     "x->is_true[last + 1] != x->is_true[first];", "x->is_true[last] != x->is_true[first];"),
    ("halving leaves out the last quarter", "compiler/passes/verdict_eval.c", "part < 4 && all", "part < 3 && all"),
    ("bounds of rows off by one in verdicts", "compiler/passes/verdict_eval.c", "r.iv.i.hi = s->last[side];",
     "r.iv.i.hi = s->last[side] - (s->last[side] > s->first[side]);"),
    ("CPU tile asks for a column too few", "runtime/cpu/cpu_mask.c",
     "verdict_eval(m->verdicts, q0, q0 + rows - 1, kv0, kv0 + n - 1)",
     "verdict_eval(m->verdicts, q0, q0 + rows - 1, kv0, kv0 + n - (n > 1 ? 2 : 1))"),
    ("rescaling forgets the sum", "runtime/cpu/cpu_tile.c", "            s->l[i] *= alpha;\n", ""),
    ("LSE without the maximum", "runtime/cpu/cpu_tile.c", "s->m[i] + log(l)", "log(l)"),
    ("KV head is h % Hkv", "runtime/cpu/cpu_tile.c", "h / (call->size.H / call->size.Hkv)", "h % call->size.Hkv"),
    ("masked rows have LSE 0", "runtime/cpu/cpu_tile.c", "l == 0 ? -INFINITY : s->m[i]", "l == 0 ? 0 : s->m[i]"),
    ("generated max has one operand => nvrtc", "compiler/ir/ops.def", '"facc_max($0, $1)"', '"facc_max($0)"'),
]


def run(command, **more):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)


def copy_tree(to):
    for name in ("CMakeLists.txt", "cmake", "compiler", "runtime", "templates", "tests"):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, to / name)
        else:
            shutil.copy2(source, to / name)


def build(source, folder):
    r = run(["cmake", "--build", str(folder), "--target", "fuzz", "-j", str(os.cpu_count())])
    return r.returncode == 0, r.stdout


def hunt(name, folder, args):
    """(found, words)"""
    kind = ["--nvrtc", "10"] if name.endswith("=> nvrtc") else ["--mods", str(args.mods)]
    r = run([str(folder / "fuzz"), *kind, "--shrink", str(args.shrink), "--out", str(folder)])
    first = re.search(r"seed (\d+) failed \(([^:]*)", r.stdout)
    if not first:
        return False, r.stdout.strip().splitlines()[-1] if r.stdout.strip() else f"exit code {r.returncode}"
    lines = re.search(r"from (\d+) to (\d+) decisions", r.stdout)
    return True, f"{first[2]}, seed {first[1]}" + (f", decisions {lines[1]} to {lines[2]}" if lines else "")


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--mods", type=int, default=3000)
    p.add_argument("--shrink", type=float, default=0, help="seconds for making each finding small")
    p.add_argument("--only", default="", help="mistakes whose name has this text")
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        tree, folder = pathlib.Path(scratch) / "tree", pathlib.Path(scratch) / "build"
        tree.mkdir()
        copy_tree(tree)
        launcher = ["-DCMAKE_C_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
        run(["cmake", "-S", str(tree), "-B", str(folder), "-DCMAKE_BUILD_TYPE=Release",
             "-DCMAKE_C_FLAGS_RELEASE=-O1 -DNDEBUG -w", *launcher])
        ok, text = build(tree, folder)
        if not ok:
            print(text[-3000:])
            return 2
        missed = 0
        for name, file, old, new in [m for m in MUTATIONS if args.only in m[0]]:
            start, path = time.time(), tree / file
            before = path.read_text()
            if before.count(old) < 1:
                print(f"STALE {name}: {file} has no such text", flush=True)
                missed += 1
                continue
            path.write_text(before.replace(old, new, 1))
            ok, text = build(tree, folder)
            found, words = hunt(name, folder, args) if ok else (False, "does not build: " + text[-300:])
            missed += not found
            print(f"{'found ' if found else 'MISSED'} {name}: {words}; {time.time() - start:.0f} s", flush=True)
            path.write_text(before)
    print(f"{missed} not found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
