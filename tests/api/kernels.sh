#!/bin/sh
# Every template x architecture x example through NVRTC: it must compile, with
# no spill bytes beyond tests/api/spills.txt and no C75xx message. The quick
# form takes the classic examples by family sm80 at one head dim and by sm90 at
# two, the rest of the gallery by sm90 at one, causal attention on every
# architecture and at some head dims; FACC_TEST_LONG=1 takes all.
set -u
facc=$1
out=build/kernels.json
if ! "$facc" doctor --json | grep -q '"nvrtc_found":[[:space:]]*true'; then
    echo "NVRTC was not found: nothing can be compiled here"
    exit 77
fi
status=0
cache=rw
check() { # each family's code by itself: what is told of a kernel is of its first
    FACC_CACHE=$cache "$facc" compile "$@" --jobs "$(nproc)" --json >"$out" 2>"$out.err" || {
        status=1
        grep -B12 -A3 '"message":[[:space:]]*"[^"]' "$out" | head -40
    }
    cat "$out.err"
    if grep -q 'serialised matrix' "$out.err"; then
        status=1
    fi
    build/venv/bin/python tests/api/kernels.py "$out" tests/api/spills.txt ||
        status=1
}
both() { # of family sm80 on the architectures given, then of family sm90
    archs_of_sm80=$1
    shift
    check "$@" --arch "$archs_of_sm80" --family sm80
    sm90 "$@"
}
sm90() {
    cache=off # C75xx messages are told only where something is compiled
    check "$@" --arch 90 --family sm90
    cache=rw
}
dims=8,16,24,32,40,48,56,64,72,80,88,96,104,112,120,128,136,144,152,160,168,176,184,192,200,208,216,224,232,240,248,256
archs=80,86,89,90,100,120
some=80,90
classic= rest=
for file in examples/*.lua; do
    case ${file#examples/} in
    alibi*.lua | block_diagonal.lua | causal.lua | dilated.lua | document*.lua | \
        longformer.lua | natten.lua | prefix_lm.lua | relative_bias.lua | \
        sentence_softcap.lua | shared_prefix.lua | sliding_window.lua | \
        softcap*.lua | streaming_sinks.lua | t5_bias.lua) classic="$classic $file" ;;
    *) rest="$rest $file" ;;
    esac
done
if [ "${FACC_TEST_LONG:-0}" = 1 ]; then
    both $archs --mask 'q >= kv' --dtype bf16 --head-dim "$dims,192/128,64/256,256/64"
    both $archs --mask 'q >= kv' --dtype f16 --head-dim 64,96,128,192/128,256
    both $archs $classic --dtype bf16 --head-dim 64,128,256
    sm90 $classic --dtype f16 --head-dim 64,128,256
    sm90 $classic --dtype bf16 --head-dim 96,192,192/128
    sm90 $classic --dtype bf16 --head-dim 64,128 --packed
    sm90 $classic --dtype bf16 --head-dim 64,128 --block-mask
    both 80,90 $rest --dtype bf16 --head-dim 128
else
    both 80,90 --mask 'q >= kv' --head-dim 64,72,128,192/128,256
    check --mask 'q >= kv' --head-dim 64,192/128 --arch 86,89,100,120 --family sm80
    both 80 $classic --dtype bf16 --head-dim 128
    sm90 $classic --dtype bf16 --head-dim 64
    some=80
fi
sm90 $rest --dtype bf16 --head-dim 64
both $some --mask 'q >= kv' --head-dim 64,128 --packed
both $some --mask 'q >= kv' --head-dim 64,128 --block-mask
both $some --mask 'q >= kv' --head-dim 64,128,192/128,256 --with-sinks
both $some --mask 'q >= kv' --head-dim 64,128,192/128,256 --with-dropout
sm90 tests/api/many_values.lua --dtype bf16 --head-dim 192/128
sm90 tests/api/narrow_bias.lua --dtype bf16 --head-dim 64,128
both 80 examples/mla.lua --dtype f16 --head-dim 128
exit $status
