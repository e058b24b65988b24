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

# fail NAME WHAT COMMAND...: must fail, or do all of its work. `want` holds the
# right output, or nothing where outputs have times in them.
fail() {
    name=$1
    what=$2
    shift 2
    "$@" >"$work/out" 2>"$work/err"
    code=$?
    if [ "$code" -gt 2 ]; then
        echo "$name: $what: exit code $code"
        bad=1
    elif [ "$code" -eq 0 ] && [ -s "$work/want" ] &&
        ! cmp -s "$work/want" "$work/out"; then
        echo "$name: $what: success with another output"
        bad=1
    fi
}

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
    case $name in
    explain | emit | expressions | mask* | cache*ls*) cp "$work/out" "$work/want" ;;
    *) : >"$work/want" ;;
    esac
    total=$(sed -n 's/^ALLOCATIONS //p' "$work/err")
    n=1
    runs=0
    while [ "$n" -le "$total" ]; do
        fail "$name" "allocation $n of $total and all later ones" \
            env FAIL_NTH="$n" LD_PRELOAD="$work/fail_nth.so" "$@"
        fail "$name" "allocation $n of $total alone" \
            env FAIL_NTH="$n" FAIL_ONCE=1 LD_PRELOAD="$work/fail_nth.so" "$@"
        runs=$((runs + 1))
        n=$((n + 1 + n / 60))
    done
    echo "$name: $total allocations, $runs of them failed in turn"
}

sweep explain "$facc" explain examples/alibi_window.lua
sweep emit "$facc" emit examples/document_causal.lua --head-dim 64 --arch 80
sweep run "$facc" run examples/causal.lua --random 1,2,1,33,40,16 \
    --device cpu --stats
sweep mask "$facc" mask examples/sentence_softcap.lua --tile 16x16 \
    --tensor sentence=examples/data/sentence.npy
sweep "mask as PNG" "$facc" mask --mask 'q - kv < 9' --sq 40 --tile 8x8 \
    -o "$work/mask.png" --json
sweep expressions "$facc" explain --mask 'q >= kv and q - kv < 10'
sweep "cache ls" "$facc" cache ls
if "$facc" compile examples/alibi.lua --head-dim 64 --arch 80,90 >/dev/null 2>&1
then
    sweep "cached compile" "$facc" compile examples/alibi.lua --head-dim 64 \
        --arch 80
    sweep "cached compile of two codes" "$facc" compile examples/alibi.lua \
        --head-dim 64 --arch 90
    sweep "cache ls with an entry" "$facc" cache ls
else
    echo "cached compile: skipped, there is no NVRTC to fill the cache"
fi
exit "$bad"
