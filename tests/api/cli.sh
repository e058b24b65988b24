#!/bin/sh
# The command line as a user meets it: results, help, and what bad input gets.
# usage: cli.sh path/to/facc   (from the repository's root)
set -u
facc=$PWD/$1
python=$PWD/build/venv/bin/python
root=$PWD
nvrtc=${FACC_NVRTC:-}
home_cache=${FACC_CACHE_DIR:-}
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
cd "$work" || exit 1
n=0
bad=0

# want CODE 'PATTERN' COMMAND...: exit code and a line of output that matches;
# '': no output at all.
want() {
    code=$1
    pattern=$2
    shift 2
    n=$((n + 1))
    "$@" >output 2>&1
    got=$?
    if [ "$got" -ne "$code" ] || { [ -n "$pattern" ] && ! grep -qE -- "$pattern" output; } ||
        { [ -z "$pattern" ] && [ -s output ]; }; then
        bad=$((bad + 1))
        echo "FAILED: $*"
        echo "  wanted exit code $code and /$pattern/, got $got and:"
        sed 's/^/  | /' output | head -12
    fi
}

is_json() { # the last output
    mv output json
    want 0 '^$' "$python" -c 'import json; json.load(open("json", encoding="utf-8")); print()'
}

"$python" - <<'P'
import numpy as np
rng = np.random.default_rng(0)
for name, shape in dict(q=(1, 4, 50, 16), k=(1, 2, 70, 16), v=(1, 2, 70, 16)).items():
    np.save(name + ".npy", rng.standard_normal(shape, dtype=np.float32))
np.save("k3.npy", rng.standard_normal((1, 3, 70, 16), dtype=np.float32))
np.save("v8.npy", rng.standard_normal((1, 2, 70, 8), dtype=np.float32))
np.save("fortran.npy", np.asfortranarray(rng.standard_normal((1, 4, 50, 16), dtype=np.float32)))
np.save("rank3.npy", rng.standard_normal((4, 50, 16), dtype=np.float32))
np.save("complex.npy", np.zeros((1, 4, 50, 16), np.complex64))
np.save("slopes.npy", np.array([0.5, 0.25, 0.125, 0.0625], np.float32))
np.save("slope.npy", np.array([0.5], np.float32))
np.save("slopes3.npy", np.array([0.5, 0.25, 0.125], np.float32))
np.save("islopes.npy", np.array([1, 2, 3, 4], np.int64))
np.save("big.npy", np.array([1, 2, 3, 1 << 40], np.int64))
np.save("raw16.npy", rng.standard_normal((1, 4, 50, 16), dtype=np.float32).view(np.uint32).__rshift__(16).astype(np.uint16))
np.save("cu_q.npy", np.array([0, 20, 20, 50], np.int32))
np.save("cu_kv.npy", np.array([0, 30, 31, 70], np.int64))
np.save("cu_late.npy", np.array([1, 30, 31, 70], np.int32))
np.save("cu_falls.npy", np.array([0, 31, 30, 70], np.int32))
np.save("cu_two.npy", np.array([0, 30, 70], np.int32))
np.save("cu_float.npy", np.array([0.0, 20, 20, 50]))
np.save("cu_plane.npy", np.zeros((2, 2), np.int32))
np.save("used.npy", np.array([7, 0, 11], np.int32))
for n in "qkv": # tokens first, as packed sequences are often kept
    np.save(n + "_tokens.npy", np.ascontiguousarray(np.load(n + ".npy")[0].swapaxes(0, 1)))
