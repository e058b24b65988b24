#!/bin/sh
# All tests. Installs what is missing, builds build/dev (sanitizers) and
# build/release, runs everything that needs no GPU, and the GPU tests where
# there is one. --long adds the big sweeps.
set -u
cd "$(dirname "$0")/.." || exit 1

long=0
for arg in "$@"; do
    case $arg in
    --long) long=1 ;;
    *)
        echo "usage: sh tests/run.sh [--long]" >&2
        exit 2
        ;;
    esac
done
export FACC_TEST_LONG=$long
# Tests compile into a cache of their own.
FACC_CACHE_DIR=$PWD/build/test-cache
export FACC_CACHE_DIR
rm -rf "$FACC_CACHE_DIR"

passed=0
failed=0
skipped=0
failures=

# told NAME CODE SECONDS: exit code 77 means skipped, and why was printed.
told() {
    case $2 in
    0)
        passed=$((passed + 1))
        printf -- '-- %s: passed (%d s)\n' "$1" "$3"
        ;;
    77)
        skipped=$((skipped + 1))
        printf -- '-- %s: SKIPPED\n' "$1"
        ;;
    *)
        failed=$((failed + 1))
        failures="$failures $1"
        printf -- '-- %s: FAILED (exit code %d, %d s)\n' "$1" "$2" "$3"
        ;;
    esac
}

step() { # name, command...
    name=$1
    shift
    printf '== %s\n' "$name"
    start=$(date +%s)
    "$@"
    code=$?
    told "$name" $code $(($(date +%s) - start))
}

# Steps that keep one core busy, or all of them at times, run side by side, the
# longest first: `beside` begins one as soon as a core is free, `gather` waits
# for all and tells of them.
begun=0
beside() { # name, command...
    while [ $((begun - $(ls build/beside | grep -c 'code$'))) -ge "$(nproc)" ]; do
        sleep 0.2
    done
    begun=$((begun + 1))
    printf '%s\n' "$1" >"build/beside/$begun.name"
    shift
    (
        start=$(date +%s)
        "$@" >"build/beside/$begun.out" 2>&1
        code=$?
        echo "$code $(($(date +%s) - start))" >"build/beside/$begun.new"
        mv "build/beside/$begun.new" "build/beside/$begun.code"
    ) &
}

