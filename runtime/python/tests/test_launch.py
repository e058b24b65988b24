"""Runs launches.py where libcuda.so.1 and NVRTC are those of fake_cuda.c. Needs
a C compiler ($CC, else cc), no GPU."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]


class Launch(unittest.TestCase):
    def test_in_a_process_with_the_fake_driver(self):
        with tempfile.TemporaryDirectory() as folder:
            library = os.path.join(folder, "libcuda.so.1")
            subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-I", str(ROOT),
                            str(HERE / "fake_cuda.c"), "-o", library], check=True)
            environment = {**os.environ, "FACC_NVRTC": library,
                           "LD_LIBRARY_PATH": folder + ":" + os.environ.get("LD_LIBRARY_PATH", "")}
            done = subprocess.run([sys.executable, "-m", "unittest", "tests.launches"], cwd=HERE.parent,
                                  env=environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
