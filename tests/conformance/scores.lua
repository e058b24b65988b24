local want = "S01"
-- Score mods of the literature, row by row of the conformance list, each as a
-- user would write it: what it captures, then the mod. The first line chooses
-- one row; tests put the other names there (list.h), and data.h fills tensors
-- and params by their names. Lengths are up to S tokens.
local facc = require "facc"
local S, inf = 2048, math.huge
local T, P, mods = facc.tensor, facc.param, facc.mods

local chosen = {}
local function row(name) return name == want end
local function score(f) chosen.score_mod = f end
local function mask(f) chosen.mask_mod = f end
local B, H, HKV = 2, 4, 2

local function causal(b, h, i, j) return i >= j end

-- ---- the list -------------------------------------------------------------------

if row "S01" then score(function(s) return s end) end
if row "S02" then score(function(s) return 2 * s end) end
if row "S03" then score(function(s) return s ^ 2 end) end
if row "S04" then score(function(s, b, h, i, j) return i >= j and s or -inf end) end
if row "S05" then score(function(s, b, h, i, j) if i <= j then return s end return -inf end) end
if row "S06" then score(function(s, b, h, i, j) return s + (i - j) end) end
if row "S07" then score(function(s, b, h, i, j) return s + math.abs(i - j) end) end
if row "S07double" then score(function(s, b, h, i, j) return s + 2 * math.abs(i - j) end) end
if row "S08" then
  local w = P("w", "i32")
  score(function(s, b, h, i, j) return s + math.min(math.abs(i - j), w) end)
end
if row "S09" then
  score(function(s, b, h, i, j) if i < j then return -inf end return s + (i - j) end)
end
if row "S10" then
  score(function(s, b, h, i, j) return s + (j - i) * 2 ^ (-8 * (h + 1) / facc.size.H) end)
end
if row "S11" then
  local slopes = T("slopes", "f32", { "H" })
  score(function(s, b, h, i, j) return s + slopes[h] * (j - i) end)
end
if row "S12" then
  score(function(s, b, h, i, j) return s - 2 ^ (-8 * (h + 1) / H) * math.abs(i - j) end)
end
if row "S13" then
  local gain = T("gain", "f32", { "H" })
  score(function(s, b, h, i, j) return s * gain[h] end)
end
if row "S14" then score(function(s, b, h, i, j) return s + 0.1 * h end) end
if row "S15" then
  local per_batch = T("per_batch", "f32", { "B" })
  score(function(s, b, h, i, j) return s + per_batch[b] end)
end
if row "S16" then
  local per_head = T("per_head", "f32", { "B", "H" })
  score(function(s, b, h, i, j) return s + per_head[b][h] end)
end
if row "S17" then
  local t, u, v = T("per_row", "f32", { "q" }), T("per_batch", "f32", { "B" }),
    T("slopes", "f32", { "H" })
  score(function(s, b, h, i, j) return s + t[i] + u[b] + v[h] end)
end
if row "S18" then
  local hb, bb = T("slopes", "f32", { "H" }), T("per_batch", "f32", { "B" })
  local qs, ks = T("per_row", "f32", { "q" }), T("per_col", "f32", { "kv" })
  score(function(s, b, h, i, j) return s + hb[h] + (qs[i] - ks[j]) + bb[b] end)
end
if row "S19" then
  local bias = T("dense2", "f32", { "q", "kv" })
  score(function(s, b, h, i, j) return s + bias[i][j] end)
end
if row "S19batch" then
  local bias = T("dense3", "f16", { "B", "q", "kv" })
  score(function(s, b, h, i, j) return s + bias(b, i, j) end)
end
if row "S19head" then
  local bias = T("dense3", "bf16", { "H", "q", "kv" })
  score(function(s, b, h, i, j) return s + bias[h][i][j] end)
end
if row "S19both" then
  local bias = T("dense4", "f32", { "B", "H", "q", "kv" })
  score(function(s, b, h, i, j) return s + bias(b, h, i, j) end)
