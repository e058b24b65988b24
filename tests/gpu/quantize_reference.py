"""What facc_quantize does, in NumPy: f32 in the order that facc.h states, so that bits are the same;
a Hadamard transform of 16-bit elements in f64, since tensor cores sum in their own order; the image of
V byte by byte. For quantize_host.py and quantize.py."""
import numpy as np

f32 = np.float32
MOST = {"e4m3": f32(448), "e5m2": f32(57344)}


def values(to):
    """The positive finite values of the format, by code."""
    bits, bias, last = (3, 7, 0x7e) if to == "e4m3" else (2, 15, 0x7b)
    codes = np.arange(last + 1)
    e, m = codes >> bits, codes & ((1 << bits) - 1)
    return np.where(e == 0, m * 2.0 ** (1 - bias - bits),
                    (m + (1 << bits)) * 2.0 ** (e - bias - bits))


def codes_of(y, to):
    """To nearest even, saturating; what is not finite is NaN."""
    v = values(to)
    middles = (v[1:] + v[:-1]) / 2
    m = np.abs(y.astype(np.float64))
    code = np.searchsorted(middles, m, side="left")  # a middle goes down
    tie = (code < len(middles)) & (m == middles[np.minimum(code, len(middles) - 1)])
    code = code + (tie & (code % 2 == 1))
    code = np.where(np.signbit(y), code | 0x80, code)
    return np.where(np.isfinite(y), code, 0x7f).astype(np.uint8)


def decode(codes, to):
    v = values(to)
    c = codes & 0x7f
    x = np.where(c < len(v), v[np.minimum(c, len(v) - 1)], np.nan)
    return np.where(codes & 0x80, -x, x)


