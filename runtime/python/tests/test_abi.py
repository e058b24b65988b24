"""ctypes mirrors of runtime/facc.h against what a C compiler says: size of
every struct, offset and size of every field, every status and dtype number.
Needs a C compiler ($CC, else cc), no libfacc.so."""
import ctypes
import importlib.util
import os
import pathlib
import re
import subprocess
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[3]


def load_abi():
    """_abi alone: importing the package would need libfacc.so."""
    path = ROOT / "runtime" / "python" / "facc" / "_abi.py"
    spec = importlib.util.spec_from_file_location("facc_abi", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def c_facts(abi):
    """{"struct": size, "struct.field": (offset, size), "NAME": value}"""
    lines = []
    for s in abi.STRUCTS + (abi.scalar_value,):
        name = s.__name__
        kind = "union" if issubclass(s, ctypes.Union) else "struct"
        lines.append(f'P("{name}", sizeof({kind} facc_{name}), 0);')
        for field, _ in s._fields_:
            lines.append(f'P("{name}.{field}", offsetof({kind} facc_{name}, {field}), '
                         f'sizeof((({kind} facc_{name} *)0)->{field}));')
    lines += [f'P("{name}", (size_t)-{name}, 0);' for name in abi.STATUS.values()]
    lines += [f'P("FACC_{name.upper()}", FACC_{name.upper()}, 0);' for name in abi.DTYPES]
    lines += [f'P("FACC_DUMP_{name.upper()}", FACC_DUMP_{name.upper()}, 0);' for name in abi.DUMPS]
    lines.append('P("FACC_MAX_DIMS", FACC_MAX_DIMS, 0);')
    source = ('#include <stdio.h>\n#include "runtime/facc.h"\n'
              '#define P(n, a, b) printf("%s %zu %zu\\n", n, (size_t)(a), (size_t)(b))\n'
              "int main(void) {" + "\n".join(lines) + "return 0; }\n")
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "facts")
        subprocess.run([os.environ.get("CC", "cc"), "-std=c11", "-I", str(ROOT), "-x", "c", "-",
                        "-o", program], input=source, text=True, check=True)
        text = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    return {n: (int(a), int(b)) for n, a, b in (line.split() for line in text.splitlines())}


class Abi(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.abi = load_abi()
        cls.facts = c_facts(cls.abi)

    def test_layout(self):
        for s in self.abi.STRUCTS + (self.abi.scalar_value,):
            self.assertEqual(self.facts[s.__name__][0], ctypes.sizeof(s), s.__name__)
            end = 0
            for name, _ in s._fields_:
                f = getattr(s, name)
                self.assertEqual(self.facts[f"{s.__name__}.{name}"], (f.offset, f.size),
                                 f"{s.__name__}.{name}")
                end = max(end, f.offset + f.size)
            # No field is missing at the end.
            self.assertLess(ctypes.sizeof(s) - end, 8, s.__name__)

    def test_numbers(self):
        for number, name in self.abi.STATUS.items():
            self.assertEqual(self.facts[name][0], -number, name)
        for name, (number, _) in self.abi.DTYPES.items():
            self.assertEqual(self.facts["FACC_" + name.upper()][0], number, name)
        for name, number in self.abi.DUMPS.items():
            self.assertEqual(self.facts["FACC_DUMP_" + name.upper()][0], number, name)
        self.assertEqual(self.facts["FACC_MAX_DIMS"][0], self.abi.MAX_DIMS)

    def test_no_status_or_function_is_unknown(self):
        header = "".join(p.read_text() for p in (ROOT / "runtime").glob("facc*.h"))
        names = set(re.findall(r"\bFACC_ERR_[A-Z_]+", header))
        self.assertLessEqual({n for n in names if not n.endswith("_")}, set(self.abi.STATUS.values()))
        for name in self.abi.FUNCTIONS:
            self.assertIn(f"facc_{name}(", header)

    def test_other_libraries(self):
        """C's own stands for one that lacks a function."""
        for path, text in ("libc.so.6", r"libc\.so\.6 is not the library of this package: it has no facc_version"), \
                ("/nowhere/libfacc.so", "was not found; set FACC_LIBRARY"):
            with mock.patch.dict(os.environ, FACC_LIBRARY=path), self.assertRaisesRegex(ImportError, text):
                self.abi.load()


if __name__ == "__main__":
    unittest.main()
