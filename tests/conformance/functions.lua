local want = "llama4_temperature"
-- Scores by other things than positions: temperatures, caps, terms that are
-- loaded, codes of low precision; and -inf inside of a score. Row by row as
-- scores.lua.
local facc = require "facc"
local S, inf = 2048, math.huge
local T, P, mods = facc.tensor, facc.param, facc.mods

local chosen = {}
local function row(name) return name == want end
local function score(f) chosen.score_mod = f end
local function mask(f) chosen.mask_mod = f end
local H, HKV = 4, 2

local function causal(b, h, i, j) return i >= j end

-- ---- scores -------------------------------------------------------------------------

if row "llama4_temperature" then
  score(function(s, b, h, i, j) return s * (math.log(math.floor((i + 1) / 64) + 1) * 0.1 + 1) end)
  mask(function(b, h, i, j) return i >= j and i // 256 == j // 256 end)
end
if row "entropy_scaled" then -- by the number of keys that a row sees
  score(function(s, b, h, i, j)
    local n = math.min(i + 1, facc.len.kv(b))
    return s * math.log(n + 1) / math.log(512)
  end)
  mask(causal)
end
if row "yarn_temperature" then
  local factor = P("c", "f32")
  score(function(s) return s * (0.1 * math.log(factor) + 1) ^ 2 end)
end
if row "head_temperature" then
  local t = T("temperature", "f16", { "H" })
  score(function(s, b, h) return s / facc.clamp(t[h], 0.25, 4) end)
end
if row "grok_caps" then -- capped, biased, capped again
  local slopes = T("slopes", "f32", { "H" })
  score(mods.compose(mods.softcap(30.0), mods.alibi(slopes), function(s)
    return 10.0 * facc.tanh(s * 0.1)
  end))
  mask(causal)
end
if row "head_caps" then -- a cap for each head, none where it is 0
  local cap = T("cap", "f32", { "H" })
  score(function(s, b, h)
    local c = cap[h]
    return facc.where(c > 0, c * facc.tanh(s / facc.max(c, 1e-6)), s)
  end)
end
if row "hard_clip" then score(function(s) return facc.clamp(s, -1.5, 1.5) end) end
if row "softsign" then score(function(s) return 4 * s / (4 + math.abs(s)) end) end
if row "qk_norm" then -- reciprocal norms of rows and columns
  local rq, rk = T("positive1", "f32", { "B", "H", "q" }), T("positive2", "f16", { "B", "Hkv", "kv" })
  score(function(s, b, h, i, j) return 10.0 * s * rq(b, h, i) * rk(b, h // (H // HKV), j) end)
end
if row "gat" then -- a graph's attention by two sums, leaky
  local a, c = T("gat_row", "f32", { "H", "q" }), T("gat_col", "f32", { "H", "kv" })
  score(function(s, b, h, i, j)
    local x = a[h][i] + c[h][j]
    return x >= 0 and x or 0.2 * x
  end)
end
if row "points" then -- distances of points, as slices and by a loop
  local p = T("points", "f32", { "B", S, 3 })
  score(function(s, b, h, i, j)
    local x, y = p(b, i), p(b, j)
    local d2 = facc.dot(x, x) + facc.dot(y, y) - 2 * facc.dot(x, y)
    return s - facc.sum(3, function(k) return (x[k] - y[k]) ^ 2 end) + 0.5 * d2
  end)
end
if row "hausdorff" then -- the largest distance along an axis
  local p = T("points", "f16", { S, 3 })
  score(function(s, b, h, i, j)
    return s - facc.max(3, function(k) return math.abs(p[i][k] - p[j][k]) end)
  end)
end
if row "log_prior" then -- some of them 0: masked
  local prior = T("prior", "f32", { "B", "kv" })
  score(function(s, b, h, i, j) return s + math.log(prior[b][j]) end)
end
if row "sigmoid_attention" then -- its bias, -log of the length
  score(function(s, b) return s - math.log(facc.len.kv(b)) end)
end
if row "alphafold" then -- pair bias, and a mask of large numbers
  local pair, keep = T("dense4", "bf16", { "B", "H", "q", "kv" }), T("some", "u8", { "B", "kv" })
  score(function(s, b, h, i, j)
    return s + pair(b, h, i, j) + 1e9 * (keep(b, j) - 1)
  end)
end
if row "huggingface_float_mask" then -- min of f16 in an additive mask
  local keep = T("some", "bool", { "B", "kv" })
  score(function(s, b, h, i, j) return s + (keep[b][j] and 0.0 or -65504.0) end)
end
if row "e8m0" then -- scales that are exponents
  local qe, ke = T("exponent1", "u8", { "B", "H", S // 32 }), T("exponent2", "u8", { "B", "Hkv", S // 32 })
  score(function(s, b, h, i, j)
    return s * facc.exp2(qe(b, h, i // 32) - 127 + (ke(b, h // 2, j // 32) - 127))
  end)
end
if row "zero_points" then -- of asymmetric int8: the correction of a row and a column
  local zq, zk = T("zero1", "i8", { "q" }), T("zero2", "i8", { "Hkv", "kv" })
  local sq = T("row_sum", "f32", { "B", "H", "q" })
  score(function(s, b, h, i, j) return (s - zk(h // 2, j) * sq(b, h, i) / 64 - zq[i] / 32) * 0.75 end)
end
if row "product_quantised" then -- a table for each of four parts of a code
  local lut, code = T("lut", "f16", { "B", "H", 4, 16 }), T("below16", "u8", { "B", "Hkv", "kv", 4 })
  score(function(s, b, h, i, j)
    return s / 2 + facc.sum(4, function(k) return lut(b, h, k, code(b, h // 2, j, k)) end)
  end)
end
if row "slices_of_slices" then
  local m = T("mixer", "f32", { "H", 3, 4 })
  score(function(s, b, h, i, j)
    local x = m(h)
    return s + facc.sum(x[j % 3]) * 0.5 + facc.max(x(i % 3)) - facc.min(x[0]) + #x + #x[0] - 7
         + facc.dot(x[1], { i % 2, 1, s / 8, -1 })
  end)
end
if row "minmax_lists" then
  score(function(s, b, h, i, j)
    return facc.max { s, s / 2, -1 } - facc.min { j % 5, i % 3, 2 } / 4 + facc.sum { h, b, 0.5 }
         + (facc.any { i == j, j == 0 } and 1 or 0) - (facc.all { i > j, j > 3 } and 1 or 0)
  end)
end
if row "sink_that_is_none" then -- keys that a head may not use at all, by -inf in a tensor
  local gate = T("gate", "f32", { "H", "kv" })
  score(function(s, b, h, i, j) return s + gate[h][j] end)
end
if row "differential" then -- heads in pairs of other signs
  score(function(s, b, h, i, j) return (h % 2 == 0 and 1 or -0.8) * s end)
end
if row "talking_constant" then -- what does not read the score
  local prior = T("dense2", "f32", { "q", "kv" })
  score(function(s, b, h, i, j) return prior[i][j] * 4 end)
end
if row "polynomial" then score(function(s) return ((0.125 * s + 0.5) * s - 1) * s + 2 ^ 0.5 end) end
if row "whole_score" then score(function(s, b, h, i, j) return (j * 7 + i * 3) % 11 end) end
if row "score_is_bool_sum" then
  score(function(s, b, h, i, j)
    local n = 0
    for _, c in ipairs { i == j, i > j, j % 3 == 0, s > 0 } do if c then n = n + 1 end end
    return s / 2 + n
  end)
end

-- ---- minus infinity inside a score, and what is made of it -------------------------

local function hidden(s, b, h, i, j) return i >= j and s or -inf end
if row "inf_capped" then score(mods.compose(hidden, mods.softcap(5.0))) end -- masks nothing
if row "inf_clamped" then score(function(...) return math.max(hidden(...), -2) end) end
if row "inf_exp" then score(function(...) return math.exp(hidden(...)) + facc.sigmoid(hidden(...)) end) end
if row "inf_relu" then score(function(...) return facc.relu(hidden(...)) end) end
if row "inf_scaled" then score(function(...) return hidden(...) * 0.5 - 3 end) end
if row "inf_floor" then score(function(...) return hidden(...) // 1 end) end
if row "inf_both" then
  score(function(s, b, h, i, j) return hidden(s, b, h, i, j) + (j % 3 == 0 and 0 or -inf) end)
end
if row "inf_either" then
  score(function(s, b, h, i, j)
    return math.max(hidden(s, b, h, i, j), j % 3 == 0 and s or -inf)
  end)
end
if row "inf_of_log" then
  score(function(s, b, h, i, j) return math.log(i >= j and 2.0 or 0.0) + s end)
end
if row "inf_of_division" then
  score(function(s, b, h, i, j) return 1 / (i >= j and 2.0 or -0.0) + s end)
end
if row "inf_beyond_f32" then -- -1e39
  score(function(s, b, h, i, j) return (i >= j and s or -1e38) * 10 end)
end

return facc.attention(chosen)