def signs_of(seed, D):
    """splitmix64, a bit for each channel."""
    mask = (1 << 64) - 1
    out = []
    for i in range(4):
        x = (seed + (i + 1) * 0x9e3779b97f4a7c15) & mask
        x = ((x ^ x >> 30) * 0xbf58476d1ce4e5b9) & mask
        x = ((x ^ x >> 27) * 0x94d049bb133111eb) & mask
        out.append(x ^ x >> 31)
    return out, np.array([out[d // 64] >> d % 64 & 1 for d in range(D)], bool)


def transformed(x, seed):
    D = x.shape[-1]
    x = np.where(signs_of(seed, D)[1], -x, x)
    step = 1
    while step < D:
        pairs = x.reshape(*x.shape[:-1], D // (2 * step), 2, step)
        a, b = pairs[..., 0, :], pairs[..., 1, :]
        x = np.stack([a + b, a - b], -2).reshape(x.shape)
        step *= 2
    return x * f32(1 / np.sqrt(float(D)))


def scale_of(amax, to, power_of_two):
    s = (f32(amax) / MOST[to]).astype(f32) if amax else f32(1)
    if amax:
        s = max(s, f32(2.0 ** -126))
        if power_of_two:
            s = np.array([(s.view(np.uint32) + np.uint32(0x7fffff)) & np.uint32(0xff800000)],
                         np.uint32).view(f32)[0]
    return f32(s)


def quantize(x, to, rank, block=0, power_of_two=False, seed=None, mean=None, lengths=None):
    """x: f32 [B, H, S, D]; lengths: rows that count, of each b. (codes, scale), scale of shape (),
    [B, H] or [B, H, blocks] by its rank. mean [B, H, D] is subtracted as given."""
    B, H, S, D = x.shape
    with np.errstate(invalid="ignore", over="ignore"):
        y = x if mean is None else x - mean[:, :, None]
        if seed is not None:
            y = transformed(y, seed)
        size = np.where(np.isfinite(y), np.abs(y), f32(0)).max(-1) if S else np.zeros((B, H, 0), f32)
        for b in range(B if lengths is not None else 0):
            size[b, :, lengths[b]:] = 0
        blocks = -(-S // block) if rank == 3 else 1
        amax = np.zeros((B, H, blocks), f32)
        for i in range(blocks):
            part = size[:, :, i * block:(i + 1) * block] if rank == 3 else size
            amax[:, :, i] = part.max(-1) if part.shape[-1] else 0
        if rank == 0:
            amax[...] = amax.max() if amax.size else 0
        scale = np.array([scale_of(a, to, power_of_two) for a in amax.ravel()],
                         f32).reshape(amax.shape)
        rows = np.arange(S) // block if rank == 3 else np.zeros(S, int)
        factor = (f32(1) / scale)[:, :, rows]
        codes = codes_of((y * factor[..., None]).astype(f32), to)
    return codes, scale if rank == 3 else scale[..., 0] if rank == 2 else scale_one(scale)


NEAR = 2.0 ** -20


def exactly_transformed(x, seed):
    """Of rows that are finite."""
    D = x.shape[-1]
    bits = np.arange(D)[:, None] & np.arange(D)
    odd = sum(bits >> i & 1 for i in range(8)) + signs_of(seed, D)[1][:, None]
    return x.astype(np.float64) @ np.where(odd % 2, -1.0, 1.0) / np.sqrt(D)


def may_be_scale(scale, amax, to, power_of_two):
    if amax == 0:
        return scale == 1
    s = max(amax / float(MOST[to]), 2.0 ** -126)
    if power_of_two:
        return scale in [2.0 ** np.ceil(np.log2(s * (1 + far))) for far in (-NEAR, NEAR)]
    return abs(scale - s) <= NEAR * s


def hadamard_differs(x, codes, scale, to, rank, block, power_of_two, seed, lengths=None):
    """What is wrong, or None: scales within NEAR; codes as of values within NEAR of their row's largest,
    so that others than the exact one's come only of what is almost between two. A row with NaN or
    infinities is all NaN. x, codes [B, H, S, D]."""
    B, H, S, D = x.shape
    amax = np.zeros((B, H, -(-S // block) if rank == 3 else 1))
    rows = np.arange(S) // block if rank == 3 else np.zeros(S, int)
    factor = np.broadcast_to(np.reshape(scale, amax.shape if rank else (1, 1, 1)), amax.shape)
    for b in range(B):
        n = S if lengths is None else lengths[b]
        for h in range(H):
            finite = np.isfinite(x[b, h, :n]).all(-1, keepdims=True)
            y = exactly_transformed(np.where(finite, x[b, h, :n], 0), seed)
            most = np.abs(y).max(-1)
            np.maximum.at(amax[b, h], rows[:n], most)
            to_code = factor[b, h, rows[:n]].astype(np.float64)[:, None]
            y, far = y / to_code, np.broadcast_to(NEAR * most[:, None] / to_code, y.shape)
            mine = codes[b, h, :n]
            off = mine != np.where(finite, codes_of(y, to), 0x7f)
            least, value, largest = (decode(c, to) for c in (
                codes_of((y - far)[off], to), mine[off], codes_of((y + far)[off], to)))
            wrong = ~((least <= value) & (value <= largest) & np.broadcast_to(finite, y.shape)[off])
            if wrong.any():
                return f"{wrong.sum()} codes of (b {b}, h {h})"
    amax = amax.max(keepdims=True) if rank == 0 else amax
    for s, most in zip(np.ravel(scale), amax.ravel()):
        if not may_be_scale(s, most, to, power_of_two):
            return f"scale {s} of {most}"
    return None


def scale_one(scale):
    return scale.ravel()[0] if scale.size else f32(1)


def image_of(codes):
    """[S, D] of one sequence and head: chunks [ceil(S / 32) + 3, 32 * D]."""
    S, D = codes.shape
    chunks = -(-S // 32) + 3
    out = np.zeros((chunks, D, 32), np.uint8)
    for t in range(S):
        k = t % 16
        at = k // 2 * 4 + k % 2 if k < 8 else (k - 8) // 2 * 4 + 2 + k % 2
        unit = t % 32 // 16 ^ np.arange(D) // 4 % 2
        out[t // 32, np.arange(D), unit * 16 + at] = codes[t]
    return out.reshape(chunks, 32 * D)
