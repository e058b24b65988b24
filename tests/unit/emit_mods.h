/* Mods for test_emit.c: each line of the emitter's rules at least once.
 * Integer data is small (0 … 3, signed types -4 … 4), so that it can index
 * small extents. */
static const char *const emit_mods[] = {
    /* masks from Base: both signs, factors, params, lengths */
    "mask_mod = function(b, h, q, kv) return q >= kv end",
    "mask_mod = function(b, h, q, kv) return q + n > kv and kv > q - n end",
    "mask_mod = function(b, h, q, kv) return 3 * q - 2 * kv + 5 >= 0 end",
    "mask_mod = function(b, h, q, kv) return q + kv < 40 end",
    "mask_mod = function(b, h, q, kv) return kv == q or kv == 2 * q end",
    "mask_mod = function(b, h, q, kv) return kv ~= q and kv ~= big end",
    "mask_mod = function(b, h, q, kv) return kv + big - q > 5 end",
    "mask_mod = function(b, h, q, kv) return kv < facc.len.kv(b) and "
    "q < facc.len.q(b) end",
    "mask_mod = function(b, h, q, kv) return kv + facc.size.q >= q + "
    "facc.size.kv end",
    "mask_mod = function(b, h, q, kv) return kv * 7 < facc.size.kv * 3 end",
    "mask_mod = function(b, h, q, kv) return wide > kv - q end",
    "mask_mod = function(b, h, q, kv) return n - wide < kv - q end",
    /* tile scope alone, and with bounds */
    "mask_mod = function(b, h, q, kv) return b % 2 == 0 end",
    "mask_mod = function(b, h, q, kv) return flag[h] end",
    "mask_mod = function(b, h, q, kv) return flag[h] and q >= kv end",
    "mask_mod = function(b, h, q, kv) return h ~= 1 or q >= kv end",
    "mask_mod = function(b, h, q, kv) return false end",
    "mask_mod = function(b, h, q, kv) return h > 1 end",
    /* rows, columns, their sums */
    "mask_mod = function(b, h, q, kv) return doc[q] == doc[kv] end",
    "mask_mod = function(b, h, q, kv) return doc[q] + i8[q] >= doc[kv] - 1 "
    "end",
    "mask_mod = function(b, h, q, kv) return doc[q] - i16[kv] >= u8[kv] + "
    "h - 2 end",
    "mask_mod = function(b, h, q, kv) return i64[q] == i64[kv] end",
    "mask_mod = function(b, h, q, kv) return i64[q] > i64[kv] or q < 5 "
    "end",
    "mask_mod = function(b, h, q, kv) return q - kv <= far[q] end",
    "mask_mod = function(b, h, q, kv) return far[kv] + kv >= q - 3 end",
    "mask_mod = function(b, h, q, kv) return far[q] - far[kv] < q - kv or "
    "far[q] == far[kv] + 1 end",
    "mask_mod = function(b, h, q, kv) return far[(q + kv) % 37] > q - kv end",
    "mask_mod = function(b, h, q, kv) return bits[q] and q >= kv or "
    "bits[kv] end",
    "mask_mod = function(b, h, q, kv) return (q < 5 or kv < 7) and (q > 2 or "
    "kv > 3) end",
    "mask_mod = function(b, h, q, kv) return table2[doc[q]][doc[kv]] end",
    "mask_mod = function(b, h, q, kv) return doc[doc[kv]] <= doc[u8[q]] + 1 "
    "end",
    "mask_mod = function(b, h, q, kv) return dense[q][kv] > 0 end",
    /* integer arithmetic */
    "mask_mod = function(b, h, q, kv) return (q - kv) // 4 == (kv - q) % 3 "
    "end",
    "mask_mod = function(b, h, q, kv) return (q - kv) // -5 < (q + kv) % -7 "
    "+ 4 end",
    "mask_mod = function(b, h, q, kv) return (q - 9) // n >= (kv - 20) % n "
    "end",
    "mask_mod = function(b, h, q, kv) return (q - kv) % i8[q] < 2 end",
    "mask_mod = function(b, h, q, kv) return (wide - 4 * q) // -3 + kv < "
    "i64[q] - wide // 3 end",
    "mask_mod = function(b, h, q, kv) return (i64[q] - kv) // 3 + kv < "
    "(i64[kv] - q) % 5 + (i64[kv] + 9) % -4 end",
    "mask_mod = function(b, h, q, kv) return (q * kv) % 5 < 3 end",
    "mask_mod = function(b, h, q, kv) return q * big > kv * 2147483647 end",
    "mask_mod = function(b, h, q, kv) return (q & kv) == 0 or (q ~ kv) > 40 "
    "or (q | 1) == kv end",
    "mask_mod = function(b, h, q, kv) return (1 << (q % 8)) & (kv << 2) ~= 0 "
    "end",
    "mask_mod = function(b, h, q, kv) return (kv >> 2) == (q >> 1) or (q - "
    "kv) >> 60 == 0 end",
    "mask_mod = function(b, h, q, kv) return (q - kv) >> 60 < 8 end",
    "mask_mod = function(b, h, q, kv) return (q - kv) >> (kv % 9 - 4) & 7 < "
    "(kv - q) << (q % 70 - 3) & 7 end",
    "mask_mod = function(b, h, q, kv) return (kv - q) << (q % 8 - 67) "
    "& 7 < 2 end",
    "mask_mod = function(b, h, q, kv) return (kv - q) << (q % 5 + 62) & 7 == "
    "0 end",
    "mask_mod = function(b, h, q, kv) return math.abs(q - kv) < 5 or "
    "math.min(q, kv) == 3 or math.max(q - 3, kv) == 30 end",
    "mask_mod = function(b, h, q, kv) return math.min(math.max(q - kv, -3), "
    "4) % 2 == 1 end",
    /* floats in masks, masks that read the score */
    "mask_mod = function(b, h, q, kv) return f32[q] < f16[kv] end",
    "mask_mod = function(b, h, q, kv) return not (f32[q] <= bf[kv]) end",
    "mask_mod = function(b, h, q, kv) return e4[kv] > 0 and e5[q] < 1 end",
    "mask_mod = function(b, h, q, kv) return (q - kv) / 8 < x end",
    "mask_mod = function(b, h, q, kv) return facc.floor(f32[q] * 3) <= "
    "facc.ceil(f16[kv]) + facc.round(x) end",
    "score_mod = function(s, b, h, q, kv) return s > 0.25 and s or -math.huge "
    "end",
    "score_mod = function(s, b, h, q, kv) return q >= kv and s * 2 or "
    "-math.huge end",
    /* affine scores: each scope of alpha and beta */
    "score_mod = function(s, b, h, q, kv) return s * 2 + 1 end",
    "score_mod = function(s, b, h, q, kv) return s * hs[h] - x end",
    "score_mod = function(s, b, h, q, kv) return (s + hs[h]) / x end",
    "score_mod = function(s, b, h, q, kv) return s * f32[q] end",
    "score_mod = function(s, b, h, q, kv) return s / f16[kv] end",
    "score_mod = function(s, b, h, q, kv) return s + f32[q] + bf[kv] end",
    "score_mod = function(s, b, h, q, kv) return s + dense[q][kv] end",
    "score_mod = function(s, b, h, q, kv) return s + 2 * hbias[h][q][kv] end",
    "score_mod = function(s, b, h, q, kv) return -s end",
    "score_mod = function(s, b, h, q, kv) return 3 - s * x end",
    "score_mod = function(s, b, h, q, kv) return s + hs[h] * (kv - q) end",
    "score_mod = function(s, b, h, q, kv) return s - f32[q] * (2 * q - kv) "
    "end",
    "score_mod = function(s, b, h, q, kv) return s + (kv - q) end",
    "score_mod = function(s, b, h, q, kv) return s + (3 * kv - q + n) / 7 "
    "end",
    "score_mod = function(s, b, h, q, kv) return 3 * s + (kv - q) * 2 ^ (-8 * "
    "(h + 1) / facc.size.H) end",
    "score_mod = function(s, b, h, q, kv) return s - hs[h] * (q - kv) end",
    "score_mod = function(s, b, h, q, kv) return s * x - (2 * (kv - q) - "
    "bf[kv]) end",
    "score_mod = function(s, b, h, q, kv) return s + hs[h] * (kv - q) + x * "
    "(2 * kv - q) end",
    "score_mod = function(s, b, h, q, kv) local t = hs[h] * (kv - q) return s "
    "+ (t + x * (q - 3 * kv)) + t end",
    "score_mod = function(s, b, h, q, kv) return s + (hs[h] * (kv - q) + "
    "dense[q][kv]) end",
    "score_mod = function(s, b, h, q, kv) return (s + hs[h] * (kv - q)) / x "
    "end",
    "score_mod = function(s, b, h, q, kv) return s + math.abs(q - kv) * x + "
    "dense[q][kv] end",
    "score_mod = function(s, b, h, q, kv) return s + rel[math.min(math.max("
    "kv - q, -4), 4) + 4][h] end",
    "score_mod = function(s, b, h, q, kv) return s + facc.where(q > kv, 1.5, "
    "x) end",
    "score_mod = function(s, b, h, q, kv) return s + (doc[q] == doc[kv] and "
    "2.5 or 0) end",
    "score_mod = function(s, b, h, q, kv) return s + facc.log(1 + math.abs(q "
    "- kv)) * hs[h] end",
    /* not affine */
    "score_mod = function(s, b, h, q, kv) return 20 * facc.tanh(s / 20) end",
    "score_mod = function(s, b, h, q, kv) return 50 * facc.tanh(s * hs[h] + "
    "dense[q][kv]) end",
    "score_mod = function(s, b, h, q, kv) return 51 * facc.tanh(s / 51) end",
    "score_mod = function(s, b, h, q, kv) return -3 * facc.tanh(s) end",
    "score_mod = function(s, b, h, q, kv) return 0.25 * (facc.exp(s / 9) + "
    "math.abs(s)) end, mask_mod = function(b, h, q, kv) return q >= kv end",
    "score_mod = function(s, b, h, q, kv) return 2 * (3 * math.abs(s)) end, "
    "mask_mod = function(b, h, q, kv) return true end",
    "score_mod = function(s, b, h, q, kv) return x * facc.tanh(s / x) + "
    "hs[h] end",
    "score_mod = function(s, b, h, q, kv) return facc.tanh_fast(s * hs[h]) * "
    "n end",
    "score_mod = function(s, b, h, q, kv) return s * s + s end",
    "score_mod = function(s, b, h, q, kv) return facc.sigmoid(s + dense[q][kv]"
    ") * 3 - facc.exp(-s * s) end",
    "score_mod = function(s, b, h, q, kv) return facc.max(s, 0) + facc.min(s, "
    "f32[q]) end",
    "score_mod = function(s, b, h, q, kv) return s > f16[kv] and s * 2 or s / "
    "4 end",
    "score_mod = function(s, b, h, q, kv) return facc.sin(s) + facc.cos(f32[q]"
    ") * facc.exp2(e4[kv]) end",
    "score_mod = function(s, b, h, q, kv) return facc.sqrt(math.abs(s)) + s ^ "
    "2 + facc.erf(s) end",
    "score_mod = function(s, b, h, q, kv) return s % 3 + s // 2 end",
    "score_mod = function(s, b, h, q, kv) return facc.gelu(s) + facc.silu(s) "
    "+ facc.relu(s) end",
    "score_mod = function(s, b, h, q, kv) return 5 end",
    "score_mod = function(s, b, h, q, kv) return hs[h] * q end",
    "score_mod = function(s, b, h, q, kv) return facc.clamp(s, -0.5, 0.5) + "
    "scalar() end",
    /* scopes of their own */
    "score_mod = function(s, b, h, q, kv) return s + facc.sum(6, function(k) "
    "return facc.where(function() return q - kv > 3 * k end, 0.5, 0) end) end",
    "mask_mod = function(b, h, q, kv) return facc.any(3, function(k) return "
    "kv // 8 == table1[k] end) end",
    "score_mod = function(s, b, h, q, kv) return s + facc.sum(5, function(k) "
    "return dense[q][k] * dense[k][kv] end) end",
    "score_mod = function(s, b, h, q, kv) return s + facc.dot(rows(h, q), "
    "cols[kv]) end",
    "score_mod = function(s, b, h, q, kv) return s * facc.dot(cols[q], "
    "cols[q]) - facc.dot(rows(h, q), rows(h, 0)) end, mask_mod = function(b, "
    "h, q, kv) return facc.dot(cols[kv], cols[2]) > facc.dot(rows(0, q), "
    "cols[q // 2]) end",
    "score_mod = function(s, b, h, q, kv) return s ^ 3 - s ^ 5 / 16 + s ^ 6 * "
    "1e-3 - s ^ 7 * 1e-4 + s ^ 8 * 1e-6 + (1 + s * s) ^ -3 + s ^ 0 + "
    "math.abs(s) ^ 9 * 1e-8 + (q - kv) ^ 4 * 1e-6 + (1 + hs[h] ^ 2) ^ -1 end",
    "mask_mod = function(b, h, q, kv) return f32[kv] ^ 3 - f32[q] ^ 3 > 0.25 "
    "end",
    /* both */
    "score_mod = function(s, b, h, q, kv) return s + hs[h] * (kv - q) end, "
    "mask_mod = function(b, h, q, kv) return q >= kv and q - kv < n and "
    "doc[q] == doc[kv] end",
    "score_mod = function(s, b, h, q, kv) return s + f32[q] * (kv - q) end, "
    "mask_mod = function(b, h, q, kv) return kv - q <= n end",
    /* one number of the tile, far from the diagonal: on both sides, on one,
     * beside others */
    "score_mod = function(s, b, h, q, kv) return s + "
    "rel[facc.clamp(q - kv + 3, 0, 8)][h] end",
    "score_mod = function(s, b, h, q, kv) return x * (s + "
    "rel[facc.min(math.abs(q - kv), 8)][h] * hs[h]) - hs[h] end",
    "score_mod = function(s, b, h, q, kv) return s - "
    "rel[facc.clamp(q - kv, 0, 8)][h] end, "
    "mask_mod = function(b, h, q, kv) return q >= kv end",
    "score_mod = function(s, b, h, q, kv) return s - "
    "rel[facc.clamp(kv - q, 0, 8)][h] end, "
    "mask_mod = function(b, h, q, kv) return q <= kv end",
    "score_mod = function(s, b, h, q, kv) return s + "
    "table1[facc.min(math.abs(q - kv), 3)] / 3 + hs[h] end",
    "score_mod = function(s, b, h, q, kv) return s + facc.where("
    "math.abs(q - kv) < 4, rel[facc.clamp(q - kv + 4, 0, 8)][h], x) end, "
    "mask_mod = function(b, h, q, kv) return "
    "table2[facc.min(math.abs(q - kv), 3)][h] end",
    "score_mod = function(s, b, h, q, kv) return s + math.exp("
    "-facc.min(math.abs(q - kv), 12) / 4) end",
};

/* Reads outside: of doc[kv] (0 … 3) and kv where a table ends sooner. */
static const char *const bad_mods[] = {
    "mask_mod = function(b, h, q, kv) return table1[doc[kv] + 2] > 0 end",
    "mask_mod = function(b, h, q, kv) return q >= kv and kv < 5 and "
    "table1[kv] > 1 end",
    "mask_mod = function(b, h, q, kv) return table2[doc[q] + 1][doc[kv] - 1] "
    "or kv > 30 end",
    "mask_mod = function(b, h, q, kv) return doc[kv] < 2 or not "
    "table2[doc[kv] + 1][0] end",
    "mask_mod = function(b, h, q, kv) return q - kv > 4 end, "
    "score_mod = function(s, b, h, q, kv) return s + rel[q - kv][h] end",
    "score_mod = function(s, b, h, q, kv) return s + "
    "facc.where(math.abs(kv - q) <= 4, rel[kv - q + 4][h], 0) end",
    "score_mod = function(s, b, h, q, kv) return s * f32[q * 2] + "
    "f16[doc[kv] - 1] end",
    "score_mod = function(s, b, h, q, kv) return s + hs[h + 1] end, "
    "mask_mod = function(b, h, q, kv) return q >= kv or flag[h * 2] end",
};
