"""score_mod and mask_mod as files, texts and expressions, alone and mixed: the
numbers, what messages call the lines, what is made once."""
import inspect
import os
import pathlib
import re
import sys
import tempfile
import unittest
import warnings

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "runtime" / "python"))

import facc  # noqa: E402

SLOPES = np.float32([0.5, 0.25, 0.125, 1])
ALIBI_FILE = ROOT / "examples" / "alibi.lua"  # facc.attention { score_mod = … }, tensor slopes
FUNCTION = "function(score, b, h, q, kv)\n  return score + slopes[h] * (kv - q)\nend"
CHUNK = """-- a chunk that gives a function
local facc = require "facc"
local slopes = facc.tensor("slopes", "f32", { "H" })
return function(score, b, h, q, kv)
  return score + slopes[h] * (kv - q)
end"""
PROGRAM = """local facc = require "facc"
local w = facc.param("w", "i32")
return facc.attention {
  score_mod = "2 * score",
  mask_mod = function(b, h, q, kv)
    return q >= kv and q - kv < w
  end }
"""


def inputs():
    rng = np.random.default_rng(1)
    return [rng.standard_normal(s).astype(np.float32) for s in ((1, 4, 20, 16), (1, 2, 20, 16), (1, 2, 20, 16))]


class Numbers(unittest.TestCase):
    def setUp(self):
        self.context = facc.Context(cache_mode="off")
        self.addCleanup(self.context.close)

    def attention(self, **call):
        return facc.attention(*inputs(), context=self.context, **call)

    def test_all_forms_and_mixtures(self):
        """ALiBi as each kind of score_mod with a window as each kind of mask_mod."""
        captured = dict(tensors={"slopes": SLOPES}, params={"w": 5})
        want = self.attention(score_mod="score + slopes[h] * (kv - q)", mask_mod="q >= kv and q - kv < w", **captured)
        scores = {"path": ALIBI_FILE, "file": str(ALIBI_FILE), "chunk": CHUNK, "function": FUNCTION,
                  "expression": "score + slopes[h] * (kv - q)"}
        masks = {"chunk": PROGRAM, "function": "function(b, h, q, kv) return q >= kv and q - kv < w end",
                 "expression": "q >= kv and q - kv < w"}
        for s, score in scores.items():
            for m, mask in masks.items():
                with self.subTest(score=s, mask=m):
                    got = self.attention(score_mod=score, mask_mod=mask, **captured)
                    np.testing.assert_array_equal(got, want)

    def test_one_mod_alone(self):
        q, k, v = inputs()
        want = facc.oracle(q, k, v, mask_mod="q >= kv and q - kv < 5")[0]
        got = self.attention(mask_mod=PROGRAM, params={"w": 5})  # its score_mod is not meant
        np.testing.assert_allclose(got, want, atol=1e-5)
        want = facc.oracle(q, k, v, score_mod="2 * score", mask_mod="q >= kv and q - kv < 5")[0]
        np.testing.assert_allclose(self.attention(program=PROGRAM, params={"w": 5}), want, atol=1e-5)
        got = self.attention(score_mod=FUNCTION, tensors={"slopes": SLOPES})
        want = self.attention(score_mod=ALIBI_FILE, tensors={"slopes": SLOPES})
        np.testing.assert_array_equal(got, want)

    def test_made_once_for_all_extents(self):
        def find(n, **mods):
            return facc.find_program(tensors={"t": np.zeros(n, np.float32)}, context=self.context, **mods)
        for mods in dict(score_mod="score + t[q]"), dict(score_mod="function(score, b, h, q) return score + t[q] end"), \
                dict(mask_mod="q > kv", score_mod="function(score, b, h, q) return score + t[q] end"):
            self.assertIs(find(20, **mods), find(30, **mods))
        # A loop over an extent needs its number.
        four, five = (find(n, score_mod="score + facc.sum(t)") for n in (4, 5))
        self.assertIsNot(four, five)
        q, k, v = inputs()
        t = np.float32([1, 2, 3, 4])
        self.attention(score_mod="score * facc.sum(t)", tensors={"t": t})
        np.testing.assert_allclose(self.attention(score_mod="score * facc.sum(t)", tensors={"t": t}),
                                   self.attention(scale=10 / 4), atol=1e-6)

    def test_a_file_that_changes(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.lua")
            for window in 3, 5:
                pathlib.Path(path).write_text(f"return function(b, h, q, kv) return q >= kv and q - kv < {window} end"
                                              + " " * window)
                np.testing.assert_array_equal(self.attention(mask_mod=path),
                                              self.attention(mask_mod=f"q >= kv and q - kv < {window}"))


class Operator(unittest.TestCase):
    def test_it_has_all_arguments(self):
        """What facc.attention takes and torch.compile's operator does not would be
        dropped without a word. Those that it refuses aloud are named here."""
        given = set(inspect.signature(facc.attention).parameters) - {"context", "stream", "fp8", "exact_peaks"}
        self.assertEqual(given, set(inspect.signature(facc._op.attention).parameters))
        flat = re.findall(r"(\w+)[,)]", facc._op.SCHEMA[:facc._op.SCHEMA.index("->")])
        self.assertEqual(flat, list(inspect.signature(facc._op.implementation).parameters))


class Messages(unittest.TestCase):
    def refused(self, status="SCRIPT", tensors=None, params=None, **mods):
        with self.assertRaises(facc.Error) as caught:
            facc.attention(*inputs(), tensors=tensors, params=params, **mods)
        e = caught.exception
        self.assertEqual(e.status_name, "FACC_ERR_" + status, e)
        self.assertNotIn("facc.mods.text", str(e))
        return e

    def test_lines_are_those_of_the_mod(self):
        for window in "q >= kv", "function(b, h, q, kv) return q >= kv end", PROGRAM:
            params = {"w": 3} if window is PROGRAM else None
            e = self.refused(score_mod=CHUNK.replace("slopes[h]", "slopes.x"), mask_mod=window, params=params)
            self.assertEqual((e.file, e.line), ("score_mod", 5), e)
            self.assertIn("score_mod:5: error:", e.message)
            self.assertIn("\n    5 |   return score + slopes.x", e.message)
        nested = CHUNK.replace("return function(", "local function sum(x)\n  return x + {}\nend\nreturn function(")
        e = self.refused(score_mod=nested.replace("kv - q", "sum(q)"), mask_mod="q >= kv")
        self.assertEqual((e.file, e.line), ("score_mod", 5), e)
        self.assertIn("score_mod:5: in ", e.log)
        self.assertIn("score_mod:8: in score_mod", e.log)
        e = self.refused(score_mod=CHUNK, mask_mod=PROGRAM.replace("w\n", "w + nothing\n"))
        self.assertEqual((e.file, e.line), ("mask_mod", 6), e)

    def test_expressions_beside_a_function(self):
        e = self.refused(score_mod="function(score) return score end", mask_mod="q - kv")
        self.assertEqual((e.file, e.line), ("score_mod and mask_mod", 0), e)

    def test_files_have_their_name(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "broken ü.lua")
            pathlib.Path(path).write_text('local facc = require "facc"\nreturn facc.attention {\n mask_mod = 5 }\n')
            for more in {}, {"score_mod": "score"}, {"score_mod": CHUNK}:
                e = self.refused(mask_mod=path, **more)
                self.assertIn("mask_mod must be a function", e.message)
            pathlib.Path(path).write_text("return function(b, h, q, kv)\n\n  return q - kv\nend\n")
            e = self.refused(mask_mod=path, score_mod=CHUNK)
            self.assertEqual(e.file, path)
            pathlib.Path(path).write_text("return function(b, h, q, kv)\n\n  return q >= = kv\nend\n")
            e = self.refused(mask_mod=path, score_mod=CHUNK)
            self.assertEqual((e.file, e.line), (path, 3), e)
            self.assertIn(path + ":3:", e.message)

    def test_reads_outside_a_tensor(self):
        e = self.refused("BOUNDS", score_mod=CHUNK.replace("slopes[h]", "slopes[h + 1]"), tensors={"slopes": SLOPES})
        self.assertEqual((e.file, e.line), ("score_mod", 5), e)

    def test_what_is_missing(self):
        e = self.refused(score_mod="missing.lua", status="IO")
        self.assertIn("missing.lua", e.message)
        e = self.refused(mask_mod=ALIBI_FILE)
        self.assertIn("alibi.lua has no mask_mod", e.message)
        e = self.refused("ARGUMENT", score_mod=CHUNK)
        self.assertIn("'slopes' is missing", e.message)
        for bad in 5, ["q >= kv"], facc:
            self.refused("ARGUMENT", mask_mod=bad)
        e = self.refused("ARGUMENT", mask_mod=lambda b, h, q, kv: q >= kv)
        self.assertIn("facc.flex takes mods in Python", e.message)
        e = self.refused("ARGUMENT", score_mod=FUNCTION, tensors={"slopes": SLOPES, "a b": SLOPES})
        self.assertIn("'a b' is not a name", e.message)
        self.refused("SCRIPT", program="local facc = require 'facc'\nreturn 5")
        self.refused("ARGUMENT", program="local \ud800")


class Warnings(unittest.TestCase):
    """Of the lint: a number as a condition."""

    LUA = "function(b, h, q, kv)\n  return kv % 2 and q >= kv\nend"

    def setUp(self):
        self.context = facc.Context(cache_mode="off")
        self.addCleanup(self.context.close)

    def warned(self, function, *arguments, **call):
        """The text of the one warning, at the call's line."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            function(*arguments, **call)
            line = inspect.currentframe().f_lineno - 1
        self.assertEqual([(w.category, w.filename, w.lineno) for w in caught], [(facc.FaccWarning, __file__, line)])
        return str(caught[0].message)

    def silent(self, function, *arguments, **call):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            function(*arguments, **call)

    def test_every_form_once(self):
        program = f"local facc = require 'facc'\nreturn facc.attention {{\nmask_mod = {self.LUA} }}"
        forms = [("expression:2", dict(mask_mod="kv % 2 and q >= kv")), ("mask_mod:2", dict(mask_mod=self.LUA)),
                 ("mask_mod:4", dict(mask_mod=program)), ("program:4", dict(program=program)),
                 ("mask_mod:2", dict(mask_mod=self.LUA, score_mod="2 * score")),
                 ("mask_mod:4", dict(mask_mod=program, score_mod="function(score) return 2 * score end")),
                 ("score_mod and mask_mod", dict(mask_mod="kv % 2 and q >= kv",
                                                 score_mod="function(score) return score end"))]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.lua")
            pathlib.Path(path).write_text(program)
            for place, call in [*forms, (f"{path}:4", dict(program=path)), (f"{path}:4", dict(mask_mod=path))]:
                with self.subTest(call):
                    message = self.warned(facc.attention, *inputs(), context=self.context, **call)
                    self.assertTrue(message.startswith(place + ": warning: a computed value is never used"), message)
                    self.silent(facc.attention, *inputs(), context=self.context, **call)
            for make, text in (facc.Program.from_file, path), (facc.Program.from_string, program), \
                    (facc.Program.from_expressions, "score + (q - kv and 1)"):
                self.warned(make, text, context=self.context)

    def test_as_an_error(self):
        for _ in range(2):
            with self.assertRaisesRegex(facc.FaccWarning, "mask_mod:2"):
                self.silent(facc.attention, *inputs(), context=self.context, mask_mod=self.LUA)


if __name__ == "__main__":
    unittest.main()