end
if row "S20" then
  local bias = T("dense2", "f32", { "kv", "q" })
  score(function(s, b, h, i, j) return s + bias[j][i] end)
end
if row "S20head" then
  local bias = T("dense3", "bf16", { "H", "kv", "q" })
  score(function(s, b, h, i, j) return s + bias(h, j, i) end)
end
if row "S21" then
  local rel = T("rel", "f32", { 2 * S })
  score(function(s, b, h, i, j) return s + rel[i - j + S] end)
end
if row "S21other" then
  local rel = T("rel", "f32", { 2 * S })
  score(function(s, b, h, i, j) return s + rel[j - i + S - 1] end)
end
if row "S22" then
  local near = T("near", "f32", { 201 })
  score(function(s, b, h, i, j) return s + near[facc.clamp(i - j + 100, 0, 200)] end)
end
if row "S23" then
  local rel = T("rel", "f32", { 2 * S })
  score(function(s, b, h, i, j) return s + rel[math.abs(i - j)] end)
end
if row "S25" then
  local bias = T("per_col", "f32", { "kv" })
  score(function(s, b, h, i, j) return s + bias[j] end)
end
if row "S25row" then
  local bias = T("per_row", "f32", { "q" })
  score(function(s, b, h, i, j) return s + bias[i] end)
end
if row "S25gain" then
  local gain = T("per_row", "f32", { "q" })
  score(function(s, b, h, i, j) return s * gain[i] end)
end
if row "S26" then
  local bias = T("per_token", "f32", { S })
  score(function(s, b, h, i, j) return s + bias[i] + bias[j] end)
end
if row "S27" then
  local bias, off = T("per_token", "f32", { S }), T("shuffled", "i64", { S })
  score(function(s, b, h, i, j) return s + bias[off[i]] end)
end
if row "S28" then
  local bias = T("batch_row", "f32", { "B", "q" })
  score(function(s, b, h, i, j) return s + bias[b][i] end)
end
if row "S28partial" then
  local bias = T("partial", "f32", { 2, "B", "H", "q" })
  score(function(s, b, h, i, j) return s + bias[0](b, h)[i] end)
end
if row "S28scalar" then
  local bias, c0 = T("partial", "f32", { "B", "H", 5, "q" }), T("three", "i32", {})
  score(function(s, b, h, i, j) return s + bias[b][h][c0][i] end)
end
if row "S29" then -- every second and every third element of something larger
  local two, three = T("view2", "f32", { "H" }), T("view3", "f32", { "H" })
  score(function(s, b, h, i, j) return s * two[h] + three[h] end)
