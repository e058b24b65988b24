"""Tests of bench_hopper.py that need no GPU and no PyTorch: ratios, states, and
what a run does when something fails, is skipped, or has no time.

    build/venv/bin/python -m unittest discover -s tests/bench"""
import argparse
import contextlib
import io
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
os.environ["FACC_TEST_DEVICE"] = "cpu"
import bench_hopper  # noqa: E402
import bench_variants  # noqa: E402
import checks  # noqa: E402
import hopper_rows as rows  # noqa: E402
from bench_variants import Case, lines  # noqa: E402
from hopper_mods import Mod, t5_edges  # noqa: E402
from hopper_rows import ROWS, Contestant, Row, Shape  # noqa: E402


def times_of(wanted, ms):
    return {(r.shape, x): t for r in wanted for x, t in zip((r.a, r.b), ms)}


class Figures(unittest.TestCase):
    def test_flops(self):
        dense, causal = Contestant("facc", "none"), Contestant("facc", "causal")
        self.assertEqual(rows.flops(Shape(128, 8192), dense), 4 * 2 * 16 * 8192**2 * 128)
        self.assertEqual(rows.flops(Shape(128, 8192), causal), 2 * 2 * 16 * 8192**2 * 128)
        self.assertEqual(rows.flops(Shape(192, 8192, 128), dense), 2 * 2 * 10 * 8192**2 * 320)
        self.assertEqual(rows.flops(Shape(96, 8192), dense), 4 * 2 * 21 * 8192**2 * 96)
        self.assertEqual(rows.flops(Shape(96, 8192), Contestant("facc128", "none")), 4 * 2 * 16 * 8192**2 * 128)
        self.assertEqual(rows.flops(Shape(128, 8192), Contestant("facc", "mla")), 2 * 2 * 16 * 8192**2 * 320)
        self.assertEqual(rows.flops(Shape(128, 8192), Contestant("facc192", "none")), 2 * 2 * 10 * 8192**2 * 320)

    def test_cells(self):
        self.assertEqual(Mod("window").cells(2048), 2048 * 1024 - 1024 * 512)
        self.assertEqual(Mod("window").cells(1024), 1024 * 512)
        self.assertEqual(Mod("documents").cells(8192), 16 * 512 * 256)
        self.assertEqual(Mod("alibi").cells(64), 64 * 64)

    def test_ratio_of_speeds_and_of_times(self):
        a, b = Contestant("facc", "causal"), Contestant("cudnn", "causal")
        speed = Row("speed", Shape(128, 8192), a, b, 1.2, 1.3)
        found = rows.result(speed, times_of([speed], (2.0, 2.5)), None)
        self.assertAlmostEqual(found.ratio, 1.25)
        self.assertEqual(found.state, "OK")
        time = speed._replace(time=True, must=0.7, aim=0.6)
        found = rows.result(time, times_of([time], (2.0, 2.5)), None)
        self.assertAlmostEqual(found.ratio, 0.8)
        self.assertEqual(found.state, "ABOVE")

    def test_states(self):
        r = rows.Result("x", 1.1, 1.2, False)
        self.assertEqual([r._replace(ratio=x).state for x in (math.nan, 1.0, 1.1, 1.2)], ["SKIPPED", "BELOW", "OK", "AIM"])
        self.assertEqual(r._replace(ratio=9, aim=math.nan).state, "OK")

    def test_geometric_mean(self):
        found = rows.results(ROWS, times_of(ROWS, (1.0, 2.0)), None)
        self.assertAlmostEqual(found[-1].ratio, 2.0)
        self.assertEqual(found[-1].state, "AIM")
        self.assertIn("least 2.000", found[-1].note)
        self.assertIsNone(rows.geometric_mean(found[:3]))
        parts = [r for r in ROWS if r.title.startswith(rows.GEOMETRIC)]
        self.assertEqual(len(parts), 14)
        few = rows.results(parts, times_of(parts[:3], (1.0, 2.0)), lambda *_: "why")
        self.assertIn("of 3 of 14", few[-1].note)
        self.assertIn("why", few[5].note)

    def test_rows(self):
        self.assertEqual(len({r.title for r in ROWS}), len(ROWS))
        for shape, of_shape in rows.contestants(ROWS).items():
            self.assertEqual(len(set(of_shape)), len(of_shape))
            self.assertEqual(shape.flex, any(x.who == "flex" for x in of_shape))
            for x in of_shape:
                self.assertIn(x.who, ("facc", "cudnn", "flex", "hand", *rows.OWN))
                self.assertTrue(x.who != "hand" or (pathlib.Path(bench_hopper.HERE) / rows.BY_HAND[x.mod]).exists())
        for r in rows.results(ROWS, {}, lambda *_: "dry"):
            self.assertEqual(len(rows.cells_of(r)), len(rows.HEAD))
            self.assertTrue(r.note)
        self.assertEqual(len({len(r) for r in rows.csv_rows(rows.results(ROWS, {}, lambda *_: ""))}), 1)

    def test_groups(self):
        """What is run alone: by a pattern of its rows' names."""
        def of(pattern):
            return [r for r in ROWS if re.search(pattern, r.title, re.I)]
        hand, gathers = of("by hand"), of("gather")
        self.assertEqual({r.b.mod for r in hand}, set(rows.BY_HAND))
        self.assertEqual({(r.a.who, r.b.who) for r in hand}, {("facc", "hand")})
        self.assertTrue(all(r.a.mod == r.b.mod and r.a.how == r.b.how and r.must >= 0.97 for r in hand))
        self.assertEqual([r.a.mod for r in gathers], ["table", "densebias16", "densebias"])
        self.assertEqual({(r.b.who, r.must, r.time, r.shape.D, r.shape.S) for r in gathers}, {("flex", 1.5, False, 128, 8192)})

    def test_mods(self):
        with self.assertRaises(ValueError):
            Mod("alibi+casual")
        self.assertEqual(t5_edges(16, 8, 128), [12, 16, 23, 32, 46, 64, 91])  # T5's own, for 32 buckets


