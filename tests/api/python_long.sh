#!/bin/sh
# The Python package as users get it, and with PyTorch; fetches 3 GB from PyPI
# into build/venv-long. Run by tests/run.sh --long.
#   wheel      pip wheel . gives py3-none-PLATFORM with the library inside; it
#              works from a venv that has nothing else of facc
#   PyTorch    runtime/python/tests, none skipped, Inductor, too
#   SmolLM2    examples/python/smollm2.py in NumPy and in PyTorch
set -eu
cd "$(dirname "$0")/../.."
root=$PWD
venv=build/venv-long
fail() { echo "python_long.sh: $*" >&2; exit 1; }

[ -x $venv/bin/python ] || python3 -m venv $venv
$venv/bin/pip install --quiet --disable-pip-version-check numpy torch

# --- wheel ---
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
$venv/bin/pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$dir" .
wheel=$(ls "$dir"/facc-*-py3-none-linux_*.whl) || fail "no py3-none wheel: $(ls "$dir")"
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet --disable-pip-version-check numpy "$wheel"
cat >"$dir/use.py" <<'END'
import pathlib
import numpy as np
import facc
home = pathlib.Path(facc.__file__).parent
assert "site-packages" in str(home), home
mapped = {line.split()[-1] for line in open("/proc/self/maps") if "libfacc" in line or "liblua" in line}
assert mapped and all(m.startswith(str(home)) for m in mapped), mapped
q = np.random.default_rng(0).standard_normal((1, 4, 20, 16)).astype(np.float32)
got = facc.attention(q, q, q, score_mod="score + w * kv", mask_mod="q >= kv", params={"w": 0.5})
want, _ = facc.oracle(q, q, q, score_mod="score + w * kv", mask_mod="q >= kv", params={"w": 0.5})
assert np.allclose(got, want, atol=1e-5)
END
(cd / && env -u FACC_LIBRARY "$dir/venv/bin/python" "$dir/use.py") || fail "the installed package does not work"
echo "$(basename "$wheel"): installed, works"

# --- PyTorch ---
FACC_LIBRARY=$root/build/release/libfacc.so
FACC_TEST_LONG=1
export FACC_LIBRARY FACC_TEST_LONG
$venv/bin/python -m unittest discover -s runtime/python/tests -t runtime/python 2>"$dir/log" || { cat "$dir/log"; fail "tests"; }
tail -n 3 "$dir/log"
! grep -q 'skipped=' "$dir/log" || fail "tests were skipped"

# --- a model ---
$venv/bin/python examples/python/smollm2.py
$venv/bin/python examples/python/smollm2.py --torch --tokens 12
