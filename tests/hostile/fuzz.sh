#!/bin/sh
# usage: fuzz.sh SECONDS [PROCESSES]
# libFuzzer over scripts (five sixths of the CPU time) and .npy files, with
# ASan and UBSan. Builds build/fuzz with clang, which is installed where apt
# can; without it: exit code 77. What a run has found stays in
# build/fuzz/corpus; an input that fails is kept as build/fuzz/NAME-…, to be
# given to build/fuzz/fuzz_script or fuzz_npy.
set -u
seconds=${1:-20}
cd "$(dirname "$0")/../.." || exit 1
mkdir -p build/fuzz

has_libfuzzer() {
    echo 'int LLVMFuzzerTestOneInput(const char *d, long n);
          int LLVMFuzzerTestOneInput(const char *d, long n) { return !d && n; }' |
        clang -x c - -fsanitize=fuzzer,address,undefined -o build/fuzz/try 2>/dev/null
}

install() { # packages
    [ "$(id -u)" = 0 ] && root= || root=sudo
    $root env DEBIAN_FRONTEND=noninteractive apt-get -q install -y \
        --no-install-recommends "$@" >>build/fuzz/apt.log 2>&1
}

install_clang() {
    command -v apt-get >/dev/null || return 1
    [ "$(id -u)" = 0 ] || command -v sudo >/dev/null || return 1
    echo "installing clang and libFuzzer"
    install clang ||
        { ${root:-} apt-get -q update >>build/fuzz/apt.log 2>&1 && install clang; } ||
        return 1
    major=$(clang -dumpversion | cut -d. -f1)
    has_libfuzzer || install "libclang-rt-$major-dev"
}

has_libfuzzer || install_clang
has_libfuzzer || { echo "no clang with libFuzzer here, and it could not be installed"; exit 77; }

# CC and flags of another compiler are none of clang's.
env -u CFLAGS cmake -S . -B build/fuzz -DCMAKE_C_COMPILER=clang \
    -DCMAKE_BUILD_TYPE=Debug "-DCMAKE_C_FLAGS_DEBUG=-O1 -g1" \
    -DCMAKE_C_FLAGS=-fsanitize=fuzzer-no-link -DFACC_SANITIZE=ON \
    -DFACC_FUZZ=ON >build/fuzz/configure.log 2>&1 ||
    { cat build/fuzz/configure.log; exit 1; }
cmake --build build/fuzz -j "$(nproc)" --target fuzz_script fuzz_npy \
    >build/fuzz/build.log 2>&1 ||
    { grep -A5 -E 'error|Error' build/fuzz/build.log | head -60; exit 1; }

# Processes side by side; a short run is one, the same inputs each time, on a
# machine that may be busy with others.
jobs=${2:-1}
once="-seed=1 -timeout=150"
[ "$seconds" -le 60 ] || { jobs=${2:-$(nproc)} once=-timeout=25; }
[ "$jobs" -le 8 ] || jobs=8

# fuzz NAME SECONDS MAX_LENGTH SEEDS...
fuzz() {
    name=$1
    time=$(($2 / jobs + 1)) # 0 is no limit
    length=$3
    shift 3
    mkdir -p "build/fuzz/corpus/$name"
    log=$PWD/build/fuzz/$name.log
    root=$PWD
    seeds=
    for seed; do seeds="$seeds $root/$seed"; done
    rm -f build/fuzz/fuzz-*.log
    parallel=
    [ "$jobs" = 1 ] || parallel="-jobs=$jobs -workers=$jobs"
    (
        cd build/fuzz &&
            UBSAN_OPTIONS=print_stacktrace=1 "./fuzz_$name" $parallel \
                -max_total_time="$time" $once -rss_limit_mb=3072 \
                -max_len="$length" -dict="$root/tests/hostile/$name.dict" \
                -artifact_prefix="$root/build/fuzz/$name-" -verbosity=1 \
                -print_final_stats=1 "corpus/$name" $seeds
    ) >"$log" 2>&1
    code=$?
    cat build/fuzz/fuzz-*.log >>"$log" 2>/dev/null
    runs=$(sed -n 's/^stat::number_of_executed_units: //p' "$log" | awk '{ n += $1 } END { print n + 0 }')
    slow=$(sed -n 's/^stat::slowest_unit_time_sec: *//p' "$log" | sort -n | tail -1)
    rss=$(sed -n 's/^stat::peak_rss_mb: *//p' "$log" | sort -n | tail -1)
    echo "$name: $runs inputs, $jobs x $time s, slowest ${slow:-?} s, peak ${rss:-?} MB"
    [ $code = 0 ] && [ "$runs" -gt 100 ] && return 0
    grep -a -A25 -E 'DEFECT|ERROR: |runtime error' "$log" | head -60
    echo "$name: failed (exit code $code); the log is build/fuzz/$name.log"
    return 1
}

rm -rf build/fuzz/seeds
mkdir -p build/fuzz/seeds/examples build/fuzz/seeds/golden
cp examples/*.lua build/fuzz/seeds/examples
cp tests/golden/*.lua build/fuzz/seeds/golden
bad=0
fuzz script $((seconds * 5 / 6)) 4096 tests/hostile/script build/fuzz/seeds || bad=1
fuzz npy $((seconds / 6)) 512 tests/hostile/npy || bad=1
exit $bad
