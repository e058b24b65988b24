#!/usr/bin/env python3
"""Attention in NumPy, f64, against what facc wrote. Prints one line; exit
status 1 if they differ. Called by quickstart.sh as
compare.py MOD DEVICE OUTPUT.npy LSE.npy, MOD one of MODS."""
import pathlib
import sys

import numpy as np

DATA = pathlib.Path(__file__).resolve().parent / "data"


def causal(score, q, kv):
    return score, q >= kv


def alibi_window(score, q, kv):
    slopes = np.load(DATA / "slopes.npy").astype(np.float64)
    return score + slopes[None, :, None, None] * (kv - q), (q >= kv) & (q - kv < 64)


def sentence_softcap(score, q, kv):
    sentence = np.load(DATA / "sentence.npy")[0]
    same = sentence[:, None] == sentence[None, :]
    return 15 * np.tanh(score / 15), (q >= kv) & (same | (kv == 0))


MODS = {f.__name__: f for f in (causal, alibi_window, sentence_softcap)}


def attention(q, k, v, mod):
    """Output [B, H, Sq, Dv] and LSE [B, H, Sq]; no row here is fully masked."""
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    score = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[3])
    rows, columns = np.arange(q.shape[2])[:, None], np.arange(k.shape[2])[None, :]
    score, keep = mod(score, rows, columns)
    score = np.where(keep, score, -np.inf)
    top = score.max(-1, keepdims=True)
    p = np.exp(score - top)
    total = p.sum(-1, keepdims=True)
    return p @ v / total, (top + np.log(total))[..., 0]


def main():
    name, device, out_file, lse_file = sys.argv[1:]
    q, k, v = (np.load(DATA / f"{x}.npy").astype(np.float64) for x in "qkv")
    o, lse = attention(q, k, v, MODS[name])
    got_o, got_lse = np.load(out_file), np.load(lse_file)
    if got_o.shape != o.shape or got_lse.shape != lse.shape:
        raise SystemExit(f"{name}: shapes {got_o.shape}, {got_lse.shape}; expected {o.shape}, {lse.shape}")
    o_error = np.abs(got_o - o).max()
    lse_error = (np.abs(got_lse - lse) / np.maximum(1, np.abs(lse))).max()
    # Output and probabilities are rounded to f16: two roundings of 2^-11 of
    # the largest value. NaN fails both comparisons.
    good = o_error <= np.abs(v).max() / 1024 and lse_error <= 1e-5
    print(f"{name:18} {device:4} output error {o_error:.1e}, LSE error {lse_error:.1e}  "
          f"{'ok' if good else 'WRONG'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