class Hand(unittest.TestCase):
    """Variants written by hand, on the CPU, beside those that are generated."""

    def check(self, mod, define, change=lambda text: text):
        """Wrong cells; cells that count; rows of tiles where all do; of these, refused by the quick path."""
        try:
            import facc
            program = facc.Program.from_string(Mod(mod).lua(), mod + ".lua")
        except OSError as e:
            self.skipTest(f"SKIPPED: Variants by hand: no libfacc.so: {e}")
        if not shutil.which("c++"):
            self.skipTest("SKIPPED: Variants by hand: no C++ compiler")
        root, here = bench_hopper.HERE.parents[1], bench_hopper.HERE
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            key = dict(dtype="bf16", head_dim=128, head_dim_v=128, arch=90)
            for what in ("config", "variant"):
                (folder / f"facc_{what}.cuh").write_text(program.dump(what, **key))
            (folder / "common").mkdir()
            (folder / "common" / "variant_ptx.cuh").write_text("#pragma once\n")  # emit_host.h has it
            hand = folder / rows.BY_HAND[mod]
            hand.write_text(change((here / hand.name).read_text()))
            flags = [f"-I{x}" for x in (folder, root, root / "templates")]
            subprocess.run(["c++", "-std=c++17", "-O1", "-w", *flags, f"-DBY_HAND=\"{hand}\"", f"-D{define}",
                            str(here / "by_hand_check.cpp"), "-o", str(folder / "check")], check=True)
            return map(int, subprocess.run([folder / "check"], check=True, capture_output=True, text=True).stdout.split())

    def test_alibi(self):
        wrong, cells, full, refused = self.check("alibi+causal", "MOD_SLOPES")
        self.assertEqual((wrong, refused), (0, 0))
        self.assertGreater(cells, 50000)

    def test_t5(self):
        wrong, cells, full, refused = self.check("t5+causal", "MOD_T5")
        self.assertEqual(wrong, 0)
        self.assertTrue(0 < refused < full / 2, (refused, full))

    def test_documents(self):
        wrong, cells, full, refused = self.check("documents", "MOD_DOCUMENTS")
        self.assertEqual((wrong, refused), (0, 0))
        self.assertGreater(cells, 5000)

    def test_what_is_wrong_is_seen(self):
        def changed(old, new):
            def change(text):
                self.assertIn(old, text)
                return text.replace(old, new)
            return change
        for mod, define, old, new in (("t5+causal", "MOD_T5", "distance >= 46", "distance >= 45"),
                                      ("t5+causal", "MOD_T5", "kTileN - 7", "kTileN - 9"),
                                      ("documents", "MOD_DOCUMENTS", "min(x % 8, 2)", "min(x % 8, 1)")):
            self.assertGreater(next(self.check(mod, define, changed(old, new))), 0, old)


