#!/usr/bin/env python3
"""Packed sequences: three texts of different lengths one behind the other,
causal in each, as if each ran alone. On NumPy arrays; CUDA tensors work the
same way. PYTHONPATH=runtime/python build/venv/bin/python examples/packed.py"""
import numpy as np

import facc

lengths = [70, 1, 129]
heads, kv_heads, dim = 4, 2, 64
offsets = np.cumsum([0, *lengths]).astype(np.int32)

rng = np.random.default_rng(0)
q = rng.standard_normal((offsets[-1], heads, dim), dtype=np.float32)
k = rng.standard_normal((offsets[-1], kv_heads, dim), dtype=np.float32)
v = rng.standard_normal((offsets[-1], kv_heads, dim), dtype=np.float32)

# q and kv count from the start of each sequence, b is its number.
o = facc.attention(q, k, v, mask_mod="q >= kv", cu_seqlens_q=offsets, cu_seqlens_kv=offsets,
                   max_seqlen_q=max(lengths), max_seqlen_kv=max(lengths))

for first, end in zip(offsets, offsets[1:]):
    alone = facc.attention(*(x[first:end].swapaxes(0, 1)[None] for x in (q, k, v)), mask_mod="q >= kv")
    same = np.array_equal(o[first:end], alone[0].swapaxes(0, 1))
    print(f"tokens {first} to {end - 1}: {'the same as alone' if same else 'DIFFERENT'}")
    if not same:
        raise SystemExit(1)