gather() {
    wait
    n=0
    while [ $n -lt $begun ]; do
        n=$((n + 1))
        name=$(cat "build/beside/$n.name")
        printf '== %s\n' "$name"
        cat "build/beside/$n.out"
        told "$name" $(cat "build/beside/$n.code")
    done
    begun=0
    rm -f build/beside/*
}

# Where there is ccache, objects of earlier builds of the same sources are taken.
if command -v ccache >/dev/null; then
    export CMAKE_C_COMPILER_LAUNCHER=ccache CCACHE_BASEDIR="$PWD" CCACHE_NOHASHDIR=1
fi

build() {
    cmake --preset "$1" >"build/$1.configure.log" 2>&1 ||
        { cat "build/$1.configure.log"; return 1; }
    cmake --build --preset "$1" -j "$(nproc)" >"build/$1.build.log" 2>&1 ||
        { grep -A5 -E 'error|Error' "build/$1.build.log" | head -60; return 1; }
}

suites() { # build folder, ctest arguments
    folder=$1
    shift
    ctest --test-dir "$folder" --output-on-failure -j "$(nproc)" "$@"
}

gpu() { # a script of tests/gpu
    if ! [ -e /dev/nvidia0 ]; then
        echo "no GPU here: this needs one (tests/gpu/README.md)"
        return 77
    fi
    python3 "$1"
}

table() { # every known mod by both families' kernels
    if ! [ -e /dev/nvidia0 ]; then
        echo "no GPU here: this needs one"
        return 77
    fi
    build/release/conformance --gpu --jobs "$(nproc)"
}

random_mods() { # on the CPU paths, and by both families through NVRTC
    build/release/fuzz --mods "$1" --out build || return 1
    if ! build/release/facc doctor --json | grep -q '"nvrtc_found":[[:space:]]*true'; then
        echo "NVRTC was not found: nothing was compiled"
        return 0
    fi
    build/release/fuzz --nvrtc "$2" --out build
}

threads() { # races, as ThreadSanitizer sees them
    cmake -S . -B build/tsan -DCMAKE_BUILD_TYPE=Release -DFACC_TSAN=ON >build/tsan.log 2>&1 &&
        cmake --build build/tsan -j "$(nproc)" --target test_share >>build/tsan.log 2>&1 ||
        { tail -n 20 build/tsan.log; return 1; }
    build/tsan/test_share
}

warps() { # parts of what --long runs in full
    for part; do
        build/venv/bin/python tests/gpu/pipeline_host.py --cases 300 --only "$part" ||
            return 1
    done
}

rm -rf build/beside
mkdir -p build/beside
step setup sh examples/setup.sh
[ ! -f build/setup.env ] || . build/setup.env
step "build release" build release
step "build dev" build dev
[ "$failed" -eq 0 ] || { echo "$passed passed, $failed failed, $skipped skipped"; exit 1; }

step "suites under sanitizers" suites build/dev
step "numeric suites, optimised" suites build/release -R 'attention|eval|tracer|verdict|hostile|conformance|emit_list|test_share'
beside "kernels through NVRTC" sh tests/api/kernels.sh build/release/facc
[ $long = 1 ] || beside "hostile input, libFuzzer" sh tests/hostile/fuzz.sh 20
beside "command line" sh tests/api/cli.sh build/release/facc
beside "memory running out" sh tests/api/out_of_memory.sh build/release/facc
beside "public header" sh tests/api/header.sh
beside "exported symbols" sh tests/api/symbols.sh build/release/libfacc.so
beside "installed library" sh tests/api/install.sh build/release
beside "python" build/venv/bin/python -m unittest discover -s runtime/python/tests -t runtime/python
beside "examples" build/venv/bin/python -m unittest discover -s tests/examples
beside "benchmarks' drivers" build/venv/bin/python -m unittest discover -s tests/bench
[ $long = 1 ] || beside "sm90, the warps on the CPU" warps tags.listed numbers.alibi softmax.narrow
gather
[ $long = 1 ] || step "1,000 random mods on every path, 20 compiled" random_mods 1000 20
if [ $long = 1 ]; then
    step "wheel, PyTorch, SmolLM2" sh tests/api/python_long.sh
    step "100,000 random mods on every path, 2,000 compiled" random_mods 100000 2000
    step "tracer, 30,000 random mods" build/release/test_tracer 30000 1000000
    step "verdicts, 100,000,000 tiles" build/release/test_verdict 100000000
    step "rewriting, 300,000 random expressions" build/release/test_rewrite 300000
    step "FP8, rounding and transposing kernels on the CPU" build/venv/bin/python tests/gpu/quantize_host.py
    step "schedules, the kernels on the CPU" build/venv/bin/python tests/gpu/schedule_host.py
    step "sm90, the warps on the CPU" build/venv/bin/python tests/gpu/pipeline_host.py --cases 1000
    step "threads, ThreadSanitizer" threads
    step "cache, killed 200 times" build/release/test_cache_faults 200
    step "10,000 compile and free cycles" build/release/test_cycles 10000
    step "NVRTC of other versions" build/venv/bin/python tests/api/nvrtc_versions.py build/release/facc
    step "conformance, all kernels" build/release/conformance --compile --jobs "$(nproc)"
    step "sm90, mistakes planted" build/venv/bin/python tests/gpu/pipeline_host.py --mutations
    step "hostile input, libFuzzer" sh tests/hostile/fuzz.sh 1800
fi
step "GPU" gpu tests/gpu/run_all.py
step "GPU, conformance table" table
step "GPU, rounding to FP8" gpu tests/gpu/quantize.py
step "GPU, random mods" gpu tests/gpu/fuzz.py
step "GPU, compute-sanitizer" gpu tests/gpu/sanitize.py
step "GPU, DRAM traffic" gpu tests/gpu/dram.py
step "two GPUs" gpu tests/gpu/two_gpus.py

[ -z "$failures" ] || echo "failed:$failures"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