try:
    import torch
except ImportError:
    torch = None


@unittest.skipUnless(torch, "SKIPPED: mods by hand: PyTorch is not installed")
class ByHand(unittest.TestCase):
    """Each mod in Lua, on facc's CPU path, is the one in PyTorch."""

    def test_mods(self):
        import facc
        g, (B, H, S, D) = torch.Generator().manual_seed(0), (2, 4, 1280, 32)
        q, k, v = (torch.randn(B, H, S, D, generator=g) for _ in range(3))
        for name in sorted({x.mod for r in ROWS for x in (r.a, r.b)}):
            mod = Mod(name)
            tensors = mod.captured(B, H, S)
            program = facc.Program.from_string(mod.lua(), name)
            out, lse = facc.attention(q, k, v, program=program, tensors=tensors, params=mod.params, return_lse=True)
            launch = types.SimpleNamespace(out=out, lse=lse)
            for error in checks.sampled_error(launch, q, k, v, mod, tensors):
                self.assertLess(error, 1e-4, name)
            out[:, :, 0] += 1  # and the check sees what is wrong
            self.assertGreater(checks.sampled_error(launch, q, k, v, mod, tensors)[0], bench_hopper.FAST_TOLERANCE, name)
            keep = mod.by_hand(tensors)[1]
            if keep:
                i, j = torch.arange(S)[:, None], torch.arange(S)[None]
                self.assertAlmostEqual(int(keep(i * 0, i * 0, i, j).sum()) / mod.cells(S), 1, delta=0.02)


