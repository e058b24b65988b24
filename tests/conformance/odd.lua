local want = "dot_mask"
-- Odd things that a mod may say: no one's paper, but plain Lua and facc's own
-- words in compositions that the other files don't have. Row by row as they.
local facc = require "facc"
local S, inf = 2048, math.huge
local T, P = facc.tensor, facc.param

local chosen = {}
local function row(name) return name == want end
local function score(f) chosen.score_mod = f end
local function mask(f) chosen.mask_mod = f end

local function causal(b, h, i, j) return i >= j end

-- ---- dots ------------------------------------------------------------------------

if row "dot_mask" then -- a learned gate, of the KV head's keys
  local x, y = T("x", "f32", { "B", "H", "q", 8 }), T("y", "f32", { "B", "Hkv", "kv", 8 })
  mask(function(b, h, i, j) return facc.dot(x(b, h, i), y(b, h // 2, j)) > 0.1 end)
end
if row "dot_twice" then -- the same dot as a gate and, from the other side, in the score
  local x, y = T("x", "bf16", { "B", "H", "q", 16 }), T("y", "bf16", { "B", "Hkv", "kv", 16 })
  score(function(s, b, h, i, j) return s + 0.5 * facc.dot(x(b, h, i), y(b, h // 2, j)) end)
  mask(function(b, h, i, j) return i >= j and facc.dot(y(b, h // 2, j), x(b, h, i)) > -0.75 end)
end
if row "dot_where" then -- not of all cells the same
  local x, y = T("x", "bf16", { "B", "H", "q", 16 }), T("y", "bf16", { "B", "kv", 16 })
  score(function(s, b, h, i, j)
    local d = facc.dot(x(b, h, i), y(b, j))
    return facc.where(i // 16 == j // 16, s + d, s - d / 2)
  end)
end
if row "dot_max" then -- no sum
  local x, y = T("x", "f16", { "H", "q", 24 }), T("y", "f16", { "kv", 24 })
  score(function(s, b, h, i, j) return math.max(s, facc.dot(x(h, i), y(j))) - math.min(s, 0.25) end)
  mask(causal)
end

-- ---- booleans, NaN and infinity -----------------------------------------------------

if row "flags_scores" then
  local on, off, key = T("flag", "bool", {}), T("no_flag", "bool", {}), T("some", "bool", { "B", 1, "kv" })
  score(function(s, b, h, i, j)
    local n = 0
    for _, x in ipairs { on, off, key[b][0][j], i > j, not off } do
      if x then n = n + 1 end
    end
    return s + n / 4
  end)
end
if row "broadcast_bools" then
  local cells, batch = T("some1", "bool", { 1, 1, "q", "kv" }), T("some2", "bool", { "B", 1 })
  local keys = T("some3", "bool", { 1, "kv" })
  mask(function(b, h, i, j) return i == j or cells[0][0][i][j] and (batch[b][0] or keys[0][j]) end)
end
if row "boolean_table" then
  mask(function(b, h, i, j)
    local k = (i % 2 == 0 and 1 or 0) + (j % 2 == 0 and 2 or 0)
    return ({ [0] = i >= j, i < j, i == j, true })[k]
  end)
end
if row "nan_comparisons" then
  local w = T("nan_row", "f32", { S })
  mask(function(b, h, i, j)
    local x = w[j]
    if x ~= x then return i >= j end
    return not (x > 0.5) and not (x <= -0.5) or i == j
  end)
end
if row "nan_behind_where" then
  local w = T("nan_row", "f32", { S })
  score(function(s, b, h, i, j)
    return s + facc.where(w[j] == w[j], math.max(w[j], 0) - math.min(0.25, w[j]), 0)
  end)
end
if row "inf_rows" then -- of tensors and of the mod's own, under a mask
  local gate = T("gate", "f32", { "H", "kv" })
  score(function(s, b, h, i, j) return s + gate[h][j] + (i % 97 == 5 and -inf or 0) end)
  mask(function(b, h, i, j) return (i - j) % 3 ~= 1 end)
end

-- ---- integers ---------------------------------------------------------------------

if row "shift_any" then -- by what a tensor holds, beyond 63 and below 0
  local n = T("zero1", "i32", { S })
  mask(function(b, h, i, j)
    return (i + 1 << (n[j] & 63)) & 0xffff > j or 0xf0f0f0f0f >> n[i] & 1 == 1
  end)
end
if row "shift_signs" then -- of bits that are a sign
  local n = T("zero1", "i8", { S })
  score(function(s, b, h, i, j)
    return s + ((n[i] >> 60) - 8 + (n[j] << 2 & 31)) / 64 + (i - j >> 63) / 4
  end)
end
if row "divide_i64" then
  local t = T("time", "i64", { "B", S })
  mask(function(b, h, i, j)
    return t[b][i] // 86400000 % 2 == 0 and (t[b][i] - t[b][j]) // 5000 % 3 ~= 1
        or t[b][j] % -7000 // 1000 == -3
  end)
end
if row "multiply_i64" then
  local t, u = T("time", "i64", { "B", S }), T("zero1", "i32", { S })
  mask(function(b, h, i, j)
    local function since(k) return facc.clamp(t[b][k] - 1700000000000, 0, 1 << 30) end
    return since(i) * u[j] > since(j) * u[i] or u[i] * u[j] % 11 == 4
  end)
end
if row "bits_i64" then
  local bits = T("bits", "i64", { S })
  mask(function(b, h, i, j)
    return (bits[i] ~ bits[j]) & 0xff < 100 or bits[i] >> (j % 48) & 3 == 2
        or bits[i] & (1 << j % 47) == 0 and j < i
  end)
end
if row "windows_beyond_i32" then
  local w = P("w", "i32")
  mask(function(b, h, i, j)
    return i - j < w * 20000000 and j - i <= math.maxinteger and i < inf and not (j >= 1e18)
       and i - j > -(w << 20) and (i + j) % 2 == 0
  end)
end
if row "products_of_positions" then -- a circle, and below a hyperbola
  mask(function(b, h, i, j) return (i - 260) * (i - 260) + (j - 300) * (j - 300) < 16000 or i * j < 9000 end)
end
if row "products_of_lengths" then -- the diagonal of a rectangle
  mask(function(b, h, i, j)
    return i * facc.len.kv(b) >= j * facc.len.q(b) or j >= facc.len.kv(b) - 20 - i and h > 1
  end)
end
if row "params_everywhere" then
  local w = P("w", "i32")
  mask(function(b, h, i, j)
    local x = facc.clamp(w, -5, 50)
    return i >= j - x and i - j <= x * 7 and (w ~ 0) == w and (i % w == j % w or (i - w) * (j - 9) < w)
  end)
end
if row "collatz" then
  score(function(s, b, h, i, j)
    local x = j
    for _ = 1, 4 do x = facc.where(x % 2 == 0, x // 2, 3 * x + 1) end
    return s - x / 1024
  end)
end
if row "index_of_index" then
  local p, r = T("below32", "i32", { 32 }), T("below32b", "i32", { S })
  mask(function(b, h, i, j) return p[p[p[i % 32]]] >= p[r[j]] or p[(i // p[3] | 1) % 32] == j % 32 end)
end

-- ---- floats -----------------------------------------------------------------------

if row "float_modulo" then -- of both signs, by a tensor's and by the score
  local f = T("shift", "f32", { "H" })
  score(function(s, b, h, i, j)
    return s + s % 0.75 - s % -0.5 + (i - j + 0.1) % (f[h] + 0.25) / 4 + (i - j + 0.1) // -1.5 % 3 / 8 + -s // 0.5 / 4
  end)
end
if row "float_modulo_mask" then
  local c = P("c", "f32")
  mask(function(b, h, i, j) return (i + 0.5) % c < c / 2 and (j + 0.5) // c % 2 == 1 or math.abs(i - j) < c + 0.5 end)
end
if row "float_rounding_mask" then
  mask(function(b, h, i, j)
    return facc.floor(i * 0.37) == facc.floor(j * 0.21) or facc.ceil((i + 0.5) / 7) > facc.round(j / 2.5)
        or facc.round(i / 2 + 0.25) == j
  end)
end
if row "mixed_extrema" then
  local f = T("shift", "f32", { "H" })
  score(function(s, b, h, i, j)
    return s + math.max(i - j, f[h]) / 64 - math.min(3, j / 7, s) + facc.clamp(i, 2.5, 9) / 8
         + facc.clamp(s, -1, h) + math.max(i, j, 3) / 512
  end)
end
if row "clamp_turned" then -- low above high gives high
  score(function(s, b, h, i, j) return s + facc.clamp(i - j, 5, -5) / 4 + facc.clamp(s, 0.5, -0.5) end)
  mask(function(b, h, i, j)
    return facc.clamp(i - j, -20, h * 9) > -20 or facc.clamp(j, i, i - 3) == i - 3 and j % 3 == 0
  end)
end
if row "extrema_of_terms" then
  score(function(s, b, h, i, j)
    return s + facc.max(4, function(k) return (i * k - j) % 5 end) / 4
         - facc.min(4, function(k) return (i * k - j) % 5 + 0.5 end) / 4
         + facc.max(3, function(k) return s * k end)
  end)
end
if row "functions_of_functions" then
  score(function(s, b, h, i, j)
    return facc.softplus(facc.gelu(s) - facc.silu(-s)) * facc.sign(i - j + 0.5)
         + facc.rcp(facc.rsqrt(1 + s * s)) / 4 + facc.fma(s, 2, j / 512)
  end)
end
if row "float_types_mask" then
  local x, y, z = T("x", "f8", { "B", "kv" }), T("y", "e5m2", { S }), T("z", "f16", { "H" })
  mask(function(b, h, i, j) return x[b][j] > y[i] + 0.01 or y[j] * z[h] <= -0.27 end)
end
if row "score_thresholds" then
  score(function(s, b, h, i, j)
    local t = (i + j) % 3 / 2
    if s > t then return s elseif s < -t then return -s / 2 end
    return i >= j and 0 or -inf
  end)
end

-- ---- tensors ----------------------------------------------------------------------

if row "scalar_index" then -- a tensor of rank 0 as an index and in arithmetic
  local n, w = T("three", "i64", {}), T("bias", "f32", { 5, "H" })
  score(function(s, b, h, i, j)
    return s + w[n][h] + w(n, h) - w[n - 1](h) * (n // 2) + n % 2 - n ^ 2 / 16 + -n / 8
  end)
end
if row "partial_chains" then
  local w = T("bias", "f32", { "B", "H", "q", "kv" })
  score(function(s, b, h, i, j)
    local heads = w[b]
    local cells = heads(h)[i]
    return s + cells[j] + w(b)(h, i)[j] - w(0, 1)[i](3)
  end)
end
if row "same_tensor_both" then
  local w = T("weight", "f32", { S })
  score(function(s, b, h, i, j) return s + w[i] * w[j] end)
  mask(function(b, h, i, j) return w[i] <= w[j] + 0.5 or i == j end)
end
if row "nested_tables" then -- of tensors, functions and names
  local x, y, z = T("x", "f32", { "q" }), T("y", "f32", { "kv" }), T("z", "f32", { "H", "kv" })
  local parts = {
    { bias = { q = x, ["k v"] = y }, gain = 2 },
    { bias = { q = x, ["k v"] = function(j) return y(j) * 2 end }, gain = -1 },
  }
  score(function(s, b, h, i, j)
    for _, part in ipairs(parts) do s = s + part.bias.q[i] * part.gain + part.bias["k v"](j) / 4 end
    return s + z[h](j)
  end)
end
if row "packed_local" then -- positions inside a document, in the mask and in the score
  local id, off = T("idb", "i32", { "B", S }), T("offb", "i32", { "B", S })
  local function place(b, i) return i - off(b, id(b, i)) end
  score(function(s, b, h, i, j) return s - math.abs(place(b, i) - place(b, j)) / 64 end)
  mask(function(b, h, i, j)
    local d, e = id(b, i), id(b, j)
    return d == e and place(b, i) // 4 >= place(b, j) // 4 or d > e and place(b, j) < 2
  end)
end
if row "block_map_bias" then -- blocks choose what is added, too
  local map, t = T("some1", "bool", { S // 64, S // 64 }), T("bias", "f32", { S // 64, "H" })
  score(function(s, b, h, i, j)
    local x, y = i // 64, j // 64
    if map[x][y] then return s * 2 + t[x][h] elseif x == y then return s - t[y][h] end
    return -inf
  end)
end
if row "block_list_bias" then
  local list, t = T("below10", "i32", { "B", S // 64, 2 }), T("bias", "f32", { 2, "H" })
  score(function(s, b, h, i, j)
    for k = 0, 1 do
      if list(b, i // 64)[k] == j // 64 then return s + t[k][h] end
    end
    return i == j and s or -inf
  end)
end

-- ---- Lua's own ----------------------------------------------------------------------

if row "sorted_arguments" then
  score(function(...)
    local s, b, h, i, j = ...
    local t = table.pack(i, j, select(-1, ...), h * 100)
    table.sort(t, function(x, y) return x < y end)
    return s + (t[1] - t[t.n]) / 256 + select("#", ...) / 8
  end)
end
if row "any_of_all" then
  mask(function(b, h, i, j)
    return facc.all(3, function(k)
      return facc.any(2, function(l) return (i >> k) % 2 == (j >> l) % 2 end)
    end)
  end)
end
if row "lookup_kinds" then
  score(function(s, b, h, i, j)
    return s + facc.lookup({ 1, 2.5, -3 }, (i - j) % 5) + (facc.lookup({ true, false, i > j }, i % 4) and 0.25 or 0)
  end)
end

return facc.attention(chosen)
