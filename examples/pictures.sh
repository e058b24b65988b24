#!/bin/sh
# Makes examples/pictures/*.png anew with `facc mask`: all masks of examples/,
# 512 tokens in tiles of 64 x 32 unless a line says otherwise, on the inputs of
# inputs.py. usage: sh examples/pictures.sh [path/to/facc]
set -eu
cd "$(dirname "$0")/.."
facc=${1:-build/release/facc}
build/venv/bin/python examples/inputs.py >/dev/null
mkdir -p examples/pictures

# picture NAME OPTION...
picture() {
    name=$1
    shift
    case "$*" in *--sq*) ;; *) set -- "$@" --sq 512 ;; esac
    case "$*" in *--tile*) ;; *) set -- "$@" --tile 64x32 ;; esac
    for file in "build/inputs/$name"/*.npy; do
        [ ! -e "$file" ] || set -- "$@" --tensor "$(basename "$file" .npy)=$file"
    done
    "$facc" mask "examples/$name.lua" "$@" -o "examples/pictures/$name.png"
}
picture bigbird --sq 1024 --tile 64x64
picture block_diagonal
picture block_diffusion
picture block_sparse
picture causal
picture causal_bottom_right --sq 128 --skv 512
picture causal_images
picture chunked --param chunk=128
picture dense_mask
picture dilated
picture document
picture document_causal
picture duo_attention
picture gpt_oss --param window=128
picture head_windows --head 3
picture longformer
picture natten
picture packed_causal
picture padding
picture paged --sq 64 --skv 512 --tile 16x32 --batch 1
picture prefix_lm
picture ring_shard --param q0=300 --param kv0=100
picture sentence_softcap
picture shared_prefix
picture sliding_tile --sq 1536 --tile 32x32
picture sliding_window --param window=128
picture sparse_transformer
picture speculative_tree --sq 48 --skv 512 --tile 16x32
picture streaming_sinks
picture swin --sq 49 --tile 7x7 --batch 15
picture tree
picture var_levels --sq 680
