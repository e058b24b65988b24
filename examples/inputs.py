#!/usr/bin/env python3
"""Inputs for the examples: what each Lua file captures, random but sensible.

usage: build/venv/bin/python examples/inputs.py [NAME...]

Writes build/inputs/NAME/TENSOR.npy for the command that stands in each file.
`make(name, shape)` gives the same for other shapes, to pictures.sh and to
tests/examples."""
import pathlib
import sys
import zlib
from collections import namedtuple

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDER = "build/inputs"
Shape = namedtuple("Shape", "B H Hkv Sq Skv D")

f32, f16, i32 = np.float32, np.float16, np.int32


def runs(rng, B, n, mean=60):
    """i32 [B, n]: 0, 1, 2 ... each over a run of tokens."""
    return (rng.random((B, n)) < 1 / mean).cumsum(1).astype(i32)


def normal(rng, *shape):
    return rng.standard_normal(shape).astype(f32)


def alibi_slopes(H):
    return np.exp2(-8 * np.arange(1, H + 1) / H).astype(f32)


# ---- one function for each file that captures something ---------------------
# (rng, shape) -> (tensors, params); its shape in the file's command, if it is
# not the usual one, is below.

def alibi(rng, s):
    return {"slopes": alibi_slopes(s.H)}, {}


def alibi_window(rng, s):
    return {"slopes": alibi_slopes(s.H)}, {"window": 128}


def bigbird(rng, s):
    return {"random": rng.integers(0, 16, (s.H, 16, 3)).astype(i32)}, {}


def block_sparse(rng, s):
    sizes = np.full(8, 64, i32)
    sizes[3::4] = 40
    return {"map": rng.random((s.B, s.H, 8, 8)) < 0.4, "sizes": sizes}, {}