class Runs(unittest.TestCase):
    """A whole run on stand-ins for the device."""

    def run_bench(self, pattern="", flex="60", seconds=200.0, fail=(), fault=None, wrong=()):
        args = argparse.Namespace(flex=flex, seconds=seconds, rounds=1, layout=None, family=None, jobs=1, dry=False,
                                  json=None, csv=None, trace=False)
        wanted = [r for r in ROWS if pattern in r.title]
        self.dead = False

        def prepared(program, q, k, v, variant=None, tensors=None, params=None):
            if program in fail:
                raise RuntimeError(f"no {program}\nmore")
            self.dead |= program == fault
            out = mock.MagicMock()
            out.workspace, out.program = None, program
            return out

        def check_device(what):
            if self.dead:
                raise bench_hopper.Stop(f"fault in {what}")
        torch = types.SimpleNamespace(bfloat16="bf16", cuda=mock.MagicMock())
        programs = mock.MagicMock()
        programs.return_value.get = lambda who, mod: f"{who} {mod}"
        programs.return_value.compile_all = lambda wanted: []
        text = io.StringIO()
        with contextlib.ExitStack() as stack:
            stack.enter_context(mock.patch.dict(sys.modules, torch=torch, **{"torch.nn": mock.MagicMock(),
                                                                            "torch.nn.attention": mock.MagicMock()}))
            for name, x in dict(
                    inputs=lambda *a: [mock.MagicMock(shape=(1, 1, 8, 8))] * 3, prepared=prepared, Programs=programs,
                    sdpa=lambda *a: "sdpa", flex_calls=lambda *a: (mock.MagicMock(), mock.MagicMock()), in_graph=lambda x: x,
                    interleaved=lambda calls, *_: {x: 1.0 for x in calls}, check_device=check_device, Watch=mock.MagicMock(),
                    sampled_error=lambda launch, *_: (1.0 if launch.program in wrong else 0.0, 0.0)).items():
                stack.enter_context(mock.patch.object(bench_hopper, name, x))
            stack.enter_context(mock.patch.object(Mod, "captured", lambda *_: {"slopes": 0, "bias": 0, "ids": [0]}))
            stack.enter_context(mock.patch.object(Mod, "by_hand", lambda *_: (None, None)))
            stack.enter_context(contextlib.redirect_stdout(text))
            bench = bench_hopper.Bench(args, wanted)
            bench.run(None)
            bench.report()
        return {r.title: r for r in bench.results()}, text.getvalue()

    def test_all(self):
        found, text = self.run_bench()
        self.assertFalse([t for t, r in found.items() if r.state == "SKIPPED"], text)
        self.assertIn("| D 128, S 8192, causal | >= 1.21 | 1.30 | 1.000 | BELOW |", text)

    def test_without_flex(self):
        found, _ = self.run_bench(flex="none")
        self.assertEqual(found["window 1024, time / FlexAttention"].state, "SKIPPED")
        self.assertIn("not asked for", found["window 1024, time / FlexAttention"].note)
        self.assertEqual(found["key bias, causal"].state, "BELOW")

    def test_a_failure_is_of_its_rows_alone(self):
        found, text = self.run_bench(fail=("facc t5+causal",))
        self.assertEqual([t for t, r in found.items() if r.state == "SKIPPED"],
                         ["T5-type table, causal", "T5-type table, causal / by hand"])
        self.assertIn("RuntimeError: no facc t5+causal", found["T5-type table, causal"].note)

    def test_a_fault_ends_the_run(self):
        found, text = self.run_bench(fault="facc softcap+causal")
        self.assertIn("STOPPED", text)
        self.assertEqual(found["key bias, causal"].state, "SKIPPED")
        self.assertEqual(found["D 64, S 8192, full"].state, "SKIPPED")

    def test_wrong_results_are_said(self):
        _, text = self.run_bench("ALiBi", wrong=("facc alibi+causal",))
        self.assertIn("WRONG RESULTS: D 128, S 8192: facc alibi+causal", text)

    def test_no_time(self):
        found, _ = self.run_bench(seconds=3.5)
        self.assertIn("no time left", found["D 128, S 8192, full"].note)


class Variants(unittest.TestCase):
    def test_cases(self):
        case = Case.parse("alibi+causal:192/128:4096")
        self.assertEqual((case.D, case.Dv, case.S, case.causal), (192, 128, 4096, True))
        self.assertEqual(str(case), "alibi+causal 192/128 S 4096")
        self.assertEqual(case.flops(), 2 * 320 * 4 * 10 * 4096**2 // 2)
        self.assertTrue(Case.parse("a/b.lua:64:512:causal").causal)
        for text in ("causal:128", "nothing:128:512", "causal:128:512:causal", "x.lua:64:512:full"):
            with self.assertRaises(ValueError):
                Case.parse(text)

    def test_lines(self):
        case = Case.parse("none:128:8192")
        info = mock.MagicMock(family="sm90", tile_m=192)
        built = {("a", case): (None, info), ("b", case): "not compiled", ("c", case): (None, info)}
        cells = list(lines(case, {"a": 2.0, "c": 1.0, "cuDNN": 3.0}, {"a": (0.1, 0.2, 0.3)}, built))
        self.assertEqual([c[4:6] for c in cells], [("1.500", "1.000"), ("3.000", "2.000"), ("1.000", "0.667")])
        self.assertEqual({len(c) for c in cells}, {len(bench_variants.HEAD)})


if __name__ == "__main__":
    unittest.main()