np.save("ids.npy", (np.arange(200, dtype=np.int32) // 30)[None].repeat(2, 0))
np.save("table.npy", np.eye(64, dtype=bool).repeat(2, 0).repeat(2, 1))
data = open("q.npy", "rb").read()
open("cut.npy", "wb").write(data[:-100])
open("cuthead.npy", "wb").write(data[:40])
np.save("empty.npy", np.zeros(0, np.int32))
open("text.npy", "w").write("hello")

# Headers as nobody should write them, and as somebody may.
def raw(name, shape="(1, 4, 50, 16)", order="False", descr="'<f4'", version=1, head=None, more=b""):
    head = head or "{'descr': %s, 'fortran_order': %s, 'shape': %s, }" % (descr, order, shape)
    size = len(head).to_bytes(2 if version == 1 else 4, "little")
    values = np.load("q.npy").tobytes()
    open("h_%s.npy" % name, "wb").write(b"\x93NUMPY" + bytes([version, 0]) + size + head.encode() + values + more)
raw("v2", version=2)
raw("v3", version=3)
raw("spaced", "(\t1 ,\n4 ,50 , 16 )")
raw("quotes", head='{"shape":(1,4,50,16),"descr":"<f4","fortran_order":False}\n')
raw("python2", "(1L, 4L, 50L, 16L)")
raw("more", more=b"x")
raw("v4", version=4)
raw("open", "(1, 4, 50, 16")
raw("commas", "(1,, 4, 50, 16)")
raw("nocommas", "(1 4 50 16)")
raw("negative", "(1, -4, 50, 16)")
raw("overflow", "(4294967296, 4294967296, 4294967296)")
raw("digits", "(1, 4, 50, 18446744073709551632)")
raw("falsehood", order="Falsehood")
raw("disguised", head="{'descr': '<f4', 'x': \"'shape': (1,4,50,16)\", 'fortran_order': False, 'shape': (1, 1, 1, 1)}")
raw("noorder", head="{'descr': '<f4', 'shape': (1, 4, 50, 16)}")
raw("bigendian", descr="'>f4'")
raw("struct", descr="[('a', '<f4')]")
raw("rank6", "(1, 1, 1, 4, 50, 16)")
P

cat >alibi.lua <<'L'
local facc = require "facc"
local slopes = facc.tensor("slopes", "f32", { "H" })
local window = facc.param("window", "i32")
return facc.attention {
  score_mod = function(score, b, h, q, kv) return score + slopes[h] * (kv - q) end,
  mask_mod  = function(b, h, q, kv) return q >= kv and q - kv < window end,
}
L
printf 'return facc.attention {\n  mask_mod = function(b, h, q, kv) return q >= end,\n}\n' >syntax.lua
printf 'local facc = require "facc"\nreturn facc.attention {\n  score_mod = function(s, b, h, q, kv) return s + nothing[h] end,\n}\n' >runtime.lua
printf 'local facc = require "facc"\nreturn facc.attention {\n  mask_mod = function(b, h, q, kv) while true do end end,\n}\n' >endless.lua
printf 'local facc = require "facc"\nlocal t = {}\nfor i = 1, 1e9 do t[i] = i end\nreturn facc.attention {}\n' >bomb.lua
printf 'local facc = require "facc"\nlocal n = 0\nreturn facc.attention {\n  score_mod = function(s, b, h, q, kv) n = n + 1; return s + n end,\n}\n' >impure.lua
printf 'local facc = require "facc"\nreturn facc.attention {\n  score_mod = function(s, b, h, q, kv) if q >= kv then return s end end,\n}\n' >nothing.lua
printf 'local facc = require "facc"\nreturn facc.attention {\n  mask_mod = function(b, h, q, kv) return q - kv end,\n}\n' >number.lua
printf 'local facc = require "facc"\nlocal t = facc.tensor("t", "f32", { 4 })\nreturn facc.attention {\n  score_mod = function(s, b, h, q, kv) return s + t[q] end,\n}\n' >outside.lua

qkv="--q q.npy --k k.npy --v v.npy --device cpu"
alibi="run alibi.lua $qkv -o o.npy"

# results
want 0 'facc 0\.' "$facc" --version
want 0 'doctor' "$facc" --help
for c in run check bench mask compile emit explain quantize cache doctor; do
    want 0 'example: facc' "$facc" $c --help
done
# every option that a command takes is in its help, those of inputs in that of run
want 0 '^$' "$python" - "$facc" "$root" <<'P'
import pathlib, re, subprocess, sys
def help_of(command):
    return subprocess.run([sys.argv[1], command, "--help"], capture_output=True, text=True).stdout
cli = pathlib.Path(sys.argv[2], "runtime", "cli")
inputs = re.search(r"#define JOB_OPTIONS(.*?)\nbool", (cli / "cli.h").read_text(), re.S)[1]
for path in sorted(cli.glob("cmd_*.c")):
    own = re.search(r"allowed\[\] = \{(.*?)\};", path.read_text(), re.S)[1]
    help = help_of(path.stem[4:])
    for name in re.findall(r'"([a-z0-9-]+)"', own + (inputs if path.stem == "cmd_run" else "")):
        if f"--{name}" not in help:
            sys.exit(f"facc {path.stem[4:]} --help has no --{name}")
print()
P
want 0 'TFLOP' "$facc" $alibi --tensor slopes=slopes.npy --param window=9 --lse lse.npy --stats
n=$((n + 1))
"$python" - <<'P' || bad=$((bad + 1))
import numpy as np
q, k, v = (np.load(n + ".npy").astype(np.float64) for n in "qkv")
k, v = (np.repeat(x, 2, axis=1) for x in (k, v))
i, j = np.arange(50)[:, None], np.arange(70)[None, :]
s = q @ k.swapaxes(-1, -2) / 4 + np.load("slopes.npy")[:, None, None] * (j - i)
s = np.where((i >= j) & (i - j < 9), s, -np.inf)
m = s.max(-1, keepdims=True)
p = np.exp(s - m)
z = p.sum(-1, keepdims=True)
o, lse = np.load("o.npy"), np.load("lse.npy")
assert np.abs(o - p / z @ v).max() < 1e-5, np.abs(o - p / z @ v).max()
assert np.abs(lse - (m + np.log(z))[..., 0]).max() < 1e-5
P
want 0 '"tflops"' "$facc" run --mask 'q >= kv and q - kv < 16' --random 1,2,1,33,40,24,8 --device cpu --json
want 0 'passed' "$facc" check alibi.lua $qkv --tensor slopes=slopes.npy --param window=20
want 0 'passed' "$facc" check --score 'score + t[h] * (kv - q)' --tensor t=slopes.npy $qkv --dtype bf16
example=$("$facc" check --help | sed -n '/^example: /,$p' | sed 's/^example: facc//; s/\\$//' | tr -d '\n')
want 0 'passed' sh -c 'cd "$1" && "$0" $2' "$facc" "$root" "$example"
want 0 'median ms' "$facc" bench --mask 'q >= kv' --random 1,1,1,64,64,32 --rounds 3 --device cpu
# the table of bench
table="bench --device cpu --head-dim 16 --rounds 2"
want 0 'GFLOP/s of the cells|TFLOP/s of the cells' "$facc" $table --lengths 32,64,96,128 --csv bench.csv --picture bench.svg
want 0 'full +causal +ALiBi, causal +softcap, causal +window 128 +16 documents' "$facc" $table --lengths 32 --picture one.svg
want 0 '"variant":' "$facc" $table --lengths 32,64 --dtype bf16 --json
is_json
n=$((n + 1))
"$python" - <<'P' || bad=$((bad + 1))
import csv, json
import xml.etree.ElementTree as xml
table = json.load(open("json"))
assert table["dtype"] == "bf16" and table["D"] == 16 and len(table["rows"]) == 12
rows = list(csv.DictReader(open("bench.csv")))
assert len(rows) == 6 * 4 and len({r["variant"] for r in rows}) == 6
for r in rows:
    B, H, S, D, cells = (int(r[x]) for x in ("B", "H", "S", "D", "cells"))
    low, middle, high, speed = (float(r[x]) for x in ("min_ms", "median_ms", "max_ms", "tflops"))
    assert 0 < low <= middle <= high and B == 128 // S and D == 16, r
    assert cells == {"full": S * S, "16 documents": S * S // 32}.get(r["variant"], S * S // 2), r
    assert abs(speed / (4 * B * H * D * cells / middle * 1e-9) - 1) < 1e-4, r
svg = "{http://www.w3.org/2000/svg}"
for name, points in ("bench", 4), ("one", 1):
    root = xml.parse(name + ".svg").getroot()
    width, height = map(int, root.get("viewBox").split()[2:])
    texts = list(root.iter(svg + "text"))
    words = [t.text for t in texts]
    assert all(0 <= float(t.get("x")) <= width and 0 <= float(t.get("y")) <= height for t in texts)
    assert {r["variant"] for r in rows} <= set(words) and "sequence length (tokens)" in words, words
    assert "32" in words and any("LOP/s" in w for w in words), words
    labels = sorted(float(t.get("y")) for t in texts if t.get("font-weight") and t.get("font-size") == "16")
    assert len(labels) == 6 and min(b - a for a, b in zip(labels, labels[1:])) > 18, labels
    circles = [(float(c.get("cx")), float(c.get("cy"))) for c in root.iter(svg + "circle")]
    assert len(circles) == 6 * points and all(80 < x < width - 180 and 90 < y < height - 70 for x, y in circles)
    assert len({x for x, _ in circles}) == points
P
want 0 'not compared: .*cannot import torch' env FACC_PYTHON=false "$facc" $table --lengths 16 --peers
want 0 'not compared: bench_hopper.py is not found' env FACC_PYTHON=true FACC_BENCH=no/such/file "$facc" $table --lengths 16 --peers
want 0 'not compared: .*on a GPU' env FACC_PYTHON=true FACC_BENCH=q.npy "$facc" $table --lengths 16 --peers
want 1 'No space' "$facc" $table --lengths 16 --csv /dev/full
want 1 'No space' "$facc" $table --lengths 16 --picture /dev/full
want 1 'no/such/dir.svg: No such file' "$facc" $table --lengths 16 --picture no/such/dir.svg
for lengths in 64,32 32,32 8 x 32,,64 2097152; do
    want 2 'rising integers' "$facc" $table --lengths $lengths
done
want 2 'multiple of 8' "$facc" bench --device cpu --head-dim 20
want 2 'are of the table' "$facc" bench --mask 'q >= kv' --random 1,1,1,8,8,8 --csv x.csv
want 2 'are of the table' "$facc" bench alibi.lua --lengths 32
want 2 'not with --json' "$facc" bench --json --peers

# rooflines: the model by hand, the picture, what is measured
want 0 'limited by tensor cores' "$facc" explain --mask 'q >= kv' --random 2,4,2,2048,2048,128 --picture roof.svg
want 0 'limited by exp unit' "$facc" explain --score '20 * facc.tanh(score / 20)' --random 2,16,2,2048,2048,64
want 0 'limited by HBM' "$facc" explain --random 64,32,32,64,64,128 --gpu H100
want 0 'as if there were no mask' "$facc" explain alibi.lua --random 1,4,4,100,100,64
want 0 '1.40 k of 10.0 k count' "$facc" explain alibi.lua --random 1,1,1,100,100,64 --tensor slopes=slope.npy --param window=15
want 0 'A100, data sheet: 108' "$facc" explain --arch 80 --random 1,4,4,100,100,64
want 0 '"limiter"' "$facc" explain --mask 'q >= kv' --random 2,4,2,256,300,64,32 --json
is_json
n=$((n + 1))
"$python" - <<'P' || bad=$((bad + 1))
import json, math, xml.etree.ElementTree as xml
r = json.load(open("json"))["roofline"]
kept = 2 * 4 * 256 * 257 // 2
assert r["cells"] == 2 * 4 * 256 * 300 and r["kept"] == kept and not r["estimated"] and r["mask_asked"], r
assert r["flops"] == 2 * (64 + 32) * kept
m, n = r["tile_m"], r["tile_n"]
tiles = sum(min(math.ceil(min(256, (i + 1) * m) / n), math.ceil(300 / n)) for i in range(math.ceil(256 / m)))
assert r["computed"] == 8 * tiles * m * n, (r, tiles)
share = math.ceil(256 / n) / math.ceil(300 / n)
bytes = 2 * (2 * 4 * 256 * (64 + 32) + share * 2 * 2 * 300 * (64 + 32)) + 4 * 2 * 4 * 256
assert abs(r["bytes"] / bytes - 1) < 1e-12 and abs(r["kv_share"] - share) < 1e-12
assert abs(r["intensity"] - r["flops"] / bytes) < 1e-9
units = r["units"]
assert abs(r["ridge"] - units["math"]["per_second"] / units["memory"]["per_second"]) < 1e-9
assert abs(units["math"]["per_second"] / 989.4e12 - 1) < 1e-3 and units["memory"]["per_second"] == 4.8e12
assert units["math"]["work"] == 2 * r["computed"] * (64 + 32) and units["exp"]["work"] == r["computed"]
busy = min(1, 8 * math.ceil(256 / m) / 132)
times = {u: x["work"] / x["per_second"] / (busy if u in ("math", "exp") else 1) for u, x in units.items()}
assert all(abs(units[u]["seconds"] / t - 1) < 1e-9 for u, t in times.items())
worst = max(times, key=times.get)
assert r["limiter"] == units[worst]["name"] and abs(r["best_ms"] / times[worst] - 1e3) < 1e-6
root = xml.parse("roof.svg").getroot()
width, height = map(int, root.get("viewBox").split()[2:])
texts = list(root.iter("{http://www.w3.org/2000/svg}text"))
assert all(0 <= float(t.get("x")) <= width and 0 <= float(t.get("y")) <= height for t in texts)
words = " | ".join(t.text for t in texts)
assert "tensor cores 989 TFLOP/s" in words and "HBM 4.80 TB/s" in words and "ridge 206" in words, words
assert len(list(root.iter("{http://www.w3.org/2000/svg}circle"))) == 2
P
# one query for each head: far below the peak, since tiles are whole; the picture says so
want 0 'limited by tensor cores' "$facc" explain --random 8,32,8,1,8192,128 --gpu H200 --picture decode.svg
want 0 'below it memory is the limit as a rule, here: tensor cores$' "$facc" explain --random 8,32,8,1,8192,128 --gpu H200
want 0 'below it, memory limits$' "$facc" explain --random 8,8,8,128,128,128 --gpu H200
n=$((n + 1))
"$python" - <<'P' || bad=$((bad + 1))
import xml.etree.ElementTree as xml
svg = "{http://www.w3.org/2000/svg}"
root = xml.parse("decode.svg").getroot()
words = [t.text for t in root.iter(svg + "text")]
assert any(t.startswith("tensor cores, in tiles 7.7") for t in words) and "tensor cores 989 TFLOP/s" in words, words
flat = [float(l.get("y1")) for l in root.iter(svg + "line") if l.get("y1") == l.get("y2") and l.get("stroke-dasharray")]
best = float(next(root.iter(svg + "circle")).get("cy"))
assert min(abs(y - best) for y in flat) < 1, (best, flat) # on a roof
places = [(float(t.get("x")), float(t.get("y"))) for t in root.iter(svg + "text") if "FLOP/s" in t.text[-7:]]
assert len(places) == 4 and all(abs(a[1] - b[1]) > 14 or abs(a[0] - b[0]) > 200
                                for i, a in enumerate(places) for b in places[:i]), places
P
want 0 'measured .* % of that' "$facc" bench --mask 'q >= kv' --random 1,1,1,64,64,32 --rounds 3 --device cpu --roofline --picture roof1.svg
want 0 '"share"' "$facc" bench --mask 'q >= kv' --random 1,1,1,64,64,32 --rounds 3 --device cpu --roofline --json
is_json
want 0 'window 128, 64 .*(FMA units|DRAM)' "$facc" $table --lengths 32,64 --roofline --picture roof2.svg
want 0 '"roofline":' "$facc" $table --lengths 32 --roofline --json
is_json
n=$((n + 1))
"$python" - <<'P' || bad=$((bad + 1))
import json, xml.etree.ElementTree as xml
for row in json.load(open("json"))["rows"]:
    r = row["roofline"]
    assert r["limiter"] in ("FMA units", "DRAM") and r["best_ms"] > 0 and r["rates"] == "measured now"
    assert abs(r["share"] - r["best_ms"] / row["median_ms"]) < 1e-9
    assert r["flops"] > 0 and (r["kept"] == r["cells"]) == (row["variant"] == "full"), row
circles = list(xml.parse("roof2.svg").getroot().iter("{http://www.w3.org/2000/svg}circle"))
assert len(circles) == 6 * 2 * 2 + 6, len(circles) # at best, measured; the legend
P
want 1 'No space' "$facc" explain --random 1,1,1,8,8,8 --picture /dev/full
want 2 'not known here: A100' "$facc" explain --random 1,1,1,8,8,8 --gpu Voodoo
want 2 'H200 is sm_90, the kernel is for sm_80' "$facc" explain --random 1,1,1,8,8,8 --arch 80 --gpu H200
want 2 'the sizes with --random|sizes with --random' "$facc" explain --gpu H200
want 2 'no --head-dim' "$facc" explain --random 1,1,1,8,8,8 --head-dim 64
want 2 'at least 1' "$facc" explain --random 1,0,0,8,8,8
want 2 'gpu is of --roofline' "$facc" bench --gpu H200 --device cpu

want 0 'keep' "$facc" emit alibi.lua
want 0 'struct Variant' "$facc" emit alibi.lua --what variant
want 0 'facc_forward' "$facc" emit alibi.lua --what flat
want 0 'kPacked = false' "$facc" emit alibi.lua --what config
want 0 'FACC_SCHEDULED 0' "$facc" emit alibi.lua --what config
want 0 'kPacked = true' "$facc" emit alibi.lua --what config --packed
want 0 'FACC_SCHEDULED 1' "$facc" emit alibi.lua --what config --packed
want 0 'FACC_SCHEDULED 1' "$facc" emit alibi.lua --what config --block-mask
want 0 'FACC_SCHEDULED 1' "$facc" emit "$root/examples/document.lua" --what config
want 0 'document.lua: [0-9.]* ms: [0-9.]* load .*, [0-9.]* emit' "$facc" emit "$root/examples/document.lua" --timings
want 2 'wants a FILE.lua' "$facc" emit --mask 'q >= kv' --timings
# what the lint says, once, whatever names the mods
printf 'local facc = require "facc"\nreturn facc.attention { mask_mod = function(b, h, q, kv)\n  return kv %% 2 and q >= kv end }\n' >number_as_condition.lua
for c in "run --stats" check; do
    want 0 '^number_as_condition.lua:3: warning: a computed value is never used' "$facc" $c number_as_condition.lua --random 1,1,1,8,8,8 --device cpu
    want 0 '^expression:2: warning: a computed value is never used' "$facc" $c --mask 'kv % 2 and q >= kv' --random 1,1,1,8,8,8 --device cpu
done
want 0 '^number_as_condition.lua:3: warning: ' sh -c '"$0" explain number_as_condition.lua 2>/dev/null' "$facc"
want 1 '^number_as_condition.lua:3: warning: ' env FACC_NO_JIT=1 FACC_CACHE=off "$facc" compile number_as_condition.lua --head-dim 64
want 0 'for packed sequences' "$facc" explain alibi.lua --packed
want 0 'block lists given' "$facc" explain alibi.lua --block-mask
want 2 'no option' "$facc" run --packed
want 0 'slopes' "$facc" explain alibi.lua
want 0 'family sm90, bf16' "$facc" explain alibi.lua
want 0 'family sm80 for tensors that are not aligned' "$facc" explain alibi.lua
want 0 '"fallback":[[:space:]]*""' "$facc" explain alibi.lua --layout aligned --json
want 0 'family sm80, bf16' "$facc" explain alibi.lua --family sm80
want 0 'family sm80, bf16' "$facc" explain alibi.lua --arch 89
want 0 'kWarps = 12,' "$facc" emit alibi.lua --what config
want 0 'times 0.072.*: a matrix product beside Q K.T where Q and K are f16' "$facc" explain "$root/examples/mla.lua"
want 0 '64 columns of facc.dot join those of Q and K' "$facc" explain "$root/examples/mla.lua" --dtype f16
want 0 'facc.dot is made cell by cell' "$facc" explain "$root/examples/mla.lua" --dtype bf16
want 0 'kExtraDim = 64;' "$facc" emit "$root/examples/mla.lua" --what config --dtype f16
want 0 'kExtraDim = 0;' "$facc" emit "$root/examples/mla.lua" --what config --dtype f16 --check-bounds --family sm80
want 0 'kWarps = 8,' "$facc" emit alibi.lua --what config --arch 89
want 1 'family sm90 needs sm_90, this is for sm_80' "$facc" explain alibi.lua --arch 80 --family sm90
want 1 'family sm90 has no checked debug build' "$facc" emit alibi.lua --what config --check-bounds --family sm90
want 2 '--layout is any or aligned' "$facc" explain alibi.lua --layout straight
want 2 '--family is auto, sm80 or sm90' "$facc" explain alibi.lua --family sm100
want 0 'tier +analytic' "$facc" explain alibi.lua
want 0 'tier +ranged: .*ids.* line 10' "$facc" explain "$root/examples/document.lua"
want 0 '"tier":[[:space:]]*"ranged"' "$facc" explain "$root/examples/document.lua" --json
want 0 'entries' "$facc" cache ls
want 0 'CPU' "$facc" doctor
want 0 'TFLOP' "$facc" run --q raw16.npy:bf16 --k k.npy --v v.npy --dtype bf16 --device cpu --stats

# attention sinks
"$python" -c 'import numpy as np
np.save("sinks.npy", np.float32([0.5, -np.inf, 3, -20]))
np.save("sinks64.npy", np.array([0.5, -np.inf, 3, -20]))
np.save("sinks_few.npy", np.float32([1, 2]))
np.save("sinks_int.npy", np.int32([1, 2, 3, 4]))'
want 0 '' "$facc" run --mask 'q >= kv' $qkv -o bare.npy --lse bare_lse.npy
want 0 '' "$facc" run --mask 'q >= kv' $qkv --sinks sinks.npy -o sunk.npy --lse sunk_lse.npy
want 0 '' "$facc" run --mask 'q >= kv' $qkv --sinks sinks64.npy -o sunk64.npy
n=$((n + 1))
"$python" - <<'P' || bad=$((bad + 1))
import numpy as np
o, lse, sunk, sunk_lse = (np.load(n + ".npy").astype(np.float64) for n in ("bare", "bare_lse", "sunk", "sunk_lse"))
sinks = np.load("sinks.npy")[:, None]
assert np.abs(sunk - o / (1 + np.exp(sinks - lse))[..., None]).max() < 1e-6
assert np.abs(sunk_lse - np.logaddexp(lse, sinks)).max() < 1e-5
assert np.array_equal(sunk, np.load("sunk64.npy"))
P
want 0 passed "$facc" check --mask 'q >= kv' $qkv --sinks sinks.npy
want 0 TFLOP "$facc" bench --mask 'q >= kv' $qkv --sinks sinks.npy --rounds 1
want 1 'sinks: shape is \[2\], expected \[4\] \(\[H\]\)' "$facc" run $qkv --sinks sinks_few.npy --stats
want 1 '--sinks: the file holds i32' "$facc" run $qkv --sinks sinks_int.npy --stats
want 1 'no_such.npy' "$facc" run $qkv --sinks no_such.npy --stats
want 2 'no option' "$facc" mask --mask 'q >= kv' --sinks sinks.npy
want 0 'kHasSinks = false' "$facc" emit alibi.lua --what config
want 0 'kHasSinks = true' "$facc" emit alibi.lua --what config --with-sinks
want 0 'with attention sinks' "$facc" explain alibi.lua --with-sinks

# FP8: files of quantize, and --per, which does it for one call
want 0 '' "$facc" quantize q.npy --per 32 -o qf8.npy --descale dq.npy
want 0 '' "$facc" quantize k.npy --per head -o kf8.npy --descale dk.npy
want 0 '' "$facc" quantize v.npy --per head --power-of-two -o vf8.npy --descale dv.npy --v-mean mean.npy --v-image image.npy
fp8="--q qf8.npy:e4m3 --k kf8.npy:e4m3 --v vf8.npy:e4m3 --device cpu --descale-q dq.npy --descale-k dk.npy --descale-v dv.npy"
fp8="$fp8 --v-mean mean.npy"
want 0 '' "$facc" run --mask 'q >= kv' $fp8 --descale-block 32 -o o8.npy
want 0 '' "$facc" run --mask 'q >= kv' $fp8 --descale-block 32 --v-image image.npy:e4m3 -o image8.npy
want 0 '' "$facc" run --mask 'q >= kv' $qkv -o exact8.npy
n=$((n + 1))
"$python" - <<'P' || bad=$((bad + 1))
import numpy as np
o, image, exact, dv = (np.load(n + ".npy") for n in ("o8", "image8", "exact8", "dv"))
assert 0.005 < np.linalg.norm(o - exact) / np.linalg.norm(exact) < 0.08
assert np.array_equal(o, image)
assert (np.log2(dv) % 1 == 0).all() and np.load("vf8.npy").dtype == np.uint8
P
want 0 'of rounding +0\.0' "$facc" check --mask 'q >= kv' $qkv --dtype e4m3 --per 32 --centre-v
want 0 '"rounding_error":' "$facc" check --random 1,2,1,40,50,32 --device cpu --dtype e5m2 --per tensor --hadamard --json
want 0 TFLOP "$facc" bench $qkv --dtype e4m3 --per head --rounds 1
want 1 'descale_block_q is 0, but descale_q has a value' "$facc" run $fp8 --stats
want 1 'are for e4m3 and e5m2; q, k and v are f32' "$facc" run $qkv --descale-v dv.npy --stats
want 2 '--per wants --dtype e4m3 or e5m2' "$facc" check $qkv --per head
want 2 '--per is tensor, head or a number' "$facc" quantize q.npy --per 33 -o x.npy --descale y.npy
want 2 '--hadamard and --centre-v go with --per' "$facc" check $qkv --dtype e4m3 --hadamard
# V transposed in the kernel where few queries read each key
want 0 'the kernel transposes it tile by tile' "$facc" explain --mask 'q >= kv' --dtype e4m3 --random 8,16,16,2048,2048,128
want 0 'a launch transposes it first' "$facc" explain --mask 'q >= kv' --dtype e4m3 --random 1,16,2,2048,2048,128
want 0 '"transposes_v":.true' "$facc" explain --mask 'q >= kv' --dtype e4m3 --transpose-v --json
want 1 'transposes_v is for e4m3 and e5m2' "$facc" explain --mask 'q >= kv' --transpose-v
# rows that few keys carry
want 0 'weights that carry a row are rounded exactly' "$facc" explain --mask 'q >= kv' --dtype e4m3 --exact-peaks
want 0 '"exact_peaks":.true' "$facc" explain --mask 'q >= kv' --dtype e4m3 --exact-peaks --json
want 0 'kExactPeaks = true' "$facc" emit --mask 'q >= kv' --what config --dtype e4m3 --exact-peaks
want 0 'kExactPeaks = false' "$facc" emit --mask 'q >= kv' --what config --dtype e4m3
want 1 'exact_peaks is for e4m3 and e5m2, dtype is bf16' "$facc" emit --mask 'q >= kv' --what config --exact-peaks
want 1 'facc compile FILE --dtype e4m3 --out-dtype bf16 --head-dim 64/64 --arch 90 --centre-v --exact-peaks"' \
    env FACC_NO_JIT=1 FACC_CACHE=off "$facc" compile --score 'score' --dtype e4m3 --centre-v --exact-peaks --head-dim 64
want 0 TFLOP "$facc" bench $qkv --dtype e4m3 --per head --exact-peaks --rounds 1
want 2 '--exact-peaks is for e4m3 and e5m2' "$facc" run $qkv --exact-peaks --stats
want 1 'hadamard: D is 16' "$facc" quantize q.npy --hadamard -o x.npy --descale y.npy
want 1 'mean and hadamard exclude' "$facc" quantize q.npy --hadamard --v-mean m.npy -o x.npy --descale y.npy
want 2 'one IN.npy is wanted' "$facc" quantize -o x.npy --descale y.npy
want 2 'are wanted' "$facc" quantize q.npy -o x.npy
want 1 'out: dtype is f16' "$facc" quantize q.npy --dtype f16 -o x.npy --descale y.npy

# dropout: LSE as without, output with what is dropped; probability 0 is none
drop='--dropout-seed 7 --dropout-offset 3'
want 0 '' "$facc" run --mask 'q >= kv' $qkv --dropout 0.4 $drop -o dropped.npy --lse dropped_lse.npy
want 0 '' "$facc" run --mask 'q >= kv' $qkv --dropout 0.4 $drop -o again.npy
want 0 '' "$facc" run --mask 'q >= kv' $qkv --dropout 0.4 --dropout-seed 8 -o other.npy
want 0 '' "$facc" run --mask 'q >= kv' $qkv --dropout 0 $drop -o whole.npy
n=$((n + 1))
"$python" - <<'P' || bad=$((bad + 1))
import numpy as np
o, lse, dropped, dropped_lse, again, other, whole = (np.load(n + ".npy") for n in (
    "bare", "bare_lse", "dropped", "dropped_lse", "again", "other", "whole"))
assert np.array_equal(lse, dropped_lse) and np.array_equal(o, whole)
assert np.array_equal(dropped, again) and not np.array_equal(dropped, other) and not np.array_equal(dropped, o)
first = 0.6 * dropped[:, :, 0] / o[:, :, 0]  # of one key: all or nothing
assert np.abs(first - np.round(first)).max() < 1e-4 and set(np.round(first.flatten())) == {0, 1}, first
P
want 0 passed "$facc" check --mask 'q >= kv' $qkv --dropout 0.4 $drop
want 0 TFLOP "$facc" bench --mask 'q >= kv' $qkv --dropout 0.4 --rounds 1
for p in 1 -0.1 nan x ''; do
    want 2 'dropout wants a probability, at least 0 and below 1' "$facc" run $qkv --dropout "$p" --stats
done
want 2 'wants an integer' "$facc" run $qkv --dropout 0.1 --dropout-seed 0.5 --stats
want 2 'are of --dropout P' "$facc" run $qkv --dropout-seed 3 --stats
want 2 'no option' "$facc" mask --mask 'q >= kv' --dropout 0.1
want 0 'kHasDropout = false' "$facc" emit alibi.lua --what config
want 0 'kHasDropout = true' "$facc" emit alibi.lua --what config --with-dropout
want 0 'with dropout: Philox-4x32-10' "$facc" explain alibi.lua --with-dropout

# packed sequences: as each alone
cu='--cu-seqlens-q cu_q.npy --cu-seqlens-kv cu_kv.npy'
packed="run --mask q>=kv --k k.npy --v v.npy --device cpu $cu"
want 0 '' "$facc" $packed --q q.npy -o packed.npy --lse packed_lse.npy
want 0 '' "$facc" run --mask 'q >= kv' --device cpu $cu --q q_tokens.npy --k k_tokens.npy --v v_tokens.npy -o tokens.npy --lse tokens_lse.npy
want 0 '' "$facc" $packed --q q.npy --seqused-kv used.npy -o used_o.npy
n=$((n + 1))
"$python" - <<'P' || bad=$((bad + 1))
import numpy as np
q, k, v = (np.load(n + ".npy")[0].astype(np.float64) for n in "qkv")
k, v = (np.repeat(x, 2, axis=0) for x in (k, v))
o, lse, used = np.load("packed.npy"), np.load("packed_lse.npy"), np.load("used_o.npy")
assert o.shape == (1, 4, 50, 16) and lse.shape == (1, 4, 50)
assert np.array_equal(np.load("tokens.npy"), o[0].swapaxes(0, 1)) and np.array_equal(np.load("tokens_lse.npy"), lse[0])
a, b, lengths = np.load("cu_q.npy"), np.load("cu_kv.npy"), np.load("used.npy")
for got, limit in (o, [99, 99, 99]), (used, lengths):
    for n in range(3):
        rows, columns = slice(a[n], a[n + 1]), slice(b[n], b[n] + min(b[n + 1] - b[n], limit[n]))
        s = q[:, rows] @ k[:, columns].swapaxes(-1, -2) / 4
        s = np.where(np.arange(s.shape[1])[:, None] >= np.arange(s.shape[2]), s, -np.inf)
        p = np.exp(s - s.max(-1, keepdims=True, initial=-1e30))
        want = p / np.maximum(p.sum(-1, keepdims=True), 1e-30) @ v[:, columns]
        assert np.abs(got[0][:, rows] - want).max(initial=0) < 1e-5, n
P
want 0 passed "$facc" check --mask 'q >= kv' $qkv $cu --dtype bf16
want 0 '3 sequences, at most 30 queries and 39 keys' "$facc" run $qkv $cu --stats
want 0 '"n_seqs":[[:space:]]*3' "$facc" run $qkv $cu --json
want 0 TFLOP "$facc" bench --mask 'q >= kv' --random 1,1,1,50,70,8 $cu --rounds 1 --device cpu
want 2 'come together' "$facc" run $qkv --stats --cu-seqlens-q cu_q.npy
want 1 'begin with 0' "$facc" run $qkv --stats --cu-seqlens-q cu_q.npy --cu-seqlens-kv cu_late.npy
want 1 'offset 2 is 30' "$facc" run $qkv --stats --cu-seqlens-q cu_q.npy --cu-seqlens-kv cu_falls.npy
want 1 '4 offsets, --cu-seqlens-kv 3' "$facc" run $qkv --stats --cu-seqlens-q cu_q.npy --cu-seqlens-kv cu_two.npy
want 1 '--cu-seqlens-q: the file holds f64, i32 is wanted' "$facc" mask --mask 'q >= kv' --cu-seqlens-q cu_float.npy --cu-seqlens-kv cu_kv.npy
want 1 '--seqused-kv: the file holds f64, i32 is wanted' "$facc" mask --mask 'q >= kv' --seqused-kv cu_float.npy
want 1 'one dimension' "$facc" run $qkv --stats --cu-seqlens-q cu_plane.npy --cu-seqlens-kv cu_kv.npy
want 1 '3 lengths, there are 1 seq' "$facc" run $qkv --stats --seqused-q used.npy
want 1 'cu-seqlens-q ends with 50, but Q has 49 rows' "$facc" run --random 1,1,1,49,70,8 --device cpu --stats $cu
want 1 'cu-seqlens-kv ends with 70, but K has 69 rows' "$facc" run --random 1,1,1,50,69,8 --device cpu --stats $cu

# mask
want 0 '^EMPTY +56 +43.75 %' "$facc" mask --mask 'q >= kv' --sq 1024 --tile 128x64
want 0 '^PARTIAL +16 +12.50 %' "$facc" mask --mask 'q >= kv' --tile 128x64
want 0 '^FULL +56 +43.75 %' "$facc" mask --mask 'q >= kv' --tile 128x64
want 0 'cells +524800 +50.05 % of 1048576 count' "$facc" mask --mask 'q >= kv' --tile 128x64
want 0 '^saved +43.75 %' "$facc" mask --mask 'q >= kv' --tile 128x64
want 0 '^####\+\+\.\.$' "$facc" mask --mask 'q >= kv' --sq 512 --tile 128x64
want 0 'tier +none' "$facc" mask --sq 16
want 0 'tier +analytic' "$facc" mask --mask 'q - kv < w' --param w=5
want 0 'tier +ranged: .*ids' "$facc" mask "$root/examples/document.lua" --tensor ids=ids.npy --batch 1
want 0 '200 queries x 200 keys, sequence 1' "$facc" mask "$root/examples/document.lua" --tensor ids=ids.npy --batch 1
want 0 'tier +scanned: .*t\[' "$facc" mask --mask 't[q][kv]' --tensor t=table.npy --sq 128
want 0 'tier +opaque' "$facc" mask --score 'score > 0 and q >= kv and score or -1/0'
want 0 '30 queries x 39 keys, sequence 2' "$facc" mask --mask 'q >= kv' $cu --batch 2
want 0 'cells +66 ' "$facc" mask --mask 'q >= kv' --sq 30 --seqused-q used.npy --batch 2 --seqused-kv used.npy --tile 8x8 --skv 66
want 0 'tiles +64x64: 8192 x 8192 = 67108864' "$facc" mask --mask 'q >= kv and q - kv < 100' --sq 524288 --tile 64x64
want 0 '"work_saved":[[:space:]]*0.4375' "$facc" mask --mask 'q >= kv' --tile 128x64 --json
is_json
want 0 '"kept":[[:space:]]*null' "$facc" mask --score 'score > 0 and score or -1/0' --json
want 0 '' "$facc" mask --mask 'q >= kv' -o causal.png
want 0 '' "$facc" mask --mask 'q >= kv' --sq 3 --skv 5 -o small.png
want 0 '' "$facc" mask --mask 'q - kv < 9' --sq 300000 --skv 70 --tile 4096x64 -o tall.png
want 0 '"map"' "$facc" mask --mask 'q >= kv' --json -o both.png
n=$((n + 1))
"$python" - <<'P' || bad=$((bad + 1))
import struct
for name in "causal", "small", "tall", "both":
    data = open(name + ".png", "rb").read()
    assert data[:8] == b"\x89PNG\r\n\x1a\n" and data[-8:-4] == b"IEND" and data[12:16] == b"IHDR", name
    width, height = struct.unpack(">II", data[16:24])
    assert 400 <= width <= 1200 and 200 <= height <= 1210 and len(data) < 100000, (name, width, height)
P
want 1 'no/such/dir.png: No such file' "$facc" mask --mask 'q >= kv' -o no/such/dir.png
want 1 'No space' "$facc" mask --mask 'q >= kv' -o /dev/full
want 1 'has no picture' "$facc" mask --sq 0 -o x.png
want 0 'tiles +128x128: 0 x 0' "$facc" mask --sq 0
want 1 'too many: give a larger --tile' "$facc" mask --mask 'q >= kv' --sq 1073741824
want 1 '\-\-batch 2: there are 2' "$facc" mask "$root/examples/document.lua" --tensor ids=ids.npy --batch 2
want 1 '\-\-head 4: there are 4 heads, unless' "$facc" mask alibi.lua --tensor slopes=slopes.npy --param window=9 --head 4
want 0 'cells +0 ' "$facc" mask --mask 'h < facc.size.H // facc.size.Hkv' --heads 6,2 --head 3 --sq 16
want 0 'cells +256 ' "$facc" mask --mask 'h < facc.size.H // facc.size.Hkv' --heads 6,2 --head 2 --sq 16
want 1 'heads, unless' "$facc" mask --mask 'q >= kv' --heads 2 --head 2
want 2 'wants H or H,HKV' "$facc" mask --mask 'q >= kv' --heads 6,4
want 2 'wants H or H,HKV' "$facc" mask --mask 'q >= kv' --heads 6,0
want 2 'wants H or H,HKV' "$facc" mask --mask 'q >= kv' --heads 0
want 1 '\[2, 200\], expected \[2, 100\]' "$facc" mask "$root/examples/document.lua" --tensor ids=ids.npy --skv 100
want 1 "outside|'ids'" "$facc" mask --mask 'ids[b][q] == ids[b][kv]' --tensor ids=ids.npy --sq 300
want 2 'ROWSxCOLUMNS' "$facc" mask --tile 128
want 2 'ROWSxCOLUMNS' "$facc" mask --tile 0x64
want 2 '2\^30' "$facc" mask --sq -1
want 2 'the lengths of packed' "$facc" mask --sq 8 $cu
want 2 'no option' "$facc" mask --q q.npy

# usage: exit code 2
want 2 'no command' "$facc" walk
want 2 'no option' "$facc" run --fast
want 2 'wants a value' "$facc" run --q
want 2 'nothing to produce' "$facc" run $qkv
want 2 '--v FILE.npy is missing' "$facc" run --q q.npy --k k.npy --stats --device cpu
want 2 'six or seven' "$facc" run --random 1,2,3 --stats
want 2 'finite' "$facc" run --random 1,1,1,8,8,8 --scale nan --stats
want 2 'no dtype' "$facc" run --random 1,1,1,8,8,8 --dtype f12 --stats
want 1 'out of memory: q is too large, \[65536, 65536, 65536, 65536\] of f32' "$facc" run --random 65536,65536,65536,65536,65536,65536 --device cpu --stats
want 2 'not both' "$facc" run alibi.lua --mask 'q >= kv' $qkv --stats
want 2 'name=value' "$facc" run --tensor slopes --stats
want 2 'cpu, gpu or gpu:N' "$facc" run --device tpu --random 1,1,1,8,8,8 --stats
want 2 '--what is' "$facc" emit alibi.lua --what sass

random='--random 1,1,1,8,8,8 --device cpu'
want 2 'given twice' "$facc" run $random -o a.npy --out b.npy
want 2 'given twice' "$facc" run $random --stats --scale 1 --scale 2
want 2 'both .a.npy' "$facc" run $random -o a.npy --lse a.npy
want 2 'one --dtype' "$facc" run $random --stats --dtype f16,bf16
want 2 'one FILE.lua' "$facc" run alibi.lua alibi.lua $qkv --stats
want 2 'six or seven' "$facc" run --random 1,,1,1,8,8,8 --stats
want 2 'six or seven' "$facc" run --random 1,1,1,8,8,8, --stats
want 2 '2\^30' "$facc" run --random 4294967296,1,1,1,1,1 --stats
want 2 'lists are for' "$facc" emit alibi.lua --head-dim 64,128
want 2 'lists are for' "$facc" explain alibi.lua --arch 80,90
want 2 'not understood' "$facc" compile alibi.lua --head-dim 64,,128
want 2 'not both' "$facc" compile alibi.lua --mask 'q >= kv'
want 2 'one FILE.lua' "$facc" emit alibi.lua alibi.lua
want 2 'one too many' "$facc" cache clear everything
want 2 'one too many' "$facc" cache gc 5 6
want 2 'export wants a FILE' "$facc" cache export
want 2 'one too many' "$facc" cache import a b
want 2 'has its own programs' "$facc" compile alibi.lua --manifest m.jsonl
want 2 'has its own programs' "$facc" compile --manifest m.jsonl --dtype f16
want 2 'or --manifest' "$facc" compile
want 2 'no dtype .f99' "$facc" compile alibi.lua --out-dtype f99
want 2 'one too many' "$facc" doctor now
want 2 'no option' "$facc" doctor -o x

# output that cannot be written
want 1 'No space' "$facc" run $random -o /dev/full
want 1 'No space' "$facc" run $random --lse /dev/full
for c in 'doctor --json' 'cache ls' 'emit --mask q>kv' --version 'run --help' "run $random --json" "check $random"; do
    want 1 'writing the output failed: No space' sh -c '"$0" "$@" >/dev/full' "$facc" $c
    want 1 'writing the output failed: Bad file' sh -c '"$0" "$@" >&-' "$facc" $c
done
want 0 '^$' sh -c '"$0" "$@" >&- 2>&- && echo' "$facc" run $random -o closed.npy
want 0 NUMPY head -c 6 closed.npy

# files: exit code 1
want 1 'No such file' "$facc" run missing.lua $qkv --stats
want 1 'missing.npy: No such file' "$facc" run --q missing.npy --k k.npy --v v.npy --stats --device cpu
want 1 'truncated' "$facc" run --q cut.npy --k k.npy --v v.npy --stats --device cpu
want 1 'truncated' "$facc" run --q cuthead.npy --k k.npy --v v.npy --stats --device cpu
want 1 'not a .npy' "$facc" run --q text.npy --k k.npy --v v.npy --stats --device cpu
want 1 'Fortran' "$facc" run --q fortran.npy --k k.npy --v v.npy --stats --device cpu
want 1 'four dimensions' "$facc" run --q rank3.npy --k k.npy --v v.npy --stats --device cpu
want 1 'not read' "$facc" run --q complex.npy --k k.npy --v v.npy --stats --device cpu
want 1 'say what they are' "$facc" run --q raw16.npy --k k.npy --v v.npy --stats --device cpu
want 1 'directory' "$facc" $alibi --tensor slopes=slopes.npy --param window=9 --lse no/such/dir.npy

# headers of .npy files
for f in v2 v3 spaced quotes python2 more; do
    want 0 'TFLOP' "$facc" run --q h_$f.npy --k k.npy --v v.npy --stats --device cpu
done
for f in open commas nocommas negative falsehood disguised noorder; do
    want 1 'header is not readable' "$facc" run --q h_$f.npy --k k.npy --v v.npy --stats --device cpu
done
for f in overflow digits; do
    want 1 'shape is too large' "$facc" run --q h_$f.npy --k k.npy --v v.npy --stats --device cpu
done
want 1 'version 4' "$facc" run --q h_v4.npy --k k.npy --v v.npy --stats --device cpu
want 1 "'>f4' is not read" "$facc" run --q h_bigendian.npy --k k.npy --v v.npy --stats --device cpu
want 1 'structured' "$facc" run --q h_struct.npy --k k.npy --v v.npy --stats --device cpu
want 1 'more than 5 dim' "$facc" run --q h_rank6.npy --k k.npy --v v.npy --stats --device cpu

# what the mod captures
want 1 "--tensor slopes=" "$facc" $alibi --param window=9
want 1 "--param window=" "$facc" $alibi --tensor slopes=slopes.npy
want 1 "no tensor 'slope'" "$facc" $alibi --tensor slopes=slopes.npy --param window=9 --tensor slope=slopes.npy
want 1 "no param 'w'" "$facc" $alibi --tensor slopes=slopes.npy --param window=9 --param w=1
want 1 '--tensor slopes: the file holds i64, f32 is wanted' "$facc" $alibi --tensor slopes=islopes.npy --param window=9
want 1 "slopes.*3" "$facc" $alibi --tensor slopes=slopes3.npy --param window=9
want 1 "'nine' is none" "$facc" $alibi --tensor slopes=slopes.npy --param window=nine
want 1 'multiple' "$facc" run --q q.npy --k k3.npy --v k3.npy --stats --device cpu
want 1 'no 64-bit integer; write 9223372036854775808.0' "$facc" run --mask 'q - kv < w' --param w=9223372036854775808 $random --stats
want 0 'TFLOP' "$facc" run --mask 'q - kv < w' --param w=9223372036854775808.0 $random --stats
want 1 'does not fit' "$facc" run --mask 'q - kv < w' --param w=9223372036854775807 $random --stats
want 1 "'1e400' is none" "$facc" run --mask 'q - kv < w' --param w=1e400 $random --stats
want 1 'does not fit' "$facc" run --mask 'q - kv < w' --param w=1e39 $random --stats
want 0 'TFLOP' "$facc" run --mask 'q - kv < w' --param w=inf $random --stats
want 0 'TFLOP' "$facc" run --mask 'q - kv < t[b]' --tensor t=empty.npy --random 0,1,1,8,8,8 --device cpu --stats
want 0 'Dv 8' "$facc" run --q q.npy --k k.npy --v v8.npy --stats --device cpu

# the user's Lua: file and line
want 1 'syntax.lua:2: ' "$facc" run syntax.lua $qkv --stats
want 1 'runtime.lua:3: ' "$facc" run runtime.lua $qkv --stats
want 1 'endless.lua:3: .*instructions' "$facc" run endless.lua $qkv --stats
want 1 'bomb.lua.*memory' "$facc" run bomb.lua $qkv --stats
want 1 'impure.lua:.*pure' "$facc" run impure.lua $qkv --stats
want 1 'nothing.lua:.*no value is returned' "$facc" run nothing.lua $qkv --stats
want 1 'number.lua:.*true or false' "$facc" run number.lua $qkv --stats
want 1 "outside.lua:4: .*'t'" "$facc" run outside.lua $qkv --tensor t=slopes.npy --stats
want 1 'score' "$facc" run --score 'score +' $qkv --stats
want 1 'kvv' "$facc" run --mask 'q >= kvv' $qkv --stats

# names of files: JSON stays JSON
for name in 'a"b.lua' 'a\b.lua' "$(printf 'a\nb.lua')" "$(printf '\351t\351.lua')" "$(printf 'x\303.lua')" \
    "$(printf 'long%041d' 0 | sed 's/0/\xc3\xa9/g').lua"; do
    printf 'return require"facc".attention { mask_mod = "q >= kv" }\n' >"$name"
    want 0 'kernel' "$facc" explain "$name" --json
    is_json
    want 0 TFLOP "$facc" run "$name" $random --stats
    if "$facc" doctor --json | grep -q '"nvrtc_found":[[:space:]]*true'; then
        want 0 'nvrtc|disk' env FACC_LOG=off FACC_CACHE_DIR="$work/names" "$facc" compile "$name" --head-dim 64 --json
        is_json
        want 0 'sm80' env FACC_CACHE_DIR="$work/names" "$facc" cache ls --json
        is_json
        rm -rf "$work/names"
    fi
done

# manifests, archives: without a compile
record="env FACC_NO_JIT=1 FACC_CACHE_DIR=$work/empty FACC_MANIFEST=$work/m.jsonl"
want 1 '^\[2/2\] alibi.lua  bf16  D 72/64  sm_90  FAILED: .*facc compile alibi.lua --dtype bf16 --out-dtype f32 --head-dim 72/64 --arch 90' \
    $record "$facc" compile alibi.lua --arch 80,90 --head-dim 72/64 --jobs 1 --out-dtype f32
want 1 '^2 of 2 kernels: 0 compiled, 0 there already, 2 failed' $record "$facc" compile alibi.lua --arch 80,90 --head-dim 72/64 --out-dtype f32
want 1 '^3 of 3 kernels' env FACC_NO_JIT=1 "$facc" compile --manifest m.jsonl --arch 80,86,89
want 1 '"out_dtype":[[:space:]]*"f32"' env FACC_NO_JIT=1 "$facc" compile --manifest m.jsonl --arch 89 --json
want 1 '^\[[123]/3\] syntax.lua  FAILED: syntax.lua:2:' env FACC_NO_JIT=1 "$facc" compile alibi.lua syntax.lua missing.lua
want 1 '^3 of 3 kernels: .* 3 failed' env FACC_NO_JIT=1 "$facc" compile alibi.lua syntax.lua missing.lua
cp alibi.lua 'é (1).lua'
cp alibi.lua "it's.lua"
want 1 "\"facc compile 'é \\(1\\).lua' --dtype bf16" env FACC_NO_JIT=1 FACC_CACHE=off "$facc" compile 'é (1).lua' --head-dim 64
want 1 '"facc compile FILE --dtype bf16' env FACC_NO_JIT=1 FACC_CACHE=off "$facc" compile "it's.lua" --head-dim 64
want 1 'facc compile FILE --dtype bf16 --head-dim 64/64 --arch 80 --with-sinks --with-dropout"' \
    env FACC_NO_JIT=1 FACC_CACHE=off "$facc" compile --mask 'q >= kv' --with-dropout --with-sinks --head-dim 64 --arch 80
want 1 'm2.jsonl: No such file' "$facc" compile --manifest m2.jsonl
want 1 'is no manifest' "$facc" compile --manifest alibi.lua
want 1 'must be a file' sh -c 'cat m.jsonl | "$0" compile --manifest /dev/stdin' "$facc"
want 0 '^0 entries into e.tar' env FACC_CACHE_DIR="$work/empty" "$facc" cache export e.tar
want 0 '^0 added, 0 there already, 0 damaged' env FACC_CACHE_DIR="$work/empty" "$facc" cache import e.tar
want 1 'no tar archive|cut short' env FACC_CACHE_DIR="$work/empty" "$facc" cache import alibi.lua
want 1 'set FACC_CACHE_DIR' env FACC_CACHE=ro "$facc" cache import e.tar
want 1 'no/such/e.tar: No such' "$facc" cache export no/such/e.tar
want 2 'rebuild goes with verify' "$facc" cache ls --rebuild
want 2 'go with verify --rebuild' "$facc" cache verify --jobs 2
want 1 'forbidden \(FACC_NO_JIT' env FACC_NO_JIT=1 "$facc" cache verify --rebuild
want 1 'NVRTC' env FACC_NVRTC=/nonexistent "$facc" cache verify --rebuild
want 1 'set FACC_CACHE_DIR' env FACC_CACHE=ro "$facc" cache verify --rebuild

# many kernels, by an NVRTC that makes them at once or slowly (tests/unit/fake_nvrtc.c)
mkdir "$work/fake ü"
if cc -w -D_GNU_SOURCE -shared -fPIC "$root/tests/unit/fake_nvrtc.c" -o "$work/fake ü/libnvrtc.so.13"; then
    FACC_CACHE_DIR="$work/grid"
    FACC_NVRTC="$work/fake ü"
    FAKE_NVRTC_LOG="$work/compiles"
    export FACC_CACHE_DIR FACC_NVRTC FAKE_NVRTC_LOG
    grid="compile alibi.lua $root/examples/softcap.lua --dtype bf16,f16 --head-dim 64,72,80,88,96,104 --arch 80,89"
    # stop.py SIGNAL COMMAND...: told when FAKE_NVRTC_FREE compiles have ended and
    # two more are under way, which end after it.
    cat >stop.py <<'P'
import os, pathlib, re, subprocess, sys, time
gate, log = (pathlib.Path(os.environ["FAKE_NVRTC_" + x]) for x in ("GATE", "LOG"))
begun = int(os.environ["FAKE_NVRTC_FREE"]) + 2
gate.touch()
p = subprocess.Popen(sys.argv[2:])
def until(done):
    while p.poll() is None and not done():
        time.sleep(0.01)
def has_taken():  # a handler of SIGINT is gone once it was called
    caught = re.search(r"SigCgt:\s*(\w+)", pathlib.Path(f"/proc/{p.pid}/status").read_text())[1]
    return not int(caught, 16) & 2
until(lambda: log.exists() and log.stat().st_size == begun)
p.send_signal(int(sys.argv[1]))
until(has_taken)
gate.unlink()
code = p.wait()
sys.exit(code if code >= 0 else 128 - code)
P
    want 1 'interrupted: the same command goes on' env FAKE_NVRTC_MS=100 FAKE_NVRTC_GATE=gate FAKE_NVRTC_FREE=4 "$python" stop.py 2 "$facc" $grid --jobs 2
    want 137 '' sh -c 'FAKE_NVRTC_GATE=gate FAKE_NVRTC_FREE=10 "$@" >/dev/null 2>&1' - "$python" stop.py 9 "$facc" $grid --jobs 2
    want 0 ' 0 broken' "$facc" cache verify
    want 0 '^48 of 48 kernels: 38 compiled, 10 there already, 0 failed' "$facc" $grid --jobs 4
    want 0 '^48 of 48 kernels: 0 compiled, 48 there already' env FACC_NO_JIT=1 FACC_NVRTC=/nonexistent "$facc" $grid
    want 0 '^facc: 1 at once: 300 MiB' "$facc" $grid --jobs 4 --memory 300
    want 0 '^facc: 2 at once: 500 MiB' "$facc" $grid --jobs 4 --memory 500
    want 0 '^facc: [123] at once: [0-9]* MiB' sh -c 'ulimit -v 700000; exec "$0" "$@"' "$facc" $grid --jobs 64
    # two runs at once share the work
    rm -rf "$work/grid" "$work/compiles"
    want 0 '^48$' sh -c 'export FAKE_NVRTC_MS=20; "$0" "$@" >one & "$0" "$@" >two; wait; wc -c <"$FAKE_NVRTC_LOG"' "$facc" $grid --jobs 2
    # a run records, the next machine compiles for another architecture
    want 0 disk env FACC_MANIFEST=r.jsonl "$facc" compile alibi.lua --head-dim 64 --arch 80
    want 0 'alibi.lua  bf16  D 64/64  sm_89  sm80  disk' "$facc" compile --manifest r.jsonl --arch 89
    want 0 '^2 of 2 kernels' "$facc" compile --manifest r.jsonl --arch 80,90
    # quantizers too, which no option makes
    cat >q.jsonl <<'E'
{"from":"bf16","to":"e4m3","head_dim":64,"arch":90,"hadamard":1,"mean":0,"image":1}
E
    want 1 'bf16 to e4m3  D 64  hadamard  image  sm_90  FAILED: .*FACC_MANIFEST' env FACC_NO_JIT=1 "$facc" compile --manifest q.jsonl
    want 0 '^\[1/1\] \(quantizer\)  bf16 to e4m3  D 64  hadamard  image  sm_90  nvrtc  [0-9.]+ s$' "$facc" compile --manifest q.jsonl
    want 0 '"source":[[:space:]]*"disk"' env FACC_NO_JIT=1 "$facc" compile --manifest q.jsonl --json
    cat r.jsonl >>q.jsonl
    want 0 '^4 of 4 kernels: 1 compiled, 3 there already' "$facc" compile --manifest q.jsonl --arch 89,90
    # damaged in turn: a byte of the cubin, the facts cut short, a byte of the unit
    rm -rf "$work/grid"
    want 0 '^3 of 3 kernels: 3 compiled' "$facc" compile alibi.lua --head-dim 64,72,80 --arch 80
    want 0 '^3 entries: 3 kept, 0 rebuilt' "$facc" cache verify --rebuild
    entry() { find "$work/grid"/v1/?? -name "$1" | sort | sed -n "$2p"; }
    printf x | dd of="$(entry kernel.cubin 1)" bs=1 seek=100 conv=notrunc 2>/dev/null
    truncate -s 50 "$(entry meta.json 2)"
    printf x | dd of="$(entry unit.txt 3)" bs=1 seek=100 conv=notrunc 2>/dev/null
    want 1 'FACC_NO_JIT' env FACC_NO_JIT=1 "$facc" cache verify --rebuild
    want 1 '3 broken' "$facc" cache verify
    want 1 'rebuilt: the digest of kernel.cubin differs' sh -c '"$0" cache verify --rebuild >lines; rc=$?; cat lines; exit $rc' "$facc"
    want 0 'rebuilt: meta.json is damaged' cat lines
    want 0 'lost: the digest of unit.txt differs; without unit.txt' cat lines
    want 0 '^3 entries: 0 kept, 2 rebuilt, 0 in another directory, 1 lost' cat lines
    want 0 '^3 of 3 kernels: 1 compiled, 2 there already' "$facc" compile alibi.lua --head-dim 64,72,80 --arch 80
    truncate -s 50 "$(entry kernel.cubin 1)"
    want 0 '"outcome":[[:space:]]*"rebuilt"' "$facc" cache verify --rebuild --json --jobs 2
    is_json
    want 0 '^3 entries: 3 kept' "$facc" cache verify --rebuild
    # the line of progress is a terminal's
    want 0 'at once, 0 failed' "$python" -c 'import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)' \
        env FACC_CACHE=off FAKE_NVRTC_MS=30 "$facc" compile alibi.lua --head-dim 64,72,80 --arch 80 --jobs 1
    unset FAKE_NVRTC_LOG
    if [ -n "$home_cache" ]; then FACC_CACHE_DIR=$home_cache; else unset FACC_CACHE_DIR; fi
    if [ -n "$nvrtc" ]; then FACC_NVRTC=$nvrtc; else unset FACC_NVRTC; fi
else
    echo "no C compiler: many kernels skipped"
fi

# machine: no NVRTC, no GPU, cache
if ! [ -e /dev/nvidia0 ]; then
    want 1 'gpu' "$facc" run --random 1,1,1,8,8,8 --device gpu --stats
fi
want 1 'NVRTC' env FACC_NVRTC=/nonexistent FACC_CACHE_DIR="$work/empty" "$facc" compile --mask 'q > kv' --head-dim 64
want 1 'FACC_NO_JIT|forbidden' env FACC_NO_JIT=1 FACC_CACHE_DIR="$work/empty" "$facc" compile --mask 'q > kv' --head-dim 64
want 1 'multiples of 8' "$facc" compile --mask 'q > kv' --head-dim 60
want 1 '256' "$facc" compile --mask 'q > kv' --head-dim 264
want 1 'f32' "$facc" compile --mask 'q > kv' --dtype f32
if "$facc" doctor --json | grep -q '"nvrtc_found":[[:space:]]*true'; then
    want 0 'nvrtc' env FACC_CACHE_DIR="$work/cache" "$facc" compile --mask 'q > kv' --head-dim 64
    want 0 'disk' env FACC_CACHE_DIR="$work/cache" "$facc" compile --mask 'q > kv' --head-dim 64
    want 0 'disk' env FACC_NVRTC=/nonexistent FACC_CACHE_DIR="$work/cache" "$facc" compile --mask 'q > kv' --head-dim 64
    want 0 '2 entries.* 0 broken' env FACC_CACHE_DIR="$work/cache" "$facc" cache verify
    want 0 '"packed":[[:space:]]*true' env FACC_CACHE_DIR="$work/packed" "$facc" compile --mask 'q > kv' --head-dim 64 --packed --json
    want 1 'sm_90 packed block-mask expr' env FACC_NO_JIT=1 FACC_CACHE_DIR="$work/packed" "$facc" compile --mask 'q > kv' --head-dim 64 --packed --block-mask
    want 0 'packed' env FACC_CACHE_DIR="$work/packed" "$facc" cache ls
    find "$work/cache" -name kernel.cubin -exec sh -c 'printf x >>"$1"' _ {} \;
    want 1 '2 broken' env FACC_CACHE_DIR="$work/cache" "$facc" cache verify
    want 0 'nvrtc' env FACC_CACHE_DIR="$work/cache" "$facc" compile --mask 'q > kv' --head-dim 64
    want 0 '2 entries.* 0 broken' env FACC_CACHE_DIR="$work/cache" "$facc" cache verify
    find "$work/cache"/v1/?? -name kernel.cubin -exec sh -c 'cp "$1" "$0/$(sha1sum <"$1" | cut -c 1-40).cubin"; truncate -s 3000 "$1"' "$work" {} \;
    want 0 '^2 entries: 0 kept, 2 rebuilt' env FACC_CACHE_DIR="$work/cache" "$facc" cache verify --rebuild
    want 0 '^same same $' sh -c 'for f in "$0"/cache/v1/??/*/kernel.cubin; do cmp -s "$f" "$0/$(sha1sum <"$f" | cut -c 1-40).cubin" && printf "same "; done' "$work"
    want 0 '^2 entries into' env FACC_CACHE_DIR="$work/cache" "$facc" cache export "$work/a b ü.tar"
    want 0 '^2 added, 0 there' env FACC_CACHE_DIR="$work/néw cache" "$facc" cache import "$work/a b ü.tar"
    want 0 'disk' env FACC_NO_JIT=1 FACC_CACHE_DIR="$work/néw cache" "$facc" compile --mask 'q > kv' --head-dim 64
    mkdir -p "$work/layer" && tar -xf "$work/a b ü.tar" -C "$work/layer"
    want 0 'disk' env FACC_NO_JIT=1 FACC_CACHE_DIR="$work/none:$work/layer" "$facc" compile --mask 'q > kv' --head-dim 64
    want 1 '^1 added, 0 there already, 1 damaged' env FACC_CACHE_DIR="$work/third" sh -c \
        'head -c 40000 "$1" >x.tar && printf z | dd of=x.tar bs=1 seek=9000 conv=notrunc 2>/dev/null; tail -c +40001 "$1" >>x.tar; "$0" cache import x.tar' "$facc" "$work/a b ü.tar"
    want 0 'sm_90  sm90 and sm80  disk' env FACC_CACHE_DIR="$work/cache" "$facc" compile --mask 'q > kv' --head-dim 64
    want 0 'sm_90  sm90  disk' env FACC_CACHE_DIR="$work/cache" "$facc" compile --mask 'q > kv' --head-dim 64 --layout aligned
    want 0 'sm_90  sm80  disk' env FACC_CACHE_DIR="$work/cache" "$facc" compile --mask 'q > kv' --head-dim 64 --family sm80
    want 0 '"fallback":[[:space:]]*"sm80"' env FACC_CACHE_DIR="$work/cache" "$facc" compile --mask 'q > kv' --head-dim 64 --json
    want 0 'nvrtc' env -u HOME -u XDG_CACHE_HOME -u FACC_CACHE_DIR "$facc" compile --mask 'q > kv' --head-dim 64
else
    echo "NVRTC was not found: compile and cache cases skipped"
fi

echo "$n cases, $bad failed"
[ "$bad" -eq 0 ]
