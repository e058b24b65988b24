#!/bin/sh
# Makes examples/pictures/*.png anew with `facc mask`: 512 tokens, tiles of
# 64 x 32. usage: sh examples/pictures.sh [path/to/facc]
set -eu
cd "$(dirname "$0")/.."
facc=${1:-build/release/facc}
data=build/pictures
mkdir -p "$data" examples/pictures

build/venv/bin/python - "$data" <<'P'
import sys
import numpy as np
tokens = np.arange(512, dtype=np.int32)
documents = np.searchsorted([90, 130, 300, 420], tokens, "right").astype(np.int32)
branches = np.searchsorted([160, 270, 330, 460], tokens, "right").astype(np.int32)
np.save(f"{sys.argv[1]}/ids.npy", documents[None])
np.save(f"{sys.argv[1]}/branch.npy", branches[None])
np.save(f"{sys.argv[1]}/prefix.npy", np.array([170], np.int32))
P

picture() {
    name=$1
    shift
    "$facc" mask "examples/$name.lua" --sq 512 --tile 64x32 "$@" -o "examples/pictures/$name.png"
}
picture sliding_window --param window=150
picture document_causal --tensor ids=$data/ids.npy
picture prefix_lm --tensor prefix=$data/prefix.npy
picture shared_prefix --tensor branch=$data/branch.npy
picture dilated
picture longformer
picture natten
