#!/bin/sh
# From a fresh Debian machine to attention on real data: installs what is
# missing (setup.sh), builds facc, runs a causal mask and two mods of one's own
# on a layer of SmolLM2-135M (data/), on the CPU and on the GPU if there is
# one, and compares each with NumPy.
set -eu
cd "$(dirname "$0")/.."

sh examples/setup.sh
. build/setup.env

say() { printf '\n== %s\n' "$*"; }

say "Building (build/release; log in build/quickstart-build.log)"
# all that `cmake --install` takes, no tests
{ cmake --preset release && cmake --build --preset release --parallel --target facc_cli facc_archive facc_man; } \
    >build/quickstart-build.log 2>&1 || {
    tail -n 40 build/quickstart-build.log >&2
    echo "quickstart: the build failed; the whole log is in build/quickstart-build.log" >&2
    exit 1
}
facc=build/release/facc
out=build/quickstart
data=examples/data
mkdir -p "$out"
"$facc" --version

# run NAME DEVICE MOD-FILE OPTION...: runs facc, then compares with NumPy.
failures=0
run() {
    name=$1 device=$2 file=$3
    shift 3
    o=$out/$name-$device.npy
    lse=$out/$name-$device-lse.npy
    rm -f "$o" "$lse"
    if "$facc" run "$file" --q $data/q.npy --k $data/k.npy --v $data/v.npy \
            -o "$o" --lse "$lse" --device "$device" "$@" &&
        build/venv/bin/python examples/compare.py "$name" "$device" "$o" "$lse"
    then :
    else
        echo "quickstart: $name on the $device failed" >&2
        failures=$((failures + 1))
    fi
}

devices=cpu
if command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; then
    devices="cpu gpu"
else
    say "No GPU here: running on the CPU alone"
fi

for device in $devices; do
    say "SmolLM2 layer 14, 9 heads, 3 KV heads, 220 tokens, on the $device"
    run causal $device examples/causal.lua
    run alibi_window $device examples/alibi_window.lua \
        --tensor slopes=$data/slopes.npy --param window=64
    run sentence_softcap $device examples/sentence_softcap.lua \
        --tensor sentence=$data/sentence.npy
done

say "The mask of sentence_softcap.lua: what is known before the kernel runs"
"$facc" mask examples/sentence_softcap.lua --tensor sentence=$data/sentence.npy --tile 16x16

if [ $failures != 0 ]; then
    echo "quickstart: $failures runs failed" >&2
    exit 1
fi
say "All runs agree with NumPy. Try your own: edit a file of examples/, or"
cat <<EOF
$facc run --random 1,8,8,1024,1024,64 --mask 'q >= kv and q - kv < 128' --stats
EOF
