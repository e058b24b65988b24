"""Tests of bench_host.py that need no GPU and no PyTorch: what is told of memory
that grows, and the empty kernel that launches are compared with."""
import contextlib
import io
import pathlib
import sys
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import bench_host  # noqa: E402

sys.path.insert(0, str(bench_host.ROOT / "runtime" / "python"))


class Memory(unittest.TestCase):
    def row(self, before, after, allowed=100):
        calls = []
        with mock.patch.object(bench_host, "memory", side_effect=[before, after]):
            row = bench_host.grown("launches", 50, calls.append, allowed)
        self.assertEqual(calls, [5, 50])  # the first part is not counted
        return row

    def test_flat(self):
        self.assertTrue(self.row((1000, 500.0), (1100, 502.0))["flat"])
        self.assertTrue(self.row((1000, 500.0), (900, 400.0))["flat"])
        self.assertFalse(self.row((1000, 500.0), (1101, 500.0))["flat"])
        self.assertFalse(self.row((1000, 500.0), (1000, 504.0))["flat"])

    def test_told(self):
        flat, grows = self.row((1000, 500.0), (1000, 500.0)), self.row((1000, 500.0), (1101, 500.0))
        with contextlib.redirect_stdout(io.StringIO()) as out:
            self.assertEqual(bench_host.tell_grown("T", [flat]), [flat])
            with self.assertRaisesRegex(RuntimeError, "memory grows: launches"):
                bench_host.tell_grown("T", [flat, grows])
        self.assertIn("| launches | 50 |", out.getvalue())
        self.assertIn("| +101 |", out.getvalue())


class EmptyKernel(unittest.TestCase):
    def test_compiles(self):
        import facc
        system = facc.default_context().system()
        if not system["nvrtc_found"]:
            self.skipTest("no NVRTC")
        library = bench_host.nvrtc(system["nvrtc_path"])
        for arch in 80, 90:
            cubin = bench_host.empty_cubin(library, bench_host.ARGS_BYTES, arch)
            self.assertEqual(cubin[:4], b"\x7fELF")

    def test_size_of_arguments(self):
        header = (bench_host.ROOT / "templates" / "common" / "kernel_args.h").read_text()
        self.assertIn(f"sizeof(struct facc_kernel_header) == {bench_host.ARGS_BYTES})", header)


if __name__ == "__main__":
    unittest.main()