def causal_images(rng, s):
    """Every other run is an image."""
    run = runs(rng, s.B, s.Skv)
    return {"image": np.where(run % 2 == 1, run // 2 + 1, 0).astype(i32)}, {}


def chunked(rng, s):
    return {}, {"chunk": 128}


def dense_bias(rng, s):
    return {"bias": normal(rng, s.B, s.H, s.Sq, s.Skv)}, {}


def dense_mask(rng, s):
    """Some spans of queries see some spans of keys."""
    spans = rng.random((s.B, 1, s.Sq // 40 + 1, s.Skv // 40 + 1)) < 0.3
    return {"keep": spans.repeat(40, 2).repeat(40, 3)[:, :, :s.Sq, :s.Skv]}, {}


def document(rng, s):
    return {"ids": runs(rng, s.B, s.Skv)}, {}


def duo_attention(rng, s):
    return {"retrieval": np.arange(s.H) % 2 == 1}, {}


def fire(rng, s):
    return {"w1": normal(rng, 8), "b1": normal(rng, 8),
            "w2": normal(rng, s.H, 8), "b2": normal(rng, s.H)}, {"c": 0.1, "far": 64}


def forgetting(rng, s):
    gates = rng.uniform(0.8, 1, (s.B, s.H, s.Skv))
    return {"sums": np.log(gates).cumsum(2).astype(f32)}, {}


def fp8_descale(rng, s):
    return {n: rng.uniform(0.5, 2, (s.B, s.Hkv)).astype(f32) for n in ("q_descale", "k_descale")}, {}


def graphormer(rng, s):
    return {"distance": rng.integers(0, 64, (s.B, s.Sq, s.Skv)).astype(np.uint8),
            "spatial": normal(rng, s.H, 64), "virtual": normal(rng, s.H)}, {}


def logn(rng, s):
    return {}, {"trained": 128}


def mla(rng, s):
    return {"q_rope": normal(rng, s.B, s.H, s.Sq, 64).astype(f16),
            "k_rope": normal(rng, s.B, s.Skv, 64).astype(f16)}, {}


def packed_causal(rng, s):
    cuts = np.sort(rng.choice(np.arange(1, s.Skv), 4, replace=False))
    ids = np.searchsorted(cuts, np.arange(s.Skv), "right")
    return {"ids": ids.astype(i32), "starts": np.append(0, cuts).astype(i32)}, {}


def padding(rng, s):
    return {"length": rng.integers(s.Skv // 2, s.Skv + 1, s.B).astype(i32)}, {}


def paged(rng, s):
    """Pages of 16 tokens, dealt out to the sequences at random; some are free."""
    pages = rng.permutation(32)
    each = 32 // s.B - 2 // s.B
    page_of = np.full((s.B, 32), -1, i32)
    for b in range(s.B):
        page_of[b, pages[b * each:(b + 1) * each]] = np.arange(each)
    return {"page_of": page_of, "length": (each * 16 - rng.integers(0, 16, s.B)).astype(i32)}, {}


def prefix_lm(rng, s):
    return {"prefix": rng.integers(s.Skv // 4, s.Skv // 2, s.B).astype(i32)}, {}


def relative_bias(rng, s):
    return {"bias": normal(rng, s.H, 257)}, {}


def ring_shard(rng, s):
    return {}, {"q0": 300, "kv0": 100}


def sam_position(rng, s):
    return {"by_row": normal(rng, s.B, s.H, s.Sq, 16), "by_column": normal(rng, s.B, s.H, s.Sq, 32)}, {}


def sentence_softcap(rng, s):
    return {"sentence": runs(rng, s.B, s.Skv, 25)}, {}


def shared_prefix(rng, s):
    """The prompt is a third."""
    branch = runs(rng, s.B, s.Skv) + 1
    branch[:, :s.Skv // 3] = 0
    return {"branch": branch}, {}


def sliding_window(rng, s):
    return {}, {"window": 128}


def parents_of_tree(rng, n):
    """The parent of each token but the first, which lies before it."""
    return [int(rng.integers(max(0, i - 6), i)) for i in range(1, n)]


def speculative_tree(rng, s):
    ancestors = np.empty((s.B, s.Sq), np.int64)
    for b in range(s.B):
        ancestors[b, 0] = 1
        for i, parent in enumerate(parents_of_tree(rng, s.Sq), 1):
            ancestors[b, i] = ancestors[b, parent] | 1 << i
    return {"ancestors": ancestors}, {}


def swin(rng, s):
    """The last row of windows of a shifted image holds two regions, the last
    column two, its corner four."""
    y, x = np.divmod(np.arange(49), 7)
    low, right = np.arange(s.B) % 4 == 3, np.arange(s.B) // 4 % 4 == 3
    region = 2 * (low[:, None] & (y >= 4)) + (right[:, None] & (x >= 4))
    return {"bias": normal(rng, 169, s.H), "region": region.astype(np.uint8)}, {}


def t5_bias(rng, s):
    return {"bias": normal(rng, 32, s.H)}, {}


def token_merging(rng, s):
    return {"mass": rng.integers(1, 9, (s.B, s.Skv)).astype(f16)}, {}


def tree(rng, s):
    """Depth first: a token's parent is the one before it, or one above that."""
    last = np.empty((s.B, s.Skv), i32)
    for b in range(s.B):
        path = []
        for i in range(s.Skv):
            if path and rng.random() < 0.02:  # a new branch
                for done in path[(at := int(rng.integers(len(path) // 3, len(path)))):]:
                    last[b, done] = i - 1
                del path[at:]
            path.append(i)
        last[b, path] = s.Skv - 1
    return {"last": last}, {}


def nothing(rng, s):
    return {}, {}


CAPTURES = {f.__name__: f for f in (
    alibi, alibi_window, bigbird, block_sparse, causal_images, chunked, dense_bias, dense_mask, document,
    duo_attention, fire, forgetting, fp8_descale, graphormer, logn, mla, packed_causal, padding, paged,
    prefix_lm, relative_bias, ring_shard, sam_position, sentence_softcap, shared_prefix, sliding_window,
    speculative_tree, swin, t5_bias, token_merging, tree)}
CAPTURES["document_causal"] = document
CAPTURES["gpt_oss"] = sliding_window
SINKS = ("gpt_oss",)  # examples that are called with attention sinks

USUAL = Shape(1, 8, 2, 512, 512, 64)
SHAPES = {
    "bigbird": USUAL._replace(Sq=1024, Skv=1024),
    "causal_bottom_right": USUAL._replace(Sq=128),
    "graphormer": USUAL._replace(Hkv=8, Sq=128, Skv=128),
    "mla": USUAL._replace(Hkv=8, D=128),
    "padding": USUAL._replace(B=2),
    "paged": USUAL._replace(B=2, Sq=16),
    "sliding_tile": USUAL._replace(Sq=1536, Skv=1536),
    "speculative_tree": USUAL._replace(Sq=48),
    "swin": Shape(16, 3, 3, 49, 49, 32),
    "var_levels": USUAL._replace(Sq=680, Skv=680),
}


def names():
    return sorted(p.stem for p in (ROOT / "examples").glob("*.lua"))


def make(name, shape=None, seed=0):
    """(tensors, params) of examples/NAME.lua, the same for the same seed."""
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    return CAPTURES.get(name, nothing)(rng, shape or SHAPES.get(name, USUAL))


def sinks(name, shape=None, seed=0):
    """f32 [H], or None."""
    if name not in SINKS:
        return None
    return normal(np.random.default_rng([seed, 11]), (shape or SHAPES.get(name, USUAL)).H)


def main(wanted):
    for name in wanted or names():
        tensors, _ = make(name)
        folder = ROOT / FOLDER / name
        if tensors:
            folder.mkdir(parents=True, exist_ok=True)
        for tensor, values in tensors.items():
            np.save(folder / f"{tensor}.npy", values)
            print(f"{FOLDER}/{name}/{tensor}.npy  {values.dtype} {list(values.shape)}")
        if name in SINKS:
            (ROOT / FOLDER).mkdir(parents=True, exist_ok=True)
            np.save(ROOT / FOLDER / f"{name}_sinks.npy", sinks(name))
            print(f"{FOLDER}/{name}_sinks.npy  float32 {list(sinks(name).shape)}")


if __name__ == "__main__":
    main(sys.argv[1:])
