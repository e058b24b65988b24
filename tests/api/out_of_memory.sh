#!/bin/sh
# usage: out_of_memory.sh path/to/facc   (a build without sanitizers)
# Memory runs out at the n-th allocation of a whole command, for many n: it
# must end with a message and exit code 1 (or not have needed the memory),
# never with a signal. Kernels come from the cache, so that NVRTC, which is
# not facc's to harden, is not in the process.
set -u
facc=$1
cd "$(dirname "$0")/../.." || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
${CC:-cc} -shared -fPIC -O1 tests/api/fail_nth.c -o "$work/fail_nth.so" || exit 1
FACC_CACHE_DIR=$work/cache
export FACC_CACHE_DIR
bad=0

# sweep NAME COMMAND...: every n at first, then in larger steps.
sweep() {
    name=$1
    shift
    if ! FAIL_COUNT=1 LD_PRELOAD=$work/fail_nth.so "$@" \
        >"$work/out" 2>"$work/err"; then
        echo "$name: does not work even with memory:"
        cat "$work/err"
        bad=1
        return
    fi
    total=$(sed -n 's/^ALLOCATIONS //p' "$work/err")
    n=1
    runs=0
    while [ "$n" -le "$total" ]; do
        FAIL_NTH=$n LD_PRELOAD=$work/fail_nth.so "$@" \
            >"$work/out" 2>"$work/err"
        code=$?
        if [ "$code" -gt 2 ]; then
            echo "$name: allocation $n of $total: exit code $code"
            bad=1
        fi
        runs=$((runs + 1))
        n=$((n + 1 + n / 60))
    done
    echo "$name: $total allocations, $runs of them failed in turn"
}

sweep explain "$facc" explain examples/alibi_window.lua
sweep emit "$facc" emit examples/document_causal.lua --head-dim 64 --arch 80
sweep run "$facc" run examples/causal.lua --random 1,2,1,33,40,16 \
    --device cpu --stats
sweep expressions "$facc" explain --mask 'q >= kv and q - kv < 10'
sweep "cache ls" "$facc" cache ls
if "$facc" compile examples/alibi.lua --head-dim 64 --arch 80 >/dev/null 2>&1
then
    sweep "cached compile" "$facc" compile examples/alibi.lua --head-dim 64 \
        --arch 80
    sweep "cache ls with an entry" "$facc" cache ls
else
    echo "cached compile: skipped, there is no NVRTC to fill the cache"
fi
exit "$bad"