end
if row "S30" then
  local rel_h = T("rel_h", "f32", { "B", "H", "q", S // 16 })
  score(function(s, b, h, i, j) return s + rel_h(b, h, i, j // 16) end)
end
if row "S31" then
  local c = T("three", "i32", {})
  score(function(s) return s + c end)
end
if row "S31gain" then
  local c, d = T("factor", "f16", {}), T("three", "i64", {})
  score(function(s) return s * c + d * c end)
end
if row "S32" then score(function(s) return s + facc.size.B end) end
if row "S32sizes" then
  local z = facc.size
  score(function(s, b, h, i, j) return s * z.Hkv / z.H + (i - z.q) / z.kv + b / z.B end)
end
if row "S32dims" then
  local z = facc.size
  score(function(s) return s * (z.D / z.Dv) + 1 / math.sqrt(z.D + z.Dv) end)
end
if row "S33" then score(function(s, b, h, i, j) return j % 2 == 0 and s or -inf end) end
if row "S34" then
  local rel = T("rel", "f32", { 2 * S })
  local function bias(s, b, h, i, j) return s + rel[i - j + S] end
  local function masked(f)
    return function(s, b, h, i, j)
      local x = f(s, b, h, i, j)
      if causal(b, h, i, j) then return x else return -inf end
    end
  end
  score(masked(bias))
end
if row "S35" then
  local segment = T("segment", "bool", { S })
  score(function(s, b, h, i, j) return segment[i] == segment[j] and s or -inf end)
end
if row "S36" then
  local id = T("id", "i32", { S })
  score(function(s, b, h, i, j) return i >= j and id[i] == id[j] and s or -inf end)
end
if row "S37" then
  local n = T("prefix", "i32", { "B" })
  score(function(s, b, h, i, j)
    return ((i <= n[b] and j <= n[b]) or i >= j) and s or -inf
  end)
end
if row "S38" then
  score(function(s, b, h, i, j)
    return (math.abs(i / 32 - j / 32) <= 3 or math.abs(i % 32 - j % 32) <= 3) and s or -inf
  end)
end
if row "S40" then score(function(s) return s * facc.sigmoid(s) end) end
if row "S41" then score(function(s, b) return math.sin(math.cos(s)) + math.tan(b) end) end
if row "S41other" then
  score(function(s, b) return math.cos(s) * math.sin(s) + math.tan(b) end)
end
if row "S42" then
  local limit = T("level_of_batch", "i32", { "B" })
  score(function(s, b, h, i, j) if s <= limit[b] then return 2 * s end return -inf end)
end
if row "S42mask" then
  local n = T("prefix", "i32", { "B" })
  score(function(s, b, h, i, j) return s <= n[b] and i >= j and 2 * s or -inf end)
end
if row "S43" then
  local id, off = T("id", "i32", { S }), T("off", "i32", { S })
  score(function(s, b, h, i, j) return i - off[id[i]] >= j - off[id[j]] and s or -inf end)
end
if row "S45" then
  local m0 = T("factor", "f16", {})
  score(function(s) return s + math.log(m0) end)
end
if row "S46" then
  local c = P("c", "f32")
  score(function(s) return c * math.tanh(s / c) end)
end
if row "S46fast" then score(function(s) return 30.0 * facc.tanh_fast(s / 30.0) end) end
if row "S47" then score(function(s, b, h, i, j) return s / (1 + 1e-4 * (i - j) ^ 2) end) end
if row "S48" then score(function(s, b, h, i, j) return math.abs(i - j) <= 8 and 2 * s or s end) end
if row "S50" then
  local spatial, dist = T("spatial", "f32", { "H", 8 }), T("dist", "u8", { "B", "q", "kv" })
  score(function(s, b, h, i, j) return s + spatial(h, dist(b, i, j)) end)
end
if row "S51" then -- Graphormer: the mean of the biases along a path of up to 5 edges
  local count, edge = T("path", "u8", { "B", "q", "kv" }), T("edge", "i8", { "B", "q", "kv", 5 })
  local bias = T("edge_bias", "f32", { 5, "H", 8 })
  score(function(s, b, h, i, j)
    local n = count(b, i, j)
    return s + facc.sum(5, function(k)
      return n > k and bias(k, h, edge(b, i, j, k)) or 0.0
    end) / math.max(n, 1)
  end)
end
if row "S51loop" then
  local count, edge = T("path", "u8", { "B", "q", "kv" }), T("edge", "i8", { "B", "q", "kv", 5 })
  local bias = T("edge_bias", "f32", { 5, "H", 8 })
  score(function(s, b, h, i, j)
    local n, sum = count(b, i, j), 0.0
    for k = 0, 4 do
      if n > k then sum = sum + bias(k, h, edge(b, i, j, k)) end
    end
    return s + sum / math.max(n, 1)
  end)
end
if row "S51slice" then -- of all 5 edges: their mean, the largest and the first weighed
  local edge, bias = T("edge", "i8", { "B", "q", "kv", 5 }), T("edge_bias", "f32", { "H", 8, 5 })
  local weight = T("edge_weight", "e4m3", { 5 })
  score(function(s, b, h, i, j)
    local e = bias(h, edge(b, i, j, 0))
    local list = {}
    for k = 0, #e - 1 do list[k + 1] = bias(h, edge(b, i, j, k), k) end
    return s + facc.sum(list) / #list + facc.max(e) / 4 + facc.dot(e, weight)
         + facc.dot(list, { 1, 0, 0, -1, 0.5 })
  end)
end
if row "S52" then -- MLA: the rotary part of queries and keys, in tensors of their own
  local qr = T("q_rope", "f16", { "B", "H", "q", 16 })
  local kr = T("k_rope", "f16", { "B", "Hkv", "kv", 16 })
  score(function(s, b, h, i, j)
    local sum = 0.0
    for d = 0, 15 do sum = sum + qr(b, h, i, d) * kr(b, h // (H // HKV), j, d) end
    return s + 0.125 * sum
  end)
end
if row "S52dot" then
  local qr = T("q_rope", "f16", { "B", "H", "q", 64 })
  local kr = T("k_rope", "bf16", { "B", "Hkv", "kv", 64 })
  score(function(s, b, h, i, j)
    return s + 0.125 * facc.dot(qr(b, h, i), kr(b, h // (H // HKV), j))
  end)
end
if row "S53" then
  local rel = T("rel", "f32", { 2 * S })
  score(function(s, b, h, i, j) return s + rel[i - j + S] * (H / (8 * (h + 1))) end)
end
if row "S53head" then
  local rel = T("head_rel", "f32", { "H", 2 * S })
  score(function(s, b, h, i, j) return s + rel[h][i - j + S] end)
end
if row "S54" then
  local qs, ks = P("qs", "f32"), P("ks", "f32")
  score(function(s) return s * qs * ks end)
end
if row "S54head" then
  local qs, ks = T("q_scale", "f32", { "B", "H" }), T("k_scale", "f32", { "B", "Hkv" })
  score(function(s, b, h, i, j) return s * qs(b, h) * ks(b, h // (H // HKV)) end)
end
if row "S54block" then
  local qs = T("q_scale", "f32", { "B", "H", S // 64 })
  local ks = T("k_scale", "f32", { "B", "Hkv", S // 128 })
  score(function(s, b, h, i, j)
    return s * qs(b, h, i // 64) * ks(b, h // (H // HKV), j // 128)
  end)
end
if row "S55" then
  local bias, cu, len = T("packed", "f32", { 2 * S }), T("start", "i32", { "B" }),
    T("length", "i32", { "B" })
  score(function(s, b, h, i, j) return s + bias[cu[b] + math.min(j, len[b] - 1)] end)
end
if row "S55row" then
  local bias, cuq = T("packed", "f32", { 2 * S }), T("start", "i32", { "B" })
  score(function(s, b, h, i, j) return s + bias[cuq[b] + i] end)
end
if row "S55both" then
  local bias, cu, len = T("packed", "f32", { 2 * S }), T("start", "i32", { "B" }),
    T("length", "i32", { "B" })
  score(function(s, b, h, i, j)
    return s + bias[cu[b] + math.min(j, len[b] - 1)] + bias[cu[b] + i]
  end)
end
if row "S57" then
  local bias, cuq = T("packed", "f32", { 2 * S }), T("start", "i32", { "B" })
  score(function(s, b, h, i, j)
    return s + 1e-3 * math.abs(i - j) + bias[cuq[b] + i] * (b + 1) * (h + 1) * 1e-3
  end)
end
if row "S58" then
  local bias, cu = T("packed", "f32", { 2 * S }), T("start", "i32", { "B" })
  score(function(s, b, h, i, j)
    local gi, gj = cu[b] + i, cu[b] + j
    if i >= j and math.abs(gi - gj) <= 512 then return s + bias[gj] end
    return -inf
  end)
end
if row "S60" then
  local c = T("per_head", "f32", { "B", "H" })
  score(function(s, b, h) return c(b, h) * s ^ 2 end)
end
if row "S63" then -- the logical position through a page table
  local page, rel = T("page", "i32", { B, S // 16 }), T("rel", "f32", { 2 * S })
  score(function(s, b, h, i, j)
    local p = page(b, j // 16)
    local logical = p * 16 + j % 16
    if p >= 0 and i >= logical then return s + rel[i - logical + S] end
    return -inf
  end)
end

-- ---- beyond the list --------------------------------------------------

if row "t5" then
  local bias = T("t5", "f32", { 32, "H" })
  local function bucket(r)
    local n, side = -r, 0
    if n < 0 then side, n = 16, -n end
    if n < 8 then return side + n end
    local far = math.floor(math.log(n / 8) / math.log(16) * 8 + 1e-3)
    return side + math.min(8 + far, 15)
  end
  score(function(s, b, h, i, j) return s + bias(bucket(j - i), h) end)
end
if row "gelu" then score(function(s) return facc.gelu(s) end) end
if row "gelu_tanh" then score(function(s) return facc.gelu_tanh(s) end) end
if row "silu" then score(function(s) return facc.silu(s) end) end
if row "shapes" then
  score(function(s)
    return facc.softplus(s) + facc.sign(s) / 4 + facc.rcp(2 + s * s) + facc.fma(s, 0.25, 1)
  end)
end
if row "lookup" then
  local slopes, kinds = { 0.5, 0.25, 1, 0.125 }, { -1, 2, 0 }
  score(function(s, b, h, i, j)
    return s - facc.lookup(slopes, h + 1) * math.abs(i - j) / 64 + facc.lookup(kinds, j % 3 + 1)
         + facc.lookup({ s, 2 * s, -s }, i % 4)
  end)
end
if row "relu" then score(function(s) return facc.relu(s) end) end
if row "squared_relu" then score(function(s) return math.max(s, 0.0) ^ 2 end) end
if row "huge" then score(function(s) return facc.floor(s) * 40000.0 end) end
if row "additive_mask" then -- -inf in a tensor, in some rows everywhere
  local bias = T("additive", "f32", { "q", "kv" })
  score(function(s, b, h, i, j) return s + bias[i][j] end)
end
if row "garbage" then -- NaN where a mask is; the file's other mod
  local bias = T("garbage", "f16", { "H", "q", "kv" })
  score(function(s, b, h, i, j) return s * bias[h][i][j] + bias(h, i, j) end)
  mask(causal)
end
if row "garbage_score" then
  local bias = T("garbage", "bf16", { "H", "q", "kv" })
  score(function(s, b, h, i, j) return i >= j and s + bias(h, i, j) or -inf end)
end
if row "nan_rows" then -- NaN of the user's own reaches its rows alone
  local bias = T("nan_row", "f32", { "q" })
  score(function(s, b, h, i, j) return s + bias[i] end)
end
if row "constant" then score(function() return 1.5 end) end
if row "dots" then -- of scope row, column, head and cell, of the same row twice
  local u, v = T("rows", "f32", { "q", 24 }), T("cols", "e5m2", { 24, "kv" })
  local w, x = T("heads", "f32", { "H", 24 }), T("corner", "bf16", { 8, 24 })
  local t = T("turned", "f32", { "kv", 24 })
  score(function(s, b, h, i, j)
    return s + facc.dot(u[i], u[i]) / 64 - facc.dot(t[j], w[h]) / 16 + facc.dot(w[h], w[h])
         + facc.dot(x[(i + j) % 8], u[i]) / 8 + v[3][j] * facc.dot(w[h], u[0])
  end)
end
if row "powers" then
  score(function(s) return s ^ 3 / 64 - s ^ 4 / 512 + (1 + s ^ 2) ^ -1 + math.abs(s) ^ 0.5 end)
end
if row "exponentials" then
  score(function(s, b, h)
    return facc.exp(-s * s) + facc.exp2(s / 4) - math.log(1 + s * s) + facc.log2(2 + math.abs(s))
         + math.log(h + 2, 10)
  end)
end
if row "roots" then
  score(function(s) return facc.sqrt(1 + s * s) + facc.rsqrt(1 + math.abs(s)) + facc.erf(s) end)
end
if row "more_powers" then
  score(function(s, b, h, i, j)
    local x = 0.5 + math.abs(s) / 8
    return x ^ 5 - x ^ -3 + x ^ 8 / 64 + (h - 2) ^ 3 / 8 + x ^ -1 + x ^ 1.5 + x ^ 11 / 512
         + 1 / (1 + ((i - j) / 64) ^ 4)
  end)
end
if row "rounding" then
  score(function(s)
    return s + facc.floor(s * 3) / 16 - facc.ceil(s * 5) / 32 + facc.round(s * 7) / 64
  end)
end
if row "float_floor" then score(function(s) return s // 0.75 / 8 + s % 0.75 - s % -0.75 end) end
if row "bits" then
  local mixed = T("shuffled", "i64", { S })
  score(function(s, b, h, i, j)
    return s + ((i ~ j) & 7) / 8 + ((i | j) >> h & 3) / 4 + (~i & 1) + (mixed[i] << 61 >> 62) / 2
  end)
end
if row "integers" then
  local n = P("W", "i32")
  score(function(s, b, h, i, j)
    local d = j - i
    return s + (d // n + d % n) / 512 + facc.clamp(d // -7, -3, 5) + math.max(d % -n, -4) / 4
  end)
end
if row "float_types" then
  local f16, bf16 = T("number_f16", "f16", { "kv" }), T("number_bf16", "bf16", { "kv" })
  local e4m3, e5m2 = T("number_e4m3", "e4m3", { "kv" }), T("number_e5m2", "e5m2", { "kv" })
  local f8, f32 = T("number_f8", "f8", { "q" }), T("number_f32", "f32", { "q" })
  score(function(s, b, h, i, j)
    return s * f16[j] + bf16[j] - e4m3[j] + e5m2[j] / 2 + f8[i] * f32[i]
  end)
end
if row "int_types" then
  local i8, u8, i16 = T("count_i8", "i8", { S }), T("count_u8", "u8", { S }),
    T("count_i16", "i16", { S })
  local i32, i64, flag = T("count_i32", "i32", { S }), T("count_i64", "i64", { S }),
    T("segment", "bool", { S })
  score(function(s, b, h, i, j)
    local n = i8[j] + u8[j] - i16[i] + i32[j] // 2 + i64[i] % 5
    return s + n / 64 + (flag[j] and 0.5 or -0.25)
  end)
end

-- ---- the standard mods --------------------------------------------------------

if row "alibi" then score(mods.alibi(T("slopes", "f32", { "H" }))) end
if row "alibi_formula" then score(mods.alibi()) end
if row "softcap" then score(mods.softcap(P("c", "f32"))) end
if row "softcap_fast" then score(mods.softcap_fast(30.0)) end
if row "relative_bias" then score(mods.relative_bias(T("near", "f32", { 201 }), 100)) end
if row "t5_bias" then score(mods.t5_bias(T("t5", "f32", { 32, "H" }))) end
if row "compose" then
  score(mods.compose(mods.softcap(15.0), mods.alibi(T("slopes", "f32", { "H" }))))
end
if row "score_and_mask" then
  score(mods.alibi(T("slopes", "f32", { "H" })))
  mask(mods.and_masks(mods.causal, mods.document(T("id", "i32", { S }))))
end

-- ---- expressions in strings -----------------------------------------------------

if row "expression_alibi" then
  T("slopes", "f32", { "H" })
  score "score + slopes[h] * (kv - q)"
end
if row "expression_tanh" then
  P("c", "f32")
  score "c * tanh(score / c) + 0.01 * abs(q - kv)"
end
if row "expression_mask" then
  T("id", "i32", { S })
  score "(q >= kv or id[q] == id[kv]) and score or -math.huge"
end

return facc.attention(chosen)
